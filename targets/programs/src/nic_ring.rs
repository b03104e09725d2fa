//! The NIC program: descriptors in, decisions and frames out. It parses frames, checks their ICRC, counts them by kind, and
//! builds the frames that the NIC sends.
//!
//! Firmware and host run this same code, on different implementations of [`Hardware`].

use crate::descriptor::{Descriptor, DescriptorKind};
use crate::header_cache::HeaderCache;
use crate::layout::ImageInfo;
use crate::nic::{Nic, Outputs, Received, RxInfo, WAYS};
use crate::sizes::Sizes;
use cc_core::params::ParamError;
use cc_core::table::{Handle, Storage};
use cc_core::wire::{self, AckFields, CnpMarking, Crc32, FlowKey, Icrc, Parsed, Response, Roce};
use cc_core::{Bytes, CnpBodyKind, Instant, Link, Nanos, Psn, Qpn, Zeroed};
use cc_np::{Flows, NotSent, NotificationPoint, RxMeta, Transmit};
use cc_rp::{AckProgress, RateLimiter, ReactionPoint};
use core::marker::PhantomData;

/// Kind of a record of the event log: the event that the program handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u32)]
pub enum LogKind {
    /// Nothing was done: a descriptor of an unknown kind, or a descriptor of the driver with a frame that shows no connection.
    Nothing = 0,
    /// A packet was sent.
    Sent = 1,
    /// An acknowledgement arrived.
    Ack = 2,
    /// A negative acknowledgement arrived.
    Nack = 3,
    /// A CNP arrived.
    Cnp = 4,
    /// The timer was handled.
    Wake = 5,
    /// Data arrived.
    Data = 6,
    /// A PFC frame arrived.
    Pause = 7,
    /// A flow was opened; the log's index is its whole handle.
    Open = 8,
    /// A flow was bound to its local QPN.
    Bind = 9,
    /// A flow was closed.
    Close = 10,
    /// The remote queue pair of a local queue pair, or of a flow, was learnt or removed.
    Connect = 11,
    /// A frame was discarded: its headers are cut short or contradict each other.
    Malformed = 12,
    /// A frame was discarded: its ICRC is wrong.
    IcrcInvalid = 13,
    /// A frame was discarded: it is neither RoCE nor PFC.
    NotRoce = 14,
    /// A negative acknowledgement arrived that congestion control does not use: for another reason than a sequence error.
    OtherNak = 15,
    /// A packet arrived whose opcode is reserved or the manufacturer's own.
    UnknownOpcode = 16,
}

impl LogKind {
    /// Number of kinds.
    pub const COUNT: usize = Self::UnknownOpcode as usize + 1;

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
            12 => Self::Malformed,
            13 => Self::IcrcInvalid,
            14 => Self::NotRoce,
            15 => Self::OtherNak,
            16 => Self::UnknownOpcode,
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
            Self::Malformed => "malformed",
            Self::IcrcInvalid => "icrc_invalid",
            Self::NotRoce => "not_roce",
            Self::OtherNak => "nak_other",
            Self::UnknownOpcode => "unknown_opcode",
        }
    }
}

impl Received {
    /// The kind of the log record of a received packet, and its flow.
    #[inline(always)]
    pub const fn logged(self) -> (LogKind, Option<Handle>) {
        match self {
            Self::Cnp(flow) => (LogKind::Cnp, flow),
            Self::Ack(flow) => (LogKind::Ack, flow),
            Self::Nack(flow) => (LogKind::Nack, flow),
            Self::OtherNak => (LogKind::OtherNak, None),
            Self::Data => (LogKind::Data, None),
            Self::UnknownOpcode => (LogKind::UnknownOpcode, None),
        }
    }
}

/// The index of a log record without a flow.
pub const NO_FLOW: u32 = u32::MAX;

/// The transmit ring of a device.
pub trait TransmitRing {
    /// The next free buffer of the ring; empty when the ring is full.
    fn transmit_buffer(&mut self) -> &mut [u8];

    /// Sends the first `length` bytes of that buffer.
    fn transmit(&mut self, length: usize);

    /// For harnesses: see [`Transmit::on_transition`].
    #[inline(always)]
    fn on_transition(&mut self, transition: impl FnOnce() -> usize) {
        let _ = transition;
    }
}

/// The hardware that the NIC program drives: the pacer, the transmit ring, the event log.
pub trait Hardware: RateLimiter + TransmitRing {
    /// The CRC engine for the ICRC of frames sent and received.
    type Crc: Crc32;

    /// Logs one record for each descriptor and each wake: its kind, the time that was passed to the engines, and the flow's
    /// slot, or [`NO_FLOW`].
    fn log(&mut self, kind: LogKind, now: Instant, index: u32);
}

/// Builds the frames that a NIC sends, in a transmit ring.
pub struct FrameOut<'a, H, S: Storage, E> {
    ring: &'a mut H,
    headers: &'a HeaderCache<S, WAYS>,
    crc: PhantomData<E>,
}

impl<'a, H, S: Storage, E> FrameOut<'a, H, S, E> {
    /// Frames go into `ring`. CNPs that are sent while no packet of their flow is handled take their headers from `headers`.
    #[inline(always)]
    pub const fn new(ring: &'a mut H, headers: &'a HeaderCache<S, WAYS>) -> Self {
        Self { ring, headers, crc: PhantomData }
    }
}

impl<H: RateLimiter + TransmitRing, S: Storage, E: Crc32> Outputs for FrameOut<'_, H, S, E> {
    type Limiter = H;
    type Transmit = Self;

    #[inline(always)]
    fn limiter(&mut self) -> &mut H {
        self.ring
    }

    #[inline(always)]
    fn transmit(&mut self) -> &mut Self {
        self
    }
}

impl<H: TransmitRing, S: Storage, E: Crc32> Transmit for FrameOut<'_, H, S, E> {
    #[inline(always)]
    fn cnp(&mut self, cause: &Roce<'_>, to: Qpn, body_kind: CnpBodyKind, marking: CnpMarking) -> Result<(), NotSent> {
        emit::<E>(&Response::cnp(cause, to, body_kind, marking), self.ring)
    }

    #[inline(always)]
    fn slot_cnp(&mut self, local: Qpn, body_kind: CnpBodyKind, marking: CnpMarking) -> Result<(), NotSent> {
        let headers = self.headers.find(local).ok_or(NotSent::Unaddressed)?;
        emit::<E>(&headers.cnp(body_kind, marking), self.ring)
    }

    #[inline(always)]
    fn ack(&mut self, cause: &Roce<'_>, to: Qpn, fields: &AckFields) -> Result<(), NotSent> {
        emit::<E>(&Response::ack(cause, to, fields), self.ring)
    }

    #[inline(always)]
    fn on_transition(&mut self, transition: impl FnOnce() -> usize) {
        TransmitRing::on_transition(self.ring, transition);
    }
}

#[inline(always)]
fn emit<E: Crc32>(frame: &Response<'_>, ring: &mut impl TransmitRing) -> Result<(), NotSent> {
    let length = frame.emit::<E>(ring.transmit_buffer()).map_err(|_| NotSent::Full)?;
    ring.transmit(length);
    Ok(())
}

impl RxInfo for Descriptor {
    #[inline(always)]
    fn progress(&self) -> AckProgress {
        let rtt = (self.rtt != Self::UNKNOWN_RTT).then_some(Nanos::new(self.rtt));
        AckProgress { acked: Bytes::new(self.acked), rtt }
    }

    #[inline(always)]
    fn rx(&self) -> RxMeta {
        RxMeta {
            remote: (self.qpn != Self::UNKNOWN_QPN).then(|| Qpn::new(self.qpn)),
            msn: (self.msn != Self::NO_ACK).then_some(self.msn),
            arrived: Instant::from_nanos(self.now()).stamp(),
            rx_buffer_level: (self.handle & 0x1f) as u8,
        }
    }

    #[inline(always)]
    fn coalesced(&self) -> u32 {
        self.coalesced
    }
}

/// Counters of received frames: every frame of a descriptor of kind [`Frame`](DescriptorKind::Frame) is in exactly one.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct RxCounters {
    /// CNPs, acted on or ignored: the reaction point counts which.
    pub cnp: u32,
    /// Positive acknowledgements.
    pub ack: u32,
    /// Negative acknowledgements of sequence errors.
    pub nack: u32,
    /// Packets that went to the notification point.
    pub data: u32,
    /// PFC frames.
    pub pause: u32,
    /// Discarded: headers are cut short, or contradict each other.
    pub malformed: u32,
    /// Discarded: the ICRC is wrong.
    pub icrc_invalid: u32,
    /// Discarded: neither RoCE nor PFC.
    pub not_roce: u32,
    /// Discarded: negative acknowledgements of other faults than sequence errors, and reserved ones.
    pub nak_other: u32,
    /// Packets with a reserved opcode, or one of the manufacturer's own.
    pub unknown_opcode: u32,
}

impl RxCounters {
    /// The counters, from the numbers of log records of each kind.
    pub const fn of_kinds(kinds: &[u32; LogKind::COUNT]) -> Self {
        let [
            _,
            _,
            ack,
            nack,
            cnp,
            _,
            data,
            pause,
            _,
            _,
            _,
            _,
            malformed,
            icrc_invalid,
            not_roce,
            nak_other,
            unknown_opcode,
        ] = *kinds;
        Self { cnp, ack, nack, data, pause, malformed, icrc_invalid, not_roce, nak_other, unknown_opcode }
    }

    /// The counters with their names.
    pub const fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("rx_cnp", self.cnp as u64),
            ("rx_ack", self.ack as u64),
            ("rx_nack", self.nack as u64),
            ("rx_data", self.data as u64),
            ("rx_pause", self.pause as u64),
            ("rx_malformed", self.malformed as u64),
            ("rx_icrc_invalid", self.icrc_invalid as u64),
            ("rx_not_roce", self.not_roce as u64),
            ("rx_nak_other", self.nak_other as u64),
            ("rx_unknown_opcode", self.unknown_opcode as u64),
        ]
    }
}

/// The headers that a NIC of this notification point needs, with `P` sets of received flows.
pub type HeaderCacheOf<N, P> = HeaderCache<<<N as NotificationPoint>::Flows<P, WAYS> as Flows<N>>::HeaderSets, WAYS>;

/// The NIC of one port on a receive ring of descriptors.
#[repr(C)]
pub struct NicProgram<A: ReactionPoint, N: NotificationPoint, S: Sizes> {
    /// Log records of each kind, modulo 2^32. First, because each frame changes one.
    kinds: [u32; LogKind::COUNT],
    nic: Nic<A, N, S>,
    headers: HeaderCacheOf<N, S::Peers>,
}

impl<A: ReactionPoint, N: NotificationPoint, S: Sizes> Zeroed for NicProgram<A, N, S> {
    const ZEROED: Self = Self { nic: Zeroed::ZEROED, kinds: Zeroed::ZEROED, headers: Zeroed::ZEROED };
}

impl<A: ReactionPoint, N: NotificationPoint, S: Sizes> NicProgram<A, N, S> {
    /// The start-up report of an image with this program.
    pub const INFO: ImageInfo = Nic::<A, N, S>::INFO;

    /// A NIC without flows.
    ///
    /// # Errors
    /// A setting out of range, or wrong on this port.
    pub fn new(start: Instant, link: Link, rp: &A::Settings, np: &N::Settings) -> Result<Self, ParamError> {
        let mut program = Self::ZEROED;
        program.begin(start, link, rp, np)?;
        Ok(program)
    }

    /// Sets up a zeroed NIC in place, as [`NicProgram::new`] does by value.
    ///
    /// # Errors
    /// As for [`NicProgram::new`].
    #[inline(always)]
    pub fn begin(&mut self, start: Instant, link: Link, rp: &A::Settings, np: &N::Settings) -> Result<(), ParamError> {
        self.nic.begin(start, link, rp, np)
    }

    /// Makes room if the memory is on the heap, see [`Nic::grow`].
    pub fn grow(&mut self, flows: usize, peers: usize) {
        self.nic.grow(flows, peers);
        self.headers.grow(peers.div_ceil(WAYS));
    }

    /// The NIC.
    pub const fn nic(&self) -> &Nic<A, N, S> {
        &self.nic
    }

    /// Counters of the frames received so far.
    pub const fn rx_counters(&self) -> RxCounters {
        RxCounters::of_kinds(&self.kinds)
    }

    /// Handles one descriptor at `now`; `frame` holds the bytes that came with it, none for most kinds.
    ///
    /// The descriptor's own time is that of the event at the device. The engines are passed the later time `now` at which they
    /// are called, so that it is never before the time of a wake in between.
    #[inline(never)]
    pub fn handle<H: Hardware>(&mut self, now: Instant, descriptor: &Descriptor, frame: &[u8], hw: &mut H) {
        const FRAME: u8 = DescriptorKind::Frame as u8;
        const SENT: u8 = DescriptorKind::Sent as u8;
        let (kind, index) = match descriptor.kind {
            FRAME => match &wire::parse(frame, descriptor.wire_bytes as usize) {
                Ok(packet) => self.take(now, descriptor, packet, hw),
                Err(_) => (LogKind::Malformed, NO_FLOW),
            },
            SENT => {
                let flow = Handle::from_bits(descriptor.handle);
                self.nic.sent(now, flow, Psn::new(descriptor.psn), Bytes::new(descriptor.wire_bytes), hw);
                (LogKind::Sent, u32::from(flow.index()))
            }
            _ => self.order(now, descriptor, frame, hw),
        };
        self.log(kind, now, index, hw);
    }

    /// Handles a descriptor that came with a frame, which has been parsed.
    #[inline]
    pub fn arrival<H: Hardware>(&mut self, now: Instant, descriptor: &Descriptor, packet: &Parsed<'_>, hw: &mut H) {
        let (kind, index) = if descriptor.kind == DescriptorKind::Frame as u8 {
            self.take(now, descriptor, packet, hw)
        } else {
            self.learn(now, descriptor, packet)
        };
        self.log(kind, now, index, hw);
    }

    #[inline(always)]
    fn log(&mut self, kind: LogKind, now: Instant, index: u32, hw: &mut impl Hardware) {
        if let Some(count) = self.kinds.get_mut(kind as usize) {
            *count = count.wrapping_add(1);
        }
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
        let (kind, flow) = match packet {
            Parsed::Roce(roce)
                if descriptor.flags & Descriptor::ICRC_CHECKED == 0 && roce.icrc::<H::Crc>() == Icrc::Invalid =>
            {
                (LogKind::IcrcInvalid, None)
            }
            Parsed::Roce(roce) => {
                let mut out = FrameOut::<_, _, H::Crc>::new(hw, &self.headers);
                self.nic.received(now, roce, descriptor, &mut out).logged()
            }
            Parsed::Pfc(pfc) => {
                self.nic.pause(now, pfc);
                (LogKind::Pause, None)
            }
            Parsed::NotRoce(_) => (LogKind::NotRoce, None),
        };
        (kind, flow.map_or(NO_FLOW, |flow| u32::from(flow.index())))
    }

    /// Handles a descriptor of the driver, which opens, binds, closes, connects or disconnects a flow. To connect, it passes in a
    /// `frame` of the connection.
    // Apart from `handle`, in which it would take registers that each frame would save.
    #[cold]
    #[inline(never)]
    fn order<H: Hardware>(
        &mut self,
        now: Instant,
        descriptor: &Descriptor,
        frame: &[u8],
        hw: &mut H,
    ) -> (LogKind, u32) {
        const OPEN: u8 = DescriptorKind::Open as u8;
        const BIND: u8 = DescriptorKind::Bind as u8;
        const CLOSE: u8 = DescriptorKind::Close as u8;
        const DISCONNECT: u8 = DescriptorKind::Disconnect as u8;
        const CONNECT: u8 = DescriptorKind::Connect as u8;
        const LEARN_REMOTE: u8 = DescriptorKind::LearnRemote as u8;
        let handle = Handle::from_bits(descriptor.handle);
        let slot = u32::from(handle.index());
        match descriptor.kind {
            OPEN => {
                let opened = self.nic.open(now, (descriptor.handle & 7) as u8, hw);
                (LogKind::Open, opened.map_or(NO_FLOW, Handle::to_bits))
            }
            BIND => {
                let bound = self.nic.bind(handle, Qpn::new(descriptor.qpn));
                (LogKind::Bind, if bound.is_ok() { slot } else { NO_FLOW })
            }
            CLOSE => {
                self.nic.close(handle);
                (LogKind::Close, slot)
            }
            DISCONNECT => {
                let local = Qpn::new(descriptor.qpn);
                self.nic.forget(local);
                self.headers.remove(local);
                (LogKind::Connect, NO_FLOW)
            }
            CONNECT | LEARN_REMOTE => match &wire::parse(frame, descriptor.wire_bytes as usize) {
                Ok(packet) => self.learn(now, descriptor, packet),
                Err(_) => (LogKind::Nothing, NO_FLOW),
            },
            _ => (LogKind::Nothing, NO_FLOW),
        }
    }

    /// Learns a connection from a packet that the driver passes in, and returns the kind and flow for the log.
    #[inline(always)]
    fn learn(&mut self, now: Instant, descriptor: &Descriptor, packet: &Parsed<'_>) -> (LogKind, u32) {
        let Parsed::Roce(roce) = packet else { return (LogKind::Nothing, NO_FLOW) };
        let (learnt, index) = if descriptor.kind == DescriptorKind::LearnRemote as u8 {
            let flow = Handle::from_bits(descriptor.handle);
            (self.nic.learn_remote(flow, FlowKey::of_data(roce)), u32::from(flow.index()))
        } else {
            let known = descriptor.qpn != Descriptor::UNKNOWN_QPN;
            (known && self.headers.learn(now.stamp(), roce, Qpn::new(descriptor.qpn)), NO_FLOW)
        };
        if learnt { (LogKind::Connect, index) } else { (LogKind::Nothing, NO_FLOW) }
    }

    /// Handles what is due for one flow. Call it repeatedly while [`NicProgram::next_wake`] is not after `now`.
    #[inline(never)]
    pub fn timer<H: Hardware>(&mut self, now: Instant, hw: &mut H) {
        let mut out = FrameOut::<_, _, H::Crc>::new(hw, &self.headers);
        let due = self.nic.timer(now, &mut out);
        self.log(LogKind::Wake, now, due.map_or(NO_FLOW, u32::from), hw);
    }

    /// The time at which [`NicProgram::timer`] is to be called next, see [`Nic::next_wake`].
    pub fn next_wake(&self) -> Instant {
        self.nic.next_wake()
    }
}
