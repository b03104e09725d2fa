//! Measures the cycles per event of every algorithm on a core. The firmware runs in lockstep with the library, on a sample of
//! the simulated fabric and on random traffic.

use crate::random_traffic::RandomTraffic;
use anyhow::{Context, Result};
use cc_cp::QueueStage;
use cc_cp::red::Red;
use cc_rp::Signals;
use hil_algorithms::settings::Request;
use hil_algorithms::{algorithm, registry};
use hil_capture::{Source, Writer};
use hil_cores::board::Pace;
use hil_cores::core::{Design, Timing, worst};
use hil_cores::firmware;
use hil_cores::probe::Probes;
use hil_cores::processor::Processor;
use hil_cores::tree;
use hil_replay::report::{KindCycles, Report};
use hil_replay::{Images, OnCore, Options, Summary, replay};
use hil_sim::incast::Incast;
use hil_sim::named;
use hil_sorted::{SortedMap, SortedSet};
use serde::Serialize;
use std::fmt::{self, Write as _};
use std::path::PathBuf;

/// Frames of random traffic.
const RANDOM_FRAMES: u32 = 3_000;

/// Most cycles that `step` should take over all presets and traces, by algorithm and kind of event. DCQCN's budgets, which
/// depend on the preset and on the number of overdue updates, are in `tests/tests/budgets.rs`.
pub const BUDGETS: &[(&str, &str, u64)] = &[
    ("dcqcn_plus", "cnp", 300),
    ("dcqcn_tcd", "cnp", 300),
    ("timely", "ack", 300),
    ("timely_tcd", "ack", 300),
    ("swift", "ack", 300),
    ("theta_powertcp", "ack", 300),
    ("acc", "ack", 300),
    ("dctcp", "ack", 300),
    ("rcc", "ack", 300),
    ("rcc_sender", "ack", 300),
    ("hpcc", "ack", 1_250),
    ("powertcp", "ack", 1_250),
    ("rcc", "data", 250),
];

/// Settings of the trace `quick`: with them, random traffic reaches states for which all presets would take far more frames.
const QUICK: &[(&str, &str)] = &[
    ("dcqcn", "rpg_byte_reset=32"),
    ("dcqcn_tcd", "rpg_byte_reset=32"),
    ("dcqcn_tcd", "rpg_threshold=1"),
    ("rcc", "np.samples=1"),
    ("timely", "hai_threshold=1"),
    ("dcqcn_plus", "np.unlisted_interval=10000"),
];

/// One trace replayed with one preset of an algorithm.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The algorithm.
    pub algorithm: &'static str,
    /// The notification point that it works with.
    pub receiver: &'static str,
    /// The preset of its reaction point.
    pub preset: &'static str,
    /// The trace: `sample`, a capture of the simulated fabric with this algorithm; `random`, random traffic; or `quick`, random
    /// traffic with settings that reach rarer states.
    pub trace: &'static str,
    /// Cycles per event by kind.
    pub cycles: SortedMap<&'static str, KindCycles>,
    /// The report of the replay.
    #[serde(skip)]
    pub report: Report,
}

/// The algorithms that the source tree has an image for, the default first.
///
/// # Errors
/// There is no source tree.
pub fn algorithms() -> Result<Vec<&'static str>> {
    let found = registry::names().map(|name| Ok(firmware::has_image(name)?.then_some(name)));
    found.filter_map(Result::transpose).collect()
}

/// As [`measure_on`], on Ibex small.
///
/// # Errors
/// As for [`measure_on`].
pub fn measure(algorithm: &str) -> Result<Vec<Run>> {
    measure_on(Design::Ibex.into(), algorithm)
}

/// Replays the algorithm's sample with its first preset, and random traffic with each preset, on a core and natively.
///
/// # Errors
/// There is no such algorithm, no image of it, or an image that misbehaves.
pub fn measure_on(core: Processor, algorithm: &str) -> Result<Vec<Run>> {
    let plan = Plan::of(algorithm)?;
    let build = |kind| firmware::build(algorithm, kind, core.dialect());
    let images =
        Images { image: build(firmware::Kind::Inlining)?, outlined_on: Some(build(firmware::Kind::OutlinedOn)?) };
    let first = plan.first()?;
    let mut runs = vec![plan.play(core, &images, first, SAMPLE, 0)?];
    for (seed, preset) in (1..).zip(&plan.presets) {
        runs.push(plan.play(core, &images, preset, "random", seed)?);
    }
    if QUICK.iter().any(|(name, _)| *name == algorithm) {
        runs.push(plan.play(core, &images, first, "quick", 0)?);
    }
    Ok(runs)
}

/// Replays only the algorithm's sample, on the image that ships.
///
/// # Errors
/// As for [`measure_on`].
pub fn sample_on(core: Processor, algorithm: &str) -> Result<Run> {
    let plan = Plan::of(algorithm)?;
    let image = firmware::build(algorithm, firmware::Kind::Inlining, core.dialect())?;
    plan.play(core, &Images { image, outlined_on: None }, plan.first()?, SAMPLE, 0)
}

impl Plan {
    fn of(name: &str) -> Result<Self> {
        let algorithm = algorithm(name)?;
        let (name, receiver, signals) = (algorithm.name(), algorithm.receiver(), algorithm.signals());
        let mut writer = Writer::new(Vec::new(), &["receiver"])?;
        let mut tap = |time, frame: &[u8]| Ok(writer.write(0, time, frame, frame.len() as u32)?);
        named::run(&Incast::SAMPLE, name, None, Red::PRESETS[0].values, &mut tap)?;
        Ok(Self { algorithm: name, receiver, presets: algorithm.preset_names(), signals, sample: writer.into_sink()? })
    }

    fn first(&self) -> Result<&'static str> {
        self.presets.first().copied().context("an algorithm has a preset")
    }

    fn play(
        &self,
        core: Processor,
        images: &Images,
        preset: &'static str,
        trace: &'static str,
        seed: u64,
    ) -> Result<Run> {
        let &Self { algorithm, receiver, signals, .. } = self;
        let quick = QUICK.iter().filter(|(name, _)| *name == algorithm && trace == "quick");
        let sets = quick.map(|(_, set)| (*set).to_owned()).collect();
        let options = Options {
            algorithm: algorithm.to_owned(),
            request: Request { preset: Some(preset.to_owned()), sets, ..Request::default() },
            core: Some(OnCore {
                name: core.name().to_owned(),
                pace: Pace::Lockstep,
                firmware: Some(images.clone()),
                interrupts: false,
            }),
            ..Options::default()
        };
        let random;
        let capture = if trace == SAMPLE {
            &self.sample
        } else {
            random = RandomTraffic { seed, frames: RANDOM_FRAMES, signals }.capture();
            &random
        };
        let report = replay(&options, &mut Source::memory(&capture[..], trace), |_| {})
            .with_context(|| format!("{algorithm}, preset {preset}, {trace} {seed}"))?;
        let cycles = report.core.as_ref().map(|core| core.cycles.clone()).unwrap_or_default();
        Ok(Run { algorithm, receiver, preset, trace, cycles, report })
    }
}

const SAMPLE: &str = "sample";

/// The path of the golden file with the cycles of every algorithm, which a test compares with.
///
/// # Errors
/// There is no source tree.
pub fn golden() -> Result<PathBuf> {
    Ok(tree::here()?.root().join("tests/golden/cycles-ibex.txt"))
}

/// The traces and presets with which an algorithm is measured.
struct Plan {
    algorithm: &'static str,
    receiver: &'static str,
    presets: Vec<&'static str>,
    signals: Signals,
    sample: Vec<u8>,
}

/// Rows of one machine's transition table that runs reached on the core.
#[derive(Clone, Debug)]
pub struct CoverageOf {
    /// The machine's role.
    pub role: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Rows of its table.
    pub rows: usize,
    /// Rows that no run reached.
    pub missing: SortedSet<&'static str>,
}

/// Coverage of the runs, machine by machine: reaction points first, in the order of the runs.
pub fn coverage(runs: &[Run]) -> Vec<CoverageOf> {
    let rp = runs.iter().map(|run| ("reaction point", run.algorithm, &run.report.coverage.rp));
    let np = runs.iter().map(|run| ("notification point", run.receiver, &run.report.coverage.np));
    let mut all: Vec<CoverageOf> = Vec::new();
    for (role, name, rows) in rp.chain(np) {
        let missing: SortedSet<_> = rows.missing.iter().copied().collect();
        match all.iter_mut().find(|covered| (covered.role, covered.name) == (role, name)) {
            Some(covered) => covered.missing.retain(|row| missing.contains(row)),
            None => all.push(CoverageOf { role, name, rows: rows.rows, missing }),
        }
    }
    all
}

impl fmt::Display for CoverageOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role, name, rows, missing } = self;
        writeln!(f, "coverage of {role} {name}: {} of {rows} rows reached on the core", rows - missing.len())?;
        missing.iter().try_for_each(|row| writeln!(f, "  not reached: {row}"))
    }
}

/// Events per second of a core with one algorithm, and how many QPs its memory holds.
#[derive(Clone, Debug, Serialize)]
pub struct Capacity {
    /// The algorithm.
    pub algorithm: &'static str,
    /// For each memory size of a core in KiB: QPs that fit beside the image's code, its rings, 512 received flows, and the most
    /// stack seen in the runs. At most 65,535, because links between slots have 16 bits; `null` if the rest alone does not fit.
    pub qps: SortedMap<u32, Option<u32>>,
    /// Most cycles that the machine's `on` can take, over all paths of its code; `null` if the code loops, and on cores where
    /// the cost of an instruction depends on others.
    pub on_bound: Option<u64>,
    /// Most cycles that `step` takes for a wake that is up to 1 s late. Given for machines that catch up on missed updates;
    /// tests enforce it.
    pub late_bound: Option<u64>,
    /// Events per second by kind, handled one after the other: span `frame`, from reading the descriptor to the pacer store, or
    /// to the return if there is none.
    pub events: SortedMap<&'static str, Vec<EventRate>>,
}

/// Events of one kind that a core handles per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EventRate {
    /// The core's clock, in MHz.
    pub mhz: u32,
    /// Events per second if each takes the median number of cycles.
    pub median: u64,
    /// Events per second if each takes the most cycles that were measured.
    pub worst: u64,
}

/// Clocks of cores in NICs, in MHz.
const CLOCKS: [u32; 4] = [200, 400, 600, 1_000];
/// Memory of cores in NICs, in KiB.
const MEMORIES: [u32; 2] = [512, 2_048];

/// Machines that catch up on missed updates, with the most cycles that this may take on Ibex small, see
/// `tests/tests/budgets.rs`.
pub const LATE: &[(&str, u64)] = &[("dcqcn", 3_000), ("dcqcn_plus", 12_000)];

/// Most cycles that the machine's `on` can take on Ibex small; `None` if there is no bound.
///
/// # Errors
/// The image that does not inline `on` cannot be built.
pub fn on_bound(algorithm: &str) -> Result<Option<u64>> {
    let image = firmware::read(&firmware::build(algorithm, firmware::Kind::OutlinedOn, Design::Ibex.dialect())?)?;
    Ok(Probes::new(&image).machine().and_then(|entry| worst(&image, entry, &Timing::IBEX_SMALL)))
}

/// The capacity of a core with an algorithm, from its runs; `None` if there are no runs of it.
///
/// # Errors
/// Its image cannot be built.
pub fn capacity(core: Processor, runs: &[Run], algorithm: &str) -> Result<Option<Capacity>> {
    let small = core == Design::Ibex.into();
    let on_bound = if small { on_bound(algorithm)? } else { None };
    let late = LATE.iter().find(|(name, _)| small && *name == algorithm).map(|&(_, cycles)| cycles);
    Ok(sustained(runs, algorithm).map(|capacity| Capacity { on_bound, late_bound: late, ..capacity }))
}

fn sustained(runs: &[Run], algorithm: &str) -> Option<Capacity> {
    let runs = || runs.iter().filter(|run| run.algorithm == algorithm);
    let first = runs().next()?;
    let (mut held, mut stack) = (0, 0);
    let mut frames: SortedMap<&'static str, (Vec<u64>, u64)> = SortedMap::new();
    for run in runs() {
        let memory = run.report.core.as_ref()?.memory?;
        (held, stack) = (held.max(memory.static_ram_bytes), stack.max(memory.stack_bytes));
        for (kind, spans) in &run.cycles {
            if let Some(Summary { median, max, .. }) = spans.frame {
                let (medians, worst) = frames.or_default(kind);
                medians.push(median);
                *worst = max.max(*worst);
            }
        }
    }
    let size = first.report.sizes.image?;
    let qps = MEMORIES.map(|kib| {
        let left = (kib << 10).checked_sub(held - size.qps * size.qp_bytes + stack);
        (kib, left.map(|left| (left / size.qp_bytes.max(1)).min(u16::MAX.into())))
    });
    let rate = |cycles: u64, mhz: u32| u64::from(mhz) * 1_000_000 / cycles.max(1);
    let events = frames.into_iter().map(|(kind, (medians, worst))| {
        // The median of the first run that has such events: of the sample, if possible, which is the first run.
        let median = medians.first().copied().unwrap_or(worst);
        (kind, CLOCKS.map(|mhz| EventRate { mhz, median: rate(median, mhz), worst: rate(worst, mhz) }).to_vec())
    });
    let (qps, events) = (qps.into(), events.collect());
    Some(Capacity { algorithm: first.algorithm, qps, on_bound: None, late_bound: None, events })
}

/// The text output.
impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { algorithm, qps, on_bound, late_bound, events } = self;
        write!(f, "capacity of {algorithm}:")?;
        for (kib, qps) in qps {
            match qps {
                Some(qps) => write!(f, " {qps} QPs in {kib} KiB")?,
                None => write!(f, " no room in {kib} KiB")?,
            }
        }
        if let Some(cycles) = on_bound {
            write!(f, "; `on` takes at most {cycles} cycles")?;
        }
        if let Some(cycles) = late_bound {
            write!(f, "; a late wake, at most {cycles}")?;
        }
        writeln!(f)?;
        for (kind, rates) in events {
            write!(f, "  {kind:<8} thousands per second, median (worst):")?;
            for EventRate { mhz, median, worst } in rates {
                write!(f, "  {} ({}) at {mhz} MHz", median / 1_000, worst / 1_000)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// The head of the golden file.
pub const HEAD: &str = "\
# Cycles per event on Ibex small: min/median/p99/max of each span. Made by `hil cycles --write`.
";

impl Run {
    /// The kinds of events whose `step` took more cycles than their budget, each with the most cycles that it took and the
    /// budget.
    pub fn over_budget(&self) -> impl Iterator<Item = (&'static str, u64, u64)> + '_ {
        BUDGETS.iter().filter(|&&(algorithm, ..)| algorithm == self.algorithm).filter_map(|&(_, kind, budget)| {
            let worst = self.cycles.get(kind)?.step?.max;
            (worst > budget).then_some((kind, worst, budget))
        })
    }

    /// The rows of a Markdown table, see [`MARKDOWN`].
    pub fn markdown(&self) -> String {
        let mut rows = String::new();
        for (kind, spans) in &self.cycles {
            // Writing to a string does not fail.
            let _ = write!(rows, "| {} | {} | {} | {kind} |", self.algorithm, self.preset, self.trace);
            for span in spans.named().map(|(_, span)| span) {
                let _ = match span {
                    Some(Summary { min, median, p99, max }) => write!(rows, " {min} / {median} / {p99} / {max} |"),
                    None => write!(rows, " |"),
                };
            }
            rows.push('\n');
        }
        rows
    }
}

/// The head of the Markdown table of runs.
pub const MARKDOWN: &str = "\
| algorithm | preset | trace | event | on: min / median / p99 / max | step | step_total | frame |
| --- | --- | --- | --- | --- | --- | --- | --- |
";

/// The lines of the golden file.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, spans) in &self.cycles {
            write!(f, "{:<14} {:<9} {:<6} {kind:<5}", self.algorithm, self.preset, self.trace)?;
            for (name, span) in spans.named() {
                if let Some(Summary { min, median, p99, max }) = span {
                    write!(f, "  {name} {min}/{median}/{p99}/{max}")?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
