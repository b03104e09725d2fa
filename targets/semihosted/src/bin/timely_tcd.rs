//! The firmware image of TIMELY with TCD's marks.
#![no_std]
#![no_main]

semihosted::image!(cc_rp::timely_tcd::TimelyTcd, cc_np::echo::Echo);
