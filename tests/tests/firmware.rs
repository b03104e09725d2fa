//! The firmware image on the core model and the library: equal to the bit, whatever arrives.

use cc_rp::Signals;
use hil::board::Pace;
use hil::capture::Reader;
use hil::replay::settings::Request;
use hil::replay::{OnCore, Options, Report, replay};
use hil::storm::Storm;
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
    replay(options, &mut Reader::new(capture, "random").unwrap(), |_| {}).unwrap()
}

#[test]
fn the_sample_is_decided_alike_and_its_cnps_are_those_that_were_captured() {
    let run = || {
        let mut capture = Reader::open(&sample()).unwrap();
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
fn a_timer_interrupt_at_any_moment_comes_to_one_order_of_event_and_wake() {
    let mut options = on_ibex("paper", Pace::Lockstep);
    options.only = vec!["10.0.0.1".parse().unwrap(), "10.0.0.9".parse().unwrap()];
    options.core.as_mut().unwrap().interrupts = true;
    let report = replay(&options, &mut Reader::open(&sample()).unwrap(), |_| {}).unwrap();
    let interrupts = report.core.unwrap().interrupts.unwrap();
    assert_eq!((interrupts.torn, &interrupts.first_torn), (0, &None));
    assert!(interrupts.moments > 10_000, "{} moments", interrupts.moments);
    for kind in ["data", "sent", "cnp", "ack", "open", "bind"] {
        assert!(interrupts.longest_wait.contains_key(kind), "no {kind} was interrupted");
    }
}

#[test]
fn a_storm_has_events_of_every_kind() {
    let storm = Storm { seed: 1, frames: 3_000, signals: Signals::CNP }.capture();
    let report = play(&on_ibex("paper", Pace::Lockstep), &storm);
    for kind in ["sent", "data", "cnp", "ack", "nack", "wake", "pause"] {
        assert!(report.core.as_ref().unwrap().cycles.contains_key(kind), "no {kind}");
    }
    assert!(report.frames.truncated > 100 && report.icrc.invalid > 10, "{:?}", report.icrc);
}

#[test]
fn in_real_time_the_library_repeats_what_the_image_logged() {
    let report = play(
        &on_ibex("vendor", Pace::Real { hz: 1_000_000_000 }),
        &Storm { seed: 7, frames: 1_500, signals: Signals::CNP }.capture(),
    );
    let core = report.core.as_ref().unwrap();
    assert!(core.identical, "{:?}", core.difference);
    assert!(core.events > 1_000, "{} events", core.events);
}
