//! A library with separate functions for every role of every algorithm. `hil footprint` measures their code and memory.
//!
//! For each role there are a few functions, `rp_NAME_…` at the sender, `np_NAME_…` at the receiver and `cp_NAME_…` in the
//! switch. They do with the role's engine everything that firmware does: read a frame, pass it to the engine, set the hardware.
//! A harness links the functions of one role and measures the sections of the result. The engine has 1,024 flows and is in
//! `.bss`; its sizes are in `XX_NAME_sizes`, the five words of [`Sizes`].
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
    /// Bytes of the state of one flow, or of one queue.
    pub state: u32,
    /// Bytes that each further flow adds in all tables; each further queue, if there is no state per flow.
    pub flow: u32,
    /// Bytes of the whole engine with room for 1,024 flows, or queues.
    pub tables_1k: u32,
    /// Bytes with room for 16,384.
    pub tables_16k: u32,
    /// Bytes with room for 65,536, or the most that the engine supports.
    pub tables_64k: u32,
}

/// The port's link, which the driver sets.
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

/// The panic handler, which proves that no role can panic: it calls a symbol that does not exist, so code with a panic path
/// does not link.
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
