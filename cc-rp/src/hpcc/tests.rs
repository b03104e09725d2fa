use super::*;
use crate::RpEngine;
use cc_core::{Hop, Instant, IntLayout, IntStackBuilder, Rate};
use proptest::prelude::*;
use std::string::ToString;
use std::vec::Vec;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(12_000) };
type Machine = Hpcc<5>;

const _: () = assert!(RpEngine::<Hpcc5, 1024, 2048>::QP_BYTES <= 136, "a flow has outgrown 136 bytes");

struct Bench {
    params: Params,
    flow: Machine,
    now: u64,
}

impl Bench {
    fn new(settings: HpccSettings) -> Self {
        let params = Machine::check(&settings, &LINK).unwrap();
        let now = 5_000;
        let flow = Machine::open(&cx(now, &params));
        Self { params, flow, now }
    }

    fn on(&mut self, event: &Event<'_>) -> Decision {
        self.flow.on(&cx(self.now, &self.params), event)
    }

    fn sent(&mut self, psn: u32) -> Decision {
        self.on(&Event::Sent { psn: Psn::new(psn), bytes: Bytes::new(1_064) })
    }

    fn ack(&mut self, psn: u32, hops: &[Hop]) -> Decision {
        let int = IntStackBuilder::new(IntLayout::Wide, 7).with(hops.iter().copied());
        self.on(&Event::Ack(Ack { psn: Psn::new(psn), int: int.stack(), ..Ack::default() }))
    }
}

fn cx(now: u64, params: &Params) -> Cx<'_, Params> {
    let now = Instant::from_nanos(now);
    Cx { now, link: &LINK, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
}

/// A record of a 100 Gb/s port.
fn hop(clock: u32, sent: u32, queue: u32) -> Hop {
    Hop { mbps: 100_000, flags: 0, clock, sent: sent / 64, queue }
}

/// A flow one round trip after its first acknowledgement.
fn begun() -> Bench {
    let mut bench = Bench::new(DRAFT);
    bench.sent(100);
    bench.ack(1, &[hop(0, 0, 0)]);
    bench.now += 12_000;
    bench
}

#[test]
fn a_flow_begins_with_what_the_port_carries_in_a_round_trip() {
    let bench = Bench::new(DRAFT);
    let decision = bench.flow.decision(&bench.params);
    assert_eq!((decision.window.get(), decision.rate), (150_000, LINK.line_rate));
    assert_eq!(bench.flow.utilisation(), bench.params.eta);
}

/// The first measurement covers a quarter of T: a busy link with twice of what it carries in T before it, u = 3. U is three
/// quarters of its first value and a quarter of that, and W = W_init eta / U + W_AI.
#[test]
fn the_first_update_averages_with_the_first_utilisation() {
    for (initial_u, first) in [(0, 0.95), (600_000, 0.6), (1_000_000, 1.0)] {
        let mut bench = Bench::new(HpccSettings { initial_u, ..DRAFT });
        bench.sent(100);
        bench.ack(1, &[hop(0, 0, 300_000)]);
        bench.now += 3_000;
        bench.ack(2, &[hop(3_000, 37_504, 300_000)]);
        let expected = 0.75 * first + 0.25 * 3.0;
        let found = f64::from(bench.flow.utilisation()) / f64::from(1 << 24);
        assert!((found / expected - 1.0).abs() < 1e-3, "{initial_u}: {found} for {expected}");
        let (window, expected) = (f64::from(bench.flow.window().get()), 150_000.0 * 0.95 / expected + 75.0);
        assert!((window / expected - 1.0).abs() < 2e-3, "{initial_u}: {window} for {expected}");
    }
}

#[test]
fn a_utilisation_of_eta_gives_the_reference_and_an_additive_step_exactly() {
    let mut bench = begun();
    bench.flow.reference = 100_000;
    bench.flow.utilisation = bench.params.eta;
    let cut = divided(100_000, bench.params.eta, bench.flow.utilisation);
    assert_eq!(cut, 100_000);
    bench.flow.compute_wind(&bench.params, true);
    // W_AI = 50 Mb/s x 12 us = 75 bytes.
    assert_eq!((bench.flow.window, bench.flow.reference, bench.params.step), (100_075, 100_075, 75));
}

#[test]
fn a_full_link_cuts_by_eta_over_the_utilisation_and_an_idle_one_adds_in_stages() {
    // 12 us at 100 Gb/s carry 150 000 bytes; half as many more wait, before and after.
    let mut bench = Bench::new(DRAFT);
    bench.sent(100);
    bench.ack(1, &[hop(0, 0, 75_000)]);
    bench.now += 12_000;
    bench.ack(101 - 1, &[hop(12_000, 149_952, 90_000)]);
    // u = 0.5 + 1: U = 1.5 at once, since tau = T. The round trip is not over yet: packet 100 was the last sent at the first
    // update.
    assert!((bench.flow.utilisation() as f64 / f64::from(1 << 24) - 1.5).abs() < 1e-3);
    assert_eq!(bench.flow.reference().get(), 150_000);
    let window = f64::from(bench.flow.window().get());
    assert!((window - (150_000.0 * 0.95 / 1.5 + 75.0)).abs() < 60.0, "{window}");
    // The next acknowledgement is of a packet sent after that one.
    bench.sent(120);
    bench.now += 12_000;
    bench.ack(101, &[hop(24_000, 149_952, 0)]);
    assert_eq!(bench.flow.reference(), bench.flow.window());
    assert_eq!(bench.flow.stage(), 1, "idle: {:?}", bench.flow);
}

#[test]
fn after_max_stage_additive_steps_a_multiplicative_one_follows() {
    let mut bench = begun();
    bench.flow.reference = 50_000;
    let mut clock = 0;
    let mut windows = Vec::new();
    for round in 0..7 {
        bench.sent(200 + round);
        clock += 12_000;
        // A tenth of the link in use.
        bench.ack(101 + round + if round > 0 { 99 } else { 0 }, &[hop(clock, 15_000 * (round + 1), 0)]);
        windows.push(bench.flow.window().get());
        bench.now += 12_000;
    }
    assert_eq!(windows[..5], [50_075, 50_150, 50_225, 50_300, 50_375], "{windows:?}");
    assert_eq!(windows[5], 150_000, "50 375 x 9.5, cut to W_init");
}

#[test]
fn the_same_telemetry_twice_changes_nothing_and_divides_by_nothing_b2() {
    let mut bench = begun();
    let records = [hop(6_000, 40_000, 9_000)];
    bench.ack(2, &records);
    let before = bench.flow;
    bench.ack(2, &records);
    bench.ack(3, &records);
    assert_eq!((bench.flow.window, bench.flow.utilisation), (before.window, before.utilisation));
}

#[test]
fn telemetry_of_another_path_or_number_of_hops_is_only_stored_b5() {
    let mut bench = begun();
    let before = (bench.flow.window, bench.flow.utilisation);
    let full = |clock| hop(clock, 10_000, 1_000_000);
    bench.ack(2, &[full(5_000), full(5_000)]);
    assert_eq!((bench.flow.window, bench.flow.utilisation), before);
    bench.ack(3, &[full(10_000), full(10_000)]);
    assert_ne!((bench.flow.window, bench.flow.utilisation), before, "now there is something to compare with");
}

#[test]
fn the_rate_is_the_window_over_the_round_trip_after_every_event_b8() {
    let mut bench = begun();
    let (mut clock, mut sent) = (0, 0);
    let mut random = 1_u32;
    for psn in 2..2_000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bench.now += 900;
        clock += 900;
        sent += random % 11_000;
        bench.sent(psn + 90);
        let decision = bench.ack(psn, &[hop(clock, sent, random >> 13)]);
        let rate = f64::from(decision.rate.to_bits()) / f64::from(1 << 24);
        let window = f64::from(bench.flow.window().get());
        assert!((rate - (window / 12_000.0).min(12.5)).abs() < 1e-3, "{rate} for {window}");
        assert_eq!(decision.window.get(), bench.flow.window().get().max(1_064));
    }
}

#[test]
fn windows_are_bytes_and_floors_hold_b14() {
    let mut bench = begun();
    for round in 0..50 {
        bench.now += 12_000;
        bench.sent(101 + round);
        let decision = bench.ack(101 + round, &[hop(12_000 * (round + 1), 0, 4_000_000_000)]);
        assert!(decision.rate >= Rate::from_mbps(100) && decision.window.get() >= 1_064);
    }
    // 100 Mb/s x 12 us = 150 bytes.
    assert!((150..=300).contains(&bench.flow.window().get()), "{}", bench.flow.window().get());
}

/// F2: updates of the reference window a round trip, through the end of the number space, whatever the first number is.
#[test]
fn updates_go_on_through_the_wrap_from_any_first_number_f2() {
    for first in [0_u32, 1, 0x00ff_ffff, 0x00ff_ff00] {
        let mut bench = Bench::new(HpccSettings { max_stage: 255, ..DRAFT });
        let psn = |packet: u32| first.wrapping_add(packet) & 0x00ff_ffff;
        let (mut updates, mut before) = (0, bench.flow.stage());
        for packet in 0..2_000_u32 {
            bench.now += 120;
            bench.sent(psn(packet));
            if packet >= 100 {
                bench.ack(psn(packet - 100), &[hop(packet * 120, packet * 640, 0)]);
                updates += u32::from(bench.flow.stage() != before);
                before = bench.flow.stage();
            }
        }
        // 1 900 acknowledgements, an update each 100 packets or so.
        assert!((17..=20).contains(&updates), "{updates} from {first:#x}");
    }
}

#[test]
fn numbers_far_apart_are_not_compared() {
    let mut bench = begun();
    bench.flow.updated = Psn::new(0x0050_0000);
    bench.flow.sent = Psn::new(0x0050_0000);
    assert!(bench.flow.is_over(Psn::new(2)), "more than 2^22 behind");
    assert!(!bench.flow.is_over(Psn::new(0x0020_0000)));
}

#[test]
fn a_nack_moves_the_sequence_numbers_back() {
    let mut bench = begun();
    bench.sent(200);
    bench.flow.updated = Psn::new(200);
    bench.on(&Event::Nack { psn: Psn::new(50) });
    assert_eq!((bench.flow.sent, bench.flow.updated), (Psn::new(49), Psn::new(49)));
    bench.on(&Event::Nack { psn: Psn::new(120) });
    assert_eq!(bench.flow.sent, Psn::new(49), "it never moves forward");
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let message = |settings| Machine::check(&settings, &LINK).unwrap_err().to_string();
    assert_eq!(
        message(HpccSettings { base_rtt: 999, ..DRAFT }),
        "base_rtt: must be from 1 us to 16 ms; 0 takes the port's"
    );
    assert_eq!(message(HpccSettings { int_multi: 3, ..DRAFT }), "int_multi: must be a power of two");
    assert_eq!(message(HpccSettings { min_rate: 100_001, ..DRAFT }), "min_rate: must be at most the speed of the port");
}

proptest! {
    /// Wakes discard only records that were too old to compare with.
    #[test]
    fn wakes_change_no_decision(
        steps in prop::collection::vec((0..60_000_u64, any::<u32>(), 0..200_000_u32, 0..8_u8), 1..120),
    ) {
        let (mut woken, mut left) = (Bench::new(DRAFT), Bench::new(DRAFT));
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
            let both = [&mut woken, &mut left];
            let decisions = both.map(|bench| match kind {
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

/// At 100 Mb/s a packet comes each 85 us, seven base round trips apart: a flow that was cut to this rate must still measure
/// that the path is free.
#[test]
fn a_flow_at_its_least_rate_recovers() {
    let settings = HpccSettings { min_rate: 100, ..DRAFT };
    let mut bench = Bench::new(settings);
    bench.flow.window = bench.params.least_window;
    bench.flow.reference = bench.params.least_window;
    let mut rate = Rate::ZERO;
    for packet in 1..2_000 {
        bench.sent(packet);
        rate = bench.ack(packet, &[hop(bench.now as u32, 1_064 * packet, 0)]).rate;
        bench.now += 85_120;
    }
    assert!(rate > Rate::from_gbps(50), "{rate:?}");
}

/// Each reason for which telemetry is not measured, and what an acknowledgement without it does to the window: nothing.
#[test]
fn telemetry_that_is_not_measured_has_its_reason_b1_b2_b5() {
    let full = |clock: u32| hop(clock, clock * 12, 1_000_000);
    let after = |psn: u32, hops: &[Hop]| {
        let mut bench = begun();
        let before = bench.flow.window;
        bench.ack(psn, hops);
        assert_eq!(bench.flow.window, before);
        bench.flow.unmeasured(EventSet::ACK)
    };
    assert_eq!(after(2, &[]), Unmeasured::MISSING);
    assert_eq!(after(0, &[full(12_000)]), Unmeasured::MISORDERED, "older than the first");
    assert_eq!(after(101, &[full(12_000)]), Unmeasured::MISORDERED, "never sent");
    assert_eq!(after(2, &[full(12_000); 6]), Unmeasured::TOO_MANY_HOPS);
    assert_eq!(after(2, &[full(12_000); 5]), Unmeasured::PATH_CHANGED);
    assert_eq!(after(2, &[full(15)]), Unmeasured::TOO_SOON);
    assert_eq!(after(2, &[Hop { clock: u32::MAX - 1_000, ..full(0) }]), Unmeasured::CLOCK);
    assert_eq!(after(2, &[full(600_000)]), Unmeasured::CLOCK, "600 us, of which the sender saw 12");
    assert_eq!(after(2, &[full(300_000)]), Unmeasured::BASELINE, "three packets at the least rate are 255 us");
    assert_eq!(after(2, &[Hop { mbps: 0, ..full(12_000) }]), Unmeasured::LINK_DOWN);
    assert_eq!(after(2, &[hop(12_000, 200_000, 0)]), Unmeasured::BYTES);
    let mut bench = begun();
    bench.ack(2, &[full(12_000)]);
    assert_eq!(bench.flow.unmeasured(EventSet::ACK), Unmeasured::NONE);
    bench.now += 600_000;
    bench.ack(3, &[full(612_000)]);
    assert_eq!(
        bench.flow.unmeasured(EventSet::ACK),
        Unmeasured::BASELINE,
        "after a silence of six packets at the least rate"
    );
    let mut overflowed = IntStackBuilder::new(IntLayout::Wide, 7);
    overflowed.overflow();
    bench.on(&Event::Ack(Ack { psn: Psn::new(4), int: overflowed.stack(), ..Ack::default() }));
    assert_eq!(bench.flow.unmeasured(EventSet::ACK), Unmeasured::OVERFLOWED);
}

/// A flow with 100 packets in flight whose acknowledgements bring this telemetry, for so many round trips: W at the end of
/// each.
fn windows(settings: HpccSettings, trips: u32, hops: impl Fn(u32) -> Vec<Hop>, path: impl Fn(u32) -> u16) -> Vec<u32> {
    let mut bench = Bench::new(settings);
    bench.sent(99);
    let mut windows = Vec::new();
    for psn in 0..trips * 100 {
        bench.now += 120;
        bench.sent(psn + 100);
        let int = IntStackBuilder::new(IntLayout::Wide, path(psn)).with(hops(psn));
        bench.on(&Event::Ack(Ack { psn: Psn::new(psn), int: int.stack(), ..Ack::default() }));
        if psn % 100 == 99 {
            windows.push(bench.flow.window);
        }
    }
    windows
}

/// The choice at the head, for every way in which a path leaves its sender blind. RFC 5348, section 4.4: the rate halves with
/// each period of four round trips without feedback, and not below the least.
#[test]
fn a_path_without_usable_telemetry_halves_the_window_every_fourth_round_trip() {
    let full = |psn: u32| hop(psn * 120, psn * 1_472, 500_000);
    let six = |psn| Vec::from([full(psn); 6]);
    let down = |psn| Vec::from([Hop { mbps: 0, ..full(psn) }]);
    let back = |psn: u32| Vec::from([Hop { clock: 1_000_000 - psn * 120, ..full(psn) }]);
    let one = |_| 1;
    // The first acknowledgement begins the first round trip, which is over with the 101st.
    for windows in [
        windows(DRAFT, 45, |_| Vec::new(), one),
        windows(DRAFT, 45, six, one),
        windows(DRAFT, 45, |psn| Vec::from([full(psn)]), |psn| 1 + psn as u16 % 2),
        windows(DRAFT, 45, down, one),
        windows(DRAFT, 45, back, one),
    ] {
        let halvings: Vec<u32> = windows.iter().copied().step_by(4).skip(1).collect();
        // The least rate is 100 Mb/s, which in 12 us are 150 bytes.
        let expected: Vec<u32> = (1..=halvings.len()).map(|nth| (150_000 >> nth).max(150)).collect();
        assert_eq!(halvings, expected);
    }
    let off = HpccSettings { no_int_rtts: 0, ..DRAFT };
    assert!(windows(off, 45, six, one).iter().all(|&window| window == 150_000));
    // One measurement in four round trips is enough, and the first after a halving takes the window on from there.
    let rare = windows(
        DRAFT,
        12,
        |psn| if psn % 300 < 2 { Vec::from([hop(psn * 120, psn * 600, 0)]) } else { Vec::new() },
        one,
    );
    assert!(rare.iter().all(|&window| window == 150_000), "{rare:?}");
}
