//! Topologies: nodes, and full-duplex links between them.

use crate::Picos;

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It sends and receives, and forwards nothing.
    Host,
    /// It forwards packets.
    Switch,
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

/// A network's nodes and links. Nodes are numbered from zero; the ports of a node are numbered in the order of its links.
#[derive(Clone, Default, Debug)]
pub struct Topology {
    /// What each node is.
    pub nodes: Vec<Kind>,
    /// The links.
    pub links: Vec<Link>,
}

impl Topology {
    /// The numbers of the hosts.
    pub fn hosts(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.nodes).filter(|&(_, &kind)| kind == Kind::Host).map(|(node, _)| node)
    }
}
