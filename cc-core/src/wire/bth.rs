//! The base transport header (IBTA volume 1, section 9.2).

use super::Malformed;
use super::cursor::{Output, two};
use crate::{Psn, Qpn};
use bitfield::bitfield;

bitfield! {
    struct Flags(u8);
    solicited, set_solicited: 7;
    migrated, set_migrated: 6;
    u8, pad, set_pad: 5, 4;
    u8, version, _: 3, 0;
}

bitfield! {
    /// The byte that switches may change and the ICRC therefore leaves out ("resv8a").
    struct Marks(u8);
    fecn, set_fecn: 7;
    becn, set_becn: 6;
}

bitfield! {
    struct Request(u8);
    ack, set_ack: 7;
}

/// A base transport header. Its pad count is not here: it follows from the payload.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Bth {
    /// Operation code: see [`opcode::info`](super::opcode::info).
    pub opcode: u8,
    /// Solicited event: the receiver's software is to be notified.
    pub solicited: bool,
    /// MigReq: the connection is in its migrated state.
    pub migrated: bool,
    /// Partition key.
    pub partition: u16,
    /// Forward explicit congestion notification.
    pub fecn: bool,
    /// Backward explicit congestion notification; set in every CNP.
    pub becn: bool,
    /// The queue pair that the packet is for.
    pub dest_qp: Qpn,
    /// AckReq: the sender requests an acknowledgement.
    pub ack_request: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

impl Bth {
    /// Bytes on the wire.
    pub(super) const LEN: usize = 12;

    /// The pad count. An error unless the transport version is 0.
    #[inline]
    pub(super) fn pad(bytes: &[u8; Self::LEN]) -> Result<u8, Malformed> {
        let &[_, flags, ..] = bytes;
        let flags = Flags(flags);
        if flags.version() == 0 { Ok(flags.pad()) } else { Err(Malformed::BthVersion) }
    }

    /// Reads the twelve bytes.
    #[inline(always)]
    pub(super) fn parse(bytes: &[u8; Self::LEN]) -> Self {
        let &[opcode, flags, key0, key1, marks, qp0, qp1, qp2, request, psn0, psn1, psn2] = bytes;
        let (flags, marks) = (Flags(flags), Marks(marks));
        Self {
            opcode,
            solicited: flags.solicited(),
            migrated: flags.migrated(),
            partition: two([key0, key1]),
            fecn: marks.fecn(),
            becn: marks.becn(),
            dest_qp: Qpn::new(u32::from_be_bytes([0, qp0, qp1, qp2])),
            ack_request: Request(request).ack(),
            psn: Psn::new(u32::from_be_bytes([0, psn0, psn1, psn2])),
        }
    }

    /// Writes the twelve bytes, with reserved bits and transport version zero.
    #[inline]
    pub(super) fn emit(&self, pad: u8, output: &mut Output<'_>) {
        let (mut flags, mut marks, mut request) = (Flags(0), Marks(0), Request(0));
        flags.set_solicited(self.solicited);
        flags.set_migrated(self.migrated);
        flags.set_pad(pad);
        marks.set_fecn(self.fecn);
        marks.set_becn(self.becn);
        request.set_ack(self.ack_request);
        output.words(&[
            u32::from_be_bytes([self.opcode, flags.0, 0, 0]) | u32::from(self.partition),
            u32::from(marks.0) << 24 | self.dest_qp.get(),
            u32::from(request.0) << 24 | self.psn.get(),
        ]);
    }
}
