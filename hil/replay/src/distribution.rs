//! Minimum, median, 99th percentile and maximum of any number of samples, in bounded memory.

use serde::Serialize;

/// Buckets for each power of two. The relative error of a quantile is below 1 / STEPS, 1.6 %.
const STEPS: u32 = 64;

/// The four numbers that reports print.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Summary {
    /// The smallest sample.
    pub min: u64,
    /// Half of the samples are at most this.
    pub median: u64,
    /// 99 of 100 samples are at most this.
    pub p99: u64,
    /// The largest sample.
    pub max: u64,
}

impl Summary {
    /// The exact summary of these samples, which it sorts. `None` if there are no samples.
    pub fn of(samples: &mut [u32]) -> Option<Self> {
        samples.sort_unstable();
        let at = |share: usize| samples.get(rank(samples.len(), share)).map(|&sample| u64::from(sample));
        Some(Self { min: at(0)?, median: at(50)?, p99: at(99)?, max: at(100)? })
    }
}

/// Index of the sample that `share` per cent of `count` sorted samples do not exceed (nearest rank).
fn rank(count: usize, share: usize) -> usize {
    (count * share).div_ceil(100).saturating_sub(1)
}

/// A histogram with logarithmic buckets: minimum and maximum are exact, quantiles within 1.6 %.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    buckets: Vec<u64>,
    count: u64,
    min: u64,
    max: u64,
}

impl Distribution {
    /// Adds a sample.
    pub fn add(&mut self, sample: u64) {
        self.min = if self.count == 0 { sample } else { self.min.min(sample) };
        self.max = self.max.max(sample);
        self.count += 1;
        let bucket = bucket(sample);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
    }

    /// Samples added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The summary. `None` if there are no samples.
    pub fn summary(&self) -> Option<Summary> {
        let quantile = |share: u64| {
            let rank = (u128::from(self.count) * u128::from(share)).div_ceil(100) as u64;
            let mut seen = 0;
            let bucket = self.buckets.iter().position(|&count| {
                seen += count;
                seen >= rank
            });
            bucket.map_or(self.max, lower_bound).clamp(self.min, self.max)
        };
        (self.count > 0).then(|| Summary { min: self.min, median: quantile(50), p99: quantile(99), max: self.max })
    }
}

fn bucket(sample: u64) -> usize {
    let shift = sample.checked_ilog2().unwrap_or(0).saturating_sub(STEPS.ilog2());
    (shift * STEPS) as usize + (sample >> shift) as usize
}

fn lower_bound(bucket: usize) -> u64 {
    let shift = (bucket as u32 / STEPS).saturating_sub(1);
    (bucket as u64 - u64::from(shift * STEPS)) << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_within_their_bound(mut samples in prop::collection::vec(any::<u32>(), 1..500)) {
            let mut distribution = Distribution::default();
            samples.iter().for_each(|&sample| distribution.add(sample.into()));
            let exact = Summary::of(&mut samples).unwrap();
            let ours = distribution.summary().unwrap();
            prop_assert_eq!((ours.min, ours.max), (exact.min, exact.max));
            for (ours, exact) in [(ours.median, exact.median), (ours.p99, exact.p99)] {
                prop_assert!(ours <= exact && exact - ours <= exact / u64::from(STEPS) + 1, "{} for {}", ours, exact);
            }
        }

        #[test]
        fn buckets_are_ordered_and_hold_their_lower_bound(sample in any::<u64>()) {
            prop_assert!(lower_bound(bucket(sample)) <= sample);
            prop_assert!(bucket(sample.saturating_add(1)) >= bucket(sample));
            prop_assert_eq!(bucket(lower_bound(bucket(sample))), bucket(sample));
        }
    }

    #[test]
    fn the_summary_of_one_to_a_hundred() {
        let mut samples: Vec<u32> = (1..=100).rev().collect();
        assert_eq!(Summary::of(&mut samples), Some(Summary { min: 1, median: 50, p99: 99, max: 100 }));
        assert_eq!(Summary::of(&mut []), None);
    }
}
