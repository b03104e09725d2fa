//! RCC's notification points compared with Algorithm 1 and the counts of section III in double precision, packet by packet.

#[allow(unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/rcc_equations/mod.rs"]
mod oracle;
#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/tolerance/mod.rs"]
mod tolerance;

use cc_core::{Bytes, Ecn, Grant, Instant, IntStack, Link, Mark, Nanos, Psn, Qpn, Rate, Stamp, Zeroed};
use cc_np::rcc::{PAPER, Rcc, RccSettings, STABLE};
use cc_np::rcc_sender::RccSender;
use cc_np::{Arrival, Cx, NotificationPoint};
use oracle::{Constants, Delays, Flow};
use std::collections::BTreeMap;
use tolerance::{SplitMix, Tolerance};

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(12_000) };
const ROUND: f64 = 12_000.0;
const BDP: f64 = 150_000.0;

/// Length of an epoch in nanoseconds: the least power of two for which 14 epochs are at least 16 round trips.
const EPOCH: u64 = 16_384;

/// N and B_R of a port as in III-C and III-D: the flows with a message under way, and the bytes of the last round.
#[derive(Debug, Default)]
struct ActiveFlows {
    /// By flow, the epoch of its last packet, as known at the end of the last round.
    active: BTreeMap<usize, u64>,
    epoch: u64,
    began: f64,
    bytes: f64,
    share: f64,
}

impl ActiveFlows {
    fn receives(&mut self, now: f64, bytes: f64) {
        if now >= self.began + 2.0 * ROUND {
            (self.share, self.began, self.bytes) = (0.0, now, 0.0);
        } else if now >= self.began + ROUND {
            (self.share, self.began, self.bytes) = (self.bytes / BDP, self.began + ROUND, 0.0);
        }
        if self.bytes == 0.0 {
            self.epoch = now as u64 / EPOCH;
        }
        self.bytes += bytes + 24.0; // preamble, check sequence and gap of IEEE 802.3
    }

    /// Counts a packet of this flow, after removing flows whose last packet is 16 epochs old. Returns whether it begins a
    /// message.
    fn count_packet(&mut self, flow: usize) -> bool {
        let epoch = self.epoch;
        self.active.retain(|_, last| epoch - *last < 16);
        self.active.insert(flow, epoch).is_none()
    }

    fn n(&self) -> f64 {
        self.active.len().max(1) as f64
    }
}

/// Packets of some flows at a port that is full at some times and not at others; messages begin and end, lose their first or
/// last packets, and are abandoned.
struct Traffic {
    random: SplitMix,
    now: u64,
    gap: u32,
    queue: u32,
    base: Vec<u32>,
}

impl Traffic {
    fn new(seed: u64, flows: usize) -> Self {
        Self { random: SplitMix::new(seed), now: 1_000_000, gap: 87, queue: 0, base: vec![5_000; flows] }
    }

    fn next(&mut self, step: u32) -> (usize, Arrival<'static>) {
        let random = &mut self.random;
        if step.is_multiple_of(700) {
            self.gap = [87, 95, 200, 900][random.within(0..=3) as usize];
            self.queue = [0, 2_000, 20_000][random.within(0..=2) as usize];
        }
        let flow = random.within(0..=self.base.len() as u32 - 1) as usize;
        if random.within(0..=3_000) == 0 {
            // Another path, or a jump of the sender's clock.
            self.base[flow] = random.draw() as u32;
        }
        self.now += match random.within(0..=9_999) {
            0 => u64::from(random.within(12_000..=400_000_000)),
            1..=20 => u64::from(random.within(8_000..=60_000)),
            _ => u64::from(self.gap),
        };
        let delay = self.base[flow].wrapping_add(self.queue).wrapping_add(random.within(0..=3_000));
        let only = random.within(0..=999) == 0;
        let arrived = Stamp::from_bits(self.now as u32);
        let arrival = Arrival {
            local: Qpn::new(flow as u32),
            psn: Psn::new(step & 0xff_ffff),
            bytes: if random.within(0..=99) == 0 { Bytes::new(66) } else { LINK.mtu },
            payload: Bytes::ZERO,
            ecn: Ecn::Ect0,
            mark: Mark::None,
            first: only || random.within(0..=2_000) == 0,
            last: only || random.within(0..=2_000) == 0,
            sent: (random.within(0..=49) != 0).then(|| Stamp::from_bits((self.now as u32).wrapping_sub(delay))),
            arrived,
            int: IntStack::NONE,
            mlcc: None,
        };
        (flow, arrival)
    }

    fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }
}

fn granted(grant: Grant) -> (f64, f64, f64) {
    match grant {
        Grant::Rcc { window, flows, utilisation } => {
            (window.get().into(), flows.into(), f64::from(utilisation) / 65_536.0)
        }
        _ => panic!("no grant"),
    }
}

/// The numbers of the presets, independently of the library, and of the paper's with anti-windup.
fn presets() -> [(RccSettings, Constants); 3] {
    let stable = Constants {
        k_p: 16.0,
        k_d: 7e3,
        delta: 0.2,
        eta: 0.95,
        n: 3,
        round: ROUND,
        least: 1.0,
        youth: 24_000.0,
        unwinds: true,
    };
    let paper = Constants { k_p: 1e4, k_d: 1e5, unwinds: false, ..stable };
    let unwinding = Constants { unwinds: true, ..paper };
    [(STABLE, stable), (PAPER, paper), (RccSettings { unwind: 1, ..PAPER }, unwinding)]
}

fn decoded(machine: &Rcc, before: &Flow) -> Flow {
    let law = machine.law();
    Flow {
        window: law.window().get().into(),
        u: f64::from(law.control()) / f64::from(1 << 28),
        error: law.previous_error().map(f64::from),
        over: law.samples().into(),
        controlled: law.is_controlled(),
        ..*before
    }
}

fn numbers(flow: &Flow, active_flows: &ActiveFlows) -> Vec<f64> {
    // The number of samples matters only until PID control begins.
    let over = if flow.controlled { 0.0 } else { flow.over.into() };
    vec![
        flow.window,
        flow.u,
        flow.controlled.into(),
        over,
        active_flows.n(),
        active_flows.share.min(65_535.0 / 65_536.0),
    ]
}

#[test]
fn every_packet_gets_the_window_of_the_equations() {
    const FLOWS: usize = 5;
    for (seed, (settings, c)) in (1..).zip(presets()) {
        let params = Rcc::check(&settings, &LINK).unwrap();
        let (mut traffic, mut tolerance) = (Traffic::new(seed, FLOWS), Tolerance::default());
        let (mut shared, mut active_flows) = (Rcc::SHARED, ActiveFlows::default());
        let none = Flow { window: 0.0, u: 0.0, error: None, over: 0, controlled: false, began: 0.0, due: 0.0 };
        let (mut machines, mut flows) = ([Rcc::ZEROED; FLOWS], [none; FLOWS]);
        let (mut delays, mut updates) = (vec![Delays::default(); FLOWS], 0);
        for step in 0..150_000 {
            let (index, arrival) = traffic.next(step);
            let now = traffic.now as f64;
            let cx = Cx { now: traffic.instant(), link: &LINK, params: &params };
            if traffic.random.within(0..=9_999) == 0 {
                // Abandoned: its record is removed.
                let gone = traffic.random.within(0..=FLOWS as u32 - 1) as usize;
                machines[gone].on_evicted(&cx, &mut shared);
                machines[gone] = Rcc::open(&cx, &mut shared, None);
                active_flows.active.remove(&gone);
                (flows[gone], delays[gone]) = (none, Delays::default());
            }
            let mut before = decoded(&machines[index], &flows[index]);
            active_flows.receives(now, arrival.bytes.get().into());
            if active_flows.count_packet(index) {
                before.begins(now);
            }
            let (delays, machine) = (&mut delays[index], &mut machines[index]);
            let waited = arrival.one_way().and_then(|delay| {
                // Delays are modulo 2^32 ns: the value nearest to the least delay is used.
                let delay = f64::from(delay.get());
                let near = delays
                    .least()
                    .map_or(delay, |least| delay + 2_f64.powi(32) * ((least - delay) / 2_f64.powi(32)).round());
                delays.waited(now, near)
            });
            let fair = (BDP / active_flows.n()).floor(); // whole bytes
            let allowed = before.receives(&c, now, waited, active_flows.share, fair);

            let (window, n, in_use) = granted(machine.on(&cx, &mut shared, &arrival).grant);
            // After the end of a message only its window can be compared.
            let mut after = decoded(machine, &before);
            if arrival.last {
                let ends = allowed.iter().find(|flow| (flow.window - window).abs() <= window * 1e-3 + 4.0);
                after = Flow { window, ..*ends.unwrap_or(&allowed[0]) };
            }
            let bit = oracle::bit_of_u(after.error, before.error);
            let over = if after.controlled { 0.0 } else { after.over.into() };
            let outcome = [
                ("W", window, 1.0),
                ("U", after.u, bit),
                ("controlled", after.controlled.into(), 0.0),
                ("samples", over, 0.0),
                ("N", n, 0.0),
                ("B_R", in_use, 1.0 / 65_536.0),
            ];
            tolerance.assert(
                &arrival,
                &outcome,
                &allowed.iter().map(|flow| numbers(flow, &active_flows)).collect::<Vec<_>>(),
            );
            // The times of the next step are those of the equations.
            let chosen = allowed.iter().find(|flow| flow.controlled == after.controlled && flow.over == after.over);
            flows[index] = *chosen.unwrap_or(&allowed[0]);
            updates += u32::from(flows[index].due > before.due);
            if arrival.last {
                active_flows.active.remove(&index);
                assert!(!machine.law().is_controlled() && !machine.law().is_active());
            }
        }
        tolerance.finish(100_000);
        assert!(updates > 1_000, "{updates} evaluations of (4)");
    }
}

#[test]
fn acknowledgements_of_the_sender_variant_carry_n_and_b_r() {
    const FLOWS: usize = 9;
    let params = RccSender::check(&STABLE, &LINK).unwrap();
    let (mut traffic, mut tolerance) = (Traffic::new(4, FLOWS), Tolerance::default());
    let (mut shared, mut active_flows) = (RccSender::SHARED, ActiveFlows::default());
    let mut machines: [Option<RccSender>; FLOWS] = [None; FLOWS];
    for step in 0..150_000 {
        let (index, arrival) = traffic.next(step);
        let cx = Cx { now: traffic.instant(), link: &LINK, params: &params };
        active_flows.receives(traffic.now as f64, arrival.bytes.get().into());
        active_flows.count_packet(index);
        let local = Some(Qpn::new(index as u32));
        let machine = machines[index].get_or_insert_with(|| RccSender::open(&cx, &mut shared, local));
        let (_, n, in_use) = granted(machine.on(&cx, &mut shared, &arrival).grant);
        let outcome = [("N", n, 0.0), ("B_R", in_use, 1.0 / 65_536.0)];
        tolerance.assert(&arrival, &outcome, &[vec![active_flows.n(), active_flows.share.min(65_535.0 / 65_536.0)]]);
        if arrival.last {
            active_flows.active.remove(&index);
        }
        if traffic.random.within(0..=999) == 0 {
            let gone = traffic.random.within(0..=FLOWS as u32 - 1) as usize;
            if let Some(gone) = machines[gone].take() {
                gone.on_evicted(&cx, &mut shared);
            }
            active_flows.active.remove(&gone);
        }
    }
    tolerance.finish(100_000);
}
