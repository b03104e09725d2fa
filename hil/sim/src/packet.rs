//! Frames of the simulated fabric, as bytes.

use anyhow::{Result, anyhow, bail};
use cc_core::wire::shim::{self, IntShim, MlccData, Time};
use cc_core::wire::{self, Addresses, Aeth, Bth, CnpMarking, Extensions, Frame, Mac, NoCrc, Parsed, Pfc, Reth, Roce};
use cc_core::wire::{Shims, Tags, cm, opcode};
use cc_core::{Ecn, IntLayout, Psn, Qpn, Stamp};
use cc_cp::Verdict;
use cc_rp::Signals;
use std::net::Ipv4Addr;

/// A connection between two hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// The host that sends the data.
    pub(crate) sender: usize,
    /// The host that receives it.
    pub(crate) receiver: usize,
    /// Queue pair of the sender.
    pub(crate) sender_qpn: Qpn,
    /// Queue pair of the receiver.
    pub(crate) receiver_qpn: Qpn,
    /// Sequence number of the first packet.
    pub(crate) first_psn: Psn,
}

impl Flow {
    /// A flow whose packets are laid out as those of all flows are.
    pub(crate) const EXAMPLE: Self =
        Self { sender: 0, receiver: 1, sender_qpn: Qpn::new(0), receiver_qpn: Qpn::new(0), first_psn: Psn::new(0) };
}

/// The shims in the data packets of an algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketFormat {
    /// Whether they carry the time at which they were sent.
    time: bool,
    /// The layout of INT, if they have room for it.
    int: Option<IntLayout>,
    /// Whether they have room for the fields of MLCC's interconnect switch.
    mlcc: bool,
    /// Bytes of payload.
    payload: u32,
}

/// Offsets of the fields that differ between the data packets of a run. The layout is the same in all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataLayout {
    /// Bytes of the frame on the wire.
    pub(crate) wire_len: u16,
    /// The base transport header.
    pub(crate) bth_at: usize,
    time_at: Option<usize>,
    /// The INT shim, to which switches append their records.
    int_at: Option<usize>,
    /// The shim of MLCC's interconnect switch.
    mlcc_at: Option<usize>,
}

impl PacketFormat {
    /// The format for an algorithm that reacts to these signals, with this many bytes of payload.
    pub(crate) const fn of(signals: Signals, payload: u32) -> Self {
        Self {
            time: signals.contains(Signals::DELAY) || signals.contains(Signals::GRANT),
            int: if signals.contains(Signals::INT) || signals.contains(Signals::ADVISED_RATE) {
                Some(IntLayout::Wide)
            } else {
                None
            },
            mlcc: signals.contains(Signals::ADVISED_RATE),
            payload,
        }
    }

    /// The same format with records of INT, if it has any, in this layout.
    pub(crate) fn with_int(self, layout: IntLayout) -> Self {
        Self { int: self.int.map(|_| layout), ..self }
    }

    /// The same format with this many bytes of payload.
    pub(crate) const fn with_payload(self, payload: u32) -> Self {
        Self { payload, ..self }
    }

    /// Bytes of the frame of a data packet.
    pub(crate) fn frame_bytes(self) -> Result<u32> {
        Ok(self.template(&Flow::EXAMPLE)?.1.wire_len.into())
    }

    /// The template of a flow's data packets: all headers of a packet in the middle of a message, without payload and ICRC.
    pub(crate) fn template(self, flow: &Flow) -> Result<(Vec<u8>, DataLayout)> {
        self.template_of(flow, opcode::SEND_MIDDLE)
    }

    /// The template of a flow's data packets with this opcode. A response to a READ that is the first or the last has an AETH behind
    /// the BTH (IBTA volume 1, section 9.4), of which the MSN counts the READ: it is the first message of its connection.
    pub(crate) fn template_of(self, flow: &Flow, opcode: u8) -> Result<(Vec<u8>, DataLayout)> {
        let head = headers(flow, flow.receiver);
        let int = self.int.map(|layout| IntShim::empty(layout, 1, IntShim::ROOM));
        let shims = Shims {
            time: self.time.then(Time::default),
            int,
            mlcc_data: self.mlcc.then(MlccData::default),
            ..Shims::NONE
        };
        let bth = Bth { opcode, ..head.bth };
        let extensions = Extensions { aeth: Aeth { msn: 1, ..Aeth::default() }, ..Extensions::default() };
        let payload = ZEROS.get(..self.payload as usize).unwrap_or(&ZEROS);
        let mut template = emit(&Frame { dscp: DATA_DSCP, ecn: Ecn::Ect0, bth, shims, extensions, payload, ..head })?;
        let wire_len = template.len();
        let roce = parse(&template, wire_len)?;
        let layout = DataLayout {
            wire_len: u16::try_from(wire_len)?,
            bth_at: roce.bth_at(),
            time_at: roce.time_at(),
            int_at: roce.int_at(),
            mlcc_at: roce.mlcc_data_at(),
        };
        let header_len = roce.payload_at();
        template.truncate(header_len);
        Ok((template, layout))
    }
}

impl DataLayout {
    /// Writes the verdict of a switch's stages on a data packet, whose ECN bits were `ecn`, into its headers: a record of telemetry
    /// behind those that it came with, or alone if these are cleared. Returns whether it writes a record.
    #[inline(always)]
    pub(crate) fn write_verdict(&self, header: &mut [u8], verdict: &Verdict, ecn: Ecn) -> bool {
        let leaves_with = verdict.leaves_with(ecn);
        if leaves_with != ecn {
            wire::set_ecn(header, leaves_with);
        }
        if let Some(rewrite) = verdict.rewrite {
            if let (Some(at), true) = (self.int_at, rewrite.clear_int) {
                shim::clear_int_at(header, at);
            }
            if let (Some(at), Some(data)) = (self.mlcc_at, &rewrite.mlcc) {
                shim::write_mlcc_at(header, at, data);
            }
        }
        match (self.int_at, &verdict.hop) {
            (Some(at), Some(hop)) => shim::push_at(header, at, hop).is_some(),
            _ => false,
        }
    }

    /// Fills in opcode, sequence number, whether an acknowledgement is requested, and time of sending in a copy of a template.
    pub(crate) fn fill(&self, header: &mut [u8], flow: &Flow, opcode: u8, psn: Psn, ack_request: bool, sent: Stamp) {
        let bth = Bth { partition: PARTITION, dest_qp: flow.receiver_qpn, opcode, psn, ack_request, ..Bth::default() };
        wire::set_bth(header, self.bth_at, &bth);
        if let Some(at) = self.time_at {
            shim::set_sent_at(header, at, sent);
        }
    }
}

/// Bytes of the longest frame that a NIC or a switch of the fabric sends on its own: an acknowledgement with a time stamp, the
/// INT that it returns, and MLCC's grant.
pub(crate) const LONGEST_REPLY: usize = 14 + 20 + 8 + (16 + IntShim::ROOM as usize * 16 + 4 + 16 + 4) + 12 + 4 + 4;

/// A packet other than data that a host's transport sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    /// Everything up to `psn` has arrived; `marked` if the packet had CE, where acknowledgements say so.
    Ack { psn: Psn, messages: u32, marked: bool },
    /// The receiver of a READ requests so many bytes of the memory, which has address 0, from this offset on. `psn` is the sequence
    /// number of the first response.
    ReadRequest { psn: Psn, offset: u64, bytes: u32 },
    /// A step of the connection's handshake.
    Handshake(cm::Message),
}

/// The payload of all packets: the first bytes of these zeros, up to the largest path MTU.
pub(crate) static ZEROS: [u8; 4_096] = [0; 4_096];

/// DSCP of RDMA data, the vendors' usual choice.
pub(crate) const DATA_DSCP: u8 = 26;
const PARTITION: u16 = 0xffff;

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
pub(crate) fn headers(flow: &Flow, to: usize) -> Frame<'static> {
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
        bth: Bth { partition: PARTITION, dest_qp, ..Bth::default() },
        extensions: Extensions::default(),
        payload: &[],
    }
}

/// The frame of a packet that a host's transport sends to `to`, with zeros for its ICRC.
pub(crate) fn control(flow: &Flow, to: usize, control: Control) -> Result<Vec<u8>> {
    let head = headers(flow, to);
    match control {
        Control::Ack { psn, messages, marked } => {
            let aeth = Aeth { msn: messages & 0x00ff_ffff, ..Aeth::default() };
            let bth = Bth { opcode: opcode::ACKNOWLEDGE, psn, becn: marked, ..head.bth };
            emit(&Frame { ecn: Ecn::Ect0, bth, extensions: Extensions { aeth, ..Extensions::default() }, ..head })
        }
        Control::ReadRequest { psn, offset, bytes } => {
            let reth = Reth { address: offset, len: bytes, ..Reth::default() };
            let bth = Bth { opcode: opcode::READ_REQUEST, psn, ..head.bth };
            let extensions = Extensions { reth, ..Extensions::default() };
            emit(&Frame { dscp: DATA_DSCP, ecn: Ecn::Ect0, bth, extensions, ..head })
        }
        Control::Handshake(message) => {
            let (bth, extensions) = cm::headers(Psn::new(0));
            emit(&Frame { bth, extensions, payload: &message.emit(), ..head })
        }
    }
}

/// Emits a frame with zeros for its ICRC: nothing in the fabric damages a frame, and the ICRC is computed only for the tap.
fn emit(frame: &Frame<'_>) -> Result<Vec<u8>> {
    let mut buffer = vec![0; ZEROS.len() + 512];
    let len = frame.emit::<NoCrc>(&mut buffer).map_err(|error| anyhow!("cannot build a frame: {error:?}"))?;
    buffer.truncate(len);
    Ok(buffer)
}

/// Parses a frame that the fabric has made. `bytes` is its beginning, `wire_len` its length on the wire.
pub(crate) fn parse(bytes: &[u8], wire_len: usize) -> Result<Roce<'_>> {
    match wire::parse(bytes, wire_len) {
        Ok(Parsed::Roce(roce)) => Ok(roce),
        parsed => bail!("the fabric made a frame that cannot be parsed: {parsed:?}"),
    }
}

/// A PFC frame that pauses a class for so many quanta or, with none, resumes it.
pub(crate) fn pfc(class: u8, quanta: u16) -> Pfc {
    let mut times = [0; 8];
    times[usize::from(class)] = quanta;
    Pfc::new(1 << class, times)
}

/// The bytes of the PFC frame that a node sends, as [`pfc`] has it.
pub(crate) fn emit_pfc(node: usize, class: u8, quanta: u16) -> Result<Vec<u8>> {
    let mut buffer = vec![0; 64];
    let frame = pfc(class, quanta);
    let length = frame.emit(mac(node), &mut buffer).map_err(|error| anyhow!("cannot build a PFC frame: {error:?}"))?;
    buffer.truncate(length);
    Ok(buffer)
}
