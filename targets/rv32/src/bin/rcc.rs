//! The firmware image of RCC.
#![no_std]
#![no_main]

rv32::image!(cc_rp::rcc::Rcc, cc_np::rcc::Rcc);
