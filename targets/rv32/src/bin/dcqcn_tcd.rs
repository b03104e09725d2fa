//! The firmware image of DCQCN with ternary marks.
#![no_std]
#![no_main]

rv32::image!(cc_rp::dcqcn_tcd::DcqcnTcd, cc_np::dcqcn_tcd::DcqcnTcd);
