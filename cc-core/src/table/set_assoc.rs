//! The set-associative table of the receiver's flows: looked up by queue pair number; a full set evicts its least recently
//! used record.

use super::{Array, Fixed, Storage, place};
use crate::Zeroed;
use crate::snapshot::{State, Words};
use crate::units::{Nanos, Qpn, Stamp};

/// Result of a look-up in a [`SetAssocTableIn`]: whether it had a record of the packet's flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Lookup {
    /// It has a record.
    Hit,
    /// A record was opened where none was, or where one had expired.
    Inserted,
    /// A record was opened in place of a live one, which was evicted.
    Evicted,
}

/// The record of a flow, its key, and when the flow was last seen.
#[derive(Clone, Copy)]
struct Entry<S> {
    /// The queue pair number, with `LIVE` set; zero if the entry is free.
    key: u32,
    seen: Stamp,
    record: S,
}

const _: () = assert!(size_of::<Entry<[u32; 2]>>() == 16);

impl<S: Zeroed> Zeroed for Entry<S> {
    const ZEROED: Self = Self { key: 0, seen: Stamp::ZEROED, record: S::ZEROED };
}

const LIVE: u32 = 1 << 31;
/// Most sets of a table: 24-bit numbers cannot fill more.
const MOST_SETS: usize = 1 << 24;

/// A [`SetAssocTableIn`] of `SETS` sets, inside the table.
pub type SetAssocTable<S, const SETS: usize, const WAYS: usize> = SetAssocTableIn<S, Fixed<SETS>, WAYS>;

/// A table of the records of at most `SETS * WAYS` flows. An entry has 8 bytes in addition to the record.
///
/// A queue pair number belongs to one set, and is searched for in its `WAYS` entries only: every operation except the sweep is
/// O(`WAYS`), without probing or tombstones. A new flow gets a free entry of its set, or else evicts the least recently used
/// one. Evictions of entries younger than the horizon are counted; an older one had expired.
///
/// Entries keep 32-bit stamps, so [`SetAssocTableIn::sweep`] must visit each of them every second, and the horizon must be at
/// most two seconds. The number of sets is a power of two, or zero in a table on the heap that has not grown yet, which refuses
/// every flow.
pub struct SetAssocTableIn<S: Zeroed, SETS: Storage, const WAYS: usize> {
    sets: SETS::Array<[Entry<S>; WAYS]>,
    cursor: usize,
    tally: Tally,
}

/// How many entries are live, and how many live records were evicted.
#[derive(Clone, Copy)]
struct Tally {
    live: u32,
    evicted: u32,
}

impl<S: Zeroed, SETS: Storage, const WAYS: usize> Zeroed for SetAssocTableIn<S, SETS, WAYS> {
    const ZEROED: Self = {
        assert!(WAYS >= 1, "a set has at least one way");
        if let Some(sets) = SETS::LEN {
            assert!(sets & sets.wrapping_sub(1) == 0 && sets <= MOST_SETS, "no sets, or a power of two, at most 2^24");
        }
        Self { sets: Zeroed::ZEROED, cursor: 0, tally: Tally { live: 0, evicted: 0 } }
    };
}

impl<S: Clone + Zeroed, SETS: Storage, const WAYS: usize> SetAssocTableIn<S, SETS, WAYS> {
    /// Bytes of an entry: the record, its key, and the time of its last use.
    pub const ENTRY_BYTES: usize = size_of::<Entry<S>>();

    /// A table without flows.
    pub const fn new() -> Self {
        Self::ZEROED
    }

    /// The number of sets.
    #[inline(always)]
    pub fn sets(&self) -> usize {
        self.sets.items().len()
    }

    /// The set of a number.
    #[inline(always)]
    fn place(&self, qpn: Qpn) -> usize {
        place(qpn, self.sets().trailing_zeros())
    }

    /// The record of the flow that a packet belongs to. When there is none, `open` makes it; it is passed the record that
    /// the new one replaces, if there is one.
    ///
    /// An entry last seen longer than `horizon` ago has expired, whether or not the sweep has visited it: it is replaced
    /// without being counted, by its own flow as by any other.
    #[inline]
    pub fn lookup_or_insert(
        &mut self,
        qpn: Qpn,
        now: Stamp,
        horizon: Nanos,
        open: impl FnOnce(Option<S>) -> S,
    ) -> Option<(&mut S, Lookup)> {
        let at = self.place(qpn);
        let set = self.sets.items_mut().get_mut(at)?;
        let (last, others) = set.split_last_mut()?;
        let (entry, was) = claim(last, others, &mut self.tally, qpn.get() | LIVE, now, horizon);
        let (gone, seen) = match was {
            Was::Known => return Some((&mut entry.record, Lookup::Hit)),
            Was::Dead => (None, Lookup::Inserted),
            Was::Expired => (Some(entry.record.clone()), Lookup::Inserted),
            Was::Alive => (Some(entry.record.clone()), Lookup::Evicted),
        };
        entry.record = open(gone);
        Some((&mut entry.record, seen))
    }

    /// As [`SetAssocTableIn::lookup_or_insert`], but no live record is evicted: `None` if all entries of the set are live.
    pub fn admit(&mut self, qpn: Qpn, now: Stamp, horizon: Nanos, open: impl FnOnce(Option<S>) -> S) -> Option<&mut S> {
        let key = qpn.get() | LIVE;
        let at = self.place(qpn);
        let set = self.sets.items_mut().get_mut(at)?;
        let known = set.iter().position(|entry| entry.key == key);
        let dead = || set.iter().position(|entry| entry.key == 0);
        let expired = || set.iter().position(|entry| now.since(entry.seen) > horizon);
        let way = known.or_else(dead).or_else(expired)?;
        let entry = set.get_mut(way)?;
        if known.is_none() {
            let gone = (entry.key != 0).then(|| entry.record.clone());
            self.tally.live = self.tally.live.wrapping_add(u32::from(gone.is_none()));
            *entry = Entry { key, seen: now, record: open(gone) };
        }
        entry.seen = now;
        Some(&mut entry.record)
    }

    /// The record of a flow, if it has one. Does not mark it as used.
    pub fn get_mut(&mut self, qpn: Qpn) -> Option<&mut S> {
        let key = qpn.get() | LIVE;
        let at = self.place(qpn);
        let set = self.sets.items_mut().get_mut(at)?;
        set.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.record)
    }

    /// The record of a flow, if it has one.
    #[inline]
    pub fn get(&self, qpn: Qpn) -> Option<&S> {
        let key = qpn.get() | LIVE;
        let set = self.sets.items().get(self.place(qpn))?;
        set.iter().find(|entry| entry.key == key).map(|entry| &entry.record)
    }

    /// Removes the record of a flow whose queue pair was destroyed, so that the next flow of that number starts from zero.
    /// Calls `gone` with the record if there was one.
    pub fn remove(&mut self, qpn: Qpn, mut gone: impl FnMut(S)) {
        let at = self.place(qpn);
        if let Some(set) = self.sets.items_mut().get_mut(at) {
            let removed = free(set, qpn.get() | LIVE, Stamp::from_bits(0), Nanos::MAX, &mut gone);
            self.tally.live = self.tally.live.wrapping_sub(removed);
        }
    }

    /// Visits the next `sets` sets, frees the entries that were last seen longer than `horizon` ago, and calls `gone` with each
    /// of their records.
    #[inline]
    pub fn sweep(&mut self, now: Stamp, horizon: Nanos, sets: usize, mut gone: impl FnMut(S)) {
        for _ in 0..sets {
            if let Some(set) = self.sets.items_mut().get_mut(self.cursor) {
                self.tally.live = self.tally.live.wrapping_sub(free(set, 0, now, horizon, &mut gone));
            }
            self.cursor = self.cursor.wrapping_add(1) & self.sets().wrapping_sub(1);
        }
    }

    /// Number of live entries: flows seen within the horizon, and flows that expired since the sweep last visited them.
    #[inline]
    pub const fn occupied(&self) -> u32 {
        self.tally.live
    }

    /// Live records that were evicted for a new flow.
    #[inline]
    pub const fn evicted(&self) -> u32 {
        self.tally.evicted
    }
}

impl<S: Clone + Zeroed, SETS: Storage, const WAYS: usize> SetAssocTableIn<S, SETS, WAYS> {
    /// Grows the table to at least `sets` sets, a power of two. Records stay; a table never shrinks, and one of [`Fixed`]
    /// memory stays as it is.
    pub fn grow(&mut self, sets: usize) {
        let sets = sets.min(MOST_SETS).next_power_of_two();
        if sets <= self.sets() {
            return;
        }
        let Some(new) = Array::of_len(sets) else { return };
        let old = core::mem::replace(&mut self.sets, new);
        self.cursor = 0;
        // Each set is split into several, so no set has more records than before.
        for entry in old.items().iter().flatten().filter(|entry| entry.key != 0) {
            let at = self.place(Qpn::new(entry.key));
            let set = self.sets.items_mut().get_mut(at);
            if let Some(free) = set.and_then(|set| set.iter_mut().find(|entry| entry.key == 0)) {
                *free = entry.clone();
            }
        }
    }
}

/// An entry of a [`SetAssocTable`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntrySnapshot<T> {
    /// The flow's queue pair number, or another number of 24 bits.
    pub key: Qpn,
    /// When it was last seen.
    pub seen: Stamp,
    /// Its record.
    pub record: T,
}

impl<T: Words> Words for EntrySnapshot<T> {
    const COUNT: usize = Qpn::COUNT + Stamp::COUNT + T::COUNT;

    fn write(&self, write: &mut dyn FnMut(u32)) {
        self.key.write(write);
        self.seen.write(write);
        self.record.write(write);
    }

    fn read(read: &mut dyn FnMut() -> u32) -> Self {
        Self { key: Words::read(read), seen: Words::read(read), record: Words::read(read) }
    }
}

/// A [`SetAssocTable`]. A lookup does not find an entry that is in another set than its key's; the sweep removes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetAssocTableSnapshot<T, const SETS: usize, const WAYS: usize> {
    /// The entries, set by set.
    pub sets: [[Option<EntrySnapshot<T>>; WAYS]; SETS],
    /// The set that the sweep continues with, modulo the number of sets.
    pub cursor: u32,
    /// Records of live flows that gave way to a new flow.
    pub evicted: u32,
}

impl<T: Words, const SETS: usize, const WAYS: usize> Words for SetAssocTableSnapshot<T, SETS, WAYS> {
    const COUNT: usize = <[[Option<EntrySnapshot<T>>; WAYS]; SETS]>::COUNT + 2;

    fn write(&self, write: &mut dyn FnMut(u32)) {
        self.sets.write(write);
        self.cursor.write(write);
        self.evicted.write(write);
    }

    fn read(read: &mut dyn FnMut() -> u32) -> Self {
        Self { sets: Words::read(read), cursor: Words::read(read), evicted: Words::read(read) }
    }
}

impl<S: State + Copy + Zeroed, const SETS: usize, const WAYS: usize> State for SetAssocTable<S, SETS, WAYS> {
    type Snapshot = SetAssocTableSnapshot<S::Snapshot, SETS, WAYS>;

    fn snapshot(&self) -> Self::Snapshot {
        let snapshot = |entry: Entry<S>| EntrySnapshot {
            key: Qpn::new(entry.key),
            seen: entry.seen,
            record: entry.record.snapshot(),
        };
        SetAssocTableSnapshot {
            sets: self.sets.map(|set| set.map(|entry| (entry.key != 0).then(|| snapshot(entry)))),
            cursor: u32::try_from(self.cursor).unwrap_or(0),
            evicted: self.tally.evicted,
        }
    }

    fn from_snapshot(s: Self::Snapshot) -> Self {
        let entry = |entry: EntrySnapshot<S::Snapshot>| Entry {
            key: entry.key.get() | LIVE,
            seen: entry.seen,
            record: S::from_snapshot(entry.record),
        };
        let live = s.sets.iter().flatten().flatten().count();
        Self {
            sets: s.sets.map(|set| set.map(|place| place.map_or(Entry::ZEROED, entry))),
            cursor: s.cursor as usize & SETS.wrapping_sub(1),
            tally: Tally { live: u32::try_from(live).unwrap_or(u32::MAX), evicted: s.evicted },
        }
    }
}

impl<S: Clone + Zeroed, SETS: Storage, const WAYS: usize> Default for SetAssocTableIn<S, SETS, WAYS> {
    fn default() -> Self {
        Self::new()
    }
}

/// The former content of an entry that is given to a flow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Was {
    /// The record of that flow.
    Known,
    /// No record.
    Dead,
    /// Expired: its flow was last seen longer than the horizon ago.
    Expired,
    /// A live record of another flow.
    Alive,
}

/// Gives a flow the entry that it has in its set, or else the least recently used: of equally old entries, the last.
// One function for sets of every size.
#[inline(never)]
fn claim<'a, S>(
    last: &'a mut Entry<S>,
    others: &'a mut [Entry<S>],
    tally: &mut Tally,
    key: u32,
    now: Stamp,
    horizon: Nanos,
) -> (&'a mut Entry<S>, Was) {
    let mut entry = last;
    if entry.key != key {
        for other in others.iter_mut().rev() {
            if other.key == key {
                entry = other;
                break;
            }
            if other.staleness(now) > entry.staleness(now) {
                entry = other;
            }
        }
    }
    let (before, expired) = (entry.key, now.since(entry.seen) > horizon);
    (entry.key, entry.seen) = (key, now);
    let was = if before == key && !expired {
        Was::Known
    } else if before == 0 {
        tally.live = tally.live.wrapping_add(1);
        Was::Dead
    } else if expired {
        Was::Expired
    } else {
        tally.evicted = tally.evicted.saturating_add(1);
        Was::Alive
    };
    (entry, was)
}

/// Frees the entries that have this key or were last seen longer than `horizon` ago, calls `gone` with each of their records,
/// and returns the number of entries freed.
#[inline(never)]
fn free<S: Clone>(set: &mut [Entry<S>], key: u32, now: Stamp, horizon: Nanos, gone: &mut impl FnMut(S)) -> u32 {
    let mut freed = 0_u32;
    for entry in set {
        if entry.key != 0 && (entry.key == key || now.since(entry.seen) > horizon) {
            entry.key = 0;
            freed = freed.wrapping_add(1);
            gone(entry.record.clone());
        }
    }
    freed
}

impl<S> Entry<S> {
    /// The age by which an entry is chosen for a new record: free entries first, then the least recently used.
    #[inline]
    const fn staleness(&self, now: Stamp) -> u32 {
        if self.key == 0 { u32::MAX } else { now.since(self.seen).get() }
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

    const HORIZON: Nanos = Nanos::new(50_000);

    fn at(nanos: u32) -> Stamp {
        Stamp::from_bits(nanos)
    }

    #[test]
    fn a_table_on_the_heap_refuses_until_it_grows_and_keeps_its_records() {
        let mut table = SetAssocTableIn::<u32, Heap, 2>::new();
        assert!(table.lookup_or_insert(Qpn::new(1), at(0), HORIZON, |_| 1).is_none());
        table.sweep(at(0), HORIZON, 4, |_| panic!("there is none"));
        let mut known = Vec::new();
        for sets in [1, 2, 3, 64] {
            table.grow(sets);
            assert_eq!(table.sets(), sets.next_power_of_two());
            for qpn in 0..sets as u32 * 100 {
                if let Some(record) = table.admit(Qpn::new(qpn), at(0), HORIZON, |_| qpn) {
                    assert_eq!(*record, qpn);
                    known.push(qpn);
                }
            }
            assert_eq!(table.occupied(), 2 * table.sets() as u32);
            known.dedup();
            assert!(known.iter().all(|&qpn| table.get(Qpn::new(qpn)) == Some(&qpn)));
        }
    }

    #[test]
    fn admission_replaces_only_expired_entries() {
        let mut table = SetAssocTable::<u32, 1, 2>::new();
        let mut gone = Vec::new();
        let mut admit = |qpn, now, value| {
            let open = |record| {
                gone.extend(record);
                value
            };
            table.admit(Qpn::new(qpn), at(now), HORIZON, open).copied()
        };
        assert_eq!(admit(1, 0, 10), Some(10));
        assert_eq!(admit(2, 10, 20), Some(20));
        assert_eq!(admit(3, 50_000, 30), None, "all entries are live");
        assert_eq!(admit(1, 50_000, 11), Some(10), "known");
        assert_eq!(admit(3, 50_011, 30), Some(30), "in place of the second");
        assert_eq!(gone, [20]);
        assert_eq!((table.occupied(), table.evicted()), (2, 0));
        *table.get_mut(Qpn::new(1)).unwrap() = 12;
        assert_eq!((table.get(Qpn::new(1)).copied(), table.get_mut(Qpn::new(2))), (Some(12), None));
    }

    #[test]
    fn dead_entries_are_replaced_first_then_expired_then_least_recently_used_ones() {
        let mut table = SetAssocTable::<u32, 1, 3>::new();
        let mut touch = |qpn, now, value| {
            let (record, seen) = table.lookup_or_insert(Qpn::new(qpn), at(now), HORIZON, |_| value).unwrap();
            (*record, seen)
        };
        assert_eq!(touch(1, 0, 10), (10, Lookup::Inserted));
        assert_eq!(touch(2, 10, 20), (20, Lookup::Inserted));
        assert_eq!(touch(3, 20, 30), (30, Lookup::Inserted));
        assert_eq!(touch(1, 30, 99), (10, Lookup::Hit));
        assert_eq!(touch(4, 40, 40), (40, Lookup::Evicted));
        assert_eq!(touch(3, 50, 99), (30, Lookup::Hit));
        assert_eq!(touch(5, 50_031, 50), (50, Lookup::Inserted));
        assert_eq!(touch(1, 50_032, 11), (11, Lookup::Evicted));
        assert_eq!((table.occupied(), table.evicted()), (3, 2));
    }

    #[test]
    fn a_removed_flow_gets_a_new_record() {
        let mut table = SetAssocTable::<u32, 2, 2>::new();
        for qpn in [0, 0xff_ffff] {
            assert_eq!(*table.lookup_or_insert(Qpn::new(qpn), at(0), HORIZON, |_| 1).unwrap().0, 1);
            table.remove(Qpn::new(qpn), drop);
            table.remove(Qpn::new(qpn), drop);
            assert_eq!(table.occupied(), 0);
            assert_eq!(table.lookup_or_insert(Qpn::new(qpn), at(1), HORIZON, |_| 2), Some((&mut 2, Lookup::Inserted)));
            table.remove(Qpn::new(qpn), drop);
        }
    }

    #[test]
    fn a_swept_entry_stays_dead_when_the_stamps_wrap() {
        let mut table = SetAssocTable::<u32, 4, 1>::new();
        table.lookup_or_insert(Qpn::new(9), at(0), HORIZON, |_| 1);
        for quarter_seconds in 1..=17u32 {
            table.sweep(at(quarter_seconds.wrapping_mul(250_000_000)), HORIZON, 4, drop);
        }
        // 2^32 ns later the stamp reads as if no time had passed.
        assert_eq!(table.occupied(), 0);
        assert_eq!(table.lookup_or_insert(Qpn::new(9), at(10), HORIZON, |_| 2), Some((&mut 2, Lookup::Inserted)));
    }

    #[test]
    fn the_sweep_leaves_exactly_the_flows_within_the_horizon() {
        let mut table = SetAssocTable::<u32, 16, 4>::new();
        for qpn in 0..20 {
            table.lookup_or_insert(Qpn::new(qpn), at(qpn * 5_000), HORIZON, |_| 0);
        }
        table.sweep(at(100_000), HORIZON, 16, drop);
        // Last seen at 50 us or later.
        assert_eq!(table.occupied(), 10);
    }

    /// A million lookups of four times as many flows as the table has room for, over ten wraps of the stamps, compared with a
    /// map that keeps every flow with 64-bit times.
    #[test]
    fn it_behaves_as_a_map_of_bounded_size_f12() {
        const SETS: usize = 8;
        const WAYS: usize = 4;
        let mut table = SetAssocTable::<u32, SETS, WAYS>::new();
        let mut known: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
        let mut random = Random(3);
        let (mut now, mut evicted, mut swept, mut expired) = (u64::from(u32::MAX - 1_000_000), 0, 0, 0);
        for step in 0..1_000_000 {
            now += u64::from(1 + random.below(2_000) + 80_000 * u32::from(random.below(4) == 0));
            let qpn = Qpn::new(random.below(SETS as u32 * WAYS as u32 * 4) * 0x1003);
            let (set, stamp) = (place(qpn, 3), Stamp::from_bits(now as u32));
            if let Some((seen, _)) = known.get(&qpn.get())
                && now - seen > u64::from(HORIZON.get())
            {
                known.remove(&qpn.get());
                expired += 1;
            }
            let neighbours: Vec<_> =
                known.iter().filter(|&(&other, _)| place(Qpn::new(other), 3) == set).map(|(&q, &v)| (q, v)).collect();
            let expected = if known.contains_key(&qpn.get()) {
                Lookup::Hit
            } else if neighbours.len() < WAYS {
                Lookup::Inserted
            } else {
                let &(victim, (seen, _)) = neighbours.iter().min_by_key(|(_, (seen, _))| *seen).unwrap();
                known.remove(&victim);
                if now - seen > u64::from(HORIZON.get()) {
                    Lookup::Inserted
                } else {
                    evicted += 1;
                    Lookup::Evicted
                }
            };
            let (record, seen) = table.lookup_or_insert(qpn, stamp, HORIZON, |_| step).unwrap();
            assert_eq!(seen, expected);
            let entry = known.entry(qpn.get()).or_insert((now, step));
            assert_eq!(*record, entry.1);
            *record = record.wrapping_mul(31);
            *entry = (now, *record);
            if now - swept > 100_000_000 {
                swept = now;
                table.sweep(stamp, HORIZON, SETS, drop);
                known.retain(|_, (seen, _)| now - *seen <= u64::from(HORIZON.get()));
            }
            assert_eq!((table.occupied() as usize, table.evicted()), (known.len(), evicted));
        }
        assert!(evicted > 1_000 && expired > 1_000, "{evicted} evicted, {expired} expired");
    }
}
