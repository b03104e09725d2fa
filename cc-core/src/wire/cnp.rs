//! Congestion notification packets (IBTA volume 1, annex A17.9.3): the sixteen reserved bytes behind the BTH.
//!
//! All zeros make the standard's CNP. Otherwise they carry a body of this project's algorithms; a node that does not implement
//! it reads a standard CNP. Byte by byte, all big endian:
//!
//! | bytes | field |
//! | --- | --- |
//! | 0 | kind: 0 standard, 1 period, 2 direct, 3 undetermined, 4 Switch-INT, 5 direct INT |
//! | 1 | upper half: version, 1; bit 0: CE seen, bit 1: UE seen, bit 2: the flow is named by `remote_qpn` |
//! | 2-3 | count of CNPs of the flow |
//! | 4-7 | period in nanoseconds |
//! | 8-10 | `remote_qpn` |
//! | 11 | exclusive or of bytes 0 to 10, and 0xa5 |
//! | 12-15 | the sender's clock in nanoseconds |
//!
//! Kinds 4 and 5 carry telemetry: the sixteen bytes are followed by one INT shim, see [`shim`](super::shim), with its head and
//! without an end. The ICRC covers it. They are sent only to NICs that implement them.

use super::cursor::Output;
use crate::{CnpBody, CnpBodyKind, CnpKind, Nanos, Qpn, Stamp};
use bitfield::bitfield;

bitfield! {
    struct Flags(u8);
    u8, version, set_version: 7, 4;
    names_remote_qpn, set_by_remote: 2;
    ue, set_ue: 1;
    ce, set_ce: 0;
}

const VERSION: u8 = 1;
const CHECK: u8 = 0xa5;

impl CnpBodyKind {
    /// Reads the sixteen bytes behind a CNP's BTH, for callers that parse frames themselves. A body with a wrong check
    /// byte, an unknown version or an unknown kind reads as a standard CNP.
    // Always inlined, because few callers use all of its result.
    #[inline(always)]
    pub fn from_bytes(bytes: &[u8; 16]) -> Self {
        parse(bytes)
    }

    /// The sixteen bytes.
    pub fn to_bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let mut output = Output::new(&mut bytes);
        output.words(&words(self));
        bytes
    }
}

/// Reads the sixteen bytes. A body with a wrong check byte, an unknown version or an unknown kind reads as
/// a standard CNP; sixteen zeros are of version 0.
#[inline(always)]
pub(super) fn parse(bytes: &[u8; 16]) -> CnpBodyKind {
    let &[kind, flags, seq0, seq1, ..] = bytes;
    let flags = Flags(flags);
    let [first, period, remote_qpn, stamp] = words_of(bytes);
    if flags.version() != VERSION || folded(first ^ period ^ remote_qpn) != CHECK {
        return CnpBodyKind::Standard;
    }
    let kind = match kind {
        0 => CnpKind::Standard,
        1 => CnpKind::Period,
        2 => CnpKind::Direct,
        3 => CnpKind::Undetermined,
        4 => CnpKind::SwitchInt,
        5 => CnpKind::DirectInt,
        _ => return CnpBodyKind::Standard,
    };
    CnpBodyKind::Extended(CnpBody {
        kind,
        ce: flags.ce(),
        ue: flags.ue(),
        names_remote_qpn: flags.names_remote_qpn(),
        seq: u16::from_be_bytes([seq0, seq1]),
        period: Nanos::new(period),
        remote_qpn: Qpn::new(remote_qpn >> 8),
        stamp: Stamp::from_bits(stamp),
    })
}

/// The sixteen bytes of this body, four at a time.
pub(super) fn words(body_kind: &CnpBodyKind) -> [u32; 4] {
    let CnpBodyKind::Extended(body) = body_kind else { return [0; 4] };
    let kind = match body.kind {
        CnpKind::Standard => 0,
        CnpKind::Period => 1,
        CnpKind::Direct => 2,
        CnpKind::Undetermined => 3,
        CnpKind::SwitchInt => 4,
        CnpKind::DirectInt => 5,
    };
    let mut flags = Flags(0);
    flags.set_version(VERSION);
    flags.set_by_remote(body.names_remote_qpn);
    flags.set_ue(body.ue);
    flags.set_ce(body.ce);
    let first = u32::from_be_bytes([kind, flags.0, 0, 0]) | u32::from(body.seq);
    let (period, remote_qpn) = (body.period.get(), body.remote_qpn.get() << 8);
    let check = CHECK ^ folded(first ^ period ^ remote_qpn);
    [first, period, remote_qpn | u32::from(check), body.stamp.to_bits()]
}

/// The sixteen bytes, four at a time.
#[inline(always)]
const fn words_of(&[a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3]: &[u8; 16]) -> [u32; 4] {
    [
        u32::from_be_bytes([a0, a1, a2, a3]),
        u32::from_be_bytes([b0, b1, b2, b3]),
        u32::from_be_bytes([c0, c1, c2, c3]),
        u32::from_be_bytes([d0, d1, d2, d3]),
    ]
}

/// The exclusive or of four bytes: of a body's first twelve, check byte included, it is [`CHECK`].
#[inline(always)]
const fn folded(word: u32) -> u8 {
    let [b0, b1, b2, b3] = word.to_be_bytes();
    b0 ^ b1 ^ b2 ^ b3
}
