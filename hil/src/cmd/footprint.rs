//! `hil footprint`: the memory that every role of every algorithm takes.

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use hil_algorithms::registry;
use hil_cores::firmware::TARGETS;
use hil_measure::footprint::{self, Footprint};
use std::fs;
use std::io::{Write, stdout};

/// Arguments of `hil footprint`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Only this algorithm or switch stage; may be given several times. All of them by default.
    #[arg(long, value_name = "NAME", conflicts_with = "write")]
    algorithm: Vec<String>,
    /// Only this target, as rustc names it; may be given several times. All of them by default.
    #[arg(long, value_name = "TRIPLE", value_parser = target)]
    target: Vec<&'static str>,
    /// Rewrites the golden files of footprints, which a test compares with.
    #[arg(long)]
    write: bool,
    /// What to print on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Output format of `hil footprint`.
#[derive(Clone, Copy, ValueEnum, Debug)]
enum Format {
    /// A table for each target.
    Text,
    /// One table for all targets.
    Markdown,
    /// One JSON array, and nothing else.
    Json,
}

fn target(name: &str) -> Result<&'static str, String> {
    TARGETS
        .into_iter()
        .find(|target| *target == name)
        .ok_or_else(|| format!("unknown target: {}", registry::expected(name, TARGETS.into_iter())))
}

/// Measures the footprints, rewrites the golden files if `--write` is given, and prints.
pub(crate) fn run(args: &Args) -> Result<()> {
    let known = || {
        let machines = cc_rp::registry::ALL.iter().map(|entry| entry.name);
        machines
            .chain(cc_np::registry::ALL.iter().map(|entry| entry.name))
            .chain(cc_cp::registry::NAMES.iter().copied())
    };
    for name in &args.algorithm {
        if !known().any(|known| known == name) {
            bail!("unknown algorithm or stage {name}: {}", registry::expected(name, known()));
        }
    }
    let chosen: Vec<&str> = args.algorithm.iter().map(String::as_str).collect();
    let mut all = Vec::new();
    for target in if args.target.is_empty() { TARGETS.as_slice() } else { &args.target } {
        let footprints = footprint::measure(target, &chosen)?;
        if args.write {
            let path = footprint::golden(target)?;
            let text = footprint::GOLDEN_HEAD.to_owned() + &footprint::text(&footprints);
            fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        all.push((target, footprints));
    }
    let mut output = stdout().lock();
    match args.format {
        Format::Text => all
            .iter()
            .try_for_each(|(target, footprints)| write!(output, "{target}\n{}\n", footprint::text(footprints))),
        Format::Markdown => {
            let rows: String = all.iter().flat_map(|(_, footprints)| footprints).map(Footprint::markdown).collect();
            write!(output, "{}{rows}", footprint::MARKDOWN)
        }
        Format::Json => {
            let all: Vec<&Footprint> = all.iter().flat_map(|(_, footprints)| footprints).collect();
            writeln!(output, "{}", serde_json::to_string_pretty(&all)?)
        }
    }
    .context("cannot write to standard output")
}
