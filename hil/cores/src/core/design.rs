//! The designs that the harness has a model of, by name.

/// A core in one of its configurations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Design {
    /// Ibex, "small".
    Ibex,
    /// Ibex, "maxperf".
    IbexMaxperf,
    /// PicoRV32 in its fastest configuration.
    Picorv32,
    /// PicoRV32 with serial multiplication and shifts.
    Picorv32Min,
}

/// The interrupt architecture that programs for a core use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// Machine mode as RISC-V defines it.
    Machine,
    /// PicoRV32's own instructions, and no misaligned accesses.
    Picorv32,
    /// Machine mode with one trap handler, no misaligned accesses, and a data cache, which memory shared with devices must
    /// bypass.
    Vexriscv,
}

impl Design {
    /// All of them, the default first.
    pub const ALL: [Self; 4] = [Self::Ibex, Self::IbexMaxperf, Self::Picorv32, Self::Picorv32Min];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ibex => "ibex",
            Self::IbexMaxperf => "ibex-maxperf",
            Self::Picorv32 => "picorv32",
            Self::Picorv32Min => "picorv32-min",
        }
    }

    /// One line of description.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Ibex => {
                "lowRISC Ibex in its small configuration: RV32IMC, two stages, fast multiplier; exact to the cycle"
            }
            Self::IbexMaxperf => {
                "lowRISC Ibex for speed: RV32IMC, writeback stage, branch target ALU, single-cycle multiplier; \
                 exact to the cycle"
            }
            Self::Picorv32 => {
                "PicoRV32: RV32IMC, barrel shifter, fast multiplier, its own interrupt instructions; exact to the cycle"
            }
            Self::Picorv32Min => "PicoRV32 with serial multiplier and two-stage shifts; exact to the cycle",
        }
    }

    /// The interrupt architecture of its programs.
    #[must_use]
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::Ibex | Self::IbexMaxperf => Dialect::Machine,
            Self::Picorv32 | Self::Picorv32Min => Dialect::Picorv32,
        }
    }

    /// The design of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|design| design.name() == name)
    }
}
