//! Workloads: flows between hosts, which are numbered from zero. A workload knows no network, only how many hosts there are and
//! how fast each can send.

mod cdf;
mod patterns;
mod poisson;

pub use cdf::Cdf;
pub use patterns::{incast, next, permutation};
pub use poisson::{Limit, Poisson};

use crate::Picos;
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
    /// When it begins.
    pub start: Picos,
}

/// The random numbers for a purpose: each purpose of a seed has a sequence of its own, so that what one draws changes no other.
pub fn stream(seed: u64, purpose: &str) -> SplitMix {
    let hash =
        purpose.bytes().fold(SplitMix::new(seed).draw(), |hash, byte| SplitMix::new(hash ^ u64::from(byte)).draw());
    SplitMix::new(hash)
}
