//! The round-robin table: flows looked up by queue pair number, visited one after the other, refused when there is no room.

use super::{Array, Fixed, Storage, place};
use crate::Zeroed;
use crate::units::Qpn;

/// A record that contains the key of its flow.
pub trait Keyed {
    /// The queue pair number of its flow.
    fn qpn(&self) -> Qpn;
}

/// A [`RoundRobinTableIn`] of `SETS` sets, inside the table.
pub type RoundRobinTable<S, const SETS: usize, const WAYS: usize> = RoundRobinTableIn<S, Fixed<SETS>, WAYS>;

/// A table of the records of at most `SETS * WAYS` flows, in round-robin order. An entry has one bit in addition to the record.
///
/// The record of a number may be in any of four adjacent sets. Every operation but [`advance`](Self::advance) is O(`WAYS`),
/// there are no tombstones, and no record is evicted: a flow whose four sets are full is refused. `advance` returns the records
/// in the order of their places; a set without records costs it one load. The number of sets is a power of two, or zero in a
/// table on the heap that has not grown yet, which refuses every flow. `WAYS` is at most 8.
pub struct RoundRobinTableIn<S: Zeroed, SETS: Storage, const WAYS: usize> {
    sets: SETS::Array<[S; WAYS]>,
    /// For each set, a bit for each of its ways that holds a record.
    live_ways: SETS::Array<u8>,
    /// Set and way of the current record in round-robin order; they stay when that record is removed.
    position: (usize, usize),
    live: u32,
}

/// Most sets of a table: 24-bit numbers cannot fill more.
const MOST_SETS: usize = 1 << 24;
/// Sets that a number may be in.
const NEAR: usize = 4;

impl<S: Zeroed, SETS: Storage, const WAYS: usize> Zeroed for RoundRobinTableIn<S, SETS, WAYS> {
    const ZEROED: Self = {
        assert!(WAYS >= 1 && WAYS <= 8, "a set has 1 to 8 ways");
        if let Some(sets) = SETS::LEN {
            assert!(sets.is_power_of_two() && sets <= MOST_SETS, "the number of sets is a power of two, at most 2^24");
        }
        Self { sets: Zeroed::ZEROED, live_ways: Zeroed::ZEROED, position: (0, 0), live: 0 }
    };
}

impl<S: Copy + Keyed + Zeroed, SETS: Storage, const WAYS: usize> RoundRobinTableIn<S, SETS, WAYS> {
    /// A table without flows.
    pub const fn new() -> Self {
        Self::ZEROED
    }

    /// The number of sets.
    #[inline(always)]
    pub fn sets(&self) -> usize {
        self.live_ways.items().len()
    }

    /// The record of a flow, made by `open` if it has none; `None` if its four sets are full.
    #[inline]
    pub fn lookup_or_insert(&mut self, qpn: Qpn, open: impl FnOnce() -> S) -> Option<&mut S> {
        let (set, way) = match self.find(qpn) {
            Some(found) => found,
            None => {
                let (set, way) = self.room(qpn)?;
                *self.sets.items_mut().get_mut(set)?.get_mut(way)? = open();
                *self.live_ways.items_mut().get_mut(set)? |= 1 << way;
                self.live = self.live.saturating_add(1);
                (set, way)
            }
        };
        self.sets.items_mut().get_mut(set)?.get_mut(way)
    }

    /// The record of a flow, if it has one.
    pub fn get(&self, qpn: Qpn) -> Option<&S> {
        let (set, way) = self.find(qpn)?;
        self.sets.items().get(set)?.get(way)
    }

    /// The record of a flow, if it has one. The caller must not change its key.
    pub fn get_mut(&mut self, qpn: Qpn) -> Option<&mut S> {
        let (set, way) = self.find(qpn)?;
        self.sets.items_mut().get_mut(set)?.get_mut(way)
    }

    /// Removes the record of a flow whose queue pair was destroyed, and returns it.
    pub fn remove(&mut self, qpn: Qpn) -> Option<S> {
        let (set, way) = self.find(qpn)?;
        self.take(set, way)
    }

    /// Advances to the next record in round-robin order, and returns it.
    #[inline]
    pub fn advance(&mut self) -> Option<&mut S> {
        let (set, way) = self.position;
        let behind = self.live_ways.items().get(set)? & (0xfe_u8 << way);
        let set = if behind != 0 { set } else { self.next_set(set)? };
        let ways = if behind != 0 { behind } else { *self.live_ways.items().get(set)? };
        let way = ways.trailing_zeros() as usize;
        self.position = (set, way);
        self.sets.items_mut().get_mut(set)?.get_mut(way)
    }

    /// Removes the record of the current slot, and returns it.
    pub fn remove_current(&mut self) -> Option<S> {
        let (set, way) = self.position;
        self.take(set, way)
    }

    /// Flows that have a record.
    #[inline]
    pub const fn occupied(&self) -> u32 {
        self.live
    }

    fn take(&mut self, set: usize, way: usize) -> Option<S> {
        let ways = self.live_ways.items_mut().get_mut(set)?;
        if *ways & 1 << way == 0 {
            return None;
        }
        *ways &= !(1 << way);
        self.live = self.live.saturating_sub(1);
        self.sets.items().get(set)?.get(way).copied()
    }

    /// The next set that has a record: searched from the set behind `set` to the last, then from the first up to `set`.
    #[inline]
    fn next_set(&self, set: usize) -> Option<usize> {
        let (front, back) = self.live_ways.items().split_at_checked(set.wrapping_add(1))?;
        match back.iter().position(|&ways| ways != 0) {
            Some(behind) => Some(set.wrapping_add(1).wrapping_add(behind)),
            None => front.iter().position(|&ways| ways != 0),
        }
    }

    /// The sets that the record of a number may be in, the likeliest first.
    #[inline]
    fn near(&self, qpn: Qpn) -> impl Iterator<Item = usize> + use<S, SETS, WAYS> {
        let sets = self.sets();
        let first = place(qpn, sets.trailing_zeros());
        (0..NEAR.min(sets)).map(move |ahead| first.wrapping_add(ahead) & sets.wrapping_sub(1))
    }

    // Not inlined: 546 bytes on rv32imc, for two callers.
    #[inline(never)]
    fn find(&self, qpn: Qpn) -> Option<(usize, usize)> {
        self.near(qpn).find_map(|set| {
            let live = *self.live_ways.items().get(set)?;
            let mut ways = self.sets.items().get(set)?.iter().enumerate();
            let way = ways.position(|(way, record)| live & 1 << way != 0 && record.qpn() == qpn)?;
            Some((set, way))
        })
    }

    #[inline]
    fn room(&self, qpn: Qpn) -> Option<(usize, usize)> {
        self.near(qpn).find_map(|set| {
            let way = self.live_ways.items().get(set)?.trailing_ones() as usize;
            (way < WAYS).then_some((set, way))
        })
    }
}

impl<S: Copy + Keyed + Zeroed, SETS: Storage, const WAYS: usize> RoundRobinTableIn<S, SETS, WAYS> {
    /// Grows the table to at least `sets` sets, a power of two. A table never shrinks, and a table of [`Fixed`] memory stays as
    /// it is. Records stay, except those for which the four sets of their new place have no room, which are passed to `gone`.
    /// The round-robin order restarts at the first record.
    pub fn grow(&mut self, sets: usize, mut gone: impl FnMut(S)) {
        let sets = sets.min(MOST_SETS).next_power_of_two();
        if sets <= self.sets() {
            return;
        }
        let (Some(new), Some(live_ways)) = (Array::of_len(sets), Array::of_len(sets)) else { return };
        let old = core::mem::replace(self, Self { sets: new, live_ways, position: (0, 0), live: 0 });
        for (set, live) in old.sets.items().iter().zip(old.live_ways.items()) {
            for (_, &record) in set.iter().enumerate().filter(|(way, _)| live & 1 << way != 0) {
                if self.lookup_or_insert(record.qpn(), || record).is_none() {
                    gone(record);
                }
            }
        }
    }
}

impl<S: Copy + Keyed + Zeroed, SETS: Storage, const WAYS: usize> Default for RoundRobinTableIn<S, SETS, WAYS> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::random::Random;
    use crate::table::Heap;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Record(u32, u32);

    impl Keyed for Record {
        fn qpn(&self) -> Qpn {
            Qpn::new(self.0)
        }
    }

    impl Zeroed for Record {
        const ZEROED: Self = Self(0, 0xdead);
    }

    fn enter<const SETS: usize, const WAYS: usize>(
        table: &mut RoundRobinTable<Record, SETS, WAYS>,
        qpn: u32,
        value: u32,
    ) -> Option<u32> {
        table.lookup_or_insert(Qpn::new(qpn), || Record(qpn, value)).map(|record| record.1)
    }

    #[test]
    fn a_table_on_the_heap_refuses_until_it_grows_and_keeps_its_records_or_returns_them() {
        let mut table = RoundRobinTableIn::<Record, Heap, 4>::new();
        assert_eq!(table.lookup_or_insert(Qpn::new(1), || Record(1, 1)), None);
        assert_eq!(table.advance(), None);
        assert_eq!(table.remove_current(), None);
        let mut known = BTreeMap::new();
        for sets in [1, 4, 64] {
            table.grow(sets, |gone| assert!(known.remove(&gone.0).is_some()));
            for qpn in 0..sets as u32 * 4 {
                if table.lookup_or_insert(Qpn::new(qpn), || Record(qpn, qpn)).is_some() {
                    known.insert(qpn, qpn);
                }
            }
            let live = table.occupied();
            let visited: BTreeMap<u32, u32> =
                (0..live).map(|_| *table.advance().unwrap()).map(|r| (r.0, r.1)).collect();
            assert_eq!((visited, known.len()), (known.clone(), live as usize));
        }
    }

    #[test]
    fn each_record_has_one_slot_in_a_round() {
        let mut table = RoundRobinTable::<Record, 64, 4>::new();
        assert_eq!(table.advance(), None);
        for qpn in 0..100 {
            assert_eq!(enter(&mut table, qpn * 0x101, qpn), Some(qpn));
        }
        let round: Vec<u32> = (0..100).map(|_| table.advance().unwrap().1).collect();
        let again: Vec<u32> = (0..100).map(|_| table.advance().unwrap().1).collect();
        assert_eq!(round, again);
        let mut all = round.clone();
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn the_current_record_can_be_removed_once() {
        let mut table = RoundRobinTable::<Record, 8, 2>::new();
        assert_eq!(table.remove_current(), None);
        for qpn in 1..=3 {
            enter(&mut table, qpn, qpn);
        }
        let first = table.advance().unwrap().0;
        assert_eq!(table.remove_current().map(|gone| gone.0), Some(first));
        assert_eq!((table.remove_current(), table.occupied()), (None, 2));
        let rest: Vec<u32> = (0..4).map(|_| table.advance().unwrap().0).collect();
        assert!(rest[0] != rest[1] && rest[..2] == rest[2..] && !rest.contains(&first));
    }

    #[test]
    fn flows_that_do_not_fit_are_refused_and_fit_once_another_has_gone() {
        let mut table = RoundRobinTable::<Record, 1, 8>::new();
        for qpn in 0..8 {
            assert_eq!(enter(&mut table, qpn, qpn), Some(qpn));
        }
        assert_eq!(enter(&mut table, 8, 8), None);
        assert_eq!(enter(&mut table, 3, 99), Some(3), "a flow that has a record keeps it");
        assert_eq!((table.remove(Qpn::new(8)), table.occupied()), (None, 8));
        assert_eq!(table.remove(Qpn::new(0)), Some(Record(0, 0)));
        assert_eq!((enter(&mut table, 8, 8), table.occupied()), (Some(8), 8));
    }

    #[test]
    fn at_three_quarters_load_hardly_any_random_number_is_refused() {
        let mut random = Random(11);
        let mut table = RoundRobinTable::<Record, 128, 4>::new();
        let refused = (0..384).filter(|_| enter(&mut table, random.below(1 << 24), 0).is_none()).count();
        assert!(refused <= 4, "{refused} of 384");
    }

    /// Ten million operations at full load against a map; every slot goes to the flow whose last slot is longest ago.
    #[test]
    fn it_behaves_as_a_bounded_map_visited_round_robin_f12() {
        let mut table = RoundRobinTable::<Record, 8, 4>::new();
        let mut known: BTreeMap<u32, u32> = BTreeMap::new();
        let mut random = Random(5);
        let mut visits_since_change: Vec<u32> = Vec::new();
        for step in 0..10_000_000 {
            let qpn = random.below(48) * 0x1003;
            match random.below(8) {
                0..=2 => {
                    let found = enter(&mut table, qpn, step);
                    match known.get(&qpn) {
                        Some(&value) => assert_eq!(found, Some(value)),
                        None if found.is_some() => {
                            assert_eq!(found, Some(step));
                            known.insert(qpn, step);
                            visits_since_change.clear();
                        }
                        None => assert!(known.len() >= 4),
                    }
                }
                3 => {
                    let gone = table.remove(Qpn::new(qpn)).map(|record| record.1);
                    assert_eq!(gone, known.remove(&qpn));
                    visits_since_change.clear();
                }
                4 if random.below(3) == 0 => {
                    if let Some(gone) = table.remove_current() {
                        assert_eq!(known.remove(&gone.0), Some(gone.1));
                        visits_since_change.clear();
                    }
                }
                _ => {
                    let Some(&mut Record(qpn, value)) = table.advance() else {
                        assert!(known.is_empty());
                        continue;
                    };
                    assert_eq!(known.get(&qpn), Some(&value));
                    let round = known.len() - 1;
                    let latest = visits_since_change.iter().rev().take(round);
                    assert!(latest.clone().all(|&other| other != qpn), "{qpn:#x} again after {latest:?}");
                    visits_since_change.push(qpn);
                }
            }
            assert_eq!(table.occupied() as usize, known.len());
        }
    }
}
