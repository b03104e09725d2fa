//! The cases of an experiment, each with its scenario.

use crate::experiment::{Experiment, Point, STABLE, Value as Measured};
use anyhow::{Result, bail};
use hil_sim::overrides::{self, combinations, replace};
use hil_sorted::SortedMap;
use std::iter;

/// A case: a point of each axis.
#[derive(Clone, Debug)]
pub(crate) struct Case<'a> {
    pub(crate) points: Vec<&'a Point>,
}

impl Case<'_> {
    /// Whether it has a point of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.points.iter().any(|point| point.name == name)
    }

    /// The names of its points.
    pub(crate) fn name(&self) -> String {
        self.points.iter().map(|point| point.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Whether a value is measured in it.
    pub(crate) fn has_value(&self, value: &Measured) -> bool {
        value.only.is_empty() || value.only.iter().any(|point| self.has(point))
    }
}

/// What a run has come to.
#[derive(Default)]
pub(crate) struct Run {
    /// The values that are measured in it, by name.
    pub(crate) values: SortedMap<String, f64>,
    /// What is drawn of it, in the order of the figures.
    pub(crate) series: Vec<(String, String)>,
}

/// The runs of a case, in the order of seeds.
pub(crate) struct CaseRuns<'a> {
    pub(crate) case: Case<'a>,
    pub(crate) runs: Vec<Run>,
}

/// All cases of an experiment, without those that it leaves out.
pub(crate) fn cases(experiment: &Experiment) -> Vec<Case<'_>> {
    let points = combinations(experiment.axes.iter().map(|axis| axis.points.as_slice()));
    let mut cases: Vec<Case<'_>> = points.into_iter().map(|points| Case { points }).collect();
    let is_left_out = |case: &Case<'_>| experiment.except.iter().any(|points| points.iter().all(|name| case.has(name)));
    cases.retain(|case| !is_left_out(case));
    cases
}

/// The scenario of a case under a preset, as text.
pub(crate) fn scenario(experiment: &Experiment, case: &Case<'_>, preset: &str) -> Result<String> {
    if !experiment.has_preset(preset) {
        let presets: Vec<&str> = iter::once(STABLE).chain(experiment.presets.keys().map(String::as_str)).collect();
        bail!("no preset `{preset}`: expected {}", presets.join(" or "));
    }
    let mut scenario = experiment.scenario.clone();
    let of_preset = experiment.presets.get(preset);
    for set in of_preset.into_iter().chain(case.points.iter().map(|point| &point.set)) {
        set.iter().try_for_each(|(path, value)| replace(&mut scenario, path, value))?;
    }
    overrides::text(&scenario)
}
