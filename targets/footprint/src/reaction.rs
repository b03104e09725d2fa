//! The functions of reaction points: the sending half of a NIC, with the same code as in images.

use crate::board::{Device, Memory};
use crate::{Link, Sizes};
use cc_core::table::{Fixed, Handle};
use cc_core::wire::{self, Parsed};
use cc_core::{Bytes, Instant, Nanos, Psn, Qpn};
use cc_np::NotificationPoint;
use cc_np::echo::Echo;
use cc_rp::ReactionPoint;
use programs::{Nic, RxFields};

/// The sizes of a NIC that sends `FLOWS` flows. Its receiving half is not called and so not linked.
struct Room<const FLOWS: usize, const MAP: usize, const REMOTES: usize>;

impl<const FLOWS: usize, const MAP: usize, const REMOTES: usize> programs::Sizes for Room<FLOWS, MAP, REMOTES> {
    type Flows = Fixed<FLOWS>;
    type QpnMap = Fixed<MAP>;
    type Peers = Fixed<1>;
    type Remotes = Fixed<REMOTES>;
}

/// The NIC that is linked: 1,024 flows.
type Sender<A> = Nic<A, Echo, Room<1_024, 2_048, 256>>;

const fn sizes<A: ReactionPoint>() -> Sizes {
    Sizes {
        state: size_of::<A>() as u32,
        flow: Sender::<A>::QP_BYTES as u32,
        tables_1k: size_of::<Sender<A>>() as u32,
        tables_16k: size_of::<Nic<A, Echo, Room<16_384, 32_768, 4_096>>>() as u32,
        // One less than 65,536, because the last number means "no slot".
        tables_64k: size_of::<Nic<A, Echo, Room<65_535, 131_072, 16_384>>>() as u32,
    }
}

/// Metadata of a frame for a reaction point: time, bytes newly acknowledged, round-trip time.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct FrameFields {
    now: u64,
    acked: u32,
    rtt: u32,
}

#[inline(always)]
fn start<A: ReactionPoint>(nic: &mut Sender<A>, now: u64, link: Link) -> bool {
    let receiver = const { &<Echo as NotificationPoint>::PRESETS[0].values };
    nic.begin(Instant::from_nanos(now), link.port(), const { &A::PRESETS[0].values }, receiver).is_ok()
}

#[inline(always)]
fn frame<A: ReactionPoint>(nic: &mut Sender<A>, fields: FrameFields, bytes: &[u8]) {
    let now = Instant::from_nanos(fields.now);
    match wire::parse(bytes, bytes.len()) {
        Ok(Parsed::Roce(roce)) => {
            let meta =
                RxFields { acked: Bytes::new(fields.acked), rtt: Some(Nanos::new(fields.rtt)), ..RxFields::at(now) };
            nic.feedback(now, &roce, &meta, &mut Device);
        }
        Ok(Parsed::Pfc(pfc)) => nic.pause(now, &pfc),
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
                // SAFETY: each function drops its reference before it returns.
                super::start(unsafe { MEMORY.engine() }, now, link)
            }

            /// # Safety
            /// The engine has been started.
            #[unsafe(export_name = concat!("rp_", stringify!($module), "_open"))]
            unsafe extern "C" fn open(now: u64, priority: u8, qpn: u32) -> u32 {
                // SAFETY: the caller guarantees it.
                let nic = unsafe { MEMORY.engine() };
                let Some(handle) = nic.open(Instant::from_nanos(now), priority, &mut Device) else { return u32::MAX };
                if nic.bind(handle, Qpn::new(qpn)).is_ok() { handle.to_bits() } else { u32::MAX }
            }

            /// # Safety
            /// The engine has been started.
            #[unsafe(export_name = concat!("rp_", stringify!($module), "_close"))]
            unsafe extern "C" fn close(handle: u32) -> bool {
                // SAFETY: the caller guarantees it.
                unsafe { MEMORY.engine() }.close(Handle::from_bits(handle))
            }

            /// # Safety
            /// The engine has been started.
            #[unsafe(export_name = concat!("rp_", stringify!($module), "_sent"))]
            unsafe extern "C" fn sent(now: u64, handle: u32, psn: u32, bytes: u32) {
                let (now, handle) = (Instant::from_nanos(now), Handle::from_bits(handle));
                // SAFETY: the caller guarantees it.
                unsafe { MEMORY.engine() }.sent(now, handle, Psn::new(psn), Bytes::new(bytes), &mut Device);
            }

            /// # Safety
            /// The engine has been started, and `bytes` points to `length` bytes.
            #[unsafe(export_name = concat!("rp_", stringify!($module), "_frame"))]
            unsafe extern "C" fn frame(fields: FrameFields, bytes: *const u8, length: usize) {
                // SAFETY: the caller guarantees both.
                let (sender, bytes) = unsafe { (MEMORY.engine(), core::slice::from_raw_parts(bytes, length)) };
                super::frame(sender, fields, bytes);
            }

            /// # Safety
            /// The engine has been started.
            #[unsafe(export_name = concat!("rp_", stringify!($module), "_wake"))]
            unsafe extern "C" fn wake(now: u64) -> u32 {
                // SAFETY: the caller guarantees it.
                let nic = unsafe { MEMORY.engine() };
                nic.sender_timer(Instant::from_nanos(now), &mut Device);
                nic.rp().next_wake().get()
            }
        }
    )+ };
}

cc_rp::for_each_rp!(functions);
