//! Random events at the queues of a switch: phases in which queues fill and drain, pauses, messages from the remote end of a
//! long link, and, rarely, damaged packets and packets of queues that do not exist.

use cc_core::wire::shim::{IntShim, MlccAck, MlccData};
use cc_core::wire::{Addresses, Bth, Extensions, Frame, Mac, RateFrame, RateMessage, Shims, Tags, opcode};
use cc_core::{CnpBody, CnpBodyKind, Ecn, IntLayout, IntStack, Psn, Qpn, Rate, Stamp};
use hil_capture::crc::HostCrc;
use hil_cores::random::SplitMix;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Ports of the switch.
const PORTS: usize = 4;
/// Traffic classes of each port.
const CLASSES: usize = 8;
/// Flows of each address family: more than a queue has state for.
const FLOWS: u32 = 50;
/// The queues that carry most of the traffic.
const BUSY: [Place; 4] = [
    Place { port: 0, class: 3 },
    Place { port: 0, class: 4 },
    Place { port: 1, class: 3 },
    Place { port: 3, class: 0 },
];
/// Events of a phase.
const PHASE: u32 = 2_048;

/// A queue of the switch: port 0 to 3 and class 0 to 7. One event in 500 is about port 4, which does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The port.
    pub port: u8,
    /// The traffic class, which is the PFC priority.
    pub class: u8,
}

impl Place {
    const fn index(self) -> usize {
        self.port as usize * CLASSES + self.class as usize
    }
}

/// An event at a queue, in plain integers instead of the library's types, so that a change of those does not change the
/// traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happening {
    /// A packet arrives by the port.
    Arrival {
        /// Bytes on the wire.
        bytes: u32,
        /// Bytes in the queue, without it.
        queued: u32,
    },
    /// A packet leaves the queue.
    Departure {
        /// Bytes on the wire.
        bytes: u32,
        /// Bytes in the queue, with it.
        queued: u32,
        /// Bytes in all queues of the port, without it.
        port_queued: u32,
        /// The two ECN bits of its IP header.
        ecn: u8,
    },
    /// The next node pauses the queue for a time in nanoseconds; zero ends the pause.
    Pause {
        /// The time.
        nanos: u32,
        /// Bytes in the queue.
        queued: u32,
    },
    /// A message from the relay at the remote end of a long link, which says whether that relay is paused.
    Relay {
        /// Whether it is paused.
        paused: bool,
        /// The sequence number of the message.
        seq: u16,
    },
}

/// One event.
#[derive(Clone, Debug)]
pub struct Occasion {
    /// Nanoseconds since the start.
    pub now: u64,
    /// The queue.
    pub at: Place,
    /// The event.
    pub what: Happening,
    /// The frame that arrives or leaves; empty if the event is not about a frame.
    pub frame: Vec<u8>,
}

/// The kinds of events that [`Traffic`] generates.
#[derive(Clone, Copy)]
enum Kind {
    Arrival,
    Departure,
    Pause,
    Relay,
}

/// A generator of events of a switch. Equal seeds give equal events.
#[derive(Debug)]
pub struct Traffic {
    chance: SplitMix,
    pauses: bool,
    relays: bool,
    now: u64,
    count: u32,
    /// Per cent of packet events that are arrivals; the others are departures.
    filling: u32,
    /// Per cent of packets that are marked.
    marked: u32,
    /// Highest rate that the remote end sends, in Mb/s.
    rates: u32,
    queued: [u32; PORTS * CLASSES],
    seq: u16,
    buffer: Vec<u8>,
}

impl Traffic {
    /// Traffic for a stage. `pauses` and `relays` make [`Happening::Pause`] and [`Happening::Relay`] frequent; otherwise
    /// they are one event in 400 each.
    pub fn new(seed: u64, pauses: bool, relays: bool) -> Self {
        let chance = SplitMix::new(seed);
        let (filling, marked, rates) = (50, 10, 100_000);
        let (queued, buffer) = ([0; PORTS * CLASSES], vec![0; 8_192]);
        Self { chance, pauses, relays, now: 1_000, count: 0, filling, marked, rates, queued, seq: 0, buffer }
    }

    /// Draws the next event. A packet that arrives is added to its queue only when the caller calls [`Traffic::admit`].
    pub fn draw(&mut self) -> Occasion {
        if self.count.is_multiple_of(PHASE) {
            self.filling = self.chance.pick(&[10, 50, 95, 95]);
            self.marked = self.chance.pick(&[0, 10, 60]);
            self.rates = self.chance.pick(&[1_000, 20_000, 100_000]);
        }
        self.count += 1;
        self.pass_time();
        let strange = self.once_in(200);
        let kind = if strange {
            self.chance.pick(&[Kind::Arrival, Kind::Departure, Kind::Pause, Kind::Relay])
        } else {
            self.kind()
        };
        let at = match self.chance.below(100) {
            0 => Place { port: self.chance.below(PORTS as u32 + 1) as u8, class: self.chance.below(8) as u8 },
            1..90 => BUSY[0],
            _ => self.chance.pick(&BUSY),
        };
        let (what, frame) = match kind {
            Kind::Pause => (Happening::Pause { nanos: self.pause(), queued: self.queued(at) }, Vec::new()),
            Kind::Relay => (self.relay(), Vec::new()),
            Kind::Departure => self.departure(at),
            Kind::Arrival => self.arrival(at),
        };
        Occasion { now: self.now, at, what, frame }
    }

    /// Adds a packet to its queue: called if the switch has room for it.
    pub fn admit(&mut self, at: Place, bytes: u32) {
        if let Some(queued) = self.queued.get_mut(at.index()) {
            *queued = queued.saturating_add(bytes);
        }
    }

    /// Draws the kind of the next event: a packet, or a pause or relay message if those are frequent.
    fn kind(&mut self) -> Kind {
        let packet = if self.chance.below(100) < self.filling { Kind::Arrival } else { Kind::Departure };
        match self.chance.below(100) {
            0..4 if self.pauses => Kind::Pause,
            4..10 if self.relays => Kind::Relay,
            _ => packet,
        }
    }

    fn queued(&self, at: Place) -> u32 {
        self.queued.get(at.index()).copied().unwrap_or(0)
    }

    fn once_in(&mut self, times: u32) -> bool {
        self.chance.below(times) == 0
    }

    /// Advances the clock: packets come at about line rate, with pauses between.
    fn pass_time(&mut self) {
        self.now += u64::from(match self.chance.below(5_000) {
            0 => 600_000_000,
            1..3 => self.chance.below(10_000_000),
            3..30 => self.chance.below(200_000),
            _ => self.chance.below(200),
        });
    }

    fn pause(&mut self) -> u32 {
        if self.once_in(3) { 0 } else { self.chance.below(300_000) }
    }

    fn relay(&mut self) -> Happening {
        let step = self.chance.pick(&[1, 1, 1, 1, 1, 1, 0, 2, u16::MAX]);
        self.seq = self.seq.wrapping_add(step);
        Happening::Relay { paused: self.once_in(2), seq: self.seq }
    }

    fn departure(&mut self, at: Place) -> (Happening, Vec<u8>) {
        let queued = self.queued(at);
        let ecn = self.ecn();
        let frame = self.data(ecn);
        let bytes = frame.len() as u32;
        if bytes > queued {
            return self.arrival(at);
        }
        let first = usize::from(at.port) * CLASSES;
        let port_queued = self.queued.iter().skip(first).take(CLASSES).sum();
        if let Some(left) = self.queued.get_mut(at.index()) {
            *left -= bytes;
        }
        (Happening::Departure { bytes, queued, port_queued, ecn: ecn.to_bits() }, frame)
    }

    fn arrival(&mut self, at: Place) -> (Happening, Vec<u8>) {
        let mut frame = match self.chance.below(100) {
            0..85 => {
                let ecn = self.ecn();
                self.data(ecn)
            }
            85..90 => self.cnp(),
            90..95 => self.acknowledgement(),
            _ => self.rate(at),
        };
        if self.once_in(50) {
            let byte = self.chance.below(frame.len() as u32) as usize;
            frame[byte] ^= 1 << self.chance.below(8);
        }
        let bytes = frame.len() as u32;
        if self.once_in(100) {
            frame.truncate(self.chance.below(60) as usize);
        }
        (Happening::Arrival { bytes, queued: self.queued(at) }, frame)
    }

    fn ecn(&mut self) -> Ecn {
        if self.chance.below(100) < self.marked {
            return Ecn::Ce;
        }
        self.chance.pick(&[Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct])
    }

    /// Draws a flow; few flows send most of the packets.
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

    /// An acknowledgement to the sender, with the grant of MLCC's receiver.
    fn acknowledgement(&mut self) -> Vec<u8> {
        let (six, flow) = self.flow();
        self.seq = self.seq.wrapping_add(self.chance.pick(&[1, 1, 1, 0, u16::MAX]));
        let mlcc_ack = MlccAck {
            credit: self.seq.max(1),
            data_qpn: data_qpn(flow),
            release: Rate::from_mbps(self.chance.below(self.rates)),
            advised_rate: Rate::from_mbps(self.chance.below(self.rates)),
        };
        let shims = Shims { mlcc_ack: Some(mlcc_ack), ..Shims::NONE };
        let bth = Bth { opcode: opcode::ACKNOWLEDGE, dest_qp: Qpn::new(flow), ..Bth::default() };
        self.emit(&Frame { bth, shims, ..between(six, flow, false) })
    }

    /// A CNP to the sender: one that names its flow, one that does not, or one of an unknown flow.
    fn cnp(&mut self) -> Vec<u8> {
        let (six, flow) = self.flow();
        let named = if self.once_in(10) { Qpn::new(self.chance.draw() as u32) } else { data_qpn(flow) };
        let body = CnpBody { ce: true, remote_qpn: named, ..CnpBody::default() };
        let cnp = if self.once_in(2) { CnpBodyKind::Extended(body) } else { CnpBodyKind::Standard };
        let bth = Bth { opcode: opcode::CNP, becn: true, dest_qp: Qpn::new(flow), ..Bth::default() };
        self.emit(&Frame { bth, extensions: Extensions { cnp, ..Extensions::default() }, ..between(six, flow, false) })
    }

    /// A frame with the rate that the remote end of the long link grants.
    fn rate(&mut self, at: Place) -> Vec<u8> {
        self.seq = self.seq.wrapping_add(self.chance.pick(&[1, 1, 1, 1, 1, 1, 0, 2, u16::MAX]));
        let message = RateMessage {
            seq: self.seq,
            units: self.chance.below(self.rates),
            stamp: Stamp::from_bits(self.now as u32),
            port: at.port.into(),
            priority: at.class,
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

/// Headers of a packet from the sender of a flow to its receiver, or back.
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
