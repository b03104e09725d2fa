//! What a notification point answers.

use cc_core::{CnpHint, Grant, Mark};

/// The answer to an arrival.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Reply {
    /// Send a CNP that says this.
    pub cnp: Option<CnpHint>,
    /// Echo this mark in the next acknowledgement.
    pub echo: Mark,
    /// Grant this in the next acknowledgement.
    pub grant: Grant,
}
