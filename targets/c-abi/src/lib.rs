//! The C interface of rnic-cc: one static library and one header, `include/rnic_cc.h`.
//!
//! Every algorithm has functions of its own, `rnic_rp_NAME_…` at the sender and `rnic_np_NAME_…` at the receiver, each
//! in its own section: what a program does not call is not in its image. All memory is the caller's. A *port* holds
//! what flows share, parameters and counters; a *flow* is what the algorithm remembers of one.
//!
//! The header has the contract of each function for C; this crate is what stands behind it. `hil check header` writes
//! the header from the registries of algorithms, so that neither names nor sizes are kept twice.
#![doc = include_str!("../doca-pcc.md")]
#![cfg_attr(target_os = "none", no_std)]

pub mod np;
pub mod rp;
mod settings;
pub mod types;

pub use settings::Param;
pub use types::{Status, Text};

/// The version of the interface: major in the upper half, minor below. Programs go on with the same major.
pub const VERSION: u32 = 2 << 16;

/// [`VERSION`], for C.
#[unsafe(no_mangle)]
pub extern "C" fn rnic_version() -> u32 {
    VERSION
}

/// Nothing here can panic: the symbol behind the handler does not exist, so that a library with a panic left in it does
/// not link.
#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn this_library_can_panic() -> !;
    }
    // SAFETY: never runs; see above.
    unsafe { this_library_can_panic() }
}
