//! The CNPs that our notification points would send, beside those that the capture shows.

use super::fast::FastMap;
use super::flows::Address;
use serde::Serialize;

/// CNPs listed at most.
const LISTED: usize = 1_024;
/// CNPs compared at most, of either side; further ones are counted as having no twin.
const COMPARED: usize = 1 << 22;

/// The path of a CNP: its sender, and the NIC and QP that it goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The NIC that notifies.
    pub from: Address,
    /// The NIC that is notified.
    pub to: Address,
    /// Its QP.
    pub qpn: u32,
}

impl Route {
    fn key(self) -> u64 {
        u64::from(self.from) << 40 | u64::from(self.to) << 24 | u64::from(self.qpn)
    }
}

/// How the two compare, flow by flow: each captured CNP is matched with one of ours, so that the sum of the differences in time
/// is the least. Two that are half of the flow's least gap apart, or more, are not matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Comparison {
    /// CNPs in the capture, sent by NICs that were replayed.
    pub captured: u64,
    /// Of these, as many as we would send too, to the same QP in the same nanosecond.
    pub equal: u64,
    /// To the same QP at another time.
    pub shifted: u64,
    /// Ours that have no twin in the capture.
    pub only_ours: u64,
    /// Captured ones that we would not send.
    pub only_captured: u64,
}

/// The CNPs of a replay.
#[derive(Debug, Default)]
pub struct Cnps {
    listed: Vec<(u64, Route)>,
    sent: u64,
    captured: u64,
    /// Of each route, the times of ours and of those captured.
    routes: FastMap<[Vec<u64>; 2]>,
    compared: [usize; 2],
}

const OURS: usize = 0;
const CAPTURED: usize = 1;

impl Cnps {
    /// Our notification point would send a CNP.
    pub fn ours(&mut self, now: u64, route: Route) {
        self.sent += 1;
        if self.listed.len() < LISTED {
            self.listed.push((now, route));
        }
        self.add(OURS, now, route);
    }

    /// The capture has a CNP.
    pub fn captured(&mut self, now: u64, route: Route) {
        self.captured += 1;
        self.add(CAPTURED, now, route);
    }

    fn add(&mut self, side: usize, now: u64, route: Route) {
        if self.compared[side] < COMPARED {
            self.compared[side] += 1;
            self.routes.entry(route.key()).or_default()[side].push(now);
        }
    }

    /// The first of ours, with their times.
    pub fn listed(&self) -> &[(u64, Route)] {
        &self.listed
    }

    /// All of ours.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// How they compare.
    pub fn comparison(&self) -> Comparison {
        let mut all = Comparison { captured: self.captured, ..Comparison::default() };
        for [ours, captured] in self.routes.values() {
            let twins = twins(&mut ours.clone(), &mut captured.clone());
            let equal = twins.iter().filter(|&&apart| apart == 0).count() as u64;
            all.equal += equal;
            all.shifted += twins.len() as u64 - equal;
        }
        all.only_ours = self.sent - all.equal - all.shifted;
        all.only_captured = self.captured - all.equal - all.shifted;
        all
    }
}

/// How far apart the twins among these times are, the sum of which is the least that is possible.
///
/// Two times are twins if they are less than half of the flow's least gap apart. So a captured CNP can be the twin of those of
/// ours only that are at one time, and of all that can be theirs the nearest are.
fn twins(ours: &mut [u64], captured: &mut [u64]) -> Vec<u64> {
    ours.sort_unstable();
    captured.sort_unstable();
    let least = least_gap(ours).or(least_gap(captured)).unwrap_or(u64::MAX);
    let is_near = |apart: u64| apart == 0 || apart.saturating_mul(2) < least;
    let (mut twins, mut left) = (Vec::with_capacity(ours.len()), &*captured);
    for equal in ours.chunk_by(|one, other| one == other) {
        let Some(&time) = equal.first() else { continue };
        let before = left.partition_point(|&other| other < time && !is_near(time - other));
        left = left.get(before..).unwrap_or_default();
        let near = left.partition_point(|&other| other <= time || is_near(other - time));
        let (candidates, rest) = left.split_at(near);
        left = rest;
        let mut apart: Vec<u64> = candidates.iter().map(|other| other.abs_diff(time)).collect();
        apart.sort_unstable();
        twins.extend(apart.into_iter().take(equal.len()));
    }
    twins
}

/// The least time between two that are not equal.
fn least_gap(times: &[u64]) -> Option<u64> {
    times.windows(2).map(|pair| pair[1] - pair[0]).filter(|&gap| gap > 0).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn compare(ours: &[u64], captured: &[u64]) -> Comparison {
        let route = Route { from: 1, to: 2, qpn: 7 };
        let mut cnps = Cnps::default();
        ours.iter().for_each(|&now| cnps.ours(now, route));
        captured.iter().for_each(|&now| cnps.captured(now, route));
        cnps.comparison()
    }

    #[test]
    fn each_cnp_meets_its_twin_or_is_counted_alone() {
        let route = |qpn| Route { from: 1, to: 2, qpn };
        let mut cnps = Cnps::default();
        for (now, qpn) in [(10, 7), (20, 7), (30, 8)] {
            cnps.ours(now, route(qpn));
        }
        for (now, qpn) in [(10, 7), (24, 7), (30, 9)] {
            cnps.captured(now, route(qpn));
        }
        let expected = Comparison { captured: 3, equal: 1, shifted: 1, only_ours: 1, only_captured: 1 };
        assert_eq!(cnps.comparison(), expected);
        assert_eq!((cnps.sent(), cnps.listed().len()), (3, 3));
    }

    #[test]
    fn one_cnp_that_is_missing_moves_no_other() {
        let ours: Vec<u64> = (0..616).map(|nth| nth * 50_000 + nth % 7).collect();
        let captured: Vec<u64> = ours.iter().copied().filter(|&time| time != ours[300]).collect();
        let expected = Comparison { captured: 615, equal: 615, only_ours: 1, ..Comparison::default() };
        assert_eq!(compare(&ours, &captured), expected);
        assert_eq!(compare(&captured, &ours), Comparison { captured: 616, only_ours: 0, only_captured: 1, ..expected });
    }

    #[test]
    fn the_order_in_which_the_two_of_an_instant_come_does_not_matter() {
        let route = Route { from: 1, to: 2, qpn: 7 };
        let mut cnps = Cnps::default();
        cnps.captured(50, route);
        cnps.ours(50, route);
        assert_eq!(cnps.comparison().equal, 1);
    }

    /// The change made to each CNP of a flow.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Change {
        None,
        Removed,
        Shifted,
        /// One of its own stands behind it, farther than half of the least gap from any.
        Followed,
    }

    /// Gaps of DCQCN, a timer and the traffic, and of DCQCN+, whose slots are a microsecond.
    fn gaps() -> impl Strategy<Value = (Vec<u64>, Vec<(Change, u64)>)> {
        let change = prop_oneof![
            12 => Just(Change::None), 1 => Just(Change::Removed), 1 => Just(Change::Shifted), 1 => Just(Change::Followed)
        ];
        (prop_oneof![Just(50_000_u64), Just(1_000)], 1..80_usize).prop_flat_map(move |(least, count)| {
            let gaps = prop::collection::vec(prop_oneof![Just(least), least..least * 40], count);
            (gaps, prop::collection::vec((change.clone(), any::<u64>()), count))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        #[test]
        fn what_was_removed_added_and_shifted_is_given_back((gaps, changes) in gaps()) {
            let ours: Vec<u64> = gaps.iter().scan(1_000_000, |now, gap| { *now += gap; Some(*now) }).collect();
            let least = least_gap(&ours).unwrap_or(u64::MAX);
            let mut captured = Vec::new();
            let mut expected = Comparison::default();
            for (place, &(change, random)) in changes.iter().enumerate() {
                let (now, next) = (ours[place], ours.get(place + 1).copied());
                match change {
                    Change::Removed => expected.only_ours += 1,
                    Change::Shifted if least > 2 && least < u64::MAX => {
                        let by = 1 + random % ((least - 1) / 2);
                        captured.push(if random >> 63 == 0 { now + by } else { now - by });
                        expected.shifted += 1;
                    }
                    _ => {
                        captured.push(now);
                        expected.equal += 1;
                    }
                }
                let (from, to) = (now + least.div_ceil(2).min(1 << 40), next.map_or(0, |next| next - least.div_ceil(2).min(1 << 40)));
                if change == Change::Followed && from <= to {
                    captured.push(from + random % (to - from + 1));
                    expected.only_captured += 1;
                }
            }
            expected.captured = captured.len() as u64;
            prop_assert_eq!(compare(&ours, &captured), expected);
        }
    }

    /// The least cost by trying everything: the differences of twins, and for each of ours without one as much as no twin may
    /// be apart.
    fn brute_force(ours: &[u64], captured: &[u64], least: u64) -> u64 {
        let Some((&first, rest)) = ours.split_first() else { return 0 };
        let mut best = least + brute_force(rest, captured, least);
        for (place, other) in captured.iter().enumerate() {
            if 2 * other.abs_diff(first) < least {
                let mut left = captured.to_vec();
                left.remove(place);
                best = best.min(2 * other.abs_diff(first) + brute_force(rest, &left, least));
            }
        }
        best
    }

    proptest! {
        #[test]
        fn no_other_choice_of_twins_is_closer(
            mut ours in prop::collection::vec(0..60_u64, 2..7), mut captured in prop::collection::vec(0..60_u64, 0..7)
        ) {
            ours.sort_unstable();
            let Some(least) = least_gap(&ours) else { return Ok(()) };
            let expected = brute_force(&ours, &captured, least);
            let twins = twins(&mut ours, &mut captured);
            let alone = (ours.len() - twins.len()) as u64;
            prop_assert_eq!(2 * twins.iter().sum::<u64>() + alone * least, expected);
        }
    }
}
