//! TIMELY at the sender, and patched TIMELY.
//!
//! Radhika Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter", SIGCOMM 2015, algorithm 1;
//! `gradient_rule` `blend` is "patched TIMELY" of Yibo Zhu et al., "ECN or Delay: Lessons Learnt from Analysis of DCQCN
//! and TIMELY", CoNEXT 2016.
//!
//! Every segment that is acknowledged gives a round-trip time. Below T_low the rate gains `delta`; above T_high it loses `beta
//! (1 - T_high / rtt)` of itself; between them it follows the gradient, which is the smoothed difference of consecutive samples
//! over minRTT: not above zero the rate gains `delta`, or N times that after `hai_threshold` falls in a row, and above zero it
//! loses `beta` times the gradient. Between the thresholds, patched TIMELY combines both by a weight: with `w = clamp(2
//! gradient + 1/2, 0, 1)` and `err = (rtt - T_low) / T_low`, the rate loses `beta w err` of itself and gains `delta (1 - w)`.
//!
//! What published code adds to the paper is switched by settings (see [`TimelySettings`]):
//! - `elapsed`: steps and cuts are in proportion to the time since the last update, up to minRTT, so that their sum does
//!   not grow with the number of acknowledgements;
//! - `largest_cut`: one update takes at most half of the rate, however long a sample is after a pause;
//! - `hai_counts`: round-trip times that shrink, or gradients below zero, in a row.
//!
//! Deviations:
//! - the paper times a segment from its first byte and takes the segment's time on the link from that. Here a sample is
//!   measured from the departure of the acknowledged packet, less the time that the receiver held it; the setting
//!   `serialisation` defines what else is subtracted;
//! - a sample shorter than minRTT is the echo of an earlier transmission, and is discarded, as in eRPC. If the base round-trip
//!   time of the port is shorter than minRTT, that is the bound: in a network that is faster than minRTT a flow would otherwise
//!   never leave its lowest rate. The segment is then measured by the next sample;
//! - a sample of more than 67 ms counts as 67 ms, which is above any T_high;
//! - the first sample has no gradient: it counts as zero;
//! - a flow starts at the ceiling; increases round up by at most a raw step (477 b/s), so that none rounds to zero, and the
//!   amounts of cuts round down.
//!
//! Fractions of 1 are stored in units of 2^-32, so that the high half of a 64-bit product is the fraction of a value.
//!
//! Late wakes change no decision: there are no timers, and a wake only keeps the time of the last update unambiguous.

mod parameters;
#[cfg(test)]
mod tests;

pub(crate) use parameters::PRESETS;
pub use parameters::{ERPC, NS3_RDMA, PAPER, PATCHED, Params, TimelySettings};

use crate::{Ack, Cx, Decision, Event, EventSet, Limits, ReactionPoint, RpEngine, Signals};
use cc_core::fixed::types::I28F4;
use cc_core::math::{mul_high, ratio};
use cc_core::params::{ParamError, Preset};
use cc_core::{Bytes, Link, Nanos, Rate, Stamp, State};
use parameters::{BLENDS, COUNTS_GRADIENTS, HALF_AT_MOST, SCALED};

/// One flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Timely {
    rate: Rate,
    /// The last sample, never zero; zero before the first.
    prev_rtt: Nanos,
    /// The smoothed difference of consecutive samples, in 1/16 ns.
    rtt_diff: i32,
    /// When the rate was last updated; a wake may replace it by a later time with the same effect.
    updated: Stamp,
    /// Bytes acknowledged since the last update.
    acked: Bytes,
    /// Updates in a row that hyperactive increase counts, at most [`LAST_FALL`].
    falls: u8,
}

const _: () = assert!(RpEngine::<Timely, 1024, 2048>::QP_BYTES <= 64, "a flow has outgrown 64 bytes");

/// `falls` saturates here, at the largest `hai_threshold`.
const LAST_FALL: u8 = 15;
/// The longest sample, in nanoseconds: differences of samples in 1/16 ns, and differences of those, then fit 32 bits.
const LONGEST: u32 = (1 << 26) - 1;
/// The largest fraction, 1 - 2^-32, which stands for 1.
const ONE: u32 = u32::MAX;
/// The fraction bits of `rtt_diff`.
const FINE: u32 = 4;

/// The zone of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Zone {
    /// Below T_low.
    Low,
    /// Between T_low and T_high, with a gradient that is not positive.
    Falling,
    /// Between them, with a positive gradient.
    Rising,
    /// Above T_high.
    High,
}

cc_core::snapshot! {
    /// A flow of TIMELY.
    pub struct TimelySnapshot {
        /// Its rate.
        pub rate: Rate,
        /// The last sample; zero before the first.
        pub prev_rtt: Nanos,
        /// The smoothed difference of consecutive samples, in nanoseconds.
        pub rtt_diff: I28F4,
        /// When the rate was last updated.
        pub updated: Stamp,
        /// Bytes acknowledged since then.
        pub acked: Bytes,
        /// Updates in a row that hyperactive increase counts, at most 15.
        pub falls: u8,
    }
}

impl State for Timely {
    type Snapshot = TimelySnapshot;

    fn snapshot(&self) -> TimelySnapshot {
        TimelySnapshot {
            rate: self.rate,
            prev_rtt: self.prev_rtt,
            rtt_diff: I28F4::from_bits(self.rtt_diff),
            updated: self.updated,
            acked: self.acked,
            falls: self.falls,
        }
    }

    fn from_snapshot(s: TimelySnapshot) -> Self {
        Self {
            rate: s.rate,
            prev_rtt: s.prev_rtt,
            rtt_diff: s.rtt_diff.to_bits(),
            updated: s.updated,
            acked: s.acked,
            falls: s.falls.min(LAST_FALL),
        }
    }
}

impl ReactionPoint for Timely {
    type Settings = TimelySettings;
    type Params = Params;

    const NAME: &'static str = "timely";
    const PRESETS: &'static [Preset<TimelySettings>] = PRESETS;
    const EVENTS: EventSet = EventSet::ACK.with(EventSet::WAKE);
    const SIGNALS: Signals = Signals::DELAY;
    const RECEIVER: Option<&'static str> = Some("echo");
    #[rustfmt::skip]
    const TRANSITIONS: &'static [&'static str] = &[
        "no sample yet, ACK within a segment: its bytes count",
        "no sample yet, ACK with a sample: no gradient, the round-trip time decides",
        "sampled, ACK within a segment: its bytes count",
        "sampled, RTT below T_low: additive increase",
        "sampled, RTT between and gradient not positive: additive increase",
        "sampled, RTT between and gradient not positive after many falls: hyperactive increase",
        "sampled, RTT between and gradient positive: cut by the gradient",
        "sampled, RTT above T_high: cut by the excess",
        "any, wake: the rate stays",
    ];

    fn check(settings: &TimelySettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn limits(params: &Params, _link: &Link) -> Limits {
        Limits { rate: params.floor, window: Bytes::MAX, hold: Nanos::ZERO }
    }

    fn open(cx: &Cx<'_, Params>) -> Self {
        Self {
            rate: cx.params.ceiling,
            prev_rtt: Nanos::ZERO,
            rtt_diff: 0,
            updated: cx.now.stamp(),
            acked: Bytes::ZERO,
            falls: 0,
        }
    }

    fn transition(&self, cx: &Cx<'_, Params>, event: &Event<'_>) -> usize {
        let Event::Ack(ack) = event else { return 8 };
        let mut flow = *self;
        match (flow.last_rtt(), flow.sample(cx.params, ack)) {
            (None, None) => 0,
            (None, Some(_)) => 1,
            (Some(_), None) => 2,
            (Some(_), Some(rtt)) => match flow.follow(cx.params, rtt) {
                Zone::Low => 3,
                Zone::Falling if flow.falls < cx.params.hai_threshold => 4,
                Zone::Falling => 5,
                Zone::Rising => 6,
                Zone::High => 7,
            },
        }
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>) -> Decision {
        match event {
            Event::Ack(ack) => {
                if let Some(rtt) = self.sample(cx.params, ack) {
                    self.update(cx.params, cx.now.stamp(), rtt, true);
                }
            }
            Event::Wake => self.refresh(cx.params, cx.now.stamp()),
            _ => {}
        }
        self.decision()
    }
}

impl Timely {
    /// The rate of the flow.
    #[inline]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// The last sample, if there was one.
    #[inline]
    pub fn last_rtt(&self) -> Option<Nanos> {
        (self.prev_rtt != Nanos::ZERO).then_some(self.prev_rtt)
    }

    /// The smoothed difference of consecutive samples, in 1/16 ns.
    #[inline]
    pub const fn rtt_diff(&self) -> i32 {
        self.rtt_diff
    }

    /// When the rate was last updated; if longer than minRTT ago, possibly minRTT ago.
    #[inline]
    pub const fn updated(&self) -> Stamp {
        self.updated
    }

    /// Data acknowledged since the last update.
    #[inline]
    pub const fn acked(&self) -> Bytes {
        self.acked
    }

    /// Updates in a row that hyperactive increase counts, 0 to 15.
    #[inline]
    pub const fn falls(&self) -> u8 {
        self.falls
    }

    #[inline(always)]
    pub(crate) const fn decision(&self) -> Decision {
        Decision { rate: self.rate, window: Bytes::MAX, hold: Nanos::ZERO, wake_in: Nanos::MAX }
    }

    /// The round-trip time, if this acknowledgement ends a segment and has one.
    #[inline(always)]
    pub(crate) fn sample(&mut self, p: &Params, ack: &Ack<'_>) -> Option<Nanos> {
        if ack.acked == Bytes::ZERO {
            return None;
        }
        self.acked = self.acked.saturating_add(ack.acked);
        if self.acked.get() < p.segment {
            return None;
        }
        let rtt = ack.delay?.network().get().saturating_sub(p.serialisation).min(LONGEST);
        if rtt < p.least {
            return None;
        }
        self.acked = Bytes::ZERO;
        Some(Nanos::new(rtt))
    }

    /// Updates the gradient by a sample, and returns the sample's zone.
    #[inline(always)]
    fn follow(&mut self, p: &Params, rtt: Nanos) -> Zone {
        let mut difference = 0;
        if let Some(prev) = self.last_rtt() {
            difference = rtt.get().wrapping_sub(prev.get()).cast_signed() << FINE;
        }
        self.prev_rtt = rtt;
        self.rtt_diff = smooth(self.rtt_diff, difference, p.weight);
        let counted = if p.has(COUNTS_GRADIENTS) { self.rtt_diff } else { difference };
        self.falls = if counted < 0 { self.falls.wrapping_add(1).min(LAST_FALL) } else { 0 };
        match rtt.get() {
            rtt if rtt < p.low => Zone::Low,
            rtt if rtt > p.high => Zone::High,
            _ if self.rtt_diff <= 0 => Zone::Falling,
            _ => Zone::Rising,
        }
    }

    /// Updates the rate by a sample. Without `may_cut`, a cut leaves the rate as it is.
    #[inline(always)]
    pub(crate) fn update(&mut self, p: &Params, now: Stamp, rtt: Nanos, may_cut: bool) {
        let zone = self.follow(p, rtt);
        let share = self.elapsed(p, now);
        self.updated = now;
        let before = self.rate;
        let rate = match zone {
            Zone::Low => before.saturating_add(part(p.additive, share)),
            Zone::High => cut(before, mul_high(mul_high(p.beta, excess(rtt, p.high)), share)),
            _ if p.has(BLENDS) => {
                let weight = self.weight(p);
                let lost = p.cut.of(rtt.get().wrapping_sub(p.low), mul_high(weight, share));
                cut(before, lost).saturating_add(part(p.additive, mul_high(!weight, share)))
            }
            Zone::Falling => {
                let step = if self.falls < p.hai_threshold { p.additive } else { p.hyper };
                before.saturating_add(part(step, share))
            }
            Zone::Rising => cut(before, p.cut.of(self.rtt_diff.unsigned_abs(), share)),
        };
        let least = match may_cut {
            false => before,
            true if p.has(HALF_AT_MOST) => Rate::from_bits(before.to_bits() >> 1),
            true => Rate::ZERO,
        };
        self.rate = rate.max(least).max(p.floor).min(p.ceiling);
    }

    /// The time since the last update as a share of minRTT.
    #[inline(always)]
    fn elapsed(&self, p: &Params, now: Stamp) -> u32 {
        let elapsed = now.since(self.updated).get();
        if !p.has(SCALED) || elapsed >= p.min_rtt {
            return ONE;
        }
        mul_high(elapsed << p.elapsed_shift, p.per_min_rtt) << 1
    }

    /// Patched TIMELY's w.
    #[inline(always)]
    fn weight(&self, p: &Params) -> u32 {
        const HALF: u32 = 1 << 31;
        let twice = p.gradient.of(self.rtt_diff.unsigned_abs(), ONE).min(HALF >> 1) << 1;
        if self.rtt_diff < 0 { HALF.wrapping_sub(twice) } else { HALF.saturating_add(twice) }
    }

    /// Stores a round-trip time that does not show the path's queues, without changing the rate: the gradient of the next
    /// sample is computed from this one.
    #[inline(always)]
    pub(crate) const fn forget(&mut self, now: Stamp, rtt: Nanos) {
        self.prev_rtt = rtt;
        self.rtt_diff = 0;
        self.falls = 0;
        self.updated = now;
    }

    /// Keeps the 32-bit time of the last update unambiguous: one longer ago than minRTT becomes minRTT ago, which has the
    /// same effect.
    #[inline(always)]
    pub(crate) fn refresh(&mut self, p: &Params, now: Stamp) {
        if now.since(self.updated).get() >= p.min_rtt {
            self.updated = Stamp::from_bits(now.to_bits().wrapping_sub(p.min_rtt));
        }
    }
}

/// Moving average: `old` moved toward `new` by `weight` (in units of 2^-32) of their difference, rounded down.
#[inline(always)]
fn smooth(old: i32, new: i32, weight: u32) -> i32 {
    let apart = i64::from(new.wrapping_sub(old));
    old.wrapping_add((apart.wrapping_mul(weight.into()) >> 32) as i32)
}

/// A rate less this share of it, which is rounded down.
#[inline(always)]
const fn cut(rate: Rate, share: u32) -> Rate {
    Rate::from_bits(rate.to_bits().wrapping_sub(mul_high(rate.to_bits(), share)))
}

/// This fraction of a step, and at least one raw step.
#[inline(always)]
const fn part(step: Rate, share: u32) -> Rate {
    Rate::from_bits(mul_high(step.to_bits(), share).wrapping_add(1))
}

/// `1 - bound / rtt`, for a round-trip time above the bound, which is not zero.
#[inline(always)]
const fn excess(rtt: Nanos, bound: u32) -> u32 {
    ratio(rtt.get().wrapping_sub(bound), rtt.get())
}
