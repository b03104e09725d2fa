//! The C interface of rnic-cc: one static library and one header, `include/rnic_cc.h`.
//!
//! Every algorithm has its own functions, `rnic_rp_NAME_…` at the sender and `rnic_np_NAME_…` at the receiver. Each is in its
//! own section, so that functions that a program does not call are not in its image. All memory is the caller's. A *port* holds
//! the state that its flows share, parameters and counters; a *flow* holds the algorithm's state of one flow.
//!
//! The header documents the contract of each function for C; this crate implements it. `hil check header` writes the header
//! from the registries of algorithms, so that names and sizes have one source.
#![doc = include_str!("../doca-pcc.md")]
#![cfg_attr(target_os = "none", no_std)]

pub mod np;
pub mod rp;
mod settings;
pub mod types;

pub use settings::Param;
pub use types::{Status, Text};

/// The version of the interface: major in the upper half, minor below. A program works with any library of the same major.
pub const VERSION: u32 = 2 << 16;

/// [`VERSION`], for C.
#[unsafe(no_mangle)]
pub extern "C" fn rnic_version() -> u32 {
    VERSION
}

/// The panic handler, which proves that the library cannot panic. It calls a symbol that does not exist, so a program does not
/// link if it contains a panic path, or keeps functions that it does not call, which this one is. The linker's message contains
/// the symbol's name, which says how to build and link instead.
#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn build_rnic_cc_with_profile_firmware_and_link_it_with_gc_sections() -> !;
    }
    // SAFETY: never runs; see above.
    unsafe { build_rnic_cc_with_profile_firmware_and_link_it_with_gc_sections() }
}
