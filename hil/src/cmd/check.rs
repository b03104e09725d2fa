//! `hil check`: everything that CI runs, one step after the other.

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use hil_cores::firmware::TARGETS;
use hil_cores::qemu::Machine;
use hil_sorted::SortedSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `hil check`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Only these steps; all of them by default.
    #[arg(value_enum)]
    steps: Vec<Step>,
}

/// One step of the check.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Formatting.
    Fmt,
    /// Lints of everything that runs on the host, and of the firmware.
    Lint,
    /// Builds of the four library crates for every bare-metal target, without and with their features.
    Build,
    /// Documentation, with warnings as errors.
    Docs,
    /// The C header: fails if it differs from the one that the algorithms generate, and rewrites it.
    Header,
    /// The firmware images and the C library: no panics, formatting, floats, or divisions in software.
    Symbols,
    /// All tests.
    Test,
}

/// The library that firmware links.
const LIBRARY: [&str; 8] = ["-p", "cc-core", "-p", "cc-rp", "-p", "cc-np", "-p", "cc-cp"];

/// Runs the steps and stops at the first that fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let root = hil_cores::tree::here()?.root();
    std::env::set_current_dir(root).with_context(|| root.display().to_string())?;
    let steps = if args.steps.is_empty() { Step::value_variants() } else { &args.steps };
    for &step in steps {
        let name = step.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        eprintln!("== check {name}");
        step.run().with_context(|| format!("check {name} failed"))?;
    }
    Ok(())
}

impl Step {
    fn run(self) -> Result<()> {
        match self {
            Self::Fmt => format(),
            Self::Lint => {
                hil_cores::firmware::add_target(Path::new("."), TARGETS[0])?;
                // With the tests, cargo enables the feature `log` of `hil`. The second run checks it without, as by default.
                cargo(&["clippy", "--all-targets", "--", "-D", "warnings"], &[])?;
                cargo(&["clippy", "--package", "hil", "--", "-D", "warnings"], &[])?;
                let libraries =
                    ["clippy", "-p", "rnic-cc", "-p", "footprint", "--profile", "firmware", "--target", TARGETS[0]];
                cargo(&[libraries.as_slice(), &["--", "-D", "warnings"]].concat(), &[])?;
                for features in ["", "outlined_on", "picorv32", "vexriscv", "log"] {
                    let image = ["clippy", "-p", "rv32", "--profile", "firmware", "--target", TARGETS[0], "--features"];
                    cargo(&[image.as_slice(), &[features, "--", "-D", "warnings"]].concat(), &[])?;
                }
                for Machine { target, .. } in Machine::ALL {
                    hil_cores::firmware::add_target(Path::new("."), target)?;
                    let image = ["clippy", "-p", "semihosted", "--profile", "firmware", "--target", target];
                    cargo(&[image.as_slice(), &["--", "-D", "warnings"]].concat(), &[])?;
                }
                Ok(())
            }
            Self::Build => {
                for target in TARGETS {
                    hil_cores::firmware::add_target(Path::new("."), target)?;
                    for features in [&[][..], &["--features", "cc-core/defmt,cc-rp/defmt,cc-np/defmt,cc-cp/defmt"]] {
                        let build = ["build", "--release", "--target", target];
                        cargo(&[build.as_slice(), &LIBRARY, features].concat(), &[("RUSTFLAGS", "-D warnings")])?;
                    }
                }
                Ok(())
            }
            Self::Docs => cargo(&["doc", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")]),
            Self::Header => header(),
            Self::Symbols => symbols(),
            Self::Test => cargo(&["test"], &[]),
        }
    }
}

/// Runs cargo in the workspace; its output goes to our standard output and error.
fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(arguments)
        .envs(environment.iter().copied())
        .status()
        .with_context(|| format!("cannot run cargo {}", arguments.join(" ")))?;
    ensure!(status.success(), "cargo {} ended with {status}", arguments.join(" "));
    Ok(())
}

/// Checks the formatting of every source file, including modules that a macro declares, which `cargo fmt` does not find.
fn format() -> Result<()> {
    let mut files = Vec::new();
    for member in ["cc-core", "cc-rp", "cc-np", "cc-cp", "targets", "hil", "fuzz", "tests"] {
        sources(Path::new(member), &mut files).with_context(|| format!("{member}: run this in the workspace"))?;
    }
    let status = Command::new("rustfmt").args(["--check", "--edition", "2024"]).args(&files).status();
    let status = status.context("cannot run rustfmt")?;
    ensure!(status.success(), "rustfmt would change something");
    Ok(())
}

/// The Rust files below a folder.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Compares the C header with the one that the algorithms generate. If it differs, rewrites it and fails.
fn header() -> Result<()> {
    let (path, text) = (hil_measure::header::path()?, hil_measure::header::text());
    if std::fs::read_to_string(&path).is_ok_and(|kept| kept == text) {
        println!("{}: up to date", path.display());
        return Ok(());
    }
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    bail!("{} was stale and has been rewritten: review and commit it", path.display());
}

/// Fails if an image contains symbols of panics, formatting, floats, or division in software. The C library is checked on every
/// target, with all of its functions linked.
fn symbols() -> Result<()> {
    for algorithm in hil_measure::cycles::algorithms()? {
        let image = hil_cores::firmware::image(None, algorithm)?;
        let names: SortedSet<String> =
            image.symbols.keys().map(|name| format!("{:#}", rustc_demangle::demangle(name))).collect();
        ensure_pure(&format!("the image of {algorithm}"), &names, true)?;
    }
    for Machine { target, .. } in Machine::ALL {
        for algorithm in hil_measure::cycles::algorithms()? {
            let image = hil_cores::firmware::build_semihosted(algorithm, target)?;
            let image = std::fs::read(&image).with_context(|| format!("cannot read {}", image.display()))?;
            let names = hil_measure::library::names(&image)?;
            let divides = !WITHOUT_DIVIDER.contains(&target);
            ensure_pure(&format!("the image of {algorithm} for {target}"), &names, divides)?;
        }
    }
    let functions = hil_measure::library::functions();
    for target in TARGETS {
        let library = hil_measure::library::build(target)?;
        let names = hil_measure::library::names(&library.link(&functions)?)?;
        ensure_pure(&format!("the C library for {target}"), &names, !WITHOUT_DIVIDER.contains(&target))?;
    }
    Ok(())
}

/// Targets whose cores have no divide instruction: there the one 32-bit division that an event may take is a runtime routine.
const WITHOUT_DIVIDER: [&str; 2] = ["riscv32i-unknown-none-elf", "thumbv6m-none-eabi"];

/// Fails if there are symbols of panics, formatting, floats or divisions. `divides` says that the target has a divide
/// instruction, so that even a 32-bit division by a routine is a fault.
fn ensure_pure(what: &str, names: &SortedSet<String>, divides: bool) -> Result<()> {
    let parts = ["core::panicking", "core::fmt", "div", "mod"];
    let divides_32_bits = |name: &str| ["__udivsi3", "__aeabi_uidiv"].contains(&name) || name.contains("u32_div_rem");
    let banned = |name: &&str| {
        let of_runtime =
            name.starts_with("__") || name.starts_with("core::") || name.starts_with("compiler_builtins::");
        of_runtime && parts.iter().any(|part| name.contains(part)) && (divides || !divides_32_bits(name))
            || is_float_routine(name)
    };
    let found: Vec<&str> = names.iter().map(String::as_str).filter(banned).collect();
    ensure!(found.is_empty(), "{what} contains {}", found.join(", "));
    let division = if divides { "a division in software" } else { "a division of more than 32 bits" };
    println!("{what}: {} symbols, none of a panic, of formatting, of floats or of {division}", names.len());
    Ok(())
}

/// Whether a symbol is a floating-point routine of the compiler's runtime, such as `__adddf3`, `__floatunsisf` or
/// `__aeabi_dmul`.
fn is_float_routine(name: &str) -> bool {
    let arm = ["__aeabi_d", "__aeabi_f", "__aeabi_i2", "__aeabi_ui2", "__aeabi_l2", "__aeabi_ul2", "__aeabi_cd"];
    arm.iter().any(|start| name.starts_with(start))
        || name.starts_with("__") && ["sf", "df", "sf2", "df2", "sf3", "df3"].iter().any(|end| name.ends_with(end))
        || name.starts_with("__fix") && (name.contains("sf") || name.contains("df"))
}
