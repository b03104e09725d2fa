//! Runs library and image side by side in lockstep: the clock stands still while the image works.

use super::device::{Decisions, Device, Difference};
use super::event::NicEvent;
use super::native::Native;
use anyhow::Result;
use cc_core::Rate;
use cc_core::table::Handle;
use hil_algorithms::NicCounters;
use hil_cores::board::{Action, Board};
use hil_cores::interrupts::{InterruptSweep, Interrupts};
use hil_cores::observed_core::CoreObserver;
use hil_cores::probe::Span;
use programs::{LogKind, NO_FLOW};
use std::iter;

/// A NIC that runs twice: natively and on a core.
pub struct Lockstep<C> {
    native: Native,
    board: Board<C>,
    /// A board whose image does not inline the machine's `on`.
    outlined_on: Option<Board<C>>,
    events: u64,
    difference: Option<Difference>,
    identical: bool,
    interrupt_sweep: Option<InterruptSweep>,
}

impl<C: CoreObserver> Lockstep<C> {
    /// The initial state: a NIC that has handled nothing, a board whose image waits for its first event, and optionally a
    /// second board, whose image does not inline the machine's `on`. The second is compared too, and measures the cycles of
    /// `on`.
    pub fn new(native: Native, board: Board<C>, outlined_on: Option<Board<C>>) -> Self {
        let native = native.recorded();
        Self { native, board, outlined_on, events: 0, difference: None, identical: true, interrupt_sweep: None }
    }

    /// Also interrupts each event after every instruction, see [`InterruptSweep`].
    pub fn interrupted(self) -> Self {
        Self { interrupt_sweep: Some(InterruptSweep::default()), ..self }
    }

    /// The outcome of the interrupts, if there were any.
    pub fn interrupts(&self) -> Option<&Interrupts> {
        self.interrupt_sweep.as_ref().map(InterruptSweep::found)
    }

    /// The board.
    pub fn board(&self) -> &Board<C> {
        &self.board
    }

    /// The board, for changes: tests corrupt its memory, and its wave is taken.
    pub fn board_mut(&mut self) -> &mut Board<C> {
        &mut self.board
    }

    /// Cycles by kind and span.
    pub fn cycles(&self) -> impl Iterator<Item = (&(&'static str, Span), &Vec<u32>)> {
        let outlined_on = self.outlined_on.as_ref();
        let cycles =
            self.board.cycles().iter().filter(move |((_, span), _)| outlined_on.is_none() || *span != Span::On);
        let on = outlined_on.into_iter().flat_map(|board| board.cycles()).filter(|((_, span), _)| *span == Span::On);
        cycles.chain(on)
    }

    /// Events compared.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Whether every event compared so far was equal.
    pub fn is_identical(&self) -> bool {
        self.identical
    }

    /// Runs the event that the library has handled on every board, and compares the actions.
    fn compare(
        &mut self,
        now: u64,
        ours: &[(u64, Action)],
        mut work: impl FnMut(&mut Board<C>) -> Result<Vec<(u64, Action)>>,
    ) -> Result<()> {
        self.events += 1;
        for board in iter::once(&mut self.board).chain(&mut self.outlined_on) {
            board.core_mut().event(now);
            let theirs = work(board)?;
            board.core_mut().decided(&theirs, &|slot, show| self.native.explain(slot, show));
            let wakes = (self.native.next_wake(), board.next_wake());
            if let Some(difference) = first_difference(self.events, now, ours, &theirs, Some(wakes))
                && self.identical
            {
                self.identical = false;
                self.difference = Some(difference);
            }
        }
        Ok(())
    }
}

impl<C: CoreObserver + 'static> Device for Lockstep<C> {
    fn next_wake(&self) -> u64 {
        self.native.next_wake()
    }

    fn wake(&mut self, decisions: &mut Decisions) -> Result<()> {
        let now = self.native.next_wake();
        self.native.wake(decisions)?;
        let ours = self.native.take_record();
        self.compare(now, &ours, Board::wake)
    }

    fn deliver(&mut self, now: u64, event: &NicEvent<'_>, decisions: &mut Decisions) -> Result<Option<Handle>> {
        let opened = self.native.deliver(now, event, decisions)?;
        let ours = self.native.take_record();
        let (descriptor, bytes) = (event.descriptor(now), event.frame());
        if let (Some(interrupt_sweep), Some(kind)) = (&mut self.interrupt_sweep, logged(&ours)) {
            interrupt_sweep.event(&self.board, kind, &descriptor, bytes)?;
        }
        self.compare(now, &ours, |board| board.deliver(&descriptor, bytes))?;
        Ok(opened)
    }

    fn difference(&mut self) -> Option<Difference> {
        self.difference.take()
    }

    fn counters(&self) -> NicCounters {
        self.native.counters()
    }
}

/// The first difference between the actions of library and image for one event; `wakes` are the times of their next wakes.
pub(crate) fn first_difference(
    event: u64,
    now: u64,
    ours: &[(u64, Action)],
    theirs: &[(u64, Action)],
    wakes: Option<(u64, u64)>,
) -> Option<Difference> {
    let at = (0..ours.len().max(theirs.len())).find(|&at| ours.get(at).map(action) != theirs.get(at).map(action));
    let (native, core) = match (at, wakes) {
        (Some(at), _) => (describe(ours.get(at)), describe(theirs.get(at))),
        (None, Some((ours, theirs))) if ours != theirs => {
            (format!("sets its next wake to {ours} ns"), format!("sets its next wake to {theirs} ns"))
        }
        _ => return None,
    };
    let log = ours.iter().find_map(|(_, action)| if let Action::Log(record) = action { Some(*record) } else { None });
    let kind = logged(ours).unwrap_or(LogKind::Nothing);
    let slot = log.map(|record| record.index).filter(|&index| index != NO_FLOW).map(|index| match kind {
        LogKind::Open => Handle::from_bits(index).index(),
        _ => index as u16,
    });
    Some(Difference { event, now, kind: kind.name(), slot, native, core })
}

/// The kind of event in the first log record of these actions.
fn logged(actions: &[(u64, Action)]) -> Option<LogKind> {
    let kind =
        actions.iter().find_map(|(_, action)| if let Action::Log(record) = action { Some(record.kind) } else { None });
    kind.and_then(LogKind::from_number)
}

fn action((_, action): &(u64, Action)) -> &Action {
    action
}

/// An action in words.
fn describe(action: Option<&(u64, Action)>) -> String {
    match action {
        None => "does nothing more".to_owned(),
        Some((_, Action::Pace(store))) => format!(
            "paces slot {} at rate {}, window {} B, hold {} ns",
            store.index,
            Rate::from_bits(store.rate),
            store.window,
            store.hold
        ),
        Some((_, Action::Log(record))) => {
            let kind = LogKind::from_number(record.kind).map_or("unknown", LogKind::name);
            format!("logs {kind} at {} ns, index {:#x}", record.now, record.index)
        }
        Some((_, Action::Frame(bytes))) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("sends {hex}")
        }
        Some((_, Action::Read { queue, bytes })) => format!("reads {bytes} bytes in queue {queue}"),
        Some((_, Action::Stage(words))) => format!("acts on a queue: {words:x?}"),
    }
}
