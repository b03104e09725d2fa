//! Cross-crate tests of rnic-cc: each file of `tests/tests` is one of them.

pub mod api;
pub mod decisions;

use std::path::PathBuf;

/// The sample that the project carries; `hil synth tests/data/incast.pcapng --duration 800` makes it.
pub fn sample() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/incast.pcapng")
}
