//! The verbs of the program, one file each.

mod rtl;
mod run;

use clap::{Parser, Subcommand};

/// Hardware-in-the-loop harness of rnic-cc.
#[derive(Parser, Debug)]
#[command(version, about, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Runs a bare-metal RISC-V image on a cycle-accurate core.
    Run(run::Args),
    /// Compares the model of Ibex with its RTL, cycle by cycle: needs verilator, g++ and pip.
    Rtl(rtl::Args),
}

impl Cli {
    /// Does what the command line asks for.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.verb {
            Verb::Run(args) => run::run(&args),
            Verb::Rtl(args) => rtl::run(&args),
        }
    }
}
