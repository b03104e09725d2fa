//! What a congestion point decides about a packet.

use cc_core::{Ecn, Mark};

/// The verdict on one packet. Verdicts of several stages join: the strongest mark wins.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Verdict {
    /// Mark the packet at least this strongly.
    pub mark: Mark,
    /// The packet had to be marked, but its sender does not take part in ECN. A lossy class drops it (RFC 3168,
    /// section 5); a lossless class lets it pass.
    pub unmarkable: bool,
}

impl Verdict {
    /// The ECN bits with which a packet that had `ecn` leaves. A mark is raised, never lowered, and a packet
    /// without ECT stays without.
    #[inline]
    pub const fn apply(self, ecn: Ecn) -> Ecn {
        match (ecn, self.mark) {
            (Ecn::Ect0 | Ecn::Ect1, Mark::Congested) => Ecn::Ce,
            (Ecn::Ect0, Mark::Undetermined) => Ecn::Ect1,
            _ => ecn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_raised_and_never_lowered() {
        let apply = |ecn, mark| Verdict { mark, unmarkable: false }.apply(ecn);
        for mark in [Mark::None, Mark::Undetermined, Mark::Congested] {
            assert_eq!(apply(Ecn::NotEct, mark), Ecn::NotEct);
            assert_eq!(apply(Ecn::Ce, mark), Ecn::Ce);
        }
        assert_eq!(apply(Ecn::Ect0, Mark::None), Ecn::Ect0);
        assert_eq!(apply(Ecn::Ect0, Mark::Undetermined), Ecn::Ect1);
        assert_eq!(apply(Ecn::Ect1, Mark::Undetermined), Ecn::Ect1);
        assert_eq!(apply(Ecn::Ect0, Mark::Congested), Ecn::Ce);
        assert_eq!(apply(Ecn::Ect1, Mark::Congested), Ecn::Ce);
    }
}
