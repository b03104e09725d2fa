//! The switch: at each port an egress queue for data and one for control packets, and the library's congestion points.

use super::marking::Stages;
use super::network::Neighbour;
use super::packet::{DATA, DataLayout, Flow, InFlight};
use super::slab::PacketId;
use super::{Cable, Picos, instant};
use anyhow::Result;
use cc_core::table::Heap;
use cc_core::wire::shim::IntShim;
use cc_core::wire::{CnpMarking, NoCrc, Roce};
use cc_core::{Bytes, CnpBody, Hop, Link, Nanos};
use cc_cp::list::StageList;
use cc_cp::{Emit, Event, Kind, Packet, PeerMessage, Queue, SendPfc, Stage, Verdict};
use programs::switch_ring::{self, Room};
use std::collections::{BTreeMap, VecDeque};

/// A port, with the queues of the packets that leave by it.
#[derive(Debug)]
struct Port {
    cable: Cable,
    control: VecDeque<PacketId>,
    /// Data, each packet with the port by which it came in.
    data: VecDeque<(PacketId, usize)>,
    data_bytes: u32,
    /// Bytes of data in the switch that came in by this port.
    arrived_bytes: u32,
    /// PFC: data waits until this time.
    paused_until: Picos,
    /// Flows that a stage holds, each with the time before which its next packet does not leave.
    holds: BTreeMap<usize, Picos>,
    busy: bool,
}

impl Port {
    /// An idle port.
    const fn new(cable: Cable) -> Self {
        Self {
            cable,
            control: VecDeque::new(),
            data: VecDeque::new(),
            data_bytes: 0,
            arrived_bytes: 0,
            paused_until: 0,
            holds: BTreeMap::new(),
            busy: false,
        }
    }

    /// Takes the first data packet that may leave, with the port by which it came in.
    ///
    /// # Errors
    /// None may leave. If that changes by itself, without a PFC frame, the error has the time.
    fn next_data(&mut self, now: Picos) -> Result<(PacketId, usize), Option<Picos>> {
        if now < self.paused_until {
            return Err(None);
        }
        self.data.pop_front().ok_or(None)
    }

    /// As [`Port::next_data`], where stages hold flows.
    fn next_not_held(&mut self, now: Picos, slab: &InFlight) -> Result<(PacketId, usize), Option<Picos>> {
        if now < self.paused_until {
            return Err(None);
        }
        let until = |&(packet, _): &(PacketId, usize)| self.holds.get(&slab.flow(packet)).copied().unwrap_or(0);
        match self.data.iter().position(|entry| until(entry) <= now) {
            Some(place) => self.data.remove(place).ok_or(None),
            None => Err(self.data.iter().map(until).min()),
        }
    }
}

/// The data queue of a port.
fn data_queue(port: usize) -> Queue {
    Queue { port: port as u16, class: DATA }
}

/// A frame that a stage sends.
#[derive(Debug)]
pub(super) enum Sent {
    /// A CNP to the sender of a flow.
    Cnp(PacketId),
    /// A PFC frame with these quanta for data, to the neighbour at a port.
    Pfc(usize, u16),
    /// A message to the switch at the other end of the cable at a port.
    Peer(usize, PeerMessage),
}

/// The packets of a run, as a switch needs them.
pub(super) struct Packets<'a> {
    /// The packets in flight.
    pub(super) slab: &'a mut InFlight,
    /// The flows.
    pub(super) flows: &'a [Flow],
    /// A data packet as parsed; all have this layout.
    pub(super) data: &'a Roce<'a>,
    /// The offsets of its fields.
    pub(super) layout: DataLayout,
}

/// Receives the frames of the stages.
struct Output<'a> {
    slab: &'a mut InFlight,
    ports: &'a [Port],
    sent: &'a mut Vec<Sent>,
    /// The flow of the packet that is passed to the stages, and its sender.
    cause: (usize, usize),
}

impl Emit for Output<'_> {
    /// Puts the CNP in a slot, whole, with zeros for its ICRC.
    fn cnp(&mut self, about: &Roce<'_>, body: CnpBody, hop: Option<Hop>) {
        let mut room: Room = [0; IntShim::LONGEST];
        let mut buffer = [0; 512];
        let cnp = switch_ring::cnp(about, body, hop, CnpMarking::default(), &mut room);
        if let Some(Ok(len)) = cnp.map(|cnp| cnp.emit::<NoCrc>(&mut buffer)) {
            let (flow, sender) = self.cause;
            self.sent.push(Sent::Cnp(self.slab.put(flow, sender, len as u16, &buffer[..len])));
        }
    }

    fn peer(&mut self, at: Queue, message: PeerMessage) {
        self.sent.push(Sent::Peer(at.port.into(), message));
    }

    fn queued(&self, at: Queue) -> Bytes {
        Bytes::new(self.ports[usize::from(at.port)].data_bytes)
    }

    fn arrived(&self, at: Queue) -> Bytes {
        Bytes::new(self.ports[usize::from(at.port)].arrived_bytes)
    }
}

impl SendPfc for Output<'_> {
    fn pfc(&mut self, at: Queue, quanta: u16) {
        self.sent.push(Sent::Pfc(at.port.into(), quanta));
    }
}

/// An output-queued switch.
pub(super) struct Switch {
    ports: Vec<Port>,
    congestion: cc_cp::Switch<StageList, Heap>,
    /// Whether a stage reads the headers of packets.
    reads_headers: bool,
    /// The headers of the packet that is passed to the stages: a copy, because the frames that they send are put in slots of
    /// the same slab.
    header: Vec<u8>,
    /// Frames that stages have sent and that are not queued yet.
    sent: Vec<Sent>,
    /// The time of the next call of the stages' timer, if one is scheduled.
    pub(super) wake: Option<Picos>,
    /// The longest data queue seen, in bytes.
    pub(super) longest: u32,
    /// Packets that a stage has dropped.
    pub(super) dropped: u64,
}

impl Switch {
    /// A switch with these neighbours. The data queue of each port has these stages.
    pub(super) fn new(neighbours: &[Neighbour], link: &Link, stages: &Stages, seed: u64) -> Result<Self> {
        let mut congestion = cc_cp::Switch::<StageList, Heap>::new(instant(0));
        congestion.make_room(neighbours.len() * Queue::CLASSES);
        for (name, settings) in stages {
            congestion.stages_mut().add(name, settings)?;
        }
        for port in 0..neighbours.len() {
            congestion.configure(instant(0), data_queue(port), link, &(), seed)?;
        }
        Ok(Self {
            ports: neighbours.iter().map(|neighbour| Port::new(neighbour.cable)).collect(),
            reads_headers: congestion.stages().reads_headers(),
            congestion,
            header: Vec::new(),
            sent: Vec::new(),
            wake: None,
            longest: 0,
            dropped: 0,
        })
    }

    /// Passes an event to the stages; `cause` is the flow of its packet, and the flow's sender.
    fn on(
        &mut self,
        now: Picos,
        port: usize,
        event: &Event<'_>,
        slab: &mut InFlight,
        cause: (usize, usize),
    ) -> Verdict {
        let Self { congestion, ports, sent, .. } = self;
        congestion.on(instant(now), data_queue(port), event, &mut Output { slab, ports, sent, cause })
    }

    /// Queues a control packet at the port by which it leaves. Returns whether that port was idle: then call
    /// [`Switch::transmit`].
    pub(super) fn enqueue_control(&mut self, port: usize, packet: PacketId) -> bool {
        let port = &mut self.ports[port];
        port.control.push_back(packet);
        !std::mem::replace(&mut port.busy, true)
    }

    /// Queues a data packet, which has come in by the first port and leaves by the second. Returns whether the second port was
    /// idle: then call [`Switch::transmit`].
    ///
    /// # Panics
    /// If the packet is not laid out as data packets are.
    pub(super) fn enqueue_data(
        &mut self,
        now: Picos,
        (ingress, port): (usize, usize),
        packet: PacketId,
        packets: &mut Packets<'_>,
    ) -> bool {
        let bytes = packets.slab.wire_len(packet);
        if self.congestion.stages().takes().contains(Kind::Arrival) {
            let queued = Bytes::new(self.ports[ingress].arrived_bytes);
            let verdict = self.copied(packet, packets, |switch, roce, slab, cause| {
                let packet = Packet { bytes: Bytes::new(bytes), roce: switch.reads_headers.then_some(roce) };
                switch.on(now, ingress, &Event::Arrival { packet, queued }, slab, cause)
            });
            if verdict.drop {
                packets.slab.remove(packet);
                self.dropped += 1;
                return false;
            }
        }
        self.ports[ingress].arrived_bytes += bytes;
        let port = &mut self.ports[port];
        port.data_bytes += bytes;
        self.longest = self.longest.max(port.data_bytes);
        port.data.push_back((packet, ingress));
        !std::mem::replace(&mut port.busy, true)
    }

    /// Calls a function with a copy of the headers of a data packet, its flow, and the flow's sender.
    fn copied<T>(
        &mut self,
        packet: PacketId,
        packets: &mut Packets<'_>,
        call: impl FnOnce(&mut Self, &Roce<'_>, &mut InFlight, (usize, usize)) -> T,
    ) -> T {
        let mut header = std::mem::take(&mut self.header);
        header.clear();
        header.extend_from_slice(packets.slab.header(packet));
        let roce = packets.data.like(&header).expect("data packets are laid out alike");
        let flow = packets.slab.flow(packet);
        let returned = call(self, &roce, packets.slab, (flow, packets.flows[flow].sender));
        self.header = header;
        returned
    }

    /// Removes the port's next packet from its queue: a control packet unchanged, or a data packet, which the stages mark or
    /// rewrite. Returns the time at which the port is free again, and the packet.
    ///
    /// # Errors
    /// No packet may leave, and the port is idle from now on. If stages hold its packets, the error is the time at which to
    /// call [`Switch::resume`].
    ///
    /// # Panics
    /// If a data packet has another layout.
    pub(super) fn transmit(
        &mut self,
        now: Picos,
        index: usize,
        packets: &mut Packets<'_>,
    ) -> Result<(Picos, PacketId), Option<Picos>> {
        let port = &mut self.ports[index];
        let cable = port.cable;
        if let Some(packet) = port.control.pop_front() {
            return Ok((now + cable.serialisation(packets.slab.wire_len(packet)), packet));
        }
        let next = if port.holds.is_empty() { port.next_data(now) } else { port.next_not_held(now, packets.slab) };
        let (packet, ingress) = next.inspect_err(|_| port.busy = false)?;
        let (bytes, queued) = (packets.slab.wire_len(packet), Bytes::new(port.data_bytes));
        let depart = |switch: &mut Self, roce: &Roce<'_>, slab: &mut InFlight, cause| {
            let packet = Packet { bytes: Bytes::new(bytes), roce: switch.reads_headers.then_some(roce) };
            let event = Event::Departure { packet, ecn: roce.ecn, queued, port_queued: queued };
            (roce.ecn, switch.on(now, index, &event, slab, cause))
        };
        let (ecn, verdict) = self.copied(packet, packets, depart);
        packets.layout.write_verdict(packets.slab.header_mut(packet), &verdict, ecn);
        let flow = packets.slab.flow(packet);
        let port = &mut self.ports[index];
        port.data_bytes -= bytes;
        if verdict.hold > Nanos::ZERO {
            port.holds.insert(flow, now + Picos::from(verdict.hold.get()) * 1_000);
        } else if !port.holds.is_empty() {
            port.holds.remove(&flow);
        }
        let queued = Bytes::new(self.ports[ingress].arrived_bytes);
        let release = Event::Release { bytes: Bytes::new(bytes), queued };
        self.on(now, ingress, &release, packets.slab, (flow, packets.flows[flow].sender));
        self.ports[ingress].arrived_bytes -= bytes;
        Ok((now + cable.serialisation(bytes), packet))
    }

    /// Handles a PFC frame from the neighbour at a port: data waits for `time`; zero resumes it. Returns the time at which to
    /// call [`Switch::resume`].
    pub(super) fn pause(&mut self, now: Picos, port: usize, time: Nanos, slab: &mut InFlight) -> Picos {
        let paused = &mut self.ports[port];
        paused.paused_until = now + Picos::from(time.get()) * 1_000;
        let (until, queued) = (paused.paused_until, Bytes::new(paused.data_bytes));
        self.on(now, port, &Event::Pause { time, queued }, slab, NO_CAUSE);
        until
    }

    /// Called when a pause or a hold may be over. Returns whether the port is idle: then call [`Switch::transmit`].
    pub(super) fn resume(&mut self, now: Picos, port: usize) -> bool {
        let port = &mut self.ports[port];
        now >= port.paused_until && !std::mem::replace(&mut port.busy, true)
    }

    /// Handles a message of the switch at the other end of the cable at a port.
    pub(super) fn on_peer(&mut self, now: Picos, port: usize, message: PeerMessage, slab: &mut InFlight) {
        self.on(now, port, &Event::Peer(message), slab, NO_CAUSE);
    }

    /// Runs the timer of the stages until nothing is due.
    pub(super) fn run_timer(&mut self, now: Picos, slab: &mut InFlight) {
        self.wake = None;
        let Self { congestion, ports, sent, .. } = self;
        while congestion.next_wake() <= instant(now) {
            congestion.wake(instant(now), &mut Output { slab, ports, sent, cause: NO_CAUSE });
        }
    }

    /// The time of the next call of the stages' timer, not before `now`.
    pub(super) fn next_wake(&self, now: Picos) -> Picos {
        self.congestion.next_wake().nanos().max(now.div_ceil(1_000)) * 1_000
    }

    /// Returns the frames that stages have sent since the last call.
    pub(super) fn take_sent(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.sent)
    }
}

/// The cause of an event without a packet. Stages send CNPs only about a packet of an event, so this is never read.
const NO_CAUSE: (usize, usize) = (0, 0);

#[cfg(test)]
mod tests {
    use super::*;

    /// Of packets of flows 1, 1, 2 and 3, where 1 is held until 50 ps and 2 until 40 ps.
    #[test]
    fn a_held_flow_waits_and_others_overtake_it() {
        let (mut slab, cable) = (InFlight::new(10), Cable { gbps: 100, delay: 0 });
        let mut port = Port::new(cable);
        port.data = [1, 1, 2, 3].iter().map(|&flow| (slab.put(flow, 0, 100, &[]), 0)).collect();
        port.holds = BTreeMap::from([(1, 50), (2, 40)]);
        let next = |port: &mut Port, now| port.next_not_held(now, &slab).map(|(packet, _)| slab.flow(packet));
        assert_eq!(next(&mut port, 10), Ok(3));
        assert_eq!(next(&mut port, 10), Err(Some(40)));
        assert_eq!(next(&mut port, 40), Ok(2));
        assert_eq!(next(&mut port, 50), Ok(1));
        port.paused_until = 70;
        assert_eq!(next(&mut port, 60), Err(None), "a pause ends by an event of its own");
        assert_eq!(next(&mut port, 70), Ok(1));
        assert_eq!(next(&mut port, 70), Err(None));
    }
}
