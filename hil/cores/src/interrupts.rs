//! Checks that a timer interrupt after any instruction of an event's handling has the same result as the event and the wake
//! handled one after the other.
//!
//! An event is replayed once per instruction, each time on a copy of the board. After one instruction, after two and so on to
//! the end, the clock jumps to the time to which the timer is set. Memory, decisions and frames must then equal those of one of
//! three orders: the event before the wake, with the clock before or after the jump; or the wake before the event.

use crate::board::{Action, Board};
use crate::core::Core;
use anyhow::Result;
use hil_sorted::SortedMap;
use programs::LogKind;
use programs::descriptor::Descriptor;
use serde::Serialize;

/// Results of interrupting events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Interrupts {
    /// Events that were interrupted.
    pub events: u64,
    /// Interrupts: one at each boundary between two instructions of each of these events.
    pub moments: u64,
    /// Interrupts after which memory, decisions and frames were not those of any of the three orders.
    pub inconsistent: u64,
    /// The first of them.
    pub first_inconsistent: Option<String>,
    /// For each kind of event, the most cycles from an interrupt to its handler: those for which interrupts are disabled, plus
    /// those of interrupt entry.
    pub longest_wait: SortedMap<&'static str, u64>,
}

impl Interrupts {
    /// Adds the results of another NIC.
    pub fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.moments += other.moments;
        self.inconsistent += other.inconsistent;
        self.first_inconsistent = self.first_inconsistent.take().or_else(|| other.first_inconsistent.clone());
        for (&kind, &wait) in &other.longest_wait {
            self.waited(kind, wait);
        }
    }

    fn waited(&mut self, kind: &'static str, wait: u64) {
        let longest = self.longest_wait.or_default(kind);
        *longest = wait.max(*longest);
    }
}

/// Interrupts the first event of each kind, the fourth, the sixteenth and so on.
#[derive(Debug, Default)]
pub struct InterruptSweep {
    seen: SortedMap<&'static str, u64>,
    found: Interrupts,
}

/// Memory, decisions and frames after an event and a wake.
#[derive(PartialEq, Eq)]
struct Outcome {
    memory: Vec<u8>,
    actions: Vec<Action>,
}

impl InterruptSweep {
    /// The results so far.
    pub fn found(&self) -> &Interrupts {
        &self.found
    }

    /// Interrupts an event that `board` is about to be given, if it is the 1st, 4th, 16th and so on of its kind.
    ///
    /// # Errors
    /// The image misbehaved.
    pub fn event<C: Core>(
        &mut self,
        board: &Board<C>,
        kind: LogKind,
        descriptor: &Descriptor,
        frame: &[u8],
    ) -> Result<()> {
        let kind = kind.name();
        let seen = self.seen.or_default(kind);
        *seen += 1;
        let is_selected = seen.is_power_of_two() && seen.trailing_zeros().is_multiple_of(2);
        let wake = board.next_wake();
        if !is_selected || wake <= descriptor.now() {
            return Ok(());
        }
        let orders = orders(board, descriptor, frame, wake)?;
        self.found.events += 1;
        // One board executes instruction by instruction; after each, a copy of it is interrupted.
        let mut front = board.fork()?;
        front.begin(descriptor, frame, descriptor.now());
        let before = front.core().instructions();
        while front.step_instruction()? {
            let mut interrupted = front.fork()?;
            // Not due if the firmware has already set the timer to a later time.
            let raised = (front.next_wake() <= wake).then(|| front.core().cycles());
            let outcome = outcome(&mut interrupted, wake)?;
            self.found.moments += 1;
            if !orders.contains(&outcome) {
                self.found.inconsistent += 1;
                let instructions = front.core().instructions() - before;
                let inconsistent =
                    || format!("{kind} {seen} at {} ns, after {instructions} instructions", descriptor.now());
                self.found.first_inconsistent.get_or_insert_with(inconsistent);
            }
            if let (Some(raised), Some(entered)) = (raised, interrupted.timer_entered()) {
                self.found.waited(kind, entered.saturating_sub(raised));
            }
        }
        Ok(())
    }
}

/// The outcomes of the three correct orders.
fn orders<C: Core>(board: &Board<C>, descriptor: &Descriptor, frame: &[u8], wake: u64) -> Result<[Outcome; 3]> {
    let event_first_at = |now| {
        let mut board = board.fork()?;
        board.begin(descriptor, frame, now);
        while board.step_instruction()? {}
        outcome(&mut board, wake)
    };
    let mut woken = board.fork()?;
    woken.advance_to(wake)?;
    woken.begin(descriptor, frame, wake);
    Ok([event_first_at(descriptor.now())?, event_first_at(wake)?, outcome(&mut woken, wake)?])
}

/// Advances the clock to `wake` and runs the image until it idles.
fn outcome<C: Core>(board: &mut Board<C>, wake: u64) -> Result<Outcome> {
    board.advance_to(wake)?;
    let actions = board.take_actions().into_iter().map(|(_, action)| action).collect();
    Ok(Outcome { memory: board.memory(), actions })
}
