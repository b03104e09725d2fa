use super::*;
use crate::cnp_gate::gated;
use crate::dcqcn::VENDOR;
use cc_core::{Bytes, Instant, Nanos, Psn, Rate};
use proptest::prelude::*;
use std::vec::Vec;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_024), base_rtt: Nanos::new(8_000) };
const US: u64 = 1_000;
const CE: Event = Event::Cnp { body_kind: CnpBodyKind::Standard };

fn params(settings: DcqcnTcdSettings) -> Params {
    DcqcnTcd::check(&settings, &LINK).unwrap()
}

fn variants() -> Vec<(&'static str, Params)> {
    let odd = [
        ("restarted, raises alpha", DcqcnTcdSettings { ue_raises_alpha: 1, ..PAPER }),
        ("sampled", DcqcnTcdSettings { dcqcn: VENDOR, ue_raises_alpha: 0 }),
        ("sampled, raises alpha", DcqcnTcdSettings { dcqcn: VENDOR, ue_raises_alpha: 1 }),
    ];
    let presets = DcqcnTcd::PRESETS.iter().map(|preset| (preset.name, preset.values));
    presets.chain(odd).map(|(name, settings)| (name, params(settings))).collect()
}

fn at<P>(now: u64, params: &P) -> Cx<'_, P> {
    let now = Instant::from_nanos(now);
    Cx { now, link: &LINK, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
}

fn numbered(kind: CnpKind, seq: u16) -> Event<'static> {
    Event::Cnp { body_kind: CnpBodyKind::Extended(CnpBody { kind, seq, ..CnpBody::default() }) }
}

fn ue(seq: u16) -> Event<'static> {
    numbered(CnpKind::Undetermined, seq)
}

fn sent(bytes: u32) -> Event<'static> {
    Event::Sent { psn: Psn::new(0), bytes: Bytes::new(bytes) }
}

/// A flow with its own clock, in nanoseconds.
struct Flow {
    state: DcqcnTcd,
    params: Params,
    now: u64,
}

impl Flow {
    fn new(settings: DcqcnTcdSettings) -> Self {
        let params = params(settings);
        Self { state: DcqcnTcd::open(&at(0, &params)), params, now: 0 }
    }

    fn after(&mut self, wait: u64, event: Event) -> Decision {
        self.now += wait;
        let event = gated(&self.state, event);
        self.state.on(&at(self.now, &self.params), &event)
    }

    fn alpha(&self) -> f64 {
        f64::from(self.state.dcqcn().alpha(&self.params.dcqcn).to_bits()) / f64::from(1u32 << 31)
    }
}

#[test]
fn an_undetermined_notification_restarts_rate_increase_without_a_cut() {
    let mut flow = Flow::new(PAPER);
    flow.after(0, CE);
    let rate = flow.after(60 * US, sent(9_000_000)).rate;
    assert_eq!(rate, Rate::from_gbps(75));
    let decision = flow.after(20 * US, ue(1));
    // The timer restarts, and changes no rate until additive increase.
    assert_eq!((decision.rate, decision.wake_in), (rate, Nanos::new(55_000)));
    assert_eq!(flow.state.dcqcn().target(), rate);
    for _ in 0..5 {
        assert_eq!(flow.after(55 * US, Event::Wake).rate, rate);
    }
    assert_eq!(flow.after(55 * US, Event::Wake).rate.to_bits(), rate.to_bits() + Rate::from_mbps(20).to_bits());
    // The byte counter restarts as well: it had counted 9 MB.
    let mut flow = Flow::new(PAPER);
    flow.after(0, CE);
    flow.after(US, sent(9_000_000));
    flow.after(US, ue(1));
    flow.after(US, sent(9_999_999));
    assert_eq!(flow.state.dcqcn().current(), Rate::from_gbps(50));
}

#[test]
fn a_victims_alpha_does_not_rise_unless_set_to() {
    for (ue_raises_alpha, rises) in [(0, false), (1, true)] {
        let mut settings = DcqcnTcdSettings { ue_raises_alpha, ..PAPER };
        settings.dcqcn.initial_alpha_value = 512;
        let mut flow = Flow::new(settings);
        flow.after(0, CE);
        let before = flow.alpha();
        for seq in 1..=40 {
            flow.after(US, ue(seq));
        }
        let expected = if rises { 1.0 - (1.0 - before) * (1.0 - 1.0 / 256.0_f64).powi(40) } else { before };
        assert!((flow.alpha() - expected).abs() < 1e-6, "{} for {expected}", flow.alpha());
    }
}

#[test]
fn alpha_decays_between_undetermined_notifications() {
    let mut flow = Flow::new(PAPER);
    flow.after(0, CE);
    flow.after(150 * US, ue(1));
    // After two whole periods the period restarts.
    assert!((flow.alpha() - (1.0 - 1.0 / 256.0_f64).powi(2)).abs() < 1e-8);
    flow.after(50 * US, ue(2));
    assert!((flow.alpha() - (1.0 - 1.0 / 256.0_f64).powi(2)).abs() < 1e-8);
}

#[test]
fn an_unlimited_flow_stays_unlimited() {
    let mut flow = Flow::new(PAPER);
    let decision = flow.after(US, ue(1));
    assert_eq!((decision.rate, decision.wake_in), (LINK.line_rate, Nanos::MAX));
    assert_eq!(flow.after(US, CE).rate, Rate::from_gbps(50));
}

#[test]
fn a_cut_that_is_due_at_the_next_tick_is_not_cancelled() {
    let mut flow = Flow::new(DcqcnTcdSettings { dcqcn: VENDOR, ue_raises_alpha: 0 });
    flow.after(0, CE);
    assert_eq!(flow.after(2 * US, ue(1)).rate, LINK.line_rate);
    assert!(flow.after(3 * US, Event::Wake).rate < Rate::from_gbps(51));
}

#[test]
fn undetermined_notifications_in_a_row_neither_raise_a_rate_nor_lower_it() {
    let mut flow = Flow::new(PAPER);
    for _ in 0..30 {
        flow.after(US, CE);
    }
    let rate = flow.state.dcqcn().current();
    for seq in 0..1_000 {
        assert_eq!(flow.after(50 * US, ue(seq)).rate, rate);
    }
    assert!(rate >= Rate::from_mbps(100));
}

#[test]
fn both_kinds_share_their_numbers() {
    let mut flow = Flow::new(PAPER);
    let first = flow.after(US, numbered(CnpKind::Standard, 7)).rate;
    for event in [ue(7), ue(6), numbered(CnpKind::Standard, 5)] {
        let Event::Cnp { body_kind } = &event else { panic!("a notification") };
        assert_eq!(flow.state.cnp_filter(body_kind), Some(CnpIgnored::Stale));
        let before = flow.state;
        assert_eq!(flow.after(0, event).rate, first);
        assert_eq!(flow.state, before);
    }
    flow.after(US, ue(8));
    assert_eq!(flow.after(US, numbered(CnpKind::Standard, 8)).rate, first, "8 was received before");
    for kind in [CnpKind::SwitchInt, CnpKind::DirectInt] {
        let Event::Cnp { body_kind } = numbered(kind, 9) else { panic!("a notification") };
        assert_eq!(flow.state.cnp_filter(&body_kind), Some(CnpIgnored::Unsupported));
    }
}

#[test]
fn settings_are_those_of_dcqcn_and_one_more() {
    let index = DcqcnTcdSettings::index_of("ue_raises_alpha").unwrap();
    assert_eq!(index + 1, DcqcnTcdSettings::FIELDS.len());
    let mut settings = PAPER;
    settings.set(index, 1).unwrap();
    settings.set(DcqcnTcdSettings::index_of("RATE_AI").unwrap(), 7).unwrap();
    assert_eq!((settings.ue_raises_alpha, settings.dcqcn.rpg_ai_rate), (1, 7));
    assert_eq!((settings.get(index), settings.get(index + 1)), (1, 0));
    assert!(settings.set(index, 2).is_err());
    let wrong = DcqcnTcdSettings { dcqcn: DcqcnSettings { rpg_min_rate: 100_001, ..dcqcn::PAPER }, ..PAPER };
    assert!(matches!(DcqcnTcd::check(&wrong, &LINK), Err(ParamError::Conflict { field: "rpg_min_rate", .. })));
    assert!(matches!(
        DcqcnTcd::check(&DcqcnTcdSettings { ue_raises_alpha: 2, ..PAPER }, &LINK),
        Err(ParamError::OutOfRange(Field { name: "ue_raises_alpha", .. }))
    ));
}

#[test]
fn transitions_of_an_undetermined_notification_show_the_phase() {
    let mut flow = Flow::new(PAPER);
    let mut rows = std::collections::BTreeSet::new();
    rows.insert(flow.state.transition(&at(flow.now, &flow.params), &ue(0)));
    flow.after(0, CE);
    for nth in 0..14 {
        rows.insert(flow.state.transition(&at(flow.now, &flow.params), &ue(0)));
        // The timer alone, until it is past fast recovery; then the byte counter alone.
        let (wait, bytes) = if nth < 7 { (55 * US, 0) } else { (0, 10_000_000) };
        flow.after(wait, sent(bytes));
    }
    assert_eq!(rows.into_iter().collect::<Vec<_>>(), [12, 13, 14, 15]);
    assert!(DcqcnTcd::TRANSITIONS.iter().skip(12).all(|row| row.contains("undetermined")));
}

#[test]
fn a_slot_used_before_starts_as_new_d4() {
    let params = params(PAPER);
    let mut used = DcqcnTcd::open(&at(0, &params));
    used.on(&at(US, &params), &CE);
    used.on(&at(2 * US, &params), &ue(9));
    used = DcqcnTcd::open(&at(9 * US, &params));
    assert_eq!(used, DcqcnTcd::open(&at(9 * US, &params)));
    assert_eq!(used.on(&at(9 * US, &params), &ue(9)).rate, LINK.line_rate);
}

fn any_event() -> impl Strategy<Value = Event<'static>> {
    prop_oneof![
        any::<u16>().prop_map(ue),
        any::<u16>().prop_map(|seq| numbered(CnpKind::Standard, seq)),
        Just(CE),
        (0..30u32).prop_map(|bits| sent(1 << bits)),
        Just(Event::Wake),
    ]
}

/// Events, each with the nanoseconds since the one before.
fn any_events() -> impl Strategy<Value = Vec<(Event<'static>, u64)>> {
    let wait = (0..400_000_000u64, 0..28u32).prop_map(|(wait, shift)| wait >> shift);
    prop::collection::vec((any_event(), wait), 1..60)
}

proptest! {
    #[test]
    fn without_undetermined_ones_it_is_dcqcn(events in any_events()) {
        for (_, params) in variants() {
            let (mut state, mut plain, mut now) = (DcqcnTcd::open(&at(0, &params)), Dcqcn::open(&at(0, &params.dcqcn)), 0);
            for (event, wait) in events.iter().filter(|(event, _)| undetermined(event).is_none()) {
                now += wait;
                prop_assert_eq!(state.on(&at(now, &params), event), plain.on(&at(now, &params.dcqcn), event));
            }
            prop_assert_eq!(*state.dcqcn(), plain);
        }
    }

    #[test]
    fn wakes_change_no_decision(events in any_events()) {
        for (name, params) in variants() {
            let (mut exact, mut late, mut now) = (DcqcnTcd::open(&at(0, &params)), DcqcnTcd::open(&at(0, &params)), 0);
            let mut wake_at = u64::MAX;
            for (event, wait) in events.iter().filter(|(event, _)| *event != Event::Wake) {
                now += wait;
                while wake_at <= now {
                    let decision = exact.on(&at(wake_at, &params), &Event::Wake);
                    wake_at = deadline(wake_at, &decision);
                }
                let decision = exact.on(&at(now, &params), event);
                wake_at = deadline(now, &decision);
                prop_assert_eq!(late.on(&at(now, &params), event), decision, "{}", name);
            }
        }
    }

    #[test]
    fn rates_stay_between_floor_and_line(events in any_events()) {
        for (_, params) in variants() {
            let (mut state, mut now) = (DcqcnTcd::open(&at(0, &params)), 0);
            for (event, wait) in &events {
                now += wait;
                prop_assert!(state.transition(&at(now, &params), event) < DcqcnTcd::TRANSITIONS.len());
                let before = state.on(&at(now, &params), &Event::Wake).rate;
                let decision = state.on(&at(now, &params), event);
                prop_assert!(decision.rate >= Rate::from_mbps(1) && decision.rate <= LINK.line_rate);
                prop_assert!(undetermined(event).is_none() || decision.rate == before);
                prop_assert!(decision.wake_in > Nanos::ZERO && decision.window == Bytes::MAX);
            }
        }
    }
}

fn deadline(now: u64, decision: &Decision) -> u64 {
    if decision.wake_in == Nanos::MAX { u64::MAX } else { now + u64::from(decision.wake_in.get()) }
}
