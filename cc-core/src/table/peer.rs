//! The receiver's flows: found by queue pair number, the stalest forgotten when there is no room.

use super::place;
use crate::units::{Nanos, Qpn, Stamp};

/// What a [`PeerTable`] knew of a flow when a packet of it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Seen {
    /// It has a record.
    Known,
    /// A record was opened where none was, or where one had expired.
    New,
    /// A record was opened in place of one that still meant something.
    Evicted,
}

#[derive(Clone, Copy)]
struct Entry<S> {
    /// The queue pair number, with `LIVE` set; zero when dead.
    key: u32,
    seen: Stamp,
    record: S,
}

const LIVE: u32 = 1 << 31;

/// Records of at most `SETS * WAYS` flows, 8 bytes each beside the record.
///
/// A number belongs to one set, and is looked for in its `WAYS` entries only: every operation but the sweep is
/// O(`WAYS`), without probing or tombstones. A new flow takes the place of a dead entry, or else of the one seen
/// least recently; when that one is older than the horizon nothing is lost, and otherwise it is counted.
///
/// Entries keep 32-bit stamps, so [`PeerTable::sweep`] must visit each of them every second, and the horizon
/// must be at most two seconds. `SETS` is a power of two.
pub struct PeerTable<S, const SETS: usize, const WAYS: usize> {
    sets: [[Entry<S>; WAYS]; SETS],
    cursor: usize,
    live: u32,
    evicted: u32,
}

impl<S: Copy, const SETS: usize, const WAYS: usize> PeerTable<S, SETS, WAYS> {
    const BITS: u32 = SETS.trailing_zeros();
    const SIZES: () = {
        assert!(SETS.is_power_of_two() && SETS <= 1 << 24, "the number of sets is a power of two, at most 2^24");
        assert!(WAYS >= 1, "a set has at least one way");
    };

    /// A table without flows. `blank` fills the dead entries and is never seen.
    pub const fn new(blank: S) -> Self {
        const { Self::SIZES };
        let dead = Entry { key: 0, seen: Stamp::from_bits(0), record: blank };
        Self { sets: [[dead; WAYS]; SETS], cursor: 0, live: 0, evicted: 0 }
    }

    /// The record of the flow that a packet belongs to, made by `open` when there is none.
    ///
    /// An entry last seen longer than `horizon` ago means nothing, and gives its place without being counted.
    #[inline]
    pub fn touch(&mut self, qpn: Qpn, now: Stamp, horizon: Nanos, open: impl FnOnce() -> S) -> Option<(&mut S, Seen)> {
        let key = qpn.get() | LIVE;
        let set = self.sets.get_mut(place(qpn, Self::BITS))?;
        let known = set.iter().position(|entry| entry.key == key);
        let (way, seen) = match known {
            Some(way) => (way, Seen::Known),
            None => {
                let (way, victim) = set.iter().enumerate().max_by_key(|(_, entry)| entry.staleness(now))?;
                let seen = if victim.key == 0 {
                    self.live = self.live.saturating_add(1);
                    Seen::New
                } else if now.since(victim.seen) > horizon {
                    Seen::New
                } else {
                    self.evicted = self.evicted.saturating_add(1);
                    Seen::Evicted
                };
                (way, seen)
            }
        };
        let entry = set.get_mut(way)?;
        if seen != Seen::Known {
            *entry = Entry { key, seen: now, record: open() };
        }
        entry.seen = now;
        Some((&mut entry.record, seen))
    }

    /// Forgets a flow whose queue pair is gone, so that the next one of that number starts afresh.
    pub fn forget(&mut self, qpn: Qpn) {
        let key = qpn.get() | LIVE;
        let set = self.sets.get_mut(place(qpn, Self::BITS)).into_iter().flatten();
        for entry in set.filter(|entry| entry.key == key) {
            entry.key = 0;
            self.live = self.live.saturating_sub(1);
        }
    }

    /// Visits the next `sets` sets in turn and marks the entries dead that were last seen longer than `horizon`
    /// ago.
    pub fn sweep(&mut self, now: Stamp, horizon: Nanos, sets: usize) {
        for _ in 0..sets {
            for entry in self.sets.get_mut(self.cursor).into_iter().flatten() {
                if entry.key != 0 && now.since(entry.seen) > horizon {
                    entry.key = 0;
                    self.live = self.live.saturating_sub(1);
                }
            }
            self.cursor = self.cursor.wrapping_add(1) & SETS.wrapping_sub(1);
        }
    }

    /// Flows seen within the horizon, and those that expired since the sweep last came by.
    #[inline]
    pub const fn live(&self) -> u32 {
        self.live
    }

    /// Records that were lost to a new flow while they still meant something.
    #[inline]
    pub const fn evicted(&self) -> u32 {
        self.evicted
    }
}

impl<S> Entry<S> {
    /// Orders victims: the dead before the old, the old before the young.
    #[inline]
    const fn staleness(&self, now: Stamp) -> u32 {
        if self.key == 0 { u32::MAX } else { now.since(self.seen).get() }
    }
}
