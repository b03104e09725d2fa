//! The firmware image: built from this tree, or given.

use crate::elf::Image;
use anyhow::{Context, Result, bail, ensure};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the image is compiled for.
const TARGET: &str = "riscv32imc-unknown-none-elf";

/// The image in this file, or, without one, the one that this tree builds.
///
/// # Errors
/// It cannot be built or read, or is no image.
pub fn image(given: Option<&Path>) -> Result<Image> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => build()?,
    };
    let file = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Image::parse(&file).with_context(|| path.display().to_string())
}

/// Builds the image in a target directory of its own, so that it does not wait for a build that waits for it.
fn build() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    ensure!(
        root.join("targets/rv32/Cargo.toml").is_file(),
        "the source tree is not at {} any more: give the firmware with --firmware ELF",
        root.display()
    );
    add_target(root, TARGET)?;
    let directory = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path));
    let directory = directory.join("firmware");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--quiet", "--package", "rv32", "--profile", "firmware", "--target", TARGET, "--target-dir"])
        .arg(&directory)
        .output()
        .context("cannot run cargo to build the firmware: give it with --firmware ELF")?;
    ensure!(build.status.success(), "cannot build the firmware: {}", fault(&build));
    Ok(directory.join(TARGET).join("firmware").join("rv32"))
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

/// The first line of a tool's complaint.
fn fault(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.starts_with("error")).or_else(|| text.lines().next());
    line.unwrap_or("it gave no reason").to_owned()
}
