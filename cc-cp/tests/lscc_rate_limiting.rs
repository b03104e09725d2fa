//! LSCC's rate limiting compared with Eq. 10 and Algorithm 2 in double precision, event by event from the machine's own queue
//! and rate.

#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/tolerance/mod.rs"]
mod tolerance;

use cc_core::wire::FlowKey;
use cc_core::{Bytes, Ecn, Link, Nanos, Qpn, Rate, Stamp};
use cc_cp::lscc::rate_calculation::{self, Feedback, RateCalculation};
use cc_cp::lscc::rate_limiting::{PAPER, Params, RateLimiting, RateLimitingSettings};
use tolerance::{SplitMix, Tolerance};

/// LSCC, III-B, Eq. 10 and Algorithm 2, in bytes and nanoseconds on a clock that never wraps.
mod oracle {
    use std::collections::BTreeMap;

    #[derive(Default)]
    struct Flow {
        sent: f64,
        marked: bool,
        notified: bool,
    }

    pub(super) struct Limits {
        pub(super) reference: f64,
        pub(super) t_dcnp: u64,
        pub(super) t_reset: u64,
        pub(super) threshold: f64,
        /// T, the period of the receiver's end.
        pub(super) t: u64,
        /// Bytes per nanosecond.
        pub(super) slew: f64,
        pub(super) line: f64,
    }

    pub(super) struct Egress {
        pub(super) limits: Limits,
        opened: u64,
        now: u64,
        /// When R rises next, without feedback.
        rises: Option<u64>,
        /// q* was at or above the reference at the last tick; `None` if the two were too close to compare.
        notifying: Option<bool>,
        flows: BTreeMap<u32, Flow>,
    }

    /// Bytes within which q* counts as equal to the reference.
    const NEAR: f64 = 16.0;

    impl Egress {
        pub(super) fn new(limits: Limits, now: u64) -> Self {
            Self { limits, opened: now, now, rises: None, notifying: Some(false), flows: BTreeMap::new() }
        }

        /// Advances the time to `now` from these q* and R, and returns them.
        pub(super) fn pass(&mut self, now: u64, (mut q, mut r): (f64, f64)) -> (f64, f64) {
            let tick = |length: u64| self.opened + (now - self.opened) / length * length;
            let (dcnp, reset) = (tick(self.limits.t_dcnp), tick(self.limits.t_reset));
            if reset > self.now {
                self.flows.values_mut().for_each(|flow| flow.marked = false);
            }
            if dcnp > self.now {
                (q, r) = self.drain(dcnp, (q, r));
                self.notifying = ((q - self.limits.reference).abs() > NEAR).then_some(q > self.limits.reference);
                self.flows.values_mut().for_each(|flow| flow.notified = false);
            }
            self.drain(now, (q, r))
        }

        /// (10) without arrivals.
        fn drain(&mut self, until: u64, (mut q, mut r): (f64, f64)) -> (f64, f64) {
            while let Some(rises) = self.rises.filter(|&at| at <= until && r < self.limits.line) {
                q = (q - r * (rises - self.now) as f64).max(0.0);
                (self.now, self.rises) = (rises, Some(rises + self.limits.t));
                r = (r + self.limits.slew).min(self.limits.line);
            }
            q = (q - r * (until - self.now) as f64).max(0.0);
            self.now = until;
            (q, r)
        }

        pub(super) fn on_message(&mut self) {
            // R rises first at the end of the fifth period: the next feedback is due in the first, and is awaited for four
            // more.
            self.rises = Some(self.now + 5 * self.limits.t);
        }

        /// No feedback has arrived for so long that R is about to rise, or has risen.
        pub(super) fn is_overdue(&self, now: u64) -> bool {
            self.rises.is_none_or(|rises| rises <= now + self.limits.t)
        }

        pub(super) fn marks(&mut self, flow: u32) {
            self.flows.entry(flow).or_default().marked = true;
        }

        /// A data packet of a flow. Returns whether a direct CNP is due; `None` if q* was too close to the reference.
        pub(super) fn data(&mut self, flow: u32, bytes: f64, ce: bool) -> Option<bool> {
            let flow = self.flows.entry(flow).or_default();
            flow.marked |= ce;
            let may = !flow.notified && (flow.marked || flow.sent < self.limits.threshold);
            flow.sent += bytes;
            if may { self.notifying } else { Some(false) }
        }

        /// Records whether the flow got a direct CNP that was due or possible.
        pub(super) fn notified(&mut self, flow: u32, sent: bool) {
            self.notifying = self.notifying.or(Some(sent));
            if let Some(flow) = self.flows.get_mut(&flow) {
                flow.notified |= sent;
            }
        }
    }
}

const GBPS: u32 = 100;
const LINK: Link = Link { line_rate: Rate::from_gbps(GBPS), mtu: Bytes::new(1_000), base_rtt: Nanos::new(20_000) };

/// The first feedback of a receiver's end, as a template for further ones.
fn first_feedback() -> Feedback {
    let p = rate_calculation::Params::new(&rate_calculation::PAPER, &LINK, 16).unwrap();
    let mut far_end = RateCalculation::<16>::open(&p, Stamp::from_bits(0));
    far_end.pass_time(&p, Stamp::from_bits(200_000), Bytes::ZERO).unwrap()
}

/// Random settings with thresholds that are reached, and the limits of the oracle for them.
fn settings(random: &mut SplitMix) -> (RateLimitingSettings, oracle::Limits) {
    let delay = random.within(0..=8_000);
    let round_trip = 2 * delay * GBPS / 8;
    let threshold = if random.within(0..=1) == 0 { 0 } else { round_trip + random.within(1..=200_000) };
    let set = RateLimitingSettings {
        reference: random.within(1..=400_000),
        notify_period: random.within(1_000..=60_000),
        reset_period: random.within(1_000..=300_000),
        threshold,
        delay,
        period: random.within(1_000..=50_000),
        slew: random.within(1..=5_000),
        ..PAPER
    };
    let limits = oracle::Limits {
        reference: set.reference.into(),
        t_dcnp: set.notify_period.into(),
        t_reset: set.reset_period.into(),
        threshold: if threshold == 0 { f64::from(round_trip) * 1.25 } else { threshold.into() },
        t: set.period.into(),
        slew: f64::from(set.slew) / 8e3,
        line: f64::from(GBPS) / 8.0,
    };
    (set, limits)
}

fn key(flow: u32) -> FlowKey {
    FlowKey { peers: flow % 3, data_qpn: Qpn::new(flow) }
}

#[test]
fn each_event_has_the_effect_of_equation_10_and_algorithm_2() {
    let (mut tolerance, mut random, template) = (Tolerance::default(), SplitMix::new(10), first_feedback());
    let (mut notified, mut overdue) = (0, 0);
    for _ in 0..60 {
        let (set, limits) = settings(&mut random);
        let p = Params::new(&set, &LINK).unwrap();
        let mut now = random.draw() >> 2;
        let mut machine = RateLimiting::<16, 4>::open(&p, Stamp::from_bits(now as u32));
        let mut oracle = oracle::Egress::new(limits, now);
        let mut seq = random.within(0..=0xffff) as u16;
        let mut has_feedback = false;
        for event in 0..2_000 {
            let shown = |machine: &RateLimiting<16, 4>| {
                (f64::from(machine.pseudo_queue().get()), f64::from(machine.rate().to_bits()) / 2_f64.powi(24))
            };
            let before = shown(&machine);
            now += match random.within(0..=400) {
                0 => u64::from(random.within(0..=1_000_000)),
                _ => u64::from(random.within(0..=2_000)),
            };
            let stamp = Stamp::from_bits(now as u32);
            // Half a byte is added, because the machine reports whole bytes, rounded down.
            let (mut q, mut r) = oracle.pass(now, (before.0 + 0.5, before.1));
            let flow = random.within(1..=12);
            let bytes = random.within(64..=9_216);
            let is_overdue = has_feedback && oracle.is_overdue(now);
            overdue += u32::from(is_overdue);
            let mut allowed = vec![0.0];
            let mut sent = false;
            match random.within(0..=19) {
                0 => machine.wake(&p, stamp),
                1 => {
                    machine.notified(&p, stamp, key(flow));
                    oracle.marks(flow);
                }
                2 => {
                    // An overtaken or repeated message, or a new one after some were lost.
                    let is_old = has_feedback && !is_overdue && random.within(0..=2) == 0;
                    let by = random.within(0..=32_766) >> random.within(0..=14);
                    let number = if is_old { seq.wrapping_sub(by as u16) } else { seq.wrapping_add(1 + by as u16) };
                    let rate = Rate::from_mbps(random.within(10_000..=60_000) * random.within(0..=2));
                    machine.on_rate(&p, stamp, &Feedback { rate, seq: number, ..template });
                    if !is_old {
                        (seq, has_feedback) = (number, true);
                        r = (f64::from(rate.to_bits()) / 2_f64.powi(24)).min(oracle.limits.line);
                        oracle.on_message();
                    }
                }
                kind => {
                    let (ecn, data) = (Ecn::from_bits(random.within(0..=3) as u8), kind > 4);
                    let of = data.then(|| key(flow));
                    machine.enqueue(&p, stamp, Bytes::new(bytes));
                    let (left, due) = machine.departure(&p, stamp, of, Bytes::new(bytes), ecn);
                    // With preamble, check sequence and gap.
                    q += f64::from(bytes + 24);
                    // CE of a data packet is removed: this switch sends the CNP.
                    let leaves = if data && ecn == Ecn::Ce { Ecn::Ect0 } else { ecn };
                    assert_eq!(left, leaves);
                    sent = due;
                    notified += u32::from(due);
                    if data {
                        allowed = match oracle.data(flow, bytes.into(), ecn == Ecn::Ce) {
                            Some(due) => vec![f64::from(u8::from(due))],
                            None => vec![0.0, 1.0],
                        };
                        if allowed != [0.0] {
                            oracle.notified(flow, sent);
                        }
                    }
                }
            }
            let after = shown(&machine);
            let outcome =
                [("q*", after.0, 1.0), ("R", after.1, 2_f64.powi(-24)), ("CNP", f64::from(u8::from(sent)), 0.0)];
            let allowed: Vec<_> = allowed.into_iter().map(|cnp| vec![q, r, cnp]).collect();
            tolerance.assert(&(set, event), &outcome, &allowed);
            // q* is exact to 4 bytes; the tolerance above allows a thousandth, which may be whole packets.
            assert!((after.0 - q).abs() <= 4.0 + 1e-6 * q, "{set:?}, event {event}: {after:?} for {q}");
        }
    }
    tolerance.finish(100_000);
    assert!(notified > 3_000 && overdue > 1_000, "{notified}, {overdue}");
}
