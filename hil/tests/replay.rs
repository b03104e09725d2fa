//! The program `hil replay`: facts of real captures, malformed frames, bad input.

use cc_core::params::{Settings, Unit};
use cc_rp::ReactionPoint;
use hil_algorithms::settings::table;
use hil_capture::{Reader, Writer};
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn hil(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hil")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn json(trace: &Path, arguments: &[&str]) -> Value {
    let output = hil(&[&["replay", trace.to_str().unwrap(), "--format", "json"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The error message for input that is refused: one line, with nothing on standard output and an exit code that is not 0.
fn refusal(arguments: &[&str]) -> String {
    let output = hil(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
    text
}

/// A capture of the shared collection. If it is not there, prints that and returns `None`.
fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces").join(name);
    if path.exists() {
        return Some(path);
    }
    let _ = writeln!(std::io::stderr(), "skipped: no {}", path.display());
    None
}

/// A capture of an incast, made by `hil synth`.
fn synth(folder: &Path) -> PathBuf {
    let path = folder.join("incast.pcapng");
    let output = hil(&["synth", path.to_str().unwrap(), "--duration", "150"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path
}

#[test]
fn soft_roce_hosts_that_use_ect0_and_see_no_congestion_a8() {
    let Some(path) = shared("rocev2-rc-send-ect0-sport69-72.pcap") else { return };
    let report = json(&path, &[]);
    assert_eq!(report["frames"]["total"], 123);
    assert_eq!(report["frames"]["rocev2"], 105);
    assert_eq!(report["frames"]["by_other"], serde_json::json!({"arp": 4, "ipv6": 4, "tcp": 10}));
    let opcodes = serde_json::json!({"0x00": 33, "0x03": 33, "0x05": 2, "0x11": 37});
    assert_eq!(report["frames"]["by_opcode"], opcodes);
    assert_eq!(report["icrc"], serde_json::json!({"valid": 105, "invalid": 0, "unchecked": 0}));
    assert_eq!(report["np"]["np_ecn_marked_roce_packets"], 0);
    assert_eq!(report["np"]["np_cnp_sent"], 0);
    assert_eq!(report["rp"]["rp_cnp_handled"], 0);
    assert_eq!(report["rtt_ns"]["count"], 37);
    assert_eq!(report["rtt_ns"]["max"], 23_000);
    assert_eq!(report["nics"].as_array().unwrap().len(), 2);
    // Each host acknowledges the other's data, so both QPNs are learnt.
    assert_eq!(report["flows"]["bound"], 2);
    assert_eq!(report["core"], Value::Null);
    let narrowed = json(&path, &["--nic", "192.168.70.4"]);
    assert_eq!(narrowed["nics"].as_array().unwrap().len(), 1);
    assert_eq!(narrowed["frames"], report["frames"]);
}

#[test]
fn other_captures_are_counted_or_refused_by_their_link_type() {
    for (name, frames, unparsed) in [
        ("lldp-dcbx-ets.pcap", 67, 0),
        ("lldp-dcbx-pfc.pcap", 5, 0),
        ("lldp-dcbx-qcn.pcap", 19, 0),
        ("mpls-in-vlan.pcap", 3, 0),
        ("nsec-be.pcap", 10, 0),
        ("nsec-le.pcap", 2, 0),
        ("pcapng-be-spb-epb-nrb.pcapng", 4, 0),
        ("pcapng-le-two-idb-all-options.pcapng", 4, 0),
        ("pcapng-multi-interface.pcapng", 6, 0),
        ("qinq-tcp.pcap", 14, 0),
        ("vlan-pcp-dei.pcapng", 9, 0),
        ("trunc-ip4.pcap", 1, 1),
        ("trunc-ip6-ext.pcap", 1, 1),
    ] {
        let Some(path) = shared(name) else { return };
        let report = json(&path, &[]);
        assert_eq!(report["frames"]["total"], frames, "{name}");
        assert_eq!(report["frames"]["rocev2"], 0, "{name}");
        assert_eq!(report["frames"]["unparsed"], unparsed, "{name}");
    }
    let Some(path) = shared("infiniband-native-erf-nsec.pcap") else { return };
    assert!(refusal(&["replay", path.to_str().unwrap()]).contains("unsupported link type 197"));
}

#[test]
fn an_incast_makes_the_cnps_that_were_captured_and_the_rates_fall() {
    let folder = tempfile::tempdir().unwrap();
    let path = synth(folder.path());
    let report = json(&path, &[]);
    let sent = report["cnps"]["sent"].as_u64().unwrap();
    assert!(sent > 8);
    assert_eq!(report["cnps"]["captured"], sent);
    assert_eq!(report["cnps"]["equal"], sent);
    assert_eq!(report["np"]["np_cnp_sent"], sent);
    assert_eq!(report["rp"]["rp_cnp_handled"], sent);
    assert_eq!(report["flows"]["bound"], 8);
    for flow in report["rates"].as_array().unwrap() {
        let points = flow["points"].as_array().unwrap();
        assert_eq!(points[0][1], 100_000_000_000_u64);
        // Alpha is one at the first CNP: the rate is halved, exactly.
        assert_eq!(points[1][1], 50_000_000_000_u64);
    }
    // Two replays print the same bytes, also from standard input.
    let arguments = ["replay", path.to_str().unwrap(), "--format", "json"];
    let once = hil(&arguments).stdout;
    assert_eq!(once, hil(&arguments).stdout);
    let piped = Command::new(env!("CARGO_BIN_EXE_hil"))
        .args(["replay", "-", "--format", "json"])
        .stdin(fs::File::open(&path).unwrap())
        .output()
        .unwrap();
    assert_eq!(once, piped.stdout);
}

#[test]
fn the_time_paused_and_its_share_of_the_run_are_reported_by_priority_e10() {
    use cc_core::wire::{Mac, pfc::Pfc};
    let folder = tempfile::tempdir().unwrap();
    let (trace, path) = (synth(folder.path()), folder.path().join("paused.pcapng"));
    let mut writer = Writer::create(&path, &["tap"]).unwrap();
    let mut reader = Reader::open(&trace).unwrap();
    let (mut first, mut last) = (None, 0);
    while let Some(record) = reader.next().unwrap() {
        writer.write(0, record.timestamp_ns, record.bytes, record.original_len).unwrap();
        (first, last) = (first.or(Some(record.timestamp_ns)), record.timestamp_ns);
        // At 100 Gb/s a quantum is 5.12 ns: 5.12 us, twice on priority 3 and once on priority 5.
        let frame = match record.number {
            100 | 1_100 => Pfc::new(1 << 3, [1_000; 8]),
            600 => Pfc::new(1 << 5, [1_000; 8]),
            _ => continue,
        };
        let mut bytes = [0; 60];
        frame.emit(Mac::new([2; 6]), &mut bytes).unwrap();
        writer.write(0, record.timestamp_ns, &bytes, 60).unwrap();
    }
    writer.finish().unwrap();
    let length = (last - first.unwrap()) as f64;
    let report = json(&path, &["--nic", "10.0.0.1"]);
    assert_eq!(report["frames"]["pfc_unattributed"], 0);
    let paused: Vec<_> = report["pauses"].as_array().unwrap().iter().map(|pause| pause["priority"].clone()).collect();
    assert_eq!(paused, [3, 5]);
    for (pause, us) in report["pauses"].as_array().unwrap().iter().zip([10.24, 5.12]) {
        assert_eq!((&pause["nic"], &pause["paused_us"]), (&"10.0.0.1".into(), &us.into()));
        assert!((pause["percent"].as_f64().unwrap() - us * 1e5 / length).abs() < 1e-9);
    }
    let text = hil(&["replay", path.to_str().unwrap(), "--nic", "10.0.0.1"]).stdout;
    let share = 10.24e5 / length;
    let line = format!("paused       10.0.0.1, priority 3: 10.240 us, {share:.2} % of the run\n");
    assert!(String::from_utf8(text).unwrap().contains(&line), "{line}");
    // Without --nic the frames belong to no NIC, and no pause is listed.
    let all = json(&path, &[]);
    assert_eq!((&all["frames"]["pfc_unattributed"], &all["pauses"]), (&3.into(), &serde_json::json!([])));
}

#[test]
fn settings_are_passed_to_the_machines() {
    let folder = tempfile::tempdir().unwrap();
    let path = synth(folder.path());
    let every = json(&path, &["--set", "np_min_time_between_cnps=0"]);
    assert_eq!(every["algorithm"]["np"]["min_time_between_cnps"], 0);
    // Each marked packet makes a CNP then.
    assert_eq!(every["np"]["np_cnp_sent"], every["np"]["np_ecn_marked_roce_packets"]);
    let file = folder.path().join("dcqcn.toml");
    fs::write(&file, "# ours\nrpg_ai_rate = 7\nALPHA_RESUME_INTERVAL = 60\nalpha_update = \"restarted\"\n").unwrap();
    let set = json(&path, &["--params", file.to_str().unwrap(), "--set", "rpg_ai_rate=8", "--preset", "paper"]);
    assert_eq!(set["algorithm"]["rp"]["rpg_ai_rate"], 8);
    assert_eq!(set["algorithm"]["rp"]["dce_tcp_rtt"], 60);
}

#[test]
fn malformed_frames_are_counted_and_change_no_state() {
    let folder = tempfile::tempdir().unwrap();
    let good = synth(folder.path());
    let bad = folder.path().join("bad.pcapng");
    let mut writer = Writer::create(&bad, &["tap"]).unwrap();
    let mut reader = Reader::open(&good).unwrap();
    // The reason, the byte that is damaged, and the bits flipped in it.
    let damage =
        [("ihl", 14, 1), ("ip_length", 16, 0x80), ("udp_length", 38, 0x80), ("icrc", 52, 1), ("bth_version", 43, 1)];
    while let Some(record) = reader.next().unwrap() {
        let original = record.bytes.to_vec();
        for &(_, at, bits) in damage.iter().take(usize::from(record.number % 7 == 0) * damage.len()) {
            let mut frame = original.clone();
            frame[at] ^= bits;
            writer.write(0, record.timestamp_ns, &frame, record.original_len).unwrap();
        }
        writer.write(0, record.timestamp_ns, &original, record.original_len).unwrap();
    }
    writer.finish().unwrap();

    let (good, bad) = (json(&good, &[]), json(&bad, &[]));
    let harmed = good["frames"]["total"].as_u64().unwrap() / 7;
    for (reason, ..) in damage {
        assert_eq!(bad["frames"]["dropped"][reason], harmed, "{reason}");
    }
    assert_eq!(bad["icrc"]["invalid"], harmed);
    assert_eq!(bad["frames"]["unparsed"], 4 * harmed);
    for key in ["np", "rp", "nics", "cnps", "flows", "rtt_ns", "rates"] {
        assert_eq!(bad[key], good[key], "{key}");
    }
}

#[test]
fn bad_files_are_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let header = |length: u32| {
        let mut pcap = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1, 0, 0, length, length] {
            pcap.extend(word.to_le_bytes());
        }
        pcap
    };
    for path in [
        file("empty", b""),
        file("text", b"frame,time\n1,2\n"),
        file("huge", &header(u32::MAX)),
        folder.path().join("missing").to_str().unwrap().to_owned(),
    ] {
        let text = refusal(&["replay", &path]);
        assert!(text.contains(&path), "{text}");
    }
}

#[test]
fn bad_arguments_are_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let trace = synth(folder.path());
    let file = folder.path().join("params.toml");
    let replay = |arguments: &[&str], expected: &[&str]| {
        let text = refusal(&[&["replay", trace.to_str().unwrap()], arguments].concat());
        for word in expected {
            assert!(text.contains(word), "{arguments:?}: {text}");
        }
    };
    replay(&["--algorithm", "dcqnc"], &["unknown algorithm dcqnc", "dcqcn"]);
    replay(&["--preset", "papr"], &["unknown preset", "papr", "did you mean paper?"]);
    replay(&["--core", "ibx"], &["unknown core ibx", "ibex"]);
    replay(&["--set", "rpg_ai_rat=5"], &["rpg_ai_rat", "did you mean rpg_ai_rate?"]);
    replay(&["--set", "rpg_ai_rate"], &["name=value"]);
    replay(&["--set", "rpg_ai_rate=-1"], &["whole number from 1 to 131071 Mb/s"]);
    replay(&["--set", "rpg_ai_rate=999999999"], &["1 to 131071 Mb/s"]);
    replay(&["--set", "cnp_dscp=106"], &["0 to 63", "DSCP 26"]);
    replay(&["--set", "alpha_update=sometimes"], &["restarted", "sampled"]);
    replay(&["--line-rate", "0"], &["1 to 2047 Gb/s"]);
    replay(&["--nic", "300.1.1.1"], &["--nic"]);
    replay(&["--pace", "real"], &["--core"]);
    replay(&["--core", "ibex", "--clock", "200000000"], &["--pace real or --vcd"]);
    replay(&["--vcd", "wave.vcd"], &["--core"]);
    replay(&["--core", "ibex", "--vcd", folder.path().to_str().unwrap()], &["not a regular file"]);
    replay(&["--log"], &["--core"]);
    replay(&["--params", file.to_str().unwrap()], &["params.toml"]);
    for (text, place) in
        [("rpg_ai_rate = 5\nrpg_gd = 12\n", "line 2"), ("rpg_ai_rate 5\n", "line 1"), ("\n\nx = 1\n", "line 3")]
    {
        fs::write(&file, text).unwrap();
        replay(&["--params", file.to_str().unwrap()], &["params.toml", place]);
    }
}

/// If ECN marking is on and the reaction points are off, this is a finding.
#[test]
fn marks_without_a_reaction_of_the_senders_are_a_finding_a24() {
    let folder = tempfile::tempdir().unwrap();
    let path = synth(folder.path());
    let heeded = json(&path, &[]);
    assert!(heeded["np"]["np_ecn_marked_roce_packets"].as_u64() > Some(0));
    assert_eq!(heeded["findings"], serde_json::json!([]));

    let unheeded = json(&path, &["--algorithm", "pfc"]);
    let findings = unheeded["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1);
    let marked = &unheeded["np"]["np_ecn_marked_roce_packets"];
    let start = format!("CE in {marked} packets of 8 flows, and no reaction: no flow was slowed down");
    let finding = findings[0].as_str().unwrap();
    assert!(finding.starts_with(&start), "{finding}");
    let text = hil(&["replay", path.to_str().unwrap(), "--algorithm", "pfc"]).stdout;
    assert!(String::from_utf8(text).unwrap().contains(&format!("\nfinding      {finding}\n")));
    // A capture read for the receiver alone does not show whether its senders react.
    assert_eq!(json(&path, &["--algorithm", "pfc", "--nic", "10.0.0.9"])["findings"], serde_json::json!([]));

    // The same network without CNPs: there is no signal to which DCQCN could react.
    let silent = folder.path().join("silent.pcapng");
    copy(&path, &silent, |frame| frame.get(42) != Some(&CNP));
    assert_eq!(json(&silent, &[])["findings"].as_array().unwrap().len(), 1);
}

/// The opcode of CNPs, and that of acknowledgements.
const CNP: u8 = 0x81;
const ACK: u8 = 0x11;

/// Copies the frames of a capture for which `keep` returns `true`.
fn copy(from: &Path, to: &Path, mut keep: impl FnMut(&[u8]) -> bool) {
    let mut reader = Reader::open(from).unwrap();
    let mut writer = Writer::create(to, &["tap"]).unwrap();
    while let Some(record) = reader.next().unwrap() {
        if keep(record.bytes) {
            writer.write(0, record.timestamp_ns, record.bytes, record.original_len).unwrap();
        }
    }
    writer.finish().unwrap();
}

/// No machine waits for a reply: a lost one is missed once, and the replay continues to its end.
#[test]
fn a_replay_whose_cnps_and_acknowledgements_get_lost_ends_c27() {
    let folder = tempfile::tempdir().unwrap();
    for entry in cc_rp::registry::ALL {
        let (whole, lossy) = (folder.path().join("whole.pcapng"), folder.path().join("lossy.pcapng"));
        let arguments = ["synth", whole.to_str().unwrap(), "--algorithm", entry.name, "--duration", "150"];
        assert!(hil(&arguments).status.success(), "{}", entry.name);
        let (mut replies, mut lost) = (0, 0_u64);
        copy(&whole, &lossy, |frame| {
            // CNPs and acknowledgements by the BTH's opcode; acknowledgements with shims by port and size.
            let is_reply =
                matches!(frame.get(42), Some(&CNP | &ACK)) || (frame.len() < 200 && frame.get(37) == Some(&0xb8));
            replies += u64::from(is_reply);
            let is_lost = is_reply && replies % 100 == 50;
            lost += u64::from(is_lost);
            !is_lost
        });
        let [whole, lossy] = [&whole, &lossy].map(|path| json(path, &["--algorithm", entry.name]));
        assert!(lost > 0 || entry.name == "pfc", "{}: {replies} replies", entry.name);
        let total = |report: &Value| report["frames"]["total"].as_u64().unwrap();
        assert_eq!(total(&lossy) + lost, total(&whole), "{}", entry.name);
        assert_eq!(lossy["duration_ns"], whole["duration_ns"], "{}", entry.name);
        // Every flow is paced to the end.
        assert_eq!(lossy["flows"], whole["flows"], "{}", entry.name);
    }
}

/// The numbers in the output of `hil list` are the constants that the machines use, and the sizes in the README are the
/// machines'.
#[test]
fn numbers_in_lists_and_documents_are_those_of_the_code_d8() {
    let list: Value = serde_json::from_slice(&hil(&["list", "--format", "json"]).stdout).unwrap();
    let text = String::from_utf8(hil(&["list"]).stdout).unwrap();
    for entry in cc_rp::registry::ALL {
        cc_rp::registry::with(entry.name, Listed { list: &list, text: &text }).unwrap();
        assert!(text.contains(&format!("{} (reaction point, {} B of state)", entry.name, entry.state_bytes)));
    }
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let words = |cell: &str| -> Vec<String> { cell.split([',', ';']).map(|word| word.trim().to_owned()).collect() };
    let number = |word: &str| word.split(' ').next().and_then(|number| number.parse::<usize>().ok());
    let mut compared = 0;
    for row in readme.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').skip(1).collect();
        let names = words(cells[0]).into_iter().map(|name| name.trim_matches('`').to_owned());
        let sizes: Vec<_> = words(cells[2]).iter().filter_map(|word| number(word)).collect();
        for (nth, name) in names.enumerate() {
            let Some(entry) = cc_rp::registry::ALL.iter().find(|entry| entry.name == name) else { continue };
            assert_eq!(sizes.get(nth).or(sizes.first()), Some(&entry.state_bytes), "README.md: {row}");
            compared += 1;
        }
    }
    assert!(compared >= 13, "README.md: {compared} algorithms with their sizes");
}

struct Listed<'a> {
    list: &'a Value,
    text: &'a str,
}

impl cc_rp::registry::Visitor for Listed<'_> {
    type Output = ();

    fn visit<A: ReactionPoint>(self) {
        let algorithms = self.list["algorithms"].as_array().unwrap();
        let listed = algorithms.iter().find(|one| one["name"] == A::NAME && one["role"] == "reaction point").unwrap();
        assert_eq!(listed["state_bytes"], size_of::<A>());
        let presets = listed["presets"].as_array().unwrap();
        assert_eq!(presets.len(), A::PRESETS.len());
        for (shown, preset) in presets.iter().zip(A::PRESETS) {
            assert_eq!((&shown["name"], &shown["source"]), (&preset.name.into(), &preset.source.into()));
            assert!(!preset.source.is_empty() && self.text.contains(preset.source));
            let values = shown["values"].as_object().unwrap();
            assert_eq!(values.len(), A::Settings::FIELDS.len());
            for (index, field) in A::Settings::FIELDS.iter().enumerate() {
                let value = match field.unit {
                    Unit::Choice(words) => Value::from(words[preset.values.get(index) as usize]),
                    _ => Value::from(preset.values.get(index)),
                };
                assert_eq!(values[field.name], value, "{}, {}: {}", A::NAME, preset.name, field.name);
            }
        }
        for field in A::Settings::FIELDS.iter().filter(|field| !matches!(field.unit, Unit::Choice(_))) {
            let values: Vec<_> =
                A::PRESETS.iter().map(|preset| table(&preset.values)[field.name].to_string()).collect();
            let range = format!("{} to {} {}", field.min, field.max, field.unit.symbol());
            let line = format!("    {}: {}; {}\n", field.name, range.trim(), values.join(", "));
            assert!(self.text.contains(&line), "{line}");
        }
    }
}

#[test]
fn a_tos_byte_typed_as_dscp_is_refused_and_the_list_shows_both_a19() {
    let text = String::from_utf8(hil(&["list"]).stdout).unwrap();
    assert!(text.contains("DSCP 26 is TOS 104, and 106 with ECT(0)"));
    let folder = tempfile::tempdir().unwrap();
    let path = synth(folder.path());
    for tos in [104, 106] {
        let text = refusal(&["replay", path.to_str().unwrap(), "--set", &format!("cnp_dscp={tos}")]);
        assert!(text.contains(&format!("a TOS byte of {tos} is DSCP 26")), "{text}");
    }
}
