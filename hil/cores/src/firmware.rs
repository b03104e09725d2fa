//! The firmware images, one for each algorithm: built from this tree, or given.

use crate::core::Dialect;
use crate::elf::Image;
use crate::stack::Frames;
use anyhow::{Context, Result, bail, ensure};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The bare-metal targets, as the toolchain file lists them.
pub const TARGETS: [&str; 7] = [
    "riscv32imc-unknown-none-elf",
    "riscv32i-unknown-none-elf",
    "riscv64imac-unknown-none-elf",
    "thumbv6m-none-eabi",
    "thumbv7m-none-eabi",
    "thumbv7em-none-eabi",
    "aarch64-unknown-none",
];

/// The package of the images that the core models run.
const RV32: &str = "rv32";
/// What they are compiled for.
const TARGET: &str = "riscv32imc-unknown-none-elf";

/// The image in this file, or, without one, that of this algorithm for cores with machine mode, which this tree builds.
///
/// # Errors
/// There is none for the algorithm, it cannot be built or read, or the file is no image.
pub fn image(given: Option<&Path>, algorithm: &str) -> Result<Image> {
    match given {
        Some(path) => read(path),
        None => read(&build(algorithm, Kind::Inlining, Dialect::Machine)?),
    }
}

/// What becomes of the machine's `on` in an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It is part of whatever handles an event. This is the image that would ship, by which all else is measured.
    Inlining,
    /// It is a function that is called, by which it is measured itself.
    OutlinedOn,
    /// As the first, in an image that logs, see [`crate::log`].
    Logging,
}

/// The image in a file.
///
/// # Errors
/// The file cannot be read, or is no image.
pub fn read(path: &Path) -> Result<Image> {
    let file = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Image::parse(&file).with_context(|| path.display().to_string())
}

/// Whether this tree has an image for an algorithm.
pub fn has_image(algorithm: &str) -> bool {
    source(root(), RV32, algorithm).is_file()
}

/// The source tree.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The file that makes an algorithm's image.
fn source(root: &Path, package: &str, algorithm: &str) -> PathBuf {
    root.join("targets").join(package).join("src/bin").join(algorithm).with_extension("rs")
}

/// Builds an algorithm's image for cores of a dialect, and says where it lies.
///
/// # Errors
/// There is none for the algorithm, or it cannot be built.
pub fn build(algorithm: &str, kind: Kind, dialect: Dialect) -> Result<PathBuf> {
    compile(algorithm, kind, dialect).map(|(path, _)| path)
}

/// As [`build`], and says also what the functions of the image take of the stack.
///
/// # Errors
/// As for [`build`].
pub fn compile(algorithm: &str, kind: Kind, dialect: Dialect) -> Result<(PathBuf, Frames)> {
    // In folders of their own, so that the build does not wait for one that waits for it.
    let (folder, features) = match (dialect, kind) {
        (Dialect::Machine, Kind::Inlining) => ("firmware", "machine"),
        (Dialect::Machine, Kind::OutlinedOn) => ("firmware-outlined_on", "machine,outlined_on"),
        (Dialect::Machine, Kind::Logging) => ("firmware-logging", "machine,log"),
        (Dialect::Picorv32, Kind::Logging) => ("firmware-picorv32-logging", "picorv32,log"),
        (Dialect::Picorv32, Kind::Inlining) => ("firmware-picorv32", "picorv32"),
        (Dialect::Picorv32, Kind::OutlinedOn) => ("firmware-picorv32-outlined_on", "picorv32,outlined_on"),
        (Dialect::Vexriscv, Kind::Inlining) => ("firmware-vexriscv", "vexriscv"),
        (Dialect::Vexriscv, Kind::Logging) => ("firmware-vexriscv-logging", "vexriscv,log"),
        (Dialect::Vexriscv, Kind::OutlinedOn) => ("firmware-vexriscv-outlined_on", "vexriscv,outlined_on"),
    };
    build_in(folder, RV32, &["--no-default-features", "--features", features], algorithm, TARGET)
}

/// Builds an algorithm's image that talks to its host by semihosting, for one of its package's targets, and says where it
/// lies.
///
/// # Errors
/// As for [`build`].
pub fn build_semihosted(algorithm: &str, target: &str) -> Result<PathBuf> {
    build_in("firmware-semihosted", "semihosted", &[], algorithm, target).map(|(path, _)| path)
}

fn build_in(
    folder: &str,
    package: &str,
    features: &[&str],
    algorithm: &str,
    target: &str,
) -> Result<(PathBuf, Frames)> {
    let root = root();
    ensure!(
        root.join("targets").join(package).join("Cargo.toml").is_file(),
        "the source tree is not at {} any more: give the firmware with --firmware ELF",
        root.display()
    );
    ensure!(
        source(root, package, algorithm).is_file(),
        "no firmware image for {algorithm}: expected {}",
        source(Path::new(""), package, algorithm).display()
    );
    add_target(root, target)?;
    let (mut cargo, built) = cargo_rustc(folder, package, target);
    let build = cargo
        // The levels that defmt compiles in; the user's word counts more.
        .env("DEFMT_LOG", env::var_os("DEFMT_LOG").unwrap_or_else(|| "trace".into()))
        .args(["--bin", algorithm])
        .args(features)
        // For whoever wants to know what stack it needs: what functions take, and who calls whom.
        .args(["--", "-C", "remark=prologepilog", "-C", "link-arg=--emit-relocs"])
        .output()
        .context("cannot run cargo to build the firmware: give it with --firmware ELF")?;
    ensure!(build.status.success(), "cannot build the firmware: {}", fault(&build));
    let frames = Frames::from_remarks(&String::from_utf8_lossy(&build.stderr));
    Ok((built.join(algorithm), frames))
}

/// Cargo on its way to build a package for firmware, in a folder of its own, and where it puts what it makes.
pub fn cargo_rustc(folder: &str, package: &str, target: &str) -> (Command, PathBuf) {
    let directory = target_directory(folder);
    let mut rustc = Command::new(cargo());
    rustc.current_dir(root()).args(["rustc", "--quiet", "--package", package]);
    rustc.args(["--profile", "firmware", "--target", target, "--target-dir"]).arg(&directory);
    (rustc, directory.join(target).join("firmware"))
}

/// Installs the standard library for a target, if the compiler of the tree at `root` has none.
///
/// # Errors
/// It has none, and rustup cannot install it.
pub fn add_target(root: &Path, target: &str) -> Result<()> {
    let rustc = Command::new("rustc").current_dir(root).args(["--print", "target-libdir", "--target", target]).output();
    let rustc = rustc.context("cannot run rustc to build the firmware: give it with --firmware ELF")?;
    if Path::new(String::from_utf8_lossy(&rustc.stdout).trim()).is_dir() {
        return Ok(());
    }
    let added = Command::new("rustup").current_dir(root).args(["target", "add", target]).output();
    match added {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => bail!("rustup target add {target} failed: {}", fault(&output)),
        Err(_) => {
            bail!("the compiler has no standard library for {target}: expected rustup target add {target} to work")
        }
    }
}

/// Where cargo puts what it builds for this purpose.
fn target_directory(folder: &str) -> PathBuf {
    let root = root();
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path)).join(folder)
}

/// The cargo that runs us, or the first in the path.
fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The first line of a tool's complaint.
pub fn fault(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.starts_with("error")).or_else(|| text.lines().next());
    line.unwrap_or("it gave no reason").to_owned()
}
