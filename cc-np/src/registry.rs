//! All notification points by name, for programs that choose at run time.

use crate::NotificationPoint;

/// One algorithm of the registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its number, for programs without the names.
    pub number: u8,
    /// Its name.
    pub name: &'static str,
    /// Bytes of state of one flow.
    pub state_bytes: usize,
}

/// Code that is generic over the algorithm, for an algorithm that is chosen by name at run time.
pub trait Visitor {
    /// What it returns.
    type Output;

    /// Runs with the algorithm `A`.
    fn visit<A: NotificationPoint>(self) -> Self::Output;
}

macro_rules! list {
    ($($number:literal, $bytes:literal, $module:ident :: $machine:ident;)+) => {
        /// Every algorithm, the default first.
        pub const ALL: &[Entry] = &[$(
            Entry { number: $number, name: <crate::$module::$machine as NotificationPoint>::NAME, state_bytes: $bytes },
        )+];

        /// Calls the visitor with the algorithm of this name, upper or lower case. Returns `None` if there is no such
        /// algorithm.
        pub fn with<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(
                if name.eq_ignore_ascii_case(<crate::$module::$machine as NotificationPoint>::NAME) {
                    return Some(visitor.visit::<crate::$module::$machine>());
                }
            )+
            None
        }
    };
}

for_each_np!(list);

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::params::Settings;

    /// The number of presets of an algorithm, if each is in range, has a unique name, and has a source; `None` otherwise.
    struct Presets;

    impl Visitor for Presets {
        type Output = Option<usize>;

        fn visit<A: NotificationPoint>(self) -> Option<usize> {
            let sound = A::PRESETS.iter().enumerate().all(|(nth, preset)| {
                let unique = A::PRESETS.iter().skip(nth + 1).all(|other| other.name != preset.name);
                preset.values.in_range().is_ok() && !preset.source.is_empty() && unique
            });
            sound.then_some(A::PRESETS.len())
        }
    }

    #[test]
    fn algorithms_are_found_by_name() {
        assert_eq!(with("DCQCN", Presets), Some(Some(3)));
        assert_eq!(with("dcqcn2", Presets), None);
    }

    #[test]
    fn numbers_and_names_are_unique_and_presets_are_sound() {
        for (nth, entry) in ALL.iter().enumerate() {
            assert!(ALL.iter().skip(nth + 1).all(|other| other.number != entry.number && other.name != entry.name));
            assert!(with(entry.name, Presets).flatten().is_some(), "{}", entry.name);
        }
    }
}
