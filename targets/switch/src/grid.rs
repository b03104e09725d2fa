//! One state for each queue that carries traffic.

use crate::{PORTS, PRIORITIES, Queue};
use cc_core::{Instant, Nanos};

/// How long a stage is left alone at most: stamps are of 32 bits.
pub const REST: Nanos = Nanos::new(500_000_000);

/// The states of the queues at which anything happened so far.
#[derive(Clone, Debug)]
pub struct Grid<T>([[Option<T>; PRIORITIES]; PORTS]);

impl<T> Grid<T> {
    /// Nothing has happened.
    pub const fn new() -> Self {
        Self([const { [const { None }; PRIORITIES] }; PORTS])
    }

    /// The state of a queue, opened now if need be.
    #[inline]
    pub fn of(&mut self, queue: Queue, open: impl FnOnce() -> T) -> Option<&mut T> {
        let slot = self.0.get_mut(usize::from(queue.port))?.get_mut(usize::from(queue.priority))?;
        Some(slot.get_or_insert_with(open))
    }

    /// The states of all queues that are open.
    pub fn open(&mut self) -> impl Iterator<Item = (Queue, &mut T)> {
        (0..).zip(&mut self.0).flat_map(|(port, queues)| {
            let open = (0..).zip(queues).filter_map(|(priority, slot)| Some((priority, slot.as_mut()?)));
            open.map(move |(priority, state)| (Queue { port, priority }, state))
        })
    }
}

impl<T> Default for Grid<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The earlier of what was due and what is due after `wait` from now.
pub const fn sooner(due: Instant, now: Instant, wait: Nanos) -> Instant {
    let other = now.after(wait);
    if other.nanos() < due.nanos() { other } else { due }
}
