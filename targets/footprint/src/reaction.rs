//! Reaction points: the sender's engine.

use crate::board::{Device, Memory};
use crate::{Link, Sizes};
use cc_core::table::Handle;
use cc_core::wire::pfc::Quantum;
use cc_core::wire::{self, Parsed};
use cc_core::{Bytes, Instant, Nanos, Psn, Qpn, Zeroed};
use cc_rp::{AckProgress, ReactionPoint, RpEngine};

/// An engine of the size that is linked.
type Engine<A> = RpEngine<A, 1_024, 2_048>;

const fn sizes<A: ReactionPoint>() -> Sizes {
    Sizes {
        state: size_of::<A>() as u32,
        flow: Engine::<A>::QP_BYTES as u32,
        tables_1k: size_of::<Engine<A>>() as u32,
        tables_16k: size_of::<RpEngine<A, 16_384, 32_768>>() as u32,
        // One less than 65,536: that number is no slot's.
        tables_64k: size_of::<RpEngine<A, 65_535, 131_072>>() as u32,
    }
}

/// An engine, and how long a pause lasts on its port.
struct Sender<A: ReactionPoint> {
    engine: Engine<A>,
    quantum: Quantum,
}

impl<A: ReactionPoint> Zeroed for Sender<A> {
    const ZEROED: Self = Self { engine: Engine::ZEROED, quantum: Quantum::ZEROED };
}

/// What a reaction point is told beside frames.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Told {
    now: u64,
    acked: u32,
    rtt: u32,
}

#[inline(always)]
fn start<A: ReactionPoint>(Sender { engine, quantum }: &mut Sender<A>, now: u64, link: Link) -> bool {
    *quantum = Quantum::at(link.port().line_rate);
    engine.begin(Instant::from_nanos(now), link.port(), const { &A::PRESETS[0].values }).is_ok()
}

#[inline(always)]
fn frame<A: ReactionPoint>(Sender { engine, quantum }: &mut Sender<A>, told: Told, bytes: &[u8]) {
    let now = Instant::from_nanos(told.now);
    match wire::parse(bytes, bytes.len()) {
        Ok(Parsed::Roce(roce)) => {
            let progress = AckProgress { acked: Bytes::new(told.acked), rtt: Some(Nanos::new(told.rtt)) };
            engine.frame(now, &roce, progress, &mut Device);
        }
        Ok(Parsed::Pfc(pfc)) => (0..8).for_each(|priority| {
            if let Some(quanta) = pfc.time(priority) {
                engine.pause(now, priority, quantum.pause(quanta));
            }
        }),
        Ok(Parsed::NotRoce(_)) | Err(_) => {}
    }
}

macro_rules! functions {
    ($($number:literal, $bytes:literal, $module:ident :: $machine:ident;)+) => { $(
        mod $module {
            use super::*;

            static MEMORY: Memory<Sender<cc_rp::$module::$machine>> = Memory::new();

            #[unsafe(export_name = concat!("rp_", stringify!($module), "_sizes"))]
            static SIZES: Sizes = sizes::<cc_rp::$module::$machine>();

            #[unsafe(export_name = concat!("rp_", stringify!($module), "_start"))]
            extern "C" fn start(now: u64, link: Link) -> bool {
                // SAFETY: each function gives its own reference back.
                super::start(unsafe { MEMORY.engine() }, now, link)
            }

            /// # Safety
            /// The engine has been started.
            #[unsafe(export_name = concat!("rp_", stringify!($module), "_open"))]
            unsafe extern "C" fn open(now: u64, priority: u8, qpn: u32) -> u32 {
                // SAFETY: it has been started.
                let Sender { engine, .. } = unsafe { MEMORY.engine() };
                let Some(handle) = engine.open(Instant::from_nanos(now), priority, &mut Device) else { return u32::MAX };
                if engine.bind(handle, Qpn::new(qpn)).is_ok() { handle.to_bits() } else { u32::MAX }
            }

            /// # Safety
            /// The engine has been started.
            #[unsafe(export_name = concat!("rp_", stringify!($module), "_close"))]
            unsafe extern "C" fn close(handle: u32) -> bool {
                // SAFETY: it has been started.
                unsafe { MEMORY.engine() }.engine.close(Handle::from_bits(handle))
            }

            /// # Safety
            /// The engine has been started.
            #[unsafe(export_name = concat!("rp_", stringify!($module), "_sent"))]
            unsafe extern "C" fn sent(now: u64, handle: u32, psn: u32, bytes: u32) {
                let (now, handle) = (Instant::from_nanos(now), Handle::from_bits(handle));
                // SAFETY: it has been started.
                unsafe { MEMORY.engine() }.engine.sent(now, handle, Psn::new(psn), Bytes::new(bytes), &mut Device);
            }

            /// # Safety
            /// The engine has been started, and the frame is as long as that.
            #[unsafe(export_name = concat!("rp_", stringify!($module), "_frame"))]
            unsafe extern "C" fn frame(told: Told, bytes: *const u8, length: usize) {
                // SAFETY: it has been started, and the frame is as long as that.
                let (sender, bytes) = unsafe { (MEMORY.engine(), core::slice::from_raw_parts(bytes, length)) };
                super::frame(sender, told, bytes);
            }

            /// # Safety
            /// The engine has been started.
            #[unsafe(export_name = concat!("rp_", stringify!($module), "_wake"))]
            unsafe extern "C" fn wake(now: u64) -> u32 {
                // SAFETY: it has been started.
                let Sender { engine, .. } = unsafe { MEMORY.engine() };
                engine.wake(Instant::from_nanos(now), &mut Device);
                engine.next_wake().get()
            }
        }
    )+ };
}

cc_rp::for_each_rp!(functions);
