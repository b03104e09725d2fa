//! HPCC* compared with its equations in double precision: HPCC's Algorithm 1 for each loop, and LSCC's section III-D, which
//! connects them.

#[allow(unreachable_pub, reason = "a module that several tests share")]
#[path = "hpcc_equations/mod.rs"]
mod hpcc;
#[allow(unreachable_pub, reason = "a module that several tests share")]
mod links;
#[allow(unreachable_pub, reason = "a module that several tests share")]
mod tolerance;

use cc_core::hpcc::Law;
use cc_core::{Bytes, Hop, Instant, IntLayout, IntStackBuilder, Link, Nanos, Psn, Rate};
use cc_rp::hpcc::Hpcc;
use cc_rp::hpcc_star::{HpccStar5, HpccStarSettings, PAPER};
use cc_rp::{Ack, Cx, Decision, Event, ReactionPoint};
use hpcc::{Constants, Sender};
use links::Links;
use tolerance::{SplitMix, Tolerance, Value};

/// The time of section III-D: RTT / N, measured by acknowledgements. Packet numbers do not wrap.
mod marks {
    /// The present round trip, and the marks passed in it.
    #[derive(Clone, Copy, Default)]
    pub(super) struct Marks {
        trip: Option<(f64, f64)>,
        passed: u32,
        /// RTT / N has elapsed.
        pub(super) elapsed: bool,
    }

    impl Marks {
        /// An acknowledgement of all packets up to `acked`, when all up to `sent` have been sent.
        pub(super) fn acknowledged(&mut self, n: u32, acked: u64, sent: u64) {
            let (acked, sent) = (acked as f64, sent as f64);
            let Some((snd_una, snd_nxt)) = self.trip else {
                (self.trip, self.passed) = (Some((acked, sent)), 0);
                return;
            };
            if acked < snd_una {
                return;
            }
            let mark = |k: u32| snd_una + (snd_nxt - snd_una) * f64::from(k) / f64::from(n);
            let passed = (1..=n).take_while(|&k| acked >= mark(k)).last().unwrap_or(0);
            self.elapsed |= passed > self.passed;
            self.passed = self.passed.max(passed);
            if passed == n {
                (self.trip, self.passed) = (Some((acked, sent)), 0);
            }
        }
    }
}

const T: u32 = 120_000;
const NEAR_T: u32 = 12_000;
const REMOTE_LINKS: [u32; 3] = [200, 100, 25];

/// The loops' variables.
fn end_to_end_of(flow: &HpccStar5) -> Sender {
    let far: &Hpcc<5> = flow.end_to_end();
    Sender {
        w: f64::from(far.window().get()),
        wc: f64::from(far.reference().get()),
        u: f64::from(far.utilisation()) / f64::from(1 << 24),
        inc_stage: far.stage().into(),
    }
}

fn near_loop_of(flow: &HpccStar5) -> Sender {
    let near: &Law<5> = flow.near_loop();
    Sender {
        w: f64::from(near.window().get()),
        wc: f64::from(near.reference().get()),
        u: f64::from(near.utilisation()) / f64::from(1 << 24),
        inc_stage: near.stage().into(),
    }
}

/// The variables that a loop may have after telemetry. Wc is updated if `over` is set.
fn after(c: &Constants, before: Sender, last: Option<&Links>, next: &Links, over: bool) -> Vec<Sender> {
    let Some(u) = last.and_then(|last| hpcc::inflight(c, before.u, &last.records, &next.records)) else {
        return vec![before];
    };
    let sender = Sender { u, ..before };
    let cut = u >= c.eta || before.inc_stage >= c.max_stage;
    let near_eta = before.inc_stage < c.max_stage && (u - c.eta).abs() < 1e-3;
    let either = [Some(cut), near_eta.then_some(!cut)];
    either.into_iter().flatten().map(|cut| hpcc::compute_wind(c, sender, cut, over)).collect()
}

#[test]
fn each_step_is_that_of_the_equations() {
    let mut tolerance = Tolerance::default();
    for seed in 0..60 {
        let mut random = SplitMix::new(seed);
        let settings =
            HpccStarSettings { max_stage: if seed % 3 == 0 { 0 } else { 5 }, near_rtt: NEAR_T, base_rtt: T, ..PAPER };
        let gbps = [25, 100, 400, 800][seed as usize % 4];
        let link = Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(1_064), base_rtt: Nanos::new(9_999) };
        let params = HpccStar5::check(&settings, &link).unwrap();
        let b = f64::from(gbps) / 8.0;
        let constants = |t: u32, floor: f64| Constants {
            t: t.into(),
            eta: f64::from(settings.eta) / 1e6,
            max_stage: settings.max_stage,
            w_ai: f64::from(settings.rate_ai) / 8_000.0 * f64::from(t),
            w_init: b * f64::from(t),
            w_min: floor,
            longest: 2.0 * f64::from(t),
            silence: 4.0 * f64::from(t),
            counts: 4_294_967_296.0,
            unit: 64.0,
        };
        let far = constants(T, f64::from(settings.min_rate) / 8_000.0 * f64::from(T));
        let near = constants(NEAR_T, 1_064.0);
        let mut now = 1_000_u64;
        let cx = |now: u64| {
            let now = Instant::from_nanos(now);
            Cx { now, link: &link, params: &params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
        };
        let mut flow = HpccStar5::open(&cx(now));
        let near_links = [25, 40, 100, 10 * (1 + random.within(0..=9))];
        let mut far_links = Links::new(&mut random, &REMOTE_LINKS);
        let mut near_links = Links::new(&mut random, &near_links);
        let (mut far_last, mut near_last) = (None::<Links>, None::<Links>);
        let (mut far_gap, mut near_gap, mut silence) = (0, 0, [0_u32; 2]);
        let first = u64::from(random.within(0..=0x00ff_ffff));
        let (mut sent, mut acked, mut updated) = (first + 50, first, None);
        let mut marks = marks::Marks::default();
        let psn = |packet: u64| Psn::new((packet & 0x00ff_ffff) as u32);
        flow.on(&cx(now), &Event::Sent { psn: psn(sent), bytes: link.mtu });
        for _ in 0..4_000 {
            let gap = [40, 300, 3_000, 9_000][random.within(0..=3) as usize] + random.within(0..=200);
            now += u64::from(gap);
            (far_gap, near_gap) = (far_gap + gap, near_gap + gap);
            silence = silence.map(|silence| silence + gap);
            let (was_far, was_near) = (end_to_end_of(&flow), near_loop_of(&flow));
            let (mut fars, mut nears) = (vec![was_far], vec![was_near]);
            let decision: Decision = match random.within(0..=9) {
                0..=1 => {
                    sent += u64::from(random.within(1..=20));
                    flow.on(&cx(now), &Event::Sent { psn: psn(sent), bytes: link.mtu })
                }
                2 => flow.on(&cx(now), &Event::Wake),
                3..=5 => {
                    acked = (acked + u64::from(random.within(1..=8))).min(sent);
                    far_links.pass(&mut random, far_gap);
                    far_gap = 0;
                    let last = far_last.take().filter(|_| silence[0] <= 4 * T);
                    let over = updated.is_none_or(|updated| acked > updated);
                    fars = after(&far, was_far, last.as_ref(), &far_links, over);
                    let measured = fars.iter().any(|far| far.u.to_bits() != was_far.u.to_bits());
                    // The first telemetry begins a round trip.
                    if last.is_none() && updated.is_none() || measured && over {
                        updated = Some(sent);
                    }
                    marks.acknowledged(T / NEAR_T, acked, sent);
                    (far_last, silence[0]) = (Some(far_links.clone()), 0);
                    let int = far_links.telemetry(3);
                    flow.on(&cx(now), &Event::Ack(Ack { psn: psn(acked), int: int.stack(), ..Ack::default() }))
                }
                _ => {
                    near_links.pass(&mut random, near_gap);
                    near_gap = 0;
                    let last = near_last.take().filter(|_| silence[1] <= 4 * NEAR_T);
                    nears = after(&near, was_near, last.as_ref(), &near_links, marks.elapsed);
                    marks.elapsed &= nears.iter().all(|near| near.u.to_bits() == was_near.u.to_bits());
                    (near_last, silence[1]) = (Some(near_links.clone()), 0);
                    let int = near_links.telemetry(5);
                    flow.on(&cx(now), &Event::SwitchInt { int: int.stack() })
                }
            };
            let (f, n) = (end_to_end_of(&flow), near_loop_of(&flow));
            let outcome: [Value; 10] = [
                ("W", f.w, 1.0),
                ("Wc", f.wc, 1.0),
                // The load of a hop is right to 2.5e-4.
                ("U", f.u, 1e-4),
                ("incStage", f.inc_stage.into(), 0.0),
                ("W*", n.w, 1.0),
                ("Wc*", n.wc, 1.0),
                ("U*", n.u, 1e-4),
                ("incStage*", n.inc_stage.into(), 0.0),
                ("R", f64::from(decision.rate.to_bits()) / f64::from(1 << 24), 1.0 / near.t),
                ("window", decision.window.get().into(), far.t / near.t),
            ];
            let mut allowed = Vec::new();
            for f in &fars {
                for n in &nears {
                    let rates = [(f.w / far.t).max(far.w_min / far.t), n.w / near.t].map(|rate| rate.min(b));
                    let window = if rates[1] < rates[0] { (rates[1] * far.t).min(f.w) } else { f.w };
                    allowed.push(vec![
                        f.w,
                        f.wc,
                        f.u,
                        f.inc_stage.into(),
                        n.w,
                        n.wc,
                        n.u,
                        n.inc_stage.into(),
                        rates[0].min(rates[1]),
                        window.max(1_064.0),
                    ]);
                }
            }
            tolerance.assert(&now, &outcome, &allowed);
        }
    }
    tolerance.finish(200_000);
}

/// Four such flows behind a pseudo queue that the remote end drains at 10 Gb/s, then at 20: the link is used and the queue
/// short.
#[test]
fn a_free_run_settles_at_the_rate_of_the_remote_end() {
    let link = Link { line_rate: Rate::from_gbps(40), mtu: Bytes::new(1_064), base_rtt: Nanos::new(2_000_000) };
    // The acknowledgements have no telemetry, so that direct INT alone sets the rates; W would be halved for the lack of it.
    let params = HpccStar5::check(&HpccStarSettings { no_int_rtts: 0, ..PAPER }, &link).unwrap();
    let cx = |now: u64| {
        let now = Instant::from_nanos(now);
        Cx { now, link: &link, params: &params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
    };
    let mut flows = [HpccStar5::open(&cx(0)); 4];
    let mut rates = [5.0_f64; 4];
    let mut sent = [0.0_f64; 4];
    let (mut queue, mut left, mut since, mut most) = (0.0_f64, 0.0_f64, 0.0, 0.0_f64);
    // Packets acknowledged are those sent 2 ms ago.
    let mut under_way = std::collections::VecDeque::new();
    for step in 0..20_000_u64 {
        let now = step * 5_000;
        let r = if step < 10_000 { 1.25 } else { 2.5 };
        let arriving: f64 = rates.iter().sum::<f64>() * 5_000.0;
        let leaving = (queue + arriving).min(r * 5_000.0);
        (queue, left) = (queue + arriving - leaving, left + leaving);
        let record = Hop {
            mbps: (r * 8_000.0) as u32,
            flags: Hop::VIRTUAL,
            clock: now as u32,
            sent: (left / 64.0) as u32,
            queue: queue as u32,
        };
        let near = IntStackBuilder::new(IntLayout::Wide, 1).with([record]);
        under_way.push_back(sent);
        let acked = if under_way.len() > 400 { under_way.pop_front() } else { None };
        for (flow, state) in flows.iter_mut().enumerate() {
            sent[flow] += rates[flow] * 5_000.0 / 1_064.0;
            let psn = |packets: f64| Psn::new(packets as u32 & 0x00ff_ffff);
            state.on(&cx(now), &Event::Sent { psn: psn(sent[flow]), bytes: link.mtu });
            if let Some(acked) = acked {
                state.on(&cx(now), &Event::Ack(Ack { psn: psn(acked[flow]), ..Ack::default() }));
            }
            let decision = state.on(&cx(now), &Event::SwitchInt { int: near.stack() });
            rates[flow] = f64::from(decision.rate.to_bits()) / f64::from(1 << 24);
        }
        if step % 10_000 == 5_000 {
            (since, most) = (left, 0.0);
        }
        most = most.max(queue);
        if step % 10_000 == 9_999 {
            let share = (left - since) / (r * 5_000.0 * 5_000.0);
            assert!((0.94..=1.0).contains(&share), "step {step}: {share} of {r}");
            let total: f64 = rates.iter().sum();
            assert!(rates.iter().all(|rate| (rate * 4.0 / total - 1.0).abs() < 0.05), "step {step}: {rates:?}");
            // In 10 us, 12 500 bytes leave, or 25 000.
            assert!(most < 20_000.0, "step {step}: {most}");
        }
    }
}
