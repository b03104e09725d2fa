//! Generators of topologies. Hosts come first, so that a host's number is that of its node.

use crate::Picos;
use crate::fabric::{Kind, Link, Topology};

/// Rate and delay of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkSpec {
    /// Speed in bits per second, each way.
    pub bits_per_second: u64,
    /// Propagation delay, one way.
    pub delay: Picos,
}

impl LinkSpec {
    fn between(self, one: u32, other: u32) -> Link {
        Link { ends: [one, other], bits_per_second: self.bits_per_second, delay: self.delay, loss: 0 }
    }
}

impl Topology {
    /// Hosts and switches, hosts first, without links.
    fn of(hosts: u32, switches: u32) -> Self {
        let mut nodes = vec![Kind::Host; hosts as usize];
        nodes.resize(hosts as usize + switches as usize, Kind::Switch);
        Self { nodes, links: Vec::new() }
    }

    /// Hosts that are all linked to one switch.
    pub fn star(hosts: u32, link: LinkSpec) -> Self {
        Self { links: (0..hosts).map(|host| link.between(host, hosts)).collect(), ..Self::of(hosts, 1) }
    }

    /// Two switches that a trunk joins, with `left` hosts at the first and `right` hosts at the second.
    pub fn dumbbell(left: u32, right: u32, link: LinkSpec, trunk: LinkSpec) -> Self {
        let hosts = left + right;
        let at = |host| if host < left { hosts } else { hosts + 1 };
        let links = (0..hosts).map(|host| link.between(host, at(host)));
        Self { links: links.chain([trunk.between(hosts, hosts + 1)]).collect(), ..Self::of(hosts, 2) }
    }

    /// Switches in a row, each joined with the next by a trunk, with `hosts` hosts each: the first hosts are at the first switch.
    pub fn parking_lot(switches: u32, hosts: u32, link: LinkSpec, trunk: LinkSpec) -> Self {
        let all = switches * hosts;
        let links = (0..all).map(|host| link.between(host, all + host / hosts));
        let trunks = (1..switches).map(|next| trunk.between(all + next - 1, all + next));
        Self { links: links.chain(trunks).collect(), ..Self::of(all, switches) }
    }

    /// Leaf switches with `hosts` hosts each, and a trunk from each leaf to each spine.
    pub fn leaf_spine(leaves: u32, hosts: u32, spines: u32, link: LinkSpec, trunk: LinkSpec) -> Self {
        let all = leaves * hosts;
        let links = (0..all).map(|host| link.between(host, all + host / hosts));
        let pairs = (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| (leaf, spine)));
        let trunks = pairs.map(|(leaf, spine)| trunk.between(all + leaf, all + leaves + spine));
        Self { links: links.chain(trunks).collect(), ..Self::of(all, leaves + spines) }
    }

    /// A fat-tree of switches with `ports` ports each, an even number: k^3 / 4 hosts, in k pods of k / 2 edge and k / 2
    /// aggregation switches, and k^2 / 4 core switches (Al-Fares, Loukissas, Vahdat, SIGCOMM 2008, section 2.2).
    pub fn fat_tree(ports: u32, link: LinkSpec, trunk: LinkSpec) -> Self {
        let half = ports / 2;
        let pods =
            Pods { pods: ports, leaves: half, hosts: half, aggregations: half, cores: half * half, core_links: half };
        pods.topology([link, trunk, trunk])
    }
}

/// Three tiers: pods of leaf and aggregation switches, each leaf with a link to each aggregation switch of its pod, and core
/// switches. The n-th aggregation switch of each pod has links to the n-th group of `core_links` core switches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pods {
    pub(crate) pods: u32,
    /// Leaves of a pod.
    pub(crate) leaves: u32,
    /// Hosts of a leaf.
    pub(crate) hosts: u32,
    /// Aggregation switches of a pod.
    pub(crate) aggregations: u32,
    /// Core switches: `aggregations` groups.
    pub(crate) cores: u32,
    /// Links of an aggregation switch to core switches.
    pub(crate) core_links: u32,
}

impl Pods {
    /// The topology, with these links below leaf, aggregation and core switches.
    pub(crate) fn topology(self, [link, to_aggregation, to_core]: [LinkSpec; 3]) -> Topology {
        let Self { pods, leaves, hosts, aggregations, cores, core_links } = self;
        let all = pods * leaves * hosts;
        let per_pod = leaves + aggregations;
        let leaf = |pod: u32, number: u32| all + pod * per_pod + number;
        let aggregation = |pod: u32, number: u32| leaf(pod, leaves + number);
        let core = |number: u32| all + pods * per_pod + number;
        let mut topology = Topology::of(all, pods * per_pod + cores);
        for pod in 0..pods {
            for (number, host) in (0..leaves).flat_map(|number| (0..hosts).map(move |host| (number, host))) {
                topology.links.push(link.between((pod * leaves + number) * hosts + host, leaf(pod, number)));
            }
            for (upper, lower) in (0..aggregations).flat_map(|upper| (0..leaves).map(move |lower| (upper, lower))) {
                topology.links.push(to_aggregation.between(leaf(pod, lower), aggregation(pod, upper)));
            }
            for (upper, number) in (0..aggregations).flat_map(|upper| (0..core_links).map(move |to| (upper, to))) {
                topology.links.push(to_core.between(aggregation(pod, upper), core(upper * core_links + number)));
            }
        }
        topology
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const LINK: LinkSpec = LinkSpec { bits_per_second: 100, delay: 1 };
    const TRUNK: LinkSpec = LinkSpec { bits_per_second: 400, delay: 2 };

    /// Links of each node.
    fn degrees(topology: &Topology) -> Vec<u32> {
        let mut linked = vec![0; topology.nodes.len()];
        topology.links.iter().flat_map(|link| link.ends).for_each(|end| linked[end as usize] += 1);
        linked
    }

    /// Links on the shortest path from the first host to each other host.
    fn hops(topology: &Topology) -> Vec<u32> {
        let mut hops = vec![u32::MAX; topology.nodes.len()];
        hops[0] = 0;
        let mut next = VecDeque::from([0u32]);
        while let Some(node) = next.pop_front() {
            for Link { ends, .. } in topology.links.iter().filter(|link| link.ends.contains(&node)) {
                let other = ends[usize::from(ends[0] == node)];
                if hops[other as usize] == u32::MAX {
                    hops[other as usize] = hops[node as usize] + 1;
                    next.push_back(other);
                }
            }
        }
        topology.hosts().skip(1).map(|host| hops[host as usize]).collect()
    }

    fn counts(topology: &Topology) -> (usize, usize, usize) {
        let hosts = topology.hosts().count();
        assert!(topology.hosts().eq(0..hosts as u32), "hosts come first");
        assert!(degrees(topology)[..hosts].iter().all(|&links| links == 1));
        (hosts, topology.nodes.len() - hosts, topology.links.len())
    }

    #[test]
    fn a_star_and_a_dumbbell_have_one_and_two_switches() {
        let star = Topology::star(5, LINK);
        assert_eq!((counts(&star), hops(&star)), ((5, 1, 5), vec![2; 4]));
        let dumbbell = Topology::dumbbell(2, 3, LINK, TRUNK);
        assert_eq!((counts(&dumbbell), hops(&dumbbell)), ((5, 2, 6), vec![2, 3, 3, 3]));
        assert_eq!(dumbbell.links.last().map(|link| (link.bits_per_second, link.delay)), Some((400, 2)));
    }

    #[test]
    fn a_parking_lot_is_a_row() {
        let row = Topology::parking_lot(4, 2, LINK, TRUNK);
        assert_eq!((counts(&row), hops(&row)), ((8, 4, 8 + 3), vec![2, 3, 3, 4, 4, 5, 5]));
    }

    /// Each leaf has a trunk to each spine: two hosts at different leaves are four links apart.
    #[test]
    fn a_leaf_spine_has_every_leaf_at_every_spine() {
        let network = Topology::leaf_spine(8, 8, 4, LINK, TRUNK);
        assert_eq!(counts(&network), (64, 12, 64 + 32));
        assert_eq!(hops(&network), [vec![2; 7], vec![4; 56]].concat());
        assert_eq!(degrees(&network)[64..], [vec![12; 8], vec![8; 4]].concat());
        assert_eq!(network.links.iter().filter(|link| link.bits_per_second == 400).count(), 32);
    }

    /// Hosts of a fat-tree are 2, 4 or 6 links apart: k/2 - 1 at the same edge switch, k/2 (k/2 - 1) more in the same pod.
    #[test]
    fn each_switch_of_a_fat_tree_has_all_its_ports_linked() {
        for (ports, hosts, switches) in [(4, 16, 20), (8, 128, 80), (36, 11_664, 1_620)] {
            let tree = Topology::fat_tree(ports, LINK, TRUNK);
            assert_eq!(counts(&tree), (hosts, switches, 3 * hosts));
            assert!(degrees(&tree)[hosts..].iter().all(|&links| links == ports));
        }
        let far = hops(&Topology::fat_tree(8, LINK, TRUNK));
        assert_eq!(far, [vec![2; 3], vec![4; 12], vec![6; 112]].concat());
    }
}
