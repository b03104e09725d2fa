//! The reaction point of one port: a table of flows, their timers, and the machine that decides their rates. It reads the
//! headers of received packets, and writes no frame.

use crate::cnp_gate::{CnpFlow, gate, gate_event};
use crate::{Ack, AckProgress, CnpIgnored, Cx, Decision, Event, EventSet, ReactionPoint, Signals, TraceValue};
use cc_core::clock::LocalClock;
use cc_core::hops::Unmeasured;
use cc_core::pacer::Pacer;
use cc_core::params::ParamError;
use cc_core::table::{BindError, Fixed, Handle, SlotTableIn, Storage};
use cc_core::timer_wheel::TimerWheelIn;
use cc_core::wire::shim::{Rcc, Time};
use cc_core::wire::{MAX_HOPS, Roce};
use cc_core::{
    Bytes, CnpBodyKind, Delay, Grant, Instant, IntStack, Link, Mark, Nanos, Psn, Qpn, Rate, Stamp, State, Zeroed,
};
use core::hint::cold_path;

/// The part of the hardware that paces packets.
pub trait RateLimiter {
    /// From now on the flow in slot `index` sends at most at `rate`, with at most `window` bytes in flight
    /// ([`Bytes::MAX`] for any number), and not at all for the next `hold`, which replaces an earlier hold.
    ///
    /// Called after every decision, changed or not: on a small core the stores take no longer than a comparison.
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos);

    /// Whether the reaction point of this PFC priority is on. Where it is off, the engine sets line rate and no window, whatever
    /// the machine decides, at each flow's next event or visit, at most 250 ms after a change. The machines go on, and CNPs
    /// count as handled, so that switching on continues at the rates that the network calls for. The default is on, at no cost.
    #[inline(always)]
    fn is_enabled(&self, priority: u8) -> bool {
        let _ = priority;
        true
    }

    /// For harnesses: called before the machine takes an event. `transition` returns the row of
    /// [`ReactionPoint::TRANSITIONS`] for this state and event. The default does not call it, so that firmware computes no row.
    #[inline(always)]
    fn on_transition(&mut self, transition: impl FnOnce() -> usize) {
        let _ = transition;
    }
}

/// The decision that followed one event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FlowDecision {
    /// The flow.
    pub handle: Handle,
    /// How it is paced from now on; the rate limiter was set to it before.
    pub decision: Decision,
}

/// Counters of one port's reaction point.
///
/// Every CNP is handled or ignored, and every ignored one is in exactly one of the four reasons:
/// `rp_cnp_ignored = rp_cnp_unknown_qp + rp_cnp_by_remote_qp + rp_cnp_stale + rp_cnp_unsupported`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RpCounters {
    /// CNPs that acted on a flow.
    pub rp_cnp_handled: u64,
    /// CNPs received and not acted on.
    pub rp_cnp_ignored: u64,
    /// Of these: for a queue pair number that no flow is bound to.
    pub rp_cnp_unknown_qp: u64,
    /// Of these: the CNP names its flow by the remote queue pair number, and the caller found no open flow by it.
    pub rp_cnp_by_remote_qp: u64,
    /// Of these: repeated, or overtaken by a later one, as their numbers show.
    pub rp_cnp_stale: u64,
    /// Of these: of a kind that this algorithm does not use.
    pub rp_cnp_unsupported: u64,
    /// Acknowledgements, of an algorithm that takes them, for a queue pair number that no flow is bound to.
    pub rp_ack_unknown_qp: u64,
    /// Time stamps in acknowledgements that gave no round-trip time: zero, or 2^30 ns or more ago.
    pub rp_delays_rejected: u64,
    /// Packets whose telemetry was only stored, as the first of a flow or the first after a gap. No fault. This counter and the
    /// nine that follow are zero where the algorithm uses no telemetry; a packet adds one to each of them whose reason holds.
    /// See [`Unmeasured`].
    pub rp_baselines: u64,
    /// Packets without telemetry.
    pub rp_int_missing: u64,
    /// Acknowledgements older than one that was used, or of what was not sent.
    pub rp_int_misordered: u64,
    /// Telemetry of packets that met more hops than they had room for.
    pub rp_int_overflowed: u64,
    /// Telemetry of more hops than a flow's state has room for.
    pub rp_int_too_many_hops: u64,
    /// Telemetry of another path than that of the packet before.
    pub rp_int_path_changed: u64,
    /// Telemetry with a hop whose clock advanced by less than 16 ns since the stored record.
    pub rp_int_too_soon: u64,
    /// Telemetry with a hop whose clock ran backwards, or advanced by more than the longest gap between acknowledgements.
    pub rp_int_clock: u64,
    /// Telemetry with a hop of speed 0.
    pub rp_int_link_down: u64,
    /// Telemetry with a hop whose byte counter grew by more than its link can carry, or may have wrapped.
    pub rp_int_bytes: u64,
    /// Flows refused because the table was full.
    pub rp_flows_refused: u64,
    /// Events for a flow that has been closed.
    pub rp_handles_stale: u64,
    /// Steps of the caller's clock forward by more than a second.
    pub rp_clock_jumps_forward: u64,
    /// Steps of the caller's clock back.
    pub rp_clock_reversals: u64,
}

impl RpCounters {
    const NONE: Self = Self {
        rp_cnp_handled: 0,
        rp_cnp_ignored: 0,
        rp_cnp_unknown_qp: 0,
        rp_cnp_by_remote_qp: 0,
        rp_cnp_stale: 0,
        rp_cnp_unsupported: 0,
        rp_ack_unknown_qp: 0,
        rp_delays_rejected: 0,
        rp_baselines: 0,
        rp_int_missing: 0,
        rp_int_misordered: 0,
        rp_int_overflowed: 0,
        rp_int_too_many_hops: 0,
        rp_int_path_changed: 0,
        rp_int_too_soon: 0,
        rp_int_clock: 0,
        rp_int_link_down: 0,
        rp_int_bytes: 0,
        rp_flows_refused: 0,
        rp_handles_stale: 0,
        rp_clock_jumps_forward: 0,
        rp_clock_reversals: 0,
    };

    /// The counters with their names.
    pub const fn named(&self) -> [(&'static str, u64); 22] {
        [
            ("rp_cnp_handled", self.rp_cnp_handled),
            ("rp_cnp_ignored", self.rp_cnp_ignored),
            ("rp_cnp_unknown_qp", self.rp_cnp_unknown_qp),
            ("rp_cnp_by_remote_qp", self.rp_cnp_by_remote_qp),
            ("rp_cnp_stale", self.rp_cnp_stale),
            ("rp_cnp_unsupported", self.rp_cnp_unsupported),
            ("rp_ack_unknown_qp", self.rp_ack_unknown_qp),
            ("rp_delays_rejected", self.rp_delays_rejected),
            ("rp_baselines", self.rp_baselines),
            ("rp_int_missing", self.rp_int_missing),
            ("rp_int_misordered", self.rp_int_misordered),
            ("rp_int_overflowed", self.rp_int_overflowed),
            ("rp_int_too_many_hops", self.rp_int_too_many_hops),
            ("rp_int_path_changed", self.rp_int_path_changed),
            ("rp_int_too_soon", self.rp_int_too_soon),
            ("rp_int_clock", self.rp_int_clock),
            ("rp_int_link_down", self.rp_int_link_down),
            ("rp_int_bytes", self.rp_int_bytes),
            ("rp_flows_refused", self.rp_flows_refused),
            ("rp_handles_stale", self.rp_handles_stale),
            ("rp_clock_jumps_forward", self.rp_clock_jumps_forward),
            ("rp_clock_reversals", self.rp_clock_reversals),
        ]
    }
}

#[inline]
fn count(counter: &mut u64) {
    *counter = counter.wrapping_add(1);
}

/// [`count`], not inlined: for rare events.
#[cold]
#[inline(never)]
fn count_rare(counter: &mut u64) {
    count(counter);
}

/// A flow as stored in the slot table. In addition a flow needs a table entry and a timer, see [`RpEngineIn::QP_BYTES`].
#[derive(Clone, Copy)]
struct Flow<A> {
    state: A,
    pacer: Pacer,
    /// PFC priority, 0 to 7.
    priority: u8,
}

/// The PFC pauses of the eight priorities.
#[derive(Clone, Copy)]
struct Pauses {
    /// A bit for each priority that may be paused.
    mask: u8,
    of: [Pause; 8],
}

/// The pauses of one priority.
#[derive(Clone, Copy)]
struct Pause {
    /// When the present pause began, or was last renewed.
    since: Stamp,
    /// When it ends unless it is renewed.
    until: Stamp,
    /// Total length of all pauses before it, in nanoseconds modulo 2^32.
    before: u32,
}

impl Pause {
    /// Total time paused up to `now`, of a priority that is paused or whose pause has just run out.
    #[inline]
    fn so_far(&self, now: Stamp) -> u32 {
        let end = if self.until.is_due(now) { self.until } else { now };
        self.before.wrapping_add(end.since(self.since).get())
    }
}

impl Pauses {
    /// No priority is paused or has been.
    const NONE: Self = {
        let never = Stamp::from_bits(0);
        Self { mask: 0, of: [Pause { since: never, until: never, before: 0 }; 8] }
    };

    /// How much longer the priority is paused.
    #[inline]
    fn left(&self, now: Stamp, priority: u8) -> Nanos {
        if self.mask == 0 { Nanos::ZERO } else { self.left_of(now, priority) }
    }

    #[cold]
    fn left_of(&self, now: Stamp, priority: u8) -> Nanos {
        match self.of.get(usize::from(priority & 7)) {
            Some(pause) if self.mask & bit(priority) != 0 && !pause.until.is_due(now) => pause.until.since(now),
            _ => Nanos::ZERO,
        }
    }

    /// The time on a clock that stands still while the priority is paused.
    #[inline]
    fn clock_without_pauses(&self, now: Stamp, priority: u8) -> Stamp {
        let Some(pause) = self.of.get(usize::from(priority)) else { return now };
        let paused = if self.mask & bit(priority) == 0 { pause.before } else { pause.so_far(now) };
        Stamp::from_bits(now.to_bits().wrapping_sub(paused))
    }

    /// Begins, renews or, with a `time` of zero, ends the pause of a priority.
    fn set(&mut self, now: Stamp, priority: u8, time: Nanos) {
        // For all priorities, not only this one: a caller may pass only pauses for a while, and a pause starts no sweep.
        self.expire(now);
        let Some(pause) = self.of.get_mut(usize::from(priority)) else { return };
        if self.mask & bit(priority) != 0 {
            pause.before = pause.so_far(now);
        }
        (pause.since, pause.until) = (now, now.after(time));
        if time == Nanos::ZERO {
            self.mask &= !bit(priority);
        } else {
            self.mask |= bit(priority);
        }
    }

    /// Ends the pauses that ran out, before their 32-bit stamps become ambiguous.
    #[inline(never)]
    fn expire(&mut self, now: Stamp) {
        let (mut paused, mut priority) = (u32::from(self.mask), 0);
        while paused != 0 {
            if paused & 1 != 0
                && let Some(pause) = self.of.get_mut(usize::from(priority))
                && pause.until.is_due(now)
            {
                pause.before = pause.so_far(now);
                self.mask &= !bit(priority);
            }
            (paused, priority) = (paused >> 1, priority.wrapping_add(1));
        }
    }
}

#[inline]
const fn bit(priority: u8) -> u8 {
    1 << (priority & 7)
}

/// An [`RpEngineIn`] with at most `N` flows, all inside it; `MAP` is a power of two and at least `2 N`.
pub type RpEngine<A, const N: usize, const MAP: usize> = RpEngineIn<A, Fixed<N>, Fixed<MAP>>;

/// The reaction point of one port: a table of `N` flows, with a map of `MAP` places from queue pair numbers to flows.
///
/// Time: the caller calls at least once a second, see [`RpEngineIn::next_wake`], and passes its own clock; see [`LocalClock`]
/// for what happens if that jumps. Each call of [`RpEngineIn::wake`] visits a few slots if time has passed since the last, so
/// that each is visited at least once a second. That keeps the 32-bit stamps in state unambiguous. Where the caller passes
/// events but does not call [`RpEngineIn::wake`], the first event that reaches a machine 300 ms or more after the last visit
/// visits all slots; an event that is ignored visits none.
///
/// Order: a decision is passed to the rate limiter first; pacer, timer and sweep follow.
// The small fields come first, where short offsets reach them.
#[repr(C)]
pub struct RpEngineIn<A: ReactionPoint, N: Storage, MAP: Storage> {
    shared: Shared<A>,
    wakes: TimerWheelIn<N>,
    flows: SlotTableIn<Flow<A>, N, MAP>,
}

impl<A: ReactionPoint, N: Storage, MAP: Storage> Zeroed for RpEngineIn<A, N, MAP> {
    const ZEROED: Self = Self {
        shared: Shared {
            clock: LocalClock::new(Instant::ZEROED),
            pauses: Pauses::NONE,
            swept_until: Stamp::ZEROED,
            sweep_slot: 0,
            swept_at_once: false,
            link: Link::ZEROED,
            counters: RpCounters::NONE,
            params: A::Params::ZEROED,
        },
        flows: Zeroed::ZEROED,
        wakes: Zeroed::ZEROED,
    };
}

/// What the flows of a port share.
#[repr(C)]
struct Shared<A: ReactionPoint> {
    clock: LocalClock,
    pauses: Pauses,
    /// The time up to which slots were visited, and the slot that comes next.
    swept_until: Stamp,
    sweep_slot: u16,
    /// All slots were visited at that time, rather than one after the other before it.
    swept_at_once: bool,
    link: Link,
    counters: RpCounters,
    params: A::Params,
}

impl<A: ReactionPoint> Shared<A> {
    /// Passes the event to the machine, and the machine's decision to the rate limiter and then to the pacer.
    #[inline(always)]
    fn decide(
        &mut self,
        now: Instant,
        handle: Handle,
        flow: &mut Flow<A>,
        event: &Event<'_>,
        limiter: &mut impl RateLimiter,
    ) -> Decision {
        let pause = self.pauses.left(now.stamp(), flow.priority);
        let clock_without_pauses = self.pauses.clock_without_pauses(now.stamp(), flow.priority);
        let cx = Cx { now, link: &self.link, params: &self.params, pause, clock_without_pauses };
        limiter.on_transition(|| flow.state.transition(&cx, event));
        let mut decision = flow.state.on(&cx, event);
        if !limiter.is_enabled(flow.priority) {
            decision = decision.unlimited(&self.link);
        }
        // Read again rather than kept across `on`: keeping it would take a register in machines that do not use `pause`.
        decision.hold = decision.hold.max(self.pauses.left(now.stamp(), flow.priority));
        limiter.set(handle.index(), decision.rate, decision.window, decision.hold);
        flow.pacer.set(decision.rate, decision.window);
        let kind = event.kind();
        if kind.meets(EventSet::ACK.with(EventSet::SWITCH_INT)) && flow.state.unmeasured(kind) != Unmeasured::NONE {
            self.counters.count_unmeasured(flow.state.unmeasured(kind));
        }
        decision
    }
}

impl RpCounters {
    /// Counts telemetry that was not measured, by its reasons.
    #[cold]
    #[inline(never)]
    fn count_unmeasured(&mut self, why: Unmeasured) {
        for (reason, counter) in [
            (Unmeasured::BASELINE, &mut self.rp_baselines),
            (Unmeasured::MISSING, &mut self.rp_int_missing),
            (Unmeasured::MISORDERED, &mut self.rp_int_misordered),
            (Unmeasured::OVERFLOWED, &mut self.rp_int_overflowed),
            (Unmeasured::TOO_MANY_HOPS, &mut self.rp_int_too_many_hops),
            (Unmeasured::PATH_CHANGED, &mut self.rp_int_path_changed),
            (Unmeasured::TOO_SOON, &mut self.rp_int_too_soon),
            (Unmeasured::CLOCK, &mut self.rp_int_clock),
            (Unmeasured::LINK_DOWN, &mut self.rp_int_link_down),
            (Unmeasured::BYTES, &mut self.rp_int_bytes),
        ] {
            if why.meets(reason) {
                count(counter);
            }
        }
    }

    /// Counts a notification that was not acted on, by its reason.
    #[cold]
    #[inline(never)]
    fn count_ignored(&mut self, why: CnpIgnored) {
        count(match why {
            CnpIgnored::UnknownQp => &mut self.rp_cnp_unknown_qp,
            CnpIgnored::RemoteQpUnknown => &mut self.rp_cnp_by_remote_qp,
            CnpIgnored::Stale => &mut self.rp_cnp_stale,
            CnpIgnored::Unsupported => &mut self.rp_cnp_unsupported,
        });
    }
}

impl<A: ReactionPoint, N: Storage, MAP: Storage> RpEngineIn<A, N, MAP> {
    /// Bytes of memory for each further flow: its slot, its timer, and its part of the map.
    pub const QP_BYTES: usize = SlotTableIn::<Flow<A>, N, MAP>::FLOW_BYTES + TimerWheelIn::<N>::FLOW_BYTES;

    /// Sweep interval of one slot: [`Self::SWEEP_PERIOD`] divided by the number of slots. A constant where the type fixes that
    /// number.
    #[inline(always)]
    fn visit_interval(&self) -> Nanos {
        let slots = u32::try_from(self.flows.capacity()).unwrap_or(u32::MAX);
        Self::SWEEP_PERIOD.get().checked_div(slots).map_or(Self::SWEEP_PERIOD, Nanos::new)
    }

    /// 400 ms: the longest time that [`RpEngineIn::next_wake`] returns, and the longest pause that one PFC frame sets.
    const LONGEST_WAIT: Nanos = Nanos::new(400_000_000);

    /// 1 s: the longest time between two calls, since [`LocalClock`] takes a longer one for a jump, and between two visits of a slot.
    const LONGEST_GAP: Nanos = Nanos::new(1_000_000_000);

    /// 250 ms: the time in which a sweep visits all slots.
    const SWEEP_PERIOD: Nanos = Nanos::new(250_000_000);

    /// 300 ms: when no slot was visited for this long, the next call that sweeps visits all slots.
    const CATCH_UP_AFTER: Nanos = Nanos::new(300_000_000);

    /// The most slots that one call visits, except when it catches up after [`Self::CATCH_UP_AFTER`].
    const SWEEP_BATCH: u32 = 8;

    /// Sweep interval of [`Self::SWEEP_BATCH`] slots.
    #[inline(always)]
    fn rest(&self) -> Nanos {
        Nanos::new(self.visit_interval().get().saturating_mul(Self::SWEEP_BATCH))
    }

    /// An engine without flows for the port with this `link`. `params` come from [`ReactionPoint::check`] for the same link.
    pub fn new(start: Instant, link: Link, params: A::Params) -> Self {
        let mut engine = Self::ZEROED;
        engine.shared.params = params;
        engine.start(start, link);
        engine
    }

    /// Starts a zeroed engine in place, as [`new`](Self::new) does, with parameters made from `settings`.
    ///
    /// # Errors
    /// As for [`ReactionPoint::check`].
    #[inline(always)]
    pub fn begin(&mut self, start: Instant, link: Link, settings: &A::Settings) -> Result<(), ParamError> {
        A::check_into(&mut self.shared.params, settings, &link)?;
        self.start(start, link);
        Ok(())
    }

    #[inline(always)]
    fn start(&mut self, start: Instant, link: Link) {
        self.shared.clock.start(start);
        self.shared.swept_until = start.stamp();
        self.shared.link = link;
        self.wakes.start(start.stamp());
    }

    /// Replaces the parameters, which come from [`ReactionPoint::check`] for the link of this engine. Flows keep their state: a
    /// new limit holds from the next time on that the machine changes their rate.
    pub fn set_params(&mut self, params: A::Params) {
        self.shared.params = params;
    }

    /// The counters so far.
    pub fn counters(&self) -> RpCounters {
        let counters = self.shared.counters;
        let ignored = [
            counters.rp_cnp_unknown_qp,
            counters.rp_cnp_by_remote_qp,
            counters.rp_cnp_stale,
            counters.rp_cnp_unsupported,
        ];
        RpCounters {
            rp_cnp_ignored: ignored.into_iter().fold(0, u64::wrapping_add),
            rp_clock_jumps_forward: self.shared.clock.forward_jumps().into(),
            rp_clock_reversals: self.shared.clock.backward_jumps().into(),
            ..counters
        }
    }

    /// How many flows are open.
    pub const fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether no flow is open.
    pub const fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Makes room for `flows` flows, at most 65,535, where the memory is on the heap. Open flows and their handles stay valid.
    /// The engine never grows by itself: [`RpEngineIn::open`] refuses a flow when the table is full.
    pub fn grow(&mut self, flows: usize) {
        self.wakes.grow(flows);
        self.flows.grow(flows);
    }

    /// Whether the next flow would be refused.
    pub fn is_full(&self) -> bool {
        self.flows.is_full()
    }

    /// The state of a flow; `None` when it was closed.
    #[inline]
    pub fn state(&self, handle: Handle) -> Option<&A> {
        self.flows.get(handle).map(|flow| &flow.state)
    }

    /// Passes the trace values of the flow in slot `index`, if it is open, to `show`: see [`ReactionPoint::trace_values`].
    pub fn trace_values(&self, index: u16, show: &mut dyn FnMut(TraceValue)) {
        if let Some(flow) = self.flows.at(index).and_then(|handle| self.flows.get(handle)) {
            flow.state.trace_values(&self.shared.params, show);
        }
    }

    /// The state of a flow by name; `None` when it was closed. For harnesses: no image calls it.
    pub fn snapshot(&self, handle: Handle) -> Option<A::Snapshot> {
        self.state(handle).map(State::snapshot)
    }

    /// Replaces the state of a flow, and decides as at a wake, so that the rate limiter and the timer are set by the new state.
    /// Returns whether the flow is open. For harnesses: no image calls it.
    pub fn inject(
        &mut self,
        now: Instant,
        handle: Handle,
        snapshot: A::Snapshot,
        limiter: &mut impl RateLimiter,
    ) -> bool {
        self.shared.clock.advance_outlined(now);
        let Some(flow) = self.flows.get_mut(handle) else { return false };
        flow.state = A::from_snapshot(snapshot);
        self.wake_flow(handle.index(), limiter);
        true
    }

    /// Opens a flow of PFC priority `priority`, 0 to 7, and passes its first decision to the rate limiter. Returns `None`,
    /// counted, when the table is full. A reused slot keeps nothing of its former flow.
    pub fn open(&mut self, now: Instant, priority: u8, limiter: &mut impl RateLimiter) -> Option<Handle> {
        let now = self.shared.clock.advance_outlined(now);
        let Shared { link, params, pauses, .. } = &self.shared;
        let (pause, clock_without_pauses) =
            (pauses.left(now.stamp(), priority), pauses.clock_without_pauses(now.stamp(), priority));
        let state = A::open(&Cx { now, link, params, pause, clock_without_pauses });
        let pacer = Pacer::new(now.stamp(), link.line_rate, Bytes::MAX);
        let Ok(handle) = self.flows.open(Flow { state, pacer, priority: priority & 7 }) else {
            count_rare(&mut self.shared.counters.rp_flows_refused);
            return None;
        };
        self.wake_flow(handle.index(), limiter);
        Some(handle)
    }

    /// Binds a flow to the local queue pair number that its CNPs and acknowledgements are addressed to.
    ///
    /// # Errors
    ///
    /// Those of [`SlotTableIn::bind`].
    pub fn bind(&mut self, handle: Handle, qpn: Qpn) -> Result<(), BindError> {
        self.flows.bind(handle, qpn)
    }

    /// The flow that a local queue pair number is bound to.
    pub fn find(&self, qpn: Qpn) -> Option<Handle> {
        self.flows.find(qpn)
    }

    /// Closes a flow, and returns whether it was open.
    pub fn close(&mut self, handle: Handle) -> bool {
        let closed = self.flows.close(handle).is_some();
        if closed {
            self.wakes.disarm(handle.index());
        } else {
            count_rare(&mut self.shared.counters.rp_handles_stale);
        }
        closed
    }

    /// Passes one event of one flow to its machine. Returns `None` when the flow was closed (counted), when the algorithm
    /// takes no events of this kind (not counted), or when the event is a CNP to be ignored (counted).
    #[inline]
    pub fn step(
        &mut self,
        now: Instant,
        handle: Handle,
        event: &Event<'_>,
        limiter: &mut impl RateLimiter,
    ) -> Option<FlowDecision> {
        let now = self.shared.clock.advance(now);
        self.act(now, handle, event, limiter)
    }

    /// [`RpEngineIn::step`] at a local time. Inlined into each caller, which drops the code for other kinds of events.
    #[inline(always)]
    fn act(
        &mut self,
        now: Instant,
        handle: Handle,
        event: &Event,
        limiter: &mut impl RateLimiter,
    ) -> Option<FlowDecision> {
        let is_cnp = matches!(event, Event::Cnp { .. } | Event::SwitchInt { .. });
        if !is_cnp && !A::EVENTS.contains(event.kind()) {
            return None;
        }
        let Some(flow) = self.flows.get_mut(handle) else {
            count_rare(&mut self.shared.counters.rp_handles_stale);
            return None;
        };
        let event = match gate_event(&flow.state, *event) {
            Ok(event) => event,
            Err(why) => {
                self.shared.counters.count_ignored(why);
                return None;
            }
        };
        if is_cnp {
            count(&mut self.shared.counters.rp_cnp_handled);
        }
        let decision = self.shared.decide(now, handle, flow, &event, limiter);
        Some(self.arm_flow(handle, decision, limiter))
    }

    /// Takes a received CNP for this flow, whose reserved bytes mean `body_kind`: see [`CnpFlow::of`]. Returns `None`, counted,
    /// when the CNP is ignored.
    #[inline(always)]
    pub fn cnp(
        &mut self,
        now: Instant,
        packet: &Roce<'_>,
        flow: CnpFlow,
        body_kind: &CnpBodyKind,
        limiter: &mut impl RateLimiter,
    ) -> Option<FlowDecision> {
        let now = self.shared.clock.advance(now);
        let (found, unknown) = match flow {
            CnpFlow::Local(qpn) => (self.flows.find_mut(qpn), CnpIgnored::UnknownQp),
            CnpFlow::Remote(handle) => {
                cold_path();
                let found = handle.and_then(|handle| Some((handle, self.flows.get_mut(handle)?)));
                (found, CnpIgnored::RemoteQpUnknown)
            }
        };
        let Some((handle, flow)) = found else {
            self.shared.counters.count_ignored(unknown);
            return None;
        };
        let event = match gate(&flow.state, body_kind, || packet.switch_int().map(|int| int.stack())) {
            Ok(event) => event,
            Err(why) => {
                self.shared.counters.count_ignored(why);
                return None;
            }
        };
        let decision = self.shared.decide(now, handle, flow, &event, limiter);
        count(&mut self.shared.counters.rp_cnp_handled);
        Some(self.arm_flow(handle, decision, limiter))
    }

    /// Takes data that the NIC has sent for the flow: `bytes` on the wire; `psn` is that of the last packet.
    #[inline]
    pub fn sent(
        &mut self,
        now: Instant,
        handle: Handle,
        psn: Psn,
        bytes: Bytes,
        limiter: &mut impl RateLimiter,
    ) -> Option<FlowDecision> {
        let now = self.shared.clock.advance(now);
        self.act(now, handle, &Event::Sent { psn, bytes }, limiter)
    }

    /// Takes a positive acknowledgement, for the flow that is bound to its destination queue pair.
    #[inline(always)]
    pub fn ack(
        &mut self,
        now: Instant,
        roce: &Roce<'_>,
        progress: AckProgress,
        limiter: &mut impl RateLimiter,
    ) -> Option<FlowDecision> {
        if !A::EVENTS.contains(EventSet::ACK) {
            self.shared.clock.advance_outlined(now);
            return None;
        }
        let arrived = now.stamp();
        let now = self.shared.clock.advance(now);
        let Some((handle, flow)) = self.flows.find_mut(roce.bth.dest_qp) else {
            count_rare(&mut self.shared.counters.rp_ack_unknown_qp);
            return None;
        };
        let event = Event::Ack(acknowledgement::<A>(arrived, roce, progress, &mut self.shared.counters));
        let decision = self.shared.decide(now, handle, flow, &event, limiter);
        Some(self.arm_flow(handle, decision, limiter))
    }

    /// Takes a negative acknowledgement for the flow bound to local queue pair `qpn`: the receiver expects `psn`.
    #[inline(always)]
    pub fn nack(&mut self, now: Instant, qpn: Qpn, psn: Psn, limiter: &mut impl RateLimiter) -> Option<FlowDecision> {
        if !A::EVENTS.contains(EventSet::NACK) {
            self.shared.clock.advance_outlined(now);
            return None;
        }
        let now = self.shared.clock.advance(now);
        let Some((handle, flow)) = self.flows.find_mut(qpn) else {
            count_rare(&mut self.shared.counters.rp_ack_unknown_qp);
            return None;
        };
        let decision = self.shared.decide(now, handle, flow, &Event::Nack { psn }, limiter);
        Some(self.arm_flow(handle, decision, limiter))
    }

    /// Takes a PFC pause of `priority` for `time`, at most 400 ms; zero resumes. The MAC stops sending by itself; decisions
    /// made meanwhile carry the remaining pause as a hold. A resume makes all slots due for a visit, so that the next calls of
    /// [`RpEngineIn::wake`] end the holds at the rate limiter.
    #[inline(never)]
    pub fn pause(&mut self, now: Instant, priority: u8, time: Nanos) {
        let now = self.shared.clock.advance_outlined(now);
        self.shared.pauses.set(now.stamp(), priority, time.min(Self::LONGEST_WAIT));
        if time == Nanos::ZERO && now.stamp().since(self.shared.swept_until) < Self::SWEEP_PERIOD {
            self.shared.swept_until = Stamp::from_bits(now.stamp().to_bits().wrapping_sub(Self::SWEEP_PERIOD.get()));
        }
    }

    /// Counts `cnps` more CNPs as handled: those that the front end merged into one that was handled, without that one.
    pub const fn count_coalesced(&mut self, cnps: u32) {
        self.shared.counters.rp_cnp_handled = self.shared.counters.rp_cnp_handled.wrapping_add(cnps as u64);
    }

    /// Wakes one flow whose deadline has passed. Call again while it returns `Some` or [`RpEngineIn::next_wake`] is zero.
    #[inline]
    pub fn wake(&mut self, now: Instant, limiter: &mut impl RateLimiter) -> Option<FlowDecision> {
        let index = self.pop_due(now, limiter)?;
        let (handle, flow) = self.flows.at_mut(index)?;
        let now = self.shared.clock.now();
        let decision = self.shared.decide(now, handle, flow, &Event::Wake, limiter);
        Some(self.arm_flow(handle, decision, limiter))
    }

    /// Returns the slot of a flow whose deadline has passed, for the caller to pass to [`RpEngineIn::wake_slot`].
    /// [`RpEngineIn::wake`] does both in one call.
    #[inline]
    pub fn pop_due(&mut self, now: Instant, limiter: &mut impl RateLimiter) -> Option<u16> {
        let now = self.shared.clock.advance_outlined(now);
        let due = self.wakes.pop_due(now.stamp());
        if due.is_none() {
            self.sweep_after(now.stamp(), self.visit_interval(), limiter);
        }
        due
    }

    /// Wakes the flow that [`RpEngineIn::pop_due`] has just found, at the time of that call.
    #[inline]
    pub fn wake_slot(&mut self, index: u16, limiter: &mut impl RateLimiter) {
        self.wake_flow(index, limiter);
        self.sweep_after(self.shared.clock.now().stamp(), Self::CATCH_UP_AFTER, limiter);
    }

    /// When the last call was made, by the caller's clock.
    pub const fn last_call(&self) -> Instant {
        self.shared.clock.last_call()
    }

    /// How long after the last call to call [`RpEngineIn::wake`], at most 0.4 s. An earlier call is harmless. A later one
    /// changes no decision, but decisions take effect later.
    pub fn next_wake(&self) -> Nanos {
        let now = self.shared.clock.now().stamp();
        let sweeps = if self.is_empty() {
            Self::LONGEST_WAIT
        } else {
            self.rest().min(Self::LONGEST_WAIT).saturating_sub(now.since(self.shared.swept_until))
        };
        self.until_deadline(now, sweeps)
    }

    /// How long after the last call [`RpEngineIn::wake`] may be called at the latest, at most 1 s: for callers whose wakes are exactly
    /// on time and to whom visits of all slots in one call cost nothing, such as simulations. An engine without deadlines is then
    /// woken once a second, and each flow is still visited at least once a second; [`RpEngineIn::next_wake`] leaves time for wakes
    /// that come late, and spreads the visits. While a priority is paused both are the same, since machines that add up pauses are
    /// to be visited before half of the range of 32-bit stamps is added.
    pub fn latest_wake(&self) -> Nanos {
        if self.shared.pauses.mask != 0 {
            return self.next_wake();
        }
        let now = self.shared.clock.now().stamp();
        let since = now.since(self.shared.swept_until);
        let sweeps = if self.is_empty() {
            Self::LONGEST_GAP
        } else if since >= self.rest().min(Self::LONGEST_WAIT).max(Self::SWEEP_PERIOD) {
            Nanos::ZERO
        } else if self.shared.swept_at_once {
            Self::LONGEST_GAP.saturating_sub(since)
        } else {
            // The slot that was visited first waits for a sweep longer.
            Self::LONGEST_GAP.saturating_sub(Self::SWEEP_PERIOD).saturating_sub(since)
        };
        self.until_deadline(now, sweeps)
    }

    /// The time until the first deadline of a flow, at most `wait`.
    fn until_deadline(&self, now: Stamp, wait: Nanos) -> Nanos {
        match self.wakes.next_deadline() {
            Some(deadline) if deadline.is_due(now) => Nanos::ZERO,
            Some(deadline) => deadline.since(now).min(wait),
            None => wait,
        }
    }

    /// Departure of a packet of `bytes` bytes, for boards whose hardware does not pace packets. Returns how long the next
    /// packet of the flow must wait; `None` when the flow was closed.
    pub fn departure(&mut self, now: Instant, handle: Handle, bytes: Bytes) -> Option<Nanos> {
        let now = self.shared.clock.advance(now).stamp();
        let next = self.flows.get_mut(handle)?.pacer.next_departure(now, bytes);
        Some(if next.is_due(now) { Nanos::ZERO } else { next.since(now) })
    }

    /// Arms the flow's timer and sweeps: the work that can wait until the rate limiter has the decision.
    #[inline(always)]
    fn arm_flow(&mut self, handle: Handle, decision: Decision, limiter: &mut impl RateLimiter) -> FlowDecision {
        self.arm_and_sweep(handle.index(), decision.wake_in, limiter);
        FlowDecision { handle, decision }
    }

    #[inline(never)]
    fn arm_and_sweep(&mut self, index: u16, wake_in: Nanos, limiter: &mut impl RateLimiter) {
        let now = self.shared.clock.now().stamp();
        self.arm(now, index, wake_in);
        // `wake` visits slots; an event does so only when the caller has not called `wake` for 300 ms.
        self.sweep_after(now, Self::CATCH_UP_AFTER, limiter);
    }

    #[inline(always)]
    fn arm(&mut self, now: Stamp, index: u16, wake_in: Nanos) {
        if wake_in != Nanos::MAX {
            self.wakes.arm(index, now.after(wake_in));
        }
    }

    /// Wakes the flow in a slot, if there is one.
    #[inline(never)]
    fn wake_flow(&mut self, index: u16, limiter: &mut impl RateLimiter) {
        let now = self.shared.clock.now();
        let Some((handle, flow)) = self.flows.at_mut(index) else { return };
        let decision = self.shared.decide(now, handle, flow, &Event::Wake, limiter);
        self.arm(now.stamp(), index, decision.wake_in);
    }

    /// Visits the slots that are due, if `rest` has passed since the last visit.
    #[inline]
    fn sweep_after(&mut self, now: Stamp, rest: Nanos, limiter: &mut impl RateLimiter) {
        if now.since(self.shared.swept_until) >= rest {
            self.sweep_due(limiter);
        }
    }

    #[cold]
    #[inline(never)]
    fn sweep_due(&mut self, limiter: &mut impl RateLimiter) {
        let now = self.shared.clock.now().stamp();
        self.shared.pauses.expire(now);
        if self.is_empty() {
            self.shared.swept_until = now;
        }
        let mut sweeps = Self::SWEEP_BATCH as usize;
        let mut rest = self.visit_interval();
        // After 300 ms without a visit: all slots at once.
        self.shared.swept_at_once = now.since(self.shared.swept_until) >= Self::CATCH_UP_AFTER;
        if self.shared.swept_at_once {
            (sweeps, rest) = (self.flows.capacity(), Nanos::ZERO);
            self.shared.swept_until = now;
        }
        while sweeps > 0 && now.since(self.shared.swept_until) >= rest {
            sweeps = sweeps.wrapping_sub(1);
            self.shared.swept_until = self.shared.swept_until.after(rest);
            let index = self.shared.sweep_slot;
            self.shared.sweep_slot =
                if usize::from(index) < self.flows.capacity().wrapping_sub(1) { index.wrapping_add(1) } else { 0 };
            if let Some((_, flow)) = self.flows.at_mut(index) {
                flow.pacer.rebase(now);
                self.wake_flow(index, limiter);
            }
        }
    }
}

/// 1.07 s, a quarter of the range of 32-bit stamps: a round-trip time of this or more is rejected.
const LONGEST_RTT: Nanos = Nanos::new(1 << 30);

/// Reads from an acknowledgement the signals that the algorithm uses, and no others. `now` is its time of arrival, by the
/// clock that the NIC stamps its packets with.
#[inline(always)]
fn acknowledgement<'a, A: ReactionPoint>(
    now: Stamp,
    roce: &Roce<'a>,
    progress: AckProgress,
    counters: &mut RpCounters,
) -> Ack<'a> {
    let uses = |signal| A::SIGNALS.contains(signal);
    let rcc = if uses(Signals::GRANT) { roce.rcc_shim() } else { None };
    Ack {
        psn: roce.bth.psn,
        acked: progress.acked,
        mark: if uses(Signals::MARK) { roce.echo().max(roce.echo_shim().unwrap_or_default()) } else { Mark::None },
        delay: if uses(Signals::DELAY) { delay(now, roce, rcc, progress, counters) } else { None },
        int: if uses(Signals::INT) {
            roce.int_shim().map_or(IntStack::NONE, |int| int.stack())
        } else {
            IntStack::NONE
        },
        grant: match rcc {
            Some(rcc) => rcc.grant(),
            None if uses(Signals::ADVISED_RATE) => roce.mlcc_ack_shim().map_or(Grant::None, |mlcc| mlcc.grant()),
            None => Grant::None,
        },
    }
}

/// The delay of the acknowledged packet: from the returned time stamp, in the time shim or else in RCC's, and without a
/// valid stamp as the transport measured it.
#[inline(always)]
fn delay(
    now: Stamp,
    roce: &Roce<'_>,
    rcc: Option<Rcc>,
    progress: AckProgress,
    counters: &mut RpCounters,
) -> Option<Delay> {
    let returned = match (roce.time_shim(), rcc) {
        (Some(Time { echo, receiver_hold, hops, rx_buffer_level, .. }), _) => {
            // Above `MAX_HOPS` the count is unknown: the packet began with a low time to live, which reads as a long path.
            let hops = if hops > MAX_HOPS { 0 } else { hops };
            Some((echo, Delay { receiver_hold, hops, rx_buffer_level, ..Delay::default() }))
        }
        (None, Some(rcc)) => Some((rcc.echo, Delay::default())),
        (None, None) => None,
    };
    if let Some((echo, delay)) = returned {
        let rtt = now.since(echo);
        if echo != Stamp::default() && rtt < LONGEST_RTT {
            return Some(Delay { rtt, ..delay });
        }
        count(&mut counters.rp_delays_rejected);
    }
    progress.rtt.map(|rtt| Delay { rtt, ..Delay::default() })
}

#[cfg(test)]
mod tests;
