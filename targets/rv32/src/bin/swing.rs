//! The firmware image of Swing's relays.
#![no_std]
#![no_main]

rv32::stage!(rv32::programs::switch::swing::Relays);
