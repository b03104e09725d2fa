//! DCQCN at the sender.
//!
//! Yibo Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015. Equation numbers
//! are those of its restatement in section II-B of Yixiao Gao et al., "DCQCN+: Taming Large-scale Incast
//! Congestion in RDMA over Ethernet Networks", ICNP 2018; parameter names, and the sampled variant, are
//! those of the ConnectX firmware ("DCQCN CC Parameters", NVIDIA DOCA 3.4; `mlxconfig`).
//!
//! A flow starts at line rate, unlimited. Each congestion notification cuts its rate by `alpha / 2` and
//! raises `alpha`; without notifications `alpha` fades, and a timer and a byte counter raise the rate again:
//! first half the way back to the rate before the cut (fast recovery), then past it in additive and hyper
//! steps. At the ceiling the flow is released and forgotten.
//!
//! `alpha` has two behaviours, chosen by `alpha_update`:
//! - `restarted`, the paper's: a notification cuts at once, and restarts the period after which `alpha`
//!   fades. `alpha` is a [`Frac`], kept with the time it was last raised; (10) is applied to it
//!   when somebody reads it, never earlier, because truncated products do not compose.
//! - `sampled`, the firmware's: `alpha` changes on ticks of `dce_tcp_rtt`, cuts happen on ticks of
//!   `rate_reduce_monitor_period`, and notifications only set flags for the next tick of each. `alpha` is a
//!   ten-bit integer, exact, brought forward in bands of equal loss. Both ticks count from the first
//!   notification, cuts one nanosecond later, so that `alpha` goes first where both fall together.
//!
//! Choices where the sources are silent:
//! - a cut rounds its amount down, an increase its result; when less than two raw steps (1 kb/s) part R_C
//!   from R_T, R_C snaps to R_T, which halving alone would never reach;
//! - R_T never exceeds the ceiling;
//! - a notification at an unlimited flow starts from R_C = R_T = ceiling and `initial_alpha_value`;
//! - something due at the very instant of an event happens before it.
//!
//! If late: nothing changes. Whatever fell due since the last event is applied at the time it was due, any
//! number of steps in bounded time (at most one `divu`, in [`Dcqcn::rounds`]).

mod parameters;
#[cfg(test)]
mod tests;

pub use parameters::{CX4, DcqcnSettings, HPCC_SIM, NS3_RDMA, PAPER, Params, VENDOR};

use crate::machine::Ignored;
use crate::{Cx, Decision, Event, EventMask, ReactionPoint, RpEngine};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Bytes, CnpHint, CnpKind, Frac, Nanos, Port, Rate, Stamp};
use parameters::{Alpha, Band};

/// One flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Dcqcn {
    /// R_C, what the flow may send at.
    current: Rate,
    /// R_T, where recovery leads.
    target: Rate,
    /// Restarted: 2^31 is one. Sampled: 1024 is one.
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

/// The flow is rate limited; without it nothing else in the state means anything, but `seq`.
const LIMITED: u32 = 1 << 31;
/// `cut_due` is armed.
const CUT: u32 = 1 << 30;
/// Sampled: a CNP came since the last tick of alpha.
const CNP: u32 = 1 << 29;
/// `seq` is known.
const NUMBERED: u32 = 1 << 28;
/// The bytes in `left`.
const BYTES: u32 = (1 << 24) - 1;
/// Stages count to here; none of the phases changes beyond.
const LAST_STAGE: u8 = 63;
/// Half of a stamp's range: a deadline less than this ago is past, otherwise ahead.
const HALF: u32 = 1 << 31;
/// Sampled ticks older than this are brought forward at a wake, so that stamps stay comparable.
const STALE: u32 = 1 << 29;
/// A CNP number at most this far behind the last is old; farther, the receiver began anew.
const REORDER: u16 = 64;

/// The two clocks of recovery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clock {
    Time,
    Bytes,
}

impl ReactionPoint for Dcqcn {
    type Settings = DcqcnSettings;
    type Params = Params;

    const NAME: &'static str = "dcqcn";
    const PRESETS: &'static [Preset<DcqcnSettings>] = parameters::PRESETS;
    const WANTS: EventMask = EventMask::SENT.with(EventMask::CNP).with(EventMask::WAKE);

    fn check(settings: &DcqcnSettings, port: &Port) -> Result<Params, ParamError> {
        for (index, field) in DcqcnSettings::FIELDS.iter().enumerate() {
            let value = settings.get(index);
            if value < field.min || value > field.max {
                return Err(ParamError::OutOfRange(field));
            }
        }
        Params::new(settings, port)
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

    #[inline]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event) -> Decision {
        let (p, now) = (cx.params, cx.now.stamp());
        self.catch_up(p, now);
        match event {
            Event::Sent { bytes, .. } => self.sent(p, *bytes),
            Event::Cnp { hint } => self.notified(p, now, hint),
            Event::Wake => self.refresh(p, now),
            _ => {}
        }
        self.decision(p, now)
    }

    #[inline]
    fn ignores(&self, hint: &CnpHint) -> Option<Ignored> {
        let CnpHint::Body(body) = hint else { return None };
        match body.kind {
            CnpKind::Standard | CnpKind::Period | CnpKind::Direct => {}
            CnpKind::Undetermined | CnpKind::SwitchInt | CnpKind::DirectInt => return Some(Ignored::Kind),
        }
        let behind = self.seq.wrapping_sub(body.seq);
        (self.has(NUMBERED) && behind < REORDER).then_some(Ignored::Stale)
    }
}

impl Dcqcn {
    #[inline]
    fn has(&self, flag: u32) -> bool {
        self.left & flag != 0
    }

    #[inline]
    fn decision(&self, p: &Params, now: Stamp) -> Decision {
        let mut decision = Decision { rate: p.line, window: Bytes::MAX, hold: Nanos::ZERO, wake_in: Nanos::MAX };
        if self.has(LIMITED) {
            decision.rate = self.current;
            if self.current != p.ceiling || p.releases {
                decision.wake_in = self.rate_due.since(now);
            }
            if self.has(CUT) && p.is_sampled() {
                decision.wake_in = decision.wake_in.min(self.cut_due.since(now));
            }
        }
        decision
    }

    /// Applies what fell due up to and including `now`, each at its time.
    #[inline]
    fn catch_up(&mut self, p: &Params, now: Stamp) {
        if !self.has(LIMITED) {
            return;
        }
        if self.has(CUT) && self.cut_due.is_due(now) {
            if let Alpha::Sampled { loss, bands } = &p.alpha {
                let due = self.cut_due;
                self.recover(p, due);
                self.settle(p, *loss, bands, due);
                self.cut(p, self.alpha.wrapping_shl(p.alpha_shift));
                self.restart(p, due);
                self.cut_due = due.after(Nanos::new(p.cut_period.length));
            }
            self.left &= !CUT;
        }
        self.recover(p, now);
    }

    // The notification.

    #[inline]
    fn notified(&mut self, p: &Params, now: Stamp, hint: &CnpHint) {
        if self.ignores(hint).is_some() {
            return;
        }
        if let CnpHint::Body(body) = hint {
            self.seq = body.seq;
            self.left |= NUMBERED;
        }
        if !self.has(LIMITED) {
            self.limit(p, now);
        } else if let Alpha::Sampled { loss, bands } = &p.alpha {
            self.settle(p, *loss, bands, now);
            if !self.has(CUT) {
                self.advance_cut(p, now);
            }
            self.left |= CNP | CUT;
            return;
        }
        if let Alpha::Restarted { kept, gain, decay } = &p.alpha
            && !self.has(CUT)
        {
            let periods = p.alpha_period.count_in(now.since(self.alpha_at).get());
            let before = if periods == 0 {
                self.alpha
            } else {
                Frac::from_bits(self.alpha).times(decay.after(periods)).to_bits() // (10)
            };
            self.alpha = high_product(before, *kept).saturating_add(*gain); // (4)
            self.alpha_at = now;
            let alpha = if p.alpha_first { self.alpha } else { before };
            self.cut(p, if p.cuts_by_alpha { alpha.saturating_add(alpha) } else { alpha });
            self.restart(p, now);
            if p.spaces_cuts {
                self.cut_due = now.after(Nanos::new(p.cut_period.length));
                self.left |= CUT;
            }
        }
    }

    /// The first notification: from here on the flow is limited.
    fn limit(&mut self, p: &Params, now: Stamp) {
        self.current = p.first_rate;
        self.target = p.first_rate;
        self.alpha = p.initial_alpha;
        self.alpha_at = now;
        self.restart(p, now);
        self.left = (self.left & (BYTES | NUMBERED)) | LIMITED;
        if p.is_sampled() {
            self.left |= if p.first_counts { CUT | CNP } else { CUT };
            self.cut_due = now.after(Nanos::new(p.cut_period.length.saturating_add(1)));
        }
    }

    /// (1) to (3). `share` is how much of the rate goes, 2^32 being all of it.
    #[inline]
    fn cut(&mut self, p: &Params, share: u32) {
        if p.clamps || (p.clamps_after_time && self.time_stage != 0) || self.byte_stage != 0 {
            self.target = self.current; // (1)
        }
        let before = self.current;
        let after = before.saturating_sub(Rate::from_bits(high_product(before.to_bits(), share))); // (2)
        let after = if p.least_share.to_bits() == 0 { after } else { after.max(before.scale(p.least_share)) };
        self.current = after.max(p.floor); // (3)
    }

    /// Both clocks and both stages begin anew.
    #[inline]
    fn restart(&mut self, p: &Params, now: Stamp) {
        self.time_stage = 0;
        self.byte_stage = 0;
        self.rate_due = now.after(Nanos::new(p.rate_period.length));
        self.left = (self.left & !BYTES) | p.byte_period.length;
    }

    // Recovery.

    /// The rate timer, up to and including `until`.
    #[inline]
    fn recover(&mut self, p: &Params, until: Stamp) {
        let late = until.since(self.rate_due).get();
        if late < HALF {
            let period = p.rate_period.length;
            let steps = if late < period { 1 } else { p.rate_period.count_in(late).saturating_add(1) };
            self.rate_due = self.rate_due.after(Nanos::new(period.wrapping_mul(steps)));
            self.increase(p, Clock::Time, steps);
        }
    }

    /// The byte counter.
    #[inline]
    fn sent(&mut self, p: &Params, bytes: Bytes) {
        if !self.has(LIMITED) || !p.counts_bytes {
            return;
        }
        let (bytes, left) = (bytes.get(), self.left & BYTES);
        if bytes < left {
            self.left = self.left.wrapping_sub(bytes);
            return;
        }
        let over = bytes.wrapping_sub(left);
        let period = p.byte_period.length;
        let whole = p.byte_period.count_in(over);
        let rest = over.wrapping_sub(whole.wrapping_mul(period));
        self.left = (self.left & !BYTES) | period.wrapping_sub(rest);
        self.increase(p, Clock::Bytes, whole.saturating_add(1));
    }

    /// That many expiries of one clock.
    #[inline]
    fn increase(&mut self, p: &Params, clock: Clock, expiries: u32) {
        self.round(p, clock);
        if expiries > 1 {
            self.rounds(p, clock, expiries.wrapping_sub(1));
        }
        if self.current == p.ceiling && p.releases && !(self.has(CUT) && p.is_sampled()) {
            self.left &= !LIMITED;
        }
    }

    /// One expiry: the stage, then R_T by (6) or (8), then R_C by (5), (7) or (9), which are the same.
    #[inline]
    fn round(&mut self, p: &Params, clock: Clock) {
        match clock {
            Clock::Time => self.time_stage = self.time_stage.saturating_add(1).min(LAST_STAGE),
            Clock::Bytes => self.byte_stage = self.byte_stage.saturating_add(1).min(LAST_STAGE),
        }
        let target = if p.far_target_drops && self.is_far_below() {
            Rate::from_bits(self.target.to_bits() >> 3)
        } else {
            self.target.saturating_add(self.step(p))
        };
        self.target = target.min(p.ceiling);
        let mean = self.target.mean(self.current);
        self.current = if self.gap_from(mean) < 2 { self.target } else { mean };
    }

    /// What R_T gains in this stage.
    #[inline]
    fn step(&self, p: &Params) -> Rate {
        let (low, high) = if self.time_stage < self.byte_stage {
            (self.time_stage, self.byte_stage)
        } else {
            (self.byte_stage, self.time_stage)
        };
        if high <= p.threshold {
            return Rate::ZERO; // fast recovery (5)
        }
        let hyper = if p.hyper_follows { high.wrapping_sub(1) } else { low };
        if hyper <= p.threshold {
            return p.additive; // (6)
        }
        if p.hyper_is_constant {
            return p.hyper;
        }
        let times = u32::from(hyper.wrapping_sub(p.threshold));
        Rate::from_bits(p.hyper.to_bits().saturating_mul(times)) // (8)
    }

    /// Whether further expiries of this clock leave [`Dcqcn::step`] as it is.
    fn has_last_step(&self, p: &Params, clock: Clock) -> bool {
        let (own, other) = match clock {
            Clock::Time => (self.time_stage, self.byte_stage),
            Clock::Bytes => (self.byte_stage, self.time_stage),
        };
        let last = own > p.threshold && own >= other;
        own >= LAST_STAGE
            || if p.hyper_follows { last && p.hyper_is_constant && own.wrapping_sub(1) > p.threshold } else { last }
    }

    /// R_T so far above R_C, in the first stage of a clock, that `far_target` applies.
    #[inline]
    fn is_far_below(&self) -> bool {
        (self.time_stage == 1 || self.byte_stage == 1)
            && self.target.to_bits() > self.current.to_bits().saturating_mul(10)
    }

    #[inline]
    fn gap_from(&self, current: Rate) -> u32 {
        self.target.saturating_sub(current).to_bits()
    }

    /// Any number of expiries of one clock, exactly as that many calls of [`Dcqcn::round`].
    ///
    /// Bounded: the step changes in at most 63 rounds. With a step A that no longer changes, the gap
    /// d = R_T - R_C goes to ceil((d + A) / 2), so it stands still after at most 33 rounds; then R_T and
    /// R_C climb together, and the rounds left to the ceiling are one division. There d halves to nothing
    /// in at most 33 more.
    #[cold]
    #[inline(never)]
    fn rounds(&mut self, p: &Params, clock: Clock, mut rounds: u32) {
        while rounds > 0 {
            let gap = self.gap_from(self.current);
            self.round(p, clock);
            rounds = rounds.wrapping_sub(1);
            let mut jump = 0;
            if self.current == p.ceiling {
                jump = rounds; // only the stage still counts
            } else if self.gap_from(self.current) == gap && self.has_last_step(p, clock) {
                let step = self.step(p).to_bits();
                jump = self.headroom(p).checked_div(step).unwrap_or(rounds).min(rounds);
                let climb = Rate::from_bits(step.wrapping_mul(jump));
                self.target = self.target.saturating_add(climb);
                self.current = self.current.saturating_add(climb);
            }
            if jump > 0 {
                rounds = rounds.wrapping_sub(jump);
                let stage = match clock {
                    Clock::Time => &mut self.time_stage,
                    Clock::Bytes => &mut self.byte_stage,
                };
                let passed = u8::try_from(jump).unwrap_or(LAST_STAGE);
                *stage = stage.saturating_add(passed).min(LAST_STAGE);
            }
        }
    }

    fn headroom(&self, p: &Params) -> u32 {
        p.ceiling.saturating_sub(self.target).to_bits()
    }

    // Sampled alpha.

    /// Brings alpha to its last tick at or before `until`.
    #[inline]
    fn settle(&mut self, p: &Params, loss: u32, bands: &[Band; 8], until: Stamp) {
        let ticks = p.alpha_period.count_in(until.since(self.alpha_at).get());
        if ticks == 0 {
            return;
        }
        self.alpha_at = self.alpha_at.after(Nanos::new(ticks.wrapping_mul(p.alpha_period.length)));
        let (mut alpha, mut fading) = (self.alpha.min(1023), ticks);
        if self.has(CNP) {
            self.left &= !CNP;
            alpha = alpha.wrapping_sub(lost(alpha, loss)).wrapping_add(loss).min(1023); // (4)
            fading = fading.wrapping_sub(1);
        }
        self.alpha = fade(alpha, loss, bands, fading); // (10)
    }

    /// Moves the cut tick, if it is past, to the first after `now`.
    #[inline]
    fn advance_cut(&mut self, p: &Params, now: Stamp) {
        let late = now.since(self.cut_due).get();
        if late < HALF {
            let ticks = p.cut_period.count_in(late).saturating_add(1);
            self.cut_due = self.cut_due.after(Nanos::new(ticks.wrapping_mul(p.cut_period.length)));
        }
    }

    /// Keeps stamps from going stale, in ways that change nothing.
    #[inline]
    fn refresh(&mut self, p: &Params, now: Stamp) {
        if self.has(LIMITED) && now.since(self.alpha_at).get() >= p.refresh_after {
            self.refresh_now(p, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn refresh_now(&mut self, p: &Params, now: Stamp) {
        match &p.alpha {
            Alpha::Sampled { loss, bands } => {
                self.settle(p, *loss, bands, now);
                if !self.has(CUT) {
                    self.advance_cut(p, now);
                }
            }
            // Faded to nothing, which does not depend on when.
            Alpha::Restarted { .. } => self.alpha = 0,
        }
    }
}

/// The upper half of the product: `share` of `value`, 2^32 being all of it, rounded down.
#[inline]
const fn high_product(value: u32, share: u32) -> u32 {
    ((value as u64).wrapping_mul(share as u64) >> 32) as u32
}

/// What one tick without a CNP takes from a ten-bit alpha: the floor of alpha G / 1024 is alpha less this.
#[inline]
const fn lost(alpha: u32, loss: u32) -> u32 {
    alpha.wrapping_mul(loss).wrapping_add(1023) >> 10
}

/// (10), `ticks` times, on a ten-bit alpha. While the loss per tick stays the same, ticks are skipped at
/// once; losses above eight last only a few ticks each and are taken one by one. At most 60 rounds.
#[inline]
fn fade(mut alpha: u32, loss: u32, bands: &[Band; 8], mut ticks: u32) -> u32 {
    while ticks > 0 && alpha > 0 {
        let each = lost(alpha, loss);
        let run = match bands.get(each.wrapping_sub(1) as usize) {
            Some(band) => band.ticks_in(alpha).min(ticks),
            None => 1,
        };
        alpha = alpha.saturating_sub(each.wrapping_mul(run));
        ticks = ticks.wrapping_sub(run);
    }
    alpha
}
