//! The functions of congestion points: a stage on the queues of a switch.

use crate::board::{Device, Memory};
use crate::{Link, Sizes};
use cc_core::Instant;
use cc_cp::{OnQueues, Stage, Switch};
use programs::descriptor::Descriptor;
use programs::switch_ring::{Queues, SwitchProgram};

type Program<S> = SwitchProgram<<S as OnQueues>::Stage<Queues>, Queues>;

/// Sizes of a stage; its image has 32 queues. For a stage with state per flow, 1,024, 16,384 and 65,536 are numbers of flows of
/// one queue; for any other stage, numbers of queues.
const fn sizes<G: Stage>() -> Sizes {
    let one = (G::SIZES.queue + Switch::<G, Queues>::QUEUE_BYTES) as u32;
    let (fixed, each) = if G::SIZES.flow == 0 { (0, one) } else { (one, G::SIZES.flow as u32) };
    Sizes {
        state: G::SIZES.state as u32,
        flow: each,
        tables_1k: fixed + each * 1_024,
        tables_16k: fixed + each * 16_384,
        tables_64k: fixed + each * 65_536,
    }
}

#[inline(always)]
fn start<G: Stage>(switch: &mut SwitchProgram<G, Queues>, now: u64, link: Link) -> bool {
    switch.begin(Instant::from_nanos(now), &link.port(), &G::DEFAULT, 1).is_ok()
}

macro_rules! functions {
    ($($number:literal, $bytes:literal, $name:ident => $first:ident $(:: $rest:ident)+;)+) => { $(
        mod $name {
            use super::*;

            static MEMORY: Memory<Program<cc_cp::$first $(:: $rest)+>> = Memory::new();

            #[unsafe(export_name = concat!("cp_", stringify!($name), "_sizes"))]
            static SIZES: Sizes = sizes::<<cc_cp::$first $(:: $rest)+ as OnQueues>::Stage<Queues>>();

            #[unsafe(export_name = concat!("cp_", stringify!($name), "_start"))]
            extern "C" fn start(now: u64, link: Link) -> bool {
                // SAFETY: each function drops its reference before it returns.
                super::start(unsafe { MEMORY.engine() }, now, link)
            }

            /// # Safety
            /// The engine has been started, and `bytes` points to `length` bytes.
            #[unsafe(export_name = concat!("cp_", stringify!($name), "_frame"))]
            unsafe extern "C" fn frame(now: u64, descriptor: &Descriptor, bytes: *const u8, length: usize) {
                // SAFETY: the caller guarantees both.
                let (switch, bytes) = unsafe { (MEMORY.engine(), core::slice::from_raw_parts(bytes, length)) };
                switch.handle(Instant::from_nanos(now), descriptor, bytes, &mut Device);
            }

            /// # Safety
            /// The engine has been started.
            #[unsafe(export_name = concat!("cp_", stringify!($name), "_wake"))]
            unsafe extern "C" fn wake(now: u64) -> u64 {
                // SAFETY: the caller guarantees it.
                let switch = unsafe { MEMORY.engine() };
                switch.timer(Instant::from_nanos(now), &mut Device);
                switch.next_wake().nanos()
            }
        }
    )+ };
}

cc_cp::for_each_cp!(functions);
