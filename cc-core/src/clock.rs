//! The engine's judgement of the caller's clock.

use crate::units::Instant;

/// The longest that may pass between two calls of an engine, in nanoseconds: one second.
const LONGEST: u64 = 1_000_000_000;

/// Local time: the caller's clock without its jumps.
///
/// Deadlines are kept as stamps of 32 bits, and stay unambiguous only while time never leaps. So between two
/// consecutive calls, whichever flow they concern, local time moves as the caller's clock does, with two
/// exceptions, both counted. A leap of more than a second is a clock step: no local time passes, which moves
/// every stored deadline along with the clock at once. A clock that runs backwards lets no local time pass.
///
/// A caller whose clock is steady therefore calls at least once a second.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LocalClock {
    last: u64,
    /// The caller's time less local time, modulo 2^64.
    offset: u64,
    leaps: u32,
    reversals: u32,
}

impl LocalClock {
    /// A clock that agrees with the caller's at `start`.
    pub const fn new(start: Instant) -> Self {
        Self { last: start.nanos(), offset: 0, leaps: 0, reversals: 0 }
    }

    /// Local time at a call made at `now` by the caller's clock. Never before the answer to the last call, and
    /// never more than a second after it.
    #[inline]
    pub const fn advance(&mut self, now: Instant) -> Instant {
        let elapsed = now.nanos().wrapping_sub(self.last);
        self.last = now.nanos();
        if elapsed > LONGEST {
            self.jump(elapsed);
        }
        self.now()
    }

    /// Local time at the last call.
    #[inline]
    pub const fn now(&self) -> Instant {
        Instant::from_nanos(self.last.wrapping_sub(self.offset))
    }

    /// Leaps forward of more than a second.
    pub const fn leaps(&self) -> u32 {
        self.leaps
    }

    /// Calls made at an earlier time than the call before.
    pub const fn reversals(&self) -> u32 {
        self.reversals
    }

    #[cold]
    const fn jump(&mut self, elapsed: u64) {
        self.offset = self.offset.wrapping_add(elapsed);
        if elapsed < 1 << 63 {
            self.leaps = self.leaps.saturating_add(1);
        } else {
            self.reversals = self.reversals.saturating_add(1);
        }
    }
}
