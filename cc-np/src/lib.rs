//! Notification points: the receiver's NIC, where marks become notifications.
#![no_std]
#![forbid(unsafe_code)]
#![deny(
    clippy::float_arithmetic,
    clippy::integer_division,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::arithmetic_side_effects,
        clippy::integer_division,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        clippy::panic,
        clippy::expect_used,
        clippy::float_arithmetic
    )
)]

#[cfg(any(test, feature = "std"))]
extern crate std;

pub mod dcqcn;
pub mod engine;
pub mod event;
pub mod machine;
pub mod outlet;
pub mod reply;

pub use engine::{Answer, Cnp, NpCounters, NpEngine};
pub use event::Arrival;
pub use machine::{Cx, NotificationPoint};
pub use outlet::CnpOutlet;
pub use reply::{Grant, Reply};

/// Hands the registry of notification points to `$consumer!`: for each its number, the bytes of one flow's state
/// (the table adds eight), and where it lives. The one line to add for a new algorithm.
#[macro_export]
macro_rules! for_each_np {
    ($consumer:ident) => {
        $consumer! {
            1, 8, dcqcn::Dcqcn;
        }
    };
}

macro_rules! assert_sizes {
    ($($id:literal, $bytes:literal, $module:ident::$machine:ident;)+) => {
        $(const _: () = assert!(
            size_of::<$module::$machine>() == $bytes,
            concat!(stringify!($machine), ": the state size in the registry is stale")
        );)+
    };
}
for_each_np!(assert_sizes);
