//! Arithmetic that stands in for division and powers, each with its error bound.
//!
//! | type | gives | error | cost in instructions on rv32imc |
//! | --- | --- | --- | --- |
//! | [`Reciprocal`] | 1/x | below by at most 3.9e-6 of it | normalise, one load, two multiplies |
//! | [`Divider`] | n / d, d fixed | none | one multiply, two shifts |
//! | [`InverseRoot`] | 1/sqrt(x) | below by less than 1e-4 of it | normalise, one load, three multiplies |
//! | [`ratio`] | part / whole | below by at most 3.9e-6 of it | a reciprocal, one shift, one multiply |
//! | [`one_minus_tanh`] | 1 - tanh x | less than 5e-4 of it | two loads, one multiply |
//!
//! None of them uses a division instruction or helper routine, neither to be set up nor to compute a value.

mod root;
mod tanh;

pub use root::InverseRoot;
pub use tanh::one_minus_tanh;

use core::num::NonZeroU32;
use fixed::types::{U0F32, U32F0, U32F32};

/// First guesses for [`Reciprocal`]: 2^15 / x, rounded to nearest, with x the middle of each of 256 equal parts of 1/2 to 1.
const GUESSES: [u16; 256] = guesses();

#[expect(
    clippy::integer_division,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "evaluated by the compiler only; the largest entry is 65 408"
)]
const fn guesses() -> [u16; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < table.len() {
        let middle = 513 + 2 * i as u32;
        table[i] = (((1 << 25) + middle / 2) / middle) as u16;
        i += 1;
    }
    table
}

/// `n / d`, rounded down, bit by bit; zero where `d` is zero.
///
/// For configuration: it takes 64 rounds, and keeps the compiler's division routine out of images.
#[inline(never)]
pub const fn div_bitwise(mut n: u64, d: u32) -> u64 {
    if d == 0 {
        return 0;
    }
    // `n` is shifted left: the dividend's bits move out at the top into the remainder, and the quotient's bits move in at the
    // bottom.
    let mut remainder = 0u32;
    let mut bits = u64::BITS;
    while bits > 0 {
        let more = remainder >> 31 != 0;
        remainder = remainder << 1 | (n >> 63) as u32;
        n <<= 1;
        if more || remainder >= d {
            remainder = remainder.wrapping_sub(d);
            n |= 1;
        }
        bits = bits.wrapping_sub(1);
    }
    n
}

/// The reciprocal of a number, as mantissa and exponent: `1/x = mantissa / 2^(32 + exponent)`.
///
/// Never above the true value, and below it by at most 3.9e-6 of it. A 256-entry table (512 bytes, one for
/// the whole image) and one Newton step: on a small core that is cheaper than the 37 cycles of a hardware
/// division followed by the same step, and it serves cores that have no divider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Reciprocal {
    mantissa: u32,
    exponent: u8,
}

impl Reciprocal {
    /// The reciprocal of `x`.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a high half of 64 bits; an exponent below 32")]
    pub const fn of(x: NonZeroU32) -> Self {
        let (normal, zeros) = normalise(x.get());
        let part = ((normal >> 23) & 0xff) as usize;
        // With y the guess and x in 1/2 to 1, the Newton step is y (2 - x y), here rounded down throughout.
        let guess = (at(&GUESSES, part) as u32) << 16;
        let product = mul_high(normal, guess);
        Self { mantissa: mul_high(guess, !product) << 1, exponent: 31u32.wrapping_sub(zeros) as u8 }
    }

    /// The mantissa, from 2^31 to 2^32 - 1.
    #[inline]
    pub const fn mantissa(self) -> u32 {
        self.mantissa
    }

    /// The binary logarithm of the number, rounded down: 0 to 31.
    #[inline]
    pub const fn exponent(self) -> u8 {
        self.exponent
    }
}

/// Shifts a number other than zero left until its highest bit is set. Returns it and the number of places.
///
/// Shifts by 16, 8, 4, 2 and 1: on cores without an instruction that counts leading zeros this takes two thirds of the time of
/// `leading_zeros`.
#[inline]
const fn normalise(mut x: u32) -> (u32, u32) {
    let mut zeros = 0u32;
    let mut half = 16;
    while half > 0 {
        if x >> 32u32.wrapping_sub(half) == 0 {
            x <<= half;
            zeros |= half;
        }
        half >>= 1;
    }
    (x, zeros)
}

/// `value * share`, the share in units of 2^-32, rounded down: the high half of the product.
#[inline]
pub const fn mul_high(value: u32, share: u32) -> u32 {
    let product: U32F32 = U32F0::from_bits(value).wide_mul(U0F32::from_bits(share));
    (product.to_bits() >> U32F32::FRAC_NBITS) as u32
}

/// `part / whole` in units of 2^-32, for a part that is smaller than the whole. Zero if both are zero.
#[inline(always)]
pub const fn ratio(part: u32, whole: u32) -> u32 {
    let Some(whole) = NonZeroU32::new(whole) else { return 0 };
    let reciprocal = Reciprocal::of(whole);
    // Shifted by the places that normalise `whole`, `part`, which is smaller, still fits 32 bits.
    let normal = part.wrapping_shl(31u32.wrapping_sub(reciprocal.exponent as u32));
    mul_high(normal, reciprocal.mantissa) << 1
}

/// The guess for one part; the mask lets the compiler see that every index is inside.
#[inline]
#[expect(clippy::indexing_slicing, reason = "masked to the length of the table; `get` is not const")]
const fn at(table: &[u16; 256], index: usize) -> u16 {
    table[index & 0xff]
}

crate::zeroed! {
    /// Exact division of any `u32` by a fixed one, by multiplication.
    ///
    /// Granlund and Montgomery, "Division by Invariant Integers using Multiplication", PLDI 1994, figure 4.1.
    /// Rounds down, for every dividend and every divisor but zero.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct Divider {
        multiplier: u32,
        /// The first shift: 1, or 0 if the divisor is 1.
        first: u8,
        /// The second shift.
        second: u8,
    }
}

impl Divider {
    /// A divider by `divisor`. Works bit by bit, some hundred cycles: for configuration.
    #[inline(never)]
    #[expect(clippy::cast_possible_truncation, reason = "the quotient of a number below the divisor and 2^32")]
    pub const fn new(divisor: NonZeroU32) -> Self {
        let divisor = divisor.get();
        // The least power of two that is not below the divisor, modulo 2^32, and its logarithm.
        let (mut power, mut log2) = (1u32, 0u8);
        let mut rest = divisor.wrapping_sub(1);
        while rest > 0 {
            rest >>= 1;
            power <<= 1;
            log2 = log2.wrapping_add(1);
        }
        let quotient = div_bitwise((power.wrapping_sub(divisor) as u64) << 32, divisor);
        Self {
            multiplier: (quotient as u32).wrapping_add(1),
            first: if log2 == 0 { 0 } else { 1 },
            second: log2.saturating_sub(1),
        }
    }

    /// `dividend` over the divisor, rounded down.
    #[inline]
    pub const fn quotient(self, dividend: u32) -> u32 {
        let high = mul_high(self.multiplier, dividend);
        dividend.wrapping_sub(high).wrapping_shr(self.first as u32).wrapping_add(high).wrapping_shr(self.second as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn assert_close(x: u32) {
        let inverse = Reciprocal::of(NonZeroU32::new(x).unwrap());
        assert_eq!(u32::from(inverse.exponent()), x.ilog2());
        let product = u128::from(inverse.mantissa()) * u128::from(x);
        let one = 1u128 << (32 + x.ilog2());
        assert!(product <= one && (one - product) * 10_000_000 <= one * 39, "1/{x}");
    }

    #[test]
    fn a_reciprocal_is_low_by_four_millionths_at_most() {
        for mantissa in 1 << 22..1 << 23 {
            assert_close(mantissa);
        }
        for exponent in 0..32 {
            for x in [1 << exponent, (1 << exponent) + ((1u32 << exponent) - 1), 3 << exponent >> 1] {
                assert_close(x.max(1));
            }
        }
        let mut random = Random(11);
        for _ in 0..1_000_000 {
            assert_close(random.below(u32::MAX) + 1);
        }
    }

    #[test]
    fn a_ratio_is_low_by_four_millionths_at_most() {
        let mut random = Random(13);
        for _ in 0..1_000_000 {
            let whole = random.below(u32::MAX) >> random.below(32);
            if whole == 0 {
                continue;
            }
            let part = random.below(whole);
            let (found, exact) = (f64::from(ratio(part, whole)), f64::from(part) / f64::from(whole) * 2f64.powi(32));
            assert!(found <= exact && exact - found <= 3.9e-6 * exact + 4.0, "{part} / {whole}: {found} for {exact}");
        }
        assert_eq!((ratio(0, 0), ratio(0, 7)), (0, 0));
    }

    /// Theorem 4.2 of Granlund and Montgomery: with 2^(32+l) <= m d <= 2^(32+l) + 2^l the quotient is exact for
    /// every dividend of 32 bits. Here m is 2^32 and the multiplier.
    fn assert_exact(divisor: u32) {
        let divider = Divider::new(NonZeroU32::new(divisor).unwrap());
        let log2 = u32::from(divider.first) + u32::from(divider.second);
        let product = ((1u128 << 32) + u128::from(divider.multiplier)) * u128::from(divisor);
        assert!(1u128 << (32 + log2) <= product && product <= (1u128 << (32 + log2)) + (1 << log2), "/ {divisor}");
        let largest = u32::MAX / divisor * divisor;
        for dividend in [0, 1, divisor - 1, divisor, divisor.saturating_add(1), largest - 1, largest, u32::MAX] {
            assert_eq!(divider.quotient(dividend), dividend / divisor, "{dividend} / {divisor}");
        }
    }

    #[test]
    fn a_division_bit_by_bit_is_a_division() {
        let mut random = Random(17);
        for _ in 0..10_000 {
            let (n, d) = (u64::from(random.below(u32::MAX)) << random.below(33), random.below(u32::MAX) + 1);
            assert_eq!(div_bitwise(n, d), n / u64::from(d));
        }
        assert_eq!(
            (div_bitwise(u64::MAX, 1), div_bitwise(u64::MAX, u32::MAX), div_bitwise(7, 0)),
            (u64::MAX, 0x1_0000_0001, 0)
        );
    }

    #[test]
    fn a_quotient_is_exact() {
        (1..100_000).for_each(assert_exact);
        for exponent in 0..32 {
            let power = 1u32 << exponent;
            [power - 1, power, power + 1].into_iter().filter(|&d| d != 0).for_each(assert_exact);
        }
        (u32::MAX - 1_000..=u32::MAX).for_each(assert_exact);
        let mut random = Random(13);
        for _ in 0..100_000 {
            assert_exact(random.below(u32::MAX) + 1);
        }
    }
}
