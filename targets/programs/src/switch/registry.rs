//! All stages by name, for programs that choose at run time.

use crate::switch::Program;

/// Something to be done with a stage that is known only at run time.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<P: Program>(self) -> Self::Output;
}

macro_rules! list {
    ($($name:ident => $module:ident :: $program:ident;)+) => {
        /// The names of all stages.
        pub const NAMES: &[&str] = &[$(stringify!($name)),+];

        /// Does something with the stage of this name; `None` when there is none.
        pub fn with<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(
                if name == stringify!($name) {
                    return Some(visitor.visit::<crate::switch::$module::$program>());
                }
            )+
            None
        }

        $(const _: () = assert!(
            crate::str_eq(stringify!($name), <crate::switch::$module::$program as Program>::NAME),
            concat!(stringify!($name), ": the program has another name"),
        );)+
    };
}

crate::for_each_stage!(list);
