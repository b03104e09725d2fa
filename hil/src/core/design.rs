//! The cores that the harness has a model of, by name, and a core of any of them.

use std::ops::Range;

use super::{Core, Ibex, PicoTiming, Picorv32, Ram, Stop, Timing};

/// A core in one of its configurations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Design {
    /// Ibex, "small".
    Ibex,
    /// Ibex, "maxperf".
    IbexMaxperf,
    /// PicoRV32 with all that makes it fast.
    Picorv32,
    /// PicoRV32 with serial multiplication and shifts.
    Picorv32Min,
}

impl Design {
    /// All of them, the default first.
    pub const ALL: [Self; 4] = [Self::Ibex, Self::IbexMaxperf, Self::Picorv32, Self::Picorv32Min];

    /// The name that the command line knows it by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ibex => "ibex",
            Self::IbexMaxperf => "ibex-maxperf",
            Self::Picorv32 => "picorv32",
            Self::Picorv32Min => "picorv32-min",
        }
    }

    /// What it is, in a line.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Ibex => {
                "lowRISC Ibex in its small configuration: RV32IMC, two stages, fast multiplier; exact to the cycle"
            }
            Self::IbexMaxperf => {
                "lowRISC Ibex for speed: RV32IMC, writeback stage, branch target ALU, single-cycle multiplier; exact to the cycle"
            }
            Self::Picorv32 => {
                "PicoRV32: RV32IMC, barrel shifter, fast multiplier, its own interrupt instructions; exact to the cycle"
            }
            Self::Picorv32Min => "PicoRV32 with serial multiplier and two-stage shifts; exact to the cycle",
        }
    }

    /// The design of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|design| design.name() == name)
    }

    /// A model with zeroed RAM about to execute at `entry`; loads and stores in `devices`, as far as it is not RAM, surface
    /// as stops. Every fetch, load and store takes `wait` cycles more than it must.
    #[must_use]
    pub fn model(self, ram: &[Ram], devices: Range<u32>, wait: u64, entry: u32) -> Model {
        match self {
            Self::Ibex => Model::Ibex(Ibex::new(ram, devices, Timing::IBEX_SMALL.with_wait(wait), entry)),
            Self::IbexMaxperf => Model::Ibex(Ibex::new(ram, devices, Timing::IBEX_MAXPERF.with_wait(wait), entry)),
            Self::Picorv32 => Model::Picorv32(Picorv32::new(ram, devices, PicoTiming::FAST.with_wait(wait), entry)),
            Self::Picorv32Min => Model::Picorv32(Picorv32::new(ram, devices, PicoTiming::MIN.with_wait(wait), entry)),
        }
    }
}

/// A model of any design.
#[derive(Clone, Debug)]
pub enum Model {
    /// An Ibex.
    Ibex(Ibex),
    /// A PicoRV32.
    Picorv32(Picorv32),
}

/// Calls the same function of whichever core it is.
macro_rules! of_each {
    ($model:expr, $core:ident => $call:expr) => {
        match $model {
            Model::Ibex($core) => $call,
            Model::Picorv32($core) => $call,
        }
    };
}

impl Core for Model {
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
}
