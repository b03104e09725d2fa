//! Builds static libraries from this tree for a target (`librnic_cc.a` for C, and the library of `hil footprint`), and links
//! them to read symbols and sizes from the result.

use crate::header;
use anyhow::{Context, Result, bail, ensure};
use hil_cores::firmware::{self, fault};
use hil_cores::stack::Frames;
use hil_cores::tree;
use hil_sorted::SortedSet;
use object::{Object, ObjectSymbol, SymbolKind};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A static library for a target.
#[derive(Clone, Debug)]
pub struct Archive {
    /// Its path.
    pub path: PathBuf,
    /// Stack bytes of its functions.
    pub frames: Frames,
}

/// Builds the C library for a target.
///
/// # Errors
/// It cannot be built.
pub fn build(target: &str) -> Result<Archive> {
    compile("rnic-cc", target)
}

/// Builds a static library of this tree.
///
/// # Errors
/// It cannot be built, or the compiler does not report the stack use of its functions.
pub(crate) fn compile(package: &str, target: &str) -> Result<Archive> {
    let tree = tree::here()?;
    firmware::add_target(tree.root(), target)?;
    let (mut cargo, built) = firmware::cargo_rustc(tree, package, target);
    let build = cargo
        // Fat LTO works only if the static library is the crate's only type.
        .args(["--crate-type", "staticlib", "--", "-C", "remark=prologepilog"])
        .output()
        .with_context(|| format!("cannot run cargo to build {package}"))?;
    ensure!(build.status.success(), "cannot build {package} for {target}: {}", fault(&build));
    let frames = Frames::from_remarks(&String::from_utf8_lossy(&build.stderr));
    ensure!(!frames.is_empty(), "building {package} for {target}: the compiler made no remarks on stacks");
    let name = format!("lib{}.a", package.replace('-', "_"));
    Ok(Archive { path: built.join(name), frames })
}

impl Archive {
    /// Links an image that contains these symbols, everything that they refer to, and nothing else.
    ///
    /// # Errors
    /// The library cannot be linked (for example because it can panic), or lacks one of the symbols.
    pub fn link(&self, symbols: &[String]) -> Result<Vec<u8>> {
        self.link_with(&["--gc-sections", "--strip-debug", "--emit-relocs"], symbols)
    }

    /// Links an image that contains these symbols, with these options of the linker.
    ///
    /// # Errors
    /// As for [`Archive::link`].
    pub fn link_with(&self, options: &[&str], symbols: &[String]) -> Result<Vec<u8>> {
        let image = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
        let link = Command::new(linker()?)
            .args(["-flavor", "gnu", "-e", "0"])
            .args(options)
            .args(symbols.iter().map(|name| format!("--undefined={name}")))
            .arg(&self.path)
            .arg("-o")
            .arg(image.path())
            .output()
            .context("cannot run rust-lld")?;
        let archive = self.path.display();
        ensure!(link.status.success(), "cannot link {archive}: {}", fault(&link));
        let file = fs::read(image.path()).context("cannot read the linked library")?;
        let linked: SortedSet<&str> = object::File::parse(&*file)?
            .symbols()
            .filter(|symbol| symbol.is_definition())
            .filter_map(|symbol| symbol.name().ok())
            .collect();
        if let Some(missing) = symbols.iter().find(|name| !linked.contains(name.as_str())) {
            bail!("{archive} lacks {missing}");
        }
        Ok(file)
    }
}

/// The demangled names of the functions and data in an image.
///
/// # Errors
/// It is no ELF file.
pub fn names(image: &[u8]) -> Result<SortedSet<String>> {
    let file = object::File::parse(image)?;
    let symbols = file.symbols().filter(|symbol| matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Data));
    let names = symbols.filter_map(|symbol| symbol.name().ok());
    Ok(names.map(|name| format!("{:#}", rustc_demangle::demangle(name))).collect())
}

/// The functions that the header declares for one algorithm, `role` being `rp` or `np`.
pub(crate) fn functions_of(role: &str, algorithm: &str) -> Vec<String> {
    let mark = format!("rnic_{role}_##NAME##_");
    let names = header::HEAD.split(mark.as_str()).skip(1).filter_map(|rest| rest.split_once('('));
    let names = names.map(|(name, _)| name).filter(|name| name.bytes().all(|letter| letter.is_ascii_lowercase()));
    names.map(|name| format!("rnic_{role}_{algorithm}_{name}")).collect()
}

/// All functions that the header declares.
pub fn functions() -> Vec<String> {
    let common = ["rnic_version", "rnic_rp_counter", "rnic_np_counter"].map(str::to_owned);
    let rp = cc_rp::registry::ALL.iter().flat_map(|entry| functions_of("rp", entry.name));
    let np = cc_np::registry::ALL.iter().flat_map(|entry| functions_of("np", entry.name));
    common.into_iter().chain(rp).chain(np).collect()
}

/// The path of the linker that comes with the compiler, which supports all of its targets.
fn linker() -> Result<PathBuf> {
    let rustc = Command::new("rustc").current_dir(tree::here()?.root()).args(["--print", "sysroot"]).output();
    let rustc = rustc.context("cannot run rustc to find its linker")?;
    let hosts = Path::new(String::from_utf8_lossy(&rustc.stdout).trim()).join("lib/rustlib");
    fs::read_dir(&hosts)
        .with_context(|| hosts.display().to_string())?
        .filter_map(|host| Some(host.ok()?.path().join("bin/rust-lld")))
        .find(|path| path.is_file())
        .with_context(|| format!("no rust-lld below {}", hosts.display()))
}
