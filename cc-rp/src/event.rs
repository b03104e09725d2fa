//! Events of a flow at its sender: what has happened, not what is to be done.

use cc_core::{Bytes, CnpBodyKind, Delay, Grant, IntStack, Mark, Nanos, Psn};

/// Something that happened to one flow. A PFC pause is not an event: it concerns the whole port, and machines read it from
/// [`Cx`](crate::Cx).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Event<'a> {
    /// The NIC put bytes of this flow on the wire; `bytes` may cover several packets, `psn` is the last.
    Sent {
        /// Sequence number of the last packet.
        psn: Psn,
        /// Bytes on the wire.
        bytes: Bytes,
    },
    /// An acknowledgement arrived.
    Ack(Ack<'a>),
    /// A negative acknowledgement: the receiver expects `psn`, and all packets from there on are sent again.
    Nack {
        /// The sequence number expected.
        psn: Psn,
    },
    /// A congestion notification packet arrived.
    Cnp {
        /// The body in its reserved bytes.
        body_kind: CnpBodyKind,
    },
    /// A switch returned the telemetry of the ports on the way to it, without waiting for the receiver: MLCC's Switch-INT
    /// and HPCC*'s direct INT.
    SwitchInt {
        /// The records, that of the port nearest to the sender first.
        int: IntStack<'a>,
    },
    /// The deadline of the machine's last decision has passed. Advisory: late, repeated and missing wakes
    /// change no decision.
    Wake,
}

/// An acknowledgement: its contents, and what the NIC's transport has measured.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ack<'a> {
    /// Everything up to here has arrived.
    pub psn: Psn,
    /// Bytes newly acknowledged, as sent on the wire; zero where nothing is new, or the transport does not report it.
    pub acked: Bytes,
    /// The strongest mark of the packets acknowledged.
    pub mark: Mark,
    /// The delay of the newest packet acknowledged, if it was measured.
    pub delay: Option<Delay>,
    /// The in-band telemetry that switches wrote into that packet.
    pub int: IntStack<'a>,
    /// What the receiver grants.
    pub grant: Grant,
}

/// What the NIC's transport measures for an acknowledgement, in addition to its contents.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct AckProgress {
    /// Bytes newly acknowledged, as sent on the wire.
    pub acked: Bytes,
    /// Round-trip time of the newest packet acknowledged, if the transport measures it.
    pub rtt: Option<Nanos>,
}

/// A set of event kinds: those that a machine reacts to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventSet(u8);

impl EventSet {
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
    /// [`Event::Wake`].
    pub const WAKE: Self = Self(1 << 4);
    /// [`Event::SwitchInt`].
    pub const SWITCH_INT: Self = Self(1 << 5);

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

impl Event<'_> {
    /// The set that holds just this event's kind.
    #[inline]
    pub const fn kind(&self) -> EventSet {
        match self {
            Self::Sent { .. } => EventSet::SENT,
            Self::Ack(_) => EventSet::ACK,
            Self::Nack { .. } => EventSet::NACK,
            Self::Cnp { .. } => EventSet::CNP,
            Self::SwitchInt { .. } => EventSet::SWITCH_INT,
            Self::Wake => EventSet::WAKE,
        }
    }
}

/// A set of signals: those from which an algorithm decides, in addition to its own timers.
///
/// Engines read only these from a frame, and a replay can report that a capture has none of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signals(u8);

impl Signals {
    /// No signal.
    pub const NONE: Self = Self(0);
    /// CNPs.
    pub const CNP: Self = Self(1);
    /// Marks that acknowledgements echo.
    pub const MARK: Self = Self(1 << 1);
    /// Round-trip times.
    pub const DELAY: Self = Self(1 << 2);
    /// In-band telemetry.
    pub const INT: Self = Self(1 << 3);
    /// What RCC's receivers grant.
    pub const GRANT: Self = Self(1 << 4);
    /// TCD's "undetermined" among the marks in CNPs or acknowledgements.
    pub const UNDETERMINED: Self = Self(1 << 5);
    /// In-band telemetry that switches send back to the sender.
    pub const SWITCH_INT: Self = Self(1 << 6);
    /// The rate that MLCC's receivers advise.
    pub const ADVISED_RATE: Self = Self(1 << 7);

    /// Both sets together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every signal of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
