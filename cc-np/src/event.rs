//! The events of a flow at its receiver.

use cc_core::wire::shim::MlccData;
use cc_core::{Bytes, Ecn, IntStack, Mark, Nanos, Psn, Qpn, Stamp};

/// An event of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Event<'a> {
    /// A data packet arrived.
    Arrival(Arrival<'a>),
    /// The flow's slot in the round-robin order, see [`NotificationPoint::slot`](crate::NotificationPoint::slot).
    Slot,
}

/// A data packet of one flow arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Arrival<'a> {
    /// The local queue pair that it is for.
    pub local: Qpn,
    /// Its sequence number.
    pub psn: Psn,
    /// Bytes on the wire.
    pub bytes: Bytes,
    /// Bytes of payload, without headers, shims, pad and checksums; zero for an empty message.
    pub payload: Bytes,
    /// Its ECN bits.
    pub ecn: Ecn,
    /// The mark that they stand for in this network.
    pub mark: Mark,
    /// It begins a message (opcode "first" or "only").
    pub first: bool,
    /// It ends a message (opcode "last" or "only").
    pub last: bool,
    /// When it was sent, by its sender's clock; `None` without a time stamp. Set for machines that
    /// [reply](crate::NotificationPoint::REPLIES) only.
    pub sent: Option<Stamp>,
    /// When it arrived, by the caller's clock, which may jump.
    pub arrived: Stamp,
    /// Its in-band telemetry. Set for machines that reply and have [`TELEMETRY`](crate::NotificationPoint::TELEMETRY) only.
    pub int: IntStack<'a>,
    /// What MLCC's interconnect switch wrote into it. Set for the same machines as `int`.
    pub mlcc: Option<MlccData>,
}

impl Arrival<'_> {
    /// One-way delay of the packet, modulo 2^32 ns, plus the unknown offset of the two clocks; `None` where the packet has no
    /// time stamp.
    #[inline]
    pub fn one_way(&self) -> Option<Nanos> {
        self.sent.map(|sent| self.arrived.since(sent))
    }
}

/// What the caller passes with a frame because the frame does not contain it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RxMeta {
    /// The sender's queue pair number, from the connection's context; `None` if not known.
    pub remote: Option<Qpn>,
    /// The 24-bit message sequence number for an acknowledgement of this packet and of all before it. `None` where the engine
    /// sends no acknowledgement: the packet is out of order, or the transport writes the acknowledgement itself.
    pub msn: Option<u32>,
    /// When the frame arrived.
    pub arrived: Stamp,
    /// Fill level of the receive buffers, from 0 (empty) to 31 (full).
    pub rx_buffer_level: u8,
}

impl RxMeta {
    /// Metadata of a frame that arrived at `arrived` from the queue pair `remote`, with nothing to acknowledge and with empty
    /// receive buffers.
    #[inline]
    pub const fn new(arrived: Stamp, remote: Option<Qpn>) -> Self {
        Self { remote, msn: None, arrived, rx_buffer_level: 0 }
    }
}
