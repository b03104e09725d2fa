//! QEMU's boards, with cores of which this project has no model. QEMU executes the right instructions but does not model
//! cycles: it checks the decisions of an image, not its timing.

use crate::firmware::check_sources;
use crate::processor::UnknownCore;
use crate::rtl::simulator::need;
use anyhow::{Context, Result, ensure};
use object::{Architecture, Object};
use programs::layout::RX_FRAME_BYTES;
use programs::lockstep::SMALL_FRAME_BYTES;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A board of QEMU, and the image format for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line of description.
    pub description: &'static str,
    /// The `rustc` target of its core.
    pub target: &'static str,
    /// Whether its RAM has room only for a [`Small`](programs::Small) NIC.
    pub small: bool,
    architecture: Architecture,
    emulator: &'static str,
    /// The Debian package with the emulator.
    package: &'static str,
    /// The emulator's name of the machine.
    machine: &'static str,
}

const ARM: Machine = Machine {
    name: "qemu:mps2-an385",
    description: "Cortex-M3 (v7-M) in QEMU, instruction-accurate: function, no cycles; needs qemu-system-arm",
    target: "thumbv7m-none-eabi",
    small: false,
    architecture: Architecture::Arm,
    emulator: "qemu-system-arm",
    package: "qemu-system-arm",
    machine: "mps2-an385",
};

impl Machine {
    /// All of them.
    pub const ALL: [Self; 4] = [
        ARM,
        Self {
            name: "qemu:microbit",
            description: "Cortex-M0 (v6-M) in QEMU, likewise; 16 KiB of RAM, tables of 32 flows",
            target: "thumbv6m-none-eabi",
            small: true,
            machine: "microbit",
            ..ARM
        },
        Self {
            name: "qemu:mps2-an386",
            description: "Cortex-M4 (v7E-M) in QEMU, likewise",
            target: "thumbv7em-none-eabi",
            machine: "mps2-an386",
            ..ARM
        },
        Self {
            name: "qemu:riscv64-virt",
            description: "RV64IMAC in QEMU, likewise; needs qemu-system-riscv64",
            target: "riscv64imac-unknown-none-elf",
            small: false,
            architecture: Architecture::Riscv64,
            emulator: "qemu-system-riscv64",
            package: "qemu-system-misc",
            machine: "virt",
        },
    ];

    /// The machine of this name; `None` for a name without the prefix of QEMU's machines.
    ///
    /// # Errors
    /// The name has QEMU's prefix, and none of its machines has this name.
    pub fn named(name: &str) -> Result<Option<Self>> {
        if !name.starts_with("qemu:") {
            return Ok(None);
        }
        let known = || Self::ALL.iter().map(|machine| machine.name).collect();
        let found = Self::ALL.into_iter().find(|machine| machine.name == name);
        Ok(Some(found.ok_or_else(|| UnknownCore { typed: name.to_owned(), known: known() })?))
    }

    /// Most bytes of a frame that its image reads.
    #[must_use]
    pub const fn frame_bytes(&self) -> usize {
        if self.small { SMALL_FRAME_BYTES } else { RX_FRAME_BYTES }
    }

    /// Checks that a file is an image for its core.
    ///
    /// # Errors
    /// It cannot be read, is for another core, or is built from other sources than this harness.
    pub fn takes(&self, image: &Path) -> Result<()> {
        let file = fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
        let elf = object::File::parse(&*file)
            .with_context(|| format!("{}: expected an ELF image for {}", image.display(), self.name))?;
        let (found, own) = (elf.architecture(), self.architecture);
        ensure!(found == own, "{}: an image for {found:?}, {} is {own:?}", image.display(), self.name);
        check_sources(image)
    }

    /// Checks that its emulator is installed.
    ///
    /// # Errors
    /// [`Missing`](crate::rtl::simulator::Missing), which says what to install.
    pub fn installed(&self) -> Result<()> {
        need(self.emulator, &["--version"], self.package)
    }

    /// The command that runs an image on its emulator.
    pub fn run(&self, image: &Path) -> Command {
        let mut command = Command::new(self.emulator);
        command.args(arguments(self.machine)).arg(image);
        command
    }
}

/// Arguments of an emulator, to be followed by the path of an image.
pub fn arguments(machine: &str) -> Vec<&str> {
    let bare = ["-display", "none", "-monitor", "none", "-serial", "none", "-bios", "none"];
    let semihosting = ["-semihosting-config", "enable=on,target=native", "-kernel"];
    ["-M", machine].into_iter().chain(bare).chain(semihosting).collect()
}
