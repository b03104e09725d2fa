//! The project's experiments: every scenario of theirs can be read, and the case that stands for each holds its criteria.

use hil_papers::{Options, experiments, find, run, save};
use hil_sim::fabric::{Examples, Network};
use std::collections::BTreeSet;
use std::path::Path;

fn options() -> Options {
    Options { preset: "stable".to_owned(), short: true, threads: 2 }
}

#[test]
fn every_file_is_in_the_list_and_has_an_id_of_its_own() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let names: BTreeSet<String> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let ids = experiments().unwrap().into_iter().map(|experiment| experiment.id.to_lowercase());
    assert_eq!(ids.collect::<BTreeSet<String>>(), names);
}

/// The scenarios of all cases, as they are written for `hil sim`, under both presets.
#[test]
fn every_scenario_can_be_simulated() {
    let folder = tempfile::tempdir().unwrap();
    for experiment in experiments().unwrap() {
        for preset in ["stable", "paper"].into_iter().filter(|preset| experiment.has_preset(preset)) {
            for name in save(&experiment, preset, folder.path()).unwrap() {
                let input = hil_sim::read(&folder.path().join(&name), None);
                let input = input.unwrap_or_else(|error| panic!("{} {preset}: {error:#}", experiment.id));
                let scenario = input.scenario();
                let examples = Examples::new(&scenario).unwrap();
                let network = Network::new(&scenario, &examples);
                assert!(network.is_ok(), "{} {preset}: {name}: {:#}", experiment.id, network.err().unwrap());
            }
        }
    }
}

#[test]
fn the_case_that_stands_for_each_experiment_holds_its_criteria() {
    let mut short = experiments().unwrap();
    short.retain(|experiment| experiment.short.is_some());
    for outcome in run(&short, &options(), &|_, _| ()).unwrap() {
        println!("{outcome}\n");
        assert_eq!(outcome.criterion_holds, Some(true), "{outcome}");
    }
}

const MINIMAL: &str = r#"
id = "X-1"
source = ""
claim = ""
tier = 2
seeds = 2
[scenario]
duration = "100us"
topology = { kind = "star", hosts = 3, rate = "10Gb/s", delay = "1us" }
algorithm = { name = "pfc" }
workload = [{ kind = "incast", receiver = 0, senders = 1, bytes = "1GB" }]
measure = { from = "50us", until = "100us" }
[[axes]]
name = "senders"
points = [{ name = "one" }, { name = "two", set = { "workload/0/senders" = 2 } }]
[[values]]
name = "sum"
measure = { rates = { figure = "sum" } }
[[values]]
name = "most"
measure = { rates = { figure = "most" } }
[[values]]
name = "share"
ratio = { value = "most", of = "two", to = "one" }
at_least = 0.49
at_most = 0.51
paper = "half"
claim = [0.9, 1.0]
"#;

/// One sender has the link; two share it, so that each has half of what one had: 1,000 bytes of payload in 1,078 on the line, which
/// are 9.276 Gb/s of 10.
#[test]
fn values_and_ratios_are_judged_by_their_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.toml");
    std::fs::write(&file, MINIMAL).unwrap();
    let experiment = find(file.to_str().unwrap()).unwrap();
    assert_eq!(experiment.runs(), 4);
    let outcomes = run(&[experiment], &Options { short: false, ..options() }, &|_, _| ()).unwrap();
    let [outcome] = outcomes.as_slice() else { panic!() };
    assert_eq!((outcome.criterion_holds, outcome.paper_claim_met), (Some(true), Some(false)), "{outcome}");
    let sums = outcome.values.iter().filter(|value| value.name == "sum");
    for sum in sums {
        let median = sum.median.unwrap();
        assert!((median - 10.0 * 1000.0 / 1078.0).abs() < 0.2, "{median}");
    }
}

#[test]
fn errors_name_what_is_wrong() {
    for (from, to, expected) in [
        ("tier = 2", "tier = 9", "`tier`: expected 2 or 3, not `9`"),
        ("name = \"two\"", "name = \"one\"", "two points are named \"one\""),
        ("value = \"most\"", "value = \"least\"", "share: no value before it is named \"least\""),
        ("of = \"two\"", "of = \"three\"", "share: no axis has a point \"three\""),
        (
            "figure = \"most\"",
            "figure = \"mst\"",
            "`figure`: expected sum, mean, least, most, jain or { quantile = SHARE }, not `\"mst\"`",
        ),
        ("source = \"\"", "", "no `source`: expected a text in quotes"),
        ("[scenario]", "presets = { stable = {} }\n[scenario]", "presets.stable: the scenario itself has this preset"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.toml");
        std::fs::write(&file, MINIMAL.replacen(from, to, 1)).unwrap();
        let error = format!("{:#}", find(file.to_str().unwrap()).unwrap_err());
        assert!(error.contains(expected) && error.contains("x.toml"), "{error}");
    }
    let error = find("XX-1").unwrap_err().to_string();
    assert!(error.contains("no experiment XX-1") && error.contains("HP-1"), "{error}");
}

/// What a case replaces must be there, and a measure must be of what the scenario has.
#[test]
fn a_run_that_cannot_be_made_names_experiment_case_and_seed() {
    for (from, to, expected) in [
        ("workload/0/senders", "workload/1/senders", "`workload` has no element 1"),
        ("workload/0/senders", "load/senders", "the scenario has no `load`"),
        (
            "{ rates = { figure = \"sum\" } }",
            "{ queue = { at = \"leaf:0\", to = \"host:0\", figure = \"mean\" } }",
            "no node \"leaf:0\"",
        ),
        ("{ rates = { figure = \"sum\" } }", "{ summary = \"/no/such\" }", "the summary has no /no/such"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.toml");
        std::fs::write(&file, MINIMAL.replacen(from, to, 1)).unwrap();
        let experiment = find(file.to_str().unwrap()).unwrap();
        let error = run(&[experiment], &Options { short: false, ..options() }, &|_, _| ()).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(expected) && error.contains("X-1: "), "{error}");
    }
}
