//! Incast: many senders and one receiver, whose switch port is congested, and a tap at that port.

use super::event_queue::EventQueue;
use super::host::{Host, Messages};
use super::marking::{Pauses, Stages};
use super::network::Network;
use super::packet::{self, Flow, PacketFormat};
pub use super::run::Summary;
use super::run::{Event, Run};
use super::switch::Switch;
use super::{Cable, Picos, instant};
use anyhow::{Context, Result, anyhow, ensure};
use cc_core::{Bytes, Link, Nanos, Psn, Qpn, Rate};
use hil_algorithms::Algorithm;
use hil_algorithms::settings::SettingsTable;
use hil_cores::random::SplitMix;

/// The scenario.
#[derive(Clone, Copy, Debug)]
pub struct Incast {
    /// Hosts that send, one flow each: 1 to [`MOST_SENDERS`]. The receiver is one more host.
    pub senders: usize,
    /// Speed of every cable, in Gb/s.
    pub gbps: u32,
    /// Propagation delay of every cable.
    pub delay: Nanos,
    /// Payload bytes of a data packet, at most 4 096.
    pub payload: u32,
    /// Packets of a message; each message is acknowledged once.
    pub message: u32,
    /// Simulated time of the run.
    pub duration: Nanos,
    /// Periodic PFC pauses by the receiver; `None` for no pauses.
    pub pauses: Option<Pauses>,
    /// Records of received flows for which the receiver's NIC has room, rounded up to four times a power of two. With fewer
    /// than there are flows, records are evicted, which [`Summary::evicted`] counts. With `None` there is room for all flows,
    /// and a run in which a record is evicted fails.
    pub records: Option<usize>,
    /// Seed of the random generator, which draws start times, first sequence numbers and marks.
    pub seed: u64,
}

/// The most senders that have an address: those of hosts are 10.0.0.1 to 10.0.255.254.
pub const MOST_SENDERS: usize = 0xfffd;

impl Incast {
    /// Eight senders into one 100 Gb/s port for 800 us, as in the project's sample `tests/data/incast.pcapng`.
    pub const SAMPLE: Self = Self {
        senders: 8,
        gbps: 100,
        delay: Nanos::new(1_000),
        payload: 1_024,
        message: 16,
        duration: Nanos::new(800_000),
        pauses: None,
        records: None,
        seed: 1,
    };

    /// Runs the scenario. Packets pass these switches, of which the first has the ports of the senders and the last that of the
    /// receiver; with each come the stages of its data queues.
    ///
    /// Each frame to and from the receiver is passed to the tap with a time in nanoseconds. For an arriving frame it is the
    /// time at which its last bit arrives; for a frame of the receiver, the time at which the receiver's engines decide to send
    /// it, so that a CNP has the same time as the frame that caused it. CNPs of switches are passed to the tap too, with the
    /// time at which the switch sends them.
    ///
    /// # Errors
    /// Settings that do not fit the port or each other, stages that do not go together, a flow that a NIC has no room for, and
    /// errors of the tap.
    pub fn run(
        &self,
        algorithm: &dyn Algorithm,
        settings: [&SettingsTable; 2],
        switches: &[Stages],
        tap: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<Summary> {
        ensure!((1..=MOST_SENDERS).contains(&self.senders), "{} senders: expected 1 to {MOST_SENDERS}", self.senders);
        ensure!((1..=4_096).contains(&self.payload), "payload of {} bytes: expected 1 to 4096", self.payload);
        ensure!(self.message > 0, "a message has at least one packet");
        ensure!((1..=1_600).contains(&self.gbps), "{} Gb/s: expected 1 to 1600", self.gbps);
        ensure!(!switches.is_empty(), "no switch: expected at least one");
        let receiver = self.senders;
        let mut random = SplitMix::new(self.seed);
        let flows: Vec<Flow> = (0..self.senders)
            .map(|sender| Flow {
                sender,
                receiver,
                sender_qpn: Qpn::new(0x0100 + sender as u32),
                receiver_qpn: Qpn::new(0x0200 + sender as u32),
                // The PSNs of the first flow wrap after 128 packets.
                first_psn: if sender == 0 { Psn::new(0x00ff_ff80) } else { Psn::new(random.draw() as u32) },
            })
            .collect();
        let format = PacketFormat::of(algorithm.signals(), self.payload);
        let made = flows.iter().map(|flow| format.template(flow)).collect::<Result<Vec<_>>>()?;
        let (templates, layouts): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        let (template, layout) = templates.first().zip(layouts.first().copied()).context("no flow")?;
        let frame_bytes = u32::from(layout.wire_len);
        let cable = Cable { gbps: self.gbps, delay: Picos::from(self.delay.get()) * 1_000 };
        let network = Network::line(receiver + 1, switches.len(), cable);
        // The delays of all cables, both ways, and a serialisation on each: switches store and forward.
        let cables = switches.len() as Picos + 1;
        let base_rtt = (cables * (2 * cable.delay + cable.serialisation(frame_bytes))).div_ceil(1_000);
        let link = Link {
            line_rate: Rate::from_gbps(self.gbps),
            mtu: Bytes::new(frame_bytes),
            base_rtt: Nanos::new(u32::try_from(base_rtt).context("the cables are too long")?),
        };
        let messages = Messages { frame_bytes, packets: self.message };
        let mut nics = algorithm.nics(link, settings).map_err(|error| anyhow!("{error}"))?;
        // Four entries for each flow that is received: the table is set-associative, and few flows then share a set.
        let records = self.records.unwrap_or((4 * self.senders).next_power_of_two().max(LEAST_ROOM));
        let hosts = (0..=receiver)
            .map(|number| {
                nics.add(instant(0), LEAST_ROOM, if number == receiver { records } else { LEAST_ROOM });
                Host::new(number, cable, messages)
            })
            .collect();
        let switches = (0..)
            .zip(switches)
            .map(|(place, stages)| {
                let seed = self.seed.wrapping_add(SEED_STEP.wrapping_mul(place));
                Switch::new(network.ports(receiver + 1 + place as usize), &link, stages, seed)
            })
            .collect::<Result<_>>()?;
        let mut run = Run {
            receiver,
            end: Picos::from(self.duration.get()) * 1_000,
            pauses: self.pauses,
            templates: &templates,
            data: (packet::parse(template, usize::from(layout.wire_len))?, layout),
            datagrams: vec![Vec::new(); flows.len()],
            slab: packet::InFlight::new(template.len().max(if layout.has_shims() {
                packet::LONGEST_REPLY
            } else {
                CNP
            })),
            flows,
            nics,
            hosts,
            switches,
            network,
            events: EventQueue::new(),
            tap,
            frame: Vec::new(),
            summary: Summary::default(),
        };
        run.connect(&mut random)?;
        if let Some(pauses) = self.pauses {
            ensure!(pauses.length < pauses.every, "pauses are longer than the time from one to the next");
            run.events.add(Picos::from(pauses.every.get()) * 1_000, Event::Pause);
        }
        let mut summary = run.play()?;
        let counters = run.nics.counters(receiver).np;
        let evicted = counters.iter().find(|&&(name, _)| name == "np_flows_evicted").map_or(0, |&(_, count)| count);
        ensure!(
            evicted == 0 || self.records.is_some(),
            "the receiver's NIC evicted {evicted} flows from its table, which has room for all: a fault of the simulation"
        );
        summary.evicted = evicted;
        Ok(summary)
    }
}

/// Smallest number of flows for which a host's tables have room.
const LEAST_ROOM: usize = 64;

/// The seeds of two switches are at least so far apart (the odd constant of SplitMix64, with its halves exchanged: the queues
/// of one switch are apart by the constant itself).
const SEED_STEP: u64 = 0x7f4a_7c15_9e37_79b9;

/// Bytes of a CNP.
const CNP: usize = 14 + 20 + 8 + 12 + 16 + 4;
