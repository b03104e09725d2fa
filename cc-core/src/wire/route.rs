//! The route of a frame: the addresses and VLAN tags that a frame in the reverse direction takes over.

use super::cursor::Output;
use super::ethernet::{Ethernet, Mac, Tags};
use super::{Addresses, TrafficClass, Version, ipv4};
use core::net::{Ipv4Addr, Ipv6Addr};

/// The headers between Ethernet and BTH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum Network {
    /// IPv4 and UDP.
    V4,
    /// IPv6 and UDP.
    V6,
    /// RoCEv1's GRH.
    Grh,
}

impl Network {
    #[inline]
    pub(super) const fn version(self) -> Version {
        match self {
            Self::V4 | Self::V6 => Version::V2,
            Self::Grh => Version::V1,
        }
    }

    /// Bytes of a header without options.
    #[inline]
    pub(super) const fn len(self) -> u16 {
        match self {
            Self::V4 => 20,
            Self::V6 | Self::Grh => 40,
        }
    }

    /// Bytes of UDP's header, if there is one.
    #[inline]
    pub(super) const fn udp_len(self) -> usize {
        match self {
            Self::V4 | Self::V6 => 8,
            Self::Grh => 0,
        }
    }

    /// Bytes of source and destination address.
    #[inline]
    const fn addresses_len(self) -> usize {
        match self {
            Self::V4 => 8,
            Self::V6 | Self::Grh => 32,
        }
    }

    /// The time to live, or hop limit, in a header.
    #[inline]
    pub(super) fn hop_limit(self, head: &[u8]) -> u8 {
        let at = match self {
            Self::V4 => 8,
            Self::V6 | Self::Grh => 7,
        };
        head.get(at).copied().unwrap_or(0)
    }

    /// Traffic class and addresses in `head`, a network header, followed by the UDP header if there is one. `template` is a
    /// header that has been parsed; `None` if `head` is not as long as it, or not laid out in the same way.
    #[inline]
    pub(super) fn like<'a>(self, template: &[u8], head: &'a [u8]) -> Option<(TrafficClass, &'a [u8])> {
        let (&fixed, &new) = (template.first_chunk::<10>()?, head.first_chunk()?);
        let [t0, _, t2, t3, t4, t5, t6, _, _, t9] = fixed;
        let [b0, b1, b2, b3, b4, b5, b6, b7, _, b9] = new;
        let network_len = head.len().checked_sub(self.udp_len())?;
        let (alike, class) = match self {
            // Version and IHL, length, no fragment, protocol.
            Self::V4 => ([t0, t2, t3, 0, 0, t9] == [b0, b2, b3, b6 & 0x3f, b7, b9], b1),
            // Version, length, next header; extension headers byte by byte.
            Self::V6 | Self::Grh => {
                let alike = [t0 >> 4, t4, t5, t6] == [b0 >> 4, b4, b5, b6];
                (alike && template.get(40..network_len)? == head.get(40..network_len)?, b0 << 4 | b1 >> 4)
            }
        };
        let udp = |head: &[u8]| {
            let &[_, _, port0, port1, len0, len1, _, _] = head.last_chunk()?;
            Some([port0, port1, len0, len1])
        };
        if !alike || (self.udp_len() != 0 && udp(template)? != udp(head)?) {
            return None;
        }
        let addresses_at = usize::from(self.len()).wrapping_sub(self.addresses_len());
        Some((TrafficClass(class), head.get(addresses_at..usize::from(self.len()))?))
    }

    const fn ethertype(self) -> u16 {
        match self {
            Self::V4 => super::IPV4,
            Self::V6 => super::IPV6,
            Self::Grh => super::ROCE_V1,
        }
    }
}

/// The route of a frame, borrowed from it: addresses and VLAN tags.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Route<'a> {
    pub(super) ethernet: Ethernet<'a>,
    pub(super) network: Network,
    /// Source and destination.
    pub(super) addresses: &'a [u8],
}

impl<'a> Route<'a> {
    /// The same route with other tags.
    #[inline]
    pub const fn with_tags(self, tags: Tags<'a>) -> Self {
        Self { ethernet: Ethernet { tags, ..self.ethernet }, ..self }
    }

    /// The route of a frame whose Ethernet header is laid out as this one's, without network addresses, and the bytes behind
    /// that header; `None` if the layout differs.
    #[inline]
    pub(super) fn like<'b>(&self, frame: &'b [u8]) -> Option<(Route<'b>, &'b [u8])> {
        let (macs, behind) = frame.split_first_chunk()?;
        let (words, _) = behind.as_chunks();
        let words: &[[u8; 4]] = words.get(..self.ethernet.tags.depth())?;
        let (ethertype, behind) = behind.get(words.as_flattened().len()..)?.split_first_chunk()?;
        let of_tag = |&[p0, p1, _, _]: &[u8; 4]| [p0, p1];
        let alike = words.iter().map(of_tag).eq(self.ethernet.tags.words().iter().map(of_tag));
        let alike = alike && *ethertype == self.network.ethertype().to_be_bytes();
        let ethernet = Ethernet { macs, tags: Tags::of_words(words) };
        alike.then_some((Route { ethernet, network: self.network, addresses: &[] }, behind))
    }

    /// Writes the headers of a frame in the reverse direction, up to the network header; `len` is the number of bytes after
    /// them.
    ///
    /// The network header has no options. IPv4 is sent with "don't fragment"; its identification, which then has no meaning
    /// (RFC 6864), is zero, and so is IPv6's flow label.
    pub(super) fn emit_back(
        &self,
        output: &mut Output<'_>,
        TrafficClass(class): TrafficClass,
        hop_limit: u8,
        protocol: u8,
        len: u16,
    ) {
        const DF: u32 = 0x4000;
        let Self { ethernet: Ethernet { macs, tags }, network, addresses } = *self;
        let (destination, source) = macs.split_at(6);
        output.put(source);
        output.put(destination);
        tags.emit(output);
        let (words, len) = match network {
            Network::V4 => {
                let first = u32::from_be_bytes([0x45, class, 0, 0]) | u32::from(len.wrapping_add(network.len()));
                let third = u32::from_be_bytes([hop_limit, protocol, 0, 0]);
                let fields = (first >> 16).wrapping_add(first & 0xffff).wrapping_add(DF).wrapping_add(third >> 16);
                ([first, DF, third | u32::from(!ipv4::sum(fields, addresses))], 3)
            }
            Network::V6 | Network::Grh => {
                let second = u32::from(len) << 16 | u32::from_be_bytes([0, 0, protocol, hop_limit]);
                ([6 << 28 | u32::from(class) << 20, second, 0], 2)
            }
        };
        output.put(&network.ethertype().to_be_bytes());
        output.words(words.get(..len).unwrap_or(&words));
        let (source, destination) = halves(addresses);
        output.put(destination);
        output.put(source);
    }
}

/// The addresses of a route, stored for frames to be sent later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoints {
    macs: [u8; 12],
    network: Network,
    /// Source and destination, as many bytes as the network's addresses have.
    addresses: [u8; 32],
}

impl Endpoints {
    /// Placeholder: zeros.
    pub const NONE: Self = Self { macs: [0; 12], network: Network::V4, addresses: [0; 32] };

    /// The addresses of this route.
    pub fn of(route: &Route<'_>) -> Self {
        let Route { ethernet, network, addresses } = *route;
        let mut ends = Self { macs: *ethernet.macs, network, ..Self::NONE };
        ends.addresses.iter_mut().zip(addresses).for_each(|(to, from)| *to = *from);
        ends
    }

    /// The addresses of a route whose responses go to this receiver.
    pub(super) fn back_to(receiver: Mac, sender: Mac, addresses: Addresses) -> Self {
        let mut ends = Self::NONE;
        let mut macs = Output::new(&mut ends.macs);
        macs.put(&sender.octets());
        macs.put(&receiver.octets());
        let mut both = Output::new(&mut ends.addresses);
        let mut set = |source: &[u8], destination: &[u8]| {
            both.put(destination);
            both.put(source);
        };
        ends.network = match addresses {
            Addresses::V4 { source, destination } => {
                set(&source.octets(), &destination.octets());
                Network::V4
            }
            Addresses::V6 { source, destination } => {
                set(&source.octets(), &destination.octets());
                Network::V6
            }
            Addresses::Gid { source, destination } => {
                set(&source.octets(), &destination.octets());
                Network::Grh
            }
        };
        ends
    }

    /// The route between them, without VLAN tags.
    #[inline]
    pub fn route(&self) -> Route<'_> {
        let Self { ref macs, network, ref addresses } = *self;
        let addresses = addresses.get(..network.addresses_len()).unwrap_or(addresses);
        Route { ethernet: Ethernet { macs, tags: Tags::NONE }, network, addresses }
    }
}

impl Addresses {
    /// The addresses in these bytes; zeros where they are too short.
    pub(super) fn of(network: Network, both: &[u8]) -> Self {
        let (source, destination) = halves(both);
        let four =
            |bytes: &[u8]| bytes.first_chunk().map_or(Ipv4Addr::UNSPECIFIED, |&octets| Ipv4Addr::from_octets(octets));
        let sixteen =
            |bytes: &[u8]| bytes.first_chunk().map_or(Ipv6Addr::UNSPECIFIED, |&octets| Ipv6Addr::from_octets(octets));
        match network {
            Network::V4 => Self::V4 { source: four(source), destination: four(destination) },
            Network::V6 => Self::V6 { source: sixteen(source), destination: sixteen(destination) },
            Network::Grh => Self::Gid { source: sixteen(source), destination: sixteen(destination) },
        }
    }
}

/// Splits source and destination, which are equally long.
#[inline]
pub(super) fn halves(both: &[u8]) -> (&[u8], &[u8]) {
    both.split_at_checked(both.len() >> 1).unwrap_or_default()
}
