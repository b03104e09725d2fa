//! What can happen to a flow at its receiver.

use cc_core::{Bytes, Ecn, Psn};

/// A data packet of one flow arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Arrival {
    /// Its sequence number.
    pub psn: Psn,
    /// Bytes on the wire.
    pub bytes: Bytes,
    /// Its ECN bits.
    pub ecn: Ecn,
    /// It begins a message (opcode "first" or "only").
    pub first: bool,
    /// It ends a message (opcode "last" or "only").
    pub last: bool,
}
