//! A hash of source files in a source tree. `build.rs` of this package writes that of firmware into every program, and the harness
//! compares it with that of the tree that it works on. `build.rs` of the simulator adds its own sources.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files and folders at the top of the tree with the sources of firmware.
pub(crate) const PARTS: [&str; 8] =
    ["Cargo.lock", "Cargo.toml", "rust-toolchain.toml", "cc-core", "cc-cp", "cc-np", "cc-rp", "targets"];

/// Endings of the files in these folders that matter: Rust, assembler, linker scripts, C, manifests.
const ENDINGS: [&str; 8] = ["rs", "s", "S", "x", "ld", "c", "h", "toml"];

/// The hash (FNV-1a, 64 bits) of the paths and contents of these files and folders, without tests, of the tree at `root`.
///
/// # Errors
/// One of them cannot be read.
pub(crate) fn hash(root: &Path, parts: &[&str]) -> io::Result<u64> {
    let mut files = Vec::new();
    for part in parts {
        let path = root.join(part);
        if path.is_dir() { collect(&path, &mut files)? } else { files.push(path) }
    }
    files.sort();
    let mut hash = Fnv::new();
    for path in files {
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        let text = fs::read(&path)?;
        hash.update(name.as_bytes());
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(&text);
    }
    Ok(hash.0)
}

/// The files that matter below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if !["target", "tests"].iter().any(|name| path.ends_with(name)) {
                collect(&path, files)?;
            }
        } else if path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known)) {
            files.push(path);
        }
    }
    Ok(())
}

/// The hash of Fowler, Noll and Vo, variant 1a: RFC 9923.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn update(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
