//! The notification point of one port: records of received flows, the bound on CNPs, and the machine that decides about them.
//! It reads the headers of received packets. It builds no frames: it passes the values of the fields to [`Transmit`], which
//! builds and sends them.

use crate::cnp_policy::TokenBucket;
use crate::{Arrival, CnpPolicy, Cx, Event, Flows, NotSent, NotificationPoint, Reply, RxMeta, Slot, Transmit};
use cc_core::clock::LocalClock;
use cc_core::table::{Fixed, SetAssocTable, Storage};
use cc_core::wire::opcode::{Class, Transport};
use cc_core::wire::{AckFields, Roce, Version};
use cc_core::{Bytes, Ecn, Instant, IntStack, Link, Mark, Nanos, Qpn, Stamp, State, Zeroed};

/// The key of the shared record: that of datagrams, and of flows that the table has no room for.
const SHARED_KEY: Qpn = Qpn::new(0);

/// Outcome of the CNP of one received frame, or of one slot.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum CnpOutcome {
    /// Not due.
    #[default]
    None,
    /// It is in the transmit ring.
    Sent,
    /// Not sent: the sender's queue pair number, or the headers of frames to it, are not known. It is due again at the flow's
    /// next marked packet.
    Unaddressed,
    /// Not sent: the port's token bucket is empty. It stays due.
    RateLimited,
    /// Not sent: the transmit ring is full. It stays due.
    RingFull,
}

impl CnpOutcome {
    /// The counter of this outcome; none where no CNP was due.
    #[inline]
    const fn counted(self) -> Option<Count> {
        match self {
            Self::None => None,
            Self::Sent => Some(Count::Sent),
            Self::Unaddressed => Some(Count::Unaddressed),
            Self::RateLimited => Some(Count::RateLimited),
            Self::RingFull => Some(Count::RingFull),
        }
    }
}

/// Outcome of the acknowledgement of one received frame.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum AckOutcome {
    /// The engine sends none: the packet requests none, the transport sends it ([`RxMeta::msn`] is `None`), or the machine does
    /// not [reply](NotificationPoint::REPLIES).
    #[default]
    None,
    /// It is in the transmit ring.
    Sent,
    /// Not sent: the sender's queue pair number is not known.
    Unaddressed,
    /// Not sent: the transmit ring did not take it. The transport sends it again; the machine's fields are in the next one.
    Dropped,
}

/// What [`NpEngineIn::arrival`] did for one frame.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ArrivalOutcome {
    /// What the machine returned; the default for a frame that is not passed to it.
    pub reply: Reply,
    /// Outcome of the CNP.
    pub cnp: CnpOutcome,
    /// Outcome of the acknowledgement.
    pub ack: AckOutcome,
}

/// Counters of a port's notification point.
///
/// Every marked packet is counted in exactly one of six counters:
/// `np_ecn_marked_roce_packets = np_cnp_sent + np_cnp_not_due + np_cnp_unaddressed + np_cnp_rate_limited +
/// np_cnp_ring_full + np_ce_ignored`, for machines that notify on marked packets only. In machines with slots, a packet that
/// only puts its flow on the list is counted in `np_cnp_not_due`, and the outcomes of slots are added to the same counters.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NpCounters {
    /// RoCEv2 packets of any opcode received with CE, or with TCD's UE where the machine is
    /// [ternary](NotificationPoint::is_ternary).
    pub np_ecn_marked_roce_packets: u64,
    /// CNPs put into the transmit ring.
    pub np_cnp_sent: u64,
    /// Marked data packets for which the machine requested no CNP: the interval since the last CNP has not passed, or the
    /// machine notifies the sender in a later slot or by acknowledgements.
    pub np_cnp_not_due: u64,
    /// CNPs not sent, for a marked data packet or in a slot, because the sender's queue pair number or headers are not known.
    pub np_cnp_unaddressed: u64,
    /// CNPs not sent because the port's token bucket was empty.
    pub np_cnp_rate_limited: u64,
    /// CNPs not sent because the transmit ring was full.
    pub np_cnp_ring_full: u64,
    /// Marked packets that need no notification: not data (acknowledgements, CNPs, requests), a transport without congestion
    /// control, or a port whose notification point is disabled.
    pub np_ce_ignored: u64,
    /// Acknowledgements put into the transmit ring.
    pub np_acks_sent: u64,
    /// Acknowledgements not sent because the sender's queue pair number is not known.
    pub np_acks_unaddressed: u64,
    /// Acknowledgements that the transmit ring did not take.
    pub np_acks_dropped: u64,
    /// Packets of flows that the table had no room for.
    pub np_flows_untracked: u64,
    /// Records evicted for another flow's before their idle timeout.
    pub np_flows_evicted: u64,
    /// Jumps of the caller's clock forward by more than 1 s.
    pub np_clock_jumps_forward: u64,
    /// Jumps of the caller's clock back.
    pub np_clock_reversals: u64,
}

impl NpCounters {
    /// The counters with their names.
    pub const fn named(&self) -> [(&'static str, u64); 14] {
        [
            ("np_ecn_marked_roce_packets", self.np_ecn_marked_roce_packets),
            ("np_cnp_sent", self.np_cnp_sent),
            ("np_cnp_not_due", self.np_cnp_not_due),
            ("np_cnp_unaddressed", self.np_cnp_unaddressed),
            ("np_cnp_rate_limited", self.np_cnp_rate_limited),
            ("np_cnp_ring_full", self.np_cnp_ring_full),
            ("np_ce_ignored", self.np_ce_ignored),
            ("np_acks_sent", self.np_acks_sent),
            ("np_acks_unaddressed", self.np_acks_unaddressed),
            ("np_acks_dropped", self.np_acks_dropped),
            ("np_flows_untracked", self.np_flows_untracked),
            ("np_flows_evicted", self.np_flows_evicted),
            ("np_clock_jumps_forward", self.np_clock_jumps_forward),
            ("np_clock_reversals", self.np_clock_reversals),
        ]
    }
}

/// What an engine counts: each is the index of a counter.
#[derive(Clone, Copy)]
enum Count {
    // Outcomes of a marked packet. Marked packets have no counter of their own: their number is the sum of these six, minus
    // `Unmarked`.
    Sent,
    NotDue,
    Unaddressed,
    RateLimited,
    RingFull,
    Ignored,
    /// Outcomes counted above that belong to no marked packet: the CNP of a slot, or of an unmarked packet.
    Unmarked,
    AcksSent,
    AcksUnaddressed,
    AcksDropped,
    Untracked,
}

/// The counters, one for each [`Count`].
struct Counts([u64; Count::Untracked as usize + 1]);

impl Counts {
    const NONE: Self = Self([0; _]);

    #[inline]
    fn add(&mut self, count: Count) {
        if let Some(counter) = self.0.get_mut(count as usize) {
            *counter = counter.wrapping_add(1);
        }
    }
}

/// An [`NpEngineIn`] with `SETS` sets of records, all inside it.
pub type NpEngine<A, const SETS: usize, const WAYS: usize> = NpEngineIn<A, Fixed<SETS>, WAYS>;

/// The notification point of one port, with records of at most `SETS * WAYS` flows.
///
/// The key of a flow of a connected service (RC, UC, XRC) is the local queue pair number in its packets, which is unique in a
/// NIC. All datagrams (UD) of a port share one record, so that CNPs for them are limited as for one flow; each CNP goes to
/// the source queue pair in the DETH of the packet that caused it. Flows that the table has no room for share that record
/// too.
///
/// The engine must be called at least once a second, by [`NpEngineIn::arrival`] or [`NpEngineIn::wake`]: it keeps times as
/// 32-bit stamps in nanoseconds, which wrap after 4.3 s, and sweeps every set of records at least once a second.
// The small fields come first, at offsets that fit into load and store instructions.
#[repr(C)]
pub struct NpEngineIn<A: NotificationPoint, SETS: Storage, const WAYS: usize> {
    common: Common<A>,
    /// When the next set of the table is to be swept.
    next_sweep: Stamp,
    /// When the next slot is due.
    next_slot: Stamp,
    /// The record of datagrams and of flows without a record of their own, with the machine's idle timeout.
    shared_record: SetAssocTable<A, 1, 1>,
    flows: A::Flows<SETS, WAYS>,
}

impl<A: NotificationPoint, SETS: Storage, const WAYS: usize> Zeroed for NpEngineIn<A, SETS, WAYS> {
    const ZEROED: Self = Self {
        common: Common {
            link: Link::ZEROED,
            params: A::Params::ZEROED,
            shared: A::SHARED,
            enabled: false,
            clock: LocalClock::new(Instant::ZEROED),
            bucket: TokenBucket::full(Stamp::ZEROED),
            counts: Counts::NONE,
        },
        next_sweep: Stamp::ZEROED,
        next_slot: Stamp::ZEROED,
        shared_record: SetAssocTable::new(),
        flows: Zeroed::ZEROED,
    };
}

/// All fields but the tables. A struct of its own, so that it can be borrowed mutably together with a record of a table.
struct Common<A: NotificationPoint> {
    link: Link,
    params: A::Params,
    shared: A::Shared,
    enabled: bool,
    clock: LocalClock,
    bucket: TokenBucket,
    counts: Counts,
}

impl<A: NotificationPoint, SETS: Storage, const WAYS: usize> NpEngineIn<A, SETS, WAYS> {
    /// The time in which all sets of the table are swept once: 250 ms if the engine is called often enough, at most 1 s if not.
    const SWEEP_PERIOD: Nanos = Nanos::new(250_000_000);

    /// The longest time from a call to the next wake, where no slot is due earlier: 400 ms.
    const LONGEST_WAIT: Nanos = Nanos::new(400_000_000);

    /// The longest time between two calls, 1 s: [`LocalClock`] takes a longer one for a jump.
    const LONGEST_GAP: Nanos = Nanos::new(1_000_000_000);

    /// The notification point of a port with this link: enabled, without a record. `params` come from
    /// [`NotificationPoint::check`] for the same link.
    pub fn new(start: Instant, link: Link, params: A::Params) -> Self {
        let mut engine = Self::ZEROED;
        engine.begin(start, link, params);
        engine
    }

    /// Initializes a [zeroed](Zeroed) engine in place. The result is that of [`NpEngineIn::new`].
    #[inline(always)]
    pub fn begin(&mut self, start: Instant, link: Link, params: A::Params) {
        let stamp = start.stamp();
        (self.next_sweep, self.next_slot) = (stamp, stamp);
        let common = &mut self.common;
        (common.link, common.params, common.enabled) = (link, params, true);
        common.clock.start(start);
        common.bucket = TokenBucket::full(stamp);
    }

    /// Replaces the parameters. Records and counters stay, and the port's token bucket is refilled. Records whose idle timeout
    /// had passed at the last call, by the old parameters, are removed first: they count as removed, and by a longer timeout
    /// those that no sweep has reached yet would count again.
    pub fn set_params(&mut self, params: A::Params) {
        let Common { link, params: old, shared, clock, .. } = &mut self.common;
        let cx = Cx { now: clock.now(), link, params: old };
        Flows::sweep(&mut self.shared_record, &cx, shared);
        for _ in 0..self.flows.sets() {
            self.flows.sweep(&cx, shared);
        }
        self.common.params = params;
        self.common.bucket = TokenBucket::full(self.common.clock.now().stamp());
    }

    /// Enables or disables the notification point of the whole port; there is no switch per priority. While disabled it sends
    /// neither CNPs nor acknowledgements.
    pub const fn set_enabled(&mut self, enabled: bool) {
        self.common.enabled = enabled;
    }

    /// Whether the notification point is enabled.
    pub const fn is_enabled(&self) -> bool {
        self.common.enabled
    }

    /// The state that all flows of the port share.
    pub const fn shared(&self) -> &A::Shared {
        &self.common.shared
    }

    /// Processes a received packet, whose ICRC has been checked, and sends what is due for it: a CNP, and an acknowledgement
    /// where the machine [replies](NotificationPoint::REPLIES) and the packet requests one or ends a message.
    ///
    /// `rx.remote` is the sender's queue pair number, from the connection's context: only datagrams carry it, in their DETH.
    ///
    /// A CNP that could not be sent stays due, so that the next marked packet of the flow causes it. A packet whose sender's
    /// queue pair number is not known opens no record, so that it cannot evict that of another flow.
    #[inline]
    pub fn arrival(&mut self, now: Instant, roce: &Roce<'_>, rx: RxMeta, tx: &mut impl Transmit) -> ArrivalOutcome {
        let receiver_hold = if rx.arrived.is_due(now.stamp()) { now.stamp().since(rx.arrived) } else { Nanos::ZERO };
        let now = self.common.clock.advance_outlined(now);
        let (outcome, counted) = self.process(now, roce, rx, receiver_hold, tx);
        self.sweep(now);
        // Last, in one place for all outcomes of the packet.
        if let Some(count) = counted {
            self.common.counts.add(count);
        }
        outcome
    }

    /// Processes a frame. Returns the outcome, and the counter to increment for its mark or CNP.
    #[inline]
    fn process(
        &mut self,
        now: Instant,
        roce: &Roce<'_>,
        rx: RxMeta,
        receiver_hold: Nanos,
        tx: &mut impl Transmit,
    ) -> (ArrivalOutcome, Option<Count>) {
        let Common { link, params, shared, enabled, bucket, counts, .. } = &mut self.common;
        let mark = mark_of(roce.ecn, A::is_ternary(params));
        if roce.version() != Version::V2 {
            return (ArrivalOutcome::default(), None);
        }
        let marked = mark != Mark::None;
        let of_marked = |count| marked.then_some(count);
        let transport = Transport::of(roce.bth.opcode);
        let tracked = matches!(transport, Transport::Rc | Transport::Uc | Transport::Xrc | Transport::Ud);
        if !(*enabled & tracked & roce.info.class().carries_data()) {
            return (ArrivalOutcome::default(), of_marked(Count::Ignored));
        }
        let acknowledged = if A::REPLIES { rx.msn.filter(|_| asks_for_acknowledgement(roce)) } else { None };
        if !A::reacts_to(mark) && acknowledged.is_none() {
            return (ArrivalOutcome::default(), of_marked(Count::NotDue));
        }
        let source = roce.deth().map(|deth| deth.source_qp);
        let Some(to) = source.or(rx.remote) else {
            let mut outcome = ArrivalOutcome::default();
            if marked {
                outcome.cnp = CnpOutcome::Unaddressed;
            }
            if acknowledged.is_some() {
                counts.add(Count::AcksUnaddressed);
                outcome.ack = AckOutcome::Unaddressed;
            }
            return (outcome, of_marked(Count::Unaddressed));
        };

        let cx = Cx { now, link, params };
        let local = roce.bth.dest_qp;
        let record = if source.is_some() { None } else { self.flows.lookup_or_insert(&cx, shared, local) };
        let record = match record {
            Some(record) => record,
            None => {
                if source.is_none() {
                    counts.add(Count::Untracked);
                }
                let open = |gone: Option<A>| {
                    if let Some(gone) = gone {
                        gone.on_evicted(&cx, shared);
                    }
                    A::open(&cx, shared, None)
                };
                let touched =
                    self.shared_record.lookup_or_insert(SHARED_KEY, now.stamp(), A::idle_timeout(cx.params), open);
                // Never `None`: the table has a single set, which accepts every key.
                let Some((record, _)) = touched else { return (ArrivalOutcome::default(), None) };
                record
            }
        };
        let reads_telemetry = A::REPLIES && A::TELEMETRY;
        let arrival = Arrival {
            local,
            psn: roce.bth.psn,
            bytes: roce.wire_len,
            payload: Bytes::new(u32::try_from(roce.payload_len).unwrap_or(u32::MAX)),
            ecn: roce.ecn,
            mark,
            first: roce.info.first(),
            last: roce.info.last(),
            sent: if A::REPLIES { roce.time_shim().map(|time| time.sent) } else { None },
            arrived: rx.arrived,
            int: if reads_telemetry {
                roce.int_shim().map_or(IntStack::NONE, |int| int.stack())
            } else {
                IntStack::NONE
            },
            mlcc: if reads_telemetry { roce.mlcc_data_shim() } else { None },
        };
        tx.on_transition(|| record.transition(&cx, shared, &Event::Arrival(arrival)));
        let reply = record.on(&cx, shared, &arrival);
        let cnp_policy = A::cnp_policy(cx.params);

        let mut outcome = ArrivalOutcome { reply, ..ArrivalOutcome::default() };
        let counted = if let Some(body_kind) = reply.cnp {
            if !marked {
                counts.add(Count::Unmarked);
            }
            outcome.cnp = send(now.stamp(), bucket, cnp_policy, || tx.cnp(roce, to, body_kind, cnp_policy.marking()));
            if outcome.cnp == CnpOutcome::Sent {
                record.on_cnp_sent(&cx, shared);
            }
            outcome.cnp.counted()
        } else {
            of_marked(Count::NotDue)
        };
        if let Some(msn) = acknowledged {
            let Reply { echo, grant, .. } = reply;
            let fields = AckFields {
                msn,
                mark: echo,
                receiver_hold,
                rx_buffer_level: rx.rx_buffer_level,
                grant,
                marking: cnp_policy.marking(),
            };
            if tx.ack(roce, to, &fields).is_ok() {
                record.on_ack_sent(&cx, shared);
                counts.add(Count::AcksSent);
                outcome.ack = AckOutcome::Sent;
            } else {
                counts.add(Count::AcksDropped);
                outcome.ack = AckOutcome::Dropped;
            }
        }
        (outcome, counted)
    }

    /// Processes the passing of time, without a packet. In machines with slots: if the next slot is due, it is given to one
    /// flow, whose CNP, if one is due, is sent by [`Transmit::slot_cnp`]. The next slot is due one
    /// [interval](NotificationPoint::slot_interval) after this call: slots that a late call missed are skipped, so that the
    /// CNPs of slots are never less than one interval apart.
    #[inline]
    pub fn wake(&mut self, now: Instant, tx: &mut impl Transmit) -> CnpOutcome {
        let now = self.common.clock.advance_outlined(now);
        let cnp = match A::slot_interval(&self.common.params) {
            Some(interval) => self.slot(now, interval, tx),
            None => CnpOutcome::None,
        };
        self.sweep(now);
        if let Some(count) = cnp.counted() {
            self.common.counts.add(count);
            self.common.counts.add(Count::Unmarked);
        }
        cnp
    }

    fn slot(&mut self, now: Instant, interval: Nanos, tx: &mut impl Transmit) -> CnpOutcome {
        if self.flows.occupied() == 0 || !self.next_slot.is_due(now.stamp()) {
            return CnpOutcome::None;
        }
        self.next_slot = now.stamp().after(interval);
        let Common { link, params, shared, enabled, bucket, .. } = &mut self.common;
        let cx = Cx { now, link, params };
        let Some(record) = self.flows.advance() else { return CnpOutcome::None };
        tx.on_transition(|| record.transition(&cx, shared, &Event::Slot));
        let (local, body_kind) = match record.slot(&cx, shared) {
            Slot::Notify { local, body_kind } if *enabled => (local, body_kind),
            Slot::Notify { .. } | Slot::Skip => return CnpOutcome::None,
            Slot::Remove => {
                self.flows.remove_current(&cx, shared);
                return CnpOutcome::None;
            }
        };
        let cnp_policy = A::cnp_policy(cx.params);
        let cnp = send(now.stamp(), bucket, cnp_policy, || tx.slot_cnp(local, body_kind, cnp_policy.marking()));
        match cnp {
            CnpOutcome::Sent => record.on_cnp_sent(&cx, shared),
            // No CNP can be sent to this flow. It is removed from the list; its next marked packet adds it again.
            CnpOutcome::Unaddressed => self.flows.remove_current(&cx, shared),
            _ => {}
        }
        cnp
    }

    /// The time of the last call, by the caller's clock.
    pub const fn last_call(&self) -> Instant {
        self.common.clock.last_call()
    }

    /// Time from the last call to the next [`NpEngineIn::wake`], at most 400 ms. An earlier wake is harmless.
    #[inline]
    pub fn next_wake(&self) -> Nanos {
        self.until_slot(Self::LONGEST_WAIT)
    }

    /// Time from the last call to the latest [`NpEngineIn::wake`], at most 1 s: for callers whose wakes are exactly on time, such as
    /// simulations. [`NpEngineIn::next_wake`] leaves time for wakes that come late.
    pub fn latest_wake(&self) -> Nanos {
        self.until_slot(Self::LONGEST_GAP)
    }

    /// The time until the next slot is due, at most `wait`.
    #[inline]
    fn until_slot(&self, wait: Nanos) -> Nanos {
        if A::slot_interval(&self.common.params).is_none() || self.flows.occupied() == 0 {
            return wait;
        }
        let now = self.common.clock.now().stamp();
        if self.next_slot.is_due(now) { Nanos::ZERO } else { self.next_slot.since(now).min(wait) }
    }

    /// Removes the record of a flow whose queue pair is destroyed, so that the next queue pair of that number starts with a
    /// new record.
    pub fn forget(&mut self, local: Qpn) {
        let Common { link, params, shared, clock, .. } = &mut self.common;
        self.flows.remove(&Cx { now: clock.now(), link, params }, shared, local);
    }

    /// Grows the table to `sets` sets of records, a power of two, where the memory is on the heap. Records stay.
    pub fn grow(&mut self, sets: usize) {
        let Common { link, params, shared, clock, .. } = &mut self.common;
        self.flows.grow(&Cx { now: clock.now(), link, params }, shared, sets);
    }

    /// The counters since the start.
    pub fn counters(&self) -> NpCounters {
        let [sent, not_due, unaddressed, bounded, deferred, ignored, unmarked, ..] = self.common.counts.0;
        let [.., acks_sent, acks_unaddressed, acks_dropped, untracked] = self.common.counts.0;
        let outcomes = [sent, not_due, unaddressed, bounded, deferred, ignored].into_iter().fold(0, u64::wrapping_add);
        NpCounters {
            np_ecn_marked_roce_packets: outcomes.wrapping_sub(unmarked),
            np_cnp_sent: sent,
            np_cnp_not_due: not_due,
            np_cnp_unaddressed: unaddressed,
            np_cnp_rate_limited: bounded,
            np_cnp_ring_full: deferred,
            np_ce_ignored: ignored,
            np_acks_sent: acks_sent,
            np_acks_unaddressed: acks_unaddressed,
            np_acks_dropped: acks_dropped,
            np_flows_untracked: untracked,
            np_flows_evicted: self.flows.evicted().into(),
            np_clock_jumps_forward: self.common.clock.forward_jumps().into(),
            np_clock_reversals: self.common.clock.backward_jumps().into(),
        }
    }

    /// A flow's record as a snapshot with named fields; `None` when it has none. The state that flows share is
    /// `shared().snapshot()`. For harnesses: no firmware image calls it.
    pub fn snapshot(&self, local: Qpn) -> Option<A::Snapshot> {
        self.flows.get(local).map(State::snapshot)
    }

    /// Replaces the record of a flow. Returns `false`, and changes nothing, if the flow has no record or the snapshot is of
    /// another flow. For harnesses: no firmware image calls it.
    pub fn inject(&mut self, local: Qpn, snapshot: A::Snapshot) -> bool {
        self.flows.put(local, A::from_snapshot(snapshot))
    }

    /// Replaces the shared state of the port. For harnesses: no firmware image calls it.
    pub fn inject_shared(&mut self, snapshot: <A::Shared as State>::Snapshot) {
        self.common.shared = A::Shared::from_snapshot(snapshot);
    }

    /// Number of flows that have a record.
    pub fn live_flows(&self) -> u32 {
        self.flows.occupied()
    }

    #[inline]
    fn sweep(&mut self, now: Instant) {
        if self.next_sweep.is_due(now.stamp()) {
            self.sweep_sets();
        }
    }

    /// Sweeps the set that is due. After a longer gap between calls it sweeps further sets, as many as a sweep of all sets in 1
    /// s requires, so that no stamp wraps. Further overdue sweeps are dropped, so that the packet after the gap is not delayed
    /// by them.
    #[cold]
    #[inline(never)]
    fn sweep_sets(&mut self) {
        let Common { link, params, shared, clock, bucket, .. } = &mut self.common;
        let cx = Cx { now: clock.now(), link, params };
        let now = cx.now.stamp();
        bucket.advance(now);
        Flows::sweep(&mut self.shared_record, &cx, shared);
        let mut required_by = self.next_sweep;
        let sets = self.flows.sets();
        for _ in 0..sets {
            required_by = required_by.after(Nanos::new(1_000_000_000_u32.wrapping_shr(sets.trailing_zeros())));
            let visit = Self::SWEEP_PERIOD.get().wrapping_shr(sets.trailing_zeros());
            self.next_sweep = self.next_sweep.after(Nanos::new(visit));
            self.flows.sweep(&cx, shared);
            if !required_by.is_due(now) {
                break;
            }
        }
        // Sweeps and slots that are still overdue are due now, so that these two stamps do not age beyond their range.
        for due in [&mut self.next_sweep, &mut self.next_slot] {
            if due.is_due(now) {
                *due = now;
            }
        }
    }
}

/// Whether a data packet requests an acknowledgement: a SEND or WRITE of a reliable connection whose acknowledge request bit is
/// set, or which is the last of a message. A READ response acknowledges the READ request and is not acknowledged itself.
#[inline]
fn asks_for_acknowledgement(roce: &Roce<'_>) -> bool {
    let reliable = matches!(Transport::of(roce.bth.opcode), Transport::Rc | Transport::Xrc);
    reliable && roce.info.class() != Class::ReadResponse && (roce.bth.ack_request || roce.info.last())
}

/// The mark in the ECN bits of a packet. CE: it passed a congested queue. ECT(1), in networks with ternary marks (TCD) only: it
/// passed a queue whose state is undetermined. All other values are no mark.
#[inline(always)]
pub const fn mark_of(ecn: Ecn, ternary: bool) -> Mark {
    match ecn {
        Ecn::Ce => Mark::Congested,
        Ecn::Ect1 if ternary => Mark::Undetermined,
        _ => Mark::None,
    }
}

/// Sends a CNP, if the port's token bucket has a token for it and the transmit ring takes it.
#[inline]
fn send(
    now: Stamp,
    bucket: &mut TokenBucket,
    cnp_policy: &CnpPolicy,
    transmit: impl FnOnce() -> Result<(), NotSent>,
) -> CnpOutcome {
    bucket.advance(now);
    if !bucket.admits(now, cnp_policy) {
        return CnpOutcome::RateLimited;
    }
    match transmit() {
        Ok(()) => {
            bucket.take(cnp_policy);
            CnpOutcome::Sent
        }
        Err(NotSent::Full) => CnpOutcome::RingFull,
        Err(NotSent::Unaddressed) => CnpOutcome::Unaddressed,
    }
}

#[cfg(test)]
mod tests;
