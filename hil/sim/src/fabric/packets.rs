//! Lists of packets.

pub(crate) use super::slab::{InFlight, Kind, Meta, PacketId};

/// No packet.
pub(crate) const NONE: PacketId = PacketId::MAX;

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

    /// All of them, from the front.
    pub(crate) fn iter(mut self, slab: &InFlight) -> impl Iterator<Item = PacketId> {
        std::iter::from_fn(move || self.pop(slab))
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Puts a packet behind all others.
    pub(crate) fn push(&mut self, slab: &mut InFlight, id: PacketId) {
        slab.meta_mut(id).next = NONE;
        if self.is_empty() {
            self.first = id;
        } else {
            slab.meta_mut(self.last).next = id;
        }
        self.last = id;
    }

    /// Takes the packet in front.
    pub(crate) fn pop(&mut self, slab: &InFlight) -> Option<PacketId> {
        let id = self.first()?;
        self.first = slab.meta(id).next;
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_in_the_order_in_which_they_came() {
        let mut slab = InFlight::new(10);
        let mut queue = Fifo::default();
        for flow in [1, 3, 2] {
            let id = slab.insert(Meta { flow, ..Meta::default() }, &[]);
            queue.push(&mut slab, id);
        }
        assert_eq!(queue.iter(&slab).count(), 3);
        let flows: Vec<u32> = std::iter::from_fn(|| queue.pop(&slab)).map(|id| slab.meta(id).flow).collect();
        assert!(flows == [1, 3, 2] && queue.is_empty());
    }
}
