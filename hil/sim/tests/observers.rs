//! What is seen of a network while it runs: samples of queues, links and flows.

use cc_core::Nanos;
use cc_core::wire::{self, Icrc, Parsed, Roce};
use cc_cp::QueueStage;
use cc_cp::red::Red;
use hil_algorithms::{algorithm, registry};
use hil_capture::crc::HostCrc;
use hil_sim::Picos;
use hil_sim::fabric::{
    Buffer, DATA_CLASS, Examples, FlowSpec, FlowTuple, Kind, Limits, Link, Network, Origin, Quantity, Sample, Scenario,
    Subject, Threshold, Topology, Totals,
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
    run_until(name, buffered, shuffle, observe, |_| {})
}

/// The same, with a look at the network at its end.
fn run_until(
    name: &str,
    buffered: bool,
    shuffle: Option<u64>,
    observe: impl FnOnce(&mut Network<'_>),
    end: impl FnOnce(&Network<'_>),
) -> Totals {
    let algorithm = algorithm(name).unwrap();
    let [(_, rp), (_, np)] = algorithm.presets(None).unwrap();
    let (_, switches) = stress_scenario(algorithm.signals(), Red::PRESETS[0].values);
    let last = 2 + switches.len() as u32;
    let mut ends = vec![[1, 3], [2, 3]];
    ends.extend((3..last).map(|switch| [switch, switch + 1]));
    ends.push([0, last]);
    let mut nodes = vec![Kind::Host; 3];
    nodes.resize(last as usize + 1, Kind::Switch);
    let link = |ends| Link { ends, bits_per_second: 100_000_000_000, delay: 1_000_000, loss: 0 };
    let topology = Topology { nodes, links: ends.into_iter().map(link).collect(), ..Topology::default() };
    let flows = [1, 2].map(|source| {
        let tuple = FlowTuple { source, destination: 0, ports: source };
        FlowSpec { source, destination: 0, bytes: FLOW, start: 0, class: DATA_CLASS, tuple }
    });
    let limits = Limits { threshold: Threshold::Static(60_000), ..Limits::default() };
    let scenario = Scenario {
        stages: Box::new(|port| Ok(if name == "pfc" { Vec::new() } else { switches[port.node as usize - 3].clone() })),
        buffer: buffered.then(|| Buffer { limits, ..Buffer::default() }),
        end: 1_000_000_000_000,
        shuffle,
        ..Scenario::new(&topology, &flows, &*algorithm, [&rp, &np], Nanos::new(10_000))
    };
    let examples = Examples::new(&scenario).unwrap();
    let mut network = Network::new(&scenario, &examples).unwrap();
    observe(&mut network);
    while network.advance(1 << 20).unwrap() {}
    end(&network);
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
    assert_eq!(at(Quantity::Queue, Subject::Queue(3, 3, 3)), Some((10_000_000, 103 * 1_058)));
    assert_eq!(at(Quantity::Sent, Subject::Port(1, 1)), Some((10_000_000, 116 * 1_058)));
    assert_eq!(at(Quantity::Sent, Subject::Port(3, 3)), Some((10_000_000, 103 * 1_058)));
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

/// A frame that a tap saw.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    at: Picos,
    origin: Origin,
    frame: Vec<u8>,
}

/// A run as [`run`] has it, with what the taps of these ports see.
fn tapped(name: &str, buffered: bool, ports: [(u32, u32); 2]) -> (Totals, [Vec<Seen>; 2]) {
    let seen = [(); 2].map(|()| Rc::new(RefCell::new(Vec::<Seen>::new())));
    let totals = run(name, buffered, None, |network| {
        for ((node, port), seen) in ports.into_iter().zip(&seen) {
            let seen = Rc::clone(seen);
            let tap = move |at, origin, frame: &[u8]| {
                seen.borrow_mut().push(Seen { at, origin, frame: frame.to_vec() });
                Ok(())
            };
            network.tap_port(node, port, tap).unwrap();
        }
    });
    (totals, seen.map(|seen| seen.take()))
}

/// What leaves by one end of a link arrives at the other, byte for byte: the frame's time on the line at 100 Gb/s, with 24 bytes of
/// preamble, check sequence and gap, and 1 us later. Each frame has a valid ICRC, or is a PFC frame of those that are counted, and
/// the taps change nothing.
#[test]
fn what_leaves_a_port_arrives_at_the_other_end() {
    for (name, buffered) in [("pfc", true), ("dcqcn", true), ("hpcc", false), ("hpcc_star", false), ("mlcc", false)] {
        let (totals, ends) = tapped(name, buffered, [(1, 1), (3, 1)]);
        assert!(totals == run(name, buffered, None, |_| {}), "{name}");
        let is_pfc = |seen: &&Seen| matches!(wire::parse(&seen.frame, seen.frame.len()), Ok(Parsed::Pfc(_)));
        for seen in &ends {
            assert!(seen.is_sorted_by_key(|seen| seen.at), "{name}: times are not in order");
            for frame in seen.iter().filter(|seen| !is_pfc(seen)).map(|seen| &seen.frame) {
                let roce = Roce::of(frame).unwrap_or_else(|| panic!("{name}: {frame:02x?}"));
                assert_eq!(roce.icrc::<HostCrc>(), Icrc::Valid, "{name}: {frame:02x?}");
            }
        }
        for [from, to] in [[0, 1], [1, 0]] {
            let of = |end: usize, origin| ends[end].iter().filter(move |seen| seen.origin == origin);
            let sent: Vec<&Seen> = of(from, Origin::Sent).filter(|seen| !is_pfc(seen)).collect();
            let arrived: Vec<&Seen> = of(to, Origin::Arrived).filter(|seen| !is_pfc(seen)).collect();
            assert!(arrived.len() > 100 && sent.len() - arrived.len() < 20, "{name}: the last may be on the link");
            for (sent, arrived) in sent.iter().zip(&arrived) {
                let on_the_line = (sent.frame.len() as u64 + 24) * 80;
                assert_eq!(arrived.at, sent.at + on_the_line + 1_000_000, "{name}");
                assert!(arrived.frame == sent.frame, "{name}: at {}", sent.at);
            }
        }
        let pfc = ends[0].iter().filter(is_pfc).count();
        assert_eq!(pfc, totals.pfc.iter().filter(|pfc| pfc.node == 1).count(), "{name}");
        assert_eq!(pfc > 0, buffered, "{name}");
        assert_eq!(ends[1].iter().filter(is_pfc).count(), pfc, "{name}");
    }
}

#[test]
fn the_tap_of_a_port_that_is_not_there_is_refused_and_an_error_of_a_tap_ends_the_run() {
    run("pfc", false, None, |network| {
        let error = network.tap_port(3, 4, |_, _, _| Ok(())).unwrap_err().to_string();
        assert_eq!(error, "no port 4 at node 3, which has 3, counted from 1");
        assert!(network.tap_port(9, 1, |_, _, _| Ok(())).is_err());
    });
    run("pfc", false, None, |network| {
        let mut left = 3;
        let tap = move |_, _, _: &[u8]| {
            left -= 1;
            anyhow::ensure!(left != 0, "the disk is full");
            Ok(())
        };
        network.tap_port(1, 1, tap).unwrap();
        assert_eq!(network.advance(1_000).unwrap_err().to_string(), "the disk is full");
    });
}

/// Every packet of every algorithm is what a full parse and a full emission make of it, at each node that it reaches: as many as were
/// delivered, and those of the links between. Nothing else changes.
#[test]
fn packets_of_every_algorithm_are_what_a_full_emission_makes() {
    for name in registry::names() {
        let plain = run(name, true, None, |_| {});
        let checked = Rc::new(RefCell::new(None));
        let kept = Rc::clone(&checked);
        let totals = run_until(
            name,
            true,
            None,
            |network| network.check_frames(),
            |network| {
                kept.replace(network.checked_frames());
            },
        );
        assert!(totals == plain, "{name}: {totals:?}, unchecked {plain:?}");
        let checked = checked.take().unwrap();
        let least = 2 * totals.delivered - totals.in_flight;
        assert!((least..=totals.packet_hops).contains(&checked), "{name}: {checked} checked, {totals:?}");
    }
}
