//! The event queue: events in order of time, and at one time by what they mean.

use crate::Picos;
use hil_cores::random::SplitMix;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens, in the order in which it happens at one time. All that a time's earlier kinds cause at that time is done
/// before the later kinds:
///
/// 1. timers, so that a rate that rises at this time holds for a packet that arrives or leaves at this time;
/// 2. arrivals, so that a packet that arrives when a port becomes free is among those that the port chooses from;
/// 3. arrivals of frames that a fault has delayed;
/// 4. PFC frames and messages of a neighbour;
/// 5. ports that become free, and those whose pause is over;
/// 6. hosts that may send, which see all of the above;
/// 7. flows that begin;
/// 8. senders that give up waiting for an acknowledgement;
/// 9. hosts that pause their port;
/// 10. links that fail or come back;
/// 11. watchdogs, which see all of the above.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Class {
    /// The timer of a host's NIC, or of a switch's stages.
    Wake,
    /// The last bit of a packet arrives.
    Arrival,
    /// A frame arrives that a fault has delayed.
    Delayed,
    /// A frame that waits in no queue arrives.
    Notice,
    /// The last bit of a packet has left a port, or its pause is over.
    Free,
    /// A host may have a packet to send.
    Poll,
    /// A flow begins.
    Start,
    /// A sender gives up waiting for an acknowledgement.
    Timeout,
    /// A host pauses its port.
    Pause,
    /// Links fail or come back.
    Failure,
    /// The watchdog looks at a port.
    Watchdog,
}

/// An event: when, what, and where. Each field is part of the order, and equal events have one effect, so that the order in which
/// they were added makes no difference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Event(u128);

impl Event {
    /// An event at this place: a port, counted node by node, a host, or a flow.
    pub(crate) fn new(at: Picos, class: Class, place: u32) -> Self {
        Self(u128::from(at) << 64 | u128::from(class as u8) << 32 | u128::from(place))
    }

    /// When.
    pub(crate) fn at(self) -> Picos {
        (self.0 >> 64) as Picos
    }

    /// What.
    pub(crate) fn class(self) -> Class {
        match (self.0 >> 32) as u8 {
            0 => Class::Wake,
            1 => Class::Arrival,
            2 => Class::Delayed,
            3 => Class::Notice,
            4 => Class::Free,
            5 => Class::Poll,
            6 => Class::Start,
            7 => Class::Timeout,
            8 => Class::Pause,
            9 => Class::Failure,
            _ => Class::Watchdog,
        }
    }

    /// Where.
    pub(crate) fn place(self) -> u32 {
        self.0 as u32
    }
}

/// No place.
const NONE: u32 = u32::MAX;
/// Days of the calendar, a power of two.
const DAYS: usize = 1 << 14;
/// Events in a day when every port of a network sends without a pause. Fewer, and turning to the next day costs more than sorting
/// does; more, and so does adding an event of the same day.
const EVENTS_IN_A_DAY: u64 = 32;
/// Picoseconds of the shortest and the longest day, as powers of two: 512 ps, so that the days reach over 8.4 us and most delays of
/// links, and 131 ns.
const SHORTEST: u32 = 9;
const LONGEST: u32 = 17;

/// A calendar queue: a ring of the next days, each of which is sorted when it comes, and a heap of what lies beyond.
///
/// Adding and taking an event costs a constant time as long as days have few events; idle days are skipped 64 at a time.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// The events of today, the latest first.
    today: Vec<Event>,
    /// Today's number, from time zero.
    day: u64,
    /// Picoseconds of a day, as a power of two.
    length: u32,
    /// The first event of each of the next days in `events`, by the day's number modulo [`DAYS`].
    days: Box<[u32; DAYS]>,
    /// The events of the next days, each with the next one of its day, in no order.
    events: Vec<(Event, u32)>,
    /// The first unused place in `events`.
    unused: u32,
    /// A bit for each of these days: whether it has any.
    occupied: Box<[u64; DAYS / 64]>,
    /// Events in `days`.
    near: usize,
    /// The events of all later days.
    later: BinaryHeap<Reverse<Event>>,
    /// The number of next days whose events are added at once: [`DAYS`] - 1, or none where the order is random.
    next_days: u64,
    /// Events that are not added yet, and what chooses the order in which they are; `None` adds at once.
    shuffled: Option<(Vec<Event>, SplitMix)>,
}

impl Calendar {
    /// An empty calendar that begins at time zero, for a network with so many events in a millisecond when every port sends without
    /// a pause. With a seed, events are added in a random order.
    pub(crate) fn new(events: u64, shuffle: Option<u64>) -> Self {
        let day = 1_000_000_000 * EVENTS_IN_A_DAY / events.max(1);
        Self {
            today: Vec::new(),
            day: 0,
            length: day.max(1).ilog2().clamp(SHORTEST, LONGEST),
            days: Box::new([NONE; DAYS]),
            events: Vec::new(),
            unused: NONE,
            occupied: Box::new([0; DAYS / 64]),
            near: 0,
            later: BinaryHeap::new(),
            next_days: if shuffle.is_none() { DAYS as u64 - 1 } else { 0 },
            shuffled: shuffle.map(|seed| (Vec::new(), SplitMix::new(seed))),
        }
    }

    /// Adds an event, which must not be before the last one that was taken.
    #[inline(never)]
    pub(crate) fn add(&mut self, event: Event) {
        let day = event.at() >> self.length;
        // Most events: one of the next days.
        if day.wrapping_sub(self.day).wrapping_sub(1) < self.next_days {
            self.put(day, event);
        } else {
            self.add_otherwise(event);
        }
    }

    #[inline(never)]
    fn add_otherwise(&mut self, event: Event) {
        match &mut self.shuffled {
            Some((events, _)) => events.push(event),
            None => self.insert(event),
        }
    }

    fn insert(&mut self, event: Event) {
        let day = event.at() >> self.length;
        if day <= self.day {
            let place = self.today.partition_point(|other| *other > event);
            self.today.insert(place, event);
        } else if day - self.day < DAYS as u64 {
            self.put(day, event);
        } else {
            self.later.push(Reverse(event));
        }
    }

    /// Takes the next event.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Event> {
        if self.shuffled.is_some() {
            self.add_shuffled();
        }
        if self.today.is_empty() {
            self.turn();
        }
        self.today.pop()
    }

    #[cold]
    fn add_shuffled(&mut self) {
        let Some((mut events, mut random)) = self.shuffled.take() else { return };
        while !events.is_empty() {
            let place = random.draw() as usize % events.len();
            self.insert(events.swap_remove(place));
        }
        self.shuffled = Some((events, random));
    }

    #[inline]
    fn put(&mut self, day: u64, event: Event) {
        if self.unused == NONE {
            self.grow();
        }
        let place = day as usize % DAYS;
        let head = std::mem::replace(&mut self.days[place], self.unused);
        self.unused = std::mem::replace(&mut self.events[self.unused as usize], (event, head)).1;
        self.occupied[place / 64] |= 1 << (place % 64);
        self.near += 1;
    }

    /// Adds an unused place.
    #[cold]
    fn grow(&mut self) {
        self.unused = self.events.len() as u32;
        self.events.push((Event::new(0, Class::Wake, 0), NONE));
    }

    /// Makes the next day that has events today. Nothing changes if there is none.
    fn turn(&mut self) {
        let next = if self.near > 0 { self.next_occupied() } else { None };
        let later = self.later.peek().map(|Reverse(event)| event.at() >> self.length);
        let Some(day) = next.into_iter().chain(later).min() else { return };
        self.day = day;
        while let Some(Reverse(event)) = self.later.peek()
            && (event.at() >> self.length) - day < DAYS as u64
        {
            let event = *event;
            self.later.pop();
            self.put(event.at() >> self.length, event);
        }
        let place = day as usize % DAYS;
        let mut next = std::mem::replace(&mut self.days[place], NONE);
        while next != NONE {
            let (event, after) = &mut self.events[next as usize];
            self.today.push(*event);
            let unused = std::mem::replace(&mut self.unused, next);
            next = std::mem::replace(after, unused);
        }
        self.occupied[place / 64] &= !(1 << (place % 64));
        self.near -= self.today.len();
        self.today.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// The number of the next day after today that has events.
    fn next_occupied(&self) -> Option<u64> {
        let first = (self.day as usize + 1) % DAYS;
        let words = self.occupied.len();
        (0..=words).find_map(|step| {
            let word = (first / 64 + step) % words;
            let mut bits = self.occupied[word];
            if step == 0 {
                bits &= u64::MAX << (first % 64);
            } else if step == words {
                bits &= !(u64::MAX << (first % 64));
            }
            let place = word * 64 + bits.trailing_zeros() as usize;
            (bits != 0).then(|| self.day + 1 + ((place + DAYS - first) % DAYS) as u64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random events come out in the order of a sorted list, whatever the order in which they were added, over gaps from a
    /// picosecond to an hour and with days of any length.
    #[test]
    fn events_come_in_their_order() {
        for events in [0, 1 << 20, 1 << 40] {
            check_order(events);
        }
    }

    fn check_order(events: u64) {
        let mut random = SplitMix::new(1);
        let mut calendar = Calendar::new(events, None);
        let mut expected = std::collections::BTreeSet::new();
        let mut now = 0;
        for _ in 0..100_000 {
            let draw = random.draw();
            if !draw.is_multiple_of(3) {
                let gap = random.draw() >> (12 + random.draw() % 52);
                let class = [Class::Wake, Class::Arrival, Class::Notice, Class::Free, Class::Poll, Class::Start]
                    [draw as usize % 6];
                let event = Event::new(now + gap, class, (draw >> 8) as u32);
                if expected.insert(event) {
                    calendar.add(event);
                }
            } else {
                let event = calendar.take();
                assert_eq!(event, expected.pop_first());
                now = event.map_or(now, Event::at);
            }
        }
        while let Some(event) = expected.pop_first() {
            assert_eq!(calendar.take(), Some(event));
        }
        assert_eq!(calendar.take(), None);
    }

    #[test]
    fn an_event_has_its_fields() {
        let event = Event::new(u64::MAX, Class::Start, u32::MAX);
        assert_eq!((event.at(), event.class(), event.place()), (u64::MAX, Class::Start, u32::MAX));
        assert!(Event::new(5, Class::Wake, 9) < Event::new(5, Class::Arrival, 0));
        assert!(Event::new(5, Class::Free, 1) < Event::new(5, Class::Free, 2));
        assert!(Event::new(5, Class::Start, 1) < Event::new(6, Class::Wake, 0));
    }
}
