//! Runs that do not progress end, and say of each flow what blocks it.

use cc_core::Psn;
use hil_sim::fabric::{Effects, Loss, Obstacle, Scenario, Stall, Totals};
use hil_sim::input::Input;
use std::fs;

fn read(text: &str) -> Input {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.toml");
    fs::write(&path, text).unwrap();
    hil_sim::read(&path, None).unwrap()
}

/// Two hosts send to a third over links of 1 us at 100 Gb/s.
fn star(more: &str) -> Input {
    read(&format!(
        "duration = \"100s\"\n{more}\n[topology]\nkind = \"star\"\nhosts = 3\nrate = \"100Gb/s\"\ndelay = \"1us\"\n\
         [[workload]]\nkind = \"incast\"\nbytes = \"1MB\"\n"
    ))
}

const PFC: &str = "[algorithm]\nname = \"pfc\"\n";

/// The sequence number of the first packet of flow 0.
const FIRST: Psn = Psn::new(0x00ff_ff80);

fn stall(totals: &Totals) -> &Stall {
    totals.stall.as_ref().unwrap_or_else(|| panic!("no stall: {totals:?}"))
}

/// From 20 us on all data of flow 0 is lost on the link to host 0. Flow 1 completes; then the run ends after two looks, 100 ms apart,
/// while flow 0 still sends again at each timeout.
#[test]
fn a_packet_that_is_lost_again_and_again_is_named_with_the_fault_that_loses_it() {
    let input = star(&format!(
        "{PFC}[[faults]]\nkind = \"duplication\"\nprobability = 0.0\n\
         [[faults]]\nkind = \"loss\"\npackets = \"data\"\nflow = 0\nentering = [0]\nfrom = \"20us\"\n"
    ));
    let totals = input.scenario().run().unwrap();
    assert_eq!(totals.completions.iter().map(|done| done.flow).collect::<Vec<_>>(), [1]);
    let Stall { since, flows } = stall(&totals);
    assert!((100_000_000_000..=100_000_000_000 + 2 * 4_194_304_000).contains(since), "{since}");
    assert!(totals.end - since <= 100_000_000_000 && totals.timeouts > 20, "{totals:?}");
    let [blocked] = flows[..] else { panic!("{flows:?}") };
    let delivered = blocked.psn.since(FIRST);
    assert!((50..250).contains(&delivered), "{delivered} packets in 20 us, of which 17 are on the line");
    let Obstacle::Lost { again: Some(again), last: Some(Loss { at, link: [3, 0], fault: 1 }) } = blocked.obstacle
    else {
        panic!("{blocked}")
    };
    assert!(again > totals.end && at <= totals.end && at > since - 4_194_304_000, "{blocked}");
}

/// Pauses last until they are resumed, and no frame that resumes arrives: flows wait at their hosts, by order of the switch, node 3.
#[test]
fn a_pause_without_end_is_named_with_the_node_that_asked_for_it() {
    let input = star(&format!(
        "{PFC}[buffer]\nthreshold = \"50kB\"\n[[faults]]\nkind = \"loss\"\npackets = \"pfc\"\nfrom = \"12us\"\n"
    ));
    let effects = Effects { pauses_until_resumed: true, ..Effects::default() };
    let totals = Scenario { effects, ..input.scenario() }.run().unwrap();
    let flows = &stall(&totals).flows;
    assert_eq!((flows.len(), totals.completions.len(), totals.dropped), (2, 0, 0));
    for blocked in flows {
        let host = blocked.flow + 1;
        let pause = Obstacle::Pause { node: host, port: 1, class: 3, by: 3, until: None };
        assert_eq!(blocked.obstacle, pause, "{blocked}");
        let cause = format!("it waits at port 1 of node {host}, whose class 3 node 3 has paused and not resumed");
        assert_eq!(blocked.obstacle.to_string(), cause);
    }
}

/// The same in a row of two switches, nodes 4 and 5: the second pauses the trunk, where packets wait, and its resume is lost.
#[test]
fn a_packet_that_waits_in_a_paused_switch_is_found_there() {
    let input = read(&format!(
        "duration = \"100s\"\n{PFC}[buffer]\nthreshold = \"50kB\"\n\
         [topology]\nkind = \"dumbbell\"\nleft = 2\nright = 2\nrate = \"100Gb/s\"\ntrunk_rate = \"200Gb/s\"\ndelay = \"1us\"\n\
         [[workload]]\nkind = \"pairs\"\npairs = [[0, 2], [1, 2]]\nbytes = \"1MB\"\n\
         [[faults]]\nkind = \"loss\"\npackets = \"pfc\"\nlinks = [[4, 5]]\nfrom = \"10us\"\n"
    ));
    let effects = Effects { pauses_until_resumed: true, ..Effects::default() };
    let totals = Scenario { effects, ..input.scenario() }.run().unwrap();
    let flows = &stall(&totals).flows;
    let at_trunk = Obstacle::Pause { node: 4, port: 3, class: 3, by: 5, until: None };
    assert!(flows.iter().any(|blocked| blocked.obstacle == at_trunk), "{flows:?}");
}

/// No request of a connection arrives.
#[test]
fn a_connection_that_is_never_set_up_is_named() {
    let input = star(&format!(
        "{PFC}[transport]\nhandshake = true\n[[faults]]\nkind = \"loss\"\npackets = \"handshake\"\nflow = 1\n"
    ));
    let totals = input.scenario().run().unwrap();
    let flows = &stall(&totals).flows;
    assert_eq!(
        flows.iter().map(|blocked| (blocked.flow, blocked.obstacle)).collect::<Vec<_>>(),
        [(1, Obstacle::Handshake)]
    );
    assert_eq!(totals.completions.len(), 1);
}

/// All acknowledgements are lost from the beginning, for an algorithm with a window: what was sent was received, and is sent again.
#[test]
fn a_window_without_acknowledgements_is_a_stall() {
    let input = star(
        "stall = \"20ms\"\n[algorithm]\nname = \"hpcc\"\n[[stages]]\nname = \"int\"\n[[faults]]\nkind = \"loss\"\npackets = \"ack\"\n",
    );
    let totals = input.scenario().run().unwrap();
    let Stall { since, flows } = stall(&totals);
    assert_eq!((*since / 1_000_000_000, flows.len()), (20, 2));
    assert!(totals.end <= 41_000_000_000, "{}", totals.end);
    assert_eq!(flows[0].psn, FIRST);
    assert!(matches!(flows[0].obstacle, Obstacle::Lost { again: Some(_), last: Some(_) }), "{}", flows[0]);
}

/// A second between flows, a round trip of a third of the time after which a run ends, and a link at 1 Mb/s, which a packet occupies
/// for 9 ms, are no stalls.
#[test]
fn what_is_slow_is_no_stall() {
    let slow = |rate: &str, delay: &str, more: &str| {
        read(&format!(
            "duration = \"100s\"\n{more}{PFC}[buffer]\npfc = false\n[topology]\nkind = \"star\"\nhosts = 2\nrate = \"{rate}\"\ndelay = \"{delay}\"\n\
             [[workload]]\nkind = \"pairs\"\npairs = [[0, 1]]\nbytes = \"20kB\"\n\
             [[workload]]\nkind = \"pairs\"\npairs = [[1, 0]]\nbytes = \"20kB\"\nstart = \"1s\"\n"
        ))
    };
    let timeout = "[transport]\ntimeout = \"1s\"\n";
    for input in [
        slow("100Gb/s", "1us", ""),
        slow("100Gb/s", "10ms", &format!("stall = \"120ms\"\n{timeout}")),
        slow("1Mb/s", "1us", &format!("stall = \"30ms\"\n{timeout}")),
    ] {
        let totals = input.scenario().run().unwrap();
        assert!(totals.stall.is_none() && totals.completions.len() == 2, "{totals:?}");
    }
}

/// The watchdog drops what waits at the paused port, and the next event of the flows is a timeout after the end: with looks each
/// 300 us, the last of which sees no progress, the run has stalled. With a look at 1.5 ms, only one is due by the end.
#[test]
fn a_run_without_events_until_its_end_has_stalled() {
    for (every, has_stalled) in [("300us", true), ("1500us", false)] {
        let input = read(&format!(
            "duration = \"2ms\"\nstall = \"{every}\"\n[topology]\nkind = \"star\"\nhosts = 4\nrate = \"100Gb/s\"\n\
             delay = \"1us\"\n{PFC}[buffer]\nthreshold = 20000\n[watchdog]\ntime = \"10us\"\naction = \"drop\"\n\
             [[faults]]\nkind = \"loss\"\npackets = \"pfc\"\nfrom = \"12us\"\n\
             [[workload]]\nkind = \"incast\"\nbytes = 1000000\n"
        ));
        let totals = input.scenario().run().unwrap();
        assert_eq!(totals.stall.is_some(), has_stalled, "{every}: {totals:?}");
    }
}
