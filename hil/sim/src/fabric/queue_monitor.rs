//! How long the queues of switch ports were: how often each length was seen, by samples at a fixed interval.

use crate::Picos;

/// When the queues of switch ports are sampled.
///
/// A sample at the time of an event sees the queues as they were before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueMonitor {
    /// The first sample.
    pub start: Picos,
    /// The last sample is the first one at this time or later.
    pub end: Picos,
    /// From one sample to the next; above 0.
    pub interval: Picos,
    /// The counts are recorded at each sample whose time is a multiple of this; above 0.
    pub record_every: Picos,
}

/// How often each length of the queues of a switch port was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueLengths {
    /// The switch, by its node number.
    pub node: u32,
    /// Its port, counted from one in the order of its links.
    pub port: u32,
    /// The number of samples with at least n and less than n + 1 thousand bytes of data in all queues of the port, from the first
    /// sample on. The longest one seen ends the list.
    pub counts: Vec<u64>,
}

impl QueueMonitor {
    /// How many samples there are until a time, that time included.
    fn samples(&self, until: Picos) -> u64 {
        let last = (self.end.saturating_sub(self.start)).div_ceil(self.interval) + 1;
        until.checked_sub(self.start).map_or(0, |time| (time / self.interval + 1).min(last))
    }

    /// The time of a sample, counted from 0.
    fn time(&self, sample: u64) -> Picos {
        self.start + sample * self.interval
    }
}

/// A monitor that runs. It is called when a queue changes, and counts the samples since the change before.
#[derive(Debug)]
pub(super) struct Watch {
    monitor: QueueMonitor,
    ports: Vec<Port>,
    /// The samples until now, and when the next one is.
    samples: u64,
    next_at: Picos,
    /// The next sample at which the counts are recorded, or `u64::MAX`, and how many samples after it the next one after that is.
    next: u64,
    period: u64,
    records: Vec<(Picos, Vec<QueueLengths>)>,
}

/// The last length of a port's queues, and what was counted up to a sample.
#[derive(Debug)]
struct Port {
    is_switch: bool,
    bytes: u32,
    samples: u64,
    lengths: QueueLengths,
}

impl Watch {
    /// For the ports of the network: the node of each, its number there from one on, and whether the node is a switch.
    pub(super) fn new(monitor: QueueMonitor, ports: impl Iterator<Item = (u32, u32, bool)>) -> Self {
        let ports = ports.map(|(node, port, is_switch)| Port {
            is_switch,
            bytes: 0,
            samples: 0,
            lengths: QueueLengths { node, port, counts: Vec::new() },
        });
        // The times of samples have the same remainders again after so many.
        let period = monitor.record_every / gcd(monitor.record_every, monitor.interval);
        let next = (0..period).find(|&sample| monitor.time(sample).is_multiple_of(monitor.record_every));
        Self {
            monitor,
            ports: ports.collect(),
            samples: 0,
            next_at: monitor.start,
            next: next.unwrap_or(u64::MAX),
            period,
            records: Vec::new(),
        }
    }

    /// The queues of a port, by its number among all, have so many bytes from now on.
    #[inline]
    pub(super) fn change(&mut self, now: Picos, port: u32, bytes: u32) {
        if now >= self.next_at {
            self.pass(now);
        }
        let port = &mut self.ports[port as usize];
        if port.samples < self.samples {
            port.count(self.samples);
        }
        port.bytes = bytes;
    }

    /// Time has reached the next sample.
    #[inline(never)]
    fn pass(&mut self, now: Picos) {
        let after = self.next_at + self.monitor.interval;
        if now < after && self.next_at < self.monitor.end {
            // Most often, one sample.
            (self.samples, self.next_at) = (self.samples + 1, after);
        } else {
            self.samples = self.monitor.samples(now);
            self.next_at = self.monitor.time(self.samples);
        }
        if self.next < self.samples {
            self.record_before(self.samples);
        }
    }

    /// Records the counts at the samples that are among so many.
    fn record_before(&mut self, samples: u64) {
        while self.next < samples {
            self.ports.iter_mut().for_each(|port| port.count(self.next + 1));
            let lengths = self.ports.iter().filter(|port| port.is_switch).map(|port| port.lengths.clone());
            self.records.push((self.monitor.time(self.next), lengths.collect()));
            self.next += self.period;
        }
    }

    /// The records of a run that ends before this time, until which the queues stay as they are.
    pub(super) fn finish(mut self, end: Picos) -> Vec<(Picos, Vec<QueueLengths>)> {
        self.record_before(end.checked_sub(1).map_or(0, |last| self.monitor.samples(last)));
        self.records
    }
}

impl Port {
    /// Counts the samples up to so many, at the present length.
    #[inline(never)]
    fn count(&mut self, samples: u64) {
        if samples > self.samples {
            let bin = self.bytes as usize / 1_000;
            let counts = &mut self.lengths.counts;
            if counts.len() <= bin {
                counts.resize(bin + 1, 0);
            }
            counts[bin] += samples - self.samples;
            self.samples = samples;
        }
    }
}

const fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}
