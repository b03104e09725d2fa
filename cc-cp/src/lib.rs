//! Congestion points: the switch's side of congestion control. A congestion point marks, measures, delays or drops the packets
//! of a switch, depending on the length of its queues.
//!
//! [`Switch`] runs one [`Stage`], or a [`Chain`] of several, on the queues of a switch. The caller passes it the [`Event`]s of
//! each queue, and applies the [`Verdict`] that it returns to the packet.
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

/// Calls a macro with the list of stages, one line each: number, bytes of one queue's state, name, and the path of its type.
///
/// To add a stage, add its file and one line here. A number is never reused for another stage. Size and name are asserted at
/// compile time.
#[macro_export]
macro_rules! for_each_cp {
    ($consumer:ident) => {
        $consumer! {
            1, 8, red => red::Red;
            2, 20, tcd => tcd::Tcd;
            3, 8, int => int::IntPush;
            4, 12, mmu => mmu::Mmu;
            5, 72, lscc_rate_calculation => lscc::rate_calculation::RateCalculation;
            6, 88, lscc_rate_limiting => lscc::rate_limiting::RateLimiting;
            7, 56, lscc_direct_int => lscc::direct_int::DirectInt;
            8, 32, mlcc_near_source => mlcc::near_source::NearSource;
            9, 48, mlcc_per_flow_queues => mlcc::per_flow_queues::PerFlowQueues;
            10, 24, swing => swing::Relays;
        }
    };
}

/// Declares the module of a stage whose path is a file of this folder. The module of a paper with several stages is a folder,
/// which declares its stages itself.
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
                // The size in firmware, with 32-bit machine words, in which tables keep their counts.
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
