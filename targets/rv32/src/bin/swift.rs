//! The firmware image of Swift.
#![no_std]
#![no_main]

rv32::image!(cc_rp::swift::Swift, cc_np::echo::Echo);
