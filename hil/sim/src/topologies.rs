//! Generators of topologies. Hosts come first, so that a host's number is that of its node.

use crate::Picos;
use crate::fabric::{Kind, Link, Route, Topology};

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
    /// Hosts, and so many switches of these kinds, without links.
    fn of<const N: usize>(hosts: u32, switches: [(Kind, u32); N]) -> Self {
        let tiers = [(Kind::Host, hosts)].into_iter().chain(switches);
        Self { nodes: tiers.flat_map(|(kind, count)| vec![kind; count as usize]).collect(), ..Self::default() }
    }

    /// Hosts that are all linked to one switch.
    pub fn star(hosts: u32, link: LinkSpec) -> Self {
        Self {
            links: (0..hosts).map(|host| link.between(host, hosts)).collect(),
            ..Self::of(hosts, [(Kind::Switch, 1)])
        }
    }

    /// Two switches that a trunk joins, with `left` hosts at the first and `right` hosts at the second.
    pub fn dumbbell(left: u32, right: u32, link: LinkSpec, trunk: LinkSpec) -> Self {
        let hosts = left + right;
        let at = |host| if host < left { hosts } else { hosts + 1 };
        let links = (0..hosts).map(|host| link.between(host, at(host)));
        Self { links: links.chain([trunk.between(hosts, hosts + 1)]).collect(), ..Self::of(hosts, [(Kind::Switch, 2)]) }
    }

    /// Switches in a row, each joined with the next by a trunk, with `hosts` hosts each: the first hosts are at the first switch.
    pub fn parking_lot(switches: u32, hosts: u32, link: LinkSpec, trunk: LinkSpec) -> Self {
        let all = switches * hosts;
        let links = (0..all).map(|host| link.between(host, all + host / hosts));
        let trunks = (1..switches).map(|next| trunk.between(all + next - 1, all + next));
        Self { links: links.chain(trunks).collect(), ..Self::of(all, [(Kind::Switch, switches)]) }
    }

    /// Switches in a circle, at least three, each joined with the next by a trunk, with `hosts` hosts each: the first hosts are at
    /// the first switch. If `clockwise`, each switch sends all packets for hosts of other switches to the next one, so that the
    /// buffers of all switches depend on each other in a cycle; otherwise they take the shortest paths.
    pub fn ring(switches: u32, hosts: u32, link: LinkSpec, trunk: LinkSpec, clockwise: bool) -> Self {
        let all = switches * hosts;
        let next = |switch: u32| all + (switch + 1) % switches;
        let links = (0..all).map(|host| link.between(host, all + host / hosts));
        let trunks = (0..switches).map(|switch| trunk.between(all + switch, next(switch)));
        let pairs = (0..switches).flat_map(|switch| (0..all).map(move |host| (switch, host)));
        let others = pairs.filter(|&(switch, host)| clockwise && host / hosts != switch);
        let routes = others.map(|(switch, to)| Route { at: all + switch, to, via: next(switch) });
        Self {
            links: links.chain(trunks).collect(),
            routes: routes.collect(),
            ..Self::of(all, [(Kind::Switch, switches)])
        }
    }

    /// Leaf switches with `hosts` hosts each, and a trunk from each leaf to each spine.
    pub fn leaf_spine(leaves: u32, hosts: u32, spines: u32, link: LinkSpec, trunk: LinkSpec) -> Self {
        let all = leaves * hosts;
        let links = (0..all).map(|host| link.between(host, all + host / hosts));
        let pairs = (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| (leaf, spine)));
        let trunks = pairs.map(|(leaf, spine)| trunk.between(all + leaf, all + leaves + spine));
        Self { links: links.chain(trunks).collect(), ..Self::of(all, [(Kind::Leaf, leaves), (Kind::Spine, spines)]) }
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
        let mut topology = Topology::of(all, []);
        for _ in 0..pods {
            topology.nodes.extend(Topology::of(0, [(Kind::Leaf, leaves), (Kind::Spine, aggregations)]).nodes);
        }
        topology.nodes.resize(topology.nodes.len() + cores as usize, Kind::Core);
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

/// Two datacentres, each with a DCI switch, which long links join. The DCI switch has a trunk to each switch of the uppermost tier of
/// its datacentre. Hosts of the first datacentre come first; behind all hosts, the switches of each: leaves and spines pod by pod,
/// cores, the DCI switch, and its relays.
#[derive(Clone, Debug)]
pub(crate) struct TwoDatacentres {
    /// The tiers of each datacentre, whose [`Pods::hosts`] is not used: `hosts` has those of a leaf. Without aggregation switches
    /// there is one pod, and the leaves are the uppermost tier.
    pub(crate) pods: Pods,
    /// The links of the hosts of a leaf in each datacentre.
    pub(crate) hosts: [Vec<LinkSpec>; 2],
    /// Every link between switches of one datacentre.
    pub(crate) trunk: LinkSpec,
    /// The links between the DCI switches.
    pub(crate) long_links: Vec<LinkSpec>,
    /// Each end of a long link has a relay, which has a link of the same speed and a trunk's delay to the DCI switch.
    pub(crate) relays: bool,
}

impl TwoDatacentres {
    pub(crate) fn topology(&self) -> Topology {
        let inside = self.hosts.each_ref().map(|links| {
            let trunk = self.trunk;
            let hosts = links.len() as u32;
            let mut inside = Pods { hosts, ..self.pods }.topology([trunk; 3]);
            let hosts = inside.hosts().count();
            for link in inside.links.iter_mut().filter(|link| (link.ends[0] as usize) < hosts) {
                let own = links[link.ends[0] as usize % links.len()];
                (link.bits_per_second, link.delay) = (own.bits_per_second, own.delay);
            }
            inside
        });
        let all = inside.each_ref().map(|inside| inside.hosts().count() as u32);
        let mut topology = Topology::of(all[0] + all[1], []);
        let mut long_ends = Vec::new();
        for (number, inside) in inside.into_iter().enumerate() {
            let hosts = all[number];
            let (first_host, first_switch) = (number as u32 * all[0], topology.nodes.len() as u32);
            let place = |node: u32| if node < hosts { first_host + node } else { first_switch + node - hosts };
            let links = inside.links.iter().map(|link| Link { ends: link.ends.map(place), ..*link });
            topology.links.extend(links);
            topology.nodes.extend(&inside.nodes[hosts as usize..]);
            let uppermost = inside.nodes.iter().max().copied();
            let interconnect = topology.nodes.len() as u32;
            let below = (0u32..).zip(&inside.nodes).filter(|&(_, &kind)| Some(kind) == uppermost);
            topology.links.extend(below.map(|(node, _)| self.trunk.between(place(node), interconnect)));
            topology.nodes.push(Kind::Interconnect);
            long_ends.push(
                self.long_links
                    .iter()
                    .map(|link| {
                        if !self.relays {
                            return interconnect;
                        }
                        let relay = topology.nodes.len() as u32;
                        topology.nodes.push(Kind::Relay);
                        topology.links.push(LinkSpec { delay: self.trunk.delay, ..*link }.between(interconnect, relay));
                        relay
                    })
                    .collect::<Vec<u32>>(),
            );
        }
        let ends = long_ends[0].iter().zip(&long_ends[1]);
        topology.links.extend(self.long_links.iter().zip(ends).map(|(link, (&one, &other))| link.between(one, other)));
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

    /// LSCC's network (section IV-B) with two long links: fat-trees of k = 4 with 16 hosts, whose four cores have a trunk to the DCI
    /// switch. Hosts of two datacentres are nine links apart, or eleven by relays.
    #[test]
    fn two_datacentres_are_joined_by_their_interconnect_switches() {
        const LONG: LinkSpec = LinkSpec { bits_per_second: 200, delay: 1_000 };
        let pods = Pods { pods: 4, leaves: 2, hosts: 2, aggregations: 2, cores: 4, core_links: 2 };
        let hosts = [vec![LINK, LinkSpec { bits_per_second: 25, ..LINK }], vec![LINK; 2]];
        for (relays, switches, links, far) in [(false, 42, 106, 9), (true, 46, 110, 11)] {
            let network =
                TwoDatacentres { pods, hosts: hosts.clone(), trunk: TRUNK, long_links: vec![LONG; 2], relays }
                    .topology();
            assert_eq!(counts(&network), (32, switches, links));
            assert_eq!(hops(&network), [vec![2; 1], vec![4; 2], vec![6; 12], vec![far; 16]].concat());
            let rates: Vec<u64> = network.links.iter().map(|link| link.bits_per_second).collect();
            assert_eq!(rates.iter().filter(|&&rate| rate == 25).count(), 8);
            assert_eq!(rates[links - 2..], [200; 2]);
            let kinds = |kind| network.nodes.iter().filter(|&&node| node == kind).count();
            let counts = [Kind::Leaf, Kind::Spine, Kind::Core, Kind::Interconnect, Kind::Relay].map(kinds);
            assert_eq!(counts, [16, 16, 8, 2, if relays { 4 } else { 0 }]);
        }
        // Without spines and cores, leaves are linked to the DCI switch.
        let pods = Pods { pods: 1, leaves: 2, aggregations: 0, cores: 0, core_links: 0, ..pods };
        let hosts = [vec![LINK; 2], vec![LINK]];
        let network = TwoDatacentres { pods, hosts, trunk: TRUNK, long_links: vec![LONG], relays: false }.topology();
        assert_eq!((counts(&network), hops(&network)), ((6, 6, 6 + 4 + 1), vec![2, 4, 4, 5, 5]));
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
