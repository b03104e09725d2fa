//! The events of a replayed NIC, as values. A board receives them as descriptors.

use cc_core::table::Handle;
use cc_core::wire::opcode::Class;
use cc_core::wire::{Parsed, Pfc, Roce, Syndrome};
use cc_core::{Bytes, CnpBodyKind, Instant, Nanos, Psn, Qpn};
use cc_np::RxMeta;
use cc_rp::AckProgress;
use hil_algorithms::RxFields;
use programs::RxInfo as _;
use programs::descriptor::{Descriptor, DescriptorKind};

/// The bytes of a received frame.
#[derive(Clone, Copy, Debug)]
pub struct RxFrame<'a> {
    /// Its bytes, as far as captured.
    pub bytes: &'a [u8],
    /// Its length on the wire in bytes.
    pub wire_len: u32,
}

/// An event of a NIC: a frame arrives, a packet leaves, or the driver gives a command.
#[derive(Clone, Copy, Debug)]
pub enum NicEvent<'a> {
    /// A RoCE packet arrived.
    Packet {
        /// Its headers.
        roce: &'a Roce<'a>,
        /// Its bytes.
        frame: RxFrame<'a>,
        /// What the transport and the driver know about it.
        meta: RxFields,
    },
    /// A PFC frame arrived.
    Pause {
        /// The pauses.
        pfc: &'a Pfc,
        /// Its bytes.
        frame: RxFrame<'a>,
    },
    /// A data packet left.
    Sent {
        /// Its flow.
        flow: Handle,
        /// Its sequence number.
        psn: Psn,
        /// Its bytes on the wire.
        bytes: Bytes,
    },
    /// The driver opens a flow of this PFC priority, 0 to 7.
    Open {
        /// The priority.
        priority: u8,
    },
    /// The driver has learnt the local queue pair number of a flow.
    Bind {
        /// The flow.
        flow: Handle,
        /// The number.
        local: Qpn,
    },
    /// The driver closes a flow.
    Close {
        /// The flow.
        flow: Handle,
    },
    /// The driver has connected the queue pair that a packet goes to with a remote one.
    Connect {
        /// A packet of the connection.
        roce: &'a Roce<'a>,
        /// Its bytes.
        frame: RxFrame<'a>,
        /// The remote queue pair.
        remote: Qpn,
    },
    /// The driver has learnt the addresses and the remote queue pair number of a flow.
    LearnRemote {
        /// A packet of the flow.
        roce: &'a Roce<'a>,
        /// Its bytes.
        frame: RxFrame<'a>,
        /// The flow.
        flow: Handle,
    },
    /// The driver has destroyed a queue pair.
    Disconnect {
        /// Its number.
        local: Qpn,
    },
}

/// What events of a flow are merged by: their kind and the local queue pair number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joins {
    /// Standard CNPs for this queue pair.
    Cnp(u32),
    /// Positive acknowledgements for this queue pair.
    Ack(u32),
}

impl<'a> NicEvent<'a> {
    /// The bytes of the frame that the event has; empty if it has none.
    pub const fn frame(&self) -> &'a [u8] {
        match self {
            Self::Packet { frame, .. }
            | Self::Pause { frame, .. }
            | Self::Connect { frame, .. }
            | Self::LearnRemote { frame, .. } => frame.bytes,
            _ => &[],
        }
    }

    /// Whether the driver caused the event. The driver waits for room in the ring; frames that find it full are lost.
    pub const fn is_command(&self) -> bool {
        !matches!(self, Self::Packet { .. } | Self::Pause { .. } | Self::Sent { .. })
    }

    /// What a later event may be merged with this one by, and this one with an earlier one: a standard CNP with those for the same
    /// queue pair, a positive acknowledgement likewise. A CNP with an extended body is not merged, because bodies differ.
    pub fn joins(&self) -> Option<Joins> {
        let Self::Packet { roce, .. } = self else { return None };
        let qpn = roce.bth.dest_qp.get();
        if roce.cnp() == Some(CnpBodyKind::Standard) {
            return Some(Joins::Cnp(qpn));
        }
        let is_positive = roce.aeth().is_some_and(|aeth| matches!(aeth.syndrome, Syndrome::Ack { .. }));
        (is_positive && roce.info.class() == Class::Ack).then_some(Joins::Ack(qpn))
    }

    /// The descriptor of the event at this time in nanoseconds. The ICRC has been checked.
    pub fn descriptor(&self, now: u64) -> Descriptor {
        let at = |kind| Descriptor::at(kind, now);
        let with = |kind, frame: &RxFrame<'_>| Descriptor {
            flags: Descriptor::ICRC_CHECKED,
            captured: u16::try_from(frame.bytes.len()).unwrap_or(u16::MAX),
            wire_bytes: frame.wire_len,
            ..at(kind)
        };
        match self {
            Self::Packet { frame, meta, .. } => Descriptor {
                handle: meta.rx_buffer_level.into(),
                qpn: meta.remote.map_or(Descriptor::UNKNOWN_QPN, Qpn::get),
                coalesced: meta.coalesced,
                acked: meta.acked.get(),
                rtt: meta.rtt.map_or(Descriptor::UNKNOWN_RTT, Nanos::get),
                msn: meta.msn.unwrap_or(Descriptor::NO_ACK),
                ..with(DescriptorKind::Frame, frame)
            },
            Self::Pause { frame, .. } => with(DescriptorKind::Frame, frame),
            Self::Sent { flow, psn, bytes } => Descriptor {
                handle: flow.to_bits(),
                psn: psn.get(),
                wire_bytes: bytes.get(),
                ..at(DescriptorKind::Sent)
            },
            Self::Open { priority } => Descriptor { handle: (*priority).into(), ..at(DescriptorKind::Open) },
            Self::Bind { flow, local } => {
                Descriptor { handle: flow.to_bits(), qpn: local.get(), ..at(DescriptorKind::Bind) }
            }
            Self::Close { flow } => Descriptor { handle: flow.to_bits(), ..at(DescriptorKind::Close) },
            Self::Connect { frame, remote, .. } => {
                Descriptor { qpn: remote.get(), ..with(DescriptorKind::Connect, frame) }
            }
            Self::LearnRemote { frame, flow, .. } => {
                Descriptor { handle: flow.to_bits(), ..with(DescriptorKind::LearnRemote, frame) }
            }
            Self::Disconnect { local } => Descriptor { qpn: local.get(), ..at(DescriptorKind::Disconnect) },
        }
    }

    /// The event of a descriptor that [`NicEvent::descriptor`] has made, with the packet in its frame; `None` if the two do not
    /// go together.
    pub fn of(descriptor: &Descriptor, bytes: &'a [u8], packet: Option<&'a Parsed<'a>>) -> Option<Self> {
        const FRAME: u8 = DescriptorKind::Frame as u8;
        const SENT: u8 = DescriptorKind::Sent as u8;
        const OPEN: u8 = DescriptorKind::Open as u8;
        const BIND: u8 = DescriptorKind::Bind as u8;
        const CLOSE: u8 = DescriptorKind::Close as u8;
        const CONNECT: u8 = DescriptorKind::Connect as u8;
        const LEARN_REMOTE: u8 = DescriptorKind::LearnRemote as u8;
        const DISCONNECT: u8 = DescriptorKind::Disconnect as u8;
        let frame = RxFrame { bytes, wire_len: descriptor.wire_bytes };
        let (flow, qpn) = (Handle::from_bits(descriptor.handle), Qpn::new(descriptor.qpn));
        Some(match (descriptor.kind, packet) {
            (FRAME, Some(Parsed::Roce(roce))) => {
                let AckProgress { acked, rtt } = descriptor.progress();
                let RxMeta { remote, msn, rx_buffer_level, .. } = descriptor.rx();
                let (arrived, coalesced) = (Instant::from_nanos(descriptor.now()), descriptor.coalesced());
                let meta = RxFields { acked, rtt, remote, msn, arrived, rx_buffer_level, coalesced };
                Self::Packet { roce, frame, meta }
            }
            (FRAME, Some(Parsed::Pfc(pfc))) => Self::Pause { pfc, frame },
            (CONNECT, Some(Parsed::Roce(roce))) => Self::Connect { roce, frame, remote: qpn },
            (LEARN_REMOTE, Some(Parsed::Roce(roce))) => Self::LearnRemote { roce, frame, flow },
            (SENT, _) => Self::Sent { flow, psn: Psn::new(descriptor.psn), bytes: Bytes::new(descriptor.wire_bytes) },
            (OPEN, _) => Self::Open { priority: (descriptor.handle & 7) as u8 },
            (BIND, _) => Self::Bind { flow, local: qpn },
            (CLOSE, _) => Self::Close { flow },
            (DISCONNECT, _) => Self::Disconnect { local: qpn },
            _ => return None,
        })
    }
}
