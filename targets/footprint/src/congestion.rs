//! Congestion points: a stage on the queues of a switch.

use crate::board::{Device, Memory};
use crate::{Link, Sizes};
use cc_core::Instant;
use programs::descriptor::Descriptor;
use programs::switch::{Program, Switch};

/// The engine that is linked has 32 queues; a table of so many flows belongs to one queue, where the stage tells flows
/// apart, and otherwise it is one of so many queues.
const fn sizes<P: Program>() -> Sizes {
    let one = P::QUEUE_BYTES as u32;
    let (fixed, each) = if P::FLOW_BYTES == 0 { (0, one) } else { (one, P::FLOW_BYTES as u32) };
    Sizes {
        state: P::STATE_BYTES as u32,
        flow: each,
        tables_1k: fixed + each * 1_024,
        tables_16k: fixed + each * 16_384,
        tables_64k: fixed + each * 65_536,
    }
}

#[inline(always)]
fn start<P: Program>(switch: &mut Switch<P>, now: u64, link: Link) -> bool {
    switch.begin(Instant::from_nanos(now), &link.port(), const { &P::PRESETS[0].values }).is_ok()
}

macro_rules! functions {
    ($($name:ident => $module:ident :: $program:ident;)+) => { $(
        mod $name {
            use super::*;

            static MEMORY: Memory<Switch<programs::switch::$module::$program>> = Memory::new();

            #[unsafe(export_name = concat!("cp_", stringify!($name), "_sizes"))]
            static SIZES: Sizes = sizes::<programs::switch::$module::$program>();

            #[unsafe(export_name = concat!("cp_", stringify!($name), "_start"))]
            extern "C" fn start(now: u64, link: Link) -> bool {
                // SAFETY: each function gives its own reference back.
                super::start(unsafe { MEMORY.engine() }, now, link)
            }

            /// # Safety
            /// The engine has been started, the descriptor is one, and the frame is as long as that.
            #[unsafe(export_name = concat!("cp_", stringify!($name), "_frame"))]
            unsafe extern "C" fn frame(now: u64, descriptor: &Descriptor, bytes: *const u8, length: usize) {
                // SAFETY: it has been started, and the frame is as long as that.
                let (switch, bytes) = unsafe { (MEMORY.engine(), core::slice::from_raw_parts(bytes, length)) };
                switch.handle(Instant::from_nanos(now), descriptor, bytes, &mut Device);
            }

            /// # Safety
            /// The engine has been started.
            #[unsafe(export_name = concat!("cp_", stringify!($name), "_wake"))]
            unsafe extern "C" fn wake(now: u64) -> u64 {
                // SAFETY: it has been started.
                let switch = unsafe { MEMORY.engine() };
                switch.timer(Instant::from_nanos(now), &mut Device);
                switch.next_wake().nanos()
            }
        }
    )+ };
}

programs::for_each_stage!(functions);
