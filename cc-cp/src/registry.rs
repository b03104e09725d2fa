//! All stages by name, for programs that choose at run time.

use crate::{Kinds, OnQueues, Stage};
use cc_core::table::Fixed;

/// One line of the registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its number, for programs without the names.
    pub number: u8,
    /// Its name.
    pub name: &'static str,
    /// Bytes of the state of one queue in firmware, without its flows.
    pub state_bytes: usize,
    /// The kinds of events that are passed to it.
    pub takes: Kinds,
}

/// Code that is generic over the stage, for a stage that is chosen by name at run time.
pub trait Visitor {
    /// What it returns.
    type Output;

    /// Runs with the stage `S`.
    fn visit<S: OnQueues>(self) -> Self::Output;
}

macro_rules! list {
    ($($number:literal, $bytes:literal, $name:ident => $first:ident $(:: $rest:ident)+;)+) => {
        /// Every stage, the default first.
        pub const ALL: &[Entry] = &[$(Entry {
            number: $number,
            name: stringify!($name),
            state_bytes: $bytes,
            takes: <<crate::$first $(:: $rest)+ as OnQueues>::Stage<Fixed<8>> as Stage>::TAKES,
        },)+];

        /// The names of all stages.
        pub const NAMES: &[&str] = &[$(stringify!($name)),+];

        /// Calls the visitor with the stage of this name, upper or lower case. Returns `None` if there is no such stage.
        pub fn with<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(
                if name.eq_ignore_ascii_case(stringify!($name)) {
                    return Some(visitor.visit::<crate::$first $(:: $rest)+>());
                }
            )+
            None
        }
    };
}

for_each_cp!(list);

/// Whether two names are equal, at compile time.
pub(crate) const fn str_eq(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (one.as_bytes(), other.as_bytes());
    loop {
        match (one, other) {
            ([], []) => return true,
            ([a, rest_of_one @ ..], [b, rest_of_other @ ..]) if *a == *b => (one, other) = (rest_of_one, rest_of_other),
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::params::Settings;

    /// The number of presets of a stage, if each is in range, has a unique name, and has a source; `None` otherwise.
    struct Presets;

    impl Visitor for Presets {
        type Output = Option<usize>;

        fn visit<S: OnQueues>(self) -> Option<usize> {
            let presets = <S::Stage<Fixed<8>> as Stage>::PRESETS;
            let sound = presets.iter().enumerate().all(|(nth, preset)| {
                let unique = presets.iter().skip(nth + 1).all(|other| other.name != preset.name);
                preset.values.in_range().is_ok() && !preset.source.is_empty() && unique
            });
            sound.then_some(presets.len())
        }
    }

    #[test]
    fn stages_are_found_by_name() {
        assert_eq!(with("RED", Presets), Some(Some(5)));
        assert_eq!(with("red2", Presets), None);
        assert!(ALL.iter().map(|entry| entry.name).eq(NAMES.iter().copied()));
    }

    #[test]
    fn numbers_and_names_are_unique_and_presets_are_sound() {
        for (nth, entry) in ALL.iter().enumerate() {
            assert!(ALL.iter().skip(nth + 1).all(|other| other.number != entry.number && other.name != entry.name));
            assert!(with(entry.name, Presets).flatten().is_some_and(|presets| presets > 0), "{}", entry.name);
        }
    }
}
