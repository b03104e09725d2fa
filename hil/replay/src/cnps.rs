//! The CNPs that our notification points would send, beside those that the capture shows.

use super::fast::FastMap;
use super::flows::Address;
use serde::Serialize;

/// Most CNPs in the list.
const LISTED: usize = 1_024;
/// Most CNPs of either side that are compared; further ones count as having no counterpart.
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

/// Captured CNPs compared with ours. In each flow, captured CNPs are matched with ours one to one, so that the sum of the
/// differences in time is the smallest possible. Two CNPs are not matched if they are half of the flow's smallest gap apart, or
/// more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Comparison {
    /// CNPs in the capture, sent by NICs that were replayed.
    pub captured: u64,
    /// Captured CNPs matched with one of ours, to the same QP in the same nanosecond.
    pub equal: u64,
    /// Captured CNPs matched with one of ours, to the same QP at another time.
    pub shifted: u64,
    /// Our CNPs that are matched with no captured one.
    pub only_ours: u64,
    /// Captured CNPs that are matched with none of ours.
    pub only_captured: u64,
}

/// The CNPs of a replay.
#[derive(Debug, Default)]
pub struct Cnps {
    listed: Vec<(u64, Route)>,
    sent: u64,
    captured: u64,
    /// For each route, the times of our CNPs and of the captured ones.
    routes: FastMap<[Vec<u64>; 2]>,
    compared: [usize; 2],
}

const OURS: usize = 0;
const CAPTURED: usize = 1;

impl Cnps {
    /// Records a CNP that our notification point would send.
    pub fn ours(&mut self, now: u64, route: Route) {
        self.sent += 1;
        if self.listed.len() < LISTED {
            self.listed.push((now, route));
        }
        self.add(OURS, now, route);
    }

    /// Records a CNP of the capture.
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

    /// The first 1,024 of our CNPs, with their times.
    pub fn listed(&self) -> &[(u64, Route)] {
        &self.listed
    }

    /// Number of CNPs that we would send.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Compares the CNPs of both sides.
    pub fn comparison(&self) -> Comparison {
        let mut all = Comparison { captured: self.captured, ..Comparison::default() };
        for [ours, captured] in self.routes.values() {
            let pairs = match_times(&mut ours.clone(), &mut captured.clone());
            let equal = pairs.iter().filter(|&&apart| apart == 0).count() as u64;
            all.equal += equal;
            all.shifted += pairs.len() as u64 - equal;
        }
        all.only_ours = self.sent - all.equal - all.shifted;
        all.only_captured = self.captured - all.equal - all.shifted;
        all
    }
}

/// Matches two lists of times in pairs, with the smallest possible sum of differences. Returns the difference of each pair.
///
/// Two times can be a pair if they are less than half of the flow's smallest gap apart. A captured time can therefore match
/// only one of our times (which may occur several times), and for each of our times the nearest candidates are chosen.
fn match_times(ours: &mut [u64], captured: &mut [u64]) -> Vec<u64> {
    ours.sort_unstable();
    captured.sort_unstable();
    let least = least_gap(ours).or(least_gap(captured)).unwrap_or(u64::MAX);
    let is_near = |apart: u64| apart == 0 || apart.saturating_mul(2) < least;
    let (mut pairs, mut left) = (Vec::with_capacity(ours.len()), &*captured);
    for equal in ours.chunk_by(|one, other| one == other) {
        let Some(&time) = equal.first() else { continue };
        let before = left.partition_point(|&other| other < time && !is_near(time - other));
        left = left.get(before..).unwrap_or_default();
        let near = left.partition_point(|&other| other <= time || is_near(other - time));
        let (candidates, rest) = left.split_at(near);
        left = rest;
        let mut apart: Vec<u64> = candidates.iter().map(|other| other.abs_diff(time)).collect();
        apart.sort_unstable();
        pairs.extend(apart.into_iter().take(equal.len()));
    }
    pairs
}

/// The smallest difference between two neighbours that are not equal.
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
    fn each_cnp_is_matched_or_counted_as_unmatched() {
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
    fn one_missing_cnp_changes_the_match_of_no_other() {
        let ours: Vec<u64> = (0..616).map(|nth| nth * 50_000 + nth % 7).collect();
        let captured: Vec<u64> = ours.iter().copied().filter(|&time| time != ours[300]).collect();
        let expected = Comparison { captured: 615, equal: 615, only_ours: 1, ..Comparison::default() };
        assert_eq!(compare(&ours, &captured), expected);
        assert_eq!(compare(&captured, &ours), Comparison { captured: 616, only_ours: 0, only_captured: 1, ..expected });
    }

    #[test]
    fn two_cnps_at_one_time_match_in_either_order() {
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
        /// A captured CNP without a match follows it, farther than half of the smallest gap from any other.
        Followed,
    }

    /// Gaps between CNPs: of DCQCN, 50 us or more, and of DCQCN+, whose round-robin slots are 1 us.
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
        fn cnps_removed_added_and_shifted_are_counted_as_such((gaps, changes) in gaps()) {
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
                let half = least.div_ceil(2).min(1 << 40);
                let (from, to) = (now + half, next.map_or(0, |next| next - half));
                if change == Change::Followed && from <= to {
                    captured.push(from + random % (to - from + 1));
                    expected.only_captured += 1;
                }
            }
            expected.captured = captured.len() as u64;
            prop_assert_eq!(compare(&ours, &captured), expected);
        }
    }

    /// The smallest cost, found by trying every match: twice the difference of each pair, and `least` for each of our times
    /// without a match.
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
        fn no_other_choice_of_pairs_is_closer(
            mut ours in prop::collection::vec(0..60_u64, 2..7), mut captured in prop::collection::vec(0..60_u64, 0..7)
        ) {
            ours.sort_unstable();
            let Some(least) = least_gap(&ours) else { return Ok(()) };
            let expected = brute_force(&ours, &captured, least);
            let pairs = match_times(&mut ours, &mut captured);
            let alone = (ours.len() - pairs.len()) as u64;
            prop_assert_eq!(2 * pairs.iter().sum::<u64>() + alone * least, expected);
        }
    }
}
