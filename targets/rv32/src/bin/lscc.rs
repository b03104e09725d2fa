//! The firmware image of LSCC's two stages on one switch: rate calculation for the long links that arrive at it, and rate
//! limiting for the sources of the long links that leave it.
#![no_std]
#![no_main]

use cc_cp::lscc::{rate_calculation::RateCalculation, rate_limiting::RateLimiting};

rv32::stage!(lscc: cc_cp::Chain<RateCalculation, RateLimiting>);
