use super::*;
use crate::RpEngine;
use cc_core::{Hop, Instant, IntLayout, IntStackBuilder, Rate};
use proptest::prelude::*;
use std::vec::Vec;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(12_000) };
type Machine = PowerTcp<5>;

const _: () = assert!(RpEngine::<PowerTcp5, 1024, 2048>::QP_BYTES <= 136, "a flow has outgrown 136 bytes");

struct Bench {
    link: Link,
    params: Params,
    flow: Machine,
    now: u64,
}

impl Bench {
    fn new(link: Link) -> Self {
        let params = Machine::check(&PAPER, &link).unwrap();
        let flow = Machine::open(&cx(5_000, &link, &params));
        Self { link, params, flow, now: 5_000 }
    }

    fn on(&mut self, event: &Event<'_>) -> Decision {
        self.flow.on(&cx(self.now, &self.link, &self.params), event)
    }

    fn sent(&mut self, psn: u32) -> Decision {
        self.on(&Event::Sent { psn: Psn::new(psn), bytes: Bytes::new(1_064) })
    }

    fn ack(&mut self, psn: u32, hops: &[Hop]) -> Decision {
        let int = IntStackBuilder::new(IntLayout::Wide, 7).with(hops.iter().copied());
        self.on(&Event::Ack(Ack { psn: Psn::new(psn), int: int.stack(), ..Ack::default() }))
    }
}

fn cx<'a>(now: u64, link: &'a Link, params: &'a Params) -> Cx<'a, Params> {
    let now = Instant::from_nanos(now);
    Cx { now, link, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
}

fn hop(clock: u32, sent: u32, queue: u32) -> Hop {
    Hop { mbps: 100_000, flags: 0, clock, sent: sent / 64, queue }
}

/// T1: with Gamma = 1 and cwnd_old = cwnd, the window gains gamma beta, exactly.
#[test]
fn a_power_of_one_adds_gamma_beta_exactly() {
    let params = Machine::check(&PAPER, &LINK).unwrap();
    let mut window = Window::open(&params);
    (window.now, window.old) = (70_000, 70_000);
    window.update(&params, 1 << FINE, 12_000);
    // 0.9 x 15 000, gamma being 58 982 / 65 536.
    assert_eq!((window.now, window.power), (70_000 + 13_499, 1 << FINE));
}

#[test]
fn a_full_link_without_a_queue_has_power_one_and_a_growing_queue_more() {
    let mut bench = Bench::new(LINK);
    bench.sent(200);
    bench.ack(1, &[hop(0, 0, 0)]);
    bench.now += 12_000;
    bench.ack(2, &[hop(12_000, 150_016, 0)]);
    let power = |bench: &Bench| f64::from(bench.flow.window().power().unwrap()) / f64::from(1 << FINE);
    assert!((power(&bench) - 1.0).abs() < 2e-3, "{}", power(&bench));
    bench.now += 12_000;
    // The queue grows by half of what leaves: lambda = 1.5 B, nu = 1.5 B tau.
    bench.ack(3, &[hop(24_000, 300_032, 75_000)]);
    assert!((power(&bench) - 2.25).abs() < 5e-3, "{}", power(&bench));
}

#[test]
fn a_draining_queue_is_less_power_and_the_window_grows_b11() {
    let mut bench = Bench::new(LINK);
    bench.sent(200);
    (bench.flow.window.now, bench.flow.window.old) = (60_000, 60_000);
    bench.ack(1, &[hop(0, 0, 100_000)]);
    for round in 1..6_u32 {
        bench.now += 12_000;
        let before = bench.flow.window().bytes();
        bench.ack(1 + round, &[hop(12_000 * round, 60_000 * round, 100_000 - 20_000 * round)]);
        let most = Bytes::new(150_000);
        assert!(bench.flow.window().bytes() > before || before == most, "round {round}");
    }
}

/// B12: no product overflows at any speed and round trip, and the power is that of exact arithmetic to a hundredth.
#[test]
fn powers_of_fast_and_long_links_are_right_to_a_hundredth_b12() {
    for gbps in [25_u32, 100, 200, 400, 800] {
        for micros in [1_u32, 12, 100, 1_000] {
            let base_rtt = Nanos::new(micros * 1_000);
            let link = Link { line_rate: Rate::from_gbps(gbps), base_rtt, ..LINK };
            let mut bench = Bench::new(link);
            bench.sent(200);
            let t = micros * 1_000;
            let carried = |share: u64| (u64::from(gbps) * u64::from(t) / 8 * share / 10) as u32 / 64 * 64;
            let record = |clock, sent, queue| Hop { mbps: gbps * 1_000, flags: 0, clock, sent: sent / 64, queue };
            let (sent, before, after) = (carried(8), carried(1), carried(3));
            bench.ack(1, &[record(0, 0, before)]);
            bench.now += u64::from(t);
            bench.ack(2, &[record(t, sent, after)]);
            // lambda nu / (B^2 tau) with 128 bits, in units of 2^-24, B in bytes per 1 000 ns.
            let (b, tau) = (u128::from(gbps) * 125, u128::from(t));
            let lambda = u128::from(sent + after - before) * 1_000;
            let nu = u128::from(after) * 1_000 + b * tau;
            let exact = ((lambda * nu) << 24) / (b * b * tau * tau);
            let found = u128::from(bench.flow.window().power().unwrap());
            assert!(found.abs_diff(exact) * 100 <= exact, "{gbps} Gb/s, {micros} us: {found}, exactly {exact}");
        }
    }
}

/// B19: a flow's memory does not grow with its packets in flight, and acknowledgements at one instant divide by nothing.
#[test]
fn a_million_packets_in_flight_take_no_more_memory_and_equal_times_no_division_b19() {
    let mut bench = Bench::new(LINK);
    for psn in 0..1_000_000 {
        bench.sent(psn);
    }
    let records = [hop(10, 0, 0)];
    bench.ack(1, &records);
    let before = bench.flow.window;
    for psn in 2..100 {
        bench.ack(psn, &records);
        assert_eq!(bench.flow.unmeasured(EventSet::ACK), Unmeasured::TOO_SOON);
    }
    let after = bench.flow.window;
    assert_eq!((after.now, after.old, after.power), (before.now, before.old, before.power));
}

/// C8: five gigabytes on one flow, through every counter's wrap.
#[test]
fn five_gigabytes_change_nothing_for_good_c8() {
    let mut bench = Bench::new(LINK);
    let (mut clock, mut sent, mut least) = (0_u32, 0_u64, u32::MAX);
    for psn in 0..4_900_000_u32 {
        if psn % 100 == 0 {
            bench.now += 8_500;
            clock = clock.wrapping_add(8_500);
            sent += 102_400;
            bench.sent((psn + 100) & 0x00ff_ffff);
            let hop = Hop { mbps: 100_000, flags: 0, clock, sent: (sent / 64) as u32, queue: 0 };
            bench.ack(psn & 0x00ff_ffff, &[hop]);
            if psn > 10_000 {
                least = least.min(bench.flow.window().bytes().get());
            }
        }
    }
    assert!(sent > 5_000_000_000 && least > 140_000, "{least}");
}

/// C10, C14: cuts end at the floor.
#[test]
fn cuts_end_at_the_least_window_c10_c14() {
    let mut bench = Bench::new(LINK);
    bench.sent(10_000);
    for round in 0..200_u32 {
        bench.now += 12_000;
        let decision = bench.ack(1 + round, &[hop(12_000 * round, 0, 3_000_000_000)]);
        assert!(decision.window.get() >= 1_064 && decision.rate >= Rate::from_mbps(100));
        assert!(decision.window.get() <= 150_000);
    }
}

proptest! {
    #[test]
    fn wakes_change_no_decision(
        steps in prop::collection::vec((0..60_000_u64, any::<u32>(), 0..200_000_u32, 0..8_u8), 1..120),
    ) {
        let (mut woken, mut left) = (Bench::new(LINK), Bench::new(LINK));
        let (mut clock, mut sent, mut psn) = (0_u32, 0_u32, 0_u32);
        for (gap, bytes, queue, kind) in steps {
            let gap = if kind == 7 { gap * 10_000 } else { gap };
            for part in 1..4 {
                woken.now = left.now + gap * part / 4;
                woken.on(&Event::Wake);
            }
            left.now += gap;
            woken.now = left.now;
            clock = clock.wrapping_add(gap as u32);
            sent = sent.wrapping_add(bytes % (gap.min(60_000) as u32 * 12 + 1));
            psn += 1;
            let records = [hop(clock, sent, queue), hop(clock.wrapping_add(9), sent / 2, queue / 3)];
            let decisions = [&mut woken, &mut left].map(|bench| match kind {
                0 => bench.on(&Event::Nack { psn: Psn::new(psn.saturating_sub(30)) }),
                1 => bench.ack(psn.saturating_sub(40), &records[..1]),
                _ => {
                    bench.sent(psn + 60);
                    bench.ack(psn, &records)
                }
            });
            prop_assert_eq!(decisions[0], decisions[1]);
        }
    }
}

/// The choice at the head: cwnd halves after each `no_int_rtts` round trips without telemetry that can be measured.
#[test]
fn a_path_without_telemetry_halves_the_window_every_fourth_round_trip() {
    let mut bench = Bench::new(LINK);
    bench.sent(0);
    let mut windows = Vec::new();
    for trip in 0..8 {
        bench.now += u64::from(LINK.base_rtt.get());
        bench.sent(trip + 1);
        // The second of each pair acknowledges what was sent before the trip began: it is not over.
        bench.ack(trip + 1, &[]);
        bench.sent(trip + 1);
        windows.push(bench.flow.window.now);
    }
    let most = bench.params.most_window;
    assert_eq!(windows, [most, most, most, most / 2, most / 2, most / 2, most / 2, most / 4]);
    assert_eq!(bench.flow.unmeasured(EventSet::ACK), Unmeasured::MISSING);
}
