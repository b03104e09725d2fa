//! Incast: many senders and one receiver, whose switch port is congested, and a tap at that port.

use super::event_queue::EventQueue;
use super::host::{Fabric, Host, Messages};
use super::marking::{Pauses, Stages};
use super::packet::{self, Control, DataLayout, Flow, PacketFormat};
use super::slab::{PacketId, Slab};
use super::switch::{DATA, PORTS, Switch};
use super::{Cable, Picos, instant};
use anyhow::{Context, Result, anyhow, ensure};
use cc_core::wire::opcode::{self, Class};
use cc_core::wire::pfc::Quantum;
use cc_core::wire::shim::IntShim;
use cc_core::wire::{self, Roce, cm};
use cc_core::{Bytes, Ecn, Link, Nanos, Psn, Qpn, Rate};
use hil_algorithms::settings::SettingsTable;
use hil_algorithms::{Algorithm, NicGroup};
use hil_capture::crc::HostCrc;
use hil_cores::random::SplitMix;

/// The scenario.
#[derive(Clone, Copy, Debug)]
pub struct Incast {
    /// Hosts that send, one flow each. The receiver is one more host.
    pub senders: usize,
    /// Speed of every cable, in Gb/s.
    pub gbps: u32,
    /// Propagation delay of every cable.
    pub delay: Nanos,
    /// Payload bytes of a data packet, at most 4 096.
    pub payload: u32,
    /// Packets of a message; each message is acknowledged once.
    pub message: u32,
    /// Simulated time of the run.
    pub duration: Nanos,
    /// Periodic PFC pauses by the receiver; `None` for no pauses.
    pub pauses: Option<Pauses>,
    /// Seed of the random generator, which draws start times, first sequence numbers and marks.
    pub seed: u64,
}

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
    /// CNPs.
    pub cnps: u64,
    /// The longest data queue of the switch, in bytes.
    pub longest_queue: u32,
}

enum Event {
    /// A host may have something to send.
    Poll(usize),
    /// The wake time of a host's NIC has come.
    Wake(usize),
    /// A packet for this host has arrived at the switch.
    AtSwitch(PacketId, usize),
    /// A port of the switch has sent a packet and may take the next one.
    Free(usize),
    /// A packet has arrived at this host, its destination.
    AtHost(PacketId, usize),
    /// The sender has completed its handshake, and opens this flow.
    Start(usize),
    /// The receiver pauses its port.
    Pause,
    /// The PFC frame reaches the switch and pauses the receiver's port for this time.
    Paused(Nanos),
    /// A pause of the receiver's port may be over.
    Resume,
}

struct Run<'a> {
    scenario: Incast,
    flows: Vec<Flow>,
    /// The template of each flow's data packets.
    templates: &'a [Vec<u8>],
    /// The first template as parsed, and the offsets of its fields, which are the same in all data packets.
    data: (Roce<'a>, DataLayout),
    /// The payload of each flow's handshake message; at most one per flow is in flight. The payload of data is zeros.
    datagrams: Vec<Vec<u8>>,
    slab: Slab,
    nics: Box<dyn NicGroup>,
    hosts: Vec<Host>,
    switch: Switch,
    cable: Cable,
    events: EventQueue<Event>,
    tap: &'a mut dyn FnMut(u64, &[u8]) -> Result<()>,
    frame: Vec<u8>,
    summary: Summary,
}

impl Incast {
    /// Eight senders into one 100 Gb/s port for 800 us, as in the project's sample `tests/data/incast.pcapng`.
    pub const SAMPLE: Self = Self {
        senders: 8,
        gbps: 100,
        delay: Nanos::new(1_000),
        payload: 1_024,
        message: 16,
        duration: Nanos::new(800_000),
        pauses: None,
        seed: 1,
    };

    /// Runs the scenario. Each frame to and from the receiver is passed to the tap with a time in nanoseconds. For an arriving
    /// frame it is the time at which its last bit arrives; for a frame of the receiver, the time at which the receiver's
    /// engines decide to send it, so that a CNP has the same time as the frame that caused it.
    ///
    /// # Errors
    /// Settings that do not fit the port or each other, a flow that a NIC has no room for, and errors of the tap.
    pub fn run(
        &self,
        algorithm: &dyn Algorithm,
        settings: [&SettingsTable; 2],
        stages: &Stages,
        tap: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<Summary> {
        ensure!((1..PORTS).contains(&self.senders), "{} senders: expected 1 to {}", self.senders, PORTS - 1);
        ensure!((1..=4_096).contains(&self.payload), "payload of {} bytes: expected 1 to 4096", self.payload);
        ensure!(self.message > 0, "a message has at least one packet");
        ensure!((1..=1_600).contains(&self.gbps), "{} Gb/s: expected 1 to 1600", self.gbps);
        let receiver = self.senders;
        let mut random = SplitMix::new(self.seed);
        let flows: Vec<Flow> = (0..self.senders)
            .map(|sender| Flow {
                sender,
                receiver,
                sender_qpn: Qpn::new(0x0100 + sender as u32),
                receiver_qpn: Qpn::new(0x0200 + sender as u32),
                // The PSNs of the first flow wrap after 128 packets.
                first_psn: if sender == 0 { Psn::new(0x00ff_ff80) } else { Psn::new(random.draw() as u32) },
            })
            .collect();
        let format = PacketFormat::of(algorithm.signals(), self.payload);
        let made = flows.iter().map(|flow| format.template(flow)).collect::<Result<Vec<_>>>()?;
        let (templates, layouts): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        let (template, layout) = templates.first().zip(layouts.first().copied()).context("no flow")?;
        let frame_bytes = u32::from(layout.wire_len);
        let cable = Cable { gbps: self.gbps, delay: Picos::from(self.delay.get()) * 1_000 };
        // Four cable delays (two cables, both ways) and two serialisations: the switch stores and forwards.
        let base_rtt = (4 * cable.delay + 2 * cable.serialisation(frame_bytes)).div_ceil(1_000);
        let link = Link {
            line_rate: Rate::from_gbps(self.gbps),
            mtu: Bytes::new(frame_bytes),
            base_rtt: Nanos::new(u32::try_from(base_rtt).context("the cables are too long")?),
        };
        let messages = Messages { frame_bytes, packets: self.message };
        let mut nics = algorithm.nics(link, settings).map_err(|error| anyhow!("{error}"))?;
        let hosts = (0..=receiver)
            .map(|number| {
                // Four entries for each flow that is received: the table is set-associative, and few flows then share a set.
                let (sent, received) = if number == receiver { (1, 4 * self.senders) } else { (1, 1) };
                nics.add(instant(0), sent.max(LEAST_ROOM), received.next_power_of_two().max(LEAST_ROOM));
                Host::new(number, cable, messages)
            })
            .collect();
        let switch = Switch::new(receiver + 1, cable, &link, stages, self.seed)?;
        let mut run = Run {
            scenario: *self,
            templates: &templates,
            data: (packet::parse(template, usize::from(layout.wire_len))?, layout),
            datagrams: vec![Vec::new(); flows.len()],
            slab: Slab::new(template.len().max(if layout.has_shims() { LONGEST_REPLY } else { CNP })),
            flows,
            nics,
            hosts,
            switch,
            cable,
            events: EventQueue::new(),
            tap,
            frame: Vec::new(),
            summary: Summary::default(),
        };
        run.connect(&mut random)?;
        if let Some(pauses) = self.pauses {
            ensure!(pauses.length < pauses.every, "pauses are longer than the time from one to the next");
            run.events.add(Picos::from(pauses.every.get()) * 1_000, Event::Pause);
        }
        run.play()?;
        let counters = run.nics.counters(receiver).np;
        let evicted = counters.iter().find(|&&(name, _)| name == "np_flows_evicted").map_or(0, |&(_, count)| count);
        ensure!(
            evicted == 0,
            "the receiver's NIC evicted {evicted} flows from its table, which has room for all: a fault of the simulation"
        );
        Ok(Summary { longest_queue: run.switch.longest, ..run.summary })
    }
}

/// Smallest number of flows for which a host's tables have room.
const LEAST_ROOM: usize = 64;

/// Bytes of a CNP.
const CNP: usize = 14 + 20 + 8 + 12 + 16 + 4;
/// Bytes of the longest frame that a NIC of the fabric sends on its own: an acknowledgement with a time stamp, the INT that it
/// returns, and MLCC's grant.
const LONGEST_REPLY: usize = 14 + 20 + 8 + (16 + IntShim::ROOM as usize * 16 + 4 + 16 + 4) + 12 + 4 + 4;

impl Run<'_> {
    /// Each sender sends its connection request at a random time in the first microsecond. Data follows the handshake.
    fn connect(&mut self, random: &mut SplitMix) -> Result<()> {
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
        Ok(self.slab.insert(flow as u32, u16::try_from(frame.len())?, header))
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

    fn play(&mut self) -> Result<()> {
        let end = Picos::from(self.scenario.duration.get()) * 1_000;
        while let Some((now, event)) = self.events.next(end) {
            match event {
                Event::Poll(host) => self.transmit(now, host),
                Event::Wake(host) if self.hosts[host].wake == Some(now) => self.wake(now, host)?,
                Event::Wake(_) => {} // overtaken by an earlier wake
                Event::AtSwitch(packet, port) => {
                    let data_bytes = self.is_data(packet).then(|| self.slab.wire_len(packet));
                    if self.switch.enqueue(port, packet, data_bytes) {
                        self.forward(now, port);
                    }
                }
                Event::Free(port) => self.forward(now, port),
                Event::AtHost(packet, host) => self.arrive(now, packet, host)?,
                Event::Start(index) => {
                    let sender = self.flows[index].sender;
                    self.with_host(sender, |host, fabric| host.open(now, index, fabric))?;
                    self.wake(now, sender)?;
                    self.poll(sender, now);
                }
                Event::Pause => self.pause(now)?,
                Event::Paused(time) => {
                    let over = self.switch.pause(now, self.receiver(), time);
                    self.events.add(over, Event::Resume);
                }
                Event::Resume => {
                    if self.switch.resume(now, self.receiver()) {
                        self.forward(now, self.receiver());
                    }
                }
            }
        }
        Ok(())
    }

    fn transmit(&mut self, now: Picos, host: usize) {
        if self.hosts[host].poll != Some(now) {
            return; // overtaken by an earlier poll
        }
        self.hosts[host].poll = None;
        match self.with_host(host, |host, fabric| host.transmit(now, fabric)) {
            Ok((packet, sent)) => {
                let Flow { sender, receiver, .. } = self.flows[self.slab.flow(packet)];
                let to = if host == sender { receiver } else { sender };
                self.events.add(sent + self.cable.delay, Event::AtSwitch(packet, to));
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

    fn forward(&mut self, now: Picos, port: usize) {
        let (data, DataLayout { int_at, .. }) = self.data;
        if let Some((sent, packet)) = self.switch.transmit(now, port, &mut self.slab, (&data, int_at)) {
            self.events.add(sent, Event::Free(port));
            self.events.add(sent + self.cable.delay, Event::AtHost(packet, port));
        }
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
            self.reply(now, index, Control::Ack { psn, messages })?;
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
        let receiver = self.receiver();
        self.hosts[receiver].send(id);
        self.poll(receiver, now);
        Ok(())
    }

    /// Pauses the receiver's port by PFC. The PFC frame does not wait in a send queue, and ends at the switch.
    fn pause(&mut self, now: Picos) -> Result<()> {
        let Some(Pauses { every, length }) = self.scenario.pauses else { return Ok(()) };
        let quantum = Quantum::at(Rate::from_gbps(self.scenario.gbps));
        let frame = packet::pause(self.receiver(), DATA, quantum.quanta(length))?;
        (self.tap)(instant(now).nanos(), &frame)?;
        self.summary.frames += 1;
        let arrives = now + self.cable.serialisation(frame.len() as u32) + self.cable.delay;
        self.events.add(arrives, Event::Paused(quantum.pause(quantum.quanta(length))));
        self.events.add(now + Picos::from(every.get()) * 1_000, Event::Pause);
        Ok(())
    }

    /// The number of the receiver's host.
    fn receiver(&self) -> usize {
        self.scenario.senders
    }
}
