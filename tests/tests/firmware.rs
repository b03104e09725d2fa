//! The firmware image on the core model takes the library's decisions, to the bit, on the sample and on random traffic.

use cc_rp::Signals;
use hil_algorithms::settings::{Request, ResolvedSettings};
use hil_algorithms::{NicSize, algorithm};
use hil_capture::{Reader, Source};
use hil_cores::board::{DEVICES, Pace, RAM, board_with};
use hil_cores::core::{Core, Ibex, Timing};
use hil_cores::firmware;
use hil_cores::probe::Span;
use hil_measure::random_traffic::RandomTraffic;
use hil_replay::lockstep::Lockstep;
use hil_replay::native::Native;
use hil_replay::replayer::{NicFilter, Replayer};
use hil_replay::{OnCore, Options, Report, boot, replay};
use std::collections::BTreeMap;
use tests::sample;

fn on_ibex(preset: &str, pace: Pace) -> Options {
    Options {
        algorithm: "dcqcn".into(),
        request: Request { preset: Some(preset.into()), ..Request::default() },
        core: Some(OnCore { name: "ibex".into(), pace, firmware: None, interrupts: false }),
        ..Options::default()
    }
}

fn play(options: &Options, capture: &[u8]) -> Report {
    replay(options, &mut Source::memory(capture, "random"), |_| {}).unwrap()
}

#[test]
fn image_and_library_take_equal_decisions_and_send_the_captured_cnps() {
    let run = || {
        let mut capture = Source::open(&sample()).unwrap();
        replay(&on_ibex("paper", Pace::Lockstep), &mut capture, |_| {}).unwrap()
    };
    let report = run();
    let core = report.core.as_ref().unwrap();
    assert!(core.identical, "{:?}", core.difference);
    assert!(core.events > report.frames.total);
    assert_eq!(report.icrc.valid, report.frames.total);
    let comparison = &report.cnps.comparison;
    assert!(report.cnps.sent > 50);
    assert_eq!((comparison.captured, comparison.equal), (report.cnps.sent, report.cnps.sent));
    assert_eq!(report.rp["rp_cnp_handled"], report.cnps.sent);
    assert_eq!(serde_json::to_string(&report).unwrap(), serde_json::to_string(&run()).unwrap());
}

#[test]
fn a_timer_interrupt_at_any_moment_acts_as_a_wake_before_or_after_the_event() {
    let mut options = on_ibex("paper", Pace::Lockstep);
    options.only = vec!["10.0.0.1".parse().unwrap(), "10.0.0.9".parse().unwrap()];
    options.core.as_mut().unwrap().interrupts = true;
    let report = replay(&options, &mut Source::open(&sample()).unwrap(), |_| {}).unwrap();
    let interrupts = report.core.unwrap().interrupts.unwrap();
    assert_eq!((interrupts.inconsistent, &interrupts.first_inconsistent), (0, &None));
    assert!(interrupts.moments > 10_000, "{} moments", interrupts.moments);
    for kind in ["data", "sent", "cnp", "ack", "open", "bind"] {
        assert!(interrupts.longest_wait.contains_key(kind), "no {kind} was interrupted");
    }
}

#[test]
fn random_traffic_has_events_of_every_kind() {
    let random = RandomTraffic { seed: 1, frames: 3_000, signals: Signals::CNP }.capture();
    let report = play(&on_ibex("paper", Pace::Lockstep), &random);
    for kind in ["sent", "data", "cnp", "ack", "wake", "pause"] {
        assert!(report.core.as_ref().unwrap().cycles.contains_key(kind), "no {kind}");
    }
    // DCQCN uses neither ACKs nor NACKs, and its image has one function for both; the image of HPCC has two.
    let hpcc = Options { algorithm: "hpcc".into(), ..on_ibex("draft", Pace::Lockstep) };
    let random = RandomTraffic { seed: 1, frames: 1_000, signals: Signals::INT }.capture();
    for kind in ["ack", "nack"] {
        assert!(play(&hpcc, &random).core.as_ref().unwrap().cycles.contains_key(kind), "no {kind} with telemetry");
    }
    assert!(report.frames.truncated > 100 && report.icrc.invalid > 10, "{:?}", report.icrc);
}

#[test]
fn in_real_time_the_library_repeats_what_the_image_logged() {
    let report = play(
        &on_ibex("vendor", Pace::Real { hz: 1_000_000_000 }),
        &RandomTraffic { seed: 7, frames: 1_500, signals: Signals::CNP }.capture(),
    );
    let core = report.core.as_ref().unwrap();
    assert!(core.identical, "{:?}", core.difference);
    assert!(core.events > 1_000, "{} events", core.events);
}

/// The image must give the same results whatever RAM contains before it starts: here zeros in one run, and 0xa5 in every byte
/// in the other. The library needs no such test, since safe Rust on the host cannot read uninitialized memory.
#[test]
fn memory_that_is_not_zero_at_the_start_changes_nothing_c17() {
    let image = firmware::image(None, "dcqcn").unwrap();
    let chosen = ResolvedSettings::by(&*algorithm("dcqcn").unwrap(), &Request::default()).unwrap();
    let run = |fill: u8| {
        let make = |_| {
            let mut core = Ibex::new(&RAM, DEVICES, Timing::IBEX_SMALL, image.entry);
            core.poke(RAM[0].base, &vec![fill; RAM[0].size as usize]);
            let board = board_with(core, &image, &boot(&chosen), Pace::Lockstep)?;
            Ok(Lockstep::new(Native::new(&*algorithm("dcqcn")?, &chosen, NicSize::Full)?, board, None))
        };
        let nic_filter = NicFilter { only: Vec::new(), limit: 16, strict: true };
        let mut replayer = Replayer::new(nic_filter, chosen.link.line_rate, make);
        let mut capture = Reader::open(&sample()).unwrap();
        while let Some(record) = capture.next().unwrap() {
            replayer.frame(&record).unwrap();
        }
        replayer.finish().unwrap();
        let (outcome, nics) = replayer.into_outcome();
        assert!(nics.iter().all(Lockstep::is_identical), "{:?}", outcome.difference);
        let cycles: Vec<_> =
            nics.iter().map(|nic| nic.cycles().map(|(&key, all)| (key, all.clone())).collect()).collect();
        (cycles, outcome.rtt.count(), outcome.duration)
    };
    type Cycles = Vec<BTreeMap<(&'static str, Span), Vec<u32>>>;
    let (zeros, patterned): ((Cycles, _, _), _) = (run(0), run(0xa5));
    assert!(zeros == patterned, "cycles or decisions differ");
}
