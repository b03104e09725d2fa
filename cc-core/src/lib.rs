//! The vocabulary of rnic-cc: units, signals, wire formats, bounded tables. It knows no algorithm, but for the one law
//! that runs at either end ([`rcc`]).
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
        clippy::expect_used
    )
)]

#[cfg(any(test, feature = "std"))]
extern crate std;

pub mod clock;
pub mod math;
pub mod pacer;
pub mod params;
pub mod port;
pub mod rcc;
pub mod signal;
pub mod table;
pub mod telemetry;
pub mod units;
pub mod wheel;
pub mod wire;

pub use port::Port;
pub use signal::{CnpBody, CnpHint, CnpKind, Ecn, Grant, Mark};
pub use telemetry::{Delay, Hop, IntLayout, IntStack};
pub use units::{Bytes, Frac, Instant, Nanos, Psn, Qpn, Rate, Stamp};
