//! A machine's settings without its type.

use crate::quantity::{in_bytes, parse, range};
use crate::registry::UnknownName;
use anyhow::{Context, Result, bail, ensure};
use cc_core::params::{Field, Preset, Settings, Unit};
use hil_sorted::SortedMap;
use serde::Serialize;
use std::fmt;

/// The settings of a machine that is chosen at run time: its fields, and the value of each.
///
/// All code that reads, shows or changes settings works on it and is compiled once, not once for each algorithm.
#[derive(Clone, Debug)]
pub struct SettingsTable {
    fields: &'static [Field],
    words: Vec<u32>,
}

impl SettingsTable {
    /// The settings `settings`, as a table.
    pub fn of<S: Settings>(settings: &S) -> Self {
        let mut words = Vec::with_capacity(S::FIELDS.len());
        for index in 0..S::FIELDS.len() {
            words.push(settings.get(index));
        }
        Self { fields: S::FIELDS, words }
    }

    /// The settings as the machine's own type. Fields that the table lacks have the values of `first`.
    pub fn typed<S: Settings>(&self, first: S) -> S {
        programs::from_words(first, &self.words)
    }

    /// The fields, in order.
    pub fn fields(&self) -> &'static [Field] {
        self.fields
    }

    /// Their values in order, as the firmware takes them.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Every setting by name, as reports show them.
    pub fn shown(&self) -> SortedMap<&'static str, SettingValue> {
        self.fields.iter().zip(&self.words).map(|(field, &word)| (field.name, shown(field, word))).collect()
    }

    /// One line for each value that is counted in blocks: its size in bytes.
    pub fn in_bytes(&self) -> Vec<String> {
        let line = |(field, &word): (&Field, &u32)| {
            let bytes = in_bytes(field.unit, word)?;
            Some(format!("{} {word} is in {}: {bytes}", field.name, field.unit.symbol()))
        };
        self.fields.iter().zip(&self.words).filter_map(line).collect()
    }

    /// The longest time among the values, in nanoseconds.
    pub fn longest_time(&self) -> u64 {
        let time = |(field, &word): (&Field, &u32)| match field.unit {
            Unit::Micros => u64::from(word) * 1_000,
            Unit::Nanos => word.into(),
            _ => 0,
        };
        self.fields.iter().zip(&self.words).map(time).max().unwrap_or(0)
    }

    /// The index of a setting by its name or an alias, in any case.
    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        let is = |other: &&'static str| other.eq_ignore_ascii_case(name);
        self.fields.iter().position(|field| is(&field.name) || field.aliases.iter().any(is))
    }

    /// The same settings with these values, in the order of the fields; those that are missing stay.
    #[must_use]
    pub fn with_words(mut self, words: &[u32]) -> Self {
        self.words.iter_mut().zip(words).for_each(|(word, &value)| *word = value);
        self
    }

    /// Writes one setting, by its name or an alias in any case, as the user typed it.
    ///
    /// # Errors
    /// There is no such setting, or the value is out of its range or of the wrong kind.
    pub fn set(&mut self, name: &str, typed: &str) -> Result<()> {
        match self.index_of(name) {
            Some(index) => self.assign(index, typed),
            None => bail!(UnknownName::new("parameter", name, self.names())),
        }
    }

    /// The names and aliases of the fields.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.fields.iter().flat_map(|field| [field.name].into_iter().chain(field.aliases.iter().copied()))
    }

    /// Writes one setting as the user typed it.
    pub(crate) fn assign(&mut self, index: usize, typed: &str) -> Result<()> {
        let (field, word) = self.fields.get(index).zip(self.words.get_mut(index)).context("no such parameter")?;
        let value = parse(field, typed)?;
        if !(field.min..=field.max).contains(&value) {
            if field.name.ends_with("dscp") && value <= 255 {
                bail!("{}, not {typed}; a TOS byte of {value} is DSCP {}", range(field), value >> 2);
            }
            bail!("{}, not {typed}", range(field));
        }
        *word = value;
        Ok(())
    }
}

/// The names of presets. Their type differs by machine, so that all that is done with them is done for more than thirty types: here it
/// is only this.
pub(crate) fn names<S>(presets: &[Preset<S>]) -> Vec<&'static str> {
    let mut names = Vec::with_capacity(presets.len());
    for preset in presets {
        names.push(preset.name);
    }
    names
}

/// The preset of this name, or the first if `name` is `None`.
///
/// # Errors
/// No preset has this name.
pub fn preset<S>(algorithm: &str, presets: &'static [Preset<S>], name: Option<&str>) -> Result<&'static Preset<S>> {
    Ok(&presets[place(algorithm, &names(presets), name)?])
}

/// The place of a name among those of presets, or of the first if `name` is `None`.
fn place(algorithm: &str, names: &[&'static str], name: Option<&str>) -> Result<usize> {
    let Some(name) = name else {
        ensure!(!names.is_empty(), "the algorithm has no preset");
        return Ok(0);
    };
    let unknown = || UnknownName::new(&format!("preset of {algorithm}"), name, names.iter().copied()).into();
    names.iter().position(|other| *other == name).ok_or_else(unknown)
}

/// A setting as reports show it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// A number in the field's unit.
    Number(u32),
    /// One of its words.
    Word(&'static str),
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}

/// One value of a field, as reports show it.
fn shown(field: &Field, value: u32) -> SettingValue {
    match field.unit {
        Unit::Choice(words) => {
            words.get(value as usize).map_or(SettingValue::Number(value), |word| SettingValue::Word(word))
        }
        _ => SettingValue::Number(value),
    }
}

/// Every setting by name, as reports show them.
pub fn table<S: Settings>(settings: &S) -> SortedMap<&'static str, SettingValue> {
    SettingsTable::of(settings).shown()
}

/// The settings as the firmware takes them.
pub fn words<S: Settings>(settings: &S) -> Vec<u32> {
    SettingsTable::of(settings).words
}
