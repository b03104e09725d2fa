//! Topologies: nodes, and full-duplex links between them.

use crate::Picos;

/// What a node is. Every node but a host is a switch; which of them makes a difference to [`Relay`](Kind::Relay) only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// It sends and receives, and forwards nothing.
    Host,
    /// A switch in no tier.
    Switch,
    /// A switch with hosts, below others.
    Leaf,
    /// A switch above leaves: a spine, or an aggregation switch of a fat-tree.
    Spine,
    /// A switch above those.
    Core,
    /// A datacentre interconnect (DCI) switch, with links to other datacentres.
    Interconnect,
    /// A relay between the DCI switch and a long link: a switch with two links. A PFC frame that it receives by one of them is an
    /// event of the stages of the other, and a pause that these want is sent by the first.
    Relay,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 7] =
        [Self::Host, Self::Switch, Self::Leaf, Self::Spine, Self::Core, Self::Interconnect, Self::Relay];

    /// Its name in scenarios and summaries.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Switch => "switch",
            Self::Leaf => "leaf",
            Self::Spine => "spine",
            Self::Core => "core",
            Self::Interconnect => "dci",
            Self::Relay => "relay",
        }
    }
}

/// A full-duplex link between two nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// The nodes at its ends.
    pub ends: [u32; 2],
    /// Speed in bits per second, each way.
    pub bits_per_second: u64,
    /// Propagation delay, one way.
    pub delay: Picos,
    /// The probability that a frame is lost on it, in units of 2^-32; of PFC frames and messages between switches too. It is the
    /// last rule for frames on the link, behind those of [`Scenario::faults`](super::Scenario::faults).
    pub loss: u32,
}

/// A port of a node, by which the stages of a switch's port and the settings of its queues are chosen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodePort {
    /// What the node is.
    pub at: Kind,
    /// What the node at the other end of its link is.
    pub to: Kind,
    /// The speed of the link.
    pub bits_per_second: u64,
    /// The node, by its number.
    pub node: u32,
    /// The node at the other end of its link, by its number.
    pub neighbour: u32,
}

/// Where a switch sends the packets for a host, in place of the shortest paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The switch.
    pub at: u32,
    /// The host.
    pub to: u32,
    /// The node at the other end of a link of the switch. A hash of each flow chooses among several routes of one switch and host,
    /// and among several links to this node.
    pub via: u32,
}

/// A network's nodes and links. Nodes are numbered from zero; the ports of a node are numbered in the order of its links.
#[derive(Clone, Default, Debug)]
pub struct Topology {
    /// What each node is.
    pub nodes: Vec<Kind>,
    /// The links.
    pub links: Vec<Link>,
    /// Explicit routes. All other packets take the shortest paths.
    pub routes: Vec<Route>,
}

impl Topology {
    /// The numbers of the hosts.
    pub fn hosts(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.nodes).filter(|&(_, &kind)| kind == Kind::Host).map(|(node, _)| node)
    }

    /// The port of a node by which a link leaves it to another.
    pub(crate) fn port(&self, node: u32, neighbour: u32, bits_per_second: u64) -> NodePort {
        let [at, to] = [node, neighbour].map(|node| self.nodes[node as usize]);
        NodePort { at, to, bits_per_second, node, neighbour }
    }

    /// The ports of all nodes, and the numbers of their links, link by link.
    pub(crate) fn ports(&self) -> impl Iterator<Item = (u32, NodePort)> {
        (0u32..).zip(&self.links).flat_map(|(number, link)| {
            let [one, other] = link.ends;
            [(one, other), (other, one)].map(|(node, to)| (number, self.port(node, to, link.bits_per_second)))
        })
    }

    /// Those of all switches.
    pub(crate) fn switch_ports(&self) -> impl Iterator<Item = (u32, NodePort)> {
        self.ports().filter(|(_, port)| port.at != Kind::Host)
    }
}
