//! PowerTCP, with telemetry and with delays, compared with its equations in double precision.

#[allow(unreachable_pub, reason = "a module that several tests share")]
mod tolerance;

use cc_core::{Bytes, Delay, Hop, Instant, IntLayout, IntStackBuilder, Link, Nanos, Psn, Rate};
use cc_rp::powertcp::{PAPER, PowerTcp5, PowerTcpSettings, Window};
use cc_rp::theta_powertcp::ThetaPowerTcp;
use cc_rp::{Ack, Cx, Event, ReactionPoint};
use tolerance::{SplitMix, Tolerance, Value};

/// Algorithms 1 and 2 of the paper. Bytes and nanoseconds.
mod oracle {
    /// What one switch port wrote.
    #[derive(Clone, Copy)]
    pub(super) struct Record {
        pub(super) b: f64,
        pub(super) ts: f64,
        pub(super) tx_bytes: f64,
        pub(super) qlen: f64,
    }

    /// A sender's constants.
    #[derive(Clone, Copy)]
    pub(super) struct Constants {
        pub(super) tau: f64,
        pub(super) gamma: f64,
        pub(super) beta: f64,
        pub(super) most: f64,
        pub(super) least: f64,
        /// The longest dt that is measured, 2 tau, and the longest gap between acknowledgements, 4 tau; both are at most what a
        /// record's clock can show.
        pub(super) longest: f64,
        pub(super) silence: f64,
        /// Bytes that a record's counter can count.
        pub(super) counts: f64,
        /// Bytes for each unit of that counter.
        pub(super) unit: f64,
    }

    /// NORMPOWER of Algorithm 1: the largest normalised power and its dt; `None` where no hop can be measured.
    pub(super) fn norm_power(c: &Constants, prev: &[Record], ack: &[Record]) -> Option<(f64, f64)> {
        let mut most: Option<(f64, f64)> = None;
        for (p, a) in prev.iter().zip(ack) {
            let dt = a.ts - p.ts;
            let sent = a.tx_bytes - p.tx_bytes;
            // What the link could have carried must fit the counter.
            if !(16.0..=c.longest).contains(&dt) || sent - c.unit > 1.1 * a.b * dt || 1.1 * a.b * dt > c.counts {
                continue;
            }
            // lambda nu / (B^2 tau) as two factors, each clipped to 16 as in the machine.
            let current = ((a.qlen - p.qlen + sent) / dt / a.b).clamp(0.0, 16.0);
            let voltage = (a.qlen / (a.b * c.tau)).min(16.0) + 1.0;
            let power = (current * voltage).min(16.0);
            if most.is_none_or(|(most, _)| power > most) {
                most = Some((power, dt));
            }
        }
        most
    }

    /// NORMPOWER of Algorithm 2.
    pub(super) fn norm_power_by_delay(c: &Constants, theta: f64, prev: f64, dt: f64) -> f64 {
        let gradient = (theta - prev) / dt;
        ((gradient + 1.0).max(0.0) * theta / c.tau).min(16.0)
    }

    /// Smoothing, UPDATEWINDOW: the new power and window.
    pub(super) fn update(c: &Constants, before: Option<f64>, power: f64, dt: f64, cwnd: f64, old: f64) -> (f64, f64) {
        let power = power.max(1.0 / 1_024.0);
        let dt = dt.min(c.tau);
        let smoothed = before.map_or(power, |before| (before * (c.tau - dt) + power * dt) / c.tau);
        let cwnd = c.gamma * (old / smoothed + c.beta) + (1.0 - c.gamma) * cwnd;
        (smoothed, cwnd.clamp(c.least, c.most))
    }
}

/// What the switches write, and how often acknowledgements arrive.
#[derive(Clone, Copy)]
struct Telemetry {
    layout: IntLayout,
    /// Bytes for each unit of a record's counter and of its queue.
    units: [f64; 2],
    /// The speeds of the five links.
    gbps: [u32; 5],
    /// Nanoseconds from one acknowledgement to the next.
    gaps: [u32; 5],
    tau: u32,
}

const WIDE: Telemetry = Telemetry {
    layout: IntLayout::Wide,
    units: [64.0, 1.0],
    gbps: [25, 100, 400, 200, 800],
    gaps: [40, 300, 3_000, 11_000, 22_000],
    tau: 12_000,
};
/// The layout of HPCC's simulator, at its speeds, with this multiplier of the units.
const fn compact(multi: u32) -> Telemetry {
    let units = [128.0 * multi as f64, 80.0 * multi as f64];
    Telemetry { layout: IntLayout::Compact, units, gbps: [25, 100, 400, 200, 50], ..WIDE }
}
/// The same on a long path: in 2.6 ms the counter of a link of 400 Gb/s wraps, and after 4.3 ms records are too old to compare.
const LONG_PATH: Telemetry =
    Telemetry { gaps: [300, 300_000, 1_000_000, 2_600_000, 4_300_000], tau: 4_000_000, ..compact(1) };

/// Links of 8 Gb/s and less, whose byte takes a nanosecond or more, and one of 10 Gb/s.
const SLOW: Telemetry = Telemetry { gbps: [1, 2, 5, 8, 10], gaps: [300, 3_000, 11_000, 22_000, 23_000], ..WIDE };

fn link(gbps: u32, tau: u32) -> Link {
    Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(1_064), base_rtt: Nanos::new(tau) }
}

fn constants(gbps: u32, telemetry: &Telemetry) -> oracle::Constants {
    let (tau, b) = (f64::from(telemetry.tau), f64::from(gbps) / 8.0);
    let floor = f64::from(PAPER.min_rate) / 8_000.0 * tau;
    // 24 bits of nanoseconds and 20 of units; or 32 of nanoseconds, and as many of bytes between two records.
    let (clock, counts) = match telemetry.layout {
        IntLayout::Compact => (16_777_216.0, 1_048_576.0 * telemetry.units[0]),
        IntLayout::Wide => (4_294_967_296.0, 4_294_967_296.0),
    };
    // Records up to three packets of the least rate apart are compared; after twice that time they are too old.
    let gap = 1_064.0 * 8_000.0 / f64::from(PAPER.min_rate);
    let longest = (2.0 * tau).max(3.0 * gap);
    oracle::Constants {
        tau,
        gamma: 0.9,
        beta: b * tau / 10.0,
        most: b * tau,
        least: floor,
        longest: longest.min(clock / 2.0),
        silence: (2.0 * longest).min(clock / 4.0),
        counts,
        unit: telemetry.units[0],
    }
}

fn one(value: u32) -> f64 {
    f64::from(value) / f64::from(1 << 24)
}

fn outcome(window: &Window) -> [Value; 3] {
    [
        ("cwnd", f64::from(window.bytes().get()), 1.0),
        ("cwnd_old", f64::from(window.old().get()), 1.0),
        // The load of a hop is right to 2.5e-4, and a power is a product of two of them.
        ("Gamma", window.power().map_or(0.0, one), 2e-4),
    ]
}

fn cx<'a, P>(now: u64, link: &'a Link, params: &'a P) -> Cx<'a, P> {
    let now = Instant::from_nanos(now);
    Cx { now, link, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
}

#[test]
fn each_step_is_that_of_algorithm_1() {
    assert_algorithm_1([(1, WIDE); 3], [25, 100, 400, 800]);
}

#[test]
fn each_step_on_slow_links_is_that_of_algorithm_1() {
    assert_algorithm_1([(1, SLOW); 3], [1, 2, 5, 10]);
}

#[test]
fn each_step_by_compact_telemetry_is_that_of_algorithm_1() {
    assert_algorithm_1([(1, compact(1)), (4, compact(4)), (1, LONG_PATH)], [25, 100, 200, 400]);
}

/// Runs with each kind of telemetry, and its multiplier, and ports of these speeds.
fn assert_algorithm_1(kinds: [(u32, Telemetry); 3], speeds: [u32; 4]) {
    let mut tolerance = Tolerance::default();
    for seed in 0..60 {
        let (gbps, (int_multi, telemetry)) = (speeds[seed as usize % 4], kinds[seed as usize % 3]);
        let Telemetry { layout, units: [counted, queued], gbps: links, gaps, tau } = telemetry;
        let (link, c, mut random) = (link(gbps, tau), constants(gbps, &telemetry), SplitMix::new(seed));
        let params = PowerTcp5::check(&PowerTcpSettings { int_multi, ..PAPER }, &link).unwrap();
        let mut now = 1_000;
        let mut flow = PowerTcp5::open(&cx(now, &link, &params));
        let first = random.within(0..=0x00ff_0000);
        let (mut sent, mut acked, mut mark) = (first + 50, first, first + 50);
        flow.on(&cx(now, &link, &params), &Event::Sent { psn: Psn::new(sent), bytes: Bytes::new(1_064) });
        let mut records =
            links.map(|gbps| oracle::Record { b: f64::from(gbps) / 8.0, ts: 0.0, tx_bytes: 0.0, qlen: 0.0 });
        let mut last: Option<[oracle::Record; 5]> = None;
        for _ in 0..2_000 {
            sent += 1;
            flow.on(&cx(now, &link, &params), &Event::Sent { psn: Psn::new(sent), bytes: Bytes::new(1_064) });
            let gap = gaps[random.within(0..=4) as usize] + random.within(0..=200);
            now += u64::from(gap);
            acked += 1 + random.within(0..=(sent - acked - 1).min(60));
            for record in &mut records {
                record.ts += f64::from(gap);
                let share = f64::from(random.within(0..=1_050)) / 1e3;
                record.tx_bytes += (share * record.b * f64::from(gap) / counted).floor() * counted;
                let step = f64::from(random.within(0..=40_000)) - 20_000.0;
                let grown = (record.qlen + step * f64::from(gap) / 12_000.0).clamp(0.0, 1e7);
                record.qlen = (grown / queued).floor() * queued;
            }
            let hops = records.iter().zip(links).map(|(record, gbps)| {
                let sent = ((record.tx_bytes / counted) % 4_294_967_296.0) as u32;
                let (clock, queue) = ((record.ts % 4_294_967_296.0) as u32, (record.qlen / queued) as u32);
                Hop { mbps: gbps * 1_000, flags: 0, clock, sent, queue }
            });
            let int = IntStackBuilder::new(layout, 9).with(hops);
            let before = *flow.window();
            flow.on(
                &cx(now, &link, &params),
                &Event::Ack(Ack { psn: Psn::new(acked), int: int.stack(), ..Ack::default() }),
            );

            let (mut cwnd, mut old) = (f64::from(before.bytes().get()), f64::from(before.old().get()));
            let mut power = before.power().map(one);
            if let Some(last) = &last
                && f64::from(gap) <= c.silence
                && let Some((measured, dt)) = oracle::norm_power(&c, last, &records)
            {
                let (smoothed, window) = oracle::update(&c, power, measured, dt, cwnd, old);
                (power, cwnd) = (Some(smoothed), window);
                if acked > mark {
                    (old, mark) = (cwnd, sent);
                }
            }
            last = Some(records);
            tolerance.assert(&acked, &outcome(flow.window()), &[vec![cwnd, old, power.unwrap_or(0.0)]]);
        }
    }
    tolerance.finish(100_000);
}

#[test]
fn each_step_is_that_of_algorithm_2() {
    let mut tolerance = Tolerance::default();
    for seed in 0..60 {
        let gbps = [25, 100, 400, 800][seed as usize % 4];
        let (link, c, mut random) = (link(gbps, WIDE.tau), constants(gbps, &WIDE), SplitMix::new(seed));
        let params = ThetaPowerTcp::check(&PAPER, &link).unwrap();
        let mut now = 1_000;
        let mut flow = ThetaPowerTcp::open(&cx(now, &link, &params));
        let first = random.within(0..=0x00ff_0000);
        let (mut sent, mut acked) = (first + 50, first);
        let (mut mark, mut last): (u32, Option<(f64, f64)>) = (sent, None);
        flow.on(&cx(now, &link, &params), &Event::Sent { psn: Psn::new(sent), bytes: Bytes::new(1_064) });
        for _ in 0..2_000 {
            sent += 1;
            flow.on(&cx(now, &link, &params), &Event::Sent { psn: Psn::new(sent), bytes: Bytes::new(1_064) });
            now += u64::from([40, 300, 3_000, 11_000, 90_000][random.within(0..=4) as usize] + random.within(0..=200));
            acked += 1 + random.within(0..=(sent - acked - 1).min(60));
            let rtt = 12_000 + random.within(0..=60_000);
            let before = *flow.window();
            let delay = Some(Delay { rtt: Nanos::new(rtt), ..Delay::default() });
            flow.on(&cx(now, &link, &params), &Event::Ack(Ack { psn: Psn::new(acked), delay, ..Ack::default() }));

            let (mut cwnd, mut old) = (f64::from(before.bytes().get()), f64::from(before.old().get()));
            let mut power = before.power().map(one);
            let theta = f64::from(rtt);
            match last {
                None => {
                    last = Some((theta, now as f64));
                    mark = sent;
                }
                Some((previous, at)) if acked > mark => {
                    let dt = now as f64 - at;
                    let measured = oracle::norm_power_by_delay(&c, theta, previous, dt);
                    let (smoothed, window) = oracle::update(&c, power, measured, dt, cwnd, old);
                    (power, cwnd, old) = (Some(smoothed), window, window);
                    last = Some((theta, now as f64));
                    mark = sent;
                }
                Some(_) => {}
            }
            tolerance.assert(&acked, &outcome(flow.window()), &[vec![cwnd, old, power.unwrap_or(0.0)]]);
        }
    }
    tolerance.finish(100_000);
}

/// A free run on one link with a fixed competitor: the window settles where the power is one, plus beta.
#[test]
fn a_free_run_settles_with_a_short_queue() {
    let (link, c) = (link(100, WIDE.tau), constants(100, &WIDE));
    let params = PowerTcp5::check(&PAPER, &link).unwrap();
    let mut now = 1_000;
    let mut flow = PowerTcp5::open(&cx(now, &link, &params));
    let (b, step) = (12.5, 1_200.0);
    let (mut queue, mut clock, mut carried) = (300_000.0_f64, 0.0, 0.0_f64);
    for psn in 1..8_000_u32 {
        let window = f64::from(flow.window().bytes().get());
        let round_trip = c.tau + queue / b;
        let arriving = (window / round_trip + b / 2.0) * step;
        let leaving = (queue + arriving).min(b * step);
        queue += arriving - leaving;
        carried += leaving;
        clock += step;
        now += 1_200;
        flow.on(&cx(now, &link, &params), &Event::Sent { psn: Psn::new(psn + 10), bytes: Bytes::new(1_064) });
        let (sent, queue) = ((carried / 64.0) as u32, queue as u32);
        let hop = Hop { mbps: 100_000, flags: 0, clock: clock as u32, sent, queue };
        let int = IntStackBuilder::new(IntLayout::Wide, 9).with([hop]);
        flow.on(&cx(now, &link, &params), &Event::Ack(Ack { psn: Psn::new(psn), int: int.stack(), ..Ack::default() }));
    }
    let window = f64::from(flow.window().bytes().get());
    // The competitor uses half of the 150 000 bytes; beta is 15 000.
    assert!((70_000.0..110_000.0).contains(&window), "{window}");
    assert!(queue < 40_000.0, "{queue}");
}
