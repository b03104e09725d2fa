//! The form of an experiment's file.

use crate::measure::Measure;
use anyhow::{Result, ensure};
use hil_sim::overrides::plain_table;
use hil_sim::scenario::{self, Table, count, number, text, texts};
use hil_sim::source::Source;
use hil_sorted::{SortedMap, SortedSet};
use toml::Spanned;
use toml::de::{DeString, DeValue};

/// The preset that scenarios have as they stand.
pub(crate) const STABLE: &str = "stable";

/// An experiment.
#[derive(Clone, Debug)]
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
    pub(crate) seeds: u64,
    /// The point of axes, one a line, of the case that stands for the experiment in a short run with seed 1; absent if there is none.
    pub short: Option<Vec<String>>,
    /// What is known where a criterion does not hold or the claim is not met, with the measurement that shows it.
    pub(crate) explanation: String,
    /// Parameters, with whose values they are.
    pub(crate) parameters: SortedMap<String, String>,
    /// The scenario, in the language of `hil sim`.
    pub(crate) scenario: toml::Table,
    /// What replaces values of the scenario, by presets other than `stable`.
    pub(crate) presets: SortedMap<String, Set>,
    /// What is varied. The cases are all combinations of a point of each axis, or one without axes.
    pub(crate) axes: Vec<Axis>,
    /// Combinations that are left out: all cases that have every point of one of these lists.
    pub(crate) except: Vec<Vec<String>>,
    /// What is measured in each run.
    pub(crate) values: Vec<Value>,
    /// What is drawn.
    pub(crate) figures: Vec<Figure>,
}

/// Values by their paths in a scenario: keys and numbers of elements, with `/` between them.
pub(crate) type Set = toml::Table;

/// What is varied.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// What it is, with its unit.
    pub(crate) name: String,
    /// Its points.
    pub(crate) points: Vec<Point>,
}

/// A point of an axis.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    /// Its name, unique in the experiment.
    pub(crate) name: String,
    /// Where it is in figures. Default: its number on the axis, from zero.
    pub(crate) x: Option<f64>,
    /// What it replaces in the scenario.
    pub(crate) set: Set,
}

/// A value that is measured, with the bounds of its criterion and of the paper's claim.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    /// Its name, unique in the experiment.
    pub(crate) name: String,
    /// Its unit; empty for a share, an index or a count.
    pub(crate) unit: String,
    /// What is measured in each run; either this or `ratio`.
    pub(crate) measure: Option<Measure>,
    /// The quotient of a value before it in two cases.
    pub(crate) ratio: Option<Ratio>,
    /// The measured number is divided by this, from bytes to megabytes for example.
    pub(crate) per: f64,
    /// The cases that it is measured in: those that have one of these points. Default: all.
    pub(crate) only: Vec<String>,
    /// How the seeds of a case are judged.
    pub(crate) over: Over,
    /// The criterion: the value is at least this.
    pub(crate) at_least: Option<f64>,
    /// The criterion: the value is at most this.
    pub(crate) at_most: Option<f64>,
    /// The paper's value, as text.
    pub(crate) paper: String,
    /// The range in which the paper's claim is met. Default: the criterion's bounds.
    pub(crate) claim: Option<[f64; 2]>,
}

/// The quotient of a value in two cases that differ in one point only, seed by seed.
#[derive(Clone, Debug)]
pub(crate) struct Ratio {
    /// The name of the value.
    pub(crate) value: String,
    /// The point of the numerator's case.
    pub(crate) of: String,
    /// The point of the denominator's case, which is the one that the quotient is shown for.
    pub(crate) to: String,
}

/// How the runs of a case with all seeds are judged.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
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
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// Its name, which is also that of its file after the experiment's id.
    pub(crate) name: String,
    /// A value over the points of an axis.
    pub(crate) value: Option<String>,
    /// The axis.
    pub(crate) over: Option<String>,
    /// A quantity over time, by its name in the series of `hil sim`.
    pub(crate) series: Option<String>,
    /// The points of the case whose run with seed 1 is drawn.
    pub(crate) case: Vec<String>,
    /// The node whose queues or ports are drawn; without it all.
    pub(crate) at: Option<String>,
    /// The time between samples, in microseconds. Default: 100.
    pub(crate) interval_us: u64,
}

impl Experiment {
    /// Reads an experiment.
    ///
    /// # Errors
    /// What is not TOML or not an experiment, with its place; names that are not unique or not known.
    pub fn parse(source: &Source) -> Result<Self> {
        let root = source.toml()?;
        let table = Table::new(source, 0..0, root.get_ref());
        let experiment = Self {
            id: table.need_text("id")?,
            source: table.need_text("source")?,
            claim: table.need_text("claim")?,
            tier: table.need("tier", "2 or 3", |value| count(value, 2, 3))?,
            seeds: table.get("seeds", "a whole number from 1", |value| count(value, 1, u64::MAX))?.unwrap_or(5),
            short: table.texts("short")?,
            explanation: table.text("explanation")?.unwrap_or_default(),
            parameters: table.get("parameters", "a table of texts", parameters)?.unwrap_or_default(),
            scenario: plain_table(source, table.within("scenario", "a scenario of hil sim")?.entries())?,
            presets: presets(&table)?,
            axes: table.tables("axes")?.iter().map(Axis::of).collect::<Result<_>>()?,
            except: table.get("except", "an array of arrays of points", lists)?.unwrap_or_default(),
            values: table.tables("values")?.iter().map(Value::of).collect::<Result<_>>()?,
            figures: table.tables("figures")?.iter().map(Figure::of).collect::<Result<_>>()?,
        };
        table.finish()?;
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
        ensure!(!self.values.is_empty(), "values: expected at least one");
        let mut points = SortedSet::new();
        for point in self.axes.iter().flat_map(|axis| &axis.points) {
            ensure!(points.insert(&point.name), "two points are named {:?}", point.name);
        }
        let named = self.except.iter().flatten().chain(self.values.iter().flat_map(|value| &value.only));
        let of_figures = self.figures.iter().flat_map(|figure| &figure.case).chain(self.short.iter().flatten());
        for name in named.chain(of_figures) {
            ensure!(points.contains(name), "no axis has a point {name:?}");
        }
        let mut values = SortedSet::new();
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

fn parameters(value: &DeValue<'_>) -> Option<SortedMap<String, String>> {
    let entry = |(name, value): (&Spanned<DeString<'_>>, &scenario::Value<'_>)| {
        Some((name.get_ref().to_string(), text(value.get_ref())?.to_owned()))
    };
    value.as_table()?.iter().map(entry).collect()
}

fn presets(table: &Table<'_>) -> Result<SortedMap<String, Set>> {
    let Some(presets) = table.find("presets") else { return Ok(SortedMap::new()) };
    let source = table.source();
    let preset = |(name, set): (&Spanned<DeString<'_>>, &scenario::Value<'_>)| {
        Ok((name.get_ref().to_string(), plain_table(source, Table::of(source, set)?.entries())?))
    };
    Table::of(source, presets)?.entries().iter().map(preset).collect()
}

/// Two numbers.
fn range(value: &DeValue<'_>) -> Option<[f64; 2]> {
    let [from, to] = &value.as_array()?[..] else { return None };
    Some([number(from.get_ref())?, number(to.get_ref())?])
}

fn lists(value: &DeValue<'_>) -> Option<Vec<Vec<String>>> {
    value.as_array()?.iter().map(|list| texts(list.get_ref())).collect()
}

impl Axis {
    fn of(table: &Table<'_>) -> Result<Self> {
        let points = table.tables("points")?.iter().map(Point::of).collect::<Result<_>>()?;
        let axis = Self { name: table.need_text("name")?, points };
        table.finish()?;
        Ok(axis)
    }
}

impl Point {
    fn of(table: &Table<'_>) -> Result<Self> {
        let source = table.source();
        let set = table.find("set").map(|set| plain_table(source, Table::of(source, set)?.entries()));
        let set = set.transpose()?.unwrap_or_default();
        let point = Self { name: table.need_text("name")?, x: table.number("x")?, set };
        table.finish()?;
        Ok(point)
    }
}

impl Value {
    fn of(table: &Table<'_>) -> Result<Self> {
        let source = table.source();
        let overs = [("each", Over::Each), ("mean", Over::Mean), ("median", Over::Median)];
        let value = Self {
            name: table.need_text("name")?,
            unit: table.text("unit")?.unwrap_or_default(),
            measure: table.find("measure").map(|measure| Measure::of(source, measure)).transpose()?,
            ratio: table.find("ratio").map(|ratio| Ratio::of(&Table::of(source, ratio)?)).transpose()?,
            per: table.number("per")?.unwrap_or(1.0),
            only: table.texts("only")?.unwrap_or_default(),
            over: table.one_of("over", &overs)?.unwrap_or_default(),
            at_least: table.number("at_least")?,
            at_most: table.number("at_most")?,
            paper: table.text("paper")?.unwrap_or_default(),
            claim: table.get("claim", "two numbers, such as [0.9, 1.0]", range)?,
        };
        table.finish()?;
        Ok(value)
    }
}

impl Ratio {
    fn of(table: &Table<'_>) -> Result<Self> {
        let ratio = Self { value: table.need_text("value")?, of: table.need_text("of")?, to: table.need_text("to")? };
        table.finish()?;
        Ok(ratio)
    }
}

impl Figure {
    fn of(table: &Table<'_>) -> Result<Self> {
        let interval = table.get("interval_us", "a whole number from 1", |value| count(value, 1, 1 << 40))?;
        let figure = Self {
            name: table.need_text("name")?,
            value: table.text("value")?,
            over: table.text("over")?,
            series: table.text("series")?,
            case: table.texts("case")?.unwrap_or_default(),
            at: table.text("at")?,
            interval_us: interval.unwrap_or(100),
        };
        table.finish()?;
        Ok(figure)
    }
}
