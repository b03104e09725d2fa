//! UDP (RFC 768). The destination port alone makes a datagram RoCEv2, with shims or without: source ports are entropy for
//! ECMP and take any value, those of other protocols included.

use super::Malformed;
use super::cursor::{Input, Output, two};

/// IP protocol number.
pub(super) const PROTOCOL: u8 = 17;

/// The UDP destination port of RoCEv2 (IBTA volume 1, annex A17).
pub const ROCE_PORT: u16 = 4791;

/// Reads the header of a RoCEv2 datagram. Returns `true` for the shims' port, `false` for RoCE's own port, `None` for any
/// other. The input is left at the first byte behind the header and ends where the datagram does.
#[inline(always)]
pub(super) fn parse(input: &mut Input<'_>, shim_port: u16) -> Result<Option<bool>, Malformed> {
    let &[_, _, port0, port1, len0, len1, _, _] = input.take(Malformed::UdpShort)?;
    let port = two([port0, port1]);
    if port != ROCE_PORT && port != shim_port {
        return Ok(None);
    }
    let len = usize::from(two([len0, len1]));
    input.limit(len.checked_sub(8).ok_or(Malformed::UdpLength)?, Malformed::UdpLength)?;
    Ok(Some(port != ROCE_PORT))
}

/// Writes a header with checksum zero, as RoCE NICs send it: the ICRC protects more than it would.
#[inline]
pub(super) fn emit(output: &mut Output<'_>, source: u16, destination: u16, len: u16) {
    output.words(&[u32::from(source) << 16 | u32::from(destination), u32::from(len) << 16]);
}
