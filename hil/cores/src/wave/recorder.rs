//! Records the activity of one core.

use super::track::{Kind, Track};
use crate::board::{Action, PacerStore};
use crate::core::{Core, Stop};
use cc_core::Rate;
use hil_sorted::{SortedMap, SortedSet};
use programs::LogKind;
use programs::layout::{DEVICE_BASE, register};
use std::io;
use std::path::Path;

/// Most QPs of a NIC that are recorded: the first that the pacer is written for.
pub const SLOTS: usize = 64;

/// Picoseconds in a second.
const SECOND: u128 = 1_000_000_000_000;
/// Picoseconds in a nanosecond.
const NANOSECOND: u64 = 1_000;

/// Instruction words that return from an interrupt: `mret`, and PicoRV32's `retirq`.
const RETURNS: [u32; 2] = [0x3020_0073, 0x0400_000b];

/// A function that passes names and values of the state variables of the flow in a slot to another function, one by one.
pub type Explain<'a> = &'a dyn Fn(u16, &mut dyn FnMut(&'static str, f64));

/// The time of each cycle.
#[derive(Clone, Copy, Debug)]
struct Timeline {
    hz: u64,
    /// Picoseconds at `cycle`.
    time: u64,
    cycle: u64,
}

impl Timeline {
    fn at(&self, cycle: u64) -> u64 {
        let since = u128::from(cycle.saturating_sub(self.cycle)) * SECOND / u128::from(self.hz);
        self.time.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }

    /// Called at an event: sets the time of this cycle to that of the event, `now` in nanoseconds, or to the end of the
    /// previous work if that is later.
    fn event(&mut self, now: u64, cycle: u64) {
        self.time = self.at(cycle).max(now.saturating_mul(NANOSECOND));
        self.cycle = cycle;
    }
}

/// Variables of a core.
#[derive(Clone, Copy, Debug)]
struct Variables {
    cycle: usize,
    pc: usize,
    interrupt: usize,
    timer_line: usize,
    external_line: usize,
    busy_pin: usize,
    timer_pin: usize,
    store: usize,
    address: usize,
    data: usize,
}

/// Variables of a QP.
#[derive(Debug)]
struct Slot {
    scope: String,
    rate: usize,
    /// Declared when the window first limits the flow.
    window: Option<usize>,
    hold: Option<usize>,
    plots: SortedMap<&'static str, usize>,
}

/// Records the activity of a core and the decisions of its image.
#[derive(Debug)]
pub struct Recorder {
    timeline: Timeline,
    core: Track,
    variables: Variables,
    decisions: Track,
    clock: usize,
    events: SortedMap<&'static str, usize>,
    slots: SortedMap<u32, Slot>,
    left_out: SortedSet<u32>,
    /// Whether the core shows the instruction that it executes; RTL does not.
    sees_inside: bool,
}

impl Recorder {
    /// Begins a recording at cycle `cycle` of a core that runs `hz` cycles per second. The recording is kept in temporary files
    /// in `folder` until it is taken.
    ///
    /// # Errors
    /// No file can be made there.
    pub fn new(folder: &Path, hz: u64, cycle: u64) -> io::Result<Self> {
        let (mut core, mut decisions) = (Track::new(folder)?, Track::new(folder)?);
        let mut new = |name, bits| core.variable(None, name, Kind::Bits(bits));
        let variables = Variables {
            cycle: new("cycle", 64),
            pc: new("pc", 32),
            interrupt: new("interrupt", 1),
            timer_line: new("timer_line", 1),
            external_line: new("external_line", 1),
            busy_pin: new("busy_pin", 1),
            timer_pin: new("timer_pin", 1),
            address: new("store_address", 32),
            data: new("store_data", 32),
            store: core.variable(None, "store", Kind::Event),
        };
        let clock = decisions.variable(None, "clock_ns", Kind::Bits(64));
        let mut recorder = Self {
            timeline: Timeline { hz, time: 0, cycle },
            core,
            variables,
            decisions,
            clock,
            events: SortedMap::new(),
            slots: SortedMap::new(),
            left_out: SortedSet::new(),
            sees_inside: false,
        };
        recorder.core.put(0, recorder.variables.cycle, cycle);
        for variable in [variables.busy_pin, variables.timer_pin] {
            recorder.core.put(0, variable, 0);
        }
        Ok(recorder)
    }

    /// QPs that were not recorded because there were too many.
    pub fn left_out(&self) -> usize {
        self.left_out.len()
    }

    /// The recorded tracks.
    pub(super) fn into_tracks(self) -> [Track; 2] {
        [self.core, self.decisions]
    }

    /// Called before each event. The clock shows `now`, in nanoseconds, in this cycle.
    pub fn event(&mut self, now: u64, cycle: u64) {
        self.timeline.event(now, cycle);
        self.core.put(self.timeline.time, self.variables.cycle, cycle);
    }

    /// Records that the timer's interrupt line was set.
    pub fn timer_line(&mut self, cycle: u64, high: bool) {
        self.core.put(self.timeline.at(cycle), self.variables.timer_line, high.into());
    }

    /// Records that the external interrupt line was set.
    pub fn external_line(&mut self, cycle: u64, high: bool) {
        self.core.put(self.timeline.at(cycle), self.variables.external_line, high.into());
    }

    /// Runs a core as [`Core::run`] does, and records what it executes.
    pub fn run(&mut self, core: &mut impl Core, until: u64) -> Stop {
        if !self.sees_inside && core.upcoming().is_some() {
            self.sees_inside = true;
            self.core.put(self.timeline.at(core.cycles()), self.variables.interrupt, 0);
        }
        let stop = loop {
            let now = core.cycles();
            let upcoming = core.upcoming().filter(|_| now < until);
            let Some((start, pc)) = upcoming else { break core.run(until) };
            let retired = core.instructions();
            let stop = core.run(now + 1);
            let next = core.upcoming().map_or(pc, |(_, pc)| pc);
            let ended = core.instructions() > retired || matches!(stop, Stop::Load { .. } | Stop::Store { .. });
            if start <= now && (ended || next == pc) {
                self.executes(core, start, pc);
            } else if next != pc {
                // A change of flow without a completed instruction: an interrupt or an exception.
                self.core.put(self.timeline.at(now), self.variables.interrupt, 1);
            }
            if stop != Stop::Cycle || core.cycles() >= until {
                break stop;
            }
        };
        if let Stop::Store { address, value, .. } = stop {
            self.stores(core.cycles(), address, value);
        }
        stop
    }

    fn executes(&mut self, core: &impl Core, cycle: u64, pc: u32) {
        let mut word = [0; 4];
        core.peek(pc, &mut word);
        let time = self.timeline.at(cycle);
        self.core.put(time, self.variables.pc, pc.into());
        if RETURNS.contains(&u32::from_le_bytes(word)) {
            self.core.put(time, self.variables.interrupt, 0);
        }
    }

    fn stores(&mut self, cycle: u64, address: u32, value: u32) {
        let time = self.timeline.at(cycle);
        let Variables { address: at, data, store, busy_pin, timer_pin, .. } = self.variables;
        self.core.put(time, at, address.into());
        self.core.put(time, data, value.into());
        self.core.put(time, store, 1);
        match address.wrapping_sub(DEVICE_BASE) {
            register::BUSY_PIN => self.core.put(time, busy_pin, (value != 0).into()),
            register::TIMER_PIN => self.core.put(time, timer_pin, (value != 0).into()),
            _ => {}
        }
    }

    /// Records the image's actions for one or more events, each with its cycle; `explain` returns the variables behind the
    /// decisions for a slot.
    pub fn decided(&mut self, actions: &[(u64, Action)], explain: Explain<'_>) {
        for event in actions.split_inclusive(|(_, action)| matches!(action, Action::Log(_))) {
            if let [(first, _), .., (_, Action::Log(record))] | [(first, Action::Log(record))] = event {
                self.decisions.put(self.timeline.at(*first), self.clock, record.now);
            }
            for (cycle, action) in event {
                let time = self.timeline.at(*cycle);
                match action {
                    Action::Pace(store) => self.paced(time, store, explain),
                    Action::Log(record) => {
                        let name = LogKind::from_number(record.kind).map_or("unknown", LogKind::name);
                        let new = || self.decisions.variable(Some("events"), name, Kind::Event);
                        let variable = *self.events.or_insert_with(name, new);
                        self.decisions.put(time, variable, 1);
                    }
                    Action::Frame(_) | Action::Stage(_) | Action::Read { .. } => {}
                }
            }
        }
    }

    fn paced(&mut self, time: u64, store: &PacerStore, explain: Explain<'_>) {
        let &PacerStore { index, rate, window, hold } = store;
        if self.slots.len() >= SLOTS && !self.slots.contains_key(&index) {
            self.left_out.insert(index);
            return;
        }
        let track = &mut self.decisions;
        let Slot { scope, rate: rate_variable, window: window_variable, hold: hold_variable, plots } =
            self.slots.or_insert_with(index, || {
                let scope = format!("slot_{index}");
                let rate = track.variable(Some(&scope), "rate_bps", Kind::Bits(64));
                Slot { scope, rate, window: None, hold: None, plots: SortedMap::new() }
            });
        track.put(time, *rate_variable, Rate::from_bits(rate).to_bits_per_second());
        for (name, variable, value, limits) in
            [("window_bytes", window_variable, window, window != u32::MAX), ("hold_ns", hold_variable, hold, hold != 0)]
        {
            if limits && variable.is_none() {
                *variable = Some(track.variable(Some(scope), name, Kind::Bits(32)));
            }
            if let Some(variable) = *variable {
                track.put(time, variable, value.into());
            }
        }
        explain(index as u16, &mut |name, value| {
            let new = || track.variable(Some(scope), name, Kind::Real);
            let variable = *plots.or_insert_with(name, new);
            track.put(time, variable, value.to_bits());
        });
    }
}
