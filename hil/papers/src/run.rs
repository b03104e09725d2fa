//! Runs the cases of experiments, each with every seed.

use crate::WORKLOADS;
use crate::cases::{Case, CaseRuns, Run, cases, scenario};
use crate::experiment::{Experiment, Figure};
use crate::figure::Series;
use crate::measure::{Finished, node};
use crate::report::Outcome;
use anyhow::{Context, Result};
use hil_sim::Picos;
use hil_sim::fabric::{Examples, Network};
use hil_sim::summary::{Cost, Summary};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

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

/// A run: a case of an experiment with a seed.
struct Job<'a> {
    experiment: &'a Experiment,
    case: Case<'a>,
    seed: u64,
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
    let jobs: Vec<Job<'_>> = experiments.iter().flat_map(|experiment| jobs(experiment, options)).collect();
    let results: Vec<Mutex<Option<Result<Run>>>> = jobs.iter().map(|_| Mutex::default()).collect();
    let pairs: Vec<_> = jobs.iter().zip(&results).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    progress(0, jobs.len());
    thread::scope(|scope| {
        for _ in 0..options.threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                while let Some((job, place)) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = job.run(&options.preset);
                    if let Ok(mut place) = place.lock() {
                        *place = Some(result);
                    }
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
                }
            });
        }
    });
    let mut runs = jobs.iter().zip(results).map(|(job, result)| {
        let result = result.into_inner().ok().flatten().context("the run was not finished");
        let run = result.and_then(|run| run).with_context(|| job.name())?;
        Ok::<_, anyhow::Error>(run)
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

fn jobs<'a>(experiment: &'a Experiment, options: &Options) -> Vec<Job<'a>> {
    let seeds = 1..=seeds(experiment, options);
    let of_case = |case: Case<'a>| seeds.clone().map(move |seed| Job { experiment, case: case.clone(), seed });
    chosen(experiment, options).into_iter().flat_map(of_case).collect()
}

impl Job<'_> {
    fn name(&self) -> String {
        let (id, case) = (&self.experiment.id, self.case.name());
        format!("{id}{}{case}, seed {}", if case.is_empty() { "" } else { ": " }, self.seed)
    }

    fn run(&self, preset: &str) -> Result<Run> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("scenario.toml");
        write_workloads(folder.path())?;
        fs::write(&path, scenario(self.experiment, &self.case, preset)?)?;
        let input = hil_sim::read(&path, Some(self.seed))?;
        let scenario = input.scenario();
        let is_drawn = |figure: &&Figure| {
            self.seed == 1 && figure.series.is_some() && figure.case.iter().all(|point| self.case.has(point))
        };
        let figures: Vec<&Figure> = self.experiment.figures.iter().filter(is_drawn).collect();
        let mut series = Vec::new();
        for figure in &figures {
            let at = figure.at.as_deref().map(|at| node(&input, at)).transpose()?;
            series.push(Series::of(figure, at)?);
        }
        let examples = Examples::new(&scenario)?;
        let mut network = Network::new(&scenario, &examples)?;
        // A network has one sampler: all figures of a run have its interval.
        if let Some(figure) = figures.first() {
            let series = &mut series;
            let interval: Picos = figure.interval_us * 1_000_000;
            network.sample(interval, |sample| {
                series.iter_mut().for_each(|series| series.take(sample));
                Ok(())
            });
        }
        while network.advance(u64::MAX)? {}
        let totals = network.finish()?;
        let cost = Cost { cpu_seconds: 0.0, setup_cpu_seconds: 0.0, peak_rss_bytes: 0 };
        let summary = serde_json::to_value(Summary::of(&input, &totals, &cost)?)?;
        let finished = Finished { input: &input, totals: &totals, summary: &summary };
        let mut run = Run::default();
        for value in &self.experiment.values {
            let is_measured = value.only.is_empty() || value.only.iter().any(|point| self.case.has(point));
            if let Some(measure) = value.measure.as_ref().filter(|_| is_measured) {
                let measured = finished.value(measure).with_context(|| value.name.clone())?;
                run.values.insert(value.name.clone(), measured / value.per);
            }
        }
        run.series = figures.iter().zip(series).map(|(figure, series)| (figure.name.clone(), series.svg())).collect();
        Ok(run)
    }
}

/// Writes the files that scenarios name into a folder.
fn write_workloads(folder: &Path) -> Result<()> {
    WORKLOADS.iter().try_for_each(|(name, text)| Ok(fs::write(folder.join(name), text)?))
}

/// Writes the scenarios of all cases of an experiment into a folder, as `hil sim` reads them. Returns their names.
///
/// # Errors
/// A file that cannot be written; an experiment that replaces what its scenario does not have.
pub fn save(experiment: &Experiment, preset: &str, folder: &Path) -> Result<Vec<String>> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    write_workloads(folder)?;
    let mut names = Vec::new();
    for (number, case) in cases(experiment).iter().enumerate() {
        let name = format!("{}-{number}.toml", experiment.id.to_lowercase());
        let title = format!("# {} {}\n", experiment.id, case.name());
        fs::write(folder.join(&name), title + &scenario(experiment, case, preset)?)?;
        names.push(name);
    }
    Ok(names)
}
