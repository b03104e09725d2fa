//! The sample under `tests/data` is equal, byte by byte, to the output of the simulated fabric.

use std::process::Command;

#[test]
fn the_sample_is_made_by_the_command_that_its_documentation_names() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("incast.pcapng");
    let hil = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "hil", "--", "synth", "--duration", "800"])
        .arg(&made)
        .status()
        .unwrap();
    assert!(hil.success());
    let (made, carried) = (std::fs::read(&made).unwrap(), std::fs::read(tests::sample()).unwrap());
    assert!(made == carried, "{} bytes made, {} carried", made.len(), carried.len());
}
