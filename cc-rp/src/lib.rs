//! Reaction points (RP): the part of the sender's NIC that turns feedback into a rate for each flow.
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

/// Passes the list of algorithms to a macro, one line each: number, bytes of state of one flow, module and type.
///
/// To add an algorithm, add its file and one line here. Numbers are never reused. The size is checked at compile time.
#[macro_export]
macro_rules! for_each_rp {
    ($consumer:ident) => {
        $consumer! {
            1, 32, dcqcn::Dcqcn;
            2, 32, dcqcn_plus::DcqcnPlus;
            3, 24, timely::Timely;
            4, 96, hpcc::Hpcc5;
            5, 96, powertcp::PowerTcp5;
            6, 32, theta_powertcp::ThetaPowerTcp;
            7, 24, swift::Swift;
            8, 16, rcc::Rcc;
            9, 40, rcc_sender::RccSender;
            10, 32, dcqcn_tcd::DcqcnTcd;
            11, 28, timely_tcd::TimelyTcd;
            12, 40, acc::Acc;
            13, 0, pfc::Pfc;
            14, 192, hpcc_star::HpccStar5;
            15, 108, mlcc::Mlcc;
            16, 28, dctcp::Dctcp;
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

for_each_rp!(declare);

pub mod cnp_gate;
pub mod decision;
pub mod engine;
pub mod event;
pub mod machine;
pub mod registry;

pub use cnp_gate::{CnpFlow, gate, gate_event};
pub use decision::Decision;
pub use engine::{FlowDecision, RateLimiter, RpCounters, RpEngine, RpEngineIn};
pub use event::{Ack, AckProgress, Event, EventSet, Signals};
pub use machine::{CnpIgnored, Cx, Limits, ReactionPoint, TraceValue};
