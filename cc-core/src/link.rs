//! The port that a machine runs on: line rate, MTU and base round-trip time.

use crate::units::{Bytes, Nanos, Rate};

crate::zeroed! {
    /// The properties of a port that its machines use.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct Link {
        /// Speed of the link; no decision exceeds it.
        pub line_rate: Rate,
        /// Largest packet on the wire, in bytes.
        pub mtu: Bytes,
        /// Round-trip time of the empty network.
        pub base_rtt: Nanos,
    }
}
