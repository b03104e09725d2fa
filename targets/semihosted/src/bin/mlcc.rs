//! The firmware image of MLCC.
#![no_std]
#![no_main]

semihosted::image!(cc_rp::mlcc::Mlcc, cc_np::mlcc::Mlcc16);
