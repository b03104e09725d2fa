//! The switch: an egress queue for data and one for everything else at each port, and the library's congestion points.

use super::marking::Stages;
use super::packet::{Body, Packet};
use super::{Cable, Picos, instant};
use anyhow::Result;
use cc_core::{Bytes, Link, Nanos};
use cc_cp::{CpEngine, Stage};
use std::collections::VecDeque;

/// Ports that a switch can have.
pub(super) const PORTS: usize = 64;
/// Priority of data; the other queue, of ACKs and CNPs, is served first and never marked.
pub(super) const DATA: u8 = 3;

#[derive(Debug, Default)]
struct Egress {
    control: VecDeque<Packet>,
    data: VecDeque<Packet>,
    data_bytes: u32,
    /// Data waits until then.
    paused_until: Picos,
    busy: bool,
}

/// An output-queued switch.
pub(super) struct Switch {
    ports: Vec<Egress>,
    cable: Cable,
    congestion: Box<CpEngine<Stages, PORTS, 8>>,
    /// The longest data queue seen, in bytes.
    pub(super) longest: u32,
}

impl Switch {
    /// A switch with so many ports of one speed, each of whose data queues has these stages.
    pub(super) fn new(
        ports: usize,
        cable: Cable,
        link: &Link,
        params: <Stages as Stage>::Params,
        seed: u64,
    ) -> Result<Self> {
        let mut congestion = Box::new(CpEngine::new(seed));
        for index in 0..ports {
            congestion.configure(instant(0), index, usize::from(DATA), link, params)?;
        }
        let ports = (0..ports).map(|_| Egress::default()).collect();
        Ok(Self { ports, cable, congestion, longest: 0 })
    }

    /// A packet has arrived for the host at `packet.to`. Answers whether that port was idle: then call
    /// [`Switch::transmit`].
    pub(super) fn enqueue(&mut self, packet: Packet) -> bool {
        let egress = &mut self.ports[packet.to];
        if packet.is_data() {
            egress.data_bytes += packet.frame_bytes;
            self.longest = self.longest.max(egress.data_bytes);
            egress.data.push_back(packet);
        } else {
            egress.control.push_back(packet);
        }
        !std::mem::replace(&mut egress.busy, true)
    }

    /// The port takes its next packet. Answers when the port is free again, and the packet; `None` when it falls idle.
    pub(super) fn transmit(&mut self, now: Picos, port: usize) -> Option<(Picos, Packet)> {
        let egress = &mut self.ports[port];
        let packet = match egress.control.pop_front() {
            Some(packet) => packet,
            None if now < egress.paused_until => {
                egress.busy = false;
                return None;
            }
            None => match egress.data.pop_front() {
                Some(mut packet) => {
                    let queued = Bytes::new(egress.data_bytes);
                    egress.data_bytes -= packet.frame_bytes;
                    let bytes = Bytes::new(packet.frame_bytes);
                    let seen = cc_cp::Packet { bytes, queued, port_queued: queued, ecn: packet.ecn };
                    let verdict = self.congestion.dequeue(instant(now), port, usize::from(DATA), &seen);
                    packet.ecn = verdict.apply(packet.ecn);
                    if let Body::Data(data) = &mut packet.body {
                        data.hops.extend(verdict.hop);
                    }
                    packet
                }
                None => {
                    egress.busy = false;
                    return None;
                }
            },
        };
        Some((now + self.cable.serialisation(packet.frame_bytes), packet))
    }

    /// The host at a port pauses its data for so long, or resumes it (zero). Answers when to call [`Switch::resume`].
    pub(super) fn pause(&mut self, now: Picos, port: usize, time: Nanos) -> Picos {
        let egress = &mut self.ports[port];
        egress.paused_until = now + Picos::from(time.get()) * 1_000;
        let queued = Bytes::new(egress.data_bytes);
        self.congestion.pause(instant(now), port, usize::from(DATA), time, queued);
        egress.paused_until
    }

    /// A pause may be over. Answers whether the port is idle: then call [`Switch::transmit`].
    pub(super) fn resume(&mut self, now: Picos, port: usize) -> bool {
        let egress = &mut self.ports[port];
        now >= egress.paused_until && !std::mem::replace(&mut egress.busy, true)
    }
}
