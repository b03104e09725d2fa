//! `fct.txt`: a line for each completed flow, in the order of completion; `pfc.txt`: a line for each PFC frame that arrived;
//! `qlen.txt`: how often each length of the queues of each switch port was seen.

use super::flow::address;
use crate::Picos;
use crate::fabric::{Completion, Kind, PfcRecord, QueueLengths};
use crate::input::Input;
use std::fmt::Write;

/// The lines of the completed flows: addresses of both ends, ports, bytes, start, time to completion and its ideal, in
/// nanoseconds.
pub fn write_fct(input: &Input, completions: &[Completion]) -> String {
    let mut text = String::new();
    for &Completion { flow, bytes, start, time } in completions {
        let spec = &input.flows[flow as usize];
        let (from, to) = (address(spec.source), address(spec.destination));
        let (source_port, destination_port) = (spec.tuple.ports & 0xffff, spec.tuple.ports >> 16);
        let (start, fct, ideal) = (start / 1_000, time / 1_000, input.ideal_of(flow as usize, bytes));
        writeln!(text, "{from:08x} {to:08x} {source_port} {destination_port} {bytes} {start} {fct} {ideal}")
            .expect("a string takes everything");
    }
    text
}

/// The lines of PFC frames: time in nanoseconds, node, whether that is a switch, port, and whether the frame pauses.
pub fn write_pfc(input: &Input, records: &[PfcRecord]) -> String {
    let mut text = String::new();
    for &PfcRecord { at, node, port, pauses } in records {
        let is_switch = input.topology.nodes[node as usize] != Kind::Host;
        let (is_switch, pauses) = (u8::from(is_switch), u8::from(pauses));
        writeln!(text, "{} {node} {is_switch} {port} {pauses}", at / 1_000).expect("a string takes everything");
    }
    text
}

/// The blocks of the recorded lengths of queues: the time in nanoseconds, and for each switch port the node, the port, and how many
/// samples there were with 0 to 1, 1 to 2, ... thousand bytes.
pub fn write_qlen(records: &[(Picos, Vec<QueueLengths>)]) -> String {
    let mut text = String::new();
    for (at, ports) in records {
        writeln!(text, "time: {}", at / 1_000).expect("a string takes everything");
        for QueueLengths { node, port, counts } in ports {
            let counts = counts.iter().fold(String::new(), |line, count| format!("{line} {count}"));
            writeln!(text, "{node} {port}{counts}").expect("a string takes everything");
        }
    }
    text
}
