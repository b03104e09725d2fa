//! The pacer: computes from a decision when the next packet may leave, without a division per packet.

use crate::math::Reciprocal;
use crate::units::{Bytes, Nanos, Rate, Stamp};
use core::num::NonZeroU32;

/// The longest time of one byte that the pacer holds, in the form of [`byte_time`].
const SLOWEST: (u16, u32) = (u16::MAX, u32::MAX);

/// Marks that the time of one byte is not computed yet: no rate gives zero.
const UNKNOWN: (u16, u32) = (0, 0);

/// The pacer of one flow, 20 bytes: its rate, its window, and when its next packet may leave.
///
/// After the first two packets, no run of packets exceeds the rate, and it is slower than the rate by less than 0.01 %, down to
/// frames of 64 bytes at 800 Gb/s: gaps are computed to 2^-16 ns and rounded up, and the fraction of a nanosecond is carried
/// over to the next departure.
///
/// Rates below 244 kb/s are paced as 122 kb/s, and no gap is longer than [`Pacer::LONGEST`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pacer {
    rate: Rate,
    window: Bytes,
    /// When the next packet may leave: whole nanoseconds, and 2^-16 ns.
    next: Stamp,
    next_fraction: u16,
    /// Time of one byte: whole nanoseconds, and 2^-32 ns.
    byte: u16,
    byte_fraction: u32,
}

const _: () = assert!(size_of::<Pacer>() == 20);

impl Pacer {
    /// The longest gap after one packet, and the furthest ahead that a next departure may lie: 2^30 ns.
    pub const LONGEST: Nanos = Nanos::new(1 << 30);

    /// A flow that may send at once.
    pub fn new(now: Stamp, rate: Rate, window: Bytes) -> Self {
        let (byte, byte_fraction) = UNKNOWN;
        Self { rate, window, next: now, next_fraction: 0, byte, byte_fraction }
    }

    /// Stores a decision. It sets the gaps after the packets that depart from now on. The reciprocal of a new rate is computed
    /// at the first of these departures. Where the hardware paces packets by rate and window, `next_departure` is not called,
    /// and no reciprocal is computed.
    #[inline]
    pub fn set(&mut self, rate: Rate, window: Bytes) {
        self.window = window;
        if rate != self.rate {
            self.rate = rate;
            (self.byte, self.byte_fraction) = UNKNOWN;
        }
    }

    /// The rate in force.
    #[inline]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// The window in force.
    #[inline]
    pub const fn window(&self) -> Bytes {
        self.window
    }

    /// When the next packet may leave.
    #[inline]
    pub const fn next(&self) -> Stamp {
        self.next
    }

    /// A packet of `bytes` leaves at `now`. Returns the earliest time of the next departure.
    ///
    /// A late packet does not delay the next one, but a flow saves up at most the gap of one packet: after an idle time two
    /// packets leave together, never three. A packet that leaves early is charged in full.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "halves of a product; a carry; tested against LONGEST")]
    pub fn next_departure(&mut self, now: Stamp, bytes: Bytes) -> Stamp {
        if (self.byte, self.byte_fraction) == UNKNOWN {
            (self.byte, self.byte_fraction) = byte_time(self.rate);
        }
        let part = u64::from(bytes.get()).wrapping_mul(u64::from(self.byte_fraction));
        let whole = u64::from(bytes.get()).wrapping_mul(u64::from(self.byte)).wrapping_add(part >> 32);
        let gap = if whole > u64::from(Self::LONGEST.get()) { Self::LONGEST } else { Nanos::new(whole as u32) };
        // Rounded up.
        let fraction = u32::from(self.next_fraction).wrapping_add(part as u32 >> 16).wrapping_add(1);
        self.next_fraction = fraction as u16;

        let start = if now.since(self.next) > gap && self.next.is_due(now) {
            Stamp::from_bits(now.to_bits().wrapping_sub(gap.get()))
        } else {
            self.next
        };
        self.next = start.after(gap).after(Nanos::new(fraction >> 16));
        if !self.next.is_due(now) && self.next.since(now) > Self::LONGEST {
            self.next = now.after(Self::LONGEST);
        }
        self.next
    }

    /// Keeps the stamp of an idle flow unambiguous; to be called at least once a second.
    #[inline]
    pub fn rebase(&mut self, now: Stamp) {
        if self.next.is_due(now) && now.since(self.next) > Self::LONGEST {
            self.next = now;
        }
    }
}

/// The time of one byte at a rate, rounded up: whole nanoseconds, and a fraction in units of 2^-32 ns.
///
/// A rate is in 2^-24 B/ns, so a byte takes 2^56 / raw of 2^-32 ns.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a mantissa shifted right by 16 or more")]
fn byte_time(rate: Rate) -> (u16, u32) {
    let Some(raw) = NonZeroU32::new(rate.to_bits()) else { return SLOWEST };
    let inverse = Reciprocal::of(raw);
    // With 31 fraction bits, rounded up: the reciprocal is low by less than 2^-17 of itself.
    let mantissa = (inverse.mantissa() >> 1).wrapping_add(inverse.mantissa() >> 18).wrapping_add(1);
    match u32::from(inverse.exponent()) {
        exponent @ 25.. => (0, mantissa.wrapping_shr(exponent.wrapping_sub(25)).wrapping_add(1)),
        exponent @ 9.. => (
            mantissa.wrapping_shr(exponent.wrapping_add(7)) as u16,
            mantissa.wrapping_shl(25u32.wrapping_sub(exponent)),
        ),
        _ => SLOWEST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// How long `packets` packets sent back to back take: in nanoseconds by the pacer, and exactly, in units of 2^-24 ns.
    fn spend(rate: Rate, bytes: u32, packets: u32) -> (u64, u128) {
        let mut now = Stamp::from_bits(u32::MAX - 1_000);
        let mut pacer = Pacer::new(now, rate, Bytes::MAX);
        let mut spent = 0;
        for _ in 0..packets {
            let next = pacer.next_departure(now, Bytes::new(bytes));
            spent += u64::from(next.since(now).get());
            now = next;
        }
        (spent, ((u128::from(bytes) * u128::from(packets)) << 48) / u128::from(rate.to_bits()))
    }

    #[test]
    fn no_rate_is_exceeded_nor_missed_by_a_ten_thousandth() {
        let rates = [1, 7, 40, 999, 8_000, 10_000, 100_000, 400_000, 800_000, 1_600_000].map(Rate::from_mbps);
        for rate in rates.into_iter().chain([Rate::from_bits(512), Rate::from_bits(1 << 24), Rate::MAX]) {
            for bytes in [64, 1_064, 9_000] {
                let (spent, exact) = spend(rate, bytes, 100_000);
                let spent = u128::from(spent) << 24;
                assert!(spent + (1 << 24) > exact, "{bytes} B at {rate:?} leave too fast");
                assert!((spent - exact.min(spent)) * 10_000 <= exact, "{bytes} B at {rate:?} leave too slowly");
            }
        }
    }

    #[test]
    fn after_an_idle_time_two_packets_leave_together() {
        let mut pacer = Pacer::new(Stamp::from_bits(0), Rate::from_gbps(8), Bytes::MAX);
        let now = Stamp::from_bits(900_000_000);
        let kilobyte = Bytes::new(1_000);
        assert_eq!(pacer.next_departure(now, kilobyte), now);
        assert_eq!(pacer.next_departure(now, kilobyte), now.after(Nanos::new(1_000)));
    }

    #[test]
    fn a_late_packet_does_not_delay_the_next() {
        let mut pacer = Pacer::new(Stamp::from_bits(0), Rate::from_gbps(8), Bytes::MAX);
        assert_eq!(pacer.next_departure(Stamp::from_bits(0), Bytes::new(1_000)).to_bits(), 1_000);
        assert_eq!(pacer.next_departure(Stamp::from_bits(1_300), Bytes::new(1_000)).to_bits(), 2_000);
    }

    #[test]
    fn a_new_window_or_an_equal_rate_does_not_change_the_gap() {
        let mut pacer = Pacer::new(Stamp::from_bits(0), Rate::from_gbps(100), Bytes::MAX);
        let before = pacer;
        pacer.set(Rate::from_gbps(100), Bytes::new(5));
        assert_eq!(pacer.window(), Bytes::new(5));
        pacer.set(Rate::from_gbps(50), Bytes::new(5));
        assert_eq!((pacer.rate(), pacer.next()), (Rate::from_gbps(50), before.next()));
        pacer.set(Rate::from_gbps(100), Bytes::MAX);
        assert_eq!(pacer, before);
    }

    #[test]
    fn no_rate_or_size_makes_a_gap_above_the_longest() {
        let mut random = Random(19);
        let mut now = Stamp::from_bits(0);
        let mut pacer = Pacer::new(now, Rate::ZERO, Bytes::MAX);
        for _ in 0..100_000 {
            let rate = Rate::from_bits(random.below(u32::MAX) >> random.below(32));
            pacer.set(rate, Bytes::MAX);
            let next = pacer.next_departure(now, Bytes::new(random.below(u32::MAX) >> random.below(32)));
            assert!(next.is_due(now.after(Pacer::LONGEST)));
            now = now.after(Nanos::new(random.below(1 << 30)));
            pacer.rebase(now);
            assert!(now.since(pacer.next()) <= Pacer::LONGEST || pacer.next().since(now) <= Pacer::LONGEST);
        }
    }

    #[test]
    fn lower_rates_have_longer_gaps_down_to_a_rate_of_zero() {
        let mut last = Nanos::ZERO;
        for raw in [u32::MAX, 1 << 24, (1 << 24) - 1, 1 << 20, 1_000, 512, 300, 256, 255, 1, 0] {
            let now = Stamp::from_bits(0);
            let gap =
                Pacer::new(now, Rate::from_bits(raw), Bytes::MAX).next_departure(now, Bytes::new(1_500)).since(now);
            assert!(gap >= last, "{raw}");
            last = gap;
        }
    }
}
