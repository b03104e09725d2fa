//! Changes to a frame in place: those that a switch makes to its ECN field and its hop limit, without parsing it, and those
//! that a simulated host makes to the template of a flow.
//!
//! The ICRC leaves ECN and hop limit out, see [`icrc`](super::icrc). IPv4's header checksum covers both, and is updated by the
//! difference (RFC 1624, equation 3), so that a wrong one stays wrong. IPv6 has none.

use super::cursor::Output;
use super::ethernet::TagProtocol;
use super::{Aeth, Bth, Crc32, IPV4, IPV6, Parsed, ROCE_V1, opcode, parse};
use crate::Ecn;

/// Writes the ECN field of a frame's IPv4 or IPv6 header, or of RoCEv1's GRH, behind any number of VLAN tags. Returns whether
/// it has one; a frame that has none is left as it is.
#[inline]
pub fn set_ecn(frame: &mut [u8], ecn: Ecn) -> bool {
    let bits = ecn.to_bits();
    match network(frame) {
        Some(Network::V4([version, class, .., checksum0, checksum1])) => {
            let (old, new) = (*class, *class & !3 | bits);
            *class = new;
            update([checksum0, checksum1], [*version, old], [*version, new]);
            true
        }
        Some(Network::V6([_, class, ..])) => {
            // The low half of the traffic class is the high half of this byte.
            *class = *class & 0xcf | bits << 4;
            true
        }
        None => false,
    }
}

/// The ECN field of a frame's IPv4 or IPv6 header, or of RoCEv1's GRH, behind any number of VLAN tags; `None` if it has none.
#[inline]
pub fn ecn(frame: &[u8]) -> Option<Ecn> {
    let (version, at) = network_at(frame)?;
    let [_, class] = *frame.get(at..)?.first_chunk()?;
    Some(Ecn::from_bits(if version == Version::V4 { class } else { class >> 4 }))
}

/// Takes one from the time to live of a frame's IPv4 header, or from the hop limit of its IPv6 header or RoCEv1's GRH, as a
/// router does before it forwards, and returns what remains. At 0 the frame must be discarded (RFC 1812, 5.3.1; RFC 8200,
/// section 3): 0 stays 0. `None` for a frame that has no such header.
#[inline]
pub fn decrement_hop_limit(frame: &mut [u8]) -> Option<u8> {
    match network(frame)? {
        Network::V4([.., time_to_live, protocol, checksum0, checksum1]) => {
            let (old, new) = (*time_to_live, time_to_live.saturating_sub(1));
            *time_to_live = new;
            update([checksum0, checksum1], [old, *protocol], [new, *protocol]);
            Some(new)
        }
        Network::V6([.., hop_limit]) => {
            *hop_limit = hop_limit.saturating_sub(1);
            Some(*hop_limit)
        }
    }
}

/// The base transport header at byte `at`, see [`Roce::bth_at`](super::Roce::bth_at); `None` if the frame ends before its end.
#[inline]
pub fn bth(frame: &[u8], at: usize) -> Option<Bth> {
    frame.get(at..).and_then(<[u8]>::first_chunk).map(Bth::parse)
}

/// Writes a base transport header over the one at byte `at`, see [`Roce::bth_at`](super::Roce::bth_at), and keeps its pad
/// count. Returns `false` if the frame is too short. The ICRC must then be written again: see [`write_icrc`].
#[inline]
pub fn set_bth(frame: &mut [u8], at: usize, bth: &Bth) -> bool {
    let Some(bytes) = frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut) else { return false };
    let pad = Bth::pad(bytes).unwrap_or(0);
    bth.emit(pad, &mut Output::new(bytes));
    true
}

/// The acknowledgement extension header of a frame whose base transport header is at byte `at`, see
/// [`Roce::bth_at`](super::Roce::bth_at); `None` if the frame has none or ends before its end.
#[inline]
pub fn aeth(frame: &[u8], at: usize) -> Option<Aeth> {
    let info = opcode::info(*frame.get(at)?);
    let place = at.saturating_add(Bth::LEN).saturating_add(info.offset(opcode::Header::Ack));
    let bytes = frame.get(place..)?.first_chunk()?;
    info.has(opcode::Header::Ack).then(|| Aeth::parse(bytes))
}

/// Writes the acknowledgement extension header of a frame whose base transport header is at byte `at`, see
/// [`Roce::bth_at`](super::Roce::bth_at). Returns `false` if the frame has none or is too short. The ICRC must then be written
/// again: see [`write_icrc`].
#[inline]
pub fn set_aeth(frame: &mut [u8], at: usize, aeth: Aeth) -> bool {
    let Some((&mut opcode, rest)) = frame.get_mut(at..).and_then(|bth| bth.split_first_mut()) else { return false };
    let info = opcode::info(opcode);
    let place = (Bth::LEN - 1).saturating_add(info.offset(opcode::Header::Ack));
    let Some(bytes) = rest.get_mut(place..).and_then(<[u8]>::first_chunk_mut) else { return false };
    if info.has(opcode::Header::Ack) {
        *bytes = aeth.word().to_be_bytes();
    }
    info.has(opcode::Header::Ack)
}

/// Writes the ICRC of a whole RoCE frame, whose shims are on [`shim::PORT`](super::shim::PORT): for frames made from a
/// template. Returns `false` if it is not a whole RoCE frame.
pub fn write_icrc<E: Crc32>(frame: &mut [u8]) -> bool {
    let Ok(Parsed::Roce(roce)) = parse(frame, frame.len()) else { return false };
    let (at, icrc) = roce.expected_icrc::<E>();
    let (Some(stored), Some(icrc)) = (frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut), icrc) else {
        return false;
    };
    *stored = icrc;
    true
}

/// The first bytes of a network header, up to the last that switches change.
enum Network<'a> {
    /// IPv4's, up to its checksum.
    V4(&'a mut [u8; 12]),
    /// IPv6's or the GRH's, up to its hop limit.
    V6(&'a mut [u8; 8]),
}

/// The kind of a network header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    /// IPv4.
    V4,
    /// IPv6, or the GRH, which is laid out like it.
    V6,
}

/// Finds the network header behind the VLAN tags: its kind, and where it begins.
#[inline(always)]
fn network_at(frame: &[u8]) -> Option<(Version, usize)> {
    let mut at = 12usize;
    loop {
        let ethertype = u16::from_be_bytes(*frame.get(at..)?.first_chunk()?);
        at = at.wrapping_add(2);
        match ethertype {
            IPV4 => return Some((Version::V4, at)),
            IPV6 | ROCE_V1 => return Some((Version::V6, at)),
            ethertype => TagProtocol::from_ethertype(ethertype)?,
        };
        at = at.wrapping_add(2);
    }
}

/// The network header behind the VLAN tags, to be changed.
#[inline(always)]
fn network(frame: &mut [u8]) -> Option<Network<'_>> {
    let (version, at) = network_at(frame)?;
    let header = frame.get_mut(at..)?;
    match version {
        Version::V4 => header.first_chunk_mut().map(Network::V4),
        Version::V6 => header.first_chunk_mut().map(Network::V6),
    }
}

/// The checksum of a header in which one 16-bit word has changed.
#[inline(always)]
fn update([checksum0, checksum1]: [&mut u8; 2], old: [u8; 2], new: [u8; 2]) {
    let complement = |word: [u8; 2]| u32::from(!u16::from_be_bytes(word));
    let sum = complement([*checksum0, *checksum1])
        .wrapping_add(complement(old))
        .wrapping_add(u32::from(u16::from_be_bytes(new)));
    // Three words: the first fold leaves a carry of one at most, the second none.
    let folded = (sum & 0xffff).wrapping_add(sum >> 16);
    let [_, _, high, low] = (!folded.wrapping_add(folded >> 16)).to_be_bytes();
    [*checksum0, *checksum1] = [high, low];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1624_section_4() {
        let mut checksum = [0xdd, 0x2f];
        let [checksum0, checksum1] = &mut checksum;
        update([checksum0, checksum1], [0x55, 0x55], [0x32, 0x85]);
        assert_eq!(checksum, [0x00, 0x00], "and not 0xffff, as RFC 1141 has it");
    }
}
