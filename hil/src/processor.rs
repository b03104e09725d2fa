//! The cores that a command may name: the models, and the RTL of each behind `rtl:`.

use std::ops::Range;

use anyhow::{Context, Result, ensure};

use crate::core::{AnyCore, Design, Dialect, Ram};
use crate::replay::settings::expected;
use crate::rtl::{Rtl, simulator};

/// Where PicoRV32's RTL begins: the benches fix it.
const PICORV32_ENTRY: u32 = 0x0010_0000;

/// The model of a design, or its RTL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Processor {
    /// The design.
    pub design: Design,
    /// Whether it is the RTL, simulated by Verilator.
    pub rtl: bool,
}

impl From<Design> for Processor {
    fn from(design: Design) -> Self {
        Self { design, rtl: false }
    }
}

impl Processor {
    /// All of them, the default first.
    pub fn all() -> impl Iterator<Item = Self> {
        [false, true].into_iter().flat_map(|rtl| Design::ALL.map(|design| Self { design, rtl }))
    }

    /// The name that the command line knows it by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match (self.rtl, self.design) {
            (false, design) => design.name(),
            (true, Design::Ibex) => "rtl:ibex",
            (true, Design::IbexMaxperf) => "rtl:ibex-maxperf",
            (true, Design::Picorv32) => "rtl:picorv32",
            (true, Design::Picorv32Min) => "rtl:picorv32-min",
        }
    }

    /// What it is, in a line.
    #[must_use]
    pub const fn description(self) -> &'static str {
        if self.rtl {
            "its Verilog, in a simulator that is built at the first use: needs verilator, g++, make and pip"
        } else {
            self.design.description()
        }
    }

    /// The core of a name.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> Result<Self> {
        let expected = || expected(name, Self::all().map(Self::name));
        Self::all().find(|core| core.name() == name).with_context(|| format!("unknown core {name}: {}", expected()))
    }

    /// A core with zeroed RAM about to execute at `entry`; loads and stores in `devices`, as far as it is not RAM, surface as
    /// stops. Every fetch, load and store takes `wait` cycles more than it must.
    ///
    /// # Errors
    /// The simulator of the RTL cannot be built or started, or the RTL does not begin there.
    pub fn start(self, ram: &[Ram], devices: Range<u32>, wait: u64, entry: u32) -> Result<AnyCore> {
        if !self.rtl {
            return Ok(self.design.model(ram, devices, wait, entry));
        }
        ensure!(
            self.design.dialect() != Dialect::Picorv32 || entry == PICORV32_ENTRY,
            "{}: begins at {PICORV32_ENTRY:#010x}, the image at {entry:#010x}",
            self.name()
        );
        let simulator = simulator::build(&simulator::folder(), self.design)?;
        Ok(AnyCore::Rtl(Rtl::new(&simulator, ram, devices, wait, entry)?))
    }
}
