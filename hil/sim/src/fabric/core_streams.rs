//! Streams of events of one kind in front of a core: the events that the NIC of a host has had in a run, at a constant rate.

use super::core_nics::{Cores, Part, Prototype};
use super::port::FRAMING;
use super::{Examples, Network, Scenario};
use anyhow::{Context, Result};
use cc_core::Ecn;
use cc_core::wire;
use cc_core::wire::opcode::Class;
use hil_devices::event::NicEvent;
use hil_devices::native::Native;
use hil_devices::reference::Reference as _;
use programs::descriptor::{Descriptor, DescriptorKind};

/// A kind of event that comes with traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// A data packet was sent.
    Sent,
    /// An acknowledgement arrived.
    Ack,
    /// A CNP arrived.
    Cnp,
    /// A data packet without a mark of congestion arrived.
    Data,
    /// A data packet with the mark CE arrived.
    Marked,
}

impl EventKind {
    /// That of an event; `None` for commands of the driver and PFC frames.
    fn of(event: &NicEvent<'_>) -> Option<Self> {
        Some(match event {
            NicEvent::Sent { .. } => Self::Sent,
            NicEvent::Packet { roce, .. } => match roce.info.class() {
                Class::Ack => Self::Ack,
                Class::Cnp => Self::Cnp,
                _ if roce.ecn == Ecn::Ce => Self::Marked,
                _ => Self::Data,
            },
            _ => return None,
        })
    }
}

/// A descriptor and its frame.
type Recorded = (Descriptor, Vec<u8>);

/// The events of a host's NIC, and cores to bring them to.
pub struct CoreStreams {
    prototype: Prototype,
    /// Those of the driver by which flows were opened.
    commands: Vec<Recorded>,
    events: Vec<(EventKind, Recorded)>,
}

/// Calls a function with an event that was recorded.
fn with<T>((descriptor, frame): &Recorded, call: impl FnOnce(&NicEvent<'_>) -> T) -> Result<T> {
    let packet = wire::parse(frame, descriptor.wire_bytes as usize).ok();
    Ok(call(&NicEvent::of(descriptor, frame, packet.as_ref()).context("an event that was delivered")?))
}

impl CoreStreams {
    /// Runs a scenario with these cores at all hosts, but infinitely fast, and keeps what the NIC of `host` gets.
    ///
    /// # Errors
    /// Those of [`Scenario::run`]; cores without a model, or a host without a link.
    pub fn record(scenario: Scenario<'_>, cores: &Cores, host: u32) -> Result<Self> {
        let design = cores.design.context("a core with a model")?;
        let examples = Examples::new(&scenario)?;
        let port = scenario.topology.ports().map(|(_, port)| port).find(|port| port.node == host);
        let port = port.with_context(|| format!("host {host} has no link"))?;
        let link = scenario.link(host, port.bits_per_second, examples.line_bytes);
        let prototype = Prototype::new(cores, design, (scenario.algorithm.name(), link, scenario.settings))?;
        let fast = [Cores { clock: None, part: Part::Nic, count: 1, keep_log: true, ..cores.clone() }];
        let mut network = Network::new(&Scenario { cores: &fast, ..scenario }, &examples)?;
        while network.advance(u64::MAX)? {}
        let of_host = network.take_core_log().into_iter().filter(|(node, ..)| *node == host);
        let (mut commands, mut events) = (Vec::new(), Vec::new());
        for recorded in of_host.filter_map(|(.., entry)| entry.handled.descriptor) {
            let closes = [DescriptorKind::Close as u8, DescriptorKind::Disconnect as u8].contains(&recorded.0.kind);
            match with(&recorded, EventKind::of)? {
                Some(kind) => events.push((kind, recorded)),
                None if Native::is_command(&recorded.0) && !closes => commands.push(recorded),
                None => {}
            }
        }
        Ok(Self { prototype, commands, events })
    }

    /// Bits that a full data packet takes of the link, preamble, check sequence and gap included.
    pub fn packet_bits(&self) -> u32 {
        8 * (self.prototype.line_bytes() + FRAMING)
    }

    /// Whether the run had events of this kind.
    pub fn has(&self, kind: EventKind) -> bool {
        self.events.iter().any(|(of, _)| *of == kind)
    }

    /// Whether a core handles so many events of this kind, which come at this rate per second, without losing one. Once the flows are
    /// open, those of the run come in their order, and again from the first on after the last; events of other kinds do not come.
    ///
    /// # Errors
    /// The image misbehaved, or its decisions differ from the library's.
    pub fn keeps_up(&self, kind: EventKind, count: usize, per_second: f64) -> Result<bool> {
        let mut nic = self.prototype.nic()?;
        for command in &self.commands {
            with(command, |event| nic.deliver(0, event))??;
        }
        let mut begin = 0;
        while nic.core().usage().waiting > 0 {
            begin = nic.core().next_time()?;
            nic.core_mut().take(begin)?;
        }
        let events = self.events.iter().filter(|(of, _)| *of == kind);
        for (number, (_, recorded)) in events.cycle().take(count).enumerate() {
            let now = begin + (number as f64 * 1e9 / per_second) as u64;
            with(recorded, |event| nic.deliver(now, event))??;
            while nic.core_mut().take_ready().is_some() {}
            if nic.core().usage().lost.all() > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
