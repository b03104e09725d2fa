//! Routes: the shortest paths from each switch, by hops, and the choice among equals by a hash of the flow.
//!
//! What is kept is the distance between each two switches (a byte each: 2.6 MB for the 1,620 switches of a fat-tree with 11,664
//! hosts). The ports that lead on are computed from it when a flow begins.

use super::topology::{Kind, Topology};
use anyhow::{Result, bail};

/// What the choice among equal paths depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowTuple {
    /// Network address of the sender.
    pub source: u32,
    /// Network address of the receiver.
    pub destination: u32,
    /// UDP source port in the low half, destination port in the high one.
    pub ports: u32,
}

impl FlowTuple {
    /// That of packets in the other direction.
    pub const fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source, ports: self.ports.rotate_left(16) }
    }
}

/// Not to be reached.
const NEVER: u8 = u8::MAX;
/// The number of a switch among the switches, of a host.
const NO_SWITCH: u32 = u32::MAX;

/// The routes of a topology.
#[derive(Debug)]
pub(crate) struct Routes {
    /// Hops between switches, by their numbers among the switches.
    distances: Vec<u8>,
    switches: usize,
    /// The number of each node among the switches.
    numbers: Vec<u32>,
    /// Where the ports of each node begin in `peers`; one more entry ends the last.
    first_ports: Vec<u32>,
    /// The node at the other end of each port, and that node's port.
    peers: Vec<u32>,
    peer_ports: Vec<u32>,
    /// Equal ports are tried from the one that leads to the node with the highest number, not from the first.
    descending: bool,
}

impl Routes {
    /// Computes the distances of a topology, whose ports have these peers: see [`super::Network`].
    ///
    /// # Errors
    /// A path is longer than 254 hops.
    pub(crate) fn new(
        topology: &Topology,
        first_ports: Vec<u32>,
        (peers, peer_ports): (Vec<u32>, Vec<u32>),
        descending: bool,
    ) -> Result<Self> {
        let mut switches = 0;
        let numbers: Vec<u32> = topology
            .nodes
            .iter()
            .map(|kind| match kind {
                Kind::Host => NO_SWITCH,
                _ => {
                    switches += 1;
                    switches - 1
                }
            })
            .collect();
        let count = switches as usize;
        let mut routes = Self {
            distances: vec![NEVER; count * count],
            switches: count,
            numbers,
            first_ports,
            peers,
            peer_ports,
            descending,
        };
        let (mut frontier, mut next) = (Vec::new(), Vec::new());
        for (node, _) in (0u32..).zip(&topology.nodes).filter(|&(_, &kind)| kind != Kind::Host) {
            let row = routes.numbers[node as usize] as usize * count;
            let mut distances = std::mem::take(&mut routes.distances);
            distances[row + routes.numbers[node as usize] as usize] = 0;
            frontier.push(node);
            for hops in 1.. {
                for &from in &frontier {
                    for &to in routes.peers_of(from) {
                        let Some(place) = routes.switch(to) else { continue };
                        if distances[row + place] == NEVER {
                            if hops == NEVER {
                                bail!("the path from node {node} to node {to} is longer than 254 hops");
                            }
                            distances[row + place] = hops;
                            next.push(to);
                        }
                    }
                }
                frontier.clear();
                std::mem::swap(&mut frontier, &mut next);
                if frontier.is_empty() {
                    break;
                }
            }
            routes.distances = distances;
        }
        Ok(routes)
    }

    /// The first port of a node, counted over all nodes.
    pub(crate) fn first_port(&self, node: u32) -> u32 {
        self.first_ports[node as usize]
    }

    /// The nodes at the other ends of a node's ports.
    fn peers_of(&self, node: u32) -> &[u32] {
        &self.peers[self.first_ports[node as usize] as usize..self.first_ports[node as usize + 1] as usize]
    }

    /// The number of a node among the switches; `None` for a host.
    fn switch(&self, node: u32) -> Option<usize> {
        let number = self.numbers[node as usize];
        (number != NO_SWITCH).then_some(number as usize)
    }

    /// Hops from a node to a host; `None` if there is no path. A host does not forward.
    fn distance(&self, from: u32, to: u32) -> Option<u8> {
        if from == to {
            return Some(0);
        }
        let direct = self.peers_of(to).contains(&from);
        if direct {
            return Some(1);
        }
        let row = self.switch(from)? * self.switches;
        let ends = self.peers_of(to).iter().filter_map(|&peer| self.switch(peer));
        ends.map(|end| self.distances[row + end]).min().filter(|&hops| hops != NEVER).map(|hops| hops + 1)
    }

    /// The port, counted over all nodes, by which a node sends packets of a flow on to the host `to`; `None` if there is no
    /// path.
    pub(crate) fn next(&self, from: u32, to: u32, tuple: FlowTuple) -> Option<u32> {
        // The last link: the node may have many ports, and the host has one.
        if let [peer] = self.peers_of(to)
            && *peer == from
        {
            return Some(self.peer_ports[self.first_ports[to as usize] as usize]);
        }
        let is_host = self.switch(from).is_none();
        let onward = |peer: u32| {
            if is_host && peer != to && self.switch(peer).is_none() { None } else { self.distance(peer, to) }
        };
        let best = self.peers_of(from).iter().filter_map(|&peer| onward(peer)).min()?;
        let first = self.first_ports[from as usize];
        let mut equal: Vec<(u32, u32)> = (first..)
            .zip(self.peers_of(from))
            .filter(|&(_, &peer)| onward(peer) == Some(best))
            .map(|(port, &peer)| (peer, port))
            .collect();
        if self.descending {
            equal.sort_by_key(|&(peer, port)| (std::cmp::Reverse(peer), port));
        }
        let choice = if equal.len() == 1 {
            0
        } else {
            hash(&[tuple.source, tuple.destination, tuple.ports], from) as usize % equal.len()
        };
        Some(equal[choice].1)
    }
}

/// MurmurHash3 (x86, 32 bits; Austin Appleby, public domain) of whole words.
fn hash(words: &[u32], seed: u32) -> u32 {
    let mixed = words.iter().fold(seed, |hash, word| {
        let mixed = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        (hash ^ mixed).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    let hash = mixed ^ (4 * words.len() as u32);
    let hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors that are published for the hash: no bytes, four bytes 0xff, 0x21436587, and "aaaa".
    #[test]
    fn the_hash_is_murmur3() {
        assert_eq!(hash(&[], 0), 0);
        assert_eq!(hash(&[], 1), 0x514e_28b7);
        assert_eq!(hash(&[u32::MAX], 0), 0x7629_3b50);
        assert_eq!(hash(&[0x8765_4321], 0), 0xf55b_516b);
        assert_eq!(hash(&[0x8765_4321], 0x5082_edee), 0x2362_f9de);
        assert_eq!(hash(&[u32::from_le_bytes(*b"aaaa")], 0x9747_b28c), 0x5a97_808a);
        let words = [*b"aaaa", *b"bbbb", *b"cccc"].map(u32::from_le_bytes);
        assert_ne!(hash(&words, 0), hash(&words, 1));
    }
}
