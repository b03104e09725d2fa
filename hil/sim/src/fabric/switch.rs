//! A switch: queues at its ports, and the library's congestion points.

use super::buffer::{Ingress, Part, SharedBuffer};
use super::calendar::{Class as EventClass, Event as Scheduled};
use super::core_stages::{CoreStages, Held as HeldPacket};
use super::faults::{FrameInfo, FrameSet, Held, Outcome};
use super::host::REST;
use super::packets::{InFlight, Kind, Meta, PacketId};
use super::port::{HELD, Port};
use super::{Effects, FlowSpec, Network, Origin, PfcRecord, Picos, Place};
use crate::instant;
use crate::marking::Stages;
use crate::packet;
use anyhow::{Context, Result, ensure};
use cc_core::table::Heap;
use cc_core::wire::shim::IntShim;
use cc_core::wire::{self, CnpMarking, NoCrc, RateFrame, RateMessage, Roce, pfc};
use cc_core::{Bytes, CnpBody, Ecn, Hop, Link, Mark, Nanos, Rate};
use cc_cp::list::StageList;
use cc_cp::mlcc::per_flow_queues::PerFlowQueues;
use cc_cp::mmu::Mmu;
use cc_cp::swing::Relays;
use cc_cp::{
    Emit, Event, Kind as EventKind, Kinds, OnQueues, Packet, PeerMessage, Queue, QueueStage, SendPfc, Stage, Verdict,
};
use hil_algorithms::CoreUse;
use programs::switch_ring::{self, Room};

/// A switch.
pub(super) struct Switch {
    node: u32,
    first_port: u32,
    /// Its stages: one chain for all ports that have the same ones.
    chains: Vec<Chain>,
    /// The chains that run on cores. In their places in `chains` are empty ones.
    cores: Vec<CoreStages>,
    /// What each port has of them.
    stages: Vec<PortStages>,
    /// A port has stages that hold flows, or take replies or packets that join its queues.
    follows_flows: bool,
    /// It has two ports, and each PFC frame of one is an event of the other: see [`Kind::Relay`](super::Kind::Relay).
    is_relay: bool,
    /// The packet buffer; without one there is no limit.
    buffer: Option<SharedBuffer>,
    /// What it has sent and received beside packets.
    pub(super) feedback: SwitchFeedback,
    /// Frames that stages have sent and that are not on their way yet, and verdicts that cores have stored.
    sent: Vec<Sent>,
    /// Packets that have their verdicts and wait until a PFC frame or a message has left their ports.
    leaving: Vec<(u32, PacketId)>,
    /// When the stages are to be called next, if that is scheduled.
    wake_at: Picos,
    /// When a packet last arrived.
    active_at: Picos,
}

/// The feedback of a switch's stages.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SwitchFeedback {
    /// The switch.
    pub node: u32,
    /// CNPs sent to hosts.
    pub cnps: u64,
    /// Records of telemetry written into data packets.
    pub telemetry: u64,
    /// Messages sent to the switches at the other ends of its links: LSCC's rates and those of Swing's relays.
    pub messages_sent: u64,
    /// Such messages received.
    pub messages_received: u64,
}

/// The stages of some ports of a switch.
type Chain = cc_cp::Switch<StageList, Heap>;

/// The stages of a port.
#[derive(Clone, Copy)]
struct PortStages {
    /// The number of their chain.
    chain: u16,
    /// The kinds of events that they take.
    takes: Kinds,
    /// Whether one of them reads the headers of packets.
    reads_headers: bool,
    /// Whether acknowledgements and CNPs are arrivals for them.
    takes_replies: bool,
    /// Whether one of them holds flows: then the packets that arrive are those that join the port's queues.
    holds: bool,
}

/// A frame that a stage sends.
#[derive(Debug)]
enum Sent {
    /// A CNP to the sender of a flow.
    Cnp(PacketId),
    /// A PFC frame with these quanta, to the neighbour at a port, for a class.
    Pfc(Queue, u16),
    /// A message to the switch at the other end of the link at a port.
    Peer(Queue, PeerMessage),
    /// The verdict on a packet that has waited for it.
    Decided(HeldPacket, Verdict),
}

/// What a neighbour sends without a queue, and what arrives in the order in which it was sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Notice {
    /// A PFC frame with these quanta for a class.
    Pfc(u8, u16),
    /// A message of a stage of this class at the other end.
    Peer(u8, PeerMessage),
}

impl Notice {
    /// What rules of faults ask about it.
    fn frame_info(self) -> FrameInfo {
        let (kinds, bytes) = match self {
            Self::Pfc(..) => (FrameSet::PFC, pfc::FRAME_LEN),
            Self::Peer(..) => (FrameSet::MESSAGE, RateFrame::LONGEST),
        };
        FrameInfo { flow: None, kinds, is_last: false, bytes: bytes as u16 }
    }
}

/// The flow of no packet: stages send CNPs only about a packet that they are given.
pub(super) const NO_FLOW: u32 = u32::MAX;

/// Where stages send their frames.
pub(super) struct Output<'a> {
    slab: &'a mut InFlight,
    /// The ports of the switch.
    pub(super) ports: &'a [Port],
    sent: &'a mut Vec<Sent>,
    injected: &'a mut u64,
    /// The flow of the packet that the stages are given.
    pub(super) flow: u32,
}

impl Output<'_> {
    /// Sends a frame that stages on a core have built: a rate for the other end of the link at a queue, or a CNP to the sender of the
    /// flow. The image's queue has a number of its own; there may be none of the switch.
    pub(super) fn send_frame(&mut self, frame: &[u8], in_switch: impl Fn(Queue) -> Option<Queue>) {
        if let Ok(message) = RateMessage::parse(frame, frame.len()) {
            if let Some(queue) = in_switch(Queue { port: message.port, class: message.priority }) {
                self.peer(queue, PeerMessage::Rate(RateMessage { port: queue.port, ..message }));
            }
        } else if self.flow != NO_FLOW {
            // Packets of the network have no ICRC.
            let mut frame = frame.to_vec();
            wire::write_icrc::<NoCrc>(&mut frame);
            self.send_cnp(&frame, self.flow);
        }
    }

    /// A core has stored the verdict on a packet that waits for it.
    pub(super) fn decide(&mut self, held: HeldPacket, verdict: Verdict) {
        self.sent.push(Sent::Decided(held, verdict));
    }

    /// Puts a CNP in a slot, whole, with zeros for its ICRC.
    fn send_cnp(&mut self, frame: &[u8], flow: u32) {
        let bytes = frame.len() as u16;
        let meta = Meta { flow, kind: Kind::Cnp, wire_len: bytes, line_bytes: bytes, ..Meta::default() };
        self.sent.push(Sent::Cnp(self.slab.insert(meta, frame)));
        *self.injected += 1;
    }
}

impl Emit for Output<'_> {
    fn cnp(&mut self, about: &Roce<'_>, body: CnpBody, hop: Option<Hop>) {
        let mut room: Room = [0; IntShim::LONGEST];
        let mut buffer = [0; 512];
        let cnp = switch_ring::cnp(about, body, hop, CnpMarking::default(), &mut room);
        if let Some(Ok(len)) = cnp.map(|cnp| cnp.emit::<NoCrc>(&mut buffer)) {
            self.send_cnp(&buffer[..len], self.flow);
        }
    }

    fn peer(&mut self, at: Queue, message: PeerMessage) {
        self.sent.push(Sent::Peer(at, message));
    }

    fn queued(&self, at: Queue) -> Bytes {
        Bytes::new(self.ports[usize::from(at.port)].data[usize::from(at.class)].bytes)
    }

    fn arrived(&self, at: Queue) -> Bytes {
        Bytes::new(self.ports[usize::from(at.port)].arrived[usize::from(at.class)])
    }
}

impl SendPfc for Output<'_> {
    fn pfc(&mut self, at: Queue, quanta: u16) {
        self.sent.push(Sent::Pfc(at, quanta));
    }
}

/// These stages, on the queues of so many ports, none of which is configured.
///
/// # Errors
/// No such stage, or stages that cannot be in one list.
fn list(stages: &Stages, ports: usize) -> Result<Chain> {
    let mut chain = Chain::new(instant(0));
    chain.make_room(ports * Queue::CLASSES);
    for (name, settings) in stages {
        chain.stages_mut().add(name, settings)?;
    }
    Ok(chain)
}

/// Checks that a port to a link can have these stages.
///
/// # Errors
/// No such stage, stages that cannot be in one list, or settings that do not fit the link.
pub(crate) fn check_stages(stages: &Stages, link: &Link) -> Result<()> {
    Ok(new_chain(stages, 1)?.configure(instant(0), Queue { port: 0, class: 0 }, link, &(), 0)?)
}

/// The stages of some ports of a switch, which begin with the settings of the first of these ports.
///
/// # Errors
/// No such stage, or stages that do not go together.
fn new_chain(stages: &Stages, ports: usize) -> Result<Chain> {
    let chain = list(stages, ports)?;
    let takes_replies = takes_replies(&chain);
    for counting in [<Mmu as OnQueues>::Stage::<Heap>::NAME, <Relays as QueueStage>::NAME] {
        ensure!(
            !takes_replies || stages.iter().all(|&(name, _)| name != counting),
            "stage {counting} counts packets that arrive, and another at the same ports takes acknowledgements and CNPs as \
             arrivals: expected them at other ports, or [buffer] in place of mmu"
        );
    }
    Ok(chain)
}

/// Whether the acknowledgements and CNPs of the flows that leave by a port are arrivals there: for stages that read headers.
fn takes_replies(chain: &Chain) -> bool {
    chain.stages().reads_headers() && chain.stages().takes().contains(EventKind::Arrival)
}

impl Switch {
    /// The switch at a node, with these ports, the first of which is `first_port` among all, this buffer, and these stages of each
    /// port at its queues of these classes.
    pub(super) fn new(
        (node, first_port, is_relay): (u32, u32, bool),
        (ports, buffer): (&[Port], Option<SharedBuffer>),
        (line_bytes, base_rtt): (u16, Nanos),
        classes: u8,
        stages: Vec<Stages>,
        seed: u64,
    ) -> Result<Self> {
        let (mut chains, mut port_stages) = (Vec::<Chain>::new(), Vec::new());
        let mut names: Vec<Vec<&str>> = Vec::new();
        for (number, (port, stages)) in ports.iter().zip(stages).enumerate() {
            let own: Vec<&str> = stages.iter().map(|&(name, _)| name).collect();
            let holds = own.contains(&<PerFlowQueues as QueueStage>::NAME);
            let found = names.iter().position(|other| *other == own);
            let place = found.unwrap_or(names.len());
            if found.is_none() {
                chains.push(new_chain(&stages, ports.len())?);
                names.push(own);
            }
            let chain = &mut chains[place];
            for (name, settings) in stages {
                chain.stages_mut().set(name, &settings)?;
            }
            let line_rate = Rate::from_bits_per_second(port.bits_per_second());
            let link = Link { line_rate, mtu: Bytes::new(line_bytes.into()), base_rtt };
            for class in (0..8).filter(|class| classes >> class & 1 != 0) {
                chain.configure(instant(0), Queue { port: number as u16, class }, &link, &(), seed)?;
            }
            let (takes, reads_headers) = (chain.stages().takes(), chain.stages().reads_headers());
            let takes_replies = takes_replies(chain);
            port_stages.push(PortStages { chain: place as u16, takes, reads_headers, takes_replies, holds });
        }
        Ok(Self {
            node,
            first_port,
            chains,
            cores: Vec::new(),
            follows_flows: port_stages
                .iter()
                .any(|stages| stages.takes_replies || stages.takes.contains(EventKind::Enqueue)),
            stages: port_stages,
            is_relay,
            buffer,
            feedback: SwitchFeedback { node, ..SwitchFeedback::default() },
            sent: Vec::new(),
            leaving: Vec::new(),
            wake_at: Picos::MAX,
            active_at: 0,
        })
    }

    /// Lets its chains run on these cores.
    pub(super) fn put_on_cores(&mut self, cores: Vec<CoreStages>) -> Result<()> {
        if !cores.is_empty() {
            for chain in &mut self.chains {
                *chain = list(&Stages::new(), self.stages.len())?;
            }
        }
        self.cores = cores;
        Ok(())
    }

    /// Packets that wait for the verdicts of its cores, or have them and wait for the link.
    pub(super) fn held_packets(&self) -> usize {
        self.cores.iter().map(CoreStages::held).sum::<usize>() + self.leaving.len()
    }

    /// Takes the packet that a port has taken from a queue and that has not begun to leave, if there is one.
    pub(super) fn take_held(&mut self, port: u32) -> Option<PacketId> {
        let decided =
            self.leaving.iter().position(|&(of, _)| of == port).map(|place| self.leaving.swap_remove(place).1);
        decided.or_else(|| self.cores.iter_mut().find_map(|core| core.take_leaving(port)))
    }

    /// What its cores did.
    pub(super) fn core_uses(&self) -> impl Iterator<Item = (u32, CoreUse)> {
        self.cores.iter().map(|core| (self.node, core.usage()))
    }

    /// The events in front of its cores, if it has any with a clock.
    pub(super) fn core_queue(&self) -> Option<usize> {
        let clocked = || self.cores.iter().filter(|core| core.is_clocked());
        clocked().next().map(|_| clocked().map(|core| core.usage().waiting).sum())
    }

    /// Whether stages of a port read headers: these may send CNPs, which name a flow by its receiver and the queue pair there.
    pub(super) fn reads_headers(&self) -> bool {
        self.stages.iter().any(|stages| stages.reads_headers)
    }

    /// The pseudo queue of a port, counted over all nodes: the bytes and the rates of all classes together.
    fn pseudo_queue(&self, port: u32) -> Option<(u32, Rate)> {
        let chain = &self.chains[usize::from(self.stages(port).chain)];
        let of_queue = |class| {
            let queue = Queue { port: (port - self.first_port) as u16, class };
            match self.cores.iter().find(|core| core.serves(queue)) {
                None => chain.stages().pseudo_queue(queue),
                Some(core) => core.pseudo_queue(queue),
            }
        };
        let of_classes = (0..Queue::CLASSES as u8).filter_map(of_queue);
        let sum =
            of_classes.reduce(|(bytes, rate), (more, other)| (bytes.saturating_add(more), rate.saturating_add(other)));
        sum.map(|(bytes, rate)| (bytes.get(), rate))
    }

    /// Whether the stages of a port hold flows, which then needs queues for them.
    pub(super) fn holds(&self, port: u32) -> bool {
        self.stages(port).holds
    }

    /// The stages of a port, counted over all nodes.
    fn stages(&self, port: u32) -> PortStages {
        self.stages[(port - self.first_port) as usize]
    }

    /// The port, counted over all nodes, whose stages the PFC frames of a port are about, and the other way round.
    fn across(&self, port: u32) -> u32 {
        if self.is_relay { 2 * self.first_port + 1 - port } else { port }
    }

    /// When its stages are to be called next.
    fn next_wake(&self) -> u64 {
        let chains = self.chains.iter().map(|chain| chain.next_wake().nanos());
        chains.chain(self.cores.iter().map(CoreStages::next_wake)).min().unwrap_or(u64::MAX)
    }

    /// Its node number.
    pub(super) const fn node(&self) -> u32 {
        self.node
    }
}

impl Network<'_> {
    /// Gives the stages of a switch an event of a port's queue, with the flow and the bytes of its packet; the bytes are empty if the
    /// stages do not read headers. What they emit is kept for [`Network::send_emitted`].
    ///
    /// Returns the verdict; `None` if the stages run on a core, on whose verdict the packet `held` now waits.
    fn stage(
        &mut self,
        now: Picos,
        switch: u32,
        (port, class): (u32, u8),
        (flow, frame): (u32, &[u8]),
        event: &Event<'_>,
        held: Option<HeldPacket>,
    ) -> Option<Verdict> {
        let at = &mut self.switches[switch as usize];
        let Switch { first_port, chains, cores, stages, sent, .. } = at;
        let ports = &self.ports[*first_port as usize..];
        let number = (port - *first_port) as u16;
        let queue = Queue { port: number, class };
        let PortStages { chain, takes, .. } = stages[usize::from(number)];
        let chain = &mut chains[usize::from(chain)];
        let mut output = Output { slab: &mut self.slab, ports, sent, injected: &mut self.totals.injected, flow };
        if !cores.is_empty()
            && takes.contains(event.kind())
            && let Some(core) = cores.iter_mut().find(|core| core.serves(queue))
        {
            let held = held.filter(|held| core.admits() || matches!(held, HeldPacket::Leaving { .. }));
            core.deliver(now, queue, (event, frame), held, &mut output);
            return held.is_none().then_some(Verdict::PASS);
        }
        Some(chain.on(instant(now), queue, event, &mut output))
    }

    /// A packet has arrived at a switch: it waits at the port of its route, or leaves at once.
    pub(super) fn forward(&mut self, now: Picos, switch: u32, ingress: u32, packet: PacketId) -> Result<()> {
        let meta = self.slab.meta_mut(packet);
        let counted = meta.kind == Kind::Data || self.effects.acks_with_data;
        (meta.ingress, meta.counted) = (ingress, counted);
        let meta = *meta;
        let Some(egress) = self.egress(now, switch, packet, &meta)? else { return Ok(()) };
        if self.drops_in_storms && counted && self.ports[egress as usize].ignored >> meta.class & 1 != 0 {
            self.drop_in_storm(egress, meta.class, packet);
            return Ok(());
        }
        self.enter::<false>(now, switch, (ingress, egress), packet, meta)
    }

    /// A packet that has come by one port of a switch and will leave by another joins the queue there, or leaves at once, if there is room
    /// for it. The stages have admitted it, or decide about it; if they run on a core, it waits for its verdict.
    #[inline(always)]
    fn enter<const ADMITTED: bool>(
        &mut self,
        now: Picos,
        switch: u32,
        (ingress, egress): (u32, u32),
        packet: PacketId,
        Meta { kind, line_bytes, class, counted, .. }: Meta,
    ) -> Result<()> {
        let bytes = u32::from(line_bytes);
        let at = &mut self.switches[switch as usize];
        at.active_at = now;
        let arrived = self.ports[ingress as usize].arrived[usize::from(class)];
        let from = Ingress { port: (ingress - at.first_port) as usize, class, arrived };
        let mut part = None;
        if counted && let Some(buffer) = &at.buffer {
            let queued = self.ports[egress as usize].class_bytes(class);
            part = buffer.room(from, ((egress - at.first_port) as usize, queued), bytes);
            if part.is_none() {
                self.totals.lossless_dropped += u64::from(buffer.is_lossless(class));
                if ADMITTED {
                    self.release_at_stages(now, switch, packet);
                }
                self.drop_packet(packet);
                return Ok(());
            }
        }
        let follows_flows = at.follows_flows;
        let stages = at.stages(ingress);
        if !ADMITTED && kind == Kind::Data && stages.takes.contains(EventKind::Arrival) && !stages.holds {
            let held = HeldPacket::Arriving { ingress, egress, packet };
            let admits = self.admit(now, switch, (ingress, class), packet, Some(held))?;
            if admits == Some(false) {
                self.refuse(packet);
            }
            self.send_emitted(now, switch)?;
            if admits != Some(true) {
                return Ok(());
            }
        }
        if counted {
            self.ports[ingress as usize].arrived[usize::from(class)] = arrived + bytes;
        }
        if let Some(part) = part {
            self.charge(now, switch, from, part, bytes);
        }
        if follows_flows {
            self.follow(now, switch, egress, packet)?;
        }
        let port = &mut self.ports[egress as usize];
        let queue = port.push(&mut self.slab, packet, counted.then_some(class));
        self.totals.longest_queue = self.totals.longest_queue.max(queue.into());
        if self.effects.marks_arrivals {
            self.slab.meta_mut(packet).joined = port.data[usize::from(class)].bytes;
        }
        self.queue_changed(now, egress, packet, true);
        if self.measurement.is_some() {
            self.ingress_changed(now, ingress);
        }
        self.start_sending(now, switch, egress)
    }

    /// The stages of a switch have no room for a packet.
    fn refuse(&mut self, packet: PacketId) {
        self.totals.lossless_dropped += 1;
        self.drop_packet(packet);
    }

    /// The port by which a packet leaves a switch; `None` if it does not, because links have failed.
    #[inline(always)]
    fn egress(&mut self, now: Picos, switch: u32, packet: PacketId, meta: &Meta) -> Result<Option<u32>> {
        if self.faults.has_failures {
            return Ok(self.egress_around(now, switch, packet));
        }
        let Meta { flow, hops, kind, .. } = *meta;
        Ok(Some(match kind {
            Kind::Cnp => self.egress_of_cnp(switch, flow),
            Kind::Data | Kind::Ack | Kind::Request | Kind::Reply | Kind::ReadRequest => {
                match self.senders[flow as usize].egress_at(kind, hops.into()) {
                    Some(egress) => egress,
                    None => self.spray(switch, flow)?,
                }
            }
        }))
    }

    /// Measures the pseudo queue of a switch's port, if it has one.
    fn measure_pseudo_queue(&mut self, now: Picos, switch: u32, port: u32) {
        if let Some(measurement) = &mut self.measurement
            && let Some((bytes, rate)) = self.switches[switch as usize].pseudo_queue(port)
        {
            measurement.change_pseudo_queue(now, port, bytes, rate);
        }
    }

    /// Drops all packets of a switch's queue, which is in a storm.
    pub(super) fn empty_queue(&mut self, now: Picos, switch: u32, port: u32, class: u8) -> Result<()> {
        while let Some(packet) = self.ports[port as usize].take(class, &mut self.slab) {
            self.queue_changed(now, port, packet, false);
            self.release(now, switch, packet);
            self.drop_in_storm(port, class, packet);
        }
        self.send_emitted(now, switch)
    }

    /// Drops a packet.
    pub(super) fn drop_packet(&mut self, packet: PacketId) {
        self.totals.dropped += 1;
        self.slab.remove(packet);
    }

    /// Charges a packet to the buffer of a switch, which may begin a pause.
    #[inline(always)]
    fn charge(&mut self, now: Picos, switch: u32, from: Ingress, part: Part, bytes: u32) {
        if let Some(buffer) = &mut self.switches[switch as usize].buffer
            && buffer.charge(from, part, bytes)
        {
            self.change_pause(now, switch, from.port, from.class);
        }
    }

    /// A packet leaves a switch: it is no longer counted at its ingress, which may end a pause.
    #[inline(always)]
    pub(super) fn release(&mut self, now: Picos, switch: u32, packet: PacketId) {
        let Meta { line_bytes, class, ingress, .. } = *self.slab.meta(packet);
        let bytes = u32::from(line_bytes);
        self.release_at_stages(now, switch, packet);
        let counted = &mut self.ports[ingress as usize].arrived[usize::from(class)];
        let arrived = *counted;
        *counted -= bytes;
        if self.measurement.is_some() {
            self.ingress_changed(now, ingress);
        }
        let at = &mut self.switches[switch as usize];
        let from = Ingress { port: (ingress - at.first_port) as usize, class, arrived };
        if let Some(buffer) = &mut at.buffer
            && buffer.release(from, bytes)
        {
            self.change_pause(now, switch, from.port, class);
        }
    }

    /// The stages at the port by which a packet came count it no longer.
    #[inline(always)]
    fn release_at_stages(&mut self, now: Picos, switch: u32, packet: PacketId) {
        let Meta { flow, kind, line_bytes, class, ingress, .. } = *self.slab.meta(packet);
        if kind == Kind::Data && self.switches[switch as usize].stages(ingress).takes.contains(EventKind::Release) {
            let queued = Bytes::new(self.ports[ingress as usize].arrived[usize::from(class)]);
            let event = Event::Release { bytes: Bytes::new(line_bytes.into()), queued };
            self.stage(now, switch, (ingress, class), (flow, &[]), &event, None);
        }
    }

    /// The buffer of a switch wants a class paused, or no longer, or its pause is to be renewed.
    #[cold]
    pub(super) fn change_pause(&mut self, now: Picos, switch: u32, port: usize, class: u8) {
        let at = &mut self.switches[switch as usize];
        let Some(buffer) = &mut at.buffer else { return };
        let before = buffer.renew_at;
        let quanta = buffer.joined(port, class, now);
        if buffer.renew_at < before {
            self.calendar.add(Scheduled::new(buffer.renew_at, EventClass::Wake, at.node));
        }
        let port = at.first_port + port as u32;
        self.send_pfc(now, port, class, quanta);
    }

    /// Sends a PFC frame to the neighbour at a port.
    fn send_pfc(&mut self, now: Picos, port: u32, class: u8, quanta: u16) {
        self.totals.pfc_frames += 1;
        self.send_notice(now, port, pfc::FRAME_LEN, Notice::Pfc(class, quanta));
    }

    /// A packet joins the queue of a port of a switch that has stages which hold flows, or take replies or packets that join. To
    /// those that hold flows a data packet arrives at its queue; an acknowledgement or CNP arrives at the queue by which the data
    /// of its flow leaves the switch, whatever the way back.
    #[cold]
    fn follow(&mut self, now: Picos, switch: u32, egress: u32, packet: PacketId) -> Result<()> {
        let Meta { flow, kind, class, line_bytes, .. } = *self.slab.meta(packet);
        let at = &self.switches[switch as usize];
        if kind == Kind::Data && at.stages(egress).takes.contains(EventKind::Enqueue) {
            let event = Event::Enqueue { bytes: Bytes::new(line_bytes.into()) };
            self.stage(now, switch, (egress, class), (flow, &[]), &event, None);
            self.measure_pseudo_queue(now, switch, egress);
            self.send_emitted(now, switch)?;
        }
        let at = &self.switches[switch as usize];
        let port = match kind {
            Kind::Data => Some(egress).filter(|&port| at.stages(port).holds),
            Kind::Ack | Kind::Cnp => {
                let port = self.senders[flow as usize].way().iter().copied();
                let mut port = port.filter(|&port| self.ports[port as usize].node == at.node);
                port.next().filter(|&port| at.stages(port).takes_replies)
            }
            Kind::Request | Kind::Reply | Kind::ReadRequest => None,
        };
        let Some(port) = port else { return Ok(()) };
        self.admit(now, switch, (port, self.specs[flow as usize].class), packet, None)?;
        self.send_emitted(now, switch)
    }

    /// Whether the stages of a port's queue take a packet that arrives; `None` if they run on a core, on whose verdict it now waits.
    #[inline(never)]
    fn admit(
        &mut self,
        now: Picos,
        switch: u32,
        (ingress, class): (u32, u8),
        packet: PacketId,
        held: Option<HeldPacket>,
    ) -> Result<Option<bool>> {
        let Meta { flow, line_bytes, .. } = *self.slab.meta(packet);
        let queued = Bytes::new(self.ports[ingress as usize].arrived[usize::from(class)]);
        let bytes = Bytes::new(line_bytes.into());
        let verdict = if self.switches[switch as usize].stages(ingress).reads_headers {
            self.with_headers(packet, |network, roce, frame| {
                let event = Event::Arrival { packet: Packet { bytes, roce: Some(roce) }, queued };
                Ok(network.stage(now, switch, (ingress, class), (flow, frame), &event, held))
            })?
        } else {
            let event = Event::Arrival { packet: Packet::of(bytes), queued };
            self.stage(now, switch, (ingress, class), (flow, &[]), &event, held)
        };
        Ok(verdict.map(|verdict| !verdict.drop))
    }

    /// A switch's port begins to send if it is free, and is called again when it will be.
    pub(super) fn start_sending(&mut self, now: Picos, switch: u32, egress: u32) -> Result<()> {
        let port = &mut self.ports[egress as usize];
        if port.free_scheduled != Picos::MAX {
            return Ok(());
        }
        if now < port.free_at {
            port.free_scheduled = port.free_at;
            self.calendar.add(Scheduled::new(port.free_at, EventClass::Free, egress));
            return Ok(());
        }
        self.send(now, switch, egress)
    }

    /// A switch's port may send: it has become free, or a pause or a hold is over.
    pub(super) fn free(&mut self, now: Picos, port: u32) -> Result<()> {
        let at = &mut self.ports[port as usize];
        if at.free_scheduled == now {
            at.free_scheduled = Picos::MAX;
        }
        if at.free_scheduled == HELD {
            return self.free_held(now, port);
        }
        if now < at.free_at {
            // A PFC frame leaves, which has delayed the packets of the queues.
            if at.free_scheduled == Picos::MAX && at.has_packets() {
                at.free_scheduled = at.free_at;
                self.calendar.add(Scheduled::new(at.free_at, EventClass::Free, port));
            }
            return Ok(());
        }
        match self.places[at.node as usize] {
            Place::Switch(switch) => self.send(now, switch, port),
            Place::Host(_) => Ok(()),
        }
    }

    /// A free port of a switch begins to send the next packet, if one may leave.
    fn send(&mut self, now: Picos, switch: u32, egress: u32) -> Result<()> {
        let port = &mut self.ports[egress as usize];
        let packet = match port.next(now, &mut self.slab) {
            Ok(packet) => packet,
            Err(later) => {
                if let Some(later) = later {
                    self.calendar.add(Scheduled::new(later, EventClass::Free, egress));
                }
                return Ok(());
            }
        };
        self.queue_changed(now, egress, packet, false);
        let kind = self.slab.meta(packet).kind;
        if kind == Kind::Data && !self.depart(now, switch, egress, packet)? {
            return self.send_emitted(now, switch);
        }
        self.leave(now, switch, egress, packet);
        if kind == Kind::Data { self.send_emitted(now, switch) } else { Ok(()) }
    }

    /// A packet that a switch's port has taken from a queue begins to leave.
    #[inline(always)]
    fn leave(&mut self, now: Picos, switch: u32, egress: u32, packet: PacketId) {
        if self.slab.meta(packet).counted {
            self.release(now, switch, packet);
        }
        self.begin(now, egress, packet);
        let port = &mut self.ports[egress as usize];
        if port.has_packets() {
            port.free_scheduled = port.free_at;
            self.calendar.add(Scheduled::new(port.free_at, EventClass::Free, egress));
        }
    }

    /// A packet that a switch's port has taken from a queue has its verdict. It begins to leave, unless a PFC frame or a message is
    /// leaving.
    #[cold]
    fn leave_held(&mut self, now: Picos, switch: u32, egress: u32, packet: PacketId) {
        let port = &mut self.ports[egress as usize];
        if now < port.free_at {
            self.calendar.add(Scheduled::new(port.free_at, EventClass::Free, egress));
            self.switches[switch as usize].leaving.push((egress, packet));
        } else {
            port.free_scheduled = Picos::MAX;
            self.leave(now, switch, egress, packet);
        }
    }

    /// The port of a switch, which has taken a packet from a queue, may send: that packet, if it has its verdict.
    #[cold]
    fn free_held(&mut self, now: Picos, egress: u32) -> Result<()> {
        let Place::Switch(switch) = self.places[self.ports[egress as usize].node as usize] else { return Ok(()) };
        let leaving = &mut self.switches[switch as usize].leaving;
        if let Some(place) = leaving.iter().position(|&(port, _)| port == egress) {
            let (_, packet) = leaving.swap_remove(place);
            self.leave_held(now, switch, egress, packet);
            self.send_emitted(now, switch)?;
        }
        Ok(())
    }

    /// Carries out the verdict of a core on a packet that has waited for it.
    #[cold]
    fn decided(&mut self, now: Picos, switch: u32, held: HeldPacket, verdict: Verdict) -> Result<()> {
        match held {
            HeldPacket::Leaving { port, packet, ecn } => {
                self.apply(now, switch, port, packet, ecn, verdict);
                self.leave_held(now, switch, port, packet);
                Ok(())
            }
            HeldPacket::Arriving { packet, .. } if verdict.drop => {
                self.refuse(packet);
                Ok(())
            }
            HeldPacket::Arriving { ingress, egress, packet } => {
                if let Some(fault) = self.faults.down_by(self.ports[egress as usize].link) {
                    self.release_at_stages(now, switch, packet);
                    self.lose(now, egress, packet, fault);
                    return Ok(());
                }
                let meta = *self.slab.meta(packet);
                self.enter::<true>(now, switch, (ingress, egress), packet, meta)
            }
        }
    }

    /// Lets packets leave that have waited for the verdicts of cores, before frames are sent that the stages have emitted with these
    /// verdicts.
    #[cold]
    fn leave_decided(&mut self, now: Picos, switch: u32) -> Result<()> {
        loop {
            let at = &mut self.switches[switch as usize];
            if let Some(fault) = at.cores.iter_mut().find_map(CoreStages::take_fault) {
                return Err(fault.context(format!("the core of switch {}", at.node)));
            }
            let leaves = |sent: &Sent| matches!(sent, Sent::Decided(HeldPacket::Leaving { .. }, _));
            let Some(place) = at.sent.iter().position(leaves) else { return Ok(()) };
            if let Sent::Decided(held, verdict) = at.sent.remove(place) {
                self.decided(now, switch, held, verdict)?;
            }
        }
    }

    /// A data packet leaves a queue that no longer counts it: the stages mark, measure, hold and rewrite. Returns whether they have;
    /// if they run on a core, the packet waits for its verdict, and the port sends nothing else.
    fn depart(&mut self, now: Picos, switch: u32, egress: u32, packet: PacketId) -> Result<bool> {
        let Meta { flow, line_bytes, class, joined, .. } = *self.slab.meta(packet);
        let bytes = Bytes::new(line_bytes.into());
        let PortStages { takes, reads_headers, .. } = self.switches[switch as usize].stages(egress);
        if takes.contains(EventKind::Departure) {
            let behind = self.ports[egress as usize].data[usize::from(class)].bytes;
            let all_behind = self.ports[egress as usize].data_bytes;
            let of_packet = u32::from(line_bytes);
            let queued = Bytes::new(match self.effects {
                Effects { marks_arrivals: true, .. } => joined,
                Effects { marks_behind: true, .. } => behind,
                _ => behind + of_packet,
            });
            let port_queued = Bytes::new(all_behind + of_packet);
            let (ecn, verdict) = if reads_headers {
                self.with_headers(packet, |network, roce, frame| {
                    let held = Some(HeldPacket::Leaving { port: egress, packet, ecn: roce.ecn });
                    let packet = Packet { bytes, roce: Some(roce) };
                    let event = Event::Departure { packet, ecn: roce.ecn, queued, port_queued };
                    Ok((roce.ecn, network.stage(now, switch, (egress, class), (flow, frame), &event, held)))
                })?
            } else {
                let ecn = wire::ecn(self.slab.header(packet)).unwrap_or(Ecn::NotEct);
                let held = Some(HeldPacket::Leaving { port: egress, packet, ecn });
                let event = Event::Departure { packet: Packet::of(bytes), ecn, queued, port_queued };
                (ecn, self.stage(now, switch, (egress, class), (flow, &[]), &event, held))
            };
            let Some(verdict) = verdict else {
                self.ports[egress as usize].free_scheduled = HELD;
                return Ok(false);
            };
            self.apply(now, switch, egress, packet, ecn, verdict);
        }
        Ok(true)
    }

    /// Carries out the verdict on a data packet that leaves by a port of a switch and that had these ECN bits.
    #[inline(always)]
    fn apply(&mut self, now: Picos, switch: u32, egress: u32, packet: PacketId, ecn: Ecn, mut verdict: Verdict) {
        let Meta { flow, class, .. } = *self.slab.meta(packet);
        let mut leaves_with = verdict.leaves_with(ecn);
        if leaves_with != ecn && self.ports[egress as usize].unmarked >> class & 1 != 0 {
            verdict.mark = Mark::None;
            leaves_with = verdict.leaves_with(ecn);
        }
        // Most packets leave as they came.
        if leaves_with != ecn || verdict.hop.is_some() || verdict.rewrite.is_some() {
            let writes = self.data.1.write_verdict(self.slab.header_mut(packet), &verdict, ecn);
            self.switches[switch as usize].feedback.telemetry += u64::from(writes);
            let port = &mut self.ports[egress as usize];
            port.marks += u64::from(ecn != Ecn::Ce && leaves_with == Ecn::Ce);
            port.undetermined += u64::from(ecn != Ecn::Ect1 && leaves_with == Ecn::Ect1);
        }
        self.ports[egress as usize].hold(flow, now, verdict.hold, &mut self.slab);
    }

    /// Sends the frames that the stages of a switch have emitted, and schedules their timer. PFC frames and messages to other
    /// switches do not wait in a queue, and go no further than the neighbour.
    ///
    /// # Errors
    /// Those of the tap, to which the CNPs are passed.
    #[inline(always)]
    pub(super) fn send_emitted(&mut self, now: Picos, switch: u32) -> Result<()> {
        let at = &self.switches[switch as usize];
        // After most packets, nothing.
        let is_idle = at.cores.is_empty() && at.sent.is_empty() && at.next_wake().saturating_mul(1_000) >= at.wake_at;
        if is_idle { Ok(()) } else { self.send_all_emitted(now, switch) }
    }

    #[inline(never)]
    fn send_all_emitted(&mut self, now: Picos, switch: u32) -> Result<()> {
        if !self.switches[switch as usize].cores.is_empty() {
            self.leave_decided(now, switch)?;
        }
        let at = &mut self.switches[switch as usize];
        let wake = at.next_wake().saturating_mul(1_000).max(now.next_multiple_of(1_000));
        let rests = self.open_flows == 0 && wake > at.active_at + REST;
        if wake < at.wake_at && !rests {
            at.wake_at = wake;
            self.calendar.add(Scheduled::new(wake, EventClass::Wake, at.node));
        }
        for sent in std::mem::take(&mut at.sent) {
            match sent {
                Sent::Cnp(packet) => self.send_cnp(now, switch, packet)?,
                Sent::Pfc(Queue { port, class }, quanta) => {
                    let at = &mut self.switches[switch as usize];
                    let port = at.across(at.first_port + u32::from(port));
                    let number = (port - at.first_port) as usize;
                    let joined = at.buffer.as_mut().map(|buffer| buffer.stages_want(number, class, quanta, now));
                    self.send_pfc(now, port, class, joined.unwrap_or(quanta));
                }
                Sent::Peer(queue, message) => {
                    let at = &mut self.switches[switch as usize];
                    at.feedback.messages_sent += 1;
                    let port = at.first_port + u32::from(queue.port);
                    self.send_notice(now, port, RateFrame::LONGEST, Notice::Peer(queue.class, message));
                }
                Sent::Decided(held, verdict) => self.decided(now, switch, held, verdict)?,
            }
        }
        Ok(())
    }

    /// A switch sends a CNP to the sender of its flow.
    fn send_cnp(&mut self, now: Picos, switch: u32, packet: PacketId) -> Result<()> {
        self.show(now, Origin::Switch, packet)?;
        self.switches[switch as usize].feedback.cnps += 1;
        let meta = *self.slab.meta(packet);
        let Some(egress) = self.egress(now, switch, packet, &meta)? else { return Ok(()) };
        self.ports[egress as usize].push(&mut self.slab, packet, None);
        self.start_sending(now, switch, egress)
    }

    /// The port by which a switch sends a data packet of a flow that is sprayed.
    #[cold]
    fn spray(&mut self, switch: u32, flow: u32) -> Result<u32> {
        let (node, to) = (self.switches[switch as usize].node, self.specs[flow as usize].destination);
        let next = self.spray.as_mut().and_then(|spray| spray.next(&self.routes, node, to));
        next.with_context(|| format!("flow {flow}: no path from node {node} to node {to}"))
    }

    /// The port by which a switch sends the CNPs of a flow. They may begin at any switch that the flow passes, so that each switch
    /// chooses by itself, by the hash that it has for acknowledgements.
    fn egress_of_cnp(&self, switch: u32, flow: u32) -> u32 {
        let FlowSpec { source, tuple, .. } = self.specs[flow as usize];
        let next = self.routes.next(self.switches[switch as usize].node, source, tuple.reversed());
        next.expect("links are full duplex: the way of the flow leads back")
    }

    /// Something of so many bytes goes to the neighbour at a port, before all that waits there and behind what leaves now.
    pub(super) fn send_notice(&mut self, now: Picos, port: u32, bytes: usize, notice: Notice) {
        let at = &mut self.ports[port as usize];
        if at.is_down() {
            if let Some(fault) = self.faults.down_by(at.link) {
                self.faults.count(fault, 1);
            }
            return;
        }
        at.free_at = at.free_at.max(now) + at.serialisation(bytes as u16);
        let arrives = at.free_at + at.delay();
        at.sent += 1;
        at.sent_bytes += bytes as u64;
        let Port { node, peer, .. } = *at;
        self.show_notice(now, Origin::Sent, port, node, notice);
        self.ports[peer as usize].notices.push_back((arrives, notice));
        self.calendar.add(Scheduled::new(arrives, EventClass::Notice, peer));
    }

    /// Passes a PFC frame that a node sends to the taps of a port.
    fn show_notice(&mut self, now: Picos, origin: Origin, port: u32, sender: u32, notice: Notice) {
        if let Notice::Pfc(class, quanta) = notice {
            self.show_at_port(now, origin, port, |_| packet::emit_pfc(sender as usize, class, quanta));
        }
    }

    /// Something that the neighbour at a port has sent past the queues has arrived.
    #[inline(never)]
    pub(super) fn notice(&mut self, now: Picos, port: u32) -> Result<()> {
        while let Some(place) = self.ports[port as usize].notices.iter().position(|&(arrives, _)| arrives <= now) {
            let Some((_, notice)) = self.ports[port as usize].notices.remove(place) else { break };
            let peer = self.ports[port as usize].peer;
            let outcome = if self.ports[peer as usize].has_faults {
                self.faults.on_arrival(now, peer, || notice.frame_info())
            } else {
                Outcome::Arrives
            };
            let is_disturbed = matches!(outcome, Outcome::Lost(_) | Outcome::Held(_));
            self.totals.pfc_disturbed += u64::from(is_disturbed && matches!(notice, Notice::Pfc(..)));
            match outcome {
                Outcome::Arrives => self.accept_notice(now, port, notice)?,
                Outcome::Lost(_) => {}
                Outcome::Held(until) => self.hold(port, until, Held::Notice(notice)),
                Outcome::Twice => {
                    self.accept_notice(now, port, notice)?;
                    self.accept_notice(now, port, notice)?;
                }
            }
        }
        Ok(())
    }

    /// A frame that waits in no queue has arrived whole at a port.
    pub(super) fn accept_notice(&mut self, now: Picos, port: u32, notice: Notice) -> Result<()> {
        let Port { node, peer, .. } = self.ports[port as usize];
        self.show_notice(now, Origin::Arrived, port, self.ports[peer as usize].node, notice);
        let mut over = None;
        if let Notice::Pfc(class, quanta) = notice {
            let at = &mut self.ports[port as usize];
            let lasts = self.effects.pauses_until_resumed && quanta > 0;
            let time = (!lasts).then(|| at.quantum().pause(quanta));
            if at.ignored >> class & 1 == 0 {
                over = at.pause(class, now, time);
            } else {
                let until = time.map_or(Picos::MAX, |time| now + Picos::from(time.get()) * 1_000);
                self.ignore_pause(port, class, until);
            }
            let number = port - self.routes.first_port(node) + 1;
            self.totals.pfc.push(PfcRecord { at: now, node, port: number, pauses: quanta > 0 });
        }
        match (notice, self.places[node as usize]) {
            (Notice::Pfc(class, quanta), Place::Host(host)) => self.pause_host(now, host, class, quanta, over),
            (Notice::Pfc(class, quanta), Place::Switch(switch)) => {
                if let Some(over) = over {
                    self.calendar.add(Scheduled::new(over, EventClass::Free, port));
                }
                if quanta > 0 {
                    self.watch_pause(now, port, class);
                }
                let at = &self.ports[port as usize];
                let time = at.quantum().pause(quanta);
                let queued = Bytes::new(at.data[usize::from(class)].bytes);
                let port = self.switches[switch as usize].across(port);
                self.stage(now, switch, (port, class), (NO_FLOW, &[]), &Event::Pause { time, queued }, None);
                self.send_emitted(now, switch)
            }
            (Notice::Peer(class, message), Place::Switch(switch)) => {
                self.switches[switch as usize].feedback.messages_received += 1;
                self.stage(now, switch, (port, class), (NO_FLOW, &[]), &Event::Peer(message), None);
                self.send_emitted(now, switch)
            }
            (Notice::Peer(..), Place::Host(_)) => Ok(()),
        }
    }

    /// The stages of a switch do what has fallen due.
    #[inline(never)]
    pub(super) fn wake_switch(&mut self, now: Picos, switch: u32) -> Result<()> {
        let at = &mut self.switches[switch as usize];
        if let Some(buffer) = &mut at.buffer
            && buffer.renew_at <= now
        {
            let (due, next) = buffer.due(now);
            if let Some(next) = next {
                self.calendar.add(Scheduled::new(next, EventClass::Wake, at.node));
            }
            for (port, class) in due {
                self.change_pause(now, switch, port, class);
            }
        }
        let at = &mut self.switches[switch as usize];
        if at.wake_at != now {
            return Ok(());
        }
        at.wake_at = Picos::MAX;
        let Switch { first_port, chains, cores, sent, .. } = at;
        let ports = &self.ports[*first_port as usize..];
        let injected = &mut self.totals.injected;
        let mut output = Output { slab: &mut self.slab, ports, sent, injected, flow: NO_FLOW };
        for chain in chains {
            while chain.next_wake() <= instant(now) {
                chain.wake(instant(now), &mut output);
            }
        }
        for core in cores {
            core.run(now, &mut output);
        }
        if self.measurement.is_some() {
            let at = &self.switches[switch as usize];
            (at.first_port..at.first_port + at.stages.len() as u32)
                .for_each(|port| self.measure_pseudo_queue(now, switch, port));
        }
        self.send_emitted(now, switch)
    }
}
