//! Where CNPs and acknowledgements go: what is to be sent, as values.

use cc_core::wire::{AckFields, CnpMarking, Roce};
use cc_core::{CnpBodyKind, Qpn};

/// Why a frame was not sent. Nothing of it has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum NotSent {
    /// The transmit ring is full.
    Full,
    /// The headers of frames to this flow's sender are not known.
    Unaddressed,
}

/// The part of the hardware that sends frames. It builds them from what it is given; the engine writes none.
pub trait Transmit {
    /// Sends a CNP to queue pair `to` at the sender of `cause`, the data packet that calls for it, back the way that it came.
    ///
    /// # Errors
    /// The CNP was not sent.
    fn cnp(&mut self, cause: &Roce<'_>, to: Qpn, body_kind: CnpBodyKind, marking: CnpMarking) -> Result<(), NotSent>;

    /// Sends a CNP to the far end of the local queue pair `local`, with no packet in hand. Called in turns of flows only, see
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

    /// For harnesses: an event is about to meet a record, in the row of
    /// [`NotificationPoint::TRANSITIONS`](crate::NotificationPoint::TRANSITIONS) that the function tells. Hardware is not interested,
    /// and then nobody asks which row it is.
    #[inline(always)]
    fn on_transition(&mut self, transition: impl FnOnce() -> usize) {
        let _ = transition;
    }
}
