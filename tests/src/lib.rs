//! Cross-crate tests of rnic-cc: each file of `tests/tests` is one of them, and this library makes their captures.

use cc_core::wire::{Addresses, Aeth, Bth, CnpMarking, Extensions, Frame, Mac, Shims, Syndrome, Tags, cm, opcode};
use cc_core::{CnpBody, CnpHint, CnpKind, Ecn, Nanos, Psn, Qpn, Stamp};
use hil::capture::Writer;
use hil::crc::HostCrc;
use hil::random::SplitMix;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// The sample that the project carries; `hil synth tests/data/incast.pcapng --duration 800` makes it.
pub fn sample() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/incast.pcapng")
}

/// The opcode of a READ response that is neither first nor last.
const READ_RESPONSE: u8 = 0x0e;

/// Flows of a random capture, each from its own host to host 0 and back.
const FLOWS: u64 = 6;

/// A capture of whatever may happen between a few NICs: data of every ECN codepoint in any order, ACKs and NAKs, CNPs plain
/// and with bodies, also for queue pairs that nobody has, pauses, damaged frames, and a clock that rests, leaps and runs
/// back. Every third flow is announced by a handshake; the others bind when an ACK tells them apart, or never.
///
/// # Panics
/// Never: everything built here can be emitted.
pub fn random_capture(seed: u64, events: u32) -> Vec<u8> {
    let mut random = SplitMix::new(seed);
    let mut writer = Writer::new(Vec::new(), &["wire"]).expect("a vector takes everything");
    let mut buffer = vec![0; 2_048];
    let mut now: u64 = 1_767_225_600_000_000_000;
    let mut psn: Vec<u32> = (0..FLOWS).map(|_| random.draw() as u32).collect();
    for flow in (0..FLOWS).filter(|flow| flow % 3 == 0) {
        for (message, forward) in handshake(flow, psn[flow as usize]) {
            let (bth, extensions) = cm::headers(Psn::new(0));
            let datagram = message.emit().expect("a datagram is long enough");
            let frame = Frame { bth, extensions, payload: &datagram, ..between(flow, forward, Ecn::NotEct) };
            let length = frame.emit::<HostCrc>(&mut buffer).expect("the buffer is long enough");
            writer.write(0, now, &buffer[..length], length as u32).expect("a vector takes everything");
            now += 1_000;
        }
    }
    for _ in 0..events {
        now = match below(&mut random, 400) {
            0 => now + 50_000_000 + below(&mut random, 3_000_000_000),
            1 => now.saturating_sub(below(&mut random, 100_000)),
            2..40 => now + below(&mut random, 2_000_000),
            _ => now + below(&mut random, 2_000),
        };
        let flow = below(&mut random, FLOWS as u32);
        let length = match below(&mut random, 20) {
            0..10 => {
                let step = [1, 1, 1, 1, 1, 1, 0, 7][below(&mut random, 8) as usize];
                psn[flow as usize] = psn[flow as usize].wrapping_add(step);
                let ecn = Ecn::from_bits(random.draw() as u8);
                let opcode =
                    [opcode::SEND_FIRST, opcode::SEND_MIDDLE, opcode::SEND_LAST, opcode::SEND_ONLY, READ_RESPONSE]
                        [below(&mut random, 5) as usize];
                let payload = vec![0; below(&mut random, 1_025) as usize];
                let bth = Bth { opcode, psn: Psn::new(psn[flow as usize]), ..to_receiver(flow) };
                Frame { bth, payload: &payload, ..between(flow, true, ecn) }.emit::<HostCrc>(&mut buffer)
            }
            10..13 => {
                let syndrome = [0x00, 0x1f, 0x60, 0x20, 0x61][below(&mut random, 5) as usize];
                let aeth = Aeth { syndrome: Syndrome::from_bits(syndrome), msn: 1 };
                let (becn, fecn) = (below(&mut random, 4) == 0, below(&mut random, 4) == 0);
                let acked = Psn::new(psn[flow as usize].wrapping_sub(below(&mut random, 3) as u32));
                let bth = Bth { opcode: opcode::ACKNOWLEDGE, psn: acked, becn, fecn, ..to_sender(flow) };
                let extensions = Extensions { aeth, ..Extensions::default() };
                Frame { bth, extensions, ..between(flow, false, Ecn::Ect0) }.emit::<HostCrc>(&mut buffer)
            }
            13..18 => {
                let stranger = below(&mut random, 10) == 0;
                let dest_qp = if stranger { Qpn::new(random.draw() as u32) } else { to_sender(flow).dest_qp };
                let bth = Bth { opcode: opcode::CNP, becn: true, dest_qp, ..to_sender(flow) };
                let extensions = Extensions { cnp: hint(&mut random), ..Extensions::default() };
                Frame { bth, extensions, ..between(flow, false, Ecn::Ect0) }.emit::<HostCrc>(&mut buffer)
            }
            18 => Ok(pause(&mut random, &mut buffer)),
            _ => {
                let bth = Bth { opcode: opcode::SEND_ONLY, ..to_receiver(flow) };
                let built =
                    Frame { bth, payload: &[0; 64], ..between(flow, true, Ecn::Ce) }.emit::<HostCrc>(&mut buffer);
                let at = 12 + below(&mut random, 90) as usize;
                buffer[at] ^= 1 << below(&mut random, 8);
                built
            }
        };
        let length = length.expect("the buffer is long enough");
        let captured =
            if below(&mut random, 50) == 0 { below(&mut random, length as u32 + 1) as usize } else { length };
        writer.write(0, now, &buffer[..captured], length as u32).expect("a vector takes everything");
    }
    writer.into_sink().expect("a vector takes everything")
}

/// A number below `bound`, which is not zero.
fn below(random: &mut SplitMix, bound: u32) -> u64 {
    random.below(bound).into()
}

fn handshake(flow: u64, psn: u32) -> [(cm::Message, bool); 2] {
    let (local_id, starting_psn) = (flow as u32 + 1, Psn::new(psn));
    let local_qpn = to_sender(flow).dest_qp;
    let request = cm::Message::Request { local_id, local_qpn, starting_psn };
    let local_qpn = to_receiver(flow).dest_qp;
    let reply = cm::Message::Reply { local_id: local_id + 0x100, remote_id: local_id, local_qpn, starting_psn };
    [(request, true), (reply, false)]
}

fn to_sender(flow: u64) -> Bth {
    Bth { partition: 0xffff, dest_qp: Qpn::new(0x40 + flow as u32), ..Bth::default() }
}

fn to_receiver(flow: u64) -> Bth {
    Bth { dest_qp: Qpn::new(0x80 + flow as u32), ..to_sender(flow) }
}

/// The Ethernet address to which the sender of this flow sends.
fn port(flow: u64) -> Mac {
    Mac::new([2, 0, 0, 0, 1, flow as u8])
}

/// The head of a frame of this flow, to its receiver or back.
fn between(flow: u64, forward: bool, ecn: Ecn) -> Frame<'static> {
    let host = |host: u64| (Mac::new([2, 0, 0, 0, 0, host as u8]), Ipv4Addr::new(10, 0, 0, host as u8));
    let (sender, receiver) = (host(flow + 1), host(0));
    // Behind a switch port of its own for each flow, which can pause the flow's sender.
    let receiver = (port(flow), receiver.1);
    let (from, to) = if forward { (sender, receiver) } else { (receiver, sender) };
    Frame {
        destination: to.0,
        source: from.0,
        tags: Tags::default(),
        addresses: Addresses::V4 { source: from.1, destination: to.1 },
        dscp: CnpMarking::default().dscp,
        ecn,
        hop_limit: 64,
        udp_source: 0xc000,
        shims: Shims::NONE,
        bth: Bth::default(),
        extensions: Extensions::default(),
        payload: &[],
    }
}

fn hint(random: &mut SplitMix) -> CnpHint {
    let kinds = [
        CnpKind::Standard,
        CnpKind::Period,
        CnpKind::Direct,
        CnpKind::Undetermined,
        CnpKind::SwitchInt,
        CnpKind::DirectInt,
    ];
    if below(random, 2) == 0 {
        return CnpHint::Plain;
    }
    CnpHint::Body(CnpBody {
        kind: kinds[below(random, 6) as usize],
        ce: below(random, 2) == 0,
        ue: below(random, 2) == 0,
        by_remote: below(random, 8) == 0,
        seq: below(random, 40) as u16,
        period: Nanos::new(below(random, 100_000) as u32),
        remote_qpn: Qpn::new(random.draw() as u32),
        stamp: Stamp::from_bits(random.draw() as u32),
    })
}

/// A PFC frame from some host's switch port (IEEE 802.1Qbb), by hand.
fn pause(random: &mut SplitMix, buffer: &mut [u8]) -> usize {
    buffer[..60].fill(0);
    buffer[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 1]);
    buffer[6..12].copy_from_slice(&port(below(random, FLOWS as u32 + 1)).octets());
    buffer[12..16].copy_from_slice(&[0x88, 0x08, 0x01, 0x01]);
    buffer[17] = random.draw() as u8;
    for time in buffer[18..34].chunks_mut(2) {
        time.copy_from_slice(&(below(random, 4) as u16 * 0x1000).to_be_bytes());
    }
    60
}

/// A CNP without a body for the sender of this flow.
///
/// # Panics
/// Never: a CNP fits.
pub fn plain_cnp(flow: u64) -> Vec<u8> {
    let bth = Bth { opcode: opcode::CNP, becn: true, ..to_sender(flow) };
    let mut buffer = vec![0; 128];
    let length = Frame { bth, ..between(flow, false, Ecn::Ect0) }.emit::<HostCrc>(&mut buffer).expect("a CNP fits");
    buffer.truncate(length);
    buffer
}

/// The queue pair that the sender of this flow has.
pub fn sender_qpn(flow: u64) -> u32 {
    to_sender(flow).dest_qp.get()
}
