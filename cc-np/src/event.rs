//! What can happen to a flow at its receiver.

use cc_core::wire::shim::MlccData;
use cc_core::{Bytes, Ecn, IntStack, Mark, Nanos, Psn, Qpn, Stamp};

/// Something that happens to a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Event<'a> {
    /// A data packet arrived.
    Arrival(Arrival<'a>),
    /// The flow's turn has come, see [`NotificationPoint::slot`](crate::NotificationPoint::slot).
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
    /// Bytes of payload, without headers, shims, pad and checks; zero for a message of none.
    pub payload: Bytes,
    /// Its ECN bits.
    pub ecn: Ecn,
    /// What they mean in this network.
    pub mark: Mark,
    /// It begins a message (opcode "first" or "only").
    pub first: bool,
    /// It ends a message (opcode "last" or "only").
    pub last: bool,
    /// When it was sent, by its sender's clock, for packets that say so; read for machines that
    /// [reply](crate::NotificationPoint::REPLIES) only.
    pub sent: Option<Stamp>,
    /// When it arrived, by the caller's clock as it is, which may jump.
    pub arrived: Stamp,
    /// What the switches wrote into it; read for machines that [live on that](crate::NotificationPoint::TELEMETRY) only.
    pub int: IntStack<'a>,
    /// What MLCC's interconnect switch wrote into it; read for the same machines.
    pub mlcc: Option<MlccData>,
}

impl Arrival<'_> {
    /// How long the packet was under way, modulo 2^32 ns and but for the difference of the two clocks; `None` where the
    /// packet does not say when it was sent.
    #[inline]
    pub fn one_way(&self) -> Option<Nanos> {
        self.sent.map(|sent| self.arrived.since(sent))
    }
}

/// What the caller knows of a frame, and the frame itself does not say.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RxMeta {
    /// The sender's queue pair, which the connection knows.
    pub remote: Option<Qpn>,
    /// The message sequence number, 24 bits, of an acknowledgement of this packet and of all before it; `None` where the
    /// transport has nothing to acknowledge: a packet out of turn, or an acknowledgement that it writes itself.
    pub msn: Option<u32>,
    /// When the frame arrived.
    pub arrived: Stamp,
    /// How full the receive buffers are, 0 to 31.
    pub rx_buffer_level: u8,
}

impl RxMeta {
    /// A frame that arrives this moment, of which nothing more is known than where it came from, if that.
    #[inline]
    pub const fn new(arrived: Stamp, remote: Option<Qpn>) -> Self {
        Self { remote, msn: None, arrived, rx_buffer_level: 0 }
    }
}
