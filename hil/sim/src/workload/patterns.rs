//! Flows of one size between chosen hosts.

use super::{HostFlow, stream};
use crate::Picos;

/// A flow from each host to the next, and from the last to the first.
pub fn next(hosts: u32, bytes: u64, start: Picos) -> Vec<HostFlow> {
    (0..hosts).map(|source| HostFlow { source, destination: (source + 1) % hosts, bytes, start }).collect()
}

/// A flow from each host to another, each of which receives one: a random permutation in one cycle (Sattolo, "An algorithm to
/// generate a random cyclic permutation", Information Processing Letters 22, 1986).
pub fn permutation(hosts: u32, bytes: u64, start: Picos, seed: u64) -> Vec<HostFlow> {
    let mut random = stream(seed, "permutation");
    let mut to: Vec<u32> = (0..hosts).collect();
    for last in (1..hosts).rev() {
        to.swap(last as usize, random.below(last) as usize);
    }
    (0..hosts).zip(to).map(|(source, destination)| HostFlow { source, destination, bytes, start }).collect()
}

/// A flow from each sender to one receiver. They begin at times drawn uniformly from `spread` after `start`.
pub fn incast(senders: &[u32], receiver: u32, bytes: u64, start: Picos, spread: Picos, seed: u64) -> Vec<HostFlow> {
    let mut random = stream(seed, "start");
    senders
        .iter()
        .map(|&source| {
            let after = ((u128::from(random.draw()) * u128::from(spread)) >> 64) as Picos;
            HostFlow { source, destination: receiver, bytes, start: start + after }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_leaves_no_host_out_and_none_to_itself() {
        for seed in 0..20 {
            let flows = permutation(17, 1, 0, seed);
            assert!(flows.iter().all(|flow| flow.source != flow.destination));
            let mut reached: Vec<u32> = flows.iter().map(|flow| flow.destination).collect();
            reached.sort_unstable();
            assert!(reached.into_iter().eq(0..17));
        }
        assert_ne!(permutation(17, 1, 0, 1), permutation(17, 1, 0, 2));
    }

    #[test]
    fn the_last_host_sends_to_the_first() {
        let pairs: Vec<(u32, u32)> = next(3, 5, 7).iter().map(|flow| (flow.source, flow.destination)).collect();
        assert_eq!(pairs, [(0, 1), (1, 2), (2, 0)]);
    }

    /// The mean of 1,000 uniform starts is within 4 standard errors of 1,000 / sqrt(12 x 1,000) = 9.1 of the middle.
    #[test]
    fn an_incast_starts_within_its_spread() {
        let senders: Vec<u32> = (1..1_001).collect();
        let starts: Vec<u64> = incast(&senders, 0, 1, 500, 1_000, 1).iter().map(|flow| flow.start).collect();
        assert!(starts.iter().all(|start| (500..1_500).contains(start)));
        let mean = starts.iter().sum::<u64>() as f64 / 1e3;
        assert!((mean - 1_000.0).abs() < 4.0 * 9.1, "{mean}");
        assert!(incast(&senders, 0, 1, 500, 0, 1).iter().all(|flow| flow.start == 500));
    }
}
