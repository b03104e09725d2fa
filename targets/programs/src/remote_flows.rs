//! The flows that this NIC sends, by their remote name: the name by which the CNP of a switch identifies a flow. A switch sees
//! the queue pair number in data packets, which is the receiver's. Two receivers may use the same number, so the name includes
//! the addresses.

use cc_core::Zeroed;
use cc_core::table::{Array, Handle, Storage};
use cc_core::wire::FlowKey;

/// A flow by a hash of its remote name. A handle of zero is an empty entry.
#[derive(Clone, Copy)]
struct Entry {
    check: u32,
    handle: Handle,
}

impl Zeroed for Entry {
    const ZEROED: Self = Self { check: 0, handle: Handle::from_bits(0) };
}

/// A set-associative table of `SETS` times `WAYS` flows, 8 bytes each; the number of sets is a power of two.
///
/// The entry of an open flow is never evicted. When a set is full, a further flow of that set is refused, and CNPs from
/// switches cannot find it.
pub(crate) struct RemoteFlowTable<SETS: Storage, const WAYS: usize>(SETS::Array<[Entry; WAYS]>);

impl<SETS: Storage, const WAYS: usize> Zeroed for RemoteFlowTable<SETS, WAYS> {
    const ZEROED: Self = {
        if let Some(sets) = SETS::LEN {
            assert!(sets.is_power_of_two(), "the number of sets is a power of two");
        }
        Self(Zeroed::ZEROED)
    };
}

impl<SETS: Storage, const WAYS: usize> RemoteFlowTable<SETS, WAYS> {
    /// Bytes of an entry.
    pub(crate) const ENTRY_BYTES: usize = size_of::<Entry>();

    /// Grows the table to at least `sets` sets, rounded up to a power of two, if the memory is on the heap. This empties it,
    /// because an entry does not hold enough of its key to find its new set.
    pub(crate) fn grow(&mut self, sets: usize) {
        let sets = sets.next_power_of_two();
        if sets > self.0.items().len()
            && let Some(entries) = Array::of_len(sets)
        {
            self.0 = entries;
        }
    }

    /// Stores the remote name of a flow. `is_open` returns whether the flow of a handle is open; entries of closed flows are
    /// reused. If two flows have the same name, the later replaces the earlier. Returns whether there was room.
    #[cold]
    pub(crate) fn learn(&mut self, key: FlowKey, handle: Handle, is_open: impl Fn(Handle) -> bool) -> bool {
        let (set, check) = self.place(key);
        let Some(set) = self.0.items_mut().get_mut(set) else { return false };
        let known = set.iter().position(|entry| entry.check == check);
        let Some(way) = known.or_else(|| set.iter().position(|entry| !is_open(entry.handle))) else { return false };
        if let Some(entry) = set.get_mut(way) {
            *entry = Entry { check, handle };
        }
        true
    }

    /// The flow with this remote name, if it is in the table; it may have been closed meanwhile.
    pub(crate) fn find(&self, key: FlowKey) -> Option<Handle> {
        let (set, check) = self.place(key);
        self.0.items().get(set)?.iter().find(|entry| entry.check == check).map(|entry| entry.handle)
    }

    /// The set of a key, and the tag that identifies it within the set.
    #[inline(never)]
    fn place(&self, key: FlowKey) -> (usize, u32) {
        (key.set_hash().get() as usize & self.0.items().len().wrapping_sub(1), key.tag_hash())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::Qpn;
    use cc_core::table::Fixed;

    fn key(peers: u32, qpn: u32) -> FlowKey {
        FlowKey { peers, data_qpn: Qpn::new(qpn) }
    }

    fn handle(index: u32) -> Handle {
        Handle::from_bits(index << 16 | 1)
    }

    #[test]
    fn flows_to_one_number_at_two_peers_are_distinct_and_an_unknown_name_is_not_found() {
        let mut ends = RemoteFlowTable::<Fixed<4>, 4>::ZEROED;
        let open = |handle: Handle| handle.to_bits() != 0;
        assert!(ends.learn(key(1, 17), handle(1), open));
        assert!(ends.learn(key(2, 17), handle(2), open));
        assert_eq!(ends.find(key(1, 17)), Some(handle(1)));
        assert_eq!(ends.find(key(2, 17)), Some(handle(2)));
        assert_eq!((ends.find(key(3, 17)), ends.find(key(1, 18))), (None, None));
        assert!(ends.learn(key(1, 17), handle(3), open), "a queue pair connected a second time");
        assert_eq!(ends.find(key(1, 17)), Some(handle(3)));
    }

    #[test]
    fn entries_of_open_flows_are_kept_and_those_of_closed_flows_are_reused() {
        let mut ends = RemoteFlowTable::<Fixed<2>, 2>::ZEROED;
        let open = |handle: Handle| handle.to_bits() != 0 && handle.index() < 100;
        let learnt = (0..100).filter(|&n| ends.learn(key(n, 1), handle(n), open)).count();
        assert_eq!(learnt, 4);
        assert_eq!((0..100).filter(|&n| ends.find(key(n, 1)) == Some(handle(n))).count(), 4);
        let all_closed = |_| false;
        for n in 200..300 {
            assert!(ends.learn(key(n, 1), handle(n), all_closed));
            assert_eq!(ends.find(key(n, 1)), Some(handle(n)));
        }
    }
}
