//! The reliable transport of hosts: sequence numbers, acknowledgements, and how lost packets are sent again.

use crate::Picos;
use cc_core::Psn;
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// How hosts send and acknowledge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transport {
    /// Packets of a message; with `None` each flow is one message.
    pub message: Option<NonZeroU32>,
    /// The sender requests an acknowledgement with the last packet of each message, with each packet that is a multiple of this,
    /// counted from the flow's first, and with the packet that fills its window. If the algorithm's notification point
    /// acknowledges, it does so for every packet.
    pub ack_interval: NonZeroU32,
    /// Each flow begins with the handshake of the InfiniBand connection manager (request, reply, ready to use). Otherwise both
    /// ends know the connection.
    pub handshake: bool,
    /// What is sent again.
    pub recovery: Recovery,
    /// So long after the last progress, a sender that waits for an acknowledgement takes its packets for lost; in picoseconds.
    /// The default is 4.096 us x 2^10 = 4.19 ms, of the values that IBTA volume 1, section 9.7.6.1.3, has for the local ACK
    /// timeout.
    pub timeout: Picos,
}

/// What a sender sends again after a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// Everything from the first lost packet on. The receiver discards what arrives out of order, and sends one NAK for each gap
    /// (IBTA volume 1, section 9.7.5).
    GoBackN,
    /// Only what was lost. The receiver keeps what arrives out of order, and sends a NAK for each such packet. The NAK's sequence
    /// number is that of the first missing packet, and its MSN field has that of the packet that has arrived (Mittal et al.,
    /// "Revisiting Network Support for RDMA", SIGCOMM 2018, section 3.1).
    SelectiveRepeat,
}

impl Default for Transport {
    /// One message per flow, an acknowledgement per packet, no handshake, go-back-N.
    fn default() -> Self {
        Self {
            message: None,
            ack_interval: NonZeroU32::MIN,
            handshake: false,
            recovery: Recovery::GoBackN,
            timeout: 4_096_000 << 10,
        }
    }
}

impl Transport {
    /// Whether the packet with this number of a flow begins a message, and whether it ends one that is not the flow's last.
    fn bounds(self, index: u64) -> (bool, bool) {
        match self.message {
            None => (index == 0, false),
            Some(packets) => {
                let packets = u64::from(packets.get());
                (index.is_multiple_of(packets), (index + 1).is_multiple_of(packets))
            }
        }
    }
}

/// Packets in flight of which sequence numbers still show the order (IBTA volume 1, section 9.7.2): half of their space.
pub(super) const MOST_IN_FLIGHT: u64 = 1 << 23;

/// No time.
pub(super) const NEVER: Picos = Picos::MAX;

/// A data packet to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Outgoing {
    pub(super) psn: Psn,
    /// Bytes of payload.
    pub(super) payload: u32,
    /// It begins a message.
    pub(super) first: bool,
    /// It ends a message.
    pub(super) last: bool,
    /// The receiver is to acknowledge it.
    pub(super) acknowledged: bool,
    /// It was sent before.
    pub(super) again: bool,
}

/// The sending end of a flow. Packets are numbered from zero.
#[derive(Debug)]
pub(super) struct Sending {
    first_psn: Psn,
    /// Bytes of payload of the flow, and of each packet but the last.
    size: u64,
    payload: u64,
    packets: u64,
    /// Packets that may be sent: all of them but, of a READ that was not requested yet, none.
    until: u64,
    /// Of a READ: the first packet that its last request asks for.
    read_from: Option<u64>,
    /// The first packet that is not acknowledged or, of a READ, has not arrived.
    acked: u64,
    /// The next packet in order.
    next: u64,
    /// Packets sent at least once.
    sent: u64,
    /// Packets up to the last one whose acknowledgement is awaited.
    awaited: u64,
    /// Selective repeat: the next packet to look at for sending again, and the one before which all that did not arrive are lost.
    again: u64,
    lost_before: u64,
    /// Selective repeat: which packets from `acked` on have arrived.
    arrived: VecDeque<bool>,
    /// When each packet from `acked` on was sent, where that is wanted; [`NEVER`] if it was sent several times.
    sent_at: Option<VecDeque<Picos>>,
    /// When the sender gives up waiting for an acknowledgement, or [`NEVER`].
    pub(super) deadline: Picos,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Acked {
    /// Bytes of payload that it newly acknowledges, and their packets.
    pub(super) bytes: u64,
    pub(super) packets: u64,
    /// When the newest packet of them was sent, if that is known and each of them was sent once.
    pub(super) sent: Option<Picos>,
}

impl Sending {
    /// A flow of so many bytes in packets with this payload, at its beginning. With `times`, the times of packets are kept.
    pub(super) fn new(first_psn: Psn, size: u64, payload: u32, times: bool) -> Self {
        let packets = size.div_ceil(payload.into());
        Self {
            first_psn,
            size,
            payload: payload.into(),
            packets,
            until: packets,
            read_from: None,
            acked: 0,
            next: 0,
            sent: 0,
            awaited: 0,
            again: 0,
            lost_before: 0,
            arrived: VecDeque::new(),
            sent_at: times.then(VecDeque::new),
            deadline: NEVER,
        }
    }

    /// The responses to a READ of so many bytes, which is not requested yet.
    pub(super) fn read(first_psn: Psn, size: u64, payload: u32) -> Self {
        Self { until: 0, read_from: Some(0), ..Self::new(first_psn, size, payload, false) }
    }

    /// Nothing more is offered: the flow ends with the packets that were sent. Returns its bytes.
    pub(super) fn stop(&mut self, now: Picos, transport: &Transport) -> u64 {
        self.size = self.bytes(self.sent);
        (self.packets, self.until) = (self.sent, self.sent);
        // No acknowledgement of the last ones may have been requested.
        self.awaited = self.packets;
        if self.deadline == NEVER && !self.is_complete() {
            self.deadline = now + transport.timeout;
        }
        self.size
    }

    /// Whether it is a READ. Its packets are responses, which are not acknowledged; the deadline is that of the receiver, which
    /// requests again what is missing (IBTA volume 1, section 9.7).
    pub(super) const fn is_read(&self) -> bool {
        self.read_from.is_some()
    }

    /// A request of a READ has arrived at the sender: it sends from this packet on, whatever it has sent before, but nothing that has
    /// arrived.
    pub(super) fn on_request(&mut self, psn: Psn) {
        let from = u64::from(psn.since(self.first_psn)).max(self.acked);
        (self.read_from, self.next, self.until) = (Some(from), from, self.packets);
    }

    /// The receiver of a READ has all packets before this one.
    pub(super) fn on_response(&mut self, now: Picos, expected: Psn, transport: &Transport) {
        self.acked = expected.since(self.first_psn).into();
        self.next = self.next.max(self.acked);
        self.deadline = if self.is_complete() { NEVER } else { now + transport.timeout };
    }

    fn bytes(&self, packets: u64) -> u64 {
        (packets * self.payload).min(self.size)
    }

    /// Bytes of payload acknowledged.
    pub(super) fn acked_bytes(&self) -> u64 {
        self.bytes(self.acked)
    }

    /// Bytes of payload that the receiver has in order if it expects this packet next.
    pub(super) fn received_bytes(&self, expected: Psn) -> u64 {
        let acked = self.first_psn.plus(self.acked as u32);
        self.bytes(self.acked + u64::from(expected.since(acked)))
    }

    /// Bytes of payload and packets that are sent and not acknowledged.
    pub(super) fn in_flight(&self) -> (u64, u64) {
        (self.bytes(self.next) - self.bytes(self.acked), self.next - self.acked)
    }

    /// Bytes of payload up to the end of the next packet in order.
    pub(super) fn next_bytes(&self) -> u64 {
        self.bytes(self.next + 1)
    }

    /// Packets acknowledged, and packets sent in order.
    pub(super) const fn progress(&self) -> (u64, u64) {
        (self.acked, self.next)
    }

    /// The first packet that is not acknowledged.
    pub(super) const fn oldest(&self) -> Psn {
        self.first_psn.plus(self.acked as u32)
    }

    /// The window is closed. The sender waits for an acknowledgement, although none may have been requested: the window may have
    /// become smaller since the last packet was sent.
    pub(super) fn wait(&mut self, now: Picos, transport: &Transport) {
        if self.deadline == NEVER && self.next > self.acked {
            self.deadline = now + transport.timeout;
        }
    }

    /// Whether all is acknowledged.
    pub(super) const fn is_complete(&self) -> bool {
        self.acked == self.packets
    }

    /// Whether all packets were sent at least once.
    pub(super) const fn is_sent(&self) -> bool {
        self.sent == self.packets
    }

    /// Whether the receiver has all packets if it expects this one next. At most half of the sequence numbers are in flight, so
    /// that the number behind the last packet is reached once.
    pub(super) const fn is_received(&self, expected: Psn) -> bool {
        self.is_sent() && expected.get() == self.first_psn.plus(self.packets as u32).get()
    }

    /// Whether a packet is to be sent that was not sent before in this order, for which the window must be open.
    pub(super) const fn has_new(&self) -> bool {
        self.next < self.until && self.next - self.acked < MOST_IN_FLIGHT
    }

    /// Whether a packet is to be sent that was lost between others, which needs no room in the window.
    pub(super) fn has_lost(&self) -> bool {
        self.again < self.lost_before
    }

    /// Takes the next packet to be sent, if there is one: lost ones first. `is_full` returns whether so many bytes of payload and
    /// packets in flight fill the window.
    pub(super) fn take(
        &mut self,
        now: Picos,
        transport: &Transport,
        is_full: impl FnOnce((u64, u64)) -> bool,
    ) -> Option<Outgoing> {
        let index = if self.has_lost() {
            let index = self.again;
            self.again += 1;
            self.skip_arrived();
            index
        } else if self.has_new() {
            self.next += 1;
            self.next - 1
        } else {
            return None;
        };
        let again = index < self.sent;
        self.sent = self.sent.max(index + 1);
        if let Some(times) = &mut self.sent_at {
            let place = (index - self.acked) as usize;
            match times.get_mut(place) {
                Some(time) => *time = NEVER,
                None => times.push_back(now),
            }
        }
        let (first, ends) = self.read_from.map_or_else(|| transport.bounds(index), |from| (index == from, false));
        let last = ends || index + 1 == self.packets;
        let interval = transport.ack_interval.get().into();
        let is_asked = || interval == 1 || (index + 1).is_multiple_of(interval) || is_full(self.in_flight());
        let acknowledged = !self.is_read() && (last || is_asked());
        if acknowledged {
            self.awaited = self.awaited.max(index + 1);
            if self.deadline == NEVER {
                self.deadline = now + transport.timeout;
            }
        }
        let payload = self.payload.min(self.size - index * self.payload) as u32;
        Some(Outgoing { psn: self.first_psn.plus(index as u32), payload, first, last, acknowledged, again })
    }

    /// The number of the packet with this sequence number, which is one of those that are sent and not acknowledged, or the one
    /// behind them; `None` for any other.
    fn index(&self, psn: Psn) -> Option<u64> {
        let first = self.first_psn.plus(self.acked as u32);
        let index = self.acked + u64::from(psn.since(first));
        (!first.is_after(psn) && index <= self.sent).then_some(index)
    }

    /// All packets before this number are acknowledged.
    fn advance(&mut self, now: Picos, to: u64, transport: &Transport) -> Acked {
        let packets = to.saturating_sub(self.acked);
        if packets == 0 {
            return Acked::default();
        }
        let bytes = self.bytes(to) - self.bytes(self.acked);
        self.acked = to;
        self.next = self.next.max(to);
        self.again = self.again.max(to);
        if !self.arrived.is_empty() {
            self.arrived.drain(..self.arrived.len().min(packets as usize));
            self.skip_arrived();
        }
        // With a packet among them that was sent again, it is not known which copy has caused the acknowledgement (Karn's rule).
        let sent = self.sent_at.as_mut().and_then(|times| {
            let newly = times.drain(..times.len().min(packets as usize));
            newly.fold(None, |sent, time| if sent == Some(NEVER) { sent } else { Some(time) })
        });
        self.deadline = if self.acked < self.awaited { now + transport.timeout } else { NEVER };
        Acked { bytes, packets, sent: sent.filter(|&sent| sent != NEVER) }
    }

    /// Passes over packets that are not to be sent again because they have arrived.
    fn skip_arrived(&mut self) {
        let from = (self.again - self.acked) as usize;
        let arrived = self.arrived.iter().skip(from).take_while(|&&arrived| arrived).count();
        self.again += arrived as u64;
    }

    /// An acknowledgement of this packet and all before it has arrived.
    pub(super) fn on_ack(&mut self, now: Picos, psn: Psn, transport: &Transport) -> Acked {
        match self.index(psn) {
            Some(index) if index < self.sent => self.advance(now, index + 1, transport),
            _ => Acked::default(),
        }
    }

    /// A NAK has arrived: all before the packet `missing` have arrived, and it has not. With selective repeat, `arrived` is the
    /// packet that has.
    pub(super) fn on_nak(&mut self, now: Picos, missing: Psn, arrived: Psn, transport: &Transport) -> Acked {
        let Some(index) = self.index(missing) else { return Acked::default() };
        // A later packet has caused the NAK, so that it says nothing of the time of those before.
        let acked = Acked { sent: None, ..self.advance(now, index, transport) };
        match transport.recovery {
            Recovery::GoBackN => self.next = self.acked,
            Recovery::SelectiveRepeat => {
                if let Some(index) = self.index(arrived).filter(|&index| index < self.sent && index > self.acked) {
                    let place = (index - self.acked) as usize;
                    if self.arrived.len() <= place {
                        self.arrived.resize(place + 1, false);
                    }
                    self.arrived[place] = true;
                    self.lost_before = self.lost_before.max(index);
                    self.skip_arrived();
                }
            }
        }
        acked
    }

    /// The deadline has passed: what was sent and is not known to have arrived is lost.
    pub(super) fn on_timeout(&mut self, now: Picos, transport: &Transport) {
        self.deadline = now + transport.timeout;
        match transport.recovery {
            Recovery::GoBackN => self.next = self.acked,
            Recovery::SelectiveRepeat => {
                self.again = self.acked;
                self.lost_before = self.sent;
                // It may have arrived with all behind it, and their acknowledgement be lost: the next copy causes another one.
                if let Some(first) = self.arrived.front_mut() {
                    *first = false;
                }
                self.skip_arrived();
            }
        }
    }
}

/// What a receiver does with a data packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    /// It is the one expected. It is acknowledged if it is due, with what arrived before it and was kept.
    Expected {
        /// An acknowledgement is due.
        is_due: bool,
    },
    /// Packets before it are missing.
    Early {
        /// A NAK is due.
        is_due: bool,
    },
    /// It has arrived before, and is acknowledged again.
    Duplicate,
}

/// What a data packet says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Marks {
    /// It ends a message.
    pub(super) last: bool,
    /// An acknowledgement is requested.
    pub(super) ack_request: bool,
}

/// The receiving end of a flow.
#[derive(Debug)]
pub(super) struct Receiving {
    /// The packet expected next.
    pub(super) expected: Psn,
    /// Messages that have arrived whole.
    pub(super) messages: u32,
    /// A NAK was sent for the expected packet.
    nak_sent: bool,
    /// Selective repeat: for each packet behind the expected one, whether it has arrived, and then how it is marked.
    early: VecDeque<Option<Marks>>,
}

impl Receiving {
    pub(super) fn new(first_psn: Psn) -> Self {
        Self { expected: first_psn, messages: 0, nak_sent: false, early: VecDeque::new() }
    }

    /// A data packet has arrived.
    pub(super) fn on_data(&mut self, psn: Psn, marks: Marks, recovery: Recovery) -> Arrival {
        if psn == self.expected {
            let mut is_due = self.accept(marks);
            while let Some(Some(marks)) = self.early.pop_front() {
                is_due |= self.accept(marks);
            }
            return Arrival::Expected { is_due };
        }
        if !psn.is_after(self.expected) {
            return Arrival::Duplicate;
        }
        if recovery == Recovery::GoBackN {
            return Arrival::Early { is_due: !std::mem::replace(&mut self.nak_sent, true) };
        }
        let place = psn.since(self.expected) as usize - 1;
        if self.early.len() <= place {
            self.early.resize(place + 1, None);
        }
        self.early[place] = Some(marks);
        Arrival::Early { is_due: true }
    }

    /// Counts the expected packet. Returns whether it is to be acknowledged.
    fn accept(&mut self, marks: Marks) -> bool {
        self.expected = self.expected.plus(1);
        self.messages = self.messages.wrapping_add(u32::from(marks.last));
        self.nak_sent = false;
        marks.ack_request
    }

    /// The last packet before the expected one.
    pub(super) const fn last_in_order(&self) -> Psn {
        self.expected.plus(0x00ff_ffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hil_cores::random::SplitMix;

    const FIRST: Psn = Psn::new(0x00ff_fff0);

    /// A reply on its way back.
    #[derive(Clone, Copy)]
    enum Reply {
        Ack(Psn),
        Nak(Psn, Psn),
    }

    fn marks(packet: Outgoing) -> Marks {
        Marks { last: packet.last, ack_request: packet.acknowledged }
    }

    /// Packets sent and packets sent again of a flow of 5,000 bytes in 100 packets and one byte, over a channel that loses each
    /// packet and each reply with this probability in percent, and delays each by 5 steps.
    fn run(recovery: Recovery, interval: u32, loss: u64, seed: u64) -> (u32, u32) {
        let transport = Transport {
            message: NonZeroU32::new(16),
            ack_interval: NonZeroU32::new(interval).unwrap(),
            recovery,
            timeout: 40,
            ..Transport::default()
        };
        let mut random = SplitMix::new(seed);
        let mut sending = Sending::new(FIRST, 5_001, 50, true);
        let mut receiving = Receiving::new(FIRST);
        let (mut packets, mut replies) = (VecDeque::new(), VecDeque::new());
        let (mut sent, mut again, mut accepted) = (0, 0, 0);
        for now in 0.. {
            assert!(now < 100_000, "{recovery:?} stalls");
            if let Some((_, reply)) = replies.pop_front_if(|&mut (at, _)| at <= now) {
                let acked = match reply {
                    Reply::Ack(psn) => sending.on_ack(now, psn, &transport),
                    Reply::Nak(missing, arrived) => sending.on_nak(now, missing, arrived, &transport),
                };
                assert!(acked.bytes <= acked.packets * 50);
                assert!(acked.sent.is_none_or(|at| now - at >= 10), "an earlier copy is taken for the last one");
            }
            if sending.is_complete() {
                break;
            }
            if sending.deadline <= now {
                sending.on_timeout(now, &transport);
            }
            if let Some(packet) = sending.take(now, &transport, |_| false) {
                (sent, again) = (sent + 1, again + u32::from(packet.again));
                if random.draw() % 100 >= loss {
                    packets.push_back((now + 5, packet));
                }
            }
            if let Some((_, packet)) = packets.pop_front_if(|&mut (at, _): &mut (Picos, Outgoing)| at <= now) {
                let before = receiving.expected;
                let reply = match receiving.on_data(packet.psn, marks(packet), recovery) {
                    Arrival::Expected { is_due } => is_due.then(|| Reply::Ack(receiving.last_in_order())),
                    Arrival::Early { is_due } => is_due.then_some(Reply::Nak(receiving.expected, packet.psn)),
                    Arrival::Duplicate => Some(Reply::Ack(receiving.last_in_order())),
                };
                accepted += receiving.expected.since(before);
                if let Some(reply) = reply.filter(|_| random.draw() % 100 >= loss) {
                    replies.push_back((now + 5, reply));
                }
            }
        }
        assert_eq!((accepted, receiving.messages), (101, 7), "each packet is accepted once");
        assert_eq!(sending.acked_bytes(), 5_001);
        (sent, again)
    }

    #[test]
    fn a_flow_over_a_channel_that_loses_packets_and_replies_is_whole() {
        for seed in 0..200 {
            for recovery in [Recovery::GoBackN, Recovery::SelectiveRepeat] {
                for interval in [1, 2, 16, 1_000] {
                    assert_eq!(run(recovery, interval, 0, seed), (101, 0));
                    let (sent, again) = run(recovery, interval, 10, seed);
                    assert_eq!(sent - again, 101);
                }
            }
        }
    }

    /// Packet 3 of ten that are on their way is lost. Go-back-N sends it and the six behind it again, as one NAK asks; with
    /// selective repeat each of the six causes a NAK, and the lost packet alone is sent again.
    #[test]
    fn a_gap_is_filled_by_going_back_or_by_the_lost_packet_alone() {
        for (recovery, naks, again) in [(Recovery::GoBackN, 1, 7), (Recovery::SelectiveRepeat, 6, 1)] {
            let transport = Transport { recovery, ..Transport::default() };
            let mut sending = Sending::new(FIRST, 10, 1, false);
            let mut receiving = Receiving::new(FIRST);
            let sent: Vec<_> = std::iter::from_fn(|| sending.take(0, &transport, |_| false)).collect();
            assert_eq!(sent.len(), 10);
            let mut asked = Vec::new();
            for (number, packet) in sent.iter().enumerate().filter(|&(number, _)| number != 3) {
                match receiving.on_data(packet.psn, marks(*packet), recovery) {
                    Arrival::Expected { .. } => assert!(number < 3),
                    Arrival::Early { is_due } if is_due => asked.push((receiving.expected, packet.psn)),
                    Arrival::Early { .. } | Arrival::Duplicate => {}
                }
            }
            assert_eq!(asked.len(), naks);
            for (missing, arrived) in asked {
                sending.on_nak(0, missing, arrived, &transport);
            }
            let sent: Vec<_> = std::iter::from_fn(|| sending.take(0, &transport, |_| false)).collect();
            assert_eq!((sent.len(), sent[0].psn), (again, FIRST.plus(3)));
            for packet in sent {
                receiving.on_data(packet.psn, marks(packet), recovery);
            }
            assert_eq!((receiving.expected, receiving.messages), (FIRST.plus(10), 1));
        }
    }

    /// Packet 3 of five is lost, sent again, and acknowledged by itself; the acknowledgement of the fourth, which had arrived, is lost.
    /// After the timeout packet 4 is sent again although it is known to have arrived, because nothing else would make the receiver
    /// acknowledge it.
    #[test]
    fn a_packet_that_has_arrived_is_sent_again_if_its_acknowledgement_is_lost() {
        let transport = Transport { recovery: Recovery::SelectiveRepeat, timeout: 100, ..Transport::default() };
        let mut sending = Sending::new(FIRST, 5, 1, false);
        while sending.take(0, &transport, |_| false).is_some() {}
        sending.on_nak(10, FIRST.plus(3), FIRST.plus(4), &transport);
        assert_eq!(sending.take(10, &transport, |_| false).map(|packet| packet.psn), Some(FIRST.plus(3)));
        sending.on_ack(20, FIRST.plus(3), &transport);
        assert_eq!(sending.take(20, &transport, |_| false), None);
        sending.on_timeout(sending.deadline, &transport);
        assert_eq!(sending.take(120, &transport, |_| false).map(|packet| packet.psn), Some(FIRST.plus(4)));
        sending.on_ack(130, FIRST.plus(4), &transport);
        assert!(sending.is_complete());
    }

    /// A sender that sends slowly waits only for packets that are to be acknowledged.
    #[test]
    fn the_timer_runs_while_an_acknowledgement_is_awaited() {
        let message = NonZeroU32::new(4);
        let transport = Transport { message, ack_interval: NonZeroU32::MAX, timeout: 100, ..Transport::default() };
        let mut sending = Sending::new(FIRST, 8, 1, false);
        for now in [0, 1_000, 2_000] {
            sending.take(now, &transport, |_| false);
            assert_eq!(sending.deadline, NEVER);
        }
        sending.take(3_000, &transport, |_| false);
        sending.take(3_050, &transport, |_| false);
        assert_eq!(sending.deadline, 3_100);
        sending.on_ack(3_060, FIRST.plus(3), &transport);
        assert_eq!(sending.deadline, NEVER, "the fifth packet is not to be acknowledged");
    }
}
