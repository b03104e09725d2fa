//! A received RoCE packet.

use super::cursor::Input;
use super::ethernet::{Mac, Tag, Tags};
use super::extension::{Deth, Reth};
use super::icrc::{self, Crc32, Icrc};
use super::opcode::{self, Header, Info};
use super::route::Route;
use super::shim::{self, IntShim, MlccAck, MlccData, Rcc, ShimOffsets, Shims, Time};
use super::{Addresses, Aeth, Bth, Malformed, Parsed, TrafficClass, Version, cnp};
use crate::{Bytes, CnpBody, CnpBodyKind, CnpKind, Ecn, Mark};

/// A RoCE packet, borrowed from its frame. It has all headers up to the BTH; the snap length of a capture may have cut the
/// extension headers, which then read as absent.
///
/// The values that every receiver reads are fields; methods read the rest from the frame.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Roce<'a> {
    /// Base transport header.
    pub bth: Bth,
    /// What the opcode means.
    pub info: Info,
    /// The two ECN bits of the IP header or GRH.
    pub ecn: Ecn,
    /// Bytes of padding behind the payload, 0 to 3.
    pub pad: u8,
    /// Bytes of payload: what remains of the UDP datagram (of the GRH's payload in RoCEv1) without shims, headers, pad
    /// and ICRC. Counted even where the capture was cut.
    pub payload_len: usize,
    /// Bytes of the whole frame on the wire, as the caller gave them.
    pub wire_len: Bytes,
    traffic_class: TrafficClass,
    route: Route<'a>,
    /// The headers in front of the datagram: the network's, and UDP's if there is one.
    head: &'a [u8],
    /// Shims, BTH, extension headers, payload, pad and ICRC, as far as captured.
    datagram: &'a [u8],
    /// The extension headers behind the BTH, as its opcode requires.
    extensions: &'a [u8],
    /// Positions of the shims; none unless the packet came on their port.
    shim_offsets: ShimOffsets,
    truncated: bool,
}

impl<'a> Roce<'a> {
    /// The packet in a frame that was captured whole; `None` if the frame is malformed or not RoCE. [`parse`](super::parse)
    /// returns which, and reads frames that were cut.
    pub fn of(frame: &'a [u8]) -> Option<Self> {
        match super::parse(frame, frame.len()) {
            Ok(Parsed::Roce(roce)) => Some(roce),
            _ => None,
        }
    }

    /// Reads from the shims on if there are any, or from the BTH; the input ends with the ICRC.
    // Always inlined, so that the packet is built in place and not copied.
    #[inline(always)]
    pub(super) fn parse(
        route: Route<'a>,
        head: &'a [u8],
        traffic_class: TrafficClass,
        mut input: Input<'a>,
        shimmed: bool,
        wire_len: usize,
    ) -> Result<Parsed<'a>, Malformed> {
        let datagram = input.bytes();
        let mut shim_offsets = ShimOffsets::NONE;
        if shimmed {
            shim_offsets.find(&mut input)?;
        }
        let bth_bytes = input.take::<12>(Malformed::BthShort)?;
        let pad = Bth::pad(bth_bytes)?;
        let &[opcode, ..] = bth_bytes;
        let info = opcode::info(opcode);
        // If the snap length kept the BTH, ECN, opcode, queue pair and sequence number are known.
        let truncated = input.cut() != 0;
        let extensions = input.take_captured(info.header_len(), Malformed::ExtensionShort)?;
        let payload_len = input
            .left()
            .checked_sub(4)
            .ok_or(Malformed::IcrcMissing)?
            .checked_sub(usize::from(pad))
            .ok_or(Malformed::Pad)?;
        Ok(Parsed::Roce(Self {
            bth: Bth::parse(bth_bytes),
            info,
            ecn: traffic_class.ecn(),
            pad,
            payload_len,
            wire_len: Bytes::new(u32::try_from(wire_len).unwrap_or(u32::MAX)),
            traffic_class,
            route,
            head,
            datagram,
            extensions,
            shim_offsets,
            truncated,
        }))
    }

    /// The packet in `frame`, which is as long on the wire as this one's ([`Roce::wire_len`]), if its headers are laid out as
    /// this one's are: what [`parse_on`](super::parse_on) returns for it, without the search for where each header begins, at a
    /// third of the cost. `None` otherwise: the caller then parses the frame.
    ///
    /// Called for the packets of a flow, of which most differ from the one before in few fields. Ethernet addresses, VLAN
    /// identifiers and priorities, network addresses, traffic class, hop limit, UDP source port, the contents of shims, BTH,
    /// extension headers and payload may differ. The number of VLAN tags, IP options and extension headers, lengths, UDP
    /// destination port and the types of shims may not.
    pub fn like<'b>(&self, frame: &'b [u8]) -> Option<Roce<'b>> {
        let (route, behind) = self.route.like(frame)?;
        let (head, behind) = behind.split_at_checked(self.head.len())?;
        let (traffic_class, addresses) = route.network.like(self.head, head)?;
        // The part of the frame that its length fields count. Bytes after it are a trailer, unless the capture cut the packet.
        let datagram = behind.get(..self.datagram.len())?;
        let wire_len = usize::try_from(self.wire_len.get()).unwrap_or(usize::MAX);
        let is_whole = if self.truncated { behind.len() == datagram.len() } else { frame.len() <= wire_len };
        let chain_len = usize::from(self.shim_offsets.len());
        let (chain, transport) = datagram.split_at_checked(chain_len)?;
        if !is_whole || !shim::alike(self.datagram.get(..chain_len)?, chain) {
            return None;
        }
        let (bth_bytes @ &[opcode, ..], behind) = transport.split_first_chunk::<12>()?;
        let pad = Bth::pad(bth_bytes).ok()?;
        let info = opcode::info(opcode);
        let extensions = match behind.get(..info.header_len()) {
            Some(extensions) => extensions,
            // As far as captured.
            None if self.truncated => behind,
            None => return None,
        };
        let body_len = self.payload_len.wrapping_add(usize::from(self.pad)).wrapping_add(self.info.header_len());
        let payload_len = body_len.checked_sub(info.header_len())?.checked_sub(usize::from(pad))?;
        Some(Roce {
            bth: Bth::parse(bth_bytes),
            info,
            ecn: traffic_class.ecn(),
            pad,
            payload_len,
            wire_len: self.wire_len,
            traffic_class,
            route: Route { addresses, ..route },
            head,
            datagram,
            extensions,
            shim_offsets: self.shim_offsets,
            truncated: self.truncated,
        })
    }

    /// Whether the capture's snap length cut this packet: then payload and ICRC are missing or incomplete.
    #[inline]
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// RoCEv1 or RoCEv2.
    #[inline]
    pub fn version(&self) -> Version {
        self.route.network.version()
    }

    /// Ethernet address of the receiver.
    #[inline]
    pub fn destination_mac(&self) -> Mac {
        let &[m0, m1, m2, m3, m4, m5, ..] = self.route.ethernet.macs;
        Mac::new([m0, m1, m2, m3, m4, m5])
    }

    /// Ethernet address of the sender.
    #[inline]
    pub fn source_mac(&self) -> Mac {
        let &[.., m0, m1, m2, m3, m4, m5] = self.route.ethernet.macs;
        Mac::new([m0, m1, m2, m3, m4, m5])
    }

    /// The VLAN tags, outermost first.
    #[inline]
    pub fn tags(&self) -> Tags<'a> {
        self.route.ethernet.tags
    }

    /// The outermost VLAN tag, by whose priority the port classifies the frame.
    #[inline]
    pub fn vlan(&self) -> Option<Tag> {
        self.route.ethernet.tags.iter().next()
    }

    /// The network addresses.
    #[inline]
    pub fn addresses(&self) -> Addresses {
        Addresses::of(self.route.network, self.route.addresses)
    }

    /// The route of the packet: its addresses and VLAN tags.
    #[inline]
    pub fn route(&self) -> Route<'a> {
        self.route
    }

    /// Differentiated services code point, 0 to 63.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.traffic_class.dscp()
    }

    /// Time to live, or hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.route.network.hop_limit(self.head)
    }

    /// The UDP source port; `None` for RoCEv1.
    #[inline]
    pub fn udp_source(&self) -> Option<u16> {
        let at = self.head.len().checked_sub(self.route.network.udp_len())?;
        let &[high, low] = self.head.get(at..)?.first_chunk()?;
        Some(u16::from_be_bytes([high, low]))
    }

    /// Whether the packet came on the shims' port.
    #[inline]
    pub fn is_shimmed(&self) -> bool {
        self.shim_offsets.len() != 0
    }

    /// The shims. Each call reads them from the packet.
    #[inline]
    pub fn shims(&self) -> Shims<'a> {
        Shims {
            time: self.time_shim(),
            int: self.int_shim(),
            rcc: self.rcc_shim(),
            mlcc_data: self.mlcc_data_shim(),
            mlcc_ack: self.mlcc_ack_shim(),
            echo: self.echo_shim(),
        }
    }

    /// The time stamps.
    #[inline]
    pub fn time_shim(&self) -> Option<Time> {
        self.shim_offsets.time(self.datagram)
    }

    /// The in-band telemetry.
    #[inline]
    pub fn int_shim(&self) -> Option<IntShim<'a>> {
        self.shim_offsets.int(self.datagram)
    }

    /// What RCC's receiver returns.
    #[inline]
    pub fn rcc_shim(&self) -> Option<Rcc> {
        self.shim_offsets.rcc(self.datagram)
    }

    /// The fields that MLCC's interconnect switch writes for the receiver.
    #[inline]
    pub fn mlcc_data_shim(&self) -> Option<MlccData> {
        self.shim_offsets.mlcc_data(self.datagram)
    }

    /// What MLCC's receiver returns.
    #[inline]
    pub fn mlcc_ack_shim(&self) -> Option<MlccAck> {
        self.shim_offsets.mlcc_ack(self.datagram)
    }

    /// The mark that an acknowledgement returns in a shim.
    #[inline]
    pub fn echo_shim(&self) -> Option<Mark> {
        self.shim_offsets.echo(self.datagram)
    }

    /// Bytes of the frame in front of the INT shim, if there is one: where [`shim::push_at`] appends a record and
    /// [`shim::clear_int_at`] takes them off. The same in all frames that are [`like`](Roce::like) this one.
    #[inline]
    pub fn int_at(&self) -> Option<usize> {
        Some(self.chain_at().wrapping_add(self.shim_offsets.int_at()?))
    }

    /// Bytes of the frame in front of the time shim, if there is one: where [`shim::set_sent_at`] writes.
    #[inline]
    pub fn time_at(&self) -> Option<usize> {
        Some(self.chain_at().wrapping_add(self.shim_offsets.time_at()?))
    }

    /// Bytes of the frame in front of MLCC's shim of data packets, if there is one: where [`shim::write_mlcc_at`] writes.
    #[inline]
    pub fn mlcc_data_at(&self) -> Option<usize> {
        Some(self.chain_at().wrapping_add(self.shim_offsets.mlcc_data_at()?))
    }

    /// Bytes of the frame in front of the BTH.
    #[inline]
    pub fn bth_at(&self) -> usize {
        self.chain_at().wrapping_add(usize::from(self.shim_offsets.len()))
    }

    /// Bytes of the frame in front of the payload: all headers.
    #[inline]
    pub fn payload_at(&self) -> usize {
        self.bth_at().wrapping_add(12).wrapping_add(self.extensions.len())
    }

    /// The chain of shims, its end included.
    #[cfg(test)]
    pub(super) fn chain(&self) -> &'a [u8] {
        self.datagram.get(..usize::from(self.shim_offsets.len())).unwrap_or(&[])
    }

    /// Bytes of the frame in front of the shims, or of the BTH where there are none.
    pub fn chain_at(&self) -> usize {
        self.route.ethernet.len().wrapping_add(self.head.len())
    }

    /// The acknowledgement extension header, if the opcode has one.
    #[inline]
    pub fn aeth(&self) -> Option<Aeth> {
        self.extension(Header::Ack).map(Aeth::parse)
    }

    /// The datagram extension header, if the opcode has one.
    #[inline]
    pub fn deth(&self) -> Option<Deth> {
        self.extension(Header::Datagram).map(Deth::parse)
    }

    /// The RDMA extension header, if the opcode has one.
    #[inline]
    pub fn reth(&self) -> Option<Reth> {
        self.extension(Header::Rdma).map(Reth::parse)
    }

    /// The immediate data, if the opcode has any.
    #[inline]
    pub fn immediate(&self) -> Option<u32> {
        self.extension(Header::Immediate).map(|&bytes| u32::from_be_bytes(bytes))
    }

    /// The remote key to invalidate, if the opcode has one.
    #[inline]
    pub fn invalidate(&self) -> Option<u32> {
        self.extension(Header::Invalidate).map(|&bytes| u32::from_be_bytes(bytes))
    }

    /// The body in the reserved bytes, if this is a CNP.
    #[inline]
    pub fn cnp(&self) -> Option<CnpBodyKind> {
        self.extension(Header::Cnp).map(cnp::parse)
    }

    /// The telemetry of the path to a switch, which the switch sent in a CNP of kind 4 or 5; `None` for any other packet, and
    /// where anything but one whole INT shim follows the reserved bytes.
    pub fn switch_int(&self) -> Option<IntShim<'a>> {
        match self.cnp()? {
            CnpBodyKind::Extended(CnpBody { kind: CnpKind::SwitchInt | CnpKind::DirectInt, .. }) => {
                IntShim::alone(self.payload()).filter(|_| !self.truncated)
            }
            _ => None,
        }
    }

    /// The mark that an acknowledgement echoes in its BTH: BECN means that a packet it acknowledges arrived with CE, FECN alone
    /// that one was marked as undetermined.
    #[inline]
    pub const fn echo(&self) -> Mark {
        match (self.bth.becn, self.bth.fecn) {
            (true, _) => Mark::Congested,
            (false, true) => Mark::Undetermined,
            (false, false) => Mark::None,
        }
    }

    /// The payload, as far as it was captured.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        let at = usize::from(self.shim_offsets.len()).wrapping_add(12).wrapping_add(self.extensions.len());
        let behind = self.datagram.get(at..).unwrap_or(&[]);
        behind.get(..self.payload_len).unwrap_or(behind)
    }

    /// Checks the ICRC with this engine.
    #[inline]
    pub fn icrc<E: Crc32>(&self) -> Icrc {
        if self.truncated || !E::COMPUTES {
            return Icrc::Unchecked;
        }
        let chain_len = usize::from(self.shim_offsets.len());
        let crc = icrc::compute::<E>(self.route.network, self.head, self.datagram, chain_len);
        if crc == Some(icrc::WITH_ITSELF) { Icrc::Valid } else { Icrc::Invalid }
    }

    /// Bytes of the frame in front of the ICRC, and what the ICRC must be; `None` if the packet was cut.
    pub(super) fn expected_icrc<E: Crc32>(&self) -> (usize, Option<[u8; 4]>) {
        let covered = self.datagram.len().saturating_sub(4);
        let datagram = self.datagram.get(..covered).filter(|_| !self.truncated).unwrap_or(&[]);
        let chain_len = usize::from(self.shim_offsets.len());
        let icrc = icrc::compute::<E>(self.route.network, self.head, datagram, chain_len);
        (self.chain_at().wrapping_add(covered), icrc.map(u32::to_le_bytes))
    }

    #[inline]
    fn extension<const N: usize>(&self, header: Header) -> Option<&'a [u8; N]> {
        if !self.info.has(header) {
            return None;
        }
        self.extensions.get(self.info.offset(header)..)?.first_chunk()
    }
}
