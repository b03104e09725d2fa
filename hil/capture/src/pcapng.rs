//! The pcapng format: blocks in sections (draft-ietf-opsawg-pcapng, sections 3 and 4).

use std::io::Read;
use std::ops::Range;

use super::input::Input;
use super::{
    CaptureError, Direction, Dropped, ETHERNET, Fault, Found, MAX_CAPTURED, NANOSECONDS_PER_SECOND, Order, Place,
    longest_capture,
};

/// Type of a section header, and so the magic of the format: it reads the same in either byte order.
pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const SECTION: u32 = 0x0a0d_0d0a;
pub(super) const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const INTERFACE_STATISTICS: u32 = 5;
pub(super) const ENHANCED_PACKET: u32 = 6;

pub(super) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
pub(super) const OPTION_END: u16 = 0;
pub(super) const OPTION_IF_NAME: u16 = 2;
pub(super) const OPTION_IF_TSRESOL: u16 = 9;
const OPTION_IF_SPEED: u16 = 8;
const OPTION_IF_TSOFFSET: u16 = 14;
const OPTION_EPB_FLAGS: u16 = 2;
const OPTION_EPB_DROPCOUNT: u16 = 4;
const OPTION_ISB_IFDROP: u16 = 5;
const OPTION_ISB_OSDROP: u16 = 7;

/// Type and length fields at the head of a block, bytes.
const HEAD: u32 = 8;
/// The second length field, at the end of a block, bytes.
const TRAILER: usize = 4;
/// The longest block that is held whole: the longest packet, and 64 KiB for fields and options.
const LONGEST_HELD: u32 = MAX_CAPTURED + (64 << 10);
/// The longest block that is skipped: the largest multiple of four.
const LONGEST_SKIPPED: u32 = u32::MAX - 3;
/// Most interfaces of a section: as many as the 16-bit interface number of the obsolete packet block has values. The limit
/// bounds the memory.
const MAX_INTERFACES: usize = 1 << 16;

struct Interface {
    link_type: u32,
    snaplen: u32,
    /// The largest captured length of a packet.
    longest: u32,
    clock: Clock,
    /// Bits per second; 0 if the file does not give it.
    speed: u64,
    dropped: Dropped,
}

pub(super) struct Pcapng {
    order: Order,
    interfaces: Vec<Interface>,
    /// Packets dropped in the sections before this one.
    dropped_before: Dropped,
}

impl Pcapng {
    pub(super) fn new() -> Self {
        // The first section header, which is still to be read, sets the order.
        Self { order: Order::Little, interfaces: Vec::new(), dropped_before: Dropped::default() }
    }

    pub(super) fn dropped(&self) -> Dropped {
        self.interfaces.iter().fold(self.dropped_before, |sum, Interface { dropped, .. }| Dropped {
            interface: sum.interface.saturating_add(dropped.interface),
            system: sum.system.saturating_add(dropped.system),
            between: sum.between.saturating_add(dropped.between),
        })
    }

    #[inline]
    pub(super) fn next<R: Read>(
        &mut self,
        input: &mut Input<R>,
        number: u64,
    ) -> Result<Option<Found>, Box<CaptureError>> {
        loop {
            let offset = input.position();
            let head = self.head(input).map_err(|fault| input.error(Place::Byte(offset), *fault))?;
            let Some((kind, length)) = head else { return Ok(None) };
            let found = match kind {
                ENHANCED_PACKET => self.enhanced_packet(input, length).map(Some),
                _ => self.other_block(input, kind, length),
            };
            match found {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                Err(fault) => {
                    let place = match kind {
                        OBSOLETE_PACKET | SIMPLE_PACKET | ENHANCED_PACKET => Place::Packet { offset, number },
                        _ => Place::Block { offset, kind },
                    };
                    return Err(input.error(place, *fault));
                }
            }
        }
    }

    /// Takes the type and the length of the next block; `None` at the end of the file. For a section header, takes the byte
    /// order too, because its length is in that byte order.
    #[inline]
    fn head<R: Read>(&mut self, input: &mut Input<R>) -> Result<Option<(u32, u32)>, Box<Fault>> {
        if input.at_end()? {
            return Ok(None);
        }
        let head = input.take(HEAD as usize, "block header")?;
        let (words, _) = input.bytes(head).as_chunks::<4>();
        let (kind, length) = (words[0], words[1]);
        if kind == SECTION_HEADER {
            let magic = input.take(4, "section header")?;
            let magic = input.bytes(magic).as_chunks().0[0];
            self.order = [Order::Little, Order::Big]
                .into_iter()
                .find(|order| order.u32(magic) == BYTE_ORDER_MAGIC)
                .ok_or(Fault::ByteOrder { found: magic })?;
        }
        Ok(Some((self.order.u32(kind), self.order.u32(length))))
    }

    /// Takes the rest of an enhanced packet block, the kind that a capture has most of, and returns its packet.
    #[inline]
    fn enhanced_packet<R: Read>(&mut self, input: &mut Input<R>, length: u32) -> Result<Found, Box<Fault>> {
        let body = self.body(input, length, 32)?;
        let [interface, high, low, captured, original_len] = self.order.words(input.bytes(body.clone()));
        let found = self.packet(interface, Some((high, low)), captured, original_len, body.start + 20..body.end)?;
        let options = body.start + 20 + (captured as usize).next_multiple_of(4);
        let direction =
            if options < body.end { self.flags(interface, input.bytes(options..body.end)) } else { Direction::Unknown };
        Ok(Found { direction, ..found })
    }

    /// Takes the rest of a block of another kind, and returns the packet if it holds one.
    #[inline(never)]
    fn other_block<R: Read>(
        &mut self,
        input: &mut Input<R>,
        kind: u32,
        length: u32,
    ) -> Result<Option<Found>, Box<Fault>> {
        match kind {
            SECTION => self.section(input, length).map(|()| None),
            INTERFACE_DESCRIPTION => {
                let body = self.body(input, length, 20)?;
                self.interface(input.bytes(body))?;
                Ok(None)
            }
            // Statistics are hints, so a block of a wrong length is skipped.
            INTERFACE_STATISTICS if (24..=LONGEST_HELD).contains(&length) && length.is_multiple_of(4) => {
                let body = self.body(input, length, 24)?;
                self.statistics(input.bytes(body));
                Ok(None)
            }
            SIMPLE_PACKET => {
                let body = self.body(input, length, 16)?;
                let [original_len] = self.order.words(input.bytes(body.clone()));
                // The block has no field for the captured length. It follows from this rule (section 4.4).
                let captured = match self.interfaces.first() {
                    Some(&Interface { snaplen: snaplen @ 1.., .. }) => original_len.min(snaplen),
                    _ => original_len,
                };
                self.packet(0, None, captured, original_len, body.start + 4..body.end).map(Some)
            }
            OBSOLETE_PACKET => {
                let body = self.body(input, length, 32)?;
                let [ids, high, low, captured, original_len] = self.order.words(input.bytes(body.clone()));
                // Interface and drop count, 16 bits each, in the order of the file.
                let (interface, drops) = match self.order {
                    Order::Little => (ids & 0xffff, ids >> 16),
                    Order::Big => (ids >> 16, ids & 0xffff),
                };
                let found =
                    self.packet(interface, Some((high, low)), captured, original_len, body.start + 20..body.end)?;
                // 65,535 means that the count is not known.
                self.lost_before(interface, if drops == 0xffff { 0 } else { drops.into() });
                Ok(Some(found))
            }
            _ => {
                check_length(length, 12, LONGEST_SKIPPED)?;
                self.pass(input, length, length - HEAD).map(|()| None)
            }
        }
    }

    /// Takes the rest of a block of `length` bytes, at least `min`, after its head, and returns it without the second length.
    #[inline(always)]
    fn body<R: Read>(&self, input: &mut Input<R>, length: u32, min: u32) -> Result<Range<usize>, Box<Fault>> {
        check_length(length, min, LONGEST_HELD)?;
        let Range { start, end } = input.take((length - HEAD) as usize, "block")?;
        let end = end - TRAILER;
        let [trailer] = self.order.words(input.bytes(end..end + TRAILER));
        if trailer != length {
            return Err(Fault::BlockTrailer { head: length, end: trailer }.into());
        }
        Ok(start..end)
    }

    /// Skips the last `left` bytes of a block of `length` bytes, and checks the second length at its end.
    fn pass<R: Read>(&self, input: &mut Input<R>, length: u32, left: u32) -> Result<(), Box<Fault>> {
        input.skip(u64::from(left) - TRAILER as u64, "block")?;
        let trailer = input.take(TRAILER, "block length")?;
        let [trailer] = self.order.words(input.bytes(trailer));
        if trailer != length {
            return Err(Fault::BlockTrailer { head: length, end: trailer }.into());
        }
        Ok(())
    }

    fn section<R: Read>(&mut self, input: &mut Input<R>, length: u32) -> Result<(), Box<Fault>> {
        check_length(length, 28, LONGEST_SKIPPED)?;
        let version = input.take(4, "section header")?;
        let (halves, _) = input.bytes(version).as_chunks::<2>();
        let version = (self.order.u16(halves[0]), self.order.u16(halves[1]));
        // 1.2 is what some programs wrote for 1.0 (section 4.1).
        if !matches!(version, (1, 0 | 2)) {
            return Err(Fault::Version { found: version, expected: "pcapng 1.0" }.into());
        }
        self.dropped_before = self.dropped();
        self.interfaces.clear();
        // Head, byte order and version have been taken.
        self.pass(input, length, length - HEAD - 8)
    }

    fn interface(&mut self, body: &[u8]) -> Result<(), Fault> {
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(Fault::Interfaces { limit: MAX_INTERFACES });
        }
        let (halves, _) = body.as_chunks::<2>();
        let link_type = u32::from(self.order.u16(halves[0]));
        let [_link_type, snaplen] = self.order.words(body);
        let (clock, speed) = self.description(&body[8..])?;
        let longest = longest_capture(snaplen);
        self.interfaces.push(Interface { link_type, snaplen, longest, clock, speed, dropped: Dropped::default() });
        Ok(())
    }

    /// The clock and the speed that the options of an interface description declare (section 4.2).
    fn description(&self, options: &[u8]) -> Result<(Clock, u64), Fault> {
        let (mut resolution, mut offset, mut speed) = (6, 0, 0);
        for option in self.options(options) {
            let (code, value) = option?;
            let wrong_length = || Fault::OptionLength { code, length: value.len() as u16 };
            match code {
                OPTION_IF_TSRESOL => {
                    let &[value] = value else { return Err(wrong_length()) };
                    resolution = value;
                }
                OPTION_IF_TSOFFSET => {
                    offset = self.u64(value).ok_or_else(wrong_length)? as i64;
                }
                OPTION_IF_SPEED => speed = self.u64(value).unwrap_or(0),
                _ => {}
            }
        }
        Ok((Clock::new(resolution, offset)?, speed))
    }

    /// Reads the counts of an interface statistics block (section 4.6), which are totals since the start of the capture. They
    /// are hints, so a fault in them is no error.
    fn statistics(&mut self, body: &[u8]) {
        let [interface] = self.order.words(body);
        let Some(options) = body.get(12..) else { return };
        let (mut by_interface, mut by_system) = (0, 0);
        for (code, value) in self.options(options).map_while(Result::ok) {
            match code {
                OPTION_ISB_IFDROP => by_interface = self.u64(value).unwrap_or(0),
                OPTION_ISB_OSDROP => by_system = self.u64(value).unwrap_or(0),
                _ => {}
            }
        }
        // All ones mean that the count is not known.
        let known = |count: u64| if count == u64::MAX { 0 } else { count };
        if let Some(Interface { dropped, .. }) = self.interfaces.get_mut(interface as usize) {
            (dropped.interface, dropped.system) = (known(by_interface), known(by_system));
        }
    }

    /// Reads the options of an enhanced packet block (section 4.3): returns the packet's direction, and counts the packets lost
    /// before it.
    fn flags(&mut self, interface: u32, options: &[u8]) -> Direction {
        let (mut direction, mut lost) = (Direction::Unknown, 0);
        for (code, value) in self.options(options).map_while(Result::ok) {
            match code {
                OPTION_EPB_FLAGS if value.len() == 4 => {
                    let [flags] = self.order.words(value);
                    direction = match flags & 3 {
                        1 => Direction::Inbound,
                        2 => Direction::Outbound,
                        _ => Direction::Unknown,
                    };
                }
                OPTION_EPB_DROPCOUNT => lost = self.u64(value).unwrap_or(0),
                _ => {}
            }
        }
        self.lost_before(interface, lost);
        direction
    }

    fn lost_before(&mut self, interface: u32, packets: u64) {
        if let Some(Interface { dropped, .. }) = self.interfaces.get_mut(interface as usize) {
            dropped.between = dropped.between.saturating_add(packets);
        }
    }

    fn u64(&self, value: &[u8]) -> Option<u64> {
        let value = value.try_into().ok()?;
        Some(match self.order {
            Order::Little => u64::from_le_bytes(value),
            Order::Big => u64::from_be_bytes(value),
        })
    }

    /// Codes and values of a block's options, up to the end; an error if a length goes beyond the block.
    fn options<'a>(&self, options: &'a [u8]) -> impl Iterator<Item = Result<(u16, &'a [u8]), Fault>> + use<'a> {
        let (order, mut left) = (self.order, Some(options));
        std::iter::from_fn(move || {
            let (&[c0, c1, l0, l1], rest) = left?.split_first_chunk()?;
            let (code, length) = (order.u16([c0, c1]), order.u16([l0, l1]));
            let value = rest.get(..length.into());
            // The body's length is a multiple of 4, so the padding is in the block if the value is.
            left = value.and_then(|_| rest.get(usize::from(length).next_multiple_of(4)..));
            match value {
                _ if code == OPTION_END => {
                    left = None;
                    None
                }
                Some(value) => Some(Ok((code, value))),
                None => Some(Err(Fault::OptionLength { code, length })),
            }
        })
    }

    /// A packet whose bytes are at the start of `room`.
    #[inline(always)]
    fn packet(
        &self,
        interface: u32,
        ticks: Option<(u32, u32)>,
        captured: u32,
        original_len: u32,
        room: Range<usize>,
    ) -> Result<Found, Box<Fault>> {
        let Some(&Interface { link_type, longest, ref clock, speed, .. }) = self.interfaces.get(interface as usize)
        else {
            return Err(Fault::Interface { index: interface, declared: self.interfaces.len() }.into());
        };
        if link_type != ETHERNET {
            return Err(Fault::UnsupportedLinkType(link_type).into());
        }
        if captured > longest {
            return Err(Fault::CapturedLength { length: captured, limit: longest }.into());
        }
        if captured as usize > room.len() {
            return Err(Fault::Overrun { length: captured, room: room.len() }.into());
        }
        let timestamp_ns = match ticks {
            Some((high, low)) => Some(clock.nanoseconds(u64::from(high) << 32 | u64::from(low)).ok_or(Fault::Time)?),
            None => None,
        };
        let bytes = room.start..room.start + captured as usize;
        Ok(Found { timestamp_ns, interface, direction: Direction::Unknown, speed, original_len, bytes })
    }
}

/// Checks the length of a block against its limits; it has to be a multiple of four.
#[inline]
fn check_length(length: u32, min: u32, max: u32) -> Result<(), Box<Fault>> {
    if !length.is_multiple_of(4) || length < min || length > max {
        return Err(Fault::BlockLength { length, min, max }.into());
    }
    Ok(())
}

/// The clock of an interface: the length of a tick, and the time of tick 0.
struct Clock {
    tick: Tick,
    /// Nanoseconds from 1970 to tick 0.
    offset_ns: i128,
}

enum Tick {
    /// A tick is this many nanoseconds.
    Nanoseconds(u64),
    /// A nanosecond is this many ticks.
    PerNanosecond(u64),
    /// A tick is 2^-n seconds, with this n.
    BinarySeconds(u8),
}

impl Clock {
    /// Makes it from `if_tsresol` and `if_tsoffset` (seconds). Resolutions finer than 10^-19 or 2^-63 seconds are refused:
    /// their 64-bit counters would wrap within two seconds.
    fn new(resolution: u8, offset_s: i64) -> Result<Self, Fault> {
        let tick = match resolution {
            0..=9 => Tick::Nanoseconds(10u64.pow(9 - u32::from(resolution))),
            10..=19 => Tick::PerNanosecond(10u64.pow(u32::from(resolution) - 9)),
            0x80..=0xbf => Tick::BinarySeconds(resolution & 0x7f),
            _ => return Err(Fault::Resolution(resolution)),
        };
        Ok(Self { tick, offset_ns: i128::from(offset_s) * i128::from(NANOSECONDS_PER_SECOND) })
    }

    /// The time of a tick in nanoseconds since 1970, rounded down; `None` if it is negative or exceeds 64 bits.
    #[inline]
    fn nanoseconds(&self, ticks: u64) -> Option<u64> {
        // At most 2^64 * 10^9, below 2^94.
        let since_tick_0 = match self.tick {
            Tick::Nanoseconds(each) => u128::from(ticks) * u128::from(each),
            Tick::PerNanosecond(count) => u128::from(ticks / count),
            Tick::BinarySeconds(shift) => (u128::from(ticks) * u128::from(NANOSECONDS_PER_SECOND)) >> shift,
        };
        u64::try_from(since_tick_0 as i128 + self.offset_ns).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanoseconds(resolution: u8, offset_s: i64, ticks: u64) -> Option<u64> {
        Clock::new(resolution, offset_s).ok()?.nanoseconds(ticks)
    }

    #[test]
    fn one_and_a_half_seconds_are_the_same_in_every_resolution() {
        for digits in 1..=19 {
            let ticks = 15 * 10u64.pow(u32::from(digits) - 1);
            assert_eq!(nanoseconds(digits, 0, ticks), Some(1_500_000_000), "10^-{digits}");
        }
        for bits in 1..=63 {
            assert_eq!(nanoseconds(0x80 | bits, 0, 3 << (bits - 1)), Some(1_500_000_000), "2^-{bits}");
        }
        assert_eq!(nanoseconds(0, 0, 2), Some(2_000_000_000));
        assert_eq!(nanoseconds(0x80, 0, 2), Some(2_000_000_000));
    }

    #[test]
    fn finer_clocks_round_down() {
        assert_eq!(nanoseconds(12, 0, 1_999), Some(1));
        assert_eq!(nanoseconds(19, 0, u64::MAX), Some(1_844_674_407));
        // 2^-20 s is 953.67 ns.
        assert_eq!(nanoseconds(0x94, 0, 1), Some(953));
        // 2^-10 s is 976,562.5 ns.
        assert_eq!(nanoseconds(0x8a, 0, 3), Some(2_929_687));
        assert_eq!(nanoseconds(0xbf, 0, u64::MAX), Some(1_999_999_999));
    }

    #[test]
    fn the_offset_is_whole_seconds_and_may_be_negative() {
        assert_eq!(nanoseconds(9, 1_700_000_000, 7), Some(1_700_000_000_000_000_007));
        assert_eq!(nanoseconds(9, -1, 1_000_000_007), Some(7));
        assert_eq!(nanoseconds(9, -2, 1_000_000_007), None);
        assert_eq!(nanoseconds(9, i64::MIN, u64::MAX), None);
        assert_eq!(nanoseconds(0, i64::MAX, u64::MAX), None);
        assert_eq!(nanoseconds(9, 0, u64::MAX), Some(u64::MAX));
        assert_eq!(nanoseconds(9, 1, u64::MAX), None);
    }

    #[test]
    fn other_resolutions_are_refused() {
        for resolution in (20..0x80).chain(0xc0..=0xff) {
            assert!(Clock::new(resolution, 0).is_err(), "{resolution:#x}");
        }
    }
}
