//! A host: one port of a NIC, and an application that always has more to send.

use super::packet::{self, DATA, DataLayout, Flow, InFlight};
use super::slab::PacketId;
use super::{Cable, Picos, instant};
use anyhow::{Result, anyhow, ensure};
use cc_core::table::Handle;
use cc_core::wire::opcode::{self, Class};
use cc_core::wire::{FlowKey, NoCrc, Response, Roce};
use cc_core::{Bytes, Nanos, Psn, Rate};
use cc_np::NotSent;
use hil_algorithms::{NicGroup, NicOutput, RxFields};
use std::collections::VecDeque;

/// The window and hold that the reaction point has decided for a slot. The rate is in the NIC's own pacer.
#[derive(Clone, Copy, Debug)]
struct Limit {
    /// Bytes that may be in flight.
    window: u32,
    /// Time before which no packet is sent.
    held_until: Picos,
}

impl Limit {
    /// The limit before the first decision: none.
    const NONE: Self = Self { window: u32::MAX, held_until: 0 };
}

/// A flow that this host sends.
#[derive(Debug)]
struct Sending {
    flow: usize,
    handle: Handle,
    next_psn: Psn,
    /// Packets of the present message that are still to be sent.
    left: u32,
    /// The time at which the pacer permits the next packet.
    due: Picos,
    /// Packets that are not acknowledged yet, with the times at which they were sent.
    unacknowledged: VecDeque<(Psn, Picos)>,
}

/// Size of messages, the same for all flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Messages {
    /// Bytes of a packet's frame.
    pub(crate) frame_bytes: u32,
    /// Packets of a message.
    pub(crate) packets: u32,
}

/// The state that all hosts of a fabric share.
pub(crate) struct Fabric<'a> {
    /// The NICs, one for each host.
    pub(crate) nics: &'a mut dyn NicGroup,
    /// The packets in flight.
    pub(crate) slab: &'a mut InFlight,
    /// The flows.
    pub(crate) flows: &'a [Flow],
    /// The template of each flow's data packets.
    pub(crate) templates: &'a [Vec<u8>],
    /// The offsets of the fields of a data packet.
    pub(crate) layout: DataLayout,
}

/// The output of a NIC: applies its decisions, and puts its frames in the host's send queues.
struct Output<'a> {
    now: Picos,
    limits: &'a mut Vec<Limit>,
    /// CNPs and acknowledgements that the NIC has sent.
    written: &'a mut Vec<PacketId>,
    slab: &'a mut InFlight,
    flows: &'a [Flow],
    host: usize,
}

impl NicOutput for Output<'_> {
    fn set(&mut self, slot: u16, _rate: Rate, window: Bytes, hold: Nanos) {
        let slot = usize::from(slot);
        if self.limits.len() <= slot {
            self.limits.resize(slot + 1, Limit::NONE);
        }
        self.limits[slot] = Limit { window: window.get(), held_until: self.now + Picos::from(hold.get()) * 1_000 };
    }

    /// Puts the whole frame in a slot of the slab, with zeros for its ICRC.
    fn send(&mut self, frame: &Response<'_>) -> Result<(), NotSent> {
        let to = frame.bth().dest_qp;
        let is_for = |flow: &Flow| flow.receiver == self.host && flow.sender_qpn == to;
        let flow = self.flows.iter().position(is_for).ok_or(NotSent::Unaddressed)?;
        let mut buffer = [0; 512];
        let len = frame.emit::<NoCrc>(&mut buffer).map_err(|_| NotSent::Full)?;
        self.written.push(self.slab.put(flow, self.flows[flow].sender, len as u16, &buffer[..len]));
        Ok(())
    }
}

/// One host.
pub(crate) struct Host {
    /// The number of the host, and of its NIC in the group.
    number: usize,
    cable: Cable,
    messages: Messages,
    sending: Vec<Sending>,
    limits: Vec<Limit>,
    control: VecDeque<PacketId>,
    written: Vec<PacketId>,
    /// Time from which on the cable is free.
    free: Picos,
    /// PFC: data waits until this time.
    paused_until: Picos,
    /// The time of the next poll of the send queues, if one is scheduled.
    pub(crate) poll: Option<Picos>,
    /// The time of the next wake of the NIC, if one is scheduled.
    pub(crate) wake: Option<Picos>,
    completed: u32,
}

impl Host {
    /// Host `number`, whose NIC has that number in the group.
    pub(crate) fn new(number: usize, cable: Cable, messages: Messages) -> Self {
        Self {
            number,
            cable,
            messages,
            sending: Vec::new(),
            limits: Vec::new(),
            control: VecDeque::new(),
            written: Vec::new(),
            free: 0,
            paused_until: 0,
            poll: None,
            wake: None,
            completed: 0,
        }
    }

    /// The group of NICs, and the output for this host's NIC.
    fn nic<'a>(&'a mut self, now: Picos, fabric: &'a mut Fabric<'_>) -> (&'a mut dyn NicGroup, Output<'a>) {
        let Fabric { nics, slab, flows, .. } = fabric;
        let Self { number: host, limits, written, .. } = self;
        (&mut **nics, Output { now, limits, written, slab, flows, host: *host })
    }

    /// Begins to send on a flow, whose receiver and the queue pair there are known: switches name it by them.
    ///
    /// # Errors
    /// The NIC has no room for it, or its queue pair number belongs to another flow.
    pub(crate) fn open(&mut self, now: Picos, index: usize, fabric: &mut Fabric<'_>) -> Result<()> {
        let number = self.number;
        let Flow { sender_qpn, first_psn, .. } = fabric.flows[index];
        let (nics, mut output) = self.nic(now, fabric);
        let opened = nics.open(number, instant(now), DATA, &mut output);
        let handle = opened.ok_or_else(|| anyhow!("the NIC of host {number} has no room for flow {index}"))?;
        fabric.nics.bind(number, handle, sender_qpn).map_err(|error| {
            anyhow!("host {number}: queue pair {:#x} cannot be bound to flow {index}: {error:?}", sender_qpn.get())
        })?;
        let roce = packet::parse(&fabric.templates[index], usize::from(fabric.layout.wire_len))?;
        ensure!(
            fabric.nics.learn_remote(number, handle, FlowKey::of_data(&roce)),
            "the NIC of host {number} has no room for the remote name of flow {index}"
        );
        self.sending.push(Sending {
            flow: index,
            handle,
            next_psn: first_psn,
            left: self.messages.packets,
            due: now,
            unacknowledged: VecDeque::new(),
        });
        Ok(())
    }

    /// Puts a control packet before all data.
    pub(crate) fn send(&mut self, packet: PacketId) {
        self.control.push_back(packet);
    }

    /// Handles a CNP or an acknowledgement that has arrived for one of this host's flows.
    pub(crate) fn on_reply(&mut self, now: Picos, flow: usize, roce: &Roce<'_>, fabric: &mut Fabric<'_>) {
        let mut meta = RxFields::at(instant(now));
        if roce.info.class() == Class::Ack
            && let Some(sending) = self.sending.iter_mut().find(|sending| sending.flow == flow)
        {
            let (mut packets, mut sent) = (0, None);
            while let Some(&(psn, at)) = sending.unacknowledged.front()
                && !psn.is_after(roce.bth.psn)
            {
                sending.unacknowledged.pop_front();
                (packets, sent) = (packets + 1, Some(at));
            }
            meta.acked = Bytes::new(packets * self.messages.frame_bytes);
            meta.rtt = sent.map(|at| Nanos::new(((now - at) / 1_000) as u32));
        }
        let number = self.number;
        let (nics, mut output) = self.nic(now, fabric);
        nics.received(number, instant(now), roce, &meta, &mut output);
    }

    /// Handles a PFC frame that has arrived, with these quanta for data; zero resumes it.
    pub(crate) fn pause(&mut self, now: Picos, quanta: u16, nics: &mut dyn NicGroup) {
        self.paused_until = now + Picos::from(self.cable.quantum().pause(quanta).get()) * 1_000;
        nics.pause(self.number, instant(now), &packet::pfc(quanta));
    }

    /// Handles a data packet that has arrived. If the notification point sends acknowledgements, it also receives the number of
    /// completed messages.
    pub(crate) fn on_data(&mut self, now: Picos, flow: usize, roce: &Roce<'_>, fabric: &mut Fabric<'_>) {
        let msn = fabric.nics.acknowledges().then_some(self.completed & 0x00ff_ffff);
        let remote = fabric.flows[flow].sender_qpn;
        fabric.nics.learn_sender(self.number, instant(now), roce, remote);
        let meta = RxFields { msn, remote: Some(remote), ..RxFields::at(instant(now)) };
        let number = self.number;
        let (nics, mut output) = self.nic(now, fabric);
        nics.received(number, instant(now), roce, &meta, &mut output);
    }

    /// Returns the frames that the NIC has sent since the last call.
    pub(crate) fn take_written(&mut self) -> Vec<PacketId> {
        std::mem::take(&mut self.written)
    }

    /// Called when the last packet of a message has arrived. Returns the number of completed messages, which acknowledges it.
    pub(crate) fn complete(&mut self) -> u32 {
        self.completed += 1;
        self.completed
    }

    /// Runs the NIC's timer until nothing is due. Returns the time of its next wake.
    pub(crate) fn wake(&mut self, now: Picos, fabric: &mut Fabric<'_>) -> Picos {
        let number = self.number;
        let (nics, mut output) = self.nic(now, fabric);
        nics.timer(number, instant(now), &mut output);
        while nics.next_wake(number) <= instant(now) {
            nics.timer(number, instant(now), &mut output);
        }
        self.next_wake(now, fabric.nics)
    }

    /// The time of the NIC's next wake, not before `now`.
    pub(crate) fn next_wake(&self, now: Picos, nics: &dyn NicGroup) -> Picos {
        nics.next_wake(self.number).nanos().max(now / 1_000) * 1_000
    }

    /// Sends the next packet, if the cable is free and a packet may be sent. Returns the packet and the time at which its last
    /// bit is sent; otherwise the time of the next poll, if there is anything to wait for.
    pub(crate) fn transmit(&mut self, now: Picos, fabric: &mut Fabric<'_>) -> Result<(PacketId, Picos), Option<Picos>> {
        if now < self.free {
            return Err(Some(self.free));
        }
        if let Some(packet) = self.control.pop_front() {
            self.free = now + self.cable.serialisation(fabric.slab.wire_len(packet));
            return Ok((packet, self.free));
        }
        let frame_bytes = self.messages.frame_bytes;
        let limits = &self.limits;
        let paused_until = self.paused_until;
        let due = |sending: &Sending| {
            let Limit { window, held_until } = limits[usize::from(sending.handle.index())];
            let in_flight = sending.unacknowledged.len() as u32 * frame_bytes;
            // With a window below one packet, one packet is in flight at a time, at the pacer's rate.
            let open = in_flight == 0 || in_flight.saturating_add(frame_bytes) <= window;
            open.then(|| sending.due.max(held_until).max(paused_until))
        };
        let next = self.sending.iter_mut().filter_map(|sending| due(sending).map(|due| (due, sending)));
        let Some((due, sending)) = next.min_by_key(|&(due, _)| due) else { return Err(None) };
        if due > now {
            return Err(Some(due));
        }
        let packets = self.messages.packets;
        let opcode = match (sending.left == packets, sending.left == 1) {
            (true, true) => opcode::SEND_ONLY,
            (true, false) => opcode::SEND_FIRST,
            (false, true) => opcode::SEND_LAST,
            (false, false) => opcode::SEND_MIDDLE,
        };
        let (psn, flow, handle) = (sending.next_psn, sending.flow, sending.handle);
        let layout = fabric.layout;
        let to = fabric.flows[flow].receiver;
        let packet = fabric.slab.put(flow, to, layout.wire_len, &fabric.templates[flow]);
        layout.fill(fabric.slab.header_mut(packet), &fabric.flows[flow], opcode, psn, instant(now).stamp());
        sending.next_psn = psn.plus(1);
        sending.unacknowledged.push_back((psn, now));
        sending.left = if sending.left == 1 { packets } else { sending.left - 1 };
        let (number, bytes) = (self.number, Bytes::new(frame_bytes));
        let (nics, mut output) = self.nic(now, fabric);
        nics.sent(number, instant(now), handle, psn, bytes, &mut output);
        let wait = nics.departure(number, instant(now), handle, bytes).unwrap_or(Nanos::MAX);
        if let Some(sending) = self.sending.iter_mut().find(|sending| sending.flow == flow) {
            sending.due = (now / 1_000 + Picos::from(wait.get())) * 1_000;
        }
        self.free = now + self.cable.serialisation(frame_bytes);
        Ok((packet, self.free))
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::PacketFormat;
    use super::*;
    use cc_core::{Link, Qpn};
    use hil_algorithms::algorithm;

    /// C18: 24 Gb/s for 1 us are two packets of 1,500 bytes. A packet leaves only if the window has room for all of it.
    #[test]
    fn no_more_is_in_flight_than_the_window_allows_c18() {
        let hpcc = algorithm("hpcc").unwrap();
        let [(_, rp), (_, np)] = hpcc.presets(Some("draft")).unwrap();
        for (gbps, packets) in [(24, 2), (25, 2), (35, 2), (36, 3), (12, 1)] {
            let cable = Cable { gbps, delay: 0 };
            let (line_rate, mtu) = (Rate::from_gbps(gbps), Bytes::new(1_500));
            let link = Link { line_rate, mtu, base_rtt: Nanos::new(1_000) };
            let messages = Messages { frame_bytes: 1_500, packets: 100 };
            let mut nics = hpcc.nics(link, [&rp, &np]).unwrap();
            nics.add(instant(0), 1, 1);
            let number = Qpn::new(7);
            let flow = Flow {
                sender: 0,
                receiver: 1,
                sender_qpn: number,
                receiver_qpn: number,
                first_psn: Psn::new(0x00ff_ffff),
            };
            let (template, layout) = PacketFormat::of(hpcc.signals(), 1_024).template(&flow).unwrap();
            let (templates, flows, mut slab) = ([template], [flow], InFlight::new(200));
            let mut fabric = Fabric { nics: &mut *nics, slab: &mut slab, flows: &flows, templates: &templates, layout };
            let mut host = Host::new(0, cable, messages);
            host.open(0, 0, &mut fabric).unwrap();
            let window = line_rate.bytes_in(Nanos::new(1_000)).get();
            let mut now = 0;
            let mut send = |host: &mut Host| {
                let mut sent = 0;
                for _ in 0..50 {
                    now += 1_000_000;
                    match host.transmit(now, &mut fabric) {
                        Ok(_) => sent += 1,
                        Err(Some(later)) => now = now.max(later),
                        Err(None) => {}
                    }
                    assert!(host.sending[0].unacknowledged.len() as u32 * 1_500 <= window);
                }
                sent
            };
            assert_eq!(send(&mut host), packets, "{gbps} Gb/s");
            // No packet leaves until one is acknowledged; then one leaves for each.
            assert_eq!(send(&mut host), 0);
            host.sending[0].unacknowledged.pop_front();
            assert_eq!(send(&mut host), 1);
        }
    }
}
