//! The firmware image of MLCC's near-source loop.
#![no_std]
#![no_main]

rv32::stage!(rv32::programs::switch::mlcc_near_source::NearSource);
