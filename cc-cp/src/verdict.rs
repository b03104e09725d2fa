//! What a congestion point decides about a packet.

use cc_core::{Ecn, Hop, Mark};

/// What is to be asked of the node upstream. Ordered: a pause beats a resume.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Upstream {
    /// Nothing new.
    #[default]
    AsBefore,
    /// It may send again.
    Resume,
    /// It is to pause.
    Pause,
}

/// The verdict on one event.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Verdict {
    /// Mark the packet at least this strongly.
    pub mark: Mark,
    /// The packet had to be marked, but its sender does not take part in ECN. A lossy class drops it (RFC 3168,
    /// section 5); a lossless class lets it pass.
    pub not_ect: bool,
    /// Ask this of the node upstream.
    pub upstream: Upstream,
    /// Write this telemetry record into the packet.
    pub hop: Option<Hop>,
}

impl Verdict {
    /// Nothing to be done: the unit of [`Verdict::join`].
    pub const PASS: Self = Self { mark: Mark::None, not_ect: false, upstream: Upstream::AsBefore, hop: None };

    /// Both verdicts in one: the strongest mark, a pause before a resume, any record. The order makes no difference,
    /// and a verdict joined with itself is itself. Of two records, which only two telemetry stages can make, the greater
    /// by value stays.
    #[inline]
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            mark: self.mark.max(other.mark),
            not_ect: self.not_ect || other.not_ect,
            upstream: self.upstream.max(other.upstream),
            hop: self.hop.max(other.hop),
        }
    }

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
    use std::vec::Vec;

    const MARKS: [Mark; 3] = [Mark::None, Mark::Undetermined, Mark::Congested];

    #[test]
    fn marks_are_raised_and_never_lowered() {
        let apply = |ecn, mark| Verdict { mark, ..Verdict::PASS }.apply(ecn);
        for mark in MARKS {
            assert_eq!(apply(Ecn::NotEct, mark), Ecn::NotEct);
            assert_eq!(apply(Ecn::Ce, mark), Ecn::Ce);
        }
        assert_eq!(apply(Ecn::Ect0, Mark::None), Ecn::Ect0);
        assert_eq!(apply(Ecn::Ect0, Mark::Undetermined), Ecn::Ect1);
        assert_eq!(apply(Ecn::Ect1, Mark::Undetermined), Ecn::Ect1);
        assert_eq!(apply(Ecn::Ect0, Mark::Congested), Ecn::Ce);
        assert_eq!(apply(Ecn::Ect1, Mark::Congested), Ecn::Ce);
    }

    #[test]
    fn the_stronger_of_two_verdicts_is_heard() {
        let asks = |upstream| Verdict { upstream, ..Verdict::PASS };
        assert_eq!(asks(Upstream::Pause).join(asks(Upstream::Resume)).upstream, Upstream::Pause);
        assert_eq!(asks(Upstream::Resume).join(Verdict::PASS).upstream, Upstream::Resume);
        let marks = |mark| Verdict { mark, ..Verdict::PASS };
        assert_eq!(marks(Mark::Undetermined).join(marks(Mark::Congested)).mark, Mark::Congested);
        assert_eq!(marks(Mark::Undetermined).join(Verdict::PASS).mark, Mark::Undetermined);
    }

    #[test]
    fn joining_is_a_semilattice_over_all_marks_pauses_and_records() {
        let records = [None, Some(Hop { clock: 1, ..Hop::default() }), Some(Hop { queue: 7, ..Hop::default() })];
        let mut all = Vec::new();
        for mark in MARKS {
            for not_ect in [false, true] {
                for upstream in [Upstream::AsBefore, Upstream::Resume, Upstream::Pause] {
                    all.extend(records.map(|hop| Verdict { mark, not_ect, upstream, hop }));
                }
            }
        }
        assert_eq!(all.len(), 54);
        for &a in &all {
            assert_eq!(a.join(a), a);
            assert_eq!(a.join(Verdict::PASS), a);
            for &b in &all {
                assert_eq!(a.join(b), b.join(a));
                for &c in &all {
                    assert_eq!(a.join(b).join(c), a.join(b.join(c)));
                }
            }
        }
    }
}
