//! For tests: a transmit ring that builds the frames, as a NIC's program does.

use crate::{NotSent, Transmit};
use cc_core::wire::{self, AckFields, CnpMarking, Parsed, Response, Roce, TableCrc};
use cc_core::{CnpBodyKind, Qpn};
use std::collections::{BTreeMap, BTreeSet};
use std::vec;
use std::vec::Vec;

/// A transmit ring with room for one frame at a time.
pub(crate) struct Ring {
    /// The buffer for that frame.
    pub(crate) room: Vec<u8>,
    /// What was sent.
    pub(crate) sent: Vec<Vec<u8>>,
    /// The rows of the machine's transition table that occurred.
    pub(crate) rows: BTreeSet<usize>,
    /// By local queue pair: a packet that arrived on it, and the sender's queue pair.
    pub(crate) paths: BTreeMap<u32, (Vec<u8>, Qpn)>,
}

impl Ring {
    /// A ring with a buffer of `room` bytes.
    pub(crate) fn new(room: usize) -> Self {
        Self { room: vec![0; room], sent: Vec::new(), rows: BTreeSet::new(), paths: BTreeMap::new() }
    }

    /// The one frame that was sent.
    pub(crate) fn frame(&self) -> &[u8] {
        assert_eq!(self.sent.len(), 1);
        &self.sent[0]
    }

    fn send(&mut self, frame: &Response<'_>) -> Result<(), NotSent> {
        let length = frame.emit::<TableCrc>(&mut self.room).map_err(|_| NotSent::Full)?;
        self.sent.push(self.room[..length].to_vec());
        Ok(())
    }
}

impl Transmit for Ring {
    fn cnp(&mut self, cause: &Roce<'_>, to: Qpn, body_kind: CnpBodyKind, marking: CnpMarking) -> Result<(), NotSent> {
        self.send(&Response::cnp(cause, to, body_kind, marking))
    }

    fn slot_cnp(&mut self, local: Qpn, body_kind: CnpBodyKind, marking: CnpMarking) -> Result<(), NotSent> {
        let (packet, to) = self.paths.get(&local.get()).cloned().ok_or(NotSent::Unaddressed)?;
        let Ok(Parsed::Roce(cause)) = wire::parse(&packet, packet.len()) else { return Err(NotSent::Unaddressed) };
        self.send(&Response::cnp(&cause, to, body_kind, marking))
    }

    fn ack(&mut self, cause: &Roce<'_>, to: Qpn, fields: &AckFields) -> Result<(), NotSent> {
        self.send(&Response::ack(cause, to, fields))
    }

    fn on_transition(&mut self, transition: impl FnOnce() -> usize) {
        self.rows.insert(transition());
    }
}
