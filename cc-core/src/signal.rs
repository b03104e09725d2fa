//! The signals that congestion points (switches) and notification points (receivers) send, as values.

use crate::Zeroed;
use crate::units::{Bytes, Nanos, Qpn, Rate, Stamp};

/// The two ECN bits of an IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Ecn {
    /// `00`: the sender is not ECN-capable.
    #[default]
    NotEct,
    /// `01`: ECT(1).
    Ect1,
    /// `10`: ECT(0), what RoCE NICs send.
    Ect0,
    /// `11`: congestion experienced.
    Ce,
}

impl Zeroed for Ecn {
    const ZEROED: Self = Self::NotEct;
}

impl Ecn {
    /// The codepoint in the low two bits of a TOS or traffic-class byte.
    #[inline]
    pub const fn from_bits(tos: u8) -> Self {
        match tos & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits.
    #[inline]
    pub const fn to_bits(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::Ce => 3,
        }
    }
}

/// How congested the path was, as marked by switches. Ordered: the strongest mark wins.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Mark {
    /// No mark.
    #[default]
    None,
    /// TCD's "undetermined": the queue was held up by a pause.
    Undetermined,
    /// Congestion experienced.
    Congested,
}

/// What the sixteen reserved bytes of a CNP mean.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum CnpKind {
    /// Kind 0: an ordinary CNP.
    #[default]
    Standard,
    /// Kind 1: carries DCQCN+'s CNP period.
    Period,
    /// Kind 2: sent by an LSCC switch on behalf of the receiver.
    Direct,
    /// Kind 3: TCD saw only "undetermined" marks.
    Undetermined,
    /// Kind 4: MLCC's Switch-INT.
    SwitchInt,
    /// Kind 5: HPCC*'s direct INT.
    DirectInt,
}

/// The sixteen bytes behind a CNP's BTH, when they are not all zero.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CnpBody {
    /// What kind of CNP this is.
    pub kind: CnpKind,
    /// CE was seen since the last CNP.
    pub ce: bool,
    /// TCD's UE was seen since the last CNP.
    pub ue: bool,
    /// The flow is named by `remote_qpn`, not by the destination QP.
    pub names_remote_qpn: bool,
    /// Per-flow count of CNPs, compared serially to drop duplicates.
    pub seq: u16,
    /// DCQCN+'s period tau; zero otherwise.
    pub period: Nanos,
    /// Destination QP of the forward data flow, for CNPs that switches make; with the CNP's addresses it names the flow.
    pub remote_qpn: Qpn,
    /// The clock of the node that sent the CNP; zero where absent.
    pub stamp: Stamp,
}

impl CnpBody {
    /// Whether a switch sent it: it names its flow or carries telemetry, as CNPs of receivers never do.
    #[inline]
    pub const fn is_from_switch(&self) -> bool {
        self.names_remote_qpn || matches!(self.kind, CnpKind::Direct | CnpKind::SwitchInt | CnpKind::DirectInt)
    }

    /// The body that is passed to the flow's machine, without the name of the flow. A direct CNP becomes a standard one: a
    /// switch has no CNP count for a flow, so that its CNPs must not be compared with the receiver's count and discarded as
    /// old.
    pub const fn with_local_name(self) -> CnpBodyKind {
        match self.kind {
            CnpKind::Direct => CnpBodyKind::Standard,
            _ => CnpBodyKind::Extended(Self { names_remote_qpn: false, ..self }),
        }
    }
}

/// Contents of a CNP's 16 reserved bytes, as the reaction point reads them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum CnpBodyKind {
    /// Sixteen zero bytes, or bytes in an unknown format: it reports congestion, without further fields.
    #[default]
    Standard,
    /// A body in this project's format.
    Extended(CnpBody),
}

/// What a receiver grants a sender along with an acknowledgement.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Grant {
    /// Nothing.
    #[default]
    None,
    /// RCC's: the window that the receiver assigned, and the state of its port.
    Rcc {
        /// The window.
        window: Bytes,
        /// Flows that send to the port, at least 1.
        flows: u16,
        /// Utilisation of the port in the last round: bytes received over what its link carries, in 2^-16; saturates.
        utilisation: u16,
    },
    /// MLCC's: what the receiver computed for the path from its datacentre's interconnect switch to itself.
    Mlcc {
        /// C_R: the credit that the switch is to write into data from now on.
        credit: u16,
        /// R_credit: how fast the switch is to release the flow's queue.
        release: Rate,
        /// R_DQM: the rate to which the sender limits itself to control the length of that queue.
        advised_rate: Rate,
    },
}
