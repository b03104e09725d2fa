//! The firmware image of LSCC's rate calculation.
#![no_std]
#![no_main]

rv32::stage!(rv32::programs::switch::lscc_rate_calculation::Calculation);
