//! `hil replay` on captures with the faults of real networks and capture programs: each test has one kind of fault, and a
//! healthy capture of the same kind, which has no findings.

mod frames;

use anyhow::Result;
use cc_core::table::Handle;
use cc_core::wire::shim;
use cc_core::wire::{Nak, Syndrome, cm};
use cc_core::{Ecn, Hop};
use cc_core::{Psn, Qpn};
use frames::*;
use hil_algorithms::settings::{Request, ResolvedSettings};
use hil_algorithms::{NicCounters, NicSize, algorithm};
use hil_capture::Reader;
use hil_cores::board::{Pace, board};
use hil_cores::firmware;
use hil_devices::boot;
use hil_devices::device::{Decisions, Device, Difference};
use hil_devices::event::NicEvent;
use hil_devices::lockstep::Lockstep;
use hil_devices::native::Native;
use hil_replay::decode::{Buffers, decode};
use hil_replay::replayer::{NicFilter, Replayer};
use hil_replay::survey::{Reading, Surveyor};
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A capture in a separate temporary folder.
struct Capture {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Capture {
    fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        fs::write(&path, bytes).unwrap();
        Self { folder, path }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let path = self.path.to_str().unwrap();
        hil(&[&["replay", path], arguments].concat())
    }

    fn report(&self, arguments: &[&str]) -> Report {
        let output = self.run(&[&["--format", "json"], arguments].concat());
        assert!(!output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        Report(serde_json::from_slice(&output.stdout).unwrap())
    }
}

fn hil(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hil")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn report(records: &[Record]) -> Report {
    Capture::new(&pcap(records)).report(&[])
}

struct Report(Value);

impl Report {
    /// The number at a path of keys with dots between.
    fn number(&self, path: &str) -> u64 {
        let value = path.split('.').fold(&self.0, |value, key| match key.parse::<usize>() {
            Ok(index) if value.is_array() => &value[index],
            _ => &value[key],
        });
        value.as_u64().unwrap_or_else(|| panic!("{path} is {value}"))
    }

    fn findings(&self) -> String {
        let findings = self.0["findings"].as_array().unwrap();
        findings.iter().map(|finding| finding.as_str().unwrap()).collect::<Vec<_>>().join("\n")
    }

    /// Checks that there is exactly one finding, which contains these words.
    fn finds(&self, words: &[&str]) {
        let findings = self.findings();
        for word in words {
            assert!(findings.contains(word), "{word} in: {findings}");
        }
    }

    fn is_healthy(&self) {
        assert_eq!(self.findings(), "");
    }

    /// The lowest rate of a flow in bits per second.
    fn lowest(&self, flow: usize) -> u64 {
        let points = self.0["rates"][flow]["points"].as_array().unwrap();
        points.iter().map(|point| point[1].as_u64().unwrap()).min().unwrap()
    }
}

const LINE: u64 = 100_000_000_000;

/// One packet from A to B and its acknowledgement: A's queue pair is 0x11, B's 0x22.
fn bound() -> Vec<Record> {
    vec![at(0, write(A, B, 0x22, 100)), at(5 * US, ack(B, A, 0x11, 100))]
}

fn with(mut records: Vec<Record>, more: impl IntoIterator<Item = Record>) -> Vec<Record> {
    records.extend(more);
    records
}

// ------------------------------------------------------------------------------------------------ pairs of queue pairs

#[test]
fn a_read_joins_the_queue_pairs_of_its_request_and_its_response() {
    let reads = |qp, peer, psn, start| {
        let size = [READ_FIRST, READ_MIDDLE, READ_LAST];
        let responses = (0..3).map(move |nth| {
            let response = frames::Packet::new(B, A, size[nth as usize], qp, psn + nth).size(256).ce();
            at(start + (5 + u64::from(nth)) * US, response)
        });
        with(vec![at(start, read(A, B, peer, psn, 768))], responses)
    };
    let one = report(&with(reads(0x11, 0x22, 500, 0), [at(20 * US, cnp(A, B, 0x22))]));
    assert_eq!((one.number("flows.bound"), one.number("rates.0.qpn"), one.number("rp.rp_cnp_handled")), (1, 0x22, 1));
    one.is_healthy();
    let mut two = with(reads(0x11, 0x22, 500, 0), reads(0x12, 0x23, 900, 100));
    two.sort_by_key(|record| record.time);
    assert_eq!(report(&two).number("flows.bound"), 2);
    // With equal PSNs each response fits both requests, so no pair can be joined.
    let mut crossed = with(reads(0x11, 0x22, 500, 0), reads(0x12, 0x23, 500, 100));
    crossed.sort_by_key(|record| record.time);
    let crossed = report(&with(crossed, [at(20 * US, cnp(A, B, 0x22)), at(21 * US, cnp(A, B, 0x23))]));
    assert_eq!(crossed.number("flows.bound"), 0);
    crossed.finds(&["cannot be known", "2 CNPs", "--pairs"]);
}

#[test]
fn the_only_flow_and_the_only_queue_pair_that_cnps_go_to_are_one_connection() {
    for opcode in [WRITE_ONLY, UC_SEND_ONLY] {
        let data = (0..4).map(|nth| at(nth * US, frames::Packet::new(A, B, opcode, 0x22, 700 + nth as u32).ce()));
        let report = report(&with(data.collect(), [at(9 * US, cnp(B, A, 0x11))]));
        assert_eq!((report.number("flows.bound"), report.number("rates.0.qpn")), (1, 0x11));
        assert_eq!(report.number("rp.rp_cnp_handled"), 1);
        report.is_healthy();
    }
    // Two flows, and CNPs for one of them.
    let data = (0..4_u32).map(|nth| at(u64::from(nth) * US, write(A, B, 0x22 + nth % 2, 700 + nth).ce()));
    let two = report(&with(data.collect(), [at(9 * US, cnp(B, A, 0x11))]));
    assert_eq!((two.number("flows.bound"), two.number("rp.rp_cnp_handled")), (0, 0));
    two.finds(&["cannot be known", "1 CNPs"]);
}

#[test]
fn a_capture_of_one_direction_cannot_show_whether_senders_react() {
    let data: Vec<_> = (0..4_u32).map(|nth| at(u64::from(nth) * US, write(A, B, 0x22, 700 + nth).ce())).collect();
    report(&data).finds(&["cannot be known", "no packet from 192.0.2.2", "one direction"]);
    // With the other direction, the capture shows that no CNP came.
    let both = report(&with(data, [at(9 * US, ack(B, A, 0x11, 703))]));
    both.finds(&["and no reaction"]);
}

/// Two flows of equal PSNs, acknowledged and notified.
fn crosswise() -> Vec<Record> {
    let data = (0..8_u32).map(|nth| at(u64::from(nth) * 100, write(A, B, 0x22 + nth % 2, 100 + nth / 2).ce()));
    let back = (0..2_u32).map(|nth| at((5 + u64::from(nth)) * US, ack(B, A, 0x11 + nth, 103)));
    let cnps = (0..2_u32).map(|nth| at((8 + u64::from(nth)) * US, cnp(B, A, 0x11 + nth)));
    data.chain(back).chain(cnps).collect()
}

#[test]
fn a_file_of_pairs_in_either_form_joins_flows_of_equal_psns() {
    let capture = Capture::new(&pcap(&crosswise()));
    let unknown = capture.report(&[]);
    assert_eq!((unknown.number("flows.bound"), unknown.number("flows.ambiguous")), (0, 2));
    unknown.finds(&["cannot be known", "--pairs"]);
    let file = capture.folder.path().join("pairs");
    for (pairs, first) in [
        ("# address QP address QP\n192.0.2.1 0x11 192.0.2.2 0x22\n192.0.2.1 18 192.0.2.2 35\n", 0x11),
        ("192.0.2.2 0x22 192.0.2.1 0x12\n192.0.2.1 0x11 192.0.2.2 0x23\n", 0x12),
        ("link mlx5_0/1 lqpn 17 rqpn 34 type RC state RTS\nlink mlx5_0/1 lqpn 18 rqpn 35 type RC state RTS\n", 0x11),
        ("address 192.0.2.2\nlink a/1 lqpn 34 rqpn 18 type RC\nlink a/1 lqpn 35 rqpn 17 type RC\n", 0x12),
        // Lines as Windows ends them, comments, a line twice and its other direction.
        (
            "\u{feff}# pairs\r\n\r\n192.0.2.1\t0x11 192.0.2.2  34 # first\r\n192.0.2.1 17 192.0.2.2 0x22\r\n\
          192.0.2.2 34 192.0.2.1 17\r\n192.0.2.1 18 192.0.2.2 35",
            0x11,
        ),
    ] {
        fs::write(&file, pairs).unwrap();
        let joined = capture.report(&["--pairs", file.to_str().unwrap()]);
        assert_eq!((joined.number("flows.bound"), joined.number("rp.rp_cnp_handled")), (2, 2), "{pairs}");
        assert_eq!(joined.number("rates.0.qpn"), first, "{pairs}");
        joined.is_healthy();
    }
    fs::write(&file, "198.51.100.1 17 198.51.100.2 34\n").unwrap();
    let others = capture.report(&["--pairs", file.to_str().unwrap()]);
    assert_eq!(others.number("flows.bound"), 0);
    others.finds(&["none of the connections of --pairs", "check its addresses"]);
    let refusals: [(&[u8], &str); 4] = [
        (b"192.0.2.1 17 192.0.2.2\n", "line 1: expected `address QP address QP`"),
        (b"192.0.2.1 17 192.0.2.2 16777216\n", "line 1: expected a queue pair number below 2^24"),
        (b"# nothing\nlink mlx5_0/1 lqpn 1 type GSI state RTS\n", "no connection: expected a line `address QP"),
        (b"\xff\xfe1\0", "expected text in UTF-8"),
    ];
    for (pairs, expected) in refusals {
        fs::write(&file, pairs).unwrap();
        let refused = capture.run(&["--pairs", file.to_str().unwrap()]);
        assert_eq!(refused.status.code(), Some(1));
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn pairs_are_read_from_standard_input_unless_it_is_the_capture() {
    let capture = Capture::new(&pcap(&crosswise()));
    let replay = |trace: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hil"))
            .args(["replay", trace, "--pairs", "-", "--format", "json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The program that refuses its input does not read it.
        let _ = child.stdin.take().unwrap().write_all(b"192.0.2.1 17 192.0.2.2 34\n");
        child.wait_with_output().unwrap()
    };
    let joined = Report(serde_json::from_slice(&replay(capture.path.to_str().unwrap()).stdout).unwrap());
    assert_eq!(joined.number("flows.bound"), 2);
    let refused = replay("-");
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("give the file of one of them"));
}

#[test]
fn a_few_wrong_acknowledgements_do_not_bind_a_flow() {
    for odd in [vec![0], vec![2, 3], vec![5]] {
        let mut records = Vec::new();
        for nth in 0..6_u32 {
            let time = u64::from(nth) * 10 * US;
            records.push(at(time, write(A, B, 0x22, 100 + nth).ce()));
            if odd.contains(&nth) {
                records.push(at(time + US, ack(B, A, 0x99, 100 + nth)));
            }
            records.push(at(time + 5 * US, ack(B, A, 0x11, 100 + nth)));
        }
        records.push(at(80 * US, cnp(B, A, 0x11)));
        let report = report(&records);
        assert_eq!((report.number("rates.0.qpn"), report.number("rp.rp_cnp_handled")), (0x11, 1), "{odd:?}");
        report.is_healthy();
    }
}

#[test]
fn a_pair_joined_by_a_late_acknowledgement_is_known_from_the_first_frame_on() {
    // The CNP comes long before the acknowledgement that joins the pair.
    let records = [at(0, write(A, B, 0x22, 100).ce()), at(3 * US, cnp(B, A, 0x11)), at(9 * US, ack(B, A, 0x11, 100))];
    assert_eq!(report(&records).number("rp.rp_cnp_handled"), 1);
    // The same from a pipe.
    let mut child = Command::new(env!("CARGO_BIN_EXE_hil"))
        .args(["replay", "-", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&pcap(&records)).unwrap();
    let output = child.wait_with_output().unwrap();
    let piped = Report(serde_json::from_slice(&output.stdout).unwrap());
    assert_eq!(piped.number("rp.rp_cnp_handled"), 1);
}

// ------------------------------------------------------------------------------------------------ snap lengths

#[test]
fn a_snap_length_that_keeps_the_bth_is_enough() {
    // Ethernet 14, IPv4 20, UDP 8, BTH 12.
    for kept in 54..=78 {
        let records = with(
            bound(),
            [
                at(10 * US, write(A, B, 0x22, 101).ce()).cut(kept),
                at(11 * US, write(A, B, 0x22, 102).ce()).cut(kept),
                at(15 * US, cnp(B, A, 0x11)).cut(kept),
            ],
        );
        let report = report(&records);
        assert_eq!((report.number("frames.unparsed"), report.number("frames.by_opcode.0x81")), (0, 1), "{kept}");
        assert_eq!(report.number("np.np_ecn_marked_roce_packets"), 2, "{kept}");
        assert_eq!((report.number("rp.rp_cnp_handled"), report.number("cnps.captured")), (1, 1), "{kept}");
        assert_eq!(report.number("icrc.unchecked"), if kept < 74 { 3 } else { 2 }, "{kept}");
        report.is_healthy();
    }
    // Up to the end of the BTH, every frame of a tunnel or VLAN counts.
    type Wrap = fn(&[u8]) -> Vec<u8>;
    let wraps: [(Wrap, usize); 3] = [
        (|frame| [&frame[..12], &[0x81, 0, 0, 7], &frame[12..]].concat(), 4),
        (|frame| in_udp(4789, 0, &[&[8, 0, 0, 0, 0, 0, 7, 0][..], frame].concat()), 50),
        (|frame| in_ip(47, 0, &[&[0x20, 0, 0x65, 0x58, 0, 0, 7, 0][..], frame].concat()), 42),
    ];
    for (wrap, more) in wraps {
        for kept in (52..=90).map(|kept| kept + more) {
            let frames = notified().into_iter().map(|record| at(record.time, wrap(&record.bytes)).cut(kept));
            let report = report(&frames.collect::<Vec<_>>());
            let whole = kept >= 54 + more;
            let expected = if whole { (notified().len() as u64, 3, 1) } else { (0, 0, 0) };
            let marked = report.number("np.np_ecn_marked_roce_packets");
            let found = (report.number("frames.rocev2"), marked, report.number("rp.rp_cnp_handled"));
            assert_eq!(found, expected, "{kept}, {more} of them outside");
        }
    }
    let short = report(&with(bound(), [at(10 * US, write(A, B, 0x22, 101).ce()).cut(53)]));
    assert_eq!((short.number("frames.unparsed"), short.number("frames.dropped.truncated")), (1, 1));
    // An acknowledgement without its syndrome, which is cut off, joins the pair and acknowledges nothing.
    let cut: Vec<_> = bound().into_iter().map(|record| record.cut(54)).collect();
    let cut = report(&with(cut, [at(9 * US, cnp(B, A, 0x11))]));
    assert_eq!((cut.number("flows.bound"), cut.number("rp.rp_cnp_handled")), (1, 1));
    assert_eq!(cut.0["rtt_ns"], Value::Null);
}

// ------------------------------------------------------------------------------------------------ misleading captures

/// Data with marks, and a CNP.
fn notified() -> Vec<Record> {
    let data = (0..6_u32).map(|nth| {
        let packet = write(A, B, 0x22, 101 + nth);
        at((20 + u64::from(nth) * 3) * US, if nth % 2 == 0 { packet.ce() } else { packet })
    });
    with(bound(), data.chain([at(60 * US, cnp(B, A, 0x11)), at(150 * US, write(A, B, 0x22, 107))]))
}

#[test]
fn copies_of_a_mirror_port_are_left_out_and_reported() {
    let plain = report(&notified());
    for apart in [0, 400, 3_000, 40_000] {
        let mut twice: Vec<_> = notified()
            .into_iter()
            .flat_map(|record| [record.clone(), Record { time: record.time + apart, ..record }])
            .collect();
        twice.sort_by_key(|record| record.time);
        let count = notified().len() as u64;
        let report = report(&twice);
        report.finds(&[&format!("{count} frames are copies")]);
        assert_eq!((report.number("frames.total"), report.number("frames.dropped.copy")), (2 * count, count));
        for key in ["np", "rp", "rtt_ns", "losses"] {
            assert_eq!(report.0[key], plain.0[key], "{apart}: {key}");
        }
        assert_eq!(report.lowest(0), plain.lowest(0));
    }
    let twice: Vec<_> = notified().into_iter().flat_map(|record| [record.clone(), record]).collect();
    let played = Capture::new(&pcap(&twice)).report(&["--dedup=off"]);
    assert_eq!(played.number("rp.rp_cnp_handled"), 2);
    plain.is_healthy();
}

#[test]
fn of_two_copies_around_a_marking_point_the_marked_one_is_kept() {
    let mut twice = Vec::new();
    for record in notified() {
        // The copy before the marking point: not marked, and one hop earlier.
        let mut before = record.clone();
        if before.bytes[42] == WRITE_ONLY {
            before = at(record.time, write(A, B, 0x22, u32::from(record.bytes[53])).ttl(65));
        }
        twice.extend([before, Record { time: record.time + US, ..record }]);
    }
    let report = report(&twice);
    assert_eq!((report.number("np.np_ecn_marked_roce_packets"), report.number("rp.rp_cnp_handled")), (3, 1));
    report.finds(&["10 frames are copies"]);
}

#[test]
fn packets_sent_again_are_no_copies() {
    let data = |start: u64| (0..3_u32).map(move |nth| at(start + u64::from(nth) * US, write(A, B, 0x22, 101 + nth)));
    for again in [60 * US, 600 * US] {
        let report =
            report(&with(bound(), data(20 * US).chain(data(again)).chain([at(700 * US, ack(B, A, 0x11, 103))])));
        assert_eq!((report.number("losses.retransmitted"), report.number("losses.nak_sequence")), (3, 0), "{again}");
        assert!(!report.findings().contains("copies"), "{}", report.findings());
    }
    // CNPs to one queue pair are all equal, so equal ones are no copies.
    let cnps = (0..5).map(|nth| at((50 + nth * 55) * US, cnp(B, A, 0x11)));
    let steady = report(&with(bound(), cnps));
    assert_eq!(steady.number("rp.rp_cnp_handled"), 5);
    assert!(!steady.findings().contains("copies"), "{}", steady.findings());
}

#[test]
fn round_trip_times_of_zero_are_reported() {
    let records: Vec<_> = (0..3_u32)
        .flat_map(|nth| {
            [
                at(u64::from(nth) * 10 * US, write(A, B, 0x22, 100 + nth)),
                at(u64::from(nth) * 10 * US, ack(B, A, 0x11, 100 + nth)),
            ]
        })
        .collect();
    let zero = report(&records);
    assert_eq!(zero.number("rtt_ns.count"), 3);
    assert!(zero.0["notes"][0].as_str().unwrap().contains("3 of 3 round-trip times are zero"));
    zero.is_healthy();
    let text = String::from_utf8(Capture::new(&pcap(&records)).run(&[]).stdout).unwrap();
    assert!(text.contains("RTT          none: 3 acknowledgements have the time stamps"), "{text}");
    let steady: Vec<_> = records
        .into_iter()
        .map(|record| Record { time: record.time + if record.bytes[42] == 0x11 { 5 * US } else { 0 }, ..record })
        .collect();
    assert_eq!(report(&steady).0["notes"], serde_json::json!([]));
}

#[test]
fn contradictory_marks_are_a_finding() {
    let cleared: Vec<_> =
        (0..5_u32).map(|nth| at(u64::from(nth) * US, write(A, B, 0x22, 100 + nth).ecn(Ecn::NotEct))).collect();
    let back = [at(9 * US, ack(B, A, 0x11, 104)), at(30 * US, cnp(B, A, 0x11)), at(90 * US, cnp(B, A, 0x11))];
    let report_of = |records: Vec<Record>| report(&records);
    report_of(with(cleared, back.clone())).finds(&["5 data packets are Not-ECT", "2 CNPs"]);
    let all: Vec<_> = (0..5_u32).map(|nth| at(u64::from(nth) * US, write(A, B, 0x22, 100 + nth).ce())).collect();
    let marked_back = [at(9 * US, ack(B, A, 0x11, 104).ce()), at(30 * US, cnp(B, A, 0x11).ce())];
    let every = report_of(with(all.clone(), marked_back));
    every.finds(&["CE in all 7 RoCE packets, 5 of data"]);
    assert_eq!((every.number("ecn.data.ce"), every.number("ecn.other.ce"), every.number("dscp.cnp.48")), (5, 2, 1));
    report_of(with(all, back)).is_healthy();
}

// ------------------------------------------------------------------------------------------------ tunnels

/// Checks that a packet in a tunnel is replayed as the packet without the tunnel is.
fn inside(wrap: impl Fn(u8, &[u8]) -> Vec<u8>, marks_outside: bool) {
    let plain = report(&notified());
    let wrapped: Vec<_> = notified().into_iter().map(|record| at(record.time, wrap(0, &record.bytes))).collect();
    let report_of = |records: &[Record]| report(records);
    let report = report_of(&wrapped);
    for key in ["np", "rp", "nics", "cnps", "flows", "rates", "icrc"] {
        assert_eq!(report.0[key], plain.0[key], "{key}");
    }
    assert_eq!(report.number("frames.rocev2"), wrapped.len() as u64);
    report.is_healthy();
    // A mark on a tunnel's header counts for the packet inside (RFC 6040); one on the header of a mirror session does not.
    let marked: Vec<_> = notified().into_iter().map(|record| at(record.time, wrap(3, &record.bytes))).collect();
    let marked = report_of(&marked);
    assert_eq!(marked.number("icrc.valid"), wrapped.len() as u64);
    assert_eq!(marked.0["frames"]["dropped"], serde_json::json!({}));
    let data = 8;
    assert_eq!(marked.number("ecn.data.ce"), if marks_outside { data } else { plain.number("ecn.data.ce") });
}

#[test]
fn roce_is_found_in_tunnels_and_mirror_sessions() {
    let vxlan = |frame: &[u8]| [&[8, 0, 0, 0, 0, 0x43, 0x21, 0][..], frame].concat();
    inside(|ecn, frame| in_udp(4789, ecn, &vxlan(frame)), true);
    inside(|ecn, frame| in_udp(6081, ecn, &[&[1, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 0][..], frame].concat()), true);
    // GRE with a key and an Ethernet frame; GRE with an IP packet; IP in IP.
    inside(|ecn, frame| in_ip(47, ecn, &[&[0x20, 0, 0x65, 0x58, 0, 0, 7, 0][..], frame].concat()), true);
    inside(|ecn, frame| in_ip(47, ecn, &[&[0, 0, 8, 0][..], &frame[14..]].concat()), true);
    inside(|ecn, frame| in_ip(4, ecn, &frame[14..]), true);
    // ERSPAN I, II, III, and III with the optional eight bytes.
    inside(|ecn, frame| in_ip(47, ecn, &[&[0, 0, 0x88, 0xbe][..], frame].concat()), false);
    inside(
        |ecn, frame| {
            in_ip(47, ecn, &[&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 100, 0, 5, 0, 0, 0, 0][..], frame].concat())
        },
        false,
    );
    let three = |last: u8| {
        [
            &[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 100, 0, 5, 0, 0, 0, 0, 0, 0, 0, last][..],
            &vec![0; 8 * usize::from(last)],
        ]
        .concat()
    };
    inside(|ecn, frame| in_ip(47, ecn, &[&three(0)[..], frame].concat()), false);
    inside(|ecn, frame| in_ip(47, ecn, &[&three(1)[..], frame].concat()), false);
    // GRE with checksum, key and sequence number; NVGRE; ERSPAN II with a key.
    let whole = [&[0xb0, 0, 8, 0][..], &[0; 12]].concat();
    inside(|ecn, frame| in_ip(47, ecn, &[&whole[..], &frame[14..]].concat()), true);
    inside(|ecn, frame| in_ip(47, ecn, &[&[0x20, 0, 0x65, 0x58, 0, 0x12, 0x34, 0][..], frame].concat()), true);
    let keyed = [&[0x30, 0, 0x88, 0xbe, 0, 0, 0, 9, 0, 0, 0, 1, 0x10, 100, 0, 5][..], &[0; 4]].concat();
    inside(|ecn, frame| in_ip(47, ecn, &[&keyed[..], frame].concat()), false);
    // A tunnel in a VLAN in a provider's VLAN, with one in the tunnel; a tunnel in a tunnel.
    let tag = |frame: &[u8], tags: &[u8]| [&frame[..12], tags, &frame[12..]].concat();
    inside(
        |ecn, frame| {
            let outer = in_udp(4789, ecn, &vxlan(&tag(frame, &[0x81, 0, 0x60, 7])));
            tag(&outer, &[0x88, 0xa8, 0, 100, 0x81, 0, 0, 5])
        },
        true,
    );
    // The inner tunnel is ECN-capable where the outer one is marked.
    inside(|ecn, frame| in_udp(4789, ecn, &vxlan(&in_udp(4789, ecn & 2, &vxlan(frame)))), true);
    // A tunnel in a mirror session: the tunnel's mark counts, the session's does not.
    inside(|ecn, frame| in_ip(47, 0, &[&[0, 0, 0x88, 0xbe][..], &in_udp(4789, ecn, &vxlan(frame))].concat()), true);
}

#[test]
fn vlan_tags_in_tunnels_are_read_and_other_protocols_in_tunnels_count_as_other() {
    let tagged = write(A, B, 0x22, 101).ce().vlan(100).bytes();
    let vxlan = |frame: &[u8]| in_udp(4789, 0, &[&[8, 0, 0, 0, 0, 0x43, 0x21, 0][..], frame].concat());
    let mut arp = vec![0xff; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    let records =
        with(bound(), [at(10 * US, vxlan(&tagged)), at(20 * US, vxlan(&arp)), at(30 * US, in_udp(4793, 0, &[0; 40]))]);
    let report = report(&records);
    assert_eq!((report.number("frames.rocev2"), report.number("frames.other")), (3, 2));
    assert_eq!((report.number("frames.by_other.udp"), report.number("frames.by_other.uet")), (1, 1));
    assert_eq!(report.number("np.np_ecn_marked_roce_packets"), 1);
    // A packet that is not ECN-capable in a marked tunnel is dropped at its end.
    let not_ect = write(A, B, 0x22, 101).ecn(Ecn::NotEct).bytes();
    let marked = in_udp(4789, 3, &[&[8, 0, 0, 0, 0, 0, 1, 0][..], &not_ect].concat());
    assert_eq!(self::report(&with(bound(), [at(9 * US, marked)])).number("frames.dropped.tunnel_marked_not_ect"), 1);
}

// ------------------------------------------------------------------------------------------------ pauses

#[test]
fn a_link_pause_stops_all_priorities_until_it_ends() {
    let paused = |more: Vec<Record>| {
        let report = report(&with(bound(), more.into_iter().chain([at(200 * US, write(A, B, 0x22, 101))])));
        assert_eq!((report.number("frames.pfc_unattributed"), report.0["pauses"].as_array().unwrap().len()), (0, 8));
        assert_eq!(report.0["pauses"][0]["nic"], "192.0.2.1");
        report.0["pauses"][0]["paused_us"].as_f64().unwrap()
    };
    // 10,000 quanta of 512 bit times at 100 Gb/s.
    assert!((paused(vec![at(10 * US, pause(mac(B), 10_000))]) - 51.2).abs() < 0.01);
    assert!((paused(vec![at(10 * US, pause(mac(B), 10_000)), at(30 * US, pause(mac(B), 0))]) - 20.0).abs() < 0.01);
}

#[test]
fn pfc_to_a_unicast_address_has_no_effect() {
    let mut frame = pfc(mac(B), 3, 10_000);
    frame[..6].copy_from_slice(&mac(A).octets());
    let report = report(&with(bound(), [at(10 * US, frame), at(200 * US, write(A, B, 0x22, 101))]));
    assert_eq!((report.number("frames.pfc_unicast"), report.0["pauses"].as_array().unwrap().len()), (1, 0));
    report.finds(&["1 PFC frames go to a unicast address"]);
}

#[test]
fn the_direction_of_a_pfc_frame_shows_which_nic_paused_which() {
    let switch = cc_core::wire::Mac::new([2, 0, 0, 0, 0xff, 1]);
    let mut at_sender = Pcapng::new(&[0]);
    at_sender.packet(&bound()[0], OUT);
    at_sender.packet(&bound()[1], IN);
    at_sender.packet(&at(10 * US, pfc(switch, 3, 10_000)), IN);
    at_sender.packet(&at(200 * US, write(A, B, 0x22, 101)), OUT);
    let report = Capture::new(&at_sender.0).report(&[]);
    assert_eq!((report.number("frames.pfc_unattributed"), report.number("pauses.0.priority")), (0, 3));
    assert_eq!(report.0["pauses"][0]["nic"], "192.0.2.1");
    report.is_healthy();

    let mut at_receiver = Pcapng::new(&[0]);
    at_receiver.packet(&bound()[0], IN);
    at_receiver.packet(&bound()[1], OUT);
    at_receiver.packet(&at(10 * US, pfc(mac(B), 3, 10_000)), OUT);
    at_receiver.packet(&at(200 * US, write(A, B, 0x22, 101)), IN);
    let report = Capture::new(&at_receiver.0).report(&[]);
    report.finds(&["192.0.2.2 paused its switch", "1 PFC frames of priority 3"]);
    assert_eq!((report.0["pauses"].as_array().unwrap().len(), report.number("pauses_sent.0.frames")), (0, 1));
}

#[test]
fn packets_sent_well_after_a_pause_began_ignore_it() {
    let sent = |times: &[u64]| {
        let data = times.iter().zip(101..).map(|(&time, psn)| at(time, write(A, B, 0x22, psn)));
        let mut records = with(bound(), data.chain([at(10 * US, pfc(mac(B), 3, 10_000))]));
        records.sort_by_key(|record| record.time);
        report(&records)
    };
    let ignored = sent(&[15 * US, 20 * US, 60 * US, 90 * US]);
    ignored.finds(&["192.0.2.1 sent 3 packets of priority 3 while that was paused (PFC)"]);
    assert_eq!(ignored.number("pauses.0.ignored"), 3);
    // One within the time to stop, and one after the end of the pause.
    sent(&[10 * US + 300, 62 * US]).is_healthy();
}

#[test]
fn pause_times_are_computed_with_the_speed_of_the_interface() {
    for (speed, micros) in [(25_000_000_000, 204.8), (100_000_000_000, 51.2), (0, 51.2)] {
        let mut file = Pcapng::new(&[speed]);
        for record in with(bound(), [at(10 * US, pfc(mac(B), 3, 10_000)), at(900 * US, write(A, B, 0x22, 101))]) {
            file.packet(&record, 0);
        }
        let report = Capture::new(&file.0).report(&[]);
        assert!((report.0["pauses"][0]["paused_us"].as_f64().unwrap() - micros).abs() < 0.1);
        if speed == 25_000_000_000 {
            report.finds(&["interface 0", "25 Gb/s", "--line-rate 25"]);
        } else {
            report.is_healthy();
        }
    }
}

// ------------------------------------------------------------------------------------------------ losses

#[test]
fn losses_are_counted_by_kind_and_flow() {
    let data = |psns: std::ops::Range<u32>, start: u64| {
        psns.map(move |psn| at((start + u64::from(psn)) * US, write(A, B, 0x22, psn)))
    };
    let nak = |time: u64, psn, syndrome| at(time * US, reply(B, A, 0x11, psn, syndrome));
    let sequence = Syndrome::Nak(Nak::PsnSequence);
    let repeated = report(&with(
        bound(),
        data(101..105, 0)
            .chain([nak(206, 102, sequence)])
            .chain(data(102..105, 110))
            .chain([at(230 * US, ack(B, A, 0x11, 104))]),
    ));
    assert_eq!((repeated.number("losses.nak_sequence"), repeated.number("losses.retransmitted")), (1, 3));
    assert_eq!(repeated.number("losses.flows.0.retransmitted"), 3);
    repeated.finds(&["3 packets were sent again", "PSN out of sequence 1"]);
    for (syndrome, key) in [
        (Syndrome::RnrNak { timer: 14 }, "rnr_nak"),
        (Syndrome::Nak(Nak::InvalidRequest), "nak_invalid"),
        (Syndrome::Nak(Nak::RemoteAccess), "nak_access"),
        (Syndrome::Nak(Nak::RemoteOperational), "nak_operational"),
    ] {
        let refused = report(&with(bound(), data(101..102, 0).chain([nak(106, 101, syndrome)])));
        assert_eq!((refused.number(&format!("losses.{key}")), refused.number("losses.nak_sequence")), (1, 0));
        assert_eq!(refused.number(&format!("losses.flows.0.{key}")), 1);
    }
    // Packets lost before the place of capture: only their retransmission is captured.
    let before = report(&with(
        bound(),
        data(101..103, 0).chain(data(105..107, 0)).chain([nak(206, 103, sequence)]).chain(data(103..107, 110)),
    ));
    assert_eq!((before.number("losses.retransmitted"), before.number("losses.lost_before")), (4, 2));
    assert_eq!(before.number("losses.not_captured"), 0);
    // Two neighbours in the wrong order, and no negative acknowledgement.
    let swapped = report(&with(bound(), data(101..102, 0).chain(data(103..104, 0)).chain(data(102..103, 2))));
    assert_eq!((swapped.number("losses.retransmitted"), swapped.number("losses.lost_before")), (1, 1));
    swapped.finds(&["1 packets come after later ones, and fill the gaps there", "reordercap"]);
}

#[test]
fn a_read_between_requests_is_no_gap_and_its_responses_are_no_retransmissions() {
    let responses = [READ_FIRST, READ_MIDDLE, READ_LAST].into_iter().zip(0..3);
    let responses = responses.map(|(opcode, nth)| {
        at((15 + u64::from(nth)) * US, frames::Packet::new(B, A, opcode, 0x11, 102 + nth).size(200))
    });
    let requests = [
        at(10 * US, write(A, B, 0x22, 101)),
        at(11 * US, read(A, B, 0x22, 102, 600)),
        at(12 * US, write(A, B, 0x22, 105)),
    ];
    let report = report(&with(with(bound(), requests), responses.chain([at(20 * US, ack(B, A, 0x11, 105))])));
    assert_eq!((report.number("losses.retransmitted"), report.number("losses.not_captured")), (0, 0));
    assert_eq!(report.number("flows.bound"), 2);
    report.is_healthy();
}

#[test]
fn packets_lost_by_the_capture_are_not_counted_as_lost_by_the_network() {
    let data = |missing: &'static [u32]| {
        (101..111_u32)
            .filter(|psn| !missing.contains(psn))
            .map(|psn| at(u64::from(psn) * US, write(A, B, 0x22, psn).ce()))
    };
    let gaps = report(&with(bound(), data(&[103, 104, 107]).chain([at(150 * US, ack(B, A, 0x11, 110))])));
    assert_eq!((gaps.number("losses.not_captured"), gaps.number("losses.retransmitted")), (3, 0));
    gaps.finds(&["3 packets are missing that were acknowledged", "cannot be known"]);
    assert!(!gaps.findings().contains("sent again"), "{}", gaps.findings());

    let mut file = Pcapng::new(&[0]);
    with(bound(), data(&[]).chain([at(150 * US, ack(B, A, 0x11, 110))]))
        .iter()
        .for_each(|record| file.packet(record, 0));
    let whole = file.0.len();
    file.statistics(5_000, 87_000);
    let dropped = Capture::new(&file.0).report(&[]);
    dropped.finds(&["92000 frames were dropped", "cannot be known"]);
    assert_eq!(dropped.number("frames.capture_dropped"), 92_000);
    file.0.truncate(whole);
    file.statistics(0, 0);
    let none = Capture::new(&file.0).report(&[]);
    none.finds(&["and no reaction"]);
    assert!(!none.findings().contains("dropped"), "{}", none.findings());
}

#[test]
fn packets_trimmed_by_a_switch_are_distinct_from_malformed_and_snapped_ones() {
    let trimmed = |psn: u32| {
        let mut bytes = write(A, B, 0x22, psn).size(1_000).bytes();
        bytes.truncate(128);
        bytes[15] = 5 << 2 | 2; // another DSCP; the checksum is not changed
        at(u64::from(psn) * US, bytes)
    };
    let report_of = |records: &[Record]| report(records);
    let report =
        report_of(&with(bound(), [trimmed(101), at(102 * US, write(A, B, 0x22, 102).size(1_000)), trimmed(103)]));
    assert_eq!((report.number("frames.trimmed"), report.number("frames.rocev2")), (2, 5));
    report.finds(&["2 packets were trimmed"]);
    let snapped = report_of(&with(
        bound(),
        [at(101 * US, write(A, B, 0x22, 101).size(1_000).ce()).cut(128), at(103 * US, cnp(B, A, 0x11))],
    ));
    assert_eq!((snapped.number("frames.trimmed"), snapped.number("frames.truncated")), (0, 1));
    snapped.is_healthy();
    // A length that contradicts the UDP header is a fault.
    let mut wrong = write(A, B, 0x22, 101).bytes();
    wrong[16] ^= 0x80;
    assert_eq!(report_of(&with(bound(), [at(9 * US, wrong)])).number("frames.dropped.ip_length"), 1);
}

// ------------------------------------------------------------------------------------------------ files that end early

#[test]
fn a_cut_file_is_reported_up_to_the_cut_with_its_own_exit_code() {
    let whole = with(bound(), [at(20 * US, write(A, B, 0x22, 101).ce())]);
    let fourth = at(30 * US, write(A, B, 0x22, 102).ce());
    let file = pcap(&with(whole.clone(), [fourth.clone()]));
    let start = pcap(&whole).len();
    let mut png = Pcapng::new(&[0]);
    whole.iter().for_each(|record| png.packet(record, 0));
    let png_start = png.0.len();
    png.packet(&fourth, 0);
    let cuts = [start + 1, start + 9, start + 16, file.len() - 1].map(|length| file[..length].to_vec());
    let png_cuts = [png_start + 3, png_start + 9, png.0.len() - 5].map(|length| png.0[..length].to_vec());
    for bytes in cuts.into_iter().chain(png_cuts) {
        let capture = Capture::new(&bytes);
        let report = capture.report(&[]);
        assert_eq!((report.number("frames.total"), report.number("np.np_ecn_marked_roce_packets")), (3, 1));
        let output = capture.run(&[]);
        assert_eq!(output.status.code(), Some(3));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("cut off") && error.contains("3 whole frames"), "{error}");
        assert!(String::from_utf8(output.stdout).unwrap().contains("incomplete "));
    }
    assert_eq!(Capture::new(&file).run(&[]).status.code(), Some(0));
    // The file header itself is cut.
    assert_eq!(Capture::new(&file[..20]).run(&[]).status.code(), Some(1));
}

#[test]
fn a_compressed_file_is_refused_with_the_command_that_unpacks_it() {
    for (magic, word) in [
        (&[0x1f, 0x8b, 8, 0][..], "zcat"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstdcat"),
        (&[0xfd, b'7', b'z', b'X', b'Z'], "xzcat"),
    ] {
        let output = Capture::new(&[magic, &[0; 60]].concat()).run(&[]);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8(output.stderr).unwrap().contains(word));
    }
}

/// Whether this process ignores a signal; then `hil`, which the test starts, ignores it too. Background jobs of a shell without
/// job control ignore SIGINT and SIGQUIT, and those of `nohup` SIGHUP. TERM and USR1 can always be tested.
fn is_ignored(signal: &str) -> bool {
    let number = ["HUP", "INT", "QUIT"].iter().position(|&name| name == signal);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    number.is_some_and(|number| ignored >> number & 1 != 0)
}

#[test]
fn a_signal_ends_the_reading_of_a_pipe_and_the_frames_read_are_reported() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        if is_ignored(signal) {
            continue;
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_hil"))
            .args(["replay", "-", "--format", "json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(&pcap(&bound())).unwrap();
        input.flush().unwrap();
        // The signal is sent when the program waits for more input, that is, when its reading thread sleeps in the pipe.
        let waits = |child: &std::process::Child| {
            let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().count();
            let emptied = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
            tasks > 2
                && emptied.lines().any(|line| {
                    line.strip_prefix("rchar: ").is_some_and(|count| count.parse::<usize>().unwrap_or(0) > 0)
                })
        };
        let limit = Instant::now() + Duration::from_secs(60);
        while !waits(&child) && Instant::now() < limit {
            std::thread::yield_now();
        }
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(report["frames"]["total"].as_u64().unwrap() <= 2);
        assert_ne!(report["ending"], "whole");
        drop(input);
    }
}

// ------------------------------------------------------------------------------------------------ clocks

/// Ten marked packets, 100 us apart.
fn marks() -> Vec<Record> {
    with(bound(), (0..10_u32).map(|nth| at(u64::from(nth + 1) * 100 * US, write(A, B, 0x22, 101 + nth).ce())))
}

#[test]
fn one_wrong_time_stamp_changes_the_time_of_no_other_frame() {
    const YEAR: u64 = 365 * 86_400 * SECOND;
    let clean = report(&marks());
    assert_eq!((clean.number("np.np_cnp_sent"), clean.number("duration_ns")), (10, 1_000 * US));
    for place in [0, 1, 6, 11] {
        for stamp in [YEAR, 0_u64.wrapping_sub(START), 5 * SECOND, 0_u64.wrapping_sub(YEAR)] {
            let mut records = marks();
            records.insert(place, at(stamp, write(A, B, 0x22, 99)));
            let report = report(&records);
            assert_eq!(report.0["cnps"]["sent"], 10, "{place}, {stamp}");
            let times = |report: &Report| {
                report.0["cnps"]["list"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|cnp| cnp["time_ns"].as_u64().unwrap())
                    .collect::<Vec<_>>()
            };
            assert_eq!(times(&report), times(&clean), "{place}, {stamp}");
            report.finds(&["time stamps are out of order"]);
        }
    }
}

#[test]
fn frames_without_a_time_stamp_are_reported() {
    let mut file = Pcapng::new(&[0]);
    marks().iter().for_each(|record| file.simple(&record.bytes));
    let report = Capture::new(&file.0).report(&[]);
    report.finds(&["12 packets have no time stamp"]);
    assert_eq!(report.number("frames.untimed"), 12);
}

#[test]
fn frames_stamped_by_different_clocks_are_replayed_in_the_order_of_the_file() {
    let file = |offset: u64| {
        let mut file = Pcapng::new(&[0]);
        for nth in 0..8_u32 {
            let time = u64::from(nth) * 50 * US;
            file.packet(&at(time, write(A, B, 0x22, 100 + nth).ce()), OUT);
            file.packet(&at((time + 5 * US).wrapping_add(offset), ack(B, A, 0x11, 100 + nth)), IN);
            file.packet(&at((time + 6 * US).wrapping_add(offset), cnp(B, A, 0x11)), IN);
        }
        Capture::new(&file.0).report(&[])
    };
    let agreed = file(0);
    assert_eq!((agreed.number("rtt_ns.min"), agreed.number("rp.rp_clock_reversals")), (5 * US, 0));
    agreed.is_healthy();
    for offset in [37 * SECOND, 0_u64.wrapping_sub(37 * SECOND), 60 * US] {
        let apart = file(offset);
        apart.finds(&["the clocks of the interfaces or directions disagree"]);
        assert_eq!(apart.0["rtt_ns"], Value::Null);
        assert_eq!(apart.number("rp.rp_cnp_handled"), 8);
        assert!(apart.number("duration_ns") < 500 * US);
        assert!(apart.lowest(0).abs_diff(agreed.lowest(0)) < agreed.lowest(0) / 20);
    }
}

#[test]
fn sending_above_the_line_rate_is_a_finding_and_bursts_are_not() {
    let sent = |gap: u64, burst: u64| {
        let data = (0..200_u64).map(move |nth| {
            at(nth / burst * burst * gap + nth % burst * 100, write(A, B, 0x22, nth as u32).size(1_000))
        });
        let capture = Capture::new(&pcap(&data.collect::<Vec<_>>()));
        capture.report(&["--line-rate", "1", "--base-rtt", "100", "--mtu", "9000"])
    };
    // 1,070 bytes on the wire take 8.56 us at 1 Gb/s.
    sent(1_000, 1).finds(&["192.0.2.1 sends", "more than its line rate of 1 Gb/s"]);
    for (gap, burst) in [(8_700, 1), (8_700, 8)] {
        let report = sent(gap, burst);
        assert!(!report.findings().contains("line rate"), "{}", report.findings());
    }
}

// ------------------------------------------------------------------------------------------------ unknown hosts

#[test]
fn packets_from_an_unknown_host_are_dropped() {
    let cnps = report(&with(bound(), [at(20 * US, cnp(UNKNOWN, A, 0x11)), at(90 * US, write(A, B, 0x22, 101))]));
    assert_eq!((cnps.number("rp.rp_cnp_handled"), cnps.number("frames.dropped.cnp_source")), (0, 1));
    assert_eq!(cnps.lowest(0), LINE);
    cnps.finds(&["CNPs from another address than the flow goes to 1"]);
    let acks = report(&with(bound(), [at(20 * US, write(A, B, 0x22, 101)), at(21 * US, ack(UNKNOWN, A, 0x11, 101))]));
    assert_eq!((acks.number("rtt_ns.count"), acks.number("frames.dropped.ack_source")), (1, 1));
    // No CNP is sent to a source address that no host can have.
    for source in [[233, 252, 0, 1], [0, 0, 0, 0], [255, 255, 255, 255], [127, 0, 0, 1]].map(std::net::Ipv4Addr::from) {
        let datagrams: Vec<_> =
            (0..2_u32).map(|nth| at(u64::from(nth + 1) * 100 * US, datagram(source, B, 0x33, nth).ce())).collect();
        let report = report(&datagrams);
        assert_eq!((report.number("np.np_cnp_sent"), report.number("frames.rocev2")), (0, 2), "{source}");
        assert_eq!(report.number("frames.dropped.source_address"), 2);
    }
    let datagrams: Vec<_> =
        (0..2_u32).map(|nth| at(u64::from(nth + 1) * 100 * US, datagram(A, B, 0x33, nth).ce())).collect();
    assert_eq!(report(&datagrams).number("np.np_cnp_sent"), 2);
}

#[test]
fn a_packet_with_a_wrong_header_checksum_is_dropped_unless_the_nic_fills_it_in_after_the_capture() {
    let spoilt = |bytes: [u8; 2]| {
        let mut frame = cnp(B, A, 0x11).bytes();
        frame[24..26].copy_from_slice(&bytes);
        frame
    };
    let wrong = report(&with(bound(), [at(20 * US, spoilt([0x12, 0x34]))]));
    assert_eq!((wrong.number("rp.rp_cnp_handled"), wrong.number("frames.dropped.ip_checksum")), (0, 1));
    wrong.finds(&["wrong IPv4 header checksum 1"]);
    let zero = report(&with(bound(), [at(20 * US, spoilt([0, 0]))]));
    assert_eq!((zero.number("rp.rp_cnp_handled"), zero.number("frames.checksum_unfilled")), (1, 1));
    zero.is_healthy();
    let mut outbound = Pcapng::new(&[0]);
    outbound.packet(&bound()[0], IN);
    outbound.packet(&bound()[1], OUT);
    outbound.packet(&at(20 * US, spoilt([0x12, 0x34])), OUT);
    assert_eq!(Capture::new(&outbound.0).report(&[]).number("rp.rp_cnp_handled"), 1);
}

#[test]
fn icrcs_that_are_never_computed_are_a_finding_and_can_be_ignored() {
    let mut records = notified();
    for record in &mut records {
        let end = record.bytes.len();
        record.bytes[end - 4..].fill(0);
    }
    let capture = Capture::new(&pcap(&records));
    let report = capture.report(&[]);
    report.finds(&["ICRC is wrong in all 10 RoCE frames", "--icrc ignore"]);
    let text = String::from_utf8(capture.run(&[]).stdout).unwrap();
    assert!(!text.contains("has no CNPs"), "{text}");
    let ignored = capture.report(&["--icrc", "ignore"]);
    assert_eq!((ignored.number("rp.rp_cnp_handled"), ignored.number("icrc.invalid")), (1, 10));
    assert_eq!(ignored.0["rates"], self::report(&notified()).0["rates"]);
    ignored.is_healthy();
}

// ------------------------------------------------------------------------------------------------ connections that end

fn handshake(time: u64, ids: (u32, u32), psn: u32) -> Vec<Record> {
    let request = cm::Message::Request { local_id: ids.0, local_qpn: Qpn::new(0x11), starting_psn: Psn::new(psn) };
    let reply =
        cm::Message::Reply { local_id: ids.1, remote_id: ids.0, local_qpn: Qpn::new(0x22), starting_psn: Psn::new(5) };
    vec![at(time, management(A, B, request)), at(time + US, management(B, A, reply))]
}

/// Packets from a PSN on, with CNPs between them.
fn slowed(start: u64, psn: u32, cnps: usize) -> Vec<Record> {
    (0..5_u32)
        .flat_map(|nth| {
            let time = start + u64::from(nth) * 60 * US;
            let cnp = (nth < cnps as u32).then(|| at(time + 9 * US, cnp(B, A, 0x11)));
            [Some(at(time, write(A, B, 0x22, psn + nth))), cnp].into_iter().flatten()
        })
        .collect()
}

#[test]
fn a_connection_that_ends_leaves_no_state_to_the_next() {
    let first = with(handshake(0, (1, 2), 100), slowed(10 * US, 100, 5));
    let ends = |time| {
        [at(time, management(A, B, cm::Message::Disconnect { local_id: 1, remote_id: 2, remote_qpn: Qpn::new(0x22) }))]
    };
    let late = report(&with(with(first.clone(), ends(400 * US)), [at(410 * US, cnp(B, A, 0x11))]));
    assert_eq!((late.number("rp.rp_cnp_handled"), late.number("rp.rp_cnp_ignored")), (5, 1));
    let rate_after = |report: &Report, from: u64| {
        let points = report.0["rates"][0]["points"].as_array().unwrap().clone();
        points.iter().filter(|point| point[0].as_u64().unwrap() >= from).map(|point| point[1].as_u64().unwrap()).max()
    };
    for dies in [true, false] {
        let middle = if dies { ends(400 * US).to_vec() } else { Vec::new() };
        let next = with(handshake(420 * US, (3, 4), 9_000), slowed(430 * US, 9_000, 0));
        let reused = report(&with(with(first.clone(), middle), next));
        assert_eq!(reused.number("rp.rp_cnp_handled"), 5);
        assert_eq!(rate_after(&reused, 420 * US), Some(LINE), "ended: {dies}");
        assert_eq!((reused.number("losses.retransmitted"), reused.number("losses.not_captured")), (0, 0));
    }
    // A repetition of the same messages begins no new connection.
    let repeated =
        report(&with(with(first.clone(), handshake(330 * US, (1, 2), 100)), [at(340 * US, write(A, B, 0x22, 105))]));
    assert!(rate_after(&repeated, 330 * US).is_none_or(|rate| rate < LINE));
}

#[test]
fn equal_addresses_in_two_vlans_are_two_hosts() {
    let tenant = |vid: u16, is_marked: bool| {
        let data = write(A, B, 0x22, u32::from(vid)).vlan(vid);
        let mut records = vec![
            at(u64::from(vid) * 10, if is_marked { data.ce() } else { data }),
            at(u64::from(vid) * 10 + 5 * US, ack(B, A, 0x11, u32::from(vid)).vlan(vid)),
        ];
        records.extend(is_marked.then(|| at(30 * US, cnp(B, A, 0x11).vlan(vid))));
        records
    };
    let mut both = with(tenant(100, true), tenant(200, false));
    both.sort_by_key(|record| record.time);
    let report_of = |records: &[Record]| report(records);
    let report = report_of(&both);
    assert_eq!((report.number("flows.seen"), report.number("flows.bound"), report.number("rtt_ns.count")), (2, 2, 2));
    assert_eq!((report.lowest(0), report.lowest(1)), (LINE / 2, LINE));
    assert_eq!((report.number("rates.0.network"), report.number("rates.1.network")), (100, 200));
    report.is_healthy();
    // A mirror port that keeps the VLAN tags of one direction only.
    let one_way: Vec<_> = tenant(100, true)
        .into_iter()
        .zip([true, false, false])
        .map(|(record, tagged)| {
            if tagged {
                record
            } else {
                let mut bytes = record.bytes;
                bytes.drain(12..16);
                at(record.time, bytes)
            }
        })
        .collect();
    let one_way = report_of(&one_way);
    assert_eq!(
        (one_way.number("flows.seen"), one_way.number("flows.bound"), one_way.number("rp.rp_cnp_handled")),
        (1, 1, 1)
    );
}

// ------------------------------------------------------------------------------------------------ telemetry

/// So many packets from A to B, `period` ns apart, and the acknowledgement of each `trip` ns later, with the telemetry that
/// `int` adds to it, given its number.
fn telemetry(count: u32, period: u64, trip: u64, int: impl Fn(u32, frames::Packet) -> frames::Packet) -> Vec<Record> {
    let data = (0..count).map(|nth| at(u64::from(nth) * period, write(A, B, 0x22, 100 + nth)));
    let acks = (0..count).map(|nth| at(u64::from(nth) * period + trip, int(nth, ack(B, A, 0x11, 100 + nth))));
    let mut records: Vec<Record> = data.chain(acks).collect();
    records.sort_by_key(|record| record.time);
    records
}

/// The record of a link of 100 Gb/s that is busy all the time, 2 us after that with the number before.
fn busy(nth: u32, queue: u32) -> Hop {
    Hop { mbps: 100_000, flags: 0, clock: 1_000 + nth * 2_000, sent: nth * 390, queue }
}

fn int_counters(report: &Report) -> Vec<(String, u64)> {
    let counters = report.0["rp"].as_object().unwrap().iter();
    let int = counters.filter(|(name, count)| name.starts_with("rp_int_") && *count != 0);
    int.map(|(name, count)| (name.clone(), count.as_u64().unwrap())).collect()
}

/// HPCC decides by nothing but telemetry. Where it cannot be measured, a counter and a finding say why, and the flow halves
/// its window with each fourth round trip, of seven packets here: twice in 80 packets.
#[test]
fn telemetry_that_cannot_be_measured_is_counted_by_reason_and_bounds_the_rate() {
    type Int = fn(u32, frames::Packet) -> frames::Packet;
    let cases: [(&str, u64, Int); 7] = [
        ("rp_int_too_many_hops", 80, |nth, ack| ack.int(1, &[busy(nth, 500_000); 6])),
        ("rp_int_path_changed", 79, |nth, ack| ack.int(1 + nth as u16 % 2, &[busy(nth, 500_000); 3])),
        ("rp_int_missing", 78, |nth, ack| if nth < 2 { ack.int(1, &[busy(nth, 0)]) } else { ack }),
        ("rp_int_overflowed", 80, |nth, ack| ack.int(1, &[busy(nth, 500_000); 15])),
        ("rp_int_clock", 79, |nth, ack| ack.int(1, &[Hop { clock: 1_000_000 - nth * 1_000, ..busy(nth, 500_000) }])),
        ("rp_int_link_down", 79, |nth, ack| ack.int(1, &[Hop { mbps: 0, ..busy(nth, 500_000) }])),
        ("rp_int_bytes", 79, |nth, ack| ack.int(1, &[Hop { sent: nth * 800, ..busy(nth, 500_000) }])),
    ];
    for (name, count, int) in cases {
        let records = telemetry(80, 2 * US, 12 * US, int);
        let report = Capture::new(&pcap(&records)).report(&["--algorithm", "hpcc"]);
        assert_eq!(int_counters(&report), [(name.to_owned(), count)]);
        report.finds(&["telemetry (INT)", &format!(" {count};"), "halve their rate; "]);
        let lowest = report.lowest(0);
        assert!((LINE / 5..LINE / 3).contains(&lowest), "{name}: {lowest}");
    }
    // The same links, with nothing wrong and at 9 tenths of their speed.
    let healthy = telemetry(80, 2 * US, 12 * US, |nth, ack| ack.int(1, &[Hop { sent: nth * 350, ..busy(nth, 0) }; 5]));
    let healthy = Capture::new(&pcap(&healthy)).report(&["--algorithm", "hpcc"]);
    assert_eq!((int_counters(&healthy), healthy.lowest(0)), (Vec::new(), LINE));
    healthy.is_healthy();
}

/// HPCC, algorithm 1: B T is 12 500 bytes, 12 500 are queued and 12 480 sent in each T: u = 2, and W = Wc 0.95 / 2 + W_AI.
#[test]
fn a_link_of_one_gigabit_is_measured_as_a_fast_one() {
    let records = telemetry(8, 100 * US, 100 * US, |nth, ack| {
        ack.int(1, &[Hop { mbps: 1_000, flags: 0, clock: 1_000 + nth * 100_000, sent: nth * 195, queue: 12_500 }])
    });
    let options = ["--algorithm", "hpcc", "--line-rate", "1", "--base-rtt", "100", "--mtu", "1500"];
    let report = Capture::new(&pcap(&records)).report(&options);
    let points = report.0["rates"][0]["points"].as_array().unwrap();
    assert_eq!(points[0][1].as_u64(), Some(1_000_000_000));
    let cut = points.iter().map(|point| point[1].as_u64().unwrap()).find(|&rate| rate < 1_000_000_000).unwrap();
    assert!((515_000_000..535_000_000).contains(&cut), "475 Mb/s and W_AI of 50: {cut}");
    report.is_healthy();
}

// ------------------------------------------------------------------------------------------------ the rest

#[test]
fn every_capture_has_the_same_counters() {
    let mut arp = vec![0xff; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    let (none, some) = (report(&[at(0, arp)]), report(&notified()));
    let keys = |report: &Report, part: &str| report.0[part].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for part in ["np", "rp"] {
        assert_eq!(keys(&none, part), keys(&some, part));
        assert!(none.0[part].as_object().unwrap().values().all(|count| count == 0));
    }
}

#[test]
fn opcodes_have_names() {
    let records = with(
        bound(),
        [
            at(9 * US, frames::Packet::new(A, B, 0x1c, 0x22, 101)),
            at(10 * US, frames::Packet::new(A, B, 0x1d, 0x22, 102)),
        ],
    );
    let capture = Capture::new(&pcap(&records));
    let text = String::from_utf8(capture.run(&[]).stdout).unwrap();
    assert!(text.contains("0x1c (RC FLUSH) 1") && text.contains("0x1d (RC ATOMIC WRITE) 1"), "{text}");
    assert_eq!(capture.report(&[]).0["frames"]["opcode_names"]["0x1c"], "RC FLUSH");
}

#[test]
fn idle_time_is_skipped_and_changes_no_decision() {
    // A flow that was slowed, an hour without frames, and a CNP after it.
    let hour = 3_600 * SECOND;
    let records = |idle: u64| {
        let busy = with(notified(), [at(idle, write(A, B, 0x22, 108)), at(idle + 9 * US, cnp(B, A, 0x11))]);
        report(&busy)
    };
    let (short, long) = (records(30 * SECOND), records(hour));
    assert_eq!(long.number("duration_ns"), hour + 9 * US);
    let rates = |report: &Report| {
        let points = report.0["rates"][0]["points"].as_array().unwrap();
        points.iter().map(|point| point[1].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(rates(&short), rates(&long));
    let times = |report: &Report| {
        report.0["rates"][0]["points"]
            .as_array()
            .unwrap()
            .iter()
            .map(|point| point[0].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    let last = |report: &Report| *times(report).last().unwrap();
    assert_eq!(last(&long) - last(&short), hour - 30 * SECOND);
    assert_eq!((long.number("rp.rp_clock_jumps_forward"), long.number("np.np_clock_jumps_forward")), (0, 0));
    long.is_healthy();
}

/// A NIC whose wakes are counted.
struct Counted<D> {
    nic: D,
    wakes: u64,
}

impl<D: Device> Device for Counted<D> {
    fn next_wake(&self) -> u64 {
        self.nic.next_wake()
    }

    fn wake(&mut self, decisions: &mut Decisions) -> Result<()> {
        self.wakes += 1;
        self.nic.wake(decisions)
    }

    fn deliver(&mut self, now: u64, event: &NicEvent<'_>, decisions: &mut Decisions) -> Result<Option<Handle>> {
        self.nic.deliver(now, event, decisions)
    }

    fn difference(&mut self) -> Option<Difference> {
        self.nic.difference()
    }

    fn counters(&self) -> NicCounters {
        self.nic.counters()
    }
}

/// The wakes of the NICs of a capture, with DCQCN, as `make` makes each of them.
fn wakes<D: Device>(capture: &[u8], nics: usize, make: impl Fn(&ResolvedSettings) -> Result<D>) -> u64 {
    let settings = ResolvedSettings::by(&*algorithm("dcqcn").unwrap(), &Request::default()).unwrap();
    let mut surveyor = Surveyor::new(Reading::default());
    let mut buffers = Buffers::default();
    let mut reader = Reader::new(capture, "capture").unwrap();
    while let Some(record) = reader.next().unwrap() {
        decode(record, shim::PORT, &mut buffers, |frame| surveyor.add(&record, frame));
    }
    let survey = Rc::new(surveyor.finish(reader.dropped()));
    let nic_filter = NicFilter { only: Vec::new(), limit: nics, strict: true };
    let counted = |_| Ok(Counted { nic: make(&settings)?, wakes: 0 });
    let rest = 2 * settings.rp.longest_time().max(settings.np.longest_time());
    let mut replayer = Replayer::new(nic_filter, settings.link.line_rate, counted).with_survey(survey).with_rest(rest);
    let mut reader = Reader::new(capture, "capture").unwrap();
    while let Some(record) = reader.next().unwrap() {
        replayer.frame(&record).unwrap();
    }
    replayer.finish().unwrap();
    let (outcome, counted) = replayer.into_outcome();
    assert_eq!((outcome.difference.is_none(), counted.len()), (true, nics));
    counted.iter().map(|nic| nic.wakes).sum()
}

#[test]
fn a_capture_that_needs_no_survey_is_replayed_alike_without_one() {
    let capture = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/incast.pcapng")).unwrap();
    let settings = ResolvedSettings::by(&*algorithm("dcqcn").unwrap(), &Request::default()).unwrap();
    let replayer = || {
        let nic_filter = NicFilter { only: Vec::new(), limit: 100, strict: true };
        let make = |_| Native::new(&*algorithm("dcqcn")?, &settings, NicSize::Full);
        Replayer::new(nic_filter, settings.link.line_rate, make)
    };
    let (mut early, mut again) = (replayer(), replayer());
    let mut surveyor = Surveyor::new(Reading::default());
    let mut buffers = Buffers::default();
    let mut reader = Reader::new(capture.as_slice(), "capture").unwrap();
    while let Some(record) = reader.next().unwrap() {
        decode(record, shim::PORT, &mut buffers, |frame| {
            surveyor.add(&record, frame);
            early.decoded(&record, frame, surveyor.has_wrong_icrc(record.number)).unwrap();
        });
    }
    assert!(surveyor.is_plain() && !early.needs_survey());
    let survey = Rc::new(surveyor.finish(reader.dropped()));
    again = again.with_survey(Rc::clone(&survey));
    let mut reader = Reader::new(capture.as_slice(), "capture").unwrap();
    while let Some(record) = reader.next().unwrap() {
        again.frame(&record).unwrap();
    }
    let [early, again] = [early.with_survey(survey), again].map(|mut replayer| {
        replayer.finish().unwrap();
        format!("{:?}", replayer.into_outcome().0)
    });
    assert_eq!(early, again);
}

/// Hosts in pairs: one sends a packet every 50 ms for a second, its fifth one congested; then nothing for `idle` nanoseconds,
/// and one more packet with its notification.
fn hosts_with_idle_time(hosts: u16, idle: u64) -> Vec<u8> {
    let host = |n: u16| Ipv4Addr::new(198, 18, (n >> 8) as u8, n as u8);
    let frames = (0..hosts / 2).flat_map(|pair| {
        let (from, to) = (host(2 * pair), host(2 * pair + 1));
        (0..21_u32).flat_map(move |nth| {
            let time = u64::from(pair) * US + u64::from(nth) * 50_000 * US + if nth < 20 { 0 } else { idle };
            let (data, notified) = (write(from, to, 0x22, 100 + nth), matches!(nth, 4 | 20));
            let data = if notified { data.ce() } else { data };
            let cnp = notified.then(|| at(time + 3 * US, cnp(to, from, 0x11)));
            [at(time, data), at(time + 5 * US, ack(to, from, 0x11, 100 + nth))].into_iter().chain(cnp)
        })
    });
    let mut frames: Vec<_> = frames.collect();
    frames.sort_by_key(|record| record.time);
    pcap(&frames)
}

/// Wakes are what the cost of a replay depends on besides its frames.
#[test]
fn an_idle_hour_takes_the_wakes_of_an_idle_minute_and_fewer_than_the_rest_of_the_capture() {
    let native = |settings: &ResolvedSettings| Native::new(&*algorithm("dcqcn")?, settings, NicSize::Full);
    let image = firmware::image(None, "dcqcn").unwrap();
    let on_core = |settings: &ResolvedSettings| {
        Ok(Lockstep::new(native(settings)?, board(&image, &boot(settings), Pace::Lockstep)?, None))
    };
    let natively = |idle| wakes(&hosts_with_idle_time(1_000, idle), 1_000, native);
    let on_cores = |idle| wakes(&hosts_with_idle_time(1_000, idle), 1_000, on_core);
    for wakes in [&natively as &dyn Fn(u64) -> u64, &on_cores] {
        let [none, minute, hour] = [0, 60 * SECOND, 3_600 * SECOND].map(wakes);
        assert_eq!(minute, hour);
        assert!(none > 0 && hour < 2 * none, "{none} without idle time, {hour} with an hour");
    }
}

#[test]
fn findings_can_fail_a_script() {
    let found = Capture::new(&pcap(&with(bound(), [at(20 * US, cnp(UNKNOWN, A, 0x11))])));
    assert_eq!(found.run(&[]).status.code(), Some(0));
    assert_eq!(found.run(&["--fail-on-findings"]).status.code(), Some(4));
    assert_eq!(Capture::new(&pcap(&bound())).run(&["--fail-on-findings"]).status.code(), Some(0));
}

#[test]
fn findings_come_first_and_a_missing_round_trip_time_has_its_reason() {
    let capture = Capture::new(&pcap(&[at(0, write(A, B, 0x22, 100)), at(9 * US, cnp(UNKNOWN, A, 0x12))]));
    let text = String::from_utf8(capture.run(&[]).stdout).unwrap();
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} in {text}"));
    assert!(place("finding") < place("ECN ") && place("ECN ") < place("flows "));
    assert!(text.contains("RTT          none: no acknowledgement is in the capture"), "{text}");
    assert!(!text.contains("not met    "), "{text}");
}

// ------------------------------------------------------------------------------------------------ files that are written

fn parts(folder: &Path) -> usize {
    fs::read_dir(folder)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "part"))
        .count()
}

#[test]
fn an_output_through_a_symbolic_link_replaces_the_links_target() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real.pcapng"), folder.path().join("link.pcapng"));
    for exists in [true, false] {
        let _ = (fs::remove_file(&real), fs::remove_file(&link));
        if exists {
            fs::write(&real, "old").unwrap();
        }
        std::os::unix::fs::symlink("real.pcapng", &link).unwrap();
        assert!(hil(&["synth", link.to_str().unwrap(), "--duration", "5"]).status.success());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap()[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
        assert_eq!(parts(folder.path()), 0);
    }
}

#[test]
fn a_dash_is_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_hil"))
        .args(["synth", "-", "--duration", "5"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.stdout[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("standard output: "));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_output_never_replaces_an_input() {
    let capture = Capture::new(&pcap(&bound()));
    let before = fs::read(&capture.path).unwrap();
    let link = capture.folder.path().join("link");
    let hard = capture.folder.path().join("hard");
    std::os::unix::fs::symlink(&capture.path, &link).unwrap();
    fs::hard_link(&capture.path, &hard).unwrap();
    for name in [&capture.path, &link, &hard] {
        let output = capture.run(&["--core", "ibex", "--firmware", "/dev/null", "--vcd", name.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8(output.stderr).unwrap().contains("give another name"), "{}", name.display());
        assert_eq!(fs::read(&capture.path).unwrap(), before);
    }
}

#[test]
fn a_signal_leaves_no_temporary_file() {
    for signal in ["INT", "TERM", "HUP", "QUIT", "USR1"] {
        if is_ignored(signal) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_hil"))
            .args(["synth", "out.pcapng", "--duration", "4000000"])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let limit = Instant::now() + Duration::from_secs(60);
        while parts(folder.path()) == 0 && Instant::now() < limit {
            std::thread::yield_now();
        }
        assert!(Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap().success());
        assert!(!child.wait().unwrap().success());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{signal}");
    }
}
