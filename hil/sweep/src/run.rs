//! Runs the points of a shard, and keeps their results: a file for each, which is whole or not there.

use crate::grid::Grid;
use crate::plan::{Plan, RESULTS};
use crate::values::value;
use anyhow::{Result, anyhow, ensure};
use hil_capture::NewFile;
use hil_sim::input::Input;
use hil_sim::pool;
use hil_sim::source::{EMPTY_HASH, fnv};
use hil_sim::summary::json;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

/// One of some parts of a sweep: number K of N has the points K - 1, K - 1 + N, K - 1 + 2 N and so on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl Shard {
    /// The whole sweep.
    pub const WHOLE: Self = Self { number: 1, of: 1 };
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        let (number, of) = numbers
            .filter(|(number, of)| (1..=*of).contains(number))
            .ok_or("expected K/N, number K of N shards, such as 1/4 to 4/4")?;
        Ok(Self { number, of })
    }
}

/// What has come of a point.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// The values of the grid, in their order.
    Values(Vec<String>),
    /// Why it has none.
    Error(String),
}

/// The result of a point, as its file has it.
#[derive(Serialize, Deserialize)]
struct Record {
    point: usize,
    hash: String,
    #[serde(flatten)]
    outcome: Outcome,
}

/// What a run of a shard has come to, in numbers of points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// Those that were finished before.
    pub before: usize,
    /// Those that ran.
    pub ran: usize,
    /// Those of them that failed.
    pub failed: usize,
}

/// Runs the points of a shard that are not finished, on so many threads; of `progress` see [`pool::for_each`]. A point that fails or
/// panics has its error for a result.
///
/// # Errors
/// No plan, or one of other inputs or of another version than these; a result that cannot be written.
pub fn run(folder: &Path, shard: Shard, threads: usize, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Done> {
    let plan = Plan::load(folder)?;
    ensure!(
        plan.sources == hil_sim::SOURCES,
        "{}: was planned by another version of hil (sources {}, these {}): plan into another folder",
        folder.display(),
        plan.sources,
        hil_sim::SOURCES
    );
    remove_leftovers(folder);
    let grid = Grid::read(&plan.grid)?;
    let points = grid.points();
    let changed = || {
        let grid = plan.grid.display();
        anyhow!(
            "{grid}: it, its scenario or a file that this names has changed since the plan: plan into another folder"
        )
    };
    ensure!(points.len() == plan.points.len(), changed());
    let own = (shard.number - 1..points.len()).step_by(shard.of);
    let all = own.clone().count();
    let is_left = |number: &usize| !matches!(read(folder, &plan, *number), Some(Outcome::Values(_)));
    let left: Vec<usize> = own.filter(is_left).collect();
    pool::for_each(&left, threads, progress, &|&number| {
        let input = grid.input(&points[number])?;
        let hash = grid.hash(&points[number], &input);
        ensure!(hash == plan.points[number].hash, changed());
        let outcome = simulate(&grid, &input);
        write(folder, &Record { point: number, hash, outcome })
    })?;
    let failed = |number: &&usize| matches!(read(folder, &plan, **number), Some(Outcome::Error(_)));
    Ok(Done { before: all - left.len(), ran: left.len(), failed: left.iter().filter(failed).count() })
}

/// Simulates a point.
fn simulate(grid: &Grid, input: &Input) -> Outcome {
    outcome(|| {
        let summary = json(input, &input.scenario().run()?)?;
        if !summary["stall"].is_null() {
            return Err(anyhow!("it stalled: flows were open and nothing progressed, see hil sim"));
        }
        grid.values.iter().map(|name| value(&summary, name).map_err(|message| anyhow!(message))).collect()
    })
}

/// What comes of work that may fail or panic.
fn outcome(work: impl FnOnce() -> Result<Vec<String>>) -> Outcome {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(values)) => Outcome::Values(values),
        Ok(Err(error)) => Outcome::Error(format!("{error:#}")),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Outcome::Error(format!("a fault of hil: panic: {}", text.unwrap_or("without a text")))
        }
    }
}

/// The file of a result.
pub(crate) fn path(folder: &Path, number: usize) -> PathBuf {
    folder.join(RESULTS).join(format!("{number:06}"))
}

/// Writes a result: a line of JSON, and the hash of it in another line. Two runs of one point write the same bytes.
fn write(folder: &Path, record: &Record) -> Result<()> {
    let path = path(folder, record.point);
    let line = serde_json::to_string(record)?;
    let mut file = NewFile::create(&path, &[])?;
    let text = format!("{line}\n{:016x}\n", fnv(EMPTY_HASH, line.as_bytes()));
    file.write_all(text.as_bytes())?;
    file.sync()?;
    Ok(file.finish()?)
}

/// The result of a point; `None` if it has none, or if that is damaged or of another plan.
pub(crate) fn read(folder: &Path, plan: &Plan, number: usize) -> Option<Outcome> {
    let text = fs::read_to_string(path(folder, number)).ok()?;
    let (line, rest) = text.split_once('\n')?;
    if rest != format!("{:016x}\n", fnv(EMPTY_HASH, line.as_bytes())) {
        return None;
    }
    let record: Record = serde_json::from_str(line).ok()?;
    (record.point == number && record.hash == plan.points[number].hash).then_some(record.outcome)
}

/// The files of results that are finished, or of those that are not, and when they were written, by the clock of the file system.
fn written(folder: &Path, finished: bool) -> Vec<(PathBuf, SystemTime)> {
    let entries = fs::read_dir(folder.join(RESULTS)).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.modified().ok()?)));
    files
        .filter(|(path, _)| path.extension().is_none_or(|extension| extension != NewFile::UNFINISHED) == finished)
        .collect()
}

/// Removes results that are not finished and will not be, since the run that began with them was killed: a result is written in
/// milliseconds, and these are older than [`LEFT_OVER`].
fn remove_leftovers(folder: &Path) {
    for (path, written) in written(folder, false) {
        if written.elapsed().is_ok_and(|age| age > LEFT_OVER) {
            // Another run may remove it too.
            let _ = fs::remove_file(path);
        }
    }
}

/// Longer than the clocks of two machines may differ.
const LEFT_OVER: Duration = Duration::from_secs(600);

/// The seconds between the first and the last of the results, and how many there are.
pub(crate) fn pace(folder: &Path) -> Option<(f64, usize)> {
    let times: Vec<SystemTime> = written(folder, true).into_iter().map(|(_, time)| time).collect();
    let [first, last] = [times.iter().min()?, times.iter().max()?];
    Some((last.duration_since(*first).ok()?.as_secs_f64(), times.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_and_a_panic_are_results() {
        assert_eq!(outcome(|| Ok(vec!["1".to_owned()])), Outcome::Values(vec!["1".to_owned()]));
        assert_eq!(outcome(|| Err(anyhow!("inner").context("outer"))), Outcome::Error("outer: inner".to_owned()));
        assert_eq!(outcome(|| panic!("number {}", 7)), Outcome::Error("a fault of hil: panic: number 7".to_owned()));
    }

    #[test]
    fn a_shard_is_a_number_from_one_to_how_many_there_are() {
        assert_eq!("2/4".parse(), Ok(Shard { number: 2, of: 4 }));
        for wrong in ["0/4", "5/4", "4", "a/4", "1/0", "1/2/3", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
