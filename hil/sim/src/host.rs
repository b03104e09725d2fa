//! A host: one NIC port with the library's engines, and an application that always has more to send.

use super::packet::{Body, Data, Flow, Packet};
use super::switch::DATA;
use super::{Cable, Picos, instant};
use cc_core::params::ParamError;
use cc_core::table::{Handle, Heap};
use cc_core::wire::Roce;
use cc_core::wire::opcode::{self, Class};
use cc_core::{Bytes, Ecn, Link, Nanos, Psn, Qpn, Rate, Zeroed};
use cc_rp::RateLimiter;
use hil_capture::crc::HostCrc;
use programs::layout::TX_FRAME_BYTES;
use programs::{FrameOut, HeaderCacheOf, Nic, OnHeap, RxFields, TransmitRing};
use std::collections::VecDeque;
use std::rc::Rc;

/// QPs that a host's reaction point can hold.
const QPS: usize = 64;

/// What the reaction point has decided of each slot, beside the rate: that is the engine's own pacer's business.
struct Limits {
    /// When the decision being written was taken.
    now: Picos,
    slots: Vec<Limit>,
}

#[derive(Clone, Copy)]
struct Limit {
    /// Bytes that may be in flight.
    window: u32,
    /// Nothing leaves before.
    held_until: Picos,
}

/// What the NIC drives: what it has decided, and the frames that it has sent.
struct Outbox {
    limits: Limits,
    buffer: [u8; TX_FRAME_BYTES],
    frames: Vec<Rc<[u8]>>,
}

impl RateLimiter for Outbox {
    fn set(&mut self, index: u16, _rate: Rate, window: Bytes, hold: Nanos) {
        let held_until = self.limits.now + Picos::from(hold.get()) * 1_000;
        self.limits.slots[usize::from(index)] = Limit { window: window.get(), held_until };
    }
}

impl TransmitRing for Outbox {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    fn transmit(&mut self, length: usize) {
        self.frames.push(Rc::from(&self.buffer[..length]));
    }
}

/// A flow that this host sends.
#[derive(Debug)]
struct Sending {
    flow: usize,
    handle: Handle,
    next_psn: Psn,
    /// Packets of the present message that are still to be sent.
    left: u32,
    /// When the pacer lets the next packet go.
    due: Picos,
    /// Packets that are not acknowledged, with the times at which they were sent.
    unacknowledged: VecDeque<(Psn, Picos)>,
}

/// What a message looks like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages {
    /// Bytes of a packet's frame.
    pub(super) frame_bytes: u32,
    /// Packets of a message.
    pub(super) packets: u32,
}

/// One host.
pub(super) struct Host<R: cc_rp::ReactionPoint, N: cc_np::NotificationPoint> {
    nic: Nic<R, N, OnHeap>,
    headers: HeaderCacheOf<N, Heap>,
    outbox: Outbox,
    cable: Cable,
    messages: Messages,
    sending: Vec<Sending>,
    control: VecDeque<Packet>,
    /// When the cable is free.
    free: Picos,
    /// When the next look at the send queues is scheduled, if it is.
    pub(super) tx_poll: Option<Picos>,
    /// When the engines are to be called next, if that is scheduled.
    pub(super) wake: Option<Picos>,
    completed: u32,
}

impl<R: cc_rp::ReactionPoint, N: cc_np::NotificationPoint> Host<R, N> {
    pub(super) fn new(
        cable: Cable,
        link: Link,
        messages: Messages,
        rp: &R::Settings,
        np: &N::Settings,
    ) -> Result<Self, ParamError> {
        let limits = Limits { now: 0, slots: vec![Limit { window: u32::MAX, held_until: 0 }; QPS] };
        let (mut nic, mut headers) = (Nic::new(instant(0), link, rp, np)?, HeaderCacheOf::<N, Heap>::ZEROED);
        nic.grow(QPS, QPS);
        headers.grow(QPS);
        Ok(Self {
            nic,
            headers,
            outbox: Outbox { limits, buffer: [0; TX_FRAME_BYTES], frames: Vec::new() },
            cable,
            messages,
            sending: Vec::new(),
            control: VecDeque::new(),
            free: 0,
            tx_poll: None,
            wake: None,
            completed: 0,
        })
    }

    /// Begins to send on a flow. `false` when the reaction point has no room.
    pub(super) fn open(&mut self, now: Picos, index: usize, flow: &Flow) -> bool {
        self.outbox.limits.now = now;
        let Some(handle) = self.nic.open(instant(now), DATA, &mut self.outbox) else { return false };
        if self.nic.bind(handle, flow.sender_qpn).is_err() {
            return false;
        }
        self.sending.push(Sending {
            flow: index,
            handle,
            next_psn: flow.first_psn,
            left: self.messages.packets,
            due: now,
            unacknowledged: VecDeque::new(),
        });
        true
    }

    /// Puts a control packet before all data.
    pub(super) fn send(&mut self, packet: Packet) {
        self.control.push_back(packet);
    }

    /// A frame for one of this host's flows has arrived: a CNP or an acknowledgement.
    pub(super) fn on_reply(&mut self, now: Picos, flow: usize, roce: &Roce<'_>) {
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
        self.deliver(now, roce, &meta);
    }

    /// A data packet has arrived. A notification point that replies acknowledges it, with the messages that are whole.
    pub(super) fn on_data(&mut self, now: Picos, roce: &Roce<'_>, remote: Qpn) {
        self.headers.learn(instant(now).stamp(), roce, remote);
        let msn = N::REPLIES.then_some(self.completed & 0x00ff_ffff);
        self.deliver(now, roce, &RxFields { remote: Some(remote), msn, ..RxFields::at(instant(now)) });
    }

    /// Gives a packet to the NIC.
    fn deliver(&mut self, now: Picos, roce: &Roce<'_>, meta: &RxFields) {
        self.outbox.limits.now = now;
        let mut out = FrameOut::<_, _, HostCrc>::new(&mut self.outbox, &self.headers);
        self.nic.received(instant(now), roce, meta, &mut out);
    }

    /// The frames that the notification point has written since the last call.
    pub(super) fn take_written(&mut self) -> Vec<Rc<[u8]>> {
        std::mem::take(&mut self.outbox.frames)
    }

    /// A message has arrived whole: the number to acknowledge it with.
    pub(super) fn complete(&mut self) -> u32 {
        self.completed += 1;
        self.completed
    }

    /// Lets the engines do what has fallen due. Answers when they want to be called next.
    pub(super) fn wake(&mut self, now: Picos) -> Picos {
        self.outbox.limits.now = now;
        let mut out = FrameOut::<_, _, HostCrc>::new(&mut self.outbox, &self.headers);
        self.nic.timer(instant(now), &mut out);
        while self.nic.next_wake() <= instant(now) {
            self.nic.timer(instant(now), &mut out);
        }
        self.next_wake(now)
    }

    /// When the NIC wants to be called next, as of a call at `now`.
    pub(super) fn next_wake(&self, now: Picos) -> Picos {
        Picos::from(self.nic.next_wake().nanos()).max(now / 1_000) * 1_000
    }

    /// Takes the next packet, if the cable is free and one may go. Answers the packet and when its last bit is sent;
    /// otherwise when to look again, if there is anything to wait for.
    pub(super) fn transmit(&mut self, now: Picos, flows: &[Flow]) -> Result<(Packet, Picos), Option<Picos>> {
        if now < self.free {
            return Err(Some(self.free));
        }
        if let Some(packet) = self.control.pop_front() {
            self.free = now + self.cable.serialisation(packet.frame_bytes);
            return Ok((packet, self.free));
        }
        let frame_bytes = self.messages.frame_bytes;
        let limits = &self.outbox.limits.slots;
        let due = |sending: &Sending| {
            let Limit { window, held_until } = limits[usize::from(sending.handle.index())];
            let in_flight = sending.unacknowledged.len() as u32 * frame_bytes;
            // A window below one packet lets one go at a time, as fast as the pacer does.
            let open = in_flight == 0 || in_flight.saturating_add(frame_bytes) <= window;
            open.then(|| sending.due.max(held_until))
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
        let psn = sending.next_psn;
        let packet = Packet {
            flow: sending.flow,
            to: flows[sending.flow].receiver,
            body: Body::Data(Data { opcode, psn, sent: instant(now).stamp(), hops: Vec::new() }),
            ecn: Ecn::Ect0,
            frame_bytes,
        };
        sending.next_psn = psn.plus(1);
        sending.unacknowledged.push_back((psn, now));
        sending.left = if sending.left == 1 { packets } else { sending.left - 1 };
        let bytes = Bytes::new(frame_bytes);
        self.outbox.limits.now = now;
        self.nic.sent(instant(now), sending.handle, psn, bytes, &mut self.outbox);
        let wait = self.nic.departure(instant(now), sending.handle, bytes).unwrap_or(Nanos::MAX);
        sending.due = (now / 1_000 + Picos::from(wait.get())) * 1_000;
        self.free = now + self.cable.serialisation(frame_bytes);
        Ok((packet, self.free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_np::NotificationPoint;
    use cc_rp::ReactionPoint;
    use cc_rp::hpcc::{DRAFT, Hpcc5};

    type Echo = cc_np::echo::Echo;

    /// C18: 24 Gb/s for 1 us are two packets of 1,500 bytes, and a packet less one byte of room is none.
    #[test]
    fn no_more_is_in_flight_than_the_window_allows_c18() {
        for (gbps, packets) in [(24, 2), (25, 2), (35, 2), (36, 3), (12, 1)] {
            let cable = Cable { gbps, delay: 0 };
            let (line_rate, mtu) = (Rate::from_gbps(gbps), Bytes::new(1_500));
            let link = Link { line_rate, mtu, base_rtt: Nanos::new(1_000) };
            let messages = Messages { frame_bytes: 1_500, packets: 100 };
            let np = Echo::PRESETS[0].values;
            let mut host = Host::<Hpcc5, Echo>::new(cable, link, messages, &DRAFT, &np).unwrap();
            let number = Qpn::new(7);
            let flow = Flow {
                sender: 0,
                receiver: 1,
                sender_qpn: number,
                receiver_qpn: number,
                first_psn: Psn::new(0x00ff_ffff),
            };
            assert!(host.open(0, 0, &flow));
            let window = Hpcc5::check(&DRAFT, &link).map(|_| line_rate.bytes_in(Nanos::new(1_000)).get()).unwrap();
            let mut now = 0;
            let mut send = |host: &mut Host<Hpcc5, Echo>| {
                let mut sent = 0;
                for _ in 0..50 {
                    now += 1_000_000;
                    match host.transmit(now, &[flow]) {
                        Ok(_) => sent += 1,
                        Err(Some(later)) => now = now.max(later),
                        Err(None) => {}
                    }
                    assert!(host.sending[0].unacknowledged.len() as u32 * 1_500 <= window);
                }
                sent
            };
            assert_eq!(send(&mut host), packets, "{gbps} Gb/s");
            // Nothing more for as long as nothing is acknowledged; one for each that is.
            assert_eq!(send(&mut host), 0);
            host.sending[0].unacknowledged.pop_front();
            assert_eq!(send(&mut host), 1);
        }
    }
}
