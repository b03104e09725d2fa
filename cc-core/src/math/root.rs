//! One over the square root of a number, without a division.

use super::{mul_high, normalise};
use core::num::NonZeroU32;

/// First guesses for [`InverseRoot`], with 16 fraction bits: for 32 equal parts of 1 to 2, then for 32 equal parts of 2 to 4.
const GUESSES: [u16; 64] = guesses();

#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "evaluated by the compiler only; the largest entry is 65 027"
)]
const fn guesses() -> [u16; 64] {
    let mut table = [0; 64];
    let mut i = 0;
    while i < table.len() {
        // The middle of the part, in 1/64.
        let middle = if i < 32 { 65 + 2 * i as u64 } else { 130 + 4 * (i as u64 - 32) };
        // The largest y with (y / 2^16)^2 middle / 64 at most one.
        let (mut guess, mut bit) = (0u64, 1 << 16);
        while bit > 1 {
            bit >>= 1;
            if (guess + bit) * (guess + bit) * middle <= 64 << 32 {
                guess += bit;
            }
        }
        table[i] = guess as u16;
        i += 1;
    }
    table
}

/// One over the square root of a number, as mantissa and exponent: `1/sqrt(x) = mantissa / 2^(32 + exponent)`.
///
/// Never above the true value, and below it by less than 1e-4 of it. A 64-entry table (128 bytes, one for the whole
/// image), indexed by five bits behind the leading one and the parity of the binary logarithm, and one Newton step:
/// three multiplies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct InverseRoot {
    mantissa: u32,
    exponent: u8,
}

impl InverseRoot {
    /// One over the square root of `x`.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "half a logarithm is at most 15")]
    pub const fn of(x: NonZeroU32) -> Self {
        // x is 2^log times m, and m, with 2^31 being one, is `normal`.
        let (normal, zeros) = normalise(x.get());
        let log = 31u32.wrapping_sub(zeros);
        let odd = log & 1;
        let guess = guess((odd << 5 | (normal >> 26) & 31) as usize) as u32;
        // With y the guess for m, or for 2 m where the logarithm is odd, the Newton step is y (3 - m y^2) / 2, here rounded
        // down throughout: the 1 that is subtracted exceeds what `mul_high` and the shift drop.
        let unity = mul_high(normal, guess.wrapping_mul(guess)) << odd;
        let factor = (3u32 << 30).wrapping_sub(unity >> 1).wrapping_sub(1);
        Self { mantissa: mul_high(guess << 16, factor) << 1, exponent: (log >> 1) as u8 }
    }

    /// The mantissa, from 2^31 - 2^18 to 2^32 - 1.
    #[inline]
    pub const fn mantissa(self) -> u32 {
        self.mantissa
    }

    /// Half of the binary logarithm of the number, rounded down: 0 to 15.
    #[inline]
    pub const fn exponent(self) -> u8 {
        self.exponent
    }
}

/// The guess for one part; the mask lets the compiler see that every index is inside.
#[inline]
#[expect(clippy::indexing_slicing, reason = "masked to the length of the table; `get` is not const")]
const fn guess(index: usize) -> u16 {
    GUESSES[index & 63]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// With r = `mantissa / 2^(32 + exponent)`, r^2 x must be at most one and, as r is short of it by less than 1e-4,
    /// more than one less 2e-4.
    fn assert_close(x: u32) {
        let root = InverseRoot::of(NonZeroU32::new(x).unwrap());
        let mantissa = u128::from(root.mantissa());
        let (product, one) = (mantissa * mantissa * u128::from(x), 1u128 << (64 + 2 * u32::from(root.exponent())));
        assert!(product <= one && (one - product) * 10_000 < one * 2, "1/sqrt({x}) as {root:?}");
        assert!(root.mantissa() >= (1 << 31) - (1 << 18));
    }

    #[test]
    fn an_inverse_root_is_low_by_less_than_a_ten_thousandth() {
        (1..1 << 22).for_each(assert_close);
        for exponent in 0..32 {
            for x in [1u32 << exponent, (1 << exponent) | ((1 << exponent) - 1), (1 << exponent) | (1 << exponent >> 1)]
            {
                assert_close(x);
            }
        }
        let mut random = Random(23);
        for _ in 0..1_000_000 {
            assert_close((random.below(u32::MAX) + 1) >> random.below(32) | 1);
        }
    }
}
