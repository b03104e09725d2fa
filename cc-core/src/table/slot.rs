//! The slot table of the sender's flows: looked up by handle or by queue pair number, refused when the table is full.

use super::{Array, Fixed, List, Storage, place};
use crate::Zeroed;
use crate::units::Qpn;
use core::{fmt, mem};

/// A flow of one [`SlotTable`]: the slot's index and its generation, in 32 bits.
///
/// A slot takes a new generation each time it is opened; after 128 openings of the same slot they repeat, and a
/// handle kept for that long would be taken for the new flow's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Handle(u32);

impl Handle {
    /// The handle with these raw bits, as they came through a descriptor. Any word is safe: a table checks each handle.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & (0xffff << 16 | Tag::GENERATION))
    }

    /// The raw bits: the index in the high half, the generation in the lowest byte.
    #[inline]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The index of the slot, below the capacity of its table.
    #[inline]
    pub const fn index(self) -> u16 {
        (self.0 >> 16) as u16
    }

    const fn new(index: u16, tag: Tag) -> Self {
        Self((index as u32) << 16 | tag.0 & Tag::GENERATION)
    }
}

/// Why a queue pair number was not bound to a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum BindError {
    /// The handle's flow was closed.
    Stale,
    /// The flow is bound to another number.
    AlreadyBound,
    /// The number belongs to another flow.
    QpnInUse,
    /// 0xffffff is the multicast queue pair (IBTA 1.4, 9.2), no flow's number.
    Multicast,
    /// The map has no free place within 128 of the number's own.
    ProbeLimit,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stale => "the flow was closed",
            Self::AlreadyBound => "the flow has another queue pair number",
            Self::QpnInUse => "another flow has this queue pair number",
            Self::Multicast => "0xffffff is the multicast queue pair",
            Self::ProbeLimit => "the queue pair map has no free place within 128 of this number's",
        })
    }
}

impl core::error::Error for BindError {}

/// State of a slot. Low 8 bits: the generation, odd while the slot is open. High 24 bits: the queue pair number of an open
/// slot, or the next free slot of a closed one. In this order no comparison needs a constant that is too long for an
/// instruction.
#[derive(Clone, Copy)]
struct Tag(u32);

impl Tag {
    const GENERATION: u32 = 0xff;
    const NEW: Self = Self(1 | UNBOUND.get() << 8);

    const fn is_open(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether the slot is open, and in the handle's generation.
    const fn is_of(self, handle: Handle) -> bool {
        self.is_open() && (self.0 ^ handle.0) & Self::GENERATION == 0
    }

    const fn qpn(self) -> Qpn {
        Qpn::new(self.0 >> 8)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a closed slot holds 16 bits above the generation")]
    const fn reference(self) -> SlotRef {
        SlotRef((self.0 >> 8) as u16)
    }

    const fn with_qpn(self, qpn: Qpn) -> Self {
        Self(self.0 & Self::GENERATION | qpn.get() << 8)
    }

    const fn opened(self) -> Self {
        self.next(UNBOUND.get())
    }

    const fn closed(self, reference: SlotRef) -> Self {
        self.next(reference.0 as u32)
    }

    const fn next(self, above: u32) -> Self {
        Self(self.0.wrapping_add(1) & Self::GENERATION | above << 8)
    }
}

#[derive(Clone, Copy)]
struct Slot<T> {
    value: T,
    tag: Tag,
}

const _: () = assert!(size_of::<Handle>() == 4 && size_of::<Slot<[u32; 13]>>() == 56);

/// Reference to a slot, in the free list and in the map: the slot's index plus one. Zero refers to no slot: the end of the
/// list, or an empty place of the map.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SlotRef(u16);

impl Zeroed for SlotRef {
    const ZEROED: Self = Self::NONE;
}

impl SlotRef {
    const NONE: Self = Self(0);

    const fn to(index: u16) -> Self {
        Self(index.wrapping_add(1))
    }

    const fn index(self) -> u16 {
        self.0.wrapping_sub(1)
    }

    /// The index in the slots; for a reference to no slot, an index beyond the last slot.
    #[inline]
    const fn place(self) -> usize {
        (self.0 as usize).wrapping_sub(1)
    }
}

/// Placeholder in an open slot that is not bound to a number; never a flow's number.
const UNBOUND: Qpn = Qpn::new(0x00ff_ffff);
/// Most places of the map that a look-up reads: a number is stored less than this far from its own place.
const PROBES: u32 = 128;

/// A [`SlotTableIn`] of at most `N` flows with a map of `MAP` places, all inside the table.
pub type SlotTable<T, const N: usize, const MAP: usize> = SlotTableIn<T, Fixed<N>, Fixed<MAP>>;

/// A table of a bounded number of flows, looked up by handle or by queue pair number. Beside the flow's value it takes 4 bytes
/// for each flow, and 2 bytes for each place of the map from numbers to slots.
///
/// With [`Fixed`] memory, `MAP` is a power of two and at least `2 N`, so that the map is at most half full; `N` is at most 65
/// 535, the range of a 16-bit reference. On the heap, [`SlotTableIn::grow`] keeps to the same limits. Operations by handle are
/// O(1). A look-up by number takes one multiplication and, in a full table, 1.5 comparisons on average and at most 128. Binding
/// and closing take the same; closing also moves up the entries behind the one that it takes out of the map.
///
/// The table never evicts: a flow without state would send without congestion control. When the table is full,
/// opening a flow is refused, and admission is the driver's decision.
#[repr(C)]
pub struct SlotTableIn<T, N: Storage, MAP: Storage> {
    free: SlotRef,
    open: u16,
    slots: N::List<Slot<T>>,
    map: MAP::Array<SlotRef>,
}

impl<T, N: Storage, MAP: Storage> Zeroed for SlotTableIn<T, N, MAP> {
    const ZEROED: Self = {
        if let (Some(n), Some(map)) = (N::LEN, MAP::LEN) {
            assert!(n >= 1 && n <= u16::MAX as usize, "a slot table holds 1 to 65,535 flows");
            assert!(map.is_power_of_two() && map >> 1 >= n, "the map is a power of two, at least twice the capacity");
        }
        Self { free: SlotRef::NONE, open: 0, slots: List::EMPTY, map: Zeroed::ZEROED }
    };
}

impl<T: Copy, N: Storage, MAP: Storage> SlotTableIn<T, N, MAP> {
    /// Bytes of memory for each further flow: its slot, and its part of the map.
    pub const FLOW_BYTES: usize = {
        let map = match (N::LEN, MAP::LEN) {
            (Some(n), Some(map)) => (map * size_of::<SlotRef>()).div_ceil(n),
            // The least: growing keeps the map a quarter to half full.
            _ => 2 * size_of::<SlotRef>(),
        };
        size_of::<Slot<T>>() + map
    };

    /// A table without flows.
    pub const fn new() -> Self {
        Self::ZEROED
    }

    /// How many flows there is room for.
    #[inline(always)]
    pub fn capacity(&self) -> usize {
        self.slots.room()
    }

    /// Whether the next flow would be refused.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() >= self.capacity()
    }

    /// Binary logarithm of the places of the map.
    #[inline(always)]
    fn bits(&self) -> u32 {
        self.map.items().len().trailing_zeros()
    }

    /// The number of places of the map, a power of two, less one.
    #[inline(always)]
    fn mask(&self) -> usize {
        self.map.items().len().wrapping_sub(1)
    }

    /// How many flows are open.
    #[inline]
    pub const fn len(&self) -> usize {
        self.open as usize
    }

    /// Whether no flow is open.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// Opens a slot for a flow, or returns the flow as the error when the table is full.
    pub fn open(&mut self, value: T) -> Result<Handle, T> {
        let (index, tag) = match self.slots.items().get(self.free.place()) {
            Some(slot) => (mem::replace(&mut self.free, slot.tag.reference()).index(), slot.tag.opened()),
            // The next slot that was never used; beyond the range of a 16-bit index, none.
            None => (u16::try_from(self.slots.items().len()).unwrap_or(u16::MAX), Tag::NEW),
        };
        let slot = Slot { value, tag };
        if let Some(closed) = self.slots.items_mut().get_mut(usize::from(index)) {
            *closed = slot;
        } else {
            self.slots.push(slot).map_err(|slot| slot.value)?;
        }
        self.open = self.open.saturating_add(1);
        Ok(Handle::new(index, tag))
    }

    /// Closes a flow and unbinds its number; `None` when it was closed before.
    pub fn close(&mut self, handle: Handle) -> Option<T> {
        let slot = *self.slot(handle)?;
        self.unmap(slot.tag.qpn());
        let free = mem::replace(&mut self.free, SlotRef::to(handle.index()));
        self.slots.items_mut().get_mut(usize::from(handle.index()))?.tag = slot.tag.closed(free);
        self.open = self.open.saturating_sub(1);
        Some(slot.value)
    }

    /// The flow of a handle; `None` when it was closed.
    pub fn get(&self, handle: Handle) -> Option<&T> {
        self.slot(handle).map(|slot| &slot.value)
    }

    /// The flow of a handle; `None` when it was closed.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        self.slot_mut(handle).map(|slot| &mut slot.value)
    }

    /// The open flow at an index: for sweeps and timers, which store indices.
    #[inline]
    pub fn at(&self, index: u16) -> Option<Handle> {
        let slot = self.slots.items().get(usize::from(index))?;
        slot.tag.is_open().then_some(Handle::new(index, slot.tag))
    }

    /// The open flow at an index, and its handle.
    #[inline]
    pub fn at_mut(&mut self, index: u16) -> Option<(Handle, &mut T)> {
        let slot = self.slots.items_mut().get_mut(usize::from(index))?;
        slot.tag.is_open().then_some((Handle::new(index, slot.tag), &mut slot.value))
    }

    /// The queue pair number bound to a flow.
    #[inline]
    pub fn qpn(&self, handle: Handle) -> Option<Qpn> {
        self.slot(handle).map(|slot| slot.tag.qpn()).filter(|&qpn| qpn != UNBOUND)
    }

    /// The flow that a queue pair number is bound to, and its handle.
    #[inline]
    pub fn find_mut(&mut self, qpn: Qpn) -> Option<(Handle, &mut T)> {
        let reference = *self.map.items().get(self.probe(qpn).ok()?)?;
        let slot = self.slots.items_mut().get_mut(reference.place())?;
        Some((Handle::new(reference.index(), slot.tag), &mut slot.value))
    }

    /// The flow that a queue pair number is bound to.
    pub fn find(&self, qpn: Qpn) -> Option<Handle> {
        let reference = *self.map.items().get(self.search(qpn).ok()?)?;
        let slot = self.slots.items().get(reference.place())?;
        Some(Handle::new(reference.index(), slot.tag))
    }

    /// Binds a flow to its local queue pair number, once that is known. Binding it again to the same number
    /// changes nothing; an error changes nothing either.
    pub fn bind(&mut self, handle: Handle, qpn: Qpn) -> Result<(), BindError> {
        if qpn == UNBOUND {
            return Err(BindError::Multicast);
        }
        let tag = self.slot(handle).ok_or(BindError::Stale)?.tag;
        if tag.qpn() != UNBOUND {
            return if tag.qpn() == qpn { Ok(()) } else { Err(BindError::AlreadyBound) };
        }
        let Err(place) = self.search(qpn) else { return Err(BindError::QpnInUse) };
        *self.map.items_mut().get_mut(place).ok_or(BindError::ProbeLimit)? = SlotRef::to(handle.index());
        if let Some(slot) = self.slots.items_mut().get_mut(usize::from(handle.index())) {
            slot.tag = tag.with_qpn(qpn);
        }
        Ok(())
    }

    /// Looks up an open slot. Not inlined: not on the path from an event to the pacer.
    #[inline(never)]
    fn slot(&self, handle: Handle) -> Option<&Slot<T>> {
        self.slots.items().get(usize::from(handle.index())).filter(|slot| slot.tag.is_of(handle))
    }

    #[inline]
    fn slot_mut(&mut self, handle: Handle) -> Option<&mut Slot<T>> {
        self.slots.items_mut().get_mut(usize::from(handle.index())).filter(|slot| slot.tag.is_of(handle))
    }

    /// `Ok` with the place of a number in the map, or `Err` with the empty place for it: `usize::MAX` where that would be too
    /// far away. Unbound slots are not in the map, so their placeholder number is never found.
    #[inline]
    fn probe(&self, qpn: Qpn) -> Result<usize, usize> {
        let mut place = place(qpn, self.bits());
        for _ in 0..PROBES {
            let reference = *self.map.items().get(place).ok_or(usize::MAX)?;
            // An empty place refers to no slot, and ends the search.
            let slot = self.slots.items().get(reference.place()).ok_or(place)?;
            if slot.tag.qpn() == qpn {
                return Ok(place);
            }
            place = place.wrapping_add(1) & self.mask();
        }
        Err(usize::MAX)
    }

    /// [`SlotTable::probe`], not inlined: not on the path from an event to the pacer.
    #[inline(never)]
    fn search(&self, qpn: Qpn) -> Result<usize, usize> {
        self.probe(qpn)
    }

    /// Takes a number out of the map, and moves later entries up into the gap, so that searches need no tombstone there.
    fn unmap(&mut self, qpn: Qpn) {
        let Ok(mut gap) = self.search(qpn) else { return };
        let mut place = gap;
        loop {
            place = place.wrapping_add(1) & self.mask();
            let Some(&next) = self.map.items().get(place) else { return };
            let Some(slot) = self.slots.items().get(next.place()) else { break };
            // An entry may move into the gap only if the gap is not before the entry's own place.
            let home = super::place(slot.tag.qpn(), self.bits());
            if place.wrapping_sub(home) & self.mask() >= place.wrapping_sub(gap) & self.mask() {
                self.put(gap, next);
                gap = place;
            }
        }
        self.put(gap, SlotRef::NONE);
    }

    fn put(&mut self, place: usize, reference: SlotRef) {
        if let Some(entry) = self.map.items_mut().get_mut(place) {
            *entry = reference;
        }
    }
}

impl<T: Copy, N: Storage, MAP: Storage> SlotTableIn<T, N, MAP> {
    /// Makes room for `flows` flows, at most 65,535, with a map of the least power of two that is at least twice as many.
    /// Flows, handles and numbers stay; a table never shrinks, and one of [`Fixed`] memory stays as it is.
    pub fn grow(&mut self, flows: usize) {
        let flows = flows.min(usize::from(u16::MAX));
        if flows <= self.capacity() {
            return;
        }
        self.slots.grow(flows);
        let mut places = flows.saturating_mul(2).next_power_of_two();
        // Rarely, more than 128 numbers collide in the larger map that did not in the smaller one: then it is doubled.
        while !self.rebuild_map(places) {
            places = places.saturating_mul(2);
        }
    }

    /// Puts all bound numbers into an empty map of `places` places, and returns whether there was room for each.
    fn rebuild_map(&mut self, places: usize) -> bool {
        let Some(map) = Array::of_len(places) else { return true };
        self.map = map;
        (0..self.slots.items().len()).all(|at| {
            let Some(slot) = self.slots.items().get(at) else { return true };
            let qpn = slot.tag.qpn();
            if !slot.tag.is_open() || qpn == UNBOUND {
                return true;
            }
            let (Err(place), Ok(index)) = (self.search(qpn), u16::try_from(at)) else { return false };
            self.put(place, SlotRef::to(index));
            place < places
        })
    }
}

impl<T: Copy, N: Storage, MAP: Storage> Default for SlotTableIn<T, N, MAP> {
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

    #[test]
    fn one_flow_too_many_is_returned_and_changes_nothing() {
        let mut table = SlotTable::<u32, 127, 256>::new();
        let handles: Vec<_> = (0..127).map(|value| table.open(value).unwrap()).collect();
        assert_eq!(table.open(127), Err(127));
        assert_eq!(table.len(), 127);
        for (value, &handle) in handles.iter().enumerate() {
            assert_eq!(table.get(handle), Some(&(value as u32)));
        }
    }

    #[test]
    fn a_full_table_takes_a_flow_for_each_that_leaves() {
        let mut table = SlotTable::<u32, 16, 32>::new();
        let mut handles: Vec<_> = (0..16).map(|value| table.open(value).unwrap()).collect();
        let mut random = Random(7);
        for value in 0..1_000_000 {
            let which = random.below(16) as usize;
            assert!(table.close(handles[which]).is_some());
            assert_eq!(table.get(handles[which]), None);
            handles[which] = table.open(value).unwrap();
            assert_eq!(table.open(0), Err(0));
        }
    }

    #[test]
    fn the_table_holds_up_to_65_535_flows() {
        let mut table = std::boxed::Box::new(SlotTable::<u8, 65_535, 131_072>::new());
        for number in 0..65_535u32 {
            let handle = table.open(0).unwrap();
            table.bind(handle, Qpn::new(number.wrapping_mul(0x101))).unwrap();
        }
        assert_eq!(table.open(0), Err(0));
        for number in 0..65_535u32 {
            assert!(table.find(Qpn::new(number.wrapping_mul(0x101))).is_some());
        }
    }

    #[test]
    fn a_table_on_the_heap_refuses_until_it_grows_and_keeps_its_flows() {
        let mut table = SlotTableIn::<u32, Heap, Heap>::new();
        assert_eq!((table.open(7), table.find(Qpn::new(7)), table.is_full()), (Err(7), None, true));
        let mut handles = Vec::new();
        for flows in [1, 2, 3, 100, 1_000, 65_535] {
            table.grow(flows);
            while let Ok(handle) = table.open(handles.len() as u32) {
                // Every fourth flow has no number.
                if handles.len() % 4 != 0 {
                    table.bind(handle, Qpn::new(handles.len() as u32 * 3)).unwrap();
                }
                handles.push(handle);
            }
            assert_eq!((handles.len(), table.capacity(), table.is_full()), (flows, flows, true));
            for (n, &handle) in handles.iter().enumerate() {
                assert_eq!(table.get(handle), Some(&(n as u32)));
                assert_eq!(table.find(Qpn::new(n as u32 * 3)), (n % 4 != 0).then_some(handle));
            }
        }
        table.grow(70_000);
        assert_eq!(table.capacity(), 65_535);
    }

    #[test]
    fn a_closed_handle_finds_nothing_whatever_comes_after() {
        let mut table = SlotTable::<u32, 2, 4>::new();
        let old = table.open(1).unwrap();
        assert_eq!(table.close(old), Some(1));
        assert_eq!(table.close(old), None);
        for value in 2..128 {
            assert_eq!(table.get(old), None);
            assert_eq!(table.bind(old, Qpn::new(5)), Err(BindError::Stale));
            let new = table.open(value).unwrap();
            assert_eq!(new.index(), old.index());
            assert_eq!(table.get(old), None);
            assert_eq!(table.close(new), Some(value));
        }
    }

    #[test]
    fn only_the_handle_of_an_open_flow_finds_it() {
        let mut table = SlotTable::<u32, 4, 8>::new();
        let open = table.open(1).unwrap();
        let closed = table.open(2).unwrap();
        table.close(closed);
        for generation in 0..=0xff {
            for index in [0, 1, 2, 3, 4, 0xffff] {
                let handle = Handle::from_bits(index << 16 | generation);
                assert_eq!(table.get(handle).is_some(), handle == open);
            }
        }
    }

    #[test]
    fn a_number_belongs_to_one_flow_and_a_flow_has_one_number() {
        let mut table = SlotTable::<u32, 4, 8>::new();
        let (a, b) = (table.open(1).unwrap(), table.open(2).unwrap());
        assert_eq!(table.qpn(a), None);
        assert_eq!(table.find(Qpn::new(0xff_ffff)), None);
        assert_eq!(table.bind(a, Qpn::new(0xff_ffff)), Err(BindError::Multicast));
        assert_eq!(table.bind(a, Qpn::new(17)), Ok(()));
        assert_eq!(table.bind(a, Qpn::new(17)), Ok(()));
        assert_eq!(table.bind(a, Qpn::new(18)), Err(BindError::AlreadyBound));
        assert_eq!(table.bind(b, Qpn::new(17)), Err(BindError::QpnInUse));
        assert_eq!(table.find(Qpn::new(17)), Some(a));
        assert_eq!(table.find(Qpn::new(18)), None);
        table.close(a);
        assert_eq!(table.find(Qpn::new(17)), None);
        assert_eq!(table.bind(b, Qpn::new(17)), Ok(()));
        assert_eq!(table.find_mut(Qpn::new(17)).map(|(handle, value)| (handle, *value)), Some((b, 2)));
    }

    #[test]
    fn a_look_up_never_takes_more_than_the_stated_probes() {
        let mut table = SlotTable::<u32, 256, 512>::new();
        let mut near = (0..1 << 20).map(Qpn::new).filter(|&qpn| place(qpn, 9) == 500);
        let first = table.open(0).unwrap();
        table.bind(first, near.next().unwrap()).unwrap();
        for _ in 1..128 {
            let handle = table.open(0).unwrap();
            table.bind(handle, near.next().unwrap()).unwrap();
        }
        let (late, qpn) = (table.open(0).unwrap(), near.next().unwrap());
        assert_eq!(table.bind(late, qpn), Err(BindError::ProbeLimit));
        assert_eq!((table.qpn(late), table.find(qpn)), (None, None));
        table.close(first);
        assert_eq!(table.bind(late, qpn), Ok(()));
        assert_eq!(table.find(qpn), Some(late));
    }

    /// A million steps at full load against maps, with numbers that collide at the end of the map and continue at its start.
    #[test]
    fn it_behaves_as_two_maps_do_f12() {
        const N: usize = 64;
        let mut table = SlotTable::<u32, N, 128>::new();
        let crowd = (0..1 << 22).map(Qpn::new).filter(|&qpn| place(qpn, 7) >= 120).take(40);
        let numbers: Vec<_> = crowd.chain((0..60).map(|n| Qpn::new(n * 0x1_0001))).collect();
        let mut flows: Vec<(Handle, u32, Option<Qpn>)> = Vec::new();
        let mut bound = BTreeMap::new();
        let mut random = Random(1);
        for step in 0..1_000_000 {
            let number = numbers[random.below(100) as usize];
            if flows.len() == N {
                assert_eq!(table.open(step), Err(step));
                let (handle, value, qpn) = flows.swap_remove(random.below(N as u32) as usize);
                assert_eq!(table.close(handle), Some(value));
                qpn.map(|qpn| bound.remove(&qpn.get()));
            } else {
                flows.push((table.open(step).unwrap(), step, None));
            }
            let chosen = random.below(flows.len() as u32) as usize;
            let (handle, value, qpn) = &mut flows[chosen];
            *value = value.wrapping_add(1);
            *table.get_mut(*handle).unwrap() = *value;
            let expected = match (&qpn, bound.contains_key(&number.get())) {
                (Some(own), _) if *own == number => Ok(()),
                (Some(_), _) => Err(BindError::AlreadyBound),
                (None, true) => Err(BindError::QpnInUse),
                (None, false) => Ok(()),
            };
            assert_eq!(table.bind(*handle, number), expected);
            if expected.is_ok() {
                *qpn = Some(number);
                bound.insert(number.get(), *handle);
            }
            let sought = numbers[random.below(100) as usize];
            assert_eq!(table.find(sought), bound.get(&sought.get()).copied());
            if step % 1_024 == 0 {
                for sought in &numbers {
                    assert_eq!(table.find(*sought), bound.get(&sought.get()).copied());
                }
                for &(handle, value, qpn) in &flows {
                    assert_eq!((table.get(handle), table.qpn(handle)), (Some(&value), qpn));
                    assert_eq!(table.at(handle.index()), Some(handle));
                }
                assert_eq!(table.len(), flows.len());
            }
        }
    }
}
