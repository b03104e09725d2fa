//! The verdict: the decision of the stages of a switch on a packet.

use cc_core::wire::shim::MlccData;
use cc_core::{Ecn, Hop, Mark, Nanos};

/// The verdict on one event.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Verdict {
    /// Mark the packet at least this strongly.
    pub mark: Mark,
    /// The packet had to be marked, but its sender does not take part in ECN. A lossy class drops it (RFC 3168,
    /// section 5); a lossless class lets it pass.
    pub not_ect: bool,
    /// Drop the packet that arrives: there is no room for it.
    pub drop: bool,
    /// Hold the next packet of this packet's flow for this time; zero for no hold.
    pub hold: Nanos,
    /// Write this telemetry record into the packet.
    pub hop: Option<Hop>,
    /// Rewrite the packet so. No other stage may undo this.
    pub rewrite: Option<Rewrite>,
}

/// The changes to a packet by the one stage of a switch that rewrites packets.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rewrite {
    /// Send it with these ECN bits, whatever its marks.
    pub ecn: Ecn,
    /// Remove the records of its telemetry; the room for records stays.
    pub clear_int: bool,
    /// Write these MLCC values into the packet's MLCC shim.
    pub mlcc: Option<MlccData>,
}

impl Rewrite {
    /// All fields, as a value that can be compared.
    #[inline]
    fn key(&self) -> (u8, bool, Option<(u16, u32)>) {
        (self.ecn.to_bits(), self.clear_int, self.mlcc.map(|data| (data.credit, data.queue.get())))
    }

    /// The greater of two rewrites. The stages of one switch never return two: see [`Stage::REWRITES`](crate::Stage::REWRITES).
    #[inline]
    fn max(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) if one.key() < other.key() => Some(other),
            (one, other) => one.or(other),
        }
    }
}

impl Verdict {
    /// Nothing is to be done: the neutral element of [`Verdict::join`].
    pub const PASS: Self =
        Self { mark: Mark::None, not_ect: false, drop: false, hold: Nanos::ZERO, hop: None, rewrite: None };

    /// Joins two verdicts: the stronger mark, the longer hold, and everything else that either of them has. The order makes no
    /// difference, and a verdict joined with itself is itself. Of two telemetry records, which only two telemetry stages can
    /// return, the greater by value is kept.
    #[inline]
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            mark: self.mark.max(other.mark),
            not_ect: self.not_ect || other.not_ect,
            drop: self.drop || other.drop,
            hold: self.hold.max(other.hold),
            hop: self.hop.max(other.hop),
            rewrite: Rewrite::max(self.rewrite, other.rewrite),
        }
    }

    /// The ECN bits, after marking, of a packet that had `ecn`. A mark is raised and never lowered, and a packet without ECT
    /// stays unmarked.
    #[inline]
    pub const fn apply(self, ecn: Ecn) -> Ecn {
        match (ecn, self.mark) {
            (Ecn::Ect0 | Ecn::Ect1, Mark::Congested) => Ecn::Ce,
            (Ecn::Ect0, Mark::Undetermined) => Ecn::Ect1,
            _ => ecn,
        }
    }

    /// The ECN bits with which a packet that had `ecn` leaves: those of the rewriting stage, or else the marked ones.
    #[inline]
    pub const fn leaves_with(self, ecn: Ecn) -> Ecn {
        match self.rewrite {
            Some(rewrite) => rewrite.ecn,
            None => self.apply(ecn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::Bytes;
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
    fn a_join_has_the_stronger_mark_and_the_longer_hold() {
        let marks = |mark| Verdict { mark, ..Verdict::PASS };
        assert_eq!(marks(Mark::Undetermined).join(marks(Mark::Congested)).mark, Mark::Congested);
        assert_eq!(marks(Mark::Undetermined).join(Verdict::PASS).mark, Mark::Undetermined);
        let holds = |hold| Verdict { hold: Nanos::new(hold), ..Verdict::PASS };
        assert_eq!(holds(7).join(holds(9)).hold, Nanos::new(9));
    }

    #[test]
    fn a_rewrite_may_lower_a_mark_and_nothing_else_may() {
        let mark = Verdict { mark: Mark::Congested, ..Verdict::PASS };
        let rewrite = Rewrite { ecn: Ecn::Ect0, ..Rewrite::default() };
        assert_eq!(mark.leaves_with(Ecn::Ect0), Ecn::Ce);
        assert_eq!(mark.join(Verdict { rewrite: Some(rewrite), ..Verdict::PASS }).leaves_with(Ecn::Ce), Ecn::Ect0);
    }

    /// Joining is commutative, associative and idempotent, for every mark, flag, hold, record and rewrite.
    #[test]
    fn joining_is_a_semilattice_over_all_fields() {
        let records = [None, Some(Hop { clock: 1, ..Hop::default() }), Some(Hop { queue: 7, ..Hop::default() })];
        let data = MlccData { credit: 3, queue: Bytes::new(5) };
        let rewrites = [
            None,
            Some(Rewrite::default()),
            Some(Rewrite { clear_int: true, ..Rewrite::default() }),
            Some(Rewrite { ecn: Ecn::Ce, mlcc: Some(data), ..Rewrite::default() }),
            Some(Rewrite { mlcc: Some(MlccData { credit: 4, ..data }), ..Rewrite::default() }),
        ];
        let mut all = Vec::new();
        for mark in MARKS {
            for (not_ect, drop) in [(false, false), (false, true), (true, false), (true, true)] {
                for hold in [0, 9] {
                    for hop in records {
                        let hold = Nanos::new(hold);
                        all.extend(rewrites.map(|rewrite| Verdict { mark, not_ect, drop, hold, hop, rewrite }));
                    }
                }
            }
        }
        assert_eq!(all.len(), 360);
        for &a in &all {
            assert_eq!(a.join(a), a);
            assert_eq!(a.join(Verdict::PASS), a);
            for &b in &all {
                assert_eq!(a.join(b), b.join(a));
                let both = a.join(b);
                for &c in &all {
                    assert_eq!(both.join(c), a.join(b.join(c)));
                }
            }
        }
    }
}
