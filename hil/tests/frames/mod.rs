//! Builds captures for tests, frame by frame, with addresses for documentation, right ICRCs, and any time stamps.

use cc_core::wire::opcode;
use cc_core::wire::pfc::Pfc;
use cc_core::wire::shim::IntShim;
use cc_core::wire::{Addresses, Aeth, Bth, Deth, Extensions, Frame, Mac, Reth, Shims, Syndrome, Tag, Tags, cm};
use cc_core::{CnpBodyKind, Ecn, Hop, IntLayout, IntStackBuilder, Psn, Qpn};
use hil_capture::crc::HostCrc;
use std::net::Ipv4Addr;

pub(crate) const WRITE_ONLY: u8 = 0x0a;
pub(crate) const READ_REQUEST: u8 = 0x0c;
pub(crate) const READ_FIRST: u8 = 0x0d;
pub(crate) const READ_MIDDLE: u8 = 0x0e;
pub(crate) const READ_LAST: u8 = 0x0f;
pub(crate) const UC_SEND_ONLY: u8 = 0x24;
pub(crate) const US: u64 = 1_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// 192.0.2.n (RFC 5737).
pub(crate) const fn host(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, n)
}

/// Two hosts that are connected, and a third one without a connection.
pub(crate) const A: Ipv4Addr = host(1);
pub(crate) const B: Ipv4Addr = host(2);
pub(crate) const UNKNOWN: Ipv4Addr = host(99);

pub(crate) fn mac(address: Ipv4Addr) -> Mac {
    let [_, _, third, fourth] = address.octets();
    Mac::new([2, 0, 0, 0, third, fourth])
}

/// A frame under construction.
#[derive(Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) from: Ipv4Addr,
    pub(crate) to: Ipv4Addr,
    pub(crate) opcode: u8,
    pub(crate) qp: u32,
    pub(crate) psn: u32,
    pub(crate) ecn: Ecn,
    pub(crate) dscp: u8,
    pub(crate) size: usize,
    pub(crate) extensions: Extensions,
    pub(crate) vlan: Option<u16>,
    pub(crate) ttl: u8,
    /// The telemetry that switches wrote into it.
    pub(crate) int: Option<IntStackBuilder>,
}

impl Packet {
    pub(crate) fn new(from: Ipv4Addr, to: Ipv4Addr, opcode: u8, qp: u32, psn: u32) -> Self {
        let extensions = Extensions::default();
        Self {
            from,
            to,
            opcode,
            qp,
            psn,
            ecn: Ecn::Ect0,
            dscp: 26,
            size: 64,
            extensions,
            vlan: None,
            ttl: 64,
            int: None,
        }
    }

    pub(crate) fn ecn(self, ecn: Ecn) -> Self {
        Self { ecn, ..self }
    }

    pub(crate) fn ce(self) -> Self {
        self.ecn(Ecn::Ce)
    }

    pub(crate) fn size(self, size: usize) -> Self {
        Self { size, ..self }
    }

    pub(crate) fn vlan(self, vid: u16) -> Self {
        Self { vlan: Some(vid), ..self }
    }

    pub(crate) fn ttl(self, ttl: u8) -> Self {
        Self { ttl, ..self }
    }

    pub(crate) fn int(self, path: u16, hops: &[Hop]) -> Self {
        Self { int: Some(IntStackBuilder::new(IntLayout::Wide, path).with(hops.iter().copied())), ..self }
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        let tag = self.vlan.map(|vid| Tag { vid, priority: 3, ..Tag::default() }.to_bytes());
        let payload = vec![0; if opcode::info(self.opcode).class().carries_data() { self.size } else { 0 }];
        let bth = Bth {
            opcode: self.opcode,
            becn: self.opcode == opcode::CNP,
            partition: 0xffff,
            dest_qp: Qpn::new(self.qp),
            psn: Psn::new(self.psn),
            ..Bth::default()
        };
        let frame = Frame {
            destination: mac(self.to),
            source: mac(self.from),
            tags: tag.as_ref().map_or(Tags::NONE, |tag| Tags::new(std::slice::from_ref(tag)).unwrap()),
            addresses: Addresses::V4 { source: self.from, destination: self.to },
            dscp: self.dscp,
            ecn: self.ecn,
            hop_limit: self.ttl,
            udp_source: 49_152,
            shims: Shims { int: self.int.as_ref().map(IntShim::of), ..Shims::NONE },
            bth,
            extensions: self.extensions,
            payload: &payload,
        };
        frame.to_vec::<HostCrc>().unwrap()
    }
}

impl From<Packet> for Vec<u8> {
    fn from(packet: Packet) -> Self {
        packet.bytes()
    }
}

pub(crate) fn write(from: Ipv4Addr, to: Ipv4Addr, qp: u32, psn: u32) -> Packet {
    Packet::new(from, to, WRITE_ONLY, qp, psn)
}

pub(crate) fn read(from: Ipv4Addr, to: Ipv4Addr, qp: u32, psn: u32, len: u32) -> Packet {
    let extensions = Extensions { reth: Reth { len, ..Reth::default() }, ..Extensions::default() };
    Packet { extensions, ..Packet::new(from, to, READ_REQUEST, qp, psn) }
}

pub(crate) fn reply(from: Ipv4Addr, to: Ipv4Addr, qp: u32, psn: u32, syndrome: Syndrome) -> Packet {
    let extensions = Extensions { aeth: Aeth { syndrome, msn: 1 }, ..Extensions::default() };
    Packet { extensions, ..Packet::new(from, to, opcode::ACKNOWLEDGE, qp, psn) }
}

pub(crate) fn ack(from: Ipv4Addr, to: Ipv4Addr, qp: u32, psn: u32) -> Packet {
    reply(from, to, qp, psn, Syndrome::Ack { credits: Syndrome::NO_CREDITS })
}

pub(crate) fn cnp(from: Ipv4Addr, to: Ipv4Addr, qp: u32) -> Packet {
    let extensions = Extensions { cnp: CnpBodyKind::Standard, ..Extensions::default() };
    Packet { extensions, dscp: 48, ..Packet::new(from, to, opcode::CNP, qp, 0) }
}

pub(crate) fn datagram(from: Ipv4Addr, to: Ipv4Addr, source_qp: u32, psn: u32) -> Packet {
    let deth = Deth { queue_key: 1, source_qp: Qpn::new(source_qp) };
    let extensions = Extensions { deth, ..Extensions::default() };
    Packet { extensions, ..Packet::new(from, to, opcode::UD_SEND_ONLY, 0x22, psn) }
}

pub(crate) fn management(from: Ipv4Addr, to: Ipv4Addr, message: cm::Message) -> Vec<u8> {
    let (bth, extensions) = cm::headers(Psn::new(1));
    let payload = message.emit();
    let frame = Frame {
        destination: mac(to),
        source: mac(from),
        tags: Tags::NONE,
        addresses: Addresses::V4 { source: from, destination: to },
        dscp: 0,
        ecn: Ecn::NotEct,
        hop_limit: 64,
        udp_source: 49_152,
        shims: Shims::NONE,
        bth,
        extensions,
        payload: &payload,
    };
    frame.to_vec::<HostCrc>().unwrap()
}

/// A PFC frame of 802.1Qbb for one priority, to its group address.
pub(crate) fn pfc(from: Mac, priority: u8, quanta: u16) -> Vec<u8> {
    let mut times = [0; 8];
    times[usize::from(priority)] = quanta;
    let mut bytes = vec![0; 60];
    Pfc::new(1 << priority, times).emit(from, &mut bytes).unwrap();
    bytes
}

/// A PAUSE frame of 802.3x.
pub(crate) fn pause(from: Mac, quanta: u16) -> Vec<u8> {
    let mut bytes = pfc(from, 0, 0);
    bytes[14..].fill(0);
    bytes[15] = 1;
    bytes[16..18].copy_from_slice(&quanta.to_be_bytes());
    bytes
}

/// A packet in UDP and IPv4, as in a tunnel.
pub(crate) fn in_udp(port: u16, ecn: u8, inside: &[u8]) -> Vec<u8> {
    let mut udp = [50_000_u16.to_be_bytes(), port.to_be_bytes()].concat();
    udp.extend((8 + inside.len() as u16).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(inside);
    in_ip(17, ecn, &udp)
}

/// Bytes after an Ethernet and an IPv4 header.
pub(crate) fn in_ip(protocol: u8, ecn: u8, inside: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, ecn, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    header.extend([host(201).octets(), host(202).octets()].concat());
    header[2..4].copy_from_slice(&(20 + inside.len() as u16).to_be_bytes());
    set_checksum(&mut header);
    let mut frame = vec![2, 0, 0, 0, 0xfe, 2, 2, 0, 0, 0, 0xfe, 1, 8, 0];
    frame.extend(header);
    frame.extend(inside);
    frame
}

fn set_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum: u32 = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
}

/// A record of a capture: time in nanoseconds, bytes, and the number of bytes that the capture kept.
#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) time: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) kept: usize,
}

/// A record of a frame at this time.
pub(crate) fn at(time: u64, frame: impl Into<Vec<u8>>) -> Record {
    let bytes = frame.into();
    Record { time, kept: bytes.len(), bytes }
}

impl Record {
    /// Cuts the record to a snap length.
    pub(crate) fn cut(mut self, kept: usize) -> Self {
        self.kept = kept.min(self.bytes.len());
        self
    }
}

pub(crate) const START: u64 = 1_800_000_000 * SECOND;

/// A pcap file with nanoseconds; times are since [`START`].
pub(crate) fn pcap(records: &[Record]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for Record { time, bytes, kept } in records {
        let time = START.wrapping_add(*time);
        let head = [(time / SECOND) as u32, (time % SECOND) as u32, *kept as u32, bytes.len() as u32];
        head.iter().for_each(|word| file.extend(word.to_le_bytes()));
        file.extend(&bytes[..*kept]);
    }
    file
}

/// The directions of a packet in pcapng.
pub(crate) const IN: u32 = 1;
pub(crate) const OUT: u32 = 2;

/// A pcapng file under construction.
pub(crate) struct Pcapng(pub(crate) Vec<u8>);

impl Pcapng {
    /// A file with interfaces of these speeds in bits per second; 0 for an interface without a speed.
    pub(crate) fn new(speeds: &[u64]) -> Self {
        let mut file = Self(Vec::new());
        let mut section = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
        section.extend([1, 0, 0, 0]);
        section.extend([0xff; 8]);
        file.block(0x0a0d_0d0a, &section);
        for &speed in speeds {
            let mut body = vec![1, 0, 0, 0, 0xff, 0xff, 0, 0];
            if speed > 0 {
                body.extend(option(8, &speed.to_le_bytes()));
            }
            body.extend(option(9, &[9]));
            body.extend([0; 4]);
            file.block(1, &body);
        }
        file
    }

    pub(crate) fn block(&mut self, kind: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        let length = 12 + padded as u32;
        self.0.extend(kind.to_le_bytes());
        self.0.extend(length.to_le_bytes());
        self.0.extend(body);
        self.0.extend(vec![0; padded - body.len()]);
        self.0.extend(length.to_le_bytes());
    }

    /// Adds a packet of interface 0 with this direction; its time is since [`START`].
    pub(crate) fn packet(&mut self, record: &Record, direction: u32) {
        let time = START.wrapping_add(record.time);
        let words = [0, (time >> 32) as u32, time as u32, record.kept as u32, record.bytes.len() as u32];
        let mut body = words.map(u32::to_le_bytes).concat();
        body.extend(&record.bytes[..record.kept]);
        body.resize(body.len().next_multiple_of(4), 0);
        if direction > 0 {
            body.extend(option(2, &direction.to_le_bytes()));
            body.extend([0; 4]);
        }
        self.block(6, &body);
    }

    /// Adds a packet without a time.
    pub(crate) fn simple(&mut self, bytes: &[u8]) {
        let mut body = (bytes.len() as u32).to_le_bytes().to_vec();
        body.extend(bytes);
        self.block(3, &body);
    }

    /// Adds statistics of interface 0: frames dropped by the interface and by the operating system.
    pub(crate) fn statistics(&mut self, interface: u64, system: u64) {
        let mut body = vec![0; 12];
        body.extend(option(5, &interface.to_le_bytes()));
        body.extend(option(7, &system.to_le_bytes()));
        body.extend([0; 4]);
        self.block(5, &body);
    }
}

fn option(code: u16, value: &[u8]) -> Vec<u8> {
    let mut option = [code.to_le_bytes(), (value.len() as u16).to_le_bytes()].concat();
    option.extend(value);
    option.resize(option.len().next_multiple_of(4), 0);
    option
}
