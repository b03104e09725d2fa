use super::*;
use cc_core::params::Settings;
use cc_core::{CnpBodyKind, Delay, Instant, Psn};
use proptest::prelude::*;
use std::vec::Vec;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_024), base_rtt: Nanos::new(8_000) };
const US: u32 = 1_000;
const SECOND: u64 = 1_000_000_000;

/// Every packet is a segment, nothing is subtracted from samples, and the range of rates is wide: only the equations have an
/// effect.
const PLAIN: TimelySettings = TimelySettings {
    segment: 0,
    serialisation: 2,
    min_rate: 100,
    min_rate_share: 0,
    max_rate_share: 1_000_000,
    ..PAPER
};
const BLEND: TimelySettings = TimelySettings { gradient_rule: 1, beta: 8_000, ..PLAIN };

fn params(settings: TimelySettings) -> Params {
    Timely::check(&settings, &LINK).unwrap()
}

fn at(now: u64, params: &Params) -> Cx<'_, Params> {
    let now = Instant::from_nanos(now);
    Cx { now, link: &LINK, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
}

fn ack(bytes: u32, rtt: u32) -> Event<'static> {
    let delay = Some(Delay { rtt: Nanos::new(rtt), ..Delay::default() });
    Event::Ack(Ack { acked: Bytes::new(bytes), delay, ..Ack::default() })
}

fn mbps(rate: Rate) -> f64 {
    f64::from(rate.to_bits()) / 2_097.152
}

/// A flow with its own clock, in nanoseconds.
struct Flow<'a> {
    state: Timely,
    params: &'a Params,
    now: u64,
}

impl<'a> Flow<'a> {
    fn new(params: &'a Params) -> Self {
        Self { state: Timely::open(&at(0, params)), params, now: 0 }
    }

    fn with_rate(params: &'a Params, mbps: u32) -> Self {
        let mut flow = Self::new(params);
        flow.state.rate = Rate::from_mbps(mbps);
        flow
    }

    fn after(&mut self, wait: u64, event: Event) -> f64 {
        self.now += wait;
        mbps(self.state.on(&at(self.now, self.params), &event).rate)
    }

    /// A packet acknowledged with this round-trip time in microseconds, after minRTT.
    fn rtt(&mut self, micros: u32) -> f64 {
        self.after(u64::from(self.params.min_rtt), ack(1_024, micros * US))
    }
}

#[track_caller]
fn assert_near(got: f64, expected: f64) {
    assert!((got - expected).abs() <= expected * 1e-5, "{got} Mb/s for {expected}");
}

// Rules of the papers.

#[test]
fn below_t_low_every_update_is_one_additive_step() {
    let params = params(PLAIN);
    let mut flow = Flow::with_rate(&params, 1_000);
    for n in 1..=20 {
        assert_near(flow.rtt(49 - n), 1_000.0 + 10.0 * f64::from(n));
    }
}

#[test]
fn above_t_high_the_cut_is_by_what_is_above() {
    let params = params(PLAIN);
    for (rtt, kept) in [(501, 1.0 - 0.8 / 501.0), (1_000, 0.6), (50_000, 1.0 - 0.8 * 0.99)] {
        let mut flow = Flow::with_rate(&params, 10_000);
        assert_near(flow.rtt(rtt), 10_000.0 * kept);
    }
}

#[test]
fn between_them_the_gradient_cuts() {
    let params = params(PLAIN);
    let mut flow = Flow::with_rate(&params, 10_000);
    // The first sample has none: it is an increase.
    assert_near(flow.rtt(100), 10_010.0);
    // 10 us more, of which alpha is 8.75 us, of 20 us.
    let second = 10_010.0 * (1.0 - 0.8 * 8.75 / 20.0);
    assert_near(flow.rtt(110), second);
    // 5 us more: 0.125 * 8.75 + 0.875 * 5 = 5.46875 us.
    assert_near(flow.rtt(115), second * (1.0 - 0.8 * 5.468_75 / 20.0));
}

#[test]
fn five_negative_gradients_make_increase_hyperactive() {
    let params = params(PLAIN);
    let mut flow = Flow::with_rate(&params, 1_000);
    let mut gains = Vec::new();
    let mut rate = 1_000.0;
    for n in 0..9 {
        let next = flow.rtt(400 - 10 * n);
        gains.push((next - rate).round() as i32);
        rate = next;
    }
    // The first has no gradient.
    assert_eq!(gains, [10, 10, 10, 10, 10, 50, 50, 50, 50]);
    assert!(flow.rtt(390) < rate);
    rate = flow.rtt(90);
    assert_near(flow.rtt(80), rate + 10.0);
}

#[test]
fn a_setting_says_what_hyperactive_increase_counts() {
    // After a fall by 200 us a rise by 1 us leaves the smoothed gradient below zero.
    for (hai_counts, falls) in [(0, 0), (1, 2)] {
        let params = params(TimelySettings { hai_counts, ..PLAIN });
        let mut flow = Flow::new(&params);
        for micros in [400, 200, 201] {
            flow.rtt(micros);
        }
        assert_eq!(flow.state.falls(), falls);
    }
}

#[test]
fn the_blend_settles_where_its_authors_say() {
    // With a constant round-trip time w = 1/2, and delta / 2 balances beta err rate / 2.
    let params = params(BLEND);
    for start in [300, 20_000] {
        let mut flow = Flow::with_rate(&params, start);
        for _ in 0..20_000 {
            flow.rtt(75);
        }
        let balance = 10.0 / (0.008 * 0.5);
        assert!((mbps(flow.state.rate) / balance - 1.0).abs() < 1e-3, "{} Mb/s for {balance}", mbps(flow.state.rate));
    }
}

#[test]
fn beyond_a_gradient_of_a_quarter_the_blend_only_steps_or_only_cuts() {
    let params = params(BLEND);
    let mut flow = Flow::with_rate(&params, 10_000);
    flow.rtt(300);
    flow.state.rate = Rate::from_mbps(10_000);
    assert_near(flow.rtt(200), 10_010.0);
    flow.state.rate = Rate::from_mbps(10_000);
    assert_near(flow.rtt(300), 10_000.0 * (1.0 - 0.008 * 5.0));
}

// What published code adds.

#[test]
fn steps_are_in_proportion_to_the_time_since_the_last() {
    let params = params(TimelySettings { elapsed: 1, ..PLAIN });
    let mut flow = Flow::with_rate(&params, 1_000);
    for (wait, rate) in [(20_000, 1_010.0), (5_000, 1_012.5), (15_000, 1_020.0), (2_000_000, 1_030.0), (0, 1_030.0)] {
        assert_near(flow.after(wait, ack(1, 30 * US)), rate);
    }
    assert_near(flow.after(10_000, ack(1, 1_000 * US)), 1_030.0 * (1.0 - 0.8 * 0.5 * 0.5));
}

#[test]
fn an_idle_flow_makes_a_full_step_and_no_more_however_long_it_was_visited() {
    let params = params(TimelySettings { elapsed: 1, ..PLAIN });
    // Also longer than the range of the stamps.
    for idle in [19_999, (1 << 32) + 10, (1 << 33) + 19_000] {
        let mut flow = Flow::with_rate(&params, 1_000);
        flow.rtt(30);
        let end = flow.now + idle;
        while flow.now + SECOND / 2 < end {
            assert_near(flow.after(SECOND / 2, Event::Wake), 1_010.0);
        }
        let share = f64::min(idle as f64 / 20_000.0, 1.0);
        assert_near(flow.after(end - flow.now, ack(1, 30 * US)), 1_010.0 + 10.0 * share);
    }
}

#[test]
fn one_huge_sample_after_a_pause_takes_half_at_most() {
    let params = params(TimelySettings { largest_cut: 1, ..PLAIN });
    let mut flow = Flow::with_rate(&params, 10_000);
    flow.rtt(100);
    flow.state.rate = Rate::from_mbps(10_000);
    assert_near(flow.rtt(450), 5_000.0);
    assert_near(flow.rtt(4_000_000), 2_500.0);
}

// Samples.

#[test]
fn a_segment_gives_one_sample() {
    let params = params(TimelySettings { segment: 16_000, ..PLAIN });
    let mut flow = Flow::with_rate(&params, 1_000);
    for n in 1..=48 {
        assert_near(flow.after(1_000, ack(1_000, 30 * US)), 1_000.0 + f64::from(n / 16 * 10));
    }
}

#[test]
fn nothing_acknowledged_is_no_sample() {
    let params = params(PLAIN);
    let mut flow = Flow::with_rate(&params, 1_000);
    let fresh = flow.state;
    flow.after(30_000, ack(0, 30 * US));
    flow.after(30_000, Event::Ack(Ack::default()));
    assert_eq!(flow.state, fresh);
    // Nor is an acknowledgement without a round-trip time.
    assert_near(flow.after(1, Event::Ack(Ack { acked: Bytes::new(9), ..Ack::default() })), 1_000.0);
    assert_eq!(flow.state.last_rtt(), None);
}

#[test]
fn an_impossible_echo_is_no_sample_c1() {
    let params = params(PLAIN);
    let mut flow = Flow::with_rate(&params, 1_000);
    for rtt in [0, 1, 7_999] {
        assert_near(flow.after(30_000, ack(1, rtt)), 1_000.0);
        assert_eq!(flow.state.last_rtt(), None);
    }
    // The receiver held it for longer than it took.
    let delay = Some(Delay { rtt: Nanos::new(20_000), receiver_hold: Nanos::new(20_001), ..Delay::default() });
    assert_near(flow.after(1, Event::Ack(Ack { acked: Bytes::new(1), delay, ..Ack::default() })), 1_000.0);
    assert_near(flow.after(1, ack(1, 8_000)), 1_010.0);
}

#[test]
fn receiver_hold_and_serialisation_are_not_delay() {
    let delay = Some(Delay { rtt: Nanos::new(150_000), receiver_hold: Nanos::new(50_000), ..Delay::default() });
    // 1 024 B at 100 Gb/s are 81.92 ns, 16 000 B are 1 280 ns.
    for (serialisation, sample) in [(0, 99_919), (1, 98_720), (2, 100_000)] {
        let params = params(TimelySettings { serialisation, segment: 16_000, ..PLAIN });
        let mut flow = Flow::new(&params);
        flow.after(1, Event::Ack(Ack { acked: Bytes::new(16_000), delay, ..Ack::default() }));
        assert_eq!(flow.state.last_rtt(), Some(Nanos::new(sample)));
    }
}

#[test]
fn no_sample_overflows_c2() {
    for settings in [NS3_RDMA, PAPER, ERPC, PATCHED, PLAIN, BLEND] {
        for gbps in [10, 100, 800] {
            let link = Link { line_rate: Rate::from_gbps(gbps), ..LINK };
            let params = Timely::check(&settings, &link).unwrap();
            for rate in [params.floor, params.ceiling] {
                for first in [1, 50_000, 1_000_000_000, u32::MAX] {
                    for second in [0, 1, 20_000, 50_000, 500_000, 1_000_000_000, u32::MAX] {
                        let mut flow = Flow::new(&params);
                        flow.state.rate = rate;
                        flow.after(30_000, ack(16_000, first));
                        flow.after(30_000, ack(16_000, second));
                        assert!(flow.state.rate >= params.floor && flow.state.rate <= params.ceiling);
                    }
                }
            }
        }
    }
}

#[test]
fn a_flow_recovers_where_the_network_is_always_faster_than_min_rtt_c6() {
    let params = params(NS3_RDMA);
    let mut flow = Flow::new(&params);
    for _ in 0..100 {
        flow.after(100_000, ack(16_000, 2_000 * US));
    }
    assert_near(mbps(flow.state.rate), 1_000.0);
    // 9 us, where gradients are over 20 us: 95 Gb/s by 10 Mb/s each.
    for _ in 0..8_600 {
        flow.rtt_of_a_segment(9);
    }
    assert!(mbps(flow.state.rate) > 0.9 * 96_000.0 * 0.99);
}

impl Flow<'_> {
    fn rtt_of_a_segment(&mut self, micros: u32) -> f64 {
        self.after(u64::from(self.params.min_rtt), ack(self.params.segment.max(1), micros * US))
    }
}

#[test]
fn counted_bytes_do_not_wrap_c8() {
    let params = params(TimelySettings { segment: 16_777_215, ..PLAIN });
    let mut flow = Flow::with_rate(&params, 1_000);
    // 5 GB acknowledged without a round-trip time: the next that has one is a sample.
    for _ in 0..5 {
        flow.after(1, Event::Ack(Ack { acked: Bytes::new(1_000_000_000), ..Ack::default() }));
    }
    assert_near(flow.after(1, ack(1, 30 * US)), 1_010.0);
}

#[test]
fn cuts_at_the_floor_stay_there_c10() {
    for settings in [NS3_RDMA, PAPER, ERPC, PATCHED, PLAIN] {
        let params = params(settings);
        let mut flow = Flow::new(&params);
        for n in 0..20_000 {
            flow.rtt_of_a_segment(2_000 + n % 2 * 100_000);
        }
        assert_eq!(flow.state.rate, params.floor);
    }
}

#[test]
fn a_shorter_path_and_a_longer_one_again_are_followed_c12() {
    let params = params(PLAIN);
    let mut flow = Flow::with_rate(&params, 10_000);
    for path in [60, 30, 60, 30] {
        flow.rtt(path);
        let before = flow.rtt(path);
        for _ in 0..100 {
            flow.rtt(path);
        }
        assert!(mbps(flow.state.rate) > before, "{path} us");
    }
}

#[test]
fn a_new_flow_has_nothing_of_its_slots_former_flow_c17() {
    let params = params(NS3_RDMA);
    let mut flow = Flow::new(&params);
    flow.rtt_of_a_segment(700);
    flow.state = Timely::open(&at(0, &params));
    assert_eq!(flow.state, Flow::new(&params).state);
}

#[test]
fn feedback_to_a_flow_in_a_reused_slot_depends_on_nothing_of_the_former_flow_f5() {
    let params = params(NS3_RDMA);
    let mut used = Flow::new(&params);
    for micros in [90, 200, 900] {
        used.rtt_of_a_segment(micros);
    }
    used.state = Timely::open(&at(used.now, &params));
    let mut fresh = Flow { state: Timely::open(&at(used.now, &params)), params: &params, now: used.now };
    for micros in [100, 120, 90] {
        assert_near(used.rtt_of_a_segment(micros), fresh.rtt_of_a_segment(micros));
    }
}

// Settings.

#[test]
fn settings_that_conflict_are_named() {
    let refused = |settings: TimelySettings| match Timely::check(&settings, &LINK) {
        Err(ParamError::Conflict { field, .. }) => field,
        Err(ParamError::OutOfRange(field)) => field.name,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(TimelySettings { t_low: 500_001, ..PAPER }), "t_low");
    assert_eq!(refused(TimelySettings { min_rate_share: 0, ..PAPER }), "min_rate");
    assert_eq!(refused(TimelySettings { min_rate: 100_001, ..PAPER }), "min_rate");
    assert_eq!(refused(TimelySettings { max_rate_share: 9_999, ..PAPER }), "min_rate");
    assert_eq!(refused(TimelySettings { min_rtt: 0, ..PAPER }), "min_rtt");
    assert_eq!(refused(TimelySettings { serialisation: 3, ..PAPER }), "serialisation");
    let unplugged = Link { line_rate: Rate::ZERO, mtu: Bytes::ZERO, base_rtt: Nanos::ZERO };
    assert!(Timely::check(&ERPC, &unplugged).is_err());
}

#[test]
fn every_preset_holds_on_every_port() {
    for preset in Timely::PRESETS {
        for gbps in [10, 25, 40, 100, 200, 400, 800] {
            Timely::check(&preset.values, &Link { line_rate: Rate::from_gbps(gbps), ..LINK }).unwrap();
        }
    }
    let mut names: Vec<_> =
        TimelySettings::FIELDS.iter().flat_map(|field| field.aliases.iter().copied().chain([field.name])).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "no name means two things");
}

// Transitions, wakes, and any state with any event.

#[test]
fn every_transition_is_reached() {
    let params = params(NS3_RDMA);
    let mut flow = Flow::new(&params);
    let mut reached = Vec::new();
    let segment = |micros: u32| ack(16_000, micros * US);
    let falling = [300, 280, 260, 240, 220, 200].map(segment);
    let events = [ack(1_000, 90 * US), segment(90), ack(1_000, 90 * US), segment(45), segment(200), segment(600)];
    for event in events.into_iter().chain(falling).chain([Event::Wake]) {
        reached.push(flow.state.transition(&at(flow.now, &params), &event));
        flow.after(30_000, event);
    }
    assert_eq!(reached, [0, 1, 2, 3, 6, 7, 4, 4, 4, 4, 5, 5, 8]);
}

fn any_event() -> impl Strategy<Value = Event<'static>> {
    prop_oneof![
        6 => (0..20_000_u32, 0..600_000_u32).prop_map(|(bytes, rtt)| ack(bytes, rtt)),
        1 => (any::<u32>(), any::<u32>()).prop_map(|(bytes, rtt)| ack(bytes, rtt)),
        1 => Just(Event::Ack(Ack::default())),
        1 => Just(Event::Wake),
    ]
}

fn any_state() -> impl Strategy<Value = Timely> {
    (any::<[u32; 5]>(), any::<u8>()).prop_map(|(words, falls)| Timely {
        rate: Rate::from_bits(words[0]),
        prev_rtt: Nanos::new(words[1]),
        rtt_diff: words[2].cast_signed(),
        updated: Stamp::from_bits(words[3]),
        acked: Bytes::new(words[4]),
        falls,
    })
}

fn variants() -> [Params; 6] {
    [NS3_RDMA, PAPER, ERPC, PATCHED, PLAIN, TimelySettings { elapsed: 1, ..BLEND }].map(params)
}

proptest! {
    #[test]
    fn wakes_change_no_decision(
        events in prop::collection::vec((any_event(), 0..400_000_u64, 0..4_u32), 1..200),
        idle in 0..SECOND,
    ) {
        for params in variants() {
            let (mut woken, mut undisturbed) = (Flow::new(&params), Flow::new(&params));
            for (nth, (event, wait, wakes)) in events.iter().enumerate() {
                let wait = if nth % 16 == 0 { idle } else { *wait };
                for _ in 0..*wakes {
                    woken.after(wait / 4, Event::Wake);
                }
                woken.after(wait - u64::from(*wakes) * (wait / 4), *event);
                undisturbed.after(wait, *event);
                prop_assert_eq!(woken.state.rate, undisturbed.state.rate);
            }
        }
    }

    #[test]
    fn rates_stay_between_floor_and_ceiling_from_any_state(
        state in any_state(),
        now: u64,
        events in prop::collection::vec((any_event(), 0..SECOND), 1..20),
    ) {
        for params in variants() {
            let (mut state, mut now) = (state, now);
            for (event, wait) in &events {
                now = now.wrapping_add(*wait);
                prop_assert!(state.transition(&at(now, &params), event) < Timely::TRANSITIONS.len());
                state.on(&at(now, &params), event);
            }
            // After one sample, any state is within its bounds.
            let decision = state.on(&at(now, &params), &ack(16_777_215, 100 * US));
            prop_assert!(decision.rate >= params.floor && decision.rate <= params.ceiling);
            prop_assert_eq!((decision.window, decision.hold, decision.wake_in), (Bytes::MAX, Nanos::ZERO, Nanos::MAX));
        }
    }

    #[test]
    fn events_that_the_machine_does_not_take_change_nothing(state in any_state(), bytes: u32, psn: u32) {
        let params = params(NS3_RDMA);
        let (psn, bytes) = (Psn::new(psn), Bytes::new(bytes));
        for event in [Event::Sent { psn, bytes }, Event::Nack { psn }, Event::Cnp { body_kind: CnpBodyKind::Standard }] {
            let mut after = state;
            after.on(&at(5, &params), &event);
            prop_assert_eq!(after, state);
        }
    }
}

/// Networks of today have round-trip times of a few microseconds: thresholds are set to the nanosecond.
#[test]
fn thresholds_are_nanoseconds() {
    let params = params(TimelySettings { t_low: 4_500, t_high: 4_600, min_rtt: 4_000, ..PLAIN });
    let mut flow = Flow::with_rate(&params, 1_000);
    flow.after(4_000, ack(1_024, 4_000));
    assert_near(flow.after(4_000, ack(1_024, 4_499)), 1_020.0);
    // beta (1 - T_high / RTT) of the rate.
    assert_near(flow.after(4_000, ack(1_024, 4_700)), 1_020.0 * (1.0 - 0.8 * (1.0 - 4_600.0 / 4_700.0)));
}
