//! The firmware image of LSCC's rate limiting.
#![no_std]
#![no_main]

rv32::stage!(rv32::programs::switch::lscc_rate_limiting::Limiting);
