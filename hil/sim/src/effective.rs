//! The settings of a run that are not of machines or stages, by the keys of a scenario: with what was given, and all others.

use crate::Picos;
use crate::fabric::{
    Action, Buffer, Cores, Fault, FrameSet, Kind, Lag, Limits, NodePort, Nth, Part, QueueSettings, Recovery, Service,
    StormAction, Threshold, Topology, Transport, Watchdog,
};
use crate::input::Input;
use cc_core::Nanos;
use serde::{Serialize, Serializer};
use std::fmt;

/// A table of settings: keys and values.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Table(Vec<(&'static str, Value)>);

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// A value as a scenario has it.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A truth value.
    Truth(bool),
    /// A whole number: bytes, nodes, packets, a class.
    Count(u64),
    /// A number.
    Number(f64),
    /// A word, or a quantity with its unit.
    Text(String),
    /// Several values.
    List(Vec<Self>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truth(truth) => write!(f, "{truth}"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
            Self::List(values) => {
                let values: Vec<String> = values.iter().map(Self::to_string).collect();
                write!(f, "[{}]", values.join(","))
            }
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|(key, value)| format!("{key}={value}")).collect();
        f.write_str(&all.join(" "))
    }
}

impl Table {
    fn set(&mut self, key: &'static str, value: Value) {
        self.0.push((key, value));
    }

    fn set_if(&mut self, key: &'static str, value: Option<Value>) {
        if let Some(value) = value {
            self.set(key, value);
        }
    }
}

fn word(word: &str) -> Value {
    Value::Text(word.to_owned())
}

fn micros(picos: Picos) -> Value {
    Value::Text(format!("{}us", picos as f64 / 1e6))
}

fn counts(values: impl IntoIterator<Item = u32>) -> Value {
    Value::List(values.into_iter().map(|value| Value::Count(value.into())).collect())
}

/// The classes of a set, in which a class is a bit.
fn classes(set: u8) -> Value {
    counts((0..8).filter(|class| set >> class & 1 != 0))
}

/// How hosts send and acknowledge.
pub(crate) fn transport(transport: &Transport) -> Table {
    let Transport { message, ack_interval, handshake, recovery, timeout } = *transport;
    let mut table = Table::default();
    table.set_if("message", message.map(|packets| Value::Count(packets.get().into())));
    table.set("ack_interval", Value::Count(ack_interval.get().into()));
    table.set("handshake", Value::Truth(handshake));
    table.set(
        "recovery",
        word(match recovery {
            Recovery::GoBackN => "go-back-n",
            Recovery::SelectiveRepeat => "selective-repeat",
        }),
    );
    table.set("timeout", micros(timeout));
    table
}

/// The limits of switch ports to these links, whose longest frame has so many bytes. Headrooms are in bytes.
fn limits(table: &mut Table, limits: &Limits, topology: &Topology, links: &[u32], frame_bytes: u32) {
    let headroom = |&link: &u32| {
        let link = &topology.links[link as usize];
        limits.headroom.bytes(link.bits_per_second, link.delay, frame_bytes)
    };
    let threshold = |threshold, alpha, bytes| match threshold {
        Threshold::Dynamic(share) => (alpha, Value::Number(share)),
        Threshold::Static(limit) => (bytes, Value::Count(limit.into())),
    };
    let (least, most) = (links.iter().map(headroom).min(), links.iter().map(headroom).max());
    table.set("reserve", Value::Count(limits.reserve.into()));
    let headroom = match least.zip(most) {
        None => None, // each port has limits of its own
        Some((least, most)) if least == most => Some(Value::Count(least)),
        Some((least, most)) => Some(Value::Text(format!("{least}..{most}"))),
    };
    table.set_if("headroom", headroom);
    let (key, value) = threshold(limits.threshold, "alpha", "threshold");
    table.set(key, value);
    let (key, value) = threshold(limits.lossy_threshold, "lossy_alpha", "lossy_threshold");
    table.set(key, value);
    table.set("resume_offset", Value::Count(limits.resume_offset.into()));
    table.set("resume_below", Value::Count(limits.resume_below.into()));
}

/// Adds the buffer of switches that have these links.
fn buffer(mut table: Table, buffer: &Buffer, topology: &Topology, links: &[u32], frame_bytes: u32) -> Table {
    table.set("pool", Value::Count(buffer.pool));
    table.set("headroom_apart", Value::Truth(buffer.headroom_apart));
    table.set("pfc", classes(buffer.lossless));
    let pause = micros(Picos::from(buffer.pause.get()) * 1_000);
    table.set("pause", if buffer.pause == Nanos::MAX { word("longest") } else { pause });
    let has_own = |link: &u32| buffer.links.binary_search_by_key(link, |&(other, _)| other).is_ok();
    let links: Vec<u32> = links.iter().copied().filter(|link| !has_own(link)).collect();
    limits(&mut table, &buffer.limits, topology, &links, frame_bytes);
    table
}

/// The buffer of switches without one of their own, and those of the others: for each different one the switches that have it, and
/// behind it the limits of some of its ports. Classes without flows are not lossless.
pub(crate) fn buffers(input: &Input, frame_bytes: u32) -> (Option<Table>, Vec<Table>) {
    let topology = &input.topology;
    let links_of = |nodes: &[u32]| -> Vec<u32> {
        let ports = topology.switch_ports().filter(|(_, port)| nodes.contains(&port.node));
        ports.map(|(link, _)| link).collect()
    };
    let switches = (0u32..).zip(&topology.nodes).filter(|&(_, &kind)| kind != Kind::Host).map(|(node, _)| node);
    let others: Vec<u32> = switches.filter(|node| !input.buffers.contains_key(node)).collect();
    let shared = input.buffer.as_ref().filter(|_| !others.is_empty());
    let shared = shared.map(|shared| buffer(Table::default(), shared, topology, &links_of(&others), frame_bytes));
    let mut different: Vec<(&Buffer, Vec<u32>)> = Vec::new();
    for (&node, own) in &input.buffers {
        match different.iter_mut().find(|(other, _)| *other == own) {
            Some((_, nodes)) => nodes.push(node),
            None => different.push((own, vec![node])),
        }
    }
    let mut all = Vec::new();
    for (own, nodes) in different {
        let of = Table(vec![("at", counts(nodes.iter().copied()))]);
        all.push(buffer(of, own, topology, &links_of(&nodes), frame_bytes));
        for (link, own) in &own.links {
            let [one, other] = topology.links[*link as usize].ends;
            let ends = [(one, other), (other, one)].into_iter().filter(|(at, _)| nodes.contains(at));
            let (at, to): (Vec<u32>, Vec<u32>) = ends.unzip();
            let mut table = Table(vec![("at", counts(at)), ("to", counts(to))]);
            limits(&mut table, own, topology, &[*link], frame_bytes);
            all.push(table);
        }
    }
    (shared, all)
}

/// The queues of switch ports that are not served in turn, shaped or without ECN, and the classes of hosts that are not: for each
/// different way, of how many ports or hosts and of which classes.
pub(crate) fn queues(topology: &Topology, queues_of: impl Fn(NodePort) -> [QueueSettings; 8]) -> Vec<Table> {
    let mut different: Vec<(bool, [QueueSettings; 8], u64)> = Vec::new();
    let mut all = [0u64; 2];
    for (_, port) in topology.ports() {
        let (is_host, queues) = (port.at == Kind::Host, queues_of(port));
        all[usize::from(is_host)] += 1;
        match different.iter_mut().find(|(of, other, _)| (*of, *other) == (is_host, queues)) {
            Some((.., ports)) => *ports += 1,
            None => different.push((is_host, queues, 1)),
        }
    }
    let mut tables = Vec::new();
    for (is_host, queues, ports) in different {
        let mut seen: Vec<QueueSettings> = vec![QueueSettings::default()];
        for queue in queues {
            if seen.contains(&queue) {
                continue;
            }
            seen.push(queue);
            let alike = (0u8..8).filter(|&class| queues[usize::from(class)] == queue);
            let mut table = Table::default();
            let all = all[usize::from(is_host)];
            table.set(if is_host { "hosts" } else { "ports" }, Value::Text(format!("{ports} of {all}")));
            table.set("class", classes(alike.fold(0, |set, class| set | 1 << class)));
            match queue.service {
                Service::RoundRobin => {}
                Service::Strict => table.set("strict", Value::Truth(true)),
                Service::Weight(weight) => table.set("weight", Value::Count(weight.into())),
            }
            table.set_if("rate", queue.rate.map(|rate| Value::Text(format!("{}Gb/s", rate.get() as f64 / 1e9))));
            table.set_if("ecn", (!is_host).then_some(Value::Truth(queue.ecn)));
            tables.push(table);
        }
    }
    tables
}

/// Cores that run NICs or stages.
pub(crate) fn cores(cores: &Cores) -> Table {
    let mut table = Table::default();
    table.set("core", Value::Text(cores.name()));
    table.set("part", word(cores.part.name()));
    let nodes = if cores.part == Part::Stages { "switches" } else { "hosts" };
    table.set_if(nodes, (!cores.nodes.is_empty()).then(|| counts(cores.nodes.iter().copied())));
    table.set_if("count", (cores.count > 1).then_some(Value::Count(cores.count as u64)));
    if cores.clock.is_some() {
        table.set("queue", Value::Count(cores.queue.bound as u64));
        table.set("policy", word(if cores.queue.joins { "join" } else { "lose" }));
    }
    table
}

/// The watchdog of switch ports.
pub(crate) fn watchdog(watchdog: &Watchdog) -> Table {
    let mut table = Table::default();
    table.set("time", micros(watchdog.time));
    table.set("restore", micros(watchdog.restore));
    table.set(
        "action",
        word(match watchdog.action {
            StormAction::Report => "report",
            StormAction::Drop => "drop",
            StormAction::Forward => "forward",
        }),
    );
    table
}

/// A rule of faults.
pub(crate) fn fault(fault: &Fault, topology: &Topology) -> Table {
    let mut table = Table::default();
    table.set("kind", word(fault.action.name()));
    let mut lag = |Lag { least, jitter, per_flow }| {
        table.set("delay", micros(least));
        table.set("jitter", micros(jitter));
        table.set_if("per_flow", (per_flow > 0).then(|| micros(per_flow)));
    };
    let mut nodes = "leaving";
    match fault.action {
        Action::Loss | Action::Duplication => {}
        Action::Corruption { bit_error_rate } => table.set_if("bit_error_rate", bit_error_rate.map(Value::Number)),
        Action::Delay(by) | Action::Reordering(by) => lag(by),
        Action::Down { reroute } => table.set_if("reroute", reroute.map(micros)),
        Action::CnpLoss => nodes = "hosts",
        Action::CnpDelay(by) => {
            nodes = "hosts";
            lag(by);
        }
        Action::Clock { offset, jitter, backward } => {
            nodes = "hosts";
            table.set("offset", Value::Text(format!("{}us", offset as f64 / 1e6)));
            table.set("jitter", micros(jitter));
            table.set("backward", Value::Truth(backward));
        }
    }
    let some = |list: &[u32]| (!list.is_empty()).then(|| counts(list.iter().copied()));
    table.set_if(nodes, some(&fault.leaving));
    table.set_if("entering", some(&fault.entering));
    let ends = |&link: &u32| counts(topology.links[link as usize].ends);
    table.set_if("links", (!fault.links.is_empty()).then(|| Value::List(fault.links.iter().map(ends).collect())));
    let is_some = fault.frames != FrameSet::ALL;
    table.set_if("packets", is_some.then(|| Value::List(fault.frames.names().map(word).collect())));
    table.set_if("flow", fault.flow.map(|flow| Value::Count(flow.into())));
    table.set_if(
        "nth",
        fault.nth.map(|nth| match nth {
            Nth::Number(number) => Value::Count(number),
            Nth::Last => word("last"),
        }),
    );
    // Six digits, as the scenario has had it before it was rounded to the unit.
    let rounded = |share: f64| format!("{share:.5e}").parse().unwrap_or(share);
    let probability = (fault.probability < u32::MAX).then(|| rounded(f64::from(fault.probability) / 4_294_967_296.0));
    table.set_if("probability", probability.map(Value::Number));
    table.set_if("from", (fault.from > 0).then(|| micros(fault.from)));
    table.set_if("until", (fault.until < Picos::MAX).then(|| micros(fault.until)));
    table.set_if("every", fault.every.map(micros));
    table
}
