//! The firmware image of TIMELY with ternary marks.
#![no_std]
#![no_main]

rv32::image!(cc_rp::timely_tcd::TimelyTcd, cc_np::echo::Echo);
