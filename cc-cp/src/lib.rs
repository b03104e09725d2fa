//! Congestion points: the switch, where queues become marks.
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

/// Hands the list of algorithms to a macro, one line each: number, bytes of one queue's state, module and type.
///
/// An algorithm is one file and one line here. Numbers are never used twice; the size is asserted.
#[macro_export]
macro_rules! for_each_cp {
    ($consumer:ident) => {
        $consumer! {
            1, 8, red::Red;
            2, 20, tcd::Tcd;
            3, 8, int::IntPush;
        }
    };
}

macro_rules! declare {
    ($($number:literal, $bytes:literal, $module:ident :: $machine:ident;)+) => {
        $(
            pub mod $module;
            const _: () = assert!(
                size_of::<$module::$machine>() == $bytes,
                concat!(stringify!($machine), ": the size in the registry is stale"),
            );
        )+
    };
}

for_each_cp!(declare);

pub mod chain;
pub mod engine;
pub mod event;
pub mod lscc;
pub mod machine;
pub mod mlcc;
pub mod mmu;
pub mod pcg;
pub mod registry;
pub mod segment;
pub mod swing;
pub mod verdict;

pub use chain::Chain;
pub use engine::{CpCounters, CpEngine, NoSuchQueue};
pub use event::{Event, Packet};
pub use machine::{CongestionPoint, Cx, Stage};
pub use segment::{Endpoint, Segment};
pub use verdict::{Upstream, Verdict};
