//! ACC at the sender: a reconstruction.
//!
//! Yiran Zhang, Qingkai Meng, Chaolei Hu and Fengyuan Ren, "Revisiting Congestion Control for Lossless Ethernet", NSDI
//! 2024. Only the slides of the talk were available, not the paper, so this may differ from the authors' algorithm, and
//! none of its numbers are theirs. From the slides:
//!
//! - a lossless network conserves packets: the rate of acknowledgements is the rate that the path gives a flow, and bytes in
//!   flight beyond what the path itself holds are in queues;
//! - switches mark congested flows (CE) and victims of pauses (UE), as in TCD (SIGCOMM 2021); the receiver echoes the
//!   marks with each acknowledgement;
//! - a congested flow first halts, for `t_halt = (Sent(i-1) - Ack(i)) / R(i)`, until its excess has drained, and then
//!   sends at the throttled rate R(i);
//! - a victim adapts to the number of consecutive periods with UE marks;
//! - an uncongested flow speeds up gradually at first, then aggressively.
//!
//! Added by this project:
//! - time is divided into periods of T_p, two base round-trip times by default, which run while packets are in flight; at the
//!   end of each, the strongest mark received decides the mode of the flow. A period without any acknowledgement is extended,
//!   up to sixteen times; then the rate is halved. Periods are equally long for all flows of a port: if those of slow flows are
//!   long enough for sixteen packets (preset `sixteen_packets`, which also has periods of 1.5 round trips and fewer gradual steps),
//!   the slow ones add less often, and Jain's index of 8 flows at 100 Gb/s and 4 us is 0.27, in place of 0.99;
//! - R(i) is the lesser of the rate and the rate of acknowledgements, so that a mark never raises a rate; if no byte was newly
//!   acknowledged, that rate is unknown and the flow keeps its own;
//! - the excess is the greater of the slides' formula and of the bytes in flight beyond R(i) times the base round-trip
//!   time. The formula counts one period only, and leaves a standing queue after an incast of 32 flows. The setting
//!   `acc_literal` = 1 uses the formula alone;
//! - *drain*: during a halt, and while acknowledgements are of packets sent before it, neither marks nor their absence show the
//!   present state of the path: the rate does not change. The acknowledgement that ends this begins a new period, so that the
//!   rate of acknowledgements is not measured over a time in which none could arrive;
//! - a halt ends early when nothing is in flight any more, and is never longer than 64 periods or a second;
//! - packets retransmitted after a negative acknowledgement count as in flight, but not as sent: each is acknowledged once.
//!
//! Late wakes change no decision: a late wake evaluates each period as of the time when it ended, also a period without events.
//! That takes at most 64 steps for a halt and 16 for each halving of the rate, down to the floor; one `divu` skips the rest.

mod parameters;
#[cfg(test)]
mod tests;

pub use parameters::{AccSettings, Params, STABLE};

use crate::{Ack, Cx, Decision, Event, EventSet, Limits, ReactionPoint, Signals};
use cc_core::params::{ParamError, Preset};
use cc_core::snapshot::{Words, flags};
use cc_core::{Bytes, Link, Mark, Nanos, Psn, Rate, Stamp, State};
use parameters::LONGEST_HALT;

/// What the last period showed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Mode {
    /// Acknowledgements without marks.
    Uncongested,
    /// Acknowledgements of packets that were marked for congestion.
    Congested,
    /// No acknowledgement of packets sent since the flow was found congested, or a halt.
    Drain,
    /// Acknowledgements of packets that a pause held up.
    Victim,
}

/// One flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Acc {
    /// R(i): the rate of the flow when it does not halt.
    rate: Rate,
    /// When the period ends, if [`RUNNING`] is set.
    period_end: Stamp,
    /// When the halt ends, if [`HALTED`] is set.
    halt_until: Stamp,
    /// Sent for the first time in this period, and in the one before it; saturating.
    sent: Bytes,
    sent_before: Bytes,
    /// Newly acknowledged in this period; saturating.
    acked: Bytes,
    /// Sent and not acknowledged; saturating.
    in_flight: Bytes,
    /// The first packet after the flow was found congested, if [`GUARDED`] is set.
    guard: Psn,
    /// The packet after the newest, if [`STARTED`] is set.
    next: Psn,
    mode: Mode,
    /// Periods in a row in this mode, where that is uncongested or victim; at most [`LONGEST_RUN`].
    run: u8,
    /// How often the period was extended because no acknowledgement came, at most [`EXTENSIONS`].
    extended: u8,
    flags: u8,
}

/// A packet was sent.
const STARTED: u8 = 1;
/// A period is running. Otherwise the fields of a period have no meaning.
const RUNNING: u8 = 1 << 1;
/// The flow halts.
const HALTED: u8 = 1 << 2;
/// No packet from `guard` on has been acknowledged.
const GUARDED: u8 = 1 << 3;
/// An acknowledgement arrived in this period.
const FEEDBACK: u8 = 1 << 4;
/// An acknowledgement that counts echoed CE in this period.
const CE: u8 = 1 << 5;
/// An acknowledgement that counts echoed UE in this period.
const UE: u8 = 1 << 6;

/// [`Acc::run`] saturates here.
const LONGEST_RUN: u8 = 16;
/// How often a period is extended before the rate is halved.
const EXTENSIONS: u8 = 15;

cc_core::snapshot! {
    /// A flow of ACC.
    pub struct AccSnapshot {
        /// R(i): the rate of the flow when it does not halt.
        pub rate: Rate,
        /// When the period ends, while `is_running`.
        pub period_end: Stamp,
        /// When the halt ends, while `is_halted`.
        pub halt_until: Stamp,
        /// Sent for the first time in this period; saturating, as all counts of bytes here.
        pub sent: Bytes,
        /// Sent for the first time in the period before this.
        pub sent_before: Bytes,
        /// Newly acknowledged in this period.
        pub acked: Bytes,
        /// Sent and not acknowledged.
        pub in_flight: Bytes,
        /// The first packet after the flow was found congested, while `is_guarded`.
        pub guard: Psn,
        /// The packet after the newest, if `has_sent`.
        pub next: Psn,
        /// The mode.
        pub mode: Mode,
        /// Periods in a row in this mode, where that is uncongested or victim; at most 16.
        pub run: u8,
        /// How often the period was extended because no acknowledgement came, at most 15.
        pub extended: u8,
        /// A packet was sent.
        pub has_sent: bool,
        /// A period runs.
        pub is_running: bool,
        /// The flow halts.
        pub is_halted: bool,
        /// No packet from `guard` on has been acknowledged.
        pub is_guarded: bool,
        /// An acknowledgement arrived in this period.
        pub has_heard: bool,
        /// One that counts echoed CE.
        pub has_ce: bool,
        /// One that counts echoed UE.
        pub has_ue: bool,
    }
}

impl State for Acc {
    type Snapshot = AccSnapshot;

    fn snapshot(&self) -> AccSnapshot {
        AccSnapshot {
            rate: self.rate,
            period_end: self.period_end,
            halt_until: self.halt_until,
            sent: self.sent,
            sent_before: self.sent_before,
            acked: self.acked,
            in_flight: self.in_flight,
            guard: self.guard,
            next: self.next,
            mode: self.mode,
            run: self.run,
            extended: self.extended,
            has_sent: self.has(STARTED),
            is_running: self.has(RUNNING),
            is_halted: self.has(HALTED),
            is_guarded: self.has(GUARDED),
            has_heard: self.has(FEEDBACK),
            has_ce: self.has(CE),
            has_ue: self.has(UE),
        }
    }

    fn from_snapshot(s: AccSnapshot) -> Self {
        Self {
            rate: s.rate,
            period_end: s.period_end,
            halt_until: s.halt_until,
            sent: s.sent,
            sent_before: s.sent_before,
            acked: s.acked,
            in_flight: s.in_flight,
            guard: s.guard,
            next: s.next,
            mode: s.mode,
            run: s.run.min(LONGEST_RUN),
            extended: s.extended.min(EXTENSIONS),
            flags: flags([
                (s.has_sent, STARTED),
                (s.is_running, RUNNING),
                (s.is_halted, HALTED),
                (s.is_guarded, GUARDED),
                (s.has_heard, FEEDBACK),
                (s.has_ce, CE),
                (s.has_ue, UE),
            ]),
        }
    }
}

impl Words for Mode {
    const COUNT: usize = 1;

    fn write(&self, write: &mut dyn FnMut(u32)) {
        write(*self as u32);
    }

    fn read(read: &mut dyn FnMut() -> u32) -> Self {
        match read() & 3 {
            0 => Self::Uncongested,
            1 => Self::Congested,
            2 => Self::Drain,
            _ => Self::Victim,
        }
    }
}

impl ReactionPoint for Acc {
    type Settings = AccSettings;
    type Params = Params;

    const NAME: &'static str = "acc";
    const PRESETS: &'static [Preset<AccSettings>] = parameters::PRESETS;
    const EVENTS: EventSet = EventSet::SENT.with(EventSet::ACK).with(EventSet::NACK).with(EventSet::WAKE);
    const SIGNALS: Signals = Signals::MARK.with(Signals::UNDETERMINED);
    const RECEIVER: Option<&'static str> = Some("echo");
    #[rustfmt::skip]
    const TRANSITIONS: &'static [&'static str] = &[
        "idle, sent: a period begins",
        "idle, anything else: nothing",
        "halted, sent: counted",
        "halted, ACK: counted, ends the halt if it is the last",
        "halted, NACK: nothing is in flight any more",
        "halted, wake: periods that are over held the rate, the halt may end",
        "drain, sent: counted",
        "drain, ACK: counted, begins a new period if it passes the guard",
        "drain, NACK: nothing is in flight any more",
        "drain, wake: periods that are over held the rate",
        "measuring, sent: counted",
        "measuring, ACK: counted, its mark too",
        "measuring, NACK: nothing is in flight any more",
        "measuring, wake: periods that are over are judged",
    ];

    fn check(settings: &AccSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn limits(params: &Params, _link: &Link) -> Limits {
        Limits { rate: params.floor, window: Bytes::MAX, hold: LONGEST_HALT }
    }

    fn transition(&self, _cx: &Cx<'_, Params>, event: &Event<'_>) -> usize {
        let column: usize = match event {
            Event::Sent { .. } => 0,
            Event::Ack(_) => 1,
            Event::Nack { .. } => 2,
            _ => 3,
        };
        if !self.has(RUNNING) {
            column.min(1)
        } else if self.has(HALTED) {
            column.wrapping_add(2)
        } else if self.has(GUARDED) {
            column.wrapping_add(6)
        } else {
            column.wrapping_add(10)
        }
    }

    fn open(cx: &Cx<'_, Params>) -> Self {
        let now = cx.now.stamp();
        Self {
            rate: cx.params.line,
            period_end: now,
            halt_until: now,
            sent: Bytes::ZERO,
            sent_before: Bytes::ZERO,
            acked: Bytes::ZERO,
            in_flight: Bytes::ZERO,
            guard: Psn::new(0),
            next: Psn::new(0),
            mode: Mode::Uncongested,
            run: 0,
            extended: 0,
            flags: 0,
        }
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>) -> Decision {
        let (p, now) = (cx.params, cx.now.stamp());
        self.catch_up(p, now);
        match event {
            Event::Sent { psn, bytes } => self.sent(p, now, *psn, *bytes),
            Event::Ack(ack) => self.acknowledged(p, now, ack),
            Event::Nack { psn } => self.refused(p, now, *psn),
            _ => {}
        }
        Decision {
            rate: self.rate,
            window: Bytes::MAX,
            hold: if self.has(HALTED) { self.halt_until.since(now).min(LONGEST_HALT) } else { Nanos::ZERO },
            wake_in: if self.has(RUNNING) { self.period_end.since(now) } else { Nanos::MAX },
        }
    }
}

impl Acc {
    /// R(i): the rate of the flow when it does not halt.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// What the last period showed.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Sent and not acknowledged.
    pub const fn in_flight(&self) -> Bytes {
        self.in_flight
    }

    /// When the period ends, if one is running.
    pub const fn period_end(&self) -> Option<Stamp> {
        if self.has(RUNNING) { Some(self.period_end) } else { None }
    }

    /// When the halt ends, if the flow halts.
    pub const fn halt_until(&self) -> Option<Stamp> {
        if self.has(HALTED) { Some(self.halt_until) } else { None }
    }

    #[inline]
    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    // Bytes sent and acknowledged.

    #[inline]
    fn sent(&mut self, p: &Params, now: Stamp, psn: Psn, bytes: Bytes) {
        if !self.has(RUNNING) {
            self.begin(p, now);
            self.sent_before = Bytes::ZERO;
            self.flags |= RUNNING;
        }
        self.in_flight = self.in_flight.saturating_add(bytes);
        if !self.has(STARTED) || !self.next.is_after(psn) {
            self.next = psn.plus(1);
            self.flags |= STARTED;
            self.sent = self.sent.saturating_add(bytes);
        }
    }

    #[inline]
    fn acknowledged(&mut self, p: &Params, now: Stamp, ack: &Ack<'_>) {
        if !self.has(STARTED) || !self.next.is_after(ack.psn) {
            return; // acknowledges a packet that this flow never sent
        }
        self.in_flight = self.in_flight.saturating_sub(ack.acked);
        self.acked = self.acked.saturating_add(ack.acked);
        self.arrived(p, now, ack.psn);
        self.flags |= FEEDBACK;
        if !self.has(GUARDED) {
            self.flags |= match ack.mark {
                Mark::None => 0,
                Mark::Undetermined => UE,
                Mark::Congested => CE,
            };
        }
        if self.in_flight == Bytes::ZERO {
            self.flags &= !HALTED;
        }
    }

    /// A negative acknowledgement: everything before `psn` has arrived, and the packets from there on are lost.
    #[inline]
    fn refused(&mut self, p: &Params, now: Stamp, psn: Psn) {
        let last = psn.plus(u32::MAX);
        if self.has(STARTED) && self.next.is_after(last) {
            self.in_flight = Bytes::ZERO;
            self.arrived(p, now, last);
        }
    }

    /// Everything up to `psn` has arrived. If that passes the guard, the drain ends and a period begins.
    #[inline]
    fn arrived(&mut self, p: &Params, now: Stamp, psn: Psn) {
        if self.has(GUARDED) && (psn == self.guard || psn.has_passed(self.guard)) {
            self.flags &= !GUARDED;
            self.begin(p, now);
        }
    }

    // Periods.

    /// Begins a period and resets its counts.
    #[inline]
    fn begin(&mut self, p: &Params, now: Stamp) {
        self.sent_before = self.sent;
        self.sent = Bytes::ZERO;
        self.acked = Bytes::ZERO;
        self.extended = 0;
        self.flags &= !(FEEDBACK | CE | UE);
        self.period_end = now.after(p.period(self.rate));
    }

    /// Evaluates the periods that are over at `now`, each as of its end.
    #[inline]
    fn catch_up(&mut self, p: &Params, now: Stamp) {
        while self.has(RUNNING) && self.period_end.is_due(now) {
            self.end(p, now);
        }
        if self.has(HALTED) && self.halt_until.is_due(now) {
            self.flags &= !HALTED;
        }
    }

    /// Evaluates the period that ended at `period_end`, and begins the next.
    #[inline]
    fn end(&mut self, p: &Params, now: Stamp) {
        let end = self.period_end;
        let halted = self.has(HALTED) && !self.halt_until.is_due(end);
        if self.has(CE) {
            self.congested(p, end);
        } else if halted || (self.has(GUARDED) && self.has(FEEDBACK)) {
            self.mode = Mode::Drain;
        } else if self.has(UE) {
            self.victim(p);
        } else if self.has(FEEDBACK) {
            self.uncongested(p);
        } else {
            return self.no_feedback(p, end, now);
        }
        self.begin(p, end);
    }

    /// A congested flow: throttles the rate, and halts for as long as the excess takes to drain.
    fn congested(&mut self, p: &Params, end: Stamp) {
        self.throttle(p);
        let mut excess = self.sent_before.saturating_sub(self.acked);
        if !p.is_literal {
            excess = excess.max(self.in_flight.saturating_sub(self.rate.bytes_in(p.base_rtt)));
        }
        let halt = self.rate.time_for(excess).min(p.longest_halt(self.rate));
        self.halt_until = end.after(halt);
        self.guard = self.next;
        self.flags |= GUARDED | HALTED;
        if halt == Nanos::ZERO {
            self.flags &= !HALTED;
        }
        (self.mode, self.run) = (Mode::Congested, 0);
    }

    /// A victim of pauses: throttles the rate once enough periods in a row had UE marks.
    fn victim(&mut self, p: &Params) {
        self.judge(Mode::Victim);
        if self.run >= p.ue_periods {
            self.throttle(p);
        }
    }

    /// An uncongested flow: raises the rate, gradually at first and then aggressively.
    #[inline]
    fn uncongested(&mut self, p: &Params) {
        self.judge(Mode::Uncongested);
        let step = if self.run <= p.gradual_periods { p.gradual_step } else { self.rate.min(p.aggressive_bound) };
        self.rate = self.rate.saturating_add(step).min(p.line);
    }

    /// Sets the mode, and counts the periods in a row in it.
    #[inline]
    fn judge(&mut self, mode: Mode) {
        self.run = if self.mode == mode { self.run.wrapping_add(1).min(LONGEST_RUN) } else { 1 };
        self.mode = mode;
    }

    /// R(i), the lesser of the rate and the rate of acknowledgements.
    fn throttle(&mut self, p: &Params) {
        if self.acked != Bytes::ZERO {
            let periods = u32::from(self.extended).wrapping_add(1);
            let time = Nanos::new(p.period(self.rate).get().saturating_mul(periods));
            self.rate = self.rate.min(self.acked.per(time)).max(p.floor);
        }
    }

    /// Ends a period without any acknowledgement: stops when nothing is in flight, else extends the period, and after the last
    /// extension halves the rate.
    #[cold]
    fn no_feedback(&mut self, p: &Params, end: Stamp, now: Stamp) {
        let mut periods = 1;
        if self.in_flight == Bytes::ZERO {
            self.flags &= !RUNNING;
        } else if self.extended < EXTENSIONS {
            self.extended = self.extended.wrapping_add(1);
        } else if self.rate > p.floor {
            self.rate = Rate::from_bits(self.rate.to_bits() >> 1).max(p.floor);
            self.extended = 0;
        } else {
            // At the floor all further periods are alike: skip those that are over.
            periods = now.since(end).get().checked_div(p.period(self.rate).get()).unwrap_or(0).wrapping_add(1);
        }
        self.period_end = end.after(Nanos::new(p.period(self.rate).get().wrapping_mul(periods)));
    }
}
