//! RDMA READs: what is on the wire, how long they take, and what is requested again after a loss.

use cc_core::Psn;
use cc_core::wire::{Icrc, Reth, Roce, opcode};
use hil_capture::crc::HostCrc;
use hil_sim::Picos;
use hil_sim::fabric::{Examples, Network, Obstacle, Origin, Scenario, Totals};
use hil_sim::input::Input;
use std::fs;

/// A star of links of 100 Gb/s and 1 us.
fn read(hosts: u32, algorithm: &str, workload: &str) -> anyhow::Result<Input> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("scenario.toml");
    let text = format!(
        "[topology]\nkind = \"star\"\nhosts = {hosts}\nrate = \"100Gb/s\"\ndelay = \"1us\"\n[algorithm]\n\
         name = \"{algorithm}\"\n[[workload]]\nread = true\n{workload}\n"
    );
    fs::write(&path, text)?;
    hil_sim::read(&path, None)
}

/// Host 0 reads so many bytes of host 1.
fn one(bytes: u64, more: &str) -> Input {
    read(2, "pfc", &format!("kind = \"pairs\"\npairs = [[1, 0]]\nbytes = {bytes}\n{more}")).unwrap()
}

/// A frame at a host: when, whether the host sends it, and its headers.
struct Seen {
    at: Picos,
    sent: bool,
    opcode: u8,
    psn: Psn,
    ack_request: bool,
    reth: Option<Reth>,
    msn: Option<u32>,
    payload: usize,
}

/// A run, and the frames at a host. All frames are checked on the way, and in another order of adding events the run is the same.
fn run(input: &Input, host: u32) -> (Totals, Vec<Seen>) {
    let scenario = input.scenario();
    let examples = Examples::new(&scenario).unwrap();
    let mut all = Vec::new();
    let tap = |at, origin, frame: &[u8]| {
        let roce = Roce::of(frame).unwrap();
        assert_eq!(roce.icrc::<HostCrc>(), Icrc::Valid);
        all.push(Seen {
            at,
            sent: origin == Origin::Sent,
            opcode: roce.bth.opcode,
            psn: roce.bth.psn,
            ack_request: roce.bth.ack_request,
            reth: roce.reth(),
            msn: roce.aeth().map(|aeth| aeth.msn),
            payload: roce.payload_len,
        });
        Ok(())
    };
    let mut network = Network::new(&scenario, &examples).unwrap();
    network.tap(host, tap);
    network.check_frames();
    while network.advance(1 << 20).unwrap() {}
    let totals = network.finish().unwrap();
    for seed in 1..4 {
        let shuffled = Scenario { shuffle: Some(seed), ..input.scenario() }.run().unwrap();
        assert!(shuffled == totals, "another order of adding events changes the run");
    }
    (totals, all)
}

/// The sequence number of the first packet of flow 0.
const FIRST: Psn = Psn::new(0x00ff_ff80);

/// How long a packet with so many bytes behind the BTH, the ICRC not counted, occupies a link: headers and ICRC have 58 bytes,
/// preamble, check sequence and gap 24, and a byte takes 80 ps.
const fn line_time(bytes: u64) -> Picos {
    (bytes + 58 + 24) * 80
}

/// IBTA volume 1, section 9.4: a request of one packet with a RETH, whose sequence number is that of the first response; responses of
/// which the first and the last have an AETH; no acknowledgement. The READ is complete when the request, with 16 bytes of RETH, and
/// then all responses, of which two have 4 bytes of AETH, have passed two links.
#[test]
fn a_read_is_a_request_and_responses_without_acknowledgements() {
    let input = one(10_500, "start = \"7us\"");
    let (totals, seen) = run(&input, 0);
    let [request, responses @ ..] = &seen[..] else { panic!("nothing seen") };
    assert_eq!((request.at, request.sent, request.opcode, request.psn), (7_000_000, true, 0x0c, FIRST));
    assert_eq!(request.reth, Some(Reth { address: 0, key: 0, len: 10_500 }));
    let opcodes: Vec<u8> = responses.iter().map(|seen| seen.opcode).collect();
    assert_eq!(opcodes, [&[0x0d][..], &[0x0e; 9], &[0x0f]].concat());
    let msns: Vec<Option<u32>> = responses.iter().map(|seen| seen.msn).collect();
    assert_eq!(msns, [&[Some(1)][..], &[None; 9], &[Some(1)]].concat());
    for (number, response) in (0..).zip(responses) {
        assert!(!response.sent && !response.ack_request && response.psn == FIRST.plus(number));
        assert_eq!(response.payload, if number < 10 { 1_000 } else { 500 });
    }
    let there = 2 * line_time(16) + 2_000_000;
    let back = line_time(1_004) + line_time(1_004) + 9 * line_time(1_000) + line_time(504) + 2_000_000;
    let [done] = totals.completions[..] else { panic!("{totals:?}") };
    assert_eq!((done.start, done.time), (7_000_000, there + back));
    assert_eq!((totals.injected, totals.delivered), (12, 12));
    // A response of one packet.
    let (_, seen) = run(&one(1, ""), 0);
    let shown: Vec<_> = seen.iter().map(|seen| (seen.opcode, seen.msn, seen.payload)).collect();
    assert_eq!(shown, [(opcode::READ_REQUEST, None, 0), (opcode::READ_RESPONSE_ONLY, Some(1), 1)]);
}

/// The receiver requests again from the first packet on that it does not have: at once if a later one arrives, and after the
/// retransmission timeout (4.19 ms) if none does. The responses of each request begin with a "first".
#[test]
fn what_is_missing_is_requested_again() {
    let fault = |kind, keys: &str| format!("[[faults]]\nkind = \"{kind}\"\n{keys}\n");
    for (keys, missing, timeouts) in [
        ("packets = \"data\"\nnth = 1", 0, 0),
        ("packets = \"data\"\nnth = 8", 7, 0),
        ("packets = \"data\"\nnth = \"last\"", 19, 1),
        ("packets = \"read_request\"\nnth = 1", 0, 1),
    ] {
        for recovery in ["go-back-n", "selective-repeat"] {
            // A packet counts on each link that it passes: on the first one here.
            let faults = fault("loss", &format!("{keys}\nleaving = [0, 1]"));
            let input = one(20_000, &format!("{faults}[transport]\nrecovery = \"{recovery}\""));
            let (totals, seen) = run(&input, 0);
            assert_eq!((totals.completions.len(), totals.timeouts, totals.lost), (1, timeouts, 1), "{keys}");
            let requests: Vec<&Seen> = seen.iter().filter(|seen| seen.sent).collect();
            let [_, again] = requests[..] else { panic!("{keys}: {} requests", requests.len()) };
            let (offset, len) = (u64::from(missing) * 1_000, 20_000 - missing * 1_000);
            assert_eq!(again.psn, FIRST.plus(missing), "{keys}");
            assert_eq!(again.reth, Some(Reth { address: offset, key: 0, len }), "{keys}");
            let expected = if missing == 19 { opcode::READ_RESPONSE_ONLY } else { opcode::READ_RESPONSE_FIRST };
            let response = seen.iter().find(|seen| !seen.sent && seen.at > again.at && seen.psn == again.psn);
            assert_eq!(response.map(|seen| seen.opcode), Some(expected), "{keys}");
        }
    }
    // A frame that arrives twice is requested once.
    for packets in ["data", "read_request"] {
        let input = one(20_000, &fault("duplication", &format!("packets = \"{packets}\"")));
        let (totals, seen) = run(&input, 0);
        let requests = seen.iter().filter(|seen| seen.sent).count();
        assert_eq!((totals.completions.len(), totals.timeouts, requests), (1, 0, 1), "{packets}");
    }
}

/// Sixteen READs of each of eight hosts, one after the other, over links that lose one frame in 50: all bytes arrive.
#[test]
fn reads_over_lossy_links_complete() {
    for algorithm in ["pfc", "dcqcn", "dcqcn_plus", "dcqcn_tcd"] {
        let reads = "kind = \"next\"\nbytes = 100500\nrepeat = 16\n[[faults]]\nkind = \"loss\"\nprobability = 0.02\n\
                     [transport]\ntimeout = \"100us\"";
        let (totals, _) = run(&read(8, algorithm, reads).unwrap(), 0);
        assert_eq!(totals.completions.len(), 8 * 16, "{algorithm}");
        assert!(totals.lost > 1_000 && totals.sent_again > 0, "{algorithm}: {totals:?}");
    }
}

/// Four hosts are read at once by a fifth: the marks of the switch cause CNPs from the host that reads to those that respond, whose
/// NICs lower their rates.
#[test]
fn the_hosts_that_respond_are_notified_and_slow_down() {
    let incast = "kind = \"incast\"\nbytes = \"2MB\"\n[[stages]]\nname = \"red\"\nkmin = \"100kB\"\nkmax = \"400kB\"";
    let input = read(5, "dcqcn", incast).unwrap();
    let (totals, seen) = run(&input, 1);
    assert_eq!(totals.completions.len(), 4);
    assert!(totals.marks > 0 && totals.nic_cnps > 0 && totals.cuts > 0, "{totals:?}");
    assert!(totals.end >= 4 * 2_000 * line_time(1_000));
    assert!(seen.iter().any(|seen| !seen.sent && seen.opcode == opcode::CNP), "no CNP at a host that responds");
    assert!(seen.iter().all(|seen| !seen.sent || seen.opcode != opcode::CNP), "a CNP of a host that responds");
    let (_, seen) = run(&input, 0);
    assert!(seen.iter().all(|seen| seen.sent || seen.opcode != opcode::CNP), "a CNP to the host that reads");
}

/// A request that never arrives ends the run, and the report names the loss and the next request.
#[test]
fn a_read_whose_request_never_arrives_is_reported() {
    let input = one(20_000, "[[faults]]\nkind = \"loss\"\npackets = \"read_request\"");
    let totals = input.scenario().run().unwrap();
    let stall = totals.stall.unwrap();
    let [blocked] = stall.flows[..] else { panic!("{stall:?}") };
    assert_eq!(blocked.psn, FIRST);
    assert!(matches!(blocked.obstacle, Obstacle::Lost { again: Some(_), last: Some(_) }), "{blocked}");
}

#[test]
fn what_cannot_be_a_read_is_refused_with_its_place() {
    for (algorithm, keys, expected) in [
        ("hpcc", "bytes = 1000", "responses to a READ are not acknowledged, but hpcc reacts to acknowledgements"),
        ("rcc", "bytes = 1000", "responses to a READ are not acknowledged, but rcc reacts to acknowledgements"),
        ("dcqcn", "bytes = 1000\nrequest = 16", "expected either `read` or `request`"),
        ("dcqcn", "bytes = 1000\nthink = \"1us\"", "expected `request` too"),
        ("dcqcn", "bytes = 1000\napplication_rate = \"1Gb/s\"", "expected no `application_rate`"),
        ("dcqcn", "bytes = 2147483649", "expected at most 2^31 bytes"),
        ("dcqcn", "bytes = 1000\n[transport]\nhandshake = true", "expected a transport without it"),
    ] {
        let error = read(2, algorithm, &format!("kind = \"next\"\n{keys}")).err().unwrap();
        let error = format!("{error:#}");
        assert!(error.contains(expected) && error.contains("scenario.toml:8"), "{keys}: {error}");
    }
}
