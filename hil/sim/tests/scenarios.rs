//! Scenarios in TOML: the examples of the repository, files that are wrong, and files of other simulators.

use anyhow::Result;
use hil_cores::random::SplitMix;
use hil_sim::fabric::{Completion, Examples, Network, Origin, Quantity, Scenario, Subject, SwitchFeedback, Totals};
use hil_sim::input::Input;
use hil_sim::ns3::{write_fct, write_pfc};
use hil_sim::summary::{Cost, Summary};
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tempfile::TempDir;

fn run(input: &Input, shuffle: Option<u64>) -> Totals {
    let scenario = Scenario { shuffle, ..input.scenario() };
    scenario.run().unwrap()
}

fn summary(input: &Input, totals: &Totals) -> Summary {
    let cost = Cost { cpu_seconds: 1.0, setup_cpu_seconds: 1.0, peak_rss_bytes: 0, core_seconds: 0.0 };
    Summary::of(input, totals, &cost).unwrap()
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name)
}

/// All flows of an example complete, its files are the same again and in another order of adding events, and another seed gives
/// other ones where something is drawn. Returns the totals.
fn check(name: &str, flows: usize) -> (Input, Totals) {
    let input = hil_sim::read(&example(name), None).unwrap();
    let totals = run(&input, None);
    assert_eq!((totals.completions.len(), input.flows.len()), (flows, flows), "{name}");
    assert_eq!((totals.dropped, totals.in_flight), (0, totals.injected - totals.delivered), "{name}");
    let files = |totals: &Totals| [write_fct(&input, &totals.completions), write_pfc(&input, &totals.pfc)];
    assert_eq!(files(&totals)[0].lines().count(), flows);
    for shuffle in [None, Some(1), Some(2)] {
        let again = hil_sim::read(&example(name), None).unwrap();
        let other = run(&again, shuffle);
        assert!(other == totals && files(&other) == files(&totals), "{name}, order {shuffle:?}");
    }
    let summary = summary(&input, &totals);
    assert_eq!(summary.flows.completed as usize, flows);
    // No flow is much faster than in an empty network, where a packet's headers are on the line once for each link more. The ideal
    // time of flows of few packets counts whole ones.
    let long = totals.completions.iter().filter(|done| done.bytes >= 10_000);
    let ideal = |done: &Completion| input.ideal_of(done.flow as usize, done.bytes) as f64;
    let fastest = long.map(|done| (done.time / 1_000) as f64 / ideal(done));
    assert!(fastest.fold(f64::MAX, f64::min) > 0.98, "{name}");
    (input, totals)
}

/// Sixteen times 500 kB and 82 bytes of headers for each 1,000 pass one link at 100 Gb/s in no less than 692.5 us.
#[test]
fn an_incast_takes_as_long_as_its_bytes_on_the_receivers_link() {
    let (input, totals) = check("incast.toml", 16);
    let last = input.flows.iter().zip(&totals.completions).count();
    assert_eq!(last, 16);
    assert!(totals.end >= 16 * 500 * 1_082 * 80, "{}", totals.end);
    assert!(totals.cuts > 0 && totals.marks > 0);
    let fct = write_fct(&input, &totals.completions);
    // Host 0 is 0x0b000001, and the destination port is the label of incasts.
    assert!(fct.lines().all(|line| line.contains(" 0b000001 10000 200 500000 ")), "{fct}");
}

/// Section 3.3 of DCTCP's paper, with K = 300 kB, N = 4 and packets of 1,062 bytes: the queue is at most K + N packets, Eq. 10, and swings by
/// at most sqrt(2 N (C RTT + K)) / 2 below that, Eq. 8.
#[test]
fn a_queue_of_dctcp_swings_below_its_mark() {
    let (input, totals) = check("dctcp.toml", 4);
    let packet = 1_062.0;
    let most = 300_000.0 + 4.0 * packet;
    let swing = (2.0 * 4.0 * (12.5 * f64::from(input.base_rtt.get()) + 300_000.0) / packet).sqrt() / 2.0 * packet;
    let port = totals.measured.unwrap().ports.into_iter().find(|port| (port.node, port.peer) == (5, 0)).unwrap();
    let queue = port.queue.unwrap();
    assert!(f64::from(queue.most()) <= most, "{} of {most} bytes", queue.most());
    let least = queue.least();
    assert!(f64::from(least) >= most - 1.1 * swing, "{least} of {most} less {swing} bytes");
}

/// The four flows pass a trunk at 100 Gb/s, over 7 us one way.
#[test]
fn a_dumbbell_shares_its_trunk() {
    let (input, totals) = check("dumbbell.toml", 4);
    assert!(totals.end >= 4 * 4_000 * 1_082 * 80, "{}", totals.end);
    // Twice 7 us of propagation, and 1,000 bytes at each of three links.
    assert_eq!(input.base_rtt.get(), 2 * 7_000 + 3 * 80);
    assert_eq!(input.ideal(0), 2 * 7_000 + 3 * 80 + 4_000 * 1_082 * 8 / 100);
}

#[test]
fn a_parking_lot_writes_telemetry_that_hpcc_reacts_to() {
    let (input, totals) = check("parking-lot.toml", 4);
    assert!(totals.cuts > 0);
    let longest = input.flows.iter().position(|flow| (flow.source, flow.destination) == (0, 6)).unwrap();
    assert_eq!(input.ideal(longest), 2 * 5_000 + 5 * 80 + 2_000 * 1_082 * 8 / 100);
}

/// A ring of 16 hosts, a tree of 8 with 4 chunks and an exchange between 8: each has sent its bytes, 2 (n - 1) times those of a host, or
/// once between each two hosts.
#[test]
fn collectives_complete_and_their_bytes_add_up() {
    let flows = 2 * 2 * 15 * 16 + 2 * 7 * 4 + 8 * 7;
    let (input, totals) = check("collectives.toml", flows);
    let bytes: u64 = totals.completions.iter().map(|done| input.flows[done.flow as usize].bytes).sum();
    assert_eq!(bytes, (2 * 2 * 15 + 2 * 7) * 1_000_000 + 8 * 7 * 50_000);
}

#[test]
fn requests_are_answered_in_rounds() {
    let (input, _) = check("requests.toml", 8 * 5 * 2 + 2 + 4);
    assert_eq!(input.reads.len(), 2);
    assert!(input.reads.iter().all(|&flow| input.flows[flow as usize].bytes == 1_000_000));
    assert_eq!(input.flows.iter().filter(|flow| flow.bytes == 200).count(), 8 * 5);
}

/// Three flows enter and leave. Each is complete when what it had under way at its stop is acknowledged, at most a window and so a few round
/// trips later, and the link of the receiver carries payload for at least 85 % of the 10 ms, of which a frame of HPCC has 1,000 of
/// 1,142 bytes at most.
#[test]
fn flows_enter_and_leave() {
    let (input, totals) = check("enter-leave.toml", 3);
    for done in &totals.completions {
        let &(_, stop) = input.stops.iter().find(|(flow, _)| *flow == done.flow).unwrap();
        let end = done.start + done.time;
        assert!((stop..stop + 100_000_000).contains(&end), "{done:?}, stopped at {stop}");
    }
    let bytes: u64 = totals.completions.iter().map(|done| done.bytes).sum();
    let most = 10_050_000_000 / 80;
    assert!((most * 85 / 100 * 1_000 / 1_142..most).contains(&bytes), "{bytes} of {most}");
}

/// Of the payload that one link of 100 Gb/s can carry, four flows of HPCC get equal shares in the end.
#[test]
fn rates_of_hpcc_become_fair() {
    let (input, totals) = check("fair-shares.toml", 4);
    let interval = summary(&input, &totals).measured.unwrap();
    let fairness = interval.fairness;
    assert!(fairness.jain_mean > Some(0.95) && fairness.settled_us.is_some(), "{fairness:?}");
    let shown = summary(&input, &totals).to_string();
    for line in ["measured    from 4000.000 to 8000.000 us", "  busiest links ", "  longest queues "] {
        assert!(shown.contains(line), "{shown}");
    }
}

/// 64 flows of ACC with a packet in flight each: rates that act at once become equal, by the bound of experiment AC-2-64.
#[test]
fn rates_of_slow_flows_become_fair_if_they_act_at_once() {
    let (input, totals) = check("pacing.toml", 64);
    let fairness = summary(&input, &totals).measured.unwrap().fairness;
    assert!(fairness.jain_mean > Some(0.9), "{fairness:?}");
}

/// Two datacentres: 50 % of the hosts' links inside, 20 % of the long link across, each within 3 standard errors of the bytes, which
/// are sqrt(n E[s^2]). The second moment is that of the flows drawn with a hundred seeds.
#[test]
fn loads_inside_and_across_are_of_their_links() {
    let (input, totals) = check("inside-and-across.toml", 115);
    let summary = summary(&input, &totals);
    let tags: Vec<_> = summary.tags.iter().map(|group| (&*group.tag, group.flows, group.completed)).collect();
    assert_eq!(tags, [("inside", 83, 83), ("across", 8, 8), ("read.request", 12, 12), ("read", 12, 12)]);
    assert_eq!(
        summary.tags.iter().map(|group| group.bytes).sum::<u64>(),
        input.flows.iter().map(|flow| flow.bytes).sum::<u64>()
    );
    let seeds = 100;
    let mut sums = [(0.0, 0.0); 2];
    for seed in 0..seeds {
        let input = hil_sim::read(&example("inside-and-across.toml"), Some(seed)).unwrap();
        for (flow, spec) in (0..).zip(&input.flows) {
            let is_inside = (spec.source < 16) == (spec.destination < 16);
            match input.tags.of(flow).map(|tag| input.tags.names[usize::from(tag)].as_str()) {
                Some("inside") => assert!(is_inside),
                Some("across") => assert!(!is_inside),
                _ => continue,
            }
            let (bytes, squares) = &mut sums[usize::from(!is_inside)];
            *bytes += spec.bytes as f64;
            *squares += (spec.bytes as f64).powi(2);
        }
    }
    for ((bytes, squares), bits_per_second) in sums.into_iter().zip([0.5 * 32.0 * 25e9, 0.2 * 2.0 * 100e9]) {
        let offered = bits_per_second / 8.0 * 3e-3 * seeds as f64;
        assert!((bytes - offered).abs() < 3.0 * squares.sqrt(), "{bytes} bytes of {offered}");
    }
}

#[test]
fn a_leaf_spine_runs_the_web_search_distribution() {
    let (input, _) = check("leaf-spine-websearch.toml", 68);
    let other = hil_sim::read(&example("leaf-spine-websearch.toml"), Some(2)).unwrap();
    assert_eq!((input.hash, other.seed), (other.hash, 2));
    let sizes = |input: &Input| input.flows.iter().map(|flow| flow.bytes).collect::<Vec<_>>();
    assert_ne!(sizes(&input), sizes(&other));
    let stages = input.stages().unwrap();
    assert_eq!(
        stages.iter().map(|(ports, stages)| (ports.bits_per_second, stages[0].1[0])).collect::<Vec<_>>(),
        [(100_000_000_000, 100_000), (400_000_000_000, 400_000)]
    );
}

#[test]
fn a_fat_tree_runs_a_permutation() {
    let (input, totals) = check("fat-tree-permutation.toml", 16);
    let shown = summary(&input, &totals).to_string();
    for line in
        ["network     16 hosts, 20 switches; payload 1000 bytes, base RTT 12.480 us, end 0.05 s", "kmax=1600000"]
    {
        assert!(shown.contains(line), "{shown}");
    }
}

/// Stages of two datacentres: all flows complete without loss, and the stages at the two ends of the long link send to each other.
#[test]
fn stages_of_two_datacentres_send_to_each_other() {
    for name in ["lscc.toml", "hpcc-star.toml", "swing.toml"] {
        let (_, totals) = check(name, 2);
        let sum = |of: fn(&SwitchFeedback) -> u64| totals.feedback.iter().map(of).sum::<u64>();
        assert!(sum(|at| at.messages_sent) >= sum(|at| at.messages_received) && sum(|at| at.messages_received) > 50);
        assert_eq!(sum(|at| at.cnps) > 0, name != "swing.toml", "{name}");
    }
}

/// Four flows fill four trunks: none takes longer than alone, but for the packets that it sends again.
#[test]
fn spraying_fills_all_trunks() {
    let (input, totals) = check("spraying.toml", 4);
    for done in &totals.completions {
        let slowdown = (done.time / 1_000) as f64 / input.ideal(done.flow as usize) as f64;
        assert!(slowdown < 1.05, "{slowdown}");
    }
}

/// While all three classes have packets, class 7 has 10 Gb/s, and the others three and one quarter of the rest: class 3 is complete
/// when its 4 MB have passed at 67.5 Gb/s, before class 4.
#[test]
fn queues_have_their_shares() {
    let (input, totals) = check("queues.toml", 9);
    let last = |class| {
        let of_class = totals.completions.iter().filter(|done| input.flows[done.flow as usize].class == class);
        of_class.map(|done| done.time).max().unwrap()
    };
    let micros = |bytes: u64, gbps: f64| (bytes * 8 * 1_082 / 1_000) as f64 / gbps / 1e3;
    for (class, expected) in [(7, micros(500_000, 10.0)), (3, micros(4_000_000, 67.5)), (4, micros(8_500_000, 100.0))] {
        let time = last(class) as f64 / 1e6;
        assert!((0.98..1.05).contains(&(time / expected)), "class {class}: {time} us, expected {expected}");
    }
    assert_eq!(
        (input.buffers[&10].lossless, input.buffer.as_ref().unwrap().lossless),
        (1 << 3 | 1 << 7, 1 << 3 | 1 << 7)
    );
    assert_eq!(input.buffers[&10].links.iter().map(|&(link, _)| link).collect::<Vec<_>>(), [0]);
}

/// The messages of class 6 take their own time, of which 4 us are propagation, and that of at most one packet more. Class 3 is complete
/// when the messages and its 4 MB have passed, these at three quarters of the link, and class 4 when all have.
#[test]
fn a_host_serves_its_classes_as_its_queues_say() {
    let (input, totals) = check("host-priorities.toml", 36);
    let last = |class| {
        let of_class = totals.completions.iter().filter(|done| input.flows[done.flow as usize].class == class);
        of_class.map(|done| done.time).max().unwrap() as f64 / 1e6
    };
    let [packet, ack] = [1_082, 84].map(|bytes| f64::from(bytes) * 8.0 / 1e5);
    let message = 4.0 + 3.0 * packet + 2.0 * ack;
    assert!((message..=message + packet + 0.01).contains(&last(6)), "{} us, {message} alone", last(6));
    for (class, packets) in [(3, 40.0 + 4_000.0 / 0.75), (4, 40.0 + 8_000.0)] {
        let expected = 4.0 + packets * packet;
        assert!((last(class) / expected - 1.0).abs() < 0.01, "class {class}: {} us, expected {expected}", last(class));
    }
}

/// The scenario that README.md shows, beside the distribution that it names.
#[test]
fn the_scenario_of_the_readme_is_read() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let (_, text) = readme.split_once("```toml\nseed = ").unwrap();
    let text = format!("seed = {}", text.split_once("```").unwrap().0);
    let websearch = fs::read_to_string(example("websearch.txt")).unwrap();
    let input = read(&text, &[("websearch.txt", &websearch)]).unwrap();
    assert_eq!((input.topology.hosts().count(), input.stages().unwrap().len()), (32, 2));
}

/// A scenario that is right, of which each case changes something.
const SCENARIO: &str = r#"duration = "10ms"
[topology]
kind = "star"
hosts = 4
rate = "100Gb/s"
delay = "1us"

[algorithm]
name = "dcqcn"
rpg_ai_rate = 5

[[stages]]
name = "red"
kmin = "5kB"

[[workload]]
kind = "pairs"
pairs = [[0, 1], [2, 1]]
bytes = "10kB"
"#;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn read(text: &str, files: &[(&str, &str)]) -> Result<Input> {
    let folder = folder(files);
    let path = folder.path().join("scenario.toml");
    fs::write(&path, text).unwrap();
    hil_sim::read(&path, None)
}

/// The error for the scenario with `from` replaced.
fn refused(from: &str, to: &str, files: &[(&str, &str)]) -> String {
    assert!(SCENARIO.contains(from), "{from}");
    let error = read(&SCENARIO.replacen(from, to, 1), files).err().unwrap_or_else(|| panic!("{to} is not refused"));
    format!("{error:#}")
}

#[test]
fn what_is_wrong_is_shown_with_its_line_and_a_mark() {
    let error = refused("hosts = 4", "hots = 4", &[]);
    let (message, place) = error.split_once('\n').unwrap();
    assert_eq!(message, "unknown key `hots`: did you mean hosts?");
    assert!(place.ends_with("scenario.toml:4:1\n  |\n4 | hots = 4\n  | ^^^^"), "{place}");
    for (from, to, shown, at) in [
        ("hosts = 4", "hosts = 4\nleaves = 2", "unknown key `leaves`: expected one of kind, rate, delay, hosts", "5:1"),
        ("hosts = 4", "", "no `hosts`: expected a whole number from 1 to 65536", "2:1"),
        ("hosts = 4", "hosts = \"4\"", "`hosts`: expected a whole number from 1 to 65536, not `\"4\"`", "4:9"),
        (
            "hosts = 4",
            "hosts = 65536",
            "65536 hosts among 65537 nodes: expected at least 2 hosts and at most 65536 nodes",
            "2:1",
        ),
        ("hosts = 4", "hosts = 1", "1 hosts among 2 nodes", "2:1"),
        ("\"star\"", "\"line\"", "`kind`: expected one of star, dumbbell", "3:8"),
        ("\"100Gb/s\"", "\"100\"", "`rate`: expected a rate with its unit such as \"100Gb/s\"", "5:8"),
        ("\"1us\"", "1", "`delay`: expected a time with its unit", "6:9"),
        ("\"10ms\"", "\"10\"", "`duration`: expected a time", "1:12"),
        ("duration", "durration", "unknown key `durration`: did you mean duration?", "1:1"),
        ("\"dcqcn\"", "\"dcqcm\"", "unknown algorithm dcqcm: did you mean dcqcn?", "9:8"),
        ("name = \"dcqcn\"", "", "no `name`: expected the name of an algorithm", "8:1"),
        ("name = \"dcqcn\"", "name = \"dcqcn\"\npreset = \"none\"", "unknown preset of dcqcn none", "10:10"),
        ("rpg_ai_rate", "rpg_ai_rat", "unknown parameter rpg_ai_rat: did you mean rpg_ai_rate?", "10:1"),
        ("rpg_ai_rate = 5", "rpg_ai_rate = \"5us\"", "rpg_ai_rate must be a whole number", "10:15"),
        ("\"red\"", "\"blue\"", "unknown stage blue: expected one of red", "13:8"),
        ("kmin = \"5kB\"", "kmim = \"5kB\"", "unknown parameter kmim: did you mean kmin?", "14:1"),
        ("kmin = \"5kB\"", "kmin = \"5us\"", "kmin must be a whole number", "14:8"),
        ("kmin = \"5kB\"", "at = \"lef\"", "`at`: expected one of switch, leaf, spine, core, dci, relay, not", "14:6"),
        ("kmin = \"5kB\"", "to = \"leaf\"", "no port of the topology fits", "12:1"),
        (
            "[[workload]]",
            "[[stages]]\nname = \"red\"\nat = \"switch\"\n[[stages]]\nname = \"red\"\nto = \"host\"\n[[workload]]",
            "two stages red fit links of 100 Gb/s from switch to host with as many",
            "12:1",
        ),
        ("[algorithm]", "[[buffers]]\npool = 9\n[algorithm]", "no `at`: expected a kind of switch", "8:1"),
        (
            "[algorithm]",
            "[[buffers]]\nat = \"switch\"\nto = \"host\"\npool = 9\n[algorithm]",
            "unknown key `pool`: expected one of at, to, reserve",
            "11:1",
        ),
        ("kmin = \"5kB\"", "link_rate = \"40Gb/s\"", "no port of the topology fits", "12:1"),
        (
            "[topology]",
            "[[queues]]\nclass = 3\nlink_rate = \"40Gb/s\"\n[topology]",
            "no port of the topology fits",
            "2:1",
        ),
        ("[topology]", "[[queues]]\nclass = []\n[topology]", "`class`: expected a class from 0 to 7", "3:9"),
        ("[topology]", "[[routes]]\nat = 4\nto = []\nvia = 1\n[topology]", "the numbers of hosts, at least one", "4:6"),
        ("[topology]", "[[routes]]\nat = 4\nto = 1\nvia = []\n[topology]", "linked nodes, at least one", "5:7"),
        ("[[workload]]", "[[stages]]\nname = \"red\"\n[[workload]]", "stage red is given twice", "16:1"),
        ("\"pairs\"", "\"pair\"", "`kind`: expected one of next, permutation, pairs", "17:8"),
        (
            "kmin = \"5kB\"",
            "kmin = \"2MB\"\nkmax = \"1MB\"",
            "stages at 100 Gb/s from switch to host: kmin: must",
            "12:1",
        ),
        ("rpg_ai_rate = 5", "rpg_min_rate = 200000", "at 100 Gb/s and a base round trip of ", "8:1"),
        ("[2, 1]]", "[2, 4]]", "expected [a host from 0 to 3, another host]", "18:18"),
        ("[2, 1]]", "[2, 2]]", "expected [a host from 0 to 3, another host]", "18:18"),
        ("\"10kB\"", "0", "`bytes`: expected a size", "19:9"),
        ("\"10kB\"", "\"10kB\"\nclass = 8", "`class`: expected a PFC priority, 0 to 7, not `8`", "20:9"),
        (
            "[topology]",
            "[measure]\nuntil = \"11ms\"\n[topology]",
            "`until`: expected a time after `from` and not after `dur",
            "3:9",
        ),
        ("[topology]", "[measure]\nfrom = \"10ms\"\n[topology]", "`from` is not before the end of the run", "2:1"),
        ("[topology]", "[measure]\nwindow = \"0s\"\n[topology]", "`window`: expected a time above 0", "3:10"),
        ("[topology]", "[measure]\nwithin = 2\n[topology]", "`within`: expected a share from 0 to 1, not `2`", "3:10"),
        ("[topology]", "loss = 2.0\n[topology]", "`loss`: expected a probability from 0 to 1, not `2.0`", "2:8"),
        (
            "[topology]",
            "[[routes]]\nat = 0\nto = 1\nvia = 4\n[topology]",
            "a route at node 0: expected a switch",
            "3:6",
        ),
        ("[topology]", "[[routes]]\nat = 4\nto = [1, 4]\nvia = 1\n[topology]", "to node 4: expected a host", "4:10"),
        (
            "[topology]",
            "[[routes]]\nat = 4\nto = 1\nvia = [1, 5]\n[topology]",
            "a route of switch 4 via node 5",
            "5:11",
        ),
        ("[topology]", "[[routes]]\nat = 4\nto = 1\nvia = \"a\"\n[topology]", "the numbers of linked nodes", "5:7"),
        ("[topology]", "paths = \"ecmp\"\n[topology]", "one of hash, symmetric-hash, spray-random", "2:9"),
        ("[topology]", "[[queues]]\nweight = 1\n[topology]", "no `class`: expected a class from 0 to 7", "2:1"),
        ("[topology]", "[[queues]]\nclass = [3, 8]\n[topology]", "`class`: expected a class from 0 to 7", "3:9"),
        ("[topology]", "[[queues]]\nclass = 3\nweight = 256\n[topology]", "a whole number from 1 to 255", "4:10"),
        ("[topology]", "[[queues]]\nclass = 3\nweight = 2\nstrict = true\n[topology]", "`strict` or `weight`", "2:1"),
        (
            "[topology]",
            "[[queues]]\nclass = 3\nat = 3\nto = \"host\"\n[topology]",
            "no port of the topology fits",
            "2:1",
        ),
        (
            "[topology]",
            "[[queues]]\nclass = 3\nat = \"host\"\necn = false\n[topology]",
            "unknown key `ecn`: expected one of at, to, link_rate, class, strict, weight, rate",
            "5:1",
        ),
        ("[topology]", "[[buffers]]\nat = 3\npool = \"1MB\"\n[topology]", "no port of the topology fits", "2:1"),
        ("[topology]", "[[stages]]\nname = \"red\"\nat = \"host\"\n[topology]", "`at`: expected one of switch", "4:6"),
        ("[topology]", "[[queues]]\nclass = 3\nto = \"leef\"\n[topology]", "or the number of a node", "4:6"),
        ("[topology]", "[watchdog]\ntime = 1\n[topology]", "`time`: expected a time from \"1us\"", "3:8"),
        ("[topology]", "[watchdog]\naction = \"stop\"\n[topology]", "one of report, drop, forward", "3:10"),
        ("[algorithm]", "[buffer]\nalpha = 0.5\nthreshold = 1\n[algorithm]", "either `alpha` or `threshold`", "8:1"),
        (
            "[algorithm]",
            "[buffer]\npfc = 1\n[algorithm]",
            "`pfc`: expected true, false, or classes such as [3, 4], not `1`",
            "9:7",
        ),
        ("[algorithm]", "[buffer]\npool = 0\n[algorithm]", "`pool`: expected a size", "9:8"),
        // Of four ports with a reserve of 4,096 bytes each.
        (
            "[algorithm]",
            "[buffer]\npool = 16384\nheadroom = 0\n[algorithm]",
            "the buffer of switch 4: a buffer of 16384 bytes, of which reserves and headrooms take 16384: expected a larger pool",
            "8:1",
        ),
        (
            "[algorithm]",
            "[[buffers]]\nat = 4\npool = \"1kB\"\n[algorithm]",
            "the buffer of switch 4: a buffer of 1000 bytes, of which",
            "8:1",
        ),
        // Two propagation delays at 100 Gb/s are 5 GB.
        (
            "\"1us\"",
            "\"200ms\"\n[buffer]\npool = \"100GB\"",
            "a headroom of 5000003330 bytes at its link of 100 Gb/s and 200000 us: expected less than 2^32 bytes",
            "7:1",
        ),
        (
            "\"1us\"",
            "\"2s\"\n[buffer]\npfc = false",
            "a base round trip of 8.000 s between two hosts: expected at most 4.29 s",
            "2:1",
        ),
        (
            "name = \"red\"\nkmin = \"5kB\"",
            "name = \"mmu\"\n[[stages]]\nname = \"mlcc_per_flow_queues\"",
            "stage mmu counts packets that arrive, and another at the same ports takes acknowledgements and CNPs",
            "12:1",
        ),
        (
            "[algorithm]",
            "[transport]\nrecovery = \"go-back\"\n[algorithm]",
            "`recovery`: expected one of go-back-n, selective-repeat",
            "9:12",
        ),
        ("[[workload]]", "[[work]]", "no `workload`", "1:1"),
        ("[topology]", "[topology", "not TOML", "2:10"),
        ("pairs = [[0, 1], [2, 1]]", "", "no `pairs`: expected pairs of hosts", "16:1"),
        ("\"10kB\"", "\"10kB\"\ntag = \"\"", "`tag`: expected a name of 1 to 40 characters, without", "20:7"),
        ("\"10kB\"", "\"10kB\"\ntag = \"a.request\"", "that does not end in .request, as those of requests do", "20:7"),
        ("\"10kB\"", "\"10kB\"\ntag = \"a,b\"", "without commas, quotation marks and control", "20:7"),
        ("\"10kB\"", "\"10kB\"\ntag = 'a\"b'", "without commas, quotation marks and control", "20:7"),
        ("\"10kB\"", "\"10kB\"\ntag = \"a\\nb\"", "without commas, quotation marks and control", "20:7"),
        (
            "\"10kB\"",
            "\"10kB\"\n[[workload]]\nkind = \"poisson\"\ncdf = \"a.txt\"\nload = 1\nflows = 9\nload_of = [0, 4]",
            "`load_of`: node 0 is reached without these links: expected `from` and `to` on both sides of them",
            "25:11",
        ),
        (
            "\"10kB\"",
            "\"10kB\"\n[[workload]]\nkind = \"poisson\"\ncdf = \"a.txt\"\nload = 1\nflows = 9\nload_of = [\"leaf\", 4]",
            "`load_of`: no link has these ends",
            "25:11",
        ),
        (
            "\"10kB\"",
            "\"10kB\"\n[[workload]]\nkind = \"poisson\"\ncdf = \"a.txt\"\nload = 1\nflows = 9\nload_of = [0, 5]",
            "`load_of`: expected \"hosts\", or the ends of the links that the flows pass",
            "25:11",
        ),
        (
            "\"10kB\"",
            "\"10kB\"\n[[workload]]\nkind = \"poisson\"\ncdf = \"a.txt\"\nload = 1\nflows = 9\nfrom = \"0-1\"\nto = \"1\"",
            "host 1 can send only to itself: expected another host in `to`",
            "20:1",
        ),
        ("\"10kB\"", "\"10kB\"\nthink = \"1us\"", "`think` is the time between a request and its response", "16:1"),
        ("\"10kB\"", "\"10kB\"\nrepeat = 9000000", "18000000 flows: expected at most 16776192", "16:1"),
        (
            "\"10kB\"",
            "\"10kB\"\n[[workload]]\nkind = \"all-to-all\"\nhosts = \"0-2,2\"\nbytes = 1",
            "`hosts`: expected at least 2 hosts from 0 to 3, such as \"0-3,8\", not `\"0-2,2\"`",
            "22:9",
        ),
        (
            "\"10kB\"",
            "\"10kB\"\n[[workload]]\nkind = \"all-reduce\"\nalgorithm = \"ring\"\nbytes = 3",
            "`bytes`: expected a size of at least 4 bytes, one for each part, not `3`",
            "23:9",
        ),
        (
            "\"10kB\"",
            "\"10kB\"\n[[workload]]\nkind = \"poisson\"\ncdf = \"a.txt\"\nload = 3",
            "`load`: expected a fraction",
            "23:8",
        ),
        (
            "\"10kB\"",
            "\"10kB\"\n[[workload]]\nkind = \"poisson\"\ncdf = \"a.txt\"\nload = 0.5",
            "either `duration` or `flows`",
            "20:1",
        ),
        (
            "\"10kB\"",
            "\"10kB\"\n[[workload]]\nkind = \"poisson\"\ncdf = \"a.txt\"\nload = 1\nduration = \"1000s\"",
            "flows: expected at most 16776192",
            "20:1",
        ),
    ] {
        let error = refused(from, to, &[("a.txt", "0 0\n100 1")]);
        assert!(error.starts_with(shown) || error.contains(shown), "{to}: {error}");
        assert!(error.contains(&format!("scenario.toml:{at}\n")) && error.contains("^"), "{to}: {error}");
    }
}

/// Of a ring of four switches with four hosts each, two send the packets for a host of the first to each other.
#[test]
fn routes_in_a_circle_are_refused() {
    let ring = SCENARIO.replacen("\"star\"", "\"ring\"\nswitches = 4", 1);
    let routes = "[[routes]]\nat = 18\nto = [2, 3]\nvia = 19\n[[routes]]\nat = 19\nto = 3\nvia = 18\n[topology]";
    let error = read(&ring.replacen("[topology]", routes, 1), &[]).err().unwrap().to_string();
    assert!(error.starts_with("the routes lead packets for host 3 in a circle over the nodes 18, 19, 18\n"), "{error}");
    assert!(error.contains("scenario.toml:2:"), "{error}");
}

/// Clockwise around a ring of n switches, the acknowledgements of a flow to the next switch take n + 1 links: 254 is the most.
#[test]
fn explicit_routes_lead_over_at_most_254_links() {
    let ring = |switches: u32| {
        format!(
            "[topology]\nkind = \"ring\"\nswitches = {switches}\nhosts = 1\nrate = \"100Gb/s\"\ndelay = \"1us\"\n\
             [algorithm]\nname = \"pfc\"\n[[workload]]\nkind = \"pairs\"\npairs = [[0, 1]]\nbytes = 1000\n"
        )
    };
    let totals = read(&ring(253), &[]).unwrap().scenario().run().unwrap();
    assert_eq!((totals.completions.len(), totals.packet_hops), (1, 3 + 254));
    let error = read(&ring(254), &[]).err().unwrap().to_string();
    assert!(error.starts_with("no path of at most 254 hops from node 1 to node 0\n"), "{error}");
}

#[test]
fn senders_and_switches_have_one_multiplier_of_telemetry() {
    let text = fs::read_to_string(example("parking-lot.toml")).unwrap().replacen("int_multi = 4", "int_multi = 2", 1);
    let error = read(&text, &[]).err().unwrap().to_string();
    assert!(error.starts_with("int_multi is 2 here and 4 of stage int: expected the same\n"), "{error}");
    let warnings = read(&SCENARIO.replace("\"dcqcn\"\nrpg_ai_rate = 5", "\"hpcc\""), &[]).unwrap().warnings;
    assert!(matches!(&warnings[..], [only] if only.starts_with("hpcc reacts to telemetry, but no stage int")));
}

/// A file with any one letter changed is read or refused, and never a panic.
#[test]
fn a_changed_letter_never_makes_a_panic() {
    let mut random = SplitMix::new(1);
    let letters = b"0129.-\"'[]{}=#aeGkmu \n\\";
    let names =
        ["dumbbell.toml", "parking-lot.toml", "leaf-spine-websearch.toml", "fat-tree-permutation.toml", "faults.toml"];
    let folder = folder(&[("websearch.txt", &fs::read_to_string(example("websearch.txt")).unwrap())]);
    let path = folder.path().join("scenario.toml");
    let mut refused = 0;
    for name in names {
        let text = fs::read(example(name)).unwrap();
        // The comment before the first empty line or table is left out.
        let begin = text.windows(2).position(|pair| pair[0] == b'\n' && pair[1] != b'#').unwrap() + 1;
        for _ in 0..300 {
            let mut text = text[begin..].to_vec();
            let at = random.below(text.len() as u32) as usize;
            text[at] = random.pick(letters);
            fs::write(&path, text).unwrap();
            refused += u32::from(hil_sim::read(&path, None).is_err());
        }
    }
    assert!((750..1_500).contains(&refused), "{refused}");
}

/// Round trips of 4 us, 7.6 ms and 20 ms. Algorithms that hold the round-trip time in fewer bits refuse what they cannot hold, by the place of
/// the algorithm, the round trip and the limit; the others take all.
#[test]
fn an_algorithm_takes_a_round_trip_or_names_its_limit() {
    // MLCC has two round trips, each with a setting of its own.
    for name in hil_algorithms::registry::names().filter(|&name| name != "mlcc") {
        let with = |delay: &str| {
            let text = SCENARIO.replacen("name = \"dcqcn\"\nrpg_ai_rate = 5", &format!("name = \"{name}\""), 1);
            let text = text.replacen("delay = \"1us\"", &format!("delay = \"{delay}\"\n[buffer]\npool = \"1GB\""), 1);
            read(&text, &[]).map(|_| ()).map_err(|error| format!("{error:#}"))
        };
        assert_eq!((with("1us"), with("1900us")), (Ok(()), Ok(())), "{name}");
        let limit = match name {
            "hpcc" | "powertcp" | "hpcc_star" => "from 1 us to 16 ms",
            "rcc" | "rcc_sender" => "from 1 us to 10 ms",
            "acc" => "from 1 us to 8 ms",
            _ => continue,
        };
        let error = with("5ms").unwrap_err();
        let what = "at 100 Gb/s and a base round trip of 20000.16 us: ";
        assert!(
            error.starts_with(what) && error.contains(limit) && error.contains("scenario.toml:10:1"),
            "{name}: {error}"
        );
    }
}

/// What is wrong in a file that the scenario names is shown in that file.
#[test]
fn what_is_wrong_in_a_named_file_is_shown_there() {
    let connections = |text: &str| {
        refused(
            "kind = \"pairs\"\npairs = [[0, 1], [2, 1]]\nbytes = \"10kB\"",
            "kind = \"htsim\"\nfile = \"a.cm\"",
            &[("a.cm", text)],
        )
    };
    for (text, shown) in [
        ("Nodes 9\nConnections 0\n", "expected a number of nodes: the topology has 4 hosts, not `9`\n --> "),
        ("Nodes 4\nFailures 2\n", "expected 0: failures are not simulated"),
        ("Nodes 4\nTriggers 1\n0->1 id 1 start 0 size 5\n", "expected 0: so many triggers follow"),
        ("0->1 id 1 trigger 1 size 5\n", "trigger 1 has no definition such as trigger id 1 oneshot"),
        ("0->1 trigger 1 size 5\ntrigger id 1 oneshot\n", "trigger 1 is activated 0 times: expected once"),
        (
            "0->1 trigger 1 size 5\n1->2 start 0 size 5 send_done_trigger 1\ntrigger id 1 barrier count 2\n",
            "trigger 1 is activated 1 times: expected its count, 2",
        ),
        (
            "0->1 trigger 1 size 5\n1->2 start 0 size 5 recv_done_trigger 1\n2->3 trigger 1 size 5\n\
             trigger id 1 multishot\n",
            "trigger 1 is activated 1 times: expected once for each of its 2 connections",
        ),
        (
            "0->1 trigger 1 size 5 send_done_trigger 2\n1->2 trigger 2 size 5 send_done_trigger 1\n\
             trigger id 1 oneshot\ntrigger id 2 oneshot\n",
            "the connection never begins: what it waits for waits for it",
        ),
        ("0->1 start 0 trigger 1 size 5\ntrigger id 1 oneshot\n", "expected size, and either start or trigger"),
        ("0->1 trigger 1 trigger 1 size 5\n", "expected one trigger that starts the connection"),
        ("trigger id 1 barrier\n", "expected count, after barrier"),
        ("trigger id 0 oneshot\n", "expected the number of a trigger, at least 1, not `0`"),
        ("trigger id 1 twice\n", "expected oneshot, multishot or barrier, not `twice`"),
        ("Nodes 4\nConnections 2\n0->1 start 0 size 5\n", "expected 1: so many connections follow"),
        ("Nodes 4\nConnections 1\n0->4 start 0 size 5\n", "expected two different nodes below 4, not `0->4`"),
        ("Nodes 4\nConnections 1\n0->1 size 5\n", "expected size, and either start or trigger"),
        ("", "the file ends here: expected a connection such as 0->1 start 0 size 1000"),
        ("Nodes 4\nConnections 0\n", "the file ends here: expected a connection"),
        ("0->1 start 0 size 18446744073709551615\n", "bytes of a flow, from 1 to 10^15, not `18446744073709551615`"),
        ("0->1 start 0 size 0\n", "expected bytes of a flow, from 1 to 10^15, not `0`"),
        ("0->1 start 18446744073709551615 size 5\n", "expected picoseconds, less than 10 days"),
        ("Nodes 4\n# 0->1\nlinks\n", "expected a connection such as 0->1, or a trigger, not `links`"),
    ] {
        let error = connections(text);
        assert!(error.contains(shown) && error.contains("a.cm:"), "{text}: {error}");
    }
    let topology = |text: &str| {
        let from = "kind = \"star\"\nhosts = 4\nrate = \"100Gb/s\"\ndelay = \"1us\"";
        refused(from, "kind = \"htsim\"\nfile = \"a.topo\"", &[("a.topo", text)])
    };
    for (from, to, shown) in [
        ("Tiers 2", "Tiers 3", "expected Nodes, Tiers (2 or 3)"),
        ("Nodes 32", "Nodes 33", "do not fit each other"),
        ("Radix_Up 2", "Radix_Up 3", "do not fit each other"),
        ("Switch_Latency_ns 0", "Switch_Latency_ns 500", "expected 0: Switch_Latency_ns is not simulated"),
        ("Tier 1", "Tier 2", "expected tier 1, of at most 3, not `2`"),
        ("Radix_Up 2", "Radix 2", "unknown key `Radix` at this place"),
    ] {
        let error = topology(&LEAF_SPINE.replacen(from, to, 1));
        assert!(error.contains(shown) && error.contains("a.topo:"), "{to}: {error}");
    }
}

/// The topology of htsim's distribution with 32 hosts: leaves have 8 hosts and 2 links upwards, oversubscribed 4 to 1.
const LEAF_SPINE: &str = "Nodes 32\nTiers 2\nPodsize 32\n\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 8\nRadix_Up 2\n\
    Downlink_Latency_ns 1000\nSwitch_Latency_ns 0\nOversubscribed 4\n\n# above\nTier 1\nDownlink_speed_Gbps 100\n\
    Radix_Down 4\nDownlink_Latency_ns 1000\nSwitch_Latency_ns 0\n";

/// That with 1,024 hosts, in 16 pods of 8 and 8 switches, and 64 core switches: "supposed to match the default" of k = 16.
const FAT_TREE: &str = "Nodes 1024\nTiers 3\nPodsize 64\nTier 0\nOversubscribed 1\nDownlink_speed_Gbps 100\nRadix_Down 8\n\
    Radix_Up 8\nDownlink_Latency_ns 1000\nTier 1\nOversubscribed 1\nDownlink_speed_Gbps 100\nRadix_Down 8\nRadix_Up 8\n\
    Downlink_Latency_ns 1000\nBundle 1\nTier 2\nDownlink_speed_Gbps 100\nRadix_Down 16\nDownlink_Latency_ns 1000\n";

#[test]
fn htsims_topologies_and_connections_are_read() {
    let scenario = |topology: &str, connections: &str| {
        let text = "[topology]\nkind = \"htsim\"\nfile = \"a.topo\"\n[algorithm]\nname = \"dcqcn\"\n\
                    [[workload]]\nkind = \"htsim\"\nfile = \"a.cm\"\n";
        read(text, &[("a.topo", topology), ("a.cm", connections)]).unwrap()
    };
    let connections = "# two\nNodes 32\nConnections 2\n31->0 id 1 start 1000000 size 2000\n1->0 start 0 size 3000";
    let input = scenario(LEAF_SPINE, connections);
    assert_eq!((input.topology.hosts().count(), input.topology.nodes.len(), input.topology.links.len()), (32, 38, 40));
    let flows: Vec<_> = input.flows.iter().map(|flow| (flow.source, flow.bytes, flow.start)).collect();
    assert_eq!(flows, [(1, 3_000, 0), (31, 2_000, 1_000_000)]);
    assert_eq!(input.files.len(), 3);
    let tree = scenario(FAT_TREE, "Nodes 1024\nConnections 1\n0->1023 start 0 size 2000").topology;
    let mut links = vec![0; tree.nodes.len()];
    tree.links.iter().flat_map(|link| link.ends).for_each(|end| links[end as usize] += 1);
    assert_eq!((tree.hosts().count(), tree.nodes.len(), tree.links.len()), (1_024, 1_024 + 320, 3 * 1_024));
    assert!(links[1_024..].iter().all(|&links| links == 16));
}

/// Files of ns-3 name nodes. The same network and flows, whether a configuration or a scenario names them, have the same flows.
#[test]
fn files_of_ns3_are_read() {
    let text = "[topology]\nkind = \"ns3\"\nfile = \"t.txt\"\n[algorithm]\nname = \"dcqcn\"\n\
                [[workload]]\nkind = \"ns3\"\nfile = \"f.txt\"\n";
    let files = [
        ("t.txt", "4 1 3\n0\n1 0 100Gbps 1us 0\n2 0 100Gbps 1us 0\n3 0 100Gbps 1us 0\n"),
        ("f.txt", "3\n1 2 3 100 1000 0.001\n1 2 3 200 2000 0.002\n3 2 3 100 3000 0.003\n"),
    ];
    let input = read(text, &files).unwrap();
    let shown: Vec<_> = input.flows.iter().map(|flow| (flow.source, flow.tuple.ports & 0xffff)).collect();
    assert_eq!(shown, [(1, 10_000), (1, 10_001), (3, 10_000)]);
    assert_eq!(run(&input, None).completions.len(), 3);
    let wrong = [files[0], ("f.txt", "1\n0 2 3 100 1000 0.001\n")];
    let error = read(text, &wrong).err().unwrap().to_string();
    assert!(error.contains("flow 0 is from node 0 to node 2: expected two different hosts"), "{error}");
}

/// Each key that has a default, without it: the seed of the command line wins over that of the file.
#[test]
fn defaults_and_seeds() {
    let input = read(SCENARIO, &[]).unwrap();
    assert_eq!((input.seed, input.payload, input.end), (1, 1_000, 10_000_000_000));
    assert_eq!(input.flows[0].tuple.ports >> 16, 100);
    let seeded = read(&format!("seed = 7\nbase_rtt = \"9us\"\npayload = \"4kB\"\n{SCENARIO}"), &[]).unwrap();
    assert_eq!((seeded.seed, seeded.payload, seeded.base_rtt.get()), (7, 4_000, 9_000));
    assert_ne!(input.hash, seeded.hash);
    let folder = folder(&[("a.toml", &format!("seed = 7\n{SCENARIO}"))]);
    assert_eq!(hil_sim::read(&folder.path().join("a.toml"), Some(3)).unwrap().seed, 3);
}

/// Every distribution of the shared collection runs, if it is there; its draws are within its sizes.
#[test]
fn published_distributions_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/workloads");
    let Ok(entries) = fs::read_dir(&folder) else {
        println!("skipped: {} is not there", folder.display());
        return;
    };
    let mut distributions = 0;
    for path in entries.map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !["abm-", "conweave-", "hpcc-"].iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let poisson = format!("kind = \"poisson\"\ncdf = {path:?}\nload = 0.1\nflows = 20");
        let text = SCENARIO.replace("kind = \"pairs\"\npairs = [[0, 1], [2, 1]]\nbytes = \"10kB\"", &poisson);
        let input = read(&text, &[]).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let largest = fs::read_to_string(&path).unwrap();
        let largest: f64 = largest.lines().last().unwrap().split_whitespace().next().unwrap().parse().unwrap();
        assert!(input.flows.iter().all(|flow| flow.bytes as f64 <= largest), "{name}");
        let totals = run(&input, None);
        assert_eq!(totals.dropped, 0, "{name}");
        distributions += 1;
    }
    assert_eq!(distributions, 15);
    let incast = folder.join("htsim-incast16.cm");
    let matrix = |path: &Path| {
        let file = format!("kind = \"htsim\"\nfile = {path:?}");
        let text = SCENARIO.replace("hosts = 4", "hosts = 16");
        read(&text.replace("kind = \"pairs\"\npairs = [[0, 1], [2, 1]]\nbytes = \"10kB\"", &file), &[])
    };
    assert_eq!(matrix(&incast).unwrap().flows.len(), 15);
    let error = matrix(&folder.join("htsim-a2a16-triggers.cm")).err().unwrap().to_string();
    // The file has fewer connections than its second line says, which htsim refuses too.
    assert!(error.starts_with("expected 240: so many connections follow"), "{error}");
}

/// What a scenario gives is shown with what it does not, each as README has it: the headroom of a link of 100 Gb/s and 1 us by the formula
/// of `Headroom::Worst`, 25,000 bytes in two delays, 84, and three times the longest frame of 1,058 bytes and 24.
#[test]
fn the_summary_shows_all_tables_with_what_was_in_effect() {
    let tables = "[transport]\ntimeout = \"500us\"\nmessage = 16\n[buffer]\npool = \"2MB\"\nthreshold = 9000\n\
                  [[buffers]]\nat = 4\nto = \"host\"\nheadroom = 40000\n[[queues]]\nclass = [3, 4]\nweight = 2\nrate = \"50Gb/s\"\n\
                  [watchdog]\ntime = \"2ms\"\naction = \"drop\"\n\
                  [[faults]]\nkind = \"loss\"\nlinks = [[0, 4]]\npackets = [\"ack\", \"nak\"]\nnth = 5\nuntil = \"1ms\"\nprobability = 1e-3\n\
                  [[faults]]\nkind = \"clock\"\nhosts = [1]\noffset = \"-5us\"\n\
                  [[faults]]\nkind = \"delay\"\nper_flow = \"40ns\"\nflow = 1\n[topology]";
    let shown = |text: &str| {
        let input = read(text, &[]).unwrap();
        let text = summary(&input, &run(&input, None)).effective.to_string();
        text.lines().skip_while(|line| !line.starts_with("transport")).map(str::to_owned).collect::<Vec<_>>()
    };
    let limits = "threshold=9000 lossy_alpha=1 resume_offset=3072 resume_below=1";
    assert_eq!(
        shown(&SCENARIO.replacen("[topology]", tables, 1)),
        [
            "transport   message=16 ack_interval=1 handshake=false recovery=go-back-n timeout=500us",
            "buffers     at=[4] pool=2000000 headroom_apart=false pfc=[3] pause=longest reserve=4096 \
             threshold=9000 lossy_alpha=1 resume_offset=3072 resume_below=1",
            &format!("buffers     at=[4] to=[0] reserve=4096 headroom=40000 {limits}"),
            &format!("buffers     at=[4] to=[1] reserve=4096 headroom=40000 {limits}"),
            &format!("buffers     at=[4] to=[2] reserve=4096 headroom=40000 {limits}"),
            &format!("buffers     at=[4] to=[3] reserve=4096 headroom=40000 {limits}"),
            "queues      ports=4 of 4 class=[3,4] weight=2 rate=50Gb/s ecn=true",
            "watchdog    time=2000us restore=2000us action=drop",
            "faults      kind=loss links=[[0,4]] packets=[ack,nak] nth=5 probability=0.001 until=1000us",
            "faults      kind=clock offset=-5us jitter=0us backward=false hosts=[1]",
            "faults      kind=delay delay=0us jitter=0us per_flow=0.04us flow=1",
        ]
    );
    assert_eq!(
        shown(SCENARIO),
        [
            "transport   ack_interval=1 handshake=false recovery=go-back-n timeout=4194.304us",
            "buffer      pool=33554432 headroom_apart=false pfc=[3] pause=longest reserve=4096 headroom=28330 alpha=0.125 \
             lossy_alpha=1 resume_offset=3072 resume_below=1",
        ]
    );
    assert_eq!(25_000 + 84 + 3 * (1_058 + 24), 28_330);
}

/// Four hosts that send 1 MB each to a fifth, without congestion control, with these tables in addition.
fn four_to_one(tables: &str) -> Input {
    let text = format!(
        "{tables}\n[topology]\nkind = \"star\"\nhosts = 5\nrate = \"100Gb/s\"\ndelay = \"1us\"\n\
         [algorithm]\nname = \"pfc\"\n[[workload]]\nkind = \"incast\"\nbytes = \"1MB\"\n"
    );
    read(&text, &[]).unwrap()
}

/// Four hosts send 1 MB each to one that pauses them: what the summary says of packets that are dropped all the same, and of a window
/// that no interval has room for.
#[test]
fn warnings_name_what_causes_losses_and_windows_that_do_not_fit() {
    let warnings = |tables: &str| {
        let input = four_to_one(tables);
        summary(&input, &run(&input, None)).warnings.join("\n")
    };
    let dropped = |tables: &str| {
        let all = warnings(tables);
        let cause = all.split_once("packets were dropped in classes that PFC keeps free of loss: ");
        cause.unwrap_or_else(|| panic!("{all}")).1.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(dropped("[buffer]\nthreshold = \"50kB\"\nheadroom = 2000"), "the headroom is too small");
    let by_faults =
        dropped("[buffer]\nthreshold = \"50kB\"\n[[faults]]\nkind = \"loss\"\npackets = \"pfc\"\nprobability = 0.9");
    assert!(by_faults.starts_with("faults lost or delayed "), "{by_faults}");
    assert!(by_faults.ends_with(" PFC frames, or the headroom is too small"), "{by_faults}");
    let measured = |window: &str| warnings(&format!("[measure]\nuntil = \"200us\"\n{window}"));
    assert!(measured("").contains("windows of 1000.000 us do not fit in the measured interval of 200.000 us"));
    assert!(!measured("window = \"200us\"").contains("do not fit"));
}

/// Four hosts send to one over a buffer in which each may have 50 kB. With PFC they are paused and nothing is dropped; without it
/// packets are dropped and sent again, fewer of them with selective repeat; and where links lose frames, those are sent again.
#[test]
fn a_small_buffer_pauses_or_drops_as_the_scenario_says() {
    let run = |tables: &str| {
        let input = four_to_one(tables);
        let totals = run(&input, None);
        assert_eq!(totals.completions.len(), 4, "{tables}");
        assert_eq!(totals.lossless_dropped, 0, "{tables}");
        totals
    };
    let paused = run("[buffer]\nthreshold = \"50kB\"");
    assert!(paused.pfc_frames > 8 && paused.dropped == 0, "{paused:?}");
    let lossy = "[buffer]\npfc = false\nlossy_threshold = \"50kB\"";
    let dropped = run(lossy);
    assert!(dropped.pfc_frames == 0 && dropped.dropped > 100, "{dropped:?}");
    let again = run(&format!("{lossy}\n[transport]\nrecovery = \"selective-repeat\"\nack_interval = 4"));
    assert!(again.sent_again < dropped.sent_again, "{} of {}", again.sent_again, dropped.sent_again);
    let lost = run("loss = 1e-3\n[transport]\ntimeout = \"1ms\"\nhandshake = true\nmessage = 16");
    assert!(lost.lost > 0 && lost.lost == lost.dropped, "{lost:?}");
}

/// Four flows whose applications offer a packet, and another a minute, an hour or a day later, each host with a NIC that has an open
/// flow meanwhile: those cost a wake each second, and the switch one each half a second. The second packet takes the same time, to
/// the picosecond.
#[test]
fn an_open_flow_without_packets_costs_a_wake_each_second_and_changes_nothing() {
    for algorithm in ["hpcc", "dcqcn", "timely", "swift"] {
        let run = |seconds: u64| {
            let text = format!(
                "duration = \"100000s\"\n[topology]\nkind = \"star\"\nhosts = 5\nrate = \"100Gb/s\"\ndelay = \"1us\"\n\
                 [algorithm]\nname = \"{algorithm}\"\n[[stages]]\nname = \"int\"\n[[workload]]\nkind = \"incast\"\n\
                 bytes = \"2kB\"\napplication_rate = \"8Gb/s\"\non = \"1us\"\noff = \"{seconds}s\"\n"
            );
            let totals = run(&read(&text, &[]).unwrap(), None);
            assert_eq!(totals.completions.len(), 4, "{algorithm}");
            let times =
                totals.completions.iter().map(|done| done.time - seconds * 1_000_000_000_000).collect::<Vec<_>>();
            (times, totals.events)
        };
        let [(first, minute), (second, hour), (third, day)] = [60, 3_600, 86_400].map(run);
        assert!(first == second && second == third, "{algorithm}: {first:?}, {second:?} and {third:?}");
        assert_eq!((hour - minute, day - hour), ((4 + 2) * 3_540, (4 + 2) * 82_800), "{algorithm}");
    }
}

/// Two incasts of four flows, three seconds, a minute or a day apart: the second takes the same time after any of these, to the
/// picosecond, and as long as the first within a nanosecond, by which a pacer that was in use may differ from a new one. The time
/// between costs no events but those of the two seconds after which NICs rest.
#[test]
fn a_day_without_flows_costs_nothing_and_changes_nothing() {
    let run = |start: &str| {
        let incast = "[[workload]]\nkind = \"incast\"\nbytes = \"100kB\"\n";
        let text = format!(
            "duration = \"100000s\"\n[topology]\nkind = \"star\"\nhosts = 5\nrate = \"100Gb/s\"\ndelay = \"1us\"\n\
             [algorithm]\nname = \"hpcc\"\n[[stages]]\nname = \"int\"\n{incast}{incast}start = \"{start}\"\n"
        );
        let totals = run(&read(&text, &[]).unwrap(), None);
        assert_eq!(totals.completions.len(), 8);
        let times: Vec<u64> = totals.completions.iter().map(|done| done.time).collect();
        assert!(
            times[..4].iter().zip(&times[4..]).all(|(first, second)| first.abs_diff(*second) <= 1_000),
            "{times:?}"
        );
        (times, totals.end, totals.events)
    };
    let [(first, _, short), (second, _, minute), (third, end, day)] = ["3s", "60s", "86400s"].map(run);
    assert!(first == second && second == third, "{first:?}, {second:?} and {third:?}");
    assert!(end > 86_400_000_000_000_000);
    assert!(minute - short < 40 && day == minute, "{short}, {minute} and {day} events");
}

/// Hosts 1 and 2 send to host 0, and host 1 also to host 3, whose link is idle. Pauses for the first two flows stop the third if it has
/// their class, and do not if it has another: then it has the half of host 1's link that the first leaves, or more.
#[test]
fn a_pause_stops_the_flows_of_its_class_only() {
    let run = |class: u8| {
        let workload = |pairs: &str, class: u8| {
            format!("[[workload]]\nkind = \"pairs\"\npairs = {pairs}\nbytes = \"5MB\"\nclass = {class}\n")
        };
        let text = format!(
            "[topology]\nkind = \"star\"\nhosts = 4\nrate = \"100Gb/s\"\ndelay = \"1us\"\n[algorithm]\nname = \"pfc\"\n\
             [buffer]\nthreshold = \"50kB\"\n{}{}",
            workload("[[1, 0], [2, 0]]", 3),
            workload("[[1, 3]]", class)
        );
        let totals = run(&read(&text, &[]).unwrap(), None);
        assert_eq!((totals.completions.len(), totals.dropped), (3, 0));
        assert!(totals.pfc_frames > 10);
        totals.completions.iter().find(|done| done.flow == 2).unwrap().time
    };
    let [same, other] = [3, 5].map(run);
    // 5,000 frames of 1,082 bytes at 50 Gb/s.
    let half = 5_000 * 1_082 * 160;
    assert!(other < half && same > half + half / 20, "{same} ps and {other} ps");
}

/// Eight hosts, each of which sends one flow of DCQCN at about an eighth of 10 Gb/s: the gaps between its packets that span a change of
/// its rate. A packet of 1,058 bytes takes as long at the rate of before the gap by the library's pacer, and at that of after it where
/// rates hold at once. Rates are sampled each 100 ns.
#[test]
fn a_gap_is_that_at_the_rate_before_it_or_behind_it() {
    for (pacing, is_of) in [("next-packet", 0), ("at-once", 1)] {
        let text = format!(
            "duration = \"4ms\"\n[topology]\nkind = \"star\"\nhosts = 9\nrate = \"10Gb/s\"\ndelay = \"1us\"\n[algorithm]\n\
             name = \"dcqcn\"\n[transport]\npacing = \"{pacing}\"\n[[stages]]\nname = \"red\"\nkmin = \"5kB\"\n\
             [[workload]]\nkind = \"incast\"\nbytes = \"1GB\"\n"
        );
        let input = read(&text, &[]).unwrap();
        let scenario = input.scenario();
        let examples = Examples::new(&scenario).unwrap();
        let mut network = Network::new(&scenario, &examples).unwrap();
        let (rates, sent) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
        let source = input.flows[0].source;
        let (kept, seen) = (Rc::clone(&rates), Rc::clone(&sent));
        network.sample(100_000, move |sample| {
            if (sample.quantity, sample.subject) == (Quantity::Rate, Subject::Flow(0)) {
                kept.borrow_mut().push((sample.at, sample.value));
            }
            Ok(())
        });
        let tap = move |at, origin, _: &[u8]| {
            if origin == Origin::Sent {
                seen.borrow_mut().push(at);
            }
            Ok(())
        };
        network.tap_port(source, 1, tap).unwrap();
        while network.advance(1 << 20).unwrap() {}
        network.finish().unwrap();
        let rates = rates.take();
        // The rate at a time, if it was the same for 200 ns on both sides.
        let rate = |at: u64| {
            let of = |at| rates.iter().rev().find(|&&(since, _)| since <= at).map(|&(_, rate)| rate);
            of(at.saturating_sub(200_000)).filter(|&rate| of(at + 200_000) == Some(rate))
        };
        let mut spans = 0;
        for gap in sent.take().windows(2) {
            let (Some(before), Some(behind)) = (rate(gap[0]), rate(gap[1])) else { continue };
            if before == behind {
                continue;
            }
            let [expected, other] = [is_of, 1 - is_of].map(|of| 1_058 * 8_000_000_000_000 / [before, behind][of]);
            let length = gap[1] - gap[0];
            assert!(
                length.abs_diff(expected) <= 2_000 && length.abs_diff(other) > 2_000,
                "{pacing}: {gap:?} at {before}, {behind}"
            );
            spans += 1;
        }
        assert!(spans > 20, "{pacing}: {spans} gaps");
    }
}

/// Two hosts send 1,000 packets each at line rate into a port, where the queue grows by a packet in the time of one until they stop, at
/// half of the run, and then shrinks. Of those that leave later, a threshold of 100 packets marks all but the last 100, or all of them
/// if the queue counts that they found.
#[test]
fn packets_are_marked_by_the_queue_that_they_find_or_leave() {
    let marks = |marking: &str| {
        let text = format!(
            "duration = \"3ms\"\nmarking = \"{marking}\"\n[topology]\nkind = \"star\"\nhosts = 3\nrate = \"10Gb/s\"\ndelay = \"1us\"\n\
             [algorithm]\nname = \"pfc\"\n[buffer]\nthreshold = \"4MB\"\n[[stages]]\nname = \"red\"\nkmin = 105800\nkmax = 105800\n\
             [measure]\nfrom = \"1ms\"\n[[workload]]\nkind = \"incast\"\nbytes = \"1MB\"\n"
        );
        let input = read(&text, &[]).unwrap();
        let totals = run(&input, None);
        let measured = summary(&input, &totals).measured.unwrap();
        let link = measured.links.iter().find(|link| (link.node, link.to) == (3, 0)).unwrap();
        link.marks
    };
    let [departures, arrivals] = ["departures", "arrivals"].map(marks);
    assert_eq!(arrivals - departures, 100, "{arrivals} and {departures}");
}
