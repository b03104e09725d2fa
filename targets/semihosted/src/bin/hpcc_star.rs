//! The firmware image of HPCC*.
#![no_std]
#![no_main]

semihosted::image!(cc_rp::hpcc_star::HpccStar5, cc_np::echo::Echo);
