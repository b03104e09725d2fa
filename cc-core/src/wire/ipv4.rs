//! IPv4 with options (RFC 791), as far as RoCEv2 needs it.

use super::cursor::{Input, two};
use super::{Ip, Malformed, TrafficClass};
use bitfield::bitfield;

bitfield! {
    struct VersionIhl(u8);
    u8, version, _: 7, 4;
    u8, ihl, _: 3, 0;
}

bitfield! {
    struct Fragment(u16);
    // More fragments, and the offset of this one.
    u16, part, _: 13, 0;
}

/// Reads header and options. The input then begins after them, and ends with the datagram.
///
/// The header checksum is not verified: the MAC in front of this parser drops frames that fail it, and the
/// ICRC leaves it out because every router rewrites it.
#[inline]
pub(super) fn parse<'a>(input: &mut Input<'a>, ip: &mut Ip<'a>) -> Result<(), Malformed> {
    let &[version_ihl, tos, len0, len1, _, _, fragment0, fragment1, _, protocol, _, _, ref addresses @ ..] =
        input.take::<20>(Malformed::IpShort)?;
    let version_ihl = VersionIhl(version_ihl);
    if version_ihl.version() != 4 {
        return Err(Malformed::IpVersion);
    }
    let options = usize::from(version_ihl.ihl()).checked_sub(5).ok_or(Malformed::Ihl)?.wrapping_mul(4);
    let total = usize::from(two([len0, len1]));
    input.limit(total.checked_sub(20).ok_or(Malformed::IpLength)?, Malformed::IpLength)?;
    input.take_slice(options, Malformed::IpLength)?;
    if Fragment(two([fragment0, fragment1])).part() != 0 {
        return Err(Malformed::Fragment);
    }
    *ip = Ip { len: options.wrapping_add(20), traffic_class: TrafficClass(tos), protocol, addresses };
    Ok(())
}

/// The sum, in ones' complement, of an even number of bytes, at most 2^16, and of what has been summed up before (RFC 1071).
pub(super) fn sum(before: u32, bytes: &[u8]) -> u16 {
    let (words, _) = bytes.as_chunks::<2>();
    let sum = words.iter().fold(before, |sum, &word| sum.wrapping_add(u32::from(u16::from_be_bytes(word))));
    // So few 16-bit words that the first fold leaves a carry of one at most, the second none.
    let folded = (sum & 0xffff).wrapping_add(sum >> 16);
    let [_, _, high, low] = folded.wrapping_add(folded >> 16).to_be_bytes();
    u16::from_be_bytes([high, low])
}
