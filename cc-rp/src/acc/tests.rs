use super::*;
use cc_core::Instant;
use cc_core::params::Settings;
use proptest::prelude::*;
use std::vec::Vec;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_000), base_rtt: Nanos::new(12_000) };
/// What the tests below assume: periods of 1.5 base round trips, and five gradual steps before an aggressive one.
const SETTINGS: AccSettings = AccSettings { period: 150, gradual_periods: 5, ..STABLE };
/// T_p on that port in nanoseconds: 225 packets at line rate.
const PERIOD: u64 = 18_000;
const SECOND: u64 = 1_000_000_000;

fn params(settings: AccSettings) -> Params {
    Acc::check(&settings, &LINK).unwrap()
}

/// Every preset, and settings that reach code that no preset reaches.
fn variants() -> Vec<(&'static str, Params)> {
    let odd = AccSettings {
        period: 200,
        period_packets: 0,
        ue_periods: 1,
        gradual_periods: 0,
        gradual_step: 100,
        aggressive_bound: 1024,
        longest_halt: 3,
        min_rate: 20_000,
        ..SETTINGS
    };
    let presets = Acc::PRESETS.iter().map(|preset| (preset.name, preset.values));
    presets.chain([("odd", odd)]).map(|(name, settings)| (name, params(settings))).collect()
}

fn at<'a>(now: u64, params: &'a Params) -> Cx<'a, Params> {
    let now = Instant::from_nanos(now);
    Cx { now, link: &LINK, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
}

fn sent(psn: u32, bytes: u32) -> Event<'static> {
    Event::Sent { psn: Psn::new(psn), bytes: Bytes::new(bytes) }
}

fn ack(psn: u32, acked: u32, mark: Mark) -> Event<'static> {
    Event::Ack(Ack { psn: Psn::new(psn), acked: Bytes::new(acked), mark, ..Ack::default() })
}

fn nack(psn: u32) -> Event<'static> {
    Event::Nack { psn: Psn::new(psn) }
}

fn mbps(rate: Rate) -> f64 {
    f64::from(rate.to_bits()) / f64::from(1 << 21) * 1_000.0
}

/// A flow with its own clock, in nanoseconds, whose packets of 1,000 bytes are sent and acknowledged in order.
struct Flow {
    state: Acc,
    params: Params,
    now: u64,
    next: u32,
    acked: u32,
}

impl Flow {
    fn new(settings: AccSettings) -> Self {
        let params = params(settings);
        Self { state: Acc::open(&at(0, &params)), params, now: 0, next: 0, acked: 0 }
    }

    fn on(&mut self, event: Event) -> Decision {
        self.state.on(&at(self.now, &self.params), &event)
    }

    fn send(&mut self, packets: u32) -> Decision {
        self.next += packets;
        self.on(sent(self.next - 1, packets * 1_000))
    }

    fn receive(&mut self, packets: u32, mark: Mark) -> Decision {
        self.acked += packets;
        self.on(ack(self.acked - 1, packets * 1_000, mark))
    }

    /// Advances to the end of the period.
    fn pass(&mut self) -> Decision {
        let end = self.state.period_end().unwrap();
        self.now += u64::from(end.since(Instant::from_nanos(self.now).stamp()).get());
        self.on(Event::Wake)
    }

    /// A period in which `packets` packets are sent and as many are then acknowledged with this mark.
    fn period(&mut self, packets: u32, mark: Mark) -> Decision {
        self.send(packets);
        self.receive(packets, mark);
        // Some packets are always in flight.
        self.pass()
    }

    /// A flow that has just been found congested: 225 packets were sent in each of two periods, and 90 were acknowledged in the
    /// second.
    fn congested(settings: AccSettings) -> (Self, Decision) {
        let mut flow = Self::new(settings);
        flow.send(225);
        flow.pass();
        flow.send(225);
        flow.receive(90, Mark::Congested);
        let decision = flow.pass();
        (flow, decision)
    }
}

// Rules of the slides.

#[test]
fn a_congested_flow_halts_until_its_excess_has_drained_and_then_matches_the_acknowledgements() {
    let (flow, decision) = Flow::congested(AccSettings { acc_literal: 1, ..SETTINGS });
    // 90 packets in 18 us are 40 Gb/s. The first period was extended, so the second is twice as long.
    assert_eq!(flow.now, 2 * PERIOD);
    let expected = 90.0 * 8_000.0 / 36.0;
    assert!((mbps(decision.rate) - expected).abs() < 0.2, "{} for {expected}", mbps(decision.rate));
    assert_eq!((flow.state.mode(), decision.window), (Mode::Congested, Bytes::MAX));
}

#[test]
fn the_halt_is_what_was_sent_and_not_acknowledged_at_the_throttled_rate() {
    let settings = AccSettings { acc_literal: 1, ..SETTINGS };
    let mut flow = Flow::new(settings);
    flow.send(200);
    flow.receive(1, Mark::None);
    flow.pass();
    flow.send(150);
    flow.receive(90, Mark::Congested);
    let decision = flow.pass();
    // Sent(i-1) - Ack(i) = 200 - 90 packets, at 90 packets in 18 us.
    assert!((mbps(decision.rate) - 40_000.0).abs() < 0.5, "{}", mbps(decision.rate));
    assert!((i64::from(decision.hold.get()) - 110 * 200).abs() <= 1, "{:?}", decision.hold);
    // Beside that, 259 packets are in flight, and 40 Gb/s for 12 us are 60.
    let mut flow = Flow::new(SETTINGS);
    flow.send(200);
    flow.receive(1, Mark::None);
    flow.pass();
    flow.send(150);
    flow.receive(90, Mark::Congested);
    let hold = flow.pass().hold.get();
    assert!((i64::from(hold) - (259 - 60) * 200).abs() <= 2, "{hold}");
}

#[test]
fn a_victim_is_throttled_without_a_halt_once_enough_periods_brought_marks() {
    let mut flow = Flow::new(SETTINGS);
    flow.send(10);
    for nth in 1..=3 {
        let decision = flow.period(45, Mark::Undetermined);
        let expected = if nth < 3 { 100_000.0 } else { 20_000.0 };
        assert!((mbps(decision.rate) - expected).abs() < 0.5, "after {nth}: {}", mbps(decision.rate));
        assert_eq!((flow.state.mode(), decision.hold), (Mode::Victim, Nanos::ZERO));
    }
    // After a period without marks the count restarts at 0.
    let rate = flow.period(30, Mark::None).rate;
    assert!(rate > flow.period(20, Mark::Undetermined).rate.saturating_sub(Rate::from_mbps(1)));
    assert_eq!(flow.state.run, 1);
}

#[test]
fn an_uncongested_flow_speeds_up_gradually_and_then_aggressively() {
    let mut flow = Flow::new(SETTINGS);
    flow.state.rate = Rate::from_gbps(2);
    flow.send(10);
    let steps: Vec<f64> = (0..11)
        .map(|_| {
            let before = mbps(flow.state.rate());
            mbps(flow.period(16, Mark::None).rate) - before
        })
        .collect();
    // Five times the 256th part of the line; then the rate doubles, by an eighth of the line at the most.
    let near =
        |got: &[f64], expected: &[f64]| got.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 0.01);
    assert!(near(&steps[..5], &[390.625; 5]), "{steps:?}");
    assert!(near(&steps[5..], &[3_953.125, 7_906.25, 12_500.0, 12_500.0, 12_500.0, 12_500.0]), "{steps:?}");
    for _ in 0..6 {
        flow.period(16, Mark::None);
    }
    assert_eq!(flow.state.rate(), LINK.line_rate);
}

/// The preset `stable` doubles the rate after 15 gradual steps, no earlier.
#[test]
fn the_preset_stable_has_fifteen_gradual_steps() {
    let mut flow = Flow::new(STABLE);
    flow.state.rate = Rate::from_gbps(2);
    flow.send(10);
    for step in 1..=15 {
        let rate = mbps(flow.period(16, Mark::None).rate);
        assert!((rate - 2_000.0 - f64::from(step) * 390.625).abs() < 0.01, "{step}: {rate}");
    }
    let rate = mbps(flow.state.rate());
    assert!((mbps(flow.period(16, Mark::None).rate) - 2.0 * rate).abs() < 0.01);
}

// Rules of this project.

#[test]
fn marks_of_packets_sent_before_the_halt_change_nothing() {
    let (mut flow, decision) = Flow::congested(SETTINGS);
    let halt = flow.state.halt_until().unwrap();
    for mark in [Mark::Congested, Mark::Undetermined, Mark::None] {
        flow.receive(20, mark);
        assert_eq!(flow.pass().rate, decision.rate);
        assert_eq!((flow.state.mode(), flow.state.halt_until()), (Mode::Drain, Some(halt)));
    }
}

#[test]
fn the_acknowledgement_that_passes_the_guard_begins_a_period() {
    let (mut flow, decision) = Flow::congested(SETTINGS);
    flow.now += u64::from(decision.hold.get());
    assert_eq!(flow.on(Event::Wake).hold, Nanos::ZERO);
    flow.send(16);
    flow.receive(360, Mark::None);
    flow.now += 5_000;
    let period = flow.params.period(flow.state.rate());
    assert_eq!(flow.receive(1, Mark::Congested).wake_in, period);
    // The bytes that it acknowledges do not count: they were in flight before the period began.
    flow.receive(10, Mark::None);
    let rate = mbps(flow.pass().rate);
    let expected = 10.0 * 8_000.0 / (f64::from(period.get()) / 1_000.0);
    assert!((rate - expected.min(mbps(decision.rate))).abs() < 0.5, "{rate} for {expected}");
}

#[test]
fn a_guard_is_passed_by_an_acknowledgement_at_or_beyond_it() {
    for first in [0, 0xff_ff00, 0x7f_ffff] {
        let (mut flow, _) = Flow::congested(SETTINGS);
        flow.state.guard = Psn::new(first + 450);
        flow.state.next = Psn::new(first + 500);
        for (psn, passed) in [(449, false), (0, false), (450, true), (499, true)] {
            let mut state = flow.state;
            state.on(&at(flow.now, &flow.params), &ack(first + psn, 0, Mark::None));
            assert_eq!(!state.has(GUARDED), passed, "{psn} from {first}");
        }
    }
}

#[test]
fn a_halt_ends_with_the_last_packet_in_flight_and_is_bounded() {
    let (mut flow, decision) = Flow::congested(SETTINGS);
    assert!(decision.hold > Nanos::ZERO);
    assert_eq!(flow.receive(360, Mark::None).hold, Nanos::ZERO);
    let mut flow = Flow::new(SETTINGS);
    flow.send(1_000_000);
    flow.receive(1, Mark::Congested);
    let decision = flow.pass();
    assert_eq!(decision.hold, Nanos::new(64 * flow.params.period(decision.rate).get()));
}

#[test]
fn no_acknowledgement_for_sixteen_periods_halves_the_rate_down_to_the_floor() {
    let mut flow = Flow::new(SETTINGS);
    flow.send(10);
    for _ in 0..15 {
        assert_eq!(flow.pass().rate, LINK.line_rate);
    }
    assert_eq!(flow.pass().rate, Rate::from_gbps(50));
    flow.now += SECOND / 2;
    assert_eq!(flow.on(Event::Wake).rate, flow.params.floor);
    let (before, decision) = (flow.state, flow.on(Event::Wake));
    assert_eq!((flow.state, decision.hold), (before, Nanos::ZERO));
    assert!((mbps(decision.rate) - 100.0).abs() < 0.01);
    // The first acknowledgement counts for the extended period.
    flow.receive(10, Mark::None);
    assert!(flow.pass().rate > flow.params.floor);
}

#[test]
fn an_idle_flow_has_no_periods_and_keeps_its_rate() {
    let mut flow = Flow::new(SETTINGS);
    assert_eq!(flow.on(Event::Wake).wake_in, Nanos::MAX);
    flow.state.rate = Rate::from_gbps(10);
    flow.period(16, Mark::None);
    let decision = flow.pass();
    assert_eq!((decision.wake_in, flow.state.period_end()), (Nanos::MAX, None));
    flow.now += 3 * SECOND;
    assert_eq!(flow.on(Event::Wake).rate, decision.rate);
    assert_eq!(flow.send(1).wake_in, Nanos::new(PERIOD as u32));
}

#[test]
fn a_period_has_room_for_sixteen_packets_but_not_more_than_eight_round_trips() {
    let p = params(AccSettings { period_packets: 16, ..SETTINGS });
    assert_eq!(p.period(LINK.line_rate), Nanos::new(18_000));
    // 16 packets of 1,000 bytes at 4 Gb/s are 32 us.
    assert!((31_990..=32_000).contains(&p.period(Rate::from_gbps(4)).get()));
    assert_eq!(p.period(Rate::from_mbps(100)), Nanos::new(96_000));
}

/// Two base round trips, whatever the rate.
#[test]
fn periods_of_the_preset_stable_are_equally_long_for_all_flows() {
    let p = params(STABLE);
    for rate in [LINK.line_rate, Rate::from_gbps(4), Rate::from_mbps(100), p.floor] {
        assert_eq!(p.period(rate), Nanos::new(24_000));
    }
}

#[test]
fn a_mark_without_newly_acknowledged_bytes_gives_no_rate() {
    let mut flow = Flow::new(SETTINGS);
    flow.send(100);
    flow.on(ack(0, 0, Mark::Congested));
    let decision = flow.pass();
    assert_eq!((decision.rate, flow.state.mode()), (LINK.line_rate, Mode::Congested));
}

#[test]
fn a_negative_acknowledgement_empties_the_flight_and_cuts_nothing() {
    let mut flow = Flow::new(SETTINGS);
    flow.send(100);
    assert_eq!(flow.on(nack(40)).rate, LINK.line_rate);
    assert_eq!(flow.state.in_flight(), Bytes::ZERO);
    // A packet sent again is in flight, but was counted as sent before.
    flow.on(sent(99, 60_000));
    assert_eq!((flow.state.in_flight(), flow.state.sent), (Bytes::new(60_000), Bytes::new(100_000)));
    flow.on(sent(109, 10_000));
    assert_eq!(flow.state.sent, Bytes::new(110_000));
    // More bytes are acknowledged than were in flight.
    flow.on(ack(109, 110_000, Mark::None));
    assert_eq!(flow.state.in_flight(), Bytes::ZERO);
}

#[test]
fn a_negative_acknowledgement_may_pass_the_guard() {
    let (mut flow, _) = Flow::congested(SETTINGS);
    flow.on(nack(450));
    assert!(flow.state.has(GUARDED), "packet 450, the first behind the guard, is what is missing");
    flow.now += 1_000_000;
    flow.send(10);
    flow.on(nack(452));
    assert!(!flow.state.has(GUARDED));
}

#[test]
fn acknowledgements_of_packets_never_sent_are_ignored() {
    let mut flow = Flow::new(SETTINGS);
    let before = flow.state;
    flow.on(ack(7, 1_000, Mark::Congested));
    flow.on(nack(7));
    assert_eq!(flow.state, before);
    flow.send(10);
    let before = flow.state;
    flow.on(ack(10, 1_000, Mark::Congested));
    flow.on(nack(11));
    assert_eq!(flow.state, before);
}

#[test]
fn packet_numbers_that_wrap_change_no_decision_f1_f2() {
    // The same flow from three first numbers: 0, and two that wrap on the way.
    let run = |first: u32| {
        let params = params(SETTINGS);
        let mut state = Acc::open(&at(0, &params));
        let mut decisions = Vec::new();
        for nth in 0..4_000u32 {
            let now = u64::from(nth) * 700;
            decisions.push(state.on(&at(now, &params), &sent(first.wrapping_add(nth), 1_000)));
            if let Some(psn) = nth.checked_sub(20) {
                let mark = if nth % 900 > 850 { Mark::Congested } else { Mark::None };
                decisions.push(state.on(&at(now + 300, &params), &ack(first.wrapping_add(psn), 1_000, mark)));
            }
        }
        decisions
    };
    let plain = run(0);
    assert!(plain.iter().any(|decision| decision.hold > Nanos::ZERO));
    assert_eq!(plain, run(0xff_ffff));
    assert_eq!(plain, run(0xff_f800));
}

#[test]
fn a_slot_used_before_starts_as_new_d4_f5() {
    let (mut flow, _) = Flow::congested(SETTINGS);
    flow.state = Acc::open(&at(flow.now, &flow.params));
    assert_eq!(flow.state, Acc::open(&at(flow.now, &flow.params)));
    // Late feedback of its predecessor changes nothing.
    let fresh = flow.state;
    assert_eq!(flow.on(ack(449, 1_000, Mark::Congested)).rate, LINK.line_rate);
    assert_eq!(flow.state, fresh);
}

#[test]
fn settings_that_conflict_with_the_port_are_named() {
    let refused = |settings: AccSettings, link: &Link| match Acc::check(&settings, link) {
        Err(ParamError::Conflict { field, .. }) => field,
        Err(ParamError::OutOfRange(field)) => field.name,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(SETTINGS, &Link { base_rtt: Nanos::new(8_000_001), ..LINK }), "period");
    assert_eq!(refused(SETTINGS, &Link { base_rtt: Nanos::ZERO, ..LINK }), "period");
    assert_eq!(refused(SETTINGS, &Link { line_rate: Rate::ZERO, ..LINK }), "min_rate");
    assert_eq!(refused(AccSettings { ue_periods: 0, ..SETTINGS }, &LINK), "ue_periods");
    for preset in Acc::PRESETS {
        Acc::check(&preset.values, &LINK).unwrap();
        assert!(preset.values.in_range().is_ok());
        assert!(preset.source.contains("none published") || preset.source.contains("as stable"));
    }
}

// Late wakes.

/// A reproducible stream of numbers (Steele, Lea and Flood's SplitMix64, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// From 1 to 2^`bits`, each magnitude as likely as any other.
    fn magnitude(&mut self, bits: u64) -> u64 {
        let bits = self.below(bits + 1);
        1 + (self.next() & ((1 << bits) - 1))
    }
}

/// A random sequence of events of a transport: packets in order, some sent again, most acknowledged.
struct Transport {
    random: Random,
    next: u32,
    newest: u32,
    acked: u32,
    mood: u64,
}

impl Transport {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let first = random.next() as u32;
        Self { random, next: first, newest: first, acked: first, mood: 0 }
    }

    fn event(&mut self) -> (u64, Event<'static>) {
        let random = &mut self.random;
        if random.below(60) == 0 {
            self.mood = random.below(5);
        }
        let gap = match random.below(600) {
            0 => SECOND + random.below(5 * SECOND),
            1..10 => random.magnitude(24),
            _ => random.magnitude(12),
        };
        let outstanding = self.next.wrapping_sub(self.acked);
        let event = match random.below(40) {
            0 if outstanding > 0 => {
                self.next = self.acked.wrapping_add(random.below(outstanding.into()) as u32);
                self.acked = self.next;
                nack(self.next)
            }
            1..20 if outstanding > 0 => {
                let packets = 1 + random.below(u64::from(outstanding.min(8))) as u32;
                self.acked = self.acked.wrapping_add(packets);
                let mark = match (self.mood, random.below(4)) {
                    (0 | 1, _) => Mark::None,
                    (2, 0 | 1) => Mark::Congested,
                    (3, 0 | 1) => Mark::Undetermined,
                    (4, 0) => Mark::Congested,
                    (4, 1) => Mark::Undetermined,
                    _ => Mark::None,
                };
                ack(self.acked.wrapping_sub(1), packets * 1_000, mark)
            }
            20 => ack(self.acked.wrapping_sub(random.below(30) as u32), 0, Mark::Congested),
            _ => {
                let packets = 1 + random.below(4) as u32;
                self.next = self.next.wrapping_add(packets);
                if self.next.wrapping_sub(self.newest) < 1 << 31 {
                    self.newest = self.next;
                }
                sent(self.next.wrapping_sub(1), packets * 1_000)
            }
        };
        (gap, event)
    }
}

/// Passes the same events to a flow that is woken at its deadlines, and to one that is woken at random and at least twice a
/// second. Returns the number of the first event at which their decisions differ.
fn first_difference(params: &Params, seed: u64, count: usize, wake: fn(&mut Acc, &Cx<'_, Params>)) -> Option<usize> {
    let mut transport = Transport::new(seed);
    let mut random = Random(!seed);
    let mut now = 5 * SECOND;
    let mut exact = Acc::open(&at(now, params));
    let mut late = exact;
    let mut wake_at = u64::MAX;
    for nth in 0..count {
        let (gap, event) = transport.event();
        let next = now + gap;
        let mut swept = now;
        while next - swept > SECOND / 2 {
            swept += SECOND / 2 - random.below(SECOND / 8);
            wake(&mut late, &at(swept, params));
        }
        if random.below(4) == 0 {
            swept += random.below(next - swept);
            wake(&mut late, &at(swept, params));
        }
        while wake_at <= next {
            let decision = exact.on(&at(wake_at, params), &Event::Wake);
            assert!(decision.wake_in > Nanos::ZERO);
            wake_at =
                if decision.wake_in == Nanos::MAX { u64::MAX } else { wake_at + u64::from(decision.wake_in.get()) };
        }
        now = next;
        let expected = exact.on(&at(now, params), &event);
        wake_at = if expected.wake_in == Nanos::MAX { u64::MAX } else { now + u64::from(expected.wake_in.get()) };
        if late.on(&at(now, params), &event) != expected {
            return Some(nth);
        }
    }
    None
}

#[test]
fn wakes_change_no_decision() {
    for (name, params) in variants() {
        for seed in 0..6 {
            let difference = first_difference(&params, seed, 20_000, |late, cx| {
                late.on(cx, &Event::Wake);
            });
            assert_eq!(difference, None, "{name}");
        }
    }
}

/// A typical mistake: the next period begins when the wake comes, not when the last one ended.
fn moves_periods(late: &mut Acc, cx: &Cx<'_, Params>) {
    if late.has(RUNNING) && late.period_end.is_due(cx.now.stamp()) {
        late.period_end = cx.now.stamp();
    }
    late.on(cx, &Event::Wake);
}

#[test]
fn the_wake_test_detects_mistakes() {
    for (name, params) in variants() {
        assert!(first_difference(&params, 1, 20_000, moves_periods).is_some(), "{name}");
    }
}

#[test]
fn every_transition_and_every_mode_is_reached() {
    let params = params(SETTINGS);
    let (mut rows, mut modes) = ([false; Acc::TRANSITIONS.len()], Vec::new());
    let mut transport = Transport::new(3);
    let mut state = Acc::open(&at(0, &params));
    let mut now = 0;
    for _ in 0..20_000 {
        let (gap, event) = transport.event();
        now += gap.min(SECOND);
        for event in [Event::Wake, event] {
            rows[state.transition(&at(now, &params), &event)] = true;
            state.on(&at(now, &params), &event);
            if !modes.contains(&state.mode()) {
                modes.push(state.mode());
            }
        }
    }
    assert_eq!((rows, modes.len()), ([true; Acc::TRANSITIONS.len()], 4));
}

// Any state with any event.

fn any_state() -> impl Strategy<Value = Acc> {
    (any::<[u32; 9]>(), any::<[u8; 4]>()).prop_map(|(words, [mode, run, extended, flags])| Acc {
        rate: Rate::from_bits(words[0]),
        period_end: Stamp::from_bits(words[1]),
        halt_until: Stamp::from_bits(words[2]),
        sent: Bytes::new(words[3]),
        sent_before: Bytes::new(words[4]),
        acked: Bytes::new(words[5]),
        in_flight: Bytes::new(words[6]),
        guard: Psn::new(words[7]),
        next: Psn::new(words[8]),
        mode: match mode & 3 {
            0 => Mode::Uncongested,
            1 => Mode::Congested,
            2 => Mode::Drain,
            _ => Mode::Victim,
        },
        run,
        extended,
        flags,
    })
}

fn any_event() -> impl Strategy<Value = Event<'static>> {
    let mark = prop_oneof![Just(Mark::None), Just(Mark::Undetermined), Just(Mark::Congested)];
    prop_oneof![
        (any::<u32>(), any::<u32>()).prop_map(|(psn, bytes)| sent(psn, bytes)),
        (any::<u32>(), any::<u32>(), mark).prop_map(|(psn, bytes, mark)| ack(psn, bytes, mark)),
        any::<u32>().prop_map(nack),
        Just(Event::Wake),
    ]
}

proptest! {
    #[test]
    fn any_state_takes_any_event(
        state in any_state(),
        now in any::<u64>(),
        events in prop::collection::vec((any_event(), 0..SECOND), 1..6),
    ) {
        for (_, params) in variants() {
            let (mut state, mut now) = (state, now);
            for (event, wait) in &events {
                now = now.wrapping_add(*wait);
                prop_assert!(state.transition(&at(now, &params), event) < Acc::TRANSITIONS.len());
                let decision = state.on(&at(now, &params), event);
                prop_assert!(decision.wake_in > Nanos::ZERO && decision.hold <= LONGEST_HALT);
            }
        }
    }

    #[test]
    fn rates_stay_between_floor_and_line_and_no_mark_raises_one(seed in any::<u64>()) {
        for (_, params) in variants() {
            let limits = Acc::limits(&params, &LINK);
            let mut transport = Transport::new(seed);
            let (mut state, mut now) = (Acc::open(&at(0, &params)), 0);
            for _ in 0..400 {
                let (gap, event) = transport.event();
                now += gap.min(SECOND);
                let before = state.rate();
                let decision = state.on(&at(now, &params), &Event::Wake);
                prop_assert!(state.mode() == Mode::Uncongested || decision.rate <= before);
                let decision = state.on(&at(now, &params), &event);
                prop_assert!(decision.rate >= limits.rate && decision.rate <= LINK.line_rate);
                prop_assert!(decision.window >= limits.window && decision.hold <= limits.hold);
                // A flow with packets in flight always has a wake.
                prop_assert!(state.in_flight() == Bytes::ZERO || decision.wake_in < Nanos::MAX);
            }
        }
    }
}
