//! What can happen to a queue of a switch.

use cc_core::{Bytes, Ecn};

/// A packet in an egress queue.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Packet {
    /// Bytes on the wire.
    pub bytes: Bytes,
    /// Bytes in the queue, this packet included.
    pub queued: Bytes,
    /// Bytes in all queues of the port, this packet included.
    pub port_queued: Bytes,
    /// Its ECN bits.
    pub ecn: Ecn,
}

/// Something that happened to one egress queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Event {
    /// A packet leaves the queue.
    Dequeue(Packet),
    /// The node downstream paused the queue, or renewed a pause.
    Paused,
    /// The pause is over: the node downstream says so, or its time ran out.
    Resumed {
        /// Bytes in the queue.
        queued: Bytes,
    },
    /// Time passes. Every queue sees it at least once a second, so that 32-bit stamps in state can't go stale.
    Wake,
}
