//! CNPs that the switches of the simulated fabric send: they are in its captures, a replay counts them, they change rates, and
//! the image on the core model decides on them as the library does.

use cc_core::wire::{self, Parsed};
use cc_core::{CnpBodyKind, CnpKind, Nanos};
use cc_cp::QueueStage;
use cc_cp::red::Red;
use hil_algorithms::algorithm;
use hil_capture::{Reader, Source, Writer};
use hil_cores::board::Pace;
use hil_replay::{OnCore, Options, Report, replay};
use hil_sim::incast::{Incast, Summary};
use hil_sim::marking::stress_scenario;

/// An algorithm, and the kind of CNP that the switch between the datacentres sends for it.
const CASES: [(&str, CnpKind); 2] = [("hpcc_star", CnpKind::DirectInt), ("mlcc", CnpKind::SwitchInt)];

/// A capture of so many microseconds, with or without the stage that sends CNPs.
fn capture(name: &str, micros: u32, with_stage: bool) -> (Vec<u8>, Summary) {
    let algorithm = algorithm(name).unwrap();
    let [(_, rp), (_, np)] = algorithm.presets(None).unwrap();
    let (_, mut switches) = stress_scenario(algorithm.signals(), Red::PRESETS[0].values);
    if !with_stage {
        switches[1].clear();
    }
    let scenario = Incast { senders: 4, duration: Nanos::new(micros * 1_000), ..Incast::SAMPLE };
    let mut writer = Writer::new(Vec::new(), &["receiver"]).unwrap();
    let mut tap = |time, frame: &[u8]| Ok(writer.write(0, time, frame, frame.len() as u32)?);
    let summary = scenario.run(&*algorithm, [&rp, &np], &switches, &mut tap).unwrap();
    (writer.into_sink().unwrap(), summary)
}

fn replayed(name: &str, capture: &[u8], core: Option<OnCore>) -> Report {
    let options = Options { algorithm: name.into(), core, ..Options::default() };
    replay(&options, &mut Source::memory(capture, "fabric"), |_| {}).unwrap()
}

/// The CNPs of switches in a capture: kind, and the number of telemetry records.
fn of_switches(capture: &[u8]) -> Vec<(CnpKind, u8)> {
    let (mut found, mut reader) = (Vec::new(), Reader::new(capture, "fabric").unwrap());
    while let Some(record) = reader.next().unwrap() {
        if let Ok(Parsed::Roce(roce)) = wire::parse(record.bytes, record.bytes.len())
            && let Some(CnpBodyKind::Extended(body)) = roce.cnp()
            && body.is_from_switch()
        {
            assert!(body.names_remote_qpn && roce.bth.dest_qp.get() == 0, "{body:?}");
            found.push((body.kind, roce.switch_int().expect("telemetry").hops()));
        }
    }
    found
}

#[test]
fn a_capture_holds_the_telemetry_that_a_switch_returns() {
    for (name, kind) in CASES {
        let (with, summary) = capture(name, 200, true);
        let found = of_switches(&with);
        assert_eq!(found.len() as u64, summary.switch_cnps, "{name}");
        assert!(found.len() > 100, "{name}: {}", found.len());
        // The record of the congested switch, and for LSCC that of the pseudo queue.
        let records = if kind == CnpKind::DirectInt { 2 } else { 1 };
        assert!(found.iter().all(|&found| found == (kind, records)), "{name}: {:?}", found.first());
        let (without, summary) = capture(name, 200, false);
        assert_eq!((of_switches(&without).len(), summary.switch_cnps), (0, 0), "{name}");
    }
}

/// A CNP that comes before the first data packet of its flow names a flow that the replay does not know yet.
#[test]
fn a_replay_counts_the_cnps_of_switches_and_they_change_rates() {
    for (name, _) in CASES {
        let (with, summary) = capture(name, 200, true);
        let report = replayed(name, &with, None);
        let count = |counter: &str| report.rp[counter];
        assert_eq!(count("rp_cnp_handled") + count("rp_cnp_by_remote_qp"), summary.switch_cnps, "{name}");
        assert_eq!(count("rp_cnp_ignored"), count("rp_cnp_by_remote_qp"), "{name}");
        assert!(count("rp_cnp_by_remote_qp") > 0 && count("rp_cnp_handled") > 100, "{name}: {:?}", report.rp);
        let (without, _) = capture(name, 200, false);
        let other = replayed(name, &without, None);
        assert_eq!((other.rp["rp_cnp_handled"], other.rp["rp_cnp_ignored"]), (0, 0), "{name}");
        let points = |report: &Report| report.rates.iter().map(|rates| rates.points.clone()).collect::<Vec<_>>();
        let (ours, theirs) = (points(&report), points(&other));
        assert!(ours.len() == 4 && theirs.len() == 4, "{name}");
        assert!(ours.iter().zip(&theirs).all(|(ours, theirs)| ours != theirs), "{name}: {ours:?}");
    }
}

#[test]
fn the_image_decides_on_cnps_of_switches_as_the_library_does() {
    let (frames, _) = capture("mlcc", 60, true);
    let core = OnCore { name: "ibex".into(), pace: Pace::Lockstep, firmware: None, interrupts: false };
    let report = replayed("mlcc", &frames, Some(core));
    let core = report.core.as_ref().unwrap();
    assert!(core.identical, "{:?}", core.difference);
    assert!(report.rp["rp_cnp_handled"] > 20, "{:?}", report.rp);
}
