//! What a file describes that `hil sim` simulates: a configuration of HPCC's ns-3, or a scenario in TOML.

use crate::Picos;
use crate::dependencies::Wait;
use crate::fabric::{
    self, Buffer, Cores, Effects, Fault, FlowSpec, Kind, Link, Measure, NodePort, Offer, PathChoice, QueueMonitor,
    QueueSettings, Scenario, Topology, Transport, Watchdog,
};
use crate::marking::Stages;
use anyhow::{Context, Result, bail};
use cc_core::{IntLayout, Nanos};
use hil_algorithms::Algorithm;
use hil_algorithms::settings::ResolvedSettings;
use hil_sorted::{SortedMap, SortedSet};
use std::collections::VecDeque;
use std::path::PathBuf;

/// The settings of the queues of a port, class by class.
pub(crate) type QueuesOfPort = Box<dyn Fn(NodePort) -> [QueueSettings; 8]>;

/// The stages of a port.
pub(crate) type StagesOfPort = Box<dyn Fn(NodePort) -> Result<Stages>>;

/// A simulation as files describe it, with everything that they name.
pub struct Input {
    /// The files that were read: first the one that names the others.
    pub files: Vec<PathBuf>,
    /// A hash (FNV-1a, 64 bits) of all of them.
    pub hash: u64,
    /// The names of the files for completions, for PFC frames and, if queues are monitored, for their lengths, without their
    /// folders.
    pub outputs: Vec<String>,
    /// Nodes and links.
    pub topology: Topology,
    /// The flows, in the order in which they begin.
    pub flows: Vec<FlowSpec>,
    /// What flows wait for.
    pub waits: Vec<Wait>,
    /// As [`Scenario::offers`].
    pub offers: Vec<(u32, Offer)>,
    /// As [`Scenario::reads`].
    pub reads: Vec<u32>,
    /// As [`Scenario::stops`].
    pub stops: Vec<(u32, Picos)>,
    /// By what names their statistics are grouped.
    pub tags: Tags,
    /// What hosts run.
    pub algorithm: Box<dyn Algorithm>,
    /// Its settings.
    pub settings: ResolvedSettings,
    pub(crate) stages: StagesOfPort,
    pub(crate) queues: QueuesOfPort,
    /// How switches choose among equal paths.
    pub path_choice: PathChoice,
    /// The packet buffer of each switch.
    pub buffer: Option<Buffer>,
    /// Those of some switches in place of `buffer`, by their node numbers.
    pub buffers: SortedMap<u32, Buffer>,
    /// The watchdog of switch ports for PFC storms, if there is one.
    pub watchdog: Option<Watchdog>,
    /// The interval in which the run is measured, if it is.
    pub measure: Option<Measure>,
    /// When the lengths of queues are looked at.
    pub queue_monitor: Option<QueueMonitor>,
    /// How hosts send and acknowledge.
    pub transport: Transport,
    pub(crate) int_layout: IntLayout,
    /// Bytes of payload of a data packet.
    pub payload: u32,
    /// The round-trip time that NICs and the stages of switches are configured with.
    pub base_rtt: Nanos,
    /// Those of the NICs of some hosts in place of `base_rtt`, by their node numbers.
    pub base_rtts: SortedMap<u32, Nanos>,
    /// When it ends, even if flows are left.
    pub end: Picos,
    /// As [`Scenario::stall`].
    pub stall: Option<Picos>,
    /// Chooses marks, first sequence numbers, and what workloads draw.
    pub seed: u64,
    /// Where it follows another simulator.
    pub effects: Effects,
    /// What goes wrong, in the order of precedence.
    pub faults: Vec<Fault>,
    /// As [`Scenario::cores`].
    pub cores: Vec<Cores>,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// The path of each flow.
    pub(crate) paths: Vec<FlowPath>,
    /// Bytes on the line of a data packet in addition to its payload, in the ideal time of a flow.
    pub(crate) overhead: u64,
}

/// Groups of flows, of which the summary has statistics of their own.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Tags {
    /// The names of the groups.
    pub names: Vec<String>,
    /// The number of each flow's group, if it is in one. It may be shorter than the flows: the rest is in none.
    pub of: Vec<Option<u16>>,
}

impl Tags {
    /// The number of a flow's group.
    pub fn of(&self, flow: u32) -> Option<u16> {
        self.of.get(flow as usize).copied().flatten()
    }
}

impl Input {
    /// What to simulate.
    pub fn scenario(&self) -> Scenario<'_> {
        Scenario {
            waits: &self.waits,
            offers: &self.offers,
            reads: &self.reads,
            stops: &self.stops,
            stages: Box::new(|port| (self.stages)(port)),
            paths: self.path_choice,
            queues: Box::new(|port| (self.queues)(port)),
            buffer: self.buffer.clone(),
            buffers: self.buffers.clone(),
            base_rtts: self.base_rtts.clone(),
            watchdog: self.watchdog,
            queue_monitor: self.queue_monitor,
            measure: self.measure,
            transport: self.transport,
            int_layout: self.int_layout,
            payload: self.payload,
            end: self.end,
            stall: self.stall,
            seed: self.seed,
            effects: self.effects,
            faults: &self.faults,
            cores: &self.cores,
            ..Scenario::new(
                &self.topology,
                &self.flows,
                &*self.algorithm,
                [&self.settings.rp, &self.settings.np],
                self.base_rtt,
            )
        }
    }

    /// The time of completion of a flow in an empty network, in nanoseconds, as the ns-3 simulator of HPCC's authors defines it:
    /// the base round-trip time of its path, and the time of all its bytes, headers included, at the slowest link.
    pub fn ideal(&self, flow: usize) -> u64 {
        self.ideal_of(flow, self.flows[flow].bytes)
    }

    /// The same if the flow has so many bytes.
    pub fn ideal_of(&self, flow: usize, bytes: u64) -> u64 {
        let FlowPath { rtt, bits_per_second } = self.paths[flow];
        let packets = bytes.div_ceil(self.payload.into());
        let on_line = u128::from(bytes) + u128::from(packets) * u128::from(self.overhead);
        rtt + (on_line * 8_000_000_000 / u128::from(bits_per_second)) as u64
    }

    /// The stages of switch ports, each list with the ports that have it: for each speed of links, in ascending order, and where
    /// the ports of one speed differ, for each kind of switch and of its neighbour.
    ///
    /// # Errors
    /// A port has no stages.
    pub fn stages(&self) -> Result<Vec<(Ports, Stages)>> {
        let mut of_ports = SortedMap::<u64, SortedMap<(Kind, Kind), Stages>>::new();
        for (_, port) in self.topology.switch_ports() {
            let NodePort { at, to, bits_per_second, .. } = port;
            of_ports.or_default(bits_per_second).or_insert((at, to), (self.stages)(port)?);
        }
        let shown = of_ports.into_iter().flat_map(|(bits_per_second, of_kinds)| {
            let first = of_kinds.values().next().cloned().unwrap_or_default();
            if of_kinds.values().all(|stages| *stages == first) {
                return vec![(Ports { bits_per_second, ends: None }, first)];
            }
            let of_kind = |(ends, stages)| (Ports { bits_per_second, ends: Some(ends) }, stages);
            of_kinds.into_iter().map(of_kind).collect()
        });
        Ok(shown.collect())
    }
}

/// Switch ports that have the same stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ports {
    /// The speed of their links.
    pub bits_per_second: u64,
    /// What the switches and their neighbours are, if not all ports of this speed have these stages.
    pub ends: Option<(Kind, Kind)>,
}

/// The speeds of the links at nodes of a kind, in bits per second.
pub(crate) fn speeds(topology: &Topology, kind: Kind) -> SortedSet<u64> {
    let is_of_kind = |end: &u32| topology.nodes.get(*end as usize) == Some(&kind);
    let links = topology.links.iter().filter(|link| link.ends.iter().any(is_of_kind));
    links.map(|link| link.bits_per_second).collect()
}

/// A path through the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowPath {
    /// Its base round-trip time in nanoseconds: its propagation delays there and back, and the serialisation of one payload at each
    /// link there.
    pub(crate) rtt: u64,
    /// The rate of its slowest link.
    pub(crate) bits_per_second: u64,
}

impl FlowPath {
    /// No link.
    const EMPTY: Self = Self { rtt: 0, bits_per_second: u64::MAX };

    /// The path over these links there and back.
    fn over([there, back]: [impl Iterator<Item = Link>; 2], payload: u32) -> Self {
        let there = there.fold(Self::EMPTY, |path, link| {
            let with_link = path.and(&link, payload);
            Self { rtt: with_link.rtt - link.delay / 1_000, ..with_link }
        });
        Self { rtt: there.rtt + back.map(|link| link.delay / 1_000).sum::<u64>(), ..there }
    }

    /// The path with one more link, which leads back too.
    fn and(self, link: &Link, payload: u32) -> Self {
        let serialisation = u64::from(payload) * 8_000_000_000 / link.bits_per_second;
        Self {
            rtt: self.rtt + 2 * (link.delay / 1_000) + serialisation,
            bits_per_second: self.bits_per_second.min(link.bits_per_second),
        }
    }
}

/// The longest base round-trip time of two hosts, and the path of each flow: the first of the shortest that is found.
///
/// All hosts at a node share the search from this node.
///
/// # Errors
/// No two hosts are connected, or the hosts of a flow are not, or the longest round-trip time is beyond 32 bits.
pub(crate) fn paths(topology: &Topology, flows: &[FlowSpec], payload: u32) -> Result<(Nanos, Vec<FlowPath>)> {
    let mut links_of = vec![Vec::new(); topology.nodes.len()];
    for link in &topology.links {
        link.ends.iter().for_each(|&end| links_of[end as usize].push(link));
    }
    let mut flows_from = vec![Vec::new(); topology.nodes.len()];
    for (number, flow) in flows.iter().enumerate() {
        flows_from[flow.source as usize].push(number);
    }
    let mut hosts_at = vec![Vec::new(); topology.nodes.len()];
    for host in topology.hosts() {
        if let Some(link) = links_of[host as usize].first() {
            hosts_at[other_end(link, host) as usize].push((host, *link));
        }
    }
    let (mut longest, mut paths) = (None, vec![FlowPath::EMPTY; flows.len()]);
    for (node, hosts) in (0u32..).zip(&hosts_at).filter(|(_, hosts)| !hosts.is_empty()) {
        let reached = reach(topology, &links_of, node, payload);
        let mut seen: Vec<(u64, Picos)> = Vec::new();
        for &(host, link) in hosts {
            let to = |other: u32| {
                let path = reached[other as usize].filter(|_| other != host)?;
                Some(path.and(link, payload))
            };
            // Hosts with equal links at one node are equally far from all others.
            if !seen.contains(&(link.bits_per_second, link.delay)) {
                seen.push((link.bits_per_second, link.delay));
                longest = longest.max(topology.hosts().filter_map(to).map(|path| path.rtt).max());
            }
            for &number in &flows_from[host as usize] {
                let FlowSpec { destination, .. } = flows[number];
                paths[number] = to(destination)
                    .with_context(|| format!("hosts {host} and {destination} of flow {number} are not connected"))?;
            }
        }
    }
    let mut longest = longest.context("no two hosts are connected")?;
    if !topology.routes.is_empty() {
        for (path, links) in paths.iter_mut().zip(fabric::links_of_flows(topology, flows)?) {
            let links = links?.map(|links| links.into_iter().map(|number| topology.links[number as usize]));
            *path = FlowPath::over(links, payload);
            longest = longest.max(path.rtt);
        }
    }
    let Ok(nanos) = u32::try_from(longest) else {
        bail!(
            "a base round trip of {:.3} s between two hosts: expected at most 4.29 s (2^32 - 1 ns); give the links shorter delays",
            longest as f64 / 1e9
        );
    };
    Ok((Nanos::new(nanos), paths))
}

fn other_end(link: &Link, node: u32) -> u32 {
    if link.ends[0] == node { link.ends[1] } else { link.ends[0] }
}

/// The first shortest path that is found from a node to each other.
fn reach(topology: &Topology, links_of: &[Vec<&Link>], from: u32, payload: u32) -> Vec<Option<FlowPath>> {
    let mut reached = vec![None; topology.nodes.len()];
    reached[from as usize] = Some(FlowPath::EMPTY);
    let mut next = VecDeque::from([from]);
    while let Some(node) = next.pop_front() {
        if node != from && topology.nodes[node as usize] == Kind::Host {
            continue;
        }
        for link in &links_of[node as usize] {
            let other = other_end(link, node);
            if reached[other as usize].is_none() {
                reached[other as usize] = reached[node as usize].map(|path: FlowPath| path.and(link, payload));
                next.push_back(other);
            }
        }
    }
    reached
}
