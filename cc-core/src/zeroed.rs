//! Values that are all zeros, for memory that is not initialised yet.

/// A type with a value of all zeros, for memory that is not initialised yet.
///
/// A firmware image starts with zeroed memory, so it neither stores nor copies this value: the owner initialises it in place.
pub trait Zeroed: Sized {
    /// The value of all zeros. It is not a meaningful value of the type until it is initialised.
    const ZEROED: Self;
}

/// Declares a struct that is [`Zeroed`](crate::Zeroed) when all of its fields are.
///
/// ```
/// use cc_core::{Rate, Zeroed};
/// cc_core::zeroed! {
///     /// What an example computes with.
///     pub struct Params {
///         floor: Rate,
///     }
/// }
/// assert_eq!(Params::ZEROED.floor, Rate::ZERO);
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
