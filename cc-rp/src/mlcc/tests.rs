use super::*;
use crate::RpEngine;
use cc_core::{Hop, Instant, IntLayout, IntStackBuilder, Psn};
use proptest::prelude::*;
use std::string::{String, ToString};
use std::vec::Vec;

const LINK: Link = Link { line_rate: Rate::from_gbps(25), mtu: Bytes::new(1_064), base_rtt: Nanos::new(24_000) };

const _: () = assert!(size_of::<Mlcc>() <= 112, "a flow has outgrown 112 bytes");
const _: () = assert!(RpEngine::<Mlcc, 1024, 2048>::QP_BYTES <= 152, "with pacer, wheel and map, 152");

struct Bench {
    params: Params,
    flow: Mlcc,
    now: u64,
}

impl Bench {
    fn new() -> Self {
        let params = Mlcc::check(&PAPER, &LINK).unwrap();
        let now = Instant::from_nanos(0);
        let flow = Mlcc::open(&Cx {
            now,
            link: &LINK,
            params: &params,
            pause: Nanos::ZERO,
            clock_without_pauses: now.stamp(),
        });
        Self { params, flow, now: 0 }
    }

    fn on(&mut self, event: &Event<'_>) -> Decision {
        let now = Instant::from_nanos(self.now);
        let cx = Cx { now, link: &LINK, params: &self.params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() };
        assert!(self.flow.transition(&cx, event) < Mlcc::TRANSITIONS.len());
        self.flow.on(&cx, event)
    }

    fn sent(&mut self, psn: u32) -> Decision {
        self.on(&Event::Sent { psn: Psn::new(psn), bytes: LINK.mtu })
    }

    fn ack(&mut self, psn: u32, mbps: u32) -> u64 {
        let grant = Grant::Mlcc { credit: 1, release: Rate::from_gbps(20), advised_rate: Rate::from_mbps(mbps) };
        rate_of(self.on(&Event::Ack(Ack { psn: Psn::new(psn), grant, ..Ack::default() })))
    }

    fn switch_int(&mut self, hops: &[Hop]) -> u64 {
        let int = IntStackBuilder::new(IntLayout::Wide, 1).with(hops.iter().copied());
        rate_of(self.on(&Event::SwitchInt { int: int.stack() }))
    }
}

/// A decision's rate in Mb/s, rounded.
fn rate_of(decision: Decision) -> u64 {
    assert_eq!((decision.window, decision.hold, decision.wake_in), (Bytes::MAX, Nanos::ZERO, Nanos::MAX));
    (u64::from(decision.rate.to_bits()) * 8_000 + (1 << 23)) >> 24
}

/// The record of a link of 25 Gb/s that has sent `sent` bytes.
const fn hop(clock: u32, sent: u32, queue: u32) -> Hop {
    Hop { mbps: 25_000, flags: 0, clock, sent: sent / 64, queue }
}

#[test]
fn the_rate_is_the_lesser_of_what_either_end_allows() {
    let mut bench = Bench::new();
    assert_eq!(rate_of(bench.sent(100)), 25_000, "a flow begins at line rate");
    assert_eq!(bench.ack(1, 20_000), 20_000);
    // The link to the interconnect switch is full: W = eta W_init + W_AI.
    assert_eq!(bench.switch_int(&[hop(0, 0, 0)]), 20_000, "stored");
    bench.now = 24_000;
    assert_eq!(bench.switch_int(&[hop(24_000, 75_000, 0)]), 20_000, "23.8 Gb/s would be allowed");
    // U is right to 7e-4.
    assert!(bench.ack(2, 25_000).abs_diff(23_800) < 20);
    assert_eq!(bench.ack(3, 10_000), 10_000);
    // The link is empty again: R_NS rises above R_DQM.
    for round in 2..30 {
        bench.now += 24_000;
        assert_eq!(bench.switch_int(&[hop(24_000 * round, 75_000, 0)]), 10_000);
    }
    assert_eq!(bench.ack(4, 0), 25, "the least rate");
}

#[test]
fn the_reference_follows_once_in_a_local_round_trip() {
    let mut bench = Bench::new();
    bench.switch_int(&[hop(0, 0, 0)]);
    let reference = bench.flow.law().reference();
    // Full, for a quarter of a round trip: W by U from Wc, which stays.
    bench.now = 6_000;
    bench.switch_int(&[hop(6_000, 18_750, 75_000)]);
    assert_eq!(bench.flow.law().reference(), reference);
    assert!(bench.flow.law().window() < reference);
    bench.now = 24_000;
    bench.switch_int(&[hop(24_000, 75_000, 75_000)]);
    assert_eq!(bench.flow.law().reference(), bench.flow.law().window());
}

/// The choice at the head: R_NS halves after each `no_int_rtts` local round trips of broken Switch-INT.
#[test]
fn broken_switch_int_halves_the_rate_every_four_round_trips_down_to_the_least() {
    let mut bench = Bench::new();
    let down = Hop { mbps: 0, ..hop(0, 0, 0) };
    let mut rates = Vec::new();
    for round in 0..64 {
        bench.now += 24_000;
        rates.push(bench.switch_int(&[Hop { clock: 24_000 * round, ..down }]));
        // More of it in the same round trip changes nothing.
        bench.now += 100;
        assert_eq!(bench.switch_int(&[Hop { clock: 24_000 * round + 100, ..down }]), rates[round as usize]);
    }
    // The first is the baseline.
    assert_eq!(
        rates[..13],
        [25_000, 25_000, 25_000, 25_000, 12_500, 12_500, 12_500, 12_500, 6_250, 6_250, 6_250, 6_250, 3_125]
    );
    assert_eq!(rates[63], 25, "the least rate");
    // Measured telemetry of an empty path ends this: R_NS rises by W_AI in a round trip.
    for round in 64..67 {
        bench.now += 24_000;
        rates.push(bench.switch_int(&[hop(24_000 * round, 0, 0)]));
    }
    assert!(rates[66] > rates[63], "{rates:?}");
    let off = Mlcc::check(&MlccSettings { no_int_rtts: 0, ..PAPER }, &LINK).unwrap();
    let mut never = Bench { params: off, ..Bench::new() };
    for round in 0..20 {
        never.now += 24_000;
        assert_eq!(never.switch_int(&[Hop { clock: 24_000 * round, ..down }]), 25_000);
    }
}

/// At the least rate a packet leaves every 340 us, and telemetry that far apart is not compared.
#[test]
fn a_flow_too_slow_to_be_measured_rises_again() {
    let mut bench = Bench::new();
    for round in 0..10 {
        bench.now = u64::from(round) * 24_000;
        bench.switch_int(&[hop(24_000 * round, 75_000 * round, 2_000_000)]);
    }
    let start = bench.now;
    assert!(rate_of(bench.on(&Event::Wake)) < 100);
    let mut rate = 0;
    for packet in 1..=10_u32 {
        bench.now = start + 340_000 * u64::from(packet);
        rate = bench.switch_int(&[hop(216_000 + 340_000 * packet, 675_000 + 1_064 * packet, 0)]);
    }
    assert!(rate > 500, "50 Mb/s a packet: {rate}");
}

#[test]
fn rates_of_old_and_of_impossible_acknowledgements_are_not_used() {
    let mut bench = Bench::new();
    assert_eq!(bench.ack(5, 1_000), 25_000, "nothing was sent");
    bench.sent(0x00ff_fff0);
    assert_eq!(bench.ack(0x00ff_ffe0, 9_000), 9_000);
    assert_eq!(bench.ack(0x00ff_ffdf, 1_000), 9_000, "old");
    assert_eq!(bench.ack(0x00ff_fff1, 1_000), 9_000, "not sent");
    bench.sent(0x10);
    assert_eq!(bench.ack(0x2, 8_000), 8_000, "through the wrap");
    bench.on(&Event::Nack { psn: Psn::new(0x5) });
    assert_eq!(bench.ack(0x8, 1_000), 8_000, "to be sent again");
    let other = Grant::Rcc { window: Bytes::new(5), flows: 1, utilisation: 0 };
    let ack = Ack { psn: Psn::new(3), grant: other, ..Ack::default() };
    assert_eq!(rate_of(bench.on(&Event::Ack(ack))), 8_000, "another algorithm's");
}

/// Seconds without acknowledgements do not raise the rate.
#[test]
fn time_without_acknowledgements_changes_nothing() {
    let mut bench = Bench::new();
    bench.sent(9);
    bench.ack(1, 3_000);
    for second in 1..=20_u64 {
        bench.now = second * 500_000_000;
        assert_eq!(rate_of(bench.on(&Event::Wake)), 3_000);
    }
    assert_eq!(rate_of(bench.sent(10)), 3_000);
}

#[test]
fn conflicting_settings_are_named() {
    let refused = |settings| match Mlcc::check(&settings, &LINK) {
        Err(error) => error.to_string(),
        Ok(_) => String::new(),
    };
    assert_eq!(refused(PAPER), "");
    assert_eq!(refused(MlccSettings { int_multi: 12, ..PAPER }), "int_multi: must be a power of two");
    assert_eq!(refused(MlccSettings { min_rate: 25_001, ..PAPER }), "min_rate: must be at most the speed of the port");
    assert!(refused(MlccSettings { local_rtt: 10, ..PAPER }).starts_with("local_rtt: must be from 1 us to 16 ms"));
}

proptest! {
    /// Wakes discard only records that were too old to compare with.
    #[test]
    fn wakes_change_no_decision(
        steps in prop::collection::vec((0..60_000_u64, any::<u32>(), 0..200_000_u32, 0..8_u8), 1..120),
    ) {
        let (mut woken, mut left) = (Bench::new(), Bench::new());
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
            sent = sent.wrapping_add(bytes % (gap.min(60_000) as u32 * 3 + 1));
            psn += 1;
            let records = [hop(clock, sent, queue), hop(clock.wrapping_add(9), sent / 2, queue / 3)];
            let decisions = [&mut woken, &mut left].map(|bench| match kind {
                0 => rate_of(bench.on(&Event::Nack { psn: Psn::new(psn.saturating_sub(30)) })),
                1 => bench.ack(psn.saturating_sub(40), bytes % 30_000),
                2 => bench.ack(psn, bytes % 30_000),
                3 => rate_of(bench.sent(psn + 60)),
                _ => bench.switch_int(&records),
            });
            prop_assert_eq!(decisions[0], decisions[1]);
        }
    }
}
