//! The CNPs that our notification points would send, beside those that the capture shows.

use super::fast::FastMap;
use super::flows::Address;
use serde::Serialize;
use std::collections::VecDeque;

/// CNPs listed at most.
const LISTED: usize = 1_024;
/// CNPs of ours that may wait for their captured twin, for each QP and in all.
const WAITING: usize = 1_024;
const WAITING_OF_ALL: usize = 1 << 18;

/// From whom to which QP a CNP goes.
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

/// How the two compare. The n-th CNP to a QP that we would send is held against the n-th captured one.
#[derive(Clone, Copy, Debug, Default, Serialize)]
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
    waiting: FastMap<VecDeque<u64>>,
    waiting_count: usize,
    comparison: Comparison,
}

impl Cnps {
    /// We would send one.
    pub fn ours(&mut self, now: u64, route: Route) {
        self.sent += 1;
        if self.listed.len() < LISTED {
            self.listed.push((now, route));
        }
        let waiting = self.waiting.entry(route.key()).or_default();
        if waiting.len() >= WAITING || self.waiting_count >= WAITING_OF_ALL {
            self.comparison.only_ours += 1;
            return;
        }
        waiting.push_back(now);
        self.waiting_count += 1;
    }

    /// The capture shows one.
    pub fn captured(&mut self, now: u64, route: Route) {
        self.comparison.captured += 1;
        let ours = self.waiting.get_mut(&route.key()).and_then(VecDeque::pop_front);
        self.waiting_count -= usize::from(ours.is_some());
        let count = match ours {
            Some(time) if time == now => &mut self.comparison.equal,
            Some(_) => &mut self.comparison.shifted,
            None => &mut self.comparison.only_captured,
        };
        *count += 1;
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
        let waiting = self.waiting_count as u64;
        Comparison { only_ours: self.comparison.only_ours + waiting, ..self.comparison }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cnp_meets_its_twin_or_is_counted_alone() {
        let route = |qpn| Route { from: 1, to: 2, qpn };
        let mut cnps = Cnps::default();
        for (now, qpn) in [(10, 7), (20, 7), (30, 8)] {
            cnps.ours(now, route(qpn));
        }
        for (now, qpn) in [(10, 7), (25, 7), (30, 9)] {
            cnps.captured(now, route(qpn));
        }
        let Comparison { captured, equal, shifted, only_ours, only_captured } = cnps.comparison();
        assert_eq!((captured, equal, shifted, only_ours, only_captured), (3, 1, 1, 1, 1));
        assert_eq!((cnps.sent(), cnps.listed().len()), (3, 3));
    }
}
