//! HPCC's control law, for machines that measure one path by the telemetry of its switches and keep a window for it.
//!
//! Yuliang Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, Algorithm 1. HPCC from end to
//! end is a reaction point of its own. This law is for shorter paths, whose round trips cannot be measured by sequence numbers:
//! MLCC's sender uses it for the path to its interconnect switch, MLCC's receiver for the path from its interconnect switch.
//!
//! Choices where the paper is silent are those of that reaction point: U begins at eta, and W never exceeds W_init.

use crate::hops::{BaseRtt, FINE, HopDelta, Hops, HopsSnapshot, Unmeasured};
use crate::math::div_bitwise;
use crate::params::ParamError;
use crate::{Bytes, IntStack, Nanos, Rate, Stamp, State};
use fixed::types::U8F24;

/// Lower bound of U: 2^-8.
const LEAST: u32 = 1 << (FINE - 8);

/// Settings of the law.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LawSettings {
    /// eta, in millionths: from 500 000 to 1 000 000.
    pub eta: u32,
    /// maxStage.
    pub max_stage: u8,
    /// W_AI / T: the additive increase as a rate. Each round trip adds W_AI to the window.
    pub rate_ai: Rate,
    /// Lower bound of the rate.
    pub least: Rate,
    /// Speed of the flow's first link: the upper bound of the rate.
    pub line: Rate,
    /// Round trips in a row with nothing but broken telemetry, after which W and Wc are halved; 0: never.
    pub no_int_rtts: u8,
}

crate::zeroed! {
    /// Parameters of the law, computed once for a port and shared by all of its flows.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct LawParams {
        base: BaseRtt,
        /// eta with 24 fraction bits, the lowest eight of them zero.
        eta: u32,
        max_stage: u8,
        no_int_rtts: u8,
        /// W_init.
        first_window: u32,
        /// W_AI.
        step: u32,
        least_window: u32,
        least: Rate,
        line: Rate,
    }
}

impl LawParams {
    /// The law on a path with this round-trip time; `multi` multiplies the units of compact telemetry.
    ///
    /// # Errors
    /// [`ParamError::Conflict`] of the field `field` if `time` is not from 1 us to 16 ms, or if the link carries more than 1
    /// GiB in it.
    pub fn new(field: &'static str, time: Nanos, multi: u32, settings: &LawSettings) -> Result<Self, ParamError> {
        let conflict = ParamError::Conflict {
            field,
            expected: "must be from 1 us to 16 ms, and the port must carry at most 1 GiB in it; 0 takes the port's",
        };
        let first_window = settings.line.bytes_in(time).get();
        let base = BaseRtt::new(time, multi).filter(|_| first_window <= 1 << 30).ok_or(conflict)?;
        let conflict = ParamError::Conflict { field: "rate_ai", expected: "must add at least a byte in a round trip" };
        let step = additive_step(settings.rate_ai, time).ok_or(conflict)?;
        // 24 fraction bits, of a value of at most 1.
        let eta = div_bitwise(u64::from(settings.eta) << FINE, 1_000_000);
        Ok(Self {
            base,
            eta: (u32::try_from(eta).unwrap_or(1 << FINE).wrapping_add(128)) & !0xff,
            max_stage: settings.max_stage,
            no_int_rtts: settings.no_int_rtts,
            first_window,
            step,
            least_window: settings.least.bytes_in(time).get().saturating_add(1).min(first_window),
            least: settings.least,
            line: settings.line,
        })
    }

    /// T.
    #[inline]
    pub const fn time(&self) -> Nanos {
        Nanos::new(self.base.time)
    }

    /// W / T, within the bounds.
    #[inline]
    pub fn rate(&self, window: Bytes) -> Rate {
        Rate::from_bits(self.base.rate_of(window.get())).max(self.least).min(self.line)
    }
}

/// What the law did with telemetry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum IntOutcome {
    /// Nothing: there was no telemetry, or no hop could be measured.
    NotMeasured,
    /// It was stored: there was no earlier telemetry to compare it with.
    Stored,
    /// W follows U from Wc.
    WindowAdjusted,
    /// W = Wc + W_AI, which is the new Wc.
    Increased,
    /// W = Wc eta / U + W_AI, which is the new Wc.
    Decreased,
    /// Nothing: a round trip has ended in which the telemetry was [broken](Unmeasured::BROKEN).
    Blind,
    /// It was the last of `no_int_rtts` such round trips in a row: W and Wc are half the lesser of the two.
    Halved,
}

/// The state of the law for one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Law<const HOPS: usize> {
    /// L.
    last: Hops<HOPS>,
    /// W, in bytes.
    window: u32,
    /// W^c, in bytes.
    reference: u32,
    /// U, one being 2^24.
    utilisation: u32,
    /// incStage.
    stage: u8,
    /// Round trips in a row that ended with broken telemetry.
    blind: u8,
}

impl<const HOPS: usize> Law<HOPS> {
    /// A flow that has received no telemetry. W begins at W_init, what the link carries in T.
    pub const fn open(p: &LawParams, now: Stamp) -> Self {
        let window = p.first_window;
        Self { last: Hops::none(now), window, reference: window, utilisation: p.eta, stage: 0, blind: 0 }
    }

    /// A placeholder state that is never read.
    pub const ZEROED: Self =
        Self { last: Hops::none(Stamp::from_bits(0)), window: 0, reference: 0, utilisation: 0, stage: 0, blind: 0 };

    /// W.
    #[inline]
    pub const fn window(&self) -> Bytes {
        Bytes::new(self.window)
    }

    /// W^c.
    #[inline]
    pub const fn reference(&self) -> Bytes {
        Bytes::new(self.reference)
    }

    /// U, one being 2^24; at most 16.
    #[inline]
    pub const fn utilisation(&self) -> u32 {
        self.utilisation
    }

    /// incStage.
    #[inline]
    pub const fn stage(&self) -> u8 {
        self.stage
    }

    /// Why the last packet's telemetry was not measured, or that of some hops.
    #[inline]
    pub const fn unmeasured(&self) -> Unmeasured {
        self.last.unmeasured()
    }

    /// Handles telemetry of the path: the paper's NewAck. If `is_over`, a round trip has ended, and W becomes the new Wc.
    #[inline]
    pub fn on_int(&mut self, p: &LawParams, now: Stamp, int: &IntStack<'_>, is_over: bool) -> IntOutcome {
        if int.is_empty() {
            self.last.skip_empty(int);
            return self.unmeasured_until(p, is_over, IntOutcome::NotMeasured);
        }
        if !self.last.matches(&p.base, now, int) {
            self.last.store(&p.base, now, int);
            return self.unmeasured_until(p, is_over, IntOutcome::Stored);
        }
        let Some(utilisation) = inflight(&mut self.last, &p.base, self.utilisation, now, int) else {
            return self.unmeasured_until(p, is_over, IntOutcome::NotMeasured);
        };
        self.blind = 0;
        self.utilisation = utilisation;
        self.compute_wind(p, is_over)
    }

    /// Telemetry that was not measured: counts round trips in which it was broken, and after `no_int_rtts` in a row halves W and
    /// Wc. Returns that, or else `outcome`.
    #[cold]
    #[inline(never)]
    fn unmeasured_until(&mut self, p: &LawParams, is_over: bool, outcome: IntOutcome) -> IntOutcome {
        if !is_over || p.no_int_rtts == 0 || !self.last.unmeasured().meets(Unmeasured::BROKEN) {
            return outcome;
        }
        self.blind = self.blind.saturating_add(1);
        if self.blind < p.no_int_rtts {
            return IntOutcome::Blind;
        }
        (self.blind, self.stage) = (0, 0);
        self.window = (self.window.min(self.reference) >> 1).max(p.least_window);
        self.reference = self.window;
        IntOutcome::Halved
    }

    /// Additive increase: W = Wc + W_AI, which is the new Wc. Called for a round trip in which nothing could be measured
    /// because the packets are too far apart: without it, a flow that was cut to such a rate would stay there.
    #[inline]
    pub fn rise(&mut self, p: &LawParams) {
        self.window = self.reference.saturating_add(p.step).max(p.least_window).min(p.first_window);
        self.reference = self.window;
    }

    /// Discards telemetry that has become too old to be compared with. Changes no decision: the next telemetry would only be
    /// stored anyway. To be called at least once a second.
    #[inline]
    pub fn age(&mut self, p: &LawParams, now: Stamp) {
        self.last.age(&p.base, now);
    }

    /// ComputeWind.
    #[inline(always)]
    fn compute_wind(&mut self, p: &LawParams, is_over: bool) -> IntOutcome {
        let cut = self.utilisation >= p.eta || self.stage >= p.max_stage;
        let from = if cut { divided(self.reference, p.eta, self.utilisation) } else { self.reference };
        self.window = from.saturating_add(p.step).max(p.least_window).min(p.first_window);
        if !is_over {
            return IntOutcome::WindowAdjusted;
        }
        self.stage = if cut { 0 } else { self.stage.saturating_add(1) };
        self.reference = self.window;
        if cut { IntOutcome::Decreased } else { IntOutcome::Increased }
    }
}

crate::snapshot! {
    /// [`Law`].
    pub struct LawSnapshot<const HOPS: usize> {
        /// L.
        pub last: HopsSnapshot<HOPS>,
        /// W.
        pub window: Bytes,
        /// W^c.
        pub reference: Bytes,
        /// U.
        pub utilisation: U8F24,
        /// incStage.
        pub stage: u8,
        /// Round trips in a row that ended with broken telemetry.
        pub blind: u8,
    }
}

impl<const HOPS: usize> State for Law<HOPS> {
    type Snapshot = LawSnapshot<HOPS>;

    fn snapshot(&self) -> LawSnapshot<HOPS> {
        LawSnapshot {
            last: self.last.snapshot(),
            window: self.window(),
            reference: self.reference(),
            utilisation: U8F24::from_bits(self.utilisation),
            stage: self.stage,
            blind: self.blind,
        }
    }

    fn from_snapshot(s: LawSnapshot<HOPS>) -> Self {
        Self {
            last: Hops::from_snapshot(s.last),
            window: s.window.get(),
            reference: s.reference.get(),
            utilisation: s.utilisation.to_bits(),
            stage: s.stage,
            blind: s.blind,
        }
    }
}

/// W_AI in bytes: what `rate` carries in T, less than 2 s, rounded to the nearest, at most 2^31. `None` if that is less than a
/// byte, which the window cannot hold.
pub fn additive_step(rate: Rate, time: Nanos) -> Option<u32> {
    // A rate in Mb/s is up to a unit of `Rate` more than its value here, which is rounded down.
    let at_most = Rate::from_bits(rate.to_bits().saturating_add(1));
    let twice = rate.bytes_in(Nanos::new(time.get().wrapping_shl(1))).get();
    (at_most.bytes_in(time).get() > 0).then(|| (twice >> 1).wrapping_add(twice & 1).max(1))
}

/// MeasureInflight: the new U (2^24 is 1), from what each hop did since its record in `last`; `None` if no hop could be
/// measured. To be called only if `last` [matches](Hops::matches).
#[inline(always)]
pub fn inflight<const HOPS: usize>(
    last: &mut Hops<HOPS>,
    base: &BaseRtt,
    utilisation: u32,
    now: Stamp,
    int: &IntStack<'_>,
) -> Option<u32> {
    let (mut most, mut tau) = (0, 0);
    last.compare(base, now, int, |hop: &HopDelta| {
        let queued = base.fraction_of_rtt(hop.before.min(hop.after), hop.per_byte);
        let busy = queued.wrapping_add(hop.share(hop.bytes));
        if tau == 0 || busy > most {
            (most, tau) = (busy, hop.elapsed);
        }
    });
    (tau > 0).then(|| smooth(base, utilisation, most.min(16 << FINE), tau).max(LEAST))
}

/// Moving average of U: `old (1 - tau / T) + new tau / T`, with tau at most T.
#[inline(always)]
pub fn smooth(base: &BaseRtt, old: u32, new: u32, tau: u32) -> u32 {
    if tau >= base.time {
        return new;
    }
    let weight = u64::from(base.part(tau));
    let kept = (1_u64 << 32).wrapping_sub(weight);
    ((u64::from(old).wrapping_mul(kept)).wrapping_add(u64::from(new).wrapping_mul(weight)) >> 32) as u32
}

/// `window part / whole`, where `part` and `whole` have 24 fraction bits: `part` at most 2^24 and a multiple of 2^8, `whole`
/// from 2^16 to 2^28. Error: at most 7e-4 of the result, none if `part` equals `whole`. Cost: one `divu`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a window of 30 bits by a factor of 2^8 at most, cut to 32 bits")]
pub fn divided(window: u32, part: u32, whole: u32) -> u32 {
    // 16 fraction bits in both cases. In the first, `part << 8` may be 2^32, which does not fit: the quotient is computed from
    // `part << 8` less 1, and rounded up by adding 1.
    let factor = if whole >= 1 << 20 {
        part.wrapping_shl(8).wrapping_sub(1).checked_div(whole >> 8).map(|below| below.wrapping_add(1))
    } else {
        part.wrapping_shl(4).checked_div(whole >> 4).map(|coarse| coarse << 8)
    };
    let product = u64::from(window).wrapping_mul(u64::from(factor.unwrap_or(u32::MAX))) >> 16;
    if product > u64::from(u32::MAX) { u32::MAX } else { product as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn division_is_right_to_seven_ten_thousandths(
            window in 1..1_u32 << 30,
            part in 0x8000..0x1_0001_u32,
            whole in 1_u32 << 16..1 << 28,
        ) {
            let part = part << 8;
            let exact = f64::from(window) * f64::from(part) / f64::from(whole);
            let found = f64::from(divided(window, part, whole));
            prop_assert!((found - exact.min(f64::from(u32::MAX))).abs() <= exact * 7e-4 + 1.0, "{found} for {exact}");
        }
    }

    /// 8 Mb/s carry a byte in 1 us, 7 Mb/s do not.
    #[test]
    fn an_additive_step_below_a_byte_is_refused() {
        let step = |mbps, time| additive_step(Rate::from_mbps(mbps), Nanos::new(time));
        assert_eq!([step(7, 1_000), step(8, 1_000), step(1, 7_990), step(1, 8_000)], [None, Some(1), None, Some(1)]);
        assert_eq!(step(50, 12_000), Some(75));
    }

    /// 40 Mb/s carry 20.8 bytes in 4.16 us, and 20.4 in 4.08 us.
    #[test]
    fn an_additive_step_is_rounded_to_the_nearest_byte() {
        let step = |time| additive_step(Rate::from_mbps(40), Nanos::new(time));
        assert_eq!([step(4_160), step(4_080)], [Some(21), Some(20)]);
        let most = additive_step(Rate::from_gbps(1_600), Nanos::new(16_000_000));
        assert_eq!(most, Some(1 << 31), "twice of it is more than 32 bits");
    }
}
