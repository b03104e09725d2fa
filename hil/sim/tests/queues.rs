//! The queues of switch ports and the classes of hosts: priority, weights, shaping, ECN by class, and the timing of PFC.

use cc_core::wire::{self, Parsed};
use cc_core::{Ecn, Nanos};
use hil_algorithms::algorithm;
use hil_sim::Picos;
use hil_sim::fabric::{
    Buffer, Examples, FlowSpec, FlowTuple, Kind, Limits, Network, Origin, QueueSettings, Scenario, Service, Threshold,
    Topology, Totals,
};
use hil_sim::marking::Pauses;
use hil_sim::topologies::LinkSpec;
use std::num::NonZeroU64;

/// Bytes of a data packet with 1,000 bytes of payload, and those of preamble, check sequence and gap.
const PACKET: i64 = 1_058;
const FRAMING: i64 = 24;
const GBPS: u64 = 1_000_000_000;

/// A data frame: when it begins to leave the port of the receiver, its class, and whether it is marked with CE.
type Departure = (Picos, u8, bool);

/// Host 0 receives one flow from each other host, which has the class and the packets of an entry. All begin at once, at line rate.
struct Setup<'a> {
    flows: &'a [(u8, u64)],
    gbps: u64,
}

impl Setup<'_> {
    /// Runs the scenario, as changed by a function. Returns what leaves by the switch's port to host 0, when PFC frames for class 3
    /// arrive there with their quanta, and the totals.
    fn run(&self, change: impl FnOnce(&mut Scenario<'_>)) -> (Vec<Departure>, Vec<(Picos, u16)>, Totals) {
        let hosts = self.flows.len() as u32 + 1;
        let topology = Topology::star(hosts, LinkSpec { bits_per_second: self.gbps * GBPS, delay: 1_000_000 });
        let flows: Vec<FlowSpec> = (1..)
            .zip(self.flows)
            .map(|(source, &(class, packets))| {
                let tuple = FlowTuple { source, destination: 0, ports: 0 };
                FlowSpec { source, destination: 0, bytes: packets * 1_000, start: 0, class, tuple }
            })
            .collect();
        let algorithm = algorithm("pfc").unwrap();
        let [(_, rp), (_, np)] = algorithm.presets(None).unwrap();
        let mut scenario = Scenario {
            end: 1_000_000_000_000,
            ..Scenario::new(&topology, &flows, &*algorithm, [&rp, &np], Nanos::new(10_000))
        };
        change(&mut scenario);
        let (mut departures, mut pauses) = (Vec::new(), Vec::new());
        let mut tap = |at, origin, frame: &[u8]| {
            match (origin, wire::parse(frame, frame.len())) {
                // The queue pairs of a receiver are numbered in the order of its flows, from 0x200 on.
                (Origin::Sent, Ok(Parsed::Roce(roce))) => {
                    let (class, _) = self.flows[roce.bth.dest_qp.get() as usize - 0x200];
                    departures.push((at, class, roce.ecn == Ecn::Ce));
                }
                (Origin::Arrived, Ok(Parsed::Pfc(pfc))) => pauses.extend(pfc.time(3).map(|quanta| (at, quanta))),
                _ => {}
            }
            Ok(())
        };
        let examples = Examples::new(&scenario).unwrap();
        let mut network = Network::new(&scenario, &examples).unwrap();
        network.tap_port(hosts, 1, &mut tap).unwrap();
        while network.advance(1 << 20).unwrap() {}
        let totals = network.finish().unwrap();
        (departures, pauses, totals)
    }
}

/// The settings of some classes; the others have the default.
fn queues(of: &[(u8, QueueSettings)]) -> [QueueSettings; 8] {
    let mut queues = [QueueSettings::default(); 8];
    of.iter().for_each(|&(class, settings)| queues[usize::from(class)] = settings);
    queues
}

fn service(service: Service) -> QueueSettings {
    QueueSettings { service, ..QueueSettings::default() }
}

fn weight(weight: u8) -> QueueSettings {
    service(Service::Weight(weight))
}

/// The classes of all departures while each of these classes has packets left, from the first on at which all have.
fn backlogged(departures: &[Departure], flows: &[(u8, u64)]) -> Vec<u8> {
    let mut left: Vec<(u8, u64)> = flows.to_vec();
    // The first packets of all flows arrive at once, and the first to arrive leaves alone.
    let all = departures.iter().map(|&(_, class, _)| class).take_while(|&class| {
        let flow = left.iter_mut().find(|flow| flow.0 == class).unwrap();
        flow.1 -= 1;
        left.iter().all(|&(_, packets)| packets > 0)
    });
    all.skip(1).collect()
}

/// In turn, each of three classes sends every third packet; by weights, whatever they are, no class is ever more than a packet of
/// its own and one of another from its share of the bytes, and over the whole run of 3,000 packets and more, all are within two
/// packets of it.
#[test]
fn shares_are_those_of_the_weights() {
    let flows = [(1, 3_000), (3, 3_000), (6, 3_000)];
    for weights in [[1, 1, 1], [5, 3, 2], [10, 1, 1], [255, 100, 1], [7, 200, 13]] {
        let of = queues(&[(1, weight(weights[0])), (3, weight(weights[1])), (6, weight(weights[2]))]);
        let (departures, _, totals) = Setup { flows: &flows, gbps: 100 }.run(|scenario| {
            scenario.queues = Box::new(move |_| of);
        });
        assert_eq!((totals.completions.len(), totals.dropped), (3, 0));
        let mut bytes = [0; 3];
        let all: i64 = weights.iter().map(|&weight| i64::from(weight)).sum();
        let order = backlogged(&departures, &flows);
        assert!(order.len() > 3_000);
        for class in order {
            bytes[usize::from(class) / 3] += PACKET;
            let sum: i64 = bytes.iter().sum();
            for (own, share) in bytes.iter().zip(weights.map(i64::from)) {
                // |own - sum share / all| <= 2 packets
                assert!((own * all - sum * share).abs() <= 2 * PACKET * all, "{weights:?}: {bytes:?}");
            }
            for (one, of_one) in bytes.iter().zip(weights.map(i64::from)) {
                for (other, of_other) in bytes.iter().zip(weights.map(i64::from)) {
                    // |one / of_one - other / of_other| <= PACKET / of_one + PACKET / of_other
                    let apart = (one * of_other - other * of_one).abs();
                    assert!(apart <= PACKET * (of_one + of_other), "{weights:?}: {bytes:?}");
                }
            }
        }
    }
    let (departures, ..) = Setup { flows: &flows, gbps: 100 }.run(|_| {});
    let order = backlogged(&departures, &flows);
    assert!(order.windows(4).all(|four| four[0] == four[3] && four[0] != four[1] && four[1] != four[2]), "{order:?}");
}

/// Two hosts send class 5, and one class 2: nothing of class 2 leaves from the first packet of class 5 on until its last, but for
/// the packet that is leaving already.
#[test]
fn a_strict_class_starves_the_lower_ones() {
    let flows = [(5, 2_000), (5, 2_000), (2, 2_000)];
    let of = queues(&[(5, service(Service::Strict)), (2, service(Service::Strict))]);
    let (departures, _, totals) =
        Setup { flows: &flows, gbps: 100 }.run(|scenario| scenario.queues = Box::new(move |_| of));
    assert_eq!(totals.completions.len(), 3);
    let order: Vec<u8> = departures.iter().map(|&(_, class, _)| class).collect();
    let first = order.iter().position(|&class| class == 5).unwrap();
    assert!(first <= 1, "{first}");
    assert!(order[first..first + 4_000].iter().all(|&class| class == 5));
    assert!(order[first + 4_000..].iter().all(|&class| class == 2));
}

/// 802.1Qaz: a strict class for credits that is shaped to 10 Gb/s, and two classes that share the rest 3 to 1. None starves: over
/// any time, the shaped class has its rate and a packet more at most, and each of the others its part of the rest.
#[test]
fn strict_shaped_and_weighted_classes_share_a_port() {
    let flows = [(7, 1_000), (3, 6_000), (4, 3_000)];
    let rate = NonZeroU64::new(10 * GBPS);
    let of = queues(&[(7, QueueSettings { rate, ..service(Service::Strict) }), (3, weight(3)), (4, weight(1))]);
    let (departures, _, totals) =
        Setup { flows: &flows, gbps: 100 }.run(|scenario| scenario.queues = Box::new(move |_| of));
    assert_eq!((totals.completions.len(), totals.dropped), (3, 0));
    let gap = ((PACKET + FRAMING) * 800) as Picos;
    let shaped: Vec<Picos> = departures.iter().filter(|departure| departure.1 == 7).map(|&(at, ..)| at).collect();
    for window in [2, 10, 100, 900] {
        for ends in shaped.windows(window) {
            let lasted = ends[window - 1] - ends[0];
            let packets = (window - 1) as Picos;
            assert!((gap * (packets - 1)..=gap * (packets + 1)).contains(&lasted), "{window} packets in {lasted} ps");
        }
    }
    let order = backlogged(&departures, &flows);
    let of_class = |wanted| order.iter().filter(|&&class| class == wanted).count() as i64;
    let (all, third) = (order.len() as i64, of_class(3) - 3 * of_class(4));
    assert!(
        (of_class(7) * 10 - all).abs() <= 20 && third.abs() <= 4,
        "{} {} {}",
        of_class(7),
        of_class(3),
        of_class(4)
    );
}

/// Every packet of class 3 is marked behind the first, and none of class 4.
#[test]
fn a_queue_without_ecn_marks_nothing() {
    let flows = [(3, 500), (4, 500)];
    let of = queues(&[(4, QueueSettings { ecn: false, ..QueueSettings::default() })]);
    // kmin, kmax, pmax in millionths, and no reference speed.
    let red = vec![1, 2, 1_000_000, 0];
    let (departures, _, totals) = Setup { flows: &flows, gbps: 100 }.run(|scenario| {
        scenario.stages = Box::new(move |_| Ok(vec![("red", red.clone())]));
        scenario.queues = Box::new(move |_| of);
    });
    let marked = |wanted| departures.iter().filter(|&&(_, class, is_marked)| class == wanted && is_marked).count();
    assert!(marked(3) > 450, "{}", marked(3));
    assert_eq!((marked(4), totals.marks), (0, marked(3) as u64));
}

/// Class 3 has PFC, class 4 has none: with one buffer and two senders of each, PFC frames are about class 3 alone, which loses
/// nothing, and class 4 loses what exceeds its threshold.
#[test]
fn a_lossy_class_beside_a_lossless_one_is_never_paused() {
    let topology = Topology::star(5, LinkSpec { bits_per_second: 100 * GBPS, delay: 1_000_000 });
    let flows = [3, 3, 4, 4].into_iter().zip(1..).map(|(class, source)| {
        let tuple = FlowTuple { source, destination: 0, ports: 0 };
        FlowSpec { source, destination: 0, bytes: 2_000_000, start: 0, class, tuple }
    });
    let flows: Vec<FlowSpec> = flows.collect();
    let algorithm = algorithm("pfc").unwrap();
    let [(_, rp), (_, np)] = algorithm.presets(None).unwrap();
    let limits = Limits {
        threshold: Threshold::Static(100_000),
        lossy_threshold: Threshold::Static(100_000),
        ..Limits::default()
    };
    let scenario = Scenario {
        buffer: Some(Buffer { limits, lossless: 1 << 3, ..Buffer::default() }),
        end: 1_000_000_000_000,
        ..Scenario::new(&topology, &flows, &*algorithm, [&rp, &np], Nanos::new(10_000))
    };
    let mut classes = [0; 8];
    let mut tap = |_, origin, frame: &[u8]| {
        if let (Origin::Sent, Ok(Parsed::Pfc(pfc))) = (origin, wire::parse(frame, frame.len())) {
            (0..8).for_each(|class| classes[usize::from(class)] += usize::from(pfc.time(class).is_some()));
        }
        Ok(())
    };
    let examples = Examples::new(&scenario).unwrap();
    let mut network = Network::new(&scenario, &examples).unwrap();
    let taps = std::cell::RefCell::new(&mut tap);
    for port in 1..=5 {
        network.tap_port(5, port, |at, origin, frame: &[u8]| (taps.borrow_mut())(at, origin, frame)).unwrap();
    }
    while network.advance(1 << 20).unwrap() {}
    let totals = network.finish().unwrap();
    assert!(totals.completions.len() == 4 && totals.lossless_dropped == 0 && totals.dropped > 100, "{totals:?}");
    assert!(classes[3] > 10 && classes.iter().sum::<usize>() == classes[3], "{classes:?}");
    assert!(totals.pfc.iter().all(|record| [1, 2].contains(&record.node)), "{:?}", totals.pfc);
}

/// IEEE 802.1Qbb: host 0 pauses class 3 for 10 us every 50 us. The frame that is leaving when the PFC frame arrives leaves whole;
/// then no frame of class 3 begins until the quanta of 512 bit times have passed, and the next begins within one quantum of that.
/// Class 4 is not paused: it has the link alone meanwhile.
#[test]
fn a_pause_lasts_its_quanta() {
    for gbps in [25, 100, 400] {
        let flows = [(3, 30 * gbps), (4, 30 * gbps)];
        let (departures, pauses, _) = Setup { flows: &flows[..1], gbps }.run(|scenario| {
            scenario.pauses = Some((0, Pauses { every: Nanos::new(50_000), length: Nanos::new(10_000) }));
        });
        let quantum = 512_000 / gbps;
        let frame = (PACKET + FRAMING) as Picos * 8_000 / gbps;
        assert!(pauses.len() > 1, "{gbps} Gb/s");
        let last = departures.last().unwrap().0;
        for (arrived, quanta) in pauses.into_iter().filter(|&(arrived, _)| arrived + 20_000_000 < last) {
            assert!(
                (10_000_000..=10_000_000 + quantum).contains(&(u64::from(quanta) * quantum)),
                "{gbps} Gb/s: {quanta}"
            );
            let over = arrived + u64::from(quanta) * quantum;
            let after = departures.partition_point(|&(at, ..)| at < arrived);
            let (before, next) = (departures[after - 1].0, departures[after].0);
            assert!(before + frame + quantum > arrived, "{gbps} Gb/s: busy until the pause");
            assert!(next + 1_000 >= over && next <= over + quantum.max(1_000), "{gbps} Gb/s: {next} for {over}");
        }
        // Class 4 goes on.
        let (departures, pauses, _) = Setup { flows: &flows, gbps }.run(|scenario| {
            scenario.pauses = Some((0, Pauses { every: Nanos::new(50_000), length: Nanos::new(10_000) }));
        });
        let (arrived, _) = pauses[0];
        let during: Vec<_> =
            departures.iter().filter(|&&(at, ..)| (arrived..arrived + 10_000_000).contains(&at)).collect();
        assert!(during.len() as u64 >= 10_000_000 / frame - 1 && during.iter().all(|&&(_, class, _)| class == 4));
    }
}

/// Host 0 sends flows of four classes to one host each, all at line rate, with the weights 3 and 1 for classes 3 and 4, class 5 shaped
/// to 10 Gb/s, and class 7, which is strict, from 100 us on. Each class takes the time of its bytes at its share of the link: class 7
/// has all of it; the shaped one has its 10 Gb/s but while class 7 sends; of the other 90 Gb/s class 3 has three quarters and class 4
/// one, and then all.
#[test]
fn a_host_serves_the_classes_of_its_flows_by_priority_weight_and_rate() {
    let topology = Topology::star(5, LinkSpec { bits_per_second: 100 * GBPS, delay: 1_000_000 });
    let flows: Vec<FlowSpec> = [(3, 3_000, 0), (4, 3_000, 0), (5, 1_000, 0), (7, 1_000, 100_000_000)]
        .into_iter()
        .zip(1..)
        .map(|((class, packets, start), destination)| {
            let tuple = FlowTuple { source: 0, destination, ports: 0 };
            FlowSpec { source: 0, destination, bytes: packets * 1_000, start, class, tuple }
        })
        .collect();
    let algorithm = algorithm("pfc").unwrap();
    let [(_, rp), (_, np)] = algorithm.presets(None).unwrap();
    let shaped = QueueSettings { rate: NonZeroU64::new(10 * GBPS), ..QueueSettings::default() };
    let of = queues(&[(3, weight(3)), (4, weight(1)), (5, shaped), (7, service(Service::Strict))]);
    let run = |shuffle| {
        let mut scenario = Scenario::new(&topology, &flows, &*algorithm, [&rp, &np], Nanos::new(10_000));
        scenario.queues = Box::new(move |port| if port.at == Kind::Host { of } else { Default::default() });
        Scenario { end: 1_000_000_000_000, shuffle, ..scenario }.run().unwrap()
    };
    let totals = run(None);
    let mut times = [0; 4];
    totals.completions.iter().for_each(|done| times[done.flow as usize] = done.time);
    // The propagation delays both ways, a packet at the second link, and two times of an acknowledgement.
    let packet = (PACKET + FRAMING) as f64 * 0.08;
    let rest = 4_000.0 + packet + 2.0 * 84.0 * 0.08;
    let strict = 1_000.0 * packet;
    let first = 3_000.0 * packet / 0.675;
    let second = first + (3_000.0 - 1_000.0) * packet / 0.9;
    let expected =
        [strict + first, strict + second, strict + (10.0 * 999.0 + 1.0) * packet, strict].map(|time| time + rest);
    for (class, (time, expected)) in [3, 4, 5, 7].into_iter().zip(times.into_iter().zip(expected)) {
        let late = time as f64 / 1_000.0 - expected;
        // The shaped class makes up for a packet that class 7 has kept back; the others are a few packets from their shares.
        assert!(late.abs() <= 11.0 * packet + 1.0, "class {class}: {time} ps, {expected} ns expected");
    }
    assert_eq!(run(Some(5)), totals, "another order of events");
}

/// A host with a strict class and a lower one: a pause of the strict class alone lets the lower one send, and while its rate is below
/// that of the link the lower one has the rest. Two classes without settings of the host send in turn, flow by flow.
#[test]
fn a_host_serves_other_classes_while_one_is_paused_or_absent() {
    let topology = Topology::dumbbell(
        1,
        2,
        LinkSpec { bits_per_second: 100 * GBPS, delay: 1_000_000 },
        LinkSpec { bits_per_second: 100 * GBPS, delay: 1_000_000 },
    );
    let flow = |class, destination| {
        let tuple = FlowTuple { source: 0, destination, ports: 0 };
        FlowSpec { source: 0, destination, bytes: 2_000_000, start: 0, class, tuple }
    };
    // Class 7 ends at a link of a quarter of the speed, and is paused for three quarters of the time.
    let mut slow = topology.clone();
    let link = slow.links.iter_mut().find(|link| link.ends.contains(&1)).unwrap();
    link.bits_per_second = 25 * GBPS;
    let algorithm = algorithm("pfc").unwrap();
    let [(_, rp), (_, np)] = algorithm.presets(None).unwrap();
    let of = queues(&[(7, service(Service::Strict))]);
    let run = |topology: &Topology, flows: &[FlowSpec], of: [QueueSettings; 8]| {
        let mut scenario = Scenario::new(topology, flows, &*algorithm, [&rp, &np], Nanos::new(10_000));
        scenario.queues = Box::new(move |port| if port.at == Kind::Host { of } else { Default::default() });
        let limits = Limits { threshold: Threshold::Static(50_000), ..Limits::default() };
        let buffer = Some(Buffer { limits, lossless: u8::MAX, ..Buffer::default() });
        let totals = Scenario { end: 1_000_000_000_000, buffer, ..scenario }.run().unwrap();
        assert_eq!((totals.completions.len(), totals.dropped), (flows.len(), 0));
        let mut times = vec![0; flows.len()];
        totals.completions.iter().for_each(|done| times[done.flow as usize] = done.time / 1_000_000);
        times
    };
    let alone = run(&topology, &[flow(0, 2)], of)[0];
    let both = run(&topology, &[flow(7, 1), flow(0, 2)], of);
    assert!(both[0].abs_diff(alone) <= 2 && both[1].abs_diff(2 * alone) <= 6, "{alone}, {both:?}");
    let both = run(&slow, &[flow(7, 1), flow(0, 2)], of);
    assert!(both[0].abs_diff(4 * alone) <= 20 && both[1] < 3 * alone / 2, "{alone}, {both:?}");
    let both = run(&topology, &[flow(7, 1), flow(0, 2)], Default::default());
    assert!(both[0].abs_diff(2 * alone) <= 6 && both[1].abs_diff(2 * alone) <= 6, "{alone}, {both:?}");
}
