//! The subcommands of `hil`, one file each.

mod check;
mod cycles;
mod footprint;
mod list;
mod replay;
mod rtl;
mod run;
mod synth;
mod unknown;

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) use unknown::explained;

/// Hardware-in-the-loop harness of rnic-cc.
#[derive(Parser, Debug)]
#[command(version, about, arg_required_else_help = true, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
    /// The source tree, for what is built from it; else RNIC_CC_TREE, else the working folder or the first tree above it.
    #[arg(long, value_name = "DIR", global = true)]
    tree: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Runs everything that CI checks.
    Check(check::Args),
    /// Measures what the events of every algorithm cost on a core.
    Cycles(cycles::Args),
    /// Measures the memory of every role of every algorithm: state, tables, code and stack, by target.
    Footprint(footprint::Args),
    /// Shows algorithms, their parameters and presets, and cores.
    List(list::Args),
    /// Replays a capture on the library, and on a core with the firmware.
    Replay(replay::Args),
    /// Compares the model of a core with its RTL, cycle by cycle: needs verilator, g++ and pip.
    Rtl(rtl::Args),
    /// Runs a bare-metal RISC-V image on a cycle-accurate core.
    Run(run::Args),
    /// Writes a capture of a congested port, made by the simulated fabric.
    Synth(synth::Args),
}

/// The meaning of the exit codes, for `--help`.
const EXIT_CODES: &str = "Exit codes: 0 done, findings too; 1 bad input, or a failure on the way; 2 an invalid command line; \
3 a capture that is cut off, with a report up to the cut; 4 findings, with --fail-on-findings; 77 a program that is needed is not \
installed; 128 and the signal's number: ended by a signal, a replay with a report up to there.";

/// Default clock frequency of a core in Hz.
const CLOCK: u64 = 250_000_000;
/// Clock frequencies that `--clock` accepts, in Hz.
const CLOCKS: RangeInclusive<u64> = 1_000_000..=10_000_000_000;

/// Output format of a subcommand.
#[derive(Clone, Copy, ValueEnum, Debug)]
enum Format {
    /// Text.
    Text,
    /// One object for scripts, and nothing else.
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
            Verb::List(args) => list::run(&args),
            Verb::Replay(args) => return replay::run(&args),
            Verb::Rtl(args) => rtl::run(&args),
            Verb::Run(args) => run::run(&args),
            Verb::Synth(args) => synth::run(&args),
        };
        done.map(|()| ExitCode::SUCCESS)
    }
}
