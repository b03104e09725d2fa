//! Networks of hosts and switches.

use cc_core::Nanos;
use cc_cp::lscc::direct_int::DirectInt;
use cc_cp::{QueueStage, int::IntPush};
use hil_algorithms::settings::words;
use hil_algorithms::{algorithm, registry};
use hil_sim::fabric::{
    DATA_CLASS, Examples, FlowSpec, FlowTuple, Kind, Link, Network, Origin, Recovery, Scenario, Topology, Transport,
};
use hil_sim::topologies::LinkSpec;
use std::num::NonZeroU32;

/// Two hosts at each end of two switches that three others join, each way a path of its own. Each switch returns the telemetry
/// that the one before it on the path has written, whichever it is: each CNP finds its way to the sender, and is delivered or on its way at
/// the end, which [`Network::finish`] checks. The four flows have 500 packets each, the last of which has one byte, and as many
/// acknowledgements.
#[test]
fn cnps_of_switches_arrive_over_paths_of_equal_length() {
    let mut nodes = vec![Kind::Host; 4];
    nodes.resize(9, Kind::Switch);
    let ends = [[0, 4], [1, 4], [2, 5], [3, 5], [4, 6], [4, 7], [4, 8], [6, 5], [7, 5], [8, 5]];
    let links = ends.map(|ends| Link { ends, bits_per_second: 100_000_000_000, delay: 1_000_000, loss: 0 });
    let topology = Topology { nodes, links: links.to_vec(), ..Topology::default() };
    let flows: Vec<FlowSpec> = [(0, 2), (0, 3), (1, 2), (1, 3)]
        .into_iter()
        .zip(10_000..)
        .map(|((source, destination), ports)| FlowSpec {
            source,
            destination,
            bytes: 499_001,
            start: 0,
            class: DATA_CLASS,
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
        stages: Box::new(move |_| Ok(stages())),
        end: 1_000_000_000_000,
        ..Scenario::new(&topology, &flows, &*algorithm, [&rp, &np], Nanos::new(10_000))
    };
    let totals = scenario.run().unwrap();
    assert_eq!((totals.completions.len(), totals.dropped), (4, 0));
    let cnps = totals.injected - 4 * 2 * 500;
    assert!(cnps > 100, "{totals:?}");
    assert_eq!(totals.feedback.iter().map(|at| at.cnps).sum::<u64>(), cnps);
    // Data and acknowledgements pass four links, and a CNP one to three: each of the three switches of a path sends some.
    let hops = totals.packet_hops - 4 * 4 * 2 * 500;
    assert!((cnps - totals.in_flight..=3 * cnps).contains(&hops), "{hops} packet-hops of {cnps} CNPs");
}

/// A packet is admitted while fewer bytes than the window are in flight (Li et al., "HPCC", SIGCOMM 2019, section 3.2: inflight
/// bytes are kept below W), so that the last one may exceed it. Over links of a millisecond, what leaves before the first
/// acknowledgement is one window: at 24 Gb/s and a configured round trip of 1 us, 3,000 bytes.
#[test]
fn packets_leave_while_fewer_bytes_than_the_window_are_in_flight_c18() {
    let algorithm = algorithm("hpcc").unwrap();
    let [(_, rp), (_, np)] = algorithm.presets(Some("draft")).unwrap();
    let mut exceeded = 0;
    for gbps in [12, 24, 25, 35, 36, 100, 400] {
        let topology = Topology::star(2, LinkSpec { bits_per_second: gbps * 1_000_000_000, delay: 1_000_000_000 });
        let tuple = FlowTuple { source: 0, destination: 1, ports: 0 };
        let flows = [FlowSpec { source: 0, destination: 1, bytes: 1_000_000, start: 0, class: DATA_CLASS, tuple }];
        let scenario = Scenario {
            payload: 1_024,
            end: 4_000_000_000,
            ..Scenario::new(&topology, &flows, &*algorithm, [&rp, &np], Nanos::new(1_000))
        };
        let (mut sent, mut bytes, mut frame_bytes) = (0, 0, 0);
        let mut tap = |_, origin, frame: &[u8]| {
            assert_eq!(origin, Origin::Sent, "the first acknowledgement comes after 4 ms");
            (sent, bytes, frame_bytes) = (sent + 1, bytes + frame.len() as u64, frame.len() as u64);
            Ok(())
        };
        let examples = Examples::new(&scenario).unwrap();
        let mut network = Network::new(&scenario, &examples).unwrap();
        network.tap(0, &mut tap);
        while network.advance(1 << 20).unwrap() {}
        network.finish().unwrap();
        let window = gbps * 1_000 / 8;
        assert_eq!(sent, window.div_ceil(frame_bytes), "{gbps} Gb/s");
        exceeded += u64::from(bytes > window);
    }
    assert!(exceeded > 0, "no window that is no multiple of a frame");
}

/// Each link loses one frame of a hundred, of handshakes, data, acknowledgements and CNPs alike. Every flow is whole in the end: of
/// one byte, of one packet, of a byte more, and of a thousand packets. With selective repeat, fewer packets are sent again.
#[test]
fn flows_over_links_that_lose_frames_are_whole() {
    let mut topology = Topology::star(5, LinkSpec { bits_per_second: 100_000_000_000, delay: 1_000_000 });
    topology.links.iter_mut().for_each(|link| link.loss = u32::MAX / 100);
    let sizes = [1, 1_000, 1_001, 1_000_000];
    let flows = [1, 2, 3, 4].map(|source| {
        let tuple = FlowTuple { source, destination: 0, ports: 0 };
        FlowSpec { source, destination: 0, bytes: sizes[source as usize - 1], start: 0, class: DATA_CLASS, tuple }
    });
    let one = NonZeroU32::MIN;
    for name in registry::names() {
        let algorithm = algorithm(name).unwrap();
        let [(_, rp), (_, np)] = algorithm.presets(None).unwrap();
        let run = |recovery, ack_interval| {
            let mut sum = 0;
            for seed in 0..5 {
                let scenario = Scenario {
                    stages: Box::new(|_| Ok(vec![(IntPush::NAME, words(&IntPush::PRESETS[0].values))])),
                    transport: Transport {
                        recovery,
                        ack_interval,
                        handshake: true,
                        timeout: 1_000_000_000,
                        ..Transport::default()
                    },
                    end: 1_000_000_000_000_000,
                    seed,
                    ..Scenario::new(&topology, &flows, &*algorithm, [&rp, &np], Nanos::new(5_000))
                };
                let examples = Examples::new(&scenario).unwrap();
                let mut network = Network::new(&scenario, &examples).unwrap();
                while network.advance(1 << 20).unwrap() {}
                assert_eq!(network.progress(), (1_002_002, 1_002_002), "{name}, seed {seed}");
                let totals = network.finish().unwrap();
                assert!(totals.lost > 0 && totals.completions.len() == 4, "{name}, seed {seed}: {totals:?}");
                sum += totals.sent_again;
            }
            sum
        };
        let again = run(Recovery::GoBackN, one);
        let chosen = run(Recovery::SelectiveRepeat, one);
        run(Recovery::GoBackN, one.saturating_add(15));
        assert!(chosen < again, "{name}: {chosen} packets again with selective repeat, {again} with go-back-N");
    }
}
