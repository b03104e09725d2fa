//! Runs the cases of experiments, each with every seed.

use crate::WORKLOADS;
use crate::cases::{Case, CaseRuns, Run, cases, scenario};
use crate::experiment::{Experiment, Figure};
use crate::figure::Series;
use crate::measure::{Finished, node};
use crate::report::Outcome;
use anyhow::{Context, Result};
use hil_sim::fabric::{Sample, SampleSink};
use hil_sim::pool;
use hil_sim::summary;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// How experiments are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The preset of the scenarios: `stable` is what they have.
    pub preset: String,
    /// Only the case that stands for each experiment, with seed 1.
    pub short: bool,
    /// How many runs at once; a run has one thread.
    pub threads: usize,
}

/// A run: a case of an experiment, whose scenario is in a file, with a seed.
struct Job<'a> {
    experiment: &'a Experiment,
    case: Case<'a>,
    scenario: PathBuf,
    seed: u64,
    result: OnceLock<Result<Run>>,
}

/// Runs experiments. `progress` is called before the first run and after each, with how many are done and how many there are.
///
/// # Errors
/// A scenario that cannot be read or run, or a value that it cannot have, with the experiment, the case and the seed.
pub fn run(
    experiments: &[Experiment],
    options: &Options,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<Outcome>> {
    let folder = tempfile::tempdir()?;
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for (number, experiment) in experiments.iter().enumerate() {
        let folder = folder.path().join(number.to_string());
        for (case, name) in write_cases(experiment, chosen(experiment, options), &options.preset, &folder)? {
            let scenario = folder.join(name);
            let job = |seed| {
                let (case, scenario) = (case.clone(), scenario.clone());
                Job { experiment, case, scenario, seed, result: OnceLock::new() }
            };
            jobs.extend((1..=seeds(experiment, options)).map(job));
        }
    }
    pool::for_each(&jobs, options.threads, progress, &|job| {
        job.result.get_or_init(|| job.run());
        Ok(())
    })?;
    let mut runs = jobs.into_iter().map(|mut job| {
        let result = job.result.take().context("the run was not finished");
        result.and_then(|run| run).with_context(|| format!("{}, seed {}", name(job.experiment, &job.case), job.seed))
    });
    let mut judge = |experiment| {
        let mut of_cases = Vec::new();
        for case in chosen(experiment, options) {
            let runs = runs.by_ref().take(seeds(experiment, options) as usize);
            let runs = runs.collect::<Result<_>>()?;
            of_cases.push(CaseRuns { case, runs });
        }
        Outcome::of(experiment, &options.preset, of_cases)
    };
    experiments.iter().map(&mut judge).collect()
}

/// The cases that are run.
fn chosen<'a>(experiment: &'a Experiment, options: &Options) -> Vec<Case<'a>> {
    let mut cases = cases(experiment);
    if options.short {
        let points = experiment.short.iter().flatten();
        cases.retain(|case| experiment.short.is_some() && points.clone().all(|name| case.has(name)));
        cases.truncate(1);
    }
    cases
}

const fn seeds(experiment: &Experiment, options: &Options) -> u64 {
    if options.short { 1 } else { experiment.seeds }
}

/// An experiment's id and the name of a case.
fn name(experiment: &Experiment, case: &Case<'_>) -> String {
    let (id, case) = (&experiment.id, case.name());
    if case.is_empty() { id.clone() } else { format!("{id}: {case}") }
}

impl Job<'_> {
    fn run(&self) -> Result<Run> {
        let input = hil_sim::read(&self.scenario, Some(self.seed))?;
        let is_drawn = |figure: &&Figure| {
            self.seed == 1 && figure.series.is_some() && figure.case.iter().all(|point| self.case.has(point))
        };
        let figures: Vec<&Figure> = self.experiment.figures.iter().filter(is_drawn).collect();
        let mut series = Vec::new();
        for figure in &figures {
            let at = figure.at.as_deref().map(|at| node(&input, at)).transpose()?;
            series.push(Series::of(figure, at)?);
        }
        // A run has one sampler: all its figures have the interval of the first.
        let mut sink = |sample: &Sample| {
            series.iter_mut().for_each(|series| series.take(sample));
            Ok(())
        };
        let samples = figures.first().map(|figure| (figure.interval_us * 1_000_000, &mut sink as SampleSink<'_>));
        let totals = input.scenario().run_sampled(samples)?;
        let summary = summary::json(&input, &totals)?;
        let finished = Finished { input: &input, totals: &totals, summary: &summary };
        let mut run = Run::default();
        for value in &self.experiment.values {
            if let Some(measure) = value.measure.as_ref().filter(|_| self.case.has_value(value)) {
                let measured = finished.value(measure).with_context(|| value.name.clone())?;
                run.values.insert(value.name.clone(), measured / value.per);
            }
        }
        run.series = figures.iter().zip(series).map(|(figure, series)| (figure.name.clone(), series.svg())).collect();
        Ok(run)
    }
}

/// Writes the scenarios of all cases of an experiment into a folder, as `hil sim` reads them. Returns their names.
///
/// # Errors
/// A file that cannot be written; an experiment that replaces what its scenario does not have.
pub fn save(experiment: &Experiment, preset: &str, folder: &Path) -> Result<Vec<String>> {
    let cases = write_cases(experiment, cases(experiment), preset, folder)?;
    Ok(cases.into_iter().map(|(_, name)| name).collect())
}

/// Writes the scenarios of some cases of an experiment, and the files that scenarios name, into a folder. Returns the cases with the
/// names of their files.
fn write_cases<'a>(
    experiment: &'a Experiment,
    cases: Vec<Case<'a>>,
    preset: &str,
    folder: &Path,
) -> Result<Vec<(Case<'a>, String)>> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    WORKLOADS.iter().try_for_each(|(name, text)| fs::write(folder.join(name), text))?;
    let write = |(number, case): (usize, Case<'a>)| {
        let file = format!("{}-{number}.toml", experiment.id.to_lowercase());
        let text = scenario(experiment, &case, preset).with_context(|| name(experiment, &case))?;
        fs::write(folder.join(&file), format!("# {} {}\n{text}", experiment.id, case.name()))?;
        Ok((case, file))
    };
    cases.into_iter().enumerate().map(write).collect()
}
