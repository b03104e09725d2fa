//! LSCC: a long link between datacentres as a control segment of its own.
//!
//! M. Long et al., "LSCC: Link-Segmented Congestion Control for RDMA in Cross-Datacenter Networks". Two stages, at the two ends of
//! the long link: [`rate_calculation`] where it enters the receiver's datacentre, and [`rate_limiting`] where it leaves
//! the sender's. Reaction and notification points are DCQCN's.

pub mod rate_calculation;
pub mod rate_limiting;
