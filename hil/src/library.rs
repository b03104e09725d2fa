//! The C library, `librnic_cc.a`: built from this tree for a target, and linked to see what is in it.

use crate::firmware::{self, fault};
use crate::header;
use anyhow::{Context, Result, bail, ensure};
use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the library for a target, and says where it lies.
///
/// # Errors
/// It cannot be built.
pub fn build(target: &str) -> Result<PathBuf> {
    firmware::add_target(firmware::root(), target)?;
    let directory = firmware::target_directory("firmware");
    let build = Command::new(firmware::cargo())
        .current_dir(firmware::root())
        // Fat LTO takes a static library, and no crate that has another type beside it.
        .args(["rustc", "--quiet", "--package", "rnic-cc", "--crate-type", "staticlib"])
        .args(["--profile", "firmware", "--target", target, "--target-dir"])
        .arg(&directory)
        .output()
        .context("cannot run cargo to build the C library")?;
    ensure!(build.status.success(), "cannot build the C library for {target}: {}", fault(&build));
    Ok(directory.join(target).join("firmware/librnic_cc.a"))
}

/// Names, demangled, of all that an image holds which calls these functions of the library and nothing else.
///
/// # Errors
/// The library cannot be linked, which is so where it can panic, or lacks one of the functions.
pub fn linked(library: &Path, functions: &[String]) -> Result<BTreeSet<String>> {
    let image = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    let link = Command::new(linker()?)
        .args(["-flavor", "gnu", "--gc-sections", "-e", "0"])
        .args(functions.iter().map(|name| format!("--undefined={name}")))
        .arg(library)
        .arg("-o")
        .arg(image.path())
        .output()
        .context("cannot run rust-lld")?;
    ensure!(link.status.success(), "cannot link {}: {}", library.display(), fault(&link));
    let names = names(image.path())?;
    if let Some(missing) = functions.iter().find(|name| !names.contains(*name)) {
        bail!("{} lacks {missing}, which the header declares", library.display());
    }
    Ok(names)
}

/// Names, demangled, of the functions and variables of a linked image, whatever it is for.
///
/// # Errors
/// The file cannot be read, or is none.
pub fn names(image: &Path) -> Result<BTreeSet<String>> {
    let file = fs::read(image).with_context(|| image.display().to_string())?;
    let names = object::File::parse(&*file)?
        .symbols()
        .filter(|symbol| matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Data))
        .filter_map(|symbol| symbol.name().ok())
        .map(|name| format!("{:#}", rustc_demangle::demangle(name)))
        .collect();
    Ok(names)
}

/// All functions that the header declares.
pub fn functions() -> Vec<String> {
    let of = |role: &str, algorithm: &str| {
        let mark = format!("rnic_{role}_##NAME##_");
        let names = header::HEAD.split(mark.as_str()).skip(1).filter_map(|rest| rest.split_once('('));
        let names = names.map(|(name, _)| name).filter(|name| name.bytes().all(|letter| letter.is_ascii_lowercase()));
        names.map(|name| format!("rnic_{role}_{algorithm}_{name}")).collect::<Vec<_>>()
    };
    let common = ["rnic_version", "rnic_rp_counter", "rnic_np_counter"].map(str::to_owned);
    let rp = cc_rp::registry::ALL.iter().flat_map(|entry| of("rp", entry.name));
    let np = cc_np::registry::ALL.iter().flat_map(|entry| of("np", entry.name));
    common.into_iter().chain(rp).chain(np).collect()
}

/// The linker that comes with the compiler and knows all of its targets.
fn linker() -> Result<PathBuf> {
    let rustc = Command::new("rustc").current_dir(firmware::root()).args(["--print", "sysroot"]).output();
    let rustc = rustc.context("cannot run rustc to find its linker")?;
    let hosts = Path::new(String::from_utf8_lossy(&rustc.stdout).trim()).join("lib/rustlib");
    fs::read_dir(&hosts)
        .with_context(|| hosts.display().to_string())?
        .filter_map(|host| Some(host.ok()?.path().join("bin/rust-lld")))
        .find(|path| path.is_file())
        .with_context(|| format!("no rust-lld below {}", hosts.display()))
}
