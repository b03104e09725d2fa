//! Finds packets inside others: the RoCE packet that a tunnel or a mirror session carries.
//!
//! | outer header | content | source |
//! | --- | --- | --- |
//! | UDP port 4789 or 8472 | VXLAN, an Ethernet frame | RFC 7348 |
//! | UDP port 4790 | VXLAN-GPE, an Ethernet frame or an IP packet | draft-ietf-nvo3-vxlan-gpe |
//! | UDP port 6081 | Geneve with options, an Ethernet frame or an IP packet | RFC 8926 |
//! | GRE, protocol 0x6558, 0x0800, 0x86dd | an Ethernet frame, an IP packet | RFC 2784, RFC 2890 |
//! | GRE, protocol 0x88be, 0x22eb | ERSPAN I, II, III, a mirrored Ethernet frame | draft-foschiano-erspan |
//! | IP protocol 4, 41 | an IP packet | RFC 2003, RFC 2473, RFC 4213 |
//!
//! Tunnels may be nested, and VLAN tags may be anywhere. The end of a tunnel combines the two ECN fields (RFC 6040, 4.2), so
//! that a mark of the fabric on the outer header reaches the receiver. The end of a mirror session does not, because its outer
//! header belongs to the path of the copy and not to that of the packet.

use cc_core::wire::TagProtocol;

/// Most nested tunnels that are decoded.
const DEPTH: usize = 4;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ETHERNET: u16 = 0x6558;

/// The UDP port of Ultra Ethernet's transport (IANA).
const UET: u16 = 4793;

/// The content of a frame that is not RoCE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inside<'a> {
    /// It carries another frame.
    Frame(Inner<'a>),
    /// It goes to Ultra Ethernet's port.
    Uet,
    /// It carries no other frame.
    Nothing,
}

/// A frame inside another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inner<'a> {
    /// Its bytes, as far as captured, from the Ethernet destination address on.
    pub bytes: &'a [u8],
    /// Its length on the wire.
    pub wire_len: usize,
    /// The virtual network, from VXLAN's or Geneve's identifier or GRE's key; 0 for none.
    pub network: u32,
    /// Whether the end of the tunnel drops the packet: it is Not-ECT, and the outer header was marked (RFC 6040, 4.2).
    pub dropped: bool,
}

/// A buffer for frames whose bytes differ from those in the file.
pub type Buffer = Vec<u8>;

/// The content of a frame, whose length on the wire is `wire_len`. An inner packet without an Ethernet header gets that of the
/// outer packet; one whose ECN field is changed by the end of the tunnel is copied to `buffer`.
pub fn inside<'a>(frame: &'a [u8], wire_len: usize, buffer: &'a mut Buffer) -> Inside<'a> {
    let Some(mut at) = Place::in_frame(frame, 0) else { return Inside::Nothing };
    let mut found = Found { at, network: 0, outer: None, whole: true };
    for depth in 0..DEPTH {
        match step(frame, at, &mut found) {
            Step::Inner(inner) => (found.at, at) = (inner, inner),
            Step::Uet if depth == 0 => return Inside::Uet,
            Step::Uet | Step::Nothing if depth == 0 => return Inside::Nothing,
            Step::Uet | Step::Nothing => break,
        }
    }
    build(frame, wire_len, &found, buffer)
}

/// The place of a packet in a frame.
#[derive(Clone, Copy)]
struct Place {
    /// The offset of its own Ethernet header, if it has one.
    ethernet: Option<usize>,
    ethertype: u16,
    /// The offset after the Ethernet header.
    ip: usize,
}

impl Place {
    /// The place in an Ethernet frame that starts at `start`.
    fn in_frame(frame: &[u8], start: usize) -> Option<Self> {
        let mut at = start + 12;
        loop {
            let ethertype = two(frame, at)?;
            at += 2;
            if TagProtocol::from_ethertype(ethertype).is_none() {
                return Some(Self { ethernet: Some(start), ethertype, ip: at });
            }
            at += 2;
        }
    }

    /// The place of an IP packet without Ethernet header that starts at `ip`; its first four bits give the version.
    fn bare(frame: &[u8], ip: usize) -> Option<Self> {
        let ethertype = match frame.get(ip)? >> 4 {
            4 => IPV4,
            6 => IPV6,
            _ => return None,
        };
        Some(Self { ethernet: None, ethertype, ip })
    }
}

struct Found {
    at: Place,
    network: u32,
    /// The combined ECN field of the outer tunnels; `None` if there is none to combine.
    outer: Option<u8>,
    whole: bool,
}

enum Step {
    Inner(Place),
    Uet,
    Nothing,
}

/// Removes one layer of headers.
fn step(frame: &[u8], at: Place, found: &mut Found) -> Step {
    inwards(frame, at, found).unwrap_or(Step::Nothing)
}

fn inwards(frame: &[u8], at: Place, found: &mut Found) -> Option<Step> {
    let (protocol, behind, ecn) = match at.ethertype {
        IPV4 => {
            let head = frame.get(at.ip..at.ip + 20)?;
            let fragment = u16::from_be_bytes([head[6], head[7]]) & 0x3fff;
            let length = usize::from(head[0] & 15) * 4;
            if head[0] >> 4 != 4 || fragment != 0 || length < 20 {
                return None;
            }
            (head[9], at.ip + length, head[1] & 3)
        }
        IPV6 => {
            let head = frame.get(at.ip..at.ip + 40)?;
            let (mut protocol, mut behind) = (head[6], at.ip + 40);
            // Hop-by-hop options, routing and destination options. Their length is in units of eight bytes, without the first
            // eight.
            while matches!(protocol, 0 | 43 | 60) {
                protocol = *frame.get(behind)?;
                behind += 8 + 8 * usize::from(*frame.get(behind + 1)?);
            }
            (protocol, behind, head[1] >> 4 & 3)
        }
        _ => return None,
    };
    let mut mirror = false;
    let inner = match protocol {
        17 => match two(frame, behind + 2)? {
            4789 | 8472 => {
                let [flags, ..] = *frame.get(behind + 8..)?.first_chunk::<8>()?;
                (flags & 0x08 != 0).then_some(())?;
                found.network = three(frame, behind + 12)?;
                Place::in_frame(frame, behind + 16)?
            }
            4790 => {
                found.network = three(frame, behind + 12)?;
                match *frame.get(behind + 11)? {
                    1 | 2 => Place::bare(frame, behind + 16)?,
                    3 => Place::in_frame(frame, behind + 16)?,
                    _ => return None,
                }
            }
            6081 => {
                let options = usize::from(frame.get(behind + 8)? & 0x3f) * 4;
                found.network = three(frame, behind + 12)?;
                let inner = behind + 16 + options;
                match two(frame, behind + 10)? {
                    ETHERNET => Place::in_frame(frame, inner)?,
                    IPV4 | IPV6 => Place::bare(frame, inner)?,
                    _ => return None,
                }
            }
            UET => return Some(Step::Uet),
            _ => return None,
        },
        47 => {
            let flags = two(frame, behind)?;
            // Version 0. Checksum, key and sequence number are optional and have four bytes each.
            (flags & 0x4007 == 0).then_some(())?;
            let word = |bit: u16| if flags & bit == 0 { 0 } else { 4 };
            let inner = behind + 4 + word(0x8000) + word(0x2000) + word(0x1000);
            match two(frame, behind + 2)? {
                ETHERNET => {
                    if flags & 0x2000 != 0 {
                        // NVGRE (RFC 7637): the upper 24 bits of the key are the virtual network.
                        found.network = three(frame, behind + 4 + word(0x8000))?;
                    }
                    Place::in_frame(frame, inner)?
                }
                IPV4 | IPV6 => Place::bare(frame, inner)?,
                0x88be | 0x22eb => {
                    mirror = true;
                    erspan(frame, inner, two(frame, behind + 2)?, flags & 0x1000 != 0)?
                }
                _ => return None,
            }
        }
        4 | 41 => Place::bare(frame, behind)?,
        _ => return None,
    };
    found.outer = match (mirror, found.outer) {
        (true, _) => None,
        (false, None) => Some(ecn),
        (false, Some(outer)) => match join(outer, ecn) {
            Some(joined) => Some(joined),
            None => {
                found.whole = false;
                Some(ecn)
            }
        },
    };
    Some(Step::Inner(inner))
}

/// The frame after an ERSPAN header. The header has 0 bytes in type I, which has no sequence number, 8 in II, and 12 or 20 in
/// III.
fn erspan(frame: &[u8], at: usize, protocol: u16, sequenced: bool) -> Option<Place> {
    let header = match (protocol, frame.get(at)? >> 4) {
        (0x88be, _) if !sequenced => 0,
        (0x88be, 1) => 8,
        (_, 2) => {
            // The last bit is set if eight platform-specific bytes follow. Only Ethernet frames, type 0, are read.
            let [high, low] = two(frame, at + 10)?.to_be_bytes();
            (high >> 3 & 0x0f == 0).then_some(12 + 8 * usize::from(low & 1))?
        }
        _ => return None,
    };
    Place::in_frame(frame, at + header)
}

/// Combines the outer and the inner ECN field as the end of a tunnel does; `None` if it drops the packet.
fn join(outer: u8, inner: u8) -> Option<u8> {
    const NOT_ECT: u8 = 0;
    const ECT1: u8 = 1;
    const ECT0: u8 = 2;
    const CE: u8 = 3;
    match (outer, inner) {
        (CE, NOT_ECT) => None,
        (CE, _) => Some(CE),
        (ECT1, ECT0) => Some(ECT1),
        (_, inner) => Some(inner),
    }
}

fn build<'a>(frame: &'a [u8], wire_len: usize, found: &Found, buffer: &'a mut Buffer) -> Inside<'a> {
    let Found { at: Place { ethernet, ethertype, ip }, network, outer, whole } = *found;
    let start = ethernet.unwrap_or(ip);
    let inner_ecn = match ethertype {
        IPV4 => frame.get(ip + 1).map(|tos| tos & 3),
        IPV6 => frame.get(ip + 1).map(|class| class >> 4 & 3),
        _ => None,
    };
    let joined = outer.zip(inner_ecn).map(|(outer, inner)| join(outer, inner));
    let changed = match (joined, inner_ecn) {
        (Some(Some(joined)), Some(inner)) if joined != inner => Some(joined),
        _ => None,
    };
    let dropped = !whole || joined == Some(None);
    let mut length = wire_len.saturating_sub(start);
    let captured = frame.get(start..).unwrap_or_default();
    let bytes = if changed.is_none() && ethernet.is_some() {
        captured
    } else {
        buffer.clear();
        if ethernet.is_none() {
            length += 14;
            buffer.extend(frame.iter().take(12));
            buffer.extend(ethertype.to_be_bytes());
        }
        let ip = buffer.len() + (ip - start);
        buffer.extend(captured);
        if let Some(ecn) = changed {
            mark(buffer, ip, ethertype, ecn);
        }
        &*buffer
    };
    Inside::Frame(Inner { bytes, wire_len: length, network, dropped })
}

/// Writes an ECN field, and updates the header checksum of IPv4 (RFC 1624, equation 3).
fn mark(frame: &mut [u8], ip: usize, ethertype: u16, ecn: u8) {
    let Some(header) = frame.get_mut(ip..) else { return };
    match (ethertype, header) {
        (IPV4, [version, tos, _, _, _, _, _, _, _, _, high, low, ..]) => {
            let before = u16::from_be_bytes([*version, *tos]);
            *tos = *tos & !3 | ecn;
            let after = u16::from_be_bytes([*version, *tos]);
            let sum = u32::from(!u16::from_be_bytes([*high, *low])) + u32::from(!before) + u32::from(after);
            let sum = (sum & 0xffff) + (sum >> 16);
            [*high, *low] = (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes();
        }
        (IPV6, [_, class, ..]) => *class = *class & !0x30 | ecn << 4,
        _ => {}
    }
}

fn two(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..)?.first_chunk().map(|&bytes| u16::from_be_bytes(bytes))
}

fn three(frame: &[u8], at: usize) -> Option<u32> {
    let &[high, middle, low] = frame.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes([0, high, middle, low]))
}
