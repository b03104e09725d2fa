//! The papers' closed-loop experiments, as files of criteria, and what runs and judges them: `hil paper`.
//!
//! An experiment is a TOML file in `experiments`: a scenario of `hil sim`, the cases in which it is run, values that are measured
//! in each run, and for each value the bounds of the criterion and those within which the paper's claim is met. README.md of this
//! folder has all keys. A criterion is written before the experiment is run.
#![forbid(unsafe_code)]

mod cases;
mod experiment;
mod figure;
mod measure;
mod report;
mod run;

pub use experiment::Experiment;
pub use report::{Outcome, markdown};
pub use run::{Options, run, save};

use anyhow::{Context, Result, bail};
use hil_sim::source::Source;
use std::path::Path;

/// The experiments of the project: name of the file without its extension, and text.
macro_rules! embedded {
    ($($name:literal)*) => {
        const EXPERIMENTS: &[(&str, &str)] = &[$(($name, include_str!(concat!("../experiments/", $name, ".toml")))),*];
    };
}

include!("../experiments/list.rs");

/// The files that scenarios name, with their texts: distributions of flow sizes.
const WORKLOADS: &[(&str, &str)] = &[
    ("websearch.txt", include_str!("../../sim/scenarios/websearch.txt")),
    ("ali-wan.txt", include_str!("../workloads/ali-wan.txt")),
];

/// All experiments of the project, in the order of the list in `experiments/list.rs`.
///
/// # Errors
/// A file that is not an experiment.
pub fn experiments() -> Result<Vec<Experiment>> {
    let parse = |(name, text): &(&str, &str)| {
        let name = format!("{name}.toml");
        Experiment::parse(&Source::of(&name, *text)).context(name)
    };
    EXPERIMENTS.iter().map(parse).collect()
}

/// The experiment of this id, or in the file of this path, which ends in `.toml`.
///
/// # Errors
/// No such id; a file that cannot be read or is not an experiment.
pub fn find(id: &str) -> Result<Experiment> {
    if Path::new(id).extension().is_some_and(|extension| extension == "toml") {
        return Experiment::parse(&Source::read(Path::new(id))?).with_context(|| id.to_owned());
    }
    let all = experiments()?;
    let ids: Vec<String> = all.iter().map(|experiment| experiment.id.clone()).collect();
    match all.into_iter().find(|experiment| experiment.id.eq_ignore_ascii_case(id)) {
        Some(experiment) => Ok(experiment),
        None => bail!("no experiment {id}: expected the path of a .toml file, or one of {}", ids.join(", ")),
    }
}
