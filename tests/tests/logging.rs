//! An image with logging takes the same decisions as one without, and its log lines agree with the report.

use hil_algorithms::settings::{Request, ResolvedSettings};
use hil_algorithms::{NicSize, algorithm};
use hil_capture::{Reader, Source};
use hil_cores::board::{DEVICES, Pace, RAM, board_with};
use hil_cores::core::{Core, Design};
use hil_cores::firmware::{self, Kind};
use hil_cores::log::{self, Line, LogSource, Texts};
use hil_cores::observed_core::ObservedCore;
use hil_devices::boot;
use hil_devices::lockstep::Lockstep;
use hil_devices::native::Native;
use hil_replay::replayer::{NicFilter, Replayer};
use hil_replay::{Log, OnCore, Options, Report, replay};
use programs::layout::LOG_BYTES;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use tests::sample;

type Lines = BTreeMap<IpAddr, Vec<Line>>;

const SENDER: &str = "10.0.0.1";
const RECEIVER: &str = "10.0.0.9";

/// Replays the sample for two of its NICs: a sender, and the receiver.
fn replayed(core: Design, log: Option<Log>) -> Report {
    let options = Options {
        only: vec![SENDER.parse().unwrap(), RECEIVER.parse().unwrap()],
        core: Some(OnCore { name: core.name().into(), pace: Pace::Lockstep, firmware: None, interrupts: false }),
        log,
        ..Options::default()
    };
    replay(&options, &mut Source::open(&sample()).unwrap(), |_| {}).unwrap()
}

/// Replays the sample with an image that logs. Returns the report, and the log lines of each NIC.
fn logged(core: Design) -> (Report, Lines) {
    let lines: Rc<RefCell<Lines>> = Rc::default();
    let kept = Rc::clone(&lines);
    let log = Log(Rc::new(move |nic, line| kept.borrow_mut().entry(nic).or_default().push(line)));
    let report = replayed(core, Some(log));
    (report, lines.take())
}

/// The report without cycles and memory, of which an image that logs needs more, and without the findings, which mention
/// cycles.
fn decisions(report: &Report) -> Value {
    let mut report = serde_json::to_value(report).unwrap();
    let core = report["core"].as_object_mut().unwrap();
    assert_eq!(core["identical"], true, "{}", core["difference"]);
    core.remove("cycles");
    core.remove("memory");
    report.as_object_mut().unwrap().remove("findings");
    report
}

fn count(lines: &[Line], source: LogSource, text: impl Fn(&str) -> bool) -> u64 {
    lines.iter().filter(|line| line.source == source && text(&line.text)).count() as u64
}

#[test]
fn logging_changes_no_decision_and_its_lines_agree_with_the_report() {
    for core in [Design::Ibex, Design::Picorv32] {
        let (plain, (report, lines)) = (replayed(core, None), logged(core));
        // The decisions of both images equal the library's event by event, and so do their reports.
        assert_eq!(decisions(&plain), decisions(&report));
        let (few, more) = (&plain.core.as_ref().unwrap().cycles, &report.core.as_ref().unwrap().cycles);
        assert!(few["cnp"].frame.unwrap().median < more["cnp"].frame.unwrap().median, "logging takes cycles");

        let info = LogSource::Image("info");
        for nic in &report.nics {
            let lines = &lines[&nic.address];
            assert!(lines.is_sorted_by_key(|line| line.cycle));
            assert_eq!(count(lines, LogSource::Lost, |_| true), 0);
            assert_eq!(count(lines, info, |text| text.starts_with("Cnp of slot ")), nic.rp["rp_cnp_handled"]);
            let taken = |text: &str| text == "it takes a descriptor" || text == "it takes the timer interrupt";
            assert_eq!(count(lines, info, |_| true), count(lines, LogSource::Harness, taken));
            let frames = count(lines, LogSource::Harness, |text| text == "it sends a frame");
            assert_eq!(frames, nic.np["np_cnp_sent"]);
            // The harness logs the clock before the image reads it: both values must be equal.
            let mut clock = String::new();
            for line in lines {
                match &line.clock {
                    Some(read) => assert_eq!(format!("the clock shows {read} ns"), clock),
                    None if line.text.starts_with("the clock") => clock.clone_from(&line.text),
                    None => {}
                }
            }
        }

        // The logged rates are those of the report.
        let sender: IpAddr = SENDER.parse().unwrap();
        let paced = lines[&sender].iter().filter_map(|line| {
            let (_, rate) = line.text.split_once("slot 0 paced at ")?;
            let rate = rate.split_once(" Mb/s, hold ")?.0.parse::<u64>().unwrap();
            Some((line.clock.as_ref()?.parse().unwrap(), rate))
        });
        let mut changes: Vec<(u64, u64)> = Vec::new();
        for (now, rate) in paced {
            if changes.last().is_none_or(|&(_, last)| last != rate) {
                changes.push((now, rate));
            }
        }
        let rates = report.rates.iter().find(|rates| rates.nic == sender).unwrap();
        let expected: Vec<_> = rates.points.iter().map(|&(now, rate)| (now, rate / 1_000_000)).collect();
        assert!(expected.len() > 5);
        assert_eq!(changes, expected);
    }
}

#[test]
fn an_image_without_logging_has_no_symbol_of_defmt() {
    let plain = firmware::build("dcqcn", Kind::Inlining, Design::Ibex.dialect()).unwrap();
    let refused = Texts::read(&plain).err().unwrap().to_string();
    assert!(refused.contains("does not log"), "{refused}");
    let image = firmware::read(&plain).unwrap();
    let of_logs = |name: &&String| name.to_lowercase().contains("defmt");
    assert_eq!(image.symbols.keys().find(of_logs), None);
}

#[test]
fn lines_without_room_in_the_ring_are_counted_and_earlier_ones_stay_intact() {
    let path = firmware::build("dcqcn", Kind::Logging, Design::Ibex.dialect()).unwrap();
    let (image, table) = (firmware::read(&path).unwrap(), Rc::new(Texts::read(&path).unwrap()));
    let chosen = ResolvedSettings::by(&*algorithm("dcqcn").unwrap(), &Request::default()).unwrap();
    let make = |_| {
        let core = ObservedCore::from(Design::Ibex.model(&RAM, DEVICES, 0, image.entry));
        let board = board_with(core, &image, &boot(&chosen), Pace::Lockstep)?;
        Ok(Lockstep::new(Native::new(&*algorithm("dcqcn")?, &chosen, NicSize::Full)?, board, None))
    };
    let nic_filter = NicFilter { only: vec![SENDER.parse().unwrap()], limit: 1, strict: true };
    let mut replayer = Replayer::new(nic_filter, chosen.link.line_rate, make);
    let mut capture = Reader::open(&sample()).unwrap();
    while let Some(record) = capture.next().unwrap() {
        replayer.frame(&record).unwrap();
    }
    replayer.finish().unwrap();
    let (_, mut nics) = replayer.into_outcome();
    let lines: Rc<RefCell<Vec<Line>>> = Rc::default();
    let kept = Rc::clone(&lines);
    let mut reader = log::Reader::new(table, &image, Box::new(move |line| kept.borrow_mut().push(line))).unwrap();
    // The host has not read the ring so far.
    let core = nics[0].board_mut().core_mut();
    let mut written = [0; 4];
    core.peek(image.symbols["DEFMT_RING"], &mut written);
    let written = u32::from_le_bytes(written);
    assert!((LOG_BYTES as u32 - 40..=LOG_BYTES as u32).contains(&written), "{written} bytes");
    reader.drain(core);
    let lines = lines.take();
    let (last, whole) = lines.split_last().unwrap();
    assert!(whole.len() > 100 && whole.iter().all(|line| matches!(line.source, LogSource::Image(_))), "{whole:?}");
    assert_eq!(last.source, LogSource::Lost);
    let lost: u32 = last.text.split_once(' ').unwrap().0.parse().unwrap();
    assert!(lost > 1_000, "{last}");
}
