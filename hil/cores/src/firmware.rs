//! The firmware images, one for each algorithm: built from this tree, or given.

use crate::core::Dialect;
use crate::elf::Image;
use crate::stack::Frames;
use crate::tree::{self, Tree};
use anyhow::{Context, Result, bail, ensure};
use object::{Object, ObjectSection};
use programs::{SOURCES, SOURCES_SECTION};
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
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
/// With which profile.
const PROFILE: &str = "firmware";

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

/// The image in a file, if it is built from the sources that this harness is built from.
///
/// # Errors
/// The file cannot be read, or is no image, or one of other sources.
pub fn read(path: &Path) -> Result<Image> {
    let image = read_any(path)?;
    check_sources(path)?;
    Ok(image)
}

/// The image in a file, whatever it is built from.
///
/// # Errors
/// The file cannot be read, or is no image.
pub fn read_any(path: &Path) -> Result<Image> {
    let file = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Image::parse(&file).with_context(|| path.display().to_string())
}

/// Refuses an image that is not built from the sources that this harness is built from: the two would not be expected to
/// decide alike, and what is measured of one would be told of the other.
///
/// # Errors
/// It is not, or does not say from which, or is no ELF file.
pub fn check_sources(image: &Path) -> Result<()> {
    let file = fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
    let elf = object::File::parse(&*file).with_context(|| format!("{}: expected an ELF file", image.display()))?;
    let section = elf.section_by_name(SOURCES_SECTION).and_then(|section| section.data().ok());
    let found = section.with_context(|| {
        format!("{}: expected an image of rnic-cc, which has a section {SOURCES_SECTION}", image.display())
    })?;
    ensure!(
        found == SOURCES,
        "{}: built from other sources (hash {}) than this hil (hash {}): build both from one tree",
        image.display(),
        String::from_utf8_lossy(found),
        String::from_utf8_lossy(&SOURCES)
    );
    Ok(())
}

/// Whether the tree has an image for an algorithm.
///
/// # Errors
/// There is no tree.
pub fn has_image(algorithm: &str) -> Result<bool> {
    Ok(tree::here()?.root().join(source(RV32, algorithm)).is_file())
}

/// The file that makes an algorithm's image.
fn source(package: &str, algorithm: &str) -> PathBuf {
    Path::new("targets").join(package).join("src/bin").join(algorithm).with_extension("rs")
}

/// An image that was built.
#[derive(Clone, Debug)]
pub struct Built {
    /// Where it lies.
    pub path: PathBuf,
    /// What its functions take of the stack.
    pub frames: Frames,
}

/// Builds an algorithm's image for cores of a dialect, and says where it lies.
///
/// # Errors
/// There is no tree, or no image for the algorithm, or it cannot be built.
pub fn build(algorithm: &str, kind: Kind, dialect: Dialect) -> Result<PathBuf> {
    compile(here()?, algorithm, kind, dialect).map(|built| built.path)
}

/// As [`build`], from this tree.
///
/// # Errors
/// As for [`build`].
pub fn compile(tree: &Tree, algorithm: &str, kind: Kind, dialect: Dialect) -> Result<Built> {
    let board = match dialect {
        Dialect::Machine => "machine",
        Dialect::Picorv32 => "picorv32",
        Dialect::Vexriscv => "vexriscv",
    };
    let features = match kind {
        Kind::Inlining => board.to_owned(),
        Kind::OutlinedOn => format!("{board},outlined_on"),
        Kind::Logging => format!("{board},log"),
    };
    build_in(tree, RV32, &["--no-default-features", "--features", &features], &features, algorithm, TARGET)
}

/// Builds an algorithm's image that talks to its host by semihosting, for one of its package's targets, and says where it
/// lies.
///
/// # Errors
/// As for [`build`].
pub fn build_semihosted(algorithm: &str, target: &str) -> Result<PathBuf> {
    build_in(here()?, "semihosted", &[], target, algorithm, target).map(|built| built.path)
}

/// The tree, for images.
fn here() -> Result<&'static Tree> {
    tree::here().context("no firmware image: give it with --firmware ELF")
}

/// Builds an image and keeps a copy of it in a folder of its kind: all kinds are built in one folder, where what does not
/// depend on the kind is compiled once, and where Cargo puts the images of an algorithm in one place.
fn build_in(tree: &Tree, package: &str, features: &[&str], kind: &str, algorithm: &str, target: &str) -> Result<Built> {
    let file = source(package, algorithm);
    ensure!(tree.root().join(&file).is_file(), "no firmware image for {algorithm}: expected {}", file.display());
    add_target(tree.root(), target)?;
    let (mut cargo, built) = cargo_rustc(tree, package, target);
    let folder = tree.firmware(PROFILE);
    let images = folder.join("images").join(kind);
    let kept = images.join(algorithm);
    let failed = || format!("{}: cannot keep the image", kept.display());
    fs::create_dir_all(&images).with_context(failed)?;
    // Whoever builds here at the same time waits until the copy is made.
    let lock = File::create(folder.join("images/lock")).with_context(failed)?;
    lock.lock().with_context(failed)?;
    let build = cargo
        // The levels that defmt compiles in; the user's word counts more.
        .env("DEFMT_LOG", env::var_os("DEFMT_LOG").unwrap_or_else(|| "trace".into()))
        .args(["--bin", algorithm])
        .args(features)
        // What functions take of the stack, and who calls whom.
        .args(["--", "-C", "remark=prologepilog", "-C", "link-arg=--emit-relocs"])
        .output()
        .context("cannot run cargo to build the firmware: give it with --firmware ELF")?;
    ensure!(build.status.success(), "cannot build the firmware: {}", fault(&build));
    let frames = Frames::from_remarks(&String::from_utf8_lossy(&build.stderr));
    // Put in place at once: another process may be reading the copy that is there.
    let copy = images.join(format!("{algorithm}.new"));
    fs::copy(built.join(algorithm), &copy).and_then(|_| fs::rename(&copy, &kept)).with_context(failed)?;
    Ok(Built { path: kept, frames })
}

/// Cargo on its way to build a package of a tree for firmware, and where it puts what it makes.
pub fn cargo_rustc(tree: &Tree, package: &str, target: &str) -> (Command, PathBuf) {
    let directory = tree.firmware(PROFILE);
    let mut rustc = Command::new(cargo());
    rustc.current_dir(tree.root()).args(["rustc", "--quiet", "--package", package]);
    rustc.args(["--profile", PROFILE, "--target", target, "--target-dir"]).arg(&directory);
    (rustc, directory.join(target).join(PROFILE))
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
