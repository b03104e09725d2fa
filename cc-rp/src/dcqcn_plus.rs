//! DCQCN+ at the sender.
//!
//! Yixiao Gao et al., "DCQCN+: Taming Large-scale Incast Congestion in RDMA over Ethernet Networks", ICNP 2018, section IV-B3,
//! whose equation numbers are used here.
//!
//! The receiver's NIC sends CNPs to its flows in round-robin order, and writes the time of a round (tau) into each CNP. A
//! sender waits for longer than tau, and for longer than its own rate needs for a packet, before it raises the rate, so that a
//! CNP for a flow that must slow down arrives first. Steps follow the flow's rate, not a constant, so that their sum does not
//! grow with the number of flows. There is no byte counter.
//!
//! Choices where the paper is silent or contradicts itself:
//! - (16) and (17) are evaluated whenever a period begins, with the rate of that moment: a rate that has grown would otherwise
//!   keep waiting for the packet time of the rate that it was cut to. `timers` = `cut_only`, and with it the preset `paper`,
//!   follows the text. While tau is short, periods are the fixed ones at any rate: were they at least lambda M / R_C, eight flows
//!   that the queue of a common start has cut to the floor would take 40 ms to return from it;
//! - in the preset `stable` both periods for a short tau are 110 us, lambda times DCQCN's 55 us, so that they do not jump where
//!   tau passes 50 us. With 55 us the flow with the highest rate takes what others leave: Jain's index of 8 to 40 flows at 40
//!   Gb/s is 0.15 to 0.53, and with 110 us 0.999;
//! - M is 1000 bytes, as in V-D, and R_min a share of the line rate;
//! - S = F and S = 4F are additive increase, and an increase is never less than a raw step (477 b/s);
//! - g, the first alpha, and in `paper` the periods for a short tau are DCQCN's. A flow whose R_C has come to the line rate is released
//!   and its state discarded: at its next notification R_C is the line rate and alpha the first one;
//! - a CNP without tau leaves it unchanged;
//! - if both timers expire at the same time, alpha is updated first; expiries that are due at the time of a CNP are processed
//!   before it;
//! - VI-E checks for a pause when the rate timer expires, because its timers cannot be paused. Here the timer stands still
//!   during a pause, which VI-E calls the reasonable choice, and which does not depend on a punctual wake. Alpha decays on the
//!   same clock. Its decay during pauses (`alpha_in_pause` = `fades`) is applied when the next notification reads it, with
//!   K_alpha of that moment and for at most 1.5 s; (19) therefore uses alpha without it.
//!
//! Late wakes change no decision. Steps are applied one by one, since each has its own length: from the lowest rate to the line
//! rate, where the flow is released, at most 100 for F = 5. The steps of alpha, up to two for each, are skipped once no
//! increase depends on them. No `divu`, except one at a notification after a pause.

mod parameters;
#[cfg(test)]
mod tests;

pub use parameters::{DcqcnPlusSettings, PAPER, Params, STABLE};

use crate::CnpIgnored;
use crate::{Cx, Decision, Event, EventSet, Limits, ReactionPoint, Signals, TraceValue};
use cc_core::params::{ParamError, Preset};
use cc_core::snapshot::flags;
use cc_core::{Bytes, CnpBodyKind, CnpKind, Frac, Link, Nanos, Rate, Stamp, State};
use core::hint::cold_path;
use parameters::{LONGEST, Timer};

/// One flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DcqcnPlus {
    /// R_C, the rate of the flow while it is limited.
    current: Rate,
    /// R_T, the rate that recovery leads to.
    target: Rate,
    alpha: Frac,
    /// When alpha decays next, on the clock that pauses stop. Has no meaning once alpha is zero.
    alpha_due: Stamp,
    /// When the rate timer expires next, on the same clock.
    rate_due: Stamp,
    /// Tau, zero while unknown. With timers set at notifications only: max (tau, M / R_C) as it was at the last.
    period: Nanos,
    /// Nanoseconds of pauses up to the last notification, modulo 2^32.
    pauses: u32,
    /// Number of the last CNP that carried one, if [`NUMBERED`] is set.
    seq: u16,
    /// S, expiries of the rate timer since the last cut; saturates.
    stage: u8,
    flags: u8,
}

/// The flow is rate limited. Otherwise only `seq` in the state has a meaning.
const LIMITED: u8 = 1;
/// `seq` is known.
const NUMBERED: u8 = 1 << 1;
/// A CNP number at most this far behind the last is stale; farther behind, the receiver has restarted its count.
const REORDER: u16 = 64;
/// 1.5 s: longer pauses count as this long. The next visit, at most 0.5 s later, then comes before the total has grown by
/// 2^31 ns, which would read as a step back.
const LONGEST_PAUSE: u32 = 1_500_000_000;
/// Constants of (19): 1/5 and 1/10 of R_C. 1/10 is also the alpha above which the larger one applies.
const FIFTH: Frac = Frac::from_ratio(1, 5);
const TENTH: Frac = Frac::from_ratio(1, 10);

cc_core::snapshot! {
    /// A flow of DCQCN+.
    pub struct DcqcnPlusSnapshot {
        /// R_C.
        pub current: Rate,
        /// R_T.
        pub target: Rate,
        /// alpha.
        pub alpha: Frac,
        /// When alpha decays next, on the clock that pauses stop. Has no meaning once alpha is zero.
        pub alpha_due: Stamp,
        /// When the rate timer expires next, on the same clock.
        pub rate_due: Stamp,
        /// Tau, zero while unknown. With timers set at notifications only: max (tau, M / R_C) as it was at the last.
        pub period: Nanos,
        /// Pauses up to the last notification, modulo 2^32 ns.
        pub pauses: Nanos,
        /// The flow is rate limited. Otherwise only the CNP number has a meaning.
        pub is_limited: bool,
        /// A CNP with a number was received.
        pub has_seq: bool,
        /// The number of the last.
        pub seq: u16,
        /// S, expiries of the rate timer since the last cut.
        pub stage: u8,
    }
}

impl State for DcqcnPlus {
    type Snapshot = DcqcnPlusSnapshot;

    fn snapshot(&self) -> DcqcnPlusSnapshot {
        DcqcnPlusSnapshot {
            current: self.current,
            target: self.target,
            alpha: self.alpha,
            alpha_due: self.alpha_due,
            rate_due: self.rate_due,
            period: self.period,
            pauses: Nanos::new(self.pauses),
            is_limited: self.has(LIMITED),
            has_seq: self.has(NUMBERED),
            seq: self.seq,
            stage: self.stage,
        }
    }

    fn from_snapshot(s: DcqcnPlusSnapshot) -> Self {
        Self {
            current: s.current,
            target: s.target,
            alpha: s.alpha,
            alpha_due: s.alpha_due,
            rate_due: s.rate_due,
            period: s.period,
            pauses: s.pauses.get(),
            seq: s.seq,
            stage: s.stage,
            flags: flags([(s.is_limited, LIMITED), (s.has_seq, NUMBERED)]),
        }
    }
}

impl ReactionPoint for DcqcnPlus {
    type Settings = DcqcnPlusSettings;
    type Params = Params;

    const NAME: &'static str = "dcqcn_plus";
    const PRESETS: &'static [Preset<DcqcnPlusSettings>] = parameters::PRESETS;
    const EVENTS: EventSet = EventSet::CNP.with(EventSet::WAKE);
    const SIGNALS: Signals = Signals::CNP;
    const RECEIVER: Option<&'static str> = Some("dcqcn_plus");
    #[rustfmt::skip]
    const TRANSITIONS: &'static [&'static str] = &[
        "unlimited, CNP: the flow becomes limited, R_C is cut, alpha rises, both timers start",
        "unlimited, wake: nothing",
        "fast recovery, CNP: R_C is cut, alpha rises, both timers restart",
        "fast recovery, wake: alpha decays and R_C goes halfway to R_T, as often as due",
        "additive increase, CNP: R_C is cut, alpha rises, both timers restart",
        "additive increase, wake: alpha decays and R_T gains a share of R_C, as often as due",
        "hyper increase, CNP: R_C is cut, alpha rises, both timers restart",
        "hyper increase, wake: alpha decays and R_T gains up to R_C, as often as due",
    ];

    fn check(settings: &DcqcnPlusSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn transition(&self, cx: &Cx<'_, Params>, event: &Event<'_>) -> usize {
        let p = cx.params;
        let phase = match self.stage {
            _ if !self.has(LIMITED) => 0,
            stage if stage < p.threshold => 2,
            stage if stage <= p.last_additive => 4,
            _ => 6,
        };
        if matches!(event, Event::Cnp { .. }) { phase } else { usize::wrapping_add(phase, 1) }
    }

    fn limits(params: &Params, _link: &Link) -> Limits {
        Limits { rate: params.floor, window: Bytes::MAX, hold: Nanos::ZERO }
    }

    fn open(cx: &Cx<'_, Params>) -> Self {
        Self {
            current: cx.params.line,
            target: cx.params.line,
            alpha: cx.params.initial_alpha,
            alpha_due: cx.clock_without_pauses,
            rate_due: cx.clock_without_pauses,
            period: Nanos::ZERO,
            pauses: 0,
            seq: 0,
            stage: 0,
            flags: 0,
        }
    }

    fn trace_values(&self, _: &Params, show: &mut dyn FnMut(TraceValue)) {
        show(TraceValue { name: "alpha", bits: self.alpha.to_bits(), fraction_bits: 31 });
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>) -> Decision {
        self.catch_up(cx.params, cx.clock_without_pauses);
        match event {
            Event::Cnp { body_kind } => self.on_cnp(cx, body_kind),
            _ => self.bound_pauses(cx),
        }
        let (mut rate, mut wake_in) = (cx.params.line, Nanos::MAX);
        if self.has(LIMITED) {
            rate = self.current;
            wake_in = self.rate_due.since(cx.clock_without_pauses).saturating_add(cx.pause);
        }
        Decision { rate, window: Bytes::MAX, hold: Nanos::ZERO, wake_in }
    }

    #[inline]
    fn cnp_filter(&self, body_kind: &CnpBodyKind) -> Option<CnpIgnored> {
        let CnpBodyKind::Extended(body) = body_kind else { return None };
        match body.kind {
            CnpKind::Standard | CnpKind::Period | CnpKind::Direct => {}
            CnpKind::Undetermined | CnpKind::SwitchInt | CnpKind::DirectInt => return Some(CnpIgnored::Unsupported),
        }
        let behind = self.seq.wrapping_sub(body.seq);
        (self.has(NUMBERED) && behind < REORDER).then_some(CnpIgnored::Stale)
    }
}

impl DcqcnPlus {
    /// R_C; the flow sends at it while it [is limited](Self::is_limited).
    pub const fn current(&self) -> Rate {
        self.current
    }

    /// R_T.
    pub const fn target(&self) -> Rate {
        self.target
    }

    /// Alpha, without what pauses since the last notification take from it.
    pub const fn alpha(&self) -> Frac {
        self.alpha
    }

    /// S, 0 to 255.
    pub const fn stage(&self) -> u8 {
        self.stage
    }

    /// Whether a notification has limited the flow, and recovery not yet released it.
    pub const fn is_limited(&self) -> bool {
        self.has(LIMITED)
    }

    /// When the rate timer and alpha's expire next, on the clock that pauses stop.
    pub const fn deadlines(&self) -> (Stamp, Stamp) {
        (self.rate_due, self.alpha_due)
    }

    #[inline]
    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    // The notification.

    #[inline(always)]
    fn on_cnp(&mut self, cx: &Cx<'_, Params>, body_kind: &CnpBodyKind) {
        let p = cx.params;
        let mut tau = Nanos::ZERO;
        if let CnpBodyKind::Extended(body) = body_kind {
            self.seq = body.seq;
            self.flags |= NUMBERED;
            tau = body.period.min(LONGEST);
        }
        let pauses = pauses(cx);
        if !self.has(LIMITED) {
            cold_path();
            (self.current, self.target) = (p.line, p.line);
            self.alpha = p.initial_alpha;
            self.period = Nanos::ZERO;
            self.flags |= LIMITED;
        } else if self.pauses != pauses && p.fades_in_pauses {
            self.fade_for(p, grown(self.pauses, pauses).min(LONGEST_PAUSE));
        }
        self.pauses = pauses;
        if tau != Nanos::ZERO {
            self.period = tau;
        }
        self.target = self.current; // (12)
        let cut = self.current.scale(self.alpha.times(p.largest_cut));
        self.current = self.current.saturating_sub(cut).max(p.floor); // (13), (15)
        self.alpha = self.alpha.times(p.kept).saturating_add(p.gain); // (14)
        self.stage = 0;
        if p.is_literal && self.period > p.adapts_above {
            cold_path();
            self.period = self.period.max(self.current.time_for(p.packet).min(LONGEST));
        }
        let packet_time = self.packet_time(p);
        self.rate_due = cx.clock_without_pauses.after(self.length(p, &p.increase, packet_time)); // (17)
        self.alpha_due = cx.clock_without_pauses.after(self.length(p, &p.alpha_decay, packet_time)); // (16)
    }

    /// M / R_C, at most [`LONGEST`]; zero where it has no effect because tau is short or longer than it.
    #[inline]
    fn packet_time(&self, p: &Params) -> Nanos {
        let is_covered = self.period <= p.adapts_above || self.current.bytes_in(self.period) >= p.packet;
        if is_covered || p.is_literal { Nanos::ZERO } else { self.current.time_for(p.packet).min(LONGEST) }
    }

    /// (16) and (17): how long a timer that starts now is to run.
    #[inline]
    fn length(&self, p: &Params, timer: &Timer, packet_time: Nanos) -> Nanos {
        if self.period > p.adapts_above { timer.stretch(self.period.max(packet_time)) } else { timer.fixed }
    }

    /// Reduces alpha for a pause of this many nanoseconds.
    #[cold]
    fn fade_for(&mut self, p: &Params, pause: u32) {
        let length = self.length(p, &p.alpha_decay, self.packet_time(p));
        let mut periods = pause.checked_div(length.get()).unwrap_or(0);
        // (1 - g)^n, from its powers of two.
        let mut power = p.kept;
        while periods > 0 {
            if periods & 1 != 0 {
                self.alpha = self.alpha.times(power);
            }
            power = power.times(power);
            periods >>= 1;
        }
    }

    /// Limits the difference to the stored total of pauses, so that it cannot wrap.
    #[inline]
    fn bound_pauses(&mut self, cx: &Cx<'_, Params>) {
        let pauses = pauses(cx);
        if grown(self.pauses, pauses) > LONGEST_PAUSE {
            self.pauses = pauses.wrapping_sub(LONGEST_PAUSE);
        }
    }

    // Recovery.

    /// Applies what became due up to and including `now`, each as of its time.
    #[inline(always)]
    fn catch_up(&mut self, p: &Params, now: Stamp) {
        if self.has(LIMITED) && (self.rate_due.is_due(now) || self.alpha_due.is_due(now)) {
            self.recover(p, now);
        }
    }

    #[inline(never)]
    fn recover(&mut self, p: &Params, now: Stamp) {
        let mut packet_time = self.packet_time(p);
        while self.has(LIMITED) && self.rate_due.is_due(now) {
            if self.stage >= p.last_additive && packet_time == Nanos::ZERO {
                // Timers no longer depend on the rate, nor steps on alpha: alpha is decayed after the loop.
                let length = self.length(p, &p.increase, packet_time);
                while self.has(LIMITED) && self.rate_due.is_due(now) {
                    self.increase(p);
                    self.rate_due = self.rate_due.after(length);
                }
                break;
            }
            self.fade_until(p, self.rate_due, packet_time);
            self.increase(p);
            packet_time = self.packet_time(p);
            self.rate_due = self.rate_due.after(self.length(p, &p.increase, packet_time)); // (17)
        }
        if self.has(LIMITED) {
            self.fade_until(p, now, packet_time);
        } else {
            // Not read until the next notification: set to one value, so that it is the same after every wake.
            (self.alpha, self.alpha_due) = (Frac::ZERO, self.rate_due);
        }
    }

    /// Applies the expiries of alpha's timer up to and including `until`; `packet_time` is that of the present rate.
    #[inline]
    fn fade_until(&mut self, p: &Params, until: Stamp, packet_time: Nanos) {
        if !self.alpha_due.is_due(until) {
            return;
        }
        let length = self.length(p, &p.alpha_decay, packet_time); // (16)
        while self.alpha_due.is_due(until) && self.alpha != Frac::ZERO {
            self.alpha = self.alpha.times(p.kept); // (23)
            self.alpha_due = self.alpha_due.after(length);
        }
    }

    /// One expiry of the rate timer.
    #[inline]
    fn increase(&mut self, p: &Params) {
        self.stage = self.stage.saturating_add(1);
        if self.stage >= p.threshold {
            let step = self.step(p).max(Rate::from_bits(1));
            self.target = self.target.saturating_add(step).min(p.line);
        }
        self.current = self.target.mean(self.current); // (18), (20), (22)
        if self.target.saturating_sub(self.current) < Rate::from_bits(2) {
            // Halving alone would never reach R_T.
            self.current = self.target;
            if self.current == p.line {
                self.flags &= !LIMITED;
            }
        }
    }

    /// The increase of R_T after fast recovery.
    #[inline]
    fn step(&self, p: &Params) -> Rate {
        if self.stage > p.last_additive {
            let times = u32::from(self.stage.wrapping_sub(p.last_additive));
            Rate::from_bits(p.hyper.to_bits().saturating_mul(times)).min(self.current) // (21)
        } else if self.alpha > TENTH {
            self.current.scale(FIFTH).min(p.fiftieth) // (19)
        } else {
            self.current.scale(TENTH).min(p.hundredth)
        }
    }
}

/// By how much a total that is kept modulo 2^32 has grown. A step back, as when a clock is corrected by a nanosecond, counts
/// as no growth.
#[inline]
const fn grown(earlier: u32, later: u32) -> u32 {
    let step = later.wrapping_sub(earlier);
    if step >> 31 == 0 { step } else { 0 }
}

/// Nanoseconds of pauses so far, modulo 2^32.
#[inline]
const fn pauses(cx: &Cx<'_, Params>) -> u32 {
    cx.now.stamp().since(cx.clock_without_pauses).get()
}
