//! PFC deadlocks: paused queues of switches that wait for each other in a cycle, so that none of them ever sends again.
//!
//! A paused queue of a switch waits for the neighbour's (ingress port, class), whose bytes caused the pause. It is deadlocked if all
//! these bytes are in queues that are deadlocked themselves: then none of them leaves, and no departure ends the pause. The largest
//! set of queues of which this holds is found by removing those of which it does not, until it holds of all that are left. A queue
//! that waits for a host is in no such set: the host resumes it. The set is exact at any instant. It persists as long as its pauses
//! do, which each switch renews; only a watchdog ends them, or a link that loses PFC frames.

use super::port::CLASSES;
use super::{Network, Picos, Place};
use hil_sorted::{SortedMap, SortedSet};
use serde::Serialize;
use std::fmt;

/// A queue of a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct QueuePlace {
    /// The node.
    pub node: u32,
    /// Its port, counted from one in the order of its links.
    pub port: u32,
    /// The node at the other end of the port's link.
    pub peer: u32,
    /// The class.
    pub class: u8,
}

impl fmt::Display for QueuePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} port {} to node {}", self.node, self.port, self.peer)
    }
}

/// A cycle of paused queues, each of which waits for the next, and the last for the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deadlock {
    /// When the last of the queues was paused.
    pub since: Picos,
    /// When it was found.
    pub found: Picos,
    /// When it was found to be over; `None` if it lasts until the end of the run.
    pub ended: Option<Picos>,
    /// The queues, from that of the lowest node on.
    pub queues: Vec<QueuePlace>,
}

/// A queue, by its port among all ports and its class.
type Queue = (u32, u8);

/// At least so much time lies between two looks for deadlocks: 100 us.
const INTERVAL: Picos = 100_000_000;

impl Network<'_> {
    /// The place of a queue.
    pub(super) fn queue_place(&self, (port, class): Queue) -> QueuePlace {
        let at = &self.ports[port as usize];
        let peer = self.ports[at.peer as usize].node;
        QueuePlace { node: at.node, port: port - self.routes.first_port(at.node) + 1, peer, class }
    }

    /// A PFC frame has paused a switch's port, or renewed its pause. Looks for deadlocks, if that has not been done just before.
    #[cold]
    pub(super) fn suspect_deadlock(&mut self, now: Picos) {
        if now >= self.deadlocks_at {
            self.deadlocks_at = now + INTERVAL;
            self.find_deadlocks(now);
        }
    }

    /// Records the deadlocks that have begun and ended.
    pub(super) fn find_deadlocks(&mut self, now: Picos) {
        let stuck = self.deadlocked(now);
        let places: SortedSet<QueuePlace> = stuck.keys().map(|&queue| self.queue_place(queue)).collect();
        for deadlock in self.totals.deadlocks.iter_mut().filter(|deadlock| deadlock.ended.is_none()) {
            let lasts = deadlock.queues.iter().all(|queue| places.contains(queue));
            deadlock.ended = (!lasts).then_some(now);
        }
        let mut unseen: SortedSet<Queue> = stuck.keys().copied().collect();
        while let Some(&first) = unseen.first() {
            let mut path = vec![first];
            while let Some(next) = self.waits_for(&stuck, path[path.len() - 1]) {
                if let Some(begin) = path.iter().position(|&queue| queue == next) {
                    self.record_deadlock(now, &path[begin..]);
                    break;
                }
                if !unseen.contains(&next) {
                    break;
                }
                path.push(next);
            }
            path.iter().for_each(|queue| _ = unseen.remove(queue));
        }
    }

    /// Records a cycle that was found, if it is not recorded yet.
    fn record_deadlock(&mut self, now: Picos, cycle: &[Queue]) {
        let since = cycle.iter().map(|&(port, class)| self.ports[port as usize].paused_from[usize::from(class)]).max();
        let mut queues: Vec<QueuePlace> = cycle.iter().map(|&queue| self.queue_place(queue)).collect();
        let lowest = (0..queues.len()).min_by_key(|&place| queues[place]).unwrap_or(0);
        queues.rotate_left(lowest);
        let is_known = |known: &Deadlock| known.ended.is_none() && known.queues == queues;
        if !self.totals.deadlocks.iter().any(is_known) {
            self.totals.deadlocks.push(Deadlock { since: since.unwrap_or(now), found: now, ended: None, queues });
        }
    }

    /// The first of the deadlocked queues that have packets for whose departure a deadlocked queue waits.
    fn waits_for(&self, stuck: &SortedMap<Queue, SortedMap<u32, u32>>, (port, class): Queue) -> Option<Queue> {
        let ingress = self.ports[port as usize].peer;
        stuck.iter().find(|((_, of), held)| *of == class && held.contains_key(&ingress)).map(|(&queue, _)| queue)
    }

    /// The deadlocked queues, each with the bytes in it that came in by each port of its switch.
    fn deadlocked(&self, now: Picos) -> SortedMap<Queue, SortedMap<u32, u32>> {
        let is_switch = |node: u32| matches!(self.places[node as usize], Place::Switch(_));
        let node_beyond = |port: u32| self.ports[self.ports[port as usize].peer as usize].node;
        let between_switches =
            (0u32..).zip(&self.ports).filter(|&(number, port)| is_switch(port.node) && is_switch(node_beyond(number)));
        let mut waiting: SortedSet<Queue> = between_switches
            .flat_map(|(number, port)| {
                let is_paused = |class: &u8| {
                    let class = usize::from(*class);
                    port.paused_until[class] > now && port.data[class].bytes > 0
                };
                (0..CLASSES as u8).filter(is_paused).map(move |class| (number, class))
            })
            .collect();
        // Most often this is over before any queue is walked: no paused queue leads to a switch that has one too.
        loop {
            let nodes: SortedSet<(u32, u8)> =
                waiting.iter().map(|&(port, class)| (self.ports[port as usize].node, class)).collect();
            let before = waiting.len();
            waiting.retain(|&(port, class)| nodes.contains(&(node_beyond(port), class)));
            if waiting.len() == before {
                break;
            }
        }
        let held =
            |(port, class): Queue| ((port, class), self.ports[port as usize].bytes_by_ingress(class, &self.slab));
        let mut stuck: SortedMap<Queue, SortedMap<u32, u32>> = waiting.into_iter().map(held).collect();
        loop {
            let mut of_ingress: SortedMap<Queue, u32> = SortedMap::new();
            for (&(_, class), held) in &stuck {
                held.iter().for_each(|(&ingress, bytes)| *of_ingress.or_default((ingress, class)) += bytes);
            }
            let before = stuck.len();
            stuck.retain(|&(port, class), _| {
                let peer = self.ports[port as usize].peer;
                let arrived = self.ports[peer as usize].arrived[usize::from(class)];
                of_ingress.get(&(peer, class)) == Some(&arrived)
            });
            if stuck.len() == before {
                return stuck;
            }
        }
    }
}
