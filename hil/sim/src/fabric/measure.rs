//! What links, queues and flows did in an interval of a run: exact times of states, not samples.

use super::host::Sender;
use super::measured_flows::{FlowQueueMeasurement, MeasuredFlowQueue};
use super::port::Port;
use crate::Picos;
use cc_core::Rate;
use hil_sorted::SortedMap;

/// The interval of a run in which it is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measure {
    /// Its beginning: what was before is left out.
    pub from: Picos,
    /// Its end, which is after the beginning and not after the end of the scenario.
    pub until: Picos,
    /// The length of the windows in which rates of flows are compared: the first begins at `from`, each other where the one before
    /// ends, and the last ends at `until` or before. Above zero.
    pub window: Picos,
    /// A window counts as settled if the rate of each flow differs by at most this share of their mean from it.
    pub within: f64,
}

impl Measure {
    /// The usual window: 1 ms.
    pub const WINDOW: Picos = 1_000_000_000;
    /// The usual share: 10 %.
    pub const WITHIN: f64 = 0.1;
}

/// What was measured in an interval.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measured {
    /// All ports, node by node.
    pub ports: Vec<MeasuredPort>,
    /// The bytes of data that wait at all ports of a switch, by its node number.
    pub buffers: Vec<(u32, Levels)>,
    /// The queues of flows, at ports whose stages hold flows.
    pub flow_queues: Vec<MeasuredFlowQueue>,
    /// Bytes of payload that the receiver of each flow got in order.
    pub received: Vec<u64>,
    /// The windows in the order of time.
    pub windows: Vec<Window>,
}

/// A port in an interval, and the link that leaves it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeasuredPort {
    /// Its node.
    pub node: u32,
    /// Its number there, counted from one in the order of the node's links.
    pub port: u32,
    /// The node at the other end.
    pub peer: u32,
    /// The speed of the link.
    pub bits_per_second: u64,
    /// For how long the link carried frames: preamble, check sequence and gap are part of them.
    pub busy: Picos,
    /// Bytes of the frames that began to leave, without preamble, check sequence and gap.
    pub sent_bytes: u64,
    /// For how long PFC paused a class of its data, one or several.
    pub paused: Picos,
    /// Data packets that it marked with CE.
    pub marks: u64,
    /// Data packets that it marked as undetermined, with ECT(1) (TCD).
    pub undetermined: u64,
    /// The bytes of data that wait, if it is a port of a switch.
    pub queue: Option<Levels>,
    /// The bytes in the switch that came in by it, if it is a port of a switch.
    pub ingress: Option<Levels>,
    /// The pseudo queue of its stages, if they keep one.
    pub pseudo_queue: Option<MeasuredPseudoQueue>,
}

/// LSCC's pseudo queue at a port in an interval, as of each packet that joined the real queue, and of each time at which stages of
/// the switch were due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeasuredPseudoQueue {
    /// Its bytes, q*.
    pub bytes: Levels,
    /// The rate at which it drains, R, in Mb/s.
    pub mbps: Levels,
}

/// The flows that were open all through a window: they began before it, and were not complete at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Its beginning.
    pub from: Picos,
    /// How many there were.
    pub flows: u32,
    /// The payload that their receivers got in order, in bytes: of all, and the sum of its squares.
    pub bytes: u64,
    /// The sum of the squares of the bytes of each.
    pub squares: u128,
    /// The bytes of the slowest.
    pub least: u64,
    /// The bytes of the fastest.
    pub most: u64,
}

impl Window {
    /// Jain's index of the rates: (sum x)^2 / (n sum x^2), which is 1 if all are equal and 1 / n if one has everything (Jain, Chiu,
    /// Hawe, "A Quantitative Measure of Fairness", DEC-TR-301, 1984). `None` without flows, or if none got anything.
    pub fn jain(&self) -> Option<f64> {
        let all = self.bytes as f64 * self.bytes as f64;
        (self.bytes > 0).then(|| all / (f64::from(self.flows) * self.squares as f64))
    }

    /// Whether each rate differs by at most this share of the mean from it; true without flows.
    pub fn is_within(&self, share: f64) -> bool {
        let mean = self.bytes as f64 / f64::from(self.flows.max(1));
        self.flows == 0 || self.least as f64 >= mean * (1.0 - share) && self.most as f64 <= mean * (1.0 + share)
    }
}

/// For how long a number of bytes had each value. Values above 63 are kept to 1/32 of themselves; mean and maximum are exact.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Levels {
    /// The time of each bin, see [`bin`].
    bins: Vec<Picos>,
    /// Bytes times picoseconds.
    integral: u128,
    /// The squares of bytes times picoseconds.
    squares: u128,
    least: Option<u32>,
    most: u32,
    /// The present value, and since when.
    now: (u32, Picos),
}

/// The bin of a value: itself up to 63, and then 32 bins for each power of two.
const fn bin(value: u32) -> usize {
    if value < 64 {
        return value as usize;
    }
    let shift = value.ilog2() - 5;
    ((shift << 5) + (value >> shift)) as usize
}

/// The least value of a bin.
const fn least(bin: usize) -> u64 {
    if bin < 64 {
        return bin as u64;
    }
    let shift = (bin >> 5) - 1;
    ((bin - (shift << 5)) as u64) << shift
}

impl Levels {
    /// It has this value from this time on.
    pub(super) fn begin(value: u32, now: Picos) -> Self {
        Self { most: value, now: (value, now), ..Self::default() }
    }

    /// It has this value from this time on; until then it had the one before.
    pub(super) fn change(&mut self, value: u32, now: Picos) {
        let (before, since) = std::mem::replace(&mut self.now, (value, now));
        self.most = self.most.max(value);
        let (bin, time) = (bin(before), now - since);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += time;
        let integral = u128::from(before) * u128::from(time);
        self.integral += integral;
        self.squares += integral * u128::from(before);
        if time > 0 {
            self.least = Some(self.least.map_or(before, |least| least.min(before)));
        }
    }

    /// The present value.
    pub(super) const fn value(&self) -> u32 {
        self.now.0
    }

    /// Bytes times picoseconds.
    pub(super) const fn integral(&self) -> u128 {
        self.integral
    }

    fn time(&self) -> Picos {
        self.bins.iter().sum::<Picos>().max(1)
    }

    /// The mean over time.
    pub fn mean(&self) -> f64 {
        self.integral as f64 / self.time() as f64
    }

    /// The standard deviation over time.
    pub fn deviation(&self) -> f64 {
        (self.squares as f64 / self.time() as f64 - self.mean() * self.mean()).max(0.0).sqrt()
    }

    /// The least value.
    pub fn least(&self) -> u32 {
        self.least.unwrap_or(0)
    }

    /// The largest value.
    pub const fn most(&self) -> u32 {
        self.most
    }

    /// The share of the time in which the value was in this range, with both ends; a bin counts by its least value.
    pub fn share(&self, range: std::ops::RangeInclusive<u64>) -> f64 {
        let inside = self.bins.iter().enumerate().filter(|&(bin, _)| range.contains(&least(bin)));
        inside.map(|(_, time)| time).sum::<Picos>() as f64 / self.time() as f64
    }

    /// The value that is not exceeded for this share of the time.
    pub fn quantile(&self, share: f64) -> u64 {
        self.distribution().find(|&(_, up_to)| up_to >= share).map_or(self.most.into(), |(value, _)| value)
    }

    /// For each value that occurred, the share of the time in which it was not exceeded.
    pub fn distribution(&self) -> impl Iterator<Item = (u64, f64)> {
        let all = self.time() as f64;
        let occurred = self.bins.iter().enumerate().filter(|&(_, &time)| time > 0);
        occurred.scan(0, move |sum, (bin, time)| {
            *sum += time;
            Some((least(bin), *sum as f64 / all))
        })
    }
}

/// What a port has done since the beginning of the run.
#[derive(Clone, Copy, Debug)]
struct Counts {
    busy: Picos,
    sent_bytes: u64,
    paused: Picos,
    marks: u64,
    undetermined: u64,
}

impl Counts {
    fn of(port: &Port, now: Picos) -> Self {
        Self {
            busy: port.busy(now),
            sent_bytes: port.sent_bytes,
            paused: port.paused(now),
            marks: port.marks,
            undetermined: port.undetermined,
        }
    }
}

/// What measures a network.
#[derive(Debug)]
pub(super) struct Measurement {
    measure: Measure,
    /// The next end of a window, or the end or the beginning of the interval.
    pub(super) next: Picos,
    /// Of each port: its node, its number there, and whether the node is a switch.
    places: Vec<(u32, u32, bool)>,
    /// At the beginning of the interval: what each port had done, and the bytes that each flow's receiver had.
    before: Vec<Counts>,
    received_before: Vec<u64>,
    /// Of each port.
    queues: Vec<Levels>,
    /// Of each node.
    buffers: Vec<Levels>,
    /// Of each port.
    ingress: Vec<Levels>,
    /// By the number of the port, of those that have one: until the beginning of the interval, what it is at last.
    pseudo_queues: SortedMap<u32, MeasuredPseudoQueue>,
    pub(super) flow_queues: FlowQueueMeasurement,
    measured_flow_queues: Vec<MeasuredFlowQueue>,
    /// What each open flow's receiver had at the beginning of the window.
    received: Vec<Option<u64>>,
    windows: Vec<Window>,
    ports: Vec<MeasuredPort>,
}

impl Measurement {
    /// For the ports of the network: the node of each, its number there from one on, and whether the node is a switch.
    pub(super) fn new(measure: Measure, places: impl Iterator<Item = (u32, u32, bool)>) -> Self {
        Self {
            measure,
            next: measure.from,
            places: places.collect(),
            before: Vec::new(),
            received_before: Vec::new(),
            queues: Vec::new(),
            buffers: Vec::new(),
            ingress: Vec::new(),
            pseudo_queues: SortedMap::new(),
            flow_queues: FlowQueueMeasurement::default(),
            measured_flow_queues: Vec::new(),
            received: Vec::new(),
            windows: Vec::new(),
            ports: Vec::new(),
        }
    }

    /// The data queues of a port, by its number among all, have so many bytes from now on.
    pub(super) fn change(&mut self, now: Picos, port: u32, bytes: u32) {
        let Some(queue) = self.queues.get_mut(port as usize) else { return };
        if self.next == Picos::MAX {
            return;
        }
        let before = queue.now.0;
        queue.change(bytes, now);
        let buffer = &mut self.buffers[self.places[port as usize].0 as usize];
        buffer.change(buffer.now.0 - before + bytes, now);
    }

    /// The bytes in the switch that came in by a port, by its number among all, are so many from now on.
    pub(super) fn change_ingress(&mut self, now: Picos, port: u32, bytes: u32) {
        if let Some(ingress) = self.ingress.get_mut(port as usize)
            && self.next < Picos::MAX
        {
            ingress.change(bytes, now);
        }
    }

    /// The pseudo queue of a port, by its number among all, has so many bytes and drains at this rate from now on.
    pub(super) fn change_pseudo_queue(&mut self, now: Picos, port: u32, bytes: u32, rate: Rate) {
        let mbps = (rate.to_bits_per_second() / 1_000_000) as u32;
        if self.before.is_empty() {
            let [bytes, mbps] = [bytes, mbps].map(|value| Levels::begin(value, self.measure.from));
            self.pseudo_queues.insert(port, MeasuredPseudoQueue { bytes, mbps });
        } else if self.next < Picos::MAX {
            let from = self.measure.from;
            let new = || MeasuredPseudoQueue { bytes: Levels::begin(0, from), mbps: Levels::begin(mbps, from) };
            let at = self.pseudo_queues.or_insert_with(port, new);
            at.bytes.change(bytes, now);
            at.mbps.change(mbps, now);
        }
    }

    /// Measures what is due until now, between which nothing happened.
    pub(super) fn pass(&mut self, now: Picos, ports: &[Port], senders: &[Sender]) {
        let Measure { from, until, window, .. } = self.measure;
        while self.next <= now && self.next < Picos::MAX {
            let at = self.next;
            if at == from {
                self.begin(at, ports, senders);
            } else if (at - from).is_multiple_of(window) {
                self.end_window(at - window, senders);
                self.flow_queues.end_window(at);
            }
            self.received = senders.iter().map(|sender| sender.is_open().then(|| sender.received_bytes())).collect();
            self.next = at.saturating_add(window).min(until);
            if at == until {
                self.end(at, ports, senders);
            }
        }
    }

    fn begin(&mut self, at: Picos, ports: &[Port], senders: &[Sender]) {
        self.flow_queues.begin(at);
        self.before = ports.iter().map(|port| Counts::of(port, at)).collect();
        self.received_before = senders.iter().map(Sender::received_bytes).collect();
        let nodes = self.places.iter().map(|&(node, ..)| node as usize + 1).max().unwrap_or(0);
        let mut buffers = vec![0; nodes];
        ports.iter().for_each(|port| buffers[port.node as usize] += port.waiting_bytes());
        self.queues = ports.iter().map(|port| Levels::begin(port.waiting_bytes(), at)).collect();
        self.buffers = buffers.into_iter().map(|bytes| Levels::begin(bytes, at)).collect();
        self.ingress = ports.iter().map(|port| Levels::begin(port.arrived.iter().sum(), at)).collect();
    }

    fn end_window(&mut self, from: Picos, senders: &[Sender]) {
        let mut window = Window { from, flows: 0, bytes: 0, squares: 0, least: u64::MAX, most: 0 };
        let open = self.received.iter().zip(senders).filter(|(_, sender)| sender.is_open());
        for bytes in open.filter_map(|(before, sender)| Some(sender.received_bytes() - (*before)?)) {
            window.flows += 1;
            window.bytes += bytes;
            window.squares += u128::from(bytes) * u128::from(bytes);
            (window.least, window.most) = (window.least.min(bytes), window.most.max(bytes));
        }
        self.windows.push(Window { least: window.least.min(window.most), ..window });
    }

    fn end(&mut self, at: Picos, ports: &[Port], senders: &[Sender]) {
        self.next = Picos::MAX;
        let place = |port: u32| (self.places[port as usize].0, self.places[port as usize].1);
        self.measured_flow_queues = self.flow_queues.end(at, place);
        let pseudo = self.pseudo_queues.values_mut().flat_map(|queue| [&mut queue.bytes, &mut queue.mbps]);
        for levels in self.queues.iter_mut().chain(&mut self.buffers).chain(&mut self.ingress).chain(pseudo) {
            levels.change(levels.now.0, at);
        }
        for (received, sender) in self.received_before.iter_mut().zip(senders) {
            *received = sender.received_bytes() - *received;
        }
        let queues = std::mem::take(&mut self.queues).into_iter().zip(std::mem::take(&mut self.ingress));
        for (place, (((port, (queue, ingress)), before), &(node, number, is_switch))) in
            (0..).zip(ports.iter().zip(queues).zip(&self.before).zip(&self.places))
        {
            let now = Counts::of(port, at);
            self.ports.push(MeasuredPort {
                node,
                port: number,
                peer: ports[port.peer as usize].node,
                bits_per_second: port.bits_per_second(),
                busy: now.busy - before.busy,
                sent_bytes: now.sent_bytes - before.sent_bytes,
                paused: now.paused - before.paused,
                marks: now.marks - before.marks,
                undetermined: now.undetermined - before.undetermined,
                queue: is_switch.then_some(queue),
                ingress: is_switch.then_some(ingress),
                pseudo_queue: self.pseudo_queues.remove(&place),
            });
        }
    }

    /// What was measured, for a network in which nothing happens any more.
    pub(super) fn finish(mut self, ports: &[Port], senders: &[Sender]) -> Measured {
        self.pass(Picos::MAX, ports, senders);
        let switches: hil_sorted::SortedSet<u32> =
            self.places.iter().filter(|(.., is_switch)| *is_switch).map(|&(node, ..)| node).collect();
        let buffers = (0..).zip(self.buffers).filter(|(node, _)| switches.contains(node));
        Measured {
            buffers: buffers.collect(),
            ports: self.ports,
            flow_queues: self.measured_flow_queues,
            received: self.received_before,
            windows: self.windows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_follow_each_other_and_are_a_thirty_second_wide() {
        for value in (0..5_000).chain([1 << 20, (1 << 20) + 40_000, u32::MAX - 1, u32::MAX]) {
            let of = bin(value);
            assert!(least(of) <= u64::from(value) && u64::from(value) < least(of + 1), "{value}");
            assert!(least(of + 1) - least(of) <= (u64::from(value) / 32).max(1));
        }
    }

    /// 0 bytes for 10 ps, 1,000 for 30 ps, and 40 for 60 ps.
    #[test]
    fn levels_are_weighed_by_their_time() {
        let mut levels = Levels::begin(0, 100);
        for (value, at) in [(1_000, 110), (40, 140), (40, 200)] {
            levels.change(value, at);
        }
        assert_eq!(levels.mean(), (1_000.0 * 30.0 + 40.0 * 60.0) / 100.0);
        assert_eq!(levels.most(), 1_000);
        assert_eq!(levels.distribution().collect::<Vec<_>>(), [(0, 0.1), (40, 0.7), (992, 1.0)]);
        assert_eq!((levels.share(0..=0), levels.share(1..=100), levels.share(900..=2_000)), (0.1, 0.6, 0.3));
        assert_eq!((levels.quantile(0.1), levels.quantile(0.5), levels.quantile(0.99)), (0, 40, 992));
    }

    /// One of four has everything, or all have the same; one of two has three times as much as the other: 16 / (2 x 10).
    #[test]
    fn jains_index_is_that_of_its_definition() {
        let window = |bytes: &[u64]| Window {
            from: 0,
            flows: bytes.len() as u32,
            bytes: bytes.iter().sum(),
            squares: bytes.iter().map(|&bytes| u128::from(bytes * bytes)).sum(),
            least: bytes.iter().copied().min().unwrap_or(0),
            most: bytes.iter().copied().max().unwrap_or(0),
        };
        for (bytes, jain) in [(&[0, 7, 0, 0][..], 0.25), (&[5, 5, 5], 1.0), (&[1, 3], 0.8)] {
            assert_eq!(window(bytes).jain(), Some(jain));
        }
        assert_eq!((window(&[]).jain(), window(&[0, 0]).jain()), (None, None));
        assert!(window(&[90, 110]).is_within(0.1) && !window(&[90, 111]).is_within(0.1) && window(&[]).is_within(0.0));
    }
}
