//! `flow.txt`: how many flows, and for each its source, destination, priority, destination port, bytes, and start in seconds.

use super::units;
use crate::fabric::{FlowSpec, FlowTuple};
use crate::source::Source;
use anyhow::Result;
use std::collections::HashMap;

/// A line of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowLine {
    /// Source port, by order among the flows of the same two nodes, from 10,000.
    pub(super) source_port: u16,
    /// Destination port: a label.
    pub(super) destination_port: u16,
}

/// The address of a node.
pub(super) const fn address(node: u32) -> u32 {
    0x0b00_0001 + ((node / 256) << 16) + ((node % 256) << 8)
}

/// The flows of a file, in its order.
pub(super) fn read(source: &Source) -> Result<(Vec<FlowSpec>, Vec<FlowLine>)> {
    let mut words = source.words();
    let count: usize =
        words.read("the number of flows, at least 1", |text| text.parse().ok().filter(|&count| count > 0))?;
    let mut next_ports = HashMap::<_, u16>::new();
    let (mut flows, mut lines): (Vec<FlowSpec>, Vec<FlowLine>) = Default::default();
    for _ in 0..count {
        let from = words.number("the flow's source, a node")?;
        let to = words.number("the flow's destination, a node")?;
        words.read("a priority, 0 to 7", |text| text.parse().ok().filter(|&priority: &u8| priority < 8))?;
        let destination_port = words.number("a destination port")?;
        let bytes = words.number("the flow's bytes")?;
        let last = flows.last().map_or(0, |flow| flow.start);
        let start = words.read("a start in seconds, below 1000000 and not before the flow above", |text| {
            units::time(text).filter(|&start| start >= last)
        })?;
        let port = next_ports.entry((from, to)).or_insert(10_000);
        let source_port = *port;
        *port = port.wrapping_add(1);
        let ports = u32::from(source_port) | u32::from(destination_port) << 16;
        let tuple = FlowTuple { source: address(from), destination: address(to), ports };
        flows.push(FlowSpec { source: from, destination: to, bytes, start, tuple });
        lines.push(FlowLine { source_port, destination_port });
    }
    Ok((flows, lines))
}
