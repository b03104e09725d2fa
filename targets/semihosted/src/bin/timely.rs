//! The firmware image of TIMELY.
#![no_std]
#![no_main]

semihosted::image!(cc_rp::timely::Timely, cc_np::echo::Echo);
