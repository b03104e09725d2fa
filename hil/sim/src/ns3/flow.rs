//! `flow.txt`: how many flows, and for each its source, destination, priority, destination port, bytes, and start in seconds.

use super::units;
use crate::Picos;
use crate::fabric::{DATA_CLASS, FlowSpec, FlowTuple};
use crate::source::Source;
use anyhow::Result;
use std::collections::HashMap;

/// The address of a node.
pub(super) const fn address(node: u32) -> u32 {
    0x0b00_0001 + ((node / 256) << 16) + ((node % 256) << 8)
}

/// The flows of a file, in its order.
pub(crate) fn read(source: &Source) -> Result<Vec<FlowSpec>> {
    let mut words = source.words();
    let count: usize =
        words.read("the number of flows, at least 1", |text| text.parse().ok().filter(|&count| count > 0))?;
    let mut flows: Vec<FlowSpec> = Vec::new();
    for _ in 0..count {
        let from = words.number("the flow's source, a node")?;
        let to = words.number("the flow's destination, a node")?;
        let class = words.read("a priority, 0 to 7", |text| text.parse().ok().filter(|&priority: &u8| priority < 8))?;
        let label = words.number("a destination port")?;
        let bytes = words.bytes()?;
        let last = flows.last().map_or(0, |flow| flow.start);
        let start = words.read("a start in seconds, below 1000000 and not before the flow above", |text| {
            units::time(text).filter(|&start| start >= last)
        })?;
        flows.push(FlowSpec { class, ..spec([from, to], bytes, start, label) });
    }
    number(&mut flows);
    Ok(flows)
}

/// A flow between two nodes. Its UDP destination port is a label; its source port is still to be set by [`number`].
pub(crate) fn spec([source, destination]: [u32; 2], bytes: u64, start: Picos, label: u16) -> FlowSpec {
    let tuple = FlowTuple { source: address(source), destination: address(destination), ports: u32::from(label) << 16 };
    FlowSpec { source, destination, bytes, start, class: DATA_CLASS, tuple }
}

/// Sets the UDP source ports of flows as that simulator does: by their order among the flows of the same two nodes, from 10,000.
pub(crate) fn number(flows: &mut [FlowSpec]) {
    let mut next = HashMap::<_, u16>::new();
    for FlowSpec { source, destination, tuple, .. } in flows {
        let port = next.entry((*source, *destination)).or_insert(10_000);
        tuple.ports = tuple.ports & 0xffff_0000 | u32::from(*port);
        *port = port.wrapping_add(1);
    }
}
