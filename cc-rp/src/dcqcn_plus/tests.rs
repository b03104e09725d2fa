use super::*;
use crate::Ack;
use crate::cnp_gate::gated;
use cc_core::params::Settings;
use cc_core::{CnpBody, Instant, Psn};
use proptest::prelude::*;
use std::vec::Vec;

const US: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;
/// The preset `paper` with periods that are computed whenever they begin.
const RECOMPUTED: DcqcnPlusSettings = DcqcnPlusSettings { timers: 0, ..PAPER };
const PLAIN: Event = Event::Cnp { body_kind: CnpBodyKind::Standard };

fn link(gbps: u32) -> Link {
    Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(1_024), base_rtt: Nanos::new(8_000) }
}

fn params(settings: DcqcnPlusSettings, gbps: u32) -> Params {
    DcqcnPlus::check(&settings, &link(gbps)).unwrap()
}

/// Every preset, and settings that reach code that no preset reaches.
fn variants() -> Vec<(&'static str, Params)> {
    let odd = [
        ("alpha stands", DcqcnPlusSettings { alpha_in_pause: 1, ..RECOMPUTED }),
        (
            "odd",
            DcqcnPlusSettings {
                rpg_time_reset: 150,
                dce_tcp_rtt: 10,
                lambda: 3_000,
                lambda_alpha: 1_500,
                rpg_threshold: 2,
                largest_cut: 70,
                rpg_min_rate: 40,
                dce_tcp_g: 900,
                initial_alpha_value: 300,
                ..RECOMPUTED
            },
        ),
    ];
    let presets = DcqcnPlus::PRESETS.iter().map(|preset| (preset.name, preset.values));
    presets.chain(odd).map(|(name, settings)| (name, params(settings, 10))).collect()
}

fn at<'a>(now: u64, params: &'a Params, link: &'a Link) -> Cx<'a, Params> {
    let now = Instant::from_nanos(now);
    Cx { now, link, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
}

fn period(seq: u16, nanos: u32) -> Event<'static> {
    let body = CnpBody { kind: CnpKind::Period, seq, period: Nanos::new(nanos), ..CnpBody::default() };
    Event::Cnp { body_kind: CnpBodyKind::Extended(body) }
}

fn numbered(kind: CnpKind, seq: u16) -> Event<'static> {
    Event::Cnp { body_kind: CnpBodyKind::Extended(CnpBody { kind, seq, ..CnpBody::default() }) }
}

/// A flow with its own clock, and for how long it was paused so far, both in nanoseconds.
struct Flow {
    state: DcqcnPlus,
    params: Params,
    link: Link,
    now: u64,
    paused: u32,
}

impl Flow {
    fn new(settings: DcqcnPlusSettings, gbps: u32) -> Self {
        let (params, link) = (params(settings, gbps), link(gbps));
        Self { state: DcqcnPlus::open(&at(0, &params, &link)), params, link, now: 0, paused: 0 }
    }

    /// A flow with these rates that was notified just now.
    fn cut_to(settings: DcqcnPlusSettings, gbps: u32, current: Rate, period: Nanos) -> Self {
        let mut flow = Self::new(settings, gbps);
        flow.on(0, PLAIN);
        (flow.state.current, flow.state.target, flow.state.period) = (current, current, period);
        flow
    }

    fn on(&mut self, now: u64, event: Event) -> Decision {
        self.now = now;
        let event = gated(&self.state, event);
        let mut cx = at(now, &self.params, &self.link);
        cx.clock_without_pauses = Stamp::from_bits(cx.clock_without_pauses.to_bits().wrapping_sub(self.paused));
        self.state.on(&cx, &event)
    }

    fn after(&mut self, wait: u64, event: Event) -> Decision {
        self.on(self.now + wait, event)
    }

    /// How long a timer runs that starts now.
    fn length(&self, timer: &Timer) -> Nanos {
        self.state.length(&self.params, timer, self.state.packet_time(&self.params))
    }

    /// Advances to the next expiry of the rate timer.
    fn expire(&mut self) {
        let paused = Stamp::from_bits((self.now as u32).wrapping_sub(self.paused));
        let wait = self.state.rate_due.since(paused).get();
        self.after(wait.into(), Event::Wake);
    }
}

// Rules of the paper.

#[test]
fn the_timer_is_1080_us_at_540_flows() {
    // V-D: K = 2 max {540 x 1 us, 8000 bits / (10 Gb/s / 540)}.
    let fair = Rate::from_bits(Rate::from_gbps(10).to_bits() / 540);
    let flow = Flow::cut_to(RECOMPUTED, 10, fair, Nanos::new(540_000));
    assert_eq!(flow.length(&flow.params.increase), Nanos::new(1_080_000));
    assert_eq!(flow.length(&flow.params.alpha_decay), Nanos::new(540_000));
    // Where CNPs come faster, the time of a packet decides: 432 us.
    let flow = Flow::cut_to(RECOMPUTED, 10, fair, Nanos::new(400_000));
    let increase = flow.length(&flow.params.increase).get();
    assert!((863_990..=864_010).contains(&increase), "{increase}");
}

/// Where tau passes 50 us, lambda tau is 100 us: the periods of `stable` for a short tau are no shorter, those of `paper` are.
#[test]
fn the_timers_of_a_short_period_are_lambda_times_those_of_dcqcn_in_stable() {
    for (settings, short) in [(STABLE, 110_000), (PAPER, 55_000)] {
        let mut flow = Flow::new(settings, 40);
        assert_eq!(flow.on(0, period(1, 50_000)).wake_in, Nanos::new(short));
        assert_eq!(flow.length(&flow.params.alpha_decay), Nanos::new(short));
        assert_eq!(flow.on(US, period(2, 50_001)).wake_in, Nanos::new(100_002));
    }
}

#[test]
fn a_short_period_leaves_the_timers_of_dcqcn_however_slow_the_flow() {
    let mut flow = Flow::new(RECOMPUTED, 10);
    assert_eq!(flow.on(0, period(1, 50_000)).wake_in, Nanos::new(55_000));
    assert_eq!(flow.on(US, period(2, 50_001)).wake_in, Nanos::new(100_002));
    let flow = Flow::cut_to(RECOMPUTED, 10, Rate::from_mbps(1), Nanos::new(10_000));
    assert_eq!(flow.length(&flow.params.increase), Nanos::new(55_000));
    // Above 50 us a packet's time decides: 16,000 bits at 1 Mb/s, which is 2,097 raw.
    let flow = Flow::cut_to(RECOMPUTED, 10, Rate::from_mbps(1), Nanos::new(60_000));
    let increase = flow.length(&flow.params.increase).get();
    assert!((15_999_000..=16_002_000).contains(&increase), "{increase}");
}

#[test]
fn the_first_cut_is_by_half_and_no_cut_goes_below_a_10000th_of_the_line() {
    let mut flow = Flow::new(RECOMPUTED, 40);
    assert_eq!(flow.on(0, PLAIN).rate, Rate::from_gbps(20));
    for _ in 0..200 {
        flow.after(US, PLAIN);
    }
    let floor = flow.state.current.to_bits();
    assert_eq!(floor, Rate::from_gbps(40).to_bits() / 10_000);
}

#[test]
fn alpha_rises_and_decays_by_g() {
    let mut flow = Flow::new(DcqcnPlusSettings { initial_alpha_value: 512, ..RECOMPUTED }, 10);
    let alpha = |flow: &Flow| f64::from(flow.state.alpha.to_bits()) / f64::from(1u32 << 31);
    let g: f64 = 1.0 / 256.0;
    for k in 1..=200 {
        flow.after(US, PLAIN);
        assert!((alpha(&flow) - (1.0 - 0.5 * (1.0 - g).powi(k))).abs() < 1e-7);
    }
    let before = alpha(&flow);
    let length = flow.length(&flow.params.alpha_decay).get();
    flow.after(u64::from(length), Event::Wake);
    assert!((alpha(&flow) - before * (1.0 - g)).abs() < 1e-8);
}

#[test]
fn fast_recovery_halves_the_way_back_four_times() {
    let mut flow = Flow::new(RECOMPUTED, 10);
    let cut = flow.on(0, PLAIN).rate.to_bits();
    let target = Rate::from_gbps(10).to_bits();
    for k in 1..=4 {
        flow.expire();
        assert_eq!(flow.state.current.to_bits(), target - ((target - cut) >> k), "round {k}");
    }
}

/// The increase of R_T in each of `count` increases, as a fraction of the line rate. The rate is reset before each, so that
/// steps are comparable.
fn gains(alpha: Frac, rate: Rate, count: usize) -> Vec<f64> {
    let mut flow = Flow::cut_to(RECOMPUTED, 40, rate, Nanos::ZERO);
    (0..count)
        .map(|_| {
            (flow.state.alpha, flow.state.current, flow.state.target) = (alpha, rate, rate);
            flow.state.increase(&flow.params);
            f64::from(flow.state.target.saturating_sub(rate).to_bits()) / f64::from(Rate::from_gbps(40).to_bits())
        })
        .collect()
}

#[test]
fn phases_and_steps_follow_the_paper() {
    let near =
        |got: &[f64], expected: &[f64]| got.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 1e-6);
    // A fast flow: the steps are the bounds by the line rate. S = F and S = 4F are additive.
    let fast = gains(Frac::ONE, Rate::from_gbps(20), 24);
    assert!(near(&fast[..4], &[0.0; 4]) && near(&fast[4..20], &[0.02; 16]), "{fast:?}");
    assert!(near(&fast[20..], &[0.01, 0.02, 0.03, 0.04]), "{fast:?}");
    let calm = gains(Frac::from_ratio(1, 10), Rate::from_gbps(20), 24);
    assert!(near(&calm[4..20], &[0.01; 16]), "{calm:?}");
    // A slow one, at a thousandth of the line: a fifth or a tenth of its rate, then all of it.
    let slow = gains(Frac::ONE, Rate::from_mbps(40), 24);
    assert!(near(&slow[4..20], &[0.0002; 16]) && near(&slow[20..], &[0.001; 4]), "{slow:?}");
    let calm = gains(Frac::from_ratio(1, 20), Rate::from_mbps(40), 24);
    assert!(near(&calm[4..20], &[0.0001; 16]), "{calm:?}");
}

#[test]
fn ten_hyper_periods_raise_a_small_rate_two_hundred_times() {
    // (21) and (22) with R_T = 2 R_C at first multiply by 1 + sqrt (1/2) in the long run: that to the tenth is 210.
    let mut flow = Flow::cut_to(RECOMPUTED, 800, Rate::from_mbps(80), Nanos::ZERO);
    flow.state.stage = 60;
    for _ in 0..10 {
        flow.state.increase(&flow.params);
    }
    let gain = f64::from(flow.state.current.to_bits()) / f64::from(Rate::from_mbps(80).to_bits());
    assert!((150.0..260.0).contains(&gain), "{gain}");
}

#[test]
fn recovery_ends_within_a_hundred_steps() {
    for gbps in [1, 10, 40, 100, 400, 800, 2_047] {
        for rpg_min_rate in [0, 1] {
            let mut flow =
                Flow::cut_to(DcqcnPlusSettings { rpg_min_rate, ..RECOMPUTED }, gbps, Rate::ZERO, Nanos::ZERO);
            (flow.state.current, flow.state.target) = (flow.params.floor, flow.params.floor);
            flow.state.alpha = Frac::ZERO;
            let steps = (1..).find(|_| {
                flow.state.increase(&flow.params);
                !flow.state.is_limited()
            });
            assert!(steps.unwrap() <= 100, "{steps:?} at {gbps} Gb/s");
        }
    }
}

/// Time until a flow comes from a share of the line rate to nine tenths of it, without CNPs.
fn recovery(settings: DcqcnPlusSettings, gbps: u32, flows: u32, period: Nanos) -> u64 {
    let fair = Rate::from_bits(Rate::from_gbps(gbps).to_bits() / flows);
    let mut flow = Flow::new(settings, gbps);
    flow.on(0, PLAIN);
    (flow.state.current, flow.state.target) = (Rate::from_bits(fair.to_bits() * 2), fair);
    flow.on(0, self::period(1, period.get()));
    while flow.state.current.to_bits() < Rate::from_gbps(gbps).to_bits() / 10 * 9 {
        flow.expire();
    }
    flow.now
}

#[test]
fn recovery_after_an_incast_of_a_thousand_flows_takes_less_than_a_tenth_of_a_second() {
    // V-A: throughput loss is always less than 0.1 second.
    for gbps in [10, 40] {
        let time = recovery(RECOMPUTED, gbps, 1_000, Nanos::new(1_000_000));
        assert!(time < SECOND / 10, "{} us at {gbps} Gb/s", time / US);
    }
}

#[test]
fn recomputed_periods_recover_from_the_floor_three_times_as_fast() {
    let time = |timers| recovery(DcqcnPlusSettings { timers, ..RECOMPUTED }, 10, 10_000, Nanos::new(60_000));
    assert!(time(0) < 200_000 * US && time(1) > 500_000 * US, "{} and {} us", time(0) / US, time(1) / US);
}

#[test]
fn a_recovered_flow_is_released_and_starts_again() {
    let mut flow = Flow::new(RECOMPUTED, 10);
    flow.on(0, period(1, 900_000));
    let decision = flow.on(SECOND / 2, Event::Wake);
    assert_eq!((decision.rate, decision.wake_in), (Rate::from_gbps(10), Nanos::MAX));
    let again = flow.after(0, PLAIN);
    assert_eq!((again.rate, again.wake_in), (Rate::from_gbps(5), Nanos::new(55_000)), "tau is reset too");
}

// Pauses.

#[test]
fn a_pause_stops_recovery_and_the_timer_then_runs_on() {
    let mut flow = Flow::new(RECOMPUTED, 10);
    flow.on(0, PLAIN);
    // Paused from 30 us on, for 300 us.
    flow.paused = 300_000;
    let decision = flow.on(330 * US, Event::Wake);
    assert_eq!((decision.rate, decision.wake_in), (Rate::from_gbps(5), Nanos::new(25_000)));
    assert_eq!(flow.on(355 * US, Event::Wake).rate, Rate::from_mbps(7_500));
}

#[test]
fn the_wake_comes_when_the_pause_is_over() {
    let mut flow = Flow::new(RECOMPUTED, 10);
    flow.on(0, PLAIN);
    let mut cx = at(30 * US, &flow.params, &flow.link);
    cx.pause = Nanos::new(300_000);
    assert_eq!(flow.state.on(&cx, &Event::Wake).wake_in, Nanos::new(325_000));
}

#[test]
fn alpha_decays_in_pauses_or_stays() {
    let cut_after = |alpha_in_pause| {
        let mut flow = Flow::cut_to(
            DcqcnPlusSettings { alpha_in_pause, ..RECOMPUTED },
            10,
            Rate::from_gbps(1),
            Nanos::new(100_000),
        );
        flow.paused = 25_600_000;
        flow.on(25_600 * US, Event::Wake);
        let before = flow.state.current;
        let after = flow.after(0, PLAIN).rate;
        1.0 - f64::from(after.to_bits()) / f64::from(before.to_bits())
    };
    // K_alpha is 100 us: 256 periods.
    let faded = (1.0 - 1.0 / 256.0_f64).powi(256) / 2.0;
    assert!((cut_after(0) - faded).abs() < 1e-5, "{} for {faded}", cut_after(0));
    assert!((cut_after(1) - 0.5).abs() < 1e-5);
}

/// If a corrected clock lowers the total of pauses by 1 ns, that is not taken for a pause of 2^32 - 1 ns, whether a
/// notification or a wake reads the total first.
#[test]
fn a_total_of_pauses_that_steps_back_leaves_alpha_as_it_is() {
    for wakes in [false, true] {
        let mut flow = Flow::cut_to(
            DcqcnPlusSettings { alpha_in_pause: 0, ..RECOMPUTED },
            10,
            Rate::from_gbps(1),
            Nanos::new(100_000),
        );
        flow.paused = 50_000;
        flow.after(US, PLAIN);
        let alpha = flow.state.alpha();
        flow.paused -= 1;
        if wakes {
            flow.after(0, Event::Wake);
        }
        flow.after(0, PLAIN);
        assert!(flow.state.alpha() >= alpha, "{:?} after {alpha:?}", flow.state.alpha());
        // When the total grows again, further pauses are counted as usual.
        flow.paused += 200_001;
        flow.after(200 * US, Event::Wake);
        let before = flow.state.alpha();
        flow.after(0, PLAIN);
        let faded = f64::from(before.to_bits()) * (255.0_f64 / 256.0).powi(2);
        let raised = faded * 255.0 / 256.0 + f64::from(1u32 << 31) / 256.0;
        assert!((f64::from(flow.state.alpha().to_bits()) - raised).abs() < 100.0, "two periods of 100 us");
    }
}

// Notifications with a body.

#[test]
fn a_plain_notification_leaves_the_period_as_it_was() {
    let mut flow = Flow::new(RECOMPUTED, 10);
    flow.on(0, period(1, 200_000));
    assert_eq!(flow.after(US, PLAIN).wake_in, Nanos::new(400_000));
    assert_eq!(flow.after(US, period(2, 300_000)).wake_in, Nanos::new(600_000));
}

#[test]
fn cnps_with_old_numbers_are_ignored() {
    let mut flow = Flow::new(RECOMPUTED, 10);
    let first = flow.after(US, period(7, 100_000)).rate;
    for seq in [7, 6, 0] {
        assert_eq!(flow.after(US, period(seq, 100_000)).rate, first, "{seq} is old");
    }
    let second = flow.after(US, numbered(CnpKind::Direct, 8)).rate;
    assert!(second < first);
    // A receiver that evicted the flow restarts its count, far behind.
    assert!(flow.after(US, period(20_000, 100_000)).rate < second);
}

#[test]
fn undetermined_congestion_cuts_nothing() {
    let mut flow = Flow::new(RECOMPUTED, 10);
    for kind in [CnpKind::Undetermined, CnpKind::SwitchInt, CnpKind::DirectInt] {
        let event = numbered(kind, 1);
        let Event::Cnp { body_kind } = &event else { panic!("a notification") };
        assert_eq!(flow.state.cnp_filter(body_kind), Some(CnpIgnored::Unsupported));
        assert_eq!(flow.after(US, event).rate, Rate::from_gbps(10));
    }
}

#[test]
fn a_period_above_a_second_is_taken_for_a_second() {
    let mut flow = Flow::new(RECOMPUTED, 10);
    assert_eq!(flow.on(0, period(1, u32::MAX)).wake_in, LONGEST);
}

// Settings.

#[test]
fn settings_that_conflict_are_named() {
    let refused = |settings: DcqcnPlusSettings| match DcqcnPlus::check(&settings, &link(10)) {
        Err(ParamError::Conflict { field, .. }) => field,
        Err(ParamError::OutOfRange(field)) => field.name,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(DcqcnPlusSettings { rpg_min_rate: 10_001, ..RECOMPUTED }), "rpg_min_rate");
    assert_eq!(refused(DcqcnPlusSettings { rpg_time_reset: 881, ..RECOMPUTED }), "rpg_time_reset");
    assert_eq!(refused(DcqcnPlusSettings { rpg_threshold: 0, ..RECOMPUTED }), "rpg_threshold");
    assert_eq!(refused(DcqcnPlusSettings { lambda: 1_000, ..RECOMPUTED }), "lambda");
}

#[test]
fn every_preset_holds_and_its_numbers_are_those_of_the_paper_a4() {
    for preset in DcqcnPlus::PRESETS {
        DcqcnPlus::check(&preset.values, &link(10)).unwrap();
    }
    let paper = DcqcnPlus::PRESETS.iter().find(|preset| preset.name == "paper").unwrap();
    let value = |name: &str| paper.values.get(DcqcnPlusSettings::index_of(name).unwrap());
    assert_eq!((value("lambda"), value("lambda_alpha"), value("packet")), (2 * 1024, 1024, 1000));
    assert_eq!((value("rpg_threshold"), value("adapts_above"), value("largest_cut")), (5, 50, 50));
    assert_eq!((value("hyper_step"), value("dce_tcp_g")), (10_000, 1020));
}

// Slots.

#[test]
fn a_slot_used_before_starts_as_new_d4() {
    let (params, link) = (params(RECOMPUTED, 10), link(10));
    let fresh = DcqcnPlus::open(&at(SECOND, &params, &link));
    let mut used = DcqcnPlus::open(&at(0, &params, &link));
    used.on(&at(US, &params, &link), &period(3, 700_000));
    used = DcqcnPlus::open(&at(SECOND, &params, &link));
    assert_eq!(used, fresh);
    assert_eq!(used.on(&at(SECOND, &params, &link), &Event::Wake).rate, link.line_rate);
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

/// Pauses of one priority: each with its beginning, its end, and how long those before it were.
struct Pauses(Vec<(u64, u64, u64)>);

impl Pauses {
    fn random(random: &mut Random, until: u64) -> Self {
        let (mut pauses, mut now, mut before) = (Vec::new(), 0, 0);
        while now < until {
            let start = now + random.magnitude(22);
            let longest = if random.below(40) == 0 { 28 } else { 18 };
            let end = start + random.magnitude(longest);
            pauses.push((start, end, before));
            before += end - start;
            now = end;
        }
        Self(pauses)
    }

    fn cx<'a>(&self, now: u64, params: &'a Params, link: &'a Link) -> Cx<'a, Params> {
        let mut cx = at(now, params, link);
        let count = self.0.partition_point(|&(start, ..)| start <= now);
        if let Some(&(start, end, before)) = count.checked_sub(1).and_then(|last| self.0.get(last)) {
            let paused = before + now.min(end) - start;
            cx.clock_without_pauses = Stamp::from_bits((now - paused) as u32);
            cx.pause = Nanos::new(end.saturating_sub(now) as u32);
        }
        cx
    }
}

/// Passes the same events to a flow that is woken at its deadlines, and to one that is woken at random and at least twice a
/// second. Returns the number of the first event at which their decisions differ.
fn first_difference(
    params: &Params,
    seed: u64,
    count: usize,
    wake: fn(&mut DcqcnPlus, &Cx<'_, Params>),
) -> Option<usize> {
    let link = link(10);
    let mut random = Random(seed);
    let start = 5 * SECOND;
    let pauses = Pauses::random(&mut random, start + 60 * SECOND);
    let mut now = start;
    let mut exact = DcqcnPlus::open(&pauses.cx(now, params, &link));
    let mut late = exact;
    let mut wake_at = u64::MAX;
    for nth in 0..count {
        let gap = match random.below(400) {
            0 => SECOND + random.below(8 * SECOND),
            1..20 => random.magnitude(29),
            _ => random.magnitude(19),
        };
        let next = now + gap;
        let mut swept = now;
        while next - swept > SECOND / 2 {
            swept += SECOND / 2 - random.below(SECOND / 8);
            wake(&mut late, &pauses.cx(swept, params, &link));
        }
        while wake_at <= next {
            let decision = exact.on(&pauses.cx(wake_at, params, &link), &Event::Wake);
            assert!(decision.wake_in > Nanos::ZERO);
            wake_at =
                if decision.wake_in == Nanos::MAX { u64::MAX } else { wake_at + u64::from(decision.wake_in.get()) };
        }
        if random.below(2) == 0 {
            swept += random.below(next - swept);
            wake(&mut late, &pauses.cx(swept, params, &link));
        }
        now = next;
        let event = match random.below(3) {
            0 => PLAIN,
            1 => period(nth as u16, random.magnitude(25) as u32),
            _ => period(nth as u16, random.below(200_000) as u32),
        };
        let cx = pauses.cx(now, params, &link);
        let expected = exact.on(&cx, &event);
        wake_at = now + u64::from(expected.wake_in.get());
        if late.on(&cx, &event) != expected {
            return Some(nth);
        }
    }
    None
}

#[test]
fn wakes_change_no_decision_with_or_without_pauses() {
    for (name, params) in variants() {
        for seed in 0..16 {
            let difference = first_difference(&params, seed, 5_000, |late, cx| {
                late.on(cx, &Event::Wake);
            });
            assert_eq!(difference, None, "{name}");
        }
    }
}

/// A typical mistake: a late rate timer is taken for one expiry.
fn forgets_expiries(late: &mut DcqcnPlus, cx: &Cx<'_, Params>) {
    if late.rate_due.is_due(cx.clock_without_pauses) {
        late.rate_due = cx.clock_without_pauses;
    }
    late.on(cx, &Event::Wake);
}

/// A typical mistake: alpha's decay during pauses is applied at a wake.
fn settles_pauses(late: &mut DcqcnPlus, cx: &Cx<'_, Params>) {
    late.on(cx, &Event::Wake);
    late.fade_for(cx.params, pauses(cx).wrapping_sub(late.pauses));
    late.pauses = pauses(cx);
}

#[test]
fn the_wake_test_detects_mistakes() {
    let params = params(RECOMPUTED, 10);
    assert!(first_difference(&params, 1, 20_000, forgets_expiries).is_some());
    assert!(first_difference(&params, 1, 20_000, settles_pauses).is_some());
}

// Any state with any event.

fn any_state() -> impl Strategy<Value = DcqcnPlus> {
    (any::<[u32; 7]>(), any::<[u8; 2]>(), any::<u16>()).prop_map(|(words, [stage, flags], seq)| DcqcnPlus {
        current: Rate::from_bits(words[0]),
        target: Rate::from_bits(words[1]),
        alpha: Frac::from_bits(words[2]),
        alpha_due: Stamp::from_bits(words[3]),
        rate_due: Stamp::from_bits(words[4]),
        period: Nanos::new(words[5]),
        pauses: words[6],
        seq,
        stage,
        flags,
    })
}

fn any_event() -> impl Strategy<Value = Event<'static>> {
    prop_oneof![
        Just(PLAIN),
        (any::<u16>(), any::<u32>()).prop_map(|(seq, nanos)| period(seq, nanos)),
        any::<u32>().prop_map(|bytes| Event::Sent { psn: Psn::new(0), bytes: Bytes::new(bytes) }),
        Just(Event::Ack(Ack::default())),
        Just(Event::Wake),
    ]
}

proptest! {
    #[test]
    fn corrupted_state_recovers(
        state in any_state(),
        now in any::<u64>(),
        clock_without_pauses: u32,
        events in prop::collection::vec((any_event(), 0..SECOND), 1..12),
    ) {
        for (_, params) in variants() {
            let (link, mut state, mut now) = (link(10), state, now);
            for (event, wait) in &events {
                now = now.wrapping_add(*wait);
                let clock_without_pauses = Stamp::from_bits(clock_without_pauses.wrapping_add(now as u32));
                let cx = Cx { clock_without_pauses, ..at(now, &params, &link) };
                prop_assert!(state.on(&cx, event).wake_in > Nanos::ZERO);
            }
            // After fast recovery, R_T is bounded by the line rate again.
            for _ in 0..10 {
                now = now.wrapping_add(SECOND);
                let decision = state.on(&at(now, &params, &link), &Event::Wake);
                prop_assert!(decision.wake_in > Nanos::ZERO);
            }
            let rate = state.on(&at(now, &params, &link), &PLAIN).rate;
            prop_assert!(rate >= params.floor && rate <= params.line, "{rate:?}");
            prop_assert!(state.target >= state.current);
        }
    }

    #[test]
    fn rates_stay_between_floor_and_line(events in prop::collection::vec((any_event(), 0..SECOND), 1..40)) {
        for (_, params) in variants() {
            let link = link(10);
            let (mut state, mut now) = (DcqcnPlus::open(&at(0, &params, &link)), 0);
            for (event, wait) in &events {
                now += wait >> (wait & 31);
                let cx = at(now, &params, &link);
                prop_assert!(state.transition(&cx, event) < DcqcnPlus::TRANSITIONS.len());
                let decision = state.on(&cx, event);
                prop_assert!(decision.rate >= params.floor && decision.rate <= params.line);
                prop_assert!(decision.wake_in > Nanos::ZERO);
                prop_assert_eq!((decision.window, decision.hold), (Bytes::MAX, Nanos::ZERO));
            }
        }
    }
}
