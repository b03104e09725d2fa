//! Compares engines with tables on the heap and with tables of fixed size: they make the same decisions.

use cc_core::table::Heap;
use cc_core::{Bytes, CnpBody, CnpBodyKind, Instant, Link, Nanos, Psn, Qpn, Rate, Zeroed};
use cc_rp::dcqcn::Dcqcn;
use cc_rp::hpcc::Hpcc5;
use cc_rp::{Ack, Event, RateLimiter, ReactionPoint, RpEngine, RpEngineIn};
use proptest::prelude::*;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_024), base_rtt: Nanos::new(8_000) };
const FLOWS: usize = 16;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Open(u8),
    Bind(u8, u8),
    Close(u8),
    Sent(u8, u16),
    Ack(u8, u32),
    Cnp(u8, Option<u16>),
    Pause(u8, u16),
    Wake,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => (0..8_u8).prop_map(Operation::Open),
        2 => any::<(u8, u8)>().prop_map(|(flow, qpn)| Operation::Bind(flow, qpn)),
        1 => any::<u8>().prop_map(Operation::Close),
        6 => any::<(u8, u16)>().prop_map(|(flow, bytes)| Operation::Sent(flow, bytes)),
        3 => any::<(u8, u32)>().prop_map(|(flow, psn)| Operation::Ack(flow, psn)),
        4 => any::<(u8, Option<u16>)>().prop_map(|(qpn, seq)| Operation::Cnp(qpn, seq)),
        1 => (0..8_u8, any::<u16>()).prop_map(|(priority, time)| Operation::Pause(priority, time)),
        6 => Just(Operation::Wake),
    ]
}

/// The decisions that the rate limiter received.
#[derive(Default, PartialEq, Debug)]
struct Pacer(Vec<(u16, Rate, Bytes, Nanos)>);

impl RateLimiter for Pacer {
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos) {
        self.0.push((index, rate, window, hold));
    }
}

/// Runs the operations on both engines, each at its time, and compares their results, decisions and counters.
fn make_the_same_decisions<A: ReactionPoint>(operations: &[(u32, Operation)]) -> Result<(), TestCaseError> {
    let settings = A::PRESETS[0].values;
    let start = Instant::from_nanos(0);
    let mut fixed =
        Box::new(RpEngine::<A, FLOWS, { 2 * FLOWS }>::new(start, LINK, A::check(&settings, &LINK).unwrap()));
    let mut heap = RpEngineIn::<A, Heap, Heap>::ZEROED;
    heap.begin(start, LINK, &settings).unwrap();
    let (mut pacers, mut handles, mut now) = ([Pacer::default(), Pacer::default()], Vec::new(), 0_u64);
    prop_assert_eq!(heap.open(start, 0, &mut pacers[1]), None, "no room before it grows");
    heap.grow(FLOWS);
    for &(after, operation) in operations {
        now += u64::from(after);
        let at = Instant::from_nanos(now);
        let flow = |which: u8| handles.get(usize::from(which) % handles.len().max(1)).copied();
        let [limiter, other] = &mut pacers;
        match operation {
            Operation::Open(priority) => {
                let opened = fixed.open(at, priority, limiter);
                prop_assert_eq!(opened, heap.open(at, priority, other));
                handles.extend(opened);
            }
            Operation::Bind(which, qpn) => {
                let Some(handle) = flow(which) else { continue };
                let qpn = Qpn::new(u32::from(qpn));
                prop_assert_eq!(fixed.bind(handle, qpn), heap.bind(handle, qpn));
            }
            Operation::Close(which) => {
                let Some(handle) = flow(which) else { continue };
                prop_assert_eq!(fixed.close(handle), heap.close(handle));
            }
            Operation::Sent(which, bytes) => {
                let Some(handle) = flow(which) else { continue };
                let (psn, bytes) = (Psn::new(u32::from(bytes)), Bytes::new(u32::from(bytes)));
                prop_assert_eq!(fixed.sent(at, handle, psn, bytes, limiter), heap.sent(at, handle, psn, bytes, other));
            }
            Operation::Ack(which, psn) => {
                let Some(handle) = flow(which) else { continue };
                let event = Event::Ack(Ack { psn: Psn::new(psn), acked: Bytes::new(psn & 0xffff), ..Ack::default() });
                prop_assert_eq!(fixed.step(at, handle, &event, limiter), heap.step(at, handle, &event, other));
            }
            Operation::Cnp(qpn, seq) => {
                let body_kind = seq
                    .map_or(CnpBodyKind::Standard, |seq| CnpBodyKind::Extended(CnpBody { seq, ..CnpBody::default() }));
                let flow = fixed.find(Qpn::new(u32::from(qpn)));
                prop_assert_eq!(flow, heap.find(Qpn::new(u32::from(qpn))));
                let (Some(flow), event) = (flow, Event::Cnp { body_kind }) else { continue };
                prop_assert_eq!(fixed.step(at, flow, &event, limiter), heap.step(at, flow, &event, other));
            }
            Operation::Pause(priority, time) => {
                let time = Nanos::new(u32::from(time) << 8);
                fixed.pause(at, priority, time);
                heap.pause(at, priority, time);
            }
            Operation::Wake => prop_assert_eq!(fixed.wake(at, limiter), heap.wake(at, other)),
        }
        prop_assert_eq!(fixed.next_wake(), heap.next_wake());
        let [one, two] = &pacers;
        prop_assert_eq!(one, two);
    }
    // One flow was refused before the tables had grown.
    let refused = heap.counters().rp_flows_refused - 1;
    prop_assert_eq!(fixed.counters(), cc_rp::RpCounters { rp_flows_refused: refused, ..heap.counters() });
    Ok(())
}

proptest! {
    #[test]
    fn engines_on_the_heap_and_of_fixed_size_make_the_same_decisions(
        operations in prop::collection::vec((0..2_000_000_u32, operation()), 1..400),
    ) {
        make_the_same_decisions::<Dcqcn>(&operations)?;
        make_the_same_decisions::<Hpcc5>(&operations)?;
    }
}
