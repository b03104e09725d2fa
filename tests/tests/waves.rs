//! The waveform file of a replay, when read back, agrees with the report and with the code of the image.

use hil_algorithms::settings::Request;
use hil_capture::Source;
use hil_cores::board::Pace;
use hil_cores::core::Design;
use hil_cores::firmware::{self, Kind};
use hil_replay::report::Nic;
use hil_replay::{Images, OnCore, Options, Report, Wave, replay};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::net::IpAddr;
use std::path::Path;
use tests::sample;
use vcd::{Command, IdCode, ScopeItem, TimescaleUnit, Value, Vector};

/// A change of a variable: time in picoseconds, its path below the NIC's scope, and its new value.
type Change = (u64, String, f64);

/// The changes of each scope, in the order of the file.
fn read(path: &Path) -> BTreeMap<String, Vec<Change>> {
    let mut parser = vcd::Parser::new(BufReader::new(File::open(path).unwrap()));
    let header = parser.parse_header().unwrap();
    assert_eq!(header.timescale, Some((1, TimescaleUnit::PS)));
    let mut names: BTreeMap<IdCode, (String, String)> = BTreeMap::new();
    for item in &header.items {
        let ScopeItem::Scope(nic) = item else { continue };
        let mut named = |items: &[ScopeItem], prefix: &str| {
            for item in items {
                if let ScopeItem::Var(var) = item {
                    let name = (nic.identifier.clone(), format!("{prefix}{}", var.reference));
                    assert!(name.1.chars().all(|c| c.is_ascii_alphanumeric() || "._".contains(c)), "{}", name.1);
                    assert_eq!(names.insert(var.code, name), None);
                }
            }
        };
        named(&nic.items, "");
        for item in &nic.items {
            if let ScopeItem::Scope(inner) = item {
                named(&inner.items, &format!("{}.", inner.identifier));
            }
        }
    }
    let mut changes: BTreeMap<String, Vec<Change>> = BTreeMap::new();
    let mut now = None;
    for command in parser {
        let (code, value) = match command.unwrap() {
            Command::Timestamp(time) => {
                assert!(now < Some(time), "time stops or runs back at {time}");
                now = Some(time);
                continue;
            }
            Command::ChangeScalar(code, value) => (code, f64::from(u8::from(value == Value::V1))),
            Command::ChangeVector(code, value) => (code, number(&value)),
            Command::ChangeReal(code, value) => (code, value),
            _ => continue,
        };
        let Some(now) = now else { continue };
        let (scope, name) = &names[&code];
        changes.entry(scope.clone()).or_default().push((now, name.clone(), value));
    }
    changes
}

fn number(bits: &Vector) -> f64 {
    bits.iter().fold(0_u64, |number, bit| number << 1 | u64::from(bit == Value::V1)) as f64
}

/// Options for a replay of the sample, with a waveform, for two of its NICs: a sender and the receiver. Alpha begins at one
/// half.
fn options(path: &Path, core: Design, pace: Pace, hz: u64) -> Options {
    let sets = vec!["initial_alpha_value=512".into()];
    Options {
        algorithm: "dcqcn".into(),
        request: Request { preset: Some("paper".into()), sets, ..Request::default() },
        only: vec!["10.0.0.1".parse().unwrap(), "10.0.0.9".parse().unwrap()],
        core: Some(OnCore { name: core.name().into(), pace, firmware: None, interrupts: false }),
        wave: Some(Wave { path: path.to_owned(), inputs: Vec::new(), hz }),
        ..Options::default()
    }
}

/// Replays the sample. Returns the report and the waveform's changes.
fn recorded(path: &Path, core: Design, pace: Pace, hz: u64) -> (Report, BTreeMap<String, Vec<Change>>) {
    let options = options(path, core, pace, hz);
    let report = replay(&options, &mut Source::open(&sample()).unwrap(), |_| {}).unwrap();
    assert!(report.core.as_ref().unwrap().identical);
    (report, read(path))
}

/// The sender's NIC.
fn sender_nic(report: &Report) -> &Nic {
    report.nics.iter().find(|nic| nic.address.to_string() == "10.0.0.1").unwrap()
}

/// How often a variable changes to this value.
fn count(changes: &[Change], variable: &str, value: f64) -> u64 {
    changes.iter().filter(|(_, name, is)| name == variable && *is == value).count() as u64
}

#[test]
fn a_waveform_in_lockstep_agrees_with_the_report() {
    for core in [Design::Ibex, Design::Picorv32] {
        assert_agrees_with_the_report(core);
    }
}

fn assert_agrees_with_the_report(core: Design) {
    let folder = tempfile::tempdir().unwrap();
    let (report, waves) = recorded(&folder.path().join("sample.vcd"), core, Pace::Lockstep, 200_000_000);
    assert_eq!(waves.keys().collect::<Vec<_>>(), ["nic_10_0_0_1", "nic_10_0_0_9"]);
    let image = firmware::build("dcqcn", Kind::Inlining, core.dialect()).unwrap();
    let image = firmware::read(&image).unwrap();
    let text = &image.segments[0];
    let (mut events, mut handled) = (0, 0);
    for nic in &report.nics {
        let changes = &waves[&format!("nic_{}", nic.address.to_string().replace('.', "_"))];
        assert_eq!(count(changes, "events.cnp", 1.0), nic.rp["rp_cnp_handled"]);
        let wakes = count(changes, "events.wake", 1.0);
        assert_eq!(count(changes, "timer_pin", 1.0), wakes);
        assert_eq!(count(changes, "interrupt", 1.0), wakes);
        assert_eq!(count(changes, "pc", image.symbols["timer_entry"].into()), wakes);
        let all = changes.iter().filter(|(_, name, _)| name.starts_with("events.")).count() as u64;
        assert_eq!(count(changes, "busy_pin", 1.0), all - wakes);
        (events, handled) = (events + all, handled + nic.rp["rp_cnp_handled"]);

        // A cycle takes 5 ns. Cycles are counted from the time at which the core begins to handle an event; the first one begins
        // with cycle 0, which the waveform has from time 0 on.
        let mut begun = None;
        for (time, name, value) in changes {
            match name.as_str() {
                "cycle" => begun = (*time > 0).then_some(*time),
                "pc" => {
                    assert_eq!((time - *begun.get_or_insert(*time)) % 5_000, 0);
                    let offset = *value as u32 - text.address;
                    assert!(offset < text.bytes.len() as u32 && offset.is_multiple_of(2), "pc {value}");
                }
                _ => {}
            }
        }
    }
    assert!(handled > 0);
    assert_eq!(events, report.core.as_ref().unwrap().events);

    let sender: IpAddr = "10.0.0.1".parse().unwrap();
    let rates = report.rates.iter().find(|rates| rates.nic == sender).unwrap();
    assert_eq!(rates.every, 1);
    let (mut clock, mut points, mut alphas) = (0, Vec::new(), Vec::new());
    for (time, name, value) in &waves["nic_10_0_0_1"] {
        match name.as_str() {
            "clock_ns" => clock = *value as u64,
            "slot_0.rate_bps" => points.push((clock, *value as u64)),
            "slot_0.alpha" => alphas.push(*value),
            _ => {}
        }
        assert!(clock * 1_000 <= *time, "the event of {clock} ns was handled too early, at {time} ps");
    }
    assert_eq!(points, rates.points);
    // CNPs follow each other too fast for alpha to decay in between: each multiplies 1 - alpha by 255/256.
    let lacks =
        (0..=sender_nic(&report).rp["rp_cnp_handled"]).map(|count| 0.5 * (255.0_f64 / 256.0).powi(count as i32));
    let expected: Vec<_> = lacks.map(|lacks| 1.0 - lacks).collect();
    assert_eq!(alphas.len(), expected.len());
    assert!(alphas.iter().zip(&expected).all(|(alpha, expected)| (alpha - expected).abs() < 1e-7), "{alphas:?}");
}

#[test]
fn a_waveform_in_real_time_follows_the_clock() {
    let hz = 1_000_000_000;
    let folder = tempfile::tempdir().unwrap();
    let (report, waves) = recorded(&folder.path().join("sample.vcd"), Design::Ibex, Pace::Real { hz }, hz);
    let changes = &waves["nic_10_0_0_1"];
    assert_eq!(count(changes, "events.cnp", 1.0), sender_nic(&report).rp["rp_cnp_handled"]);
    assert_eq!(count(changes, "timer_pin", 1.0), count(changes, "events.wake", 1.0));
    let clocks = changes.iter().filter(|(_, name, _)| name == "clock_ns");
    let late: Vec<_> = clocks.map(|(time, _, clock)| time / 1_000 - *clock as u64).collect();
    // The waveform has the clock value at an event's first decision, which comes less than 10,000 cycles of 1 ns after the
    // image read that value.
    assert!(late.len() > 100 && late.iter().all(|&late| late < 10_000), "{:?}", late.iter().max());
}

/// An image that traps ends the replay with an error; the waveform is written, and shows the address at which the core trapped.
#[test]
fn the_waveform_of_an_image_that_traps_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (image, wave) = (folder.path().join("image.elf"), folder.path().join("wave.vcd"));
    let good = firmware::build("dcqcn", Kind::Inlining, Design::Ibex.dialect()).unwrap();
    let symbols = firmware::read(&good).unwrap().symbols;
    let handler = symbols["timer_entry"];
    // The first instruction of the timer's handler is replaced by zero, which is illegal. The ELF file's first program header
    // describes the code: its offset in the file at byte 4, and its address at byte 8.
    let mut bytes = std::fs::read(good).unwrap();
    let word = |at: u32| u32::from_le_bytes(bytes[at as usize..][..4].try_into().unwrap());
    let header = word(28);
    let at = (word(header + 4) + handler - word(header + 8)) as usize;
    bytes[at..at + 4].fill(0);
    std::fs::write(&image, bytes).unwrap();
    let mut options = options(&wave, Design::Ibex, Pace::Lockstep, 1_000_000_000);
    options.core.as_mut().unwrap().firmware = Some(Images { image, outlined_on: None });
    let error = replay(&options, &mut Source::open(&sample()).unwrap(), |_| {}).unwrap_err();
    // The image ends with 256 + mcause, which is 2 for an illegal instruction.
    assert!(format!("{error:#}").contains("the image ended with code 258"), "{error:#}");
    let interrupted = read(&wave).remove("nic_10_0_0_1").unwrap();
    let taken = interrupted.iter().position(|(_, name, value)| name == "interrupt" && *value == 1.0).unwrap();
    let after = interrupted[taken..].iter().filter(|(_, name, _)| name == "pc").map(|(.., pc)| *pc as u32);
    // The core executes the timer's vector, then the vector of exceptions, then their handler.
    let vectors = symbols["vectors"];
    assert_eq!(after.take(3).collect::<Vec<_>>(), [vectors + 4 * 7, vectors, symbols["unexpected"]]);
}
