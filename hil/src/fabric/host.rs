//! A host: one NIC port with the library's engines, and an application that always has more to send.

use super::packet::{Body, CnpFrame, Flow, Packet};
use super::{Link, Picos, instant};
use cc_core::params::ParamError;
use cc_core::table::Handle;
use cc_core::wire::{Roce, opcode};
use cc_core::{Bytes, CnpHint, Ecn, Nanos, Port, Psn, Qpn, Rate};
use cc_np::{Cnp, NpEngine};
use cc_rp::{RateLimiter, RpEngine};
use nic::layout::TX_FRAME_BYTES;
use std::collections::VecDeque;

/// QPs that a host's reaction point can hold.
const QPS: usize = 64;

/// The hosts of the fabric pace by the engine's own pacer, so a decision needs no further device.
struct NoDevice;

impl RateLimiter for NoDevice {
    fn set(&mut self, _index: u16, _rate: Rate, _window: Bytes, _hold: Nanos) {}
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
    rp: Box<RpEngine<R, QPS, { 2 * QPS }>>,
    np: Box<NpEngine<N, 16, 4>>,
    link: Link,
    messages: Messages,
    sending: Vec<Sending>,
    control: VecDeque<Packet>,
    /// When the cable is free.
    free: Picos,
    /// When the next look at the send queues is scheduled, if it is.
    pub(super) look: Option<Picos>,
    /// When the engines are to be called next, if that is scheduled.
    pub(super) wake: Option<Picos>,
    completed: u32,
}

impl<R: cc_rp::ReactionPoint, N: cc_np::NotificationPoint> Host<R, N> {
    pub(super) fn new(
        link: Link,
        port: Port,
        messages: Messages,
        rp: &R::Settings,
        np: &N::Settings,
    ) -> Result<Self, ParamError> {
        Ok(Self {
            rp: Box::new(RpEngine::new(instant(0), port, R::check(rp, &port)?)),
            np: Box::new(NpEngine::new(instant(0), port, N::check(np, &port)?)),
            link,
            messages,
            sending: Vec::new(),
            control: VecDeque::new(),
            free: 0,
            look: None,
            wake: None,
            completed: 0,
        })
    }

    /// Begins to send on a flow. `false` when the reaction point has no room.
    pub(super) fn open(&mut self, now: Picos, index: usize, flow: &Flow) -> bool {
        let Some(handle) = self.rp.open(instant(now), 3, &mut NoDevice) else { return false };
        if self.rp.bind(handle, flow.sender_qpn).is_err() {
            return false;
        }
        let left = self.messages.packets;
        self.sending.push(Sending { flow: index, handle, next_psn: flow.first_psn, left, due: now });
        true
    }

    /// Puts a control packet before all data.
    pub(super) fn send(&mut self, packet: Packet) {
        self.control.push_back(packet);
    }

    /// A CNP for one of this host's flows has arrived.
    pub(super) fn notified(&mut self, now: Picos, qpn: Qpn, hint: CnpHint) {
        self.rp.cnp(instant(now), qpn, hint, &mut NoDevice);
    }

    /// A data packet has arrived; `None` unless the notification point answers with a CNP.
    pub(super) fn received(&mut self, now: Picos, roce: &Roce<'_>, remote: Qpn) -> Option<CnpFrame> {
        let mut bytes = [0; TX_FRAME_BYTES];
        match self.np.frame::<crate::crc::HostCrc>(instant(now), roce, Some(remote), &mut bytes).cnp {
            Cnp::Written(length) => Some(CnpFrame { bytes, length }),
            _ => None,
        }
    }

    /// A message has arrived whole: the number to acknowledge it with.
    pub(super) fn complete(&mut self) -> u32 {
        self.completed += 1;
        self.completed
    }

    /// Lets the engines do what has fallen due. Answers when they want to be called next.
    pub(super) fn wake(&mut self, now: Picos) -> Picos {
        while self.rp.wake(instant(now), &mut NoDevice).is_some() || self.rp.next_wake() == Nanos::ZERO {}
        self.np.wake(instant(now));
        self.next_wake(now)
    }

    /// When the engines want to be called next, as of a call at `now`.
    pub(super) fn next_wake(&self, now: Picos) -> Picos {
        (now / 1_000 + Picos::from(self.rp.next_wake().get())) * 1_000
    }

    /// Takes the next packet, if the cable is free and one may go. Answers the packet and when its last bit is sent;
    /// otherwise when to look again, if there is anything to wait for.
    pub(super) fn transmit(&mut self, now: Picos, flows: &[Flow]) -> Result<(Packet, Picos), Option<Picos>> {
        if now < self.free {
            return Err(Some(self.free));
        }
        if let Some(packet) = self.control.pop_front() {
            self.free = now + self.link.serialisation(packet.frame_bytes);
            return Ok((packet, self.free));
        }
        let Some(sending) = self.sending.iter_mut().min_by_key(|sending| sending.due) else { return Err(None) };
        if sending.due > now {
            return Err(Some(sending.due));
        }
        let Messages { packets, frame_bytes, .. } = self.messages;
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
            body: Body::Data { opcode, psn },
            ecn: Ecn::Ect0,
            frame_bytes,
        };
        sending.next_psn = psn.plus(1);
        sending.left = if sending.left == 1 { packets } else { sending.left - 1 };
        let bytes = Bytes::new(frame_bytes);
        self.rp.sent(instant(now), sending.handle, psn, bytes, &mut NoDevice);
        let wait = self.rp.depart(instant(now), sending.handle, bytes).unwrap_or(Nanos::MAX);
        sending.due = (now / 1_000 + Picos::from(wait.get())) * 1_000;
        self.free = now + self.link.serialisation(frame_bytes);
        Ok((packet, self.free))
    }
}
