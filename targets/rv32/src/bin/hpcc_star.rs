//! The firmware image of HPCC*.
#![no_std]
#![no_main]

rv32::image!(cc_rp::hpcc_star::HpccStar5, cc_np::echo::Echo);
