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

    /// The connection on which `packet` arrived from the queue pair `remote`. `None` for RoCEv1, which has no CNPs, and
    /// for more than four VLAN tags.
    pub fn of(packet: &Roce<'_>, remote: Qpn) -> Option<Self> {
        if packet.version() != Version::V2 {
            return None;
        }
        let (mut tags, mut tagged) = ([[0; 4]; TAGS], 0_u8);
        for tag in packet.tags().iter() {
            *tags.get_mut(usize::from(tagged))? = tag.to_bytes();
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
