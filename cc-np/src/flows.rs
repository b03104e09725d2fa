//! [`Flows`] for the two tables of `cc-core`: [`SetAssocTableIn`] and [`RoundRobinTableIn`], from which a machine chooses.

use crate::{Cx, Flows, NotificationPoint};
use cc_core::Qpn;
use cc_core::table::{Fixed, Keyed, RoundRobinTableIn, SetAssocTableIn, Storage};

/// A function that passes a removed record to the machine. It is one closure type for tables of every size, so that they share
/// one compiled sweep.
fn on_evict<'a, A: NotificationPoint>(
    cx: &'a Cx<'_, A::Params>,
    shared: &'a mut A::Shared,
) -> impl FnMut(A) + use<'a, A> {
    |gone| gone.on_evicted(cx, shared)
}

/// Capacity of `SETS` sets of `ways` records; zero where the number of sets is not fixed at compile time.
const fn room<SETS: Storage>(ways: usize) -> usize {
    match SETS::LEN {
        Some(sets) => sets.saturating_mul(ways),
        None => 0,
    }
}

/// Evicts the least recently used record of a set that is full. It has no slots.
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

/// It has no eviction and no idle timeout. A record is removed in its round-robin slot, with its queue pair, or where the grown
/// table has no place for it.
impl<A: NotificationPoint + Keyed, SETS: Storage, const WAYS: usize> Flows<A> for RoundRobinTableIn<A, SETS, WAYS> {
    type HeaderSets = SETS;

    /// The record itself contains the key.
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
