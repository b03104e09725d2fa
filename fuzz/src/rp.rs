//! The target of the reaction points: any algorithm, any settings, any events, and a clock that may jump.

use crate::{operations, settings};
use arbitrary::{Arbitrary, Unstructured};
use cc_core::table::Handle;
use cc_core::wire::{Addresses, Bth, Extensions, Frame, Mac, Parsed, Shims, TableCrc, Tags, opcode, parse};
use cc_core::{
    Bytes, CnpBody, CnpBodyKind, CnpKind, Delay, Ecn, Grant, Hop, Instant, IntLayout, IntStack, Link, Mark, Nanos, Psn,
    Qpn, Rate, Stamp,
};
use cc_rp::{
    Ack, CnpFlow, Cx, Decision, Event, EventSet, FlowDecision, Limits, RateLimiter, ReactionPoint, RpEngine, registry,
};

const FLOWS: usize = 4;
const SECOND: u64 = 1_000_000_000;
/// If the late engine was not called for longer than this, in nanoseconds, it is woken before the next wait. A wait takes at
/// most 2^29 ns, so that the engine is called at least once a second, as its contract demands.
const LONGEST_SILENCE: u64 = SECOND / 2;
/// An engine shortens a pause to this, within which it is certain to be called again.
const LONGEST_PAUSE: Nanos = Nanos::new(400_000_000);
/// The most wakes of the punctual engine in one wait. After them it is not woken until the wait's end.
const MOST_WAKES: usize = 2_000;

type Engine<A> = RpEngine<A, FLOWS, { 2 * FLOWS }>;

#[derive(Arbitrary, Debug)]
enum Operation {
    Open(u8),
    Close(u8),
    Bind(u8, u8),
    Sent(u8, u32, Near),
    /// A CNP arrives in a frame, for a queue pair number.
    Cnp(u8, Hint),
    /// An event of a flow, named by its handle.
    Step(u8, Other),
    Pause(u8, u32),
    /// Time passes: nanoseconds, shifted right so that short waits are as frequent as long ones.
    Wait(u32, u8),
    /// The punctual engine alone is woken, though no timer is due.
    Wake,
    Jump(i64),
}

/// The body of a CNP.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Hint {
    Plain,
    Body { kind: u8, seq: u16, names_remote_qpn: bool },
}

impl Hint {
    fn get(self) -> CnpBodyKind {
        let Self::Body { kind, seq, names_remote_qpn } = self else { return CnpBodyKind::Standard };
        let kind = match kind % 6 {
            0 => CnpKind::Standard,
            1 => CnpKind::Period,
            2 => CnpKind::Direct,
            3 => CnpKind::Undetermined,
            4 => CnpKind::SwitchInt,
            _ => CnpKind::DirectInt,
        };
        CnpBodyKind::Extended(CnpBody {
            kind,
            seq,
            names_remote_qpn,
            stamp: Stamp::from_bits(seq.into()),
            ..CnpBody::default()
        })
    }
}

/// The events of a flow other than transmissions.
#[derive(Arbitrary, Debug)]
enum Other {
    Ack(Acked),
    Nack(Near),
    Cnp(Hint),
    Wake,
    SwitchInt(Telemetry),
}

/// A sequence number: near that of the last packet sent, or any.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Near {
    Last(i8),
    Any(u32),
}

impl Near {
    fn get(self, last: Psn) -> Psn {
        match self {
            Self::Last(by) => last.plus(i32::from(by).cast_unsigned()),
            Self::Any(psn) => Psn::new(psn),
        }
    }
}

/// An acknowledgement.
#[derive(Arbitrary, Clone, Debug)]
struct Acked {
    psn: Near,
    /// Bytes, shifted right by up to 31.
    acked: (u32, u8),
    mark: u8,
    /// Round-trip time, also shifted right; time held by the receiver; hops; buffer level.
    delay: Option<(u32, u8, u16, u8, u8)>,
    int: Option<Telemetry>,
    grant: Option<(u32, u8, u16, u16)>,
}

/// A stack of telemetry.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Telemetry {
    hops: u8,
    path: u8,
    compact: bool,
    speed: u8,
    /// The offset of the switches' clocks, in nanoseconds.
    skew: i16,
    /// Bytes that the ports have sent since the last stack, and bytes in their queues, both shifted right.
    sent: (u32, u8),
    queue: (u32, u8),
}

/// The state of a run's switches, and the buffer for a telemetry stack.
struct Switches {
    sent: u64,
    area: [u8; 16 * 15],
}

impl Switches {
    fn stack(&mut self, now: u64, telemetry: Telemetry) -> IntStack<'_> {
        let Telemetry { hops, path, compact, speed, skew, sent, queue } = telemetry;
        self.sent = self.sent.wrapping_add(u64::from(shifted(sent)));
        let mbps = [100_000, 400_000, 25_000, 0, 200_000, 40_000, 800_000, 0x00ff_ffff][usize::from(speed % 8)];
        let clock = now.wrapping_add_signed(skew.into());
        let hop = |at: u8| {
            let (shift, unit) = if compact { (7, 80) } else { (6, 1) };
            let sent = (self.sent >> shift).wrapping_add(u64::from(at)) as u32;
            Hop { mbps, flags: 0, clock: clock as u32, sent, queue: shifted(queue) / unit }
        };
        let layout = if compact { IntLayout::Compact } else { IntLayout::Wide };
        for (at, record) in (0..15).zip(self.area.chunks_exact_mut(layout.record_len())) {
            match layout {
                IntLayout::Wide => record.copy_from_slice(&hop(at).to_wide()),
                IntLayout::Compact => record.copy_from_slice(&hop(at).to_compact().unwrap_or([0xff; 8])),
            }
        }
        IntStack::new(layout, path.into(), hops % 16, &self.area).expect("the area holds fifteen records")
    }
}

/// Small values are as frequent as large ones.
fn shifted((value, by): (u32, u8)) -> u32 {
    value >> (by % 32)
}

impl Other {
    fn get<'a>(&self, now: u64, last: Psn, switches: &'a mut Switches) -> Event<'a> {
        match self {
            Self::Ack(acked) => Event::Ack(acked.get(now, last, switches)),
            Self::Nack(psn) => Event::Nack { psn: psn.get(last) },
            Self::Cnp(body_kind) => Event::Cnp { body_kind: body_kind.get() },
            Self::Wake => Event::Wake,
            Self::SwitchInt(int) => Event::SwitchInt { int: switches.stack(now, *int) },
        }
    }
}

impl Acked {
    fn get<'a>(&self, now: u64, last: Psn, switches: &'a mut Switches) -> Ack<'a> {
        let delay = |(rtt, by, receiver_hold, hops, rx_buffer_level): (u32, u8, u16, u8, u8)| Delay {
            rtt: Nanos::new(shifted((rtt, by))),
            receiver_hold: Nanos::new(receiver_hold.into()),
            hops,
            rx_buffer_level: rx_buffer_level % 32,
        };
        let grant = |(value, by, flows, utilisation): (u32, u8, u16, u16)| {
            let shifted = shifted((value, by));
            if by < 128 {
                Grant::Rcc { window: Bytes::new(shifted), flows, utilisation }
            } else {
                Grant::Mlcc { credit: flows, release: Rate::from_bits(value), advised_rate: Rate::from_bits(shifted) }
            }
        };
        Ack {
            psn: self.psn.get(last),
            acked: Bytes::new(shifted(self.acked)),
            mark: [Mark::None, Mark::Congested, Mark::Undetermined][usize::from(self.mark % 3)],
            delay: self.delay.map(delay),
            int: self.int.map_or(IntStack::NONE, |int| switches.stack(now, int)),
            grant: self.grant.map_or(Grant::None, grant),
        }
    }
}

/// Passes the same events to two engines of one algorithm: one is woken at every `next_wake`, the other as rarely as its
/// contract allows.
///
/// # Panics
/// - The decisions of the two differ: wakes must not change decisions.
/// - A decision is outside the algorithm's limits or above the port's speed, or differs from the rate limiter's values.
/// - Counters do not add up; a closed flow takes an event; a flow in a reused slot does not start with new state; settings are
///   refused without a reason.
pub fn rp(data: &[u8]) {
    let mut source = Unstructured::new(data);
    let Ok(start) = source.arbitrary::<u64>() else { return };
    let entry = &registry::ALL[start as usize % registry::ALL.len()];
    let _ = registry::with(entry.name, Run { start, source });
}

/// Does the same as [`rp`], with the algorithm of this name. Returns the number of operations in the bytes.
///
/// # Panics
/// As [`rp`]; and if there is no algorithm of this name.
pub fn rp_of(name: &str, data: &[u8]) -> usize {
    let mut source = Unstructured::new(data);
    let Ok(start) = source.arbitrary::<u64>() else { return 0 };
    registry::with(name, Run { start, source }).unwrap_or_else(|| panic!("no algorithm {name}"))
}

struct Run<'a> {
    start: u64,
    source: Unstructured<'a>,
}

impl registry::Visitor for Run<'_> {
    type Output = usize;

    fn visit<A: ReactionPoint>(mut self) -> usize {
        let Ok((gbps, micros)) = self.source.arbitrary::<(u16, u8)>() else { return 0 };
        let link = Link {
            line_rate: Rate::from_gbps(u32::from(gbps) % 800 + 1),
            mtu: Bytes::new(1_500),
            base_rtt: Nanos::new(u32::from(micros % 100 + 1) * 1_000),
        };
        let Some(settings) = settings(&mut self.source, A::PRESETS, |settings| A::check(settings, &link)) else {
            return 0;
        };
        let mut bench = Bench::<A>::new(self.start >> 1, link, &settings);
        let mut count = 0;
        for operation in operations(&mut self.source) {
            bench.operate(&operation);
            bench.counters_add_up();
            count += 1;
        }
        count
    }
}

/// A rate limiter that keeps the last values of each flow, and checks that they are within the algorithm's limits.
struct Limiter {
    limits: Limits,
    link: Link,
    values: [Option<(Rate, Bytes, Nanos)>; FLOWS],
}

impl RateLimiter for Limiter {
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos) {
        assert!(self.limits.rate <= rate && rate <= self.link.line_rate, "{rate:?}");
        assert!(window >= self.limits.window, "{window:?}");
        assert!(hold <= LONGEST_PAUSE.max(self.limits.hold), "{hold:?}");
        self.values[usize::from(index)] = Some((rate, window, hold));
    }
}

/// One engine with its rate limiter.
struct Sender<A: ReactionPoint> {
    engine: Engine<A>,
    limiter: Limiter,
}

impl<A: ReactionPoint> Sender<A> {
    fn wake(&mut self, now: u64) {
        self.engine.wake(Instant::from_nanos(now), &mut self.limiter);
    }
}

struct Bench<A: ReactionPoint> {
    now: u64,
    link: Link,
    params: A::Params,
    punctual: Sender<A>,
    late: Sender<A>,
    switches: Switches,
    /// The last packet sent.
    last: Psn,
    /// Whether there was a pause or a jump of the clock.
    disturbed: bool,
    /// When the late engine was last called.
    called: u64,
    /// Every handle that was returned, including stale ones, and whether it is open.
    handles: Vec<(Handle, bool)>,
    cnps: u64,
    stale: u64,
    refused: u64,
}

impl<A: ReactionPoint> Bench<A> {
    fn new(now: u64, link: Link, settings: &A::Settings) -> Self {
        let sender = || {
            let params = A::check(settings, &link).expect("checked before");
            let limiter = Limiter { limits: A::limits(&params, &link), link, values: [None; FLOWS] };
            Sender { engine: Engine::new(Instant::from_nanos(now), link, params), limiter }
        };
        // A handle that no call has returned yet.
        let handles = vec![(Handle::from_bits(0x7f00_0001), false)];
        Self {
            now,
            link,
            params: A::check(settings, &link).expect("checked before"),
            punctual: sender(),
            late: sender(),
            switches: Switches { sent: 0, area: [0; 16 * 15] },
            last: Psn::new(now as u32),
            disturbed: false,
            called: now,
            handles,
            cnps: 0,
            stale: 0,
            refused: 0,
        }
    }

    fn operate(&mut self, operation: &Operation) {
        match *operation {
            Operation::Open(priority) => self.open(priority),
            Operation::Close(which) => {
                let index = usize::from(which) % self.handles.len();
                let (handle, open) = self.handles[index];
                self.handles[index].1 = false;
                self.stale += u64::from(!open);
                assert_eq!([self.punctual.engine.close(handle), self.late.engine.close(handle)], [open, open]);
            }
            Operation::Bind(which, number) => {
                let ((handle, _), qpn) = (self.pick(which), qpn(number));
                let outcome = self.punctual.engine.bind(handle, qpn);
                assert_eq!(self.late.engine.bind(handle, qpn), outcome);
                assert!(outcome.is_err() || self.punctual.engine.find(qpn) == Some(handle));
            }
            Operation::Sent(which, bytes, ref psn) => {
                let (handle, open) = self.pick(which);
                let (psn, bytes) = (psn.get(self.last), Bytes::new(bytes));
                self.last = psn;
                let step = self.both(|sender, now| sender.engine.sent(now, handle, psn, bytes, &mut sender.limiter));
                let used = A::EVENTS.contains(EventSet::SENT);
                self.stale += u64::from(used && !open);
                assert_eq!(step.map(|(handle, _)| handle), (used && open).then_some(handle));
            }
            Operation::Cnp(number, body_kind) => {
                let (qpn, body_kind) = (qpn(number), body_kind.get());
                let bound = self.punctual.engine.find(qpn);
                let frame = cnp(qpn, body_kind);
                let Ok(Parsed::Roce(roce)) = parse(&frame, frame.len()) else { panic!("a CNP: {frame:02x?}") };
                let mut body_kind = roce.cnp().expect("a CNP");
                let counts = A::EVENTS.contains(EventSet::CNP) && body_kind == CnpBodyKind::Standard;
                let flow = CnpFlow::of(&roce, &mut body_kind, |_| None);
                let step =
                    self.both(|sender, now| sender.engine.cnp(now, &roce, flow, &body_kind, &mut sender.limiter));
                self.cnps += 1;
                assert!(step.is_none() || step.map(|(handle, _)| handle) == bound);
                assert!(!counts || step.is_some() == bound.is_some(), "a standard CNP is always handled");
            }
            Operation::Step(which, ref event) => {
                let (handle, open) = self.pick(which);
                let mut switches = Switches { sent: self.switches.sent, area: [0; 16 * 15] };
                let event = event.get(self.now, self.last, &mut switches);
                let step = self.both(|sender, now| sender.engine.step(now, handle, &event, &mut sender.limiter));
                let used = A::EVENTS.contains(event.kind());
                let is_cnp = matches!(event, Event::Cnp { .. } | Event::SwitchInt { .. });
                self.cnps += u64::from(open && is_cnp);
                self.stale += u64::from((used || is_cnp) && !open);
                let may_be_ignored = matches!(event, Event::Cnp { body_kind: CnpBodyKind::Extended(_) });
                assert!(step.is_some() == (used && open) || may_be_ignored);
                self.switches.sent = switches.sent;
            }
            Operation::Pause(priority, time) => {
                let (priority, time) = (priority % 9, Nanos::new(time >> 4));
                self.disturbed = true;
                self.both(|sender, now| {
                    sender.engine.pause(now, priority, time);
                    None
                });
            }
            Operation::Wait(nanos, shift) => self.wait(u64::from(nanos >> (3 + shift % 29))),
            Operation::Wake => self.punctual.wake(self.now),
            Operation::Jump(by) => {
                let to = self.now.saturating_add_signed(by >> 8) >> 1;
                if !(self.now..=self.now + SECOND).contains(&to) {
                    self.both_wake();
                    self.disturbed = true;
                    self.now = to;
                    self.both_wake();
                }
            }
        }
    }

    fn open(&mut self, priority: u8) {
        let now = Instant::from_nanos(self.now);
        self.called = self.now;
        let open = |sender: &mut Sender<A>| sender.engine.open(now, priority % 8, &mut sender.limiter);
        let opened = open(&mut self.punctual);
        assert_eq!(open(&mut self.late), opened);
        let Some(handle) = opened else {
            self.refused += 1;
            assert_eq!(self.punctual.engine.len(), FLOWS);
            return;
        };
        assert!(self.handles.iter().all(|&(other, open)| !open || other.index() != handle.index()));
        self.assert_as_new(handle);
        // A handle's generation repeats after many reuses of its slot: the new handle may equal a stale one.
        self.handles.retain(|&(other, _)| other != handle);
        self.handles.push((handle, true));
    }

    /// Checks that a flow in a reused slot starts with the state of a flow in a new engine.
    fn assert_as_new(&mut self, handle: Handle) {
        let now = Instant::from_nanos(self.now);
        let (pause, clock_without_pauses) = (Nanos::ZERO, now.stamp());
        let mut fresh = A::open(&Cx { now, link: &self.link, params: &self.params, pause, clock_without_pauses });
        fresh.on(&Cx { now, link: &self.link, params: &self.params, pause, clock_without_pauses }, &Event::Wake);
        let quiet =
            self.punctual.limiter.values[usize::from(handle.index())].is_some_and(|(_, _, hold)| hold == Nanos::ZERO);
        // The states differ after a pause, which stops the clock without pauses, and after a clock jump, which shifts local
        // time.
        if quiet && !self.disturbed {
            assert_eq!(self.punctual.engine.state(handle), Some(&fresh));
        }
    }

    /// A handle, and whether it is open.
    fn pick(&self, which: u8) -> (Handle, bool) {
        self.handles[usize::from(which) % self.handles.len()]
    }

    /// Passes one event to both engines, and compares their decisions.
    fn both(
        &mut self,
        mut event: impl FnMut(&mut Sender<A>, Instant) -> Option<FlowDecision>,
    ) -> Option<(Handle, Decision)> {
        let now = Instant::from_nanos(self.now);
        self.called = self.now;
        let mut decide = |sender: &mut Sender<A>| {
            let FlowDecision { handle, decision, .. } = event(sender, now)?;
            let Decision { rate, window, hold, .. } = decision;
            assert_eq!(sender.limiter.values[usize::from(handle.index())], Some((rate, window, hold)));
            Some((handle, decision))
        };
        let decided = decide(&mut self.punctual);
        assert_eq!(decide(&mut self.late), decided, "a wake changed the decision");
        decided
    }

    fn both_wake(&mut self) {
        self.punctual.wake(self.now);
        self.late.wake(self.now);
        self.called = self.now;
    }

    /// Lets time pass: at most 2^29 ns.
    fn wait(&mut self, nanos: u64) {
        let end = self.now + nanos;
        if end - self.called > LONGEST_SILENCE {
            self.both_wake();
        }
        let mut at = self.now;
        self.punctual.wake(at);
        for _ in 0..MOST_WAKES {
            at += u64::from(self.punctual.engine.next_wake().get());
            if at > end {
                break;
            }
            self.punctual.wake(at);
        }
        self.now = end;
    }

    fn counters_add_up(&self) {
        let counters = self.punctual.engine.counters();
        assert_eq!(counters, self.late.engine.counters());
        let reasons = counters.rp_cnp_unknown_qp
            + counters.rp_cnp_by_remote_qp
            + counters.rp_cnp_stale
            + counters.rp_cnp_unsupported;
        assert_eq!(counters.rp_cnp_ignored, reasons);
        assert_eq!(counters.rp_cnp_handled + counters.rp_cnp_ignored, self.cnps);
        assert_eq!((counters.rp_handles_stale, counters.rp_flows_refused), (self.stale, self.refused));
        let open = self.handles.iter().filter(|&&(_, open)| open).count();
        assert_eq!([self.punctual.engine.len(), self.late.engine.len()], [open, open]);
    }
}

/// A CNP with this body for a local queue pair.
fn cnp(dest_qp: Qpn, body_kind: CnpBodyKind) -> Vec<u8> {
    let frame = Frame {
        destination: Mac::new([2; 6]),
        source: Mac::new([4; 6]),
        tags: Tags::NONE,
        addresses: Addresses::V4 { source: [10, 0, 0, 2].into(), destination: [10, 0, 0, 1].into() },
        dscp: 48,
        ecn: Ecn::Ect0,
        hop_limit: 64,
        udp_source: 0,
        shims: Shims::NONE,
        bth: Bth { opcode: opcode::CNP, becn: true, dest_qp, ..Bth::default() },
        extensions: Extensions { cnp: body_kind, ..Extensions::default() },
        payload: &[],
    };
    let mut buffer = vec![0; 128];
    let length = frame.emit::<TableCrc>(&mut buffer).expect("the frame fits");
    buffer.truncate(length);
    buffer
}

/// One of six queue pair numbers: few, so that operations often use the same.
fn qpn(number: u8) -> Qpn {
    Qpn::new(u32::from(number % 6))
}
