//! The model and the RTL of one design, run side by side as one core: both receive the same inputs, and must agree on every
//! stop and its cycle.

use super::AnyCore;
use crate::core::{Core, Ram, Stop};
use crate::rtl::{Reset, Rtl};
use anyhow::Result;
use std::ops::Range;

/// A model and its RTL. When they differ, the run ends with a [`Stop::Fault`] that describes the difference.
#[derive(Debug)]
pub struct LockstepPair {
    model: Box<AnyCore>,
    rtl: Rtl,
}

impl LockstepPair {
    /// Takes a model and its RTL, both about to execute the same program in RAM of the same content.
    pub fn new(model: AnyCore, rtl: Rtl) -> Self {
        Self { model: Box::new(model), rtl }
    }
}

impl Reset for LockstepPair {
    /// Wait states of every fetch, load and store.
    type Timing = u64;

    fn reset(&mut self, ram: &[Ram], devices: Range<u32>, wait: u64, entry: u32) -> Result<()> {
        self.model.reset(ram, devices.clone(), wait, entry)?;
        self.rtl.reset(ram, devices, wait, entry)
    }
}

impl Core for LockstepPair {
    fn cycles(&self) -> u64 {
        self.model.cycles()
    }

    fn instructions(&self) -> u64 {
        self.model.instructions()
    }

    fn run(&mut self, until: u64) -> Stop {
        let stop = self.model.run(until);
        let model = (stop, self.model.cycles());
        let rtl = (self.rtl.run(until), self.rtl.cycles());
        let agree = match (model.0, rtl.0) {
            // The texts of the reasons may differ.
            (Stop::Fault { pc: ours, .. }, Stop::Fault { pc: theirs, .. }) => ours == theirs,
            // Model and RTL may count an instruction as retired before or after a stop; only at this stop must the counts be
            // equal.
            (Stop::Idle, Stop::Idle) => model.1 == rtl.1 && self.model.instructions() == self.rtl.instructions(),
            _ => model == rtl,
        };
        if agree {
            return stop;
        }
        let pc = self.model.upcoming().map_or(0, |(_, pc)| pc);
        let reason = format!("the model stops at (what, cycle) {model:x?}, the RTL at {rtl:x?}");
        // Leaked, because the reason must be static; at most once, because the run ends here.
        Stop::Fault { pc, address: pc, reason: reason.leak() }
    }

    fn answer(&mut self, value: u32) {
        self.model.answer(value);
        self.rtl.answer(value);
    }

    fn set_timer_line(&mut self, high: bool) {
        self.model.set_timer_line(high);
        self.rtl.set_timer_line(high);
    }

    fn set_external_line(&mut self, high: bool) {
        self.model.set_external_line(high);
        self.rtl.set_external_line(high);
    }

    fn sleep_until(&mut self, cycle: u64) {
        self.model.sleep_until(cycle);
        self.rtl.sleep_until(cycle);
    }

    fn peek(&self, address: u32, bytes: &mut [u8]) {
        self.model.peek(address, bytes);
    }

    fn poke(&mut self, address: u32, bytes: &[u8]) {
        self.model.poke(address, bytes);
        self.rtl.poke(address, bytes);
    }

    fn register(&self, index: usize) -> u32 {
        self.model.register(index)
    }

    fn watch(&mut self, pc: u32) {
        self.model.watch(pc);
        self.rtl.watch(pc);
    }

    fn unwatch(&mut self, pc: u32) {
        self.model.unwatch(pc);
        self.rtl.unwatch(pc);
    }
}
