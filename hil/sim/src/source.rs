//! Text files that users write, and errors that show the place.

use anyhow::{Context, Error, Result, anyhow};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::DeTable;

/// The hash of no file.
pub const EMPTY_HASH: u64 = 0xcbf2_9ce4_8422_2325;

/// The hash (FNV-1a, 64 bits) of bytes, and of what `hash` is the hash of before them.
pub fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// An error at a place of a text file.
#[derive(Debug)]
pub struct Misplaced {
    /// The file.
    pub path: PathBuf,
    /// The place, in bytes from the beginning of the text.
    pub at: Range<usize>,
    /// What is wrong, and what was expected.
    pub message: String,
    shown: String,
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl std::error::Error for Misplaced {}

/// A text file.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            anyhow!("{}: byte {at} is not text: expected UTF-8", path.display())
        })?;
        Ok(Self { path: path.to_owned(), text })
    }

    /// A text in place of that of the file of this name.
    pub fn of(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// The hash (FNV-1a, 64 bits) of files whose hash so far is `hash`, and of this one.
    pub(crate) fn hash(&self, hash: u64) -> u64 {
        fnv(hash, self.text.as_bytes())
    }

    /// The words of the file.
    pub(crate) fn words(&self) -> Words<'_> {
        Words { source: self, at: 0, comments: false }
    }

    /// The words of the file without those from a `#` to the end of its line.
    pub(crate) fn words_without_comments(&self) -> Words<'_> {
        Words { source: self, at: 0, comments: true }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many words its first line has.
    pub(crate) fn first_line_words(&self) -> usize {
        self.text.lines().next().map_or(0, |line| line.split_whitespace().count())
    }

    /// A path in the file, which is relative to the file's own folder.
    pub fn beside(&self, path: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }

    /// An error at a place, with its line and a mark under it: a [`Misplaced`].
    pub fn error(&self, at: &Range<usize>, message: &str) -> Error {
        let (path, at, message, shown) = (self.path.clone(), at.clone(), message.to_owned(), self.note(at, message));
        Error::new(Misplaced { path, at, message, shown })
    }

    /// The text as TOML.
    ///
    /// # Errors
    /// It is none, with the place.
    pub fn toml(&self) -> Result<Spanned<DeTable<'_>>> {
        DeTable::parse(&self.text).map_err(|error| {
            let at = error.span().unwrap_or(0..0);
            self.error(&at, &format!("not TOML: {}", error.message().trim()))
        })
    }

    /// The text of an error or a warning at a place: the message, file, line and column, the line, and a mark under the place.
    pub(crate) fn note(&self, at: &Range<usize>, message: &str) -> String {
        let start = at.start.min(self.text.len());
        let line_start = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.text[line_start..].lines().next().unwrap_or("");
        let number = self.text[..start].matches('\n').count() + 1;
        let column = self.text[line_start..start].chars().count();
        let end = at.end.clamp(start, (line_start + line.len()).max(start));
        let width = self.text[start..end].chars().count().max(1);
        let margin = number.to_string().len();
        format!(
            "{message}\n{:margin$}--> {}:{number}:{}\n{:margin$} |\n{number} | {line}\n{:margin$} | {:column$}{}",
            "",
            self.path.display(),
            column + 1,
            "",
            "",
            "",
            "^".repeat(width)
        )
    }
}

/// A word of a file: characters between white space.
#[derive(Clone, Debug)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: Range<usize>,
}

/// The words of a file, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Words<'a> {
    source: &'a Source,
    at: usize,
    /// A `#` begins a comment.
    comments: bool,
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        let (start, rest) = loop {
            let rest = &self.source.text[self.at..];
            let start = self.at + rest.find(|letter: char| !letter.is_whitespace())?;
            let rest = &self.source.text[start..];
            if !self.comments || !rest.starts_with('#') {
                break (start, rest);
            }
            self.at = start + rest.find('\n').unwrap_or(rest.len());
        };
        let end = start + rest.find(char::is_whitespace).unwrap_or(rest.len());
        self.at = end;
        Some(Word { text: &self.source.text[start..end], at: start..end })
    }
}

/// The most bytes of a flow: 1000 TB.
pub(crate) const MOST_BYTES: u64 = 1_000_000_000_000_000;

impl<'a> Words<'a> {
    /// The next word, which must be there.
    pub(crate) fn expect(&mut self, what: &str) -> Result<Word<'a>> {
        self.next().ok_or_else(|| {
            let end = self.source.text.trim_end().len();
            self.source.error(&(end..end), &format!("the file ends here: expected {what}"))
        })
    }

    /// The next word as something, by a function that reads it.
    pub(crate) fn read<T>(&mut self, what: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T> {
        let word = self.expect(what)?;
        read(word.text).ok_or_else(|| self.source.error(&word.at, &format!("expected {what}, not `{}`", word.text)))
    }

    /// The next word as the bytes of a flow.
    pub(crate) fn bytes(&mut self) -> Result<u64> {
        self.read("bytes of a flow, from 1 to 10^15", |text| {
            text.parse().ok().filter(|bytes| (1..=MOST_BYTES).contains(bytes))
        })
    }

    /// The next word as a number.
    pub(crate) fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T> {
        self.read(what, |text| text.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_line_and_place() {
        let source = Source::of("a.txt", "one two\n  three four\n");
        let mut words = source.words();
        let all: Vec<_> = words.by_ref().map(|word| word.text).collect();
        assert_eq!(all, ["one", "two", "three", "four"]);
        let shown = source.words().nth(2).map(|word| source.note(&word.at, "bad")).unwrap();
        assert_eq!(shown, "bad\n --> a.txt:2:3\n  |\n2 |   three four\n  |   ^^^^^");
        let end = words.expect("a number").unwrap_err().to_string();
        assert!(end.starts_with("the file ends here: expected a number\n --> a.txt:2:13"), "{end}");
        assert!(source.words().number::<u32>("a number").unwrap_err().to_string().contains("not `one`"));
    }
}
