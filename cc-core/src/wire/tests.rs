//! Published frames, the standard's tables, and frames of every kind that can be emitted.

extern crate std;

use super::*;
use crate::{Bytes, CnpBody, CnpBodyKind, CnpKind, Nanos, Psn, Qpn, Rate, Stamp};
use proptest::prelude::*;
use std::{vec, vec::Vec};

mod patch;
mod rate_message;
mod shim;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |d: u8| char::from(d).to_digit(16).unwrap() as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// CNP of a ConnectX-4 Lx, as published with Scapy's tests.
fn connectx_cnp() -> Vec<u8> {
    hex("e41d2dab2bc2 7cfe90643b32 0800
         45c2003c 718c4000 40119161 0a001101 0a001201
         0000 12b7 0028 0000
         8100ffff 40000118 00000000 00000000 00000000 00000000 00000000 82fd002a")
}

/// UC SEND ONLY with two bytes of pad, from the same source.
fn uc_send_only() -> Vec<u8> {
    hex("248a07a8fa22 248a07a8fa22 0800
         45010040 04784000 4011b4d5 c0a80007 c0a80007
         c000 12b7 002c aca2
         2460ffff 000000d3 00cf1710
         4630818b e28935d9 0e9a9550 5401be88 5e500000 78f353f3")
}

/// RoCEv1 RC WRITE ONLY with three bytes of pad, from the same source.
fn roce_v1_write() -> Vec<u8> {
    hex("7cfe90753cd8 7cfe90753cd8 8915
         60200000 00281b40 00000000 00000000 0000ffff 0f000002 00000000 00000000 0000ffff 0f000002
         0a70ffff 0000010a 80a788bc
         000055d4c0726000 000047b3 00000005
         00000000 01000000 e3d856bb")
}

/// RoCEv1 RC ACKNOWLEDGE in response to it.
fn roce_v1_ack() -> Vec<u8> {
    hex("7cfe90753cd8 7cfe90753cd8 8915
         60200000 00141b40 00000000 00000000 0000ffff 0f000002 00000000 00000000 0000ffff 0f000002
         1140ffff 00000109 00a788c0 00000005 25f0c038")
}

fn published() -> [Vec<u8>; 4] {
    [connectx_cnp(), uc_send_only(), roce_v1_write(), roce_v1_ack()]
}

#[track_caller]
fn roce(frame: &[u8]) -> Roce<'_> {
    match parse(frame, frame.len()) {
        Ok(Parsed::Roce(roce)) => roce,
        other => panic!("not RoCE: {other:?}"),
    }
}

fn outcome(frame: &[u8]) -> Result<&'static str, Malformed> {
    parse(frame, frame.len()).map(|packet| match packet {
        Parsed::Roce(_) => "roce",
        Parsed::Pfc(_) => "pfc",
        Parsed::NotRoce(other) => other.kind().name(),
    })
}

/// The ICRC as the standard words it, bit by bit, over a string of bytes with ones already in place.
fn bitwise_crc(masked: &[u8]) -> [u8; 4] {
    let mut state = !0u32;
    for byte in [0xff; 8].iter().chain(masked) {
        for bit in 0..8 {
            let feedback = (state ^ u32::from(byte >> bit)) & 1;
            state = (state >> 1) ^ (feedback * 0xedb8_8320);
        }
    }
    (!state).to_le_bytes()
}

const V4: Addresses = Addresses::V4 { source: Ipv4Addr::new(10, 0, 18, 1), destination: Ipv4Addr::new(10, 0, 17, 1) };
const V6: Addresses = Addresses::V6 {
    source: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
    destination: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
};
const GID: Addresses = Addresses::Gid {
    source: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
    destination: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2),
};

fn frame(opcode: u8, addresses: Addresses, payload: &[u8]) -> Frame<'_> {
    Frame {
        destination: Mac::new([2, 0, 0, 0, 0, 2]),
        source: Mac::new([2, 0, 0, 0, 0, 1]),
        tags: Tags::NONE,
        addresses,
        dscp: 26,
        ecn: Ecn::Ce,
        hop_limit: 64,
        udp_source: 0xc123,
        shims: Shims::NONE,
        bth: Bth {
            opcode,
            partition: 0xffff,
            dest_qp: Qpn::new(0x118),
            psn: Psn::new(0xfffffe),
            ack_request: true,
            ..Bth::default()
        },
        extensions: Extensions::default(),
        payload,
    }
}

fn emit(frame: &Frame<'_>) -> Vec<u8> {
    written(|buffer| frame.emit::<TableCrc>(buffer))
}

fn respond(response: &Response<'_>) -> Vec<u8> {
    written(|buffer| response.emit::<TableCrc>(buffer))
}

fn written(emit: impl FnOnce(&mut [u8]) -> Result<usize, EmitError>) -> Vec<u8> {
    let mut buffer = vec![0xee; 66_000];
    let len = emit(&mut buffer).unwrap();
    buffer.truncate(len);
    buffer
}

/// One frame of each shape.
fn built() -> Vec<Vec<u8>> {
    let tags = [[0x88, 0xa8, 0x60, 0x01], [0x81, 0x00, 0x40, 0x02]];
    let tagged = Frame { tags: Tags::new(&tags).unwrap(), ..frame(0x0b, V4, b"payload") };
    let mut frames = vec![emit(&tagged)];
    for addresses in [V4, V6, GID] {
        for opcode in [0x00, 0x04, 0x0a, 0x0c, 0x11, 0x12, 0x13, 0x64, 0x81, 0xa6, 0xff] {
            frames.push(emit(&frame(opcode, addresses, b"12345")));
        }
    }
    for addresses in [V4, V6] {
        frames.push(emit(&Frame { shims: shim::all(&[0; 32]), ..frame(0x06, addresses, b"12345") }));
    }
    frames.extend(published());
    frames
}

#[test]
fn published_icrcs_are_valid() {
    for frame in published() {
        assert_eq!(roce(&frame).icrc::<TableCrc>(), Icrc::Valid);
    }
}

#[test]
fn published_fields_are_read() {
    let frame = connectx_cnp();
    let cnp = roce(&frame);
    assert_eq!(cnp.version(), Version::V2);
    assert_eq!((cnp.dscp(), cnp.ecn, cnp.udp_source()), (48, Ecn::Ect0, Some(0)));
    assert_eq!((cnp.bth.dest_qp, cnp.bth.psn, cnp.bth.becn), (Qpn::new(0x118), Psn::new(0), true));
    assert_eq!((cnp.info.class(), cnp.cnp(), cnp.payload_len), (Class::Cnp, Some(CnpBodyKind::Standard), 0));
    assert_eq!(cnp.source_mac(), Mac::new([0x7c, 0xfe, 0x90, 0x64, 0x3b, 0x32]));
    assert_eq!(cnp.addresses(), V4.reversed());
    assert_eq!(cnp.wire_len, Bytes::new(74));

    let frame = uc_send_only();
    let send = roce(&frame);
    assert_eq!((send.bth.psn, send.bth.dest_qp), (Psn::new(13_571_856), Qpn::new(211)));
    assert_eq!((send.payload_len, send.pad, send.ecn), (18, 2, Ecn::Ect1));
    assert!(send.payload().starts_with(b"F0\x81\x8b") && send.payload().ends_with(b"^P"));

    let frame = roce_v1_write();
    let write = roce(&frame);
    assert_eq!(write.version(), Version::V1);
    assert_eq!((write.payload_len, write.pad, write.udp_source()), (5, 3, None));
    assert_eq!(write.reth(), Some(Reth { address: 0x55d4_c072_6000, key: 0x47b3, len: 5 }));
    assert!(write.bth.ack_request && write.bth.migrated);

    let frame = roce_v1_ack();
    assert_eq!(roce(&frame).aeth(), Some(Aeth { syndrome: Syndrome::Ack { credits: 0 }, msn: 5 }));
}

#[test]
fn a_cnp_is_the_published_twenty_eight_bytes() {
    let cause = emit(&frame(0x04, V4, b"data"));
    let cnp = respond(&Response::cnp(&roce(&cause), Qpn::new(0xd2), CnpBodyKind::Standard, CnpMarking::default()));
    assert_eq!(cnp.len(), 74);
    assert_eq!(cnp[42..70], hex("8100ffff400000d200000000 00000000000000000000000000000000"));
}

#[test]
fn a_cnp_is_what_a_connectx_sends_but_for_its_identification() {
    let real = connectx_cnp();
    let data = Frame {
        destination: roce(&real).source_mac(),
        source: roce(&real).destination_mac(),
        ..frame(0x04, V4, b"data")
    };
    let cause = emit(&data);
    let mut cnp = respond(&Response::cnp(&roce(&cause), Qpn::new(0x118), CnpBodyKind::Standard, CnpMarking::default()));
    assert_eq!(roce(&cnp).icrc::<TableCrc>(), Icrc::Valid);
    // Identification, and with it header checksum and ICRC.
    for at in [18, 19, 24, 25, 70, 71, 72, 73] {
        cnp[at] = real[at];
    }
    assert_eq!(cnp, real);
}

#[test]
fn a_cnp_takes_the_route_of_the_data_in_reverse() {
    let tags = [[0x88, 0xa8, 0x70, 0x01], [0x81, 0x00, 0x40, 0x02]];
    for addresses in [V4, V6, GID] {
        let data = Frame { tags: Tags::new(&tags).unwrap(), ..frame(0x04, addresses, b"data") };
        let cause = emit(&data);
        let cnp = respond(&Response::cnp(&roce(&cause), Qpn::new(7), CnpBodyKind::Standard, CnpMarking::default()));
        let cnp = roce(&cnp);
        assert_eq!(cnp.addresses(), addresses.reversed());
        assert_eq!((cnp.source_mac(), cnp.destination_mac()), (data.destination, data.source));
        let tags: Vec<_> = cnp.tags().iter().map(|tag| (tag.priority, tag.drop_eligible, tag.vid)).collect();
        assert_eq!(tags, [(6, true, 1), (6, false, 2)]);
        assert_eq!(cnp.icrc::<TableCrc>(), Icrc::Valid);
    }
}

#[test]
fn what_routers_change_leaves_the_icrc_valid_and_nothing_else_does() {
    // Byte offsets of IPv4 TOS, TTL, checksum; UDP checksum; BTH marks.
    let v4 = [15, 22, 24, 25, 40, 41, 46];
    // IPv6 traffic class and flow label (half of the first byte), hop limit; UDP checksum; BTH marks.
    let v6 = [15, 16, 17, 21, 60, 61, 66];
    let grh = [15, 16, 17, 21, 58];
    let frames: [(Vec<u8>, usize, &[usize]); 5] = [
        (connectx_cnp(), 14, &v4),
        (uc_send_only(), 14, &v4),
        (roce_v1_write(), 14, &grh),
        (emit(&frame(0x0a, V4, b"payload")), 14, &v4),
        (emit(&frame(0x0a, V6, b"payload")), 14, &v6),
    ];
    for (frame, network, variant) in frames {
        let six = frame[network] >> 4 == 6;
        for at in network..frame.len() {
            for bit in 0..8 {
                let mut changed = frame.clone();
                changed[at] ^= 1 << bit;
                let valid = match parse(&changed, changed.len()) {
                    Ok(Parsed::Roce(roce)) => roce.icrc::<TableCrc>() == Icrc::Valid,
                    _ => false,
                };
                let may_change = variant.contains(&at) || six && at == network && bit < 4;
                assert_eq!(valid, may_change, "byte {at}, bit {bit}");
            }
        }
    }
}

#[test]
fn over_ipv6_the_icrc_is_that_of_an_independent_computation() {
    let frame = emit(&frame(0x0b, V6, b"payload"));
    let mut masked = frame[14..frame.len() - 4].to_vec();
    masked[0] |= 0x0f;
    for at in [1, 2, 3, 7, 46, 47, 52] {
        masked[at] = 0xff;
    }
    assert_eq!(frame[frame.len() - 4..], bitwise_crc(&masked));
}

#[test]
fn ipv4_options_are_covered_as_they_stand() {
    let plain = emit(&frame(0x04, V4, b"data"));
    let mut ip = plain[14..plain.len() - 4].to_vec();
    ip.splice(20..20, hex("94040000")); // Router alert.
    ip[0] = 0x46;
    ip[3] += 4;
    let mut masked = ip.clone();
    for at in [1, 8, 10, 11, 30, 31, 36] {
        masked[at] = 0xff;
    }
    let frame = [&plain[..14], &ip, &bitwise_crc(&masked)].concat();
    let parsed = roce(&frame);
    assert_eq!((parsed.payload(), parsed.icrc::<TableCrc>()), (&b"data"[..], Icrc::Valid));
}

#[test]
fn ipv6_extension_headers_are_covered_as_they_stand() {
    let plain = emit(&frame(0x04, V6, b"data"));
    let mut ip = plain[14..plain.len() - 4].to_vec();
    // Hop-by-hop, routing (two units), destination options, and an atomic fragment header.
    let chain = hex("2b00050200000000 3c01000000000000 0000000000000000 2c00010400000000 1100000000000001");
    ip[5] += u8::try_from(chain.len()).unwrap();
    ip[6] = 0;
    ip.splice(40..40, chain);
    let mut masked = ip.clone();
    masked[0] |= 0x0f;
    for at in [1, 2, 3, 7, 86, 87, 92] {
        masked[at] = 0xff;
    }
    let frame = [&plain[..14], &ip, &bitwise_crc(&masked)].concat();
    let parsed = roce(&frame);
    assert_eq!((parsed.payload(), parsed.icrc::<TableCrc>()), (&b"data"[..], Icrc::Valid));
}

/// Opcodes with class, extension bytes, whether first and whether last, from IBTA volume 1, table 38.
const OPCODES: &[(u8, Class, usize, bool, bool)] = {
    use Class::*;
    const T: bool = true;
    const F: bool = false;
    &[
        // Reliable connection.
        (0x00, Send, 0, T, F),
        (0x01, Send, 0, F, F),
        (0x02, Send, 0, F, T),
        (0x03, Send, 4, F, T),
        (0x04, Send, 0, T, T),
        (0x05, Send, 4, T, T),
        (0x06, Write, 16, T, F),
        (0x07, Write, 0, F, F),
        (0x08, Write, 0, F, T),
        (0x09, Write, 4, F, T),
        (0x0a, Write, 16, T, T),
        (0x0b, Write, 20, T, T),
        (0x0c, ReadRequest, 16, T, T),
        (0x0d, ReadResponse, 4, T, F),
        (0x0e, ReadResponse, 0, F, F),
        (0x0f, ReadResponse, 4, F, T),
        (0x10, ReadResponse, 4, T, T),
        (0x11, Ack, 4, T, T),
        (0x12, AtomicAck, 12, T, T),
        (0x13, Atomic, 28, T, T),
        (0x14, Atomic, 28, T, T),
        (0x16, Send, 4, F, T),
        (0x17, Send, 4, T, T),
        // Unreliable connection.
        (0x20, Send, 0, T, F),
        (0x21, Send, 0, F, F),
        (0x22, Send, 0, F, T),
        (0x23, Send, 4, F, T),
        (0x24, Send, 0, T, T),
        (0x25, Send, 4, T, T),
        (0x26, Write, 16, T, F),
        (0x27, Write, 0, F, F),
        (0x28, Write, 0, F, T),
        (0x29, Write, 4, F, T),
        (0x2a, Write, 16, T, T),
        (0x2b, Write, 20, T, T),
        // Reliable datagram.
        (0x40, Send, 12, T, F),
        (0x41, Send, 12, F, F),
        (0x42, Send, 12, F, T),
        (0x43, Send, 16, F, T),
        (0x44, Send, 12, T, T),
        (0x45, Send, 16, T, T),
        (0x46, Write, 28, T, F),
        (0x47, Write, 12, F, F),
        (0x48, Write, 12, F, T),
        (0x49, Write, 16, F, T),
        (0x4a, Write, 28, T, T),
        (0x4b, Write, 32, T, T),
        (0x4c, ReadRequest, 28, T, T),
        (0x4d, ReadResponse, 8, T, F),
        (0x4e, ReadResponse, 4, F, F),
        (0x4f, ReadResponse, 8, F, T),
        (0x50, ReadResponse, 8, T, T),
        (0x51, Ack, 8, T, T),
        (0x52, AtomicAck, 16, T, T),
        (0x53, Atomic, 40, T, T),
        (0x54, Atomic, 40, T, T),
        (0x55, Resync, 12, T, T),
        // Unreliable datagram.
        (0x64, Send, 8, T, T),
        (0x65, Send, 12, T, T),
        // Congestion notification.
        (0x81, Cnp, 16, T, T),
        // Extended reliable connection.
        (0xa0, Send, 4, T, F),
        (0xa1, Send, 4, F, F),
        (0xa2, Send, 4, F, T),
        (0xa3, Send, 8, F, T),
        (0xa4, Send, 4, T, T),
        (0xa5, Send, 8, T, T),
        (0xa6, Write, 20, T, F),
        (0xa7, Write, 4, F, F),
        (0xa8, Write, 4, F, T),
        (0xa9, Write, 8, F, T),
        (0xaa, Write, 20, T, T),
        (0xab, Write, 24, T, T),
        (0xac, ReadRequest, 20, T, T),
        (0xad, ReadResponse, 4, T, F),
        (0xae, ReadResponse, 0, F, F),
        (0xaf, ReadResponse, 4, F, T),
        (0xb0, ReadResponse, 4, T, T),
        (0xb1, Ack, 4, T, T),
        (0xb2, AtomicAck, 12, T, T),
        (0xb3, Atomic, 32, T, T),
        (0xb4, Atomic, 32, T, T),
        (0xb6, Send, 8, F, T),
        (0xb7, Send, 8, T, T),
    ]
};

#[test]
fn all_256_opcodes_mean_what_the_standard_says() {
    for opcode in 0..=u8::MAX {
        let info = opcode::info(opcode);
        let known = OPCODES.iter().find(|known| known.0 == opcode);
        let &(_, class, len, first, last) = known.unwrap_or(&(opcode, Class::Unknown, 0, true, true));
        let read = (info.class(), info.header_len(), info.first(), info.last());
        assert_eq!(read, (class, len, first, last), "{opcode:#04x}");
        let mut behind = 0;
        for header in info.headers() {
            assert_eq!(info.offset(header), behind, "{header:?} of {opcode:#04x}");
            behind += header.size();
        }
        assert_eq!(behind, len, "{opcode:#04x}");
    }
}

#[test]
fn the_payload_is_what_headers_pad_and_icrc_leave_for_every_opcode() {
    for opcode in 0..=u8::MAX {
        for len in 0..9 {
            for addresses in [V4, V6, GID] {
                let frame = emit(&frame(opcode, addresses, &b"12345678"[..len]));
                let parsed = roce(&frame);
                assert_eq!(parsed.payload(), &b"12345678"[..len]);
                assert_eq!(parsed.payload_len, len);
                if let Addresses::V4 { .. } = addresses {
                    let udp_len = usize::from(u16::from_be_bytes([frame[38], frame[39]]));
                    let headers = 12 + parsed.info.header_len();
                    assert_eq!(parsed.payload_len, udp_len - 8 - headers - usize::from(parsed.pad) - 4);
                }
            }
        }
    }
}

#[test]
fn any_stack_of_vlan_tags_gives_the_same_result() {
    let plain = connectx_cnp();
    let expected = roce(&plain);
    let stacks = [
        "8100a000",
        "8100a064",
        "88a8a064 81002014",
        "9100a064 81002014",
        "9100a064 91002014 88a80001 81000002 81000003",
    ];
    for stack in stacks {
        let mut frame = plain.clone();
        frame.splice(12..12, hex(stack));
        let parsed = roce(&frame);
        assert_eq!((parsed.bth, parsed.addresses(), parsed.ecn), (expected.bth, expected.addresses(), expected.ecn));
        assert_eq!(parsed.icrc::<TableCrc>(), Icrc::Valid);
        assert_eq!(parsed.vlan().unwrap().priority, 5);
        assert_eq!(parsed.tags().iter().flat_map(Tag::to_bytes).collect::<Vec<_>>(), hex(stack));
    }
    assert_eq!(expected.vlan(), None);
}

#[test]
fn padding_trailer_and_check_sequence_are_ignored() {
    for frame in built() {
        for extra in [1, 4, 46] {
            let longer = [&frame[..], &vec![0xa5; extra]].concat();
            assert_eq!(roce(&longer).payload_len, roce(&frame).payload_len);
            assert_eq!(roce(&longer).icrc::<TableCrc>(), Icrc::Valid);
        }
    }
}

#[test]
fn every_prefix_is_truncated_or_malformed() {
    for frame in built() {
        let whole = roce(&frame);
        let bth_end = whole.chain_at() + whole.chain().len() + 12;
        for len in 0..frame.len() {
            let prefix = &frame[..len];
            // Cut by a snap length.
            match parse(prefix, frame.len()) {
                Err(why) => {
                    assert_eq!(why, Malformed::Truncated);
                    assert!(len < bth_end, "the BTH is there, {len} bytes");
                }
                Ok(Parsed::Roce(cut)) => {
                    assert!(len >= bth_end);
                    assert!(cut.is_truncated());
                    assert_eq!(cut.icrc::<TableCrc>(), Icrc::Unchecked);
                    assert_eq!((cut.payload_len, cut.bth), (whole.payload_len, whole.bth));
                    assert!(whole.payload().starts_with(cut.payload()));
                }
                Ok(other) => panic!("{len}: {other:?}"),
            }
            // As short on the wire.
            match parse(prefix, len) {
                Err(why) => assert_ne!(why, Malformed::Truncated),
                Ok(other) => panic!("{len}: {other:?}"),
            }
        }
    }
}

#[test]
fn contradictory_headers_are_reported_with_their_reason() {
    let with = |at: usize, byte: u8| {
        let mut frame = emit(&frame(0x0a, V4, b"1234"));
        frame[at] = byte;
        outcome(&frame)
    };
    assert_eq!(with(14, 0x44), Err(Malformed::Ihl));
    assert_eq!(with(14, 0x65), Err(Malformed::IpVersion));
    assert_eq!(with(17, 19), Err(Malformed::IpLength));
    assert_eq!(with(16, 1), Err(Malformed::IpLength));
    assert_eq!(with(17, 27), Err(Malformed::UdpShort));
    assert_eq!(with(20, 0x20), Err(Malformed::Fragment));
    assert_eq!(with(21, 1), Err(Malformed::Fragment));
    assert_eq!(with(23, 6), Ok("tcp"));
    assert_eq!(with(23, 1), Ok("ipv4"));
    assert_eq!(with(37, 0xb9), Ok("udp"));
    assert_eq!(with(39, 7), Err(Malformed::UdpLength));
    assert_eq!(with(38, 1), Err(Malformed::UdpLength));
    assert_eq!(with(39, 8 + 11), Err(Malformed::BthShort));
    assert_eq!(with(43, 0x01), Err(Malformed::BthVersion));
    assert_eq!(with(39, 8 + 12 + 15), Err(Malformed::ExtensionShort));
    assert_eq!(with(39, 8 + 12 + 16 + 3), Err(Malformed::IcrcMissing));
    let mut ack = emit(&frame(0x11, V4, b""));
    ack[43] = 0x10;
    assert_eq!(outcome(&ack), Err(Malformed::Pad));

    let with = |at: usize, byte: u8| {
        let mut frame = emit(&frame(0x04, V6, b"1234"));
        frame[at] = byte;
        outcome(&frame)
    };
    assert_eq!(with(14, 0x40), Err(Malformed::IpVersion));
    assert_eq!(with(18, 1), Err(Malformed::IpLength));
    // What was UDP's source port is now next header and length of an extension header.
    assert_eq!(with(20, 0), Err(Malformed::Ipv6Extension));
    assert_eq!(with(20, 58), Ok("ipv6"));
    // UDP's destination port as a fragment offset.
    assert_eq!(with(20, 44), Err(Malformed::Fragment));

    let with = |at: usize, byte: u8| {
        let mut frame = emit(&frame(0x04, GID, b"1234"));
        frame[at] = byte;
        outcome(&frame)
    };
    assert_eq!(with(14, 0x40), Err(Malformed::Grh));
    assert_eq!(with(20, 17), Err(Malformed::Grh));
    assert_eq!(with(18, 1), Err(Malformed::GrhLength));
}

#[test]
fn other_protocols_are_classified() {
    let ethertype = |ethertype: &str| {
        let frame = hex(&["ffffffffffff020000000001", ethertype, "0001000000000000"].concat());
        outcome(&frame)
    };
    assert_eq!(ethertype("0806"), Ok("arp"));
    assert_eq!(ethertype("8847"), Ok("mpls"));
    assert_eq!(ethertype("88cc"), Ok("lldp"));
    assert_eq!(ethertype("8808"), Ok("mac_control"));
    assert_eq!(ethertype("05dc"), Ok("llc"));
    assert_eq!(ethertype("8906"), Ok("ethertype"));
    assert_eq!(ethertype("81000000 8847"), Ok("mpls"));
}

#[test]
fn names_are_distinct() {
    let mut names: Vec<_> = Malformed::ALL.iter().map(|why| why.name()).collect();
    names.extend(NotRoceKind::ALL.iter().map(|other| other.name()));
    names.extend(Class::ALL.iter().map(|class| class.name()));
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    assert!(Malformed::ALL.iter().enumerate().all(|(i, &why)| why as usize == i));
    assert!(NotRoceKind::ALL.iter().enumerate().all(|(i, &other)| other as usize == i));
    assert!(Class::ALL.iter().enumerate().all(|(i, &class)| class as usize == i));
}

#[test]
fn a_pfc_frame_is_what_the_standard_draws() {
    let pfc = Pfc::new(0x09, [0xffff, 0, 0, 0, 0, 0, 0, 0]);
    let mut buffer = [0xee; 64];
    assert_eq!(pfc.emit(Mac::new([2, 0, 0, 0, 0, 1]), &mut buffer), Ok(60));
    assert_eq!(buffer[..18], hex("0180c2000001 020000000001 8808 0101 0009"));
    assert_eq!(buffer[18..20], [0xff, 0xff]);
    assert!(buffer[20..60].iter().all(|&byte| byte == 0));
    for len in 0..60 {
        assert_eq!(pfc.emit(Mac::default(), &mut buffer[..len]), Err(EmitError::BufferTooSmall));
    }
    for len in 16..34 {
        assert_eq!(outcome(&buffer[..len]), Err(Malformed::PfcShort));
    }
}

#[test]
fn a_frame_that_does_not_fit_is_refused() {
    for addresses in [V4, V6, GID] {
        let small = frame(0x04, addresses, b"12345");
        let len = emit(&small).len();
        let mut buffer = vec![0; 66_000];
        for short in 0..len {
            assert_eq!(small.emit::<TableCrc>(&mut buffer[..short]), Err(EmitError::BufferTooSmall));
        }
        let long = vec![0; 65_536];
        assert_eq!(frame(0x04, addresses, &long).emit::<TableCrc>(&mut buffer), Err(EmitError::TooLong));
    }
}

#[test]
fn connection_management_is_read_back_and_nothing_else_is_taken_for_it() {
    let messages = [
        cm::Message::Request { local_id: 0x11223344, local_qpn: Qpn::new(0xabcdef), starting_psn: Psn::new(0x123456) },
        cm::Message::Reply {
            local_id: 0x55667788,
            remote_id: 0x11223344,
            local_qpn: Qpn::new(0xfedcba),
            starting_psn: Psn::new(0x654321),
        },
        cm::Message::ReadyToUse { local_id: 0x11223344, remote_id: 0x55667788 },
    ];
    for message in messages {
        let payload = message.emit();
        let (bth, extensions) = cm::headers(Psn::new(3));
        let sent = Frame { bth, extensions, ..frame(0, V4, &payload) };
        let bytes = emit(&sent);
        let parsed = roce(&bytes);
        assert_eq!(cm::Message::parse(&parsed), Some(message));
        assert_eq!(parsed.deth(), Some(Deth { queue_key: cm::QUEUE_KEY, source_qp: cm::QP }));
        // Another queue pair, another class, another attribute, a cut datagram.
        let elsewhere = emit(&Frame { bth: Bth { dest_qp: Qpn::new(2), ..bth }, ..sent });
        assert_eq!(cm::Message::parse(&roce(&elsewhere)), None);
        for (at, byte) in [(1, 0x03), (17, 0x12)] {
            let mut other = payload;
            other[at] = byte;
            let other = emit(&Frame { payload: &other, ..sent });
            assert_eq!(cm::Message::parse(&roce(&other)), None);
        }
        match parse(&bytes[..62 + 24 + 7], bytes.len()) {
            Ok(Parsed::Roce(cut)) => assert_eq!(cm::Message::parse(&cut), None),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_body_with_a_wrong_check_byte_reads_as_a_standard_cnp() {
    let body = CnpBody { kind: CnpKind::Period, period: Nanos::new(50_000), ..CnpBody::default() };
    let good = CnpBodyKind::Extended(body).to_bytes();
    assert_eq!(cnp::parse(&good), CnpBodyKind::Extended(body));
    for at in 0..12 {
        let mut bad = good;
        bad[at] ^= 0x40;
        assert_eq!(cnp::parse(&bad), CnpBodyKind::Standard, "byte {at}");
    }
    // An unknown kind and an unknown version, with right check bytes.
    for (at, change) in [(0, 0x80), (1, 0x30)] {
        let mut bad = good;
        bad[at] ^= change;
        bad[11] ^= change;
        assert_eq!(cnp::parse(&bad), CnpBodyKind::Standard);
    }
}

#[test]
fn a_longest_pause_is_read_back() {
    let quantum = pfc::Quantum::at(Rate::from_gbps(100));
    let pfc = Pfc::new(1, [quantum.quanta(Nanos::new(335_540)); 8]);
    assert_eq!(pfc.time(0), Some(u16::MAX));
}

fn any_mac() -> impl Strategy<Value = Mac> {
    any::<[u8; 6]>().prop_map(Mac::new)
}

fn any_addresses() -> impl Strategy<Value = Addresses> {
    (any::<[u8; 16]>(), any::<[u8; 16]>(), 0..3).prop_map(|(source, destination, kind)| {
        let four = |b: [u8; 16]| Ipv4Addr::new(b[0], b[1], b[2], b[3]);
        match kind {
            0 => Addresses::V4 { source: four(source), destination: four(destination) },
            1 => Addresses::V6 { source: source.into(), destination: destination.into() },
            _ => Addresses::Gid { source: source.into(), destination: destination.into() },
        }
    })
}

fn any_body_kind() -> impl Strategy<Value = CnpBodyKind> {
    let kind = prop::sample::select(vec![
        CnpKind::Standard,
        CnpKind::Period,
        CnpKind::Direct,
        CnpKind::Undetermined,
        CnpKind::SwitchInt,
        CnpKind::DirectInt,
    ]);
    let body = (kind, any::<[bool; 3]>(), any::<u16>(), any::<[u32; 3]>()).prop_map(
        |(kind, [ce, ue, names_remote_qpn], seq, [period, qpn, stamp])| {
            CnpBodyKind::Extended(CnpBody {
                kind,
                ce,
                ue,
                names_remote_qpn,
                seq,
                period: Nanos::new(period),
                remote_qpn: Qpn::new(qpn),
                stamp: Stamp::from_bits(stamp),
            })
        },
    );
    prop_oneof![Just(CnpBodyKind::Standard), body]
}

prop_compose! {
    fn any_extensions()(
        words in any::<[u32; 5]>(),
        address in any::<u64>(),
        qpn in any::<u32>(),
        syndrome in any::<u8>(),
        msn in 0u32..1 << 24,
        cnp in any_body_kind(),
    ) -> Extensions {
        Extensions {
            deth: Deth { queue_key: words[0], source_qp: Qpn::new(qpn) },
            reth: Reth { address, key: words[1], len: words[2] },
            aeth: Aeth { syndrome: Syndrome::from_bits(syndrome), msn },
            immediate: words[3],
            invalidate: words[4],
            cnp,
        }
    }
}

prop_compose! {
    fn any_bth()(opcode: u8, flags: [bool; 5], partition: u16, qpn: u32, psn: u32) -> Bth {
        let [solicited, migrated, fecn, becn, ack_request] = flags;
        Bth {
            opcode,
            solicited,
            migrated,
            partition,
            fecn,
            becn,
            dest_qp: Qpn::new(qpn),
            ack_request,
            psn: Psn::new(psn),
        }
    }
}

fn any_tags() -> impl Strategy<Value = Vec<[u8; 4]>> {
    let protocol = prop::sample::select(vec![TagProtocol::Customer, TagProtocol::Service, TagProtocol::OldService]);
    let tag = (protocol, 0u8..8, any::<bool>(), 0u16..4096)
        .prop_map(|(protocol, priority, drop_eligible, vid)| Tag { protocol, priority, drop_eligible, vid }.to_bytes());
    prop::collection::vec(tag, 0..4)
}

proptest! {
    #[test]
    fn whatever_is_emitted_is_read_back(
        (destination, source) in (any_mac(), any_mac()),
        tags in any_tags(),
        addresses in any_addresses(),
        (dscp, ecn, hop_limit, udp_source) in (0u8..64, 0u8..4, any::<u8>(), any::<u16>()),
        bth in any_bth(),
        extensions in any_extensions(),
        shims in shim::any_shims(),
        payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let sent = Frame {
            destination,
            source,
            tags: Tags::new(&tags).unwrap(),
            addresses,
            dscp,
            ecn: Ecn::from_bits(ecn),
            hop_limit,
            udp_source,
            shims: match addresses {
                Addresses::Gid { .. } => Shims::NONE,
                Addresses::V4 { .. } | Addresses::V6 { .. } => shims.borrowed(),
            },
            bth,
            extensions,
            payload: &payload,
        };
        let bytes = emit(&sent);
        let read = roce(&bytes);
        prop_assert_eq!(read.icrc::<TableCrc>(), Icrc::Valid);
        prop_assert!(!read.is_truncated());
        let returned = Frame {
            destination: read.destination_mac(),
            source: read.source_mac(),
            tags: read.tags(),
            addresses: read.addresses(),
            dscp: read.dscp(),
            ecn: read.ecn,
            hop_limit: read.hop_limit(),
            udp_source: read.udp_source().unwrap_or(udp_source),
            shims: read.shims(),
            bth: read.bth,
            // Headers that the opcode does not require are not sent.
            extensions: Extensions {
                deth: read.deth().unwrap_or(extensions.deth),
                reth: read.reth().unwrap_or(extensions.reth),
                aeth: read.aeth().unwrap_or(extensions.aeth),
                immediate: read.immediate().unwrap_or(extensions.immediate),
                invalidate: read.invalidate().unwrap_or(extensions.invalidate),
                cnp: read.cnp().unwrap_or(extensions.cnp),
            },
            payload: read.payload(),
        };
        prop_assert_eq!(returned, sent);
    }

    #[test]
    fn parsing_random_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), extra in 0usize..100) {
        let _ = parse(&bytes, bytes.len() + extra);
    }

    #[test]
    fn parsing_damaged_frames_does_not_panic(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let frames = built();
        let mut frame = which.get(&frames).clone();
        for (at, byte) in damage {
            let at = at.index(frame.len().min(80));
            frame[at] = byte;
        }
        let captured = &frame[..cut.index(frame.len() + 1)];
        if let Ok(Parsed::Roce(roce)) = parse(captured, frame.len()) {
            roce.icrc::<TableCrc>();
            cm::Message::parse(&roce);
            prop_assert!(roce.payload().len() <= roce.payload_len);
            // A header that the capture cut reads as absent.
            let cut = roce.is_truncated();
            prop_assert!(roce.aeth().is_some() == roce.info.has(opcode::Header::Ack) || cut);
            prop_assert!(roce.cnp().is_some() == roce.info.has(opcode::Header::Cnp) || cut);
            let mut buffer = [0; 256];
            let _ = Response::cnp(&roce, Qpn::new(1), CnpBodyKind::Standard, CnpMarking::default())
                .emit::<TableCrc>(&mut buffer);
        }
    }

    #[test]
    fn pfc_frames_are_read_back(enabled: u8, quanta: [u16; 8]) {
        let pfc = Pfc::new(enabled, quanta);
        let mut buffer = [0; pfc::FRAME_LEN];
        let len = pfc.emit(Mac::default(), &mut buffer).unwrap();
        match parse(&buffer, len) {
            Ok(Parsed::Pfc(read)) => prop_assert_eq!(read, pfc),
            other => prop_assert!(false, "{other:?}"),
        }
    }
}
