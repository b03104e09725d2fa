//! Helpers of the tests in `tests/tests`, each of which exercises several crates of the project.

pub mod api;
pub mod decisions;

use std::path::PathBuf;

/// The path of the sample capture, which `hil synth tests/data/incast.pcapng --duration 800` wrote.
pub fn sample() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/incast.pcapng")
}
