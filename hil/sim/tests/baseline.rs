//! What each algorithm must do in networks that are simple enough to say what is right: one flow alone, two flows, and many to
//! one port.

use hil_algorithms::registry;
use hil_sim::fabric::{Examples, Levels, Measure, Measured, Network, QueueMonitor, Scenario, Totals};
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

/// The share of the port's time that data takes, of flows with so many packets in all, where frames have so many bytes.
fn share(totals: &Totals, packets: u64, frame: usize, gbps: u64) -> f64 {
    let end = totals.completions.last().unwrap().time;
    (packets * (frame as u64 + 24)) as f64 * 8e3 / (end as f64 * gbps as f64)
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
            let share = share(&totals, bytes / 1_000, frame, gbps);
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
    let share = share(&totals, 16 * 2_000, frame, 100);
    assert!((0.93..0.97).contains(&share), "{share}");
}

/// PowerTCP with 10 and 255 flows of 10 MB in all to one port at 25 Gb/s: nothing is lost or paused, and the port stays busy from the
/// burst to the end (Addanki et al., NSDI 2022, section 5.2: no loss of throughput after an incast of 10 and of 255 flows).
#[test]
fn a_burst_of_powertcp_is_absorbed_without_a_loss_of_throughput() {
    for senders in [10, 255] {
        let packets = 10_000 / u64::from(senders);
        let workload = format!("[[workload]]\nkind = \"incast\"\nbytes = {}\n", packets * 1_000);
        let buffer = "[buffer]\npool = \"64MiB\"\nheadroom_apart = true\n";
        let text = star(senders + 1, 25, "powertcp", "", &["int"]) + buffer + &workload;
        let (totals, frame) = run(&read(&text), None);
        assert_eq!((totals.dropped, totals.pfc_frames, totals.timeouts), (0, 0, 0), "{senders} flows");
        let share = share(&totals, packets * u64::from(senders), frame, 25);
        assert!((0.93..=1.0).contains(&share), "{senders} flows: {share}");
    }
}

/// Swift with a hundred flows of 4 MB to one port at 100 Gb/s: no packet is sent again, the port is busy, flows end within 3 % of
/// each other, and the delay is near its target. A window of 4 to 5 packets has a target of 25 us, 1 us for the switch, and
/// 32.3 us / sqrt(w) - 2 us, of which 4.3 us are the base round trip: some 35 us, or 435 KB, in the queue (Kumar et al., SIGCOMM
/// 2020, section 3.5).
#[test]
fn a_hundred_flows_of_swift_keep_the_delay_near_the_target() {
    let workload = "[[workload]]\nkind = \"incast\"\nbytes = \"4MB\"\n";
    let buffer = "[buffer]\npool = \"64MiB\"\nheadroom_apart = true\n";
    let input = read(&(star(101, 100, "swift", "", &[]) + buffer + workload));
    let (start, end) = (5_000_000_000, 30_000_000_000);
    let monitor = QueueMonitor { start, end, interval: 1_000_000, record_every: 1_000_000_000 };
    let (totals, frame) = run(&input, Some(monitor));
    assert_eq!((totals.dropped, totals.sent_again, totals.pfc_frames), (0, 0, 0));
    let share = share(&totals, 400_000, frame, 100);
    assert!((0.97..=1.0).contains(&share), "{share}");
    let [first, last] = [totals.completions.first(), totals.completions.last()].map(|done| done.unwrap().time);
    assert!(last < first + first * 3 / 100, "{first} ps and {last} ps");
    let (_, ports) = totals.queue_lengths.last().unwrap();
    let counts = &ports.iter().find(|port| port.port == 1).unwrap().counts;
    let samples: u64 = counts.iter().sum();
    let mean = (0u64..).zip(counts).map(|(kilobytes, count)| kilobytes * count).sum::<u64>() / samples;
    assert!((435 * 2 / 3..435 * 3 / 2).contains(&mean), "{mean} KB");
}

/// Three flows over two bottlenecks at 100 Gb/s (RCC, Fig. 1a): the first shares a trunk with the second, and the port of its receiver
/// with the third. They begin a sixth of the run after each other, and the last quarter is measured.
fn two_bottlenecks(algorithm: &str, milliseconds: u64, stages: &str) -> Measured {
    let at = |numerator| milliseconds * 1_000 * numerator / 12;
    let flow = |from, to, start| {
        let start = at(start);
        format!("[[workload]]\nkind = \"pairs\"\npairs = [[{from}, {to}]]\nbytes = \"100GB\"\nstart = \"{start}us\"\n")
    };
    let input = read(&format!(
        "duration = \"{milliseconds}ms\"\n[topology]\nkind = \"dumbbell\"\nleft = 2\nright = 3\nrate = \"100Gb/s\"\n\
         delay = \"1us\"\n[algorithm]\nname = \"{algorithm}\"\n{stages}[measure]\nfrom = \"{}us\"\n{}{}{}",
        at(9),
        flow(0, 2, 0),
        flow(1, 3, 2),
        flow(4, 2, 4)
    ));
    run(&input, None).0.measured.unwrap()
}

/// The share of the time in which the port from one node to another is busy, and its queue if it is a switch's.
fn port(measured: &Measured, ends: [u32; 2]) -> (f64, Option<&Levels>) {
    let port = measured.ports.iter().find(|port| [port.node, port.peer] == ends).unwrap();
    let time = measured.windows.len() as u64 * Measure::WINDOW;
    (port.busy as f64 / time as f64, port.queue.as_ref())
}

/// Over two bottlenecks the queues of DCQCN oscillate from empty to many times their median, and the links are not always busy,
/// although all flows have more to send (RCC, Fig. 1b).
#[test]
fn dcqcn_oscillates_over_two_bottlenecks() {
    let measured = two_bottlenecks("dcqcn", 60, "[[stages]]\nname = \"red\"\n");
    for ends in [[5, 6], [6, 2]] {
        let (busy, Some(queue)) = port(&measured, ends) else { panic!("{ends:?} is not of a switch") };
        assert!(queue.share(0..=0) > 0.1 && queue.quantile(0.99) > 5 * queue.quantile(0.5), "{ends:?}: {queue:?}");
        assert!((0.9..0.999).contains(&busy), "{ends:?}: busy for {busy}");
    }
}

/// Over two bottlenecks TIMELY has no rates at which the flows are fair and the delay is bounded: the flow that passes both gets less
/// than a fifth of each, while both queues are never empty (RCC, Fig. 1c).
#[test]
fn timely_is_not_fair_over_two_bottlenecks() {
    let measured = two_bottlenecks("timely", 400, "");
    for ends in [[5, 6], [6, 2]] {
        let (busy, Some(queue)) = port(&measured, ends) else { panic!("{ends:?} is not of a switch") };
        assert!(busy > 0.999 && queue.share(0..=0) == 0.0, "{ends:?}: busy for {busy}, {queue:?}");
    }
    let [first, second, third] = [[0, 5], [1, 5], [4, 6]].map(|ends| port(&measured, ends).0);
    assert!(first < 0.2 && second > 0.8 && third > 0.8, "{first}, {second}, {third}");
}
