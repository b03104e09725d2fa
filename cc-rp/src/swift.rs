//! Swift at the sender.
//!
//! Gautam Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter", SIGCOMM 2020,
//! algorithm 1 and 3.1 to 3.4; the endpoint window is that of Falcon, by its simulator Isekai.
//!
//! An acknowledgement gives the delay of the fabric: the round-trip time less the time that the receiver held the packet. While
//! it is below the target the fabric window gains `ai` packets a round-trip time, below one packet `ai` for each packet
//! acknowledged. From the target on it loses `beta (delay - target) / delay` of itself, at most `max_mdf` and at most once a
//! round-trip time. The target is higher for paths of more hops, and for smaller windows:
//!
//! `target = base + hops h + clamp(fs_a / sqrt(window) + fs_b, 0, fs_range)`, with
//! `fs_a = fs_range / (1/sqrt(fs_min) - 1/sqrt(fs_max))` and `fs_b = -fs_a / sqrt(fs_max)`.
//!
//! The endpoint window follows the level of the receiver's buffer in the same way: an increment or a cut once a round-trip
//! time, and an increment at once after a cut. The smaller of the two windows is used. If it is a fraction of a packet, the
//! rate enforces it: one packet in `rtt / window`.
//!
//! Losses: a NACK cuts by `max_mdf`, at most once a round-trip time. So does a timeout; from `retransmit_limit` timeouts
//! without progress on, the window is the smallest. The timer is the transport's: here a packet that is sent again without a
//! NACK shows that it expired. A packet farther back than the largest window is of another sequence of numbers (read
//! responses), and shows no timeout.
//!
//! Deviations:
//! - the packets that an acknowledgement counts are its bytes over the largest packet;
//! - a cut counts as a cut only if the window fell. In Isekai it also counts at the window's bound, so that an endpoint
//!   window that has grown to its largest never falls while acknowledgements keep coming;
//! - the rate is window over the smoothed round-trip time whatever the window, never below a packet in `longest_gap`,
//!   and the rate limiter gets a window of at least one packet. Isekai paces fractional windows only, and by the
//!   latest round-trip time;
//! - a flow starts with one bandwidth-delay product, within the bounds, and the smoothed round-trip time at that of the
//!   empty network;
//! - a round-trip time of more than 0.54 s counts as 0.54 s;
//! - increases round down, to no less than a raw step (a millionth of a packet), and the amounts of cuts round down.
//!
//! Late wakes change no decision: there are no timers, and a wake only keeps the times of the last changes unambiguous.

mod parameters;
#[cfg(test)]
mod tests;

pub use parameters::{FALCON, HTSIM, Params, SwiftSettings};

use crate::{Ack, Cx, Decision, Event, EventSet, Limits, ReactionPoint, RpEngine, Signals, TraceValue};
use cc_core::fixed::types::U12F20;
use cc_core::math::{InverseRoot, Reciprocal, mul_high, ratio};
use cc_core::params::{ParamError, Preset};
use cc_core::snapshot::flags;
use cc_core::{Bytes, Delay, Link, Nanos, Psn, Rate, Stamp, State};
use core::hint::cold_path;
use core::num::NonZeroU32;

/// One flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Swift {
    /// fcwnd, in 2^-20 packets.
    fabric: u32,
    /// ncwnd, in 2^-20 packets.
    endpoint: u32,
    /// The smoothed round-trip time, never zero.
    rtt: Nanos,
    /// When the fabric window was last cut; a wake may replace it by a later time with the same effect.
    cut: Stamp,
    /// When the endpoint window last changed; a wake may replace it in the same way.
    turned: Stamp,
    /// The number of the packet sent last in the low 24 bits, timeouts without progress in the four above, then flags.
    sent: u32,
}

const _: () = assert!(RpEngine::<Swift, 1024, 2048>::QP_BYTES <= 64, "a flow has outgrown 64 bytes");

/// One packet in the windows' unit.
const PACKET: u32 = 1 << 20;
/// In `sent`: a packet was sent, so that the number is valid.
const SENDING: u32 = 1 << 31;
/// In `sent`: the last change of the endpoint window was a cut.
const SHRUNK: u32 = 1 << 30;
/// In `sent`: one timeout.
const TIMEOUT: u32 = 1 << 24;
/// In `sent`: the four bits that count timeouts.
const TIMEOUTS: u32 = 15 << 24;
/// The longest round-trip time, in nanoseconds.
const LONGEST: u32 = 1 << 29;
/// Nanoseconds: a change longer ago than any round-trip time is stored as one this long ago.
const LONG_AGO: u32 = 1 << 30;

cc_core::snapshot! {
    /// A flow of Swift.
    pub struct SwiftSnapshot {
        /// fcwnd, in packets.
        pub fabric: U12F20,
        /// ncwnd, in packets.
        pub endpoint: U12F20,
        /// The smoothed round-trip time; 0 is taken for 1 ns.
        pub rtt: Nanos,
        /// When the fabric window was last cut.
        pub cut: Stamp,
        /// When the endpoint window last changed.
        pub turned: Stamp,
        /// The packet sent last, if `has_sent`.
        pub sent: Psn,
        /// Timeouts without progress, at most 15.
        pub timeouts: u8,
        /// The endpoint window has shrunk in this round trip.
        pub has_shrunk: bool,
        /// A packet was sent.
        pub has_sent: bool,
    }
}

impl State for Swift {
    type Snapshot = SwiftSnapshot;

    #[expect(clippy::cast_possible_truncation, reason = "four bits")]
    fn snapshot(&self) -> SwiftSnapshot {
        SwiftSnapshot {
            fabric: U12F20::from_bits(self.fabric),
            endpoint: U12F20::from_bits(self.endpoint),
            rtt: self.rtt,
            cut: self.cut,
            turned: self.turned,
            sent: Psn::new(self.sent),
            timeouts: ((self.sent & TIMEOUTS) >> TIMEOUT.trailing_zeros()) as u8,
            has_shrunk: self.sent & SHRUNK != 0,
            has_sent: self.sent & SENDING != 0,
        }
    }

    fn from_snapshot(s: SwiftSnapshot) -> Self {
        let timeouts = u32::from(s.timeouts.min(15)) << TIMEOUT.trailing_zeros();
        Self {
            fabric: s.fabric.to_bits(),
            endpoint: s.endpoint.to_bits(),
            rtt: s.rtt.max(Nanos::new(1)),
            cut: s.cut,
            turned: s.turned,
            sent: s.sent.get() | timeouts | flags([(s.has_shrunk, SHRUNK), (s.has_sent, SENDING)]),
        }
    }
}

impl ReactionPoint for Swift {
    type Settings = SwiftSettings;
    type Params = Params;

    const NAME: &'static str = "swift";
    const PRESETS: &'static [Preset<SwiftSettings>] = parameters::PRESETS;
    const EVENTS: EventSet = EventSet::SENT.with(EventSet::ACK).with(EventSet::NACK).with(EventSet::WAKE);
    const SIGNALS: Signals = Signals::DELAY;
    const RECEIVER: Option<&'static str> = Some("echo");
    #[rustfmt::skip]
    const TRANSITIONS: &'static [&'static str] = &[
        "any, sent on: its number is kept",
        "few timeouts, sent again without a NACK: a timeout, cut by max_mdf once a round-trip time",
        "timeouts up to the limit, sent again without a NACK: the smallest window",
        "any, ACK without a delay or of nothing new: the windows stay",
        "a packet or more, delay below target: the fabric window gains ai a round-trip time",
        "below a packet, delay below target: the fabric window gains ai a packet",
        "not cut for a round-trip time, delay from target on: the fabric window is cut by the excess",
        "cut within a round-trip time, delay from target on: the fabric window stays",
        "not cut for a round-trip time, NACK: the fabric window is cut by max_mdf",
        "cut within a round-trip time or nothing such sent, NACK: the fabric window stays",
        "any, wake: the windows stay",
    ];

    fn check(settings: &SwiftSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn limits(params: &Params, _link: &Link) -> Limits {
        Limits { rate: params.floor, window: Bytes::new(params.mtu), hold: Nanos::ZERO }
    }

    fn open(cx: &Cx<'_, Params>) -> Self {
        let long_ago = before(cx.now.stamp(), LONG_AGO);
        Self {
            fabric: cx.params.first_window,
            endpoint: cx.params.max_window,
            rtt: cx.params.first_rtt,
            cut: long_ago,
            turned: long_ago,
            sent: 0,
        }
    }

    fn transition(&self, cx: &Cx<'_, Params>, event: &Event<'_>) -> usize {
        let (p, now) = (cx.params, cx.now.stamp());
        match event {
            Event::Sent { psn, .. } if !self.was_sent(p, *psn) => 0,
            Event::Sent { .. } if u32::from(self.timeouts()).wrapping_add(1) < p.retransmit_limit => 1,
            Event::Sent { .. } => 2,
            Event::Ack(ack) => {
                match sample(ack) {
                    None => 3,
                    Some(delay) if delay.network() < target(p, root(self.fabric), delay.hops) => {
                        if self.fabric >= PACKET { 4 } else { 5 }
                    }
                    Some(delay) if self.may_cut(now, delay.rtt) => 6,
                    Some(_) => 7,
                }
            }
            Event::Nack { psn } if self.was_sent(p, *psn) && self.may_cut(now, self.rtt) => 8,
            Event::Nack { .. } => 9,
            _ => 10,
        }
    }

    fn trace_values(&self, _: &Params, show: &mut dyn FnMut(TraceValue)) {
        show(TraceValue { name: "fcwnd", bits: self.fabric, fraction_bits: 20 });
        show(TraceValue { name: "ncwnd", bits: self.endpoint, fraction_bits: 20 });
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>) -> Decision {
        let (p, now) = (cx.params, cx.now.stamp());
        match event {
            Event::Sent { psn, .. } => self.sent(p, now, *psn),
            Event::Ack(ack) => self.acknowledged(p, now, ack),
            Event::Nack { psn } => self.refused(p, now, *psn),
            Event::Wake => self.refresh(now),
            Event::Cnp { .. } | Event::SwitchInt { .. } => {}
        }
        self.decision(p)
    }
}

impl Swift {
    /// The fabric window, in 2^-20 packets.
    #[inline]
    pub const fn fabric_window(&self) -> u32 {
        self.fabric
    }

    /// The endpoint window, in 2^-20 packets.
    #[inline]
    pub const fn endpoint_window(&self) -> u32 {
        self.endpoint
    }

    /// The smoothed round-trip time.
    #[inline]
    pub const fn smoothed_rtt(&self) -> Nanos {
        self.rtt
    }

    /// When the fabric window was last cut; if longer than 1.07 s ago, possibly 1.07 s ago.
    #[inline]
    pub const fn last_cut(&self) -> Stamp {
        self.cut
    }

    /// When the endpoint window last changed, and whether that was a cut; if longer than 1.07 s ago, possibly 1.07 s ago.
    #[inline]
    pub const fn last_turn(&self) -> (Stamp, bool) {
        (self.turned, self.sent & SHRUNK != 0)
    }

    /// The packet sent last, or the one before the packet that a later NACK requests; `None` if none was sent.
    #[inline]
    pub fn newest(&self) -> Option<Psn> {
        (self.sent & SENDING != 0).then_some(Psn::new(self.sent))
    }

    /// Timeouts without progress, at most 15.
    #[inline]
    pub const fn timeouts(&self) -> u8 {
        ((self.sent & TIMEOUTS) >> 24) as u8
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a window is less than 2^26 bytes")]
    fn decision(&self, p: &Params) -> Decision {
        let window = self.fabric.min(self.endpoint);
        // In units of 2^-20 bytes: less than 2^12 packets of less than 2^14 bytes.
        let bytes = u64::from(window).wrapping_mul(p.mtu.into());
        Decision {
            rate: rate(bytes, window < PACKET, self.rtt).max(p.floor).min(p.line),
            window: Bytes::new(((bytes >> 20) as u32).max(p.mtu)),
            hold: Nanos::ZERO,
            wake_in: Nanos::MAX,
        }
    }

    // Acknowledgements.

    #[inline(always)]
    fn acknowledged(&mut self, p: &Params, now: Stamp, ack: &Ack<'_>) {
        if ack.acked != Bytes::ZERO {
            self.sent &= !TIMEOUTS;
        }
        let Some(delay) = sample(ack) else { return };
        let root = root(self.fabric);
        let target = target(p, root, delay.hops);
        let fabric = delay.network();
        if fabric < target {
            self.grow(p, ack.acked, root);
        } else if self.may_cut(now, delay.rtt) {
            let share = mul_high(p.beta, excess(fabric.get(), target.get())).min(p.max_mdf);
            self.cut_by(p, now, share);
        }
        self.turn_endpoint(p, now, &delay);
        self.rtt = Nanos::new(smooth(self.rtt.get(), delay.rtt.get(), p.weight));
    }

    #[inline(always)]
    fn may_cut(&self, now: Stamp, rtt: Nanos) -> bool {
        now.since(self.cut) >= rtt
    }

    /// Additive increase.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "tested just before")]
    fn grow(&mut self, p: &Params, acked: Bytes, root: InverseRoot) {
        let gain = u64::from(acked.get()).wrapping_mul(p.gain.into()) >> 14;
        let mut gain = if gain > u64::from(u32::MAX) { u32::MAX } else { gain as u32 };
        if self.fabric >= PACKET {
            // One over the window is one over its root, squared; that exponent is 10 to 15.
            let inverse = mul_high(root.mantissa(), root.mantissa());
            gain = mul_high(gain, inverse) >> (u32::from(root.exponent()) << 1).wrapping_sub(20);
        }
        self.fabric = self.fabric.saturating_add(gain.max(1)).min(p.max_window);
    }

    /// Multiplicative decrease.
    #[inline(always)]
    fn cut_by(&mut self, p: &Params, now: Stamp, share: u32) {
        let fabric = less(self.fabric, share).max(p.min_window);
        if fabric < self.fabric {
            self.cut = now;
        }
        self.fabric = fabric;
    }

    /// Updates the endpoint window by the level of the receiver's buffer.
    #[inline(always)]
    fn turn_endpoint(&mut self, p: &Params, now: Stamp, delay: &Delay) {
        let (level, target) = (u32::from(delay.rx_buffer_level), p.endpoint_target);
        if target == 0 || (level < target && self.endpoint >= p.max_window) {
            return;
        }
        cold_path();
        let settled = now.since(self.turned) >= delay.rtt;
        if level < target {
            if settled || self.sent & SHRUNK != 0 {
                self.endpoint = self.endpoint.saturating_add(p.endpoint_increment).min(p.max_window);
                self.turned = now;
                self.sent &= !SHRUNK;
            }
        } else if settled {
            let share = mul_high(p.endpoint_beta, excess(level, target)).min(p.endpoint_max_mdf);
            let endpoint = less(self.endpoint, share).max(PACKET);
            if endpoint < self.endpoint {
                self.turned = now;
                self.sent |= SHRUNK;
            }
            self.endpoint = endpoint;
        }
    }

    // Losses.

    /// Whether this is the packet sent last, or one before it by less than the largest window.
    #[inline(always)]
    fn was_sent(&self, p: &Params, psn: Psn) -> bool {
        self.newest().is_some_and(|newest| newest.since(psn) < p.max_packets)
    }

    #[inline(always)]
    fn sent(&mut self, p: &Params, now: Stamp, psn: Psn) {
        if self.was_sent(p, psn) {
            self.time_out(p, now);
        }
        self.sent = (self.sent & (TIMEOUTS | SHRUNK)) | SENDING | psn.get();
    }

    #[cold]
    fn time_out(&mut self, p: &Params, now: Stamp) {
        if self.sent & TIMEOUTS != TIMEOUTS {
            self.sent = self.sent.wrapping_add(TIMEOUT);
        }
        if u32::from(self.timeouts()) >= p.retransmit_limit {
            self.fabric = p.min_window;
            self.cut = now;
        } else {
            self.lose(p, now);
        }
    }

    /// A NACK: the packets from `psn` on are sent again.
    #[cold]
    fn refused(&mut self, p: &Params, now: Stamp, psn: Psn) {
        if self.was_sent(p, psn) {
            self.sent = (self.sent & !Psn::new(u32::MAX).get()) | psn.plus(u32::MAX).get();
            self.lose(p, now);
        }
    }

    /// Cuts the fabric window for a loss, at most once a round-trip time.
    fn lose(&mut self, p: &Params, now: Stamp) {
        if self.may_cut(now, self.rtt) {
            self.cut_by(p, now, p.max_mdf);
        }
    }

    /// Keeps 32-bit times unambiguous: replaces one long ago by a later one that has the same effect.
    #[inline(always)]
    fn refresh(&mut self, now: Stamp) {
        for time in [&mut self.cut, &mut self.turned] {
            if now.since(*time).get() > LONG_AGO {
                *time = before(now, LONG_AGO);
            }
        }
    }
}

/// The delay sample of an acknowledgement, if it acknowledges new bytes.
#[inline(always)]
fn sample(ack: &Ack<'_>) -> Option<Delay> {
    let delay = ack.delay?;
    let rtt = delay.rtt.min(Nanos::new(LONGEST));
    (rtt != Nanos::ZERO && ack.acked != Bytes::ZERO).then_some(Delay { rtt, ..delay })
}

/// The target delay, from which on the fabric window is cut. `root` is one over the square root of that window.
#[inline(always)]
fn target(p: &Params, root: InverseRoot, hops: u8) -> Nanos {
    let scaling = mul_high(per_root(root).saturating_sub(p.fs_least), p.fs_slope).min(p.fs_range);
    let path = u32::from(hops).wrapping_mul(p.hop_scaling);
    Nanos::new(p.base_target.wrapping_add(path).wrapping_add(scaling))
}

/// The rate that sends `bytes`, in units of 2^-20 bytes, in a round-trip time; saturates. `few`: they are less than a packet,
/// so that more fraction bits fit.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a packet is less than 2^14 bytes, a window less than 2^26")]
fn rate(bytes: u64, few: bool, rtt: Nanos) -> Rate {
    // In units of 2^-18 bytes, or of 2^-6 bytes.
    let (bytes, shift) = if few { ((bytes >> 2) as u32, 6) } else { ((bytes >> 14) as u32, 18) };
    let reciprocal = reciprocal(rtt.get());
    let digits = mul_high(bytes, reciprocal.mantissa());
    let exponent = u32::from(reciprocal.exponent());
    if exponent >= shift {
        return Rate::from_bits(digits >> exponent.wrapping_sub(shift));
    }
    let up = shift.wrapping_sub(exponent);
    if digits >> 32u32.wrapping_sub(up) == 0 { Rate::from_bits(digits << up) } else { Rate::MAX }
}

#[inline(always)]
const fn root(window: u32) -> InverseRoot {
    match NonZeroU32::new(window) {
        Some(window) => InverseRoot::of(window),
        None => InverseRoot::of(NonZeroU32::MIN),
    }
}

/// `1 / sqrt(window)` with 26 fraction bits and the window in packets; for windows of at least 2^-12 packets.
#[inline(always)]
const fn per_root(root: InverseRoot) -> u32 {
    root.mantissa() >> (root.exponent() as u32).saturating_sub(4)
}

/// `1 - bound / value`; zero where the value is not above the bound, which is not zero.
#[inline(always)]
fn excess(value: u32, bound: u32) -> u32 {
    ratio(value.saturating_sub(bound), value)
}

#[inline(always)]
const fn reciprocal(value: u32) -> Reciprocal {
    match NonZeroU32::new(value) {
        Some(value) => Reciprocal::of(value),
        None => Reciprocal::of(NonZeroU32::MIN),
    }
}

/// Moving average: `old` moved toward `new` by `weight` (in units of 2^-32) of their difference, rounded down; at least 1. Both
/// are below 2^31.
#[inline(always)]
fn smooth(old: u32, new: u32, weight: u32) -> u32 {
    let apart = i64::from(new.wrapping_sub(old).cast_signed());
    old.wrapping_add_signed((apart.wrapping_mul(weight.into()) >> 32) as i32).max(1)
}

/// A value less this share of it, which is rounded down.
#[inline(always)]
const fn less(value: u32, share: u32) -> u32 {
    value.wrapping_sub(mul_high(value, share))
}

/// The time this many nanoseconds before another.
#[inline(always)]
const fn before(time: Stamp, nanos: u32) -> Stamp {
    Stamp::from_bits(time.to_bits().wrapping_sub(nanos))
}
