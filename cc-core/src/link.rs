//! The port that a machine runs on: line rate, MTU and base round-trip time.

use crate::params::ParamError;
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

impl Link {
    /// Whether a machine can run on this link: it has a speed, an MTU and a base round-trip time.
    ///
    /// # Errors
    /// A conflict that names the field that is zero.
    pub fn check(&self) -> Result<(), ParamError> {
        let fields = [
            ("line_rate", self.line_rate.to_bits(), "must be above 0 b/s"),
            ("mtu", self.mtu.get(), "must be above 0 bytes"),
            ("base_rtt", self.base_rtt.get(), "must be above 0 ns"),
        ];
        match fields.into_iter().find(|&(_, value, _)| value == 0) {
            Some((field, _, expected)) => Err(ParamError::Conflict { field, expected }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_without_speed_mtu_or_round_trip_time_is_refused() {
        let link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_500), base_rtt: Nanos::new(10_000) };
        assert!(link.check().is_ok());
        let field = |link: Link| match link.check() {
            Err(ParamError::Conflict { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        assert_eq!(field(Link { line_rate: Rate::from_bits(0), ..link }), "line_rate");
        assert_eq!(field(Link { mtu: Bytes::new(0), ..link }), "mtu");
        assert_eq!(field(Link { base_rtt: Nanos::ZERO, ..link }), "base_rtt");
    }
}
