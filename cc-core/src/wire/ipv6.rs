//! IPv6 with extension headers (RFC 8200), as far as RoCEv2 needs it.

use super::cursor::{Input, Output, two};
use super::{EmitError, Malformed, TrafficClass};
use bitfield::bitfield;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

bitfield! {
    struct First(u32);
    u8, version, set_version: 31, 28;
    u8, traffic_class, set_traffic_class: 27, 20;
}

bitfield! {
    struct Fragment(u16);
    u16, offset, _: 15, 3;
    more, _: 0;
}

/// The traffic class in a header's first word, which the GRH of RoCEv1 shares; `None` if the version is not 6.
#[inline]
pub(super) fn traffic_class(word: [u8; 4]) -> Option<TrafficClass> {
    let first = First(u32::from_be_bytes(word));
    (first.version() == 6).then_some(TrafficClass(first.traffic_class()))
}

/// A parsed header; the input is left at the first byte behind the extension headers and ends where the
/// packet does.
pub(super) struct Ipv6<'a> {
    pub(super) head: &'a [u8; 40],
    pub(super) extensions: &'a [u8],
    pub(super) traffic_class: TrafficClass,
    pub(super) protocol: u8,
}

impl<'a> Ipv6<'a> {
    /// Reads the header and hop-by-hop options, routing, destination options and atomic fragment headers
    /// (RFC 6946) behind it, in any number and order.
    #[inline]
    pub(super) fn parse(input: &mut Input<'a>) -> Result<Self, Malformed> {
        let head = input.take::<40>(Malformed::IpShort)?;
        let &[w0, w1, w2, w3, len0, len1, mut protocol, ..] = head;
        let traffic_class = traffic_class([w0, w1, w2, w3]).ok_or(Malformed::IpVersion)?;
        input.limit(usize::from(two([len0, len1])), Malformed::IpLength)?;
        let behind = input.bytes();
        loop {
            match protocol {
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                    let &[next, units] = input.take(Malformed::Ipv6Extension)?;
                    // Counted in units of eight bytes, the first not included.
                    let rest = usize::from(units).wrapping_mul(8).wrapping_add(6);
                    input.take_slice(rest, Malformed::Ipv6Extension)?;
                    protocol = next;
                }
                FRAGMENT => {
                    let &[next, _, fragment0, fragment1, _, _, _, _] = input.take(Malformed::Ipv6Extension)?;
                    let fragment = Fragment(two([fragment0, fragment1]));
                    if fragment.more() || fragment.offset() != 0 {
                        return Err(Malformed::Fragment);
                    }
                    protocol = next;
                }
                _ => break,
            }
        }
        let read = behind.len().saturating_sub(input.bytes().len());
        let extensions = behind.get(..read).unwrap_or(&[]);
        Ok(Self { head, extensions, traffic_class, protocol })
    }
}

/// A header without extension headers and with flow label zero.
#[inline]
pub(super) fn emit(
    source: [u8; 16],
    destination: [u8; 16],
    traffic_class: TrafficClass,
    hop_limit: u8,
    next_header: u8,
    payload_len: u16,
) -> Result<[u8; 40], EmitError> {
    let mut first = First(0);
    first.set_version(6);
    first.set_traffic_class(traffic_class.0);
    let mut head = [0; 40];
    let mut output = Output::new(&mut head);
    output.put(first.0.to_be_bytes())?;
    output.put(payload_len.to_be_bytes())?;
    output.put([next_header, hop_limit])?;
    output.put(source)?;
    output.put(destination)?;
    Ok(head)
}
