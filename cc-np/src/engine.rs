//! The notification point of one port: records of received flows, the bound on CNPs, and the machine that decides about them.
//! It reads the headers of received packets, and writes no frame: what is to be sent goes to [`Transmit`] as values.

use crate::cnp_policy::TokenBucket;
use crate::{Arrival, CnpPolicy, Cx, Event, Flows, NotSent, NotificationPoint, Reply, RxMeta, Slot, Transmit};
use cc_core::clock::LocalClock;
use cc_core::table::{Fixed, SetAssocTable, Storage};
use cc_core::wire::opcode::{Class, Transport};
use cc_core::wire::{AckFields, Roce, Version};
use cc_core::{Bytes, Ecn, Instant, IntStack, Link, Mark, Nanos, Qpn, Stamp, State, Zeroed};

/// The one key of the record of all that are not told apart.
const SHARED_KEY: Qpn = Qpn::new(0);

/// What became of the CNP for one frame, or for one turn.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum CnpOutcome {
    /// None was due.
    #[default]
    None,
    /// It is in the transmit ring.
    Sent,
    /// The sender's queue pair, or the way to it, is not known. Nothing was sent; the next marked packet calls for one again.
    Unaddressed,
    /// The port has made as many as it may. It stays due.
    RateLimited,
    /// The transmit ring is full. It stays due.
    RingFull,
}

impl CnpOutcome {
    /// As what it is counted.
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

/// What became of the acknowledgement of one frame.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum AckOutcome {
    /// None was asked for, or the transport writes it: the machine has nothing to say with it.
    #[default]
    None,
    /// It is in the transmit ring.
    Sent,
    /// The sender's queue pair is not known. Nothing was sent.
    Unaddressed,
    /// The transmit ring is full. The transport repeats it; what it was to carry goes with the next.
    Dropped,
}

/// The answer to one frame.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ArrivalOutcome {
    /// What the machine said; nothing for a frame that it does not see.
    pub reply: Reply,
    /// What became of the CNP.
    pub cnp: CnpOutcome,
    /// What became of the acknowledgement.
    pub ack: AckOutcome,
}

/// What a port's notification point has counted.
///
/// Every marked packet is in exactly one of the six below it:
/// `np_ecn_marked_roce_packets = np_cnp_sent + np_cnp_not_due + np_cnp_unaddressed + np_cnp_rate_limited +
/// np_cnp_ring_full + np_ce_ignored`, for machines that notify on marked packets only. Where flows have turns, a packet
/// that only lists its flow is `np_cnp_not_due`, and what becomes of turns is counted beside.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NpCounters {
    /// RoCEv2 packets that came with CE, or with TCD's UE where that is in use, whatever they carry.
    pub np_ecn_marked_roce_packets: u64,
    /// CNPs written.
    pub np_cnp_sent: u64,
    /// Marked data packets for which the machine called for no CNP: the interval was running, or it has other ways to
    /// tell.
    pub np_cnp_not_due: u64,
    /// Marked data packets, and turns, of connections whose far end is not known.
    pub np_cnp_unaddressed: u64,
    /// CNPs that the bound on the port held back.
    pub np_cnp_rate_limited: u64,
    /// CNPs that a full transmit ring held back.
    pub np_cnp_ring_full: u64,
    /// Marked packets that call for no notification: not data (acknowledgements, CNPs, requests), a transport without
    /// congestion control, or a port whose notification point is off.
    pub np_ce_ignored: u64,
    /// Acknowledgements written.
    pub np_acks_sent: u64,
    /// Acknowledgements of connections whose far end is not known.
    pub np_acks_unaddressed: u64,
    /// Acknowledgements that a full transmit ring did not take.
    pub np_acks_dropped: u64,
    /// Packets of flows that the table had no room for.
    pub np_flows_untracked: u64,
    /// Records given up for another flow's while they still meant something.
    pub np_flows_evicted: u64,
    /// Steps of the caller's clock forward by more than a second.
    pub np_clock_jumps_forward: u64,
    /// Steps of the caller's clock back.
    pub np_clock_jumps_back: u64,
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
            ("np_clock_jumps_back", self.np_clock_jumps_back),
        ]
    }
}

/// What an engine counts: each is the index of a counter.
#[derive(Clone, Copy)]
enum Count {
    // What becomes of a marked packet, which is therefore not counted itself.
    Sent,
    NotDue,
    Unaddressed,
    RateLimited,
    RingFull,
    Ignored,
    /// Those of the above that were no marked packets': a turn's, or an unmarked packet's CNP.
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
/// Flows of connected services (RC, UC, XRC) are known by the local queue pair number in their packets, which is
/// unique in a NIC. Datagrams (UD) are not told apart: all of a port share one record, so that a port answers them
/// as it answers one flow, each CNP going to the source queue pair in the DETH of the packet that caused it. Flows that
/// the table has no room for share that record too.
///
/// The engine must be called at least once a second, by [`NpEngineIn::arrival`] or [`NpEngineIn::wake`]: it keeps 32-bit
/// stamps, and visits each of them once a second, in proportion to the time since the last call.
// The small fields come first, where short offsets reach them.
#[repr(C)]
pub struct NpEngineIn<A: NotificationPoint, SETS: Storage, const WAYS: usize> {
    common: Common<A>,
    /// When the next set of the table is to be visited.
    next_sweep: Stamp,
    /// When the next flow has its turn.
    next_slot: Stamp,
    /// One record, that ages as those of flows do.
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

/// What is not the table's, so that it can be lent together with a record.
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
    /// In this time every set of the table is visited, if the engine is called often enough; in a second in any case.
    const SWEEP_PERIOD: Nanos = Nanos::new(250_000_000);

    /// How long the engine may be left alone where nothing has its turn.
    const LONGEST_WAIT: Nanos = Nanos::new(400_000_000);

    /// The notification point of `port`, switched on, with no flow known. `params` come from
    /// [`NotificationPoint::check`] for this port.
    pub fn new(start: Instant, link: Link, params: A::Params) -> Self {
        let mut engine = Self::ZEROED;
        engine.begin(start, link, params);
        engine
    }

    /// Makes the notification point of `port` of what is blank, where that is, as [`NpEngineIn::new`] does.
    #[inline(always)]
    pub fn begin(&mut self, start: Instant, link: Link, params: A::Params) {
        let stamp = start.stamp();
        (self.next_sweep, self.next_slot) = (stamp, stamp);
        let common = &mut self.common;
        (common.link, common.params, common.enabled) = (link, params, true);
        common.clock.start(start);
        common.bucket = TokenBucket::full(stamp);
    }

    /// Goes on with new parameters. Records and counters stay; the port's bucket is full again.
    pub fn set_params(&mut self, params: A::Params) {
        self.common.params = params;
        self.common.bucket = TokenBucket::full(self.common.clock.now().stamp());
    }

    /// Switches the notification point of the whole port on or off; it has no priorities of its own. While it is off it
    /// writes no acknowledgements either.
    pub const fn set_enabled(&mut self, enabled: bool) {
        self.common.enabled = enabled;
    }

    /// Whether the notification point is on.
    pub const fn is_enabled(&self) -> bool {
        self.common.enabled
    }

    /// What the flows of the port have in common.
    pub const fn shared(&self) -> &A::Shared {
        &self.common.shared
    }

    /// Takes a received packet, whose ICRC has been checked, and sends what is due for it: a CNP, and an acknowledgement where
    /// the machine [replies](NotificationPoint::REPLIES) and the packet asks for one or ends a message.
    ///
    /// `rx` has the sender's queue pair number, which the connection knows and the packet does not say; datagrams
    /// say it.
    ///
    /// A CNP that could not be sent leaves the flow's record as it was, so that the next marked packet calls for it
    /// again. Without the far end there is no record: strangers displace no one.
    #[inline]
    pub fn arrival(&mut self, now: Instant, roce: &Roce<'_>, rx: RxMeta, tx: &mut impl Transmit) -> ArrivalOutcome {
        let receiver_hold = if rx.arrived.is_due(now.stamp()) { now.stamp().since(rx.arrived) } else { Nanos::ZERO };
        let now = self.common.clock.advance_outlined(now);
        let (outcome, counted) = self.answer(now, roce, rx, receiver_hold, tx);
        self.sweep(now);
        // Last, in one place for all that may have become of the packet.
        if let Some(count) = counted {
            self.common.counts.add(count);
        }
        outcome
    }

    /// The answer to a frame, and what is to be counted of its CNP.
    #[inline]
    fn answer(
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
                // Every number belongs to a set.
                let Some((record, _)) = touched else { return (ArrivalOutcome::default(), None) };
                record
            }
        };
        let hears = A::REPLIES && A::TELEMETRY;
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
            int: if hears { roce.int_shim().map_or(IntStack::NONE, |int| int.stack()) } else { IntStack::NONE },
            mlcc: if hears { roce.mlcc_data_shim() } else { None },
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

    /// Lets time pass. Where flows have turns and the next is due, one flow has its turn, and the CNP that comes of it
    /// goes out by [`Transmit::slot_cnp`]. The next turn comes a whole slot later: what a late caller has
    /// missed is lost, and never made up for by CNPs that are closer.
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

    /// When the last call was made, by the caller's clock.
    pub const fn last_call(&self) -> Instant {
        self.common.clock.last_call()
    }

    /// How long after the last call to call [`NpEngineIn::wake`], at most 0.4 s. Earlier does no harm.
    #[inline]
    pub fn next_wake(&self) -> Nanos {
        if A::slot_interval(&self.common.params).is_none() || self.flows.occupied() == 0 {
            return Self::LONGEST_WAIT;
        }
        let now = self.common.clock.now().stamp();
        if self.next_slot.is_due(now) { Nanos::ZERO } else { self.next_slot.since(now).min(Self::LONGEST_WAIT) }
    }

    /// Forgets a flow whose queue pair is destroyed, so that the next one of that number starts afresh.
    pub fn forget(&mut self, local: Qpn) {
        let Common { link, params, shared, clock, .. } = &mut self.common;
        self.flows.remove(&Cx { now: clock.now(), link, params }, shared, local);
    }

    /// Makes room for the records of `sets` sets, a power of two, where the memory is on the heap. Records stay.
    pub fn grow(&mut self, sets: usize) {
        let Common { link, params, shared, clock, .. } = &mut self.common;
        self.flows.grow(&Cx { now: clock.now(), link, params }, shared, sets);
    }

    /// What was counted since the start.
    pub fn counters(&self) -> NpCounters {
        let [sent, not_due, unaddressed, bounded, deferred, ignored, unmarked, ..] = self.common.counts.0;
        let [.., acks_sent, acks_unaddressed, acks_dropped, untracked] = self.common.counts.0;
        let became = [sent, not_due, unaddressed, bounded, deferred, ignored].into_iter().fold(0, u64::wrapping_add);
        NpCounters {
            np_ecn_marked_roce_packets: became.wrapping_sub(unmarked),
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
            np_clock_jumps_back: self.common.clock.backward_jumps().into(),
        }
    }

    /// The record of a flow by name; `None` when it has none. What flows share: `shared().snapshot()`. For harnesses: no image
    /// calls it.
    pub fn snapshot(&self, local: Qpn) -> Option<A::Snapshot> {
        self.flows.get(local).map(State::snapshot)
    }

    /// Puts a record in the place of a flow's own. Returns whether that is done: the flow has a record, and the snapshot does
    /// not name another one. For harnesses: no image calls it.
    pub fn inject(&mut self, local: Qpn, snapshot: A::Snapshot) -> bool {
        self.flows.put(local, A::from_snapshot(snapshot))
    }

    /// Puts in what the flows of the port share. For harnesses: no image calls it.
    pub fn inject_shared(&mut self, snapshot: <A::Shared as State>::Snapshot) {
        self.common.shared = A::Shared::from_snapshot(snapshot);
    }

    /// Flows that have a record.
    pub fn live_flows(&self) -> u32 {
        self.flows.occupied()
    }

    #[inline]
    fn sweep(&mut self, now: Instant) {
        if self.next_sweep.is_due(now.stamp()) {
            self.sweep_sets();
        }
    }

    /// A visit that has fallen due, and more as far as every stamp needs one in a second: no packet pays for a short pause
    /// before it.
    #[cold]
    #[inline(never)]
    fn sweep_sets(&mut self) {
        let Common { link, params, shared, clock, bucket, .. } = &mut self.common;
        let cx = Cx { now: clock.now(), link, params };
        let now = cx.now.stamp();
        bucket.advance(now);
        Flows::sweep(&mut self.shared_record, &cx, shared);
        let mut owed = self.next_sweep;
        let sets = self.flows.sets();
        for _ in 0..sets {
            owed = owed.after(Nanos::new(1_000_000_000_u32.wrapping_shr(sets.trailing_zeros())));
            let visit = Self::SWEEP_PERIOD.get().wrapping_shr(sets.trailing_zeros());
            self.next_sweep = self.next_sweep.after(Nanos::new(visit));
            self.flows.sweep(&cx, shared);
            if !owed.is_due(now) {
                break;
            }
        }
        // Whatever is still due waits for nobody, and no stamp may grow old.
        for due in [&mut self.next_sweep, &mut self.next_slot] {
            if due.is_due(now) {
                *due = now;
            }
        }
    }
}

/// Whether a data packet asks its receiver for an acknowledgement: a SEND or WRITE of a reliable connection that says so
/// or ends a message. A READ response is one itself.
#[inline]
fn asks_for_acknowledgement(roce: &Roce<'_>) -> bool {
    let reliable = matches!(Transport::of(roce.bth.opcode), Transport::Rc | Transport::Xrc);
    reliable && roce.info.class() != Class::ReadResponse && (roce.bth.ack_request || roce.info.last())
}

/// What the ECN bits of a packet say: CE that it met congestion, and ECT(1), in networks with ternary marks (TCD), that it met
/// a queue whose state is undetermined.
#[inline(always)]
pub const fn mark_of(ecn: Ecn, ternary: bool) -> Mark {
    match ecn {
        Ecn::Ce => Mark::Congested,
        Ecn::Ect1 if ternary => Mark::Undetermined,
        _ => Mark::None,
    }
}

/// Sends a CNP, if the port may make one and the ring takes it.
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
