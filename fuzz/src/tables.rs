//! The target of the bounded tables, the timer wheel and the local clock, which are compared with simple models.

use crate::operations;
use arbitrary::{Arbitrary, Unstructured};
use cc_core::clock::LocalClock;
use cc_core::table::{BindError, Handle, Lookup, SetAssocTable, SlotTable};
use cc_core::timer_wheel::TimerWheel;
use cc_core::{Instant, Nanos, Qpn, Stamp};
use std::collections::BTreeMap;

/// Performs operations on one of the tables, which the first byte chooses.
///
/// # Panics
/// The table differs from its model.
pub fn tables(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let mut source = Unstructured::new(rest);
    match choice % 4 {
        0 => slots(&mut source),
        1 => peers::<1>(&mut source),
        2 => peers::<4>(&mut source),
        _ => wheel(&mut source),
    }
}

const SECOND: u64 = 1_000_000_000;

/// A queue pair number: one of few, so that operations often use the same, including both ends of the range.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Number(u8);

impl Number {
    fn qpn(self) -> Qpn {
        match self.0 % 24 {
            23 => Qpn::new(0xff_ffff),
            22 => Qpn::new(0xff_fffe),
            low => Qpn::new(u32::from(low) * 0x1_0003),
        }
    }
}

#[derive(Arbitrary, Debug)]
enum SlotOperation {
    Open(u32),
    Close(u8),
    Bind(u8, Number),
    Write(u8, u32),
    Forge(u32),
}

const SLOTS: usize = 8;

/// The model of an open flow: its value, and its queue pair number once bound.
type Flow = (u32, Option<Qpn>);

fn slots(source: &mut Unstructured<'_>) {
    let mut table = SlotTable::<u32, SLOTS, { 2 * SLOTS }>::new();
    let mut model: BTreeMap<u32, Flow> = BTreeMap::new();
    // Every handle that was returned, including stale ones.
    let mut handles = vec![Handle::from_bits(0)];
    for operation in operations(source) {
        let pick = |which: u8| handles[usize::from(which) % handles.len()];
        match operation {
            SlotOperation::Open(value) => match table.open(value) {
                Ok(handle) => {
                    assert!(usize::from(handle.index()) < SLOTS);
                    assert_eq!(model.insert(handle.to_bits(), (value, None)), None, "a handle of another open flow");
                    handles.push(handle);
                }
                Err(refused) => assert_eq!((refused, model.len()), (value, SLOTS)),
            },
            SlotOperation::Close(which) => {
                let handle = pick(which);
                assert_eq!(table.close(handle), model.remove(&handle.to_bits()).map(|(value, _)| value));
            }
            SlotOperation::Bind(which, number) => {
                let (handle, qpn) = (pick(which), number.qpn());
                let taken = model.values().any(|&(_, bound)| bound == Some(qpn));
                let expected = match model.get_mut(&handle.to_bits()) {
                    _ if qpn == Qpn::new(0xff_ffff) => Err(BindError::Multicast),
                    None => Err(BindError::Stale),
                    Some((_, Some(bound))) if *bound == qpn => Ok(()),
                    Some((_, Some(_))) => Err(BindError::AlreadyBound),
                    Some((_, None)) if taken => Err(BindError::QpnInUse),
                    Some((_, bound)) => {
                        *bound = Some(qpn);
                        Ok(())
                    }
                };
                assert_eq!(table.bind(handle, qpn), expected);
            }
            SlotOperation::Write(which, value) => {
                let handle = pick(which);
                let (slot, flow) = (table.get_mut(handle), model.get_mut(&handle.to_bits()));
                assert_eq!(slot.is_some(), flow.is_some());
                if let (Some(slot), Some(flow)) = (slot, flow) {
                    *slot = value;
                    flow.0 = value;
                }
            }
            SlotOperation::Forge(bits) => {
                let handle = Handle::from_bits(bits);
                assert_eq!(table.get(handle).is_some(), model.contains_key(&handle.to_bits()));
            }
        }
        assert_same_flows(&mut table, &model);
    }
}

/// Checks that the table has the model's flows, and no other.
fn assert_same_flows(table: &mut SlotTable<u32, SLOTS, { 2 * SLOTS }>, model: &BTreeMap<u32, Flow>) {
    assert_eq!((table.len(), table.is_empty()), (model.len(), model.is_empty()));
    for (&bits, &(mut value, qpn)) in model {
        let handle = Handle::from_bits(bits);
        assert_eq!(table.get(handle), Some(&value));
        assert_eq!(table.at(handle.index()), Some(handle));
        assert_eq!(table.qpn(handle), qpn);
        if let Some(qpn) = qpn {
            assert_eq!(table.find_mut(qpn), Some((handle, &mut value)));
        }
    }
    for number in 0..24 {
        let qpn = Number(number).qpn();
        let bound = model.iter().find(|&(_, &(_, bound))| bound == Some(qpn));
        assert_eq!(table.find(qpn), bound.map(|(&bits, _)| Handle::from_bits(bits)));
    }
    let open = (0..=u16::MAX).take(2 * SLOTS).filter(|&index| table.at(index).is_some()).count();
    assert_eq!(open, model.len());
}

#[derive(Arbitrary, Debug)]
enum PeerOperation {
    Touch(Number, u32),
    Forget(Number),
    Sweep(u8),
    Wait(Wait),
}

/// A time from 0 to a quarter of a second. Short times are as frequent as long ones.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Wait {
    magnitude: u8,
    nanos: u32,
}

impl Wait {
    fn get(self) -> u64 {
        u64::from(self.nanos >> (4 + self.magnitude % 28))
    }
}

/// A table of one set is an exact LRU cache, of which the model predicts every result. With more sets the model does not know
/// which flows share a set, and checks only what holds for any distribution of the flows.
fn peers<const SETS: usize>(source: &mut Unstructured<'_>) {
    const WAYS: usize = 4;
    let Ok((start, horizon)) = source.arbitrary::<(u64, u32)>() else { return };
    // At most 2^31 ns, half the range of a stamp.
    let (mut now, horizon) = (start >> 1, Nanos::new(horizon >> 1));
    let mut table = SetAssocTable::<u32, SETS, WAYS>::new();
    // The time of each flow's last look-up, and its record.
    let mut model: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    let (mut evicted, mut unswept) = (0, 0);
    for operation in operations(source) {
        match operation {
            PeerOperation::Touch(number, value) => {
                let qpn = number.qpn();
                let live = table.occupied();
                let stamp = Instant::from_nanos(now).stamp();
                let (record, seen) =
                    table.lookup_or_insert(qpn, stamp, horizon, |_| value).expect("every number has a set");
                // A flow that was not looked up within the horizon must not be found, whether or not a sweep has removed it.
                if model.get(&qpn.get()).is_some_and(|(last, _)| now - last > u64::from(horizon.get())) {
                    assert_ne!(seen, Lookup::Hit);
                    model.remove(&qpn.get());
                }
                match seen {
                    Lookup::Hit => assert_eq!(Some(*record), model.get(&qpn.get()).map(|&(_, record)| record)),
                    Lookup::Inserted | Lookup::Evicted => assert_eq!(*record, value),
                }
                if SETS == 1 {
                    let oldest = model.iter().min_by_key(|(_, (last, _))| *last).map(|(&qpn, &(last, _))| (qpn, last));
                    let expected = match oldest {
                        _ if model.contains_key(&qpn.get()) => Lookup::Hit,
                        Some((victim, last)) if model.len() == WAYS => {
                            // Of flows that were last looked up in the same nanosecond, the table may evict any.
                            if model.values().filter(|(seen, _)| *seen == last).count() > 1 {
                                return;
                            }
                            model.remove(&victim);
                            if now - last > u64::from(horizon.get()) { Lookup::Inserted } else { Lookup::Evicted }
                        }
                        _ => Lookup::Inserted,
                    };
                    assert_eq!(seen, expected);
                }
                evicted += u32::from(seen == Lookup::Evicted);
                *record = record.rotate_left(1);
                model.insert(qpn.get(), (now, *record));
                assert!(
                    table.occupied() == live + 1 || table.occupied() == live && (seen != Lookup::Inserted || live > 0)
                );
            }
            PeerOperation::Forget(number) => {
                table.remove(number.qpn(), drop);
                model.remove(&number.qpn().get());
            }
            PeerOperation::Sweep(sets) => {
                table.sweep(Instant::from_nanos(now).stamp(), horizon, usize::from(sets) % 3, drop)
            }
            PeerOperation::Wait(wait) => {
                now = now.saturating_add(wait.get());
                unswept += wait.get();
                if unswept > SECOND / 2 || SETS == 1 {
                    unswept = 0;
                    table.sweep(Instant::from_nanos(now).stamp(), horizon, SETS, drop);
                    model.retain(|_, (last, _)| now - *last <= u64::from(horizon.get()));
                }
            }
        }
        assert_eq!(table.evicted(), evicted);
        assert!(table.occupied() as usize <= SETS * WAYS);
        assert!(SETS > 1 || table.occupied() as usize == model.len());
    }
}

#[derive(Arbitrary, Debug)]
enum WheelOperation {
    Arm(u8, Wait),
    ArmPast(u8, Wait),
    ArmAnywhere(u8, u32),
    ArmNonexistent(u16),
    Disarm(u8),
    Wait(Wait),
    Pop,
    Jump(u32),
}

/// Deadlines are rounded up to ticks of this many nanoseconds.
const TICK: u64 = 1_024;

/// The state of a flow's timer.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Waiting {
    /// It is not armed.
    Idle,
    /// It is due at this tick, in nanoseconds.
    Until(u64),
    /// Its deadline may be further ahead than the wheel's contract permits: the flow may be woken at any time.
    Anytime,
}

fn wheel(source: &mut Unstructured<'_>) {
    const FLOWS: usize = 6;
    let Ok(start) = source.arbitrary::<u64>() else { return };
    // Far from both ends of the range of time, and on a tick, so that the model rounds as stamps do.
    let start = (start >> 2) + (1 << 40);
    let mut clock = LocalClock::new(Instant::from_nanos(start));
    let mut wheel = TimerWheel::<FLOWS>::new(clock.now().stamp());
    let mut waiting = [Waiting::Idle; FLOWS];
    let (mut outside, mut popped) = (start, clock.now().nanos());
    let (mut leaps, mut reversals) = (0, 0);
    for operation in operations(source) {
        let now = clock.now().nanos();
        let slot_of = |flow: u8| usize::from(flow) % FLOWS;
        match operation {
            WheelOperation::Arm(flow, wait) => arm(&mut wheel, &mut waiting, slot_of(flow), now + wait.get()),
            WheelOperation::ArmPast(flow, wait) => {
                arm(&mut wheel, &mut waiting, slot_of(flow), now - wait.get());
            }
            WheelOperation::ArmAnywhere(flow, stamp) => {
                wheel.arm(slot_of(flow) as u16, Stamp::from_bits(stamp));
                waiting[slot_of(flow)] = Waiting::Anytime;
            }
            WheelOperation::ArmNonexistent(flow) => {
                let slot = (FLOWS as u16).saturating_add(flow);
                wheel.arm(slot, clock.now().stamp());
                wheel.disarm(slot);
            }
            WheelOperation::Disarm(flow) => {
                wheel.disarm(slot_of(flow) as u16);
                waiting[slot_of(flow)] = Waiting::Idle;
            }
            WheelOperation::Wait(wait) => outside = outside.saturating_add(wait.get()),
            WheelOperation::Pop => {}
            WheelOperation::Jump(by) => {
                let to = if by & 1 == 0 { outside + SECOND + 1 + u64::from(by) } else { outside - u64::from(by) };
                leaps += u32::from(to > outside);
                reversals += u32::from(to < outside);
                outside = to;
                assert_eq!(
                    clock.advance(Instant::from_nanos(outside)).nanos(),
                    now,
                    "local time does not pass in a jump"
                );
            }
        }
        let now = clock.advance(Instant::from_nanos(outside)).nanos();
        assert_eq!((clock.forward_jumps(), clock.backward_jumps()), (leaps, reversals));
        if matches!(operation, WheelOperation::Pop) || now - popped > SECOND / 4 {
            pop(&mut wheel, &mut waiting, now);
            popped = now;
        }
        assert_next_deadline(&wheel, &waiting, now);
    }
}

fn arm<const FLOWS: usize>(wheel: &mut TimerWheel<FLOWS>, waiting: &mut [Waiting; FLOWS], flow: usize, deadline: u64) {
    wheel.arm(flow as u16, Instant::from_nanos(deadline).stamp());
    let tick = deadline.next_multiple_of(TICK);
    waiting[flow] = match waiting[flow] {
        Waiting::Idle => Waiting::Until(tick),
        Waiting::Until(pending) => Waiting::Until(pending.min(tick)),
        Waiting::Anytime => Waiting::Anytime,
    };
}

/// Pops the flows that are due, and checks that these are all flows whose tick has passed, and no other.
fn pop<const FLOWS: usize>(wheel: &mut TimerWheel<FLOWS>, waiting: &mut [Waiting; FLOWS], now: u64) {
    let stamp = Instant::from_nanos(now).stamp();
    // A call moves up to eight flows to finer rings, and a flow moves at most three times.
    for _ in 0..4 * FLOWS {
        match wheel.pop_due(stamp) {
            Some(slot) => {
                let was = std::mem::replace(&mut waiting[usize::from(slot)], Waiting::Idle);
                assert_ne!(was, Waiting::Idle, "flow {slot} was not armed");
                assert!(!matches!(was, Waiting::Until(tick) if tick > now), "{slot} is woken at {now}: {was:?}");
            }
            None if wheel.next_deadline().is_none_or(|next| !next.is_due(stamp)) => break,
            None => {}
        }
    }
    assert!(wheel.next_deadline().is_none_or(|next| !next.is_due(stamp)), "a deadline is still due");
    for (flow, waiting) in waiting.iter().enumerate() {
        assert!(!matches!(waiting, Waiting::Until(tick) if *tick <= now), "{flow} is not woken at {now}: {waiting:?}");
    }
}

/// Checks that the wheel's next deadline is not after the first deadline of a flow.
fn assert_next_deadline<const FLOWS: usize>(wheel: &TimerWheel<FLOWS>, waiting: &[Waiting; FLOWS], now: u64) {
    let first = waiting.iter().filter_map(|waiting| match waiting {
        Waiting::Until(tick) => Some((*tick).max(now.next_multiple_of(TICK))),
        Waiting::Idle | Waiting::Anytime => None,
    });
    if let Some(first) = first.min() {
        let next = wheel.next_deadline().expect("a flow is armed");
        assert!(next.is_due(Instant::from_nanos(first).stamp()), "next {next:?}, first {first}");
    }
    if waiting.iter().all(|&waiting| waiting == Waiting::Idle) {
        assert_eq!(wheel.next_deadline(), None);
    }
}
