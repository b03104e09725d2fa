//! The firmware image of in-band telemetry.
#![no_std]
#![no_main]

rv32::stage!(cc_cp::int::IntPush);
