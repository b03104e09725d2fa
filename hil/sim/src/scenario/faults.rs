//! The faults of a scenario.

use super::table::{TIME, Table, Value, count, number, probability, text, time, truth};
use super::{array, some};
use crate::Picos;
use crate::fabric::{Action, Fault, FrameSet, Kind, Lag, Nth, Topology};
use anyhow::Result;
use hil_algorithms::quantity;
use toml::de::DeValue;

/// The rules of a scenario with so many flows, in their order.
pub(super) fn faults(table: &Table<'_>, topology: &Topology, flows: usize) -> Result<Vec<Fault>> {
    let source = table.source;
    let rules = table.find("faults").map(|value| array(source, value)).transpose()?.unwrap_or_default();
    rules.iter().map(|value| fault(&Table::of(source, value)?, topology, flows)).collect()
}

const KINDS: [&str; 9] =
    ["loss", "corruption", "delay", "reordering", "duplication", "down", "cnp_loss", "cnp_delay", "clock"];

fn fault(table: &Table<'_>, topology: &Topology, flows: usize) -> Result<Fault> {
    let kind = table.choice("kind", &KINDS)?;
    if kind == "down" {
        return down(table, topology);
    }
    let action = match kind {
        "loss" => Action::Loss,
        "corruption" => Action::Corruption {
            bit_error_rate: table.get(
                "bit_error_rate",
                "the probability that a bit is wrong, from 0 to 1",
                |value| number(value).filter(|rate| (0.0..=1.0).contains(rate)),
            )?,
        },
        "delay" => Action::Delay(lag(table)?),
        "reordering" => Action::Reordering(lag(table)?),
        "duplication" => Action::Duplication,
        "cnp_loss" => Action::CnpLoss,
        "cnp_delay" => Action::CnpDelay(lag(table)?),
        _ => return clock(table, topology),
    };
    if matches!(action, Action::Corruption { bit_error_rate: Some(_) }) && table.find("probability").is_some() {
        return Err(table.error("expected either `bit_error_rate` or `probability`"));
    }
    let (from, until, every) = times(table)?;
    let of_nics = matches!(action, Action::CnpLoss | Action::CnpDelay(_));
    let [links, leaving, entering] = if of_nics {
        [Vec::new(), hosts(table, topology)?, Vec::new()]
    } else {
        [links(table, topology)?, nodes(table, topology, "leaving")?, nodes(table, topology, "entering")?]
    };
    let fault = Fault {
        links,
        leaving,
        entering,
        from,
        until,
        every,
        frames: if of_nics { FrameSet::ALL } else { frames(table)? },
        flow: table
            .get("flow", &format!("a flow from 0 to {}", flows - 1), |value| count(value, 0, flows as u32 - 1))?,
        nth: table.get("nth", "a number from 1 on, \"first\" or \"last\"", |value| match text(value) {
            Some("first") => Some(Nth::Number(1)),
            Some("last") => Some(Nth::Last),
            Some(_) => None,
            None => count(value, 1, u64::MAX).map(Nth::Number),
        })?,
        probability: chance(table)?,
        ..Fault::of(action)
    };
    table.finish()?;
    if !of_nics && !fault.covers_any(topology) {
        return Err(
            table.error("no link fits: expected one of `links` that leads from one of `leaving` to one of `entering`")
        );
    }
    Ok(fault)
}

/// The nodes of a list.
fn nodes(table: &Table<'_>, topology: &Topology, key: &'static str) -> Result<Vec<u32>> {
    let last = topology.nodes.len() as u32 - 1;
    let read = |value: &Value<'_>| {
        let node = count(value.get_ref(), 0, last);
        node.ok_or_else(|| table.source.error(&value.span(), &format!("expected a node from 0 to {last}")))
    };
    let values = table.find(key).map(|value| some(table.source, value)).transpose()?.unwrap_or_default();
    values.iter().map(read).collect()
}

/// The hosts whose NICs a rule is for; none for all.
pub(super) fn hosts(table: &Table<'_>, topology: &Topology) -> Result<Vec<u32>> {
    let hosts = nodes(table, topology, "hosts")?;
    match hosts.iter().find(|&&node| topology.nodes[node as usize] != Kind::Host) {
        Some(node) => Err(table.error(&format!("`hosts`: node {node} is a switch, expected a host"))),
        None => Ok(hosts),
    }
}

/// The switches that run stages on cores; none for all.
pub(super) fn switches(table: &Table<'_>, topology: &Topology) -> Result<Vec<u32>> {
    let switches = nodes(table, topology, "switches")?;
    match switches.iter().find(|&&node| topology.nodes[node as usize] == Kind::Host) {
        Some(node) => Err(table.error(&format!("`switches`: node {node} is a host, expected a switch"))),
        None => Ok(switches),
    }
}

/// A rule for the clocks of hosts.
fn clock(table: &Table<'_>, topology: &Topology) -> Result<Fault> {
    let signed = |value: &DeValue<'_>| {
        let text = text(value)?;
        let (sign, size) = text.strip_prefix('-').map_or((1, text), |size| (-1, size));
        let nanos = quantity::nanoseconds(size).filter(|nanos| (0.0..=1e12).contains(nanos))?;
        Some(sign * (nanos * 1e3).round() as i64)
    };
    let offset = table.get("offset", "a time such as \"5us\" or \"-5us\", at most 1000s", signed)?;
    let jitter = table.get("jitter", TIME, time)?;
    if offset.is_none() && jitter.is_none() {
        return Err(table.missing("offset", "a time by which the clock is ahead, or `jitter`"));
    }
    let backward = table.get("backward", "true or false", truth)?.unwrap_or(false);
    let action = Action::Clock { offset: offset.unwrap_or(0), jitter: jitter.unwrap_or(0), backward };
    let (from, until, every) = times(table)?;
    let leaving = hosts(table, topology)?;
    table.finish()?;
    Ok(Fault { leaving, from, until, every, ..Fault::of(action) })
}

/// A rule by which links fail: for good, unless it ends.
fn down(table: &Table<'_>, topology: &Topology) -> Result<Fault> {
    let links = links(table, topology)?;
    if links.is_empty() {
        return Err(table.missing("links", "pairs of nodes that links join, such as [[0, 8]]"));
    }
    let (from, until, every) = times(table)?;
    let reroute = table.get("reroute", TIME, time)?.or((until == Picos::MAX).then_some(0));
    table.finish()?;
    Ok(Fault { links, from, until, every, ..Fault::of(Action::Down { reroute }) })
}

/// How much later something happens.
fn lag(table: &Table<'_>) -> Result<Lag> {
    let [least, jitter, per_flow] = ["delay", "jitter", "per_flow"].map(|key| table.get(key, TIME, time));
    let [least, jitter, per_flow] = [least?, jitter?, per_flow?];
    if least.or(jitter).or(per_flow).is_none() {
        return Err(table.missing("delay", TIME));
    }
    Ok(Lag { least: least.unwrap_or(0), jitter: jitter.unwrap_or(0), per_flow: per_flow.unwrap_or(0) })
}

/// When a rule begins and ends, and its period.
fn times(table: &Table<'_>) -> Result<(Picos, Picos, Option<Picos>)> {
    let from = table.get("from", TIME, time)?.unwrap_or(0);
    let until = table.get("until", "a time after `from`", |value| time(value).filter(|until| *until > from))?;
    let every = table.get("every", "a time that is not shorter than that from `from` to `until`", |value| {
        time(value).filter(|every| until.is_some_and(|until| until - from <= *every))
    })?;
    Ok((from, until.unwrap_or(Picos::MAX), every))
}

/// The links between pairs of nodes.
fn links(table: &Table<'_>, topology: &Topology) -> Result<Vec<u32>> {
    let source = table.source;
    let mut links = Vec::new();
    for value in table.find("links").map(|value| some(source, value)).transpose()?.unwrap_or_default() {
        let ends = match value.get_ref() {
            DeValue::Array(ends) => ends.iter().map(|end| count(end.get_ref(), 0, u32::MAX)).collect(),
            _ => None,
        };
        let found = ends.and_then(|ends: Vec<u32>| {
            let joins = |link: &[u32; 2]| ends[..] == link[..] || ends[..] == [link[1], link[0]];
            let found: Vec<u32> =
                (0..).zip(&topology.links).filter(|(_, link)| joins(&link.ends)).map(|(link, _)| link).collect();
            (!found.is_empty()).then_some(found)
        });
        let what = "expected two nodes that a link joins, such as [0, 8]";
        links.extend(found.ok_or_else(|| source.error(&value.span(), what))?);
    }
    Ok(links)
}

/// The kinds of frames that a rule is for.
fn frames(table: &Table<'_>) -> Result<FrameSet> {
    let names: Vec<&str> = FrameSet::NAMED.iter().map(|(name, _)| *name).collect();
    let what = format!("one or several of {}", names.join(", "));
    let kind = |value: &DeValue<'_>| {
        let name = text(value)?;
        FrameSet::NAMED.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    };
    let frames = table.get("packets", &what, |value| match value {
        DeValue::Array(names) => {
            names.iter().map(|name| kind(name.get_ref())).reduce(|one, other| Some(one?.with(other?)))?
        }
        name => kind(name),
    })?;
    Ok(frames.unwrap_or(FrameSet::ALL))
}

/// The probability of a rule, which is certain if none is given.
fn chance(table: &Table<'_>) -> Result<u32> {
    Ok(table.get("probability", "a probability from 0 to 1", probability)?.unwrap_or(u32::MAX))
}
