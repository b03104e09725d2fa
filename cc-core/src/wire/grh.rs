//! The global route header of RoCEv1 (IBTA volume 1, section 8.3; EtherType 0x8915): IPv6 in all but name.

use super::cursor::Input;
use super::{Malformed, TrafficClass, ipv6};

/// Next header value that announces a base transport header.
pub(super) const NEXT_IS_BTH: u8 = 0x1b;

/// Reads the header. The input is left at the BTH and ends with the ICRC.
#[inline]
pub(super) fn parse<'a>(input: &mut Input<'a>) -> Result<(&'a [u8; 40], TrafficClass), Malformed> {
    let head = input.take::<40>(Malformed::GrhShort)?;
    let &[w0, w1, w2, w3, len0, len1, next, ..] = head;
    let traffic_class = ipv6::traffic_class([w0, w1, w2, w3]).ok_or(Malformed::Grh)?;
    if next != NEXT_IS_BTH {
        return Err(Malformed::Grh);
    }
    input.limit(usize::from(u16::from_be_bytes([len0, len1])), Malformed::GrhLength)?;
    Ok((head, traffic_class))
}
