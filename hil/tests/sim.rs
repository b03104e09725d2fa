//! `hil sim` as a program.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn sim(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hil")).arg("sim").args(arguments).current_dir(folder).output().unwrap()
}

/// The examples run twice, with events added in an order of their own, and write the same files as with another order.
#[test]
fn the_examples_write_the_same_files_in_any_order_of_events() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("sim/scenarios");
    let folder = tempfile::tempdir().unwrap();
    for name in
        ["incast", "dumbbell", "parking-lot", "leaf-spine-websearch", "fat-tree-permutation", "collectives", "requests"]
    {
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

#[test]
fn an_error_shows_the_place() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.toml"), "duration = \"1ms\"\n[topology]\nkind = \"stare\"\n").unwrap();
    let output = sim(&["a.toml"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains(" --> a.toml:3:8\n  |\n3 | kind = \"stare\"\n  |        ^^^^^^^"), "{error}");
}
