//! `hil synth`: writes a capture of a congested port.

use anyhow::{Context, Result, ensure};
use cc_core::Nanos;
use cc_cp::QueueStage;
use cc_cp::red::Red;
use hil_algorithms::settings::preset;
use hil_capture::Writer;
use hil_sim::incast::Incast;
use hil_sim::named;
use std::path::PathBuf;

/// Arguments of `hil synth`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The pcapng file to write; `-` for standard output.
    output: PathBuf,
    /// Hosts that send to one receiver.
    #[arg(long, default_value_t = 8)]
    senders: usize,
    /// Speed of every cable, in Gb/s.
    #[arg(long, default_value_t = 100)]
    line_rate: u32,
    /// Propagation delay of every cable, in nanoseconds.
    #[arg(long, default_value_t = 1_000)]
    delay: u32,
    /// Payload bytes of a data packet.
    #[arg(long, default_value_t = 1_024)]
    payload: u32,
    /// Packets in a message.
    #[arg(long, default_value_t = 16)]
    message: u32,
    /// Simulated time, in microseconds.
    #[arg(long, default_value_t = 400)]
    duration: u32,
    /// Seed of the random generator, which draws start times, sequence numbers and marks.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The algorithm of the senders and the receiver, see `hil list`.
    #[arg(long, value_name = "NAME", default_value = "dcqcn")]
    algorithm: String,
    /// Preset of the senders and the receiver; the algorithm's first if not given.
    #[arg(long)]
    preset: Option<String>,
    /// Preset of RED at the switches.
    #[arg(long, default_value = "paper")]
    red: String,
    /// Records of flows in the receiver's NIC, which evicts when it has no more; if not given, it has room for all flows.
    #[arg(long, value_name = "N")]
    records: Option<usize>,
}

/// Runs the scenario and writes the frames to and from the receiver.
pub(crate) fn run(args: &Args) -> Result<()> {
    let red = preset(Red::NAME, Red::PRESETS, Some(&args.red))?;
    let duration = Nanos::from_micros(args.duration).context("--duration: expected at most 4294967 us")?;
    let scenario = Incast {
        senders: args.senders,
        gbps: args.line_rate,
        delay: Nanos::new(args.delay),
        payload: args.payload,
        message: args.message,
        duration,
        pauses: None,
        records: args.records,
        seed: args.seed,
    };
    ensure!(!args.output.is_dir(), "{}: expected a file name, not a folder", args.output.display());
    let is_standard_output = args.output.as_os_str() == "-";
    let name = || if is_standard_output { "standard output".to_owned() } else { args.output.display().to_string() };
    let mut file = Writer::create(&args.output, &["receiver"])?;
    let mut tap = |time, frame: &[u8]| file.write(0, START + time, frame, frame.len() as u32).with_context(name);
    let summary = named::run(&scenario, &args.algorithm, args.preset.as_deref(), red.values, &mut tap)?;
    file.finish().with_context(name)?;
    let mut line = format!(
        "{}: {} frames, {} of data, {} marked, {} CNPs; the longest queue held {} bytes",
        name(),
        summary.frames,
        summary.data,
        summary.marked + summary.undetermined,
        summary.cnps,
        summary.longest_queue
    );
    for (count, what) in [
        (summary.switch_cnps, "CNPs were sent by switches"),
        (summary.dropped, "data packets were dropped by switches"),
        (summary.evicted, "records of flows were evicted by the receiver"),
    ] {
        if count > 0 {
            line.push_str(&format!("; {count} {what}"));
        }
    }
    if is_standard_output {
        eprintln!("{line}");
    } else {
        println!("{line}");
    }
    Ok(())
}

/// Time stamp at which captures begin: 2026-01-01, in nanoseconds since 1970.
const START: u64 = 1_767_225_600_000_000_000;
