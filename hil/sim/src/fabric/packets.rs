//! Lists of packets.

pub(crate) use super::slab::{InFlight, Kind, Meta, PacketId};

use crate::Picos;

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

    /// Takes the first packet whose flow may send, which is when `until` of the flow is not after `now`.
    ///
    /// # Errors
    /// None may. The error has the earliest time at which one may, if there is a packet.
    pub(crate) fn take_first(
        &mut self,
        slab: &mut InFlight,
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

    /// Of packets of flows 1, 1, 2 and 3, where 1 is held until 50 ps and 2 until 40 ps.
    #[test]
    fn a_held_flow_waits_and_others_overtake_it() {
        let mut slab = InFlight::new(10);
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
