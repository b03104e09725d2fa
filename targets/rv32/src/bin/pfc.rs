//! The firmware image of plain PFC.
#![no_std]
#![no_main]

rv32::image!(cc_rp::pfc::Pfc, cc_np::echo::Echo);
