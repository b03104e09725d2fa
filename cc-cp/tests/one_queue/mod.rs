//! One queue of a stage, called as by a switch.

use cc_core::{Bytes, Ecn, Instant, Nanos};
use cc_cp::recorder::Recorder;
use cc_cp::{Cx, Event, Packet, Queue, QueueStage, Verdict};

/// A queue with its parameters.
pub struct OneQueue<S: QueueStage> {
    params: S::Params,
    pub state: S,
}

impl<S: QueueStage> OneQueue<S> {
    /// A queue before its first packet.
    pub fn new(params: S::Params, now: u64, seed: u64) -> Self {
        let mut state = <S as cc_core::Zeroed>::ZEROED;
        state.begin(&Cx { now: Instant::from_nanos(now), at: Queue::of(0), params: &params }, seed);
        Self { params, state }
    }

    pub fn on(&mut self, now: u64, event: &Event<'_>) -> Verdict {
        let cx = Cx { now: Instant::from_nanos(now), at: Queue::of(0), params: &self.params };
        self.state.on(&cx, event, &mut Recorder::default())
    }

    pub fn departs(&mut self, now: u64, bytes: u32, [queued, port_queued]: [u32; 2], ecn: Ecn) -> Verdict {
        let (packet, queued, port_queued) =
            (Packet::of(Bytes::new(bytes)), Bytes::new(queued), Bytes::new(port_queued));
        self.on(now, &Event::Departure { packet, ecn, queued, port_queued })
    }

    /// The neighbour pauses the queue for `time` nanoseconds, or resumes it (zero).
    pub fn pauses(&mut self, now: u64, time: u32, queued: u32) {
        let event = Event::Pause { time: Nanos::new(time), queued: Bytes::new(queued) };
        assert_eq!(self.on(now, &event), Verdict::PASS);
    }

    pub fn wakes(&mut self, now: u64) {
        let cx = Cx { now: Instant::from_nanos(now), at: Queue::of(0), params: &self.params };
        self.state.wake(&cx, &mut Recorder::default());
    }
}
