//! `hil sim` as a program.

use hil_devices::core_log;
use hil_devices::native::Native;
use hil_devices::reference::Reference as _;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Two hosts send 20 kB each to one.
const CORES: &str = "[topology]\nkind = \"star\"\nhosts = 3\nrate = \"1Gb/s\"\ndelay = \"1us\"\n[algorithm]\nname = \"dcqcn\"\n\
                     [[workload]]\nkind = \"incast\"\nbytes = \"20kB\"\n";

fn sim(arguments: &[&str], folder: &Path) -> Output {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut sim = Command::new(env!("CARGO_BIN_EXE_hil"));
    sim.env("RNIC_CC_TREE", tree).arg("sim").args(arguments).current_dir(folder).output().unwrap()
}

/// The examples run twice, with events added in an order of their own, and write the same files as with another order.
#[test]
fn the_examples_write_the_same_files_in_any_order_of_events() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("sim/scenarios");
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "incast",
        "dumbbell",
        "parking-lot",
        "faults",
        "link-failure",
        "leaf-spine-websearch",
        "fat-tree-permutation",
        "collectives",
        "requests",
        "inside-and-across",
        "fair-shares",
        "cores",
    ] {
        let scenario = scenarios.join(name).with_extension("toml");
        let files = ["1", "5"].map(|order| {
            let out = folder.path().join(order);
            let arguments = ["--twice", "--shuffle", order, "--output"].map(Path::new);
            let arguments = [&[scenario.as_path()][..], &arguments, &[&out]].concat();
            let arguments: Vec<&str> = arguments.iter().map(|argument| argument.to_str().unwrap()).collect();
            let output = sim(&arguments, folder.path());
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            ["fct.txt", "pfc.txt"].map(|file| fs::read(out.join(file)).unwrap())
        });
        assert!(!files[0][0].is_empty() && files[0] == files[1], "{name}");
    }
}

/// All acknowledgements are lost: the run ends with its own exit code, its files and its summary.
#[test]
fn a_run_that_stalls_writes_its_report_and_names_the_flow() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = "[topology]\nkind = \"star\"\nhosts = 2\nrate = \"100Gb/s\"\ndelay = \"1us\"\n[algorithm]\nname = \"dcqcn\"\n\
                    [[workload]]\nkind = \"incast\"\nbytes = 1000\n[[faults]]\nkind = \"loss\"\npackets = \"ack\"\n";
    fs::write(folder.path().join("a.toml"), scenario).unwrap();
    let output = sim(&["a.toml", "--output", "out", "--format", "json"], folder.path());
    assert_eq!(output.status.code(), Some(5));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("error: nothing has progressed since 0.1"), "{error}");
    assert!(error.contains("flow 0 from node 1 to node 0, PSN 16777088: it is not in the network"), "{error}");
    assert!(error.contains("fault 0 lost a frame of the flow from node 0 to node 2"), "{error}");
    let summary = String::from_utf8(output.stdout).unwrap();
    assert!(summary.contains("\"stall\": {") && summary.contains("\"psn\": 16777088"), "{summary}");
    assert_eq!(fs::read(folder.path().join("out/fct.txt")).unwrap(), b"");
}

#[test]
fn an_output_that_is_a_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/sim/scenarios/incast.toml");
    fs::write(folder.path().join("out"), "kept").unwrap();
    let output = sim(&[scenario, "--output", "out"], folder.path());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && error.contains("--output out: is a file: expected the name of a folder"),
        "{error}"
    );
    assert_eq!(fs::read(folder.path().join("out")).unwrap(), b"kept");
}

#[test]
fn an_error_shows_the_place() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.toml"), "duration = \"1ms\"\n[topology]\nkind = \"stare\"\n").unwrap();
    let output = sim(&["a.toml"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains(" --> a.toml:3:8\n  |\n3 | kind = \"stare\"\n  |        ^^^^^^^"), "{error}");
}

/// The log of a run has a line for each event, command and timer interrupt that the summary counts, each of which can be read. It gets its
/// name when it is whole, and standard output has nothing else if it goes there.
#[test]
fn the_log_of_cores_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.toml"), CORES).unwrap();
    let with_log =
        |log| sim(&["a.toml", "--rp-core", "ibex@250MHz", "--format", "json", "--core-log", log], folder.path());
    let [to_file, to_output] = ["cores.log", "-"].map(|log| {
        let output = with_log(log);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    });
    let log = fs::read_to_string(folder.path().join("cores.log")).unwrap();
    assert!(to_output.stdout == log.as_bytes(), "the log on standard output is another");
    let [summary, other] =
        [&to_file.stdout, &to_output.stderr].map(|text| serde_json::from_slice::<Value>(text).unwrap());
    assert_eq!(summary["cores"][0]["events"], other["cores"][0]["events"]);
    let mut lines = log.lines();
    assert_eq!(lines.next(), Some(core_log::HEADER));
    let [mut commands, mut timers, mut events] = [0; 3];
    for line in lines {
        let (host, part, entry) = core_log::parse(line).unwrap();
        assert!((0..3).contains(&host) && part == "rp", "{line}");
        *(match &entry.handled.descriptor {
            None => &mut timers,
            Some((descriptor, _)) if Native::is_command(descriptor) => &mut commands,
            Some(_) => &mut events,
        }) += 1;
    }
    let counted = ["commands", "timers", "events"].map(|name| summary["cores"][0][name].as_u64().unwrap());
    assert_eq!([commands, timers, events], counted);
    assert!(events > 30 && commands > 0, "{counted:?}");
    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.toml", "cores.log"]);
}

/// A log that cannot be written, and options that the cores have no use for, are refused before anything runs.
#[test]
fn options_of_cores_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.toml"), CORES).unwrap();
    fs::create_dir(folder.path().join("logs")).unwrap();
    let rp: &[&str] = &["--rp-core", "ibex@250MHz"];
    for (cores, log, expected) in [
        (rp, "nowhere/cores.log", "error: nowhere/cores.log: No such file or directory"),
        (rp, "logs", "error: logs: exists and is not a regular file: give the name of a file"),
        (rp, "a.toml", "error: a.toml: is a.toml, which is read: give another name"),
        (
            &[],
            "cores.log",
            "--core-log: there is no core: give --rp-core, --np-core or --stage-core, or [[cores]] in the scenario",
        ),
        (
            &["--stage-core", "ibex@1GHz", "--core-count", "2"],
            "cores.log",
            "--core-count and --core-policy join: are for cores at hosts: give --rp-core or --np-core",
        ),
    ] {
        let arguments = [&["a.toml", "--core-log", log], cores].concat();
        let output = sim(&arguments, folder.path());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && error.contains(expected), "{error}");
        assert!(output.stdout.is_empty(), "{log}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("a.toml")).unwrap(), CORES);
}
