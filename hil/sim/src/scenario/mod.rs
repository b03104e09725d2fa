//! Scenarios: TOML files that say what to simulate. README.md has all keys with their units and defaults, under "Scenarios".

mod cores;
mod faults;
mod switches;
mod table;
mod topology;
mod workload;

use crate::Picos;
use crate::fabric::{
    Buffer, Effects, Kind, Measure, PathChoice, Recovery, Transport, check_buffers, check_read, classes,
};
use crate::input::{Input, paths, speeds};
use crate::ns3;
use crate::packet::PacketFormat;
use crate::source::{EMPTY_HASH, Source};
use anyhow::{Error, Result};
use cc_core::wire::FRAMING;
use cc_core::{Bytes, IntLayout, Link, Nanos, Rate};
use cc_cp::QueueStage;
use cc_cp::int::IntPush;
use cc_rp::Signals;
use cores::cores;
use faults::faults;
use hil_algorithms::registry::{UnknownName, explained};
use hil_algorithms::settings::{Request, ResolvedSettings, typed};
use hil_algorithms::{Algorithm, algorithm};
use hil_sorted::SortedSet;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::PathBuf;
use switches::{
    buffer, buffers, check_multiplier, port_key, queues, queues_of, rate_calculation_warnings, stages, watchdog,
};
use table::{TIME, array, is_span, probability, size, time, truth};
pub use table::{Table, Value, count, number, text, texts};
use toml::de::DeValue;
use topology::{routes, topology};
use workload::{Traffic, workload};

/// The most nodes: an address in `fct.txt` has 16 bits for the number of a node.
const MOST_NODES: u32 = 1 << 16;

/// The most flows: queue pair numbers have 24 bits.
const MOST_FLOWS: u32 = (1 << 24) - (1 << 10);

/// Bytes on the line of a data packet without telemetry in addition to its payload: Ethernet 14, IPv4 20, UDP 8, base transport
/// header 12, ICRC 4, and what each frame takes on the line.
const OVERHEAD: u64 = 14 + 20 + 8 + 12 + 4 + FRAMING as u64;

/// What has been read: the scenario and the files that it names.
#[derive(Debug)]
struct Files {
    paths: Vec<PathBuf>,
    hash: u64,
}

impl Files {
    fn add(&mut self, path: PathBuf, source: &Source) {
        self.hash = source.hash(self.hash);
        self.paths.push(path);
    }
}

/// Reads a scenario from its text, and the files that it names. A seed replaces the scenario's.
///
/// # Errors
/// A file that cannot be read, and whatever is wrong in it, with line and place.
pub fn parse(source: &Source, seed: Option<u64>) -> Result<Input> {
    let mut files = Files { paths: Vec::new(), hash: EMPTY_HASH };
    files.add(source.path().to_owned(), source);
    let root = source.toml()?;
    let table = Table::new(source, 0..0, root.get_ref());
    let own_seed = table.get("seed", "a whole number", |value| count(value, 0, u64::MAX))?;
    let seed = seed.or(own_seed).unwrap_or(1);
    let payload = table.get("payload", "bytes, 1 to 4096", |value| size(value).filter(|size| *size <= 4_096))?;
    let payload = payload.unwrap_or(1_000) as u32;
    let end = table.get("duration", TIME, time)?.unwrap_or(1_000_000_000_000);
    let stall =
        table.get("stall", "a time of at least \"1us\"", |value| time(value).filter(|time| *time >= 1_000_000))?;
    let base_rtt = base_rtt_of(&table)?;
    let (mut topology, base_rtts) =
        topology(&table.within("topology", "a table with the kind of the topology")?, &mut files)?;
    routes(&table, &mut topology)?;
    if let Some(loss) = table.get("loss", "a probability from 0 to 1", probability)? {
        topology.links.iter_mut().for_each(|link| link.loss = loss);
    }
    let lossless = Buffer { lossless: u8::MAX, ..Buffer::default() };
    let mut buffer = match table.find("buffer") {
        Some(value) => buffer(&Table::of(source, value)?, lossless)?,
        None => lossless,
    };
    let mut buffers = buffers(&table, &topology, &buffer)?;
    let watchdog = match table.find("watchdog") {
        Some(value) => Some(watchdog(&Table::of(source, value)?)?),
        None => None,
    };
    let of_transport = table.find("transport").map(|value| Table::of(source, value)).transpose()?;
    let has_timeout = of_transport.as_ref().is_some_and(|table| table.find("timeout").is_some());
    let (mut transport, retiming) = of_transport.as_ref().map(transport).transpose()?.unwrap_or_default();
    let marks_arrivals = table.one_of("marking", &[("departures", false), ("arrivals", true)])?.unwrap_or_default();
    let of_algorithm = table.within("algorithm", "a table with the name of the algorithm")?;
    let (algorithm, settings) = machines(&of_algorithm)?;
    let measure = match table.find("measure") {
        Some(value) => Some(measure(&Table::of(source, value)?, end)?),
        None => None,
    };
    let mut traffic = Traffic::default();
    let workloads = table.find("workload").ok_or_else(|| table.missing("workload", "[[workload]], at least one"))?;
    for (number, value) in array(source, workloads)?.iter().enumerate() {
        let seed = crate::workload::stream(seed, &format!("workload {number}")).draw();
        let (table, before) = (Table::of(source, value)?, traffic.reads.len());
        workload(&table, &topology, seed, &mut files, &mut traffic)?;
        for &flow in &traffic.reads[before..] {
            let bytes = traffic.flows[flow as usize].bytes;
            let check = check_read(&*algorithm, &transport, bytes, payload);
            check.map_err(|error| table.error(&format!("`read`: {error}")))?;
        }
    }
    traffic.sort();
    let Traffic { mut flows, waits, offers, reads, stops, tags } = traffic;
    if flows.is_empty() || flows.len() > MOST_FLOWS as usize {
        let message = format!("the workloads have {} flows: expected 1 to {MOST_FLOWS}", flows.len());
        return Err(source.error(&workloads.span(), &message));
    }
    // A class without flows needs no headroom.
    let used = classes(&flows);
    [&mut buffer].into_iter().chain(buffers.values_mut()).for_each(|buffer| buffer.lossless &= used);
    ns3::flow::number(&mut flows);
    let at = |key| table.find(key).map_or(0..0, Value::span);
    let paths = paths(&topology, &flows, payload);
    let (longest, paths) = paths.map_err(|error| source.error(&at("topology"), &format!("{error:#}")))?;
    let base_rtt = base_rtt.unwrap_or(longest);
    let link = |speed: u64, base_rtt: Nanos| Link {
        line_rate: Rate::from_bits_per_second(speed),
        mtu: Bytes::new(payload + OVERHEAD as u32),
        base_rtt,
    };
    for speed in speeds(&topology, Kind::Host) {
        for base_rtt in base_rtts.values().chain([&base_rtt]).copied().collect::<SortedSet<Nanos>>() {
            let check = algorithm.check(&link(speed, base_rtt), [&settings.rp, &settings.np]);
            check.map_err(|error| {
                let (gbps, micros) = (speed as f64 / 1e9, f64::from(base_rtt.get()) / 1e3);
                of_algorithm.error(&format!("at {gbps} Gb/s and a base round trip of {micros} us: {error}"))
            })?;
        }
    }
    let path_choices = [
        ("hash", PathChoice::Hash),
        ("symmetric-hash", PathChoice::SymmetricHash),
        ("spray-random", PathChoice::SprayRandom),
        ("spray-round-robin", PathChoice::SprayRoundRobin),
    ];
    let path_choice = table.one_of("paths", &path_choices)?.unwrap_or_default();
    let faults = faults(&table, &topology, flows.len())?;
    let cores = cores(&table, &topology)?;
    let of_ports = stages(&table, &topology, |speed| link(speed, base_rtt))?;
    let queues = queues(&table, &topology)?;
    table.finish()?;
    let int = of_ports.values().flatten().find(|(name, _)| *name == <IntPush as QueueStage>::NAME);
    let is_compact = int.is_some_and(|(_, words)| words.first() == Some(&1));
    let mut warnings = Vec::new();
    let round_trip = Picos::from(longest.get()) * 1_000;
    if !has_timeout {
        transport.timeout = default_timeout(round_trip);
    }
    if transport.timeout <= round_trip {
        let [timeout, longest] = [transport.timeout / 1_000_000, u64::from(longest.get()) / 1_000];
        warnings.push(table.note(&format!(
            "senders give up after {timeout} us, but a base round trip takes {longest} us: packets are sent again that are not \
             lost. Expected a longer `timeout` in [transport]"
        )));
    }
    let of_lscc = rate_calculation_warnings(&of_ports, flows.len(), &settings);
    warnings.extend(of_lscc.iter().map(|message| source.note(&at("stages"), message)));
    match int {
        Some((_, words)) if is_compact => check_multiplier(&of_algorithm, &settings, words)?,
        None if algorithm.signals().contains(Signals::INT) => {
            let message = format!("{} reacts to telemetry, but no stage int writes any", algorithm.name());
            warnings.push(of_algorithm.note(&message));
        }
        _ => {}
    }
    let int_layout = if is_compact { IntLayout::Compact } else { IntLayout::Wide };
    let frame_bytes = PacketFormat::of(algorithm.signals(), payload).with_int(int_layout).frame_bytes()?;
    let buffer_of = |node| buffers.get(&node).unwrap_or(&buffer);
    check_buffers(&topology, buffer_of, frame_bytes).map_err(|(node, error)| {
        let key = if buffers.contains_key(&node) { "buffers" } else { "buffer" };
        source.error(&at(key), &format!("the buffer of switch {node}: {error:#}"))
    })?;
    let Files { paths: files, hash } = files;
    Ok(Input {
        files,
        hash,
        outputs: ["fct.txt", "pfc.txt"].map(str::to_owned).to_vec(),
        buffer: Some(buffer),
        buffers,
        watchdog,
        queue_monitor: None,
        transport,
        topology,
        flows,
        waits,
        offers,
        reads,
        stops,
        measure,
        tags,
        algorithm,
        settings,
        stages: Box::new(move |port| Ok(of_ports.get(&port_key(&port)).cloned().unwrap_or_default())),
        path_choice,
        queues: Box::new(move |port| queues_of(&queues, &port)),
        int_layout,
        payload,
        base_rtt,
        base_rtts,
        end,
        stall,
        seed,
        effects: Effects { retiming, marks_arrivals, ..Effects::default() },
        faults,
        cores,
        warnings,
        paths,
        overhead: OVERHEAD,
    })
}

/// The round-trip time that NICs are to be configured with, if a table has it.
fn base_rtt_of(table: &Table<'_>) -> Result<Option<Nanos>> {
    let time = table.get("base_rtt", "a time from \"1us\" to \"1s\"", |value| {
        time(value).filter(|time| (1_000_000..=1_000_000_000_000).contains(time))
    })?;
    Ok(time.map(|time| Nanos::new((time / 1_000) as u32)))
}

/// The elements of an array that has any.
fn some<'a>(source: &Source, value: &'a Value<'a>) -> Result<&'a [Value<'a>]> {
    match array(source, value)? {
        [] => Err(source.error(&value.span(), "expected at least one element")),
        elements => Ok(elements),
    }
}

/// An error of a setting or a name at its place: for an unknown name that of `name`, otherwise that of the value.
fn misplaced(source: &Source, name: &Range<usize>, value: &Range<usize>, error: &Error) -> Error {
    let at = if error.is::<UnknownName>() { name } else { value };
    source.error(at, &explained(error))
}

/// The algorithm and its settings, which are the keys of its table beside name and preset.
fn machines(table: &Table<'_>) -> Result<(Box<dyn Algorithm>, ResolvedSettings)> {
    let source = table.source;
    let name = table.need("name", "the name of an algorithm: see hil list", |value| text(value).map(str::to_owned))?;
    let preset = table.get("preset", "the name of a preset", |value| text(value).map(str::to_owned))?;
    let at = |key| table.find(key).map_or(0..0, Value::span);
    let algorithm = algorithm(&name).map_err(|error| misplaced(source, &at("name"), &at("name"), &error))?;
    let request = Request { preset, ..Request::default() };
    let resolved = ResolvedSettings::by(&*algorithm, &request);
    let mut settings = resolved.map_err(|error| misplaced(source, &at("preset"), &at("preset"), &error))?;
    for (name, at, value) in table.others() {
        let set = settings.set(name, &typed(value.get_ref()));
        set.map_err(|error| misplaced(source, &at, &value.span(), &error))?;
    }
    Ok((algorithm, settings))
}

/// The interval in which the run is measured, which ends at this time or before.
fn measure(table: &Table<'_>, end: Picos) -> Result<Measure> {
    let above = |least: Picos| move |value: &DeValue<'_>| time(value).filter(|&time| time > least);
    let from = table.get("from", TIME, time)?.unwrap_or(0);
    let what = "a time after `from` and not after `duration`";
    let until = table.get("until", what, |value| above(from)(value).filter(|&until| until <= end))?.unwrap_or(end);
    if until <= from {
        return Err(table.error("`from` is not before the end of the run"));
    }
    let window = table.get("window", "a time above 0", above(0))?.unwrap_or(Measure::WINDOW);
    let what = "a share from 0 to 1";
    let within = table.get("within", what, |value| number(value).filter(|share| (0.0..=1.0).contains(share)))?;
    table.finish()?;
    Ok(Measure { from, until, window, within: within.unwrap_or(Measure::WITHIN) })
}

/// The timeout where none is given, by the longest base round trip: that of [`Transport::default`], doubled until it is at least four
/// round trips, so that senders do not give up while queues add as much as three more.
fn default_timeout(round_trip: Picos) -> Picos {
    let mut timeout = Transport::default().timeout;
    while timeout < 4 * round_trip {
        timeout *= 2;
    }
    timeout
}

/// How hosts send and acknowledge, and whether a new rate moves the packet that waits.
fn transport(table: &Table<'_>) -> Result<(Transport, bool)> {
    let default = Transport::default();
    let packets = |key| {
        let packets = table.get(key, "a number of packets, at least 1", |value| count(value, 1, u32::MAX))?;
        Ok::<_, Error>(packets.and_then(NonZeroU32::new))
    };
    let recoveries = [("go-back-n", Recovery::GoBackN), ("selective-repeat", Recovery::SelectiveRepeat)];
    let recovery = table.one_of("recovery", &recoveries)?.unwrap_or(default.recovery);
    let retiming = table.one_of("pacing", &[("next-packet", false), ("at-once", true)])?.unwrap_or_default();
    let transport = Transport {
        message: packets("message")?,
        ack_interval: packets("ack_interval")?.unwrap_or(default.ack_interval),
        handshake: table.get("handshake", "true or false", truth)?.unwrap_or(default.handshake),
        recovery,
        timeout: table
            .get("timeout", "a time from \"1us\" to \"1000s\"", |value| time(value).filter(is_span))?
            .unwrap_or(default.timeout),
    };
    table.finish()?;
    Ok((transport, retiming))
}
