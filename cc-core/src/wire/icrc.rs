//! The invariant CRC (IBTA volume 1, section 7.8.1 and annex A17.3.3).
//!
//! A CRC-32 with Ethernet's polynomial over what routers do not change: eight bytes of ones (in place of InfiniBand's local
//! route header, which Ethernet does not have), then the packet from its IP header or GRH to its pad, with ones in place of the
//! fields that routers may change: IPv4 type of service, time to live and header checksum; IPv6 and GRH traffic class, flow
//! label and hop limit; UDP checksum; the BTH byte that holds FECN and BECN. It is stored little endian behind the pad.
//!
//! IPv4 options and IPv6 extension headers are covered as they stand: the annex masks no field in them. Where
//! a router rewrites one (a recorded route, a routing header's segments left), the ICRC fails at the receiver.
//!
//! A packet with [shims](super::shim) has the ICRC that it would have without them.

use super::ROCE_PORT;
use super::cursor::{Output, two};
use super::route::Network;

/// A CRC-32 engine: reflected polynomial 0xEDB88320, initial value and final complement all ones.
///
/// Firmware uses [`TableCrc`]; hosts have faster ones. [`NoCrc`] computes nothing.
pub trait Crc32 {
    /// Whether the engine computes a CRC. If `false`, emitted frames have zeros in place of their ICRC, and the ICRC of a
    /// received packet is [`Icrc::Unchecked`].
    const COMPUTES: bool = true;

    /// An engine that has taken bytes whose CRC-32 is `crc`; 0 for one that has taken no bytes.
    fn resume(crc: u32) -> Self;

    /// Takes more bytes.
    fn update(&mut self, bytes: &[u8]);

    /// The CRC-32 of all bytes taken.
    fn finish(self) -> u32;
}

/// One byte per step, with a table of 1 KiB.
#[derive(Clone, Copy, Debug)]
pub struct TableCrc(u32);

impl TableCrc {
    #[inline]
    fn step(state: u32, byte: &u8) -> u32 {
        let [low, ..] = state.to_le_bytes();
        // A byte is always inside a table of 256, so the compiler removes the test.
        (state >> 8) ^ TABLE.get(usize::from(low ^ byte)).copied().unwrap_or(0)
    }
}

impl Crc32 for TableCrc {
    #[inline]
    fn resume(crc: u32) -> Self {
        Self(!crc)
    }

    // Not inlined: called for each part of a packet.
    #[inline(never)]
    fn update(&mut self, bytes: &[u8]) {
        // Four steps in each iteration of the loop: its branch takes a small core a quarter of the time of a step.
        let (words, rest) = bytes.as_chunks::<4>();
        let state = words.iter().fold(self.0, |state, word| word.iter().fold(state, Self::step));
        self.0 = rest.iter().fold(state, Self::step);
    }

    #[inline]
    fn finish(self) -> u32 {
        !self.0
    }
}

/// An engine that computes nothing, for frames that stay inside one simulation: nothing damages them, so that computing the
/// ICRC at the sender and again at the receiver would only take time. Frames keep the four bytes of the ICRC, so that their
/// lengths are right.
#[derive(Clone, Copy, Debug)]
pub struct NoCrc;

impl Crc32 for NoCrc {
    const COMPUTES: bool = false;

    #[inline]
    fn resume(_: u32) -> Self {
        Self
    }

    #[inline]
    fn update(&mut self, _: &[u8]) {}

    /// Zero.
    #[inline]
    fn finish(self) -> u32 {
        0
    }
}

#[expect(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "evaluated at compile time only")]
static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < table.len() {
        let mut state = i as u32;
        let mut bit = 0;
        while bit < 8 {
            state = if state & 1 == 1 { (state >> 1) ^ 0xedb8_8320 } else { state >> 1 };
            bit += 1;
        }
        table[i] = state;
        i += 1;
    }
    table
};

/// The residue: the CRC-32 of bytes that end with their own CRC-32, and of no others.
pub(super) const WITH_ITSELF: u32 = 0x2144_df1c;

/// The CRC-32 of the eight bytes of ones; in other conventions "state 0xDEBB20E3", before the complement.
pub const MASKED_LRH: u32 = !0xdebb_20e3;

/// Whether the ICRC of a received packet is right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Icrc {
    /// It is right.
    Valid,
    /// It is wrong: the packet was damaged and must be ignored.
    Invalid,
    /// Not known: the capture's snap length cut the packet, or the engine computes no CRC ([`Crc32::COMPUTES`]).
    Unchecked,
}

/// The ICRC of a packet as it would be without its `chain_len` bytes of shims. `head` is the headers between Ethernet and the
/// shims, `datagram` what follows, from the shims up to the ICRC. `None` if they are too short. If `datagram` includes the ICRC
/// and it is right, the result is [`WITH_ITSELF`].
pub(super) fn compute<E: Crc32>(network: Network, head: &[u8], datagram: &[u8], chain_len: usize) -> Option<u32> {
    // All of the network's fields that may change are in its first twelve bytes, UDP's in its last six, the BTH's is its fifth.
    let udp_len = if network == Network::Grh { 0 } else { 6 };
    let (first, behind) = head.split_at_checked(12)?;
    let (middle, _) = behind.split_at_checked(behind.len().wrapping_sub(udp_len))?;
    let (bth, body) = datagram.get(chain_len..)?.split_first_chunk()?;
    let mut crc = E::resume(MASKED_LRH);

    let mut masked = [0; 12];
    Output::new(&mut masked).put(first);
    let [n0, n1, n2, n3, n4, n5, _, n7, n8, _, n10, n11] = &mut masked;
    let ([v0, v1, v2, v3], [len0, len1]) = match network {
        Network::V4 => ([n1, n8, n10, n11], [n2, n3]),
        Network::V6 | Network::Grh => {
            *n0 |= 0x0f;
            ([n1, n2, n3, n7], [n4, n5])
        }
    };
    [*v0, *v1, *v2, *v3] = [0xff; 4];
    [*len0, *len1] = shortened([*len0, *len1], chain_len);
    crc.update(&masked);
    crc.update(middle);

    let &[.., len0, len1, _, _] = head.last_chunk::<4>()?;
    let &[b0, b1, b2, b3, _] = bth;
    let [port0, port1] = ROCE_PORT.to_be_bytes();
    let [len0, len1] = shortened([len0, len1], chain_len);
    let transport = [port0, port1, len0, len1, 0xff, 0xff, b0, b1, b2, b3, 0xff];
    crc.update(transport.get(6usize.wrapping_sub(udp_len)..)?);
    crc.update(body);
    Some(crc.finish())
}

/// A length field less the shims, which it counts.
#[inline]
fn shortened(len: [u8; 2], chain_len: usize) -> [u8; 2] {
    let [low, high, ..] = usize::from(two(len)).wrapping_sub(chain_len).to_le_bytes();
    [high, low]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc_of_123456789_is_the_catalogues_check_value() {
        let mut crc = TableCrc::resume(0);
        crc.update(b"1234");
        crc.update(b"56789");
        assert_eq!(crc.finish(), 0xcbf4_3926);
    }

    #[test]
    fn eight_bytes_of_ones_leave_the_known_state() {
        let mut crc = TableCrc::resume(0);
        crc.update(&[0xff; 8]);
        assert_eq!(!crc.finish(), 0xdebb_20e3);
        assert_eq!(crc.finish(), MASKED_LRH);
    }

    #[test]
    fn the_table_is_one_kibibyte() {
        assert_eq!(size_of_val(&TABLE), 1024);
    }
}
