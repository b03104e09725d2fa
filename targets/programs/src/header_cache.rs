//! Headers for CNPs that are sent while no packet of the flow is being handled (DCQCN+). They are learnt from a packet of the
//! connection; a hardware NIC has them in the queue pair's context. They are kept here and not in the records of notification
//! points, because most algorithms do not need them.

use cc_core::table::{SetAssocTableIn, Storage};
use cc_core::wire::{CnpMarking, Endpoints, Response, Roce, Tags, Version};
use cc_core::{CnpBodyKind, Nanos, Qpn, Stamp, Zeroed};
use heapless::Vec;

/// The most VLAN tags that a connection may have.
const TAGS: usize = 4;

/// The header fields of a CNP on one connection: addresses, VLAN tags, partition key, and the remote queue pair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CnpHeaders {
    ends: Endpoints,
    tags: Vec<[u8; 4], TAGS, u8>,
    partition: u16,
    remote: Qpn,
}

impl Zeroed for CnpHeaders {
    const ZEROED: Self = Self::NONE;
}

impl CnpHeaders {
    const NONE: Self = Self { ends: Endpoints::NONE, tags: Vec::new(), partition: 0, remote: Qpn::new(0) };

    /// Whether there can be CNPs on the connection of a packet: not with RoCEv1, nor with more than four VLAN tags.
    pub fn is_for(packet: &Roce<'_>) -> bool {
        packet.version() == Version::V2 && packet.tags().depth() <= TAGS
    }

    /// The connection on which `packet` arrived from the queue pair `remote`, if it [is for](Self::is_for) such packets.
    pub fn of(packet: &Roce<'_>, remote: Qpn) -> Option<Self> {
        if !Self::is_for(packet) {
            return None;
        }
        let tags = Vec::from_slice(packet.tags().words()).ok()?;
        Some(Self { ends: Endpoints::of(&packet.route()), tags, partition: packet.bth.partition, remote })
    }

    /// The CNP with this body to the remote queue pair; equal to what [`Response::cnp`] makes from a packet.
    pub fn cnp(&self, body_kind: CnpBodyKind, marking: CnpMarking) -> Response<'_> {
        let tags = Tags::new(&self.tags).unwrap_or(Tags::NONE);
        Response::cnp_back(self.ends.route().with_tags(tags), self.partition, self.remote, body_kind, marking)
    }
}

/// The headers of CNPs to the remote queue pairs, by local queue pair, with least-recently-used eviction. With zero sets it
/// stores nothing and compiles to no code: for algorithms that send each CNP while they handle a packet of its flow.
pub struct HeaderCache<SETS: Storage, const WAYS: usize>(SetAssocTableIn<CnpHeaders, SETS, WAYS>);

impl<SETS: Storage, const WAYS: usize> Zeroed for HeaderCache<SETS, WAYS> {
    const ZEROED: Self = Self(SetAssocTableIn::new());
}

impl<SETS: Storage, const WAYS: usize> HeaderCache<SETS, WAYS> {
    const IS_NONE: bool = matches!(SETS::LEN, Some(0));

    /// Stores the headers for a local queue pair from a packet that arrived on it from the queue pair `remote`. Returns whether
    /// CNPs can be sent on this connection.
    pub fn learn(&mut self, now: Stamp, packet: &Roce<'_>, remote: Qpn) -> bool {
        if Self::IS_NONE {
            return CnpHeaders::is_for(packet);
        }
        let Some(headers) = CnpHeaders::of(packet, remote) else { return false };
        if let Some((known, _)) = self.0.lookup_or_insert(packet.bth.dest_qp, now, Nanos::MAX, |_| headers.clone()) {
            *known = headers;
        }
        true
    }

    /// Removes the headers of a local queue pair that was destroyed.
    pub fn remove(&mut self, local: Qpn) {
        if !Self::IS_NONE {
            self.0.remove(local, drop);
        }
    }

    /// The headers of CNPs for packets received on a local queue pair.
    #[inline]
    pub fn find(&self, local: Qpn) -> Option<&CnpHeaders> {
        self.0.get(local)
    }

    /// Makes room for `sets` sets, a power of two, if the memory is on the heap.
    pub fn grow(&mut self, sets: usize) {
        self.0.grow(sets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::table::Fixed;
    use cc_core::wire::{Addresses, Bth, Extensions, Frame, Mac, Shims, TableCrc, Tag, opcode};
    use cc_core::{CnpBody, Ecn};
    use core::net::{Ipv4Addr, Ipv6Addr};

    use std::vec::Vec;

    const V4: Addresses = Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, 1), destination: Ipv4Addr::new(10, 0, 0, 2) };
    const V6: Addresses = Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::UNSPECIFIED };
    const V1: Addresses = Addresses::Gid { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::UNSPECIFIED };

    fn data(addresses: Addresses, tags: &[[u8; 4]]) -> Vec<u8> {
        packet(addresses, tags, 5)
    }

    fn packet(addresses: Addresses, tags: &[[u8; 4]], local: u32) -> Vec<u8> {
        let frame = Frame {
            destination: Mac::new([2; 6]),
            source: Mac::new([4; 6]),
            tags: Tags::new(tags).unwrap(),
            addresses,
            dscp: 26,
            ecn: Ecn::Ce,
            hop_limit: 61,
            udp_source: 0xc123,
            shims: Shims::NONE,
            bth: Bth { opcode: opcode::SEND_MIDDLE, partition: 0x8123, dest_qp: Qpn::new(local), ..Bth::default() },
            extensions: Extensions::default(),
            payload: &[1, 2, 3],
        };
        frame.to_vec::<TableCrc>().unwrap()
    }

    #[test]
    fn a_cnp_from_cached_headers_equals_one_made_from_a_packet() {
        let tag = Tag { priority: 3, vid: 100, ..Tag::default() }.to_bytes();
        let body_kind = CnpBodyKind::Extended(CnpBody { seq: 7, ..CnpBody::default() });
        for addresses in [V4, V6] {
            for depth in 0..=TAGS {
                let data = data(addresses, &[tag; TAGS][..depth]);
                let connection = CnpHeaders::of(&Roce::of(&data).unwrap(), Qpn::new(9)).unwrap();
                let marking = CnpMarking { dscp: 10, priority: 5, ecn: Ecn::Ect0 };
                let with = Response::cnp(&Roce::of(&data).unwrap(), Qpn::new(9), body_kind, marking);
                let emitted = |cnp: Response<'_>| cnp.to_vec::<TableCrc>().unwrap();
                assert_eq!(emitted(connection.cnp(body_kind, marking)), emitted(with));
            }
        }
    }

    #[test]
    fn rocev1_and_more_than_four_vlan_tags_are_refused() {
        assert_eq!(CnpHeaders::of(&Roce::of(&data(V1, &[])).unwrap(), Qpn::new(9)), None);
        let tag = Tag::default().to_bytes();
        assert_eq!(CnpHeaders::of(&Roce::of(&data(V4, &[tag; TAGS + 1])).unwrap(), Qpn::new(9)), None);
    }

    #[test]
    fn the_cache_has_the_latest_headers_of_each_queue_pair_and_evicts_the_least_recently_used() {
        let mut cache = HeaderCache::<Fixed<1>, 2>::ZEROED;
        let at = |nanos| Stamp::from_bits(nanos);
        let to = |local, remote| {
            let packet = packet(V4, &[], local);
            CnpHeaders::of(&Roce::of(&packet).unwrap(), Qpn::new(remote)).unwrap()
        };
        let learn = |cache: &mut HeaderCache<Fixed<1>, 2>, now, local, remote| {
            assert!(cache.learn(at(now), &Roce::of(&packet(V4, &[], local)).unwrap(), Qpn::new(remote)));
        };
        learn(&mut cache, 0, 1, 10);
        learn(&mut cache, 1, 2, 20);
        learn(&mut cache, 2, 1, 11);
        assert_eq!(cache.find(Qpn::new(1)), Some(&to(1, 11)));
        learn(&mut cache, 3, 3, 30);
        assert_eq!(cache.find(Qpn::new(2)), None);
        cache.remove(Qpn::new(1));
        assert_eq!((cache.find(Qpn::new(1)), cache.find(Qpn::new(3))), (None, Some(&to(3, 30))));
        assert!(!cache.learn(at(4), &Roce::of(&data(V1, &[])).unwrap(), Qpn::new(9)));
    }

    #[test]
    fn a_cache_without_sets_reports_what_can_be_sent_and_stores_nothing() {
        let mut cache = HeaderCache::<Fixed<0>, 4>::ZEROED;
        assert!(cache.learn(Stamp::from_bits(0), &Roce::of(&data(V4, &[])).unwrap(), Qpn::new(9)));
        assert!(!cache.learn(Stamp::from_bits(0), &Roce::of(&data(V1, &[])).unwrap(), Qpn::new(9)));
        assert_eq!(cache.find(Qpn::new(5)), None);
    }
}
