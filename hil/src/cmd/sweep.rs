//! `hil sweep`: many simulations of one scenario with other values, over all cores and over machines.

use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;
use hil_capture::NewFile;
use hil_sweep::{Done, Plan, Results, Shard, slurm};
use std::env;
use std::fs;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

/// Arguments of `hil sweep`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    step: Step,
}

/// A step of a sweep, in a folder that all machines have.
#[derive(Subcommand, Debug)]
enum Step {
    /// Checks all points of a grid and writes the plan into a folder.
    Plan {
        /// What is varied: a TOML file that names the scenario.
        grid: PathBuf,
        /// The folder, which is made if it is not there.
        #[arg(long, value_name = "DIR")]
        output: PathBuf,
    },
    /// Runs the points that are not finished.
    Run {
        /// The folder of the plan.
        folder: PathBuf,
        /// Only those of this shard: number K of N.
        #[arg(long, value_name = "K/N")]
        shard: Option<Shard>,
        /// How many points at once. Default: one for each processor.
        #[arg(long, value_name = "N")]
        jobs: Option<NonZero<usize>>,
    },
    /// Shows how far it is, and the points that failed.
    Status {
        /// The folder of the plan.
        folder: PathBuf,
    },
    /// Writes the table of all points, as CSV.
    Merge {
        /// The folder of the plan.
        folder: PathBuf,
        /// The file for the table.
        #[arg(long, value_name = "FILE.csv", default_value = "-")]
        output: PathBuf,
        /// Leaves out points that are missing or failed.
        #[arg(long)]
        partial: bool,
        /// Draws the Pareto front of two values that are to be low, means over the seeds, and prints its points on standard error.
        #[arg(long, value_name = "FILE.svg")]
        svg: Option<PathBuf>,
        /// These two values, the horizontal one first. Default: the first two of the grid.
        #[arg(long, value_name = "X,Y", requires = "svg")]
        axes: Option<String>,
    },
    /// Prints a script for sbatch: a job array of a task for each shard.
    Slurm {
        /// The folder of the plan.
        folder: PathBuf,
        /// How many tasks. Slurm starts 2 to 4 a second, so that each should take half a minute or more.
        #[arg(long, value_name = "N")]
        shards: NonZero<u32>,
        /// The time limit of a task, in Slurm's form. Default: that of the partition.
        #[arg(long)]
        time: Option<String>,
    },
}

/// Runs a step; `tree` is the source tree that was given.
pub(crate) fn run(args: &Args, tree: Option<&Path>) -> Result<()> {
    match &args.step {
        Step::Plan { grid, output } => plan(grid, output),
        Step::Run { folder, shard, jobs } => {
            run_shard(folder, shard.unwrap_or(Shard::WHOLE), jobs.map_or_else(processors, NonZero::get))
        }
        Step::Status { folder } => Ok(writeln!(stdout(), "{}", Results::read(folder)?)?),
        Step::Merge { folder, output, partial, svg, axes } => {
            let results = Results::read(folder)?;
            let table = results.csv(*partial)?;
            let inputs = results.files(folder);
            ensure!(svg.as_ref() != Some(output), "--svg and --output: expected two files");
            if let Some(path) = svg {
                let axes = axes.as_deref().map(|axes| axes.split_once(',').context("--axes: expected X,Y: two values"));
                let (svg, front) = results.front(axes.transpose()?)?;
                write(path, &inputs, &svg)?;
                write!(stderr(), "{front}")?;
            }
            write(output, &inputs, &table)
        }
        Step::Slurm { folder, shards, time } => {
            Plan::load(folder)?;
            let [hil, folder] = [env::current_exe()?, fs::canonicalize(folder)?];
            let tree = tree.map(fs::canonicalize).transpose()?;
            let script = slurm::script(&hil, &folder, tree.as_deref(), shards.get(), time.as_deref())?;
            Ok(write!(stdout(), "{script}")?)
        }
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

fn plan(grid: &Path, folder: &Path) -> Result<()> {
    super::make_folder("--output", folder)?;
    let (plan, is_new) = with_progress("checked", |progress| Plan::make(grid, folder, processors(), progress))?;
    let state = if is_new { "planned" } else { "planned before, as they are" };
    Ok(writeln!(stdout(), "{}: {} points, {state}", folder.display(), plan.points())?)
}

fn run_shard(folder: &Path, shard: Shard, jobs: usize) -> Result<()> {
    let begun = Instant::now();
    let run = |progress: &(dyn Fn(usize, usize) + Sync)| hil_sweep::run(folder, shard, jobs, progress);
    let Done { before, ran, failed } = with_progress("run", run)?;
    let seconds = begun.elapsed().as_secs_f64();
    let (name, all) = (folder.display(), before + ran);
    writeln!(stdout(), "{name}: {all} points: {before} were finished, {ran} ran in {seconds:.1} s, {failed} failed")?;
    if failed > 0 {
        bail!("{failed} of {ran} points failed: see hil sweep status {name}");
    }
    Ok(())
}

/// Shows on a terminal how many points are done, and when the rest is if it takes as long.
fn with_progress<T>(done_so: &str, work: impl FnOnce(&(dyn Fn(usize, usize) + Sync)) -> Result<T>) -> Result<T> {
    let (begun, is_terminal) = (Instant::now(), stderr().is_terminal());
    let worked = work(&|done, all| {
        if is_terminal {
            let left = begun.elapsed().as_secs_f64() * (all - done) as f64 / done.max(1) as f64;
            let left = if done > 0 { format!(", {left:.0} s left") } else { String::new() };
            super::show_progress(format_args!("{done} of {all} points {done_so}{left}"));
        }
    });
    if is_terminal {
        super::show_progress(format_args!(""));
    }
    worked
}

fn write(path: &Path, inputs: &[PathBuf], text: &str) -> Result<()> {
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    let mut file = NewFile::create(path, &inputs)?;
    file.write_all(text.as_bytes())?;
    Ok(file.finish()?)
}
