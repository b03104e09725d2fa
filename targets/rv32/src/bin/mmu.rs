//! The firmware image of the shared buffer.
#![no_std]
#![no_main]

rv32::stage!(cc_cp::mmu::Mmu);
