//! The shared buffer of the fabric's switches, under senders without congestion control: plain PFC, and no PFC.

use cc_core::{IntLayout, Nanos};
use cc_cp::mmu::MmuSettings;
use hil_algorithms::algorithm;
use hil_algorithms::settings::words;
use hil_sim::Picos;
use hil_sim::fabric::{
    Buffer, DATA_CLASS, FlowSpec, FlowTuple, Headroom, Kind, Limits, Link, PfcRecord, Scenario, Threshold, Topology,
    Totals,
};
use hil_sim::marking::Stages;
use hil_sim::topologies::LinkSpec;

/// Bytes of a data packet with 1,000 bytes of payload: headers of Ethernet, IPv4, UDP and the transport, and ICRC.
const PACKET: u64 = 1_058;
/// Preamble, check sequence and gap.
const FRAMING: u64 = 24;
const GBPS: u64 = 1_000_000_000;

/// Picoseconds for which so many bytes occupy a link.
fn time(bytes: u64, bits_per_second: u64) -> Picos {
    bytes * 8_000 / (bits_per_second / GBPS)
}

/// Runs flows of so many packets from each other host to host 0, all from time 0 on. The algorithm is `pfc`: hosts send at line
/// rate, except while they are paused. Switches have no stages.
fn run(topology: &Topology, packets: u64, buffer: Buffer, shuffle: Option<u64>) -> anyhow::Result<Totals> {
    run_with(topology, packets, buffer, Vec::new(), shuffle)
}

/// The same with these stages.
fn run_with(
    topology: &Topology,
    packets: u64,
    buffer: Buffer,
    stages: Stages,
    shuffle: Option<u64>,
) -> anyhow::Result<Totals> {
    let hosts = topology.hosts().filter(|&host| host > 0);
    let tuple = |source| FlowTuple { source, destination: 0, ports: source };
    let flows = hosts.map(|source| FlowSpec {
        source,
        destination: 0,
        bytes: packets * 1_000,
        start: 0,
        class: DATA_CLASS,
        tuple: tuple(source),
    });
    let flows: Vec<FlowSpec> = flows.collect();
    let algorithm = algorithm("pfc")?;
    let [(_, rp), (_, np)] = algorithm.presets(None)?;
    let scenario = Scenario {
        stages: Box::new(move |_| Ok(stages.clone())),
        buffer: Some(buffer),
        int_layout: IntLayout::Compact,
        end: 1_000_000_000_000,
        shuffle,
        ..Scenario::new(topology, &flows, &*algorithm, [&rp, &np], Nanos::new(10_000))
    };
    scenario.run()
}

/// A host 0 behind a link of this speed, and one sender at 100 Gb/s, both 1 us from the switch.
fn two_speeds(receiver: u64) -> Topology {
    let link = |host, bits_per_second| Link { ends: [host, 2], bits_per_second, delay: 1_000_000, loss: 0 };
    let links = vec![link(0, receiver), link(1, 100 * GBPS)];
    Topology { nodes: vec![Kind::Host, Kind::Host, Kind::Switch], links, ..Topology::default() }
}

fn static_threshold(bytes: u32, headroom: Headroom) -> Buffer {
    let limits = Limits { reserve: 0, threshold: Threshold::Static(bytes), headroom, ..Limits::default() };
    Buffer { limits, ..Buffer::default() }
}

/// 4:1 without congestion control: nothing is lost, each sender is paused and resumed in turn, and the receiver's link is always
/// busy: the last acknowledgement arrives when all packets have passed it one behind the other, after the time of one packet on
/// the first link, four propagation delays and an acknowledgement on two links.
#[test]
fn plain_pfc_loses_nothing_and_keeps_the_bottleneck_busy() {
    let topology = Topology::star(5, LinkSpec { bits_per_second: 100 * GBPS, delay: 1_000_000 });
    let packets = 5_000;
    let buffer = Buffer { pool: 1 << 20, ..Buffer::default() };
    let totals = run(&topology, packets, buffer, None).unwrap();
    assert_eq!((totals.completions.len(), totals.dropped, totals.in_flight), (4, 0, 0));
    let last = totals.completions.iter().map(|done| done.time).max().unwrap();
    let line = time((4 * packets + 1) * (PACKET + FRAMING), 100 * GBPS);
    let rest = 4_000_000 + 2 * time(62 + FRAMING, 100 * GBPS);
    assert!((line..line + rest + 100_000).contains(&last), "{last} ps for {line} ps");
    for port in 0..5 {
        let of_host = totals.pfc.iter().filter(|record| record.node == port).map(|record| record.pauses);
        let pauses: Vec<bool> = of_host.collect();
        assert!(port == 0 || pauses.len() > 10, "{} PFC frames to host {port}", pauses.len());
        assert!(pauses.iter().enumerate().all(|(place, &pauses)| pauses == (place % 2 == 0)), "{pauses:?}");
    }
    // Three quarters of what is offered waits at the senders.
    assert!(totals.paused > 3 * line / 2 && totals.paused < 4 * line, "{} ps of pauses", totals.paused);
}

/// One flow alone has the link to itself at any speed, and is never paused.
#[test]
fn a_flow_alone_is_never_paused() {
    for gbps in [10, 25, 40, 100, 200, 400, 800] {
        let topology = Topology::star(2, LinkSpec { bits_per_second: gbps * GBPS, delay: 1_000_000 });
        let totals = run(&topology, 10_000, Buffer::default(), None).unwrap();
        let line = time(10_001 * (PACKET + FRAMING), gbps * GBPS);
        assert_eq!((totals.pfc_frames, totals.dropped), (0, 0), "{gbps} Gb/s");
        let rest = 4_000_000 + 2 * time(62 + FRAMING, gbps * GBPS) + 10_000;
        assert!((line..line + rest).contains(&totals.completions[0].time), "{gbps} Gb/s: {:?}", totals.completions);
    }
}

/// The sum of the thresholds of eight senders is at most 8/16 of the shared part, by T = (S - 8 T) / 8, and what arrives after the
/// pauses is in the headrooms, so that the buffer is never full. The order in which events are added changes nothing; that
/// packets are conserved is checked by the run itself.
#[test]
fn an_incast_beyond_the_threshold_fits_the_buffer() {
    let topology = Topology::star(9, LinkSpec { bits_per_second: 100 * GBPS, delay: 1_000_000 });
    let buffer = Buffer { pool: 2 << 20, ..Buffer::default() };
    let headroom = Headroom::Worst.bytes(100 * GBPS, 1_000_000, PACKET as u32);
    assert_eq!(headroom, 2 * 12_500 + 60 + 24 + 3 * (PACKET + FRAMING));
    let totals = run(&topology, 2_000, buffer.clone(), None).unwrap();
    assert_eq!((totals.completions.len(), totals.dropped), (8, 0));
    let shared = (2 << 20) - 9 * (headroom + 4_096);
    let most = 8 * 4_096 + shared / 2 + 8 * headroom;
    assert!((shared / 2..most).contains(&totals.longest_queue), "{} bytes of {most}", totals.longest_queue);
    for shuffle in 1..4 {
        assert!(run(&topology, 2_000, buffer.clone(), Some(shuffle)).unwrap() == totals, "order {shuffle}");
    }
}

/// At each speed and delay the headroom of IEEE 802.1Qbb annex O is enough, and half of it is not.
#[test]
fn the_headroom_is_what_arrives_while_a_pause_takes_effect() {
    for (gbps, delay) in [(25, 1_000_000), (100, 1_000_000), (100, 10_000_000), (400, 2_000_000)] {
        let topology = Topology::star(5, LinkSpec { bits_per_second: gbps * GBPS, delay });
        let enough = Headroom::Worst.bytes(gbps * GBPS, delay, PACKET as u32) as u32;
        for (headroom, fits) in [(Headroom::Worst, true), (Headroom::Bytes(enough / 2), false)] {
            let totals = run(&topology, 3_000, static_threshold(200_000, headroom), None).unwrap();
            assert_eq!(totals.lossless_dropped == 0, fits, "{gbps} Gb/s, {delay} ps: {}", totals.lossless_dropped);
            assert_eq!(totals.dropped, totals.lossless_dropped);
        }
    }
}

/// With PFC off a queue takes a packet of p bytes while it has with it at most the bytes that are free: q + p <= S - q, so that it
/// grows to (S + p) / 2. All beyond is dropped and sent again, and no sender is paused.
#[test]
fn a_lossy_class_is_dropped_at_its_threshold_and_never_paused() {
    let topology = Topology::star(5, LinkSpec { bits_per_second: 100 * GBPS, delay: 1_000_000 });
    let buffer = Buffer { pool: 1 << 20, lossless: 0, ..Buffer::default() };
    let totals = run(&topology, 2_000, buffer, None).unwrap();
    assert_eq!((totals.pfc_frames, totals.paused, totals.lossless_dropped), (0, 0, 0));
    let most = ((1 << 20) + PACKET) / 2;
    assert!((most - PACKET..=most).contains(&totals.longest_queue), "{} of {most}", totals.longest_queue);
    assert!(totals.dropped > 1_000 && totals.sent_again >= totals.dropped, "{totals:?}");
    assert_eq!(totals.completions.len(), 4, "lost packets are sent again");
}

/// One sender at 100 Gb/s to a link of 50 Gb/s: of n packets that have arrived, half have begun to leave. The 199th is the 100th
/// that waits, and reaches the threshold. The PFC frame takes 84 bytes of line time and the delay; by then the host has begun 24
/// more packets. The 133rd departure leaves ten packets less than the threshold, which is the offset at which the pause ends.
#[test]
fn a_pause_and_its_end_arrive_when_the_queue_says() {
    let (packet, half) = (time(PACKET + FRAMING, 100 * GBPS), time(PACKET + FRAMING, 50 * GBPS));
    let frame = time(60 + FRAMING, 100 * GBPS) + 1_000_000;
    let quantum = time(64, 100 * GBPS);
    let mut buffer = static_threshold(100 * PACKET as u32, Headroom::Worst);
    buffer.limits.resume_offset = 10 * PACKET as u32;
    let totals = run(&two_speeds(50 * GBPS), 1_000, buffer, None).unwrap();
    let first = packet + 1_000_000;
    let pause = first + 198 * packet + frame;
    let sent = pause.div_ceil(packet);
    assert_eq!(sent, 223);
    let resume = first + (sent - 90 - 1) * half + frame;
    for (record, at, pauses) in [(totals.pfc[0], pause, true), (totals.pfc[1], resume, false)] {
        assert_eq!(record, PfcRecord { at: record.at, node: 1, port: 1, pauses });
        assert!(record.at.abs_diff(at) <= quantum, "{record:?}, expected at {at}");
    }
    assert_eq!(totals.dropped, 0);
}

/// The receiver's link, at 1 Gb/s, needs 8.7 us for each packet, and the pause lasts until the queue is empty. Its frame is sent
/// again after half of its time, which at 100 Gb/s is at most 65,535 quanta of 5.12 ns. So the sender stays paused, and nothing is
/// lost.
#[test]
fn a_pause_is_renewed_before_its_time_is_over() {
    for (pause, renewal) in [(2_000, 1_000), (30_000, 15_000), (100_000_000, 335_539 / 2)] {
        let mut buffer = static_threshold(100_000, Headroom::Worst);
        buffer.limits.resume_offset = 100_000;
        buffer.pause = Nanos::new(pause);
        let totals = run(&two_speeds(GBPS), 190, buffer, None).unwrap();
        assert_eq!((totals.completions.len(), totals.dropped), (1, 0), "pause of {pause} ns");
        let resumes = totals.pfc.iter().filter(|record| !record.pauses).count();
        assert_eq!(resumes, 1, "pause of {pause} ns");
        let lasted = totals.pfc.last().unwrap().at - totals.pfc[0].at;
        assert_eq!(totals.paused, lasted, "pause of {pause} ns");
        // More than the time of a hundred packets on the slow link.
        assert!(lasted > 100 * time(PACKET, GBPS), "{lasted} ps");
        let frames = 2 + lasted / (renewal * 1_000);
        // The time of a pause is rounded up to quanta.
        assert!(totals.pfc_frames.abs_diff(frames) <= frames / 100 + 1, "{} of {frames} frames", totals.pfc_frames);
    }
}

/// A stage wants a pause from 150 to 50 KB, and the buffer one from 160 KB to 3 KB below. The sender is paused by the stage, then by
/// both, then by the stage alone, and resumed when neither wants a pause: three frames that pause for each that resumes.
#[test]
fn a_class_is_paused_while_the_buffer_or_a_stage_wants_it() {
    let stage = MmuSettings { xoff: 150_000, xon: 50_000, reserve: 0, ..MmuSettings::LSCC };
    let buffer = static_threshold(160_000, Headroom::Worst);
    let stages = vec![("mmu", words(&stage))];
    let totals = run_with(&two_speeds(50 * GBPS), 2_000, buffer, stages, None).unwrap();
    assert_eq!((totals.completions.len(), totals.dropped), (1, 0));
    let pauses: Vec<bool> = totals.pfc.iter().map(|record| record.pauses).collect();
    assert!(pauses.len() > 12, "{pauses:?}");
    assert!(pauses.iter().enumerate().all(|(place, &pauses)| pauses == (place % 4 < 3)), "{pauses:?}");
}

/// A link's own limits replace those of all ports.
#[test]
fn the_limits_of_a_link_hold_at_its_port() {
    let topology = Topology::star(3, LinkSpec { bits_per_second: 100 * GBPS, delay: 1_000_000 });
    let high = static_threshold(1 << 30, Headroom::Worst).limits;
    let low = static_threshold(50_000, Headroom::Worst).limits;
    let buffer = Buffer { limits: high, links: vec![(2, low)], ..Buffer::default() };
    let totals = run(&topology, 500, buffer, None).unwrap();
    assert!(!totals.pfc.is_empty() && totals.pfc.iter().all(|record| record.node == 2), "{:?}", totals.pfc);
}

#[test]
fn a_buffer_that_cannot_be_is_refused() {
    let topology = Topology::star(3, LinkSpec { bits_per_second: 100 * GBPS, delay: 1_000_000 });
    let refused = |buffer| format!("{:#}", run(&topology, 1, buffer, None).unwrap_err());
    for (buffer, shown) in [
        (Buffer { pool: 90_000, ..Buffer::default() }, "of which reserves and headrooms take 97278"),
        (Buffer { pool: 1 << 40, ..Buffer::default() }, "expected less than 2^40"),
        (Buffer { links: vec![(3, Limits::default())], ..Buffer::default() }, "the topology has 3 links"),
        (Buffer { links: vec![(1, Limits::default()); 2], ..Buffer::default() }, "expected ascending numbers"),
        (
            Buffer { limits: Limits { threshold: Threshold::Dynamic(0.0), ..Limits::default() }, ..Buffer::default() },
            "expected a number above 0 and at most 64",
        ),
    ] {
        let error = refused(buffer);
        assert!(error.contains(shown), "{error}");
    }
}
