//! Follows an image of a NIC or switch that runs in its own time: handles each event natively when the image has logged it, at
//! the time that the image has logged, and compares the actions of both.

use super::device::{Decisions, Difference};
use super::event::Joins;
use super::lockstep::first_difference;
use super::reference::{Handled, Reference};
use anyhow::{Context, Result};
use cc_core::table::Handle;
use hil_cores::board::Action;
use programs::descriptor::Descriptor;
use std::collections::VecDeque;

/// A descriptor that the image has not finished with.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The descriptor.
    pub descriptor: Descriptor,
    /// The bytes of its frame.
    pub frame: Vec<u8>,
    /// What a later event may be merged with it by.
    pub joins: Option<Joins>,
    /// The flow that it opens.
    pub opened: Option<Handle>,
}

/// The native NIC or switch and what the image has yet to do.
pub struct Follower<N> {
    native: N,
    waiting: VecDeque<Waiting>,
    /// The image's actions since its last log record.
    group: Vec<(u64, Action)>,
    decisions: Decisions,
    events: u64,
    difference: Option<Difference>,
    identical: bool,
}

impl<N: Reference> Follower<N> {
    /// Takes a NIC or switch that has handled nothing, and that records its actions.
    pub fn new(native: N) -> Self {
        Self {
            native,
            waiting: VecDeque::new(),
            group: Vec::new(),
            decisions: Decisions::new(),
            events: 0,
            difference: None,
            identical: true,
        }
    }

    /// The descriptors that the image has not finished with, the oldest first.
    pub fn waiting(&self) -> &VecDeque<Waiting> {
        &self.waiting
    }

    /// The same, to add one or to merge one with another.
    pub fn waiting_mut(&mut self) -> &mut VecDeque<Waiting> {
        &mut self.waiting
    }

    /// The native NIC or switch.
    pub fn native(&self) -> &N {
        &self.native
    }

    /// Events compared.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Whether every event compared so far was equal, and no action is left over.
    pub fn is_identical(&self) -> bool {
        self.identical
    }

    /// Whether the image has acted since its last log record: it is in the middle of an event.
    pub fn is_in_event(&self) -> bool {
        !self.group.is_empty()
    }

    /// At the end: every action must belong to an event, and every descriptor must have been handled.
    pub fn finish(&mut self) {
        self.identical &= self.group.is_empty() && self.waiting.is_empty();
    }

    /// The first difference, once.
    pub fn difference(&mut self) -> Option<Difference> {
        self.difference.take()
    }

    /// The native decisions since the last call.
    pub fn take_decisions(&mut self) -> Decisions {
        std::mem::take(&mut self.decisions)
    }

    /// Takes the next action of the image. If it ends an event, handles the event natively and returns it.
    ///
    /// # Errors
    /// The image has logged a descriptor that it was not given.
    pub fn take(&mut self, cycle: u64, action: Action) -> Result<Option<Handled>> {
        let log = if let Action::Log(record) = action { Some(record) } else { None };
        self.group.push((cycle, action));
        let Some(record) = log else { return Ok(None) };
        let descriptor = if record.kind == N::WAKE {
            None
        } else {
            let waiting = self.waiting.pop_front().context("the image logged more descriptors than it was given")?;
            Some((waiting.descriptor, waiting.frame))
        };
        let handled = Handled { descriptor, actions: std::mem::take(&mut self.group) };
        self.check(&handled)?;
        Ok(Some(handled))
    }

    /// Handles an event natively that an image has handled, and compares the actions of both.
    ///
    /// # Errors
    /// The event has no log record, or its descriptor and frame do not go together.
    pub fn check(&mut self, handled: &Handled) -> Result<()> {
        let Some((_, Action::Log(record))) = handled.actions.last() else {
            anyhow::bail!("an event without a log record")
        };
        let ours = self.native.handle_again(record.now, handled, &mut self.decisions)?;
        self.events += 1;
        if let Some(difference) = first_difference(self.events, record.now, &ours, &handled.actions, None)
            && self.identical
        {
            self.identical = false;
            self.difference = Some(Difference { kind: N::kind(record.kind), ..difference });
        }
        Ok(())
    }
}
