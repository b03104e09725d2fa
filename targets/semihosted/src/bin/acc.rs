//! The firmware image of ACC.
#![no_std]
#![no_main]

semihosted::image!(cc_rp::acc::Acc, cc_np::echo::Echo);
