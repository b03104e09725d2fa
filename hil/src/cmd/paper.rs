//! `hil paper`: runs the papers' closed-loop experiments and judges them.

use super::Format;
use anyhow::{Context, Result, ensure};
use hil_papers::{Experiment, Options, Outcome};
use std::fs;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

/// Arguments of `hil paper`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Ids of experiments, see --list, or paths of files of experiments (`*.toml`).
    #[arg(required_unless_present_any = ["list", "all"])]
    ids: Vec<String>,
    /// Lists the experiments: id, tier, runs, and source.
    #[arg(long, conflicts_with_all = ["ids", "all"])]
    list: bool,
    /// All experiments of tier 2.
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// With --all, those of tier 3 too, which take hours.
    #[arg(long, requires = "all")]
    full: bool,
    /// Of each experiment only the case that stands for it, with seed 1.
    #[arg(long)]
    short: bool,
    /// The preset of the scenarios: `stable`, or `paper` for the laws as published, which experiments have whose law was changed.
    /// With --all only those run.
    #[arg(long, default_value = "stable")]
    preset: String,
    /// Writes the table and the figures, README.md and SVG, into this folder.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Runs nothing, but writes the scenario of each case into this folder, for `hil sim`.
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    scenarios: Option<PathBuf>,
    /// How many runs at once. Default: one for each processor.
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// What to print on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Runs experiments, and prints what they have come to.
pub(crate) fn run(args: &Args) -> Result<()> {
    let experiments: Vec<Experiment> = if args.ids.is_empty() {
        let mut all = hil_papers::experiments()?;
        all.retain(|experiment| args.list || args.full || experiment.tier == 2);
        all.retain(|experiment| !args.short || experiment.short.is_some());
        all.retain(|experiment| experiment.has_preset(&args.preset));
        ensure!(!all.is_empty(), "--preset {}: no experiment has it; most have `stable` and `paper`", args.preset);
        all
    } else {
        args.ids.iter().map(|id| hil_papers::find(id)).collect::<Result<_>>()?
    };
    if args.list {
        return list(&experiments);
    }
    if let Some(folder) = &args.scenarios {
        for experiment in &experiments {
            for name in hil_papers::save(experiment, &args.preset, folder)? {
                writeln!(stdout(), "{}", folder.join(name).display())?;
            }
        }
        return Ok(());
    }
    for experiment in &experiments {
        ensure!(!args.short || experiment.short.is_some(), "--short: {} has no case that stands for it", experiment.id);
    }
    if let Some(folder) = &args.output {
        super::make_folder("--output", folder)?;
    }
    let processors = || thread::available_parallelism().map_or(1, NonZero::get);
    let options = Options {
        preset: args.preset.clone(),
        short: args.short,
        threads: args.threads.map_or_else(processors, NonZero::get),
    };
    let is_terminal = stderr().is_terminal();
    let outcomes = hil_papers::run(&experiments, &options, &|done, all| {
        if is_terminal {
            super::show_progress(format_args!("{done} of {all} runs"));
        }
    });
    if is_terminal {
        super::show_progress(format_args!(""));
    }
    let outcomes = outcomes?;
    if let Some(folder) = &args.output {
        write(folder, &outcomes).with_context(|| format!("--output {}", folder.display()))?;
    }
    let text = match args.format {
        Format::Text => outcomes.iter().map(Outcome::to_string).collect::<Vec<_>>().join("\n\n"),
        Format::Json => serde_json::to_string_pretty(&outcomes)?,
    };
    writeln!(stdout(), "{text}").context("cannot write the outcomes")
}

fn list(experiments: &[Experiment]) -> Result<()> {
    for experiment in experiments {
        let (tier, runs) = (experiment.tier, experiment.runs());
        writeln!(stdout(), "{:8} tier {tier}, {runs:4} runs  {}", experiment.id, experiment.source)?;
    }
    Ok(())
}

/// Writes the document and its figures.
fn write(folder: &Path, outcomes: &[Outcome]) -> Result<()> {
    for outcome in outcomes {
        for (name, svg) in &outcome.figures {
            fs::write(folder.join(outcome.file(name)), svg)?;
        }
    }
    Ok(fs::write(folder.join("README.md"), hil_papers::markdown(outcomes))?)
}
