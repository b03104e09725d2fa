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
/// 3. PFC frames and messages of a neighbour;
/// 4. ports that become free, and those whose pause is over;
/// 5. hosts that may send, which see all of the above;
/// 6. flows that begin;
/// 7. senders that give up waiting for an acknowledgement;
/// 8. hosts that pause their port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Class {
    /// The timer of a host's NIC, or of a switch's stages.
    Wake,
    /// The last bit of a packet arrives.
    Arrival,
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
            2 => Class::Notice,
            3 => Class::Free,
            4 => Class::Poll,
            5 => Class::Start,
            6 => Class::Timeout,
            _ => Class::Pause,
        }
    }

    /// Where.
    pub(crate) fn place(self) -> u32 {
        self.0 as u32
    }
}

/// Picoseconds of a day of the calendar, as a power of two: 16.4 ns, in which a 400 Gb/s port sends 820 bytes.
const DAY: u32 = 14;
/// Days of the calendar, a power of two: 134 us. Nearly all events of a network are nearer; retransmission timers and those of
/// the algorithms are not.
const DAYS: usize = 1 << 13;

/// A calendar queue: a ring of the next days, each of which is sorted when it comes, and a heap of what lies beyond.
///
/// Adding and taking an event costs a constant time as long as days have few events; idle days are skipped 64 at a time.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// The events of today, the latest first.
    today: Vec<Event>,
    /// Today's number, from time zero.
    day: u64,
    /// The events of each of the next days, in no order, by the day's number modulo [`DAYS`].
    days: Vec<Vec<Event>>,
    /// A bit for each of these days: whether it has any.
    occupied: Vec<u64>,
    /// Events in `days`.
    near: usize,
    /// The events of all later days.
    later: BinaryHeap<Reverse<Event>>,
    /// Events that are not added yet, and what chooses the order in which they are; `None` adds at once.
    shuffled: Option<(Vec<Event>, SplitMix)>,
}

impl Calendar {
    /// An empty calendar that begins at time zero. With a seed, events are added in a random order.
    pub(crate) fn new(shuffle: Option<u64>) -> Self {
        Self {
            today: Vec::new(),
            day: 0,
            days: vec![Vec::new(); DAYS],
            occupied: vec![0; DAYS / 64],
            near: 0,
            later: BinaryHeap::new(),
            shuffled: shuffle.map(|seed| (Vec::new(), SplitMix::new(seed))),
        }
    }

    /// Adds an event, which must not be before the last one that was taken.
    pub(crate) fn add(&mut self, event: Event) {
        match &mut self.shuffled {
            Some((events, _)) => events.push(event),
            None => self.insert(event),
        }
    }

    fn insert(&mut self, event: Event) {
        let day = event.at() >> DAY;
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

    fn put(&mut self, day: u64, event: Event) {
        let place = day as usize % DAYS;
        self.days[place].push(event);
        self.occupied[place / 64] |= 1 << (place % 64);
        self.near += 1;
    }

    /// Makes the next day that has events today. Nothing changes if there is none.
    fn turn(&mut self) {
        let next = if self.near > 0 { self.next_occupied() } else { None };
        let later = self.later.peek().map(|Reverse(event)| event.at() >> DAY);
        let Some(day) = next.into_iter().chain(later).min() else { return };
        self.day = day;
        while let Some(Reverse(event)) = self.later.peek()
            && (event.at() >> DAY) - day < DAYS as u64
        {
            let event = *event;
            self.later.pop();
            self.put(event.at() >> DAY, event);
        }
        let place = day as usize % DAYS;
        std::mem::swap(&mut self.today, &mut self.days[place]);
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
    /// picosecond to an hour.
    #[test]
    fn events_come_in_their_order() {
        let mut random = SplitMix::new(1);
        let mut calendar = Calendar::new(None);
        let mut expected = std::collections::BTreeSet::new();
        let mut now = 0;
        for _ in 0..200_000 {
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
