//! Distributions of a run as CSV: for each value that occurred, the share of flows, of the time or of windows that do not exceed it.

use crate::fabric::{Totals, Window};
use crate::input::Input;
use crate::summary::slowdowns;
use std::fmt::Write;

/// The first line.
const HEADER: &str = "quantity,node,port,tag,value,share";

/// Sorted values, each with the share of them that do not exceed it.
fn steps(mut values: Vec<f64>) -> Vec<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let all = values.len() as f64;
    let shares = values.iter().zip(1u32..).map(|(&value, number)| (value, f64::from(number) / all));
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for (value, share) in shares {
        match steps.last_mut() {
            Some(last) if last.0 == value => last.1 = share,
            _ => steps.push((value, share)),
        }
    }
    steps
}

/// The distributions of the times and the slowdowns of completed flows, of all and of each tag; and, of a run that was measured, of
/// Jain's index in windows, and of the bytes that wait at ports and in switches, over time.
pub fn csv(input: &Input, totals: &Totals) -> String {
    let mut text = format!("{HEADER}\n");
    let mut add = |quantity: &str, place: &str, tag: &str, steps: &mut dyn Iterator<Item = (f64, f64)>| {
        for (value, share) in steps {
            writeln!(text, "{quantity},{place},{tag},{value},{share:.9}").expect("a string takes everything");
        }
    };
    let slowdowns = slowdowns(input, totals);
    let groups = [None].into_iter().chain((0..input.tags.names.len() as u16).map(Some));
    for group in groups {
        let done = || {
            let all = totals.completions.iter().zip(&slowdowns);
            all.filter(|(done, _)| group.is_none() || input.tags.of(done.flow) == group)
        };
        let tag = group.map_or("", |group| &input.tags.names[usize::from(group)]);
        let times = steps(done().map(|(done, _)| (done.time / 1_000) as f64).collect());
        add("fct_ns", ",", tag, &mut times.into_iter());
        add("slowdown", ",", tag, &mut steps(done().map(|(_, &(_, slowdown))| slowdown).collect()).into_iter());
    }
    if let Some(measured) = &totals.measured {
        add("jain", ",", "", &mut steps(measured.windows.iter().filter_map(Window::jain).collect()).into_iter());
        let queues = measured.ports.iter().filter_map(|port| Some((port, port.queue.as_ref()?)));
        for (port, levels) in queues.filter(|(_, levels)| levels.most() > 0) {
            let place = format!("{},{}", port.node, port.port);
            add("queue_bytes", &place, "", &mut levels.distribution().map(|(value, share)| (value as f64, share)));
        }
        for (node, levels) in measured.buffers.iter().filter(|(_, levels)| levels.most() > 0) {
            let place = format!("{node},");
            add("buffer_bytes", &place, "", &mut levels.distribution().map(|(value, share)| (value as f64, share)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_step() {
        assert_eq!(steps(vec![3.0, 1.0, 3.0, 2.0]), [(1.0, 0.25), (2.0, 0.5), (3.0, 1.0)]);
        assert!(steps(Vec::new()).is_empty());
    }
}
