//! What can happen to a flow at its sender. Facts, never instructions.

use cc_core::{Bytes, CnpHint, Mark, Nanos, Psn};

/// Something that happened to one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Event {
    /// The NIC put bytes of this flow on the wire; `bytes` may cover several packets, `psn` is the last.
    Sent {
        /// Sequence number of the last packet.
        psn: Psn,
        /// Bytes on the wire.
        bytes: Bytes,
    },
    /// An acknowledgement arrived.
    Ack {
        /// Everything up to here has arrived.
        psn: Psn,
        /// Bytes newly acknowledged.
        acked: Bytes,
        /// The mark that the receiver echoes.
        mark: Mark,
    },
    /// A negative acknowledgement: the receiver expects `psn`.
    Nack {
        /// The sequence number expected.
        psn: Psn,
    },
    /// A congestion notification packet arrived.
    Cnp {
        /// What its reserved bytes said.
        hint: CnpHint,
    },
    /// A round-trip time was measured.
    Rtt {
        /// The sample.
        sample: Nanos,
    },
    /// The priority of this flow was paused or resumed by PFC.
    Pause {
        /// Paused, or resumed.
        on: bool,
        /// Time until the pause runs out by itself.
        remaining: Nanos,
    },
    /// The deadline that the machine asked for has passed. Advisory: late, repeated and missing wakes
    /// change no decision.
    Wake,
}

/// A set of event kinds: those that a machine reacts to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventMask(u8);

impl EventMask {
    /// No event.
    pub const NONE: Self = Self(0);
    /// [`Event::Sent`].
    pub const SENT: Self = Self(1);
    /// [`Event::Ack`].
    pub const ACK: Self = Self(1 << 1);
    /// [`Event::Nack`].
    pub const NACK: Self = Self(1 << 2);
    /// [`Event::Cnp`].
    pub const CNP: Self = Self(1 << 3);
    /// [`Event::Rtt`].
    pub const RTT: Self = Self(1 << 4);
    /// [`Event::Pause`].
    pub const PAUSE: Self = Self(1 << 5);
    /// [`Event::Wake`].
    pub const WAKE: Self = Self(1 << 6);

    /// Both sets together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether some kind of `other` is in this set.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether every kind of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Event {
    /// The set that holds just this event's kind.
    #[inline]
    pub const fn kind(&self) -> EventMask {
        match self {
            Self::Sent { .. } => EventMask::SENT,
            Self::Ack { .. } => EventMask::ACK,
            Self::Nack { .. } => EventMask::NACK,
            Self::Cnp { .. } => EventMask::CNP,
            Self::Rtt { .. } => EventMask::RTT,
            Self::Pause { .. } => EventMask::PAUSE,
            Self::Wake => EventMask::WAKE,
        }
    }
}
