use super::*;
use crate::powertcp::PAPER;
use cc_core::{Delay, Instant, Psn, Rate};
use proptest::prelude::*;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(12_000) };

struct Bench {
    params: Params,
    flow: ThetaPowerTcp,
    now: u64,
}

impl Bench {
    fn new() -> Self {
        let params = ThetaPowerTcp::check(&PAPER, &LINK).unwrap();
        let flow = ThetaPowerTcp::open(&cx(5_000, &params));
        Self { params, flow, now: 5_000 }
    }

    fn on(&mut self, event: &Event<'_>) -> Decision {
        self.flow.on(&cx(self.now, &self.params), event)
    }

    fn ack(&mut self, psn: u32, rtt: u32) -> Decision {
        self.on(&Event::Sent { psn: Psn::new(psn + 50), bytes: Bytes::new(1_064) });
        let delay = Some(Delay { rtt: Nanos::new(rtt), ..Delay::default() });
        self.on(&Event::Ack(Ack { psn: Psn::new(psn), delay, ..Ack::default() }))
    }

    fn power(&self) -> f64 {
        self.flow.window().power().map_or(f64::NAN, |power| f64::from(power) / f64::from(1 << FINE))
    }
}

fn cx(now: u64, params: &Params) -> Cx<'_, Params> {
    let now = Instant::from_nanos(now);
    Cx { now, link: &LINK, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
}

#[test]
fn an_empty_network_has_power_one_and_a_steady_queue_its_share_of_the_round_trip() {
    for (rtt, expected) in [(12_000, 1.0), (18_000, 1.5)] {
        let mut bench = Bench::new();
        bench.ack(1, rtt);
        for round in 1..4 {
            bench.now += 12_000;
            bench.ack(1 + 60 * round, rtt);
        }
        assert!((bench.power() - expected).abs() < 1e-3, "{}", bench.power());
    }
}

/// B11: delays that fall by 10 us a round trip mean less power than constant ones, and the window grows.
#[test]
fn falling_delays_raise_the_window_b11() {
    let mut bench = Bench::new();
    bench.ack(1, 62_000);
    (bench.flow.window.now, bench.flow.window.old) = (40_000, 40_000);
    for round in 1..5 {
        bench.now += 12_000;
        let before = bench.flow.window().bytes();
        bench.ack(1 + 60 * round, 62_000 - 10_000 * round);
        let grown = bench.flow.window().bytes() > before || before == Bytes::new(150_000);
        assert!(grown && (round == 1 || bench.power() < 1.0), "round {round}: {}", bench.power());
    }
}

/// B19: two acknowledgements at one instant, and no hops at all.
#[test]
fn acknowledgements_at_one_instant_divide_by_nothing_b19() {
    let mut bench = Bench::new();
    bench.ack(1, 12_000);
    let before = bench.flow.window().bytes();
    bench.ack(80, 90_000);
    assert_eq!(bench.flow.window().bytes(), before);
}

/// C12: a path that becomes shorter and longer again is followed both ways.
#[test]
fn another_path_is_followed_in_both_directions_c12() {
    let mut bench = Bench::new();
    let mut psn = 1;
    let mut settled = |bench: &mut Bench, rtt| {
        for _ in 0..60 {
            bench.now += u64::from(rtt);
            bench.ack(psn, rtt);
            psn += 60;
        }
        bench.flow.window().bytes().get()
    };
    let (long, short, again) = (settled(&mut bench, 50_000), settled(&mut bench, 20_000), settled(&mut bench, 50_000));
    assert!(short > long && long.abs_diff(again) * 20 < long, "{long} {short} {again}");
}

proptest! {
    #[test]
    fn ratios_are_right(part in 0..1_u32 << 31, whole in 1..1_u32 << 31) {
        let exact = (f64::from(part) / f64::from(whole)).min(16.0);
        let found = f64::from(ratio(part, whole)) / f64::from(1 << FINE);
        prop_assert!((found - exact).abs() <= exact / 1_024.0 + 1.0 / 16_384.0, "{found} for {exact}");
    }

    #[test]
    fn wakes_change_no_decision(steps in prop::collection::vec((0..60_000_u64, 0..500_000_u32, 0..8_u8), 1..120)) {
        let (mut woken, mut left) = (Bench::new(), Bench::new());
        let mut psn = 0;
        for (gap, rtt, kind) in steps {
            let gap = if kind == 7 { gap * 10_000 } else { gap };
            for part in 1..4 {
                woken.now = left.now + gap * part / 4;
                woken.on(&Event::Wake);
            }
            left.now += gap;
            woken.now = left.now;
            psn += 20;
            let decisions = [&mut woken, &mut left].map(|bench| match kind {
                0 => bench.on(&Event::Nack { psn: Psn::new(psn) }),
                _ => bench.ack(psn, rtt),
            });
            prop_assert_eq!(decisions[0], decisions[1]);
        }
    }
}
