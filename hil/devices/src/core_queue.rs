//! A core that runs the program of a NIC or switch, and the queue in front of it, for a caller that has a clock of its own: each
//! action of the image is handed out at the time of its store.

use super::event::Joins;
use super::follower::{Follower, Waiting};
use super::reference::{Handled, Reference};
use anyhow::{Result, ensure};
use cc_core::Bytes;
use hil_algorithms::{CoreUse, Lost};
use hil_cores::board::{Action, Board, Pace};
use hil_cores::core::Core;
use programs::descriptor::Descriptor;
use programs::layout::RX_SLOTS;
use std::collections::VecDeque;

/// The queue in front of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueRule {
    /// Events that it holds, the one in service included. An event that finds it full is lost, unless its sender waits until there is
    /// room: a driver with a command, or a port with a packet that leaves.
    pub bound: usize,
    /// Whether an acknowledgement or a standard CNP is merged with one of the same queue pair that waits and is not in service.
    pub joins: bool,
}

impl QueueRule {
    /// The highest bound.
    pub const MOST: usize = 65_536;
}

impl Default for QueueRule {
    /// As many events as the image's receive ring holds, and none is merged.
    fn default() -> Self {
        Self { bound: RX_SLOTS, joins: false }
    }
}

/// An event that the core has handled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The number of the core among those that share the NIC; 0 if it has one.
    pub core: usize,
    /// The cycle in which the core began with it: that of the store to the pin which shows that it works. Cycles count from time 0.
    pub began: u64,
    /// What it was, and what the image did, each action with the cycle of its store. The event came at the time of its descriptor; of
    /// merged events, the time of the last.
    pub handled: Handled,
}

/// An action of the image that has taken effect, or the end of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effect {
    /// When, in nanoseconds.
    pub time: u64,
    /// The action; `None` when the image has logged that it has handled a descriptor, where [`Reference::REPORTS_ENDS`].
    pub action: Option<Action>,
    /// Whether the image works on a descriptor, the oldest that it has not handled; if not, the effect is of a timer interrupt.
    pub is_of_descriptor: bool,
}

/// What comes next.
#[derive(Debug)]
enum Next {
    /// See [`Effect`].
    Effect(Option<Action>, bool),
    /// The core has finished with a descriptor.
    Finished,
    /// The core reads the number of bytes in a queue of a switch.
    Read,
}

/// A NIC or switch that runs on a core, and natively to compare.
///
/// In lockstep the core is infinitely fast: an event is handled in the call that brings it. In real time it takes its cycles.
pub struct CoreQueue<N, C> {
    follower: Follower<N>,
    board: Board<C>,
    rule: QueueRule,
    is_real: bool,
    /// Of the waiting descriptors, how many are in the image's receive ring.
    in_ring: usize,
    /// What the image has done that takes effect later than the caller's present time. Nothing that comes until then changes it.
    ahead: VecDeque<(u64, Next)>,
    /// Actions that have taken effect and that the caller has not taken.
    ready: VecDeque<Effect>,
    usage: CoreUse,
    /// Cycles that the image took to start: those not asleep, and all.
    booted: [u64; 2],
    /// Handled events, if they are kept.
    log: Option<Vec<Entry>>,
}

impl<N: Reference, C: Core> CoreQueue<N, C> {
    /// Takes a NIC or switch that has handled nothing and that records its actions, and a board whose image waits for its first
    /// event. Starts the clock at zero.
    pub fn new(native: N, mut board: Board<C>, pace: Pace, rule: QueueRule) -> Self {
        board.start_clock(0);
        board.stop_measuring();
        let booted = [board.active_cycles(), board.core().cycles()];
        Self {
            follower: Follower::new(native),
            board,
            rule,
            is_real: pace != Pace::Lockstep,
            in_ring: 0,
            ahead: VecDeque::new(),
            ready: VecDeque::new(),
            usage: CoreUse::default(),
            booted,
            log: None,
        }
    }

    /// Keeps the events that are handled from now on, see [`CoreQueue::take_log`].
    pub fn keep_log(&mut self) {
        self.log = Some(Vec::new());
    }

    /// The events handled since the last call, if they are kept.
    pub fn take_log(&mut self) -> Vec<Entry> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What the core has done so far.
    pub fn usage(&self) -> CoreUse {
        let [active, all] = self.booted;
        let active_cycles = self.board.active_cycles() - active;
        let cycles = if self.is_real { self.board.core().cycles() - all } else { 0 };
        CoreUse { active_cycles, cycles, ..self.usage }
    }

    /// The library's NIC or switch, which has handled what the image has.
    pub fn native(&self) -> &N {
        self.follower.native()
    }

    /// For a switch: sets the number of bytes in a queue or that arrived by it, which the image may read: see [`Board::set_queued`].
    pub fn set_queued(&mut self, queue: u32, bytes: u32) {
        self.board.set_queued(queue, bytes);
    }

    /// When [`CoreQueue::take`] is to be called next, in nanoseconds.
    ///
    /// # Errors
    /// None for a board in the pace that was given.
    pub fn next_time(&self) -> Result<u64> {
        match (self.ready.front(), self.ahead.front()) {
            (Some(Effect { time, .. }), _) | (None, Some((time, _))) => Ok(*time),
            _ if self.is_real => self.board.next_step(),
            _ => Ok(self.board.next_wake()),
        }
    }

    /// Takes the image's next action that has taken effect at `now`; `None` if there is none.
    ///
    /// # Errors
    /// The image misbehaved, or its decisions differ from the library's.
    pub fn take(&mut self, now: u64) -> Result<Option<Effect>> {
        if self.ready.is_empty() {
            self.advance(now)?;
        }
        Ok(self.ready.pop_front())
    }

    /// The next action that has taken effect.
    pub fn take_ready(&mut self) -> Option<Effect> {
        self.ready.pop_front()
    }

    /// Brings an event at `now`, in nanoseconds; `lost` counts it if it is lost.
    ///
    /// # Errors
    /// The image misbehaved, or its decisions differ from the library's.
    pub fn deliver(&mut self, now: u64, waiting: Waiting, lost: impl FnOnce(&mut Lost)) -> Result<()> {
        if !self.is_real {
            self.usage.longest = 1;
            let actions = self.board.handle(&waiting.descriptor, &waiting.frame)?;
            self.follower.waiting_mut().push_back(waiting);
            return self.lockstep(now, actions);
        }
        self.advance(now)?;
        if let Some(joins) = waiting.joins.filter(|_| self.rule.joins)
            && self.join(joins, &waiting)
        {
            return Ok(());
        }
        let is_command = N::is_command(&waiting.descriptor);
        if self.usage.waiting >= self.rule.bound && !N::sender_waits(&waiting.descriptor) {
            lost(&mut self.usage.lost);
            return Ok(());
        }
        self.follower.waiting_mut().push_back(waiting);
        self.usage.waiting += 1;
        if !is_command {
            self.usage.longest = self.usage.longest.max(self.usage.waiting.min(self.rule.bound));
        }
        self.refill();
        self.advance(now)
    }

    /// Merges an event with one that waits and that the core has not begun with. Returns whether there is one.
    fn join(&mut self, joins: Joins, new: &Waiting) -> bool {
        let all = self.follower.waiting();
        let begun = (self.board.backlog() as usize) - self.in_ring;
        let Some(index) = all.iter().rposition(|waiting| waiting.joins == Some(joins)) else { return false };
        // The core may be working on the oldest one.
        if index + begun == 0 {
            return false;
        }
        let Some(waiting) = self.follower.waiting_mut().get_mut(index) else { return false };
        let Descriptor { coalesced, acked, .. } = waiting.descriptor;
        match joins {
            Joins::Cnp(_) => {
                waiting.descriptor.coalesced = coalesced + 1;
                self.usage.joined_cnps += 1;
            }
            Joins::Ack(_) => {
                let acked = Bytes::new(acked).saturating_add(Bytes::new(new.descriptor.acked)).get();
                waiting.descriptor = Descriptor { acked, ..new.descriptor };
                waiting.frame.clone_from(&new.frame);
                self.usage.joined_acks += 1;
            }
        }
        if index < self.in_ring {
            self.board.replace((index + begun) as u32, &waiting.descriptor, &waiting.frame);
        }
        true
    }

    /// Puts descriptors into the image's receive ring as long as there is room.
    fn refill(&mut self) {
        while let Some(Waiting { descriptor, frame, .. }) = self.follower.waiting().get(self.in_ring)
            && self.board.push(descriptor, frame)
        {
            self.in_ring += 1;
        }
    }

    /// Lets the image work until `now`, and on to its next action if nothing that comes until then can change it.
    fn advance(&mut self, now: u64) -> Result<()> {
        if !self.is_real {
            self.board.advance_to(now)?;
            let actions = self.board.take_actions();
            return self.lockstep(now, actions);
        }
        loop {
            while let Some((time, next)) = self.ahead.pop_front_if(|(time, _)| *time <= now) {
                match next {
                    Next::Effect(action, is_of_descriptor) => {
                        self.ready.push_back(Effect { time, action, is_of_descriptor });
                    }
                    Next::Finished => {
                        self.usage.waiting -= 1;
                        self.refill();
                    }
                    Next::Read => {}
                }
            }
            if !self.ahead.is_empty() {
                return Ok(());
            }
            let backlog = self.board.backlog();
            let Some(time) = self.board.run_ahead(now)? else { return Ok(()) };
            let (actions, is_finished) = (self.board.take_actions(), self.board.backlog() < backlog);
            if actions.is_empty() && !is_finished {
                self.ahead.push_back((time, Next::Read));
            }
            for (cycle, action) in actions {
                if let Some(effect) = effect::<N>(&action)
                    && !self.is_stale(&action)
                {
                    self.ahead.push_back((time, Next::Effect(effect, self.board.handles_descriptor())));
                }
                self.follow(time, cycle, action)?;
            }
            if is_finished {
                self.ahead.push_back((time, Next::Finished));
            }
        }
    }

    /// Takes the actions of an image in lockstep, all of which take effect at `now`.
    fn lockstep(&mut self, now: u64, actions: Vec<(u64, Action)>) -> Result<()> {
        for (cycle, action) in actions {
            if let Some(effect) = effect::<N>(&action) {
                let is_of_descriptor = !self.follower.waiting().is_empty();
                self.ready.push_back(Effect { time: now, action: effect, is_of_descriptor });
            }
            self.follow(now, cycle, action)?;
        }
        Ok(())
    }

    /// Whether an action is a decision for a flow that has been closed, while another is being opened in its slot.
    fn is_stale(&self, action: &Action) -> bool {
        let Action::Pace(store) = action else { return false };
        let in_service = usize::from(self.board.handles_descriptor());
        let opened = self.follower.waiting().iter().skip(in_service).filter_map(|waiting| waiting.opened);
        opened.into_iter().any(|flow| u32::from(flow.index()) == store.index)
    }

    /// Compares what the image has done with what the library does.
    fn follow(&mut self, time: u64, cycle: u64, action: Action) -> Result<()> {
        let Some(handled) = self.follower.take(cycle, action)? else { return Ok(()) };
        let difference = self.follower.difference();
        ensure!(difference.is_none(), "{}", difference.map(|found| found.to_string()).unwrap_or_default());
        match &handled.descriptor {
            Some((descriptor, _)) => {
                self.in_ring = self.in_ring.saturating_sub(1);
                // Commands of the driver do not come from the wire.
                if N::is_command(descriptor) {
                    self.usage.commands += 1;
                } else {
                    let delay = time.saturating_sub(descriptor.now());
                    self.usage.delay_ns += delay;
                    self.usage.longest_delay_ns = self.usage.longest_delay_ns.max(delay);
                    self.usage.events += 1;
                }
            }
            None => self.usage.timers += 1,
        }
        if let Some(log) = &mut self.log {
            let [_, booted] = self.booted;
            let began = self.board.began(handled.descriptor.is_none());
            let mut entry = Entry { core: 0, began: began - booted, handled };
            entry.handled.actions.iter_mut().for_each(|(cycle, _)| *cycle -= booted);
            log.push(entry);
        }
        Ok(())
    }
}

/// What an action is to the caller: itself or the end of an event, if it has an effect.
fn effect<N: Reference>(action: &Action) -> Option<Option<Action>> {
    match action {
        Action::Log(record) => (N::REPORTS_ENDS && record.kind != N::WAKE).then_some(None),
        Action::Read { .. } => None,
        _ => Some(Some(action.clone())),
    }
}
