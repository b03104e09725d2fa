//! UDP (RFC 768). The destination port alone makes a datagram RoCEv2, with shims or without: source ports are entropy for
//! ECMP and take any value, those of other protocols included.

use super::Malformed;
use super::cursor::{Input, Output, two};
use super::shim::Places;

/// IP protocol number.
pub(super) const PROTOCOL: u8 = 17;

/// The UDP destination port of RoCEv2 (IBTA volume 1, annex A17).
pub const ROCE_PORT: u16 = 4791;

/// Reads the header of a RoCEv2 datagram, and tells where the shims behind it are: nowhere on RoCE's own port.
/// `None` if the datagram goes neither there nor to the shims' port. The input is left at the first byte behind the header
/// and ends where the datagram does.
#[inline(always)]
pub(super) fn parse(input: &mut Input<'_>, shim_port: u16) -> Result<Option<Places>, Malformed> {
    let &[_, _, port0, port1, len0, len1, _, _] = input.take(Malformed::UdpShort)?;
    let port = two([port0, port1]);
    let len = usize::from(two([len0, len1]));
    let mut places = Places::NONE;
    if port != ROCE_PORT {
        elsewhere(*input, len, port == shim_port, &mut places)?;
        if places.len() == 0 {
            return Ok(None);
        }
    }
    end(input, len)?;
    Ok(Some(places))
}

/// Ends the input behind the header where the datagram ends.
#[inline(always)]
fn end(input: &mut Input<'_>, len: usize) -> Result<(), Malformed> {
    input.limit(len.checked_sub(8).ok_or(Malformed::UdpLength)?, Malformed::UdpLength)
}

/// The shims of a datagram that does not go to RoCE's own port, if it goes to theirs.
// A function of its own, so that packets without shims pay for one comparison.
#[inline(never)]
fn elsewhere(mut input: Input<'_>, len: usize, shimmed: bool, places: &mut Places) -> Result<(), Malformed> {
    if !shimmed {
        return Ok(());
    }
    end(&mut input, len)?;
    places.find(input)
}

/// Writes a header with checksum zero, as RoCE NICs send it: the ICRC protects more than it would.
#[inline]
pub(super) fn emit(output: &mut Output<'_>, source: u16, destination: u16, len: u16) {
    output.word(u32::from(source) << 16 | u32::from(destination));
    output.word(u32::from(len) << 16);
}
