//! The designs that the harness has a model of, by name, and a core of any of them.

use std::ops::Range;

use crate::rtl::Rtl;
use crate::rtl::twin::Twin;

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

/// How programs for a core deal with interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// Machine mode as RISC-V defines it.
    Machine,
    /// PicoRV32's own instructions, and no misaligned accesses.
    Picorv32,
    /// Machine mode with one trap handler, no misaligned accesses, and a data cache that what is shared with devices stays
    /// out of.
    Vexriscv,
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

    /// What its programs are written in.
    #[must_use]
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::Ibex | Self::IbexMaxperf => Dialect::Machine,
            Self::Picorv32 | Self::Picorv32Min => Dialect::Picorv32,
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
    Twin(Twin),
}

/// Calls the same function of whichever core it is.
macro_rules! of_each {
    ($any:expr, $core:ident => $call:expr) => {
        match $any {
            AnyCore::Ibex($core) => $call,
            AnyCore::Picorv32($core) => $call,
            AnyCore::Rtl($core) => $call,
            AnyCore::Twin($core) => $call,
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
            Self::Twin(core) => core.fork().map(Self::Twin),
        }
    }
}
