//! The target of the congestion points: a switch with any stages and settings, any packets, pauses and messages in any order,
//! and a clock that may jump.

use crate::{operations, settings};
use arbitrary::{Arbitrary, Unstructured};
use cc_core::clock::LocalClock;
use cc_core::params::{ParamError, Settings};
use cc_core::table::{Fixed, Heap};
use cc_core::wire::opcode::Class;
use cc_core::wire::shim::{IntShim, MlccAck, MlccData};
use cc_core::wire::{
    Addresses, Bth, Extensions, FlowKey, Frame, Mac, RateMessage, Roce, Shims, TableCrc, Tags, opcode,
};
use cc_core::{Bytes, CnpBody, CnpBodyKind, CnpKind, Ecn, Instant, IntLayout, Link, Mark, Nanos, Qpn, Rate, Zeroed};
use cc_cp::RelayMessage;
use cc_cp::list::{StageList, StageListError};
use cc_cp::recorder::Recorder;
use cc_cp::registry::{self, Visitor};
use cc_cp::{ConfigureError, Event, Kind, OnQueues, Packet, PeerMessage, Queue, QueueCounters, Stage, Switch, Verdict};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

const PORTS: usize = 2;
const QUEUES: usize = PORTS * Queue::CLASSES;
/// The queues that traffic uses. The first, that of control traffic, is never configured; the last is beyond the last port.
const USED: [Queue; 5] = [
    Queue { port: 0, class: 0 },
    Queue { port: 0, class: 3 },
    Queue { port: 1, class: 3 },
    Queue { port: 1, class: 7 },
    Queue { port: 2, class: 0 },
];
/// The stages of which the target knows which marks, records, CNPs and changes of packets they may make.
const KNOWN: [&str; 10] = [
    "red",
    "tcd",
    "int",
    "mmu",
    "lscc_rate_calculation",
    "lscc_rate_limiting",
    "lscc_direct_int",
    "mlcc_near_source",
    "mlcc_per_flow_queues",
    "swing",
];
const CONTROL: usize = 0;
const BEYOND: usize = 4;
const SECOND: u64 = 1_000_000_000;
/// The longest pause, in nanoseconds: a longer one ends after this time. A pause of at least [`STORM`] nanoseconds counts as a
/// pause storm.
const LONGEST_PAUSE: u64 = 400_000_000;
const STORM: u64 = 100_000_000;

#[derive(Arbitrary, Debug)]
enum Operation {
    /// A packet arrives: its queue, its bytes shifted right, its frame.
    Arrive(u8, (u32, u8), u8),
    /// A packet joins a queue: its bytes, shifted right.
    Enqueue(u8, (u32, u8)),
    /// A packet that was in the switch has left its buffers.
    Release(u8),
    /// A packet leaves by a queue.
    Depart(u8, Leaving),
    /// A queue gets another length: bytes, shifted right.
    Length(u8, (u32, u8)),
    /// The neighbour pauses a queue: nanoseconds, shifted right; zero resumes.
    Pause(u8, (u32, u8)),
    /// LSCC's remote switch sends a rate, which may be repeated, out of order, or zero.
    Rate(u8, u16, (u32, u8)),
    /// Swing's remote switch sends a message.
    Relay(u8, u16, bool),
    /// Time passes: nanoseconds, shifted right so that short waits are as frequent as long ones.
    Wait(u32, u8),
    /// The second switch is woken, though no timer is due.
    Wake,
    Jump(i64),
    /// A stage gets other settings under traffic.
    Configure(u8, u8),
}

/// A packet that leaves.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Leaving {
    /// Shifted right.
    bytes: (u32, u8),
    port_queued: (u32, u8),
    ecn: u8,
    frame: u8,
}

/// A number of bytes. Small numbers are as frequent as large ones.
fn bytes((value, by): (u32, u8)) -> Bytes {
    Bytes::new(value >> (by % 32))
}

/// Drives a switch with some stages of the registry: see [`cp_of`].
pub fn cp(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    let entry = &registry::ALL[usize::from(first) % registry::ALL.len()];
    let _ = cp_of(entry.name, rest);
}

/// Drives three switches with the same operations and the same random seed. Each has the stage of this name, and up to three
/// others in one list with it. The first switch is woken as rarely as its contract allows, the second also at other times, and
/// the third has the stages in reverse order. Returns the number of operations in the bytes.
///
/// # Panics
/// - A list accepts two stages that rewrite packets, or two that admit packets, or refuses others; settings in range are
///   refused without a reason.
/// - The order of stages changes a result; equal seeds give different verdicts; an additional wake changes the result of an
///   event, with stages that decide by queue lengths and marks only.
/// - A stage other than LSCC's rate limiting lowers a mark; a packet without ECT gets a mark; a packet of a queue that is not
///   configured is changed.
/// - A CNP is caused by a packet other than a data packet, is of a kind that no stage of the list sends, or names another flow.
/// - RED marks a packet below Kmin, or leaves one above Kmax without a mark.
/// - Counters are not the sums of the events, or pauses do not end when they have to, by local time.
/// - A PFC frame repeats the state that the neighbour was sent last, other than to renew a pause; an empty switch pauses a
///   neighbour.
/// - A telemetry record has a longer queue than the port; relay messages are not numbered consecutively.
#[must_use]
pub fn cp_of(name: &str, data: &[u8]) -> usize {
    let mut source = Unstructured::new(data);
    let Ok((start, seed, gbps, others)) = source.arbitrary::<(u64, u64, u8, [u8; 4])>() else { return 0 };
    // A line rate of 0 is that of a link that is down.
    let line_rate = Rate::from_gbps([0, 10, 25, 40, 100, 200, 400, 800][usize::from(gbps % 8)]);
    let link = Link { line_rate, mtu: Bytes::new(1_500), base_rtt: Nanos::new(12_000) };
    let [count, others @ ..] = others;
    let mut names = vec![name];
    names.extend(others.iter().take(usize::from(count % 4)).map(|&other| {
        let entry = &registry::ALL[usize::from(other) % registry::ALL.len()];
        entry.name
    }));
    let mut stages = Vec::new();
    for name in names {
        let known: Vec<Vec<u32>> = (0..2).filter_map(|_| words(name, &link, &mut source)).collect();
        if known.is_empty() {
            return 0;
        }
        let taken = stages.iter().map(|&(name, _): &(&str, _)| name);
        if taken.clone().any(|other| other == name) || refuses(taken, name) {
            let mut list = StageList::new(QUEUES);
            stages.iter().for_each(|(name, known): &(&str, Vec<Vec<u32>>)| list.add(name, &known[0]).expect("taken"));
            let outcome = list.add(name, &known[0]);
            let twice = matches!(outcome, Err(StageListError::TwoRewrite(..) | StageListError::TwoAdmit(..)));
            assert_eq!(twice, refuses(stages.iter().map(|&(name, _)| name), name), "{name}: {outcome:?}");
            continue;
        }
        stages.push((name, known));
    }
    let frames = frames();
    let mut bench = Bench::new(start >> 1, seed, link, stages);
    let mut count = 0;
    for operation in operations(&mut source) {
        bench.operate(&operation, &frames);
        count += 1;
    }
    bench.drain();
    count
}

/// Whether a list of the stages `taken` must refuse the stage `name`: it may have one stage that rewrites packets, and one that
/// admits them.
fn refuses<'a>(taken: impl Iterator<Item = &'a str>, name: &str) -> bool {
    const REWRITE: [&str; 4] = ["lscc_rate_limiting", "lscc_direct_int", "mlcc_near_source", "mlcc_per_flow_queues"];
    let kind = |name: &str| if REWRITE.contains(&name) { 1 } else { 2 * usize::from(name == "mmu") };
    kind(name) > 0 && { taken }.any(|other| kind(other) == kind(name))
}

/// Settings for the stage of this name, in the order of its fields; `None` if they contradict each other or the link.
fn words(name: &str, link: &Link, source: &mut Unstructured<'_>) -> Option<Vec<u32>> {
    registry::with(name, Words { link, source }).expect("a stage of the registry")
}

struct Words<'a, 'b> {
    link: &'a Link,
    source: &'a mut Unstructured<'b>,
}

impl Visitor for Words<'_, '_> {
    type Output = Option<Vec<u32>>;

    fn visit<S: OnQueues>(self) -> Option<Vec<u32>> {
        type Of<S> = <S as OnQueues>::Stage<Fixed<8>>;
        let settings = settings(self.source, Of::<S>::PRESETS, |settings| {
            let mut stage = Box::new(Of::<S>::ZEROED);
            match stage.configure(Instant::from_nanos(0), Queue::of(0), self.link, settings, 0) {
                Err(ConfigureError::Param(error)) => Err::<(), ParamError>(error),
                outcome => {
                    outcome.expect("the queue exists");
                    Ok(())
                }
            }
        })?;
        let fields = <<Of<S> as Stage>::Settings as Settings>::FIELDS.len();
        Some((0..fields).map(|index| settings.get(index)).collect())
    }
}

/// The model of a queue: the values that its counters must have.
#[derive(Clone, Copy, Default)]
struct Model {
    counters: QueueCounters,
    /// When the present pause began, when it ends, and whether it counts as a storm.
    pause: Option<(u64, u64, bool)>,
}

impl Model {
    fn expire(&mut self, now: u64) {
        let Some((began, until, storm)) = &mut self.pause else { return };
        if !*storm && now.min(*until) - *began >= STORM {
            *storm = true;
            self.counters.pfc_storms += 1;
        }
        if *until <= now {
            let until = *until;
            self.resume(until);
        }
    }

    fn resume(&mut self, now: u64) {
        if let Some((began, ..)) = self.pause.take() {
            self.counters.pfc_paused_ns += now - began;
        }
    }
}

/// A switch, and the frames that it has sent.
struct One {
    switch: Switch<StageList, Heap>,
    sent: Recorder,
    /// By queue, whether the last PFC frame paused the neighbour.
    paused: BTreeMap<Queue, bool>,
    /// By queue and kind (true for a rate), the sequence number of the last message.
    numbers: BTreeMap<(Queue, bool), u16>,
}

impl One {
    /// Checks and removes the frames that were sent. Returns them as text: PFC frames, CNPs and messages.
    fn take(&mut self, woken: bool) -> String {
        let Recorder { cnps, peers, pfcs, .. } = &mut self.sent;
        for &(queue, quanta) in &*pfcs {
            let was = self.paused.insert(queue, quanta > 0).unwrap_or(false);
            assert!(was != (quanta > 0) || (woken && was), "{queue:?}: {quanta} quanta sent twice");
        }
        for (queue, message) in &*peers {
            let (rate, seq) = match message {
                PeerMessage::Rate(RateMessage { seq, .. }) => (true, *seq),
                PeerMessage::Relay(RelayMessage { seq, .. }) => (false, *seq),
            };
            let last = self.numbers.insert((*queue, rate), seq).unwrap_or(0);
            // If several periods end at one call, only the last one's rate is sent, whose number counts all of them.
            assert!(rate || seq == last.wrapping_add(1), "{queue:?}: {message:?}");
        }
        peers.sort_by_key(|(queue, message)| (*queue, matches!(message, PeerMessage::Rate(_))));
        let text = format!("{pfcs:?} {cnps:?} {peers:?}");
        pfcs.clear();
        cnps.clear();
        peers.clear();
        text
    }

    fn wake(&mut self, now: Instant) -> String {
        self.switch.wake(now, &mut self.sent);
        self.take(true)
    }
}

struct Bench {
    now: u64,
    clock: LocalClock,
    woken_at: u64,
    /// Whether a stage took the last event, or the last call was a wake of all switches.
    taken: bool,
    seed: u64,
    link: Link,
    /// The stages' names, and the settings between which each changes.
    stages: Vec<(&'static str, Vec<Vec<u32>>)>,
    late: One,
    woken: One,
    reversed: One,
    models: [Option<Model>; USED.len()],
    /// The packets in the switch: queue and bytes.
    held: Vec<(usize, Bytes)>,
    lengths: [Bytes; USED.len()],
    /// Kmin and Kmax of RED, if no other stage marks.
    thresholds: Option<(u64, u64)>,
}

impl Bench {
    fn new(now: u64, seed: u64, link: Link, stages: Vec<(&str, Vec<Vec<u32>>)>) -> Self {
        let entry = |name: &str| registry::ALL.iter().find(|entry| entry.name == name).expect("of the registry").name;
        let stages: Vec<_> = stages.into_iter().map(|(name, known)| (entry(name), known)).collect();
        let one = |reversed: bool| {
            let mut switch = Switch::<StageList, Heap>::new(Instant::from_nanos(now));
            switch.make_room(QUEUES);
            let mut order: Vec<_> = stages.iter().collect();
            if reversed {
                order.reverse();
            }
            for (name, known) in order {
                switch.stages_mut().add(name, &known[0]).expect("checked before");
            }
            One { switch, sent: Recorder::default(), paused: BTreeMap::new(), numbers: BTreeMap::new() }
        };
        let (late, woken, reversed) = (one(false), one(false), one(true));
        let clock = LocalClock::new(Instant::from_nanos(now));
        let (models, lengths) = ([None; USED.len()], [Bytes::ZERO; USED.len()]);
        let (held, thresholds) = (Vec::new(), None);
        let mut bench = Self {
            now,
            clock,
            woken_at: now,
            taken: true,
            seed,
            link,
            stages,
            late,
            woken,
            reversed,
            models,
            held,
            lengths,
            thresholds,
        };
        for queue in 1..BEYOND {
            bench.configure(queue);
        }
        let error = bench.late.switch.configure(Instant::from_nanos(now), USED[BEYOND], &link, &(), seed);
        assert!(matches!(error, Err(ConfigureError::NoSuchQueue { ports: PORTS, .. })));
        bench.set_thresholds(0);
        bench
    }

    /// Whether the target knows what each of the stages may do. Other stages are held to what is true of all.
    fn is_known(&self) -> bool {
        self.stages.iter().all(|(name, _)| KNOWN.contains(name))
    }

    fn has(&self, name: &str) -> bool {
        self.stages.iter().any(|&(stage, _)| stage == name)
    }

    /// Computes RED's thresholds, scaled to the link, from its settings of this number.
    fn set_thresholds(&mut self, which: usize) {
        self.thresholds = match self.stages.iter().find(|&&(name, _)| name == "red") {
            Some((_, known)) if !self.has("tcd") && self.is_known() => {
                let [kmin, kmax, _, reference] = known[which % known.len()][..] else { panic!("four settings") };
                let scale = |threshold: u32| match u128::from(Rate::from_mbps(reference).to_bits()) {
                    0 => u128::from(threshold),
                    reference => u128::from(threshold) * u128::from(self.link.line_rate.to_bits()) / reference,
                };
                let [kmin, kmax] =
                    [kmin, kmax].map(|threshold| u64::try_from(scale(threshold)).expect("checked before"));
                Some((kmin, kmax))
            }
            _ => None,
        };
    }

    /// The time of a call, by the caller's clock and in nanoseconds of local time.
    fn call(&mut self) -> (Instant, u64) {
        let now = Instant::from_nanos(self.now);
        (now, self.clock.advance(now).nanos())
    }

    fn ones(&mut self) -> [&mut One; 3] {
        [&mut self.late, &mut self.woken, &mut self.reversed]
    }

    fn configure(&mut self, queue: usize) {
        let ((now, _), link, seed) = (self.call(), self.link, self.seed);
        for one in self.ones() {
            one.switch.configure(now, USED[queue], &link, &(), seed).expect("checked before");
        }
        self.models[queue].get_or_insert_default();
    }

    fn operate(&mut self, operation: &Operation, frames: &[Vec<u8>]) {
        let queue = |queue: u8| usize::from(queue) % USED.len();
        match *operation {
            Operation::Arrive(at, of, frame) => {
                self.arrive(queue(at), bytes(of), &frames[usize::from(frame) % frames.len()])
            }
            Operation::Enqueue(at, of) => self.pass(queue(at), &Event::Enqueue { bytes: bytes(of) }),
            Operation::Release(which) => self.release(which),
            Operation::Depart(at, leaving) => {
                self.depart(queue(at), leaving, &frames[usize::from(leaving.frame) % frames.len()]);
            }
            Operation::Length(at, length) => {
                // A pause that has expired must end before the queue's length changes.
                self.wake_all();
                self.lengths[queue(at)] = bytes(length);
                let (at, length) = (USED[queue(at)], bytes(length));
                for one in self.ones() {
                    one.sent.queued.insert(at, length);
                }
            }
            Operation::Pause(at, time) => self.pause(queue(at), Nanos::new(bytes(time).get())),
            Operation::Rate(at, seq, units) => {
                let message = RateMessage { seq, units: bytes(units).get(), ..RateMessage::default() };
                self.pass(queue(at), &Event::Peer(PeerMessage::Rate(message)));
            }
            Operation::Relay(at, seq, paused) => {
                self.pass(queue(at), &Event::Peer(PeerMessage::Relay(RelayMessage { paused, seq })));
            }
            Operation::Wait(nanos, shift) => {
                if self.now - self.woken_at > SECOND / 2 - 1 {
                    self.wake_all();
                }
                let wait = u64::from(nanos >> (3 + shift % 29)).min(SECOND / 2);
                // A wake that is due during the wait takes place before it.
                if self.late.switch.next_wake().nanos() <= self.now + wait {
                    self.wake_all();
                }
                if self.is_calm() {
                    for third in 1..3 {
                        self.woken.wake(Instant::from_nanos(self.now + wait * third / 3));
                    }
                }
                self.now += wait;
            }
            Operation::Wake => {
                let (now, _) = self.call();
                if self.is_calm() {
                    self.woken.wake(now);
                }
            }
            Operation::Jump(by) => {
                let to = self.now.saturating_add_signed(by >> 8) >> 1;
                if !(self.now..=self.now + SECOND).contains(&to) {
                    // All switches are called before and after the jump, so that each sees the same jump.
                    self.wake_all();
                    self.now = to;
                    self.wake_all();
                }
            }
            Operation::Configure(stage, which) => {
                // Timers that are due expire under the old settings.
                self.wake_all();
                let place = usize::from(stage) % self.stages.len();
                let (name, known) = &self.stages[place];
                let (name, words) = (*name, known[usize::from(which) % known.len()].clone());
                for one in self.ones() {
                    one.switch.stages_mut().set(name, &words).expect("checked before");
                }
                for queue in 1..BEYOND {
                    self.configure(queue);
                }
                if name == "red" {
                    self.set_thresholds(which.into());
                }
            }
        }
    }

    /// Whether additional wakes change no result of an event: all stages decide by queue lengths and marks, not by deadlines.
    fn is_calm(&self) -> bool {
        self.stages.iter().all(|(name, _)| ["red", "tcd", "int", "mmu"].contains(name))
    }

    fn wake_all(&mut self) {
        let (now, local) = self.call();
        let [late, woken, reversed] = self.ones().map(|one| one.wake(now));
        assert_eq!(late, reversed, "the order of stages changed a result");
        assert!(self.is_calm() || late == woken);
        (self.woken_at, self.taken) = (self.now, true);
        self.models.iter_mut().flatten().for_each(|model| model.expire(local));
    }

    /// Passes an event of a queue to all three switches. Returns the verdict, and the CNPs that were sent.
    fn event(&mut self, queue: usize, event: &Event<'_>) -> (Verdict, Vec<(FlowKey, CnpBody)>) {
        let (now, local) = self.call();
        let takes = self.late.switch.stages().takes().contains(event.kind());
        self.taken = takes;
        let cnps = {
            let [late, woken, reversed] = self.ones().map(|one| {
                let verdict = one.switch.on(now, USED[queue], event, &mut one.sent);
                let cnps: Vec<_> = one.sent.cnps.iter().map(|(flow, body, _)| (*flow, *body)).collect();
                let records =
                    one.sent.cnps.iter().all(|(_, body, hop)| hop.is_some() == (body.kind == CnpKind::DirectInt));
                assert!(records, "only a direct INT carries a record");
                (verdict, cnps, one.take(false))
            });
            assert_eq!(late, woken, "a wake changed a result");
            assert_eq!(late, reversed, "the order of stages changed a result");
            late
        };
        match &mut self.models[queue] {
            // A switch ignores events that no stage takes.
            Some(model) if takes => model.expire(local),
            Some(_) => {}
            None => assert_eq!((cnps.0, &cnps.2[..]), (Verdict::PASS, "[] [] []"), "{queue}: not configured"),
        }
        let next = [&self.late, &self.reversed].map(|one| one.switch.next_wake());
        assert_eq!(next[0], next[1], "the order of stages changed a result");
        (cnps.0, cnps.1)
    }

    /// Passes an event that concerns no departing packet: it must cause no CNP, and its verdict no change.
    fn pass(&mut self, queue: usize, event: &Event<'_>) {
        assert_eq!(self.event(queue, event), (Verdict::PASS, Vec::new()));
        self.assert_counters(queue);
    }

    fn arrive(&mut self, queue: usize, bytes: Bytes, frame: &[u8]) {
        let roce = Roce::of(frame).expect("frames() builds RoCE packets only");
        let packet = Packet { bytes, roce: Some(&roce) };
        let queued =
            self.held.iter().filter(|held| held.0 == queue).map(|held| held.1).fold(Bytes::ZERO, Bytes::saturating_add);
        let (verdict, cnps) = self.event(queue, &Event::Arrival { packet, queued });
        assert_eq!((Verdict { drop: false, ..verdict }, cnps.len()), (Verdict::PASS, 0));
        assert!(!verdict.drop || self.has("mmu") || !self.is_known());
        if !verdict.drop {
            self.held.push((queue, bytes));
        }
        self.assert_counters(queue);
    }

    fn release(&mut self, which: u8) {
        if self.held.is_empty() {
            return;
        }
        let (queue, bytes) = self.held.swap_remove(usize::from(which) % self.held.len());
        let queued =
            self.held.iter().filter(|held| held.0 == queue).map(|held| held.1).fold(bytes, Bytes::saturating_add);
        self.pass(queue, &Event::Release { bytes, queued });
    }

    fn depart(&mut self, queue: usize, leaving: Leaving, frame: &[u8]) {
        let roce = Roce::of(frame).expect("frames() builds RoCE packets only");
        let data = !matches!(roce.info.class(), Class::Ack | Class::Cnp);
        let (packet, port_queued) =
            (Packet { bytes: bytes(leaving.bytes), roce: Some(&roce) }, bytes(leaving.port_queued));
        let (queued, ecn) = (self.lengths[queue], Ecn::from_bits(leaving.ecn));
        let (verdict, cnps) = self.event(queue, &Event::Departure { packet, ecn, queued, port_queued });
        if self.models[queue].is_none() {
            return;
        }
        let Verdict { mark, not_ect, drop, hold, hop, rewrite } = verdict;
        assert!(!drop && hold < Nanos::new(u32::MAX / 2), "{verdict:?}");
        let marked = verdict.apply(ecn);
        let allowed: &[Ecn] = match ecn {
            Ecn::NotEct => &[Ecn::NotEct],
            Ecn::Ect0 => &[Ecn::Ect0, Ecn::Ect1, Ecn::Ce],
            Ecn::Ect1 => &[Ecn::Ect1, Ecn::Ce],
            Ecn::Ce => &[Ecn::Ce],
        };
        assert!(allowed.contains(&marked) && (!not_ect || ecn == Ecn::NotEct), "{ecn:?}: {verdict:?}");
        let known = self.is_known();
        assert!(self.has("red") || self.has("tcd") || !known || (mark == Mark::None && !not_ect));
        assert!(hop.is_some() == self.has("int") || !known);
        assert!(hop.is_none_or(|hop| hop.queue <= port_queued.get()), "{packet:?}: {verdict:?}");
        if let Some((kmin, kmax)) = self.thresholds {
            let (queued, markable) = (u64::from(queued.get()), matches!(ecn, Ecn::Ect0 | Ecn::Ect1));
            assert!(mark == Mark::None || (markable && queued > kmin), "{queued} of {kmin}: marked");
            assert!(mark == Mark::Congested || !markable || queued <= kmax, "{queued} of {kmax}: not marked");
            assert_eq!(not_ect, ecn == Ecn::NotEct && queued > kmax);
        }
        if known {
            self.assert_rewrite(rewrite, marked, data);
        }
        let kind = [
            ("lscc_rate_limiting", CnpKind::Direct),
            ("lscc_direct_int", CnpKind::DirectInt),
            ("mlcc_near_source", CnpKind::SwitchInt),
        ]
        .into_iter()
        .find(|(name, _)| self.has(name));
        assert!(cnps.len() <= usize::from(data && kind.is_some()) || !known);
        for (flow, body) in cnps {
            assert_eq!(flow, FlowKey::of_data(&roce));
            assert!((Some(body.kind) == kind.map(|(_, kind)| kind) || !known) && body.names_remote_qpn, "{body:?}");
            assert_eq!(body.remote_qpn, flow.data_qpn);
        }
        let takes = self.late.switch.stages().takes().contains(Kind::Departure);
        if let Some(model) = self.models[queue].as_mut().filter(|_| takes) {
            model.counters.packets += 1;
            model.counters.ecn_marked += u64::from(mark == Mark::Congested && marked != ecn);
            model.counters.not_ect_above_kmax += u64::from(not_ect);
        }
        self.assert_counters(queue);
    }

    /// Checks the changes to a packet. `marked` are its ECN bits after the marks of the other stages.
    fn assert_rewrite(&self, rewrite: Option<cc_cp::Rewrite>, marked: Ecn, data: bool) {
        let limits = self.has("lscc_rate_limiting");
        let clears_int =
            self.has("lscc_direct_int") || self.has("mlcc_near_source") || self.has("mlcc_per_flow_queues");
        assert_eq!(rewrite.is_some(), limits || clears_int);
        let Some(rewrite) = rewrite else { return };
        // LSCC's rate limiting removes the mark, which it has recorded, unless its table has no room for the flow.
        let lowered = limits && data && marked == Ecn::Ce && rewrite.ecn == Ecn::Ect0;
        assert!(rewrite.ecn == marked || lowered, "{marked:?}: {rewrite:?}");
        assert_eq!(rewrite.clear_int, clears_int && data);
        assert_eq!(rewrite.mlcc.is_some(), data && self.has("mlcc_per_flow_queues"));
    }

    fn pause(&mut self, queue: usize, time: Nanos) {
        let queued = self.lengths[queue];
        let (_, local) = self.call();
        self.pass_pause(queue, time, queued, local);
        self.assert_counters(queue);
    }

    /// Passes a pause to the switches, and to the queue's model.
    fn pass_pause(&mut self, queue: usize, time: Nanos, queued: Bytes, local: u64) {
        assert_eq!(self.event(queue, &Event::Pause { time, queued }), (Verdict::PASS, Vec::new()));
        let takes = self.late.switch.stages().takes().contains(Kind::Pause);
        if let Some(model) = self.models[queue].as_mut().filter(|_| takes) {
            let until = local + u64::from(time.get()).min(LONGEST_PAUSE);
            match &mut model.pause {
                _ if time == Nanos::ZERO => model.resume(local),
                Some(pause) => pause.1 = until,
                None => {
                    model.pause = Some((local, until, false));
                    model.counters.pfc_pauses += 1;
                }
            }
        }
    }

    /// Checks a queue's counters against the model, after an event that a stage takes or a wake of all switches; they do not
    /// depend on earlier wakes. After other events, which switches ignore, the counters may differ: an expired pause is counted
    /// only in the switch that was woken since.
    fn assert_counters(&self, queue: usize) {
        if self.taken {
            let expected = self.models[queue].as_ref().map(|model| &model.counters);
            for one in [&self.late, &self.woken, &self.reversed] {
                assert_eq!(one.switch.counters(USED[queue]), expected);
            }
        }
        let steps = (self.clock.forward_jumps(), self.clock.backward_jumps());
        assert_eq!([self.late.switch.clock_steps(), self.reversed.switch.clock_steps()], [steps; 2]);
    }

    /// Releases all packets. Checks that no neighbour is paused then, unless Swing relays a remote pause.
    fn drain(&mut self) {
        while !self.held.is_empty() {
            self.release(0);
        }
        self.wake_all();
        for queue in 0..BEYOND {
            self.assert_counters(queue);
        }
        assert!(self.has("swing") || !self.is_known() || self.late.paused.values().all(|&paused| !paused));
        assert!(self.models[CONTROL].is_none());
    }
}

/// Frames of eight flows, more than a set of a table has places for: data with telemetry, acknowledgements with credits, CNPs.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for flow in 0..8_u8 {
        let addresses = if flow % 2 == 0 {
            Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, flow), destination: Ipv4Addr::new(10, 1, 0, flow) }
        } else {
            let [source, destination] = [0, 1].map(|site| Ipv6Addr::new(0xfd00, site, 0, 0, 0, 0, 0, flow.into()));
            Addresses::V6 { source, destination }
        };
        let data_qpn = Qpn::new(0x100 + u32::from(flow));
        let head = Frame {
            destination: Mac::new([2; 6]),
            source: Mac::new([4; 6]),
            tags: Tags::NONE,
            addresses,
            dscp: 26,
            ecn: Ecn::Ect0,
            hop_limit: 64,
            udp_source: 0xc000,
            shims: Shims::NONE,
            bth: Bth::default(),
            extensions: Extensions::default(),
            payload: &[],
        };
        let int = Some(IntShim::empty(IntLayout::Wide, 1, 4));
        let shims = Shims { int, mlcc_data: Some(MlccData::default()), ..Shims::NONE };
        let bth = Bth { opcode: opcode::SEND_MIDDLE, dest_qp: data_qpn, ..Bth::default() };
        let data = Frame { shims, bth, payload: &[0; 64], ..head };
        let release = Rate::from_gbps(u32::from(flow));
        let ack = MlccAck { credit: u16::from(flow) * 9_000, data_qpn, release, advised_rate: Rate::from_gbps(1) };
        let shims = Shims { mlcc_ack: Some(ack), ..Shims::NONE };
        let addresses = addresses.reversed();
        let bth = Bth { opcode: opcode::ACKNOWLEDGE, dest_qp: Qpn::new(flow.into()), ..Bth::default() };
        let ack = Frame { shims, bth, addresses, ..head };
        let body = CnpBody { ce: true, remote_qpn: data_qpn, ..CnpBody::default() };
        let cnp = if flow % 4 < 2 { CnpBodyKind::Extended(body) } else { CnpBodyKind::Standard };
        let bth = Bth { opcode: opcode::CNP, becn: true, dest_qp: Qpn::new(flow.into()), ..Bth::default() };
        let cnp = Frame { bth, addresses, extensions: Extensions { cnp, ..Extensions::default() }, ..head };
        for frame in [data, data, data, ack, cnp] {
            frames.push(frame.to_vec::<TableCrc>().expect("the frame is short"));
        }
    }
    frames
}
