//! The switch: at each port an egress queue for data and one for control packets, and the library's congestion points.

use super::marking::Stages;
use super::slab::{PacketId, Slab};
use super::{Cable, Picos, instant};
use anyhow::Result;
use cc_core::table::Heap;
use cc_core::wire::{self, Roce, shim};
use cc_core::{Bytes, Link, Nanos};
use cc_cp::list::StageList;
use cc_cp::recorder::Recorder;
use cc_cp::{Event, Queue};
use std::collections::VecDeque;

/// Ports that a switch can have.
pub(super) const PORTS: usize = 64;
/// Priority of data; the other queue, of ACKs and CNPs, is served first and never marked.
pub(super) const DATA: u8 = 3;

#[derive(Debug, Default)]
struct Egress {
    control: VecDeque<PacketId>,
    data: VecDeque<PacketId>,
    data_bytes: u32,
    /// PFC: data waits until this time.
    paused_until: Picos,
    busy: bool,
}

/// The data queue of a port.
fn data_queue(port: usize) -> Queue {
    Queue { port: port as u16, class: DATA }
}

/// An output-queued switch.
pub(super) struct Switch {
    ports: Vec<Egress>,
    cable: Cable,
    congestion: cc_cp::Switch<StageList, Heap>,
    /// The longest data queue seen, in bytes.
    pub(super) longest: u32,
}

impl Switch {
    /// A switch with this many ports of one speed. The data queue of each port has these stages.
    pub(super) fn new(ports: usize, cable: Cable, link: &Link, stages: &Stages, seed: u64) -> Result<Self> {
        let mut congestion = cc_cp::Switch::<StageList, Heap>::new(instant(0));
        congestion.make_room(ports * Queue::CLASSES);
        for (name, settings) in stages {
            congestion.stages_mut().add(name, settings)?;
        }
        for index in 0..ports {
            congestion.configure(instant(0), data_queue(index), link, &(), seed)?;
        }
        let ports = (0..ports).map(|_| Egress::default()).collect();
        Ok(Self { ports, cable, congestion, longest: 0 })
    }

    /// Queues a packet for the host at a port. `data_bytes` is its length if it is data, `None` if it goes to the control
    /// queue. Returns whether that port was idle: then call [`Switch::transmit`].
    pub(super) fn enqueue(&mut self, port: usize, packet: PacketId, data_bytes: Option<u32>) -> bool {
        let egress = &mut self.ports[port];
        match data_bytes {
            Some(bytes) => {
                egress.data_bytes += bytes;
                self.longest = self.longest.max(egress.data_bytes);
                egress.data.push_back(packet);
            }
            None => egress.control.push_back(packet),
        }
        !std::mem::replace(&mut egress.busy, true)
    }

    /// Removes the port's next packet from its queue: a control packet unchanged, or a data packet, which the stages mark. Data
    /// packets have the layout of `data`, with the INT shim at `int_at`. Returns the time at which the port is free again, and
    /// the packet; `None` if the port is idle from now on.
    ///
    /// # Panics
    /// If a data packet has another layout.
    pub(super) fn transmit(
        &mut self,
        now: Picos,
        port: usize,
        slab: &mut Slab,
        (data, int_at): (&Roce<'_>, Option<usize>),
    ) -> Option<(Picos, PacketId)> {
        let egress = &mut self.ports[port];
        if let Some(packet) = egress.control.pop_front() {
            return Some((now + self.cable.serialisation(slab.wire_len(packet)), packet));
        }
        let next = if now < egress.paused_until { None } else { egress.data.pop_front() };
        let Some(packet) = next else {
            egress.busy = false;
            return None;
        };
        let queued = Bytes::new(egress.data_bytes);
        let bytes = slab.wire_len(packet);
        egress.data_bytes -= bytes;
        let header = slab.header_mut(packet);
        let ecn = data.like(header).expect("data packets are laid out alike").ecn;
        let seen = cc_cp::Packet::of(Bytes::new(bytes));
        let event = Event::Departure { packet: seen, ecn, queued, port_queued: queued };
        let verdict = self.congestion.on(instant(now), data_queue(port), &event, &mut Recorder::default());
        let marked = verdict.apply(ecn);
        if marked != ecn {
            wire::set_ecn(header, marked);
        }
        if let (Some(at), Some(hop)) = (int_at, &verdict.hop) {
            shim::push_at(header, at, hop);
        }
        Some((now + self.cable.serialisation(bytes), packet))
    }

    /// Handles a PFC frame from the host at a port: data waits for `time`; zero resumes it. Returns the time at which to call
    /// [`Switch::resume`].
    pub(super) fn pause(&mut self, now: Picos, port: usize, time: Nanos) -> Picos {
        let egress = &mut self.ports[port];
        egress.paused_until = now + Picos::from(time.get()) * 1_000;
        let queued = Bytes::new(egress.data_bytes);
        let event = Event::Pause { time, queued };
        self.congestion.on(instant(now), data_queue(port), &event, &mut Recorder::default());
        egress.paused_until
    }

    /// Called when a pause may be over. Returns whether the port is idle: then call [`Switch::transmit`].
    pub(super) fn resume(&mut self, now: Picos, port: usize) -> bool {
        let egress = &mut self.ports[port];
        now >= egress.paused_until && !std::mem::replace(&mut egress.busy, true)
    }
}
