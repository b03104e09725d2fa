//! ACC, as this project reconstructs it, compared with its rules in double precision: one event at a time from the machine's
//! own rate and deadlines, and over a run.

#[allow(unreachable_pub, reason = "a module that several tests share")]
mod branch_ambiguity;
#[allow(unreachable_pub, reason = "a module that several tests share")]
mod tolerance;

use cc_core::{Bytes, Instant, Link, Mark, Nanos, Psn, Rate, Stamp};
use cc_rp::acc::{Acc, AccSettings, Mode, Params, STABLE};
use cc_rp::{Ack, Cx, Decision, Event, ReactionPoint};
use oracle::{Constants, Flow, Happening, Verdict};
use tolerance::{SplitMix, Tolerance};

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_000), base_rtt: Nanos::new(12_000) };

/// The rules at the head of `acc.rs`. Rates in bytes per nanosecond, times in nanoseconds, packet numbers that do not
/// wrap.
mod oracle {
    use super::branch_ambiguity::Branches;

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Constants {
        pub(super) line: f64,
        pub(super) rtt: f64,
        /// Round trips of a period.
        pub(super) period: f64,
        /// Uncongested periods in a row with the gradual step.
        pub(super) gradual: u32,
        /// Bytes for which a period is long enough.
        pub(super) least: f64,
        /// The excess is only what was sent in the last period and not acknowledged in this one.
        pub(super) literal: bool,
    }

    impl Constants {
        fn floor(&self) -> f64 {
            self.line / 1_000.0
        }

        /// T_p: so many round trips, at least the time of `least` at this rate, at most 8 round trips.
        fn period(&self, rate: f64) -> f64 {
            (self.period * self.rtt).max(self.least / rate).min(8.0 * self.rtt)
        }
    }

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(super) enum Verdict {
        Uncongested,
        Congested,
        Drain,
        Victim,
    }

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Flow {
        pub(super) rate: f64,
        pub(super) period_end: Option<f64>,
        pub(super) halt_until: Option<f64>,
        pub(super) in_flight: f64,
        pub(super) verdict: Verdict,
        in_a_row: u32,
        sent: f64,
        sent_before: f64,
        acked: f64,
        guard: Option<u64>,
        next: u64,
        extensions: u32,
        has_feedback: bool,
        ce: bool,
        ue: bool,
    }

    #[derive(Clone, Copy, Debug)]
    pub(super) enum Happening {
        Nothing,
        /// Packets up to this one, and their bytes.
        Sent(u64, f64),
        /// Packets up to this one, bytes newly acknowledged, CE, UE.
        Acknowledged(u64, f64, bool, bool),
        /// All packets before this one arrived; this one and those after it are lost.
        Refused(u64),
    }

    impl Flow {
        pub(super) fn new(c: &Constants, first: u64) -> Self {
            Self {
                rate: c.line,
                period_end: None,
                halt_until: None,
                in_flight: 0.0,
                verdict: Verdict::Uncongested,
                in_a_row: 0,
                sent: 0.0,
                sent_before: 0.0,
                acked: 0.0,
                guard: None,
                next: first,
                extensions: 0,
                has_feedback: false,
                ce: false,
                ue: false,
            }
        }

        pub(super) fn happen(&mut self, c: &Constants, now: f64, what: Happening, band: f64, branches: &mut Branches) {
            while let Some(end) = self.period_end
                && !branches.exceeds(end, now, band)
            {
                self.period(c, end, branches);
            }
            self.halt_until = self.halt_until.filter(|&until| until > now);
            match what {
                Happening::Nothing => {}
                Happening::Sent(last, bytes) => {
                    if self.period_end.is_none() {
                        self.begin(c, now);
                        self.sent_before = 0.0;
                    }
                    self.in_flight += bytes;
                    if last >= self.next {
                        self.next = last + 1;
                        self.sent += bytes;
                    }
                }
                Happening::Acknowledged(last, bytes, ce, ue) => {
                    self.in_flight = (self.in_flight - bytes).max(0.0);
                    self.acked += bytes;
                    self.pass(c, now, last);
                    self.has_feedback = true;
                    self.ce |= ce && self.guard.is_none();
                    self.ue |= ue && self.guard.is_none();
                    if self.in_flight == 0.0 {
                        self.halt_until = None;
                    }
                }
                Happening::Refused(next) => {
                    self.in_flight = 0.0;
                    if let Some(last) = next.checked_sub(1) {
                        self.pass(c, now, last);
                    }
                }
            }
        }

        fn pass(&mut self, c: &Constants, now: f64, last: u64) {
            if self.guard.is_some_and(|guard| last >= guard) {
                self.guard = None;
                let running = self.period_end.is_some();
                self.begin(c, now);
                if !running {
                    self.period_end = None;
                }
            }
        }

        fn begin(&mut self, c: &Constants, now: f64) {
            (self.sent_before, self.sent, self.acked, self.extensions) = (self.sent, 0.0, 0.0, 0);
            (self.has_feedback, self.ce, self.ue) = (false, false, false);
            self.period_end = Some(now + c.period(self.rate));
        }

        fn period(&mut self, c: &Constants, end: f64, branches: &mut Branches) {
            let length = f64::from(self.extensions + 1) * c.period(self.rate);
            let throttled =
                if self.acked > 0.0 { self.rate.min(self.acked / length).clamp(c.floor(), c.line) } else { self.rate };
            let halts = self.halt_until.is_some_and(|until| branches.exceeds(until, end, 0.5));
            let was = self.verdict;
            if self.ce {
                self.verdict = Verdict::Congested;
                self.rate = throttled;
                let unacknowledged = self.sent_before - self.acked;
                let queued = self.in_flight - self.rate * c.rtt;
                let excess = if c.literal { unacknowledged } else { unacknowledged.max(queued) }.max(0.0);
                let halt = (excess / self.rate).min(64.0 * c.period(self.rate)).min(1e9);
                self.halt_until = Some(end + halt).filter(|_| halt > 0.0);
                self.guard = Some(self.next);
            } else if halts || (self.has_feedback && self.guard.is_some()) {
                self.verdict = Verdict::Drain;
            } else if self.ue {
                self.verdict = Verdict::Victim;
                self.in_a_row = if was == Verdict::Victim { self.in_a_row + 1 } else { 1 };
                if self.in_a_row >= 3 {
                    self.rate = throttled;
                }
            } else if self.has_feedback {
                self.verdict = Verdict::Uncongested;
                self.in_a_row = if was == Verdict::Uncongested { self.in_a_row + 1 } else { 1 };
                let gradual = self.in_a_row <= c.gradual;
                self.rate += if gradual { c.line / 256.0 } else { self.rate.min(c.line / 8.0) };
                self.rate = self.rate.min(c.line);
            } else if self.in_flight == 0.0 {
                self.period_end = None;
                return;
            } else {
                if self.extensions < 15 {
                    self.extensions += 1;
                } else if self.rate > c.floor() * 1.000_01 {
                    self.rate = (self.rate / 2.0).max(c.floor());
                    self.extensions = 0;
                }
                self.period_end = Some(end + c.period(self.rate));
                return;
            }
            if self.verdict == Verdict::Congested {
                self.in_a_row = 0;
            }
            self.begin(c, end);
        }
    }
}

/// The last bit of a rate, in bytes per nanosecond.
const BIT: f64 = 1.0 / (1 << 24) as f64;

fn rate(rate: Rate) -> f64 {
    f64::from(rate.to_bits()) * BIT
}

/// The preset `stable`, and settings with shorter periods and fewer gradual steps.
fn variants() -> [(Params, Constants); 4] {
    let short = AccSettings { period: 150, gradual_periods: 5, ..STABLE };
    let all = [STABLE, short, AccSettings { period_packets: 16, ..short }, AccSettings { acc_literal: 1, ..short }];
    all.map(|settings| {
        let AccSettings { period, period_packets, gradual_periods: gradual, acc_literal, .. } = settings;
        let (period, least) = (f64::from(period) / 100.0, f64::from(period_packets) * 1_000.0);
        let constants = Constants { line: 12.5, rtt: 12_000.0, period, gradual, least, literal: acc_literal == 1 };
        (Acc::check(&settings, &LINK).unwrap(), constants)
    })
}

fn at(now: u64, params: &Params) -> Cx<'_, Params> {
    let now = Instant::from_nanos(now);
    Cx { now, link: &LINK, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
}

fn event(what: Happening) -> Event<'static> {
    let psn = |number: u64| Psn::new(number as u32);
    match what {
        Happening::Nothing => Event::Wake,
        Happening::Sent(last, bytes) => Event::Sent { psn: psn(last), bytes: Bytes::new(bytes as u32) },
        Happening::Acknowledged(last, bytes, ce, ue) => {
            let mark = match (ce, ue) {
                (true, _) => Mark::Congested,
                (_, true) => Mark::Undetermined,
                _ => Mark::None,
            };
            Event::Ack(Ack { psn: psn(last), acked: Bytes::new(bytes as u32), mark, ..Ack::default() })
        }
        Happening::Refused(next) => Event::Nack { psn: psn(next) },
    }
}

/// The packets of a transport: sent in order, most acknowledged, some lost and sent again.
struct Transport {
    random: SplitMix,
    next: u64,
    acked: u64,
    mood: u32,
}

impl Transport {
    fn happening(&mut self) -> Happening {
        if self.random.within(0..=400) == 0 {
            self.mood = self.random.within(0..=4);
        }
        let outstanding = self.next - self.acked;
        match self.random.within(0..=99) {
            0 if outstanding > 0 => {
                self.acked += self.random.draw() % outstanding;
                self.next = self.acked;
                Happening::Refused(self.next)
            }
            1..45 if outstanding > 0 => {
                let packets = 1 + self.random.draw() % outstanding.min(6);
                self.acked += packets;
                let marked = self.random.within(0..=5) == 0;
                let (ce, ue) = (marked && matches!(self.mood, 1 | 4), marked && self.mood >= 2);
                Happening::Acknowledged(self.acked - 1, packets as f64 * 1_000.0, ce, ue)
            }
            45..48 => Happening::Nothing,
            _ => {
                let packets = u64::from(self.random.within(1..=4));
                self.next += packets;
                Happening::Sent(self.next - 1, packets as f64 * 1_000.0)
            }
        }
    }

    /// Mostly the time of a few packets, and rarely up to half a second.
    fn gap(&mut self) -> u64 {
        let bits = if self.random.within(0..=500) == 0 { 29 } else { 12 };
        let bits = self.random.within(6..=bits);
        1 + self.random.draw() % (1 << bits)
    }
}

fn verdict(mode: Mode) -> Verdict {
    match mode {
        Mode::Uncongested => Verdict::Uncongested,
        Mode::Congested => Verdict::Congested,
        Mode::Drain => Verdict::Drain,
        Mode::Victim => Verdict::Victim,
    }
}

/// Rate, halt, time to the end of the period (zero for none), bytes in flight and verdict. The machine may have lost less than
/// a nanosecond in each period since the last event, and a byte of the excess.
fn outcome(machine: &Acc, decision: &Decision, periods: f64) -> [(&'static str, f64, f64); 5] {
    let wake = if decision.wake_in == Nanos::MAX { 0.0 } else { f64::from(decision.wake_in.get()) };
    [
        ("rate", rate(decision.rate), BIT),
        ("hold", decision.hold.get().into(), 1.0 + periods + 0.25 / rate(decision.rate)),
        ("wake", wake, 1.0 + periods),
        ("in flight", machine.in_flight().get().into(), 0.0),
        ("verdict", verdict(machine.mode()) as u32 as f64, 0.0),
    ]
}

fn values(now: u64, flow: &Flow) -> Vec<f64> {
    let until = |time: Option<f64>| time.map_or(0.0, |time| time - now as f64);
    let verdict = flow.verdict as u32 as f64;
    vec![flow.rate, until(flow.halt_until).min(1e9), until(flow.period_end), flow.in_flight, verdict]
}

/// The time of a stamp that is not before `now`.
fn ahead(now: u64, stamp: Stamp) -> f64 {
    now as f64 + f64::from(stamp.since(Instant::from_nanos(now).stamp()).get())
}

#[test]
fn every_step_agrees_with_the_rules() {
    for (seed, (params, c)) in (1..).zip(variants()) {
        let mut tolerance = Tolerance::default();
        let mut now = 1_u64 << 40;
        // The sequence numbers wrap after 5 000 packets.
        let first = (1 << 24) - 5_000;
        let mut transport = Transport { random: SplitMix::new(seed), next: first, acked: first, mood: 0 };
        let mut machine = Acc::open(&at(now, &params));
        let mut flow = Flow::new(&c, first);
        let mut verdicts = [0_u32; 4];
        for nth in 0..80_000 {
            // The rules start from the machine's own numbers.
            flow.rate = rate(machine.rate());
            flow.period_end = machine.period_end().map(|end| ahead(now, end));
            flow.halt_until = machine.halt_until().map(|until| ahead(now, until));
            let what = transport.happening();
            let gap = transport.gap();
            now += gap;
            let before = flow;
            let decision = machine.on(&at(now, &params), &event(what));
            let periods = gap as f64 / 18_000.0;
            let flows = branch_ambiguity::outcomes(|branches| {
                flow = before;
                flow.happen(&c, now as f64, what, 0.5 + periods, branches);
                flow
            });
            let allowed: Vec<_> = flows.iter().map(|flow| values(now, flow)).collect();
            tolerance.assert(&(nth, now, what, before), &outcome(&machine, &decision, periods), &allowed);
            // Of the doubtful outcomes, the one that the machine chose is used from here on.
            let distance = |flow: &Flow| {
                let wake = flow.period_end.map_or(0.0, |end| end - now as f64);
                let got = machine.period_end().map_or(0.0, |end| ahead(now, end) - now as f64);
                (wake - got).abs() + f64::from(u8::from(flow.verdict != verdict(machine.mode()))) * 1e6
            };
            flow = flows.into_iter().min_by(|one, other| distance(one).total_cmp(&distance(other))).unwrap();
            if let Some(count) = verdicts.get_mut(flow.verdict as usize) {
                *count += 1;
            }
        }
        assert!(verdicts.iter().all(|&count| count > 1_000), "{verdicts:?}");
        tolerance.finish(80_000);
    }
}

#[test]
fn a_run_agrees_with_the_rules() {
    for (params, c) in variants() {
        let mut tolerance = Tolerance::default();
        let mut machine = Acc::open(&at(0, &params));
        let mut flow = Flow::new(&c, 0);
        // A packet every 160 ns, half of the line rate, whatever the machine decides. Each is acknowledged 12.3 us later, and
        // marked in the first eighth of every millisecond.
        for nth in 0..60_000_u64 {
            let now = 160 * nth;
            let mut happenings = vec![Happening::Sent(nth, 1_000.0)];
            if let Some(acked) = nth.checked_sub(77) {
                let (ce, ue) = (now % 1_000_000 < 125_000, now % 3_000_000 > 2_700_000);
                happenings.push(Happening::Acknowledged(acked, 1_000.0, ce, ue));
            }
            for (later, what) in (0..).zip(happenings) {
                let now = now + later;
                let decision = machine.on(&at(now, &params), &event(what));
                let before = flow;
                let flows = branch_ambiguity::outcomes(|branches| {
                    flow = before;
                    flow.happen(&c, now as f64, what, 1e-9, branches);
                    flow
                });
                flow = *flows.first().unwrap();
                let allowed: Vec<_> = flows.iter().map(|flow| values(now, flow)).collect();
                tolerance.assert(&(nth, what), &outcome(&machine, &decision, 50.0), &allowed);
            }
        }
        tolerance.finish(100_000);
    }
}
