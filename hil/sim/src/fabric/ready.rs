//! The flows of a host that may send, and which of them is next.

use super::port::CLASSES;
use super::scheduler::Scheduler;
use crate::Picos;

/// The flows of a host that may send, by their numbers among those that it sends: all in turn or, with a scheduler, by their classes,
/// and in turn within each.
#[derive(Debug)]
pub(super) struct ReadyFlows {
    all: InTurn,
    classes: Option<Box<Classes>>,
}

#[derive(Debug)]
struct Classes {
    scheduler: Scheduler,
    flows: [InTurn; CLASSES],
    /// The class that was served last.
    served: u8,
}

impl Classes {
    /// The classes with flows that may send, a bit each.
    fn occupied(&self) -> u8 {
        (0..)
            .zip(&self.flows)
            .filter(|(_, flows)| !flows.set.is_empty())
            .fold(0, |classes, (class, _)| classes | 1 << class)
    }

    /// The classes of which a flow may send now, a bit each, and when one of the shaped ones may.
    fn eligible(&self, now: Picos) -> (u8, Option<Picos>) {
        // Flows of paused classes are not ready.
        self.scheduler.eligible(self.occupied(), &[0; CLASSES], now)
    }
}

/// Flows that send in turn.
#[derive(Default, Debug)]
struct InTurn {
    set: ReadySet,
    /// The one whose turn it is: behind the one that sent last.
    turn: usize,
}

impl InTurn {
    fn next(&mut self) -> Option<usize> {
        let number = self.set.next_from(self.turn)?;
        self.turn = number + 1;
        Some(number)
    }
}

impl ReadyFlows {
    /// None, for a host with this scheduler, if it has one.
    pub(super) fn new(scheduler: Option<Scheduler>) -> Self {
        let classes = scheduler.map(|scheduler| Classes { scheduler, flows: Default::default(), served: 0 });
        Self { all: InTurn::default(), classes: classes.map(Box::new) }
    }

    fn of(&mut self, class: u8) -> &mut ReadySet {
        match &mut self.classes {
            None => &mut self.all.set,
            Some(classes) => &mut classes.flows[usize::from(class)].set,
        }
    }

    /// A flow may send.
    pub(super) fn insert(&mut self, number: usize, class: u8) {
        self.of(class).insert(number);
    }

    /// A flow may not send.
    pub(super) fn remove(&mut self, number: usize, class: u8) {
        self.of(class).remove(number);
    }

    /// When one of them may send, if there is any: a time that has passed, or when a class is shaped no longer.
    pub(super) fn may_send_at(&self, now: Picos) -> Option<Picos> {
        match &self.classes {
            None => (!self.all.set.is_empty()).then_some(0),
            Some(classes) => match classes.eligible(now) {
                (0, later) => later,
                _ => Some(0),
            },
        }
    }

    /// The flow that sends now, if one may.
    pub(super) fn next(&mut self, now: Picos) -> Option<usize> {
        let Some(classes) = &mut self.classes else { return self.all.next() };
        classes.scheduler.end_credits(classes.occupied());
        let (eligible, _) = classes.eligible(now);
        if eligible == 0 {
            return None;
        }
        classes.served = classes.scheduler.choose(eligible, classes.served);
        classes.flows[usize::from(classes.served)].next()
    }

    /// A packet of a flow of a class leaves.
    pub(super) fn sent(&mut self, class: u8, line_bytes: u16, now: Picos) {
        if let Some(classes) = &mut self.classes {
            // Whether another one is ready shows when the port is free.
            classes.scheduler.sent(class, line_bytes, false, now);
        }
    }
}

/// A set of small numbers, in which the next member after a number is found 64 at a time.
#[derive(Clone, Default, Debug)]
struct ReadySet {
    words: Vec<u64>,
    members: usize,
}

impl ReadySet {
    /// Adds a number.
    fn insert(&mut self, number: usize) {
        if self.words.len() <= number / 64 {
            self.words.resize(number / 64 + 1, 0);
        }
        let word = &mut self.words[number / 64];
        self.members += usize::from(*word & 1 << (number % 64) == 0);
        *word |= 1 << (number % 64);
    }

    /// Removes a number, if it is a member.
    fn remove(&mut self, number: usize) {
        if let Some(word) = self.words.get_mut(number / 64) {
            self.members -= usize::from(*word & 1 << (number % 64) != 0);
            *word &= !(1 << (number % 64));
        }
    }

    /// Whether it has no member.
    fn is_empty(&self) -> bool {
        self.members == 0
    }

    /// The least member from `first` on, or else the least of all.
    fn next_from(&self, first: usize) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let masked = |word: usize| {
            let bits = self.words.get(word).copied().unwrap_or(0);
            if word == first / 64 { bits & u64::MAX << (first % 64) } else { bits }
        };
        let after = (first / 64..self.words.len()).map(|word| (word, masked(word)));
        let before = (0..self.words.len()).map(|word| (word, self.words[word]));
        let (word, bits) = after.chain(before).find(|&(_, bits)| bits != 0)?;
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_follow_each_other_in_a_circle() {
        let mut set = ReadySet::default();
        assert_eq!(set.next_from(0), None);
        for number in [3, 64, 127, 500] {
            set.insert(number);
            set.insert(number);
        }
        for (from, next) in [(0, 3), (3, 3), (4, 64), (64, 64), (65, 127), (128, 500), (500, 500), (501, 3), (9_999, 3)]
        {
            assert_eq!(set.next_from(from), Some(next), "{from}");
        }
        set.remove(3);
        set.remove(3);
        set.remove(7_000);
        assert_eq!(set.next_from(501), Some(64));
        for number in [64, 127, 500] {
            set.remove(number);
        }
        assert!(set.is_empty());
        assert_eq!(set.next_from(1), None);
    }
}
