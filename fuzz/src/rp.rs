//! The target of the reaction points in a [`Nic`]: any algorithm, any settings, any frames with feedback, and a clock that may
//! jump.

use crate::{FewFlows, operations, settings};
use arbitrary::{Arbitrary, Unstructured};
use cc_core::table::Handle;
use cc_core::wire::pfc::Quantum;
use cc_core::wire::shim::{IntShim, MlccAck, Rcc, Time};
use cc_core::wire::{
    AckFields, Addresses, Aeth, Bth, CnpMarking, Extensions, FlowKey, Frame, Mac, Nak, Pfc, Roce, Shims, Syndrome,
    TableCrc, Tags, opcode,
};
use cc_core::{Bytes, CnpBody, CnpBodyKind, CnpKind, Ecn, Hop, Instant, IntLayout, Link, Nanos, Psn, Qpn, Rate, Stamp};
use cc_np::echo::Echo;
use cc_np::{NotSent, NotificationPoint, Transmit};
use cc_rp::{Cx, Event, EventSet, Limits, RateLimiter, ReactionPoint, registry};
use programs::{Nic, Received, RxFields};
use std::collections::BTreeMap;

const FLOWS: usize = 4;
const SECOND: u64 = 1_000_000_000;
/// If the late NIC was not called for longer than this, in nanoseconds, it is woken before the next wait. A wait takes at
/// most 2^29 ns, so that the NIC is called at least once a second, as its contract demands.
const LONGEST_SILENCE: u64 = SECOND / 2;
/// A reaction point shortens a pause to this, within which it is certain to be called again.
const LONGEST_PAUSE: Nanos = Nanos::new(400_000_000);
/// The most wakes of the punctual NIC in one wait. After them it is not woken until the wait's end.
const MOST_WAKES: usize = 2_000;

#[derive(Arbitrary, Debug)]
enum Operation {
    /// A flow is opened, of the priority in the low bits. From 64 on, it is also bound, and its remote name is learnt.
    Open(u8),
    Close(u8),
    Bind(u8, u8),
    Sent(u8, u32, Near),
    /// A CNP arrives, for a queue pair number.
    Cnp(u8, Hint),
    /// A frame with feedback arrives, for a queue pair number.
    Feedback(u8, Feedback),
    /// A PFC frame for the priorities of a mask, with this time in nanoseconds or the longest that it can say.
    Pause(u8, u32),
    /// Time passes: nanoseconds, shifted right so that short waits are as frequent as long ones.
    Wait(u32, u8),
    /// The punctual NIC alone is woken, though no timer is due.
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
            remote_qpn: remote(seq as u8),
            stamp: Stamp::from_bits(seq.into()),
            ..CnpBody::default()
        })
    }
}

/// Feedback for a flow, in a frame or from its own state.
#[derive(Arbitrary, Debug)]
enum Feedback {
    Ack(Acked),
    Nack(Near),
    /// A negative acknowledgement that is no concern of congestion control.
    OtherNak(u8),
    /// The state of the flow is taken out and put in again, which wakes it.
    Restore,
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
    area: [u8; 16 * 14],
}

impl Switches {
    fn shim(&mut self, now: u64, telemetry: Telemetry) -> IntShim<'_> {
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
        for (at, record) in (0..14).zip(self.area.chunks_exact_mut(layout.record_len())) {
            match layout {
                IntLayout::Wide => record.copy_from_slice(&hop(at).to_wide()),
                IntLayout::Compact => record.copy_from_slice(&hop(at).to_compact().unwrap_or([0xff; 8])),
            }
        }
        // An overflow, 15, is as valid as a number of records.
        let (hops, area) = (hops % 16, &self.area[..14 * layout.record_len()]);
        IntShim::new(layout, path.into(), hops, area).expect("the area holds fourteen records")
    }
}

/// Small values are as frequent as large ones.
fn shifted((value, by): (u32, u8)) -> u32 {
    value >> (by % 32)
}

impl Acked {
    /// The acknowledgement for a queue pair, and what its sender's transport knows about it.
    fn frame(&self, now: u64, dest_qp: Qpn, last: Psn, switches: &mut Switches) -> (Vec<u8>, RxFields) {
        let sent = |rtt: (u32, u8)| Stamp::from_bits((now as u32).wrapping_sub(shifted(rtt)));
        // A shim of times gives the delay; without one the transport does.
        let time = self.delay.filter(|&(.., level)| level < 128).map(|(rtt, by, hold, hops, level)| Time {
            echo: sent((rtt, by)),
            receiver_hold: Nanos::new(hold.into()),
            hops,
            rx_buffer_level: level % 32,
            ..Time::default()
        });
        let rtt = self.delay.filter(|_| time.is_none()).map(|(rtt, by, ..)| Nanos::new(shifted((rtt, by))));
        let mut shims = Shims { time, ..Shims::NONE };
        match self.grant {
            Some((value, by, flows, utilisation)) if by < 128 => {
                let echo = sent((utilisation.into(), 0));
                shims.rcc = Some(Rcc { window: Bytes::new(shifted((value, by))), flows, utilisation, echo });
            }
            Some((value, by, credit, _)) => {
                let (release, advised_rate) = (Rate::from_bits(value), Rate::from_bits(shifted((value, by))));
                shims.mlcc_ack = Some(MlccAck { credit, data_qpn: dest_qp, release, advised_rate });
            }
            None => {}
        }
        // A chain of shims has no room for a grant beside the longest telemetry.
        let fits = |int: &Telemetry| int.compact || self.grant.is_none();
        shims.int = self.int.filter(fits).map(|int| switches.shim(now, int));
        let mark = self.mark % 3;
        let bth = Bth {
            opcode: opcode::ACKNOWLEDGE,
            becn: mark == 1,
            fecn: mark == 2,
            dest_qp,
            psn: self.psn.get(last),
            ..Bth::default()
        };
        let at = RxFields::at(Instant::from_nanos(now));
        (frame(bth, shims, Extensions::default(), &[]), RxFields { acked: Bytes::new(shifted(self.acked)), rtt, ..at })
    }
}

/// Passes the same events to two NICs with one algorithm: one is woken at every `next_wake`, the other as rarely as its contract
/// allows.
///
/// # Panics
/// - The decisions of the two differ: wakes must not change decisions.
/// - A decision is outside the algorithm's limits or above the port's speed; the rate limiter is not given that of an event.
/// - Counters do not add up; a closed flow takes an event; a flow in a reused slot does not start with new state; settings are
///   refused without a reason.
/// - A frame changes another flow than that of its queue pair, or of its name; feedback causes a frame.
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

/// The hardware below a NIC: a rate limiter that keeps the last values of each flow, and checks that they are within the
/// algorithm's limits; and a transmitter that has nothing to send.
struct Limiter {
    limits: Limits,
    link: Link,
    values: [Option<(Rate, Bytes, Nanos)>; FLOWS],
    /// The flows that were given a decision since the event began.
    decided: [bool; FLOWS],
}

impl RateLimiter for Limiter {
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos) {
        assert!(self.limits.rate <= rate && rate <= self.link.line_rate, "{rate:?}");
        assert!(window >= self.limits.window, "{window:?}");
        assert!(hold <= LONGEST_PAUSE.max(self.limits.hold), "{hold:?}");
        self.values[usize::from(index)] = Some((rate, window, hold));
        self.decided[usize::from(index)] = true;
    }
}

impl Transmit for Limiter {
    fn cnp(&mut self, cause: &Roce<'_>, _: Qpn, _: CnpBodyKind, _: CnpMarking) -> Result<(), NotSent> {
        panic!("a CNP for {cause:?}");
    }

    fn slot_cnp(&mut self, local: Qpn, _: CnpBodyKind, _: CnpMarking) -> Result<(), NotSent> {
        panic!("a CNP for {local:?}");
    }

    fn ack(&mut self, cause: &Roce<'_>, _: Qpn, _: &AckFields) -> Result<(), NotSent> {
        panic!("an acknowledgement of {cause:?}");
    }
}

/// One NIC with its hardware.
struct Sender<A: ReactionPoint> {
    nic: Nic<A, Echo, FewFlows<1>>,
    hw: Limiter,
}

impl<A: ReactionPoint> Sender<A> {
    fn wake(&mut self, now: u64) {
        self.nic.timer(Instant::from_nanos(now), &mut self.hw);
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
    /// When the late NIC last called its engine for certain.
    called: u64,
    /// Every handle that was returned, including stale ones, and whether it is open.
    handles: Vec<(Handle, bool)>,
    /// The flow that last learnt each remote queue pair number.
    remotes: BTreeMap<u32, Handle>,
    cnps: u64,
    stale: u64,
    refused: u64,
    /// Acknowledgements, positive or negative, for a queue pair number without a flow.
    unbound: u64,
}

impl<A: ReactionPoint> Bench<A> {
    fn new(now: u64, link: Link, settings: &A::Settings) -> Self {
        let params = || A::check(settings, &link).expect("checked before");
        let sender = || {
            let hw =
                Limiter { limits: A::limits(&params(), &link), link, values: [None; FLOWS], decided: [false; FLOWS] };
            let nic = Nic::new(Instant::from_nanos(now), link, settings, &Echo::PRESETS[0].values);
            Sender { nic: nic.expect("checked before"), hw }
        };
        // A handle that no call has returned yet.
        let handles = vec![(Handle::from_bits(0x7f00_0001), false)];
        Self {
            now,
            link,
            params: params(),
            punctual: sender(),
            late: sender(),
            switches: Switches { sent: 0, area: [0; 16 * 14] },
            last: Psn::new(now as u32),
            disturbed: false,
            called: now,
            handles,
            remotes: BTreeMap::new(),
            cnps: 0,
            stale: 0,
            refused: 0,
            unbound: 0,
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
                assert_eq!([self.punctual.nic.close(handle), self.late.nic.close(handle)], [open, open]);
            }
            Operation::Bind(which, number) => self.bind(self.pick(which).0, number),
            Operation::Sent(which, bytes, ref psn) => {
                let (handle, open) = self.pick(which);
                let (psn, bytes) = (psn.get(self.last), Bytes::new(bytes));
                self.last = psn;
                let used = A::EVENTS.contains(EventSet::SENT);
                self.stale += u64::from(used && !open);
                self.both(|sender, now| {
                    sender.nic.sent(now, handle, psn, bytes, &mut sender.hw);
                    (used && open).then_some(handle)
                });
            }
            Operation::Cnp(number, body_kind) => {
                let body_kind = body_kind.get();
                self.cnp(qpn(number), body_kind, &[]);
            }
            Operation::Feedback(number, ref feedback) => self.feedback(qpn(number), feedback),
            Operation::Pause(enabled, time) => {
                self.disturbed = true;
                let quanta = Quantum::at(self.link.line_rate).quanta(Nanos::new(time >> 4));
                let pfc = Pfc::new(enabled, [quanta; 8]);
                self.both(|sender, now| {
                    sender.nic.pause(now, &pfc);
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

    fn feedback(&mut self, dest_qp: Qpn, feedback: &Feedback) {
        let bound = self.punctual.nic.rp().find(dest_qp);
        let bth = Bth { opcode: opcode::ACKNOWLEDGE, dest_qp, ..Bth::default() };
        match *feedback {
            Feedback::Ack(ref acked) => {
                let (frame, rx) = acked.frame(self.now, dest_qp, self.last, &mut self.switches);
                let used = A::EVENTS.contains(EventSet::ACK);
                self.unbound += u64::from(used && bound.is_none());
                self.receive(&frame, &rx, Received::Ack(bound.filter(|_| used)));
            }
            Feedback::Nack(ref psn) => {
                let used = A::EVENTS.contains(EventSet::NACK);
                self.unbound += u64::from(used && bound.is_none());
                let frame = nak(Bth { psn: psn.get(self.last), ..bth }, Nak::PsnSequence);
                self.receive(&frame, &self.rx(), Received::Nack(bound.filter(|_| used)));
            }
            Feedback::OtherNak(why) => {
                let others = [Nak::InvalidRequest, Nak::RemoteAccess, Nak::RemoteOperational, Nak::InvalidRdRequest];
                let frame = nak(bth, others[usize::from(why % 4)]);
                self.receive(&frame, &self.rx(), Received::OtherNak);
            }
            Feedback::Restore => {
                self.both(|sender, now| {
                    let snapshot = sender.nic.snapshot(bound?)?;
                    assert!(sender.nic.inject(now, bound?, snapshot, &mut sender.hw));
                    bound
                });
            }
            Feedback::SwitchInt(int) => {
                let body = CnpBody { kind: CnpKind::SwitchInt, seq: int.path.into(), ..CnpBody::default() };
                let mut payload = [0; IntShim::LONGEST];
                let payload =
                    self.switches.shim(self.now, int).write(&mut payload).expect("there is room for the longest");
                let flow = self.cnp(dest_qp, CnpBodyKind::Extended(body), payload);
                assert_eq!(flow, bound.filter(|_| A::EVENTS.contains(EventSet::SWITCH_INT) || flow.is_some()));
            }
        }
    }

    /// Passes a CNP to both NICs. Returns the flow whose state it changed.
    fn cnp(&mut self, dest_qp: Qpn, body_kind: CnpBodyKind, payload: &[u8]) -> Option<Handle> {
        let named = match body_kind {
            CnpBodyKind::Extended(body) if body.is_from_switch() && body.names_remote_qpn => {
                let named = self.remotes.get(&body.remote_qpn.get()).copied();
                named.filter(|&named| self.handles.contains(&(named, true)))
            }
            _ => self.punctual.nic.rp().find(dest_qp),
        };
        let bth = Bth { opcode: opcode::CNP, becn: true, dest_qp, ..Bth::default() };
        let extensions = Extensions { cnp: body_kind, ..Extensions::default() };
        let frame = frame(bth, Shims::NONE, extensions, payload);
        let before = self.punctual.nic.rp().counters().rp_cnp_handled;
        let handled = self.receive_any(&frame, &self.rx());
        self.cnps += 1;
        let Received::Cnp(flow) = handled else { panic!("a CNP, not {handled:?}") };
        assert!(flow.is_none() || flow == named, "{flow:?}, not {named:?}");
        assert_eq!(self.punctual.nic.rp().counters().rp_cnp_handled - before, u64::from(flow.is_some()));
        let counts = A::EVENTS.contains(EventSet::CNP) && body_kind == CnpBodyKind::Standard;
        assert!(!counts || flow == named, "a standard CNP is always handled");
        flow
    }

    /// Passes a frame to both NICs, and checks what they take it for.
    fn receive(&mut self, frame: &[u8], rx: &RxFields, expected: Received) {
        assert_eq!(self.receive_any(frame, rx), expected);
    }

    fn receive_any(&mut self, frame: &[u8], rx: &RxFields) -> Received {
        let roce = Roce::of(frame).expect("a frame that was just built");
        let mut received = Received::Data;
        self.both(|sender, now| {
            received = sender.nic.received(now, &roce, rx, &mut sender.hw);
            received.logged().1
        });
        received
    }

    /// What a NIC knows about a frame that arrives now, besides its headers.
    fn rx(&self) -> RxFields {
        RxFields::at(Instant::from_nanos(self.now))
    }

    fn bind(&mut self, handle: Handle, number: u8) {
        let (local, remote) = (qpn(number), remote(number));
        let outcome = self.punctual.nic.bind(handle, local);
        assert_eq!(self.late.nic.bind(handle, local), outcome);
        assert!(outcome.is_err() || self.punctual.nic.rp().find(local) == Some(handle));
        // The name by which a switch knows the flow whose CNPs come from the frames' source.
        let cnp = frame(Bth { opcode: opcode::CNP, ..Bth::default() }, Shims::NONE, Extensions::default(), &[]);
        let key = FlowKey::of_reply(&Roce::of(&cnp).expect("a frame that was just built"), remote);
        let learnt = self.punctual.nic.learn_remote(handle, key);
        assert_eq!(self.late.nic.learn_remote(handle, key), learnt);
        if learnt {
            self.remotes.insert(remote.get(), handle);
        }
    }

    fn open(&mut self, priority: u8) {
        let now = Instant::from_nanos(self.now);
        self.called = self.now;
        let open = |sender: &mut Sender<A>| sender.nic.open(now, priority % 8, &mut sender.hw);
        let opened = open(&mut self.punctual);
        assert_eq!(open(&mut self.late), opened);
        let Some(handle) = opened else {
            self.refused += 1;
            assert_eq!(self.punctual.nic.rp().len(), FLOWS);
            return;
        };
        assert!(self.handles.iter().all(|&(other, open)| !open || other.index() != handle.index()));
        self.assert_as_new(handle);
        // A handle's generation repeats after many reuses of its slot: the new handle may equal a stale one.
        self.handles.retain(|&(other, _)| other != handle);
        self.handles.push((handle, true));
        let free = (0..6).find(|&number| self.punctual.nic.rp().find(qpn(number)).is_none());
        if let (Some(number), true) = (free, priority >= 64) {
            self.bind(handle, number);
        }
    }

    /// Checks that a flow in a reused slot starts with the state of a flow in a new NIC.
    fn assert_as_new(&mut self, handle: Handle) {
        let now = Instant::from_nanos(self.now);
        let (pause, clock_without_pauses) = (Nanos::ZERO, now.stamp());
        let mut fresh = A::open(&Cx { now, link: &self.link, params: &self.params, pause, clock_without_pauses });
        fresh.on(&Cx { now, link: &self.link, params: &self.params, pause, clock_without_pauses }, &Event::Wake);
        let quiet =
            self.punctual.hw.values[usize::from(handle.index())].is_some_and(|(_, _, hold)| hold == Nanos::ZERO);
        // The states differ after a pause, which stops the clock without pauses, and after a clock jump, which shifts local
        // time.
        if quiet && !self.disturbed {
            assert_eq!(self.punctual.nic.rp().state(handle), Some(&fresh));
        }
    }

    /// A handle, and whether it is open.
    fn pick(&self, which: u8) -> (Handle, bool) {
        self.handles[usize::from(which) % self.handles.len()]
    }

    /// Passes one event to both NICs, and compares the flows that it changed and their decisions.
    fn both(&mut self, mut event: impl FnMut(&mut Sender<A>, Instant) -> Option<Handle>) {
        let now = Instant::from_nanos(self.now);
        let mut decide = |sender: &mut Sender<A>| {
            sender.hw.decided = [false; FLOWS];
            let handle = event(sender, now)?;
            assert!(sender.hw.decided[usize::from(handle.index())], "the rate limiter was not given the decision");
            Some((handle, sender.hw.values[usize::from(handle.index())]))
        };
        let decided = decide(&mut self.punctual);
        assert_eq!(decide(&mut self.late), decided, "a wake changed the decision");
        if decided.is_some() {
            // Otherwise the event may not have reached the engine: a restored snapshot of a flow that is closed does not.
            self.called = self.now;
        }
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
            at = self.punctual.nic.next_wake().nanos();
            if at > end {
                break;
            }
            self.punctual.wake(at);
        }
        self.now = end;
    }

    fn counters_add_up(&self) {
        let counters = self.punctual.nic.rp().counters();
        assert_eq!(counters, self.late.nic.rp().counters());
        let reasons = counters.rp_cnp_unknown_qp
            + counters.rp_cnp_by_remote_qp
            + counters.rp_cnp_stale
            + counters.rp_cnp_unsupported;
        assert_eq!(counters.rp_cnp_ignored, reasons);
        assert_eq!(counters.rp_cnp_handled + counters.rp_cnp_ignored, self.cnps);
        let others = (counters.rp_handles_stale, counters.rp_flows_refused, counters.rp_ack_unknown_qp);
        assert_eq!(others, (self.stale, self.refused, self.unbound));
        let open = self.handles.iter().filter(|&&(_, open)| open).count();
        assert_eq!([self.punctual.nic.rp().len(), self.late.nic.rp().len()], [open, open]);
    }
}

/// A frame of a remote peer, with these headers.
fn frame(bth: Bth, shims: Shims<'_>, extensions: Extensions, payload: &[u8]) -> Vec<u8> {
    let frame = Frame {
        destination: Mac::new([2; 6]),
        source: Mac::new([4; 6]),
        tags: Tags::NONE,
        addresses: Addresses::V4 { source: [10, 0, 0, 2].into(), destination: [10, 0, 0, 1].into() },
        dscp: 48,
        ecn: Ecn::Ect0,
        hop_limit: 64,
        udp_source: 0,
        shims,
        bth,
        extensions,
        payload,
    };
    frame.to_vec::<TableCrc>().expect("the frame is short")
}

/// A negative acknowledgement.
fn nak(bth: Bth, why: Nak) -> Vec<u8> {
    let aeth = Aeth { syndrome: Syndrome::Nak(why), ..Aeth::default() };
    frame(bth, Shims::NONE, Extensions { aeth, ..Extensions::default() }, &[])
}

/// One of six local queue pair numbers: few, so that operations often use the same.
fn qpn(number: u8) -> Qpn {
    Qpn::new(u32::from(number % 6))
}

/// One of six remote queue pair numbers.
fn remote(number: u8) -> Qpn {
    Qpn::new(0x100 + u32::from(number % 6))
}
