//! The firmware image of RCC's sender variant.
#![no_std]
#![no_main]

semihosted::image!(cc_rp::rcc_sender::RccSender, cc_np::rcc_sender::RccSender);
