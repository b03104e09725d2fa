//! Descriptors: the entries of the receive ring. Each is an event of the device or a command of the driver.

/// Kind of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum DescriptorKind {
    /// A frame arrived.
    Frame = 1,
    /// The device sent a packet of a flow.
    Sent = 2,
    /// The driver opens a flow.
    Open = 3,
    /// The driver knows a flow's local QPN and binds the flow to it.
    Bind = 4,
    /// The driver closes a flow.
    Close = 5,
    /// The driver has connected a local QPN with a remote one. The frame is a packet that arrived on the connection, or one
    /// with the headers that such a packet will have; `qpn` is the remote QPN.
    Connect = 6,
    /// The driver has destroyed the queue pair of the local QPN `qpn`.
    Disconnect = 7,
    /// The driver knows the addresses and the remote QPN of a flow. The frame is a packet of the flow, or one with the headers
    /// that its packets will have.
    LearnRemote = 8,
}

/// One descriptor of the receive ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(4))]
pub struct Descriptor {
    /// A [`DescriptorKind`]; anything else is skipped and counted.
    pub kind: u8,
    /// [`ICRC_CHECKED`](Self::ICRC_CHECKED) or 0.
    pub flags: u8,
    /// Bytes of the frame that are in the slot.
    pub captured: u16,
    /// Bytes of the frame on the wire; for [`DescriptorKind::Sent`], of the packet.
    pub wire_bytes: u32,
    /// Time of the event in nanoseconds of the device's clock, low half.
    pub now_lo: u32,
    /// Time of the event, high half.
    pub now_hi: u32,
    /// Handle of the flow; for [`DescriptorKind::Open`] its PFC priority, 0 to 7; for [`DescriptorKind::Frame`] the fill level
    /// of the device's receive buffers, 0 to 31.
    pub handle: u32,
    /// For [`DescriptorKind::Frame`] and [`DescriptorKind::Connect`] the QPN at the other end of the flow,
    /// [`UNKNOWN_QPN`](Self::UNKNOWN_QPN) if the driver does not know it; for [`DescriptorKind::Bind`] and
    /// [`DescriptorKind::Disconnect`] the local QPN.
    pub qpn: u32,
    /// For [`DescriptorKind::Sent`], the packet's sequence number.
    pub psn: u32,
    /// For a CNP, the number of CNPs that the front end has coalesced into this one, at least 1.
    pub coalesced: u32,
    /// For an acknowledgement, the bytes that it newly acknowledges.
    pub acked: u32,
    /// For an acknowledgement, the nanoseconds since the newest packet that it acknowledges was sent;
    /// [`UNKNOWN_RTT`](Self::UNKNOWN_RTT) if the device did not measure it.
    pub rtt: u32,
    /// For a data packet, the message sequence number of its acknowledgement; [`NO_ACK`](Self::NO_ACK) if the packet is not to
    /// be acknowledged, or the device's transport does so itself.
    pub msn: u32,
}

impl Descriptor {
    /// Flag: the device has checked the ICRC and found it right.
    pub const ICRC_CHECKED: u8 = 1;
    /// Value of `qpn` if the QPN is not known.
    pub const UNKNOWN_QPN: u32 = u32::MAX;
    /// Value of `rtt` if it was not measured.
    pub const UNKNOWN_RTT: u32 = u32::MAX;
    /// Value of `msn` for a packet that is not to be acknowledged.
    pub const NO_ACK: u32 = u32::MAX;

    /// The time, in nanoseconds.
    pub const fn now(&self) -> u64 {
        (self.now_hi as u64) << 32 | self.now_lo as u64
    }

    /// A descriptor of this kind and time, all else zero.
    pub const fn at(kind: DescriptorKind, now: u64) -> Self {
        Self {
            kind: kind as u8,
            flags: 0,
            captured: 0,
            wire_bytes: 0,
            now_lo: now as u32,
            now_hi: (now >> 32) as u32,
            handle: 0,
            qpn: Self::UNKNOWN_QPN,
            psn: 0,
            coalesced: 1,
            acked: 0,
            rtt: Self::UNKNOWN_RTT,
            msn: Self::NO_ACK,
        }
    }

    /// The descriptor's words in the order of RAM, little-endian.
    pub const fn to_words(&self) -> [u32; 11] {
        [
            self.kind as u32 | (self.flags as u32) << 8 | (self.captured as u32) << 16,
            self.wire_bytes,
            self.now_lo,
            self.now_hi,
            self.handle,
            self.qpn,
            self.psn,
            self.coalesced,
            self.acked,
            self.rtt,
            self.msn,
        ]
    }

    /// The descriptor of these words.
    pub const fn from_words(words: [u32; 11]) -> Self {
        let [head, wire_bytes, now_lo, now_hi, handle, qpn, psn, coalesced, acked, rtt, msn] = words;
        let (kind, flags, captured) = (head as u8, (head >> 8) as u8, (head >> 16) as u16);
        Self { kind, flags, captured, wire_bytes, now_lo, now_hi, handle, qpn, psn, coalesced, acked, rtt, msn }
    }
}

const _: () = assert!(size_of::<Descriptor>() == 44);
