//! Adapters between the traffic and the library: of these modules, only this one calls the functions of a NIC and a switch.

use super::journal::{Journal, Kind};
use super::traffic::{Arrival, Step, traffic};
use super::{EVENTS, FRAMES, Run};
use cc_core::table::{Handle, Heap};
use cc_core::{Bytes, Instant, Link, Nanos, Rate};
use cc_cp::list::StageList;
use cc_cp::red::Red;
use cc_cp::{Queue, QueueStage, Rewrite, Stage};
use cc_np::NotificationPoint;
use cc_rp::{RateLimiter, ReactionPoint};
use hil_algorithms::registry;
use hil_capture::crc::HostCrc;
use hil_measure::stage_cycles;
use hil_measure::stage_cycles::traffic::{Happening, Occasion, Place};
use hil_sim::incast::Incast;
use hil_sim::named;
use programs::descriptor::{self, Descriptor};
use programs::switch_ring::{QUEUES, StageAction, SwitchHardware, SwitchProgram};
use programs::{LogKind, NO_FLOW, NicProgram, Small, TransmitRing};

/// The most wakes between two events that run at the time at which they are due. Further wakes run at the next event's time, so
/// that late wakes are tested too.
const PUNCTUAL: usize = 64;

/// The names of all algorithms.
pub fn algorithms() -> impl Iterator<Item = &'static str> {
    registry::names()
}

/// The names of all stages.
pub fn stages() -> impl Iterator<Item = &'static str> {
    cc_cp::registry::NAMES.iter().copied()
}

/// The runs of an algorithm: one for each preset, and at least three.
pub fn nic(algorithm: &str, text: bool) -> Vec<Run> {
    registry::with(algorithm, Nics { text }).expect("a known algorithm")
}

/// The runs of a stage: one for each preset.
pub fn stage(stage: &str, text: bool) -> Vec<Run> {
    let presets = stage_cycles::presets(&[stage]);
    (1..).zip(&presets).map(|(seed, (preset, settings))| run(stage, seed, (preset, settings), text)).collect()
}

/// The run of an algorithm in the simulated fabric: its capture, frame by frame.
pub fn synth(algorithm: &str, text: bool) -> Run {
    let mut decisions = Journal::new(text);
    let mut tap = |time, frame: &[u8]| {
        decisions.add(Kind::Event, time, &[frame.len() as u64], &frame[..frame.len().min(256)]);
        Ok(())
    };
    let scenario = Incast { duration: Nanos::new(300_000), ..Incast::SAMPLE };
    named::run(&scenario, algorithm, None, Red::PRESETS[0].values, &mut tap)
        .unwrap_or_else(|error| panic!("{algorithm}: {error}"));
    Run { name: format!("synth {algorithm}"), input: Journal::default(), decisions }
}

/// The part of a sent frame that the library decides: the IP destination address and payload, without the ICRC. For a rate
/// message of LSCC (ICMP) the payload only: its address is that of the other end of the link, which the device chooses.
fn decided_part(frame: &[u8]) -> Vec<u8> {
    let tags = if frame[12] == 0x81 { 4 } else { 0 };
    let ip = &frame[14 + tags..];
    let (destination, protocol, rest) =
        if ip[0] >> 4 == 4 { (&ip[16..20], ip[9], &ip[20..]) } else { (&ip[24..40], ip[6], &ip[40..]) };
    if protocol == 17 { [destination, &rest[..rest.len() - 4]].concat() } else { rest.to_vec() }
}

struct Nics {
    text: bool,
}

impl registry::Visitor for Nics {
    type Output = Vec<Run>;

    fn visit<A: ReactionPoint, N: NotificationPoint>(self) -> Vec<Run> {
        let run = |nth: usize| {
            let (rp, np) = (&A::PRESETS[nth % A::PRESETS.len()], &N::PRESETS[nth % N::PRESETS.len()]);
            let gbps = [100, 25, 400][nth % 3];
            let link = Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(4_200), base_rtt: Nanos::new(12_000) };
            let nic = NicProgram::<A, N, Small>::new(Instant::from_nanos(0), link, &rp.values, &np.values)
                .unwrap_or_else(|error| panic!("{}, {}: {error}", A::NAME, rp.name));
            let mut nic = NicAdapter { nic, handles: Vec::new(), device: NicDevice::new(self.text) };
            let mut input = Journal::new(self.text);
            for (now, step) in traffic(1 + nth as u64, FRAMES, A::SIGNALS) {
                nic.wake(now);
                nic.step(now, &step);
                step.record(now, &mut input);
            }
            Run { name: format!("nic {} {} {gbps}G", A::NAME, rp.name), input, decisions: nic.device.decisions }
        };
        (0..A::PRESETS.len().max(3)).map(run).collect()
    }
}

/// A NIC with at most 32 flows, driven by [`Step`]s.
struct NicAdapter<A: ReactionPoint, N: NotificationPoint> {
    nic: NicProgram<A, N, Small>,
    /// The handle of each flow, in the order of the calls to open; [`NO_FLOW`] for a flow that was refused.
    handles: Vec<u32>,
    device: NicDevice,
}

impl<A: ReactionPoint, N: NotificationPoint> NicAdapter<A, N> {
    /// Lets timers run until `now`.
    fn wake(&mut self, now: u64) {
        let mut wakes = 0;
        while self.nic.next_wake().nanos() <= now {
            let due = if wakes < PUNCTUAL { self.nic.next_wake().nanos() } else { now };
            wakes += 1;
            self.device.now = due;
            self.nic.timer(Instant::from_nanos(due), &mut self.device);
        }
    }

    fn step(&mut self, now: u64, step: &Step) {
        self.device.now = now;
        let at = |kind| Descriptor::at(kind, now);
        let flow = |flow: &usize| self.handles.get(*flow).copied().unwrap_or(NO_FLOW);
        let with_frame = |kind, frame: &[u8], handle, qpn| {
            (Descriptor { wire_bytes: frame.len() as u32, handle, qpn, ..at(kind) }, frame.to_vec())
        };
        let (descriptor, frame) = match step {
            Step::RingFull(full) => {
                self.device.full = *full;
                return;
            }
            Step::Open(priority) => {
                (Descriptor { handle: u32::from(*priority), ..at(descriptor::DescriptorKind::Open) }, Vec::new())
            }
            Step::Bind(number, qpn) => {
                (Descriptor { handle: flow(number), qpn: *qpn, ..at(descriptor::DescriptorKind::Bind) }, Vec::new())
            }
            Step::Close(number) => {
                (Descriptor { handle: flow(number), ..at(descriptor::DescriptorKind::Close) }, Vec::new())
            }
            Step::Sent(number, psn, bytes) => {
                let sent = at(descriptor::DescriptorKind::Sent);
                (Descriptor { handle: flow(number), psn: *psn, wire_bytes: *bytes, ..sent }, Vec::new())
            }
            Step::Disconnect(qpn) => {
                (Descriptor { qpn: *qpn, ..at(descriptor::DescriptorKind::Disconnect) }, Vec::new())
            }
            Step::Destination(number, frame) => {
                with_frame(descriptor::DescriptorKind::LearnRemote, frame, flow(number), Descriptor::UNKNOWN_QPN)
            }
            Step::Connect(remote, frame) => with_frame(descriptor::DescriptorKind::Connect, frame, 0, *remote),
            Step::Arrival(Arrival {
                frame,
                wire_bytes,
                icrc_checked,
                remote,
                acked,
                rtt,
                msn,
                rx_buffer_level,
                coalesced,
            }) => {
                let descriptor = Descriptor {
                    flags: if *icrc_checked { Descriptor::ICRC_CHECKED } else { 0 },
                    wire_bytes: *wire_bytes,
                    handle: u32::from(*rx_buffer_level),
                    qpn: remote.unwrap_or(Descriptor::UNKNOWN_QPN),
                    coalesced: *coalesced,
                    acked: *acked,
                    rtt: rtt.unwrap_or(Descriptor::UNKNOWN_RTT),
                    msn: msn.unwrap_or(Descriptor::NO_ACK),
                    ..at(descriptor::DescriptorKind::Frame)
                };
                (descriptor, frame.clone())
            }
        };
        self.nic.handle(Instant::from_nanos(now), &descriptor, &frame, &mut self.device);
        if matches!(step, Step::Open(_)) {
            self.handles.push(self.device.opened);
        }
    }
}

/// The device below a NIC. It records every call of the NIC.
struct NicDevice {
    now: u64,
    full: bool,
    room: [u8; 1_024],
    opened: u32,
    decisions: Journal,
}

impl NicDevice {
    fn new(text: bool) -> Self {
        Self { now: 0, full: false, room: [0; 1_024], opened: NO_FLOW, decisions: Journal::new(text) }
    }
}

impl RateLimiter for NicDevice {
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos) {
        let words = [u32::from(index), rate.to_bits(), window.get(), hold.get()].map(u64::from);
        self.decisions.add(Kind::Rate, self.now, &words, &[]);
    }
}

impl TransmitRing for NicDevice {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        if self.full { &mut [] } else { &mut self.room }
    }

    fn transmit(&mut self, length: usize) {
        self.decisions.add(Kind::Sent, self.now, &[], &decided_part(&self.room[..length]));
    }
}

impl programs::Hardware for NicDevice {
    type Crc = HostCrc;

    fn log(&mut self, kind: LogKind, _now: Instant, index: u32) {
        match kind {
            LogKind::Open => {
                self.opened = index;
                let slot = if index == NO_FLOW { index } else { u32::from(Handle::from_bits(index).index()) };
                self.decisions.add(Kind::Opened, self.now, &[slot.into()], &[]);
            }
            LogKind::Bind => self.decisions.add(Kind::Bound, self.now, &[(index != NO_FLOW).into()], &[]),
            _ => {}
        }
    }
}

/// The run of a stage with the settings of a preset.
fn run(stage: &str, seed: u64, (preset, settings): (&str, &[Vec<u32>]), text: bool) -> Run {
    let switch = stage_cycles::switch(&[stage], settings).unwrap_or_else(|error| panic!("{stage}, {preset}: {error}"));
    let mut traffic = stage_cycles::traffic(seed, switch.switch().stages());
    let mut switch = SwitchAdapter { switch, device: SwitchDevice::new(text) };
    let mut input = Journal::new(text);
    for _ in 0..EVENTS {
        let occasion = traffic.draw();
        let Occasion { now, at, what, ref frame } = occasion;
        record(&occasion, &mut input);
        switch.wake(now);
        let admitted = switch.on(now, at, what, frame);
        if let Happening::Arrival { bytes, .. } = what
            && admitted
        {
            traffic.admit(at, bytes);
        }
    }
    Run { name: format!("stage {stage} {preset}"), input, decisions: switch.device.decisions }
}

/// Adds an event at a switch to a journal of the traffic.
fn record(occasion: &Occasion, journal: &mut Journal) {
    let Occasion { now, at, what, frame } = occasion;
    let words = match *what {
        Happening::Arrival { bytes, queued } => [1, bytes, queued, 0, 0],
        Happening::Departure { bytes, queued, port_queued, ecn } => [2, bytes, queued, port_queued, ecn.into()],
        Happening::Pause { nanos, queued } => [3, nanos, queued, 0, 0],
        Happening::Relay { paused, seq } => [4, paused.into(), seq.into(), 0, 0],
    };
    let words: Vec<u64> = [u32::from(at.port), at.class.into()].into_iter().chain(words).map(u64::from).collect();
    journal.add(Kind::Event, *now, &words, frame);
}

/// A switch with one stage, driven by [`Occasion`]s.
struct SwitchAdapter {
    switch: SwitchProgram<StageList, Heap>,
    device: SwitchDevice,
}

impl SwitchAdapter {
    /// Lets timers run until `now`.
    fn wake(&mut self, now: u64) {
        let mut wakes = 0;
        while self.switch.next_wake().nanos() <= now {
            let due = if wakes < PUNCTUAL { self.switch.next_wake().nanos() } else { now };
            wakes += 1;
            self.device.now = due;
            self.switch.timer(Instant::from_nanos(due), &mut self.device);
        }
    }

    /// Handles one event of a queue. Returns false if the stage drops the event's packet.
    fn on(&mut self, now: u64, at: Place, what: Happening, frame: &[u8]) -> bool {
        let (queue, events) = stage_cycles::events(at, what, self.switch.switch().stages().takes());
        let device = &mut self.device;
        (device.now, device.verdict) = (now, [0; 14]);
        // The queue's length that a stage reads during the event includes an arriving packet, and excludes a departing one.
        let (queued, ecn) = match what {
            Happening::Departure { bytes, queued, ecn, .. } => (Some(queued.saturating_sub(bytes)), Some(ecn)),
            Happening::Arrival { queued, bytes } => (Some(queued.saturating_add(bytes)), None),
            Happening::Pause { .. } | Happening::Relay { .. } => (None, None),
        };
        if let (Some(queued), Some(place)) = (queued, device.queued.get_mut(queue.index())) {
            *place = Bytes::new(queued);
        }
        device.ecn = ecn;
        let frame = &frame[..frame.len().min(stage_cycles::HEAD)];
        for event in events {
            let descriptor = Descriptor { captured: frame.len() as u16, ..event.at(now, queue) };
            self.switch.handle(Instant::from_nanos(now), &descriptor, frame, device);
        }
        if device.verdict != [0; 14] {
            let words: Vec<u64> = [u64::from(at.port), at.class.into()].into_iter().chain(device.verdict).collect();
            device.decisions.add(Kind::Verdict, now, &words, &[]);
        }
        device.verdict[2] == 0
    }
}

/// The device below a switch. It merges the stage's calls during one event into one verdict.
struct SwitchDevice {
    now: u64,
    queued: [Bytes; QUEUES],
    paused: [bool; QUEUES],
    /// The ECN bits of the departing packet.
    ecn: Option<u8>,
    /// The fields of [`Kind::Verdict`] from `mark` on.
    verdict: [u64; 14],
    room: [u8; 1_024],
    decisions: Journal,
}

impl SwitchDevice {
    fn new(text: bool) -> Self {
        Self {
            now: 0,
            queued: [Bytes::ZERO; QUEUES],
            paused: [false; QUEUES],
            ecn: None,
            verdict: [0; 14],
            room: [0; 1_024],
            decisions: Journal::new(text),
        }
    }
}

impl TransmitRing for SwitchDevice {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        &mut self.room
    }

    fn transmit(&mut self, length: usize) {
        self.decisions.add(Kind::Sent, self.now, &[], &decided_part(&self.room[..length]));
    }
}

impl SwitchHardware for SwitchDevice {
    type Crc = HostCrc;

    fn queued(&self, queue: Queue) -> Bytes {
        self.queued.get(queue.index()).copied().unwrap_or_default()
    }

    fn act(&mut self, queue: Queue, action: &StageAction) {
        let at = [queue.port, queue.class.into()].map(u64::from);
        match *action {
            StageAction::Verdict(verdict) => {
                let [mark, not_ect, drop, hold, ecn_to, clear_int, credit, credit_queue, hop @ ..] = &mut self.verdict;
                (*mark, *not_ect) = (verdict.mark as u64, verdict.not_ect.into());
                (*drop, *hold) = (verdict.drop.into(), verdict.hold.get().into());
                if let Some(record) = verdict.hop {
                    *hop =
                        [1, record.mbps, record.flags.into(), record.clock, record.sent, record.queue].map(u64::from);
                }
                if let Some(Rewrite { ecn, clear_int: clear, mlcc }) = verdict.rewrite {
                    let ecn = ecn.to_bits();
                    *ecn_to = if Some(ecn) == self.ecn { 0 } else { 1 + u64::from(ecn) };
                    *clear_int = clear.into();
                    if let Some(mlcc) = mlcc {
                        (*credit, *credit_queue) = (1 + u64::from(mlcc.credit), mlcc.queue.get().into());
                    }
                }
            }
            StageAction::Pause(quanta) => {
                // A PFC frame that only renews a pause is not recorded: it is no new decision.
                let Some(paused) = self.paused.get_mut(queue.index()) else { return };
                if *paused != (quanta > 0) {
                    *paused = quanta > 0;
                    self.decisions.add(Kind::Pause, self.now, &[at[0], at[1], u64::from(quanta > 0)], &[]);
                }
            }
            StageAction::Relay(relayed) => {
                let words = [at[0], at[1], relayed.paused.into(), relayed.seq.into()];
                self.decisions.add(Kind::Relay, self.now, &words, &[]);
            }
        }
    }

    fn log(&mut self, _kind: u8, _now: Instant, _index: u32) {}
}
