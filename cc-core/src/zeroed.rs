//! Values for places that nothing has been put into yet.

/// A value for a place that nothing has been put into yet: zeros all over.
///
/// An image that begins with zeroed memory need not hold what is blank, and what is blank need not be copied there: it becomes
/// what it is to be where it is.
pub trait Blank: Sized {
    /// That value. It means nothing.
    const BLANK: Self;
}

/// Declares a struct that is [`Blank`](crate::Blank) when all of its fields are.
///
/// ```
/// use cc_core::{Blank, Rate};
/// cc_core::blank! {
///     /// What an example computes with.
///     pub struct Params {
///         floor: Rate,
///     }
/// }
/// assert_eq!(Params::BLANK.floor, Rate::ZERO);
/// ```
#[macro_export]
macro_rules! blank {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $( $(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $( $(#[$field_meta])* $field_vis $field: $type, )+
        }

        impl $crate::Blank for $name {
            const BLANK: Self = Self { $( $field: <$type as $crate::Blank>::BLANK, )+ };
        }
    };
}

impl<T: Blank, const N: usize> Blank for [T; N] {
    const BLANK: Self = [T::BLANK; N];
}

macro_rules! zeros {
    ($($type:ty = $zero:expr),+ $(,)?) => { $(
        impl Blank for $type {
            const BLANK: Self = $zero;
        }
    )+ };
}

zeros! { () = (), bool = false, u8 = 0, u16 = 0, u32 = 0, u64 = 0, i32 = 0, i64 = 0 }
