//! Incast: many senders and one receiver, whose switch port is congested, and a tap at that port.

use super::fabric::{
    DATA_CLASS, Examples, FlowSpec, FlowTuple, Kind, Link, Network, Origin, Scenario, Topology, Transport,
};
use super::marking::{Pauses, Stages};
use super::packet::PacketFormat;
use super::{Picos, fabric};
use anyhow::{Context, Result, ensure};
use cc_core::wire::opcode::Class;
use cc_core::wire::{self, Parsed, cm};
use cc_core::{Ecn, Nanos};
use hil_algorithms::Algorithm;
use hil_algorithms::settings::SettingsTable;
use hil_cores::random::SplitMix;
use std::num::NonZeroU32;

/// The scenario.
#[derive(Clone, Copy, Debug)]
pub struct Incast {
    /// Hosts that send, one flow each: 1 to [`MOST_SENDERS`]. The receiver is one more host.
    pub senders: usize,
    /// Speed of every link, in Gb/s.
    pub gbps: u32,
    /// Propagation delay of every link.
    pub delay: Nanos,
    /// Payload bytes of a data packet, at most 4 096.
    pub payload: u32,
    /// Packets of a message; each message is acknowledged once.
    pub message: u32,
    /// Simulated time of the run.
    pub duration: Nanos,
    /// Periodic PFC pauses by the receiver; `None` for no pauses.
    pub pauses: Option<Pauses>,
    /// As [`Scenario::records`].
    pub records: Option<usize>,
    /// Seed of the random generator, which draws start times, first sequence numbers and marks.
    pub seed: u64,
}

/// Totals of a run.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Frames passed to the tap.
    pub frames: u64,
    /// Data frames among them.
    pub data: u64,
    /// Data frames with CE.
    pub marked: u64,
    /// Data frames marked UE (undetermined), if the switch has TCD.
    pub undetermined: u64,
    /// CNPs of the receiver.
    pub cnps: u64,
    /// CNPs of switches.
    pub switch_cnps: u64,
    /// Data packets that stages of switches have dropped.
    pub dropped: u64,
    /// Records of received flows that the receiver's NIC has evicted.
    pub evicted: u64,
    /// The longest queue of a switch port, in bytes.
    pub longest_queue: u64,
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
        let message = NonZeroU32::new(self.message).context("a message has at least one packet")?;
        ensure!((1..=1_600).contains(&self.gbps), "{} Gb/s: expected 1 to 1600", self.gbps);
        ensure!(!switches.is_empty(), "no switch: expected at least one");
        let receiver = self.senders as u32;
        let topology = self.line(switches.len() as u32);
        let frame_bytes = PacketFormat::of(algorithm.signals(), self.payload).frame_bytes()?;
        let flows = self.flows();
        let scenario = Scenario {
            stages: Box::new(|port| Ok(switches[(port.node - receiver - 1) as usize].clone())),
            payload: self.payload,
            transport: Transport {
                message: Some(message),
                ack_interval: message,
                handshake: true,
                ..Transport::default()
            },
            records: self.records,
            pauses: self.pauses.map(|pauses| (receiver, pauses)),
            end: Picos::from(self.duration.get()) * 1_000,
            seed: self.seed,
            ..Scenario::new(&topology, &flows, algorithm, settings, self.base_rtt(switches.len() as u64, frame_bytes)?)
        };
        let mut summary = Summary::default();
        let mut count = |at: Picos, origin, frame: &[u8]| {
            summary.count(origin, frame);
            tap(at / 1_000, frame)
        };
        let examples = Examples::new(&scenario)?;
        let mut network = Network::new(&scenario, &examples)?;
        network.tap(receiver, &mut count);
        while network.advance(EVENTS)? {}
        let fabric::Totals { dropped, evicted, longest_queue, .. } = network.finish()?;
        Ok(Summary { dropped, evicted, longest_queue, ..summary })
    }

    /// A line of so many switches, at least one: the senders, which are the first hosts, at the first switch, and the receiver,
    /// which is the last host, at the last one.
    fn line(&self, switches: u32) -> Topology {
        let receiver = self.senders as u32;
        let (first, last) = (receiver + 1, receiver + switches);
        let mut ends: Vec<_> = (0..receiver).map(|host| [host, first]).collect();
        ends.extend((first..last).map(|switch| [switch, switch + 1]));
        ends.push([receiver, last]);
        let (bits_per_second, delay) = (u64::from(self.gbps) * 1_000_000_000, Picos::from(self.delay.get()) * 1_000);
        let mut nodes = vec![Kind::Host; first as usize];
        nodes.resize(last as usize + 1, Kind::Switch);
        let links = ends.into_iter().map(|ends| Link { ends, bits_per_second, delay, loss: 0 }).collect();
        Topology { nodes, links, ..Topology::default() }
    }

    /// One flow of each sender, with more bytes than a run can send. Each begins at a random time in the first microsecond.
    fn flows(&self) -> Vec<FlowSpec> {
        let (mut random, destination) = (SplitMix::new(self.seed ^ STARTS), self.senders as u32);
        let flow = |source| {
            let tuple = FlowTuple { source, destination, ports: 0 };
            FlowSpec { source, destination, bytes: ENDLESS, start: random.draw() % 1_000_000, class: DATA_CLASS, tuple }
        };
        (0..destination).map(flow).collect()
    }

    /// The delays of all links on the way, both ways, and a serialisation on each: switches store and forward.
    fn base_rtt(&self, switches: u64, frame_bytes: u32) -> Result<Nanos> {
        let serialisation = fabric::serialisation(u64::from(self.gbps) * 1_000_000_000, frame_bytes);
        let base_rtt = (switches + 1) * (2 * Picos::from(self.delay.get()) * 1_000 + serialisation);
        u32::try_from(base_rtt.div_ceil(1_000)).map(Nanos::new).context("the links are too long")
    }
}

impl Summary {
    /// Counts a frame that is passed to the tap.
    fn count(&mut self, origin: Origin, frame: &[u8]) {
        self.frames += 1;
        let Ok(Parsed::Roce(roce)) = wire::parse(frame, frame.len()) else { return };
        match origin {
            Origin::Switch => self.switch_cnps += 1,
            Origin::Sent => self.cnps += u64::from(roce.info.class() == Class::Cnp),
            Origin::Arrived if roce.info.class().carries_data() && roce.bth.dest_qp != cm::QP => {
                self.data += 1;
                self.marked += u64::from(roce.ecn == Ecn::Ce);
                self.undetermined += u64::from(roce.ecn == Ecn::Ect1);
            }
            Origin::Arrived => {}
        }
    }
}

/// Bytes of a flow: 14 hours at 1,600 Gb/s.
const ENDLESS: u64 = 1 << 53;
/// Events between two looks at whether the run is over.
const EVENTS: u64 = 1 << 16;
/// Distinguishes the random numbers of start times from the others of a seed.
const STARTS: u64 = 0x7374_6172_7473;
