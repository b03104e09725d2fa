//! Whom a CNP is for: what a queue pair's context knows and records do not hold.

use cc_core::table::{SetAssocTableIn, Storage};
use cc_core::wire::{CnpMarking, Endpoints, Response, Roce, Tags, Version};
use cc_core::{CnpBodyKind, Nanos, Qpn, Stamp, Zeroed};

/// The most VLAN tags that a connection may have.
const TAGS: usize = 4;

/// The far end of a connection, as frames to it have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    ends: Endpoints,
    tags: [[u8; 4]; TAGS],
    tagged: u8,
    partition: u16,
    remote: Qpn,
}

impl Zeroed for Connection {
    const ZEROED: Self = Self::NONE;
}

impl Connection {
    const NONE: Self =
        Self { ends: Endpoints::NONE, tags: [[0; 4]; TAGS], tagged: 0, partition: 0, remote: Qpn::new(0) };

    /// Whether there can be CNPs on the connection of a packet: not with RoCEv1, nor with more than four VLAN tags.
    pub fn is_for(packet: &Roce<'_>) -> bool {
        packet.version() == Version::V2 && packet.tags().depth() <= TAGS
    }

    /// The connection on which `packet` arrived from the queue pair `remote`, if it [is for](Self::is_for) such packets.
    pub fn of(packet: &Roce<'_>, remote: Qpn) -> Option<Self> {
        if !Self::is_for(packet) {
            return None;
        }
        let mut tags = [[0; 4]; TAGS];
        tags.iter_mut().zip(packet.tags().words()).for_each(|(to, from)| *to = *from);
        let tagged = u8::try_from(packet.tags().depth()).ok()?;
        Some(Self { ends: Endpoints::of(&packet.route()), tags, tagged, partition: packet.bth.partition, remote })
    }

    /// The CNP to the far end that says this; the same as [`Response::cnp`] makes for a packet in hand.
    pub fn cnp(&self, body_kind: CnpBodyKind, marking: CnpMarking) -> Response<'_> {
        let tags = self.tags.get(..usize::from(self.tagged)).and_then(Tags::new).unwrap_or(Tags::NONE);
        Response::cnp_back(self.ends.route().with_tags(tags), self.partition, self.remote, body_kind, marking)
    }
}

/// What an engine's caller knows of the connections of a port.
///
/// A NIC whose queue pair contexts are elsewhere implements this for them.
pub trait Connections {
    /// Whether it keeps what it learns.
    const KEEPS: bool = true;

    /// Knows no connection.
    const NONE: Self;

    /// Learns the far end of a local queue pair's connection, in place of what it knew of it.
    fn connect(&mut self, now: Stamp, local: Qpn, connection: Connection);

    /// The connection of a local queue pair is gone.
    fn disconnect(&mut self, local: Qpn);

    /// Makes room for `sets` sets of connections, a power of two, where the memory is on the heap.
    fn grow(&mut self, sets: usize) {
        let _ = sets;
    }

    /// The far end of a local queue pair's connection.
    fn find(&self, local: Qpn) -> Option<&Connection>;
}

/// For machines that answer with a frame in hand only: nothing needs to be known.
impl Connections for () {
    const KEEPS: bool = false;
    const NONE: Self = ();

    fn connect(&mut self, _now: Stamp, _local: Qpn, _connection: Connection) {}

    fn disconnect(&mut self, _local: Qpn) {}

    fn find(&self, _local: Qpn) -> Option<&Connection> {
        None
    }
}

/// The connections of at most `SETS * WAYS` queue pairs; where there is no room, an older one gives way.
pub struct Directory<SETS: Storage, const WAYS: usize>(SetAssocTableIn<Connection, SETS, WAYS>);

impl<SETS: Storage, const WAYS: usize> Connections for Directory<SETS, WAYS> {
    const NONE: Self = Self(SetAssocTableIn::new());

    fn connect(&mut self, now: Stamp, local: Qpn, connection: Connection) {
        if let Some((known, _)) = self.0.lookup_or_insert(local, now, Nanos::MAX, |_| connection) {
            *known = connection;
        }
    }

    fn disconnect(&mut self, local: Qpn) {
        self.0.remove(local, drop);
    }

    fn grow(&mut self, sets: usize) {
        self.0.grow(sets);
    }

    #[inline]
    fn find(&self, local: Qpn) -> Option<&Connection> {
        self.0.get(local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::table::Fixed;
    use cc_core::wire::{
        self, Addresses, Bth, EmitError, Extensions, Frame, Mac, Parsed, Shims, TableCrc, Tag, opcode,
    };
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
        emitted(|buffer| frame.emit::<TableCrc>(buffer))
    }

    fn emitted(emit: impl FnOnce(&mut [u8]) -> Result<usize, EmitError>) -> Vec<u8> {
        let mut buffer = vec![0; 256];
        let len = emit(&mut buffer).unwrap();
        buffer.truncate(len);
        buffer
    }

    fn roce(frame: &[u8]) -> Roce<'_> {
        match wire::parse(frame, frame.len()) {
            Ok(Parsed::Roce(roce)) => roce,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_cnp_with_no_frame_in_hand_is_the_one_with_it() {
        let tag = Tag { priority: 3, vid: 100, ..Tag::default() }.to_bytes();
        let body_kind = CnpBodyKind::Extended(CnpBody { seq: 7, ..CnpBody::default() });
        for addresses in [V4, V6] {
            for depth in 0..=TAGS {
                let data = data(addresses, &[tag; TAGS][..depth]);
                let connection = Connection::of(&roce(&data), Qpn::new(9)).unwrap();
                let marking = CnpMarking { dscp: 10, priority: 5, ecn: Ecn::Ect0 };
                let with = Response::cnp(&roce(&data), Qpn::new(9), body_kind, marking);
                let emitted = |cnp: Response<'_>| emitted(|buffer| cnp.emit::<TableCrc>(buffer));
                assert_eq!(emitted(connection.cnp(body_kind, marking)), emitted(with));
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
        let mut directory = Directory::<Fixed<1>, 2>::NONE;
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
