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
    /// The probability that a frame is lost on it, in units of 2^-32; of PFC frames and messages between switches too.
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

    /// Hosts that are all linked to one switch, which is the last node.
    pub fn star(hosts: u32, bits_per_second: u64, delay: Picos) -> Self {
        let mut nodes = vec![Kind::Host; hosts as usize];
        nodes.push(Kind::Switch);
        let links = (0..hosts).map(|host| Link { ends: [host, hosts], bits_per_second, delay, loss: 0 }).collect();
        Self { nodes, links }
    }

    /// A fat-tree of switches with `ports` ports each, an even number: k^3 / 4 hosts, which come first, in k pods of k / 2 edge and
    /// k / 2 aggregation switches, and k^2 / 4 core switches (Al-Fares, Loukissas, Vahdat, SIGCOMM 2008, section 2.2).
    pub fn fat_tree(ports: u32, bits_per_second: u64, delay: Picos) -> Self {
        let half = ports / 2;
        let hosts = ports * half * half;
        let edge = |pod: u32, number: u32| hosts + pod * ports + number;
        let aggregation = |pod: u32, number: u32| edge(pod, half + number);
        let core = |number: u32| hosts + ports * ports + number;
        let mut nodes = vec![Kind::Host; hosts as usize];
        nodes.resize((hosts + ports * ports + half * half) as usize, Kind::Switch);
        let mut links = Vec::new();
        let mut link = |one, other| links.push(Link { ends: [one, other], bits_per_second, delay, loss: 0 });
        for pod in 0..ports {
            for (upper, lower) in (0..half).flat_map(|upper| (0..half).map(move |lower| (upper, lower))) {
                link((pod * half + upper) * half + lower, edge(pod, upper));
                link(edge(pod, upper), aggregation(pod, lower));
                link(aggregation(pod, upper), core(upper * half + lower));
            }
        }
        Self { nodes, links }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_switch_of_a_fat_tree_has_all_its_ports_linked() {
        for (ports, hosts, switches) in [(4, 16, 20), (8, 128, 80), (36, 11_664, 1_620)] {
            let tree = Topology::fat_tree(ports, 1, 1);
            assert_eq!(tree.hosts().count(), hosts);
            assert_eq!(tree.nodes.len(), hosts + switches);
            let mut linked = vec![0; tree.nodes.len()];
            tree.links.iter().flat_map(|link| link.ends).for_each(|end| linked[end as usize] += 1);
            assert!(linked[..hosts].iter().all(|&links| links == 1));
            assert!(linked[hosts..].iter().all(|&links| links == ports));
        }
    }
}
