//! Runs the image in real time: each frame arrives at its own cycle, and is lost if the receive ring is full. The library then
//! handles the events of the image's log one by one, and its actions are compared with the image's.

use super::device::{Decisions, Device, Difference};
use super::event::{Joins, NicEvent};
use super::follower::{Follower, Waiting};
use super::native::{self, Native};
use anyhow::{Result, ensure};
use cc_core::table::Handle;
use cc_core::wire::opcode::Class;
use hil_algorithms::NicCounters;
use hil_cores::board::Board;
use hil_cores::observed_core::CoreObserver;

/// Nanoseconds that the clock advances between two checks whether the image has caught up.
const TIMEOUT_STEP: u64 = 100_000;
/// Steps after which the image counts as hung: 1 s in all.
const TIMEOUT: u32 = 10_000;

/// A NIC that runs on a core in real time.
pub struct Paced<C> {
    follower: Follower<Native>,
    /// Handles the driver's commands at once, so that handles are known before the image has handled the commands.
    driver: Native,
    board: Board<C>,
    overflows: u64,
    lost_cnps: u64,
    coalesced: u64,
}

impl<C: CoreObserver> Paced<C> {
    /// Takes two NICs that have handled nothing, and a board whose image waits for its first event. Starts the clock at zero.
    pub fn new(native: Native, driver: Native, mut board: Board<C>) -> Self {
        board.start_clock(0);
        board.core_mut().event(0);
        Self { follower: Follower::new(native.recorded()), driver, board, overflows: 0, lost_cnps: 0, coalesced: 0 }
    }

    /// The board.
    pub fn board(&self) -> &Board<C> {
        &self.board
    }

    /// The board, from which a recorded wave can be taken.
    pub fn board_mut(&mut self) -> &mut Board<C> {
        &mut self.board
    }

    /// Events compared.
    pub fn events(&self) -> u64 {
        self.follower.events()
    }

    /// Whether every event compared so far was equal.
    pub fn is_identical(&self) -> bool {
        self.follower.is_identical()
    }

    /// Descriptors that were lost because the ring was full.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }

    /// Of these, those of CNPs.
    pub fn lost_cnps(&self) -> u64 {
        self.lost_cnps
    }

    /// CNPs that were counted into the descriptor of an earlier CNP, still waiting in the ring.
    pub fn coalesced(&self) -> u64 {
        self.coalesced
    }

    /// Runs the image until the clock shows `now`, and handles each event that it logs.
    fn run_until(&mut self, now: u64, decisions: &mut Decisions) -> Result<()> {
        for (cycle, action) in self.board.run_until(now)? {
            if let Some(handled) = self.follower.take(cycle, action)? {
                let native = self.follower.native();
                self.board.core_mut().decided(&handled.actions, &|slot, show| native.explain(slot, show));
            }
        }
        decisions.append(&mut self.follower.take_decisions());
        Ok(())
    }

    /// The last waiting CNP for this QP that the image has not yet begun to handle: its place in the ring, counted from the
    /// oldest descriptor, and its index among those that wait. A further CNP for the QP is counted into this one.
    fn joinable(&self, joins: Joins) -> Option<(u32, usize)> {
        let all = self.follower.waiting();
        let begun = (self.board.backlog() as usize).saturating_sub(all.len());
        let waiting = all.iter().rposition(|waiting| waiting.joins == Some(joins))?;
        u32::try_from(waiting + begun).ok().filter(|&place| place > 0).map(|place| (place, waiting))
    }
}

impl<C: CoreObserver + 'static> Device for Paced<C> {
    /// Never: the board's own timer wakes the image.
    fn next_wake(&self) -> u64 {
        u64::MAX
    }

    fn wake(&mut self, _: &mut Decisions) -> Result<()> {
        Ok(())
    }

    fn deliver(&mut self, now: u64, event: &NicEvent<'_>, decisions: &mut Decisions) -> Result<Option<Handle>> {
        self.run_until(now, decisions)?;
        let (descriptor, bytes) = (event.descriptor(now), event.frame());
        // Acknowledgements are not merged: a replay has them all.
        let joins = event.joins().filter(|joins| matches!(joins, Joins::Cnp(_)));
        if let Some((place, waiting)) = joins.and_then(|joins| self.joinable(joins)) {
            if let Some(Waiting { descriptor, frame, .. }) = self.follower.waiting_mut().get_mut(waiting) {
                descriptor.coalesced += 1;
                self.board.replace(place, descriptor, frame);
            }
            self.coalesced += 1;
            return Ok(None);
        }
        let mut pushed = self.board.push(&descriptor, bytes);
        let mut steps = 0;
        while !pushed && event.is_command() {
            // The driver waits until the ring has room; frames from the wire are lost.
            ensure!(steps < TIMEOUT, "the image has not emptied its receive ring within 1 s");
            steps += 1;
            self.run_until(self.board.now() + TIMEOUT_STEP, decisions)?;
            pushed = self.board.push(&descriptor, bytes);
        }
        let mut opened = None;
        if event.is_command() {
            // The replayer gets the handle now, and the decisions when the image has handled the descriptor.
            opened = native::opened(self.driver.handle(now, event, &mut Decisions::new()));
        }
        if pushed {
            self.follower.waiting_mut().push_back(Waiting { descriptor, frame: bytes.to_vec(), joins, opened });
        } else {
            self.overflows += 1;
            let is_cnp = matches!(event, NicEvent::Packet { roce, .. } if roce.info.class() == Class::Cnp);
            self.lost_cnps += u64::from(is_cnp);
        }
        Ok(opened)
    }

    fn finish(&mut self, now: u64, decisions: &mut Decisions) -> Result<()> {
        self.run_until(now, decisions)?;
        for _ in 0..TIMEOUT {
            if self.board.backlog() == 0 && !self.follower.is_in_event() {
                break;
            }
            self.run_until(self.board.now() + TIMEOUT_STEP, decisions)?;
        }
        ensure!(self.board.backlog() == 0, "the image has not emptied its receive ring within 1 s");
        // The image logs each event that it has handled, so nothing may be left over.
        self.follower.finish();
        Ok(())
    }

    fn difference(&mut self) -> Option<Difference> {
        self.follower.difference()
    }

    fn counters(&self) -> NicCounters {
        self.follower.native().counters()
    }
}
