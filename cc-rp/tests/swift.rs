//! Swift compared with its equations in double precision: one event at a time from the machine's own state, and over runs.

#[allow(unreachable_pub, reason = "a module that several tests share")]
mod tolerance;

use cc_core::{Bytes, Delay, Instant, Link, Nanos, Psn, Rate, Stamp};
use cc_rp::swift::{FALCON, HTSIM, Swift, SwiftSettings};
use cc_rp::{Ack, Cx, Decision, Event, ReactionPoint};
use tolerance::{SplitMix, Tolerance};

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_024), base_rtt: Nanos::new(8_000) };

/// Algorithm 1 of Swift (SIGCOMM 2020) with its scaled target, and Falcon's window for the receiver's buffer. Windows in
/// packets, times in nanoseconds, rates in bytes per nanosecond.
mod oracle {
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Constants {
        pub(super) base: f64,
        pub(super) per_hop: f64,
        pub(super) fs_max: f64,
        pub(super) min_cwnd: f64,
        pub(super) max_cwnd: f64,
        pub(super) keep: f64,
        pub(super) limit: u32,
        pub(super) longest_gap: f64,
        pub(super) level: Option<f64>,
    }

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Flow {
        pub(super) fcwnd: f64,
        pub(super) ncwnd: f64,
        pub(super) srtt: f64,
        /// Time since the fabric window was cut, time since the endpoint window changed, and whether that change was a cut.
        pub(super) since_cut: f64,
        pub(super) since_turn: f64,
        pub(super) shrunk: bool,
        pub(super) timeouts: u32,
    }

    const AI: f64 = 1.0;
    const BETA: f64 = 0.8;
    const MAX_MDF: f64 = 0.5;
    const FS_RANGE: f64 = 100_000.0;
    const FS_MIN: f64 = 0.1;
    const PACKET: f64 = 1_024.0;

    pub(super) fn target(c: &Constants, fcwnd: f64, hops: f64) -> f64 {
        let fs_a = FS_RANGE / (1.0 / FS_MIN.sqrt() - 1.0 / c.fs_max.sqrt());
        let fs_b = -fs_a / c.fs_max.sqrt();
        c.base + hops * c.per_hop + (fs_a / fcwnd.sqrt() + fs_b).clamp(0.0, FS_RANGE)
    }

    fn cut(c: &Constants, flow: &mut Flow, factor: f64) {
        let fcwnd = (flow.fcwnd * factor).max(c.min_cwnd);
        if fcwnd < flow.fcwnd {
            flow.since_cut = 0.0;
        }
        flow.fcwnd = fcwnd;
    }

    /// `below` is whether the delay counts as below the target.
    pub(super) fn acked(
        c: &Constants,
        before: &Flow,
        bytes: f64,
        (rtt, receiver_hold, hops, level): (f64, f64, f64, f64),
        below: bool,
    ) -> Flow {
        let mut flow = Flow { timeouts: 0, ..*before };
        let delay = (rtt - receiver_hold).max(0.0);
        let target = target(c, before.fcwnd, hops);
        if below {
            let packets = bytes / PACKET;
            let gain = if flow.fcwnd >= 1.0 { AI / flow.fcwnd * packets } else { AI * packets };
            flow.fcwnd = (flow.fcwnd + gain).min(c.max_cwnd);
        } else if flow.since_cut >= rtt {
            let factor = (1.0 - BETA * (delay - target).max(0.0) / delay).max(1.0 - MAX_MDF);
            cut(c, &mut flow, factor);
        }
        if let Some(target_level) = c.level {
            let round = flow.since_turn >= rtt;
            if level < target_level && (round || flow.shrunk) && flow.ncwnd < c.max_cwnd {
                flow = Flow { ncwnd: (flow.ncwnd + 1.0).min(c.max_cwnd), since_turn: 0.0, shrunk: false, ..flow };
            } else if level >= target_level && round {
                let factor = (1.0 - 0.8 * (level - target_level) / level).max(0.5);
                let ncwnd = (flow.ncwnd * factor).max(1.0);
                if ncwnd < flow.ncwnd {
                    flow = Flow { since_turn: 0.0, shrunk: true, ..flow };
                }
                flow.ncwnd = ncwnd;
            }
        }
        flow.srtt = c.keep * flow.srtt + (1.0 - c.keep) * rtt;
        flow
    }

    pub(super) fn lost(c: &Constants, before: &Flow) -> Flow {
        let mut flow = *before;
        if flow.since_cut >= flow.srtt {
            cut(c, &mut flow, 1.0 - MAX_MDF);
        }
        flow
    }

    pub(super) fn timed_out(c: &Constants, before: &Flow) -> Flow {
        let flow = Flow { timeouts: (before.timeouts + 1).min(15), ..*before };
        if flow.timeouts >= c.limit {
            return Flow { fcwnd: c.min_cwnd, since_cut: 0.0, ..flow };
        }
        lost(c, &flow)
    }

    /// Bytes in flight, and the rate: one packet each `rtt / cwnd`.
    pub(super) fn pace(c: &Constants, flow: &Flow) -> (f64, f64) {
        let cwnd = flow.fcwnd.min(flow.ncwnd);
        let rate = (cwnd * PACKET / flow.srtt).max(PACKET / c.longest_gap).min(12.5);
        ((cwnd * PACKET).max(PACKET), rate)
    }
}

use oracle::{Constants, Flow};

/// The presets, written down independently.
fn presets() -> [(&'static str, SwiftSettings, Constants); 2] {
    let falcon = Constants {
        base: 25_000.0,
        per_hop: 1_000.0,
        fs_max: 256.0,
        min_cwnd: 0.01,
        max_cwnd: 256.0,
        keep: 0.75,
        limit: 3,
        longest_gap: 65_536.0 * 512.0,
        level: Some(15.0),
    };
    let htsim = Constants {
        base: 20_000.0,
        per_hop: 20_000.0 / 6.55,
        fs_max: 100.0,
        min_cwnd: 10.0 / 1_500.0,
        max_cwnd: 1_000.0,
        keep: 0.875,
        limit: 5,
        longest_gap: 1e9,
        level: None,
    };
    [("falcon", FALCON, falcon), ("htsim", HTSIM, htsim)]
}

const PACKET: f64 = 1_048_576.0;

fn decode(state: &Swift, now: Stamp) -> Flow {
    let (turned, shrunk) = state.last_turn();
    Flow {
        fcwnd: f64::from(state.fabric_window()) / PACKET,
        ncwnd: f64::from(state.endpoint_window()) / PACKET,
        srtt: f64::from(state.smoothed_rtt().get()),
        // Times above a second count as a second.
        since_cut: f64::from(now.since(state.last_cut()).get()).min(1e9),
        since_turn: f64::from(now.since(turned).get()).min(1e9),
        shrunk,
        timeouts: u32::from(state.timeouts()),
    }
}

fn values(flow: &Flow, (window, rate): (f64, f64)) -> Vec<f64> {
    let shrunk = f64::from(u8::from(flow.shrunk));
    vec![
        flow.fcwnd,
        flow.ncwnd,
        flow.srtt,
        flow.since_cut,
        flow.since_turn,
        shrunk,
        f64::from(flow.timeouts),
        window,
        rate,
    ]
}

fn decided(decision: &Decision) -> (f64, f64) {
    (f64::from(decision.window.get()), f64::from(decision.rate.to_bits()) / f64::from(1 << 24))
}

/// The names of [`values`], and the value of the last bit of each.
const OUTCOME: [(&str, f64); 9] = [
    ("fcwnd", 1.0 / PACKET),
    ("ncwnd", 1.0 / PACKET),
    ("srtt", 1.0),
    ("since_cut", 0.0),
    ("since_turn", 0.0),
    ("shrunk", 0.0),
    ("timeouts", 0.0),
    ("window", 1.0),
    ("rate", 1.0 / 16_777_216.0),
];

/// A transport: the sequence numbers of its packets, and random events.
struct Transport {
    next: u32,
}

impl Transport {
    /// A random event, and its meaning for the sender: an acknowledgement, a loss reported by a NACK, a timeout, or nothing.
    fn draw(&mut self, random: &mut SplitMix, target: f64) -> (Event<'static>, Kind) {
        match random.within(0..=99) {
            0..=69 => {
                let receiver_hold = random.within(0..=20_000);
                let fabric = match random.within(0..=2) {
                    0 => random.within(1..=1_000_000),
                    1 => random.within(1..=60_000),
                    _ => (target as u32).saturating_sub(4_000).saturating_add(random.within(0..=8_000)).max(1),
                };
                let (hops, rx_buffer_level) = (random.within(0..=6) as u8, random.within(0..=31) as u8);
                let bytes = if random.within(0..=9) == 0 { 0 } else { random.within(1..=8_192) };
                let delay = Delay {
                    rtt: Nanos::new(fabric + receiver_hold),
                    receiver_hold: Nanos::new(receiver_hold),
                    hops,
                    rx_buffer_level,
                };
                let acked = Bytes::new(bytes);
                let kind = if bytes == 0 { Kind::Nothing } else { Kind::Acked(bytes, delay) };
                (Event::Ack(Ack { acked, delay: Some(delay), ..Ack::default() }), kind)
            }
            70..=91 => {
                let psn = Psn::new(self.next);
                self.next += 1;
                (Event::Sent { psn, bytes: Bytes::new(1_024) }, Kind::Nothing)
            }
            92..=94 if self.next > 0 => {
                let back = random.within(1..=self.next.min(100));
                self.next -= back;
                (Event::Nack { psn: Psn::new(self.next) }, Kind::Lost)
            }
            95..=97 if self.next > 0 => {
                let back = random.within(1..=self.next.min(100));
                self.next -= back - 1;
                (Event::Sent { psn: Psn::new(self.next - 1), bytes: Bytes::new(1_024) }, Kind::TimedOut)
            }
            _ => (Event::Wake, Kind::Nothing),
        }
    }
}

enum Kind {
    Nothing,
    Acked(u32, Delay),
    Lost,
    TimedOut,
}

fn delays(delay: &Delay) -> (f64, f64, f64, f64) {
    let (rtt, receiver_hold) = (f64::from(delay.rtt.get()), f64::from(delay.receiver_hold.get()));
    (rtt, receiver_hold, f64::from(delay.hops), f64::from(delay.rx_buffer_level))
}

#[test]
fn each_event_does_what_the_equations_say() {
    for (name, settings, c) in presets() {
        let params = Swift::check(&settings, &LINK).unwrap();
        let cx = |now: u64| {
            let now = Instant::from_nanos(now);
            Cx { now, link: &LINK, params: &params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
        };
        let mut tolerance = Tolerance::default();
        let mut random = SplitMix::new(4);
        let mut transport = Transport { next: 0 };
        let mut now = 0;
        let mut state = Swift::open(&cx(now));
        for nth in 0..150_000 {
            now += u64::from(random.within(0..=60_000));
            let stamp = Instant::from_nanos(now).stamp();
            let before = decode(&state, stamp);
            let aim = oracle::target(&c, before.fcwnd, 3.0);
            let (event, kind) = transport.draw(&mut random, aim);
            let decision = state.on(&cx(now), &event);
            let mut allowed = Vec::new();
            match kind {
                Kind::Nothing => allowed.push(before),
                Kind::Lost => allowed.push(oracle::lost(&c, &before)),
                Kind::TimedOut => allowed.push(oracle::timed_out(&c, &before)),
                Kind::Acked(bytes, delay) => {
                    let all = delays(&delay);
                    let (fabric, target) = (all.0 - all.1, oracle::target(&c, before.fcwnd, all.2));
                    allowed.push(oracle::acked(&c, &before, f64::from(bytes), all, fabric < target));
                    // The target is right to 1e-4 of 1/sqrt(window), the delay to a nanosecond. Near the target, a tiny cut may
                    // count as a cut or not.
                    if (fabric - target).abs() < 12.0 {
                        let other = oracle::acked(&c, &before, f64::from(bytes), all, fabric >= target);
                        let none = oracle::acked(&c, &before, f64::from(bytes), all, false);
                        allowed.extend([other, none]);
                        if before.since_cut >= all.0 {
                            let since_cut = if none.since_cut == 0.0 { before.since_cut } else { 0.0 };
                            allowed.push(Flow { since_cut, ..none });
                        }
                    }
                }
            }
            let allowed: Vec<_> = allowed.iter().map(|flow| values(flow, oracle::pace(&c, flow))).collect();
            let got = values(&decode(&state, stamp), decided(&decision));
            let outcome: Vec<_> = OUTCOME.iter().zip(&got).map(|(&(what, bit), &value)| (what, value, bit)).collect();
            tolerance.assert(&(name, nth, event, before), &outcome, &allowed);
        }
        tolerance.finish(100_000);
    }
}

/// Whole runs, in which the equations use their own state: a path whose queue follows the rates of thousands of such flows, and
/// a receiver whose buffer fills from time to time.
#[test]
fn runs_agree_with_the_equations() {
    for (name, settings, c) in presets() {
        let params = Swift::check(&settings, &LINK).unwrap();
        let cx = |now: u64| {
            let now = Instant::from_nanos(now);
            Cx { now, link: &LINK, params: &params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
        };
        let mut state = Swift::open(&cx(0));
        let mut ideal = decode(&state, Instant::from_nanos(0).stamp());
        let (mut now, mut queue, mut random, mut smallest) = (0u64, 0.0f64, SplitMix::new(5), f64::MAX);
        for nth in 0..20_000 {
            let step = 2_000_u32;
            now += u64::from(step);
            ideal.since_cut += f64::from(step);
            ideal.since_turn += f64::from(step);
            let (_, rate) = oracle::pace(&c, &ideal);
            // 100 Gb/s shared by 2 000 flows, or by one.
            let others = if nth % 10_000 < 7_000 { 2_000.0 } else { 1.0 };
            queue = (queue + (rate * others - 12.5) * f64::from(step)).clamp(0.0, 4e6);
            let delay = Delay {
                rtt: Nanos::new(8_000 + (queue / 12.5) as u32 + random.within(0..=100)),
                receiver_hold: Nanos::new(random.within(0..=500)),
                hops: 3,
                rx_buffer_level: if nth % 3_000 < 20 { 20 } else { 2 },
            };
            let bytes = ((rate * f64::from(step)) as u32).max(1);
            let acked = Bytes::new(bytes);
            let before = state.fabric_window();
            state.on(&cx(now), &Event::Ack(Ack { acked, delay: Some(delay), ..Ack::default() }));
            let all = delays(&delay);
            // Near the target both branches are right; the equations take the one that the machine took.
            let (fabric, target) = (all.0 - all.1, oracle::target(&c, ideal.fcwnd, all.2));
            let machine = decode(&state, Instant::from_nanos(now).stamp());
            let border = (fabric - target).abs() < 120.0;
            let below = if border { state.fabric_window() > before } else { fabric < target };
            ideal = oracle::acked(&c, &ideal, f64::from(bytes), all, below);
            smallest = smallest.min(ideal.fcwnd);
            for (got, expected) in [(machine.fcwnd, ideal.fcwnd), (machine.ncwnd, ideal.ncwnd)] {
                assert!(
                    (got - expected).abs() < expected * 1e-3 + 16.0 / PACKET,
                    "{name}, {nth}: {machine:?} for {ideal:?}"
                );
            }
        }
        assert!(smallest < 1.0, "{name}: no fractional window in the run, {smallest} at least");
    }
}
