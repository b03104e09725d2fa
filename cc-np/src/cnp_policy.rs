//! The class of service of a port's CNPs, and the bound on their rate.

use cc_core::wire::CnpMarking;
use cc_core::{Nanos, Stamp};

cc_core::zeroed! {
    /// The class of service of CNPs, and the bound on those of a whole port.
    ///
    /// The bound is a token bucket of `burst` tokens, one token for a CNP, refilled by one token each `interval`: in any time T
    /// the port sends at most `burst + T / interval` CNPs, for any number of flows, and however often records are evicted.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct CnpPolicy {
        marking: CnpMarking,
        interval: Nanos,
        /// How far the bucket may be ahead of the clock: `(burst - 1) * interval`.
        tolerance: Nanos,
    }
}

impl CnpPolicy {
    /// CNPs with this `marking`: at most one each `interval` on average (zero: no bound), and at most `burst` back to back
    /// after an idle time.
    pub const fn new(marking: CnpMarking, interval: Nanos, burst: u32) -> Self {
        let tolerance = Nanos::new(burst.saturating_sub(1).saturating_mul(interval.get()));
        Self { marking, interval, tolerance }
    }

    /// DSCP, priority and ECN bits of a CNP.
    #[inline]
    pub const fn marking(&self) -> CnpMarking {
        self.marking
    }
}

/// The port's token bucket, kept as the time at which it will be full (the virtual scheduling form of ITU-T I.371's generic
/// cell rate algorithm): a CNP needs one comparison and one addition, and no division.
///
/// A full bucket holds the time of the last [`TokenBucket::advance`], which must be called at least once a second, so that the
/// 32-bit stamp stays within its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TokenBucket(Stamp);

impl TokenBucket {
    pub(crate) const fn full(now: Stamp) -> Self {
        Self(now)
    }

    /// Refills the bucket up to `now`. Called before [`TokenBucket::admits`], and in every sweep.
    #[inline]
    pub(crate) fn advance(&mut self, now: Stamp) {
        if self.0.is_due(now) {
            self.0 = now;
        }
    }

    /// Whether there is a token left, after [`TokenBucket::advance`].
    #[inline]
    pub(crate) fn admits(self, now: Stamp, cnp_policy: &CnpPolicy) -> bool {
        self.0.since(now) <= cnp_policy.tolerance
    }

    /// Takes one token.
    #[inline]
    pub(crate) fn take(&mut self, cnp_policy: &CnpPolicy) {
        self.0 = self.0.after(cnp_policy.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::Instant;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn admitted(bucket: &mut TokenBucket, cnp_policy: &CnpPolicy, now: u64) -> bool {
        let now = Instant::from_nanos(now).stamp();
        bucket.advance(now);
        let admits = bucket.admits(now, cnp_policy);
        if admits {
            bucket.take(cnp_policy);
        }
        admits
    }

    proptest! {
        #[test]
        fn a_time_t_admits_at_most_burst_plus_t_over_interval(
            start: u32,
            interval in 0..2_000_u32,
            burst in 1..20_u32,
            gaps in prop::collection::vec(0..3_000_u64, 1..200),
        ) {
            let cnp_policy = CnpPolicy::new(CnpMarking::default(), Nanos::new(interval), burst);
            let mut bucket = TokenBucket::full(Stamp::from_bits(start));
            let mut now = u64::from(start);
            let (mut times, mut refused) = (Vec::new(), 0);
            for gap in gaps {
                now += gap;
                if admitted(&mut bucket, &cnp_policy, now) {
                    times.push(now);
                } else {
                    refused += 1;
                }
            }
            if interval == 0 {
                prop_assert_eq!(refused, 0);
                return Ok(());
            }
            for (first, start) in times.iter().enumerate() {
                for (last, end) in times.iter().enumerate().skip(first) {
                    prop_assert!(((last - first) as u64) < u64::from(burst) + (end - start) / u64::from(interval));
                }
            }
        }
    }

    #[test]
    fn an_idle_time_fills_the_bucket_to_the_burst_and_no_further() {
        let cnp_policy = CnpPolicy::new(CnpMarking::default(), Nanos::new(1_000), 3);
        let mut bucket = TokenBucket::full(Stamp::from_bits(0));
        for second in 0..10_u64 {
            let now = second * 1_000_000_000;
            assert_eq!((0..10).filter(|_| admitted(&mut bucket, &cnp_policy, now)).count(), 3);
        }
    }
}
