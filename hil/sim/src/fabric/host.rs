//! Hosts: flows that are sent and received, with windows, pacing and acknowledgements.

use super::calendar::{Class as EventClass, Event};
use super::faults::{Held, Outcome};
use super::offer::Offer;
use super::packets::{InFlight, Kind, Meta, PacketId};
use super::ready::ReadyFlows;
use super::transport::{Acked, Arrival, Marks, NEVER, Outgoing, Receiving, Recovery, Sending};
use super::{Completion, Effects, FIRST_QPN, FlowSpec, Network, Notice, Origin, Place, Totals, frame_info};
use crate::dependencies::Milestone;
use crate::marking::Pauses;
use crate::packet::{self, Control, Flow};
use crate::{Picos, instant};
use anyhow::{Context, Result, anyhow, ensure};
use cc_core::table::Handle;
use cc_core::wire::opcode;
use cc_core::wire::{self, Aeth, Bth, CnpMarking, Nak, NoCrc, Response, Roce, Syndrome, cm, pfc};
use cc_core::{Bytes, CnpBodyKind, Ecn, Instant, Nanos, Psn, Rate};
use cc_np::NotSent;
use hil_algorithms::{CoreUse, NicCounters, NicGroup, NicOutput, RxFields};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The traffic class of data, and its PFC priority, where nothing else is said.
pub const DATA_CLASS: u8 = 3;

/// A host.
#[derive(Debug)]
pub(super) struct Host {
    node: u32,
    port: u32,
    group: usize,
    nic: usize,
    /// Its NIC's program runs on a core in real time.
    has_clocked_core: bool,
    /// Acknowledgements and CNPs to be sent, before all data.
    control: VecDeque<PacketId>,
    /// The flow in each slot of the NIC.
    slots: Vec<u32>,
    /// The flows that it sends, in the order in which they began.
    sending: Vec<u32>,
    /// Those that may send now, by their number in `sending`.
    ready: ReadyFlows,
    /// Those that wait for their time, by the same number.
    waiting: BinaryHeap<Reverse<(Picos, u32)>>,
    /// When it looks for a packet to send, if that is scheduled.
    poll_at: Picos,
    /// When its NIC is called, if that is scheduled.
    wake_at: Picos,
    /// Flows that it sends and that are not complete.
    open: u32,
    /// When a packet or a PFC frame last arrived, or a flow was opened.
    active_at: Picos,
}

/// A NIC without open flows is called for so long after its last packet: 2 s, after which all its intervals are over and its records
/// are swept. Then it rests until the next packet. So does a switch when the network has no open flow.
pub(super) const REST: Picos = 2_000_000_000_000;

/// Communication identifiers of receivers, in handshakes, begin behind this.
const RECEIVER_ID: u32 = 0x100;

impl Host {
    pub(super) fn new(
        node: u32,
        port: u32,
        (group, nic): (usize, usize),
        has_clocked_core: bool,
        ready: ReadyFlows,
    ) -> Self {
        Self {
            node,
            port,
            group,
            nic,
            has_clocked_core,
            control: VecDeque::new(),
            slots: Vec::new(),
            sending: Vec::new(),
            ready,
            waiting: BinaryHeap::new(),
            poll_at: NEVER,
            wake_at: NEVER,
            open: 0,
            active_at: 0,
        }
    }
}

impl Host {
    /// Acknowledgements and CNPs that wait to be sent.
    pub(super) fn waiting_packets(&self) -> usize {
        self.control.len()
    }

    /// Takes the acknowledgements and CNPs that wait to be sent.
    pub(super) fn take_control(&mut self) -> VecDeque<PacketId> {
        std::mem::take(&mut self.control)
    }

    /// Its port.
    pub(super) const fn port(&self) -> u32 {
        self.port
    }

    /// The group of its NIC.
    pub(super) const fn group(&self) -> usize {
        self.group
    }

    /// Whether its NIC's program runs on a core in real time, or a part of it.
    pub(super) const fn has_clocked_core(&self) -> bool {
        self.has_clocked_core
    }

    /// Its node number.
    pub(super) const fn node(&self) -> u32 {
        self.node
    }

    /// The group of its NIC, and the NIC's number in it.
    pub(super) const fn place(&self) -> (usize, usize) {
        (self.group, self.nic)
    }

    /// Its node number and what its NIC's cores did; the NIC is of this group.
    pub(super) fn cores(&self, group: &dyn NicGroup) -> impl Iterator<Item = (u32, CoreUse)> + use<> {
        let node = self.node;
        group.cores(self.nic).into_iter().map(move |usage| (node, usage))
    }

    /// The counters of its NIC, which is of this group.
    pub(super) fn counters(&self, group: &dyn NicGroup) -> NicCounters {
        group.counters(self.nic)
    }
}

/// A flow that has begun, at both ends.
#[derive(Debug)]
pub(super) struct Sender {
    host: u32,
    /// Its number among the flows that the host sends.
    number: u32,
    class: u8,
    handle: Option<Handle>,
    pub(super) sending: Sending,
    pub(super) receiving: Receiving,
    rate: Rate,
    window: u32,
    /// No packet leaves before this time: the NIC's order.
    held_until: Picos,
    /// When the next packet may leave.
    due: Picos,
    /// How its application offers its bytes, if not all at its beginning.
    pub(super) offer: Option<Box<Offer>>,
    /// When its application stops, if that is before all bytes are sent; [`NEVER`] otherwise.
    pub(super) stop: Picos,
    /// Bytes of the last packet on the line.
    last_bytes: u16,
    /// It has nothing to send, or its window is full: only an acknowledgement or a decision of the NIC changes that.
    is_blocked: bool,
    /// The entry in [`Host::waiting`] that counts.
    waits_until: Picos,
    /// When its [`EventClass::Timeout`] comes, if one is in the event queue.
    timeout_at: Picos,
    template: Vec<u8>,
    /// An acknowledgement by the receiver's transport; READs have none.
    ack_template: Vec<u8>,
    /// Packets that were sent when the present round trip began.
    round_trip_ends: u64,
    /// Congestion notifications that the NIC was given.
    pub(super) cnps: u64,
    /// The ports by which its packets leave each node, and those of its acknowledgements.
    paths: [Vec<u32>; 2],
}

/// How bytes are counted for windows: those of frames with this many bytes; `None` if only payload counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counting(pub(super) Option<u64>);

impl Counting {
    /// What these bytes of payload, in so many packets, count for.
    pub(super) fn of(self, (payload, packets): (u64, u64)) -> u64 {
        self.0.map_or(payload, |frame| packets * frame)
    }
}

impl Sender {
    /// A flow that has not begun.
    pub(super) fn idle() -> Self {
        Self {
            host: 0,
            number: 0,
            class: DATA_CLASS,
            handle: None,
            sending: Sending::new(Psn::new(0), 0, 1, false),
            receiving: Receiving::new(Psn::new(0)),
            rate: Rate::ZERO,
            window: u32::MAX,
            held_until: 0,
            due: 0,
            offer: None,
            stop: NEVER,
            last_bytes: 0,
            is_blocked: false,
            waits_until: NEVER,
            timeout_at: NEVER,
            template: Vec::new(),
            ack_template: Vec::new(),
            round_trip_ends: 0,
            cnps: 0,
            paths: Default::default(),
        }
    }

    /// Bytes of payload that the receiver has in order.
    pub(super) fn received_bytes(&self) -> u64 {
        self.sending.received_bytes(self.receiving.expected)
    }

    /// Bytes of payload acknowledged.
    pub(super) fn acked_bytes(&self) -> u64 {
        self.sending.acked_bytes()
    }

    /// The rate in bits per second and the window in bytes that the NIC allows, zeros if the flow is not open; the window is zero
    /// too if there is none.
    pub(super) fn allowed(&self) -> (u64, u64) {
        let window = if self.window == u32::MAX { 0 } else { self.window.into() };
        self.handle.map_or((0, 0), |_| (self.rate.to_bits_per_second(), window))
    }

    /// The window in bytes.
    pub(super) const fn window(&self) -> u32 {
        self.window
    }

    /// When the next packet may leave by the NIC's orders.
    pub(super) fn due(&self) -> Picos {
        self.due.max(self.held_until)
    }

    /// Whether it has begun and is not complete.
    pub(super) const fn has_begun(&self) -> bool {
        !self.template.is_empty()
    }

    /// Whether its NIC knows it.
    pub(super) const fn is_open(&self) -> bool {
        self.handle.is_some()
    }

    /// When its application has offered all of the next packet, for a flow that began at this time; `None` if all was there from the
    /// beginning or the next packet was sent before.
    pub(super) fn offered_at(&self, start: Picos) -> Option<Picos> {
        let offer = self.offer.as_ref().filter(|_| !self.sending.has_lost())?;
        Some(start.saturating_add(offer.time(self.sending.next_bytes())))
    }

    /// Whether what was sent when this last returned true is acknowledged.
    fn is_next_round_trip(&mut self) -> bool {
        let (acked, next) = self.sending.progress();
        let is_over = acked > self.round_trip_ends;
        if is_over {
            self.round_trip_ends = next;
        }
        is_over
    }

    /// The ports by which its data leaves each node; none where packets are sprayed.
    pub(super) fn way(&self) -> &[u32] {
        &self.paths[0]
    }

    /// The port by which a packet leaves the node that it reaches after `hops` others; `None` behind the end of the path, where
    /// packets are sprayed or paths change while packets are on their way.
    pub(super) fn egress_at(&self, kind: Kind, hops: usize) -> Option<u32> {
        self.path(kind).get(hops).copied()
    }

    fn path(&self, kind: Kind) -> &[u32] {
        &self.paths[usize::from(!matches!(kind, Kind::Data | Kind::Request))]
    }

    /// Its packets, and the acknowledgements of them, leave nodes by these ports from now on.
    pub(super) fn set_paths(&mut self, paths: [Vec<u32>; 2]) {
        self.paths = paths;
    }

    /// Whether a path leads to its receiver and back.
    pub(super) const fn has_path(&self) -> bool {
        !self.paths[0].is_empty()
    }
}

/// Where a NIC's decisions and frames go.
struct Output<'a> {
    now: Picos,
    slab: &'a mut InFlight,
    senders: &'a mut [Sender],
    slots: &'a [u32],
    /// The flows that a decision was about.
    touched: &'a mut Vec<u32>,
    /// The frames of the NIC.
    control: &'a mut VecDeque<PacketId>,
    totals: &'a mut Totals,
    effects: &'a Effects,
    /// The flow whose event it is, if the caller puts it where it belongs.
    own: Option<u32>,
}

impl NicOutput for Output<'_> {
    fn set(&mut self, slot: u16, rate: Rate, window: Bytes, hold: Nanos) {
        let known = self.slots.get(usize::from(slot)).copied().filter(|&flow| flow != u32::MAX);
        // A flow that is being opened has no slot yet.
        let Some(flow) = known.or(self.own) else { return };
        let sender = &mut self.senders[flow as usize];
        if self.effects.retiming && sender.last_bytes > 0 && sender.rate != rate {
            let whole_nanoseconds = self.effects.whole_nanoseconds;
            let [old, new] = [sender.rate, rate].map(|rate| gap(sender.last_bytes, rate, whole_nanoseconds));
            sender.due = (sender.due + new).saturating_sub(old);
        }
        self.totals.decisions += 1;
        self.totals.cuts += u64::from(rate < sender.rate || window.get() < sender.window);
        sender.rate = rate;
        sender.window = window.get();
        sender.held_until = if hold == Nanos::ZERO { 0 } else { self.now + Picos::from(hold.get()) * 1_000 };
        if self.own != Some(flow) {
            self.touched.push(flow);
        }
    }

    fn send(&mut self, frame: &Response<'_>) -> Result<(), NotSent> {
        let mut buffer = [0; 512];
        let len = frame.emit::<NoCrc>(&mut buffer).map_err(|_| NotSent::Full)?;
        self.put(frame.bth(), &buffer[..len])
    }

    fn forward(&mut self, frame: &[u8]) -> Result<(), NotSent> {
        let bth = Roce::of(frame).ok_or(NotSent::Unaddressed)?.bth;
        // Packets of the network have no ICRC.
        let mut frame = frame.to_vec();
        wire::write_icrc::<NoCrc>(&mut frame);
        self.put(&bth, &frame)
    }
}

impl Output<'_> {
    /// Puts a frame of the NIC with this header in its queue.
    #[inline]
    fn put(&mut self, bth: &Bth, frame: &[u8]) -> Result<(), NotSent> {
        let flow = bth.dest_qp.get().checked_sub(FIRST_QPN).ok_or(NotSent::Unaddressed)?;
        let kind = if bth.opcode == opcode::CNP { Kind::Cnp } else { Kind::Ack };
        let wire_len = frame.len() as u16;
        let headers = self.effects.line_headers.filter(|_| kind == Kind::Ack);
        let line_bytes = headers.map_or(wire_len, |headers| headers.ack);
        let meta =
            Meta { flow, kind, wire_len, line_bytes, class: self.senders[flow as usize].class, ..Meta::default() };
        self.control.push_back(self.slab.insert(meta, frame));
        self.totals.injected += 1;
        self.totals.nic_cnps += u64::from(kind == Kind::Cnp);
        Ok(())
    }
}

/// The opcodes of SENDs and of responses to READs: of a packet that is not the first of its message and of one that is, each not the
/// last and the last.
const SEND: [[u8; 2]; 2] = [[opcode::SEND_MIDDLE, opcode::SEND_LAST], [opcode::SEND_FIRST, opcode::SEND_ONLY]];
const READ_RESPONSE: [[u8; 2]; 2] = [
    [opcode::READ_RESPONSE_MIDDLE, opcode::READ_RESPONSE_LAST],
    [opcode::READ_RESPONSE_FIRST, opcode::READ_RESPONSE_ONLY],
];

/// How long after a packet of this many bytes the next one may leave at this rate.
fn gap(bytes: u16, rate: Rate, whole_nanoseconds: bool) -> Picos {
    let picos = u64::from(bytes) * 8_000_000_000_000 / rate.to_bits_per_second().max(1);
    if whole_nanoseconds { picos / 1_000 * 1_000 } else { picos }
}

impl Network<'_> {
    /// Calls a function of a host's NIC, and then puts the flows that its decisions were about where they belong: all but `own`, the
    /// flow whose event it is, if the caller does that.
    ///
    /// # Errors
    /// Those of the tap, to which the frames that the NIC sends are passed.
    fn with_nic<T>(
        &mut self,
        now: Picos,
        host: u32,
        own: Option<u32>,
        call: impl FnOnce(&mut dyn NicGroup, usize, Instant, &mut Output<'_>) -> T,
    ) -> Result<T> {
        let clock = self.clock(now, host);
        let at = &mut self.hosts[host as usize];
        let (node, before) = (at.node, at.control.len());
        let mut output = Output {
            now,
            slab: &mut self.slab,
            senders: &mut self.senders,
            slots: &at.slots,
            touched: &mut self.touched,
            control: &mut at.control,
            totals: &mut self.totals,
            effects: &self.effects,
            own,
        };
        let nics = &mut *self.groups[at.group];
        let result = call(nics, at.nic, clock, &mut output);
        self.schedule_wake(now, host);
        while let Some(flow) = self.touched.pop() {
            self.settle(now, flow);
        }
        if self.is_tapped(node) {
            for place in before..self.hosts[host as usize].control.len() {
                self.show(now, Origin::Sent, self.hosts[host as usize].control[place])?;
            }
        }
        if self.faults.has_nic_rules {
            self.pass_cnps(now, host, before);
        }
        Ok(result)
    }

    /// Makes sure that the NIC of a host is called when it has to be.
    #[inline]
    fn schedule_wake(&mut self, now: Picos, host: u32) {
        let at = &mut self.hosts[host as usize];
        let nics = &self.groups[at.group];
        // A clock that gains time would be more than a second ahead of its last call at the latest wake, which is taken for a jump.
        let wake = if self.faults.has_clocks {
            (nics.next_wake(at.nic).nanos() * 1_000).saturating_sub(self.faults.clock_ahead(now, at.port))
        } else {
            nics.latest_wake(at.nic).nanos() * 1_000
        };
        let wake = wake.max(now);
        let rests = at.open == 0 && wake > at.active_at + REST;
        if wake < at.wake_at && !rests {
            at.wake_at = wake;
            self.calendar.add(Event::new(wake, EventClass::Wake, at.node));
        }
    }

    /// The driver of a host has given its NIC commands outside of [`Network::with_nic`]: a core handles them later.
    fn commanded(&mut self, now: Picos, host: u32) {
        if self.hosts[host as usize].has_clocked_core {
            self.schedule_wake(now, host);
        }
    }

    /// The clock of a host, which its NIC is given.
    fn clock(&mut self, now: Picos, host: u32) -> Instant {
        if self.faults.has_clocks {
            instant(self.faults.clock(now, self.hosts[host as usize].port))
        } else {
            instant(now)
        }
    }

    /// Faults of a host's NIC may drop or delay the CNPs among the packets that it sends, from this place on.
    #[cold]
    fn pass_cnps(&mut self, now: Picos, host: u32, mut place: usize) {
        while let Some(&packet) = self.hosts[host as usize].control.get(place) {
            let port = self.hosts[host as usize].port;
            let meta = *self.slab.meta(packet);
            let outcome = if meta.kind == Kind::Cnp {
                self.faults.on_cnp(now, port, || frame_info(&self.slab, packet, &self.flows, &self.specs, self.payload))
            } else {
                Outcome::Arrives
            };
            match outcome {
                Outcome::Lost(fault) => {
                    self.hosts[host as usize].control.remove(place);
                    self.faults.lose(now, port, fault, meta.flow);
                    self.drop_packet(packet);
                }
                Outcome::Held(until) => {
                    self.hosts[host as usize].control.remove(place);
                    self.hold(port, until, Held::Cnp(packet));
                }
                Outcome::Arrives | Outcome::Twice => place += 1,
            }
        }
    }

    /// The NIC at a port sends a CNP that a fault has delayed.
    pub(super) fn send_delayed_cnp(&mut self, now: Picos, port: u32, packet: PacketId) -> Result<()> {
        let Place::Host(host) = self.places[self.ports[port as usize].node as usize] else { return Ok(()) };
        self.hosts[host as usize].control.push_back(packet);
        self.transmit(now, host)
    }

    /// A host's transport sends a packet of a flow that is no data.
    #[inline(always)]
    fn send_control(&mut self, now: Picos, host: u32, packet: PacketId) -> Result<()> {
        self.totals.injected += 1;
        let at = &mut self.hosts[host as usize];
        at.control.push_back(packet);
        if self.is_tapped(self.hosts[host as usize].node) { self.show(now, Origin::Sent, packet) } else { Ok(()) }
    }

    /// A flow reaches a milestone at this time. Those that need no other one begin when their delay is over.
    fn reach(&mut self, at: Picos, flow: u32, milestone: Milestone) {
        let Self { dependents, specs, calendar, .. } = self;
        dependents.reach(flow, milestone, |next| {
            let start = &mut specs[next as usize].start;
            *start = start.saturating_add(at);
            calendar.add(Event::new(*start, EventClass::Start, next));
        });
    }

    /// A flow begins: with the handshake of its connection, or at once.
    #[inline(never)]
    pub(super) fn start(&mut self, now: Picos, flow: u32) -> Result<()> {
        let spec = self.specs[flow as usize];
        let (Place::Host(host), Place::Host(_)) =
            (self.places[spec.source as usize], self.places[spec.destination as usize])
        else {
            return Err(anyhow!("flow {flow}: its ends are not hosts"));
        };
        let (source, destination) = (spec.source, spec.destination);
        let paths = self.paths(flow).or_else(|| self.faults.has_failures.then(Default::default));
        let paths = paths.with_context(|| format!("flow {flow}: no path from node {source} to node {destination}"))?;
        let ends = self.flows[flow as usize];
        let template = self.format.template(&ends)?.0;
        let ack = Control::Ack { psn: ends.first_psn, messages: 0, marked: false };
        let ack_template = packet::control(&ends, ends.sender, ack)?;
        let is_read = self.senders[flow as usize].sending.is_read();
        let sending = if is_read {
            Sending::read(ends.first_psn, spec.bytes, self.payload)
        } else {
            Sending::new(ends.first_psn, spec.bytes, self.payload, self.uses_acks)
        };
        let receiving = Receiving::new(ends.first_psn);
        let sender = &mut self.senders[flow as usize];
        let (class, offer, stop) = (spec.class, sender.offer.take(), sender.stop);
        *sender =
            Sender { host, class, offer, stop, sending, receiving, template, ack_template, paths, ..Sender::idle() };
        if stop != NEVER {
            self.calendar.add(Event::new(stop.max(now), EventClass::Timeout, flow));
        }
        if self.transport.handshake {
            return self.request(now, flow);
        }
        self.open(now, flow)?;
        if is_read { self.read(now, flow) } else { Ok(()) }
    }

    /// The receiver of a READ requests all that it does not have.
    #[cold]
    fn read(&mut self, now: Picos, flow: u32) -> Result<()> {
        let FlowSpec { destination, class, bytes, .. } = self.specs[flow as usize];
        let Place::Host(host) = self.places[destination as usize] else { return Ok(()) };
        let sender = &mut self.senders[flow as usize];
        sender.sending.deadline = now + self.transport.timeout;
        let (psn, offset) = (sender.receiving.expected, sender.received_bytes());
        self.schedule_timeout(flow);
        let ends = &self.flows[flow as usize];
        let request = Control::ReadRequest { psn, offset, bytes: u32::try_from(bytes - offset)? };
        let frame = packet::control(ends, ends.sender, request)?;
        let length = u16::try_from(frame.len())?;
        let meta =
            Meta { flow, kind: Kind::ReadRequest, wire_len: length, line_bytes: length, class, ..Meta::default() };
        let packet = self.slab.insert(meta, &frame);
        self.send_control(now, host, packet)?;
        self.transmit(now, host)
    }

    /// A request of a READ has arrived at the host that has the bytes.
    #[cold]
    fn on_read(&mut self, now: Picos, flow: u32, packet: &Roce<'_>) {
        let sender = &mut self.senders[flow as usize];
        // Otherwise it is a late copy, and the receiver has all.
        if sender.is_open() {
            sender.sending.on_request(packet.bth.psn);
            self.settle(now, flow);
        }
    }

    /// The sender of a flow requests its connection.
    fn request(&mut self, now: Picos, flow: u32) -> Result<()> {
        let Flow { sender_qpn: local_qpn, first_psn: starting_psn, .. } = self.flows[flow as usize];
        let sender = &mut self.senders[flow as usize];
        sender.sending.deadline = now + self.transport.timeout;
        let host = sender.host;
        self.schedule_timeout(flow);
        let request = cm::Message::Request { local_id: flow + 1, local_qpn, starting_psn };
        self.send_handshake(now, host, flow, Kind::Request, request)?;
        self.transmit(now, host)
    }

    /// Makes sure that an event comes when a flow's deadline passes.
    #[inline(always)]
    fn schedule_timeout(&mut self, flow: u32) {
        let Sender { sending, timeout_at, .. } = &mut self.senders[flow as usize];
        if sending.deadline < *timeout_at {
            *timeout_at = sending.deadline;
            self.calendar.add(Event::new(*timeout_at, EventClass::Timeout, flow));
        }
    }

    /// A flow's deadline may have passed.
    #[inline(never)]
    pub(super) fn time_out(&mut self, now: Picos, flow: u32) -> Result<()> {
        if self.senders[flow as usize].stop <= now {
            self.stop(now, flow);
        }
        let sender = &mut self.senders[flow as usize];
        if sender.timeout_at != now {
            return Ok(());
        }
        sender.timeout_at = NEVER;
        if now < sender.sending.deadline {
            self.schedule_timeout(flow);
            return Ok(());
        }
        self.totals.timeouts += 1;
        if sender.handle.is_none() {
            return self.request(now, flow);
        }
        if sender.sending.is_read() {
            return self.read(now, flow);
        }
        sender.sending.on_timeout(now, &self.transport);
        let host = sender.host;
        self.schedule_timeout(flow);
        self.settle(now, flow);
        self.transmit(now, host)
    }

    /// The application of a flow offers no more bytes: the flow ends with those that were sent. Before its connection is open, it does
    /// so when that opens.
    #[cold]
    fn stop(&mut self, now: Picos, flow: u32) {
        let sender = &mut self.senders[flow as usize];
        if !sender.is_open() {
            return;
        }
        sender.stop = NEVER;
        if sender.sending.is_sent() {
            return;
        }
        self.specs[flow as usize].bytes = sender.sending.stop(now, &self.transport);
        let (is_complete, is_received) =
            (sender.sending.is_complete(), sender.sending.is_received(sender.receiving.expected));
        self.schedule_timeout(flow);
        self.reach(now, flow, Milestone::Sent);
        if is_received {
            self.reach(now, flow, Milestone::Received);
        }
        if is_complete {
            self.complete(now, flow);
        } else {
            self.settle(now, flow);
        }
    }

    /// A host sends a message of the connection manager about a flow.
    fn send_handshake(&mut self, now: Picos, host: u32, flow: u32, kind: Kind, message: cm::Message) -> Result<()> {
        let ends = &self.flows[flow as usize];
        let to = if kind == Kind::Request { ends.receiver } else { ends.sender };
        let frame = packet::control(ends, to, Control::Handshake(message))?;
        let bytes = u16::try_from(frame.len())?;
        let meta = Meta { flow, kind, wire_len: bytes, line_bytes: bytes, ..Meta::default() };
        let packet = self.slab.insert(meta, &frame);
        self.send_control(now, host, packet)
    }

    /// A message of the connection manager has arrived.
    fn on_handshake(&mut self, now: Picos, host: u32, flow: u32, packet: &Roce<'_>) -> Result<()> {
        let ends = self.flows[flow as usize];
        match cm::Message::parse(packet) {
            Some(cm::Message::Request { local_id: remote_id, .. }) => {
                let (local_qpn, starting_psn) = (ends.receiver_qpn, ends.first_psn);
                let local_id = RECEIVER_ID + remote_id;
                let reply = cm::Message::Reply { local_id, remote_id, local_qpn, starting_psn };
                self.send_handshake(now, host, flow, Kind::Reply, reply)
            }
            Some(cm::Message::Reply { local_id: remote_id, remote_id: local_id, .. }) => {
                let ready = cm::Message::ReadyToUse { local_id, remote_id };
                self.send_handshake(now, host, flow, Kind::Request, ready)?;
                // A second reply changes nothing, even if the flow is complete by then.
                let Sender { handle, sending, .. } = &self.senders[flow as usize];
                if handle.is_some() || sending.is_complete() { Ok(()) } else { self.open(now, flow) }
            }
            _ => Ok(()),
        }
    }

    /// The NICs at both ends of a flow learn of its connection, and the sender begins to send.
    fn open(&mut self, now: Picos, flow: u32) -> Result<()> {
        let FlowSpec { source, destination, class, .. } = self.specs[flow as usize];
        let host = self.senders[flow as usize].host;
        let at = &mut self.hosts[host as usize];
        let number = at.sending.len() as u32;
        at.sending.push(flow);
        at.open += 1;
        at.active_at = now;
        self.open_flows += 1;
        let sender = &mut self.senders[flow as usize];
        (sender.number, sender.due, sender.sending.deadline) = (number, now, NEVER);
        if at.has_clocked_core {
            // Nothing is sent until the core has handled the command that opens the flow, and sets its rate and window.
            sender.window = 0;
        }
        let (opened, clock) = self.with_nic(now, host, Some(flow), |nics, nic, clock, output| {
            (nics.open(nic, clock, class, output), clock)
        })?;
        let handle = opened.ok_or_else(|| anyhow!("the NIC of host {source} has no room for flow {flow}"))?;
        let Host { slots, group, nic, .. } = &mut self.hosts[host as usize];
        let slot = usize::from(handle.index());
        if slots.len() <= slot {
            slots.resize(slot + 1, u32::MAX);
        }
        slots[slot] = flow;
        let ends = self.flows[flow as usize];
        let nics = &mut *self.groups[*group];
        nics.bind(*nic, clock, handle, ends.sender_qpn).map_err(|error| anyhow!("flow {flow}: {error:?}"))?;
        let frame = std::mem::take(&mut self.senders[flow as usize].template);
        let data = packet::parse(&frame, self.data.1.wire_len.into())?;
        if self.remote_names {
            ensure!(
                nics.learn_remote(*nic, clock, handle, &data, &frame),
                "the NIC of host {source} has no room for the name by which switches address flow {flow}"
            );
        }
        self.commanded(now, host);
        if let Place::Host(receiver) = self.places[destination as usize] {
            let Host { group, nic, .. } = self.hosts[receiver as usize];
            let clock = self.clock(now, receiver);
            self.groups[group].learn_sender(nic, clock, &data, &frame, ends.sender_qpn);
            self.commanded(now, receiver);
        }
        self.senders[flow as usize].template = frame;
        self.senders[flow as usize].handle = Some(handle);
        self.settle(now, flow);
        if self.senders[flow as usize].stop <= now {
            self.stop(now, flow);
        }
        self.transmit(now, host)
    }

    /// The ports by which packets of a flow leave each node, and those of its acknowledgements; `None` if there is no path. Of a flow
    /// that is sprayed, the first is the path to the first switch.
    pub(super) fn paths(&self, flow: u32) -> Option<[Vec<u32>; 2]> {
        let FlowSpec { source, destination, tuple, .. } = self.specs[flow as usize];
        let mut forward = self.routes.path(source, destination, tuple)?;
        if self.spray.is_some() {
            forward.truncate(1);
        }
        Some([forward, self.routes.path(destination, source, tuple.reversed())?])
    }

    /// Puts a flow where it belongs: among those that may send, that wait for their time, or neither.
    fn settle(&mut self, now: Picos, flow: u32) {
        let sender = &mut self.senders[flow as usize];
        let host = &mut self.hosts[sender.host as usize];
        let (number, class) = (sender.number as usize, sender.class);
        let is_open = || self.counting.of(sender.sending.in_flight()) < u64::from(sender.window);
        sender.is_blocked = !(sender.sending.has_lost() || sender.sending.has_new() && is_open());
        if sender.is_blocked {
            host.ready.remove(number, class);
            sender.waits_until = NEVER;
            if sender.sending.has_new() {
                sender.sending.wait(now, &self.transport);
                self.schedule_timeout(flow);
            }
            return;
        }
        let paused_until = self.ports[host.port as usize].paused_until[usize::from(class)];
        let mut due = sender.due.max(sender.held_until).max(paused_until);
        if sender.offer.is_some() {
            due = due.max(sender.offered_at(self.specs[flow as usize].start).unwrap_or(0));
        }
        if due == NEVER {
            // A pause that lasts until it is resumed.
            host.ready.remove(number, class);
            sender.waits_until = NEVER;
        } else if due <= now {
            host.ready.insert(number, class);
            sender.waits_until = NEVER;
        } else {
            host.ready.remove(number, class);
            if sender.waits_until != due {
                sender.waits_until = due;
                host.waiting.push(Reverse((due, sender.number)));
            }
        }
    }

    /// A host looks for a packet to send.
    pub(super) fn poll(&mut self, now: Picos, host: u32) -> Result<()> {
        let at = &mut self.hosts[host as usize];
        if at.poll_at != now {
            return Ok(());
        }
        at.poll_at = NEVER;
        self.transmit(now, host)
    }

    /// The NIC's timer runs.
    pub(super) fn wake(&mut self, now: Picos, host: u32) -> Result<()> {
        let at = &mut self.hosts[host as usize];
        if at.wake_at != now {
            return Ok(());
        }
        at.wake_at = NEVER;
        self.with_nic(now, host, None, |nics, nic, clock, output| {
            while nics.next_wake(nic) <= clock {
                nics.timer(nic, clock, output)?;
            }
            anyhow::Ok(())
        })??;
        self.transmit(now, host)
    }

    /// Sends the next packet of a host, if its port is free and one may go, and schedules the next look.
    pub(super) fn transmit(&mut self, now: Picos, host: u32) -> Result<()> {
        let at = &mut self.hosts[host as usize];
        let port = at.port;
        let free_at = self.ports[port as usize].free_at;
        if now < free_at && at.poll_at <= free_at {
            return Ok(()); // it looks again before it could send
        }
        if free_at <= now {
            if let Some(packet) = at.control.pop_front() {
                self.begin(now, port, packet);
            } else {
                while let Some(&Reverse((due, number))) = at.waiting.peek()
                    && due <= now
                {
                    at.waiting.pop();
                    let sender = &mut self.senders[at.sending[number as usize] as usize];
                    if sender.waits_until == due {
                        sender.waits_until = NEVER;
                        at.ready.insert(number as usize, sender.class);
                    }
                }
                if let Some(number) = at.ready.next(now) {
                    let flow = at.sending[number];
                    let packet = self.next_packet(now, flow)?;
                    self.begin(now, port, packet);
                    let Sender { class, last_bytes, .. } = self.senders[flow as usize];
                    self.hosts[host as usize].ready.sent(class, last_bytes, now);
                    self.settle(now, flow);
                }
            }
        }
        // When to look again.
        let at = &mut self.hosts[host as usize];
        let free_at = self.ports[port as usize].free_at;
        let ready_at = if at.control.is_empty() { at.ready.may_send_at(now) } else { Some(now) };
        let next = if ready_at.is_some_and(|time| time <= now) {
            free_at
        } else {
            while let Some(&Reverse((due, number))) = at.waiting.peek()
                && self.senders[at.sending[number as usize] as usize].waits_until != due
            {
                at.waiting.pop();
            }
            let waiting_until = at.waiting.peek().map(|Reverse((due, _))| *due);
            let Some(due) = waiting_until.into_iter().chain(ready_at).min() else { return Ok(()) };
            due.max(free_at)
        };
        self.schedule_poll(next.max(now), host);
        Ok(())
    }

    /// Makes a host look for a packet to send at this time, or before.
    fn schedule_poll(&mut self, at: Picos, host: u32) {
        let poll_at = &mut self.hosts[host as usize].poll_at;
        if at < *poll_at {
            *poll_at = at;
            self.calendar.add(Event::new(at, EventClass::Poll, host));
        }
    }

    /// A PFC frame with these quanta for a class has arrived, zero to resume it, and its pause is over at this time. Without a time
    /// the pause lasts until it is resumed, which for the NIC is the longest one.
    ///
    /// # Errors
    /// Those of the tap, to which the frames that the NIC sends are passed.
    pub(super) fn pause_host(
        &mut self,
        now: Picos,
        host: u32,
        class: u8,
        quanta: u16,
        over: Option<Picos>,
    ) -> Result<()> {
        let pfc = packet::pfc(class, over.map_or(u16::MAX, |_| quanta));
        self.hosts[host as usize].active_at = now;
        // A resume makes the NIC visit all flows at once, to end the holds of decisions that were made during the pause.
        self.with_nic(now, host, None, |nics, nic, clock, _| nics.pause(nic, clock, &pfc))?;
        for slot in 0..self.hosts[host as usize].slots.len() {
            let flow = self.hosts[host as usize].slots[slot];
            if flow != u32::MAX && self.senders[flow as usize].class == class {
                self.settle(now, flow);
            }
        }
        self.transmit(now, host)
    }

    /// A host pauses its port, and does so again when its period is over. The PFC frame does not wait for the port.
    #[cold]
    pub(super) fn pause_port(&mut self, now: Picos, node: u32) -> Result<()> {
        let (Some((_, Pauses { every, length })), Place::Host(host)) = (self.pauses, self.places[node as usize]) else {
            return Ok(());
        };
        let port = self.hosts[host as usize].port;
        let quanta = self.ports[port as usize].quantum().quanta(length);
        if let Some((_, tap)) = self.tap.as_mut().filter(|tap| tap.0 == node) {
            tap(now, Origin::Sent, &packet::emit_pfc(node as usize, DATA_CLASS, quanta)?)?;
        }
        self.totals.pfc_frames += 1;
        self.send_notice(now, port, pfc::FRAME_LEN, Notice::Pfc(DATA_CLASS, quanta));
        self.calendar.add(Event::new(now + Picos::from(every.get()) * 1_000, EventClass::Pause, node));
        Ok(())
    }

    /// Makes a flow's next data packet.
    fn next_packet(&mut self, now: Picos, flow: u32) -> Result<PacketId> {
        let layout = self.data.1;
        let sent_at = self.clock(now, self.senders[flow as usize].host);
        let sender = &mut self.senders[flow as usize];
        let ends: Flow = self.flows[flow as usize];
        let is_full = |in_flight| self.counting.of(in_flight) >= u64::from(sender.window);
        let Outgoing { psn, payload, first, last, acknowledged, again } =
            sender.sending.take(now, &self.transport, is_full).context("a flow without packets is to send one")?;
        let is_read = sender.sending.is_read();
        let opcode = if is_read { READ_RESPONSE } else { SEND }[usize::from(first)][usize::from(last)];
        let other;
        let (template, wire_len) = if payload == self.payload && !(is_read && (first || last)) {
            (&sender.template, layout.wire_len)
        } else {
            other = self.format.with_payload(payload).template_of(&ends, opcode)?;
            (&other.0, other.1.wire_len)
        };
        let line_bytes = self.effects.line_headers.map_or(wire_len, |headers| headers.data + payload as u16);
        let class = sender.class;
        let meta = Meta { flow, kind: Kind::Data, wire_len, line_bytes, class, ..Meta::default() };
        let packet = self.slab.insert(meta, template);
        self.totals.injected += 1;
        self.totals.sent_again += u64::from(again);
        layout.fill(self.slab.header_mut(packet), &ends, opcode, psn, acknowledged, sent_at.stamp());
        if self.dependents.is_awaited(Milestone::Sent) && !again && sender.sending.is_sent() {
            let host = &self.hosts[sender.host as usize];
            let left_at = now + self.ports[host.port as usize].serialisation(line_bytes);
            self.reach(left_at, flow, Milestone::Sent);
        }
        let sender = &mut self.senders[flow as usize];
        sender.last_bytes = line_bytes;
        let (host, handle) = (sender.host, sender.handle.expect("opened at its start"));
        self.schedule_timeout(flow);
        if self.is_tapped(ends.sender as u32) {
            self.show(now, Origin::Sent, packet)?;
        }
        let counted = self.counting.of((payload.into(), 1)) as u32;
        let whole_nanoseconds = self.effects.whole_nanoseconds;
        let own_pacing = whole_nanoseconds || self.effects.retiming;
        let wait = self.with_nic(now, host, Some(flow), |nics, nic, clock, output| {
            nics.sent(nic, clock, handle, psn, Bytes::new(counted), output);
            if own_pacing { None } else { nics.departure(nic, clock, handle, Bytes::new(line_bytes.into())) }
        })?;
        let sender = &mut self.senders[flow as usize];
        sender.due = if own_pacing {
            now + gap(line_bytes, sender.rate, whole_nanoseconds)
        } else {
            wait.map_or(NEVER, |wait| (now / 1_000 + Picos::from(wait.get())) * 1_000)
        };
        Ok(packet)
    }

    /// A packet has arrived at its host.
    pub(super) fn receive(&mut self, now: Picos, host: u32, packet: PacketId) -> Result<()> {
        self.totals.delivered += 1;
        self.hosts[host as usize].active_at = now;
        if self.is_tapped(self.hosts[host as usize].node) {
            self.show(now, Origin::Arrived, packet)?;
        }
        let Meta { flow, kind, .. } = *self.slab.meta(packet);
        let mut may_send = true;
        match kind {
            Kind::Data => self.on_data(now, host, flow, packet)?,
            Kind::Ack => may_send = self.on_ack(now, host, flow, packet)?,
            Kind::Cnp | Kind::Request | Kind::Reply | Kind::ReadRequest => self.on_other(now, host, packet)?,
        }
        self.slab.remove(packet);
        if may_send { self.transmit(now, host) } else { Ok(()) }
    }

    /// A packet other than data and acknowledgements has arrived at its host.
    #[inline(never)]
    fn on_other(&mut self, now: Picos, host: u32, packet: PacketId) -> Result<()> {
        let Meta { flow, kind, .. } = *self.slab.meta(packet);
        self.with_headers(packet, |network, roce, frame| match kind {
            Kind::Request | Kind::Reply => network.on_handshake(now, host, flow, roce),
            Kind::ReadRequest => {
                network.on_read(now, flow, roce);
                Ok(())
            }
            Kind::Data | Kind::Ack | Kind::Cnp => {
                network.senders[flow as usize].cnps += 1;
                network.deliver(now, host, None, (roce, frame), &RxFields::at(instant(now)))
            }
        })
    }

    /// Calls a function with a copy of the headers of a packet, parsed and as bytes: the frames that a NIC or a stage sends are put
    /// in slots of the same slab.
    ///
    /// # Errors
    /// Those of the function.
    pub(super) fn with_headers<T>(
        &mut self,
        packet: PacketId,
        call: impl FnOnce(&mut Self, &Roce<'_>, &[u8]) -> Result<T>,
    ) -> Result<T> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        frame.extend_from_slice(self.slab.header(packet));
        let Meta { kind, wire_len, .. } = *self.slab.meta(packet);
        // Packets of a kind are laid out alike, but for acknowledgements by a notification point that return what the data carried.
        let example = if kind == Kind::Data { &self.data.0 } else { &self.ack };
        let returned = match &example.like(&frame) {
            Some(roce) => call(self, roce, &frame),
            None => call(self, &packet::parse(&frame, wire_len.into())?, &frame),
        }?;
        self.frame = frame;
        Ok(returned)
    }

    /// The NIC of a host handles a packet; for `own`, see [`Network::with_nic`].
    fn deliver(
        &mut self,
        now: Picos,
        host: u32,
        own: Option<u32>,
        (roce, frame): (&Roce<'_>, &[u8]),
        fields: &RxFields,
    ) -> Result<()> {
        self.with_nic(now, host, own, |nics, nic, clock, output| {
            nics.received(nic, clock, roce, frame, &RxFields { arrived: clock, ..*fields }, output);
        })
    }

    /// Data of a flow has arrived at its receiver.
    fn on_data(&mut self, now: Picos, host: u32, flow: u32, packet: PacketId) -> Result<()> {
        let frame = self.slab.header(packet);
        let bth = wire::bth(frame, self.data.1.bth_at).context("a frame of ours ends early")?;
        let becn = self.effects.echo && wire::ecn(frame) == Some(Ecn::Ce);
        let Sender { sending, receiving, .. } = &mut self.senders[flow as usize];
        let marks = Marks { last: opcode::info(bth.opcode).last(), ack_request: bth.ack_request };
        let is_read = sending.is_read();
        let recovery = if is_read { Recovery::GoBackN } else { self.transport.recovery };
        let arrival = receiving.on_data(bth.psn, marks, recovery);
        let (messages, expected) = (receiving.messages & 0x00ff_ffff, receiving.expected);
        let last_in_order = receiving.last_in_order();
        // The notification point acknowledges the packet itself.
        let acknowledged = self.acknowledges && matches!(arrival, Arrival::Expected { .. });
        if self.acknowledges || !self.effects.echo {
            self.deliver_data(now, host, packet, acknowledged.then_some(messages))?;
        }
        if self.dependents.is_awaited(Milestone::Received) && matches!(arrival, Arrival::Expected { .. }) {
            let Sender { sending, receiving, .. } = &self.senders[flow as usize];
            if sending.is_received(receiving.expected) {
                self.reach(now, flow, Milestone::Received);
            }
        }
        if is_read {
            return self.on_response(now, flow, arrival);
        }
        let ack = Aeth { syndrome: Syndrome::Ack { credits: 0 }, msn: messages };
        match arrival {
            Arrival::Expected { .. } if acknowledged && bth.psn == last_in_order => Ok(()),
            Arrival::Expected { is_due: false } | Arrival::Early { is_due: false } => Ok(()),
            Arrival::Expected { .. } | Arrival::Duplicate => self.send_ack(now, host, flow, last_in_order, becn, ack),
            Arrival::Early { .. } => {
                let arrived =
                    if self.transport.recovery == Recovery::SelectiveRepeat { bth.psn.get() } else { messages };
                let nak = Aeth { syndrome: Syndrome::Nak(Nak::PsnSequence), msn: arrived };
                self.send_ack(now, host, flow, expected, false, nak)
            }
        }
    }

    /// The NIC of a host handles data, which it acknowledges itself if it is given the number of messages to acknowledge.
    #[inline(never)]
    fn deliver_data(&mut self, now: Picos, host: u32, packet: PacketId, msn: Option<u32>) -> Result<()> {
        let flow = self.slab.meta(packet).flow;
        let remote = Some(self.flows[flow as usize].sender_qpn);
        let fields = RxFields { msn, remote, ..RxFields::at(instant(now)) };
        self.with_headers(packet, |network, roce, frame| network.deliver(now, host, None, (roce, frame), &fields))
    }

    /// A response to a READ has arrived at the receiver, which requests again from the first missing packet on if there is a gap.
    #[inline(never)]
    fn on_response(&mut self, now: Picos, flow: u32, arrival: Arrival) -> Result<()> {
        match arrival {
            Arrival::Expected { .. } => {
                let Sender { sending, receiving, .. } = &mut self.senders[flow as usize];
                sending.on_response(now, receiving.expected, &self.transport);
                if sending.is_complete() {
                    self.complete(now, flow);
                }
                Ok(())
            }
            Arrival::Early { is_due: true } => self.read(now, flow),
            Arrival::Early { is_due: false } | Arrival::Duplicate => Ok(()),
        }
    }

    /// A flow is complete, and its connection closed.
    fn complete(&mut self, now: Picos, flow: u32) {
        let FlowSpec { start, bytes, .. } = self.specs[flow as usize];
        self.totals.completions.push(Completion { flow, bytes, start, time: now - start });
        if self.is_complete() {
            self.look_at = 0;
        }
        let sender = &mut self.senders[flow as usize];
        let Host { group, nic, slots, open, .. } = &mut self.hosts[sender.host as usize];
        if let Some(handle) = sender.handle.take() {
            slots[usize::from(handle.index())] = u32::MAX;
            *open -= 1;
            self.open_flows -= 1;
            self.groups[*group].close(*nic, instant(now), handle);
            let host = sender.host;
            self.commanded(now, host);
        }
        let sender = &mut self.senders[flow as usize];
        (sender.template, sender.ack_template) = (Vec::new(), Vec::new());
        // After a timeout it may be about to send again what has arrived.
        self.settle(now, flow);
        self.reach(now, flow, Milestone::Acknowledged);
    }

    /// The transport of a flow's receiver sends an acknowledgement.
    fn send_ack(&mut self, now: Picos, host: u32, flow: u32, psn: Psn, becn: bool, aeth: Aeth) -> Result<()> {
        let template = &self.senders[flow as usize].ack_template;
        if template.is_empty() {
            return Ok(()); // the flow is complete, and this data a late copy
        }
        let wire_len = template.len() as u16;
        let line_bytes = self.effects.line_headers.map_or(wire_len, |headers| headers.ack);
        let class = self.senders[flow as usize].class;
        let meta = Meta { flow, kind: Kind::Ack, wire_len, line_bytes, class, ..Meta::default() };
        let packet = self.slab.insert(meta, template);
        let dest_qp = self.flows[flow as usize].sender_qpn;
        let header = self.slab.header_mut(packet);
        wire::set_bth(header, self.transport_ack.bth_at(), &Bth { psn, becn, dest_qp, ..self.transport_ack.bth });
        wire::set_aeth(header, self.transport_ack.bth_at(), aeth);
        self.send_control(now, host, packet)
    }

    /// An acknowledgement of a flow has arrived at its sender. Returns whether that changes what the host may send.
    fn on_ack(&mut self, now: Picos, host: u32, flow: u32, packet: PacketId) -> Result<bool> {
        // Acknowledgements by the transport are laid out alike; those by a notification point return what the data carried.
        if self.uses_acks || self.acknowledges {
            return self.with_headers(packet, |network, roce, frame| {
                network.acknowledged(now, host, flow, (roce.bth, roce.aeth()), Some((roce, frame)))
            });
        }
        let (frame, at) = (self.slab.header(packet), self.transport_ack.bth_at());
        let bth = wire::bth(frame, at).context("a frame of ours ends early")?;
        self.acknowledged(now, host, flow, (bth, wire::aeth(frame, at)), None)
    }

    /// The sender of a flow handles an acknowledgement, and then its NIC does if it uses them: `roce`. Returns whether that changes
    /// what the host may send.
    fn acknowledged(
        &mut self,
        now: Picos,
        host: u32,
        flow: u32,
        (bth, aeth): (Bth, Option<Aeth>),
        roce: Option<(&Roce<'_>, &[u8])>,
    ) -> Result<bool> {
        let Sender { sending, handle, .. } = &mut self.senders[flow as usize];
        if handle.is_none() {
            return Ok(false); // the flow is complete
        }
        let (acked, is_nak) = match aeth {
            Some(Aeth { syndrome: Syndrome::Nak(_), msn }) => {
                (sending.on_nak(now, bth.psn, Psn::new(msn), &self.transport), true)
            }
            _ => (sending.on_ack(now, bth.psn, &self.transport), false),
        };
        let is_complete = sending.is_complete();
        let Acked { bytes, packets, sent } = acked;
        self.schedule_timeout(flow);
        let used = roce.filter(|_| self.uses_acks);
        let is_echoed = self.effects.echo && bth.becn;
        if let Some(roce) = used {
            let sender = &mut self.senders[flow as usize];
            let measured = !self.effects.delay_once_a_round_trip || sender.is_next_round_trip();
            let rtt = sent.filter(|_| measured).map(|sent| now - sent);
            let rtt = rtt
                .map(|rtt| Nanos::new((self.faults.measured(now, self.hosts[host as usize].port, rtt) / 1_000) as u32));
            let acked = Bytes::new(self.counting.of((bytes, packets)) as u32);
            self.deliver(now, host, Some(flow), roce, &RxFields { acked, rtt, ..RxFields::at(instant(now)) })?;
        } else if is_echoed {
            self.deliver_echo(now, host, flow)?;
        }
        if is_complete {
            self.complete(now, flow);
        } else if used.is_some() || is_nak || self.senders[flow as usize].is_blocked {
            self.settle(now, flow);
        } else {
            return Ok(is_echoed);
        }
        Ok(true)
    }

    /// The NIC of a flow's sender handles a CNP in place of the mark that an acknowledgement returns.
    #[cold]
    fn deliver_echo(&mut self, now: Picos, host: u32, flow: u32) -> Result<()> {
        self.senders[flow as usize].cnps += 1;
        let sender_qpn = self.flows[flow as usize].sender_qpn;
        let cnp = Response::cnp(&self.data.0, sender_qpn, CnpBodyKind::Standard, CnpMarking::default());
        let mut buffer = [0; 128];
        let len = cnp.emit::<NoCrc>(&mut buffer).map_err(|error| anyhow!("cannot build a CNP: {error:?}"))?;
        let cnp = packet::parse(&buffer[..len], len)?;
        self.deliver(now, host, None, (&cnp, &buffer[..len]), &RxFields::at(instant(now)))
    }
}
