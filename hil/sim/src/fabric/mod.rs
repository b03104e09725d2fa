//! A network of hosts and switches, driven by one event queue. NICs and the congestion points of switches are the library's own
//! engines; links, queues, transport and applications are simulated.
//!
//! Time is integer picoseconds. Events of one time are ordered by what they mean and where they happen.
//!
//! What most packets need is to fit into an instruction cache of 32 KB. Functions that few packets need are therefore not inlined,
//! nor is the `add` of the calendar of events, which is called from many places.

mod buffer;
pub(crate) mod calendar;
mod check;
mod core_nics;
mod core_stages;
mod core_streams;
mod deadlock;
mod effects;
mod failures;
mod faults;
mod flow_queues;
mod host;
mod measure;
mod measured_flows;
mod offer;
pub(crate) mod packets;
mod port;
mod queue_monitor;
mod ready;
mod routes;
mod scheduler;
mod series;
mod shared_cores;
mod slab;
mod spray;
mod stall;
mod switch;
mod topology;
mod transport;
mod watchdog;

pub use buffer::{Buffer, Headroom, Limits, Threshold};
pub use core_nics::{Cores, Part};
pub use core_streams::{CoreStreams, EventKind};
pub use deadlock::{Deadlock, QueuePlace};
pub use effects::{Effects, LineHeaders};
pub use faults::{Action, Fault, FrameSet, Lag, Nth};
pub use hil_devices::core_queue::{Entry, QueueRule};
pub use host::DATA_CLASS;
pub use measure::{Levels, Measure, Measured, MeasuredPort, Window};
pub use measured_flows::MeasuredFlowQueue;
pub use offer::Offer;
pub use port::serialisation;
pub use queue_monitor::{QueueLengths, QueueMonitor};
pub use routes::{FlowTuple, PathChoice};
pub use scheduler::{QueueSettings, Service};
pub use series::{Quantity, Sample, Subject};
pub use stall::{Loss, Obstacle, Stall, StalledFlow};
pub use switch::SwitchFeedback;
pub(crate) use switch::check_stages;
pub use topology::{Kind, Link, NodePort, Route, Topology};
pub use transport::{Recovery, Transport};
pub use watchdog::{Storm, StormAction, Watchdog};

use crate::dependencies::{Dependents, Wait};
use crate::marking::{Pauses, Stages};
use crate::packet::{self, Control, DataLayout, Flow, PacketFormat};
use crate::{Picos, instant};
use anyhow::{Context, Error, Result, anyhow, ensure};
use buffer::SharedBuffer;
use calendar::{Calendar, Class, Event};
use cc_core::wire::{self, AckFields, NoCrc, Response, Roce, Syndrome, cm};
use cc_core::{Bytes, IntLayout, Nanos, Psn, Qpn, Rate};
use cc_rp::Signals;
use check::check;
use core_nics::{CoreNics, Prototype, Records, Runs, SplitNics};
use core_stages::CoreStages;
use faults::{Faults, FrameInfo, Held, Outcome};
use hil_algorithms::settings::SettingsTable;
use hil_algorithms::{Algorithm, CoreUse, NicCounters, NicGroup, NicSize};
use hil_capture::crc::HostCrc;
use hil_cores::random::SplitMix;
use hil_sorted::SortedMap;
use host::{Counting, Host, Sender};
use measure::Measurement;
use packets::{InFlight, Kind as PacketKind, Meta, PacketId};
use port::{CLASSES, FRAMING, Port};
use queue_monitor::Watch;
use ready::ReadyFlows;
use routes::Routes;
use scheduler::Scheduler;
use series::Sampler;
use shared_cores::SharedCores;
use spray::Spray;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;
use switch::{Notice, Switch};
use transport::{MOST_IN_FLIGHT, Sending};
use watchdog::Ignored;

/// A flow to be simulated.
#[derive(Clone, Copy, Debug)]
pub struct FlowSpec {
    /// The host that sends, by its node number.
    pub source: u32,
    /// The host that receives.
    pub destination: u32,
    /// Bytes of payload.
    pub bytes: u64,
    /// When it begins, or, if it waits for others, how long after the last milestone that it needs.
    pub start: Picos,
    /// The traffic class and PFC priority of its packets, 0 to 7.
    pub class: u8,
    /// What equal paths are chosen by.
    pub tuple: FlowTuple,
}

/// What to simulate.
pub struct Scenario<'a> {
    /// Nodes and links.
    pub topology: &'a Topology,
    /// The flows, in the order in which they begin.
    pub flows: &'a [FlowSpec],
    /// What flows wait for; each flow at most once.
    pub waits: &'a [Wait],
    /// The flows whose bytes an application offers over time, each at most once; those of the others are all there at the beginning.
    pub offers: &'a [(u32, Offer)],
    /// The flows that are RDMA READs, of which the receiver requests the bytes; the others are SENDs.
    pub reads: &'a [u32],
    /// When the applications of some flows stop, each after the flow's start: the flow ends with the bytes that were sent by then, if
    /// these are not all. A READ is not stopped.
    pub stops: &'a [(u32, Picos)],
    /// What hosts run.
    pub algorithm: &'a dyn Algorithm,
    /// The settings of its two machines.
    pub settings: [&'a SettingsTable; 2],
    /// The stages of each port of a switch. Ports with other stages, and not only other settings, share no state.
    pub stages: Box<dyn Fn(NodePort) -> Result<Stages> + 'a>,
    /// How switches choose among equal paths.
    pub paths: PathChoice,
    /// How the eight queues of each port are served, class by class. A host has its flows in place of queues, and marks nothing.
    pub queues: Box<dyn Fn(NodePort) -> [QueueSettings; 8] + 'a>,
    /// The packet buffer of each switch; without one there is no limit and no PFC but that of stages.
    pub buffer: Option<Buffer>,
    /// The buffers of some switches in place of `buffer`, by their node numbers.
    pub buffers: SortedMap<u32, Buffer>,
    /// When the lengths of the switches' queues are sampled, if they are.
    pub queue_monitor: Option<QueueMonitor>,
    /// The interval in which the run is measured, if it is.
    pub measure: Option<Measure>,
    /// The layout of the telemetry that switches write, which must be that of their stage.
    pub int_layout: IntLayout,
    /// Bytes of payload of a data packet.
    pub payload: u32,
    /// How hosts send and acknowledge.
    pub transport: Transport,
    /// Records of received flows for which each host's NIC has room, rounded up to four times a power of two. With fewer than
    /// there are flows, records are evicted, which [`Totals::evicted`] counts. With `None` there is room for all flows, and a run
    /// in which a record is evicted fails.
    pub records: Option<usize>,
    /// A host that pauses its port periodically, by its node number.
    pub pauses: Option<(u32, Pauses)>,
    /// The watchdog of switch ports for PFC storms, if there is one.
    pub watchdog: Option<Watchdog>,
    /// The round-trip time that NICs and the stages of switches are configured with.
    pub base_rtt: Nanos,
    /// Those of the NICs of some hosts in place of `base_rtt`, by their node numbers.
    pub base_rtts: SortedMap<u32, Nanos>,
    /// When it ends, even if flows are left.
    pub end: Picos,
    /// The run ends, with a [`Totals::stall`], if flows are open and for so long no flow begins, no byte arrives in order and none is
    /// acknowledged. This is looked at once in each such time, so that it may last twice as long. With `None` it is 16 timeouts of
    /// [`Scenario::transport`] and 16 round-trip times, and at least 100 ms.
    pub stall: Option<Picos>,
    /// Chooses marks and first sequence numbers.
    pub seed: u64,
    /// Chooses the order in which events are added to the event queue, which makes no difference.
    pub shuffle: Option<u64>,
    /// Where it follows another simulator.
    pub effects: Effects,
    /// What goes wrong, in the order of precedence.
    pub faults: &'a [Fault],
    /// The cores that run the NICs of some hosts and the stages of some switches. Of several that are at a node and run the same part,
    /// the first counts.
    pub cores: &'a [Cores],
}

impl<'a> Scenario<'a> {
    /// Switches without stages and without a limit of their buffers, packets of 1,000 bytes of payload, the default transport, and an
    /// end after 1,000 seconds.
    pub fn new(
        topology: &'a Topology,
        flows: &'a [FlowSpec],
        algorithm: &'a dyn Algorithm,
        settings: [&'a SettingsTable; 2],
        base_rtt: Nanos,
    ) -> Self {
        Self {
            topology,
            flows,
            waits: &[],
            offers: &[],
            reads: &[],
            stops: &[],
            algorithm,
            settings,
            stages: Box::new(|_| Ok(Vec::new())),
            paths: PathChoice::default(),
            queues: Box::new(|_| Default::default()),
            buffer: None,
            buffers: SortedMap::new(),
            queue_monitor: None,
            measure: None,
            int_layout: IntLayout::Wide,
            payload: 1_000,
            transport: Transport::default(),
            records: None,
            pauses: None,
            watchdog: None,
            base_rtt,
            base_rtts: SortedMap::new(),
            end: 1_000_000_000_000_000,
            stall: None,
            seed: 1,
            shuffle: None,
            effects: Effects::default(),
            faults: &[],
            cores: &[],
        }
    }

    /// The link of a host's NIC whose port has this speed, with the bytes of a full data packet on the line.
    fn link(&self, host: u32, bits_per_second: u64, line_bytes: u16) -> cc_core::Link {
        cc_core::Link {
            line_rate: Rate::from_bits_per_second(bits_per_second),
            mtu: Bytes::new(line_bytes.into()),
            base_rtt: self.base_rtts.get(&host).copied().unwrap_or(self.base_rtt),
        }
    }

    /// Runs it to its end, unobserved.
    ///
    /// # Errors
    /// Those of [`Network::new`], [`Network::advance`] and [`Network::finish`].
    pub fn run(&self) -> Result<Totals> {
        self.run_sampled(None)
    }

    /// Runs it to its end, with samples as [`Network::sample`] passes them, if an interval and a sink are given.
    ///
    /// # Errors
    /// Those of [`Scenario::run`] and of the sink.
    pub fn run_sampled(&self, samples: Option<(Picos, SampleSink<'_>)>) -> Result<Totals> {
        let examples = Examples::new(self)?;
        let mut network = Network::new(self, &examples)?;
        if let Some((interval, sink)) = samples {
            network.sample(interval, sink);
        }
        while network.advance(u64::MAX)? {}
        network.finish()
    }

    /// Sets it up, and returns the totals before its first event.
    ///
    /// # Errors
    /// Those of [`Network::new`] and [`Network::finish`].
    pub fn set_up(&self) -> Result<Totals> {
        Network::new(self, &Examples::new(self)?)?.finish()
    }
}

/// Takes the samples of a run.
pub type SampleSink<'a> = &'a mut dyn FnMut(&Sample) -> Result<()>;

/// What a frame is to a tap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Its last bit has arrived at the host or the port of the tap.
    Arrived,
    /// The host or the port of the tap sends it. At a port: when its first bit leaves, but a PFC frame when it is decided upon,
    /// before it waits for the frame that leaves. At a host: data, when its first bit leaves; other frames, when the host decides
    /// to send them and before they wait for the port, so that a CNP has the time of the packet that caused it.
    Sent,
    /// A CNP that a switch sends, to any host; not at the tap of a port.
    Switch,
}

/// Receives frames, whole and with their ICRC, each with its time.
type Tap<'a> = Box<dyn FnMut(Picos, Origin, &[u8]) -> Result<()> + 'a>;

/// A completed flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Its number among the flows of the scenario.
    pub flow: u32,
    /// Bytes of payload: those of the scenario, or what was sent until it was stopped.
    pub bytes: u64,
    /// When it began.
    pub start: Picos,
    /// From its start to the arrival of the last acknowledgement.
    pub time: Picos,
}

/// A PFC frame that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PfcRecord {
    /// When.
    pub at: Picos,
    /// The node that is paused or resumed.
    pub node: u32,
    /// Its port, counted from one in the order of its links.
    pub port: u32,
    /// Whether it pauses; otherwise it resumes.
    pub pauses: bool,
}

/// Totals of a run.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Totals {
    /// The time of the last event.
    pub end: Picos,
    /// Events of the event queue.
    pub events: u64,
    /// Frames that began to leave a port.
    pub packet_hops: u64,
    /// Packets made by hosts, switches and faults that duplicate, PFC frames not counted.
    pub injected: u64,
    /// Packets that arrived at their host.
    pub delivered: u64,
    /// Packets that a switch dropped or that were lost on a link.
    pub dropped: u64,
    /// Those of them that were lost on a link.
    pub lost: u64,
    /// Those of them that a switch dropped and whose class its buffer or stage keeps free of loss by PFC: the headroom was too small.
    pub lossless_dropped: u64,
    /// For each rule of [`Scenario::faults`], and then for each probability with which links lose frames, its name and on how many
    /// frames it took effect, PFC frames and messages between switches included.
    pub faults: Vec<(&'static str, u64)>,
    /// Data packets that were sent again.
    pub sent_again: u64,
    /// Times that a sender gave up waiting for an acknowledgement.
    pub timeouts: u64,
    /// Packets that are queued or on a link at the end.
    pub in_flight: u64,
    /// The longest queue of a switch port, in bytes on the line, acknowledgements in the same queue included.
    pub longest_queue: u64,
    /// Data packets that left a switch with CE by a mark of its stages.
    pub marks: u64,
    /// PFC frames sent.
    pub pfc_frames: u64,
    /// Those of them that rules of faults lost or delayed; frames on a link that fails are not counted.
    pub pfc_disturbed: u64,
    /// For how long a class of a port was paused, one or several, in picoseconds, all ports together.
    pub paused: Picos,
    /// PFC deadlocks, in the order in which they were found. They are looked for when PFC frames pause switch ports, at most every
    /// 100 us, and at the end of the run.
    pub deadlocks: Vec<Deadlock>,
    /// What the watchdog found, in order.
    pub storms: Vec<Storm>,
    /// Records of received flows that NICs have evicted.
    pub evicted: u64,
    /// Acknowledgements whose telemetry is of more switches than packets, or senders' NICs, have room for, by the NIC's counter.
    pub unusable_telemetry: [(&'static str, u64); 2],
    /// Decisions of reaction points.
    pub decisions: u64,
    /// Those that lowered the rate or the window.
    pub cuts: u64,
    /// CNPs sent by NICs.
    pub nic_cnps: u64,
    /// What the stages of each switch have sent and received.
    pub feedback: Vec<SwitchFeedback>,
    /// Completed flows, in the order of completion.
    pub completions: Vec<Completion>,
    /// Why the run has ended before its flows were complete, if that is because nothing progressed.
    pub stall: Option<Stall>,
    /// PFC frames that arrived, in order.
    pub pfc: Vec<PfcRecord>,
    /// What the monitor of queues recorded: when, and how often each length was seen until then, switch by switch.
    pub queue_lengths: Vec<(Picos, Vec<QueueLengths>)>,
    /// What was measured, if it was.
    pub measured: Option<Measured>,
    /// What each core did, with the node number of its host or switch.
    pub cores: Vec<(u32, CoreUse)>,
}

/// A network that runs.
pub struct Network<'a> {
    calendar: Calendar,
    slab: InFlight,
    ports: Vec<Port>,
    /// Of each node.
    places: Vec<Place>,
    hosts: Vec<Host>,
    switches: Vec<Switch>,
    routes: Routes,
    /// What chooses the paths of data packets that are sprayed.
    spray: Option<Spray>,
    groups: Vec<Box<dyn NicGroup>>,
    /// What those of them that run on cores have done.
    core_records: Rc<Records>,
    has_cores: bool,
    /// The flows; those that have waited have their true start.
    specs: Vec<FlowSpec>,
    dependents: Dependents,
    /// Flows that have been opened and are not complete.
    open_flows: u32,
    senders: Vec<Sender>,
    flows: Vec<Flow>,
    /// The packets of data and their acknowledgements, as one of each was parsed.
    data: (Roce<'a>, DataLayout),
    ack: Roce<'a>,
    /// An acknowledgement by a receiver's transport, as `ack` is unless the notification points acknowledge.
    transport_ack: Roce<'a>,
    format: PacketFormat,
    effects: Effects,
    faults: Faults,
    payload: u32,
    transport: Transport,
    pauses: Option<(u32, Pauses)>,
    watchdog: Option<Watchdog>,
    /// The queues whose pauses the watchdog ignores, and whether it drops their packets.
    ignored: Vec<Ignored>,
    drops_in_storms: bool,
    /// When deadlocks may be looked for again.
    deadlocks_at: Picos,
    /// The host to and from which frames are passed to a tap.
    tap: Option<(u32, Tap<'a>)>,
    /// The ports whose frames are passed to a tap.
    port_taps: Vec<(u32, Tap<'a>)>,
    /// The first error of one of these taps.
    tap_error: Option<Error>,
    /// How many packets were checked on arrival, if they are.
    checked: Option<u64>,
    /// Switches may send CNPs, which name a flow by its receiver and the queue pair there.
    remote_names: bool,
    /// Evicted records are expected.
    may_evict: bool,
    /// Senders' NICs use acknowledgements.
    uses_acks: bool,
    /// Receivers' NICs acknowledge, and not the transport.
    acknowledges: bool,
    counting: Counting,
    watch: Option<Watch>,
    measurement: Option<Measurement>,
    sampler: Option<Sampler<'a>>,
    /// When it samples next.
    sample_at: Picos,
    /// For how long nothing may progress, when that is looked at next, and when it was before and what had progressed by then.
    stall_after: Picos,
    stall_at: Picos,
    progressed: (Picos, u64),
    /// From when on [`Network::look`] is to be called before an event: zero at the beginning and when all flows are complete.
    look_at: Picos,
    end: Picos,
    now: Picos,
    totals: Totals,
    /// Buffers that are used again: the flows that a NIC's decisions were about, and the frame that a host handles.
    touched: Vec<u32>,
    frame: Vec<u8>,
}

/// What a node is, with its number among its kind.
#[derive(Clone, Copy, Debug)]
enum Place {
    Host(u32),
    Switch(u32),
}

/// The counters of NICs for telemetry of too many switches.
const UNUSABLE_TELEMETRY: [&str; 2] = ["rp_int_overflowed", "rp_int_too_many_hops"];

/// Events that a frame causes on a link: it arrives, and the port becomes free.
const EVENTS_PER_FRAME: u64 = 2;

/// The most bytes of a message (IBTA volume 1, chapter 9).
const LONGEST_READ: u64 = 1 << 31;

/// The shortest time after which a run that does not progress ends, where none is given: 100 ms.
const LEAST_STALL: Picos = 100_000_000_000;

/// The number of the first flow's queue pair at its sender, and of the first queue pair of each receiver.
const FIRST_QPN: u32 = 0x100;
const FIRST_RECEIVER_QPN: u32 = 0x200;

/// One packet of each kind that most packets are like, which [`Network::new`] borrows.
#[derive(Debug)]
pub struct Examples {
    data: Vec<u8>,
    /// An acknowledgement by the transport, and one by the NIC.
    acks: [Vec<u8>; 2],
    /// Bytes of the longest packet of a slot.
    room: usize,
    /// Bytes of a full data packet on the line.
    line_bytes: u16,
}

impl Examples {
    /// The examples of a scenario.
    ///
    /// # Errors
    /// The payload does not fit a frame.
    pub fn new(scenario: &Scenario<'_>) -> Result<Self> {
        let flow = Flow::EXAMPLE;
        let signals = scenario.algorithm.signals();
        let format = PacketFormat::of(signals, scenario.payload).with_int(scenario.int_layout);
        let (data, layout) = format.template(&flow)?;
        let transport = packet::control(&flow, 0, Control::Ack { psn: Psn::new(0), messages: 0, marked: false })?;
        let cause = packet::parse(&data, layout.wire_len.into())?;
        let mut buffer = [0; 512];
        let len = Response::ack(&cause, flow.sender_qpn, &AckFields::default())
            .emit::<NoCrc>(&mut buffer)
            .map_err(|error| anyhow!("cannot build an acknowledgement: {error:?}"))?;
        let handshake = if scenario.transport.handshake {
            let ready = cm::Message::ReadyToUse { local_id: 0, remote_id: 0 };
            packet::control(&flow, 0, Control::Handshake(ready))?.len()
        } else {
            0
        };
        let room = data.len().max(packet::LONGEST_REPLY).max(handshake);
        let headers = scenario.effects.line_headers;
        let line_bytes = headers.map_or(layout.wire_len, |headers| headers.data + scenario.payload as u16);
        Ok(Self { acks: [transport, buffer[..len].to_vec()], data, room, line_bytes })
    }
}

impl<'a> Network<'a> {
    /// A network at time zero, with the examples of the scenario.
    ///
    /// # Errors
    /// A topology without hosts or with a host that has no link or several, a flow between nodes that are no hosts or have no
    /// path, and settings that do not fit the ports or each other.
    pub fn new(scenario: &Scenario<'_>, examples: &'a Examples) -> Result<Self> {
        let Scenario { topology, effects, payload, .. } = scenario;
        let (mut ports, first_ports) = lay_ports(topology, effects)?;
        let faults = Faults::new(scenario.faults, topology, &mut ports, scenario.seed)?;
        let signals = scenario.algorithm.signals();
        let format = PacketFormat::of(signals, *payload).with_int(scenario.int_layout);
        let flows = connect(scenario);
        let example = flows.first().context("no flow")?;
        let layout = format.template(example)?.1;
        let line_bytes = examples.line_bytes;
        let frames = |port: &Port| port.bits_per_second() / (8_000 * u64::from(line_bytes));
        let events = EVENTS_PER_FRAME * ports.iter().map(frames).sum::<u64>();
        let longest = scenario.base_rtts.values().fold(scenario.base_rtt, |longest, rtt| longest.max(*rtt));
        let round_trips = 16 * Picos::from(longest.get()) * 1_000;
        let silence = scenario.offers.iter().map(|(_, offer)| offer.longest_silence(*payload)).max().unwrap_or(0);
        let least_stall = LEAST_STALL.max(silence.saturating_mul(2));
        let stall_after = scenario.stall.unwrap_or((16 * scenario.transport.timeout + round_trips).max(least_stall));
        let routes = Routes::new(topology, (&ports, first_ports.clone()), effects.descending_paths, scenario.paths)?;
        let ack = packet::parse(&examples.acks[0], examples.acks[0].len())?;
        let mut network = Self {
            calendar: Calendar::new(events, scenario.shuffle),
            slab: InFlight::new(examples.room),
            ports,
            places: Vec::new(),
            hosts: Vec::new(),
            switches: Vec::new(),
            routes,
            spray: match scenario.paths {
                PathChoice::Hash | PathChoice::SymmetricHash => None,
                PathChoice::SprayRandom => Some(Spray::new(true, scenario.seed)),
                PathChoice::SprayRoundRobin => Some(Spray::new(false, scenario.seed)),
            },
            groups: Vec::new(),
            core_records: Rc::default(),
            has_cores: !scenario.cores.is_empty(),
            specs: scenario.flows.to_vec(),
            dependents: Dependents::new(scenario.flows.len(), scenario.waits)?,
            open_flows: 0,
            senders: (0..flows.len()).map(|_| Sender::idle()).collect(),
            flows,
            data: (packet::parse(&examples.data, layout.wire_len.into())?, layout),
            ack,
            transport_ack: ack,
            format,
            effects: *effects,
            faults,
            payload: *payload,
            transport: scenario.transport,
            pauses: scenario.pauses,
            watchdog: scenario.watchdog,
            ignored: Vec::new(),
            drops_in_storms: false,
            deadlocks_at: 0,
            tap: None,
            port_taps: Vec::new(),
            tap_error: None,
            checked: None,
            remote_names: false,
            may_evict: scenario.records.is_some() || !scenario.cores.is_empty(),
            uses_acks: uses_acks(signals),
            acknowledges: false,
            counting: Counting((!effects.payload_windows).then_some(line_bytes.into())),
            watch: None,
            measurement: None,
            sampler: None,
            sample_at: Picos::MAX,
            stall_after,
            stall_at: stall_after,
            progressed: (0, 0),
            look_at: 0,
            end: scenario.end,
            now: 0,
            totals: Totals::default(),
            touched: Vec::new(),
            frame: Vec::new(),
        };
        ensure!(
            network.watchdog.is_none_or(|watchdog| watchdog.time > 0),
            "a watchdog of 0 ps: expected a longer time"
        );
        network.set_up_nodes(scenario, &first_ports, line_bytes)?;
        network.remote_names = network.switches.iter().any(Switch::reads_headers);
        network.watch = scenario.queue_monitor.map(|monitor| Watch::new(monitor, network.port_places()));
        if let Some(measure) = scenario.measure {
            ensure!(
                measure.from < measure.until && measure.until <= scenario.end && measure.window > 0,
                "the interval of the measurement must begin before its end, and end with the run or before; the run ends at {} ns",
                scenario.end / 1_000
            );
            network.measurement = Some(Measurement::new(measure, network.port_places()));
        }
        network.acknowledges = network.groups.iter().any(|group| group.acknowledges());
        if network.acknowledges {
            network.ack = packet::parse(&examples.acks[1], examples.acks[1].len())?;
            network.transport.ack_interval = NonZeroU32::MIN;
        }
        for &(flow, offer) in scenario.offers {
            let sender = network.senders.get_mut(flow as usize);
            sender
                .with_context(|| format!("an application offers the bytes of flow {flow}, which does not exist"))?
                .offer = Some(Box::new(offer));
        }
        network.set_up_reads(scenario)?;
        for &(flow, stop) in scenario.stops {
            let sender = network.senders.get_mut(flow as usize);
            let sender = sender.with_context(|| format!("flow {flow} is to stop, but does not exist"))?;
            ensure!(!sender.sending.is_read(), "flow {flow} is to stop, but is a READ: expected none, or a SEND");
            sender.stop = stop;
        }
        for (number, spec) in (0u32..).zip(scenario.flows) {
            for node in [spec.source, spec.destination] {
                let is_host = matches!(network.places.get(node as usize), Some(Place::Host(_)));
                ensure!(is_host, "flow {number}: node {node} is not a host");
            }
            ensure!(spec.bytes > 0, "flow {number} has no bytes");
            ensure!(usize::from(spec.class) < CLASSES, "flow {number} has class {}: expected 0 to 7", spec.class);
            if !network.dependents.waits(number) {
                network.calendar.add(Event::new(spec.start, Class::Start, number));
            }
        }
        if network.faults.has_failures {
            network.calendar.add(Event::new(0, Class::Failure, 0));
        }
        if let Some((node, pauses)) = scenario.pauses {
            let is_host = matches!(network.places.get(node as usize), Some(Place::Host(_)));
            ensure!(is_host, "node {node} is to pause its port, but is not a host");
            ensure!(pauses.length < pauses.every, "pauses are longer than the time from one to the next");
            network.calendar.add(Event::new(Picos::from(pauses.every.get()) * 1_000, Class::Pause, node));
        }
        Ok(network)
    }

    /// Passes the frames to and from a host, and the CNPs of all switches, to a tap.
    pub fn tap(&mut self, host: u32, tap: impl FnMut(Picos, Origin, &[u8]) -> Result<()> + 'a) {
        self.tap = Some((host, Box::new(tap)));
    }

    /// Passes the frames that leave and arrive by a port to a tap, in the order of their times, PFC frames included. The port is that
    /// of a node, counted from one in the order of its links. Messages between switches are not frames of the simulation. What the
    /// network does stays the same. After an error of the tap, [`Network::advance`] returns it at its end.
    ///
    /// # Errors
    /// There is no such port.
    pub fn tap_port(
        &mut self,
        node: u32,
        port: u32,
        tap: impl FnMut(Picos, Origin, &[u8]) -> Result<()> + 'a,
    ) -> Result<()> {
        let found = self.port_places().position(|(at, number, _)| (at, number) == (node, port));
        let ports = self.port_places().filter(|&(at, ..)| at == node).count();
        let number =
            found.with_context(|| format!("no port {port} at node {node}, which has {ports}, counted from 1"))?;
        self.port_taps.push((number as u32, Box::new(tap)));
        Ok(())
    }

    /// Holds the bytes of every packet that arrives at a node, which templates and changes in place have made, to a full parse and a
    /// full emission. The first difference ends the run with an error. What the network does stays the same.
    pub fn check_frames(&mut self) {
        self.checked = Some(0);
    }

    /// How many packets were checked, if [`Network::check_frames`] was called.
    pub fn checked_frames(&self) -> Option<u64> {
        self.checked
    }

    /// Passes samples of all queues, ports and flows to a sink: those of each multiple of the interval, which is above 0, and of the
    /// first one after the end of the run. What the network does stays the same.
    ///
    /// Samples come in the order of their times; of one time, ports come before flows, each in the order of their numbers.
    pub fn sample(&mut self, interval: Picos, sink: impl FnMut(&Sample) -> Result<()> + 'a) {
        self.sampler = Some(Sampler::new(interval, self.port_places(), self.specs.len(), Box::new(sink)));
        (self.sample_at, self.look_at) = (interval, 0);
    }

    /// The node of each port, its number there from one on, and whether the node is a switch.
    fn port_places(&self) -> impl Iterator<Item = (u32, u32, bool)> {
        (0u32..).zip(&self.ports).map(|(number, port)| {
            let is_switch = matches!(self.places[port.node as usize], Place::Switch(_));
            (port.node, number - self.routes.first_port(port.node) + 1, is_switch)
        })
    }

    /// The bytes in a switch that came in by a port have changed.
    #[cold]
    fn ingress_changed(&mut self, now: Picos, port: u32) {
        if let Some(measurement) = &mut self.measurement {
            let bytes = self.ports[port as usize].arrived.iter().sum();
            measurement.change_ingress(now, port, bytes);
        }
    }

    /// A packet has joined or left the queues of a switch's port.
    #[inline(always)]
    fn queue_changed(&mut self, now: Picos, port: u32, packet: PacketId, joins: bool) {
        if let Some(watch) = &mut self.watch {
            watch.change(now, port, self.ports[port as usize].waiting_bytes());
        }
        if self.measurement.is_some() {
            self.measure_queue(now, port, packet, joins);
        }
    }

    /// Measures the queues of a port of a switch, which a packet has joined or left.
    #[cold]
    fn measure_queue(&mut self, now: Picos, port: u32, packet: PacketId, joins: bool) {
        let Some(measurement) = &mut self.measurement else { return };
        let at = &self.ports[port as usize];
        measurement.change(now, port, at.waiting_bytes());
        let Meta { kind, flow, line_bytes, .. } = *self.slab.meta(packet);
        // The stages of the port hold flows.
        if measurement.next < Picos::MAX && kind == PacketKind::Data && at.flow_queues.is_some() {
            measurement.flow_queues.change(now, (port, flow), line_bytes.into(), joins);
        }
    }

    /// Samples what is due until `now`, before an event of this time.
    #[cold]
    fn take_samples(&mut self, now: Picos) -> Result<()> {
        let Some(sampler) = &mut self.sampler else { return Ok(()) };
        let cores: Vec<(u32, usize)> = if self.has_cores {
            let waiting = |host: &Host| host.cores(&*self.groups[host.group()]).map(|(_, core)| core.waiting).sum();
            let hosts = self.hosts.iter().filter(|host| host.has_clocked_core());
            let switches = self.switches.iter().filter_map(|switch| Some((switch.node(), switch.core_queue()?)));
            hosts.map(|host| (host.node(), waiting(host))).chain(switches).collect()
        } else {
            Vec::new()
        };
        self.sample_at = sampler.sample(self.sample_at, now, (&self.ports, &self.senders), &cores)?;
        Ok(())
    }

    /// Samples, measures and looks for what has progressed, as far as these are due before an event. Returns whether the run is over:
    /// all flows are complete, the event is after its end, or it has stalled.
    #[cold]
    fn look(&mut self, now: Picos) -> Result<bool> {
        if self.is_complete() {
            return Ok(true);
        }
        if now > self.end {
            // Nothing happens any more until the end: the second of the looks that are due by then sees no progress.
            for _ in 0..2 {
                if self.stall_at <= self.end {
                    self.look_for_stall(self.stall_at);
                }
            }
            return Ok(true);
        }
        if now >= self.sample_at {
            self.take_samples(now)?;
        }
        if let Some(measurement) = &mut self.measurement {
            measurement.pass(now, &self.ports, &self.senders);
        }
        if now >= self.stall_at {
            self.look_for_stall(now);
        }
        let measure_at = self.measurement.as_ref().map_or(Picos::MAX, |measurement| measurement.next);
        self.look_at = self.sample_at.min(self.stall_at).min(measure_at).min(self.end.saturating_add(1));
        Ok(self.totals.stall.is_some())
    }

    /// Whether all flows are complete.
    fn is_complete(&self) -> bool {
        self.totals.completions.len() == self.specs.len()
    }

    /// Looks for what has progressed since the last such look.
    #[cold]
    fn look_for_stall(&mut self, now: Picos) {
        let mark = self.progress_mark();
        if mark == self.progressed.1 {
            self.totals.stall = self.stall(self.progressed.0);
        }
        self.progressed = (now, mark);
        self.stall_at = now + self.stall_after;
    }

    /// Marks the flows that are READs.
    fn set_up_reads(&mut self, scenario: &Scenario<'_>) -> Result<()> {
        for &flow in scenario.reads {
            let spec = self.specs.get(flow as usize).with_context(|| format!("flow {flow}, a READ, does not exist"))?;
            check_read(scenario.algorithm, &self.transport, spec.bytes, self.payload)
                .with_context(|| format!("flow {flow}"))?;
            ensure!(!self.effects.echo, "flow {flow} is a READ, but marks are returned by acknowledgements");
            let sender = &mut self.senders[flow as usize];
            ensure!(sender.offer.is_none(), "flow {flow} is a READ: expected that all of its bytes are there at once");
            sender.sending = Sending::read(self.flows[flow as usize].first_psn, spec.bytes, self.payload);
        }
        Ok(())
    }

    fn set_up_nodes(&mut self, scenario: &Scenario<'_>, first_ports: &[u32], line_bytes: u16) -> Result<()> {
        let mut sent = vec![0; scenario.topology.nodes.len()];
        let mut received = sent.clone();
        for spec in scenario.flows {
            *sent.get_mut(spec.source as usize).context("a flow from a node that does not exist")? += 1;
            *received.get_mut(spec.destination as usize).context("a flow to a node that does not exist")? += 1;
        }
        for buffer in scenario.buffer.iter().chain(scenario.buffers.values()) {
            buffer.check(scenario.topology)?;
        }
        let classes = classes(scenario.flows);
        let mut kinds: Vec<(cc_core::Link, [Option<&Cores>; 2])> = Vec::new();
        for (node, kind) in scenario.topology.nodes.iter().enumerate() {
            let ports = first_ports[node]..first_ports[node + 1];
            match kind {
                Kind::Host => {
                    ensure!(ports.len() == 1, "host {node} has {} links: expected one", ports.len());
                    let port = &self.ports[ports.start as usize];
                    let speed = port.bits_per_second();
                    let link = scenario.link(node as u32, speed, line_bytes);
                    let cores = [Part::Rp, Part::Np]
                        .map(|part| scenario.cores.iter().find(|cores| cores.run(node as u32, part)));
                    let kind = (link, cores);
                    let group = match kinds.iter().position(|&other| other == kind) {
                        Some(group) => group,
                        None => {
                            let nics = self.nics(scenario, link, cores);
                            self.groups.push(nics.with_context(|| format!("hosts at {speed} bit/s"))?);
                            kinds.push(kind);
                            kinds.len() - 1
                        }
                    };
                    let (mut flows, mut peers): (usize, usize) = (sent[node], received[node]);
                    let has_core = cores != [None, None];
                    if has_core {
                        let of_part = |place: usize| cores[place].map_or(1, |cores| cores.count);
                        let [sends, receives] = NicSize::Full.room();
                        let room = [sends * of_part(0), receives * of_part(1)];
                        ensure!(
                            flows <= room[0] && peers <= room[1],
                            "host {node} sends {flows} flows and receives {peers}, but the tables of its cores have room for {} and {}: \
                             expected fewer flows, more cores, or that this host has none",
                            room[0],
                            room[1]
                        );
                        [flows, peers] = [sends, receives];
                    } else {
                        // Four entries for each flow that is received: the table is set-associative, and few flows then share a set.
                        (flows, peers) =
                            (flows.max(1), scenario.records.unwrap_or(4 * peers).next_power_of_two().max(4));
                    }
                    let start = instant(self.faults.clock_ahead(0, ports.start));
                    let nic = self.groups[group].add(start, flows, peers);
                    self.places.push(Place::Host(self.hosts.len() as u32));
                    let neighbour = self.ports[self.ports[ports.start as usize].peer as usize].node;
                    let queues = (scenario.queues)(scenario.topology.port(node as u32, neighbour, speed));
                    let ready = ReadyFlows::new(Scheduler::new(&queues, line_bytes));
                    let is_clocked = cores.iter().flatten().any(|cores| cores.is_clocked());
                    self.hosts.push(Host::new(node as u32, ports.start, (group, nic), is_clocked, ready));
                }
                _ => {
                    ensure!(
                        *kind != Kind::Relay || ports.len() == 2,
                        "relay {node} has {} links: expected two",
                        ports.len()
                    );
                    self.places.push(Place::Switch(self.switches.len() as u32));
                    let mut stages = Vec::new();
                    for number in ports.clone() {
                        let Port { peer, .. } = self.ports[number as usize];
                        let neighbour = self.ports[peer as usize].node;
                        let port = &mut self.ports[number as usize];
                        let place = scenario.topology.port(node as u32, neighbour, port.bits_per_second());
                        stages.push((scenario.stages)(place)?);
                        let queues = (scenario.queues)(place);
                        port.scheduler = Scheduler::new(&queues, line_bytes).map(Box::new);
                        let unmarked = (0..).zip(&queues).filter(|(_, queue)| !queue.ecn);
                        port.unmarked = unmarked.fold(0, |classes, (class, _)| classes | 1 << class);
                    }
                    let own = &self.ports[ports.start as usize..ports.end as usize];
                    let buffer = scenario.buffers.get(&(node as u32)).or(scenario.buffer.as_ref());
                    let buffer = buffer.map(|buffer| SharedBuffer::new(buffer, own, line_bytes, &self.effects));
                    let buffer = buffer.transpose().with_context(|| format!("the buffer of switch {node}"))?;
                    let seed = scenario.seed ^ (node as u64) << 32;
                    let place = (node as u32, ports.start, *kind == Kind::Relay);
                    let packets = (line_bytes, scenario.base_rtt);
                    let cores =
                        self.cores_of_switch(scenario, (node as u32, seed), (own, &stages), packets, classes)?;
                    let mut switch = Switch::new(place, (own, buffer), packets, classes, stages, seed)?;
                    switch.put_on_cores(cores)?;
                    for port in ports.filter(|&port| switch.holds(port)) {
                        self.ports[port as usize].flow_queues = Some(Box::default());
                    }
                    self.switches.push(switch);
                }
            }
        }
        for cores in scenario.cores.iter().filter(|cores| cores.part == Part::Stages && cores.design.is_some()) {
            let run = |switch: &Switch| cores.run(switch.node(), Part::Stages) && switch.core_uses().next().is_some();
            ensure!(
                self.switches.iter().any(run),
                "no switch has stages, which are to run on a core: expected some under [[stages]]"
            );
        }
        Ok(())
    }

    /// The stages of a switch that run on cores.
    fn cores_of_switch(
        &self,
        scenario: &Scenario<'_>,
        (node, seed): (u32, u64),
        ports: (&[Port], &[Stages]),
        (line_bytes, base_rtt): (u16, Nanos),
        classes: u8,
    ) -> Result<Vec<CoreStages>> {
        let cores = scenario.cores.iter().find(|cores| cores.run(node, Part::Stages));
        let Some(cores) = cores.and_then(|cores| Some((cores, cores.design?))) else { return Ok(Vec::new()) };
        let link = cc_core::Link { line_rate: Rate::ZERO, mtu: Bytes::new(line_bytes.into()), base_rtt };
        let on_cores = CoreStages::of_switch(cores, (node, seed), ports, (link, classes), &self.core_records)?;
        ensure!(
            cores.0.nodes.is_empty() || !on_cores.is_empty(),
            "switch {node} has no stages, which are to run on a core: expected some under [[stages]], or another switch"
        );
        Ok(on_cores)
    }

    /// A group of NICs with these cores for reaction point and notification point.
    #[cold]
    fn nics(
        &self,
        scenario: &Scenario<'_>,
        link: cc_core::Link,
        [rp, np]: [Option<&Cores>; 2],
    ) -> Result<Box<dyn NicGroup>> {
        if rp != np {
            let (rp, np) = (self.nics(scenario, link, [rp; 2])?, self.nics(scenario, link, [np; 2])?);
            return Ok(Box::new(SplitNics { rp, np }));
        }
        let nics = match rp.and_then(|cores| Some((cores, cores.design?))) {
            None => scenario.algorithm.nics(link, scenario.settings).map_err(|error| anyhow!("{error}"))?,
            Some((cores, design)) => {
                ensure!(
                    !self.faults.has_clocks,
                    "faults of clocks are not simulated at hosts with cores: expected none, or no cores"
                );
                let of = (scenario.algorithm.name(), link, scenario.settings);
                let nics = Prototype::new(cores, design, of).and_then(|prototype| {
                    CoreNics::new(cores, prototype, self.groups.len(), Rc::clone(&self.core_records))
                });
                Box::new(nics.with_context(|| format!("a core {}", cores.name()))?)
            }
        };
        Ok(match rp.map(|cores| cores.count) {
            Some(count @ 2..) => Box::new(SharedCores::new(nics, count)),
            _ => nics,
        })
    }

    /// What the cores did with the events since the last call, if [`Cores::keep_log`] says so: the node number of the host or switch,
    /// the part of it that the core runs ([`Part::name`]), and the event.
    pub fn take_core_log(&mut self) -> Vec<(u32, &'static str, Entry)> {
        let log = std::mem::take(&mut *self.core_records.log.borrow_mut());
        if log.is_empty() {
            return Vec::new();
        }
        let nodes: SortedMap<(usize, usize), u32> = self.hosts.iter().map(|host| (host.place(), host.node())).collect();
        let node = |runs| match runs {
            Runs::Nic(group, nic) => nodes[&(group, nic)],
            Runs::Switch(node) => node,
        };
        log.into_iter().map(|(runs, part, entry)| (node(runs), part, entry)).collect()
    }

    /// The time that the models of cores have taken on this machine.
    pub fn core_time(&self) -> Duration {
        self.core_records.worked.get()
    }

    /// Handles so many events. Returns whether there is more to do: flows are left, and the end of the scenario is not reached.
    ///
    /// # Errors
    /// A flow that has no path, or for which a NIC has no room.
    pub fn advance(&mut self, events: u64) -> Result<bool> {
        for _ in 0..events {
            let Some(event) = self.calendar.take() else {
                if !self.is_complete() {
                    self.totals.stall = self.stall(self.progressed.0);
                }
                return Ok(false);
            };
            let now = event.at();
            if now >= self.look_at && self.look(now)? {
                return Ok(false);
            }
            self.now = now;
            self.totals.events += 1;
            let place = event.place();
            match event.class() {
                Class::Arrival => self.arrive(now, place)?,
                Class::Delayed => self.arrive_delayed(now, place)?,
                Class::Free => self.free(now, place)?,
                Class::Poll => self.poll(now, place)?,
                Class::Notice => self.notice(now, place)?,
                Class::Wake => match self.places[place as usize] {
                    Place::Host(host) => self.wake(now, host)?,
                    Place::Switch(switch) => self.wake_switch(now, switch)?,
                },
                Class::Start => self.start(now, place)?,
                Class::Timeout => self.time_out(now, place)?,
                Class::Pause => self.pause_port(now, place)?,
                Class::Watchdog => self.watch(now, place)?,
                Class::Failure => self.change_links(now)?,
            }
        }
        self.tap_error.take().map_or(Ok(true), Err)
    }

    /// The time of the last event.
    pub const fn now(&self) -> Picos {
        self.now
    }

    /// Frames that have begun to leave a port.
    pub fn packet_hops(&self) -> u64 {
        self.ports.iter().map(|port| port.sent).sum()
    }

    /// Bytes of payload acknowledged, of all flows, and how many there are to be.
    pub fn progress(&self) -> (u64, u64) {
        (self.senders.iter().map(Sender::acked_bytes).sum(), self.specs.iter().map(|spec| spec.bytes).sum())
    }

    /// The totals. What is in flight is counted by walking all queues and links.
    ///
    /// # Errors
    /// Packets were lost or made from nothing: a fault of the simulation. Those of the sink of samples.
    pub fn finish(mut self) -> Result<Totals> {
        self.take_samples(self.sample_at)?;
        self.tap_error.take().map_or(Ok(()), Err)?;
        self.find_deadlocks(self.now);
        self.totals.end = self.now;
        self.totals.packet_hops = self.packet_hops();
        self.totals.feedback = self.switches.iter().map(|switch| switch.feedback).collect();
        self.totals.marks = self.ports.iter().map(|port| port.marks).sum();
        self.totals.paused = self.ports.iter().map(|port| port.paused(self.now)).sum();
        let measured = self.measurement.take();
        self.totals.measured = measured.map(|measurement| measurement.finish(&self.ports, &self.senders));
        self.totals.queue_lengths = self.watch.take().map(|watch| watch.finish(self.end)).unwrap_or_default();
        let in_ports: usize = self.ports.iter().map(|port| port.packets(&self.slab).count()).sum();
        let at_hosts: usize = self.hosts.iter().map(Host::waiting_packets).sum();
        let at_switches: usize = self.switches.iter().map(Switch::held_packets).sum();
        self.totals.in_flight = (in_ports + at_hosts + at_switches + self.faults.held_packets()) as u64;
        self.totals.faults = self.faults.counts();
        let Totals { injected, delivered, dropped, in_flight, .. } = self.totals;
        ensure!(
            injected == delivered + dropped + in_flight && in_flight == self.slab.len() as u64,
            "{injected} packets were injected, but {delivered} delivered, {dropped} dropped and {in_flight} in flight, with {} \
             slots in use: a fault of the simulation",
            self.slab.len()
        );
        let of_hosts = self.hosts.iter().flat_map(|host| host.cores(&*self.groups[host.group()]));
        self.totals.cores = of_hosts.chain(self.switches.iter().flat_map(Switch::core_uses)).collect();
        let mut counters: SortedMap<&str, u64> = SortedMap::new();
        for host in &self.hosts {
            let NicCounters { rp, np, .. } = host.counters(&*self.groups[host.group()]);
            rp.iter().chain(&np).for_each(|&(name, count)| *counters.or_default(name) += count);
        }
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        self.totals.evicted = count("np_flows_evicted");
        self.totals.unusable_telemetry = UNUSABLE_TELEMETRY.map(|name| (name, count(name)));
        ensure!(
            self.may_evict || self.totals.evicted == 0,
            "NICs have evicted {} records of received flows from tables that have room for all: a fault of the simulation",
            self.totals.evicted
        );
        Ok(self.totals)
    }

    /// The last bit of a packet arrives at a port.
    fn arrive(&mut self, now: Picos, port: u32) -> Result<()> {
        let peer = self.ports[port as usize].peer;
        let Some((packet, next)) = self.ports[peer as usize].arrive(now, &self.slab) else { return Ok(()) };
        if let Some(next) = next {
            self.calendar.add(Event::new(next, Class::Arrival, port));
        }
        if self.ports[peer as usize].has_faults {
            return self.arrive_with_faults(now, port, packet);
        }
        self.accept(now, port, packet)
    }

    /// The last bit of a packet arrives at a port over a link that has faults.
    #[cold]
    fn arrive_with_faults(&mut self, now: Picos, port: u32, packet: PacketId) -> Result<()> {
        let peer = self.ports[port as usize].peer;
        let describe = || frame_info(&self.slab, packet, &self.flows, &self.specs, self.payload);
        match self.faults.on_arrival(now, peer, describe) {
            Outcome::Arrives => self.accept(now, port, packet),
            Outcome::Lost(fault) => {
                self.lose_counted(now, peer, packet, fault);
                Ok(())
            }
            Outcome::Held(until) => {
                self.hold(port, until, Held::Packet(packet));
                Ok(())
            }
            Outcome::Twice => {
                let copy = self.slab.copy(packet);
                self.totals.injected += 1;
                self.accept(now, port, packet)?;
                self.accept(now, port, copy)
            }
        }
    }

    /// A fault keeps a frame, which arrives at a port at a later time.
    fn hold(&mut self, port: u32, until: Picos, frame: Held) {
        self.faults.hold(port, until, frame);
        self.calendar.add(Event::new(until, Class::Delayed, port));
    }

    /// Frames arrive at a port that faults have delayed.
    #[cold]
    fn arrive_delayed(&mut self, now: Picos, port: u32) -> Result<()> {
        while let Some(held) = self.faults.take_held(now, port) {
            match held {
                Held::Packet(packet) => self.accept(now, port, packet)?,
                Held::Notice(notice) => self.accept_notice(now, port, notice)?,
                Held::Cnp(packet) => self.send_delayed_cnp(now, port, packet)?,
            }
        }
        Ok(())
    }

    /// A packet has arrived whole at a port.
    #[inline]
    fn accept(&mut self, now: Picos, port: u32, packet: PacketId) -> Result<()> {
        let node = self.ports[port as usize].node;
        self.show_at_port(now, Origin::Arrived, port, |slab| whole_frame(slab, packet));
        if self.checked.is_some() {
            self.check(port, packet)?;
        }
        match self.places[node as usize] {
            Place::Host(host) => self.receive(now, host, packet),
            Place::Switch(switch) => self.forward(now, switch, port, packet),
        }
    }

    /// Checks a packet that has arrived at a port, see [`Network::check_frames`].
    #[cold]
    fn check(&mut self, port: u32, packet: PacketId) -> Result<()> {
        let Meta { flow, kind, wire_len, .. } = *self.slab.meta(packet);
        let example = if kind == PacketKind::Data { &self.data.0 } else { &self.ack };
        check(self.slab.header(packet), wire_len, kind, &self.flows[flow as usize], example).with_context(|| {
            let Port { node, .. } = self.ports[port as usize];
            format!("flow {flow}: a packet ({kind:?}) that arrived at node {node} is wrong: a fault of the simulation")
        })?;
        self.checked = self.checked.map(|checked| checked + 1);
        Ok(())
    }

    /// Passes a packet to the tap.
    fn show(&mut self, now: Picos, origin: Origin, packet: PacketId) -> Result<()> {
        let Some((_, tap)) = &mut self.tap else { return Ok(()) };
        tap(now, origin, &whole_frame(&self.slab, packet)?)
    }

    /// Passes a frame to the taps of a port, if it has any.
    #[inline]
    fn show_at_port(&mut self, now: Picos, origin: Origin, port: u32, frame: impl Fn(&InFlight) -> Result<Vec<u8>>) {
        if !self.port_taps.is_empty() {
            self.show_at_tapped_port(now, origin, port, frame);
        }
    }

    #[cold]
    fn show_at_tapped_port(
        &mut self,
        now: Picos,
        origin: Origin,
        port: u32,
        frame: impl Fn(&InFlight) -> Result<Vec<u8>>,
    ) {
        for (_, tap) in self.port_taps.iter_mut().filter(|&&mut (tapped, _)| tapped == port) {
            let shown = frame(&self.slab).and_then(|frame| tap(now, origin, &frame));
            self.tap_error = self.tap_error.take().or(shown.err());
        }
    }

    /// Whether frames of this host are passed to a tap.
    fn is_tapped(&self, node: u32) -> bool {
        self.tap.as_ref().is_some_and(|&(host, _)| host == node)
    }

    /// A port begins to send a packet.
    #[inline(always)]
    fn begin(&mut self, now: Picos, port: u32, packet: PacketId) {
        self.show_at_port(now, Origin::Sent, port, |slab| whole_frame(slab, packet));
        let port = &mut self.ports[port as usize];
        if let Some(arrives) = port.begin(now, packet, &mut self.slab) {
            self.calendar.add(Event::new(arrives, Class::Arrival, port.peer));
        }
    }
}

/// A packet as a whole frame: headers, a payload of zeros, and the ICRC.
fn whole_frame(slab: &InFlight, packet: PacketId) -> Result<Vec<u8>> {
    let mut frame = slab.header(packet).to_vec();
    frame.resize(slab.meta(packet).wire_len.into(), 0);
    ensure!(wire::write_icrc::<HostCrc>(&mut frame), "the network made a frame that cannot be parsed");
    Ok(frame)
}

/// What rules of faults ask about a packet.
fn frame_info(slab: &InFlight, packet: PacketId, flows: &[Flow], specs: &[FlowSpec], payload: u32) -> FrameInfo {
    let Meta { flow, kind, wire_len, line_bytes, .. } = *slab.meta(packet);
    let (spec, ends) = (&specs[flow as usize], &flows[flow as usize]);
    let last = ends.first_psn.plus((spec.bytes.div_ceil(payload.into()) - 1) as u32);
    let roce = packet::parse(slab.header(packet), wire_len.into()).expect("a packet that the network has made");
    let is_nak = roce.aeth().is_some_and(|aeth| matches!(aeth.syndrome, Syndrome::Nak(_)));
    let kinds = match kind {
        PacketKind::Data => FrameSet::DATA,
        PacketKind::Ack if is_nak => FrameSet::NAK,
        PacketKind::Ack => FrameSet::ACK
            .with(FrameSet::GRANT.only_if(roce.rcc_shim().is_some() || roce.mlcc_ack_shim().is_some()))
            .with(FrameSet::TELEMETRY.only_if(roce.int_shim().is_some())),
        PacketKind::Cnp => FrameSet::CNP.with(FrameSet::TELEMETRY.only_if(roce.switch_int().is_some())),
        PacketKind::Request | PacketKind::Reply => FrameSet::HANDSHAKE,
        PacketKind::ReadRequest => FrameSet::READ_REQUEST,
    };
    let has_psn = kinds.meets(FrameSet::DATA.with(FrameSet::ACK));
    FrameInfo { flow: Some(flow), kinds, is_last: has_psn && roce.bth.psn == last, bytes: line_bytes }
}

/// The classes of some flows, a bit each: class n is bit n.
pub(crate) fn classes(flows: &[FlowSpec]) -> u8 {
    flows.iter().fold(0, |classes, flow| classes | 1u8.checked_shl(flow.class.into()).unwrap_or(0))
}

/// The connections of a scenario's flows. Queue pairs of senders have numbers of their own in the whole network, which leads from an
/// acknowledgement to its flow; those of receivers are numbered host by host, which spreads them over the sets of a NIC's table.
/// The sequence numbers of the first flow wrap after 128 packets, so that each run passes there.
fn connect(scenario: &Scenario<'_>) -> Vec<Flow> {
    let mut random = SplitMix::new(scenario.seed);
    let mut received = vec![0; scenario.topology.nodes.len()];
    let connect = |(number, spec): (u32, &FlowSpec)| {
        let first_psn = if number == 0 { 0x00ff_ff80 } else { random.draw() as u32 };
        let mut receiver_qpn = FIRST_RECEIVER_QPN;
        if let Some(received) = received.get_mut(spec.destination as usize) {
            receiver_qpn += *received;
            *received += 1;
        }
        Flow {
            sender: spec.source as usize,
            receiver: spec.destination as usize,
            sender_qpn: Qpn::new(FIRST_QPN + number),
            receiver_qpn: Qpn::new(receiver_qpn),
            first_psn: Psn::new(first_psn),
        }
    };
    (0..).zip(scenario.flows).map(connect).collect()
}

/// Whether senders' NICs that react to these signals use acknowledgements.
fn uses_acks(signals: Signals) -> bool {
    !Signals::CNP.with(Signals::UNDETERMINED).contains(signals)
}

/// Checks that a flow of so many bytes, in packets with this payload, can be a READ.
///
/// # Errors
/// The algorithm reacts to acknowledgements, connections begin with a handshake, or the READ is too long.
pub(crate) fn check_read(algorithm: &dyn Algorithm, transport: &Transport, bytes: u64, payload: u32) -> Result<()> {
    ensure!(
        !uses_acks(algorithm.signals()),
        "responses to a READ are not acknowledged, but {} reacts to acknowledgements: expected no READs, or an algorithm that \
         reacts to CNPs only (dcqcn, dcqcn_plus, dcqcn_tcd) or to nothing (pfc)",
        algorithm.name()
    );
    ensure!(!transport.handshake, "READs with `handshake` are not simulated: expected a transport without it");
    ensure!(
        bytes <= LONGEST_READ && bytes.div_ceil(payload.into()) <= MOST_IN_FLIGHT,
        "a READ of {bytes} bytes: expected at most 2^31 bytes, in at most 2^23 packets"
    );
    Ok(())
}

/// Checks the buffer of each switch, where the longest frame has so many bytes.
///
/// # Errors
/// Those of a switch's buffer, with the number of the switch.
pub(crate) fn check_buffers<'a>(
    topology: &Topology,
    buffer_of: impl Fn(u32) -> &'a Buffer,
    frame_bytes: u32,
) -> Result<(), (u32, Error)> {
    let effects = Effects::default();
    let (ports, first) = lay_ports(topology, &effects).map_err(|error| (0, error))?;
    for (node, _) in (0u32..).zip(&topology.nodes).filter(|&(_, &kind)| kind != Kind::Host) {
        let own = &ports[first[node as usize] as usize..first[node as usize + 1] as usize];
        SharedBuffer::new(buffer_of(node), own, frame_bytes as u16, &effects).map_err(|error| (node, error))?;
    }
    Ok(())
}

/// Checks the explicit routes of a topology.
///
/// # Errors
/// One is not from a switch over one of its links to a host, or they lead packets in a circle.
pub(crate) fn check_routes(topology: &Topology) -> Result<()> {
    let (ports, first_ports) = lay_ports(topology, &Effects::default())?;
    Routes::new(topology, (&ports, first_ports), false, PathChoice::Hash).map(|_| ())
}

/// The links, by their numbers, on the path of each flow and on that of its acknowledgements.
///
/// # Errors
/// Those of the topology's explicit routes, and a flow without a path.
pub(crate) fn links_of_flows(
    topology: &Topology,
    flows: &[FlowSpec],
) -> Result<impl Iterator<Item = Result<[Vec<u32>; 2]>>> {
    let (ports, first_ports) = lay_ports(topology, &Effects::default())?;
    let routes = Routes::new(topology, (&ports, first_ports), false, PathChoice::Hash)?;
    let links = move |from, to, tuple| -> Result<Vec<u32>> {
        let path = routes
            .path(from, to, tuple)
            .with_context(|| format!("no path of at most 254 hops from node {from} to node {to}"))?;
        Ok(path.into_iter().map(|port| ports[port as usize].link).collect())
    };
    Ok(flows.iter().map(move |&FlowSpec { source, destination, tuple, .. }| {
        Ok([links(source, destination, tuple)?, links(destination, source, tuple.reversed())?])
    }))
}

/// The ports of all nodes, node by node, and where those of each node begin.
fn lay_ports(topology: &Topology, effects: &Effects) -> Result<(Vec<Port>, Vec<u32>)> {
    let mut first = vec![0u32; topology.nodes.len() + 1];
    for (number, link) in topology.links.iter().enumerate() {
        for end in link.ends {
            *first.get_mut(end as usize + 1).with_context(|| format!("link {number}: no node {end}"))? += 1;
        }
    }
    for node in 1..first.len() {
        first[node] += first[node - 1];
    }
    let mut next = first.clone();
    let mut ports: Vec<Option<Port>> = (0..2 * topology.links.len()).map(|_| None).collect();
    let framing = if effects.no_framing { 0 } else { FRAMING };
    for (number, link) in (0u32..).zip(&topology.links) {
        let numbers = link.ends.map(|end| {
            next[end as usize] += 1;
            next[end as usize] - 1
        });
        for (end, other) in [(0, 1), (1, 0)] {
            ports[numbers[end] as usize] =
                Some(Port::new((link.ends[end], numbers[other]), (number, link), framing, effects.whole_nanoseconds));
        }
    }
    Ok((ports.into_iter().flatten().collect(), first))
}
