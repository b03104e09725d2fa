//! Where bytes meet state at the receiver: a frame comes in, a CNP and an acknowledgement go out.

use crate::connection::Connections;
use crate::outlet::Bucket;
use crate::{Arrival, CnpOutlet, Cx, Event, Flows, NotificationPoint, Receipt, Reply, Transmit, Turn};
use cc_core::clock::LocalClock;
use cc_core::table::{Fixed, PeerTable, Storage};
use cc_core::wire::opcode::{Class, Transport};
use cc_core::wire::{AckFields, Crc32, Response, Roce, Version};
use cc_core::{Blank, Bytes, Ecn, Instant, IntStack, Mark, Nanos, Port, Qpn, Stamp, State};

/// The one key of the record of all that are not told apart.
const THE_REST: Qpn = Qpn::new(0);

/// What became of the CNP for one frame, or for one turn.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Cnp {
    /// None was due.
    #[default]
    None,
    /// It is in the transmit ring.
    Sent,
    /// The sender's queue pair is not known. Nothing was written, and the next marked packet is asked again.
    Unaddressed,
    /// The port has made as many as it may. It stays due.
    Bounded,
    /// The buffer is too small, or there is none: the transmit ring is full. It stays due.
    Deferred,
}

impl Cnp {
    /// As what it is counted.
    #[inline]
    const fn counted(self) -> Option<Count> {
        match self {
            Self::None => None,
            Self::Sent => Some(Count::Sent),
            Self::Unaddressed => Some(Count::Unaddressed),
            Self::Bounded => Some(Count::Bounded),
            Self::Deferred => Some(Count::Deferred),
        }
    }
}

/// What became of the acknowledgement of one frame.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Acknowledgement {
    /// None was asked for, or the transport writes it: the machine has nothing to say with it.
    #[default]
    None,
    /// It is in the transmit ring.
    Sent,
    /// The sender's queue pair is not known. Nothing was written.
    Unaddressed,
    /// The buffer is too small, or there is none: the transmit ring is full. To repeat it is the transport's business;
    /// what it was to say is said by the next.
    Dropped,
}

/// The answer to one frame.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Answer {
    /// What the machine said; nothing for a frame that it does not see.
    pub reply: Reply,
    /// What became of the CNP.
    pub cnp: Cnp,
    /// What became of the acknowledgement.
    pub ack: Acknowledgement,
}

/// What a port's notification point has counted.
///
/// Every marked packet is in exactly one of the six below it:
/// `np_ecn_marked_roce_packets = np_cnp_sent + np_cnp_not_due + np_cnp_unaddressed + np_cnp_bounded +
/// np_cnp_deferred + np_ce_ignored`, for machines that notify on marked packets only. Where flows have turns, a packet
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
    pub np_cnp_bounded: u64,
    /// CNPs that a full transmit ring held back.
    pub np_cnp_deferred: u64,
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
    pub np_clock_leaps: u64,
    /// Steps of the caller's clock back.
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
            ("np_cnp_bounded", self.np_cnp_bounded),
            ("np_cnp_deferred", self.np_cnp_deferred),
            ("np_ce_ignored", self.np_ce_ignored),
            ("np_acks_sent", self.np_acks_sent),
            ("np_acks_unaddressed", self.np_acks_unaddressed),
            ("np_acks_dropped", self.np_acks_dropped),
            ("np_flows_untracked", self.np_flows_untracked),
            ("np_flows_evicted", self.np_flows_evicted),
            ("np_clock_leaps", self.np_clock_leaps),
            ("np_clock_reversals", self.np_clock_reversals),
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
    Bounded,
    Deferred,
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

/// What an engine of this size asks its caller to know of connections.
pub type ConnectionsOf<A, SETS, const WAYS: usize> =
    <<A as NotificationPoint>::Flows<SETS, WAYS> as Flows<A>>::Connections;

/// An [`NpEngineIn`] with `SETS` sets of records, all inside it.
pub type NpEngine<A, const SETS: usize, const WAYS: usize> = NpEngineIn<A, Fixed<SETS>, WAYS>;

/// The notification point of one port, with records of at most `SETS * WAYS` flows.
///
/// Flows of connected services (RC, UC, XRC) are known by the local queue pair number in their packets, which is
/// unique in a NIC. Datagrams (UD) are not told apart: all of a port share one record, so that a port answers them
/// as it answers one flow, each CNP going to the source queue pair in the DETH of the packet that caused it. Flows that
/// the table has no room for share that record too.
///
/// The engine must be called at least once a second, by [`NpEngineIn::frame`] or [`NpEngineIn::wake`]: it keeps 32-bit
/// stamps, and visits each of them once a second, in proportion to the time since the last call.
// The small fields come first, where short offsets reach them.
#[repr(C)]
pub struct NpEngineIn<A: NotificationPoint, SETS: Storage, const WAYS: usize> {
    common: Common<A>,
    /// When the next set of the table is to be visited.
    next_visit: Stamp,
    /// When the next flow has its turn.
    next_turn: Stamp,
    /// One record, that ages as those of flows do.
    rest: PeerTable<A, 1, 1>,
    flows: A::Flows<SETS, WAYS>,
}

impl<A: NotificationPoint, SETS: Storage, const WAYS: usize> Blank for NpEngineIn<A, SETS, WAYS> {
    const BLANK: Self = Self {
        common: Common {
            port: Port::BLANK,
            params: A::Params::BLANK,
            shared: A::SHARED,
            enabled: false,
            clock: LocalClock::new(Instant::BLANK),
            bucket: Bucket::full(Stamp::BLANK),
            counts: Counts::NONE,
        },
        next_visit: Stamp::BLANK,
        next_turn: Stamp::BLANK,
        rest: PeerTable::new(),
        flows: Blank::BLANK,
    };
}

/// What is not the table's, so that it can be lent together with a record.
struct Common<A: NotificationPoint> {
    port: Port,
    params: A::Params,
    shared: A::Shared,
    enabled: bool,
    clock: LocalClock,
    bucket: Bucket,
    counts: Counts,
}

impl<A: NotificationPoint, SETS: Storage, const WAYS: usize> NpEngineIn<A, SETS, WAYS> {
    /// In this time every set of the table is visited, if the engine is called often enough; in a second in any case.
    const ROUND: Nanos = Nanos::new(250_000_000);

    /// How long the engine may be left alone where nothing has its turn.
    const REST: Nanos = Nanos::new(400_000_000);

    /// The notification point of `port`, switched on, with no flow known. `params` come from
    /// [`NotificationPoint::check`] for this port.
    pub fn new(start: Instant, port: Port, params: A::Params) -> Self {
        let mut engine = Self::BLANK;
        engine.begin(start, port, params);
        engine
    }

    /// Makes the notification point of `port` of what is blank, where that is, as [`NpEngineIn::new`] does.
    #[inline(always)]
    pub fn begin(&mut self, start: Instant, port: Port, params: A::Params) {
        let stamp = start.stamp();
        (self.next_visit, self.next_turn) = (stamp, stamp);
        let common = &mut self.common;
        (common.port, common.params, common.enabled) = (port, params, true);
        common.clock.start(start);
        common.bucket = Bucket::full(stamp);
    }

    /// Goes on with new parameters. Records and counters stay; the port's bucket is full again.
    pub fn set_params(&mut self, params: A::Params) {
        self.common.params = params;
        self.common.bucket = Bucket::full(self.common.clock.now().stamp());
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

    /// Takes a received frame, whose ICRC has been checked, and writes what is due for it into the transmit ring: a CNP,
    /// and an acknowledgement where the machine [replies](NotificationPoint::REPLIES) and the packet asks for one or
    /// ends a message.
    ///
    /// `receipt` has the sender's queue pair number, which the connection knows and the packet does not say; datagrams
    /// say it.
    ///
    /// A CNP that could not be sent leaves the flow's record as it was, so that the next marked packet calls for it
    /// again. Without the far end there is no record: strangers displace no one.
    #[inline]
    pub fn frame<E: Crc32>(
        &mut self,
        now: Instant,
        roce: &Roce<'_>,
        receipt: Receipt,
        tx: &mut impl Transmit,
    ) -> Answer {
        let held = if receipt.arrived.is_due(now.stamp()) { now.stamp().since(receipt.arrived) } else { Nanos::ZERO };
        let now = self.common.clock.follow(now);
        let (answer, counted) = self.answer::<E>(now, roce, receipt, held, tx);
        self.visit(now);
        // Last, in one place for all that may have become of the packet.
        if let Some(count) = counted {
            self.common.counts.add(count);
        }
        answer
    }

    /// The answer to a frame, and what is to be counted of its CNP.
    #[inline]
    fn answer<E: Crc32>(
        &mut self,
        now: Instant,
        roce: &Roce<'_>,
        receipt: Receipt,
        held: Nanos,
        tx: &mut impl Transmit,
    ) -> (Answer, Option<Count>) {
        let Common { port, params, shared, enabled, bucket, counts, .. } = &mut self.common;
        let mark = match roce.ecn {
            Ecn::Ce => Mark::Congested,
            Ecn::Ect1 if A::is_ternary(params) => Mark::Undetermined,
            _ => Mark::None,
        };
        if roce.version() != Version::V2 {
            return (Answer::default(), None);
        }
        let marked = mark != Mark::None;
        let of_marked = |count| marked.then_some(count);
        let transport = Transport::of(roce.bth.opcode);
        let tracked = matches!(transport, Transport::Rc | Transport::Uc | Transport::Xrc | Transport::Ud);
        if !(*enabled & tracked & roce.info.class().carries_data()) {
            return (Answer::default(), of_marked(Count::Ignored));
        }
        let acknowledged = if A::REPLIES { receipt.msn.filter(|_| asks_for_acknowledgement(roce)) } else { None };
        if !A::wants(mark) && acknowledged.is_none() {
            return (Answer::default(), of_marked(Count::NotDue));
        }
        let source = roce.deth().map(|deth| deth.source_qp);
        let Some(to) = source.or(receipt.remote) else {
            let mut answer = Answer::default();
            if marked {
                answer.cnp = Cnp::Unaddressed;
            }
            if acknowledged.is_some() {
                counts.add(Count::AcksUnaddressed);
                answer.ack = Acknowledgement::Unaddressed;
            }
            return (answer, of_marked(Count::Unaddressed));
        };

        let cx = Cx { now, port, params };
        let local = roce.bth.dest_qp;
        let record = if source.is_some() { None } else { self.flows.touch(&cx, shared, local) };
        let record = match record {
            Some(record) => record,
            None => {
                if source.is_none() {
                    counts.add(Count::Untracked);
                }
                let open = |gone: Option<A>| {
                    if let Some(gone) = gone {
                        gone.forgotten(&cx, shared);
                    }
                    A::open(&cx, shared, None)
                };
                let touched = self.rest.touch(THE_REST, now.stamp(), A::memory(cx.params), open);
                // Every number belongs to a set.
                let Some((record, _)) = touched else { return (Answer::default(), None) };
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
            arrived: receipt.arrived,
            int: if hears { roce.int_shim().map_or(IntStack::NONE, |int| int.stack()) } else { IntStack::NONE },
            mlcc: if hears { roce.mlcc_data_shim() } else { None },
        };
        tx.observe(|| record.row(&cx, shared, &Event::Arrival(arrival)));
        let reply = record.on(&cx, shared, &arrival);
        let outlet = A::outlet(cx.params);

        let mut answer = Answer { reply, ..Answer::default() };
        let counted = if let Some(hint) = reply.cnp {
            if !marked {
                counts.add(Count::Unmarked);
            }
            let frame = || Response::cnp(roce, to, hint, outlet.marking());
            answer.cnp = send::<E>(now.stamp(), bucket, outlet, frame, tx);
            if answer.cnp == Cnp::Sent {
                record.notified(&cx, shared);
            }
            answer.cnp.counted()
        } else {
            of_marked(Count::NotDue)
        };
        if let Some(msn) = acknowledged {
            let Reply { echo, grant, .. } = reply;
            let fields =
                AckFields { msn, mark: echo, held, rx_level: receipt.rx_level, grant, marking: outlet.marking() };
            if let Ok(length) = Response::ack(roce, to, &fields).emit::<E>(tx.transmit_buffer()) {
                tx.transmit(length);
                record.acknowledged(&cx, shared);
                counts.add(Count::AcksSent);
                answer.ack = Acknowledgement::Sent;
            } else {
                counts.add(Count::AcksDropped);
                answer.ack = Acknowledgement::Dropped;
            }
        }
        (answer, counted)
    }

    /// Lets time pass. Where flows have turns and the next is due, one flow has its turn, and the CNP that comes of it
    /// goes to the far end that `connections` knows. The next turn comes a whole slot later: what a late caller has
    /// missed is lost, and never made up for by CNPs that are closer.
    #[inline]
    pub fn wake<E: Crc32>(&mut self, now: Instant, connections: &impl Connections, tx: &mut impl Transmit) -> Cnp {
        let now = self.common.clock.follow(now);
        let cnp = match A::slot(&self.common.params) {
            Some(slot) => self.turn::<E>(now, slot, connections, tx),
            None => Cnp::None,
        };
        self.visit(now);
        if let Some(count) = cnp.counted() {
            self.common.counts.add(count);
            self.common.counts.add(Count::Unmarked);
        }
        cnp
    }

    fn turn<E: Crc32>(
        &mut self,
        now: Instant,
        slot: Nanos,
        connections: &impl Connections,
        tx: &mut impl Transmit,
    ) -> Cnp {
        if self.flows.live() == 0 || !self.next_turn.is_due(now.stamp()) {
            return Cnp::None;
        }
        self.next_turn = now.stamp().after(slot);
        let Common { port, params, shared, enabled, bucket, .. } = &mut self.common;
        let cx = Cx { now, port, params };
        let Some(record) = self.flows.turn() else { return Cnp::None };
        tx.observe(|| record.row(&cx, shared, &Event::Turn));
        let (local, hint) = match record.turn(&cx, shared) {
            Turn::Notify { local, hint } if *enabled => (local, hint),
            Turn::Notify { .. } | Turn::Pass => return Cnp::None,
            Turn::Leave => {
                self.flows.leave(&cx, shared);
                return Cnp::None;
            }
        };
        let Some(connection) = connections.find(local) else {
            // Whom nobody knows, nobody can tell: it is listed again by its next marked packet.
            self.flows.leave(&cx, shared);
            return Cnp::Unaddressed;
        };
        let outlet = A::outlet(cx.params);
        let frame = || connection.cnp(hint, outlet.marking());
        let cnp = send::<E>(now.stamp(), bucket, outlet, frame, tx);
        if cnp == Cnp::Sent {
            record.notified(&cx, shared);
        }
        cnp
    }

    /// When the last call was made, by the caller's clock.
    pub const fn called(&self) -> Instant {
        self.common.clock.called()
    }

    /// How long after the last call to call [`NpEngineIn::wake`], at most 0.4 s. Earlier does no harm.
    #[inline]
    pub fn next_wake(&self) -> Nanos {
        if A::slot(&self.common.params).is_none() || self.flows.live() == 0 {
            return Self::REST;
        }
        let now = self.common.clock.now().stamp();
        if self.next_turn.is_due(now) { Nanos::ZERO } else { self.next_turn.since(now).min(Self::REST) }
    }

    /// Forgets a flow whose queue pair is destroyed, so that the next one of that number starts afresh.
    pub fn forget(&mut self, local: Qpn) {
        let Common { port, params, shared, clock, .. } = &mut self.common;
        self.flows.forget(&Cx { now: clock.now(), port, params }, shared, local);
    }

    /// Makes room for the records of `sets` sets, a power of two, where the memory is on the heap. Records stay.
    pub fn grow(&mut self, sets: usize) {
        let Common { port, params, shared, clock, .. } = &mut self.common;
        self.flows.grow(&Cx { now: clock.now(), port, params }, shared, sets);
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
            np_cnp_bounded: bounded,
            np_cnp_deferred: deferred,
            np_ce_ignored: ignored,
            np_acks_sent: acks_sent,
            np_acks_unaddressed: acks_unaddressed,
            np_acks_dropped: acks_dropped,
            np_flows_untracked: untracked,
            np_flows_evicted: self.flows.evicted().into(),
            np_clock_leaps: self.common.clock.leaps().into(),
            np_clock_reversals: self.common.clock.reversals().into(),
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
        self.flows.live()
    }

    #[inline]
    fn visit(&mut self, now: Instant) {
        if self.next_visit.is_due(now.stamp()) {
            self.visit_sets();
        }
    }

    /// A visit that has fallen due, and more as far as every stamp needs one in a second: no packet pays for a short pause
    /// before it.
    #[cold]
    #[inline(never)]
    fn visit_sets(&mut self) {
        let Common { port, params, shared, clock, bucket, .. } = &mut self.common;
        let cx = Cx { now: clock.now(), port, params };
        let now = cx.now.stamp();
        bucket.advance(now);
        Flows::sweep(&mut self.rest, &cx, shared);
        let mut owed = self.next_visit;
        let sets = self.flows.sets();
        for _ in 0..sets {
            owed = owed.after(Nanos::new(1_000_000_000_u32.wrapping_shr(sets.trailing_zeros())));
            let visit = Self::ROUND.get().wrapping_shr(sets.trailing_zeros());
            self.next_visit = self.next_visit.after(Nanos::new(visit));
            self.flows.sweep(&cx, shared);
            if !owed.is_due(now) {
                break;
            }
        }
        // Whatever is still due waits for nobody, and no stamp may grow old.
        for due in [&mut self.next_visit, &mut self.next_turn] {
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

/// Sends a CNP, if the port may make one and the ring takes it.
#[inline]
fn send<'a, E: Crc32>(
    now: Stamp,
    bucket: &mut Bucket,
    outlet: &CnpOutlet,
    frame: impl FnOnce() -> Response<'a>,
    tx: &mut impl Transmit,
) -> Cnp {
    bucket.advance(now);
    if !bucket.admits(now, outlet) {
        return Cnp::Bounded;
    }
    let Ok(length) = frame().emit::<E>(tx.transmit_buffer()) else {
        return Cnp::Deferred;
    };
    tx.transmit(length);
    bucket.take(outlet);
    Cnp::Sent
}

#[cfg(test)]
mod tests;
