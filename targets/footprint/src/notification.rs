//! The functions of notification points: the receiver's engine, with the headers of its CNPs and the code that builds its
//! frames.

use crate::board::{Device, Memory};
use crate::{Link, Sizes};
use cc_core::table::Fixed;
use cc_core::wire::{self, Parsed, TableCrc};
use cc_core::{Instant, Qpn, Zeroed};
use cc_np::{Flows, NotificationPoint, NpEngine, RxMeta};
use programs::{FrameOut, HeaderCacheOf};

/// An engine with room for `4 * SETS` flows.
struct Receiver<A: NotificationPoint, const SETS: usize> {
    engine: NpEngine<A, SETS, 4>,
    headers: HeaderCacheOf<A, Fixed<SETS>>,
}

impl<A: NotificationPoint, const SETS: usize> Zeroed for Receiver<A, SETS> {
    const ZEROED: Self = Self { engine: NpEngine::ZEROED, headers: Zeroed::ZEROED };
}

/// The engine that is linked: 1,024 flows.
type Linked<A> = Receiver<A, 256>;

const fn sizes<A: NotificationPoint>() -> Sizes {
    let tables = (size_of::<Linked<A>>(), size_of::<Receiver<A, 4_096>>(), size_of::<Receiver<A, 16_384>>());
    let flows = <A::Flows<Fixed<16_384>, 4> as Flows<A>>::ROOM - <A::Flows<Fixed<256>, 4> as Flows<A>>::ROOM;
    Sizes {
        state: size_of::<A>() as u32,
        flow: if flows == 0 { 0 } else { (tables.2 - tables.0).div_ceil(flows) as u32 },
        tables_1k: tables.0 as u32,
        tables_16k: tables.1 as u32,
        tables_64k: tables.2 as u32,
    }
}

#[inline(always)]
fn start<A: NotificationPoint>(receiver: &mut Linked<A>, now: u64, link: Link) -> bool {
    let params = A::check(const { &A::PRESETS[0].values }, &link.port());
    let Ok(params) = params else { return false };
    receiver.engine.begin(Instant::from_nanos(now), link.port(), params);
    true
}

#[inline(always)]
fn frame<A: NotificationPoint>(receiver: &mut Linked<A>, now: u64, bytes: &[u8], remote: u32, msn: u32) {
    let now = Instant::from_nanos(now);
    if let Ok(Parsed::Roce(roce)) = wire::parse(bytes, bytes.len()) {
        let rx = RxMeta { msn: Some(msn), ..RxMeta::new(now.stamp(), Some(Qpn::new(remote))) };
        let mut device = Device;
        let mut out = FrameOut::<_, _, TableCrc>::new(&mut device, &receiver.headers);
        receiver.engine.arrival(now, &roce, rx, &mut out);
    }
}

#[inline(always)]
fn connect<A: NotificationPoint>(receiver: &mut Linked<A>, now: u64, bytes: &[u8], remote: u32) {
    if let Ok(Parsed::Roce(roce)) = wire::parse(bytes, bytes.len()) {
        receiver.headers.learn(Instant::from_nanos(now).stamp(), &roce, Qpn::new(remote));
    }
}

macro_rules! functions {
    ($($number:literal, $bytes:literal, $module:ident :: $machine:ident;)+) => { $(
        mod $module {
            use super::*;

            static MEMORY: Memory<Linked<cc_np::$module::$machine>> = Memory::new();

            #[unsafe(export_name = concat!("np_", stringify!($module), "_sizes"))]
            static SIZES: Sizes = sizes::<cc_np::$module::$machine>();

            #[unsafe(export_name = concat!("np_", stringify!($module), "_start"))]
            extern "C" fn start(now: u64, link: Link) -> bool {
                // SAFETY: each function drops its reference before it returns.
                super::start(unsafe { MEMORY.engine() }, now, link)
            }

            /// # Safety
            /// The engine has been started, and `bytes` points to `length` bytes.
            #[unsafe(export_name = concat!("np_", stringify!($module), "_connect"))]
            unsafe extern "C" fn connect(now: u64, bytes: *const u8, length: usize, remote: u32) {
                // SAFETY: the caller guarantees both.
                let (receiver, bytes) = unsafe { (MEMORY.engine(), core::slice::from_raw_parts(bytes, length)) };
                super::connect(receiver, now, bytes, remote);
            }

            /// # Safety
            /// The engine has been started.
            #[unsafe(export_name = concat!("np_", stringify!($module), "_forget"))]
            unsafe extern "C" fn forget(qpn: u32) {
                // SAFETY: the caller guarantees it.
                let receiver = unsafe { MEMORY.engine() };
                receiver.engine.forget(Qpn::new(qpn));
                receiver.headers.remove(Qpn::new(qpn));
            }

            /// # Safety
            /// The engine has been started, and `bytes` points to `length` bytes.
            #[unsafe(export_name = concat!("np_", stringify!($module), "_frame"))]
            unsafe extern "C" fn frame(now: u64, bytes: *const u8, length: usize, remote: u32, msn: u32) {
                // SAFETY: the caller guarantees both.
                let (receiver, bytes) = unsafe { (MEMORY.engine(), core::slice::from_raw_parts(bytes, length)) };
                super::frame(receiver, now, bytes, remote, msn);
            }

            /// # Safety
            /// The engine has been started.
            #[unsafe(export_name = concat!("np_", stringify!($module), "_wake"))]
            unsafe extern "C" fn wake(now: u64) -> u32 {
                // SAFETY: the caller guarantees it.
                let Receiver { engine, headers } = unsafe { MEMORY.engine() };
                let mut device = Device;
                let mut out = FrameOut::<_, _, TableCrc>::new(&mut device, headers);
                engine.wake(Instant::from_nanos(now), &mut out);
                engine.next_wake().get()
            }
        }
    )+ };
}

cc_np::for_each_np!(functions);
