//! Where bytes meet state at the sender: a frame or a transmission comes in, a rate goes out.

use crate::{Cx, Decision, Event, Ignored, ReactionPoint};
use cc_core::clock::LocalClock;
use cc_core::pacer::Pacer;
use cc_core::table::{BindError, Handle, SlotTable};
use cc_core::wheel::Wheel;
use cc_core::wire::opcode::Class;
use cc_core::wire::{Nak, Roce, Syndrome};
use cc_core::{Bytes, CnpHint, Instant, Mark, Nanos, Port, Psn, Qpn, Rate, Stamp};

/// The part of the hardware that spaces packets.
pub trait RateLimiter {
    /// From now on the flow in slot `index` sends at most at `rate`, with at most `window` bytes in flight
    /// ([`Bytes::MAX`] for any number), and not at all for the next `hold`, which replaces an earlier hold.
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos);
}

/// What came of one event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Step {
    /// The flow.
    pub handle: Handle,
    /// How it is paced from now on.
    pub decision: Decision,
    /// The decision differs from the last one in more than the wake, and the rate limiter was told.
    pub changed: bool,
}

/// What a port's reaction point has counted.
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
    /// Of these: for a flow named by its remote queue pair number, which this engine does not know.
    pub rp_cnp_by_remote_qp: u64,
    /// Of these: repeated, or overtaken by a later one, going by their number.
    pub rp_cnp_stale: u64,
    /// Of these: of a kind that tells this algorithm nothing.
    pub rp_cnp_unsupported: u64,
    /// Flows refused because the table was full.
    pub rp_flows_refused: u64,
    /// Events for a flow that was closed before.
    pub rp_handles_stale: u64,
    /// Steps of the caller's clock forward by more than a second.
    pub rp_clock_leaps: u64,
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
        rp_flows_refused: 0,
        rp_handles_stale: 0,
        rp_clock_leaps: 0,
        rp_clock_reversals: 0,
    };

    /// The counters with their names.
    pub const fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("rp_cnp_handled", self.rp_cnp_handled),
            ("rp_cnp_ignored", self.rp_cnp_ignored),
            ("rp_cnp_unknown_qp", self.rp_cnp_unknown_qp),
            ("rp_cnp_by_remote_qp", self.rp_cnp_by_remote_qp),
            ("rp_cnp_stale", self.rp_cnp_stale),
            ("rp_cnp_unsupported", self.rp_cnp_unsupported),
            ("rp_flows_refused", self.rp_flows_refused),
            ("rp_handles_stale", self.rp_handles_stale),
            ("rp_clock_leaps", self.rp_clock_leaps),
            ("rp_clock_reversals", self.rp_clock_reversals),
        ]
    }

    #[cold]
    fn ignore(&mut self, reason: fn(&mut Self) -> &mut u64) {
        count(&mut self.rp_cnp_ignored);
        count(reason(self));
    }
}

#[inline]
fn count(counter: &mut u64) {
    *counter = counter.wrapping_add(1);
}

/// A flow: with its table entry and its wake, all that it costs.
#[derive(Clone, Copy)]
struct Flow<A> {
    state: A,
    pacer: Pacer,
    /// PFC priority, 0 to 7.
    priority: u8,
    /// The rate limiter was last given a hold.
    held: bool,
}

/// PFC's pauses of the eight priorities.
#[derive(Clone, Copy)]
struct Pauses {
    /// A bit for each priority that may be paused.
    mask: u8,
    until: [Stamp; 8],
}

impl Pauses {
    /// How much longer the priority is paused.
    #[inline]
    fn left(&self, now: Stamp, priority: u8) -> Nanos {
        if self.mask == 0 { Nanos::ZERO } else { self.left_of(now, priority) }
    }

    #[cold]
    fn left_of(&self, now: Stamp, priority: u8) -> Nanos {
        match self.until.get(usize::from(priority)) {
            Some(until) if self.mask & bit(priority) != 0 && !until.is_due(now) => until.since(now),
            _ => Nanos::ZERO,
        }
    }

    fn set(&mut self, now: Stamp, priority: u8, time: Nanos) {
        if let Some(until) = self.until.get_mut(usize::from(priority)) {
            *until = now.after(time);
            self.mask |= bit(priority);
        }
        self.expire(now);
    }

    /// Forgets the pauses that ran out, before their stamps go stale.
    fn expire(&mut self, now: Stamp) {
        for (priority, until) in (0..8).zip(self.until) {
            if until.is_due(now) {
                self.mask &= !bit(priority);
            }
        }
    }
}

#[inline]
const fn bit(priority: u8) -> u8 {
    1 << (priority & 7)
}

/// What the flows of a port share.
struct Shared<A: ReactionPoint, const N: usize> {
    port: Port,
    params: A::Params,
    wakes: Wheel<N>,
    pauses: Pauses,
    counters: RpCounters,
}

impl<A: ReactionPoint, const N: usize> Shared<A, N> {
    /// Hands the event to the machine, then its decision to the rate limiter, and only then sees to the rest.
    #[inline]
    fn run(
        &mut self,
        now: Instant,
        handle: Handle,
        flow: &mut Flow<A>,
        event: &Event,
        limiter: &mut impl RateLimiter,
    ) -> Step {
        let pause = self.pauses.left(now.stamp(), flow.priority);
        let mut decision = flow.state.on(&Cx { now, port: &self.port, params: &self.params, pause }, event);
        decision.hold = decision.hold.max(pause);
        let Decision { rate, window, hold, wake_in } = decision;
        let holds = hold != Nanos::ZERO;
        let changed = rate != flow.pacer.rate() || window != flow.pacer.window() || holds || flow.held;
        if changed {
            limiter.set(handle.index(), rate, window, hold);
            flow.held = holds;
            flow.pacer.set(rate, window);
        }
        if wake_in != Nanos::MAX {
            self.wakes.arm(handle.index(), now.stamp().after(wake_in));
        }
        Step { handle, decision, changed }
    }

    /// A congestion notification, unless it is to be ignored.
    #[inline]
    fn notify(
        &mut self,
        now: Instant,
        handle: Handle,
        flow: &mut Flow<A>,
        hint: CnpHint,
        limiter: &mut impl RateLimiter,
    ) -> Option<Step> {
        match flow.state.ignores(&hint) {
            None => {}
            Some(Ignored::Stale) => {
                self.counters.ignore(|counters| &mut counters.rp_cnp_stale);
                return None;
            }
            Some(Ignored::Kind) => {
                self.counters.ignore(|counters| &mut counters.rp_cnp_unsupported);
                return None;
            }
        }
        let step = self.run(now, handle, flow, &Event::Cnp { hint }, limiter);
        count(&mut self.counters.rp_cnp_handled);
        Some(step)
    }
}

/// The reaction point of one port, with at most `N` flows; `MAP` is a power of two and at least `2 N`.
///
/// Time: the caller calls at least once a second, see [`RpEngine::next_wake`], and passes its own clock; what
/// happens when that jumps is written at [`LocalClock`]. Each call visits slots in proportion to the time since
/// the last, so that each is visited at least once a second. That keeps the 32-bit stamps in state unambiguous.
///
/// Order: what a flow is to do goes to the rate limiter as soon as it is known; pacer, wake and visits come after.
pub struct RpEngine<A: ReactionPoint, const N: usize, const MAP: usize> {
    clock: LocalClock,
    flows: SlotTable<Flow<A>, N, MAP>,
    shared: Shared<A, N>,
    /// The time up to which slots were visited, and the slot that comes next.
    visited: Stamp,
    next_visit: u16,
}

impl<A: ReactionPoint, const N: usize, const MAP: usize> RpEngine<A, N, MAP> {
    /// Bytes of memory that a flow costs: all that grows with `N`, divided by `N`.
    pub const QP_BYTES: usize = {
        let table = size_of::<SlotTable<Flow<A>, N, MAP>>() - size_of::<SlotTable<Flow<A>, 1, 2>>();
        let wakes = size_of::<Wheel<N>>() - size_of::<Wheel<1>>();
        let others = if N > 1 { N - 1 } else { 1 };
        (table + wakes).div_ceil(others)
    };

    /// In this time one slot is visited, and in half a second all of them.
    #[expect(clippy::integer_division, clippy::cast_possible_truncation, reason = "evaluated at compile time only")]
    const VISIT: Nanos = Nanos::new((500_000_000 / N) as u32);

    /// The longest that the caller may stay away without being late for a visit.
    const LONGEST_WAIT: Nanos = Nanos::new(400_000_000);

    /// The reaction point of `port`, without flows. `params` come from [`ReactionPoint::check`] for this port.
    pub const fn new(start: Instant, port: Port, params: A::Params) -> Self {
        Self {
            clock: LocalClock::new(start),
            flows: SlotTable::new(),
            shared: Shared {
                port,
                params,
                wakes: Wheel::new(start.stamp()),
                pauses: Pauses { mask: 0, until: [start.stamp(); 8] },
                counters: RpCounters::NONE,
            },
            visited: start.stamp(),
            next_visit: 0,
        }
    }

    /// What was counted so far.
    pub fn counters(&self) -> RpCounters {
        RpCounters {
            rp_clock_leaps: self.clock.leaps().into(),
            rp_clock_reversals: self.clock.reversals().into(),
            ..self.shared.counters
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

    /// The state of a flow, for logs and tests.
    pub fn state(&self, handle: Handle) -> Option<&A> {
        self.flows.get(handle).map(|flow| &flow.state)
    }

    /// Takes in a flow of PFC priority `priority`, 0 to 7, and tells the rate limiter how it begins; `None`, counted,
    /// when the table is full. A slot that was used before is as new.
    pub fn open(&mut self, now: Instant, priority: u8, limiter: &mut impl RateLimiter) -> Option<Handle> {
        let now = self.clock.advance(now);
        let Shared { port, params, pauses, .. } = &self.shared;
        let state = A::open(&Cx { now, port, params, pause: pauses.left(now.stamp(), priority) });
        // Being held makes the first decision a change.
        let pacer = Pacer::new(now.stamp(), port.line_rate, Bytes::MAX);
        let Ok(handle) = self.flows.open(Flow { state, pacer, priority: priority & 7, held: true }) else {
            count(&mut self.shared.counters.rp_flows_refused);
            return None;
        };
        if let Some(flow) = self.flows.get_mut(handle) {
            self.shared.run(now, handle, flow, &Event::Wake, limiter);
        }
        self.visit(now, limiter);
        Some(handle)
    }

    /// Tells by which local queue pair number a flow's CNPs and acknowledgements will come.
    ///
    /// # Errors
    ///
    /// Those of [`SlotTable::bind`].
    pub fn bind(&mut self, handle: Handle, qpn: Qpn) -> Result<(), BindError> {
        self.flows.bind(handle, qpn)
    }

    /// The flow that a local queue pair number is bound to.
    pub fn find(&self, qpn: Qpn) -> Option<Handle> {
        self.flows.find(qpn)
    }

    /// Lets a flow go, and says whether it was open.
    pub fn close(&mut self, handle: Handle) -> bool {
        let closed = self.flows.close(handle).is_some();
        if closed {
            self.shared.wakes.disarm(handle.index());
        } else {
            count(&mut self.shared.counters.rp_handles_stale);
        }
        closed
    }

    /// One event of one flow. `None` when the flow was closed, when the algorithm takes no such events, and when the
    /// event is a CNP to be ignored; the first and the last are counted.
    #[inline]
    pub fn step(
        &mut self,
        now: Instant,
        handle: Handle,
        event: &Event,
        limiter: &mut impl RateLimiter,
    ) -> Option<Step> {
        let now = self.clock.advance(now);
        let step = if !A::WANTS.contains(event.kind()) {
            None
        } else if let Some(flow) = self.flows.get_mut(handle) {
            match *event {
                Event::Cnp { hint } => self.shared.notify(now, handle, flow, hint, limiter),
                _ => Some(self.shared.run(now, handle, flow, event, limiter)),
            }
        } else {
            count(&mut self.shared.counters.rp_handles_stale);
            None
        };
        self.visit(now, limiter);
        step
    }

    /// A congestion notification for a local queue pair number; `None`, counted, when it is ignored.
    #[inline]
    pub fn cnp(&mut self, now: Instant, qpn: Qpn, hint: CnpHint, limiter: &mut impl RateLimiter) -> Option<Step> {
        let now = self.clock.advance(now);
        let step = if is_by_remote(&hint) {
            self.shared.counters.ignore(|counters| &mut counters.rp_cnp_by_remote_qp);
            None
        } else if let Some((handle, flow)) = self.flows.find_mut(qpn) {
            self.shared.notify(now, handle, flow, hint, limiter)
        } else {
            self.shared.counters.ignore(|counters| &mut counters.rp_cnp_unknown_qp);
            None
        };
        self.visit(now, limiter);
        step
    }

    /// Data that the flow put on the wire; `psn` is that of the last packet.
    #[inline]
    pub fn sent(
        &mut self,
        now: Instant,
        handle: Handle,
        psn: Psn,
        bytes: Bytes,
        limiter: &mut impl RateLimiter,
    ) -> Option<Step> {
        self.step(now, handle, &Event::Sent { psn, bytes }, limiter)
    }

    /// A received frame: CNPs, acknowledgements and sequence errors go to the flow that the destination queue pair is
    /// bound to; anything else is not for a sender. The engine does not count packets, so an acknowledgement passed
    /// on from here says nothing of the bytes newly acknowledged.
    #[inline]
    pub fn frame(&mut self, now: Instant, roce: &Roce<'_>, limiter: &mut impl RateLimiter) -> Option<Step> {
        let psn = roce.bth.psn;
        let event = match roce.info.class() {
            Class::Cnp => return self.cnp(now, roce.bth.dest_qp, roce.cnp()?, limiter),
            Class::Ack => match roce.aeth()?.syndrome {
                Syndrome::Ack { .. } => Event::Ack { psn, acked: Bytes::ZERO, mark: Mark::None },
                Syndrome::Nak(Nak::PsnSequence) => Event::Nack { psn },
                _ => return None,
            },
            _ => return None,
        };
        let handle = self.flows.find(roce.bth.dest_qp)?;
        self.step(now, handle, &event, limiter)
    }

    /// PFC paused a priority for so long, or resumed it (zero). The link obeys by itself; decisions made meanwhile
    /// carry what is left of it as a hold.
    pub fn pause(&mut self, now: Instant, priority: u8, time: Nanos) {
        let now = self.clock.advance(now);
        self.shared.pauses.set(now.stamp(), priority, time.min(Self::LONGEST_WAIT));
    }

    /// Wakes one flow whose time has come. Call again while it answers, or [`RpEngine::next_wake`] is zero.
    #[inline]
    pub fn wake(&mut self, now: Instant, limiter: &mut impl RateLimiter) -> Option<Step> {
        let now = self.clock.advance(now);
        let due = self.shared.wakes.pop_due(now.stamp()).and_then(|index| self.flows.at(index));
        let step = due.and_then(|handle| {
            let flow = self.flows.get_mut(handle)?;
            Some(self.shared.run(now, handle, flow, &Event::Wake, limiter))
        });
        self.visit(now, limiter);
        step
    }

    /// How long after the last call to call [`RpEngine::wake`], at most 0.4 s. Earlier does no harm, and later
    /// changes no decision, but takes effect later.
    pub fn next_wake(&self) -> Nanos {
        let now = self.clock.now().stamp();
        match self.shared.wakes.next_deadline() {
            Some(deadline) if deadline.is_due(now) => Nanos::ZERO,
            Some(deadline) => deadline.since(now).min(Self::LONGEST_WAIT),
            None => Self::LONGEST_WAIT,
        }
    }

    #[inline]
    fn visit(&mut self, now: Instant, limiter: &mut impl RateLimiter) {
        if now.stamp().since(self.visited) >= Self::VISIT {
            self.visit_slots(now, limiter);
        }
    }

    #[cold]
    #[inline(never)]
    fn visit_slots(&mut self, now: Instant, limiter: &mut impl RateLimiter) {
        self.shared.pauses.expire(now.stamp());
        for _ in 0..N {
            if now.stamp().since(self.visited) < Self::VISIT {
                return;
            }
            self.visited = self.visited.after(Self::VISIT);
            let handle = self.flows.at(self.next_visit);
            self.next_visit = self.next_visit.wrapping_add(1);
            if usize::from(self.next_visit) >= N {
                self.next_visit = 0;
            }
            if let Some(handle) = handle
                && let Some(flow) = self.flows.get_mut(handle)
            {
                self.shared.run(now, handle, flow, &Event::Wake, limiter);
                flow.pacer.settle(now.stamp());
            }
        }
        // All were visited.
        self.visited = now.stamp();
    }
}

#[inline]
const fn is_by_remote(hint: &CnpHint) -> bool {
    matches!(hint, CnpHint::Body(body) if body.by_remote)
}

#[cfg(test)]
mod tests;
