//! The firmware image of the shared buffer.
#![no_std]
#![no_main]

rv32::stage!(rv32::programs::switch::mmu::Buffer);
