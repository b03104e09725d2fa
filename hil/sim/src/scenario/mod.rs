//! Scenarios: TOML files that say what to simulate. README.md has all keys with their units and defaults, under "Scenarios".

mod table;

use crate::Picos;
use crate::fabric::{
    Buffer, DATA_CLASS, Effects, FlowSpec, Headroom, Kind, Limits, Recovery, Threshold, Topology, Transport, classes,
};
use crate::htsim;
use crate::input::{Input, paths, speeds};
use crate::marking::Stages;
use crate::ns3;
use crate::source::{EMPTY_HASH, Source};
use crate::topologies::LinkSpec;
use crate::workload::{Cdf, HostFlow, Limit, Poisson, incast, next, permutation};
use anyhow::{Error, Result};
use cc_core::params::{Field, Settings};
use cc_core::table::Heap;
use cc_core::{Bytes, Instant, IntLayout, Link, Nanos, Rate};
use cc_cp::int::{IntPush, IntSettings};
use cc_cp::list::StageList;
use cc_cp::{Queue, QueueStage};
use cc_rp::Signals;
use hil_algorithms::registry::{UnknownName, explained};
use hil_algorithms::settings::{Request, ResolvedSettings, SettingsTable, typed};
use hil_algorithms::{Algorithm, algorithm, stage};
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::{Path, PathBuf};
use table::{
    BUFFER_SIZE, RATE, SIZE, TIME, Table, Value, count, count_or_size, probability, rate, size, text, time, truth,
};
use toml::de::{DeTable, DeValue};

/// The most nodes: an address in `fct.txt` has 16 bits for the number of a node.
const MOST_NODES: u32 = 1 << 16;

/// The longest time of a PFC frame that [`Nanos`] holds, 4.3 s; a port's longest is shorter.
const MOST_NANOS: u64 = u32::MAX as u64;

/// The most flows: queue pair numbers have 24 bits.
const MOST_FLOWS: u32 = (1 << 24) - (1 << 10);

/// Bytes on the line of a data packet without telemetry in addition to its payload: Ethernet 14, IPv4 20, UDP 8, base transport
/// header 12, ICRC 4, and on the line preamble 8, check sequence 4 and gap 12.
const OVERHEAD: u64 = 14 + 20 + 8 + 12 + 4 + 24;

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

/// Reads a scenario and the files that it names. A seed replaces the scenario's.
///
/// # Errors
/// A file that cannot be read, and whatever is wrong in it, with line and place.
pub(crate) fn read(path: &Path, seed: Option<u64>) -> Result<Input> {
    let source = Source::read(path)?;
    let mut files = Files { paths: Vec::new(), hash: EMPTY_HASH };
    files.add(path.to_owned(), &source);
    let root = DeTable::parse(source.text()).map_err(|error| {
        let at = error.span().unwrap_or(0..0);
        source.error(&at, &format!("not TOML: {}", error.message().trim()))
    })?;
    let table = Table::new(&source, 0..0, root.get_ref());
    let own_seed = table.get("seed", "a whole number", |value| count(value, 0, u64::MAX))?;
    let seed = seed.or(own_seed).unwrap_or(1);
    let payload = table.get("payload", "bytes, 1 to 4096", |value| size(value).filter(|size| *size <= 4_096))?;
    let payload = payload.unwrap_or(1_000) as u32;
    let end = table.get("duration", TIME, time)?.unwrap_or(1_000_000_000_000);
    let base_rtt = table.get("base_rtt", "a time from \"1us\" to \"1s\"", |value| {
        time(value).filter(|time| (1_000_000..=1_000_000_000_000).contains(time))
    })?;
    let mut topology = topology(&within(&table, "topology", "a table with the kind of the topology")?, &mut files)?;
    if let Some(loss) = table.get("loss", "a probability from 0 to 1", probability)? {
        topology.links.iter_mut().for_each(|link| link.loss = loss);
    }
    let mut buffer = match table.find("buffer") {
        Some(value) => buffer(&Table::of(&source, value)?)?,
        None => Buffer::default(),
    };
    let transport = match table.find("transport") {
        Some(value) => transport(&Table::of(&source, value)?)?,
        None => Transport::default(),
    };
    let of_algorithm = within(&table, "algorithm", "a table with the name of the algorithm")?;
    let (algorithm, settings) = machines(&of_algorithm)?;
    let mut flows = Vec::new();
    let workloads = table.find("workload").ok_or_else(|| table.missing("workload", "[[workload]], at least one"))?;
    for (number, value) in array(&source, workloads)?.iter().enumerate() {
        let seed = crate::workload::stream(seed, &format!("workload {number}")).draw();
        workload(&Table::of(&source, value)?, &topology, seed, &mut files, &mut flows)?;
    }
    if flows.is_empty() || flows.len() > MOST_FLOWS as usize {
        let message = format!("the workloads have {} flows: expected 1 to {MOST_FLOWS}", flows.len());
        return Err(source.error(&workloads.span(), &message));
    }
    if buffer.lossless != 0 {
        buffer.lossless = classes(&flows);
    }
    flows.sort_by_key(|flow| flow.start);
    ns3::flow::number(&mut flows);
    let (longest, paths) = paths(&topology, &flows, payload).map_err(|error| table.error(&format!("{error:#}")))?;
    let base_rtt = base_rtt.map_or(longest, |time| Nanos::new((time / 1_000) as u32));
    let link = |speed: u64| Link {
        line_rate: Rate::from_bits_per_second(speed),
        mtu: Bytes::new(payload + OVERHEAD as u32),
        base_rtt,
    };
    for speed in speeds(&topology, Kind::Host) {
        let check = algorithm.check(&link(speed), [&settings.rp, &settings.np]);
        check.map_err(|error| of_algorithm.error(&format!("at {} Gb/s: {error}", speed as f64 / 1e9)))?;
    }
    let by_speed = stages(&table, &topology, link)?;
    table.finish()?;
    let int = by_speed.iter().flat_map(|(_, stages)| stages).find(|(name, _)| *name == <IntPush as QueueStage>::NAME);
    let is_compact = int.is_some_and(|(_, words)| words.first() == Some(&1));
    let mut warnings = Vec::new();
    match int {
        Some((_, words)) if is_compact => check_multiplier(&of_algorithm, &settings, words)?,
        None if algorithm.signals().contains(Signals::INT) => {
            let message = format!("{} reacts to telemetry, but no stage int writes any", algorithm.name());
            warnings.push(of_algorithm.note(&message));
        }
        _ => {}
    }
    let Files { paths: files, hash } = files;
    Ok(Input {
        files,
        hash,
        outputs: ["fct.txt", "pfc.txt"].map(str::to_owned).to_vec(),
        buffer: Some(buffer),
        queue_monitor: None,
        transport,
        topology,
        flows,
        algorithm,
        settings,
        stages: Box::new(move |speed| {
            let found = by_speed.iter().find(|(other, _)| *other == speed);
            Ok(found.map(|(_, stages)| stages.clone()).unwrap_or_default())
        }),
        int_layout: if is_compact { IntLayout::Compact } else { IntLayout::Wide },
        payload,
        base_rtt,
        end,
        seed,
        effects: Effects::default(),
        warnings,
        paths,
        overhead: OVERHEAD,
    })
}

/// The table that a key of a table has.
fn within<'a>(table: &Table<'a>, key: &'static str, what: &str) -> Result<Table<'a>> {
    Table::of(table.source, table.find(key).ok_or_else(|| table.missing(key, what))?)
}

/// The elements of an array.
fn array<'a>(source: &Source, value: &'a Value<'a>) -> Result<&'a [Value<'a>]> {
    match value.get_ref() {
        DeValue::Array(elements) => Ok(elements),
        other => Err(source.error(&value.span(), &format!("expected an array, not a {}", other.type_str()))),
    }
}

/// An error of a setting or a name at its place: for an unknown name that of `name`, otherwise that of the value.
fn misplaced(source: &Source, name: &Range<usize>, value: &Range<usize>, error: &Error) -> Error {
    let at = if error.is::<UnknownName>() { name } else { value };
    source.error(at, &explained(error))
}

/// Rate and delay of the links that keys of a table describe, if they are there, or else those of `default`.
fn link(table: &Table<'_>, [rate_key, delay_key]: [&'static str; 2], default: Option<LinkSpec>) -> Result<LinkSpec> {
    let bits_per_second = table.get(rate_key, RATE, rate)?.or(default.map(|link| link.bits_per_second));
    let delay = table.get(delay_key, TIME, time)?.or(default.map(|link| link.delay));
    Ok(LinkSpec {
        bits_per_second: bits_per_second.ok_or_else(|| table.missing(rate_key, RATE))?,
        delay: delay.ok_or_else(|| table.missing(delay_key, TIME))?,
    })
}

fn topology(table: &Table<'_>, files: &mut Files) -> Result<Topology> {
    let kinds = ["star", "dumbbell", "parking-lot", "leaf-spine", "fat-tree", "ns3", "htsim"];
    let kind = table.choice("kind", &kinds)?;
    let fits = |hosts: u64, nodes: u64| {
        let message =
            format!("{hosts} hosts among {nodes} nodes: expected at least 2 hosts and at most {MOST_NODES} nodes");
        if hosts >= 2 && nodes <= u64::from(MOST_NODES) { Ok(()) } else { Err(table.error(&message)) }
    };
    if let "ns3" | "htsim" = kind {
        let path = table.file("file")?;
        table.finish()?;
        let source = Source::read(&path)?;
        let topology =
            if kind == "ns3" { ns3::topology::read(&source)?.0 } else { htsim::topology::read(&source, MOST_NODES)? };
        fits(topology.hosts().count() as u64, topology.nodes.len() as u64)?;
        files.add(path, &source);
        return Ok(topology);
    }
    let hosts = link(table, ["rate", "delay"], None)?;
    let trunks = || link(table, ["trunk_rate", "trunk_delay"], Some(hosts));
    let number = |key| table.count(key, 1, MOST_NODES);
    let product = |one: u32, other: u32| u64::from(one) * u64::from(other);
    let topology = match kind {
        "star" => {
            let count = number("hosts")?;
            fits(count.into(), u64::from(count) + 1)?;
            Topology::star(count, hosts)
        }
        "dumbbell" => {
            let left = number("left")?;
            let right = if table.find("right").is_some() { number("right")? } else { left };
            let all = u64::from(left) + u64::from(right);
            fits(all, all + 2)?;
            Topology::dumbbell(left, right, hosts, trunks()?)
        }
        "parking-lot" => {
            let (switches, each) = (number("switches")?, number("hosts")?);
            let all = product(switches, each);
            fits(all, all + u64::from(switches))?;
            Topology::parking_lot(switches, each, hosts, trunks()?)
        }
        "leaf-spine" => {
            let (leaves, each, spines) = (number("leaves")?, number("hosts")?, number("spines")?);
            let all = product(leaves, each);
            fits(all, all + u64::from(leaves) + u64::from(spines))?;
            Topology::leaf_spine(leaves, each, spines, hosts, trunks()?)
        }
        _ => {
            let is_even = |ports: &u32| ports.is_multiple_of(2);
            let ports = table.need("k", "an even number from 2 to 62", |value| count(value, 2, 62).filter(is_even))?;
            Topology::fat_tree(ports, hosts, trunks()?)
        }
    };
    table.finish()?;
    Ok(topology)
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

/// The packet buffer of each switch.
fn buffer(table: &Table<'_>) -> Result<Buffer> {
    let Buffer { pool, headroom_apart, lossless, pause, limits, links } = Buffer::default();
    let bytes = |key| table.get(key, BUFFER_SIZE, count_or_size);
    let threshold = |alpha: &'static str, fixed: &'static str, default| {
        let dynamic = table.get(alpha, "a number above 0 and at most 64", |value| {
            let number = typed(value).parse().ok();
            number.filter(|alpha: &f64| *alpha > 0.0 && *alpha <= 64.0)
        })?;
        match (dynamic, bytes(fixed)?) {
            (None, None) => Ok(default),
            (Some(alpha), None) => Ok(Threshold::Dynamic(alpha)),
            (None, Some(bytes)) => Ok(Threshold::Static(bytes)),
            (Some(_), Some(_)) => Err(table.error(&format!("expected either `{alpha}` or `{fixed}`"))),
        }
    };
    let has_pfc = table.get("pfc", "true or false", truth)?.unwrap_or(true);
    let headroom = bytes("headroom")?.map_or(limits.headroom, Headroom::Bytes);
    let buffer = Buffer {
        pool: table.get("pool", SIZE, size)?.unwrap_or(pool),
        headroom_apart: table.get("headroom_apart", "true or false", truth)?.unwrap_or(headroom_apart),
        lossless: if has_pfc { lossless } else { 0 },
        pause: table.get("pause", TIME, time)?.map_or(pause, |time| Nanos::new((time / 1_000).min(MOST_NANOS) as u32)),
        limits: Limits {
            reserve: bytes("reserve")?.unwrap_or(limits.reserve),
            headroom,
            threshold: threshold("alpha", "threshold", limits.threshold)?,
            resume_offset: bytes("resume_offset")?.unwrap_or(limits.resume_offset),
            resume_below: limits.resume_below,
            lossy_threshold: threshold("lossy_alpha", "lossy_threshold", limits.lossy_threshold)?,
        },
        links,
    };
    table.finish()?;
    Ok(buffer)
}

/// How hosts send and acknowledge.
fn transport(table: &Table<'_>) -> Result<Transport> {
    let default = Transport::default();
    let packets = |key| {
        let packets = table.get(key, "a number of packets, at least 1", |value| count(value, 1, u32::MAX))?;
        Ok::<_, Error>(packets.and_then(NonZeroU32::new))
    };
    let recovery = match table.find("recovery") {
        Some(_) => match table.choice("recovery", &["go-back-n", "selective-repeat"])? {
            "go-back-n" => Recovery::GoBackN,
            _ => Recovery::SelectiveRepeat,
        },
        None => default.recovery,
    };
    let transport = Transport {
        message: packets("message")?,
        ack_interval: packets("ack_interval")?.unwrap_or(default.ack_interval),
        handshake: table.get("handshake", "true or false", truth)?.unwrap_or(default.handshake),
        recovery,
        timeout: table
            .get("timeout", "a time from \"1us\" to \"1000s\"", |value| {
                time(value).filter(|time| (1_000_000..=1_000_000_000_000_000).contains(time))
            })?
            .unwrap_or(default.timeout),
    };
    table.finish()?;
    Ok(transport)
}

/// A stage of switch ports, of those to links of one speed or of all.
#[derive(Debug)]
struct PortStage {
    name: &'static str,
    bits_per_second: Option<u64>,
    settings: SettingsTable,
}

/// The stages of the switch ports, by the speed of their links.
fn stages(table: &Table<'_>, topology: &Topology, link: impl Fn(u64) -> Link) -> Result<Vec<(u64, Stages)>> {
    let source = table.source;
    let mut all: Vec<PortStage> = Vec::new();
    let value = table.find("stages");
    for value in value.map(|value| array(source, value)).transpose()?.unwrap_or_default() {
        let table = Table::of(source, value)?;
        let name =
            table.need("name", "the name of a switch stage: see hil list", |value| text(value).map(str::to_owned))?;
        let preset = table.get("preset", "the name of a preset", |value| text(value).map(str::to_owned))?;
        let bits_per_second = table.get("link_rate", RATE, rate)?;
        let at = table.find(if preset.is_some() { "preset" } else { "name" }).map_or(0..0, Value::span);
        let found = stage(&name, preset.as_deref());
        let (name, mut settings) = found.map_err(|error| misplaced(source, &at, &at, &error))?;
        for (key, at, value) in table.others() {
            let set = settings.set(key, &typed(value.get_ref()));
            set.map_err(|error| misplaced(source, &at, &value.span(), &error))?;
        }
        if all.iter().any(|other| other.name == name && other.bits_per_second == bits_per_second) {
            return Err(table.error(&format!("stage {name} is given twice for the same links: expected one")));
        }
        all.push(PortStage { name, bits_per_second, settings });
    }
    let names = all.iter().fold(Vec::new(), |mut names, stage| {
        if !names.contains(&stage.name) {
            names.push(stage.name);
        }
        names
    });
    let speeds = speeds(topology, Kind::Switch).into_iter().map(|speed| {
        let own = names.iter().map(|&name| {
            let of_speed = |wanted| all.iter().find(|stage| stage.name == name && stage.bits_per_second == wanted);
            let stage = of_speed(Some(speed)).or(of_speed(None)).ok_or_else(|| {
                let at = value.map_or(0..0, Value::span);
                let message = format!("stage {name} has no settings for links of {} Gb/s", speed as f64 / 1e9);
                source.error(&at, &format!("{message}: expected one with this link_rate, or with none"))
            })?;
            Ok((stage.name, stage.settings.words().to_vec()))
        });
        Ok((speed, own.collect::<Result<Stages>>()?))
    });
    let by_speed: Vec<(u64, Stages)> = speeds.collect::<Result<_>>()?;
    for (speed, stages) in &by_speed {
        let at = value.map_or(0..0, Value::span);
        check_stages(stages, &link(*speed))
            .map_err(|error| source.error(&at, &format!("stages at {} Gb/s: {error}", *speed as f64 / 1e9)))?;
    }
    Ok(by_speed)
}

/// Checks that a port can have these stages.
fn check_stages(stages: &Stages, link: &Link) -> Result<()> {
    let mut switch = cc_cp::Switch::<StageList, Heap>::new(Instant::from_nanos(0));
    switch.make_room(Queue::CLASSES);
    for (name, settings) in stages {
        switch.stages_mut().add(name, settings)?;
    }
    Ok(switch.configure(Instant::from_nanos(0), Queue { port: 0, class: 0 }, link, &(), 0)?)
}

/// Checks that senders multiply the units of compact telemetry by what the stage with these settings divides them by.
fn check_multiplier(table: &Table<'_>, settings: &ResolvedSettings, stage: &[u32]) -> Result<()> {
    let multiplier = |fields: &[Field], words: &[u32]| {
        let place = fields.iter().position(|field| field.name == "int_multi")?;
        words.get(place).copied()
    };
    let of_sender = multiplier(settings.rp.fields(), settings.rp.words());
    let of_stage = multiplier(IntSettings::FIELDS, stage);
    match (of_sender, of_stage) {
        (Some(sender), Some(stage)) if sender != stage => {
            Err(table.error(&format!("int_multi is {sender} here and {stage} of stage int: expected the same")))
        }
        _ => Ok(()),
    }
}

/// Adds the flows of a workload.
fn workload(
    table: &Table<'_>,
    topology: &Topology,
    seed: u64,
    files: &mut Files,
    flows: &mut Vec<FlowSpec>,
) -> Result<()> {
    let source = table.source;
    let kinds = ["next", "permutation", "pairs", "incast", "poisson", "htsim", "ns3"];
    let kind = table.choice("kind", &kinds)?;
    let nodes: Vec<u32> = topology.hosts().collect();
    let hosts = nodes.len() as u32;
    if kind == "ns3" {
        let path = table.file("file")?;
        table.finish()?;
        let file = Source::read(&path)?;
        let read = ns3::flow::read(&file)?;
        let is_host = |node: u32| topology.nodes.get(node as usize) == Some(&Kind::Host);
        for (number, FlowSpec { source: from, destination: to, .. }) in read.iter().enumerate() {
            if !is_host(*from) || !is_host(*to) || from == to {
                let message = format!("flow {number} is from node {from} to node {to}: expected two different hosts");
                return Err(table.error(&format!("{}: {message}", path.display())));
            }
        }
        files.add(path, &file);
        flows.extend(read);
        return Ok(());
    }
    let label = table.get("label", "a whole number from 0 to 65535", |value| count(value, 0, u16::MAX))?;
    let label = label.unwrap_or(if kind == "incast" { 200 } else { 100 });
    let class = table.get("class", "a PFC priority, 0 to 7", |value| count(value, 0, 7))?.unwrap_or(DATA_CLASS);
    let begin = || Ok::<_, Error>(table.get("start", TIME, time)?.unwrap_or(0));
    let bytes = || table.need("bytes", SIZE, size);
    let host = format!("a host from 0 to {}", hosts - 1);
    let read: Vec<HostFlow> = match kind {
        "next" => next(hosts, bytes()?, begin()?),
        "permutation" => permutation(hosts, bytes()?, begin()?, seed),
        "pairs" => {
            let (bytes, start) = (bytes()?, begin()?);
            let what = "pairs of hosts such as [[0, 1], [2, 3]]";
            let pairs = table.find("pairs").ok_or_else(|| table.missing("pairs", what))?;
            let pair = |value: &Value<'_>| {
                let ends = match value.get_ref() {
                    DeValue::Array(ends) => ends.iter().map(|end| count(end.get_ref(), 0, hosts - 1)).collect(),
                    _ => None,
                };
                match ends.unwrap_or_else(Vec::new)[..] {
                    [source, destination] if source != destination => {
                        Ok(HostFlow { source, destination, bytes, start })
                    }
                    _ => Err(source.error(&value.span(), &format!("expected [{host}, another host]"))),
                }
            };
            array(source, pairs)?.iter().map(pair).collect::<Result<_>>()?
        }
        "incast" => {
            let receiver = table.get("receiver", &host, |value| count(value, 0, hosts - 1))?.unwrap_or(0);
            let what = format!("how many hosts send, from 1 to {}", hosts - 1);
            let senders = table.get("senders", &what, |value| count(value, 1, hosts - 1))?.unwrap_or(hosts - 1);
            let senders: Vec<u32> = (1..=senders).map(|nth| (receiver + nth) % hosts).collect();
            let spread = table.get("spread", TIME, time)?.unwrap_or(0);
            incast(&senders, receiver, bytes()?, begin()?, spread, seed)
        }
        "poisson" => {
            let path = table.file("cdf")?;
            let file = Source::read(&path)?;
            let sizes = Cdf::of(&file)?;
            files.add(path, &file);
            let what = "a fraction of the rate of a host's link, above 0 and at most 2";
            let load = table.need("load", what, |value| {
                let number = typed(value).parse().ok();
                number.filter(|load: &f64| *load > 0.0 && *load <= 2.0)
            })?;
            let duration = table.get("duration", TIME, time)?;
            let most = table.get("flows", "a number of flows, at least 1", |value| count(value, 1, u64::MAX))?;
            let limit = match (duration, most) {
                (Some(duration), None) => Limit::Duration(duration),
                (None, Some(most)) => Limit::Flows(most),
                _ => return Err(table.error("expected either `duration` or `flows`, where arrivals end")),
            };
            let mut rates = vec![0; topology.nodes.len()];
            for link in &topology.links {
                link.ends.iter().for_each(|&end| rates[end as usize] = link.bits_per_second);
            }
            let rates: Vec<u64> = nodes.iter().map(|&node| rates[node as usize]).collect();
            let poisson = Poisson { sizes: &sizes, load, rates: &rates, start: begin()?, limit };
            if poisson.expected() > f64::from(MOST_FLOWS) {
                let message = format!("{:.0} flows: expected at most {MOST_FLOWS}", poisson.expected());
                return Err(table.error(&message));
            }
            poisson.flows(seed)
        }
        _ => {
            let path = table.file("file")?;
            let file = Source::read(&path)?;
            let read = htsim::connections::read(&file, hosts)?;
            files.add(path, &file);
            read
        }
    };
    table.finish()?;
    flows.extend(read.into_iter().map(|HostFlow { source, destination, bytes, start }| {
        let ends = [source, destination].map(|host| nodes[host as usize]);
        FlowSpec { class, ..ns3::flow::spec(ends, bytes, start as Picos, label) }
    }));
    Ok(())
}
