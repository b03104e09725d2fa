use super::*;
use crate::timely::NS3_RDMA;
use cc_core::{Bytes, Delay, Instant, Rate};
use proptest::prelude::*;
use std::vec::Vec;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_024), base_rtt: Nanos::new(8_000) };
const SECOND: u64 = 1_000_000_000;

fn params() -> Params {
    TimelyTcd::check(&NS3_RDMA, &LINK).unwrap()
}

fn at(now: u64, params: &Params) -> Cx<'_, Params> {
    let now = Instant::from_nanos(now);
    Cx { now, link: &LINK, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
}

fn ack(bytes: u32, mark: Mark, nanos: u32) -> Event<'static> {
    let delay = Some(Delay { rtt: Nanos::new(nanos), ..Delay::default() });
    Event::Ack(Ack { acked: Bytes::new(bytes), mark, delay, ..Ack::default() })
}

fn segment(mark: Mark, micros: u32) -> Event<'static> {
    ack(16_000, mark, micros * 1_000)
}

/// Two flows with the same feedback, one of which ignores marks.
struct Pair<'a> {
    tcd: TimelyTcd,
    timely: Timely,
    params: &'a Params,
    now: u64,
}

impl<'a> Pair<'a> {
    fn new(params: &'a Params) -> Self {
        Self { tcd: TimelyTcd::open(&at(0, params)), timely: Timely::open(&at(0, params)), params, now: 0 }
    }

    fn on(&mut self, event: Event) -> (Rate, Rate) {
        self.now += 30_000;
        let cx = at(self.now, self.params);
        (self.tcd.on(&cx, &event).rate, self.timely.on(&cx, &event).rate)
    }
}

#[test]
fn congested_samples_are_timelys() {
    let params = params();
    let mut pair = Pair::new(&params);
    for micros in [100, 200, 900, 80, 60, 300, 20, 2_000] {
        let (tcd, timely) = pair.on(segment(Mark::Congested, micros));
        assert_eq!(tcd, timely, "{micros} us");
    }
}

#[test]
fn undetermined_samples_hold_and_are_not_seen_as_a_fall_later() {
    let params = params();
    let mut pair = Pair::new(&params);
    pair.on(segment(Mark::Congested, 600));
    let (held, _) = pair.on(segment(Mark::Congested, 100));
    for micros in [400, 3_000, 40, 450] {
        assert_eq!(pair.on(segment(Mark::Undetermined, micros)).0, held, "{micros} us");
        assert_eq!((pair.tcd.timely().rtt_diff(), pair.tcd.timely().falls()), (0, 0));
    }
    // A rise from the last held sample is a rise: 460 us after 450 us is a gradient of 0.4375.
    let (cut, _) = pair.on(segment(Mark::Congested, 460));
    let kept = f64::from(cut.to_bits()) / f64::from(held.to_bits());
    assert!((kept - (1.0 - 0.8 * 0.4375)).abs() < 1e-5, "{kept}");
}

#[test]
fn unmarked_samples_raise_and_never_cut() {
    let params = params();
    let mut pair = Pair::new(&params);
    pair.on(segment(Mark::Congested, 2_000));
    let (low, _) = pair.on(segment(Mark::Congested, 2_000));
    for micros in [2_001, 3_000, 90_000, 200_000] {
        assert_eq!(pair.on(segment(Mark::None, micros)).0, low, "{micros} us");
    }
    assert_eq!(pair.on(segment(Mark::None, 40)).0, low.saturating_add(Rate::from_mbps(10)));
}

#[test]
fn without_any_echo_a_round_trip_time_above_t_high_cuts() {
    let params = params();
    let mut pair = Pair::new(&params);
    let (start, _) = pair.on(segment(Mark::None, 100));
    assert_eq!(pair.on(segment(Mark::None, 200)).0, start, "a gradient does not");
    assert!(pair.on(segment(Mark::None, 1_000)).0 < start);
}

#[test]
fn the_strongest_mark_of_a_segment_counts_and_only_for_it() {
    let params = params();
    let mut pair = Pair::new(&params);
    pair.on(segment(Mark::Congested, 100));
    let start = pair.tcd.timely().rate();
    // Even from an acknowledgement of nothing new.
    for event in [ack(8_000, Mark::Undetermined, 0), ack(0, Mark::Congested, 0), ack(4_000, Mark::None, 0)] {
        assert_eq!(pair.on(event).0, start);
    }
    let (cut, _) = pair.on(ack(4_000, Mark::Undetermined, 900_000));
    assert!(cut < start);
    assert_eq!(pair.tcd.mark(), Mark::None);
    assert_eq!(pair.on(segment(Mark::None, 950)).0, cut);
}

#[test]
fn a_sample_taken_in_a_pause_is_undetermined() {
    let params = params();
    let mut flow = TimelyTcd::open(&at(0, &params));
    flow.on(&at(30_000, &params), &segment(Mark::None, 100));
    let start = flow.timely().rate();
    let paused = Cx { pause: Nanos::new(1), ..at(60_000, &params) };
    assert_eq!(flow.on(&paused, &segment(Mark::None, 5_000)).rate, start);
    assert_eq!(flow.transition(&paused, &segment(Mark::None, 5_000)), 1);
    let paused = Cx { pause: Nanos::new(1), ..at(90_000, &params) };
    assert!(flow.on(&paused, &segment(Mark::Congested, 5_000)).rate < start);
}

#[test]
fn every_transition_is_reached() {
    let params = params();
    let mut flow = TimelyTcd::open(&at(0, &params));
    let mut reached = Vec::new();
    let events = [
        ack(1_000, Mark::None, 90_000),
        segment(Mark::None, 900),
        segment(Mark::Undetermined, 90),
        segment(Mark::Congested, 100),
        segment(Mark::None, 45),
        segment(Mark::None, 900),
        Event::Wake,
    ];
    for (nth, event) in events.iter().enumerate() {
        let cx = at(30_000 * nth as u64, &params);
        reached.push(flow.transition(&cx, event));
        flow.on(&cx, event);
    }
    assert_eq!(reached, [0, 3, 1, 2, 4, 5, 6]);
}

fn any_event() -> impl Strategy<Value = Event<'static>> {
    let mark = prop_oneof![Just(Mark::None), Just(Mark::Undetermined), Just(Mark::Congested)];
    prop_oneof![
        8 => (0..20_000_u32, mark, 0..600_000_u32).prop_map(|(bytes, mark, rtt)| ack(bytes, mark, rtt)),
        1 => Just(segment(Mark::None, 4_000_000)),
        1 => Just(Event::Wake),
    ]
}

proptest! {
    #[test]
    fn wakes_change_no_decision(events in prop::collection::vec((any_event(), 0..400_000_u64, 0..4_u32), 1..200)) {
        for preset in TimelyTcd::PRESETS {
            let params = TimelyTcd::check(&preset.values, &LINK).unwrap();
            let open = TimelyTcd::open(&at(0, &params));
            let (mut woken, mut undisturbed, mut now) = (open, open, 0);
            for (event, wait, wakes) in &events {
                for nth in 0..u64::from(*wakes) {
                    woken.on(&at(now + nth * (wait / 4), &params), &Event::Wake);
                }
                now += wait;
                prop_assert_eq!(woken.on(&at(now, &params), event), undisturbed.on(&at(now, &params), event));
            }
        }
    }

    #[test]
    fn rates_stay_between_floor_and_line(events in prop::collection::vec((any_event(), 0..SECOND, any::<bool>()), 1..50)) {
        let params = params();
        let mut flow = TimelyTcd::open(&at(0, &params));
        let mut now = 0;
        for (event, wait, paused) in &events {
            now += wait;
            let cx = Cx { pause: Nanos::new(u32::from(*paused)), ..at(now, &params) };
            prop_assert!(flow.transition(&cx, event) < TimelyTcd::TRANSITIONS.len());
            let decision = flow.on(&cx, event);
            prop_assert!(decision.rate >= Rate::from_mbps(999) && decision.rate <= LINK.line_rate);
            prop_assert_eq!((decision.window, decision.hold), (Bytes::MAX, Nanos::ZERO));
        }
    }
}
