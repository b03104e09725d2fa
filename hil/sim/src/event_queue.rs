//! The event queue of a simulation.

use super::Picos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events in order of time; events of equal time in the order in which they were added.
#[derive(Debug)]
pub(super) struct EventQueue<E> {
    entries: BinaryHeap<Reverse<Entry<E>>>,
    added: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Picos,
    order: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<E> EventQueue<E> {
    /// An empty queue.
    pub(super) fn new() -> Self {
        Self { entries: BinaryHeap::new(), added: 0 }
    }

    /// Adds an event. *O*(log n).
    pub(super) fn add(&mut self, at: Picos, event: E) {
        self.entries.push(Reverse(Entry { at, order: self.added, event }));
        self.added += 1;
    }

    /// Removes and returns the next event, unless its time is after `until`. *O*(log n).
    pub(super) fn next(&mut self, until: Picos) -> Option<(Picos, E)> {
        if self.entries.peek()?.0.at > until {
            return None;
        }
        self.entries.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_keep_their_order() {
        let mut events = EventQueue::new();
        for (at, event) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b')] {
            events.add(at, event);
        }
        let order: String = std::iter::from_fn(|| events.next(5)).map(|(_, event)| event).collect();
        assert_eq!(order, "abcd");
        events.add(7, 'e');
        assert!(events.next(6).is_none());
    }
}
