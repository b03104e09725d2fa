//! Measures cycles per event: stops the core at the entry and the return of the engines' functions and records the cycles
//! between.

use crate::core::Core;
use crate::elf::Image;
use hil_sorted::SortedMap;
use serde::Serialize;

/// The kinds of events, by their names in `core.cycles`. If a machine ignores two kinds, the linker may merge their functions,
/// and both are counted as one kind: NACKs of DCQCN as ACKs.
pub const KINDS: [&str; 9] = ["sent", "ack", "nack", "cnp", "rtt", "wake", "data", "pause", "switch_int"];

/// The kinds of events at the queues of a switch.
const STAGE_KINDS: [&str; 7] = ["arrival", "enqueue", "release", "departure", "pause", "peer", "wake"];

/// The measured spans of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// The machine's `on`, from call to return, in images where it is not inlined; only for the flow of the event, not for
    /// flows of the sweep after it.
    On,
    /// From the engine's first instruction to the last pacer store, or to the return if the decision is unchanged.
    Step,
    /// From the engine's first instruction to its return.
    StepTotal,
    /// From reading the descriptor to the pacer store, or to the return where there is none.
    Frame,
}

/// Samples by kind and span.
pub type Cycles = SortedMap<(&'static str, Span), Vec<u32>>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Engine(&'static str),
    Machine,
    Program,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    place: Place,
    entered: u64,
    returns_to: u32,
    paced: Option<u64>,
    kind: Option<&'static str>,
}

/// The watched functions of an image and the calls under way.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    entries: SortedMap<u32, Place>,
    open: Vec<Open>,
    cycles: Cycles,
}

impl Probes {
    /// Finds the functions to watch among an image's symbols.
    pub fn new(image: &Image) -> Self {
        let named = |(name, &address): (&String, &u32)| {
            Some((address, place(&format!("{:#}", rustc_demangle::demangle(name)))?))
        };
        let entries = image.symbols.iter().filter_map(named).collect();
        Self { entries, ..Self::default() }
    }

    /// Address of the machine's `on`, in an image where it is not inlined.
    pub fn machine(&self) -> Option<u32> {
        self.entries.iter().find(|(_, place)| **place == Place::Machine).map(|(&entry, _)| entry)
    }

    /// Sets a watchpoint at the entry of each watched function.
    pub fn arm(&self, core: &mut impl Core) {
        for &pc in self.entries.keys() {
            core.watch(pc);
        }
    }

    /// Removes all watchpoints and forgets the calls under way: nothing is measured from then on.
    pub fn disarm(&mut self, core: &mut impl Core) {
        let returns = self.open.drain(..).map(|open| open.returns_to);
        self.entries.keys().copied().chain(returns).for_each(|pc| core.unwatch(pc));
        self.entries.clear();
    }

    /// Samples so far.
    pub fn cycles(&self) -> &Cycles {
        &self.cycles
    }

    /// Called when the pacer is written. The first write in a call is for the flow of the event; further ones are for flows of
    /// the sweep.
    pub fn paced(&mut self, cycle: u64) {
        for open in &mut self.open {
            open.paced.get_or_insert(cycle);
        }
    }

    /// Called when the core is about to execute a watched instruction.
    pub fn reached(&mut self, pc: u32, core: &mut impl Core) {
        let cycle = core.cycles();
        while self.open.last().is_some_and(|open| open.returns_to == pc) {
            if let Some(open) = self.open.pop() {
                self.close(open, cycle);
            }
            if !self.entries.contains_key(&pc) && self.open.iter().all(|open| open.returns_to != pc) {
                core.unwatch(pc);
            }
        }
        if let Some(&place) = self.entries.get(&pc).filter(|&&place| self.counts(place)) {
            let returns_to = core.register(1);
            let kind = if let Place::Engine(kind) = place { Some(kind) } else { None };
            for open in &mut self.open {
                open.kind = open.kind.or(kind);
            }
            let kind = kind.or_else(|| self.open.iter().rev().find_map(|open| open.kind));
            self.open.push(Open { place, entered: cycle, returns_to, paced: None, kind });
            core.watch(returns_to);
        }
    }

    /// Whether a call begins a span. Calls of a machine's `on` within another such call, and after the pacer was written (then
    /// it is a flow of the sweep), begin none.
    fn counts(&self, place: Place) -> bool {
        place != Place::Machine || self.open.last().is_none_or(|open| open.place != place && open.paced.is_none())
    }

    fn close(&mut self, open: Open, cycle: u64) {
        let Some(kind) = open.kind else { return };
        let total = cycle - open.entered;
        let paced = open.paced.map_or(total, |paced| paced - open.entered);
        let spans: &[(Span, u64)] = match open.place {
            Place::Engine(_) => &[(Span::Step, paced), (Span::StepTotal, total)],
            Place::Machine => &[(Span::On, total)],
            Place::Program => &[(Span::Frame, paced)],
        };
        for &(span, cycles) in spans {
            self.cycles.or_default((kind, span)).push(u32::try_from(cycles).unwrap_or(u32::MAX));
        }
    }
}

/// The watched place that a demangled symbol names, if any: the programs of NIC and switch have one function for each kind of
/// event.
fn place(symbol: &str) -> Option<Place> {
    let last = symbol.rsplit("::").next()?;
    if symbol.contains("ReactionPoint>") && last == "on" {
        return Some(Place::Machine);
    }
    let kinds: &[&str] = match symbol {
        _ if symbol.contains("Nic<") || symbol.contains("NicProgram<") => &KINDS,
        _ if symbol.contains("SwitchProgram<") => &STAGE_KINDS,
        _ => return None,
    };
    match last {
        "handle" | "timer" => Some(Place::Program),
        _ => kinds.iter().find(|&&kind| kind == last).map(|&kind| Place::Engine(kind)),
    }
}
