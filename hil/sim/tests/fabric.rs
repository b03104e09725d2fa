//! Networks with stages that send CNPs.

use cc_core::{IntLayout, Nanos};
use cc_cp::lscc::direct_int::DirectInt;
use cc_cp::{QueueStage, int::IntPush};
use hil_algorithms::algorithm;
use hil_algorithms::settings::words;
use hil_sim::fabric::{Effects, Examples, FlowSpec, FlowTuple, Kind, Link, Network, Scenario, Topology};

/// Two hosts at each end of two switches that three others join, each way a path of its own. Telemetry that the first switch of a
/// path writes is returned by the next, whichever it is: each CNP finds its way to the sender, and is delivered or on its way at
/// the end, which [`Network::finish`] checks. The four flows have 500 packets each, and as many acknowledgements.
#[test]
fn cnps_of_switches_arrive_over_paths_of_equal_length() {
    let mut nodes = vec![Kind::Host; 4];
    nodes.resize(9, Kind::Switch);
    let ends = [[0, 4], [1, 4], [2, 5], [3, 5], [4, 6], [4, 7], [4, 8], [6, 5], [7, 5], [8, 5]];
    let links = ends.map(|ends| Link { ends, bits_per_second: 100_000_000_000, delay: 1_000_000 });
    let topology = Topology { nodes, links: links.to_vec() };
    let flows: Vec<FlowSpec> = [(0, 2), (0, 3), (1, 2), (1, 3)]
        .into_iter()
        .zip(10_000..)
        .map(|((source, destination), ports)| FlowSpec {
            source,
            destination,
            bytes: 500_000,
            start: 0,
            tuple: FlowTuple { source, destination, ports },
        })
        .collect();
    let algorithm = algorithm("hpcc_star").unwrap();
    let [(_, rp), (_, np)] = algorithm.presets(None).unwrap();
    let stages = || {
        vec![
            (IntPush::NAME, words(&IntPush::PRESETS[0].values)),
            (<DirectInt as QueueStage>::NAME, words(&<DirectInt as QueueStage>::PRESETS[0].values)),
        ]
    };
    let scenario = Scenario {
        topology: &topology,
        flows: &flows,
        algorithm: &*algorithm,
        settings: [&rp, &np],
        stages: Box::new(move |_| Ok(stages())),
        int_layout: IntLayout::Wide,
        payload: 1_000,
        base_rtt: Nanos::new(10_000),
        end: 1_000_000_000_000,
        seed: 1,
        shuffle: None,
        effects: Effects::default(),
    };
    let examples = Examples::new(&scenario).unwrap();
    let mut network = Network::new(&scenario, &examples).unwrap();
    while network.advance(1 << 20).unwrap() {}
    let totals = network.finish().unwrap();
    assert_eq!((totals.completions.len(), totals.dropped), (4, 0));
    let cnps = totals.injected - 4 * 2 * 500;
    assert!(cnps > 100, "{totals:?}");
    // Data and acknowledgements pass four links, a CNP two or three.
    let hops = totals.packet_hops - 4 * 4 * 2 * 500;
    assert!((2 * (cnps - totals.in_flight)..=3 * cnps).contains(&hops), "{hops} packet-hops of {cnps} CNPs");
}
