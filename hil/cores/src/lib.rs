//! Processor cores (models, RTL, QEMU), the board around them, firmware images, and the recording of what an image does.
//! Independent of the algorithms.
#![forbid(unsafe_code)]

pub mod any_core;
pub mod board;
pub mod core;
pub mod elf;
pub mod firmware;
pub mod interrupts;
pub mod log;
pub mod observed_core;
pub mod probe;
pub mod processor;
pub mod qemu;
pub mod random;
pub mod rtl;
pub mod stack;
pub mod tree;
pub mod wave;
