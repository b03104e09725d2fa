//! Writes the seeds of the corpora `wire` and `capture`, whose targets are parsers: `cargo run -p fuzz --example seeds`.

use cc_core::wire::shim::{self, IntShim, Rcc, Time};
use cc_core::wire::{
    AckFields, Addresses, Aeth, Bth, CnpMarking, Extensions, Frame, Mac, Pfc, Response, Reth, Roce, Shims, TableCrc,
    Tag, TagProtocol, Tags, cm, opcode, pfc,
};
use cc_core::{Bytes, CnpBody, CnpBodyKind, CnpKind, Ecn, Hop, IntLayout, Mark, Nanos, Psn, Qpn, Stamp};
use hil_capture::Writer;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::{fs, io};

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let frames = frames();
    for (name, bytes) in &frames {
        put(&corpus.join("wire"), name, bytes)?;
    }
    for (name, bytes) in captures(&frames)? {
        put(&corpus.join("capture"), name, &bytes)?;
    }
    Ok(())
}

fn put(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(name), bytes)
}

fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let v6 = |low| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, low);
    let write = Frame {
        destination: Mac::new([2, 0, 0, 0, 0, 2]),
        source: Mac::new([2, 0, 0, 0, 0, 1]),
        tags: Tags::NONE,
        addresses: Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, 1), destination: Ipv4Addr::new(10, 0, 0, 2) },
        dscp: 26,
        ecn: Ecn::Ce,
        hop_limit: 64,
        udp_source: 0xc123,
        shims: Shims::NONE,
        bth: Bth { opcode: 0x0a, partition: 0xffff, dest_qp: Qpn::new(0x118), psn: Psn::new(9), ..Bth::default() },
        extensions: Extensions { reth: Reth { address: 0x1000, key: 7, len: 5 }, ..Extensions::default() },
        payload: b"bytes",
    };
    let data = emit(&write);
    let cause = Roce::of(&data).expect("the frame just built is RoCE");
    let body = CnpBody { kind: CnpKind::Period, ce: true, period: Nanos::new(50_000), ..CnpBody::default() };
    let cnp = |body_kind| respond(&Response::cnp(&cause, Qpn::new(0x55), body_kind, CnpMarking::default()));

    let tags = [TagProtocol::Service, TagProtocol::Customer]
        .map(|protocol| Tag { protocol, priority: 3, drop_eligible: false, vid: 100 }.to_bytes());
    let ack = Bth { opcode: 0x11, ..write.bth };
    let request = cm::Message::Request { local_id: 1, local_qpn: Qpn::new(0x118), starting_psn: Psn::new(9) };
    let request = request.emit();
    let (management, headers) = cm::headers(Psn::new(1));
    let gid = Addresses::Gid { source: v6(1), destination: v6(2) };

    let int = |layout, room| Some(IntShim::empty(layout, 0x123, room));
    let time = Some(Time { sent: Stamp::from_bits(1_000_000), ..Time::default() });
    let rcc = Some(Rcc { window: Bytes::new(64_000), flows: 3, utilisation: 0x8000, echo: Stamp::from_bits(7) });
    let shims = Shims { time, int: int(IntLayout::Wide, 2), rcc, echo: Some(Mark::Congested), ..Shims::NONE };
    let compact = Shims { int: int(IntLayout::Compact, 3), ..Shims::NONE };

    let mut pause = vec![0; pfc::FRAME_LEN];
    let quanta = [0, 0, 0, 0xffff, 0, 0, 0, 0];
    Pfc::new(8, quanta).emit(write.source, &mut pause).expect("the buffer has the frame's length");

    vec![
        ("v4_write", data.clone()),
        ("v4_write_options", with_options(&data)),
        ("v4_cnp", cnp(CnpBodyKind::Standard)),
        ("v4_cnp_period", cnp(CnpBodyKind::Extended(body))),
        ("v4_connection_request", emit(&Frame { bth: management, extensions: headers, payload: &request, ..write })),
        (
            "tagged_ack",
            emit(&Frame {
                tags: Tags::new(&tags).expect("these are tags"),
                bth: ack,
                extensions: Extensions { aeth: Aeth { msn: 3, ..Aeth::default() }, ..Extensions::default() },
                payload: &[],
                ..write
            }),
        ),
        (
            "v6_send",
            emit(&Frame {
                addresses: Addresses::V6 { source: v6(1), destination: v6(2) },
                bth: Bth { opcode: 0x04, ..write.bth },
                ..write
            }),
        ),
        (
            "v6_hop_by_hop",
            with_hop_by_hop(&emit(&Frame {
                addresses: Addresses::V6 { source: v6(1), destination: v6(2) },
                bth: Bth { opcode: opcode::UD_SEND_ONLY, ..write.bth },
                ..write
            })),
        ),
        ("v4_shims", emit(&Frame { shims, ..write })),
        ("v4_shims_acknowledged", acknowledged(&emit(&Frame { shims, ..write }))),
        (
            "v6_compact_telemetry",
            emit(&Frame { addresses: Addresses::V6 { source: v6(1), destination: v6(2) }, shims: compact, ..write }),
        ),
        ("v1_write", emit(&Frame { addresses: gid, ..write })),
        ("pfc", pause),
    ]
}

/// Adds a switch's telemetry record to a frame. Returns the acknowledgement of that frame.
fn acknowledged(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let hop = Hop { mbps: 100_000, clock: 5, sent: 6, queue: 7, ..Hop::default() };
    let wire_len = frame.len();
    assert_eq!(shim::push_into(&mut frame, wire_len, shim::PORT, &hop), Some(1));
    let cause = Roce::of(&frame).expect("the frame just built is RoCE");
    respond(&Response::ack(&cause, Qpn::new(0x55), &AckFields { msn: 3, ..AckFields::default() }))
}

fn emit(frame: &Frame<'_>) -> Vec<u8> {
    frame.to_vec::<TableCrc>().expect("the frame is short")
}

fn respond(response: &Response<'_>) -> Vec<u8> {
    response.to_vec::<TableCrc>().expect("the frame is short")
}

/// Inserts four bytes of options into an untagged IPv4 frame, whose ICRC is wrong afterwards.
fn with_options(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame.splice(34..34, [1; 4]);
    frame[14] += 1;
    frame[17] += 4;
    frame
}

/// Inserts an empty hop-by-hop header into an untagged IPv6 frame, whose ICRC is wrong afterwards.
fn with_hop_by_hop(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame.splice(54..54, [frame[20], 0, 1, 4, 0, 0, 0, 0]);
    frame[20] = 0;
    frame[19] += 8;
    frame
}

fn captures(frames: &[(&str, Vec<u8>)]) -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    let mut writer = Writer::new(Vec::new(), &["eth0", "eth1"])?;
    for (interface, (_, frame)) in (0..2).zip(frames) {
        writer.write(interface, 1_700_000_000_123_456_789, frame, frame.len() as u32)?;
    }
    let enhanced = writer.into_sink()?;
    let (_, frame) = &frames[0];
    let kept = &frame[..60];
    Ok(vec![
        ("micro_little.pcap", pcap(0xa1b2_c3d4, u32::to_le_bytes, u16::to_le_bytes, kept)),
        ("micro_big.pcap", pcap(0xa1b2_c3d4, u32::to_be_bytes, u16::to_be_bytes, kept)),
        ("nano_little.pcap", pcap(0xa1b2_3c4d, u32::to_le_bytes, u16::to_le_bytes, kept)),
        ("nano_big.pcap", pcap(0xa1b2_3c4d, u32::to_be_bytes, u16::to_be_bytes, kept)),
        ("two_interfaces.pcapng", enhanced),
        ("blocks_little.pcapng", blocks(u32::to_le_bytes, u16::to_le_bytes, kept)),
        ("blocks_big.pcapng", blocks(u32::to_be_bytes, u16::to_be_bytes, kept)),
    ])
}

type Word = fn(u32) -> [u8; 4];
type Half = fn(u16) -> [u8; 2];

/// A pcap file of two packets that are cut to the snap length (draft-ietf-opsawg-pcap, sections 4 and 5).
fn pcap(magic: u32, word: Word, half: Half, kept: &[u8]) -> Vec<u8> {
    let mut file = [word(magic).as_slice(), &half(2), &half(4)].concat();
    file.extend([0, 0, 60, 1].map(word).as_flattened());
    for seconds in [1_700_000_000, 1_700_000_001] {
        file.extend([seconds, 999_999, kept.len() as u32, 1_064].map(word).as_flattened());
        file.extend(kept);
    }
    file
}

/// A pcapng file with every kind of block that the reader reads, and one that it skips (draft-ietf-opsawg-pcapng, section 4).
fn blocks(word: Word, half: Half, kept: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut block = |kind: u32, body: &[&[u8]]| {
        let body = body.concat();
        let length = word(12 + body.len() as u32);
        file.extend([&word(kind), &length, body.as_slice(), &length].concat());
    };
    let captured = word(kept.len() as u32);
    block(0x0a0d_0d0a, &[&word(0x1a2b_3c4d), &half(1), &half(0), &[0xff; 8]]);
    let options = [&half(9)[..], &half(1), &[0x94, 0, 0, 0], &half(14), &half(8), &word(0), &word(0), &[0; 4]].concat();
    block(1, &[&half(1), &half(0), &captured, &options]);
    block(6, &[&[0; 4], &word(0x0006_5000), &word(77), &captured, &word(1_064), kept]);
    block(3, &[&word(1_064), kept]);
    block(2, &[&half(0), &half(0), &word(0x0006_5000), &word(99), &captured, &word(1_064), kept]);
    block(0xbad, &[&[0; 8]]);
    file
}
