//! The plan of a sweep: its points in their order, each with a hash of all that decides its result.

use crate::grid::{Grid, Point as GridPoint};
use crate::values::value;
use anyhow::{Context, Result, ensure};
use hil_capture::NewFile;
use hil_sim::pool;
use hil_sim::summary::json;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A plan, as `plan.json` in the folder of a sweep has it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The version of this form.
    schema: u32,
    /// The file that it was made from.
    pub(crate) grid: PathBuf,
    /// [`hil_sim::SOURCES`].
    pub(crate) sources: String,
    /// The names of the values that are kept.
    pub(crate) values: Vec<String>,
    /// What differs between points; the last is the seed.
    pub(crate) columns: Vec<String>,
    /// The points.
    pub(crate) points: Vec<Point>,
}

/// A point.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// The hash of all that decides its result.
    pub(crate) hash: String,
    /// What it has in the columns.
    pub(crate) cells: Vec<String>,
}

impl Plan {
    /// Plans the sweep of a grid in a folder, which is made if it is not there. All scenarios are checked on so many threads; of
    /// `progress` see [`pool::for_each`]. Returns the plan, and whether it is new: the same sweep may be planned again.
    ///
    /// # Errors
    /// A file that cannot be read; what is wrong in the grid or in a point, with its place; a folder with another plan.
    pub fn make(
        grid: &Path,
        folder: &Path,
        threads: usize,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<(Self, bool)> {
        let path = fs::canonicalize(grid).with_context(|| format!("{}: cannot be read", grid.display()))?;
        let grid = Grid::read(grid)?;
        let points = grid.points();
        let jobs: Vec<_> = points.iter().enumerate().map(|job| (job, OnceLock::new())).collect();
        pool::for_each(&jobs, threads, progress, &|((number, point), hash)| {
            hash.get_or_init(|| check(&grid, point, *number == 0));
            Ok(())
        })?;
        let point = |((number, point), mut hash): ((usize, &GridPoint<'_>), OnceLock<Result<String>>)| {
            let cells = grid.cells(point);
            let hash = hash.take().context("was not checked").flatten();
            let hash = hash.with_context(|| format!("point {number} ({})", described(&grid.columns(), &cells)))?;
            Ok(Point { hash, cells })
        };
        let points = jobs.into_iter().map(point).collect::<Result<_>>()?;
        let (columns, sources) = (grid.columns(), hil_sim::SOURCES.to_owned());
        let plan = Self { schema: 1, grid: path, sources, values: grid.values, columns, points };
        if file(folder).exists() {
            let before = Self::load(folder)?;
            ensure!(
                before.points == plan.points && before.columns == plan.columns,
                "{}: is the plan of another sweep, by {}: expected that of this grid, of scenario and files as they are now and of \
                 this version of hil; give another folder, or delete this one",
                file(folder).display(),
                before.grid.display()
            );
            return Ok((before, false));
        }
        fs::create_dir_all(folder.join(RESULTS)).with_context(|| folder.display().to_string())?;
        let mut file = NewFile::create(&file(folder), &[])?;
        serde_json::to_writer_pretty(&mut file, &plan)?;
        file.write_all(b"\n")?;
        file.sync()?;
        file.finish()?;
        Ok((plan, true))
    }

    /// Reads the plan in a folder.
    ///
    /// # Errors
    /// There is none, or it is not of this form.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = file(folder);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{}: cannot be read: make it with hil sweep plan", path.display()))?;
        let plan: Self = serde_json::from_str(&text)
            .with_context(|| format!("{}: is no plan of a sweep: delete it and plan again", path.display()))?;
        ensure!(plan.schema == 1, "{}: has the form {}: expected 1", path.display(), plan.schema);
        Ok(plan)
    }

    /// How many points it has.
    pub fn points(&self) -> usize {
        self.points.len()
    }
}

/// The folder of results in that of a sweep.
pub(crate) const RESULTS: &str = "results";

/// The file of the plan in the folder of a sweep.
pub(crate) fn file(folder: &Path) -> PathBuf {
    folder.join("plan.json")
}

/// A point in words.
pub(crate) fn described(columns: &[String], cells: &[String]) -> String {
    let cells = columns.iter().zip(cells).filter(|(_, cell)| !cell.is_empty());
    cells.map(|(column, cell)| format!("{column} = {cell}")).collect::<Vec<_>>().join(", ")
}

/// Checks that a point can be simulated, and returns its hash. With `names` it also checks that the summary has the values of the grid, by
/// that of a run without events, in which percentiles are null.
fn check(grid: &Grid, point: &GridPoint<'_>, names: bool) -> Result<String> {
    let input = grid.input(point)?;
    let totals = input.scenario().set_up()?;
    if names {
        let summary = json(&input, &totals)?;
        grid.check_values(|name| value(&summary, name).map(drop))?;
    }
    Ok(grid.hash(point, &input))
}
