//! The firmware image of LSCC's rate limiting.
#![no_std]
#![no_main]

rv32::stage!(cc_cp::lscc::rate_limiting::RateLimiting);
