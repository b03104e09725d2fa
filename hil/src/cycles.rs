//! What the events of every algorithm cost on Ibex small: firmware beside library, over the project's sample and over
//! storms.

use crate::board::Pace;
use crate::capture::Reader;
use crate::replay::report::{KindCycles, Report};
use crate::replay::settings::Request;
use crate::replay::{Images, OnCore, Options, Summary, replay};
use crate::storm::Storm;
use crate::{firmware, pairs};
use anyhow::{Context, Result};
use cc_np::NotificationPoint;
use cc_rp::{ReactionPoint, Signals};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

/// Frames of a storm.
const STORM: u32 = 3_000;

/// The most that `step` may take over all presets and traces, by algorithm and kind of event. DCQCN's budgets, which
/// depend on the preset and on what is overdue, stand in `tests/tests/budgets.rs`.
pub const BUDGETS: &[(&str, &str, u64)] = &[];

/// One trace played with one preset of an algorithm.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The algorithm.
    pub algorithm: &'static str,
    /// The preset of its reaction point.
    pub preset: &'static str,
    /// The trace: `sample`, or `storm`.
    pub trace: &'static str,
    /// Cycles per event by kind.
    pub cycles: BTreeMap<&'static str, KindCycles>,
    /// All that the replay said.
    #[serde(skip)]
    pub report: Report,
}

/// Plays the sample with the algorithm's first preset and a storm with each, on Ibex and beside the library.
///
/// # Errors
/// There is no such algorithm, no image of it, or an image that misbehaves.
pub fn measure(algorithm: &str) -> Result<Vec<Run>> {
    let Plan { algorithm, presets, signals } = pairs::with(algorithm, Planner)?;
    let image = firmware::build(algorithm, firmware::Kind::Inlining)?;
    let calling = firmware::build(algorithm, firmware::Kind::Calling)?;
    let play = |preset: &'static str, trace: &'static str, seed: u64| {
        let options = Options {
            algorithm: algorithm.to_owned(),
            request: Request { preset: Some(preset.to_owned()), ..Request::default() },
            core: Some(OnCore {
                name: "ibex".to_owned(),
                pace: Pace::Lockstep,
                firmware: Some(Images { image: image.clone(), calling: Some(calling.clone()) }),
            }),
            ..Options::default()
        };
        let report = match trace {
            SAMPLE => replay(&options, &mut Reader::open(&sample())?, |_| {}),
            _ => {
                let capture = Storm { seed, frames: STORM, signals }.capture();
                replay(&options, &mut Reader::new(&capture[..], trace)?, |_| {})
            }
        };
        let report = report.with_context(|| format!("{algorithm}, preset {preset}, {trace} {seed}"))?;
        let cycles = report.core.as_ref().map(|core| core.cycles.clone()).unwrap_or_default();
        Ok(Run { algorithm, preset, trace, cycles, report })
    };
    let first = presets.first().map(|&preset| play(preset, SAMPLE, 0));
    first.into_iter().chain((1..).zip(presets).map(|(seed, preset)| play(preset, "storm", seed))).collect()
}

const SAMPLE: &str = "sample";

/// The sample that the project carries; `hil synth tests/data/incast.pcapng --duration 800` makes it.
fn sample() -> PathBuf {
    root().join("tests/data/incast.pcapng")
}

/// Where the cycles of every algorithm are kept, for a test to compare.
pub fn golden() -> PathBuf {
    root().join("tests/golden/cycles-ibex.txt")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// What there is to be measured of an algorithm.
struct Plan {
    algorithm: &'static str,
    presets: Vec<&'static str>,
    signals: Signals,
}

struct Planner;

impl pairs::Visitor for Planner {
    type Output = Plan;

    fn visit<A: ReactionPoint, N: NotificationPoint>(self) -> Plan {
        let presets = A::PRESETS.iter().map(|preset| preset.name).collect();
        Plan { algorithm: A::NAME, presets, signals: A::SIGNALS }
    }
}

/// The head of the golden file.
pub const HEAD: &str = "\
# Cycles per event on Ibex small: min/median/p99/max of each span. Made by `hil cycles --write`.
";

impl Run {
    /// The kinds of events whose `step` took longer than their budget, each with what it took and what it may take.
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
