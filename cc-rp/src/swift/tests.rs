use super::*;
use cc_core::params::Settings;
use cc_core::{CnpBodyKind, Instant};
use proptest::prelude::*;
use std::vec::Vec;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_024), base_rtt: Nanos::new(8_000) };
const SECOND: u64 = 1_000_000_000;
const MTU: u32 = 1_024;

fn params(settings: SwiftSettings) -> Params {
    Swift::check(&settings, &LINK).unwrap()
}

fn at(now: u64, params: &Params) -> Cx<'_, Params> {
    let now = Instant::from_nanos(now);
    Cx { now, link: &LINK, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
}

fn ack(bytes: u32, delay: Delay) -> Event<'static> {
    Event::Ack(Ack { acked: Bytes::new(bytes), delay: Some(delay), ..Ack::default() })
}

/// An acknowledgement of `count` packets, with a round-trip time in microseconds.
fn packets(count: u32, micros: u32) -> Event<'static> {
    ack(count * MTU, Delay { rtt: Nanos::new(micros * 1_000), ..Delay::default() })
}

fn level(rx_buffer_level: u8) -> Event<'static> {
    ack(MTU, Delay { rtt: Nanos::new(10_000), rx_buffer_level, ..Delay::default() })
}

fn sent(psn: u32) -> Event<'static> {
    Event::Sent { psn: Psn::new(psn), bytes: Bytes::new(MTU) }
}

fn nack(psn: u32) -> Event<'static> {
    Event::Nack { psn: Psn::new(psn) }
}

/// A flow with its own clock, in nanoseconds.
struct Flow<'a> {
    state: Swift,
    params: &'a Params,
    now: u64,
}

impl<'a> Flow<'a> {
    fn new(params: &'a Params) -> Self {
        Self { state: Swift::open(&at(0, params)), params, now: 0 }
    }

    fn with_window(params: &'a Params, packets: f64) -> Self {
        let mut flow = Self::new(params);
        flow.state.fabric = (packets * f64::from(PACKET)) as u32;
        flow
    }

    fn after(&mut self, wait: u64, event: Event) -> Decision {
        self.now += wait;
        self.state.on(&at(self.now, self.params), &event)
    }

    fn window(&self) -> f64 {
        f64::from(self.state.fabric) / f64::from(PACKET)
    }

    fn endpoint(&self) -> f64 {
        f64::from(self.state.endpoint) / f64::from(PACKET)
    }
}

#[track_caller]
fn assert_near(got: f64, expected: f64) {
    assert!((got - expected).abs() <= expected * 1e-4 + 4.0 / f64::from(PACKET), "{got} for {expected}");
}

// Rules of the paper.

#[test]
fn below_the_target_the_window_gains_a_packet_in_a_round_trip_time() {
    let params = params(FALCON);
    let mut flow = Flow::with_window(&params, 10.0);
    flow.after(1, packets(1, 8));
    assert_near(flow.window(), 10.1);
    flow.after(1, packets(5, 8));
    assert_near(flow.window(), 10.1 + 5.0 / 10.1);
    for window in [20.0, 100.0, 200.0] {
        let mut flow = Flow::with_window(&params, window);
        for _ in 0..window as u32 {
            flow.after(100, packets(1, 8));
        }
        assert!((flow.window() - window - 1.0).abs() < 0.03, "{}", flow.window());
    }
}

#[test]
fn a_fraction_of_a_packet_gains_a_packet_with_each_acknowledged() {
    let params = params(SwiftSettings { additive_increment: 250_000, ..FALCON });
    let mut flow = Flow::with_window(&params, 0.25);
    for n in 2..=4 {
        flow.after(1, packets(1, 8));
        assert_near(flow.window(), 0.25 * f64::from(n));
    }
}

#[test]
fn the_target_grows_with_hops_and_with_smaller_windows() {
    for (settings, base, hop, most) in [(FALCON, 25_000.0, 1_000.0, 256.0), (HTSIM, 20_000.0, 3_053.0, 100.0)] {
        let params = params(settings);
        let slope = 100_000.0 / (1.0 / f64::sqrt(0.1) - 1.0 / f64::sqrt(most));
        for window in [0.01, 0.05, 0.1, 0.11, 0.5, 1.0, 2.0, 10.0, 50.0, 99.0, 255.0] {
            let scaling = (slope / f64::sqrt(window) - slope / f64::sqrt(most)).clamp(0.0, 100_000.0);
            for hops in [0, 1, 5, 255] {
                let target = target(&params, root(Flow::with_window(&params, window).state.fabric), hops).get();
                let expected = base + hop * f64::from(hops) + scaling;
                assert!(
                    (f64::from(target) - expected).abs() < 20.0,
                    "{window} packets, {hops} hops: {target} for {expected}"
                );
            }
        }
    }
    let params = params(SwiftSettings { fs_range: 0, ..FALCON });
    assert_eq!(target(&params, root(Flow::with_window(&params, 0.01).state.fabric), 0).get(), 25_000);
}

#[test]
fn from_the_target_on_the_cut_is_by_the_excess_and_bounded() {
    let params = params(FALCON);
    for (rtt, kept) in
        [(25, 1.0), (26, 1.0 - 0.8 / 26.0), (50, 0.6), (65, 1.0 - 0.8 * 40.0 / 65.0), (80, 0.5), (500_000, 0.5)]
    {
        // At the largest window the target is the base target.
        let mut flow = Flow::with_window(&params, 256.0);
        flow.after(1, packets(1, rtt));
        assert_near(flow.window(), 256.0 * kept);
    }
}

#[test]
fn one_cut_in_a_round_trip_time() {
    let params = params(FALCON);
    let mut flow = Flow::with_window(&params, 256.0);
    flow.after(1, packets(1, 100));
    for _ in 0..9 {
        flow.after(11_000, packets(1, 100));
        assert_near(flow.window(), 128.0);
    }
    flow.after(1_000, packets(1, 100));
    assert_near(flow.window(), 64.0);
}

#[test]
fn time_that_the_receiver_held_the_packet_is_not_fabric_delay() {
    let params = params(FALCON);
    let mut flow = Flow::with_window(&params, 100.0);
    flow.after(1, ack(MTU, Delay { rtt: Nanos::new(900_000), receiver_hold: Nanos::new(890_000), ..Delay::default() }));
    assert_near(flow.window(), 100.01);
}

#[test]
fn the_rate_is_the_window_over_the_round_trip_time_b8() {
    let params = params(SwiftSettings { rtt_smoothing: 0, longest_gap: 1_000_000, ..FALCON });
    for window in [0.01, 0.3, 1.0, 2.0, 10.5, 37.0, 255.0] {
        for rtt in [30u32, 100, 500, 20_000] {
            let mut flow = Flow::with_window(&params, window);
            let decision = flow.after(
                1,
                ack(
                    1,
                    Delay { rtt: Nanos::new(rtt * 1_000), receiver_hold: Nanos::new(rtt * 1_000), ..Delay::default() },
                ),
            );
            let expected = (flow.window() * f64::from(MTU) / f64::from(rtt) / 1e3).clamp(1.023e-6, 12.5);
            let got = f64::from(decision.rate.to_bits()) / f64::from(1 << 24);
            assert!(
                (got - expected).abs() < expected * 1e-4 + 2.0 / f64::from(1 << 24),
                "{window}, {rtt} us: {got} B/ns for {expected}"
            );
            assert_eq!(decision.window.get(), ((flow.window() * f64::from(MTU)) as u32).max(MTU));
        }
    }
}

#[test]
fn a_hundredth_of_a_packet_in_half_a_millisecond_is_a_packet_in_fifty() {
    let wide = params(SwiftSettings { rtt_smoothing: 0, longest_gap: 1_000_000, ..FALCON });
    let mut flow = Flow::with_window(&wide, 0.01);
    let decision = flow.after(1, packets(0, 500));
    assert_eq!(decision.window, Bytes::new(MTU));
    flow.state.rtt = Nanos::new(500_000);
    let gap = f64::from(MTU) / (f64::from(flow.after(1, Event::Wake).rate.to_bits()) / f64::from(1 << 24));
    assert!((gap / 50e6 - 1.0).abs() < 3e-3, "{gap} ns");
    // Falcon's wheel reaches 33.554 ms.
    let falcon = params(FALCON);
    let mut flow = Flow::with_window(&falcon, 0.01);
    flow.state.rtt = Nanos::new(500_000);
    assert_eq!(flow.after(1, Event::Wake).rate, Rate::from_bits(512));
}

#[test]
fn a_flow_starts_with_one_bandwidth_delay_product() {
    let decision = Flow::new(&params(FALCON)).after(1, Event::Wake);
    assert!(decision.window >= Bytes::new(99_990) && decision.window <= Bytes::new(100_000), "{decision:?}");
    assert!(decision.rate.to_bits() > Rate::from_mbps(99_990).to_bits(), "{decision:?}");
    // 800 Gb/s and 12 us are 1.2 MB, more than 256 packets.
    let link = Link { line_rate: Rate::from_gbps(800), base_rtt: Nanos::new(12_000), ..LINK };
    assert_eq!(Swift::check(&FALCON, &link).unwrap().first_window, 256 << 20);
}

// The endpoint window.

#[test]
fn the_endpoint_window_follows_the_receivers_buffer() {
    let params = params(FALCON);
    let mut flow = Flow::new(&params);
    flow.after(1, level(30));
    let cut = 256.0 * (1.0 - 0.8 * 0.5);
    assert_near(flow.endpoint(), cut);
    // One cut in a round-trip time, but an increment at once.
    flow.after(9_999, level(31));
    assert_near(flow.endpoint(), cut);
    flow.after(0, level(14));
    assert_near(flow.endpoint(), cut + 1.0);
    // And then one increment in a round-trip time.
    flow.after(9_999, level(0));
    assert_near(flow.endpoint(), cut + 1.0);
    flow.after(1, level(0));
    assert_near(flow.endpoint(), cut + 2.0);
    // At the target the excess is 0.
    flow.after(10_000, level(15));
    assert_near(flow.endpoint(), cut + 2.0);
    flow.after(10_000, level(31));
    assert_near(flow.endpoint(), (cut + 2.0) * (1.0 - 0.8 * 16.0 / 31.0));
}

#[test]
fn an_endpoint_window_at_its_largest_can_still_fall() {
    let params = params(FALCON);
    let mut flow = Flow::new(&params);
    for _ in 0..1_000 {
        flow.after(100, level(3));
    }
    assert_near(flow.endpoint(), 256.0);
    flow.after(100, level(31));
    assert!(flow.endpoint() < 256.0);
}

#[test]
fn the_smaller_window_counts_and_a_target_of_zero_disables_the_endpoint_window() {
    let falcon = params(FALCON);
    let mut flow = Flow::with_window(&falcon, 200.0);
    for _ in 0..100 {
        flow.after(10_000, level(31));
    }
    assert_near(flow.endpoint(), 1.0);
    assert_eq!(flow.after(1, Event::Wake).window, Bytes::new(MTU));
    let htsim = params(HTSIM);
    let mut flow = Flow::new(&htsim);
    flow.after(10_000, level(31));
    assert_near(flow.endpoint(), 1_000.0);
}

// Losses.

#[test]
fn a_nack_cuts_once_in_a_round_trip_time() {
    let params = params(FALCON);
    let mut flow = Flow::with_window(&params, 100.0);
    for psn in 0..20 {
        flow.after(10, sent(psn));
    }
    flow.after(10, nack(5));
    assert_near(flow.window(), 50.0);
    // The packets that follow are sent because of it.
    for psn in 5..25 {
        flow.after(10, sent(psn));
    }
    assert_eq!(flow.state.timeouts(), 0);
    flow.after(10, nack(6));
    assert_near(flow.window(), 50.0);
    flow.after(8_000, nack(4));
    assert_near(flow.window(), 25.0);
    // Repeated, of another flow, or of the one that had this number before.
    for psn in [4, 5, 1_000_000, 0xff_0000] {
        flow.after(8_000, nack(psn));
        assert_near(flow.window(), 25.0);
    }
}

#[test]
fn timeouts_cut_and_the_limit_leaves_the_smallest_window() {
    let params = params(FALCON);
    let mut flow = Flow::with_window(&params, 100.0);
    flow.after(1, sent(7));
    flow.after(1, sent(8));
    flow.after(1_000_000, sent(7));
    assert_near(flow.window(), 50.0);
    flow.after(10, sent(8));
    assert_eq!(flow.state.timeouts(), 1);
    flow.after(1_000_000, sent(7));
    assert_near(flow.window(), 25.0);
    flow.after(1_000_000, sent(7));
    assert_near(flow.window(), 0.01);
    for _ in 0..100 {
        flow.after(1_000_000, sent(7));
    }
    assert_eq!(flow.state.timeouts(), 15);
    // Progress, even without a delay, and the next timeout is a first one.
    flow.after(10, Event::Ack(Ack { acked: Bytes::new(MTU), ..Ack::default() }));
    flow.state.fabric = PACKET;
    flow.after(1_000_000, sent(7));
    assert_near(flow.window(), 0.5);
}

#[test]
fn numbers_of_another_sequence_are_no_timeouts() {
    let params = params(FALCON);
    let mut flow = Flow::with_window(&params, 100.0);
    for nth in 0..1_000 {
        flow.after(10, sent(5_000 + nth));
        flow.after(10, sent(2_000 + nth));
    }
    assert_near(flow.window(), 100.0);
}

#[test]
fn packet_numbers_wrap_and_begin_anywhere_f1_f2() {
    let params = params(FALCON);
    for first in [0, 1, 0xff_fff0, 0xff_ffff] {
        let mut flow = Flow::with_window(&params, 100.0);
        for nth in 0..600 {
            flow.after(10, sent(first + nth));
        }
        assert_eq!((flow.window(), flow.state.timeouts()), (100.0, 0), "from {first}");
        flow.after(10, nack(first + 590));
        assert_near(flow.window(), 50.0);
        flow.after(10, sent(first + 590));
        flow.after(1_000_000, sent(first + 590));
        assert_eq!((flow.window(), flow.state.timeouts()), (25.0, 1), "from {first}");
    }
}

// Faults known from other implementations.

#[test]
fn nothing_acknowledged_is_no_sample() {
    let params = params(FALCON);
    let mut flow = Flow::new(&params);
    let fresh = flow.state;
    for event in [packets(0, 900), packets(3, 0), Event::Ack(Ack::default())] {
        flow.after(30_000, event);
        assert_eq!(flow.state, fresh);
    }
}

#[test]
fn no_sample_overflows_c2() {
    for settings in [FALCON, HTSIM] {
        for (gbps, mtu) in [(10, 256), (100, 1_024), (800, 9_216), (800, 16_383)] {
            let link = Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(mtu), ..LINK };
            let params = Swift::check(&settings, &link).unwrap();
            for window in [params.min_window, PACKET - 1, PACKET, params.max_window] {
                for rtt in [0, 1, 20_000, 1_000_000_000, u32::MAX] {
                    for acked in [0, 1, mtu, u32::MAX] {
                        let mut flow = Flow::new(&params);
                        flow.state.fabric = window;
                        let delay = Delay { rtt: Nanos::new(rtt), hops: 255, rx_buffer_level: 255, ..Delay::default() };
                        let decision = flow.after(30_000, ack(acked, delay));
                        assert!(decision.rate >= params.floor && decision.rate <= link.line_rate);
                        assert!(flow.state.fabric >= params.min_window && flow.state.fabric <= params.max_window);
                    }
                }
            }
        }
    }
}

#[test]
fn a_flow_recovers_after_timeouts_c6() {
    let params = params(FALCON);
    let mut flow = Flow::new(&params);
    flow.after(1, sent(1));
    for _ in 0..5 {
        flow.after(1_000_000, sent(1));
    }
    assert_near(flow.window(), 0.01);
    // One packet makes the window one, then a packet a round-trip time: 90 % of 97 packets take 87.
    let mut rounds = 0;
    while flow.window() < 0.9 * 97.6 {
        for _ in 0..flow.window().max(1.0) as u32 {
            flow.after(80, packets(1, 8));
        }
        rounds += 1;
    }
    assert!(rounds < 100, "{rounds} round-trip times");
}

#[test]
fn five_gigabytes_leave_the_rate_as_it_was_c8() {
    let params = params(SwiftSettings { max_window: 97, ..FALCON });
    let mut flow = Flow::new(&params);
    flow.after(1, packets(1, 8));
    flow.after(8_000, packets(97, 8));
    let rate = flow.after(8_000, packets(97, 8)).rate;
    for nth in 0..52_000 {
        flow.after(80, sent(nth * 97));
        assert_eq!(flow.after(7_920, packets(97, 8)).rate, rate);
    }
}

#[test]
fn cuts_at_the_smallest_window_stay_there_and_leave_a_packet_c10_c14() {
    for settings in [FALCON, HTSIM] {
        let params = params(settings);
        let mut flow = Flow::new(&params);
        for _ in 0..1_000 {
            flow.after(60_000_000, packets(1, 50_000));
        }
        assert_eq!(flow.state.fabric, params.min_window);
        let decision = flow.after(1, Event::Wake);
        assert!(decision.rate >= params.floor && decision.window == Bytes::new(MTU));
    }
}

#[test]
fn a_new_flow_has_nothing_of_its_slots_former_flow_c17_f5() {
    let params = params(FALCON);
    let mut flow = Flow::new(&params);
    for event in [sent(4), packets(1, 900), level(31), nack(4), sent(4), sent(4)] {
        flow.after(50_000, event);
    }
    assert_ne!(flow.state, Flow::new(&params).state);
    flow.state = Swift::open(&at(0, &params));
    assert_eq!(flow.state, Flow::new(&params).state);
}

#[test]
fn a_second_congestion_is_treated_as_the_first_c22() {
    let params = params(FALCON);
    let mut flow = Flow::new(&params);
    let mut kept = Vec::new();
    for _ in 0..3 {
        flow.state.fabric = 200 << 20;
        flow.after(1_000_000, packets(1, 100));
        kept.push(flow.state.fabric);
    }
    assert_eq!(kept, [kept[0]; 3]);
}

// Settings.

#[test]
fn settings_that_conflict_are_named() {
    let refused = |settings: SwiftSettings, link: &Link| match Swift::check(&settings, link) {
        Err(ParamError::Conflict { field, .. }) => field,
        Err(ParamError::OutOfRange(field)) => field.name,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(SwiftSettings { fs_min_window: 1_000_000, fs_max_window: 1, ..FALCON }, &LINK), "fs_min_window");
    assert_eq!(refused(SwiftSettings { max_mdf: 1_000_000, ..FALCON }, &LINK), "max_mdf");
    assert_eq!(
        refused(SwiftSettings { longest_gap: 1, ..FALCON }, &Link { line_rate: Rate::from_gbps(1), ..LINK }),
        "longest_gap"
    );
    for mtu in [0, 255, 16_384] {
        assert_eq!(refused(FALCON, &Link { mtu: Bytes::new(mtu), ..LINK }), "max_window");
    }
}

#[test]
fn every_preset_holds_on_every_port() {
    for preset in Swift::PRESETS {
        for gbps in [10, 25, 40, 100, 200, 400, 800] {
            Swift::check(&preset.values, &Link { line_rate: Rate::from_gbps(gbps), ..LINK }).unwrap();
        }
    }
    let mut names: Vec<_> =
        SwiftSettings::FIELDS.iter().flat_map(|field| field.aliases.iter().copied().chain([field.name])).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "no name means two things");
}

// Transitions, wakes, and any state with any event.

#[test]
fn every_transition_is_reached() {
    let params = params(FALCON);
    let mut flow = Flow::new(&params);
    let mut reached = Vec::new();
    let events = [
        sent(1),
        sent(1),
        sent(1),
        sent(1),
        packets(0, 8),
        packets(1, 8),
        packets(1, 8),
        packets(1, 500),
        packets(1, 500),
        sent(2),
        nack(2),
        nack(2),
        Event::Wake,
    ];
    for (nth, event) in events.into_iter().enumerate() {
        reached.push(flow.state.transition(&at(flow.now, &params), &event));
        flow.after(if nth == 6 || nth == 9 { 10_000_000 } else { 100 }, event);
        if nth == 9 {
            flow.now += 10_000_000;
        }
    }
    assert_eq!(reached, [0, 1, 1, 2, 3, 5, 4, 6, 7, 0, 8, 9, 10]);
}

fn any_event() -> impl Strategy<Value = Event<'static>> {
    let delay =
        (0..900_000_u32, 0..30_000_u32, 0..8_u8, 0..32_u8).prop_map(|(rtt, receiver_hold, hops, rx_buffer_level)| {
            Delay { rtt: Nanos::new(rtt), receiver_hold: Nanos::new(receiver_hold), hops, rx_buffer_level }
        });
    let wild = any::<(u32, u32, u32, u8, u8)>().prop_map(|(bytes, rtt, receiver_hold, hops, rx_buffer_level)| {
        ack(bytes, Delay { rtt: Nanos::new(rtt), receiver_hold: Nanos::new(receiver_hold), hops, rx_buffer_level })
    });
    prop_oneof![
        6 => (0..20_000_u32, delay).prop_map(|(bytes, delay)| ack(bytes, delay)),
        1 => wild,
        2 => (0..64_u32).prop_map(|psn| sent(psn.wrapping_sub(32))),
        1 => (0..64_u32).prop_map(|psn| nack(psn.wrapping_sub(32))),
        1 => Just(Event::Wake),
    ]
}

fn any_state() -> impl Strategy<Value = Swift> {
    any::<[u32; 6]>().prop_map(|[fabric, endpoint, rtt, cut, turned, sent]| Swift {
        fabric,
        endpoint,
        rtt: Nanos::new(rtt),
        cut: Stamp::from_bits(cut),
        turned: Stamp::from_bits(turned),
        sent,
    })
}

proptest! {
    #[test]
    fn wakes_change_no_decision(
        events in prop::collection::vec((any_event(), 0..400_000_u64, 0..4_u32), 1..200),
        idle in 0..SECOND,
    ) {
        for settings in [FALCON, HTSIM] {
            let params = params(settings);
            let (mut woken, mut undisturbed) = (Flow::new(&params), Flow::new(&params));
            for (nth, (event, wait, wakes)) in events.iter().enumerate() {
                let wait = if nth == 16 { idle } else { *wait };
                for _ in 0..*wakes {
                    woken.after(wait / 4, Event::Wake);
                }
                let decision = woken.after(wait - u64::from(*wakes) * (wait / 4), *event);
                prop_assert_eq!(decision, undisturbed.after(wait, *event));
            }
        }
    }

    #[test]
    fn an_idle_flow_may_be_cut_however_long_it_was_visited(idle in SECOND / 2..20 * SECOND, rtt in 30..2_000_000_u32) {
        let params = params(FALCON);
        let mut flow = Flow::with_window(&params, 256.0);
        flow.after(1, packets(1, 100));
        flow.after(1, level(31));
        let end = flow.now + idle + SECOND / 10;
        while flow.now + SECOND / 2 < end {
            flow.after(SECOND / 2, Event::Wake);
        }
        let (fabric, endpoint) = (flow.window(), flow.endpoint());
        let delay = Delay { rtt: Nanos::new(rtt.saturating_mul(1_000)), rx_buffer_level: 31, ..Delay::default() };
        flow.after(end - flow.now, ack(MTU, delay));
        prop_assert!(flow.window() < fabric && flow.endpoint() < endpoint);
    }

    #[test]
    fn decisions_are_bounded_from_any_state(
        state in any_state(),
        now: u64,
        events in prop::collection::vec((any_event(), 0..SECOND), 1..20),
    ) {
        for settings in [FALCON, HTSIM] {
            let params = params(settings);
            let (mut state, mut now) = (state, now);
            for (event, wait) in &events {
                now = now.wrapping_add(*wait);
                prop_assert!(state.transition(&at(now, &params), event) < Swift::TRANSITIONS.len());
                let decision = state.on(&at(now, &params), event);
                prop_assert!(decision.rate >= params.floor && decision.rate <= params.line);
                prop_assert!(decision.window >= Bytes::new(MTU));
                prop_assert_eq!((decision.hold, decision.wake_in), (Nanos::ZERO, Nanos::MAX));
            }
        }
    }

    #[test]
    fn windows_stay_within_their_bounds(events in prop::collection::vec((any_event(), 0..SECOND), 1..100)) {
        for settings in [FALCON, HTSIM] {
            let params = params(settings);
            let mut flow = Flow::new(&params);
            for (event, wait) in &events {
                let decision = flow.after(*wait, *event);
                prop_assert!(flow.state.fabric >= params.min_window && flow.state.fabric <= params.max_window);
                prop_assert!(flow.state.endpoint >= PACKET && flow.state.endpoint <= params.max_window);
                prop_assert!(decision.window.get() <= params.max_packets * MTU);
            }
        }
    }

    #[test]
    fn notifications_change_nothing(state in any_state()) {
        let params = params(FALCON);
        let mut after = state;
        after.on(&at(5, &params), &Event::Cnp { body_kind: CnpBodyKind::Standard });
        prop_assert_eq!(after, state);
    }
}
