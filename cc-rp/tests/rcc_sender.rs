//! RCC's sender variant compared with its equations in double precision: one event at a time from the machine's own state, and
//! in a loop with a queue.

#[allow(unreachable_pub, reason = "a module that several tests share")]
#[path = "rcc_equations/mod.rs"]
mod oracle;
#[allow(unreachable_pub, reason = "a module that several tests share")]
mod tolerance;

use cc_core::{Bytes, Delay, Grant, Instant, Link, Nanos, Psn, Rate};
use cc_rp::rcc_sender::{PAPER, Params, RccSender, RccSenderSettings, STABLE};
use cc_rp::{Ack, Cx, Decision, Event, ReactionPoint};
use oracle::{Constants, Delays, Flow};
use tolerance::{SplitMix, Tolerance};

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(12_000) };
const BDP: f64 = 150_000.0;

/// The presets, written down independently, and the paper's with anti-windup.
fn presets() -> [(RccSenderSettings, Constants); 3] {
    let stable = Constants {
        k_p: 16.0,
        k_d: 7e3,
        delta: 0.2,
        eta: 0.95,
        n: 3,
        round: 12_000.0,
        least: 16.0, // 10 Mb/s
        youth: 36_000.0,
        unwinds: true,
    };
    let paper = Constants { k_p: 1e4, k_d: 1e5, unwinds: false, ..stable };
    let unwinding = Constants { unwinds: true, ..paper };
    [(STABLE, stable), (PAPER, paper), (RccSenderSettings { unwind: 1, ..PAPER }, unwinding)]
}

fn cx(params: &Params, now: u64) -> Cx<'_, Params> {
    let now = Instant::from_nanos(now);
    Cx { now, link: &LINK, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
}

fn decoded(machine: &RccSender, before: &Flow) -> Flow {
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

fn numbers(flow: &Flow) -> Vec<f64> {
    // Samples are counted until PID control begins.
    let over = if flow.controlled { 0.0 } else { flow.over.into() };
    vec![flow.window, flow.u, flow.controlled.into(), over, (flow.window / 12_000.0).clamp(0.00125, 12.5)]
}

fn compare(
    tolerance: &mut Tolerance,
    event: &Event<'_>,
    before: &Flow,
    after: &Flow,
    decision: Decision,
    allowed: &[Flow],
) {
    let bits = [1.0, oracle::bit_of_u(after.error, before.error), 0.0, 0.0, 1.0 / 12_000.0];
    let names = ["W", "U", "controlled", "samples", "rate"];
    let mut values = numbers(after);
    values[4] = f64::from(decision.rate.to_bits()) / f64::from(1 << 24);
    let outcome: Vec<_> = (0..5).map(|index| (names[index], values[index], bits[index])).collect();
    tolerance.assert(event, &outcome, &allowed.iter().map(numbers).collect::<Vec<_>>());
}

#[test]
fn each_event_is_what_the_equations_say() {
    for (seed, (settings, c)) in (1..).zip(presets()) {
        let params = RccSender::check(&settings, &LINK).unwrap();
        let (mut random, mut tolerance) = (SplitMix::new(seed), Tolerance::default());
        let (mut now, mut sent, mut acked, mut acked_at) = (1_000_u64, 0xff_ff00_u64, None::<u64>, 0_u64);
        let mut machine = RccSender::open(&cx(&params, now));
        let mut flow = Flow { window: BDP, u: 0.0, error: None, over: 0, controlled: false, began: 0.0, due: 0.0 };
        let (mut delays, mut under_way, mut base, mut busy, mut updates) = (Delays::default(), false, 12_000, 0, 0);
        for step in 0..150_000_u32 {
            now += match random.within(0..=999) {
                0 => u64::from(random.within(200_000..=400_000_000)),
                1..=99 => u64::from(random.within(5_000..=200_000)),
                _ => u64::from(random.within(80..=3_000)),
            };
            // Path and load change from time to time.
            if step % 5_000 == 0 {
                base = random.within(10_000..=200_000);
            }
            if step % 300 == 0 {
                busy = random.within(0..=2);
            }
            if under_way && acked == Some(sent) && now - acked_at >= 192_000 {
                under_way = false;
                flow = Flow { u: 0.0, error: None, over: 0, controlled: false, ..flow };
            }
            let before = Flow { began: flow.began, due: flow.due, ..decoded(&machine, &flow) };
            let before = if under_way { before } else { Flow { window: before.window, ..flow } };
            let psn = |number: u64| Psn::new((number & 0xff_ffff) as u32);
            let (event, allowed) = match random.within(0..=9) {
                0..=3 => {
                    sent += 1;
                    let mut after = before;
                    if !under_way {
                        after.begins(now as f64);
                        under_way = true;
                    }
                    (Event::Sent { psn: psn(sent), bytes: LINK.mtu }, vec![after])
                }
                4 if random.within(0..=9) == 0 => {
                    let back = sent - u64::from(random.within(0..=3));
                    let after = vec![before];
                    if acked.is_none_or(|acked| back > acked) {
                        sent = back - 1;
                        (Event::Nack { psn: psn(back) }, after)
                    } else {
                        (Event::Wake, after)
                    }
                }
                4 => (Event::Wake, vec![before]),
                _ => {
                    // Most are the next; some are old, or of what was not sent.
                    let of = match random.within(0..=19) {
                        0 => acked.unwrap_or(sent).saturating_sub(random.within(1..=900).into()),
                        1 => sent + u64::from(random.within(1..=900)),
                        2..=8 => sent,
                        _ => acked.map_or(sent, |acked| (acked + 1).min(sent)),
                    };
                    let flows = if random.within(0..=9) == 0 { random.within(1..=3_000) } else { random.within(1..=3) };
                    let in_use = if busy == 0 { random.within(50_000..=65_535) } else { random.within(0..=50_000) };
                    let rtt = base + if busy == 1 { random.within(0..=40_000) } else { random.within(0..=3_000) };
                    let delayed = random.within(0..=19) != 0;
                    let mut after = vec![before];
                    if under_way && of <= sent && acked.is_none_or(|acked| of >= acked) {
                        (acked, acked_at) = (Some(of), now);
                        let waited = if delayed { delays.waited(now as f64, rtt.into()) } else { None };
                        let fair = (BDP / f64::from(flows)).floor(); // whole bytes
                        after = before.receives(&c, now as f64, waited, f64::from(in_use) / 65_536.0, fair);
                    }
                    let grant = Grant::Rcc { window: Bytes::ZERO, flows: flows as u16, utilisation: in_use as u16 };
                    let delay = delayed.then(|| Delay {
                        rtt: Nanos::new(rtt + 700),
                        receiver_hold: Nanos::new(700),
                        ..Delay::default()
                    });
                    (Event::Ack(Ack { psn: psn(of), delay, grant, ..Ack::default() }), after)
                }
            };
            let decision = machine.on(&cx(&params, now), &event);
            let after = decoded(&machine, &before);
            compare(&mut tolerance, &event, &before, &after, decision, &allowed);
            // The times of the next evaluation are those of the equations.
            let chosen = allowed.iter().find(|flow| flow.controlled == after.controlled && flow.over == after.over);
            flow = *chosen.unwrap_or(&allowed[0]);
            updates += u32::from(flow.due > before.due);
            assert_eq!(machine.law().least_delay().map(f64::from), delays.least());
        }
        tolerance.finish(100_000);
        assert!(updates > 1_000, "{updates} evaluations of (4)");
    }
}

/// Eq. 7 and 8: flows to different receivers share a queue inside the network, and acknowledgements are half a round trip late.
/// The queue settles at the value that makes the error of (2) zero, 1.2 us or 15 KB, with the link fully used, for those of the
/// paper's gains with which the loop is stable.
#[test]
fn a_queue_inside_the_network_settles_where_the_error_of_equation_2_is_zero() {
    for flows in [2_usize, 8] {
        let params = RccSender::check(&STABLE, &LINK).unwrap();
        let mut machines = vec![RccSender::open(&cx(&params, 0)); flows];
        let mut windows = vec![BDP; flows];
        let (mut queue, mut delayed) = (0.0_f64, std::collections::VecDeque::from(vec![12_000.0_f64; 12]));
        let (mut sum, mut squares, mut samples, mut sent) = (0.0, 0.0, 0, 0.0);
        // 120 ms in steps of 500 ns: a queue of 300 or 1 200 KB is reduced in the first 80 ms.
        for step in 1..240_000_u32 {
            let now = u64::from(step) * 500;
            let rtt = 12_000.0 + queue / 12.5;
            let arriving: f64 = windows.iter().map(|window| window / rtt * 500.0).sum();
            let served = (queue + arriving).min(6_250.0);
            queue = queue + arriving - served;
            delayed.push_back(rtt);
            let rtt = delayed.pop_front().unwrap();
            for (machine, window) in machines.iter_mut().zip(&mut windows) {
                let psn = Psn::new(step & 0xff_ffff);
                machine.on(&cx(&params, now), &Event::Sent { psn, bytes: LINK.mtu });
                let grant = Grant::Rcc { window: Bytes::ZERO, flows: 1, utilisation: (65_536 / flows) as u16 };
                let delay = Some(Delay { rtt: Nanos::new(rtt as u32), ..Delay::default() });
                machine.on(&cx(&params, now), &Event::Ack(Ack { psn, delay, grant, ..Ack::default() }));
                *window = machine.law().window().get().into();
            }
            if step > 160_000 {
                sum += queue;
                squares += queue * queue;
                sent += served;
                samples += 1;
            }
        }
        assert!(machines.iter().all(|machine| machine.law().is_controlled()));
        let (mean, used) = (sum / f64::from(samples), sent / f64::from(samples) / 6_250.0);
        let spread = (squares / f64::from(samples) - mean * mean).max(0.0).sqrt();
        assert!((mean - 15_000.0).abs() < 1_500.0, "{flows} flows: a queue of {mean}, and {spread} about it");
        assert!(used > 0.99, "{flows} flows use {used}");
        let total: f64 = windows.iter().sum();
        let jain = total * total / (flows as f64 * windows.iter().map(|window| window * window).sum::<f64>());
        assert!(jain > 0.99, "{jain}");
    }
}
