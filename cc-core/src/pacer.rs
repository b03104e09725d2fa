//! From a decision to the time of the next departure: no division per packet.

use crate::math::Reciprocal;
use crate::units::{Bytes, Nanos, Rate, Stamp};
use core::num::NonZeroU32;

/// The departures of one flow, 20 bytes.
///
/// Never faster than the rate over any run of packets after the first two, and slower by less than 0.01 % down to
/// frames of 64 bytes at 800 Gb/s: the gap is kept to 2^-16 ns, rounded up, and what a departure doesn't use is
/// carried to the next.
///
/// Rates below 123 kb/s are paced as 122 kb/s, and no gap is longer than [`Pacer::LONGEST`].
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

impl Pacer {
    /// The longest gap after one packet, and the furthest ahead that a next departure may lie: 2^30 ns.
    pub const LONGEST: Nanos = Nanos::new(1 << 30);

    /// A flow that may send at once.
    pub fn new(now: Stamp, rate: Rate, window: Bytes) -> Self {
        let (byte, byte_fraction) = byte_time(rate);
        Self { rate, window, next: now, next_fraction: 0, byte, byte_fraction }
    }

    /// Takes over a decision; the reciprocal is computed only when the rate changed. It governs the gaps after the
    /// packets that depart from now on.
    #[inline]
    pub fn set(&mut self, rate: Rate, window: Bytes) {
        self.window = window;
        if rate != self.rate {
            self.rate = rate;
            (self.byte, self.byte_fraction) = byte_time(rate);
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

    /// A packet of this many bytes leaves at `now`; answers when the next may.
    ///
    /// A packet that leaves late leaves the next one on time, but a flow saves up no more than the gap of one
    /// packet: after an idle time two leave together, never three. A packet that leaves early is charged in full.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "halves of a product; a carry; tested against LONGEST")]
    pub fn depart(&mut self, now: Stamp, bytes: Bytes) -> Stamp {
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
    pub fn settle(&mut self, now: Stamp) {
        if self.next.is_due(now) && now.since(self.next) > Self::LONGEST {
            self.next = now;
        }
    }
}

/// The time of one byte at a rate, rounded up: whole nanoseconds, and 2^-32 ns.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "48 bits in two pieces, tested just before")]
fn byte_time(rate: Rate) -> (u16, u32) {
    const SLOWEST: (u16, u32) = (u16::MAX, u32::MAX);
    let Some(raw) = NonZeroU32::new(rate.to_bits()) else { return SLOWEST };
    let inverse = Reciprocal::of(raw);
    // A rate is in 2^-24 B/ns, so a byte takes 2^56 / raw of 2^-32 ns. The reciprocal is low by less than 2^-17 of
    // itself.
    let mantissa = u64::from(inverse.mantissa());
    let mantissa = mantissa.wrapping_add(mantissa >> 17);
    let exponent = u32::from(inverse.exponent());
    if exponent < 8 {
        return SLOWEST;
    }
    let time = (mantissa << 16).wrapping_shr(exponent.wrapping_sub(8)).wrapping_add(1);
    if time >> 48 != 0 { SLOWEST } else { ((time >> 32) as u16, time as u32) }
}
