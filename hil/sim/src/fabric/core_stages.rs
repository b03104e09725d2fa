//! Stages of switches that run on cores: the compiled image of a chain on a model of a core, with a clock of its own.

use super::Picos;
use super::core_nics::{Cores, Part, Records, Runs};
use super::port::Port;
use super::switch::Output;
use crate::instant;
use crate::marking::Stages;
use anyhow::{Context, Error, Result, ensure};
use cc_core::wire::RateFrame;
use cc_core::{Bytes, Link, Rate};
use cc_cp::{Event, PeerMessage, Queue, Stage, Verdict};
use hil_algorithms::CoreUse;
use hil_cores::any_core::AnyCore;
use hil_cores::board::{Action, BootSettings, DEVICES, RAM, board_with};
use hil_cores::core::Design;
use hil_devices::core_queue::{CoreQueue, Effect};
use hil_devices::follower::Waiting;
use hil_devices::native_switch::{self, NativeSwitch};
use programs::descriptor::Descriptor;
use programs::layout::ImageInfo;
use programs::switch_ring::{PORTS, QUEUES, StageAction, SwitchEvent, rate_frame};
use std::rc::Rc;

/// The stages whose decisions may come late: they send CNPs and messages, and do the same to every packet with the same ECN bits.
/// What other stages decide, they decide about the packet that leaves, from the queue at that moment.
pub(super) const LATE: [&str; 2] = ["lscc_rate_calculation", "lscc_rate_limiting"];

/// A chain of stages of a switch that runs on a core.
pub(super) struct CoreStages {
    core: CoreQueue<NativeSwitch, AnyCore>,
    /// The queues that have these stages. The image runs them at all of its queues; what it does at others is not carried out.
    queues: Vec<Queue>,
    /// The last verdict at each of these queues on a packet with these ECN bits.
    verdicts: Vec<[Verdict; 4]>,
    is_clocked: bool,
    keeps_log: bool,
    /// The first error.
    fault: Option<Error>,
    node: u32,
    records: Rc<Records>,
}

impl CoreStages {
    /// Those of the switch at `node`: one for each chain of stages whose decisions may come late. `classes` has a bit for each class
    /// whose queues have stages.
    ///
    /// # Errors
    /// The ports of a chain differ, or the image cannot be built, read or started.
    pub(super) fn of_switch(
        (cores, design): (&Cores, Design),
        node: u32,
        (ports, stages): (&[Port], &[Stages]),
        (link, classes): (Link, u8),
        records: &Rc<Records>,
    ) -> Result<Vec<Self>> {
        let names = |stages: &Stages| stages.iter().map(|&(name, _)| name).collect::<Vec<_>>();
        let mut chains: Vec<(&Stages, u64, Vec<Queue>)> = Vec::new();
        for (number, (port, own)) in (0..).zip(ports.iter().zip(stages)) {
            if own.is_empty() || !own.iter().all(|(name, _)| LATE.contains(name)) {
                continue;
            }
            let queues = (0..8).filter(|class| classes >> class & 1 != 0).map(|class| Queue { port: number, class });
            let speed = port.bits_per_second();
            match chains.iter_mut().find(|(other, ..)| names(other) == names(own)) {
                None => chains.push((own, speed, queues.collect())),
                Some((other, other_speed, all)) => {
                    ensure!(
                        *other == own && *other_speed == speed,
                        "switch {node}: ports {} and {} have {} with other settings or at other speeds: expected the same, because \
                         an image has one set of settings for all its ports",
                        all[0].port + 1,
                        number + 1,
                        names(own).join(" and ")
                    );
                    all.extend(queues);
                }
            }
        }
        let on_core = |(stages, speed, queues): (&Stages, u64, Vec<Queue>)| {
            let link = Link { line_rate: Rate::from_bits_per_second(speed), ..link };
            Self::new((cores, design), node, stages, link, queues, Rc::clone(records))
                .with_context(|| format!("switch {node}: a core {}", cores.name()))
        };
        chains.into_iter().map(on_core).collect()
    }

    fn new(
        (cores, design): (&Cores, Design),
        node: u32,
        stages: &Stages,
        link: Link,
        queues: Vec<Queue>,
        records: Rc<Records>,
    ) -> Result<Self> {
        let (names, settings): (Vec<&str>, Vec<Vec<u32>>) = stages.iter().cloned().unzip();
        let name = native_switch::image(&names).with_context(|| {
            format!("there is no image of {} in this order: expected {}", names.join(" and "), LATE.join(" and "))
        })?;
        let last = queues.iter().map(|queue| queue.port).max().unwrap_or(0);
        ensure!(
            usize::from(last) < PORTS,
            "port {} has stages, but an image has {PORTS} ports: expected stages at the first {PORTS} ports only",
            last + 1
        );
        ensure!(!cores.queue.joins, "events of a switch are not merged: expected the policy lose");
        let (image, pace) = cores.image(name, design)?;
        let boot = BootSettings { rp_settings: settings.concat(), np_settings: Vec::new(), link };
        let board = board_with(design.model(&RAM, DEVICES, 0, image.entry), &image, &boot, pace)?;
        let ImageInfo { qps, .. } = board.report()?;
        ensure!(qps as usize == QUEUES, "the image reports {qps} queue pairs or queues: expected an image of {name}");
        let mut core = CoreQueue::new(NativeSwitch::new(&names, &settings, &link)?, board, pace, cores.queue);
        if cores.keep_log {
            core.keep_log();
        }
        Ok(Self {
            core,
            verdicts: vec![[Verdict::PASS; 4]; queues.len()],
            queues,
            is_clocked: cores.is_clocked(),
            keeps_log: cores.keep_log,
            fault: None,
            node,
            records,
        })
    }

    /// The number of the first port that has these stages.
    pub(super) fn first_port(&self) -> u16 {
        self.queues.iter().map(|queue| queue.port).min().unwrap_or(0)
    }

    /// Whether a queue has these stages.
    pub(super) fn serves(&self, queue: Queue) -> bool {
        self.queues.contains(&queue)
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
        for &Queue { port, class } in &self.queues {
            let arrived = ports[usize::from(port)].arrived[usize::from(class)];
            self.core.set_queued(Queue { port, class }.index() as u32, arrived);
        }
        let done = self.records.timed(|| call(&mut self.core));
        if self.keeps_log {
            self.records.keep(Runs::Switch(self.node), Part::Stages, 0, self.core.take_log());
        }
        done.map_err(|error| self.fault = Some(error)).ok()
    }

    /// Brings an event of a queue, with the frame that it is about. Returns the verdict that holds for the packet: the last that the
    /// core has stored for a packet with the same ECN bits at this queue.
    pub(super) fn deliver(
        &mut self,
        now: Picos,
        queue: Queue,
        event: &Event<'_>,
        frame: &[u8],
        output: &mut Output<'_>,
    ) -> Verdict {
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
                let length = rate_frame(queue, message).emit(&mut buffer).expect("the buffer is long enough");
                let bytes = Bytes::new(length as u32);
                (SwitchEvent::Arrival { bytes, queued: Bytes::ZERO }, &buffer[..length])
            }
        };
        let now = instant(now).nanos();
        let captured = frame.len() as u16;
        let descriptor = Descriptor { captured, msn: output.flow, ..event.at(now, queue) };
        let waiting = Waiting { descriptor, frame: frame.to_vec(), joins: None, opened: None };
        self.with(output.ports, |core| core.deliver(now, waiting, |lost| lost.at_queues += 1));
        while let Some(effect) = self.core.take_ready() {
            self.act(effect, output);
        }
        match event {
            SwitchEvent::Departure { ecn, .. } => {
                let place = self.queues.iter().position(|&other| other == queue);
                place.map_or(Verdict::PASS, |place| self.verdicts[place][usize::from(ecn.to_bits())])
            }
            _ => Verdict::PASS,
        }
    }

    /// Carries out what has taken effect until now.
    pub(super) fn run(&mut self, now: Picos, output: &mut Output<'_>) {
        while let Some(effect) = self.with(output.ports, |core| core.take(instant(now).nanos())).flatten() {
            self.act(effect, output);
        }
    }

    fn act(&mut self, Effect { action, about, .. }: Effect, output: &mut Output<'_>) {
        match action {
            Action::Frame(frame) => {
                let flow = about.map(|descriptor| descriptor.msn);
                output.send_frame(&frame, flow, |queue| self.queues.contains(&queue));
            }
            Action::Stage(words) => {
                let place = |queue| self.queues.iter().position(|&other| other == queue);
                if let Some((queue, StageAction::Verdict(verdict))) = StageAction::decode(&words)
                    && let Some((_, SwitchEvent::Departure { ecn, .. })) = about.as_ref().and_then(SwitchEvent::of)
                    && let Some(place) = place(queue)
                {
                    self.verdicts[place][usize::from(ecn.to_bits())] = verdict;
                }
            }
            Action::Pace(_) | Action::Log(_) | Action::Read { .. } => {}
        }
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
        self.core.native().program().switch().stages().pseudo_queue(queue)
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
