//! The switch program without the hardware: what firmware and host run alike, one stage in each image.
//!
//! What happens at a port and a priority comes in as descriptors, in the ring that the NIC program has too, and most of them
//! with the head of a frame. What the stage answers goes to the switch's registers, and frames of its own into the transmit
//! ring. A stage is one file here, one line below, and one file beside the other images.

/// Hands the list of stages to a macro, one line each: its name, and the program that runs it.
#[macro_export]
macro_rules! for_each_stage {
    ($consumer:ident) => {
        $consumer! {
            red => marking::Red;
            tcd => marking::Tcd;
            int => marking::Int;
            mmu => mmu::Buffer;
            lscc_rate_calculation => lscc_rate_calculation::Calculation;
            lscc_rate_limiting => lscc_rate_limiting::Limiting;
            lscc_direct_int => lscc_direct_int::DirectInt;
            mlcc_near_source => mlcc_near_source::NearSource;
            mlcc_per_flow_queues => mlcc_per_flow_queues::PerFlowQueues;
            swing => swing::Relays;
        }
    };
}

pub mod action;
pub mod ending;
pub mod event;
pub mod grid;
pub mod lscc_direct_int;
pub mod lscc_rate_calculation;
pub mod lscc_rate_limiting;
pub mod marking;
pub mod mlcc_near_source;
pub mod mlcc_per_flow_queues;
pub mod mmu;
pub mod program;
pub mod registry;
pub mod swing;

pub use action::StageAction;
pub use event::{Event, Kind, Queue};
pub use program::{Hardware, Program, Switch};

/// Ports of the switch.
pub const PORTS: usize = 4;
/// Priorities of each port.
pub const PRIORITIES: usize = 8;
