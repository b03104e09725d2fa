//! LSCC: congestion control with the long link between two datacentres as a segment of its own.
//!
//! M. Long et al., "LSCC: Link-Segmented Congestion Control for RDMA in Cross-Datacenter Networks". There is a stage at each
//! end of the long link: [`rate_calculation`] where it enters the receiver's datacentre, and [`rate_limiting`] where it leaves
//! the sender's datacentre. Reaction and notification points are those of DCQCN.
//!
//! The paper's variant HPCC* uses [`direct_int`] in place of [`rate_limiting`], and has its own reaction point.

pub mod direct_int;
mod pseudo_queue;
pub mod rate_calculation;
pub mod rate_limiting;

pub use pseudo_queue::FeedbackCounters;
