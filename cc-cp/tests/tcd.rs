//! Ternary congestion detection compared with its rules, event by event: verdicts, states, the table of its transitions, and
//! maxTon.

#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
mod one_queue;
#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
mod red_rule;
#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/tolerance/mod.rs"]
mod tolerance;

use cc_core::{Bytes, Ecn, Link, Mark, Nanos, Rate};
use cc_cp::tcd::{Phase, Tcd, TcdSettings};
use cc_cp::{QueueStage, Verdict};
use one_queue::OneQueue;
use std::collections::BTreeSet;
use tolerance::{SplitMix, Tolerance};

const LINK: Link = Link { line_rate: Rate::from_gbps(40), mtu: Bytes::new(1_030), base_rtt: Nanos::new(20_000) };

/// The rules of the public simulator (DCQCN-TCD, qbb-net-device.cc), with the numbers of its four states, on a clock that never
/// wraps. A queue is undetermined from its RESUME on; in the simulator, from the first packet after it.
mod oracle {
    use super::red_rule::{Fate, Rule};

    pub(super) struct Queue {
        pub(super) rule: Rule,
        /// Nanoseconds.
        pub(super) max_ton: u64,
        pub(super) mtu: u32,
        /// 0 is not congested, 1 observed, 2 undetermined, 3 congested.
        pub(super) state: u8,
        pub(super) resumed: Option<(u64, u32)>,
        pub(super) observed: (u64, u32),
    }

    /// The outcome for a packet.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(super) enum Verdict {
        Nothing,
        Undetermined,
        Congested,
        Unmarkable,
    }

    impl Queue {
        pub(super) fn resume(&mut self, now: u64, queued: u32) {
            (self.resumed, self.state) = (Some((now, queued)), 2);
        }

        /// Whether the last RESUME was at most maxTon ago.
        pub(super) fn is_on_off(&self, now: u64) -> bool {
            self.resumed.is_some_and(|(at, _)| now - at <= self.max_ton)
        }

        /// Whether the observation has lasted for maxTon.
        pub(super) fn is_over(&self, now: u64) -> bool {
            now - self.observed.0 >= self.max_ton
        }

        pub(super) fn dequeue(&mut self, now: u64, queued: u32, ecn: u8) -> Verdict {
            if self.is_on_off(now) {
                self.state = 2;
                return Verdict::Undetermined;
            }
            match self.state {
                2 if self.resumed.is_some_and(|(_, then)| queued < then) => {
                    (self.observed, self.state) = ((now, queued), 1);
                    Verdict::Nothing
                }
                1 if !self.is_over(now) => {
                    self.state = if queued <= 2 * self.mtu { 0 } else { 1 };
                    Verdict::Nothing
                }
                1 if u64::from(queued) < u64::from(self.observed.1) + 900 => {
                    self.observed = (now, queued);
                    self.state = if queued <= 2 * self.mtu { 0 } else { 1 };
                    Verdict::Nothing
                }
                1 | 2 => self.red(queued, ecn, self.state),
                _ => self.red(queued, ecn, 0),
            }
        }

        fn red(&mut self, queued: u32, ecn: u8, otherwise: u8) -> Verdict {
            let fate = self.rule.judge(queued, ecn);
            self.state = if fate == Fate::Marked { 3 } else { otherwise };
            match fate {
                Fate::Marked => Verdict::Congested,
                Fate::Unmarkable => Verdict::Unmarkable,
                Fate::Unmarked => Verdict::Nothing,
                Fate::NearTheLine => panic!("the random number is too close to the probability: use another seed"),
            }
        }
    }

    /// maxTon in ns, from bytes, Gb/s, ns and eps as a fraction: (Xoff - Xon + tau (1 - eps) C) / (eps C) + tau, with tau =
    /// link delay + 2 MTU / C.
    pub(super) fn max_ton(hysteresis: f64, mtu: f64, gbps: f64, delay: f64, eps: f64) -> f64 {
        let c = gbps / 8.0;
        let tau = delay + 2.0 * mtu / c;
        (hysteresis + tau * (1.0 - eps) * c) / (eps * c) + tau
    }
}

/// Every transition: the state before, the event, the state after it, and for a packet its mark. Time passes before the event,
/// in which OnOff may become Undetermined, and Observing may become Observed.
const TRANSITIONS: &str = "
    Free         pause   Free
    Free         wake    Free
    Free         resume  OnOff
    Free         packet  Free           unmarked
    Free         packet  Congested      congested
    Congested    pause   Congested
    Congested    wake    Congested
    Congested    resume  OnOff
    Congested    packet  Free           unmarked
    Congested    packet  Congested      congested
    OnOff        pause   OnOff
    OnOff        pause   Undetermined
    OnOff        wake    OnOff
    OnOff        wake    Undetermined
    OnOff        resume  OnOff
    OnOff        packet  OnOff          undetermined
    OnOff        packet  Undetermined   unmarked
    OnOff        packet  Observing      unmarked
    OnOff        packet  Congested      congested
    Undetermined pause   Undetermined
    Undetermined wake    Undetermined
    Undetermined resume  OnOff
    Undetermined packet  Undetermined   unmarked
    Undetermined packet  Observing      unmarked
    Undetermined packet  Congested      congested
    Observing    pause   Observing
    Observing    pause   Observed
    Observing    wake    Observing
    Observing    wake    Observed
    Observing    resume  OnOff
    Observing    packet  Observing      unmarked
    Observing    packet  Observed       unmarked
    Observing    packet  Free           unmarked
    Observing    packet  Congested      congested
    Observed     pause   Observed
    Observed     wake    Observed
    Observed     resume  OnOff
    Observed     packet  Observing      unmarked
    Observed     packet  Observed       unmarked
    Observed     packet  Free           unmarked
    Observed     packet  Congested      congested
";

#[test]
fn each_event_has_the_effect_of_the_rules_and_no_transition_is_missing() {
    let mut random = SplitMix::new(3);
    let mut seen = BTreeSet::new();
    for run in 0..120 {
        let kmin = random.within(0..=60_000);
        let settings = TcdSettings {
            kmin,
            kmax: kmin + random.within(0..=60_000),
            pmax: [10_000, 300_000, 1_000_000][run % 3],
            max_ton: random.within(1_000..=200_000),
            ..Tcd::PRESETS[0].values
        };
        let params = Tcd::check(&settings, &LINK).unwrap();
        let (mut now, seed) = (random.draw() >> 2, random.draw());
        let mut machine = OneQueue::<Tcd>::new(params, now, seed);
        let mut oracle = oracle::Queue {
            rule: red_rule::Rule::new(kmin, settings.kmax, settings.pmax, seed),
            max_ton: settings.max_ton.into(),
            mtu: 1_030,
            state: 0,
            resumed: None,
            observed: (now, 0),
        };
        let mut queued = 0;
        for _ in 0..2_000 {
            // Mostly within maxTon, often exactly at its end, and sometimes seconds, with the wakes that are due in them.
            let gap = match random.within(0..=40) {
                0 => random.within(0..=3_000_000_000),
                1..=3 => settings.max_ton - random.within(0..=1),
                4..=6 => settings.max_ton + random.within(0..=1),
                _ => random.within(0..=settings.max_ton / 8),
            };
            for _ in 0..gap / 999_999_999 {
                now += 999_999_999;
                machine.wakes(now);
            }
            now += u64::from(gap % 999_999_999);
            queued = match random.within(0..=11) {
                0 => random.within(0..=2_061),
                1 => 2_060 + random.within(0..=1),
                2 => oracle.observed.1.saturating_add(899 + random.within(0..=1)),
                3 => oracle.resumed.map_or(0, |(_, queued)| queued.saturating_sub(random.within(0..=1))),
                4 => random.within(0..=150_000),
                _ => (queued + random.within(0..=2_000)).saturating_sub(1_000),
            };
            let ecn = if random.within(0..=3) > 0 { 0b10 } else { random.within(0..=3) as u8 };
            let before = machine.state.phase();
            let nothing = (Verdict::PASS, oracle::Verdict::Nothing);
            let (name, (verdict, expected)) = match random.within(0..=40) {
                0..=1 => {
                    machine.pauses(now, 1_000, queued);
                    machine.pauses(now, 0, queued);
                    // A resume of a queue that is not paused is ignored.
                    machine.pauses(now, 0, queued + 1);
                    oracle.resume(now, queued);
                    ("resume", nothing)
                }
                2 => {
                    machine.pauses(now, 1_000, queued);
                    ("pause", nothing)
                }
                3..=4 => {
                    machine.wakes(now);
                    ("wake", nothing)
                }
                _ => {
                    let verdict = machine.departs(now, 1_030, [queued; 2], Ecn::from_bits(ecn));
                    ("packet", (verdict, oracle.dequeue(now, queued, ecn)))
                }
            };
            let not_ect = expected == oracle::Verdict::Unmarkable;
            let (mark, marked) = match expected {
                oracle::Verdict::Undetermined => (Mark::Undetermined, "undetermined"),
                oracle::Verdict::Congested => (Mark::Congested, "congested"),
                _ => (Mark::None, "unmarked"),
            };
            let context = (settings, before, name, queued);
            assert_eq!(verdict, Verdict { mark, not_ect, ..Verdict::PASS }, "{context:?}");
            let phase = match oracle.state {
                0 => Phase::Free,
                1 if oracle.is_over(now) => Phase::Observed,
                1 => Phase::Observing,
                2 if oracle.is_on_off(now) => Phase::OnOff,
                2 => Phase::Undetermined,
                _ => Phase::Congested,
            };
            assert_eq!(machine.state.phase(), phase, "{context:?}");
            let mark = if name == "packet" { marked } else { "" };
            seen.insert(format!("{before:?} {name} {phase:?} {mark}").trim_end().to_owned());
        }
    }
    let listed = TRANSITIONS.trim().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    assert_eq!(seen, listed.collect::<BTreeSet<_>>());
}

/// The time after a RESUME in which packets are marked as undetermined, measured from the verdicts.
fn measured(settings: &TcdSettings, link: &Link) -> u64 {
    let params = Tcd::check(settings, link).unwrap();
    let (mut low, mut high) = (0, 1_000_000_000);
    while high - low > 1 {
        let middle = (low + high) / 2;
        let mut resumed = OneQueue::<Tcd>::new(params, 0, 0);
        resumed.pauses(0, 1_000, 0);
        resumed.pauses(0, 0, 0);
        let undetermined = resumed.departs(middle, 0, [0; 2], Ecn::Ect0).mark == Mark::Undetermined;
        *(if undetermined { &mut low } else { &mut high }) = middle;
    }
    low
}

#[test]
fn max_ton_is_the_setting_or_the_result_of_the_formula() {
    let preset = Tcd::PRESETS[0].values;
    assert_eq!(measured(&preset, &LINK), 97_000);
    let (mut tolerance, mut random) = (Tolerance::default(), SplitMix::new(4));
    for _ in 0..2_000 {
        let (gbps, mtu) = (random.within(1..=800), random.within(256..=9_216));
        let hysteresis = random.within(0..=1_000_000);
        let (link_delay, overload) = (random.within(0..=1_000_000), random.within(10_000..=1_000_000));
        let settings = TcdSettings { max_ton: 0, hysteresis, link_delay, overload, ..preset };
        let link = Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(mtu), ..LINK };
        let eps = f64::from(overload) / 1e6;
        let expected = oracle::max_ton(hysteresis.into(), mtu.into(), gbps.into(), link_delay.into(), eps);
        if expected > 4.9e8 {
            continue;
        }
        let outcome = [("maxTon", measured(&settings, &link) as f64, 1.0 / eps)];
        tolerance.assert(&(settings, gbps, mtu), &outcome, &[vec![expected]]);
    }
    tolerance.finish(1_500);
}
