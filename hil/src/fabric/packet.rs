//! Packets in flight: what the fabric must know of them, and the frames they stand for.

use cc_core::wire::{Addresses, Aeth, Bth, CnpMarking, Extensions, Frame, Mac, Tags, cm, opcode};
use cc_core::{Ecn, Psn, Qpn};
use nic::layout::TX_FRAME_BYTES;
use std::net::Ipv4Addr;

/// A connection between two hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// The host that sends the data.
    pub(super) sender: usize,
    /// The host that receives it.
    pub(super) receiver: usize,
    /// Queue pair of the sender.
    pub(super) sender_qpn: Qpn,
    /// Queue pair of the receiver.
    pub(super) receiver_qpn: Qpn,
    /// Sequence number of the first packet.
    pub(super) first_psn: Psn,
}

/// What a packet carries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body {
    /// A part of a SEND message, with this opcode.
    Data { opcode: u8, psn: Psn },
    /// Everything up to `psn` has arrived.
    Ack { psn: Psn, messages: u32 },
    /// A congestion notification: the very frame that the receiver's engine wrote, by its length.
    Cnp { frame: CnpFrame },
    /// A step of the connection's handshake.
    Handshake(cm::Message),
}

/// A CNP as the notification point wrote it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CnpFrame {
    pub(super) bytes: [u8; TX_FRAME_BYTES],
    pub(super) length: usize,
}

/// A packet in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Index of its flow.
    pub(super) flow: usize,
    /// The host that it is for.
    pub(super) to: usize,
    /// What it carries.
    pub(super) body: Body,
    /// Its ECN bits.
    pub(super) ecn: Ecn,
    /// Bytes of its frame, without check sequence.
    pub(super) frame_bytes: u32,
}

impl Packet {
    /// Data waits its turn; everything else goes ahead of it.
    pub(super) fn is_data(&self) -> bool {
        matches!(self.body, Body::Data { .. })
    }
}

/// Payloads are zeros; a packet of any path MTU is a part of these.
static ZEROS: [u8; 4_096] = [0; 4_096];

/// DSCP of RDMA data, the vendors' usual choice.
const DATA_DSCP: u8 = 26;

/// A locally administered address for each host.
fn mac(host: usize) -> Mac {
    let [.., high, low] = host.to_be_bytes();
    Mac::new([0x02, 0, 0, 0, high, low])
}

/// 10.0.0.1 and so on.
fn address(host: usize) -> Ipv4Addr {
    let [.., high, low] = (host + 1).to_be_bytes();
    Ipv4Addr::new(10, 0, high, low)
}

/// The frame of a packet of `flow`, but for a CNP, which is one already. `payload` is what a data packet carries.
pub(super) fn frame<'a>(
    flow: &Flow,
    packet: &Packet,
    payload: u32,
    datagram: &'a mut [u8; cm::DATAGRAM_LEN],
) -> Frame<'a> {
    let forward = packet.to == flow.receiver;
    let from = if forward { flow.sender } else { flow.receiver };
    let dest_qp = if forward { flow.receiver_qpn } else { flow.sender_qpn };
    let bth = Bth { partition: 0xffff, dest_qp, ..Bth::default() };
    let mut extensions = Extensions::default();
    let (bth, payload): (Bth, &'a [u8]) = match packet.body {
        Body::Data { opcode, psn } => {
            (Bth { opcode, psn, ack_request: opcode::info(opcode).last(), ..bth }, &ZEROS[..payload as usize])
        }
        Body::Ack { psn, messages } => {
            extensions.aeth = Aeth { msn: messages & 0x00ff_ffff, ..Aeth::default() };
            (Bth { opcode: opcode::ACKNOWLEDGE, psn, ..bth }, &[])
        }
        Body::Handshake(message) => {
            let (bth, headers) = cm::headers(Psn::new(0));
            extensions = headers;
            if let Ok(bytes) = message.emit() {
                *datagram = bytes;
            }
            (bth, datagram)
        }
        Body::Cnp { .. } => (Bth { opcode: opcode::CNP, becn: true, ..bth }, &[]),
    };
    Frame {
        destination: mac(packet.to),
        source: mac(from),
        tags: Tags::default(),
        addresses: Addresses::V4 { source: address(from), destination: address(packet.to) },
        dscp: if packet.is_data() { DATA_DSCP } else { CnpMarking::default().dscp },
        ecn: packet.ecn,
        hop_limit: 64,
        udp_source: 0xc000 | (flow.sender_qpn.get() & 0x3fff) as u16,
        bth,
        extensions,
        payload,
    }
}
