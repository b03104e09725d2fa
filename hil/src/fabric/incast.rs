//! Many senders, one receiver: the scenario that congests a port, and a tap at that port.

use super::agenda::Agenda;
use super::host::{Host, Messages};
use super::packet::{self, Body, Flow, Packet};
use super::switch::{PORTS, Switch};
use super::{Link, Picos, instant};
use crate::crc::HostCrc;
use crate::random::SplitMix;
use anyhow::{Context, Result, ensure};
use cc_core::wire::{self, Packet as Parsed, cm};
use cc_core::{Bytes, Ecn, Nanos, Port, Psn, Qpn, Rate};
use cc_cp::red::RedSettings;

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
    /// CNPs.
    pub cnps: u64,
    /// The longest data queue of the switch, in bytes.
    pub longest_queue: u32,
}

enum Event {
    /// A host may have something to send.
    Look(usize),
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
}

struct Run<'a, R: cc_rp::ReactionPoint, N: cc_np::NotificationPoint> {
    scenario: Incast,
    flows: Vec<Flow>,
    hosts: Vec<Host<R, N>>,
    switch: Switch,
    link: Link,
    agenda: Agenda<Event>,
    tap: &'a mut dyn FnMut(u64, &[u8]) -> Result<()>,
    frame: Vec<u8>,
    summary: Summary,
}

impl Incast {
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
        red: &RedSettings,
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
        let first = Packet {
            flow: 0,
            to: receiver,
            body: Body::Data { opcode: wire::opcode::SEND_MIDDLE, psn: Psn::new(0) },
            ecn: Ecn::Ect0,
            frame_bytes: 0,
        };
        let mut frame = vec![0; 4_400];
        let frame_bytes = packet::frame(&flows[0], &first, self.payload, &mut [0; cm::DATAGRAM_LEN])
            .emit::<HostCrc>(&mut frame)
            .map_err(|error| anyhow::anyhow!("cannot build a data frame: {error:?}"))? as u32;
        let link = Link { gbps: self.gbps, delay: Picos::from(self.delay.get()) * 1_000 };
        // Twice there and back through the switch, which stores each packet once.
        let base_rtt = (4 * link.delay + 2 * link.serialisation(frame_bytes)).div_ceil(1_000);
        let port = Port {
            line_rate: Rate::from_gbps(self.gbps),
            mtu: Bytes::new(frame_bytes),
            base_rtt: Nanos::new(u32::try_from(base_rtt).context("the cables are too long")?),
        };
        let messages = Messages { frame_bytes, packets: self.message };
        let host = |_| Host::<R, N>::new(link, port, messages, rp, np);
        let hosts = (0..=receiver).map(host).collect::<Result<_, _>>()?;
        let switch = Switch::new(receiver + 1, link, &port, red, self.seed)?;
        let summary = Summary::default();
        let mut run = Run { scenario: *self, flows, hosts, switch, link, agenda: Agenda::new(), tap, frame, summary };
        run.connect(&mut random);
        run.play()?;
        Ok(Summary { longest_queue: run.switch.longest, ..run.summary })
    }
}

impl<R: cc_rp::ReactionPoint, N: cc_np::NotificationPoint> Run<'_, R, N> {
    /// Each sender asks for its connection within the first microsecond; data follows the handshake.
    fn connect(&mut self, random: &mut SplitMix) {
        for index in 0..self.flows.len() {
            let flow = self.flows[index];
            let (local_id, local_qpn, starting_psn) = (index as u32 + 1, flow.sender_qpn, flow.first_psn);
            let request = cm::Message::Request { local_id, local_qpn, starting_psn };
            let at = random.draw() % 1_000_000;
            let host = flow.sender;
            let packet = self.control(index, flow.receiver, Body::Handshake(request), Ecn::NotEct);
            self.hosts[host].send(packet);
            self.look(host, at);
        }
    }

    fn control(&self, flow: usize, to: usize, body: Body, ecn: Ecn) -> Packet {
        let mut packet = Packet { flow, to, body, ecn, frame_bytes: 0 };
        packet.frame_bytes = match body {
            Body::Cnp { frame } => frame.length as u32,
            // The emitted length; the tap's buffer is at hand only later, so build it once here.
            _ => {
                let mut buffer = [0; 512];
                let mut datagram = [0; cm::DATAGRAM_LEN];
                packet::frame(&self.flows[flow], &packet, 0, &mut datagram)
                    .emit::<HostCrc>(&mut buffer)
                    .map_or(0, |length| length as u32)
            }
        };
        packet
    }

    /// Schedules a look at a host's queues, unless an earlier one is scheduled.
    fn look(&mut self, host: usize, at: Picos) {
        if self.hosts[host].look.is_none_or(|scheduled| at < scheduled) {
            self.hosts[host].look = Some(at);
            self.agenda.add(at, Event::Look(host));
        }
    }

    fn play(&mut self) -> Result<()> {
        let end = Picos::from(self.scenario.duration.get()) * 1_000;
        while let Some((now, event)) = self.agenda.next(end) {
            match event {
                Event::Look(host) => self.transmit(now, host),
                Event::Wake(host) if self.hosts[host].wake == Some(now) => self.wake(now, host),
                Event::Wake(_) => {} // overtaken by an earlier wake
                Event::AtSwitch(packet) => {
                    if self.switch.enqueue(packet) {
                        self.forward(now, packet.to);
                    }
                }
                Event::Free(port) => self.forward(now, port),
                Event::AtHost(packet) => self.arrive(now, packet)?,
                Event::Start(index) => {
                    let flow = self.flows[index];
                    ensure!(self.hosts[flow.sender].open(now, index, &flow), "a host has no room for flow {index}");
                    self.wake(now, flow.sender);
                    self.look(flow.sender, now);
                }
            }
        }
        Ok(())
    }

    fn transmit(&mut self, now: Picos, host: usize) {
        if self.hosts[host].look != Some(now) {
            return; // overtaken by an earlier look
        }
        self.hosts[host].look = None;
        match self.hosts[host].transmit(now, &self.flows) {
            Ok((packet, sent)) => {
                self.agenda.add(sent + self.link.delay, Event::AtSwitch(packet));
                self.look(host, sent);
            }
            Err(Some(later)) => self.look(host, later),
            Err(None) => {}
        }
    }

    fn wake(&mut self, now: Picos, host: usize) {
        self.hosts[host].wake = None;
        let next = self.hosts[host].wake(now);
        self.rearm(host, next);
    }

    /// Schedules a wake, unless an earlier one is scheduled.
    fn rearm(&mut self, host: usize, at: Picos) {
        if self.hosts[host].wake.is_none_or(|scheduled| at < scheduled) {
            self.hosts[host].wake = Some(at);
            self.agenda.add(at, Event::Wake(host));
        }
    }

    fn forward(&mut self, now: Picos, port: usize) {
        if let Some((sent, packet)) = self.switch.transmit(now, port) {
            self.agenda.add(sent, Event::Free(port));
            self.agenda.add(sent + self.link.delay, Event::AtHost(packet));
        }
    }

    /// A packet reaches the host that it is for.
    fn arrive(&mut self, now: Picos, packet: Packet) -> Result<()> {
        let (flow, host) = (self.flows[packet.flow], packet.to);
        if host == flow.receiver {
            return self.received(now, packet);
        }
        match packet.body {
            Body::Cnp { frame } => {
                let parsed = wire::parse(&frame.bytes[..frame.length], frame.length);
                if let Ok(Parsed::Roce(roce)) = parsed {
                    self.hosts[host].notified(now, roce.bth.dest_qp, roce.cnp().unwrap_or_default());
                    let next = self.hosts[host].next_wake(now);
                    self.rearm(host, next);
                }
            }
            Body::Handshake(cm::Message::Reply { local_id, remote_id, .. }) => {
                let ready = cm::Message::ReadyToUse { local_id: remote_id, remote_id: local_id };
                let packet = self.control(packet.flow, flow.receiver, Body::Handshake(ready), Ecn::NotEct);
                self.hosts[host].send(packet);
                self.look(host, now);
                self.agenda.add(now, Event::Start(packet.flow));
            }
            Body::Ack { .. } | Body::Data { .. } | Body::Handshake(_) => {}
        }
        Ok(())
    }

    /// A packet reaches the receiver: the tap sees it, and what the receiver answers.
    fn received(&mut self, now: Picos, packet: Packet) -> Result<()> {
        let flow = self.flows[packet.flow];
        let host = flow.receiver;
        let length = self.emit(&packet)?;
        (self.tap)(instant(now).nanos(), &self.frame[..length])?;
        self.summary.frames += 1;
        match packet.body {
            Body::Data { opcode, psn } => {
                self.summary.data += 1;
                self.summary.marked += u64::from(packet.ecn == Ecn::Ce);
                let parsed = wire::parse(&self.frame[..length], length);
                let Ok(Parsed::Roce(roce)) = parsed else {
                    anyhow::bail!("a frame of ours does not parse: {parsed:?}")
                };
                if let Some(frame) = self.hosts[host].received(now, &roce, flow.sender_qpn) {
                    self.summary.cnps += 1;
                    self.answer(now, packet.flow, Body::Cnp { frame }, Ecn::Ect0)?;
                }
                if wire::opcode::info(opcode).last() {
                    let messages = self.hosts[host].complete();
                    self.answer(now, packet.flow, Body::Ack { psn, messages }, Ecn::Ect0)?;
                }
            }
            Body::Handshake(cm::Message::Request { local_id, .. }) => {
                let (local_qpn, starting_psn) = (flow.receiver_qpn, flow.first_psn);
                let reply =
                    cm::Message::Reply { local_id: 0x100 + local_id, remote_id: local_id, local_qpn, starting_psn };
                self.answer(now, packet.flow, Body::Handshake(reply), Ecn::NotEct)?;
            }
            Body::Ack { .. } | Body::Cnp { .. } | Body::Handshake(_) => {}
        }
        Ok(())
    }

    /// The receiver sends something back: the tap sees it at once, the cable takes it when it is free.
    fn answer(&mut self, now: Picos, flow: usize, body: Body, ecn: Ecn) -> Result<()> {
        let Flow { sender, receiver, .. } = self.flows[flow];
        let packet = self.control(flow, sender, body, ecn);
        let length = self.emit(&packet)?;
        (self.tap)(instant(now).nanos(), &self.frame[..length])?;
        self.summary.frames += 1;
        self.hosts[receiver].send(packet);
        self.look(receiver, now);
        Ok(())
    }

    /// Writes the frame of a packet into the buffer and answers its length.
    fn emit(&mut self, packet: &Packet) -> Result<usize> {
        if let Body::Cnp { frame } = packet.body {
            self.frame[..frame.length].copy_from_slice(&frame.bytes[..frame.length]);
            return Ok(frame.length);
        }
        let mut datagram = [0; cm::DATAGRAM_LEN];
        packet::frame(&self.flows[packet.flow], packet, self.scenario.payload, &mut datagram)
            .emit::<HostCrc>(&mut self.frame)
            .map_err(|error| anyhow::anyhow!("cannot build a frame: {error:?}"))
    }
}
