//! The decay of a sampled alpha over any number of ticks.

use cc_core::decay::Decay;
use cc_core::math::mul_high;

/// The low bits of a sampled alpha's word, with the tick before which a notification came. Above them is alpha, whatever its
/// precision: 2^32 is one.
pub(super) const TICK: u32 = (1 << 12) - 1;
/// The place of an alpha of ten bits, 1024 being one, in the word.
pub(super) const TEN_BITS: u32 = 22;
/// The largest alpha of ten bits.
const ONES: u32 = 1_023;

/// What a tick does to a sampled alpha, and what many ticks do.
///
/// An alpha of ten bits is the firmware's integer: each tick rounds down. An alpha of more bits stands for a simulator's float:
/// it is multiplied by a power of 1 - g and rounded down once, when it is next raised or used in a cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct AlphaDecay {
    /// g in 1/1024.
    gain: u32,
    /// Number of ticks after which any alpha of ten bits is zero. Zero for an alpha of more bits, which fades by powers.
    horizon: u32,
    /// The largest alpha, 2^32 being one, which is also the mask of the bits that an alpha has.
    most: u32,
    bands: [Band; 7],
}

/// The alphas of ten bits from which a tick takes the same loss.
#[derive(Clone, Copy, Debug)]
struct Band {
    /// The smallest of them, less the loss.
    below: u32,
    /// 2^16 over the loss, rounded up.
    reciprocal: u32,
}

impl AlphaDecay {
    /// The decay for g = `gain` / 1024, with `gain` from 1 to 1024, of an alpha of `bits` bits, 10 to 20. `horizon` is
    /// [`AlphaDecay::horizon`] of these two.
    pub(super) fn new(gain: u32, bits: u32, horizon: u32) -> Self {
        let most = u32::MAX.wrapping_shl(32u32.wrapping_sub(bits));
        let mut bands = [Band { below: 0, reciprocal: 0 }; 7];
        for (band, loss) in bands.iter_mut().zip(1..) {
            *band = Band::new(loss, gain);
        }
        Self { gain, horizon: if bits == 10 { horizon } else { 0 }, most, bands }
    }

    /// Number of ticks after which any alpha of `bits` bits is zero.
    pub(super) const fn horizon(gain: u32, bits: u32) -> u32 {
        // (1 - g)^n is at most 2^-bits from n = bits ln 2 / g on.
        match bits.wrapping_mul(710).checked_div(gain) {
            Some(horizon) => horizon.wrapping_add(1),
            None => u32::MAX,
        }
    }

    /// Whether alpha has ten bits.
    #[inline(always)]
    pub(super) const fn has_ten_bits(&self) -> bool {
        self.horizon != 0
    }

    /// g in 1/1024.
    #[cfg(test)]
    pub(super) const fn gain(&self) -> u32 {
        self.gain
    }

    /// An alpha of ten bits after `raised` ticks of which the last follows a notification (equation (10) `raised` times, then
    /// (4); 0 for no notification) and `ticks` more without a notification ((10) `ticks` times).
    #[inline(always)]
    pub(super) fn after(&self, mut alpha: u32, raised: u32, ticks: u32) -> u32 {
        const NONE: u32 = u32::MAX;
        let (mut span, mut then) = if raised != 0 { (raised, ticks) } else { (ticks, NONE) };
        loop {
            alpha = self.faded(alpha, span);
            if then == NONE {
                return alpha;
            }
            let sum = alpha.wrapping_add(self.gain);
            alpha = if sum < ONES { sum } else { ONES };
            (span, then) = (then, NONE);
        }
    }

    /// An alpha of more than ten bits, 2^32 being one, after `ticks` ticks without a notification. `decay` has the powers of
    /// 1 - g.
    #[inline(always)]
    pub(super) fn faded_by_powers(&self, decay: &Decay, alpha: u32, ticks: u32) -> u32 {
        mul_high(alpha, decay.after(ticks).to_bits()) << 1 & self.most
    }

    /// An alpha of more than ten bits, 2^32 being one, raised by a notification: (4) after (10).
    #[inline(always)]
    pub(super) fn raised(&self, alpha: u32) -> u32 {
        let units = (alpha >> 10).wrapping_add(self.gain << (TEN_BITS - 10));
        units.min(self.most >> 10) << 10
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
        let mut loss = lost(alpha, self.gain);
        while loss >> 3 != 0 {
            if ticks == 0 {
                return alpha;
            }
            alpha = alpha.wrapping_sub(loss);
            ticks = ticks.wrapping_sub(1);
            loss = lost(alpha, self.gain);
        }
        // With gains above 1/8 a tick may skip a band; no tick is then applied in it.
        for &Band { below, reciprocal } in self.bands.get(..loss as usize).unwrap_or(&[]).iter().rev() {
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

impl Band {
    /// The band with this loss, 1 to 7.
    #[expect(
        clippy::integer_division,
        clippy::arithmetic_side_effects,
        reason = "configuration; neither divisor is zero"
    )]
    const fn new(loss: u32, gain: u32) -> Self {
        let gain = if gain == 0 { 1 } else { gain };
        Self { below: (1024 * (loss - 1) / gain + 1).wrapping_sub(loss), reciprocal: 65_536u32.div_ceil(loss) }
    }
}

/// The loss of an alpha of ten bits in one tick without a notification: alpha less this is alpha (1 - g), rounded down.
#[inline]
const fn lost(alpha: u32, gain: u32) -> u32 {
    alpha.wrapping_mul(gain).wrapping_add(ONES) >> 10
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::{Frac, Zeroed};

    #[test]
    fn powers_fade_as_a_float_does() {
        for retained in [0, 512, 1_000, 1_020, 1_023] {
            let mut decay = Decay::ZEROED;
            decay.set(Frac::from_bits(retained << 21)).unwrap();
            for bits in [11, 16, 20] {
                let alpha_decay = AlphaDecay::new(1_024 - retained, bits, 0);
                let step = f64::from(1 << (32 - bits));
                for ticks in (0..40).chain([50, 100, 255, 256, 1_000, 5_000, 20_000]) {
                    let exact = f64::from(alpha_decay.most) * (f64::from(retained) / 1_024.0).powi(ticks as i32);
                    let found = f64::from(alpha_decay.faded_by_powers(&decay, alpha_decay.most, ticks));
                    assert!(
                        (found - exact).abs() <= 1.01 * step,
                        "{found} for {exact}: {retained}, {bits} bits, {ticks} ticks"
                    );
                }
            }
        }
    }

    #[test]
    fn bands_fade_exactly_as_single_ticks() {
        for retained in 0..1024 {
            let alpha_decay = AlphaDecay::new(1024 - retained, 10, AlphaDecay::horizon(1024 - retained, 10));
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
