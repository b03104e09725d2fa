//! Gives the crate the hash of everything that decides the results of a simulation.

#[path = "../../targets/programs/sources.rs"]
mod sources;

use std::env;
use std::path::PathBuf;

/// What belongs to the simulator beside the sources of firmware: this crate and those of `hil` that it depends on.
const PARTS: [&str; 5] = ["hil/algorithms/src", "hil/capture/src", "hil/cores/src", "hil/devices/src", "hil/sim/src"];

fn main() {
    // Read when the script runs, not when it is compiled: a shared target folder may hold a script compiled in another tree.
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let root = package.join("../..");
    let parts = [sources::PARTS.as_slice(), &PARTS].concat();
    for part in &parts {
        println!("cargo:rerun-if-changed={}", root.join(part).display());
    }
    let hash = sources::hash(&root, &parts).unwrap_or_else(|error| panic!("cannot read the sources: {error}"));
    println!("cargo:rustc-env=HIL_SIM_SOURCES={hash:016x}");
}
