//! The pseudo queue at the sender's end of a long link: the bytes that would be queued there if the link's speed were R, the
//! rate of the feedback.
//!
//! M. Long et al., section III-B, Eq. 10: `q* = max(0, q* + bytes in - R dt)`. Bytes are counted when they join the real queue:
//! when R is the port's speed, those that leave it would never exceed R dt, however long it grew. They are bytes on the line,
//! with preamble, check sequence and gap, because R is the rate of a line. R is the rate of the last feedback. Without
//! feedback for 4 T, R rises by dR at the end of each further T, up to the port's speed. A message whose sequence number is not
//! newer than the last, because it was overtaken or repeated, is dropped. Once R rises by itself, any number is accepted,
//! because a restarted switch counts from 0.

use super::rate_calculation::Feedback;
use cc_core::fixed::types::U56F8;
use cc_core::wire::FRAMING;
use cc_core::{Bytes, Nanos, Rate, Stamp, State};

/// Fraction bits of the pseudo queue, so that rounding does not lose bytes when it is drained in short steps.
const FINE: u32 = 8;
/// Periods without feedback during which R does not change.
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
        /// Feedback messages whose rate was used.
        pub taken: u32,
        /// Feedback messages dropped: overtaken on the way, or repeated.
        pub old: u32,
        /// Number of times that R began to rise by itself, after 4 T without feedback.
        pub lost: u32,
    }
}

cc_core::zeroed! {
    /// The pseudo queue.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub(super) struct PseudoQueue {
        /// q*, in 2^-8 bytes.
        queue: u64,
        /// All bytes that have left it so far, in 2^-8 bytes; wraps.
        left: u64,
        /// R.
        rate: Rate,
        /// The time for which q* was computed last.
        as_of: Stamp,
        /// When R rises next, without feedback.
        rises_at: Stamp,
        /// Number of the last feedback.
        seq: u16,
        /// R is that of the last feedback, and has not begun to rise by itself.
        has_feedback: bool,
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
        /// The time for which q* was computed last.
        pub as_of: Stamp,
        /// When R rises next, without feedback.
        pub rises_at: Stamp,
        /// Number of the last feedback.
        pub seq: u16,
        /// R is that of the last feedback, and has not begun to rise by itself.
        pub has_feedback: bool,
        /// Feedback messages whose rate was used.
        pub taken: u32,
        /// Feedback messages dropped: overtaken on the way, or repeated.
        pub old: u32,
        /// Number of times that R began to rise by itself, after 4 T without feedback.
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
            has_feedback: self.has_feedback,
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
            has_feedback: s.has_feedback,
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
            has_feedback: false,
            counters: FeedbackCounters { taken: 0, old: 0, lost: 0 },
        }
    }

    /// q*.
    #[expect(clippy::cast_possible_truncation, reason = "saturated")]
    pub(super) fn len(&self) -> Bytes {
        Bytes::new((self.queue >> FINE).min(u64::from(u32::MAX)) as u32)
    }

    /// All bytes that have left it, in units of 64 bytes, modulo 2^32.
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

    /// Processes a feedback message. Call [`PseudoQueue::pass_time`] first.
    pub(super) fn on_rate(&mut self, p: &Params, now: Stamp, feedback: &Feedback) {
        let ahead = feedback.seq.wrapping_sub(self.seq);
        if self.has_feedback && (ahead == 0 || ahead >= 1 << 15) {
            count(&mut self.counters.old);
            return;
        }
        count(&mut self.counters.taken);
        (self.seq, self.has_feedback, self.rate) = (feedback.seq, true, feedback.rate.min(p.line));
        self.rises_at = now.after(Nanos::new(p.period.get().saturating_mul(RISE_AFTER_PERIODS.saturating_add(1))));
    }

    /// (10) for a frame of so many bytes that joins the real queue. Call [`PseudoQueue::pass_time`] first.
    pub(super) fn enqueue(&mut self, bytes: Bytes) {
        self.queue = self.queue.saturating_add(u64::from(bytes.get()).wrapping_add(FRAMING.into()) << FINE);
    }

    /// (10) without arrivals up to `until`, in which R may rise several times: at most as often as dR fits into the port's
    /// speed.
    pub(super) fn pass_time(&mut self, p: &Params, until: Stamp) {
        if self.has_feedback && self.rises_at.is_due(until) {
            self.has_feedback = false;
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
            // R is at the port's speed. The stamp is moved forward, so that it does not age beyond its range.
            self.rises_at = until;
        }
        self.drain(until);
    }

    /// All rises up to `until` at once, for an empty queue.
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
