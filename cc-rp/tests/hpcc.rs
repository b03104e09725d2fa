//! HPCC compared with its equations in double precision.

#[path = "hpcc_equations/mod.rs"]
#[allow(unreachable_pub, reason = "a module that several tests share")]
mod oracle;
#[allow(unreachable_pub, reason = "a module that several tests share")]
mod tolerance;

use cc_core::{Bytes, Hop, Instant, IntLayout, IntStackBuilder, Link, Nanos, Psn, Rate};
use cc_rp::hpcc::{DRAFT, Hpcc5, HpccSettings};
use cc_rp::{Ack, Cx, Event, ReactionPoint};
use tolerance::{SplitMix, Tolerance, Value};

const T: u32 = 12_000;

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
    /// The highest load of a link, in thousandths of its speed; a quarter of the links have it.
    most: u32,
    t: u32,
}

const WIDE: Telemetry = Telemetry {
    layout: IntLayout::Wide,
    units: [64.0, 1.0],
    gbps: [25, 100, 400, 200, 800],
    gaps: [40, 300, 3_000, 11_000, 22_000],
    most: 1_050,
    t: T,
};
/// The layout of the paper's simulator, at its speeds, with this multiplier of the units.
const fn compact(multi: u32) -> Telemetry {
    let units = [128.0 * multi as f64, 80.0 * multi as f64];
    Telemetry { layout: IntLayout::Compact, units, gbps: [25, 100, 400, 200, 50], ..WIDE }
}
/// The same on a long path: in 2.6 ms the counter of a link of 400 Gb/s wraps, and after 4.3 ms records are too old to compare.
const LONG_PATH: Telemetry =
    Telemetry { gaps: [300, 300_000, 1_000_000, 2_600_000, 4_300_000], t: 4_000_000, ..compact(1) };

/// The same, packet by packet: from one acknowledgement to the next a link of 400 Gb/s carries two or three units of a counter.
const fn packets(multi: u32) -> Telemetry {
    Telemetry { gaps: [20, 40, 90, 300, 1_000], most: 1_000, ..compact(multi) }
}

/// Links of 8 Gb/s and less, whose byte takes a nanosecond or more, and one of 10 Gb/s.
const SLOW: Telemetry = Telemetry { gbps: [1, 2, 5, 8, 10], gaps: [300, 3_000, 11_000, 22_000, 23_000], ..WIDE };

/// One flow over five hops, whose links carry random loads.
struct Run {
    telemetry: Telemetry,
    random: SplitMix,
    link: Link,
    constants: oracle::Constants,
    params: <Hpcc5 as ReactionPoint>::Params,
    flow: Hpcc5,
    now: u64,
    last: Vec<oracle::Record>,
    records: Vec<oracle::Record>,
    /// What the links have carried in bytes; records count whole units of it.
    carried: [f64; 5],
    sent: u32,
    acked: u32,
    updated: u32,
}

impl Run {
    fn new(seed: u64, settings: HpccSettings, gbps: u32, telemetry: Telemetry) -> Self {
        let base_rtt = Nanos::new(telemetry.t);
        let link = Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(1_064), base_rtt };
        let params = Hpcc5::check(&settings, &link).unwrap();
        let now = Instant::from_nanos(1_000);
        let flow = Hpcc5::open(&Cx {
            now,
            link: &link,
            params: &params,
            pause: Nanos::ZERO,
            clock_without_pauses: now.stamp(),
        });
        let (t, b) = (f64::from(telemetry.t), f64::from(gbps) / 8.0);
        // 24 bits of nanoseconds and 20 of units; or 32 of nanoseconds, and as many of bytes between two records.
        let (clock, counts) = match telemetry.layout {
            IntLayout::Compact => (16_777_216.0, 1_048_576.0 * telemetry.units[0]),
            IntLayout::Wide => (4_294_967_296.0, 4_294_967_296.0),
        };
        // Records up to three packets of the least rate apart are compared; after twice that time they are too old.
        let gap = f64::from(link.mtu.get()) * 8_000.0 / f64::from(settings.min_rate);
        let longest = (2.0 * t).max(3.0 * gap);
        let constants = oracle::Constants {
            t,
            eta: f64::from(settings.eta) / 1e6,
            max_stage: settings.max_stage,
            w_ai: f64::from(settings.rate_ai) / 8_000.0 * t,
            w_init: b * t,
            w_min: f64::from(settings.min_rate) / 8_000.0 * t,
            longest: longest.min(clock / 2.0),
            silence: (2.0 * longest).min(clock / 4.0),
            counts,
            unit: telemetry.units[0],
        };
        let mut random = SplitMix::new(seed);
        let records = telemetry.gbps.map(|gbps| oracle::Record {
            b: f64::from(gbps) / 8.0,
            ts: f64::from(random.within(0..=u32::MAX)),
            tx_bytes: 0.0,
            qlen: 0.0,
        });
        let first = random.within(0..=0x00ff_ffff);
        Self {
            telemetry,
            random,
            link,
            constants,
            params,
            flow,
            now: 1_000,
            last: Vec::new(),
            records: records.to_vec(),
            carried: [0.0; 5],
            sent: first + 50,
            acked: first,
            updated: 0,
        }
    }

    fn on(&mut self, event: &Event<'_>) {
        let now = Instant::from_nanos(self.now);
        let cx =
            Cx { now, link: &self.link, params: &self.params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() };
        self.flow.on(&cx, event);
    }

    /// Sends a packet, advances the time, and passes an acknowledgement with the telemetry of what the links did meanwhile.
    fn step(&mut self, tolerance: &mut Tolerance) {
        self.sent += 1;
        self.on(&Event::Sent { psn: Psn::new(self.sent), bytes: Bytes::new(1_064) });
        let Telemetry { layout, units: [counted, queued], gbps, gaps, most, .. } = self.telemetry;
        let gap = gaps[self.random.within(0..=4) as usize] + self.random.within(0..=200);
        self.now += u64::from(gap);
        self.acked += 1 + self.random.within(0..=(self.sent - self.acked - 1).min(60));
        for (record, carried) in self.records.iter_mut().zip(&mut self.carried) {
            record.ts += f64::from(gap);
            let share = if self.random.within(0..=3) == 0 { most } else { self.random.within(0..=most) };
            *carried += f64::from(share) / 1e3 * record.b * f64::from(gap);
            // Whole units of the telemetry, so that the machine and the equations get the same numbers.
            record.tx_bytes = (*carried / counted).floor() * counted;
            record.qlen = (f64::from(self.random.within(0..=250_000)) / queued).floor() * queued;
        }
        let hops = self.records.iter().zip(gbps).map(|(record, gbps)| Hop {
            mbps: gbps * 1_000,
            flags: 0,
            clock: (record.ts % 4_294_967_296.0) as u32,
            sent: ((record.tx_bytes / counted) % 4_294_967_296.0) as u32,
            queue: (record.qlen / queued) as u32,
        });
        let int = IntStackBuilder::new(layout, 9).with(hops);

        let before = oracle::Sender {
            w: f64::from(self.flow.window().get()),
            wc: f64::from(self.flow.reference().get()),
            u: f64::from(self.flow.utilisation()) / f64::from(1 << 24),
            inc_stage: self.flow.stage().into(),
        };
        self.on(&Event::Ack(Ack { psn: Psn::new(self.acked), int: int.stack(), ..Ack::default() }));

        let c = self.constants;
        let mut allowed = Vec::new();
        if self.last.is_empty() {
            self.updated = self.sent;
            allowed.push(before);
        } else if f64::from(gap) > c.silence {
            allowed.push(before);
        } else {
            let over = self.acked > self.updated;
            match oracle::inflight(&c, before.u, &self.last, &self.records) {
                None => allowed.push(before),
                Some(u) => {
                    let sender = oracle::Sender { u, ..before };
                    let cut = u >= c.eta || before.inc_stage >= c.max_stage;
                    allowed.push(oracle::compute_wind(&c, sender, cut, over));
                    if before.inc_stage < c.max_stage && (u - c.eta).abs() < 3e-4 {
                        allowed.push(oracle::compute_wind(&c, sender, !cut, over));
                    }
                    if over {
                        self.updated = self.sent;
                    }
                }
            }
        }
        self.last.clone_from(&self.records);
        let outcome: [Value; 4] = [
            ("W", f64::from(self.flow.window().get()), 1.0),
            ("Wc", f64::from(self.flow.reference().get()), 1.0),
            // The load of a hop is right to 2.5e-4.
            ("U", f64::from(self.flow.utilisation()) / f64::from(1 << 24), 1e-4),
            ("incStage", self.flow.stage().into(), 0.0),
        ];
        let allowed: Vec<Vec<f64>> =
            allowed.iter().map(|sender| vec![sender.w, sender.wc, sender.u, sender.inc_stage.into()]).collect();
        tolerance.assert(&self.acked, &outcome, &allowed);
    }
}

#[test]
fn each_step_is_that_of_algorithm_1() {
    let mut tolerance = Tolerance::default();
    for seed in 0..60 {
        let settings = HpccSettings { max_stage: if seed % 3 == 0 { 0 } else { 5 }, ..DRAFT };
        let mut run = Run::new(seed, settings, [25, 100, 400, 800][seed as usize % 4], WIDE);
        for _ in 0..2_000 {
            run.step(&mut tolerance);
        }
    }
    tolerance.finish(100_000);
}

#[test]
fn each_step_on_slow_links_is_that_of_algorithm_1() {
    let mut tolerance = Tolerance::default();
    for seed in 0..60 {
        let mut run = Run::new(seed, DRAFT, [1, 2, 5, 10][seed as usize % 4], SLOW);
        for _ in 0..2_000 {
            run.step(&mut tolerance);
        }
    }
    tolerance.finish(100_000);
}

#[test]
fn each_step_by_compact_telemetry_is_that_of_algorithm_1() {
    let mut tolerance = Tolerance::default();
    for seed in 0..60 {
        let (multi, telemetry) = [(1, compact(1)), (4, compact(4)), (1, LONG_PATH)][seed as usize % 3];
        let settings = HpccSettings { max_stage: if seed % 5 == 0 { 0 } else { 5 }, int_multi: multi, ..DRAFT };
        let mut run = Run::new(seed, settings, [25, 100, 200, 400][seed as usize % 4], telemetry);
        for _ in 0..2_000 {
            run.step(&mut tolerance);
        }
    }
    tolerance.finish(100_000);
}

/// Counters of whole units can show up to a unit more than a link carried: with units of 512 bytes, 1.5 times as much in the
/// time of a packet. If no link carries more than it can, every record is measured, as in HPCC's public simulator, which has no
/// upper bound on what a link may have carried.
#[test]
fn a_link_that_carries_what_it_can_is_measured_whatever_the_units() {
    let mut tolerance = Tolerance::default();
    for seed in 0..60 {
        let multi = [1, 2, 4][seed as usize % 3];
        let settings = HpccSettings { max_stage: if seed % 5 == 0 { 0 } else { 5 }, int_multi: multi, ..DRAFT };
        let mut run = Run::new(seed, settings, [25, 100, 200, 400][seed as usize % 4], packets(multi));
        run.constants.unit = f64::INFINITY;
        for _ in 0..2_000 {
            run.step(&mut tolerance);
        }
    }
    tolerance.finish(100_000);
}

/// Two round trips of telemetry from one link: from an overload by half, W settles where the link is at eta.
#[test]
fn a_free_run_settles_at_eta() {
    let mut run = Run::new(1, DRAFT, 100, WIDE);
    let (b, t) = (12.5, f64::from(T));
    let (mut queue, mut clock, mut carried) = (75_000.0_f64, 0.0, 0.0);
    let mut oracle = oracle::Sender { w: run.constants.w_init, wc: run.constants.w_init, u: 0.95, inc_stage: 0 };
    // `updated`: the next update of Wc is due at the acknowledgement of a packet after this one, the last sent at the last
    // update.
    let (mut last, mut updated): (Option<oracle::Record>, u32) = (None, 11);
    for round in 0..400_u32 {
        // The flow shares the link with another that takes half of it; a round trip in ten steps.
        let window = f64::from(run.flow.window().get());
        for part in 0..10 {
            let arriving = (window / t + b / 2.0) * t / 10.0;
            let leaving = arriving.min(b * t / 10.0) + (queue.min((b * t / 10.0 - arriving).max(0.0)));
            queue = (queue + arriving - leaving).max(0.0);
            carried += leaving;
            clock += t / 10.0;
            let psn = 1 + round * 10 + part;
            run.now += 1_200;
            run.on(&Event::Sent { psn: Psn::new(psn + 10), bytes: Bytes::new(1_064) });
            let hop = Hop {
                mbps: 100_000,
                flags: 0,
                clock: clock as u32,
                sent: (carried / 64.0) as u32,
                queue: queue as u32,
            };
            let int = IntStackBuilder::new(IntLayout::Wide, 9).with([hop]);
            run.on(&Event::Ack(Ack { psn: Psn::new(psn), int: int.stack(), ..Ack::default() }));
            let record =
                oracle::Record { b, ts: clock.floor(), tx_bytes: (carried / 64.0).floor() * 64.0, qlen: queue.floor() };
            if let Some(last) = last
                && let Some(u) = oracle::inflight(&run.constants, oracle.u, &[last], &[record])
            {
                oracle.u = u;
                let cut = u >= run.constants.eta || oracle.inc_stage >= run.constants.max_stage;
                oracle = oracle::compute_wind(&run.constants, oracle, cut, psn > updated);
                if psn > updated {
                    updated = psn + 10;
                }
            }
            last = Some(record);
        }
    }
    let (machine, equations) = (f64::from(run.flow.window().get()), oracle.w);
    // Half the link is 75 000 bytes a round trip; eta leaves 67 500 of them, and W_AI a little more.
    assert!((60_000.0..80_000.0).contains(&machine), "{machine}");
    assert!((machine - equations).abs() < 1_000.0, "{machine}, the equations {equations}");
    assert!(queue < 10_000.0, "{queue}");
}
