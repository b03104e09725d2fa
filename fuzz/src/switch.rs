//! A switch with any stages: any settings, any packets, pauses and messages in any order, and a clock that may jump.

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
/// The queues that traffic uses, the last of them beyond the last port. The first is never configured: control traffic.
const USED: [Queue; 5] = [
    Queue { port: 0, class: 0 },
    Queue { port: 0, class: 3 },
    Queue { port: 1, class: 3 },
    Queue { port: 1, class: 7 },
    Queue { port: 2, class: 0 },
];
const CONTROL: usize = 0;
const BEYOND: usize = 4;
const SECOND: u64 = 1_000_000_000;
/// A longer pause ends after this many nanoseconds; one of at least [`STORM`] nanoseconds counts as a pause storm.
const LONGEST_PAUSE: u64 = 400_000_000;
const STORM: u64 = 100_000_000;

#[derive(Arbitrary, Debug)]
enum Operation {
    /// A packet comes in: its queue, its bytes shifted right, its frame.
    Arrive(u8, (u32, u8), u8),
    /// One of the packets that are in the switch has left it.
    Release(u8),
    /// A packet leaves by a queue.
    Depart(u8, Leaving),
    /// The length of a queue from now on: bytes, shifted right.
    Length(u8, (u32, u8)),
    /// The neighbour pauses a queue: nanoseconds, shifted right; zero resumes.
    Pause(u8, (u32, u8)),
    /// LSCC's remote switch sends a rate: repeated, out of order, or zero.
    Rate(u8, u16, (u32, u8)),
    /// Swing's remote switch sends a message.
    Relay(u8, u16, bool),
    /// Nanoseconds, shifted so that short ones are as frequent as long ones.
    Wait(u32, u8),
    /// Some of the switches are woken, though nothing is due.
    Wake,
    Jump(i64),
    /// A stage goes on with other settings under traffic.
    Configure(u8, u8),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Leaving {
    /// Shifted right.
    bytes: (u32, u8),
    port_queued: (u32, u8),
    ecn: u8,
    frame: u8,
}

/// Small lengths are as frequent as large ones.
fn bytes((value, by): (u32, u8)) -> Bytes {
    Bytes::new(value >> (by % 32))
}

/// Drives a switch with some stages of the registry: see [`cp_of`].
pub fn cp(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    let entry = &registry::ALL[usize::from(first) % registry::ALL.len()];
    let _ = cp_of(entry.name, rest);
}

/// Drives the stage of this name, and up to three others in one list with it, in three switches of one seed; returns how many
/// operations the bytes held. One switch is woken only as seldom as its contract allows, one now and then, and one has the
/// stages in the other order.
///
/// # Panics
/// - A list takes two stages that rewrite or that admit packets, or refuses others; settings that are in range are refused
///   without a reason.
/// - The order of stages decides; equal seeds give two verdicts; a wake decides where only marks and buffers are judged.
/// - A mark is lowered by any stage but LSCC's limiting; a packet without ECT gets one; a packet of a queue that is not
///   configured is touched.
/// - A CNP is sent of anything but a data packet, is of a kind that no stage sends, or names another flow.
/// - RED marks outside its rule.
/// - Counters are not the sums of what happened, or pauses do not end when they have to, by local time.
/// - A PFC frame repeats the state that the neighbour was sent last, other than to renew a pause; an empty switch pauses a
///   neighbour; the buffered bytes are not those admitted and not yet released.
/// - A record has more bytes than the port holds; messages are not numbered one by one.
#[must_use]
pub fn cp_of(name: &str, data: &[u8]) -> usize {
    let mut source = Unstructured::new(data);
    let Ok((start, seed, gbps, others)) = source.arbitrary::<(u64, u64, u8, [u8; 4])>() else { return 0 };
    // Sometimes none: a link that is down.
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
    bench.empties();
    count
}

/// Whether the list of these stages must refuse another.
fn refuses<'a>(taken: impl Iterator<Item = &'a str>, name: &str) -> bool {
    const REWRITE: [&str; 4] = ["lscc_rate_limiting", "lscc_direct_int", "mlcc_near_source", "mlcc_per_flow_queues"];
    let kind = |name: &str| if REWRITE.contains(&name) { 1 } else { 2 * usize::from(name == "mmu") };
    kind(name) > 0 && { taken }.any(|other| kind(other) == kind(name))
}

/// Settings of the stage of this name, in the order of its fields; `None` when they contradict each other or the link.
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

/// What the counters of a queue must show.
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

/// A switch, and what it has sent.
struct One {
    switch: Switch<StageList, Heap>,
    sent: Recorder,
    /// Whether the neighbour was sent a pause, and the sequence numbers of the last messages, by queue.
    paused: BTreeMap<Queue, bool>,
    numbers: BTreeMap<(Queue, bool), u16>,
}

impl One {
    /// Checks and removes what was sent, and returns it as text: PFC frames, CNPs and messages.
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
            // Of several periods that end at one call, the rate of the last is sent: its number counts them all.
            assert!(rate || seq == last.wrapping_add(1), "{queue:?}: {message:?}");
        }
        peers.sort_by_key(|(queue, message)| (*queue, matches!(message, PeerMessage::Rate(_))));
        let told = format!("{pfcs:?} {cnps:?} {peers:?}");
        pfcs.clear();
        cnps.clear();
        peers.clear();
        told
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
    /// Whether a stage took the last event, or the switches were woken.
    taken: bool,
    seed: u64,
    link: Link,
    /// Names and settings of the stages.
    stages: Vec<(&'static str, Vec<Vec<u32>>)>,
    late: One,
    woken: One,
    turned: One,
    models: [Option<Model>; USED.len()],
    /// Packets that are in the switch: queue and bytes.
    held: Vec<(usize, Bytes)>,
    lengths: [Bytes; USED.len()],
    /// Kmin and Kmax of RED, where it alone marks.
    thresholds: Option<(u64, u64)>,
}

impl Bench {
    fn new(now: u64, seed: u64, link: Link, stages: Vec<(&str, Vec<Vec<u32>>)>) -> Self {
        let entry = |name: &str| registry::ALL.iter().find(|entry| entry.name == name).expect("of the registry").name;
        let stages: Vec<_> = stages.into_iter().map(|(name, known)| (entry(name), known)).collect();
        let one = |turned: bool| {
            let mut switch = Switch::<StageList, Heap>::new(Instant::from_nanos(now));
            switch.make_room(QUEUES);
            let mut order: Vec<_> = stages.iter().collect();
            if turned {
                order.reverse();
            }
            for (name, known) in order {
                switch.stages_mut().add(name, &known[0]).expect("checked before");
            }
            One { switch, sent: Recorder::default(), paused: BTreeMap::new(), numbers: BTreeMap::new() }
        };
        let (late, woken, turned) = (one(false), one(false), one(true));
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
            turned,
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
        bench.judge_by(0);
        bench
    }

    fn has(&self, name: &str) -> bool {
        self.stages.iter().any(|&(stage, _)| stage == name)
    }

    /// RED's thresholds as they are now, scaled to the link.
    fn judge_by(&mut self, which: usize) {
        self.thresholds = match self.stages.iter().find(|&&(name, _)| name == "red") {
            Some((_, known)) if !self.has("tcd") => {
                let [kmin, kmax, _, reference] = known[which % known.len()][..] else { panic!("four settings") };
                let scale = |threshold: u32| match u128::from(Rate::from_mbps(reference).to_bits()) {
                    0 => u128::from(threshold),
                    reference => u128::from(threshold) * u128::from(self.link.line_rate.to_bits()) / reference,
                };
                let [kmin, kmax] = [kmin, kmax].map(|threshold| u64::try_from(scale(threshold)).expect("it was taken"));
                Some((kmin, kmax))
            }
            _ => None,
        };
    }

    /// The time of a call, and local time.
    fn call(&mut self) -> (Instant, u64) {
        let now = Instant::from_nanos(self.now);
        (now, self.clock.advance(now).nanos())
    }

    fn ones(&mut self) -> [&mut One; 3] {
        [&mut self.late, &mut self.woken, &mut self.turned]
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
            Operation::Release(which) => self.release(which),
            Operation::Depart(at, leaving) => {
                self.depart(queue(at), leaving, &frames[usize::from(leaving.frame) % frames.len()]);
            }
            Operation::Length(at, length) => {
                // A pause that has just run out must end before the queue changes.
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
                self.tell(queue(at), &Event::Peer(PeerMessage::Rate(message)));
            }
            Operation::Relay(at, seq, paused) => {
                self.tell(queue(at), &Event::Peer(PeerMessage::Relay(RelayMessage { paused, seq })));
            }
            Operation::Wait(nanos, shift) => {
                if self.now - self.woken_at > SECOND / 2 - 1 {
                    self.wake_all();
                }
                let wait = u64::from(nanos >> (3 + shift % 29)).min(SECOND / 2);
                // What is due is done in time.
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
                    // All see the same jump.
                    self.wake_all();
                    self.now = to;
                    self.wake_all();
                }
            }
            Operation::Configure(stage, which) => {
                // What is due is due by the old settings.
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
                    self.judge_by(which.into());
                }
            }
        }
    }

    /// Wakes decide nothing: the stages judge lengths and marks, and no deadline of theirs sends anything.
    fn is_calm(&self) -> bool {
        self.stages.iter().all(|(name, _)| ["red", "tcd", "int", "mmu"].contains(name))
    }

    fn wake_all(&mut self) {
        let (now, local) = self.call();
        let [late, woken, turned] = self.ones().map(|one| one.wake(now));
        assert_eq!(late, turned, "the order of stages decides");
        assert!(self.is_calm() || late == woken);
        (self.woken_at, self.taken) = (self.now, true);
        self.models.iter_mut().flatten().for_each(|model| model.expire(local));
    }

    /// Passes an event of a queue to all three switches. Returns the verdict, and what was sent.
    fn event(&mut self, queue: usize, event: &Event<'_>) -> (Verdict, Vec<(FlowKey, CnpBody)>) {
        let (now, local) = self.call();
        let takes = self.late.switch.stages().takes().contains(event.kind());
        self.taken = takes;
        let cnps = {
            let [late, woken, turned] = self.ones().map(|one| {
                let verdict = one.switch.on(now, USED[queue], event, &mut one.sent);
                let cnps: Vec<_> = one.sent.cnps.iter().map(|(flow, body, _)| (*flow, *body)).collect();
                let records =
                    one.sent.cnps.iter().all(|(_, body, hop)| hop.is_some() == (body.kind == CnpKind::DirectInt));
                assert!(records, "a record belongs to a direct INT");
                (verdict, cnps, one.take(false))
            });
            assert_eq!(late, woken, "a wake decides");
            assert_eq!(late, turned, "the order of stages decides");
            late
        };
        match &mut self.models[queue] {
            // A switch does nothing for events that no stage takes.
            Some(model) if takes => model.expire(local),
            Some(_) => {}
            None => assert_eq!((cnps.0, &cnps.2[..]), (Verdict::PASS, "[] [] []"), "{queue}: not configured"),
        }
        let next = [&self.late, &self.turned].map(|one| one.switch.next_wake());
        assert_eq!(next[0], next[1], "the order of stages decides");
        (cnps.0, cnps.1)
    }

    fn tell(&mut self, queue: usize, event: &Event<'_>) {
        assert_eq!(self.event(queue, event), (Verdict::PASS, Vec::new()));
        self.counts(queue);
    }

    fn arrive(&mut self, queue: usize, bytes: Bytes, frame: &[u8]) {
        let roce = Roce::of(frame).expect("frames() builds RoCE packets only");
        let packet = Packet { bytes, roce: Some(&roce) };
        let queued =
            self.held.iter().filter(|held| held.0 == queue).map(|held| held.1).fold(Bytes::ZERO, Bytes::saturating_add);
        let (verdict, cnps) = self.event(queue, &Event::Arrival { packet, queued });
        assert_eq!((Verdict { drop: false, ..verdict }, cnps.len()), (Verdict::PASS, 0));
        assert!(!verdict.drop || self.has("mmu"));
        if !verdict.drop {
            self.held.push((queue, bytes));
        }
        self.counts(queue);
    }

    fn release(&mut self, which: u8) {
        if self.held.is_empty() {
            return;
        }
        let (queue, bytes) = self.held.swap_remove(usize::from(which) % self.held.len());
        let queued =
            self.held.iter().filter(|held| held.0 == queue).map(|held| held.1).fold(bytes, Bytes::saturating_add);
        self.tell(queue, &Event::Release { bytes, queued });
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
        assert!(self.has("red") || self.has("tcd") || (mark == Mark::None && !not_ect));
        assert_eq!(hop.is_some(), self.has("int"));
        assert!(hop.is_none_or(|hop| hop.queue <= port_queued.get()), "{packet:?}: {verdict:?}");
        if let Some((kmin, kmax)) = self.thresholds {
            let (queued, markable) = (u64::from(queued.get()), matches!(ecn, Ecn::Ect0 | Ecn::Ect1));
            assert!(mark == Mark::None || (markable && queued > kmin), "{queued} of {kmin}: marked");
            assert!(mark == Mark::Congested || !markable || queued <= kmax, "{queued} of {kmax}: not marked");
            assert_eq!(not_ect, ecn == Ecn::NotEct && queued > kmax);
        }
        self.rewritten(rewrite, marked, data);
        let kind = [
            ("lscc_rate_limiting", CnpKind::Direct),
            ("lscc_direct_int", CnpKind::DirectInt),
            ("mlcc_near_source", CnpKind::SwitchInt),
        ]
        .into_iter()
        .find(|(name, _)| self.has(name));
        assert!(cnps.len() <= usize::from(data && kind.is_some()));
        for (flow, body) in cnps {
            assert_eq!(flow, FlowKey::of_data(&roce));
            assert_eq!((Some(body.kind), body.names_remote_qpn), (kind.map(|(_, kind)| kind), true));
            assert_eq!(body.remote_qpn, flow.data_qpn);
        }
        let takes = self.late.switch.stages().takes().contains(Kind::Departure);
        if let Some(model) = self.models[queue].as_mut().filter(|_| takes) {
            model.counters.packets += 1;
            model.counters.ecn_marked += u64::from(mark == Mark::Congested && marked != ecn);
            model.counters.not_ect_above_kmax += u64::from(not_ect);
        }
        self.counts(queue);
    }

    /// What becomes of a packet with these ECN bits, the marks of the other stages among them.
    fn rewritten(&self, rewrite: Option<cc_cp::Rewrite>, marked: Ecn, data: bool) {
        let limits = self.has("lscc_rate_limiting");
        let empties = self.has("lscc_direct_int") || self.has("mlcc_near_source") || self.has("mlcc_per_flow_queues");
        assert_eq!(rewrite.is_some(), limits || empties);
        let Some(rewrite) = rewrite else { return };
        // LSCC's limiting has dealt with the mark, unless it has no room for the flow.
        let lowered = limits && data && marked == Ecn::Ce && rewrite.ecn == Ecn::Ect0;
        assert!(rewrite.ecn == marked || lowered, "{marked:?}: {rewrite:?}");
        assert_eq!(rewrite.clear_int, empties && data);
        assert_eq!(rewrite.mlcc.is_some(), data && self.has("mlcc_per_flow_queues"));
    }

    fn pause(&mut self, queue: usize, time: Nanos) {
        let queued = self.lengths[queue];
        let (_, local) = self.call();
        self.tell_pause(queue, time, queued, local);
        self.counts(queue);
    }

    fn tell_pause(&mut self, queue: usize, time: Nanos, queued: Bytes, local: u64) {
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

    /// After an event that a stage takes, or a wake, a queue has counted what happened to it, however often the switch was woken
    /// before. Any other event does nothing: a pause that has run out is then counted only in the switch that was woken since.
    fn counts(&self, queue: usize) {
        if self.taken {
            let expected = self.models[queue].as_ref().map(|model| &model.counters);
            for one in [&self.late, &self.woken, &self.turned] {
                assert_eq!(one.switch.counters(USED[queue]), expected);
            }
        }
        let steps = (self.clock.forward_jumps(), self.clock.backward_jumps());
        assert_eq!([self.late.switch.clock_steps(), self.turned.switch.clock_steps()], [steps; 2]);
    }

    /// When all has left, no neighbour is paused, unless by a relay.
    fn empties(&mut self) {
        while !self.held.is_empty() {
            self.release(0);
        }
        self.wake_all();
        for queue in 0..BEYOND {
            self.counts(queue);
        }
        assert!(self.has("swing") || self.late.paused.values().all(|&paused| !paused));
        assert!(self.models[CONTROL].is_none());
    }
}

/// Frames of few flows, more than a set of a table has places for: data with telemetry, acknowledgements with credits, CNPs.
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
