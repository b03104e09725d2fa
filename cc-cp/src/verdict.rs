//! What a congestion point decides about a packet.

use cc_core::Mark;

/// The verdict on one packet. Verdicts of several stages join: the strongest mark wins.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Verdict {
    /// Mark the packet at least this strongly.
    pub mark: Mark,
}
