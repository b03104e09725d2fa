//! MLCC: two interconnect switches that shorten the way of news.
//!
//! "Efficient Cross-Datacenter Congestion Control with Fast Control Loops", ICPP 2025. The switch at the sender's end returns the
//! telemetry of its own datacentre at once ([`near_source`], section 3.2.1). The one at the receiver's end keeps a queue for
//! each flow, lets it go at the rate that the receiver grants, and tells the receiver what is left in it
//! ([`per_flow_queues`], section 3.2.2). The rest is in the NICs.

pub mod near_source;
pub mod per_flow_queues;
