//! The firmware image of LSCC's rate calculation.
#![no_std]
#![no_main]

rv32::stage!(cc_cp::lscc::rate_calculation::RateCalculation);
