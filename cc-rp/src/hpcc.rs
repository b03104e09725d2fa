//! HPCC at the sender.
//!
//! Yuliang Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, Algorithm 1, whose names are used here. Each
//! acknowledgement carries the telemetry of every switch on the path; the busiest link determines the window W, the number of
//! bytes that the flow may have in flight:
//!
//! ```text
//! u  = min(qlen, L.qlen) / (B T) + (txBytes - L.txBytes) / (dt B)     of the hop where it is largest, tau = dt there
//! U  = (1 - tau / T) U + (tau / T) u                                 tau at most T
//! W  = Wc / (U / eta) + W_AI      when U >= eta or incStage >= maxStage
//! W  = Wc + W_AI                  otherwise, and incStage counts
//! Wc = W                          once a round trip: when what was sent at the last such update is acknowledged
//! R  = W / T
//! ```
//!
//! Choices where the paper is silent or its public code differs:
//! - U begins at eta, so that the first update is W_AI and no more, unless `initial_u` is set; W never exceeds W_init = B_nic T;
//! - see [`hops`](cc_core::hops) for what is measured. If no hop can be measured, neither W nor Wc changes;
//! - an acknowledgement behind the latest is old, and one ahead of what was sent belongs to another flow: neither is used;
//! - a flag shows whether the sequence number of the last update is valid, since 0 is a valid number. One that is more than
//!   2^22 packets from the acknowledgement can no longer be compared, and counts as acknowledged;
//! - a NACK moves that number back together with the next one to be sent, so that updates go on after go-back-N;
//! - eta is rounded to a multiple of 2^-16, so that U = eta gives W = Wc + W_AI exactly;
//! - the least window is what the least rate sends in T; the window passed to the rate limiter is at least one packet;
//! - acknowledgements without telemetry that can be measured, for `no_int_rtts` round trips in a row, halve W and Wc: the sender
//!   is blind, and each such period without feedback halves the rate of TFRC as well (RFC 5348, section 4.4), down to the
//!   least window. The first measurement ends this, and updates Wc.
//!
//! `HOPS` is the number of hops of the longest path; each takes 12 bytes of state. Telemetry of a longer path is not used.
//!
//! Late wakes change no decision: there are no timers, and a wake only discards telemetry that is too old to compare with.

mod parameters;
#[cfg(test)]
mod tests;

pub use parameters::{DRAFT, HPCC_SIM, HpccSettings, LSCC, Params};

pub(crate) use parameters::NO_INT_RTTS;

use crate::{Ack, Cx, Decision, Event, EventSet, Limits, ReactionPoint, Signals, TraceValue};
use cc_core::fixed::types::U8F24;
use cc_core::hops::{Hops, HopsSnapshot, Unmeasured};
use cc_core::hpcc::{divided, inflight};
use cc_core::params::{ParamError, Preset};
use cc_core::snapshot::flags;
use cc_core::{Bytes, Link, Nanos, Psn, State};

/// One flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Hpcc<const HOPS: usize> {
    /// L.
    last: Hops<HOPS>,
    /// W, in bytes.
    window: u32,
    /// W^c, in bytes.
    reference: u32,
    /// U, one being 2^24.
    utilisation: u32,
    /// The last packet sent.
    sent: Psn,
    /// The last packet acknowledged.
    acked: Psn,
    /// The last packet sent at the last update of the reference window.
    updated: Psn,
    /// incStage.
    stage: u8,
    /// Round trips in a row without telemetry that could be measured, since W was halved for that.
    blind: u8,
    flags: u8,
}

/// With room for five hops.
pub type Hpcc5 = Hpcc<5>;

/// `sent` is known.
const SENT: u8 = 1;
/// `acked` is known.
const ACKED: u8 = 1 << 1;
/// `updated` is known.
const UPDATED: u8 = 1 << 2;

/// How an acknowledgement is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// It is old, or acknowledges what was not sent.
    Nothing,
    /// It has no telemetry, or that overflowed.
    Progress,
    /// There is no telemetry to compare its telemetry with: it is stored.
    Store,
    /// It updates W.
    Window,
    /// It updates W and Wc.
    Reference,
}

cc_core::snapshot! {
    /// A flow of HPCC.
    pub struct HpccSnapshot<const HOPS: usize> {
        /// L.
        pub last: HopsSnapshot<HOPS>,
        /// W.
        pub window: Bytes,
        /// W^c.
        pub reference: Bytes,
        /// U.
        pub utilisation: U8F24,
        /// The last packet sent, if `has_sent`.
        pub sent: Psn,
        /// The last packet acknowledged, if `has_acked`.
        pub acked: Psn,
        /// The last packet sent at the last update of the reference window, if `has_updated`.
        pub updated: Psn,
        /// incStage.
        pub stage: u8,
        /// Round trips in a row without telemetry that could be measured, since W was halved for that.
        pub blind: u8,
        /// A packet was sent.
        pub has_sent: bool,
        /// A packet was acknowledged.
        pub has_acked: bool,
        /// The reference window was updated.
        pub has_updated: bool,
    }
}

impl<const HOPS: usize> State for Hpcc<HOPS> {
    type Snapshot = HpccSnapshot<HOPS>;

    fn snapshot(&self) -> HpccSnapshot<HOPS> {
        HpccSnapshot {
            last: self.last.snapshot(),
            window: Bytes::new(self.window),
            reference: Bytes::new(self.reference),
            utilisation: U8F24::from_bits(self.utilisation),
            sent: self.sent,
            acked: self.acked,
            updated: self.updated,
            stage: self.stage,
            blind: self.blind,
            has_sent: self.has(SENT),
            has_acked: self.has(ACKED),
            has_updated: self.has(UPDATED),
        }
    }

    fn from_snapshot(s: HpccSnapshot<HOPS>) -> Self {
        Self {
            last: Hops::from_snapshot(s.last),
            window: s.window.get(),
            reference: s.reference.get(),
            utilisation: s.utilisation.to_bits(),
            sent: s.sent,
            acked: s.acked,
            updated: s.updated,
            stage: s.stage,
            blind: s.blind,
            flags: flags([(s.has_sent, SENT), (s.has_acked, ACKED), (s.has_updated, UPDATED)]),
        }
    }
}

impl<const HOPS: usize> ReactionPoint for Hpcc<HOPS> {
    type Settings = HpccSettings;
    type Params = Params;

    const NAME: &'static str = "hpcc";
    const PRESETS: &'static [Preset<HpccSettings>] = parameters::PRESETS;
    const EVENTS: EventSet = EventSet::SENT.with(EventSet::ACK).with(EventSet::NACK).with(EventSet::WAKE);
    const SIGNALS: Signals = Signals::INT;
    const RECEIVER: Option<&'static str> = Some("echo");
    #[rustfmt::skip]
    const TRANSITIONS: &'static [&'static str] = &[
        "any, sent: the packet counts as in flight",
        "any, ACK without telemetry, overflowed, old, or of what was not sent: the window stays",
        "any, ACK whose telemetry has nothing to be compared with: it is stored",
        "before a round trip is over, ACK: W follows U from Wc",
        "a round trip over, ACK, U below eta and stages left: W = Wc + W_AI, which is the new Wc",
        "a round trip over, ACK, U at eta or no stage left: W = Wc eta / U + W_AI, which is the new Wc",
        "any, NACK: what is sent again is no longer in flight",
        "any, wake: telemetry too old to compare with is discarded",
        "the last of no_int_rtts round trips over, ACK without telemetry to measure: W and Wc are halved",
    ];

    fn check(settings: &HpccSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn limits(params: &Params, _link: &Link) -> Limits {
        Limits { rate: params.floor, window: Bytes::new(params.mtu), hold: Nanos::ZERO }
    }

    fn transition(&self, cx: &Cx<'_, Params>, event: &Event<'_>) -> usize {
        match event {
            Event::Sent { .. } => 0,
            Event::Ack(ack) => {
                let mut flow = *self;
                let halved = flow.acknowledged(cx, ack);
                match self.use_of(cx, ack) {
                    _ if halved => 8,
                    Use::Nothing | Use::Progress => 1,
                    Use::Store => 2,
                    Use::Window => 3,
                    Use::Reference => {
                        let mut flow = *self;
                        flow.measure(cx, ack);
                        if flow.must_cut(cx.params) { 5 } else { 4 }
                    }
                }
            }
            Event::Nack { .. } => 6,
            _ => 7,
        }
    }

    fn open(cx: &Cx<'_, Params>) -> Self {
        let p = cx.params;
        Self {
            last: Hops::none(cx.now.stamp()),
            window: p.first_window,
            reference: p.first_window,
            utilisation: p.initial_u,
            sent: Psn::new(0),
            acked: Psn::new(0),
            updated: Psn::new(0),
            stage: 0,
            blind: 0,
            flags: 0,
        }
    }

    #[inline(always)]
    fn unmeasured(&self, _: EventSet) -> Unmeasured {
        self.last.unmeasured()
    }

    fn trace_values(&self, _: &Params, show: &mut dyn FnMut(TraceValue)) {
        show(TraceValue { name: "utilisation", bits: self.utilisation, fraction_bits: 24 });
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>) -> Decision {
        match event {
            Event::Sent { psn, .. } => {
                self.sent = *psn;
                self.flags |= SENT;
            }
            Event::Ack(ack) => {
                self.acknowledged(cx, ack);
            }
            Event::Nack { psn } => self.rewind(*psn),
            _ => self.last.age(&cx.params.base, cx.now.stamp()),
        }
        self.decision(cx.params)
    }
}

impl<const HOPS: usize> Hpcc<HOPS> {
    /// W, in bytes.
    pub const fn window(&self) -> Bytes {
        Bytes::new(self.window)
    }

    /// W^c, in bytes.
    pub const fn reference(&self) -> Bytes {
        Bytes::new(self.reference)
    }

    /// U, one being 2^24; at most 16.
    pub const fn utilisation(&self) -> u32 {
        self.utilisation
    }

    /// incStage.
    pub const fn stage(&self) -> u8 {
        self.stage
    }

    #[inline(always)]
    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The last packet sent, if one was.
    #[inline(always)]
    pub(crate) const fn sent(&self) -> Option<Psn> {
        if self.has(SENT) { Some(self.sent) } else { None }
    }

    #[inline(always)]
    pub(crate) fn decision(&self, p: &Params) -> Decision {
        let window = Bytes::new(self.window.max(p.mtu));
        Decision { rate: p.rate(self.window), window, hold: Nanos::ZERO, wake_in: Nanos::MAX }
    }

    /// NewAck; returns whether W and Wc were halved.
    #[inline(always)]
    fn acknowledged(&mut self, cx: &Cx<'_, Params>, ack: &Ack<'_>) -> bool {
        let what = self.use_of(cx, ack);
        if what == Use::Nothing {
            self.last.skip(Unmeasured::MISORDERED);
            return false;
        }
        (self.acked, self.flags) = (ack.psn, self.flags | ACKED);
        match what {
            Use::Window | Use::Reference => {
                if self.measure(cx, ack) {
                    self.blind = 0;
                    self.compute_wind(cx.params, what == Use::Reference);
                    return false;
                }
            }
            Use::Store => self.last.store(&cx.params.base, cx.now.stamp(), &ack.int),
            _ => self.last.skip_empty(&ack.int),
        }
        self.unmeasured_until(cx.params, ack.psn)
    }

    /// An acknowledgement without telemetry that could be measured: counts round trips of such, and after `no_int_rtts` in a row
    /// halves W and Wc, and returns `true`.
    #[cold]
    #[inline(never)]
    fn unmeasured_until(&mut self, p: &Params, psn: Psn) -> bool {
        if !self.has(UPDATED) {
            self.update_later();
            return false;
        }
        if p.no_int_rtts == 0 || !self.last.unmeasured().is_fault() || !self.is_over(psn) {
            return false;
        }
        self.update_later();
        self.blind = self.blind.saturating_add(1);
        if self.blind < p.no_int_rtts {
            return false;
        }
        self.blind = 0;
        self.window = (self.window.min(self.reference) >> 1).max(p.least_window);
        (self.reference, self.stage) = (self.window, 0);
        true
    }

    #[inline(always)]
    fn use_of(&self, cx: &Cx<'_, Params>, ack: &Ack<'_>) -> Use {
        let old = self.has(ACKED) && self.acked.is_after(ack.psn);
        let unsent = self.has(SENT) && ack.psn.is_after(self.sent);
        if old || unsent {
            Use::Nothing
        } else if ack.int.is_empty() {
            Use::Progress
        } else if !self.last.matches(&cx.params.base, cx.now.stamp(), &ack.int) {
            Use::Store
        } else if self.blind > 0 || self.is_over(ack.psn) {
            Use::Reference
        } else {
            Use::Window
        }
    }

    /// Whether this acknowledges the last packet that was sent before the last update of Wc.
    #[inline(always)]
    fn is_over(&self, psn: Psn) -> bool {
        !self.has(UPDATED) || psn.has_passed(self.updated)
    }

    /// MeasureInflight; `false` when nothing could be measured.
    #[inline(always)]
    fn measure(&mut self, cx: &Cx<'_, Params>, ack: &Ack<'_>) -> bool {
        let (base, now) = (&cx.params.base, cx.now.stamp());
        let measured = inflight(&mut self.last, base, self.utilisation, now, &ack.int);
        self.utilisation = measured.unwrap_or(self.utilisation);
        measured.is_some()
    }

    #[inline(always)]
    const fn must_cut(&self, p: &Params) -> bool {
        self.utilisation >= p.eta || self.stage >= p.max_stage
    }

    /// ComputeWind.
    #[inline(always)]
    fn compute_wind(&mut self, p: &Params, update: bool) {
        let cut = self.must_cut(p);
        let from = if cut { divided(self.reference, p.eta, self.utilisation) } else { self.reference };
        self.window = from.saturating_add(p.step).max(p.least_window).min(p.first_window);
        if update {
            self.stage = if cut { 0 } else { self.stage.saturating_add(1) };
            self.reference = self.window;
            self.update_later();
        }
    }

    /// The next update of the reference window is due when the last packet sent so far is acknowledged.
    #[inline(always)]
    const fn update_later(&mut self) {
        self.updated = self.sent;
        if self.has(SENT) {
            self.flags |= UPDATED;
        }
    }

    /// Go-back-N: packets from `psn` on are sent again.
    #[cold]
    fn rewind(&mut self, psn: Psn) {
        let before = psn.plus(0x00ff_ffff);
        if self.has(SENT) && self.sent.is_after(before) {
            self.sent = before;
        }
        if self.has(UPDATED) && self.updated.is_after(before) {
            self.updated = before;
        }
    }
}
