//! Prints how fast the fabric runs: packet-hops per second of processor time, by scenario.
//!
//! `cargo run --release -p hil-sim --example speed -- [NAME|FILE...]`, where a file is a scenario or a configuration of HPCC's ns-3;
//! under `valgrind --tool=callgrind` with one name, divide its count of instructions by the packet-hops printed.

use anyhow::Result;
use cc_core::{IntLayout, Nanos};
use hil_algorithms::algorithm;
use hil_sim::fabric::{
    Buffer, DATA_CLASS, Effects, Examples, FlowSpec, FlowTuple, LineHeaders, Network, Scenario, Topology,
};
use hil_sim::marking::Stages;
use hil_sim::topologies::LinkSpec;
use std::time::Instant;

/// A scenario: its name, the algorithm, the topology, and the flows, as source, destination and bytes.
struct Case {
    name: &'static str,
    algorithm: &'static str,
    topology: Topology,
    flows: Vec<(u32, u32, u64)>,
}

const LINK: LinkSpec = LinkSpec { bits_per_second: 100_000_000_000, delay: 1_000_000 };

fn star(name: &'static str, algorithm: &'static str, bytes: u64) -> Case {
    let flows = (1..9).map(|host| (host, 0, bytes)).collect();
    Case { name, algorithm, topology: Topology::star(9, LINK), flows }
}

/// Each host sends to the one half of all further, and one more.
fn permutation(name: &'static str, algorithm: &'static str, ports: u32, bytes: u64) -> Case {
    let topology = Topology::fat_tree(ports, LINK, LINK);
    let hosts = topology.hosts().count() as u32;
    let flows = (0..hosts).map(|host| (host, (host + hosts / 2 + 1) % hosts, bytes)).collect();
    Case { name, algorithm, topology, flows }
}

fn main() -> Result<()> {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let cases = [
        star("star-dcqcn", "dcqcn", 10_000_000),
        star("star-hpcc", "hpcc", 10_000_000),
        permutation("fat-tree-54-dcqcn", "dcqcn", 6, 1_000_000),
        permutation("fat-tree-1024-dcqcn", "dcqcn", 16, 1_000_000),
        permutation("fat-tree-11664-dcqcn", "dcqcn", 36, 1_000_000),
    ];
    for file in chosen.iter().filter(|name| name.contains('.')) {
        let begun = Instant::now();
        let input = hil_sim::read(file.as_ref(), None)?;
        measure(file, &input.scenario(), begun)?;
    }
    for case in cases.into_iter().filter(|case| chosen.is_empty() || chosen.iter().any(|name| name == case.name)) {
        run(case)?;
    }
    Ok(())
}

fn run(Case { name, algorithm: algorithm_name, topology, flows }: Case) -> Result<()> {
    let begun = Instant::now();
    let algorithm = algorithm(algorithm_name)?;
    let [(_, rp), (_, np)] = algorithm.presets(Some("hpcc_sim"))?;
    let flows: Vec<_> = (0..)
        .zip(flows)
        .map(|(number, (source, destination, bytes))| {
            let tuple = FlowTuple { source, destination, ports: 10_000 | number << 16 };
            FlowSpec { source, destination, bytes, start: 0, class: DATA_CLASS, tuple }
        })
        .collect();
    let stages = |_| -> Result<Stages> {
        let red = ("red", vec![400_000, 1_600_000, 200_000, 0]);
        Ok(if algorithm_name == "hpcc" { vec![red, ("int", vec![1, 4])] } else { vec![red] })
    };
    let data = if algorithm_name == "hpcc" { 90 } else { 48 };
    let scenario = Scenario {
        stages: Box::new(stages),
        buffer: Some(Buffer::default()),
        int_layout: IntLayout::Compact,
        end: 1_000_000_000_000,
        effects: Effects {
            whole_nanoseconds: true,
            no_framing: true,
            line_headers: Some(LineHeaders { data, ack: 60 }),
            payload_windows: true,
            echo: algorithm_name == "dcqcn",
            ..Effects::default()
        },
        ..Scenario::new(&topology, &flows, &*algorithm, [&rp, &np], Nanos::new(13_000))
    };
    measure(name, &scenario, begun)
}

fn measure(name: &str, scenario: &Scenario<'_>, begun: Instant) -> Result<()> {
    let examples = Examples::new(scenario)?;
    let mut network = Network::new(scenario, &examples)?;
    let set_up = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    while network.advance(1 << 20)? {}
    let took = begun.elapsed().as_secs_f64();
    let totals = network.finish()?;
    let rate = totals.packet_hops as f64 / took / 1e6;
    println!(
        "{name:<22} {:>10} packet-hops, {:>10} events, set up in {set_up:.3} s, {took:.3} s: {rate:.2} M packet-hops/s",
        totals.packet_hops, totals.events
    );
    Ok(())
}
