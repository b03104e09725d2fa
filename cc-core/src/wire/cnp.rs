//! Congestion notification packets (IBTA volume 1, annex A17.9): the sixteen reserved bytes behind the BTH.
//!
//! All zero is the standard's CNP. Otherwise they carry what this project's algorithms say beyond it; a node
//! that does not know of this still sees a CNP. Byte by byte, all big endian:
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
//! Kinds 4 and 5 bring telemetry: behind the sixteen bytes, and covered by the ICRC, follows one INT shim as
//! [`shim`](super::shim) describes it, with its head and without an end. They are sent to those only that know of them.

use super::cursor::Output;
use crate::{CnpBody, CnpHint, CnpKind, Nanos, Qpn, Stamp};
use bitfield::bitfield;

bitfield! {
    struct Flags(u8);
    u8, version, set_version: 7, 4;
    by_remote, set_by_remote: 2;
    ue, set_ue: 1;
    ce, set_ce: 0;
}

const VERSION: u8 = 1;
const CHECK: u8 = 0xa5;

impl CnpHint {
    /// Reads the sixteen bytes behind a CNP's BTH, for callers that parse frames themselves. A body with a wrong check
    /// byte, an unknown version or an unknown kind says no more than a standard CNP.
    // Always, because few callers want all that it says.
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

/// Reads the sixteen bytes. A body with a wrong check byte, an unknown version or an unknown kind says no
/// more than a standard CNP; sixteen zeros are of version 0.
#[inline(always)]
pub(super) fn parse(bytes: &[u8; 16]) -> CnpHint {
    let &[kind, flags, seq0, seq1, n0, n1, n2, n3, qp0, qp1, qp2, check, t0, t1, t2, t3] = bytes;
    let flags = Flags(flags);
    if flags.version() != VERSION || check != check_of(bytes) {
        return CnpHint::Plain;
    }
    let kind = match kind {
        0 => CnpKind::Standard,
        1 => CnpKind::Period,
        2 => CnpKind::Direct,
        3 => CnpKind::Undetermined,
        4 => CnpKind::SwitchInt,
        5 => CnpKind::DirectInt,
        _ => return CnpHint::Plain,
    };
    CnpHint::Body(CnpBody {
        kind,
        ce: flags.ce(),
        ue: flags.ue(),
        by_remote: flags.by_remote(),
        seq: u16::from_be_bytes([seq0, seq1]),
        period: Nanos::new(u32::from_be_bytes([n0, n1, n2, n3])),
        remote_qpn: Qpn::new(u32::from_be_bytes([0, qp0, qp1, qp2])),
        stamp: Stamp::from_bits(u32::from_be_bytes([t0, t1, t2, t3])),
    })
}

/// The sixteen bytes, four at a time.
pub(super) fn words(hint: &CnpHint) -> [u32; 4] {
    let CnpHint::Body(body) = hint else { return [0; 4] };
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
    flags.set_by_remote(body.by_remote);
    flags.set_ue(body.ue);
    flags.set_ce(body.ce);
    let first = u32::from_be_bytes([kind, flags.0, 0, 0]) | u32::from(body.seq);
    let (period, remote_qpn) = (body.period.get(), body.remote_qpn.get() << 8);
    let sum = first ^ period ^ remote_qpn;
    let [b0, b1, b2, b3] = sum.to_be_bytes();
    [first, period, remote_qpn | u32::from(CHECK ^ b0 ^ b1 ^ b2 ^ b3), body.stamp.to_bits()]
}

/// The check byte that belongs to the first eleven.
#[inline(always)]
const fn check_of(bytes: &[u8; 16]) -> u8 {
    let &[b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, ..] = bytes;
    CHECK ^ b0 ^ b1 ^ b2 ^ b3 ^ b4 ^ b5 ^ b6 ^ b7 ^ b8 ^ b9 ^ b10
}
