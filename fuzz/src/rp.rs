//! A sender's reaction point: any settings, any events, and a clock that may jump.

use crate::operations;
use arbitrary::{Arbitrary, Unstructured};
use cc_core::params::{ParamError, Settings};
use cc_core::table::Handle;
use cc_core::{Bytes, CnpBody, CnpHint, CnpKind, Delay, Instant, Mark, Nanos, Port, Psn, Qpn, Rate, Stamp};
use cc_rp::dcqcn::{Dcqcn, DcqcnSettings};
use cc_rp::{Ack, Decision, Event, RateLimiter, ReactionPoint, RpEngine, Step};

const FLOWS: usize = 4;
const SECOND: u64 = 1_000_000_000;
/// Left alone for longer than this, nanoseconds, an engine is woken before the next wait. Waits are at most 2^29 ns, so
/// that it is called once a second, as its contract has it.
const AWAY: u64 = SECOND / 2;
/// An engine cuts pauses to what it is sure to be called within.
const LONGEST_PAUSE: Nanos = Nanos::new(400_000_000);
/// Wakes that the punctual engine may ask for in one wait before it is left alone for the rest of it.
const PATIENCE: usize = 2_000;

type Engine = RpEngine<Dcqcn, FLOWS, { 2 * FLOWS }>;

#[derive(Arbitrary, Debug)]
enum Operation {
    Open(u8),
    Close(u8),
    Bind(u8, u8),
    Sent(u8, u32),
    /// To a queue pair number, as it comes from the wire.
    Cnp(u8, Hint),
    /// To a flow.
    Step(u8, Other),
    Pause(u8, u32),
    /// Nanoseconds, shifted so that short ones are as frequent as long ones.
    Wait(u32, u8),
    /// The punctual engine alone is woken, though nothing is due.
    Wake,
    Jump(i64),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Hint {
    Plain,
    Body { kind: u8, seq: u16, by_remote: bool },
}

impl Hint {
    fn get(self) -> CnpHint {
        let Self::Body { kind, seq, by_remote } = self else { return CnpHint::Plain };
        let kind = match kind % 6 {
            0 => CnpKind::Standard,
            1 => CnpKind::Period,
            2 => CnpKind::Direct,
            3 => CnpKind::Undetermined,
            4 => CnpKind::SwitchInt,
            _ => CnpKind::DirectInt,
        };
        CnpHint::Body(CnpBody { kind, seq, by_remote, stamp: Stamp::from_bits(seq.into()), ..CnpBody::default() })
    }
}

/// Events that a flow may get beside transmissions.
#[derive(Arbitrary, Debug)]
enum Other {
    Ack(u32, u32, Option<u32>),
    Nack(u32),
    Cnp(Hint),
    Wake,
}

impl Other {
    fn get(&self) -> Event<'static> {
        match *self {
            Self::Ack(psn, acked, rtt) => Event::Ack(Ack {
                psn: Psn::new(psn),
                acked: Bytes::new(acked),
                mark: Mark::Congested,
                delay: rtt.map(|rtt| Delay { rtt: Nanos::new(rtt), ..Delay::default() }),
                ..Ack::default()
            }),
            Self::Nack(psn) => Event::Nack { psn: Psn::new(psn) },
            Self::Cnp(hint) => Event::Cnp { hint: hint.get() },
            Self::Wake => Event::Wake,
        }
    }
}

/// Brings events to two engines, of which one is woken whenever it asks for it and the other as seldom as its
/// contract allows.
///
/// # Panics
/// - The two decide differently: then wakes are not advisory.
/// - A rate is below the minimum or above the line, or a window below a packet; or the rate limiter was told
///   something else.
/// - Counters don't add up; a closed flow acts; settings are refused without a reason.
pub fn rp(data: &[u8]) {
    let mut source = Unstructured::new(data);
    let Ok((start, gbps)) = source.arbitrary::<(u64, u16)>() else { return };
    let port = Port {
        line_rate: Rate::from_gbps(u32::from(gbps) % 800 + 1),
        mtu: Bytes::new(1_500),
        base_rtt: Nanos::new(10_000),
    };
    let Some(settings) = settings(&mut source, &port) else { return };
    let mut bench = Bench::new(start >> 1, port, settings);
    for operation in operations(&mut source) {
        bench.operate(&operation);
        bench.counters_add_up();
    }
}

/// A preset with some settings changed, within their ranges; `None` when they contradict each other or the port.
fn settings(source: &mut Unstructured<'_>, port: &Port) -> Option<DcqcnSettings> {
    let (preset, changes) = source.arbitrary::<(u8, u8)>().ok()?;
    let mut settings = Dcqcn::PRESETS[usize::from(preset) % Dcqcn::PRESETS.len()].values;
    for _ in 0..changes % 8 {
        let (index, value, shift) = source.arbitrary::<(u8, u32, u8)>().ok()?;
        let index = usize::from(index) % DcqcnSettings::FIELDS.len();
        let field = &DcqcnSettings::FIELDS[index];
        let span = u64::from(field.max - field.min) + 1;
        // Small values are as frequent as large ones.
        let value = field.min + (u64::from(value >> (shift % 32)) % span) as u32;
        settings.set(index, value).expect("in range");
    }
    match Dcqcn::check(&settings, port) {
        Ok(_) => Some(settings),
        Err(ParamError::Conflict { field, expected }) => {
            assert!(DcqcnSettings::index_of(field).is_some() && !expected.is_empty(), "{field}: {expected}");
            None
        }
        Err(error) => panic!("{settings:?}: {error}"),
    }
}

/// What the rate limiter was told last of each flow, and the bounds on what it may be told.
struct Limiter {
    least: Rate,
    port: Port,
    told: [Option<(Rate, Bytes, Nanos)>; FLOWS],
}

impl RateLimiter for Limiter {
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos) {
        assert!(self.least <= rate && rate <= self.port.line_rate, "{rate:?}");
        assert!(window >= self.port.mtu, "{window:?}");
        assert!(hold <= LONGEST_PAUSE, "{hold:?}");
        self.told[usize::from(index)] = Some((rate, window, hold));
    }
}

/// One engine with its rate limiter.
struct Sender {
    engine: Engine,
    limiter: Limiter,
}

impl Sender {
    fn wake(&mut self, now: u64) {
        self.engine.wake(Instant::from_nanos(now), &mut self.limiter);
    }
}

struct Bench {
    now: u64,
    punctual: Sender,
    late: Sender,
    /// When the late engine was last called.
    called: u64,
    /// Every handle ever given, the stale ones too, with whether it is open.
    handles: Vec<(Handle, bool)>,
    cnps: u64,
    stale: u64,
    refused: u64,
}

impl Bench {
    fn new(now: u64, port: Port, settings: DcqcnSettings) -> Self {
        let sender = || {
            let params = Dcqcn::check(&settings, &port).expect("checked before");
            let limiter = Limiter { least: Rate::from_mbps(settings.rpg_min_rate), port, told: [None; FLOWS] };
            Sender { engine: Engine::new(Instant::from_nanos(now), port, params), limiter }
        };
        // One that nobody was given yet.
        let handles = vec![(Handle::from_bits(0x7f00_0001), false)];
        Self { now, punctual: sender(), late: sender(), called: now, handles, cnps: 0, stale: 0, refused: 0 }
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
            Operation::Sent(which, bytes) => {
                let (handle, open) = self.pick(which);
                let (psn, bytes) = (Psn::new(bytes), Bytes::new(bytes));
                let step = self.both(|sender, now| sender.engine.sent(now, handle, psn, bytes, &mut sender.limiter));
                self.stale += u64::from(!open);
                assert_eq!(step.map(|(handle, _)| handle), open.then_some(handle));
            }
            Operation::Cnp(number, hint) => {
                let (qpn, hint) = (qpn(number), hint.get());
                let bound = self.punctual.engine.find(qpn);
                let step = self.both(|sender, now| sender.engine.cnp(now, qpn, hint, &mut sender.limiter));
                self.cnps += 1;
                assert!(step.is_none() || step.map(|(handle, _)| handle) == bound);
                assert!(hint != CnpHint::Plain || step.is_some() == bound.is_some(), "a plain CNP always counts");
            }
            Operation::Step(which, ref event) => {
                let ((handle, open), event) = (self.pick(which), event.get());
                let step = self.both(|sender, now| sender.engine.step(now, handle, &event, &mut sender.limiter));
                let wanted = Dcqcn::WANTS.contains(event.kind());
                self.cnps += u64::from(open && matches!(event, Event::Cnp { .. }));
                self.stale += u64::from(wanted && !open);
                let may_be_ignored = matches!(event, Event::Cnp { hint: CnpHint::Body(_) });
                assert!(step.is_some() == (wanted && open) || may_be_ignored);
            }
            Operation::Pause(priority, time) => {
                let (priority, time) = (priority % 9, Nanos::new(time >> 4));
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
                    self.now = to;
                    self.both_wake();
                }
            }
        }
    }

    fn open(&mut self, priority: u8) {
        let now = Instant::from_nanos(self.now);
        self.called = self.now;
        let open = |sender: &mut Sender| sender.engine.open(now, priority % 8, &mut sender.limiter);
        let opened = open(&mut self.punctual);
        assert_eq!(open(&mut self.late), opened);
        let Some(handle) = opened else {
            self.refused += 1;
            assert_eq!(self.punctual.engine.len(), FLOWS);
            return;
        };
        assert!(self.handles.iter().all(|&(other, open)| !open || other.index() != handle.index()));
        // Generations repeat.
        self.handles.retain(|&(other, _)| other != handle);
        self.handles.push((handle, true));
    }

    /// A handle, and whether it is open.
    fn pick(&self, which: u8) -> (Handle, bool) {
        self.handles[usize::from(which) % self.handles.len()]
    }

    /// Gives both engines one event, and compares what they decide.
    fn both(&mut self, mut event: impl FnMut(&mut Sender, Instant) -> Option<Step>) -> Option<(Handle, Decision)> {
        let now = Instant::from_nanos(self.now);
        self.called = self.now;
        let mut decide = |sender: &mut Sender| {
            let Step { handle, decision, .. } = event(sender, now)?;
            let Decision { rate, window, hold, .. } = decision;
            assert_eq!(sender.limiter.told[usize::from(handle.index())], Some((rate, window, hold)));
            Some((handle, decision))
        };
        let decided = decide(&mut self.punctual);
        assert_eq!(decide(&mut self.late), decided, "a wake decides");
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
        if end - self.called > AWAY {
            self.both_wake();
        }
        let mut at = self.now;
        self.punctual.wake(at);
        for _ in 0..PATIENCE {
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

/// Few numbers, so that they meet.
fn qpn(number: u8) -> Qpn {
    Qpn::new(u32::from(number % 6))
}
