//! What each algorithm must do in networks that are simple enough to say what is right: one flow alone, two flows, sixteen.

use hil_algorithms::registry;
use hil_sim::fabric::{Examples, Network, QueueMonitor, Scenario, Totals};
use hil_sim::input::Input;
use std::fs;

fn read(text: &str) -> Input {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.toml");
    fs::write(&path, text).unwrap();
    hil_sim::read(&path, None).unwrap()
}

/// The totals of a run, and the length of the longest frame to or from host 0.
fn run(input: &Input, queue_monitor: Option<QueueMonitor>) -> (Totals, usize) {
    let scenario = Scenario { queue_monitor, ..input.scenario() };
    let examples = Examples::new(&scenario).unwrap();
    let mut longest = 0;
    let mut tap = |_, _, frame: &[u8]| {
        longest = longest.max(frame.len());
        Ok(())
    };
    let mut network = Network::new(&scenario, &examples).unwrap();
    network.tap(0, &mut tap);
    while network.advance(1 << 20).unwrap() {}
    (network.finish().unwrap(), longest)
}

/// A star with these hosts at this rate and a delay of 1 us, and this algorithm.
fn star(hosts: u32, gbps: u64, algorithm: &str, settings: &str, stages: &[&str]) -> String {
    let stages = stages.iter().map(|stage| format!("[[stages]]\nname = \"{stage}\"\n")).collect::<String>();
    format!(
        "duration = \"10s\"\n[topology]\nkind = \"star\"\nhosts = {hosts}\nrate = \"{gbps}Gb/s\"\ndelay = \"1us\"\n\
         [algorithm]\nname = \"{algorithm}\"\n{settings}\n{stages}"
    )
}

/// One flow in an empty network, at 10 to 800 Gb/s, for 4 ms, which are about a thousand round trips. Its frames of 1,000 bytes of
/// payload, with headers, preamble, check sequence and gap, take at least 0.9 x eta of the line rate. Nothing is marked or paused,
/// dropped or sent again. Swift has its largest window: that of its preset, 256 packets, is less than what 800 Gb/s
/// carry in a round trip.
#[test]
fn a_flow_alone_takes_the_line() {
    for name in registry::names() {
        let settings = if name == "swift" { "max_window = 4095" } else { "" };
        let stages: &[&str] = match name {
            "hpcc" | "powertcp" | "hpcc_star" | "mlcc" => &["red", "int"],
            _ => &["red"],
        };
        let eta = if stages.len() == 2 { 0.95 } else { 1.0 };
        for gbps in [10, 25, 100, 400, 800] {
            let bytes = gbps * 500_000;
            let workload = format!("[[workload]]\nkind = \"pairs\"\npairs = [[0, 1]]\nbytes = {bytes}\n");
            let (totals, frame) = run(&read(&(star(2, gbps, name, settings, stages) + &workload)), None);
            let time = totals.completions[0].time;
            let share = (bytes / 1_000 * (frame as u64 + 24)) as f64 * 8e3 / (time as f64 * gbps as f64);
            assert!((0.9 * eta..=1.0).contains(&share), "{name}, {gbps} Gb/s: {share}");
            assert_eq!((totals.marks, totals.pfc_frames, totals.dropped, totals.sent_again), (0, 0, 0, 0), "{name}");
        }
    }
}

/// DCQCN with two flows to one port at 40 Gb/s for half a second: each has 20 Gb/s within 10 % (Zhu et al., SIGCOMM 2015, figure
/// 10 has such a pair), and the port is busy.
#[test]
fn two_flows_of_dcqcn_share_a_port() {
    let workload = "[[workload]]\nkind = \"incast\"\nbytes = \"1250MB\"\n";
    let (totals, frame) = run(&read(&(star(3, 40, "dcqcn", "", &["red"]) + workload)), None);
    for done in &totals.completions {
        let gbps = 1_250e3 * (frame + 24) as f64 * 8e3 / done.time as f64;
        assert!((18.0..22.0).contains(&gbps), "{gbps} Gb/s");
    }
    assert!(totals.marks > 0 && totals.cuts > 0 && totals.pfc_frames == 0, "{totals:?}");
}

/// HPCC with sixteen flows to one port at 100 Gb/s and a base round trip of 12 us, so that W and the product of bandwidth and delay
/// are 147 KB. All begin at once with a whole W, of which the port sends one per round trip, so that fifteen pass before this queue
/// can have left. From the fortieth on, the queue is below a fifth of W; over the whole run the port is busy for eta = 95 % of the
/// time within 2 % (Li et al., SIGCOMM 2019, section 3.3).
#[test]
fn sixteen_flows_of_hpcc_keep_the_queue_short() {
    let workload = "[[workload]]\nkind = \"incast\"\nbytes = \"2MB\"\n";
    let input = read(&(star(17, 100, "hpcc", "", &["int"]).replace("1us", "2.9us") + workload));
    let round_trip = u64::from(input.base_rtt.get()) * 1_000;
    assert!((11_500_000..12_000_000).contains(&round_trip));
    let (start, end) = (40 * round_trip, 200 * round_trip);
    let (totals, frame) = run(&input, Some(QueueMonitor { start, end, interval: 100_000, record_every: 100_000 }));
    assert!(totals.longest_queue > 1_500_000, "the first windows: {}", totals.longest_queue);
    let (_, ports) = totals.queue_lengths.last().unwrap();
    let port = ports.iter().find(|port| port.port == 1).unwrap();
    assert!((1..147 / 5).contains(&port.counts.len()), "up to {} KB", port.counts.len());
    let time = totals.completions.last().unwrap().time;
    let share = (16 * 2_000 * (frame + 24)) as f64 * 8e3 / (time as f64 * 100.0);
    assert!((0.93..0.97).contains(&share), "{share}");
}
