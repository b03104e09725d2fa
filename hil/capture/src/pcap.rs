//! The pcap format: a file header, then records (draft-ietf-opsawg-pcap, sections 4 and 5).

use std::io::Read;

use super::input::Input;
use super::{CaptureError, Direction, ETHERNET, Fault, Found, NANOSECONDS_PER_SECOND, Order, Place, longest_capture};

/// The low 26 bits of the last word of the file header: the link type, and the reserved bits above it. The other bits are the
/// length of the frame check sequence. One at the end of a frame is harmless to a parser, like Ethernet padding.
const LINK_TYPE: u32 = 0x03ff_ffff;

/// Byte order and nanoseconds per tick of the sub-second field, if `magic` starts a pcap file.
pub(super) fn magic(magic: [u8; 4]) -> Option<(Order, u64)> {
    match magic {
        [0xd4, 0xc3, 0xb2, 0xa1] => Some((Order::Little, 1_000)),
        [0xa1, 0xb2, 0xc3, 0xd4] => Some((Order::Big, 1_000)),
        [0x4d, 0x3c, 0xb2, 0xa1] => Some((Order::Little, 1)),
        [0xa1, 0xb2, 0x3c, 0x4d] => Some((Order::Big, 1)),
        _ => None,
    }
}

pub(super) struct Pcap {
    order: Order,
    nanoseconds_per_tick: u64,
    longest: u32,
    link_type: u32,
}

impl Pcap {
    pub(super) fn read_header<R: Read>(
        input: &mut Input<R>,
        order: Order,
        nanoseconds_per_tick: u64,
    ) -> Result<Self, Box<Fault>> {
        let header = input.take(24, "file header")?;
        let [_magic, version, _zone, _accuracy, snaplen, link_type] = order.words(input.bytes(header));
        // The major version is the first half-word in either byte order.
        let version = match order {
            Order::Little => (version as u16, (version >> 16) as u16),
            Order::Big => ((version >> 16) as u16, version as u16),
        };
        if version != (2, 4) {
            return Err(Fault::Version { found: version, expected: "pcap 2.4" }.into());
        }
        Ok(Self { order, nanoseconds_per_tick, longest: longest_capture(snaplen), link_type: link_type & LINK_TYPE })
    }

    #[inline]
    pub(super) fn next<R: Read>(
        &mut self,
        input: &mut Input<R>,
        number: u64,
    ) -> Result<Option<Found>, Box<CaptureError>> {
        let place = Place::Packet { offset: input.position(), number };
        self.record(input).map_err(|fault| input.error(place, *fault))
    }

    #[inline]
    fn record<R: Read>(&self, input: &mut Input<R>) -> Result<Option<Found>, Box<Fault>> {
        if input.at_end()? {
            return Ok(None);
        }
        let header = input.take(16, "packet header")?;
        let [seconds, ticks, captured, original_len] = self.order.words(input.bytes(header));
        if self.link_type != ETHERNET {
            return Err(Fault::UnsupportedLinkType(self.link_type).into());
        }
        if captured > self.longest {
            return Err(Fault::CapturedLength { length: captured, limit: self.longest }.into());
        }
        let bytes = input.take(captured as usize, "packet data")?;
        // At most 2^32 * 10^9 + 2^32 * 10^3: no overflow, even if the file has a million microseconds or more.
        let timestamp_ns = u64::from(seconds) * NANOSECONDS_PER_SECOND + u64::from(ticks) * self.nanoseconds_per_tick;
        let direction = Direction::Unknown;
        Ok(Some(Found { timestamp_ns: Some(timestamp_ns), interface: 0, direction, speed: 0, original_len, bytes }))
    }
}
