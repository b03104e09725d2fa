//! Where a table keeps its elements: inside itself, with a capacity fixed by its type, or on the heap, with a capacity set by
//! its owner. The code of the tables is the same for both. Firmware uses the first, simulators the second.

use crate::Zeroed;

/// The kind of memory for the elements of a table, and its length.
pub trait Storage: 'static {
    /// The length, where the type fixes it; `None` where it grows at run time.
    const LEN: Option<usize>;
    /// A list that begins empty.
    type List<T>: List<T>;
    /// An array that begins with all elements zeroed.
    type Array<T: Zeroed>: Array<T>;
}

/// A list with room for a bounded number of elements.
pub trait List<T> {
    /// The empty list.
    const EMPTY: Self;

    /// The elements.
    fn items(&self) -> &[T];

    /// The elements.
    fn items_mut(&mut self) -> &mut [T];

    /// How many elements there is room for.
    fn room(&self) -> usize;

    /// Appends an element.
    ///
    /// # Errors
    /// The element itself, when there is no room.
    fn push(&mut self, item: T) -> Result<(), T>;

    /// Makes room for `room` elements; does nothing where the room is fixed.
    fn grow(&mut self, room: usize) {
        let _ = room;
    }
}

/// An array whose elements begin zeroed.
pub trait Array<T>: Zeroed {
    /// An array of `len` zeroed elements; `None` where the length is fixed.
    fn of_len(len: usize) -> Option<Self> {
        let _ = len;
        None
    }

    /// The elements.
    fn items(&self) -> &[T];

    /// The elements.
    fn items_mut(&mut self) -> &mut [T];
}

/// Exactly `N` elements, inside the table.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<const N: usize>;

impl<const N: usize> Storage for Fixed<N> {
    const LEN: Option<usize> = Some(N);
    type List<T> = heapless::Vec<T, N>;
    type Array<T: Zeroed> = [T; N];
}

impl<T, const N: usize> List<T> for heapless::Vec<T, N> {
    const EMPTY: Self = Self::new();

    #[inline(always)]
    fn items(&self) -> &[T] {
        self
    }

    #[inline(always)]
    fn items_mut(&mut self) -> &mut [T] {
        self
    }

    #[inline(always)]
    fn room(&self) -> usize {
        N
    }

    #[inline(always)]
    fn push(&mut self, item: T) -> Result<(), T> {
        Self::push(self, item)
    }
}

impl<T: Zeroed, const N: usize> Array<T> for [T; N] {
    #[inline(always)]
    fn items(&self) -> &[T] {
        self
    }

    #[inline(always)]
    fn items_mut(&mut self) -> &mut [T] {
        self
    }
}

#[cfg(any(test, feature = "std"))]
pub use heap::Heap;

#[cfg(any(test, feature = "std"))]
mod heap {
    use super::{Array, List, Storage};
    use crate::Zeroed;
    use std::vec::Vec;

    /// On the heap, with no element at first. A table never grows by itself: its owner calls the table's `grow`.
    #[derive(Clone, Copy, Debug)]
    pub struct Heap;

    impl Storage for Heap {
        const LEN: Option<usize> = None;
        type List<T> = HeapList<T>;
        type Array<T: Zeroed> = Vec<T>;
    }

    /// A list on the heap.
    #[derive(Debug)]
    pub struct HeapList<T> {
        items: Vec<T>,
        room: usize,
    }

    impl<T> List<T> for HeapList<T> {
        const EMPTY: Self = Self { items: Vec::new(), room: 0 };

        #[inline]
        fn items(&self) -> &[T] {
            &self.items
        }

        #[inline]
        fn items_mut(&mut self) -> &mut [T] {
            &mut self.items
        }

        #[inline]
        fn room(&self) -> usize {
            self.room
        }

        #[inline]
        fn push(&mut self, item: T) -> Result<(), T> {
            if self.items.len() == self.room {
                return Err(item);
            }
            self.items.push(item);
            Ok(())
        }

        fn grow(&mut self, room: usize) {
            self.items.reserve_exact(room.saturating_sub(self.items.len()));
            self.room = self.room.max(room);
        }
    }

    impl<T> Zeroed for Vec<T> {
        const ZEROED: Self = Self::new();
    }

    impl<T: Zeroed> Array<T> for Vec<T> {
        fn of_len(len: usize) -> Option<Self> {
            Some(core::iter::repeat_with(|| T::ZEROED).take(len).collect())
        }

        #[inline]
        fn items(&self) -> &[T] {
            self
        }

        #[inline]
        fn items_mut(&mut self) -> &mut [T] {
            self
        }
    }
}
