//! The firmware image of TCD.
#![no_std]
#![no_main]

rv32::stage!(cc_cp::tcd::Tcd);
