//! Gives the crate the hash of the sources that it is built from.

#[path = "sources.rs"]
mod sources;

use std::env;
use std::path::PathBuf;

fn main() {
    // Read when the script runs, not when it is compiled: a shared target folder may hold a script compiled in another tree.
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let root = package.join("../..");
    for part in sources::PARTS {
        println!("cargo:rerun-if-changed={}", root.join(part).display());
    }
    let hash = sources::hash(&root, &sources::PARTS)
        .unwrap_or_else(|error| panic!("cannot read the sources of firmware: {error}"));
    println!("cargo:rustc-env=RNIC_CC_SOURCES={hash:016x}");
}
