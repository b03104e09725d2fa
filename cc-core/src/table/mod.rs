//! Bounded tables: one refuses new flows when full, one evicts, one visits its flows round-robin. Each keeps its elements in
//! [`Storage`].

mod round_robin;
mod set_assoc;
mod slot;
mod storage;

pub use round_robin::{Keyed, RoundRobinTable, RoundRobinTableIn};
pub use set_assoc::{EntrySnapshot, Lookup, SetAssocTable, SetAssocTableIn, SetAssocTableSnapshot};
pub use slot::{BindError, Handle, SlotTable, SlotTableIn};
#[cfg(any(test, feature = "std"))]
pub use storage::Heap;
pub use storage::{Array, Fixed, List, Storage};

use crate::units::Qpn;

/// The place of a queue pair number in a table of 2^`bits` places: the high bits of its product with 2^32 over the golden ratio
/// (Fibonacci hashing), which spreads consecutive numbers and numbers at equal strides.
#[inline]
const fn place(qpn: Qpn, bits: u32) -> usize {
    // Shifted in two steps so that zero bits give place zero.
    (qpn.get().wrapping_mul(0x9e37_79b1) >> 1).wrapping_shr(31u32.wrapping_sub(bits)) as usize
}
