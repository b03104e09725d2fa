//! Rules of faults: what each does to a flow whose times and packets are computed by hand, and what holds under all of them.

use anyhow::Result;
use cc_core::wire::opcode::Class;
use cc_core::wire::{self, Parsed, Roce};
use hil_algorithms::registry;
use hil_sim::fabric::{Examples, Network, Obstacle, Origin, Scenario, Totals};
use hil_sim::input::Input;
use std::fs;

/// A star of hosts at 100 Gb/s and 1 us, without congestion control, and a flow of a number of packets to host 0 from each other
/// host. A packet is 1,058 bytes and an acknowledgement 62, with 24 bytes of framing each.
fn star(hosts: u32, packets: u32, more: &str) -> Input {
    read(&format!(
        "duration = \"1s\"\n[topology]\nkind = \"star\"\nhosts = {hosts}\nrate = \"100Gb/s\"\ndelay = \"1us\"\n\
         [algorithm]\nname = \"pfc\"\n[[workload]]\nkind = \"incast\"\nbytes = {}\n{more}",
        packets * 1_000
    ))
    .unwrap()
}

fn read(text: &str) -> Result<Input> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.toml");
    fs::write(&path, text).unwrap();
    hil_sim::read(&path, None)
}

fn run(input: &Input) -> Totals {
    input.scenario().run().unwrap()
}

/// The time of a flow of one packet over two links, and of its acknowledgement.
const ONE_PACKET: u64 = 4_000_000 + 2 * (1_058 + 24) * 80 + 2 * (62 + 24) * 80;
/// The time of a frame of data on the line.
const FRAME: u64 = (1_058 + 24) * 80;

/// One packet: what happens to it on one of its links, or to its acknowledgement, is added to its time.
#[test]
fn a_fault_adds_what_it_names_to_the_time_of_a_packet() {
    let timeout = 4_194_304_000;
    for (fault, added) in [
        ("kind = \"delay\"\ndelay = \"5us\"\nlinks = [[0, 2]]", 2 * 5_000_000),
        ("kind = \"delay\"\ndelay = \"5us\"\nentering = [0]", 5_000_000),
        ("kind = \"delay\"\ndelay = \"5us\"\nleaving = [0, 1]", 2 * 5_000_000),
        ("kind = \"reordering\"\ndelay = \"7us\"\npackets = \"ack\"", 2 * 7_000_000),
        ("kind = \"loss\"\npackets = \"data\"\nnth = \"first\"", timeout),
        ("kind = \"loss\"\npackets = \"ack\"\nnth = \"last\"", timeout),
        ("kind = \"corruption\"\nnth = 1", timeout),
        (
            "kind = \"loss\"\npackets = [\"cnp\", \"pfc\", \"nak\", \"handshake\", \"grant\", \"telemetry\", \"message\"]",
            0,
        ),
        ("kind = \"loss\"\nprobability = 0.0", 0),
        ("kind = \"loss\"\nflow = 0\nfrom = \"1us\"\nuntil = \"1.05us\"", 0),
        // The last bit of the packet arrives at the switch after 1.08656 us.
        ("kind = \"loss\"\nflow = 0\nfrom = \"1us\"\nuntil = \"1.1us\"", timeout),
        ("kind = \"loss\"\nfrom = \"0.9us\"\nuntil = \"1us\"\nevery = \"1us\"", 0),
        ("kind = \"duplication\"", 0),
    ] {
        let totals = run(&star(2, 1, &format!("[[faults]]\n{fault}\n")));
        let time = totals.completions[0].time;
        // A packet that is sent again leaves at the timeout, which begins when the first one leaves.
        assert_eq!(time, ONE_PACKET + added, "{fault}");
        assert_eq!(totals.lost, u64::from(added == timeout), "{fault}");
    }
}

/// Eight flows of a packet: each is late by a time of its own of at most the range, which is the same on each of its links, and another
/// with another seed.
#[test]
fn a_flow_keeps_the_time_that_is_drawn_for_it() {
    let late = |seed: u64, rule: &str| {
        let text = format!(
            "seed = {seed}\nduration = \"1s\"\n[topology]\nkind = \"star\"\nhosts = 4\nrate = \"100Gb/s\"\ndelay = \"1us\"\n\
             [algorithm]\nname = \"pfc\"\n[[workload]]\nkind = \"pairs\"\nbytes = 1000\nrepeat = 4\n\
             pairs = [[0, 2], [1, 3]]\n[[faults]]\nkind = \"reordering\"\npackets = \"data\"\n{rule}"
        );
        let mut done = run(&read(&text).unwrap()).completions;
        done.sort_by_key(|done| done.flow);
        done.iter().map(|done| done.time - ONE_PACKET).collect::<Vec<u64>>()
    };
    let one_link = late(1, "per_flow = \"900ns\"\nentering = [2, 3]");
    let different: std::collections::BTreeSet<&u64> = one_link.iter().collect();
    assert!(different.len() == 8 && one_link.iter().all(|&time| time <= 900_000), "{one_link:?}");
    let times = |by: u64, more: u64| one_link.iter().map(|time| time * by + more).collect::<Vec<_>>();
    assert_eq!(late(1, "per_flow = \"900ns\""), times(2, 0));
    assert_eq!(late(1, "delay = \"1us\"\nper_flow = \"900ns\"\nentering = [2, 3]"), times(1, 1_000_000));
    assert_ne!(late(2, "per_flow = \"900ns\"\nentering = [2, 3]"), one_link);
}

/// Ten packets, of which the fifth is late by a little more than the time of three, or is doubled.
#[test]
fn a_late_packet_is_overtaken_if_it_is_reordered_and_not_if_it_is_delayed() {
    let fault = |fault: &str| {
        let text =
            format!("[[faults]]\n{fault}\nleaving = [1]\nnth = 5\n[transport]\nrecovery = \"selective-repeat\"\n");
        run(&star(2, 10, &text))
    };
    let alone = run(&star(2, 10, ""));
    assert_eq!(alone.completions[0].time, ONE_PACKET + 9 * FRAME);
    let reordered = fault("kind = \"reordering\"\ndelay = \"260ns\"");
    // Each packet that overtakes it causes a NAK; it arrives before the packet that the first of them asks for.
    assert_eq!((reordered.sent_again, reordered.lost), (1, 0));
    let delayed = fault("kind = \"delay\"\ndelay = \"260ns\"");
    assert_eq!((delayed.sent_again, delayed.lost), (0, 0));
    // Those behind it have caught up at the switch, whose port sends them one after the other.
    assert_eq!(delayed.completions[0].time, alone.completions[0].time + 260_000);
    let doubled = fault("kind = \"duplication\"");
    assert_eq!((doubled.injected, doubled.sent_again), (20 + 2, 0));
}

/// The share of frames that a bit error rate corrupts: 1 - (1 - r)^bits of 1,058 bytes of data, and of 62 of an acknowledgement.
#[test]
fn a_bit_error_rate_corrupts_long_frames_more_often() {
    let share = |packets: &str| {
        let fault = format!(
            "[[faults]]\nkind = \"corruption\"\nbit_error_rate = 1e-5\npackets = \"{packets}\"\nlinks = [[1, 2]]\n"
        );
        let totals =
            run(&star(2, 20_000, &(fault + "[transport]\nrecovery = \"selective-repeat\"\ntimeout = \"50us\"\n")));
        assert_eq!(totals.completions.len(), 1);
        totals.lost as f64 / (20_000 + totals.lost) as f64
    };
    let expected = |bytes: f64| 1.0 - (1.0 - 1e-5f64).powf(8.0 * bytes);
    let (data, ack) = (share("data"), share("ack"));
    assert!((data / expected(1_058.0) - 1.0).abs() < 0.1, "{data}");
    assert!((ack / expected(62.0) - 1.0).abs() < 0.25, "{ack}");
}

/// Of two rules for the same frames the first decides; the second has those that the first leaves by its probability. A rule that
/// is added behind them changes nothing that they draw.
#[test]
fn the_first_rule_that_takes_effect_decides() {
    let half = "[[faults]]\nkind = \"loss\"\npackets = \"data\"\nprobability = 0.5\nuntil = \"20us\"\n";
    let late = "[[faults]]\nkind = \"reordering\"\npackets = \"data\"\ndelay = \"1ns\"\nuntil = \"20us\"\n";
    let counts = |rules: &[&str]| {
        let totals = run(&star(2, 1_000, &rules.concat()));
        assert_eq!(totals.completions.len(), 1);
        totals.faults.iter().map(|&(_, count)| count).collect::<Vec<_>>()
    };
    let [lost, held] = counts(&[half, late])[..] else { panic!() };
    assert!(lost > 50 && held > 50, "{lost} and {held}");
    assert_eq!(counts(&[half, late, half]), [lost, held, counts(&[half, late, half])[2]]);
    let first = counts(&[late, half]);
    assert!(first[0] > 100 && first[1] == 0, "{first:?}");
}

/// A rule of each kind, for all frames: every flow is whole, no packet is unaccounted for (which each run checks), and the order in
/// which events are added makes no difference. PFC frames are lost, late and doubled too; pauses are renewed, so that they end.
#[test]
fn flows_are_whole_under_all_faults_at_once_whatever_the_order_of_events() {
    let faults: String = [
        ("loss", "probability = 0.01\n"),
        ("corruption", "bit_error_rate = 1e-6\n"),
        ("delay", "probability = 0.01\ndelay = \"1us\"\njitter = \"2us\"\n"),
        ("reordering", "probability = 0.01\njitter = \"2us\"\n"),
        ("duplication", "probability = 0.01\n"),
    ]
    .map(|(kind, more)| format!("[[faults]]\nkind = \"{kind}\"\n{more}"))
    .concat();
    for recovery in ["go-back-n", "selective-repeat"] {
        let more = format!(
            "{faults}[transport]\nrecovery = \"{recovery}\"\nhandshake = true\ntimeout = \"200us\"\n\
             [buffer]\nthreshold = \"20kB\"\npause = \"20us\"\n"
        );
        let input = star(5, 300, &more);
        let totals = run(&input);
        assert_eq!(totals.completions.len(), 4, "{recovery}");
        assert!(totals.faults.iter().all(|&(_, count)| count > 5), "{recovery}: {:?}", totals.faults);
        for shuffle in [1, 2] {
            let again = Scenario { shuffle: Some(shuffle), ..input.scenario() }.run().unwrap();
            assert!(again == totals, "{recovery}, order {shuffle}");
        }
    }
}

/// The link of host 1 is down from 20 us to 120 us: what is on it and what the switch has for it is lost, the rest waits. Then the
/// receiver asks for what it misses, 1 ms before a timeout would.
#[test]
fn a_link_that_flaps_delays_a_flow_and_loses_what_is_on_it() {
    let flap = "[[faults]]\nkind = \"down\"\nlinks = [[2, 1]]\nfrom = \"20us\"\nuntil = \"120us\"\n";
    let input = star(2, 1_000, flap);
    let totals = run(&input);
    // 11.6 frames are on a link with a delay of 1 us: those of data are lost, the acknowledgements there, and those that come to the
    // switch later, of the data on the other link and from there.
    assert!((46..=50).contains(&totals.lost), "{totals:?}");
    assert_eq!(totals.faults, [("down", totals.lost)]);
    assert_eq!((totals.timeouts, totals.completions.len(), totals.lost), (0, 1, totals.dropped));
    let time = totals.completions[0].time;
    let undisturbed = ONE_PACKET + 999 * FRAME;
    // Of 100 us without a link; what was lost is sent again, and what was sent until the receiver could ask for it.
    assert!((undisturbed + 100_000_000..undisturbed + 110_000_000).contains(&time), "{time}");
    let periodic = run(&star(2, 1_000, &(flap.to_owned() + "every = \"150us\"\n")));
    assert!(periodic.lost > totals.lost && periodic.completions[0].time > time, "{periodic:?}");
    for shuffle in [1, 2] {
        assert!(Scenario { shuffle: Some(shuffle), ..input.scenario() }.run().unwrap() == totals);
    }
}

/// Hosts 0 and 1 are at leaves 2 and 3, which spines 4 and 5 join. Of the two links of a leaf one carries a flow. If it fails, the flow
/// takes the other one as soon as routes follow, and never if they do not.
#[test]
fn routes_lead_around_a_link_that_has_failed() {
    let run_with = |faults: &str| {
        let text = format!(
            "duration = \"1s\"\n[topology]\nkind = \"leaf-spine\"\nleaves = 2\nhosts = 1\nspines = 2\nrate = \"100Gb/s\"\ndelay = \"1us\"\n\
             [algorithm]\nname = \"pfc\"\n[[workload]]\nkind = \"pairs\"\npairs = [[0, 1]]\nbytes = \"1MB\"\n{faults}"
        );
        let input = read(&text).unwrap();
        let totals = run(&input);
        for shuffle in [1, 2] {
            assert!(Scenario { shuffle: Some(shuffle), ..input.scenario() }.run().unwrap() == totals, "{faults}");
        }
        totals
    };
    let down = |spine: u32, more: &str| {
        format!("[[faults]]\nkind = \"down\"\nlinks = [[{spine}, 2]]\nfrom = \"20us\"\n{more}")
    };
    let alone = run_with("").completions[0].time;
    let runs = [4, 5].map(|spine| run_with(&down(spine, "")));
    assert!(runs.iter().all(|totals| totals.completions.len() == 1 && totals.stall.is_none()), "{runs:?}");
    let lost: u64 = runs.iter().map(|totals| totals.lost).sum();
    assert!((10..100).contains(&lost), "{lost} frames that were on the link of one of the runs");
    let used = [4, 5][usize::from(runs[0].lost < runs[1].lost)];
    // Until routes follow, the leaf loses all that it is sent: the host sends on, at 100 Gb/s, for 50 us.
    let late = run_with(&down(used, "reroute = \"50us\"\n"));
    let sent = 50_000_000 / FRAME;
    assert!((sent..sent + 100).contains(&late.lost) && late.completions[0].time > alone, "{late:?}");
    let never = run_with(&down(used, "reroute = \"2s\"\n"));
    assert!(never.completions.is_empty() && never.stall.is_some(), "{never:?}");
    // Without a route the leaf loses what the host sends again and again, for the first rule that has taken a link down.
    let both = run_with(&(down(4, "") + &down(5, "")));
    assert_eq!(both.stall.as_ref().unwrap().flows[0].obstacle, Obstacle::Unreachable);
    assert!(both.lost > 200 && both.lost == both.dropped, "{both:?}");
    assert_eq!(both.faults.iter().map(|(_, count)| count).sum::<u64>(), both.lost, "{:?}", both.faults);
    let own = run_with("[[faults]]\nkind = \"down\"\nlinks = [[0, 2]]\n");
    assert_eq!(own.stall.unwrap().flows[0].obstacle, Obstacle::LinkDown { node: 0, fault: 0 });
    // Routes lead over the link again when it is back.
    let back = run_with(&down(used, "until = \"60us\"\nreroute = \"0us\"\n"));
    assert_eq!((back.completions.len(), back.timeouts), (1, 0), "{back:?}");
}

/// The switch sends to host 0 at 10 Gb/s what two hosts send at 100, and holds most of it when the link to host 0 fails: it drops all of
/// it then, although the queue may not send yet.
#[test]
fn a_queue_that_is_shaped_is_lost_with_its_link() {
    let input = star(
        3,
        100,
        "[[queues]]\nclass = 3\nrate = \"10Gb/s\"\n[[faults]]\nkind = \"down\"\nlinks = [[0, 3]]\nfrom = \"8us\"\n",
    );
    let totals = run(&input);
    assert!(totals.longest_queue > 100 * 1_058 && totals.lost > 140, "{totals:?}");
    assert_eq!((totals.in_flight, totals.completions.len()), (0, 0));
}

/// The example: all flows complete although links are down, and nothing but what was on them is lost.
#[test]
fn the_example_of_failures_completes() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/link-failure.toml");
    let input = hil_sim::read(&path, None).unwrap();
    let totals = run(&input);
    assert_eq!((totals.completions.len(), totals.dropped), (8, totals.lost));
    assert!(totals.faults.iter().all(|&(kind, count)| kind == "down" && count > 10), "{:?}", totals.faults);
    assert!(Scenario { shuffle: Some(1), ..input.scenario() }.run().unwrap() == totals);
}

/// The example: each of its rules takes effect.
#[test]
fn the_example_has_a_rule_of_each_kind() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/faults.toml");
    let totals = run(&hil_sim::read(&path, None).unwrap());
    assert_eq!(totals.completions.len(), 8);
    let kinds: Vec<_> = totals.faults.iter().map(|&(kind, _)| kind).collect();
    assert_eq!(kinds, ["loss", "corruption", "delay", "reordering", "duplication", "cnp_loss", "cnp_delay", "clock"]);
    assert!(totals.faults.iter().all(|&(_, count)| count > 0), "{:?}", totals.faults);
    assert_eq!((totals.faults[0].1, totals.lost), (1, totals.faults[0].1 + totals.faults[1].1));
    assert_eq!(totals.dropped, totals.lost + totals.faults[5].1);
}

#[test]
fn a_wrong_rule_is_shown_with_its_place() {
    for (fault, shown) in [
        ("kind = \"lost\"", "`kind`: expected one of loss, corruption"),
        ("probability = 0.5", "no `kind`"),
        ("kind = \"loss\"\nprobability = 2.0", "`probability`: expected a probability from 0 to 1, not `2.0`"),
        ("kind = \"clock\"", "no `offset`: expected a time by which the clock is ahead"),
        ("kind = \"clock\"\noffset = \"5\"", "`offset`: expected a time such as"),
        ("kind = \"cnp_loss\"\nhosts = [2]", "`hosts`: node 2 is a switch, expected a host"),
        ("kind = \"cnp_delay\"", "no `delay`: expected a time"),
        ("kind = \"down\"", "no `links`: expected pairs of nodes that links join, such as [[0, 8]]"),
        ("kind = \"down\"\nlinks = [[0, 2]]\nflow = 0", "unknown key `flow`"),
        ("kind = \"loss\"\ndelay = \"1us\"", "unknown key `delay`"),
        ("kind = \"delay\"", "no `delay`: expected a time"),
        ("kind = \"loss\"\nlinks = [[0, 1]]", "expected two nodes that a link joins, such as [0, 8]"),
        ("kind = \"loss\"\nlinks = [2]", "expected two nodes that a link joins"),
        ("kind = \"loss\"\nleaving = [3]", "expected a node from 0 to 2"),
        ("kind = \"loss\"\nleaving = []", "expected at least one element"),
        ("kind = \"loss\"\nlinks = []", "expected at least one element"),
        ("kind = \"loss\"\nleaving = [0]\nentering = [1]", "no link fits: expected one of `links` that leads from"),
        ("kind = \"loss\"\nlinks = [[0, 2]]\nleaving = [1]", "no link fits"),
        ("kind = \"loss\"\nprobability = true", "`probability`: expected a probability from 0 to 1, not `true`"),
        (
            "kind = \"corruption\"\nbit_error_rate = 0.1\nprobability = 0.5",
            "expected either `bit_error_rate` or `probability`",
        ),
        ("kind = \"loss\"\nflow = 1", "`flow`: expected a flow from 0 to 0, not `1`"),
        ("kind = \"loss\"\nnth = 0", "`nth`: expected a number from 1 on, \"first\" or \"last\", not `0`"),
        (
            "kind = \"loss\"\npackets = [\"data\", \"acks\"]",
            "`packets`: expected one or several of data, ack, nak, cnp",
        ),
        ("kind = \"loss\"\npackets = []", "`packets`: expected one or several of"),
        ("kind = \"loss\"\nfrom = \"2us\"\nuntil = \"1us\"", "`until`: expected a time after `from`, not `\"1us\"`"),
        ("kind = \"loss\"\nuntil = \"2us\"\nevery = \"1us\"", "`every`: expected a time that is not shorter"),
        ("kind = \"corruption\"\nbit_error_rate = 2", "`bit_error_rate`: expected the probability that a bit is wrong"),
    ] {
        let text = format!(
            "[topology]\nkind = \"star\"\nhosts = 2\nrate = \"100Gb/s\"\ndelay = \"1us\"\n[algorithm]\nname = \"pfc\"\n\
             [[workload]]\nkind = \"incast\"\nbytes = 1\n[[faults]]\n{fault}\n"
        );
        let error = read(&text).err().unwrap_or_else(|| panic!("{fault} is not refused")).to_string();
        assert!(error.contains(shown) && error.contains("scenario.toml:1"), "{fault}: {error}");
    }
}

/// The frames that leave by the port of a host, with their times.
fn sent_by(input: &Input, host: u32) -> (Vec<(u64, Vec<u8>)>, Totals) {
    let scenario = input.scenario();
    let examples = Examples::new(&scenario).unwrap();
    let mut frames = Vec::new();
    let mut network = Network::new(&scenario, &examples).unwrap();
    network
        .tap_port(host, 1, |at, origin, frame| {
            if origin == Origin::Sent {
                frames.push((at, frame.to_vec()));
            }
            Ok(())
        })
        .unwrap();
    while network.advance(1 << 20).unwrap() {}
    let totals = network.finish().unwrap();
    (frames, totals)
}

/// What four senders to host 0 are with an algorithm, marks from 5 kB on, and a fault.
fn incast(algorithm: &str, fault: &str) -> Input {
    let text = format!(
        "duration = \"1s\"\n[topology]\nkind = \"star\"\nhosts = 5\nrate = \"100Gb/s\"\ndelay = \"1us\"\n\
         [algorithm]\nname = \"{algorithm}\"\n[[stages]]\nname = \"red\"\nkmin = \"5kB\"\nkmax = \"50kB\"\npmax = \"100%\"\n\
         [[stages]]\nname = \"int\"\n[[workload]]\nkind = \"incast\"\nbytes = \"200kB\"\n{fault}"
    );
    read(&text).unwrap()
}

fn parse(frame: &[u8]) -> Roce<'_> {
    match wire::parse(frame, frame.len()) {
        Ok(Parsed::Roce(roce)) => roce,
        other => panic!("{other:?}"),
    }
}

/// The receiver's NIC decides on its first CNP at the same time, and sends it 55 us later, or not at all: then nothing is cut. On its
/// way to the port a CNP may wait for an acknowledgement, which takes 7 ns.
#[test]
fn a_nic_sends_cnps_late_or_not_at_all() {
    let first_cnp = |fault: &str| {
        let (frames, totals) = sent_by(&incast("dcqcn", fault), 0);
        let first = frames.iter().find(|(_, frame)| parse(frame).info.class() == Class::Cnp).map(|&(at, _)| at);
        assert_eq!(totals.completions.len(), 4);
        (first, totals)
    };
    let (Some(at), totals) = first_cnp("") else { panic!("no CNP") };
    assert!(totals.cuts > 0);
    let (late, totals) = first_cnp("[[faults]]\nkind = \"cnp_delay\"\ndelay = \"55us\"\nhosts = [0]\n");
    let late = late.unwrap() - at;
    assert!(late.abs_diff(55_000_000) < 7_000, "{late}");
    assert!(totals.faults[0].1 > 0 && totals.lost == 0 && totals.cuts > 0);
    let (never, totals) = first_cnp("[[faults]]\nkind = \"cnp_loss\"\n");
    assert_eq!((never, totals.cuts, totals.dropped), (None, 0, totals.faults[0].1));
    let (_, other) = first_cnp("[[faults]]\nkind = \"cnp_loss\"\nhosts = [1]\n");
    assert_eq!(other.faults, [("cnp_loss", 0)]);
    let (_, one) = first_cnp("[[faults]]\nkind = \"cnp_loss\"\nflow = 2\nnth = 1\n");
    assert_eq!((one.faults[0].1, one.dropped), (1, 1));
}

/// The times in the data packets of host 1, which Swift writes, less those at which they leave.
#[test]
fn a_clock_is_ahead_behind_or_jitters() {
    let leads = |fault: &str| {
        let (frames, totals) = sent_by(&incast("swift", fault), 1);
        assert_eq!(totals.completions.len(), 4, "{fault}");
        let stamps = frames.iter().filter_map(|(at, frame)| {
            let roce = parse(frame);
            let stamp = roce.time_shim().filter(|_| roce.info.class().carries_data())?.sent;
            Some((i64::from(stamp.to_bits()), stamp.to_bits() as i64 - (at / 1_000) as i64))
        });
        stamps.collect::<Vec<_>>()
    };
    let rule = |keys: &str| leads(&format!("[[faults]]\nkind = \"clock\"\n{keys}\n"));
    let is_all =
        |stamps: &[(i64, i64)], lead: i64| stamps.len() >= 200 && stamps.iter().all(|&(_, other)| other == lead);
    assert!(is_all(&leads(""), 0));
    assert!(is_all(&rule("offset = \"5us\"\nhosts = [1]"), 5_000));
    assert!(is_all(&rule("offset = \"5us\"\nhosts = [2]"), 0));
    // Clocks begin at zero or later: the others are ahead of one that is behind.
    assert!(is_all(&rule("offset = \"-5us\"\nhosts = [1]"), 0));
    assert!(is_all(&rule("offset = \"-5us\"\nhosts = [2]"), 5_000));
    let goes_back = |stamps: &[(i64, i64)]| stamps.windows(2).any(|pair| pair[1].0 < pair[0].0);
    let jitter = rule("jitter = \"1us\"\nhosts = [1]");
    assert!(!goes_back(&jitter) && jitter.iter().all(|(_, lead)| (0..=1_000).contains(lead)));
    assert!(jitter.iter().any(|&(_, lead)| lead > 500), "{jitter:?}");
    assert!(goes_back(&rule("jitter = \"1us\"\nbackward = true")));
}

/// If the clocks of all hosts are ahead by the same time, no algorithm does anything else.
#[test]
fn the_same_offset_of_all_clocks_changes_nothing() {
    for name in registry::names() {
        let [none, ahead] = ["", "[[faults]]\nkind = \"clock\"\noffset = \"1234567ns\"\n"].map(|fault| {
            let totals = run(&incast(name, fault));
            (totals.completions, totals.decisions, totals.cuts, totals.packet_hops)
        });
        assert!(none == ahead, "{name}: {none:?} and {ahead:?}");
    }
}

/// CNPs that are late or lost, and clocks that differ and jitter: the order in which events are added makes no difference.
#[test]
fn faults_of_nics_are_the_same_in_any_order_of_events() {
    let faults = "[[faults]]\nkind = \"cnp_loss\"\nprobability = 0.1\n[[faults]]\nkind = \"cnp_delay\"\njitter = \"10us\"\n\
                  [[faults]]\nkind = \"clock\"\noffset = \"-3us\"\njitter = \"500ns\"\nhosts = [0, 2]\nfrom = \"10us\"\nuntil = \"20us\"\nevery = \"30us\"\n";
    for name in registry::names() {
        let input = incast(name, faults);
        let totals = run(&input);
        assert_eq!(totals.completions.len(), 4, "{name}");
        assert!(Scenario { shuffle: Some(1), ..input.scenario() }.run().unwrap() == totals, "{name}");
    }
}

/// Host 0 sends 64 flows of one packet, which occupy its port for 5.5 us; a round trip takes 4.2 us and the timeout is 4.1 us. Flow 0 is to
/// send again, waits its turn, and is acknowledged before that: it is complete, and has nothing to send.
#[test]
fn a_flow_that_waits_to_send_again_completes_at_its_acknowledgement() {
    let pairs = ["[0, 1]"; 64].join(", ");
    for recovery in ["go-back-n", "selective-repeat"] {
        let input = read(&format!(
            "[topology]\nkind = \"star\"\nhosts = 2\nrate = \"100Gb/s\"\ndelay = \"1us\"\n[algorithm]\nname = \"pfc\"\n\
             [transport]\nrecovery = \"{recovery}\"\ntimeout = \"4100ns\"\n\
             [[workload]]\nkind = \"pairs\"\nbytes = 1000\npairs = [{pairs}]\n"
        ));
        let totals = run(&input.unwrap());
        assert_eq!((totals.completions.len(), totals.dropped), (64, 0));
        assert!(totals.timeouts > 0 && totals.sent_again < totals.timeouts, "{totals:?}");
    }
}
