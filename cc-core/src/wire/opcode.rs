//! The meaning of BTH opcodes: one table for all 256 (IBTA volume 1, sections 9.2 to 9.4, annexes A14 and A17).

/// The opcode of a congestion notification packet.
pub const CNP: u8 = 0x81;
/// The opcode of the first packet of a SEND over a reliable connection.
pub const SEND_FIRST: u8 = 0x00;
/// The opcode of a packet inside a SEND.
pub const SEND_MIDDLE: u8 = 0x01;
/// The opcode of the last packet of a SEND.
pub const SEND_LAST: u8 = 0x02;
/// The opcode of a SEND that is one packet.
pub const SEND_ONLY: u8 = 0x04;
/// The opcode of an RDMA READ request over a reliable connection.
pub const READ_REQUEST: u8 = 0x0c;
/// The opcode of the first packet of the response to an RDMA READ over a reliable connection.
pub const READ_RESPONSE_FIRST: u8 = 0x0d;
/// The opcode of a packet inside the response to an RDMA READ.
pub const READ_RESPONSE_MIDDLE: u8 = 0x0e;
/// The opcode of the last packet of the response to an RDMA READ.
pub const READ_RESPONSE_LAST: u8 = 0x0f;
/// The opcode of a response to an RDMA READ that is one packet.
pub const READ_RESPONSE_ONLY: u8 = 0x10;
/// The opcode of an acknowledgement over a reliable connection.
pub const ACKNOWLEDGE: u8 = 0x11;
/// The opcode of a datagram that is one packet, which management datagrams are.
pub const UD_SEND_ONLY: u8 = 0x64;

/// An extension header. Those that one packet carries follow each other in the order given here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Header {
    /// RDETH: reliable datagram.
    ReliableDatagram,
    /// DETH: datagram.
    Datagram,
    /// XRCETH: extended reliable connection.
    ExtendedConnection,
    /// RETH: RDMA.
    Rdma,
    /// AtomicETH: atomic request.
    Atomic,
    /// AETH: acknowledgement.
    Ack,
    /// AtomicAckETH: response to an atomic request.
    AtomicAck,
    /// ImmDt: immediate data.
    Immediate,
    /// IETH: invalidation.
    Invalidate,
    /// The sixteen reserved bytes of a CNP.
    Cnp,
}

impl Header {
    /// Every header, in the order in which packets carry them.
    pub const ALL: [Self; 10] = [
        Self::ReliableDatagram,
        Self::Datagram,
        Self::ExtendedConnection,
        Self::Rdma,
        Self::Atomic,
        Self::Ack,
        Self::AtomicAck,
        Self::Immediate,
        Self::Invalidate,
        Self::Cnp,
    ];

    /// Its size in bytes.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Self::ReliableDatagram | Self::ExtendedConnection => 4,
            Self::Ack | Self::Immediate | Self::Invalidate => 4,
            Self::Datagram | Self::AtomicAck => 8,
            Self::Rdma | Self::Cnp => 16,
            Self::Atomic => 28,
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// The operation that a packet is part of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Class {
    /// A part of a SEND.
    Send,
    /// A part of an RDMA WRITE.
    Write,
    /// An RDMA READ request.
    ReadRequest,
    /// A part of the response to an RDMA READ.
    ReadResponse,
    /// An atomic request: compare and swap, or fetch and add.
    Atomic,
    /// The response to an atomic request.
    AtomicAck,
    /// An acknowledgement, positive or negative.
    Ack,
    /// Reliable datagram's RESYNC.
    Resync,
    /// A congestion notification packet.
    Cnp,
    /// Reserved, or the manufacturer's own.
    Unknown,
}

impl Class {
    /// Every class, in the order of declaration.
    pub const ALL: [Self; 10] = [
        Self::Send,
        Self::Write,
        Self::ReadRequest,
        Self::ReadResponse,
        Self::Atomic,
        Self::AtomicAck,
        Self::Ack,
        Self::Resync,
        Self::Cnp,
        Self::Unknown,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Write => "write",
            Self::ReadRequest => "read_request",
            Self::ReadResponse => "read_response",
            Self::Atomic => "atomic",
            Self::AtomicAck => "atomic_ack",
            Self::Ack => "ack",
            Self::Resync => "resync",
            Self::Cnp => "cnp",
            Self::Unknown => "unknown",
        }
    }

    /// Whether such packets carry the bulk of the traffic, which congestion control regulates: SEND, WRITE and
    /// READ responses.
    #[inline]
    pub const fn carries_data(self) -> bool {
        matches!(self, Self::Send | Self::Write | Self::ReadResponse)
    }
}

/// The transport service: the upper three bits of the opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Reliable datagram.
    Rd,
    /// Unreliable datagram.
    Ud,
    /// Congestion notification.
    Cnp,
    /// Extended reliable connection.
    Xrc,
    /// The manufacturer's own.
    Manufacturer,
}

impl Transport {
    /// The service of this opcode.
    #[inline]
    pub const fn of(opcode: u8) -> Self {
        match opcode >> 5 {
            0 => Self::Rc,
            1 => Self::Uc,
            2 => Self::Rd,
            3 => Self::Ud,
            4 => Self::Cnp,
            5 => Self::Xrc,
            _ => Self::Manufacturer,
        }
    }
}

/// The meaning of an opcode: the operation, the position in its message, and the extension headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Info {
    bits: u16,
    header_len: u8,
    class: Class,
}

const FIRST: u16 = 1 << 14;
const LAST: u16 = 1 << 15;

impl Info {
    const UNKNOWN: Self = Self { bits: FIRST | LAST, header_len: 0, class: Class::Unknown };

    const fn equals(self, other: Self) -> bool {
        self.bits == other.bits && self.header_len == other.header_len && self.class as u8 == other.class as u8
    }

    /// What the packet does.
    #[inline]
    pub const fn class(self) -> Class {
        self.class
    }

    /// It begins a message: "first" or "only", or an operation that is one packet.
    #[inline]
    pub const fn first(self) -> bool {
        self.bits & FIRST != 0
    }

    /// It ends a message: "last" or "only", or an operation that is one packet.
    #[inline]
    pub const fn last(self) -> bool {
        self.bits & LAST != 0
    }

    /// Bytes of extension headers behind the BTH.
    #[inline]
    pub const fn header_len(self) -> usize {
        self.header_len as usize
    }

    /// Whether the packet carries this extension header.
    #[inline]
    pub const fn has(self, header: Header) -> bool {
        self.bits & header.bit() != 0
    }

    /// The extension headers, in order.
    #[inline]
    pub fn headers(self) -> impl Iterator<Item = Header> {
        Header::ALL.into_iter().filter(move |&header| self.has(header))
    }

    /// Where, behind the BTH, this extension header is if the packet carries it.
    #[inline]
    pub(super) fn offset(self, header: Header) -> usize {
        use Header::{
            Ack, Atomic, AtomicAck, Cnp, Datagram, ExtendedConnection, Immediate, Invalidate, Rdma, ReliableDatagram,
        };
        // The headers that can precede it in a packet.
        let in_front: &[Header] = match header {
            ReliableDatagram | ExtendedConnection | Cnp => &[],
            Datagram | Ack => &[ReliableDatagram],
            Rdma | Atomic => &[ReliableDatagram, Datagram, ExtendedConnection],
            AtomicAck => &[ReliableDatagram, Ack],
            Immediate => &[ReliableDatagram, Datagram, ExtendedConnection, Rdma],
            Invalidate => &[ExtendedConnection],
        };
        in_front.iter().filter(|&&other| self.has(other)).fold(0, |at, other| at.wrapping_add(other.size()))
    }
}

/// What this opcode means.
#[inline]
pub fn info(opcode: u8) -> Info {
    // A byte is always inside a table of 256, and every index in it is that of a meaning.
    let place = PLACES.get(usize::from(opcode)).copied().unwrap_or(0);
    INFOS.get(usize::from(place)).copied().unwrap_or(Info::UNKNOWN)
}

/// The distinct meanings of opcodes.
static INFOS: [Info; KNOWN.1] = {
    let mut infos = [Info::UNKNOWN; KNOWN.1];
    let (all, _, _) = KNOWN;
    infos.copy_from_slice(all.split_at(KNOWN.1).0);
    infos
};

/// For each opcode, the index of its meaning.
static PLACES: [u8; 256] = KNOWN.2;

/// The distinct meanings of opcodes, how many there are, and the index of each opcode's meaning.
#[expect(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "evaluated at compile time only")]
const KNOWN: ([Info; 256], usize, [u8; 256]) = {
    // Meaning 0 is that of an unknown opcode. 0xff, which the loop does not reach, is the manufacturer's own and so unknown.
    let (mut infos, mut known, mut places) = ([Info::UNKNOWN; 256], 1, [0; 256]);
    let mut opcode = 0u8;
    while opcode < u8::MAX {
        let info = meaning(opcode);
        let mut place = 0;
        while place < known && !info.equals(infos[place]) {
            place += 1;
        }
        if place == known {
            infos[place] = info;
            known += 1;
        }
        places[opcode as usize] = place as u8;
        opcode += 1;
    }
    (infos, known, places)
};

/// The rules from which the table is made.
const fn meaning(opcode: u8) -> Info {
    let (class, position, headers) = match operation(opcode & 0x1f) {
        Some(operation) => operation,
        None => (Class::Unknown, 0, &[] as &[Header]),
    };
    // Requests of datagram services carry the source queue pair, those of XRC the receive queue.
    let request = !matches!(class, Class::ReadResponse | Class::Ack | Class::AtomicAck);
    let (defined, prefix): (bool, &[Header]) = match (Transport::of(opcode), request) {
        (Transport::Rc, _) | (Transport::Xrc, false) => (!matches!(class, Class::Resync), &[]),
        (Transport::Xrc, true) => (!matches!(class, Class::Resync), &[Header::ExtendedConnection]),
        (Transport::Uc, _) => (matches!(class, Class::Send | Class::Write) && !has(headers, Header::Invalidate), &[]),
        (Transport::Rd, true) => (!has(headers, Header::Invalidate), &[Header::ReliableDatagram, Header::Datagram]),
        (Transport::Rd, false) => (true, &[Header::ReliableDatagram]),
        (Transport::Ud, _) => (
            matches!(class, Class::Send) && position == FIRST | LAST && !has(headers, Header::Invalidate),
            &[Header::Datagram],
        ),
        (Transport::Cnp, _) if opcode == CNP => return build(Class::Cnp, FIRST | LAST, &[], &[Header::Cnp]),
        (Transport::Cnp | Transport::Manufacturer, _) => (false, &[]),
    };
    if defined && !matches!(class, Class::Unknown) { build(class, position, prefix, headers) } else { Info::UNKNOWN }
}

/// The lower five bits of an opcode, which mean the same in every transport service that has the operation.
const fn operation(low: u8) -> Option<(Class, u16, &'static [Header])> {
    use Class::{Ack, Atomic, AtomicAck, ReadRequest, ReadResponse, Resync, Send, Write};
    const MIDDLE: u16 = 0;
    const ONLY: u16 = FIRST | LAST;
    Some(match low {
        0x00 => (Send, FIRST, &[]),
        0x01 => (Send, MIDDLE, &[]),
        0x02 => (Send, LAST, &[]),
        0x03 => (Send, LAST, &[Header::Immediate]),
        0x04 => (Send, ONLY, &[]),
        0x05 => (Send, ONLY, &[Header::Immediate]),
        0x06 => (Write, FIRST, &[Header::Rdma]),
        0x07 => (Write, MIDDLE, &[]),
        0x08 => (Write, LAST, &[]),
        0x09 => (Write, LAST, &[Header::Immediate]),
        0x0a => (Write, ONLY, &[Header::Rdma]),
        0x0b => (Write, ONLY, &[Header::Rdma, Header::Immediate]),
        0x0c => (ReadRequest, ONLY, &[Header::Rdma]),
        0x0d => (ReadResponse, FIRST, &[Header::Ack]),
        0x0e => (ReadResponse, MIDDLE, &[]),
        0x0f => (ReadResponse, LAST, &[Header::Ack]),
        0x10 => (ReadResponse, ONLY, &[Header::Ack]),
        0x11 => (Ack, ONLY, &[Header::Ack]),
        0x12 => (AtomicAck, ONLY, &[Header::Ack, Header::AtomicAck]),
        0x13 | 0x14 => (Atomic, ONLY, &[Header::Atomic]),
        0x15 => (Resync, ONLY, &[]),
        0x16 => (Send, LAST, &[Header::Invalidate]),
        0x17 => (Send, ONLY, &[Header::Invalidate]),
        _ => return None,
    })
}

#[expect(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "evaluated at compile time only")]
const fn has(headers: &[Header], header: Header) -> bool {
    let mut i = 0;
    while i < headers.len() {
        if headers[i] as u8 == header as u8 {
            return true;
        }
        i += 1;
    }
    false
}

#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "evaluated at compile time only"
)]
const fn build(class: Class, position: u16, prefix: &[Header], headers: &[Header]) -> Info {
    let mut info = Info { bits: position, header_len: 0, class };
    let mut i = 0;
    while i < prefix.len() + headers.len() {
        let header = if i < prefix.len() { prefix[i] } else { headers[i - prefix.len()] };
        info.bits |= header.bit();
        info.header_len += header.size() as u8;
        i += 1;
    }
    info
}
