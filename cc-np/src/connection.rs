//! Whom a CNP is for: what a queue pair's context knows and records do not hold.

use cc_core::table::PeerTable;
use cc_core::wire::{Addresses, Bth, CnpMarking, Extensions, Frame, Mac, Roce, Shims, Tags, Version, opcode};
use cc_core::{CnpHint, Nanos, Psn, Qpn, Stamp};

/// The most VLAN tags that a connection may have.
const TAGS: usize = 4;

/// The far end of a connection, as frames to it have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    destination: Mac,
    source: Mac,
    tags: [[u8; 4]; TAGS],
    tagged: u8,
    addresses: Addresses,
    partition: u16,
    remote: Qpn,
}

impl Connection {
    const NONE: Self = Self {
        destination: Mac::new([0; 6]),
        source: Mac::new([0; 6]),
        tags: [[0; 4]; TAGS],
        tagged: 0,
        addresses: Addresses::V4 {
            source: core::net::Ipv4Addr::UNSPECIFIED,
            destination: core::net::Ipv4Addr::UNSPECIFIED,
        },
        partition: 0,
        remote: Qpn::new(0),
    };

    /// Whether there can be CNPs on the connection of a packet: not with RoCEv1, nor with more than four VLAN tags.
    pub fn is_for(packet: &Roce<'_>) -> bool {
        packet.version() == Version::V2 && packet.tags().depth() <= TAGS
    }

    /// The connection on which `packet` arrived from the queue pair `remote`, if it [is for](Self::is_for) such packets.
    pub fn of(packet: &Roce<'_>, remote: Qpn) -> Option<Self> {
        if !Self::is_for(packet) {
            return None;
        }
        let (mut tags, mut tagged) = ([[0; 4]; TAGS], 0_u8);
        for (to, tag) in tags.iter_mut().zip(packet.tags().iter()) {
            *to = tag.to_bytes();
            tagged = tagged.wrapping_add(1);
        }
        Some(Self {
            destination: packet.source_mac(),
            source: packet.destination_mac(),
            tags,
            tagged,
            addresses: packet.addresses().reversed(),
            partition: packet.bth.partition,
            remote,
        })
    }

    /// The CNP to the far end that says this; the same as [`Frame::cnp`] makes for a packet in hand.
    pub fn cnp(&self, hint: CnpHint, marking: CnpMarking) -> Frame<'_> {
        let tags = self.tags.get(..usize::from(self.tagged)).and_then(Tags::new).unwrap_or(Tags::NONE);
        Frame {
            destination: self.destination,
            source: self.source,
            tags: tags.with_priority(marking.priority),
            addresses: self.addresses,
            dscp: marking.dscp,
            ecn: marking.ecn,
            hop_limit: 64,
            udp_source: 0,
            shims: Shims::NONE,
            bth: Bth {
                opcode: opcode::CNP,
                becn: true,
                partition: self.partition,
                dest_qp: self.remote,
                psn: Psn::new(0),
                ..Bth::default()
            },
            extensions: Extensions { cnp: hint, ..Extensions::default() },
            payload: &[],
        }
    }
}

/// What an engine's caller knows of the connections of a port.
///
/// A NIC whose queue pair contexts are elsewhere implements this for them.
pub trait Connections {
    /// Whether it keeps what it learns.
    const KEEPS: bool = true;

    /// Knows no connection.
    fn new() -> Self;

    /// Learns the far end of a local queue pair's connection, in place of what it knew of it.
    fn connect(&mut self, now: Stamp, local: Qpn, connection: Connection);

    /// The connection of a local queue pair is gone.
    fn disconnect(&mut self, local: Qpn);

    /// The far end of a local queue pair's connection.
    fn find(&self, local: Qpn) -> Option<&Connection>;
}

/// For machines that answer with a frame in hand only: nothing needs to be known.
impl Connections for () {
    const KEEPS: bool = false;

    fn new() -> Self {}

    fn connect(&mut self, _now: Stamp, _local: Qpn, _connection: Connection) {}

    fn disconnect(&mut self, _local: Qpn) {}

    fn find(&self, _local: Qpn) -> Option<&Connection> {
        None
    }
}

/// The connections of at most `SETS * WAYS` queue pairs; where there is no room, an older one gives way.
pub struct Directory<const SETS: usize, const WAYS: usize>(PeerTable<Connection, SETS, WAYS>);

impl<const SETS: usize, const WAYS: usize> Connections for Directory<SETS, WAYS> {
    fn new() -> Self {
        Self(PeerTable::new(Connection::NONE))
    }

    fn connect(&mut self, now: Stamp, local: Qpn, connection: Connection) {
        if let Some((known, _)) = self.0.touch(local, now, Nanos::MAX, |_| connection) {
            *known = connection;
        }
    }

    fn disconnect(&mut self, local: Qpn) {
        self.0.forget(local);
    }

    #[inline]
    fn find(&self, local: Qpn) -> Option<&Connection> {
        self.0.get(local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::wire::{self, Packet, TableCrc, Tag};
    use cc_core::{CnpBody, Ecn};
    use core::net::{Ipv4Addr, Ipv6Addr};
    use std::vec;
    use std::vec::Vec;

    const V4: Addresses = Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, 1), destination: Ipv4Addr::new(10, 0, 0, 2) };
    const V6: Addresses = Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::UNSPECIFIED };
    const V1: Addresses = Addresses::Gid { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::UNSPECIFIED };

    fn data(addresses: Addresses, tags: &[[u8; 4]]) -> Vec<u8> {
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
            bth: Bth { opcode: opcode::SEND_MIDDLE, partition: 0x8123, dest_qp: Qpn::new(5), ..Bth::default() },
            extensions: Extensions::default(),
            payload: &[1, 2, 3],
        };
        emitted(&frame)
    }

    fn emitted(frame: &Frame<'_>) -> Vec<u8> {
        let mut buffer = vec![0; 256];
        let len = frame.emit::<TableCrc>(&mut buffer).unwrap();
        buffer.truncate(len);
        buffer
    }

    fn roce(frame: &[u8]) -> Roce<'_> {
        match wire::parse(frame, frame.len()) {
            Ok(Packet::Roce(roce)) => roce,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_cnp_with_no_frame_in_hand_is_the_one_with_it() {
        let tag = Tag { priority: 3, vid: 100, ..Tag::default() }.to_bytes();
        let hint = CnpHint::Body(CnpBody { seq: 7, ..CnpBody::default() });
        for addresses in [V4, V6] {
            for depth in 0..=TAGS {
                let data = data(addresses, &[tag; TAGS][..depth]);
                let connection = Connection::of(&roce(&data), Qpn::new(9)).unwrap();
                let marking = CnpMarking { dscp: 10, priority: 5, ecn: Ecn::Ect0 };
                let with = Frame::cnp(&roce(&data), Qpn::new(9), hint, marking);
                assert_eq!(emitted(&connection.cnp(hint, marking)), emitted(&with));
            }
        }
    }

    #[test]
    fn rocev1_and_more_tags_than_there_is_room_for_are_refused() {
        assert_eq!(Connection::of(&roce(&data(V1, &[])), Qpn::new(9)), None);
        let tag = Tag::default().to_bytes();
        assert_eq!(Connection::of(&roce(&data(V4, &[tag; TAGS + 1])), Qpn::new(9)), None);
    }

    #[test]
    fn the_directory_knows_the_latest_of_each_and_forgets_the_oldest() {
        let mut directory = Directory::<1, 2>::new();
        let packet = data(V4, &[]);
        let to = |remote| Connection::of(&roce(&packet), Qpn::new(remote)).unwrap();
        let at = |nanos| Stamp::from_bits(nanos);
        directory.connect(at(0), Qpn::new(1), to(10));
        directory.connect(at(1), Qpn::new(2), to(20));
        directory.connect(at(2), Qpn::new(1), to(11));
        assert_eq!(directory.find(Qpn::new(1)), Some(&to(11)));
        directory.connect(at(3), Qpn::new(3), to(30));
        assert_eq!(directory.find(Qpn::new(2)), None);
        directory.disconnect(Qpn::new(1));
        assert_eq!((directory.find(Qpn::new(1)), directory.find(Qpn::new(3))), (None, Some(&to(30))));
    }
}
