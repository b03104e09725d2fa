//! `.cm`: how many nodes, connections and triggers; for each connection its ends, start or trigger, and size; and for each trigger
//! its kind:
//!
//! ```text
//! SOURCE->DESTINATION [id N] (start PICOSECONDS | trigger N) size BYTES [send_done_trigger N] [recv_done_trigger N] [prio N]
//! trigger id N (oneshot | multishot | barrier count N)
//! ```

use crate::Picos;
use crate::dependencies::{Dependents, Milestone, Wait};
use crate::source::{Source, Word, Words};
use crate::workload::{HostFlow, HostFlows};
use anyhow::Result;
use std::collections::BTreeMap;
use std::ops::Range;

/// A trigger, whose parts are in any order in the file.
#[derive(Default)]
struct Trigger {
    kind: Option<Kind>,
    /// Where it was named first.
    at: Range<usize>,
    /// The connections that it starts, in the order of the file.
    targets: Vec<u32>,
    /// What activates it.
    activations: Vec<(u32, Milestone)>,
}

/// How a trigger starts its connections.
#[derive(Clone, Copy)]
enum Kind {
    /// The activation starts all of them. A second one is a fault of the file.
    OneShot,
    /// The n-th activation starts the n-th.
    MultiShot,
    /// The last of so many activations starts all of them.
    Barrier(u32),
}

/// The latest start, as in scenarios.
const TEN_DAYS: Picos = 864_000_000_000_000_000;

type Triggers = BTreeMap<u32, Trigger>;

/// The flows of a file, in its order, between hosts below `hosts`.
pub(crate) fn read(source: &Source, hosts: u32) -> Result<HostFlows> {
    let mut words = source.words_without_comments();
    let (mut nodes, mut counts) = (hosts, Vec::new());
    let (mut flows, mut places, mut triggers) = (Vec::new(), Vec::new(), Triggers::new());
    while let Some(word) = words.next() {
        match word.text.to_lowercase().as_str() {
            "nodes" => {
                let what = format!("a number of nodes: the topology has {hosts} hosts");
                nodes = words.read(&what, |text| text.parse().ok().filter(|&nodes| nodes <= hosts))?;
            }
            kind @ ("connections" | "triggers") => {
                let at = words.clone().next().map_or(word.at, |count| count.at);
                let count: usize = words.number(&format!("the number of {kind}"))?;
                counts.push((kind.to_owned(), count, at));
            }
            "failures" => {
                words.read("0: failures are not simulated; give a file without them", |text| {
                    (text == "0").then_some(())
                })?;
            }
            "trigger" => define(&mut words, &mut triggers)?,
            text if text.contains("->") => {
                flows.push(connection(source, &word, &mut words, (nodes, flows.len() as u32), &mut triggers)?);
                places.push(word.at);
            }
            text => {
                let message = format!("expected a connection such as 0->1, or a trigger, not `{text}`");
                return Err(source.error(&word.at, &message));
            }
        }
    }
    if flows.is_empty() {
        words.expect("a connection such as 0->1 start 0 size 1000")?;
    }
    let defined = triggers.values().filter(|trigger| trigger.kind.is_some()).count();
    for (kind, count, at) in counts {
        let found = if kind == "connections" { flows.len() } else { defined };
        if count != found {
            return Err(source.error(&at, &format!("expected {found}: so many {kind} follow")));
        }
    }
    let mut waits = Vec::new();
    for (number, trigger) in triggers {
        let at = trigger.at.clone();
        waits.extend(trigger.waits().map_err(|problem| source.error(&at, &format!("trigger {number} {problem}")))?);
    }
    match Dependents::unchecked(flows.len(), &waits)?.never_begins() {
        Some(flow) => {
            Err(source.error(&places[flow as usize], "the connection never begins: what it waits for waits for it"))
        }
        None => Ok(HostFlows { flows, waits, ..HostFlows::default() }),
    }
}

impl Trigger {
    /// What its connections wait for, or what is wrong with it.
    fn waits(self) -> Result<Vec<Wait>, String> {
        let Self { kind, targets, activations, .. } = self;
        let (count, activated) = (targets.len() as u32, activations.len() as u32);
        let wait = |(flow, needed)| Wait { flow, needed, on: activations.clone() };
        match kind {
            None => Err("has no definition such as trigger id 1 oneshot".to_owned()),
            Some(Kind::OneShot) if activated != 1 && count > 0 => {
                Err(format!("is activated {activated} times: expected once, or another kind of trigger"))
            }
            Some(Kind::Barrier(needed)) if activated != needed && count > 0 => {
                Err(format!("is activated {activated} times: expected its count, {needed}"))
            }
            Some(Kind::MultiShot) if activated < count => {
                Err(format!("is activated {activated} times: expected once for each of its {count} connections"))
            }
            Some(Kind::MultiShot) => Ok(targets.into_iter().zip(1..).map(wait).collect()),
            Some(Kind::OneShot | Kind::Barrier(_)) => {
                Ok(targets.into_iter().map(|flow| wait((flow, activated))).collect())
            }
        }
    }
}

/// The definition of a trigger, after its first word.
fn define(words: &mut Words<'_>, triggers: &mut Triggers) -> Result<()> {
    words.read("id", |text| (text == "id").then_some(()))?;
    let trigger = named(words, triggers)?;
    let what = "oneshot, multishot or barrier";
    let kind = words.read(what, |text| match text {
        "oneshot" => Some(Kind::OneShot),
        "multishot" => Some(Kind::MultiShot),
        "barrier" => Some(Kind::Barrier(0)),
        _ => None,
    })?;
    trigger.kind = Some(match kind {
        Kind::Barrier(_) => {
            words.read("count, after barrier", |text| (text == "count").then_some(()))?;
            Kind::Barrier(words.read("a count, at least 1", |text| text.parse().ok().filter(|&count| count > 0))?)
        }
        kind => kind,
    });
    Ok(())
}

/// The trigger of which the next word is the number.
fn named<'a>(words: &mut Words<'_>, triggers: &'a mut Triggers) -> Result<&'a mut Trigger> {
    let at = words.clone().next().map_or(0..0, |word| word.at);
    let number =
        words.read("the number of a trigger, at least 1", |text| text.parse().ok().filter(|&id: &u32| id > 0))?;
    Ok(triggers.entry(number).or_insert_with(|| Trigger { at, ..Trigger::default() }))
}

/// A connection, whose ends have been read; with the number of nodes, and its own number.
fn connection(
    source: &Source,
    ends: &Word<'_>,
    words: &mut Words<'_>,
    (nodes, number): (u32, u32),
    triggers: &mut Triggers,
) -> Result<HostFlow> {
    let end = |text: &str| text.parse().ok().filter(|&node: &u32| node < nodes);
    let pair = ends.text.split_once("->").and_then(|(from, to)| Some((end(from)?, end(to)?)));
    let Some((from, to)) = pair.filter(|(from, to)| from != to) else {
        let message = format!("expected two different nodes below {nodes}, not `{}`", ends.text);
        return Err(source.error(&ends.at, &message));
    };
    let (mut start, mut waits, mut bytes) = (None, false, None);
    loop {
        let mut next = words.clone();
        let Some(key) = next.next().filter(|word| !word.text.contains("->")) else { break };
        if key.text == "trigger" && next.next().is_some_and(|word| word.text == "id") {
            break;
        }
        words.next();
        match key.text {
            "start" => {
                let what = "picoseconds, less than 10 days (8.64e17)";
                start = Some(words.read(what, |text| text.parse().ok().filter(|&start| start < TEN_DAYS))?);
            }
            "size" => bytes = Some(words.bytes()?),
            "trigger" if waits => return Err(source.error(&key.at, "expected one trigger that starts the connection")),
            "trigger" => {
                named(words, triggers)?.targets.push(number);
                waits = true;
            }
            "send_done_trigger" => named(words, triggers)?.activations.push((number, Milestone::Acknowledged)),
            "recv_done_trigger" => named(words, triggers)?.activations.push((number, Milestone::Received)),
            "id" | "prio" => {
                words.number::<u32>("a number")?;
            }
            text => {
                let message = format!(
                    "expected start, trigger, size, send_done_trigger, recv_done_trigger, id or prio, not `{text}`"
                );
                return Err(source.error(&key.at, &message));
            }
        }
    }
    match (start, waits, bytes) {
        (Some(start), false, Some(bytes)) => Ok(HostFlow { source: from, destination: to, bytes, start }),
        (None, true, Some(bytes)) => Ok(HostFlow { source: from, destination: to, bytes, start: 0 }),
        _ => Err(source.error(&ends.at, "expected size, and either start or trigger, after the ends of a connection")),
    }
}
