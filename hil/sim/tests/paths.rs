//! Packet spraying.

use cc_core::Nanos;
use cc_core::wire::{self, Parsed};
use hil_algorithms::algorithm;
use hil_sim::fabric::{
    DATA_CLASS, Examples, FlowSpec, FlowTuple, Network, Origin, PathChoice, Recovery, Scenario, Topology, Totals,
    Transport,
};
use hil_sim::topologies::LinkSpec;
use std::cell::RefCell;

/// Packets of each flow.
const PACKETS: u64 = 4_000;

/// Four hosts at one of two leaves send to those at the other, over four spines, all links at 100 Gb/s. Returns how many data packets
/// of each flow went to each spine, and the totals.
fn run(paths: PathChoice, shuffle: Option<u64>) -> ([[u64; 4]; 4], Totals) {
    let link = LinkSpec { bits_per_second: 100_000_000_000, delay: 1_000_000 };
    let topology = Topology::leaf_spine(2, 4, 4, link, link);
    let flows: Vec<FlowSpec> = (0..4)
        .map(|source| {
            let tuple = FlowTuple { source, destination: source + 4, ports: source };
            FlowSpec { source, destination: source + 4, bytes: PACKETS * 1_000, start: 0, class: DATA_CLASS, tuple }
        })
        .collect();
    let algorithm = algorithm("pfc").unwrap();
    let [(_, rp), (_, np)] = algorithm.presets(None).unwrap();
    let scenario = Scenario {
        paths,
        transport: Transport { recovery: Recovery::SelectiveRepeat, ..Transport::default() },
        end: 1_000_000_000_000,
        shuffle,
        ..Scenario::new(&topology, &flows, &*algorithm, [&rp, &np], Nanos::new(10_000))
    };
    let all = RefCell::new([[0; 4]; 4]);
    let counts = &all;
    let examples = Examples::new(&scenario).unwrap();
    let mut network = Network::new(&scenario, &examples).unwrap();
    for spine in 0..4 {
        // The first leaf is node 8; its ports to the spines are behind those to its hosts.
        let tap = move |_, origin, frame: &[u8]| {
            let Ok(Parsed::Roce(roce)) = wire::parse(frame, frame.len()) else { return Ok(()) };
            // The last byte of the destination's address, which follows the host's number.
            if origin == Origin::Sent && roce.info.class().carries_data() {
                let flow = usize::from(frame[33]) % 4;
                counts.borrow_mut()[flow][spine] += 1;
            }
            Ok(())
        };
        network.tap_port(8, 5 + spine as u32, tap).unwrap();
    }
    while network.advance(1 << 20).unwrap() {}
    let totals = network.finish().unwrap();
    (all.into_inner(), totals)
}

/// Data packets of each flow are spread over all spines: in turn to a packet, at random within five standard deviations of the
/// binomial distribution. By the hash each flow has one spine. All flows complete, and packets in turn do so in the time of a
/// flow that is alone.
#[test]
fn sprayed_packets_take_all_equal_paths() {
    let spread = |counts: [u64; 4]| (counts.into_iter().min().unwrap(), counts.into_iter().max().unwrap());
    for (paths, apart) in [(PathChoice::SprayRoundRobin, 1), (PathChoice::SprayRandom, 280)] {
        let (counts, totals) = run(paths, None);
        assert_eq!((totals.completions.len(), totals.dropped), (4, 0));
        for flow in counts {
            let (least, most) = spread(flow);
            assert!(most - least <= apart, "{paths:?}: {counts:?}");
        }
        let sent: u64 = counts.iter().flatten().sum();
        assert_eq!(sent, 4 * PACKETS + totals.sent_again, "{paths:?}");
        assert!(run(paths, Some(7)) == (counts, totals), "{paths:?}");
    }
    let (counts, _) = run(PathChoice::Hash, None);
    assert!(counts.iter().all(|flow| spread(*flow).0 == 0 && flow.iter().filter(|&&count| count > 0).count() == 1));
    let (_, totals) = run(PathChoice::SprayRoundRobin, None);
    let alone = PACKETS * (1_058 + 24) * 80;
    assert!(totals.completions.iter().all(|done| done.time < alone + 10_000_000), "{:?}", totals.completions);
}
