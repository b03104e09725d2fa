//! The random number generator for marks: PCG-XSH-RR 64/32.
//!
//! M. E. O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number Generation",
//! HMC-CS-2014-0905, section 6.3. All generators use the same stream, that of the author's demonstration, with different seeds.

use cc_core::{State, Zeroed};

const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
/// Stream 54, as in the author's `pcg32-demo`.
const INCREMENT: u64 = 54 << 1 | 1;

/// A generator of uniform 32-bit numbers, which are the same for the same seed on every target. It has 8 bytes of state and
/// uses no division.
///
/// The state is kept in two halves, low half first, so that a struct with a generator needs no alignment of more than 4 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pcg32([u32; 2]);

impl Zeroed for Pcg32 {
    const ZEROED: Self = Self([0; 2]);
}

/// The state of the generator, 64 bits.
impl State for Pcg32 {
    type Snapshot = u64;

    fn snapshot(&self) -> u64 {
        let Self([low, high]) = *self;
        u64::from(high) << 32 | u64::from(low)
    }

    fn from_snapshot(state: u64) -> Self {
        Self(Self::halves(state))
    }
}

impl Pcg32 {
    /// The generator at the start of the sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(Self::halves(Self::step(Self::step(0).wrapping_add(seed))))
    }

    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    const fn halves(state: u64) -> [u32; 2] {
        [state as u32, (state >> 32) as u32]
    }

    const fn step(state: u64) -> u64 {
        state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT)
    }

    /// The next number.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the algorithm keeps the low 32 bits, and five bits of 64")]
    pub const fn draw(&mut self) -> u32 {
        let [low, high] = self.0;
        let state = (high as u64) << 32 | low as u64;
        self.0 = Self::halves(Self::step(state));
        ((((state >> 18) ^ state) >> 27) as u32).rotate_right((state >> 59) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_those_that_the_author_published() {
        let mut pcg = Pcg32::new(42);
        let first: [u32; 6] = core::array::from_fn(|_| pcg.draw());
        assert_eq!(first, [0xa15c_02b7, 0x7b47_f409, 0xba1d_3330, 0x83d2_f293, 0xbfa4_784b, 0xcbed_606e]);
    }
}
