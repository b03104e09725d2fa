//! What is seen of a network while it runs: samples of queues, links and flows.

use cc_core::{IntLayout, Nanos};
use cc_cp::QueueStage;
use cc_cp::red::Red;
use hil_algorithms::algorithm;
use hil_sim::Picos;
use hil_sim::fabric::{
    Buffer, Effects, Examples, FlowSpec, FlowTuple, Kind, Limits, Link, Network, Quantity, Sample, Scenario, Subject,
    Threshold, Topology, Totals, Transport,
};
use hil_sim::marking::stress_scenario;
use std::cell::RefCell;
use std::rc::Rc;

/// Bytes of payload of each flow.
const FLOW: u64 = 300_001;

/// Hosts 1 and 2 send a flow each to host 0 from time 0 on, over links of 100 Gb/s and 1 us and the switches that
/// [`stress_scenario`] has for an algorithm, in a line. With a buffer, PFC pauses a host of which a switch holds 60 kB.
/// `observe` attaches what is to see the network.
fn run(name: &str, buffered: bool, shuffle: Option<u64>, observe: impl FnOnce(&mut Network<'_>)) -> Totals {
    let algorithm = algorithm(name).unwrap();
    let [(_, rp), (_, np)] = algorithm.presets(None).unwrap();
    let (_, switches) = stress_scenario(algorithm.signals(), Red::PRESETS[0].values);
    let last = 2 + switches.len() as u32;
    let mut ends = vec![[0, last], [1, 3], [2, 3]];
    ends.extend((3..last).map(|switch| [switch, switch + 1]));
    let mut nodes = vec![Kind::Host; 3];
    nodes.resize(last as usize + 1, Kind::Switch);
    let link = |ends| Link { ends, bits_per_second: 100_000_000_000, delay: 1_000_000, loss: 0 };
    let topology = Topology { nodes, links: ends.into_iter().map(link).collect() };
    let flows = [1, 2].map(|source| {
        let tuple = FlowTuple { source, destination: 0, ports: source };
        FlowSpec { source, destination: 0, bytes: FLOW, start: 0, tuple }
    });
    let limits = Limits { threshold: Threshold::Static(60_000), ..Limits::default() };
    let scenario = Scenario {
        topology: &topology,
        flows: &flows,
        algorithm: &*algorithm,
        settings: [&rp, &np],
        stages: Box::new(|node, _| Ok(if name == "pfc" { Vec::new() } else { switches[node as usize - 3].clone() })),
        buffer: buffered.then(|| Buffer { limits, ..Buffer::default() }),
        queue_monitor: None,
        int_layout: IntLayout::Wide,
        payload: 1_000,
        transport: Transport::default(),
        records: None,
        pauses: None,
        base_rtt: Nanos::new(10_000),
        end: 1_000_000_000_000,
        seed: 1,
        shuffle,
        effects: Effects::default(),
    };
    let examples = Examples::new(&scenario).unwrap();
    let mut network = Network::new(&scenario, &examples).unwrap();
    observe(&mut network);
    while network.advance(1 << 20).unwrap() {}
    network.finish().unwrap()
}

/// A run as [`run`] has it, with its samples at this interval.
fn sampled(name: &str, buffered: bool, shuffle: Option<u64>, interval: Picos) -> (Totals, Vec<Sample>) {
    let samples = Rc::new(RefCell::new(Vec::new()));
    let kept = Rc::clone(&samples);
    let totals = run(name, buffered, shuffle, |network| {
        network.sample(interval, move |&sample| {
            kept.borrow_mut().push(sample);
            Ok(())
        });
    });
    (totals, samples.take())
}

fn sum(samples: &[Sample], quantity: Quantity) -> u64 {
    samples.iter().filter(|sample| sample.quantity == quantity).map(|sample| sample.value).sum()
}

/// Without congestion control both hosts send packets of 1,058 bytes at line rate, each of which takes 86,560 ps with preamble and
/// gap. The k-th of a host is at the switch at 1 us + k x 86,560 ps, so that before 10 us 103 of each host are there, of which as
/// many have begun to leave as one host has sent. Hosts have begun
/// to send 116 then.
#[test]
fn a_sample_is_what_follows_from_the_times_of_packets() {
    let (_, samples) = sampled("pfc", false, None, 10_000_000);
    let at = |quantity, subject| {
        let found = samples.iter().find(|sample| (sample.quantity, sample.subject) == (quantity, subject));
        found.map(|sample| (sample.at, sample.value))
    };
    assert_eq!(at(Quantity::Queue, Subject::Queue(3, 1, 3)), Some((10_000_000, 103 * 1_058)));
    assert_eq!(at(Quantity::Sent, Subject::Port(1, 1)), Some((10_000_000, 116 * 1_058)));
    assert_eq!(at(Quantity::Sent, Subject::Port(3, 1)), Some((10_000_000, 103 * 1_058)));
    assert_eq!(at(Quantity::Rate, Subject::Flow(0)), Some((10_000_000, 100_000_000_000)));
    assert_eq!(at(Quantity::Queue, Subject::Queue(1, 1, 3)), None);
    assert_eq!(at(Quantity::Paused, Subject::Port(1, 1)), None);
    let shown: Vec<String> = samples[..2].iter().map(Sample::to_string).collect();
    assert_eq!(shown[1], "10000,sent_bytes,1,1,,,122728");
}

/// Amounts sum to the totals of the run, states return to 0, and neither the interval nor the order in which events are added
/// changes the run.
#[test]
fn samples_sum_to_the_totals_and_change_nothing() {
    for (name, buffered) in [("pfc", true), ("dcqcn", true), ("dcqcn", false), ("hpcc", false), ("hpcc_star", false)] {
        let plain = run(name, buffered, None, |_| {});
        for (interval, shuffle) in [(1_000, None), (1_000_000, Some(1)), (7_777_000, Some(2)), (1_000_000_000, None)] {
            let (totals, samples) = sampled(name, buffered, shuffle, interval);
            assert!(totals == plain, "{name}: sampled every {interval} ps: {totals:?}, else {plain:?}");
            assert_eq!(sum(&samples, Quantity::Acked), 2 * FLOW, "{name}");
            assert_eq!(sum(&samples, Quantity::Marks), totals.marks, "{name}");
            assert_eq!(sum(&samples, Quantity::Paused) > 0, buffered, "{name}");
            assert!(sum(&samples, Quantity::Paused).abs_diff(totals.paused / 1_000) <= 2, "{name}: {totals:?}");
            let longest = samples.iter().filter(|sample| sample.quantity == Quantity::Queue).map(|sample| sample.value);
            assert!(longest.max().unwrap_or(0) <= totals.longest_queue, "{name}");
            let mut last = std::collections::BTreeMap::new();
            for sample in &samples {
                assert!(sample.at.is_multiple_of(interval), "{name}: {sample}");
                last.insert((sample.quantity.name(), sample.subject), sample.value);
            }
            for quantity in [Quantity::Queue, Quantity::Rate, Quantity::Window] {
                let states = last.iter().filter(|((name, _), _)| *name == quantity.name());
                assert!(states.clone().all(|(_, &value)| value == 0), "{name}: {:?}", states.collect::<Vec<_>>());
            }
            let (_, again) = sampled(name, buffered, shuffle.map_or(Some(3), |_| None), interval);
            assert!(again == samples, "{name}: samples differ with the order in which events are added");
        }
    }
    let (totals, samples) = sampled("dcqcn", false, None, 10_000_000);
    assert!(totals.marks > 0 && sum(&samples, Quantity::Cnps) > 0, "{totals:?}");
}
