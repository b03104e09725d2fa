//! The firmware image of MLCC's per-flow queues.
#![no_std]
#![no_main]

rv32::stage!(rv32::programs::switch::mlcc_per_flow_queues::PerFlowQueues);
