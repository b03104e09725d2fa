//! The topology of a scenario.

use super::table::{RATE, TIME, Table, Value, count, rate, time, truth};
use super::{Files, MOST_NODES, array, base_rtt_of};
use crate::fabric::{self, Kind, Route, Topology};
use crate::source::Source;
use crate::topologies::{LinkSpec, Pods, TwoDatacentres};
use crate::{htsim, ns3};
use anyhow::Result;
use cc_core::Nanos;
use hil_sorted::SortedMap;
use toml::de::DeValue;

/// Rate and delay of the links that keys of a table describe, if they are there, or else those of `default`.
fn link(table: &Table<'_>, [rate_key, delay_key]: [&'static str; 2], default: Option<LinkSpec>) -> Result<LinkSpec> {
    let bits_per_second = table.get(rate_key, RATE, rate)?.or(default.map(|link| link.bits_per_second));
    let delay = table.get(delay_key, TIME, time)?.or(default.map(|link| link.delay));
    Ok(LinkSpec {
        bits_per_second: bits_per_second.ok_or_else(|| table.missing(rate_key, RATE))?,
        delay: delay.ok_or_else(|| table.missing(delay_key, TIME))?,
    })
}

/// The round-trip times that the NICs of some hosts are configured with, by their node numbers.
type BaseRtts = SortedMap<u32, Nanos>;

/// The topology that a table describes, and the round-trip times of those hosts that have their own.
pub(super) fn topology(table: &Table<'_>, files: &mut Files) -> Result<(Topology, BaseRtts)> {
    let kinds = ["star", "dumbbell", "parking-lot", "ring", "leaf-spine", "fat-tree", "two-dc", "ns3", "htsim"];
    let kind = table.choice("kind", &kinds)?;
    if kind == "two-dc" {
        let read = two_datacentres(table)?;
        table.finish()?;
        return Ok(read);
    }
    let fits = |hosts: u64, nodes: u64| fits(table, hosts, nodes);
    if let "ns3" | "htsim" = kind {
        let path = table.file("file")?;
        table.finish()?;
        let source = Source::read(&path)?;
        let topology =
            if kind == "ns3" { ns3::topology::read(&source)?.0 } else { htsim::topology::read(&source, MOST_NODES)? };
        fits(topology.hosts().count() as u64, topology.nodes.len() as u64)?;
        files.add(path, &source);
        return Ok((topology, BaseRtts::new()));
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
        "ring" => {
            let (switches, each) = (table.count("switches", 3, MOST_NODES)?, number("hosts")?);
            let clockwise = table.get("clockwise", "true or false", truth)?.unwrap_or(true);
            let all = product(switches, each);
            fits(all, all + u64::from(switches))?;
            Topology::ring(switches, each, hosts, trunks()?, clockwise)
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
    Ok((topology, BaseRtts::new()))
}

/// Checks the size of a topology.
fn fits(table: &Table<'_>, hosts: u64, nodes: u64) -> Result<()> {
    let message =
        format!("{hosts} hosts among {nodes} nodes: expected at least 2 hosts and at most {MOST_NODES} nodes");
    if hosts >= 2 && nodes <= u64::from(MOST_NODES) { Ok(()) } else { Err(table.error(&message)) }
}

/// Hosts that each leaf of two datacentres or of one has.
struct Group {
    count: u32,
    link: LinkSpec,
    base_rtt: Option<Nanos>,
    /// 1 or 2; `None` for both.
    datacentre: Option<u32>,
}

/// Two datacentres that long links join.
fn two_datacentres(table: &Table<'_>) -> Result<(Topology, BaseRtts)> {
    let source = table.source;
    let optional = |key, least| {
        let what = format!("a whole number from {least} to {MOST_NODES}");
        table.get(key, &what, |value| count(value, least, MOST_NODES))
    };
    let pods = optional("pods", 1)?.unwrap_or(1);
    let leaves = table.count("leaves", 1, MOST_NODES)?;
    let aggregations = optional("spines", 0)?.unwrap_or(0);
    let cores = optional("cores", 0)?.unwrap_or(0);
    let is_connected = if cores == 0 { pods == 1 } else { aggregations > 0 && cores.is_multiple_of(aggregations) };
    if !is_connected {
        return Err(table.error("expected `cores` to be a multiple of `spines`, or one pod and no `cores`"));
    }
    let groups: Vec<Group> = match table.find("hosts") {
        Some(value) if matches!(value.get_ref(), DeValue::Array(_)) => {
            array(source, value)?.iter().map(|value| group(&Table::of(source, value)?)).collect::<Result<_>>()?
        }
        _ => {
            let link = link(table, ["rate", "delay"], None)?;
            vec![Group { count: table.count("hosts", 1, MOST_NODES)?, link, base_rtt: None, datacentre: None }]
        }
    };
    let trunk = link(table, ["trunk_rate", "trunk_delay"], groups.first().map(|group| group.link))?;
    let what = "[[topology.long_links]], each with rate and delay";
    let long_links = table.find("long_links").ok_or_else(|| table.missing("long_links", what))?;
    let long_links: Vec<LinkSpec> = array(source, long_links)?
        .iter()
        .map(|value| {
            let table = Table::of(source, value)?;
            let link = link(&table, ["rate", "delay"], None)?;
            table.finish()?;
            Ok(link)
        })
        .collect::<Result<_>>()?;
    if long_links.is_empty() {
        return Err(table.error(&format!("no long link: expected {what}")));
    }
    let relays = table.get("relays", "true or false", truth)?.unwrap_or(false);
    let of = |datacentre: u32| groups.iter().filter(move |group| group.datacentre.is_none_or(|own| own == datacentre));
    let each = |datacentre| of(datacentre).map(|group| u64::from(group.count)).sum::<u64>();
    let leaves_of_all = u64::from(pods) * u64::from(leaves);
    let hosts = leaves_of_all.saturating_mul(each(1) + each(2));
    let per_pod = u64::from(leaves) + u64::from(aggregations);
    let ends = if relays { 1 + long_links.len() as u64 } else { 1 };
    let switches = 2 * (u64::from(pods) * per_pod + u64::from(cores) + ends);
    fits(table, hosts, hosts.saturating_add(switches))?;
    if each(1) == 0 || each(2) == 0 {
        return Err(table.error("a datacentre without hosts: expected at least one at each leaf"));
    }
    let hosts = [1, 2].map(|datacentre| {
        of(datacentre).flat_map(|group| vec![group.link; group.count as usize]).collect::<Vec<LinkSpec>>()
    });
    let core_links = cores.checked_div(aggregations).unwrap_or(0);
    let pods = Pods { pods, leaves, hosts: 0, aggregations, cores, core_links };
    let topology = TwoDatacentres { pods, hosts, trunk, long_links, relays }.topology();
    let own = |datacentre| {
        let of_leaf = move || of(datacentre).flat_map(|group| vec![group.base_rtt; group.count as usize]);
        (0..leaves_of_all).flat_map(move |_| of_leaf())
    };
    let base_rtts = topology.hosts().zip(own(1).chain(own(2)));
    let base_rtts = base_rtts.filter_map(|(host, base_rtt)| Some((host, base_rtt?))).collect();
    Ok((topology, base_rtts))
}

fn group(table: &Table<'_>) -> Result<Group> {
    let group = Group {
        count: table.count("count", 1, MOST_NODES)?,
        link: link(table, ["rate", "delay"], None)?,
        base_rtt: base_rtt_of(table)?,
        datacentre: table.get("datacentre", "1 or 2", |value| count(value, 1, 2))?,
    };
    table.finish()?;
    Ok(group)
}

/// Adds the explicit routes of a scenario to its topology.
pub(super) fn routes(root: &Table<'_>, topology: &mut Topology) -> Result<()> {
    let source = root.source;
    let node = |value: &DeValue<'_>| count(value, 0, MOST_NODES - 1);
    let Some(all) = root.find("routes") else { return Ok(()) };
    for value in array(source, all)? {
        let table = Table::of(source, value)?;
        let at = table.need("at", "the number of a switch", node)?;
        let nodes = |key, what| {
            let value = table.find(key).ok_or_else(|| table.missing(key, what))?;
            let values = match value.get_ref() {
                DeValue::Array(values) => &values[..],
                _ => std::slice::from_ref(value),
            };
            let read = |value: &Value<'_>| {
                let number = node(value.get_ref());
                Ok((value.span(), number.ok_or_else(|| source.error(&value.span(), &format!("expected {what}")))?))
            };
            if values.is_empty() {
                return Err(source.error(&value.span(), &format!("expected {what}, at least one")));
            }
            values.iter().map(read).collect::<Result<Vec<_>>>()
        };
        let (hosts, hops) = (nodes("to", "the numbers of hosts")?, nodes("via", "the numbers of linked nodes")?);
        table.finish()?;
        let is_switch = topology.nodes.get(at as usize).is_some_and(|&kind| kind != Kind::Host);
        for (of_host, to) in hosts {
            let is_host = topology.nodes.get(to as usize) == Some(&Kind::Host);
            for &(ref of_hop, via) in &hops {
                let place = match (is_switch, is_host) {
                    (false, _) => table.find("at").map_or(0..0, Value::span),
                    (true, false) => of_host.clone(),
                    (true, true) => of_hop.clone(),
                };
                let route = Route { at, to, via };
                let is_linked = || topology.links.iter().any(|link| [[at, via], [via, at]].contains(&link.ends));
                route.check(topology, is_linked).map_err(|error| source.error(&place, &error.to_string()))?;
                topology.routes.push(route);
            }
        }
    }
    fabric::check_routes(topology).map_err(|error| source.error(&all.span(), &error.to_string()))
}
