//! The host harness of rnic-cc, as a library: see the program of the same name.
#![forbid(unsafe_code)]

pub mod core;
pub mod crc;
