//! The queues of flows at a port whose stages hold flows.

use super::packets::{Fifo, InFlight, Meta, PacketId};
use super::port::CLASSES;
use crate::Picos;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The flows of a port. At most one packet of each is in the port's own queues; the others wait here, each flow's in a queue, until
/// the one before them has left and the time is over for which the stages then hold the flow.
#[derive(Default, Debug)]
pub(super) struct FlowQueues {
    /// The flows of which a packet is in the port's queues or here, or which are held.
    flows: BTreeMap<u32, FlowQueue>,
    /// When the holds of flows are over.
    holds: BinaryHeap<Reverse<(Picos, u32)>>,
    /// Bytes that wait here, by class.
    bytes: [u32; CLASSES],
    /// When the port is called next for a hold that is over, if that is scheduled and not past.
    wake_at: Picos,
}

#[derive(Default, Debug)]
struct FlowQueue {
    packets: Fifo,
    /// A packet is in the port's queues.
    leaves: bool,
    held: bool,
}

impl FlowQueues {
    /// Bytes that wait here, by class.
    pub(super) fn bytes(&self) -> &[u32; CLASSES] {
        &self.bytes
    }

    /// The packets that wait here.
    pub(super) fn fifos(&self) -> impl Iterator<Item = Fifo> {
        self.flows.values().map(|queue| queue.packets)
    }

    /// Whether a packet that has come waits here. Otherwise it joins the port's queues.
    #[inline(never)]
    pub(super) fn keeps(&mut self, slab: &mut InFlight, id: PacketId) -> bool {
        let Meta { flow, line_bytes, class, .. } = *slab.meta(id);
        let queue = self.flows.entry(flow).or_default();
        if queue.leaves || queue.held {
            queue.packets.push(slab, id);
            self.bytes[usize::from(class)] += u32::from(line_bytes);
            return true;
        }
        queue.leaves = true;
        false
    }

    /// The packet of a flow has left the port's queues, and the next one is held until a time, or not at all. Returns that one if it
    /// joins them now.
    pub(super) fn left(&mut self, slab: &InFlight, flow: u32, until: Option<Picos>) -> Option<PacketId> {
        let queue = self.flows.get_mut(&flow)?;
        (queue.leaves, queue.held) = (false, until.is_some());
        match until {
            Some(until) => {
                self.holds.push(Reverse((until, flow)));
                None
            }
            None => self.next_of(slab, flow),
        }
    }

    /// All holds are over.
    pub(super) fn end_holds(&mut self) {
        self.holds = self.holds.drain().map(|Reverse((_, flow))| Reverse((0, flow))).collect();
    }

    /// Takes a packet whose flow's hold is over.
    pub(super) fn take(&mut self, now: Picos, slab: &InFlight) -> Option<PacketId> {
        while let Some(&Reverse((until, flow))) = self.holds.peek()
            && until <= now
        {
            self.holds.pop();
            if let Some(id) = self.next_of(slab, flow) {
                return Some(id);
            }
        }
        None
    }

    /// When the next hold is over, if a packet waits here and no earlier call of the port is scheduled. It is to be scheduled.
    pub(super) fn next_wake(&mut self, now: Picos) -> Option<Picos> {
        let &Reverse((until, _)) = self.holds.peek().filter(|_| self.bytes != [0; CLASSES])?;
        if self.wake_at > now && self.wake_at <= until {
            return None;
        }
        self.wake_at = until;
        Some(until)
    }

    /// Takes the next packet of a flow that is held no longer.
    fn next_of(&mut self, slab: &InFlight, flow: u32) -> Option<PacketId> {
        let queue = self.flows.get_mut(&flow)?;
        let Some(id) = queue.packets.pop(slab) else {
            self.flows.remove(&flow);
            return None;
        };
        (queue.leaves, queue.held) = (true, false);
        let Meta { line_bytes, class, .. } = *slab.meta(id);
        self.bytes[usize::from(class)] -= u32::from(line_bytes);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of packets of flows 1, 1, 1, 2 and 3, where 1 is held until 50 ps and 2 until 40 ps once their first packets have left.
    #[test]
    fn a_held_flow_waits_and_others_overtake_it() {
        let mut slab = InFlight::new(10);
        let mut queues = FlowQueues::default();
        let put = |queues: &mut FlowQueues, slab: &mut InFlight, flow| {
            let id = slab.insert(Meta { flow, line_bytes: 10, class: 3, ..Meta::default() }, &[]);
            queues.keeps(slab, id)
        };
        let kept = [1, 1, 1, 2, 3].map(|flow| put(&mut queues, &mut slab, flow));
        assert_eq!(kept, [false, true, true, false, false]);
        assert_eq!(queues.left(&slab, 1, Some(50)), None);
        assert_eq!((queues.left(&slab, 2, Some(40)), queues.left(&slab, 3, None)), (None, None));
        assert!(put(&mut queues, &mut slab, 2), "held without a packet that waits");
        assert!(!put(&mut queues, &mut slab, 3));
        assert_eq!(queues.bytes()[3], 30);
        assert_eq!((queues.next_wake(10), queues.next_wake(10), queues.take(39, &slab)), (Some(40), None, None));
        let flow_of = |id: Option<PacketId>| id.map(|id| slab.meta(id).flow);
        assert_eq!(
            [queues.take(50, &slab), queues.take(50, &slab), queues.take(50, &slab)].map(flow_of),
            [Some(2), Some(1), None]
        );
        assert_eq!((queues.bytes()[3], queues.next_wake(50)), (10, None), "the last is not held yet");
        assert_eq!(flow_of(queues.left(&slab, 1, None)), Some(1));
        assert_eq!((queues.left(&slab, 1, None), queues.left(&slab, 2, None)), (None, None));
        assert_eq!(
            (queues.bytes()[3], queues.fifos().count()),
            (0, 1),
            "only flow 3 has a packet in the port's queues"
        );
    }
}
