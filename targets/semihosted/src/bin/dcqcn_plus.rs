//! The firmware image of DCQCN+.
#![no_std]
#![no_main]

semihosted::image!(cc_rp::dcqcn_plus::DcqcnPlus, cc_np::dcqcn_plus::DcqcnPlus);
