//! The decisions of every algorithm and every stage equal the golden file, see [`tests::decisions`].

use std::fs;
use tests::decisions::{golden, path, runs};

fn assert_golden(prefix: &str) {
    let golden = golden(&fs::read_to_string(path()).unwrap());
    let runs = runs(prefix, false);
    let differences: Vec<String> = runs.iter().filter_map(|run| run.difference(&golden)).collect();
    let advice = "if the change is intended, run cargo run -p tests --example decisions -- --write; \
                  the file's head says how to see the first difference";
    assert!(differences.is_empty(), "{}\n{advice}", differences.join("\n"));
    let lines = golden.keys().filter(|name| name.starts_with(prefix)).count();
    assert_eq!(lines, runs.len(), "{prefix}: lines in the golden file, and runs");
}

#[test]
fn rates_and_frames_of_nics_equal_the_golden_file() {
    assert_golden("nic ");
}

#[test]
fn verdicts_of_stages_equal_the_golden_file() {
    assert_golden("stage ");
}

#[test]
fn captures_of_the_fabric_equal_the_golden_file() {
    assert_golden("synth ");
}
