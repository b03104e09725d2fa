//! Whatever may happen at a switch's queues, made by chance: spells in which queues fill and drain, pauses, messages from
//! the other end of a long link, and between them packets that are damaged or of queues that are not there.

use cc_core::wire::shim::{IntShim, MlccAck, MlccData};
use cc_core::wire::{Addresses, Bth, Extensions, Frame, Mac, RateFrame, RateMessage, Shims, Tags, opcode};
use cc_core::{Bytes, CnpBody, CnpHint, Ecn, IntLayout, IntStack, Nanos, Psn, Qpn, Rate, Stamp};
use cc_cp::Packet;
use cc_cp::swing::Relayed;
use hil_capture::crc::HostCrc;
use hil_cores::random::SplitMix;
use programs::switch::{Event, Kind, PORTS, PRIORITIES, Queue};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Flows of each address family: more than a queue can hold apart.
const FLOWS: u32 = 50;
/// The queues that carry most of the traffic.
const BUSY: [Queue; 4] = [
    Queue { port: 0, priority: 3 },
    Queue { port: 0, priority: 4 },
    Queue { port: 1, priority: 3 },
    Queue { port: 3, priority: 0 },
];
/// Events of a spell.
const SPELL: u32 = 2_048;

/// Events of a switch, which repeat with their seed.
#[derive(Debug)]
pub(super) struct Traffic {
    chance: SplitMix,
    takes: &'static [Kind],
    now: u64,
    count: u32,
    /// Of 100 packets, how many come in rather than leave, and how many are marked.
    filling: u32,
    marked: u32,
    /// Rates that the other end sends are this high at most, in Mb/s.
    rates: u32,
    queued: [u32; PORTS * PRIORITIES],
    seq: u16,
    buffer: Vec<u8>,
}

impl Traffic {
    /// Traffic for a stage that takes these kinds of events.
    pub(super) fn new(seed: u64, takes: &'static [Kind]) -> Self {
        let chance = SplitMix::new(seed);
        let (filling, marked, rates) = (50, 10, 100_000);
        let (queued, buffer) = ([0; PORTS * PRIORITIES], vec![0; 8_192]);
        Self { chance, takes, now: 1_000, count: 0, filling, marked, rates, queued, seq: 0, buffer }
    }

    /// The next event: when, where, what, and the frame that it is about. A packet that comes in is queued once
    /// [`Traffic::take`] says so.
    pub(super) fn next(&mut self) -> (u64, Queue, Event, Vec<u8>) {
        if self.count.is_multiple_of(SPELL) {
            self.filling = self.chance.pick(&[10, 50, 95, 95]);
            self.marked = self.chance.pick(&[0, 10, 60]);
            self.rates = self.chance.pick(&[1_000, 20_000, 100_000]);
        }
        self.count += 1;
        self.pass_time();
        let strange = self.once_in(200);
        let kind = if strange {
            self.chance.pick(&[Kind::Arrived, Kind::Left, Kind::Paused, Kind::Told])
        } else {
            self.kind()
        };
        let queue = match self.chance.below(100) {
            0 => Queue { port: self.chance.below(PORTS as u32 + 1) as u8, priority: self.chance.below(8) as u8 },
            1..90 => BUSY[0],
            _ => self.chance.pick(&BUSY),
        };
        let (event, frame) = match kind {
            Kind::Paused => (Event::Paused { time: self.pause(), queued: self.queued(queue) }, Vec::new()),
            Kind::Told => (self.told(), Vec::new()),
            Kind::Left => self.left(queue),
            _ => self.arrived(queue),
        };
        (self.now, queue, event, frame)
    }

    /// A packet that came in was taken.
    pub(super) fn take(&mut self, queue: Queue, bytes: Bytes) {
        if let Some(queued) = self.queued.get_mut(queue.index() as usize) {
            *queued = queued.saturating_add(bytes.get());
        }
    }

    /// A kind that the stage takes, or a packet.
    fn kind(&mut self) -> Kind {
        let packet = if self.chance.below(100) < self.filling { Kind::Arrived } else { Kind::Left };
        let (pauses, tells) = (self.takes.contains(&Kind::Paused), self.takes.contains(&Kind::Told));
        match self.chance.below(100) {
            0..4 if pauses => Kind::Paused,
            4..10 if tells => Kind::Told,
            _ => packet,
        }
    }

    fn queued(&self, queue: Queue) -> Bytes {
        Bytes::new(self.queued.get(queue.index() as usize).copied().unwrap_or(0))
    }

    fn once_in(&mut self, times: u32) -> bool {
        self.chance.below(times) == 0
    }

    /// About as fast as the link, with rests.
    fn pass_time(&mut self) {
        self.now += u64::from(match self.chance.below(5_000) {
            0 => 600_000_000,
            1..3 => self.chance.below(10_000_000),
            3..30 => self.chance.below(200_000),
            _ => self.chance.below(200),
        });
    }

    fn pause(&mut self) -> Nanos {
        if self.once_in(3) { Nanos::ZERO } else { Nanos::new(self.chance.below(300_000)) }
    }

    fn told(&mut self) -> Event {
        let step = self.chance.pick(&[1, 1, 1, 1, 1, 1, 0, 2, u16::MAX]);
        self.seq = self.seq.wrapping_add(step);
        Event::Told(Relayed { paused: self.once_in(2), seq: self.seq })
    }

    fn left(&mut self, queue: Queue) -> (Event, Vec<u8>) {
        let queued = self.queued(queue);
        let ecn = self.ecn();
        let frame = self.data(ecn);
        let bytes = Bytes::new(frame.len() as u32);
        if bytes > queued {
            return self.arrived(queue);
        }
        let first = usize::from(queue.port) * PRIORITIES;
        let port_queued = self.queued.iter().skip(first).take(PRIORITIES).sum();
        if let Some(left) = self.queued.get_mut(queue.index() as usize) {
            *left -= bytes.get();
        }
        (Event::Left(Packet { bytes, queued, port_queued: Bytes::new(port_queued), ecn }), frame)
    }

    fn arrived(&mut self, queue: Queue) -> (Event, Vec<u8>) {
        let mut frame = match self.chance.below(100) {
            0..85 => {
                let ecn = self.ecn();
                self.data(ecn)
            }
            85..90 => self.cnp(),
            90..95 => self.acknowledgement(),
            _ => self.rate(queue),
        };
        if self.once_in(50) {
            let at = self.chance.below(frame.len() as u32) as usize;
            frame[at] ^= 1 << self.chance.below(8);
        }
        let bytes = Bytes::new(frame.len() as u32);
        if self.once_in(100) {
            frame.truncate(self.chance.below(60) as usize);
        }
        (Event::Arrived { bytes, queued: self.queued(queue) }, frame)
    }

    fn ecn(&mut self) -> Ecn {
        if self.chance.below(100) < self.marked {
            return Ecn::Ce;
        }
        self.chance.pick(&[Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct])
    }

    /// Few flows send most.
    fn flow(&mut self) -> (bool, u32) {
        let flows = self.chance.pick(&[4, FLOWS]);
        (self.once_in(2), self.chance.below(flows))
    }

    /// A packet of a flow, or sometimes an acknowledgement.
    fn data(&mut self, ecn: Ecn) -> Vec<u8> {
        let (six, flow) = self.flow();
        let payload = self.chance.pick(&[0, 64, 1_024, 4_096, 4_096, 4_096]);
        let opcode = if self.once_in(20) { opcode::ACKNOWLEDGE } else { opcode::SEND_MIDDLE };
        let bth = Bth { opcode, dest_qp: data_qpn(flow), psn: Psn::new(self.count), ..Bth::default() };
        let payload = vec![0; if opcode == opcode::ACKNOWLEDGE { 0 } else { payload }];
        let layout = self.chance.pick(&[IntLayout::Wide, IntLayout::Wide, IntLayout::Compact]);
        let mut area = vec![0; 6 * layout.record_len()];
        for byte in &mut area {
            *byte = self.chance.draw() as u8;
        }
        let hops = self.chance.pick(&[0, 1, 3, 5, 6, IntStack::OVERFLOW]);
        let int = IntShim::new(layout, flow as u16, hops, &area).filter(|_| !self.once_in(4));
        let mlcc_data = (!self.once_in(4)).then(MlccData::default);
        let shims = Shims { int, mlcc_data, ..Shims::NONE };
        self.emit(&Frame { bth, ecn, shims, payload: &payload, ..between(six, flow, true) })
    }

    /// An acknowledgement that comes back, with what MLCC's receiver grants.
    fn acknowledgement(&mut self) -> Vec<u8> {
        let (six, flow) = self.flow();
        self.seq = self.seq.wrapping_add(self.chance.pick(&[1, 1, 1, 0, u16::MAX]));
        let mlcc_ack = MlccAck {
            credit: self.seq.max(1),
            data_qpn: data_qpn(flow),
            release: Rate::from_mbps(self.chance.below(self.rates)),
            advised: Rate::from_mbps(self.chance.below(self.rates)),
        };
        let shims = Shims { mlcc_ack: Some(mlcc_ack), ..Shims::NONE };
        let bth = Bth { opcode: opcode::ACKNOWLEDGE, dest_qp: Qpn::new(flow), ..Bth::default() };
        self.emit(&Frame { bth, shims, ..between(six, flow, false) })
    }

    /// A CNP that comes back: one that names its flow, one that does not, or one of a flow that nobody knows.
    fn cnp(&mut self) -> Vec<u8> {
        let (six, flow) = self.flow();
        let named = if self.once_in(10) { Qpn::new(self.chance.draw() as u32) } else { data_qpn(flow) };
        let body = CnpBody { ce: true, remote_qpn: named, ..CnpBody::default() };
        let cnp = if self.once_in(2) { CnpHint::Body(body) } else { CnpHint::Plain };
        let bth = Bth { opcode: opcode::CNP, becn: true, dest_qp: Qpn::new(flow), ..Bth::default() };
        self.emit(&Frame { bth, extensions: Extensions { cnp, ..Extensions::default() }, ..between(six, flow, false) })
    }

    /// The rate that the other end of the long link grants.
    fn rate(&mut self, queue: Queue) -> Vec<u8> {
        self.seq = self.seq.wrapping_add(self.chance.pick(&[1, 1, 1, 1, 1, 1, 0, 2, u16::MAX]));
        let message = RateMessage {
            seq: self.seq,
            units: self.chance.below(self.rates),
            stamp: Stamp::from_bits(self.now as u32),
            port: queue.port.into(),
            priority: queue.priority,
            ..RateMessage::default()
        };
        let frame = between(self.once_in(2), 0, false);
        let Frame { destination, source, tags, addresses, dscp, .. } = frame;
        let length = RateFrame { destination, source, tags, addresses, dscp, message }.emit(&mut self.buffer);
        self.buffer[..length.expect("the buffer is long enough")].to_vec()
    }

    fn emit(&mut self, frame: &Frame<'_>) -> Vec<u8> {
        let length = frame.emit::<HostCrc>(&mut self.buffer).expect("the buffer is long enough");
        self.buffer[..length].to_vec()
    }
}

/// The queue pair at the receiver of a flow's data.
const fn data_qpn(flow: u32) -> Qpn {
    Qpn::new(0x100 + flow)
}

/// The head of a packet from the sender of a flow to its receiver, or back.
fn between(six: bool, flow: u32, forward: bool) -> Frame<'static> {
    let hosts = if forward { [1, 2] } else { [2, 1] };
    let [source, destination] = hosts.map(|site| [site, flow as u8]);
    let mac = |[site, host]: [u8; 2]| Mac::new([2, 0, 0, 0, site, host]);
    let addresses = if six {
        let address = |[site, host]: [u8; 2]| Ipv6Addr::new(0xfd00, site.into(), 0, 0, 0, 0, 0, host.into());
        Addresses::V6 { source: address(source), destination: address(destination) }
    } else {
        let address = |[site, host]: [u8; 2]| Ipv4Addr::new(10, site, 0, host);
        Addresses::V4 { source: address(source), destination: address(destination) }
    };
    Frame {
        destination: mac(destination),
        source: mac(source),
        tags: Tags::NONE,
        addresses,
        dscp: 26,
        ecn: Ecn::Ect0,
        hop_limit: 64,
        udp_source: 0xc000 + flow as u16,
        shims: Shims::NONE,
        bth: Bth::default(),
        extensions: Extensions::default(),
        payload: &[],
    }
}
