//! The C functions of notification points, at the receiver.
//!
//! The caller finds the flow of a packet, owns the records and evicts them, and limits the CNP rate of the whole port. For
//! programs in Rust, the engine in `cc_np` does all of that.

use crate::settings::{self, Param};
use crate::types::{
    Arrival, CounterInfo, Flow, Link, Reply, Setting, Slot, Status, Text, opened, port_id, psn, put, qpn, ready,
    shared, status, usable,
};
use cc_core::clock::LocalClock;
use cc_core::wire::shim::MlccData;
use cc_core::{Bytes, Ecn, Grant, Instant, IntStack, Mark, Stamp};
use cc_np::{Cx, NotificationPoint};

/// State that the flows of a port share. C keeps it as bytes.
#[repr(C)]
pub struct NpPort<A: NotificationPoint> {
    /// [`NpPort::READY`] once the port is initialised.
    ready: u32,
    /// By which flows know the port, see [`port_id`].
    id: u32,
    counters: Counters,
    clock: LocalClock,
    link: cc_core::Link,
    shared: A::Shared,
    params: A::Params,
    settings: A::Settings,
}

/// Counters of a port, in the order of [`COUNTERS`]. The clock keeps its own.
#[derive(Clone, Copy, Default)]
struct Counters {
    marked: u64,
    notified: u64,
}

/// The counters of a port: name and meaning, by number.
pub const COUNTERS: [(&str, &str); 4] = [
    ("np_ecn_marked_roce_packets", "packets that arrived with a mark"),
    ("np_cnp_sent", "CNPs that went out"),
    ("np_clock_jumps_forward", "steps of the caller's clock forward by more than a second"),
    ("np_clock_reversals", "steps of the caller's clock back"),
];

/// Name and meaning of the counter `id` of all notification points, for C.
///
/// # Safety
/// Unless it is null or misaligned, `info` points to room for a `rnic_counter`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rnic_np_counter(id: u32, info: *mut CounterInfo) -> Status {
    let Some((name, text)) = COUNTERS.get(id as usize) else { return Status::UnknownId };
    // SAFETY: the caller guarantees the room.
    status(unsafe { put(info, CounterInfo { name: Text::new(name), text: Text::new(text) }) })
}

impl<A: NotificationPoint> NpPort<A> {
    /// First word of an initialised port: a hash of the algorithm's name. Ports of other algorithms have another one.
    const READY: u32 = crate::rp::letters(0x4e50, A::NAME);

    /// Initialises `port` with the settings of a preset.
    ///
    /// # Safety
    /// Unless null or misaligned, `port` points to `size` bytes and `link` to a link.
    unsafe fn init(port: *mut Self, size: usize, link: *const Link, preset: u32, now: u64) -> Result<(), Status> {
        // SAFETY: the caller guarantees it.
        let link: cc_core::Link = (*unsafe { shared(link) }?).into();
        if size < size_of::<Self>() {
            return Err(Status::TooSmall);
        }
        let preset = A::PRESETS.get(preset as usize).ok_or(Status::UnknownId)?;
        link.check().map_err(|error| settings::status_of(&error))?;
        let params = A::check(&preset.values, &link).map_err(|error| settings::status_of(&error))?;
        let made = Self {
            ready: Self::READY,
            id: port_id(port, Self::READY, now),
            counters: Counters::default(),
            clock: LocalClock::new(Instant::from_nanos(now)),
            link,
            shared: A::SHARED,
            params,
            settings: preset.values,
        };
        // SAFETY: there is room, as was just seen.
        unsafe { put(port, made) }
    }

    /// A port that `init` has made.
    ///
    /// # Safety
    /// Unless null or misaligned, `port` points to as many bytes as a port has, not accessed elsewhere during `'a`. If
    /// they begin with [`NpPort::READY`], they are what `init` made of them.
    #[inline(always)]
    unsafe fn ready<'a>(port: *mut Self) -> Result<&'a mut Self, Status> {
        // SAFETY: the caller guarantees it.
        unsafe { ready(port, Self::READY) }
    }

    /// Sets some parameters, or none.
    ///
    /// # Safety
    /// That of [`NpPort::ready`] and [`settings::changed`].
    unsafe fn set(port: *mut Self, list: *const Setting, count: usize, fault: *mut u32) -> Result<(), Status> {
        // SAFETY: the caller guarantees it.
        let port = unsafe { Self::ready(port) }?;
        let link = port.link;
        // SAFETY: the caller guarantees it.
        let changed = unsafe { settings::changed(port.settings, list, count, fault, |values| A::check(values, &link)) };
        (port.settings, port.params) = changed?;
        Ok(())
    }

    /// Reads a counter.
    fn count(&self, id: u32) -> Result<u64, Status> {
        Ok(match id {
            0 => self.counters.marked,
            1 => self.counters.notified,
            2 => self.clock.forward_jumps().into(),
            3 => self.clock.backward_jumps().into(),
            _ => return Err(Status::UnknownId),
        })
    }

    /// The context of an event at this time, the state that the flows share, and the counters.
    #[inline(always)]
    fn at(&mut self, now: u64) -> (Cx<'_, A::Params>, &mut A::Shared, &mut Counters) {
        let now = self.clock.advance(Instant::from_nanos(now));
        (Cx { now, link: &self.link, params: &self.params }, &mut self.shared, &mut self.counters)
    }

    /// Begins the record of a flow.
    ///
    /// # Safety
    /// That of [`NpPort::ready`]; unless null or misaligned, `flow` points to room.
    unsafe fn open(port: *mut Self, now: u64, local: u32, flow: *mut Flow<A>) -> Result<(), Status> {
        usable(flow)?;
        let local = qpn(local)?;
        // SAFETY: the caller guarantees it.
        let port = unsafe { Self::ready(port) }?;
        let (cx, shared, _) = port.at(now);
        let state = A::open(&cx, shared, Some(local));
        // SAFETY: the caller guarantees the room.
        unsafe { put(flow, Flow { state, port: port.id }) }
    }

    /// Handles one packet of one flow.
    ///
    /// # Safety
    /// That of [`NpPort::ready`]; unless null or misaligned, `flow` points to what `open` made and is not accessed elsewhere,
    /// `arrival` to an arrival, and `reply` to room.
    unsafe fn on(
        port: *mut Self,
        flow: *mut Flow<A>,
        arrival: *const Arrival,
        reply: *mut Reply,
    ) -> Result<(), Status> {
        // SAFETY: the caller guarantees all of them.
        let (port, arrival) = unsafe { (Self::ready(port)?, shared(arrival)?) };
        // SAFETY: the caller guarantees it.
        let flow = unsafe { opened(flow, port.id) }?;
        usable(reply)?;
        let (local, psn) = (qpn(arrival.local_qpn)?, psn(arrival.psn)?);
        let (cx, shared, counters) = port.at(arrival.now);
        let ecn = Ecn::from_bits(arrival.ecn);
        let mark = cc_np::mark_of(ecn, A::is_ternary(cx.params));
        counters.marked = counters.marked.wrapping_add((mark != Mark::None).into());
        let decided = if A::reacts_to(mark) || A::REPLIES {
            let mlcc = MlccData { credit: arrival.mlcc_credit, queue: Bytes::new(arrival.mlcc_queue) };
            let arrival = cc_np::Arrival {
                local,
                psn,
                bytes: Bytes::new(arrival.bytes),
                payload: Bytes::new(arrival.payload),
                ecn,
                mark,
                first: arrival.first != 0,
                last: arrival.last != 0,
                sent: (arrival.has_sent != 0).then_some(Stamp::from_bits(arrival.sent)),
                arrived: Instant::from_nanos(arrival.now).stamp(),
                // SAFETY: the caller guarantees the records.
                int: if A::TELEMETRY { unsafe { arrival.telemetry.stack() }? } else { IntStack::NONE },
                mlcc: (arrival.has_mlcc != 0).then_some(mlcc),
            };
            flow.on(&cx, shared, &arrival)
        } else {
            cc_np::Reply::default()
        };
        let mut written = Reply { echo: decided.echo as u8, ..Reply::default() };
        match decided.grant {
            Grant::None => {}
            Grant::Rcc { window, flows, utilisation } => {
                (written.grant_window, written.grant_flows) = (window.get(), flows);
                written.grant_utilisation = utilisation;
            }
            Grant::Mlcc { credit, release, advised_rate } => {
                (written.mlcc_release, written.mlcc_advised_rate) = (release.to_bits(), advised_rate.to_bits());
                written.mlcc_credit = credit;
            }
        }
        if let Some(body_kind) = decided.cnp {
            (written.cnp, written.cnp_body) = (1, body_kind.to_bytes());
        }
        // SAFETY: the caller guarantees the room.
        unsafe { put(reply, written) }
    }

    /// Runs `what` on a flow with the context of its port; no counter changes.
    ///
    /// # Safety
    /// That of [`NpPort::ready`]; unless null or misaligned, `flow` points to what `open` made and is not accessed elsewhere.
    unsafe fn with_flow(
        port: *mut Self,
        flow: *mut Flow<A>,
        now: u64,
        what: impl FnOnce(&mut A, &Cx<'_, A::Params>, &mut A::Shared),
    ) -> Result<(), Status> {
        // SAFETY: the caller guarantees both.
        let port = unsafe { Self::ready(port) }?;
        // SAFETY: the caller guarantees it.
        let flow = unsafe { opened(flow, port.id) }?;
        let (cx, shared, _) = port.at(now);
        what(flow, &cx, shared);
        Ok(())
    }

    /// Called when the CNP of the flow has been sent.
    ///
    /// # Safety
    /// That of [`NpPort::with_flow`].
    unsafe fn notified(port: *mut Self, flow: *mut Flow<A>, now: u64) -> Result<(), Status> {
        // SAFETY: the caller guarantees both, which are checked one after the other.
        unsafe {
            Self::with_flow(port, flow, now, |flow, cx, shared| flow.on_cnp_sent(cx, shared))?;
            let counters = &mut Self::ready(port)?.counters;
            counters.notified = counters.notified.wrapping_add(1);
        }
        Ok(())
    }

    /// Ends the record of a flow.
    ///
    /// # Safety
    /// That of [`NpPort::with_flow`].
    unsafe fn close(port: *mut Self, flow: *mut Flow<A>, now: u64) -> Result<(), Status> {
        // SAFETY: the caller guarantees both; the flow is an open one once the first line has returned.
        unsafe {
            Self::with_flow(port, flow, now, |flow, cx, shared| flow.on_evicted(cx, shared))?;
            (*flow).port = 0;
        }
        Ok(())
    }

    /// Runs the flow's slot.
    ///
    /// # Safety
    /// That of [`NpPort::with_flow`]; unless null or misaligned, `slot` points to room.
    unsafe fn slot(port: *mut Self, flow: *mut Flow<A>, now: u64, slot: *mut Slot) -> Result<(), Status> {
        usable(slot)?;
        let mut taken = Slot::default();
        // SAFETY: the caller guarantees all of them.
        unsafe {
            Self::with_flow(port, flow, now, |flow, cx, shared| match flow.slot(cx, shared) {
                cc_np::Slot::Skip => {}
                cc_np::Slot::Remove => taken.action = 1,
                cc_np::Slot::Notify { local, body_kind } => {
                    taken = Slot { action: 2, local_qpn: local.get(), cnp_body: body_kind.to_bytes() };
                }
            })?;
            put(slot, taken)
        }
    }
}

macro_rules! functions {
    ($($number:literal, $bytes:literal, $module:ident :: $machine:ident;)+) => {
        $(
            #[doc = concat!("The functions of `", stringify!($module), "`, with the header's contract.")]
            #[expect(clippy::missing_safety_doc, reason = "pointers are as the header says, for all functions alike")]
            pub mod $module {
                use super::*;

                type Machine = cc_np::$module::$machine;

                /// `init`, for C.
                #[unsafe(export_name = concat!("rnic_np_", stringify!($module), "_init"))]
                pub unsafe extern "C" fn init(
                    port: *mut NpPort<Machine>,
                    size: usize,
                    link: *const Link,
                    preset: u32,
                    now: u64,
                ) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { NpPort::init(port, size, link, preset, now) })
                }

                /// `param`, for C.
                #[unsafe(export_name = concat!("rnic_np_", stringify!($module), "_param"))]
                pub unsafe extern "C" fn param(id: u32, info: *mut Param) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { settings::describe(Machine::PRESETS, id, info) })
                }

                /// `get`, for C.
                #[unsafe(export_name = concat!("rnic_np_", stringify!($module), "_get"))]
                pub unsafe extern "C" fn get(port: *mut NpPort<Machine>, id: u32, value: *mut u32) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { NpPort::ready(port).and_then(|port| settings::get(&port.settings, id, value)) })
                }

                /// `set`, for C.
                #[unsafe(export_name = concat!("rnic_np_", stringify!($module), "_set"))]
                pub unsafe extern "C" fn set(
                    port: *mut NpPort<Machine>,
                    list: *const Setting,
                    count: usize,
                    fault: *mut u32,
                ) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { NpPort::set(port, list, count, fault) })
                }

                /// `open`, for C.
                #[unsafe(export_name = concat!("rnic_np_", stringify!($module), "_open"))]
                pub unsafe extern "C" fn open(
                    port: *mut NpPort<Machine>,
                    now: u64,
                    local_qpn: u32,
                    flow: *mut Flow<Machine>,
                ) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { NpPort::open(port, now, local_qpn, flow) })
                }

                /// `on`, for C.
                #[unsafe(export_name = concat!("rnic_np_", stringify!($module), "_on"))]
                pub unsafe extern "C" fn on(
                    port: *mut NpPort<Machine>,
                    flow: *mut Flow<Machine>,
                    arrival: *const Arrival,
                    reply: *mut Reply,
                ) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { NpPort::on(port, flow, arrival, reply) })
                }

                /// `notified`, for C.
                #[unsafe(export_name = concat!("rnic_np_", stringify!($module), "_on_cnp_sent"))]
                pub unsafe extern "C" fn notified(port: *mut NpPort<Machine>, flow: *mut Flow<Machine>, now: u64) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { NpPort::notified(port, flow, now) })
                }

                /// `acknowledged`, for C.
                #[unsafe(export_name = concat!("rnic_np_", stringify!($module), "_on_ack_sent"))]
                pub unsafe extern "C" fn acknowledged(
                    port: *mut NpPort<Machine>,
                    flow: *mut Flow<Machine>,
                    now: u64,
                ) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe {
                        NpPort::with_flow(port, flow, now, |flow, cx, shared| flow.on_ack_sent(cx, shared))
                    })
                }

                /// `slot`, for C.
                #[unsafe(export_name = concat!("rnic_np_", stringify!($module), "_slot"))]
                pub unsafe extern "C" fn slot(
                    port: *mut NpPort<Machine>,
                    flow: *mut Flow<Machine>,
                    now: u64,
                    slot: *mut Slot,
                ) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { NpPort::slot(port, flow, now, slot) })
                }

                /// `close`, for C.
                #[unsafe(export_name = concat!("rnic_np_", stringify!($module), "_close"))]
                pub unsafe extern "C" fn close(port: *mut NpPort<Machine>, flow: *mut Flow<Machine>, now: u64) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { NpPort::close(port, flow, now) })
                }

                /// `count`, for C.
                #[unsafe(export_name = concat!("rnic_np_", stringify!($module), "_count"))]
                pub unsafe extern "C" fn count(port: *mut NpPort<Machine>, id: u32, value: *mut u64) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { NpPort::ready(port).and_then(|port| put(value, port.count(id)?)) })
                }
            }
        )+
    };
}

cc_np::for_each_np!(functions);
