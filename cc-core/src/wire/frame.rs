//! Frames to be sent.

use super::cursor::Output;
use super::extension::Extensions;
use super::icrc::{self, Crc32};
use super::shim::{self, MlccAck, Rcc, Shims, Time};
use super::{Addresses, Aeth, Bth, EmitError, Mac, Network, ROCE_PORT, Roce, Syndrome, Tags, TrafficClass};
use super::{ethernet, grh, ipv4, ipv6, opcode, udp};
use crate::{CnpBody, CnpHint, Ecn, Grant, Mark, Nanos, Psn, Qpn, Stamp};

/// How CNPs and acknowledgements are marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CnpMarking {
    /// Differentiated services code point, 0 to 63; higher bits are not sent.
    pub dscp: u8,
    /// 802.1p priority, 0 to 7, where the frame is tagged; higher bits are not sent.
    pub priority: u8,
    /// ECN bits.
    pub ecn: Ecn,
}

impl Default for CnpMarking {
    /// DSCP 48 and priority 6, as NVIDIA NICs have it (`cnp_dscp`, `cnp_802p_prio`), and ECT(0), as a
    /// ConnectX-4 Lx was seen to send it.
    fn default() -> Self {
        Self { dscp: 48, priority: 6, ecn: Ecn::Ect0 }
    }
}

/// What an acknowledgement says beside what follows from the packet that it acknowledges.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct AckFields {
    /// Message sequence number, 24 bits.
    pub msn: u32,
    /// The strongest mark of the packets acknowledged.
    pub mark: Mark,
    /// How long the receiver held the packet.
    pub held: Nanos,
    /// How full the receiver's buffers are, 0 to 31; higher bits are not sent.
    pub rx_level: u8,
    /// What the receiver grants.
    pub grant: Grant,
    /// How the frame is marked.
    pub marking: CnpMarking,
}

/// A RoCE frame to be sent. Whatever can be written here can be emitted; pad, lengths, checksums and ICRC are
/// computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Frame<'a> {
    /// Ethernet address of the receiver.
    pub destination: Mac,
    /// Ethernet address of the sender.
    pub source: Mac,
    /// VLAN tags.
    pub tags: Tags<'a>,
    /// Network addresses; their kind decides between IPv4, IPv6 and RoCEv1.
    pub addresses: Addresses,
    /// Differentiated services code point, 0 to 63; higher bits are not sent.
    pub dscp: u8,
    /// ECN bits.
    pub ecn: Ecn,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// UDP source port; RoCEv1 has none.
    pub udp_source: u16,
    /// What goes before the BTH, to the shims' port; RoCEv1 has no place for it.
    pub shims: Shims<'a>,
    /// Base transport header.
    pub bth: Bth,
    /// Values of extension headers; those that the opcode asks for are sent.
    pub extensions: Extensions,
    /// Payload, padded to a multiple of four when emitted.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The CNP that answers `cause`, a data packet that arrived with CE, addressed to its sender's queue pair
    /// `to`.
    ///
    /// Addresses are exchanged; VLAN tags (with every priority replaced) and partition key are kept; IP options
    /// and extension headers are not. As a ConnectX-4 Lx does it, the UDP source port and checksum are zero and
    /// the time to live is 64.
    #[inline]
    pub fn cnp(cause: &Roce<'a>, to: Qpn, hint: CnpHint, marking: CnpMarking) -> Self {
        Self {
            destination: cause.source_mac(),
            source: cause.destination_mac(),
            tags: cause.tags().with_priority(marking.priority),
            addresses: cause.addresses().reversed(),
            dscp: marking.dscp,
            ecn: marking.ecn,
            hop_limit: 64,
            udp_source: 0,
            shims: Shims::NONE,
            bth: Bth {
                opcode: opcode::CNP,
                becn: true,
                partition: cause.bth.partition,
                dest_qp: to,
                psn: Psn::new(0),
                ..Bth::default()
            },
            extensions: Extensions { cnp: hint, ..Extensions::default() },
            payload: &[],
        }
    }

    /// The CNP of a switch that `cause`, a data packet, passes. `int` is what [`IntShim::write`](shim::IntShim::write) has
    /// written, for a body of kind 4 or 5, and nothing for another.
    ///
    /// As [`Frame::cnp`] makes it for the receiver, but no data packet tells its sender's queue pair: the CNP goes to queue
    /// pair 0, which RoCEv2 does not use, and its body names the flow by the receiver's.
    pub fn from_switch(cause: &Roce<'a>, body: CnpBody, int: &'a [u8], marking: CnpMarking) -> Self {
        let body = CnpBody { by_remote: true, remote_qpn: cause.bth.dest_qp, ..body };
        Self { payload: int, ..Self::cnp(cause, Qpn::new(0), CnpHint::Body(body), marking) }
    }

    /// The acknowledgement of `cause`, a data packet of a reliable connection, and of all before it, addressed to its
    /// sender's queue pair `to`.
    ///
    /// Addresses are exchanged; VLAN tags (with every priority replaced), UDP source port and partition key are kept; IP
    /// options and extension headers are not. The time to live is 64. Credits are not in use, and the mark goes into the
    /// BTH, see [`Roce::echo`]. Shims answer those of `cause`: its time stamp comes back, with the hops that its time to
    /// live tells, and so does its INT, whole. RCC's grant takes the stamp
    /// along, and MLCC's the receiver's queue pair.
    #[inline]
    pub fn ack(cause: &Roce<'a>, to: Qpn, fields: &AckFields) -> Self {
        let AckFields { msn, mark, held, rx_level, grant, marking } = *fields;
        let (time, int) = (cause.time_shim(), cause.int_shim());
        let echo = time.map_or(Stamp::from_bits(0), |time| time.sent);
        let hops = hops(cause.hop_limit());
        let (rcc, mlcc_ack) = match grant {
            Grant::None => (None, None),
            Grant::Rcc { window, flows, utilisation } => (Some(Rcc { window, flows, utilisation, echo }), None),
            Grant::Mlcc { credit, release, advised } => {
                (None, Some(MlccAck { credit, data_qpn: cause.bth.dest_qp, release, advised }))
            }
        };
        let time = time.map(|_| Time { sent: Stamp::from_bits(0), echo, held, hops, rx_level });
        Self {
            destination: cause.source_mac(),
            source: cause.destination_mac(),
            tags: cause.tags().with_priority(marking.priority),
            addresses: cause.addresses().reversed(),
            dscp: marking.dscp,
            ecn: marking.ecn,
            hop_limit: 64,
            udp_source: cause.udp_source().unwrap_or(0),
            shims: Shims { time, int, rcc, mlcc_ack, ..Shims::NONE },
            bth: Bth {
                opcode: opcode::ACKNOWLEDGE,
                fecn: mark == Mark::Undetermined,
                becn: mark == Mark::Congested,
                partition: cause.bth.partition,
                dest_qp: to,
                psn: cause.bth.psn,
                ..Bth::default()
            },
            extensions: Extensions {
                aeth: Aeth { syndrome: Syndrome::Ack { credits: Syndrome::NO_CREDITS }, msn },
                ..Extensions::default()
            },
            payload: &[],
        }
    }

    /// Writes the whole frame, with a valid ICRC and without a frame check sequence, and returns its length.
    /// When there is an error, what the buffer holds has no meaning. Shims go to [`shim::PORT`].
    #[inline]
    pub fn emit<E: Crc32>(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        self.emit_on::<E>(buffer, shim::PORT)
    }

    /// As [`Frame::emit`] does, with shims to UDP port `shim_port`.
    #[inline]
    pub fn emit_on<E: Crc32>(&self, buffer: &mut [u8], shim_port: u16) -> Result<usize, EmitError> {
        let info = opcode::info(self.bth.opcode);
        let [low, ..] = self.payload.len().to_le_bytes();
        let pad = low.wrapping_neg() & 3;
        let body_len = info.header_len().saturating_add(self.payload.len()).saturating_add(usize::from(pad));
        let (network_len, chain_len, ethertype) = match self.addresses {
            Addresses::V4 { .. } => (20 + 8, self.shims.len(), 0x0800),
            Addresses::V6 { .. } => (40 + 8, self.shims.len(), 0x86dd),
            Addresses::Gid { .. } => (40, 0, super::ROCE_V1),
        };
        if chain_len > shim::LONGEST {
            return Err(EmitError::TooLong);
        }
        // Shims, BTH, body and ICRC.
        let transport_len = body_len.saturating_add(16).saturating_add(chain_len);
        // What the outermost length field counts differs; the largest of all must fit.
        let datagram_len = u16::try_from(transport_len.saturating_add(network_len)).map_err(|_| EmitError::TooLong)?;
        let head_len = self.tags.len().saturating_add(14).saturating_add(network_len);
        let total = head_len.saturating_add(transport_len);

        let buffer = buffer.get_mut(..total).ok_or(EmitError::BufferTooSmall)?;
        let (head, rest) = buffer.split_at_mut_checked(head_len).ok_or(EmitError::BufferTooSmall)?;
        let (shims, rest) = rest.split_at_mut_checked(chain_len).ok_or(EmitError::BufferTooSmall)?;
        let (bth, rest) = rest.split_first_chunk_mut::<12>().ok_or(EmitError::BufferTooSmall)?;
        let (body, stored) = rest.split_last_chunk_mut::<4>().ok_or(EmitError::BufferTooSmall)?;

        let port = if chain_len == 0 {
            ROCE_PORT
        } else {
            self.shims.emit(&mut Output::new(shims))?;
            shim_port
        };
        *bth = self.bth.emit(pad);

        let mut output = Output::new(body);
        self.extensions.emit(info, &mut output)?;
        output.put_slice(self.payload)?;
        output.zero_rest();

        let mut output = Output::new(head);
        ethernet::emit(&mut output, self.destination, self.source, self.tags, ethertype)?;
        let traffic_class = TrafficClass::new(self.dscp, self.ecn);
        let icrc = match self.addresses {
            Addresses::V4 { source, destination } => {
                let (source, destination) = (source.octets(), destination.octets());
                let head = ipv4::emit(source, destination, traffic_class, self.hop_limit, udp::PROTOCOL, datagram_len)?;
                let udp = udp::emit(self.udp_source, port, datagram_len.wrapping_sub(20));
                output.put(head)?;
                output.put(udp)?;
                icrc::compute::<E>(&Network::V4 { head: &head, options: &[], udp: &udp }, chain_len, bth, body)
            }
            Addresses::V6 { source, destination } => {
                let (source, destination) = (source.octets(), destination.octets());
                let len = datagram_len.wrapping_sub(40);
                let head = ipv6::emit(source, destination, traffic_class, self.hop_limit, udp::PROTOCOL, len)?;
                let udp = udp::emit(self.udp_source, port, len);
                output.put(head)?;
                output.put(udp)?;
                icrc::compute::<E>(&Network::V6 { head: &head, extensions: &[], udp: &udp }, chain_len, bth, body)
            }
            Addresses::Gid { source, destination } => {
                let (source, destination) = (source.octets(), destination.octets());
                let len = datagram_len.wrapping_sub(40);
                let head = ipv6::emit(source, destination, traffic_class, self.hop_limit, grh::NEXT_IS_BTH, len)?;
                output.put(head)?;
                icrc::compute::<E>(&Network::Grh { head: &head }, chain_len, bth, body)
            }
        };
        *stored = icrc.to_le_bytes();
        Ok(total)
    }
}

/// The hops that a packet of this time to live has behind it, if it began with the next of 64, 128 and 255, as hosts do.
#[inline]
const fn hops(hop_limit: u8) -> u8 {
    let first: u8 = match hop_limit {
        0..=64 => 64,
        65..=128 => 128,
        129.. => 255,
    };
    first.wrapping_sub(hop_limit)
}
