//! PowerTCP with in-band telemetry at the sender.
//!
//! Vamsi Addanki, Oliver Michel, Stefan Schmid: "PowerTCP: Pushing the Performance Limits of Datacenter Networks", NSDI 2022,
//! Algorithm 1. A link's power is its arrival rate (current) times its queue plus bandwidth-delay product (voltage). Divided by
//! the power of a fully used link without a queue, it shows how far the window is from the right size, before the length of the
//! queue does:
//!
//! ```text
//! lambda  = (qlen - prev.qlen + txBytes - prev.txBytes) / dt, not below zero     current, of each hop
//! nu      = qlen + B tau                                                        voltage
//! G       = lambda nu / (B^2 tau), at its largest                               normalised power
//! Gamma   = (Gamma (tau - dt) + G dt) / tau                                     smoothed, dt at most tau
//! cwnd    = gamma (cwnd_old / Gamma + beta) + (1 - gamma) cwnd                   at most B_nic tau
//! rate    = cwnd / tau
//! cwnd_old                                                                     cwnd a round trip ago
//! ```
//!
//! Choices where the paper is silent:
//! - see [`hops`](cc_core::hops) for what is measured. If no hop can be measured, nothing changes;
//! - G is `(lambda / B) (1 + qlen / (B tau))`, two shares multiplied, so that no square of a speed is ever formed; each is cut
//!   at 16 and so is G, and G is at least 2^-10, as in the authors' Linux module;
//! - the first smoothed power is the first sample;
//! - where telemetry counts bytes that arrived at the queue ([`Hop::RECEIVED`](cc_core::Hop::RECEIVED)), their rate is the
//!   current;
//! - `cwnd_old` is a single value. It is set to cwnd once a round trip, after the update by the acknowledgement that ends the
//!   round trip (UPDATEOLD), so that a flow needs no memory for each packet in flight;
//! - acknowledgements behind the latest, or ahead of what was sent, are not used; a NACK moves the mark of the round trip back;
//! - the least window is what the least rate sends in a round trip; the rate limiter gets a window of at least one packet;
//! - acknowledgements without telemetry that can be measured, for `no_int_rtts` round trips in a row, halve cwnd, as in
//!   [`hpcc`](crate::hpcc).
//!
//! Late wakes change no decision: there are no timers, and a wake only discards telemetry that is too old to compare with.

mod parameters;
#[cfg(test)]
mod tests;

pub use parameters::{LINUX, PAPER, Params, PowerTcpSettings};

pub(crate) use parameters::PRESETS;

use crate::{Ack, Cx, Decision, Event, EventSet, Limits, ReactionPoint, Signals, TraceValue};
use cc_core::fixed::types::U8F24;
use cc_core::hops::{FINE, HopDelta, Hops, HopsSnapshot, Unmeasured};
use cc_core::hpcc::{divided, smooth};
use cc_core::params::{ParamError, Preset};
use cc_core::{Bytes, Link, Nanos, Psn, State};

/// Window and power: the part of the state that PowerTCP and theta-PowerTCP share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Window {
    /// cwnd, in bytes.
    pub(crate) now: u32,
    /// cwnd_old, in bytes.
    pub(crate) old: u32,
    /// Gamma, 2^24 being one; 0 before the first sample, since no sample is 0.
    pub(crate) power: u32,
    /// The last packet sent.
    sent: Psn,
    /// The last packet sent when `old` was set.
    mark: Psn,
}

/// Lower bound of the power: 2^-10.
const LEAST: u32 = 1 << (FINE - 10);
/// Upper bound of the power: 16.
const MOST: u32 = 16 << FINE;

impl Window {
    pub(crate) fn open(p: &Params) -> Self {
        Self { now: p.most_window, old: p.most_window, power: 0, sent: Psn::new(0), mark: Psn::new(0) }
    }

    /// cwnd.
    pub const fn bytes(&self) -> Bytes {
        Bytes::new(self.now)
    }

    /// cwnd_old.
    pub const fn old(&self) -> Bytes {
        Bytes::new(self.old)
    }

    /// Gamma, one being 2^24; `None` before the first sample.
    pub fn power(&self) -> Option<u32> {
        (self.power != 0).then_some(self.power)
    }

    #[inline(always)]
    pub(crate) fn decision(&self, p: &Params) -> Decision {
        let window = Bytes::new(self.now.max(p.mtu));
        Decision { rate: p.rate(self.now), window, hold: Nanos::ZERO, wake_in: Nanos::MAX }
    }

    #[inline(always)]
    pub(crate) const fn sent(&mut self, psn: Psn) {
        self.sent = psn;
    }

    /// Whether an acknowledgement is of a packet that was not sent.
    #[inline(always)]
    pub(crate) fn is_ahead(&self, psn: Psn) -> bool {
        psn.is_after(self.sent)
    }

    /// Whether this acknowledges the last packet sent when `old` was set, and so ends the round trip.
    #[inline(always)]
    pub(crate) fn is_over(&self, psn: Psn) -> bool {
        psn.has_passed(self.mark)
    }

    /// Begins a round trip, which ends when the last packet sent so far is acknowledged.
    #[inline(always)]
    pub(crate) const fn begin_trip(&mut self) {
        self.mark = self.sent;
    }

    /// Smooths the power G that was measured over `time`, and updates the window by it.
    #[inline(always)]
    pub(crate) fn update(&mut self, p: &Params, power: u32, time: u32) {
        let power = power.clamp(LEAST, MOST);
        let smoothed = if self.power == 0 { power } else { smooth(&p.base, self.power, power, time) };
        self.power = smoothed.max(LEAST);
        let called = divided(self.old, 1 << FINE, self.power).min(p.most_window << 1).saturating_add(p.beta);
        let gained = i64::from(called).wrapping_sub(self.now.into()).wrapping_mul(p.gamma.into()) >> 16;
        let window = u32::try_from(i64::from(self.now).wrapping_add(gained)).unwrap_or(0);
        self.now = window.max(p.least_window).min(p.most_window);
    }

    /// UPDATEOLD, called after the update by an acknowledgement with which a round trip is over.
    #[inline(always)]
    pub(crate) const fn update_old(&mut self) {
        self.old = self.now;
        self.begin_trip();
    }

    /// Halves cwnd, or cwnd_old if that is less, and begins with that as both.
    fn halve(&mut self, p: &Params) {
        self.now = (self.now.min(self.old) >> 1).max(p.least_window);
        self.old = self.now;
    }

    /// Go-back-N: packets from `psn` on are sent again.
    #[cold]
    pub(crate) fn rewind(&mut self, psn: Psn) {
        let before = psn.plus(0x00ff_ffff);
        for mark in [&mut self.sent, &mut self.mark] {
            if mark.is_after(before) {
                *mark = before;
            }
        }
    }
}

/// One flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PowerTcp<const HOPS: usize> {
    /// prevInt.
    last: Hops<HOPS>,
    window: Window,
    /// The last packet acknowledged.
    acked: Psn,
    /// A packet was sent, so that the sequence numbers of `window` are valid.
    has_sent: bool,
    /// A packet was acknowledged, so that `acked` is valid.
    has_acked: bool,
    /// Round trips in a row without telemetry that could be measured, since cwnd was halved for that.
    blind: u8,
}

/// With room for five hops.
pub type PowerTcp5 = PowerTcp<5>;

/// How an acknowledgement is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// It is old, or acknowledges what was not sent.
    Nothing,
    /// It has no telemetry, or that overflowed.
    Progress,
    /// There is no telemetry to compare its telemetry with: it is stored.
    Store,
    /// It updates the window.
    Window,
}

cc_core::snapshot! {
    /// The window of PowerTCP and theta-PowerTCP.
    pub struct WindowSnapshot {
        /// cwnd.
        pub now: Bytes,
        /// cwnd_old.
        pub old: Bytes,
        /// Gamma, zero before the first sample.
        pub power: U8F24,
        /// The last packet sent.
        pub sent: Psn,
        /// The last packet sent when `old` was set.
        pub mark: Psn,
    }
}

impl State for Window {
    type Snapshot = WindowSnapshot;

    fn snapshot(&self) -> WindowSnapshot {
        WindowSnapshot {
            now: Bytes::new(self.now),
            old: Bytes::new(self.old),
            power: U8F24::from_bits(self.power),
            sent: self.sent,
            mark: self.mark,
        }
    }

    fn from_snapshot(s: WindowSnapshot) -> Self {
        Self { now: s.now.get(), old: s.old.get(), power: s.power.to_bits(), sent: s.sent, mark: s.mark }
    }
}

cc_core::snapshot! {
    /// A flow of PowerTCP.
    pub struct PowerTcpSnapshot<const HOPS: usize> {
        /// prevInt.
        pub last: HopsSnapshot<HOPS>,
        /// Its window.
        pub window: WindowSnapshot,
        /// The last packet acknowledged, if `has_acked`.
        pub acked: Psn,
        /// A packet was sent.
        pub has_sent: bool,
        /// A packet was acknowledged.
        pub has_acked: bool,
        /// Round trips in a row without telemetry that could be measured, since cwnd was halved for that.
        pub blind: u8,
    }
}

impl<const HOPS: usize> State for PowerTcp<HOPS> {
    type Snapshot = PowerTcpSnapshot<HOPS>;

    fn snapshot(&self) -> PowerTcpSnapshot<HOPS> {
        PowerTcpSnapshot {
            last: self.last.snapshot(),
            window: self.window.snapshot(),
            acked: self.acked,
            has_sent: self.has_sent,
            has_acked: self.has_acked,
            blind: self.blind,
        }
    }

    fn from_snapshot(s: PowerTcpSnapshot<HOPS>) -> Self {
        Self {
            last: Hops::from_snapshot(s.last),
            window: Window::from_snapshot(s.window),
            acked: s.acked,
            has_sent: s.has_sent,
            has_acked: s.has_acked,
            blind: s.blind,
        }
    }
}

impl<const HOPS: usize> ReactionPoint for PowerTcp<HOPS> {
    type Settings = PowerTcpSettings;
    type Params = Params;

    const NAME: &'static str = "powertcp";
    const PRESETS: &'static [Preset<PowerTcpSettings>] = PRESETS;
    const EVENTS: EventSet = EventSet::SENT.with(EventSet::ACK).with(EventSet::NACK).with(EventSet::WAKE);
    const SIGNALS: Signals = Signals::INT;
    const RECEIVER: Option<&'static str> = Some("echo");
    #[rustfmt::skip]
    const TRANSITIONS: &'static [&'static str] = &[
        "any, sent: the packet counts as in flight",
        "any, ACK without telemetry, overflowed, old, or of what was not sent: the window stays",
        "any, ACK whose telemetry has nothing to be compared with: it is stored",
        "no power yet, ACK: the power is the sample, the window follows",
        "before a round trip is over, ACK: the window follows the smoothed power from cwnd_old",
        "a round trip over, ACK: likewise, and cwnd becomes cwnd_old",
        "any, NACK: what is sent again is no longer in flight",
        "any, wake: telemetry too old to compare with is discarded",
        "the last of no_int_rtts round trips over, ACK without telemetry to measure: cwnd and cwnd_old are halved",
    ];

    fn check(settings: &PowerTcpSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn limits(params: &Params, _link: &Link) -> Limits {
        Limits { rate: params.floor, window: Bytes::new(params.mtu), hold: Nanos::ZERO }
    }

    fn transition(&self, cx: &Cx<'_, Params>, event: &Event<'_>) -> usize {
        match event {
            Event::Sent { .. } => 0,
            Event::Ack(ack) => match self.use_of(cx, ack) {
                _ if { *self }.acknowledged(cx, ack) => 8,
                Use::Nothing | Use::Progress => 1,
                Use::Store => 2,
                Use::Window if self.window.power().is_none() => 3,
                Use::Window if self.blind == 0 && !self.window.is_over(ack.psn) => 4,
                Use::Window => 5,
            },
            Event::Nack { .. } => 6,
            _ => 7,
        }
    }

    fn open(cx: &Cx<'_, Params>) -> Self {
        Self {
            last: Hops::none(cx.now.stamp()),
            window: Window::open(cx.params),
            acked: Psn::new(0),
            has_sent: false,
            has_acked: false,
            blind: 0,
        }
    }

    #[inline(always)]
    fn unmeasured(&self, _: EventSet) -> Unmeasured {
        self.last.unmeasured()
    }

    fn trace_values(&self, _: &Params, show: &mut dyn FnMut(TraceValue)) {
        show(TraceValue { name: "power", bits: self.window.power, fraction_bits: 24 });
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>) -> Decision {
        match event {
            Event::Sent { psn, .. } => {
                self.window.sent(*psn);
                if !self.has_sent {
                    self.has_sent = true;
                    self.window.begin_trip();
                }
            }
            Event::Ack(ack) => {
                self.acknowledged(cx, ack);
            }
            Event::Nack { psn } if self.has_sent => self.window.rewind(*psn),
            Event::Nack { .. } => {}
            _ => self.last.age(&cx.params.base, cx.now.stamp()),
        }
        self.window.decision(cx.params)
    }
}

impl<const HOPS: usize> PowerTcp<HOPS> {
    /// Window and power.
    pub const fn window(&self) -> &Window {
        &self.window
    }

    #[inline(always)]
    fn use_of(&self, cx: &Cx<'_, Params>, ack: &Ack<'_>) -> Use {
        let old = self.has_acked && self.acked.is_after(ack.psn);
        if old || !self.has_sent || self.window.is_ahead(ack.psn) {
            Use::Nothing
        } else if ack.int.is_empty() {
            Use::Progress
        } else if self.last.matches(&cx.params.base, cx.now.stamp(), &ack.int) {
            Use::Window
        } else {
            Use::Store
        }
    }

    /// NEWACK; returns whether cwnd was halved.
    #[inline(always)]
    fn acknowledged(&mut self, cx: &Cx<'_, Params>, ack: &Ack<'_>) -> bool {
        let what = self.use_of(cx, ack);
        if what == Use::Nothing {
            self.last.skip(Unmeasured::MISORDERED);
            return false;
        }
        (self.acked, self.has_acked) = (ack.psn, true);
        match what {
            Use::Window => {
                if let Some((power, time)) = self.norm_power(cx, ack) {
                    self.window.update(cx.params, power, time);
                    if self.blind > 0 || self.window.is_over(ack.psn) {
                        self.window.update_old();
                    }
                    self.blind = 0;
                    return false;
                }
            }
            Use::Store => self.last.store(&cx.params.base, cx.now.stamp(), &ack.int),
            _ => self.last.skip_empty(&ack.int),
        }
        self.unmeasured_until(cx.params, ack.psn)
    }

    /// An acknowledgement without telemetry that could be measured: counts round trips of such, and after `no_int_rtts` in a row
    /// halves cwnd, and returns `true`.
    #[cold]
    #[inline(never)]
    fn unmeasured_until(&mut self, p: &Params, psn: Psn) -> bool {
        if p.no_int_rtts == 0 || !self.last.unmeasured().is_fault() || !self.window.is_over(psn) {
            return false;
        }
        self.window.begin_trip();
        self.blind = self.blind.saturating_add(1);
        if self.blind < p.no_int_rtts {
            return false;
        }
        self.blind = 0;
        self.window.halve(p);
        true
    }

    /// NORMPOWER: the largest G and its dt.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "cut to 16")]
    fn norm_power(&mut self, cx: &Cx<'_, Params>, ack: &Ack<'_>) -> Option<(u32, u32)> {
        let base = &cx.params.base;
        let mut most = None;
        self.last.compare(base, cx.now.stamp(), &ack.int, |hop: &HopDelta| {
            let grown =
                if hop.received { hop.bytes } else { hop.bytes.saturating_add(hop.after).saturating_sub(hop.before) };
            let current = hop.share(grown);
            let voltage = base.fraction_of_rtt(hop.after, hop.per_byte).wrapping_add(1 << FINE);
            let power = u64::from(current).wrapping_mul(u64::from(voltage)) >> FINE;
            let power = if power > u64::from(MOST) { MOST } else { power as u32 };
            if most.is_none_or(|(most, _)| power > most) {
                most = Some((power, hop.elapsed));
            }
        });
        most
    }
}
