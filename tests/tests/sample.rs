//! The sample capture in `tests/data` equals the output of the simulated fabric, byte by byte.

use std::process::Command;

#[test]
fn the_documented_command_makes_the_sample() {
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
