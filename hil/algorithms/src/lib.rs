//! The algorithms by name, and their settings. The only part of the harness that is generic over algorithms for others.
#![forbid(unsafe_code)]

pub mod registry;
pub mod settings;
