//! The firmware image of RCC.
#![no_std]
#![no_main]

semihosted::image!(cc_rp::rcc::Rcc, cc_np::rcc::Rcc);
