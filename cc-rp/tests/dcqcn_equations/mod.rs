//! Equations 1 to 10 of DCQCN in section II-B of "DCQCN+" (ICNP 2018), with the variants of the firmware and of two simulators,
//! in double precision. Every tick and every expiry is applied by itself, at its time. Rates in Mb/s, times in nanoseconds.
//!
//! At the end, functions that compare a machine with them.

use super::tolerance::{SplitMix, Tolerance};
use cc_core::Rate;
use cc_rp::dcqcn::{Dcqcn, Params};

/// The last bit of a rate, in Mb/s.
pub const BIT: f64 = 1_000.0 / (1 << 21) as f64;

pub fn mbps(rate: Rate) -> f64 {
    f64::from(rate.to_bits()) * BIT
}

#[derive(Clone, Copy, Debug)]
pub struct Constants {
    pub line: f64,
    pub floor: f64,
    pub g: f64,
    pub alpha_at_first: f64,
    pub alpha_period: u64,
    /// If set, alpha changes on ticks, and cuts happen on ticks of this period.
    pub cut_period: Option<u64>,
    /// An alpha that changes on ticks is an integer of ten bits; otherwise it is a float.
    pub ten_bits: bool,
    pub k: u64,
    pub b: Option<u64>,
    pub fast_rounds: u32,
    /// Hyper increase begins when both clocks have more expiries than this.
    pub hyper_after: u32,
    pub r_ai: f64,
    pub r_hai: f64,
    pub least_left: f64,
    pub target_follows: bool,
    pub target_follows_after_time: bool,
    pub alpha_before_cut: bool,
    /// One additive step, and then a constant hyper step.
    pub hyper_at_once: bool,
    /// A target of more than ten times the rate drops to an eighth at a clock's first increase.
    pub as_ns3: bool,
    pub stays_limited: bool,
    pub first_raises_alpha: bool,
    pub undetermined_raises_alpha: bool,
}

/// A restarted alpha as it was last raised, or a sampled alpha as it is.
#[derive(Clone, Copy, Debug)]
pub enum Alpha {
    Real { value: f64, raised: u64 },
    Sampled { value: f64, next_tick: u64, notified: bool, next_cut: u64, cut: bool },
}

#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub limited: bool,
    pub r_c: f64,
    pub r_t: f64,
    pub alpha: Alpha,
    pub timer: u64,
    pub bytes: u64,
    pub time_stage: u32,
    pub byte_stage: u32,
    /// Increases since the last event.
    pub rounds: u32,
}

#[derive(Clone, Copy, Debug)]
pub enum Happening {
    Nothing,
    Notification,
    /// TCD's notification of marks that mean pauses, not congestion.
    Undetermined,
    Sent(u64),
}

impl Flow {
    pub fn new(c: &Constants) -> Self {
        let alpha = Alpha::Real { value: c.alpha_at_first, raised: 0 };
        let (timer, bytes, time_stage, byte_stage) = (0, 0, 0, 0);
        Self { limited: false, r_c: c.line, r_t: c.line, alpha, timer, bytes, time_stage, byte_stage, rounds: 0 }
    }

    pub fn happen(&mut self, c: &Constants, now: u64, what: Happening) {
        self.rounds = 0;
        while self.limited {
            let due = match self.alpha {
                Alpha::Sampled { next_tick, next_cut, .. } => self.timer.min(next_tick).min(next_cut),
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
            Happening::Undetermined if self.limited => self.restart_increase(c, now),
            Happening::Sent(bytes) => self.send(c, bytes),
            Happening::Undetermined | Happening::Nothing => {}
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
        let Alpha::Sampled { mut value, mut next_tick, mut notified, mut next_cut, mut cut } = self.alpha else {
            return;
        };
        let mut cuts = false;
        if due == next_tick {
            value *= 1.0 - c.g; // (10)
            if c.ten_bits {
                value = (value * 1024.0).floor() / 1024.0;
            }
            if notified {
                value = (value + c.g).min(if c.ten_bits { 1023.0 / 1024.0 } else { 1.0 }); // (4)
            }
            (next_tick, notified) = (next_tick + c.alpha_period, false);
        } else {
            next_cut += c.cut_period.unwrap_or(u64::MAX);
            (cuts, cut) = (cut, false);
        }
        self.alpha = Alpha::Sampled { value, next_tick, notified, next_cut, cut };
        if cuts {
            self.cut(c, due, value);
        }
    }

    fn notify(&mut self, c: &Constants, now: u64) {
        let first = !self.limited;
        if first {
            (self.limited, self.r_c, self.r_t) = (true, c.line, c.line);
            self.restart(c, now);
            self.alpha = match c.cut_period {
                None => Alpha::Real { value: c.alpha_at_first, raised: now },
                Some(period) => Alpha::Sampled {
                    value: c.alpha_at_first,
                    next_tick: now + c.alpha_period,
                    notified: false,
                    // One nanosecond later, so that alpha is updated first.
                    next_cut: now + period + 1,
                    cut: false,
                },
            };
        }
        match &mut self.alpha {
            Alpha::Sampled { notified, cut, .. } => {
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

    /// Without a cut, sets R_T = R_C and restarts timer, byte counter, stages and the period of a restarted alpha.
    fn restart_increase(&mut self, c: &Constants, now: u64) {
        match &mut self.alpha {
            Alpha::Sampled { notified, .. } => *notified |= c.undetermined_raises_alpha,
            Alpha::Real { value, raised } => {
                *value *= (1.0 - c.g).powi(((now - *raised) / c.alpha_period) as i32); // (10)
                if c.undetermined_raises_alpha {
                    *value = (1.0 - c.g) * *value + c.g; // (4)
                }
                *raised = now;
            }
        }
        self.r_t = self.r_c;
        self.restart(c, now);
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
        } else if least > c.hyper_after {
            self.r_t += f64::from(least - c.hyper_after) * c.r_hai; // (8)
        } else {
            self.r_t += c.r_ai; // (6)
        }
        self.r_t = self.r_t.min(c.line);
        self.r_c = f64::midpoint(self.r_t, self.r_c); // (5), (7), (9)
        if self.r_t - self.r_c < 2.0 * BIT {
            self.r_c = self.r_t;
        }
        let waits = matches!(self.alpha, Alpha::Sampled { cut: true, .. });
        self.limited = c.stays_limited || waits || self.r_c < c.line;
    }
}

/// From 1 to 2^`bits`, each magnitude as likely as any other.
pub fn magnitude(random: &mut SplitMix, bits: u32) -> u64 {
    let bits = random.within(1..=bits);
    1 + random.draw() % (1 << bits)
}

/// The result of an event: the rate of the machine's decision, and its state.
pub trait Machine: FnMut(u64, Happening, u32) -> (Rate, Dcqcn) {}

impl<F: FnMut(u64, Happening, u32) -> (Rate, Dcqcn)> Machine for F {}

/// The rate, the target and whether the flow is limited.
fn outcome((rate, state): &(Rate, Dcqcn)) -> [(&'static str, f64, f64); 3] {
    // An unlimited flow has no target.
    let target = if state.is_limited() { state.target() } else { *rate };
    let limited = f64::from(u8::from(state.is_limited()));
    [("rate", mbps(*rate), BIT), ("target", mbps(target), BIT), ("limited", limited, 0.0)]
}

fn values(c: &Constants, flow: &Flow) -> Vec<f64> {
    if flow.limited { vec![flow.r_c, flow.r_t, 1.0] } else { vec![c.line, c.line, 0.0] }
}

/// Runs 60 000 events, and compares the machine after each with the equations applied to the machine's own rates and alpha.
/// `draw` returns a random event; with its flag set, notifications are frequent.
pub fn compare_steps(
    name: &str,
    c: &Constants,
    params: &Params,
    seed: u64,
    draw: fn(&mut SplitMix, bool) -> Happening,
    mut machine: impl Machine,
) {
    const EVENTS: u32 = 60_000;
    let mut tolerance = Tolerance::default();
    let mut random = SplitMix::new(seed);
    let mut now = 1_000_000_000;
    let mut state = machine(now, Happening::Nothing, 0).1;
    let mut flow = Flow::new(c);
    let mut congested = true;
    for nth in 1..=EVENTS {
        if random.within(0..=50) == 0 {
            congested = !congested;
        }
        now += if random.within(0..=400) == 0 { magnitude(&mut random, 29) } else { magnitude(&mut random, 16) };
        let what = draw(&mut random, congested);
        if state.is_limited() {
            (flow.r_c, flow.r_t) = (mbps(state.current()), mbps(state.target()));
        }
        if let Alpha::Real { value, .. } = &mut flow.alpha {
            *value = f64::from(state.alpha(params).to_bits()) / f64::from(1u32 << 31);
        }
        let result = machine(now, what, nth);
        state = result.1;
        flow.happen(c, now, what);
        let mut allowed = vec![values(c, &flow)];
        // Rounding may decide whether a flow is at the line rate or still a few bits below it.
        let doubtful = 4.0 * BIT + f64::from(flow.rounds) * BIT;
        if !c.stays_limited && flow.limited && c.line - flow.r_c < doubtful {
            allowed.push(vec![c.line, c.line, 0.0]);
        } else if !c.stays_limited && !flow.limited && flow.rounds > 0 && state.is_limited() {
            allowed.push(vec![flow.r_c, flow.r_t, 1.0]);
        }
        let mut outcome = outcome(&result).to_vec();
        if let Alpha::Real { value, raised } = flow.alpha
            && raised == now
            && state.is_limited()
        {
            // Alpha has just changed. Otherwise both the machine and the equations keep it as it was.
            let alpha_bit = 1.0 / f64::from(1u32 << 31);
            outcome.push(("alpha", f64::from(state.alpha(params).to_bits()) * alpha_bit, alpha_bit));
            allowed.iter_mut().for_each(|values| values.push(value));
        }
        tolerance.assert(&(name, nth, now, what), &outcome, &allowed);
        flow.limited = state.is_limited();
        if flow.limited && flow.timer <= now {
            let expiries = (now - flow.timer) / c.k + 1;
            (flow.timer, flow.time_stage) = (flow.timer + expiries * c.k, flow.time_stage + expiries as u32);
        }
    }
    tolerance.finish(EVENTS.into());
}

/// A run of 60 ms, compared every microsecond with the equations, which run on their own state from the beginning.
pub fn compare_run(name: &str, c: &Constants, happens: fn(u32) -> Happening, mut machine: impl Machine) {
    const EVENTS: u32 = 60_000;
    let mut tolerance = Tolerance::default();
    let mut flow = Flow::new(c);
    for nth in 0..EVENTS {
        let now = 1_000 * u64::from(nth);
        let what = happens(nth);
        let result = machine(now, what, nth);
        flow.happen(c, now, what);
        let mut allowed = vec![values(c, &flow)];
        let limited = result.1.is_limited();
        if limited != flow.limited && c.line - flow.r_c < 20.0 * BIT {
            allowed.push(vec![c.line, c.line, f64::from(u8::from(limited))]);
        }
        tolerance.assert(&(name, nth), &outcome(&result), &allowed);
    }
    tolerance.finish(EVENTS.into());
}
