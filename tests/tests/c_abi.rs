//! The C header and its library: the layout of structs, the functions' behaviour, and the symbols that a program links.

use rnic_cc::types::{
    Ack, Arrival, CounterInfo, Decision, Event, Link, Moment, Reply, Sent, Setting, Slot, Telemetry, Text,
};
use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Compiles a program, with warnings as errors. Returns its path, or `None` if no compiler is installed.
fn compile(source: &Path, folder: &Path, more: &[&Path]) -> Option<PathBuf> {
    let program = folder.join("program");
    let compiler = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(root().join("targets/c-abi/include"))
        .arg(source)
        .args(more)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .output();
    let Ok(output) = compiler else {
        eprintln!("skipped: cc is not installed");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

macro_rules! layout {
    ($text:ident, $($name:literal = $type:ty { $($field:ident),* })+) => {
        $(
            writeln!($text, "_Static_assert(sizeof({}) == {}, \"{0}\");", $name, size_of::<$type>()).unwrap();
            writeln!($text, "_Static_assert(_Alignof({}) == {}, \"{0}\");", $name, align_of::<$type>()).unwrap();
            $(
                let (field, offset) = (stringify!($field).replace("default", "value"), offset_of!($type, $field));
                writeln!($text, "_Static_assert(offsetof({}, {field}) == {offset}, \"{0}.{field}\");", $name).unwrap();
            )*
        )+
    };
}

#[test]
fn structs_have_the_same_layout_in_c_and_rust() {
    let mut text = String::from("#include \"rnic_cc.h\"\nint main(void) { return 0; }\n");
    layout! { text,
        "rnic_text" = Text { data, length }
        "rnic_link" = Link { line_rate, mtu, base_rtt }
        "rnic_param" = rnic_cc::Param { name, unit, text, min, max, default }
        "rnic_setting" = Setting { id, value }
        "rnic_counter" = CounterInfo { name, text }
        "rnic_moment" = Moment { now, pause, paused }
        "rnic_telemetry" = Telemetry { records, path, hops, layout }
        "rnic_sent" = Sent { psn, bytes }
        "rnic_ack" = Ack {
            telemetry, psn, acked, rtt, receiver_hold, grant_window, mlcc_advised_rate, mlcc_release, mlcc_credit, grant_flows,
            grant_utilisation, mark, hops, rx_buffer_level
        }
        "rnic_event" = Event { at, kind, of }
        "rnic_decision" = Decision { rate, window, hold, wake_in }
        "rnic_arrival" = Arrival {
            now, local_qpn, psn, bytes, payload, sent, mlcc_queue, mlcc_credit, has_mlcc, has_sent, ecn, first, last,
            telemetry
        }
        "rnic_reply" = Reply {
            grant_window, mlcc_advised_rate, mlcc_release, mlcc_credit, grant_flows, grant_utilisation, echo, cnp, cnp_body
        }
        "rnic_slot" = Slot { action, local_qpn, cnp_body }
    }
    for (role, entries) in [
        ("rp", cc_rp::registry::ALL.iter().map(|entry| (entry.name, entry.state_bytes)).collect::<Vec<_>>()),
        ("np", cc_np::registry::ALL.iter().map(|entry| (entry.name, entry.state_bytes)).collect()),
    ] {
        for (name, bytes) in entries {
            // The state, and a word for the port that opened the flow.
            let (constant, bytes) = (format!("RNIC_{role}_{name}").to_uppercase(), bytes.next_multiple_of(4) + 4);
            for part in ["port", "flow"] {
                let upper = part.to_uppercase();
                for (operator, what) in [("sizeof", "BYTES"), ("_Alignof", "ALIGN")] {
                    let types = format!("{operator}(rnic_{role}_{name}_{part}) == {constant}_{upper}_{what}");
                    writeln!(text, "_Static_assert({types}, \"{name}\");").unwrap();
                }
            }
            let rounded =
                format!("({bytes} + {constant}_FLOW_ALIGN - 1) / {constant}_FLOW_ALIGN * {constant}_FLOW_ALIGN");
            writeln!(text, "_Static_assert({constant}_FLOW_BYTES == {rounded}, \"{name}\");").unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("layout.c");
    std::fs::write(&source, text).unwrap();
    compile(&source, folder.path(), &[]);
}

#[test]
fn the_header_equals_the_generator_s_output() {
    let kept = std::fs::read_to_string(hil_measure::header::path().unwrap()).unwrap();
    assert!(
        kept == hil_measure::header::text(),
        "the header is outdated: run hil check header, and commit what it writes"
    );
}

#[test]
fn a_c_program_gets_the_results_that_the_header_documents() {
    let library = hil_measure::library::build("x86_64-unknown-linux-gnu").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/c/behaviour.c");
    let Some(program) = compile(&source, folder.path(), &[&library.path]) else { return };
    let run = Command::new(program).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
}

#[test]
fn algorithms_that_are_not_called_are_not_linked() {
    let library = hil_measure::library::build("riscv32imc-unknown-none-elf").unwrap();
    let functions = hil_measure::library::functions();
    let chosen =
        |start: &str| -> Vec<String> { functions.iter().filter(|name| name.starts_with(start)).cloned().collect() };
    let swift = hil_measure::library::names(&library.link(&chosen("rnic_rp_swift_")).unwrap()).unwrap();
    assert!(swift.iter().any(|name| name.contains("cc_rp::swift")));
    for other in ["dcqcn", "hpcc", "powertcp", "timely", "rcc", "acc", "pfc", "cc_np"] {
        // If two algorithms have equally many settings, the compiler merges their equal accessors under one name.
        let shared = |name: &str| name.contains("core::params::Settings");
        // The names of anonymous constants are hashes, whose digits may spell the name of an algorithm (acc).
        let unnamed = |name: &str| name.starts_with(".Lanon.");
        let unexpected: Vec<_> =
            swift.iter().filter(|name| name.contains(other) && !shared(name) && !unnamed(name)).collect();
        assert!(unexpected.is_empty(), "{other}: {unexpected:?}");
    }
}

/// The header's command builds an archive without a panic, which links with code that nothing calls; that of `cargo build` has
/// the panics of the crates below, which only `--gc-sections` removes.
#[test]
fn without_gc_sections_the_archive_links_or_the_linker_says_what_to_add() {
    const TARGET: &str = "riscv32imc-unknown-none-elf";
    let functions = ["rnic_rp_dcqcn_on".to_owned()];
    let library = hil_measure::library::build(TARGET).unwrap();
    library.link_with(&[], &functions).unwrap();
    let folder = root().join("target/c_abi");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "rnic-cc", "--profile", "firmware", "--target", TARGET, "--target-dir"])
        .arg(&folder)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let path = folder.join(TARGET).join("firmware/librnic_cc.a");
    let plain = hil_measure::library::Archive { path, ..library };
    plain.link(&functions).unwrap();
    let error = plain.link_with(&[], &functions).unwrap_err().to_string();
    let advice = "undefined symbol: build_rnic_cc_with_profile_firmware_and_link_it_with_gc_sections";
    assert!(error.contains(advice), "{error}");
}
