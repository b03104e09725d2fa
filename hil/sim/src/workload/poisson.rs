//! Flows that arrive as a Poisson process: independent of each other, at a mean rate.

use super::{Cdf, HostFlow, stream};
use crate::Picos;
use hil_cores::random::SplitMix;

/// Flows that arrive at random, of random sizes, between random hosts.
#[derive(Clone, Copy, Debug)]
pub struct Poisson<'a> {
    /// The distribution of their sizes.
    pub sizes: &'a Cdf,
    /// The mean rate of all of them together, by bytes of payload, as a fraction of `reference`; above zero.
    pub load: f64,
    /// In bits per second: the rate of a link that all of them pass, or the sum of those of the senders' links.
    pub reference: u64,
    /// Each host that sends, with the rate of its link, in proportion to which it sends.
    pub senders: &'a [(u32, u64)],
    /// The hosts that receive, in ascending order.
    pub receivers: &'a [u32],
    /// When they begin to arrive.
    pub start: Picos,
    /// When they end.
    pub limit: Limit,
}

/// The end of arrivals.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// So much time after the first could arrive.
    Duration(Picos),
    /// After this many.
    Flows(u64),
}

impl Poisson<'_> {
    /// The mean time between two flows, in picoseconds.
    fn mean_gap(&self) -> f64 {
        self.sizes.mean() * 8e12 / (self.load * self.reference as f64)
    }

    /// How many flows there are in the mean.
    pub fn expected(&self) -> f64 {
        match self.limit {
            Limit::Duration(duration) => duration as f64 / self.mean_gap(),
            Limit::Flows(count) => count as f64,
        }
    }

    /// The flows in the order in which they arrive. The destination of each is drawn uniformly from the receivers that are not its
    /// source; if a host can send only to itself, there are none.
    pub fn flows(&self, seed: u64) -> Vec<HostFlow> {
        let Self { sizes, senders, receivers, start, limit, .. } = *self;
        let before: Vec<u64> = senders
            .iter()
            .scan(0, |sum, (_, rate)| {
                *sum += rate;
                Some(*sum)
            })
            .collect();
        let others: Vec<u32> = senders
            .iter()
            .map(|(host, _)| receivers.len() as u32 - u32::from(receivers.binary_search(host).is_ok()))
            .collect();
        let (Some(&all @ 1..), false) = (before.last(), others.contains(&0)) else { return Vec::new() };
        let mean_gap = (self.mean_gap().round() as u64).max(1);
        let streams = ["gap", "source", "destination", "size"].map(|purpose| stream(seed, purpose));
        let [mut gaps, mut sources, mut destinations, mut draws] = streams;
        let (mut flows, mut now) = (Vec::new(), start);
        loop {
            now = now.saturating_add(exponential(&mut gaps, mean_gap));
            let ends = match limit {
                Limit::Duration(duration) => now >= start.saturating_add(duration),
                Limit::Flows(count) => flows.len() as u64 >= count,
            };
            if ends {
                return flows;
            }
            let point = ((u128::from(sources.draw()) * u128::from(all)) >> 64) as u64;
            let sender = before.partition_point(|&sum| sum <= point);
            let source = senders[sender].0;
            let other = destinations.below(others[sender]) as usize;
            let own = receivers.binary_search(&source).unwrap_or(usize::MAX);
            let destination = receivers[other + usize::from(other >= own)];
            flows.push(HostFlow { source, destination, bytes: sizes.draw(&mut draws), start: now });
        }
    }
}

/// A number drawn from the exponential distribution with this mean, rounded down: von Neumann's method ("Various techniques used in
/// connection with random digits", 1951), which only compares integers, so that it draws the same on every machine. The fraction
/// is the first of numbers that fall until one rises, if the number that fall is odd; each failure adds one to the whole part.
fn exponential(random: &mut SplitMix, mean: u64) -> u64 {
    for whole in 0u128.. {
        let first = random.draw();
        let (mut last, mut falling) = (first, 1u32);
        loop {
            let next = random.draw();
            if next >= last {
                break;
            }
            (last, falling) = (next, falling + 1);
        }
        if falling % 2 == 1 {
            return ((whole << 64 | u128::from(first)).saturating_mul(mean.into()) >> 64) as u64;
        }
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    /// The exponential distribution has mean and standard deviation 1, and exceeds x with probability exp(-x): each within 4
    /// standard errors of 100,000 draws. The variance of the sample variance is 8 / n.
    #[test]
    fn gaps_are_exponential() {
        let mut random = SplitMix::new(7);
        let (count, scale) = (100_000, 1u64 << 40);
        let gaps: Vec<f64> = (0..count).map(|_| exponential(&mut random, scale) as f64 / scale as f64).collect();
        let root = f64::from(count).sqrt();
        let mean = gaps.iter().sum::<f64>() / f64::from(count);
        assert!((mean - 1.0).abs() < 4.0 / root, "{mean}");
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / f64::from(count);
        assert!((variance - 1.0).abs() < 4.0 * 8f64.sqrt() / root, "{variance}");
        for x in [0.1, 0.5, 1.0, 2.0, 3.0, 5.0] {
            let above = gaps.iter().filter(|&&gap| gap > x).count() as f64 / f64::from(count);
            let share = (-x).exp();
            assert!((above - share).abs() < 4.0 * (share * (1.0 - share)).sqrt() / root, "{x}: {above}");
        }
    }

    /// Ten hosts at 100 Gb/s, a load of 0.5 and flows of 1,000 to 9,000 bytes, 5,000 in the mean: 1.25 million flows per second and
    /// host. In 1 ms all hosts begin 12,500, within 4 sqrt(n); bytes within 4 sqrt(n E[s^2]), with E[s^2] = 5,000^2 + 8,000^2 / 12. Each
    /// host sends a tenth, and each of the others receives a ninth of that, within 4 standard deviations.
    #[test]
    fn the_load_is_the_one_that_was_asked_for() {
        let sizes = Cdf::of(&Source::of("sizes.txt", "1000 0\n9000 1")).unwrap();
        let (senders, receivers) =
            ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(|host| (host, 100_000_000_000)), Vec::from_iter(0..10));
        let poisson = Poisson {
            sizes: &sizes,
            load: 0.5,
            reference: 1_000_000_000_000,
            senders: &senders,
            receivers: &receivers,
            start: 5,
            limit: Limit::Duration(1_000_000_000),
        };
        let flows = poisson.flows(3);
        let n = 12_500.0f64;
        assert!((flows.len() as f64 - n).abs() < 4.0 * n.sqrt(), "{}", flows.len());
        let bytes = flows.iter().map(|flow| flow.bytes).sum::<u64>() as f64;
        let square: f64 = 5_000f64.powi(2) + 8_000f64.powi(2) / 12.0;
        let offered = 0.5 * 1e12 / 8.0 * 1e-3;
        assert!((bytes - offered).abs() < 4.0 * (n * square).sqrt(), "{bytes} of {offered}");
        for host in 0..10 {
            let sent = flows.iter().filter(|flow| flow.source == host).count() as f64;
            let received = flows.iter().filter(|flow| flow.destination == host).count() as f64;
            assert!((sent - n / 10.0).abs() < 4.0 * (n / 10.0).sqrt(), "{host} sends {sent}");
            assert!((received - n / 10.0).abs() < 4.0 * (n / 10.0).sqrt(), "{host} receives {received}");
        }
        assert!(flows.iter().all(|flow| flow.source != flow.destination && flow.start > 5));
        assert!(flows.is_sorted_by_key(|flow| flow.start));
        assert_eq!(flows, poisson.flows(3));
        assert_ne!(flows, poisson.flows(4));
        assert_eq!(Poisson { limit: Limit::Flows(10), ..poisson }.flows(3), flows[..10]);
    }

    /// A host with a link of three times the rate sends three times as often.
    #[test]
    fn hosts_send_in_proportion_to_their_links() {
        let sizes = Cdf::of(&Source::of("sizes.txt", "1000 0\n1000 1")).unwrap();
        let senders = [(0, 100_000_000_000), (1, 300_000_000_000)];
        let poisson = Poisson {
            sizes: &sizes,
            load: 0.1,
            reference: 400_000_000_000,
            senders: &senders,
            receivers: &[0, 1],
            start: 0,
            limit: Limit::Flows(40_000),
        };
        let sent = poisson.flows(1).iter().filter(|flow| flow.source == 1).count() as f64;
        assert!((sent - 30_000.0).abs() < 4.0 * (40_000.0f64 * 0.75 * 0.25).sqrt(), "{sent}");
    }

    /// Three hosts send to two others, of which one also sends: the rate is that share of the reference, which is no host's, within 3
    /// standard errors of the bytes, sqrt(n E[s^2]); and each source reaches each receiver but itself.
    #[test]
    fn the_load_is_a_share_of_the_reference() {
        let sizes = Cdf::of(&Source::of("sizes.txt", "1000 0\n9000 1")).unwrap();
        let poisson = Poisson {
            sizes: &sizes,
            load: 0.2,
            reference: 400_000_000_000,
            senders: &[(2, 100_000_000_000), (5, 100_000_000_000), (8, 100_000_000_000)],
            receivers: &[5, 9],
            start: 0,
            limit: Limit::Duration(10_000_000_000),
        };
        for seed in 0..10 {
            let flows = poisson.flows(seed);
            let bytes = flows.iter().map(|flow| flow.bytes).sum::<u64>() as f64;
            let square: f64 = 5_000f64.powi(2) + 8_000f64.powi(2) / 12.0;
            let error = (flows.len() as f64 * square).sqrt() * 8.0 / 10e-3;
            assert!((bytes * 8.0 / 10e-3 - 0.2 * 400e9).abs() < 3.0 * error, "seed {seed}: {bytes}");
            let mut pairs: Vec<_> = flows.iter().map(|flow| (flow.source, flow.destination)).collect();
            pairs.sort_unstable();
            pairs.dedup();
            assert_eq!(pairs, [(2, 5), (2, 9), (5, 9), (8, 5), (8, 9)]);
        }
        assert!(Poisson { receivers: &[5], ..poisson }.flows(1).is_empty());
    }
}
