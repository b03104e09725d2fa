//! DCQCN at the sender.
//!
//! Yibo Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015. Equation numbers
//! are those of its restatement in section II-B of Yixiao Gao et al., "DCQCN+: Taming Large-scale Incast
//! Congestion in RDMA over Ethernet Networks", ICNP 2018; parameter names, and the sampled variant, are
//! those of the ConnectX firmware ("DCQCN CC Parameters", NVIDIA DOCA 3.4; `mlxconfig`).
//!
//! A flow starts at line rate, unlimited. Each congestion notification cuts its rate by `alpha / 2` and raises `alpha`; without
//! notifications `alpha` decays, and a timer and a byte counter raise the rate again: first in halving steps back to the rate
//! before the cut (fast recovery), then past it in additive and hyper steps. At the ceiling the flow is released: unlimited
//! again, as at its start.
//!
//! `alpha` has two behaviours, chosen by `alpha_update`:
//! - `restarted`, the paper's: a notification cuts at once, and restarts the period after which `alpha` decays. `alpha` is a
//!   [`Frac`], stored with the time when it was last raised; (10) is applied to it when it is read, never earlier, because a
//!   product that is truncated several times differs from one that is truncated once.
//! - `sampled`, the firmware's: `alpha` changes on ticks of `dce_tcp_rtt`, cuts happen on ticks of
//!   `rate_reduce_monitor_period`, and notifications only mark the next tick of each. `alpha` is an integer of `alpha_bits`.
//!   The firmware has ten, as follows from the unit of its parameters, 1/1024: then alpha is exact, advanced in bands of equal
//!   loss, and each period without a notification subtracts at least 1/1024. What a notification adds to a small alpha, 5/1024,
//!   is therefore gone if the next one comes more than five periods later. In simulators alpha is a float, which does not reach
//!   0, so that they cut more; 20 bits stand for it. Both ticks count from the first notification, cuts one nanosecond later,
//!   so that `alpha` goes first where both fall together.
//!
//! Choices where the sources are silent:
//! - a cut rounds its amount down, an increase its result; when R_C is less than two raw steps (1 kb/s) below R_T, it is set to
//!   R_T, which halving alone would never reach;
//! - R_T never exceeds the ceiling;
//! - a notification at an unlimited flow starts from R_C = R_T = ceiling and `initial_alpha_value`;
//! - what is due at the very instant of an event is applied before the event.
//!
//! Late wakes change no decision: what became due since the last event is applied as of the time when it was due. Any number of
//! steps takes bounded time: one `divu`, in `rounds`, and 3,000 cycles on Ibex small.

mod alpha_decay;
mod parameters;
#[cfg(test)]
mod tests;

pub use parameters::{CX4, DcqcnSettings, HPCC_SIM, NS3_RDMA, PAPER, Params, SIGCOMM15, VENDOR};

use crate::CnpIgnored;
use crate::{Cx, Decision, Event, EventSet, Limits, ReactionPoint, RpEngine, Signals, TraceValue};
use alpha_decay::{AlphaDecay, TEN_BITS, TICK};
use cc_core::math::mul_high;
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::snapshot::flags;
use cc_core::{Bytes, CnpBodyKind, CnpKind, Frac, Link, Nanos, Rate, Stamp, State, Zeroed};
use core::hint::cold_path;
use core::mem;
use parameters::{
    ALPHA_FIRST, Alpha, BOUNDS_CUTS, CLAMPS, CLAMPS_AFTER_TIME, COUNTS_BYTES, CUTS_BY_ALPHA, FAR_TARGET_DROPS,
    FIRST_COUNTS, HYPER_FOLLOWS, HYPER_IS_CONSTANT, KEEPS_LIMITER, Period, SPACES_CUTS,
};

/// One flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Dcqcn {
    /// R_C, the rate of the flow while it is limited.
    current: Rate,
    /// R_T, the rate that recovery leads to.
    target: Rate,
    /// Restarted: 2^31 is one. Sampled: 2^32 is one, in the high 20 bits, whatever the precision; in the low 12 bits the tick,
    /// counted from `alpha_at`, before which a notification came, or zero.
    alpha: u32,
    /// Restarted: when alpha was last raised. Sampled: its last tick.
    alpha_at: Stamp,
    /// When the rate timer expires next.
    rate_due: Stamp,
    /// Sampled: a tick of the cut period, the one to cut at when [`CUT`] is set. Restarted: when the next
    /// cut is allowed, if [`CUT`] is set.
    cut_due: Stamp,
    /// Bytes to the next expiry of the byte counter in the low 24 bits, flags above.
    left: u32,
    /// Expiries of the rate timer since the last cut, at most [`LAST_STAGE`].
    time_stage: u8,
    /// Expiries of the byte counter since the last cut, at most [`LAST_STAGE`].
    byte_stage: u8,
    /// Number of the last CNP that carried one, if [`NUMBERED`] is set.
    seq: u16,
}

const _: () = assert!(RpEngine::<Dcqcn, 1024, 2048>::QP_BYTES <= 72, "a flow has outgrown 72 bytes");

/// The flow is rate limited. Otherwise only `seq` in the state has a meaning.
const LIMITED: u32 = 1 << 31;
/// `cut_due` is armed.
const CUT: u32 = 1 << 30;
/// `seq` is known.
const NUMBERED: u32 = 1 << 29;
/// The bytes in `left`.
const BYTES: u32 = (1 << 24) - 1;
/// Stages saturate here, and with them the hyper step of (8).
const LAST_STAGE: u8 = 63;
/// Half of a stamp's range: a deadline less than this ago is past, otherwise ahead.
const HALF: u32 = 1 << 31;
/// Nanoseconds: sampled ticks older than this are advanced at a wake, so that stamps stay unambiguous.
const STALE: u32 = 1 << 29;
/// A CNP number at most this far behind the last is stale; farther behind, the receiver has restarted its count.
const REORDER: u16 = 64;

/// The two clocks of recovery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clock {
    Time,
    Bytes,
}

cc_core::snapshot! {
    /// A flow of DCQCN.
    pub struct DcqcnSnapshot {
        /// R_C.
        pub current: Rate,
        /// R_T.
        pub target: Rate,
        /// alpha. Restarted: in units of 2^-31. Sampled: in units of 2^-32, in the high 20 bits; in the low 12 bits the tick,
        /// counted from `alpha_at`, before which a notification came, or zero.
        pub alpha: u32,
        /// Restarted: when alpha was last raised. Sampled: its last tick.
        pub alpha_at: Stamp,
        /// When the rate timer expires next.
        pub rate_due: Stamp,
        /// Sampled: a tick of the cut period, the one to cut at while `is_cut_due`. Restarted: when the next cut is
        /// allowed, while `is_cut_due`.
        pub cut_due: Stamp,
        /// `cut_due` is armed.
        pub is_cut_due: bool,
        /// Bytes to the next expiry of the byte counter: at most 2^24 - 1, more is cut.
        pub bytes_left: Bytes,
        /// The flow is rate limited. Otherwise only the CNP number has a meaning.
        pub is_limited: bool,
        /// Expiries of the rate timer since the last cut, at most 63.
        pub time_stage: u8,
        /// Expiries of the byte counter since the last cut, at most 63.
        pub byte_stage: u8,
        /// A CNP with a number was received.
        pub has_seq: bool,
        /// The number of the last.
        pub seq: u16,
    }
}

impl State for Dcqcn {
    type Snapshot = DcqcnSnapshot;

    fn snapshot(&self) -> DcqcnSnapshot {
        DcqcnSnapshot {
            current: self.current,
            target: self.target,
            alpha: self.alpha,
            alpha_at: self.alpha_at,
            rate_due: self.rate_due,
            cut_due: self.cut_due,
            is_cut_due: self.has(CUT),
            bytes_left: Bytes::new(self.left & BYTES),
            is_limited: self.has(LIMITED),
            time_stage: self.time_stage,
            byte_stage: self.byte_stage,
            has_seq: self.has(NUMBERED),
            seq: self.seq,
        }
    }

    fn from_snapshot(s: DcqcnSnapshot) -> Self {
        let set = [(s.is_cut_due, CUT), (s.is_limited, LIMITED), (s.has_seq, NUMBERED)];
        Self {
            current: s.current,
            target: s.target,
            alpha: s.alpha,
            alpha_at: s.alpha_at,
            rate_due: s.rate_due,
            cut_due: s.cut_due,
            left: s.bytes_left.get().min(BYTES) | flags(set),
            time_stage: s.time_stage.min(LAST_STAGE),
            byte_stage: s.byte_stage.min(LAST_STAGE),
            seq: s.seq,
        }
    }
}

impl ReactionPoint for Dcqcn {
    type Settings = DcqcnSettings;
    type Params = Params;

    const NAME: &'static str = "dcqcn";
    const PRESETS: &'static [Preset<DcqcnSettings>] = parameters::PRESETS;
    const EVENTS: EventSet = EventSet::SENT.with(EventSet::CNP).with(EventSet::WAKE);
    const SIGNALS: Signals = Signals::CNP;
    const RECEIVER: Option<&'static str> = Some("dcqcn");
    #[rustfmt::skip]
    const TRANSITIONS: &'static [&'static str] = &[
        "unlimited, sent: nothing",
        "unlimited, CNP: the flow becomes limited, alpha and the cut follow",
        "unlimited, wake: nothing",
        "fast recovery, sent: the byte counter may expire, R_C goes halfway to R_T",
        "fast recovery, CNP: alpha rises, R_C is cut, now or at the end of the period",
        "fast recovery, wake: what became due is applied, in its order",
        "additive increase, sent: the byte counter may expire, R_T gains R_AI",
        "additive increase, CNP: alpha rises, R_C is cut, now or at the end of the period",
        "additive increase, wake: what became due is applied, in its order",
        "hyper increase, sent: the byte counter may expire, R_T gains i R_HAI",
        "hyper increase, CNP: alpha rises, R_C is cut, now or at the end of the period",
        "hyper increase, wake: what became due is applied, in its order",
    ];

    fn check(settings: &DcqcnSettings, link: &Link) -> Result<Params, ParamError> {
        let mut params = Params::ZEROED;
        Self::check_into(&mut params, settings, link)?;
        Ok(params)
    }

    fn check_into(params: &mut Params, settings: &DcqcnSettings, link: &Link) -> Result<(), ParamError> {
        settings.in_range()?;
        params.set(settings, link)
    }

    fn transition(&self, cx: &Cx<'_, Params>, event: &Event<'_>) -> usize {
        let gain = step(cx.params, self.time_stage.into(), self.byte_stage.into());
        let phase = match gain {
            _ if !self.has(LIMITED) => 0,
            gain if gain == Rate::ZERO => 3,
            gain if gain == cx.params.additive => 6,
            _ => 9,
        };
        let column = match event {
            Event::Sent { .. } => 0,
            Event::Cnp { .. } => 1,
            _ => 2,
        };
        usize::wrapping_add(phase, column)
    }

    fn limits(params: &Params, _link: &Link) -> Limits {
        Limits { rate: params.floor, window: Bytes::MAX, hold: Nanos::ZERO }
    }

    fn open(cx: &Cx<'_, Params>) -> Self {
        let now = cx.now.stamp();
        Self {
            current: cx.params.ceiling,
            target: cx.params.ceiling,
            alpha: cx.params.initial_alpha,
            alpha_at: now,
            rate_due: now,
            cut_due: now,
            left: 0,
            time_stage: 0,
            byte_stage: 0,
            seq: 0,
        }
    }

    fn trace_values(&self, params: &Params, show: &mut dyn FnMut(TraceValue)) {
        show(TraceValue { name: "alpha", bits: self.alpha(params).to_bits(), fraction_bits: 31 });
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>) -> Decision {
        let (p, now) = (cx.params, cx.now.stamp());
        // Read before any call, so that the compiler keeps less of the event in registers across the calls.
        let bytes = if let Event::Sent { bytes, .. } = event { *bytes } else { Bytes::ZERO };
        if let Event::Cnp { body_kind: CnpBodyKind::Extended(body) } = event {
            cold_path();
            self.seq = body.seq;
            self.left |= NUMBERED;
        }
        self.catch_up(p, now);
        match event {
            Event::Sent { .. } => self.sent(p, bytes),
            Event::Cnp { .. } => self.on_cnp(p, now),
            Event::Wake => self.refresh(p, now),
            _ => {}
        }
        self.decision(p, now)
    }

    #[inline]
    fn cnp_filter(&self, body_kind: &CnpBodyKind) -> Option<CnpIgnored> {
        let CnpBodyKind::Extended(body) = body_kind else { return None };
        cold_path();
        match body.kind {
            CnpKind::Standard | CnpKind::Period | CnpKind::Direct => {}
            CnpKind::Undetermined | CnpKind::SwitchInt | CnpKind::DirectInt => return Some(CnpIgnored::Unsupported),
        }
        let behind = self.seq.wrapping_sub(body.seq);
        (self.has(NUMBERED) && behind < REORDER).then_some(CnpIgnored::Stale)
    }
}

impl Dcqcn {
    /// R_C; the flow sends at it while it [is limited](Self::is_limited).
    pub const fn current(&self) -> Rate {
        self.current
    }

    /// R_T.
    pub const fn target(&self) -> Rate {
        self.target
    }

    /// Whether a notification has limited the flow, and recovery not yet released it.
    pub const fn is_limited(&self) -> bool {
        self.has(LIMITED)
    }

    /// A restarted alpha as it was when it was last raised; a sampled one as it was at the last tick that was applied.
    pub const fn alpha(&self, params: &Params) -> Frac {
        match &params.alpha {
            Alpha::Sampled(_) => Frac::from_bits((self.alpha & !TICK) >> 1),
            Alpha::Restarted { .. } => Frac::from_bits(self.alpha),
        }
    }

    /// Takes an undetermined notification, called by [`dcqcn_tcd`](crate::dcqcn_tcd) only: no cut, but rate increase restarts.
    ///
    /// R_T is set to R_C; the rate timer, the byte counter and the period of a restarted alpha restart. With `raises_alpha`,
    /// alpha rises as for congestion. A flow that is not limited stays as it is: it is at line rate.
    pub(crate) fn undetermined(&mut self, cx: &Cx<'_, Params>, seq: u16, raises_alpha: bool) -> Decision {
        let (p, now) = (cx.params, cx.now.stamp());
        self.catch_up(p, now);
        self.seq = seq;
        self.left |= NUMBERED;
        if self.has(LIMITED) {
            match &p.alpha {
                Alpha::Restarted { kept, gain } => {
                    let quiet = p.alpha_period.count_in(now.since(self.alpha_at).get());
                    self.alpha = Frac::from_bits(self.alpha).times(p.decay.after(quiet)).to_bits(); // (10)
                    if raises_alpha {
                        self.alpha = mul_high(self.alpha, *kept).wrapping_add(*gain); // (4)
                    }
                    self.alpha_at = now;
                }
                Alpha::Sampled(alpha_decay) if raises_alpha => self.mark_tick(p, alpha_decay, now),
                Alpha::Sampled(_) => {}
            }
            self.target = self.current;
            self.restart(p, now);
        }
        self.decision(p, now)
    }

    #[inline(always)]
    const fn has(&self, flag: u32) -> bool {
        self.left & flag != 0
    }

    #[inline(always)]
    fn decision(&self, p: &Params, now: Stamp) -> Decision {
        let (mut rate, mut wake_in) = (p.line, Nanos::MAX);
        if self.has(LIMITED) {
            rate = self.current;
            if !(p.has(KEEPS_LIMITER) && rate == p.ceiling) {
                wake_in = self.rate_due.since(now);
            }
            if self.has(CUT) && p.is_sampled() {
                wake_in = wake_in.min(self.cut_due.since(now));
            }
        }
        Decision { rate, window: Bytes::MAX, hold: Nanos::ZERO, wake_in }
    }

    /// Applies what became due up to and including `now`, each as of its time.
    #[inline(always)]
    fn catch_up(&mut self, p: &Params, now: Stamp) {
        if !self.has(LIMITED) {
            return;
        }
        if self.has(CUT) && self.cut_due.is_due(now) {
            self.reach_cut(p);
        }
        self.recover(p, now);
    }

    /// Applies what became due up to `cut_due`.
    #[inline(never)]
    fn reach_cut(&mut self, p: &Params) {
        match &p.alpha {
            Alpha::Sampled(alpha_decay) => {
                self.recover(p, self.cut_due);
                self.settle(p, alpha_decay, self.cut_due, true);
            }
            Alpha::Restarted { .. } => self.left &= !CUT,
        }
    }

    // The notification.

    #[inline(always)]
    fn on_cnp(&mut self, p: &Params, now: Stamp) {
        let first = !self.has(LIMITED);
        if first {
            cold_path();
            self.limit(p, now);
        }
        match &p.alpha {
            Alpha::Restarted { kept, gain } => {
                if self.has(CUT) {
                    cold_path();
                    return;
                }
                let mut before = self.alpha;
                let quiet = now.since(self.alpha_at).get();
                if quiet >= p.alpha_period.length {
                    // Less than one, and so twice that below 2^32.
                    let left = p.decay.after(p.alpha_period.count_in(quiet)).to_bits();
                    before = mul_high(before, left.wrapping_shl(1)); // (10)
                }
                self.alpha = mul_high(before, *kept).wrapping_add(*gain); // (4)
                self.alpha_at = now;
                let mut alpha = before;
                if p.has(ALPHA_FIRST) {
                    cold_path();
                    alpha = self.alpha;
                }
                if p.has(CUTS_BY_ALPHA) {
                    cold_path();
                    alpha = alpha.saturating_add(alpha);
                }
                self.cut(p, alpha);
                self.restart(p, now);
                if p.has(SPACES_CUTS) {
                    cold_path();
                    self.cut_due = now.after(Nanos::new(p.cut_period.length));
                    self.left |= CUT;
                }
            }
            Alpha::Sampled(alpha_decay) => {
                cold_path();
                self.mark(p, alpha_decay, now, first);
            }
        }
    }

    /// Sampled alpha: the notification takes effect at the next tick of alpha, and at the next tick of the cut period.
    #[inline(always)]
    fn mark(&mut self, p: &Params, alpha_decay: &AlphaDecay, now: Stamp, first: bool) {
        if first {
            self.cut_due = now.after(Nanos::new(p.cut_period.length.wrapping_add(1)));
            if p.has(FIRST_COUNTS) {
                self.alpha |= 1;
            }
        } else {
            self.mark_tick(p, alpha_decay, now);
            self.advance_cut(p, now);
        }
        self.left |= CUT;
    }

    /// The first notification: the flow becomes limited.
    #[inline(always)]
    fn limit(&mut self, p: &Params, now: Stamp) {
        self.current = p.first_rate;
        self.target = p.first_rate;
        self.alpha = p.initial_alpha;
        self.alpha_at = now;
        self.left = (self.left & NUMBERED) | LIMITED;
        self.restart(p, now);
    }

    /// (1) to (3). `share` is the fraction of the rate to take off, in units of 2^-32.
    #[inline(always)]
    fn cut(&mut self, p: &Params, share: u32) {
        let before = self.current;
        if p.has(CLAMPS) {
            self.target = before; // (1)
        } else {
            cold_path();
            if self.byte_stage != 0 || (p.has(CLAMPS_AFTER_TIME) && self.time_stage != 0) {
                self.target = before;
            }
        }
        let gone = mul_high(before.to_bits(), share);
        let mut after = Rate::from_bits(before.to_bits().wrapping_sub(gone)); // (2)
        if p.has(BOUNDS_CUTS) {
            cold_path();
            after = after.max(before.scale(p.least_share));
        }
        self.current = after.max(p.floor); // (3)
    }

    /// Restarts the rate timer and the byte counter, and sets both stages to 0.
    #[inline(always)]
    fn restart(&mut self, p: &Params, now: Stamp) {
        self.time_stage = 0;
        self.byte_stage = 0;
        self.rate_due = now.after(Nanos::new(p.rate_period.length));
        self.left = (self.left & !BYTES) | p.byte_period.length;
    }

    // Recovery.

    /// Applies the expiries of the rate timer up to and including `until`.
    #[inline(always)]
    fn recover(&mut self, p: &Params, until: Stamp) {
        let late = until.since(self.rate_due).get();
        if late < HALF {
            self.expire(p, Clock::Time, &p.rate_period, late);
        }
    }

    /// Counts bytes sent, and applies the expiries of the byte counter.
    #[inline(always)]
    fn sent(&mut self, p: &Params, bytes: Bytes) {
        if !self.has(LIMITED) || !p.has(COUNTS_BYTES) {
            return;
        }
        let (bytes, left) = (bytes.get(), self.left & BYTES);
        if bytes < left {
            self.left = self.left.wrapping_sub(bytes);
            return;
        }
        cold_path();
        self.expire(p, Clock::Bytes, &p.byte_period, bytes.wrapping_sub(left));
    }

    /// Applies the expiry of a clock (rate timer or byte counter) that has since advanced by `over`, and the expiries after it
    /// if `over` is more than a period.
    #[inline(never)]
    fn expire(&mut self, p: &Params, clock: Clock, period: &Period, over: u32) {
        let (mut expiries, mut run) = (1, period.length);
        if over >= run {
            cold_path();
            expiries = period.count_in(over).wrapping_add(1);
            run = run.wrapping_mul(expiries);
        }
        match clock {
            Clock::Time => self.rate_due = self.rate_due.after(Nanos::new(run)),
            Clock::Bytes => {
                cold_path();
                self.left = (self.left & !BYTES) | run.wrapping_sub(over);
            }
        }
        self.increase(p, clock, expiries);
    }

    /// Applies `expiries` expiries of one clock, at least one.
    #[inline(always)]
    fn increase(&mut self, p: &Params, clock: Clock, expiries: u32) {
        self.round(p, clock);
        if expiries == 1 {
            self.release(p);
        } else {
            self.rounds(p, clock, expiries.wrapping_sub(1));
        }
    }

    /// Releases a flow at the ceiling, unless the settings keep it limited or a sampled cut is due.
    #[inline(always)]
    fn release(&mut self, p: &Params) {
        if self.current == p.ceiling {
            cold_path();
            let waits_for_cut = self.has(CUT) && p.is_sampled();
            if !p.has(KEEPS_LIMITER) && !waits_for_cut {
                self.left &= !LIMITED;
            }
        }
    }

    /// Applies one expiry: first the stage, then R_T by (6) or (8), then R_C.
    #[inline(always)]
    fn round(&mut self, p: &Params, clock: Clock) {
        let stage = match clock {
            Clock::Time => &mut self.time_stage,
            Clock::Bytes => &mut self.byte_stage,
        };
        *stage = next(*stage);
        let mut rates = Rates { current: self.current, target: self.target };
        let gain = if self.is_far_below(p) {
            rates.target = Rate::from_bits(rates.target.to_bits() >> 3);
            Rate::ZERO
        } else {
            step(p, self.time_stage.into(), self.byte_stage.into())
        };
        rates.climb(gain, p.ceiling);
        (self.current, self.target) = (rates.current, rates.target);
    }

    /// Whether `far_target` applies: in the first stage of a clock, R_T is more than ten times R_C.
    #[inline(always)]
    fn is_far_below(&self, p: &Params) -> bool {
        if !p.has(FAR_TARGET_DROPS) {
            return false;
        }
        cold_path();
        (self.time_stage == 1 || self.byte_stage == 1)
            && self.target.to_bits() > self.current.to_bits().saturating_mul(10)
    }

    /// Applies any number of further expiries of one clock, with the same result as that many calls of [`Dcqcn::round`].
    ///
    /// Bounded: the step changes in at most 63 rounds. With a step A that no longer changes, the gap d = R_T - R_C goes to
    /// ceil((d + A) / 2), so it is constant after at most 33 rounds; then R_T and R_C rise by A in each round, and the number
    /// of rounds to the ceiling is one division. At the ceiling, d halves to 0 in at most 33 more.
    #[cold]
    #[inline(never)]
    fn rounds(&mut self, p: &Params, clock: Clock, mut rounds: u32) {
        // `far_target` can apply only to the first expiry, which `round` has handled.
        let (stage, other) = match clock {
            Clock::Time => (&mut self.time_stage, self.byte_stage),
            Clock::Bytes => (&mut self.byte_stage, self.time_stage),
        };
        let (own, other) = (u32::from(*stage), u32::from(other));
        *stage = u8::try_from(own.saturating_add(rounds)).map_or(LAST_STAGE, |stage| stage.min(LAST_STAGE));
        let last = last_step(p, other);
        // From stage `last` on the step is the same. Starting below it lets the first round compute the step, whatever the
        // stage.
        let mut own = own.min(last.wrapping_sub(1));
        let mut rates = Rates { current: self.current, target: self.target };
        let (mut gain, mut gap) = (Rate::ZERO, rates.gap());
        while rounds > 0 && rates.current != p.ceiling {
            if own < last {
                cold_path();
                own = own.wrapping_add(1);
                gain = step(p, own, other);
            }
            rates.climb_on(gain, p.ceiling);
            rounds = rounds.wrapping_sub(1);
            let before = mem::replace(&mut gap, rates.gap());
            if gap == before && own >= last {
                cold_path();
                let headroom = p.ceiling.to_bits().wrapping_sub(rates.target.to_bits());
                let jump = headroom.checked_div(gain.to_bits()).unwrap_or(rounds).min(rounds);
                let height = gain.to_bits().wrapping_mul(jump);
                rates.target = Rate::from_bits(rates.target.to_bits().wrapping_add(height));
                rates.current = Rate::from_bits(rates.current.to_bits().wrapping_add(height));
                rounds = rounds.wrapping_sub(jump);
            }
        }
        (self.current, self.target) = (rates.current, rates.target);
        self.release(p);
    }

    // Sampled alpha.

    /// Notes that a notification counts at the next tick of alpha. One noted for an earlier tick is applied first.
    #[inline(always)]
    fn mark_tick(&mut self, p: &Params, alpha_decay: &AlphaDecay, now: Stamp) {
        let mut next = p.alpha_period.count_in(now.since(self.alpha_at).get()).wrapping_add(1);
        let marked = self.alpha & TICK;
        if marked >= next {
            return;
        }
        if marked != 0 || next > TICK {
            self.settle(p, alpha_decay, now, false);
            next = 1;
        }
        self.alpha |= next;
    }

    /// Advances alpha to its last tick at or before `until`. If `cuts`, `until` is [`Dcqcn::cut_due`], and the rate is cut then.
    // Calls no function before it ends, and keeps few values until then, so that no register is saved.
    #[inline(never)]
    fn settle(&mut self, p: &Params, alpha_decay: &AlphaDecay, until: Stamp, cuts: bool) {
        let mut ticks = p.alpha_period.count_in(until.since(self.alpha_at).get());
        self.alpha_at = self.alpha_at.after(Nanos::new(ticks.wrapping_mul(p.alpha_period.length)));
        if !alpha_decay.has_ten_bits() {
            cold_path();
            return self.settle_by_powers(p, alpha_decay, ticks, cuts);
        }
        // The notification counts at its tick; one that lies ahead waits.
        let (mut raised, mut ahead) = (self.alpha & TICK, 0);
        if raised > ticks {
            cold_path();
            (raised, ahead) = (0, raised.wrapping_sub(ticks));
        }
        ticks = ticks.wrapping_sub(raised);
        let alpha = alpha_decay.after(self.alpha >> TEN_BITS, raised, ticks) << TEN_BITS;
        self.alpha = alpha | ahead;
        if cuts {
            self.cut_at_tick(p, alpha);
        }
    }

    /// The rest of [`Dcqcn::settle`] where alpha has more than ten bits and passes `ticks` ticks.
    #[cold]
    #[inline(never)]
    fn settle_by_powers(&mut self, p: &Params, alpha_decay: &AlphaDecay, mut ticks: u32, cuts: bool) {
        let (mut alpha, mut marked) = (self.alpha & !TICK, self.alpha & TICK);
        loop {
            // First up to the tick that follows a notification, then the others.
            let raises = marked != 0 && marked <= ticks;
            let passed = if raises { marked } else { ticks };
            if passed != 0 {
                alpha = alpha_decay.faded_by_powers(&p.decay, alpha, passed);
            }
            marked = marked.saturating_sub(passed);
            ticks = ticks.wrapping_sub(passed);
            if !raises {
                break;
            }
            alpha = alpha_decay.raised(alpha);
        }
        self.alpha = alpha | marked;
        if cuts {
            self.cut_at_tick(p, alpha);
        }
    }

    /// Cuts the rate by `alpha` at the tick at which a cut is due.
    #[inline(never)]
    fn cut_at_tick(&mut self, p: &Params, alpha: u32) {
        self.cut(p, alpha.wrapping_shr(p.alpha_shift));
        self.left &= !CUT;
        let at = self.cut_due;
        self.restart(p, at);
        self.cut_due = at.after(Nanos::new(p.cut_period.length));
    }

    /// Moves the cut tick, if it is past, to the first after `now`. A tick at which a cut is due is always ahead.
    #[inline(always)]
    fn advance_cut(&mut self, p: &Params, now: Stamp) {
        let late = now.since(self.cut_due).get();
        if late < HALF {
            let ticks = p.cut_period.count_in(late).wrapping_add(1);
            self.cut_due = self.cut_due.after(Nanos::new(ticks.wrapping_mul(p.cut_period.length)));
        }
    }

    /// Keeps the 32-bit stamps unambiguous. Changes no decision.
    #[inline(always)]
    fn refresh(&mut self, p: &Params, now: Stamp) {
        if self.has(LIMITED) && now.since(self.alpha_at).get() >= p.refresh_after {
            cold_path();
            self.refresh_now(p, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn refresh_now(&mut self, p: &Params, now: Stamp) {
        match &p.alpha {
            Alpha::Sampled(alpha_decay) => {
                self.settle(p, alpha_decay, now, false);
                self.advance_cut(p, now);
            }
            // Alpha has decayed to 0, whenever it was last raised.
            Alpha::Restarted { .. } => self.alpha = 0,
        }
    }
}

/// R_C and R_T while they increase.
#[derive(Clone, Copy)]
struct Rates {
    current: Rate,
    target: Rate,
}

impl Rates {
    /// Raises R_T by a step, then R_C half the way to it: (5), (7) and (9) are the same.
    #[inline(always)]
    fn climb(&mut self, step: Rate, ceiling: Rate) {
        self.target = self.target.saturating_add(step).min(ceiling);
        self.follow();
    }

    /// The same, for an R_T that is not above the ceiling, as after any call of `climb`.
    #[inline(always)]
    fn climb_on(&mut self, step: Rate, ceiling: Rate) {
        let headroom = ceiling.to_bits().wrapping_sub(self.target.to_bits());
        self.target = if step.to_bits() < headroom {
            Rate::from_bits(self.target.to_bits().wrapping_add(step.to_bits()))
        } else {
            ceiling
        };
        self.follow();
    }

    #[inline(always)]
    fn follow(&mut self) {
        self.current = self.target.mean(self.current);
        if self.gap() < 2 {
            self.current = self.target;
        }
    }

    /// d = R_T - R_C.
    #[inline(always)]
    const fn gap(self) -> u32 {
        self.target.to_bits().wrapping_sub(self.current.to_bits())
    }
}

/// The increase of R_T at these stages of the two clocks.
#[inline(always)]
fn step(p: &Params, one: u32, other: u32) -> Rate {
    let (low, high) = if one < other { (one, other) } else { (other, one) };
    if high <= p.threshold {
        return Rate::ZERO; // fast recovery
    }
    let hyper = if p.has(HYPER_FOLLOWS) { high } else { low };
    if hyper <= p.hyper_threshold {
        return p.additive; // (6)
    }
    if p.has(HYPER_IS_CONSTANT) {
        return p.hyper;
    }
    let times = hyper.wrapping_sub(p.hyper_threshold);
    Rate::from_bits(p.hyper.to_bits().wrapping_mul(times)) // (8)
}

/// The stage from which further expiries of a clock leave [`step`] as it is.
#[inline(always)]
fn last_step(p: &Params, other: u32) -> u32 {
    if p.has(HYPER_FOLLOWS) && !p.has(HYPER_IS_CONSTANT) {
        return u32::from(LAST_STAGE);
    }
    p.hyper_threshold.wrapping_add(1).max(other).min(u32::from(LAST_STAGE))
}

/// The stage after this one.
#[inline(always)]
const fn next(stage: u8) -> u8 {
    if stage < LAST_STAGE { stage.wrapping_add(1) } else { LAST_STAGE }
}
