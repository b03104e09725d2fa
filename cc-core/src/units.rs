//! Quantities with units. Only this file computes with their raw bits.
//!
//! | type | representation | unit, range |
//! | --- | --- | --- |
//! | [`Rate`] | `U8F24` | bytes per nanosecond, 0 to 2 047 Gb/s in steps of 477 b/s |
//! | [`Frac`] | `U1F31` | a share of one, 0 to 1 inclusive |
//! | [`Bytes`] | `u32` | bytes |
//! | [`Nanos`] | `u32` | a duration in nanoseconds, at most 4.29 s |
//! | [`Instant`] | `u64` | nanoseconds of a clock that never wraps; in contexts, not stored in state |
//! | [`Stamp`] | `u32` | the low half of an [`Instant`]; what state stores |
//! | [`Psn`], [`Qpn`] | 24 bits | packet sequence number, queue pair number |
//!
//! An operation saturates, unless its name says that it wraps; an operation that rounds documents the direction.

use crate::Zeroed;
use crate::math::{Reciprocal, div_bitwise};
use core::fmt::{self, Display};
use core::num::NonZeroU32;
use fixed::types::{U0F32, U1F31, U8F24, U11F21, U32F0, U32F32, U33F31, U40F24};

/// A data rate in bytes per nanosecond, `U8F24`.
///
/// One gigabit per second is exactly 2^21 raw, so the speeds of real ports are exact. A raw step is
/// 476.8 b/s; the ceiling is just under 2 048 Gb/s.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rate(U8F24);

impl Zeroed for Rate {
    const ZEROED: Self = Self::ZERO;
}

impl Rate {
    /// A rate of zero.
    pub const ZERO: Self = Self(U8F24::ZERO);
    /// The largest rate the format holds, just under 2 048 Gb/s.
    pub const MAX: Self = Self(U8F24::MAX);

    /// The rate with these raw bits (2^24 raw = 1 B/ns = 8 Gb/s).
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        Self(U8F24::from_bits(bits))
    }

    /// The raw bits.
    #[inline]
    pub const fn to_bits(self) -> u32 {
        self.0.to_bits()
    }

    /// A rate given in Gb/s; exact, saturating at [`Rate::MAX`].
    pub const fn from_gbps(gbps: u32) -> Self {
        if gbps >= 2048 { Self::MAX } else { Self::from_bits(U11F21::const_from_int(gbps).to_bits()) }
    }

    /// A rate given in Mb/s, rounded to the nearest raw step and saturating at [`Rate::MAX`].
    ///
    /// Whole gigabits and the rest are converted separately, so that 32 bits suffice and no image needs a 64-bit division.
    // Not inlined: for configuration, not on the path from an event to the pacer.
    #[inline(never)]
    #[expect(
        clippy::integer_division,
        clippy::arithmetic_side_effects,
        reason = "constant divisor; bounded by the test"
    )]
    pub const fn from_mbps(mbps: u32) -> Self {
        if mbps >= 2_048_000 {
            return Self::MAX;
        }
        let (gbps, rest) = (mbps / 1_000, mbps % 1_000);
        Self::from_bits((gbps << 21).saturating_add(((rest << 21) + 500) / 1_000))
    }

    /// The rate in bits per second, rounded to the nearest; at most 2.048e12. For reports and the settings of a simulator.
    ///
    /// A raw step is 8e9 / 2^24 = 1 953 125 / 4 096 bit/s.
    #[inline]
    pub const fn to_bits_per_second(self) -> u64 {
        (self.to_bits() as u64).wrapping_mul(1_953_125).wrapping_add(2_048) >> 12
    }

    /// The rate of this many bits per second, rounded to the nearest raw step and saturating at [`Rate::MAX`]; the inverse of
    /// [`Rate::to_bits_per_second`]. For configuration: it divides bit by bit.
    #[expect(clippy::cast_possible_truncation, reason = "tested just before")]
    pub const fn from_bits_per_second(bits_per_second: u64) -> Self {
        if bits_per_second >= 2_048_000_000_000 {
            return Self::MAX;
        }
        let raw = div_bitwise((bits_per_second << 12).wrapping_add(976_562), 1_953_125);
        if raw > u32::MAX as u64 { Self::MAX } else { Self::from_bits(raw as u32) }
    }

    /// Bytes sent in `time` at this rate, rounded down, saturating.
    #[inline]
    pub const fn bytes_in(self, time: Nanos) -> Bytes {
        let bytes: U40F24 = self.0.wide_mul(U32F0::from_bits(time.0));
        Bytes(saturate(bytes.to_bits() >> U40F24::FRAC_NBITS))
    }

    /// The time that `bytes` take at this rate, rounded down and low by at most 4e-6 of it. [`Nanos::MAX`] if it is longer than
    /// that, or if the rate is zero.
    #[inline]
    pub const fn time_for(self, bytes: Bytes) -> Nanos {
        Nanos(scaled_quotient(bytes.0, self.to_bits()))
    }

    /// `self + other`, saturating at [`Rate::MAX`].
    #[inline]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// `self - other`, saturating at zero.
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// This share of the rate, rounded down.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the factor is at most one")]
    pub const fn scale(self, share: Frac) -> Self {
        Self::from_bits(U40F24::const_from_fixed(self.0.wide_mul(share.0)).to_bits() as u32)
    }

    /// The mean of two rates, rounded down to a raw step.
    #[inline]
    pub const fn mean(self, other: Self) -> Self {
        Self(self.0.mean(other.0))
    }
}

/// In Gb/s, with enough digits to distinguish adjacent raw values, or with the precision of the format: `12.5 Gb/s`.
impl Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Eight bits to the byte: the same raw bits with the binary point three places to the right.
        U11F21::from_bits(self.to_bits()).fmt(f)?;
        f.write_str(" Gb/s")
    }
}

/// The value cut to 32 bits.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "tested just before")]
const fn saturate(value: u64) -> u32 {
    if value > u32::MAX as u64 { u32::MAX } else { value as u32 }
}

/// `2^24 n / d` by a reciprocal, rounded down and low by at most 4e-6 of it; saturates, also if `d` is zero.
#[inline]
const fn scaled_quotient(n: u32, d: u32) -> u32 {
    let Some(d) = NonZeroU32::new(d) else { return u32::MAX };
    let inverse = Reciprocal::of(d);
    let product: U32F32 = U32F0::from_bits(n).wide_mul(U0F32::from_bits(inverse.mantissa()));
    // Of the 32 fraction bits the result keeps 24.
    saturate(product.to_bits().wrapping_shr((inverse.exponent() as u32).wrapping_add(8)))
}

/// A share of one, 0 to 1 inclusive, `U1F31`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Frac(U1F31);

impl Zeroed for Frac {
    const ZEROED: Self = Self::ZERO;
}

impl Frac {
    /// Zero.
    pub const ZERO: Self = Self(U1F31::ZERO);
    /// One.
    pub const ONE: Self = Self(U1F31::ONE);

    /// The share with these raw bits (2^31 raw = 1); more than one is cut to one.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        if bits > U1F31::ONE.to_bits() { Self::ONE } else { Self(U1F31::from_bits(bits)) }
    }

    /// The raw bits.
    #[inline]
    pub const fn to_bits(self) -> u32 {
        self.0.to_bits()
    }

    /// `numerator / denominator`, rounded down and cut to one; zero when the denominator is zero. For configuration.
    #[expect(clippy::cast_possible_truncation, reason = "the quotient is below 2^31")]
    pub const fn from_ratio(numerator: u32, denominator: u32) -> Self {
        if numerator >= denominator {
            return if denominator == 0 { Self::ZERO } else { Self::ONE };
        }
        Self::from_bits(div_bitwise((numerator as u64) << 31, denominator) as u32)
    }

    /// `1 - self`, exact.
    #[inline]
    pub const fn complement(self) -> Self {
        Self(U1F31::ONE.saturating_sub(self.0))
    }

    /// `self / 2`, rounded down.
    #[inline]
    pub const fn half(self) -> Self {
        Self(self.0.wrapping_shr(1))
    }

    /// `self * other`, rounded down, so that repeated decay reaches zero and does not stick.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "both factors are at most one")]
    pub const fn times(self, other: Self) -> Self {
        Self(U1F31::from_bits(U33F31::const_from_fixed(self.0.wide_mul(other.0)).to_bits() as u32))
    }

    /// `self + other`, cut to one.
    #[inline]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self::from_bits(self.0.saturating_add(other.0).to_bits())
    }
}

/// As a number from 0 to 1, with enough digits to distinguish adjacent raw values, or with the precision of the format.
impl Display for Frac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $unit:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        pub struct $name(u32);

        impl Zeroed for $name {
            const ZEROED: Self = Self::ZERO;
        }

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);
            /// The largest value, which also stands for "without bound".
            pub const MAX: Self = Self(u32::MAX);

            #[doc = concat!("A quantity of ", $unit, ".")]
            #[inline]
            pub const fn new(value: u32) -> Self {
                Self(value)
            }

            #[doc = concat!("The number of ", $unit, ".")]
            #[inline]
            pub const fn get(self) -> u32 {
                self.0
            }

            /// `self + other`, saturating.
            #[inline]
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }

            /// `self - other`, saturating at zero.
            #[inline]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }
    };
}

quantity!(
    /// A number of bytes; `Bytes::MAX` as a window means "no window".
    Bytes,
    "bytes"
);
quantity!(
    /// A duration in nanoseconds, at most 4.29 s; `Nanos::MAX` as a wake means "never".
    Nanos,
    "nanoseconds"
);

impl Bytes {
    /// The rate that sends this many bytes in `time`, rounded down and low by at most 4e-6 of it. [`Rate::MAX`] if it is higher
    /// than that, or if `time` is zero.
    #[inline]
    pub const fn per(self, time: Nanos) -> Rate {
        Rate::from_bits(scaled_quotient(self.0, time.0))
    }
}

impl Nanos {
    /// A duration in microseconds, or `None` above 4 294 967 us, where the format ends.
    pub const fn from_micros(micros: u32) -> Option<Self> {
        match micros.checked_mul(1_000) {
            Some(nanos) => Some(Self(nanos)),
            None => None,
        }
    }
}

/// A point on the caller's clock: nanoseconds in 64 bits, which do not wrap for 584 years.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Instant(u64);

impl Zeroed for Instant {
    const ZEROED: Self = Self(0);
}

impl Instant {
    /// The instant this many nanoseconds after the clock's zero.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's zero.
    #[inline]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The low 32 bits, which state stores.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a stamp is the low half")]
    pub const fn stamp(self) -> Stamp {
        Stamp(self.0 as u32)
    }

    /// This instant moved forward, saturating.
    #[inline]
    pub const fn after(self, wait: Nanos) -> Self {
        Self(self.0.saturating_add(wait.0 as u64))
    }
}

/// The low 32 bits of an [`Instant`]: what state stores.
///
/// Unambiguous only between stamps less than 2.147 s apart. The engines keep that true by visiting
/// every slot at least once a second.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Stamp(u32);

impl Zeroed for Stamp {
    const ZEROED: Self = Self(0);
}

impl Stamp {
    /// The stamp with these raw nanoseconds, modulo 2^32.
    #[inline]
    pub const fn from_bits(nanos: u32) -> Self {
        Self(nanos)
    }

    /// Raw nanoseconds, modulo 2^32.
    #[inline]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// Time from `earlier` to `self`, modulo 2^32 ns.
    #[inline]
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.wrapping_sub(earlier.0))
    }

    /// This stamp moved forward, modulo 2^32 ns.
    #[inline]
    pub const fn after(self, wait: Nanos) -> Self {
        Self(self.0.wrapping_add(wait.0))
    }

    /// Whether `self` is at or before `now` (serial comparison).
    #[inline]
    pub const fn is_due(self, now: Self) -> bool {
        now.0.wrapping_sub(self.0) < 1 << 31
    }
}

macro_rules! number24 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        pub struct $name(u32);

        impl $name {
            /// The number, modulo 2^24: for values that are below, or are meant to wrap. See [`Self::checked`].
            #[inline]
            pub const fn new(value: u32) -> Self {
                Self(value & 0x00ff_ffff)
            }

            /// The number; `None` if it has more than 24 bits: for values from outside.
            #[inline]
            pub const fn checked(value: u32) -> Option<Self> {
                if value >> 24 == 0 { Some(Self(value)) } else { None }
            }

            /// The number, below 2^24.
            #[inline]
            pub const fn get(self) -> u32 {
                self.0
            }
        }
    };
}

number24!(
    /// A queue pair number.
    Qpn
);
number24!(
    /// A packet sequence number. Compared serially, modulo 2^24: see [`Psn::is_after`].
    Psn
);

impl Psn {
    /// Two numbers farther apart than these 2^22 packets cannot be compared: a flow that was silent for long, or began again
    /// elsewhere, may be on either side.
    pub const FAR: u32 = 1 << 22;

    /// The sequence number `packets` later, modulo 2^24.
    #[inline]
    pub const fn plus(self, packets: u32) -> Self {
        Self::new(self.0.wrapping_add(packets))
    }

    /// Packets from `earlier` to `self`, modulo 2^24.
    #[inline]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & 0x00ff_ffff
    }

    /// Whether `self` comes after `other` within half the number space (IBTA serial comparison).
    #[inline]
    pub const fn is_after(self, other: Self) -> bool {
        let ahead = self.since(other);
        ahead != 0 && ahead < 1 << 23
    }

    /// Whether an acknowledgement of this packet has passed `mark`: it comes after it, or is more than [`Psn::FAR`] before it.
    #[inline]
    pub const fn has_passed(self, mark: Self) -> bool {
        mark.since(self) > Self::FAR
    }
}

#[cfg(feature = "defmt")]
mod log {
    use super::{Frac, Rate};

    impl defmt::Format for Rate {
        fn format(&self, f: defmt::Formatter<'_>) {
            defmt::write!(f, "{=u32} B/ns/2^24", self.to_bits());
        }
    }

    impl defmt::Format for Frac {
        fn format(&self, f: defmt::Formatter<'_>) {
            defmt::write!(f, "{=u32}/2^31", self.to_bits());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;
    use std::string::ToString;

    #[test]
    fn numbers_of_24_bits_wrap_or_are_checked() {
        assert_eq!((Psn::new(0x100_0001), Psn::checked(0x100_0001)), (Psn::new(1), None));
        assert_eq!(Psn::checked(0xff_ffff).map(Psn::get), Some(0xff_ffff));
        assert_eq!(Qpn::checked(0x8000_0000), None);
    }

    #[test]
    fn port_speeds_are_exact() {
        for gbps in [10, 25, 40, 50, 100, 200, 400, 800, 1600] {
            let rate = Rate::from_gbps(gbps);
            assert_eq!(rate.bytes_in(Nanos::new(8_000)), Bytes::new(gbps * 1_000));
            assert_eq!(rate, Rate::from_mbps(gbps * 1_000));
        }
    }

    proptest! {
        #[test]
        fn rates_convert_to_bits_per_second_and_back(raw: u32, bits_per_second in 0..2_048_000_000_000_u64) {
            let rate = Rate::from_bits(raw);
            let exact = f64::from(raw) * 8e9 / f64::from(1 << 24);
            prop_assert!((rate.to_bits_per_second() as f64 - exact).abs() <= 0.5);
            prop_assert_eq!(Rate::from_bits_per_second(rate.to_bits_per_second()), rate);
            let back = Rate::from_bits_per_second(bits_per_second).to_bits_per_second();
            prop_assert!(back.abs_diff(bits_per_second) <= 239 || back == Rate::MAX.to_bits_per_second());
        }
    }

    #[test]
    fn rates_beyond_the_format_saturate_and_those_of_ports_are_exact() {
        for gbps in [0, 1, 25, 100, 400, 1_600, 2_047] {
            let bits_per_second = u64::from(gbps) * 1_000_000_000;
            assert_eq!(Rate::from_gbps(gbps).to_bits_per_second(), bits_per_second);
            assert_eq!(Rate::from_bits_per_second(bits_per_second), Rate::from_gbps(gbps));
        }
        assert_eq!(Rate::from_bits_per_second(u64::MAX), Rate::MAX);
        assert_eq!(Rate::from_bits_per_second(2_047_999_999_999), Rate::MAX);
    }

    #[test]
    fn one_megabit_is_within_a_twentieth_of_a_percent() {
        assert_eq!(Rate::from_mbps(1).to_bits(), 2_097);
    }

    #[test]
    fn the_longest_duration_is_exact_or_refused() {
        assert_eq!(Nanos::from_micros(4_294_967), Some(Nanos::new(4_294_967_000)));
        assert_eq!(Nanos::from_micros(4_294_968), None);
    }

    #[test]
    fn times_and_rates_are_low_by_four_millionths_at_most() {
        for gbps in [1, 10, 40, 100, 400, 800, 2_047] {
            for bytes in [64, 1_000, 9_000, 1_000_000, 100_000_000] {
                let exact = f64::from(bytes) * 8.0 / f64::from(gbps);
                let time = f64::from(Rate::from_gbps(gbps).time_for(Bytes::new(bytes)).get());
                assert!(time <= exact && time >= exact * (1.0 - 4e-6) - 1.0, "{bytes} B at {gbps} Gb/s: {time}");
                let rate = f64::from(Bytes::new(bytes).per(Nanos::new(gbps * 1_000)).to_bits());
                let exact = (f64::from(bytes) / f64::from(gbps) * 16_777.216).min(f64::from(u32::MAX));
                assert!(rate <= exact && rate >= exact * (1.0 - 4e-6) - 1.0, "{bytes} B in {gbps} us: {rate}");
            }
        }
        assert_eq!(Rate::ZERO.time_for(Bytes::new(1)), Nanos::MAX);
        assert_eq!(Rate::from_bits(1).time_for(Bytes::MAX), Nanos::MAX);
        assert_eq!(Bytes::new(1).per(Nanos::ZERO), Rate::MAX);
        assert_eq!((Bytes::ZERO.per(Nanos::new(1)), Rate::MAX.time_for(Bytes::ZERO)), (Rate::ZERO, Nanos::ZERO));
    }

    #[test]
    fn sequence_numbers_compare_across_the_wrap() {
        let last = Psn::new(0xff_ffff);
        assert!(last.plus(1).is_after(last));
        assert!(!last.is_after(last.plus(1)));
        assert_eq!(last.plus(17).since(last), 17);
        assert!(!last.is_after(last));
    }

    #[test]
    fn a_mark_is_passed_behind_it_and_far_before_it() {
        let mark = Psn::new(0xff_fff0);
        for (ahead, passed) in
            [(0, false), (1, true), (1 << 22, true), (1 << 23, true), ((1 << 24) - Psn::FAR - 1, true)]
        {
            assert_eq!(mark.plus(ahead).has_passed(mark), passed, "{ahead} ahead");
        }
        for before in [1, Psn::FAR] {
            assert!(!mark.has_passed(mark.plus(before)), "{before} before");
        }
    }

    #[test]
    fn stamps_compare_across_the_wrap() {
        let before = Stamp::from_bits(0xffff_fff0);
        let after = before.after(Nanos::new(0x20));
        assert!(before.is_due(after) && !after.is_due(before));
        assert_eq!(after.since(before), Nanos::new(0x20));
    }

    #[test]
    fn shares_stay_within_one() {
        assert_eq!(Frac::ONE.complement(), Frac::ZERO);
        assert_eq!(Frac::ONE.times(Frac::ONE), Frac::ONE);
        assert_eq!(Frac::from_ratio(1, 256).to_bits(), 1 << 23);
        assert_eq!(Frac::ONE.saturating_add(Frac::ONE), Frac::ONE);
        assert_eq!(Rate::from_gbps(100).scale(Frac::ONE.half()), Rate::from_gbps(50));
    }

    #[test]
    fn rates_and_shares_are_shown_in_decimal() {
        assert_eq!(Rate::from_gbps(100).to_string(), "100 Gb/s");
        assert_eq!(format!("{:.3}", Rate::from_mbps(2_500)), "2.500 Gb/s");
        assert_eq!(Rate::from_bits(1).to_string(), "0.0000005 Gb/s");
        assert_eq!(Frac::from_ratio(3, 8).to_string(), "0.375");
        // 2^21 raw are one Gb/s, and no two rates are shown alike.
        for bits in [3, 2_097, 0x1234_5678, u32::MAX] {
            let gbps: f64 = Rate::from_bits(bits).to_string().trim_end_matches(" Gb/s").parse().unwrap();
            assert!((gbps * f64::from(1 << 21) - f64::from(bits)).abs() < 0.5, "{gbps} Gb/s");
        }
    }

    #[test]
    fn a_mean_rounds_down_without_overflow() {
        assert_eq!(Rate::MAX.mean(Rate::from_bits(u32::MAX - 2)), Rate::from_bits(u32::MAX - 1));
        assert_eq!(Rate::from_bits(3).mean(Rate::from_bits(4)), Rate::from_bits(3));
    }
}
