//! The cores of a scenario.

use super::array;
use super::faults::{hosts, switches};
use super::table::{Table, count, text};
use crate::fabric::{Cores, Part, QueueRule, Topology};
use anyhow::Result;

/// The cores that run the NICs of some hosts, or the stages of some switches.
pub(super) fn cores(table: &Table<'_>, topology: &Topology) -> Result<Vec<Cores>> {
    let source = table.source;
    let all = table.find("cores").map(|value| array(source, value)).transpose()?.unwrap_or_default();
    all.iter().map(|value| read(&Table::of(source, value)?, topology)).collect()
}

fn read(table: &Table<'_>, topology: &Topology) -> Result<Cores> {
    let what = "a core and its clock, such as \"ibex@250MHz\"";
    let name = table.need("core", what, |value| text(value).map(str::to_owned))?;
    let cores = Cores::parse(&name).map_err(|error| table.error(&format!("`core`: {error}")))?;
    let parts = [Part::Nic, Part::Rp, Part::Np, Part::Stages].map(|part| (part.name(), part));
    let part = table.one_of("part", &parts)?.unwrap_or(Part::Nic);
    let bound = format!("events, 1 to {}", QueueRule::MOST);
    let bound = table.get("queue", &bound, |value| count(value, 1, QueueRule::MOST as u32))?;
    let what = format!("cores at each host, 1 to {}", Cores::MOST);
    let number = table.get("count", &what, |value| count(value, 1, Cores::MOST))?;
    let joins = table.one_of("policy", &[("lose", false), ("join", true)])?;
    let usual = cores.queue;
    let queue =
        QueueRule { bound: bound.map_or(usual.bound, |bound| bound as usize), joins: joins.unwrap_or(usual.joins) };
    let nodes = if part == Part::Stages { switches(table, topology)? } else { hosts(table, topology)? };
    table.finish()?;
    let count = number.map_or(cores.count, |number| number as usize);
    if part == Part::Stages && count > 1 {
        return Err(table.error("`count`: the stages of a switch run on one core for each chain: expected no `count`"));
    }
    Ok(Cores { nodes, part, count, queue, ..cores })
}
