use super::*;
use cc_core::wire::shim::{self, IntShim};
use cc_core::wire::{AckFields, Addresses, Bth, CnpMarking, Extensions, Frame, Mac, Response, Shims, TableCrc, Tags};
use cc_core::{Ecn, Grant, Hop, Instant, IntLayout, IntStackBuilder, Mark, Psn, Qpn};
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use std::string::ToString;
use std::vec::Vec;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(24_000) };
const PAPER: PerFlowQueuesSettings = PRESETS[0].values;

struct Bench<const SETS: usize, const WAYS: usize> {
    params: Params,
    queues: PerFlowQueues<SETS, WAYS>,
    now: u64,
}

const fn key(flow: u32) -> FlowKey {
    FlowKey { peers: flow.wrapping_mul(77), data_qpn: Qpn::new(flow & 0xff_ffff) }
}

impl<const SETS: usize, const WAYS: usize> Bench<SETS, WAYS> {
    fn new() -> Self {
        // Stamps wrap during each test.
        Self { params: Params::new(&PAPER, &LINK).unwrap(), queues: PerFlowQueues::open(), now: 4_294_900_000 }
    }

    fn stamp(&self) -> Stamp {
        Instant::from_nanos(self.now).stamp()
    }

    fn arrive(&mut self, flow: u32, bytes: u32) -> bool {
        let now = self.stamp();
        self.queues.arrive(&self.params, now, key(flow), Bytes::new(bytes))
    }

    /// The next packet leaves as soon as it may. Returns the values for its shim.
    fn leave(&mut self, flow: u32, bytes: u32) -> MlccData {
        self.now += u64::from(self.queues.wait(self.stamp(), key(flow)).get());
        self.queues.departure(self.stamp(), key(flow), Bytes::new(bytes))
    }

    fn ack(&mut self, flow: u32, credit: u16, release: Rate) {
        let ack = MlccAck { credit, data_qpn: key(flow).data_qpn, release, advised_rate: Rate::from_bits(0) };
        self.queues.acknowledged(&self.params, key(flow), &ack);
    }
}

type Small = Bench<16, 4>;

#[test]
fn a_queue_is_drained_at_the_rate_that_the_receiver_grants() {
    for (mbps, bytes) in [(25_000, 1_064), (12_500, 1_000), (100_000, 64), (99_999, 9_216), (25, 1_064), (333, 777)] {
        let mut bench = Small::new();
        for _ in 0..10_000 {
            assert!(bench.arrive(5, bytes));
        }
        bench.ack(5, 1, Rate::from_mbps(mbps));
        bench.leave(5, bytes);
        let start = bench.now;
        for _ in 0..5_000 {
            bench.leave(5, bytes);
        }
        let took = (bench.now - start) as f64;
        let exact = 5_000.0 * f64::from(bytes) * 8e3 / f64::from(mbps);
        assert!((0.9999..1.0002).contains(&(took / exact)), "{mbps} Mb/s, {bytes} B: {took}, exactly {exact}");
        assert_eq!(bench.queues.queued(key(5)).get(), 4_999 * bytes);
    }
}

#[test]
fn a_new_queue_has_the_initial_rate_and_grants_stay_within_the_bounds() {
    let mut bench = Small::new();
    assert_eq!(bench.queues.release(key(5)), None);
    bench.arrive(5, 1_000);
    let release = |bench: &mut Small, credit, rate| {
        bench.ack(5, credit, rate);
        bench.queues.release(key(5)).unwrap()
    };
    assert_eq!(bench.queues.release(key(5)), Some(Rate::from_gbps(25)));
    assert_eq!(release(&mut bench, 1, Rate::from_bits(0)), Rate::from_mbps(25));
    assert_eq!(release(&mut bench, 2, Rate::from_gbps(200)), Rate::from_gbps(100));
}

#[test]
fn packets_carry_the_newest_credit_and_the_bytes_queued_behind_them() {
    let mut bench = Small::new();
    for _ in 0..3 {
        bench.arrive(5, 1_000);
    }
    assert_eq!(bench.leave(5, 1_000), MlccData { credit: 0, queue: Bytes::new(2_000) }, "no credit yet");
    bench.ack(5, 60_000, Rate::from_gbps(10));
    assert_eq!(bench.leave(5, 1_000), MlccData { credit: 60_000, queue: Bytes::new(1_000) });
    // Credits that are repeated, older twice, zero, and newer after a wrap.
    for (credit, gbps, expected, of) in [
        (60_000, 20, 60_000, 10),
        (59_999, 20, 60_000, 10),
        (27_232, 20, 60_000, 10),
        (0, 20, 60_000, 10),
        (27_231, 30, 27_231, 30),
    ] {
        bench.ack(5, credit, Rate::from_gbps(gbps));
        bench.arrive(5, 500);
        assert_eq!(bench.leave(5, 500).credit, expected);
        assert_eq!(bench.queues.release(key(5)), Some(Rate::from_gbps(of)));
    }
    bench.ack(6, 5, Rate::from_gbps(1));
    let counters = bench.queues.counters();
    assert_eq!((counters.credits_taken, counters.credits_old, counters.credits_unknown), (2, 3, 1));
}

#[test]
fn packets_that_leave_before_their_time_hold_the_next_for_the_longest_gap_at_most() {
    let mut bench = Small::new();
    bench.arrive(5, 4_000_000_000);
    bench.ack(5, 1, Rate::from_bits(0));
    let now = bench.stamp();
    // At 25 Mb/s each of them takes 16 s.
    for _ in 0..4 {
        bench.queues.departure(now, key(5), Bytes::new(50_000_000));
        assert_eq!(bench.queues.wait(now, key(5)), LONGEST);
    }
}

#[test]
fn after_a_pause_two_packets_may_leave_at_once_and_never_three() {
    let mut bench = Small::new();
    for _ in 0..100 {
        bench.arrive(5, 1_000);
    }
    // 1 000 B at 25 Gb/s are 320 ns.
    bench.leave(5, 1_000);
    bench.now += 1_000_000;
    let waits = [0; 4].map(|_| {
        let wait = bench.queues.wait(bench.stamp(), key(5)).get();
        bench.leave(5, 1_000);
        wait
    });
    assert!(matches!(waits, [0, 0, 320 | 321, 320 | 321]), "{waits:?}");
}

#[test]
fn flows_without_a_record_share_a_queue_are_counted_and_get_no_credit() {
    let mut bench = Bench::<1, 2>::new();
    let joined: Vec<_> = (1..=4).map(|flow| bench.arrive(flow, 1_000)).collect();
    assert_eq!(joined, [true, true, false, false]);
    for flow in 1..=4 {
        bench.ack(flow, 9, Rate::from_gbps(10));
    }
    assert_eq!(bench.queues.queued(key(3)).get(), 2_000);
    assert_eq!(bench.leave(1, 1_000), MlccData { credit: 9, queue: Bytes::ZERO });
    for flow in [3, 4, 3] {
        assert_eq!(bench.queues.wait(bench.stamp(), key(flow)), Nanos::ZERO);
        assert_eq!(bench.leave(flow, 1_000), MlccData::default());
    }
    assert_eq!(bench.queues.queued(key(3)), Bytes::ZERO);
    assert_eq!((bench.queues.counters().untracked, bench.queues.counters().credits_unknown), (2, 2));
    // A queue without packets for 1 s is removed; its bytes join the shared queue, and its record is free for the next flow.
    for _ in 0..3 {
        bench.now += 400_000_000;
        bench.queues.wake(bench.stamp());
    }
    assert_eq!((bench.queues.occupied(), bench.queues.queued(key(2)).get()), (0, 1_000));
    assert!(bench.arrive(3, 1_000));
    assert_eq!(bench.leave(2, 1_000), MlccData::default());
    assert_eq!(bench.queues.queued(key(2)), Bytes::ZERO);
}

fn emit(frame: &Frame<'_>) -> Vec<u8> {
    frame.to_vec::<TableCrc>().unwrap()
}

fn respond(response: &Response<'_>) -> Vec<u8> {
    response.to_vec::<TableCrc>().unwrap()
}

/// From frame to frame, as in the switch: data passes its queue, and the acknowledgement updates that queue.
#[test]
fn data_and_acknowledgement_find_the_same_queue_over_ipv4_and_ipv6() {
    let (v4, v6) = (Ipv4Addr::new(10, 0, 0, 1), Ipv6Addr::from_bits(0xfd00 << 112 | 1));
    for addresses in [
        Addresses::V4 { source: v4, destination: Ipv4Addr::new(10, 1, 0, 9) },
        Addresses::V6 { source: v6, destination: Ipv6Addr::from_bits(0xfd01 << 112 | 9) },
    ] {
        let mut bench = Small::new();
        let hop = Hop { mbps: 100_000, flags: 0, clock: 1, sent: 2, queue: 3 };
        let telemetry = IntStackBuilder::new(IntLayout::Wide, 7).with_room(IntShim::ROOM).with([hop]);
        let int = Some(IntShim::of(&telemetry));
        let mut data = emit(&Frame {
            destination: Mac::new([2; 6]),
            source: Mac::new([4; 6]),
            tags: Tags::NONE,
            addresses,
            dscp: 26,
            ecn: Ecn::Ect0,
            hop_limit: 60,
            udp_source: 0xc001,
            shims: Shims { int, mlcc_data: Some(MlccData::default()), ..Shims::NONE },
            bth: Bth { opcode: 0x04, dest_qp: Qpn::new(0x118), psn: Psn::new(5), ..Bth::default() },
            extensions: Extensions::default(),
            payload: &[7; 900],
        });
        let roce = Roce::of(&data).unwrap();
        let (flow, bytes) = (crate::Packet::roce(&roce).data_flow().unwrap(), roce.wire_len);
        assert!(bench.queues.arrive(&bench.params, bench.stamp(), flow, bytes));

        // The receiver's acknowledgement of an earlier packet.
        let grant = Grant::Mlcc { credit: 0x1234, release: Rate::from_gbps(7), advised_rate: Rate::from_gbps(3) };
        let fields = AckFields {
            msn: 1,
            mark: Mark::None,
            receiver_hold: Nanos::ZERO,
            rx_buffer_level: 0,
            grant,
            marking: CnpMarking::default(),
        };
        let ack = respond(&Response::ack(&roce, Qpn::new(0x99), &fields));
        bench.queues.acknowledgement(&bench.params, &Roce::of(&ack).unwrap());
        bench.queues.acknowledgement(&bench.params, &roce);
        assert_eq!(bench.queues.release(flow), Some(Rate::from_gbps(7)));

        let left = bench.queues.departure(bench.stamp(), flow, bytes);
        let length = data.len();
        assert!(shim::clear_int(&mut data, length, shim::PORT));
        assert!(shim::write_mlcc(&mut data, length, shim::PORT, &left));
        assert_eq!(shim::push_into(&mut data, length, shim::PORT, &Hop { flags: Hop::INTERCONNECT, ..hop }), Some(1));
        let shims = Roce::of(&data).unwrap().shims();
        assert_eq!(shims.mlcc_data, Some(MlccData { credit: 0x1234, queue: Bytes::ZERO }));
        assert!(shims.int.unwrap().stack().iter().eq([Hop { flags: Hop::INTERCONNECT, ..hop }]));
    }
}

#[test]
fn conflicting_settings_are_named() {
    let refused = |settings| Params::new(&settings, &LINK).map_err(|error| error.to_string());
    assert!(refused(PerFlowQueuesSettings { initial_rate: 0, min_rate: 1 }).is_ok());
    let above = refused(PerFlowQueuesSettings { initial_rate: 100_001, ..PAPER });
    assert_eq!(above, Err("initial_rate: must be at most the speed of the port; 0 takes that".to_string()));
    let least = refused(PerFlowQueuesSettings { min_rate: 25_001, ..PAPER });
    assert_eq!(least, Err("min_rate: must be at most the initial rate".to_string()));
}

proptest! {
    /// The bytes that join the queues are those that leave them, and no wait exceeds [`LONGEST`].
    #[test]
    fn bytes_are_conserved(
        steps in prop::collection::vec(
            (0..40_u32, 64..9_000_u32, 0..5_000_000_u64, any::<u16>(), any::<u32>()),
            1..300,
        ),
    ) {
        let mut bench = Bench::<4, 2>::new();
        let (mut inside, mut own) = (Vec::new(), 0_u32);
        for (flow, bytes, gap, credit, rate) in steps {
            bench.now += gap;
            own += u32::from(bench.arrive(flow, bytes));
            inside.push((flow, bytes));
            if credit % 3 == 0 {
                bench.ack(flow, credit, Rate::from_bits(rate));
            }
            if credit % 4 == 1 {
                let (flow, bytes) = inside.remove(usize::from(credit) % inside.len());
                bench.queues.departure(bench.stamp(), key(flow), Bytes::new(bytes));
                prop_assert!(bench.queues.wait(bench.stamp(), key(flow)) <= LONGEST);
            }
            if credit % 8 == 2 {
                bench.queues.wake(bench.stamp());
            }
        }
        prop_assert!(own > 0);
        for (flow, bytes) in inside {
            bench.queues.departure(bench.stamp(), key(flow), Bytes::new(bytes));
        }
        prop_assert!((0..40).all(|flow| bench.queues.queued(key(flow)) == Bytes::ZERO));
    }
}
