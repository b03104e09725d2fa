//! The firmware image of TCD.
#![no_std]
#![no_main]

rv32::stage!(rv32::programs::switch::marking::Tcd);
