//! Two or more stages on the queues of one switch, combined at compile time.

use crate::stage::earlier;
use crate::{ConfigureError, Emit, Event, Inspect, Kinds, OnQueues, Queue, Stage, StageSizes, Verdict};
use cc_core::params::Preset;
use cc_core::table::Storage;
use cc_core::{Bytes, Instant, Link, Nanos, Rate, Zeroed};

/// A stage that consists of two: each processes every event, and their verdicts are joined. A chain of more than two stages is
/// a chain of chains.
///
/// The order of the two makes no difference: whichever is first, the stage that admits packets processes an arrival first, and
/// the stage that rewrites packets processes a departure last. A chain with two of either kind does not compile:
///
/// ```
/// use cc_core::table::Fixed;
/// use cc_cp::{Chain, OnQueues, Stage, lscc::rate_limiting::RateLimiting, red::Red};
/// fn rewrites<S: OnQueues>() -> bool {
///     <S::Stage<Fixed<8>> as Stage>::REWRITES
/// }
/// assert!(rewrites::<Chain<Red, RateLimiting>>());
/// ```
///
/// ```compile_fail,E0080
/// use cc_core::table::Fixed;
/// use cc_cp::{Chain, OnQueues, Stage, lscc::rate_limiting::RateLimiting, mlcc::near_source::NearSource};
/// fn rewrites<S: OnQueues>() -> bool {
///     <S::Stage<Fixed<8>> as Stage>::REWRITES
/// }
/// assert!(rewrites::<Chain<RateLimiting, NearSource>>());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Chain<A, B> {
    /// One stage.
    pub first: A,
    /// The other.
    pub second: B,
}

/// The states of both stages.
impl<A: Inspect, B: Inspect> Inspect for Chain<A, B> {
    type Snapshot = (Option<A::Snapshot>, Option<B::Snapshot>);

    fn snapshot(&self, at: Queue) -> Option<Self::Snapshot> {
        let both = (self.first.snapshot(at), self.second.snapshot(at));
        (both.0.is_some() || both.1.is_some()).then_some(both)
    }

    fn inject(&mut self, at: Queue, (a, b): Self::Snapshot) -> bool {
        let first = a.is_some_and(|a| self.first.inject(at, a));
        let second = b.is_some_and(|b| self.second.inject(at, b));
        first || second
    }
}

impl<A: OnQueues, B: OnQueues> OnQueues for Chain<A, B> {
    type Stage<Q: Storage> = Chain<A::Stage<Q>, B::Stage<Q>>;
}

impl<A: Zeroed, B: Zeroed> Zeroed for Chain<A, B> {
    const ZEROED: Self = Self { first: A::ZEROED, second: B::ZEROED };
}

impl<A: Stage, B: Stage> Stage for Chain<A, B> {
    type Settings = (A::Settings, B::Settings);

    const NAME: &'static str = "chain";
    const PRESETS: &'static [Preset<Self::Settings>] = &[];
    const DEFAULT: Self::Settings = (A::DEFAULT, B::DEFAULT);
    const TAKES: Kinds = A::TAKES.with(B::TAKES);
    const READS_HEADERS: bool = A::READS_HEADERS || B::READS_HEADERS;
    const REWRITES: bool = {
        assert!(!(A::REWRITES && B::REWRITES), "two stages of a chain rewrite packets");
        A::REWRITES || B::REWRITES
    };
    const ADMITS: bool = {
        assert!(!(A::ADMITS && B::ADMITS), "two stages of a chain admit packets");
        A::ADMITS || B::ADMITS
    };
    const PAUSES: bool = A::PAUSES || B::PAUSES;
    const TIMED: bool = A::TIMED || B::TIMED;
    const SIZES: StageSizes = StageSizes {
        state: A::SIZES.state + B::SIZES.state,
        queue: A::SIZES.queue + B::SIZES.queue,
        flow: A::SIZES.flow + B::SIZES.flow,
        flows: if A::SIZES.flows > B::SIZES.flows { A::SIZES.flows } else { B::SIZES.flows },
    };

    fn make_room(&mut self, queues: usize) {
        self.first.make_room(queues);
        self.second.make_room(queues);
    }

    fn configure(
        &mut self,
        now: Instant,
        at: Queue,
        link: &Link,
        (first, second): &Self::Settings,
        seed: u64,
    ) -> Result<(), ConfigureError> {
        self.first.configure(now, at, link, first, seed)?;
        // Seeds that are far apart, so that the two stages draw different numbers.
        self.second.configure(now, at, link, second, seed.rotate_left(32))
    }

    #[inline(always)]
    fn on(&mut self, now: Instant, at: Queue, event: &Event<'_>, out: &mut impl Emit) -> Verdict {
        let _ = (Self::REWRITES, Self::ADMITS);
        match event {
            Event::Arrival { .. } if A::ADMITS => {
                let verdict = self.first.on(now, at, event, out);
                if verdict.drop { verdict } else { verdict.join(self.second.on(now, at, event, out)) }
            }
            Event::Arrival { .. } if B::ADMITS => {
                let verdict = self.second.on(now, at, event, out);
                if verdict.drop { verdict } else { verdict.join(self.first.on(now, at, event, out)) }
            }
            Event::Departure { .. } if A::REWRITES => {
                let verdict = self.second.on(now, at, event, out);
                verdict.join(self.first.on(now, at, &event.marked(verdict), out))
            }
            Event::Departure { .. } if B::REWRITES => {
                let verdict = self.first.on(now, at, event, out);
                verdict.join(self.second.on(now, at, &event.marked(verdict), out))
            }
            _ => self.first.on(now, at, event, out).join(self.second.on(now, at, event, out)),
        }
    }

    #[inline(always)]
    fn wake(&mut self, now: Instant, at: Queue, out: &mut impl Emit) -> Option<Nanos> {
        let first = self.first.wake(now, at, out);
        earlier(first, self.second.wake(now, at, out))
    }

    #[inline(always)]
    fn next_wake(&self, now: Instant, at: Queue) -> Option<Nanos> {
        earlier(self.first.next_wake(now, at), self.second.next_wake(now, at))
    }

    #[inline]
    fn pseudo_queue(&self, at: Queue) -> Option<(Bytes, Rate)> {
        self.first.pseudo_queue(at).or_else(|| self.second.pseudo_queue(at))
    }

    #[inline(always)]
    fn pausing(&self, at: Queue) -> u16 {
        self.first.pausing(at).max(self.second.pausing(at))
    }
}
