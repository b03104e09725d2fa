//! Figures: quantities over time, and values over the points of an axis.

use crate::cases::CaseRuns;
use crate::experiment::{Experiment, Figure};
use anyhow::{Context, Result};
use hil_sim::fabric::{Quantity, Sample, Subject};
use hil_sim::plot::{self, States};

/// A quantity over time, of one run.
pub(crate) struct Series {
    quantity: Quantity,
    at: Option<u32>,
    states: States,
}

impl Series {
    /// That of a figure, of the queues and ports of the node `at`.
    pub(crate) fn of(figure: &Figure, at: Option<u32>) -> Result<Self> {
        let name = figure.series.as_deref().unwrap_or_default();
        let names = Quantity::ALL.map(Quantity::name).join(", ");
        let quantity = Quantity::ALL.into_iter().find(|quantity| quantity.name() == name);
        let quantity =
            quantity.with_context(|| format!("figure {}: expected one of {names}, not {name:?}", figure.name))?;
        Ok(Self { quantity, at, states: States::default() })
    }

    /// Takes a sample, if it is one of this series.
    pub(crate) fn take(&mut self, sample: &Sample) {
        let is_there = match sample.subject {
            Subject::Queue(node, ..) | Subject::Port(node, _) => self.at.is_none_or(|at| at == node),
            _ => true,
        };
        if sample.quantity == self.quantity && is_there {
            self.states.take(sample);
        }
    }

    pub(crate) fn svg(&self) -> String {
        self.states.svg(self.quantity)
    }
}

/// A value over the points of an axis: the medians of the seeds, a line for each combination of the points of other axes.
pub(crate) fn over_axis(experiment: &Experiment, figure: &Figure, cases: &[CaseRuns<'_>]) -> Option<String> {
    let (name, axis) = (figure.value.as_ref()?, figure.over.as_ref()?);
    let number = experiment.axes.iter().position(|other| other.name == *axis)?;
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for of_case in cases {
        let points = &of_case.case.points;
        let mut values: Vec<f64> = of_case.runs.iter().filter_map(|run| run.values.get(name).copied()).collect();
        values.sort_by(f64::total_cmp);
        let Some(&median) = values.get(values.len() / 2) else { continue };
        let place = experiment.axes[number].points.iter().position(|point| point.name == points[number].name);
        let x = points[number].x.or(place.map(|place| place as f64))?;
        let others = points.iter().enumerate().filter(|&(other, _)| other != number);
        let line = others.map(|(_, point)| point.name.as_str()).collect::<Vec<_>>().join(", ");
        match lines.iter_mut().find(|(name, _)| *name == line) {
            Some((_, points)) => points.push((x, median)),
            None => lines.push((line, vec![(x, median)])),
        }
    }
    let value = experiment.values.iter().find(|value| value.name == *name)?;
    let unit = if value.unit.is_empty() { String::new() } else { format!(" [{}]", value.unit) };
    let title = format!("{}: {name}{unit}, median of seeds", experiment.id);
    Some(plot::lines(title, axis.clone(), lines))
}
