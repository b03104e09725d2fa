//! `hil synth`: writes a capture of a congested port.

use anyhow::{Context, Result, ensure};
use cc_core::Nanos;
use cc_core::params::{Preset, Settings};
use cc_cp::CongestionPoint;
use cc_cp::red::Red;
use cc_np::NotificationPoint;
use cc_rp::ReactionPoint;
use hil::capture::Writer;
use hil::fabric::incast::Incast;
use std::path::PathBuf;

/// What `hil synth` is told.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The pcapng file to write.
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
    /// Packets of a message.
    #[arg(long, default_value_t = 16)]
    message: u32,
    /// How long the senders send, in microseconds.
    #[arg(long, default_value_t = 400)]
    duration: u32,
    /// Chooses start times, sequence numbers and marks.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Settings of the senders and the receiver.
    #[arg(long, default_value = "paper")]
    preset: String,
    /// Settings of the switch.
    #[arg(long, default_value = "paper")]
    red: String,
}

/// Runs the scenario and writes what passes the receiver's port.
pub(crate) fn run(args: &Args) -> Result<()> {
    type Rp = cc_rp::dcqcn::Dcqcn;
    type Np = cc_np::dcqcn::Dcqcn;
    let duration = Nanos::from_micros(args.duration).context("--duration: expected at most 4294967 us")?;
    let scenario = Incast {
        senders: args.senders,
        gbps: args.line_rate,
        delay: Nanos::new(args.delay),
        payload: args.payload,
        message: args.message,
        duration,
        pauses: None,
        seed: args.seed,
    };
    let rp = preset(Rp::PRESETS, &args.preset)?;
    let np = preset(Np::PRESETS, &args.preset)?;
    let red = preset(Red::PRESETS, &args.red)?;
    ensure!(!args.output.is_dir(), "{}: expected a file name, not a folder", args.output.display());
    let name = || args.output.display().to_string();
    let mut file = Writer::create(&args.output, &["receiver"])?;
    let summary = scenario
        .run::<Rp, Np, Red>(&rp, &np, |port| Red::check(&red, port), &mut |time, frame| {
            Ok(file.write(0, START + time, frame, frame.len() as u32)?)
        })
        .with_context(name)?;
    file.finish().with_context(name)?;
    println!(
        "{}: {} frames, {} of data, {} marked, {} CNPs; the longest queue held {} bytes",
        name(),
        summary.frames,
        summary.data,
        summary.marked,
        summary.cnps,
        summary.longest_queue
    );
    Ok(())
}

/// When the captures begin, in nanoseconds since 1970: 2026-01-01.
const START: u64 = 1_767_225_600_000_000_000;

fn preset<S: Settings>(presets: &[Preset<S>], name: &str) -> Result<S> {
    let names = || presets.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ");
    presets
        .iter()
        .find(|preset| preset.name == name)
        .map(|preset| preset.values)
        .with_context(|| format!("unknown preset {name}: expected one of {}", names()))
}
