//! IPv4 with options (RFC 791), as far as RoCEv2 needs it.

use super::cursor::{Input, Output, two};
use super::{EmitError, Malformed, TrafficClass};
use bitfield::bitfield;

bitfield! {
    struct VersionIhl(u8);
    u8, version, set_version: 7, 4;
    u8, ihl, set_ihl: 3, 0;
}

bitfield! {
    struct Fragment(u16);
    dont, set_dont: 14;
    more, _: 13;
    u16, offset, _: 12, 0;
}

/// A parsed header; the input is left at the first byte behind the options and ends where the datagram does.
pub(super) struct Ipv4<'a> {
    pub(super) head: &'a [u8; 20],
    pub(super) options: &'a [u8],
    pub(super) traffic_class: TrafficClass,
    pub(super) protocol: u8,
}

impl<'a> Ipv4<'a> {
    /// Reads header and options.
    ///
    /// The header checksum is not verified: the MAC in front of this parser drops frames that fail it, and the
    /// ICRC leaves it out because every router rewrites it.
    #[inline]
    pub(super) fn parse(input: &mut Input<'a>) -> Result<Self, Malformed> {
        let head = input.take::<20>(Malformed::IpShort)?;
        let &[version_ihl, tos, len0, len1, _, _, fragment0, fragment1, _, protocol, ..] = head;
        let version_ihl = VersionIhl(version_ihl);
        if version_ihl.version() != 4 {
            return Err(Malformed::IpVersion);
        }
        let options = usize::from(version_ihl.ihl()).checked_sub(5).ok_or(Malformed::Ihl)?.wrapping_mul(4);
        let total = usize::from(two([len0, len1]));
        input.limit(total.checked_sub(20).ok_or(Malformed::IpLength)?, Malformed::IpLength)?;
        let options = input.take_slice(options, Malformed::IpLength)?;
        let fragment = Fragment(two([fragment0, fragment1]));
        if fragment.more() || fragment.offset() != 0 {
            return Err(Malformed::Fragment);
        }
        Ok(Self { head, options, traffic_class: TrafficClass(tos), protocol })
    }
}

/// A header without options for a packet that is never fragmented.
///
/// Identification is zero: RFC 6864 gives it no meaning when DF is set.
#[inline]
pub(super) fn emit(
    source: [u8; 4],
    destination: [u8; 4],
    traffic_class: TrafficClass,
    ttl: u8,
    protocol: u8,
    total_len: u16,
) -> Result<[u8; 20], EmitError> {
    let mut version_ihl = VersionIhl(0);
    version_ihl.set_version(4);
    version_ihl.set_ihl(5);
    let mut fragment = Fragment(0);
    fragment.set_dont(true);
    let mut head = [0; 20];
    let mut output = Output::new(&mut head);
    output.put([version_ihl.0, traffic_class.0])?;
    output.put(total_len.to_be_bytes())?;
    output.put([0, 0])?;
    output.put(fragment.0.to_be_bytes())?;
    output.put([ttl, protocol, 0, 0])?;
    output.put(source)?;
    output.put(destination)?;
    let sum = checksum(&head);
    let [_, _, _, _, _, _, _, _, _, _, sum0, sum1, ..] = &mut head;
    [*sum0, *sum1] = sum;
    Ok(head)
}

/// The checksum of an even number of bytes, at most 2^16, in which its own field is zero (RFC 1071).
pub(super) fn checksum<const N: usize>(bytes: &[u8; N]) -> [u8; 2] {
    let (words, _) = bytes.as_chunks::<2>();
    let sum = words.iter().fold(0u32, |sum, &word| sum.wrapping_add(u32::from(u16::from_be_bytes(word))));
    // So few 16-bit words that the first fold leaves a carry of one at most, the second none.
    let folded = (sum & 0xffff).wrapping_add(sum >> 16);
    let folded = folded.wrapping_add(folded >> 16);
    let [_, _, high, low] = (!folded).to_be_bytes();
    [high, low]
}
