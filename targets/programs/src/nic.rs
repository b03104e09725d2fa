//! The NIC's program: descriptors in, decisions and frames out.
//!
//! The firmware and the host run this same code; what differs is the [`Hardware`] beneath it.

use crate::descriptor::{Descriptor, DescriptorKind};
use crate::layout::ImageInfo;
use crate::remote_flows::FarEnds;
use crate::sizes::Sizes;
use cc_core::params::ParamError;
use cc_core::table::{Handle, Storage};
use cc_core::wire::opcode::Class;
use cc_core::wire::pfc::Quantum;
use cc_core::wire::{self, Crc32, FlowKey, Icrc, Nak, Parsed, Pfc, Roce, Syndrome};
use cc_core::{Bytes, CnpBody, CnpBodyKind, Instant, IntStack, Link, Nanos, Psn, Qpn, Zeroed};
use cc_np::{Connection, Connections, ConnectionsOf, Flows, NotificationPoint, NpEngineIn, RxMeta, Transmit};
use cc_rp::{AckProgress, Event, EventSet, RateLimiter, ReactionPoint, RpEngineIn, Whom};

/// What the program did, as the event log has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u32)]
pub enum LogKind {
    /// Nothing: the descriptor says nothing that concerns a machine.
    Nothing = 0,
    /// A packet left.
    Sent = 1,
    /// An acknowledgement arrived.
    Ack = 2,
    /// A negative acknowledgement arrived.
    Nack = 3,
    /// A CNP arrived.
    Cnp = 4,
    /// Time passed.
    Wake = 5,
    /// Data arrived.
    Data = 6,
    /// A PFC frame arrived.
    Pause = 7,
    /// A flow was opened; the log's index is its whole handle.
    Open = 8,
    /// A flow's local QPN was learnt.
    Bind = 9,
    /// A flow was closed.
    Close = 10,
    /// A local queue pair's far end, or a flow's, was learnt, or is gone.
    Connect = 11,
}

impl LogKind {
    /// The kind of a log record.
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Nothing,
            1 => Self::Sent,
            2 => Self::Ack,
            3 => Self::Nack,
            4 => Self::Cnp,
            5 => Self::Wake,
            6 => Self::Data,
            7 => Self::Pause,
            8 => Self::Open,
            9 => Self::Bind,
            10 => Self::Close,
            11 => Self::Connect,
            _ => return None,
        })
    }

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Sent => "sent",
            Self::Ack => "ack",
            Self::Nack => "nack",
            Self::Cnp => "cnp",
            Self::Wake => "wake",
            Self::Data => "data",
            Self::Pause => "pause",
            Self::Open => "open",
            Self::Bind => "bind",
            Self::Close => "close",
            Self::Connect => "connect",
        }
    }
}

/// The index of a log record that is about no flow.
pub const NO_FLOW: u32 = u32::MAX;

/// What the program drives: the pacer, the transmit ring, the event log.
pub trait Hardware: RateLimiter + Transmit {
    /// The CRC engine for the ICRC of frames sent.
    type Crc: Crc32;

    /// One record for each descriptor and each wake: what it came to, the time that the engines were given, and the
    /// flow's slot, [`NO_FLOW`] where there is none.
    fn log(&mut self, kind: LogKind, now: Instant, index: u32);
}

/// Records in a set of received flows, and entries in a set of flows by their remote queue pair number.
const WAYS: usize = 4;

/// One port of a NIC: a reaction point for the flows that it sends, a notification point for those that it receives.
// The reaction point begins it, whose small fields short offsets reach then.
#[repr(C)]
pub struct Nic<A: ReactionPoint, N: NotificationPoint, S: Sizes> {
    rp: RpEngineIn<A, S::Flows, S::QpnMap>,
    np: NpEngineIn<N, S::Peers, WAYS>,
    connections: ConnectionsOf<N, S::Peers, WAYS>,
    ends: FarEnds<S::Remotes, WAYS>,
    quantum: Quantum,
}

impl<A: ReactionPoint, N: NotificationPoint, S: Sizes> Zeroed for Nic<A, N, S> {
    const ZEROED: Self = Self {
        rp: Zeroed::ZEROED,
        np: Zeroed::ZEROED,
        connections: Connections::NONE,
        ends: Zeroed::ZEROED,
        quantum: Quantum::ZEROED,
    };
}

impl<A: ReactionPoint, N: NotificationPoint, S: Sizes> Nic<A, N, S> {
    /// Bytes that each QP adds to the reaction point.
    pub const QP_BYTES: usize = RpEngineIn::<A, S::Flows, S::QpnMap>::QP_BYTES;

    /// Bytes of a received flow's record at the notification point, with its key.
    pub const PEER_BYTES: usize = <N::Flows<S::Peers, WAYS> as Flows<N>>::RECORD_BYTES;

    /// Received flows that there is room for; zero where that is not fixed.
    pub const PEERS: usize = <N::Flows<S::Peers, WAYS> as Flows<N>>::ROOM;

    /// What an image with this NIC says of itself.
    pub const INFO: ImageInfo = ImageInfo {
        qps: match <S::Flows as Storage>::LEN {
            Some(flows) => flows as u32,
            None => 0,
        },
        state_bytes: size_of::<A>() as u32,
        qp_bytes: Self::QP_BYTES as u32,
        peers: Self::PEERS as u32,
        peer_bytes: Self::PEER_BYTES as u32,
    };

    /// A NIC that knows no flow.
    ///
    /// # Errors
    /// A setting out of range, or wrong on this port.
    pub fn new(start: Instant, link: Link, rp: &A::Settings, np: &N::Settings) -> Result<Self, ParamError> {
        let mut nic = Self::ZEROED;
        nic.begin(start, link, rp, np)?;
        Ok(nic)
    }

    /// Makes a NIC of what is blank, where that is, as [`Nic::new`] does.
    ///
    /// # Errors
    /// As for [`Nic::new`].
    #[inline(always)]
    pub fn begin(&mut self, start: Instant, link: Link, rp: &A::Settings, np: &N::Settings) -> Result<(), ParamError> {
        self.rp.begin(start, link, rp)?;
        self.np.begin(start, link, N::check(np, &link)?);
        self.quantum = Quantum::at(link.line_rate);
        Ok(())
    }

    /// Makes room for `flows` flows sent and `peers` flows received, where the memory is on the heap; a NIC never grows by itself,
    /// nor shrinks. Flows stay, and so does what is known of received ones; the remote queue pair numbers of flows are to be
    /// learnt again.
    pub fn grow(&mut self, flows: usize, peers: usize) {
        self.rp.grow(flows);
        self.np.grow(peers.div_ceil(WAYS));
        self.connections.grow(peers.div_ceil(WAYS));
        self.ends.grow(flows.div_ceil(WAYS));
    }

    /// The reaction point.
    pub const fn rp(&self) -> &RpEngineIn<A, S::Flows, S::QpnMap> {
        &self.rp
    }

    /// The notification point.
    pub const fn np(&self) -> &NpEngineIn<N, S::Peers, WAYS> {
        &self.np
    }

    /// Handles one descriptor at `now`; `frame` holds the bytes that came with it, nothing for most kinds.
    ///
    /// The descriptor's own time is when the device met with it. The engines are given the later time at which they
    /// are called, which never runs back behind a wake that came in between.
    #[inline(never)]
    pub fn handle<H: Hardware>(&mut self, now: Instant, descriptor: &Descriptor, frame: &[u8], hw: &mut H) {
        const FRAME: u8 = DescriptorKind::Frame as u8;
        const CONNECT: u8 = DescriptorKind::Connect as u8;
        const LEARN_REMOTE: u8 = DescriptorKind::LearnRemote as u8;
        let (kind, index) = if matches!(descriptor.kind, FRAME | CONNECT | LEARN_REMOTE) {
            match &wire::parse(frame, descriptor.wire_bytes as usize) {
                Ok(packet) => self.take(now, descriptor, packet, hw),
                Err(_) => (LogKind::Nothing, NO_FLOW),
            }
        } else {
            self.order(now, descriptor, hw)
        };
        hw.log(kind, now, index);
    }

    /// Handles a descriptor that came with a frame, which has been read.
    #[inline]
    pub fn arrival<H: Hardware>(&mut self, now: Instant, descriptor: &Descriptor, packet: &Parsed<'_>, hw: &mut H) {
        let (kind, index) = self.take(now, descriptor, packet, hw);
        hw.log(kind, now, index);
    }

    #[inline]
    fn take<H: Hardware>(
        &mut self,
        now: Instant,
        descriptor: &Descriptor,
        packet: &Parsed<'_>,
        hw: &mut H,
    ) -> (LogKind, u32) {
        if descriptor.kind != DescriptorKind::Frame as u8 {
            return match self.learn(now, descriptor, packet) {
                Some(index) => (LogKind::Connect, index),
                None => (LogKind::Nothing, NO_FLOW),
            };
        }
        let (kind, handle) = match packet {
            Parsed::Roce(roce)
                if descriptor.flags & Descriptor::ICRC_CHECKED == 0 && roce.icrc::<H::Crc>() == Icrc::Invalid =>
            {
                (LogKind::Nothing, None)
            }
            Parsed::Roce(roce) => match roce.info.class() {
                Class::Cnp => {
                    let body_kind = roce.cnp().unwrap_or_default();
                    let flow = match &body_kind {
                        CnpBodyKind::Extended(body) if body.is_from_switch() => self.switch_cnp(now, roce, body, hw),
                        body_kind => self.cnp(now, Whom::Bound(roce.bth.dest_qp), body_kind, hw),
                    };
                    if descriptor.coalesced > 1 && flow.is_some() {
                        self.rp.count_coalesced(descriptor.coalesced.saturating_sub(1));
                    }
                    (LogKind::Cnp, flow)
                }
                Class::Ack => match roce.aeth().map(|aeth| aeth.syndrome) {
                    Some(Syndrome::Ack { .. }) => (LogKind::Ack, self.ack(now, descriptor, roce, hw)),
                    Some(Syndrome::Nak(Nak::PsnSequence)) => {
                        (LogKind::Nack, self.nack(now, roce.bth.dest_qp, roce.bth.psn, hw))
                    }
                    _ => (LogKind::Nothing, None),
                },
                _ => {
                    self.data(now, descriptor, roce, hw);
                    (LogKind::Data, None)
                }
            },
            Parsed::Pfc(pfc) => {
                self.pause(now, pfc);
                (LogKind::Pause, None)
            }
            Parsed::NotRoce(_) => (LogKind::Nothing, None),
        };
        (kind, handle.map_or(NO_FLOW, |handle| u32::from(handle.index())))
    }

    /// Something that the device did or the driver asks for.
    fn order<H: Hardware>(&mut self, now: Instant, descriptor: &Descriptor, hw: &mut H) -> (LogKind, u32) {
        const SENT: u8 = DescriptorKind::Sent as u8;
        const OPEN: u8 = DescriptorKind::Open as u8;
        const BIND: u8 = DescriptorKind::Bind as u8;
        const CLOSE: u8 = DescriptorKind::Close as u8;
        const DISCONNECT: u8 = DescriptorKind::Disconnect as u8;
        let handle = Handle::from_bits(descriptor.handle);
        let slot = u32::from(handle.index());
        match descriptor.kind {
            SENT => {
                self.sent(now, handle, Psn::new(descriptor.psn), Bytes::new(descriptor.wire_bytes), hw);
                (LogKind::Sent, slot)
            }
            OPEN => {
                let opened = self.rp.open(now, (descriptor.handle & 7) as u8, hw);
                (LogKind::Open, opened.map_or(NO_FLOW, Handle::to_bits))
            }
            BIND => {
                // Without a number the flow gets no CNPs, each of which the engine will count as ignored.
                let bound = self.rp.bind(handle, Qpn::new(descriptor.qpn));
                (LogKind::Bind, if bound.is_ok() { slot } else { NO_FLOW })
            }
            CLOSE => {
                self.rp.close(handle);
                (LogKind::Close, slot)
            }
            DISCONNECT => {
                let local = Qpn::new(descriptor.qpn);
                self.np.forget(local);
                self.connections.disconnect(local);
                (LogKind::Connect, NO_FLOW)
            }
            _ => (LogKind::Nothing, NO_FLOW),
        }
    }

    // The calls of the engines are functions of their own, so that a harness can tell how long each kind of event takes.

    #[inline(never)]
    fn sent<H: Hardware>(&mut self, now: Instant, handle: Handle, psn: Psn, bytes: Bytes, hw: &mut H) {
        self.rp.sent(now, handle, psn, bytes, hw);
    }

    #[inline(never)]
    fn cnp<H: Hardware>(&mut self, now: Instant, whom: Whom, body_kind: &CnpBodyKind, hw: &mut H) -> Option<Handle> {
        let step = self.rp.notify(now, whom, body_kind, hw);
        step.map(|step| step.handle)
    }

    /// A CNP of a switch, for a flow that it may name by the far end. It may bring telemetry.
    #[cold]
    #[inline(never)]
    fn switch_cnp<H: Hardware>(&mut self, now: Instant, roce: &Roce<'_>, body: &CnpBody, hw: &mut H) -> Option<Handle> {
        let flow = if body.names_remote_qpn {
            self.ends.find(FlowKey::of_reply(roce, body.remote_qpn))
        } else {
            self.rp.find(roce.bth.dest_qp)
        };
        let Some(flow) = flow.filter(|&flow| self.rp.state(flow).is_some()) else {
            // The engine counts it.
            return self.cnp(now, Whom::Bound(roce.bth.dest_qp), &CnpBodyKind::Extended(*body), hw);
        };
        if A::EVENTS.contains(EventSet::SWITCH_INT)
            && let Some(int) = roce.switch_int()
        {
            return self.switch_int(now, flow, int.stack(), hw);
        }
        self.cnp(now, Whom::Flow(flow), &body.with_local_name(), hw)
    }

    /// Telemetry that a switch sent back by itself.
    #[inline(never)]
    fn switch_int<H: Hardware>(&mut self, now: Instant, flow: Handle, int: IntStack<'_>, hw: &mut H) -> Option<Handle> {
        let step = self.rp.switch_cnp(now, flow, &Event::SwitchInt { int }, hw);
        step.map(|step| step.handle)
    }

    #[inline(never)]
    fn ack<H: Hardware>(
        &mut self,
        now: Instant,
        descriptor: &Descriptor,
        roce: &Roce<'_>,
        hw: &mut H,
    ) -> Option<Handle> {
        let rtt = (descriptor.rtt != Descriptor::UNKNOWN_RTT).then_some(Nanos::new(descriptor.rtt));
        let progress = AckProgress { acked: Bytes::new(descriptor.acked), rtt };
        let step = self.rp.ack(now, roce, progress, hw);
        step.map(|step| step.handle)
    }

    #[inline(never)]
    fn nack<H: Hardware>(&mut self, now: Instant, qpn: Qpn, psn: Psn, hw: &mut H) -> Option<Handle> {
        let step = self.rp.nack(now, qpn, psn, hw);
        step.map(|step| step.handle)
    }

    #[inline(never)]
    fn pause(&mut self, now: Instant, pfc: &Pfc) {
        let (mut enabled, mut priority) = (u32::from(pfc.enabled), 0);
        while enabled != 0 {
            if let Some(quanta) = pfc.time(priority) {
                self.rp.pause(now, priority, self.quantum.pause(quanta));
            }
            (enabled, priority) = (enabled >> 1, priority.wrapping_add(1));
        }
    }

    /// A packet for one of our QPs, which may call for a CNP or an acknowledgement.
    #[inline(never)]
    fn data<H: Hardware>(&mut self, now: Instant, descriptor: &Descriptor, roce: &Roce<'_>, hw: &mut H) {
        let rx = RxMeta {
            remote: (descriptor.qpn != Descriptor::UNKNOWN_QPN).then(|| Qpn::new(descriptor.qpn)),
            msn: (descriptor.msn != Descriptor::NO_ACK).then_some(descriptor.msn),
            arrived: Instant::from_nanos(descriptor.now()).stamp(),
            rx_buffer_level: (descriptor.handle & 0x1f) as u8,
        };
        self.np.frame::<H::Crc>(now, roce, rx, hw);
    }

    /// Learns what the driver shows a packet for, and answers what the log has of it.
    #[cold]
    #[inline(never)]
    fn learn(&mut self, now: Instant, descriptor: &Descriptor, packet: &Parsed<'_>) -> Option<u32> {
        match packet {
            Parsed::Roce(roce) if descriptor.kind == DescriptorKind::LearnRemote as u8 => {
                self.learn_remote(descriptor, roce)
            }
            Parsed::Roce(roce) => self.connect(now, descriptor, roce).map(|()| NO_FLOW),
            _ => None,
        }
    }

    /// Learns the far end of a connection from a packet that arrived on it.
    fn connect(&mut self, now: Instant, descriptor: &Descriptor, roce: &Roce<'_>) -> Option<()> {
        let remote = (descriptor.qpn != Descriptor::UNKNOWN_QPN).then(|| Qpn::new(descriptor.qpn))?;
        if <ConnectionsOf<N, S::Peers, WAYS>>::KEEPS {
            self.connections.connect(now.stamp(), roce.bth.dest_qp, Connection::of(roce, remote)?);
        }
        Connection::is_for(roce).then_some(())
    }

    /// Learns the far end of a flow from a packet of it, and answers the flow's slot.
    fn learn_remote(&mut self, descriptor: &Descriptor, roce: &Roce<'_>) -> Option<u32> {
        let (handle, rp) = (Handle::from_bits(descriptor.handle), &self.rp);
        let is_open = |handle| rp.state(handle).is_some();
        let learnt = is_open(handle) && self.ends.learn(FlowKey::of_data(roce), handle, is_open);
        learnt.then(|| u32::from(handle.index()))
    }

    /// Lets one flow do what has fallen due. To be called again as long as [`Nic::next_wake`] is not after `now`.
    #[inline(never)]
    pub fn timer<H: Hardware>(&mut self, now: Instant, hw: &mut H) {
        let due = self.rp.pop_due(now, hw);
        if let Some(index) = due {
            self.wake(index, hw);
        }
        self.slot(now, hw);
        hw.log(LogKind::Wake, now, due.map_or(NO_FLOW, u32::from));
    }

    #[inline(never)]
    fn wake<H: Hardware>(&mut self, index: u16, hw: &mut H) {
        self.rp.wake_slot(index, hw);
    }

    /// Lets the notification point do what has fallen due.
    #[inline(never)]
    fn slot<H: Hardware>(&mut self, now: Instant, hw: &mut H) {
        self.np.wake::<H::Crc>(now, &self.connections, hw);
    }

    /// When [`Nic::timer`] is to be called next: within half a second of the last call of either engine.
    pub fn next_wake(&self) -> Instant {
        self.rp.last_call().after(self.rp.next_wake()).min(self.np.last_call().after(self.np.next_wake()))
    }
}
