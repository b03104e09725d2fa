//! The queues of one switch and their congestion points.

use crate::{CongestionPoint, Cx, Packet, Verdict};
use cc_core::params::ParamError;
use cc_core::{Instant, Mark, Port};
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
}

impl CpCounters {
    /// The counters with their names.
    pub const fn named(&self) -> [(&'static str, u64); 3] {
        [("packets", self.packets), ("ecn_marked", self.ecn_marked), ("not_ect_above_kmax", self.not_ect_above_kmax)]
    }
}

/// Why a queue was not configured. Nothing changed.
#[derive(Clone, Copy, Debug)]
pub enum CpError {
    /// The switch has fewer ports, or the port fewer priorities.
    NoSuchQueue {
        /// The port asked for.
        port: usize,
        /// The priority asked for.
        priority: usize,
        /// How many ports there are.
        ports: usize,
        /// How many priorities a port has.
        priorities: usize,
    },
    /// A setting is wrong.
    Setting(ParamError),
}

impl fmt::Display for CpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchQueue { port, priority, ports, priorities } => write!(
                f,
                "no queue for port {port}, priority {priority}: ports are below {ports}, priorities below {priorities}"
            ),
            Self::Setting(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for CpError {}

struct Queue<A: CongestionPoint> {
    port: Port,
    params: A::Params,
    state: A,
    counters: CpCounters,
}

/// The congestion points of a switch with `PORTS` ports of `PRIORITIES` egress queues each.
///
/// A queue marks nothing until it is configured. That is how the queue of CNPs and other control traffic is kept
/// free of marks: leave it alone.
pub struct CpEngine<A: CongestionPoint, const PORTS: usize, const PRIORITIES: usize> {
    queues: [[Option<Queue<A>>; PRIORITIES]; PORTS],
    seed: u64,
}

impl<A: CongestionPoint, const PORTS: usize, const PRIORITIES: usize> CpEngine<A, PORTS, PRIORITIES> {
    /// A switch whose queues mark nothing yet. Equal seeds give equal verdicts on equal packets.
    pub const fn new(seed: u64) -> Self {
        Self { queues: [const { [const { None }; PRIORITIES] }; PORTS], seed }
    }

    /// Sets the thresholds of a queue. On a queue that is running, its counters and its random sequence go on.
    ///
    /// # Errors
    ///
    /// [`CpError::NoSuchQueue`] beyond the last port or priority; [`CpError::Setting`] by the algorithm's `check`.
    pub fn configure(
        &mut self,
        now: Instant,
        port: usize,
        priority: usize,
        link: &Port,
        settings: &A::Settings,
    ) -> Result<(), CpError> {
        let no_such_queue = CpError::NoSuchQueue { port, priority, ports: PORTS, priorities: PRIORITIES };
        let slot = self.queues.get_mut(port).and_then(|queues| queues.get_mut(priority)).ok_or(no_such_queue)?;
        let params = A::check(settings, link).map_err(CpError::Setting)?;
        match slot {
            Some(queue) => (queue.port, queue.params) = (*link, params),
            None => {
                let seed = seed_of(self.seed, port.wrapping_mul(PRIORITIES).wrapping_add(priority));
                let state = A::open(&Cx { now, port: link, params: &params }, seed);
                *slot = Some(Queue { port: *link, params, state, counters: CpCounters::default() });
            }
        }
        Ok(())
    }

    /// A packet leaves a queue: what becomes of its ECN bits, see [`Verdict::apply`]. A queue that is not configured,
    /// or does not exist, marks nothing.
    #[inline]
    pub fn dequeue(&mut self, now: Instant, port: usize, priority: usize, packet: &Packet) -> Verdict {
        let Some(Some(queue)) = self.queues.get_mut(port).and_then(|queues| queues.get_mut(priority)) else {
            return Verdict::default();
        };
        let cx = Cx { now, port: &queue.port, params: &queue.params };
        let verdict = queue.state.dequeue(&cx, packet);
        queue.counters.count(packet, verdict);
        verdict
    }

    /// What a queue has counted; `None` if it is not configured.
    pub fn counters(&self, port: usize, priority: usize) -> Option<&CpCounters> {
        let queue = self.queues.get(port)?.get(priority)?.as_ref()?;
        Some(&queue.counters)
    }
}

impl CpCounters {
    #[inline]
    fn count(&mut self, packet: &Packet, verdict: Verdict) {
        let marked = verdict.mark == Mark::Congested && verdict.apply(packet.ecn) != packet.ecn;
        self.packets = self.packets.saturating_add(1);
        self.ecn_marked = self.ecn_marked.saturating_add(u64::from(marked));
        self.not_ect_above_kmax = self.not_ect_above_kmax.saturating_add(u64::from(verdict.unmarkable));
    }
}

/// Seeds of queues are far apart, so that no two ports draw the same marks (the odd constant of SplitMix64).
const fn seed_of(seed: u64, queue: usize) -> u64 {
    seed.wrapping_add((queue as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::red::{Red, RedSettings};
    use cc_core::{Bytes, Ecn, Nanos, Rate};
    use std::string::ToString;
    use std::vec::Vec;

    const LINK: Port = Port { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(10_000) };
    const HALF: RedSettings = RedSettings { kmin: 0, kmax: 200_000, pmax: 1_000_000, reference_rate: 0 };
    const NOW: Instant = Instant::from_nanos(0);

    fn packet(queued: u32, ecn: Ecn) -> Packet {
        Packet { bytes: Bytes::new(1_064), queued: Bytes::new(queued), ecn }
    }

    #[test]
    fn a_port_beyond_the_last_is_refused_and_changes_nothing() {
        let mut switch = CpEngine::<Red, 4, 8>::new(1);
        let error = switch.configure(NOW, 4, 0, &LINK, &HALF).unwrap_err();
        assert_eq!(error.to_string(), "no queue for port 4, priority 0: ports are below 4, priorities below 8");
        assert!(switch.configure(NOW, 3, 8, &LINK, &HALF).is_err());
        let wrong = RedSettings { kmin: 1, kmax: 0, ..HALF };
        assert_eq!(switch.configure(NOW, 3, 7, &LINK, &wrong).unwrap_err().to_string(), "kmin: must be at most kmax");
        assert!((0..5).all(|port| (0..9).all(|priority| switch.counters(port, priority).is_none())));
    }

    #[test]
    fn a_queue_that_is_not_configured_marks_nothing() {
        let mut switch = CpEngine::<Red, 2, 8>::new(1);
        switch.configure(NOW, 0, 3, &LINK, &HALF).unwrap();
        for (port, priority) in [(0, 0), (1, 3), (2, 3), (0, 8)] {
            assert_eq!(switch.dequeue(NOW, port, priority, &packet(u32::MAX, Ecn::Ect0)), Verdict::default());
        }
        assert_eq!(switch.dequeue(NOW, 0, 3, &packet(u32::MAX, Ecn::Ect0)).mark, Mark::Congested);
    }

    #[test]
    fn counters_tell_marks_from_what_could_not_be_marked() {
        let mut switch = CpEngine::<Red, 1, 1>::new(1);
        switch.configure(NOW, 0, 0, &LINK, &HALF).unwrap();
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            switch.dequeue(NOW, 0, 0, &packet(200_001, ecn));
            switch.dequeue(NOW, 0, 0, &packet(0, ecn));
        }
        let counters = switch.counters(0, 0).unwrap();
        assert_eq!(counters.named(), [("packets", 8), ("ecn_marked", 2), ("not_ect_above_kmax", 1)]);
    }

    #[test]
    fn queues_draw_different_marks_and_runs_repeat() {
        let run = |seed| -> [Vec<bool>; 2] {
            let mut switch = CpEngine::<Red, 2, 1>::new(seed);
            [0, 1].map(|port| {
                switch.configure(NOW, port, 0, &LINK, &HALF).unwrap();
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
            switch.configure(NOW, 0, 0, &LINK, &HALF).unwrap();
            switch.dequeue(NOW, 0, 0, &packet(100_000, Ecn::Ect0));
        }
        changed.configure(NOW, 0, 0, &LINK, &RedSettings { kmin: 150_000, ..HALF }).unwrap();
        assert_eq!(changed.dequeue(NOW, 0, 0, &packet(150_000, Ecn::Ect0)).mark, Mark::None);
        changed.configure(NOW, 0, 0, &LINK, &HALF).unwrap();
        for _ in 0..64 {
            let packet = packet(100_000, Ecn::Ect0);
            assert_eq!(changed.dequeue(NOW, 0, 0, &packet), left.dequeue(NOW, 0, 0, &packet));
        }
        assert_eq!(changed.counters(0, 0).unwrap().packets, 66);
    }
}
