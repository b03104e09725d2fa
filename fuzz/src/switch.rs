//! Any congestion point: any packets, any settings, pauses in any order, and a clock that may jump.

use crate::{operations, settings};
use arbitrary::{Arbitrary, Unstructured};
use cc_core::clock::LocalClock;
use cc_core::{Bytes, Ecn, Instant, Link, Mark, Nanos, Rate};
use cc_cp::registry::{self, Visitor};
use cc_cp::{Chain, CongestionPoint, CpCounters, CpEngine, Cx, Event, NoSuchQueue, Packet, Stage, Upstream, Verdict};

const PORTS: usize = 2;
const PRIORITIES: usize = 2;
const QUEUES: usize = PORTS * PRIORITIES;
/// The queue of control traffic: nobody configures it.
const CONTROL: usize = 0;
const SECOND: u64 = 1_000_000_000;
/// The longest pause that an engine believes in, and from which on one is a storm.
const LONGEST_PAUSE: u64 = 400_000_000;
const STORM: u64 = 100_000_000;

#[derive(Arbitrary, Debug)]
enum Operation {
    Dequeue(u8, Leaving),
    /// So many bytes are in a queue from now on, shifted right.
    Length(u8, (u32, u8)),
    /// Nanoseconds, shifted right; zero resumes.
    Pause(u8, (u32, u8)),
    /// Nanoseconds, shifted so that short ones are as frequent as long ones.
    Wait(u32, u8),
    /// Some of the engines are woken, though nothing is due.
    Wake,
    Jump(i64),
    /// Other settings under traffic.
    Configure(u8),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Leaving {
    /// Shifted right.
    bytes: (u32, u8),
    port_queued: (u32, u8),
    ecn: u8,
}

/// Small lengths are as frequent as large ones.
fn bytes((value, by): (u32, u8)) -> Bytes {
    Bytes::new(value >> (by % 32))
}

/// A stage that says something of every packet, whatever it may be.
#[derive(Clone, Copy)]
struct Voice;

impl Voice {
    fn says(packet: &Packet) -> Verdict {
        let pick = packet.bytes.get().wrapping_add(packet.queued.get()) as usize;
        Verdict {
            mark: [Mark::None, Mark::Undetermined, Mark::Congested][pick % 3],
            not_ect: pick.is_multiple_of(5),
            upstream: [Upstream::AsBefore, Upstream::Resume, Upstream::Pause][pick / 3 % 3],
            hop: None,
        }
    }
}

impl Stage for Voice {
    type Params = ();

    fn open(_: &Cx<'_, ()>, _: u64) -> Self {
        Self
    }

    fn on(&mut self, _: &Cx<'_, ()>, event: &Event) -> Verdict {
        match event {
            Event::Dequeue(packet) => Self::says(packet),
            _ => Verdict::PASS,
        }
    }
}

/// Drives the congestion point of this name in three switches of one seed, and answers how many operations the bytes held. One
/// switch is woken now and then, one as seldom as its contract allows, and in one another stage follows.
///
/// # Panics
/// - A mark is lowered; a packet without ECT gets one; a packet of a queue that is not configured is touched.
/// - A pause or a resume that one of two stages asks for is lost.
/// - Wakes change a verdict, or equal seeds give two.
/// - Counters are not the sums of what happened, or pauses do not end when they have to, by local time.
/// - A record tells of more bytes than the port holds.
#[must_use]
pub fn cp_of(name: &str, data: &[u8]) -> usize {
    registry::with(name, Run { source: Unstructured::new(data) }).expect("a congestion point of the registry")
}

struct Run<'a> {
    source: Unstructured<'a>,
}

impl Visitor for Run<'_> {
    type Output = usize;

    fn visit<A: CongestionPoint>(mut self) -> usize {
        let Ok((start, seed, gbps)) = self.source.arbitrary::<(u64, u64, u16)>() else { return 0 };
        // Sometimes none: a link that is down.
        let line_rate = Rate::from_gbps([0, 10, 25, 40, 100, 400, 800, u32::from(gbps)][usize::from(gbps % 8)]);
        let link = Link { line_rate, mtu: Bytes::new(1_500), base_rtt: Nanos::new(12_000) };
        let mut known = Vec::new();
        for _ in 0..4 {
            let checked = settings(&mut self.source, A::PRESETS, |settings| A::check(settings, &link));
            known.extend(checked);
        }
        let Some(mut bench) = Bench::<A>::new(start >> 1, seed, link, known) else { return 0 };
        let mut count = 0;
        for operation in operations(&mut self.source) {
            bench.operate(&operation);
            count += 1;
        }
        bench.wake_all();
        for queue in 0..QUEUES {
            bench.counts(queue);
        }
        count
    }
}

/// What a queue has to show.
#[derive(Clone, Copy, Default)]
struct Queue {
    counters: CpCounters,
    /// When the present pause began, when it ends, and whether it counts as a storm.
    pause: Option<(u64, u64, bool)>,
}

impl Queue {
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

struct Bench<A: CongestionPoint> {
    now: u64,
    clock: LocalClock,
    woken_at: u64,
    link: Link,
    settings: Vec<A::Settings>,
    late: CpEngine<A, PORTS, PRIORITIES>,
    woken: CpEngine<A, PORTS, PRIORITIES>,
    chained: CpEngine<Chain<A, Voice>, PORTS, PRIORITIES>,
    queues: [Option<Queue>; QUEUES],
    /// Bytes in each queue.
    lengths: [Bytes; QUEUES],
}

const fn place(queue: usize) -> (usize, usize) {
    (queue / PRIORITIES, queue % PRIORITIES)
}

fn queued(lengths: &[Bytes; QUEUES]) -> impl FnMut(usize, usize) -> Bytes {
    |port, priority| lengths[port * PRIORITIES + priority]
}

impl<A: CongestionPoint> Bench<A> {
    fn new(now: u64, seed: u64, link: Link, settings: Vec<A::Settings>) -> Option<Self> {
        if settings.is_empty() {
            return None;
        }
        let mut bench = Self {
            now,
            clock: LocalClock::new(Instant::from_nanos(now)),
            woken_at: now,
            link,
            settings,
            late: CpEngine::new(seed),
            woken: CpEngine::new(seed),
            chained: CpEngine::new(seed),
            queues: [None; QUEUES],
            lengths: [Bytes::ZERO; QUEUES],
        };
        for queue in 0..QUEUES {
            bench.configure(queue as u8, 0);
        }
        Some(bench)
    }

    /// The time of a call, and local time.
    fn call(&mut self) -> (Instant, u64) {
        let now = Instant::from_nanos(self.now);
        (now, self.clock.advance(now).nanos())
    }

    fn configure(&mut self, queue: u8, which: usize) {
        let queue = usize::from(queue) % (QUEUES + 1);
        if queue == CONTROL {
            return;
        }
        let (now, _) = self.call();
        let ((port, priority), link) = (place(queue), self.link);
        let params = || A::check(&self.settings[which % self.settings.len()], &link).expect("checked before");
        let outcome = self.late.configure(now, port, priority, &link, params());
        assert_eq!(self.woken.configure(now, port, priority, &link, params()), outcome);
        assert_eq!(self.chained.configure(now, port, priority, &link, (params(), ())), outcome);
        match (self.queues.get_mut(queue), outcome) {
            (Some(queue), Ok(())) => _ = queue.get_or_insert_default(),
            (None, Err(NoSuchQueue { ports: PORTS, priorities: PRIORITIES, .. })) => {}
            (_, outcome) => panic!("queue {queue}: {outcome:?}"),
        }
    }

    fn operate(&mut self, operation: &Operation) {
        match *operation {
            Operation::Dequeue(queue, Leaving { bytes: of, port_queued, ecn }) => {
                let queue = usize::from(queue) % (QUEUES + 1);
                let (queued, port_queued) = (self.length(queue), bytes(port_queued));
                let packet = Packet { bytes: bytes(of), queued, port_queued, ecn: Ecn::from_bits(ecn) };
                self.dequeue(queue, &packet);
            }
            Operation::Length(queue, length) => {
                // A pause that has just run out is to end with what was queued then.
                self.wake_all();
                self.lengths[usize::from(queue) % QUEUES] = bytes(length);
            }
            Operation::Pause(queue, (time, by)) => {
                self.pause(usize::from(queue) % (QUEUES + 1), Nanos::new(time >> (by % 32)));
            }
            Operation::Wait(nanos, shift) => {
                if self.now - self.woken_at > SECOND / 2 - 1 {
                    self.wake_all();
                }
                let wait = u64::from(nanos >> (3 + shift % 29)).min(SECOND / 2);
                let lengths = self.lengths;
                for third in 1..3 {
                    self.woken.wake(Instant::from_nanos(self.now + wait * third / 3), queued(&lengths));
                }
                self.now += wait;
            }
            Operation::Wake => {
                let ((now, _), lengths) = (self.call(), self.lengths);
                self.woken.wake(now, queued(&lengths));
                self.chained.wake(now, queued(&lengths));
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
            Operation::Configure(queue) => {
                // What is due is due by the old settings.
                self.wake_all();
                self.configure(queue / 4, usize::from(queue % 4));
            }
        }
    }

    fn wake_all(&mut self) {
        let ((now, local), lengths) = (self.call(), self.lengths);
        self.late.wake(now, queued(&lengths));
        self.woken.wake(now, queued(&lengths));
        self.chained.wake(now, queued(&lengths));
        self.woken_at = self.now;
        self.queues.iter_mut().flatten().for_each(|queue| queue.expire(local));
    }

    fn dequeue(&mut self, queue: usize, packet: &Packet) {
        let ((now, local), (port, priority)) = (self.call(), place(queue));
        let verdict = self.late.dequeue(now, port, priority, packet);
        let woken = self.woken.dequeue(now, port, priority, packet);
        let chained = self.chained.dequeue(now, port, priority, packet);
        let Some(Some(model)) = self.queues.get_mut(queue) else {
            assert_eq!([verdict, woken, chained], [Verdict::PASS; 3]);
            return;
        };
        assert_eq!(verdict, woken, "a wake decides");
        // Both stages are heard: the stronger mark, a pause before a resume before neither, and the one record.
        let voice = Voice::says(packet);
        let rank =
            |asks: Upstream| [Upstream::AsBefore, Upstream::Resume, Upstream::Pause].iter().position(|&at| at == asks);
        assert_eq!(rank(chained.upstream), rank(verdict.upstream).max(rank(voice.upstream)));
        let strength = |mark: Mark| [Mark::None, Mark::Undetermined, Mark::Congested].iter().position(|&at| at == mark);
        assert_eq!(strength(chained.mark), strength(verdict.mark).max(strength(voice.mark)));
        assert_eq!((chained.not_ect, chained.hop), (verdict.not_ect | voice.not_ect, verdict.hop));
        let after = verdict.apply(packet.ecn);
        let allowed: &[Ecn] = match packet.ecn {
            Ecn::NotEct => &[Ecn::NotEct],
            Ecn::Ect0 => &[Ecn::Ect0, Ecn::Ect1, Ecn::Ce],
            Ecn::Ect1 => &[Ecn::Ect1, Ecn::Ce],
            Ecn::Ce => &[Ecn::Ce],
        };
        assert!(allowed.contains(&after), "{packet:?}: {verdict:?}");
        assert!(!verdict.not_ect || packet.ecn == Ecn::NotEct);
        assert!(verdict.hop.is_none_or(|hop| hop.queue <= packet.port_queued.get()), "{packet:?}: {verdict:?}");
        model.expire(local);
        model.counters.packets += 1;
        model.counters.ecn_marked += u64::from(after == Ecn::Ce && packet.ecn != Ecn::Ce);
        model.counters.not_ect_above_kmax += u64::from(verdict.not_ect);
        self.counts(queue);
    }

    fn length(&self, queue: usize) -> Bytes {
        self.lengths.get(queue).copied().unwrap_or_default()
    }

    fn pause(&mut self, queue: usize, time: Nanos) {
        let ((now, local), (port, priority), queued) = (self.call(), place(queue), self.length(queue));
        self.late.pause(now, port, priority, time, queued);
        self.woken.pause(now, port, priority, time, queued);
        self.chained.pause(now, port, priority, time, queued);
        if let Some(Some(model)) = self.queues.get_mut(queue) {
            model.expire(local);
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
        self.counts(queue);
    }

    /// A queue that has just been called upon has counted what happened to it, however often it was woken.
    fn counts(&self, queue: usize) {
        let (port, priority) = place(queue);
        let expected = self.queues.get(queue).and_then(Option::as_ref).map(|queue| &queue.counters);
        assert_eq!(self.late.counters(port, priority), expected);
        assert_eq!(self.woken.counters(port, priority), expected);
        let chained = self.chained.counters(port, priority);
        let pauses = |counters: &CpCounters| (counters.pfc_pauses, counters.pfc_paused_ns, counters.pfc_storms);
        assert_eq!(chained.map(pauses), expected.map(pauses));
        let steps = (self.clock.forward_jumps(), self.clock.backward_jumps());
        assert_eq!([self.late.clock_steps(), self.chained.clock_steps()], [steps; 2]);
    }
}
