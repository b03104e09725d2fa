//! Flows of one size between chosen hosts, and when flows begin.

use super::{HostFlow, stream};
use crate::Picos;

/// A flow from each host to the next, and from the last to the first.
pub fn next(hosts: &[u32], bytes: u64, start: Picos) -> Vec<HostFlow> {
    let to = hosts.iter().cycle().skip(1);
    hosts.iter().zip(to).map(|(&source, &destination)| HostFlow { source, destination, bytes, start }).collect()
}

/// A flow from each host to another, each of which receives one: a random permutation in one cycle (Sattolo, "An algorithm to
/// generate a random cyclic permutation", Information Processing Letters 22, 1986).
pub fn permutation(hosts: &[u32], bytes: u64, start: Picos, seed: u64) -> Vec<HostFlow> {
    let mut random = stream(seed, "permutation");
    let mut to = hosts.to_vec();
    for last in (1..hosts.len()).rev() {
        to.swap(last, random.below(last as u32) as usize);
    }
    hosts.iter().zip(to).map(|(&source, destination)| HostFlow { source, destination, bytes, start }).collect()
}

/// A flow from each sender to one receiver.
pub fn incast(senders: &[u32], receiver: u32, bytes: u64, start: Picos) -> Vec<HostFlow> {
    senders.iter().map(|&source| HostFlow { source, destination: receiver, bytes, start }).collect()
}

/// Delays the start of each flow by a time drawn uniformly from `range`.
pub fn spread(flows: &mut [HostFlow], range: Picos, seed: u64) {
    let mut random = stream(seed, "start");
    for flow in flows {
        flow.start += ((u128::from(random.draw()) * u128::from(range)) >> 64) as Picos;
    }
}

/// Delays the start of each flow by `step` more than that of the flow before it.
pub fn stagger(flows: &mut [HostFlow], step: Picos) {
    for (number, flow) in (0u64..).zip(flows) {
        flow.start = flow.start.saturating_add(number.saturating_mul(step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_leaves_no_host_out_and_none_to_itself() {
        let hosts: Vec<u32> = (3..20).collect();
        for seed in 0..20 {
            let flows = permutation(&hosts, 1, 0, seed);
            assert!(flows.iter().all(|flow| flow.source != flow.destination));
            let mut reached: Vec<u32> = flows.iter().map(|flow| flow.destination).collect();
            reached.sort_unstable();
            assert_eq!(reached, hosts);
        }
        assert_ne!(permutation(&hosts, 1, 0, 1), permutation(&hosts, 1, 0, 2));
    }

    #[test]
    fn the_last_host_sends_to_the_first() {
        let pairs: Vec<_> = next(&[0, 1, 7], 5, 7).iter().map(|flow| (flow.source, flow.destination)).collect();
        assert_eq!(pairs, [(0, 1), (1, 7), (7, 0)]);
    }

    /// The mean of 1,000 uniform starts is within 4 standard errors of 1,000 / sqrt(12 x 1,000) = 9.1 of the middle.
    #[test]
    fn flows_begin_within_their_spread_or_a_step_apart() {
        let senders: Vec<u32> = (1..1_001).collect();
        let together = incast(&senders, 0, 1, 500);
        assert!(together.iter().all(|flow| flow.start == 500));
        let mut flows = together.clone();
        spread(&mut flows, 1_000, 1);
        assert!(flows.iter().all(|flow| (500..1_500).contains(&flow.start)));
        let mean = flows.iter().map(|flow| flow.start).sum::<u64>() as f64 / 1e3;
        assert!((mean - 1_000.0).abs() < 4.0 * 9.1, "{mean}");
        let mut flows = together;
        stagger(&mut flows, 30);
        assert_eq!((flows[0].start, flows[999].start), (500, 500 + 999 * 30));
    }
}
