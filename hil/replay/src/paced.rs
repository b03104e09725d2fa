//! Runs the image in real time: each frame arrives at its own cycle, and is lost if the receive ring is full. The library then
//! handles the events of the image's log one by one, and its actions are compared with the image's.

use super::device::{Decisions, Device, Difference};
use super::event::NicEvent;
use super::lockstep::first_difference;
use super::native::Native;
use anyhow::{Context, Result, ensure};
use cc_core::CnpBodyKind;
use cc_core::table::Handle;
use cc_core::wire;
use cc_core::wire::opcode::Class;
use hil_algorithms::NicCounters;
use hil_cores::board::{Action, Board, LogRecord};
use hil_cores::observed_core::CoreObserver;
use programs::LogKind;
use programs::descriptor::Descriptor;
use std::collections::VecDeque;

/// Nanoseconds that the clock advances between two checks whether the image has caught up.
const TIMEOUT_STEP: u64 = 100_000;
/// Steps after which the image counts as hung: 1 s in all.
const TIMEOUT: u32 = 10_000;

/// A NIC that runs on a core in real time.
pub struct Paced<C> {
    /// Handles the events in the order of the image's log.
    native: Native,
    /// Handles the driver's commands at once, so that handles are known before the image has handled the commands.
    driver: Native,
    board: Board<C>,
    waiting: VecDeque<Waiting>,
    /// The image's actions since its last log record.
    group: Vec<(u64, Action)>,
    events: u64,
    overflows: u64,
    lost_cnps: u64,
    coalesced: u64,
    difference: Option<Difference>,
    identical: bool,
}

/// A descriptor in the ring.
struct Waiting {
    descriptor: Descriptor,
    frame: Vec<u8>,
    cnp_qpn: Option<u32>,
}

impl<C: CoreObserver> Paced<C> {
    /// Takes two NICs that have handled nothing, and a board whose image waits for its first event. Starts the clock at zero.
    pub fn new(native: Native, driver: Native, mut board: Board<C>) -> Self {
        board.start_clock(0);
        board.core_mut().event(0);
        Self {
            native: native.recorded(),
            driver,
            board,
            waiting: VecDeque::new(),
            group: Vec::new(),
            events: 0,
            overflows: 0,
            lost_cnps: 0,
            coalesced: 0,
            difference: None,
            identical: true,
        }
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
        self.events
    }

    /// Whether every event compared so far was equal.
    pub fn is_identical(&self) -> bool {
        self.identical
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
            let log = if let Action::Log(record) = action { Some(record) } else { None };
            self.group.push((cycle, action));
            if let Some(record) = log {
                self.follow(record, decisions)?;
            }
        }
        Ok(())
    }

    /// Handles the event of a log record natively, and compares the actions with the image's.
    fn follow(&mut self, record: LogRecord, decisions: &mut Decisions) -> Result<()> {
        if record.kind == LogKind::Wake as u32 {
            self.native.wake_at(record.now, decisions);
        } else {
            let waiting = self.waiting.pop_front().context("the image logged more descriptors than it was given")?;
            let Waiting { descriptor, frame, .. } = &waiting;
            let packet = wire::parse(frame, descriptor.wire_bytes as usize).ok();
            let event = NicEvent::of(descriptor, frame, packet.as_ref());
            self.native.handle(record.now, &event.context("an event that was delivered")?, decisions);
        }
        self.board.core_mut().decided(&self.group, &|slot, show| self.native.explain(slot, show));
        self.events += 1;
        let ours = self.native.take_record();
        if let Some(difference) = first_difference(self.events, record.now, &ours, &self.group, None)
            && self.identical
        {
            self.identical = false;
            self.difference = Some(difference);
        }
        self.group.clear();
        Ok(())
    }

    /// The last waiting CNP for this QP that the image has not yet begun to handle: its place in the ring, counted from the
    /// oldest descriptor, and its index in `waiting`. A further CNP for the QP is counted into this one.
    fn joinable(&self, qpn: u32) -> Option<(u32, usize)> {
        let begun = (self.board.backlog() as usize).saturating_sub(self.waiting.len());
        let waiting = self.waiting.iter().rposition(|waiting| waiting.cnp_qpn == Some(qpn))?;
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
        let cnp_qpn = match event {
            // A CNP with an extended body is not coalesced, because bodies differ.
            NicEvent::Packet { roce, .. } if roce.cnp() == Some(CnpBodyKind::Standard) => Some(roce.bth.dest_qp.get()),
            _ => None,
        };
        if let Some((place, waiting)) = cnp_qpn.and_then(|qpn| self.joinable(qpn)) {
            self.board.coalesce(place);
            if let Some(waiting) = self.waiting.get_mut(waiting) {
                waiting.descriptor.coalesced += 1;
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
            opened = self.driver.handle(now, event, &mut Decisions::new());
        }
        if pushed {
            self.waiting.push_back(Waiting { descriptor, frame: bytes.to_vec(), cnp_qpn });
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
            if self.board.backlog() == 0 {
                // The image logs each event that it has handled, so nothing may be left over.
                self.identical &= self.group.is_empty() && self.waiting.is_empty();
                return Ok(());
            }
            self.run_until(self.board.now() + TIMEOUT_STEP, decisions)?;
        }
        ensure!(self.board.backlog() == 0, "the image has not emptied its receive ring within 1 s");
        Ok(())
    }

    fn difference(&mut self) -> Option<Difference> {
        self.difference.take()
    }

    fn counters(&self) -> NicCounters {
        self.native.counters()
    }
}
