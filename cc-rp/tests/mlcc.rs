//! MLCC's sender compared with its equations in double precision.

#[allow(unreachable_pub, reason = "a module that several tests share")]
#[path = "hpcc_equations/mod.rs"]
mod hpcc;
#[allow(unreachable_pub, reason = "a module that several tests share")]
mod links;
#[allow(unreachable_pub, reason = "a module that several tests share")]
mod tolerance;

use cc_core::{Bytes, Grant, Instant, IntLayout, IntStackBuilder, Link, Nanos, Psn, Rate};
use cc_rp::mlcc::{Mlcc, MlccSettings, PAPER};
use cc_rp::{Ack, Cx, Event, ReactionPoint};
use hpcc::Constants;
use links::Links;
use tolerance::{SplitMix, Tolerance, Value};

const T: u32 = 24_000;
const FIVE: [u32; 5] = [25, 100, 400, 200, 100];

/// The variables of section 3.3.2 in addition to the law of R_NS. Times in nanoseconds, rates in bytes per nanosecond.
struct Oracle {
    c: Constants,
    r_dqm: f64,
    /// When telemetry last arrived.
    telemetry_at: Option<f64>,
    /// When W last became Wc.
    updated: f64,
    sent: Option<u64>,
    newest: Option<u64>,
}

impl Oracle {
    /// (10), and the bounds.
    fn rate(&self, w: f64) -> f64 {
        let r_ns = w / self.c.t;
        r_ns.min(self.r_dqm).clamp(self.c.w_min / self.c.t, self.c.w_init / self.c.t)
    }

    fn acknowledged(&mut self, packet: u64, r_dqm: f64) {
        if self.sent.is_some_and(|sent| packet <= sent) && self.newest.is_none_or(|newest| packet >= newest) {
            (self.newest, self.r_dqm) = (Some(packet), r_dqm);
        }
    }

    /// The variables that the sender may have after Switch-INT at `now`.
    fn switch_int(&mut self, now: f64, before: hpcc::Sender, last: &Links, next: &Links) -> Vec<hpcc::Sender> {
        let silence = self.telemetry_at.replace(now).map_or(f64::INFINITY, |last| now - last);
        let over = now - self.updated >= self.c.t;
        let too_old = silence > 4.0 * self.c.t;
        if over || too_old {
            self.updated = now;
        }
        let measured = hpcc::inflight(&self.c, before.u, &last.records, &next.records);
        let Some(u) = measured.filter(|_| !too_old) else {
            return vec![if over { hpcc::rise(&self.c, before) } else { before }];
        };
        let sender = hpcc::Sender { u, ..before };
        let cut = u >= self.c.eta || before.inc_stage >= self.c.max_stage;
        let near_eta = before.inc_stage < self.c.max_stage && (u - self.c.eta).abs() < 1e-3;
        let either = [Some(cut), near_eta.then_some(!cut)];
        either.into_iter().flatten().map(|cut| hpcc::compute_wind(&self.c, sender, cut, over)).collect()
    }
}

fn psn(packet: u64) -> Psn {
    Psn::new((packet & 0xff_ffff) as u32)
}

#[test]
fn each_step_is_that_of_the_equations() {
    let mut tolerance = Tolerance::default();
    for seed in 0..60 {
        let mut random = SplitMix::new(seed);
        let settings = MlccSettings { max_stage: if seed % 3 == 0 { 0 } else { 5 }, ..PAPER };
        let gbps = [25, 100, 400, 800][seed as usize % 4];
        let link = Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(1_064), base_rtt: Nanos::new(T) };
        let params = Mlcc::check(&settings, &link).unwrap();
        let (t, b) = (f64::from(T), f64::from(gbps) / 8.0);
        let c = Constants {
            t,
            eta: f64::from(settings.eta) / 1e6,
            max_stage: settings.max_stage,
            w_ai: f64::from(settings.rate_ai) / 8_000.0 * t,
            w_init: b * t,
            w_min: f64::from(settings.min_rate) / 8_000.0 * t,
            longest: 2.0 * t,
            silence: 4.0 * t,
            counts: 4_294_967_296.0,
            unit: 64.0,
        };
        let mut now = 1_000_u64;
        let cx = |now: u64| {
            let now = Instant::from_nanos(now);
            Cx { now, link: &link, params: &params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
        };
        let mut flow = Mlcc::open(&cx(now));
        let mut oracle = Oracle { c, r_dqm: b, telemetry_at: None, updated: now as f64, sent: None, newest: None };
        let mut links = Links::new(&mut random, &FIVE);
        let (mut last, mut since) = (links.clone(), 0);
        let mut next = u64::from(random.within(0..=0x00ff_ffff));
        for _ in 0..3_000 {
            let gap = [40, 300, 3_000, 11_000, 40_000][random.within(0..=4) as usize] + random.within(0..=200);
            let gap = if random.within(0..=199) == 0 { gap * 10 } else { gap };
            now += u64::from(gap);
            since += gap;
            let before = hpcc::Sender {
                w: f64::from(flow.law().window().get()),
                wc: f64::from(flow.law().reference().get()),
                u: f64::from(flow.law().utilisation()) / f64::from(1 << 24),
                inc_stage: flow.law().stage().into(),
            };
            let mut allowed = vec![before];
            let decision = match random.within(0..=9) {
                0..=1 => {
                    next += u64::from(random.within(1..=20));
                    oracle.sent = Some(next - 1);
                    flow.on(&cx(now), &Event::Sent { psn: psn(next - 1), bytes: link.mtu })
                }
                2 => flow.on(&cx(now), &Event::Wake),
                3..=4 => {
                    let packet = match random.within(0..=9) {
                        0 => oracle.newest.unwrap_or(next).saturating_sub(random.within(1..=70_000).into()),
                        1 => next + u64::from(random.within(0..=70_000)),
                        _ => oracle.newest.map_or(next.saturating_sub(1), |newest| (newest + 1).min(next)),
                    };
                    let advised_rate = Rate::from_bits((random.draw() as u32) >> random.within(0..=8));
                    oracle.acknowledged(packet, f64::from(advised_rate.to_bits()) / f64::from(1 << 24));
                    let grant = Grant::Mlcc { credit: 9, release: Rate::from_gbps(1), advised_rate };
                    flow.on(&cx(now), &Event::Ack(Ack { psn: psn(packet), grant, ..Ack::default() }))
                }
                _ => {
                    links.pass(&mut random, since);
                    since = 0;
                    let int = links.telemetry(3);
                    allowed = oracle.switch_int(now as f64, before, &last, &links);
                    last = links.clone();
                    flow.on(&cx(now), &Event::SwitchInt { int: int.stack() })
                }
            };
            let outcome: [Value; 5] = [
                ("W", f64::from(flow.law().window().get()), 1.0),
                ("Wc", f64::from(flow.law().reference().get()), 1.0),
                // The load of a hop is right to 2.5e-4.
                ("U", f64::from(flow.law().utilisation()) / f64::from(1 << 24), 1e-4),
                ("incStage", flow.law().stage().into(), 0.0),
                ("R", f64::from(decision.rate.to_bits()) / f64::from(1 << 24), 0.25 / t),
            ];
            let allowed: Vec<Vec<f64>> =
                allowed.iter().map(|s| vec![s.w, s.wc, s.u, s.inc_stage.into(), oracle.rate(s.w)]).collect();
            tolerance.assert(&now, &outcome, &allowed);
        }
    }
    tolerance.finish(150_000);
}

/// A server shares its link to the leaf with another that takes half of it, until the receiver advises less.
#[test]
fn a_free_run_uses_what_the_local_link_leaves_and_then_the_rate_that_the_receiver_advises() {
    let link = Link { line_rate: Rate::from_gbps(25), mtu: Bytes::new(1_064), base_rtt: Nanos::new(T) };
    let params = Mlcc::check(&PAPER, &link).unwrap();
    let cx = |now: u64| {
        let now = Instant::from_nanos(now);
        Cx { now, link: &link, params: &params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
    };
    let mut flow = Mlcc::open(&cx(0));
    let (b, t) = (3.125, f64::from(T));
    let (mut queue, mut clock, mut carried) = (0.0_f64, 0.0, 0.0);
    let mut rate = b;
    flow.on(&cx(0), &Event::Sent { psn: Psn::new(1_000), bytes: link.mtu });
    for step in 0..6_000_u64 {
        let arriving = (rate + b / 2.0) * t / 10.0;
        let leaving = (arriving + queue).min(b * t / 10.0);
        (queue, carried, clock) = (queue + arriving - leaving, carried + leaving, clock + t / 10.0);
        let hop = cc_core::Hop {
            mbps: 25_000,
            flags: 0,
            clock: clock as u32,
            sent: (carried / 64.0) as u32,
            queue: queue as u32,
        };
        let int = IntStackBuilder::new(IntLayout::Wide, 9).with([hop]);
        let now = step * u64::from(T) / 10;
        let mut decision = flow.on(&cx(now), &Event::SwitchInt { int: int.stack() });
        if step == 5_000 {
            let near = rate;
            // eta of the link less the half that the other server takes, and W_AI more.
            assert!((0.42 * b..0.52 * b).contains(&near), "{near}");
            assert!(queue < 10_000.0, "{queue}");
            let grant = Grant::Mlcc { credit: 1, release: link.line_rate, advised_rate: Rate::from_gbps(5) };
            decision = flow.on(&cx(now), &Event::Ack(Ack { psn: Psn::new(1), grant, ..Ack::default() }));
        }
        rate = f64::from(decision.rate.to_bits()) / f64::from(1 << 24);
    }
    assert!((rate - 0.625).abs() < 1e-6, "5 Gb/s: {rate}");
}
