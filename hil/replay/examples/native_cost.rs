//! Measures the host's instructions per frame of a native replay, ICRC check included. The capture has 100,000 RoCEv2 frames:
//! WRITEs of 16 packets with 1,024 bytes of payload on 16 connections between two NICs at 100 Gb/s, and one CNP in 500 frames.
//!
//! ```text
//! cargo build --release -p hil-replay --example native_cost
//! target/release/examples/native_cost make writes.pcapng
//! valgrind --tool=callgrind target/release/examples/native_cost replay writes.pcapng
//! ```
//!
//! The result is the number of instructions that callgrind counts ("Collected"), less that of the same command for a capture
//! without frames (`make` with a count of 0), divided by the number of frames that it prints.

use anyhow::{Context, Result, bail};
use cc_core::wire::cm::{self, Message};
use cc_core::wire::{Addresses, Bth, CnpMarking, Extensions, Frame, Mac, Reth, Shims, Tags, opcode};
use cc_core::{Ecn, Psn, Qpn};
use hil_capture::crc::HostCrc;
use hil_capture::{Source, Writer};
use hil_replay::{Options, replay};
use std::env;
use std::net::Ipv4Addr;
use std::path::Path;

const FRAMES: u32 = 100_000;
const CONNECTIONS: u32 = 16;
const PACKETS: u32 = 16;
const PAYLOAD: [u8; 1_024] = [0; 1_024];
/// Nanoseconds from one frame to the next: 1,086 bytes and 24 of Ethernet's at 100 Gb/s.
const GAP: u64 = 89;
/// RDMA WRITE First, Middle and Last of a reliable connection (IBTA volume 1, table 38).
const WRITE: [u8; 3] = [0x06, 0x07, 0x08];

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [_, "make", file] => make(Path::new(file), FRAMES),
        [_, "make", file, frames] => make(Path::new(file), frames.parse().context("a number of frames")?),
        [_, "replay", file] => {
            let report = replay(&Options::default(), &mut Source::open(Path::new(file))?, |_| {})?;
            println!("{} frames", report.frames.total);
            Ok(())
        }
        _ => bail!("expected: make FILE [FRAMES], or replay FILE"),
    }
}

/// A frame of a connection, forward from the sender or back to it.
fn between(connection: u32, forward: bool) -> Frame<'static> {
    let ends = [
        (Mac::new([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1)),
        (Mac::new([2, 0, 0, 0, 0, 2]), Ipv4Addr::new(10, 0, 0, 2)),
    ];
    let [(source, from), (destination, to)] = if forward { ends } else { [ends[1], ends[0]] };
    let dest_qp = Qpn::new(if forward { 0x200 } else { 0x100 } + connection);
    Frame {
        destination,
        source,
        tags: Tags::default(),
        addresses: Addresses::V4 { source: from, destination: to },
        dscp: 26,
        ecn: Ecn::Ect0,
        hop_limit: 64,
        udp_source: 0xc000 | connection as u16,
        shims: Shims::NONE,
        bth: Bth { partition: 0xffff, dest_qp, ..Bth::default() },
        extensions: Extensions::default(),
        payload: &[],
    }
}

fn make(file: &Path, frames: u32) -> Result<()> {
    let mut writer = Writer::create(file, &["wire"])?;
    let (mut buffer, mut now) = (vec![0; 2_048], 0);
    let mut write = |frame: &Frame<'_>| -> Result<()> {
        let length = frame.emit::<HostCrc>(&mut buffer).ok().context("a frame that can be emitted")?;
        now += GAP;
        Ok(writer.write(0, now, &buffer[..length], length as u32)?)
    };
    for connection in 0..CONNECTIONS {
        let (local_id, remote_id, starting_psn) = (connection + 1, connection + 0x101, Psn::new(0));
        let steps = [
            (true, Message::Request { local_id, local_qpn: Qpn::new(0x100 + connection), starting_psn }),
            (
                false,
                Message::Reply {
                    local_id: remote_id,
                    remote_id: local_id,
                    local_qpn: Qpn::new(0x200 + connection),
                    starting_psn,
                },
            ),
            (true, Message::ReadyToUse { local_id, remote_id }),
        ];
        for (forward, message) in steps {
            let (bth, extensions) = cm::headers(Psn::new(0));
            write(&Frame { bth, extensions, payload: &message.emit(), ..between(connection, forward) })?;
        }
    }
    let mut sent = [0; CONNECTIONS as usize];
    for number in 0..frames {
        let connection = number % CONNECTIONS;
        let head = between(connection, number % 500 != 499);
        if number % 500 == 499 {
            let CnpMarking { dscp, ecn, .. } = CnpMarking::default();
            let bth = Bth { opcode: opcode::CNP, becn: true, ..head.bth };
            write(&Frame { bth, dscp, ecn, ..head })?;
            continue;
        }
        let packet = &mut sent[connection as usize];
        let (opcode, last) = match *packet % PACKETS {
            0 => (WRITE[0], false),
            place if place == PACKETS - 1 => (WRITE[2], true),
            _ => (WRITE[1], false),
        };
        let reth = Reth { address: 0x1000, key: 1, len: PACKETS * PAYLOAD.len() as u32 };
        let bth = Bth { opcode, ack_request: last, psn: Psn::new(*packet), ..head.bth };
        *packet += 1;
        write(&Frame { bth, extensions: Extensions { reth, ..Extensions::default() }, payload: &PAYLOAD, ..head })?;
    }
    writer.finish()?;
    Ok(())
}
