//! All reaction points by name, for programs that choose at run time.

use crate::ReactionPoint;

/// One line of the registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its number, for programs without names.
    pub number: u8,
    /// Its name.
    pub name: &'static str,
    /// Bytes of state of one flow.
    pub state_bytes: usize,
}

/// A generic function to be called with an algorithm that is chosen at run time.
pub trait Visitor {
    /// What it returns.
    type Output;

    /// Runs it for algorithm `A`.
    fn visit<A: ReactionPoint>(self) -> Self::Output;
}

macro_rules! list {
    ($($number:literal, $bytes:literal, $module:ident :: $machine:ident;)+) => {
        /// Every algorithm, the default first.
        pub const ALL: &[Entry] = &[$(
            Entry { number: $number, name: <crate::$module::$machine as ReactionPoint>::NAME, state_bytes: $bytes },
        )+];

        /// Calls the visitor with the algorithm of this name, ignoring case; `None` when there is none.
        pub fn with<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(
                if name.eq_ignore_ascii_case(<crate::$module::$machine as ReactionPoint>::NAME) {
                    return Some(visitor.visit::<crate::$module::$machine>());
                }
            )+
            None
        }
    };
}

for_each_rp!(list);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventSet;

    struct Presets;

    impl Visitor for Presets {
        type Output = usize;

        fn visit<A: ReactionPoint>(self) -> usize {
            A::PRESETS.len()
        }
    }

    #[test]
    fn algorithms_are_found_by_name() {
        assert_eq!(with("DCQCN", Presets), Some(crate::dcqcn::Dcqcn::PRESETS.len()));
        assert_eq!(with("dcqcn2", Presets), None);
    }

    struct TakesWakes;

    impl Visitor for TakesWakes {
        type Output = bool;

        fn visit<A: ReactionPoint>(self) -> bool {
            A::EVENTS.contains(EventSet::WAKE)
        }
    }

    #[test]
    fn numbers_and_names_are_unique_and_every_algorithm_takes_wakes() {
        for (nth, entry) in ALL.iter().enumerate() {
            assert!(ALL.iter().skip(nth + 1).all(|other| other.number != entry.number && other.name != entry.name));
            assert_eq!(with(entry.name, TakesWakes), Some(true), "{}", entry.name);
        }
    }
}
