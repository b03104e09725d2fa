//! Routes: explicit ones, or else the shortest paths from each switch, by hops, and the choice among equals by a hash of the flow.
//!
//! What is kept is the distance between each two switches (a byte each: 2.6 MB for the 1,620 switches of a fat-tree with 11,664
//! hosts). The ports that lead on are computed from it when a flow begins.

use super::port::Port;
use super::topology::{Kind, Route, Topology};
use anyhow::{Result, bail, ensure};
use hil_sorted::SortedSet;
use std::collections::BTreeMap;
use std::ops::Range;

/// What the choice among equal paths depends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
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

/// How switches choose among equal paths.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum PathChoice {
    /// By a hash of the flow's tuple, with another seed at each switch (ECMP).
    #[default]
    Hash,
    /// By a hash that is the same for both directions of a flow, whose seed is the number of hops that are left, over ports in the
    /// order of the neighbours' numbers. Both directions take the same links where the switches of a tier are linked alike, such as
    /// in leaf-spines and fat-trees.
    SymmetricHash,
    /// Data packets at random, packet by packet; others by the hash.
    SprayRandom,
    /// Data packets in turn, for each switch and destination; others by the hash.
    SprayRoundRobin,
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
    /// The ports of explicit routes, by switch and host.
    explicit: BTreeMap<(u32, u32), Vec<u32>>,
    /// Equal ports are tried from the one that leads to the node with the highest number, not from the first.
    descending: bool,
    /// [`PathChoice::SymmetricHash`].
    is_symmetric: bool,
}

impl Routes {
    /// Computes the distances of a topology with these ports, where those of each node begin at these numbers.
    ///
    /// # Errors
    /// A path is longer than 254 hops. An explicit route is not from a switch over one of its links to a host, or explicit routes
    /// lead packets for a host in a circle.
    pub(super) fn new(
        topology: &Topology,
        (ports, first_ports): (&[Port], Vec<u32>),
        descending: bool,
        choice: PathChoice,
    ) -> Result<Self> {
        let (peers, peer_ports) = ports.iter().map(|port| (ports[port.peer as usize].node, port.peer)).unzip();
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
        let mut routes = Self {
            distances: Vec::new(),
            switches: switches as usize,
            numbers,
            first_ports,
            peers: Vec::new(),
            peer_ports,
            explicit: BTreeMap::new(),
            descending,
            is_symmetric: choice == PathChoice::SymmetricHash,
        };
        routes.compute(peers)?;
        for route in &topology.routes {
            let is_linked = || routes.peers_of(route.at).contains(&route.via);
            route.check(topology, is_linked)?;
            let links = routes.ports_of(route.at).filter(|&port| routes.peers[port as usize] == route.via);
            let links: Vec<u32> = links.collect();
            let ports = routes.explicit.entry((route.at, route.to)).or_default();
            ports.extend(links);
            ports.sort_unstable();
            ports.dedup();
        }
        let destinations: SortedSet<u32> = topology.routes.iter().map(|route| route.to).collect();
        for to in destinations {
            routes.check_circles(to)?;
        }
        Ok(routes)
    }

    /// Computes the distances if the ports have these peers. A port whose peer is its own node leads nowhere.
    ///
    /// # Errors
    /// A path is longer than 254 hops.
    pub(crate) fn compute(&mut self, peers: Vec<u32>) -> Result<()> {
        self.peers = peers;
        let mut distances = vec![NEVER; self.switches * self.switches];
        let (mut frontier, mut next) = (Vec::new(), Vec::new());
        for node in 0..self.numbers.len() as u32 {
            let Some(own) = self.switch(node) else { continue };
            let row = own * self.switches;
            distances[row + own] = 0;
            frontier.push(node);
            for hops in 1.. {
                for &from in &frontier {
                    for &to in self.peers_of(from) {
                        let Some(place) = self.switch(to) else { continue };
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
        }
        self.distances = distances;
        Ok(())
    }

    /// Checks that no packet for the host `to` can come to a switch twice.
    fn check_circles(&self, to: u32) -> Result<()> {
        let mut next = vec![Vec::new(); self.numbers.len()];
        let mut before = next.clone();
        for node in (0..self.numbers.len() as u32).filter(|&node| self.switch(node).is_some()) {
            let ports = self.onward(node, to).into_iter();
            next[node as usize] = ports.map(|port| self.peers[port as usize]).collect::<Vec<u32>>();
            next[node as usize].iter().for_each(|&peer| before[peer as usize].push(node));
        }
        // A node is in no circle if none of those that it sends to is.
        let mut open: Vec<usize> = next.iter().map(Vec::len).collect();
        let mut done: Vec<u32> = (0..open.len() as u32).filter(|&node| open[node as usize] == 0).collect();
        while let Some(node) = done.pop() {
            for &from in &before[node as usize] {
                open[from as usize] -= 1;
                if open[from as usize] == 0 {
                    done.push(from);
                }
            }
        }
        let Some(first) = open.iter().position(|&open| open > 0) else { return Ok(()) };
        let mut circle = vec![first as u32];
        loop {
            let next = next[circle[circle.len() - 1] as usize].iter().find(|&&node| open[node as usize] > 0);
            let next = *next.expect("each switch that is left sends to another one that is");
            if let Some(begin) = circle.iter().position(|&node| node == next) {
                circle.drain(..begin);
                circle.push(next);
                let names: Vec<String> = circle.iter().map(u32::to_string).collect();
                bail!("the routes lead packets for host {to} in a circle over the nodes {}", names.join(", "));
            }
            circle.push(next);
        }
    }

    /// The first port of a node, counted over all nodes.
    pub(crate) fn first_port(&self, node: u32) -> u32 {
        self.first_ports[node as usize]
    }

    /// A node's ports, counted over all nodes.
    fn ports_of(&self, node: u32) -> Range<u32> {
        self.first_ports[node as usize]..self.first_ports[node as usize + 1]
    }

    /// The nodes at the other ends of a node's ports.
    fn peers_of(&self, node: u32) -> &[u32] {
        let Range { start, end } = self.ports_of(node);
        &self.peers[start as usize..end as usize]
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

    /// The ports by which packets of a flow from one host to another leave each node; `None` if there is no path, or only one that is
    /// longer than 254 hops.
    pub(crate) fn path(&self, from: u32, to: u32, tuple: FlowTuple) -> Option<Vec<u32>> {
        let mut path = Vec::new();
        let mut node = from;
        while node != to {
            let port = self.next(node, to, tuple)?;
            path.push(port);
            node = self.peers[port as usize];
            // Explicit routes and shortest paths around a link that is down may lead in a circle.
            if path.len() >= usize::from(NEVER) {
                return None;
            }
        }
        Some(path)
    }

    /// The port, counted over all nodes, by which a node sends packets of a flow on to the host `to`; `None` if there is no
    /// path.
    pub(crate) fn next(&self, from: u32, to: u32, tuple: FlowTuple) -> Option<u32> {
        let ports = self.onward(from, to);
        match ports[..] {
            [] => None,
            [only] => Some(only),
            _ => {
                let (tuple, seed) = if self.is_symmetric {
                    (tuple.min(tuple.reversed()), self.distance(from, to).unwrap_or(0).into())
                } else {
                    (tuple, from)
                };
                let choice = hash(&[tuple.source, tuple.destination, tuple.ports], seed) as usize % ports.len();
                Some(ports[choice])
            }
        }
    }

    /// The ports, counted over all nodes, by which a node may send packets on to the host `to`: those of its explicit routes, or
    /// else those that begin a shortest path. There are none if there is no path.
    pub(super) fn onward(&self, from: u32, to: u32) -> Vec<u32> {
        if let Some(ports) = self.explicit.get(&(from, to)) {
            let leads = |port: &u32| self.peers[*port as usize] != from;
            return ports.iter().copied().filter(leads).collect();
        }
        // The last link: the node may have many ports, and the host has one.
        if let [peer] = self.peers_of(to)
            && *peer == from
        {
            return vec![self.peer_ports[self.first_ports[to as usize] as usize]];
        }
        let is_host = self.switch(from).is_none();
        let distance = |peer: u32| {
            if is_host && peer != to && self.switch(peer).is_none() { None } else { self.distance(peer, to) }
        };
        let Some(best) = self.peers_of(from).iter().filter_map(|&peer| distance(peer)).min() else {
            return Vec::new();
        };
        let mut equal: Vec<u32> =
            self.ports_of(from).filter(|&port| distance(self.peers[port as usize]) == Some(best)).collect();
        if self.descending {
            equal.sort_by_key(|&port| (std::cmp::Reverse(self.peers[port as usize]), port));
        } else if self.is_symmetric {
            equal.sort_by_key(|&port| (self.peers[port as usize], port));
        }
        equal
    }
}

impl Route {
    /// Checks that it leads from a switch over one of its links to a host, none of which needs to be the host's own link.
    /// `is_linked` returns whether its switch has a link to its next node.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn check(&self, topology: &Topology, is_linked: impl FnOnce() -> bool) -> Result<()> {
        let Self { at, to, via } = *self;
        let kind = |node: u32| topology.nodes.get(node as usize).copied();
        ensure!(kind(at).is_some_and(|kind| kind != Kind::Host), "a route at node {at}: expected a switch");
        ensure!(kind(to) == Some(Kind::Host), "a route of switch {at} to node {to}: expected a host");
        ensure!(is_linked(), "a route of switch {at} via node {via}: expected a node to which the switch has a link");
        ensure!(
            via == to || kind(via) != Some(Kind::Host),
            "a route of switch {at} to host {to} via host {via}, which does not forward"
        );
        Ok(())
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
    use super::super::{Effects, lay_ports};
    use super::*;
    use crate::topologies::LinkSpec;

    const LINK: LinkSpec = LinkSpec { bits_per_second: 100_000_000_000, delay: 1 };

    fn routes(topology: &Topology, choice: PathChoice) -> Result<Routes> {
        let (ports, first_ports) = lay_ports(topology, &Effects::default())?;
        Routes::new(topology, (&ports, first_ports), false, choice)
    }

    fn by_hash(topology: &Topology) -> Result<Routes> {
        routes(topology, PathChoice::Hash)
    }

    /// The nodes of a path after the first, for the flow with these UDP ports.
    fn nodes(routes: &Routes, source: u32, destination: u32, ports: u32) -> Vec<u32> {
        let path = routes.path(source, destination, FlowTuple { source, destination, ports }).unwrap();
        path.into_iter().map(|port| routes.peers[port as usize]).collect()
    }

    /// Clockwise, two switches on are two trunks; the shortest path is one.
    #[test]
    fn a_ring_is_passed_clockwise() {
        let clockwise = by_hash(&Topology::ring(3, 1, LINK, LINK, true)).unwrap();
        assert_eq!((nodes(&clockwise, 0, 2, 0), nodes(&clockwise, 2, 0, 0)), (vec![3, 4, 5, 2], vec![5, 3, 0]));
        let shortest = by_hash(&Topology::ring(3, 1, LINK, LINK, false)).unwrap();
        assert_eq!((nodes(&shortest, 0, 2, 0), nodes(&shortest, 2, 0, 0)), (vec![3, 5, 2], vec![5, 3, 0]));
    }

    /// Two leaves, 2 and 3, and four spines from 4 on: flows to host 1 take one spine, or one of the two that are given; those to
    /// host 0 take all.
    #[test]
    fn explicit_routes_replace_the_shortest_paths() {
        let of = |hops: &[u32]| {
            let mut topology = Topology::leaf_spine(2, 1, 4, LINK, LINK);
            topology.routes = hops.iter().map(|&via| Route { at: 2, to: 1, via }).collect();
            let routes = by_hash(&topology).unwrap();
            let spines = |source, destination| -> SortedSet<u32> {
                (0..100).map(|ports| nodes(&routes, source, destination, ports)[1]).collect()
            };
            [spines(0, 1), spines(1, 0)]
        };
        let all = SortedSet::from([4, 5, 6, 7]);
        assert_eq!(of(&[]), [all.clone(), all.clone()]);
        assert_eq!(of(&[6]), [SortedSet::from([6]), all.clone()]);
        assert_eq!(of(&[7, 5, 7]), [SortedSet::from([5, 7]), all]);
    }

    /// By the symmetric hash, acknowledgements return over the nodes of their data, and flows still take all spines and all core
    /// switches; by the other hash most return elsewhere.
    #[test]
    fn both_directions_of_a_flow_take_the_same_path_by_the_symmetric_hash() {
        let trees = [Topology::leaf_spine(4, 4, 8, LINK, LINK), Topology::fat_tree(8, LINK, LINK)];
        for topology in trees {
            let same = |choice| {
                let routes = routes(&topology, choice).unwrap();
                let (mut same, mut passed) = (0, SortedSet::new());
                let hosts = topology.hosts().count() as u32;
                for ports in 0..2_000 {
                    let (source, destination) = (ports % hosts, ports * 7 % hosts);
                    let tuple = FlowTuple { source, destination, ports: 10_000 + ports };
                    if source / 4 == destination / 4 {
                        continue;
                    }
                    let nodes = |from, to, tuple| -> Vec<u32> {
                        let path = routes.path(from, to, tuple).unwrap();
                        path.into_iter().map(|port| routes.peers[port as usize]).collect()
                    };
                    let (there, back) =
                        (nodes(source, destination, tuple), nodes(destination, source, tuple.reversed()));
                    same += u32::from(there.iter().rev().skip(1).eq(back.iter().take(back.len() - 1)));
                    passed.extend(there);
                }
                (same, passed.iter().filter(|&&node| node >= hosts).count())
            };
            let ((all, passed), (some, _)) = (same(PathChoice::SymmetricHash), same(PathChoice::Hash));
            assert!(all > 1_500 && some < all / 2, "{some} of {all}");
            let switches = topology.nodes.len() - topology.hosts().count();
            assert_eq!(passed, switches);
        }
    }

    #[test]
    fn routes_that_cannot_be_are_refused() {
        let star = || Topology::star(3, LINK);
        let ring = || Topology::ring(4, 1, LINK, LINK, false);
        for (mut topology, route, shown) in [
            (star(), (0, 1, 3), "a route at node 0: expected a switch"),
            (star(), (3, 3, 1), "a route of switch 3 to node 3: expected a host"),
            (star(), (3, 9, 1), "a route of switch 3 to node 9: expected a host"),
            (star(), (3, 1, 2), "a route of switch 3 to host 1 via host 2, which does not forward"),
            (ring(), (4, 1, 6), "a route of switch 4 via node 6: expected a node to which the switch has a link"),
            // From switch 5 the shortest path leads back over switch 4.
            (ring(), (4, 3, 5), "the routes lead packets for host 3 in a circle over the nodes 4, 5, 4"),
        ] {
            let (at, to, via) = route;
            topology.routes = vec![Route { at, to, via }];
            let error = by_hash(&topology).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(shown), "{error}");
        }
    }

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
