//! What a run came to, for its reader and for scripts.

use crate::effective::{self, Table};
use crate::fabric::{self, Completion, Part, QueuePlace, StalledFlow, StormAction, SwitchFeedback, Totals};
use crate::input::{Input, Ports};
use crate::interval::{Interval, micros};
use crate::marking::Stages;
use crate::packet::PacketFormat;
use anyhow::Result;
use hil_algorithms::CoreUse;
use hil_algorithms::settings::{ResolvedSettings, SettingValue};
use hil_algorithms::stage;
use hil_sorted::SortedMap;
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// The summary of a run. All times of flows are from the start of a flow to the arrival of its last acknowledgement.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The version of this form.
    pub schema: u32,
    /// The algorithm.
    pub algorithm: String,
    /// The seed of random numbers.
    pub seed: u64,
    /// A hash (FNV-1a, 64 bits) of all input files, in hexadecimal digits.
    pub inputs: String,
    /// The settings that were in effect.
    pub effective: Effective,
    /// Where the run follows another simulator and not a NIC: names of [`Effects`](crate::fabric::Effects).
    pub effects: Vec<String>,
    /// The simulated time at the end, in seconds.
    pub simulated_seconds: f64,
    /// Flows.
    pub flows: Flows,
    /// Flows that were blocked when the run ended because nothing progressed; absent if it did not end so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
    /// Packets, PFC frames not counted.
    pub packets: Packets,
    /// For each rule of faults in their order, and then for each error rate of links: its kind, and how often it took effect, on PFC
    /// frames and messages between switches too.
    pub faults: Vec<Fault>,
    /// Frames that began to leave a port, PFC frames included.
    pub packet_hops: u64,
    /// Events of the event queue.
    pub events: u64,
    /// Processor time of the event loop.
    pub cpu_seconds: f64,
    /// Processor time of reading the inputs and setting up.
    pub setup_cpu_seconds: f64,
    /// The most memory that the process has had.
    pub peak_rss_bytes: u64,
    /// The time of flows over the time in an empty network, as `fct.txt` has both; absent if no flow is complete.
    pub slowdown: Option<Percentiles>,
    /// The same for flows by size.
    pub bins: Vec<Bin>,
    /// The flows of each tag; absent if no workload has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Group>,
    /// What was measured in an interval; absent if that was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Interval>,
    /// Queues of switch ports.
    pub queue: Queue,
    /// PFC.
    pub pfc: Pfc,
    /// What congestion control did, by algorithm.
    pub cc: SortedMap<String, Control>,
    /// What NICs and switches sent for it.
    pub feedback: Feedback,
    /// What the cores did, by what they run: a part of a NIC, or stages of a switch; absent without cores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CoresOfPart>,
    /// Packets whose bytes were held to a full emission, at each node that they reached; absent if that was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked_frames: Option<u64>,
    /// What the reader should know.
    pub warnings: Vec<String>,
}

/// The settings that were in effect: those that were given, and all others.
#[derive(Clone, Debug, Serialize)]
pub struct Effective {
    /// Hosts and switches of the topology.
    pub nodes: [u64; 2],
    /// Bytes of payload of a data packet.
    pub payload: u32,
    /// The round-trip time that NICs are configured with.
    pub base_rtt_ns: u32,
    /// When the run ends, even if flows are left.
    pub end_seconds: f64,
    /// The reaction point of each host, with its preset.
    pub rp: Machine,
    /// The notification point.
    pub np: Machine,
    /// The stages of switch ports.
    pub stages: Vec<PortStages>,
    /// How hosts send and acknowledge: `[transport]`.
    pub transport: Table,
    /// The buffer of switches without one of their own: `[buffer]`; absent if each has one, or if there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Table>,
    /// The buffers of the others, and the limits of some of their ports: `[[buffers]]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub buffers: Vec<Table>,
    /// The queues of switch ports that are not served in turn, shaped or without ECN: `[[queues]]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<Table>,
    /// The watchdog for PFC storms: `[watchdog]`; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watchdog: Option<Table>,
    /// The rules of faults, in the order of [`Summary::faults`]: `[[faults]]`, and then the losses of links.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Table>,
    /// The cores that run the NICs of some hosts and the stages of some switches: `[[cores]]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<Table>,
}

/// A machine or a stage with its settings.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Its name.
    pub name: &'static str,
    /// The preset of what was not given; absent for a stage.
    pub preset: Option<&'static str>,
    /// All settings, each in the unit that `hil list` shows.
    pub settings: SortedMap<&'static str, SettingValue>,
}

/// The stages of some switch ports.
#[derive(Clone, Debug, Serialize)]
pub struct PortStages {
    /// The speed of their links.
    pub bits_per_second: u64,
    /// What the switches are; absent if all ports to links of this speed have these stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<&'static str>,
    /// What their neighbours are; absent if `at` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<&'static str>,
    /// The stages.
    pub stages: Vec<Machine>,
}

impl Effective {
    fn of(input: &Input) -> Result<Self> {
        let hosts = input.topology.hosts().count() as u64;
        let stages = |(Ports { bits_per_second, ends }, stages): (Ports, Stages)| {
            let stages = stages.into_iter().map(|(name, words)| {
                let settings = stage(name, None)?.1.with_words(&words).shown();
                Ok(Machine { name, preset: None, settings })
            });
            let (at, to) = ends.map(|(at, to)| (at.name(), to.name())).unzip();
            Ok(PortStages { bits_per_second, at, to, stages: stages.collect::<Result<_>>()? })
        };
        let ResolvedSettings { rp_preset, np_preset, rp, np, .. } = &input.settings;
        let signals = input.algorithm.signals();
        let frame = PacketFormat::of(signals, input.payload).with_int(input.int_layout);
        let (buffer, buffers) = effective::buffers(input, frame.frame_bytes()?);
        let faults = input.faults.iter().cloned().chain(fabric::Fault::of_links(&input.topology));
        Ok(Self {
            nodes: [hosts, input.topology.nodes.len() as u64 - hosts],
            payload: input.payload,
            base_rtt_ns: input.base_rtt.get(),
            end_seconds: input.end as f64 / 1e12,
            rp: Machine { name: input.algorithm.name(), preset: Some(rp_preset), settings: rp.shown() },
            np: Machine { name: input.algorithm.receiver(), preset: Some(np_preset), settings: np.shown() },
            stages: input.stages()?.into_iter().map(stages).collect::<Result<_>>()?,
            transport: effective::transport(&input.transport),
            buffer,
            buffers,
            queues: effective::queues(&input.topology, &input.queues),
            watchdog: input.watchdog.as_ref().map(effective::watchdog),
            faults: faults.map(|fault| effective::fault(&fault, &input.topology)).collect(),
            cores: input.cores.iter().map(effective::cores).collect(),
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(preset) = self.preset {
            write!(f, " (preset {preset})")?;
        }
        self.settings.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [hosts, switches] = self.nodes;
        writeln!(
            f,
            "network     {hosts} hosts, {switches} switches; payload {} bytes, base RTT {:.3} us, end {} s",
            self.payload,
            f64::from(self.base_rtt_ns) / 1e3,
            self.end_seconds
        )?;
        writeln!(f, "sender      {}", self.rp)?;
        writeln!(f, "receiver    {}", self.np)?;
        for PortStages { bits_per_second, at, to, stages } in &self.stages {
            let stages: Vec<String> = stages.iter().map(Machine::to_string).collect();
            let stages = if stages.is_empty() { "no stages".to_owned() } else { stages.join("; ") };
            let ends = at.zip(*to).map(|(at, to)| format!(" from {at} to {to}")).unwrap_or_default();
            writeln!(f, "switches    at {} Gb/s{ends}: {stages}", *bits_per_second as f64 / 1e9)?;
        }
        writeln!(f, "transport   {}", self.transport)?;
        let all = self.buffer.iter().map(|table| ("buffer", table));
        let all = all.chain(self.buffers.iter().map(|table| ("buffers", table)));
        let all = all.chain(self.queues.iter().map(|table| ("queues", table)));
        let all = all.chain(self.watchdog.iter().map(|table| ("watchdog", table)));
        let all = all.chain(self.faults.iter().map(|table| ("faults", table)));
        let mut all = all.chain(self.cores.iter().map(|table| ("cores", table)));
        all.try_for_each(|(name, table)| writeln!(f, "{name:<12}{table}"))
    }
}

/// Flows.
#[derive(Clone, Debug, Serialize)]
pub struct Flows {
    /// Flows of the workload.
    pub all: u64,
    /// Flows that are complete.
    pub completed: u64,
    /// The shortest, the median and the longest time, in microseconds; absent if no flow is complete.
    pub fct_us: Option<[f64; 3]>,
    /// Percentiles of the time in microseconds; absent if no flow is complete.
    pub fct_percentiles_us: Option<Percentiles>,
}

/// The flows of a tag.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// The tag.
    pub tag: String,
    /// Its flows.
    pub flows: u64,
    /// Those that are complete.
    pub completed: u64,
    /// Bytes of payload of those that are complete.
    pub bytes: u64,
    /// When the first of those that are complete began, and when the last was complete, in microseconds; absent if none is.
    pub from_to_us: Option<[f64; 2]>,
    /// The times of those that are complete, in microseconds; absent if none is.
    pub fct_us: Option<Percentiles>,
    /// Their slowdowns.
    pub slowdown: Option<Percentiles>,
}

impl Group {
    /// The group with this number. `slowdowns` are those of [`slowdowns`].
    fn of(input: &Input, totals: &Totals, slowdowns: &[(u64, f64)], number: u16) -> Self {
        let is_in = |flow| input.tags.of(flow) == Some(number);
        let done = || totals.completions.iter().zip(slowdowns).filter(|(done, _)| is_in(done.flow));
        let first = done().map(|(done, _)| done.start).min();
        let last = done().map(|(done, _)| done.start + done.time).max();
        Self {
            tag: input.tags.names[usize::from(number)].clone(),
            flows: (0..input.flows.len() as u32).filter(|&flow| is_in(flow)).count() as u64,
            completed: done().count() as u64,
            bytes: done().map(|(_, (bytes, _))| bytes).sum(),
            from_to_us: first.zip(last).map(|(first, last)| [micros(first), micros(last)]),
            fct_us: Percentiles::of(done().map(|(done, _)| micros(done.time))),
            slowdown: Percentiles::of(done().map(|(_, &(_, slowdown))| slowdown)),
        }
    }
}

/// Why a run has ended because nothing progressed.
#[derive(Clone, Debug, Serialize)]
pub struct Stall {
    /// Since when at least nothing had progressed, in seconds of simulated time.
    pub since_seconds: f64,
    /// The queues of the first PFC deadlock that lasts, each of which waits for the next; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadlock: Option<Vec<QueuePlace>>,
    /// The flows that were open.
    pub flows: Vec<Blocked>,
}

/// A flow that did not progress.
#[derive(Clone, Debug, Serialize)]
pub struct Blocked {
    /// Its number.
    pub flow: u32,
    /// The host that sends.
    pub source: u32,
    /// The host that receives.
    pub destination: u32,
    /// The sequence number of its first packet that is not acknowledged.
    pub psn: u32,
    /// What blocks this packet.
    pub cause: String,
}

impl Blocked {
    fn of(input: &Input, blocked: &StalledFlow) -> Self {
        let StalledFlow { flow, psn, obstacle } = *blocked;
        let spec = &input.flows[flow as usize];
        Self { flow, source: spec.source, destination: spec.destination, psn: psn.get(), cause: obstacle.to_string() }
    }
}

/// A cycle of paused queues in words.
fn cycle(queues: &[QueuePlace]) -> String {
    let class = queues.first().map_or(0, |queue| queue.class);
    let names: Vec<String> = queues.iter().map(QueuePlace::to_string).collect();
    format!("each of these paused queues of class {class} waits for the next: {}", names.join("; "))
}

/// Flows of a stall that are shown in text.
const SHOWN: usize = 10;

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { since_seconds, deadlock, flows } = self;
        write!(f, "nothing has progressed since {since_seconds:.6} s, and {} flows are open", flows.len())?;
        if let Some(queues) = deadlock {
            write!(f, "\n  in a PFC deadlock {}", cycle(queues))?;
        }
        for Blocked { flow, source, destination, psn, cause } in flows.iter().take(SHOWN) {
            write!(f, "\n  flow {flow} from node {source} to node {destination}, PSN {psn}: {cause}")?;
        }
        if flows.len() > SHOWN { write!(f, "\n  and {} more", flows.len() - SHOWN) } else { Ok(()) }
    }
}

/// A rule of faults.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Fault {
    /// What it does.
    pub kind: &'static str,
    /// How often it took effect: on frames, or on readings of a clock.
    pub count: u64,
}

/// Packets: those injected are delivered, dropped or in flight.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Packets {
    /// Packets that hosts, switches and faults that duplicate made.
    pub injected: u64,
    /// Packets that arrived.
    pub delivered: u64,
    /// Packets that switches dropped or that were lost on links.
    pub dropped: u64,
    /// Those of them that were lost on links.
    pub lost: u64,
    /// Those of them that switches dropped in classes that PFC keeps free of loss.
    pub lossless_dropped: u64,
    /// Data packets that were sent again.
    pub sent_again: u64,
    /// Times that a sender gave up waiting for an acknowledgement.
    pub timeouts: u64,
    /// Packets that were queued or on a link at the end.
    pub in_flight: u64,
}

/// Percentiles: that of q is element floor(q n) of the n sorted values.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Percentiles {
    /// The mean.
    pub mean: f64,
    /// Half are below.
    pub p50: f64,
    /// 95 % are below.
    pub p95: f64,
    /// 99 % are below.
    pub p99: f64,
    /// 99.9 % are below.
    pub p999: f64,
}

/// Flows of similar size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Bin {
    /// They have at least so many bytes.
    pub from: u64,
    /// They have fewer bytes than this; absent for the last bin.
    pub below: Option<u64>,
    /// How many there are.
    pub flows: u64,
    /// Their slowdowns.
    pub slowdown: Percentiles,
}

/// Queues.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Queue {
    /// The longest, in bytes on the line.
    pub max_bytes: u64,
}

/// PFC.
#[derive(Clone, Debug, Serialize)]
pub struct Pfc {
    /// Frames sent.
    pub frames: u64,
    /// For how long data of ports was paused, all ports together.
    pub pause_ns: u64,
    /// Deadlocks, in the order in which they were found.
    pub deadlocks: Vec<Deadlock>,
    /// Storms, in the order in which the watchdog found them.
    pub storms: Vec<Storm>,
}

/// A PFC deadlock: each queue waits for the next, and the last for the first.
#[derive(Clone, Debug, Serialize)]
pub struct Deadlock {
    /// When the last of the queues was paused.
    pub since_ns: u64,
    /// When it was found to be over; null if it lasted until the end.
    pub ended_ns: Option<u64>,
    /// The queues.
    pub queues: Vec<QueuePlace>,
}

/// A queue of a switch that was paused without a break for the time of the watchdog.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Storm {
    /// When the pause began.
    pub since_ns: u64,
    /// When the watchdog ended its action; null if that lasted until the end, or if there was none.
    pub restored_ns: Option<u64>,
    /// The queue.
    pub queue: QueuePlace,
    /// Packets that the watchdog dropped.
    pub dropped: u64,
}

impl Pfc {
    fn of(totals: &Totals) -> Self {
        let deadlock = |found: &fabric::Deadlock| Deadlock {
            since_ns: found.since / 1_000,
            ended_ns: found.ended.map(|at| at / 1_000),
            queues: found.queues.clone(),
        };
        let storm = |found: &fabric::Storm| Storm {
            since_ns: found.since / 1_000,
            restored_ns: found.restored.map(|at| at / 1_000),
            queue: found.queue,
            dropped: found.dropped,
        };
        Self {
            frames: totals.pfc_frames,
            pause_ns: totals.paused / 1_000,
            deadlocks: totals.deadlocks.iter().map(deadlock).collect(),
            storms: totals.storms.iter().map(storm).collect(),
        }
    }

    /// Warnings of the deadlocks and storms: the first of each, and how many others there are.
    fn warnings(&self) -> impl Iterator<Item = String> {
        let micros = |nanos: u64| micros(1_000 * nanos);
        let others =
            |all: usize| if all > 1 { format!(" ({} more: see --format json)", all - 1) } else { String::new() };
        let deadlock = self.deadlocks.first().map(|Deadlock { since_ns, ended_ns, queues }| {
            let end = ended_ns.map_or("the end".to_owned(), |at| format!("{:.1} us", micros(at)));
            let others = others(self.deadlocks.len());
            format!("PFC deadlock from {:.1} us until {end}: {}{others}", micros(*since_ns), cycle(queues))
        });
        let storm = self.storms.first().map(|Storm { since_ns, restored_ns, queue, dropped }| {
            let end = restored_ns.map_or(String::new(), |at| format!(", restored at {:.1} us", micros(at)));
            format!(
                "PFC storm: {queue}, class {}, is paused without a break from {:.1} us on{end}; the watchdog dropped {dropped} \
                 packets{}",
                queue.class,
                micros(*since_ns),
                others(self.storms.len())
            )
        });
        deadlock.into_iter().chain(storm)
    }
}

/// What congestion control did.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Control {
    /// Decisions of reaction points.
    pub events: u64,
    /// Decisions that lowered a rate or a window.
    pub cuts: u64,
    /// Data packets that switches marked.
    pub marks: u64,
}

/// What NICs and switches sent for congestion control, beside acknowledgements.
#[derive(Clone, Debug, Serialize)]
pub struct Feedback {
    /// CNPs of receivers' NICs.
    pub nic_cnps: u64,
    /// CNPs of switches.
    pub switch_cnps: u64,
    /// Records of telemetry that switches wrote into data packets.
    pub telemetry: u64,
    /// The switches that sent CNPs, or sent or received messages of other switches.
    pub switches: Vec<AtSwitch>,
}

/// What the cores did that run a part of the NICs, or stages of switches, all together.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CoresOfPart {
    /// The part: `nic`, `rp`, `np` or `stages`.
    pub part: &'static str,
    /// How many cores there are.
    pub cores: u64,
    /// Frames, sent packets and events at queues that they handled.
    pub events: u64,
    /// Commands of the driver that they handled.
    pub commands: u64,
    /// Timer interrupts.
    pub timers: u64,
    /// CNPs, acknowledgements, data packets, sent packets, PFC frames and events at queues of switches that were lost because the
    /// queue was full.
    pub lost: [u64; 6],
    /// CNPs and acknowledgements that were merged with one that waited.
    pub joined: [u64; 2],
    /// The longest queue, in events.
    pub longest_queue: u64,
    /// The mean and the longest time from the arrival of an event until it was handled; absent if none was.
    pub delay_us: Option<[f64; 2]>,
    /// The share of time in which a core did not sleep: the mean of all cores, and that of the busiest; absent if they are infinitely
    /// fast.
    pub busy: Option<[f64; 2]>,
    /// Cycles in which a core did not sleep, all cores together.
    pub cycles: u64,
    /// Time of this machine for each of these cycles, in nanoseconds, of all parts together.
    pub host_ns_per_cycle: f64,
}

impl CoresOfPart {
    /// Those of all parts.
    fn all(totals: &Totals, seconds: f64) -> Vec<Self> {
        let all: u64 = totals.cores.iter().map(|(_, core)| core.active_cycles).sum();
        let host_ns_per_cycle = seconds * 1e9 / all.max(1) as f64;
        let of_part = |part| {
            let of_part: Vec<&CoreUse> =
                totals.cores.iter().map(|(_, core)| core).filter(|core| core.part == part).collect();
            let sum = |count: fn(&CoreUse) -> u64| of_part.iter().map(|core| count(core)).sum();
            let most = |count: fn(&CoreUse) -> u64| of_part.iter().map(|core| count(core)).max().unwrap_or(0);
            let clocked = || of_part.iter().filter(|core| core.cycles > 0);
            let busy = clocked().map(|core| core.active_cycles as f64 / core.cycles as f64);
            let busy = Percentiles::of(busy.clone()).map(|all| [all.mean, busy.fold(0.0, f64::max)]);
            let events: u64 = sum(|core| core.events);
            let delay: u64 = sum(|core| core.delay_ns);
            let longest = most(|core| core.longest_delay_ns) as f64 / 1e3;
            Self {
                part,
                cores: of_part.len() as u64,
                events,
                commands: sum(|core| core.commands),
                timers: sum(|core| core.timers),
                lost: [
                    sum(|core| core.lost.cnps),
                    sum(|core| core.lost.acks),
                    sum(|core| core.lost.data),
                    sum(|core| core.lost.sent),
                    sum(|core| core.lost.pauses),
                    sum(|core| core.lost.at_queues),
                ],
                joined: [sum(|core| core.joined_cnps), sum(|core| core.joined_acks)],
                longest_queue: most(|core| core.longest as u64),
                delay_us: (events > 0).then(|| [delay as f64 / events as f64 / 1e3, longest]),
                busy,
                cycles: sum(|core| core.active_cycles),
                host_ns_per_cycle,
            }
        };
        [Part::Nic, Part::Rp, Part::Np, Part::Stages]
            .map(Part::name)
            .into_iter()
            .map(of_part)
            .filter(|cores| cores.cores > 0)
            .collect()
    }
}

impl fmt::Display for CoresOfPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, cores, events, commands, timers, lost, joined, longest_queue, .. } = self;
        let [cnps, acks, data, sent, pauses, at_queues] = lost;
        writeln!(
            f,
            "cores       {cores} run {part}: {events} events, {commands} commands, {timers} timer interrupts; longest queue \
             {longest_queue} events"
        )?;
        writeln!(
            f,
            "  lost      {cnps} CNPs, {acks} acknowledgements, {data} data packets, {sent} sent packets, {pauses} PFC frames, \
             {at_queues} events at queues; merged {} CNPs, {} acknowledgements",
            joined[0], joined[1]
        )?;
        if let Some([mean, longest]) = self.delay_us {
            writeln!(f, "  delay     {mean:.3} us mean, {longest:.3} us longest, from arrival until handled")?;
        }
        write!(f, "  cycles    {} not asleep", self.cycles)?;
        if let Some([mean, most]) = self.busy.map(|busy| busy.map(|share| 100.0 * share)) {
            write!(f, ", {mean:.2} % of the time, {most:.2} % at the busiest core")?;
        }
        writeln!(f, "; {:.1} ns of this machine per cycle", self.host_ns_per_cycle)
    }
}

/// What the stages of a switch sent and received.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AtSwitch {
    /// The switch's node number.
    pub node: u32,
    /// Its kind.
    pub kind: &'static str,
    /// CNPs sent.
    pub cnps: u64,
    /// Records of telemetry written into data packets.
    pub telemetry: u64,
    /// Messages sent to switches at the other ends of its links.
    pub messages_sent: u64,
    /// Such messages received.
    pub messages_received: u64,
}

impl Feedback {
    fn of(input: &Input, totals: &Totals) -> Self {
        let all = &totals.feedback;
        let at_switch = |&SwitchFeedback { node, cnps, telemetry, messages_sent, messages_received }: &_| AtSwitch {
            node,
            kind: input.topology.nodes[node as usize].name(),
            cnps,
            telemetry,
            messages_sent,
            messages_received,
        };
        let acts = |at: &&SwitchFeedback| at.cnps + at.messages_sent + at.messages_received > 0;
        Self {
            nic_cnps: totals.nic_cnps,
            switch_cnps: all.iter().map(|at| at.cnps).sum(),
            telemetry: all.iter().map(|at| at.telemetry).sum(),
            switches: all.iter().filter(acts).map(at_switch).collect(),
        }
    }
}

impl Percentiles {
    /// Those of some values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |thousandths: usize| sorted.get(sorted.len() * thousandths / 1_000).copied();
        Some(Self {
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            p50: at(500)?,
            p95: at(950)?,
            p99: at(990)?,
            p999: at(999)?,
        })
    }
}

/// What a run cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Processor time of the event loop, in seconds.
    pub cpu_seconds: f64,
    /// Processor time before it, in seconds.
    pub setup_cpu_seconds: f64,
    /// The most memory of the process, in bytes.
    pub peak_rss_bytes: u64,
    /// The time that the models of cores took, in seconds.
    pub core_seconds: f64,
}

/// What differs from run to run, by the last part of its name in the summary's JSON.
pub const COSTS: [&str; 4] = ["cpu_seconds", "setup_cpu_seconds", "peak_rss_bytes", "host_ns_per_cycle"];

/// The summary of a run as JSON: what the scenario and its seed decide. What the run cost is left out at the top level, and zero in
/// `cores`.
///
/// # Errors
/// Those of [`Summary::of`].
pub fn json(input: &Input, totals: &Totals) -> Result<Value> {
    let cost = Cost { cpu_seconds: 0.0, setup_cpu_seconds: 0.0, peak_rss_bytes: 0, core_seconds: 0.0 };
    let mut summary = serde_json::to_value(Summary::of(input, totals, &cost)?)?;
    if let Value::Object(table) = &mut summary {
        table.retain(|name, _| !COSTS.contains(&name.as_str()));
    }
    Ok(summary)
}

/// Bounds of the bins of flows by size, in bytes.
pub(crate) const BINS: [u64; 5] = [0, 10_000, 100_000, 1_000_000, u64::MAX];

/// The bytes and the slowdown of each completed flow: its time over that in an empty network.
pub fn slowdowns(input: &Input, totals: &Totals) -> Vec<(u64, f64)> {
    let slowdown = |done: &Completion| {
        let ideal = input.ideal_of(done.flow as usize, done.bytes).max(1);
        (done.bytes, (done.time / 1_000) as f64 / ideal as f64)
    };
    totals.completions.iter().map(slowdown).collect()
}

impl Summary {
    /// The summary of a run.
    ///
    /// # Errors
    /// A link's speed has no stages.
    pub fn of(input: &Input, totals: &Totals, cost: &Cost) -> Result<Self> {
        let algorithm = input.algorithm.name();
        let slowdowns = slowdowns(input, totals);
        let mut times: Vec<u64> = totals.completions.iter().map(|done| done.time).collect();
        times.sort_unstable();
        let fct_us = times
            .first()
            .zip(times.last())
            .map(|(&first, &last)| [micros(first), micros(times[times.len() / 2]), micros(last)]);
        let bins = BINS.windows(2).filter_map(|bounds| {
            let (from, below) = (bounds[0], bounds[1]);
            let of_bin =
                || slowdowns.iter().filter(|(bytes, _)| (from..below).contains(bytes)).map(|&(_, slowdown)| slowdown);
            let slowdown = Percentiles::of(of_bin())?;
            Some(Bin { from, below: (below != u64::MAX).then_some(below), flows: of_bin().count() as u64, slowdown })
        });
        let fct_percentiles_us = Percentiles::of(times.iter().map(|&time| micros(time)));
        let group = |number| Group::of(input, totals, &slowdowns, number);
        let tags = (0..input.tags.names.len() as u16).map(group).collect();
        let measured = input.measure.as_ref().zip(totals.measured.as_ref());
        let mut warnings = input.warnings.clone();
        if let Some((measure, _)) = measured.filter(|(measure, _)| totals.end < measure.until) {
            warnings.push(format!(
                "the run ended at {:.3} us, before the end of the measurement at {:.3} us: it is measured as idle after that",
                micros(totals.end),
                micros(measure.until)
            ));
        }
        if let Some((measure, _)) = measured.filter(|(measure, _)| measure.window > measure.until - measure.from) {
            warnings.push(format!(
                "windows of {:.3} us do not fit in the measured interval of {:.3} us: nothing says how equal rates were; expected a \
                 shorter `--window`, or `window` of [measure]",
                micros(measure.window),
                micros(measure.until - measure.from)
            ));
        }
        let left = input.flows.len() - totals.completions.len();
        if left > 0 {
            warnings.push(format!("{left} flows are not complete at the end"));
        }
        if totals.cuts == 0 {
            warnings.push(format!(
                "congestion control never acted: no decision of {} lowered a rate or a window",
                algorithm
            ));
        }
        if totals.lossless_dropped > 0 {
            let by_faults = match totals.pfc_disturbed {
                0 => String::new(),
                frames => format!("faults lost or delayed {frames} PFC frames, or "),
            };
            let forwards = input.watchdog.is_some_and(|watchdog| watchdog.action == StormAction::Forward);
            let by_watchdog =
                if forwards && !totals.storms.is_empty() { "the watchdog sent in spite of pauses, or " } else { "" };
            let by_cores = match totals.cores.iter().map(|(_, core)| core.lost.at_queues).sum() {
                0u64 => String::new(),
                events => format!("cores lost {events} events of switches, or "),
            };
            warnings.push(format!(
                "{} packets were dropped in classes that PFC keeps free of loss: {by_faults}{by_watchdog}{by_cores}the headroom is \
                 too small",
                totals.lossless_dropped
            ));
        }
        let lost: u64 = totals.cores.iter().map(|(_, core)| core.lost.all()).sum();
        if lost > 0 {
            let can_join =
                |core: &CoreUse| core.lost.acks + core.lost.cnps > 0 && core.joined_acks + core.joined_cnps == 0;
            let or_join = match totals.cores.iter().any(|(_, core)| can_join(core)) {
                true => " or, for CNPs and acknowledgements, policy \"join\"",
                false => "",
            };
            warnings.push(format!(
                "cores lost {lost} events because their queues were full: expected a faster clock, fewer events{or_join}"
            ));
        }
        for (counter, count) in totals.unusable_telemetry.into_iter().filter(|&(_, count)| count > 0) {
            let reason = match counter {
                "rp_int_overflowed" => "had passed more switches that write telemetry than a packet has room for",
                _ => "had telemetry of more switches than the algorithm keeps records of",
            };
            warnings.push(format!(
                "{count} acknowledgements {reason} ({counter}): {algorithm} lowers its window without it; choose the ports that \
                 write telemetry by at, to and link_rate of [[stages]]"
            ));
        }
        let stall = totals.stall.as_ref().map(|stall| Stall {
            since_seconds: stall.since as f64 / 1e12,
            deadlock: totals.deadlocks.iter().find(|found| found.ended.is_none()).map(|found| found.queues.clone()),
            flows: stall.flows.iter().map(|blocked| Blocked::of(input, blocked)).collect(),
        });
        let pfc = Pfc::of(totals);
        warnings.extend(pfc.warnings());
        let control = Control { events: totals.decisions, cuts: totals.cuts, marks: totals.marks };
        Ok(Self {
            schema: 2,
            algorithm: algorithm.to_owned(),
            seed: input.seed,
            effective: Effective::of(input)?,
            inputs: format!("{:016x}", input.hash),
            effects: input.effects.names().iter().map(|&name| name.to_owned()).collect(),
            simulated_seconds: totals.end as f64 / 1e12,
            flows: Flows {
                all: input.flows.len() as u64,
                completed: totals.completions.len() as u64,
                fct_us,
                fct_percentiles_us,
            },
            packets: Packets {
                injected: totals.injected,
                delivered: totals.delivered,
                dropped: totals.dropped,
                lost: totals.lost,
                lossless_dropped: totals.lossless_dropped,
                sent_again: totals.sent_again,
                timeouts: totals.timeouts,
                in_flight: totals.in_flight,
            },
            faults: totals.faults.iter().map(|&(kind, count)| Fault { kind, count }).collect(),
            stall,
            packet_hops: totals.packet_hops,
            events: totals.events,
            cpu_seconds: cost.cpu_seconds,
            setup_cpu_seconds: cost.setup_cpu_seconds,
            peak_rss_bytes: cost.peak_rss_bytes,
            slowdown: Percentiles::of(slowdowns.iter().map(|&(_, slowdown)| slowdown)),
            bins: bins.collect(),
            tags,
            measured: measured.map(|(measure, measured)| Interval::of(input, measure, measured)),
            queue: Queue { max_bytes: totals.longest_queue },
            pfc,
            cc: [(algorithm.to_owned(), control)].into(),
            feedback: Feedback::of(input, totals),
            cores: CoresOfPart::all(totals, cost.core_seconds),
            checked_frames: None,
            warnings,
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Flows { all, completed, fct_us, .. } = &self.flows;
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        write!(f, "{}", self.effective)?;
        writeln!(f, "flows       {completed} of {all} complete")?;
        if let Some(stall) = &self.stall {
            writeln!(f, "stall       {stall}")?;
        }
        if let Some([least, median, most]) = fct_us {
            writeln!(f, "time        {least:.1} us least, {median:.1} us median, {most:.1} us most")?;
        }
        if let Some(all) = &self.slowdown {
            writeln!(f, "slowdown           flows    mean     p50     p95     p99   p99.9")?;
            let line = |f: &mut fmt::Formatter<'_>, name: &str, flows: u64, p: &Percentiles| {
                let Percentiles { mean, p50, p95, p99, p999 } = p;
                writeln!(f, "  {name:<14} {flows:>7} {mean:>7.3} {p50:>7.3} {p95:>7.3} {p99:>7.3} {p999:>7.3}")
            };
            for Bin { from, below, flows, slowdown } in &self.bins {
                line(f, &bin_name(*from, *below), *flows, slowdown)?;
            }
            line(f, "all", *completed, all)?;
        }
        if !self.tags.is_empty() {
            writeln!(
                f,
                "tag               complete         bytes  time: mean     p50     p99   p99.9 us  slowdown: p50     p99"
            )?;
        }
        for Group { tag, flows, completed, bytes, from_to_us, fct_us, slowdown } in &self.tags {
            write!(f, "  {tag:<14} {:>9} {bytes:>13}", format!("{completed}/{flows}"))?;
            if let (Some(time), Some(slowdown), Some([from, to])) = (fct_us, slowdown, from_to_us) {
                let Percentiles { mean, p50, p99, p999, .. } = time;
                write!(f, "  {mean:>10.1} {p50:>7.1} {p99:>7.1} {p999:>7.1}")?;
                write!(f, "    {:>13.3} {:>7.3}  from {from:.1} to {to:.1} us", slowdown.p50, slowdown.p99)?;
            }
            writeln!(f)?;
        }
        if let Some(measured) = &self.measured {
            write!(f, "{measured}")?;
        }
        writeln!(f, "queues      longest {} bytes", self.queue.max_bytes)?;
        writeln!(
            f,
            "PFC         {} frames, {:.1} us of pauses over all ports",
            self.pfc.frames,
            self.pfc.pause_ns as f64 / 1e3
        )?;
        for (name, Control { events, cuts, marks }) in &self.cc {
            writeln!(f, "{name:<11} {events} decisions, {cuts} of them cuts; {marks} packets marked")?;
        }
        let Feedback { nic_cnps, switch_cnps, telemetry, switches } = &self.feedback;
        if nic_cnps + switch_cnps + telemetry > 0 || !switches.is_empty() {
            writeln!(
                f,
                "feedback    {nic_cnps} CNPs of NICs, {switch_cnps} of switches; {telemetry} telemetry records"
            )?;
        }
        for AtSwitch { node, kind, cnps, telemetry, messages_sent, messages_received } in switches {
            writeln!(
                f,
                "  {kind} {node:<5} {cnps} CNPs, {telemetry} telemetry records; messages: {messages_sent} sent, {messages_received} received"
            )?;
        }
        self.cores.iter().try_for_each(|cores| write!(f, "{cores}"))?;
        let Packets { injected, delivered, dropped, lost, sent_again, timeouts, in_flight, .. } = self.packets;
        writeln!(
            f,
            "packets     {injected} injected: {delivered} delivered, {dropped} dropped, {in_flight} in flight"
        )?;
        if lost + sent_again + timeouts > 0 {
            writeln!(
                f,
                "losses      {lost} packets lost on links, {sent_again} data packets sent again, {timeouts} timeouts"
            )?;
        }
        for (number, Fault { kind, count }) in self.faults.iter().enumerate() {
            writeln!(f, "fault {number:<6}{kind}, {count} times")?;
        }
        if let Some(checked) = self.checked_frames {
            writeln!(
                f,
                "checked     {checked} arrivals of packets: each is what a full parse and a full emission make"
            )?;
        }
        writeln!(
            f,
            "run         {:.6} s simulated, {} packet-hops and {} events in {:.3} CPU s ({:.2} M packet-hops/s), set up in {:.3}, {} MB",
            self.simulated_seconds,
            self.packet_hops,
            self.events,
            self.cpu_seconds,
            self.packet_hops as f64 / self.cpu_seconds.max(1e-9) / 1e6,
            self.setup_cpu_seconds,
            self.peak_rss_bytes / 1_000_000
        )?;
        if !self.effects.is_empty() {
            writeln!(f, "as in ns-3  {}", self.effects.join(", "))?;
        }
        write!(f, "inputs      {}, seed {}", self.inputs, self.seed)
    }
}

/// The name of a bin by its bounds.
pub(crate) fn bin_name(from: u64, below: Option<u64>) -> String {
    match below {
        Some(below) if from == 0 => format!("below {}", size(below)),
        Some(below) => format!("{} to {}", size(from), size(below)),
        None => format!("from {}", size(from)),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_element_at_its_share_of_the_sorted_list() {
        let p = Percentiles::of((0..1_000).rev().map(f64::from)).unwrap();
        assert_eq!((p.mean, p.p50, p.p95, p.p99, p.p999), (499.5, 500.0, 950.0, 990.0, 999.0));
        let p = Percentiles::of([7.0]).unwrap();
        assert_eq!((p.p50, p.p999), (7.0, 7.0));
        assert!(Percentiles::of([]).is_none());
    }
}
