//! The C functions of reaction points, at the sender.

use crate::settings::{self, Param};
use crate::types::{
    Ack, CounterInfo, Decision, Event, Flow, Link, Moment, Setting, Status, Text, kind, opened, port_id, psn, put,
    ready, shared, status, usable,
};
use cc_core::clock::LocalClock;
use cc_core::{Bytes, CnpBodyKind, Delay, Grant, Instant, IntStack, Mark, Nanos, Rate};
use cc_rp::{CnpIgnored, Cx, EventSet, ReactionPoint, Signals, gate_event};

/// State that the flows of a port share. C keeps it as bytes.
#[repr(C)]
pub struct RpPort<A: ReactionPoint> {
    /// [`RpPort::READY`] once the port is initialised.
    ready: u32,
    /// By which flows know the port, see [`port_id`].
    id: u32,
    counters: Counters,
    clock: LocalClock,
    link: cc_core::Link,
    params: A::Params,
    settings: A::Settings,
    /// Flows send at line rate whatever the machine decides.
    is_off: bool,
}

/// Counters of a port, in the order of [`COUNTERS`]. The clock keeps its own.
#[derive(Clone, Copy, Default)]
struct Counters {
    handled: u64,
    stale: u64,
    unsupported: u64,
}

/// The counters of a port: name and meaning, by number.
pub const COUNTERS: [(&str, &str); 6] = [
    ("rp_cnp_handled", "CNPs that acted on a flow"),
    ("rp_cnp_ignored", "CNPs that did not: the sum of the next two"),
    ("rp_cnp_stale", "CNPs repeated, or overtaken by a later one, going by their number"),
    ("rp_cnp_unsupported", "CNPs of a kind that tells this algorithm nothing"),
    ("rp_clock_jumps_forward", "steps of the caller's clock forward by more than a second"),
    ("rp_clock_reversals", "steps of the caller's clock back"),
];

/// Name and meaning of the counter `id` of all reaction points, for C.
///
/// # Safety
/// Unless it is null or misaligned, `info` points to room for a `rnic_counter`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rnic_rp_counter(id: u32, info: *mut CounterInfo) -> Status {
    let Some((name, text)) = COUNTERS.get(id as usize) else { return Status::UnknownId };
    // SAFETY: the caller guarantees the room.
    status(unsafe { put(info, CounterInfo { name: Text::new(name), text: Text::new(text) }) })
}

impl<A: ReactionPoint> RpPort<A> {
    /// First word of an initialised port: a hash of the algorithm's name. Ports of other algorithms have another one.
    const READY: u32 = letters(0x5250, A::NAME);

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
        usable(port)?;
        let preset = A::PRESETS.get(preset as usize).ok_or(Status::UnknownId)?;
        link.check().map_err(|error| settings::status_of(&error))?;
        let params = A::check(&preset.values, &link).map_err(|error| settings::status_of(&error))?;
        let made = Self {
            ready: Self::READY,
            id: port_id(port, Self::READY, now),
            counters: Counters::default(),
            clock: LocalClock::new(Instant::from_nanos(now)),
            link,
            params,
            settings: preset.values,
            is_off: false,
        };
        // SAFETY: there is room, as was just seen.
        unsafe { put(port, made) }
    }

    /// A port that `init` has made.
    ///
    /// # Safety
    /// Unless null or misaligned, `port` points to as many bytes as a port has, not accessed elsewhere during `'a`. If
    /// they begin with [`RpPort::READY`], they are what `init` made of them.
    #[inline(always)]
    unsafe fn ready<'a>(port: *mut Self) -> Result<&'a mut Self, Status> {
        // SAFETY: the caller guarantees it.
        unsafe { ready(port, Self::READY) }
    }

    /// Sets some parameters, or none.
    ///
    /// # Safety
    /// That of [`RpPort::ready`] and [`settings::changed`].
    unsafe fn set(port: *mut Self, list: *const Setting, count: usize, fault: *mut u32) -> Result<(), Status> {
        // SAFETY: the caller guarantees it.
        let port = unsafe { Self::ready(port) }?;
        let link = port.link;
        // SAFETY: the caller guarantees it.
        let changed = unsafe { settings::changed(port.settings, list, count, fault, |values| A::check(values, &link)) };
        (port.settings, port.params) = changed?;
        Ok(())
    }

    /// Switches the reaction point on or off.
    ///
    /// # Safety
    /// That of [`RpPort::ready`].
    unsafe fn enable(port: *mut Self, on: u32) -> Result<(), Status> {
        // SAFETY: the caller guarantees it.
        unsafe { Self::ready(port) }?.is_off = on == 0;
        Ok(())
    }

    /// Reads a counter.
    fn count(&self, id: u32) -> Result<u64, Status> {
        let Counters { handled, stale, unsupported } = self.counters;
        Ok(match id {
            0 => handled,
            1 => stale.wrapping_add(unsupported),
            2 => stale,
            3 => unsupported,
            4 => self.clock.forward_jumps().into(),
            5 => self.clock.backward_jumps().into(),
            _ => return Err(Status::UnknownId),
        })
    }

    #[inline(always)]
    fn decide(&self, now: Instant, at: &Moment, flow: &mut A, event: &cc_rp::Event<'_>) -> Decision {
        let pause = Nanos::new(at.pause);
        let cx = Cx {
            now,
            link: &self.link,
            params: &self.params,
            pause,
            clock_without_pauses: at.clock_without_pauses(now),
        };
        let mut decision = flow.on(&cx, event);
        if self.is_off {
            decision = decision.unlimited(&self.link);
        }
        let cc_rp::Decision { rate, window, hold, wake_in } = decision;
        // `at.pause` is read a second time on purpose: keeping it across `on` would take a register from the machine.
        Decision { rate: rate.to_bits(), window: window.get(), hold: hold.get().max(at.pause), wake_in: wake_in.get() }
    }

    /// Begins a flow.
    ///
    /// # Safety
    /// That of [`RpPort::ready`]; unless null or misaligned, `at` points to a moment, `flow` and `decision` to room.
    unsafe fn open(
        port: *mut Self,
        at: *const Moment,
        flow: *mut Flow<A>,
        decision: *mut Decision,
    ) -> Result<(), Status> {
        // SAFETY: the caller guarantees all of them.
        let (port, at) = unsafe { (Self::ready(port)?, shared(at)?) };
        usable(flow)?;
        usable(decision)?;
        let now = port.clock.advance(Instant::from_nanos(at.now));
        let (pause, clock_without_pauses) = (Nanos::new(at.pause), at.clock_without_pauses(now));
        let mut state = A::open(&Cx { now, link: &port.link, params: &port.params, pause, clock_without_pauses });
        let decided = port.decide(now, at, &mut state, &cc_rp::Event::Wake);
        // SAFETY: the caller guarantees the room.
        unsafe {
            put(flow, Flow { state, port: port.id })?;
            put(decision, decided)
        }
    }

    /// Handles one event of one flow.
    ///
    /// # Safety
    /// That of [`RpPort::ready`]; unless null or misaligned, `flow` points to what `open` made and is not accessed elsewhere,
    /// `event` to an event with pointers that are null or good, and `decision` to room.
    #[inline(always)]
    unsafe fn on(
        port: *mut Self,
        flow: *mut Flow<A>,
        event: *const Event,
        decision: *mut Decision,
    ) -> Result<(), Status> {
        // SAFETY: the caller guarantees all of them.
        let (port, event) = unsafe { (Self::ready(port)?, shared(event)?) };
        // SAFETY: the caller guarantees it.
        let flow = unsafe { opened(flow, port.id) }?;
        usable(decision)?;
        // An event that the algorithm does not use is treated as a wake.
        let takes = |kind| A::EVENTS.contains(kind);
        // SAFETY: the kind says which part of the union was written; all of them are numbers, or guaranteed by the caller.
        let read = unsafe {
            match event.kind {
                kind::SENT if takes(EventSet::SENT) => {
                    let sent = event.of.sent;
                    cc_rp::Event::Sent { psn: psn(sent.psn)?, bytes: Bytes::new(sent.bytes) }
                }
                kind::ACK if takes(EventSet::ACK) => cc_rp::Event::Ack(acknowledgement::<A>(&event.of.ack)?),
                kind::NACK if takes(EventSet::NACK) => cc_rp::Event::Nack { psn: psn(event.of.nack_psn)? },
                kind::CNP => {
                    let body = event.of.cnp_body;
                    let body_kind =
                        if body.is_null() { CnpBodyKind::Standard } else { CnpBodyKind::from_bytes(&*body) };
                    port.counters.admitted(gate_event(flow, cc_rp::Event::Cnp { body_kind }))
                }
                kind::SWITCH_INT if takes(EventSet::SWITCH_INT) => {
                    let int = event.of.switch_int.stack()?;
                    port.counters.admitted(gate_event(flow, cc_rp::Event::SwitchInt { int }))
                }
                kind::SWITCH_INT => port.counters.admitted(Err(CnpIgnored::Unsupported)),
                kind::SENT..=kind::WAKE => cc_rp::Event::Wake,
                _ => return Err(Status::BadEvent),
            }
        };
        let now = port.clock.advance(Instant::from_nanos(event.at.now));
        let decided = port.decide(now, &event.at, flow, &read);
        // SAFETY: the caller guarantees the room.
        unsafe { put(decision, decided) }
    }
}

impl Counters {
    /// Counts a CNP or INT of a switch, and returns the event for the machine: a wake in place of an event that it does not
    /// use.
    #[inline(always)]
    fn admitted<'a>(&mut self, admitted: Result<cc_rp::Event<'a>, CnpIgnored>) -> cc_rp::Event<'a> {
        let (event, counter) = match admitted {
            Ok(event) => (event, &mut self.handled),
            Err(CnpIgnored::Stale) => (cc_rp::Event::Wake, &mut self.stale),
            Err(_) => (cc_rp::Event::Wake, &mut self.unsupported),
        };
        *counter = counter.wrapping_add(1);
        event
    }
}

/// FNV-1 hash of a name, from the given seed.
pub(crate) const fn letters(seed: u32, name: &str) -> u32 {
    let (mut mixed, mut rest) = (seed, name.as_bytes());
    while let [letter, others @ ..] = rest {
        mixed = mixed.wrapping_mul(0x0100_0193) ^ *letter as u32;
        rest = others;
    }
    mixed
}

/// An acknowledgement as the algorithm's event, with the fields that the algorithm uses.
///
/// # Safety
/// Its pointer is null or valid for the number of records given.
#[inline(always)]
unsafe fn acknowledgement<A: ReactionPoint>(ack: &Ack) -> Result<cc_rp::Ack<'_>, Status> {
    let mark = match ack.mark {
        0 => Mark::None,
        1 => Mark::Undetermined,
        2 => Mark::Congested,
        _ => return Err(Status::BadEvent),
    };
    let delay = Delay {
        rtt: Nanos::new(ack.rtt),
        receiver_hold: Nanos::new(ack.receiver_hold),
        hops: ack.hops,
        rx_buffer_level: ack.rx_buffer_level,
    };
    let grant = match (ack.mlcc_credit, ack.grant_flows) {
        (0, 0) => Grant::None,
        (0, flows) => Grant::Rcc { window: Bytes::new(ack.grant_window), flows, utilisation: ack.grant_utilisation },
        (credit, _) => Grant::Mlcc {
            credit,
            release: Rate::from_bits(ack.mlcc_release),
            advised_rate: Rate::from_bits(ack.mlcc_advised_rate),
        },
    };
    // SAFETY: the caller guarantees the records.
    let int = if A::SIGNALS.contains(Signals::INT) { unsafe { ack.telemetry.stack() }? } else { IntStack::NONE };
    Ok(cc_rp::Ack {
        psn: psn(ack.psn)?,
        acked: Bytes::new(ack.acked),
        mark,
        delay: (ack.rtt != 0).then_some(delay),
        int,
        grant,
    })
}

macro_rules! functions {
    ($($number:literal, $bytes:literal, $module:ident :: $machine:ident;)+) => {
        $(
            #[doc = concat!("The functions of `", stringify!($module), "`, with the header's contract.")]
            #[expect(clippy::missing_safety_doc, reason = "pointers are as the header says, for all functions alike")]
            pub mod $module {
                use super::*;

                type Machine = cc_rp::$module::$machine;

                /// `init`, for C.
                #[unsafe(export_name = concat!("rnic_rp_", stringify!($module), "_init"))]
                pub unsafe extern "C" fn init(
                    port: *mut RpPort<Machine>,
                    size: usize,
                    link: *const Link,
                    preset: u32,
                    now: u64,
                ) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { RpPort::init(port, size, link, preset, now) })
                }

                /// `param`, for C.
                #[unsafe(export_name = concat!("rnic_rp_", stringify!($module), "_param"))]
                pub unsafe extern "C" fn param(id: u32, info: *mut Param) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { settings::describe(Machine::PRESETS, id, info) })
                }

                /// `get`, for C.
                #[unsafe(export_name = concat!("rnic_rp_", stringify!($module), "_get"))]
                pub unsafe extern "C" fn get(port: *mut RpPort<Machine>, id: u32, value: *mut u32) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { RpPort::ready(port).and_then(|port| settings::get(&port.settings, id, value)) })
                }

                /// `set`, for C.
                #[unsafe(export_name = concat!("rnic_rp_", stringify!($module), "_set"))]
                pub unsafe extern "C" fn set(
                    port: *mut RpPort<Machine>,
                    list: *const Setting,
                    count: usize,
                    fault: *mut u32,
                ) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { RpPort::set(port, list, count, fault) })
                }

                /// `enable`, for C.
                #[unsafe(export_name = concat!("rnic_rp_", stringify!($module), "_enable"))]
                pub unsafe extern "C" fn enable(port: *mut RpPort<Machine>, on: u32) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { RpPort::enable(port, on) })
                }

                /// `open`, for C.
                #[unsafe(export_name = concat!("rnic_rp_", stringify!($module), "_open"))]
                pub unsafe extern "C" fn open(
                    port: *mut RpPort<Machine>,
                    at: *const Moment,
                    flow: *mut Flow<Machine>,
                    decision: *mut Decision,
                ) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { RpPort::open(port, at, flow, decision) })
                }

                /// `on`, for C.
                #[unsafe(export_name = concat!("rnic_rp_", stringify!($module), "_on"))]
                pub unsafe extern "C" fn on(
                    port: *mut RpPort<Machine>,
                    flow: *mut Flow<Machine>,
                    event: *const Event,
                    decision: *mut Decision,
                ) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { RpPort::on(port, flow, event, decision) })
                }

                /// `count`, for C.
                #[unsafe(export_name = concat!("rnic_rp_", stringify!($module), "_count"))]
                pub unsafe extern "C" fn count(port: *mut RpPort<Machine>, id: u32, value: *mut u64) -> Status {
                    // SAFETY: the header requires the same of the caller.
                    status(unsafe { RpPort::ready(port).and_then(|port| put(value, port.count(id)?)) })
                }
            }
        )+
    };
}

cc_rp::for_each_rp!(functions);
