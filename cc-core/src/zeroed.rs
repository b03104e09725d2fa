//! Values for places that nothing has been put into yet.

/// A value for a place that nothing has been put into yet: zeros all over.
///
/// An image that begins with zeroed memory need not hold what is blank, and what is blank need not be copied there: it becomes
/// what it is to be where it is.
pub trait Zeroed: Sized {
    /// That value. It means nothing.
    const ZEROED: Self;
}

/// Declares a struct that is [`Zeroed`](crate::Zeroed) when all of its fields are.
///
/// ```
/// use cc_core::{Blank, Rate};
/// cc_core::zeroed! {
///     /// What an example computes with.
///     pub struct Params {
///         floor: Rate,
///     }
/// }
/// assert_eq!(Params::BLANK.floor, Rate::ZERO);
/// ```
#[macro_export]
macro_rules! zeroed {
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

        impl $crate::Zeroed for $name {
            const ZEROED: Self = Self { $( $field: <$type as $crate::Zeroed>::ZEROED, )+ };
        }
    };
}

impl<T: Zeroed, const N: usize> Zeroed for [T; N] {
    const ZEROED: Self = [T::ZEROED; N];
}

macro_rules! zeros {
    ($($type:ty = $zero:expr),+ $(,)?) => { $(
        impl Zeroed for $type {
            const ZEROED: Self = $zero;
        }
    )+ };
}

zeros! { () = (), bool = false, u8 = 0, u16 = 0, u32 = 0, u64 = 0, i32 = 0, i64 = 0 }
