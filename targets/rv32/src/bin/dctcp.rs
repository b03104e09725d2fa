//! The firmware image of DCTCP.
#![no_std]
#![no_main]

rv32::image!(cc_rp::dctcp::Dctcp, cc_np::echo::Echo);
