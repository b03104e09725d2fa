//! The pseudo queue at the sender's end of a long link: the bytes that would wait there if the link had the rate R of the
//! feedback.
//!
//! M. Long et al., section III-B, Eq. 10: `q* = max(0, q* + bytes in - R dt)`. R is the last feedback; without any for 4 T it
//! rises by dR each T to the port's speed. Feedback counts in the order of its sequence numbers: a message that was
//! overtaken on the way, or comes twice, is dropped. After those 4 T any number counts: a restarted switch counts from 0.

use super::rate_calculation::Feedback;
use cc_core::fixed::types::U56F8;
use cc_core::{Bytes, Nanos, Rate, Stamp, State};

/// Fraction bits of the pseudo queue, so that no rate is lost to rounding over short times.
const FINE: u32 = 8;
/// Periods without feedback in which R holds.
const RISE_AFTER_PERIODS: u32 = 4;

cc_core::zeroed! {
    /// Parameters of the queue.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(super) struct Params {
        /// T.
        pub(super) period: Nanos,
        /// dR.
        pub(super) slew: Rate,
        /// The port's speed.
        pub(super) line: Rate,
    }
}

cc_core::zeroed! {
    /// Counters of the feedback from the receiver's end.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct FeedbackCounters {
        /// Rates taken.
        pub taken: u32,
        /// Rates dropped: overtaken on the way, or sent twice.
        pub old: u32,
        /// Times that no feedback came for 4 T, so that R rose by itself.
        pub lost: u32,
    }
}

cc_core::zeroed! {
    /// The queue.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub(super) struct PseudoQueue {
        /// q*, in 1/256 of a byte.
        queue: u64,
        /// All that has left it so far, likewise; wraps.
        left: u64,
        /// R.
        rate: Rate,
        /// The time of q*.
        as_of: Stamp,
        /// When R rises without feedback.
        rises_at: Stamp,
        /// Number of the last feedback.
        seq: u16,
        /// R is what feedback said, and not so old that it rises by itself.
        heard: bool,
        counters: FeedbackCounters,
    }
}

cc_core::snapshot! {
    /// The pseudo queue at the end of a long link.
    pub struct PseudoQueueSnapshot {
        /// q*, in bytes.
        pub queue: U56F8,
        /// All bytes that have left it so far, modulo 2^56.
        pub left: U56F8,
        /// R.
        pub rate: Rate,
        /// The time of q*.
        pub as_of: Stamp,
        /// When R rises without feedback.
        pub rises_at: Stamp,
        /// Number of the last feedback.
        pub seq: u16,
        /// R is what feedback said, and not so old that it rises by itself.
        pub has_feedback: bool,
        /// Rates taken.
        pub taken: u32,
        /// Rates dropped: overtaken on the way, or sent twice.
        pub old: u32,
        /// Times that no feedback came for 4 T, so that R rose by itself.
        pub lost: u32,
    }
}

impl State for PseudoQueue {
    type Snapshot = PseudoQueueSnapshot;

    fn snapshot(&self) -> PseudoQueueSnapshot {
        let FeedbackCounters { taken, old, lost } = self.counters;
        PseudoQueueSnapshot {
            queue: U56F8::from_bits(self.queue),
            left: U56F8::from_bits(self.left),
            rate: self.rate,
            as_of: self.as_of,
            rises_at: self.rises_at,
            seq: self.seq,
            has_feedback: self.heard,
            taken,
            old,
            lost,
        }
    }

    fn from_snapshot(s: PseudoQueueSnapshot) -> Self {
        let PseudoQueueSnapshot { taken, old, lost, .. } = s;
        Self {
            queue: s.queue.to_bits(),
            left: s.left.to_bits(),
            rate: s.rate,
            as_of: s.as_of,
            rises_at: s.rises_at,
            seq: s.seq,
            heard: s.has_feedback,
            counters: FeedbackCounters { taken, old, lost },
        }
    }
}

impl PseudoQueue {
    /// An empty queue. R is the port's speed until the first feedback.
    pub(super) const fn open(p: &Params, now: Stamp) -> Self {
        Self {
            queue: 0,
            left: 0,
            rate: p.line,
            as_of: now,
            rises_at: now,
            seq: 0,
            heard: false,
            counters: FeedbackCounters { taken: 0, old: 0, lost: 0 },
        }
    }

    /// q*.
    #[expect(clippy::cast_possible_truncation, reason = "saturated")]
    pub(super) fn len(&self) -> Bytes {
        Bytes::new((self.queue >> FINE).min(u64::from(u32::MAX)) as u32)
    }

    /// All that has left it, in units of 64 bytes, modulo 2^32.
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
    pub(super) const fn left(&self) -> u32 {
        (self.left >> (FINE + 6)) as u32
    }

    /// R as of the last event.
    pub(super) const fn rate(&self) -> Rate {
        self.rate
    }

    /// The counters.
    pub(super) const fn counters(&self) -> FeedbackCounters {
        self.counters
    }

    /// A feedback message has arrived. Call [`PseudoQueue::pass_time`] first.
    pub(super) fn on_rate(&mut self, p: &Params, now: Stamp, feedback: &Feedback) {
        let ahead = feedback.seq.wrapping_sub(self.seq);
        if self.heard && (ahead == 0 || ahead >= 1 << 15) {
            count(&mut self.counters.old);
            return;
        }
        count(&mut self.counters.taken);
        (self.seq, self.heard, self.rate) = (feedback.seq, true, feedback.rate.min(p.line));
        self.rises_at = now.after(Nanos::new(p.period.get().saturating_mul(RISE_AFTER_PERIODS.saturating_add(1))));
    }

    /// (10) for bytes that come in.
    pub(super) fn arrive(&mut self, bytes: Bytes) {
        self.queue = self.queue.saturating_add(u64::from(bytes.get()) << FINE);
    }

    /// (10) without arrivals, with R as it rises on the way: at most as many steps as there are from nothing to the port's
    /// speed.
    pub(super) fn pass_time(&mut self, p: &Params, until: Stamp) {
        if self.heard && self.rises_at.is_due(until) {
            self.heard = false;
            count(&mut self.counters.lost);
        }
        while self.rate < p.line && self.rises_at.is_due(until) {
            if self.queue == 0 {
                self.rise(p, until);
                break;
            }
            self.drain(self.rises_at);
            self.rate = self.rate.saturating_add(p.slew).min(p.line);
            self.rises_at = self.rises_at.after(p.period);
        }
        if self.rises_at.is_due(until) {
            // R has nothing left to rise to; the stamp must not go stale.
            self.rises_at = until;
        }
        self.drain(until);
    }

    /// All rises up to then at once, for a queue that has nothing left to drain.
    fn rise(&mut self, p: &Params, until: Stamp) {
        let due = until.since(self.rises_at).get().checked_div(p.period.get()).unwrap_or(0).wrapping_add(1);
        let short = p.line.saturating_sub(self.rate).to_bits();
        let slew = p.slew.to_bits();
        let rises = short.saturating_add(slew.saturating_sub(1)).checked_div(slew).unwrap_or(u32::MAX).min(due);
        self.rate = Rate::from_bits(self.rate.to_bits().saturating_add(slew.saturating_mul(rises))).min(p.line);
        self.rises_at = self.rises_at.after(Nanos::new(p.period.get().wrapping_mul(rises)));
    }

    fn drain(&mut self, until: Stamp) {
        if self.as_of.is_due(until) {
            let room = u64::from(self.rate.to_bits()).wrapping_mul(u64::from(until.since(self.as_of).get()));
            let drained = (room >> 24u32.wrapping_sub(FINE)).min(self.queue);
            self.queue = self.queue.wrapping_sub(drained);
            self.left = self.left.wrapping_add(drained);
            self.as_of = until;
        }
    }
}

/// Increments a counter, which wraps.
#[inline]
pub(super) fn count(counter: &mut u32) {
    *counter = counter.wrapping_add(1);
}
