//! Cross-crate tests of rnic-cc: each file of `tests/tests` is one of them, and this library makes their captures.

use cc_core::wire::{Addresses, Aeth, Bth, CnpMarking, Extensions, Frame, Mac, Syndrome, Tags, cm, opcode};
use cc_core::{CnpBody, CnpHint, CnpKind, Ecn, Nanos, Psn, Qpn, Stamp};
use hil::capture::Writer;
use hil::crc::HostCrc;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// The sample that the project carries; `hil synth tests/data/incast.pcapng --duration 800` makes it.
pub fn sample() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/incast.pcapng")
}

/// SplitMix64 (Steele et al., OOPSLA 2014): equal seeds, equal captures.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence for this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }
}

/// Flows of a random capture, each from its own host to host 0 and back.
const FLOWS: u64 = 6;

/// A capture of whatever may happen between a few NICs: data of every ECN codepoint in any order, ACKs and NAKs, CNPs plain
/// and with bodies, also for queue pairs that nobody has, pauses, damaged frames, and a clock that rests, leaps and runs
/// back. Every third flow is announced by a handshake; the others bind when an ACK tells them apart, or never.
///
/// # Panics
/// Never: everything built here can be emitted.
pub fn random_capture(seed: u64, events: u32) -> Vec<u8> {
    let mut random = Random::new(seed);
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
        now = match random.below(400) {
            0 => now + 50_000_000 + random.below(3_000_000_000),
            1 => now.saturating_sub(random.below(100_000)),
            2..40 => now + random.below(2_000_000),
            _ => now + random.below(2_000),
        };
        let flow = random.below(FLOWS);
        let length = match random.below(20) {
            0..10 => {
                let step = [1, 1, 1, 1, 1, 1, 0, 7][random.below(8) as usize];
                psn[flow as usize] = psn[flow as usize].wrapping_add(step);
                let ecn = Ecn::from_bits(random.draw() as u8);
                let opcode =
                    [opcode::SEND_FIRST, opcode::SEND_MIDDLE, opcode::SEND_LAST, opcode::SEND_ONLY, 0x0d, 0x81]
                        [random.below(5) as usize];
                let payload = vec![0; random.below(1_025) as usize];
                let bth = Bth { opcode, psn: Psn::new(psn[flow as usize]), ..to_receiver(flow) };
                Frame { bth, payload: &payload, ..between(flow, true, ecn) }.emit::<HostCrc>(&mut buffer)
            }
            10..13 => {
                let syndrome = [0x00, 0x1f, 0x60, 0x20, 0x61][random.below(5) as usize];
                let aeth = Aeth { syndrome: Syndrome::from_bits(syndrome), msn: 1 };
                let (becn, fecn) = (random.below(4) == 0, random.below(4) == 0);
                let acked = Psn::new(psn[flow as usize].wrapping_sub(random.below(3) as u32));
                let bth = Bth { opcode: opcode::ACKNOWLEDGE, psn: acked, becn, fecn, ..to_sender(flow) };
                let extensions = Extensions { aeth, ..Extensions::default() };
                Frame { bth, extensions, ..between(flow, false, Ecn::Ect0) }.emit::<HostCrc>(&mut buffer)
            }
            13..18 => {
                let stranger = random.below(10) == 0;
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
                let at = 12 + random.below(90) as usize;
                buffer[at] ^= 1 << random.below(8);
                built
            }
        };
        let length = length.expect("the buffer is long enough");
        let captured = if random.below(50) == 0 { random.below(length as u64 + 1) as usize } else { length };
        writer.write(0, now, &buffer[..captured], length as u32).expect("a vector takes everything");
    }
    writer.into_sink().expect("a vector takes everything")
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

/// The head of a frame of this flow, to its receiver or back.
fn between(flow: u64, forward: bool, ecn: Ecn) -> Frame<'static> {
    let host = |host: u64| (Mac::new([2, 0, 0, 0, 0, host as u8]), Ipv4Addr::new(10, 0, 0, host as u8));
    let (sender, receiver) = (host(flow + 1), host(0));
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
        bth: Bth::default(),
        extensions: Extensions::default(),
        payload: &[],
    }
}

fn hint(random: &mut Random) -> CnpHint {
    let kinds = [
        CnpKind::Standard,
        CnpKind::Period,
        CnpKind::Direct,
        CnpKind::Undetermined,
        CnpKind::SwitchInt,
        CnpKind::DirectInt,
    ];
    if random.below(2) == 0 {
        return CnpHint::Plain;
    }
    CnpHint::Body(CnpBody {
        kind: kinds[random.below(6) as usize],
        ce: random.below(2) == 0,
        ue: random.below(2) == 0,
        by_remote: random.below(8) == 0,
        seq: random.below(40) as u16,
        period: Nanos::new(random.below(100_000) as u32),
        remote_qpn: Qpn::new(random.draw() as u32),
        stamp: Stamp::from_bits(random.draw() as u32),
    })
}

/// A PFC frame from some host's switch port (IEEE 802.1Qbb), by hand.
fn pause(random: &mut Random, buffer: &mut [u8]) -> usize {
    buffer[..60].fill(0);
    buffer[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 1]);
    buffer[6..12].copy_from_slice(&[2, 0, 0, 0, 0, random.below(FLOWS + 2) as u8]);
    buffer[12..16].copy_from_slice(&[0x88, 0x08, 0x01, 0x01]);
    buffer[17] = random.draw() as u8;
    for time in buffer[18..34].chunks_mut(2) {
        time.copy_from_slice(&(random.below(4) as u16 * 0x1000).to_be_bytes());
    }
    60
}
