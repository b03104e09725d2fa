//! The firmware image of HPCC.
#![no_std]
#![no_main]

semihosted::image!(cc_rp::hpcc::Hpcc5, cc_np::echo::Echo);
