//! UDP (RFC 768). The destination port alone makes a datagram RoCEv2: source ports are entropy for ECMP and
//! take any value, those of other protocols included.

use super::Malformed;
use super::cursor::Input;

/// IP protocol number.
pub(super) const PROTOCOL: u8 = 17;

/// The UDP destination port of RoCEv2 (IBTA volume 1, annex A17).
pub const ROCE_PORT: u16 = 4791;

/// Reads the header of a RoCEv2 datagram, or `None` if the datagram goes to another port. The input is left
/// at the first byte behind the header and ends where the datagram does.
#[inline]
pub(super) fn parse<'a>(input: &mut Input<'a>) -> Result<Option<&'a [u8; 8]>, Malformed> {
    let head = input.take::<8>(Malformed::UdpShort)?;
    let &[_, _, port0, port1, len0, len1, ..] = head;
    if u16::from_be_bytes([port0, port1]) != ROCE_PORT {
        return Ok(None);
    }
    let len = usize::from(u16::from_be_bytes([len0, len1]));
    input.limit(len.checked_sub(8).ok_or(Malformed::UdpLength)?, Malformed::UdpLength)?;
    Ok(Some(head))
}

/// A header with checksum zero, as RoCE NICs send it: the ICRC protects more than it would.
#[inline]
pub(super) fn emit(source: u16, len: u16) -> [u8; 8] {
    let ([s0, s1], [d0, d1], [l0, l1]) = (source.to_be_bytes(), ROCE_PORT.to_be_bytes(), len.to_be_bytes());
    [s0, s1, d0, d1, l0, l1, 0, 0]
}
