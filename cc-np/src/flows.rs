//! Where an engine keeps the records of its flows.

use crate::{Cx, NotificationPoint};
use cc_core::table::{Fixed, Keyed, RoundRobinTableIn, SetAssocTableIn, Storage};
use cc_core::{Qpn, Zeroed};

/// A bounded table of records, which tells the machine of every one that goes.
pub trait Flows<A: NotificationPoint>: Zeroed {
    /// Sets of the table in which the engine's caller keeps the headers of CNPs that leave with no packet in hand: none, or as
    /// many as there are of records.
    type HeaderSets: Storage;

    /// Bytes of a record, with its key.
    const RECORD_BYTES: usize;
    /// Flows that there is room for; zero where that is not fixed.
    const ROOM: usize;

    /// Makes room for `sets` sets of records, a power of two, where the memory is on the heap.
    fn grow(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared, sets: usize);

    /// Sets of records that there are.
    fn sets(&self) -> usize;

    /// The record of a flow of which a packet has come, opened if it has none; `None` where there is no room for it.
    fn lookup_or_insert(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared, local: Qpn) -> Option<&mut A>;

    /// The record of a flow, if it has one.
    fn get(&self, local: Qpn) -> Option<&A>;

    /// Puts another record in the place of a flow's. Returns whether it has one, and the other is of the same flow.
    fn put(&mut self, local: Qpn, record: A) -> bool;

    /// Forgets a flow whose queue pair is gone.
    fn remove(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared, local: Qpn);

    /// Visits the next set of records and forgets those that mean nothing any more.
    fn sweep(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared);

    /// The next flow, one after the other without end, in tables whose flows have turns.
    fn advance(&mut self) -> Option<&mut A>;

    /// Forgets the flow whose turn it is.
    fn remove_current(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared);

    /// Flows that have a record.
    fn occupied(&self) -> u32;

    /// Records that were given up for another flow's while they still meant something.
    fn evicted(&self) -> u32;
}

/// Tells the machine of records that go. One closure for tables of every size, which so have one sweep.
fn on_evict<'a, A: NotificationPoint>(
    cx: &'a Cx<'_, A::Params>,
    shared: &'a mut A::Shared,
) -> impl FnMut(A) + use<'a, A> {
    |gone| gone.on_evicted(cx, shared)
}

/// Flows that so many ways of each set have room for; zero where the number of sets is not fixed.
const fn room<SETS: Storage>(ways: usize) -> usize {
    match SETS::LEN {
        Some(sets) => sets.saturating_mul(ways),
        None => 0,
    }
}

/// The stalest gives way, and there are no turns.
impl<A: NotificationPoint, SETS: Storage, const WAYS: usize> Flows<A> for SetAssocTableIn<A, SETS, WAYS> {
    type HeaderSets = Fixed<0>;

    const RECORD_BYTES: usize = Self::ENTRY_BYTES;
    const ROOM: usize = room::<SETS>(WAYS);

    fn grow(&mut self, _cx: &Cx<'_, A::Params>, _shared: &mut A::Shared, sets: usize) {
        self.grow(sets);
    }

    #[inline(always)]
    fn sets(&self) -> usize {
        self.sets()
    }

    #[inline]
    fn lookup_or_insert(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared, local: Qpn) -> Option<&mut A> {
        let open = |gone: Option<A>| {
            if let Some(gone) = gone {
                gone.on_evicted(cx, shared);
            }
            A::open(cx, shared, Some(local))
        };
        self.lookup_or_insert(local, cx.now.stamp(), A::idle_timeout(cx.params), open).map(|(record, _)| record)
    }

    fn get(&self, local: Qpn) -> Option<&A> {
        self.get(local)
    }

    fn put(&mut self, local: Qpn, record: A) -> bool {
        self.get_mut(local).map(|place| *place = record).is_some()
    }

    fn remove(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared, local: Qpn) {
        self.remove(local, on_evict(cx, shared));
    }

    #[inline]
    fn sweep(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared) {
        self.sweep(cx.now.stamp(), A::idle_timeout(cx.params), 1, on_evict(cx, shared));
    }

    #[inline]
    fn advance(&mut self) -> Option<&mut A> {
        None
    }

    fn remove_current(&mut self, _cx: &Cx<'_, A::Params>, _shared: &mut A::Shared) {}

    #[inline]
    fn occupied(&self) -> u32 {
        self.occupied()
    }

    fn evicted(&self) -> u32 {
        self.evicted()
    }
}

/// Nobody gives way, and a record lasts until its turn comes and it leaves.
impl<A: NotificationPoint + Keyed, SETS: Storage, const WAYS: usize> Flows<A> for RoundRobinTableIn<A, SETS, WAYS> {
    type HeaderSets = SETS;

    /// The machine's own word holds the key.
    const RECORD_BYTES: usize = size_of::<A>();
    const ROOM: usize = room::<SETS>(WAYS);

    fn grow(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared, sets: usize) {
        self.grow(sets, on_evict(cx, shared));
    }

    #[inline(always)]
    fn sets(&self) -> usize {
        self.sets()
    }

    #[inline]
    fn lookup_or_insert(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared, local: Qpn) -> Option<&mut A> {
        self.lookup_or_insert(local, || A::open(cx, shared, Some(local)))
    }

    fn get(&self, local: Qpn) -> Option<&A> {
        self.get(local)
    }

    fn put(&mut self, local: Qpn, record: A) -> bool {
        record.qpn() == local && self.get_mut(local).map(|place| *place = record).is_some()
    }

    fn remove(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared, local: Qpn) {
        if let Some(gone) = self.remove(local) {
            gone.on_evicted(cx, shared);
        }
    }

    #[inline]
    fn sweep(&mut self, _cx: &Cx<'_, A::Params>, _shared: &mut A::Shared) {}

    #[inline]
    fn advance(&mut self) -> Option<&mut A> {
        self.advance()
    }

    fn remove_current(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared) {
        if let Some(gone) = self.remove_current() {
            gone.on_evicted(cx, shared);
        }
    }

    #[inline]
    fn occupied(&self) -> u32 {
        self.occupied()
    }

    fn evicted(&self) -> u32 {
        0
    }
}
