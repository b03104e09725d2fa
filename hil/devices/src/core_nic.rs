//! A NIC whose program runs on a core, for a caller that has a clock of its own: each action of the image is handed out at the time
//! of its store.

use super::device::Decisions;
use super::event::{Joins, NicEvent};
use super::follower::{Follower, Handled, Waiting};
use super::native::{self, Native};
use anyhow::{Result, ensure};
use cc_core::Bytes;
use cc_core::wire::opcode::Class;
use hil_algorithms::CoreUse;
use hil_cores::board::{Action, Board, Pace};
use hil_cores::core::Core;
use programs::LogKind;
use programs::descriptor::{Descriptor, DescriptorKind};
use programs::layout::RX_SLOTS;
use std::collections::VecDeque;

/// The queue in front of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueRule {
    /// Events that it holds, the one in service included. A frame or a sent packet that finds it full is lost. Commands of the driver
    /// are not: the driver waits.
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

/// What comes next.
#[derive(Debug)]
enum Next {
    /// The image's action takes effect.
    Action(Action),
    /// The core has finished with a descriptor.
    Finished,
}

/// A NIC that runs on a core, and natively to compare.
///
/// In lockstep the core is infinitely fast: an event is handled in the call that brings it. In real time it takes its cycles.
pub struct CoreNic<C> {
    follower: Follower,
    /// Handles the driver's commands at once, so that handles are known before the image has handled the commands.
    driver: Native,
    board: Board<C>,
    rule: QueueRule,
    is_real: bool,
    /// Of the waiting descriptors, how many are in the image's receive ring.
    in_ring: usize,
    /// What the image has done that takes effect later than the caller's present time. Nothing that comes until then changes it.
    ahead: VecDeque<(u64, Next)>,
    /// Actions that have taken effect and that the caller has not taken.
    ready: VecDeque<(u64, Action)>,
    usage: CoreUse,
    /// Cycles that the image took to start: those not asleep, and all.
    booted: [u64; 2],
    /// Handled events, if they are kept.
    log: Option<Vec<Entry>>,
}

impl<C: Core> CoreNic<C> {
    /// Takes two NICs that have handled nothing, and a board whose image waits for its first event. Starts the clock at zero.
    pub fn new(native: Native, driver: Native, mut board: Board<C>, pace: Pace, rule: QueueRule) -> Self {
        board.start_clock(0);
        let booted = [board.active_cycles(), board.core().cycles()];
        Self {
            follower: Follower::new(native),
            driver,
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

    /// Keeps the events that are handled from now on, see [`CoreNic::take_log`].
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

    /// The library's NIC, which has handled what the image has.
    pub fn native(&self) -> &Native {
        self.follower.native()
    }

    /// When [`CoreNic::take`] is to be called next, in nanoseconds.
    ///
    /// # Errors
    /// None for a board in the pace that was given.
    pub fn next_time(&self) -> Result<u64> {
        match (self.ready.front(), self.ahead.front()) {
            (Some((time, _)), _) | (None, Some((time, _))) => Ok(*time),
            _ if self.is_real => self.board.next_step(),
            _ => Ok(self.board.next_wake()),
        }
    }

    /// Takes the image's next action that has taken effect at `now`, with its time; `None` if there is none.
    ///
    /// # Errors
    /// The image misbehaved, or its decisions differ from the library's.
    pub fn take(&mut self, now: u64) -> Result<Option<(u64, Action)>> {
        if self.ready.is_empty() {
            self.advance(now)?;
        }
        Ok(self.ready.pop_front())
    }

    /// The next action that has taken effect, with its time.
    pub fn take_ready(&mut self) -> Option<(u64, Action)> {
        self.ready.pop_front()
    }

    /// Brings an event at `now`, in nanoseconds. Of a command of the driver, returns kind and index of the log record that the image
    /// will make.
    ///
    /// # Errors
    /// The image misbehaved, or its decisions differ from the library's.
    pub fn deliver(&mut self, now: u64, event: &NicEvent<'_>) -> Result<Option<(LogKind, u32)>> {
        let logged = event.is_command().then(|| self.driver.handle(now, event, &mut Decisions::new()));
        let opened = logged.and_then(native::opened);
        let waiting =
            Waiting { descriptor: event.descriptor(now), frame: event.frame().to_vec(), joins: event.joins(), opened };
        if !self.is_real {
            self.usage.longest = 1;
            let actions = self.board.handle(&waiting.descriptor, &waiting.frame)?;
            self.follower.waiting_mut().push_back(waiting);
            self.lockstep(now, actions)?;
            return Ok(logged);
        }
        self.advance(now)?;
        if let Some(joins) = waiting.joins.filter(|_| self.rule.joins)
            && self.join(joins, &waiting)
        {
            return Ok(None);
        }
        if self.usage.waiting >= self.rule.bound && !event.is_command() {
            let lost = &mut self.usage.lost;
            *match event {
                NicEvent::Packet { roce, .. } => match roce.info.class() {
                    Class::Cnp => &mut lost.cnps,
                    Class::Ack => &mut lost.acks,
                    _ => &mut lost.data,
                },
                NicEvent::Pause { .. } => &mut lost.pauses,
                _ => &mut lost.sent,
            } += 1;
            return Ok(None);
        }
        self.follower.waiting_mut().push_back(waiting);
        self.usage.waiting += 1;
        if !event.is_command() {
            self.usage.longest = self.usage.longest.max(self.usage.waiting);
        }
        self.refill();
        self.advance(now)?;
        Ok(logged)
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
                    Next::Action(action) => self.ready.push_back((time, action)),
                    Next::Finished => {
                        self.usage.waiting -= 1;
                        self.refill();
                    }
                }
            }
            if !self.ahead.is_empty() {
                return Ok(());
            }
            let backlog = self.board.backlog();
            let Some(time) = self.board.run_ahead(now)? else { return Ok(()) };
            for (cycle, action) in self.board.take_actions() {
                if !matches!(action, Action::Log(_)) && !self.is_stale(&action) {
                    self.ahead.push_back((time, Next::Action(action.clone())));
                }
                self.follow(time, cycle, action)?;
            }
            if self.board.backlog() < backlog {
                self.ahead.push_back((time, Next::Finished));
            }
        }
    }

    /// Takes the actions of an image in lockstep, all of which take effect at `now`.
    fn lockstep(&mut self, now: u64, actions: Vec<(u64, Action)>) -> Result<()> {
        for (cycle, action) in actions {
            if !matches!(action, Action::Log(_)) {
                self.ready.push_back((now, action.clone()));
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
                if [DescriptorKind::Frame as u8, DescriptorKind::Sent as u8].contains(&descriptor.kind) {
                    let delay = time.saturating_sub(descriptor.now());
                    self.usage.delay_ns += delay;
                    self.usage.longest_delay_ns = self.usage.longest_delay_ns.max(delay);
                    self.usage.events += 1;
                } else {
                    self.usage.commands += 1;
                }
            }
            None => self.usage.timers += 1,
        }
        if let Some(log) = &mut self.log {
            let [_, booted] = self.booted;
            let mut entry = Entry { core: 0, began: self.board.began() - booted, handled };
            entry.handled.actions.iter_mut().for_each(|(cycle, _)| *cycle -= booted);
            log.push(entry);
        }
        Ok(())
    }
}
