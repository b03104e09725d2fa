//! The NIC of one port, without rings and frames: a reaction point for the flows that it sends, a notification point for the
//! flows that it receives, and the choice between the two for each packet. It takes and returns values; rings and frames are in
//! [`NicProgram`](crate::NicProgram).

use crate::layout::ImageInfo;
use crate::remote_flows::RemoteFlowTable;
use crate::sizes::Sizes;
use cc_core::params::ParamError;
use cc_core::table::{BindError, Handle, Storage};
use cc_core::wire::opcode::Class;
use cc_core::wire::pfc::Quantum;
use cc_core::wire::{FlowKey, Nak, Pfc, Roce, Syndrome};
use cc_core::{Bytes, CnpBodyKind, Instant, Link, Nanos, Psn, Qpn, Zeroed};
use cc_np::{Flows, NotificationPoint, NpEngineIn, RxMeta, Transmit};
use cc_rp::{AckProgress, CnpFlow, RateLimiter, ReactionPoint, RpEngineIn};

/// Records in a set of received flows, and entries in a set of flows by their remote queue pair number.
pub(crate) const WAYS: usize = 4;

/// Metadata of a received packet that is not in its headers. Each method decodes one part of the descriptor, and is called only
/// if that part is needed.
pub trait RxInfo {
    /// The bytes that an acknowledgement newly acknowledges and their round-trip time, from the transport.
    fn progress(&self) -> AckProgress;

    /// For a data packet: its sender's queue pair, its arrival time, and the fields of its acknowledgement.
    fn rx(&self) -> RxMeta;

    /// CNPs that the front end has coalesced into this one, at least 1.
    fn coalesced(&self) -> u32;
}

/// Metadata of a received packet that is not in its headers, as values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RxFields {
    /// For an acknowledgement, the bytes that it newly acknowledges.
    pub acked: Bytes,
    /// For an acknowledgement, the time since the newest packet that it acknowledges was sent, if that was measured.
    pub rtt: Option<Nanos>,
    /// For a data packet, the sender's queue pair, if the connection is known.
    pub remote: Option<Qpn>,
    /// For a data packet, the message sequence number of its acknowledgement, if it is to be acknowledged.
    pub msn: Option<u32>,
    /// The arrival time of the packet.
    pub arrived: Instant,
    /// Fill level of the receive buffers, 0 to 31.
    pub rx_buffer_level: u8,
    /// For a CNP, the number of CNPs that the front end has coalesced into this one, at least 1.
    pub coalesced: u32,
}

impl RxFields {
    /// Metadata of a packet of which only the arrival time is known.
    pub const fn at(arrived: Instant) -> Self {
        Self { acked: Bytes::ZERO, rtt: None, remote: None, msn: None, arrived, rx_buffer_level: 0, coalesced: 1 }
    }
}

impl RxInfo for RxFields {
    fn progress(&self) -> AckProgress {
        AckProgress { acked: self.acked, rtt: self.rtt }
    }

    fn rx(&self) -> RxMeta {
        RxMeta {
            remote: self.remote,
            msn: self.msn,
            arrived: self.arrived.stamp(),
            rx_buffer_level: self.rx_buffer_level,
        }
    }

    fn coalesced(&self) -> u32 {
        self.coalesced
    }
}

/// The hardware that a NIC drives: the rate limiter (pacer), and the transmitter of CNPs and acknowledgements.
///
/// A type that implements both traits implements this one. If the two are different types, as in firmware, the reaction point's
/// code is compiled once, for the rate limiter.
pub trait Outputs {
    /// The rate limiter.
    type Limiter: RateLimiter;
    /// The transmitter.
    type Transmit: Transmit;

    /// The rate limiter, which spaces the packets of a flow.
    fn limiter(&mut self) -> &mut Self::Limiter;

    /// The transmitter of CNPs and acknowledgements.
    fn transmit(&mut self) -> &mut Self::Transmit;
}

impl<T: RateLimiter + Transmit> Outputs for T {
    type Limiter = T;
    type Transmit = T;

    #[inline(always)]
    fn limiter(&mut self) -> &mut T {
        self
    }

    #[inline(always)]
    fn transmit(&mut self) -> &mut T {
        self
    }
}

/// Class of a received packet, and the flow of this NIC whose state it changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// A CNP; no flow if it was ignored, for a reason that the reaction point counts.
    Cnp(Option<Handle>),
    /// A positive acknowledgement; no flow if the algorithm does not use it or the flow is unknown.
    Ack(Option<Handle>),
    /// A negative acknowledgement for a sequence error; likewise.
    Nack(Option<Handle>),
    /// A negative acknowledgement of another kind, or an acknowledgement whose header is reserved: nothing that congestion
    /// control uses.
    OtherNak,
    /// A packet for one of our queue pairs, which went to the notification point.
    Data,
    /// A packet whose opcode is reserved or the manufacturer's own.
    UnknownOpcode,
}

/// One port of a NIC.
// The reaction point comes first, so that short load and store offsets reach its small fields.
#[repr(C)]
pub struct Nic<A: ReactionPoint, N: NotificationPoint, S: Sizes> {
    rp: RpEngineIn<A, S::Flows, S::QpnMap>,
    np: NpEngineIn<N, S::Peers, WAYS>,
    remotes: RemoteFlowTable<S::Remotes, WAYS>,
    quantum: Quantum,
}

impl<A: ReactionPoint, N: NotificationPoint, S: Sizes> Zeroed for Nic<A, N, S> {
    const ZEROED: Self =
        Self { rp: Zeroed::ZEROED, np: Zeroed::ZEROED, remotes: Zeroed::ZEROED, quantum: Quantum::ZEROED };
}

impl<A: ReactionPoint, N: NotificationPoint, S: Sizes> Nic<A, N, S> {
    /// Bytes that each QP adds: at the reaction point, and to the table of remote queue pair numbers.
    pub const QP_BYTES: usize =
        RpEngineIn::<A, S::Flows, S::QpnMap>::QP_BYTES + RemoteFlowTable::<S::Remotes, WAYS>::ENTRY_BYTES;

    /// Bytes of a received flow's record at the notification point, with its key.
    pub const PEER_BYTES: usize = <N::Flows<S::Peers, WAYS> as Flows<N>>::RECORD_BYTES;

    /// Received flows for which there is room; zero if that is not fixed.
    pub const PEERS: usize = <N::Flows<S::Peers, WAYS> as Flows<N>>::ROOM;

    /// The start-up report of an image with this NIC.
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

    /// A NIC without flows.
    ///
    /// # Errors
    /// A setting out of range, or wrong on this port.
    pub fn new(start: Instant, link: Link, rp: &A::Settings, np: &N::Settings) -> Result<Self, ParamError> {
        let mut nic = Self::ZEROED;
        nic.begin(start, link, rp, np)?;
        Ok(nic)
    }

    /// Sets up a zeroed NIC in place, as [`Nic::new`] does by value.
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

    /// Makes room for `flows` flows sent and `peers` flows received, if the memory is on the heap. A NIC never grows by itself,
    /// and never shrinks. Open flows and the records of received flows are kept. The table of remote queue pair numbers is
    /// emptied: call [`Nic::learn_remote`] for each flow afterwards.
    pub fn grow(&mut self, flows: usize, peers: usize) {
        self.rp.grow(flows);
        self.np.grow(peers.div_ceil(WAYS));
        // A set for each flow: of sets of four ways that are a quarter full, one in 150,000 would need a fifth.
        self.remotes.grow(flows);
    }

    /// The reaction point.
    pub const fn rp(&self) -> &RpEngineIn<A, S::Flows, S::QpnMap> {
        &self.rp
    }

    /// The notification point.
    pub const fn np(&self) -> &NpEngineIn<N, S::Peers, WAYS> {
        &self.np
    }

    /// The notification point, to change its parameters or disable it while it runs.
    pub const fn np_mut(&mut self) -> &mut NpEngineIn<N, S::Peers, WAYS> {
        &mut self.np
    }

    /// Opens a flow of PFC priority `priority`, 0 to 7. If there is no room, counts this and returns `None`.
    pub fn open(&mut self, now: Instant, priority: u8, hw: &mut impl RateLimiter) -> Option<Handle> {
        self.rp.open(now, priority, hw)
    }

    /// Binds a flow to the local queue pair number that its CNPs and acknowledgements carry as destination.
    ///
    /// # Errors
    /// As for [`RpEngineIn::bind`]. A flow that is not bound gets no CNPs; each of them is counted as ignored.
    pub fn bind(&mut self, flow: Handle, local: Qpn) -> Result<(), BindError> {
        self.rp.bind(flow, local)
    }

    /// Stores the name that switches use for a flow: its addresses and its remote queue pair number. Returns whether the flow
    /// is open and there was room.
    pub fn learn_remote(&mut self, flow: Handle, key: FlowKey) -> bool {
        let rp = &self.rp;
        let is_open = |handle| rp.state(handle).is_some();
        is_open(flow) && self.remotes.learn(key, flow, is_open)
    }

    /// Closes a flow, and returns whether it was open.
    pub fn close(&mut self, flow: Handle) -> bool {
        self.rp.close(flow)
    }

    /// Removes the record of the flow received by a local queue pair; called when that queue pair is destroyed.
    pub fn forget(&mut self, local: Qpn) {
        self.np.forget(local);
    }

    /// The state of a flow that this NIC sends, with named fields; `None` when the flow is closed. This and the three functions
    /// below are for harnesses; no image calls them.
    pub fn snapshot(&self, flow: Handle) -> Option<A::Snapshot> {
        self.rp.snapshot(flow)
    }

    /// Replaces the state of a flow, and decides as at a wake. Returns whether the flow is open.
    pub fn inject(&mut self, now: Instant, flow: Handle, snapshot: A::Snapshot, hw: &mut impl RateLimiter) -> bool {
        self.rp.inject(now, flow, snapshot, hw)
    }

    /// The record of a flow that this NIC receives by a local queue pair; `None` when there is none.
    pub fn snapshot_received(&self, local: Qpn) -> Option<N::Snapshot> {
        self.np.snapshot(local)
    }

    /// Replaces the record of a received flow. Returns whether there was one, and the new record names the same flow.
    pub fn inject_received(&mut self, local: Qpn, snapshot: N::Snapshot) -> bool {
        self.np.inject(local, snapshot)
    }

    // Each call of an engine is a function that is not inlined, so that a harness can measure the cycles of each kind of event.

    /// Called when the device has sent data of a flow; `psn` is that of the last packet.
    #[inline(never)]
    pub fn sent(&mut self, now: Instant, flow: Handle, psn: Psn, bytes: Bytes, hw: &mut impl RateLimiter) {
        self.rp.sent(now, flow, psn, bytes, hw);
    }

    /// Called when a RoCE packet has arrived, whose ICRC has been checked.
    #[inline(always)]
    pub fn received(&mut self, now: Instant, packet: &Roce<'_>, info: &impl RxInfo, hw: &mut impl Outputs) -> Received {
        if let Some(feedback) = self.feedback(now, packet, info, hw.limiter()) {
            return feedback;
        }
        self.data(now, packet, info, hw.transmit());
        if packet.info.class() == Class::Unknown { Received::UnknownOpcode } else { Received::Data }
    }

    /// The part of [`Nic::received`] for packets with feedback for flows that this NIC sends; `None` for any other packet.
    #[inline(always)]
    pub fn feedback(
        &mut self,
        now: Instant,
        packet: &Roce<'_>,
        info: &impl RxInfo,
        hw: &mut impl RateLimiter,
    ) -> Option<Received> {
        Some(match packet.info.class() {
            Class::Cnp => {
                let mut body_kind = packet.cnp().unwrap_or_default();
                let flow = CnpFlow::of(packet, &mut body_kind, |key| self.remotes.find(key));
                let flow = self.cnp(now, packet, flow, &body_kind, hw);
                let coalesced = info.coalesced();
                if coalesced > 1 && flow.is_some() {
                    self.rp.count_coalesced(coalesced.saturating_sub(1));
                }
                Received::Cnp(flow)
            }
            Class::Ack => match packet.aeth().map(|aeth| aeth.syndrome) {
                Some(Syndrome::Ack { .. }) => Received::Ack(self.ack(now, packet, info, hw)),
                Some(Syndrome::Nak(Nak::PsnSequence)) => {
                    Received::Nack(self.nack(now, packet.bth.dest_qp, packet.bth.psn, hw))
                }
                _ => Received::OtherNak,
            },
            _ => return None,
        })
    }

    #[inline(never)]
    fn cnp(
        &mut self,
        now: Instant,
        packet: &Roce<'_>,
        flow: CnpFlow,
        body_kind: &CnpBodyKind,
        hw: &mut impl RateLimiter,
    ) -> Option<Handle> {
        let step = self.rp.cnp(now, packet, flow, body_kind, hw);
        step.map(|step| step.handle)
    }

    #[inline(never)]
    fn ack(
        &mut self,
        now: Instant,
        packet: &Roce<'_>,
        info: &impl RxInfo,
        hw: &mut impl RateLimiter,
    ) -> Option<Handle> {
        let step = self.rp.ack(now, packet, info.progress(), hw);
        step.map(|step| step.handle)
    }

    #[inline(never)]
    fn nack(&mut self, now: Instant, qpn: Qpn, psn: Psn, hw: &mut impl RateLimiter) -> Option<Handle> {
        let step = self.rp.nack(now, qpn, psn, hw);
        step.map(|step| step.handle)
    }

    /// Handles a packet for one of our QPs. The notification point may send a CNP or an acknowledgement for it.
    #[inline(never)]
    fn data(&mut self, now: Instant, packet: &Roce<'_>, info: &impl RxInfo, hw: &mut impl Transmit) {
        self.np.arrival(now, packet, info.rx(), hw);
    }

    /// Called when a PFC frame has arrived.
    #[inline(never)]
    pub fn pause(&mut self, now: Instant, pfc: &Pfc) {
        let (mut enabled, mut priority) = (u32::from(pfc.enabled), 0);
        while enabled != 0 {
            if let Some(quanta) = pfc.time(priority) {
                self.rp.pause(now, priority, self.quantum.pause(quanta));
            }
            (enabled, priority) = (enabled >> 1, priority.wrapping_add(1));
        }
    }

    /// Handles what is due for one flow that this NIC sends, and for the notification point. Returns the flow's slot. Call it
    /// again as long as [`Nic::next_wake`] is not after `now`.
    #[inline(always)]
    pub fn timer(&mut self, now: Instant, hw: &mut impl Outputs) -> Option<u16> {
        let due = self.sender_timer(now, hw.limiter());
        self.turn(now, hw.transmit());
        due
    }

    /// The part of [`Nic::timer`] for flows that this NIC sends.
    #[inline(always)]
    pub fn sender_timer(&mut self, now: Instant, hw: &mut impl RateLimiter) -> Option<u16> {
        let due = self.rp.pop_due(now, hw);
        if let Some(index) = due {
            self.wake(index, hw);
        }
        due
    }

    #[inline(never)]
    fn wake(&mut self, index: u16, hw: &mut impl RateLimiter) {
        self.rp.wake_slot(index, hw);
    }

    /// Handles what is due for the notification point.
    #[inline(never)]
    fn turn(&mut self, now: Instant, hw: &mut impl Transmit) {
        self.np.wake(now, hw);
    }

    /// The time at which [`Nic::timer`] is to be called next: within half a second of the last call of either engine.
    pub fn next_wake(&self) -> Instant {
        self.rp.last_call().after(self.rp.next_wake()).min(self.np.last_call().after(self.np.next_wake()))
    }

    /// The time at which [`Nic::timer`] is to be called at the latest, for callers that are exactly on time: within a second of the
    /// last call of either engine. See [`cc_rp::RpEngineIn::latest_wake`].
    pub fn latest_wake(&self) -> Instant {
        self.rp.last_call().after(self.rp.latest_wake()).min(self.np.last_call().after(self.np.latest_wake()))
    }

    /// For hardware without a pacer: called when a packet of a flow with this many bytes is sent. Returns the time for which
    /// the flow's next packet has to wait; `None` if the flow is not open.
    pub fn departure(&mut self, now: Instant, flow: Handle, bytes: Bytes) -> Option<Nanos> {
        self.rp.departure(now, flow, bytes)
    }
}
