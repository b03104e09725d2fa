//! The hosts and switches of a fabric, the cables between them, and the ways through it.

use super::Cable;
use std::collections::VecDeque;

/// A host or a switch: hosts have the first numbers, from zero on, and switches those after them.
pub(crate) type Node = usize;

/// The end of a cable at one node, as seen from the node at its other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbour {
    /// The node at the other end of the cable.
    pub(crate) node: Node,
    /// The port of that node in which the cable ends.
    pub(crate) port: usize,
    /// The cable.
    pub(crate) cable: Cable,
}

/// Nodes and cables. The ports of a node are numbered in the order in which its cables were added.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    hosts: usize,
    /// For each node, the neighbours by port.
    ports: Vec<Vec<Neighbour>>,
    /// For each node and host, the port by which packets to that host leave.
    ways: Vec<Vec<usize>>,
}

impl Network {
    /// A network of so many hosts and switches with these cables, each named by the nodes at its ends.
    pub(crate) fn new(hosts: usize, switches: usize, cables: &[(Node, Node, Cable)]) -> Self {
        let mut ports = vec![Vec::<Neighbour>::new(); hosts + switches];
        for &(one, other, cable) in cables {
            let (at_one, at_other) = (ports[one].len(), ports[other].len());
            ports[one].push(Neighbour { node: other, port: at_other, cable });
            ports[other].push(Neighbour { node: one, port: at_one, cable });
        }
        let mut ways = vec![vec![0; hosts]; hosts + switches];
        for host in 0..hosts {
            // Breadth first from the host: the port by which a node is reached first leads back on a shortest way.
            let mut reached = vec![false; hosts + switches];
            let mut next = VecDeque::from([host]);
            reached[host] = true;
            while let Some(node) = next.pop_front() {
                for &Neighbour { node: neighbour, port, .. } in &ports[node] {
                    if !reached[neighbour] {
                        reached[neighbour] = true;
                        ways[neighbour][host] = port;
                        next.push_back(neighbour);
                    }
                }
            }
        }
        Self { hosts, ports, ways }
    }

    /// A line of so many switches, at least one: all hosts but the last at the first switch, and the last host at the last
    /// switch. With one switch it is a star, and a host's port at the switch has the number of the host.
    pub(crate) fn line(hosts: usize, switches: usize, cable: Cable) -> Self {
        let (first, last) = (hosts, hosts + switches - 1);
        let mut cables: Vec<_> = (0..hosts - 1).map(|host| (host, first, cable)).collect();
        cables.extend((first..last).map(|switch| (switch, switch + 1, cable)));
        cables.push((hosts - 1, last, cable));
        Self::new(hosts, switches, &cables)
    }

    /// The number of hosts.
    pub(crate) const fn hosts(&self) -> usize {
        self.hosts
    }

    /// The neighbours of a node, by port.
    pub(crate) fn ports(&self, node: Node) -> &[Neighbour] {
        &self.ports[node]
    }

    /// The port by which a node sends packets to a host: one on a shortest way, counted in cables.
    pub(crate) fn way(&self, node: Node, host: usize) -> usize {
        self.ways[node][host]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CABLE: Cable = Cable { gbps: 100, delay: 1 };

    /// The nodes that a packet passes from one host to another.
    fn passes(network: &Network, from: Node, to: usize) -> Vec<Node> {
        let mut nodes = vec![from];
        while let Some(&node) = nodes.last().filter(|&&node| node != to) {
            nodes.push(network.ports(node)[network.way(node, to)].node);
        }
        nodes
    }

    #[test]
    fn a_line_leads_from_the_senders_over_all_switches_to_the_receiver() {
        let network = Network::line(4, 3, CABLE);
        assert_eq!(network.hosts(), 4);
        assert_eq!(passes(&network, 0, 3), [0, 4, 5, 6, 3]);
        assert_eq!(passes(&network, 3, 2), [3, 6, 5, 4, 2]);
        assert_eq!(passes(&network, 0, 1), [0, 4, 1]);
    }

    #[test]
    fn in_a_star_the_port_of_a_host_has_its_number() {
        let network = Network::line(5, 1, CABLE);
        assert!((0..5).all(|host| network.way(5, host) == host && network.ports(5)[host].node == host));
    }

    /// In a ring of four switches with a host each, the far host is three cables away by either side, and the others by one.
    #[test]
    fn ways_are_shortest_and_each_end_of_a_cable_knows_the_other() {
        let ring: Vec<_> =
            (0..4).flat_map(|host| [(host, 4 + host, CABLE), (4 + host, 4 + (host + 1) % 4, CABLE)]).collect();
        let network = Network::new(4, 4, &ring);
        assert_eq!(passes(&network, 0, 1).len(), 4);
        assert_eq!(passes(&network, 0, 2).len(), 5);
        for node in 0..8 {
            for (port, end) in network.ports(node).iter().enumerate() {
                let back = network.ports(end.node)[end.port];
                assert_eq!((back.node, back.port), (node, port));
            }
        }
    }
}
