//! `topology.txt`: counts of nodes, switches and links (in one fork also of top-of-rack switches, before the links), the numbers of
//! the switches, and for each link its ends, rate, delay and error rate.

use super::units;
use crate::fabric::{Kind, Link, Topology};
use crate::source::Source;
use anyhow::Result;

/// The most nodes: the address of a node has 16 bits for its number.
const MOST_NODES: u32 = 1 << 16;

/// The topology of a file, and whether its first line has the fourth count, by which the fork ns3-datacenter is known.
pub(crate) fn read(source: &Source) -> Result<(Topology, bool)> {
    let mut words = source.words();
    let nodes: u32 = words
        .read("the number of nodes, at most 65536", |text| text.parse().ok().filter(|&nodes| nodes <= MOST_NODES))?;
    let switches: u32 = words.number("the number of switches")?;
    let count: u32 = words.number("the number of links, or of top-of-rack switches")?;
    let is_fork = source.first_line_words() == 4;
    let links: u32 = if is_fork { words.number("the number of links")? } else { count };
    let mut kinds = vec![Kind::Host; nodes as usize];
    let node = |text: &str| text.parse::<u32>().ok().filter(|&node| node < nodes);
    let expected = format!("a node below {nodes}");
    for _ in 0..switches {
        let number = words.read(&expected, node)?;
        kinds[number as usize] = Kind::Switch;
    }
    let links = (0..links)
        .map(|_| {
            let ends = [words.read(&expected, node)?, words.read(&expected, node)?];
            let bits_per_second =
                words.read("a rate such as 100Gbps", |text| units::rate(text).filter(|&rate| rate > 0))?;
            let delay = words.read("a delay such as 1us, below 1000000s", units::time)?;
            let loss = words.read("an error rate: a probability from 0 to 1", units::probability)?;
            Ok(Link { ends, bits_per_second, delay, loss })
        })
        .collect::<Result<_>>()?;
    if let Some(word) = words.next() {
        return Err(
            source.error(&word.at, "expected the end of the file: all links that the first line counts are read")
        );
    }
    Ok((Topology { nodes: kinds, links, ..Topology::default() }, is_fork))
}
