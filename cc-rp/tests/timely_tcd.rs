//! TIMELY with TCD's marks compared with its rules in double precision, one event at a time and over runs.

#[allow(unreachable_pub, reason = "a module that several tests share")]
mod tolerance;

use cc_core::{Bytes, Delay, Instant, Link, Mark, Nanos, Rate};
use cc_rp::timely::NS3_RDMA;
use cc_rp::timely_tcd::TimelyTcd;
use cc_rp::{Ack, Cx, Event, ReactionPoint};
use tolerance::{SplitMix, Tolerance};

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_024), base_rtt: Nanos::new(8_000) };
const MBPS: f64 = 2_097.152;

/// The effect of a sample by its mark, with algorithm 1 of TIMELY and eRPC's scaling and bound. Values of the preset `ns3_rdma`
/// at 100 Gb/s; times in microseconds, rates in Mb/s.
mod oracle {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(super) enum Seen {
        Nothing,
        Undetermined,
        Congested,
    }

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Flow {
        pub(super) rate: f64,
        pub(super) rtt: Option<f64>,
        pub(super) smoothed: f64,
        pub(super) shorter: u32,
        pub(super) strongest: Seen,
        pub(super) any: bool,
    }

    pub(super) fn with_mark(flow: &Flow, mark: Seen) -> Flow {
        let strongest = match (flow.strongest, mark) {
            (Seen::Congested, _) | (_, Seen::Congested) => Seen::Congested,
            (Seen::Undetermined, _) | (_, Seen::Undetermined) => Seen::Undetermined,
            _ => Seen::Nothing,
        };
        Flow { strongest, any: flow.any || mark != Seen::Nothing, ..*flow }
    }

    pub(super) fn gradient(flow: &Flow, rtt: f64) -> f64 {
        let difference = flow.rtt.map_or(0.0, |before| rtt - before);
        (flow.smoothed + 7.0 * difference) / 8.0
    }

    /// The flow after a complete segment. `up`: the gradient counts as positive.
    pub(super) fn sampled(flow: &Flow, rtt: f64, elapsed: f64, paused: bool, up: bool) -> Flow {
        let unmarked = flow.strongest == Seen::Nothing;
        let next = Flow { rtt: Some(rtt), strongest: Seen::Nothing, ..*flow };
        if flow.strongest == Seen::Undetermined || (unmarked && paused) {
            return Flow { smoothed: 0.0, shorter: 0, ..next };
        }
        let smoothed = gradient(flow, rtt);
        let shorter = if flow.rtt.is_some_and(|before| rtt < before) { flow.shorter + 1 } else { 0 };
        let part = f64::min(elapsed / 20.0, 1.0);
        let change = match rtt {
            _ if rtt < 50.0 => 10.0 * part,
            _ if rtt > 500.0 => -flow.rate * 0.8 * part * (rtt - 500.0) / rtt,
            _ if up => -flow.rate * 0.8 * part * smoothed / 20.0,
            _ if shorter >= 5 => 50.0 * part,
            _ => 10.0 * part,
        };
        let may_cut = !unmarked || (!flow.any && rtt > 500.0);
        let change = if may_cut { change.max(-flow.rate / 2.0) } else { change.max(0.0) };
        Flow { rate: (flow.rate + change).clamp(1_000.0, 96_000.0), smoothed, shorter, ..next }
    }
}

use oracle::{Flow, Seen};

fn seen(mark: Mark) -> Seen {
    match mark {
        Mark::None => Seen::Nothing,
        Mark::Undetermined => Seen::Undetermined,
        Mark::Congested => Seen::Congested,
    }
}

fn decode(state: &TimelyTcd) -> Flow {
    let timely = state.timely();
    Flow {
        rate: f64::from(timely.rate().to_bits()) / MBPS,
        rtt: timely.last_rtt().map(|rtt| f64::from(rtt.get()) / 1e3),
        smoothed: f64::from(timely.rtt_diff()) / 16e3,
        shorter: u32::from(timely.falls()),
        strongest: seen(state.mark()),
        any: state.echoed(),
    }
}

fn values(flow: &Flow) -> Vec<f64> {
    let strongest = match flow.strongest {
        Seen::Nothing => 0.0,
        Seen::Undetermined => 1.0,
        Seen::Congested => 2.0,
    };
    vec![flow.rate, flow.rtt.unwrap_or(0.0), flow.smoothed, strongest, f64::from(u8::from(flow.any))]
}

fn draw_mark(random: &mut SplitMix) -> Mark {
    match random.within(0..=5) {
        0 => Mark::Congested,
        1 => Mark::Undetermined,
        _ => Mark::None,
    }
}

fn ack(bytes: u32, mark: Mark, rtt: u32) -> Event<'static> {
    let delay = Some(Delay { rtt: Nanos::new(rtt), ..Delay::default() });
    Event::Ack(Ack { acked: Bytes::new(bytes), mark, delay, ..Ack::default() })
}

#[test]
fn each_event_does_what_the_rules_say() {
    let params = TimelyTcd::check(&NS3_RDMA, &LINK).unwrap();
    let mut tolerance = Tolerance::default();
    let mut random = SplitMix::new(2);
    let (mut now, mut last) = (0u64, 20_000u32);
    let mut state = None;
    for nth in 0..150_000 {
        now += u64::from(random.within(0..=30_000));
        let instant = Instant::from_nanos(now);
        let paused = random.within(0..=9) == 0;
        let pause = Nanos::new(if paused { 1_000 } else { 0 });
        let cx = Cx { now: instant, link: &LINK, params: &params, pause, clock_without_pauses: instant.stamp() };
        // A new flow every 50 events, because the first mark of a flow makes a difference.
        let flow = state.get_or_insert_with(|| TimelyTcd::open(&cx));
        if nth % 50 == 0 {
            *flow = TimelyTcd::open(&cx);
        }
        let bytes = random.within(0..=16_000);
        let rtt = match random.within(0..=3) {
            0 => random.within(0..=2_000_000),
            _ => (last + random.within(0..=40_000)).saturating_sub(20_000),
        };
        let mark = draw_mark(&mut random);
        let event = ack(bytes, mark, rtt);
        let before = oracle::with_mark(&decode(flow), seen(mark));
        let acked = flow.timely().acked().get() + bytes;
        let elapsed = f64::from(instant.stamp().since(flow.timely().updated()).get()) / 1e3;
        flow.on(&cx, &event);

        // 1 024 B at 100 Gb/s are 81.92 ns; the base round-trip time is 8 us.
        let sample = f64::from(rtt) / 1e3 - 0.081;
        let mut allowed = vec![values(&before)];
        if bytes > 0 && acked >= 16_000 && sample >= 7.919 {
            last = rtt;
            let gradient = oracle::gradient(&before, sample);
            allowed = vec![values(&oracle::sampled(&before, sample, elapsed, paused, gradient > 0.0))];
            if gradient != 0.0 && gradient.abs() < 4.0 / 16e3 {
                allowed.push(values(&oracle::sampled(&before, sample, elapsed, paused, gradient <= 0.0)));
            }
        }
        let got = values(&decode(flow));
        let bits = [1.0 / MBPS, 1e-3, 1.0 / 16e3, 0.0, 0.0];
        let names = ["rate", "rtt", "smoothed", "strongest", "any"];
        let outcome: Vec<_> = (0..5).map(|at| (names[at], got[at], bits[at])).collect();
        tolerance.assert(&(nth, event, before), &outcome, &allowed);
    }
    tolerance.finish(100_000);
}

#[test]
fn runs_agree_with_the_rules() {
    let params = TimelyTcd::check(&NS3_RDMA, &LINK).unwrap();
    let mut random = SplitMix::new(3);
    let cx = |now: u64| {
        let now = Instant::from_nanos(now);
        Cx { now, link: &LINK, params: &params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
    };
    let mut state = TimelyTcd::open(&cx(0));
    let mut ideal = Flow { rate: 96_000.0, rtt: None, smoothed: 0.0, shorter: 0, strongest: Seen::Nothing, any: false };
    let (mut now, mut queue) = (0u64, 0.0f64);
    for nth in 0..5_000 {
        now += 20_000;
        // 40 Gb/s, of which pauses leave a tenth from time to time. A queue above 100 kB is marked UE during pauses, and CE
        // otherwise.
        let held = nth % 500 >= 400;
        let bottleneck = if held { 4_000.0 } else { 40_000.0 };
        queue = (queue + (ideal.rate - bottleneck) * 20.0).clamp(0.0, 1.6e6);
        let mark = match queue {
            queue if queue < 8e5 => Mark::None,
            _ if held => Mark::Undetermined,
            _ => Mark::Congested,
        };
        let rtt = (30_000.0 + queue / bottleneck * 1e3) as u32 + random.within(0..=3_000);
        state.on(&cx(now), &ack(16_000, mark, rtt));
        let sample = f64::from(rtt) / 1e3 - 0.081;
        let marked = oracle::with_mark(&ideal, seen(mark));
        ideal = oracle::sampled(&marked, sample, 20.0, false, oracle::gradient(&marked, sample) > 4.0 / 16e3);
        let rate = f64::from(state.timely().rate().to_bits()) / MBPS;
        assert!((rate - ideal.rate).abs() < ideal.rate * 1e-3, "{nth}: {rate} for {}", ideal.rate);
    }
}
