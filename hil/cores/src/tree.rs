//! The source tree: firmware images and the C library are built from it, and it contains the golden files.
//!
//! It is the tree selected by [`choose`]; else the one in the environment variable `RNIC_CC_TREE`; else the working folder, or
//! the first folder above it that is a tree. A tree whose firmware sources differ from those that this harness was compiled
//! from is an error.

#[path = "../../../targets/programs/sources.rs"]
mod sources;

use anyhow::{Context, Result, bail, ensure};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The line of a workspace's manifest that identifies a source tree.
const MARKER: &str = "[workspace.metadata.rnic-cc]";

static CHOSEN: OnceLock<PathBuf> = OnceLock::new();
static HERE: OnceLock<Tree> = OnceLock::new();

/// A source tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    root: PathBuf,
    target: PathBuf,
}

impl Tree {
    /// The tree in a folder, without a check of its sources.
    ///
    /// # Errors
    /// The folder has no source tree.
    pub fn at(folder: &Path) -> Result<Self> {
        let root = folder.canonicalize().with_context(|| folder.display().to_string())?;
        ensure!(is_tree(&root), "{}: no source tree of rnic-cc", root.display());
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path));
        Ok(Self { root, target })
    }

    /// The same tree with another target folder.
    #[must_use]
    pub fn with_target(self, target: PathBuf) -> Self {
        Self { target, ..self }
    }

    /// Its folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Cargo's target folder for it.
    #[must_use]
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The folder in which firmware is built with this profile of Cargo. Each of several trees that share a target folder has
    /// its own, because Cargo identifies packages of a workspace by name only and would take one tree's output for another's.
    #[must_use]
    pub fn firmware(&self, profile: &str) -> PathBuf {
        let mut key = crc32fast::Hasher::new();
        key.update(self.root.as_os_str().as_encoded_bytes());
        key.update(b"\0");
        key.update(profile.as_bytes());
        let key = key.finalize();
        self.target.join(format!("firmware-{key:08x}"))
    }

    /// The hash of its firmware sources, in hexadecimal digits: see [`programs::SOURCES`].
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn sources(&self) -> Result<String> {
        let hash = sources::hash(&self.root, &sources::PARTS)
            .with_context(|| format!("cannot read {}", self.root.display()))?;
        Ok(format!("{hash:016x}"))
    }
}

/// Selects the tree in this folder for all further calls of [`here`].
///
/// # Errors
/// The folder has no source tree.
pub fn choose(folder: &Path) -> Result<()> {
    let Tree { root, .. } = Tree::at(folder)?;
    CHOSEN.get_or_init(|| root);
    Ok(())
}

/// The tree to work on.
///
/// # Errors
/// No source tree is found, or its firmware sources differ from those that this harness was built from.
pub fn here() -> Result<&'static Tree> {
    if let Some(tree) = HERE.get() {
        return Ok(tree);
    }
    let tree = find()?;
    let (found, own) = (tree.sources()?, String::from_utf8_lossy(&programs::SOURCES));
    ensure!(
        found == own,
        "{}: its sources (hash {found}) are others than those this hil was built from (hash {own}): build hil there, \
         after `cargo clean -p programs` if the tree shares a target folder with another",
        tree.root.display()
    );
    Ok(HERE.get_or_init(|| tree))
}

fn find() -> Result<Tree> {
    if let Some(chosen) = CHOSEN.get() {
        return Tree::at(chosen);
    }
    if let Some(folder) = env::var_os("RNIC_CC_TREE") {
        return Tree::at(Path::new(&folder)).context("RNIC_CC_TREE");
    }
    let folder = env::current_dir().context("there is no working folder")?;
    match folder.ancestors().find(|folder| is_tree(folder)) {
        Some(root) => Tree::at(root),
        None => bail!("no source tree of rnic-cc here: run inside a checkout, or give it with --tree DIR"),
    }
}

fn is_tree(folder: &Path) -> bool {
    fs::read_to_string(folder.join("Cargo.toml")).is_ok_and(|text| text.lines().any(|line| line.trim() == MARKER))
}
