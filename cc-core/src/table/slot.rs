//! The sender's flows: found by handle or by queue pair number, refused when the table is full.

use super::place;
use crate::units::Qpn;
use core::fmt;
use heapless::Vec;

/// A flow of one [`SlotTable`]: the slot's index and its generation, in 32 bits.
///
/// A slot takes a new generation each time it is opened; after 128 openings of the same slot they repeat, and a
/// handle kept for that long would be taken for the new flow's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Handle(u32);

impl Handle {
    /// The handle with these raw bits, as they came through a descriptor. Any word is safe: a table knows its own.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The raw bits: the index in the low half, the generation in the highest byte.
    #[inline]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The index of the slot, below the capacity of its table.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the index is the low half")]
    pub const fn index(self) -> u16 {
        self.0 as u16
    }

    const fn new(index: u16, tag: Tag) -> Self {
        Self(tag.0 & Tag::GENERATION | index as u32)
    }
}

/// Why a queue pair number was not bound to a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum BindError {
    /// The handle's flow was closed.
    Stale,
    /// The flow is bound to another number.
    Bound,
    /// The number belongs to another flow.
    Taken,
    /// 0xffffff is the multicast queue pair (IBTA 1.4, 9.2), no flow's number.
    Multicast,
    /// Too many numbers fall near the same place of the map.
    Crowded,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stale => "the flow was closed",
            Self::Bound => "the flow has another queue pair number",
            Self::Taken => "another flow has this queue pair number",
            Self::Multicast => "0xffffff is the multicast queue pair",
            Self::Crowded => "the queue pair map is crowded here",
        })
    }
}

impl core::error::Error for BindError {}

/// Eight bits of generation, odd while the slot is open, above 24 bits: the queue pair number of an open slot,
/// the next free slot of a closed one.
#[derive(Clone, Copy)]
struct Tag(u32);

impl Tag {
    const GENERATION: u32 = 0xff << 24;
    const OPEN: u32 = 1 << 24;

    const fn is_open(self) -> bool {
        self.0 & Self::OPEN != 0
    }

    const fn qpn(self) -> Qpn {
        Qpn::new(self.0)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a closed slot's link is the low half")]
    const fn link(self) -> u16 {
        self.0 as u16
    }

    const fn with(self, low: u32) -> Self {
        Self(self.0 & Self::GENERATION | low)
    }

    const fn next_generation(self, low: u32) -> Self {
        Self((self.0 & Self::GENERATION).wrapping_add(Self::OPEN) | low)
    }
}

#[derive(Clone, Copy)]
struct Slot<T> {
    value: T,
    tag: Tag,
}

/// No slot: the end of the free list, an empty place of the map.
const NONE: u16 = u16::MAX;
/// What an open slot without a number holds; never a flow's number.
const UNBOUND: Qpn = Qpn::new(0x00ff_ffff);
/// Furthest that a number lies from its place in the map.
const PROBES: u32 = 128;

/// At most `N` flows, each with 4 bytes of its own and 2 `MAP / N` bytes of the map from queue pair numbers.
///
/// `MAP` is a power of two and at least `2 N`, so that the map is at most half full; `N` is at most 65 535, the
/// reach of a 16-bit link. Every operation by handle is O(1). Look-up by number is one multiplication and 1.5
/// comparisons on average when full, never more than 128; binding and closing cost as much, and the run of
/// neighbours that closing moves up.
///
/// The table never evicts: a sender's flow without its state would be a flow without congestion control, so
/// opening one too many is refused, and admission is the driver's decision.
pub struct SlotTable<T, const N: usize, const MAP: usize> {
    slots: Vec<Slot<T>, N>,
    free: u16,
    open: u16,
    map: [u16; MAP],
}

impl<T: Copy, const N: usize, const MAP: usize> SlotTable<T, N, MAP> {
    const BITS: u32 = MAP.trailing_zeros();
    const MASK: usize = MAP.wrapping_sub(1);
    const SIZES: () = {
        assert!(N >= 1 && N <= NONE as usize, "a slot table holds 1 to 65,535 flows");
        assert!(MAP.is_power_of_two() && MAP >> 1 >= N, "the map is a power of two, at least twice the capacity");
    };

    /// A table without flows.
    pub const fn new() -> Self {
        const { Self::SIZES };
        Self { slots: Vec::new(), free: NONE, open: 0, map: [NONE; MAP] }
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

    /// Takes in a flow, or hands it back when the table is full.
    pub fn open(&mut self, value: T) -> Result<Handle, T> {
        let index = self.free;
        let tag = if let Some(slot) = self.slots.get_mut(usize::from(index)) {
            self.free = slot.tag.link();
            let tag = slot.tag.next_generation(UNBOUND.get());
            *slot = Slot { value, tag };
            Handle::new(index, tag)
        } else {
            let Ok(index) = u16::try_from(self.slots.len()) else { return Err(value) };
            let tag = Tag(Tag::OPEN).with(UNBOUND.get());
            self.slots.push(Slot { value, tag }).map_err(|slot| slot.value)?;
            Handle::new(index, tag)
        };
        self.open = self.open.saturating_add(1);
        Ok(tag)
    }

    /// Lets a flow go, and its number with it; `None` when it was closed before.
    pub fn close(&mut self, handle: Handle) -> Option<T> {
        let slot = *self.slot(handle)?;
        self.unmap(handle.index(), slot.tag.qpn());
        let free = self.free;
        self.slot_mut(handle)?.tag = slot.tag.next_generation(u32::from(free));
        self.free = handle.index();
        self.open = self.open.saturating_sub(1);
        Some(slot.value)
    }

    /// The flow of a handle; `None` when it was closed.
    #[inline]
    pub fn get(&self, handle: Handle) -> Option<&T> {
        self.slot(handle).map(|slot| &slot.value)
    }

    /// The flow of a handle; `None` when it was closed.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        self.slot_mut(handle).map(|slot| &mut slot.value)
    }

    /// The open flow at an index, as a sweep or a timer names it.
    #[inline]
    pub fn at(&self, index: u16) -> Option<Handle> {
        let slot = self.slots.get(usize::from(index))?;
        slot.tag.is_open().then_some(Handle::new(index, slot.tag))
    }

    /// The queue pair number bound to a flow.
    #[inline]
    pub fn qpn(&self, handle: Handle) -> Option<Qpn> {
        self.slot(handle).map(|slot| slot.tag.qpn()).filter(|&qpn| qpn != UNBOUND)
    }

    /// The flow that a queue pair number is bound to, and its handle.
    #[inline]
    pub fn find_mut(&mut self, qpn: Qpn) -> Option<(Handle, &mut T)> {
        let (index, _) = self.probe(qpn)?;
        let slot = self.slots.get_mut(usize::from(index))?;
        Some((Handle::new(index, slot.tag), &mut slot.value))
    }

    /// The flow that a queue pair number is bound to.
    #[inline]
    pub fn find(&self, qpn: Qpn) -> Option<Handle> {
        let (index, _) = self.probe(qpn)?;
        let slot = self.slots.get(usize::from(index))?;
        Some(Handle::new(index, slot.tag))
    }

    /// Binds a flow to its local queue pair number, once that is known. Binding it again to the same number
    /// changes nothing; an error changes nothing either.
    pub fn bind(&mut self, handle: Handle, qpn: Qpn) -> Result<(), BindError> {
        if qpn == UNBOUND {
            return Err(BindError::Multicast);
        }
        let bound = self.slot(handle).ok_or(BindError::Stale)?.tag.qpn();
        if bound != UNBOUND {
            return if bound == qpn { Ok(()) } else { Err(BindError::Bound) };
        }
        if self.probe(qpn).is_some() {
            return Err(BindError::Taken);
        }
        let mut place = place(qpn, Self::BITS);
        for _ in 0..PROBES {
            if let Some(entry @ &mut NONE) = self.map.get_mut(place) {
                *entry = handle.index();
                let slot = self.slot_mut(handle).ok_or(BindError::Stale)?;
                slot.tag = slot.tag.with(qpn.get());
                return Ok(());
            }
            place = place.wrapping_add(1) & Self::MASK;
        }
        Err(BindError::Crowded)
    }

    #[inline]
    fn slot(&self, handle: Handle) -> Option<&Slot<T>> {
        self.slots
            .get(usize::from(handle.index()))
            .filter(|slot| slot.tag.is_open() && Handle::new(handle.index(), slot.tag) == handle)
    }

    #[inline]
    fn slot_mut(&mut self, handle: Handle) -> Option<&mut Slot<T>> {
        self.slots
            .get_mut(usize::from(handle.index()))
            .filter(|slot| slot.tag.is_open() && Handle::new(handle.index(), slot.tag) == handle)
    }

    /// The slot bound to a number and its place in the map. An unbound slot is in no place, so the number that
    /// stands for it is never found.
    #[inline]
    fn probe(&self, qpn: Qpn) -> Option<(u16, usize)> {
        let mut place = place(qpn, Self::BITS);
        for _ in 0..PROBES {
            let index = *self.map.get(place)?;
            // An empty place names no slot and ends the run.
            let slot = self.slots.get(usize::from(index))?;
            if slot.tag.qpn() == qpn {
                return Some((index, place));
            }
            place = place.wrapping_add(1) & Self::MASK;
        }
        None
    }

    /// Takes a slot out of the map and closes the gap, so that no run is broken and no tombstone stays.
    fn unmap(&mut self, index: u16, qpn: Qpn) {
        let Some((found, mut gap)) = self.probe(qpn) else { return };
        debug_assert_eq!(found, index);
        let mut place = gap;
        loop {
            place = place.wrapping_add(1) & Self::MASK;
            let Some(&next) = self.map.get(place) else { return };
            let Some(slot) = self.slots.get(usize::from(next)) else { break };
            // An entry may move up to the gap only when that is not before its own place.
            let home = super::place(slot.tag.qpn(), Self::BITS);
            if place.wrapping_sub(home) & Self::MASK >= place.wrapping_sub(gap) & Self::MASK {
                self.put(gap, next);
                gap = place;
            }
        }
        self.put(gap, NONE);
    }

    fn put(&mut self, place: usize, index: u16) {
        if let Some(entry) = self.map.get_mut(place) {
            *entry = index;
        }
    }
}

impl<T: Copy, const N: usize, const MAP: usize> Default for SlotTable<T, N, MAP> {
    fn default() -> Self {
        Self::new()
    }
}
