//! `hil replay --core qemu:...` if it cannot run: it prints one line with the reason, and ends with the exit code of skipped
//! tests.

use std::path::Path;
use std::process::Command;

/// The exit code, and the line on standard error.
fn replay(arguments: &[&str]) -> (Option<i32>, String) {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/incast.pcapng");
    let mut hil = Command::new(env!("CARGO_BIN_EXE_hil"));
    let output = hil.arg("replay").arg(sample).args(arguments).env("PATH", "/nowhere").output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_missing_emulator_is_named_with_its_package() {
    for (machine, emulator, package) in [
        ("qemu:microbit", "qemu-system-arm", "qemu-system-arm"),
        ("qemu:riscv64-virt", "qemu-system-riscv64", "qemu-system-misc"),
    ] {
        let line = format!("skipped: {emulator} is not installed: on Debian, `apt-get install {package}`\n");
        assert_eq!(replay(&["--core", machine]), (Some(77), line));
    }
}

#[test]
fn options_that_qemu_does_not_support_are_refused() {
    let refused = |arguments: &[&str], line: &str| {
        assert_eq!(replay(&[&["--core"], arguments].concat()), (Some(1), format!("error: {line}\n")));
    };
    refused(&["qemu:microbot"], "unknown core qemu:microbot: did you mean qemu:microbit?");
    let real = "--pace real: qemu:microbit is instruction-accurate, it has no cycles to go by";
    refused(&["qemu:microbit", "--pace", "real"], real);
    refused(&["qemu:microbit", "--interrupts"], "--interrupts: the image on qemu:microbit takes none");
    let vcd = "--vcd: qemu:microbit is instruction-accurate, it has no cycles to show";
    refused(&["qemu:microbit", "--vcd", "/nowhere/wave.vcd"], vcd);
    refused(&["qemu:microbit", "--log"], "--log: the image on qemu:microbit has no log");
}
