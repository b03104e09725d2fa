//! The program `hil sim`: the files that it writes while a simulation runs.

use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Runs `hil` in a folder.
fn hil(folder: &TempDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hil"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

/// What it prints, which must succeed.
fn printed(folder: &TempDir, arguments: &[&str]) -> String {
    let output = hil(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(folder: &TempDir, arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(folder, &[arguments, &["--format", "json"]].concat())).unwrap()
}

/// A configuration of HPCC's ns-3: hosts 1 to 4 send 100,001 bytes each to host 0, over the switch 5, by DCQCN (mode 1), HPCC (3)
/// or TIMELY (7). PFC pauses them: the buffer has 1 MB.
fn star(mode: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let links = (0..5).fold(String::new(), |mut text, host| {
        writeln!(text, "{host} 5 100Gbps 1us 0").unwrap();
        text
    });
    fs::write(folder.path().join("topology.txt"), format!("6 1 5\n5\n{links}")).unwrap();
    let flows = (1..5).fold(String::new(), |mut text, host| {
        writeln!(text, "{host} 0 3 100 100001 2.0").unwrap();
        text
    });
    fs::write(folder.path().join("flow.txt"), format!("4\n{flows}")).unwrap();
    let config = format!(
        "TOPOLOGY_FILE topology.txt\nFLOW_FILE flow.txt\nCC_MODE {mode}\nSIMULATOR_STOP_TIME 2.1\nBUFFER_SIZE 1\n\
         ALPHA_RESUME_INTERVAL 1\nRATE_DECREASE_INTERVAL 4\nRP_TIMER 300\nEWMA_GAIN 0.00390625\nFAST_RECOVERY_TIMES 1\n\
         RATE_AI 40Mb/s\nRATE_HAI 40Mb/s\nMIN_RATE 1000Mb/s\nINT_MULTI 4\nMI_THRESH 0\n\
         KMAX_MAP 1 100000000000 1600\nKMIN_MAP 1 100000000000 400\nPMAX_MAP 1 100000000000 0.20\n"
    );
    fs::write(folder.path().join("config.txt"), config).unwrap();
    folder
}

fn read(folder: &TempDir, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).unwrap()
}

/// Every column is there, the amounts of a series sum to what the summary has, and the file is the same in whatever order events
/// are added.
#[test]
fn series_are_csv_whose_amounts_sum_to_the_summary() {
    let folder = star(1);
    let run = ["sim", "config.txt", "--interval", "2us", "--twice", "--series"];
    let summary = json(&folder, &[&run[..], &["a.csv"]].concat());
    printed(&folder, &[&run[..], &["b.csv", "--shuffle", "7"]].concat());
    let text = read(&folder, "a.csv");
    assert!(text == read(&folder, "b.csv"));
    let piped = hil(&folder, &[&run[..2], &run[2..4], &["--series", "-"]].concat());
    assert!(piped.stdout == text.as_bytes() && String::from_utf8_lossy(&piped.stderr).contains("packet-hops"));
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("time_ns,quantity,node,port,class,flow,value"));
    let lines: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(lines.iter().all(|line| line.len() == 7 && line[0].parse::<u64>().is_ok_and(|time| time % 2_000 == 0)));
    let sum = |quantity: &str| -> u64 {
        lines.iter().filter(|line| line[1] == quantity).map(|line| line[6].parse::<u64>().unwrap()).sum()
    };
    assert_eq!(sum("acked_bytes"), 4 * 100_001);
    assert_eq!(sum("marks"), summary["cc"]["dcqcn"]["marks"]);
    assert!(sum("paused_ns").abs_diff(summary["pfc"]["pause_ns"].as_u64().unwrap()) <= 5 && sum("paused_ns") > 0);
}

/// A replay of what passes a port finds no fault in any frame: the data of all flows and its acknowledgements at the receiver's
/// port, and the PFC frames at that of a sender.
#[test]
fn a_capture_of_a_port_replays_without_a_fault() {
    for mode in [1, 3, 7] {
        let folder = star(mode);
        printed(&folder, &["sim", "config.txt", "--pcap", "5:1=receiver.pcapng", "--pcap", "1:1=sender.pcapng"]);
        for (name, packets) in [("receiver.pcapng", 4 * 101), ("sender.pcapng", 101)] {
            let report = json(&folder, &["replay", name]);
            let icrc = serde_json::json!({"valid": 2 * packets, "invalid": 0, "unchecked": 0});
            assert_eq!(report["icrc"], icrc, "mode {mode}: {name}");
            assert_eq!(report["frames"]["reordered"], 0, "mode {mode}: {name}");
            let pfc = report["frames"]["pfc"].as_u64().unwrap();
            assert_eq!(pfc > 0, name == "sender.pcapng" && mode != 3, "mode {mode}: {name}");
            assert_eq!(report["frames"]["total"], 2 * packets + pfc, "mode {mode}: {name}");
        }
    }
}

/// Every packet is checked at both nodes that it reaches: 101 of each of four flows, and as many acknowledgements.
#[test]
fn checked_frames_are_counted_and_change_nothing() {
    for mode in [1, 3, 7] {
        let folder = star(mode);
        let checked = json(&folder, &["sim", "config.txt", "--check-frames", "--twice"]);
        let plain = json(&folder, &["sim", "config.txt"]);
        assert_eq!(checked["checked_frames"], 2 * 2 * 4 * 101, "mode {mode}");
        assert_eq!(plain.get("checked_frames"), None);
        for same in ["packets", "packet_hops", "events", "flows", "slowdown", "cc"] {
            assert_eq!(checked[same], plain[same], "mode {mode}: {same}");
        }
    }
}

/// The plots are there, with a line for the bin of the flows' size, one for the queue that all flows share, and one for each flow.
#[test]
fn plots_have_a_line_for_each_bin_queue_and_flow() {
    let folder = star(1);
    printed(&folder, &["sim", "config.txt", "--output", "out", "--svg", "--interval", "1us"]);
    for (name, line, lines) in [
        ("slowdown.svg", "<title>100 kB to 1 MB: 4 flows</title>", 1),
        ("queues.svg", "<title>node 5 port 1 class 3</title>", 1),
        ("rates.svg", "<title>flow 3</title>", 4),
    ] {
        let svg = read(&folder, &format!("out/{name}"));
        assert!(svg.contains(line) && svg.ends_with("</svg>\n"), "{name}: {svg}");
        assert_eq!(svg.matches("<title>").count(), lines, "{name}");
    }
    let refused = hil(&folder, &["sim", "config.txt", "--svg"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--output <DIR>"));
}

#[test]
fn options_that_are_wrong_are_refused_and_leave_no_file() {
    let folder = star(1);
    for (arguments, shown) in [
        (&["--pcap", "5:7=x.pcapng"][..], "--pcap: no port 7 at node 5, which has 5, counted from 1"),
        (&["--pcap", "5=x.pcapng"], "expected a node, a port and a file, such as 9:1=port.pcapng"),
        (&["--pcap", "5:1=flow.txt"], "is ./flow.txt, which is read"),
        (&["--series", "flow.txt"], "is ./flow.txt, which is read"),
        (&["--series", "-", "--pcap", "0:1=-"], "two outputs are to be written there"),
        (&["--series", "x.csv", "--interval", "0us"], "expected whole nanoseconds, at least one and below 1000000 s"),
        (&["--series", "x.csv", "--interval", "1.5ns"], "expected whole nanoseconds"),
        (&["--series", "x.csv", "--interval", "20"], "with a unit, such as 10us"),
        (&["--series", "x.csv", "--pcap", "6:1=x.pcapng"], "--pcap: no port 1 at node 6, which has 0"),
    ] {
        let output = hil(&folder, &[&["sim", "./config.txt"], arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(shown), "{arguments:?}: {error}");
        let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let left: Vec<_> = names.filter(|path| path.extension() != Some(Path::new("txt").as_os_str())).collect();
        assert!(left.is_empty(), "{arguments:?}: {left:?}");
    }
}

#[test]
fn outputs_of_one_name_are_refused_and_nothing_is_written() {
    let folder = star(1);
    for arguments in [
        &["--series", "a", "--pcap", "0:1=a"][..],
        &["--series", "a", "--pcap", "0:1=./a"],
        &["--pcap", "0:1=a", "--pcap", "1:1=a"],
        &["--output", "out", "--series", "out/fct.txt"],
        &["--output", "out", "--svg", "--pcap", "0:1=out/../out/queues.svg"],
    ] {
        let output = hil(&folder, &[&["sim", "config.txt"], arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && error.contains("two outputs are to be written there"),
            "{arguments:?}: {error}"
        );
        let is_empty =
            |name: &str| fs::read_dir(folder.path().join(name)).is_ok_and(|mut files| files.next().is_none());
        assert!(!folder.path().join("a").exists() && (!arguments.contains(&"out") || is_empty("out")));
    }
}

/// An interval of the command line replaces that of the scenario; the distributions end with all flows, and with all of the time.
#[test]
fn an_interval_is_measured_and_distributions_are_written() {
    let folder = star(1);
    let measure = ["sim", "config.txt", "--twice", "--measure", "2.000005s..2.000025s", "--window", "10us"];
    let summary = json(&folder, &[&measure[..], &["--distributions", "d.csv"]].concat());
    let link = |link: &&Value| link["node"] == 5 && link["to"] == 0;
    let links = summary["measured"]["links"].as_array().unwrap();
    assert!(links.iter().find(link).unwrap()["utilisation"].as_f64().unwrap() > 0.9, "{summary}");
    assert_eq!(summary["measured"]["fairness"]["window_us"], 10.0);
    let csv = read(&folder, "d.csv");
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("quantity,node,port,tag,value,share"));
    for quantity in ["fct_ns,,,,", "slowdown,,,,", "jain,,,,", "queue_bytes,5,1,,", "buffer_bytes,5,,,"] {
        let last = lines.clone().rfind(|line| line.starts_with(quantity));
        assert!(last.is_some_and(|line| line.ends_with(",1.000000000")), "{quantity}: {csv}");
    }
    let piped = hil(&folder, &[&measure[..], &["--distributions", "-", "--format", "json"]].concat());
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), csv);
    assert!(piped.stderr.starts_with(b"{\n"), "the summary goes to standard error");
    let refused = |arguments: &[&str], shown: &str| {
        let output = hil(&folder, &[&["sim", "config.txt"], arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(shown), "{error}");
    };
    refused(&["--measure", "2s..1s"], "expected two times, the first before the second, such as 150ms..350ms");
    refused(&["--measure", "2s..3s"], "--measure: the run ends at 2100000000 ns, before the interval does");
    refused(&["--window", "1us"], "--window: nothing is measured");
    refused(&["--series", "a.csv", "--distributions", "a.csv"], "two outputs are to be written there");
}
