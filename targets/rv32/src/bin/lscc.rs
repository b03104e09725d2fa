//! The firmware image of LSCC's two stages on one switch: it calculates the rate of the long links that come in, and limits
//! the sources of those that go out.
#![no_std]
#![no_main]

use cc_cp::lscc::{rate_calculation::RateCalculation, rate_limiting::RateLimiting};

rv32::stage!(lscc: cc_cp::Chain<RateCalculation, RateLimiting>);
