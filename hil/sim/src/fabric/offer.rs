//! Applications that offer the bytes of a flow over time, and not all at its beginning.

use crate::Picos;
use std::num::NonZeroU64;

/// How an application offers the bytes of a flow. A packet may leave when all of its payload is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Bits of payload per second, while it offers any.
    pub bits_per_second: NonZeroU64,
    /// It offers bytes for a time, above 0, and then for another none, over and over, from the beginning of the flow on. With `None`
    /// it offers them without a pause.
    pub periods: Option<(Picos, Picos)>,
}

impl Offer {
    /// How long after the beginning of the flow so many bytes are offered; `Picos::MAX` if that is beyond 213 days.
    pub(super) fn time(&self, bytes: u64) -> Picos {
        let active = (u128::from(bytes) * 8_000_000_000_000).div_ceil(u128::from(self.bits_per_second.get()));
        let idle = self.periods.map_or(0, |(on, off)| {
            // The last byte of a period is offered at its end.
            (active.saturating_sub(1) / u128::from(on.max(1))).saturating_mul(off.into())
        });
        Picos::try_from(active.saturating_add(idle)).unwrap_or(Picos::MAX)
    }

    /// The longest time in which it offers no packet of so many bytes.
    pub(super) fn longest_silence(&self, bytes: u32) -> Picos {
        let packet = Self { periods: None, ..*self }.time(bytes.into());
        match self.periods {
            // A packet is offered in several periods if one is too short.
            Some((on, off)) => packet.saturating_add(off.saturating_mul((packet / on.max(1)).saturating_add(1))),
            None => packet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 Gb/s are a byte in 1 ns: 1,000 bytes take 1 us, and in periods of 2 us, 3,000 bytes take a pause of 5 us more.
    #[test]
    fn bytes_are_offered_at_the_rate_in_the_periods() {
        let always = Offer { bits_per_second: NonZeroU64::new(8_000_000_000).unwrap(), periods: None };
        assert_eq!([0, 1, 1_000].map(|bytes| always.time(bytes)), [0, 1_000, 1_000_000]);
        let at_times = Offer { periods: Some((2_000_000, 5_000_000)), ..always };
        let times = [1_000, 2_000, 2_001, 3_000, 4_000, 4_001].map(|bytes| at_times.time(bytes));
        assert_eq!(times, [1_000_000, 2_000_000, 7_001_000, 8_000_000, 9_000_000, 14_001_000]);
        assert_eq!((always.longest_silence(1_000), at_times.longest_silence(1_000)), (1_000_000, 6_000_000));
        let slow = Offer { bits_per_second: NonZeroU64::MIN, periods: Some((1, u64::MAX)) };
        assert_eq!((slow.time(u64::MAX), slow.longest_silence(4_096)), (Picos::MAX, Picos::MAX));
    }
}
