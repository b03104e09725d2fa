//! The cores that the command line accepts: the models, RTL with the prefix `rtl:`, and both side by side with the prefix
//! `pair:`.

use std::error::Error;
use std::fmt;
use std::ops::Range;

use anyhow::{Result, ensure};

use crate::any_core::{AnyCore, LockstepPair};
use crate::core::{Design, Dialect, Ram};
use crate::rtl::simulator::Verilog;
use crate::rtl::{Rtl, simulator};

/// The address at which PicoRV32's RTL begins; its bench fixes it.
const PICORV32_ENTRY: u32 = 0x0010_0000;

/// The error for an unknown core. The command line suggests the nearest known name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownCore {
    /// The unknown name.
    pub typed: String,
    /// The known names.
    pub known: Vec<&'static str>,
}

impl fmt::Display for UnknownCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown core {}", self.typed)
    }
}

impl Error for UnknownCore {}

/// A core, and how it is simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Processor {
    /// The model of a design.
    Model(Design),
    /// The RTL, simulated by Verilator.
    Rtl(Verilog),
    /// The model of a design and its RTL, which must agree.
    LockstepPair(Design),
}

impl From<Design> for Processor {
    fn from(design: Design) -> Self {
        Self::Model(design)
    }
}

impl Processor {
    /// All of them, the default first.
    pub fn all() -> impl Iterator<Item = Self> {
        let pairs = Design::ALL.into_iter().map(Self::LockstepPair);
        Design::ALL.into_iter().map(Self::Model).chain(Verilog::all().map(Self::Rtl)).chain(pairs)
    }

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model(design) => design.name(),
            Self::Rtl(Verilog::Of(Design::Ibex)) => "rtl:ibex",
            Self::Rtl(Verilog::Of(Design::IbexMaxperf)) => "rtl:ibex-maxperf",
            Self::Rtl(Verilog::Of(Design::Picorv32)) => "rtl:picorv32",
            Self::Rtl(Verilog::Of(Design::Picorv32Min)) => "rtl:picorv32-min",
            Self::Rtl(Verilog::Vexriscv) => "rtl:vexriscv",
            Self::LockstepPair(Design::Ibex) => "pair:ibex",
            Self::LockstepPair(Design::IbexMaxperf) => "pair:ibex-maxperf",
            Self::LockstepPair(Design::Picorv32) => "pair:picorv32",
            Self::LockstepPair(Design::Picorv32Min) => "pair:picorv32-min",
        }
    }

    /// One line of description.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Model(design) => design.description(),
            Self::Rtl(Verilog::Of(_)) => {
                "its Verilog, in a simulator that is built at the first use: needs verilator, g++, make and pip"
            }
            Self::Rtl(Verilog::Vexriscv) => {
                "VexRiscv: RV32IMAC, five stages, caches of 4 KiB; as Verilog only, like those above, without a model"
            }
            Self::LockstepPair(_) => {
                "model and Verilog side by side: a run ends as soon as they differ in an access or in its cycle"
            }
        }
    }

    /// The interrupt architecture of its programs.
    #[must_use]
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::Model(design) | Self::LockstepPair(design) => design.dialect(),
            Self::Rtl(verilog) => verilog.dialect(),
        }
    }

    /// The core of this name.
    ///
    /// # Errors
    /// No core has this name.
    pub fn named(name: &str) -> Result<Self> {
        ensure!(!name.starts_with("qemu:"), "{name}: only hil replay runs it, it has no cycles");
        ensure!(name != Verilog::Vexriscv.name(), "{name}: there is no model of it: expected rtl:{name}, its Verilog");
        let unknown = || UnknownCore { typed: name.to_owned(), known: Self::all().map(Self::name).collect() };
        Ok(Self::all().find(|core| core.name() == name).ok_or_else(unknown)?)
    }

    /// A core with zeroed RAM about to execute at `entry`. Loads and stores in `devices` that do not lie in RAM return as
    /// stops. Every fetch, load and store takes `wait` extra cycles.
    ///
    /// # Errors
    /// The simulator of the RTL cannot be built or started, or the RTL does not begin there.
    pub fn start(self, ram: &[Ram], devices: Range<u32>, wait: u64, entry: u32) -> Result<AnyCore> {
        let verilog = match self {
            Self::Model(design) => return Ok(design.model(ram, devices, wait, entry)),
            Self::Rtl(verilog) => verilog,
            Self::LockstepPair(design) => Verilog::Of(design),
        };
        ensure!(
            verilog.dialect() != Dialect::Picorv32 || entry == PICORV32_ENTRY,
            "{}: begins at {PICORV32_ENTRY:#010x}, the image at {entry:#010x}",
            self.name()
        );
        let simulator = simulator::build(simulator::folder()?, verilog)?;
        let rtl = Rtl::new(&simulator, ram, devices.clone(), wait, entry)?;
        Ok(match self {
            Self::LockstepPair(design) => {
                AnyCore::LockstepPair(LockstepPair::new(design.model(ram, devices, wait, entry), rtl))
            }
            _ => AnyCore::Rtl(rtl),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_without_a_model_is_accepted_as_rtl_only() {
        assert_eq!(Processor::named("rtl:vexriscv").ok(), Some(Processor::Rtl(Verilog::Vexriscv)));
        let refused = Processor::named("vexriscv").map_err(|error| error.to_string());
        assert_eq!(refused, Err("vexriscv: there is no model of it: expected rtl:vexriscv, its Verilog".into()));
    }

    #[test]
    fn every_core_is_found_by_its_name() {
        for core in Processor::all() {
            assert_eq!(Processor::named(core.name()).ok(), Some(core), "{}", core.name());
            assert_eq!(core.name().starts_with("rtl:"), matches!(core, Processor::Rtl(_)), "{}", core.name());
            assert_eq!(core.name().starts_with("pair:"), matches!(core, Processor::LockstepPair(_)), "{}", core.name());
        }
    }
}
