//! `hil replay`: replays a capture to every NIC found in it.

use super::{CLOCK, CLOCKS, Format};
use anyhow::{Context, Result, ensure};
use cc_core::wire::shim;
use clap::ValueEnum;
use hil_algorithms::settings::Request;
use hil_capture::{Source, interrupt};
use hil_cores::board;
use hil_cores::log::Line;
use hil_replay::qp_pairs::QpPairs;
use hil_replay::survey::{self, Reading};
use hil_replay::{Ending, Images, Log, OnCore, Options, Report, Text, Wave, replay};
use std::fs;
use std::io::{IsTerminal, Read as _, Write, stderr, stdin, stdout};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

/// The smallest capture, in bytes, for which a progress bar is shown.
const LONG: u64 = 64 << 20;

/// Arguments of `hil replay`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The capture, pcap or pcapng; `-` or nothing for standard input.
    trace: Option<PathBuf>,
    /// The algorithm, see `hil list`.
    #[arg(long, value_name = "NAME", default_value = "dcqcn")]
    algorithm: String,
    /// The set of parameter values to begin with, see `hil list`; the algorithm's first if not given.
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// A TOML file of `name = value` lines, applied over the preset.
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
    /// One parameter in its unit, such as `rpg_ai_rate=5`; may be given several times, the last value of a name counts.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Replays only the NIC with this address; may be given several times.
    #[arg(long, value_name = "ADDR")]
    nic: Vec<IpAddr>,
    /// UDP destination port of packets with shims.
    #[arg(long, value_name = "PORT", default_value_t = shim::PORT)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    shim_port: u16,
    /// Line rate of every NIC's port in Gb/s.
    #[arg(long, value_name = "GBPS", default_value_t = Request::default().line_rate)]
    line_rate: u32,
    /// Largest packet on the wire in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = Request::default().mtu)]
    mtu: u32,
    /// Round-trip time of the empty network in microseconds.
    #[arg(long, value_name = "US", default_value_t = Request::default().base_rtt)]
    base_rtt: u32,
    /// Runs the firmware on this core too and compares every decision; see `hil list`.
    #[arg(long, value_name = "NAME")]
    core: Option<String>,
    /// The core's clock: stopped while the firmware works, or running in real time.
    #[arg(long, value_enum, default_value_t = Pace::Lockstep, requires = "core")]
    pace: Pace,
    /// Cycles per second, with `--pace real` or `--vcd`; 250000000 if not given.
    #[arg(long, value_name = "HZ", requires = "core")]
    #[arg(value_parser = clap::value_parser!(u64).range(CLOCKS))]
    clock: Option<u64>,
    /// The firmware image; built from the source tree if not given.
    #[arg(long, value_name = "ELF", requires = "core")]
    firmware: Option<PathBuf>,
    /// Of each kind of event, repeats the 1st, 4th, 16th and so on with a timer interrupt after each of its instructions, and
    /// reports whether the result always equals that of event and wake handled one after the other.
    #[arg(long, requires = "core")]
    interrupts: bool,
    /// Writes a wave (VCD) of the core to this file, for GTKWave: instructions, interrupts, pins, rates, and the variables that
    /// explain the rates. About 30 bytes per instruction.
    #[arg(long, value_name = "FILE", requires = "core")]
    vcd: Option<PathBuf>,
    /// Runs an image that logs, and prints its log lines among the core's events on standard error. Its decisions are the same;
    /// it takes more cycles.
    #[arg(long, requires = "core")]
    log: bool,
    /// A file of connected queue pairs: lines `address QP address QP`, or the output of `rdma resource show qp` on a host,
    /// after a line `address ADDR` with the host's address where it is needed. Connections that the file lacks are learnt from
    /// the capture. `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pairs: Option<PathBuf>,
    /// What to do with frames that are copies of others, such as those of a mirror port.
    #[arg(long, value_enum, default_value_t = Dedup::Auto, num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "on")]
    dedup: Dedup,
    /// What to do with frames whose ICRC is wrong.
    #[arg(long, value_enum, default_value_t = IcrcRule::Check)]
    icrc: IcrcRule,
    /// Lists all flows and every NIC's counters in the text report.
    #[arg(long)]
    flows: bool,
    /// Lists the CNPs that our receivers would send in the text report.
    #[arg(long)]
    cnps: bool,
    /// Ends with exit code 4 if there are findings.
    #[arg(long)]
    fail_on_findings: bool,
    /// What to print on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Treatment of duplicate frames.
#[derive(Clone, Copy, ValueEnum, Debug)]
enum Dedup {
    /// Left out where the capture clearly has them.
    Auto,
    /// Left out wherever there may be any.
    On,
    /// Played.
    Off,
}

/// Treatment of frames with a wrong ICRC.
#[derive(Clone, Copy, ValueEnum, Debug)]
enum IcrcRule {
    /// Dropped, as a NIC does.
    Check,
    /// Played: for captures taken at the sender, before its NIC has computed the ICRC.
    Ignore,
}

/// Exit code of a replay whose capture is cut off: the report covers the frames before the cut.
const CUT: u8 = 3;
/// Exit code of a replay with findings, if `--fail-on-findings` is given.
const FINDINGS: u8 = 4;

/// The clock of a core.
#[derive(Clone, Copy, ValueEnum, Debug)]
enum Pace {
    /// Stopped while the firmware works: every decision equals the library's.
    Lockstep,
    /// Running: frames arrive at their cycle, and may find the ring full.
    Real,
}

/// Replays the capture and prints the report.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    ensure!(
        args.clock.is_none() || matches!(args.pace, Pace::Real) || args.vcd.is_some(),
        "--clock: expected --pace real or --vcd beside it: in lockstep the clock stands still while the firmware works"
    );
    ensure!(
        !(args.interrupts && args.log),
        "--interrupts: expected no --log beside it: log lines carry the time, so two orders of events never log the same"
    );
    ensure!(
        !args.interrupts || matches!(args.pace, Pace::Lockstep),
        "--interrupts: expected --pace lockstep beside it: in real time interrupts come when they are due"
    );
    let clock = args.clock.unwrap_or(CLOCK);
    let options = Options {
        algorithm: args.algorithm.clone(),
        request: Request {
            preset: args.preset.clone(),
            params: args.params.clone(),
            sets: args.set.clone(),
            line_rate: args.line_rate,
            mtu: args.mtu,
            base_rtt: args.base_rtt,
        },
        only: args.nic.iter().map(IpAddr::to_canonical).collect(),
        shim_port: args.shim_port,
        core: args.core.clone().map(|name| OnCore {
            name,
            pace: match args.pace {
                Pace::Lockstep => board::Pace::Lockstep,
                Pace::Real => board::Pace::Real { hz: clock },
            },
            firmware: args.firmware.clone().map(|image| Images { image, outlined_on: None }),
            interrupts: args.interrupts,
        }),
        log: args.log.then(|| Log(Rc::new(print))),
        wave: args.vcd.clone().map(|path| Wave { path, inputs: inputs(args), hz: clock }),
        reading: Reading {
            pairs: args.pairs.as_deref().map(|path| pairs(path, args)).transpose()?.unwrap_or_default(),
            dedup: match args.dedup {
                Dedup::Auto => survey::Dedup::Auto,
                Dedup::On => survey::Dedup::On,
                Dedup::Off => survey::Dedup::Off,
            },
            ignores_icrc: matches!(args.icrc, IcrcRule::Ignore),
        },
    };
    // From here on a signal ends the reading of the capture; the frames read so far are reported.
    interrupt::stop_gracefully();
    let mut capture = Source::open(args.trace.as_deref().unwrap_or(Path::new("-")))?;
    let report = with_progress(&options, &mut capture)?;
    // `--vcd -` writes the wave to standard output.
    let is_taken = args.vcd.as_deref() == Some(Path::new("-"));
    let mut output: Box<dyn Write> = if is_taken { Box::new(stderr().lock()) } else { Box::new(stdout().lock()) };
    match args.format {
        Format::Text => write!(output, "{}", Text { report: &report, flows: args.flows, cnps: args.cnps }),
        Format::Json => writeln!(output, "{}", serde_json::to_string_pretty(&report)?),
    }
    .context("cannot write the report")?;
    if matches!(args.format, Format::Json) {
        report.notes.iter().for_each(|note| eprintln!("note: {note}"));
    }
    Ok(match &report.ending {
        Ending::Cut(fault) => {
            eprintln!("incomplete: {fault}; the report is about the {} whole frames before", report.frames.total);
            ExitCode::from(CUT)
        }
        Ending::Interrupted(signal) => {
            eprintln!(
                "incomplete: ended by signal {signal}; the report is about the {} frames read before",
                report.frames.total
            );
            ExitCode::from(128 + u8::try_from(*signal).unwrap_or(0))
        }
        Ending::Whole if args.fail_on_findings && !report.findings.is_empty() => ExitCode::from(FINDINGS),
        Ending::Whole => ExitCode::SUCCESS,
    })
}

/// The input files, which no output may overwrite.
fn inputs(args: &Args) -> Vec<PathBuf> {
    let files = [&args.trace, &args.params, &args.firmware, &args.pairs];
    files.into_iter().flatten().cloned().collect()
}

/// Reads a file of pairs; `-` is standard input.
fn pairs(path: &Path, args: &Args) -> Result<QpPairs> {
    let is_input = |path: &Path| path == Path::new("-");
    let name = if is_input(path) { "standard input".to_owned() } else { path.display().to_string() };
    let bytes = if is_input(path) {
        ensure!(
            !args.trace.as_deref().is_none_or(is_input),
            "--pairs -: standard input is the capture: give the file of one of them"
        );
        let mut bytes = Vec::new();
        stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        fs::read(path)
    };
    let text = String::from_utf8(bytes.with_context(|| name.clone())?)
        .with_context(|| format!("{name}: expected text in UTF-8"))?;
    QpPairs::parse(&text, &name)
}

/// Prints a log line. Write errors are ignored: standard error may be closed.
fn print(nic: IpAddr, line: Line) {
    let _ = writeln!(stderr().lock(), "cycle {:<10} {nic} {line}", line.cycle);
}

/// Replays a capture. Shows on a terminal which part of a long file has been replayed.
fn with_progress(options: &Options, capture: &mut Source) -> Result<Report> {
    let Some(size) = capture.size().filter(|&size| size >= LONG && stderr().is_terminal()) else {
        return replay(options, capture, |_| {});
    };
    let mut shown = 0;
    let report = replay(options, capture, |position| {
        let percent = position.saturating_mul(100) / size;
        if percent != shown {
            shown = percent;
            super::show_progress(format_args!("{percent} % of {} MB", size / 1_000_000));
        }
    });
    super::show_progress(format_args!(""));
    report
}
