//! Frames to be sent: any RoCE frame ([`Frame`]), and CNPs and acknowledgements ([`Response`]).

use super::cursor::Output;
use super::extension::Extensions;
use super::icrc::{self, Crc32};
use super::route::{Endpoints, Network, Route};
use super::shim::{self, MlccAck, Rcc, Shims, Time};
use super::{Addresses, Aeth, Bth, EmitError, Mac, ROCE_PORT, Roce, Syndrome, Tags, TrafficClass};
use super::{cnp, grh, opcode, udp};
use crate::{CnpBody, CnpBodyKind, Ecn, Grant, Mark, Nanos, Qpn, Stamp};

crate::zeroed! {
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
}

impl Default for CnpMarking {
    /// DSCP 48 and priority 6, the defaults of NVIDIA NICs (`cnp_dscp`, `cnp_802p_prio`), and ECT(0), which a ConnectX-4 Lx was
    /// observed to send.
    fn default() -> Self {
        Self { dscp: 48, priority: 6, ecn: Ecn::Ect0 }
    }
}

/// The fields of an acknowledgement that do not follow from the packet that it acknowledges.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct AckFields {
    /// Message sequence number, 24 bits.
    pub msn: u32,
    /// The strongest mark of the packets acknowledged.
    pub mark: Mark,
    /// How long the receiver held the packet.
    pub receiver_hold: Nanos,
    /// How full the receiver's buffers are, 0 to 31; higher bits are not sent.
    pub rx_buffer_level: u8,
    /// What the receiver grants.
    pub grant: Grant,
    /// How the frame is marked.
    pub marking: CnpMarking,
}

/// A RoCE frame to be sent. Pad, lengths, checksums and ICRC are computed when it is emitted.
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
    /// Shims in front of the BTH, which send the frame to the shims' port; ignored for RoCEv1, which has no UDP.
    pub shims: Shims<'a>,
    /// Base transport header.
    pub bth: Bth,
    /// Values of extension headers; those that the opcode requires are sent.
    pub extensions: Extensions,
    /// Payload, padded to a multiple of four when emitted.
    pub payload: &'a [u8],
}

impl Frame<'_> {
    /// Writes the whole frame, without a frame check sequence, and returns its length. The ICRC is valid, or four zeros if
    /// the engine computes none ([`Crc32::COMPUTES`]). After an error the contents of the buffer are unspecified. Shims go to
    /// [`shim::PORT`].
    #[inline]
    pub fn emit<E: Crc32>(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        self.emit_on::<E>(buffer, shim::PORT)
    }

    /// As [`Frame::emit`] does, with shims to UDP port `shim_port`.
    #[inline]
    pub fn emit_on<E: Crc32>(&self, buffer: &mut [u8], shim_port: u16) -> Result<usize, EmitError> {
        let info = opcode::info(self.bth.opcode);
        let ends = Endpoints::back_to(self.destination, self.source, self.addresses);
        let head = Head {
            route: ends.route().with_tags(self.tags),
            class: TrafficClass::new(self.dscp, self.ecn),
            hop_limit: self.hop_limit,
            udp_source: self.udp_source,
        };
        let extensions = (info.header_len(), |output: &mut Output<'_>| self.extensions.emit(info, output));
        head.emit::<E>(buffer, (Some(&self.shims), shim_port), &self.bth, extensions, self.payload)
    }
}

/// A frame in the reverse direction of another: a CNP or an acknowledgement.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Response<'a> {
    head: Head<'a>,
    shims: Option<Shims<'a>>,
    bth: Bth,
    /// The words of the extension header, which come first.
    extension: [u32; 4],
    payload: &'a [u8],
}

impl<'a> Response<'a> {
    /// The CNP for `cause`, a data packet that arrived with CE, addressed to its sender's queue pair `to`.
    ///
    /// Addresses are exchanged; VLAN tags (with every priority replaced) and partition key are kept; IP options and extension
    /// headers are not. As in CNPs of a ConnectX-4 Lx, the UDP source port and checksum are zero and the time to live is 64.
    #[inline]
    pub fn cnp(cause: &Roce<'a>, to: Qpn, body_kind: CnpBodyKind, marking: CnpMarking) -> Self {
        Self::cnp_back(cause.route(), cause.bth.partition, to, body_kind, marking)
    }

    /// As [`Response::cnp`], from the route and the partition key of the data packet instead of the packet itself.
    #[inline]
    pub fn cnp_back(route: Route<'a>, partition: u16, to: Qpn, body_kind: CnpBodyKind, marking: CnpMarking) -> Self {
        Self {
            bth: Bth { opcode: opcode::CNP, becn: true, partition, dest_qp: to, ..Bth::default() },
            head: Head::back(route, 0, marking),
            shims: None,
            extension: cnp::words(&body_kind),
            payload: &[],
        }
    }

    /// The CNP of a switch that `cause`, a data packet, passes. `int` is what [`IntShim::write`](shim::IntShim::write) has
    /// written, for a body of kind 4 or 5, and nothing for another.
    ///
    /// As [`Response::cnp`] makes it for the receiver, but a data packet does not carry its sender's queue pair: the CNP goes
    /// to queue pair 0, which RoCEv2 does not use, and its body names the flow by the receiver's queue pair.
    pub fn from_switch(cause: &Roce<'a>, body: CnpBody, int: &'a [u8], marking: CnpMarking) -> Self {
        let body = CnpBody { names_remote_qpn: true, remote_qpn: cause.bth.dest_qp, ..body };
        Self { payload: int, ..Self::cnp(cause, Qpn::new(0), CnpBodyKind::Extended(body), marking) }
    }

    /// The acknowledgement of `cause`, a data packet of a reliable connection, and of all before it, addressed to its
    /// sender's queue pair `to`.
    ///
    /// Addresses are exchanged; VLAN tags (with every priority replaced), UDP source port and partition key are kept; IP
    /// options and extension headers are not. The time to live is 64. Credits are not used, and the mark is written into the
    /// BTH, see [`Roce::echo`]. Shims return those of `cause`: its time stamp, with the number of hops computed from its time
    /// to live, and its whole INT. RCC's grant also carries the stamp, and MLCC's the receiver's queue pair.
    #[inline]
    pub fn ack(cause: &Roce<'a>, to: Qpn, fields: &AckFields) -> Self {
        let AckFields { msn, mark, receiver_hold, rx_buffer_level, grant, marking } = *fields;
        let (time, int) = (cause.time_shim(), cause.int_shim());
        let echo = time.map_or(Stamp::from_bits(0), |time| time.sent);
        let hops = hops(cause.hop_limit());
        let (rcc, mlcc_ack) = match grant {
            Grant::None => (None, None),
            Grant::Rcc { window, flows, utilisation } => (Some(Rcc { window, flows, utilisation, echo }), None),
            Grant::Mlcc { credit, release, advised_rate } => {
                (None, Some(MlccAck { credit, data_qpn: cause.bth.dest_qp, release, advised_rate }))
            }
        };
        let time = time.map(|_| Time { sent: Stamp::from_bits(0), echo, receiver_hold, hops, rx_buffer_level });
        let aeth = Aeth { syndrome: Syndrome::Ack { credits: Syndrome::NO_CREDITS }, msn };
        Self {
            head: Head::back(cause.route(), cause.udp_source().unwrap_or(0), marking),
            shims: Some(Shims { time, int, rcc, mlcc_ack, ..Shims::NONE }),
            bth: Bth {
                opcode: opcode::ACKNOWLEDGE,
                fecn: mark == Mark::Undetermined,
                becn: mark == Mark::Congested,
                partition: cause.bth.partition,
                dest_qp: to,
                psn: cause.bth.psn,
                ..Bth::default()
            },
            extension: [aeth.word(), 0, 0, 0],
            payload: &[],
        }
    }

    /// Its base transport header.
    #[inline]
    pub const fn bth(&self) -> &Bth {
        &self.bth
    }

    /// Its network addresses: those of the packet that caused it, exchanged.
    #[inline]
    pub fn addresses(&self) -> Addresses {
        let Route { network, addresses, .. } = self.head.route;
        Addresses::of(network, addresses).reversed()
    }

    /// Writes the whole frame, as [`Frame::emit`] does.
    #[inline]
    pub fn emit<E: Crc32>(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let len = opcode::info(self.bth.opcode).header_len();
        // A copy, so that the compiler need not keep the other fields of `self` in memory.
        let words = self.extension;
        let extension = (len, |output: &mut Output<'_>| output.words(words.get(..len >> 2).unwrap_or(&words)));
        self.head.emit::<E>(buffer, (self.shims.as_ref(), shim::PORT), &self.bth, extension, self.payload)
    }
}

/// The fields of a frame's Ethernet, network and UDP headers.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
struct Head<'a> {
    /// The route of the frame that caused it, which it takes in reverse.
    route: Route<'a>,
    class: TrafficClass,
    hop_limit: u8,
    udp_source: u16,
}

impl<'a> Head<'a> {
    /// The head of a response.
    #[inline]
    fn back(route: Route<'a>, udp_source: u16, marking: CnpMarking) -> Self {
        let CnpMarking { dscp, priority, ecn } = marking;
        let route = route.with_tags(route.ethernet.tags.with_priority(priority));
        Self { route, class: TrafficClass::new(dscp, ecn), hop_limit: 64, udp_source }
    }

    /// Writes a frame with this head. `extensions_len` and `extensions` are the length of the extension headers, and the
    /// function that writes them.
    #[inline]
    fn emit<E: Crc32>(
        &self,
        buffer: &mut [u8],
        (shims, shim_port): (Option<&Shims<'_>>, u16),
        bth: &Bth,
        (extensions_len, extensions): (usize, impl FnOnce(&mut Output<'_>)),
        payload: &[u8],
    ) -> Result<usize, EmitError> {
        let Self { route, class, hop_limit, udp_source } = *self;
        let network = route.network;
        let shims = shims.filter(|shims| network != Network::Grh && !shims.is_empty());
        let chain_len = shims.map_or(0, Shims::len);
        if chain_len > shim::LONGEST {
            return Err(EmitError::TooLong);
        }
        let [low, ..] = payload.len().to_le_bytes();
        let pad = low.wrapping_neg() & 3;
        // Bytes behind UDP's header or the GRH, beginning the sum with the 4 of the ICRC. Lengths of slices are too small for
        // the sum to overflow.
        let lens = [12, chain_len, extensions_len, payload.len(), usize::from(pad)];
        let transport_len = lens.into_iter().fold(4, usize::wrapping_add);
        let network_len = usize::from(network.len()).wrapping_add(network.udp_len());
        // The outermost length field counts IPv4's header and not IPv6's; the sum with the header must fit in any case.
        let datagram_len = u16::try_from(transport_len.wrapping_add(network_len)).map_err(|_| EmitError::TooLong)?;
        let ethernet_len = route.ethernet.len();
        let total = ethernet_len.wrapping_add(network_len).wrapping_add(transport_len);
        let frame = buffer.get_mut(..total).ok_or(EmitError::BufferTooSmall)?;

        let mut output = Output::new(frame);
        let protocol = if network == Network::Grh { grh::NEXT_IS_BTH } else { udp::PROTOCOL };
        let len = datagram_len.wrapping_sub(network.len());
        route.emit_back(&mut output, class, hop_limit, protocol, len);
        if network != Network::Grh {
            udp::emit(&mut output, udp_source, if shims.is_some() { shim_port } else { ROCE_PORT }, len);
        }
        if let Some(shims) = shims {
            shims.emit(&mut output);
        }
        bth.emit(pad, &mut output);
        extensions(&mut output);
        if !payload.is_empty() {
            output.put(payload);
            output.put([0; 3].get(..usize::from(pad)).unwrap_or(&[]));
        }

        let (_, behind) = frame.split_at_mut_checked(ethernet_len).ok_or(EmitError::BufferTooSmall)?;
        if !E::COMPUTES {
            behind.last_chunk_mut().ok_or(EmitError::BufferTooSmall).map(|icrc| *icrc = [0; 4])?;
            return Ok(total);
        }
        let (covered, stored) = behind.split_last_chunk_mut::<4>().ok_or(EmitError::BufferTooSmall)?;
        let (head, datagram) = covered.split_at_checked(network_len).ok_or(EmitError::BufferTooSmall)?;
        let icrc = icrc::compute::<E>(network, head, datagram, chain_len).ok_or(EmitError::BufferTooSmall)?;
        *stored = icrc.to_le_bytes();
        Ok(total)
    }
}

/// The most switches that a path is assumed to have. A larger count means that the packet's first time to live was not one
/// of 64, 128 and 255: programs that address queue pairs by hand often set 1.
pub const MAX_HOPS: u8 = 31;

/// The number of switches that a packet of this time to live has passed, if its first time to live was the least of 64, 128 and
/// 255, the usual values of hosts, that is not smaller. 0 if that would be more than [`MAX_HOPS`].
#[inline]
const fn hops(hop_limit: u8) -> u8 {
    let first: u8 = match hop_limit {
        0..=64 => 64,
        65..=128 => 128,
        129.. => 255,
    };
    let hops = first.wrapping_sub(hop_limit);
    if hops > MAX_HOPS { 0 } else { hops }
}
