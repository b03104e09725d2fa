//! Packets in flight: what the fabric must know of them, and the frames they stand for.

use anyhow::{Result, anyhow};
use cc_core::wire::shim::{IntShim, MlccData, Time};
use cc_core::wire::{Addresses, Aeth, Bth, CnpMarking, Extensions, Frame, Mac, Pfc, Shims, Tags, cm, opcode};
use cc_core::{Ecn, Hop, IntLayout, IntStackBuilder, Psn, Qpn, Stamp};
use cc_rp::Signals;
use hil_capture::crc::HostCrc;
use std::net::Ipv4Addr;
use std::rc::Rc;

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
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// A part of a SEND message.
    Data(Data),
    /// Anything else: the very frame.
    Control(Rc<[u8]>),
}

/// A part of a message.
#[derive(Clone, Debug)]
pub(super) struct Data {
    pub(super) opcode: u8,
    pub(super) psn: Psn,
    /// When the sender sent it.
    pub(super) sent: Stamp,
    /// What the switches have written into it, if it has room for that.
    pub(super) hops: Vec<Hop>,
}

/// What data packets carry for an algorithm, and how they are acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketFormat {
    /// The time at which they were sent.
    time: bool,
    /// Room for telemetry.
    int: bool,
    /// Room for what MLCC's interconnect switch tells.
    mlcc: bool,
    /// Each asks for an acknowledgement, and not only the last of a message.
    acknowledged: bool,
}

impl PacketFormat {
    /// What these signals take.
    pub(super) const fn of(signals: Signals) -> Self {
        Self {
            time: signals.contains(Signals::DELAY) || signals.contains(Signals::GRANT),
            int: signals.contains(Signals::INT) || signals.contains(Signals::ADVISED_RATE),
            mlcc: signals.contains(Signals::ADVISED_RATE),
            acknowledged: !Signals::CNP.with(Signals::UNDETERMINED).contains(signals),
        }
    }
}

/// What a host sends beside data, of its transport's own making; what the engines write is a frame already.
#[derive(Clone, Copy, Debug)]
pub(super) enum Control {
    /// Everything up to `psn` has arrived.
    Ack { psn: Psn, messages: u32 },
    /// A step of the connection's handshake.
    Handshake(cm::Message),
}

/// A packet in flight.
#[derive(Clone, Debug)]
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
    /// A frame of a flow that is no data.
    pub(super) fn control(flow: usize, to: usize, frame: Rc<[u8]>) -> Self {
        let frame_bytes = frame.len() as u32;
        Self { flow, to, body: Body::Control(frame), ecn: Ecn::NotEct, frame_bytes }
    }

    /// Data waits its turn; everything else goes ahead of it.
    pub(super) fn is_data(&self) -> bool {
        matches!(self.body, Body::Data(_))
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

/// Headers of a frame of `flow` to `to`.
fn headers(flow: &Flow, to: usize) -> Frame<'static> {
    let forward = to == flow.receiver;
    let from = if forward { flow.sender } else { flow.receiver };
    let dest_qp = if forward { flow.receiver_qpn } else { flow.sender_qpn };
    Frame {
        destination: mac(to),
        source: mac(from),
        tags: Tags::default(),
        addresses: Addresses::V4 { source: address(from), destination: address(to) },
        dscp: CnpMarking::default().dscp,
        ecn: Ecn::NotEct,
        hop_limit: 64,
        udp_source: 0xc000 | (flow.sender_qpn.get() & 0x3fff) as u16,
        shims: Shims::NONE,
        bth: Bth { partition: 0xffff, dest_qp, ..Bth::default() },
        extensions: Extensions::default(),
        payload: &[],
    }
}

/// Writes the frame of a data packet with so many bytes of payload, and answers its length.
pub(super) fn data(
    flow: &Flow,
    format: PacketFormat,
    data: &Data,
    ecn: Ecn,
    payload: u32,
    buffer: &mut [u8],
) -> Result<usize> {
    let head = headers(flow, flow.receiver);
    let ack_request = format.acknowledged || opcode::info(data.opcode).last();
    let bth = Bth { opcode: data.opcode, psn: data.psn, ack_request, ..head.bth };
    let int = IntStackBuilder::new(IntLayout::Wide, 1).with_room(IntShim::ROOM).with(data.hops.iter().copied());
    let shims = Shims {
        time: format.time.then_some(Time { sent: data.sent, ..Time::default() }),
        int: format.int.then(|| IntShim::of(&int)),
        mlcc_data: format.mlcc.then_some(MlccData::default()),
        ..Shims::NONE
    };
    let frame = Frame { dscp: DATA_DSCP, ecn, bth, shims, payload: &ZEROS[..payload as usize], ..head };
    frame.emit::<HostCrc>(buffer).map_err(|error| anyhow!("cannot build a data frame: {error:?}"))
}

/// The frame of what a host's transport says to `to`.
pub(super) fn control(flow: &Flow, to: usize, control: Control) -> Result<Rc<[u8]>> {
    let head = headers(flow, to);
    let datagram;
    let frame = match control {
        Control::Ack { psn, messages } => Frame {
            ecn: Ecn::Ect0,
            bth: Bth { opcode: opcode::ACKNOWLEDGE, psn, ..head.bth },
            extensions: Extensions {
                aeth: Aeth { msn: messages & 0x00ff_ffff, ..Aeth::default() },
                ..Extensions::default()
            },
            ..head
        },
        Control::Handshake(message) => {
            let (bth, extensions) = cm::headers(Psn::new(0));
            datagram = message.emit();
            Frame { bth, extensions, payload: &datagram, ..head }
        }
    };
    let mut buffer = [0; 512];
    let length = frame.emit::<HostCrc>(&mut buffer).map_err(|error| anyhow!("cannot build a frame: {error:?}"))?;
    Ok(Rc::from(&buffer[..length]))
}

/// A PFC frame of the host at the end of a port, which pauses the port's data or, with no quanta, resumes it.
pub(super) fn pause(host: usize, priority: u8, quanta: u16) -> Result<Rc<[u8]>> {
    let mut times = [0; 8];
    times[usize::from(priority)] = quanta;
    let pfc = Pfc::new(1 << priority, times);
    let mut buffer = [0; 64];
    let length = pfc.emit(mac(host), &mut buffer).map_err(|error| anyhow!("cannot build a PFC frame: {error:?}"))?;
    Ok(Rc::from(&buffer[..length]))
}
