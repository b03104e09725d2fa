//! A stage of independent queues: one state for each queue.

use crate::{ConfigureError, Cx, Emit, Event, Inspect, Kinds, OnQueues, Queue, QueueStage, Stage, StageSizes, Verdict};
use cc_core::params::Preset;
use cc_core::table::{Array, Storage};
use cc_core::{Bytes, Instant, Link, Nanos, Rate, State, Zeroed};

/// A [`Stage`] made of a [`QueueStage`]: the states of all queues of a switch.
///
/// The state of a queue begins at its first event, so that a queue without traffic has no deadlines.
#[expect(missing_debug_implementations, reason = "thousands of records")]
pub struct PerQueue<S: QueueStage, Q: Storage> {
    seed: u64,
    places: Q::Array<Place<S>>,
}

/// What is stored for one queue.
struct Place<S: QueueStage> {
    state: S,
    params: S::Params,
    phase: u8,
}

/// The queue is not configured.
const ZEROED: u8 = 0;
/// The queue is configured, and has had no event.
const CONFIGURED: u8 = 1;
/// The queue has had an event, and has a state.
const OPEN: u8 = 2;

impl<S: QueueStage> Zeroed for Place<S> {
    const ZEROED: Self = Self { state: S::ZEROED, params: S::Params::ZEROED, phase: ZEROED };
}

impl<S: QueueStage> Place<S> {
    /// The context of a queue, and its state.
    #[inline]
    fn parts(&mut self, now: Instant, at: Queue) -> (Cx<'_, S::Params>, &mut S) {
        (Cx { now, at, params: &self.params }, &mut self.state)
    }

    /// Begins the state at the first event of a configured queue. Returns whether the queue has a state.
    #[cold]
    #[inline(never)]
    fn open(&mut self, now: Instant, at: Queue, seed: u64) -> bool {
        if self.phase == CONFIGURED {
            self.phase = OPEN;
            let (cx, state) = self.parts(now, at);
            state.begin(&cx, seed_of(seed, at.index()));
        }
        self.phase == OPEN
    }
}

impl<S: QueueStage, Q: Storage> PerQueue<S, Q> {
    /// Bytes of one queue.
    const PLACE: usize = size_of::<Place<S>>();

    #[inline]
    fn place(&self, at: Queue) -> Option<&Place<S>> {
        self.places.items().get(at.index()).filter(|place| place.phase == OPEN)
    }

    /// The state of a queue; `None` before its first event.
    pub fn state(&self, at: Queue) -> Option<&S> {
        self.place(at).map(|place| &place.state)
    }
}

impl<S: QueueStage, Q: Storage> Zeroed for PerQueue<S, Q> {
    const ZEROED: Self = Self { seed: 0, places: Zeroed::ZEROED };
}

impl<S: QueueStage, Q: Storage> Stage for PerQueue<S, Q> {
    type Settings = S::Settings;

    const NAME: &'static str = S::NAME;
    const PRESETS: &'static [Preset<S::Settings>] = S::PRESETS;
    const TAKES: Kinds = S::TAKES;
    const READS_HEADERS: bool = S::READS_HEADERS;
    const REWRITES: bool = S::REWRITES;
    const PAUSES: bool = S::PAUSES;
    const TIMED: bool = S::TIMED;
    const SIZES: StageSizes = StageSizes {
        state: size_of::<S>() - S::FLOWS * S::FLOW_BYTES,
        queue: Self::PLACE - S::FLOWS * S::FLOW_BYTES,
        flow: S::FLOW_BYTES,
        flows: S::FLOWS,
    };

    fn make_room(&mut self, queues: usize) {
        if let Some(places) = Array::of_len(queues) {
            self.places = places;
        }
    }

    fn configure(
        &mut self,
        _now: Instant,
        at: Queue,
        link: &Link,
        settings: &S::Settings,
        seed: u64,
    ) -> Result<(), ConfigureError> {
        let params = S::check(settings, link)?;
        let places = self.places.items_mut();
        let ports = places.len() >> 3;
        let place = places.get_mut(at.index()).ok_or(ConfigureError::NoSuchQueue { at, ports })?;
        place.params = params;
        place.phase = place.phase.max(CONFIGURED);
        self.seed = seed;
        Ok(())
    }

    #[inline(always)]
    fn on(&mut self, now: Instant, at: Queue, event: &Event<'_>, out: &mut impl Emit) -> Verdict {
        if !S::TAKES.contains(event.kind()) {
            return Verdict::PASS;
        }
        let Some(place) = self.places.items_mut().get_mut(at.index()) else { return Verdict::PASS };
        if place.phase != OPEN && !place.open(now, at, self.seed) {
            return Verdict::PASS;
        }
        let (cx, state) = place.parts(now, at);
        state.on(&cx, event, out)
    }

    #[inline(always)]
    fn wake(&mut self, now: Instant, at: Queue, out: &mut impl Emit) -> Option<Nanos> {
        let place = self.places.items_mut().get_mut(at.index()).filter(|place| place.phase == OPEN)?;
        let (cx, state) = place.parts(now, at);
        state.wake(&cx, out);
        if S::TIMED { state.next_wake(&cx) } else { None }
    }

    #[inline(always)]
    fn next_wake(&self, now: Instant, at: Queue) -> Option<Nanos> {
        let Place { state, params, .. } = self.place(at)?;
        state.next_wake(&Cx { now, at, params })
    }

    #[inline]
    fn pseudo_queue(&self, at: Queue) -> Option<(Bytes, Rate)> {
        self.state(at)?.pseudo_queue()
    }

    #[inline(always)]
    fn pausing(&self, at: Queue) -> u16 {
        self.place(at).map_or(0, |place| place.state.pausing(&place.params))
    }
}

impl<S: QueueStage, Q: Storage> Inspect for PerQueue<S, Q> {
    type Snapshot = S::Snapshot;

    fn snapshot(&self, at: Queue) -> Option<S::Snapshot> {
        self.state(at).map(State::snapshot)
    }

    fn inject(&mut self, at: Queue, snapshot: S::Snapshot) -> bool {
        let place = self.places.items_mut().get_mut(at.index()).filter(|place| place.phase == OPEN);
        place.map(|place| place.state = S::from_snapshot(snapshot)).is_some()
    }
}

impl<S: QueueStage> OnQueues for S {
    type Stage<Q: Storage> = PerQueue<S, Q>;
}

/// The seed of the queue with this index, of a switch with this seed. The seeds of two queues are far apart, multiples of the odd constant of SplitMix64, so that no two
/// ports draw the same marks.
pub const fn seed_of(seed: u64, queue: usize) -> u64 {
    seed.wrapping_add((queue as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
