//! The firmware image of RED.
#![no_std]
#![no_main]

rv32::stage!(rv32::programs::switch::marking::Red);
