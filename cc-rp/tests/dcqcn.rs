//! DCQCN compared with its equations in double precision: one event at a time from the machine's own rates, and over runs.

#[allow(unreachable_pub, dead_code, reason = "a module that several tests share")]
mod dcqcn_equations;
#[allow(unreachable_pub, reason = "a module that several tests share")]
mod tolerance;

use cc_core::{Bytes, CnpBody, CnpBodyKind, CnpKind, Instant, Link, Nanos, Psn, Rate};
use cc_rp::dcqcn::{CX4, Dcqcn, DcqcnSettings, HPCC_SIM, NS3_RDMA, PAPER, Params, SIGCOMM15, VENDOR};
use cc_rp::{Cx, Event, ReactionPoint};
use dcqcn_equations::{Constants, Flow, Happening, compare_run, compare_steps, magnitude, mbps};
use tolerance::SplitMix;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_024), base_rtt: Nanos::new(8_000) };

/// The values of each preset, written down independently.
fn presets() -> [(&'static str, DcqcnSettings, Constants); 6] {
    let paper = Constants {
        line: 100_000.0,
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
    let vendor = Constants {
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
        ..paper
    };
    let hpcc_sim = Constants {
        floor: 1_000.0,
        g: 1.0 / 256.0,
        ten_bits: false,
        b: None,
        r_ai: 20.0,
        r_hai: 200.0,
        least_left: 0.0,
        hyper_at_once: true,
        stays_limited: true,
        first_raises_alpha: false,
        ..vendor
    };
    let ns3_rdma = Constants {
        alpha_at_first: 0.5,
        k: 60_000,
        b: Some(300_032),
        fast_rounds: 4,
        hyper_after: 4,
        r_hai: 200.0,
        alpha_before_cut: true,
        as_ns3: true,
        stays_limited: true,
        ..paper
    };
    [
        ("paper", PAPER, paper),
        ("vendor", VENDOR, vendor),
        ("cx4", CX4, Constants { r_hai: 40.0, ..vendor }),
        ("hpcc_sim", HPCC_SIM, hpcc_sim),
        ("ns3_rdma", NS3_RDMA, ns3_rdma),
        ("sigcomm15", SIGCOMM15, Constants { fast_rounds: 4, ..paper }),
    ]
}

fn at(now: u64, params: &Params) -> Cx<'_, Params> {
    let now = Instant::from_nanos(now);
    Cx { now, link: &LINK, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
}

fn event(happening: Happening, nth: u32) -> Event<'static> {
    let body = CnpBody { kind: CnpKind::Standard, seq: nth as u16, ..CnpBody::default() };
    match happening {
        Happening::Nothing | Happening::Undetermined => Event::Wake,
        Happening::Notification if nth.is_multiple_of(2) => Event::Cnp { body_kind: CnpBodyKind::Standard },
        Happening::Notification => Event::Cnp { body_kind: CnpBodyKind::Extended(body) },
        Happening::Sent(bytes) => Event::Sent { psn: Psn::new(nth), bytes: Bytes::new(bytes as u32) },
    }
}

fn happening(random: &mut SplitMix, congested: bool) -> Happening {
    match random.within(0..=9) {
        0..3 if congested => Happening::Notification,
        0 => Happening::Notification,
        3..8 => Happening::Sent(magnitude(random, 22)),
        8 => Happening::Sent(magnitude(random, 26)),
        _ => Happening::Nothing,
    }
}

#[test]
fn every_step_agrees_with_the_equations() {
    for (seed, (name, settings, c)) in (1..).zip(presets()) {
        let params = Dcqcn::check(&settings, &LINK).unwrap();
        let mut flow = Dcqcn::open(&at(0, &params));
        compare_steps(name, &c, &params, seed, happening, |now, what, nth| {
            (flow.on(&at(now, &params), &event(what, nth)).rate, flow)
        });
    }
}

#[test]
fn runs_agree_with_the_equations() {
    for (name, settings, c) in presets() {
        let params = Dcqcn::check(&settings, &LINK).unwrap();
        let mut flow = Dcqcn::open(&at(0, &params));
        // Three times of congestion with a notification every 50 us, and none between; 4 000 bytes every microsecond.
        let happens = |nth: u32| {
            let notified = nth % 20_000 < 1_500 && nth.is_multiple_of(50);
            if notified { Happening::Notification } else { Happening::Sent(4_000) }
        };
        compare_run(name, &c, happens, |now, what, nth| (flow.on(&at(now, &params), &event(what, nth)).rate, flow));
    }
}

/// In the simulator of HPCC's authors alpha is a float (rdma-hw.cc). An alpha of ten bits is no substitute: with a notification
/// every 20 to 500 us, a flow would send up to 1.4 times as much.
#[test]
fn the_mean_rate_of_hpcc_sim_is_that_of_an_alpha_in_floating_point() {
    let (_, settings, c) = presets()[3];
    let params = Dcqcn::check(&settings, &LINK).unwrap();
    for interval in [1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 400, 500] {
        let (mut machine, mut float) = (Dcqcn::open(&at(0, &params)), Flow::new(&c));
        let mut sums = [0.0; 2];
        for nth in 0..100_000_u32 {
            // Not on the microsecond, where alpha changes.
            let now = 1_000 * u64::from(nth) + 300;
            let what = if nth.is_multiple_of(interval) { Happening::Notification } else { Happening::Nothing };
            let decision = machine.on(&at(now, &params), &event(what, 0));
            float.happen(&c, now, what);
            if nth >= 50_000 {
                sums = [sums[0] + mbps(decision.rate), sums[1] + float.r_c];
            }
        }
        let ratio = sums[0] / sums[1];
        assert!((ratio - 1.0).abs() < 0.02, "a notification every {interval} us: {ratio} of a float's mean rate");
    }
}

#[test]
fn closed_forms_of_the_paper_hold_for_the_machine() {
    let params = Dcqcn::check(&PAPER, &LINK).unwrap();
    for notifications in [1u32, 7, 60] {
        let mut machine = Dcqcn::open(&at(0, &params));
        for nth in 0..notifications {
            machine.on(&at(u64::from(nth) * 1_000, &params), &event(Happening::Notification, 0));
        }
        // Alpha starts at one and stays there; R_C is halved each time, down to the floor.
        let cut = (100_000.0 * 0.5_f64.powi(notifications as i32)).max(100.0);
        assert!((mbps(machine.current()) - cut).abs() < 0.01, "{} for {cut}", mbps(machine.current()));
        // R_C = R_T - (R_T - R_C0) / 2^k.
        let last = u64::from(notifications - 1) * 1_000;
        let target = mbps(machine.target());
        for k in 1..=5 {
            machine.on(&at(last + 55_000 * k, &params), &Event::Wake);
            let expected = target - (target - cut) / f64::from(1 << k);
            assert!((mbps(machine.current()) - expected).abs() < 0.01, "round {k}");
        }
    }
}

// Faults known from other implementations.

/// A flow of these settings after its first notification at 0 and a wake at `now`.
fn notified(settings: DcqcnSettings, now: u64) -> (Dcqcn, Params) {
    let params = Dcqcn::check(&settings, &LINK).unwrap();
    let mut flow = Dcqcn::open(&at(0, &params));
    flow.on(&at(0, &params), &event(Happening::Notification, 0));
    flow.on(&at(now, &params), &Event::Wake);
    (flow, params)
}

#[test]
fn alpha_goes_before_the_cut_where_both_periods_end_together_a1() {
    for (initial_alpha_value, first_cnp) in [(512, 0), (512, 1), (1_000, 0)] {
        let settings = DcqcnSettings { dce_tcp_rtt: 4, initial_alpha_value, first_cnp, ..VENDOR };
        let (flow, _) = notified(settings, 4_001);
        let raised = if first_cnp == 0 { 5 } else { 0 };
        let alpha = f64::from(initial_alpha_value * 1019 / 1024 + raised) / 1024.0;
        let expected = 100_000.0 * (1.0 - alpha / 2.0);
        assert!((mbps(flow.current()) - expected).abs() < 0.01, "{} for {expected}", mbps(flow.current()));
    }
}

#[test]
fn presets_are_their_sources_numbers_a4() {
    // Table I of the DCQCN+ paper, DCQCN's column and the ConnectX-4's.
    assert_eq!((PAPER.rpg_time_reset, PAPER.rpg_byte_reset * 64, PAPER.rpg_threshold), (55, 10_000_000, 5));
    assert_eq!((PAPER.rpg_ai_rate, PAPER.rpg_hai_rate), (40, 100));
    assert_eq!(
        (CX4.rpg_time_reset, CX4.rpg_ai_rate, CX4.rpg_hai_rate, CX4.rate_reduce_monitor_period),
        (300, 5, 40, 4)
    );
    // mlxconfig's defaults.
    assert_eq!((VENDOR.dce_tcp_g, VENDOR.dce_tcp_rtt, VENDOR.initial_alpha_value), (1019, 1, 1023));
    assert_eq!((VENDOR.rpg_byte_reset, VENDOR.rpg_threshold, VENDOR.rpg_hai_rate, VENDOR.rpg_gd), (32_767, 1, 50, 11));
    // run.py of the HPCC authors at 100 Gb/s, and the sample configuration of ns3-rdma.
    assert_eq!((HPCC_SIM.rpg_ai_rate, HPCC_SIM.rpg_hai_rate, HPCC_SIM.dce_tcp_g), (20, 200, 1020));
    assert_eq!((NS3_RDMA.rpg_time_reset, NS3_RDMA.rpg_hai_rate, NS3_RDMA.initial_alpha_value), (60, 200, 512));
    let names: Vec<_> = Dcqcn::PRESETS.iter().map(|preset| preset.name).collect();
    assert_eq!(names, ["paper", "vendor", "cx4", "hpcc_sim", "ns3_rdma", "sigcomm15"]);
}

#[test]
fn g_is_what_the_old_alpha_keeps_a6() {
    // A period without a notification: 1023 x 1019 / 1024, rounded down, is 1018, not 4.
    let (flow, params) = notified(DcqcnSettings { dce_tcp_rtt: 4, first_cnp: 1, ..VENDOR }, 4_001);
    assert_eq!(flow.alpha(&params).to_bits() >> 21, 1018);
    // With a notification: at most 1023.
    let (flow, params) = notified(DcqcnSettings { dce_tcp_rtt: 4, ..VENDOR }, 4_001);
    assert_eq!(flow.alpha(&params).to_bits() >> 21, 1023);
}

#[test]
fn additive_increase_goes_on_until_both_clocks_have_passed_a10() {
    let params = Dcqcn::check(&PAPER, &LINK).unwrap();
    let mut flow = Dcqcn::open(&at(0, &params));
    for _ in 0..6 {
        flow.on(&at(0, &params), &event(Happening::Notification, 0));
    }
    let mut now = 0;
    let mut gain = |flow: &mut Dcqcn, wait: u64, what: Happening| {
        now += wait;
        let before = mbps(flow.target());
        flow.on(&at(now, &params), &event(what, 0));
        (mbps(flow.target()) - before).round()
    };
    for _ in 0..5 {
        assert_eq!(gain(&mut flow, 55_000, Happening::Nothing), 0.0);
    }
    for _ in 0..20 {
        assert_eq!(gain(&mut flow, 55_000, Happening::Nothing), 40.0);
    }
    for _ in 0..5 {
        assert_eq!(gain(&mut flow, 0, Happening::Sent(10_000_000)), 40.0);
    }
    for nth in 1..=3 {
        assert_eq!(gain(&mut flow, 0, Happening::Sent(10_000_000)), 100.0 * f64::from(nth));
    }
}

#[test]
fn a_slot_used_before_starts_as_new_d4() {
    for (_, settings, _) in presets() {
        let (mut used, params) = notified(settings, 50_000_000);
        used.on(&at(50_000_001, &params), &event(Happening::Notification, 7));
        used = Dcqcn::open(&at(60_000_000, &params));
        assert_eq!(used, Dcqcn::open(&at(60_000_000, &params)));
        assert_eq!(used.on(&at(60_000_000, &params), &Event::Wake).rate, LINK.line_rate);
    }
}
