//! The subcommands of `hil`, one file each.

mod check;
mod cycles;
mod footprint;
mod keepup;
mod list;
mod observe;
mod paper;
mod replay;
mod rtl;
mod run;
mod sim;
mod sweep;
mod synth;
mod unknown;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use std::io::{Write, stderr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fmt, fs};

pub(crate) use unknown::explained;

/// Hardware-in-the-loop harness of rnic-cc.
#[derive(Parser, Debug)]
#[command(version, about, arg_required_else_help = true, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
    /// The source tree that firmware is built from. Default: RNIC_CC_TREE, else the working folder or the first tree above it.
    #[arg(long, value_name = "DIR", global = true)]
    tree: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Runs everything that CI checks.
    Check(check::Args),
    /// Measures the cycles that the events of every algorithm take on a core.
    Cycles(cycles::Args),
    /// Measures the memory of every role of every algorithm: state, tables, code and stack, by target.
    Footprint(footprint::Args),
    /// Finds the rates of events at which cores fall behind, and what that does to queues and flows: a table.
    Keepup(keepup::Args),
    /// Lists the algorithms with their parameters and presets, and the cores.
    List(list::Args),
    /// Runs closed-loop experiments of the papers, by criteria, and shows what was measured beside what the papers claim.
    Paper(paper::Args),
    /// Replays a capture natively, and with --core on a core that runs the firmware too.
    Replay(replay::Args),
    /// Compares the model of a core with its RTL, cycle by cycle: needs verilator, g++ and pip.
    Rtl(rtl::Args),
    /// Runs any bare-metal RISC-V image on a cycle-accurate core.
    Run(run::Args),
    /// Simulates a network whose hosts and switches run the library, from a scenario in TOML, or from a
    /// configuration of HPCC's ns-3 as it stands.
    Sim(Box<sim::Args>),
    /// Simulates a scenario with many other values, over all cores and over machines, and merges the results into one table.
    Sweep(sweep::Args),
    /// Simulates hosts that congest one port, and writes a capture of it.
    Synth(synth::Args),
}

/// Makes the folder that an option names, if it is not there.
fn make_folder(option: &str, folder: &Path) -> Result<()> {
    let name = folder.display();
    ensure!(
        !folder.exists() || folder.is_dir(),
        "{option} {name}: is a file: expected the name of a folder, which is made if it is not there"
    );
    fs::create_dir_all(folder).with_context(|| format!("{option} {name}"))
}

/// Shows a line of progress on standard error, in the place of the one before; an empty line clears it.
fn show_progress(line: fmt::Arguments<'_>) {
    let _ = write!(stderr(), "\r{line}\x1b[K");
}

/// The meaning of the exit codes, for `--help`.
const EXIT_CODES: &str = "Exit codes: 0 done, also with findings; 1 bad input, or a failure on the way; 2 an invalid command \
line; 3 the capture is cut off, the report covers the frames before the cut; 4 findings, with --fail-on-findings; 77 a program \
that the command needs is not installed; 128 plus the signal's number: ended by a signal, a replay reports what it had read.";

/// Default clock frequency of a core in Hz.
const CLOCK: u64 = 250_000_000;
/// Clock frequencies that `--clock` accepts, in Hz.
const CLOCKS: RangeInclusive<u64> = 1_000_000..=10_000_000_000;

/// Output format of a subcommand.
#[derive(Clone, Copy, ValueEnum, Debug)]
enum Format {
    /// Text.
    Text,
    /// One JSON object, and nothing else.
    Json,
}

impl Cli {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// Those of the subcommand.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(folder) = &self.tree {
            hil_cores::tree::choose(folder).context("--tree")?;
        }
        let done = match self.verb {
            Verb::Check(args) => check::run(&args),
            Verb::Cycles(args) => cycles::run(&args),
            Verb::Footprint(args) => footprint::run(&args),
            Verb::Keepup(args) => keepup::print(&args),
            Verb::List(args) => list::run(&args),
            Verb::Paper(args) => paper::run(&args),
            Verb::Replay(args) => return replay::run(&args),
            Verb::Rtl(args) => rtl::run(&args),
            Verb::Run(args) => run::run(&args),
            Verb::Sim(args) => return sim::run(&args),
            Verb::Sweep(args) => sweep::run(&args, self.tree.as_deref()),
            Verb::Synth(args) => synth::run(&args),
        };
        done.map(|()| ExitCode::SUCCESS)
    }
}
