//! The firmware image of MLCC's per-flow queues.
#![no_std]
#![no_main]

rv32::stage!(cc_cp::mlcc::per_flow_queues::PerFlowQueues);
