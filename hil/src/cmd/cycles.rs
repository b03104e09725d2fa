//! `hil cycles`: cycles per event of every algorithm and stage on a core.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use hil_cores::core::Design;
use hil_cores::processor::Processor;
use hil_measure::c_comparison;
use hil_measure::cycles::{self, Run};
use hil_measure::stage_cycles;
use std::fs;
use std::io::{Write, stdout};

/// Arguments of `hil cycles`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Only this algorithm or switch stage; may be given several times. All of them by default.
    #[arg(long, value_name = "NAME", conflicts_with = "write")]
    algorithm: Vec<String>,
    /// The core, see `hil list`.
    #[arg(long, value_name = "NAME", default_value = "ibex", value_parser = super::unknown::core)]
    core: Processor,
    /// Rewrites the golden file of cycles on Ibex small, which a test compares with.
    #[arg(long, conflicts_with = "core")]
    write: bool,
    /// Compares the library's DCQCN with the same algorithm written in C: needs riscv64-unknown-elf-gcc.
    #[arg(long, conflicts_with_all = ["algorithm", "core", "write"])]
    c_baseline: bool,
    /// What to print on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Output format of `hil cycles`.
#[derive(Clone, Copy, ValueEnum, Debug)]
enum Format {
    /// A line for each kind of event; the covered rows of each machine's transition table; events per second; number of QPs.
    Text,
    /// A table of the algorithms, one of the stages, events per second, and number of QPs.
    Markdown,
    /// One JSON array, and nothing else: first the runs, then objects with `qps` and `events`.
    Json,
}

/// Measures the cycles, rewrites the golden file if `--write` is given, and prints.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.c_baseline {
        return c_baseline(args.format);
    }
    let chosen: Vec<&str> = args.algorithm.iter().map(String::as_str).collect();
    let all = || Ok::<_, anyhow::Error>(cycles::algorithms()?.into_iter().chain(stage_cycles::names()).collect());
    let (mut runs, mut stages) = (Vec::new(), Vec::new());
    for name in if chosen.is_empty() { all()? } else { chosen } {
        if stage_cycles::names().any(|stage| stage == name) {
            stages.extend(stage_cycles::measure_on(args.core, name)?);
        } else {
            runs.extend(cycles::measure_on(args.core, name)?);
        }
    }
    if args.write {
        let path = cycles::golden()?;
        let text = runs.iter().map(Run::to_string).chain(stages.iter().map(stage_cycles::Run::to_string));
        let text: String = text.collect();
        fs::write(&path, cycles::HEAD.to_owned() + &text).with_context(|| path.display().to_string())?;
    }
    let mut algorithms: Vec<&str> = runs.iter().map(|run| run.algorithm).collect();
    algorithms.dedup();
    let capacities = algorithms.into_iter().filter_map(|name| cycles::capacity(args.core, &runs, name).transpose());
    let capacities = capacities.collect::<Result<Vec<_>>>()?;
    let mut output = stdout().lock();
    match args.format {
        Format::Text => runs
            .iter()
            .try_for_each(|run| write!(output, "{run}"))
            .and_then(|()| cycles::coverage(&runs).iter().try_for_each(|met| write!(output, "{met}")))
            .and_then(|()| capacities.iter().try_for_each(|capacity| write!(output, "{capacity}")))
            .and_then(|()| stages.iter().try_for_each(|run| write!(output, "{run}"))),
        Format::Markdown => {
            let rows = |head, rows: String| if rows.is_empty() { String::new() } else { format!("{head}{rows}\n") };
            let runs = rows(cycles::MARKDOWN, runs.iter().map(Run::markdown).collect());
            let capacities: String = capacities.iter().map(|capacity| format!("```text\n{capacity}```\n")).collect();
            let stages = rows(stage_cycles::MARKDOWN, stages.iter().map(stage_cycles::Run::markdown).collect());
            write!(output, "{runs}{stages}{capacities}")
        }
        Format::Json => {
            let runs = runs.iter().map(serde_json::to_value).chain(stages.iter().map(serde_json::to_value));
            let runs = runs.chain(capacities.iter().map(serde_json::to_value)).collect::<Result<Vec<_>, _>>()?;
            writeln!(output, "{}", serde_json::to_string_pretty(&runs)?)
        }
    }
    .context("cannot write to standard output")?;
    for run in &runs {
        let Run { algorithm, preset, trace, .. } = run;
        ensure!(
            run.report.core.as_ref().is_some_and(|core| core.identical),
            "{algorithm}, {preset}, {trace}: not identical"
        );
        let budgets = run.over_budget().filter(|_| args.core == Design::Ibex.into());
        for (kind, worst, budget) in budgets {
            eprintln!("over budget: {algorithm}, preset {preset}, {trace}: {kind} takes {worst} cycles of {budget}");
        }
    }
    for stage_cycles::Run { stage, preset, difference, .. } in &stages {
        ensure!(difference.is_none(), "{stage}, {preset}: not identical: {difference:?}");
    }
    Ok(())
}

/// Measures the library and DCQCN in C, and prints cycles, bytes and ratios.
fn c_baseline(format: Format) -> Result<()> {
    ensure!(!matches!(format, Format::Markdown), "--format markdown: expected text or json beside --c-baseline");
    let implementations = c_comparison::measure()?;
    let mut output = stdout().lock();
    if matches!(format, Format::Json) {
        return writeln!(output, "{}", serde_json::to_string_pretty(&implementations)?)
            .context("cannot write to standard output");
    }
    implementations.iter().try_for_each(|one| write!(output, "{one}")).context("cannot write to standard output")?;
    let (cycles, bytes) = c_comparison::ratios(&implementations).context("there is nothing to compare with")?;
    write!(output, "library over the better fixed-point C: {bytes:.2} in bytes for events; in cycles")
        .and_then(|()| cycles.iter().try_for_each(|(preset, ratio)| write!(output, " {ratio:.2} ({preset})")))
        .and_then(|()| writeln!(output))
        .context("cannot write to standard output")
}
