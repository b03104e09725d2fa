//! Workloads: flows between hosts, which are numbered from zero. A workload knows no network, only how many hosts there are and
//! how fast each can send.

mod cdf;
mod collectives;
mod patterns;
mod poisson;
mod rounds;

pub use cdf::Cdf;
pub use collectives::{all_to_all, repeated, ring_all_reduce, tree_all_reduce};
pub use patterns::{incast, next, permutation, spread, stagger};
pub use poisson::{Limit, Poisson};
pub use rounds::Rounds;

use crate::Picos;
use crate::dependencies::Wait;
use hil_cores::random::SplitMix;

/// A flow between two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostFlow {
    /// The host that sends.
    pub source: u32,
    /// The host that receives, another one.
    pub destination: u32,
    /// Bytes of payload.
    pub bytes: u64,
    /// When it begins, or, if it waits for others, how long after the last milestone that it needs.
    pub start: Picos,
}

/// Flows of which some wait for others.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct HostFlows {
    /// The flows.
    pub flows: Vec<HostFlow>,
    /// What they wait for, by their numbers in `flows`.
    pub waits: Vec<Wait>,
    /// Every second flow, from the first on, is the request that the one behind it answers.
    pub has_requests: bool,
    /// All of them are RDMA READs by their receivers, and not SENDs.
    pub are_reads: bool,
    /// When the applications of all of them stop, if they do.
    pub stop: Option<Picos>,
}

impl HostFlows {
    /// Whether the flow with this number is a request.
    pub const fn is_request(&self, flow: u32) -> bool {
        self.has_requests && flow.is_multiple_of(2)
    }
}

impl From<Vec<HostFlow>> for HostFlows {
    /// Flows that wait for nothing.
    fn from(flows: Vec<HostFlow>) -> Self {
        Self { flows, ..Self::default() }
    }
}

/// The random numbers for a purpose: each purpose of a seed has a sequence of its own, so that what one draws changes no other.
pub fn stream(seed: u64, purpose: &str) -> SplitMix {
    let hash =
        purpose.bytes().fold(SplitMix::new(seed).draw(), |hash, byte| SplitMix::new(hash ^ u64::from(byte)).draw());
    SplitMix::new(hash)
}
