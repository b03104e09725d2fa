//! The NIC program without the hardware: what firmware and host run alike, and the layout they share.
#![no_std]
#![forbid(unsafe_code)]

pub mod descriptor;
pub mod layout;
mod nic;

pub use nic::{EventKind, FullNic, Hardware, NO_FLOW, Nic, PEER_SETS, PEER_WAYS, QPN_MAP, QPS};
