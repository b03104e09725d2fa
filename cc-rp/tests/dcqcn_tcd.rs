//! DCQCN with ternary marks compared with its equations in double precision: one event at a time from the machine's own rates,
//! and over runs.

#[allow(unreachable_pub, dead_code, reason = "a module that several tests share")]
mod dcqcn_equations;
#[allow(unreachable_pub, reason = "a module that several tests share")]
mod tolerance;

use cc_core::{Bytes, CnpBody, CnpBodyKind, CnpKind, Instant, Link, Nanos, Psn, Rate};
use cc_rp::dcqcn::{self, Dcqcn};
use cc_rp::dcqcn_tcd::{DcqcnTcd, DcqcnTcdSettings, PAPER, Params, TCD_SIM};
use cc_rp::{Cx, Event, ReactionPoint};
use dcqcn_equations::{Constants, Happening, compare_run, compare_steps, magnitude};
use tolerance::SplitMix;

const LINK: Link = Link { line_rate: Rate::from_gbps(40), mtu: Bytes::new(1_024), base_rtt: Nanos::new(8_000) };

/// The values of each preset, written down independently; and settings with which undetermined notifications raise alpha, for
/// both kinds of alpha.
fn variants() -> [(&'static str, DcqcnTcdSettings, Constants); 4] {
    let paper = Constants {
        line: 40_000.0,
        floor: 100.0,
        g: 1.0 / 256.0,
        alpha_at_first: 1.0,
        alpha_period: 55_000,
        cut_period: None,
        ten_bits: false,
        k: 55_000,
        b: Some(10_000_000),
        fast_rounds: 5,
        hyper_after: 5,
        r_ai: 40.0,
        r_hai: 100.0,
        least_left: 0.0,
        target_follows: true,
        target_follows_after_time: false,
        alpha_before_cut: false,
        hyper_at_once: false,
        as_ns3: false,
        stays_limited: false,
        first_raises_alpha: true,
        undetermined_raises_alpha: false,
    };
    let tcd_sim = Constants {
        alpha_at_first: 0.5,
        fast_rounds: 4,
        hyper_after: 4,
        r_hai: 200.0,
        alpha_before_cut: true,
        as_ns3: true,
        stays_limited: true,
        ..paper
    };
    let sampled = Constants {
        floor: 1.0,
        g: 5.0 / 1024.0,
        alpha_at_first: 1023.0 / 1024.0,
        alpha_period: 1_000,
        cut_period: Some(4_000),
        ten_bits: true,
        k: 300_000,
        b: Some(32_767 * 64),
        fast_rounds: 1,
        hyper_after: 1,
        r_ai: 5.0,
        r_hai: 50.0,
        least_left: 0.5,
        target_follows: false,
        target_follows_after_time: true,
        undetermined_raises_alpha: true,
        ..paper
    };
    [
        ("paper", PAPER, paper),
        ("tcd_sim", TCD_SIM, tcd_sim),
        (
            "alpha rises",
            DcqcnTcdSettings { ue_raises_alpha: 1, ..PAPER },
            Constants { undetermined_raises_alpha: true, ..paper },
        ),
        ("sampled alpha rises", DcqcnTcdSettings { dcqcn: dcqcn::VENDOR, ue_raises_alpha: 1 }, sampled),
    ]
}

fn at<P>(now: u64, params: &P) -> Cx<'_, P> {
    let now = Instant::from_nanos(now);
    Cx { now, link: &LINK, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
}

fn event(happening: Happening, nth: u32) -> Event<'static> {
    let numbered =
        |kind| Event::Cnp { body_kind: CnpBodyKind::Extended(CnpBody { kind, seq: nth as u16, ..CnpBody::default() }) };
    match happening {
        Happening::Nothing => Event::Wake,
        Happening::Notification => numbered(CnpKind::Standard),
        Happening::Undetermined => numbered(CnpKind::Undetermined),
        Happening::Sent(bytes) => Event::Sent { psn: Psn::new(nth), bytes: Bytes::new(bytes as u32) },
    }
}

fn happening(random: &mut SplitMix, congested: bool) -> Happening {
    match random.within(0..=11) {
        0 => Happening::Notification,
        1 if congested => Happening::Notification,
        2..4 if congested => Happening::Undetermined,
        4..9 => Happening::Sent(magnitude(random, 23)),
        9 => Happening::Undetermined,
        _ => Happening::Nothing,
    }
}

fn step(flow: &mut DcqcnTcd, params: &Params, now: u64, what: Happening, nth: u32) -> (Rate, Dcqcn) {
    (flow.on(&at(now, params), &event(what, nth)).rate, *flow.dcqcn())
}

#[test]
fn every_step_agrees_with_the_equations() {
    for (seed, (name, settings, c)) in (1..).zip(variants()) {
        let params = DcqcnTcd::check(&settings, &LINK).unwrap();
        let inherited = Dcqcn::check(&settings.dcqcn, &LINK).unwrap();
        let mut flow = DcqcnTcd::open(&at(0, &params));
        compare_steps(name, &c, &inherited, seed, happening, |now, what, nth| step(&mut flow, &params, now, what, nth));
    }
}

#[test]
fn runs_agree_with_the_equations() {
    for (name, settings, c) in variants() {
        let params = DcqcnTcd::check(&settings, &LINK).unwrap();
        let mut flow = DcqcnTcd::open(&at(0, &params));
        // Three times: a flow is congested, then a victim, with a notification every 50 us, and then gets none.
        let happens = |nth: u32| match nth % 20_000 {
            early @ 0..1_000 if early.is_multiple_of(50) => Happening::Notification,
            later @ 1_000..3_000 if later.is_multiple_of(50) => Happening::Undetermined,
            _ => Happening::Sent(2_000),
        };
        compare_run(name, &c, happens, |now, what, nth| step(&mut flow, &params, now, what, nth));
    }
}
