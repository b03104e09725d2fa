//! The acknowledgement extension header (IBTA volume 1, sections 9.3.5 and 9.7.5.2).

/// Why a request was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Nak {
    /// A packet is missing: the responder expects the PSN in the BTH.
    PsnSequence,
    /// The request is not valid.
    InvalidRequest,
    /// The remote key does not allow the access.
    RemoteAccess,
    /// The responder cannot complete the operation.
    RemoteOperational,
    /// A reliable-datagram request that is not valid.
    InvalidRdRequest,
    /// A reserved code, 5 to 31.
    Reserved(u8),
}

/// The meaning of an acknowledgement's syndrome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Syndrome {
    /// Received, up to the PSN in the BTH.
    Ack {
        /// Coded count of receive buffers, 0 to 31; 31 = not used.
        credits: u8,
    },
    /// Receiver not ready: retry later.
    RnrNak {
        /// Coded waiting time, 0 to 31.
        timer: u8,
    },
    /// Refused.
    Nak(Nak),
    /// A reserved syndrome: the whole byte.
    Reserved(u8),
}

impl Syndrome {
    /// The count of receive buffers that means that credits are not in use (IBTA volume 1, section 9.7.7.2).
    pub const NO_CREDITS: u8 = 31;

    /// The meaning of the syndrome byte.
    #[inline]
    pub const fn from_bits(bits: u8) -> Self {
        let value = bits & 0x1f;
        match bits >> 5 {
            0b000 => Self::Ack { credits: value },
            0b001 => Self::RnrNak { timer: value },
            0b011 => Self::Nak(match value {
                0 => Nak::PsnSequence,
                1 => Nak::InvalidRequest,
                2 => Nak::RemoteAccess,
                3 => Nak::RemoteOperational,
                4 => Nak::InvalidRdRequest,
                code => Nak::Reserved(code),
            }),
            _ => Self::Reserved(bits),
        }
    }

    /// The syndrome byte; bits that do not belong to a field are not sent.
    #[inline]
    pub const fn to_bits(self) -> u8 {
        match self {
            Self::Ack { credits } => credits & 0x1f,
            Self::RnrNak { timer } => 0x20 | timer & 0x1f,
            Self::Nak(nak) => {
                0x60 | match nak {
                    Nak::PsnSequence => 0,
                    Nak::InvalidRequest => 1,
                    Nak::RemoteAccess => 2,
                    Nak::RemoteOperational => 3,
                    Nak::InvalidRdRequest => 4,
                    Nak::Reserved(code) => code & 0x1f,
                }
            }
            Self::Reserved(bits) => bits,
        }
    }
}

/// An acknowledgement extension header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Aeth {
    /// The meaning of the syndrome byte.
    pub syndrome: Syndrome,
    /// Message sequence number, 24 bits; higher bits are not sent.
    pub msn: u32,
}

impl Default for Aeth {
    fn default() -> Self {
        Self { syndrome: Syndrome::from_bits(0), msn: 0 }
    }
}

impl Aeth {
    #[inline]
    pub(super) fn parse(bytes: &[u8; 4]) -> Self {
        let &[syndrome, msn0, msn1, msn2] = bytes;
        Self { syndrome: Syndrome::from_bits(syndrome), msn: u32::from_be_bytes([0, msn0, msn1, msn2]) }
    }

    /// The four bytes.
    #[inline]
    pub(super) fn word(self) -> u32 {
        u32::from(self.syndrome.to_bits()) << 24 | self.msn & 0x00ff_ffff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_syndrome_byte_is_read_back() {
        for bits in 0..=u8::MAX {
            assert_eq!(Syndrome::from_bits(bits).to_bits(), bits);
        }
    }

    #[test]
    fn a_missing_packet_is_0x60_and_a_receiver_not_ready_0x20() {
        assert_eq!(Syndrome::from_bits(0x60), Syndrome::Nak(Nak::PsnSequence));
        assert_eq!(Syndrome::from_bits(0x2a), Syndrome::RnrNak { timer: 10 });
        assert_eq!(Syndrome::from_bits(0x1f), Syndrome::Ack { credits: 31 });
    }
}
