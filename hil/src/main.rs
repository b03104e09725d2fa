//! `hil`, the harness of rnic-cc: replays captures on the library and on cycle-accurate cores.

mod cmd;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use hil_capture::interrupt;
use hil_cores::rtl::simulator::Missing;

/// Exit code of a command that needs a program which is not installed, the convention of test drivers such as Automake's.
const SKIPPED: u8 = 77;

fn main() -> ExitCode {
    if let Err(error) = interrupt::watch() {
        eprintln!("error: cannot catch signals: {error}");
        return ExitCode::FAILURE;
    }
    let cli = match cmd::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if is_help(error.kind()) => error.exit(),
        Err(error) => {
            eprintln!("{}", first_paragraph(&error.to_string()));
            return ExitCode::from(2);
        }
    };
    match cli.run() {
        Ok(code) => code,
        Err(error) if error.is::<Missing>() => {
            eprintln!("skipped: {}", error.root_cause());
            ExitCode::from(SKIPPED)
        }
        // The reader of our output has closed the pipe, as `head` does: not an error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", cmd::explained(&error));
            ExitCode::FAILURE
        }
    }
}

const fn is_help(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// A command-line error as one line: clap prints usage and hints after the first empty line, which are cut off.
fn first_paragraph(message: &str) -> String {
    let lines: Vec<&str> = message.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    lines.join(" ")
}
