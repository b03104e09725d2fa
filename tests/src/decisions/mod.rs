//! Golden checksums of every decision of the library. They find a change in code that firmware and host share, which a
//! comparison of the two cannot find.
//!
//! A NIC with each algorithm and a switch with each stage receive random traffic. Their decisions are recorded as plain
//! integers ([`journal`]): rates, windows, holds, frames sent, verdicts, pauses. Counters are left out, and no record contains
//! a type of the library, so that a renamed or new type changes no checksum; only [`adapters`] uses those types. The golden
//! file has one checksum of a run's traffic, and one of each thousand decisions.

pub mod adapters;
pub mod journal;
pub mod traffic;

use journal::{CHUNK, Journal};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// The number of frames in a NIC's traffic.
const FRAMES: u32 = 12_000;
/// The number of events in a switch's traffic.
const EVENTS: u32 = 30_000;

/// The result of one algorithm or stage with one preset.
#[derive(Clone, Debug)]
pub struct Run {
    /// `nic`, `stage` or `synth`, the name of the algorithm or stage, and its preset and the link's speed where there are any.
    pub name: String,
    /// The traffic; empty for `synth`, whose hosts react to each other.
    pub input: Journal,
    /// The decisions.
    pub decisions: Journal,
}

impl Run {
    /// The run's name as a file name, with `-` for each space.
    pub fn file(&self) -> String {
        self.name.replace(' ', "-")
    }

    /// The run's line in the golden file.
    fn line(&self) -> String {
        let mut line =
            format!("{}: {} in {:08x}, {} out", self.name, self.input.len(), self.input.sum(), self.decisions.len());
        self.decisions.sums().iter().for_each(|sum| _ = write!(line, " {sum:08x}"));
        line
    }

    /// How the run differs from the golden file; `None` if it is equal.
    pub fn difference(&self, golden: &BTreeMap<String, String>) -> Option<String> {
        let Some(line) = golden.get(&self.name) else { return Some(format!("{}: not in the golden file", self.name)) };
        if *line == self.line() {
            return None;
        }
        let own = self.line();
        let parts = |line: &str| line.split_once(", ").map(|(input, output)| (input.to_owned(), output.to_owned()));
        let (Some((input, output)), Some((own_input, own_output))) = (parts(line), parts(&own)) else {
            return Some(format!("{}: the golden file's line cannot be read", self.name));
        };
        if input != own_input {
            return Some(format!("{}: the traffic differs", self.name));
        }
        // The checksums follow two words, the number of decisions and "out".
        let chunk = output
            .split(' ')
            .skip(2)
            .zip(own_output.split(' ').skip(2))
            .take_while(|(one, other)| one == other)
            .count();
        Some(format!(
            "{}: decisions differ first between record {} and {}",
            self.name,
            chunk * CHUNK,
            (chunk + 1) * CHUNK
        ))
    }
}

/// All runs whose name begins with the words of `prefix`. Their journals keep the text of records if `text` is set.
pub fn runs(prefix: &str, text: bool) -> Vec<Run> {
    let selected = |kind: &str, name: &&str| {
        format!("{kind} {name} ").starts_with(prefix) || prefix.starts_with(&format!("{kind} {name} "))
    };
    let nics = adapters::algorithms().filter(|name| selected("nic", name)).flat_map(|name| adapters::nic(name, text));
    let stages = adapters::stages().filter(|name| selected("stage", name)).flat_map(|name| adapters::stage(name, text));
    let synths = adapters::algorithms().filter(|name| selected("synth", name)).map(|name| adapters::synth(name, text));
    nics.chain(stages).chain(synths).filter(|run| format!("{} ", run.name).starts_with(prefix)).collect()
}

/// The path of the golden file.
pub fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/decisions.txt")
}

/// The lines of a golden file, by the name of the run.
pub fn golden(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| Some((line.split_once(':')?.0.to_owned(), line.to_owned()))).collect()
}

/// The text of the golden file for these runs.
pub fn write(runs: &[Run]) -> String {
    let mut file = HEAD.to_owned();
    runs.iter().for_each(|run| _ = writeln!(file, "{}", run.line()));
    file
}

const HEAD: &str = "\
# Decisions of every algorithm and every stage over random traffic: events that go in and their CRC-32, decisions that come
# out and the CRC-32 of each thousand. Written by `cargo run -p tests --example decisions -- --write`. Where a line differs,
# `--dump FOLDER` in the tree before the change and `--compare FOLDER` in the tree after it show the first difference.
";
