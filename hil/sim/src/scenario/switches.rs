//! The buffers of a scenario's switches, the stages of their ports, and the queues of these and of hosts.

use super::table::{
    BUFFER_SIZE, RATE, SIZE, TIME, Table, Value, count, count_or_size, is_span, number, rate, size, text, time, truth,
};
use super::{MOST_NODES, array, misplaced};
use crate::fabric::{
    self, Buffer, Headroom, Kind, Limits, NodePort, QueueSettings, Service, StormAction, Threshold, Topology, Watchdog,
};
use crate::marking::Stages;
use anyhow::Result;
use cc_core::params::{Field, Settings};
use cc_core::{Link, Nanos};
use cc_cp::QueueStage;
use cc_cp::int::IntSettings;
use cc_cp::lscc::direct_int::DirectInt;
use cc_cp::lscc::rate_calculation::{RateCalculation, RateCalculationSettings};
use cc_cp::lscc::rate_limiting::RateLimiting;
use hil_algorithms::settings::{ResolvedSettings, SettingsTable, typed};
use hil_algorithms::stage;
use hil_sorted::SortedMap;
use std::num::NonZeroU64;
use toml::de::DeValue;

/// The longest time of a PFC frame that [`Nanos`] holds, 4.3 s; a port's longest is shorter.
const MOST_NANOS: u64 = u32::MAX as u64;

/// Which ports an entry of a scenario is for: those that fit all of its keys, and without `at` those of switches only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Selector {
    at: Option<Nodes>,
    to: Option<Nodes>,
    bits_per_second: Option<u64>,
}

/// What a [`Selector`] chooses the ports of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    Stage,
    Buffer,
    Queue,
}

/// The nodes that a [`Selector`] is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Nodes {
    /// Those of a kind.
    Are(Kind),
    /// The one with this number.
    Is(u32),
}

impl Nodes {
    fn has(self, node: u32, kind: Kind) -> bool {
        match self {
            Self::Are(wanted) => kind == wanted,
            Self::Is(wanted) => node == wanted,
        }
    }
}

impl Selector {
    /// Reads `at`, `to` and, but for a buffer, `link_rate`. With any of them there must be such ports. Nodes are given by kind or, but
    /// for a stage, by number. Only queues can be those of hosts.
    fn read(table: &Table<'_>, topology: &Topology, entry: Entry) -> Result<Self> {
        let has_numbers = entry != Entry::Stage;
        let nodes = |key, kinds: &[Kind]| {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            let numbers = if has_numbers { ", or the number of a node" } else { "" };
            table.get(key, &format!("one of {}{numbers}", names.join(", ")), |value| {
                let kind = kinds.iter().copied().find(|kind| text(value) == Some(kind.name()));
                let number = count(value, 0, MOST_NODES - 1).filter(|_| has_numbers);
                kind.map(Nodes::Are).or(number.map(Nodes::Is))
            })
        };
        let has_hosts = entry == Entry::Queue;
        let kinds = if has_hosts { &Kind::ALL } else { &Kind::ALL[1..] };
        let (at, to) = (nodes("at", kinds)?, nodes("to", &Kind::ALL)?);
        let bits_per_second = if entry == Entry::Buffer { None } else { table.get("link_rate", RATE, rate)? };
        let selector = Self { at, to, bits_per_second };
        let mut ports = topology.ports().filter(|(_, port)| has_hosts || port.at != Kind::Host);
        if selector.keys() > 0 && !ports.any(|(_, port)| selector.fits(&port)) {
            let of = if has_hosts { "node" } else { "switch" };
            return Err(table.error(&format!(
                "no port of the topology fits: expected `at` a kind of {of} that it has, `to` what these are linked to, and \
                 `link_rate` the rate of such links"
            )));
        }
        Ok(selector)
    }

    /// Whether it is for ports of some switches or neighbours only.
    fn is_of_nodes(&self) -> bool {
        self.at.is_some() || self.to.is_some()
    }

    fn fits(&self, port: &NodePort) -> bool {
        self.at.map_or(port.at != Kind::Host, |at| at.has(port.node, port.at))
            && self.to.is_none_or(|to| to.has(port.neighbour, port.to))
            && self.bits_per_second.is_none_or(|speed| speed == port.bits_per_second)
    }

    /// How many keys it has.
    fn keys(&self) -> usize {
        usize::from(self.at.is_some()) + usize::from(self.to.is_some()) + usize::from(self.bits_per_second.is_some())
    }
}

/// The packet buffer that a table describes, which has what the table does not say from another.
pub(super) fn buffer(table: &Table<'_>, default: Buffer) -> Result<Buffer> {
    let Buffer { pool, headroom_apart, lossless, pause, limits, links } = default;
    let with_pfc = table.get("pfc", "true, false, or classes such as [3, 4]", |value| {
        truth(value).map(|all| if all { u8::MAX } else { 0 }).or_else(|| classes(value))
    })?;
    let buffer = Buffer {
        pool: table.get("pool", SIZE, size)?.unwrap_or(pool),
        headroom_apart: table.get("headroom_apart", "true or false", truth)?.unwrap_or(headroom_apart),
        lossless: with_pfc.unwrap_or(lossless),
        pause: table.get("pause", TIME, time)?.map_or(pause, |time| Nanos::new((time / 1_000).min(MOST_NANOS) as u32)),
        limits: limits_of(table, limits)?,
        links,
    };
    table.finish()?;
    Ok(buffer)
}

/// The limits at a port that a table describes, with what it does not say from others.
fn limits_of(table: &Table<'_>, limits: Limits) -> Result<Limits> {
    let bytes = |key| table.get(key, BUFFER_SIZE, count_or_size);
    let threshold = |alpha: &'static str, fixed: &'static str, default| {
        let dynamic = table.get(alpha, "a number above 0 and at most 64", |value| {
            number(value).filter(|alpha| *alpha > 0.0 && *alpha <= 64.0)
        })?;
        match (dynamic, bytes(fixed)?) {
            (None, None) => Ok(default),
            (Some(alpha), None) => Ok(Threshold::Dynamic(alpha)),
            (None, Some(bytes)) => Ok(Threshold::Static(bytes)),
            (Some(_), Some(_)) => Err(table.error(&format!("expected either `{alpha}` or `{fixed}`"))),
        }
    };
    Ok(Limits {
        reserve: bytes("reserve")?.unwrap_or(limits.reserve),
        headroom: bytes("headroom")?.map_or(limits.headroom, Headroom::Bytes),
        threshold: threshold("alpha", "threshold", limits.threshold)?,
        resume_offset: bytes("resume_offset")?.unwrap_or(limits.resume_offset),
        resume_below: limits.resume_below,
        lossy_threshold: threshold("lossy_alpha", "lossy_threshold", limits.lossy_threshold)?,
    })
}

/// The watchdog of all switch ports.
pub(super) fn watchdog(table: &Table<'_>) -> Result<Watchdog> {
    let span = |key| table.get(key, "a time from \"1us\" to \"1000s\"", |value| time(value).filter(is_span));
    let time = span("time")?.unwrap_or(100_000_000_000);
    let restore = span("restore")?.unwrap_or(time);
    let actions = [("report", StormAction::Report), ("drop", StormAction::Drop), ("forward", StormAction::Forward)];
    let action = table.one_of("action", &actions)?.unwrap_or(StormAction::Report);
    table.finish()?;
    Ok(Watchdog { time, restore, action })
}

/// The buffers of some switches, which have what is not said of them from the entries before or from `default`, by the switches'
/// numbers. An entry with `to` has the limits at some ports of these switches.
pub(super) fn buffers(table: &Table<'_>, topology: &Topology, default: &Buffer) -> Result<SortedMap<u32, Buffer>> {
    let source = table.source;
    let mut buffers = SortedMap::new();
    let entries = table.find("buffers").map(|value| array(source, value)).transpose()?.unwrap_or_default();
    let mut given: Vec<Selector> = Vec::new();
    for value in entries {
        let table = Table::of(source, value)?;
        let selector = Selector::read(&table, topology, Entry::Buffer)?;
        let at = selector.at.ok_or_else(|| table.missing("at", "a kind of switch, or the number of a switch"))?;
        if given.contains(&selector) {
            return Err(table.error("the buffer of these switches is given twice: expected one"));
        }
        if given.iter().any(|other| other.at == Some(at) && other.to.is_some()) && selector.to.is_none() {
            return Err(table.error("expected before the entries that have `to` of the same switches"));
        }
        given.push(selector);
        let switches = (0u32..).zip(&topology.nodes).filter(|&(node, &kind)| at.has(node, kind));
        for (node, _) in switches {
            let own = buffers.or_insert_with(node, || default.clone());
            if selector.to.is_none() {
                *own = buffer(&table, own.clone())?;
                continue;
            }
            let limits = limits_of(&table, own.limits)?;
            let ports = topology.switch_ports().filter(|(_, port)| port.node == node && selector.fits(port));
            for (link, _) in ports {
                match own.links.binary_search_by_key(&link, |&(other, _)| other) {
                    Ok(place) => own.links[place].1 = limits,
                    Err(place) => own.links.insert(place, (link, limits)),
                }
            }
        }
        table.finish()?;
    }
    Ok(buffers)
}

/// The settings of some queues: which ports, which classes, a bit each, and the settings.
pub(super) type Queues = Vec<(Selector, u8, QueueSettings)>;

/// The settings of the queues of switch ports, and of the classes of hosts' flows.
pub(super) fn queues(table: &Table<'_>, topology: &Topology) -> Result<Queues> {
    let source = table.source;
    let entries = table.find("queues").map(|value| array(source, value)).transpose()?.unwrap_or_default();
    let read = |value| {
        let table = Table::of(source, value)?;
        let selector = Selector::read(&table, topology, Entry::Queue)?;
        let what = "a class from 0 to 7, or several such as [3, 4]";
        let classes = table.need("class", what, |value| classes(value).or_else(|| Some(1 << count(value, 0, 7u8)?)))?;
        let is_strict = table.get("strict", "true or false", truth)?.unwrap_or(false);
        let weight = table.get("weight", "a whole number from 1 to 255", |value| count(value, 1, u8::MAX))?;
        let service = match (is_strict, weight) {
            (true, Some(_)) => return Err(table.error("expected either `strict` or `weight`")),
            (true, None) => Service::Strict,
            (false, Some(weight)) => Service::Weight(weight),
            (false, None) => Service::RoundRobin,
        };
        let rate = table.get("rate", RATE, rate)?.and_then(NonZeroU64::new);
        let is_host = |node: u32| topology.nodes.get(node as usize) == Some(&Kind::Host);
        let ecn = match selector.at {
            Some(Nodes::Are(Kind::Host)) => None,
            Some(Nodes::Is(node)) if is_host(node) => None,
            _ => table.get("ecn", "true or false", truth)?,
        };
        table.finish()?;
        let ecn = ecn.unwrap_or(true);
        Ok((selector, classes, QueueSettings { service, rate, ecn }))
    };
    entries.iter().map(read).collect()
}

/// The settings of the queues of a port: those of the last entry that fits each.
pub(super) fn queues_of(queues: &Queues, port: &NodePort) -> [QueueSettings; 8] {
    let mut of_port = [QueueSettings::default(); 8];
    for (_, classes, settings) in queues.iter().filter(|(selector, ..)| selector.fits(port)) {
        let fits = (0..8).filter(|class| classes >> class & 1 != 0);
        fits.for_each(|class: usize| of_port[class] = *settings);
    }
    of_port
}

/// Classes in an array, a bit each.
fn classes(value: &DeValue<'_>) -> Option<u8> {
    let DeValue::Array(classes) = value else { return None };
    if classes.is_empty() {
        return None;
    }
    classes.iter().try_fold(0, |bits, class| Some(bits | 1 << count(class.get_ref(), 0, 7u8)?))
}

/// A stage of some switch ports.
#[derive(Debug)]
struct PortStage {
    name: &'static str,
    selector: Selector,
    settings: SettingsTable,
}

/// What stages are chosen by: the kinds of the switch and of its neighbour, and the speed of the link.
pub(super) type PortKey = (Kind, Kind, u64);

/// What the stages of a port are chosen by.
pub(super) const fn port_key(port: &NodePort) -> PortKey {
    (port.at, port.to, port.bits_per_second)
}

/// The stages of the switch ports.
pub(super) fn stages(
    table: &Table<'_>,
    topology: &Topology,
    link: impl Fn(u64) -> Link,
) -> Result<SortedMap<PortKey, Stages>> {
    let source = table.source;
    let mut all: Vec<PortStage> = Vec::new();
    let value = table.find("stages");
    for value in value.map(|value| array(source, value)).transpose()?.unwrap_or_default() {
        let table = Table::of(source, value)?;
        let name =
            table.need("name", "the name of a switch stage: see hil list", |value| text(value).map(str::to_owned))?;
        let preset = table.get("preset", "the name of a preset", |value| text(value).map(str::to_owned))?;
        let selector = Selector::read(&table, topology, Entry::Stage)?;
        let at = table.find(if preset.is_some() { "preset" } else { "name" }).map_or(0..0, Value::span);
        let found = stage(&name, preset.as_deref());
        let (name, mut settings) = found.map_err(|error| misplaced(source, &at, &at, &error))?;
        for (key, at, value) in table.others() {
            let set = settings.set(key, &typed(value.get_ref()));
            set.map_err(|error| misplaced(source, &at, &value.span(), &error))?;
        }
        if all.iter().any(|other| other.name == name && other.selector == selector) {
            return Err(table.error(&format!("stage {name} is given twice for the same links: expected one")));
        }
        all.push(PortStage { name, selector, settings });
    }
    let names = all.iter().fold(Vec::new(), |mut names, stage| {
        if !names.contains(&stage.name) {
            names.push(stage.name);
        }
        names
    });
    let at = value.map_or(0..0, Value::span);
    let ports: SortedMap<PortKey, NodePort> =
        topology.switch_ports().map(|(_, port)| (port_key(&port), port)).collect();
    let mut of_ports = SortedMap::new();
    for (key, port) in ports {
        let speed = port.bits_per_second as f64 / 1e9;
        let place = format!("{speed} Gb/s from {} to {}", port.at.name(), port.to.name());
        let mut stages = Stages::new();
        for &name in &names {
            let own = || all.iter().filter(|stage| stage.name == name);
            let most = own().filter(|stage| stage.selector.fits(&port)).map(|stage| stage.selector.keys()).max();
            let mut best = own().filter(|stage| stage.selector.fits(&port) && Some(stage.selector.keys()) == most);
            match (best.next(), best.next()) {
                (Some(stage), None) => stages.push((name, stage.settings.words().to_vec())),
                (None, _) if own().any(|stage| stage.selector.is_of_nodes()) => {}
                (None, _) => {
                    let message = format!("stage {name} has no settings for links of {speed} Gb/s");
                    let expected = "expected one with this link_rate, or with none";
                    return Err(source.error(&at, &format!("{message}: {expected}")));
                }
                (Some(_), Some(_)) => {
                    let message =
                        format!("two stages {name} fit links of {place} with as many of `at`, `to` and `link_rate`");
                    return Err(source.error(&at, &format!("{message}: expected one with more of them")));
                }
            }
        }
        fabric::check_stages(&stages, &link(port.bits_per_second))
            .map_err(|error| source.error(&at, &format!("stages at {place}: {error}")))?;
        of_ports.insert(key, stages);
    }
    Ok(of_ports)
}

/// The value of a setting by its name, if there is one of this name.
fn setting(fields: &[Field], words: &[u32], name: &str) -> Option<u32> {
    words.get(fields.iter().position(|field| field.name == name)?).copied()
}

/// What is to be warned of about LSCC's rate calculation at the ports: with LSCC, that so many flows with the senders' settings
/// cannot follow R (LSCC, Eq. 12); with HPCC*, that its senders leave a part of the long link idle if nothing else is congested.
pub(super) fn rate_calculation_warnings(
    of_ports: &SortedMap<PortKey, Stages>,
    flows: usize,
    settings: &ResolvedSettings,
) -> Vec<String> {
    let of_sender = |name| setting(settings.rp.fields(), settings.rp.words(), name).map(f64::from);
    let has = |name| of_ports.values().flatten().any(|&(stage, _)| stage == name);
    let calculates = |(&(.., speed), stages): (&PortKey, &Stages)| {
        let (_, words) = stages.iter().find(|(name, _)| *name == <RateCalculation as QueueStage>::NAME)?.clone();
        let of_stage = |name| setting(RateCalculationSettings::FIELDS, &words, name).map_or(0.0, f64::from);
        let [period, delay, slew, reference] = ["period", "delay", "slew", "reference"].map(of_stage);
        // Bytes in a nanosecond.
        let line = speed as f64 / 8e9;
        if has(<RateLimiting as QueueStage>::NAME) {
            let (step, timer) = (of_sender("rpg_ai_rate")?, of_sender("rpg_time_reset")?);
            let most = flows as f64 * period / (timer * 1e3) * step;
            return (slew >= most).then(|| {
                format!(
                    "lscc_rate_calculation changes R by up to {slew} Mb/s in {} us, and {flows} flows with an rpg_ai_rate of \
                     {step} Mb/s each {timer} us follow less than {most:.0} Mb/s (LSCC, Eq. 12: dR < M T R_AI / T_i): the queue at \
                     the receivers' end may oscillate. Expected a smaller `slew` or a larger `rpg_ai_rate`",
                    period / 1e3
                )
            });
        }
        let eta = of_sender("eta").filter(|_| has(<DirectInt as QueueStage>::NAME))? / 1e6;
        let reference = if reference == 0.0 { line * delay / 5.0 } else { reference };
        let least = 2.0 * (1.0 - eta) / eta * line * (2.0 * delay + period);
        (reference < least).then(|| {
            format!(
                "the `reference` of lscc_rate_calculation is {reference:.0} bytes: expected at least {least:.0}, 2 (1 - eta) / eta of \
                 what the long link carries in 2 D + T. With less, HPCC*'s senders leave a part of it idle"
            )
        })
    };
    of_ports.iter().filter_map(calculates).collect()
}

/// Checks that senders multiply the units of compact telemetry by what the stage with these settings divides them by.
pub(super) fn check_multiplier(table: &Table<'_>, settings: &ResolvedSettings, stage: &[u32]) -> Result<()> {
    let of_sender = setting(settings.rp.fields(), settings.rp.words(), "int_multi");
    let of_stage = setting(IntSettings::FIELDS, stage, "int_multi");
    match (of_sender, of_stage) {
        (Some(sender), Some(stage)) if sender != stage => {
            Err(table.error(&format!("int_multi is {sender} here and {stage} of stage int: expected the same")))
        }
        _ => Ok(()),
    }
}
