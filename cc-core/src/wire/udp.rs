//! UDP (RFC 768). The destination port alone makes a datagram RoCEv2, with shims or without: source ports are entropy for
//! ECMP and take any value, those of other protocols included.

use super::cursor::Input;
use super::{Malformed, shim};

/// IP protocol number.
pub(super) const PROTOCOL: u8 = 17;

/// The UDP destination port of RoCEv2 (IBTA volume 1, annex A17).
pub const ROCE_PORT: u16 = 4791;

/// Bytes of the header.
pub(super) const HEAD_LEN: usize = 8;

/// A parsed header.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Udp<'a> {
    pub(super) head: &'a [u8; HEAD_LEN],
    /// The chain of shims, its end included; empty on RoCE's own port.
    pub(super) shims: &'a [u8],
}

impl<'a> Udp<'a> {
    /// Reads the header of a RoCEv2 datagram, and the shims if it goes to their port; `None` if it goes to another. The
    /// input is left at the BTH and ends where the datagram does.
    #[inline]
    pub(super) fn parse(input: &mut Input<'a>, shim_port: u16) -> Result<Option<Self>, Malformed> {
        let head = input.take::<HEAD_LEN>(Malformed::UdpShort)?;
        let &[_, _, port0, port1, len0, len1, ..] = head;
        let port = u16::from_be_bytes([port0, port1]);
        if port != ROCE_PORT && port != shim_port {
            return Ok(None);
        }
        let len = usize::from(u16::from_be_bytes([len0, len1]));
        input.limit(len.checked_sub(HEAD_LEN).ok_or(Malformed::UdpLength)?, Malformed::UdpLength)?;
        let shims = if port == ROCE_PORT { &[] } else { shim::parse(input)? };
        Ok(Some(Self { head, shims }))
    }
}

/// A header with checksum zero, as RoCE NICs send it: the ICRC protects more than it would.
#[inline]
pub(super) fn emit(source: u16, destination: u16, len: u16) -> [u8; HEAD_LEN] {
    let ([s0, s1], [d0, d1], [l0, l1]) = (source.to_be_bytes(), destination.to_be_bytes(), len.to_be_bytes());
    [s0, s1, d0, d1, l0, l1, 0, 0]
}
