//! Random captures of the traffic between a few NICs, to compare firmware with library and to measure coverage and cycles.
//!
//! Six hosts send to a seventh, each on its own queue pair and through its own switch port. The state of the network changes in
//! phases of 128 frames, because algorithms reach their rarer states only after a run of equal signals. Faults occur in
//! between: reordered, repeated and damaged packets, unknown queue pairs, reused queue pair numbers, and a clock that stands
//! still, jumps forward, or jumps back.

use cc_core::wire::shim::{IntShim, MlccAck, MlccData, Rcc, Time};
use cc_core::wire::{
    Addresses, Aeth, Bth, CnpMarking, Deth, Extensions, Frame, Mac, Pfc, Shims, Syndrome, Tags, cm, opcode,
};
use cc_core::{
    Bytes, CnpBody, CnpBodyKind, CnpKind, Ecn, Hop, IntLayout, IntStackBuilder, Mark, Nanos, Psn, Qpn, Rate, Stamp,
};
use cc_rp::Signals;
use hil_capture::Writer;
use hil_capture::crc::HostCrc;
use hil_cores::random::SplitMix;
use std::collections::VecDeque;
use std::net::Ipv4Addr;

/// Flows, each from its own host to host 0 and back.
const FLOWS: usize = 6;
/// The time at which captures begin, in nanoseconds since 1970: 2026-01-01.
const START: u64 = 1_767_225_600_000_000_000;
/// The opcode of a READ response that is neither first nor last.
const READ_RESPONSE: u8 = 0x0e;
/// Bytes captured of a longer frame, in most cases; the rest is payload.
const SNAP: usize = 320;
/// Packets of a flow that may still be acknowledged.
const IN_FLIGHT: usize = 64;

/// Random traffic between seven hosts.
#[derive(Clone, Copy, Debug)]
pub struct RandomTraffic {
    /// Seed; traffic of the same seed is the same.
    pub seed: u64,
    /// Number of frames, in addition to those of the handshakes.
    pub frames: u32,
    /// The signals that are frequent, in shims if needed. CNPs, acknowledgements and pauses occur in any case.
    pub signals: Signals,
}

impl RandomTraffic {
    /// The capture, as pcapng.
    ///
    /// # Panics
    /// Never: everything built here can be emitted.
    pub fn capture(&self) -> Vec<u8> {
        let mut chance = SplitMix::new(self.seed);
        let flows = (0..FLOWS).map(|number| Flow::new(number, &mut chance)).collect();
        let writer = Writer::new(Vec::new(), &["wire"]).expect("writing to a vector does not fail");
        let Self { frames, signals, .. } = *self;
        let (now, regime, buffer) = (START, Regime::Wild, vec![0; 8_192]);
        let mut making = Making { signals, chance, now, regime, flows, writer, buffer };
        for flow in (0..FLOWS).filter(|flow| flow % 3 == 0) {
            making.handshake(flow);
        }
        for frame in 0..frames {
            if frame % 128 == 0 {
                making.regime = making.chance.pick(&Regime::ALL);
            }
            making.pass_time();
            making.frame();
        }
        making.writer.into_sink().expect("writing to a vector does not fail")
    }
}

/// State of the network during one phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Regime {
    /// Empty queues.
    Calm,
    /// Queues grow.
    Filling,
    /// Queues shrink.
    Draining,
    /// Long queues.
    Congested,
    /// Pauses from downstream keep queues from draining.
    HeldUp,
    /// Anything.
    Wild,
}

impl Regime {
    const ALL: [Self; 6] = [Self::Calm, Self::Filling, Self::Draining, Self::Congested, Self::HeldUp, Self::Wild];
}

/// One flow, with its sender's state.
#[derive(Debug)]
struct Flow {
    number: usize,
    /// Number of connections so far on its sender's queue pair.
    connection: u32,
    psn: Psn,
    /// The packets sent, oldest first.
    sent: VecDeque<Sent>,
    /// Round-trip time in nanoseconds; the next sample is near it.
    rtt: u64,
    path: Path,
    /// The path to the interconnect switch; its last hop is that switch's model of a port.
    near: Path,
    /// The credit that the receiver's interconnect switch has last read in an acknowledgement.
    credit: u16,
}

/// A packet sent.
#[derive(Clone, Debug)]
struct Sent {
    psn: Psn,
    at: u64,
    /// The INT that switches wrote into it.
    telemetry: Option<IntStackBuilder>,
}

/// The switches that a flow passes.
#[derive(Clone, Copy, Debug)]
struct Path {
    layout: IntLayout,
    number: u16,
    hops: u8,
    /// Time up to which the switches have counted bytes.
    at: u64,
    /// Bytes sent until then, in units of 64 bytes.
    sent: u64,
}

impl Flow {
    fn new(number: usize, chance: &mut SplitMix) -> Self {
        let layout = if number == 5 { IntLayout::Compact } else { IntLayout::Wide };
        let path = Path { layout, number: number as u16, hops: 1 + number as u8, at: START, sent: chance.draw() };
        let psn = Psn::new(chance.draw() as u32);
        Self { number, connection: 0, psn, sent: VecDeque::new(), rtt: 10_000, path, near: path, credit: 1 }
    }

    fn to_sender(&self) -> Bth {
        Bth { partition: 0xffff, dest_qp: sender_qpn(self.number), ..Bth::default() }
    }

    fn to_receiver(&self) -> Bth {
        Bth { dest_qp: Qpn::new(0x80 + self.number as u32 + 0x100 * self.connection), ..self.to_sender() }
    }
}

/// Random traffic under construction.
struct Making {
    signals: Signals,
    chance: SplitMix,
    now: u64,
    regime: Regime,
    flows: Vec<Flow>,
    writer: Writer<Vec<u8>>,
    buffer: Vec<u8>,
}

impl Making {
    fn below(&mut self, bound: u32) -> u32 {
        self.chance.below(bound)
    }

    fn has(&self, signal: Signals) -> bool {
        self.signals.contains(signal)
    }

    /// Returns `true` with a probability of 1 in `times`.
    fn once_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }

    fn pass_time(&mut self) {
        self.now = match self.below(400) {
            0 => self.now + 50_000_000 + u64::from(self.below(3_000_000_000)),
            1 => self.now.saturating_sub(self.below(100_000).into()),
            2..20 => self.now + u64::from(self.below(2_000_000)),
            _ => self.now + u64::from(self.below(2_000)),
        };
    }

    fn frame(&mut self) {
        let flow = self.below(FLOWS as u32) as usize;
        let (cnps, acks) = if self.has(Signals::CNP) { (24, 16) } else { (2, 38) };
        match self.below(100) {
            0..50 => self.data(flow),
            50 => self.damaged(flow),
            51 => self.datagram(flow),
            52..56 => self.pause(),
            56 => self.nak(flow),
            57 if self.once_in(4) => {
                self.flows[flow].connection += 1;
                self.handshake(flow);
            }
            kind if kind < 58 + cnps => self.cnp(flow),
            kind if kind < 58 + cnps + acks => self.ack(flow),
            _ => self.data(flow),
        }
    }

    fn data(&mut self, flow: usize) {
        let step = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 7][self.below(13) as usize];
        let ecn = self.ecn();
        let kinds = [opcode::SEND_FIRST, opcode::SEND_MIDDLE, opcode::SEND_LAST, opcode::SEND_ONLY, READ_RESPONSE];
        let opcode = self.chance.pick(&kinds);
        let payload = [0, 64, 1_024, 1_024, 4_096, 4_096][self.below(6) as usize];
        let payload = vec![0; payload + self.below(3) as usize];
        let go_back = self.once_in(100);
        let telemetry = (self.has(Signals::INT) || self.has(Signals::ADVISED_RATE))
            .then(|| self.telemetry(flow, |flow| &mut flow.path));
        let mlcc_data = self.has(Signals::ADVISED_RATE).then(|| self.credit(flow));
        let sent = self.has(Signals::DELAY) || self.has(Signals::GRANT);
        let delay = if self.has(Signals::GRANT) { self.one_way() } else { 0 };
        let time = sent.then(|| Time { sent: stamp(self.now.saturating_sub(delay)), ..Time::default() });
        let from = &mut self.flows[flow];
        match from.sent.front() {
            Some(oldest) if go_back => {
                from.psn = oldest.psn;
                from.sent.clear();
            }
            _ => from.psn = from.psn.plus(step),
        }
        let int = telemetry.as_ref().map(IntShim::of);
        let shims = Shims { time, int, mlcc_data, ..Shims::NONE };
        from.sent.push_back(Sent { psn: from.psn, at: self.now, telemetry });
        if from.sent.len() > IN_FLIGHT {
            from.sent.pop_front();
        }
        let bth = Bth { opcode, psn: from.psn, ..from.to_receiver() };
        self.emit(&Frame { shims, bth, payload: &payload, ..between(flow, true, ecn) });
        if self.has(Signals::SWITCH_INT) && self.once_in(2) {
            self.switch_int(flow);
        }
    }

    /// A CNP with INT that the interconnect switch sends back for a passing packet. 1 in 16 names the flow by the sender's
    /// queue pair; 1 in 32 names an unknown remote queue pair.
    fn switch_int(&mut self, flow: usize) {
        let telemetry = self.telemetry(flow, |flow| &mut flow.near);
        let mut room = [0; IntShim::LONGEST];
        let int = IntShim::of(&telemetry).write(&mut room).expect("there is room for the longest");
        let (named, unknown) = (self.once_in(16), self.once_in(32));
        let remote_qpn = if unknown { Qpn::new(0x7f) } else { self.flows[flow].to_receiver().dest_qp };
        let kind = self.chance.pick(&[CnpKind::SwitchInt, CnpKind::DirectInt]);
        let cnp = CnpBodyKind::Extended(CnpBody { kind, names_remote_qpn: !named, remote_qpn, ..CnpBody::default() });
        let dest_qp = if named { sender_qpn(flow) } else { Qpn::new(0) };
        let bth = Bth { opcode: opcode::CNP, becn: true, dest_qp, ..self.flows[flow].to_sender() };
        let extensions = Extensions { cnp, ..Extensions::default() };
        self.emit(&Frame { bth, extensions, payload: int, ..between(flow, false, Ecn::Ect0) });
    }

    /// One-way delay of a packet that arrives now, for receivers that measure it.
    fn one_way(&mut self) -> u64 {
        let longest = if self.regime == Regime::Calm { 1_000 } else { 50_000 };
        u64::from(2_000 + self.below(longest))
    }

    /// An acknowledgement of one of the newest packets, after a round-trip time that depends on the phase.
    fn ack(&mut self, flow: usize) {
        let (near, regime) = (self.below(4_000), self.regime);
        let wild = self.once_in(20);
        let back = [0, 0, 0, 1, 2][self.below(5) as usize];
        let syndrome = [0x00, 0x1f][self.below(2) as usize];
        let mark = self.mark();
        let time = self.has(Signals::DELAY).then(|| self.times());
        let rcc = self.has(Signals::GRANT).then(|| self.grant());
        let mlcc_ack = (self.has(Signals::ADVISED_RATE) && !self.once_in(20)).then(|| self.advice(flow));
        let echo = (self.has(Signals::MARK) && self.once_in(10)).then(|| self.mark());
        let to = &mut self.flows[flow];
        let newest = to.sent.len().saturating_sub(1 + back);
        let Some(Sent { psn, at: sent_at, telemetry }) = to.sent.get(newest).cloned() else { return };
        to.rtt = match regime {
            Regime::Calm => 6_000,
            Regime::Filling => (to.rtt + 15_000).clamp(40_000, 900_000),
            Regime::Draining => to.rtt.saturating_sub(20_000).clamp(15_000, 460_000),
            Regime::Congested => 600_000,
            Regime::HeldUp => 300_000,
            Regime::Wild => 20 * u64::from(near),
        } + u64::from(near);
        if !wild {
            // The round-trip time is at least the time since the packet was sent.
            self.now = self.now.max(sent_at + to.rtt);
        }
        if back == 0 {
            to.sent.drain(..=newest);
        }
        let aeth = Aeth { syndrome: Syndrome::from_bits(syndrome), msn: 1 };
        let (becn, fecn) = (mark == Mark::Congested, mark == Mark::Undetermined);
        // The flow may have changed its path since, and with it the path number that the receiver returns.
        let Path { layout, number, .. } = to.path;
        let int = telemetry.as_ref().and_then(|sent| IntShim::new(layout, number, sent.hops(), sent.area()));
        let stamp = if wild && near % 2 == 0 { Stamp::from_bits(near) } else { stamp(sent_at) };
        let time = time.map(|time| Time { echo: stamp, ..time });
        let rcc = rcc.map(|rcc| Rcc { echo: stamp, ..rcc });
        let shims = Shims { time, int, rcc, mlcc_ack, echo, ..Shims::NONE };
        let bth = Bth { opcode: opcode::ACKNOWLEDGE, psn, becn, fecn, ..to.to_sender() };
        let extensions = Extensions { aeth, ..Extensions::default() };
        self.emit(&Frame { shims, bth, extensions, ..between(flow, false, Ecn::Ect0) });
    }

    /// The delay fields that a receiver adds to the time stamp that it returns.
    fn times(&mut self) -> Time {
        let receiver_hold = if self.once_in(10) { self.below(2_000_000) } else { self.below(3_000) };
        let hops = self.below(8) as u8;
        Time {
            receiver_hold: Nanos::new(receiver_hold),
            hops,
            rx_buffer_level: self.below(32) as u8,
            ..Time::default()
        }
    }

    /// MLCC's data shim, as the receiver's interconnect switch writes it. In 1 of 6 packets the credit is one higher, because a
    /// round has ended; in 1 of 40 it is 0, which means unknown.
    fn credit(&mut self, flow: usize) -> MlccData {
        let queue = match self.regime {
            Regime::Calm => 0,
            Regime::Filling | Regime::Draining => 2_000_000,
            Regime::Congested | Regime::HeldUp => 20_000_000,
            Regime::Wild => 1_000_000_000,
        };
        let queue = Bytes::new(self.below(1_000_000) + queue);
        let (is_over, unknown) = (self.once_in(6), self.once_in(40));
        let credit = &mut self.flows[flow].credit;
        *credit = credit.wrapping_add(is_over.into());
        MlccData { credit: if unknown { 0 } else { *credit }, queue }
    }

    /// MLCC's acknowledgement shim, as the receiver writes it.
    fn advice(&mut self, flow: usize) -> MlccAck {
        let mbps = match self.regime {
            Regime::Calm => 100_000,
            Regime::Filling => 60_000,
            Regime::Draining => 20_000,
            Regime::Congested => 5_000,
            Regime::HeldUp => 1_000,
            Regime::Wild => 0,
        };
        let advised_rate = Rate::from_mbps(mbps + self.below(10_000));
        let Flow { credit, .. } = self.flows[flow];
        let data_qpn = self.flows[flow].to_receiver().dest_qp;
        MlccAck { credit, data_qpn, release: Rate::from_gbps(25), advised_rate }
    }

    /// The shim with the rate that a receiver of RCC grants.
    fn grant(&mut self) -> Rcc {
        let (window, flows, utilisation) = match self.regime {
            Regime::Calm => (200_000, 1, 0x4000),
            Regime::Filling => (100_000, 8, 0xe000),
            Regime::Draining => (60_000, 8, 0xc000),
            Regime::Congested => (4_000, 64, 0xffff),
            Regime::HeldUp => (20_000, 2, 0x1000),
            Regime::Wild => (0, 1 + self.below(600) as u16, 0),
        };
        Rcc {
            window: Bytes::new(window + self.below(100_000)),
            flows,
            utilisation: self.below(0x3000) as u16 | utilisation,
            echo: Stamp::from_bits(0),
        }
    }

    /// The INT that the switches of one of a flow's paths write into a packet that leaves now.
    fn telemetry(&mut self, flow: usize, path: fn(&mut Flow) -> &mut Path) -> IntStackBuilder {
        if self.once_in(150) {
            let (number, hops) = (self.below(8) as u16, 1 + self.below(IntShim::ROOM.into()) as u8);
            let path = path(&mut self.flows[flow]);
            (path.number, path.hops) = (number, hops);
        }
        // The load in per cent of the link's speed, and the queue in bytes.
        let (load, queue) = match self.regime {
            Regime::Calm => (30 + self.below(40), 0),
            Regime::Filling => (100, self.below(200_000)),
            Regime::Draining => (80 + self.below(20), self.below(50_000)),
            Regime::Congested => (100, 100_000 + self.below(2_000_000)),
            Regime::HeldUp => (self.below(20), 500_000),
            Regime::Wild => (self.below(200), self.below(4_000_000)),
        };
        let other_speed = self.once_in(60);
        let mbps = if other_speed { [0, 40_000, 800_000][self.below(3) as usize] } else { 100_000 };
        let path = path(&mut self.flows[flow]);
        let elapsed = self.now.saturating_sub(path.at);
        path.at = path.at.max(self.now);
        // Full load is 12.5 bytes per nanosecond (100 Gb/s).
        path.sent = path.sent.wrapping_add(u64::from(load) * elapsed / 512);
        let Path { layout, number, hops, sent, .. } = *path;
        let mut telemetry = IntStackBuilder::new(layout, number).with_room(IntShim::ROOM);
        for hop in 0..hops {
            let clock = (self.now as u32).wrapping_add(1_000 * u32::from(hop));
            let (sent, queue) = match layout {
                IntLayout::Wide => (sent as u32, queue),
                IntLayout::Compact => ((sent / 2) as u32, queue / 80),
            };
            telemetry.push(&Hop { mbps, flags: 0, clock, sent, queue: queue >> (hop % 4) });
        }
        if self.once_in(100) {
            telemetry.overflow();
        }
        telemetry
    }

    /// A NAK: PSN sequence error, another NAK code, or RNR.
    fn nak(&mut self, flow: usize) {
        let syndrome = [0x60, 0x60, 0x20, 0x61][self.below(4) as usize];
        let to = &self.flows[flow];
        let psn = to.sent.front().map_or(to.psn, |oldest| oldest.psn);
        let aeth = Aeth { syndrome: Syndrome::from_bits(syndrome), msn: 1 };
        let bth = Bth { opcode: opcode::ACKNOWLEDGE, psn, ..to.to_sender() };
        let extensions = Extensions { aeth, ..Extensions::default() };
        self.emit(&Frame { bth, extensions, ..between(flow, false, Ecn::Ect0) });
    }

    fn cnp(&mut self, flow: usize) {
        if self.regime == Regime::Calm && !self.once_in(50) {
            return self.data(flow);
        }
        let unknown = self.once_in(20).then(|| Qpn::new(self.chance.draw() as u32));
        let cnp = self.body_kind();
        let dest_qp = unknown.unwrap_or(sender_qpn(flow));
        let bth = Bth { opcode: opcode::CNP, becn: true, dest_qp, ..self.flows[flow].to_sender() };
        let extensions = Extensions { cnp, ..Extensions::default() };
        self.emit(&Frame { bth, extensions, ..between(flow, false, Ecn::Ect0) });
    }

    /// A marked packet with one bit flipped after its Ethernet addresses.
    fn damaged(&mut self, flow: usize) {
        let bth = Bth { opcode: opcode::SEND_ONLY, ..self.flows[flow].to_receiver() };
        let frame = Frame { bth, payload: &[0; 64], ..between(flow, true, Ecn::Ce) };
        let length = frame.emit::<HostCrc>(&mut self.buffer).expect("the buffer is long enough");
        let (at, bit) = (12 + self.below(90) as usize, self.below(8));
        self.buffer[at] ^= 1 << bit;
        self.write(length, length);
    }

    /// A UD datagram from another queue pair.
    fn datagram(&mut self, flow: usize) {
        let bth = Bth { opcode: opcode::UD_SEND_ONLY, dest_qp: Qpn::new(0xc0), ..self.flows[flow].to_receiver() };
        let deth = Deth { queue_key: 0, source_qp: Qpn::new(0xd0 + flow as u32) };
        let extensions = Extensions { deth, ..Extensions::default() };
        let ecn = self.ecn();
        self.emit(&Frame { bth, extensions, payload: &[0; 64], ..between(flow, true, ecn) });
    }

    /// A PFC frame from some host's switch port, or from an unknown port.
    fn pause(&mut self) {
        let host = self.below(FLOWS as u32 + 1) as usize;
        let enabled = self.chance.draw() as u8;
        let longest = if self.regime == Regime::HeldUp { 16 } else { 4 };
        let quanta = [(); 8].map(|()| 0x1000_u16.saturating_mul(self.below(longest) as u16));
        let length = Pfc::new(enabled, quanta).emit(port(host), &mut self.buffer).expect("the buffer is long enough");
        self.write(length, length);
    }

    /// The CM handshake of a flow's connection.
    fn handshake(&mut self, flow: usize) {
        let from = &mut self.flows[flow];
        from.sent.clear();
        let starting_psn = from.psn;
        let local_id = 1 + flow as u32 + 0x10 * from.connection;
        let request = cm::Message::Request { local_id, local_qpn: sender_qpn(flow), starting_psn };
        let local_qpn = from.to_receiver().dest_qp;
        let reply = cm::Message::Reply { local_id: local_id + 0x1000, remote_id: local_id, local_qpn, starting_psn };
        for (message, forward) in [(request, true), (reply, false)] {
            let (bth, extensions) = cm::headers(Psn::new(0));
            let datagram = message.emit();
            self.emit(&Frame { bth, extensions, payload: &datagram, ..between(flow, forward, Ecn::NotEct) });
            self.now += 1_000;
        }
    }

    fn emit(&mut self, frame: &Frame<'_>) {
        let length = frame.emit::<HostCrc>(&mut self.buffer).expect("the buffer is long enough");
        let captured = match self.below(50) {
            0 => self.below(length as u32 + 1) as usize,
            1..5 => length,
            _ => length.min(SNAP),
        };
        self.write(captured, length);
    }

    fn write(&mut self, captured: usize, length: usize) {
        let frame = &self.buffer[..captured];
        self.writer.write(0, self.now, frame, length as u32).expect("writing to a vector does not fail");
    }

    /// ECN bits of a packet that arrives.
    fn ecn(&mut self) -> Ecn {
        match self.mark() {
            _ if self.once_in(10) => Ecn::from_bits(self.chance.draw() as u8),
            Mark::None => Ecn::Ect0,
            Mark::Undetermined => Ecn::Ect1,
            Mark::Congested => Ecn::Ce,
        }
    }

    fn mark(&mut self) -> Mark {
        let (ce, ue) = match self.regime {
            Regime::Calm => (0, 0),
            Regime::Filling => (30, 5),
            Regime::Draining => (5, 5),
            Regime::Congested => (80, 5),
            Regime::HeldUp => (5, 80),
            Regime::Wild => (33, 33),
        };
        match self.below(100) {
            percent if percent < ce => Mark::Congested,
            percent if percent < ce + ue => Mark::Undetermined,
            _ => Mark::None,
        }
    }

    fn body_kind(&mut self) -> CnpBodyKind {
        let kinds = [
            CnpKind::Standard,
            CnpKind::Period,
            CnpKind::Period,
            CnpKind::Direct,
            CnpKind::Undetermined,
            CnpKind::Undetermined,
            CnpKind::SwitchInt,
            CnpKind::DirectInt,
        ];
        if self.once_in(2) {
            return CnpBodyKind::Standard;
        }
        CnpBodyKind::Extended(CnpBody {
            kind: self.chance.pick(&kinds),
            ce: self.once_in(2),
            ue: self.once_in(2),
            names_remote_qpn: self.once_in(16),
            seq: self.below(40) as u16,
            period: Nanos::new(self.below(100_000)),
            remote_qpn: Qpn::new(self.chance.draw() as u32),
            stamp: Stamp::from_bits(self.chance.draw() as u32),
        })
    }
}

/// The time stamp of a NIC's clock at this time. The clock starts with the capture.
const fn stamp(time: u64) -> Stamp {
    Stamp::from_bits(time.wrapping_sub(START) as u32)
}

/// The Ethernet address to which the sender of this flow sends.
fn port(flow: usize) -> Mac {
    Mac::new([2, 0, 0, 0, 1, flow as u8])
}

/// Headers of a frame of this flow, to its receiver or back.
fn between(flow: usize, forward: bool, ecn: Ecn) -> Frame<'static> {
    let host = |host: usize| (Mac::new([2, 0, 0, 0, 0, host as u8]), Ipv4Addr::new(10, 0, 0, host as u8));
    let (sender, receiver) = (host(flow + 1), host(0));
    // Each flow has its own switch port, which can pause the flow's sender.
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

/// The queue pair number of a flow's sender.
pub const fn sender_qpn(flow: usize) -> Qpn {
    Qpn::new(0x40 + flow as u32)
}

/// A CNP without a body for the sender of a flow.
///
/// # Panics
/// Never: a CNP fits its length fields.
pub fn plain_cnp(flow: usize) -> Vec<u8> {
    let bth = Bth { opcode: opcode::CNP, becn: true, dest_qp: sender_qpn(flow), ..Bth::default() };
    Frame { bth, ..between(flow, false, Ecn::Ect0) }.to_vec::<HostCrc>().expect("a CNP fits its length fields")
}
