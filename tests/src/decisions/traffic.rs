//! Random traffic of a NIC, as plain integers and bytes of frames.
//!
//! The frames are those of [`RandomTraffic`]: six senders, one receiver, periods of congestion, pauses, damaged frames, a clock
//! that stops, jumps forward and runs back. One NIC plays all hosts: it sends the packets of the six flows, and also receives
//! them. This module adds events that the random capture does not contain: flows that are opened, bound and closed until tables
//! are full, handles of closed flows, unknown queue pairs, IPv6 and VLAN tags, CNPs of a switch, which name a flow by its
//! remote queue pair, and a full transmit ring.

use super::journal::{Journal, Kind};
use cc_rp::Signals;
use hil_capture::Reader;
use hil_cores::random::SplitMix;
use hil_measure::random_traffic::RandomTraffic;
use std::collections::VecDeque;

/// Flows of the random traffic.
const FLOWS: usize = 6;
/// The most packets of a flow that are remembered until their acknowledgement.
const IN_FLIGHT: usize = 64;
/// Where the BTH begins in an untagged IPv4 frame without shims, and its length.
const BTH: usize = 42;
const BTH_LEN: usize = 12;
/// The UDP port of packets with shims.
const SHIM_PORT: [u8; 2] = 4792_u16.to_be_bytes();
const ACKNOWLEDGE: u8 = 0x11;
const CNP: u8 = 0x81;

/// One event at a NIC. Flows are numbered in the order of the calls to open them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// The driver opens a flow with this PFC priority.
    Open(u8),
    /// The driver gives a flow its local queue pair number.
    Bind(usize, u32),
    /// The driver closes a flow.
    Close(usize),
    /// The driver passes a packet of a flow to the NIC, which learns the flow's remote end from it.
    Destination(usize, Vec<u8>),
    /// The driver connects the queue pair to which this packet is addressed with a remote queue pair.
    Connect(u32, Vec<u8>),
    /// The driver destroys a local queue pair.
    Disconnect(u32),
    /// The NIC sent a packet: flow, PSN, bytes on the wire.
    Sent(usize, u32, u32),
    /// A frame arrived.
    Arrival(Arrival),
    /// The transmit ring becomes full, or has room again.
    RingFull(bool),
}

/// A frame that arrived, and the metadata of the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its bytes, as far as they were captured.
    pub frame: Vec<u8>,
    /// Its length on the wire, in bytes.
    pub wire_bytes: u32,
    /// The device has checked the ICRC: it is correct.
    pub icrc_checked: bool,
    /// The queue pair number at the other end.
    pub remote: Option<u32>,
    /// Bytes that it acknowledges for the first time.
    pub acked: u32,
    /// Nanoseconds since the NIC sent the newest packet that it acknowledges.
    pub rtt: Option<u32>,
    /// Message sequence number of its acknowledgement.
    pub msn: Option<u32>,
    /// Level of the receive buffers, 0 to 31.
    pub rx_buffer_level: u8,
    /// The number of CNPs that the device merged into this one.
    pub coalesced: u32,
}

impl Step {
    /// Adds the step to a journal of the traffic.
    pub fn record(&self, now: u64, journal: &mut Journal) {
        let word = |option: Option<u32>| option.map_or(u64::MAX, u64::from);
        let (words, bytes): (Vec<u64>, &[u8]) = match self {
            Self::Open(priority) => (vec![1, u64::from(*priority)], &[]),
            Self::Bind(flow, qpn) => (vec![2, *flow as u64, u64::from(*qpn)], &[]),
            Self::Close(flow) => (vec![3, *flow as u64], &[]),
            Self::Destination(flow, frame) => (vec![4, *flow as u64], frame),
            Self::Connect(remote, frame) => (vec![5, u64::from(*remote)], frame),
            Self::Disconnect(qpn) => (vec![6, u64::from(*qpn)], &[]),
            Self::Sent(flow, psn, bytes) => (vec![7, *flow as u64, u64::from(*psn), u64::from(*bytes)], &[]),
            Self::Arrival(arrival) => {
                let Arrival { frame, wire_bytes, icrc_checked, remote, acked, rtt, msn, rx_buffer_level, coalesced } =
                    arrival;
                let numbers = [u64::from(*wire_bytes), u64::from(*icrc_checked), word(*remote), u64::from(*acked)];
                let more = [word(*rtt), word(*msn), u64::from(*rx_buffer_level), u64::from(*coalesced)];
                (std::iter::once(8).chain(numbers).chain(more).collect(), frame)
            }
            Self::RingFull(full) => (vec![9, u64::from(*full)], &[]),
        };
        journal.add(Kind::Event, now, &words, bytes);
    }
}

/// Traffic of `frames` frames with these signals. Each step comes with its time in nanoseconds.
///
/// # Panics
/// Never: random traffic is a capture that can be read.
pub fn traffic(seed: u64, frames: u32, signals: Signals) -> Vec<(u64, Step)> {
    let random = RandomTraffic { seed, frames, signals }.capture();
    let mut capture = Reader::new(&random[..], "random").expect("random traffic can be read");
    let mut making = Making::new(seed);
    while let Some(record) = capture.next().expect("random traffic can be read") {
        let start = *making.start.get_or_insert(record.timestamp_ns);
        making.now = record.timestamp_ns.saturating_sub(start);
        making.manage();
        making.frame(record.bytes, record.original_len);
    }
    making.steps
}

/// A flow of the random traffic.
struct Flow {
    /// Its number.
    number: usize,
    /// Its local queue pair.
    qpn: u32,
    /// The queue pair that it sends to.
    remote: u32,
    /// The NIC has learnt its remote end.
    is_remote_learnt: bool,
    /// PSN, time of departure and bytes of packets that are not acknowledged yet.
    sent: VecDeque<(u32, u64, u32)>,
}

/// The traffic that is being made.
struct Making {
    chance: SplitMix,
    steps: Vec<(u64, Step)>,
    start: Option<u64>,
    now: u64,
    flows: Vec<Flow>,
    /// Numbers and queue pairs of the flows besides those six, including closed ones.
    others: Vec<(usize, u32)>,
    /// The number of flows so far.
    opened: usize,
    /// Of 16 changes of the other flows, the number that open one; the rest close one.
    opening: u32,
    frames: u32,
}

impl Making {
    fn new(seed: u64) -> Self {
        let chance = SplitMix::new(!seed);
        let (steps, others) = (Vec::new(), Vec::new());
        let mut making =
            Self { chance, steps, start: None, now: 0, flows: vec![], others, opened: 0, opening: 8, frames: 0 };
        for nth in 0..FLOWS {
            let qpn = 0x40 + nth as u32;
            let number = making.open(nth as u8, qpn);
            making.flows.push(Flow { number, qpn, remote: 0, is_remote_learnt: false, sent: VecDeque::new() });
        }
        making
    }

    fn push(&mut self, step: Step) {
        self.steps.push((self.now, step));
    }

    fn once_in(&mut self, times: u32) -> bool {
        self.chance.below(times) == 0
    }

    fn open(&mut self, priority: u8, qpn: u32) -> usize {
        self.push(Step::Open(priority & 7));
        self.opened += 1;
        self.push(Step::Bind(self.opened - 1, qpn));
        self.opened - 1
    }

    /// Adds the driver's steps between two frames.
    fn manage(&mut self) {
        self.frames += 1;
        if self.frames.is_multiple_of(256) {
            self.opening = self.chance.pick(&[3, 8, 14]);
        }
        match self.frames % 512 {
            0 => self.push(Step::RingFull(true)),
            16 => self.push(Step::RingFull(false)),
            _ => {}
        }
        if self.once_in(12) {
            if self.chance.below(16) < self.opening {
                let taken = self.once_in(8);
                let qpn = if taken { 0x40 + self.chance.below(8) } else { 0x1000 + self.opened as u32 };
                let priority = self.chance.below(8) as u8;
                let number = self.open(priority, qpn);
                self.others.push((number, qpn));
            } else if let Some((number, _)) = self.other() {
                self.push(Step::Close(number));
            }
        }
        if self.once_in(250) {
            let nth = self.chance.below(FLOWS as u32) as usize;
            self.push(Step::Close(self.flows[nth].number));
            if self.once_in(4) {
                self.push(Step::Sent(self.flows[nth].number, 1, 1_000));
            }
            let number = self.open(nth as u8, self.flows[nth].qpn);
            let flow = &mut self.flows[nth];
            (flow.number, flow.is_remote_learnt) = (number, false);
            flow.sent.clear();
        }
        if self.once_in(300) {
            let qpn = self.receiving();
            self.push(Step::Disconnect(qpn));
        }
    }

    /// One of the newest 32 of the other flows.
    fn other(&mut self) -> Option<(usize, u32)> {
        let newest = self.others.len().min(32) as u32;
        (newest > 0).then(|| self.others[self.others.len() - 1 - self.chance.below(newest) as usize])
    }

    /// The number of a local queue pair that receives.
    fn receiving(&mut self) -> u32 {
        if self.once_in(2) { 0x80 + self.chance.below(FLOWS as u32) } else { 0x400 + self.chance.below(48) }
    }

    fn frame(&mut self, frame: &[u8], wire_bytes: u32) {
        // Source addresses are 02:00:00:00:00:HOST for the sender of flow HOST - 1, and 02:00:00:00:01:FLOW for frames back to
        // it.
        let (forward, nth) = match frame.get(6..12) {
            Some(&[2, 0, 0, 0, 0, host]) if (1..=FLOWS).contains(&usize::from(host)) => (true, usize::from(host) - 1),
            Some(&[2, 0, 0, 0, 1, flow]) if usize::from(flow) < FLOWS => (false, usize::from(flow)),
            _ => (false, 0),
        };
        let mut arrival = Arrival {
            frame: frame.to_vec(),
            wire_bytes,
            icrc_checked: self.once_in(2),
            remote: None,
            acked: 0,
            rtt: None,
            msn: None,
            rx_buffer_level: self.chance.below(32) as u8,
            coalesced: if self.once_in(8) { 1 + self.chance.below(4) } else { 1 },
        };
        let bth = bth(frame);
        if forward {
            let known = !self.once_in(10);
            arrival.remote = known.then_some(self.flows[nth].qpn);
            arrival.msn = (!self.once_in(4)).then_some(self.frames);
            if let Some(at) = bth {
                self.send(nth, at, frame, wire_bytes);
            }
        } else if let Some(at) = bth.filter(|&at| frame[at] == ACKNOWLEDGE) {
            (arrival.acked, arrival.rtt) = self.acknowledge(nth, word(frame, at + 9));
        }
        if let Some(at) = bth {
            self.vary(nth, forward, at, &arrival);
        }
        self.push(Step::Arrival(arrival));
    }

    /// The NIC sent this packet of a flow, whose BTH is at `at`.
    fn send(&mut self, nth: usize, at: usize, frame: &[u8], wire_bytes: u32) {
        let (psn, now, connects) = (word(frame, at + 9), self.now, self.once_in(40));
        let flow = &mut self.flows[nth];
        let (number, qpn, was_learnt) = (flow.number, flow.qpn, flow.is_remote_learnt);
        flow.sent.push_back((psn, now, wire_bytes));
        if flow.sent.len() > IN_FLIGHT {
            flow.sent.pop_front();
        }
        (flow.remote, flow.is_remote_learnt) = (word(frame, at + 5), true);
        if !was_learnt {
            self.push(Step::Destination(number, frame.to_vec()));
        }
        if connects {
            self.push(Step::Connect(qpn, frame.to_vec()));
        }
        self.push(Step::Sent(number, psn, wire_bytes));
    }

    /// The bytes that an acknowledgement of this PSN newly acknowledges, and the nanoseconds since that packet was sent.
    fn acknowledge(&mut self, nth: usize, psn: u32) -> (u32, Option<u32>) {
        let sent = &mut self.flows[nth].sent;
        let Some(newest) = sent.iter().position(|packet| packet.0 == psn) else { return (0, None) };
        let rtt = self.now.checked_sub(sent[newest].1).and_then(|rtt| u32::try_from(rtt).ok());
        let acked = sent.drain(..=newest).map(|packet| packet.2).sum();
        (acked, rtt.filter(|_| !self.once_in(8)))
    }

    /// Sometimes adds a variant of a frame before it: for another queue pair or as a CNP of a switch, and over IPv6 or with a
    /// VLAN tag.
    fn vary(&mut self, nth: usize, forward: bool, at: usize, arrival: &Arrival) {
        if !self.once_in(4) {
            return;
        }
        let mut arrival = Arrival { icrc_checked: true, ..arrival.clone() };
        let names_remote = !forward && arrival.frame[at] == CNP && self.once_in(2);
        if names_remote {
            // The kind is Direct, Standard or Period; 0x15 is version 1, a name by the remote queue pair, and CE.
            let (kind, remote) = (self.chance.pick(&[2, 0, 1]), self.flows[nth].remote.to_be_bytes());
            let mut body = [0; 16];
            body[..2].copy_from_slice(&[kind, 0x15]);
            body[8..11].copy_from_slice(&remote[1..]);
            body[11] = body[..11].iter().fold(0xa5, |sum, byte| sum ^ byte);
            if let Some(place) = arrival.frame.get_mut(at + BTH_LEN..at + BTH_LEN + 16) {
                place.copy_from_slice(&body);
            }
        } else {
            let qpn = if forward { self.receiving() } else { self.other().map_or(0x7f, |(_, qpn)| qpn) };
            arrival.frame[at + 5..at + 8].copy_from_slice(&qpn.to_be_bytes()[1..]);
        }
        if self.once_in(3) {
            arrival.frame = over_ipv6(&arrival.frame);
            arrival.wire_bytes += 20;
        }
        if self.once_in(3) {
            arrival.frame.splice(12..12, [0x81, 0x00, 0x60, 0x05]);
            arrival.wire_bytes += 4;
        }
        self.push(Step::Arrival(arrival));
    }
}

/// The number in three bytes, big-endian; zero if the frame was captured to less than that.
fn word(frame: &[u8], at: usize) -> u32 {
    match frame.get(at..at + 3) {
        Some(&[high, middle, low]) => u32::from_be_bytes([0, high, middle, low]),
        _ => 0,
    }
}

/// The offset of the BTH in an untagged IPv4 frame, after its shims. Each shim has its type in the upper half of its first byte
/// and its length in words in the second; type 0 ends the chain.
fn bth(frame: &[u8]) -> Option<usize> {
    if frame.get(12..15)? != [0x08, 0x00, 0x45] || frame.get(23)? != &17 {
        return None;
    }
    let mut at = BTH;
    if frame.get(36..38)? == SHIM_PORT {
        while frame.get(at)? >> 4 != 0 {
            at += 4 * usize::from(*frame.get(at + 1)?).max(1);
        }
        at += 4;
    }
    (frame.len() >= at + BTH_LEN).then_some(at)
}

/// The frame with an IPv6 header in place of its IPv4 header.
fn over_ipv6(frame: &[u8]) -> Vec<u8> {
    let (link, rest) = frame.split_at(12);
    let (ipv4, udp) = rest[2..].split_at(20);
    let length = u16::from_be_bytes([ipv4[2], ipv4[3]]).wrapping_sub(20).to_be_bytes();
    let class = [0x60 | ipv4[1] >> 4, ipv4[1] << 4, 0, 0];
    let address = |four: &[u8]| [&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], four].concat();
    let head = [&[0x86, 0xdd], &class[..], &length, &[ipv4[9], ipv4[8]]].concat();
    [link, &head, &address(&ipv4[12..16]), &address(&ipv4[16..20]), udp].concat()
}
