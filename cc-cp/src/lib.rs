//! Congestion points: the switch's part of congestion control, which marks, measures, holds or drops packets by its queues.
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

/// Hands the list of stages to a macro, one line each: number, bytes of one queue's state, name, and the path of its type.
///
/// A stage is one file and one line here. Numbers are never used twice; size and name are asserted.
#[macro_export]
macro_rules! for_each_cp {
    ($consumer:ident) => {
        $consumer! {
            1, 8, red => red::Red;
            2, 20, tcd => tcd::Tcd;
            3, 8, int => int::IntPush;
            4, 12, mmu => mmu::Mmu;
            5, 64, lscc_rate_calculation => lscc::rate_calculation::RateCalculation;
            6, 80, lscc_rate_limiting => lscc::rate_limiting::RateLimiting;
            7, 56, lscc_direct_int => lscc::direct_int::DirectInt;
            8, 32, mlcc_near_source => mlcc::near_source::NearSource;
            9, 48, mlcc_per_flow_queues => mlcc::per_flow_queues::PerFlowQueues;
            10, 24, swing => swing::Relays;
        }
    };
}

/// The module of a stage that is a file of its own here; those of a paper with several are in its folder.
macro_rules! module {
    ($module:ident :: $machine:ident) => {
        pub mod $module;
    };
    ($folder:ident :: $module:ident :: $machine:ident) => {};
}

macro_rules! declare {
    ($($number:literal, $bytes:literal, $name:ident => $first:ident $(:: $rest:ident)+;)+) => {
        $(
            module!($first $(:: $rest)+);
            const _: () = {
                type Line = <$first $(:: $rest)+ as OnQueues>::Stage<cc_core::table::Fixed<8>>;
                // As firmware has it: tables count in machine words.
                #[cfg(target_pointer_width = "32")]
                assert!(Line::SIZES.state == $bytes, concat!(stringify!($name), ": the size in the registry is stale"));
                assert!(
                    registry::str_eq(stringify!($name), Line::NAME),
                    concat!(stringify!($name), ": the stage has another name"),
                );
            };
        )+
    };
}

for_each_cp!(declare);

pub mod chain;
pub mod event;
#[cfg(feature = "std")]
pub mod list;
pub mod lscc;
pub mod mlcc;
pub mod pcg;
pub mod queues;
#[cfg(any(test, feature = "std"))]
pub mod recorder;
pub mod registry;
pub mod stage;
pub mod switch;
pub mod verdict;

pub use chain::Chain;
pub use event::{Event, Kind, Kinds, Packet, PeerMessage, Queue, RelayMessage};
pub use queues::PerQueue;
pub use stage::{ConfigureError, Cx, Emit, Inspect, OnQueues, QueueStage, Stage, StageSizes};
pub use switch::{QueueCounters, SendPfc, Switch};
pub use verdict::{Rewrite, Verdict};
