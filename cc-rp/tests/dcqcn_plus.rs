//! DCQCN+ compared with its equations in double precision: one event at a time from the machine's own state, and over runs.

#[allow(unreachable_pub, reason = "a module that several tests share")]
mod branch_ambiguity;
#[allow(unreachable_pub, reason = "a module that several tests share")]
mod tolerance;

use cc_core::{Bytes, CnpBody, CnpBodyKind, CnpKind, Instant, Link, Nanos, Rate, Stamp};
use cc_rp::dcqcn_plus::{DcqcnPlus, DcqcnPlusSettings, PAPER, Params, STABLE};
use cc_rp::{Cx, Event, ReactionPoint};
use oracle::{Constants, Flow, Happening};
use tolerance::{SplitMix, Tolerance};

/// Equations 12 to 23 of "DCQCN+" (ICNP 2018), section IV-B3. Rates in Mb/s, times in nanoseconds that do not pass while
/// the flow is paused.
mod oracle {
    use super::branch_ambiguity::Branches;

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Constants {
        pub(super) line: f64,
        /// K and K_alpha, which are equal, for a tau of up to 50 us: 110 us in `stable`, 55 us in `paper`.
        pub(super) short: f64,
        /// The periods are set at notifications only, and only for a longer tau.
        pub(super) literal: bool,
        pub(super) fades_in_pauses: bool,
    }

    const G: f64 = 1.0 / 256.0;
    const F: u32 = 5;
    /// Bits of a packet of 1,000 bytes, in thousandths, so that over Mb/s they are nanoseconds.
    const M: f64 = 8_000_000.0;
    const LAMBDA: f64 = 2.0;
    const LAMBDA_ALPHA: f64 = 1.0;

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Flow {
        pub(super) limited: bool,
        pub(super) r_c: f64,
        pub(super) r_t: f64,
        pub(super) alpha: f64,
        pub(super) s: u32,
        /// Tau; where periods are set at notifications only, max (tau, M / R_C) at the last.
        pub(super) tau: f64,
        pub(super) timer: f64,
        pub(super) alpha_timer: f64,
        /// Pauses since the last notification.
        pub(super) paused: f64,
        /// How much lower R_C and R_T may be since the last event because the machine rounds down.
        pub(super) lost: [f64; 2],
    }

    #[derive(Clone, Copy, Debug)]
    pub(super) enum Happening {
        Nothing,
        /// With a tau, if it is more than zero.
        Notification(f64),
    }

    impl Flow {
        pub(super) fn new(c: &Constants) -> Self {
            let (s, tau, timer, alpha_timer, paused, lost) = (0, 0.0, 0.0, 0.0, 0.0, [0.0; 2]);
            Self { limited: false, r_c: c.line, r_t: c.line, alpha: 1.0, s, tau, timer, alpha_timer, paused, lost }
        }

        fn length(&self, c: &Constants, lambda: f64) -> f64 {
            match (self.tau > 50_000.0, c.literal) {
                (true, true) => lambda * self.tau,
                (true, false) => lambda * self.tau.max(M / self.r_c), // (16), (17)
                (false, _) => c.short,
            }
            .min(1e9)
        }

        /// `band` is how far a timer may be off after the time since the last event.
        pub(super) fn happen(&mut self, c: &Constants, now: f64, what: Happening, band: f64, branches: &mut Branches) {
            while self.limited && !branches.exceeds(self.timer, now, band) {
                // If both timers expire together, alpha is updated first; each time may be off by its last bits.
                let tie = 2.0 + 1e-5 * self.length(c, LAMBDA_ALPHA);
                self.fade(c, |alpha_timer, timer| alpha_timer <= timer + tie);
                self.increase(c, branches);
                self.timer += self.length(c, LAMBDA);
            }
            if self.limited {
                self.fade(c, |alpha_timer, _| !branches.exceeds(alpha_timer, now, band));
            }
            if let Happening::Notification(tau) = what {
                self.notify(c, now, tau, branches);
            }
        }

        fn fade(&mut self, c: &Constants, mut is_due: impl FnMut(f64, f64) -> bool) {
            while is_due(self.alpha_timer, self.timer) {
                self.alpha *= 1.0 - G; // (23)
                self.alpha_timer += self.length(c, LAMBDA_ALPHA);
            }
        }

        fn increase(&mut self, c: &Constants, branches: &mut Branches) {
            self.s += 1;
            let mut grown = 0.0;
            if self.s > 4 * F {
                let bound = f64::from(self.s - 4 * F) / 100.0 * c.line;
                self.r_t += self.r_c.min(bound); // (21)
                grown = 1.0;
            } else if self.s >= F {
                let is_large = branches.exceeds(self.alpha, 0.1, 1e-6);
                let (share, bound) = if is_large { (5.0, 50.0) } else { (10.0, 100.0) };
                self.r_t += (self.r_c / share).min(c.line / bound); // (19)
                grown = 1.0 / share;
            }
            self.r_t = self.r_t.min(c.line);
            self.r_c = f64::midpoint(self.r_t, self.r_c); // (18), (20), (22)
            let [r_c, r_t] = self.lost;
            let r_t = if self.r_t < c.line { r_t + grown * r_c + super::BIT } else { 0.0 };
            self.lost = [f64::midpoint(r_t, r_c) + super::BIT, r_t];
            let gap = self.r_t - self.r_c;
            if gap < 2.0 * super::BIT {
                self.r_c = self.r_t;
            }
            // Rounding may decide whether the flow is at the line rate or still a few bits below it.
            self.limited = self.r_t < c.line || branches.exceeds(gap, 2.0 * super::BIT, 2.0 * super::BIT);
        }

        fn notify(&mut self, c: &Constants, now: f64, tau: f64, branches: &mut Branches) {
            if !self.limited {
                (self.limited, self.r_c, self.r_t, self.alpha, self.tau) = (true, c.line, c.line, 1.0, 0.0);
            } else if c.fades_in_pauses && self.paused > 0.0 {
                let periods = self.paused.min(1.5e9) / self.length(c, LAMBDA_ALPHA);
                let whole = periods.round();
                let extra = branches.exceeds(periods, whole, 1e-5 * periods.max(0.01));
                let periods = if extra { whole } else { whole - 1.0 };
                self.alpha *= (1.0 - G).powf(periods.max(0.0));
            }
            self.paused = 0.0;
            if tau > 0.0 {
                self.tau = tau.min(1e9);
            }
            self.r_t = self.r_c; // (12)
            self.r_c *= 1.0 - self.alpha / 2.0; // (13)
            self.alpha = (1.0 - G) * self.alpha + G; // (14)
            self.r_c = self.r_c.max(c.line / 10_000.0); // (15)
            self.s = 0;
            if c.literal && self.tau > 50_000.0 {
                self.tau = self.tau.max(M / self.r_c);
            }
            self.timer = now + self.length(c, LAMBDA);
            self.alpha_timer = now + self.length(c, LAMBDA_ALPHA);
        }
    }
}

/// The last bit of a rate, in Mb/s, and of alpha.
const BIT: f64 = 1_000.0 / (1 << 21) as f64;
const ALPHA_BIT: f64 = 1.0 / (1u32 << 31) as f64;

fn mbps(rate: Rate) -> f64 {
    f64::from(rate.to_bits()) * BIT
}

/// Every preset and switch, on two ports.
fn variants() -> Vec<(Link, Params, Constants)> {
    let link = |gbps| Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(1_024), base_rtt: Nanos::new(8_000) };
    let mut variants = Vec::new();
    let odd = DcqcnPlusSettings { timers: 0, alpha_in_pause: 1, ..PAPER };
    for (gbps, settings, short, literal, fades_in_pauses) in [
        (10, STABLE, 110_000.0, false, true),
        (40, STABLE, 110_000.0, false, true),
        (10, PAPER, 55_000.0, true, true),
        (10, odd, 55_000.0, false, false),
    ] {
        let params = DcqcnPlus::check(&settings, &link(gbps)).unwrap();
        let constants = Constants { line: f64::from(gbps) * 1_000.0, short, literal, fades_in_pauses };
        variants.push((link(gbps), params, constants));
    }
    variants
}

/// Two clocks; the second stands still during pauses.
#[derive(Clone, Copy)]
struct Clock {
    now: u64,
    clock_without_pauses: u64,
}

impl Clock {
    fn cx<'a>(&self, link: &'a Link, params: &'a Params) -> Cx<'a, Params> {
        let clock_without_pauses = Instant::from_nanos(self.clock_without_pauses).stamp();
        Cx { now: Instant::from_nanos(self.now), link, params, pause: Nanos::ZERO, clock_without_pauses }
    }

    /// The time of a stamp, not before now, on the clock that stands still during pauses.
    fn ahead(&self, stamp: Stamp) -> f64 {
        self.clock_without_pauses as f64
            + f64::from(stamp.since(Instant::from_nanos(self.clock_without_pauses).stamp()).get())
    }
}

fn event(what: Happening, nth: u32) -> Event<'static> {
    match what {
        Happening::Nothing => Event::Wake,
        Happening::Notification(0.0) => Event::Cnp { body_kind: CnpBodyKind::Standard },
        Happening::Notification(tau) => {
            let period = Nanos::new(tau as u32);
            let body = CnpBody { kind: CnpKind::Period, seq: nth as u16, period, ..CnpBody::default() };
            Event::Cnp { body_kind: CnpBodyKind::Extended(body) }
        }
    }
}

/// From 1 to 2^`bits` - 1, each magnitude as likely as any other.
fn magnitude(random: &mut SplitMix, bits: u32) -> u64 {
    let bits = random.within(1..=bits);
    1 + random.draw() % (1 << bits)
}

fn outcome(machine: &DcqcnPlus, decision: Rate, lost: [f64; 2]) -> [(&'static str, f64, f64); 4] {
    let (limited, rate) = (machine.is_limited(), mbps(decision));
    let (target, alpha) = if limited { (mbps(machine.target()), machine.alpha().to_bits()) } else { (rate, 0) };
    let alpha = f64::from(alpha) * ALPHA_BIT;
    [
        ("rate", rate, BIT + lost[0] / 4.0),
        ("target", target, BIT + lost[1] / 4.0),
        ("alpha", alpha, ALPHA_BIT),
        ("limited", f64::from(u8::from(limited)), 0.0),
    ]
}

fn values(c: &Constants, flow: &Flow) -> Vec<f64> {
    if flow.limited { vec![flow.r_c, flow.r_t, flow.alpha, 1.0] } else { vec![c.line, c.line, 0.0, 0.0] }
}

#[test]
fn every_step_agrees_with_the_equations() {
    for (seed, (link, params, c)) in (1..).zip(variants()) {
        let mut tolerance = Tolerance::default();
        let mut random = SplitMix::new(seed);
        let mut clock = Clock { now: 1 << 40, clock_without_pauses: 1 << 39 };
        let mut machine = DcqcnPlus::open(&clock.cx(&link, &params));
        let mut flow = Flow::new(&c);
        let mut scale = 17;
        for nth in 0..40_000 {
            if random.within(0..=60) == 0 {
                scale = random.within(12..=24);
            }
            // The equations start from the machine's own numbers.
            flow.limited = machine.is_limited();
            (flow.r_c, flow.r_t, flow.s) = (mbps(machine.current()), mbps(machine.target()), machine.stage().into());
            flow.alpha = f64::from(machine.alpha().to_bits()) * ALPHA_BIT;
            let (timer, alpha_timer) = machine.deadlines();
            (flow.timer, flow.alpha_timer, flow.lost) = (clock.ahead(timer), clock.ahead(alpha_timer), [0.0; 2]);

            let bits = if random.within(0..=300) == 0 { 29 } else { scale };
            let gap = magnitude(&mut random, bits);
            let pause = if random.within(0..=3) == 0 { magnitude(&mut random, scale) } else { 0 };
            clock.now += gap + pause;
            clock.clock_without_pauses += gap;
            flow.paused += pause as f64;
            let what = match random.within(0..=5) {
                0 => Happening::Notification(0.0),
                1 => Happening::Notification(magnitude(&mut random, scale) as f64),
                2 => Happening::Notification(f64::from(random.within(40_000..=200_000))),
                _ => Happening::Nothing,
            };
            let before = flow;
            let decision = machine.on(&clock.cx(&link, &params), &event(what, nth));
            let band = 2.0 + 5e-6 * gap as f64;
            let flows = branch_ambiguity::outcomes(|branches| {
                flow = before;
                flow.happen(&c, clock.clock_without_pauses as f64, what, band, branches);
                flow
            });
            let allowed: Vec<_> = flows.iter().map(|flow| values(&c, flow)).collect();
            tolerance.assert(&(nth, clock.now, what, before), &outcome(&machine, decision.rate, flow.lost), &allowed);
            // Of the doubtful outcomes, the one that the machine chose is used from here on.
            let alpha = f64::from(machine.alpha().to_bits()) * ALPHA_BIT;
            let distance =
                |flow: &Flow| (flow.alpha - alpha).abs() + (flow.r_c - mbps(machine.current())).abs() / c.line;
            flow = flows.into_iter().min_by(|one, other| distance(one).total_cmp(&distance(other))).unwrap();
        }
        tolerance.finish(40_000);
    }
}

#[test]
fn runs_agree_with_the_equations() {
    for (link, params, c) in variants() {
        let mut tolerance = Tolerance::default();
        let mut clock = Clock { now: 0, clock_without_pauses: 0 };
        let mut machine = DcqcnPlus::open(&clock.cx(&link, &params));
        let mut flow = Flow::new(&c);
        // An incast of 540 flows: for a while each flow is notified once in a round, then no more. Compared every 400 us.
        for nth in 0..20_000u32 {
            clock.now += 400_001;
            clock.clock_without_pauses += 400_001;
            let congested = nth % 4_000 < 70 && nth.is_multiple_of(7);
            let what = if congested { Happening::Notification(540_000.0) } else { Happening::Nothing };
            let decision = machine.on(&clock.cx(&link, &params), &event(what, nth));
            let before = flow;
            let flows = branch_ambiguity::outcomes(|branches| {
                flow = before;
                flow.happen(&c, clock.clock_without_pauses as f64, what, 0.0, branches);
                flow
            });
            flow = *flows.first().unwrap();
            let mut allowed = vec![values(&c, &flow)];
            if machine.is_limited() != flow.limited && c.line - flow.r_c < 100.0 * BIT {
                let [.., (_, alpha, _), (_, limited, _)] = outcome(&machine, decision.rate, [0.0; 2]);
                allowed.push(vec![c.line, c.line, alpha, limited]);
            }
            tolerance.assert(&(nth, what), &outcome(&machine, decision.rate, flow.lost), &allowed);
        }
        tolerance.finish(20_000);
    }
}
