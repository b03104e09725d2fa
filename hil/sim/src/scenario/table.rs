//! Tables of a TOML file, with errors that show the place.

use crate::Picos;
use crate::ns3::units;
use crate::source::{MOST_BYTES, Source};
use anyhow::{Error, Result};
use hil_algorithms::quantity;
use hil_algorithms::registry::{expected, is_near};
use hil_algorithms::settings::typed;
use std::cell::RefCell;
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value with its place.
pub type Value<'a> = Spanned<DeValue<'a>>;

/// A table, and which of its keys are known: those that were asked for.
#[derive(Debug)]
pub struct Table<'a> {
    pub(super) source: &'a Source,
    at: Range<usize>,
    entries: &'a DeTable<'a>,
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Table<'a> {
    /// The table with these entries, at this place of a text.
    pub fn new(source: &'a Source, at: Range<usize>, entries: &'a DeTable<'a>) -> Self {
        Self { source, at, entries, known: RefCell::default() }
    }

    /// The table that a value is.
    ///
    /// # Errors
    /// It is none, with its place.
    pub fn of(source: &'a Source, value: &'a Value<'a>) -> Result<Self> {
        match value.get_ref() {
            DeValue::Table(entries) => Ok(Self::new(source, value.span(), entries)),
            other => Err(source.error(&value.span(), &format!("expected a table, not a {}", other.type_str()))),
        }
    }

    /// The text that it is in.
    pub fn source(&self) -> &'a Source {
        self.source
    }

    /// Its entries.
    pub fn entries(&self) -> &'a DeTable<'a> {
        self.entries
    }

    /// An error about the whole table, at its beginning.
    pub fn error(&self, message: &str) -> Error {
        self.source.error(&self.at, message)
    }

    /// The text of a warning about the whole table.
    pub(super) fn note(&self, message: &str) -> String {
        self.source.note(&self.at, message)
    }

    /// The value of a key, if it is there.
    pub fn find(&self, key: &'static str) -> Option<&'a Value<'a>> {
        self.known.borrow_mut().push(key);
        self.entries.get(key)
    }

    /// A value as something, by a function that reads it; `None` if the key is not there.
    ///
    /// # Errors
    /// `read` returns `None`: `what` was expected.
    pub fn get<T>(
        &self,
        key: &'static str,
        what: &str,
        read: impl FnOnce(&DeValue<'_>) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.find(key) else { return Ok(None) };
        match read(value.get_ref()) {
            Some(read) => Ok(Some(read)),
            None => Err(self.unexpected(key, what, value)),
        }
    }

    /// The error for a value that is not what was expected; outside of [`Table::get`], of which there is one for each reader.
    fn unexpected(&self, key: &str, what: &str, value: &Value<'_>) -> Error {
        let given = self.source.text().get(value.span()).unwrap_or("");
        let given = given.lines().next().unwrap_or("");
        self.source.error(&value.span(), &format!("`{key}`: expected {what}, not `{given}`"))
    }

    /// As [`Table::get`], for a key that must be there.
    ///
    /// # Errors
    /// Those of [`Table::get`], and a key that is not there.
    pub fn need<T>(&self, key: &'static str, what: &str, read: impl FnOnce(&DeValue<'_>) -> Option<T>) -> Result<T> {
        match self.get(key, what, read)? {
            Some(value) => Ok(value),
            None => Err(self.missing(key, what)),
        }
    }

    /// The error for a key that is not there. A key that is near to it is the one that is meant.
    pub fn missing(&self, key: &str, what: &str) -> Error {
        let known = self.known.borrow();
        let is_unknown = |name: &str| !known.contains(&name);
        match self.entries.keys().find(|name| is_unknown(name.get_ref()) && is_near(name.get_ref(), key)) {
            Some(name) => {
                self.source.error(&name.span(), &format!("unknown key `{}`: did you mean {key}?", name.get_ref()))
            }
            None => self.error(&format!("no `{key}`: expected {what}")),
        }
    }

    /// The entries whose keys were not asked for.
    pub(super) fn others(&self) -> impl Iterator<Item = (&'a str, Range<usize>, &'a Value<'a>)> {
        let known = self.known.borrow().clone();
        self.entries
            .iter()
            .filter(move |(name, _)| !known.contains(&name.get_ref().as_ref()))
            .map(|(name, value)| (name.get_ref().as_ref(), name.span(), value))
    }

    /// Checks that all keys are known.
    ///
    /// # Errors
    /// One is not, with its place and the known keys.
    pub fn finish(&self) -> Result<()> {
        match self.others().next() {
            Some((name, at, _)) => {
                let expected = expected(name, self.known.borrow().iter().copied());
                Err(self.source.error(&at, &format!("unknown key `{name}`: {expected}")))
            }
            None => Ok(()),
        }
    }

    /// A word, one of a list.
    pub(super) fn choice<'b>(&self, key: &'static str, words: &'b [&'b str]) -> Result<&'b str> {
        let what = format!("one of {}", words.join(", "));
        self.need(key, &what, |value| words.iter().copied().find(|word| text(value) == Some(word)))
    }

    /// The value of a word, one of a list, if the key is there.
    ///
    /// # Errors
    /// Another word, or none.
    pub fn one_of<T: Copy>(&self, key: &'static str, values: &[(&str, T)]) -> Result<Option<T>> {
        self.get(key, &one_of(values), |value| {
            values.iter().find(|(word, _)| text(value) == Some(word)).map(|&(_, value)| value)
        })
    }

    /// As [`Table::one_of`], for a key that must be there.
    ///
    /// # Errors
    /// Those of [`Table::one_of`], and a key that is not there.
    pub fn need_one_of<T: Copy>(&self, key: &'static str, values: &[(&str, T)]) -> Result<T> {
        self.one_of(key, values)?.ok_or_else(|| self.missing(key, &one_of(values)))
    }

    /// A text, if the key is there.
    ///
    /// # Errors
    /// It is not a text.
    pub fn text(&self, key: &'static str) -> Result<Option<String>> {
        self.get(key, TEXT, |value| text(value).map(str::to_owned))
    }

    /// A text.
    ///
    /// # Errors
    /// It is not there, or not a text.
    pub fn need_text(&self, key: &'static str) -> Result<String> {
        self.text(key)?.ok_or_else(|| self.missing(key, TEXT))
    }

    /// Texts, if the key is there.
    ///
    /// # Errors
    /// It is not an array, or has an element that is not a text.
    pub fn texts(&self, key: &'static str) -> Result<Option<Vec<String>>> {
        self.get(key, "an array of texts", texts)
    }

    /// A number, which may have a fraction, if the key is there.
    ///
    /// # Errors
    /// It is not a number.
    pub fn number(&self, key: &'static str) -> Result<Option<f64>> {
        self.get(key, "a number", number)
    }

    /// The table that a key has.
    ///
    /// # Errors
    /// It is not there, or not a table.
    pub fn within(&self, key: &'static str, what: &str) -> Result<Self> {
        Self::of(self.source, self.find(key).ok_or_else(|| self.missing(key, what))?)
    }

    /// The tables of an array; none if the key is not there.
    ///
    /// # Errors
    /// It is not an array, or has an element that is not a table.
    pub fn tables(&self, key: &'static str) -> Result<Vec<Self>> {
        let elements = self.find(key).map_or(Ok(&[][..]), |value| array(self.source, value))?;
        elements.iter().map(|element| Self::of(self.source, element)).collect()
    }

    /// A whole number from `least` to `most`.
    pub(super) fn count(&self, key: &'static str, least: u32, most: u32) -> Result<u32> {
        self.need(key, &format!("a whole number from {least} to {most}"), |value| count(value, least, most))
    }

    /// A file of this name beside the scenario.
    pub(super) fn file(&self, key: &'static str) -> Result<PathBuf> {
        let name = self.need(key, "a file name", |value| text(value).map(str::to_owned))?;
        Ok(self.source.beside(&name))
    }
}

const TEXT: &str = "a text in quotes";

fn one_of<T>(values: &[(&str, T)]) -> String {
    let words: Vec<&str> = values.iter().map(|&(word, _)| word).collect();
    format!("one of {}", words.join(", "))
}

/// The elements of an array.
pub(super) fn array<'a>(source: &Source, value: &'a Value<'a>) -> Result<&'a [Value<'a>]> {
    match value.get_ref() {
        DeValue::Array(elements) => Ok(elements),
        other => Err(source.error(&value.span(), &format!("expected an array, not a {}", other.type_str()))),
    }
}

/// Strings.
pub fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    let elements = value.as_array()?;
    elements.iter().map(|element| text(element.get_ref()).map(str::to_owned)).collect()
}

/// A string.
pub fn text<'a>(value: &'a DeValue<'_>) -> Option<&'a str> {
    match value {
        DeValue::String(text) => Some(text),
        _ => None,
    }
}

/// A whole number in a range.
pub fn count<T: TryFrom<u64> + PartialOrd>(value: &DeValue<'_>, least: T, most: T) -> Option<T> {
    let DeValue::Integer(number) = value else { return None };
    let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
    T::try_from(number).ok().filter(|number| (least..=most).contains(number))
}

pub(super) const RATE: &str = "a rate with its unit such as \"100Gb/s\", from 1Mb/s to 2000Gb/s";
pub(super) const TIME: &str = "a time with its unit such as \"1.5us\", less than 10 days";
pub(super) const SIZE: &str = "a size such as 4096 or \"2MB\", from 1 byte to 1000 TB";

pub(super) const BUFFER_SIZE: &str = "a size such as 4096 or \"2MB\", from 0 to 4 GB";

/// Bytes, which may be none.
pub(super) fn count_or_size(value: &DeValue<'_>) -> Option<u32> {
    count(value, 0, u32::MAX).or_else(|| size(value)?.try_into().ok())
}

/// Hosts below `hosts`: numbers and ranges with both ends, separated by commas, each host once.
pub(super) fn hosts_of(value: &DeValue<'_>, hosts: u32) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for range in text(value)?.split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let [from, to] = [from, to].map(|host| host.trim().parse::<u32>().ok().filter(|&host| host < hosts));
        all.extend(from?..=to.filter(|&to| Some(to) >= from)?);
    }
    let mut sorted = all.clone();
    sorted.sort_unstable();
    sorted.dedup();
    (sorted.len() == all.len()).then_some(all)
}

/// A truth value.
pub(super) fn truth(value: &DeValue<'_>) -> Option<bool> {
    match value {
        DeValue::Boolean(truth) => Some(*truth),
        _ => None,
    }
}

/// A number, which may have a fraction.
pub fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(_) | DeValue::Float(_) => typed(value).parse().ok(),
        _ => None,
    }
}

/// A probability in units of 2^-32, at most 1 - 2^-32; one above zero is at least a unit.
pub(super) fn probability(value: &DeValue<'_>) -> Option<u32> {
    number(value)?;
    units::probability(&typed(value))
}

/// Bits per second.
pub(super) fn rate(value: &DeValue<'_>) -> Option<u64> {
    let rate = quantity::bits_per_second(text(value)?)?.round();
    (1e6..=2e12).contains(&rate).then_some(rate as u64)
}

/// Picoseconds.
pub(super) fn time(value: &DeValue<'_>) -> Option<Picos> {
    let picos = (quantity::nanoseconds(text(value)?)? * 1e3).round();
    (0.0..8.64e17).contains(&picos).then_some(picos as Picos)
}

/// Whether a time is between 1 us and 1000 s.
pub(super) fn is_span(time: &Picos) -> bool {
    (1_000_000..=1_000_000_000_000_000).contains(time)
}

/// Bytes, at least one.
pub(super) fn size(value: &DeValue<'_>) -> Option<u64> {
    match text(value) {
        Some(text) => {
            let bytes = quantity::size_in_bytes(text)?.round();
            (1.0..=MOST_BYTES as f64).contains(&bytes).then_some(bytes as u64)
        }
        None => count(value, 1, MOST_BYTES),
    }
}
