//! The decay of a sampled alpha over any number of ticks.

use cc_core::math::mul_high;

/// The largest alpha of ten bits, 1024 being one.
const ONES: u32 = 1_023;

/// Computes what any number of ticks does to a sampled alpha.
///
/// An alpha of ten bits is the firmware's integer: each tick rounds down. An alpha of more bits stands for a simulator's float:
/// it is multiplied by a power of 1 - g and rounded down once, when it is next raised or used in a cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct AlphaDecay {
    /// Bits of alpha, 10 to 20; above them the tick before which a notification came.
    pub(super) bits: u32,
    /// g in units of alpha's last bit.
    raise: u32,
    /// Number of ticks after which any alpha is zero.
    pub(super) horizon: u32,
    /// For each loss per tick from 1 to 7: the smallest alpha of ten bits with that loss, less the loss.
    bands: [u32; 7],
}

/// 2^16 divided by the losses of the bands, 1 to 7, rounded up.
const RECIPROCALS: [u32; 7] = [65_536, 32_768, 21_846, 16_384, 13_108, 10_923, 9_363];

impl AlphaDecay {
    /// The decay for g = `gain` / 1024, with `gain` from 1 to 1024, of an alpha of `bits` bits, 10 to 20.
    pub(super) const fn new(gain: u32, bits: u32) -> Self {
        let raise = gain << bits.wrapping_sub(TEN);
        // (1 - g)^n is at most 2^-bits from n = bits ln 2 / g on.
        let horizon = match bits.wrapping_mul(710).checked_div(gain) {
            Some(horizon) => horizon.wrapping_add(1),
            None => u32::MAX,
        };
        let bands =
            [band(1, gain), band(2, gain), band(3, gain), band(4, gain), band(5, gain), band(6, gain), band(7, gain)];
        Self { bits, raise, horizon, bands }
    }

    /// g in 1/1024.
    #[cfg(test)]
    pub(super) const fn gain(&self) -> u32 {
        self.raise >> self.bits.wrapping_sub(TEN)
    }

    /// The largest alpha, which is also the mask of its bits.
    #[inline(always)]
    pub(super) const fn most(&self) -> u32 {
        !u32::MAX.wrapping_shl(self.bits)
    }

    /// Alpha after `raised` ticks of which the last follows a notification (equation (10) `raised` times, then (4); 0 for no
    /// notification) and `ticks` more without a notification ((10) `ticks` times).
    #[inline(always)]
    pub(super) fn after(&self, mut alpha: u32, mut raised: u32, ticks: u32) -> u32 {
        let mut span = if raised != 0 { raised } else { ticks };
        loop {
            alpha = if self.bits == TEN { self.faded(alpha, span) } else { self.faded_by_power(alpha, span) };
            if raised == 0 {
                return alpha;
            }
            let sum = alpha.wrapping_add(self.raise);
            alpha = if sum < self.most() { sum } else { self.most() };
            (raised, span) = (0, ticks);
        }
    }

    /// An alpha of more than ten bits after `ticks` ticks without a notification: alpha (1 - g)^ticks, by repeated squaring of
    /// 1 - g, once for each bit of `ticks`.
    #[inline(always)]
    pub(super) const fn faded_by_power(&self, alpha: u32, mut ticks: u32) -> u32 {
        let spare = 32u32.wrapping_sub(self.bits);
        // 1 - g, with 2^32 being one.
        let kept = 0u32.wrapping_sub(self.raise.wrapping_shl(spare));
        let (mut left, mut power) = (alpha.wrapping_shl(spare), kept);
        while ticks != 0 {
            if ticks & 1 != 0 {
                left = mul_high(left, power);
            }
            power = mul_high(power, power);
            ticks >>= 1;
        }
        left.wrapping_shr(spare)
    }

    /// An alpha of ten bits after `ticks` ticks without a notification.
    ///
    /// Ticks with the same loss are applied at once. Losses above 7, which last only a few ticks each, are applied tick by
    /// tick. At most 60 iterations.
    #[inline(always)]
    fn faded(&self, mut alpha: u32, mut ticks: u32) -> u32 {
        if ticks >= self.horizon {
            return 0;
        }
        let mut loss = lost(alpha, self.raise);
        while loss >> 3 != 0 {
            if ticks == 0 {
                return alpha;
            }
            alpha = alpha.wrapping_sub(loss);
            ticks = ticks.wrapping_sub(1);
            loss = lost(alpha, self.raise);
        }
        // With gains above 1/8 a tick may skip a band; no tick is then applied in it.
        let bands = self.bands.get(..loss as usize).unwrap_or(&[]).iter();
        for (&below, &reciprocal) in bands.zip(&RECIPROCALS).rev() {
            let (all, depth) = (loss.wrapping_mul(ticks), alpha.wrapping_sub(below));
            if all <= depth {
                return alpha.wrapping_sub(all);
            }
            let run = depth.wrapping_mul(reciprocal) >> 16;
            alpha = alpha.wrapping_sub(loss.wrapping_mul(run));
            ticks = ticks.wrapping_sub(run);
            loss = loss.wrapping_sub(1);
        }
        alpha
    }
}

/// The smallest alpha with this loss per tick, 1 to 7, less the loss.
#[expect(clippy::integer_division, clippy::arithmetic_side_effects, reason = "configuration; the divisor is not zero")]
const fn band(loss: u32, gain: u32) -> u32 {
    let gain = if gain == 0 { 1 } else { gain };
    (1024 * (loss - 1) / gain + 1).wrapping_sub(loss)
}

/// Bits of the firmware's alpha.
const TEN: u32 = 10;

/// The loss of an alpha of ten bits in one tick without a notification: alpha less this is alpha (1 - g), rounded down.
#[inline]
const fn lost(alpha: u32, gain: u32) -> u32 {
    alpha.wrapping_mul(gain).wrapping_add(ONES) >> 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_decay_as_a_float_does() {
        for retained in [0, 512, 1_000, 1_020, 1_023] {
            for bits in [11, 16, 20] {
                let alpha_decay = AlphaDecay::new(1_024 - retained, bits);
                for ticks in (0..40).chain([50, 100, 255, 256, 1_000, 5_000, 20_000]) {
                    let exact = f64::from(alpha_decay.most()) * (f64::from(retained) / 1_024.0).powi(ticks as i32);
                    let found = f64::from(alpha_decay.after(alpha_decay.most(), 0, ticks));
                    assert!(
                        (found - exact).abs() <= 1.01,
                        "{found} for {exact}: {retained}, {bits} bits, {ticks} ticks"
                    );
                }
            }
        }
    }

    #[test]
    fn bands_decay_exactly_as_single_ticks() {
        for retained in 0..1024 {
            let alpha_decay = AlphaDecay::new(1024 - retained, TEN);
            let step = if retained % 17 == 0 || retained > 1015 { 1 } else { 31 };
            for start in (0..1024).step_by(step) {
                let (mut alpha, mut ticks) = (start, 0);
                while alpha > 0 {
                    assert_eq!(alpha_decay.after(start, 0, ticks), alpha, "G {retained}, {start}, {ticks} ticks");
                    alpha = alpha * retained / 1024;
                    ticks += 1;
                }
                for later in [0, 1, 2_000_000] {
                    assert_eq!(alpha_decay.after(start, 0, ticks + later), 0, "G {retained}, {start}, {ticks} ticks");
                }
            }
        }
    }
}
