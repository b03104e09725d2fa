use super::*;
use crate::dcqcn::{Dcqcn, DcqcnSettings, PAPER, VENDOR};
use crate::{CnpFlow, Limits, Signals};
use cc_core::params::{ParamError, Preset};
use cc_core::wire::shim::{IntShim, Rcc};
use cc_core::wire::{
    self, Addresses, Aeth, Bth, Extensions, Frame, Mac, Nak, Parsed, Shims, Syndrome, TableCrc, Tags, opcode,
};
use cc_core::{CnpBody, CnpKind, Ecn, Hop, IntLayout, IntStackBuilder, State};
use core::net::Ipv4Addr;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_024), base_rtt: Nanos::new(8_000) };
const US: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;

type Engine = RpEngine<Dcqcn, 8, 16>;

/// A rate limiter that records its calls.
#[derive(Default)]
struct Calls(Vec<(u16, Rate, Nanos)>);

impl RateLimiter for Calls {
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos) {
        assert_eq!(window, Bytes::MAX);
        self.0.push((index, rate, hold));
    }
}

fn engine(settings: DcqcnSettings) -> Engine {
    Engine::new(at(0), LINK, Dcqcn::check(&settings, &LINK).unwrap())
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn sent(bytes: u32) -> Event<'static> {
    Event::Sent { psn: Psn::new(0), bytes: Bytes::new(bytes) }
}

fn body(kind: CnpKind, seq: u16) -> CnpBodyKind {
    CnpBodyKind::Extended(CnpBody { kind, seq, ..CnpBody::default() })
}

/// An engine with one flow, bound to 17.
fn with_flow(settings: DcqcnSettings) -> (Engine, Handle, Calls) {
    let (mut engine, mut limiter) = (engine(settings), Calls::default());
    let handle = engine.open(at(0), 3, &mut limiter).unwrap();
    engine.bind(handle, Qpn::new(17)).unwrap();
    (engine, handle, limiter)
}

#[test]
fn a_flow_costs_at_most_72_bytes() {
    assert_eq!(size_of::<Dcqcn>(), 32);
    assert_eq!(RpEngine::<Dcqcn, 1_024, 2_048>::QP_BYTES, 72);
    assert_eq!(RpEngine::<Dcqcn, 64, 128>::QP_BYTES, 72);
}

#[test]
fn the_rate_limiter_is_set_after_every_event() {
    let (mut engine, handle, mut limiter) = with_flow(PAPER);
    let line = (handle.index(), LINK.line_rate, Nanos::ZERO);
    assert_eq!(limiter.0, [line]);
    engine.step(at(US), handle, &sent(1_024), &mut limiter).unwrap();
    let step = notify(&mut engine, at(2 * US), 17, CnpBodyKind::Standard, &mut limiter).unwrap();
    assert_eq!(step.handle, handle);
    assert_eq!(limiter.0, [line, line, (handle.index(), Rate::from_gbps(50), Nanos::ZERO)]);
    assert_eq!(step.decision.rate, Rate::from_gbps(50));
}

#[test]
fn wakes_come_at_the_deadlines_that_the_machine_sets() {
    let (mut engine, handle, mut limiter) = with_flow(PAPER);
    notify(&mut engine, at(US), 17, CnpBodyKind::Standard, &mut limiter).unwrap();
    let mut now = US;
    for rate in [75_000, 87_500, 93_750] {
        loop {
            let wait = engine.next_wake();
            now += u64::from(wait.get());
            match engine.wake(at(now), &mut limiter) {
                Some(step) if step.decision.rate == Rate::from_mbps(rate) => {
                    break assert_eq!((step.handle, step.decision.rate), (handle, Rate::from_mbps(rate)));
                }
                _ => assert!(now < 300 * US),
            }
        }
        assert!((now - US) % (55 * US) < 2 * US, "within two ticks of the deadline: {now}");
    }
    // An idle engine must be called again too.
    assert!(Engine::LONGEST_WAIT < Nanos::new(500_000_000));
    assert_eq!(self::engine(PAPER).next_wake(), Engine::LONGEST_WAIT);
}

#[test]
fn a_full_table_refuses_a_flow_and_counts_it() {
    let (mut engine, mut limiter) = (engine(PAPER), Calls::default());
    let handles: Vec<_> = (0..8).map(|_| engine.open(at(0), 3, &mut limiter).unwrap()).collect();
    assert_eq!(engine.open(at(0), 3, &mut limiter), None);
    assert_eq!((engine.counters().rp_flows_refused, engine.len()), (1, 8));
    assert!(engine.close(handles[5]));
    assert!(!engine.close(handles[5]));
    assert!(engine.open(at(0), 3, &mut limiter).is_some());
    assert!(engine.step(at(US), handles[5], &sent(1), &mut limiter).is_none());
    assert_eq!(engine.counters().rp_handles_stale, 2);
}

#[test]
fn a_reused_slot_is_as_new() {
    for settings in [PAPER, VENDOR] {
        let (mut engine, handle, mut limiter) = with_flow(settings);
        let fresh = *engine.state(handle).unwrap();
        for now in 1..20 {
            notify(&mut engine, at(now * US), 17, body(CnpKind::Standard, now as u16), &mut limiter).unwrap();
            engine.step(at(now * US), handle, &sent(12_345_678), &mut limiter).unwrap();
        }
        assert!(engine.close(handle));
        // Feedback for the closed flow finds no flow.
        assert!(notify(&mut engine, at(20 * US), 17, CnpBodyKind::Standard, &mut limiter).is_none());
        let mut other = self::engine(settings);
        let other_handle = other.open(at(30 * US), 3, &mut limiter).unwrap();
        let reused = engine.open(at(30 * US), 3, &mut limiter).unwrap();
        assert_eq!(reused.index(), handle.index());
        assert_eq!(engine.state(reused), other.state(other_handle));
        engine.bind(reused, Qpn::new(17)).unwrap();
        let step = engine.step(at(40 * US), reused, &sent(1), &mut limiter).unwrap();
        assert_eq!((step.decision.rate, step.decision.wake_in), (LINK.line_rate, Nanos::MAX));
        assert_ne!(
            fresh,
            Dcqcn::open(&Cx {
                now: at(1),
                link: &LINK,
                params: &Dcqcn::check(&settings, &LINK).unwrap(),
                pause: Nanos::ZERO,
                clock_without_pauses: at(1).stamp()
            })
        );
    }
}

#[test]
fn every_cnp_is_handled_or_ignored_for_a_reason() {
    let (mut engine, _, mut limiter) = with_flow(PAPER);
    let mut cnp = |qpn, body_kind| notify(&mut engine, at(US), qpn, body_kind, &mut limiter).is_some();
    assert!(cnp(17, CnpBodyKind::Standard));
    assert!(cnp(17, body(CnpKind::Standard, 9)));
    assert!(!cnp(17, body(CnpKind::Standard, 9)));
    assert!(!cnp(17, body(CnpKind::Undetermined, 10)));
    assert!(!cnp(18, CnpBodyKind::Standard));
    assert!(!cnp(
        17,
        CnpBodyKind::Extended(CnpBody { names_remote_qpn: true, remote_qpn: Qpn::new(17), ..CnpBody::default() })
    ));
    let counters = engine.counters();
    assert_eq!(
        counters,
        RpCounters {
            rp_cnp_handled: 2,
            rp_cnp_ignored: 4,
            rp_cnp_unknown_qp: 1,
            rp_cnp_by_remote_qp: 1,
            rp_cnp_stale: 1,
            rp_cnp_unsupported: 1,
            ..RpCounters::NONE
        }
    );
    assert!(counters.named().contains(&("rp_cnp_ignored", 4)));
}

#[test]
fn a_pause_holds_the_flows_of_its_priority_alone() {
    let (mut engine, paused, mut limiter) = with_flow(PAPER);
    let other = engine.open(at(0), 4, &mut limiter).unwrap();
    engine.pause(at(US), 3, Nanos::new(336_000));
    limiter.0.clear();
    let step = engine.step(at(2 * US), paused, &sent(1), &mut limiter).unwrap();
    assert_eq!(step.decision.hold, Nanos::new(335_000));
    let step = engine.step(at(2 * US), other, &sent(1), &mut limiter).unwrap();
    assert_eq!(step.decision.hold, Nanos::ZERO);
    // After a resume, the next decision has no hold.
    engine.pause(at(3 * US), 3, Nanos::ZERO);
    let step = engine.step(at(4 * US), paused, &sent(1), &mut limiter).unwrap();
    assert_eq!(step.decision.hold, Nanos::ZERO);
    assert_eq!(limiter.0.last(), Some(&(paused.index(), LINK.line_rate, Nanos::ZERO)));
    // A pause without a resume runs out, and stays over when stamps wrap.
    engine.pause(at(6 * US), 3, Nanos::new(336_000));
    for half in 1..20 {
        let step = engine.step(at(half * SECOND / 2), paused, &sent(1), &mut limiter).unwrap();
        assert_eq!(step.decision.hold, Nanos::ZERO);
    }
}

/// A rate limiter with a switch for each priority, all of them on at first.
#[derive(Default)]
struct Switches {
    off: u8,
    calls: Calls,
}

impl RateLimiter for Switches {
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos) {
        self.calls.set(index, rate, window, hold);
    }

    fn is_enabled(&self, priority: u8) -> bool {
        self.off >> priority & 1 == 0
    }
}

/// The reaction point is on or off for each priority by itself, the notification point for the whole port.
#[test]
fn the_reaction_point_of_a_priority_is_switched_off_and_on_a14() {
    let (mut engine, mut limiter) = (engine(PAPER), Switches { off: 1 << 3, ..Switches::default() });
    let flows = [3, 4].map(|priority| engine.open(at(0), priority, &mut limiter).unwrap());
    let cnp = Event::Cnp { body_kind: CnpBodyKind::Standard };
    let half = LINK.line_rate.to_bits() / 2;
    let [off, on] = flows.map(|flow| engine.step(at(US), flow, &cnp, &mut limiter).unwrap().decision);
    assert_eq!((off.rate, off.window, on.rate.to_bits()), (LINK.line_rate, Bytes::MAX, half));
    assert_eq!(engine.counters().rp_cnp_handled, 2);
    // PFC holds the flow all the same.
    engine.pause(at(2 * US), 3, Nanos::new(10_000));
    let held = engine.step(at(4 * US), flows[0], &sent(1), &mut limiter).unwrap().decision;
    assert_eq!((held.hold.get(), held.rate), (8_000, LINK.line_rate));
    engine.pause(at(5 * US), 3, Nanos::ZERO);
    // Switching on continues with the rate of the state.
    limiter.off = 0;
    let on = engine.step(at(6 * US), flows[0], &sent(1), &mut limiter).unwrap().decision;
    assert_eq!(on.rate.to_bits(), half);
}

#[test]
fn new_parameters_hold_for_the_flows_that_are_open() {
    let (mut engine, flow, mut limiter) = with_flow(PAPER);
    let cnp = Event::Cnp { body_kind: CnpBodyKind::Standard };
    engine.step(at(US), flow, &cnp, &mut limiter).unwrap();
    let halved = *engine.state(flow).unwrap();
    let limited = DcqcnSettings { rpg_min_rate: 10_000, ..PAPER };
    engine.set_params(Dcqcn::check(&limited, &LINK).unwrap());
    assert_eq!(engine.state(flow), Some(&halved), "flows keep their state");
    let cut = |nth: u64| engine.step(at(100 * nth * US), flow, &cnp, &mut limiter).unwrap().decision.rate;
    assert_eq!((1..9).map(cut).min(), Some(Rate::from_gbps(10)));
}

#[test]
fn a_pause_that_ran_out_stays_over_while_only_pauses_are_passed() {
    let (mut engine, mut limiter) = (engine(PAPER), Calls::default());
    engine.pause(at(0), 3, Nanos::new(1_000_000));
    for half in 1..=7 {
        engine.pause(at(half * SECOND / 2), 4, Nanos::new(1_000_000));
    }
    engine.open(at(7 * SECOND / 2), 3, &mut limiter).unwrap();
    assert!(limiter.0.iter().all(|&(_, _, hold)| hold == Nanos::ZERO), "{:?}", limiter.0);
}

/// Every set of priorities that a PFC frame may pause, with no flow, one and two: only flows of paused priorities are held.
#[test]
fn a_pause_of_any_priorities_holds_their_flows_and_no_others_e1() {
    for enabled in 0..=255_u8 {
        for (first, second) in [(None, None), (Some(3), None), (Some(3), Some(6)), (Some(0), Some(7))] {
            let (mut engine, mut limiter) = (engine(PAPER), Calls::default());
            let flows: Vec<_> = [first, second]
                .into_iter()
                .flatten()
                .map(|priority| (priority, engine.open(at(0), priority, &mut limiter).unwrap()))
                .collect();
            for priority in (0..8).filter(|&priority| enabled >> priority & 1 == 1) {
                engine.pause(at(US), priority, Nanos::new(336_000));
            }
            // There is no such priority.
            engine.pause(at(US), 8, Nanos::new(336_000));
            engine.pause(at(US), 255, Nanos::new(336_000));
            for &(priority, handle) in &flows {
                let step = engine.step(at(2 * US), handle, &sent(1_024), &mut limiter).unwrap();
                let hold = if enabled >> priority & 1 == 1 { 335_000 } else { 0 };
                assert_eq!(step.decision.hold, Nanos::new(hold), "{enabled:#010b}, priority {priority}");
            }
            assert_eq!(engine.len(), flows.len());
        }
    }
}

#[test]
fn a_clock_that_jumps_makes_no_timer_expire() {
    for jump in [10 * SECOND, 5_000_000 * SECOND, (u64::MAX - SECOND) / 2] {
        let (mut engine, handle, mut limiter) = with_flow(PAPER);
        let start = SECOND * 100;
        engine.wake(at(0), &mut limiter);
        engine.step(at(start), handle, &sent(1), &mut limiter).unwrap();
        notify(&mut engine, at(start), 17, CnpBodyKind::Standard, &mut limiter).unwrap();
        let step = engine.step(at(start + jump), handle, &sent(1), &mut limiter).unwrap();
        assert_eq!(step.decision.rate, Rate::from_gbps(50));
        let step = engine.step(at(start + jump + 55 * US), handle, &sent(1), &mut limiter).unwrap();
        assert_eq!(step.decision.rate, Rate::from_gbps(75));
        let step = engine.step(at(start), handle, &sent(1), &mut limiter).unwrap();
        assert_eq!(step.decision.rate, Rate::from_gbps(75));
        let counters = engine.counters();
        assert_eq!((counters.rp_clock_jumps_forward, counters.rp_clock_reversals), (2, 1));
    }
}

fn frame(opcode: u8, syndrome: Syndrome) -> Vec<u8> {
    shimmed(opcode, syndrome, Shims::NONE)
}

fn shimmed(opcode: u8, syndrome: Syndrome, shims: Shims<'_>) -> Vec<u8> {
    let bth = Bth { opcode, dest_qp: Qpn::new(17), psn: Psn::new(5), ..Bth::default() };
    framed(shims, bth, Extensions { aeth: Aeth { syndrome, msn: 0 }, ..Extensions::default() }, &[])
}

fn framed(shims: Shims<'_>, bth: Bth, extensions: Extensions, payload: &[u8]) -> Vec<u8> {
    let frame = Frame {
        destination: Mac::new([2, 0, 0, 0, 0, 1]),
        source: Mac::new([2, 0, 0, 0, 0, 2]),
        tags: Tags::NONE,
        addresses: Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, 2), destination: Ipv4Addr::new(10, 0, 0, 1) },
        dscp: 48,
        ecn: Ecn::Ect0,
        hop_limit: 64,
        udp_source: 0,
        shims,
        bth,
        extensions,
        payload,
    };
    let mut buffer = vec![0; 256];
    let len = frame.emit::<TableCrc>(&mut buffer).unwrap();
    buffer.truncate(len);
    buffer
}

fn deliver<A: ReactionPoint>(
    engine: &mut RpEngine<A, 8, 16>,
    now: u64,
    frame: &[u8],
    limiter: &mut Calls,
) -> Option<FlowDecision> {
    match wire::parse(frame, frame.len()) {
        Ok(Parsed::Roce(roce)) => take(engine, at(now), &roce, AckProgress::default(), limiter),
        other => panic!("{other:?}"),
    }
}

/// Passes a packet to the engine's function for its opcode, as a NIC does.
fn take<A: ReactionPoint>(
    engine: &mut RpEngine<A, 8, 16>,
    now: Instant,
    roce: &Roce<'_>,
    progress: AckProgress,
    limiter: &mut Calls,
) -> Option<FlowDecision> {
    match (roce.cnp(), roce.aeth().map(|aeth| aeth.syndrome)) {
        (Some(mut body_kind), _) => {
            let flow = CnpFlow::of(roce, &mut body_kind, |_| None);
            engine.cnp(now, roce, flow, &body_kind, limiter)
        }
        (_, Some(Syndrome::Ack { .. })) if roce.bth.opcode == ACK => engine.ack(now, roce, progress, limiter),
        (_, Some(Syndrome::Nak(Nak::PsnSequence))) => engine.nack(now, roce.bth.dest_qp, roce.bth.psn, limiter),
        _ => None,
    }
}

/// A CNP with this body arrives for a local queue pair.
fn notify(
    engine: &mut Engine,
    now: Instant,
    qpn: u32,
    body_kind: CnpBodyKind,
    limiter: &mut Calls,
) -> Option<FlowDecision> {
    let bth = Bth { opcode: opcode::CNP, becn: true, dest_qp: Qpn::new(qpn), ..Bth::default() };
    let frame = framed(Shims::NONE, bth, Extensions { cnp: body_kind, ..Extensions::default() }, &[]);
    deliver(engine, now.nanos(), &frame, limiter)
}

const ACK: u8 = 0x11;

#[test]
fn frames_reach_the_flow_that_their_queue_pair_is_bound_to() {
    let received = Syndrome::Ack { credits: 31 };
    let (mut engine, handle, mut limiter) = with_flow(PAPER);
    let step = deliver(&mut engine, US, &frame(opcode::CNP, received), &mut limiter).unwrap();
    assert_eq!((step.handle, step.decision.rate), (handle, Rate::from_gbps(50)));
    // DCQCN takes no acknowledgements.
    assert!(deliver(&mut engine, US, &frame(ACK, received), &mut limiter).is_none());

    let mut witness = RpEngine::<Witness, 8, 16>::new(at(0), LINK, ());
    let handle = witness.open(at(0), 3, &mut limiter).unwrap();
    witness.bind(handle, Qpn::new(17)).unwrap();
    let mut seen = |opcode, syndrome| {
        deliver(&mut witness, US, &frame(opcode, syndrome), &mut limiter);
        witness.state(handle).unwrap().last
    };
    assert_eq!(seen(ACK, received), Seen::Ack(Psn::new(5), Mark::None));
    assert_eq!(seen(ACK, Syndrome::Nak(Nak::PsnSequence)), Seen::Nack(Psn::new(5)));
    assert_eq!(seen(opcode::CNP, received), Seen::Cnp(CnpBodyKind::Standard));
    assert_eq!(seen(0x04, received), Seen::Cnp(CnpBodyKind::Standard), "data are not for a sender");
}

cc_core::settings! {
    pub struct NoSettings {
        /// Unused.
        unused: Count, 0..=0, [];
    }
}

/// An event, without what it borrows.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Seen {
    Sent,
    Ack(Psn, Mark),
    Nack(Psn),
    Cnp(CnpBodyKind),
    SwitchInt,
    Wake,
}

impl Seen {
    fn of(event: &Event<'_>) -> Self {
        match *event {
            Event::Sent { .. } => Self::Sent,
            Event::Ack(ack) => Self::Ack(ack.psn, ack.mark),
            Event::Nack { psn } => Self::Nack(psn),
            Event::Cnp { body_kind } => Self::Cnp(body_kind),
            Event::SwitchInt { .. } => Self::SwitchInt,
            Event::Wake => Self::Wake,
        }
    }
}

/// A machine that only records its events. `READS_ALL`: whether it reads all signals of acknowledgements, or none.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Witness<const READS_ALL: bool = true> {
    last: Seen,
    delay: Option<Delay>,
    grant: Grant,
    /// The last hop of the telemetry.
    hop: Option<Hop>,
    at: Instant,
    clock_without_pauses: Stamp,
}

/// No test uses its snapshot.
impl<const READS_ALL: bool> State for Witness<READS_ALL> {
    type Snapshot = ();

    fn snapshot(&self) {}

    fn from_snapshot((): ()) -> Self {
        unreachable!()
    }
}

impl<const READS_ALL: bool> ReactionPoint for Witness<READS_ALL> {
    type Settings = NoSettings;
    type Params = ();
    const NAME: &'static str = "witness";
    const PRESETS: &'static [Preset<NoSettings>] = &[];
    const EVENTS: EventSet =
        EventSet::ACK.with(EventSet::NACK).with(EventSet::CNP).with(EventSet::SWITCH_INT).with(EventSet::WAKE);
    const SIGNALS: Signals = if READS_ALL {
        Signals::MARK.with(Signals::DELAY).with(Signals::INT).with(Signals::GRANT)
    } else {
        Signals::NONE
    };
    const RECEIVER: Option<&'static str> = None;
    const TRANSITIONS: &'static [&'static str] = &["recording, any event: record it"];

    fn transition(&self, _: &Cx<'_, ()>, _: &Event<'_>) -> usize {
        0
    }

    fn check(_: &NoSettings, _: &Link) -> Result<(), ParamError> {
        Ok(())
    }

    fn limits(_: &(), link: &Link) -> Limits {
        Limits { rate: Rate::from_gbps(1), window: link.mtu, hold: Nanos::ZERO }
    }

    fn open(cx: &Cx<'_, ()>) -> Self {
        Self {
            last: Seen::Wake,
            delay: None,
            grant: Grant::None,
            hop: None,
            at: cx.now,
            clock_without_pauses: cx.clock_without_pauses,
        }
    }

    fn on(&mut self, cx: &Cx<'_, ()>, event: &Event<'_>) -> Decision {
        (self.last, self.at, self.clock_without_pauses) = (Seen::of(event), cx.now, cx.clock_without_pauses);
        if let Event::Ack(ack) = event {
            (self.delay, self.grant, self.hop) = (ack.delay, ack.grant, ack.int.iter().last());
        }
        if let Event::SwitchInt { int } = event {
            self.hop = int.iter().last();
        }
        Decision { rate: Rate::from_gbps(1), window: Bytes::MAX, hold: Nanos::ZERO, wake_in: Nanos::MAX }
    }
}

/// The state of a machine after an acknowledgement with these shims that arrives at `now`, and the counters.
fn after_ack<const READS_ALL: bool>(
    now: u64,
    becn: bool,
    shims: Shims<'_>,
    rtt: Option<Nanos>,
) -> (Witness<READS_ALL>, RpCounters) {
    let mut limiter = Calls::default();
    let mut engine = RpEngine::<Witness<READS_ALL>, 8, 16>::new(at(0), LINK, ());
    let handle = engine.open(at(0), 3, &mut limiter).unwrap();
    engine.bind(handle, Qpn::new(17)).unwrap();
    let mut bytes = shimmed(ACK, Syndrome::Ack { credits: 31 }, shims);
    let bth = bytes.len() - 4 - 4 - 12;
    bytes[bth + 4] |= if becn { 0x40 } else { 0 };
    let Ok(Parsed::Roce(roce)) = wire::parse(&bytes, bytes.len()) else { panic!("not RoCE") };
    let progress = AckProgress { rtt, ..AckProgress::default() };
    take(&mut engine, at(now), &roce, progress, &mut limiter).unwrap();
    (*engine.state(handle).unwrap(), engine.counters())
}

fn echo(stamp: u32) -> Shims<'static> {
    let (echo, receiver_hold) = (Stamp::from_bits(stamp), Nanos::new(1_500));
    Shims { time: Some(Time { echo, receiver_hold, hops: 3, rx_buffer_level: 9, ..Time::default() }), ..Shims::NONE }
}

fn rtt_of(now: u64, shims: Shims<'_>) -> Option<Nanos> {
    after_ack::<true>(now, false, shims, None).0.delay.map(|delay| delay.rtt)
}

#[test]
fn a_time_stamp_that_was_never_filled_or_is_too_old_is_rejected_and_counted_c1() {
    let own = Some(Nanos::new(8_000));
    for (stamp, accepted) in [
        (0, false),
        (1_000, true),
        (2_000, true),
        // In the future, or 1.07 s ago and more.
        (2_001, false),
        (2_000_u32.wrapping_sub((1 << 30) - 1), true),
        (2_000_u32.wrapping_sub(1 << 30), false),
        (2_000_u32.wrapping_sub(1 << 31), false),
    ] {
        for known in [None, own] {
            let (seen, counters) = after_ack::<true>(2_000, false, echo(stamp), known);
            assert_eq!(counters.rp_delays_rejected, u64::from(!accepted), "{stamp:#x}");
            let rtt = Nanos::new(2_000_u32.wrapping_sub(stamp));
            let returned = Delay { rtt, receiver_hold: Nanos::new(1_500), hops: 3, rx_buffer_level: 9 };
            let fallback = known.map(|rtt| Delay { rtt, ..Delay::default() });
            assert_eq!(seen.delay, if accepted { Some(returned) } else { fallback }, "{stamp:#x}");
        }
    }
    // An acknowledgement without a time stamp does not count as rejected.
    let (seen, counters) = after_ack::<true>(2_000, false, Shims::NONE, own);
    assert_eq!((seen.delay.unwrap().rtt, counters.rp_delays_rejected), (Nanos::new(8_000), 0));
    assert!(counters.named().contains(&("rp_delays_rejected", 0)));
}

#[test]
fn a_round_trip_across_the_wrap_of_its_stamps_is_exact_d1() {
    assert_eq!(rtt_of(0x1_0000_0010, echo(0xffff_fff0)), Some(Nanos::new(0x20)));
    assert_eq!(rtt_of(0x1_0000_0000, echo(0xffff_ffff)), Some(Nanos::new(1)));
    for same in [1, 0xffff_ffff, 0x8000_0000] {
        assert_eq!(rtt_of(0x7_0000_0000 | u64::from(same), echo(same)), Some(Nanos::ZERO));
    }
}

#[test]
fn telemetry_for_an_unknown_queue_pair_is_counted_b7() {
    let mut limiter = Calls::default();
    let mut engine = RpEngine::<Witness, 8, 16>::new(at(0), LINK, ());
    let int = Some(IntShim::empty(IntLayout::Wide, 0, IntShim::ROOM));
    for opcode in [ACK, 0x04] {
        let bytes = shimmed(opcode, Syndrome::Ack { credits: 31 }, Shims { int, ..echo(7) });
        assert_eq!(deliver(&mut engine, US, &bytes, &mut limiter), None);
    }
    assert_eq!(engine.counters(), RpCounters { rp_ack_unknown_qp: 1, ..RpCounters::NONE });
}

#[test]
fn values_in_shims_reach_the_machines_that_use_them_and_no_others() {
    let hop = Hop { mbps: 100_000, clock: 5, sent: 6, queue: 7, ..Hop::default() };
    let int = IntStackBuilder::new(IntLayout::Wide, 1).with_room(3).with([Hop::default(), hop]);
    let rcc = Rcc { window: Bytes::new(64_000), flows: 3, utilisation: 9, echo: Stamp::from_bits(400) };
    let shims = Shims { int: Some(IntShim::of(&int)), rcc: Some(rcc), echo: Some(Mark::Undetermined), ..Shims::NONE };
    let (seen, _) = after_ack::<true>(1_000, false, shims, Some(Nanos::new(1)));
    assert_eq!(seen.last, Seen::Ack(Psn::new(5), Mark::Undetermined));
    assert_eq!(seen.delay, Some(Delay { rtt: Nanos::new(600), ..Delay::default() }), "RCC returns a stamp as well");
    assert_eq!((seen.grant, seen.hop), (rcc.grant(), Some(hop)));
    // The mark in the BTH is the stronger one, and counts.
    let (seen, _) = after_ack::<true>(1_000, true, shims, None);
    assert_eq!(seen.last, Seen::Ack(Psn::new(5), Mark::Congested));

    let (without_signals, counters) =
        after_ack::<false>(1_000, true, Shims { time: echo(0).time, ..shims }, Some(Nanos::new(1)));
    assert_eq!(without_signals.last, Seen::Ack(Psn::new(5), Mark::None));
    assert_eq!((without_signals.delay, without_signals.grant, without_signals.hop), (None, Grant::None, None));
    assert_eq!(counters.rp_delays_rejected, 0);
}

#[test]
fn the_clock_without_pauses_stands_still_exactly_while_the_priority_is_paused() {
    let mut limiter = Calls::default();
    let mut engine = RpEngine::<Witness, 8, 16>::new(at(0), LINK, ());
    let handles = [3, 4].map(|priority| engine.open(at(0), priority, &mut limiter).unwrap());
    let mut shown = |engine: &mut RpEngine<Witness, 8, 16>, now: u64| {
        handles.map(|handle| {
            engine.step(at(now), handle, &Event::Wake, &mut limiter);
            engine.state(handle).unwrap().clock_without_pauses.to_bits()
        })
    };
    engine.pause(at(1_000), 3, Nanos::new(500));
    assert_eq!(shown(&mut engine, 1_200), [1_000, 1_200]);
    engine.pause(at(1_300), 3, Nanos::new(500)); // renewed: until 1 800
    assert_eq!(shown(&mut engine, 1_700), [1_000, 1_700]);
    assert_eq!(shown(&mut engine, 2_000), [1_200, 2_000], "it ran out by itself");
    engine.pause(at(3_000), 3, Nanos::new(10_000));
    engine.pause(at(3_100), 3, Nanos::ZERO); // resumed
    assert_eq!(shown(&mut engine, 4_000), [3_100, 4_000]);
    engine.pause(at(5_000), 4, Nanos::new(100));
    engine.pause(at(9_000), 3, Nanos::ZERO); // of a priority that is not paused
    assert_eq!(shown(&mut engine, 9_000), [8_100, 8_900]);
}

#[test]
fn every_flow_is_visited_once_a_second_however_the_calls_are_spaced() {
    for gap in [10 * US, 3_000 * US, SECOND / 3, SECOND] {
        let mut limiter = Calls::default();
        let mut engine = RpEngine::<Witness, 100, 256>::new(at(0), LINK, ());
        let handles: Vec<_> = (0..100).map(|_| engine.open(at(0), 0, &mut limiter).unwrap()).collect();
        let calls = (3 * SECOND / gap).clamp(4, 300_000);
        for call in 1..=calls {
            let now = call * gap;
            engine.pause(at(now), 0, Nanos::ZERO);
            engine.wake(at(now), &mut limiter);
            for &handle in &handles {
                let last = engine.state(handle).unwrap().at.nanos();
                assert!(now - last <= SECOND, "{gap}: {last} at {now}");
            }
        }
    }
}

/// After events every 10 us for a second, wakes come at `latest_wake` only: each flow is visited once a second, with one wake in
/// each second.
#[test]
fn a_caller_that_is_on_time_wakes_an_idle_engine_once_a_second() {
    let mut limiter = Calls::default();
    let mut engine = RpEngine::<Witness, 100, 256>::new(at(0), LINK, ());
    let handles: Vec<_> = (0..100).map(|_| engine.open(at(0), 0, &mut limiter).unwrap()).collect();
    let mut wake = |engine: &mut RpEngine<Witness, 100, 256>, now: u64| {
        while engine.latest_wake() == Nanos::ZERO || now > engine.last_call().nanos() {
            engine.wake(at(now), &mut limiter);
        }
        let visits = handles.iter().map(|&handle| engine.state(handle).unwrap().at.nanos());
        now - visits.min().unwrap()
    };
    for now in (0..SECOND).step_by(10_000) {
        assert!(engine.step(at(now), handles[0], &sent(1), &mut Calls::default()).is_none());
        if engine.latest_wake() == Nanos::ZERO {
            assert!(wake(&mut engine, now) <= SECOND, "{now}");
        }
    }
    let mut now = engine.last_call().nanos();
    let waits: Vec<u64> = (0..100)
        .map(|_| {
            let wait = u64::from(engine.latest_wake().get());
            for &handle in &handles {
                let unvisited = now + wait - engine.state(handle).unwrap().at.nanos();
                assert!(unvisited <= SECOND, "{unvisited} ns at {now}");
            }
            now += wait;
            assert_eq!(wake(&mut engine, now), 0, "all flows are visited at {now}");
            wait
        })
        .collect();
    assert!((SECOND / 2..SECOND).contains(&waits[0]), "{waits:?}");
    assert!(waits[1..].iter().all(|&wait| wait == SECOND), "{waits:?}");
    assert_eq!(engine.counters().rp_clock_jumps_forward, 0);
    engine.pause(at(now), 0, Nanos::new(1_000));
    assert_eq!(engine.latest_wake(), engine.next_wake(), "a priority is paused");
    assert!(engine.latest_wake() < Nanos::new(50_000_000));
}

#[test]
fn events_that_the_machine_does_not_take_do_not_delay_its_visits() {
    let mut limiter = Calls::default();
    let mut engine = RpEngine::<Witness, 4, 8>::new(at(0), LINK, ());
    let handle = engine.open(at(0), 0, &mut limiter).unwrap();
    for now in (0..3 * SECOND).step_by(1_000_000) {
        assert!(engine.step(at(now), handle, &sent(1), &mut limiter).is_none());
        if engine.next_wake() == Nanos::ZERO {
            engine.wake(at(now), &mut limiter);
        }
        assert!(now - engine.state(handle).unwrap().at.nanos() <= SECOND);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// One engine is also called at each `next_wake`, one at each `latest_wake`, and one only for the events of flows.
    #[test]
    fn engines_make_the_same_decisions_however_often_they_are_woken(seed in any::<u64>(), vendor in any::<bool>()) {
        let settings = if vendor { VENDOR } else { PAPER };
        let (mut prompt, mut last, mut late) = (engine(settings), engine(settings), engine(settings));
        let mut limiter = Calls::default();
        let handles: Vec<_> = (0..8).map(|nth| {
            let handle = prompt.open(at(0), 3, &mut limiter).unwrap();
            for engine in [&mut last, &mut late] {
                assert_eq!(engine.open(at(0), 3, &mut limiter), Some(handle));
            }
            for engine in [&mut prompt, &mut last, &mut late] {
                engine.bind(handle, Qpn::new(nth)).unwrap();
            }
            handle
        }).collect();
        let (mut now, mut random) = (0u64, seed | 1);
        let mut next = move |bits: u32| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random >> (64 - bits)
        };
        for _ in 0..4_000 {
            let event_at = now + match next(8) {
                0 => next(29),
                1..40 => next(17),
                _ => next(12),
            };
            loop {
                let woken = now + u64::from(prompt.next_wake().get());
                if woken > event_at {
                    break;
                }
                now = woken;
                prompt.wake(at(now), &mut limiter);
            }
            loop {
                let woken = last.last_call().after(last.latest_wake());
                if woken.nanos() > event_at {
                    break;
                }
                last.wake(woken, &mut limiter);
            }
            now = event_at;
            // The first flow is nearly idle.
            let index = if next(10) == 0 { 0 } else { 1 + next(8) as usize % 7 };
            let event = if next(2) == 0 { Event::Cnp { body_kind: CnpBodyKind::Standard } } else { sent(next(22) as u32) };
            let expected = prompt.step(at(now), handles[index], &event, &mut limiter).unwrap();
            for engine in [&mut last, &mut late] {
                let step = engine.step(at(now), handles[index], &event, &mut limiter).unwrap();
                prop_assert_eq!(step.decision, expected.decision);
                prop_assert_eq!(step.handle, expected.handle);
            }
        }
    }
}

#[test]
fn a_resume_ends_the_hold_of_a_flow_without_other_events() {
    let (mut engine, mut limiter) = (engine(PAPER), Calls::default());
    let handle = engine.open(at(0), 3, &mut limiter).unwrap();
    engine.pause(at(US), 3, Nanos::new(336_000));
    engine.sent(at(2 * US), handle, Psn::new(1), Bytes::new(1_000), &mut limiter);
    assert_eq!(limiter.0.last().unwrap().2, Nanos::new(335_000));
    engine.pause(at(3 * US), 3, Nanos::ZERO);
    assert_eq!(engine.next_wake(), Nanos::ZERO);
    while engine.next_wake() == Nanos::ZERO {
        engine.wake(at(3 * US), &mut limiter);
    }
    assert_eq!(limiter.0.last().unwrap().2, Nanos::ZERO);
}

/// A CNP of a switch for queue pair 17, with one telemetry record of `queue` bytes queued.
fn switch_int(names_remote_qpn: bool, queue: u32) -> Vec<u8> {
    let stack = IntStackBuilder::new(IntLayout::Wide, 0).with_room(1).with([Hop { queue, ..Hop::default() }]);
    let mut int = [0; IntShim::LONGEST];
    let int = IntShim::of(&stack).write(&mut int).unwrap();
    let cnp = CnpBodyKind::Extended(CnpBody { kind: CnpKind::SwitchInt, names_remote_qpn, ..CnpBody::default() });
    let bth = Bth { opcode: opcode::CNP, becn: true, dest_qp: Qpn::new(17), ..Bth::default() };
    framed(Shims::NONE, bth, Extensions { cnp, ..Extensions::default() }, int)
}

#[test]
fn telemetry_that_a_switch_sends_reaches_the_machines_that_use_it_and_no_others() {
    let mut limiter = Calls::default();
    let mut witness = RpEngine::<Witness, 8, 16>::new(at(0), LINK, ());
    let handle = witness.open(at(0), 3, &mut limiter).unwrap();
    witness.bind(handle, Qpn::new(17)).unwrap();
    let (mut dcqcn, other, _) = with_flow(PAPER);
    let frames = [switch_int(false, 5), switch_int(true, 6)];
    for (time, frame) in [US, 2 * US].into_iter().zip(&frames) {
        deliver(&mut witness, time, frame, &mut limiter);
        assert!(deliver(&mut dcqcn, time, frame, &mut limiter).is_none());
    }
    let seen = witness.state(handle).unwrap();
    assert_eq!(
        (seen.last, seen.hop.map(|hop| hop.queue)),
        (Seen::SwitchInt, Some(5)),
        "named by the remote queue pair, which the caller does not know"
    );
    let int = IntStackBuilder::new(IntLayout::Wide, 0).with([Hop { queue: 7, ..Hop::default() }]);
    let event = Event::SwitchInt { int: int.stack() };
    assert!(witness.step(at(3 * US), handle, &event, &mut limiter).is_some());
    assert_eq!(witness.state(handle).unwrap().hop.map(|hop| hop.queue), Some(7));
    let before = *dcqcn.state(other).unwrap();
    assert!(dcqcn.step(at(3 * US), other, &event, &mut limiter).is_none());
    assert_eq!(dcqcn.state(other), Some(&before));
    let counted = |counters: RpCounters| {
        (counters.rp_cnp_handled, counters.rp_cnp_ignored, counters.rp_cnp_by_remote_qp, counters.rp_cnp_unsupported)
    };
    assert_eq!(counted(witness.counters()), (2, 1, 1, 0));
    assert_eq!(counted(dcqcn.counters()), (0, 3, 1, 2));
}
