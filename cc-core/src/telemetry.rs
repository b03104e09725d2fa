//! Measurements of the path that packets carry: in-band telemetry (INT) of the switches, and delays.

use crate::units::Nanos;
use core::slice::ChunksExact;

/// How a stack of in-band telemetry (INT) is laid out.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum IntLayout {
    /// Sixteen bytes a hop, big-endian: link speed in Mb/s (24 bits), flags (8), clock in ns (32), bytes sent in units
    /// of 64 (32), queue in bytes (32).
    #[default]
    Wide,
    /// Eight bytes a hop, the layout of the HPCC paper's simulator, from the highest bit: link speed code (3 bits),
    /// clock in ns (24), bytes sent in units of 128 (20), queue in units of 80 bytes (17). Both units are multiplied by
    /// a number that all nodes of the network are configured with.
    Compact,
}

/// Link speeds in Mb/s by the compact layout's code; zero where there is none.
const SPEEDS: [u32; 8] = [25_000, 50_000, 100_000, 200_000, 400_000, 0, 0, 40_000];

impl IntLayout {
    /// Bytes of a record.
    #[inline]
    pub const fn record_len(self) -> usize {
        match self {
            Self::Wide => 16,
            Self::Compact => 8,
        }
    }

    /// Appends a switch's record to an area that holds `hops` records, and returns the new number of records. Returns
    /// [`IntStack::OVERFLOW`] and leaves the area as it is if there is no room, if the area had overflowed before, or if the
    /// compact layout has no code for the link's speed.
    pub fn push(self, hops: u8, area: &mut [u8], hop: &Hop) -> u8 {
        let at = usize::from(hops).wrapping_mul(self.record_len());
        let room = area.get_mut(at..).unwrap_or(&mut []);
        let written = hops < IntStack::MOST
            && match self {
                Self::Wide => write(room, Some(hop.to_wide())),
                Self::Compact => write(room, hop.to_compact()),
            };
        if written { hops.wrapping_add(1) } else { IntStack::OVERFLOW }
    }

    /// Nanoseconds from one value of [`Hop::clock`] to a later one, modulo the width of the field: 2^32 or 2^24.
    #[inline]
    pub const fn elapsed(self, earlier: u32, later: u32) -> u32 {
        let difference = later.wrapping_sub(earlier);
        match self {
            Self::Wide => difference,
            Self::Compact => difference & 0x00ff_ffff,
        }
    }

    /// Bytes for one unit of [`Hop::sent`]; `multi` is the multiplier of the compact units.
    #[inline]
    pub const fn sent_unit(self, multi: u32) -> u32 {
        match self {
            Self::Wide => 64,
            Self::Compact => multi.saturating_mul(128),
        }
    }

    /// Bytes from one value of [`Hop::sent`] to a later one, modulo the width of the field; `multi` is the multiplier
    /// of the compact units. Saturates at 2^32 - 1.
    #[inline]
    pub const fn bytes_sent(self, earlier: u32, later: u32, multi: u32) -> u32 {
        let difference = later.wrapping_sub(earlier);
        match self {
            Self::Wide => difference.saturating_mul(self.sent_unit(multi)),
            Self::Compact => (difference & 0x000f_ffff).saturating_mul(self.sent_unit(multi)),
        }
    }

    /// Bytes that a value of [`Hop::queue`] stands for; `multi` is the multiplier of the compact units. Saturates at
    /// 2^32 - 1.
    #[inline]
    pub const fn bytes_queued(self, queue: u32, multi: u32) -> u32 {
        match self {
            Self::Wide => queue,
            Self::Compact => queue.saturating_mul(80).saturating_mul(multi),
        }
    }
}

#[inline]
fn write<const N: usize>(room: &mut [u8], record: Option<[u8; N]>) -> bool {
    match (room.first_chunk_mut(), record) {
        (Some(room), Some(record)) => {
            *room = record;
            true
        }
        _ => false,
    }
}

/// The INT record that one switch port wrote when the packet left it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Hop {
    /// Speed of the link in Mb/s; zero where the record has none.
    pub mbps: u32,
    /// [`Hop::VIRTUAL`], [`Hop::INTERCONNECT`] and [`Hop::RECEIVED`]; the compact layout has none.
    pub flags: u8,
    /// The port's clock, see [`IntLayout::elapsed`].
    pub clock: u32,
    /// Bytes that the port had sent before this packet, see [`IntLayout::bytes_sent`].
    pub sent: u32,
    /// The queue when this packet had left, see [`IntLayout::bytes_queued`].
    pub queue: u32,
}

impl Hop {
    /// Flag: the record is of a pseudo queue, a switch's model of a port, not of a real port.
    pub const VIRTUAL: u8 = 1;
    /// Flag: a datacentre-interconnect switch.
    pub const INTERCONNECT: u8 = 2;
    /// Flag: [`Hop::sent`] counts bytes received into the queue instead.
    pub const RECEIVED: u8 = 4;

    /// Reads a record of the wide layout.
    #[inline]
    pub const fn from_wide(bytes: &[u8; 16]) -> Self {
        let &[b0, b1, b2, flags, c0, c1, c2, c3, s0, s1, s2, s3, q0, q1, q2, q3] = bytes;
        Self {
            mbps: u32::from_be_bytes([0, b0, b1, b2]),
            flags,
            clock: u32::from_be_bytes([c0, c1, c2, c3]),
            sent: u32::from_be_bytes([s0, s1, s2, s3]),
            queue: u32::from_be_bytes([q0, q1, q2, q3]),
        }
    }

    /// The record in the wide layout; a speed beyond 24 bits saturates.
    #[inline]
    pub const fn to_wide(&self) -> [u8; 16] {
        let mbps = if self.mbps > 0x00ff_ffff { 0x00ff_ffff } else { self.mbps };
        let [_, b0, b1, b2] = mbps.to_be_bytes();
        let [c0, c1, c2, c3] = self.clock.to_be_bytes();
        let [s0, s1, s2, s3] = self.sent.to_be_bytes();
        let [q0, q1, q2, q3] = self.queue.to_be_bytes();
        [b0, b1, b2, self.flags, c0, c1, c2, c3, s0, s1, s2, s3, q0, q1, q2, q3]
    }

    /// Reads a record of the compact layout.
    #[inline]
    pub const fn from_compact(bytes: &[u8; 8]) -> Self {
        let &[h0, h1, h2, h3, l0, l1, l2, l3] = bytes;
        let (high, low) = (u32::from_be_bytes([h0, h1, h2, h3]), u32::from_be_bytes([l0, l1, l2, l3]));
        let [s0, s1, s2, s3, s4, s5, s6, s7] = SPEEDS;
        let mbps = match high >> 29 {
            0 => s0,
            1 => s1,
            2 => s2,
            3 => s3,
            4 => s4,
            5 => s5,
            6 => s6,
            _ => s7,
        };
        let sent = (high & 0x1f) << 15 | low >> 17;
        Self { mbps, flags: 0, clock: (high >> 5) & 0x00ff_ffff, sent, queue: low & 0x0001_ffff }
    }

    /// The record in the compact layout, or `None` where its code has no such speed. Clock and bytes sent keep their
    /// low bits, the queue saturates.
    pub fn to_compact(&self) -> Option<[u8; 8]> {
        let code = (0..).zip(SPEEDS).find(|&(_, mbps)| mbps == self.mbps && mbps != 0).map(|(code, _)| code)?;
        let (clock, sent) = (self.clock & 0x00ff_ffff, self.sent & 0x000f_ffff);
        let high: u32 = code << 29 | clock << 5 | sent >> 15;
        let low = (sent & 0x7fff) << 17 | self.queue.min(0x0001_ffff);
        let ([h0, h1, h2, h3], [l0, l1, l2, l3]) = (high.to_be_bytes(), low.to_be_bytes());
        Some([h0, h1, h2, h3, l0, l1, l2, l3])
    }
}

/// The records that a packet collected on its way, borrowed from it. Whole records only.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct IntStack<'a> {
    layout: IntLayout,
    path: u16,
    overflowed: bool,
    records: &'a [u8],
}

impl<'a> IntStack<'a> {
    /// No telemetry.
    pub const NONE: Self = Self { layout: IntLayout::Wide, path: 0, overflowed: false, records: &[] };

    /// The most records that a stack has.
    pub const MOST: u8 = 14;

    /// The value of the hop count for more hops than there was room for.
    pub const OVERFLOW: u8 = 15;

    /// The first `hops` records of `area`, which a packet on path `path` (12 bits) collected; `None` when the area is
    /// shorter. A count of [`Self::OVERFLOW`] gives a stack without records that has overflowed.
    #[inline]
    pub fn new(layout: IntLayout, path: u16, hops: u8, area: &'a [u8]) -> Option<Self> {
        let overflowed = hops == Self::OVERFLOW;
        let count = if overflowed { 0 } else { usize::from(hops) };
        let records = area.get(..count.saturating_mul(layout.record_len()))?;
        Some(Self { layout, path: path & 0x0fff, overflowed, records })
    }

    /// How the records are laid out.
    #[inline]
    pub const fn layout(&self) -> IntLayout {
        self.layout
    }

    /// Identifier of the packet's path, 12 bits: another path has another number.
    #[inline]
    pub const fn path(&self) -> u16 {
        self.path
    }

    /// Whether the packet passed more hops than it had room for: then the stack has no records.
    #[inline]
    pub const fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Whether there is no record.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// How many records there are, 0 to 14.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "at most fourteen")]
    pub const fn len(&self) -> u8 {
        match self.layout {
            IntLayout::Wide => (self.records.len() >> 4) as u8,
            IntLayout::Compact => (self.records.len() >> 3) as u8,
        }
    }

    /// The records, first hop first.
    #[inline]
    pub fn iter(&self) -> Hops<'a> {
        Hops { layout: self.layout, chunks: self.records.chunks_exact(self.layout.record_len()) }
    }
}

impl<'a> IntoIterator for &IntStack<'a> {
    type Item = Hop;
    type IntoIter = Hops<'a>;

    #[inline]
    fn into_iter(self) -> Hops<'a> {
        self.iter()
    }
}

/// A stack of telemetry that owns its bytes, written hop by hop as the switches of a path do: for simulators and tests. In a
/// frame, [`push_into`](crate::wire::shim::push_into) does the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IntStackBuilder {
    layout: IntLayout,
    path: u16,
    room: u8,
    hops: u8,
    area: [u8; IntStack::MOST as usize * IntLayout::Wide.record_len()],
}

impl IntStackBuilder {
    /// No records yet, and room for [`IntStack::MOST`]; `path` is a number of 12 bits that changes with the path.
    pub const fn new(layout: IntLayout, path: u16) -> Self {
        Self { layout, path: path & 0x0fff, room: IntStack::MOST, hops: 0, area: [0; _] }
    }

    /// The same stack with room for `room` records, at most [`IntStack::MOST`]. Only for a stack without records.
    #[must_use]
    pub const fn with_room(self, room: u8) -> Self {
        Self { room: if room < IntStack::MOST { room } else { IntStack::MOST }, ..self }
    }

    /// The same stack with the records of these hops appended, as by [`IntStackBuilder::push`].
    #[must_use]
    pub fn with(mut self, hops: impl IntoIterator<Item = Hop>) -> Self {
        hops.into_iter().for_each(|hop| self.push(&hop));
        self
    }

    /// Appends a hop's record. If there is no room for it, or if the compact layout has no code for the link's speed, the
    /// stack has overflowed, and stays so.
    pub fn push(&mut self, hop: &Hop) {
        let len = usize::from(self.room).wrapping_mul(self.layout.record_len());
        let area = self.area.get_mut(..len).unwrap_or(&mut []);
        self.hops = self.layout.push(self.hops, area, hop);
    }

    /// Marks the stack as overflowed, as by more hops than room: for tests of how receivers handle it.
    pub const fn overflow(&mut self) {
        self.hops = IntStack::OVERFLOW;
    }

    /// How records are laid out.
    #[inline]
    pub const fn layout(&self) -> IntLayout {
        self.layout
    }

    /// The number of the path, 12 bits.
    #[inline]
    pub const fn path(&self) -> u16 {
        self.path
    }

    /// Records written, or [`IntStack::OVERFLOW`].
    #[inline]
    pub const fn hops(&self) -> u8 {
        self.hops
    }

    /// The bytes of the records written, and zeros for the room that is left.
    #[inline]
    pub fn area(&self) -> &[u8] {
        let len = usize::from(self.room).wrapping_mul(self.layout.record_len());
        self.area.get(..len).unwrap_or(&self.area)
    }

    /// The records written.
    #[inline]
    pub fn stack(&self) -> IntStack<'_> {
        // Never `None`: the records fit the area.
        IntStack::new(self.layout, self.path, self.hops, self.area()).unwrap_or(IntStack::NONE)
    }
}

/// The records of an [`IntStack`], decoded one by one.
#[derive(Clone, Debug)]
pub struct Hops<'a> {
    layout: IntLayout,
    chunks: ChunksExact<'a, u8>,
}

impl Iterator for Hops<'_> {
    type Item = Hop;

    #[inline]
    fn next(&mut self) -> Option<Hop> {
        let record = self.chunks.next()?;
        match self.layout {
            IntLayout::Wide => record.first_chunk().map(Hop::from_wide),
            IntLayout::Compact => record.first_chunk().map(Hop::from_compact),
        }
    }
}

/// The delays measured with one acknowledgement.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Delay {
    /// Round-trip time: from the departure of the acknowledged packet from this NIC to the arrival of its acknowledgement.
    pub rtt: Nanos,
    /// How much of that the receiver held the packet before it acknowledged it.
    pub receiver_hold: Nanos,
    /// Switches between sender and receiver; zero where it is not known.
    pub hops: u8,
    /// How full the receiver's buffers were, 0 to 31.
    pub rx_buffer_level: u8,
}

impl Delay {
    /// The part of the round-trip time that was spent in the network.
    #[inline]
    pub const fn network(&self) -> Nanos {
        self.rtt.saturating_sub(self.receiver_hold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn records_come_back_from_both_layouts(mbps in 0..0x0100_0000_u32, flags: u8, clock: u32, sent: u32, queue: u32) {
            let hop = Hop { mbps, flags, clock, sent, queue };
            prop_assert_eq!(Hop::from_wide(&hop.to_wide()), hop);
            let narrow = Hop { mbps: 100_000, flags: 0, clock: clock & 0x00ff_ffff, sent: sent & 0x000f_ffff, queue };
            let compact = Hop::from_compact(&narrow.to_compact().unwrap());
            prop_assert_eq!(compact, Hop { queue: queue.min(0x0001_ffff), ..narrow });
        }

        #[test]
        fn no_area_yields_more_records_than_it_holds(hops in 0..16_u8, area in prop::collection::vec(any::<u8>(), 0..260)) {
            for layout in [IntLayout::Wide, IntLayout::Compact] {
                match IntStack::new(layout, 0x5123, hops, &area) {
                    Some(stack) if hops == IntStack::OVERFLOW => prop_assert!(stack.overflowed() && stack.is_empty()),
                    Some(stack) => {
                        prop_assert_eq!((stack.len(), stack.path()), (hops, 0x123));
                        prop_assert_eq!(stack.iter().collect::<Vec<_>>().len(), usize::from(hops));
                    }
                    None => prop_assert!(area.len() < usize::from(hops) * layout.record_len()),
                }
            }
        }
    }

    #[test]
    fn a_stack_holds_the_records_pushed_until_its_room_is_used_up() {
        let hop = |clock| Hop { mbps: 100_000, flags: 0, clock, sent: 7, queue: 9 };
        for layout in [IntLayout::Wide, IntLayout::Compact] {
            let mut stack = IntStackBuilder::new(layout, 0x5123).with_room(3);
            for clock in 0..3 {
                assert_eq!(stack.stack().iter().collect::<Vec<_>>(), (0..clock).map(hop).collect::<Vec<_>>());
                stack.push(&hop(clock));
            }
            assert_eq!((stack.stack().len(), stack.stack().path(), stack.stack().layout()), (3, 0x123, layout));
            assert_eq!(stack.area().len(), 3 * layout.record_len());
            let full = stack;
            stack.push(&hop(3));
            assert!(stack.stack().overflowed() && stack.stack().is_empty() && stack.area() == full.area());
        }
        let most = IntStackBuilder::new(IntLayout::Wide, 1).with((0..14).map(hop));
        assert_eq!(most.stack().len(), 14);
        assert!(most.with([hop(14)]).stack().overflowed());
        let no_code = Hop { mbps: 800_000, ..hop(0) };
        assert!(IntStackBuilder::new(IntLayout::Compact, 1).with([no_code]).stack().overflowed());
    }

    #[test]
    fn a_record_of_the_papers_simulator_reads_back_field_by_field() {
        // 3 bits of speed, 24 of time, 20 of bytes sent, 17 of queue.
        let word: u64 = 4 << 61 | 0xabcdef << 37 | 0x12345 << 17 | 0x1fffe;
        let hop = Hop::from_compact(&word.to_be_bytes());
        assert_eq!(hop, Hop { mbps: 400_000, flags: 0, clock: 0xabcdef, sent: 0x12345, queue: 0x1fffe });
        assert_eq!(IntLayout::Compact.bytes_queued(0x1fffe, 1), 10_485_600);
        assert_eq!(IntLayout::Compact.bytes_sent(0xfffff, 0, 1), 128);
        assert_eq!(IntLayout::Compact.elapsed(0xffffff, 0), 1);
    }
}
