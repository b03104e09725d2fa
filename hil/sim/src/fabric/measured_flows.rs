//! The queues of flows in an interval, at ports whose stages hold flows.

use super::measure::Levels;
use crate::Picos;
use std::collections::BTreeMap;

/// The bytes of a flow that wait at a port whose stages hold flows: in the flow's queue, and its packet in the port's queues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeasuredFlowQueue {
    /// The switch.
    pub node: u32,
    /// The port, counted from one.
    pub port: u32,
    /// The flow.
    pub flow: u32,
    /// The bytes.
    pub levels: Levels,
    /// Bytes that left.
    pub left: u64,
    /// The bytes' integral over time in each window that rates of flows are compared in: bytes times picoseconds.
    pub windows: Vec<u128>,
}

impl MeasuredFlowQueue {
    /// The mean time for which a packet waits, in picoseconds: the mean bytes over the rate at which they leave (J. Little, "A Proof for
    /// the Queuing Formula L = lambda W", 1961). `None` if nothing left.
    pub fn delay(&self) -> Option<f64> {
        (self.left > 0).then(|| self.levels.integral() as f64 / self.left as f64)
    }
}

/// What measures them.
#[derive(Default, Debug)]
pub(super) struct FlowQueueMeasurement {
    /// By port, as counted over all nodes, and flow.
    queues: BTreeMap<(u32, u32), FlowQueue>,
    /// When the interval began, if it has, and how many windows of it have ended.
    began: Option<Picos>,
    windows: usize,
}

#[derive(Debug)]
struct FlowQueue {
    levels: Levels,
    left: u64,
    windows: Vec<u128>,
    /// The bytes' integral over time when the last window ended.
    before: u128,
}

impl FlowQueueMeasurement {
    /// A packet of so many bytes joins or leaves a flow's bytes at a port.
    pub(super) fn change(&mut self, now: Picos, at: (u32, u32), bytes: u32, joins: bool) {
        let (began, windows) = (self.began, self.windows);
        let queue = self.queues.entry(at).or_insert_with(|| FlowQueue {
            levels: Levels::begin(0, began.unwrap_or(now)),
            left: 0,
            windows: vec![0; windows],
            before: 0,
        });
        let before = queue.levels.value();
        let after = if joins { before + bytes } else { before - bytes };
        queue.left += u64::from(if joins { 0 } else { bytes });
        if began.is_some() {
            queue.levels.change(after, now);
        } else {
            queue.levels = Levels::begin(after, now);
        }
    }

    /// The interval begins.
    pub(super) fn begin(&mut self, at: Picos) {
        self.began = Some(at);
        for queue in self.queues.values_mut() {
            (queue.levels, queue.left) = (Levels::begin(queue.levels.value(), at), 0);
        }
    }

    /// A window ends.
    pub(super) fn end_window(&mut self, at: Picos) {
        self.windows += 1;
        for queue in self.queues.values_mut() {
            queue.levels.change(queue.levels.value(), at);
            let before = std::mem::replace(&mut queue.before, queue.levels.integral());
            queue.windows.push(queue.before - before);
        }
    }

    /// The interval has ended. `place` returns node and number of a port.
    pub(super) fn end(&mut self, at: Picos, place: impl Fn(u32) -> (u32, u32)) -> Vec<MeasuredFlowQueue> {
        let queues = std::mem::take(&mut self.queues);
        let measured = queues.into_iter().map(|((port, flow), FlowQueue { mut levels, left, windows, .. })| {
            levels.change(levels.value(), at);
            let (node, port) = place(port);
            MeasuredFlowQueue { node, port, flow, levels, left, windows }
        });
        measured.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow with 100 bytes before the interval from 10 to 50 ps, which has two windows of 20 ps: 300 bytes from 20 to 40, and then
    /// 200. Another one joins at 40 ps.
    #[test]
    fn queues_of_flows_are_measured_from_the_beginning_of_the_interval() {
        let mut queues = FlowQueueMeasurement::default();
        queues.change(3, (7, 1), 100, true);
        queues.begin(10);
        queues.change(20, (7, 1), 200, true);
        queues.end_window(30);
        queues.change(40, (7, 1), 100, false);
        queues.change(40, (7, 2), 60, true);
        queues.end_window(50);
        let [first, second] = &queues.end(50, |port| (port + 30, port + 1))[..] else { panic!("two queues") };
        assert_eq!((first.node, first.port, first.flow, first.left), (37, 8, 1, 100));
        assert_eq!(first.windows, [1_000 + 3_000, 3_000 + 2_000]);
        assert_eq!(first.levels.mean(), 9_000.0 / 40.0);
        let squares = (10.0 * 100.0 * 100.0 + 20.0 * 300.0 * 300.0 + 10.0 * 200.0 * 200.0) / 40.0;
        let deviation = f64::sqrt(squares - 225.0 * 225.0);
        assert!((first.levels.deviation() - deviation).abs() < 1e-9);
        assert_eq!((first.levels.least(), first.levels.most()), (100, 300));
        assert_eq!(first.delay(), Some(90.0));
        assert_eq!((second.windows.as_slice(), second.levels.least(), second.delay()), (&[0, 600][..], 0, None));
    }
}
