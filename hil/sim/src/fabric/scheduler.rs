//! How a switch port chooses among its queues of data, where it does not serve them in turn, and a host among the classes of its flows.
//!
//! Strict queues come first, the highest class before the others (IEEE 802.1Q strict priority). The other queues share what is left,
//! by weights (802.1Qaz enhanced transmission selection). The weights are shares of bytes, by surplus round robin (Adiseshu,
//! Parulkar, Varghese, SIGCOMM 1996): in each round a queue gets a credit in proportion to its weight, and sends while its credit is
//! above zero; it may overdraw it by the last packet. Unlike deficit round robin, it needs no look at the next packet. The greatest
//! weight gets the longest frame in a round, so that a queue is never more than two frames from its share.
//!
//! A queue can be shaped to a rate, with a burst of one packet.

use super::port::{CLASSES, FRAMING, line_time};
use crate::Picos;
use std::num::NonZeroU64;

/// How a queue of a port is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSettings {
    /// When it is its turn.
    pub service: Service,
    /// It sends at most so many bits per second, preambles, check sequences and gaps included; `None` for no limit.
    pub rate: Option<NonZeroU64>,
    /// Its packets are marked by the stages; otherwise they leave with the ECN bits with which they came, if no stage rewrites them.
    pub ecn: bool,
}

/// When it is a queue's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// In turn with the others, packet by packet. Where others have weights, it has the weight 1.
    RoundRobin,
    /// Before all that are not strict, and before strict ones of lower classes.
    Strict,
    /// By its share of bytes; at least 1.
    Weight(u8),
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self { service: Service::RoundRobin, rate: None, ecn: true }
    }
}

/// The scheduler of a port.
#[derive(Debug)]
pub(super) struct Scheduler {
    /// The strict classes, a bit each.
    strict: u8,
    /// The weight of each class; `None` if none has one.
    weights: Option<[i64; CLASSES]>,
    /// The greatest of them.
    greatest: i64,
    /// What a queue of weight 1 gets in a round is this, in bytes divided by the greatest weight: those of the longest frame.
    quantum: i64,
    /// Bytes that each class may send in this round, times the greatest weight.
    credits: [i64; CLASSES],
    /// The class that was served last by its weight.
    served: u8,
    rates: [Option<NonZeroU64>; CLASSES],
    /// When each shaped class may send next.
    shaped_until: [Picos; CLASSES],
}

impl Scheduler {
    /// The scheduler of a port with these queues, where the longest frame has so many bytes; `None` if they are all served in turn.
    pub(super) fn new(queues: &[QueueSettings; CLASSES], frame_bytes: u16) -> Option<Self> {
        let has_turns = |queue: &QueueSettings| queue.service == Service::RoundRobin && queue.rate.is_none();
        if queues.iter().all(has_turns) {
            return None;
        }
        let weight = |queue: QueueSettings| match queue.service {
            Service::Weight(weight) => i64::from(weight.max(1)),
            Service::RoundRobin | Service::Strict => 1,
        };
        let weights = queues.map(weight);
        let is_weighted = queues.iter().any(|queue| matches!(queue.service, Service::Weight(_)));
        let strict = (0..).zip(queues).filter(|(_, queue)| queue.service == Service::Strict);
        Some(Self {
            strict: strict.fold(0, |strict, (class, _)| strict | 1 << class),
            weights: is_weighted.then_some(weights),
            greatest: weights.into_iter().max().unwrap_or(1),
            quantum: frame_bytes.into(),
            credits: [0; CLASSES],
            served: 0,
            rates: queues.map(|queue| queue.rate),
            shaped_until: [0; CLASSES],
        })
    }

    /// Those of some classes, a bit each, that are neither paused nor shaped now, and when the first of the shaped ones may send.
    pub(super) fn eligible(&self, classes: u8, paused_until: &[Picos; CLASSES], now: Picos) -> (u8, Option<Picos>) {
        let (mut eligible, mut later) = (0, None);
        for class in (0..CLASSES).filter(|class| classes >> class & 1 != 0 && paused_until[*class] <= now) {
            let until = self.shaped_until[class];
            if until <= now {
                eligible |= 1 << class;
            } else {
                later = later.into_iter().chain([until]).min();
            }
        }
        (eligible, later)
    }

    /// Each class may send at once.
    pub(super) fn end_shaping(&mut self) {
        self.shaped_until = [0; CLASSES];
    }

    /// All queues but those of some classes, a bit each, are empty: their credit is over.
    pub(super) fn end_credits(&mut self, but: u8) {
        let empty = (0..).zip(&mut self.credits).filter(|(class, _)| but >> class & 1 == 0);
        empty.for_each(|(_, credit)| *credit = (*credit).min(0));
    }

    /// Chooses one of some classes, a bit each, of which there is at least one. `served` is the class that was served last.
    pub(super) fn choose(&mut self, classes: u8, served: u8) -> u8 {
        if classes & self.strict != 0 {
            return 7 - (classes & self.strict).leading_zeros() as u8;
        }
        let Some(weights) = self.weights else { return next_in_turn(classes, served) };
        let of_classes = || (0..CLASSES).filter(|class| classes >> class & 1 != 0);
        if of_classes().all(|class| self.credits[class] <= 0) {
            let rounds = |class: usize| -self.credits[class] / (weights[class] * self.quantum) + 1;
            let rounds = of_classes().map(rounds).min().unwrap_or(0);
            of_classes().for_each(|class| self.credits[class] += rounds * weights[class] * self.quantum);
        }
        let with_credit =
            of_classes().filter(|&class| self.credits[class] > 0).fold(0, |mask, class| mask | 1 << class);
        // The one served last goes on while it has credit.
        self.served = next_in_turn(with_credit, self.served.wrapping_sub(1) & 7);
        self.served
    }

    /// A packet of a class leaves, behind which the queue is empty or not.
    pub(super) fn sent(&mut self, class: u8, line_bytes: u16, is_empty: bool, now: Picos) {
        let class = usize::from(class);
        if self.weights.is_some() && self.strict >> class & 1 == 0 {
            let credit = self.credits[class] - i64::from(line_bytes) * self.greatest;
            self.credits[class] = if is_empty { credit.min(0) } else { credit };
        }
        if let Some(rate) = self.rates[class] {
            let time = line_time(rate.get(), u32::from(line_bytes) + FRAMING);
            self.shaped_until[class] = self.shaped_until[class].max(now.saturating_sub(time)) + time;
        }
    }
}

/// The next of some classes, a bit each, after the one served last, in a circle.
pub(super) fn next_in_turn(classes: u8, served: u8) -> u8 {
    let turned = classes.rotate_right(u32::from(served) + 1);
    (u32::from(served) + 1 + turned.trailing_zeros()) as u8 & 7
}
