//! Where bytes meet state at the receiver: a frame comes in, a CNP goes out.

use crate::outlet::Bucket;
use crate::{Arrival, Cx, NotificationPoint, Reply};
use cc_core::clock::LocalClock;
use cc_core::table::PeerTable;
use cc_core::wire::opcode::Transport;
use cc_core::wire::{Crc32, Frame, Roce, Version};
use cc_core::{Ecn, Instant, Nanos, Port, Qpn, Stamp};

/// The one key of the datagrams' record.
const ALL_DATAGRAMS: Qpn = Qpn::new(0);

/// What became of the CNP for one frame.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Cnp {
    /// None was due.
    #[default]
    None,
    /// It is written; send this many bytes of the buffer.
    Written(usize),
    /// The sender's queue pair is not known. Nothing was written, and the next marked packet is asked again.
    Unaddressed,
    /// The port has made as many as it may. It stays due.
    Bounded,
    /// The buffer is too small, or there is none: the transmit ring is full. It stays due.
    Deferred,
}

/// The answer to one frame.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Answer {
    /// What the machine said; nothing for a frame that it does not see.
    pub reply: Reply,
    /// What became of the CNP.
    pub cnp: Cnp,
}

/// What a port's notification point has counted.
///
/// Every packet marked CE is in exactly one of the six below it:
/// `np_ecn_marked_roce_packets = np_cnp_sent + np_cnp_not_due + np_cnp_unaddressed + np_cnp_bounded +
/// np_cnp_deferred + np_ce_ignored`, for machines that notify on marked packets only.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NpCounters {
    /// RoCEv2 packets that came with CE, whatever they carry.
    pub np_ecn_marked_roce_packets: u64,
    /// CNPs written.
    pub np_cnp_sent: u64,
    /// Marked data packets for which the machine called for no CNP: the interval was running.
    pub np_cnp_not_due: u64,
    /// Marked data packets of connections whose remote queue pair is not known.
    pub np_cnp_unaddressed: u64,
    /// CNPs that the bound on the port held back.
    pub np_cnp_bounded: u64,
    /// CNPs that a full transmit ring held back.
    pub np_cnp_deferred: u64,
    /// Marked packets that call for no notification: not data (acknowledgements, CNPs, requests), a transport without
    /// congestion control, or a port whose notification point is off.
    pub np_ce_ignored: u64,
    /// Records given up for another flow's while they still meant something.
    pub np_flows_evicted: u64,
    /// Steps of the caller's clock forward by more than a second.
    pub np_clock_leaps: u64,
    /// Steps of the caller's clock back.
    pub np_clock_reversals: u64,
}

impl NpCounters {
    const NONE: Self = Self {
        np_ecn_marked_roce_packets: 0,
        np_cnp_sent: 0,
        np_cnp_not_due: 0,
        np_cnp_unaddressed: 0,
        np_cnp_bounded: 0,
        np_cnp_deferred: 0,
        np_ce_ignored: 0,
        np_flows_evicted: 0,
        np_clock_leaps: 0,
        np_clock_reversals: 0,
    };

    /// The counters with their names.
    pub const fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("np_ecn_marked_roce_packets", self.np_ecn_marked_roce_packets),
            ("np_cnp_sent", self.np_cnp_sent),
            ("np_cnp_not_due", self.np_cnp_not_due),
            ("np_cnp_unaddressed", self.np_cnp_unaddressed),
            ("np_cnp_bounded", self.np_cnp_bounded),
            ("np_cnp_deferred", self.np_cnp_deferred),
            ("np_ce_ignored", self.np_ce_ignored),
            ("np_flows_evicted", self.np_flows_evicted),
            ("np_clock_leaps", self.np_clock_leaps),
            ("np_clock_reversals", self.np_clock_reversals),
        ]
    }
}

/// The notification point of one port, with records of at most `SETS * WAYS` flows.
///
/// Flows of connected services (RC, UC, XRC) are known by the local queue pair number in their packets, which is
/// unique in a NIC. Datagrams (UD) are not told apart: all of a port share one record, so that a port answers them
/// as it answers one flow, each CNP going to the source queue pair in the DETH of the packet that caused it.
///
/// The engine must be called at least once a second, by [`NpEngine::frame`] or [`NpEngine::wake`]: it keeps 32-bit
/// stamps, and visits each of them once a second, in proportion to the time since the last call.
pub struct NpEngine<A: NotificationPoint, const SETS: usize, const WAYS: usize> {
    port: Port,
    params: A::Params,
    enabled: bool,
    clock: LocalClock,
    /// When the next set of the table is to be visited.
    next_visit: Stamp,
    flows: PeerTable<A, SETS, WAYS>,
    /// One record, that ages as those of flows do.
    datagrams: PeerTable<A, 1, 1>,
    bucket: Bucket,
    counters: NpCounters,
}

impl<A: NotificationPoint, const SETS: usize, const WAYS: usize> NpEngine<A, SETS, WAYS> {
    /// Every set is visited once in a second.
    #[expect(clippy::integer_division, clippy::cast_possible_truncation, reason = "evaluated at compile time only")]
    const VISIT: Nanos = Nanos::new((1_000_000_000 / SETS) as u32);

    /// The notification point of `port`, switched on, with no flow known. `params` come from
    /// [`NotificationPoint::check`] for this port.
    pub const fn new(start: Instant, port: Port, params: A::Params) -> Self {
        Self {
            port,
            params,
            enabled: true,
            clock: LocalClock::new(start),
            next_visit: start.stamp(),
            flows: PeerTable::new(A::BLANK),
            datagrams: PeerTable::new(A::BLANK),
            bucket: Bucket::full(start.stamp()),
            counters: NpCounters::NONE,
        }
    }

    /// Goes on with new parameters. Records and counters stay; the port's bucket is full again.
    pub fn set_params(&mut self, params: A::Params) {
        self.params = params;
        self.bucket = Bucket::full(self.clock.now().stamp());
    }

    /// Switches the notification point of the whole port on or off; it has no priorities of its own.
    pub const fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    /// Whether the notification point is on.
    pub const fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Takes a received frame, whose ICRC has been checked, and writes the CNP that is due for it into `tx`.
    ///
    /// `remote` is the sender's queue pair number, which the connection knows and the packet does not say; datagrams
    /// say it. `tx` is the next free buffer of the transmit ring, or empty when there is none.
    ///
    /// A CNP that could not be sent leaves the flow's record as it was, so that the next marked packet calls for it
    /// again. Without `remote` there is no record: strangers displace no one.
    #[inline]
    pub fn frame<E: Crc32>(&mut self, now: Instant, roce: &Roce<'_>, remote: Option<Qpn>, tx: &mut [u8]) -> Answer {
        let now = self.advance(now);
        let answer = self.answer::<E>(now, roce, remote, tx);
        self.visit(now.stamp());
        answer
    }

    #[inline]
    fn answer<E: Crc32>(&mut self, now: Instant, roce: &Roce<'_>, remote: Option<Qpn>, tx: &mut [u8]) -> Answer {
        let marked = roce.ecn == Ecn::Ce && roce.version() == Version::V2;
        let counters = &mut self.counters;
        count(&mut counters.np_ecn_marked_roce_packets, marked);

        let transport = Transport::of(roce.bth.opcode);
        let tracked = matches!(transport, Transport::Rc | Transport::Uc | Transport::Xrc | Transport::Ud);
        let data = roce.info.class().carries_data() && roce.version() == Version::V2;
        if !self.enabled || !tracked || !data {
            count(&mut counters.np_ce_ignored, marked);
            return Answer::default();
        }
        if !A::wants(roce.ecn) {
            return Answer::default();
        }
        let source = roce.deth().map(|deth| deth.source_qp);
        let Some(to) = source.or(remote) else {
            count(&mut counters.np_cnp_unaddressed, marked);
            return Answer { cnp: Cnp::Unaddressed, ..Answer::default() };
        };

        let cx = Cx { now, port: &self.port, params: &self.params };
        let memory = A::memory(cx.params);
        let open = || A::open(&cx);
        let touched = if source.is_some() {
            self.datagrams.touch(ALL_DATAGRAMS, now.stamp(), memory, open)
        } else {
            self.flows.touch(roce.bth.dest_qp, now.stamp(), memory, open)
        };
        // Every number belongs to a set.
        let Some((record, _)) = touched else { return Answer::default() };
        let arrival = Arrival {
            psn: roce.bth.psn,
            bytes: roce.wire_len,
            ecn: roce.ecn,
            first: roce.info.first(),
            last: roce.info.last(),
        };
        let reply = record.on(&cx, &arrival);
        let Some(hint) = reply.cnp else {
            count(&mut counters.np_cnp_not_due, marked);
            return Answer { reply, cnp: Cnp::None };
        };

        let outlet = A::outlet(cx.params);
        if !self.bucket.admits(now.stamp(), outlet) {
            count(&mut counters.np_cnp_bounded, true);
            return Answer { reply, cnp: Cnp::Bounded };
        }
        let Ok(len) = Frame::cnp(roce, to, hint, outlet.marking()).emit::<E>(tx) else {
            count(&mut counters.np_cnp_deferred, true);
            return Answer { reply, cnp: Cnp::Deferred };
        };
        self.bucket.take(outlet);
        record.notified(&cx);
        count(&mut counters.np_cnp_sent, true);
        Answer { reply, cnp: Cnp::Written(len) }
    }

    /// Lets time pass on a port that receives nothing.
    pub fn wake(&mut self, now: Instant) {
        let now = self.advance(now);
        self.visit(now.stamp());
    }

    /// Forgets a flow whose queue pair is destroyed, so that the next one of that number starts afresh.
    pub fn forget(&mut self, local: Qpn) {
        self.flows.forget(local);
    }

    /// What was counted since the start.
    pub fn counters(&self) -> NpCounters {
        NpCounters {
            np_flows_evicted: self.flows.evicted().into(),
            np_clock_leaps: self.clock.leaps().into(),
            np_clock_reversals: self.clock.reversals().into(),
            ..self.counters
        }
    }

    /// Flows that have a record.
    pub const fn live_flows(&self) -> u32 {
        self.flows.live()
    }

    #[inline]
    fn advance(&mut self, now: Instant) -> Instant {
        let now = self.clock.advance(now);
        self.bucket.advance(now.stamp());
        now
    }

    #[inline]
    fn visit(&mut self, now: Stamp) {
        if self.next_visit.is_due(now) {
            self.visit_sets(now);
        }
    }

    /// The visits that have fallen due: local time never leaps by more than a second, so they are at most all sets
    /// and one.
    #[cold]
    #[inline(never)]
    fn visit_sets(&mut self, now: Stamp) {
        let memory = A::memory(&self.params);
        while self.next_visit.is_due(now) {
            self.next_visit = self.next_visit.after(Self::VISIT);
            self.flows.sweep(now, memory, 1);
            self.datagrams.sweep(now, memory, 1);
        }
    }
}

#[inline]
fn count(counter: &mut u64, event: bool) {
    *counter = counter.wrapping_add(u64::from(event));
}

#[cfg(test)]
mod tests;
