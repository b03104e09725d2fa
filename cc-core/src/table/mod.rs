//! Bounded tables: one refuses when it is full, the other evicts.

mod peer;
mod slot;

pub use peer::{PeerTable, Seen};
pub use slot::{BindError, Handle, SlotTable};

use crate::units::Qpn;

/// A position among 2^`bits` for a queue pair: the high bits of a multiplication by 2^32 over the golden ratio,
/// which spreads both consecutive numbers and equal strides.
#[inline]
const fn place(qpn: Qpn, bits: u32) -> usize {
    // Shifted in two steps so that zero bits give place zero.
    (qpn.get().wrapping_mul(0x9e37_79b1) >> 1).wrapping_shr(31u32.wrapping_sub(bits)) as usize
}
