//! What is measured in an interval of a run.

use hil_sim::Picos;
use hil_sim::fabric::{Examples, Measure, Measured, Network, Quantity, Scenario, Totals};
use hil_sim::input::Input;
use hil_sim::summary::{Cost, Summary};
use std::cell::RefCell;
use std::fs;
use std::rc::Rc;

/// Hosts 1 and 2 send to host 0 without congestion control, on links of 100 Gb/s and 1 us. Frames have 1,058 bytes and occupy a link
/// for 86,560 ps.
fn star(tables: &str, bytes: &str) -> Input {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "duration = \"10ms\"\n{tables}\n[topology]\nkind = \"star\"\nhosts = 3\nrate = \"100Gb/s\"\ndelay = \"1us\"\n[algorithm]\n\
         name = \"pfc\"\n[[workload]]\nkind = \"incast\"\nbytes = {bytes}\n"
    );
    let path = folder.path().join("scenario.toml");
    fs::write(&path, text).unwrap();
    hil_sim::read(&path, None).unwrap_or_else(|error| panic!("{error:#}"))
}

const FRAME: u64 = 1_058;
const LINE_TIME: Picos = 86_560;

fn measured(input: &Input, from: Picos, until: Picos, window: Picos) -> (Totals, Measured) {
    let measure = Some(Measure { from, until, window, within: 0.1 });
    let totals = Scenario { measure, ..input.scenario() }.run().unwrap();
    let shuffled = Scenario { measure, shuffle: Some(5), ..input.scenario() }.run().unwrap();
    assert!(shuffled == totals);
    let plain = input.scenario().run().unwrap();
    assert!(Totals { measured: None, ..totals.clone() } == plain, "a measurement changes the run");
    let measured = totals.measured.clone().unwrap();
    (totals, measured)
}

/// While both send at line rate, the switch's queue grows by a frame for each that leaves: its mean over time is that of the middle of
/// the interval. All links are busy all the time.
#[test]
fn a_queue_that_grows_has_the_mean_of_the_middle() {
    let input = star("[buffer]\npfc = false\npool = \"1GB\"\nlossy_alpha = 64.0", "\"1MB\"");
    let (from, until) = (10_000_000, 50_000_000);
    let (_, measured) = measured(&input, from, until, 10_000_000);
    let port = |node, port| measured.ports.iter().find(|found| (found.node, found.port) == (node, port)).unwrap();
    for place in [(1, 1), (2, 1), (3, 1)] {
        let busy = port(place.0, place.1).busy;
        assert!((until - from).abs_diff(busy) <= 1, "{place:?}: {busy}");
    }
    // A frame of each host has arrived after 1 us and its line time, and from then on one of each comes and one leaves.
    let middle = (from + until) / 2 - 1_000_000 - LINE_TIME;
    let expected = (middle as f64 / LINE_TIME as f64) * FRAME as f64;
    let queue = port(3, 1).queue.as_ref().unwrap();
    assert!((queue.mean() - expected).abs() < 2.0 * FRAME as f64, "{} for {expected}", queue.mean());
    assert_eq!(queue.share(0..=0), 0.0);
    assert!(port(0, 1).queue.is_none());
    // Host 0 gets 1,000 bytes for each line time, of both flows alike; frames at an end of the interval count on one side of it.
    let received: u64 = measured.received.iter().sum();
    let frames = (until - from) / LINE_TIME;
    assert!((frames * 1_000).abs_diff(received) <= 1_000, "{received}");
    assert_eq!(measured.windows.len(), 4);
    for window in &measured.windows {
        assert!(window.flows == 2 && window.jain().unwrap() > 0.999, "{window:?}");
        assert!(window.is_within(0.05) && window.most - window.least <= 2_000, "{window:?}");
    }
}

/// The exact mean is that of the series of the same queue, sampled every nanosecond, and what a whole run has measured sums to its totals.
#[test]
fn what_is_measured_agrees_with_series_and_totals() {
    let input = star("[buffer]\nthreshold = \"30kB\"", "200001");
    let end = 10_000_000_000;
    let (totals, whole) = measured(&input, 0, end, end);
    assert!(totals.pfc_frames > 4);
    assert_eq!(whole.received, [200_001, 200_001]);
    let sum = |of: fn(&hil_sim::fabric::MeasuredPort) -> u64| whole.ports.iter().map(of).sum::<u64>();
    assert!(sum(|port| port.paused).abs_diff(totals.paused) <= 1_000_000_000, "{}", totals.paused);
    assert_eq!(sum(|port| port.marks), totals.marks);
    assert!(whole.windows[0].flows == 0, "no flow is open all through");
    let (from, until) = (5_000_000, 25_000_000);
    let (_, part) = measured(&input, from, until, 1_000_000);
    let samples = Rc::new(RefCell::new(Vec::new()));
    let kept = Rc::clone(&samples);
    let scenario = input.scenario();
    let examples = Examples::new(&scenario).unwrap();
    let mut network = Network::new(&scenario, &examples).unwrap();
    network.sample(1_000, move |sample| {
        if sample.quantity == Quantity::Queue {
            kept.borrow_mut().push((sample.at, sample.value));
        }
        Ok(())
    });
    while network.advance(1 << 20).unwrap() {}
    network.finish().unwrap();
    let mut samples = samples.take();
    samples.push((end, 0));
    let inside = |at: Picos| at.clamp(from, until);
    let integral: u64 = samples.windows(2).map(|pair| pair[0].1 * (inside(pair[1].0) - inside(pair[0].0))).sum();
    let mean = integral as f64 / (until - from) as f64;
    let queue = part.ports.iter().filter_map(|port| port.queue.as_ref()).map(|queue| queue.mean()).sum::<f64>();
    assert!((queue / mean - 1.0).abs() < 0.01 && mean > 20_000.0, "{queue} and {mean}");
    let buffer = part.buffers[0].1.mean();
    assert!((buffer / queue - 1.0).abs() < 1e-9, "{buffer} and {queue}");
}

/// Where PFC holds two hosts at half of their rate each, they are paused for half of the time, and their links are busy for the rest.
#[test]
fn shares_of_time_of_busy_and_paused_links_add_up() {
    let mut input = star(
        "[buffer]\nthreshold = \"30kB\"\n[measure]\nfrom = \"50us\"\nuntil = \"550us\"\nwindow = \"50us\"",
        "\"10MB\"",
    );
    let totals = input.scenario().run().unwrap();
    let cost = Cost { cpu_seconds: 1.0, setup_cpu_seconds: 1.0, peak_rss_bytes: 0, core_seconds: 0.0 };
    let interval = Summary::of(&input, &totals, &cost).unwrap().measured.unwrap();
    let link = |node: u32| interval.links.iter().find(|link| (link.node, link.port) == (node, 1)).unwrap();
    assert!(link(3).utilisation > 0.999, "{:?}", link(3));
    for host in [1, 2] {
        let link = link(host);
        assert!((link.utilisation - 0.5).abs() < 0.01 && (link.paused - 0.5).abs() < 0.02, "{link:?}");
        assert!((link.gbps - 50.0).abs() < 1.0);
    }
    // The payload that arrives, and frames of data that are sent for it; acknowledgements of 62 bytes are sent too.
    assert!((interval.receivers.gbps / (100e3 / 1_082.0) - 1.0).abs() < 0.01, "{}", interval.receivers.gbps);
    let acks = 62.0 / 1_000.0 * interval.receivers.gbps;
    let sent = interval.senders.gbps - acks;
    assert!((sent / (interval.receivers.gbps * 1.058) - 1.0).abs() < 0.01, "{}", interval.senders.gbps);
    assert!(interval.fairness.windows == 10 && interval.fairness.settled_us == Some(0.0), "{:?}", interval.fairness);
    input.measure = Some(Measure { until: input.end + 1, ..input.measure.unwrap() });
    let error = input.scenario().run().unwrap_err().to_string();
    assert!(error.contains("the run ends at 10000000 ns"), "{error}");
}
