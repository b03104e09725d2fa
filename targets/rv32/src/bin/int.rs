//! The firmware image of in-band telemetry.
#![no_std]
#![no_main]

rv32::stage!(rv32::programs::switch::marking::Int);
