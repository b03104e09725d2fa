//! Two datacentres that long links join.

use anyhow::Result;
use hil_sim::fabric::{Scenario, SwitchFeedback, Totals};
use hil_sim::input::Input;
use hil_sim::summary::{Cost, Summary};
use std::fs;
use std::path::Path;

fn example(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name)).unwrap()
}

fn read(text: &str) -> Result<Input> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("scenario.toml");
    fs::write(&path, text)?;
    hil_sim::read(&path, None)
}

/// Runs a scenario, and again in another order of adding events, which makes no difference.
fn run(text: &str) -> (Input, Totals) {
    let input = read(text).unwrap_or_else(|error| panic!("{error:#}"));
    let totals = input.scenario().run().unwrap();
    assert_eq!(Scenario { shuffle: Some(7), ..input.scenario() }.run().unwrap(), totals);
    assert_eq!(totals.injected, totals.delivered + totals.dropped + totals.in_flight);
    (input, totals)
}

/// The long link, 1 ms at 200 Gb/s, sends for 2 ms after the pause. Meanwhile the receiver takes 25 Gb/s, so that seven eighths of
/// IEEE 802.1Qbb annex O's headroom are needed: 2 x 1 ms x 200 Gb/s are 50 MB.
#[test]
fn a_full_long_link_loses_nothing_with_the_headroom_of_its_length_and_packets_with_half_of_it() {
    let scenario = example("long-link-pfc.toml");
    let (_, whole) = run(&scenario);
    assert_eq!((whole.completions.len(), whole.dropped), (2, 0));
    assert!(whole.pfc.iter().any(|pause| pause.pauses && pause.node == 4), "the DCI switch of the senders is paused");
    let used = whole.longest_queue - 5_000_000;
    assert!((43_000_000..50_000_000).contains(&used), "{used}");
    let half = scenario.replace("threshold = \"5MB\"", "threshold = \"5MB\"\nheadroom = \"25MB\"");
    assert_ne!(half, scenario);
    let (_, half) = run(&half);
    assert!(half.lossless_dropped > 1_000 && half.lossless_dropped == half.dropped, "{half:?}");
}

/// Hosts of 25, 100 and 400 Gb/s, two long links of 1 and 10 ms at 100 and 400 Gb/s. A flow of one packet takes the propagation
/// delays of its path and those of the way back, 2 us at one leaf, and 2, 11 or 20 ms and 10 us between the datacentres: a hash chooses
/// a long link for each way. The time of 1,082 and 84 bytes at the links is less than 3 us in all.
#[test]
fn round_trips_of_2_us_and_20_ms_in_one_run() {
    let group = |rate: u32, rtt: &str| {
        format!("[[topology.hosts]]\ncount = 1\nrate = \"{rate}Gb/s\"\ndelay = \"500ns\"\nbase_rtt = \"{rtt}\"\n")
    };
    let near = (1..3).map(|to| format!("[0, {to}]"));
    let far = (0..3).flat_map(|from| (6..12).map(move |to| format!("[{from}, {to}]")));
    let pairs: Vec<String> = near.chain(far).collect();
    let text = format!(
        "[topology]\nkind = \"two-dc\"\nleaves = 2\nspines = 2\ntrunk_rate = \"400Gb/s\"\ntrunk_delay = \"1us\"\n{0}{1}{2}\
         [[topology.long_links]]\nrate = \"100Gb/s\"\ndelay = \"1ms\"\n\
         [[topology.long_links]]\nrate = \"400Gb/s\"\ndelay = \"10ms\"\n\
         [algorithm]\nname = \"dcqcn\"\n\
         [buffer]\npool = \"8MB\"\n[[buffers]]\nat = \"dci\"\npool = \"1200MB\"\n\
         [[workload]]\nkind = \"pairs\"\nbytes = 1000\npairs = [{3}]\n\
         [[workload]]\nkind = \"pairs\"\nbytes = 1000\npairs = [{3}]\nlabel = 101\nstart = \"100ms\"\n",
        group(25, "20ms"),
        group(100, "20ms"),
        group(400, "2us"),
        pairs.join(", ")
    );
    let (input, totals) = run(&text);
    assert_eq!((input.base_rtt.get() / 1_000, input.base_rtts[&2].get()), (2_010, 2_000));
    let micros =
        |flow: usize| totals.completions.iter().find(|done| done.flow as usize == flow).unwrap().time / 1_000_000;
    assert!([0, 1, 20, 21].into_iter().all(|flow| (2..4).contains(&micros(flow))));
    let far: Vec<u64> = (2..20).chain(22..40).map(micros).collect();
    let by = |first: u64| far.iter().filter(|&micros| (first..first + 4).contains(micros)).count();
    let counts = [2_010, 11_010, 20_010].map(by);
    assert!(counts.iter().all(|&count| count > 0) && counts.iter().sum::<usize>() == 36, "{far:?}");
}

/// Over a long link of 3 ms an acknowledgement comes after 6.05 ms: the default of 4.19 ms is doubled three times.
#[test]
fn the_timeout_is_four_round_trips_or_a_warning() {
    let text = example("mlcc.toml").replace("delay = \"1ms\"", "delay = \"3ms\"");
    let input = read(&text).unwrap();
    assert_eq!((input.scenario().transport.timeout, input.warnings.len()), ((4_096_000 << 10) << 3, 0));
    let warnings = |timeout: &str| read(&format!("{text}\n[transport]\ntimeout = \"{timeout}\"\n")).unwrap().warnings;
    assert!(matches!(
        &warnings("4ms")[..],
        [only] if only.starts_with("senders give up after 4000 us, but a base round trip takes 6")
    ));
    assert!(warnings("20ms").is_empty());
}

/// Stages are those of a port's place: the entry with the most of `at`, `to` and `link_rate` holds, and one with `at` or `to` is
/// for such ports only.
#[test]
fn stages_and_buffers_are_chosen_by_what_a_port_joins() {
    let text = "[topology]\nkind = \"two-dc\"\nleaves = 1\nspines = 1\nhosts = 2\nrate = \"100Gb/s\"\ndelay = \"1us\"\n\
         [[topology.long_links]]\nrate = \"100Gb/s\"\ndelay = \"1ms\"\n\
         [algorithm]\nname = \"dcqcn\"\n\
         [[stages]]\nname = \"red\"\nkmin = 1000\n[[stages]]\nname = \"red\"\nat = \"dci\"\nkmin = 2000\n\
         [[stages]]\nname = \"red\"\nat = \"dci\"\nto = \"dci\"\nkmin = 3000\n\
         [[stages]]\nname = \"lscc_rate_calculation\"\nat = \"dci\"\nto = \"dci\"\n\
         [[buffers]]\nat = \"dci\"\npool = \"128MB\"\n[[buffers]]\nat = \"dci\"\nto = \"dci\"\nthreshold = 77\n\
         [[workload]]\nkind = \"pairs\"\npairs = [[0, 2]]\nbytes = 5000\n";
    let (input, totals) = run(text);
    assert_eq!(totals.completions.len(), 1);
    let stages = input.stages().unwrap();
    let shown = stages.iter().map(|(ports, stages)| {
        let (at, to) = ports.ends.unwrap();
        format!("{}-{}: {} {}", at.name(), to.name(), stages[0].1[0], stages.len())
    });
    let expected = ["leaf-host: 1000 1", "leaf-spine: 1000 1", "spine-leaf: 1000 1", "spine-dci: 1000 1"];
    let expected = [&expected[..], &["dci-spine: 2000 1", "dci-dci: 3000 2"]].concat();
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    let buffers: Vec<(u32, u64, Vec<u32>)> = input
        .buffers
        .iter()
        .map(|(&node, buffer)| (node, buffer.pool, buffer.links.iter().map(|&(link, _)| link).collect()))
        .collect();
    assert_eq!(buffers, [(6, 128_000_000, vec![8]), (9, 128_000_000, vec![8])]);
}

/// Runs an example for one simulated second, with two flows that last longer than it and receivers at the rate of 4 % to 25 % of that
/// in the file, so that the run has fewer packets. Returns what the switches sent and received, by node number.
fn one_second(name: &str) -> (Totals, impl Fn(u32) -> SwitchFeedback) {
    let mut text = example(name);
    for (from, to) in [
        ("duration = \"200ms\"", "duration = \"1s\""),
        ("duration = \"100ms\"", "duration = \"1s\""),
        ("bytes = \"40MB\"", "bytes = \"2GB\""),
        ("rate = \"40Gb/s\"", "rate = \"10Gb/s\""),
        ("rate = \"25Gb/s\"", "rate = \"10Gb/s\""),
        ("count = 2\nrate = \"100Gb/s\"", "count = 2\nrate = \"10Gb/s\""),
    ] {
        text = text.replace(from, to);
    }
    if !text.contains("payload") {
        text = format!("payload = 4096\n{text}");
    }
    let input = read(&text).unwrap_or_else(|error| panic!("{error:#}"));
    let totals = input.scenario().run().unwrap();
    assert_eq!((totals.completions.len(), totals.dropped), (0, 0), "{name}");
    assert!((999_900_000_000..=1_000_000_000_000).contains(&totals.end), "{name}: {}", totals.end);
    let feedback = totals.feedback.clone();
    (totals, move |node| *feedback.iter().find(|at| at.node == node).unwrap())
}

/// A message leaves every 200 us after the first packet, which comes to the far DCI switch after 1 ms, and arrives 1 ms later; also
/// from the near one, from the first acknowledgement on, which comes after 2 ms. The senders' DCI switch sends at most one direct CNP
/// to each of two flows every 50 us.
#[test]
fn lscc_runs_for_a_second() {
    let (totals, at) = one_second("lscc.toml");
    let (near, far) = (at(12), at(17));
    assert_eq!((far.messages_sent, far.messages_received, far.cnps), (4_994, 4_984, 0));
    assert_eq!((near.messages_sent, near.messages_received), (4_989, 4_989));
    assert!((1_000..=2 * 20_000).contains(&near.cnps), "{}", near.cnps);
    assert!(totals.nic_cnps > 100 && totals.marks > 0, "{}", totals.nic_cnps);
}

/// LSCC's Eq. 12 with two flows, T = 200 us and T_i = 55 us: 2 x 200 / 55 x R_AI must be above dR, 0.7 Gb/s: 96.25 Mb/s are just
/// not enough. HPCC*'s Q_ref is to be at least 2 x 0.05 / 0.95 of what 200 Gb/s are in 2.2 ms: 5.79 MB.
#[test]
fn rates_that_sources_cannot_follow_and_a_low_reference_of_hpcc_star_are_warnings() {
    let warnings = |text: &str| read(text).unwrap().warnings;
    let lscc = example("lscc.toml");
    let slow = lscc.replace("rpg_ai_rate = \"150Mb/s\"", "rpg_ai_rate = \"96Mb/s\"");
    assert!(warnings(&lscc).is_empty() && slow != lscc);
    assert!(
        matches!(&warnings(&slow)[..], [only] if only.contains("follow less than 698 Mb/s (LSCC, Eq. 12")),
        "{:?}",
        warnings(&slow)
    );
    let fast = lscc.replace("rpg_ai_rate = \"150Mb/s\"", "rpg_ai_rate = \"97Mb/s\"");
    assert!(warnings(&fast).is_empty());
    let star = example("hpcc-star.toml");
    assert!(
        matches!(&warnings(&star)[..], [only] if only.contains("is 5000000 bytes: expected at least 5789474")),
        "{:?}",
        warnings(&star)
    );
    let longer = star.replace("preset = \"hpcc_star\"", "preset = \"hpcc_star\"\nreference = 5789475");
    assert!(warnings(&longer).is_empty() && longer != star);
}

/// Two flows share 40 Gb/s from 60 ms on: the receivers' DCI switch holds 2 MB, and so does the pseudo queue at the senders' one,
/// whose direct CNPs cut rates more often than those of the receiver.
#[test]
fn lscc_keeps_both_queues_near_their_references() {
    let text = example("lscc.toml").replace("from = \"10ms\"\nuntil = \"15ms\"", "from = \"60ms\"\nwindow = \"20ms\"");
    let text = text.replace("\"200ms\"", "\"100ms\"").replace("\"40MB\"", "\"1GB\"");
    let (input, totals) = run(&text);
    let measured = totals.measured.as_ref().unwrap();
    let port = |node, peer| measured.ports.iter().find(|port| (port.node, port.peer) == (node, peer)).unwrap();
    let (near, far) = (port(12, 17), port(17, 12));
    let (ingress, pseudo) = (far.ingress.as_ref().unwrap(), near.pseudo_queue.as_ref().unwrap());
    assert!(
        (1.4e6..2.6e6).contains(&ingress.mean()) && ingress.share(1_000_000..=3_000_000) > 0.85,
        "{}",
        ingress.mean()
    );
    assert!((1.6e6..2.2e6).contains(&pseudo.bytes.mean()), "{}", pseudo.bytes.mean());
    assert!((39_000.0..41_000.0).contains(&pseudo.mbps.mean()), "{}", pseudo.mbps.mean());
    assert!(port(13, 4).busy as f64 > 0.975 * 40e9, "{} ps of 40 ms", port(13, 4).busy);
    assert!(measured.windows.iter().all(|window| window.jain().unwrap() > 0.9), "{:?}", measured.windows);
    let direct: u64 = totals.feedback.iter().map(|at| at.cnps).sum();
    assert!(
        totals.cuts > totals.nic_cnps && direct > 100,
        "{} cuts, {} and {direct} CNPs",
        totals.cuts,
        totals.nic_cnps
    );
    let cost = Cost { cpu_seconds: 1.0, setup_cpu_seconds: 0.0, peak_rss_bytes: 0, core_seconds: 0.0 };
    let interval = Summary::of(&input, &totals, &cost).unwrap().measured.unwrap();
    let figures = interval.pseudo_queues.iter().find(|queue| queue.node == 12).unwrap();
    assert_eq!((figures.port, figures.mean), (Some(near.port), pseudo.bytes.mean()));
}

/// Each data packet gets a record at each of five switches but not at the port to the long link, where the record is that of the
/// pseudo queue in a CNP: at most one each 2 us and flow.
#[test]
fn hpcc_star_runs_for_a_second() {
    let (totals, at) = one_second("hpcc-star.toml");
    let (near, far) = (at(12), at(17));
    assert_eq!((far.messages_sent, near.messages_received, far.cnps), (4_994, 4_989, 0));
    assert!((10_000..=1_000_000).contains(&near.cnps), "{}", near.cnps);
    assert_eq!((near.telemetry, totals.nic_cnps), (0, 0));
    let all: u64 = totals.feedback.iter().map(|at| at.telemetry).sum();
    assert!(far.telemetry > 200_000 && all.abs_diff(5 * far.telemetry) < 20_000, "{all} and {}", far.telemetry);
}

/// One simulated second of an algorithm with a stage at all switch ports: two flows, which last longer, from hosts at 10 Gb/s over a long
/// link of 1 ms at 20 Gb/s. Nothing is dropped, and congestion control acts.
fn one_second_of(name: &str, stage: &str) -> Totals {
    let text = format!(
        "duration = \"1s\"\npayload = 4096\n[topology]\nkind = \"two-dc\"\nleaves = 1\nspines = 0\nhosts = 2\n\
         rate = \"10Gb/s\"\ndelay = \"1us\"\n[[topology.long_links]]\nrate = \"20Gb/s\"\ndelay = \"1ms\"\n\
         [algorithm]\nname = \"{name}\"\n[transport]\ntimeout = \"20ms\"\n[[stages]]\nname = \"{stage}\"\n\
         [[buffers]]\nat = \"dci\"\npool = \"64MB\"\n\
         [[workload]]\nkind = \"pairs\"\npairs = [[0, 2], [1, 2]]\nbytes = \"2GB\"\n"
    );
    let input = read(&text).unwrap_or_else(|error| panic!("{error:#}"));
    let totals = input.scenario().run().unwrap();
    assert_eq!((totals.completions.len(), totals.dropped), (0, 0), "{name}");
    assert!((999_000_000_000..=1_000_000_000_000).contains(&totals.end), "{name}: {}", totals.end);
    assert!(totals.feedback.iter().all(|at| at.cnps + at.messages_sent == 0), "{name}");
    assert!(totals.cuts > 0, "{name} has not acted");
    totals
}

/// Each data packet gets a record at each of four switches, those of the two DCI switches among them, and nothing else is sent by a
/// switch. HPCC and PowerTCP keep both flows going with windows of a round trip of 2 ms.
#[test]
fn hpcc_and_powertcp_run_for_a_second() {
    for name in ["hpcc", "powertcp"] {
        let totals = one_second_of(name, "int");
        assert_eq!(totals.nic_cnps, 0, "{name}");
        let telemetry: Vec<u64> = totals.feedback.iter().map(|at| at.telemetry).collect();
        // Those of the last 2 ms are on their way at the end.
        let [first, .., last] = telemetry[..] else { panic!("{telemetry:?}") };
        assert!(telemetry.len() == 4 && last > 100_000 && first - last < 2_000, "{name}: {telemetry:?}");
    }
}

/// Algorithms that need marks alone, binary or ternary: with CNPs where they react to these.
#[test]
fn algorithms_that_need_marks_run_for_a_second() {
    for (name, stage, has_cnps) in [
        ("dcqcn", "red", true),
        ("dcqcn_plus", "red", true),
        ("rcc", "red", false),
        ("rcc_sender", "red", false),
        ("dcqcn_tcd", "tcd", true),
        ("timely_tcd", "tcd", false),
        ("acc", "tcd", false),
    ] {
        let totals = one_second_of(name, stage);
        assert!(
            totals.marks > 100 && (totals.nic_cnps > 0) == has_cnps,
            "{name}: {} {}",
            totals.marks,
            totals.nic_cnps
        );
    }
}

/// With leaves, spines and DCI switches six switches write telemetry, and HPCC keeps records of five: it cannot use any, which is a
/// warning. Without the spines there is none.
#[test]
fn telemetry_of_more_switches_than_hpcc_keeps_is_a_warning() {
    for (spines, is_warned) in [(1, true), (0, false)] {
        let text = format!(
            "[topology]\nkind = \"two-dc\"\nleaves = 1\nspines = {spines}\nhosts = 2\nrate = \"10Gb/s\"\ndelay = \"1us\"\n\
             [[topology.long_links]]\nrate = \"20Gb/s\"\ndelay = \"1ms\"\n[algorithm]\nname = \"hpcc\"\n\
             [transport]\ntimeout = \"20ms\"\n[[stages]]\nname = \"int\"\n[[buffers]]\nat = \"dci\"\npool = \"64MB\"\n\
             [[workload]]\nkind = \"pairs\"\npairs = [[0, 2]]\nbytes = 100000\n"
        );
        let (input, totals) = run(&text);
        let summary = Summary::of(
            &input,
            &totals,
            &Cost { cpu_seconds: 1.0, setup_cpu_seconds: 0.0, peak_rss_bytes: 0, core_seconds: 0.0 },
        )
        .unwrap();
        let expected = "100 acknowledgements had telemetry of more switches than the algorithm keeps records of";
        let found = summary.warnings.iter().any(|warning| warning.starts_with(expected));
        assert_eq!((totals.completions.len(), found), (1, is_warned), "{:?}", summary.warnings);
    }
}

/// The relays send a message at least every 100 us, and in addition for each pause that they pass on; those of the last millisecond
/// are on the link at the end.
#[test]
fn swing_runs_for_a_second() {
    let (totals, at) = one_second("swing.toml");
    for (one, other) in [(at(5), at(8)), (at(8), at(5))] {
        assert!(one.messages_sent >= 9_900, "{one:?}");
        assert!((9..100).contains(&(one.messages_sent - other.messages_received)), "{one:?}, {other:?}");
    }
    assert!(at(8).messages_sent > at(5).messages_sent + 100, "the far relay passes pauses on");
    assert!(totals.pfc.iter().any(|pause| pause.pauses && pause.node == 4), "the senders' DCI switch is paused");
}

/// The telemetry of the senders' datacentre comes back at most once each 2 us and flow; that of the receiver's begins at its DCI switch,
/// so that each data packet gets a record at five switches in all.
#[test]
fn mlcc_runs_for_a_second() {
    let (totals, at) = one_second("mlcc.toml");
    let (near, far) = (at(12), at(17));
    assert_eq!((near.telemetry, far.cnps, totals.pfc_frames), (0, 0, 0));
    assert!((10_000..=1_000_000).contains(&near.cnps), "{}", near.cnps);
    let all: u64 = totals.feedback.iter().map(|at| at.telemetry).sum();
    assert!(far.telemetry > 200_000 && all.abs_diff(5 * far.telemetry) < 20_000, "{all} and {}", far.telemetry);
}

/// Two hosts send at 25 Gb/s to one at 25 Gb/s. For the 2 ms of a round trip neither sender has feedback, so that they send 12.5 MB.
/// The receiver's DCI switch sends each flow on at the rate that the acknowledgements passing it grant: the rest waits there, in the
/// queues of the flows, and the receiver's leaf never pauses a port. Where no acknowledgement passes, each queue keeps its first
/// rate, that of the receiver's link.
#[test]
fn queues_of_flows_take_their_rates_from_acknowledgements() {
    let text = example("mlcc.toml");
    let (_, granted) = run(&text);
    assert_eq!((granted.completions.len(), granted.dropped, granted.pfc_frames), (2, 0, 0));
    assert!((1_500_000..12_500_000).contains(&granted.longest_queue), "{}", granted.longest_queue);
    // The same both ways at once: what is the far DCI switch of two flows is the near one of the others.
    let reversed = text.replace("[[0, 4], [1, 4]]", "[[0, 4], [1, 4], [4, 0], [5, 0]]");
    let (_, both_ways) = run(&reversed);
    assert_eq!((both_ways.completions.len(), both_ways.dropped, both_ways.pfc_frames), (4, 0, 0));
    let mixed = text.replace(
        "name = \"mlcc_per_flow_queues\"",
        "name = \"mmu\"\nat = \"dci\"\nto = \"spine\"\n[[stages]]\nname = \"mlcc_per_flow_queues\"",
    );
    let error = read(&mixed).err().unwrap().to_string();
    let shown = "stages at 100 Gb/s from dci to spine: stage mmu counts packets that arrive";
    assert!(error.starts_with(shown) && error.contains("scenario.toml:27:1"), "{error}");
}

/// Two flows into one server settle at half of eta of its link each, and wait for D_t, 1 ms. The 1.4 MB of each flow's queue are not
/// the port's queue in its telemetry: there they would be four times what its link carries in RTT_D, and by HPCC's law R_credit would
/// fall to its least.
#[test]
fn queues_of_flows_settle_at_the_target_delay_and_are_not_the_queue_of_telemetry() {
    let text = example("mlcc.toml").replace("bytes = \"40MB\"", "bytes = \"200MB\"").replace("\"200ms\"", "\"90ms\"");
    let (_, totals) = run(&format!("{text}\n[measure]\nfrom = \"60ms\"\nuntil = \"90ms\"\nwindow = \"5ms\"\n"));
    let measured = totals.measured.unwrap();
    let [one, other] = &measured.flow_queues[..] else { panic!("{} queues", measured.flow_queues.len()) };
    for queue in [one, other] {
        assert_eq!((queue.node, queue.windows.len()), (17, 6));
        let (delay, share) = (queue.delay().unwrap() / 1e9, queue.levels.deviation() / queue.levels.mean());
        assert!((0.9..1.1).contains(&delay) && share < 0.12, "{delay} ms, {share}");
        assert!(queue.levels.least() > 1_000_000, "{}", queue.levels.least());
    }
    let port = measured.ports.iter().find(|port| port.peer == 4).unwrap();
    let utilisation = port.busy as f64 / 30e9;
    assert!(utilisation > 0.94, "{utilisation}");
}

/// One of two links of the receiver's DCI switch fails while queues of flows wait at it: all that waits there is lost, no flow is held
/// for ever, and both complete by the other link. Meanwhile the senders send at most 25 Gb/s each.
#[test]
fn queues_of_flows_at_a_link_that_fails_are_lost_and_the_flows_complete() {
    let fault = "\n[[faults]]\nkind = \"down\"\nlinks = [[17, 15]]\nfrom = \"3ms\"\nreroute = \"100us\"\n";
    let (_, totals) = run(&format!("{}{fault}", example("mlcc.toml")));
    assert_eq!((totals.completions.len(), totals.dropped), (2, totals.lost));
    let bytes = totals.lost * 1_170;
    assert!((1_500_000..12_500_000).contains(&bytes), "{bytes}");
}
