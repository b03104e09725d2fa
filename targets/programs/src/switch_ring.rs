//! The switch program without the hardware: it runs the stages of [`cc_cp`], and firmware and host both run it.
//!
//! Events of the queues arrive as descriptors in the receive ring, as in the NIC program; a packet's descriptor comes with the
//! first bytes of its frame. Verdicts are written to the switch's registers, and frames that stages send to the transmit ring.

use crate::TransmitRing;
use crate::descriptor::{self, Descriptor};
use cc_core::params::Settings;
use cc_core::table::{Fixed, Storage};
use cc_core::wire::shim::{self, IntShim, MlccData};
use cc_core::wire::{self, Addresses, CnpMarking, Crc32, Mac, Parsed, RateFrame, RateMessage, Response, Roce, Tags};
use cc_core::{Bytes, CnpBody, CnpKind, Ecn, Hop, Instant, IntLayout, Link, Mark, Nanos, Zeroed};
use cc_cp::RelayMessage;
use cc_cp::{ConfigureError, Emit, Event, Kind, Packet, PeerMessage, Queue, Rewrite, SendPfc, Stage, Switch, Verdict};
use core::net::Ipv4Addr;

/// Ports of the switch.
pub const PORTS: usize = 4;
/// Queues of the switch.
pub const QUEUES: usize = PORTS * Queue::CLASSES;
/// The storage of an image's queues.
pub type Queues = Fixed<QUEUES>;

/// What is added to the index of a queue in the device's register of queues to select the bytes in the switch that arrived by the
/// queue, in place of the bytes in it.
pub const ARRIVED: usize = QUEUES;

/// An event at a queue, as the device's descriptor reports it: those of [`cc_cp::Event`], with packets as byte counts.
///
/// The words of a descriptor have names for a NIC. A switch uses them as follows: `wire_bytes`, the packet's bytes; `handle`,
/// the number of the queue; `qpn`, the bytes in the queue; `psn`, the bytes in all queues of the port; `coalesced`, the ECN
/// bits; `rtt`, the length of a pause; `acked`, a message of a relay (bit 16: paused; bits 15 to 0: its sequence number); `msn`, a
/// number of the device's own, which the stages do not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwitchEvent {
    /// See [`Event::Arrival`].
    Arrival {
        /// Bytes on the wire.
        bytes: Bytes,
        /// Bytes in the switch that arrived by this queue, without this packet.
        queued: Bytes,
    },
    /// See [`Event::Enqueue`].
    Enqueue {
        /// Bytes on the wire.
        bytes: Bytes,
    },
    /// See [`Event::Release`].
    Release {
        /// Bytes on the wire.
        bytes: Bytes,
        /// Bytes in the switch that arrived by this queue, this packet included.
        queued: Bytes,
    },
    /// See [`Event::Departure`].
    Departure {
        /// Bytes on the wire.
        bytes: Bytes,
        /// Its ECN bits.
        ecn: Ecn,
        /// Bytes in the queue, this packet included.
        queued: Bytes,
        /// Bytes in all queues of the port, this packet included.
        port_queued: Bytes,
    },
    /// See [`Event::Pause`].
    Pause {
        /// Length of the pause; zero resumes.
        time: Nanos,
        /// Bytes in the queue.
        queued: Bytes,
    },
    /// A message of the relay at the other end of the long link. Rates of the other end arrive as frames instead.
    Relay(RelayMessage),
}

/// Kinds of records of the event log in addition to the kinds of events, [`Kind`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LogKind {
    /// A descriptor that is no event, or of a queue that does not exist.
    Nothing = 0,
    /// The timer was handled.
    Wake = 5,
}

impl SwitchEvent {
    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Arrival { .. } => Kind::Arrival,
            Self::Enqueue { .. } => Kind::Enqueue,
            Self::Release { .. } => Kind::Release,
            Self::Departure { .. } => Kind::Departure,
            Self::Pause { .. } => Kind::Pause,
            Self::Relay(_) => Kind::Peer,
        }
    }

    /// The descriptor of this event at a queue at this time, in nanoseconds.
    pub const fn at(&self, now: u64, queue: Queue) -> Descriptor {
        let blank = Descriptor {
            kind: self.kind() as u8,
            handle: queue.index() as u32,
            ..Descriptor::at(descriptor::DescriptorKind::Frame, now)
        };
        match *self {
            Self::Arrival { bytes, queued } | Self::Release { bytes, queued } => {
                Descriptor { wire_bytes: bytes.get(), qpn: queued.get(), ..blank }
            }
            Self::Enqueue { bytes } => Descriptor { wire_bytes: bytes.get(), ..blank },
            Self::Departure { bytes, ecn, queued, port_queued } => Descriptor {
                wire_bytes: bytes.get(),
                qpn: queued.get(),
                psn: port_queued.get(),
                coalesced: ecn.to_bits() as u32,
                ..blank
            },
            Self::Pause { time, queued } => Descriptor { rtt: time.get(), qpn: queued.get(), ..blank },
            Self::Relay(RelayMessage { paused, seq }) => {
                Descriptor { acked: (paused as u32) << 16 | seq as u32, ..blank }
            }
        }
    }

    /// The event of a descriptor, and its queue; `None` if the descriptor is no event, or its queue does not exist.
    #[inline]
    pub fn of(descriptor: &Descriptor) -> Option<(Queue, Self)> {
        const ARRIVAL: u8 = Kind::Arrival as u8;
        const ENQUEUE: u8 = Kind::Enqueue as u8;
        const RELEASE: u8 = Kind::Release as u8;
        const DEPARTURE: u8 = Kind::Departure as u8;
        const PAUSE: u8 = Kind::Pause as u8;
        const PEER: u8 = Kind::Peer as u8;
        let bytes = Bytes::new(descriptor.wire_bytes);
        let queued = Bytes::new(descriptor.qpn);
        let event = match descriptor.kind {
            ARRIVAL => Self::Arrival { bytes, queued },
            ENQUEUE => Self::Enqueue { bytes },
            RELEASE => Self::Release { bytes, queued },
            DEPARTURE => {
                let (port_queued, ecn) = (Bytes::new(descriptor.psn), Ecn::from_bits(descriptor.coalesced as u8));
                Self::Departure { bytes, ecn, queued, port_queued }
            }
            PAUSE => Self::Pause { time: Nanos::new(descriptor.rtt), queued },
            PEER => Self::Relay(RelayMessage { paused: descriptor.acked >> 16 & 1 == 1, seq: descriptor.acked as u16 }),
            _ => return None,
        };
        let index = descriptor.handle as usize;
        if index < QUEUES { Some((Queue::of(index), event)) } else { None }
    }
}

/// An action of the program at a queue, which the device carries out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StageAction {
    /// The verdict on the packet of the event. A packet without a verdict passes unchanged.
    Verdict(Verdict),
    /// Send a PFC frame by the queue's port, for its class, with these quanta; zero resumes.
    Pause(u16),
    /// Send this message to the relay at the other end of the long link.
    Relay(RelayMessage),
}

impl StageAction {
    /// Passes the operand words of the action to `operand`, and returns the command that completes it: the queue in bits 31 to
    /// 24, the kind of action in bits 23 to 16, and the rest below.
    ///
    /// A verdict has kind 1, the mark in bits 0 and 1, and a bit each for: not ECT (2), drop (3), a record (4: five words),
    /// a hold (5: one word), a rewrite (6). A rewrite has the ECN bits in 7 and 8, and a bit each for: no telemetry (9), what
    /// MLCC writes (10: two words). A pause has kind 4; a message has kind 5 and one word.
    #[inline]
    pub fn encode(&self, queue: Queue, mut operand: impl FnMut(u32)) -> u32 {
        let (kind, bits) = match *self {
            Self::Verdict(Verdict { mark, not_ect, drop, hold, hop, rewrite }) => {
                let mut bits = mark as u32 | u32::from(not_ect) << 2 | u32::from(drop) << 3;
                if let Some(hop) = hop {
                    for word in [hop.mbps, u32::from(hop.flags), hop.clock, hop.sent, hop.queue] {
                        operand(word);
                    }
                    bits |= 1 << 4;
                }
                if hold > Nanos::ZERO {
                    operand(hold.get());
                    bits |= 1 << 5;
                }
                if let Some(Rewrite { ecn, clear_int, mlcc }) = rewrite {
                    bits |= 1 << 6 | u32::from(ecn.to_bits()) << 7 | u32::from(clear_int) << 9;
                    if let Some(MlccData { credit, queue }) = mlcc {
                        operand(u32::from(credit));
                        operand(queue.get());
                        bits |= 1 << 10;
                    }
                }
                (1, bits)
            }
            Self::Pause(quanta) => (4, u32::from(quanta)),
            Self::Relay(RelayMessage { paused, seq }) => {
                operand(u32::from(paused));
                (5, u32::from(seq))
            }
        };
        (queue.index() as u32) << 24 | kind << 16 | bits
    }

    /// The action of these words, the operands and then the command, as [`StageAction::encode`] passes and returns them, and its
    /// queue. Returns `None` if they are no action.
    pub fn decode(words: &[u32]) -> Option<(Queue, Self)> {
        let (&command, operands) = words.split_last()?;
        let mut operands = operands.iter().copied();
        let is_set = |bit: u32| command >> bit & 1 != 0;
        let action = match command >> 16 & 0xff {
            1 => {
                let mark = [Mark::None, Mark::Undetermined, Mark::Congested].into_iter();
                let mark = mark.clone().find(|&mark| mark as u32 == command & 3)?;
                let mut hop = None;
                if is_set(4) {
                    let [mbps, flags] = [operands.next()?, operands.next()?];
                    let [clock, sent, queue] = [operands.next()?, operands.next()?, operands.next()?];
                    hop = Some(Hop { mbps, flags: flags.try_into().ok()?, clock, sent, queue });
                }
                let hold = Nanos::new(if is_set(5) { operands.next()? } else { 0 });
                let mut rewrite = None;
                if is_set(6) {
                    let mut mlcc = None;
                    if is_set(10) {
                        let (credit, queue) = (operands.next()?.try_into().ok()?, Bytes::new(operands.next()?));
                        mlcc = Some(MlccData { credit, queue });
                    }
                    rewrite =
                        Some(Rewrite { ecn: Ecn::from_bits((command >> 7 & 3) as u8), clear_int: is_set(9), mlcc });
                }
                Self::Verdict(Verdict { mark, not_ect: is_set(2), drop: is_set(3), hold, hop, rewrite })
            }
            4 => Self::Pause(command as u16),
            5 => Self::Relay(RelayMessage { paused: operands.next()? == 1, seq: command as u16 }),
            _ => return None,
        };
        let index = (command >> 24) as usize;
        if index < QUEUES { Some((Queue::of(index), action)) } else { None }
    }
}

/// The hardware that the switch program drives: the queues' registers, the transmit ring, the event log.
pub trait SwitchHardware: TransmitRing {
    /// The CRC engine for the ICRC of frames sent.
    type Crc: Crc32;

    /// The number of bytes in a queue now.
    fn queued(&self, queue: Queue) -> Bytes;

    /// The number of bytes in the switch that arrived by a queue: see [`Emit::arrived`].
    #[inline(always)]
    fn arrived(&self, queue: Queue) -> Bytes {
        self.queued(queue)
    }

    /// Carries out an action at a queue.
    fn act(&mut self, queue: Queue, action: &StageAction);

    /// Logs one record for each descriptor and each wake: a [`Kind`] or [`LogKind`], the time that was passed to the stages,
    /// and the number of the queue.
    fn log(&mut self, kind: u8, now: Instant, index: u32);
}

/// A buffer for the telemetry of a CNP.
pub type Room = [u8; IntShim::LONGEST];

/// The CNP that a stage sends to the sender of the packet `about`: see [`Emit::cnp`]. Its telemetry is written to `room`.
///
/// Returns `None` for a CNP with telemetry if the packet carries none, if it has passed more hops than it has room for, or if
/// its layout is the compact one, which has codes instead of link speeds, and no flags.
pub fn cnp<'a>(
    about: &Roce<'a>,
    body: CnpBody,
    hop: Option<Hop>,
    marking: CnpMarking,
    room: &'a mut Room,
) -> Option<Response<'a>> {
    let int = match body.kind {
        CnpKind::SwitchInt | CnpKind::DirectInt => telemetry(about, hop, room)?,
        _ => &[],
    };
    Some(Response::from_switch(about, body, int, marking))
}

/// The packet's telemetry records, with `hop` added.
fn telemetry<'a>(packet: &Roce<'_>, hop: Option<Hop>, room: &'a mut Room) -> Option<&'a [u8]> {
    let carried = packet.int_shim()?;
    let (layout, mut hops) = (carried.layout(), carried.hops());
    let mut area = [0; IntShim::LONGEST];
    // A stack that has overflowed reports more hops than it has room for.
    let records = carried.area().get(..usize::from(hops).wrapping_mul(layout.record_len()))?;
    area.iter_mut().zip(records).for_each(|(to, from)| *to = *from);
    if let Some(hop) = &hop {
        if layout == IntLayout::Compact {
            return None;
        }
        hops = layout.push(hops, &mut area, hop);
    }
    let area = area.get(..usize::from(hops).wrapping_mul(layout.record_len()))?;
    IntShim::new(layout, carried.path(), hops, area)?.write(room).ok()
}

/// Applies a stage's rewrite to the bytes of a frame, except for its ECN bits. Neither length nor ICRC changes.
///
/// `wire_len` and `shim_port` are those of [`parse_on`](cc_core::wire::parse_on).
pub fn rewrite(frame: &mut [u8], wire_len: usize, shim_port: u16, rewrite: &Rewrite) {
    if rewrite.clear_int {
        shim::clear_int(frame, wire_len, shim_port);
    }
    if let Some(data) = &rewrite.mlcc {
        shim::write_mlcc(frame, wire_len, shim_port, data);
    }
}

/// The frame with a rate that a queue's stage sends, between link-local addresses (RFC 3927), because the two ends of a long link
/// need no others.
#[inline]
pub fn rate_frame(at: Queue, message: RateMessage) -> RateFrame<'static> {
    let port = at.port as u8;
    let end = |end| Ipv4Addr::new(169, 254, port, end);
    RateFrame {
        destination: Mac::new([2, 0, 0, 0, port, 2]),
        source: Mac::new([2, 0, 0, 0, port, 1]),
        tags: Tags::NONE,
        addresses: Addresses::V4 { source: end(1), destination: end(2) },
        dscp: 48,
        message,
    }
}

/// The hardware, with the interface that stages use.
struct Ring<'a, H>(&'a mut H);

impl<H: SwitchHardware> Ring<'_, H> {
    /// Sends a rate.
    #[inline(never)]
    fn send_rate(&mut self, at: Queue, message: RateMessage) {
        if let Ok(length) = rate_frame(at, message).emit(self.0.transmit_buffer()) {
            self.0.transmit(length);
        }
    }
}

impl<H: SwitchHardware> Emit for Ring<'_, H> {
    #[inline(always)]
    fn cnp(&mut self, about: &Roce<'_>, body: CnpBody, hop: Option<Hop>) {
        let mut room: Room = [0; IntShim::LONGEST];
        let cnp = cnp(about, body, hop, CnpMarking::default(), &mut room);
        if let Some(Ok(length)) = cnp.map(|cnp| cnp.emit::<H::Crc>(self.0.transmit_buffer())) {
            self.0.transmit(length);
        }
    }

    #[inline(always)]
    fn peer(&mut self, at: Queue, message: PeerMessage) {
        match message {
            PeerMessage::Rate(message) => self.send_rate(at, message),
            PeerMessage::Relay(message) => self.0.act(at, &StageAction::Relay(message)),
        }
    }

    #[inline(always)]
    fn queued(&self, at: Queue) -> Bytes {
        self.0.queued(at)
    }

    #[inline(always)]
    fn arrived(&self, at: Queue) -> Bytes {
        self.0.arrived(at)
    }
}

impl<H: SwitchHardware> SendPfc for Ring<'_, H> {
    fn pfc(&mut self, at: Queue, quanta: u16) {
        self.0.act(at, &StageAction::Pause(quanta));
    }
}

/// A switch that runs these stages.
#[expect(missing_debug_implementations, reason = "thousands of records")]
pub struct SwitchProgram<G, Q: Storage>(Switch<G, Q>);

impl<G: Stage, Q: Storage> Zeroed for SwitchProgram<G, Q> {
    const ZEROED: Self = Self(Switch::ZEROED);
}

impl<G: Stage, Q: Storage> SwitchProgram<G, Q> {
    /// Sets up a zeroed switch in place: all queues are configured and empty. The seed is that of its random numbers.
    ///
    /// # Errors
    /// A setting out of range, or wrong on this port.
    pub fn begin(
        &mut self,
        start: Instant,
        link: &Link,
        settings: &G::Settings,
        seed: u64,
    ) -> Result<(), ConfigureError> {
        self.0.make_room(QUEUES);
        self.0.begin(start);
        (0..QUEUES).try_for_each(|index| self.0.configure(start, Queue::of(index), link, settings, seed))
    }

    /// The switch.
    pub const fn switch(&self) -> &Switch<G, Q> {
        &self.0
    }

    /// The switch, to be set up.
    pub const fn switch_mut(&mut self) -> &mut Switch<G, Q> {
        &mut self.0
    }

    /// Handles one descriptor at `now`; `frame` holds the bytes that came with it.
    #[inline(never)]
    pub fn handle<H: SwitchHardware>(&mut self, now: Instant, descriptor: &Descriptor, frame: &[u8], hw: &mut H) {
        let Some((queue, event)) = SwitchEvent::of(descriptor) else {
            hw.log(LogKind::Nothing as u8, now, descriptor.handle);
            return;
        };
        match event {
            SwitchEvent::Arrival { bytes, queued } => self.arrival(now, queue, (bytes, queued), frame, hw),
            SwitchEvent::Enqueue { bytes } => self.enqueue(now, queue, bytes, hw),
            SwitchEvent::Release { bytes, queued } => self.release(now, queue, (bytes, queued), hw),
            SwitchEvent::Departure { bytes, ecn, queued, port_queued } => {
                self.departure(now, queue, (bytes, ecn, queued, port_queued), frame, hw);
            }
            SwitchEvent::Pause { time, queued } => self.pause(now, queue, (time, queued), hw),
            SwitchEvent::Relay(message) => self.peer(now, queue, message, hw),
        }
        hw.log(event.kind() as u8, now, descriptor.handle);
    }

    // Not inlined, so that a harness can measure the cycles of each kind of event. A kind that no stage handles has no code.

    #[inline(never)]
    fn arrival<H: SwitchHardware>(
        &mut self,
        now: Instant,
        queue: Queue,
        (bytes, queued): (Bytes, Bytes),
        frame: &[u8],
        hw: &mut H,
    ) {
        // Not moved out of the function that parses it, because the parsed view of a packet with all its headers is large.
        let parsed =
            if self.0.stages().reads_headers() { Some(wire::parse(frame, bytes.get() as usize)) } else { None };
        let packet = match &parsed {
            Some(Ok(Parsed::Roce(roce))) => Packet { bytes, roce: Some(roce) },
            Some(Ok(Parsed::NotRoce(_))) if G::TAKES.contains(Kind::Peer) => {
                if let Ok(message) = RateMessage::parse(frame, bytes.get() as usize) {
                    self.0.on(now, queue, &Event::Peer(PeerMessage::Rate(message)), &mut Ring(hw));
                    return;
                }
                Packet::of(bytes)
            }
            _ => Packet::of(bytes),
        };
        if G::TAKES.contains(Kind::Arrival) {
            let verdict = self.0.on(now, queue, &Event::Arrival { packet, queued }, &mut Ring(hw));
            write_verdict(queue, &verdict, hw);
        }
    }

    #[inline(never)]
    fn enqueue<H: SwitchHardware>(&mut self, now: Instant, queue: Queue, bytes: Bytes, hw: &mut H) {
        if G::TAKES.contains(Kind::Enqueue) {
            self.0.on(now, queue, &Event::Enqueue { bytes }, &mut Ring(hw));
        }
    }

    #[inline(never)]
    fn release<H: SwitchHardware>(&mut self, now: Instant, queue: Queue, (bytes, queued): (Bytes, Bytes), hw: &mut H) {
        if G::TAKES.contains(Kind::Release) {
            self.0.on(now, queue, &Event::Release { bytes, queued }, &mut Ring(hw));
        }
    }

    #[inline(never)]
    fn departure<H: SwitchHardware>(
        &mut self,
        now: Instant,
        queue: Queue,
        (bytes, ecn, queued, port_queued): (Bytes, Ecn, Bytes, Bytes),
        frame: &[u8],
        hw: &mut H,
    ) {
        if !G::TAKES.contains(Kind::Departure) {
            return;
        }
        let parsed = if self.0.stages().reads_headers() { wire::parse(frame, bytes.get() as usize).ok() } else { None };
        let packet = match &parsed {
            Some(Parsed::Roce(roce)) => Packet { bytes, roce: Some(roce) },
            _ => Packet::of(bytes),
        };
        let event = Event::Departure { packet, ecn, queued, port_queued };
        let verdict = self.0.on(now, queue, &event, &mut Ring(hw));
        write_verdict(queue, &verdict, hw);
    }

    #[inline(never)]
    fn pause<H: SwitchHardware>(&mut self, now: Instant, queue: Queue, (time, queued): (Nanos, Bytes), hw: &mut H) {
        if G::TAKES.contains(Kind::Pause) {
            self.0.on(now, queue, &Event::Pause { time, queued }, &mut Ring(hw));
        }
    }

    #[inline(never)]
    fn peer<H: SwitchHardware>(&mut self, now: Instant, queue: Queue, message: RelayMessage, hw: &mut H) {
        if G::TAKES.contains(Kind::Peer) {
            self.0.on(now, queue, &Event::Peer(PeerMessage::Relay(message)), &mut Ring(hw));
        }
    }

    #[inline(never)]
    fn wake<H: SwitchHardware>(&mut self, now: Instant, hw: &mut H) {
        self.0.wake(now, &mut Ring(hw));
    }

    /// Handles what is due. Call it repeatedly while [`SwitchProgram::next_wake`] is not after `now`.
    #[inline(never)]
    pub fn timer<H: SwitchHardware>(&mut self, now: Instant, hw: &mut H) {
        self.wake(now, hw);
        hw.log(LogKind::Wake as u8, now, 0);
    }

    /// The time at which [`SwitchProgram::timer`] is to be called next.
    #[inline(always)]
    pub fn next_wake(&self) -> Instant {
        self.0.next_wake()
    }
}

/// Writes the verdict on a packet to the device, unless the packet passes unchanged.
#[inline(always)]
fn write_verdict<H: SwitchHardware>(queue: Queue, verdict: &Verdict, hw: &mut H) {
    if *verdict != Verdict::PASS {
        hw.act(queue, &StageAction::Verdict(*verdict));
    }
}

/// The settings of a stage: its defaults, replaced by words in the order of its fields.
pub fn settings<G: Stage>(words: &[u32]) -> G::Settings {
    crate::from_words(const { G::DEFAULT }, words)
}

const _: () = assert!(<() as Settings>::FIELDS.is_empty());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_holds_its_event_and_its_queue() {
        let (bytes, queued, port_queued) = (Bytes::new(1_064), Bytes::new(300_000), Bytes::new(400_000));
        let events = [
            SwitchEvent::Arrival { bytes, queued },
            SwitchEvent::Enqueue { bytes },
            SwitchEvent::Release { bytes, queued },
            SwitchEvent::Departure { bytes, ecn: Ecn::Ect0, queued, port_queued },
            SwitchEvent::Departure { bytes, ecn: Ecn::Ce, queued, port_queued },
            SwitchEvent::Pause { time: Nanos::new(65_535), queued },
            SwitchEvent::Pause { time: Nanos::ZERO, queued },
            SwitchEvent::Relay(RelayMessage { paused: true, seq: 0xffff }),
            SwitchEvent::Relay(RelayMessage { paused: false, seq: 1 }),
        ];
        for index in 0..QUEUES {
            for event in events {
                let descriptor = event.at(7_000_000_000, Queue::of(index));
                let read = SwitchEvent::of(&descriptor);
                assert_eq!((descriptor.now(), read), (7_000_000_000, Some((Queue::of(index), event))));
            }
        }
    }

    #[test]
    fn a_descriptor_of_no_queue_or_no_kind_is_no_event() {
        let event = SwitchEvent::Relay(RelayMessage { paused: true, seq: 1 });
        for handle in [QUEUES as u32, u32::MAX] {
            let descriptor = Descriptor { handle, ..event.at(0, Queue::of(0)) };
            assert_eq!(SwitchEvent::of(&descriptor), None);
        }
        for kind in [0, 5, 255] {
            let descriptor = Descriptor { kind, ..event.at(0, Queue::of(0)) };
            assert_eq!(SwitchEvent::of(&descriptor), None);
        }
    }

    #[test]
    fn a_command_holds_all_of_a_verdict() {
        let words = |verdict| {
            let mut operands = [0; 8];
            let mut count = 0;
            let command = StageAction::Verdict(verdict).encode(Queue { port: 1, class: 2 }, |word| {
                operands[count] = word;
                count += 1;
            });
            (command, operands, count)
        };
        assert_eq!(words(Verdict::PASS).0, 0x0a01_0000);
        let all = Verdict {
            mark: cc_core::Mark::Congested,
            not_ect: true,
            drop: true,
            hold: Nanos::new(9),
            hop: Some(Hop { mbps: 1, flags: 2, clock: 3, sent: 4, queue: 5 }),
            rewrite: Some(Rewrite {
                ecn: Ecn::Ect0,
                clear_int: true,
                mlcc: Some(MlccData { credit: 7, queue: Bytes::new(8) }),
            }),
        };
        assert_eq!(words(all), (0x0a01_077e, [1, 2, 3, 4, 5, 9, 7, 8], 8));
        let relay = StageAction::Relay(RelayMessage { paused: true, seq: 0xffff });
        let pauses = [0, 0xffff].map(StageAction::Pause);
        for action in [Verdict::PASS, all].map(StageAction::Verdict).into_iter().chain(pauses).chain([relay]) {
            let mut words = std::vec::Vec::new();
            let command = action.encode(Queue { port: 3, class: 7 }, |word| words.push(word));
            words.push(command);
            assert_eq!(StageAction::decode(&words), Some((Queue { port: 3, class: 7 }, action)));
        }
        assert_eq!(StageAction::decode(&[]), None);
        assert_eq!(StageAction::decode(&[0x0a02_0000]), None);
        assert_eq!(StageAction::decode(&[0x2004_0000]), None, "a queue that does not exist");
        assert_eq!(StageAction::decode(&[0x0a01_0010]), None, "a record without its words");
    }
}
