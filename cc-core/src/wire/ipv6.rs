//! IPv6 with extension headers (RFC 8200), as far as RoCEv2 needs it.

use super::cursor::{Input, two};
use super::{Ip, Malformed, TrafficClass};
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

/// Reads the header, which the GRH of RoCEv1 shares, and ends the input where the packet ends. `errors` are for a header that
/// is short, of another version, or too long.
#[cold]
#[inline(never)]
pub(super) fn head<'a>(input: &mut Input<'a>, ip: &mut Ip<'a>, errors: [Malformed; 3]) -> Result<(), Malformed> {
    let [short, version, length] = errors;
    let &[w0, w1, w2, w3, len0, len1, protocol, _, ref addresses @ ..] = input.take::<40>(short)?;
    let first = First(u32::from_be_bytes([w0, w1, w2, w3]));
    if first.version() != 6 {
        return Err(version);
    }
    input.limit(usize::from(two([len0, len1])), length)?;
    *ip = Ip { len: 40, traffic_class: TrafficClass(first.traffic_class()), protocol, addresses };
    Ok(())
}

/// Reads the header and hop-by-hop options, routing, destination options and atomic fragment headers (RFC 6946) behind it, in
/// any number and order. The input is left at the first byte behind them and ends where the packet does.
#[cold]
#[inline(never)]
pub(super) fn parse<'a>(input: &mut Input<'a>, ip: &mut Ip<'a>) -> Result<(), Malformed> {
    head(input, ip, [Malformed::IpShort, Malformed::IpVersion, Malformed::IpLength])?;
    let behind = input.left();
    loop {
        match ip.protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                let &[next, units] = input.take(Malformed::Ipv6Extension)?;
                // Counted in units of eight bytes, the first not included.
                let rest = usize::from(units).wrapping_mul(8).wrapping_add(6);
                input.take_slice(rest, Malformed::Ipv6Extension)?;
                ip.protocol = next;
            }
            FRAGMENT => {
                let &[next, _, fragment0, fragment1, _, _, _, _] = input.take(Malformed::Ipv6Extension)?;
                let fragment = Fragment(two([fragment0, fragment1]));
                if fragment.more() || fragment.offset() != 0 {
                    return Err(Malformed::Fragment);
                }
                ip.protocol = next;
            }
            _ => break,
        }
    }
    ip.len = ip.len.wrapping_add(behind.wrapping_sub(input.left()));
    Ok(())
}
