//! Distributions of flow sizes, as files of the field have them: lines of a size in bytes and the share of flows that are no larger,
//! per cent or as a fraction.

use crate::source::Source;
use anyhow::{Result, ensure};
use hil_cores::random::SplitMix;
use std::path::Path;

/// A distribution of flow sizes: points between which sizes are interpolated linearly.
#[derive(Clone, Debug)]
pub struct Cdf {
    /// Sizes in bytes, and shares from 0 to 1, both ascending.
    points: Vec<(f64, f64)>,
}

impl Cdf {
    /// Reads a file. If its last share is 100, shares are per cent; if it is 1, they are fractions.
    ///
    /// # Errors
    /// A file that cannot be read, or is no such table; with line and place.
    pub fn read(path: &Path) -> Result<Self> {
        Self::of(&Source::read(path)?)
    }

    pub(crate) fn of(source: &Source) -> Result<Self> {
        let mut words = source.words_without_comments();
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut last = 0..0;
        while words.clone().next().is_some() {
            let (size, share) = points.last().copied().unwrap_or((0.0, 0.0));
            let from = |least: f64, most: f64| {
                move |text: &str| text.parse().ok().filter(|value: &f64| (least..=most).contains(value))
            };
            let size = words.read("a size in bytes, at most 1e15 and not below the one above", from(size, 1e15))?;
            last = words.clone().next().map_or(last, |word| word.at);
            let what = "the share of flows up to this size, at most 100 and not below the one above";
            points.push((size, words.read(what, from(share, 100.0))?));
        }
        let whole = points.last().map_or(0.0, |&(_, share)| share);
        if whole != 1.0 && whole != 100.0 {
            return Err(source.error(&last, "expected 100 or 1 as the last share: per cent, or a fraction"));
        }
        points.iter_mut().for_each(|point| point.1 /= whole);
        let cdf = Self { points };
        ensure!(cdf.mean() > 0.0, source.note(&last, "all sizes are zero: expected some above"));
        Ok(cdf)
    }

    /// The size below which a share of the flows is, in bytes. Shares below the first point have its size.
    pub fn quantile(&self, share: f64) -> f64 {
        let after = self.points.partition_point(|&(_, other)| other < share);
        let Some(&(size, at)) = self.points.get(after).or(self.points.last()) else { return 0.0 };
        match after.checked_sub(1).and_then(|before| self.points.get(before)) {
            Some(&(below, from)) if at > from => below + (size - below) * ((share - from) / (at - from)).min(1.0),
            _ => size,
        }
    }

    /// The mean size in bytes.
    pub fn mean(&self) -> f64 {
        let first = self.points.first().map_or(0.0, |&(size, share)| size * share);
        let between = self.points.windows(2).map(|pair| (pair[1].1 - pair[0].1) * (pair[0].0 + pair[1].0) / 2.0);
        first + between.sum::<f64>()
    }

    /// A size, in whole bytes and at least one.
    pub fn draw(&self, random: &mut SplitMix) -> u64 {
        let share = (random.draw() >> 11) as f64 / (1u64 << 53) as f64;
        (self.quantile(share) as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A distribution with a step: 20 % of the flows have exactly 300 bytes.
    const STEPS: &str = "100 0\n300 0.1\n300 0.3\n900 0.3\n1000 1";

    fn cdf(text: &str) -> Result<Cdf> {
        Cdf::of(&Source::of("sizes.txt", text))
    }

    #[test]
    fn per_cent_and_fractions_are_told_apart_by_the_last_share() {
        let (fraction, percent) = (cdf("0 0\n1000 1").unwrap(), cdf("0 0\n1000 100.0").unwrap());
        for share in [0.0, 0.25, 0.5, 1.0] {
            assert_eq!(fraction.quantile(share), 1_000.0 * share);
            assert_eq!(percent.quantile(share), 1_000.0 * share);
        }
        assert_eq!((fraction.mean(), percent.mean()), (500.0, 500.0));
    }

    #[test]
    fn a_step_is_one_size_and_no_flow_has_a_size_between_flat_points() {
        let steps = cdf(STEPS).unwrap();
        for (share, size) in [(0.0, 100.0), (0.05, 200.0), (0.1, 300.0), (0.2, 300.0), (0.3, 300.0), (1.0, 1_000.0)] {
            assert!((steps.quantile(share) - size).abs() < 1e-9, "{share}: {}", steps.quantile(share));
        }
        assert!(steps.quantile(0.300_001) >= 900.0);
        assert!((steps.mean() - (0.1 * 200.0 + 0.2 * 300.0 + 0.7 * 950.0)).abs() < 1e-9);
        // A first share above zero belongs to the first size.
        assert_eq!(cdf("500 40\n1000 100").unwrap().quantile(0.3), 500.0);
    }

    /// The share of n draws up to a point's size is within 4 sqrt(p (1 - p) / n) of the point's share p, and so is the mean within
    /// 4 standard errors of [`Cdf::mean`]: the mean of the web search distribution is stated as 1.7 MB (Alizadeh et al., "Data
    /// Center TCP (DCTCP)", SIGCOMM 2010, Fig. 4).
    #[test]
    fn draws_have_the_quantiles_of_the_distribution() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/websearch.txt");
        let websearch = Cdf::read(&path).unwrap();
        assert_eq!(websearch.mean().round(), 1_711_250.0);
        let mut random = SplitMix::new(1);
        let count = 100_000;
        let sizes: Vec<u64> = (0..count).map(|_| websearch.draw(&mut random)).collect();
        for &(size, share) in &websearch.points {
            let below = sizes.iter().filter(|&&drawn| (drawn as f64) < size).count() as f64 / f64::from(count);
            let bound = 4.0 * (share * (1.0 - share) / f64::from(count)).sqrt();
            assert!((below - share).abs() <= bound + 1e-4, "{size}: {below} for {share}");
        }
        let mean = sizes.iter().sum::<u64>() as f64 / f64::from(count);
        let squares = sizes.iter().map(|&size| (size as f64 - mean).powi(2)).sum::<f64>();
        let error = (squares / f64::from(count)).sqrt() / f64::from(count).sqrt();
        assert!((mean - websearch.mean()).abs() < 4.0 * error, "{mean}");
    }

    #[test]
    fn what_is_no_distribution_is_refused_with_its_place() {
        for (text, shown) in [
            ("0 0\n10 50\n5 100\n", "sizes.txt:3:1"),
            ("0 0\n10 50\n20 40\n30 100", "sizes.txt:3:4"),
            ("0 0\n10 many\n", "not `many`"),
            ("0 0\n10 50\n", "expected 100 or 1 as the last share"),
            ("0 0\n10\n", "the file ends here"),
            ("0 0\n10 NaN\n", "not `NaN`"),
            ("", "expected 100 or 1"),
            ("0 0\n0 1\n", "all sizes are zero"),
        ] {
            let error = cdf(text).unwrap_err().to_string();
            assert!(error.contains(shown) && error.contains("sizes.txt"), "{text}: {error}");
        }
    }
}
