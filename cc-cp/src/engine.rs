//! The queues of one switch and their congestion points.

use crate::{Cx, Event, Packet, Stage, Verdict};
use cc_core::clock::LocalClock;
use cc_core::{Bytes, Instant, Link, Mark, Nanos, Stamp};
use core::fmt;

/// What one queue has counted since it was first configured.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CpCounters {
    /// Packets that left the queue.
    pub packets: u64,
    /// Packets that left with CE and had come without.
    pub ecn_marked: u64,
    /// Packets without ECT that would have been marked for certain (for RED: above Kmax). They leave as they came.
    pub not_ect_above_kmax: u64,
    /// Pauses of the queue by the node downstream; what renews one is not counted.
    pub pfc_pauses: u64,
    /// How long all pauses that are over lasted together, in nanoseconds.
    pub pfc_paused_ns: u64,
    /// Pauses that lasted for 100 ms: storms. A resume ends one, and so does silence.
    pub pfc_storms: u64,
}

impl CpCounters {
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
}

/// A queue that the switch does not have. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoSuchQueue {
    /// The port asked for.
    pub port: usize,
    /// The priority asked for.
    pub priority: usize,
    /// How many ports there are.
    pub ports: usize,
    /// How many priorities a port has.
    pub priorities: usize,
}

impl fmt::Display for NoSuchQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, priority, ports, priorities } = self;
        write!(
            f,
            "no queue for port {port}, priority {priority}: ports are below {ports}, priorities below {priorities}"
        )
    }
}

impl core::error::Error for NoSuchQueue {}

struct Queue<S: Stage> {
    link: Link,
    params: S::Params,
    state: S,
    counters: CpCounters,
    pause: Option<Pause>,
}

/// The present pause of a queue.
#[derive(Clone, Copy)]
struct Pause {
    began: Instant,
    /// When it runs out by itself.
    until: Stamp,
    /// It was counted as a storm.
    storm: bool,
}

/// A pause that lasts so long is a storm.
const STORM: u64 = 100_000_000;

impl<S: Stage> Queue<S> {
    #[inline]
    fn on(&mut self, now: Instant, event: &Event) -> Verdict {
        self.state.on(&Cx { now, link: &self.link, params: &self.params }, event)
    }

    /// Ends a pause whose time ran out, and takes note of one that lasts.
    #[inline]
    fn expire(&mut self, now: Instant, queued: Bytes) {
        let Some(pause) = &mut self.pause else { return };
        let over = pause.until.is_due(now.stamp());
        let late = if over { u64::from(now.stamp().since(pause.until).get()) } else { 0 };
        let then = Instant::from_nanos(now.nanos().saturating_sub(late));
        if !pause.storm && then.nanos().saturating_sub(pause.began.nanos()) >= STORM {
            pause.storm = true;
            self.counters.pfc_storms = self.counters.pfc_storms.saturating_add(1);
        }
        if over {
            self.resume(then, queued);
        }
    }

    fn pause(&mut self, now: Instant, time: Nanos) {
        let until = now.stamp().after(time);
        match &mut self.pause {
            Some(pause) => pause.until = until,
            None => {
                self.pause = Some(Pause { began: now, until, storm: false });
                self.counters.pfc_pauses = self.counters.pfc_pauses.saturating_add(1);
            }
        }
        self.on(now, &Event::Paused);
    }

    fn resume(&mut self, now: Instant, queued: Bytes) {
        let Some(pause) = self.pause.take() else { return };
        let lasted = now.nanos().saturating_sub(pause.began.nanos());
        self.counters.pfc_paused_ns = self.counters.pfc_paused_ns.saturating_add(lasted);
        self.on(now, &Event::Resumed { queued });
    }
}

/// The place of a queue, which is zeros while it is empty, as an `Option` need not be.
#[repr(u8)]
enum Place<S: Stage> {
    Empty,
    Taken(Queue<S>),
}

/// The congestion points of a switch with `PORTS` ports of `PRIORITIES` egress queues each.
///
/// A queue marks nothing until it is configured. That is how the queue of CNPs and other control traffic is kept
/// free of marks: leave it alone. [`CpEngine::wake`] is to be called at least once a second. The time passed to any call may
/// jump: see [`LocalClock`].
pub struct CpEngine<S: Stage, const PORTS: usize, const PRIORITIES: usize> {
    /// Since the first call.
    clock: Option<LocalClock>,
    queues: [[Place<S>; PRIORITIES]; PORTS],
    seed: u64,
}

impl<S: Stage, const PORTS: usize, const PRIORITIES: usize> CpEngine<S, PORTS, PRIORITIES> {
    /// The longest pause that a queue is taken to be in without hearing of it again: far above what a frame can say
    /// at 1 Gb/s, 33.6 ms.
    const LONGEST_PAUSE: Nanos = Nanos::new(400_000_000);

    /// A switch whose queues mark nothing yet. Equal seeds give equal verdicts on equal packets.
    pub const fn new(seed: u64) -> Self {
        Self { clock: None, queues: [const { [const { Place::Empty }; PRIORITIES] }; PORTS], seed }
    }

    /// The same with this seed, of a switch that has configured no queue.
    pub const fn seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Local time at a call made at `now`.
    #[inline]
    fn local(&mut self, now: Instant) -> Instant {
        self.clock.get_or_insert(LocalClock::new(now)).advance(now)
    }

    /// How often the caller's clock has stepped forward by more than a second, and how often back.
    pub fn clock_steps(&self) -> (u32, u32) {
        self.clock.as_ref().map_or((0, 0), |clock| (clock.forward_jumps(), clock.backward_jumps()))
    }

    /// Sets the parameters of a queue, which come from [`CongestionPoint::check`](crate::CongestionPoint::check) for this
    /// link. On a queue that is running, its counters, its state and its random sequence go on.
    ///
    /// # Errors
    ///
    /// The switch has fewer ports, or the port fewer priorities.
    pub fn configure(
        &mut self,
        now: Instant,
        port: usize,
        priority: usize,
        link: &Link,
        params: S::Params,
    ) -> Result<(), NoSuchQueue> {
        let now = self.local(now);
        let no_such_queue = NoSuchQueue { port, priority, ports: PORTS, priorities: PRIORITIES };
        let slot = self.queues.get_mut(port).and_then(|queues| queues.get_mut(priority)).ok_or(no_such_queue)?;
        match slot {
            Place::Taken(queue) => (queue.link, queue.params) = (*link, params),
            Place::Empty => {
                let seed = seed_of(self.seed, port.wrapping_mul(PRIORITIES).wrapping_add(priority));
                let state = S::open(&Cx { now, link, params: &params }, seed);
                let counters = CpCounters::default();
                *slot = Place::Taken(Queue { link: *link, params, state, counters, pause: None });
            }
        }
        Ok(())
    }

    /// A packet leaves a queue: what becomes of its ECN bits, see [`Verdict::apply`], and of its telemetry. A queue that
    /// is not configured, or does not exist, does nothing to it.
    #[inline]
    pub fn dequeue(&mut self, now: Instant, port: usize, priority: usize, packet: &Packet) -> Verdict {
        let now = self.local(now);
        let Some(queue) = self.queue(port, priority) else { return Verdict::PASS };
        queue.expire(now, packet.queued);
        let verdict = queue.on(now, &Event::Dequeue(*packet));
        queue.counters.count(packet, verdict);
        verdict
    }

    /// The node downstream paused a queue for so long, or resumed it (zero), when it held `queued` bytes. A pause that
    /// is not renewed ends by itself.
    pub fn pause(&mut self, now: Instant, port: usize, priority: usize, time: Nanos, queued: Bytes) {
        let now = self.local(now);
        let Some(queue) = self.queue(port, priority) else { return };
        queue.expire(now, queued);
        if time > Nanos::ZERO {
            queue.pause(now, time.min(Self::LONGEST_PAUSE));
        } else {
            queue.resume(now, queued);
        }
    }

    /// Lets time pass on all queues; `queued` tells how many bytes the queue of a port and a priority holds.
    pub fn wake(&mut self, now: Instant, mut queued: impl FnMut(usize, usize) -> Bytes) {
        let now = self.local(now);
        for (port, queues) in self.queues.iter_mut().enumerate() {
            for (priority, queue) in queues.iter_mut().enumerate() {
                let Place::Taken(queue) = queue else { continue };
                queue.expire(now, queued(port, priority));
                queue.on(now, &Event::Wake);
            }
        }
    }

    #[inline]
    fn queue(&mut self, port: usize, priority: usize) -> Option<&mut Queue<S>> {
        match self.queues.get_mut(port)?.get_mut(priority)? {
            Place::Taken(queue) => Some(queue),
            Place::Empty => None,
        }
    }

    /// What a queue has counted; `None` if it is not configured.
    pub fn counters(&self, port: usize, priority: usize) -> Option<&CpCounters> {
        match self.queues.get(port)?.get(priority)? {
            Place::Taken(queue) => Some(&queue.counters),
            Place::Empty => None,
        }
    }
}

impl CpCounters {
    #[inline]
    fn count(&mut self, packet: &Packet, verdict: Verdict) {
        let marked = verdict.mark == Mark::Congested && verdict.apply(packet.ecn) != packet.ecn;
        self.packets = self.packets.saturating_add(1);
        self.ecn_marked = self.ecn_marked.saturating_add(u64::from(marked));
        self.not_ect_above_kmax = self.not_ect_above_kmax.saturating_add(u64::from(verdict.not_ect));
    }
}

/// Seeds of queues are far apart, so that no two ports draw the same marks (the odd constant of SplitMix64).
const fn seed_of(seed: u64, queue: usize) -> u64 {
    seed.wrapping_add((queue as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CongestionPoint;
    use crate::red::{Red, RedSettings};
    use crate::tcd::Tcd;
    use cc_core::{Ecn, Rate};
    use std::string::ToString;
    use std::vec::Vec;

    const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(10_000) };
    const HALF: RedSettings = RedSettings { kmin: 0, kmax: 200_000, pmax: 1_000_000, reference_rate: 0 };
    const NOW: Instant = Instant::from_nanos(0);

    fn half() -> crate::red::Params {
        Red::check(&HALF, &LINK).unwrap()
    }

    fn packet(queued: u32, ecn: Ecn) -> Packet {
        let queued = Bytes::new(queued);
        Packet { bytes: Bytes::new(1_064), queued, port_queued: queued, ecn }
    }

    #[test]
    fn a_pause_that_runs_out_is_a_resume_at_its_time() {
        let link = Link { line_rate: Rate::from_gbps(40), ..LINK };
        let params = Tcd::check(&Tcd::PRESETS[0].values, &link).unwrap();
        let mut switch = CpEngine::<Tcd, 2, 8>::new(1);
        for (port, priority) in [(0, 3), (0, 4), (1, 3)] {
            switch.configure(NOW, port, priority, &link, params).unwrap();
        }
        let at = |micros: u64| Instant::from_nanos(micros * 1_000);
        let mark = |switch: &mut CpEngine<Tcd, 2, 8>, now, port, priority| {
            switch.dequeue(at(now), port, priority, &packet(300_000, Ecn::Ect0)).mark
        };
        let queued = Bytes::new(300_000);
        switch.pause(at(10), 0, 3, Nanos::new(50_000), queued);
        switch.pause(at(40), 0, 3, Nanos::new(60_000), queued); // renewed: until 100 us
        assert_eq!(mark(&mut switch, 150, 0, 3), Mark::Undetermined, "50 us after the pause ran out");
        assert_eq!(mark(&mut switch, 197, 0, 3), Mark::Undetermined, "97 us after");
        assert_eq!(mark(&mut switch, 198, 0, 3), Mark::Congested);
        // A resume of a queue that is not paused is none, and other priorities and ports are left alone.
        switch.pause(at(210), 0, 3, Nanos::ZERO, queued);
        for (port, priority) in [(0, 3), (0, 4), (1, 3)] {
            assert_eq!(mark(&mut switch, 211, port, priority), Mark::Congested);
        }
        switch.pause(at(300), 1, 3, Nanos::new(50_000), queued);
        switch.pause(at(310), 1, 3, Nanos::ZERO, queued);
        assert_eq!(mark(&mut switch, 407, 1, 3), Mark::Undetermined);
        assert_eq!(mark(&mut switch, 408, 1, 3), Mark::Congested);
        switch.pause(at(500), 1, 3, Nanos::new(50_000), queued);
        for second in 0..5 {
            switch.wake(at(900_000 + 1_000_000 * second), |_, _| Bytes::new(1));
        }
        assert_eq!(mark(&mut switch, 5_000_000, 1, 3), Mark::Congested, "long ago");
    }

    #[test]
    fn a_clock_that_jumps_ends_no_pause_and_makes_no_storm() {
        let params = Tcd::check(&Tcd::PRESETS[0].values, &LINK).unwrap();
        for jump in [-9_000_000_000_i64, -1, 1_000_000_001, 3_000_000_000, i64::MAX >> 1] {
            let mut switch = CpEngine::<Tcd, 1, 1>::new(1);
            let before = 1 << 40_u64;
            let at = |nanos: u64| Instant::from_nanos(nanos);
            switch.configure(at(before), 0, 0, &LINK, params).unwrap();
            switch.pause(at(before), 0, 0, Nanos::new(1_000), Bytes::ZERO);
            switch.pause(at(before + 10), 0, 0, Nanos::ZERO, Bytes::ZERO);
            switch.pause(at(before + 20), 0, 0, Nanos::new(1_000), Bytes::ZERO);
            // Paused still, and undetermined since the resume, whatever the clock says.
            let after = before.wrapping_add_signed(jump + 20);
            for _ in 0..2 {
                let packet = packet(1_000_000, Ecn::Ect0);
                assert_eq!(switch.dequeue(at(after), 0, 0, &packet).mark, Mark::Undetermined, "{jump}");
            }
            let counters = *switch.counters(0, 0).unwrap();
            assert_eq!((counters.pfc_pauses, counters.pfc_paused_ns, counters.pfc_storms), (2, 10, 0));
            switch.wake(at(after + 2_000), |_, _| Bytes::ZERO);
            assert_eq!(switch.counters(0, 0).unwrap().pfc_paused_ns, 1_010, "{jump}");
            assert_eq!(switch.clock_steps(), (u32::from(jump > 0), u32::from(jump < 0)));
        }
    }

    /// E3, E5, E10: a storm is one only while it is paused, resumes end it, other ports keep out of it, and the time
    /// paused is counted.
    #[test]
    fn a_storm_of_pauses_ends_with_a_resume_and_stays_on_its_port_e3_e5_e10() {
        let mut switch = CpEngine::<Red, 2, 8>::new(1);
        for port in [0, 1] {
            switch.configure(NOW, port, 3, &LINK, half()).unwrap();
        }
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let shown = |switch: &CpEngine<Red, 2, 8>, port| {
            let CpCounters { pfc_pauses, pfc_paused_ns, pfc_storms, .. } = *switch.counters(port, 3).unwrap();
            (pfc_pauses, pfc_paused_ns / 1_000_000, pfc_storms)
        };
        let quantum = Nanos::new(3_000_000);
        for millis in 0..60 {
            switch.pause(at(2 * millis), 1, 3, quantum, Bytes::ZERO);
            switch.pause(at(2 * millis), 0, 3, Nanos::ZERO, Bytes::ZERO); // resumes are no pauses
        }
        assert_eq!(shown(&switch, 1), (1, 0, 1));
        switch.pause(at(119), 1, 3, Nanos::ZERO, Bytes::ZERO);
        assert_eq!(shown(&switch, 1), (1, 119, 1));
        for millis in 0..20 {
            switch.pause(at(200 + 2 * millis), 1, 3, Nanos::ZERO, Bytes::ZERO);
        }
        switch.pause(at(300), 1, 3, quantum, Bytes::ZERO);
        switch.wake(at(900), |_, _| Bytes::ZERO);
        assert_eq!(shown(&switch, 1), (2, 122, 1), "the second pause ran out by itself after 3 ms");
        assert_eq!(shown(&switch, 0), (0, 0, 0));
    }

    /// N + 1 ports are an error at configuration, and no later event of such a port does anything.
    #[test]
    fn a_port_beyond_the_last_is_refused_and_changes_nothing_e8() {
        let mut switch = CpEngine::<Red, 4, 8>::new(1);
        let error = switch.configure(NOW, 4, 0, &LINK, half()).unwrap_err();
        assert_eq!(error.to_string(), "no queue for port 4, priority 0: ports are below 4, priorities below 8");
        assert!(switch.configure(NOW, 3, 8, &LINK, half()).is_err());
        assert!(switch.configure(NOW, usize::MAX, usize::MAX, &LINK, half()).is_err());
        assert_eq!(switch.dequeue(NOW, 4, 0, &packet(u32::MAX, Ecn::Ect0)), Verdict::PASS);
        switch.pause(NOW, 4, 0, Nanos::new(1_000), Bytes::ZERO);
        assert!((0..5).all(|port| (0..9).all(|priority| switch.counters(port, priority).is_none())));
    }

    #[test]
    fn a_queue_that_is_not_configured_marks_nothing() {
        let mut switch = CpEngine::<Red, 2, 8>::new(1);
        switch.configure(NOW, 0, 3, &LINK, half()).unwrap();
        for (port, priority) in [(0, 0), (1, 3), (2, 3), (0, 8)] {
            assert_eq!(switch.dequeue(NOW, port, priority, &packet(u32::MAX, Ecn::Ect0)), Verdict::PASS);
        }
        assert_eq!(switch.dequeue(NOW, 0, 3, &packet(u32::MAX, Ecn::Ect0)).mark, Mark::Congested);
    }

    #[test]
    fn counters_tell_marks_from_what_could_not_be_marked() {
        let mut switch = CpEngine::<Red, 1, 1>::new(1);
        switch.configure(NOW, 0, 0, &LINK, half()).unwrap();
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            switch.dequeue(NOW, 0, 0, &packet(200_001, ecn));
            switch.dequeue(NOW, 0, 0, &packet(0, ecn));
        }
        let counters = switch.counters(0, 0).unwrap();
        assert_eq!(
            counters.named(),
            [
                ("packets", 8),
                ("ecn_marked", 2),
                ("not_ect_above_kmax", 1),
                ("pfc_pauses", 0),
                ("pfc_paused_ns", 0),
                ("pfc_storms", 0),
            ]
        );
    }

    #[test]
    fn queues_draw_different_marks_and_runs_repeat() {
        let run = |seed| -> [Vec<bool>; 2] {
            let mut switch = CpEngine::<Red, 2, 1>::new(seed);
            [0, 1].map(|port| {
                switch.configure(NOW, port, 0, &LINK, half()).unwrap();
                (0..256).map(|_| switch.dequeue(NOW, port, 0, &packet(100_000, Ecn::Ect0)).mark > Mark::None).collect()
            })
        };
        let first = run(7);
        assert_eq!(first, run(7));
        assert_ne!(first, run(8));
        assert_ne!(first[0], first[1]);
    }

    #[test]
    fn new_thresholds_keep_counters_and_the_random_sequence() {
        let (mut changed, mut left) = (CpEngine::<Red, 1, 1>::new(9), CpEngine::<Red, 1, 1>::new(9));
        for switch in [&mut changed, &mut left] {
            switch.configure(NOW, 0, 0, &LINK, half()).unwrap();
            switch.dequeue(NOW, 0, 0, &packet(100_000, Ecn::Ect0));
        }
        changed
            .configure(NOW, 0, 0, &LINK, Red::check(&RedSettings { kmin: 150_000, ..HALF }, &LINK).unwrap())
            .unwrap();
        assert_eq!(changed.dequeue(NOW, 0, 0, &packet(150_000, Ecn::Ect0)).mark, Mark::None);
        changed.configure(NOW, 0, 0, &LINK, half()).unwrap();
        for _ in 0..64 {
            let packet = packet(100_000, Ecn::Ect0);
            assert_eq!(changed.dequeue(NOW, 0, 0, &packet), left.dequeue(NOW, 0, 0, &packet));
        }
        assert_eq!(changed.counters(0, 0).unwrap().packets, 66);
    }
}
