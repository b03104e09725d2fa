//! DCQCN against its equations in double precision: one event at a time from the machine's own rates, and over runs.

#[allow(unreachable_pub, reason = "a module of every test that wants it")]
mod agreement;

use agreement::{Agreement, Dice};
use cc_core::{Bytes, CnpBody, CnpHint, CnpKind, Instant, Nanos, Port, Psn, Rate};
use cc_rp::dcqcn::{CX4, Dcqcn, DcqcnSettings, HPCC_SIM, NS3_RDMA, PAPER, Params, VENDOR};
use cc_rp::{Cx, Event, ReactionPoint};
use oracle::{Alpha, Constants, Flow, Happening};

const PORT: Port = Port { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_024), base_rtt: Nanos::new(8_000) };

/// Equations 1 to 10 of DCQCN in section II-B of "DCQCN+" (ICNP 2018), and what the firmware and two simulators make of
/// them. Every tick and every expiry happens by itself, at its time. Rates in Mb/s, times in nanoseconds.
mod oracle {
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Constants {
        pub(super) line: f64,
        pub(super) floor: f64,
        pub(super) g: f64,
        pub(super) alpha_at_first: f64,
        pub(super) alpha_period: u64,
        /// Ten-bit alpha that changes on ticks, and cuts on ticks of this period.
        pub(super) cut_period: Option<u64>,
        pub(super) k: u64,
        pub(super) b: Option<u64>,
        pub(super) fast_rounds: u32,
        pub(super) r_ai: f64,
        pub(super) r_hai: f64,
        pub(super) least_left: f64,
        pub(super) target_follows: bool,
        pub(super) target_follows_after_time: bool,
        pub(super) alpha_before_cut: bool,
        /// One additive step, and then the same hyper step for ever.
        pub(super) hyper_at_once: bool,
        /// The hyper index counts from one where the paper counts from zero, and a far target drops to an eighth.
        pub(super) as_ns3: bool,
        pub(super) stays_limited: bool,
        pub(super) first_raises_alpha: bool,
    }

    /// Alpha as it was last raised, or in 1024ths as it is.
    #[derive(Clone, Copy, Debug)]
    pub(super) enum Alpha {
        Real { value: f64, raised: u64 },
        TenBits { value: u32, next_tick: u64, notified: bool, next_cut: u64, cut: bool },
    }

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Flow {
        pub(super) limited: bool,
        pub(super) r_c: f64,
        pub(super) r_t: f64,
        pub(super) alpha: Alpha,
        pub(super) timer: u64,
        pub(super) bytes: u64,
        pub(super) time_stage: u32,
        pub(super) byte_stage: u32,
        /// Increases since the last event.
        pub(super) rounds: u32,
    }

    #[derive(Clone, Copy, Debug)]
    pub(super) enum Happening {
        Nothing,
        Notification,
        Sent(u64),
    }

    impl Flow {
        pub(super) fn new(c: &Constants) -> Self {
            let alpha = Alpha::Real { value: c.alpha_at_first, raised: 0 };
            let (timer, bytes, time_stage, byte_stage) = (0, 0, 0, 0);
            Self { limited: false, r_c: c.line, r_t: c.line, alpha, timer, bytes, time_stage, byte_stage, rounds: 0 }
        }

        pub(super) fn happen(&mut self, c: &Constants, now: u64, what: Happening) {
            self.rounds = 0;
            while self.limited {
                let due = match self.alpha {
                    Alpha::TenBits { next_tick, next_cut, .. } => self.timer.min(next_tick).min(next_cut),
                    Alpha::Real { .. } => self.timer,
                };
                if due > now {
                    break;
                }
                if due == self.timer {
                    self.timer += c.k;
                    self.time_stage += 1;
                    self.increase(c);
                } else {
                    self.tick(c, due);
                }
            }
            match what {
                Happening::Notification => self.notify(c, now),
                Happening::Sent(bytes) => self.send(c, bytes),
                Happening::Nothing => {}
            }
        }

        fn send(&mut self, c: &Constants, bytes: u64) {
            let Some(b) = c.b.filter(|_| self.limited) else { return };
            self.bytes += bytes;
            while self.limited && self.bytes >= b {
                self.bytes -= b;
                self.byte_stage += 1;
                self.increase(c);
            }
        }

        fn tick(&mut self, c: &Constants, due: u64) {
            let Alpha::TenBits { mut value, mut next_tick, mut notified, mut next_cut, mut cut } = self.alpha else {
                return;
            };
            let mut cuts = false;
            if due == next_tick {
                let gain = (c.g * 1024.0).round() as u32;
                value = value * (1024 - gain) / 1024; // (10)
                if notified {
                    value = (value + gain).min(1023); // (4)
                }
                (next_tick, notified) = (next_tick + c.alpha_period, false);
            } else {
                next_cut += c.cut_period.unwrap_or(u64::MAX);
                (cuts, cut) = (cut, false);
            }
            self.alpha = Alpha::TenBits { value, next_tick, notified, next_cut, cut };
            if cuts {
                self.cut(c, due, f64::from(value) / 1024.0);
            }
        }

        fn notify(&mut self, c: &Constants, now: u64) {
            let first = !self.limited;
            if first {
                (self.limited, self.r_c, self.r_t) = (true, c.line, c.line);
                self.restart(c, now);
                self.alpha = match c.cut_period {
                    None => Alpha::Real { value: c.alpha_at_first, raised: now },
                    Some(period) => Alpha::TenBits {
                        value: (c.alpha_at_first * 1024.0).round() as u32,
                        next_tick: now + c.alpha_period,
                        notified: false,
                        // Later by the smallest bit, so that alpha goes first.
                        next_cut: now + period + 1,
                        cut: false,
                    },
                };
            }
            match &mut self.alpha {
                Alpha::TenBits { notified, cut, .. } => {
                    *notified |= !first || c.first_raises_alpha;
                    *cut = true;
                }
                Alpha::Real { value, raised } => {
                    let quiet = ((now - *raised) / c.alpha_period) as i32;
                    let faded = *value * (1.0 - c.g).powi(quiet); // (10)
                    (*value, *raised) = ((1.0 - c.g) * faded + c.g, now); // (4)
                    let alpha = if c.alpha_before_cut { *value } else { faded };
                    self.cut(c, now, alpha);
                }
            }
        }

        fn cut(&mut self, c: &Constants, now: u64, alpha: f64) {
            let moved = self.byte_stage > 0 || (c.target_follows_after_time && self.time_stage > 0);
            if c.target_follows || moved {
                self.r_t = self.r_c; // (1)
            }
            let left = (1.0 - alpha / 2.0).max(c.least_left);
            self.r_c = (self.r_c * left).max(c.floor); // (2), (3)
            self.restart(c, now);
        }

        fn restart(&mut self, c: &Constants, now: u64) {
            (self.time_stage, self.byte_stage, self.bytes, self.timer) = (0, 0, 0, now + c.k);
        }

        fn increase(&mut self, c: &Constants) {
            self.rounds += 1;
            let (time, bytes) = (self.time_stage.min(63), self.byte_stage.min(63));
            let (most, least) = (time.max(bytes), time.min(bytes));
            let first = time == 1 || bytes == 1;
            if c.as_ns3 && first && self.r_t > 10.0 * self.r_c {
                self.r_t /= 8.0;
            } else if most <= c.fast_rounds {
                // (5): R_T stays.
            } else if c.hyper_at_once {
                self.r_t += if most == c.fast_rounds + 1 { c.r_ai } else { c.r_hai };
            } else if least > c.fast_rounds {
                self.r_t += f64::from(least - c.fast_rounds) * c.r_hai; // (8)
            } else {
                self.r_t += c.r_ai; // (6)
            }
            self.r_t = self.r_t.min(c.line);
            self.r_c = f64::midpoint(self.r_t, self.r_c); // (5), (7), (9)
            if self.r_t - self.r_c < 2.0 * super::BIT {
                self.r_c = self.r_t;
            }
            let waits = matches!(self.alpha, Alpha::TenBits { cut: true, .. });
            self.limited = c.stays_limited || waits || self.r_c < c.line;
        }
    }
}

/// The last bit of a rate, in Mb/s.
const BIT: f64 = 1_000.0 / (1 << 21) as f64;

fn mbps(rate: Rate) -> f64 {
    f64::from(rate.to_bits()) * BIT
}

/// What each preset stands for, written down again.
fn presets() -> [(&'static str, DcqcnSettings, Constants); 5] {
    let paper = Constants {
        line: 100_000.0,
        floor: 100.0,
        g: 1.0 / 256.0,
        alpha_at_first: 1.0,
        alpha_period: 55_000,
        cut_period: None,
        k: 55_000,
        b: Some(10_000_000),
        fast_rounds: 5,
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
    };
    let vendor = Constants {
        floor: 1.0,
        g: 5.0 / 1024.0,
        alpha_at_first: 1023.0 / 1024.0,
        alpha_period: 1_000,
        cut_period: Some(4_000),
        k: 300_000,
        b: Some(32_767 * 64),
        fast_rounds: 1,
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
    ]
}

fn at(now: u64, params: &Params) -> Cx<'_, Params> {
    let now = Instant::from_nanos(now);
    Cx { now, port: &PORT, params, pause: Nanos::ZERO, unpaused: now.stamp() }
}

fn event(happening: Happening, nth: u32) -> Event<'static> {
    let body = CnpBody { kind: CnpKind::Standard, seq: nth as u16, ..CnpBody::default() };
    match happening {
        Happening::Nothing => Event::Wake,
        Happening::Notification if nth.is_multiple_of(2) => Event::Cnp { hint: CnpHint::Plain },
        Happening::Notification => Event::Cnp { hint: CnpHint::Body(body) },
        Happening::Sent(bytes) => Event::Sent { psn: Psn::new(nth), bytes: Bytes::new(bytes as u32) },
    }
}

/// From 1 to 2^`bits` - 1, each magnitude as likely as any other.
fn magnitude(dice: &mut Dice, bits: u32) -> u64 {
    let bits = dice.within(1..=bits);
    1 + dice.draw() % (1 << bits)
}

fn happening(dice: &mut Dice, chatty: bool) -> Happening {
    match dice.within(0..=9) {
        0..3 if chatty => Happening::Notification,
        0 => Happening::Notification,
        3..8 => Happening::Sent(magnitude(dice, 22)),
        8 => Happening::Sent(magnitude(dice, 26)),
        _ => Happening::Nothing,
    }
}

/// The machine's rate, target and whether it is limited.
fn outcome(machine: &Dcqcn, decision: Rate) -> [(&'static str, f64, f64); 3] {
    let limited = f64::from(u8::from(machine.is_limited()));
    // An unlimited flow has no target.
    let target = if machine.is_limited() { mbps(machine.target()) } else { mbps(decision) };
    [("rate", mbps(decision), BIT), ("target", target, BIT), ("limited", limited, 0.0)]
}

fn values(c: &Constants, flow: &Flow) -> Vec<f64> {
    if flow.limited { vec![flow.r_c, flow.r_t, 1.0] } else { vec![c.line, c.line, 0.0] }
}

#[test]
fn every_step_agrees_with_the_equations() {
    for (seed, (name, settings, c)) in (1..).zip(presets()) {
        let params = Dcqcn::check(&settings, &PORT).unwrap();
        let mut agreement = Agreement::default();
        let mut dice = Dice::new(seed);
        let mut now = 1_000_000_000;
        let mut machine = Dcqcn::open(&at(now, &params));
        let mut flow = Flow::new(&c);
        let mut chatty = true;
        for nth in 0..60_000 {
            if dice.within(0..=50) == 0 {
                chatty = !chatty;
            }
            now += if dice.within(0..=400) == 0 { magnitude(&mut dice, 29) } else { magnitude(&mut dice, 16) };
            let what = happening(&mut dice, chatty);
            // The equations go on from the machine's own numbers.
            if machine.is_limited() {
                (flow.r_c, flow.r_t) = (mbps(machine.current()), mbps(machine.target()));
            }
            if let Alpha::Real { value, .. } = &mut flow.alpha {
                *value = f64::from(machine.alpha(&params).to_bits()) / f64::from(1u32 << 31);
            }
            let decision = machine.on(&at(now, &params), &event(what, nth));
            flow.happen(&c, now, what);
            let mut allowed = vec![values(&c, &flow)];
            // Whether a flow is at the line already, or a few bits below it still.
            let below = c.line - flow.r_c;
            let doubtful = 4.0 * BIT + f64::from(flow.rounds) * BIT;
            if !c.stays_limited && flow.limited && below < doubtful {
                allowed.push(vec![c.line, c.line, 0.0]);
            } else if !c.stays_limited && !flow.limited && flow.rounds > 0 && machine.is_limited() {
                allowed.push(vec![flow.r_c, flow.r_t, 1.0]);
            }
            agreement.assert(&(name, nth, now, what), &outcome(&machine, decision.rate), &allowed);
            flow.limited = machine.is_limited();
            if flow.limited && flow.timer <= now {
                let expiries = (now - flow.timer) / c.k + 1;
                (flow.timer, flow.time_stage) = (flow.timer + expiries * c.k, flow.time_stage + expiries as u32);
            }
        }
        agreement.finish(60_000);
    }
}

#[test]
fn runs_agree_with_the_equations() {
    for (name, settings, c) in presets() {
        let params = Dcqcn::check(&settings, &PORT).unwrap();
        let mut agreement = Agreement::default();
        let mut machine = Dcqcn::open(&at(0, &params));
        let mut flow = Flow::new(&c);
        // Three bouts of congestion, notified every 50 us, and quiet after each; a packet every microsecond.
        for nth in 0..60_000u32 {
            let now = 1_000 * u64::from(nth);
            let congested = nth % 20_000 < 1_500 && nth.is_multiple_of(50);
            let what = if congested { Happening::Notification } else { Happening::Sent(4_000) };
            let decision = machine.on(&at(now, &params), &event(what, nth));
            flow.happen(&c, now, what);
            let mut allowed = vec![values(&c, &flow)];
            if machine.is_limited() != flow.limited && c.line - flow.r_c < 20.0 * BIT {
                allowed.push(vec![c.line, c.line, f64::from(u8::from(machine.is_limited()))]);
            }
            agreement.assert(&(name, nth), &outcome(&machine, decision.rate), &allowed);
        }
        agreement.finish(60_000);
    }
}

#[test]
fn closed_forms_of_the_paper_hold_for_the_machine() {
    let params = Dcqcn::check(&PAPER, &PORT).unwrap();
    for notifications in [1u32, 7, 60] {
        let mut machine = Dcqcn::open(&at(0, &params));
        for nth in 0..notifications {
            machine.on(&at(u64::from(nth) * 1_000, &params), &event(Happening::Notification, 0));
        }
        // Alpha starts at one, and so it stays; R_C is halved each time, down to the floor.
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
