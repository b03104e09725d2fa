//! Reaction points: the sender's NIC, where feedback becomes a rate.
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

#[cfg(any(feature = "std", test))]
extern crate std;

pub mod dcqcn;
pub mod decision;
pub mod event;
pub mod machine;

pub use decision::Decision;
pub use event::{Event, EventMask};
pub use machine::{Cx, Ignored, ReactionPoint};
