//! The decision of a reaction point.

use cc_core::{Bytes, Link, Nanos, Rate};

/// The whole pacing state of a flow after an event: not a change, so that it can be compared and repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Decision {
    /// Send at most this fast; never below the algorithm's minimum rate.
    pub rate: Rate,
    /// Keep at most this much in flight; [`Bytes::MAX`] for no window.
    pub window: Bytes,
    /// Send nothing for this long; zero unless the algorithm halts.
    pub hold: Nanos,
    /// Wake the machine after this long; [`Nanos::MAX`] for never.
    pub wake_in: Nanos,
}

impl Decision {
    /// The decision where the reaction point is off: line rate, no window, and no hold of the machine's own. The wake stays, so
    /// that the state stays up to date.
    #[must_use]
    pub const fn unlimited(self, link: &Link) -> Self {
        Self { rate: link.line_rate, window: Bytes::MAX, hold: Nanos::ZERO, wake_in: self.wake_in }
    }
}
