//! The firmware image of TIMELY.
#![no_std]
#![no_main]

rv32::image!(cc_rp::timely::Timely, cc_np::echo::Echo);
