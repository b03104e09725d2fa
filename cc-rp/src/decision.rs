//! The decision of a reaction point.

use cc_core::{Bytes, Nanos, Rate};

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
