//! The algorithms by name, their settings, and NICs that run them. The only part of the harness that is generic over algorithms
//! for others: what is compiled once for each of them is here, and all else works on [`Algorithm`].
#![forbid(unsafe_code)]

mod algorithm;
mod nics;
mod quantity;
pub mod registry;
pub mod settings;
mod settings_table;
mod vendor;

pub use algorithm::{Algorithm, algorithm};
pub use nics::{NicCounters, NicGroup, NicOutput};
pub use programs::{Received, RxFields};
