//! Packets in flight: header bytes, in slots of one length.

/// The number of a slot.
pub(crate) type PacketId = u32;

/// Bytes of a cache line, at which slots begin.
const LINE: usize = 64;
/// Bytes in front of a slot's header bytes: flow and destination, the length on the wire, and the number of header
/// bytes.
const METADATA: usize = 12;
/// Slots that are allocated at once.
const CHUNK: usize = 1_024;

/// The packets in flight. A slot holds the headers of a frame and its length on the wire, without payload and ICRC.
/// Acknowledgements and CNPs are held whole, so that [`wire::parse`](cc_core::wire::parse) can read all of their headers.
/// Switches change the bytes in place; engines read them like those of a frame.
pub(crate) struct Slab {
    /// Bytes of a slot: a multiple of a cache line.
    stride: usize,
    chunks: Vec<Chunk>,
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
        Self { stride: (METADATA + room).next_multiple_of(LINE), chunks: Vec::new(), free: Vec::new() }
    }

    /// Puts a packet of a flow to the host `to`, with these header bytes, in a slot. `wire_len` is its length on the wire.
    ///
    /// # Panics
    /// If there are more header bytes than a slot has room for.
    pub(crate) fn insert(&mut self, flow: usize, to: usize, wire_len: u16, header: &[u8]) -> PacketId {
        let id = self.free.pop().unwrap_or_else(|| self.grow());
        let slot = self.slot_mut(id);
        let ([f0, f1, f2, f3], [t0, t1, t2, t3]) = ((flow as u32).to_le_bytes(), (to as u32).to_le_bytes());
        let ([w0, w1], [h0, h1]) = (wire_len.to_le_bytes(), (header.len() as u16).to_le_bytes());
        slot[..METADATA].copy_from_slice(&[f0, f1, f2, f3, t0, t1, t2, t3, w0, w1, h0, h1]);
        slot[METADATA..METADATA + header.len()].copy_from_slice(header);
        id
    }

    /// Frees the slot of a packet.
    pub(crate) fn remove(&mut self, id: PacketId) {
        self.free.push(id);
    }

    /// The packet's flow.
    pub(crate) fn flow(&self, id: PacketId) -> usize {
        let [f0, f1, f2, f3, ..] = *self.metadata(id);
        u32::from_le_bytes([f0, f1, f2, f3]) as usize
    }

    /// The host to which the packet goes.
    pub(crate) fn to(&self, id: PacketId) -> usize {
        let [_, _, _, _, t0, t1, t2, t3, ..] = *self.metadata(id);
        u32::from_le_bytes([t0, t1, t2, t3]) as usize
    }

    /// Bytes of the packet's frame on the wire, without preamble, check sequence and gap.
    pub(crate) fn wire_len(&self, id: PacketId) -> u32 {
        let [.., w0, w1, _, _] = *self.metadata(id);
        u16::from_le_bytes([w0, w1]).into()
    }

    /// Its header bytes.
    pub(crate) fn header(&self, id: PacketId) -> &[u8] {
        let len = self.header_len(id);
        &self.slot(id)[METADATA..METADATA + len]
    }

    /// Its header bytes, to be changed.
    pub(crate) fn header_mut(&mut self, id: PacketId) -> &mut [u8] {
        let len = self.header_len(id);
        &mut self.slot_mut(id)[METADATA..METADATA + len]
    }

    fn header_len(&self, id: PacketId) -> usize {
        let [.., h0, h1] = *self.metadata(id);
        u16::from_le_bytes([h0, h1]).into()
    }

    fn metadata(&self, id: PacketId) -> &[u8; METADATA] {
        self.slot(id).first_chunk().expect("a slot is longer than its metadata")
    }

    fn slot(&self, id: PacketId) -> &[u8] {
        let (chunk, at) = (&self.chunks[id as usize / CHUNK], id as usize % CHUNK);
        &chunk.bytes[chunk.start + at * self.stride..][..self.stride]
    }

    fn slot_mut(&mut self, id: PacketId) -> &mut [u8] {
        let (chunk, at) = (&mut self.chunks[id as usize / CHUNK], id as usize % CHUNK);
        &mut chunk.bytes[chunk.start + at * self.stride..][..self.stride]
    }

    #[cold]
    fn grow(&mut self) -> PacketId {
        let first = (self.chunks.len() * CHUNK) as PacketId;
        let bytes = vec![0; CHUNK * self.stride + LINE];
        let start = bytes.as_ptr().align_offset(LINE).min(LINE);
        self.chunks.push(Chunk { bytes, start });
        self.free.extend((first + 1..first + CHUNK as PacketId).rev());
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_keep_their_bytes_and_are_reused() {
        let mut slab = Slab::new(52);
        let header = |number: usize| vec![number as u8; 1 + number % 52];
        let ids: Vec<_> =
            (0..3_000).map(|number| slab.insert(number, number + 7, number as u16, &header(number))).collect();
        for (number, &id) in (0..).zip(&ids) {
            assert_eq!((slab.flow(id), slab.to(id), slab.wire_len(id)), (number, number + 7, number as u32));
            assert_eq!(slab.header(id), header(number));
            assert_eq!(slab.header(id).as_ptr().align_offset(LINE), LINE - METADATA, "slots begin with a cache line");
        }
        slab.header_mut(ids[7])[0] = 99;
        assert_eq!((slab.header(ids[7])[0], slab.header(ids[8])[0]), (99, 8));
        slab.remove(ids[2_000]);
        assert_eq!(slab.insert(1, 2, 3, &[4; 52]), ids[2_000]);
        assert_eq!(slab.header(ids[2_000]), [4; 52]);
    }
}
