//! The algorithms by name, their settings, and NICs that run them. Code that is compiled once for each algorithm is in this
//! crate; the rest of the harness works on the trait [`Algorithm`].
#![forbid(unsafe_code)]

mod algorithm;
mod nics;
pub mod quantity;
pub mod registry;
pub mod settings;
mod settings_table;
mod stage;
mod vendor;

pub use algorithm::{Algorithm, algorithm};
pub use nics::{CoreUse, Lost, NicCounters, NicGroup, NicOutput, NicSize};
pub use programs::{Received, RxFields};
pub use stage::stage;
