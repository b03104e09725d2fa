//! A hierarchical timer wheel: which flow is to be woken next.
//!
//! Four rings of 32 buckets. Time advances in ticks of 1 024 ns; a bucket of the first ring is one tick, a bucket
//! of each further ring is as long as the whole ring before it, and the last ring is 1.07 s round. A flow waits in
//! the finest ring that reaches its deadline and moves to a finer one when its bucket comes up: at most three moves.

use crate::Zeroed;
use crate::table::{Array, Fixed, Storage};
use crate::units::Stamp;
use core::hint::cold_path;

const RINGS: usize = 4;
const LAST: u32 = 3;
/// The bucket of a ring furthest from the current one.
const FURTHEST: u32 = 31;
/// Binary logarithm of the buckets of a ring, and of how much longer those of the next are.
const RING: u32 = 5;
/// Buckets of all rings.
const PLACES: usize = RINGS << RING;
/// Binary logarithm of a tick in nanoseconds.
const TICK: u32 = 10;
/// The time that the last ring takes, less one nanosecond.
const ROUND: u32 = (1 << (shift(LAST) + RING)) - 1;
/// No bucket is filled: longer than the wait for any bucket.
const NEVER: u32 = u32::MAX;
/// No flow: the end of a list.
const NONE: u16 = u16::MAX;
/// Most flows that one call moves to a finer ring.
const MOVES: u32 = 8;

/// A flow's entry in the wheel, 8 bytes: its neighbours in the list of its bucket, and its deadline.
#[derive(Clone, Copy)]
struct Record {
    next: u16,
    previous: u16,
    /// The deadline in nanoseconds, a whole number of ticks. The bits below a tick: whether the flow is armed, and the ring and
    /// bucket in which it is.
    at: u32,
}

impl Zeroed for Record {
    const ZEROED: Self = Self::IDLE;
}

impl Record {
    /// A flow without a pending wake; its neighbours are not read.
    const IDLE: Self = Self { next: 0, previous: 0, at: 0 };
    const ARMED: u32 = 1 << 7;
    const PLACE: u32 = (1 << 7) - 1;
    const BELOW_TICK: u32 = (1 << TICK) - 1;

    const fn is_armed(self) -> bool {
        self.at & Self::ARMED != 0
    }

    const fn deadline(self) -> u32 {
        self.at & !Self::BELOW_TICK
    }

    const fn place(self) -> u32 {
        self.at & Self::PLACE
    }
}

const _: () = assert!(size_of::<Record>() == 8 && PLACES == 1 << 7);

/// Binary logarithm of the length of a ring's buckets in nanoseconds.
#[inline]
const fn shift(ring: u32) -> u32 {
    TICK.wrapping_add(ring.wrapping_mul(RING))
}

/// A [`TimerWheelIn`] for `N` flows, whose records are inside it.
pub type TimerWheel<const N: usize> = TimerWheelIn<Fixed<N>>;

/// The timers of a bounded number of flows, at most 65 535: one for each flow, with the earliest deadline requested.
///
/// Wakes are advisory, which is what makes them cheap. Arming a later deadline than the pending one changes nothing: the flow
/// is woken early and arms its timer again. Deadlines are rounded up to whole ticks, so a flow is never woken before its
/// deadline, and by less than 1 024 ns after it when the caller is punctual. A deadline more than about a second ahead is
/// replaced by one about a second ahead: the flow is woken early.
///
/// Arming and disarming are O(1). The caller pops at least once a second.
// The small fields come first, where short offsets reach them.
#[repr(C)]
pub struct TimerWheelIn<N: Storage> {
    /// The tick up to which every bucket was emptied, in nanoseconds.
    cursor: u32,
    /// For each ring, a bit for each bucket that is not empty.
    filled: [u32; RINGS],
    /// The first flow of each bucket's list, ring by ring; not read for an empty bucket.
    heads: [u16; PLACES],
    records: N::Array<Record>,
}

impl<N: Storage> Zeroed for TimerWheelIn<N> {
    const ZEROED: Self = {
        if let Some(n) = N::LEN {
            assert!(n >= 1 && n <= NONE as usize, "a wheel holds 1 to 65,535 flows");
        }
        Self { cursor: 0, filled: [0; RINGS], heads: [0; PLACES], records: Zeroed::ZEROED }
    };
}

impl<N: Storage> TimerWheelIn<N> {
    /// Bytes of memory for each further flow.
    pub const FLOW_BYTES: usize = size_of::<Record>();

    /// A wheel with no pending wake, at time `start`.
    pub const fn new(start: Stamp) -> Self {
        let mut wheel = Self::ZEROED;
        wheel.start(start);
        wheel
    }

    /// Makes room for `flows` flows, at most 65,535. Pending wakes stay; a wheel never shrinks, and one of [`Fixed`] memory
    /// stays as it is.
    pub fn grow(&mut self, flows: usize) {
        let flows = flows.min(usize::from(NONE));
        if flows <= self.records.items().len() {
            return;
        }
        let Some(mut records) = <N::Array<Record>>::of_len(flows) else { return };
        records.items_mut().iter_mut().zip(self.records.items()).for_each(|(new, old)| *new = *old);
        self.records = records;
    }

    /// Sets the time of a wheel on which no timer is armed.
    pub const fn start(&mut self, start: Stamp) {
        self.cursor = start.to_bits() & !Record::BELOW_TICK;
    }

    /// Arms a wake of flow `slot` at `deadline`. Changes nothing when a wake is pending that is no later.
    #[inline(never)]
    pub fn arm(&mut self, slot: u16, deadline: Stamp) {
        let Some(record) = self.records.items().get(usize::from(slot)) else { return };
        let at = deadline.to_bits().wrapping_add(Record::BELOW_TICK) & !Record::BELOW_TICK;
        if record.is_armed() {
            if at.wrapping_sub(record.deadline()) < 1 << 31 {
                return;
            }
            cold_path();
            self.unlink(slot);
        }
        self.link(slot, at);
    }

    /// Cancels the wake of flow `slot`, if any.
    #[inline]
    pub fn disarm(&mut self, slot: u16) {
        if self.records.items().get(usize::from(slot)).is_some_and(|record| record.is_armed()) {
            self.unlink(slot);
        }
    }

    /// Returns a flow whose deadline has passed, and disarms it.
    ///
    /// One call moves at most eight flows to finer rings. `None` therefore means that nothing is due, or that flows are still
    /// to be moved: in the second case [`TimerWheel::next_deadline`] is not after `now`, and the caller calls again.
    pub fn pop_due(&mut self, now: Stamp) -> Option<u16> {
        if !Stamp::from_bits(self.cursor).is_due(now) {
            return None;
        }
        for _ in 0..=MOVES {
            let ahead = now.to_bits().wrapping_sub(self.cursor);
            let (place, wait) = self.earliest();
            if wait > ahead {
                self.cursor = now.to_bits() & !Record::BELOW_TICK;
                return None;
            }
            self.cursor = self.cursor.wrapping_add(wait);
            let slot = *self.heads.get(place as usize)?;
            let deadline = self.records.items().get(usize::from(slot))?.deadline();
            self.unlink(slot);
            if place <= FURTHEST {
                return Some(slot);
            }
            self.link(slot, deadline);
        }
        None
    }

    /// When to pop next: never after the first deadline in whole ticks, and exactly then once the flow waits in the
    /// finest ring. Before, it is when the flow moves to a finer ring, earlier by less than a bucket of its present
    /// one: 32.8 us for waits up to 1.05 ms, 1.05 ms up to 33.6 ms, 33.6 ms beyond.
    #[inline]
    pub fn next_deadline(&self) -> Option<Stamp> {
        let (_, wait) = self.earliest();
        (wait != NEVER).then_some(Stamp::from_bits(self.cursor.wrapping_add(wait)))
    }

    /// The place of the bucket that comes up first, and the time from the cursor to it; [`NEVER`] when all are empty.
    // Not inlined in firmware: not on the path from an event to the pacer.
    #[cfg_attr(target_os = "none", inline(never))]
    fn earliest(&self) -> (u32, u32) {
        let mut first = (0, NEVER);
        let mut ring = 0;
        for &filled in &self.filled {
            if filled != 0 {
                let next = self.next_in(ring, filled);
                if next.1 < first.1 {
                    first = next;
                }
            }
            ring = ring.wrapping_add(1);
        }
        first
    }

    /// Of a ring that is not empty, the place of the bucket that comes up first, and the time from the cursor to it.
    #[cfg_attr(target_os = "none", inline(never))]
    fn next_in(&self, ring: u32, filled: u32) -> (u32, u32) {
        let here = self.cursor >> shift(ring);
        let bucket = here.wrapping_add(filled.rotate_right(here & FURTHEST).trailing_zeros());
        (ring << RING | bucket & FURTHEST, (bucket << shift(ring)).wrapping_sub(self.cursor))
    }

    /// Puts an idle flow into the finest ring that reaches `at`.
    #[inline(never)]
    fn link(&mut self, slot: u16, at: u32) {
        // A deadline that has passed is due now.
        let mut at = if at.wrapping_sub(self.cursor) < 1 << 31 { at } else { self.cursor };
        // Both in ticks since the present round of the last ring began, then in buckets of one ring after the other.
        let round = self.cursor & !ROUND;
        let mut from = self.cursor.wrapping_sub(round) >> TICK;
        let mut to = at.wrapping_sub(round) >> TICK;
        let mut ring = 0_u32;
        while to.wrapping_sub(from) > FURTHEST {
            (from, to, ring) = (from >> RING, to >> RING, ring.wrapping_add(1));
        }
        if ring > LAST {
            cold_path();
            ring = LAST;
            to = (self.cursor >> shift(LAST)).wrapping_add(FURTHEST);
            at = to << shift(LAST);
        }
        let (place, bucket) = (ring << RING | to & FURTHEST, 1 << (to & FURTHEST));
        let (Some(filled), Some(head)) = (self.filled.get_mut(ring as usize), self.heads.get_mut(place as usize))
        else {
            return;
        };
        let next = if *filled & bucket == 0 { NONE } else { *head };
        *filled |= bucket;
        *head = slot;
        if let Some(record) = self.records.items_mut().get_mut(usize::from(next)) {
            record.previous = slot;
        }
        if let Some(record) = self.records.items_mut().get_mut(usize::from(slot)) {
            *record = Record { next, previous: NONE, at: at | Record::ARMED | place };
        }
    }

    /// Takes an armed flow out of its bucket.
    #[inline(never)]
    fn unlink(&mut self, slot: u16) {
        let Some(record) = self.records.items_mut().get_mut(usize::from(slot)) else { return };
        let Record { next, previous, .. } = *record;
        let place = record.place();
        record.at = 0;
        if let Some(record) = self.records.items_mut().get_mut(usize::from(next)) {
            record.previous = previous;
        }
        if let Some(record) = self.records.items_mut().get_mut(usize::from(previous)) {
            record.next = next;
            return;
        }
        if let Some(head) = self.heads.get_mut(place as usize) {
            *head = next;
        }
        if next == NONE
            && let Some(filled) = self.filled.get_mut((place >> RING) as usize)
        {
            *filled &= !(1 << (place & FURTHEST));
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::random::Random;
    use crate::units::Nanos;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    fn at(nanos: u32) -> Stamp {
        Stamp::from_bits(nanos)
    }

    /// Pops until nothing is due, as an engine does.
    fn drain<const N: usize>(wheel: &mut TimerWheel<N>, now: Stamp) -> Vec<u16> {
        let mut due = Vec::new();
        loop {
            due.extend(wheel.pop_due(now));
            if wheel.next_deadline().is_none_or(|next| !next.is_due(now)) {
                return due;
            }
        }
    }

    #[test]
    fn a_wake_comes_within_a_tick_after_its_deadline_and_never_before() {
        for start in [0, 5_000, u32::MAX - 20_000, u32::MAX] {
            for wait in [0, 1, 1_023, 1_024, 4_000, 33_000, 55_000, 300_000, 2_000_000, 50_000_000, 900_000_000] {
                let mut wheel = TimerWheel::<1>::new(at(start));
                let deadline = at(start).after(Nanos::new(wait));
                wheel.arm(0, deadline);
                let mut calls = 0;
                let woken = loop {
                    let now = wheel.next_deadline().unwrap();
                    calls += 1;
                    if wheel.pop_due(now) == Some(0) {
                        break now;
                    }
                };
                assert!(woken.since(deadline).get() < 1_024, "{start} + {wait}: woken at {woken:?}");
                assert!(calls <= 4);
                assert_eq!(wheel.next_deadline(), None);
            }
        }
    }

    #[test]
    fn deadlines_on_both_sides_of_the_wrap_keep_their_order() {
        let mut wheel = TimerWheel::<2>::new(at(u32::MAX - 100_000));
        wheel.arm(0, at(50_000));
        wheel.arm(1, at(u32::MAX - 50_000));
        assert_eq!(drain(&mut wheel, at(u32::MAX - 48_000)), [1]);
        assert_eq!(drain(&mut wheel, at(49_000)), [0u16; 0]);
        assert_eq!(drain(&mut wheel, at(51_200)), [0]);
    }

    #[test]
    fn only_an_earlier_deadline_moves_a_wake() {
        let mut wheel = TimerWheel::<1>::new(at(0));
        wheel.arm(0, at(10_240));
        wheel.arm(0, at(20_480));
        assert_eq!(wheel.next_deadline(), Some(at(10_240)));
        wheel.arm(0, at(5_120));
        assert_eq!(wheel.next_deadline(), Some(at(5_120)));
        assert_eq!(drain(&mut wheel, at(1_000_000)), [0]);
        assert_eq!(wheel.next_deadline(), None);
    }

    #[test]
    fn a_deadline_that_passed_is_due_at_once() {
        let mut wheel = TimerWheel::<1>::new(at(5_000_000));
        wheel.arm(0, at(4_000_000));
        assert_eq!(wheel.pop_due(at(5_000_000)), Some(0));
    }

    #[test]
    fn deadlines_beyond_a_second_wake_after_about_a_second() {
        let mut wheel = TimerWheel::<1>::new(at(0));
        wheel.arm(0, at(2_000_000_000));
        assert_eq!(drain(&mut wheel, at(1_000_000_000)), [0u16; 0]);
        assert_eq!(drain(&mut wheel, at(1_074_000_000)), [0]);
    }

    #[test]
    fn time_that_runs_backwards_wakes_no_flow() {
        let mut wheel = TimerWheel::<1>::new(at(1_000_000));
        wheel.arm(0, at(2_000_000));
        assert_eq!(wheel.pop_due(at(999_000)), None);
        assert_eq!(drain(&mut wheel, at(2_001_000)), [0]);
    }

    #[test]
    fn a_flow_that_the_wheel_does_not_hold_is_ignored() {
        let mut wheel = TimerWheel::<1>::new(at(0));
        wheel.arm(1, at(0));
        wheel.arm(u16::MAX, at(0));
        wheel.disarm(1);
        assert_eq!(wheel.pop_due(at(1_000_000)), None);
    }

    /// A million steps on a full wheel against a map, over several wraps of the stamps.
    #[test]
    fn it_behaves_as_a_map_does() {
        const N: u32 = 300;
        const TICK: u64 = 1_024;
        let mut random = Random(5);
        let mut now = u64::from(u32::MAX) - 3_000_000;
        let mut wheel = TimerWheel::<300>::new(at(now as u32));
        let mut armed: BTreeMap<u16, u64> = BTreeMap::new();
        for _ in 0..1_000_000 {
            let slot = random.below(N) as u16;
            match random.below(16) {
                0 => {
                    wheel.disarm(slot);
                    armed.remove(&slot);
                }
                1..=10 => {
                    let scale = [2_000, 60_000, 400_000, 20_000_000, 999_000_000][random.below(5) as usize];
                    let deadline = now + u64::from(random.below(scale));
                    let tick = deadline.next_multiple_of(TICK);
                    wheel.arm(slot, at(deadline as u32));
                    armed.entry(slot).and_modify(|pending| *pending = tick.min(*pending)).or_insert(tick);
                }
                11..=14 => {
                    let scale = [500, 5_000, 50_000, 3_000_000][random.below(4) as usize];
                    now += u64::from(random.below(scale));
                    if random.below(2_000) == 0 {
                        now += u64::from(random.below(990_000_000));
                    }
                    for slot in drain(&mut wheel, at(now as u32)) {
                        let deadline = armed.remove(&slot).unwrap();
                        assert!(deadline <= now, "woken {} ns early", deadline - now);
                    }
                    assert!(armed.values().all(|&deadline| deadline > now));
                }
                _ => {
                    let first = armed.values().min().map(|&deadline| at(deadline as u32));
                    let next = wheel.next_deadline();
                    assert_eq!(next.is_some(), first.is_some());
                    assert!(next.zip(first).is_none_or(|(next, first)| next.is_due(first)));
                }
            }
        }
        assert!(now > 3 << 32, "the stamps wrapped");
    }
}
