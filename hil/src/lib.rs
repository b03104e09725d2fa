//! The host harness of rnic-cc, as a library: see the program of the same name.
#![forbid(unsafe_code)]

pub mod against;
pub mod board;
pub mod c_firmware;
pub mod capture;
pub mod core;
pub mod crc;
pub mod cycles;
pub mod elf;
pub mod fabric;
pub mod firmware;
pub mod footprint;
pub mod header;
pub mod instruments;
pub mod interrupts;
pub mod library;
pub mod log;
pub mod pairs;
pub mod probe;
pub mod processor;
pub mod qemu;
pub mod random;
pub mod replay;
pub mod rtl;
pub mod stages;
pub mod storm;
pub mod wave;
