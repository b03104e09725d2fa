//! A port: its queues, and the link that leaves it.

use super::flow_queues::FlowQueues;
use super::packets::{Fifo, InFlight, Kind, Meta, PacketId};
use super::scheduler::{Scheduler, next_in_turn};
use super::switch::Notice;
use super::topology::Link;
use crate::Picos;
pub(super) use cc_core::wire::FRAMING;
use cc_core::wire::pfc::Quantum;
use cc_core::{Nanos, Rate};
use hil_sorted::SortedMap;
use std::collections::VecDeque;

/// How long a frame of so many bytes, preamble, check sequence and gap added, occupies a link of so many bits per second; rounded
/// down.
pub fn serialisation(bits_per_second: u64, frame_bytes: u32) -> Picos {
    line_time(bits_per_second, frame_bytes + FRAMING)
}

pub(super) fn line_time(bits_per_second: u64, bytes: u32) -> Picos {
    u64::from(bytes) * 8_000_000_000_000 / bits_per_second
}

/// One end of a link: what waits there, and the link's packets on their way to the other end.
///
/// A link's delay is constant, so its packets arrive in the order in which they left, and only the arrival of the first is an
/// event in the queue.
// What each packet needs comes first, in two cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Port {
    /// The node.
    pub(super) node: u32,
    /// The port at the other end, counted over all nodes.
    pub(super) peer: u32,
    /// Packets on their way.
    lane: Fifo,
    /// When the last bit of the packet that leaves has left.
    pub(super) free_at: Picos,
    /// When a [`Class::Free`](super::calendar::Class::Free) after which the port sends is in the event queue, or `Picos::MAX`.
    pub(super) free_scheduled: Picos,
    /// The bytes of the frame that left last, and how long it occupied the link: most frames of a port are equally long.
    last: (u16, Picos),
    delay: Picos,
    /// Frames that have begun to leave.
    pub(super) sent: u64,
    /// Bytes of these frames.
    pub(super) sent_bytes: u64,
    /// Acknowledgements and CNPs that wait. They are served first.
    pub(super) control: PortQueue,
    /// Bytes in these queues.
    pub(super) data_bytes: u32,
    /// The queues of flows, if the stages here hold flows.
    pub(super) flow_queues: Option<Box<FlowQueues>>,
    /// What chooses among the classes; without it they are served in turn.
    pub(super) scheduler: Option<Box<Scheduler>>,
    /// The classes whose queues have packets, a bit each.
    occupied: u8,
    /// The class that was served last.
    served: u8,
    /// The classes whose packets are not marked, a bit each.
    pub(super) unmarked: u8,
    /// Rules of [`Faults`](super::faults::Faults) are for frames that leave here.
    pub(super) has_faults: bool,
    /// Times are whole nanoseconds, rounded down.
    whole_nanoseconds: bool,
    /// The classes whose pauses the watchdog ignores, a bit each.
    pub(super) ignored: u8,
    /// Bytes of line time added to each frame.
    framing: u32,
    /// The number of its link in the topology.
    pub(super) link: u32,
    bits_per_second: u64,
    /// Bytes in the switch that came in by this port, by class.
    pub(super) arrived: [u32; CLASSES],
    /// Data that waits, by class.
    pub(super) data: [PortQueue; CLASSES],
    /// PFC: when data of a class may leave again.
    pub(super) paused_until: [Picos; CLASSES],
    /// When the last pause of a class began. A PFC frame that arrives during a pause does not begin another.
    pub(super) paused_from: [Picos; CLASSES],
    /// For how long any class was paused until the last PFC frame, and when that arrived.
    paused: (Picos, Picos),
    /// What the neighbour has sent past the queues, and when it arrives.
    pub(super) notices: VecDeque<(Picos, Notice)>,
    /// Data packets that the stages here have marked with CE.
    pub(super) marks: u64,
    /// Those that they have marked as undetermined, with ECT(1).
    pub(super) undetermined: u64,
}

/// In [`Port::free_scheduled`]: a packet that the port has taken from a queue waits for its verdict, and nothing else leaves.
pub(super) const HELD: Picos = Picos::MAX - 1;

/// Traffic classes of data.
pub(super) const CLASSES: usize = 8;

/// A queue of a port.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct PortQueue {
    packets: Fifo,
    /// Bytes that wait.
    pub(super) bytes: u32,
}

impl Port {
    /// The port of a node that leads by a link, which has a number, to the port `peer`.
    pub(super) fn new(
        (node, peer): (u32, u32),
        (number, link): (u32, &Link),
        framing: u32,
        whole_nanoseconds: bool,
    ) -> Self {
        Self {
            node,
            peer,
            link: number,
            bits_per_second: link.bits_per_second,
            delay: link.delay,
            framing,
            whole_nanoseconds,
            has_faults: false,
            last: (0, 0),
            lane: Fifo::default(),
            free_at: 0,
            free_scheduled: Picos::MAX,
            control: PortQueue::default(),
            data: Default::default(),
            data_bytes: 0,
            occupied: 0,
            served: 0,
            scheduler: None,
            unmarked: 0,
            arrived: [0; CLASSES],
            paused_until: [0; CLASSES],
            paused_from: [0; CLASSES],
            paused: (0, 0),
            ignored: 0,
            flow_queues: None,
            notices: VecDeque::new(),
            sent: 0,
            sent_bytes: 0,
            marks: 0,
            undetermined: 0,
        }
    }

    /// How long a frame occupies the link, rounded down.
    pub(super) fn serialisation(&self, line_bytes: u16) -> Picos {
        let picos = line_time(self.bits_per_second, u32::from(line_bytes) + self.framing);
        if self.whole_nanoseconds { picos / 1_000 * 1_000 } else { picos }
    }

    /// Speed in bits per second.
    pub(super) fn bits_per_second(&self) -> u64 {
        self.bits_per_second
    }

    /// Propagation delay.
    pub(super) fn delay(&self) -> Picos {
        self.delay
    }

    /// The unit of time of PFC frames at this speed.
    pub(super) fn quantum(&self) -> Quantum {
        Quantum::at(Rate::from_bits_per_second(self.bits_per_second))
    }

    /// Begins to send a packet. Returns when it arrives, if no packet is on its way before it.
    #[inline]
    pub(super) fn begin(&mut self, now: Picos, id: PacketId, slab: &mut InFlight) -> Option<Picos> {
        let meta = slab.meta_mut(id);
        if self.last.0 != meta.line_bytes {
            self.last = (meta.line_bytes, self.serialisation(meta.line_bytes));
        }
        self.free_at = now + self.last.1;
        self.sent += 1;
        self.sent_bytes += u64::from(meta.line_bytes);
        let arrives = self.free_at + self.delay;
        (meta.arrives, meta.hops) = (arrives, meta.hops + 1);
        let is_first = self.lane.is_empty();
        self.lane.push(slab, id);
        is_first.then_some(arrives)
    }

    /// Whether the link is down.
    pub(super) const fn is_down(&self) -> bool {
        self.free_at == Picos::MAX
    }

    /// The link fails: nothing leaves until it comes back.
    pub(super) fn take_down(&mut self) {
        self.free_at = Picos::MAX;
    }

    /// The link comes back.
    pub(super) fn bring_up(&mut self, now: Picos) {
        self.free_at = now;
    }

    /// Takes any packet of a port whose pauses are over: none waits any longer by order of a stage or because it is shaped.
    pub(super) fn take_any(&mut self, now: Picos, slab: &mut InFlight) -> Option<PacketId> {
        self.scheduler.iter_mut().for_each(|scheduler| scheduler.end_shaping());
        if let Some(queues) = &mut self.flow_queues {
            queues.end_holds();
        }
        let id = self.next(now, slab).ok()?;
        self.hold(slab.meta(id).flow, now, Nanos::ZERO, slab);
        Some(id)
    }

    /// Takes the packet that has arrived at the other end by this time, and when the next one arrives, if one is on its way. If the
    /// link has failed since it was to arrive, there may be none.
    pub(super) fn arrive(&mut self, now: Picos, slab: &InFlight) -> Option<(PacketId, Option<Picos>)> {
        if slab.meta(self.lane.first()?).arrives > now {
            return None;
        }
        let id = self.lane.pop(slab)?;
        Some((id, self.lane.first().map(|next| slab.meta(next).arrives)))
    }

    /// Puts a packet in the queue of a class or, if the stages here hold flows, of its flow; or of control packets. Returns the bytes
    /// that wait there with it, those of all flows together.
    #[inline(always)]
    pub(super) fn push(&mut self, slab: &mut InFlight, id: PacketId, class: Option<u8>) -> u32 {
        let Some(queues) = &mut self.flow_queues else { return self.enqueue(slab, id, class) };
        if slab.meta(id).kind == Kind::Data && queues.keeps(slab, id) {
            return self.waiting_bytes();
        }
        self.enqueue(slab, id, class)
    }

    fn enqueue(&mut self, slab: &mut InFlight, id: PacketId, class: Option<u8>) -> u32 {
        let bytes = u32::from(slab.meta(id).line_bytes);
        let queue = match class {
            Some(class) => {
                self.occupied |= 1 << class;
                self.data_bytes += bytes;
                &mut self.data[usize::from(class)]
            }
            None => &mut self.control,
        };
        queue.bytes += bytes;
        queue.packets.push(slab, id);
        queue.bytes
    }

    /// Whether a packet waits.
    pub(super) fn has_packets(&self) -> bool {
        self.occupied != 0 || !self.control.packets.is_empty() || self.flow_bytes() > 0
    }

    /// Bytes of data that wait, those in queues of flows included.
    pub(super) fn waiting_bytes(&self) -> u32 {
        self.data_bytes + self.flow_bytes()
    }

    /// Bytes in queues of flows.
    fn flow_bytes(&self) -> u32 {
        self.flow_queues.as_ref().map_or(0, |queues| queues.bytes().iter().sum())
    }

    /// Bytes of a class that wait, those in queues of flows included.
    pub(super) fn class_bytes(&self, class: u8) -> u32 {
        let class = usize::from(class);
        self.data[class].bytes + self.flow_queues.as_ref().map_or(0, |queues| queues.bytes()[class])
    }

    /// Moves the packets of flows that are held no longer to the queues of their classes.
    #[cold]
    fn release_flows(&mut self, now: Picos, slab: &mut InFlight) {
        while let Some(id) = self.flow_queues.as_mut().and_then(|queues| queues.take(now, slab)) {
            let class = slab.meta(id).class;
            self.enqueue(slab, id, Some(class));
        }
    }

    /// Takes the next packet that may leave: a control packet, or else data of the next class, in turn or as
    /// the scheduler chooses.
    ///
    /// # Errors
    /// None may leave. If that changes by itself and no event for it is in the queue, the error has the time.
    #[inline(always)]
    pub(super) fn next(&mut self, now: Picos, slab: &mut InFlight) -> Result<PacketId, Option<Picos>> {
        if let Some(id) = self.control.packets.pop(slab) {
            self.control.bytes -= u32::from(slab.meta(id).line_bytes);
            return Ok(id);
        }
        if self.flow_queues.is_some() || self.scheduler.is_some() {
            return self.next_as_scheduled(now, slab);
        }
        let mut left = self.occupied;
        while left != 0 {
            let class = next_in_turn(left, self.served);
            left &= !(1 << class);
            if let Some((id, _)) = self.take_unpaused(class, now, slab) {
                return Ok(id);
            }
        }
        Err(None)
    }

    /// The next data packet where flows have queues or a scheduler chooses among the classes, as [`Port::next`] returns it.
    #[inline(never)]
    fn next_as_scheduled(&mut self, now: Picos, slab: &mut InFlight) -> Result<PacketId, Option<Picos>> {
        if self.flow_queues.is_some() {
            self.release_flows(now, slab);
        }
        let (mut left, mut later) = (self.occupied, None);
        if let Some(scheduler) = &self.scheduler {
            (left, later) = scheduler.eligible(left, &self.paused_until, now);
        }
        while left != 0 {
            let class = match &mut self.scheduler {
                None => next_in_turn(left, self.served),
                Some(scheduler) => scheduler.choose(left, self.served),
            };
            left &= !(1 << class);
            if let Some((id, line_bytes)) = self.take_unpaused(class, now, slab) {
                if let Some(scheduler) = &mut self.scheduler {
                    scheduler.sent(class, line_bytes, self.occupied >> class & 1 == 0, now);
                }
                return Ok(id);
            }
        }
        let released = self.flow_queues.as_mut().and_then(|queues| queues.next_wake(now));
        Err(later.into_iter().chain(released).min())
    }

    /// Takes the first packet of a class and its bytes, unless the class is paused or empty.
    #[inline]
    fn take_unpaused(&mut self, class: u8, now: Picos, slab: &InFlight) -> Option<(PacketId, u16)> {
        if now < self.paused_until[usize::from(class)] {
            return None;
        }
        let id = self.data[usize::from(class)].packets.pop(slab)?;
        let line_bytes = slab.meta(id).line_bytes;
        self.taken(class, line_bytes);
        self.served = class;
        Some((id, line_bytes))
    }

    /// A packet has been taken from the queue of a class.
    fn taken(&mut self, class: u8, line_bytes: u16) {
        let queue = &mut self.data[usize::from(class)];
        queue.bytes -= u32::from(line_bytes);
        self.data_bytes -= u32::from(line_bytes);
        if queue.packets.is_empty() {
            self.occupied &= !(1 << class);
        }
    }

    /// Takes the first packet of a class, whether it may leave or not.
    pub(super) fn take(&mut self, class: u8, slab: &mut InFlight) -> Option<PacketId> {
        let id = self.data[usize::from(class)].packets.pop(slab)?;
        let Meta { line_bytes, flow, .. } = *slab.meta(id);
        self.taken(class, line_bytes);
        self.hold(flow, 0, Nanos::ZERO, slab);
        Some(id)
    }

    /// The bytes of a class that wait, by the port by which they came in to the switch.
    pub(super) fn bytes_by_ingress(&self, class: u8, slab: &InFlight) -> SortedMap<u32, u32> {
        let mut packets = self.data[usize::from(class)].packets;
        let mut bytes = SortedMap::new();
        while let Some(id) = packets.pop(slab) {
            let Meta { ingress, line_bytes, .. } = *slab.meta(id);
            *bytes.or_default(ingress) += u32::from(line_bytes);
        }
        bytes
    }

    /// A packet of a flow has left, and the next one waits for this time, if the stages here hold flows.
    pub(super) fn hold(&mut self, flow: u32, now: Picos, time: Nanos, slab: &mut InFlight) {
        let Some(queues) = &mut self.flow_queues else { return };
        let until = (time > Nanos::ZERO).then(|| now + Picos::from(time.get()) * 1_000);
        if let Some(id) = queues.left(slab, flow, until) {
            let class = slab.meta(id).class;
            self.enqueue(slab, id, Some(class));
        }
    }

    /// The neighbour pauses a class for this time, or until it resumes it if there is none; a time of zero resumes it. Returns when
    /// the pause is over, if it ends by itself.
    pub(super) fn pause(&mut self, class: u8, now: Picos, time: Option<Nanos>) -> Option<Picos> {
        let at = usize::from(class);
        let over = time.map(|time| now + Picos::from(time.get()) * 1_000);
        self.paused = (self.paused(now), now);
        if now > self.paused_until[at] {
            self.paused_from[at] = now;
        }
        self.paused_until[at] = over.unwrap_or(Picos::MAX);
        over
    }

    /// For how long frames have occupied the link until now. Where times are whole nanoseconds, it is up to one nanosecond a frame too
    /// long.
    pub(super) fn busy(&self, now: Picos) -> Picos {
        let bytes = u128::from(self.sent_bytes) + u128::from(self.sent) * u128::from(self.framing);
        let begun = (bytes * 8_000_000_000_000 / u128::from(self.bits_per_second)) as Picos;
        begun.saturating_sub(self.free_at.saturating_sub(now))
    }

    /// For how long a class was paused until now, one or several.
    pub(super) fn paused(&self, now: Picos) -> Picos {
        let (paused, since) = self.paused;
        let until = self.paused_until.into_iter().max().unwrap_or(0);
        paused + until.min(now).saturating_sub(since)
    }

    /// The packets that wait here or are on the link, and whether they wait.
    pub(super) fn packets(&self, slab: &InFlight) -> impl Iterator<Item = (PacketId, bool)> {
        let queues = self.data.iter().chain([&self.control]).map(|queue| (queue.packets, true));
        let of_flows = self.flow_queues.iter().flat_map(|queues| queues.fifos()).map(|fifo| (fifo, true));
        queues
            .chain(of_flows)
            .chain([(self.lane, false)])
            .flat_map(|(fifo, waits)| fifo.iter(slab).map(move |id| (id, waits)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Class 3 is paused from 10 to 30 ns, class 4 from 25 to 45 ns, ended at 35 ns, and class 3 again from 50 ns until it is resumed
    /// at 80 ns: 10 to 35 and 50 to 80 ns, 55 ns.
    #[test]
    fn a_time_in_which_several_classes_are_paused_counts_once() {
        let link = Link { ends: [0, 1], bits_per_second: 100_000_000_000, delay: 0, loss: 0 };
        let mut port = Port::new((0, 1), (0, &link), FRAMING, false);
        let nanos = |time: u32| Some(Nanos::new(time));
        let changes = [(3, 10, nanos(20)), (4, 25, nanos(20)), (4, 35, nanos(0)), (3, 50, None), (3, 80, nanos(0))];
        let paused: Vec<Picos> = changes
            .into_iter()
            .map(|(class, at, time)| {
                port.pause(class, at * 1_000, time);
                port.paused((at + 2) * 1_000) / 1_000
            })
            .collect();
        assert_eq!(paused, [2, 17, 25, 27, 55]);
        assert_eq!(port.paused(1_000_000), 55_000);
    }
}
