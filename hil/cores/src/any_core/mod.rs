//! A core of any design: its model, its RTL, or both side by side.

mod lockstep_pair;

pub use lockstep_pair::LockstepPair;

use crate::core::{Core, Design, Ibex, PicoTiming, Picorv32, Ram, Stop, Timing};
use crate::rtl::{Reset, Rtl};
use anyhow::Result;
use std::ops::Range;

impl Design {
    /// A model with zeroed RAM about to execute at `entry`. Loads and stores in `devices` that do not lie in RAM return as
    /// stops. Every fetch, load and store takes `wait` extra cycles.
    #[must_use]
    pub fn model(self, ram: &[Ram], devices: Range<u32>, wait: u64, entry: u32) -> AnyCore {
        match self {
            Self::Ibex => AnyCore::Ibex(Ibex::new(ram, devices, Timing::IBEX_SMALL.with_wait(wait), entry)),
            Self::IbexMaxperf => AnyCore::Ibex(Ibex::new(ram, devices, Timing::IBEX_MAXPERF.with_wait(wait), entry)),
            Self::Picorv32 => AnyCore::Picorv32(Picorv32::new(ram, devices, PicoTiming::FAST.with_wait(wait), entry)),
            Self::Picorv32Min => AnyCore::Picorv32(Picorv32::new(ram, devices, PicoTiming::MIN.with_wait(wait), entry)),
        }
    }
}

/// A core of any design.
#[derive(Debug)]
pub enum AnyCore {
    /// The model of an Ibex.
    Ibex(Ibex),
    /// The model of a PicoRV32.
    Picorv32(Picorv32),
    /// The RTL of any core.
    Rtl(Rtl),
    /// A model and its RTL side by side.
    LockstepPair(LockstepPair),
}

/// Calls the same function on the core of any variant.
macro_rules! of_each {
    ($any:expr, $core:ident => $call:expr) => {
        match $any {
            AnyCore::Ibex($core) => $call,
            AnyCore::Picorv32($core) => $call,
            AnyCore::Rtl($core) => $call,
            AnyCore::LockstepPair($core) => $call,
        }
    };
}

impl Core for AnyCore {
    fn cycles(&self) -> u64 {
        of_each!(self, core => core.cycles())
    }

    fn instructions(&self) -> u64 {
        of_each!(self, core => core.instructions())
    }

    fn run(&mut self, until: u64) -> Stop {
        of_each!(self, core => core.run(until))
    }

    fn answer(&mut self, value: u32) {
        of_each!(self, core => core.answer(value));
    }

    fn set_timer_line(&mut self, high: bool) {
        of_each!(self, core => core.set_timer_line(high));
    }

    fn set_external_line(&mut self, high: bool) {
        of_each!(self, core => core.set_external_line(high));
    }

    fn sleep_until(&mut self, cycle: u64) {
        of_each!(self, core => core.sleep_until(cycle));
    }

    fn peek(&self, address: u32, bytes: &mut [u8]) {
        of_each!(self, core => core.peek(address, bytes));
    }

    fn poke(&mut self, address: u32, bytes: &[u8]) {
        of_each!(self, core => core.poke(address, bytes));
    }

    fn register(&self, index: usize) -> u32 {
        of_each!(self, core => core.register(index))
    }

    fn watch(&mut self, pc: u32) {
        of_each!(self, core => core.watch(pc));
    }

    fn unwatch(&mut self, pc: u32) {
        of_each!(self, core => core.unwatch(pc));
    }

    fn upcoming(&self) -> Option<(u64, u32)> {
        of_each!(self, core => core.upcoming())
    }

    fn fork(&self) -> Option<Self> {
        match self {
            Self::Ibex(core) => core.fork().map(Self::Ibex),
            Self::Picorv32(core) => core.fork().map(Self::Picorv32),
            Self::Rtl(core) => core.fork().map(Self::Rtl),
            Self::LockstepPair(core) => core.fork().map(Self::LockstepPair),
        }
    }
}

impl Reset for AnyCore {
    /// Wait states of every fetch, load and store.
    type Timing = u64;

    fn reset(&mut self, ram: &[Ram], devices: Range<u32>, wait: u64, entry: u32) -> Result<()> {
        match self {
            Self::Ibex(core) => core.reset(ram, devices, core.timing().with_wait(wait), entry),
            Self::Picorv32(core) => core.reset(ram, devices, core.timing().with_wait(wait), entry),
            Self::Rtl(core) => core.reset(ram, devices, wait, entry),
            Self::LockstepPair(core) => core.reset(ram, devices, wait, entry),
        }
    }
}
