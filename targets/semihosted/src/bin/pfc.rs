//! The firmware image of plain PFC.
#![no_std]
#![no_main]

semihosted::image!(cc_rp::pfc::Pfc, cc_np::echo::Echo);
