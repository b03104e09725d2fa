//! `.cm`: how many nodes and connections, and for each connection its ends, start and size:
//! `SOURCE->DESTINATION [id N] start PICOSECONDS size BYTES`.

use crate::source::{Source, Word, Words};
use crate::workload::HostFlow;
use anyhow::Result;

/// The flows of a file, in its order, between hosts below `hosts`.
pub(crate) fn read(source: &Source, hosts: u32) -> Result<Vec<HostFlow>> {
    let mut words = source.words_without_comments();
    let (mut nodes, mut count, mut flows) = (hosts, None, Vec::new());
    while let Some(word) = words.next() {
        match word.text.to_lowercase().as_str() {
            "nodes" => {
                let what = format!("a number of nodes: the topology has {hosts} hosts");
                nodes = words.read(&what, |text| text.parse().ok().filter(|&nodes| nodes <= hosts))?;
            }
            "connections" => {
                let number: Word<'_> = words.expect("the number of connections")?;
                count = Some(number.text.parse::<usize>().map_err(|_| {
                    source.error(&number.at, &format!("expected the number of connections, not `{}`", number.text))
                })?)
                .map(|count| (count, number.at));
            }
            "triggers" | "failures" => {
                words.read(
                    &format!("0: {} are not simulated; give a file without them", word.text.to_lowercase()),
                    |text| (text == "0").then_some(()),
                )?;
            }
            text if text.contains("->") => flows.push(connection(source, &word, &mut words, nodes)?),
            text => return Err(source.error(&word.at, &format!("expected a connection such as 0->1, not `{text}`"))),
        }
    }
    match count {
        Some((count, at)) if count != flows.len() => {
            Err(source.error(&at, &format!("expected {}: so many connections follow", flows.len())))
        }
        _ => Ok(flows),
    }
}

/// A connection, whose ends have been read.
fn connection(source: &Source, ends: &Word<'_>, words: &mut Words<'_>, nodes: u32) -> Result<HostFlow> {
    let end = |text: &str| text.parse().ok().filter(|&node: &u32| node < nodes);
    let pair = ends.text.split_once("->").and_then(|(from, to)| Some((end(from)?, end(to)?)));
    let Some((from, to)) = pair.filter(|(from, to)| from != to) else {
        let message = format!("expected two different nodes below {nodes}, not `{}`", ends.text);
        return Err(source.error(&ends.at, &message));
    };
    let (mut start, mut bytes) = (None, None);
    while let Some(key) = words.clone().next().filter(|word| !word.text.contains("->")) {
        words.next();
        match key.text {
            "start" => start = Some(words.number("picoseconds")?),
            "size" => bytes = Some(words.read("bytes, at least 1", |text| text.parse().ok().filter(|&size| size > 0))?),
            "id" | "prio" => {
                words.number::<u32>("a number")?;
            }
            text => {
                let message = match text {
                    "trigger" | "send_done_trigger" | "recv_done_trigger" => {
                        "triggers are not simulated; give a file without them".to_owned()
                    }
                    _ => format!("expected start, size, id or prio, not `{text}`"),
                };
                return Err(source.error(&key.at, &message));
            }
        }
    }
    match (start, bytes) {
        (Some(start), Some(bytes)) => Ok(HostFlow { source: from, destination: to, bytes, start }),
        _ => Err(source.error(&ends.at, "expected start and size after the ends of a connection")),
    }
}
