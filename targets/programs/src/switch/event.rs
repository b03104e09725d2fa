//! What can happen at a port and a priority, and how the ring's descriptors say it.
//!
//! The words of a descriptor are named for a NIC. Of those a switch uses `wire_bytes` for the packet's bytes, `handle` for port
//! and priority, `qpn` for the bytes in the queue, `psn` for those in all queues of the port, `coalesced` for ECN bits, `rtt`
//! for the length of a pause, `acked` for what a relay says (bit 16, its number below).

use crate::descriptor::Descriptor;
use crate::switch::{PORTS, PRIORITIES};
use cc_core::{Bytes, Ecn, Nanos};
use cc_cp::Packet;
use cc_cp::swing::RelayMessage;

/// A port and a priority.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Queue {
    /// Below [`PORTS`].
    pub port: u8,
    /// Below [`PRIORITIES`].
    pub priority: u8,
}

impl Queue {
    /// Its number among all of the switch.
    #[inline]
    pub const fn index(self) -> u32 {
        self.port as u32 * PRIORITIES as u32 + self.priority as u32
    }

    /// The queue of this number, if the switch has it.
    #[inline]
    pub const fn of(index: u32) -> Option<Self> {
        let queue = Self { port: (index / PRIORITIES as u32) as u8, priority: (index % PRIORITIES as u32) as u8 };
        if index < (PORTS * PRIORITIES) as u32 { Some(queue) } else { None }
    }
}

/// What happened at a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A packet comes in by the port, in this priority.
    Arrived {
        /// Bytes on the wire.
        bytes: Bytes,
        /// Bytes in the queue, without it.
        queued: Bytes,
    },
    /// A packet leaves.
    Left(Packet),
    /// The node downstream pauses the queue.
    Paused {
        /// For so long; zero resumes.
        time: Nanos,
        /// Bytes in the queue.
        queued: Bytes,
    },
    /// The relay at the other end of the long link speaks.
    Told(RelayMessage),
}

/// The kinds of events, as descriptors and the event log number them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Nothing that concerns a stage.
    Nothing = 0,
    /// See [`Event::Arrived`].
    Arrived = 1,
    /// See [`Event::Left`].
    Left = 2,
    /// See [`Event::Paused`].
    Paused = 3,
    /// See [`Event::Told`].
    Told = 4,
    /// Time passed.
    Wake = 5,
}

impl Kind {
    /// Its name in reports: that of the function that handles it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Arrived => "arrived",
            Self::Left => "left",
            Self::Paused => "paused",
            Self::Told => "told",
            Self::Wake => "wake",
        }
    }
}

impl Event {
    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Arrived { .. } => Kind::Arrived,
            Self::Left(_) => Kind::Left,
            Self::Paused { .. } => Kind::Paused,
            Self::Told(_) => Kind::Told,
        }
    }

    /// The descriptor of what happened at a queue at this time, in nanoseconds.
    pub const fn at(&self, now: u64, queue: Queue) -> Descriptor {
        let blank = Descriptor {
            kind: self.kind() as u8,
            handle: queue.index(),
            ..Descriptor::at(crate::descriptor::DescriptorKind::Frame, now)
        };
        match *self {
            Self::Arrived { bytes, queued } => Descriptor { wire_bytes: bytes.get(), qpn: queued.get(), ..blank },
            Self::Left(Packet { bytes, queued, port_queued, ecn }) => Descriptor {
                wire_bytes: bytes.get(),
                qpn: queued.get(),
                psn: port_queued.get(),
                coalesced: ecn.to_bits() as u32,
                ..blank
            },
            Self::Paused { time, queued } => Descriptor { rtt: time.get(), qpn: queued.get(), ..blank },
            Self::Told(RelayMessage { paused, seq }) => {
                Descriptor { acked: (paused as u32) << 16 | seq as u32, ..blank }
            }
        }
    }

    /// What a descriptor says; `None` when that is nothing, or of no queue of this switch.
    #[inline]
    pub fn of(descriptor: &Descriptor) -> Option<(Queue, Self)> {
        const ARRIVED: u8 = Kind::Arrived as u8;
        const LEFT: u8 = Kind::Left as u8;
        const PAUSED: u8 = Kind::Paused as u8;
        const TOLD: u8 = Kind::Told as u8;
        let bytes = Bytes::new(descriptor.wire_bytes);
        let queued = Bytes::new(descriptor.qpn);
        let event = match descriptor.kind {
            ARRIVED => Self::Arrived { bytes, queued },
            LEFT => {
                let (port_queued, ecn) = (Bytes::new(descriptor.psn), Ecn::from_bits(descriptor.coalesced as u8));
                Self::Left(Packet { bytes, queued, port_queued, ecn })
            }
            PAUSED => Self::Paused { time: Nanos::new(descriptor.rtt), queued },
            TOLD => Self::Told(RelayMessage { paused: descriptor.acked >> 16 & 1 == 1, seq: descriptor.acked as u16 }),
            _ => return None,
        };
        Some((Queue::of(descriptor.handle)?, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_say_what_happened_and_where() {
        let (bytes, queued, port_queued) = (Bytes::new(1_064), Bytes::new(300_000), Bytes::new(400_000));
        let events = [
            Event::Arrived { bytes, queued },
            Event::Left(Packet { bytes, queued, port_queued, ecn: Ecn::Ect0 }),
            Event::Left(Packet { bytes, queued, port_queued, ecn: Ecn::Ce }),
            Event::Paused { time: Nanos::new(65_535), queued },
            Event::Paused { time: Nanos::ZERO, queued },
            Event::Told(RelayMessage { paused: true, seq: 0xffff }),
            Event::Told(RelayMessage { paused: false, seq: 1 }),
        ];
        for index in 0..(PORTS * PRIORITIES) as u32 {
            let queue = Queue::of(index).unwrap();
            for event in events {
                let descriptor = event.at(7_000_000_000, queue);
                assert_eq!((descriptor.now(), Event::of(&descriptor)), (7_000_000_000, Some((queue, event))));
            }
        }
    }

    #[test]
    fn what_is_of_no_queue_or_of_no_kind_says_nothing() {
        let event = Event::Told(RelayMessage { paused: true, seq: 1 });
        for handle in [(PORTS * PRIORITIES) as u32, u32::MAX] {
            let descriptor = Descriptor { handle, ..event.at(0, Queue { port: 0, priority: 0 }) };
            assert_eq!(Event::of(&descriptor), None);
        }
        for kind in [0, 5, 255] {
            let descriptor = Descriptor { kind, ..event.at(0, Queue { port: 0, priority: 0 }) };
            assert_eq!(Event::of(&descriptor), None);
        }
    }
}
