//! The firmware image of DCQCN with TCD's marks.
#![no_std]
#![no_main]

semihosted::image!(cc_rp::dcqcn_tcd::DcqcnTcd, cc_np::dcqcn_tcd::DcqcnTcd);
