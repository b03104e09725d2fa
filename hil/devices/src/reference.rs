//! What the library handles again after an image has handled it.

use super::device::Decisions;
use anyhow::Result;
use hil_cores::board::Action;
use programs::descriptor::Descriptor;

/// An event that the image has handled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handled {
    /// The descriptor and its frame; `None` for a timer interrupt.
    pub descriptor: Option<(Descriptor, Vec<u8>)>,
    /// What the image did, each action with its cycle. The last is the record of its log.
    pub actions: Vec<(u64, Action)>,
}

/// A NIC or switch of the library that handles what an image has handled.
pub trait Reference {
    /// The kind of an image's log record of a timer interrupt.
    const WAKE: u32;
    /// The end of an event has an effect, that of having no action: a packet without a verdict passes unchanged.
    const REPORTS_ENDS: bool;

    /// Handles the event at the time that the image has logged. Returns its actions.
    ///
    /// # Errors
    /// The event's descriptor and frame do not go together.
    fn handle_again(&mut self, now: u64, handled: &Handled, decisions: &mut Decisions) -> Result<Vec<(u64, Action)>>;

    /// The name of a kind of log record.
    fn kind(number: u32) -> &'static str;

    /// Whether the descriptor is a command of a driver.
    fn is_command(descriptor: &Descriptor) -> bool;

    /// Whether the sender of the event waits until the core's queue has room for it, so that it is not lost: a driver with a command.
    fn sender_waits(descriptor: &Descriptor) -> bool {
        Self::is_command(descriptor)
    }
}
