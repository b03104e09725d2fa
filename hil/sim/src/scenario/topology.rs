//! The topology of a scenario.

use super::table::{RATE, TIME, Table, count, rate, time};
use super::{Files, MOST_NODES};
use crate::fabric::Topology;
use crate::source::Source;
use crate::topologies::LinkSpec;
use crate::{htsim, ns3};
use anyhow::Result;

/// Rate and delay of the links that keys of a table describe, if they are there, or else those of `default`.
fn link(table: &Table<'_>, [rate_key, delay_key]: [&'static str; 2], default: Option<LinkSpec>) -> Result<LinkSpec> {
    let bits_per_second = table.get(rate_key, RATE, rate)?.or(default.map(|link| link.bits_per_second));
    let delay = table.get(delay_key, TIME, time)?.or(default.map(|link| link.delay));
    Ok(LinkSpec {
        bits_per_second: bits_per_second.ok_or_else(|| table.missing(rate_key, RATE))?,
        delay: delay.ok_or_else(|| table.missing(delay_key, TIME))?,
    })
}

/// The topology that a table describes.
pub(super) fn topology(table: &Table<'_>, files: &mut Files) -> Result<Topology> {
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
