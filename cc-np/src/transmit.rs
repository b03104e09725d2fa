//! Where frames go.

/// The transmit ring of a NIC.
pub trait Transmit {
    /// The next free buffer of the ring; empty when the ring is full.
    fn transmit_buffer(&mut self) -> &mut [u8];

    /// Sends so many bytes of that buffer.
    fn transmit(&mut self, length: usize);

    /// For harnesses: an event is about to meet a record, in the row of
    /// [`NotificationPoint::TRANSITIONS`](crate::NotificationPoint::TRANSITIONS) that the function tells. Hardware is not interested,
    /// and then nobody asks which row it is.
    #[inline(always)]
    fn on_transition(&mut self, transition: impl FnOnce() -> usize) {
        let _ = transition;
    }
}
