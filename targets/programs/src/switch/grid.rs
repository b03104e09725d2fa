//! One state for each queue that carries traffic.

use crate::switch::{PORTS, PRIORITIES, Queue};
use cc_core::{Instant, Nanos, Zeroed};

/// How long a stage is left alone at most: stamps are of 32 bits.
pub const REST: Nanos = Nanos::new(500_000_000);

/// The states of the queues at which anything happened so far.
#[derive(Clone, Debug)]
pub struct Grid<T>([[Place<T>; PRIORITIES]; PORTS]);

/// The state of a queue; blank until that is open.
#[derive(Clone, Debug)]
struct Place<T> {
    state: T,
    open: bool,
}

impl<T: Zeroed> Zeroed for Grid<T> {
    const ZEROED: Self = Self([const { [const { Place { state: T::ZEROED, open: false } }; PRIORITIES] }; PORTS]);
}

impl<T> Grid<T> {
    /// What the state of a queue takes.
    pub const PLACE_BYTES: usize = size_of::<Place<T>>();

    /// The state of a queue, opened now if need be, where it is.
    #[inline]
    pub fn of(&mut self, queue: Queue, open: impl FnOnce(&mut T)) -> Option<&mut T> {
        let place = self.0.get_mut(usize::from(queue.port))?.get_mut(usize::from(queue.priority))?;
        if !place.open {
            place.open = true;
            open(&mut place.state);
        }
        Some(&mut place.state)
    }

    /// The states of all queues that are open.
    pub fn open(&mut self) -> impl Iterator<Item = (Queue, &mut T)> {
        (0..).zip(&mut self.0).flat_map(|(port, queues)| {
            let open =
                (0..).zip(queues).filter_map(|(priority, place)| place.open.then_some((priority, &mut place.state)));
            open.map(move |(priority, state)| (Queue { port, priority }, state))
        })
    }
}

/// The earlier of what was due and what is due after `wait` from now.
pub const fn earlier(due: Instant, now: Instant, wait: Nanos) -> Instant {
    let other = now.after(wait);
    if other.nanos() < due.nanos() { other } else { due }
}
