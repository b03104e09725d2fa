//! What has come of a sweep: how far it is, the table of all points, and the Pareto front of two values.

use crate::grid::Grid;
use crate::plan::{self, Plan, described};
use crate::run::{self, Outcome, pace, read};
use anyhow::{Context, Result, ensure};
use hil_sim::plot::{self, Front};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// The results of a sweep, by points.
#[derive(Debug)]
pub struct Results {
    plan: Plan,
    outcomes: Vec<Option<Outcome>>,
    /// The time from the first to the last result in seconds, and how many there are.
    pace: Option<(f64, usize)>,
}

impl Results {
    /// Reads the results in the folder of a sweep. A damaged one counts as missing.
    ///
    /// # Errors
    /// There is no plan.
    pub fn read(folder: &Path) -> Result<Self> {
        let plan = Plan::load(folder)?;
        let outcomes = (0..plan.points.len()).map(|number| read(folder, &plan, number)).collect();
        Ok(Self { outcomes, pace: pace(folder), plan })
    }

    /// The files that the sweep in this folder is made of, which no output may replace: plan, grid, the scenarios of its points and what
    /// these name, as far as they can be read, and results.
    pub fn files(&self, folder: &Path) -> Vec<PathBuf> {
        let mut files = vec![plan::file(folder), self.plan.grid.clone()];
        files.extend((0..self.outcomes.len()).map(|number| run::path(folder, number)));
        if let Ok(grid) = Grid::read(&self.plan.grid) {
            files.extend(grid.points().iter().filter_map(|point| grid.input(point).ok()).flat_map(|input| input.files));
        }
        files
    }

    fn missing(&self) -> Vec<usize> {
        let outcomes = self.outcomes.iter().enumerate();
        outcomes.filter(|(_, outcome)| outcome.is_none()).map(|(number, _)| number).collect()
    }

    fn failed(&self) -> Vec<(usize, &str)> {
        let failed = self.outcomes.iter().enumerate().filter_map(|(number, outcome)| match outcome {
            Some(Outcome::Error(error)) => Some((number, error.as_str())),
            _ => None,
        });
        failed.collect()
    }

    /// The points with values, in their order.
    fn finished(&self) -> impl Iterator<Item = (usize, &[String], &[String])> {
        let all = self.plan.points.iter().zip(&self.outcomes).enumerate();
        all.filter_map(|(number, (point, outcome))| match outcome {
            Some(Outcome::Values(values)) => Some((number, point.cells.as_slice(), values.as_slice())),
            _ => None,
        })
    }

    /// The table of all points as CSV: number, what differs between points, and the values.
    ///
    /// # Errors
    /// Points are missing or have failed, unless `partial` says that they may be left out.
    pub fn csv(&self, partial: bool) -> Result<String> {
        let (missing, failed) = (self.missing(), self.failed());
        let failed: Vec<usize> = failed.into_iter().map(|(number, _)| number).collect();
        ensure!(
            partial || missing.is_empty() && failed.is_empty(),
            "points are missing: {}; and have failed: {}: run them, see hil sweep status, or give --partial",
            ranges(&missing),
            ranges(&failed)
        );
        let Plan { columns, values, .. } = &self.plan;
        let mut text = line("point", columns, values);
        text.extend(self.finished().map(|(number, cells, values)| line(&number.to_string(), cells, values)));
        Ok(text)
    }

    /// The Pareto front of two values that are to be low, as SVG, and its points in words. Each dot is the mean over the seeds of a
    /// point.
    ///
    /// # Errors
    /// A value that the sweep does not keep; no point that has both as numbers.
    pub fn front(&self, names: Option<(&str, &str)>) -> Result<(String, String)> {
        let Plan { columns, values, .. } = &self.plan;
        let first_two = || Some((values.first()?.as_str(), values.get(1)?.as_str()));
        let names = names.or_else(first_two).context("the sweep keeps one value only: expected two")?;
        let names: [&str; 2] = names.into();
        let place = |name| {
            let found = values.iter().position(|value| value == name);
            found.with_context(|| format!("`{name}`: is not kept: expected two of {}", values.join(", ")))
        };
        let [x, y] = [place(names[0])?, place(names[1])?];
        let mut sums = BTreeMap::<(usize, &[String]), (f64, f64, f64)>::new();
        let mut order = BTreeMap::<&[String], usize>::new();
        for (number, cells, values) in self.finished() {
            let settings = &cells[..cells.len() - 1];
            if let (Ok(x), Ok(y)) = (values[x].parse::<f64>(), values[y].parse::<f64>()) {
                let first = *order.entry(settings).or_insert(number);
                let (sum_x, sum_y, count) = sums.entry((first, settings)).or_default();
                (*sum_x, *sum_y, *count) = (*sum_x + x, *sum_y + y, *count + 1.0);
            }
        }
        ensure!(!sums.is_empty(), "no finished point has `{}` and `{}` as numbers", names[0], names[1]);
        let dots: Vec<(f64, f64)> = sums.values().map(|(x, y, count)| (x / count, y / count)).collect();
        let settings: Vec<&[String]> = sums.keys().map(|(_, settings)| *settings).collect();
        let front = pareto(&dots);
        let columns = &columns[..columns.len() - 1];
        let mut text =
            format!("Pareto front, {} of {} settings: {}, {}\n", front.len(), dots.len(), names[0], names[1]);
        for (&number, place) in front.iter().zip(1..) {
            let (x, y) = dots[number];
            let [x, y] = [x, y].map(|value| (value * 1e3).round() / 1e3);
            text += &format!("{place:3}  {x:<12} {y:<12} {}\n", described(columns, settings[number]));
        }
        let svg = plot::front(&Front {
            labels: names,
            varied: columns,
            dots: &dots,
            names: &settings.iter().map(|cells| cells.join(", ")).collect::<Vec<_>>(),
            front: &front,
        });
        Ok((svg, text))
    }
}

/// The dots that are lower than every other in one of both values, by the first; of equal ones one.
fn pareto(dots: &[(f64, f64)]) -> Vec<usize> {
    let mut ascending: Vec<usize> = (0..dots.len()).collect();
    ascending.sort_by(|&a, &b| dots[a].0.total_cmp(&dots[b].0).then(dots[a].1.total_cmp(&dots[b].1)));
    let mut lowest = f64::INFINITY;
    ascending.retain(|&number| {
        let is_lower = dots[number].1 < lowest;
        lowest = lowest.min(dots[number].1);
        is_lower
    });
    ascending
}

/// Failed points whose errors are shown.
const SHOWN: usize = 20;

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, missing, failed) = (self.plan.points(), self.missing(), self.failed());
        let finished = all - missing.len() - failed.len();
        write!(f, "{all} points: {finished} finished, {} failed, {} missing", failed.len(), missing.len())?;
        if !missing.is_empty() {
            write!(f, ": {}", ranges(&missing))?;
            if let Some((seconds, count)) = self.pace.filter(|(_, count)| *count > 1) {
                let left = seconds / (count - 1) as f64 * missing.len() as f64;
                write!(f, "\nabout {left:.0} s left at the mean pace of the results that are there")?;
            }
        }
        for (number, error) in failed.iter().take(SHOWN) {
            let cells = described(&self.plan.columns, &self.plan.points[*number].cells);
            write!(f, "\npoint {number} ({cells}): {error}")?;
        }
        if failed.len() > SHOWN { write!(f, "\nand {} more", failed.len() - SHOWN) } else { Ok(()) }
    }
}

/// Ascending numbers in words: `3-7, 9`.
fn ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<[usize; 2]> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some([_, last]) if *last + 1 == number => *last = number,
            _ => ranges.push([number; 2]),
        }
    }
    let word = |[first, last]: &[usize; 2]| if first == last { first.to_string() } else { format!("{first}-{last}") };
    let words: Vec<String> = ranges.iter().take(SHOWN).map(word).collect();
    let more = ranges.len().checked_sub(SHOWN + 1).map_or("", |_| ", ...");
    if words.is_empty() { "none".to_owned() } else { words.join(", ") + more }
}

/// A line of CSV (RFC 4180): a cell with a comma, a quote or the end of a line is quoted.
fn line(number: &str, cells: &[String], values: &[String]) -> String {
    let mut line = number.to_owned();
    for cell in cells.iter().chain(values) {
        line.push(',');
        match cell.contains([',', '"', '\n', '\r']) {
            true => line += &format!("\"{}\"", cell.replace('"', "\"\"")),
            false => line += cell,
        }
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the definition: no dot is as low as one of the front in both values and lower in one, and each other dot has one of the front
    /// that is as low in both.
    #[test]
    fn a_dot_is_on_the_front_unless_another_is_as_low_in_both_values() {
        let mut state = 1u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            f64::from((state >> 33) as u32 % 20)
        };
        for count in 1..60 {
            let dots: Vec<(f64, f64)> = (0..count).map(|_| (draw(), draw())).collect();
            let front = pareto(&dots);
            let covers = |a: usize, b: usize| dots[a].0 <= dots[b].0 && dots[a].1 <= dots[b].1;
            for dot in 0..dots.len() {
                let is_beaten = (0..dots.len()).any(|other| covers(other, dot) && dots[other] != dots[dot]);
                assert!(!(is_beaten && front.contains(&dot)), "{dots:?} {dot}");
                assert!(front.iter().any(|&best| covers(best, dot)), "{dots:?} {dot}");
            }
            assert!(front.windows(2).all(|pair| dots[pair[0]].0 < dots[pair[1]].0));
        }
    }

    #[test]
    fn cells_and_ranges_are_in_their_forms() {
        let cells = ["a,b", "\"", "plain"].map(str::to_owned);
        assert_eq!(line("7", &cells, &[String::new()]), "7,\"a,b\",\"\"\"\",plain,\n");
        assert_eq!((ranges(&[]), ranges(&[3, 4, 5, 9])), ("none".to_owned(), "3-5, 9".to_owned()));
        assert_eq!(ranges(&(0..60).map(|number| 2 * number).collect::<Vec<_>>()).matches(", ").count(), SHOWN);
    }
}
