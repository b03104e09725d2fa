//! Decodes a frame of a capture as a NIC receives it: removes tunnel headers, and makes the checks that a receiver makes.

use cc_core::wire::pfc::{self, Pfc};
use cc_core::wire::{self, Malformed, NotRoce, NotRoceKind, Parsed, Roce, TagProtocol, Version, shim};
use hil_capture::Record;
use hil_capture::tunnel::{self, Inside};
use std::net::IpAddr;

/// Buffers for frames whose bytes differ from those in the file: out of tunnels, with another shim port, or as PFC.
#[derive(Debug, Default)]
pub struct Buffers {
    inner: Vec<u8>,
    rewritten: Vec<u8>,
}

/// A frame as a NIC sees it.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The record, with the bytes of the frame that a tunnel or a mirror session carried if there was one.
    pub record: Record<'a>,
    /// Its class, with the parsed packet.
    pub content: Content<'a>,
    /// The network that its addresses belong to: the identifier of the outermost VLAN tag in the lower 12 bits, a tunnel's
    /// above; 0 for neither.
    pub network: u32,
    /// Whether it came in a tunnel or a mirror session.
    pub is_tunnelled: bool,
    /// Whether a switch with full buffers cut it to its headers.
    pub is_trimmed: bool,
}

/// Class of a frame.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// A RoCE packet, and the reason if a receiver drops it before it checks the ICRC, such as an impossible source address.
    Packet(&'a Roce<'a>, Option<&'static str>),
    /// Priority flow control.
    Pfc(&'a Pfc),
    /// A pause of the whole link (IEEE 802.3, annex 31B), as PFC of all eight priorities.
    Pause(&'a Pfc),
    /// Neither RoCE nor PFC; the name of its protocol.
    Other(&'static str),
    /// Malformed, or cut too short by the snap length.
    Malformed(Malformed),
}

/// What was parsed of a frame: [`Content`] borrows it, because copying a packet takes as long as a tenth of parsing it.
type Slot<'a> = Result<Parsed<'a>, Malformed>;

/// Decodes a frame, and passes it to `then`. Shims are on UDP port `shim_port` in the capture; the NICs expect them on
/// [`shim::PORT`], so the port of such a frame is replaced.
#[inline(always)]
pub fn decode<R>(record: Record<'_>, shim_port: u16, buffers: &mut Buffers, then: impl FnOnce(&Frame<'_>) -> R) -> R {
    let parsed = wire::parse_on(record.bytes, record.original_len as usize, shim_port);
    let mut inner = Err(Malformed::Truncated);
    let frame = match &parsed {
        Ok(Parsed::Roce(roce)) if !roce.is_shimmed() || shim_port == shim::PORT => packet(record, roce),
        parsed => decode_rare(record, parsed, shim_port, buffers, &mut inner),
    };
    then(&frame)
}

#[cold]
fn decode_rare<'a>(
    record: Record<'a>,
    parsed: &'a Slot<'a>,
    shim_port: u16,
    buffers: &'a mut Buffers,
    slot: &'a mut Slot<'a>,
) -> Frame<'a> {
    let Buffers { inner, rewritten } = buffers;
    match parsed {
        Ok(Parsed::Roce(roce)) => {
            let other = plain(record, Content::Other(NotRoceKind::Udp.name()));
            readdressed(record, roce, rewritten, slot).unwrap_or(other)
        }
        Ok(Parsed::Pfc(pfc)) => plain(record, Content::Pfc(pfc)),
        Ok(Parsed::NotRoce(foreign)) => match foreign.kind() {
            NotRoceKind::MacControl => pause(record, *foreign, rewritten, slot),
            NotRoceKind::Udp | NotRoceKind::Ipv4 | NotRoceKind::Ipv6 => {
                match tunnel::inside(record.bytes, record.original_len as usize, inner) {
                    Inside::Nothing => plain(record, Content::Other(foreign.kind().name())),
                    Inside::Uet => plain(record, Content::Other("uet")),
                    Inside::Frame(found) => {
                        let original_len = u32::try_from(found.wire_len).unwrap_or(u32::MAX);
                        let carried = Record { bytes: found.bytes, original_len, ..record };
                        from_tunnel(carried, *foreign, found.network, found.dropped, shim_port, rewritten, slot)
                    }
                }
            }
            other => plain(record, Content::Other(other.name())),
        },
        &Err(reason) => trimmed(record, reason, slot).unwrap_or(plain(record, Content::Malformed(reason))),
    }
}

/// A frame that came in a tunnel. The inner frame counts only if it is RoCE; otherwise the frame has the class of its outer
/// headers.
fn from_tunnel<'a>(
    record: Record<'a>,
    outside: NotRoce,
    tunnel: u32,
    is_dropped: bool,
    shim_port: u16,
    rewritten: &'a mut Vec<u8>,
    slot: &'a mut Slot<'a>,
) -> Frame<'a> {
    let outer = plain(record, Content::Other(outside.kind().name()));
    let frame = match wire::parse_on(record.bytes, record.original_len as usize, shim_port) {
        Ok(Parsed::Roce(roce)) if !roce.is_shimmed() || shim_port == shim::PORT => {
            *slot = Ok(Parsed::Roce(roce));
            roce_in(record, slot).unwrap_or(outer)
        }
        Ok(Parsed::Roce(roce)) => readdressed(record, &roce, rewritten, slot).unwrap_or(outer),
        Ok(Parsed::Pfc(_) | Parsed::NotRoce(_)) => outer,
        Err(reason) => trimmed(record, reason, slot).unwrap_or(plain(record, Content::Malformed(reason))),
    };
    let content = match frame.content {
        Content::Packet(packet, None) if is_dropped => Content::Packet(packet, Some("tunnel_marked_not_ect")),
        content => content,
    };
    Frame { content, network: tunnel << 12 | frame.network, is_tunnelled: true, ..frame }
}

/// A frame that came by itself, and that no switch trimmed.
#[inline(always)]
fn plain<'a>(record: Record<'a>, content: Content<'a>) -> Frame<'a> {
    Frame { record, content, network: 0, is_tunnelled: false, is_trimmed: false }
}

/// A RoCE packet, with the reason if a receiver drops it before it checks the ICRC.
#[inline(always)]
fn packet<'a>(record: Record<'a>, roce: &'a Roce<'a>) -> Frame<'a> {
    let fault = if is_source(roce.addresses().source()) { None } else { Some("source_address") };
    let network = roce.vlan().map_or(0, |tag| tag.vid.into());
    Frame { network, ..plain(record, Content::Packet(roce, fault)) }
}

/// The RoCE packet in the slot, if it is one.
fn roce_in<'a>(record: Record<'a>, slot: &'a Slot<'a>) -> Option<Frame<'a>> {
    match slot {
        Ok(Parsed::Roce(roce)) => Some(packet(record, roce)),
        _ => None,
    }
}

/// Whether a host can have this address (RFC 1122, 3.2.1.3; RFC 4291, 2.5.2 and 2.7).
#[inline]
fn is_source(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_multicast() | address.is_unspecified() | address.is_loopback() | broadcast)
}

/// A frame whose shims are on another UDP port, with the port replaced by [`shim::PORT`].
fn readdressed<'a>(
    record: Record<'a>,
    roce: &Roce<'_>,
    buffer: &'a mut Vec<u8>,
    slot: &'a mut Slot<'a>,
) -> Option<Frame<'a>> {
    buffer.clear();
    buffer.extend(record.bytes);
    // The destination port is in the third and fourth of the eight bytes before the chain.
    let at = roce.chain_at().checked_sub(6)?;
    buffer.get_mut(at..at + 2)?.copy_from_slice(&shim::PORT.to_be_bytes());
    let record = Record { bytes: buffer, ..record };
    *slot = wire::parse(record.bytes, record.original_len as usize);
    roce_in(record, slot)
}

/// A MAC control frame that is not PFC. A PAUSE of IEEE 802.3x stops the whole link, so it is written as PFC of all eight
/// priorities.
fn pause<'a>(record: Record<'a>, foreign: NotRoce, buffer: &'a mut Vec<u8>, slot: &'a mut Slot<'a>) -> Frame<'a> {
    let other = plain(record, Content::Other(foreign.kind().name()));
    let Some(&[0x88, 0x08, 0, 1, high, low]) = record.bytes.get(12..18) else { return other };
    buffer.clear();
    buffer.resize(pfc::FRAME_LEN, 0);
    let written = Pfc::new(0xff, [u16::from_be_bytes([high, low]); 8]).emit(wire::Mac::default(), buffer);
    // The source and destination MAC addresses are those of the PAUSE.
    let (Ok(_), Some(addresses)) = (written, record.bytes.get(..12)) else { return other };
    buffer.get_mut(..12).unwrap_or_default().copy_from_slice(addresses);
    let record = Record { bytes: buffer, original_len: pfc::FRAME_LEN as u32, ..record };
    *slot = wire::parse(record.bytes, pfc::FRAME_LEN);
    match slot {
        Ok(Parsed::Pfc(pfc)) => plain(record, Content::Pause(pfc)),
        _ => other,
    }
}

/// A packet that a switch with full buffers has cut to its headers, without a change to lengths and checksums. It is recognised
/// by a frame shorter than the length in its IP header, which agrees with the length in its UDP header.
fn trimmed<'a>(record: Record<'a>, reason: Malformed, slot: &'a mut Slot<'a>) -> Option<Frame<'a>> {
    if reason != Malformed::IpLength {
        return None;
    }
    let ip = ip_at(record.bytes)?;
    let (length, udp) = match record.bytes.get(ip)? >> 4 {
        4 => {
            let header = usize::from(record.bytes.get(ip)? & 15) * 4;
            (usize::from(two(record.bytes, ip + 2)?), header)
        }
        6 => (40 + usize::from(two(record.bytes, ip + 4)?), 40),
        _ => return None,
    };
    let datagram = usize::from(two(record.bytes, ip + udp + 4)?);
    if udp + datagram != length {
        return None;
    }
    *slot = wire::parse(record.bytes, ip + length);
    let frame = roce_in(record, slot)?;
    let Content::Packet(roce, _) = frame.content else { return None };
    (roce.version() == Version::V2).then_some(Frame { is_trimmed: true, ..frame })
}

/// State of an IPv4 header's checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksum {
    /// Right, or the packet has none.
    Right,
    /// Zero: the frame was captured before the NIC filled it in.
    Zero,
    /// Wrong.
    Wrong,
}

/// Checks the IPv4 header of a frame (RFC 1071).
#[inline]
pub fn checksum(frame: &[u8]) -> Checksum {
    let header = ip_at(frame)
        .and_then(|at| frame.get(at..))
        .filter(|header| header.first().is_some_and(|first| first >> 4 == 4));
    let length = header.and_then(|header| header.first()).map_or(0, |first| usize::from(first & 15) * 4);
    let Some(header) = header.and_then(|header| header.get(..length)) else { return Checksum::Right };
    // The sum of 32-bit words, with its carries folded in, is that of 16-bit words.
    let (words, _) = header.as_chunks::<4>();
    let sum: u64 = words.iter().map(|&word| u64::from(u32::from_be_bytes(word))).sum();
    let fold = |sum: u64| (sum & 0xffff) + (sum >> 16);
    match (fold(fold(fold(sum))), header.get(10..12)) {
        (0xffff, _) => Checksum::Right,
        (_, Some([0, 0])) => Checksum::Zero,
        _ => Checksum::Wrong,
    }
}

/// The offset of the IP header, if the EtherType is that of IPv4 or IPv6.
#[inline]
pub fn ip_at(frame: &[u8]) -> Option<usize> {
    let mut at = 12;
    loop {
        match two(frame, at)? {
            0x0800 | 0x86dd => return Some(at + 2),
            ethertype if TagProtocol::from_ethertype(ethertype).is_some() => at += 4,
            _ => return None,
        }
    }
}

#[inline]
fn two(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..)?.first_chunk().map(|&bytes| u16::from_be_bytes(bytes))
}
