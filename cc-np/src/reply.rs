//! What a notification point returns for an event.

use cc_core::{CnpBodyKind, Grant, Mark, Qpn};

/// What to send because of an arrival.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Reply {
    /// Send a CNP with this body; `None`: send none.
    pub cnp: Option<CnpBodyKind>,
    /// Echo this mark in the next acknowledgement.
    pub echo: Mark,
    /// Grant this in the next acknowledgement.
    pub grant: Grant,
}

/// What to do in the slot of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Slot {
    /// Nothing.
    Skip,
    /// Remove its record.
    Remove,
    /// Send a CNP to its sender.
    Notify {
        /// The local queue pair of the flow.
        local: Qpn,
        /// The body of the CNP.
        body_kind: CnpBodyKind,
    },
}
