//! The firmware images, one for each algorithm: built from the source tree, or read from a file.

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
/// The target of these images.
const TARGET: &str = "riscv32imc-unknown-none-elf";
/// The Cargo profile of these images.
const PROFILE: &str = "firmware";

/// The image in the given file; without a file, builds the image of this algorithm for cores with machine mode.
///
/// # Errors
/// The algorithm has no image, it cannot be built or read, or the file is no image.
pub fn image(given: Option<&Path>, algorithm: &str) -> Result<Image> {
    match given {
        Some(path) => read(path),
        None => read(&build(algorithm, Kind::Inlining, Dialect::Machine)?),
    }
}

/// The variant of an image: whether the machine's `on` is inlined, and whether the image logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `on` is inlined into the functions that handle events. This is the image that ships; all measurements except those of
    /// `on` use it.
    Inlining,
    /// `on` is a function of its own, so that its cycles can be measured.
    OutlinedOn,
    /// As `Inlining`, in an image that logs, see [`crate::log`].
    Logging,
}

/// Reads the image in a file. It must be built from the same sources as this harness.
///
/// # Errors
/// The file cannot be read, or is no image, or one of other sources.
pub fn read(path: &Path) -> Result<Image> {
    let image = read_any(path)?;
    check_sources(path)?;
    Ok(image)
}

/// Reads the image in a file, without a check of its sources.
///
/// # Errors
/// The file cannot be read, or is no image.
pub fn read_any(path: &Path) -> Result<Image> {
    let file = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Image::parse(&file).with_context(|| path.display().to_string())
}

/// Refuses an image that is not built from the sources that this harness is built from: their decisions could differ, and
/// measurements of the image would be reported for these sources.
///
/// # Errors
/// It is built from other sources, does not contain their hash, or is no ELF file.
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

/// Whether a name is that of a chain of stages.
fn is_chain(name: &str) -> bool {
    name.contains('+')
}

/// The binary that is the image of an algorithm or of a chain of stages.
fn binary(name: &str) -> &str {
    if is_chain(name) { "chain" } else { name }
}

/// The declaration of a chain of stages, for the source file of its image. A chain of more than two is a chain of chains.
fn declaration(name: &str) -> String {
    let stages = name.rsplit('+').map(|stage| format!("stages::{stage}"));
    let chain = stages.reduce(|rest, stage| format!("cc_cp::Chain<{stage}, {rest}>")).unwrap_or_default();
    format!("rv32::stage!(chain: {chain});\n")
}

/// The source file of an algorithm's image.
fn source(package: &str, algorithm: &str) -> PathBuf {
    Path::new("targets").join(package).join("src/bin").join(binary(algorithm)).with_extension("rs")
}

/// An image that has been built.
#[derive(Clone, Debug)]
pub struct Built {
    /// Its path.
    pub path: PathBuf,
    /// Stack bytes of its functions.
    pub frames: Frames,
}

/// Builds an algorithm's image for cores of a dialect, and returns its path. Names of switch stages with `+` between them, such as
/// `red+int`, are those of a chain of them, which needs no file of its own.
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
    let mut features = match kind {
        Kind::Inlining => board.to_owned(),
        Kind::OutlinedOn => format!("{board},outlined_on"),
        Kind::Logging => format!("{board},log"),
    };
    if is_chain(algorithm) {
        features.push_str(",chain");
    }
    build_in(tree, RV32, &["--no-default-features", "--features", &features], &features, algorithm, TARGET)
}

/// Builds an algorithm's image that communicates with its host by semihosting, for one of its package's targets, and returns
/// its path.
///
/// # Errors
/// As for [`build`].
pub fn build_semihosted(algorithm: &str, target: &str) -> Result<PathBuf> {
    build_in(here()?, "semihosted", &[], target, algorithm, target).map(|built| built.path)
}

/// The source tree in which images are built.
fn here() -> Result<&'static Tree> {
    tree::here().context("no firmware image: give it with --firmware ELF")
}

/// Builds an image and keeps a copy of it in a folder of its kind: all kinds share one target folder, so that crates that do
/// not depend on the kind are compiled once, and Cargo puts all kinds of an algorithm's image at the same path.
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
    // Other processes that build in this folder wait until the copy is made.
    let lock = File::create(folder.join("images/lock")).with_context(failed)?;
    lock.lock().with_context(failed)?;
    if is_chain(algorithm) {
        let file = kept.with_extension("rs");
        if fs::read_to_string(&file).ok().is_none_or(|text| text != declaration(algorithm)) {
            fs::write(&file, declaration(algorithm)).with_context(failed)?;
        }
        cargo.env("RNIC_CC_CHAIN", file);
    }
    let build = cargo
        // The log levels that defmt compiles in; the user's environment takes precedence.
        .env("DEFMT_LOG", env::var_os("DEFMT_LOG").unwrap_or_else(|| "trace".into()))
        .args(["--bin", binary(algorithm)])
        .args(features)
        // The compiler's remarks give the stack use of functions, relocations the call graph: see `crate::stack`.
        .args(["--", "-C", "remark=prologepilog", "-C", "link-arg=--emit-relocs"])
        .output()
        .context("cannot run cargo to build the firmware: give it with --firmware ELF")?;
    ensure!(build.status.success(), "cannot build the firmware: {}", fault(&build));
    let frames = Frames::from_remarks(&String::from_utf8_lossy(&build.stderr));
    // Copied under another name and then renamed, because another process may be reading the present copy.
    let copy = images.join(format!("{algorithm}.new"));
    fs::copy(built.join(binary(algorithm)), &copy).and_then(|_| fs::rename(&copy, &kept)).with_context(failed)?;
    Ok(Built { path: kept, frames })
}

/// A `cargo rustc` command that builds a package of a tree for firmware, and the folder of its output.
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
/// The compiler has none, and rustup cannot install it.
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

/// The cargo that runs this program, or the first in `PATH`.
fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The first line of a tool's error output.
pub fn fault(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.starts_with("error")).or_else(|| text.lines().next());
    line.unwrap_or("it gave no reason").to_owned()
}
