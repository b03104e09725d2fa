//! Builds the simulator of a design's RTL once, with Debian's Verilator, from the HDL in a wheel on PyPI.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::core::{Design, Dialect};
use crate::tree::{self, Tree};

/// A core with a simulator of its Verilog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verilog {
    /// A design that also has a model.
    Of(Design),
    /// VexRiscv, with caches, compressed instructions, multiplier and divider. It has no model.
    Vexriscv,
}

impl Verilog {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        Design::ALL.into_iter().map(Self::Of).chain([Self::Vexriscv])
    }

    /// The name of the core.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Of(design) => design.name(),
            Self::Vexriscv => "vexriscv",
        }
    }

    /// The interrupt architecture of its programs.
    #[must_use]
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::Of(design) => design.dialect(),
            Self::Vexriscv => Dialect::Vexriscv,
        }
    }
}

/// The sources and options from which a simulator is built.
struct Recipe {
    /// The wheel with the core's HDL, and its SHA-256 in the form that pip reads.
    requirements: &'static str,
    /// This project's files, by the names in the arguments: bench, primitives, and the list of public signals.
    sources: &'static [(&'static str, &'static str)],
    /// Verilator arguments in addition to those of all cores: the wheel's include paths, and its files in the order of reading.
    arguments: &'static [&'static str],
    /// The parameter of the bench that selects the configuration, if there are several.
    parameter: Option<&'static str>,
}

/// The file that all simulators share.
const HARNESS: (&str, &str) = ("harness.h", include_str!("hdl/harness.h"));

const IBEX: Recipe = Recipe {
    requirements: include_str!("hdl/ibex/requirements.txt"),
    sources: &[
        ("public.vlt", include_str!("hdl/ibex/public.vlt")),
        ("primitives.sv", include_str!("hdl/ibex/primitives.sv")),
        ("bench.sv", include_str!("hdl/ibex/bench.sv")),
        ("bench.cpp", include_str!("hdl/ibex/bench.cpp")),
    ],
    arguments: &[
        "-Iwheel/pythondata_cpu_ibex/system_verilog/vendor/lowrisc_ip/ip/prim/rtl",
        "-Iwheel/pythondata_cpu_ibex/system_verilog/vendor/lowrisc_ip/dv/sv/dv_utils",
        "-Iwheel/pythondata_cpu_ibex/system_verilog/rtl",
        "public.vlt",
        // Verilator must read packages before the files that use them.
        "wheel/pythondata_cpu_ibex/system_verilog/vendor/lowrisc_ip/ip/prim/rtl/prim_secded_pkg.sv",
        "wheel/pythondata_cpu_ibex/system_verilog/vendor/lowrisc_ip/ip/prim/rtl/prim_ram_1p_pkg.sv",
        "wheel/pythondata_cpu_ibex/system_verilog/vendor/lowrisc_ip/ip/prim/rtl/prim_mubi_pkg.sv",
        "wheel/pythondata_cpu_ibex/system_verilog/vendor/lowrisc_ip/ip/prim/rtl/prim_util_pkg.sv",
        "wheel/pythondata_cpu_ibex/system_verilog/vendor/lowrisc_ip/ip/prim/rtl/prim_count_pkg.sv",
        "wheel/pythondata_cpu_ibex/system_verilog/vendor/lowrisc_ip/ip/prim/rtl/prim_cipher_pkg.sv",
        "wheel/pythondata_cpu_ibex/system_verilog/rtl/ibex_pkg.sv",
        "primitives.sv",
    ],
    parameter: Some("-GMaxPerf=0"),
};

const PICORV32: Recipe = Recipe {
    requirements: include_str!("hdl/picorv32/requirements.txt"),
    sources: &[
        ("public.vlt", include_str!("hdl/picorv32/public.vlt")),
        ("bench.sv", include_str!("hdl/picorv32/bench.sv")),
        ("bench.cpp", include_str!("hdl/picorv32/bench.cpp")),
    ],
    arguments: &["public.vlt", "wheel/pythondata_cpu_picorv32/verilog/picorv32.v"],
    parameter: Some("-GFast=1"),
};

const VEXRISCV: Recipe = Recipe {
    requirements: include_str!("hdl/vexriscv/requirements.txt"),
    sources: &[
        ("bench.sv", include_str!("hdl/vexriscv/bench.sv")),
        ("bench.cpp", include_str!("hdl/vexriscv/bench.cpp")),
    ],
    arguments: &["wheel/pythondata_cpu_vexriscv/verilog/VexRiscv_IMAC.v"],
    parameter: None,
};

impl Recipe {
    const fn of(verilog: Verilog) -> Self {
        match verilog {
            Verilog::Of(Design::Ibex) => IBEX,
            Verilog::Of(Design::IbexMaxperf) => Self { parameter: Some("-GMaxPerf=1"), ..IBEX },
            Verilog::Of(Design::Picorv32) => PICORV32,
            Verilog::Of(Design::Picorv32Min) => Self { parameter: Some("-GFast=0"), ..PICORV32 },
            Verilog::Vexriscv => VEXRISCV,
        }
    }

    /// Files that the build writes, by name.
    fn files(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.sources.iter().copied().chain([HARNESS, ("requirements.txt", self.requirements)])
    }
}

/// A program that the build needs is not installed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    program: &'static str,
    package: &'static str,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not installed: on Debian, `apt-get install {}`", self.program, self.package)
    }
}

impl std::error::Error for Missing {}

/// Where simulators are kept: Cargo's target folder of the source tree.
///
/// # Errors
/// There is no source tree.
pub fn folder() -> Result<&'static Path> {
    tree::here().map(Tree::target)
}

/// Path of the core's simulator, which is built below `target` unless it is there already.
///
/// # Errors
/// [`Missing`] if a needed program is not installed; else the error output of pip or Verilator.
pub fn build(target: &Path, verilog: Verilog) -> Result<PathBuf> {
    let recipe = Recipe::of(verilog);
    let mut hasher = crc32fast::Hasher::new();
    recipe.files().for_each(|(_, text)| hasher.update(text.as_bytes()));
    recipe.arguments.iter().chain(&recipe.parameter).for_each(|text| hasher.update(text.as_bytes()));
    let folder = target.join("rtl").join(format!("{:08x}", hasher.finalize()));
    let simulator = folder.join("bench");
    if simulator.is_file() {
        return Ok(simulator);
    }
    need("verilator", &["--version"], "verilator")?;
    need("g++", &["--version"], "g++ make")?;
    need("python3", &["-m", "pip", "--version"], "python3-pip")?;

    // Built in a separate folder and then moved, so that an aborted build leaves no simulator, and concurrent builds do not
    // disturb each other.
    let workshop = target.join("rtl").join(format!("build-{}", std::process::id()));
    eprintln!("hil: building the RTL simulator of {} in {} (about half a minute)", verilog.name(), folder.display());
    let built = build_in(&workshop, &recipe);
    if built.is_ok() && !simulator.is_file() {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::rename(&workshop, &folder)
            .with_context(|| format!("{}: cannot move the simulator here", folder.display()))?;
    } else {
        let _ = std::fs::remove_dir_all(&workshop);
    }
    built.map(|()| simulator)
}

/// Checks that a program is installed, by running it with `arguments`, with which it exits at once.
pub(crate) fn need(program: &'static str, arguments: &[&str], package: &'static str) -> Result<()> {
    let found = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ensure!(found.is_ok_and(|status| status.success()), Missing { program, package });
    Ok(())
}

fn build_in(folder: &Path, recipe: &Recipe) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be created", folder.display()))?;
    for (name, text) in recipe.files() {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    let pip = "pip download --quiet --disable-pip-version-check --no-deps --require-hashes -d . -r requirements.txt";
    call(folder, Command::new("python3").arg("-m").args(pip.split(' ')))?;
    let wheel = std::fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .context("pip has downloaded no wheel")?;
    call(folder, Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg("wheel"))?;

    let mut verilator = Command::new("verilator");
    verilator.args(["--cc", "--exe", "--build", "-j", "2", "-O3", "-CFLAGS", "-O3", "-MAKEFLAGS", "OPT_FAST=-O3"]);
    verilator.args(["-Wno-fatal", "-Wno-lint", "-Wno-style", "-DSYNTHESIS", "--top-module", "bench"]);
    verilator.args(recipe.parameter);
    verilator.args(["--Mdir", "objects", "-o", "../bench", "-CFLAGS", "-I.."]);
    verilator.args(recipe.arguments).args(["bench.sv", "bench.cpp"]);
    call(folder, &mut verilator)
}

fn call(folder: &Path, command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.current_dir(folder).output().with_context(|| format!("{name}: cannot be started"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let first = said.lines().find(|line| line.to_lowercase().contains("error")).or(said.lines().last());
    bail!("{name}: {} ({})", first.unwrap_or("it printed no error"), output.status)
}
