//! The firmware image of RED.
#![no_std]
#![no_main]

rv32::stage!(cc_cp::red::Red);
