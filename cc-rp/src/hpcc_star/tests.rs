use super::*;
use crate::{Ack, RpEngine};
use cc_core::{Hop, Instant, IntLayout, IntStackBuilder};
use proptest::prelude::*;
use std::string::ToString;
use std::vec::Vec;

/// 40 Gb/s, 2 ms from end to end.
const LINK: Link = Link { line_rate: Rate::from_gbps(40), mtu: Bytes::new(1_064), base_rtt: Nanos::new(2_000_000) };
type Machine = HpccStar<5>;

const _: () = assert!(RpEngine::<HpccStar5, 1024, 2048>::QP_BYTES <= 232, "a flow has outgrown 232 bytes");

struct Bench {
    params: Params,
    flow: Machine,
    now: u64,
}

impl Bench {
    fn new(settings: HpccStarSettings) -> Self {
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

    fn direct_int(&mut self, hops: &[Hop]) -> Decision {
        let int = IntStackBuilder::new(IntLayout::Wide, 9).with(hops.iter().copied());
        self.on(&Event::SwitchInt { int: int.stack() })
    }

    fn transition(&self, event: &Event<'_>) -> usize {
        self.flow.transition(&cx(self.now, &self.params), event)
    }
}

fn cx(now: u64, params: &Params) -> Cx<'_, Params> {
    let now = Instant::from_nanos(now);
    Cx { now, link: &LINK, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
}

/// The INT record of a pseudo queue with this R.
fn pseudo(mbps: u32, clock: u32, sent: u32, queue: u32) -> Hop {
    Hop { mbps, flags: Hop::VIRTUAL | Hop::INTERCONNECT, clock, sent: sent / 64, queue }
}

/// A flow that has received direct INT once, with a pseudo queue of 10 Gb/s.
fn begun() -> Bench {
    let mut bench = Bench::new(PAPER);
    bench.sent(2_000);
    bench.direct_int(&[pseudo(10_000, 0, 0, 50_000)]);
    bench.now += 10_000;
    bench
}

#[test]
fn a_flow_begins_with_what_the_port_carries_from_end_to_end() {
    let mut bench = Bench::new(PAPER);
    let decision = bench.sent(1);
    // 5 B/ns x 2 ms, and x 10 us.
    assert_eq!((decision.window.get(), decision.rate), (10_000_000, LINK.line_rate));
    assert_eq!((bench.flow.near_loop().window().get(), bench.params.marks), (50_000, 200));
}

/// The choice at the head: W* halves each time that broken direct INT follows `no_int_rtts` marks in a row.
#[test]
fn broken_direct_int_halves_the_near_window_every_four_marks() {
    // T / T* = 4: a mark in 100 packets of 400.
    let mut bench = Bench::new(HpccStarSettings { near_rtt: 500_000, ..PAPER });
    bench.sent(1_400);
    bench.ack(1_000, &[]);
    let window = |bench: &Bench| (bench.flow.near_loop().window(), bench.flow.near_loop().reference());
    let mut clock = 0;
    let mut direct_int = |bench: &mut Bench, mbps| {
        clock += 100_000;
        bench.now += 100_000;
        bench.direct_int(&[pseudo(mbps, clock, clock, 0)]);
        window(bench)
    };
    let begin = direct_int(&mut bench, 0);
    let mut windows = Vec::new();
    for mark in 1..=12 {
        bench.sent(1_400 + 100 * mark);
        bench.ack(1_000 + 100 * mark, &[]);
        // The second one passes no mark.
        let first = direct_int(&mut bench, 0);
        assert_eq!(direct_int(&mut bench, 0), first);
        windows.push(first.0.get());
    }
    let w = begin.0.get();
    let [half, quarter, eighth] = [w / 2, w / 4, w / 8];
    assert_eq!(windows, [w, w, w, half, half, half, half, quarter, quarter, quarter, quarter, eighth]);
    assert_eq!(bench.flow.end_to_end().window().get(), 10_000_000, "the end-to-end loop is another");
    // A measurement of an idle path ends this.
    direct_int(&mut bench, 40_000);
    bench.sent(2_700);
    bench.ack(2_300, &[]);
    assert!(direct_int(&mut bench, 40_000).0.get() > eighth);
}

#[test]
fn the_lower_rate_counts_and_its_window_is_what_it_sends_in_an_end_to_end_round_trip() {
    let mut bench = begun();
    // A fully used pseudo queue of 10 Gb/s: 12 500 bytes in 10 us, and 50 000 queued: U* = 1 + 4.
    let decision = bench.direct_int(&[pseudo(10_000, 10_000, 12_480, 60_000)]);
    let window = 50_000.0 * 0.95 / 5.0 + 625.0;
    assert!((f64::from(bench.flow.near_loop().window().get()) - window).abs() < 20.0);
    let rate = f64::from(decision.rate.to_bits()) / f64::from(1 << 24);
    assert!((rate - window / 10_000.0).abs() < 2e-3, "{rate}");
    assert!((f64::from(decision.window.get()) - rate * 2e6).abs() < 2.0);
    assert_eq!(bench.flow.end_to_end().window().get(), 10_000_000, "direct INT does not change the end-to-end loop");
    // No acknowledgement has come yet: once the end-to-end rate is lower still, it is used.
    let record = |clock, sent| Hop { mbps: 40_000, flags: 0, clock, sent, queue: 4_000_000_000 };
    bench.ack(1_000, &[record(0, 0)]);
    bench.now += 2_000_000;
    let decision = bench.ack(1_100, &[record(2_000_000, 0)]);
    assert_eq!(decision.rate, hpcc_rate(&bench));
    assert!(decision.rate < bench.params.near_loop.rate(bench.flow.near_loop().window()));
    assert_eq!(decision.window, bench.flow.end_to_end().window());
}

fn hpcc_rate(bench: &Bench) -> Rate {
    bench.params.end_to_end.rate(bench.flow.end_to_end().window().get())
}

#[test]
fn the_reference_window_is_new_once_for_each_mark_that_acknowledgements_pass() {
    // T / T* = 4.
    let settings = HpccStarSettings { near_rtt: 500_000, max_stage: 255, ..PAPER };
    let mut bench = Bench::new(settings);
    assert_eq!(bench.params.marks, 4);
    bench.sent(1_000);
    let mut clock = 0;
    let mut direct_int = |bench: &mut Bench| {
        clock += 100_000;
        bench.now += 100_000;
        let stage = bench.flow.near_loop().stage();
        bench.direct_int(&[pseudo(40_000, clock, clock, 0)]);
        bench.flow.near_loop().stage() - stage
    };
    assert_eq!(
        [direct_int(&mut bench), direct_int(&mut bench), direct_int(&mut bench)],
        [0, 0, 0],
        "no acknowledgement has come"
    );
    // From 200 to 1 000: marks at 400, 600, 800, 1 000.
    bench.ack(200, &[]);
    assert_eq!(direct_int(&mut bench), 0);
    bench.sent(1_500);
    for (psn, new) in [(399, 0), (400, 1), (599, 0), (700, 1), (799, 0), (999, 1), (1_000, 1)] {
        bench.ack(psn, &[]);
        assert_eq!([direct_int(&mut bench), direct_int(&mut bench)], [new, 0], "{psn}");
    }
    // From 1 000 to 1 500: marks at 1 125, 1 250, 1 375. Two marks passed at once count once, and an old acknowledgement passes
    // none.
    for (psn, new) in [(1_124, 0), (1_250, 1), (1_001, 0), (1_260, 0), (1_374, 0), (1_375, 1), (1_501, 0), (1_500, 1)] {
        bench.ack(psn, &[]);
        assert_eq!([direct_int(&mut bench), direct_int(&mut bench)], [new, 0], "{psn}");
    }
}

#[test]
fn marks_go_on_after_go_back_n_and_through_the_wrap() {
    for first in [0_u32, 1, 0x00ff_ff80, 0x007f_ffff] {
        let psn = |packet: u32| first.wrapping_add(packet) & 0x00ff_ffff;
        let mut bench = Bench::new(HpccStarSettings { near_rtt: 500_000, max_stage: 255, ..PAPER });
        let (mut clock, mut updates) = (0, 0);
        for packet in 0..4_000_u32 {
            bench.sent(psn(packet + 400));
            bench.ack(psn(packet), &[]);
            if packet == 2_000 {
                bench.on(&Event::Nack { psn: Psn::new(psn(2_001)) });
                assert_eq!(bench.flow.to, Psn::new(psn(2_000)));
            }
            clock += 10_000;
            bench.now += 10_000;
            let stage = bench.flow.near_loop().stage();
            bench.direct_int(&[pseudo(40_000, clock, clock, 0)]);
            updates += u32::from(bench.flow.near_loop().stage() != stage);
        }
        // 4 in each 400 packets, and one round trip cut short by the NACK.
        assert!((39..=42).contains(&updates), "{updates} from {first:#x}");
    }
}

#[test]
fn a_step_of_the_remote_rate_is_stored_and_the_next_record_measured() {
    let mut bench = begun();
    bench.direct_int(&[pseudo(10_000, 10_000, 12_480, 0)]);
    let utilisation = bench.flow.near_loop().utilisation();
    // R falls to a half while 12 480 bytes leave, which is more than it allows. The record is stored, and the next is compared
    // with it.
    bench.now += 10_000;
    bench.direct_int(&[pseudo(5_000, 20_000, 24_960, 0)]);
    assert_eq!(bench.flow.near_loop().utilisation(), utilisation);
    bench.now += 10_000;
    bench.direct_int(&[pseudo(9_000, 30_000, 24_960 + 11_200, 0)]);
    let share = f64::from(bench.flow.near_loop().utilisation()) / f64::from(1 << 24);
    assert!((share - 11_200.0 / 11_250.0).abs() < 1e-2, "{share}");
    bench.now += 10_000;
    bench.direct_int(&[pseudo(0, 40_000, 40_000, 9_000_000)]);
    let now = f64::from(bench.flow.near_loop().utilisation()) / f64::from(1 << 24);
    assert!((share - now).abs() < 1e-6, "a record with speed 0 is not measured");
}

#[test]
fn the_near_loops_window_is_at_least_a_packet_so_that_telemetry_keeps_arriving() {
    let mut bench = begun();
    let mut decision = bench.sent(2_001);
    for round in 1..50 {
        bench.now += 10_000;
        bench.ack(round * 40, &[]);
        decision = bench.direct_int(&[pseudo(10_000, round * 10_000, round * 12_480, 4_000_000)]);
    }
    // 1 064 B in 10 us.
    assert!((850..860).contains(&((u64::from(decision.rate.to_bits()) * 8_000) >> 24)), "{decision:?}");
}

#[test]
fn every_transition_is_reached() {
    let mut rows = [false; Machine::TRANSITIONS.len()];
    let mut bench = Bench::new(PAPER);
    let (mut clock, mut random) = (0_u32, 1_u32);
    for psn in 0..20_000_u32 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bench.now += 3_000;
        clock += 3_000;
        let hops = [pseudo(40_000, clock, clock / 100 * (random >> 30), (random >> 8) % 60_000)];
        let int = IntStackBuilder::new(IntLayout::Wide, 1 + (random >> 12 & 255) as u16 / 254).with(hops);
        let int = if random >> 24 & 15 == 0 { IntStack::NONE } else { int.stack() };
        // For a while, nothing in the remote datacentre writes telemetry.
        let remote = if (12_000..17_000).contains(&psn) { IntStack::NONE } else { int };
        let ack = Ack { psn: Psn::new(psn), int: remote, ..Ack::default() };
        let nack = Event::Nack { psn: Psn::new(psn) };
        let sent = Event::Sent { psn: Psn::new(psn + 700), bytes: Bytes::new(1_064) };
        let rare = if random >> 20 & 63 == 0 { nack } else { Event::Wake };
        for event in [sent, Event::Ack(ack), Event::SwitchInt { int }, rare] {
            rows[bench.transition(&event)] = true;
            bench.on(&event);
        }
    }
    assert!(rows.iter().all(|&reached| reached), "{rows:?}");
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let message = |settings| Machine::check(&settings, &LINK).unwrap_err().to_string();
    assert_eq!(message(HpccStarSettings { near_rtt: 4_000_001, ..PAPER }), "near_rtt: must be at most base_rtt");
    assert!(message(HpccStarSettings { base_rtt: 999, ..PAPER }).starts_with("base_rtt: must be from 1 us"));
    assert_eq!(
        message(HpccStarSettings { min_rate: 40_001, ..PAPER }),
        "min_rate: must be at most the speed of the port"
    );
    assert!(Machine::check(&HpccStarSettings { near_rtt: 2_000_000, ..PAPER }, &LINK).is_ok());
    let near_rtt = |base_rtt| Machine::check(&HpccStarSettings { base_rtt, ..PAPER }, &LINK).unwrap().near_loop.time();
    assert_eq!([4_000, 2_000_000].map(near_rtt), [4_000, 10_000].map(Nanos::new));
}

proptest! {
    /// Wakes discard only records that were too old to compare with, and no decision leaves its bounds.
    #[test]
    fn wakes_change_no_decision(
        steps in prop::collection::vec((0..60_000_u64, any::<u32>(), 0..200_000_u32, 0..10_u8), 1..120),
    ) {
        let (mut woken, mut left) = (Bench::new(PAPER), Bench::new(PAPER));
        let (mut clock, mut sent, mut psn) = (0_u32, 0_u32, 0_u32);
        let limits = Machine::limits(&woken.params, &LINK);
        for (gap, bytes, queue, kind) in steps {
            let gap = if kind == 9 { gap * 10_000 } else { gap };
            for part in 1..4 {
                woken.now = left.now + gap * part / 4;
                woken.on(&Event::Wake);
            }
            left.now += gap;
            woken.now = left.now;
            clock = clock.wrapping_add(gap as u32);
            sent = sent.wrapping_add(bytes % (gap.min(60_000) as u32 * 5 + 1));
            psn += 1;
            let records = [pseudo(40_000, clock, sent, queue), pseudo(25_000, clock.wrapping_add(9), sent / 2, queue / 3)];
            let both = [&mut woken, &mut left];
            let decisions = both.map(|bench| match kind {
                0 => bench.on(&Event::Nack { psn: Psn::new(psn.saturating_sub(30)) }),
                1 => bench.ack(psn.saturating_sub(40), &records[..1]),
                2..=5 => bench.direct_int(&records),
                _ => {
                    bench.sent(psn + 60);
                    bench.ack(psn, &records)
                }
            });
            prop_assert_eq!(decisions[0], decisions[1]);
            prop_assert!(decisions[0].rate >= limits.rate && decisions[0].rate <= LINK.line_rate);
            prop_assert!(decisions[0].window >= limits.window);
        }
    }
}
