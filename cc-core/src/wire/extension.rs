//! The extension headers between BTH and payload (IBTA volume 1, section 9.3).

use super::cursor::Output;
use super::opcode::{Header, Info};
use super::{Aeth, cnp};
use crate::{CnpBodyKind, Qpn};

/// DETH: the fields of a datagram in addition to its BTH.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Deth {
    /// The key that admits the datagram to the queue pair.
    pub queue_key: u32,
    /// The queue pair that sent it.
    pub source_qp: Qpn,
}

impl Deth {
    #[inline]
    pub(super) fn parse(bytes: &[u8; 8]) -> Self {
        let &[k0, k1, k2, k3, _, qp0, qp1, qp2] = bytes;
        Self {
            queue_key: u32::from_be_bytes([k0, k1, k2, k3]),
            source_qp: Qpn::new(u32::from_be_bytes([0, qp0, qp1, qp2])),
        }
    }
}

/// RETH: the remote memory of an RDMA operation.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Reth {
    /// Virtual address.
    pub address: u64,
    /// Remote key.
    pub key: u32,
    /// Length of the whole operation in bytes.
    pub len: u32,
}

impl Reth {
    #[inline]
    pub(super) fn parse(bytes: &[u8; 16]) -> Self {
        let &[a0, a1, a2, a3, a4, a5, a6, a7, k0, k1, k2, k3, l0, l1, l2, l3] = bytes;
        Self {
            address: u64::from_be_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            key: u32::from_be_bytes([k0, k1, k2, k3]),
            len: u32::from_be_bytes([l0, l1, l2, l3]),
        }
    }
}

/// Values for every extension header; the opcode determines which of them a packet carries. AtomicETH, AtomicAckETH, RDETH and
/// XRCETH have no field that congestion control reads: they are sent as zeros.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Extensions {
    /// DETH.
    pub deth: Deth,
    /// RETH.
    pub reth: Reth,
    /// AETH.
    pub aeth: Aeth,
    /// ImmDt.
    pub immediate: u32,
    /// IETH: the remote key to invalidate.
    pub invalidate: u32,
    /// The sixteen reserved bytes of a CNP.
    pub cnp: CnpBodyKind,
}

impl Extensions {
    /// Writes those that the opcode requires, in order.
    pub(super) fn emit(&self, info: Info, output: &mut Output<'_>) {
        if info.has(Header::ReliableDatagram) {
            output.word(0);
        }
        if info.has(Header::Datagram) {
            output.word(self.deth.queue_key);
            output.word(self.deth.source_qp.get());
        }
        if info.has(Header::ExtendedConnection) {
            output.word(0);
        }
        if info.has(Header::Rdma) {
            output.put(&self.reth.address.to_be_bytes());
            output.word(self.reth.key);
            output.word(self.reth.len);
        }
        if info.has(Header::Atomic) {
            output.put(&[0; 28]);
        }
        if info.has(Header::Ack) {
            output.word(self.aeth.word());
        }
        if info.has(Header::AtomicAck) {
            output.put(&[0; 8]);
        }
        if info.has(Header::Immediate) {
            output.word(self.immediate);
        }
        if info.has(Header::Invalidate) {
            output.word(self.invalidate);
        }
        if info.has(Header::Cnp) {
            output.words(&cnp::words(&self.cnp));
        }
    }
}
