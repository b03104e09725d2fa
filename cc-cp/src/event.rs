//! Events at the queues of a switch, and the packets and messages in them.

use crate::verdict::Verdict;
use cc_core::wire::opcode::Class;
use cc_core::wire::{FlowKey, RateMessage, Roce};
use cc_core::{Bytes, Ecn, Nanos};

/// A queue of a switch: a port, and one of its traffic classes (the priority of IEEE 802.1Q).
///
/// The same value identifies an ingress queue and an egress queue; which of them is meant depends on the event. A packet
/// arrives at, and is released from, the ingress queue of the port that received it; it joins, and departs from, the egress
/// queue of the port that sends it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Queue {
    /// The port.
    pub port: u16,
    /// The traffic class, 0 to 7.
    pub class: u8,
}

impl Queue {
    /// Traffic classes of a port.
    pub const CLASSES: usize = 8;

    /// The index of the queue in a switch: 8 times the port plus the class.
    #[inline]
    pub const fn index(self) -> usize {
        (self.port as usize) << 3 | (self.class & 7) as usize
    }

    /// The queue of this index.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "three bits; a switch has fewer than 65 536 ports")]
    pub const fn of(index: usize) -> Self {
        Self { port: (index >> 3) as u16, class: (index & 7) as u8 }
    }
}

/// A packet as a stage sees it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Bytes on the wire.
    pub bytes: Bytes,
    /// Its headers. `None` for a packet that is not RoCE, and where no stage of the switch reads headers
    /// ([`Stage::READS_HEADERS`](crate::Stage::READS_HEADERS)).
    pub roce: Option<&'a Roce<'a>>,
}

impl<'a> Packet<'a> {
    /// A packet whose headers no stage reads.
    #[inline]
    pub const fn of(bytes: Bytes) -> Self {
        Self { bytes, roce: None }
    }

    /// The packet with these headers.
    #[inline]
    pub const fn roce(roce: &'a Roce<'a>) -> Self {
        Self { bytes: roce.wire_len, roce: Some(roce) }
    }

    /// The flow of a RoCE packet, by its destination queue pair.
    #[inline]
    pub fn flow(&self) -> Option<FlowKey> {
        self.roce.map(FlowKey::of_data)
    }

    /// Whether it is a RoCE packet that carries data: neither an acknowledgement nor a CNP.
    #[inline]
    pub fn is_data(&self) -> bool {
        self.roce.is_some_and(|roce| !matches!(roce.info.class(), Class::Ack | Class::Cnp))
    }

    /// The flow of a packet that carries data.
    #[inline]
    pub fn data_flow(&self) -> Option<FlowKey> {
        if self.is_data() { self.flow() } else { None }
    }
}

/// Message from Swing's relay at the receiver's end of a long link to the relay at the sender's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RelayMessage {
    /// `true` pauses the sender's end, `false` resumes it.
    pub paused: bool,
    /// Sequence number of the message.
    pub seq: u16,
}

/// A message from the switch at the other end of a long link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum PeerMessage {
    /// LSCC: the rate at which the other end can receive.
    Rate(RateMessage),
    /// Swing: whether the other end is paused.
    Relay(RelayMessage),
}

/// An event at a queue of a switch.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A packet arrives at the port of this queue.
    Arrival {
        /// The packet.
        packet: Packet<'a>,
        /// Bytes in the switch that arrived at this queue, without this packet.
        queued: Bytes,
    },
    /// A packet that the switch has admitted joins the queue of the port by which it will leave.
    Enqueue {
        /// Its bytes on the wire.
        bytes: Bytes,
    },
    /// A packet that arrived at the port of this queue has left the switch.
    Release {
        /// Its bytes on the wire.
        bytes: Bytes,
        /// Bytes in the switch that arrived at this queue, this packet included.
        queued: Bytes,
    },
    /// A packet leaves through the port of this queue.
    Departure {
        /// The packet.
        packet: Packet<'a>,
        /// Its ECN bits, as it arrived. For a stage that rewrites packets only, they include the marks of the other stages.
        ecn: Ecn,
        /// Bytes in the queue, this packet included.
        queued: Bytes,
        /// Bytes in all queues of the port, this packet included.
        port_queued: Bytes,
    },
    /// The neighbour at this port pauses the queue by PFC, renews a pause, or resumes it. When the time of a pause has passed,
    /// the switch passes a resume to the stages.
    Pause {
        /// The time of the pause; zero resumes.
        time: Nanos,
        /// Bytes in the queue.
        queued: Bytes,
    },
    /// The switch at the other end of the long link at this port has sent a message.
    Peer(PeerMessage),
}

/// The kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// See [`Event::Arrival`].
    Arrival = 1,
    /// See [`Event::Departure`].
    Departure = 2,
    /// See [`Event::Pause`].
    Pause = 3,
    /// See [`Event::Peer`].
    Peer = 4,
    /// See [`Event::Release`].
    Release = 6,
    /// See [`Event::Enqueue`].
    Enqueue = 7,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 6] = [Self::Arrival, Self::Enqueue, Self::Release, Self::Departure, Self::Pause, Self::Peer];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Enqueue => "enqueue",
            Self::Departure => "departure",
            Self::Pause => "pause",
            Self::Peer => "peer",
            Self::Release => "release",
        }
    }
}

impl Event<'_> {
    /// Its kind.
    #[inline]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Arrival { .. } => Kind::Arrival,
            Self::Enqueue { .. } => Kind::Enqueue,
            Self::Release { .. } => Kind::Release,
            Self::Departure { .. } => Kind::Departure,
            Self::Pause { .. } => Kind::Pause,
            Self::Peer(_) => Kind::Peer,
        }
    }
}

/// A set of kinds of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kinds(u8);

impl Kinds {
    /// No kind.
    pub const NONE: Self = Self(0);

    /// These kinds.
    pub const fn of(kinds: &[Kind]) -> Self {
        let (mut bits, mut rest) = (0, kinds);
        while let [kind, others @ ..] = rest {
            bits |= 1 << *kind as u8;
            rest = others;
        }
        Self(bits)
    }

    /// The kinds of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the set contains this kind.
    pub const fn contains(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }
}

impl<'a> Event<'a> {
    /// The event for the stage that rewrites packets: the packet's ECN bits include the marks of the other stages.
    #[inline]
    pub(crate) fn marked(&self, verdict: Verdict) -> Self {
        match *self {
            Self::Departure { packet, ecn, queued, port_queued } => {
                Self::Departure { packet, ecn: verdict.apply(ecn), queued, port_queued }
            }
            event => event,
        }
    }
}
