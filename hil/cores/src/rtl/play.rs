//! Runs a generated program on a core, with interrupt lines that rise at random cycles, and records all stops.

use super::program::{EXIT, EXTERNAL_ACKNOWLEDGE, RAM, TIMER_ACKNOWLEDGE};
use crate::core::{Core, Stop};
use crate::random::SplitMix;

/// Cycles after which a program counts as hung.
pub const TIMEOUT: u64 = 1_000_000;

/// A stop of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Cycles since the first instruction.
    pub cycle: u64,
    /// Instructions retired; at a store, without the store itself.
    pub instructions: u64,
    /// Why the core stopped.
    pub stop: Stop,
    /// At a watched instruction, the value of one register.
    pub register: u32,
}

/// The record of one run of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramRun {
    /// All stops, in order.
    pub events: Vec<Event>,
    /// CRC-32 of the RAM at the end.
    pub memory: u32,
    /// Interrupts raised.
    pub interrupts: u32,
}

impl ProgramRun {
    /// Whether the program reached its exit.
    #[must_use]
    pub fn ended(&self) -> bool {
        matches!(self.events.last(), Some(Event { stop: Stop::Store { address: EXIT, .. }, .. }))
    }

    /// Cycles in all.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.events.last().map_or(0, |event| event.cycle)
    }

    /// Instructions in all.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.events.last().map_or(0, |event| event.instructions)
    }

    /// CRC-32 over every event and the memory: equal runs have equal checksums.
    #[must_use]
    pub fn print(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        for event in &self.events {
            hasher.update(&event.cycle.to_le_bytes());
            hasher.update(&event.instructions.to_le_bytes());
            let (kind, address, width, value) = match event.stop {
                Stop::Load { address, width } => (0, address, width, 0),
                Stop::Store { address, width, value } => (1, address, width, value),
                Stop::Idle => (2, 0, 0, 0),
                Stop::Fault { pc, .. } => (3, pc, 0, 0),
                Stop::Watch { pc } => (4, pc, 0, 0),
                Stop::Cycle => (5, 0, 0, 0),
            };
            hasher.update(&[kind, width]);
            hasher.update(&address.to_le_bytes());
            hasher.update(&value.to_le_bytes());
            hasher.update(&event.register.to_le_bytes());
        }
        hasher.update(&self.memory.to_le_bytes());
        hasher.finalize()
    }
}

/// An interrupt line, and the cycle in which it rises next.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// Address to which the handler stores to acknowledge it.
    acknowledge: u32,
    high: bool,
    rise: u64,
}

impl Line {
    fn set(&mut self, core: &mut impl Core, high: bool) {
        self.high = high;
        if self.acknowledge == TIMER_ACKNOWLEDGE {
            core.set_timer_line(high);
        } else {
            core.set_external_line(high);
        }
    }
}

/// Runs the program, which `core` holds and has not started, to its exit.
///
/// The interrupt lines rise after random numbers of cycles, drawn from `seed`, at the start and after each acknowledgement;
/// while the core sleeps, time runs on to that cycle. A load reads the cycle in which it is made.
pub fn play(core: &mut impl Core, seed: u64) -> ProgramRun {
    let mut random = SplitMix::new(!seed);
    let mut program_run = ProgramRun { events: Vec::new(), memory: 0, interrupts: 0 };
    let mut lines = [TIMER_ACKNOWLEDGE, EXTERNAL_ACKNOWLEDGE].map(|acknowledge| {
        let rise = u64::from(random.below(400));
        Line { acknowledge, high: false, rise }
    });
    while core.cycles() < TIMEOUT {
        let next = lines.iter().filter(|line| !line.high).map(|line| line.rise).min().unwrap_or(TIMEOUT);
        let stop = core.run(next);
        let cycle = core.cycles();
        if stop != Stop::Cycle {
            let watched = matches!(stop, Stop::Watch { .. });
            let register = if watched { core.register(cycle as usize % 32) } else { 0 };
            program_run.events.push(Event { cycle, instructions: core.instructions(), stop, register });
        }
        match stop {
            Stop::Cycle | Stop::Watch { .. } => {}
            Stop::Load { address, .. } => core.answer((cycle as u32).rotate_left(address % 32)),
            Stop::Store { address: EXIT, .. } | Stop::Fault { .. } => break,
            Stop::Store { address, .. } => {
                if let Some(line) = lines.iter_mut().find(|line| line.acknowledge == address) {
                    line.set(core, false);
                    line.rise = cycle + gap(&mut random);
                }
            }
            Stop::Idle => core.sleep_until(next),
        }
        for line in &mut lines {
            if !line.high && core.cycles() >= line.rise {
                line.set(core, true);
                program_run.interrupts += 1;
            }
        }
    }
    program_run.memory = memory(core);
    program_run
}

/// The result of a program without interrupts, independent of cycles: the same on every core that executes it correctly.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Loads and stores of devices in order, up to the exit or to the stop that ended the program early.
    pub accesses: Vec<Stop>,
    /// CRC-32 of the RAM at the end.
    pub memory: u32,
}

impl Outcome {
    /// Whether the program reached its exit.
    #[must_use]
    pub fn ended(&self) -> bool {
        matches!(self.accesses.last(), Some(Stop::Store { address: EXIT, .. }))
    }
}

/// Runs the program, which `core` holds and has not started, to its exit. Loads read random values, drawn from `seed`.
pub fn outcome(core: &mut impl Core, seed: u64) -> Outcome {
    let mut random = SplitMix::new(!seed);
    let mut accesses = Vec::new();
    loop {
        let stop = core.run(TIMEOUT);
        accesses.push(stop);
        match stop {
            Stop::Load { .. } => core.answer(random.draw() as u32),
            Stop::Store { address, .. } if address != EXIT => {}
            _ => break,
        }
    }
    Outcome { accesses, memory: memory(core) }
}

fn memory(core: &impl Core) -> u32 {
    let mut memory = vec![0; RAM.size as usize];
    core.peek(RAM.base, &mut memory);
    crc32fast::hash(&memory)
}

/// Cycles between an acknowledgement and the next rise: often so few that the handler is still running.
fn gap(random: &mut SplitMix) -> u64 {
    let bound = match random.below(4) {
        0 => 12,
        1 => 60,
        _ => 400,
    };
    u64::from(random.below(bound))
}
