//! The flows of a scenario.

use super::table::{SIZE, TIME, Table, Value, count, size, time};
use super::{Files, MOST_FLOWS, array};
use crate::fabric::{DATA_CLASS, FlowSpec, Kind, Topology};
use crate::source::Source;
use crate::workload::{Cdf, HostFlow, Limit, Poisson, incast, next, permutation};
use crate::{Picos, htsim, ns3};
use anyhow::{Error, Result};
use hil_algorithms::settings::typed;
use toml::de::DeValue;

/// Adds the flows of a workload.
pub(super) fn workload(
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
