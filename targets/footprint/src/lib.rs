//! Every role of every algorithm as a library of its own functions, for `hil footprint`, which measures their code and memory.
//!
//! The library has a handful of functions for each, `rp_NAME_…` at the sender, `np_NAME_…` at the receiver and `cp_NAME_…`
//! in the switch, which do with the role's engine all that firmware does: read a frame, pass it on, set the hardware.
//! A harness links those of one role and measures the sections of the result. The engine has 1,024 flows and lies in `.bss`;
//! how it grows stands in `XX_NAME_sizes`, five words as [`Sizes`] has them.
#![cfg_attr(target_os = "none", no_std)]

#[expect(unsafe_code, reason = "device registers and memory that functions share")]
mod board;
#[expect(unsafe_code, reason = "functions that a linker finds by name")]
mod congestion;
#[expect(unsafe_code, reason = "functions that a linker finds by name")]
mod notification;
#[expect(unsafe_code, reason = "functions that a linker finds by name")]
mod reaction;

use cc_core::{Bytes, Nanos, Rate};

/// Sizes of an engine, in bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Sizes {
    /// Bytes of the state of one flow, or queue.
    pub state: u32,
    /// Bytes that each further flow costs with all that belongs to it, or queue where there are no flows.
    pub flow: u32,
    /// Bytes of the whole engine with room for 1,024 flows, or queues.
    pub tables_1k: u32,
    /// With room for 16,384.
    pub tables_16k: u32,
    /// With room for 65,536, or as many as there can be.
    pub tables_64k: u32,
}

/// The port's link, as the driver sets it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Link {
    line_rate: u32,
    mtu: u32,
    base_rtt: u32,
}

impl Link {
    const fn port(self) -> cc_core::Link {
        cc_core::Link {
            line_rate: Rate::from_bits(self.line_rate),
            mtu: Bytes::new(self.mtu),
            base_rtt: Nanos::new(self.base_rtt),
        }
    }
}

/// Nothing here can panic: the handler calls a symbol that does not exist, so that code that contains a panic does not
/// link.
#[cfg(target_os = "none")]
#[expect(unsafe_code, reason = "a function that must not be called")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn this_role_can_panic() -> !;
    }
    // SAFETY: never runs; see above.
    unsafe { this_role_can_panic() }
}
