//! Frames: from bytes to values and back.
//!
//! [`parse`] reads a frame once, front to back, and copies nothing: it returns a [`Parsed`] that borrows the frame, or the
//! reason why the frame is malformed. A [`Frame`] or a [`Pfc`] is emitted whole: every value of them that fits the length
//! fields makes a well-formed frame. One file per protocol:
//!
//! ```text
//! ethernet (any stack of VLAN tags)
//!   0x0800 ipv4, options ──────────┐ udp 4792 ─ shim ─┐
//!   0x86dd ipv6, extension headers ┴ udp 4791 ────────┤
//!   0x8915 grh (RoCEv1) ──────────────────────────────┴ bth ─ extension (by opcode) ─ payload ─ icrc
//!   0x8808 pfc                                                  aeth, cnp               cm
//! ```
//!
//! Switches send one more kind of frame, which hosts never receive: a [`RateMessage`]. They change frames in place without
//! parsing them: by [`set_ecn`], by [`decrement_hop_limit`], and by writing telemetry records at [`Roce::int_at`].
//!
//! A frame that the capture cut (snap length) is read as far as it was captured. If its headers up to the BTH are there, it is
//! a [`Roce`] packet with its ICRC unchecked; if not, it is [`Malformed::Truncated`]. Every other [`Malformed`] means that the
//! frame contradicts itself, however much of it was captured.

pub mod aeth;
mod bth;
pub mod cm;
mod cnp;
mod cursor;
mod ethernet;
mod extension;
mod flow_key;
mod frame;
mod grh;
pub mod icrc;
mod ipv4;
mod ipv6;
pub mod opcode;
mod patch;
pub mod pfc;
pub mod rate_message;
mod roce;
mod route;
pub mod shim;
#[cfg(any(test, feature = "std"))]
mod to_vec;
mod udp;

#[cfg(test)]
mod tests;

pub use aeth::{Aeth, Nak, Syndrome};
pub use bth::Bth;
pub use ethernet::{Mac, Tag, TagProtocol, Tags};
pub use extension::{Deth, Extensions, Reth};
pub use flow_key::FlowKey;
pub use frame::{AckFields, CnpMarking, Frame, MAX_HOPS, Response};
pub use icrc::{Crc32, Icrc, NoCrc, TableCrc};
pub use opcode::{Class, Info, Transport};
pub use patch::{aeth, bth, decrement_hop_limit, ecn, set_aeth, set_bth, set_ecn, write_icrc};
pub use pfc::Pfc;
pub use rate_message::{RateFrame, RateMessage};
pub use roce::Roce;
pub use route::{Endpoints, Route};
pub use shim::Shims;
pub use udp::ROCE_PORT;

use crate::Ecn;
use bitfield::bitfield;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use cursor::Input;
use ethernet::Ethernet;
use route::Network;

/// Bytes of line time that a frame takes in addition to its own: preamble and start delimiter 8, check sequence 4, interpacket
/// gap 12 (IEEE 802.3, clauses 3.1.1 and 4.4.2).
pub const FRAMING: u32 = 24;

const TCP: u8 = 6;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ROCE_V1: u16 = 0x8915;

/// The fields of an IP header, or a GRH, by which the rest of the frame is read.
struct Ip<'a> {
    /// Bytes of the header, with options or extension headers.
    len: usize,
    traffic_class: TrafficClass,
    protocol: u8,
    /// Source and destination.
    addresses: &'a [u8],
}

impl Ip<'_> {
    /// Value before a header is read.
    const NONE: Self = Self { len: 0, traffic_class: TrafficClass(0), protocol: 0, addresses: &[] };
}

bitfield! {
    /// IPv4's type of service, IPv6's and the GRH's traffic class (RFC 2474, RFC 3168).
    #[derive(Clone, Copy)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    struct TrafficClass(u8);
    impl Debug;
    u8, dscp, set_dscp: 7, 2;
    u8, ecn_bits, set_ecn_bits: 1, 0;
}

impl TrafficClass {
    #[inline]
    fn new(dscp: u8, ecn: Ecn) -> Self {
        let mut class = Self(0);
        class.set_dscp(dscp);
        class.set_ecn_bits(ecn.to_bits());
        class
    }

    #[inline]
    fn ecn(self) -> Ecn {
        Ecn::from_bits(self.ecn_bits())
    }
}

/// A well-formed frame.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Parsed<'a> {
    /// RoCE, of either version.
    Roce(Roce<'a>),
    /// Priority flow control.
    Pfc(Pfc),
    /// Any other frame.
    NotRoce(NotRoce),
}

/// What is known of a frame that is neither RoCE nor PFC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NotRoce {
    ethertype: u16,
    /// Protocol number in the IP header; 0 without one.
    protocol: u8,
}

impl NotRoce {
    /// Its kind, by the outermost header that shows it.
    pub const fn kind(self) -> NotRoceKind {
        match (self.ethertype, self.protocol) {
            (IPV4 | IPV6, TCP) => NotRoceKind::Tcp,
            (IPV4 | IPV6, udp::PROTOCOL) => NotRoceKind::Udp,
            (IPV4, _) => NotRoceKind::Ipv4,
            (IPV6, _) => NotRoceKind::Ipv6,
            (pfc::ETHERTYPE, _) => NotRoceKind::MacControl,
            // IEEE 802.3, 3.2.6: at most 1 500 it is a length, from 1 536 on a type.
            (0..0x0600, _) => NotRoceKind::Llc,
            (0x0806, _) => NotRoceKind::Arp,
            (0x8847 | 0x8848, _) => NotRoceKind::Mpls,
            (0x88cc, _) => NotRoceKind::Lldp,
            _ => NotRoceKind::EtherType,
        }
    }
}

/// The kind of a frame that is neither RoCE nor PFC, by the outermost header that shows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum NotRoceKind {
    /// A length in place of the EtherType: IEEE 802.2 LLC.
    Llc,
    /// Address resolution.
    Arp,
    /// IPv4 that carries neither TCP nor UDP.
    Ipv4,
    /// IPv6 that carries neither TCP nor UDP.
    Ipv6,
    /// TCP.
    Tcp,
    /// UDP to a port that is neither RoCE's nor the shims'.
    Udp,
    /// MPLS.
    Mpls,
    /// Link layer discovery.
    Lldp,
    /// MAC control that is not PFC, such as the PAUSE of IEEE 802.3x.
    MacControl,
    /// Any other EtherType.
    EtherType,
}

impl NotRoceKind {
    /// Every kind, in the order of declaration.
    pub const ALL: [Self; 10] = [
        Self::Llc,
        Self::Arp,
        Self::Ipv4,
        Self::Ipv6,
        Self::Tcp,
        Self::Udp,
        Self::Mpls,
        Self::Lldp,
        Self::MacControl,
        Self::EtherType,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Llc => "llc",
            Self::Arp => "arp",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Mpls => "mpls",
            Self::Lldp => "lldp",
            Self::MacControl => "mac_control",
            Self::EtherType => "ethertype",
        }
    }
}

/// Why a frame is malformed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Malformed {
    /// The capture's snap length cut the headers.
    Truncated,
    /// The frame ends inside Ethernet's addresses, tags or EtherType.
    EthernetShort,
    /// The frame ends inside an IP header.
    IpShort,
    /// The IP version contradicts the EtherType.
    IpVersion,
    /// IPv4 header length below five words.
    Ihl,
    /// IP length below that of the header, or beyond the frame.
    IpLength,
    /// An IPv6 extension header that goes beyond the packet.
    Ipv6Extension,
    /// An IP fragment: NICs do not reassemble RoCE.
    Fragment,
    /// The IP packet ends inside its UDP header.
    UdpShort,
    /// UDP length below that of the header, or beyond the IP packet.
    UdpLength,
    /// The datagram ends inside its chain of shims.
    ShimShort,
    /// A shim of length zero.
    ShimLength,
    /// A chain of shims longer than [`shim::LONGEST`].
    ShimsLong,
    /// A shim longer or shorter than its type is, or whose count of records exceeds its room.
    ShimBody,
    /// The frame ends inside a GRH.
    GrhShort,
    /// GRH whose version is not 6 or that announces no BTH.
    Grh,
    /// GRH length beyond the frame.
    GrhLength,
    /// The frame ends inside a PFC frame's times.
    PfcShort,
    /// The packet ends inside its BTH.
    BthShort,
    /// A BTH of a transport version other than 0.
    BthVersion,
    /// The packet ends inside the extension headers that its opcode requires.
    ExtensionShort,
    /// No room for the ICRC.
    IcrcMissing,
    /// More padding than payload.
    Pad,
}

impl Malformed {
    /// Every reason, in the order of declaration.
    pub const ALL: [Self; 23] = [
        Self::Truncated,
        Self::EthernetShort,
        Self::IpShort,
        Self::IpVersion,
        Self::Ihl,
        Self::IpLength,
        Self::Ipv6Extension,
        Self::Fragment,
        Self::UdpShort,
        Self::UdpLength,
        Self::ShimShort,
        Self::ShimLength,
        Self::ShimsLong,
        Self::ShimBody,
        Self::GrhShort,
        Self::Grh,
        Self::GrhLength,
        Self::PfcShort,
        Self::BthShort,
        Self::BthVersion,
        Self::ExtensionShort,
        Self::IcrcMissing,
        Self::Pad,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::EthernetShort => "ethernet_short",
            Self::IpShort => "ip_short",
            Self::IpVersion => "ip_version",
            Self::Ihl => "ihl",
            Self::IpLength => "ip_length",
            Self::Ipv6Extension => "ipv6_extension",
            Self::Fragment => "fragment",
            Self::UdpShort => "udp_short",
            Self::UdpLength => "udp_length",
            Self::ShimShort => "shim_short",
            Self::ShimLength => "shim_length",
            Self::ShimsLong => "shims_long",
            Self::ShimBody => "shim_body",
            Self::GrhShort => "grh_short",
            Self::Grh => "grh",
            Self::GrhLength => "grh_length",
            Self::PfcShort => "pfc_short",
            Self::BthShort => "bth_short",
            Self::BthVersion => "bth_version",
            Self::ExtensionShort => "extension_short",
            Self::IcrcMissing => "icrc_missing",
            Self::Pad => "pad",
        }
    }
}

/// Why a frame was not emitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum EmitError {
    /// The buffer is shorter than the frame.
    BufferTooSmall,
    /// The packet is longer than its length fields can represent, or its chain of shims longer than [`shim::LONGEST`].
    TooLong,
}

/// Version of RoCE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Version {
    /// RoCEv1: over Ethernet, with a GRH.
    V1,
    /// RoCEv2: over UDP.
    V2,
}

/// The network addresses of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Addresses {
    /// RoCEv2 over IPv4.
    V4 {
        /// The sender.
        source: Ipv4Addr,
        /// The receiver.
        destination: Ipv4Addr,
    },
    /// RoCEv2 over IPv6.
    V6 {
        /// The sender.
        source: Ipv6Addr,
        /// The receiver.
        destination: Ipv6Addr,
    },
    /// RoCEv1: global identifiers in a GRH.
    Gid {
        /// The sender.
        source: Ipv6Addr,
        /// The receiver.
        destination: Ipv6Addr,
    },
}

impl Addresses {
    /// The sender.
    #[inline]
    pub const fn source(self) -> IpAddr {
        match self {
            Self::V4 { source, .. } => IpAddr::V4(source),
            Self::V6 { source, .. } | Self::Gid { source, .. } => IpAddr::V6(source),
        }
    }

    /// The receiver.
    #[inline]
    pub const fn destination(self) -> IpAddr {
        match self {
            Self::V4 { destination, .. } => IpAddr::V4(destination),
            Self::V6 { destination, .. } | Self::Gid { destination, .. } => IpAddr::V6(destination),
        }
    }

    /// The same with source and destination exchanged.
    #[inline]
    pub const fn reversed(self) -> Self {
        match self {
            Self::V4 { source, destination } => Self::V4 { source: destination, destination: source },
            Self::V6 { source, destination } => Self::V6 { source: destination, destination: source },
            Self::Gid { source, destination } => Self::Gid { source: destination, destination: source },
        }
    }
}

/// Reads a frame that starts with its Ethernet destination address.
///
/// `frame` holds the bytes captured; `wire_len` is the number of bytes on the wire. Where nothing was cut, as in a NIC, it is
/// `frame.len()`. Ethernet padding, a trailer and a frame check sequence behind the packet are ignored. Shims are expected on
/// [`shim::PORT`].
pub fn parse(frame: &[u8], wire_len: usize) -> Result<Parsed<'_>, Malformed> {
    parse_on(frame, wire_len, shim::PORT)
}

/// As [`parse`] does, with shims on UDP port `shim_port`. If that is RoCE's own, there are none.
#[inline(never)]
pub fn parse_on(frame: &[u8], wire_len: usize, shim_port: u16) -> Result<Parsed<'_>, Malformed> {
    let mut input = Input::new(frame, wire_len);
    let wire_len = input.left();
    let (mut ethernet, mut ip) = (Ethernet::NONE, Ip::NONE);
    let ethertype = ethernet.parse(&mut input)?;
    let start = input.bytes();
    let network = match ethertype {
        IPV4 => Network::V4,
        IPV6 => Network::V6,
        ROCE_V1 => Network::Grh,
        pfc::ETHERTYPE => return Pfc::parse(input),
        _ => return Ok(Parsed::NotRoce(NotRoce { ethertype, protocol: 0 })),
    };
    match network {
        Network::V4 => ipv4::parse(&mut input, &mut ip)?,
        Network::V6 | Network::Grh => ipv6::parse(network, &mut input, &mut ip)?,
    }
    let Ip { len, traffic_class, protocol, addresses } = ip;
    let shimmed = match (network, protocol) {
        (Network::Grh, _) => Some(false),
        (_, udp::PROTOCOL) => udp::parse(&mut input, shim_port)?,
        _ => None,
    };
    let Some(shimmed) = shimmed else { return Ok(Parsed::NotRoce(NotRoce { ethertype, protocol })) };
    let route = Route { ethernet, network, addresses };
    let head = start.get(..len.wrapping_add(network.udp_len())).unwrap_or(start);
    Roce::parse(route, head, traffic_class, input, shimmed, wire_len)
}
