//! LSCC: a long link between datacentres as a control segment of its own.
//!
//! M. Long et al., "LSCC: Link-Segmented Congestion Control for RDMA in Cross-Datacenter Networks". Two stages, at the two ends
//! of the long link: [`rate_calculation`] where it enters the receiver's datacentre, and [`rate_limiting`] where it leaves
//! the sender's. Reaction and notification points are DCQCN's.
//!
//! The paper's HPCC* has [`direct_int`] in place of the second, and a reaction point of its own.

pub mod direct_int;
mod pseudo_queue;
pub mod rate_calculation;
pub mod rate_limiting;

pub use pseudo_queue::FeedbackCounters;
