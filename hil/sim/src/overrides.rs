//! Variants of a scenario: values by their paths, what replaces them, and where they are in a text.
//!
//! A path has the keys of tables and the numbers of elements, from 0, with `/` between them: `stages/0/kmin`.

use crate::scenario;
use crate::source::Source;
use anyhow::{Context, Result, anyhow, bail};
use std::ops::Range;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

/// A value of a text without its place, by which it could replace another.
///
/// # Errors
/// A whole number of more than 64 bits, with its place.
pub fn plain(source: &Source, value: &scenario::Value<'_>) -> Result<Value> {
    let beyond = |number: &str| source.error(&value.span(), &format!("expected a number of 64 bits, not {number}"));
    Ok(match value.get_ref() {
        DeValue::String(text) => Value::String(text.clone().into_owned()),
        DeValue::Integer(number) => {
            let digits = i64::from_str_radix(number.as_str(), number.radix());
            Value::Integer(digits.map_err(|_| beyond(number.as_str()))?)
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().map_err(|_| beyond(number.as_str()))?),
        DeValue::Boolean(truth) => Value::Boolean(*truth),
        DeValue::Datetime(time) => Value::Datetime(*time),
        DeValue::Array(elements) => {
            Value::Array(elements.iter().map(|element| plain(source, element)).collect::<Result<_>>()?)
        }
        DeValue::Table(entries) => Value::Table(plain_table(source, entries)?),
    })
}

/// As [`plain`], of a table.
///
/// # Errors
/// Those of [`plain`].
pub fn plain_table(source: &Source, entries: &DeTable<'_>) -> Result<Table> {
    entries.iter().map(|(name, value)| Ok((name.get_ref().clone().into_owned(), plain(source, value)?))).collect()
}

/// A scenario as text.
///
/// # Errors
/// None of its values can be the reason.
pub fn text(scenario: &Table) -> Result<String> {
    Ok(toml::to_string(scenario)?)
}

/// Replaces the value with a path. Its last key need not be there.
///
/// # Errors
/// The path leads to nothing.
pub fn replace(scenario: &mut Table, path: &str, value: &Value) -> Result<()> {
    let (parents, key) = path.rsplit_once('/').map_or((None, path), |(parents, key)| (Some(parents), key));
    let mut place = scenario;
    let mut parts = parents.into_iter().flat_map(|parents| parents.split('/')).peekable();
    while let Some(part) = parts.next() {
        let entry = place.get_mut(part).with_context(|| format!("{path}: the scenario has no `{part}`"))?;
        let inner = match entry {
            Value::Array(elements) => {
                let number = parts.next().and_then(|number| number.parse::<usize>().ok());
                let number =
                    number.with_context(|| format!("{path}: expected the number of an element of `{part}`"))?;
                elements.get_mut(number).with_context(|| format!("{path}: `{part}` has no element {number}"))?
            }
            other => other,
        };
        place = inner.as_table_mut().ok_or_else(|| anyhow!("{path}: `{part}` is not a table"))?;
    }
    if key.is_empty() {
        bail!("{path}: expected a key at its end");
    }
    place.insert(key.to_owned(), value.clone());
    Ok(())
}

/// All combinations of one element of each list; those of the last list change fastest.
pub fn combinations<'a, T>(lists: impl IntoIterator<Item = &'a [T]>) -> Vec<Vec<&'a T>> {
    let extend = |all: Vec<Vec<&'a T>>, list: &'a [T]| {
        let with = |before: Vec<&'a T>| list.iter().map(move |element| [before.as_slice(), &[element]].concat());
        all.into_iter().flat_map(with).collect()
    };
    lists.into_iter().fold(vec![Vec::new()], extend)
}

/// A path in a text, and whether its key is meant and not its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The path; empty for the whole text.
    pub path: String,
    /// The place is that of the key.
    pub is_key: bool,
}

impl Place {
    /// What is at a place of a text, such as that of an error.
    pub fn of(text: &DeTable<'_>, at: &Range<usize>) -> Self {
        let whole = Self { path: String::new(), is_key: false };
        entries(text).into_iter().find(|entry| entry.2 == *at).map_or(whole, |(path, is_key, _)| Self { path, is_key })
    }

    /// Where it is in a text; of something that is not there the place of what would have it.
    pub fn find(&self, text: &DeTable<'_>) -> Range<usize> {
        let entries = entries(text);
        let mut path = self.path.as_str();
        loop {
            let is_it = |entry: &&(String, bool, Range<usize>)| entry.0 == path && entry.1 == self.is_key;
            if let Some((.., at)) = entries.iter().find(is_it) {
                return at.clone();
            }
            match path.rsplit_once('/') {
                Some((parent, _)) => path = parent,
                None => return 0..0,
            }
        }
    }
}

/// The places of all keys and values of a text: the path, whether it is the key's, and the place.
fn entries(text: &DeTable<'_>) -> Vec<(String, bool, Range<usize>)> {
    fn of_value(path: String, value: &Spanned<DeValue<'_>>, found: &mut Vec<(String, bool, Range<usize>)>) {
        found.push((path.clone(), false, value.span()));
        match value.get_ref() {
            DeValue::Array(elements) => {
                let elements = (0usize..).zip(elements);
                elements.for_each(|(number, element)| of_value(format!("{path}/{number}"), element, found));
            }
            DeValue::Table(table) => of_table(&format!("{path}/"), table, found),
            _ => {}
        }
    }
    fn of_table(before: &str, table: &DeTable<'_>, found: &mut Vec<(String, bool, Range<usize>)>) {
        for (key, value) in table {
            let path = format!("{before}{}", key.get_ref());
            found.push((path.clone(), true, key.span()));
            of_value(path, value, found);
        }
    }
    let mut found = Vec::new();
    of_table("", text, &mut found);
    found
}
