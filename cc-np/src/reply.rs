//! What a notification point answers.

use cc_core::{CnpBodyKind, Grant, Mark, Qpn};

/// The answer to an arrival.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Reply {
    /// Send a CNP that says this.
    pub cnp: Option<CnpBodyKind>,
    /// Echo this mark in the next acknowledgement.
    pub echo: Mark,
    /// Grant this in the next acknowledgement.
    pub grant: Grant,
}

/// What a flow does in its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Slot {
    /// Nothing.
    Skip,
    /// It leaves the list: its record goes.
    Remove,
    /// It is to be notified.
    Notify {
        /// The local queue pair of the flow.
        local: Qpn,
        /// What the CNP says.
        body_kind: CnpBodyKind,
    },
}
