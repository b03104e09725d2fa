//! MLCC: two interconnect switches that shorten the feedback loops.
//!
//! "Efficient Cross-Datacenter Congestion Control with Fast Control Loops", ICPP 2025. The switch at the sender's end returns
//! the telemetry of its own datacentre at once ([`near_source`], section 3.2.1). The switch at the receiver's end has a queue
//! for each flow, drains it at the rate that the receiver grants, and reports the bytes left in it to the receiver
//! ([`per_flow_queues`], section 3.2.2). The rest of MLCC is in `cc-rp` and `cc-np`.

pub mod near_source;
pub mod per_flow_queues;
