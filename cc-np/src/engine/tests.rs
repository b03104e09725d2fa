use super::*;
use crate::dcqcn::{Dcqcn, DcqcnSettings, Params};
use crate::dcqcn_plus::{DcqcnPlus, DcqcnPlusSnapshot, ListSnapshot, PAPER};
use crate::echo::{BINARY, Echo, EchoSettings, EchoSnapshot, TERNARY};
use crate::frames::Ring;
use cc_core::params::{ParamError, Preset};
use cc_core::table::SetAssocTableIn;
use cc_core::wire::shim::{IntShim, Time};
use cc_core::wire::{
    self, Addresses, Bth, Class, CnpMarking, Deth, Extensions, Frame, Icrc, Mac, Parsed, Shims, TableCrc, Tag, Tags,
    opcode,
};
use cc_core::{Bytes, CnpBodyKind, IntLayout, Psn, Rate, State};
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use std::collections::HashMap;
use std::vec;
use std::vec::Vec;

type Np<const SETS: usize, const WAYS: usize> = NpEngine<Dcqcn, SETS, WAYS>;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_082), base_rtt: Nanos::new(10_000) };
const SENDER: Mac = Mac::new([2, 0, 0, 0, 0, 1]);
const RECEIVER: Mac = Mac::new([2, 0, 0, 0, 0, 2]);
const V4: Addresses = Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, 1), destination: Ipv4Addr::new(10, 0, 0, 2) };
const V6: Addresses = Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::UNSPECIFIED };
const V1: Addresses = Addresses::Gid { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::UNSPECIFIED };

const SEND_MIDDLE: u8 = 0x01;
const WRITE_ONLY: u8 = 0x0a;
const READ_REQUEST: u8 = 0x0c;
const READ_RESPONSE_MIDDLE: u8 = 0x0e;
const ACK: u8 = 0x11;
const UC_SEND_ONLY: u8 = 0x24;
const RD_SEND_ONLY: u8 = 0x44;
const UD_SEND_ONLY: u8 = 0x64;
const XRC_WRITE_ONLY: u8 = 0xaa;

fn settings(preset: &str) -> DcqcnSettings {
    Dcqcn::PRESETS.iter().find(|known| known.name == preset).unwrap().values
}

fn engine<const SETS: usize, const WAYS: usize>(preset: &str) -> Np<SETS, WAYS> {
    with(&settings(preset))
}

fn with<const SETS: usize, const WAYS: usize>(settings: &DcqcnSettings) -> Np<SETS, WAYS> {
    Np::new(Instant::from_nanos(0), LINK, Dcqcn::check(settings, &LINK).unwrap())
}

fn frame<'a>(opcode: u8, qpn: u32, ecn: Ecn, addresses: Addresses, tags: Tags<'a>) -> Frame<'a> {
    Frame {
        destination: RECEIVER,
        source: SENDER,
        tags,
        addresses,
        dscp: 26,
        ecn,
        hop_limit: 64,
        udp_source: 49_152,
        shims: Shims::NONE,
        bth: Bth { opcode, partition: 0xffff, dest_qp: Qpn::new(qpn), psn: Psn::new(7), ..Bth::default() },
        extensions: Extensions {
            deth: Deth { source_qp: Qpn::new(0x00_0d00), ..Deth::default() },
            ..Extensions::default()
        },
        payload: &[0xa5; 64],
    }
}

fn bytes(frame: &Frame<'_>) -> Vec<u8> {
    frame.to_vec::<TableCrc>().unwrap()
}

/// Metadata of a frame whose sender's queue pair number is not known.
const UNKNOWN_SENDER: RxMeta = RxMeta::new(Stamp::from_bits(0), None);

fn from(remote: u32) -> RxMeta {
    RxMeta::new(Stamp::from_bits(0), Some(Qpn::new(remote)))
}

/// A packet of flow `qpn` arrives; its sender's queue pair number is `qpn + 1`.
fn arrive<const SETS: usize, const WAYS: usize>(
    engine: &mut Np<SETS, WAYS>,
    now: u64,
    opcode: u8,
    qpn: u32,
    ecn: Ecn,
    tx: &mut Ring,
) -> CnpOutcome {
    let frame = bytes(&frame(opcode, qpn, ecn, V4, Tags::NONE));
    engine.arrival(Instant::from_nanos(now), &Roce::of(&frame).unwrap(), from(qpn + 1), tx).cnp
}

/// The same, marked with CE and with room in the transmit ring. Returns whether a CNP is sent.
fn marked<const SETS: usize, const WAYS: usize>(engine: &mut Np<SETS, WAYS>, now: u64, qpn: u32) -> bool {
    arrive(engine, now, SEND_MIDDLE, qpn, Ecn::Ce, &mut Ring::new(128)) == CnpOutcome::Sent
}

fn idle<const SETS: usize, const WAYS: usize>(engine: &mut Np<SETS, WAYS>, now: Instant) {
    assert_eq!(engine.wake(now, &mut Ring::new(128)), CnpOutcome::None);
}

fn adds_up(counters: &NpCounters) -> bool {
    counters.np_ecn_marked_roce_packets
        == counters.np_cnp_sent
            + counters.np_cnp_not_due
            + counters.np_cnp_unaddressed
            + counters.np_cnp_rate_limited
            + counters.np_cnp_ring_full
            + counters.np_ce_ignored
}

#[test]
fn a_marked_packet_causes_a_complete_cnp() {
    let tag = Tag { priority: 3, vid: 100, ..Tag::default() };
    let tags = [tag.to_bytes()];
    let tags = Tags::new(&tags).unwrap();
    for addresses in [V4, V6] {
        for (opcode, payload_only) in
            [(SEND_MIDDLE, true), (WRITE_ONLY, false), (UC_SEND_ONLY, true), (XRC_WRITE_ONLY, false)]
        {
            let mut engine = engine::<4, 2>("paper");
            let data = bytes(&frame(opcode, 0x11, Ecn::Ce, addresses, tags));
            let mut tx = Ring { room: vec![0xee; 128], ..Ring::new(0) };
            let outcome = engine.arrival(Instant::from_nanos(0), &Roce::of(&data).unwrap(), from(0xd2), &mut tx);
            assert_eq!(
                (outcome.cnp, outcome.ack),
                (CnpOutcome::Sent, AckOutcome::None),
                "{opcode:#04x} {payload_only}"
            );

            let cnp = Roce::of(tx.frame()).unwrap();
            assert_eq!((cnp.info.class(), cnp.bth.dest_qp), (Class::Cnp, Qpn::new(0xd2)));
            assert!(cnp.bth.becn && !cnp.bth.ack_request && cnp.bth.psn == Psn::new(0));
            assert_eq!(cnp.bth.partition, 0xffff);
            assert_eq!(cnp.cnp(), Some(CnpBodyKind::Standard));
            assert_eq!(cnp.icrc::<TableCrc>(), Icrc::Valid);
            assert_eq!((cnp.source_mac(), cnp.destination_mac()), (RECEIVER, SENDER));
            assert_eq!(cnp.addresses(), addresses.reversed());
            assert_eq!(cnp.dscp(), 48);
            assert_eq!(cnp.tags().iter().collect::<Vec<_>>(), [Tag { priority: 6, ..tag }]);
            assert_eq!(tx.frame().len(), data.len() - Roce::of(&data).unwrap().info.header_len() - 64 + 16);
        }
    }
}

#[test]
fn cnp_dscp_and_priority_are_those_set() {
    let tag = [Tag { priority: 3, vid: 5, ..Tag::default() }.to_bytes()];
    let values = DcqcnSettings { cnp_dscp: 46, cnp_802p_prio: 7, ..settings("vendor") };
    let mut engine = with::<1, 1>(&values);
    let data = bytes(&frame(SEND_MIDDLE, 1, Ecn::Ce, V4, Tags::new(&tag).unwrap()));
    let mut tx = Ring::new(128);
    let outcome = engine.arrival(Instant::from_nanos(0), &Roce::of(&data).unwrap(), from(2), &mut tx);
    assert_eq!(outcome.cnp, CnpOutcome::Sent);
    let cnp = Roce::of(tx.frame()).unwrap();
    assert_eq!((cnp.dscp(), cnp.vlan().unwrap().priority), (46, 7));
}

#[test]
fn the_count_of_cnps_is_in_the_reserved_bytes_when_set() {
    let values = DcqcnSettings { cnp_sequence: 1, ..settings("vendor") };
    let mut engine = with::<1, 1>(&values);
    let mut seqs = Vec::new();
    for now in [0, 4_000, 900_000_000] {
        let mut tx = Ring::new(128);
        assert_eq!(arrive(&mut engine, now, SEND_MIDDLE, 1, Ecn::Ce, &mut tx), CnpOutcome::Sent);
        let Some(CnpBodyKind::Extended(body)) = Roce::of(tx.frame()).unwrap().cnp() else { panic!() };
        seqs.push(body.seq);
    }
    assert_eq!(seqs, [seqs[0], seqs[0].wrapping_add(1), seqs[0].wrapping_add(2)]);
}

#[test]
fn an_unmarked_stream_makes_no_cnp_whatever_its_ect() {
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
        for preset in Dcqcn::PRESETS {
            let mut engine = engine::<4, 2>(preset.name);
            for packet in 0..10_000 {
                let opcode = [SEND_MIDDLE, WRITE_ONLY, READ_RESPONSE_MIDDLE, UD_SEND_ONLY, ACK][packet % 5];
                let cnp = arrive(&mut engine, packet as u64 * 100, opcode, 0x11, ecn, &mut Ring::new(128));
                assert_eq!(cnp, CnpOutcome::None);
            }
            assert_eq!(engine.counters(), NpCounters::default());
            assert_eq!(engine.live_flows(), 0);
        }
    }
}

#[test]
fn only_data_causes_cnps_and_a_read_response_is_data() {
    let mut engine = engine::<4, 2>("cx4");
    let mut now = 0;
    let mut notified = |opcode| {
        now += 10_000;
        arrive(&mut engine, now, opcode, 0x11, Ecn::Ce, &mut Ring::new(128)) != CnpOutcome::None
    };
    assert!(notified(READ_RESPONSE_MIDDLE));
    for opcode in [ACK, READ_REQUEST, opcode::CNP, RD_SEND_ONLY, 0x12, 0x13, 0xff] {
        assert!(!notified(opcode), "{opcode:#04x}");
    }
    let counters = engine.counters();
    assert_eq!((counters.np_ecn_marked_roce_packets, counters.np_cnp_sent, counters.np_ce_ignored), (8, 1, 7));
}

#[test]
fn rocev1_has_no_cnps() {
    let mut engine = engine::<4, 2>("cx4");
    let data = bytes(&frame(SEND_MIDDLE, 1, Ecn::Ce, V1, Tags::NONE));
    let outcome = engine.arrival(Instant::from_nanos(0), &Roce::of(&data).unwrap(), from(2), &mut Ring::new(128));
    assert_eq!(outcome.cnp, CnpOutcome::None);
    assert_eq!(engine.counters(), NpCounters::default());
}

#[test]
fn flows_are_paced_apart() {
    let mut engine = engine::<4, 2>("paper");
    assert!(marked(&mut engine, 0, 1));
    assert!(marked(&mut engine, 10, 2));
    assert!(!marked(&mut engine, 49_999, 1));
    assert!(marked(&mut engine, 50_000, 1));
    assert!(!marked(&mut engine, 50_009, 2));
    assert!(marked(&mut engine, 50_010, 2));
}

#[test]
fn a_packet_of_an_unknown_sender_is_counted_and_opens_no_record() {
    let mut engine = engine::<1, 1>("paper");
    assert!(marked(&mut engine, 0, 1));
    let data = bytes(&frame(SEND_MIDDLE, 2, Ecn::Ce, V4, Tags::NONE));
    for now in 1..=100 {
        let outcome =
            engine.arrival(Instant::from_nanos(now), &Roce::of(&data).unwrap(), UNKNOWN_SENDER, &mut Ring::new(128));
        assert_eq!(outcome.cnp, CnpOutcome::Unaddressed);
    }
    assert!(!marked(&mut engine, 101, 1), "the known flow kept its record");
    assert_eq!(engine.counters().np_cnp_unaddressed, 100);
    assert_eq!(engine.counters().np_flows_evicted, 0);
    assert!(marked(&mut engine, 102, 2), "its sender is known now: a CNP at once");
}

#[test]
fn a_full_ring_defers_and_the_cnp_stays_due() {
    let mut engine = engine::<4, 2>("paper");
    for (now, room) in [(0, 0), (1, 1), (2, 73)] {
        assert_eq!(arrive(&mut engine, now, SEND_MIDDLE, 1, Ecn::Ce, &mut Ring::new(room)), CnpOutcome::RingFull);
    }
    assert_eq!(arrive(&mut engine, 3, SEND_MIDDLE, 1, Ecn::Ce, &mut Ring::new(74)), CnpOutcome::Sent);
    assert!(!marked(&mut engine, 50_002, 1), "the interval runs from the CNP that went out");
    assert!(marked(&mut engine, 50_003, 1));
    assert_eq!(engine.counters().np_cnp_ring_full, 3);
}

#[test]
fn a_deferred_cnp_takes_no_token_from_the_port() {
    let mut engine = engine::<4, 2>("cx4");
    assert_eq!(arrive(&mut engine, 0, SEND_MIDDLE, 1, Ecn::Ce, &mut Ring::new(0)), CnpOutcome::RingFull);
    assert!(marked(&mut engine, 0, 1));
    assert_eq!(arrive(&mut engine, 1, SEND_MIDDLE, 1, Ecn::Ce, &mut Ring::new(128)), CnpOutcome::RateLimited);
}

#[test]
fn a_connectx_4_makes_one_cnp_in_a_microsecond() {
    let mut engine = engine::<64, 4>("cx4");
    let sent = (0..100_000).step_by(85).filter(|&now| marked(&mut engine, now, now as u32 % 200)).count();
    assert!((90..=100).contains(&sent), "{sent} CNPs in 100 us");
    let counters = engine.counters();
    assert!(adds_up(&counters) && counters.np_cnp_rate_limited > 0);
}

#[test]
fn the_paper_s_incasts_stay_below_the_bound_on_the_port() {
    // 1,000-byte packets at 40 Gb/s, one each 200 ns, all marked, of 2,000 flows, more than the paper starts.
    let mut engine = engine::<1024, 4>("paper");
    for packet in 0..50_000 {
        marked(&mut engine, packet * 200, (packet % 2_000) as u32);
    }
    let counters = engine.counters();
    assert_eq!((counters.np_cnp_rate_limited, counters.np_flows_evicted), (0, 0));
}

#[test]
fn a_new_flow_in_every_packet_stays_within_the_bound_on_the_port() {
    let mut engine = engine::<1, 2>("paper");
    // A packet each 7 ns, every one of a new flow.
    let sent = (0..1_000_000).filter(|&flow| marked(&mut engine, flow * 7, flow as u32)).count();
    assert!(sent as u64 <= 1_000 + 7_000_000 / 100, "{sent} CNPs in 7 ms");
    assert!(adds_up(&engine.counters()));
}

#[test]
fn an_evicted_flow_is_notified_early_never_late() {
    // Three flows share a set of two records: each packet evicts a record.
    let mut engine = engine::<1, 2>("paper");
    let mut sent = [0; 3];
    for packet in 0..3_000_u64 {
        let flow = packet as usize % 3;
        sent[flow] += u32::from(marked(&mut engine, packet * 1_000, flow as u32));
    }
    let least = 3_000_000 / 50_000;
    assert!(sent.iter().all(|&cnps| cnps >= least), "{sent:?}");
    assert!(engine.counters().np_flows_evicted > 0);
}

#[test]
fn datagrams_share_one_interval_and_their_cnp_goes_to_their_source() {
    let mut engine = engine::<4, 2>("paper");
    let mut tx = Ring::new(128);
    let data = bytes(&frame(UD_SEND_ONLY, 0x11, Ecn::Ce, V4, Tags::NONE));
    let outcome = engine.arrival(Instant::from_nanos(0), &Roce::of(&data).unwrap(), UNKNOWN_SENDER, &mut tx);
    assert_eq!(outcome.cnp, CnpOutcome::Sent);
    assert_eq!(Roce::of(tx.frame()).unwrap().bth.dest_qp, Qpn::new(0x00_0d00));
    assert_eq!(engine.live_flows(), 0);
    assert_eq!(arrive(&mut engine, 49_999, UD_SEND_ONLY, 0x22, Ecn::Ce, &mut tx), CnpOutcome::None);
    assert!(marked(&mut engine, 49_999, 0x11), "a connection does not wait for datagrams");
    assert_eq!(arrive(&mut engine, 50_000, UD_SEND_ONLY, 0x22, Ecn::Ce, &mut tx), CnpOutcome::Sent);
}

#[test]
fn the_notification_point_is_switched_on_and_off_for_the_whole_port_a14() {
    let (mut off, mut on) = (engine::<4, 2>("paper"), engine::<4, 2>("paper"));
    off.set_enabled(false);
    assert!(!off.is_enabled() && on.is_enabled());
    assert!(!marked(&mut off, 0, 1) && marked(&mut on, 0, 1));
    assert_eq!(off.counters().np_ce_ignored, 1);
    off.set_enabled(true);
    assert!(marked(&mut off, 1, 1));
}

#[test]
fn settings_of_one_port_are_not_those_of_another_a16() {
    let values = DcqcnSettings { cnp_dscp: 46, min_time_between_cnps: 10, ..settings("paper") };
    let (mut changed, mut other) = (engine::<4, 2>("paper"), engine::<4, 2>("paper"));
    changed.set_params(Params::new(&values));
    for (engine, dscp, interval) in [(&mut changed, 46, 10_000), (&mut other, 48, 50_000)] {
        let mut tx = Ring::new(128);
        arrive(engine, 0, SEND_MIDDLE, 1, Ecn::Ce, &mut tx);
        assert_eq!(Roce::of(tx.frame()).unwrap().dscp(), dscp);
        assert!(!marked(engine, interval - 1, 1) && marked(engine, interval, 1));
    }
}

#[test]
fn new_parameters_keep_the_records() {
    let mut engine = engine::<4, 2>("paper");
    assert!(marked(&mut engine, 0, 1));
    assert!(!marked(&mut engine, 10_000, 1));
    engine.set_params(Params::new(&DcqcnSettings { min_time_between_cnps: 20, ..settings("paper") }));
    assert!(!marked(&mut engine, 19_999, 1));
    assert!(marked(&mut engine, 20_000, 1));
    engine.set_params(Params::new(&settings("cx4")));
    assert!(marked(&mut engine, 20_000, 1));
}

/// By the old interval of 4 us the record is gone, whether or not a sweep has reached it.
#[test]
fn a_longer_interval_brings_back_no_record_that_was_idle_for_the_old_one() {
    for (now, flows) in [(249_950_000, 2), (250_050_000, 1)] {
        let mut engine = engine::<1, 2>("vendor");
        assert!(marked(&mut engine, 0, 3) && marked(&mut engine, 249_900_000, 1) && marked(&mut engine, now, 2));
        assert_eq!(engine.live_flows(), flows, "a sweep is due each 250 ms");
        engine.set_params(Params::new(&DcqcnSettings { min_time_between_cnps: 131_071, ..settings("paper") }));
        assert!(marked(&mut engine, now + 1, 1));
        assert!(!marked(&mut engine, now + 2, 2), "not idle for 4 us");
    }
}

#[test]
fn a_new_queue_pair_of_an_old_number_starts_with_a_new_record() {
    let mut engine = engine::<4, 2>("paper");
    assert!(marked(&mut engine, 0, 1));
    engine.forget(Qpn::new(1));
    assert!(marked(&mut engine, 1, 1));
}

#[test]
fn stamps_that_wrap_delay_no_cnp() {
    for opcode in [SEND_MIDDLE, UD_SEND_ONLY] {
        let mut engine = engine::<4, 2>("paper");
        let wrap = 1 << 32;
        let notified = |engine: &mut Np<4, 2>, now| {
            arrive(engine, now, opcode, 1, Ecn::Ce, &mut Ring::new(128)) == CnpOutcome::Sent
        };
        assert!(notified(&mut engine, 0));
        for second in 1..=4 {
            idle(&mut engine, Instant::from_nanos(second * 1_000_000_000));
        }
        assert!(notified(&mut engine, wrap + 1), "{opcode:#04x}");
        assert!(!notified(&mut engine, wrap + 50_000));
        assert!(notified(&mut engine, wrap + 50_001));
        assert_eq!(engine.counters().np_clock_jumps_forward, 0);
    }
}

#[test]
fn a_record_is_removed_after_its_idle_timeout() {
    let mut engine = engine::<64, 4>("paper");
    let flows = (0..100).filter(|&flow| marked(&mut engine, 0, flow)).count();
    assert_eq!((flows, engine.live_flows()), (100, 100));
    for step in 1..=100 {
        idle(&mut engine, Instant::from_nanos(step * 11_000_000));
    }
    assert_eq!(engine.live_flows(), 0);
    assert_eq!(engine.counters().np_flows_evicted, 0);
}

#[test]
fn a_clock_step_is_not_time_that_passed() {
    let hour = 3_600_000_000_000;
    let mut engine = engine::<4, 2>("paper");
    assert!(marked(&mut engine, 1_000, 1));
    assert!(!marked(&mut engine, hour, 1), "a leap of an hour");
    assert!(!marked(&mut engine, hour + 49_999, 1));
    assert!(marked(&mut engine, hour + 50_000, 1));
    assert!(!marked(&mut engine, 5, 1), "back to the start");
    assert!(!marked(&mut engine, 50_004, 1));
    assert!(marked(&mut engine, 50_005, 1));
    let counters = engine.counters();
    assert_eq!((counters.np_clock_jumps_forward, counters.np_clock_reversals), (1, 1));
}

/// A data packet with the sender's time stamp and telemetry.
fn stamped(opcode: u8, qpn: u32, psn: u32, ecn: Ecn, ack_request: bool) -> Vec<u8> {
    static AREA: [u8; 32] = [0x5a; 32];
    let head = frame(opcode, qpn, ecn, V4, Tags::NONE);
    let shims = Shims {
        time: Some(Time { sent: Stamp::from_bits(0xffff_0000), ..Time::default() }),
        int: IntShim::new(IntLayout::Wide, 7, 1, &AREA),
        ..Shims::NONE
    };
    bytes(&Frame { bth: Bth { psn: Psn::new(psn), ack_request, ..head.bth }, shims, hop_limit: 62, ..head })
}

type Echoing = NpEngine<Echo, 4, 2>;

fn echoing(preset: &Preset<EchoSettings>) -> Echoing {
    Echoing::new(Instant::from_nanos(0), LINK, Echo::check(&preset.values, &LINK).unwrap())
}

/// The acknowledgement of this packet, which arrived 300 ns ago.
fn acknowledgement(engine: &mut Echoing, data: &[u8], tx: &mut Ring) -> ArrivalOutcome {
    let arrived = Instant::from_nanos(0xffff_1000).stamp();
    let rx = RxMeta { msn: Some(0x12_3456), rx_buffer_level: 9, ..RxMeta::new(arrived, Some(Qpn::new(0xd2))) };
    engine.arrival(Instant::from_nanos(0xffff_1000 + 300), &Roce::of(data).unwrap(), rx, tx)
}

#[test]
fn an_acknowledgement_carries_the_mark_the_time_stamp_and_the_telemetry() {
    let mut engine = echoing(&BINARY);
    let mut tx = Ring::new(354);
    let data = stamped(SEND_MIDDLE, 1, 41, Ecn::Ce, false);
    assert_eq!(acknowledgement(&mut engine, &data, &mut tx).ack, AckOutcome::None);
    let data = stamped(opcode::SEND_LAST, 1, 42, Ecn::Ect0, false);
    let outcome = acknowledgement(&mut engine, &data, &mut tx);
    assert_eq!((outcome.cnp, outcome.ack), (CnpOutcome::None, AckOutcome::Sent));
    let ack = Roce::of(tx.frame()).unwrap();
    assert_eq!((ack.info.class(), ack.icrc::<TableCrc>()), (Class::Ack, Icrc::Valid));
    assert_eq!((ack.bth.dest_qp, ack.bth.psn, ack.echo()), (Qpn::new(0xd2), Psn::new(42), Mark::Congested));
    assert_eq!(ack.aeth().map(|aeth| aeth.msn), Some(0x12_3456));
    let shims = ack.shims();
    let time = shims.time.unwrap();
    assert_eq!(
        (time.echo.to_bits(), time.receiver_hold, time.hops, time.rx_buffer_level),
        (0xffff_0000, Nanos::new(300), 2, 9)
    );
    assert_eq!(shims.int, Roce::of(&data).unwrap().shims().int);
    // A mark that an acknowledgement has carried is not echoed again.
    let mut tx = Ring::new(354);
    acknowledgement(&mut engine, &stamped(opcode::SEND_ONLY, 1, 43, Ecn::Ect0, false), &mut tx);
    assert_eq!(Roce::of(tx.frame()).unwrap().echo(), Mark::None);
}

#[test]
fn data_of_reliable_connections_is_acknowledged_if_it_requests_that_or_ends_a_message() {
    let mut engine = echoing(&BINARY);
    for (opcode, ack_request, expected) in [
        (SEND_MIDDLE, false, false),
        (SEND_MIDDLE, true, true),
        (opcode::SEND_LAST, false, true),
        (WRITE_ONLY, false, true),
        (XRC_WRITE_ONLY, true, true),
        (UC_SEND_ONLY, true, false),
        (UD_SEND_ONLY, true, false),
        (READ_RESPONSE_MIDDLE, true, false),
        (READ_REQUEST, true, false),
        (ACK, true, false),
    ] {
        let mut tx = Ring::new(354);
        let outcome = acknowledgement(&mut engine, &stamped(opcode, 1, 7, Ecn::Ect0, ack_request), &mut tx);
        assert_eq!(outcome.ack == AckOutcome::Sent, expected, "{opcode:#04x}");
        assert_eq!(tx.sent.len(), usize::from(expected));
        // The transport has nothing to acknowledge: the packet is out of order.
        let data = stamped(opcode, 1, 7, Ecn::Ect0, ack_request);
        let outcome = engine.arrival(Instant::from_nanos(0xffff_2000), &Roce::of(&data).unwrap(), from(2), &mut tx);
        assert_eq!(outcome.ack, AckOutcome::None);
    }
    assert_eq!(engine.counters().np_acks_sent, 4);
}

#[test]
fn an_acknowledgement_that_finds_the_ring_full_is_counted_and_its_mark_is_kept() {
    let mut engine = echoing(&BINARY);
    let data = stamped(opcode::SEND_ONLY, 1, 7, Ecn::Ce, true);
    for room in [0, 100] {
        assert_eq!(acknowledgement(&mut engine, &data, &mut Ring::new(room)).ack, AckOutcome::Dropped);
    }
    let mut tx = Ring::new(354);
    acknowledgement(&mut engine, &stamped(opcode::SEND_ONLY, 1, 8, Ecn::Ect0, true), &mut tx);
    assert_eq!(Roce::of(tx.frame()).unwrap().echo(), Mark::Congested);
    let counters = engine.counters();
    assert_eq!((counters.np_acks_dropped, counters.np_acks_sent), (2, 1));
    let unknown = RxMeta { msn: Some(1), ..UNKNOWN_SENDER };
    let outcome = engine.arrival(Instant::from_nanos(0xffff_2000), &Roce::of(&data).unwrap(), unknown, &mut tx);
    assert_eq!((outcome.cnp, outcome.ack), (CnpOutcome::Unaddressed, AckOutcome::Unaddressed));
    assert_eq!(engine.counters().np_acks_unaddressed, 1);
}

#[test]
fn ect1_is_a_mark_only_where_it_is_tcds_a8() {
    for (preset, expected) in [(&BINARY, Mark::None), (&TERNARY, Mark::Undetermined)] {
        let mut engine = echoing(preset);
        let mut tx = Ring::new(354);
        acknowledgement(&mut engine, &stamped(opcode::SEND_ONLY, 1, 7, Ecn::Ect1, true), &mut tx);
        assert_eq!(Roce::of(tx.frame()).unwrap().echo(), expected);
        assert_eq!(engine.counters().np_ecn_marked_roce_packets, u64::from(expected != Mark::None));
        let mut tx = Ring::new(354);
        for ecn in [Ecn::Ce, Ecn::Ect1] {
            acknowledgement(&mut engine, &stamped(SEND_MIDDLE, 1, 7, ecn, false), &mut tx);
        }
        acknowledgement(&mut engine, &stamped(opcode::SEND_LAST, 1, 9, Ecn::Ect0, false), &mut tx);
        assert_eq!(Roce::of(tx.frame()).unwrap().echo(), Mark::Congested, "CE is stronger");
        assert!(adds_up(&engine.counters()));
    }
}

#[test]
fn marks_of_an_old_queue_pair_are_not_echoed_to_a_new_one_f5() {
    let mut engine = echoing(&BINARY);
    acknowledgement(&mut engine, &stamped(SEND_MIDDLE, 1, 7, Ecn::Ce, false), &mut Ring::new(354));
    engine.forget(Qpn::new(1));
    let mut tx = Ring::new(354);
    acknowledgement(&mut engine, &stamped(opcode::SEND_ONLY, 1, 8, Ecn::Ect0, true), &mut tx);
    assert_eq!(Roce::of(tx.frame()).unwrap().echo(), Mark::None);
}

#[test]
fn an_injected_record_decides_the_next_acknowledgement() {
    let mut engine = echoing(&BINARY);
    let mut tx = Ring::new(354);
    let local = Qpn::new(7);
    assert!(!engine.inject(local, EchoSnapshot { mark: Mark::Congested }) && engine.snapshot(local).is_none());
    acknowledgement(&mut engine, &stamped(SEND_MIDDLE, 7, 8, Ecn::Ce, false), &mut tx);
    assert_eq!(engine.snapshot(local), Some(EchoSnapshot { mark: Mark::Congested }));
    assert!(engine.inject(local, EchoSnapshot { mark: Mark::Undetermined }));
    acknowledgement(&mut engine, &stamped(opcode::SEND_ONLY, 7, 9, Ecn::Ect0, true), &mut tx);
    assert_eq!(Roce::of(tx.frame()).unwrap().echo(), Mark::Undetermined);
    assert_eq!(engine.snapshot(local), Some(EchoSnapshot { mark: Mark::None }));
}

/// A record that contains its key can be replaced by one with the same key only.
#[test]
fn a_record_of_another_flow_is_not_injected() {
    let params = DcqcnPlus::check(&PAPER.values, &LINK).unwrap();
    let mut engine = NpEngine::<DcqcnPlus, 4, 2>::new(Instant::from_nanos(0), LINK, params);
    let Common { params, shared, .. } = &mut engine.common;
    let local = Qpn::new(7);
    let cx = Cx { now: Instant::from_nanos(0), link: &LINK, params };
    Flows::lookup_or_insert(&mut engine.flows, &cx, shared, local);
    let record = engine.snapshot(local).unwrap();
    assert!(!engine.inject(local, DcqcnPlusSnapshot { local: Qpn::new(8), ..record }));
    assert!(engine.inject(local, DcqcnPlusSnapshot { seq: 9, ..record }));
    assert_eq!(engine.snapshot(local), Some(DcqcnPlusSnapshot { seq: 9, ..record }));
    engine.inject_shared(ListSnapshot { unlisted: 3, ..engine.shared().snapshot() });
    assert_eq!(engine.shared().l(), 4);
}

/// A machine that counts its flows, and processes every packet.
#[derive(Clone, Copy, PartialEq, Debug)]
struct ActiveFlowCounter;

impl Zeroed for ActiveFlowCounter {
    const ZEROED: Self = Self;
}

/// Number of records, the shared one included.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Count(u32);

impl State for Count {
    type Snapshot = u32;

    fn snapshot(&self) -> u32 {
        self.0
    }

    fn from_snapshot(count: u32) -> Self {
        Self(count)
    }
}

impl State for ActiveFlowCounter {
    type Snapshot = ();

    fn snapshot(&self) {}

    fn from_snapshot((): ()) -> Self {
        Self
    }
}

impl NotificationPoint for ActiveFlowCounter {
    type Settings = EchoSettings;
    type Params = CnpPolicy;
    type Shared = Count;
    type Flows<SETS: Storage, const WAYS: usize> = SetAssocTableIn<Self, SETS, WAYS>;

    const NAME: &'static str = "active_flow_counter";
    const PRESETS: &'static [Preset<EchoSettings>] = &[BINARY];
    const SHARED: Count = Count(0);
    const TRANSITIONS: &'static [&'static str] = &["any, any: nothing"];

    fn check(_settings: &EchoSettings, _link: &Link) -> Result<CnpPolicy, ParamError> {
        Ok(CnpPolicy::new(CnpMarking::default(), Nanos::ZERO, 1))
    }

    fn cnp_policy(params: &CnpPolicy) -> &CnpPolicy {
        params
    }

    fn idle_timeout(_params: &CnpPolicy) -> Nanos {
        Nanos::new(192_000)
    }

    fn reacts_to(_mark: Mark) -> bool {
        true
    }

    fn open(_cx: &Cx<'_, CnpPolicy>, shared: &mut Count, _local: Option<Qpn>) -> Self {
        shared.0 += 1;
        Self
    }

    fn transition(&self, _cx: &Cx<'_, CnpPolicy>, _shared: &Count, _event: &Event<'_>) -> usize {
        0
    }

    fn on(&mut self, _cx: &Cx<'_, CnpPolicy>, _shared: &mut Count, _arrival: &Arrival<'_>) -> Reply {
        Reply::default()
    }

    fn on_cnp_sent(&mut self, _cx: &Cx<'_, CnpPolicy>, _shared: &mut Count) {}

    fn on_evicted(&self, _cx: &Cx<'_, CnpPolicy>, shared: &mut Count) {
        shared.0 -= 1;
    }
}

#[test]
fn an_idle_flow_is_removed_within_a_second_while_another_is_active() {
    let params = CnpPolicy::new(CnpMarking::default(), Nanos::ZERO, 1);
    let mut engine = NpEngine::<ActiveFlowCounter, 64, 4>::new(Instant::from_nanos(0), LINK, params);
    for qpn in 0..100 {
        let data = bytes(&frame(SEND_MIDDLE, qpn, Ecn::Ect0, V4, Tags::NONE));
        engine.arrival(Instant::from_nanos(0), &Roce::of(&data).unwrap(), from(2), &mut Ring::new(0));
    }
    assert_eq!(engine.shared().0, 100);
    let data = bytes(&frame(SEND_MIDDLE, 5, Ecn::Ect0, V4, Tags::NONE));
    for now in 1..=10_000 {
        engine.arrival(Instant::from_nanos(now * 100_000), &Roce::of(&data).unwrap(), from(2), &mut Ring::new(0));
    }
    assert_eq!(engine.shared().0, 1);
}

/// One packet of a random stream.
#[derive(Clone, Copy, Debug)]
struct Step {
    gap: u64,
    opcode: u8,
    qpn: u32,
    ecn: u8,
    known: bool,
    room: usize,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let opcode = prop_oneof![4 => Just(SEND_MIDDLE), 1 => Just(UD_SEND_ONLY), 2 => any::<u8>()];
    let room = prop_oneof![4 => Just(128), 1 => 0..80_usize];
    let step = (0..40_000_u64, opcode, 0..12_u32, 0..4_u8, prop::bool::weighted(0.9), room);
    let step = step.prop_map(|(gap, opcode, qpn, ecn, known, room)| Step { gap, opcode, qpn, ecn, known, room });
    prop::collection::vec(step, 1..300)
}

proptest! {
    /// A machine is called for every record that is opened, and for every one that is removed: evicted, expired, or with its
    /// queue pair.
    #[test]
    fn the_shared_state_counts_the_records_exactly(
        steps in steps(),
        forget in prop::collection::vec(any::<bool>(), 300),
    ) {
        let params = CnpPolicy::new(CnpMarking::default(), Nanos::ZERO, 1);
        let mut engine = NpEngine::<ActiveFlowCounter, 2, 2>::new(Instant::from_nanos(0), LINK, params);
        let mut now = 0;
        for (step, forget) in steps.into_iter().zip(forget) {
            now += step.gap * 20;
            let data = bytes(&frame(step.opcode, step.qpn, Ecn::from_bits(step.ecn), V4, Tags::NONE));
            engine.arrival(Instant::from_nanos(now), &Roce::of(&data).unwrap(), from(2), &mut Ring::new(step.room));
            if forget {
                engine.forget(Qpn::new(step.qpn));
            }
            prop_assert_eq!(engine.shared().0, engine.live_flows() + engine.shared_record.occupied());
        }
    }

    /// With room for every flow and no bound on the port, CNPs are exactly those of the paper's rule, applied to an unbounded
    /// map of flows.
    #[test]
    fn the_engine_equals_the_rule(steps in steps(), n in 0..100_u32) {
        let values = DcqcnSettings { min_time_between_cnps: n, cnp_port_interval: 0, ..settings("paper") };
        let mut engine = with::<16, 8>(&values);
        let mut last: HashMap<Option<u32>, u64> = HashMap::new();
        let mut now = 0;
        for step in steps {
            now += step.gap;
            let data = bytes(&frame(step.opcode, step.qpn, Ecn::from_bits(step.ecn), V4, Tags::NONE));
            let packet = Roce::of(&data).unwrap();
            let rx = if step.known { from(0xd2) } else { UNKNOWN_SENDER };
            let mut tx = Ring::new(step.room);
            let cnp = engine.arrival(Instant::from_nanos(now), &packet, rx, &mut tx).cnp;
            prop_assert!(tx.sent.iter().all(|frame| frame.len() == 74));

            let datagram = step.opcode >> 5 == 3;
            let reliable_datagram = step.opcode >> 5 == 2;
            let flow = (!datagram).then_some(step.qpn);
            let expected = if step.ecn != 3 || !packet.info.class().carries_data() || reliable_datagram {
                CnpOutcome::None
            } else if !step.known && !datagram {
                CnpOutcome::Unaddressed
            } else if last.get(&flow).is_some_and(|last| now - last < u64::from(n) * 1_000) {
                CnpOutcome::None
            } else if step.room < 74 {
                CnpOutcome::RingFull
            } else {
                last.insert(flow, now);
                CnpOutcome::Sent
            };
            prop_assert_eq!(cnp, expected);
        }
        prop_assert!(adds_up(&engine.counters()));
        prop_assert_eq!(engine.counters().np_flows_evicted, 0);
    }

    /// For any packets: no panic, every marked packet is counted once, and the port's bound on CNPs holds.
    #[test]
    fn damaged_frames_and_any_clock_cause_no_panic_and_no_miscount(
        steps in prop::collection::vec((any::<u64>(), steps(), any::<(u16, u8)>()), 1..8),
        preset in 0..3_usize,
    ) {
        let mut engine = Np::<2, 1>::new(Instant::from_nanos(u64::MAX), LINK, Params::new(&Dcqcn::PRESETS[preset].values));
        let mut sent = 0;
        for (start, steps, (at, flip)) in steps {
            let mut now = start;
            for step in steps {
                now = now.wrapping_add(step.gap);
                let mut data = bytes(&frame(step.opcode, step.qpn, Ecn::from_bits(step.ecn), V4, Tags::NONE));
                let at = usize::from(at) % data.len();
                data[at] ^= flip;
                let Ok(Parsed::Roce(packet)) = wire::parse(&data, data.len()) else { continue };
                let rx = if step.known { from(step.qpn) } else { UNKNOWN_SENDER };
                let mut tx = Ring::new(step.room);
                let outcome = engine.arrival(Instant::from_nanos(now), &packet, rx, &mut tx);
                prop_assert_eq!(outcome.cnp == CnpOutcome::Sent, tx.sent.len() == 1);
                if outcome.cnp == CnpOutcome::Sent {
                    prop_assert_eq!(Roce::of(tx.frame()).unwrap().info.class(), Class::Cnp);
                    sent += 1;
                }
            }
        }
        let counters = engine.counters();
        prop_assert!(adds_up(&counters), "{:?}", counters);
        prop_assert_eq!(counters.np_cnp_sent, sent);
        prop_assert!(counters.np_cnp_sent <= counters.np_ecn_marked_roce_packets);
    }
}

/// A READ that a host receives counts in RCC's N from its first response to its last one, although none of them is acknowledged.
#[test]
fn responses_to_reads_count_among_the_active_flows_of_rcc() {
    use crate::rcc::{Rcc, STABLE};
    let mut engine = NpEngine::<Rcc, 4, 2>::new(Instant::from_nanos(0), LINK, Rcc::check(&STABLE, &LINK).unwrap());
    let responses = [opcode::READ_RESPONSE_FIRST, opcode::READ_RESPONSE_MIDDLE, opcode::READ_RESPONSE_LAST];
    for (at, (opcode, flows)) in (1u32..).zip([(opcode::SEND_FIRST, 1), (responses[0], 2), (responses[1], 2)]) {
        let flow = if opcode == opcode::SEND_FIRST { 1 } else { 2 };
        let data = stamped(opcode, flow, at, Ecn::Ect0, false);
        let now = Instant::from_nanos(u64::from(at) * 100);
        let rx = RxMeta { msn: Some(0), ..RxMeta::new(now.stamp(), Some(Qpn::new(0xd2))) };
        let outcome = engine.arrival(now, &Roce::of(&data).unwrap(), rx, &mut Ring::new(354));
        assert_eq!((outcome.ack, engine.shared().flows()), (AckOutcome::None, flows), "{opcode:#04x}");
    }
    let last = stamped(responses[2], 2, 4, Ecn::Ect0, false);
    let now = Instant::from_nanos(400);
    let rx = RxMeta { msn: Some(0), ..RxMeta::new(now.stamp(), Some(Qpn::new(0xd2))) };
    engine.arrival(now, &Roce::of(&last).unwrap(), rx, &mut Ring::new(354));
    assert_eq!(engine.shared().flows(), 1);
}
