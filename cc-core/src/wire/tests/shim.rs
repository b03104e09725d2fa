//! Shims: their bytes, malformed chains, changes made by switches, and acknowledgements that return them.

use super::*;
use crate::wire::shim::{self, IntShim, MlccAck, MlccData, Rcc, Time};
use crate::{Grant, Hop, IntLayout, IntStack, Mark, Rate};

const HOP: Hop = Hop { mbps: 100_000, flags: Hop::INTERCONNECT, clock: 0x0102_0304, sent: 0x1122_3344, queue: 0xabcd };

const PATH: u16 = 0x0abc;
/// Where the chain begins: behind Ethernet, IPv4 and UDP.
const CHAIN: usize = 14 + 20 + 8;

fn time() -> Time {
    Time {
        sent: Stamp::from_bits(0x0102_0304),
        echo: Stamp::from_bits(0x1112_1314),
        receiver_hold: Nanos::new(0x2122_2324),
        hops: 3,
        rx_buffer_level: 31,
    }
}

fn rcc() -> Rcc {
    Rcc { window: Bytes::new(0x0003_0000), flows: 17, utilisation: 0x8000, echo: Stamp::from_bits(0x4142_4344) }
}

const MLCC_DATA: MlccData = MlccData { credit: 0x5152, queue: Bytes::new(0x6162_6364) };

const MLCC_ACK: MlccAck = MlccAck {
    credit: 0x7172,
    data_qpn: Qpn::new(0xa2_a3a4),
    release: Rate::from_bits(0x8182_8384),
    advised_rate: Rate::from_bits(0x9192_9394),
};

pub(super) fn all(area: &[u8]) -> Shims<'_> {
    let int = IntShim::new(IntLayout::Wide, PATH, 1, area);
    Shims {
        time: Some(time()),
        int,
        rcc: Some(rcc()),
        mlcc_data: Some(MLCC_DATA),
        mlcc_ack: Some(MLCC_ACK),
        echo: Some(Mark::Undetermined),
    }
}

fn shimmed<'a>(addresses: Addresses, shims: Shims<'a>) -> Frame<'a> {
    Frame { shims, ..frame(0x0b, addresses, b"payload") }
}

/// A frame whose chain of shims is these bytes, and nothing but.
fn with_chain(chain: &[u8]) -> Vec<u8> {
    spliced(emit(&frame(0x04, V4, b"data")), chain)
}

/// An IPv4 frame without tags and options, with a chain of shims put in by hand.
fn spliced(mut frame: Vec<u8>, chain: &[u8]) -> Vec<u8> {
    for at in [16, 38] {
        let len = u16::from_be_bytes([frame[at], frame[at + 1]]) + chain.len() as u16;
        frame[at..at + 2].copy_from_slice(&len.to_be_bytes());
    }
    frame[36..38].copy_from_slice(&shim::PORT.to_be_bytes());
    frame.splice(CHAIN..CHAIN, chain.iter().copied());
    frame
}

#[test]
fn the_bytes_are_those_of_the_table() {
    let mut area = [0; 32];
    area[..16].copy_from_slice(&HOP.to_wide());
    let bytes = emit(&shimmed(V4, all(&area)));
    let chain = hex("1104031f 01020304 11121314 21222324
                     21091abc 0186a002 01020304 11223344 0000abcd 00000000 00000000 00000000 00000000
                     31040000 00030000 00118000 41424344
                     41025152 61626364
                     51047172 00a2a3a4 81828384 91929394
                     61010001
                     00010000");
    assert_eq!(bytes[CHAIN..CHAIN + chain.len()], chain);
    assert_eq!(bytes[36..38], [0x12, 0xb8]);
    // BTH, RETH and ImmDt, payload and pad, ICRC.
    assert_eq!(bytes.len(), CHAIN + chain.len() + 12 + 20 + 8 + 4);
    assert_eq!(roce(&bytes).shims(), all(&area));

    let compact = IntShim::empty(IntLayout::Compact, PATH, 1);
    let bytes = emit(&shimmed(V4, Shims { int: Some(compact), ..Shims::NONE }));
    assert_eq!(bytes[CHAIN..CHAIN + 16], hex("22030abc 00000000 00000000 00010000"));
}

#[test]
fn the_shims_have_the_sizes_that_the_table_gives_them_b7() {
    let int = Some(IntShim::empty(IntLayout::Wide, PATH, IntShim::ROOM));
    assert_eq!(Shims::NONE.len(), 0);
    for (shims, len) in [
        (Shims { time: Some(time()), ..Shims::NONE }, 16),
        (Shims { int, ..Shims::NONE }, 100),
        (Shims { rcc: Some(rcc()), ..Shims::NONE }, 16),
        (Shims { mlcc_data: Some(MLCC_DATA), ..Shims::NONE }, 8),
        (Shims { mlcc_ack: Some(MLCC_ACK), ..Shims::NONE }, 16),
        (Shims { echo: Some(Mark::None), ..Shims::NONE }, 4),
    ] {
        assert_eq!(shims.len(), len + 4);
        assert_eq!(emit(&shimmed(V4, shims)).len(), emit(&frame(0x0b, V4, b"payload")).len() + len + 4);
    }
}

#[test]
fn the_icrc_is_that_of_the_packet_without_shims() {
    let area = [0xa5; 48];
    for addresses in [V4, V6] {
        let (plain, with) = (emit(&frame(0x0b, addresses, b"payload")), emit(&shimmed(addresses, all(&area))));
        assert_eq!(plain.last_chunk::<4>(), with.last_chunk());
        assert_eq!(roce(&with).icrc::<TableCrc>(), Icrc::Valid);
        let (plain, with) = (roce(&plain), roce(&with));
        assert_eq!((with.payload(), with.payload_len, with.pad), (plain.payload(), plain.payload_len, plain.pad));
        assert!(with.is_shimmed() && !plain.is_shimmed());
        assert_eq!(plain.shims(), Shims::NONE);
    }
    // The ICRC that the sender computed stays right.
    for frame in [connectx_cnp(), uc_send_only()] {
        let with = spliced(frame, &hex("1104031f 01020304 11121314 21222324 00010000"));
        assert_eq!(roce(&with).icrc::<TableCrc>(), Icrc::Valid);
        assert_eq!(roce(&with).shims(), Shims { time: Some(time()), ..Shims::NONE });
    }
}

#[test]
fn the_icrc_covers_all_of_a_shimmed_packet_but_what_routers_and_switches_change() {
    let area = [0; 32];
    for (addresses, variant) in [(V4, &[15, 22, 24, 25, 40, 41][..]), (V6, &[15, 16, 17, 21, 60, 61])] {
        let frame = emit(&shimmed(addresses, all(&area)));
        let (start, chain) = (roce(&frame).chain_at(), roce(&frame).chain());
        let bth = start + chain.len();
        for at in 14..frame.len() {
            for bit in 0..8 {
                let mut changed = frame.clone();
                changed[at] ^= 1 << bit;
                let verdict = match parse(&changed, changed.len()) {
                    Ok(Parsed::Roce(roce)) => Some(roce.icrc::<TableCrc>()),
                    _ => None,
                };
                let six = frame[14] >> 4 == 6 && at == 14 && bit < 4;
                if (start..bth).contains(&at) {
                    // The chain: a changed length makes the frame malformed or moves the BTH. The ICRC does not cover its other
                    // fields.
                    let own = (start + 20..start + 52).contains(&at);
                    assert!(if own { verdict == Some(Icrc::Valid) } else { verdict != Some(Icrc::Invalid) }, "{at}");
                } else {
                    let may_change = variant.contains(&at) || at == bth + 4 || six;
                    assert_eq!(verdict == Some(Icrc::Valid), may_change, "byte {at}, bit {bit}");
                }
            }
        }
    }
}

#[test]
fn switches_append_records_in_place_until_there_is_no_room() {
    for (layout, room) in [(IntLayout::Wide, 6), (IntLayout::Compact, 6), (IntLayout::Wide, 0), (IntLayout::Wide, 14)] {
        for addresses in [V4, V6] {
            let int = Some(IntShim::empty(layout, PATH, room));
            let shims = Shims { time: Some(time()), int, ..Shims::NONE };
            let tags = [[0x81, 0x00, 0x40, 0x02]];
            let sent = emit(&Frame { tags: Tags::new(&tags).unwrap(), ..shimmed(addresses, shims) });
            let mut frame = sent.clone();
            let hop = |nth: u8| Hop { flags: 0, clock: u32::from(nth), sent: 7, queue: 9, mbps: 400_000 };
            for nth in 0..room {
                assert_eq!(shim::push_into(&mut frame, sent.len(), shim::PORT, &hop(nth)), Some(nth + 1));
                assert_eq!(roce(&frame).icrc::<TableCrc>(), Icrc::Valid);
                let int = roce(&frame).shims().int.unwrap();
                assert_eq!((int.hops(), int.layout(), int.path()), (nth + 1, layout, PATH));
                assert!(int.stack().iter().eq((0..=nth).map(hop)));
            }
            let full = frame.clone();
            for _ in 0..2 {
                let pushed = shim::push_into(&mut frame, sent.len(), shim::PORT, &hop(room));
                assert_eq!(pushed, Some(IntStack::OVERFLOW));
            }
            let parsed = roce(&frame);
            let int = parsed.shims().int.unwrap();
            assert!(int.stack().overflowed() && int.stack().is_empty());
            assert_eq!(int.area(), roce(&full).shims().int.unwrap().area());
            // Nothing else has changed.
            let unwritten = Shims { int: Some(IntShim::empty(layout, PATH, room)), ..parsed.shims() };
            assert_eq!(unwritten, shims);
            assert_eq!(emit(&Frame { shims: unwritten, tags: parsed.tags(), ..shimmed(addresses, shims) }), sent);
            assert_eq!((frame.len(), parsed.icrc::<TableCrc>()), (sent.len(), Icrc::Valid));
        }
    }
}

#[test]
fn a_link_speed_without_a_code_leaves_no_compact_telemetry() {
    let mut area = [0; 16];
    let fast = Hop { mbps: 800_000, ..HOP };
    assert_eq!(IntLayout::Compact.push(0, &mut area, &fast), IntStack::OVERFLOW);
    assert_eq!(area, [0; 16]);
    assert_eq!(IntLayout::Wide.push(0, &mut area, &fast), 1);
    assert_eq!(area, fast.to_wide());
}

#[test]
fn frames_without_telemetry_are_left_alone() {
    let time = Shims { time: Some(time()), ..Shims::NONE };
    for mut frame in [emit(&frame(0x04, V4, b"data")), emit(&shimmed(V4, time)), roce_v1_write(), vec![0; 20]] {
        let before = frame.clone();
        assert_eq!(shim::push_into(&mut frame, before.len(), shim::PORT, &HOP), None);
        assert_eq!(frame, before);
    }
}

#[test]
fn contradictory_chains_are_reported_with_their_reason() {
    let read = |chain: &str| outcome(&with_chain(&hex(chain)));
    assert_eq!(read("00010000"), Ok("roce"));
    assert_eq!(read("00000000"), Err(Malformed::ShimLength));
    assert_eq!(read("11000000 00000000 00000000 00000000 00010000"), Err(Malformed::ShimLength));
    // Unknown types and versions are skipped.
    assert_eq!(read("f1020000 ffffffff 70010000 00010000"), Ok("roce"));
    assert_eq!(read("12020000 00000000 2f020000 ffffffff 00010000"), Ok("roce"));
    // Beyond 64 words, with its end or without.
    assert_eq!(read(&["f03f0000", &"00000000".repeat(62), "00010000"].concat()), Ok("roce"));
    assert_eq!(read(&["f0400000", &"00000000".repeat(63), "00010000"].concat()), Err(Malformed::ShimsLong));
    assert_eq!(read(&["f0ff0000", &"00000000".repeat(254), "00010000"].concat()), Err(Malformed::ShimsLong));
    assert_eq!(read(&["f0010000".repeat(64), "00010000".into()].concat()), Err(Malformed::ShimsLong));
    // Beyond the datagram.
    assert_eq!(read("f03f0000"), Err(Malformed::ShimShort));
    assert_eq!(read("f0070000"), Err(Malformed::ShimShort));
    // Of a length that is not the type's.
    for chain in [
        "11030000 00000000 00000000",
        "11050000 00000000 00000000 00000000 00000000",
        "31030000 00000000 00000000",
        "31050000 00000000 00000000 00000000 00000000",
        "41010000",
        "41030000 00000000 00000000",
        "51030000 00000000 00000000",
        "51050000 00000000 00000000 00000000 00000000",
        "61020000 00000000",
        // Half a record, more hops than room, more room than hops can be counted.
        "21030000 00000000 00000000",
        "21052000 00000000 00000000 00000000 00000000",
        "22021000 00000000",
    ] {
        assert_eq!(read(&[chain, "00010000"].concat()), Err(Malformed::ShimBody), "{chain}");
    }
    assert_eq!(read(&["213d0000", &"00000000".repeat(60), "00010000"].concat()), Err(Malformed::ShimBody));
    assert_eq!(read("00020000 00000000"), Err(Malformed::ShimBody));
    // An overflow needs no records.
    assert_eq!(read("2101f000 00010000"), Ok("roce"));
}

#[test]
fn a_datagram_that_ends_in_its_shims_is_short_wherever_it_ends() {
    let whole = emit(&shimmed(V4, all(&[0; 32])));
    let (start, chain) = (roce(&whole).chain_at(), roce(&whole).chain());
    for kept in 0..chain.len() {
        let mut frame = whole.clone();
        frame[38..40].copy_from_slice(&(8 + kept as u16).to_be_bytes());
        assert_eq!(outcome(&frame), Err(Malformed::ShimShort), "{kept}");
    }
    let mut frame = whole.clone();
    frame[38..40].copy_from_slice(&(8 + chain.len() as u16).to_be_bytes());
    assert_eq!(outcome(&frame), Err(Malformed::BthShort));
    assert_eq!(start, CHAIN);
}

#[test]
fn the_first_shim_of_a_type_counts_and_an_empty_chain_has_none() {
    let frame = with_chain(&hex("61010001 61010002 00010000"));
    assert_eq!(roce(&frame).shims(), Shims { echo: Some(Mark::Undetermined), ..Shims::NONE });
    let frame = with_chain(&hex("61010003 00010000"));
    assert_eq!(roce(&frame).shims().echo, Some(Mark::Congested));
    let frame = with_chain(&hex("00010000"));
    assert!(roce(&frame).is_shimmed() && roce(&frame).shims().is_empty());
    assert_eq!(roce(&frame).icrc::<TableCrc>(), Icrc::Valid);
}

#[test]
fn shims_can_be_on_another_port() {
    let sent = shimmed(V4, all(&[0; 16]));
    let mut frame = vec![0; 300];
    let len = sent.emit_on::<TableCrc>(&mut frame, 5_000).unwrap();
    frame.truncate(len);
    assert_eq!(outcome(&frame), Ok("udp"));
    match parse_on(&frame, len, 5_000) {
        Ok(Parsed::Roce(roce)) => assert_eq!((roce.shims(), roce.icrc::<TableCrc>()), (sent.shims, Icrc::Valid)),
        other => panic!("{other:?}"),
    }
    assert_eq!(shim::push_into(&mut frame, len, shim::PORT, &HOP), None);
    assert_eq!(shim::push_into(&mut frame, len, 5_000, &HOP), Some(IntStack::OVERFLOW));
    // Packets on RoCE's own port have no shims, whatever port is configured.
    let plain = emit(&self::frame(0x04, V4, b"data"));
    assert!(matches!(parse_on(&plain, plain.len(), ROCE_PORT), Ok(Parsed::Roce(roce)) if !roce.is_shimmed()));
}

#[test]
fn areas_are_whole_records_of_which_as_many_were_written_as_fit() {
    let area = [0; 256];
    let new = |hops, len| IntShim::new(IntLayout::Wide, 0xffff, hops, &area[..len]);
    assert_eq!(new(2, 32).unwrap().path(), 0x0fff);
    assert!(new(0, 0).is_some() && new(14, 224).is_some() && new(IntStack::OVERFLOW, 16).is_some());
    for (hops, len) in [(3, 32), (0, 24), (1, 0), (0, 240), (16, 224)] {
        assert_eq!(new(hops, len), None, "{hops} in {len}");
    }
    assert!(IntShim::new(IntLayout::Compact, 0, 3, &area[..24]).is_some());
    assert_eq!(IntShim::new(IntLayout::Compact, 0, 0, &area[..12]), None);
    assert_eq!(IntShim::empty(IntLayout::Compact, 0, u8::MAX).area().len(), 14 * 8);
}

#[test]
fn a_chain_beyond_64_words_is_not_sent() {
    let int = Some(IntShim::empty(IntLayout::Wide, PATH, 14));
    let mut buffer = [0; 512];
    let mut len = |shims| shimmed(V4, shims).emit::<TableCrc>(&mut buffer);
    let fits = Shims { time: Some(time()), int, ..Shims::NONE };
    assert!(len(fits).is_ok());
    assert_eq!(len(Shims { rcc: Some(rcc()), ..fits }), Err(EmitError::TooLong));
}

#[test]
fn interconnect_switches_clear_telemetry_and_fill_the_room_for_credit_in_place() {
    let room = Shims { time: Some(time()), mlcc_data: Some(MlccData::default()), ..Shims::NONE };
    for addresses in [V4, V6] {
        for (layout, hops) in [(IntLayout::Wide, 3), (IntLayout::Compact, 2), (IntLayout::Wide, IntStack::OVERFLOW)] {
            let area = [0x5a; 64];
            let int = IntShim::new(layout, PATH, hops, &area);
            let sent = emit(&shimmed(addresses, Shims { int, ..room }));
            let mut frame = sent.clone();
            assert!(shim::clear_int(&mut frame, sent.len(), shim::PORT));
            let int = IntShim::new(layout, PATH, 0, &area);
            assert_eq!(roce(&frame).shims(), Shims { int, ..room });
            assert!(shim::write_mlcc(&mut frame, sent.len(), shim::PORT, &MLCC_DATA));
            assert_eq!(roce(&frame).shims(), Shims { int, mlcc_data: Some(MLCC_DATA), ..room });
            assert_eq!((frame.len(), roce(&frame).icrc::<TableCrc>()), (sent.len(), Icrc::Valid));
        }
    }
    // Frames without these shims do not change.
    let time = Shims { time: Some(time()), ..Shims::NONE };
    for mut frame in [emit(&frame(0x04, V4, b"data")), emit(&shimmed(V4, time)), roce_v1_write(), vec![0; 20]] {
        let before = frame.clone();
        assert!(!shim::clear_int(&mut frame, before.len(), shim::PORT));
        assert!(!shim::write_mlcc(&mut frame, before.len(), shim::PORT, &MLCC_DATA));
        assert_eq!(frame, before);
    }
}

fn fields(mark: Mark, grant: Grant) -> AckFields {
    AckFields {
        msn: 0x00ab_cdef,
        mark,
        receiver_hold: Nanos::new(1_500),
        rx_buffer_level: 9,
        grant,
        marking: CnpMarking::default(),
    }
}

#[test]
fn an_acknowledgement_returns_what_the_packet_brought() {
    let grant = Grant::Rcc { window: Bytes::new(64_000), flows: 3, utilisation: 0xf000 };
    let tags = [[0x88, 0xa8, 0x70, 0x01], [0x81, 0x00, 0x40, 0x02]];
    for addresses in [V4, V6] {
        let int = Some(IntShim::empty(IntLayout::Wide, PATH, 2));
        let shims = Shims { time: Some(Time { sent: Stamp::from_bits(77), ..time() }), int, ..Shims::NONE };
        let data = Frame { hop_limit: 61, tags: Tags::new(&tags).unwrap(), ..shimmed(addresses, shims) };
        let mut data = emit(&data);
        shim::push_into(&mut data, usize::MAX, shim::PORT, &HOP);
        let cause = roce(&data);
        let ack = respond(&Response::ack(&cause, Qpn::new(0x55), &fields(Mark::Congested, grant)));
        let ack = roce(&ack);
        assert_eq!(ack.icrc::<TableCrc>(), Icrc::Valid);
        assert_eq!((ack.bth.opcode, ack.bth.psn, ack.bth.dest_qp), (0x11, cause.bth.psn, Qpn::new(0x55)));
        assert_eq!(ack.bth.partition, cause.bth.partition);
        let syndrome = Syndrome::Ack { credits: 31 };
        assert_eq!(ack.aeth(), Some(Aeth { syndrome, msn: 0x00ab_cdef }));
        assert_eq!((ack.bth.becn, ack.bth.fecn, ack.echo()), (true, false, Mark::Congested));
        assert_eq!((ack.addresses(), ack.udp_source()), (addresses.reversed(), cause.udp_source()));
        assert_eq!((ack.source_mac(), ack.destination_mac()), (cause.destination_mac(), cause.source_mac()));
        assert_eq!((ack.dscp(), ack.ecn, ack.payload_len), (48, Ecn::Ect0, 0));
        assert!(ack.tags().iter().map(|tag| (tag.priority, tag.vid)).eq([(6, 1), (6, 2)]));
        let echo = Stamp::from_bits(77);
        let receiver_hold = Nanos::new(1_500);
        let time = Some(Time { sent: Stamp::default(), echo, receiver_hold, hops: 3, rx_buffer_level: 9 });
        let rcc = Some(Rcc { window: Bytes::new(64_000), flows: 3, utilisation: 0xf000, echo });
        let int = cause.shims().int;
        assert_eq!(ack.shims(), Shims { time, int, rcc, ..Shims::NONE });
        let MlccAck { credit, release, advised_rate, .. } = MLCC_ACK;
        let grant = Grant::Mlcc { credit, release, advised_rate };
        let returned = MlccAck { data_qpn: cause.bth.dest_qp, ..MLCC_ACK };
        let mlcc = respond(&Response::ack(&cause, Qpn::new(0x55), &fields(Mark::Congested, grant)));
        assert_eq!(roce(&mlcc).shims(), Shims { time, int, mlcc_ack: Some(returned), ..Shims::NONE });
        assert_eq!(MLCC_ACK.grant(), grant);
        assert!(ack.shims().int.unwrap().stack().iter().eq([HOP]));
    }
}

#[test]
fn an_acknowledgement_of_a_packet_without_shims_is_a_standard_one() {
    let data = emit(&frame(0x04, V4, b"data"));
    for (mark, becn, fecn) in
        [(Mark::None, false, false), (Mark::Undetermined, false, true), (Mark::Congested, true, false)]
    {
        let ack = respond(&Response::ack(&roce(&data), Qpn::new(0xd2), &fields(mark, Grant::None)));
        let marks = if becn {
            0x40
        } else if fecn {
            0x80
        } else {
            0
        };
        let mut bytes = hex("1100ffff 000000d2 00fffffe 1fabcdef");
        bytes[4] = marks;
        assert_eq!(ack[36..38], [0x12, 0xb7]);
        assert_eq!(ack[42..58], bytes);
        assert_eq!(ack.len(), 62);
        assert_eq!(roce(&ack).echo(), mark);
    }
    let data = roce_v1_write();
    let ack = respond(&Response::ack(&roce(&data), Qpn::new(1), &fields(Mark::None, Grant::None)));
    assert_eq!((roce(&ack).version(), roce(&ack).aeth().unwrap().msn), (Version::V1, 0x00ab_cdef));
}

#[test]
fn hops_are_the_usual_first_time_to_live_less_the_received_one() {
    for (hop_limit, hops) in [
        (64, 0),
        (61, 3),
        (33, 31),
        (128, 0),
        (125, 3),
        (97, 31),
        (255, 0),
        (250, 5),
        (224, 31),
        // More than any path has: the first value was none of the three.
        (32, 0),
        (3, 0),
        (1, 0),
        (0, 0),
        (65, 0),
        (129, 0),
    ] {
        let shims = Shims { time: Some(time()), ..Shims::NONE };
        for addresses in [V4, V6] {
            let data = emit(&Frame { hop_limit, ..shimmed(addresses, shims) });
            let ack = respond(&Response::ack(&roce(&data), Qpn::new(1), &fields(Mark::None, Grant::None)));
            assert_eq!(roce(&ack).shims().time.unwrap().hops, hops, "{hop_limit}");
        }
    }
}

#[test]
fn the_longest_acknowledgement_under_four_tags_takes_354_bytes() {
    // Ethernet, four tags, IPv6, UDP, the longest chain, BTH, AETH, ICRC.
    assert_eq!(14 + 4 * 4 + 40 + 8 + shim::LONGEST + 12 + 4 + 4, 354);
    let tags = [[0x81, 0x00, 0x40, 0x02]; 4];
    let grant = Grant::Rcc { window: Bytes::MAX, flows: 1, utilisation: 0 };
    // INT areas are whole records: the longest chain that a response can carry is two words shorter than the limit.
    let longest = (0..=14).filter_map(|room| {
        let shims = Shims { time: Some(time()), int: Some(IntShim::empty(IntLayout::Wide, PATH, room)), ..Shims::NONE };
        let data = emit(&Frame { tags: Tags::new(&tags).unwrap(), ..shimmed(V6, shims) });
        let mut buffer = [0; 354];
        Response::ack(&roce(&data), Qpn::new(1), &fields(Mark::None, grant)).emit::<TableCrc>(&mut buffer).ok()
    });
    assert_eq!(longest.max(), Some(354 - 2 * 4));
}

#[derive(Clone, Debug)]
pub(super) struct OwnedShims {
    time: Option<Time>,
    int: Option<(IntLayout, u16, u8, Vec<u8>)>,
    rcc: Option<Rcc>,
    mlcc_data: Option<MlccData>,
    mlcc_ack: Option<MlccAck>,
    echo: Option<Mark>,
}

impl OwnedShims {
    pub(super) fn borrowed(&self) -> Shims<'_> {
        let int =
            self.int.as_ref().map(|(layout, path, hops, area)| IntShim::new(*layout, *path, *hops, area).unwrap());
        let Self { time, rcc, mlcc_data, mlcc_ack, echo, .. } = *self;
        Shims { time, int, rcc, mlcc_data, mlcc_ack, echo }
    }
}

prop_compose! {
    fn any_int()(compact: bool, path: u16, room in 0..12_u8, bytes: [u8; 224], written: prop::sample::Index) ->
        (IntLayout, u16, u8, Vec<u8>) {
        let layout = if compact { IntLayout::Compact } else { IntLayout::Wide };
        let hops = match written.index(usize::from(room) + 2) as u8 {
            hops if hops > room => IntStack::OVERFLOW,
            hops => hops,
        };
        (layout, path, hops, bytes[..usize::from(room) * layout.record_len()].to_vec())
    }
}

prop_compose! {
    pub(super) fn any_shims()(
        present: [bool; 6],
        words: [u32; 8],
        (hops, rx_buffer_level, flows, utilisation) in (any::<u8>(), 0..32_u8, any::<u16>(), any::<u16>()),
        int in any_int(),
        mark in prop::sample::select(vec![Mark::None, Mark::Undetermined, Mark::Congested]),
    ) -> OwnedShims {
        let [sent, echo, echo_rcc] = [words[0], words[1], words[2]].map(Stamp::from_bits);
        let time = Time { sent, echo, receiver_hold: Nanos::new(words[3]), hops, rx_buffer_level };
        let rcc = Rcc { window: Bytes::new(words[4]), flows, utilisation, echo: echo_rcc };
        let mlcc_data = MlccData { credit: flows, queue: Bytes::new(words[5]) };
        let [release, advised_rate] = [words[6], words[7]].map(Rate::from_bits);
        let mlcc_ack = MlccAck { credit: utilisation, data_qpn: Qpn::new(words[0] >> 8), release, advised_rate };
        OwnedShims {
            time: present[0].then_some(time),
            int: present[1].then_some(int),
            rcc: present[2].then_some(rcc),
            mlcc_data: present[4].then_some(mlcc_data),
            mlcc_ack: present[5].then_some(mlcc_ack),
            echo: present[3].then_some(mark),
        }
    }
}

proptest! {
    #[test]
    fn shims_are_read_back_and_change_nothing_else(
        shims in any_shims(),
        v6: bool,
        payload in prop::collection::vec(any::<u8>(), 0..99),
    ) {
        let addresses = if v6 { V6 } else { V4 };
        let plain = frame(0x06, addresses, &payload);
        let sent = Frame { shims: shims.borrowed(), ..plain };
        let (plain, with) = (emit(&plain), emit(&sent));
        let read = roce(&with);
        prop_assert_eq!(read.shims(), sent.shims);
        prop_assert_eq!(read.is_shimmed(), !sent.shims.is_empty());
        prop_assert_eq!(with.len(), plain.len() + sent.shims.len());
        prop_assert_eq!(read.icrc::<TableCrc>(), Icrc::Valid);
        prop_assert_eq!(read.payload(), &payload[..]);
        prop_assert_eq!(plain.last_chunk::<4>(), with.last_chunk());
    }

    #[test]
    fn any_chain_is_read_or_rejected_with_a_reason(chain in prop::collection::vec(any::<u8>(), 0..300), nibbles: bool) {
        // With `nibbles`, lengths are short enough to be those of known types.
        let chain: Vec<_> = chain.iter().map(|&byte| if nibbles { byte & 0x17 } else { byte }).collect();
        let bytes = with_chain(&chain);
        match parse(&bytes, bytes.len()) {
            Ok(Parsed::Roce(roce)) => {
                let (start, chain) = (roce.chain_at(), roce.chain());
                prop_assert!(start == CHAIN && chain.len() <= shim::LONGEST && chain.len() % 4 == 0);
                prop_assert!(roce.shims().len() <= chain.len());
                roce.icrc::<TableCrc>();
            }
            Ok(other) => prop_assert!(false, "{other:?}"),
            Err(_) => {}
        }
    }
}

#[test]
fn a_switch_removes_the_records_and_leaves_their_room() {
    let area = [HOP.to_wide(), HOP.to_wide(), [0; 16]].concat();
    let mut frame = emit(&shimmed(V6, Shims { int: IntShim::new(IntLayout::Wide, PATH, 2, &area), ..all(&area) }));
    let len = frame.len();
    assert!(shim::clear_int(&mut frame, len, shim::PORT));
    let cleared = roce(&frame);
    let int = cleared.int_shim().unwrap();
    assert_eq!((int.hops(), int.path(), int.area().len()), (0, PATH, 48));
    assert_eq!((cleared.icrc::<TableCrc>(), cleared.time_shim()), (Icrc::Valid, Some(time())));
    assert_eq!(shim::push_into(&mut frame, len, shim::PORT, &HOP), Some(1));
    let mut plain = emit(&super::frame(0x04, V4, b"data"));
    let (len, before) = (plain.len(), plain.clone());
    assert!(!shim::clear_int(&mut plain, len, shim::PORT));
    assert_eq!(plain, before);
}

/// A shim of one record, on path 1.
const INT_SHIM: &str = "21051001 0186a001 01020304 11223344 0000abcd";

fn cnp_from_switch(kind: CnpKind, payload: &[u8]) -> Vec<u8> {
    let cause = emit(&frame(0x04, V4, b"data"));
    let body = CnpBody { kind, seq: 7, ..CnpBody::default() };
    respond(&Response::from_switch(&roce(&cause), body, payload, CnpMarking::default()))
}

#[test]
fn a_cnp_of_a_switch_names_the_flow_by_the_receivers_queue_pair_and_carries_telemetry() {
    let hop = Hop { mbps: 100_000, flags: Hop::VIRTUAL, clock: 0x0102_0304, sent: 0x1122_3344, queue: 0xabcd };
    let area = hop.to_wide();
    let int = IntShim::new(IntLayout::Wide, 1, 1, &area).unwrap();
    let int_bytes = hex(INT_SHIM);
    assert_eq!(int.write(&mut [0; IntShim::LONGEST]).unwrap(), int_bytes);
    assert_eq!(int.write(&mut [0; 19]), Err(EmitError::BufferTooSmall));
    for addresses in [V4, V6] {
        let cause = emit(&frame(0x04, addresses, b"data"));
        for (kind, payload, expected) in [
            (CnpKind::SwitchInt, &int_bytes[..], Some(int)),
            (CnpKind::DirectInt, &int_bytes[..], Some(int)),
            (CnpKind::Direct, &[], None),
        ] {
            let body = CnpBody { kind, ce: true, seq: 3, ..CnpBody::default() };
            let cnp = respond(&Response::from_switch(&roce(&cause), body, payload, CnpMarking::default()));
            let cnp = roce(&cnp);
            let body = CnpBody { names_remote_qpn: true, remote_qpn: Qpn::new(0x118), ..body };
            assert_eq!((cnp.cnp(), cnp.switch_int()), (Some(CnpBodyKind::Extended(body)), expected));
            assert!(body.is_from_switch());
            assert_eq!((cnp.info.class(), cnp.bth.dest_qp, cnp.bth.becn), (Class::Cnp, Qpn::new(0), true));
            assert_eq!((cnp.addresses(), cnp.icrc::<TableCrc>()), (addresses.reversed(), Icrc::Valid));
            assert_eq!(FlowKey::of_reply(&cnp, body.remote_qpn), FlowKey::of_data(&roce(&cause)));
        }
    }
}

#[test]
fn telemetry_of_a_wrong_length_is_none() {
    let good = hex(INT_SHIM);
    assert!(roce(&cnp_from_switch(CnpKind::SwitchInt, &good)).switch_int().is_some());
    let head = |first: &str| hex(&INT_SHIM.replace("21051001", first));
    for (bytes, why) in [
        (Vec::new(), "nothing"),
        (good[..4].to_vec(), "a head alone"),
        (good[..16].to_vec(), "a record cut short"),
        ([&good[..], &[0; 4]].concat(), "something behind it"),
        (head("21041001"), "a length below the records'"),
        (head("21061001"), "a length beyond the packet"),
        (head("21052001"), "more hops than room"),
        (head("21001001"), "a length of zero"),
        (head("11051001"), "a shim of another type"),
        (head("23051001"), "an unknown version"),
    ] {
        let frame = cnp_from_switch(CnpKind::DirectInt, &bytes);
        assert_eq!(roce(&frame).switch_int(), None, "{why}");
        assert_eq!(roce(&frame).icrc::<TableCrc>(), Icrc::Valid, "{why}");
    }
    // Cut by a snap length.
    let whole = cnp_from_switch(CnpKind::DirectInt, &good);
    let Ok(Parsed::Roce(cut)) = parse(&whole[..whole.len() - 5], whole.len()) else { panic!("not RoCE") };
    assert_eq!(cut.switch_int(), None);
    let plain = emit(&Frame { payload: &good, ..frame(opcode::CNP, V4, &[]) });
    assert_eq!(roce(&plain).switch_int(), None, "a plain CNP");
    assert_eq!(roce(&cnp_from_switch(CnpKind::Direct, &good)).switch_int(), None, "another kind");
}
