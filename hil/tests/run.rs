//! The program `hil run`, from an ELF file to its output.

use std::path::PathBuf;
use std::process::{Command, Output};

use hil_cores::core::assemble::*;

const BASE: u32 = 0x0010_0000;
const MARKER: u32 = 0x8000_0000;

/// An ELF file with one segment that holds `program`; `change` may corrupt the bytes.
fn elf(program: &Program, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let size = program.bytes().len() as u32;
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    for half in [2_u16, 243] {
        file.extend(half.to_le_bytes());
    }
    for word in [1, program.base(), 52, 0, 0] {
        file.extend(word.to_le_bytes());
    }
    for half in [52_u16, 32, 1, 40, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    for word in [1, 84, program.base(), program.base(), size, size, 7, 4] {
        file.extend(word.to_le_bytes());
    }
    file.extend(program.bytes());
    change(&mut file);
    file
}

/// Two markers around a multiplication and a division, then exit 7.
fn program() -> Program {
    let mut program = Program::at(BASE);
    program.load_immediate(28, MARKER);
    program.put(addi(1, 0, 42));
    program.put(sw(1, 28, 0));
    program.put(mul(2, 1, 1));
    program.put(div(3, 2, 1));
    program.put(sw(2, 28, 0));
    program.put(addi(1, 0, 7));
    program.put(sw(1, 28, 16));
    program.put(jal(0, 0));
    program
}

struct Run {
    folder: tempfile::TempDir,
    arguments: Vec<String>,
}

impl Run {
    fn of(file: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("image.elf"), file).expect("the image is written");
        let arguments = ["--core", "ibex", "--ram", "0x100000:64K", "--marker", "0x80000000", "--exit", "0x80000010"];
        Self { folder, arguments: arguments.map(String::from).to_vec() }
    }

    fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    fn replacing(mut self, from: &str, to: &str) -> Self {
        for argument in &mut self.arguments {
            if argument == from {
                *argument = to.to_owned();
            }
        }
        self
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image.elf")
    }

    fn output(&self) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hil"));
        command.arg("run").arg(self.image()).args(&self.arguments).output().expect("hil starts")
    }

    /// The error message of a refused run: one line, with nothing on standard output.
    fn refusal(&self) -> String {
        let output = self.output();
        assert!(!output.status.success());
        assert!(output.stdout.is_empty(), "{output:?}");
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.starts_with("error: "), "{text}");
        text
    }

    fn success(&self) -> String {
        let output = self.output();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }
}

/// The first marker comes after `lui`, two `addi` and a store. Until the second, the store takes 2 cycles, `mul` 3 and `div`
/// 37.
#[test]
fn markers_are_printed_with_cycles_and_instructions() {
    let run = Run::of(&elf(&program(), |_| {}));
    assert_eq!(
        run.success(),
        "marker 0x0000002a cycles 3 instructions 3\nmarker 0x000006e4 cycles 45 instructions 6\nexit 7\n"
    );
    assert_eq!(
        run.with(&["--format", "json"]).success(),
        "{\"markers\":[{\"value\":42,\"cycles\":3,\"instructions\":3},\
         {\"value\":1764,\"cycles\":45,\"instructions\":6}],\"exit\":7}\n"
    );
}

/// The cycles between the markers are those of a store, `mul` and `div` on each core.
#[test]
fn every_core_takes_the_cycles_of_its_design() {
    let times =
        [("ibex", 2 + 3 + 37), ("ibex-maxperf", 1 + 1 + 37), ("picorv32", 5 + 6 + 40), ("picorv32-min", 5 + 40 + 40)];
    for (core, expected) in times {
        let json = Run::of(&elf(&program(), |_| {})).replacing("ibex", core).with(&["--format", "json"]).success();
        let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let [first, second] = [0, 1].map(|index| report["markers"][index]["cycles"].as_u64().expect("cycles"));
        assert_eq!(second - first, expected, "{core}");
    }
}

/// In the wave each instruction begins when the one before has taken its cycles. One cycle is a nanosecond here.
#[test]
fn a_wave_shows_every_instruction_in_its_cycle() {
    let run = Run::of(&elf(&program(), |_| {}));
    let path = run.folder.path().join("wave.vcd");
    let run = run.with(&["--vcd", path.to_str().expect("text"), "--clock", "1000000000"]);
    run.success();
    let wave = std::fs::read_to_string(&path).expect("a wave");
    let code = wave.split_once("$var wire 32 ").and_then(|(_, rest)| rest.split_once(" pc $end")).expect("pc").0;
    let (mut time, mut begun) = (0, Vec::new());
    for line in wave.lines() {
        if let Some(stamp) = line.strip_prefix('#') {
            time = stamp.parse().expect("a time");
        } else if let Some((bits, _)) =
            line.strip_prefix('b').and_then(|rest| rest.split_once(' ')).filter(|(_, of)| *of == code)
            && let Ok(pc) = u32::from_str_radix(bits, 2)
        {
            begun.push((time, (pc - BASE) / 4));
        }
    }
    let expected = [0, 1, 2, 3, 5, 8, 45, 47, 48].map(|cycle| cycle * 1_000).into_iter().zip(0..);
    assert_eq!(begun, expected.collect::<Vec<(u64, u32)>>());
    assert_eq!(std::fs::read_dir(run.folder.path()).expect("a folder").count(), 2, "image and wave, and nothing else");
}

#[test]
fn a_wave_on_standard_output_is_the_one_in_a_file_and_the_markers_go_to_standard_error() {
    let run = Run::of(&elf(&program(), |_| {}));
    let path = run.folder.path().join("wave.vcd");
    let run = run.with(&["--vcd", path.to_str().expect("text")]);
    let markers = run.success();
    let output = Run::of(&elf(&program(), |_| {})).with(&["--vcd", "-"]).output();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, std::fs::read(&path).expect("a wave"));
    assert_eq!(String::from_utf8_lossy(&output.stderr), markers);
}

/// With a wait state, two words are fetched in three cycles, and the response to the store comes one cycle later.
#[test]
fn wait_states_cost_cycles() {
    let json = Run::of(&elf(&program(), |_| {})).with(&["--wait", "1", "--format", "json"]).success();
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(report["markers"][1]["instructions"], 6);
    let (first, second) = (report["markers"][0]["cycles"].as_u64(), report["markers"][1]["cycles"].as_u64());
    assert!(first > Some(3), "{json}");
    assert_eq!(second.zip(first).map(|(second, first)| second - first), Some(43), "{json}");
}

#[test]
fn bad_images_are_refused_in_one_line() {
    let good = elf(&program(), |_| {});
    assert!(Run::of(b"").refusal().contains("not an ELF file"));
    assert!(Run::of(b"plain text, and more of it").refusal().contains("not an ELF file"));
    assert!(Run::of(&elf(&program(), |file| file[4] = 2)).refusal().contains("32-bit"));
    assert!(Run::of(&elf(&program(), |file| file[5] = 2)).refusal().contains("little-endian"));
    assert!(Run::of(&elf(&program(), |file| file[16] = 1)).refusal().contains("executable"));
    assert!(Run::of(&elf(&program(), |file| file[18] = 40)).refusal().contains("RISC-V"));
    assert!(Run::of(&elf(&program(), |file| file[44] = 0)).refusal().contains("nothing to load"));
    let outside = Run::of(&good).replacing("0x100000:64K", "0x200000:64K").refusal();
    assert!(outside.contains("0x00100000") && outside.contains("outside RAM"), "{outside}");
    for length in 0..good.len() {
        Run::of(&good[..length]).refusal();
    }
}

#[test]
fn bad_arguments_are_refused_in_one_line() {
    let run = || Run::of(&elf(&program(), |_| {}));
    assert!(run().replacing("ibex", "z80").refusal().contains("unknown core z80"));
    assert!(run().replacing("0x100000:64K", "64K").refusal().contains("BASE:SIZE"));
    assert!(run().replacing("0x80000000", "0x100010").refusal().contains("lies in RAM"));
    assert!(run().replacing("0x80000000", "0x80000010").refusal().contains("same address"));
    assert!(run().replacing("0x80000000", "soon").refusal().contains("number"));
    assert!(run().with(&["--ram", "0x10ff00:4K"]).refusal().contains("overlap"));
    assert!(run().with(&["--wait", "some"]).refusal().contains("--wait"));
    let mut missing = run();
    std::fs::remove_file(missing.image()).expect("the image is removed");
    assert!(missing.refusal().contains("cannot read"));
    missing.arguments.truncate(2);
    assert!(missing.refusal().contains("--ram"));
}

#[test]
fn a_run_that_cannot_end_is_refused() {
    let one = |instruction: u32| {
        let mut program = Program::at(BASE);
        program.put(instruction);
        Run::of(&elf(&program, |_| {}))
    };
    assert!(one(jal(0, 0)).with(&["--max-cycles", "1000"]).refusal().contains("within 1000 cycles"));
    assert!(one(wfi()).refusal().contains("interrupt"));
    assert!(one(jalr(0, 0, 16)).refusal().contains("fetch outside RAM"));
    assert!(one(lw(1, 0, 0)).refusal().contains("access outside RAM and devices: address 0x00000000, pc 0x00100000"));
    assert!(one(ecall()).refusal().contains("ecall without a trap vector"));
    assert!(one(0).refusal().contains("illegal instruction"));
}
