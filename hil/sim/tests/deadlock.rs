//! PFC deadlocks and storms: what the detector finds, and what the watchdog does.

use cc_core::Nanos;
use hil_algorithms::algorithm;
use hil_sim::fabric::{
    Buffer, DATA_CLASS, FlowSpec, FlowTuple, Headroom, Limits, Scenario, StormAction, Threshold, Topology, Totals,
    Watchdog,
};
use hil_sim::input::Input;
use hil_sim::summary::{Cost, Summary};
use hil_sim::topologies::LinkSpec;
use std::path::Path;

const LINK: LinkSpec = LinkSpec { bits_per_second: 100_000_000_000, delay: 1_000_000 };
const MILLISECOND: u64 = 1_000_000_000;

/// The scenario of the ring of three switches, with or without its watchdog.
fn ring(seed: u64, has_watchdog: bool) -> Input {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/pfc-deadlock.toml");
    let mut input = hil_sim::read(&path, Some(seed)).unwrap();
    input.watchdog = input.watchdog.filter(|_| has_watchdog);
    input
}

/// The nodes of each deadlock's cycle, after a check that each queue leads to the node of the next.
fn cycles(totals: &Totals) -> Vec<Vec<u32>> {
    let nodes = totals.deadlocks.iter().map(|deadlock| {
        let next = deadlock.queues.iter().cycle().skip(1);
        assert!(deadlock.queues.iter().zip(next).all(|(queue, next)| queue.peer == next.node), "{deadlock:?}");
        deadlock.queues.iter().map(|queue| queue.node).collect()
    });
    nodes.collect()
}

/// Plain PFC on a ring of three switches, each of whose hosts sends to the switch after the next, deadlocks in at least half of 50
/// seeds (every one of them when this was written). The detector names the cycle of all three switches. Nothing moves after it was
/// found: no packet leaves any port in fifty times as long. The watchdog ends each deadlock, and all flows complete.
#[test]
fn plain_pfc_deadlocks_on_a_ring_and_the_watchdog_ends_it() {
    let mut deadlocks = 0;
    for seed in 0..50 {
        let input = ring(seed, false);
        let totals = input.scenario().run().unwrap();
        if totals.deadlocks.is_empty() {
            assert_eq!(totals.completions.len(), 6, "seed {seed}");
            continue;
        }
        deadlocks += 1;
        assert_eq!(cycles(&totals), [[6, 7, 8]], "seed {seed}");
        let (found, since) = (totals.deadlocks[0].found, totals.deadlocks[0].since);
        assert!(since < found && found < MILLISECOND && totals.deadlocks[0].ended.is_none(), "seed {seed}: {totals:?}");
        // What was on a link then has arrived a little later.
        let before = Scenario { end: found + 10_000_000, ..input.scenario() }.run().unwrap();
        let hops = |totals: &Totals| totals.packet_hops - totals.pfc_frames;
        assert!(totals.end > 50 * found && hops(&totals) == hops(&before), "seed {seed}");

        let input = ring(seed, true);
        let watchdog = input.watchdog.unwrap();
        let totals = input.scenario().run().unwrap();
        assert_eq!(totals.completions.len(), 6, "seed {seed}");
        // The flows, which no congestion control slows down, may make another deadlock.
        assert!(!totals.deadlocks.is_empty() && cycles(&totals).iter().all(|cycle| cycle == &[6, 7, 8]), "seed {seed}");
        for deadlock in &totals.deadlocks {
            let lasted = deadlock.ended.unwrap() - deadlock.since;
            assert!(lasted < watchdog.time, "seed {seed}: {deadlock:?}");
        }
        assert!(totals.storms.iter().all(|storm| storm.found == storm.since + watchdog.time), "seed {seed}");
        let dropped: u64 = totals.storms.iter().map(|storm| storm.dropped).sum();
        assert!(dropped > 0 && dropped == totals.dropped && totals.lossless_dropped == 0, "seed {seed}: {totals:?}");
    }
    assert!(deadlocks >= 25, "{deadlocks} of 50");
}

/// Without a watchdog nothing progresses any more: the report of the stall has the cycle of the ring's switches before the flows.
#[test]
fn the_report_of_a_stall_has_the_cycle_that_causes_it() {
    let input = ring(1, false);
    let totals = Scenario { stall: Some(2 * MILLISECOND), ..input.scenario() }.run().unwrap();
    let cost = Cost { cpu_seconds: 1.0, setup_cpu_seconds: 1.0, peak_rss_bytes: 0, core_seconds: 0.0 };
    let stall = Summary::of(&input, &totals, &cost).unwrap().stall.unwrap();
    let nodes: Vec<u32> = stall.deadlock.iter().flatten().map(|queue| queue.node).collect();
    assert_eq!(nodes, [6, 7, 8]);
    let lines: Vec<String> = stall.to_string().lines().map(str::to_owned).collect();
    let cycle = "  in a PFC deadlock each of these paused queues of class 3 waits for the next: node 6 port ";
    assert!(lines[1].starts_with(cycle) && lines[2].starts_with("  flow "), "{lines:?}");
}

#[test]
fn a_deadlock_and_its_end_are_the_same_in_any_order_of_adding_events() {
    for seed in 0..3 {
        let input = ring(seed, true);
        let totals = input.scenario().run().unwrap();
        for shuffle in 1..4 {
            let other = Scenario { shuffle: Some(shuffle), ..input.scenario() }.run().unwrap();
            assert!(other == totals, "seed {seed}, order {shuffle}");
        }
    }
}

/// Runs flows of 2 MB from time 0 on under plain PFC, each from one host to another, with a static threshold.
fn run(topology: &Topology, pairs: &[(u32, u32)], watchdog: Option<Watchdog>, resume_offset: u32) -> Totals {
    let flow = |&(source, destination)| {
        let tuple = FlowTuple { source, destination, ports: 0 };
        FlowSpec { source, destination, bytes: 2_000_000, start: 0, class: DATA_CLASS, tuple }
    };
    let flows: Vec<FlowSpec> = pairs.iter().map(flow).collect();
    let algorithm = algorithm("pfc").unwrap();
    let [(_, rp), (_, np)] = algorithm.presets(None).unwrap();
    let threshold = Threshold::Static(100_000);
    let limits = Limits { reserve: 0, threshold, headroom: Headroom::Worst, resume_offset, ..Limits::default() };
    let scenario = Scenario {
        buffer: Some(Buffer { limits, ..Buffer::default() }),
        watchdog,
        end: 1_000 * MILLISECOND,
        ..Scenario::new(topology, &flows, &*algorithm, [&rp, &np], Nanos::new(10_000))
    };
    scenario.run().unwrap()
}

/// Pauses that spread from switch to switch are no deadlock while they wait for a host's link: incasts over one switch, over leaves
/// and spines in both directions at once, over a ring by the shortest paths, and over a ring clockwise from each switch to the
/// next, whose trunks are paused but wait for no trunk.
#[test]
fn the_detector_is_silent_where_pauses_resolve() {
    let star = Topology::star(9, LINK);
    let to_one: Vec<_> = (1..9).map(|host| (host, 0)).collect();
    let leaf_spine = Topology::leaf_spine(3, 4, 2, LINK, LINK);
    let both: Vec<_> = (0..12).filter(|host| host % 4 > 0).flat_map(|host| [0, 4, 8].map(|to| (host, to))).collect();
    let shortest = Topology::ring(3, 2, LINK, LINK, false);
    let to_each: Vec<_> =
        (0..6).flat_map(|host| [(host, (host / 2 * 2 + 2) % 6), (host, (host / 2 * 2 + 4) % 6)]).collect();
    let clockwise = Topology::ring(3, 2, LINK, LINK, true);
    let to_next: Vec<_> = (0..6).map(|host| (host, (host / 2 * 2 + 2) % 6)).chain([(1, 0), (3, 2), (5, 4)]).collect();
    for (name, topology, pairs, pauses_trunks) in [
        ("star", star, to_one, false),
        ("leaf-spine", leaf_spine, both, true),
        ("ring, shortest paths", shortest, to_each, true),
        ("ring, to the next", clockwise, to_next, true),
    ] {
        let totals = run(&topology, &pairs, None, 3_072);
        assert_eq!((totals.completions.len(), totals.dropped), (pairs.len(), 0), "{name}");
        assert!(totals.deadlocks.is_empty(), "{name}: {:?}", totals.deadlocks);
        let hosts = topology.hosts().count() as u32;
        assert_eq!(totals.pfc.iter().any(|record| record.node >= hosts), pauses_trunks, "{name}");
    }
}

/// Host 0 sends over two switches to host 1, whose link has 1 Gb/s: each pause of the trunk lasts until the second switch has sent
/// 100 kB there, in 0.8 ms and more. A watchdog of 0.3 ms that reports changes nothing else. One that drops loses what the trunk
/// would have sent; one that forwards overflows the headroom of the second switch. Both leave the queue alone after a time in
/// which the second switch wants no pause.
#[test]
fn the_watchdog_reports_drops_or_forwards() {
    let mut topology = Topology::dumbbell(1, 1, LINK, LINK);
    topology.links[1].bits_per_second = 1_000_000_000;
    let run = |action: Option<StormAction>| {
        let of = |action| Watchdog { time: 300_000_000, restore: 200_000_000, action };
        run(&topology, &[(0, 1)], action.map(of), 100_000)
    };
    let plain = run(None);
    assert_eq!((plain.completions.len(), plain.dropped, plain.storms.len()), (1, 0, 0));
    let mut report = run(Some(StormAction::Report));
    assert!(report.storms.len() > 10);
    for storm in &report.storms {
        assert_eq!((storm.queue.node, storm.queue.port, storm.queue.peer), (2, 2, 3));
        assert_eq!((storm.found, storm.restored, storm.dropped), (storm.since + 300_000_000, None, 0));
    }
    (report.storms, report.events) = (Vec::new(), plain.events);
    assert!(report == plain);
    let drop = run(Some(StormAction::Drop));
    assert!(drop.dropped > 0 && drop.dropped == drop.storms.iter().map(|storm| storm.dropped).sum::<u64>());
    assert_eq!((drop.lossless_dropped, drop.completions.len()), (0, 1));
    let forward = run(Some(StormAction::Forward));
    assert!(forward.lossless_dropped > 0 && forward.storms.iter().all(|storm| storm.dropped == 0), "{forward:?}");
    assert_eq!(forward.completions.len(), 1);
    for totals in [drop, forward] {
        assert!(totals.deadlocks.is_empty());
        let ended: Vec<_> = totals.storms.iter().filter_map(|storm| Some(storm.restored? - storm.found)).collect();
        assert!(!ended.is_empty() && ended.iter().all(|&lasted| lasted >= 200_000_000), "{:?}", totals.storms);
    }
}
