//! The global route header of RoCEv1 (IBTA volume 1, section 8.3; EtherType 0x8915): IPv6 in all but name.

use super::cursor::Input;
use super::{Ip, Malformed, ipv6};

/// Next header value that announces a base transport header.
pub(super) const NEXT_IS_BTH: u8 = 0x1b;

/// Reads the header. The input is left at the BTH and ends with the ICRC.
#[inline]
pub(super) fn parse<'a>(input: &mut Input<'a>, ip: &mut Ip<'a>) -> Result<(), Malformed> {
    ipv6::head(input, ip, [Malformed::GrhShort, Malformed::Grh, Malformed::GrhLength])?;
    if ip.protocol == NEXT_IS_BTH { Ok(()) } else { Err(Malformed::Grh) }
}
