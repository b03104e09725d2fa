//! Stages of switches that run on cores: the compiled image of a chain on a model of a core, with a clock of its own.

use super::Picos;
use super::core_nics::{Cores, Part, Records, Runs};
use super::packets::PacketId;
use super::port::Port;
use super::switch::{NO_FLOW, Output};
use crate::instant;
use crate::marking::Stages;
use anyhow::{Context, Error, Result, bail, ensure};
use cc_core::table::Heap;
use cc_core::wire::RateFrame;
use cc_core::{Bytes, Ecn, Link, Rate};
use cc_cp::mmu::Mmu;
use cc_cp::{Emit, Event, OnQueues, PeerMessage, Queue, SendPfc, Stage, Verdict, queues, registry};
use hil_algorithms::CoreUse;
use hil_cores::any_core::AnyCore;
use hil_cores::board::{Action, DEVICES, RAM, board_with};
use hil_cores::core::Design;
use hil_devices::core_queue::{CoreQueue, Effect};
use hil_devices::follower::Waiting;
use hil_devices::native_switch::{self, NativeSwitch};
use programs::descriptor::Descriptor;
use programs::layout::ImageInfo;
use programs::switch_ring::{ARRIVED, PORTS, QUEUES, StageAction, SwitchEvent, rate_frame};
use std::collections::VecDeque;
use std::rc::Rc;

/// A chain of stages of a switch that runs on a core, at up to [`PORTS`] ports.
///
/// A packet about which the chain decides waits for its verdict: one that leaves, at its port, which sends nothing else, and one that a
/// chain with a buffer of its own admits or drops, before it joins a queue.
pub(super) struct CoreStages {
    core: CoreQueue<NativeSwitch, AnyCore>,
    /// The switch's port that is the image's port 0.
    first_port: u16,
    /// The queues of the switch that have these stages. The image runs them at all of its queues; what it does at others is not carried
    /// out.
    queues: Vec<Queue>,
    /// The chain decides whether there is room for a packet that arrives.
    admits: bool,
    /// The events that the core has not finished with, the oldest first.
    posted: VecDeque<Posted>,
    is_clocked: bool,
    keeps_log: bool,
    /// The first error.
    fault: Option<Error>,
    node: u32,
    /// Its number among the cores of the switch.
    number: usize,
    records: Rc<Records>,
}

/// An event that a core has not finished with.
struct Posted {
    /// The flow of its packet.
    flow: u32,
    /// The packet, as long as it waits for its verdict.
    held: Option<Held>,
}

/// A packet that waits for its verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Held {
    /// It has left the queue of a port, which sends it next.
    Leaving {
        /// The port, counted over all nodes.
        port: u32,
        packet: PacketId,
        /// Its ECN bits.
        ecn: Ecn,
    },
    /// It has arrived, and joins a queue if it is admitted.
    Arriving {
        /// The ports by which it came and by which it will leave, counted over all nodes.
        ingress: u32,
        egress: u32,
        packet: PacketId,
    },
}

/// Ports of a switch that share a core: the same stages with the same settings and speeds, at ports of the same [`PORTS`] in the order of
/// their numbers.
struct Group {
    names: Vec<&'static str>,
    settings: Vec<Vec<u32>>,
    bits_per_second: u64,
    first_port: u16,
    queues: Vec<Queue>,
}

/// Whether one of these stages decides if there is room for a packet that arrives. Its buffer is one for all ports.
fn admits(stages: &[&str]) -> bool {
    stages.contains(&<Mmu as OnQueues>::Stage::<Heap>::NAME)
}

impl CoreStages {
    /// Those of the switch at `node`: one for each chain of stages. `classes` has a bit for each class whose queues have stages.
    ///
    /// # Errors
    /// An image cannot be built, read or started, or the ports with one buffer do not fit one image.
    pub(super) fn of_switch(
        (cores, design): (&Cores, Design),
        (node, seed): (u32, u64),
        (ports, stages): (&[Port], &[Stages]),
        (link, classes): (Link, u8),
        records: &Rc<Records>,
    ) -> Result<Vec<Self>> {
        let mut groups: Vec<Group> = Vec::new();
        for (number, (port, own)) in (0..).zip(ports.iter().zip(stages)) {
            if own.is_empty() {
                continue;
            }
            let mut own = own.clone();
            own.sort_by_key(|(name, _)| registry::NAMES.iter().position(|other| other == name));
            let (names, settings): (Vec<_>, Vec<_>) = own.into_iter().unzip();
            let (bits_per_second, first_port) = (port.bits_per_second(), number - number % PORTS as u16);
            let queues = (0..8).filter(|class| classes >> class & 1 != 0).map(|class| Queue { port: number, class });
            let is_same = |group: &&mut Group| {
                (&group.names, &group.settings) == (&names, &settings)
                    && (group.bits_per_second, group.first_port) == (bits_per_second, first_port)
            };
            match groups.iter_mut().find(is_same) {
                Some(group) => group.queues.extend(queues),
                None => {
                    groups.push(Group { names, settings, bits_per_second, first_port, queues: queues.collect() });
                }
            }
        }
        let buffers: Vec<&Group> = groups.iter().filter(|group| admits(&group.names)).collect();
        if let [one, other, ..] = buffers[..] {
            bail!(
                "switch {node}: ports {} and {} have {}, whose buffer all ports share, but no core runs both: expected them among the same \
                 {PORTS} ports (1 to {PORTS}, or the next {PORTS}), with the same stages, settings and speeds",
                one.queues[0].port + 1,
                other.queues[0].port + 1,
                <Mmu as OnQueues>::Stage::<Heap>::NAME
            );
        }
        let on_core = |(number, group): (usize, Group)| {
            let link = Link { line_rate: Rate::from_bits_per_second(group.bits_per_second), ..link };
            Self::new((cores, design), (node, number, seed), group, link, Rc::clone(records))
                .with_context(|| format!("switch {node}: a core {}", cores.name()))
        };
        groups.into_iter().enumerate().map(on_core).collect()
    }

    fn new(
        (cores, design): (&Cores, Design),
        (node, number, seed): (u32, usize, u64),
        Group { names, settings, first_port, queues, .. }: Group,
        link: Link,
        records: Rc<Records>,
    ) -> Result<Self> {
        ensure!(!cores.queue.joins, "events of a switch are not merged: expected the policy lose");
        let name = native_switch::image(&names);
        let (image, pace) = cores.image(&name, design)?;
        // The queues of the image have the random numbers of the switch's queues.
        let seed = queues::seed_of(seed, Queue { port: first_port, class: 0 }.index());
        let boot = native_switch::boot(&settings, &link, seed);
        let core = design.model(&RAM, DEVICES, 0, image.entry);
        let board = cores.expecting(&name, board_with(core, &image, &boot, pace))?;
        let ImageInfo { qps, .. } = board.report()?;
        ensure!(qps as usize == QUEUES, "the image reports {qps} queue pairs or queues: expected an image of {name}");
        let mut core = CoreQueue::new(NativeSwitch::new(&names, &settings, &link, seed)?, board, pace, cores.queue);
        if cores.keep_log {
            core.keep_log();
        }
        Ok(Self {
            core,
            first_port,
            queues,
            admits: admits(&names),
            posted: VecDeque::new(),
            is_clocked: cores.is_clocked(),
            keeps_log: cores.keep_log,
            fault: None,
            node,
            number,
            records,
        })
    }

    /// Whether a queue has these stages.
    pub(super) fn serves(&self, queue: Queue) -> bool {
        self.queues.contains(&queue)
    }

    /// Whether the chain decides if there is room for a packet that arrives.
    pub(super) const fn admits(&self) -> bool {
        self.admits
    }

    /// The image's queue that is this one of the switch.
    const fn in_image(&self, Queue { port, class }: Queue) -> Queue {
        Queue { port: port - self.first_port, class }
    }

    /// The switch's queue that is this one of the image, if it has these stages.
    fn in_switch(&self, Queue { port, class }: Queue) -> Option<Queue> {
        let queue = Queue { port: self.first_port + port, class };
        self.serves(queue).then_some(queue)
    }

    /// Calls a function of the core, with the registers of the queues as they are at present. The first error is kept.
    fn with<T>(
        &mut self,
        ports: &[Port],
        call: impl FnOnce(&mut CoreQueue<NativeSwitch, AnyCore>) -> Result<T>,
    ) -> Option<T> {
        if self.fault.is_some() {
            return None;
        }
        for &queue in &self.queues {
            let (port, class) = (&ports[usize::from(queue.port)], usize::from(queue.class));
            let index = self.in_image(queue).index();
            self.core.set_queued(index as u32, port.data[class].bytes);
            self.core.set_queued((ARRIVED + index) as u32, port.arrived[class]);
        }
        let done = self.records.timed(|| call(&mut self.core));
        if self.keeps_log {
            self.records.keep(Runs::Switch(self.node), Part::Stages, self.number, self.core.take_log());
        }
        done.map_err(|error| self.fault = Some(error)).ok()
    }

    /// Brings an event of a queue, with the frame that it is about, and with its packet if that waits for the verdict. The packet's port
    /// waits until the core takes the event; another event that finds the queue full is lost, and its packet then dropped if it waits.
    pub(super) fn deliver(
        &mut self,
        now: Picos,
        queue: Queue,
        (event, frame): (&Event<'_>, &[u8]),
        held: Option<Held>,
        output: &mut Output<'_>,
    ) {
        let at = self.in_image(queue);
        let mut buffer = [0; RateFrame::LONGEST];
        let (event, frame) = match *event {
            Event::Arrival { packet, queued } => (SwitchEvent::Arrival { bytes: packet.bytes, queued }, frame),
            Event::Enqueue { bytes } => (SwitchEvent::Enqueue { bytes }, &[][..]),
            Event::Release { bytes, queued } => (SwitchEvent::Release { bytes, queued }, &[][..]),
            Event::Departure { packet, ecn, queued, port_queued } => {
                (SwitchEvent::Departure { bytes: packet.bytes, ecn, queued, port_queued }, frame)
            }
            Event::Pause { time, queued } => (SwitchEvent::Pause { time, queued }, &[][..]),
            Event::Peer(PeerMessage::Relay(message)) => (SwitchEvent::Relay(message), &[][..]),
            Event::Peer(PeerMessage::Rate(message)) => {
                let length = rate_frame(at, message).emit(&mut buffer).expect("the buffer is long enough");
                let bytes = Bytes::new(length as u32);
                (SwitchEvent::Arrival { bytes, queued: Bytes::ZERO }, &buffer[..length])
            }
        };
        let now = instant(now).nanos();
        let descriptor = Descriptor { captured: frame.len() as u16, ..event.at(now, at) };
        let waiting = Waiting { descriptor, frame: frame.to_vec(), joins: None, opened: None };
        let mut is_lost = false;
        self.posted.push_back(Posted { flow: output.flow, held });
        self.with(output.ports, |core| {
            core.deliver(now, waiting, |lost| {
                lost.at_queues += 1;
                is_lost = true;
            })
        });
        if is_lost && let Some(held) = self.posted.pop_back().and_then(|posted| posted.held) {
            output.decide(held, Verdict { drop: true, ..Verdict::PASS });
        }
        while let Some(effect) = self.core.take_ready() {
            self.act(effect, output);
        }
    }

    /// Carries out what has taken effect until now.
    pub(super) fn run(&mut self, now: Picos, output: &mut Output<'_>) {
        while let Some(effect) = self.with(output.ports, |core| core.take(instant(now).nanos())).flatten() {
            self.act(effect, output);
        }
    }

    fn act(&mut self, Effect { action, is_of_descriptor, .. }: Effect, output: &mut Output<'_>) {
        let posted = if is_of_descriptor { self.posted.front_mut() } else { None };
        match action {
            // The core has finished with the event: a packet without a verdict passes unchanged.
            None => {
                if let Some(held) = self.posted.pop_front().and_then(|posted| posted.held) {
                    output.decide(held, Verdict::PASS);
                }
            }
            Some(Action::Frame(frame)) => {
                output.flow = posted.map_or(NO_FLOW, |posted| posted.flow);
                output.send_frame(&frame, |queue| self.in_switch(queue));
            }
            Some(Action::Stage(words)) => match StageAction::decode(&words) {
                Some((_, StageAction::Verdict(verdict))) => {
                    if let Some(held) = posted.and_then(|posted| posted.held.take()) {
                        output.decide(held, verdict);
                    }
                }
                Some((queue, StageAction::Pause(quanta))) => {
                    if let Some(queue) = self.in_switch(queue) {
                        output.pfc(queue, quanta);
                    }
                }
                Some((queue, StageAction::Relay(message))) => {
                    if let Some(queue) = self.in_switch(queue) {
                        output.peer(queue, PeerMessage::Relay(message));
                    }
                }
                None => {}
            },
            Some(Action::Pace(_) | Action::Log(_) | Action::Read { .. }) => {}
        }
    }

    /// Packets that wait for their verdicts.
    pub(super) fn held(&self) -> usize {
        self.posted.iter().filter(|posted| posted.held.is_some()).count()
    }

    /// Takes the packet that a port is to send next, whose verdict is then of no use.
    pub(super) fn take_leaving(&mut self, of: u32) -> Option<PacketId> {
        let is_of_port = |held: &mut Held| matches!(held, Held::Leaving { port, .. } if *port == of);
        let taken = self.posted.iter_mut().find_map(|posted| posted.held.take_if(is_of_port));
        taken.map(|(Held::Leaving { packet, .. } | Held::Arriving { packet, .. })| packet)
    }

    /// The first error of the core, once.
    pub(super) fn take_fault(&mut self) -> Option<Error> {
        self.fault.take()
    }

    /// When [`CoreStages::run`] is to be called next, in nanoseconds.
    pub(super) fn next_wake(&self) -> u64 {
        if self.fault.is_some() { 0 } else { self.core.next_time().unwrap_or(0) }
    }

    /// The pseudo queue of one of its queues.
    pub(super) fn pseudo_queue(&self, queue: Queue) -> Option<(Bytes, Rate)> {
        self.core.native().program().switch().stages().pseudo_queue(self.in_image(queue))
    }

    /// Whether each event takes time.
    pub(super) const fn is_clocked(&self) -> bool {
        self.is_clocked
    }

    /// What its core did.
    pub(super) fn usage(&self) -> CoreUse {
        CoreUse { part: Part::Stages.name(), ..self.core.usage() }
    }
}
