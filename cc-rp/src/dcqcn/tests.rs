use super::parameters::Alpha;
use super::*;
use crate::Ack;
use crate::cnp_gate::gated;
use cc_core::params::Settings;
use cc_core::{CnpBody, Delay, Frac, Instant, Mark, Psn};
use proptest::prelude::*;
use std::vec::Vec;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_024), base_rtt: Nanos::new(8_000) };
const US: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;
const PLAIN: Event = Event::Cnp { body_kind: CnpBodyKind::Standard };

/// Every preset, and settings that reach code that no preset reaches.
fn variants() -> Vec<(&'static str, Params)> {
    let odd = [
        ("hpcc_sim in ten bits", DcqcnSettings { alpha_bits: 10, ..HPCC_SIM }),
        ("restarted, spaced cuts", DcqcnSettings { rate_reduce_monitor_period: 70, ..PAPER }),
        ("restarted, kept", DcqcnSettings { limiter: 1, rpg_max_rate: 60_000, rpg_hai_rate: 2_000, ..PAPER }),
        (
            "sampled, equal periods",
            DcqcnSettings {
                dce_tcp_rtt: 4,
                dce_tcp_g: 700,
                rpg_gd: 10,
                rpg_min_dec_fac: 30,
                rate_to_set_on_first_cnp: 20_000,
                rpg_time_reset: 3,
                ..VENDOR
            },
        ),
    ];
    let presets = Dcqcn::PRESETS.iter().map(|preset| (preset.name, preset.values));
    presets.chain(odd).map(|(name, settings)| (name, Dcqcn::check(&settings, &LINK).unwrap())).collect()
}

fn params(settings: DcqcnSettings) -> Params {
    Dcqcn::check(&settings, &LINK).unwrap()
}

fn at<'a>(now: u64, params: &'a Params) -> Cx<'a, Params> {
    let now = Instant::from_nanos(now);
    Cx { now, link: &LINK, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
}

fn sent(bytes: u32) -> Event<'static> {
    Event::Sent { psn: Psn::new(0), bytes: Bytes::new(bytes) }
}

fn numbered(kind: CnpKind, seq: u16) -> Event<'static> {
    Event::Cnp { body_kind: CnpBodyKind::Extended(CnpBody { kind, seq, ..CnpBody::default() }) }
}

fn gbps(rate: Rate) -> f64 {
    f64::from(rate.to_bits()) / f64::from(1 << 21)
}

/// A flow with its own clock, in nanoseconds.
struct Flow<'a> {
    state: Dcqcn,
    params: &'a Params,
    now: u64,
}

impl<'a> Flow<'a> {
    fn new(params: &'a Params) -> Self {
        Self { state: Dcqcn::open(&at(0, params)), params, now: 0 }
    }

    fn on(&mut self, now: u64, event: Event) -> Decision {
        self.now = now;
        let event = gated(&self.state, event);
        self.state.on(&at(now, self.params), &event)
    }

    fn after(&mut self, wait: u64, event: Event) -> Decision {
        self.on(self.now + wait, event)
    }
}

// Rules of the paper.

#[test]
fn the_first_cut_is_by_half() {
    let params = params(PAPER);
    let mut flow = Flow::new(&params);
    assert_eq!(flow.after(US, Event::Wake).rate, LINK.line_rate);
    let decision = flow.after(US, PLAIN);
    assert_eq!(decision.rate, Rate::from_gbps(50));
    assert_eq!(decision.wake_in, Nanos::new(55_000));
    assert_eq!(decision.window, Bytes::MAX);
}

#[test]
fn fast_recovery_halves_the_way_back_five_times() {
    let params = params(PAPER);
    let mut flow = Flow::new(&params);
    let cut = flow.on(0, PLAIN).rate.to_bits();
    let target = LINK.line_rate.to_bits();
    for k in 1..=5 {
        let rate = flow.after(55 * US, Event::Wake).rate;
        assert_eq!(rate.to_bits(), target - ((target - cut) >> k), "round {k}");
    }
}

#[test]
fn alpha_approaches_one_by_g_per_notification() {
    let params = params(DcqcnSettings { initial_alpha_value: 512, ..PAPER });
    let mut flow = Flow::new(&params);
    let (start, g) = (0.5, 1.0 / 256.0);
    for k in 1..=200 {
        flow.after(US, PLAIN);
        let expected = 1.0 - (1.0 - start) * f64::powi(1.0 - g, k);
        let alpha = f64::from(flow.state.alpha) / f64::from(1u32 << 31);
        assert!((alpha - expected).abs() < 1e-7, "after {k}: {alpha} for {expected}");
    }
}

#[test]
fn alpha_decays_by_g_per_quiet_period_and_cuts_use_the_decayed_alpha() {
    let params = params(PAPER);
    for quiet in [1u32, 2, 7, 100, 1_000, 4_000] {
        let mut flow = Flow::new(&params);
        flow.on(0, PLAIN);
        let before = flow.on(u64::from(quiet) * 55 * US, Event::Wake).rate;
        // A released flow starts again at line rate.
        if before == LINK.line_rate {
            continue;
        }
        let after = flow.after(0, PLAIN).rate;
        let alpha = f64::powi(1.0 - 1.0 / 256.0, quiet as i32);
        let expected = gbps(before) * (1.0 - alpha / 2.0);
        assert!((gbps(after) - expected).abs() < 1e-5, "{quiet}: {} for {expected}", gbps(after));
    }
}

#[test]
fn a_rate_never_falls_below_the_floor() {
    let params = params(PAPER);
    let mut flow = Flow::new(&params);
    for _ in 0..100 {
        flow.after(US, PLAIN);
    }
    assert_eq!(flow.state.current, Rate::from_mbps(100));
}

/// The gains of R_T over a number of expiries, in Mb/s, from a flow cut far below the line.
fn gains(settings: DcqcnSettings, clocks: &[Clock]) -> Vec<u32> {
    let params = params(settings);
    let mut state = Flow::new(&params).state;
    state.limit(&params, Stamp::default());
    (state.current, state.target) = (Rate::from_gbps(4), Rate::from_gbps(5));
    let mut gains = Vec::new();
    for &clock in clocks {
        let before = state.target;
        state.increase(&params, clock, 1);
        gains.push((gbps(state.target.saturating_sub(before)) * 1_000.0).round() as u32);
    }
    gains
}

#[test]
fn phases_follow_the_paper() {
    use Clock::{Bytes, Time};
    // Five rounds by one clock, then additive increase until the other has passed as well.
    assert_eq!(gains(PAPER, &[Time; 9]), [0, 0, 0, 0, 0, 40, 40, 40, 40]);
    assert_eq!(gains(PAPER, &[Bytes; 7]), [0, 0, 0, 0, 0, 40, 40]);
    // Hyper increase with i = min - F once both have passed.
    let both: Vec<_> = [Time, Bytes].into_iter().cycle().take(16).collect();
    assert_eq!(gains(PAPER, &both), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40, 100, 100, 200, 200, 300]);
}

#[test]
fn phases_of_the_other_presets() {
    use Clock::{Bytes, Time};
    let both: Vec<_> = [Time, Bytes].into_iter().cycle().take(8).collect();
    assert_eq!(gains(VENDOR, &[Time; 5]), [0, 5, 5, 5, 5]);
    assert_eq!(gains(VENDOR, &both), [0, 0, 5, 50, 50, 100, 100, 150]);
    assert_eq!(gains(CX4, &both), [0, 0, 5, 40, 40, 80, 80, 120]);
    // Four rounds, and the hyper index starts at one.
    assert_eq!(gains(NS3_RDMA, &[Time; 6]), [0, 0, 0, 0, 40, 40]);
    let both: Vec<_> = [Time, Bytes].into_iter().cycle().take(12).collect();
    assert_eq!(gains(NS3_RDMA, &both), [0, 0, 0, 0, 0, 0, 0, 0, 40, 200, 200, 400]);
    // Four rounds, and the hyper step only when both have passed five.
    assert_eq!(gains(SIGCOMM15, &[Time; 6]), [0, 0, 0, 0, 40, 40]);
    assert_eq!(gains(SIGCOMM15, &both), [0, 0, 0, 0, 0, 0, 0, 0, 40, 40, 40, 100]);
    // One round, one additive step, then a constant hyper step.
    assert_eq!(gains(HPCC_SIM, &[Time; 6]), [0, 20, 200, 200, 200, 200]);
}

#[test]
fn the_byte_counter_counts_down_ten_megabytes() {
    let params = params(PAPER);
    let mut flow = Flow::new(&params);
    flow.on(0, PLAIN);
    assert_eq!(flow.after(US, sent(9_999_999)).rate, Rate::from_gbps(50));
    assert_eq!(flow.after(US, sent(1)).rate, Rate::from_gbps(75));
    // Two expiries in one report; the remaining bytes count towards the next.
    assert_eq!(flow.after(US, sent(25_000_000)).rate.to_bits(), Rate::from_gbps(100).to_bits() * 15 / 16);
    assert_eq!(flow.after(US, sent(5_000_000)).rate.to_bits(), Rate::from_gbps(100).to_bits() / 32 * 31);
}

#[test]
fn a_recovered_flow_is_released_and_starts_again() {
    let params = params(PAPER);
    let mut flow = Flow::new(&params);
    flow.on(0, PLAIN);
    let decision = flow.on(SECOND / 2, Event::Wake);
    assert_eq!((decision.rate, decision.wake_in), (LINK.line_rate, Nanos::MAX));
    assert_eq!(flow.after(0, PLAIN).rate, Rate::from_gbps(50));
}

#[test]
fn a_flow_that_stays_limited_keeps_its_alpha() {
    let params = params(DcqcnSettings { limiter: 1, ..PAPER });
    let mut flow = Flow::new(&params);
    flow.on(0, PLAIN);
    let decision = flow.on(SECOND / 2, Event::Wake);
    assert_eq!((decision.rate, decision.wake_in), (LINK.line_rate, Nanos::MAX));
    assert_eq!(flow.after(0, PLAIN).rate, LINK.line_rate, "alpha had decayed to 0");
}

// Rules of the firmware.

#[test]
fn a_notification_cuts_at_the_end_of_the_monitor_period() {
    let params = params(VENDOR);
    let mut flow = Flow::new(&params);
    let decision = flow.on(0, PLAIN);
    assert_eq!((decision.rate, decision.wake_in), (LINK.line_rate, Nanos::new(4_001)));
    assert_eq!(flow.on(4_000, PLAIN).rate, LINK.line_rate);
    let cut = flow.on(4_001, Event::Wake).rate;
    // The first of four ticks saw a notification, the other three none.
    assert_eq!(flow.state.alpha >> TEN_BITS, 1008);
    let line = u64::from(LINK.line_rate.to_bits());
    assert_eq!(u64::from(cut.to_bits()), line - ((line * 1008) >> 11));
}

#[test]
fn g_is_the_retained_share() {
    let params = params(VENDOR);
    let Alpha::Sampled(alpha_decay) = &params.alpha else { panic!("vendor alpha is sampled") };
    assert_eq!(alpha_decay.after(1023, 0, 1), 1018);
    let mut flow = Flow::new(&params);
    for us in 0..100 {
        flow.on(us * US, PLAIN);
        assert_eq!(flow.state.alpha >> TEN_BITS, 1023, "with a notification in every period alpha stays");
    }
}

#[test]
fn alpha_goes_first_when_both_periods_end_together() {
    let params = params(DcqcnSettings { dce_tcp_rtt: 4, initial_alpha_value: 512, ..VENDOR });
    let mut flow = Flow::new(&params);
    flow.on(0, PLAIN);
    let cut = flow.on(4_001, Event::Wake).rate;
    let alpha = 512 * 1019 / 1024 + 5;
    let line = u64::from(LINK.line_rate.to_bits());
    assert_eq!(u64::from(cut.to_bits()), line - ((line * alpha) >> 11));
}

#[test]
fn the_target_stays_after_a_cut_without_an_increase() {
    let params = params(VENDOR);
    let mut flow = Flow::new(&params);
    flow.on(0, PLAIN);
    flow.on(4_001, PLAIN);
    flow.on(8_001, Event::Wake);
    assert!(flow.state.current < Rate::from_gbps(30));
    assert_eq!(flow.state.target, LINK.line_rate);
    // After an increase by the timer it follows (clamp_tgt_rate_after_time_inc).
    let recovered = flow.after(300 * US, PLAIN).rate;
    flow.after(4 * US, Event::Wake);
    assert_eq!(flow.state.target, recovered);
}

#[test]
fn a_hundred_percent_bound_never_cuts() {
    let params = params(DcqcnSettings { rpg_min_dec_fac: 100, ..VENDOR });
    let mut flow = Flow::new(&params);
    flow.on(0, PLAIN);
    assert_eq!(flow.on(4_001, Event::Wake).rate, LINK.line_rate);
}

// Notifications with a body.

#[test]
fn cnps_with_old_numbers_are_ignored() {
    let params = params(PAPER);
    let mut flow = Flow::new(&params);
    let first = flow.after(US, numbered(CnpKind::Standard, 7)).rate;
    for seq in [7, 6, 0] {
        assert!(flow.after(US, numbered(CnpKind::Standard, seq)).rate == first, "{seq} is old");
    }
    let second = flow.after(US, numbered(CnpKind::Period, 8)).rate;
    assert!(second < first);
    // A receiver that evicted the flow restarts its count, far behind.
    let third = flow.after(US, numbered(CnpKind::Direct, 20_000)).rate;
    assert!(third < second && flow.after(US, numbered(CnpKind::Direct, 0)).rate < third);
}

#[test]
fn undetermined_congestion_cuts_nothing() {
    let params = params(PAPER);
    let mut flow = Flow::new(&params);
    for kind in [CnpKind::Undetermined, CnpKind::SwitchInt, CnpKind::DirectInt] {
        let event = numbered(kind, 1);
        let Event::Cnp { body_kind } = &event else { panic!("a notification") };
        assert_eq!(flow.state.cnp_filter(body_kind), Some(CnpIgnored::Unsupported));
        assert_eq!(flow.after(US, event).rate, LINK.line_rate);
    }
}

// Settings.

#[test]
fn settings_that_conflict_are_named() {
    let refused = |settings: DcqcnSettings| match Dcqcn::check(&settings, &LINK) {
        Err(ParamError::Conflict { field, .. }) => field,
        Err(ParamError::OutOfRange(field)) => field.name,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(DcqcnSettings { rpg_max_rate: 100_001, ..PAPER }), "rpg_max_rate");
    assert_eq!(refused(DcqcnSettings { rpg_min_rate: 100_001, ..PAPER }), "rpg_min_rate");
    assert_eq!(refused(DcqcnSettings { rpg_min_rate: 101, rpg_max_rate: 100, ..PAPER }), "rpg_min_rate");
    assert_eq!(refused(DcqcnSettings { rate_to_set_on_first_cnp: 50, ..PAPER }), "rate_to_set_on_first_cnp");
    assert_eq!(refused(DcqcnSettings { initial_alpha_value: 1024, ..VENDOR }), "initial_alpha_value");
    assert_eq!(refused(DcqcnSettings { rate_reduce_monitor_period: 0, ..VENDOR }), "rate_reduce_monitor_period");
    assert_eq!(refused(DcqcnSettings { dce_tcp_rtt: 1_000, ..PAPER }), "dce_tcp_rtt");
    assert_eq!(refused(DcqcnSettings { dce_tcp_g: 1024, ..PAPER }), "dce_tcp_g");
    assert_eq!(refused(DcqcnSettings { rpg_time_reset: 0, ..PAPER }), "rpg_time_reset");
}

#[test]
fn every_preset_holds_on_its_port_and_within_its_ranges() {
    for preset in Dcqcn::PRESETS {
        Dcqcn::check(&preset.values, &LINK).unwrap();
    }
    assert_eq!(Dcqcn::PRESETS.first().unwrap().name, "paper");
}

#[test]
fn settings_are_found_by_the_names_that_people_type() {
    for name in ["rpg_ai_rate", "RPG_AI_RATE", "rp_ai_rate", "RATE_AI", "DcQcnAIRate"] {
        let index = DcqcnSettings::index_of(name).unwrap();
        assert_eq!(DcqcnSettings::FIELDS.get(index).unwrap().name, "rpg_ai_rate");
        let mut settings = PAPER;
        settings.set(index, 5).unwrap();
        assert_eq!(settings, DcqcnSettings { rpg_ai_rate: 5, ..PAPER });
    }
    let mut names: Vec<_> =
        DcqcnSettings::FIELDS.iter().flat_map(|field| field.aliases.iter().copied().chain([field.name])).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "no name means two things");
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

const FLOWS: usize = 8;

/// A random event of flow `index` at `now`. Flow 0 is nearly idle: under a thousandth of the events are its own.
fn arrivals(seed: u64, count: usize) -> impl Iterator<Item = (u64, usize, Event<'static>)> {
    let mut random = Random(seed);
    let mut now = 5 * SECOND;
    (0..count).map(move |nth| {
        // From time to time only flow 1 has events for more than a minute.
        let silent = nth % 50_000 >= 49_920;
        now += if silent {
            SECOND * 8 / 10 + random.below(SECOND / 10)
        } else if random.below(2_000) == 0 {
            random.magnitude(29)
        } else {
            random.magnitude(16)
        };
        let index = match random.below(2_048) {
            _ if silent => 1,
            0 => 0,
            other => 1 + other as usize % (FLOWS - 1),
        };
        let event = match random.below(8) {
            0 | 1 => PLAIN,
            2 => numbered(CnpKind::Standard, random.below(1 << 16) as u16),
            3 => sent(random.magnitude(31) as u32),
            _ => sent(random.magnitude(20) as u32),
        };
        (now, index, event)
    })
}

/// Passes the same events to flows that are woken at their deadlines, and to flows that are woken by a sweep once a second and
/// at random. Returns the number of the first event at which their decisions differ. `wake` is called for the latter at each
/// wake.
fn first_difference(params: &Params, seed: u64, count: usize, wake: fn(&mut Dcqcn, &Cx<'_, Params>)) -> Option<usize> {
    let open = |_| Dcqcn::open(&at(0, params));
    let mut exact: [Dcqcn; FLOWS] = core::array::from_fn(open);
    let mut late: [Dcqcn; FLOWS] = core::array::from_fn(open);
    let mut wake_at = [u64::MAX; FLOWS];
    let mut swept = [0; FLOWS];
    let mut random = Random(!seed);
    for (nth, (now, index, event)) in arrivals(seed, count).enumerate() {
        for flow in 0..FLOWS {
            while wake_at[flow] <= now {
                let woken = wake_at[flow];
                let decision = exact[flow].on(&at(woken, params), &Event::Wake);
                wake_at[flow] = deadline(woken, &decision);
                assert!(wake_at[flow] > woken);
            }
            if now - swept[flow] > SECOND - SECOND / 10 {
                swept[flow] = now;
                wake(&mut late[flow], &at(now, params));
                exact[flow].on(&at(now, params), &Event::Wake);
            }
        }
        if random.below(4) == 0 {
            let flow = random.below(FLOWS as u64) as usize;
            for _ in 0..random.below(3) {
                wake(&mut late[flow], &at(now, params));
            }
        }
        let expected = exact[index].on(&at(now, params), &event);
        wake_at[index] = deadline(now, &expected);
        if late[index].on(&at(now, params), &event) != expected {
            return Some(nth);
        }
    }
    None
}

fn deadline(now: u64, decision: &Decision) -> u64 {
    if decision.wake_in == Nanos::MAX { u64::MAX } else { now + u64::from(decision.wake_in.get()) }
}

fn wakes_only(state: &mut Dcqcn, cx: &Cx<'_, Params>) {
    state.on(cx, &Event::Wake);
}

#[test]
fn wakes_change_no_decision() {
    for (name, params) in variants() {
        assert_eq!(first_difference(&params, 1, 300_000, wakes_only), None, "{name}");
    }
}

/// A typical mistake: alpha is advanced at a wake, and so truncated once more.
fn settles_alpha(state: &mut Dcqcn, cx: &Cx<'_, Params>) {
    state.on(cx, &Event::Wake);
    if let Alpha::Restarted { .. } = &cx.params.alpha {
        let periods = cx.params.alpha_period.count_in(cx.now.stamp().since(state.alpha_at).get());
        state.alpha = Frac::from_bits(state.alpha).times(cx.params.decay.after(periods)).to_bits();
        let length = Nanos::new(cx.params.alpha_period.length.wrapping_mul(periods));
        state.alpha_at = state.alpha_at.after(length);
    }
}

/// A typical mistake: ticks are counted from the wake.
fn moves_ticks(state: &mut Dcqcn, cx: &Cx<'_, Params>) {
    state.on(cx, &Event::Wake);
    if let Alpha::Sampled(alpha_decay) = &cx.params.alpha {
        state.settle(cx.params, alpha_decay, cx.now.stamp(), false);
        state.alpha_at = cx.now.stamp();
    }
}

/// A typical mistake: a late rate timer is taken for one expiry.
fn forgets_expiries(state: &mut Dcqcn, cx: &Cx<'_, Params>) {
    if state.has(LIMITED) && state.rate_due.is_due(cx.now.stamp()) {
        state.rate_due = cx.now.stamp();
    }
    state.on(cx, &Event::Wake);
}

#[test]
fn the_wake_test_detects_mistakes() {
    assert!(first_difference(&params(PAPER), 1, 100_000, settles_alpha).is_some());
    assert!(first_difference(&params(VENDOR), 1, 100_000, moves_ticks).is_some());
    for (name, params) in variants() {
        assert!(first_difference(&params, 1, 100_000, forgets_expiries).is_some(), "{name}");
    }
}

/// A reference model, written from the rules in the head of `dcqcn.rs` alone: it applies every tick and every expiry one by
/// one, on a clock that does not wrap.
struct Reference<'a> {
    params: &'a Params,
    limited: bool,
    current: u64,
    target: u64,
    alpha: u32,
    raised: u64,
    alpha_tick: u64,
    cut_tick: u64,
    barred_until: u64,
    rate_due: u64,
    bytes: u64,
    stages: [u64; 2],
    notified_alpha: bool,
    notified_cut: bool,
    seq: Option<u16>,
}

impl<'a> Reference<'a> {
    fn new(params: &'a Params) -> Self {
        Self {
            params,
            limited: false,
            current: 0,
            target: 0,
            alpha: 0,
            raised: 0,
            alpha_tick: 0,
            cut_tick: 0,
            barred_until: 0,
            rate_due: 0,
            bytes: 0,
            stages: [0; 2],
            notified_alpha: false,
            notified_cut: false,
            seq: None,
        }
    }

    fn on(&mut self, now: u64, event: &Event) -> Rate {
        let p = self.params;
        while self.limited {
            let (alpha, cut) = if p.is_sampled() { (self.alpha_tick, self.cut_tick) } else { (u64::MAX, u64::MAX) };
            let next = self.rate_due.min(alpha).min(cut);
            if next > now {
                break;
            }
            if next == self.rate_due {
                self.rate_due += u64::from(p.rate_period.length);
                self.increase(0);
            } else if next == alpha {
                self.tick();
            } else {
                self.cut_tick += u64::from(p.cut_period.length);
                if self.notified_cut {
                    self.notified_cut = false;
                    self.cut(next, u64::from(self.alpha) >> p.alpha_shift);
                }
            }
        }
        match event {
            Event::Cnp { body_kind } => self.on_cnp(now, body_kind),
            Event::Sent { bytes, .. } if self.limited && p.has(COUNTS_BYTES) => {
                self.bytes += u64::from(bytes.get());
                while self.limited && self.bytes >= u64::from(p.byte_period.length) {
                    self.bytes -= u64::from(p.byte_period.length);
                    self.increase(1);
                }
            }
            _ => {}
        }
        if self.limited { Rate::from_bits(self.current as u32) } else { p.line }
    }

    fn on_cnp(&mut self, now: u64, body_kind: &CnpBodyKind) {
        let p = self.params;
        if let CnpBodyKind::Extended(body) = body_kind {
            if self.seq.is_some_and(|seq| seq.wrapping_sub(body.seq) < 64) {
                return;
            }
            self.seq = Some(body.seq);
        }
        let first = !self.limited;
        if first {
            self.limited = true;
            self.current = u64::from(p.first_rate.to_bits());
            self.target = self.current;
            self.alpha = p.initial_alpha;
            self.raised = now;
            self.barred_until = 0;
            self.rate_due = now + u64::from(p.rate_period.length);
            self.bytes = 0;
            self.stages = [0; 2];
            self.alpha_tick = now + u64::from(p.alpha_period.length);
            self.cut_tick = now + u64::from(p.cut_period.length) + 1;
            self.notified_alpha = false;
        }
        match &p.alpha {
            Alpha::Sampled(_) => {
                self.notified_cut = true;
                self.notified_alpha |= !first || p.has(FIRST_COUNTS);
            }
            Alpha::Restarted { kept, gain } => {
                if now < self.barred_until {
                    return;
                }
                let periods = (now - self.raised) / u64::from(p.alpha_period.length);
                let left = p.decay.after(u32::try_from(periods).unwrap_or(u32::MAX));
                let faded = Frac::from_bits(self.alpha).times(left).to_bits();
                self.alpha = ((u64::from(faded) * u64::from(*kept)) >> 32) as u32 + gain;
                self.raised = now;
                let share = u64::from(if p.has(ALPHA_FIRST) { self.alpha } else { faded });
                self.cut(now, (share << u32::from(p.has(CUTS_BY_ALPHA))).min(u64::from(u32::MAX)));
                self.barred_until = now + u64::from(p.cut_period.length);
            }
        }
    }

    fn tick(&mut self) {
        let Alpha::Sampled(alpha_decay) = &self.params.alpha else { return };
        let gain = alpha_decay.gain();
        self.alpha_tick += u64::from(self.params.alpha_period.length);
        let mut alpha = (self.alpha >> TEN_BITS) * (1024 - gain) / 1024;
        if std::mem::take(&mut self.notified_alpha) {
            alpha = (alpha + gain).min(1023);
        }
        self.alpha = alpha << TEN_BITS;
    }

    fn cut(&mut self, now: u64, share: u64) {
        let p = self.params;
        if p.has(CLAMPS) || (p.has(CLAMPS_AFTER_TIME) && self.stages[0] != 0) || self.stages[1] != 0 {
            self.target = self.current;
        }
        let least = u64::from(p.least_share.to_bits());
        let bound = (self.current * least) >> 31;
        self.current = (self.current - ((self.current * share) >> 32)).max(bound).max(u64::from(p.floor.to_bits()));
        self.stages = [0; 2];
        self.rate_due = now + u64::from(p.rate_period.length);
        self.bytes = 0;
    }

    fn increase(&mut self, clock: usize) {
        let p = self.params;
        self.stages[clock] = (self.stages[clock] + 1).min(63);
        let (low, high) = (self.stages[0].min(self.stages[1]), self.stages[0].max(self.stages[1]));
        let threshold = u64::from(p.hyper_threshold);
        let hyper = if p.has(HYPER_FOLLOWS) { high } else { low };
        let step = if high <= u64::from(p.threshold) {
            0
        } else if hyper <= threshold {
            u64::from(p.additive.to_bits())
        } else {
            u64::from(p.hyper.to_bits()) * if p.has(HYPER_IS_CONSTANT) { 1 } else { hyper - threshold }
        };
        if p.has(FAR_TARGET_DROPS) && self.stages.contains(&1) && self.target > 10 * self.current {
            self.target /= 8;
        } else {
            self.target = (self.target + step).min(u64::from(p.ceiling.to_bits()));
        }
        self.current = (self.current + self.target) / 2;
        if self.target - self.current < 2 {
            self.current = self.target;
        }
        let pending = p.is_sampled() && self.notified_cut;
        if !p.has(KEEPS_LIMITER) && !pending && self.current == u64::from(p.ceiling.to_bits()) {
            self.limited = false;
        }
    }
}

#[test]
fn decisions_equal_those_of_single_steps() {
    // An alpha of more than ten bits is not rounded tick by tick: `tests/dcqcn.rs` compares it with a float.
    let ten_bits =
        |params: &Params| !matches!(&params.alpha, Alpha::Sampled(alpha_decay) if !alpha_decay.has_ten_bits());
    for (name, params) in variants().into_iter().filter(|(_, params)| ten_bits(params)) {
        let mut reference: [Reference<'_>; FLOWS] = core::array::from_fn(|_| Reference::new(&params));
        let mut flows: [Dcqcn; FLOWS] = core::array::from_fn(|_| Dcqcn::open(&at(0, &params)));
        let mut swept = [0; FLOWS];
        for (nth, (now, index, event)) in arrivals(3, 49_000).enumerate() {
            for flow in 0..FLOWS {
                if now - swept[flow] > SECOND - SECOND / 10 {
                    swept[flow] = now;
                    flows[flow].on(&at(now, &params), &Event::Wake);
                }
            }
            let passed = gated(&flows[index], event);
            let rate = flows[index].on(&at(now, &params), &passed).rate;
            assert_eq!(rate, reference[index].on(now, &event), "{name}, event {nth}: {event:?}");
        }
    }
}

/// The digest of all decisions of a preset over a fixed stream of events.
fn digest(params: &Params) -> u64 {
    let mut flows: [Dcqcn; FLOWS] = core::array::from_fn(|_| Dcqcn::open(&at(0, params)));
    arrivals(4, 40_000).fold(0, |digest, (now, index, event)| {
        let event = gated(&flows[index], event);
        let decision = flows[index].on(&at(now, params), &event);
        Random(digest ^ u64::from(decision.rate.to_bits()) << 32 ^ u64::from(decision.wake_in.get())).next()
    })
}

#[test]
fn every_build_makes_the_same_decisions() {
    let digests: Vec<_> = Dcqcn::PRESETS.iter().map(|preset| digest(&params(preset.values))).collect();
    // Computed once, in a debug build; the same on every target, profile and compiler since.
    assert_eq!(
        digests,
        [
            0x3325_fa95_84c5_5880,
            0x39d9_fb36_69a3_3bb4,
            0x3805_07b9_6761_20f1,
            0x31e4_22d0_97cb_a387,
            0xab1a_4f4a_2101_6334,
            0x1f87_8370_c6f0_3ead,
        ]
    );
}

// Any state with any event.

fn any_state() -> impl Strategy<Value = Dcqcn> {
    (any::<[u32; 7]>(), any::<[u8; 2]>(), any::<u16>()).prop_map(|(words, stages, seq)| Dcqcn {
        current: Rate::from_bits(words[0]),
        target: Rate::from_bits(words[1]),
        alpha: words[2],
        alpha_at: Stamp::from_bits(words[3]),
        rate_due: Stamp::from_bits(words[4]),
        cut_due: Stamp::from_bits(words[5]),
        left: words[6],
        time_stage: stages[0],
        byte_stage: stages[1],
        seq,
    })
}

fn any_event() -> impl Strategy<Value = Event<'static>> {
    prop_oneof![
        any::<u32>().prop_map(sent),
        Just(PLAIN),
        any::<u16>().prop_map(|seq| numbered(CnpKind::Direct, seq)),
        Just(Event::Wake),
    ]
}

proptest! {
    #[test]
    fn corrupted_state_recovers(
        state in any_state(),
        now in any::<u64>(),
        events in prop::collection::vec((any_event(), 0..SECOND), 1..20),
    ) {
        for (_, params) in variants() {
            let (mut state, mut now) = (state, now);
            for (event, wait) in &events {
                now = now.wrapping_add(*wait);
                let decision = state.on(&at(now, &params), event);
                prop_assert!(decision.wake_in > Nanos::ZERO);
            }
            // After two expiries of the timer, or a release, no corrupted value is left.
            for _ in 0..4 {
                now = now.wrapping_add(SECOND * 9 / 10);
                state.on(&at(now, &params), &PLAIN);
            }
            let rate = state.on(&at(now, &params), &PLAIN).rate;
            prop_assert!(rate >= params.floor && rate <= params.line, "{rate:?}");
            prop_assert!(state.target >= state.current);
        }
    }

    #[test]
    fn rates_stay_between_floor_and_line(seed in any::<u64>()) {
        for (_, params) in variants() {
            let mut state = Dcqcn::open(&at(0, &params));
            for (now, _, event) in arrivals(seed, 60) {
                let decision = state.on(&at(now, &params), &event);
                prop_assert!(decision.rate >= params.floor && decision.rate <= params.line);
                prop_assert!(decision.wake_in > Nanos::ZERO && decision.window == Bytes::MAX);
                prop_assert_eq!(decision.hold, Nanos::ZERO);
            }
        }
    }

    #[test]
    fn many_expiries_equal_as_many_single_ones(state in any_state(), expiries in 1u32..3_000, bytes in any::<bool>()) {
        let clock = if bytes { Clock::Bytes } else { Clock::Time };
        for (_, params) in variants() {
            let (mut together, mut single) = (state, state);
            together.left |= LIMITED;
            single.left |= LIMITED;
            together.increase(&params, clock, expiries);
            for _ in 0..expiries {
                single.increase(&params, clock, 1);
            }
            prop_assert_eq!(together, single);
        }
    }

    #[test]
    fn events_that_the_machine_does_not_take_change_no_decision(seed in any::<u64>()) {
        let params = params(VENDOR);
        let (mut plain, mut disturbed) = (Dcqcn::open(&at(0, &params)), Dcqcn::open(&at(0, &params)));
        for (now, _, event) in arrivals(seed, 50) {
            let delay = Some(Delay { rtt: Nanos::new(7), ..Delay::default() });
            disturbed.on(&at(now, &params), &Event::Ack(Ack { delay, mark: Mark::Congested, ..Ack::default() }));
            disturbed.on(&at(now, &params), &Event::Nack { psn: Psn::new(3) });
            prop_assert_eq!(plain.on(&at(now, &params), &event), disturbed.on(&at(now, &params), &event));
        }
    }
}
