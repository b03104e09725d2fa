//! IPv6 with extension headers (RFC 8200), as far as RoCEv2 needs it, and RoCEv1's GRH.

use super::cursor::{Input, two};
use super::route::Network;
use super::{Ip, Malformed, TrafficClass, grh};
use bitfield::bitfield;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

bitfield! {
    struct First(u32);
    u8, version, _: 31, 28;
    u8, traffic_class, _: 27, 20;
}

bitfield! {
    struct Fragment(u16);
    u16, offset, _: 15, 3;
    more, _: 0;
}

/// Reads the header, or the GRH of RoCEv1, which is the same, and, after the header of IPv6, hop-by-hop options, routing,
/// destination options and atomic fragment headers (RFC 6946), in any number and order. The input then begins after them, and
/// ends with the packet.
#[cold]
#[inline(never)]
pub(super) fn parse<'a>(network: Network, input: &mut Input<'a>, ip: &mut Ip<'a>) -> Result<(), Malformed> {
    let [short, another, length] = match network {
        Network::Grh => grh::ERRORS,
        Network::V4 | Network::V6 => [Malformed::IpShort, Malformed::IpVersion, Malformed::IpLength],
    };
    let &[w0, w1, w2, w3, len0, len1, protocol, _, ref addresses @ ..] = input.take::<40>(short)?;
    let first = First(u32::from_be_bytes([w0, w1, w2, w3]));
    if first.version() != 6 {
        return Err(another);
    }
    input.limit(usize::from(two([len0, len1])), length)?;
    *ip = Ip { len: 40, traffic_class: TrafficClass(first.traffic_class()), protocol, addresses };
    if network == Network::Grh {
        return if protocol == grh::NEXT_IS_BTH { Ok(()) } else { Err(another) };
    }
    let behind = input.left();
    while matches!(ip.protocol, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS) {
        let &[next, units, fragment0, fragment1, ..] = input.take::<8>(Malformed::Ipv6Extension)?;
        if ip.protocol == FRAGMENT {
            let fragment = Fragment(two([fragment0, fragment1]));
            if fragment.more() || fragment.offset() != 0 {
                return Err(Malformed::Fragment);
            }
        } else {
            // Counted in units of eight bytes, the first not included.
            input.take_slice(usize::from(units).wrapping_mul(8), Malformed::Ipv6Extension)?;
        }
        ip.protocol = next;
    }
    ip.len = ip.len.wrapping_add(behind.wrapping_sub(input.left()));
    Ok(())
}
