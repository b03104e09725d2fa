//! The interface by which the engine sends CNPs and acknowledgements: as values, not as frames.

use cc_core::wire::{AckFields, CnpMarking, Roce};
use cc_core::{CnpBodyKind, Qpn};

/// Why a frame was not sent. No part of it was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum NotSent {
    /// The transmit ring is full.
    Full,
    /// The addresses for frames to this flow's sender are not known.
    Unaddressed,
}

/// The transmit side of the port. The implementation builds each frame from the values in a call and puts it into the transmit
/// ring.
pub trait Transmit {
    /// Sends a CNP to queue pair `to` at the sender of `cause`, the data packet that caused it, with that packet's addresses
    /// swapped.
    ///
    /// # Errors
    /// The CNP was not sent.
    fn cnp(&mut self, cause: &Roce<'_>, to: Qpn, body_kind: CnpBodyKind, marking: CnpMarking) -> Result<(), NotSent>;

    /// Sends a CNP to the remote queue pair of the local queue pair `local`, without a received packet: the implementation has
    /// the addresses from the connection's context. Called in slots only, see
    /// [`NotificationPoint::slot_interval`](crate::NotificationPoint::slot_interval).
    ///
    /// # Errors
    /// The CNP was not sent.
    fn slot_cnp(&mut self, local: Qpn, body_kind: CnpBodyKind, marking: CnpMarking) -> Result<(), NotSent>;

    /// Sends the acknowledgement of `cause`, a data packet, to queue pair `to` at its sender.
    ///
    /// # Errors
    /// The acknowledgement was not sent.
    fn ack(&mut self, cause: &Roce<'_>, to: Qpn, fields: &AckFields) -> Result<(), NotSent>;

    /// For harnesses: called before a machine processes an event. `transition` returns the row of this event in
    /// [`NotificationPoint::TRANSITIONS`](crate::NotificationPoint::TRANSITIONS). Hardware keeps this empty default, which
    /// never calls it.
    #[inline(always)]
    fn on_transition(&mut self, transition: impl FnOnce() -> usize) {
        let _ = transition;
    }
}
