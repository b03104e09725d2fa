//! The firmware image of DCQCN.
#![no_std]
#![no_main]

semihosted::image!(cc_rp::dcqcn::Dcqcn, cc_np::dcqcn::Dcqcn);
