//! TIMELY compared with its equations in double precision: one event at a time from the machine's own state, and over runs.

#[allow(unreachable_pub, reason = "a module that several tests share")]
mod tolerance;

use cc_core::{Bytes, Delay, Instant, Link, Nanos, Rate};
use cc_rp::timely::{ERPC, NS3_RDMA, PAPER, PATCHED, Timely, TimelySettings};
use cc_rp::{Ack, Cx, Event, ReactionPoint};
use tolerance::{SplitMix, Tolerance};

const GBPS: u32 = 100;
const LINK: Link = Link { line_rate: Rate::from_gbps(GBPS), mtu: Bytes::new(1_024), base_rtt: Nanos::new(8_000) };

/// Algorithm 1 of TIMELY (SIGCOMM 2015), the blend of "ECN or Delay" (CoNEXT 2016), and the two additions of eRPC.
/// Times in microseconds, rates in Mb/s.
mod oracle {
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Constants {
        pub(super) alpha: f64,
        pub(super) beta: f64,
        pub(super) t_low: f64,
        pub(super) t_high: f64,
        pub(super) min_rtt: f64,
        pub(super) delta: f64,
        pub(super) n: f64,
        pub(super) n_after: u32,
        pub(super) least_rate: f64,
        pub(super) most_rate: f64,
        pub(super) scaled: bool,
        pub(super) half_at_most: bool,
        pub(super) counts_gradients: bool,
        pub(super) blends: bool,
    }

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Flow {
        pub(super) rate: f64,
        pub(super) prev_rtt: Option<f64>,
        pub(super) rtt_diff: f64,
        pub(super) in_a_row: u32,
    }

    /// The first lines of the algorithm, before the branches: the new difference and the smoothed difference of round-trip
    /// times.
    pub(super) fn smoothed(c: &Constants, flow: &Flow, new_rtt: f64) -> (f64, f64) {
        let new_rtt_diff = flow.prev_rtt.map_or(0.0, |prev| new_rtt - prev);
        (new_rtt_diff, (1.0 - c.alpha) * flow.rtt_diff + c.alpha * new_rtt_diff)
    }

    /// The flow after a completed segment. `gradient_is_positive` decides the branch, so that a test can choose it.
    pub(super) fn complete(c: &Constants, flow: &Flow, new_rtt: f64, elapsed: f64, gradient_is_positive: bool) -> Flow {
        let (new_rtt_diff, rtt_diff) = smoothed(c, flow, new_rtt);
        let falls = if c.counts_gradients { rtt_diff < 0.0 } else { new_rtt_diff < 0.0 };
        let in_a_row = if falls { flow.in_a_row + 1 } else { 0 };
        let normalized_gradient = rtt_diff / c.min_rtt;
        let s = if c.scaled { (elapsed / c.min_rtt).min(1.0) } else { 1.0 };
        let mut rate = flow.rate;
        if new_rtt < c.t_low {
            rate += c.delta * s;
        } else if new_rtt > c.t_high {
            rate *= 1.0 - s * c.beta * (1.0 - c.t_high / new_rtt);
        } else if c.blends {
            let w = (2.0 * normalized_gradient + 0.5).clamp(0.0, 1.0);
            let err = (new_rtt - c.t_low) / c.t_low;
            rate = (rate * (1.0 - s * c.beta * w * err)).max(0.0) + s * c.delta * (1.0 - w);
        } else if gradient_is_positive {
            rate *= (1.0 - s * c.beta * normalized_gradient).max(0.0);
        } else {
            rate += c.delta * s * if in_a_row >= c.n_after { c.n } else { 1.0 };
        }
        if c.half_at_most {
            rate = rate.max(flow.rate / 2.0);
        }
        let rate = rate.max(c.least_rate).min(c.most_rate);
        Flow { rate, prev_rtt: Some(new_rtt), rtt_diff, in_a_row }
    }
}

use oracle::{Constants, Flow};

/// The values of each preset, written down independently.
fn constants(name: &str) -> Constants {
    let line = f64::from(GBPS) * 1e3;
    let ns3 = Constants {
        alpha: 0.875,
        beta: 0.8,
        t_low: 50.0,
        t_high: 500.0,
        min_rtt: 20.0,
        delta: 10.0,
        n: 5.0,
        n_after: 5,
        least_rate: 0.01 * line,
        most_rate: 0.96 * line,
        scaled: true,
        half_at_most: true,
        counts_gradients: false,
        blends: false,
    };
    match name {
        "ns3_rdma" => ns3,
        "paper" => Constants { most_rate: line, scaled: false, half_at_most: false, counts_gradients: true, ..ns3 },
        "erpc" => Constants {
            alpha: 0.46,
            beta: 0.26,
            t_high: 1_000.0,
            min_rtt: 2.0,
            delta: 40.0,
            least_rate: 120.0,
            most_rate: line,
            ..ns3
        },
        "patched" => Constants { beta: 0.008, blends: true, ..ns3 },
        _ => unreachable!("no such preset"),
    }
}

const PRESETS: [(&str, TimelySettings, f64); 4] = [
    // The last column: microseconds subtracted from each sample, for 1 024 B and 16 000 B at 100 Gb/s.
    ("ns3_rdma", NS3_RDMA, 0.081),
    ("paper", PAPER, 1.28),
    ("erpc", ERPC, 0.0),
    ("patched", PATCHED, 0.081),
];

const MBPS: f64 = 2_097.152;

fn decode(state: &Timely) -> Flow {
    Flow {
        rate: f64::from(state.rate().to_bits()) / MBPS,
        prev_rtt: state.last_rtt().map(|rtt| f64::from(rtt.get()) / 1e3),
        rtt_diff: f64::from(state.rtt_diff()) / 16e3,
        in_a_row: u32::from(state.falls()),
    }
}

fn values(flow: &Flow) -> Vec<f64> {
    vec![flow.rate, flow.prev_rtt.unwrap_or(0.0), flow.rtt_diff]
}

/// A random round-trip time in nanoseconds: near the last, in any zone, or of any size.
fn draw_rtt(random: &mut SplitMix, last: u32) -> u32 {
    match random.within(0..=9) {
        0..=5 => (last.saturating_add(random.within(0..=40_000))).saturating_sub(20_000).clamp(9_000, 2_000_000),
        6 | 7 => random.within(9_000..=700_000),
        8 => random.within(9_000..=60_000_000),
        _ => random.within(0..=9_000),
    }
}

fn ack(bytes: u32, rtt: u32) -> Event<'static> {
    let delay = Some(Delay { rtt: Nanos::new(rtt), ..Delay::default() });
    Event::Ack(Ack { acked: Bytes::new(bytes), delay, ..Ack::default() })
}

#[test]
fn each_event_does_what_the_equations_say() {
    for (name, settings, taken) in PRESETS {
        let c = constants(name);
        let params = Timely::check(&settings, &LINK).unwrap();
        let cx = |now: u64| {
            let now = Instant::from_nanos(now);
            Cx { now, link: &LINK, params: &params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
        };
        let mut tolerance = Tolerance::default();
        let mut random = SplitMix::new(1);
        let (mut now, mut last) = (0, 20_000);
        let mut state = Timely::open(&cx(now));
        for nth in 0..120_000 {
            if nth % 500 == 0 {
                state = Timely::open(&cx(now));
            }
            now += u64::from(random.within(0..=30_000));
            // Segments of one to three packets, so that nearly every event is a sample.
            let bytes = random.within(0..=16_000);
            let rtt = draw_rtt(&mut random, last);
            let event = ack(bytes, rtt);
            let before = decode(&state);
            let acked = state.acked().get() + bytes;
            let elapsed = f64::from(Instant::from_nanos(now).stamp().since(state.updated()).get()) / 1e3;
            state.on(&cx(now), &event);
            let after = decode(&state);

            let sample = f64::from(rtt) / 1e3 - taken;
            let shortest = c.min_rtt.min(8.0 - taken);
            let whole = bytes > 0 && (name == "erpc" || acked >= 16_000) && sample >= shortest;
            let mut allowed = Vec::new();
            if whole {
                last = rtt;
                // A smoothed difference within a quarter of a nanosecond of zero is near a branch.
                let (_, rtt_diff) = oracle::smoothed(&c, &before, sample);
                let near = rtt_diff.abs() < 4.0 / 16e3;
                allowed.push(values(&oracle::complete(&c, &before, sample, elapsed, rtt_diff > 0.0)));
                if near {
                    allowed.push(values(&oracle::complete(&c, &before, sample, elapsed, rtt_diff <= 0.0)));
                }
                let mut exact = oracle::complete(&c, &before, sample, elapsed, rtt_diff > 0.0);
                exact.in_a_row = exact.in_a_row.min(15);
                assert!(near || after.in_a_row == exact.in_a_row, "{event:?}: {after:?} for {exact:?}");
            } else {
                allowed.push(values(&before));
            }
            let got = values(&after);
            let outcome = [("rate", got[0], 1.0 / MBPS), ("prev_rtt", got[1], 1e-3), ("rtt_diff", got[2], 1.0 / 16e3)];
            tolerance.assert(&(name, nth, event, before), &outcome, &allowed);
        }
        tolerance.finish(100_000);
    }
}

/// Whole runs, in which the equations use their own state: a path whose queue follows the rate of the flow.
#[test]
fn runs_agree_with_the_equations() {
    for (name, settings, taken) in PRESETS {
        let c = constants(name);
        let params = Timely::check(&settings, &LINK).unwrap();
        let cx = |now: u64| {
            let now = Instant::from_nanos(now);
            Cx { now, link: &LINK, params: &params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
        };
        let mut state = Timely::open(&cx(0));
        let mut ideal = Flow { rate: c.most_rate, prev_rtt: None, rtt_diff: 0.0, in_a_row: 0 };
        let (mut now, mut queue) = (0u64, 0.0f64);
        for nth in 0..5_000 {
            now += 20_000;
            // A bottleneck of 40 Gb/s, from time to time of 4 Gb/s; the queue is at most 200 kB.
            let bottleneck = if nth % 1_000 < 800 { 40_000.0 } else { 4_000.0 };
            queue = (queue + (ideal.rate - bottleneck) * 20.0).clamp(0.0, 1.6e6);
            let rtt = (30_000.0 + queue / bottleneck * 1e3) as u32;
            state.on(&cx(now), &ack(16_000, rtt));
            let sample = f64::from(rtt) / 1e3 - taken;
            let (_, rtt_diff) = oracle::smoothed(&c, &ideal, sample);
            // Below a nanosecond both signs are right; the equations take the one that the machine took.
            let rises = if rtt_diff.abs() < 1e-3 { state.rtt_diff() > 0 } else { rtt_diff > 0.0 };
            ideal = oracle::complete(&c, &ideal, sample, 20.0, rises);
            let rate = f64::from(state.rate().to_bits()) / MBPS;
            assert!((rate - ideal.rate).abs() < ideal.rate * 1e-3, "{name}, {nth}: {rate} for {}", ideal.rate);
        }
    }
}
