//! The firmware image of Swing's relays.
#![no_std]
#![no_main]

rv32::stage!(cc_cp::swing::Relays);
