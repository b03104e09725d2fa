//! Every decision of every algorithm and every stage is the one that the golden file has, see [`tests::decisions`].

use std::fs;
use tests::decisions::{golden, path, runs};

fn assert_golden(prefix: &str) {
    let golden = golden(&fs::read_to_string(path()).unwrap());
    let runs = runs(prefix, false);
    let differences: Vec<String> = runs.iter().filter_map(|run| run.difference(&golden)).collect();
    let advice =
        "if that is meant, cargo run -p tests --example decisions -- --write; the file's head says how to see more";
    assert!(differences.is_empty(), "{}\n{advice}", differences.join("\n"));
    let lines = golden.keys().filter(|name| name.starts_with(prefix)).count();
    assert_eq!(lines, runs.len(), "{prefix}: lines in the golden file, and runs");
}

#[test]
fn rates_and_frames_of_nics_are_those_written_down() {
    assert_golden("nic ");
}

#[test]
fn verdicts_of_stages_are_those_written_down() {
    assert_golden("stage ");
}

#[test]
fn captures_of_the_fabric_are_those_written_down() {
    assert_golden("synth ");
}
