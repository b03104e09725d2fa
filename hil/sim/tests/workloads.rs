//! Flows that wait for others, in a network: when they begin, and what collectives take.

use hil_sim::Picos;
use hil_sim::fabric::{Completion, Scenario, Totals};
use hil_sim::input::Input;
use std::fs;

/// Without congestion control, so that each flow has the line rate, on a star of links of 100 Gb/s and 1 us.
fn star(hosts: u32, workload: &str, files: &[(&str, &str)]) -> Input {
    star_of("pfc", hosts, workload, files)
}

/// The same with an algorithm.
fn star_of(algorithm: &str, hosts: u32, workload: &str, files: &[(&str, &str)]) -> Input {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let text = format!(
        "[topology]\nkind = \"star\"\nhosts = {hosts}\nrate = \"100Gb/s\"\ndelay = \"1us\"\n[algorithm]\nname = \"{algorithm}\"\n\
         [[workload]]\n{workload}\n"
    );
    let path = folder.path().join("scenario.toml");
    fs::write(&path, text).unwrap();
    hil_sim::read(&path, None).unwrap_or_else(|error| panic!("{error:#}"))
}

/// A run, which is the same in any order of adding events.
fn run(input: &Input) -> Totals {
    let totals = input.scenario().run().unwrap();
    for seed in 1..4 {
        let shuffled = Scenario { shuffle: Some(seed), ..input.scenario() }.run().unwrap();
        assert!(shuffled == totals, "another order of adding events changes the run");
    }
    assert_eq!(totals.completions.len(), input.flows.len());
    totals
}

/// The completions of the flows in their order.
fn by_flow(totals: &Totals) -> Vec<Completion> {
    let mut completions = totals.completions.clone();
    completions.sort_by_key(|done| done.flow);
    completions
}

/// How long a packet with so many bytes of payload occupies a link: headers and ICRC have 58 bytes, preamble, check sequence and gap
/// 24, and a byte takes 80 ps. Frames have at least 64 bytes with the check sequence, which all here exceed.
const fn line_time(payload: u64) -> Picos {
    (payload + 58 + 24) * 80
}

/// From the first byte of a flow to the receipt of its last: serialisation of all packets, once more that of the longest, which the
/// switch has when the next one has left the sender, and two propagation delays.
fn one_way(bytes: u64) -> Picos {
    let (whole, rest) = (bytes / 1_000, bytes % 1_000);
    let longest = if whole > 0 { 1_000 } else { rest };
    whole * line_time(1_000) + if rest > 0 { line_time(rest) } else { 0 } + line_time(longest) + 2_000_000
}

/// An acknowledgement has 4 bytes in addition to the headers.
const ACK: Picos = 2 * line_time(4) + 2_000_000;

#[test]
fn a_response_begins_when_the_request_is_there_and_the_next_request_when_the_response_is() {
    let flows = "kind = \"pairs\"\npairs = [[1, 0]]\nbytes = 10500\nrequest = 16\nthink = \"3us\"\nrepeat = 2\n\
                 gap = \"5us\"\nstart = \"7us\"";
    let input = star(2, flows, &[]);
    let done = by_flow(&run(&input));
    let ends: Vec<_> = input.flows.iter().map(|flow| (flow.source, flow.bytes)).collect();
    assert_eq!(ends, [(0, 16), (1, 10_500), (0, 16), (1, 10_500)]);
    let first = 7_000_000 + one_way(16) + 3_000_000;
    let second = first + one_way(10_500) + 5_000_000;
    let starts: Vec<Picos> = done.iter().map(|done| done.start).collect();
    assert_eq!(starts, [7_000_000, first, second, second + one_way(16) + 3_000_000]);
    assert_eq!(done[1].time, one_way(10_500) + ACK);
}

/// Without requests a round ends with the acknowledgement.
/// Each sender begins three flows, which start at nine different times.
#[test]
fn copies_of_a_flow_start_at_times_of_their_own() {
    let input = star(4, "kind = \"incast\"\nbytes = 1000\ncopies = 3\nspread = \"1ms\"", &[]);
    let mut starts: Vec<Picos> = input.flows.iter().map(|flow| flow.start).collect();
    starts.dedup();
    assert_eq!(starts.len(), 9);
    for host in 1..4 {
        assert_eq!(input.flows.iter().filter(|flow| (flow.source, flow.destination) == (host, 0)).count(), 3);
    }
}

#[test]
fn flows_are_repeated_after_their_acknowledgement() {
    let input = star(2, "kind = \"pairs\"\npairs = [[1, 0]]\nbytes = 3000\nrepeat = 3\ngap = \"1us\"", &[]);
    let starts: Vec<Picos> = by_flow(&run(&input)).iter().map(|done| done.start).collect();
    let round = one_way(3_000) + ACK + 1_000_000;
    assert_eq!(starts, [0, round, 2 * round]);
}

/// All hosts of a ring send at the same times, and no two flows share a link: each of the 2 (n - 1) steps takes the time from the
/// first byte of a part to its receipt, and the sum of it.
#[test]
fn a_ring_takes_the_time_of_its_steps() {
    for hosts in [2u64, 5, 16] {
        let part = 20_500;
        let ring = format!("kind = \"all-reduce\"\nalgorithm = \"ring\"\nbytes = {}\ncompute = \"2us\"", hosts * part);
        let input = star(hosts as u32, &ring, &[]);
        let totals = run(&input);
        let steps = 2 * (hosts - 1);
        assert_eq!(totals.completions.len() as u64, hosts * steps);
        let last = totals.completions.iter().map(|done| done.start + done.time).max().unwrap();
        assert_eq!(last, steps * one_way(part) + (steps - 1) * 2_000_000 + ACK, "{hosts} hosts");
    }
}

/// A host begins the next all-reduce of a ring when it has received the last part and its own last part is acknowledged. No host waits for
/// another, so that each takes as long as the first.
#[test]
fn a_ring_is_repeated_after_its_last_acknowledgement() {
    let (hosts, part, gap) = (4u64, 20_500, 9_000_000);
    let ring = format!(
        "kind = \"all-reduce\"\nalgorithm = \"ring\"\nbytes = {}\ncompute = \"2us\"\nstart = \"5us\"\nrepeat = 3\ngap = \"9us\"",
        hosts * part
    );
    let totals = run(&star(hosts as u32, &ring, &[]));
    assert_eq!(totals.completions.len() as u64, 3 * hosts * 2 * (hosts - 1));
    let steps = 2 * (hosts - 1);
    let once = steps * one_way(part) + (steps - 1) * 2_000_000 + ACK;
    let starts: Vec<Picos> = by_flow(&totals).iter().map(|done| done.start).collect();
    for round in 0..3 {
        let begins = starts.iter().filter(|&&start| start == 5_000_000 + round * (once + gap)).count() as u64;
        assert_eq!(begins, hosts, "round {round}: {starts:?}");
    }
    assert_eq!(
        totals.completions.iter().map(|done| done.start + done.time).max(),
        Some(5_000_000 + 3 * once + 2 * gap)
    );
}

/// Trees and exchanges are repeated too, each flow after what its host has waited for, and all bytes arrive.
#[test]
fn trees_and_exchanges_are_repeated() {
    for (workload, once) in [
        ("kind = \"all-reduce\"\nalgorithm = \"tree\"\nbytes = 50000\nchunks = 3", 2 * 5 * 3),
        ("kind = \"all-to-all\"\nbytes = 8000\nat_once = 2", 6 * 5),
    ] {
        let first_of = |repeat: u64| {
            let input = star(6, &format!("{workload}\nrepeat = {repeat}\ngap = \"1ms\""), &[]);
            let totals = run(&input);
            assert_eq!(totals.completions.len() as u64, once * repeat);
            totals.end
        };
        let (one, four) = (first_of(1), first_of(4));
        assert!((4 * one + 3_000_000_000 - one / 2..=4 * one + 3_000_000_000).contains(&four), "{one} and {four}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.toml");
    let text = "[topology]\nkind = \"star\"\nhosts = 256\nrate = \"100Gb/s\"\ndelay = \"1us\"\n[algorithm]\nname = \"pfc\"\n\
                [[workload]]\nkind = \"all-to-all\"\nbytes = 1\nat_once = 255\nrepeat = 2\n";
    fs::write(&path, text).unwrap();
    let error = hil_sim::read(&path, None).err().unwrap().to_string();
    assert!(
        error.starts_with("flows wait for 33292800 milestones between collectives") && error.contains(":8:1"),
        "{error}"
    );
}

/// A tree of three hosts: both others send to the root at the same time, which has the last byte when its link has carried both;
/// then it sends to both, which share its link.
#[test]
fn a_tree_reduces_and_then_broadcasts() {
    let tree = "kind = \"all-reduce\"\nalgorithm = \"tree\"\nbytes = 50000\ncompute = \"2us\"";
    let input = star(3, tree, &[]);
    let done = by_flow(&run(&input));
    let ends: Vec<_> = input.flows.iter().map(|flow| (flow.source, flow.destination)).collect();
    assert_eq!(ends, [(1, 0), (2, 0), (0, 1), (0, 2)]);
    let both = 101 * line_time(1_000) + 2_000_000;
    assert_eq!((done[2].start, done[3].start), (both + 2_000_000, both + 2_000_000));
}

/// Two chunks of an edge follow each other without a gap, as messages of one queue pair do.
#[test]
fn chunks_of_an_edge_follow_each_other() {
    let tree = "kind = \"all-reduce\"\nalgorithm = \"tree\"\nbytes = 50000\nchunks = 2";
    let done = by_flow(&run(&star(2, tree, &[])));
    let starts: Vec<Picos> = done.iter().map(|done| done.start).collect();
    let half = 25 * line_time(1_000);
    // The first chunk up, and then, in the order of chunks: the first one down, the second one up, and that one down.
    assert_eq!(starts[..3], [0, one_way(25_000), half]);
    // The second chunk shares its links with acknowledgements of the first one down, at most one for each packet and link.
    let least = half + one_way(25_000);
    assert!((least..=least + 2 * 25 * line_time(4)).contains(&starts[3]), "{starts:?}");
}

/// Rounds of an exchange, in which all hosts send at line rate: the next round begins with the acknowledgement of the one before,
/// or, with all at once, at the beginning.
#[test]
fn an_all_to_all_has_so_many_rounds_at_once() {
    let starts = |at_once: u32| {
        let exchange = format!("kind = \"all-to-all\"\nbytes = 8000\nat_once = {at_once}");
        let done = by_flow(&run(&star(4, &exchange, &[])));
        done.iter().map(|done| done.start).collect::<Vec<Picos>>()
    };
    assert_eq!(starts(3), [0; 12]);
    let one = starts(1);
    assert_eq!(one[..4], [0; 4]);
    // Acknowledgements pass between the packets of the other direction and may wait for one of them, at two ports.
    let round = one_way(8_000) + ACK;
    assert!(one[4..8].iter().all(|&start| (round..=round + 2 * line_time(1_000)).contains(&start)), "{one:?}");
}

/// htsim's triggers: by the end of sending, which is the acknowledgement, and by that of receiving; a barrier of two, and one that
/// starts a connection at each activation.
#[test]
fn triggers_of_htsim_start_connections() {
    let file = "Nodes 8\nConnections 7\nTriggers 3\n\
                0->1 id 1 start 1000 size 2000 send_done_trigger 1 recv_done_trigger 2\n\
                2->3 id 2 start 0 size 9000 send_done_trigger 2 recv_done_trigger 3\n\
                4->5 id 3 trigger 1 size 1000 recv_done_trigger 3\n\
                1->0 id 4 trigger 2 size 1000\n\
                5->4 id 5 trigger 2 size 1000\n\
                6->7 id 6 trigger 3 size 1000\n\
                7->6 id 7 trigger 3 size 1000\n\
                trigger id 1 oneshot\ntrigger id 2 barrier count 2\n# the last\ntrigger id 3 multishot\n";
    let input = star(8, "kind = \"htsim\"\nfile = \"a.cm\"", &[("a.cm", file)]);
    let done = by_flow(&run(&input));
    let start = |source: u32| {
        let flow = input.flows.iter().position(|flow| flow.source == source).unwrap();
        done[flow].start
    };
    let oneshot = 1_000 + one_way(2_000) + ACK;
    assert_eq!(start(4), oneshot);
    let barrier = one_way(9_000) + ACK;
    assert_eq!((start(1), start(5)), (barrier, barrier));
    // Connection 2 is received before connection 3.
    assert_eq!((start(6), start(7)), (one_way(9_000), oneshot + one_way(1_000)));
}

/// Without a queue anywhere, the last packet leaves when its payload is offered, and is acknowledged one packet's way and an
/// acknowledgement's way later. Offers are of payload: 10,500 bytes at 8 Gb/s take 10.5 us.
#[test]
fn a_flow_whose_application_offers_bytes_slowly_takes_the_time_of_the_application() {
    let one_flow = "kind = \"pairs\"\npairs = [[1, 0]]\nbytes = 10500\napplication_rate = \"8Gb/s\"";
    for (keys, offered) in [("", 10_500_000), ("\non = \"4us\"\noff = \"50us\"", 10_500_000 + 2 * 50_000_000)] {
        let totals = run(&star(2, &format!("{one_flow}{keys}\nstart = \"7us\""), &[]));
        let [done] = totals.completions[..] else { panic!("{:?}", totals.completions) };
        assert_eq!((done.start, done.time), (7_000_000, offered + one_way(500) + ACK), "{keys}");
    }
    // A packet of 1,000 bytes is offered in the third of three periods of 400 bytes each, and nothing progresses for 200 ms.
    let slow = "kind = \"pairs\"\npairs = [[1, 0]]\nbytes = 1000\napplication_rate = \"8Gb/s\"\non = \"400ns\"\noff = \"100ms\"";
    let totals = run(&star(2, slow, &[]));
    assert_eq!(totals.completions[0].time, 1_000_000 + 200_000_000_000 + one_way(1_000) + ACK);
    // What is to be sent again was offered before.
    let lossy = format!("{one_flow}\n[[faults]]\nkind = \"loss\"\npackets = [\"data\"]\nnth = 2\n");
    let totals = run(&star(2, &lossy, &[]));
    assert_eq!((totals.sent_again > 0, totals.completions.len()), (true, 1));
}

/// A flow at line rate that stops after 100 us has begun a packet each 86,560 ps, 1,156 in all, and is complete when the last one is
/// acknowledged. One that has sent its bytes before is not changed. What was lost is sent again after the stop.
#[test]
fn a_flow_that_stops_is_complete_with_what_it_has_sent() {
    let stopped_of = |algorithm: &str, keys: &str| {
        let flow = format!("kind = \"pairs\"\npairs = [[1, 0]]\nstop = \"100us\"\n{keys}");
        let totals = run(&star_of(algorithm, 2, &flow, &[]));
        let [done] = totals.completions[..] else { panic!("{:?}", totals.completions) };
        (done.bytes, done.time, totals)
    };
    let stopped = |keys: &str| stopped_of("pfc", keys);
    let (bytes, time, totals) = stopped("");
    assert_eq!((bytes, time), (1_156_000, 1_155 * line_time(1_000) + one_way(1_000) + ACK));
    assert_eq!(totals.injected, 2 * 1_156);
    let (bytes, time, _) = stopped("bytes = 10500");
    assert_eq!((bytes, time), (10_500, one_way(10_500) + ACK));
    // Of DCQCN the transport acknowledges. No acknowledgement of the last packets is requested until they are sent again after a timeout.
    let (bytes, time, totals) = stopped_of("dcqcn", "[transport]\nack_interval = 1000\ntimeout = \"200us\"");
    assert_eq!((bytes, totals.timeouts), (1_156_000, 1));
    assert_eq!(time, 300_000_000 + one_way(1_000) + ACK);
    for recovery in ["go-back-n", "selective-repeat"] {
        let loss = "[[faults]]\nkind = \"loss\"\nprobability = 0.05\n[transport]\ntimeout = \"50us\"\nrecovery";
        let (bytes, _, totals) = stopped(&format!("{loss} = \"{recovery}\""));
        assert!(bytes > 0 && bytes <= 1_156_000 && totals.lost > 20, "{recovery}: {bytes}, {totals:?}");
    }
    // The connection opens after the stop: two frames of the handshake take more than 4 us.
    let handshake = "kind = \"pairs\"\npairs = [[1, 0]]\nstop = \"2us\"\n[transport]\nhandshake = true";
    let totals = run(&star(2, handshake, &[]));
    assert_eq!(totals.completions[0].bytes, 0);
}

#[test]
fn an_application_that_is_not_described_whole_is_refused_with_its_place() {
    for (keys, expected) in [
        ("on = \"1ms\"\noff = \"1ms\"", "expected `application_rate`, at which applications offer bytes"),
        ("application_rate = \"1Gb/s\"\non = \"1ms\"", "expected both `on` and `off`"),
        ("application_rate = \"1Gb/s\"\non = \"0s\"\noff = \"1ms\"", "`on`: expected a time above 0"),
        ("application_rate = 5", "`application_rate`: expected"),
        ("stop = \"1us\"\nrepeat = 2", "`stop` ends each flow for good: expected no `repeat`"),
        ("stop = \"1us\"\nread = true", "`stop` ends each flow for good"),
        ("stop = \"1us\"\nstart = \"1us\"", "a flow begins at 1 us: expected a later `stop`"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scenario.toml");
        let text = format!(
            "[topology]\nkind = \"star\"\nhosts = 2\nrate = \"100Gb/s\"\ndelay = \"1us\"\n[algorithm]\nname = \"pfc\"\n\
             [[workload]]\nkind = \"next\"\nbytes = 1\n{keys}\n"
        );
        fs::write(&path, text).unwrap();
        let error = hil_sim::read(&path, None).err().map(|error| format!("{error:#}")).unwrap_or_default();
        assert!(error.contains(expected) && error.contains("scenario.toml:"), "{keys}: {error}");
    }
}

/// On 256 hosts all flows of a collective complete, and their bytes add up. In an all-reduce, 255 of 256 parts of a ring leave each
/// host twice, and all bytes go up and down each of the 255 edges of a tree.
#[test]
fn collectives_of_256_hosts_complete_and_their_bytes_add_up() {
    for (workload, flows, bytes) in [
        ("kind = \"all-reduce\"\nalgorithm = \"ring\"\nbytes = 256000", 2 * 255 * 256, 2 * 255 * 256_000),
        ("kind = \"all-reduce\"\nalgorithm = \"tree\"\nbytes = 16000\nchunks = 16", 2 * 255 * 16, 2 * 255 * 16_000),
        ("kind = \"all-to-all\"\nbytes = 1000", 255 * 256, 255 * 256_000),
    ] {
        let input = star(256, workload, &[]);
        let totals = input.scenario().run().unwrap();
        let of_flows: u64 = totals.completions.iter().map(|done| input.flows[done.flow as usize].bytes).sum();
        assert_eq!((totals.completions.len(), of_flows), (flows, bytes), "{workload}");
        // Packets of 1,000 bytes and their acknowledgements, over two links each.
        let packets = bytes / 1_000;
        assert_eq!((totals.injected, totals.delivered), (2 * packets, 2 * packets), "{workload}");
        assert_eq!((totals.packet_hops, totals.dropped), (4 * packets, 0), "{workload}");
    }
}
