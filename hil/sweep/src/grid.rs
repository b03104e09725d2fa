//! The form of a sweep's file, and its points: scenarios with their seeds.

use crate::values::check_name;
use anyhow::{Error, Result};
use hil_sim::input::Input;
use hil_sim::overrides::{Place, combinations, plain, plain_table, replace, text};
use hil_sim::scenario::{self, Table, Value};
use hil_sim::source::{EMPTY_HASH, Misplaced, Source, fnv};
use hil_sorted::SortedSet;
use std::ops::Range;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// The most points of a sweep.
const MOST_POINTS: usize = 1_000_000;

/// A sweep as its file describes it. README.md has the form, under "Sweeps".
#[derive(Debug)]
pub(crate) struct Grid {
    source: Source,
    scenario: Source,
    /// The scenario, whose values are replaced.
    base: toml::Table,
    /// What is varied: a point has one element of each list, with all its settings.
    lists: Vec<Vec<Vec<Setting>>>,
    seeds: Vec<u64>,
    /// The names of the values that are kept, in their order.
    pub(crate) values: Vec<String>,
    values_at: Vec<Range<usize>>,
}

/// A value of the scenario that a point replaces.
#[derive(Debug)]
struct Setting {
    /// Its path in the scenario, see [`hil_sim::overrides`].
    path: String,
    value: toml::Value,
    /// The places of its key and its value in the grid.
    key_at: Range<usize>,
    value_at: Range<usize>,
}

/// A point: the scenario with these values, and a seed.
#[derive(Debug)]
pub(crate) struct Point<'a> {
    settings: Vec<&'a Setting>,
    seed: u64,
}

impl Grid {
    /// Reads a grid and the scenario that it names.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let source = Source::read(path)?;
        let root = source.toml()?;
        let table = Table::new(&source, 0..0, root.get_ref());
        let file = table.need("scenario", "the file name of a scenario", |value| Some(value.as_str()?.to_owned()))?;
        let at = |key| table.find(key).map_or(0..0, Value::span);
        let scenario = Source::read(&source.beside(&file));
        let scenario = scenario.map_err(|error| source.error(&at("scenario"), &format!("{error:#}")))?;
        let base = plain_table(&scenario, scenario.toml()?.get_ref())?;
        let what = "a number of seeds, or a list of different seeds such as [1, 2]";
        let seeds = table.get("seeds", what, seeds)?.unwrap_or_else(|| vec![1]);
        let what = "a list of names of values in the JSON of hil sim, such as [\"slowdown.p99\"]";
        let values = table.need("values", what, |value| names(value).filter(|names| !names.is_empty()))?;
        let mut lists = Vec::new();
        if let Some(grid) = table.find("grid") {
            lists = leaves(&source, grid)?.iter().map(|leaf| leaf.list(&source)).collect::<Result<_>>()?;
        }
        if let Some(points) = table.find("points") {
            let elements = points.get_ref().as_array().filter(|elements| !elements.is_empty()).ok_or_else(|| {
                source.error(&points.span(), "expected [[points]], each a table of values of the scenario")
            })?;
            let point = |point| leaves(&source, point)?.iter().map(|leaf| leaf.setting(&source, leaf.value)).collect();
            lists.push(elements.iter().map(point).collect::<Result<_>>()?);
        }
        table.finish()?;
        let (values, values_at) = values.into_iter().unzip();
        drop(root);
        let grid = Self { lists, seeds, values, values_at, scenario, base, source };
        grid.check()?;
        grid.check_values(check_name)?;
        Ok(grid)
    }

    fn check(&self) -> Result<()> {
        let counts = self.lists.iter().map(Vec::len).chain([self.seeds.len()]);
        let points = counts.fold(1usize, usize::saturating_mul);
        if points > MOST_POINTS {
            return Err(self.source.error(&(0..0), &format!("{points} points: expected at most {MOST_POINTS}")));
        }
        let mut before = SortedSet::new();
        for list in &self.lists {
            for setting in list.iter().flatten() {
                if setting.path == "seed" {
                    return Err(self.source.error(&setting.key_at, "expected the seeds in `seeds`"));
                }
                if before.contains(setting.path.as_str()) {
                    return Err(self.source.error(&setting.key_at, "is varied in [grid] too: expected it once"));
                }
            }
            before.extend(list.iter().flatten().map(|setting| setting.path.as_str()));
        }
        Ok(())
    }

    /// Checks the names of all values. An error is shown at the place of the name.
    pub(crate) fn check_values(&self, check: impl Fn(&str) -> Result<(), String>) -> Result<()> {
        let mut values = self.values.iter().zip(&self.values_at);
        values.try_for_each(|(name, at)| check(name).map_err(|message| self.source.error(at, &message)))
    }

    /// What differs between points: paths with dots, and the seed.
    pub(crate) fn columns(&self) -> Vec<String> {
        let paths: SortedSet<&str> = self.settings().map(|setting| setting.path.as_str()).collect();
        let names = paths.into_iter().map(|path| path.replace('/', "."));
        names.chain(["seed".to_owned()]).collect()
    }

    fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.lists.iter().flatten().flatten()
    }

    /// All points. The seed changes fastest.
    pub(crate) fn points(&self) -> Vec<Point<'_>> {
        let all = combinations(self.lists.iter().map(Vec::as_slice));
        let all = all.iter().map(|lists| lists.iter().copied().flatten().collect::<Vec<&Setting>>());
        all.flat_map(|settings| self.seeds.iter().map(move |&seed| Point { settings: settings.clone(), seed }))
            .collect()
    }

    /// The point in the columns of [`Grid::columns`]. A value that it does not replace is empty.
    pub(crate) fn cells(&self, point: &Point<'_>) -> Vec<String> {
        let paths: SortedSet<&str> = self.settings().map(|setting| setting.path.as_str()).collect();
        let cell = |path| {
            let setting = point.settings.iter().find(|setting| setting.path == path);
            setting.map_or(String::new(), |setting| match &setting.value {
                toml::Value::String(text) => text.clone(),
                other => other.to_string(),
            })
        };
        paths.into_iter().map(cell).chain([point.seed.to_string()]).collect()
    }

    /// What is simulated at a point.
    ///
    /// # Errors
    /// What is wrong with it, at its place in the grid if a value of the point is the reason, else in the scenario.
    pub(crate) fn input(&self, point: &Point<'_>) -> Result<Input> {
        let mut table = self.base.clone();
        for setting in &point.settings {
            let replaced = replace(&mut table, &setting.path, &setting.value);
            replaced.map_err(|error| self.source.error(&setting.key_at, &format!("{error:#}")))?;
        }
        let text = Source::of(self.scenario.path(), text(&table)?);
        scenario::parse(&text, Some(point.seed)).map_err(|error| self.at_its_place(point, &text, error))
    }

    /// An error in the text of a point, at the place in the user's files that it comes from.
    fn at_its_place(&self, point: &Point<'_>, text: &Source, error: Error) -> Error {
        let misplaced = error.downcast_ref::<Misplaced>().filter(|misplaced| misplaced.path == text.path());
        let (Some(Misplaced { at, message, .. }), Ok(root)) = (misplaced, text.toml()) else { return error };
        let place = Place::of(root.get_ref(), at);
        let is_within = |setting: &&&Setting| {
            place.path.strip_prefix(&setting.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        match (point.settings.iter().rev().find(is_within), self.scenario.toml()) {
            (Some(setting), _) if place.is_key && place.path == setting.path => {
                self.source.error(&setting.key_at, message)
            }
            (Some(setting), _) => self.source.error(&setting.value_at, message),
            (None, Ok(scenario)) => self.scenario.error(&place.find(scenario.get_ref()), message),
            (None, Err(error)) => error,
        }
    }

    /// The hash of all that decides the result of a point, in hexadecimal digits: its scenario and the files that this names, the
    /// seed, the values that are kept, and the sources of the simulator.
    pub(crate) fn hash(&self, point: &Point<'_>, input: &Input) -> String {
        let all = format!("{:016x} {} {:?} {}", input.hash, point.seed, self.values, hil_sim::SOURCES);
        format!("{:016x}", fnv(EMPTY_HASH, all.as_bytes()))
    }
}

/// A value in a table of the grid, by its path.
struct Leaf<'a> {
    path: String,
    key_at: Range<usize>,
    value: &'a Value<'a>,
}

/// The values in a table of the grid that are no tables.
fn leaves<'a>(source: &Source, value: &'a Value<'a>) -> Result<Vec<Leaf<'a>>> {
    fn below<'a>(before: &str, table: &'a DeTable<'a>, found: &mut Vec<Leaf<'a>>) {
        for (key, value) in table {
            let path = format!("{before}{}", key.get_ref());
            match value.get_ref() {
                DeValue::Table(table) => below(&format!("{path}/"), table, found),
                _ => found.push(Leaf { path, key_at: key.span(), value }),
            }
        }
    }
    let DeValue::Table(table) = value.get_ref() else {
        let message = format!("expected a table of values of the scenario, not a {}", value.get_ref().type_str());
        return Err(source.error(&value.span(), &message));
    };
    let mut found = Vec::new();
    below("", table, &mut found);
    Ok(found)
}

impl Leaf<'_> {
    /// Each element of a list, as the one setting of a point.
    fn list(&self, source: &Source) -> Result<Vec<Vec<Setting>>> {
        match self.value.get_ref() {
            DeValue::Array(elements) if !elements.is_empty() => {
                elements.iter().map(|element| Ok(vec![self.setting(source, element)?])).collect()
            }
            _ => Err(source.error(&self.value.span(), "expected a list of values such as [1, 2]")),
        }
    }

    fn setting(&self, source: &Source, value: &Value<'_>) -> Result<Setting> {
        let (path, key_at, value_at) = (self.path.clone(), self.key_at.clone(), value.span());
        Ok(Setting { path, value: plain(source, value)?, key_at, value_at })
    }
}

/// Seeds: so many from 1, or those of a list.
fn seeds(value: &DeValue<'_>) -> Option<Vec<u64>> {
    let number = |value: &DeValue<'_>| match value {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    let all: Vec<u64> = match value {
        DeValue::Array(elements) => elements.iter().map(|element| number(element.get_ref())).collect::<Option<_>>()?,
        other => (1..=number(other).filter(|&count| count <= MOST_POINTS as u64)?).collect(),
    };
    let different: SortedSet<&u64> = all.iter().collect();
    (!all.is_empty() && different.len() == all.len()).then_some(all)
}

/// Texts with their places.
fn names(value: &DeValue<'_>) -> Option<Vec<(String, Range<usize>)>> {
    let DeValue::Array(elements) = value else { return None };
    elements.iter().map(|element| Some((element.get_ref().as_str()?.to_owned(), element.span()))).collect()
}
