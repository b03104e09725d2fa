//! The firmware image of MLCC's near-source loop.
#![no_std]
#![no_main]

rv32::stage!(cc_cp::mlcc::near_source::NearSource);
