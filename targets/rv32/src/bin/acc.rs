//! The firmware image of ACC.
#![no_std]
#![no_main]

rv32::image!(cc_rp::acc::Acc, cc_np::echo::Echo);
