//! Bounded tables: one refuses when it is full, one evicts, one gives its flows turns.

mod peer;
mod ring;
mod slot;

pub use peer::{PeerTable, Seen};
pub use ring::{Keyed, RingTable};
pub use slot::{BindError, Handle, SlotTable};

use crate::units::Qpn;

/// A position among 2^`bits` for a queue pair: the high bits of a multiplication by 2^32 over the golden ratio,
/// which spreads both consecutive numbers and equal strides.
#[inline]
const fn place(qpn: Qpn, bits: u32) -> usize {
    // Shifted in two steps so that zero bits give place zero.
    (qpn.get().wrapping_mul(0x9e37_79b1) >> 1).wrapping_shr(31u32.wrapping_sub(bits)) as usize
}

/// A reproducible sequence for tests: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
#[cfg(test)]
pub(crate) struct Random(pub(crate) u64);

#[cfg(test)]
impl Random {
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((((z ^ z >> 31) >> 32) * u64::from(bound)) >> 32) as u32
    }
}
