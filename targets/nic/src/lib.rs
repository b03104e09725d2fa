//! The NIC program without the hardware: what firmware and host run alike, and the layout they share.
#![no_std]
#![forbid(unsafe_code)]

pub mod descriptor;
pub mod layout;
pub mod nic;
