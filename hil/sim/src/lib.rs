//! Simulated networks: hosts, links and switches, driven by one event queue. The NICs and the congestion points of the switches
//! are the library's own engines; only links, queues, transport and applications are simulated.
//!
//! [`fabric`] simulates any topology and workload. Time is integer picoseconds, and events of one time are ordered by what they
//! mean and where they happen. [`incast`] is the scenario of `hil synth`, from which the sample capture of the project is made.
#![forbid(unsafe_code)]

pub mod dependencies;
pub mod distributions;
pub mod effective;
pub mod fabric;
mod htsim;
pub mod incast;
pub mod input;
pub mod interval;
pub mod marking;
pub mod named;
pub mod ns3;
pub mod overrides;
mod packet;
pub mod plot;
pub mod pool;
pub mod scenario;
pub mod source;
pub mod summary;
pub mod topologies;
pub mod workload;

use anyhow::Result;
use cc_core::Instant;
use std::path::Path;

/// Reads a scenario if the file's extension is `toml`, otherwise a configuration of HPCC's ns-3, and the files that it names, by
/// paths relative to its own folder. A seed replaces that of a scenario.
///
/// # Errors
/// A file that cannot be read, a value that is not what its key expects (with file, line and place), and what cannot be simulated.
pub fn read(path: &Path, seed: Option<u64>) -> Result<input::Input> {
    if is_scenario(path) { scenario::parse(&source::Source::read(path)?, seed) } else { ns3::read(path, seed) }
}

/// Whether a file is a scenario, by its extension.
pub fn is_scenario(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

/// The hash of the sources that decide the results of a simulation, in hexadecimal digits: those of this crate and of all that it uses.
pub const SOURCES: &str = env!("HIL_SIM_SOURCES");

/// Picoseconds since the start of the run; 213 days fit.
pub type Picos = u64;

/// The time that is passed to the engines, in whole nanoseconds, rounded down.
fn instant(now: Picos) -> Instant {
    Instant::from_nanos(now / 1_000)
}
