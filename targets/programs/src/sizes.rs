//! Sizes of a NIC's four tables: the storage and length of each.

use cc_core::table::{Fixed, Storage};

/// The lengths of a NIC's tables.
pub trait Sizes: 'static {
    /// Flows that the reaction point paces.
    type Flows: Storage;
    /// Places of the map from local queue pair numbers to these flows: a power of two, at least twice the number of flows.
    type QpnMap: Storage;
    /// Sets of four records each of received flows.
    type Peers: Storage;
    /// Sets of four entries each of flows by their remote queue pair number.
    type Remotes: Storage;
}

/// The NIC of the firmware: 1,024 flows sent, 512 received.
#[derive(Clone, Copy, Debug)]
pub struct Full;

impl Sizes for Full {
    type Flows = Fixed<1_024>;
    type QpnMap = Fixed<2_048>;
    type Peers = Fixed<128>;
    type Remotes = Fixed<256>;
}

/// A NIC that fits in 16 KiB of RAM with any algorithm: 32 flows sent, 32 received.
#[derive(Clone, Copy, Debug)]
pub struct Small;

impl Sizes for Small {
    type Flows = Fixed<32>;
    type QpnMap = Fixed<64>;
    type Peers = Fixed<8>;
    type Remotes = Fixed<8>;
}

/// A NIC with its tables on the heap: without room at first, until its owner calls [`Nic::grow`](crate::Nic::grow).
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug)]
pub struct OnHeap;

#[cfg(feature = "std")]
impl Sizes for OnHeap {
    type Flows = cc_core::table::Heap;
    type QpnMap = cc_core::table::Heap;
    type Peers = cc_core::table::Heap;
    type Remotes = cc_core::table::Heap;
}
