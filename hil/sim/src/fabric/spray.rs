//! Packet spraying: each data packet takes any of the equal paths. Each switch chooses by itself.

use super::routes::Routes;
use crate::workload::stream;
use hil_cores::random::SplitMix;
use hil_sorted::SortedMap;
use std::collections::HashMap;

/// What chooses the paths of sprayed packets.
#[derive(Debug)]
pub(super) struct Spray {
    is_random: bool,
    seed: u64,
    /// The random numbers of each switch that has drawn any.
    random: SortedMap<u32, SplitMix>,
    /// The equal ports by which a switch sends packets on to a host, and whose turn it is. Looked up only, in no order.
    equal: HashMap<(u32, u32), (Vec<u32>, usize)>,
}

impl Spray {
    /// Chooses at random, or one port after the other for each switch and destination.
    pub(super) fn new(is_random: bool, seed: u64) -> Self {
        Self { is_random, seed, random: SortedMap::new(), equal: HashMap::new() }
    }

    /// The port by which a switch sends a packet on to the host `to`; `None` if there is no path.
    pub(super) fn next(&mut self, routes: &Routes, from: u32, to: u32) -> Option<u32> {
        let (ports, turn) = self.equal.entry((from, to)).or_insert_with(|| (routes.onward(from, to), 0));
        if self.is_random && ports.len() > 1 {
            let own = || stream(self.seed, &format!("spray {from}"));
            *turn = self.random.or_insert_with(from, own).below(ports.len() as u32) as usize;
        }
        let port = ports.get(*turn).copied()?;
        *turn = (*turn + 1) % ports.len();
        Some(port)
    }

    /// The routes have changed.
    pub(super) fn forget(&mut self) {
        self.equal.clear();
    }
}
