//! The types that all crates of rnic-cc share: units, signals, wire formats, bounded tables. No algorithm is here, except two
//! control laws that run at the sender or at the receiver ([`rcc`], [`hpcc`]).
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

pub mod clock;
pub mod decay;
pub mod hops;
pub mod hpcc;
pub mod link;
pub mod math;
pub mod pacer;
pub mod params;
#[cfg(test)]
mod random;
pub mod rcc;
pub mod signal;
pub mod snapshot;
pub mod table;
pub mod telemetry;
pub mod timer_wheel;
pub mod units;
pub mod wire;
pub mod zeroed;

/// The fixed-point types of the quantities here.
pub use fixed;
pub use link::Link;
pub use signal::{CnpBody, CnpBodyKind, CnpKind, Ecn, Grant, Mark};
pub use snapshot::State;
pub use telemetry::{Delay, Hop, IntLayout, IntStack, IntStackBuilder};
pub use units::{Bytes, Frac, Instant, Nanos, Psn, Qpn, Rate, Stamp};
pub use zeroed::Zeroed;
