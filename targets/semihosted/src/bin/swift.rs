//! The firmware image of Swift.
#![no_std]
#![no_main]

semihosted::image!(cc_rp::swift::Swift, cc_np::echo::Echo);
