//! Measures the library and its images: cycles and memory. Also compares the decisions of library and images on random traffic,
//! and those of the library and firmware in C.
#![forbid(unsafe_code)]

pub mod c_comparison;
pub mod c_firmware;
pub mod cycles;
pub mod footprint;
pub mod header;
pub mod library;
pub mod random_traffic;
pub mod stage_cycles;
