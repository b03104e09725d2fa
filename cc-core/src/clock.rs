//! Local time of an engine: the caller's clock without its jumps.

use crate::units::Instant;

/// Nanoseconds: the longest time between two calls of an engine, 1 s. A longer step is a jump of the clock.
const LONGEST: u64 = 1_000_000_000;

/// Local time: the caller's clock without its jumps.
///
/// Deadlines are 32-bit stamps, which are unambiguous only while time moves by less than about 2 s at a time. Between two calls
/// local time therefore advances by as much as the caller's clock, with two exceptions, both counted: on a step forward of more
/// than 1 s, and on a step back, local time stands still. All stored deadlines then move along with the caller's clock.
///
/// A caller with a steady clock must call at least once a second; a longer gap is taken for a jump.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LocalClock {
    last: u64,
    /// The caller's time less local time, modulo 2^64.
    offset: u64,
    forward_jumps: u32,
    backward_jumps: u32,
}

impl LocalClock {
    /// A clock that agrees with the caller's at `start`.
    pub const fn new(start: Instant) -> Self {
        Self { last: start.nanos(), offset: 0, forward_jumps: 0, backward_jumps: 0 }
    }

    /// Initialises a zeroed clock in place, as [`new`](Self::new) does. Only for a zeroed clock: the offset and the counters
    /// are not reset.
    pub const fn start(&mut self, start: Instant) {
        self.last = start.nanos();
    }

    /// Returns local time at a call made at `now` by the caller's clock: never earlier than at the last call, and at most 1 s
    /// later.
    #[inline]
    pub const fn advance(&mut self, now: Instant) -> Instant {
        let elapsed = now.nanos().wrapping_sub(self.last);
        self.last = now.nanos();
        if elapsed > LONGEST { self.jump(elapsed) } else { self.now() }
    }

    /// [`LocalClock::advance`], not inlined: for calls that are not on the path from an event to the pacer.
    #[inline(never)]
    pub const fn advance_outlined(&mut self, now: Instant) -> Instant {
        self.advance(now)
    }

    /// Local time at the last call.
    #[inline]
    pub const fn now(&self) -> Instant {
        Instant::from_nanos(self.last.wrapping_sub(self.offset))
    }

    /// When the last call was made, by the caller's clock.
    #[inline]
    pub const fn last_call(&self) -> Instant {
        Instant::from_nanos(self.last)
    }

    /// Number of steps forward of more than 1 s.
    pub const fn forward_jumps(&self) -> u32 {
        self.forward_jumps
    }

    /// Number of calls made at an earlier time than the call before.
    pub const fn backward_jumps(&self) -> u32 {
        self.backward_jumps
    }

    #[cold]
    #[inline(never)]
    const fn jump(&mut self, elapsed: u64) -> Instant {
        self.offset = self.offset.wrapping_add(elapsed);
        let jumps = if elapsed < 1 << 63 { &mut self.forward_jumps } else { &mut self.backward_jumps };
        *jumps = jumps.saturating_add(1);
        self.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn a_steady_clock_is_local_time() {
        let start = 1_700_000_000_000_000_000;
        let mut clock = LocalClock::new(at(start));
        for now in [start, start, start + 1, start + 1_000_000_001, start + 2_000_000_001] {
            assert_eq!(clock.advance(at(now)), at(now));
        }
        assert_eq!((clock.forward_jumps(), clock.backward_jumps()), (0, 0));
    }

    #[test]
    fn local_time_stands_still_when_the_clock_jumps_forward() {
        let mut clock = LocalClock::new(at(500));
        assert_eq!(clock.advance(at(1_000_000_501)), at(500));
        assert_eq!(clock.advance(at(1_000_000_601)), at(600));
        assert_eq!(clock.advance(at(u64::MAX / 4)), at(600));
        assert_eq!((clock.forward_jumps(), clock.backward_jumps()), (2, 0));
    }

    #[test]
    fn local_time_stands_still_when_the_clock_jumps_back() {
        let mut clock = LocalClock::new(at(1_000));
        assert_eq!(clock.advance(at(2_000)), at(2_000));
        assert_eq!(clock.advance(at(1_999)), at(2_000));
        assert_eq!(clock.advance(at(0)), at(2_000));
        assert_eq!(clock.advance(at(10)), at(2_010));
        assert_eq!((clock.forward_jumps(), clock.backward_jumps()), (0, 2));
    }

    #[test]
    fn local_time_never_goes_back_and_advances_by_at_most_a_second() {
        let mut random = Random(17);
        let mut clock = LocalClock::new(at(0));
        let mut last = clock.now();
        for _ in 0..100_000 {
            let now = u64::from(random.below(u32::MAX)) << random.below(32);
            let local = clock.advance(at(now));
            assert!(last <= local && local.nanos() - last.nanos() <= LONGEST);
            assert_eq!(local, clock.now());
            last = local;
        }
    }
}
