//! Wakes: which flow asked to be called next.
//!
//! Four rings of 32 buckets. Time advances in ticks of 1 024 ns; a bucket of the first ring is one tick, a bucket
//! of each further ring is as long as the whole ring before it, and the last ring is 1.07 s round. A flow waits in
//! the finest ring that reaches its deadline and moves to a finer one when its bucket comes up: at most three moves.

use crate::units::Stamp;

const RINGS: usize = 4;
const LAST: u32 = 3;
const BUCKETS: usize = 32;
/// The bucket of a ring furthest from the current one.
const FURTHEST: u32 = 31;
/// Binary logarithm of a tick in nanoseconds.
const TICK: u32 = 10;
/// No flow: the end of a list.
const NONE: u16 = u16::MAX;
/// Most flows that one call moves to a finer ring.
const MOVES: u32 = 8;

/// A flow's place. Eight bytes a flow.
#[derive(Clone, Copy)]
struct Record {
    next: u16,
    previous: u16,
    /// The deadline in whole ticks; the bits below say whether and in which ring the flow waits.
    at: u32,
}

impl Record {
    const IDLE: Self = Self { next: NONE, previous: NONE, at: 0 };
    const ARMED: u32 = 1 << 2;
    const BELOW_TICK: u32 = (1 << TICK) - 1;

    const fn is_armed(self) -> bool {
        self.at & Self::ARMED != 0
    }

    const fn deadline(self) -> u32 {
        self.at & !Self::BELOW_TICK
    }

    const fn ring(self) -> u32 {
        self.at & 3
    }
}

/// Binary logarithm of the length of a ring's buckets in nanoseconds.
#[inline]
const fn shift(ring: u32) -> u32 {
    TICK.wrapping_add(ring.wrapping_mul(5))
}

/// The wakes of `N` flows, at most 65 535: one each, the earliest that it asked for.
///
/// Wakes are advisory, which is what makes them cheap. Asking for a later wake than the pending one changes
/// nothing: the flow is woken early and asks again. Deadlines are rounded up to whole ticks, so a flow is never
/// woken before its deadline, and by less than 1 024 ns after it when the caller is punctual. A deadline more than
/// a second ahead is taken for one of about a second.
///
/// Arming and disarming are O(1). The caller pops at least once a second.
pub struct Wheel<const N: usize> {
    records: [Record; N],
    heads: [[u16; BUCKETS]; RINGS],
    /// A bit for each bucket that is not empty.
    filled: [u32; RINGS],
    /// The tick up to which every bucket was emptied, in nanoseconds.
    cursor: u32,
}

impl<const N: usize> Wheel<N> {
    const SIZE: () = assert!(N >= 1 && N <= NONE as usize, "a wheel holds 1 to 65,535 flows");

    /// A wheel that nobody waits on, at time `start`.
    pub const fn new(start: Stamp) -> Self {
        const { Self::SIZE };
        Self {
            records: [Record::IDLE; N],
            heads: [[NONE; BUCKETS]; RINGS],
            filled: [0; RINGS],
            cursor: start.to_bits() & !Record::BELOW_TICK,
        }
    }

    /// Asks for a wake of flow `slot` at `deadline`; nothing happens when one is pending that is no later.
    #[inline]
    pub fn arm(&mut self, slot: u16, deadline: Stamp) {
        let Some(record) = self.records.get(usize::from(slot)) else { return };
        let at = deadline.to_bits().wrapping_add(Record::BELOW_TICK) & !Record::BELOW_TICK;
        if record.is_armed() {
            if at.wrapping_sub(record.deadline()) < 1 << 31 {
                return;
            }
            self.unlink(slot);
        }
        self.link(slot, at);
    }

    /// Takes back the wake of flow `slot`, if any.
    #[inline]
    pub fn disarm(&mut self, slot: u16) {
        if self.records.get(usize::from(slot)).is_some_and(|record| record.is_armed()) {
            self.unlink(slot);
        }
    }

    /// A flow whose deadline has come, which then waits no more.
    ///
    /// Moves at most eight flows to finer rings. `None` therefore means that nothing is due, or that the work
    /// isn't finished, and then [`Wheel::next_deadline`] is not after `now`.
    pub fn pop_due(&mut self, now: Stamp) -> Option<u16> {
        for _ in 0..=MOVES {
            let ahead = now.to_bits().wrapping_sub(self.cursor);
            let Some((ring, wait)) = self.earliest().filter(|&(_, wait)| wait <= ahead) else {
                if ahead < 1 << 31 {
                    self.cursor = now.to_bits() & !Record::BELOW_TICK;
                }
                return None;
            };
            self.cursor = self.cursor.wrapping_add(wait);
            let bucket = self.cursor >> shift(ring) & FURTHEST;
            let slot = *self.heads.get(ring as usize)?.get(bucket as usize)?;
            let at = self.records.get(usize::from(slot))?.deadline();
            self.unlink(slot);
            if ring == 0 {
                return Some(slot);
            }
            self.link(slot, at);
        }
        None
    }

    /// When to pop next: never after the first deadline in whole ticks, and before it by less than the bucket that
    /// the flow waits in, which is at most a thirty-second of the wait and then a tick.
    #[inline]
    pub fn next_deadline(&self) -> Option<Stamp> {
        self.earliest().map(|(_, wait)| Stamp::from_bits(self.cursor.wrapping_add(wait)))
    }

    /// The ring of the bucket that comes up first, and the time from the cursor to it.
    #[inline]
    fn earliest(&self) -> Option<(u32, u32)> {
        let mut first = None;
        let mut ring = 0;
        for &filled in &self.filled {
            if filled != 0 {
                let here = self.cursor >> shift(ring);
                let buckets = filled.rotate_right(here & FURTHEST).trailing_zeros();
                let wait = (here.wrapping_add(buckets) << shift(ring)).wrapping_sub(self.cursor);
                if first.is_none_or(|(_, least)| wait < least) {
                    first = Some((ring, wait));
                }
            }
            ring = ring.wrapping_add(1);
        }
        first
    }

    /// Puts an idle flow into the finest ring that reaches `at`.
    #[inline]
    fn link(&mut self, slot: u16, at: u32) {
        // A deadline that has passed is due now.
        let mut at = if at.wrapping_sub(self.cursor) < 1 << 31 { at } else { self.cursor };
        let mut ring = 0;
        loop {
            let start = self.cursor >> shift(ring) << shift(ring);
            if at.wrapping_sub(start) >> shift(ring) <= FURTHEST {
                break;
            }
            if ring == LAST {
                at = start.wrapping_add(FURTHEST << shift(ring));
                break;
            }
            ring = ring.wrapping_add(1);
        }
        let bucket = at >> shift(ring) & FURTHEST;
        let Some(head) = self.heads.get_mut(ring as usize).and_then(|ring| ring.get_mut(bucket as usize)) else {
            return;
        };
        let next = core::mem::replace(head, slot);
        if let Some(filled) = self.filled.get_mut(ring as usize) {
            *filled |= 1 << bucket;
        }
        if let Some(record) = self.records.get_mut(usize::from(next)) {
            record.previous = slot;
        }
        if let Some(record) = self.records.get_mut(usize::from(slot)) {
            *record = Record { next, previous: NONE, at: at | Record::ARMED | ring };
        }
    }

    /// Takes an armed flow out of its bucket.
    #[inline]
    fn unlink(&mut self, slot: u16) {
        let Some(record) = self.records.get_mut(usize::from(slot)) else { return };
        let Record { next, previous, .. } = *record;
        let (ring, bucket) = (record.ring(), record.deadline() >> shift(record.ring()) & FURTHEST);
        record.at = 0;
        if let Some(record) = self.records.get_mut(usize::from(next)) {
            record.previous = previous;
        }
        if let Some(record) = self.records.get_mut(usize::from(previous)) {
            record.next = next;
            return;
        }
        if let Some(head) = self.heads.get_mut(ring as usize).and_then(|ring| ring.get_mut(bucket as usize)) {
            *head = next;
        }
        if next == NONE
            && let Some(filled) = self.filled.get_mut(ring as usize)
        {
            *filled &= !(1 << bucket);
        }
    }
}
