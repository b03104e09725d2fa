//! Compares the library's DCQCN with the same algorithm written in C: cycles and bytes on Ibex small.
//!
//! The same firmware calls both through the same interface, with the same traces, settings and counters. The decisions of the
//! fixed-point C must equal the library's.

use crate::c_firmware::{Decider, Outcome, Place, Program, Trace, TraceItem};
use crate::library;
use anyhow::{Context, Result, ensure};
use cc_rp::dcqcn::Dcqcn;
use cc_rp::{Event, ReactionPoint};
use hil_cores::tree;
use hil_replay::Summary;
use hil_sorted::SortedMap;
use serde::Serialize;
use std::fmt;

/// Number of records in a trace: for the library and fixed-point C, and for C with doubles, which takes a thousand times longer
/// to catch up with overdue timers.
const RECORDS: (usize, usize) = (2_000, 120);

/// Cycles and bytes of one implementation.
#[derive(Clone, Debug, Serialize)]
pub struct Implementation {
    /// Its name.
    pub name: &'static str,
    /// Whether its decisions are the library's, to the bit.
    pub identical: bool,
    /// Bytes of code and constants for events: `on` and all that it calls.
    pub event_bytes: u64,
    /// Bytes with initialisation, settings and counters.
    pub all_bytes: u64,
    /// Cycles of a call, by preset and kind of event.
    pub cycles: SortedMap<&'static str, SortedMap<&'static str, Summary>>,
    /// Cycles of a call on average, by preset.
    pub mean: SortedMap<&'static str, f64>,
}

/// The C source with doubles, whose decisions need not equal the library's.
const DOUBLE: &str = "vendor_double";

/// The implementations, the library first: name, C source, optimisation.
const IMPLEMENTATIONS: [(&str, Option<&str>, &str); 5] = [
    ("library", None, "-O2"),
    ("fixed-point C, -O2", Some("vendor"), "-O2"),
    ("fixed-point C, -O3", Some("vendor"), "-O3"),
    ("double C, -O2", Some(DOUBLE), "-O2"),
    ("double C, -O3", Some(DOUBLE), "-O3"),
];

/// Runs all presets with every implementation.
///
/// # Errors
/// The cross compiler is missing, or one of them fails, or the fixed-point C decides differently.
pub fn measure() -> Result<Vec<Implementation>> {
    let library = library::build(Place::IBEX.target())?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let sources = tree::here()?.root().join("targets/c-baseline");
    let mut implementations = Vec::new();
    for (name, source, optimise) in IMPLEMENTATIONS {
        let path = source.map(|source| sources.join(source).with_extension("c"));
        let by = path.as_deref().map_or(Decider::Library(&library.path), Decider::Source);
        let program = Program { place: Place::IBEX, by, optimise, timed: true };
        let prefix = source.unwrap_or("rnic_rp");
        let mut one = Implementation {
            name,
            identical: true,
            event_bytes: program.bytes(folder.path(), &[format!("{prefix}_dcqcn_on")])?,
            all_bytes: program.bytes(
                folder.path(),
                &["init", "set", "open", "on", "count"].map(|function| format!("{prefix}_dcqcn_{function}")),
            )?,
            cycles: SortedMap::new(),
            mean: SortedMap::new(),
        };
        for (preset, seed) in Dcqcn::PRESETS.iter().zip(1..) {
            let records = if source == Some(DOUBLE) { RECORDS.1 } else { RECORDS.0 };
            let trace = Trace { preset: seed as u32 - 1, ..Trace::random::<Dcqcn>(seed, records) };
            let elf = program.build(&trace, folder.path())?;
            let outcome = program.run(&elf, records)?;
            let native = trace.native::<Dcqcn>()?;
            one.identical &= outcome.decisions == native.decisions && outcome.counters == native.counters;
            one.take(preset.name, &trace, &outcome);
        }
        ensure!(one.identical || source == Some(DOUBLE), "{name} decides differently");
        implementations.push(one);
    }
    Ok(implementations)
}

impl Implementation {
    fn take(&mut self, preset: &'static str, trace: &Trace, outcome: &Outcome) {
        let mut kinds: SortedMap<&'static str, Vec<u32>> = SortedMap::new();
        for (record, &cycles) in trace.records.iter().zip(&outcome.cycles) {
            if let TraceItem::Event(event) = record.what {
                kinds.or_default(kind(&event)).push(cycles);
            }
        }
        let total: u64 = kinds.values().flatten().map(|&cycles| u64::from(cycles)).sum();
        let calls = kinds.values().map(Vec::len).sum::<usize>().max(1);
        self.mean.insert(preset, total as f64 / calls as f64);
        let summaries = kinds.into_iter().filter_map(|(kind, mut cycles)| Some((kind, Summary::of(&mut cycles)?)));
        self.cycles.insert(preset, summaries.collect());
    }
}

/// The name of an event's kind.
const fn kind(event: &Event<'_>) -> &'static str {
    match event {
        Event::Sent { .. } => "sent",
        Event::Ack(_) => "ack",
        Event::Nack { .. } => "nack",
        Event::Cnp { .. } => "cnp",
        Event::SwitchInt { .. } => "switch_int",
        Event::Wake => "wake",
    }
}

/// The ratio of the library to the best fixed-point C: cycles for each preset, and bytes of event code.
pub fn ratios(implementations: &[Implementation]) -> Option<(SortedMap<&'static str, f64>, f64)> {
    let (ours, theirs) = implementations.split_first()?;
    let fixed = || theirs.iter().filter(|one| one.identical);
    let bytes = ours.event_bytes as f64 / fixed().map(|one| one.event_bytes).min()? as f64;
    let mut cycles = SortedMap::new();
    for (preset, &mean) in &ours.mean {
        let best = fixed().filter_map(|one| one.mean.get(preset)).copied().reduce(f64::min)?;
        cycles.insert(*preset, mean / best);
    }
    Some((cycles, bytes))
}

/// The text output.
impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, event_bytes, all_bytes, .. } = self;
        writeln!(f, "{name}: {event_bytes} bytes for events, {all_bytes} in all")?;
        for (preset, kinds) in &self.cycles {
            write!(f, "  {preset:<9} {:>6.0} cycles on average", self.mean[preset])?;
            for (kind, Summary { min, median, p99, max }) in kinds {
                write!(f, "  {kind} {min}/{median}/{p99}/{max}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
