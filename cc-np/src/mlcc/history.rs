//! The history of the rates R_DQM that were sent to a sender in the last round trip between the datacentres, kept as sums.

use cc_core::math::{Reciprocal, div_bitwise};
use cc_core::{Rate, State};
use core::num::NonZeroU32;

cc_core::zeroed! {
    /// Length and resolution of a history.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(super) struct Span {
        /// Number of sums in use.
        pub(super) sums: u16,
        /// Rates in each.
        pub(super) each: u16,
    }
}

impl Span {
    /// `n` rates in at most `buckets` sums; an `n` or `buckets` of zero is read as one.
    #[expect(clippy::cast_possible_truncation, reason = "quotients of 16 bits")]
    pub(super) fn new(n: u16, buckets: usize) -> Self {
        let parts = |by: u16| div_bitwise(u64::from(n).wrapping_add(u64::from(by)).wrapping_sub(1), by.into()) as u16;
        let each = parts(u16::try_from(buckets).unwrap_or(u16::MAX).max(1)).max(1);
        Self { sums: parts(each).max(1), each }
    }
}

/// The mean of the latest rates, kept as at most `BUCKETS` sums of consecutive rates.
///
/// A new sum replaces the oldest, so that at most one sum of rates is missing from the mean. Where each sum is of one rate, no
/// rate is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct History<const BUCKETS: usize> {
    sums: [u64; BUCKETS],
    total: u64,
    /// Rates in the total.
    count: u32,
    /// Index of the sum to which rates are added.
    newest: u16,
    /// Number of rates in that sum.
    filled: u16,
}

cc_core::snapshot! {
    /// The rates that were sent to a sender, as sums of consecutive rates.
    pub struct HistorySnapshot<const BUCKETS: usize> {
        /// The sums, in 2^-24 bytes per nanosecond.
        pub sums: [u64; BUCKETS],
        /// The sum of all sums.
        pub total: u64,
        /// Rates in the total.
        pub count: u32,
        /// Index of the sum to which rates are added.
        pub newest: u16,
        /// Number of rates in that sum.
        pub filled: u16,
    }
}

impl<const BUCKETS: usize> State for History<BUCKETS> {
    type Snapshot = HistorySnapshot<BUCKETS>;

    fn snapshot(&self) -> HistorySnapshot<BUCKETS> {
        let Self { sums, total, count, newest, filled } = *self;
        HistorySnapshot { sums, total, count, newest, filled }
    }

    fn from_snapshot(s: HistorySnapshot<BUCKETS>) -> Self {
        let HistorySnapshot { sums, total, count, newest, filled } = s;
        Self { sums, total, count, newest, filled }
    }
}

impl<const BUCKETS: usize> History<BUCKETS> {
    /// No rate.
    pub(super) const EMPTY: Self = Self { sums: [0; BUCKETS], total: 0, count: 0, newest: 0, filled: 0 };

    /// Adds the rate of a new reply to the sender.
    pub(super) fn push(&mut self, span: Span, rate: Rate) {
        if self.filled >= span.each {
            self.newest = if self.newest.wrapping_add(1) >= span.sums { 0 } else { self.newest.wrapping_add(1) };
            self.filled = 0;
        }
        let Some(sum) = self.sums.get_mut(usize::from(self.newest)) else { return };
        if self.filled == 0 {
            // A sum other than the newest is full, or zero where it has not begun.
            self.count = self.count.wrapping_sub(if *sum > 0 { span.each.into() } else { 0 });
            self.total = self.total.wrapping_sub(*sum);
            *sum = 0;
        }
        let rate = u64::from(rate.to_bits());
        (*sum, self.total) = (sum.wrapping_add(rate), self.total.wrapping_add(rate));
        (self.count, self.filled) = (self.count.wrapping_add(1), self.filled.wrapping_add(1));
    }

    /// The mean, at most 4e-6 of itself too low; zero where there are no rates.
    #[expect(clippy::cast_possible_truncation, reason = "the halves of a 64-bit value; a mean of 32-bit values")]
    pub(super) fn mean(&self) -> Rate {
        let Some(count) = NonZeroU32::new(self.count) else { return Rate::from_bits(0) };
        let by = Reciprocal::of(count);
        // At most 2^16 rates, so that the upper half has 16 bits.
        let (high, low) = (self.total >> 32, u64::from(self.total as u32));
        let mantissa = u64::from(by.mantissa());
        let scaled = high.wrapping_mul(mantissa).wrapping_add(low.wrapping_mul(mantissa) >> 32);
        Rate::from_bits((scaled >> by.exponent()) as u32)
    }
}
