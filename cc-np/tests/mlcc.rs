//! MLCC's receiver compared with its equations in double precision, packet by packet, with the whole history of (2).

#[allow(unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/hpcc_equations/mod.rs"]
mod hpcc;
#[allow(unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/links/mod.rs"]
mod links;
#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/tolerance/mod.rs"]
mod tolerance;

use cc_core::wire::shim::MlccData;
use cc_core::{
    Bytes, Ecn, Grant, Hop, Instant, IntLayout, IntStack, IntStackBuilder, Link, Mark, Nanos, Psn, Qpn, Rate, Stamp,
};
use cc_np::mlcc::{Mlcc, MlccSettings, PAPER, STABLE};
use cc_np::{Arrival, Cx, NotificationPoint};
use links::Links;
use std::collections::VecDeque;
use tolerance::{SplitMix, Tolerance, Value};

/// Section 3.3.1. Times in nanoseconds, rates in bytes per nanosecond.
mod oracle {
    pub(super) struct Dqm {
        pub(super) rtt_c: f64,
        pub(super) n: usize,
        pub(super) theta: f64,
        pub(super) d_t: f64,
        pub(super) mtu: f64,
        pub(super) least: f64,
        pub(super) line: f64,
    }

    impl Dqm {
        /// (2), of the R_DQM that were sent.
        pub(super) fn r_pre(&self, advised: &[f64]) -> f64 {
            let latest = &advised[advised.len().saturating_sub(self.n)..];
            latest.iter().sum::<f64>() / latest.len() as f64
        }

        /// (3) and (4), of the m latest R_credit.
        pub(super) fn d_pre(&self, r_pre: f64, credits: &[f64], q_c: f64) -> f64 {
            let q_pre = (r_pre - credits[0]) * self.rtt_c + q_c;
            let d_pre = credits.len() as f64 * q_pre / credits.iter().sum::<f64>();
            d_pre.clamp(-self.rtt_c, self.theta + self.d_t)
        }

        /// What (7) adds to the token, with alpha a half and a divisor.
        pub(super) fn gain(&self, d_pre: f64, credit: f64, divisor: f64) -> f64 {
            let raw = credit * (1.0 - (d_pre - self.d_t) / self.theta); // (5)
            (0.5 * raw / divisor).clamp(0.0, 1.0)
        }

        /// (6) and (8).
        pub(super) fn token(token: f64, gain: f64) -> (f64, f64) {
            let token = token + gain;
            if token >= 1.0 { (token - 1.0, 1.0) } else { (token, -1.0) }
        }

        /// The bounds of dw, in whole packets, within which (9) is between the lowest rate and the port's speed.
        pub(super) fn bounds(&self, credit: f64) -> (f64, f64) {
            let per_mtu = self.rtt_c / self.mtu;
            ((-(credit - self.least) * per_mtu).trunc(), ((self.line - credit) * per_mtu).trunc())
        }

        /// (9).
        pub(super) fn r_dqm(&self, credit: f64, dw: f64) -> f64 {
            (credit + dw * self.mtu / self.rtt_c).clamp(self.least, self.line)
        }
    }
}

const T: u32 = 24_000;
const N: usize = 250;
type Exact = Mlcc<N>;

fn per_ns(rate: Rate) -> f64 {
    f64::from(rate.to_bits()) / f64::from(1 << 24)
}

fn link(gbps: u32) -> Link {
    Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(1_000), base_rtt: Nanos::new(T) }
}

fn dqm(link: &Link) -> oracle::Dqm {
    let line = per_ns(link.line_rate);
    oracle::Dqm { rtt_c: 6e6, n: N, theta: 18e6, d_t: 1e6, mtu: 1_000.0, least: line / 1e3, line }
}

fn arrival(mlcc: Option<MlccData>, int: IntStack<'_>) -> Arrival<'_> {
    Arrival {
        local: Qpn::new(5),
        psn: Psn::new(1),
        bytes: Bytes::new(1_000),
        payload: Bytes::new(936),
        ecn: Ecn::Ect0,
        mark: Mark::None,
        first: false,
        last: false,
        sent: None,
        arrived: Stamp::from_bits(0),
        int,
        mlcc,
    }
}

/// The credit, R_credit and R_DQM of a reply.
fn granted(grant: Grant) -> (u16, f64, f64) {
    match grant {
        Grant::Mlcc { credit, release, advised_rate } => (credit, per_ns(release), per_ns(advised_rate)),
        _ => panic!("no grant"),
    }
}

fn sender(flow: &Exact) -> hpcc::Sender {
    hpcc::Sender {
        w: f64::from(flow.law().window().get()),
        wc: f64::from(flow.law().reference().get()),
        u: f64::from(flow.law().utilisation()) / f64::from(1 << 24),
        inc_stage: flow.law().stage().into(),
    }
}

#[test]
fn each_packet_has_the_effect_of_the_equations() {
    let (mut tolerance, mut bounded, mut rounds) = (Tolerance::default(), 0_u32, 0_u32);
    for seed in 0..40 {
        let mut random = SplitMix::new(seed);
        let preset = if seed / 4 % 2 == 0 { PAPER } else { STABLE };
        let settings = MlccSettings { max_stage: if seed % 3 == 0 { 0 } else { 5 }, rate_ai: 2_000, ..preset };
        let gbps = [25, 100, 400, 800][seed as usize % 4];
        let link = link(gbps);
        let params = Exact::check(&settings, &link).unwrap();
        let c = hpcc::Constants {
            t: f64::from(T),
            eta: 0.95,
            max_stage: settings.max_stage,
            w_ai: f64::from(settings.rate_ai) / 8_000.0 * f64::from(T),
            w_init: f64::from(gbps) / 8.0 * f64::from(T),
            w_min: f64::from(gbps) / 8e3 * f64::from(T),
            longest: 2.0 * f64::from(T),
            silence: 4.0 * f64::from(T),
            counts: 4_294_967_296.0,
            unit: 64.0,
        };
        let dqm = dqm(&link);
        let mut now = 1_000_u64;
        let cx = |now| Cx { now: Instant::from_nanos(now), link: &link, params: &params };
        let mut flow = Exact::open(&cx(now), &mut (), None);
        let mut links = Links::new(&mut random, &[100, 100, 25]);
        let mut last: Option<(f64, Links)> = None;
        let (mut credit, mut began) = (None::<u16>, now as f64);
        let mut history = vec![dqm.line];
        let mut queue = 0;
        for packet in 0..4_000_u32 {
            let gap = [40, 300, 2_000, 9_000][random.within(0..=3) as usize] + random.within(0..=200);
            let gap = if random.within(0..=299) == 0 { gap * 40 } else { gap };
            now += u64::from(gap);
            links.pass(&mut random, gap);
            if packet % 500 == 0 {
                queue = random.within(0..=60_000_000) >> random.within(0..=8);
                links.load = [0.1, 0.6, 0.8, 0.9][random.within(0..=3) as usize];
            }
            // The credit is not known before the first reply.
            let matches = credit.is_some() && random.within(0..=9) == 0;
            let c_d = match credit {
                Some(credit) if matches => credit,
                Some(credit) if random.within(0..=99) > 0 => credit ^ 0x5a5a,
                _ => 0,
            };
            let mlcc =
                (matches || random.within(0..=99) > 0).then_some(MlccData { credit: c_d, queue: Bytes::new(queue) });
            let q_c = if mlcc.is_some() { f64::from(queue) } else { 0.0 };
            let c_d = mlcc.map_or(0, |data| data.credit);
            let longest = if c_d == 0 { sender(&flow).u.max(1.0) } else { 8.0 };
            let over = matches || now as f64 - began > longest * f64::from(T);

            let before = (sender(&flow), f64::from(flow.dw()), f64::from(flow.token()) / f64::from(1 << 24));
            let before_credits: Vec<f64> = flow.releases().map(per_ns).to_vec();
            let (gain_before, advised_before) =
                (f64::from(flow.gain()) / f64::from(1 << 24), per_ns(flow.advised_rate()));
            let int = links.telemetry(1);
            let (now_credit, r_credit, r_dqm) = granted(flow.on(&cx(now), &mut (), &arrival(mlcc, int.stack())).grant);

            // R_credit: HPCC's law, applied at the end of a round.
            let before_law = before.0;
            let mut allowed = vec![if over { hpcc::rise(&c, before_law) } else { before_law }];
            if let Some((last_at, last)) = &last
                && now as f64 - last_at <= 4.0 * f64::from(T)
                && let Some(u) = hpcc::inflight(&c, before_law.u, &last.records, &links.records)
            {
                let s = hpcc::Sender { u, ..before_law };
                let cut = u >= c.eta || s.inc_stage >= c.max_stage;
                allowed = vec![hpcc::compute_wind(&c, s, cut, over)];
                if s.inc_stage < c.max_stage && (u - c.eta).abs() < 1e-3 {
                    allowed.push(hpcc::compute_wind(&c, s, !cut, over));
                }
            }
            last = Some((now as f64, links.clone()));

            // Queue management, computed from the machine's R_credit.
            let mut credits = before_credits;
            let (mut gain, mut advised_rate, mut dw) = (gain_before, advised_before, before.1);
            if over {
                rounds += 1;
                began = now as f64;
                assert_ne!(Some(now_credit), credit);
                credits.insert(0, r_credit);
                credits.pop();
                let (least, most) = dqm.bounds(r_credit);
                dw = if c_d == 0 { 0.0 } else { dw.clamp(least.min(0.0), most.max(0.0)) };
                advised_rate = dqm.r_dqm(r_credit, dw);
                let divisor = if preset == PAPER { r_credit } else { r_dqm };
                gain = dqm.gain(dqm.d_pre(dqm.r_pre(&history), &credits, q_c), r_credit, divisor);
                history.push(r_dqm);
            } else if credit.is_some() {
                assert_eq!((Some(now_credit), r_credit), (credit, credits[0]));
            }
            credit = Some(now_credit);
            let (token, step) = oracle::Dqm::token(before.2, f64::from(flow.gain()) / f64::from(1 << 24));
            let (least, most) = dqm.bounds(r_credit);
            let near = |bound: f64| (dw + step - bound).abs() <= 3.0 + bound.abs() * 5e-3;
            let moved = if near(least) || near(most) {
                bounded += 1;
                let (low, high) = (least * 1.005 - 2.0, most * 1.005 + 2.0);
                assert!((low..=high).contains(&f64::from(flow.dw())), "{} in {low} to {high}", flow.dw());
                step
            } else {
                f64::from(flow.dw()) - dw.round()
            };
            let after = sender(&flow);
            let outcome: [Value; 9] = [
                ("W", after.w, 1.0),
                ("Wc", after.wc, 1.0),
                // The utilisation of a hop is right to 2.5e-4 of a link.
                ("U", after.u, 1e-4),
                ("incStage", after.inc_stage.into(), 0.0),
                ("R_credit", r_credit, 1.0 / f64::from(T)),
                // Where the bound of dw is between two whole packets, either packet count is correct.
                ("R_DQM", r_dqm, 1_000.0 / 6e6 / 4.0 + 1e-6),
                ("alpha R_raw / divisor", f64::from(flow.gain()) / f64::from(1 << 24), 2e-6),
                ("token", f64::from(flow.token()) / f64::from(1 << 24), 1e-9),
                ("dw", moved, 0.0),
            ];
            let allowed: Vec<Vec<f64>> = allowed
                .iter()
                .map(|s| {
                    let credit = if over { (s.w / c.t).clamp(dqm.least, dqm.line) } else { credits[0] };
                    vec![s.w, s.wc, s.u, s.inc_stage.into(), credit, advised_rate, gain, token, step]
                })
                .collect();
            tolerance.assert(&(seed, packet), &outcome, &allowed);
        }
    }
    tolerance.finish(150_000);
    assert!(rounds > 10_000, "{rounds} rounds");
    assert!(bounded < 60_000, "{bounded} packets with dw at a bound");
}

/// The queue of one flow at the interconnect switch: filled at the R_DQM of one far round trip ago, and drained at R_credit,
/// 12.5 Gb/s.
struct Plant {
    queue: f64,
    under_way: VecDeque<f64>,
}

impl Plant {
    fn new(line: f64) -> Self {
        Self { queue: 40e6, under_way: std::iter::repeat_n(line, N).collect() }
    }

    /// One local round trip. Returns the number of packets that left.
    fn round(&mut self, release: f64) -> u32 {
        let arriving = self.under_way.pop_front().unwrap() * f64::from(T);
        let leaving = (release * f64::from(T)).min(self.queue + arriving);
        self.queue += arriving - leaving;
        (leaving / 1_000.0).round() as u32
    }
}

/// MLCC 4.3 and Fig. 9: from 40 MB, the machine's queue and that of the equations settle around the data of 1 ms at R_credit.
#[test]
fn a_free_run_regulates_the_queue_as_the_equations_do() {
    let link = link(25);
    let (params, dqm) = (Exact::check(&PAPER, &link).unwrap(), dqm(&link));
    let cx = |now| Cx { now: Instant::from_nanos(now), link: &link, params: &params };
    let mut flow = Exact::open(&cx(0), &mut (), None);
    let (mut now, mut credit, mut clock) = (0_u64, 0, 0);
    // A full link, until R_credit is half of what the port carries.
    let mut history = vec![dqm.line];
    while flow.release() > Rate::from_mbps(12_500) {
        (now, clock) = (now + u64::from(T), clock + T);
        let hop = Hop { mbps: 25_000, flags: 0, clock, sent: clock / 64 * 25 / 8, queue: 0 };
        let int = IntStackBuilder::new(IntLayout::Wide, 1).with([hop]);
        let data = MlccData { credit, queue: Bytes::ZERO };
        credit = granted(flow.on(&cx(now), &mut (), &arrival(Some(data), int.stack())).grant).0;
        history.push(per_ns(flow.advised_rate()));
    }
    let release = per_ns(flow.release());
    let credits = [release; 5];
    let (mut dw, mut token, mut gain) = (f64::from(flow.dw()), 0.0, 0.5);
    let (mut machine, mut ideal) = (Plant::new(dqm.line), Plant::new(dqm.line));
    let mut sums = [0.0_f64; 2];
    for round in 0..25_000 {
        now += u64::from(T);
        for packet in 0..machine.round(release).max(1) {
            let c_d = if packet == 0 { credit } else { 0 };
            let data = MlccData { credit: c_d, queue: Bytes::new(machine.queue as u32) };
            credit = granted(flow.on(&cx(now), &mut (), &arrival(Some(data), IntStack::NONE)).grant).0;
        }
        machine.under_way.push_back(per_ns(flow.advised_rate()));
        for packet in 0..ideal.round(release).max(1) {
            if packet == 0 {
                gain = dqm.gain(dqm.d_pre(dqm.r_pre(&history), &credits, ideal.queue), 1.0, 1.0);
                history.push(dqm.r_dqm(release, dw));
            }
            let (after, step) = oracle::Dqm::token(token, gain);
            let (least, most) = dqm.bounds(release);
            (token, dw) = (after, (dw + step).clamp(least, most));
        }
        ideal.under_way.push_back(*history.last().unwrap());
        if round >= 10_000 {
            sums = [sums[0] + machine.queue / 15e3, sums[1] + ideal.queue / 15e3];
        }
    }
    let [machine, ideal] = sums;
    assert!((1.35e6..1.7e6).contains(&machine), "{machine}");
    assert!((machine - ideal).abs() < 1e5, "{machine}, the equations {ideal}");
}
