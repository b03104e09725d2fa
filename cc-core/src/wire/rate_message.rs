//! LSCC's message between interconnect switches: the rate at which the remote datacentre may send into this one.
//!
//! M. Long et al., "LSCC: Link-Segmented Congestion Control for RDMA in Cross-Datacenter Networks", section III-B, has it
//! carried by ICMP, at high priority, as a number of smallest units Delta_F; it gives no layout. Here it is a message of the
//! experimental types: 253 over IPv4 (RFC 4727), 200 over IPv6 (RFC 4443, section 2.1), each with code 0. Behind type, code
//! and checksum, all big endian:
//!
//! | bytes | field |
//! | --- | --- |
//! | 0-1 | 0x4c53 |
//! | 2-3 | number of the message |
//! | 4-6 | rate in units of Delta_F |
//! | 7 | bit 0: keepalive, bit 1: the rate is as low as it may be, bit 2: as high as it may be |
//! | 8-11 | the sender's clock in nanoseconds |
//! | 12-13 | port of the long link |
//! | 14 | PFC priority |
//! | 15 | zero |
//!
//! It is sent with a hop limit of 255 and rejected with any other, which proves that it came from the other end of the link
//! (RFC 5082).

use super::cursor::{Input, Output};
use super::ethernet::Ethernet;
use super::route::{Endpoints, Network};
use super::{Addresses, EmitError, IPV4, IPV6, Ip, Mac, Malformed, Tags, TrafficClass, ipv4, ipv6};
use crate::{Ecn, Stamp};
use bitfield::bitfield;

bitfield! {
    struct Flags(u8);
    at_maximum, set_at_maximum: 2;
    at_minimum, set_at_minimum: 1;
    keepalive, set_keepalive: 0;
}

/// ICMP's number over IPv4, and ICMPv6's over IPv6.
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// The experimental types.
const TYPE: u8 = 253;
const TYPE_V6: u8 = 200;
const MAGIC: u16 = 0x4c53;
/// Bytes of type, code, checksum and body.
const LEN: usize = 20;
/// [`LEN`] and the protocol number, added up: their part of ICMPv6's pseudo-header checksum.
const PSEUDO: u16 = 20 + ICMPV6 as u16;
const HOP_LIMIT: u8 = 255;

/// A rate for the remote end of a long link.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RateMessage {
    /// Counts the messages; serial.
    pub seq: u16,
    /// The rate in units of Delta_F, which both ends are configured with; values above 24 bits are sent as 2^24 - 1.
    pub units: u32,
    /// The rate is that of the previous message.
    pub keepalive: bool,
    /// The rate is as low as it may be.
    pub at_minimum: bool,
    /// The rate is as high as it may be.
    pub at_maximum: bool,
    /// The sender's clock.
    pub stamp: Stamp,
    /// The sender's number of the port.
    pub port: u16,
    /// PFC priority, 0 to 7.
    pub priority: u8,
}

/// Why a frame is no [`RateMessage`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum RateMessageError {
    /// It is a frame of another kind.
    NotRateMessage,
    /// Its headers contradict themselves.
    Malformed(Malformed),
    /// It came through a router: its hop limit is not 255.
    HopLimit,
    /// It is longer or shorter than a message is.
    Length,
    /// Its checksum is wrong.
    Checksum,
}

impl RateMessageError {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotRateMessage => "not_rate_message",
            Self::Malformed(malformed) => malformed.name(),
            Self::HopLimit => "hop_limit",
            Self::Length => "length",
            Self::Checksum => "checksum",
        }
    }
}

/// A message in its frame, to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RateFrame<'a> {
    /// Ethernet address of the remote end.
    pub destination: Mac,
    /// Ethernet address of the local end.
    pub source: Mac,
    /// VLAN tags.
    pub tags: Tags<'a>,
    /// Network addresses; global identifiers are used as IPv6 addresses.
    pub addresses: Addresses,
    /// Differentiated services code point, 0 to 63; higher bits are not sent. It should be that of a class that is not queued
    /// behind data.
    pub dscp: u8,
    /// The message.
    pub message: RateMessage,
}

impl RateFrame<'_> {
    /// Bytes of the longest frame without VLAN tags.
    pub const LONGEST: usize = 14 + 40 + LEN;

    /// Writes the whole frame, without padding and frame check sequence, and returns its length. After an error the contents of
    /// the buffer are unspecified.
    ///
    /// # Errors
    /// [`EmitError::BufferTooSmall`].
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let ends = Endpoints::back_to(self.destination, self.source, self.addresses);
        let mut route = ends.route().with_tags(self.tags);
        // Global identifiers are used as IPv6 addresses.
        let (kind, protocol) = match route.network {
            Network::V4 => (TYPE, ICMP),
            Network::V6 | Network::Grh => {
                route.network = Network::V6;
                (TYPE_V6, ICMPV6)
            }
        };
        let network_len = usize::from(route.network.len());
        let total = route.ethernet.len().saturating_add(network_len).saturating_add(LEN);
        let mut output = Output::new(buffer.get_mut(..total).ok_or(EmitError::BufferTooSmall)?);
        route.emit_back(&mut output, TrafficClass::new(self.dscp, Ecn::NotEct), HOP_LIMIT, protocol, 20);
        let mut bytes = self.message.bytes(kind);
        let sum = !sum(route.network, route.addresses, &bytes);
        let [_, _, sum0, sum1, ..] = &mut bytes;
        [*sum0, *sum1] = sum.to_be_bytes();
        output.put(&bytes);
        Ok(total)
    }
}

impl RateMessage {
    /// Reads a frame that starts with its Ethernet destination address; `wire_len` is as in [`parse`](super::parse()). Flags
    /// and bytes that are not in the table are ignored.
    ///
    /// # Errors
    /// Why the frame is no rate message.
    pub fn parse(frame: &[u8], wire_len: usize) -> Result<Self, RateMessageError> {
        let mut input = Input::new(frame, wire_len);
        let mut ethernet = Ethernet::NONE;
        let ethertype = ethernet.parse(&mut input).map_err(RateMessageError::Malformed)?;
        let start = input.bytes();
        let mut ip = Ip::NONE;
        let (network, read, kind) = match ethertype {
            IPV4 => (Network::V4, ipv4::parse(&mut input, &mut ip), TYPE),
            IPV6 => (Network::V6, ipv6::parse(Network::V6, &mut input, &mut ip), TYPE_V6),
            _ => return Err(RateMessageError::NotRateMessage),
        };
        read.map_err(RateMessageError::Malformed)?;
        let Ip { protocol, addresses, .. } = ip;
        let is_icmp = protocol == if network == Network::V4 { ICMP } else { ICMPV6 };
        let bytes = message(&mut input, is_icmp, kind, network.hop_limit(start))?;
        // A message with a right checksum adds up to all ones.
        if sum(network, addresses, bytes) == u16::MAX { Ok(Self::read(bytes)) } else { Err(RateMessageError::Checksum) }
    }

    fn read(bytes: &[u8; LEN]) -> Self {
        let &[_, _, _, _, _, _, s0, s1, r0, r1, r2, flags, t0, t1, t2, t3, p0, p1, priority, _] = bytes;
        let flags = Flags(flags);
        Self {
            seq: u16::from_be_bytes([s0, s1]),
            units: u32::from_be_bytes([0, r0, r1, r2]),
            keepalive: flags.keepalive(),
            at_minimum: flags.at_minimum(),
            at_maximum: flags.at_maximum(),
            stamp: Stamp::from_bits(u32::from_be_bytes([t0, t1, t2, t3])),
            port: u16::from_be_bytes([p0, p1]),
            priority: priority & 7,
        }
    }

    /// Type, code, checksum (zero as yet) and body.
    fn bytes(&self, kind: u8) -> [u8; LEN] {
        let mut flags = Flags(0);
        flags.set_keepalive(self.keepalive);
        flags.set_at_minimum(self.at_minimum);
        flags.set_at_maximum(self.at_maximum);
        let mut bytes = [0; LEN];
        Output::new(&mut bytes).words(&[
            u32::from(kind) << 24,
            u32::from(MAGIC) << 16 | u32::from(self.seq),
            self.units.min(0x00ff_ffff) << 8 | u32::from(flags.0),
            self.stamp.to_bits(),
            u32::from(self.port) << 16 | u32::from(self.priority & 7) << 8,
        ]);
        bytes
    }
}

/// The bytes of the message, if the frame is a rate message with a hop limit of 255.
fn message<'a>(
    input: &mut Input<'a>,
    is_icmp: bool,
    kind: u8,
    hop_limit: u8,
) -> Result<&'a [u8; LEN], RateMessageError> {
    let whole = input.left();
    let is_ours = |bytes: &[u8]| {
        let magic = MAGIC.to_be_bytes();
        matches!(*bytes, [first, 0, _, _, m0, m1, ..] if first == kind && [m0, m1] == magic)
    };
    if !is_icmp || !is_ours(input.bytes()) {
        return Err(RateMessageError::NotRateMessage);
    }
    if whole != LEN {
        return Err(RateMessageError::Length);
    }
    if hop_limit != HOP_LIMIT {
        return Err(RateMessageError::HopLimit);
    }
    input.take(Malformed::Truncated).map_err(RateMessageError::Malformed)
}

/// The sum of what the checksum covers: the message, and in ICMPv6 also addresses, length and protocol (RFC 4443, section 2.3).
fn sum(network: Network, addresses: &[u8], message: &[u8; LEN]) -> u16 {
    let sum = |before: u16, bytes| ipv4::sum(before.into(), bytes);
    match network {
        Network::V4 => sum(0, message),
        Network::V6 | Network::Grh => sum(sum(PSEUDO, message), addresses),
    }
}
