//! Notification points (NP): the receiver's side of congestion control in a NIC. A notification point reads marks, time stamps
//! and telemetry of received data packets, and decides which CNPs and acknowledgements the receiver sends back.
//!
//! [`NpEngine`] is the notification point of one port: a table of flow records and the bound on CNPs. It is generic over the
//! algorithm, a [`NotificationPoint`], one file each. The caller passes received packets to [`NpEngineIn::arrival`] and reports
//! the passing of time by [`NpEngineIn::wake`]; the engine sends through [`Transmit`].
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

/// Calls a macro with the list of algorithms, one line each: number, bytes of one flow's state, module and type.
///
/// To add an algorithm, add its file and one line here. A number is never reused for another algorithm. The number of bytes is
/// asserted at compile time.
#[macro_export]
macro_rules! for_each_np {
    ($consumer:ident) => {
        $consumer! {
            1, 8, dcqcn::Dcqcn;
            2, 8, dcqcn_plus::DcqcnPlus;
            3, 1, echo::Echo;
            4, 28, rcc::Rcc;
            5, 8, rcc_sender::RccSender;
            6, 8, dcqcn_tcd::DcqcnTcd;
            7, 272, mlcc::Mlcc16;
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

for_each_np!(declare);

pub mod cnp_policy;
pub mod engine;
pub mod event;
mod flows;
#[cfg(test)]
mod frames;
pub mod machine;
pub mod registry;
pub mod reply;
pub mod transmit;

pub use cnp_policy::CnpPolicy;
pub use engine::{AckOutcome, ArrivalOutcome, CnpOutcome, NpCounters, NpEngine, NpEngineIn, mark_of};
pub use event::{Arrival, Event, RxMeta};
pub use machine::{Cx, Flows, NotificationPoint};
pub use reply::{Reply, Slot};
pub use transmit::{NotSent, Transmit};
