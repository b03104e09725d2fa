//! `hil cycles`: what the events of every algorithm cost on a core.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use hil::core::Design;
use hil::cycles::{self, Run};
use hil::firmware;
use std::fs;
use std::io::{Write, stdout};

/// What `hil cycles` is told.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// This algorithm only; may be given several times. All of them by default.
    #[arg(long, value_name = "NAME", conflicts_with = "write")]
    algorithm: Vec<String>,
    /// The core, see `hil list`.
    #[arg(long, value_name = "NAME", default_value = "ibex", value_parser = hil::replay::core)]
    core: Design,
    /// Writes the cycles on Ibex small down anew, for the test that compares them.
    #[arg(long, conflicts_with = "core")]
    write: bool,
    /// What to print on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What `hil cycles` prints.
#[derive(Clone, Copy, ValueEnum, Debug)]
enum Format {
    /// A line for each kind of event, and what was met of each machine's table of states and events.
    Text,
    /// A table.
    Markdown,
    /// One array for scripts, and nothing else.
    Json,
}

/// Measures, and prints or writes down.
pub(crate) fn run(args: &Args) -> Result<()> {
    let all: Vec<&str> = firmware::algorithms().collect();
    let chosen: Vec<&str> = args.algorithm.iter().map(String::as_str).collect();
    let mut runs = Vec::new();
    for name in if chosen.is_empty() { all } else { chosen } {
        runs.extend(cycles::measure_on(args.core, name)?);
    }
    if args.write {
        let path = cycles::golden();
        let text: String = runs.iter().map(Run::to_string).collect();
        fs::write(&path, cycles::HEAD.to_owned() + &text).with_context(|| path.display().to_string())?;
    }
    let mut output = stdout().lock();
    match args.format {
        Format::Text => runs
            .iter()
            .try_for_each(|run| write!(output, "{run}"))
            .and_then(|()| cycles::coverage(&runs).iter().try_for_each(|met| write!(output, "{met}"))),
        Format::Markdown => write!(output, "{}", cycles::MARKDOWN)
            .and_then(|()| runs.iter().try_for_each(|run| write!(output, "{}", run.markdown()))),
        Format::Json => writeln!(output, "{}", serde_json::to_string_pretty(&runs)?),
    }
    .context("cannot write to standard output")?;
    for run in &runs {
        let Run { algorithm, preset, trace, .. } = run;
        ensure!(
            run.report.core.as_ref().is_some_and(|core| core.identical),
            "{algorithm}, {preset}, {trace}: not identical"
        );
        let budgets = run.over_budget().filter(|_| args.core == Design::Ibex);
        for (kind, worst, budget) in budgets {
            eprintln!("over budget: {algorithm}, preset {preset}, {trace}: {kind} takes {worst} cycles of {budget}");
        }
    }
    Ok(())
}
