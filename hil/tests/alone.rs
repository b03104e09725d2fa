//! The program outside of its source tree.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a copy of the program in a folder that contains nothing else.
fn alone(folder: &Path, arguments: &[&str]) -> Output {
    let program = folder.join("hil");
    if !program.exists() {
        // Copied by another process: while this one has the copy open, a test in another thread may start a program that inherits
        // the open file, and then the copy cannot be run ("text file busy").
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_hil")).arg(&program).status().unwrap();
        assert!(copied.success());
    }
    Command::new(program).args(arguments).current_dir(folder).env_remove("RNIC_CC_TREE").output().unwrap()
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refused(output: &Output) -> String {
    assert!(!output.status.success());
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn commands_without_firmware_work_without_a_source_tree() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(&alone(folder, &["synth", "out.pcapng", "--duration", "100"]));
    assert!(done(&alone(folder, &["replay", "out.pcapng"])).contains("dcqcn"));
    assert!(done(&alone(folder, &["list"])).contains("dcqcn"));
}

#[test]
fn commands_that_need_a_source_tree_name_the_option_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(&alone(folder, &["synth", "out.pcapng", "--duration", "100"]));
    for core in ["ibex", "qemu:mps2-an385"] {
        let text = refused(&alone(folder, &["replay", "out.pcapng", "--core", core]));
        let is_missing = text.starts_with("skipped: qemu-system-arm");
        assert!(is_missing || text.contains("--firmware ELF") && text.contains("--tree DIR"), "{text}");
    }
    for verb in [&["cycles"][..], &["footprint"], &["check"]] {
        assert!(refused(&alone(folder, verb)).contains("--tree DIR"), "{verb:?}");
    }
    assert!(refused(&alone(folder, &["cycles", "--tree", "."])).contains("no source tree of rnic-cc"));
}

#[test]
fn a_tree_of_other_sources_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let other = folder.join("other");
    fs::create_dir(&other).unwrap();
    for file in ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"] {
        fs::copy(root.join(file), other.join(file)).unwrap();
    }
    for part in ["cc-core", "cc-cp", "cc-np", "cc-rp", "targets"] {
        fs::create_dir(other.join(part)).unwrap();
    }
    let text = refused(&alone(folder, &["cycles", "--algorithm", "pfc", "--tree", "other"]));
    assert!(text.contains("are others than those this hil was built from"), "{text}");
}
