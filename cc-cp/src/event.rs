//! What can happen to a queue of a switch.

use cc_core::{Bytes, Ecn};

/// A packet leaves an egress queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Packet {
    /// Bytes on the wire.
    pub bytes: Bytes,
    /// Bytes in the queue, this packet included.
    pub queued: Bytes,
    /// Its ECN bits.
    pub ecn: Ecn,
}
