//! Packets in flight: header bytes, in slots of one length.

use crate::Picos;

/// The number of a slot.
pub(crate) type PacketId = u32;

/// Bytes of a cache line, at which slots begin.
const LINE: usize = 64;
/// Slots of a slab when it first grows; it doubles from there.
const FEWEST: usize = 1_024;

/// What the network keeps of a packet beside its bytes.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Meta {
    /// When its last bit arrives at the other end of the link that it is on.
    pub(crate) arrives: Picos,
    /// The packet behind it in its queue or on its link, if there is one.
    pub(crate) next: PacketId,
    /// Its flow.
    pub(crate) flow: u32,
    /// The port by which it came in to the switch where it is.
    pub(crate) ingress: u32,
    /// Bytes for which it occupies a link, without preamble and gap.
    pub(crate) line_bytes: u16,
    /// Bytes of its frame, of which the slot holds the first.
    pub(crate) wire_len: u16,
    /// Bytes of the queue that it joined, its own among them, where stages mark by them.
    pub(crate) joined: u32,
    /// Nodes that it has left, its sender among them.
    pub(crate) hops: u8,
    /// Its traffic class.
    pub(crate) class: u8,
    /// What it is.
    pub(crate) kind: Kind,
    /// It is counted at its ingress: it waits with data.
    pub(crate) counted: bool,
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
    /// A request, or the message that it is ready to use, of the connection's sender: on the flow's way.
    Request,
    /// The reply of the connection's receiver, on the flow's way back.
    Reply,
    /// The request of a READ, which its receiver sends on the flow's way back. The responses are data.
    ReadRequest,
}

/// The packets in flight, with what the network keeps of each. A slot holds the headers of a frame, without payload and
/// ICRC. Acknowledgements and CNPs are held whole, so that [`wire::parse`](cc_core::wire::parse) can read all of their headers.
/// Switches change the bytes in place; engines read them like those of a frame.
pub(crate) struct InFlight {
    /// Bytes of a slot: a multiple of a cache line.
    stride: usize,
    bytes: Vec<u8>,
    /// Where the first slot begins in `bytes`: at a cache line.
    start: usize,
    /// What is kept of each packet, and the bytes in its slot.
    meta: Vec<(Meta, u16)>,
    free: Vec<PacketId>,
}

impl InFlight {
    /// An empty slab. Each slot will have room for this many header bytes, at most 65 535.
    pub(crate) fn new(room: usize) -> Self {
        let stride = room.next_multiple_of(LINE);
        Self { stride, bytes: Vec::new(), start: 0, meta: Vec::new(), free: Vec::new() }
    }

    /// Puts a packet with these header bytes in a slot.
    ///
    /// # Panics
    /// If there are more header bytes than a slot has room for.
    #[inline]
    pub(crate) fn insert(&mut self, meta: Meta, header: &[u8]) -> PacketId {
        let id = self.free.pop().unwrap_or_else(|| self.grow());
        self.meta[id as usize] = (meta, header.len() as u16);
        self.slot_mut(id)[..header.len()].copy_from_slice(header);
        id
    }

    fn slot_mut(&mut self, id: PacketId) -> &mut [u8] {
        let at = self.start + id as usize * self.stride;
        &mut self.bytes[at..at + self.stride]
    }

    /// Puts a copy of a packet in a slot.
    pub(crate) fn copy(&mut self, id: PacketId) -> PacketId {
        let (meta, header) = (*self.meta(id), self.header(id).to_vec());
        self.insert(meta, &header)
    }

    /// Frees the slot of a packet.
    #[inline]
    pub(crate) fn remove(&mut self, id: PacketId) {
        self.free.push(id);
    }

    /// Packets that are in a slot.
    pub(crate) fn len(&self) -> usize {
        self.meta.len() - self.free.len()
    }

    /// What the network keeps of it.
    #[inline]
    pub(crate) fn meta(&self, id: PacketId) -> &Meta {
        &self.meta[id as usize].0
    }

    /// What the network keeps of it, to be changed.
    #[inline]
    pub(crate) fn meta_mut(&mut self, id: PacketId) -> &mut Meta {
        &mut self.meta[id as usize].0
    }

    /// Its header bytes.
    #[inline]
    pub(crate) fn header(&self, id: PacketId) -> &[u8] {
        let at = self.start + id as usize * self.stride;
        &self.bytes[at..at + usize::from(self.meta[id as usize].1)]
    }

    /// Its header bytes, to be changed.
    #[inline]
    pub(crate) fn header_mut(&mut self, id: PacketId) -> &mut [u8] {
        let at = self.start + id as usize * self.stride;
        &mut self.bytes[at..at + usize::from(self.meta[id as usize].1)]
    }

    /// Doubles the slots. Returns the number of the first new one.
    #[cold]
    fn grow(&mut self) -> PacketId {
        let (first, slots) = (self.meta.len(), (2 * self.meta.len()).max(FEWEST));
        let mut bytes = vec![0; slots * self.stride + LINE];
        let start = bytes.as_ptr().align_offset(LINE).min(LINE);
        let old = first * self.stride;
        bytes[start..start + old].copy_from_slice(&self.bytes[self.start..self.start + old]);
        (self.bytes, self.start) = (bytes, start);
        self.meta.resize(slots, Default::default());
        self.free.extend((first as PacketId + 1..slots as PacketId).rev());
        first as PacketId
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_keep_what_is_put_in_and_are_used_again() {
        let mut slab = InFlight::new(54);
        let header = |number: u32| vec![number as u8; 1 + number as usize % 54];
        let ids: Vec<_> =
            (0..3_000).map(|number| slab.insert(Meta { flow: number, ..Meta::default() }, &header(number))).collect();
        assert_eq!(slab.len(), 3_000);
        for (number, &id) in (0..).zip(&ids) {
            assert_eq!(slab.meta(id).flow, number);
            assert_eq!(slab.header(id), header(number));
            assert_eq!(slab.header(id).as_ptr().align_offset(LINE), 0, "slots begin with a cache line");
        }
        slab.header_mut(ids[7])[0] = 99;
        assert_eq!((slab.header(ids[7])[0], slab.header(ids[8])[0]), (99, 8));
        slab.remove(ids[2_000]);
        assert_eq!(slab.insert(Meta::default(), &[3; 56]), ids[2_000]);
        assert_eq!(slab.header(ids[2_000]), [3; 56]);
    }
}
