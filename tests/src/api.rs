//! The public items of the library, as the golden files `tests/golden/api-CRATE.txt` record them, so that a change of the
//! interface shows in review.
//!
//! The items come from rustdoc's JSON. Its format changes with the compiler, and a stable toolchain writes it only with
//! `RUSTC_BOOTSTRAP`; since `rust-toolchain.toml` pins the compiler, one version of the format (57) is enough.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates with a recorded interface, and the features with which they are documented.
pub const CRATES: [(&str, &str); 5] =
    [("cc-core", "std"), ("cc-rp", "std"), ("cc-np", "std"), ("cc-cp", "std"), ("programs", "std")];

/// The version of rustdoc's JSON that the `public-api` crate in `Cargo.toml` reads.
const FORMAT: &str = "\"format_version\":57}";

/// The first line of a golden file.
const HEAD: &str = "# Public items. Written by `cargo run -p tests --example api`.\n";

/// Why the items cannot be read.
#[derive(Debug)]
pub enum Error {
    /// The compiler's JSON has another format. It happens with a toolchain other than the pinned one.
    Format,
    /// The crate cannot be documented, or its JSON cannot be read.
    Failed(String),
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The golden file of a crate.
pub fn path(name: &str) -> PathBuf {
    root().join(format!("tests/golden/api-{name}.txt"))
}

/// The text that a crate's golden file must have, from its present source: one line for each public item, sorted by module.
///
/// # Errors
/// See [`Error`].
pub fn text(name: &str, features: &str) -> Result<String, Error> {
    let json = document(name, features)?;
    if !fs::read_to_string(&json).is_ok_and(|text| text.trim_end().ends_with(FORMAT)) {
        return Err(Error::Format);
    }
    let api = public_api::Builder::from_rustdoc_json(&json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .map_err(|error| Error::Failed(format!("{}: {error}", json.display())))?;
    Ok(HEAD.to_owned() + &api.items().map(|item| format!("{item}\n")).collect::<String>())
}

/// Runs rustdoc in a build folder of its own. In the workspace's build folder, build scripts that depend on `RUSTC_BOOTSTRAP`
/// would run again here and in the next build. Returns the JSON's path.
fn document(name: &str, features: &str) -> Result<PathBuf, Error> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder));
    let target = target.join("api");
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["rustdoc", "--quiet", "--lib", "--package", name, "--features", features, "--target-dir"])
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .current_dir(root())
        .env("RUSTC_BOOTSTRAP", "1")
        .output()
        .map_err(|error| Error::Failed(format!("cannot run cargo: {error}")))?;
    if !output.status.success() {
        return Err(Error::Failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(target.join("doc").join(name.replace('-', "_")).with_extension("json"))
}
