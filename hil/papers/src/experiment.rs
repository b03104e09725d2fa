//! The form of an experiment's file.

use crate::measure::Measure;
use anyhow::{Result, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The preset that scenarios have as they stand.
pub(crate) const STABLE: &str = "stable";

/// An experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its id, such as `LS-1`.
    pub id: String,
    /// Paper and section, figure or table.
    pub source: String,
    /// What the paper says of it.
    pub(crate) claim: String,
    /// 2: small, run by `--all`; 3: large, run with `--full` too.
    pub tier: u8,
    /// It is run with the seeds from 1 to this one. Default: 5.
    #[serde(default = "five")]
    pub(crate) seeds: u64,
    /// The point of axes, one a line, of the case that stands for the experiment in a short run with seed 1; absent if there is none.
    #[serde(default)]
    pub short: Option<Vec<String>>,
    /// What is known where a criterion does not hold or the claim is not met, with the measurement that shows it.
    #[serde(default)]
    pub(crate) explanation: String,
    /// Parameters, with whose values they are.
    #[serde(default)]
    pub(crate) parameters: BTreeMap<String, String>,
    /// The scenario, in the language of `hil sim`.
    pub(crate) scenario: toml::Table,
    /// What replaces values of the scenario, by presets other than `stable`.
    #[serde(default)]
    pub(crate) presets: BTreeMap<String, Set>,
    /// What is varied. The cases are all combinations of a point of each axis, or one without axes.
    #[serde(default)]
    pub(crate) axes: Vec<Axis>,
    /// Combinations that are left out: all cases that have every point of one of these lists.
    #[serde(default)]
    pub(crate) except: Vec<Vec<String>>,
    /// What is measured in each run.
    pub(crate) values: Vec<Value>,
    /// What is drawn.
    #[serde(default)]
    pub(crate) figures: Vec<Figure>,
}

const fn five() -> u64 {
    5
}

/// Values by their paths in a scenario: keys and numbers of elements, with `/` between them.
pub(crate) type Set = BTreeMap<String, toml::Value>;

/// What is varied.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Axis {
    /// What it is, with its unit.
    pub(crate) name: String,
    /// Its points.
    pub(crate) points: Vec<Point>,
}

/// A point of an axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Point {
    /// Its name, unique in the experiment.
    pub(crate) name: String,
    /// Where it is in figures. Default: its number on the axis, from zero.
    #[serde(default)]
    pub(crate) x: Option<f64>,
    /// What it replaces in the scenario.
    #[serde(default)]
    pub(crate) set: Set,
}

/// A value that is measured, with the bounds of its criterion and of the paper's claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Value {
    /// Its name, unique in the experiment.
    pub(crate) name: String,
    /// Its unit; empty for a share, an index or a count.
    #[serde(default)]
    pub(crate) unit: String,
    /// What is measured in each run; either this or `ratio`.
    pub(crate) measure: Option<Measure>,
    /// The quotient of a value before it in two cases.
    pub(crate) ratio: Option<Ratio>,
    /// The measured number is divided by this, from bytes to megabytes for example.
    #[serde(default = "one")]
    pub(crate) per: f64,
    /// The cases that it is measured in: those that have one of these points. Default: all.
    #[serde(default)]
    pub(crate) only: Vec<String>,
    /// How the seeds of a case are judged.
    #[serde(default)]
    pub(crate) over: Over,
    /// The criterion: the value is at least this.
    pub(crate) at_least: Option<f64>,
    /// The criterion: the value is at most this.
    pub(crate) at_most: Option<f64>,
    /// The paper's value, as text.
    #[serde(default)]
    pub(crate) paper: String,
    /// The range in which the paper's claim is met. Default: the criterion's bounds.
    pub(crate) claim: Option<[f64; 2]>,
}

const fn one() -> f64 {
    1.0
}

/// The quotient of a value in two cases that differ in one point only, seed by seed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ratio {
    /// The name of the value.
    pub(crate) value: String,
    /// The point of the numerator's case.
    pub(crate) of: String,
    /// The point of the denominator's case, which is the one that the quotient is shown for.
    pub(crate) to: String,
}

/// How the runs of a case with all seeds are judged.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Over {
    /// Each of them.
    #[default]
    Each,
    /// Their mean.
    Mean,
    /// Their median.
    Median,
}

/// A figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// Its name, which is also that of its file after the experiment's id.
    pub(crate) name: String,
    /// A value over the points of an axis.
    #[serde(default)]
    pub(crate) value: Option<String>,
    /// The axis.
    #[serde(default)]
    pub(crate) over: Option<String>,
    /// A quantity over time, by its name in the series of `hil sim`.
    #[serde(default)]
    pub(crate) series: Option<String>,
    /// The points of the case whose run with seed 1 is drawn.
    #[serde(default)]
    pub(crate) case: Vec<String>,
    /// The node whose queues or ports are drawn; without it all.
    #[serde(default)]
    pub(crate) at: Option<String>,
    /// The time between samples, in microseconds. Default: 100.
    #[serde(default = "hundred")]
    pub(crate) interval_us: u64,
}

const fn hundred() -> u64 {
    100
}

impl Experiment {
    /// Reads an experiment.
    ///
    /// # Errors
    /// What is not TOML or not an experiment, with line and column; names that are not unique or not known.
    pub fn parse(text: &str) -> Result<Self> {
        let experiment: Self = toml::from_str(text)?;
        experiment.check()?;
        Ok(experiment)
    }

    /// How many runs it is: cases times seeds.
    pub fn runs(&self) -> u64 {
        crate::cases::cases(self).len() as u64 * self.seeds
    }

    /// Whether its scenario can have this preset: `stable`, or one that says what it replaces.
    pub fn has_preset(&self, preset: &str) -> bool {
        preset == STABLE || self.presets.contains_key(preset)
    }

    fn check(&self) -> Result<()> {
        ensure!(!self.presets.contains_key(STABLE), "presets.stable: the scenario itself has this preset");
        ensure!(matches!(self.tier, 2 | 3), "tier: expected 2 or 3, not {}", self.tier);
        ensure!(self.seeds > 0, "seeds: expected at least 1");
        let mut points = BTreeSet::new();
        for point in self.axes.iter().flat_map(|axis| &axis.points) {
            ensure!(points.insert(&point.name), "two points are named {:?}", point.name);
        }
        let named = self.except.iter().flatten().chain(self.values.iter().flat_map(|value| &value.only));
        let of_figures = self.figures.iter().flat_map(|figure| &figure.case).chain(self.short.iter().flatten());
        for name in named.chain(of_figures) {
            ensure!(points.contains(name), "no axis has a point {name:?}");
        }
        let mut values = BTreeSet::new();
        for value in &self.values {
            ensure!(values.insert(&value.name), "two values are named {:?}", value.name);
            ensure!(value.measure.is_some() != value.ratio.is_some(), "{}: expected `measure` or `ratio`", value.name);
            if let Some(ratio) = &value.ratio {
                ensure!(values.contains(&ratio.value), "{}: no value before it is named {:?}", value.name, ratio.value);
                for name in [&ratio.of, &ratio.to] {
                    ensure!(points.contains(name), "{}: no axis has a point {name:?}", value.name);
                }
            }
        }
        for figure in &self.figures {
            let is_of_value = figure.value.is_some() && figure.over.is_some();
            ensure!(
                is_of_value != figure.series.is_some(),
                "figure {}: expected `value` and `over`, or `series`",
                figure.name
            );
            let known = figure.value.as_ref().is_none_or(|name| values.contains(name));
            ensure!(known, "figure {}: no such value", figure.name);
            let known = figure.over.as_ref().is_none_or(|name| self.axes.iter().any(|axis| axis.name == *name));
            ensure!(known, "figure {}: no such axis", figure.name);
        }
        Ok(())
    }
}
