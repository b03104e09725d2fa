//! A run: the hosts, the switches and the packets between them, and the loop over their events.

use super::event_queue::EventQueue;
use super::host::{Fabric, Host};
use super::marking::Pauses;
use super::network::{Neighbour, Network, Node};
use super::packet::{self, Control, DataLayout, Flow};
use super::slab::PacketId;
use super::switch::{Packets, Sent, Switch};
use super::{Picos, instant};
use anyhow::{Context, Result, ensure};
use cc_core::Ecn;
use cc_core::wire::opcode::{self, Class};
use cc_core::wire::{self, RateFrame, Roce, cm, pfc};
use cc_cp::PeerMessage;
use hil_algorithms::NicGroup;
use hil_capture::crc::HostCrc;
use hil_cores::random::SplitMix;

/// Totals of a run.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Frames passed to the tap.
    pub frames: u64,
    /// Data frames among them.
    pub data: u64,
    /// Data frames with CE.
    pub marked: u64,
    /// Data frames marked UE (undetermined), if the switch has TCD.
    pub undetermined: u64,
    /// CNPs of the receiver.
    pub cnps: u64,
    /// CNPs of switches.
    pub switch_cnps: u64,
    /// Data packets that stages of switches have dropped.
    pub dropped: u64,
    /// Records of received flows that the receiver's NIC has evicted.
    pub evicted: u64,
    /// The longest data queue of a switch, in bytes.
    pub longest_queue: u32,
}

/// An event of a run.
pub(super) enum Event {
    /// A host may have something to send.
    Poll(usize),
    /// The wake time of a host's NIC has come.
    Wake(usize),
    /// A packet has arrived at a node, by this port.
    Arrive(PacketId, Node, usize),
    /// A port of a switch has sent a packet and may take the next one.
    Free(Node, usize),
    /// The deadline of a stage of a switch has come.
    Timer(Node),
    /// A message of another switch has arrived at a switch, by this port.
    Peer(Node, usize, PeerMessage),
    /// The sender has completed its handshake, and opens this flow.
    Start(usize),
    /// The receiver pauses its port.
    Pause,
    /// A PFC frame with these quanta for data has arrived at a node, by this port.
    Paused(Node, usize, u16),
    /// A pause or a hold of a port of a switch may be over.
    Resume(Node, usize),
}

/// A run.
pub(super) struct Run<'a> {
    /// The host that receives.
    pub(super) receiver: usize,
    /// When the run ends.
    pub(super) end: Picos,
    /// The receiver's periodic pauses.
    pub(super) pauses: Option<Pauses>,
    pub(super) flows: Vec<Flow>,
    /// The template of each flow's data packets.
    pub(super) templates: &'a [Vec<u8>],
    /// The first template as parsed, and the offsets of its fields, which are the same in all data packets.
    pub(super) data: (Roce<'a>, DataLayout),
    /// The payload of each flow's handshake message; at most one per flow is in flight. The payload of data is zeros.
    pub(super) datagrams: Vec<Vec<u8>>,
    pub(super) slab: packet::InFlight,
    pub(super) nics: Box<dyn NicGroup>,
    pub(super) hosts: Vec<Host>,
    pub(super) switches: Vec<Switch>,
    pub(super) network: Network,
    pub(super) events: EventQueue<Event>,
    pub(super) tap: &'a mut dyn FnMut(u64, &[u8]) -> Result<()>,
    pub(super) frame: Vec<u8>,
    pub(super) summary: Summary,
}

impl Run<'_> {
    /// Each sender sends its connection request at a random time in the first microsecond. Data follows the handshake.
    pub(super) fn connect(&mut self, random: &mut SplitMix) -> Result<()> {
        for index in 0..self.flows.len() {
            let flow = self.flows[index];
            let (local_id, local_qpn, starting_psn) = (index as u32 + 1, flow.sender_qpn, flow.first_psn);
            let request = cm::Message::Request { local_id, local_qpn, starting_psn };
            let at = random.draw() % 1_000_000;
            let request = self.control(index, flow.receiver, Control::Handshake(request))?;
            self.hosts[flow.sender].send(request);
            self.poll(flow.sender, at);
        }
        Ok(())
    }

    /// Puts a frame that a host's transport sends to `to` in a slot of the slab. For a handshake frame, the slot holds only the
    /// headers.
    fn control(&mut self, flow: usize, to: usize, control: Control) -> Result<PacketId> {
        let frame = packet::control(&self.flows[flow], to, control)?;
        let mut header = &frame[..];
        if let Control::Handshake(_) = control {
            let roce = packet::parse(&frame, frame.len())?;
            self.datagrams[flow] = roce.payload().to_vec();
            header = &frame[..roce.payload_at()];
        }
        Ok(self.slab.put(flow, to, u16::try_from(frame.len())?, header))
    }

    /// Writes the whole frame of a packet (headers, payload, ICRC) to `self.frame`.
    fn write_whole(&mut self, id: PacketId) -> Result<()> {
        let (header, wire_len) = (self.slab.header(id), self.slab.wire_len(id) as usize);
        let is_handshake = packet::parse(header, wire_len)?.bth.dest_qp == cm::QP;
        self.frame.clear();
        self.frame.extend_from_slice(header);
        if is_handshake {
            self.frame.extend_from_slice(&self.datagrams[self.slab.flow(id)]);
        }
        self.frame.resize(wire_len, 0);
        ensure!(wire::write_icrc::<HostCrc>(&mut self.frame), "the fabric made a frame that cannot be parsed");
        Ok(())
    }

    /// Passes a packet to the tap as a whole frame.
    fn show(&mut self, now: Picos, id: PacketId) -> Result<()> {
        self.write_whole(id)?;
        (self.tap)(instant(now).nanos(), &self.frame)?;
        self.summary.frames += 1;
        Ok(())
    }

    /// The handshake message in this packet, or `None` if it carries none.
    fn handshake(&mut self, id: PacketId) -> Result<Option<cm::Message>> {
        let wire_len = self.slab.wire_len(id) as usize;
        if packet::parse(self.slab.header(id), wire_len)?.bth.dest_qp != cm::QP {
            return Ok(None);
        }
        self.write_whole(id)?;
        Ok(cm::Message::parse(&packet::parse(&self.frame, wire_len)?))
    }

    /// Whether a packet goes to the data queue; all others go to the control queue, which is served first.
    fn is_data(&self, id: PacketId) -> bool {
        self.data
            .0
            .like(self.slab.header(id))
            .is_some_and(|roce| roce.bth.dest_qp != cm::QP && roce.info.class().carries_data())
    }

    /// Calls a function of a host, with the state that all hosts share.
    fn with_host<T>(&mut self, host: usize, call: impl FnOnce(&mut Host, &mut Fabric<'_>) -> T) -> T {
        let mut fabric = Fabric {
            nics: &mut *self.nics,
            slab: &mut self.slab,
            flows: &self.flows,
            templates: self.templates,
            layout: self.data.1,
        };
        call(&mut self.hosts[host], &mut fabric)
    }

    /// Schedules a poll of a host's queues, unless an earlier one is scheduled.
    fn poll(&mut self, host: usize, at: Picos) {
        if self.hosts[host].poll.is_none_or(|scheduled| at < scheduled) {
            self.hosts[host].poll = Some(at);
            self.events.add(at, Event::Poll(host));
        }
    }

    /// Runs to the end of the scenario.
    pub(super) fn play(&mut self) -> Result<Summary> {
        for switch in self.network.hosts()..self.network.hosts() + self.switches.len() {
            self.rearm_switch(0, switch);
        }
        while let Some((now, event)) = self.events.next(self.end) {
            match event {
                Event::Poll(host) => self.transmit(now, host),
                Event::Wake(host) if self.hosts[host].wake == Some(now) => self.wake(now, host)?,
                Event::Wake(_) => {} // overtaken by an earlier wake
                Event::Arrive(packet, node, _) if node < self.network.hosts() => self.arrive(now, packet, node)?,
                Event::Arrive(packet, node, port) => self.switched(now, packet, node, port)?,
                Event::Free(node, port) => self.forward(now, node, port)?,
                Event::Timer(node) => self.run_timer(now, node)?,
                Event::Peer(node, port, message) => {
                    let (switch, slab) = (&mut self.switches[node - self.network.hosts()], &mut self.slab);
                    switch.on_peer(now, port, message, slab);
                    self.send_of_switch(now, node)?;
                }
                Event::Start(index) => {
                    let sender = self.flows[index].sender;
                    self.with_host(sender, |host, fabric| host.open(now, index, fabric))?;
                    self.wake(now, sender)?;
                    self.poll(sender, now);
                }
                Event::Pause => self.pause(now)?,
                Event::Paused(node, port, quanta) => self.paused(now, node, port, quanta)?,
                Event::Resume(node, port) => {
                    if self.switches[node - self.network.hosts()].resume(now, port) {
                        self.forward(now, node, port)?;
                    }
                }
            }
        }
        let dropped = self.switches.iter().map(|switch| switch.dropped).sum();
        let longest_queue = self.switches.iter().map(|switch| switch.longest).max().unwrap_or(0);
        Ok(Summary { dropped, longest_queue, ..self.summary })
    }

    fn transmit(&mut self, now: Picos, host: usize) {
        if self.hosts[host].poll != Some(now) {
            return; // overtaken by an earlier poll
        }
        self.hosts[host].poll = None;
        match self.with_host(host, |host, fabric| host.transmit(now, fabric)) {
            Ok((packet, sent)) => {
                self.launch(sent, packet, host, 0);
                self.poll(host, sent);
            }
            Err(Some(later)) => self.poll(host, later),
            Err(None) => {}
        }
    }

    fn wake(&mut self, now: Picos, host: usize) -> Result<()> {
        self.hosts[host].wake = None;
        let next = self.with_host(host, |host, fabric| host.wake(now, fabric));
        self.rearm(host, next);
        self.send_written(now, host)
    }

    /// Schedules a wake, unless an earlier one is scheduled.
    fn rearm(&mut self, host: usize, at: Picos) {
        if self.hosts[host].wake.is_none_or(|scheduled| at < scheduled) {
            self.hosts[host].wake = Some(at);
            self.events.add(at, Event::Wake(host));
        }
    }

    /// Schedules the arrival of a packet at the neighbour, whose last bit a node sends by a port at `sent`.
    fn launch(&mut self, sent: Picos, packet: PacketId, node: Node, port: usize) {
        let Neighbour { node, port, cable } = self.network.ports(node)[port];
        self.events.add(sent + cable.delay, Event::Arrive(packet, node, port));
    }

    /// The time and place of the arrival of a frame of so many bytes that a node sends now, by a port, without a queue.
    fn to_neighbour(&self, now: Picos, node: Node, port: usize, bytes: usize) -> (Picos, Node, usize) {
        let Neighbour { node, port, cable } = self.network.ports(node)[port];
        (now + cable.serialisation(bytes as u32) + cable.delay, node, port)
    }

    /// A switch, and the packets as it needs them.
    fn switch(&mut self, node: Node) -> (&mut Switch, Packets<'_>) {
        let Self { slab, flows, data: (data, layout), switches, network, .. } = self;
        (&mut switches[node - network.hosts()], Packets { slab, flows, data, layout: *layout })
    }

    /// Handles a packet that has arrived at a switch, by a port.
    fn switched(&mut self, now: Picos, packet: PacketId, node: Node, ingress: usize) -> Result<()> {
        let port = self.network.way(node, self.slab.to(packet));
        let is_data = self.is_data(packet);
        let (switch, mut packets) = self.switch(node);
        let idle = if is_data {
            switch.enqueue_data(now, (ingress, port), packet, &mut packets)
        } else {
            switch.enqueue_control(port, packet)
        };
        self.send_of_switch(now, node)?;
        if idle { self.forward(now, node, port) } else { Ok(()) }
    }

    /// Sends the next packet of a port of a switch.
    fn forward(&mut self, now: Picos, node: Node, port: usize) -> Result<()> {
        let (switch, mut packets) = self.switch(node);
        match switch.transmit(now, port, &mut packets) {
            Ok((sent, packet)) => {
                self.events.add(sent, Event::Free(node, port));
                self.launch(sent, packet, node, port);
            }
            Err(Some(later)) => self.events.add(later, Event::Resume(node, port)),
            Err(None) => {}
        }
        self.send_of_switch(now, node)
    }

    /// Runs the timer of the stages of a switch.
    fn run_timer(&mut self, now: Picos, node: Node) -> Result<()> {
        let (switch, packets) = self.switch(node);
        if switch.wake == Some(now) {
            switch.run_timer(now, packets.slab);
            self.send_of_switch(now, node)?;
        }
        Ok(())
    }

    /// Schedules the timer of a switch, unless an earlier time is scheduled.
    fn rearm_switch(&mut self, now: Picos, node: Node) {
        let switch = &mut self.switches[node - self.network.hosts()];
        let at = switch.next_wake(now);
        if switch.wake.is_none_or(|scheduled| at < scheduled) {
            switch.wake = Some(at);
            self.events.add(at, Event::Timer(node));
        }
    }

    /// Sends on the frames of the stages of a switch, and schedules its timer. CNPs are passed to the tap. PFC frames and
    /// messages to other switches do not wait in a queue, and end at the neighbour.
    fn send_of_switch(&mut self, now: Picos, node: Node) -> Result<()> {
        for sent in self.switch(node).0.take_sent() {
            match sent {
                Sent::Cnp(id) => {
                    self.show(now, id)?;
                    self.summary.switch_cnps += 1;
                    let port = self.network.way(node, self.slab.to(id));
                    if self.switch(node).0.enqueue_control(port, id) {
                        self.forward(now, node, port)?;
                    }
                }
                Sent::Pfc(port, quanta) => {
                    let (arrives, node, port) = self.to_neighbour(now, node, port, pfc::FRAME_LEN);
                    self.events.add(arrives, Event::Paused(node, port, quanta));
                }
                Sent::Peer(port, message) => {
                    let (arrives, node, port) = self.to_neighbour(now, node, port, RateFrame::LONGEST);
                    self.events.add(arrives, Event::Peer(node, port, message));
                }
            }
        }
        self.rearm_switch(now, node);
        Ok(())
    }

    /// Handles a packet that reaches its destination host.
    fn arrive(&mut self, now: Picos, id: PacketId, host: usize) -> Result<()> {
        let index = self.slab.flow(id);
        let flow = self.flows[index];
        if host == flow.receiver {
            self.received(now, id, index)?;
        } else {
            match self.handshake(id)? {
                Some(cm::Message::Reply { local_id, remote_id, .. }) => {
                    let ready = cm::Message::ReadyToUse { local_id: remote_id, remote_id: local_id };
                    let ready = self.control(index, flow.receiver, Control::Handshake(ready))?;
                    self.hosts[host].send(ready);
                    self.poll(host, now);
                    self.events.add(now, Event::Start(index));
                }
                Some(_) => {}
                None => {
                    // A copy, because the frames that the NIC sends are put in slots of the same slab.
                    self.frame.clear();
                    self.frame.extend_from_slice(self.slab.header(id));
                    let frame = std::mem::take(&mut self.frame);
                    let roce = packet::parse(&frame, self.slab.wire_len(id) as usize)?;
                    self.with_host(host, |host, fabric| host.on_reply(now, index, &roce, fabric));
                    self.frame = frame;
                    let next = self.hosts[host].next_wake(now, &*self.nics);
                    self.rearm(host, next);
                    self.poll(host, now);
                }
            }
        }
        self.slab.remove(id);
        Ok(())
    }

    /// Handles a packet that reaches the receiver. The packet, and all frames that the receiver sends in return, are passed to
    /// the tap.
    fn received(&mut self, now: Picos, id: PacketId, index: usize) -> Result<()> {
        let flow = self.flows[index];
        let is_data = self.is_data(id);
        self.show(now, id)?;
        if !is_data {
            if let Some(cm::Message::Request { local_id, .. }) = self.handshake(id)? {
                let (local_qpn, starting_psn) = (flow.receiver_qpn, flow.first_psn);
                let (local_id, remote_id) = (0x100 + local_id, local_id);
                let reply = cm::Message::Reply { local_id, remote_id, local_qpn, starting_psn };
                self.reply(now, index, Control::Handshake(reply))?;
            }
            return Ok(());
        }
        let frame = std::mem::take(&mut self.frame);
        let header = &frame[..self.slab.header(id).len()];
        let roce = self.data.0.like(header).context("the fabric made a frame that cannot be parsed")?;
        let (ecn, psn, last) = (roce.ecn, roce.bth.psn, opcode::info(roce.bth.opcode).last());
        self.summary.data += 1;
        self.summary.marked += u64::from(ecn == Ecn::Ce);
        self.summary.undetermined += u64::from(ecn == Ecn::Ect1);
        let messages = if last { self.hosts[flow.receiver].complete() } else { 0 };
        self.with_host(flow.receiver, |host, fabric| host.on_data(now, index, &roce, fabric));
        self.frame = frame;
        self.send_written(now, flow.receiver)?;
        let next = self.hosts[flow.receiver].next_wake(now, &*self.nics);
        self.rearm(flow.receiver, next);
        if last && !self.nics.acknowledges() {
            self.reply(now, index, Control::Ack { psn, messages, marked: false })?;
        }
        Ok(())
    }

    /// Sends the frames that a host's NIC has written.
    fn send_written(&mut self, now: Picos, host: usize) -> Result<()> {
        for id in self.hosts[host].take_written() {
            let roce = packet::parse(self.slab.header(id), self.slab.wire_len(id) as usize)?;
            self.summary.cnps += u64::from(roce.info.class() == Class::Cnp);
            self.queue_from_receiver(now, id)?;
        }
        Ok(())
    }

    /// Sends a frame of the receiver's transport.
    fn reply(&mut self, now: Picos, flow: usize, control: Control) -> Result<()> {
        let to = self.flows[flow].sender;
        let id = self.control(flow, to, control)?;
        self.queue_from_receiver(now, id)
    }

    /// Queues a frame of the receiver for its cable. It is passed to the tap at once, before it waits for the cable.
    fn queue_from_receiver(&mut self, now: Picos, id: PacketId) -> Result<()> {
        self.show(now, id)?;
        let receiver = self.receiver;
        self.hosts[receiver].send(id);
        self.poll(receiver, now);
        Ok(())
    }

    /// Pauses the receiver's port by PFC. The PFC frame does not wait in a send queue, and ends at the switch.
    fn pause(&mut self, now: Picos) -> Result<()> {
        let Some(Pauses { every, length }) = self.pauses else { return Ok(()) };
        let receiver = self.receiver;
        let quanta = self.network.ports(receiver)[0].cable.quantum().quanta(length);
        let frame = packet::emit_pfc(receiver, quanta)?;
        (self.tap)(instant(now).nanos(), &frame)?;
        self.summary.frames += 1;
        let (arrives, node, port) = self.to_neighbour(now, receiver, 0, frame.len());
        self.events.add(arrives, Event::Paused(node, port, quanta));
        self.events.add(now + Picos::from(every.get()) * 1_000, Event::Pause);
        Ok(())
    }

    /// Handles a PFC frame that has arrived at a node, with these quanta for data.
    fn paused(&mut self, now: Picos, node: Node, port: usize, quanta: u16) -> Result<()> {
        if node < self.network.hosts() {
            self.hosts[node].pause(now, quanta, &mut *self.nics);
            self.poll(node, now);
            return Ok(());
        }
        let time = self.network.ports(node)[port].cable.quantum().pause(quanta);
        let (switch, packets) = self.switch(node);
        let over = switch.pause(now, port, time, packets.slab);
        self.events.add(over, Event::Resume(node, port));
        self.send_of_switch(now, node)
    }
}
