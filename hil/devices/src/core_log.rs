//! The log of cores: a line for each event that a core has handled, from which the library decides the same again.

use super::core_queue::Entry;
use super::follower::Follower;
use super::reference::{Handled, Reference};
use anyhow::{Context, Result, ensure};
use hil_cores::board::{Action, LogRecord, PacerStore};
use programs::descriptor::Descriptor;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What the columns of a line are.
pub const HEADER: &str = "# node part core began_cycle arrived_ns descriptor frame actions: the descriptor's words and the frame are hexadecimal, \
    and - for a timer interrupt. Each action has the cycle of its store: pace:CYCLE:slot:rate:window:hold, frame:CYCLE:bytes, \
    log:CYCLE:kind:time:index and, of a switch, stage:CYCLE:words and read:CYCLE:queue:bytes. Cycles count from time 0; a rate is in 2^-24 bytes per ns, a time in ns";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// The line of an event that a core has handled, without the end of the line: the core runs this part of a host's NIC, or the
/// stages of a switch.
pub fn line(node: u32, part: &str, entry: &Entry) -> String {
    let Entry { core, began, handled: Handled { descriptor, actions } } = entry;
    let mut line = format!("{node} {part} {core} {began}");
    let _ = match descriptor {
        None => write!(line, " - - -"),
        Some((descriptor, frame)) => {
            let words: Vec<u8> = descriptor.to_words().into_iter().flat_map(u32::to_be_bytes).collect();
            let frame = if frame.is_empty() { "-".to_owned() } else { hex(frame) };
            write!(line, " {} {} {frame}", descriptor.now(), hex(&words))
        }
    };
    for (cycle, action) in actions {
        let _ = match action {
            Action::Pace(PacerStore { index, rate, window, hold }) => {
                write!(line, " pace:{cycle}:{index}:{rate}:{window}:{hold}")
            }
            Action::Frame(frame) => write!(line, " frame:{cycle}:{}", hex(frame)),
            Action::Log(LogRecord { kind, now, index }) => write!(line, " log:{cycle}:{kind}:{now}:{index}"),
            Action::Stage(words) => {
                let words: Vec<String> = words.iter().map(u32::to_string).collect();
                write!(line, " stage:{cycle}:{}", words.join(":"))
            }
            Action::Read { queue, bytes } => write!(line, " read:{cycle}:{queue}:{bytes}"),
        };
    }
    line
}

fn action(text: &str) -> Option<(u64, Action)> {
    let mut fields = text.split(':');
    let name = fields.next()?;
    let cycle = fields.next()?.parse().ok()?;
    if name == "frame" {
        return Some((cycle, Action::Frame(bytes(fields.next()?)?)));
    }
    if name == "stage" {
        return Some((cycle, Action::Stage(fields.map(|word| word.parse().ok()).collect::<Option<_>>()?)));
    }
    let mut number = || fields.next()?.parse::<u64>().ok();
    let mut word = || u32::try_from(number()?).ok();
    let action = match name {
        "pace" => Action::Pace(PacerStore { index: word()?, rate: word()?, window: word()?, hold: word()? }),
        "read" => Action::Read { queue: word()?, bytes: word()? },
        "log" => Action::Log(LogRecord { kind: word()?, now: number()?, index: u32::try_from(number()?).ok()? }),
        _ => return None,
    };
    Some((cycle, action))
}

/// Node, part and event of a line.
///
/// # Errors
/// It is not as [`line()`] makes it.
pub fn parse(line: &str) -> Result<(u32, String, Entry)> {
    let read = || {
        let mut fields = line.split(' ');
        let (node, part) = (fields.next()?.parse().ok()?, fields.next()?.to_owned());
        let (core, began) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let (_, words, frame) = (fields.next()?, fields.next()?, fields.next()?);
        let descriptor = if words == "-" {
            None
        } else {
            let words = bytes(words)?;
            let words: Vec<u32> =
                words.chunks_exact(4).map_while(|word| Some(u32::from_be_bytes(*word.first_chunk()?))).collect();
            let frame = if frame == "-" { Vec::new() } else { bytes(frame)? };
            Some((Descriptor::from_words(words.try_into().ok()?), frame))
        };
        let actions = fields.map(action).collect::<Option<_>>()?;
        Some((node, part, Entry { core, began, handled: Handled { descriptor, actions } }))
    };
    read().with_context(|| format!("{line:?}: expected a line of a core's log: {HEADER}"))
}

/// Decides natively what the cores of a log have decided.
pub struct Check<N> {
    cores: BTreeMap<(u32, String, usize), Follower<N>>,
}

impl<N> Default for Check<N> {
    fn default() -> Self {
        Self { cores: BTreeMap::new() }
    }
}

impl<N: Reference> Check<N> {
    /// Takes the next event of a node. `native` makes a NIC or a switch that has handled nothing.
    ///
    /// # Errors
    /// The library decides otherwise, or the descriptor and the frame of the event do not go together.
    pub fn take(&mut self, node: u32, part: &str, entry: &Entry, native: impl FnOnce() -> Result<N>) -> Result<()> {
        let follower = match self.cores.entry((node, part.to_owned(), entry.core)) {
            std::collections::btree_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => place.insert(Follower::new(native()?)),
        };
        follower.check(&entry.handled)?;
        let difference = follower.difference();
        ensure!(
            difference.is_none(),
            "node {node}, {part}, core {}: {}",
            entry.core,
            difference.map(|found| found.to_string()).unwrap_or_default()
        );
        Ok(())
    }

    /// Events compared, of all cores.
    pub fn events(&self) -> u64 {
        self.cores.values().map(Follower::events).sum()
    }
}
