//! Packets in flight: header bytes, in slots of one length, and what the network keeps of each.

use crate::Picos;

/// The number of a slot.
pub(crate) type PacketId = u32;
/// No packet.
pub(crate) const NONE: PacketId = PacketId::MAX;

/// Bytes of a cache line, at which slots begin.
const LINE: usize = 64;
/// Slots that are made at once.
const CHUNK: usize = 1_024;

/// What the network keeps of a packet beside its bytes.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Meta {
    /// When its last bit arrives at the other end of the link that it is on.
    pub(crate) arrives: Picos,
    /// The packet behind it in its queue or on its link, or [`NONE`].
    pub(crate) next: PacketId,
    /// Its flow.
    pub(crate) flow: u32,
    /// The port by which it came in to the switch where it is.
    pub(crate) ingress: u32,
    /// Bytes for which it occupies a link, without preamble and gap.
    pub(crate) line_bytes: u16,
    /// Bytes of its frame, of which the slot holds the first.
    pub(crate) wire_len: u16,
    /// Bytes in the slot.
    pub(crate) header_len: u16,
    /// Nodes that it has left, its sender among them.
    pub(crate) hops: u8,
    /// Its traffic class.
    pub(crate) class: u8,
    /// What it is.
    pub(crate) kind: Kind,
}

/// What a packet is for the network.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Data of a flow.
    #[default]
    Data,
    /// An acknowledgement, on the flow's way back.
    Ack,
    /// A congestion notification, on the flow's way back.
    Cnp,
}

/// The packets in flight. A slot holds the headers of a frame and its length on the wire, without payload and ICRC.
/// Acknowledgements and CNPs are held whole, so that [`wire::parse`](cc_core::wire::parse) finds what they carry. Switches
/// change the bytes in place; engines read them like those of a frame.
pub(crate) struct Slab {
    /// Bytes of a slot: a multiple of a cache line.
    stride: usize,
    chunks: Vec<Chunk>,
    meta: Vec<Meta>,
    free: Vec<PacketId>,
}

struct Chunk {
    bytes: Vec<u8>,
    /// Where the first slot begins.
    start: usize,
}

impl Slab {
    /// An empty slab. Each slot will have room for this many header bytes, at most 65 535.
    pub(crate) fn new(room: usize) -> Self {
        Self { stride: room.next_multiple_of(LINE), chunks: Vec::new(), meta: Vec::new(), free: Vec::new() }
    }

    /// Puts a packet with these header bytes in a slot.
    ///
    /// # Panics
    /// If there are more header bytes than a slot has room for.
    pub(crate) fn insert(&mut self, meta: Meta, header: &[u8]) -> PacketId {
        let id = self.free.pop().unwrap_or_else(|| self.grow());
        self.meta[id as usize] = Meta { header_len: header.len() as u16, ..meta };
        self.slot_mut(id)[..header.len()].copy_from_slice(header);
        id
    }

    /// Frees the slot of a packet.
    pub(crate) fn remove(&mut self, id: PacketId) {
        self.free.push(id);
    }

    /// Packets that are in a slot.
    pub(crate) fn len(&self) -> usize {
        self.meta.len() - self.free.len()
    }

    /// What the network keeps of it.
    pub(crate) fn meta(&self, id: PacketId) -> &Meta {
        &self.meta[id as usize]
    }

    /// What the network keeps of it, to be changed.
    pub(crate) fn meta_mut(&mut self, id: PacketId) -> &mut Meta {
        &mut self.meta[id as usize]
    }

    /// Its header bytes.
    pub(crate) fn header(&self, id: PacketId) -> &[u8] {
        let len = self.meta(id).header_len.into();
        let (chunk, at) = (&self.chunks[id as usize / CHUNK], id as usize % CHUNK);
        &chunk.bytes[chunk.start + at * self.stride..][..len]
    }

    /// Its header bytes, to be changed.
    pub(crate) fn header_mut(&mut self, id: PacketId) -> &mut [u8] {
        let len = self.meta(id).header_len.into();
        &mut self.slot_mut(id)[..len]
    }

    fn slot_mut(&mut self, id: PacketId) -> &mut [u8] {
        let (chunk, at) = (&mut self.chunks[id as usize / CHUNK], id as usize % CHUNK);
        &mut chunk.bytes[chunk.start + at * self.stride..][..self.stride]
    }

    #[cold]
    fn grow(&mut self) -> PacketId {
        let first = self.meta.len() as PacketId;
        let bytes = vec![0; CHUNK * self.stride + LINE];
        let start = bytes.as_ptr().align_offset(LINE).min(LINE);
        self.chunks.push(Chunk { bytes, start });
        self.meta.resize(self.meta.len() + CHUNK, Meta::default());
        self.free.extend((first + 1..first + CHUNK as PacketId).rev());
        first
    }
}

/// A first-in-first-out list of packets, linked by their [`Meta::next`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    first: PacketId,
    last: PacketId,
}

impl Default for Fifo {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl Fifo {
    /// The packet in front.
    pub(crate) fn first(&self) -> Option<PacketId> {
        (self.first != NONE).then_some(self.first)
    }

    /// How many there are. *O*(n).
    pub(crate) fn len(mut self, slab: &Slab) -> usize {
        std::iter::from_fn(|| self.pop(slab)).count()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Puts a packet behind all others.
    pub(crate) fn push(&mut self, slab: &mut Slab, id: PacketId) {
        slab.meta_mut(id).next = NONE;
        if self.is_empty() {
            self.first = id;
        } else {
            slab.meta_mut(self.last).next = id;
        }
        self.last = id;
    }

    /// Takes the packet in front.
    pub(crate) fn pop(&mut self, slab: &Slab) -> Option<PacketId> {
        let id = self.first()?;
        self.first = slab.meta(id).next;
        Some(id)
    }

    /// Takes the first packet whose flow may send, which is when `until` of the flow is not after `now`.
    ///
    /// # Errors
    /// None may. The error has the earliest time at which one may, if there is a packet.
    pub(crate) fn take_first(
        &mut self,
        slab: &mut Slab,
        until: impl Fn(u32) -> Picos,
        now: Picos,
    ) -> Result<PacketId, Option<Picos>> {
        let (mut before, mut id, mut earliest) = (NONE, self.first, None);
        while id != NONE {
            let time = until(slab.meta(id).flow);
            let next = slab.meta(id).next;
            if time <= now {
                if before == NONE {
                    self.first = next;
                } else {
                    slab.meta_mut(before).next = next;
                }
                if next == NONE {
                    self.last = before;
                }
                return Ok(id);
            }
            earliest = Some(earliest.map_or(time, |earliest: Picos| earliest.min(time)));
            (before, id) = (id, next);
        }
        Err(earliest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_keep_what_is_put_in_and_are_used_again() {
        let mut slab = Slab::new(54);
        let header = |number: u32| vec![number as u8; 1 + number as usize % 54];
        let put = |slab: &mut Slab, number: u32| {
            slab.insert(Meta { flow: number, wire_len: number as u16, ..Meta::default() }, &header(number))
        };
        let ids: Vec<_> = (0..3_000).map(|number| put(&mut slab, number)).collect();
        assert_eq!(slab.len(), 3_000);
        for (number, &id) in (0..).zip(&ids) {
            assert_eq!((slab.meta(id).flow, slab.meta(id).wire_len), (number, number as u16));
            assert_eq!(slab.header(id), header(number));
            assert_eq!(slab.header(id).as_ptr().align_offset(LINE), 0, "slots begin with a cache line");
        }
        slab.header_mut(ids[7])[0] = 99;
        assert_eq!((slab.header(ids[7])[0], slab.header(ids[8])[0]), (99, 8));
        slab.remove(ids[2_000]);
        assert_eq!(put(&mut slab, 1), ids[2_000]);
        assert_eq!(slab.header(ids[2_000]), header(1));
    }

    /// Of packets of flows 1, 1, 2 and 3, where 1 is held until 50 ps and 2 until 40 ps.
    #[test]
    fn a_held_flow_waits_and_others_overtake_it() {
        let mut slab = Slab::new(10);
        let mut queue = Fifo::default();
        for flow in [1, 1, 2, 3] {
            let id = slab.insert(Meta { flow, ..Meta::default() }, &[]);
            queue.push(&mut slab, id);
        }
        let until = |flow| [0, 50, 40, 0][flow as usize];
        let mut take = |now| queue.take_first(&mut slab, until, now).map(|id| slab.meta(id).flow);
        assert_eq!(take(10), Ok(3));
        assert_eq!(take(10), Err(Some(40)));
        assert_eq!(take(40), Ok(2));
        assert_eq!(take(50), Ok(1));
        assert_eq!(take(50), Ok(1));
        assert_eq!(take(50), Err(None));
        let id = slab.insert(Meta { flow: 3, ..Meta::default() }, &[]);
        queue.push(&mut slab, id);
        assert_eq!(queue.pop(&slab), Some(id));
        assert!(queue.is_empty());
    }
}
