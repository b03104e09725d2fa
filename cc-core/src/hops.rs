//! The load of a path between two acknowledgements, measured from in-band telemetry: the input of HPCC and PowerTCP.
//!
//! Two records of the same port show how busy its link was between them. A flow stores the last record of each hop, 12 bytes,
//! and `Hops::compare` compares the next record with it.
//!
//! What is not measured, each with its reason in [`Unmeasured`]:
//! - the first telemetry of a flow, the first with another path identifier or number of hops, and the first after a gap of more
//!   than 4 base round-trip times between acknowledgements (6 packet times at the flow's lowest rate if that is longer; at most
//!   4.2 ms in the compact layout). It is only stored;
//! - a hop whose clock advanced by less than 16 ns since the stored record. The stored record stays, so that the next
//!   acknowledgement covers both intervals. At 800 Gb/s packets of 1 000 bytes arrive every 10 ns;
//! - a hop whose clock advanced by more than half of that gap or ran backwards, whose byte counter grew by more than 1.1 times
//!   what the link can carry in that time, or whose link could have carried more than the counter can represent. Its record is
//!   only stored. Counters count whole units, so their difference can exceed the bytes carried by up to one unit, which is
//!   allowed for;
//! - a hop whose record has speed 0, because its port is down, telemetry of a packet that had no room for all hops, and
//!   telemetry of more than `N` hops.
//!
//! In the compact layout the clock wraps after 16.8 ms. The byte counter wraps, times the multiplier of its units, after 2.7 ms
//! of full load at 400 Gb/s and after 10.7 ms at 100 Gb/s. The sender's own clock rules out that a record's clock has wrapped:
//! the time between two records differs from the time between their acknowledgements only by the difference of two delays, for
//! which three quarters of the clock's range are left. The record's clock then rules out that its counter has wrapped. In
//! consequence, compact telemetry does not control a flow whose acknowledgements are more than 4.2 ms apart, whatever its
//! round-trip time.
//!
//! Number format: a link's speed is nanoseconds per byte with 32 fraction bits, from a table for the usual speeds. At 8 Gb/s or
//! less a byte takes 1 ns or more, which does not fit: speed, bytes carried and bytes queued are then multiplied by the same
//! 2^k, which leaves every ratio as it was. Cost: one `divu` for each hop.

use crate::math::{Reciprocal, div_bitwise};
use crate::snapshot::Words;
use crate::{Hop, IntLayout, IntStack, Nanos, Stamp, State};
use core::num::NonZeroU32;
use core::ops::BitOrAssign;

/// Fraction bits of the load of a link or a path: 2^24 is 1, as in [`Rate`](crate::Rate).
pub const FINE: u32 = 24;
/// Upper bound of a load, 16. Larger values are clipped: they carry no further information.
const MOST: u32 = 16 << FINE;
/// The shortest time between two records of a hop that is measured, in nanoseconds.
const SHORTEST: u32 = 16;

crate::zeroed! {
    /// The base round-trip time T, and constants computed from it once.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct BaseRtt {
        /// T in nanoseconds, at least 1 000 and at most 16 ms.
        pub time: u32,
        /// 2^(32 + `exponent`) / T, rounded up to a 32-bit value whose highest bit is set; 2^32 - 1 if T is a power of two.
        per_time: u32,
        /// The binary logarithm of T, rounded down: 9 to 23.
        exponent: u8,
        /// Multiplier of the compact layout's units.
        multi: u32,
        /// The longest time between two records that is measured, in nanoseconds.
        longest: u32,
    }
}

impl BaseRtt {
    /// The longest base round-trip time in nanoseconds, 16 ms: twice that still fits [`fraction_of_time`].
    pub const LONGEST: u32 = 16_000_000;

    /// The constants for `time` from 1 us to [`BaseRtt::LONGEST`], `None` for any other. `multi` is the multiplier of the
    /// compact layout's units.
    pub fn new(time: Nanos, multi: u32) -> Option<Self> {
        let time = time.get();
        if !(1_000..=Self::LONGEST).contains(&time) {
            return None;
        }
        let exponent = 31u32.wrapping_sub(time.leading_zeros());
        let per_time = div_bitwise(1 << 32u32.wrapping_add(exponent), time).saturating_add(1);
        let (per_time, exponent) = (u32::try_from(per_time).unwrap_or(u32::MAX), u8::try_from(exponent).ok()?);
        Some(Self { time, per_time, exponent, multi, longest: time << 1 })
    }

    /// The same for flows whose packets are `gap` apart at their lowest rate: intervals of up to 3 gaps are measured, at most
    /// 32 ms. Otherwise such a flow could never measure that the path is free again.
    #[must_use]
    pub fn with_gap(self, gap: Nanos) -> Self {
        Self { longest: gap.get().saturating_mul(3).min(Self::LONGEST << 1).max(self.longest), ..self }
    }

    /// `value / T` with `fine` fraction bits, 0 to 32. The caller makes sure that the result fits 32 bits.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "callers pass values whose quotient fits 32 bits")]
    fn per_rtt(&self, value: u32, fine: u32) -> u32 {
        let product = u64::from(value).wrapping_mul(u64::from(self.per_time));
        // The number of low bits of the product to drop, done on its 32-bit halves.
        let shift = 32u32.wrapping_add(u32::from(self.exponent)).wrapping_sub(fine);
        if shift >= 32 {
            ((product >> 32) as u32).wrapping_shr(shift)
        } else {
            ((product >> 32) as u32).wrapping_shl(32u32.wrapping_sub(shift)) | (product as u32).wrapping_shr(shift)
        }
    }

    /// `bytes / T` in bytes per nanosecond with 24 fraction bits; the quotient must be below 2^8.
    #[inline(always)]
    pub fn rate_of(&self, bytes: u32) -> u32 {
        self.per_rtt(bytes, 24)
    }

    /// `time / T` with 32 fraction bits, for a time below T.
    #[inline(always)]
    pub fn part(&self, time: u32) -> u32 {
        self.per_rtt(time, 32)
    }

    /// The time that `bytes` take on a link as a fraction of T, with [`FINE`] fraction bits, clipped at 16.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "cut to 32 bits before")]
    pub fn fraction_of_rtt(&self, bytes: u32, per_byte: u32) -> u32 {
        // Nanoseconds with 8 fraction bits: up to 16.7 ms.
        let time = u64::from(bytes).wrapping_mul(u64::from(per_byte)) >> 24;
        let time = if time > u64::from(u32::MAX) { u32::MAX } else { time as u32 };
        if time >> 12 >= self.time { MOST } else { self.per_rtt(time, 16) }
    }
}

/// Usual link speeds in Mb/s, in the order in which they are searched, and their nanoseconds per byte with 32 fraction bits.
const USUAL: [(u32, u32); 9] = [
    (100_000, 343_597_384),
    (400_000, 85_899_346),
    (200_000, 171_798_692),
    (25_000, 1_374_389_535),
    (800_000, 42_949_673),
    (40_000, 858_993_459),
    (50_000, 687_194_767),
    (10_000, 3_435_973_837),
    (1_600_000, 21_474_836),
];

/// Nanoseconds per byte, with 32 fraction bits, of a link of `mbps` Mb/s, which is above 8 000.
#[inline(always)]
pub fn per_byte(mbps: u32) -> u32 {
    match USUAL.iter().find(|&&(usual, _)| usual == mbps) {
        Some(&(_, per_byte)) => per_byte,
        None => unusual(mbps),
    }
}

#[cold]
#[inline(never)]
#[expect(clippy::cast_possible_truncation, reason = "below 2^32 above 8 000 Mb/s")]
fn unusual(mbps: u32) -> u32 {
    match NonZeroU32::new(mbps) {
        Some(speed) if mbps > 8_000 => {
            // 8 000 2^32 / speed.
            let reciprocal = Reciprocal::of(speed);
            (u64::from(reciprocal.mantissa()).wrapping_mul(8_000) >> reciprocal.exponent()) as u32
        }
        _ => u32::MAX,
    }
}

/// The time that `bytes` take on a link as a fraction of `elapsed` nanoseconds (16 to 2^25), with [`FINE`] fraction bits,
/// clipped at 16.
///
/// Error: at most 2.5e-4 for results up to 1.1, at most 5e-4 of the result above. Cost: one `divu`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "bounded by the tests before")]
pub fn fraction_of_time(bytes: u32, per_byte: u32, elapsed: u32) -> u32 {
    let time = u64::from(bytes).wrapping_mul(u64::from(per_byte));
    let whole = (time >> 32) as u32;
    // Low bits to drop from the divisor: the quotient has 15 bits, and a shortened divisor at least 11.
    let coarse = if elapsed < 1 << 16 {
        0
    } else if elapsed < 1 << 21 {
        5
    } else {
        10
    };
    let divisor = elapsed.wrapping_add((1 << coarse) >> 1) >> coarse;
    if whole <= most(elapsed) {
        ((time >> 17u32.wrapping_add(coarse)) as u32).checked_div(divisor).map_or(MOST, |share| share << 9)
    } else if whole < elapsed << 4 {
        ((time >> 21u32.wrapping_add(coarse)) as u32).checked_div(divisor).map_or(MOST, |share| share << 13).min(MOST)
    } else {
        MOST
    }
}

/// Upper bound, in nanoseconds, of the link time of the bytes counted in `elapsed`: 1 + 1/16 + 1/32 + 1/128 = 1.1016 times
/// `elapsed`.
#[inline(always)]
const fn most(elapsed: u32) -> u32 {
    elapsed.wrapping_add(elapsed >> 4).wrapping_add(elapsed >> 5).wrapping_add(elapsed >> 7)
}

/// The last record of a hop.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
struct Record {
    clock: u32,
    sent: u32,
    queue: u32,
}

/// The reasons why the telemetry of one packet, or that of some of its hops, was not measured. Empty if all was measured.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Unmeasured(u16);

impl Unmeasured {
    /// All was measured.
    pub const NONE: Self = Self(0);
    /// It is the first of a flow, or the first after a gap, and only stored. No fault.
    pub const BASELINE: Self = Self(1);
    /// The packet has no telemetry: no switch wrote any, or something removed it.
    pub const MISSING: Self = Self(1 << 1);
    /// The acknowledgement is older than one that was used, or acknowledges what was not sent.
    pub const MISORDERED: Self = Self(1 << 2);
    /// The packet met more hops than it had room for records.
    pub const OVERFLOWED: Self = Self(1 << 3);
    /// There are more records than a flow's state has room for.
    pub const TOO_MANY_HOPS: Self = Self(1 << 4);
    /// The packet before took another path, or one with another number of hops. It is only stored.
    pub const PATH_CHANGED: Self = Self(1 << 5);
    /// A hop's clock advanced by less than 16 ns since the stored record. The stored record stays.
    pub const TOO_SOON: Self = Self(1 << 6);
    /// A hop's clock ran backwards, or advanced by more than the longest gap between acknowledgements.
    pub const CLOCK: Self = Self(1 << 7);
    /// A hop's speed is 0: its port is down.
    pub const LINK_DOWN: Self = Self(1 << 8);
    /// A hop's byte counter grew by more than its link can carry, or may have wrapped.
    pub const BYTES: Self = Self(1 << 9);

    /// The reasons that do not pass by themselves: something is wrong with the path or with what its switches write. A gap
    /// between packets, which a low rate causes, is none of them.
    pub const BROKEN: Self = Self(
        Self::MISSING.0
            | Self::OVERFLOWED.0
            | Self::TOO_MANY_HOPS.0
            | Self::PATH_CHANGED.0
            | Self::LINK_DOWN.0
            | Self::BYTES.0,
    );

    /// The bits that are a reason.
    const ALL: u16 = 0x3ff;

    /// The set as bits, a bit for each reason.
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// The set with these bits; those of no reason are ignored.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & Self::ALL)
    }

    /// Whether some reason is in both sets.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether something is wrong with the path or its telemetry: any reason but [`Self::BASELINE`].
    pub const fn is_fault(self) -> bool {
        self.0 & !Self::BASELINE.0 != 0
    }
}

impl BitOrAssign for Unmeasured {
    #[inline(always)]
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl Words for Unmeasured {
    const COUNT: usize = 1;

    fn write(&self, write: &mut dyn FnMut(u32)) {
        write(self.0.into());
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low bits are the value")]
    fn read(read: &mut dyn FnMut() -> u32) -> Self {
        Self::from_bits(read() as u16)
    }
}

/// The last telemetry of a flow's path, of up to `N` hops, at most seven.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Hops<const N: usize> {
    records: [Record; N],
    /// When the records arrived, by the sender's clock.
    heard: Stamp,
    /// The path in the low 12 bits, the number of records in the next three, 0 before the first telemetry, and a flag for the
    /// compact layout.
    key: u16,
    /// Why the last packet's telemetry was not measured, or that of some hops.
    unmeasured: Unmeasured,
}

/// In [`Hops::key`]: the path's identifier.
const PATH: u16 = 0xfff;
/// In [`Hops::key`]: the number of records begins at this bit, and has three.
const COUNT: u16 = 12;
/// In [`Hops::key`]: the layout is the compact one.
const COMPACT: u16 = 1 << 15;
/// Nanoseconds, 4.2 ms: after a longer gap between acknowledgements the clock of a compact record may have wrapped. A quarter
/// of the clock's range; the rest is left for the difference of two delays.
const LONGEST_SILENCE: u32 = 1 << 22;
/// Half of the range of a compact record's clock: one that seems to have advanced further has run backwards.
const LONGEST_COMPACT: u32 = 1 << 23;

/// What one hop did between two of its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopDelta {
    /// Nanoseconds between the records: at least 16, at most 2 T or the limit that [`BaseRtt::with_gap`] sets.
    pub elapsed: u32,
    /// Nanoseconds per byte of the link, with 32 fraction bits. For a link of 8 Gb/s or less it is divided by 2^k, and all
    /// bytes here are multiplied by 2^k.
    pub per_byte: u32,
    /// Bytes that the link carried, or that arrived at its queue if `received`.
    pub bytes: u32,
    /// `bytes` counts arrivals at the queue: the record has [`Hop::RECEIVED`].
    pub received: bool,
    /// Bytes queued before.
    pub before: u32,
    /// Bytes queued after.
    pub after: u32,
}

impl HopDelta {
    /// The time that `bytes` take on the link as a fraction of `elapsed`, with [`FINE`] fraction bits, clipped at 16.
    #[inline(always)]
    pub fn share(&self, bytes: u32) -> u32 {
        fraction_of_time(bytes, self.per_byte, self.elapsed)
    }
}

impl<const N: usize> Hops<N> {
    /// No telemetry received yet.
    pub const fn none(now: Stamp) -> Self {
        const { assert!(N <= 7, "the number of records has three bits") };
        let records = [Record { clock: 0, sent: 0, queue: 0 }; N];
        Self { records, heard: now, key: 0, unmeasured: Unmeasured::NONE }
    }

    /// How many records there are.
    const fn count(&self) -> u8 {
        let [high, _] = self.key.to_be_bytes();
        high >> (COUNT - 8) & 7
    }

    /// Whether telemetry can be compared with the stored records: of the same path, layout and number of hops, and not too
    /// late.
    #[inline(always)]
    pub fn matches(&self, base: &BaseRtt, now: Stamp, int: &IntStack<'_>) -> bool {
        !int.is_empty() && usize::from(int.len()) <= N && self.key == key(int) && !self.is_stale(base, now)
    }

    /// Why the last packet's telemetry was not measured, or that of some hops.
    #[inline(always)]
    pub const fn unmeasured(&self) -> Unmeasured {
        self.unmeasured
    }

    /// Notes why the telemetry of a packet is neither stored nor measured.
    #[inline(always)]
    pub const fn skip(&mut self, why: Unmeasured) {
        self.unmeasured = why;
    }

    /// [`Hops::skip`] for a packet without records.
    #[inline(always)]
    pub const fn skip_empty(&mut self, int: &IntStack<'_>) {
        self.skip(if int.overflowed() { Unmeasured::OVERFLOWED } else { Unmeasured::MISSING });
    }

    /// Whether the stored records are too old to compare telemetry with.
    #[inline(always)]
    fn is_stale(&self, base: &BaseRtt, now: Stamp) -> bool {
        let silence = now.since(self.heard).get();
        silence > base.longest << 1 || (silence > LONGEST_SILENCE && self.key & COMPACT != 0)
    }

    /// Discards records that are too old to compare with, so that their 32-bit stamp stays unambiguous. To be called at least
    /// once a second. It changes no result: the next telemetry would only be stored anyway.
    pub fn age(&mut self, base: &BaseRtt, now: Stamp) {
        if self.is_stale(base, now) {
            *self = Self::none(self.heard);
            self.heard = now;
        }
    }

    /// Stores telemetry without measuring it. To be called when not [`Hops::matches`].
    #[cold]
    pub fn store(&mut self, base: &BaseRtt, now: Stamp, int: &IntStack<'_>) {
        let begins = self.count() == 0 || self.is_stale(base, now);
        *self = Self::none(now);
        if usize::from(int.len()) > N {
            self.unmeasured = Unmeasured::TOO_MANY_HOPS;
            return;
        }
        self.unmeasured = if begins { Unmeasured::BASELINE } else { Unmeasured::PATH_CHANGED };
        self.key = key(int);
        for (record, hop) in self.records.iter_mut().zip(int) {
            *record = Record { clock: hop.clock, sent: hop.sent, queue: hop.queue };
        }
    }

    /// Passes each hop that can be measured to `measure`, and stores the new records. To be called only if [`Hops::matches`]
    /// returns `true`.
    #[inline(always)]
    pub fn compare(&mut self, base: &BaseRtt, now: Stamp, int: &IntStack<'_>, mut measure: impl FnMut(&HopDelta)) {
        self.heard = now;
        self.unmeasured = Unmeasured::NONE;
        let layout = int.layout();
        let longest = match layout {
            IntLayout::Wide => base.longest,
            IntLayout::Compact => base.longest.min(LONGEST_COMPACT),
        };
        for (record, hop) in self.records.iter_mut().zip(int) {
            let elapsed = layout.elapsed(record.clock, hop.clock);
            if elapsed < SHORTEST {
                self.unmeasured |= Unmeasured::TOO_SOON;
                continue;
            }
            let last = core::mem::replace(record, Record { clock: hop.clock, sent: hop.sent, queue: hop.queue });
            if elapsed > longest {
                self.unmeasured |= too_long(base, layout, elapsed);
            } else if hop.mbps == 0 {
                self.unmeasured |= Unmeasured::LINK_DOWN;
            } else if let Some(interval) = interval(base, layout, elapsed, &last, &hop) {
                measure(&interval);
            } else {
                self.unmeasured |= Unmeasured::BYTES;
            }
        }
    }
}

/// Why a hop whose clock advanced by more than the longest interval is not measured: the flow sends that rarely, or the clock
/// is wrong.
#[cold]
#[inline(never)]
fn too_long(base: &BaseRtt, layout: IntLayout, elapsed: u32) -> Unmeasured {
    // The sender's own clock advanced by no more than this: see `Hops::is_stale`.
    let silence = match layout {
        IntLayout::Wide => base.longest << 1,
        IntLayout::Compact => (base.longest << 1).min(LONGEST_COMPACT),
    };
    if elapsed > silence { Unmeasured::CLOCK } else { Unmeasured::BASELINE }
}

/// The difference of two records of a hop. `None` if the counter grew by more than the link can carry in that time, or if the
/// link could have carried more than the counter can represent.
#[inline(always)]
fn interval(base: &BaseRtt, layout: IntLayout, elapsed: u32, last: &Record, hop: &Hop) -> Option<HopDelta> {
    let bytes = layout.bytes_sent(last.sent, hop.sent, base.multi);
    let received = hop.flags & Hop::RECEIVED != 0;
    // Both counters are rounded down to whole units, so the link may have carried up to one unit less than their difference.
    let at_least = bytes.saturating_sub(layout.sent_unit(base.multi));
    let before = layout.bytes_queued(last.queue, base.multi);
    let after = layout.bytes_queued(hop.queue, base.multi);
    let mut link = Carried { mbps: hop.mbps, bytes, at_least, before, after };
    if link.mbps <= SLOW {
        link = link.sped_up();
    }
    let Carried { mbps, bytes, at_least, before, after } = link;
    let per_byte = per_byte(mbps);
    let time = (u64::from(at_least).wrapping_mul(u64::from(per_byte)) >> 32) as u32;
    let countable = match layout {
        // Nanoseconds for 2^32 bytes, where the difference saturates.
        IntLayout::Wide => per_byte,
        // Nanoseconds for 2^27 bytes (2^20 units of 128) times the multiplier, at most those for 2^32 bytes.
        IntLayout::Compact => (per_byte >> 5).saturating_mul(base.multi).min(per_byte),
    };
    if (time > most(elapsed) && !received) || most(elapsed) > countable {
        return None;
    }
    Some(HopDelta { elapsed, per_byte, bytes, received, before, after })
}

/// The fastest link, in Mb/s, whose byte takes a nanosecond or more.
const SLOW: u32 = 8_000;

/// A link's speed, and the bytes that it carried and queued between two records.
#[derive(Clone, Copy)]
struct Carried {
    mbps: u32,
    bytes: u32,
    at_least: u32,
    before: u32,
    after: u32,
}

impl Carried {
    /// The same link with its speed and its byte counts multiplied by 2^k, with the smallest k that makes it faster than
    /// [`SLOW`].
    #[cold]
    #[inline(never)]
    fn sped_up(self) -> Self {
        let mut link = self;
        // [`Hops::compare`] skips records of speed 0; the condition bounds the loop.
        while link.mbps <= SLOW && link.mbps > 0 {
            link.mbps <<= 1;
            for bytes in [&mut link.bytes, &mut link.at_least, &mut link.before, &mut link.after] {
                *bytes = bytes.saturating_add(*bytes);
            }
        }
        link
    }
}

crate::snapshot! {
    /// The last record of a hop, in the units of its layout.
    pub struct RecordSnapshot {
        /// The switch's clock.
        pub clock: u32,
        /// Bytes that the link had carried.
        pub sent: u32,
        /// Bytes queued.
        pub queue: u32,
    }
}

crate::snapshot! {
    /// [`Hops`].
    pub struct HopsSnapshot<const N: usize> {
        /// The last record of each hop.
        pub records: [RecordSnapshot; N],
        /// When the records arrived, by the sender's clock.
        pub heard: Stamp,
        /// The path's identifier, in the low 12 bits; the others are ignored.
        pub path: u16,
        /// The records are of the compact layout.
        pub is_compact: bool,
        /// How many records there are, at most `N`; none before the first telemetry.
        pub count: u8,
        /// Why the last packet's telemetry was not measured, or that of some hops.
        pub unmeasured: Unmeasured,
    }
}

impl<const N: usize> State for Hops<N> {
    type Snapshot = HopsSnapshot<N>;

    fn snapshot(&self) -> HopsSnapshot<N> {
        HopsSnapshot {
            records: self.records.map(|Record { clock, sent, queue }| RecordSnapshot { clock, sent, queue }),
            heard: self.heard,
            path: self.key & PATH,
            is_compact: self.key & COMPACT != 0,
            count: self.count(),
            unmeasured: self.unmeasured,
        }
    }

    fn from_snapshot(s: HopsSnapshot<N>) -> Self {
        let count = u8::try_from(N).map_or(s.count, |most| s.count.min(most));
        Self {
            records: s.records.map(|RecordSnapshot { clock, sent, queue }| Record { clock, sent, queue }),
            heard: s.heard,
            key: s.path & PATH | u16::from(count) << COUNT | if s.is_compact { COMPACT } else { 0 },
            unmeasured: s.unmeasured,
        }
    }
}

/// Path identifier and layout of telemetry, as [`Hops::path`] stores them.
#[inline(always)]
fn key(int: &IntStack<'_>) -> u16 {
    let layout = if int.layout() == IntLayout::Compact { COMPACT } else { 0 };
    int.path() | u16::from(int.len() & 7) << COUNT | layout
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn fractions_of_time_are_right_to_a_four_thousandth(
            mbps in 8_001..2_000_000_u32,
            elapsed in 16..1_u32 << 25,
            share in 0..20_000_u32,
        ) {
            let bytes = (f64::from(mbps) / 8e3 * f64::from(elapsed) * f64::from(share) / 1e3).min(4e9) as u32;
            let exact = (f64::from(bytes) * 8e3 / f64::from(mbps) / f64::from(elapsed)).min(16.0);
            let found = f64::from(fraction_of_time(bytes, per_byte(mbps), elapsed)) / f64::from(1 << FINE);
            prop_assert!((found - exact).abs() < 3e-4 + exact * 5e-4, "{found} for {exact}");
        }

        #[test]
        fn rtt_fractions_are_right_to_a_thousandth(mbps in 8_001..2_000_000_u32, time in 1_000..16_000_000_u32, bytes: u32) {
            let base = BaseRtt::new(Nanos::new(time), 1).unwrap();
            let exact = (f64::from(bytes) * 8e3 / f64::from(mbps)).min(f64::from(1 << 24)) / f64::from(time);
            let found = f64::from(base.fraction_of_rtt(bytes, per_byte(mbps))) / f64::from(1 << FINE);
            prop_assert!((found - exact.min(16.0)).abs() <= exact * 1e-3 + 1e-5, "{found} for {exact}");
        }

        /// Links of any speed, also those whose byte takes longer than a nanosecond.
        #[test]
        fn loads_are_right_for_links_of_any_speed(
            mbps in 100..1_600_000_u32,
            elapsed in 10_000..24_000_u32,
            share in 0..1_000_u32,
            queue in 0..100_000_u32,
        ) {
            let base = BaseRtt::new(Nanos::new(12_000), 1).unwrap();
            let per_nano = f64::from(mbps) / 8e3;
            let sent = (per_nano * f64::from(elapsed) * f64::from(share) / 1e3 / 64.0) as u32;
            let record = |clock, sent| Hop { mbps, flags: 0, clock, sent, queue }.to_wide();
            let (first, second) = (record(7, 9), record(7 + elapsed, 9 + sent));
            let stack = |bytes| IntStack::new(IntLayout::Wide, 1, 1, bytes).unwrap();
            let mut hops = Hops::<5>::none(Stamp::from_bits(0));
            hops.store(&base, Stamp::from_bits(0), &stack(&first));
            let mut shares = None;
            hops.compare(&base, Stamp::from_bits(elapsed), &stack(&second), |hop| {
                shares = Some([hop.share(hop.bytes), base.fraction_of_rtt(hop.after, hop.per_byte)]);
            });
            let exact = [f64::from(sent) * 64.0 / per_nano / f64::from(elapsed), f64::from(queue) / per_nano / 12_000.0];
            for (found, exact) in shares.unwrap().into_iter().zip(exact) {
                let (found, exact) = (f64::from(found) / f64::from(1 << FINE), exact.min(16.0));
                prop_assert!((found - exact).abs() <= 3e-4 + exact * 1e-3, "{found} for {exact}");
            }
        }
    }

    /// B1: the compact layout's clock wraps after 16.8 ms, so that 20 ms look like 3.2, and 16.78 like 3 us; its counter wraps
    /// after 2.7 ms at 400 Gb/s, so that a busy link seems idle. Every interval that is measured must be the true one.
    #[test]
    fn records_far_apart_are_not_taken_for_near_ones_b1() {
        fn stack(bytes: &[u8; 8]) -> IntStack<'_> {
            IntStack::new(IntLayout::Compact, 1, 1, bytes).unwrap()
        }
        // Nanoseconds until a counter of 2^20 units of 128 bytes wraps at 1.1 times 25, 100 and 400 Gb/s.
        for (gbps, lasts) in [(25, 38_900_000_u32), (100, 9_730_000), (400, 2_430_000)] {
            for (multi, time) in [(1, 12_000), (1, 1_000_000), (1, 16_000_000), (4, 16_000_000)] {
                let base = BaseRtt::new(Nanos::new(time), multi).unwrap();
                let mut measured = 0;
                for gap in (1..=4_000_u64).map(|step| step * 10_001) {
                    for load in [0, 50, 100] {
                        let bytes = gap * gbps / 8 * load / 100;
                        let sent = |bytes: u64| (bytes / (128 * u64::from(multi))) as u32 & 0xf_ffff;
                        let record = |at: u64, bytes: u64| {
                            let clock = (at & 0x00ff_ffff) as u32;
                            Hop { mbps: gbps as u32 * 1_000, flags: 0, clock, sent: sent(bytes), queue: 1 }.to_compact()
                        };
                        let begun = 123_456_789;
                        let (first, second) =
                            (record(1_000, begun).unwrap(), record(1_000 + gap, begun + bytes).unwrap());
                        let mut hops = Hops::<5>::none(Stamp::from_bits(0));
                        hops.store(&base, Stamp::from_bits(1_000), &stack(&first));
                        // The second acknowledgement may be delayed by a queue that the first did not pass.
                        for wait in [0, 500_000] {
                            let now = Stamp::from_bits(1_000 + gap as u32 + wait);
                            let mut hops = hops;
                            if !hops.matches(&base, now, &stack(&second)) {
                                continue;
                            }
                            hops.compare(&base, now, &stack(&second), |interval| {
                                measured += 1;
                                assert_eq!(u64::from(interval.elapsed), gap, "{gbps} Gb/s");
                                assert!(u64::from(interval.bytes).abs_diff(bytes) < 128 * u64::from(multi) * 2);
                            });
                        }
                    }
                }
                // Intervals are measured up to the least of 2 T, 4.2 ms and the time until the counter wraps: each with three
                // loads, and nearly all with both waits.
                let longest = (2 * time).min(4_194_304).min(lasts.saturating_mul(multi)) / 10_001;
                let (least, most) = (6 * longest.saturating_sub(52), 6 * longest + 6);
                assert!((least..=most).contains(&measured), "{gbps} Gb/s, T {time}, {measured} of {longest}");
                assert!(measured > 0 || time < 100_000);
            }
        }
    }

    /// After a long gap, a flow that is never woken returns the same results as one that is.
    #[test]
    fn stored_records_expire_by_the_senders_own_clock_b1() {
        let base = BaseRtt::new(Nanos::new(16_000_000), 1).unwrap();
        let record = Hop { mbps: 100_000, flags: 0, clock: 7, sent: 9, queue: 1 }.to_compact().unwrap();
        let int = IntStack::new(IntLayout::Compact, 1, 1, &record).unwrap();
        let mut hops = Hops::<5>::none(Stamp::from_bits(0));
        hops.store(&base, Stamp::from_bits(0), &int);
        for (now, matches) in [(4_194_304, true), (4_194_305, false), (16_777_216, false), (1 << 31, false)] {
            assert_eq!(hops.matches(&base, Stamp::from_bits(now), &int), matches, "{now}");
            let mut aged = hops;
            aged.age(&base, Stamp::from_bits(now));
            assert_eq!(aged.matches(&base, Stamp::from_bits(now), &int), matches, "{now}");
        }
    }

    #[test]
    fn records_that_are_too_close_reversed_too_old_or_impossible_are_not_measured() {
        let base = BaseRtt::new(Nanos::new(12_000), 1).unwrap();
        let hop = |clock: u32, sent: u32, mbps: u32| Hop { mbps, flags: 0, clock, sent: sent / 64, queue: 0 }.to_wide();
        fn stack(bytes: &[u8; 16]) -> IntStack<'_> {
            IntStack::new(IntLayout::Wide, 1, 1, bytes).unwrap()
        }
        let measured = |next: [u8; 16]| {
            let mut hops = Hops::<5>::none(Stamp::from_bits(0));
            hops.store(&base, Stamp::from_bits(0), &stack(&hop(100_000, 0, 100_000)));
            let mut seen = Vec::new();
            hops.compare(&base, Stamp::from_bits(10), &stack(&next), |interval| seen.push(interval.elapsed));
            (seen, hops.records[0].clock)
        };
        assert_eq!(measured(hop(108_000, 64_000, 100_000)), (std::vec![8_000], 108_000));
        assert_eq!(measured(hop(100_015, 64, 100_000)), (std::vec![], 100_000), "15 ns");
        assert_eq!(measured(hop(99_000, 0, 100_000)), (std::vec![], 99_000), "backwards");
        assert_eq!(measured(hop(124_001, 64_000, 100_000)), (std::vec![], 124_001), "more than 2 T");
        // 8 us at 100 Gb/s are 100 000 bytes; `most` allows 110 150, and one unit of 64 more.
        assert_eq!(measured(hop(108_000, 109_952, 100_000)), (std::vec![8_000], 108_000));
        assert_eq!(measured(hop(108_000, 115_200, 100_000)), (std::vec![], 108_000), "more than the link carries");
        assert_eq!(measured(hop(108_000, 64_000, 0)), (std::vec![], 108_000), "down");
    }
}
