//! The firmware image of DCTCP.
#![no_std]
#![no_main]

semihosted::image!(cc_rp::dctcp::Dctcp, cc_np::echo::Echo);
