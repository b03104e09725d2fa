//! Many senders, one receiver: the scenario that congests a port, and a tap at that port.

use super::event_queue::EventQueue;
use super::host::{Host, Messages};
use super::marking::{MarkingPolicy, Pauses};
use super::packet::{self, Body, Control, Data, Flow, Packet, PacketFormat};
use super::switch::{DATA, PORTS, Switch};
use super::{Cable, Picos, instant};
use anyhow::{Context, Result, anyhow, bail, ensure};
use cc_core::wire::opcode::Class;
use cc_core::wire::pfc::Quantum;
use cc_core::wire::{self, Parsed, Roce, cm};
use cc_core::{Bytes, Ecn, Link, Nanos, Psn, Qpn, Rate};
use hil_cores::random::SplitMix;
use std::rc::Rc;

/// The scenario.
#[derive(Clone, Copy, Debug)]
pub struct Incast {
    /// Hosts that send, one flow each; the receiver comes on top.
    pub senders: usize,
    /// Speed of every cable, in Gb/s.
    pub gbps: u32,
    /// Propagation delay of every cable.
    pub delay: Nanos,
    /// Payload bytes of a data packet, at most 4 096.
    pub payload: u32,
    /// Packets of a message; each message is acknowledged once.
    pub message: u32,
    /// How long the senders send.
    pub duration: Nanos,
    /// How often and for how long the receiver pauses its port by PFC, if it does.
    pub pauses: Option<Pauses>,
    /// Chooses start times, first sequence numbers and marks.
    pub seed: u64,
}

/// What came of a run.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Frames that the tap saw.
    pub frames: u64,
    /// Data frames among them.
    pub data: u64,
    /// Data frames with CE.
    pub marked: u64,
    /// Data frames with UE, where switches have TCD.
    pub undetermined: u64,
    /// CNPs.
    pub cnps: u64,
    /// The longest data queue of the switch, in bytes.
    pub longest_queue: u32,
}

enum Event {
    /// A host may have something to send.
    TxPoll(usize),
    /// The engines of a host have asked to be called.
    Wake(usize),
    /// A packet has arrived at the switch.
    AtSwitch(Packet),
    /// A port of the switch may take its next packet.
    Free(usize),
    /// A packet has arrived at the host that it is for.
    AtHost(Packet),
    /// A connection's senders begin.
    Start(usize),
    /// The receiver pauses its port.
    Pause,
    /// The pause reaches the switch: it holds for so long.
    Paused(Nanos),
    /// A pause of the receiver's port may be over.
    Resume,
}

struct Run<'a, R: cc_rp::ReactionPoint, N: cc_np::NotificationPoint> {
    scenario: Incast,
    flows: Vec<Flow>,
    hosts: Vec<Host<R, N>>,
    switch: Switch,
    cable: Cable,
    format: PacketFormat,
    events: EventQueue<Event>,
    tap: &'a mut dyn FnMut(u64, &[u8]) -> Result<()>,
    frame: Vec<u8>,
    summary: Summary,
}

impl Incast {
    /// Eight senders into one 100 Gb/s port for 800 us, as in the sample that the project carries.
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

    /// Runs the scenario. The tap is given each frame to and from the receiver with its time in nanoseconds: frames that
    /// arrive when their last bit does, frames that leave when the receiver's engines decide to send them, so that a CNP
    /// follows in the same nanosecond the frame that caused it.
    ///
    /// # Errors
    /// Settings that do not fit the port or each other, and whatever the tap says.
    pub fn run<R: cc_rp::ReactionPoint, N: cc_np::NotificationPoint>(
        &self,
        rp: &R::Settings,
        np: &N::Settings,
        marks: &MarkingPolicy,
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
                // The first flow crosses the end of the number space.
                first_psn: if sender == 0 { Psn::new(0x00ff_ff80) } else { Psn::new(random.draw() as u32) },
            })
            .collect();
        let mut frame = vec![0; 4_400];
        let format = PacketFormat::of(R::SIGNALS);
        let middle = Data {
            opcode: wire::opcode::SEND_MIDDLE,
            psn: flows[0].first_psn,
            sent: instant(0).stamp(),
            hops: Vec::new(),
        };
        let frame_bytes = packet::data(&flows[0], format, &middle, Ecn::Ect0, self.payload, &mut frame)? as u32;
        let cable = Cable { gbps: self.gbps, delay: Picos::from(self.delay.get()) * 1_000 };
        // Twice there and back through the switch, which stores each packet once.
        let base_rtt = (4 * cable.delay + 2 * cable.serialisation(frame_bytes)).div_ceil(1_000);
        let link = Link {
            line_rate: Rate::from_gbps(self.gbps),
            mtu: Bytes::new(frame_bytes),
            base_rtt: Nanos::new(u32::try_from(base_rtt).context("the cables are too long")?),
        };
        let messages = Messages { frame_bytes, packets: self.message };
        let host = |_| Host::<R, N>::new(cable, link, messages, rp, np);
        let hosts = (0..=receiver).map(host).collect::<Result<_, _>>()?;
        let params = marks.check(&link).map_err(|error| anyhow!("{error}"))?;
        let switch = Switch::new(receiver + 1, cable, &link, params, self.seed)?;
        let summary = Summary::default();
        let mut run = Run {
            scenario: *self,
            flows,
            hosts,
            switch,
            cable,
            format,
            events: EventQueue::new(),
            tap,
            frame,
            summary,
        };
        run.connect(&mut random)?;
        if let Some(pauses) = self.pauses {
            ensure!(pauses.length < pauses.every, "pauses are longer than the time from one to the next");
            run.events.add(Picos::from(pauses.every.get()) * 1_000, Event::Pause);
        }
        run.play()?;
        Ok(Summary { longest_queue: run.switch.longest, ..run.summary })
    }
}

impl<R: cc_rp::ReactionPoint, N: cc_np::NotificationPoint> Run<'_, R, N> {
    /// Each sender asks for its connection within the first microsecond; data follows the handshake.
    fn connect(&mut self, random: &mut SplitMix) -> Result<()> {
        for index in 0..self.flows.len() {
            let flow = self.flows[index];
            let (local_id, local_qpn, starting_psn) = (index as u32 + 1, flow.sender_qpn, flow.first_psn);
            let request = cm::Message::Request { local_id, local_qpn, starting_psn };
            let at = random.draw() % 1_000_000;
            let frame = packet::control(&flow, flow.receiver, Control::Handshake(request))?;
            self.hosts[flow.sender].send(Packet::control(index, flow.receiver, frame));
            self.tx_poll(flow.sender, at);
        }
        Ok(())
    }

    /// Schedules a look at a host's queues, unless an earlier one is scheduled.
    fn tx_poll(&mut self, host: usize, at: Picos) {
        if self.hosts[host].tx_poll.is_none_or(|scheduled| at < scheduled) {
            self.hosts[host].tx_poll = Some(at);
            self.events.add(at, Event::TxPoll(host));
        }
    }

    fn play(&mut self) -> Result<()> {
        let end = Picos::from(self.scenario.duration.get()) * 1_000;
        while let Some((now, event)) = self.events.next(end) {
            match event {
                Event::TxPoll(host) => self.transmit(now, host),
                Event::Wake(host) if self.hosts[host].wake == Some(now) => self.wake(now, host)?,
                Event::Wake(_) => {} // overtaken by an earlier wake
                Event::AtSwitch(packet) => {
                    let port = packet.to;
                    if self.switch.enqueue(packet) {
                        self.forward(now, port);
                    }
                }
                Event::Free(port) => self.forward(now, port),
                Event::AtHost(packet) => self.arrive(now, packet)?,
                Event::Start(index) => {
                    let flow = self.flows[index];
                    ensure!(self.hosts[flow.sender].open(now, index, &flow), "a host has no room for flow {index}");
                    self.wake(now, flow.sender)?;
                    self.tx_poll(flow.sender, now);
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
        if self.hosts[host].tx_poll != Some(now) {
            return; // overtaken by an earlier look
        }
        self.hosts[host].tx_poll = None;
        match self.hosts[host].transmit(now, &self.flows) {
            Ok((packet, sent)) => {
                self.events.add(sent + self.cable.delay, Event::AtSwitch(packet));
                self.tx_poll(host, sent);
            }
            Err(Some(later)) => self.tx_poll(host, later),
            Err(None) => {}
        }
    }

    fn wake(&mut self, now: Picos, host: usize) -> Result<()> {
        self.hosts[host].wake = None;
        let next = self.hosts[host].wake(now);
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
        if let Some((sent, packet)) = self.switch.transmit(now, port) {
            self.events.add(sent, Event::Free(port));
            self.events.add(sent + self.cable.delay, Event::AtHost(packet));
        }
    }

    /// A packet reaches the host that it is for.
    fn arrive(&mut self, now: Picos, packet: Packet) -> Result<()> {
        let (flow, host) = (self.flows[packet.flow], packet.to);
        if host == flow.receiver {
            return self.on_data(now, packet);
        }
        let Body::Control(frame) = packet.body else { return Ok(()) };
        let roce = roce(&frame)?;
        match cm::Message::parse(&roce) {
            Some(cm::Message::Reply { local_id, remote_id, .. }) => {
                let ready = cm::Message::ReadyToUse { local_id: remote_id, remote_id: local_id };
                let frame = packet::control(&flow, flow.receiver, Control::Handshake(ready))?;
                self.hosts[host].send(Packet::control(packet.flow, flow.receiver, frame));
                self.tx_poll(host, now);
                self.events.add(now, Event::Start(packet.flow));
            }
            Some(_) => {}
            None => {
                self.hosts[host].on_reply(now, packet.flow, &roce);
                let next = self.hosts[host].next_wake(now);
                self.rearm(host, next);
                self.tx_poll(host, now);
            }
        }
        Ok(())
    }

    /// A packet reaches the receiver: the tap sees it, and what the receiver answers.
    fn on_data(&mut self, now: Picos, packet: Packet) -> Result<()> {
        let flow = self.flows[packet.flow];
        match packet.body {
            Body::Data(data) => {
                let Data { opcode, psn, .. } = data;
                let last = wire::opcode::info(opcode).last();
                let payload = self.scenario.payload;
                let length = packet::data(&flow, self.format, &data, packet.ecn, payload, &mut self.frame)?;
                let frame = &self.frame[..length];
                (self.tap)(instant(now).nanos(), frame)?;
                self.summary.frames += 1;
                self.summary.data += 1;
                self.summary.marked += u64::from(packet.ecn == Ecn::Ce);
                self.summary.undetermined += u64::from(packet.ecn == Ecn::Ect1);
                let messages = if last { self.hosts[flow.receiver].complete() } else { 0 };
                self.hosts[flow.receiver].on_data(now, &roce(frame)?, flow.sender_qpn);
                self.send_written(now, flow.receiver)?;
                let next = self.hosts[flow.receiver].next_wake(now);
                self.rearm(flow.receiver, next);
                if last && !N::REPLIES {
                    self.reply(now, packet.flow, Control::Ack { psn, messages })?;
                }
            }
            Body::Control(frame) => {
                (self.tap)(instant(now).nanos(), &frame)?;
                self.summary.frames += 1;
                if let Some(cm::Message::Request { local_id, .. }) = cm::Message::parse(&roce(&frame)?) {
                    let (local_qpn, starting_psn) = (flow.receiver_qpn, flow.first_psn);
                    let (local_id, remote_id) = (0x100 + local_id, local_id);
                    let reply = cm::Message::Reply { local_id, remote_id, local_qpn, starting_psn };
                    self.reply(now, packet.flow, Control::Handshake(reply))?;
                }
            }
        }
        Ok(())
    }

    /// Sends what a host's notification point has written.
    fn send_written(&mut self, now: Picos, host: usize) -> Result<()> {
        for frame in self.hosts[host].take_written() {
            let roce = roce(&frame)?;
            let to = roce.bth.dest_qp;
            self.summary.cnps += u64::from(roce.info.class() == Class::Cnp);
            let flow = self.flows.iter().position(|flow| flow.receiver == host && flow.sender_qpn == to);
            self.answer(now, flow.context("a frame for no flow")?, frame)?;
        }
        Ok(())
    }

    /// The receiver's transport says something.
    fn reply(&mut self, now: Picos, flow: usize, control: Control) -> Result<()> {
        let to = self.flows[flow].sender;
        self.answer(now, flow, packet::control(&self.flows[flow], to, control)?)
    }

    /// The receiver sends something back: the tap sees it at once, the cable takes it when it is free.
    fn answer(&mut self, now: Picos, flow: usize, frame: Rc<[u8]>) -> Result<()> {
        let Flow { sender, receiver, .. } = self.flows[flow];
        (self.tap)(instant(now).nanos(), &frame)?;
        self.summary.frames += 1;
        self.hosts[receiver].send(Packet::control(flow, sender, frame));
        self.tx_poll(receiver, now);
        Ok(())
    }

    /// The receiver pauses its port. A PFC frame waits for no other; it ends at the switch.
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

    /// The host that all others send to.
    fn receiver(&self) -> usize {
        self.scenario.senders
    }
}

/// Reads a frame of the fabric's own making.
fn roce(frame: &[u8]) -> Result<Roce<'_>> {
    match wire::parse(frame, frame.len()) {
        Ok(Parsed::Roce(roce)) => Ok(roce),
        parsed => bail!("a frame of ours does not parse: {parsed:?}"),
    }
}
