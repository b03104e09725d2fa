//! A switch: its stages, and what they have in common: the clock, the pauses received and sent, and the counters of each queue.

use crate::stage::REST;
use crate::{ConfigureError, Emit, Event, Kind, Queue, Stage, Verdict};
use cc_core::clock::LocalClock;
use cc_core::table::{Array, Storage};
use cc_core::wire::pfc::Quantum;
use cc_core::{Bytes, Ecn, Instant, Link, Mark, Nanos, Stamp, Zeroed};

/// Sends the frames of the switch itself, PFC frames, in addition to those of its stages.
pub trait SendPfc: Emit {
    /// Sends a PFC frame through the port, for the class, with this pause time in quanta; zero resumes.
    fn pfc(&mut self, at: Queue, quanta: u16);
}

cc_core::zeroed! {
    /// Counters of one queue since it was first configured.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct QueueCounters {
        /// Packets that left the queue.
        pub packets: u64,
        /// Packets that this switch marked with CE.
        pub ecn_marked: u64,
        /// Packets without ECT that would have been marked with certainty (for RED: above Kmax). They leave unmarked.
        pub not_ect_above_kmax: u64,
        /// Pauses of the queue by the neighbour, if a stage takes pauses. A frame that renews a pause is not counted.
        pub pfc_pauses: u64,
        /// Total duration of the pauses that have ended, in nanoseconds.
        pub pfc_paused_ns: u64,
        /// PFC storms: pauses of 100 ms or longer. A pause ends with a resume, or when its time has passed.
        pub pfc_storms: u64,
    }
}

impl QueueCounters {
    /// The counters with their names.
    pub const fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("packets", self.packets),
            ("ecn_marked", self.ecn_marked),
            ("not_ect_above_kmax", self.not_ect_above_kmax),
            ("pfc_pauses", self.pfc_pauses),
            ("pfc_paused_ns", self.pfc_paused_ns),
            ("pfc_storms", self.pfc_storms),
        ]
    }

    #[inline]
    fn count(&mut self, ecn: Ecn, verdict: &Verdict) {
        let marked = verdict.mark == Mark::Congested && verdict.apply(ecn) != ecn;
        self.packets = self.packets.saturating_add(1);
        self.ecn_marked = self.ecn_marked.saturating_add(u64::from(marked));
        self.not_ect_above_kmax = self.not_ect_above_kmax.saturating_add(u64::from(verdict.not_ect));
    }
}

cc_core::zeroed! {
    /// The switch's record of a queue, independent of its stages.
    struct Record {
        counters: QueueCounters,
        /// When the pause by the neighbour began, while `paused`.
        began: Instant,
        /// When that pause ends unless it is renewed.
        until: Stamp,
        /// When the pause of the neighbour by this switch is to be renewed, while there is one.
        renew_at: Stamp,
        /// The PFC quantum of the port, 512 bit times.
        quantum: Quantum,
        /// The quanta of the last PFC frame to the neighbour; zero if it is not paused.
        sent_quanta: u16,
        configured: bool,
        /// The queue is paused by the neighbour.
        paused: bool,
        /// The present pause was counted as a storm.
        storm: bool,
    }
}

/// Duration from which a pause counts as a PFC storm, in nanoseconds: 100 ms.
const STORM: u64 = 100_000_000;
/// Upper bound of the pause that one frame sets: 400 ms. At 1 Gb/s the longest that a frame can express is 33.6 ms.
const LONGEST_PAUSE: Nanos = Nanos::new(400_000_000);

/// A switch that runs these stages on its queues.
///
/// A queue has no effect until it is configured. Do not configure the queue of CNPs and other control traffic: its packets are
/// then not marked. The time passed to any call may jump: see [`LocalClock`].
#[expect(missing_debug_implementations, reason = "thousands of records")]
pub struct Switch<G, Q: Storage> {
    clock: LocalClock,
    /// When [`Switch::wake`] is due, in local time.
    due: Instant,
    stages: G,
    queues: Q::Array<Record>,
}

impl<G: Stage, Q: Storage> Zeroed for Switch<G, Q> {
    const ZEROED: Self = Self {
        clock: LocalClock::new(Instant::from_nanos(0)),
        due: Instant::from_nanos(0),
        stages: G::ZEROED,
        queues: Zeroed::ZEROED,
    };
}

impl<G: Stage, Q: Storage> Switch<G, Q> {
    /// Bytes that each further queue adds to the switch, in addition to those of its stages.
    pub const QUEUE_BYTES: usize = size_of::<Record>();

    /// A switch on which no queue is configured.
    pub fn new(start: Instant) -> Self {
        let mut switch = Self::ZEROED;
        switch.begin(start);
        switch
    }

    /// Initializes a zeroed switch in place. The result is that of [`Switch::new`].
    pub fn begin(&mut self, start: Instant) {
        self.clock.start(start);
        self.due = start.after(REST);
    }

    /// Allocates this number of queues, if they are on the heap; all of them are zeroed.
    pub fn make_room(&mut self, queues: usize) {
        self.stages.make_room(queues);
        if let Some(records) = Array::of_len(queues) {
            self.queues = records;
        }
    }

    /// The stages.
    pub const fn stages(&self) -> &G {
        &self.stages
    }

    /// The stages, to change their setup before queues are configured.
    pub const fn stages_mut(&mut self) -> &mut G {
        &mut self.stages
    }

    /// Configures one queue, or changes its settings and keeps its state and its counters: see [`Stage::configure`].
    ///
    /// # Errors
    /// A setting out of range or wrong on this link, or no such queue.
    pub fn configure(
        &mut self,
        now: Instant,
        at: Queue,
        link: &Link,
        settings: &G::Settings,
        seed: u64,
    ) -> Result<(), ConfigureError> {
        let now = self.clock.advance(now);
        let queues = self.queues.items_mut();
        let ports = queues.len() >> 3;
        let record = queues.get_mut(at.index()).ok_or(ConfigureError::NoSuchQueue { at, ports })?;
        self.stages.configure(now, at, link, settings, seed)?;
        record.configured = true;
        if G::PAUSES {
            record.quantum = Quantum::at(link.line_rate);
        }
        Ok(())
    }

    /// The counters of a queue; `None` if it is not configured.
    pub fn counters(&self, at: Queue) -> Option<&QueueCounters> {
        self.queues.items().get(at.index()).filter(|record| record.configured).map(|record| &record.counters)
    }

    /// Number of jumps of the caller's clock forward by more than 1 s, and number of jumps back.
    pub const fn clock_steps(&self) -> (u32, u32) {
        (self.clock.forward_jumps(), self.clock.backward_jumps())
    }

    /// Processes an event of a queue, and returns the verdict on its packet. For a queue that is not configured, or does not
    /// exist, the verdict is [`Verdict::PASS`].
    #[inline(always)]
    pub fn on(&mut self, now: Instant, at: Queue, event: &Event<'_>, out: &mut impl SendPfc) -> Verdict {
        let now = self.clock.advance(now);
        let Self { stages, queues, due, .. } = self;
        let Some(record) = queues.items_mut().get_mut(at.index()) else { return Verdict::PASS };
        let takes = stages.takes();
        if !record.configured || !takes.contains(event.kind()) {
            return Verdict::PASS;
        }
        let verdict = match *event {
            Event::Departure { ecn, queued, .. } => {
                if takes.contains(Kind::Pause) && record.paused {
                    record.expire(now, at, queued, stages, out);
                }
                let verdict = stages.on(now, at, event, out);
                record.counters.count(ecn, &verdict);
                verdict
            }
            Event::Pause { time, queued } if takes.contains(Kind::Pause) => {
                record.pause(now, at, time, queued, stages, out);
                Verdict::PASS
            }
            _ => {
                if takes.contains(Kind::Pause) && record.paused {
                    record.expire(now, at, out.queued(at), stages, out);
                }
                stages.on(now, at, event, out)
            }
        };
        if G::PAUSES || G::TIMED {
            record.settle(now, at, stages, due, out);
        }
        verdict
    }

    /// Processes the passing of time on all queues. To be called repeatedly while [`Switch::next_wake`] is not after `now`.
    pub fn wake(&mut self, now: Instant, out: &mut impl SendPfc) {
        let now = self.clock.advance(now);
        let Self { stages, queues, due, .. } = self;
        let mut rest = REST;
        for (index, record) in queues.items_mut().iter_mut().enumerate() {
            let at = Queue::of(index);
            if stages.takes().contains(Kind::Pause) && record.paused {
                record.expire(now, at, out.queued(at), stages, out);
            }
            let wait = stages.wake(now, at, out);
            if G::TIMED
                && let Some(wait) = wait
            {
                rest = rest.min(wait);
            }
            // Stages without deadlines begin and end their pauses at events, after which [`Record::settle`] reads them.
            if G::PAUSES && (G::TIMED || record.sent_quanta != 0) {
                let quanta = stages.pausing(at);
                let renew = quanta != 0 && record.sent_quanta != 0 && record.renew_at.is_due(now.stamp());
                if renew || (quanta == 0) != (record.sent_quanta == 0) {
                    record.send_pfc(now, at, quanta, out);
                }
                if quanta != 0 {
                    rest = rest.min(record.renew_at.since(now.stamp()));
                }
            }
        }
        *due = now.after(rest);
    }

    /// When [`Switch::wake`] is to be called next, by the caller's clock.
    #[inline]
    pub fn next_wake(&self) -> Instant {
        let offset = self.clock.last_call().nanos().wrapping_sub(self.clock.now().nanos());
        Instant::from_nanos(self.due.nanos().wrapping_add(offset))
    }
}

/// Makes `due` no later than `now` plus `wait`.
#[inline]
fn hasten(due: &mut Instant, now: Instant, wait: Nanos) {
    let other = now.after(wait);
    if other.nanos() < due.nanos() {
        *due = other;
    }
}

impl Record {
    /// Sends a pause or a resume if the pause of the stages differs from that of the last PFC frame, and moves the next wake to
    /// the time that the stages need, if that is earlier.
    #[inline(always)]
    fn settle<G: Stage>(&mut self, now: Instant, at: Queue, stages: &G, due: &mut Instant, out: &mut impl SendPfc) {
        if G::PAUSES {
            let quanta = stages.pausing(at);
            if (quanta == 0) != (self.sent_quanta == 0) {
                self.send_pfc(now, at, quanta, out);
                if quanta != 0 {
                    hasten(due, now, self.renew_at.since(now.stamp()));
                }
            }
        }
        if G::TIMED
            && let Some(wait) = stages.next_wake(now, at)
        {
            hasten(due, now, wait);
        }
    }

    /// Pauses the neighbour for this number of quanta, or resumes it (zero). A pause is renewed after half of its time.
    #[inline(never)]
    fn send_pfc(&mut self, now: Instant, at: Queue, quanta: u16, out: &mut impl SendPfc) {
        self.sent_quanta = quanta;
        self.renew_at = now.stamp().after(Nanos::new((self.quantum.pause(quanta).get() >> 1).max(1)));
        out.pfc(at, quanta);
    }

    /// Counts a pause that has become a storm, and ends a pause whose time has passed.
    #[inline(never)]
    fn expire<G: Stage>(&mut self, now: Instant, at: Queue, queued: Bytes, stages: &mut G, out: &mut impl SendPfc) {
        let over = self.until.is_due(now.stamp());
        let late = if over { u64::from(now.stamp().since(self.until).get()) } else { 0 };
        let then = Instant::from_nanos(now.nanos().saturating_sub(late));
        if !self.storm && then.nanos().saturating_sub(self.began.nanos()) >= STORM {
            self.storm = true;
            self.counters.pfc_storms = self.counters.pfc_storms.saturating_add(1);
        }
        if over {
            self.resume(then, at, queued, stages, out);
        }
    }

    /// Processes a PFC frame of the neighbour, which pauses the queue for `time`, or resumes it (zero).
    #[inline(always)]
    fn pause<G: Stage>(
        &mut self,
        now: Instant,
        at: Queue,
        time: Nanos,
        queued: Bytes,
        stages: &mut G,
        out: &mut impl SendPfc,
    ) {
        if self.paused {
            self.expire(now, at, queued, stages, out);
        }
        if time == Nanos::ZERO {
            self.resume(now, at, queued, stages, out);
            return;
        }
        let time = time.min(LONGEST_PAUSE);
        self.until = now.stamp().after(time);
        if !self.paused {
            (self.paused, self.storm, self.began) = (true, false, now);
            self.counters.pfc_pauses = self.counters.pfc_pauses.saturating_add(1);
        }
        stages.on(now, at, &Event::Pause { time, queued }, out);
    }

    #[inline(never)]
    fn resume<G: Stage>(&mut self, now: Instant, at: Queue, queued: Bytes, stages: &mut G, out: &mut impl SendPfc) {
        if self.paused {
            self.paused = false;
            let lasted = now.nanos().saturating_sub(self.began.nanos());
            self.counters.pfc_paused_ns = self.counters.pfc_paused_ns.saturating_add(lasted);
        }
        stages.on(now, at, &Event::Pause { time: Nanos::ZERO, queued }, out);
    }
}
