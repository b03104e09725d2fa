//! Exponential decay after any number of periods, `r^n`, from tables instead of a loop over the periods.

use crate::Zeroed;
use crate::math::mul_high;
use crate::units::Frac;

/// Entries of the fine table: r^0 to r^127.
const FINE: usize = 128;
/// Entries of the coarse table: r^0, r^128, r^256 and so on, one for every [`FINE`] periods.
const COARSE: usize = 192;

/// Table of the powers `r^n`: the fraction of a quantity that remains after n periods, each of which keeps the fraction r.
///
/// Two tables of U1.31, 1 280 bytes, shared by all flows of a port. Every entry is the true power rounded down. The product of
/// two entries is below the true power by less than 3 raw steps of 2^-31, and by less than one for fewer than 128 periods. A
/// recurrence that truncates in every period falls further below the true power, so one flow must not use both.
#[derive(Clone, Debug)]
pub struct Decay {
    fine: [Frac; FINE],
    coarse: [Frac; COARSE],
    horizon: u32,
}

impl Zeroed for Decay {
    const ZEROED: Self = Self { fine: [Frac::ZERO; FINE], coarse: [Frac::ZERO; COARSE], horizon: 0 };
}

impl Decay {
    /// Computes the powers of `retained` and returns the [horizon](Decay::horizon), or `None` if the power is not zero after 24
    /// 575 periods, as it is not above 1 - 1/1144.
    ///
    /// Takes one multiplication for each period up to the horizon, at most 24 575: for configuration or compile time, not for
    /// the path of an event.
    #[expect(
        clippy::indexing_slicing,
        clippy::integer_division,
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        reason = "configuration; the period is below FINE * COARSE, both powers of two or constant; the parts of products"
    )]
    pub const fn set(&mut self, retained: Frac) -> Option<u32> {
        if retained.to_bits() == Frac::ONE.to_bits() {
            return None;
        }
        let share = retained.to_bits() << 1;
        // The power after the next period in 96 bits, the lowest first: truncation loses at most 2^-96 a period, so an entry
        // is wrong only where the true power lies within 2^-81 above a step.
        let (mut entry, mut power) = (Frac::ONE, [0, 0, share]);
        let mut period = 0;
        while period < FINE * COARSE {
            if entry.to_bits() == 0 {
                self.horizon = period as u32;
                return Some(self.horizon);
            }
            if period < FINE {
                self.fine[period] = entry;
            }
            if period % FINE == 0 {
                self.coarse[period / FINE] = entry;
            }
            let [low, middle, top] = power;
            entry = Frac::from_bits(top >> 1);
            let middle = middle as u64 * share as u64 + mul_high(low, share) as u64;
            let top = top as u64 * share as u64 + (middle >> 32);
            power = [middle as u32, top as u32, (top >> 32) as u32];
            period += 1;
        }
        None
    }

    /// `r^periods`: exactly 1 for 0 periods, exactly the retained fraction for 1, and 0 from the [horizon](Decay::horizon) on.
    #[inline(always)]
    pub fn after(&self, periods: u32) -> Frac {
        if periods >= self.horizon {
            return Frac::ZERO;
        }
        let periods = periods as usize;
        let Some(&fine) = self.fine.get(periods & FINE.wrapping_sub(1)) else { return Frac::ZERO };
        if periods < FINE {
            return fine;
        }
        let Some(&coarse) = self.coarse.get(periods >> FINE.trailing_zeros()) else { return Frac::ZERO };
        // A coarse power is below one, and so twice that below 2^32.
        Frac::from_bits(mul_high(coarse.to_bits().wrapping_shl(1), fine.to_bits()))
    }

    /// The first number of periods whose power is below 2^-31, the step of [`Frac`], and therefore 0.
    #[inline]
    pub const fn horizon(&self) -> u32 {
        self.horizon
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn decay(retained: Frac) -> Option<Decay> {
        let mut decay = Decay::ZEROED;
        match decay.set(retained) {
            Some(_) => Some(decay),
            None => None,
        }
    }

    /// Checks every power against two recurrences, one rounded up and one rounded down.
    #[test]
    fn a_power_is_low_by_less_than_three_steps() {
        for (share, of) in [(1, 256), (5, 1024), (1, 1024), (1, 16), (1, 2), (1, 1144), (1023, 1024), (1, 1)] {
            let retained = Frac::from_ratio(share, of).complement();
            let decay = decay(retained).unwrap();
            let (mut low, mut high) = (1u128 << 96, 1u128 << 96);
            for periods in 0..=decay.horizon() + 1 {
                let power = decay.after(periods).to_bits();
                let (least, most) = ((low >> 65) as u32, (high >> 65) as u32);
                assert!(power <= most && power + 3 > least, "{retained:?}^{periods}");
                assert!(periods >= 128 || power == least);
                assert_eq!(most == 0, periods >= decay.horizon());
                low = (low * u128::from(retained.to_bits())) >> 31;
                high = (high * u128::from(retained.to_bits())).div_ceil(1 << 31);
            }
            assert_eq!(decay.after(0), Frac::ONE);
            assert_eq!(decay.after(1), retained);
            assert_eq!(decay.after(u32::MAX), Frac::ZERO);
        }
    }

    #[test]
    fn the_papers_alpha_is_zero_after_5_491_periods() {
        // 31 ln 2 / ln (256 / 255) = 5 490.1.
        let paper = const { decay(Frac::from_ratio(255, 256)) };
        assert_eq!(paper.unwrap().horizon(), 5_491);
        assert_eq!(decay(Frac::ONE.half()).unwrap().horizon(), 32);
    }

    #[test]
    fn a_fraction_that_is_not_zero_after_24_575_periods_is_refused() {
        assert!(decay(Frac::ONE).is_none());
        assert!(decay(Frac::from_ratio(1, 1145).complement()).is_none());
    }
}
