//! The rates of one flow over time, in bounded memory.

/// Most points that a series keeps.
pub const POINTS: usize = 512;

/// A step function of time: from each point's time on, the rate is the point's.
///
/// When it is full, every second point is removed, and from then on only every second change makes a point; when it is full
/// again, every fourth, and so on. The last change is always kept.
#[derive(Clone, Debug)]
pub struct Series {
    points: Vec<(u64, u32)>,
    last: (u64, u32),
    every: u32,
    skipped: u32,
}

impl Series {
    /// A series that begins with this rate (2^-24 bytes per nanosecond).
    pub fn new(now: u64, rate: u32) -> Self {
        Self { points: vec![(now, rate)], last: (now, rate), every: 1, skipped: 0 }
    }

    /// Records that the rate is `rate` from `now` on. An equal rate makes no point.
    pub fn push(&mut self, now: u64, rate: u32) {
        if self.last.1 == rate {
            return;
        }
        self.last = (now, rate);
        self.skipped += 1;
        if self.skipped < self.every {
            return;
        }
        self.skipped = 0;
        self.points.push(self.last);
        if self.points.len() >= POINTS {
            let mut keep = false;
            self.points.retain(|_| {
                keep = !keep;
                keep
            });
            // The last point has just been removed. It was this many changes after the last point that is left.
            self.skipped = self.every;
            self.every *= 2;
        }
    }

    /// Changes for each point that is kept: 1 until points are removed.
    pub fn every(&self) -> u32 {
        self.every
    }

    /// The rate at this time; `None` before the first point.
    pub fn at(&self, now: u64) -> Option<u32> {
        let behind = self.points.partition_point(|&(time, _)| time <= now);
        if self.last.0 <= now {
            Some(self.last.1)
        } else {
            self.points.get(behind.checked_sub(1)?).map(|&(_, rate)| rate)
        }
    }

    /// The points, in order of time, the last one included.
    pub fn points(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let last = self.points.last().is_none_or(|&point| point != self.last).then_some(self.last);
        self.points.iter().copied().chain(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_keeps_its_ends_and_thins_evenly() {
        let mut series = Series::new(0, 0);
        for step in 1..=100_000 {
            series.push(u64::from(step) * 10, step);
        }
        let points: Vec<_> = series.points().collect();
        assert!(points.len() <= POINTS + 1);
        assert_eq!(points[0], (0, 0));
        assert_eq!(points.last(), Some(&(1_000_000, 100_000)));
        let gaps: Vec<_> = points.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
        assert!(gaps[..gaps.len() - 1].iter().all(|&gap| gap == series.every()), "{gaps:?}");
    }

    #[test]
    fn an_unchanged_rate_makes_no_point() {
        let mut series = Series::new(5, 7);
        series.push(6, 7);
        series.push(9, 7);
        assert_eq!(series.points().collect::<Vec<_>>(), [(5, 7)]);
        series.push(12, 3);
        assert_eq!([4, 5, 11, 12, 99].map(|now| series.at(now)), [None, Some(7), Some(7), Some(3), Some(3)]);
    }
}
