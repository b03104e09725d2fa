//! Watchpoints: a run stops before a watched instruction executes.

use super::Stop;
use super::memory::{Code, Memory};

/// The watched instructions. Their decoded form is never kept, so that the execution of all others needs no check.
#[derive(Clone, Default, Debug)]
pub(super) struct Watches {
    watched: Vec<u32>,
    /// The cycle of the last stop at a watched instruction, which executes when the run continues.
    met: Option<u64>,
    /// The watched instruction that is decoded at present, to be executed once.
    passed: Option<u32>,
}

/// Whether the instruction that was decoded is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Met {
    Ordinary,
    /// It is watched: only this one may be executed before the next look-up.
    Watched,
}

impl Watches {
    /// Decodes an instruction that is reached for the first time, or stops before it if it is watched.
    pub(super) fn meet(&mut self, memory: &mut Memory, code: &mut Code, pc: u32, start: u64) -> Result<Met, Stop> {
        let watched = self.watched.contains(&pc);
        if watched && self.met != Some(start) {
            self.met = Some(start);
            return Err(Stop::Watch { pc });
        }
        self.passed = watched.then_some(pc);
        memory.decode(code, pc).ok_or(Stop::Fault { pc, address: pc, reason: "fetch outside RAM" })?;
        Ok(if watched { Met::Watched } else { Met::Ordinary })
    }

    /// Called when a watched instruction has been executed: discards its decoded form, so that the next run stops at it again.
    pub(super) fn forget(&mut self, memory: &mut Memory) {
        if let Some(pc) = self.passed.take() {
            memory.forget_at(pc);
        }
    }

    /// Watches the instruction at `pc`.
    pub(super) fn add(&mut self, memory: &mut Memory, pc: u32) {
        if !self.watched.contains(&pc) {
            self.watched.push(pc);
            memory.forget_at(pc);
        }
    }

    /// Removes the watch of the instruction at `pc`.
    pub(super) fn remove(&mut self, pc: u32) {
        self.watched.retain(|&watched| watched != pc);
    }
}
