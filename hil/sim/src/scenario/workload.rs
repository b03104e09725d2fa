//! The flows of a scenario.

use super::table::{RATE, SIZE, TIME, Table, Value, count, hosts_of, number, rate, size, text, time, truth};
use super::{Files, MOST_FLOWS, array};
use crate::dependencies::Wait;
use crate::fabric::{DATA_CLASS, FlowSpec, Kind, Offer, Topology};
use crate::input::Tags;
use crate::source::{MOST_BYTES, Source};
use crate::workload::{
    Cdf, HostFlow, HostFlows, Limit, Poisson, Rounds, all_to_all, incast, next, permutation, repeated, ring_all_reduce,
    spread, stagger, tree_all_reduce,
};
use crate::{Picos, htsim, ns3};
use anyhow::{Error, Result};
use std::num::NonZeroU64;
use toml::de::DeValue;

/// The flows of all workloads.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) flows: Vec<FlowSpec>,
    pub(super) waits: Vec<Wait>,
    pub(super) offers: Vec<(u32, Offer)>,
    pub(super) reads: Vec<u32>,
    pub(super) stops: Vec<(u32, Picos)>,
    pub(super) tags: Tags,
}

impl Traffic {
    /// Adds flows, whose `waits` name them by their order among those that are added, and their tags.
    fn add(&mut self, flows: Vec<FlowSpec>, waits: Vec<Wait>, tags: Vec<Option<u16>>) {
        let first = self.flows.len() as u32;
        self.tags.of.extend(tags);
        self.flows.extend(flows);
        self.waits.extend(waits.into_iter().map(|wait| wait.renumbered(|flow| first + flow)));
    }

    /// The number of a tag.
    fn tag(&mut self, name: String) -> u16 {
        let names = &mut self.tags.names;
        let found = names.iter().position(|other| *other == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        found as u16
    }

    /// Puts the flows in the order in which they begin. Those that wait for others are behind all that do not.
    pub(super) fn sort(&mut self) {
        let mut waits = vec![false; self.flows.len()];
        self.waits.iter().for_each(|wait| waits[wait.flow as usize] = true);
        let mut order: Vec<u32> = (0..self.flows.len() as u32).collect();
        order.sort_by_key(|&flow| {
            let waits = waits[flow as usize];
            (waits, if waits { 0 } else { self.flows[flow as usize].start })
        });
        let mut places = vec![0; order.len()];
        (0u32..).zip(&order).for_each(|(place, &flow)| places[flow as usize] = place);
        self.flows = order.iter().map(|&flow| self.flows[flow as usize]).collect();
        self.tags.of = order.iter().map(|&flow| self.tags.of[flow as usize]).collect();
        let waits = std::mem::take(&mut self.waits);
        self.waits = waits.into_iter().map(|wait| wait.renumbered(|flow| places[flow as usize])).collect();
        let offering = self.offers.iter_mut().map(|(flow, _)| flow);
        let stopping = self.stops.iter_mut().map(|(flow, _)| flow);
        offering.chain(&mut self.reads).chain(stopping).for_each(|flow| *flow = places[*flow as usize]);
    }
}

/// Adds the flows of a workload.
pub(super) fn workload(
    table: &Table<'_>,
    topology: &Topology,
    seed: u64,
    files: &mut Files,
    traffic: &mut Traffic,
) -> Result<()> {
    let source = table.source;
    let kinds = ["next", "permutation", "pairs", "incast", "poisson", "all-reduce", "all-to-all", "htsim", "ns3"];
    let kind = table.choice("kind", &kinds)?;
    let what = "a name of 1 to 40 characters, without commas, quotation marks and control characters, that does not end in \
                .request, as those of requests do";
    let tag = table.get("tag", what, |value| {
        // It is a column of the distributions, which are not quoted.
        let is_plain = |tag: &&str| !tag.contains(|char: char| char.is_control() || matches!(char, ',' | '"'));
        let is_right = |tag: &&str| (1..=40).contains(&tag.chars().count()) && !tag.ends_with(".request");
        text(value).filter(is_right).filter(is_plain).map(str::to_owned)
    })?;
    let nodes: Vec<u32> = topology.hosts().collect();
    let count_of_hosts = nodes.len() as u32;
    let last = count_of_hosts - 1;
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
        let tag = tag.map(|tag| traffic.tag(tag));
        let tags = vec![tag; read.len()];
        traffic.add(read, Vec::new(), tags);
        return Ok(());
    }
    let label = table.get("label", "a whole number from 0 to 65535", |value| count(value, 0, u16::MAX))?;
    let label = label.unwrap_or(if kind == "incast" { 200 } else { 100 });
    let class = table.get("class", "a PFC priority, 0 to 7", |value| count(value, 0, 7))?.unwrap_or(DATA_CLASS);
    let begin = || Ok::<_, Error>(table.get("start", TIME, time)?.unwrap_or(0));
    let bytes = || match table.find("stop") {
        Some(_) => Ok(table.get("bytes", SIZE, size)?.unwrap_or(MOST_BYTES)),
        None => table.need("bytes", SIZE, size),
    };
    let hosts = |key, least: usize| {
        let what = format!("at least {least} hosts from 0 to {last}, such as \"0-3,8\"");
        let hosts =
            table.get(key, &what, |value| hosts_of(value, count_of_hosts).filter(|hosts| hosts.len() >= least))?;
        Ok::<_, Error>(hosts.unwrap_or_else(|| (0..count_of_hosts).collect()))
    };
    let flows: HostFlows = match kind {
        "next" => in_rounds(table, seed, next(&hosts("hosts", 2)?, bytes()?, begin()?))?,
        "permutation" => in_rounds(table, seed, permutation(&hosts("hosts", 2)?, bytes()?, begin()?, seed))?,
        "pairs" => {
            let (bytes, start) = (bytes()?, begin()?);
            let what = "pairs of hosts such as [[0, 1], [2, 3]]";
            let pairs = table.find("pairs").ok_or_else(|| table.missing("pairs", what))?;
            let pair = |value: &Value<'_>| {
                let ends = match value.get_ref() {
                    DeValue::Array(ends) => ends.iter().map(|end| count(end.get_ref(), 0, last)).collect(),
                    _ => None,
                };
                match ends.unwrap_or_else(Vec::new)[..] {
                    [source, destination] if source != destination => {
                        Ok(HostFlow { source, destination, bytes, start })
                    }
                    _ => Err(source.error(&value.span(), &format!("expected [a host from 0 to {last}, another host]"))),
                }
            };
            in_rounds(table, seed, array(source, pairs)?.iter().map(pair).collect::<Result<_>>()?)?
        }
        "incast" => {
            let host = format!("a host from 0 to {last}");
            let receiver = table.get("receiver", &host, |value| count(value, 0, last))?.unwrap_or(0);
            let what = format!("how many hosts send, from 1 to {last}");
            let senders = table.get("senders", &what, |value| count(value, 1, last))?.unwrap_or(last);
            let after = |nth| (receiver + nth) % count_of_hosts;
            let senders: Vec<u32> = match table.find("from") {
                Some(_) if table.find("senders").is_some() => {
                    return Err(table.error("expected either `senders` or `from`"));
                }
                Some(_) => hosts("from", 1)?.into_iter().filter(|&host| host != receiver).collect(),
                None => (1..=senders).map(after).collect(),
            };
            in_rounds(table, seed, incast(&senders, receiver, bytes()?, begin()?))?
        }
        "poisson" => {
            let (mut from, mut to) = (hosts("from", 1)?, hosts("to", 1)?);
            from.sort_unstable();
            to.sort_unstable();
            poisson(table, topology, [&nodes, &from, &to], seed, files)?
        }
        "all-reduce" => {
            let (hosts, start) = (hosts("hosts", 2)?, begin()?);
            let is_ring = table.choice("algorithm", &["ring", "tree"])? == "ring";
            let parts = if is_ring { hosts.len() as u32 } else { chunks(table)? };
            let what = format!("a size of at least {parts} bytes, one for each part");
            let bytes = table.need("bytes", &what, |value| size(value).filter(|&size| size >= u64::from(parts)))?;
            let compute = table.get("compute", TIME, time)?.unwrap_or(0);
            fits(table, 2.0 * (hosts.len() as f64 - 1.0) * f64::from(parts))?;
            let once = if is_ring {
                ring_all_reduce(&hosts, bytes, start, compute)
            } else {
                tree_all_reduce(&hosts, bytes, parts, start, compute)
            };
            collectives(table, once)?
        }
        "all-to-all" => {
            let (hosts, start) = (hosts("hosts", 2)?, begin()?);
            fits(table, hosts.len() as f64 * (hosts.len() as f64 - 1.0))?;
            let what = "a number of rounds, at least 1";
            let at_once = table.get("at_once", what, |value| count(value, 1, u32::MAX))?.unwrap_or(1);
            collectives(table, all_to_all(&hosts, bytes()?, at_once, start))?
        }
        _ => {
            let path = table.file("file")?;
            let file = Source::read(&path)?;
            let read = htsim::connections::read(&file, count_of_hosts)?;
            files.add(path, &file);
            read
        }
    };
    let offer = offer(table)?;
    table.finish()?;
    let spec = |&HostFlow { source, destination, bytes, start }: &HostFlow| {
        let ends = [source, destination].map(|host| nodes[host as usize]);
        FlowSpec { class, ..ns3::flow::spec(ends, bytes, start as Picos, label) }
    };
    let specs = flows.flows.iter().map(spec).collect();
    let of_requests = tag.as_ref().filter(|_| flows.has_requests).map(|tag| traffic.tag(format!("{tag}.request")));
    let tag = tag.map(|tag| traffic.tag(tag));
    let tags = (0..flows.flows.len() as u32).map(|flow| if flows.is_request(flow) { of_requests } else { tag });
    let tags = tags.collect();
    let first = traffic.flows.len() as u32;
    if flows.are_reads {
        if offer.is_some() {
            return Err(table.error("`read`: all bytes of a READ are there at once: expected no `application_rate`"));
        }
        traffic.reads.extend(first..first + flows.flows.len() as u32);
    }
    if let Some(stop) = flows.stop {
        traffic.stops.extend((first..first + flows.flows.len() as u32).map(|flow| (flow, stop)));
    }
    if let Some(offer) = offer {
        let offered = (0..flows.flows.len() as u32).filter(|&flow| !flows.is_request(flow));
        traffic.offers.extend(offered.map(|flow| (first + flow, offer)));
    }
    traffic.add(specs, flows.waits, tags);
    Ok(())
}

/// How applications offer the bytes of a workload's flows, if not all at once.
fn offer(table: &Table<'_>) -> Result<Option<Offer>> {
    let bits_per_second = table.get("application_rate", RATE, rate)?.and_then(NonZeroU64::new);
    let above_zero = |value: &DeValue<'_>| time(value).filter(|&time| time > 0);
    let on = table.get("on", "a time above 0, such as \"1ms\"", above_zero)?;
    let off = table.get("off", TIME, time)?;
    match (bits_per_second, on.zip(off)) {
        (None, _) if on.is_some() || off.is_some() => {
            Err(table.error("expected `application_rate`, at which applications offer bytes, with `on` and `off`"))
        }
        (_, None) if on.is_some() || off.is_some() => {
            Err(table.error("expected both `on` and `off`: how long applications offer bytes, and how long none"))
        }
        (bits_per_second, periods) => Ok(bits_per_second.map(|bits_per_second| Offer { bits_per_second, periods })),
    }
}

/// Into how many chunks a tree all-reduce divides its bytes.
fn chunks(table: &Table<'_>) -> Result<u32> {
    let what = "a number of chunks, from 1 to 65536";
    Ok(table.get("chunks", what, |value| count(value, 1, 65_536))?.unwrap_or(1))
}

/// Refuses more flows than there can be.
fn fits(table: &Table<'_>, flows: f64) -> Result<()> {
    let message = format!("{flows:.0} flows: expected at most {MOST_FLOWS}");
    if flows > f64::from(MOST_FLOWS) { Err(table.error(&message)) } else { Ok(()) }
}

/// Flows that begin as the keys of their table say: once or in copies; together, a step apart or at random; once or in rounds; by
/// themselves or at requests.
fn in_rounds(table: &Table<'_>, seed: u64, flows: Vec<HostFlow>) -> Result<HostFlows> {
    let what = "a number of flows, at least 1";
    let copies = table.get("copies", what, |value| count(value, 1, MOST_FLOWS))?.unwrap_or(1);
    fits(table, flows.len() as f64 * f64::from(copies))?;
    let mut flows = flows.repeat(copies as usize);
    if let Some(step) = table.get("stagger", TIME, time)? {
        stagger(&mut flows, step);
    }
    if let Some(range) = table.get("spread", TIME, time)? {
        spread(&mut flows, range, seed);
    }
    let (repeat, gap) = repetition(table)?;
    let rounds = Rounds { repeat, gap, ..requests(table)? };
    fits(table, flows.len() as f64 * f64::from(rounds.repeat) * if rounds.request.is_some() { 2.0 } else { 1.0 })?;
    let stop = table.get("stop", TIME, time)?;
    if let Some(stop) = stop {
        if rounds != Rounds::default() {
            return Err(
                table.error("`stop` ends each flow for good: expected no `repeat`, `gap`, `request` and `read`")
            );
        }
        if let Some(late) = flows.iter().find(|flow| flow.start >= stop) {
            let begins = late.start as f64 / 1e6;
            return Err(table.error(&format!("a flow begins at {begins} us: expected a later `stop`")));
        }
    }
    Ok(HostFlows { stop, ..rounds.of(flows) })
}

/// How often flows or a collective are sent, and the time between.
fn repetition(table: &Table<'_>) -> Result<(u32, Picos)> {
    let what = "a number of rounds, at least 1";
    let repeat = table.get("repeat", what, |value| count(value, 1, MOST_FLOWS))?.unwrap_or(1);
    Ok((repeat, table.get("gap", TIME, time)?.unwrap_or(0)))
}

/// A collective as often as its table says.
fn collectives(table: &Table<'_>, once: HostFlows) -> Result<HostFlows> {
    let (repeat, gap) = repetition(table)?;
    fits(table, once.flows.len() as f64 * f64::from(repeat))?;
    repeated(once, repeat, gap, MOST_FLOWS.into()).map_err(|waits| {
        table.error(&format!(
            "flows wait for {waits} milestones between collectives: expected at most {MOST_FLOWS}; give fewer of them, or a smaller \
             `at_once`"
        ))
    })
}

/// The requests that flows answer, or whether they are READs, if their table says so.
fn requests(table: &Table<'_>) -> Result<Rounds> {
    let request = table.get("request", SIZE, size)?;
    let read = table.get("read", "true or false", truth)?.unwrap_or(false);
    if read && request.is_some() {
        return Err(table.error("a READ has a request of its own: expected either `read` or `request`"));
    }
    let think = table.get("think", TIME, time)?.unwrap_or(0);
    if think > 0 && request.is_none() {
        return Err(table.error("`think` is the time between a request and its response: expected `request` too"));
    }
    Ok(Rounds { request, read, think, ..Rounds::default() })
}

/// Flows that arrive as a Poisson process, `from` hosts `to` hosts, which are all at these nodes.
fn poisson(
    table: &Table<'_>,
    topology: &Topology,
    [nodes, from, to]: [&[u32]; 3],
    seed: u64,
    files: &mut Files,
) -> Result<HostFlows> {
    let path = table.file("cdf")?;
    let file = Source::read(&path)?;
    let sizes = Cdf::of(&file)?;
    files.add(path, &file);
    let what = "a fraction of the rate of the links that `load_of` names, above 0 and at most 2";
    let load = table.need("load", what, |value| number(value).filter(|load| *load > 0.0 && *load <= 2.0))?;
    let duration = table.get("duration", TIME, time)?;
    let most = table.get("flows", "a number of flows, at least 1", |value| count(value, 1, u64::MAX))?;
    let limit = match (duration, most) {
        (Some(duration), None) => Limit::Duration(duration),
        (None, Some(most)) => Limit::Flows(most),
        _ => return Err(table.error("expected either `duration` or `flows`, where arrivals end")),
    };
    if let ([only], true) = (to, from.contains(&to[0])) {
        return Err(table.error(&format!("host {only} can send only to itself: expected another host in `to`")));
    }
    let mut rates = vec![0; topology.nodes.len()];
    for link in &topology.links {
        link.ends.iter().for_each(|&end| rates[end as usize] = link.bits_per_second);
    }
    let node = |host: &u32| nodes[*host as usize];
    let senders: Vec<(u32, u64)> = from.iter().map(|host| (*host, rates[node(host) as usize])).collect();
    let what = "\"hosts\", or the ends of the links that the flows pass, each a node or a kind, such as [40, 41] or \
                [\"dci\", \"dci\"]";
    let passed = table.get("load_of", what, |value| ends_of(value, topology))?.flatten();
    let reference = match passed {
        None => senders.iter().map(|(_, rate)| rate).sum(),
        Some(is_passed) => {
            let [from, to] = [from, to].map(|hosts| hosts.iter().map(node).collect::<Vec<u32>>());
            reference(topology, &is_passed, &from, &to).map_err(|problem| {
                let at = table.find("load_of").map_or(0..0, Value::span);
                table.source.error(&at, &format!("`load_of`: {problem}"))
            })?
        }
    };
    let start = table.get("start", TIME, time)?.unwrap_or(0);
    let poisson = Poisson { sizes: &sizes, load, reference, senders: &senders, receivers: to, start, limit };
    let rounds = requests(table)?;
    fits(table, poisson.expected() * if rounds.request.is_some() { 2.0 } else { 1.0 })?;
    Ok(rounds.of(poisson.flows(seed)))
}

/// Which links of a topology are between two ends, each a node or a kind of nodes; `Some(None)` for those of hosts.
fn ends_of(value: &DeValue<'_>, topology: &Topology) -> Option<Option<Vec<bool>>> {
    let DeValue::Array(ends) = value else { return (text(value)? == "hosts").then_some(None) };
    let nodes = topology.nodes.len() as u32;
    let is_end = |end: &DeValue<'_>, node: u32| match text(end) {
        Some(name) => topology.nodes[node as usize].name() == name,
        None => count(end, 0, nodes) == Some(node),
    };
    let is_known = |end: &DeValue<'_>| match text(end) {
        Some(name) => Kind::ALL.iter().any(|kind| kind.name() == name),
        None => count(end, 0, nodes - 1).is_some(),
    };
    let [one, other] = &ends[..] else { return None };
    let (one, other) = (one.get_ref(), other.get_ref());
    let links = topology.links.iter().map(|link| {
        let [from, to] = link.ends;
        is_end(one, from) && is_end(other, to) || is_end(one, to) && is_end(other, from)
    });
    (is_known(one) && is_known(other)).then(|| Some(links.collect()))
}

/// The sum of the rates of some links, which all paths from the nodes `from` to the nodes `to` must pass.
fn reference(topology: &Topology, is_passed: &[bool], from: &[u32], to: &[u32]) -> Result<u64, String> {
    let links = || topology.links.iter().zip(is_passed);
    let rate = links().filter(|&(_, passed)| *passed).map(|(link, _)| link.bits_per_second).sum();
    if rate == 0 {
        return Err("no link has these ends".to_owned());
    }
    let mut neighbours = vec![Vec::new(); topology.nodes.len()];
    for (link, _) in links().filter(|&(_, passed)| !*passed) {
        let [one, other] = link.ends;
        neighbours[one as usize].push(other);
        neighbours[other as usize].push(one);
    }
    let mut is_reached = vec![false; topology.nodes.len()];
    let mut next = from.to_vec();
    while let Some(node) = next.pop() {
        if !std::mem::replace(&mut is_reached[node as usize], true) {
            next.extend(&neighbours[node as usize]);
        }
    }
    match to.iter().find(|&&node| is_reached[node as usize]) {
        Some(node) => {
            Err(format!("node {node} is reached without these links: expected `from` and `to` on both sides of them"))
        }
        None => Ok(rate),
    }
}
