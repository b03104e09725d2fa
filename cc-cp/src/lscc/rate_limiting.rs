//! LSCC's rate limiting: sends direct CNPs to the sources of this datacentre, so that they keep to the rate that the receiver's
//! end of the long link sends as feedback.
//!
//! M. Long et al., section III-B, Eq. 10 and Algorithm 2, at the queue towards the long link:
//!
//! ```text
//! q* = max(0, q* + bytes in - R dt)                                             (10), R is the far end's feedback
//! each t_dcnp, while q* >= Q*ref: a direct CNP to each flow that is marked, or that has sent less than a threshold
//! each T_reset: the marks of all flows are removed
//! a packet with CE: its flow is marked, and the packet is sent on with ECT(0): this switch sends the CNP
//! a CNP from the far datacentre: its flow is marked, and the CNP is sent on
//! ```
//!
//! With the pseudo queue q* the sources settle at R without a real queue. A flow that has sent more than the long link carries
//! in a round trip, and is not marked, has its bottleneck elsewhere, and gets no direct CNP.
//!
//! The preset `paper` is this law. Closed loops with DCQCN do not hold with it, for three reasons, each with its remedy in the
//! preset `stable`:
//! - CNPs are sent until q* is below Q*ref, although it already falls, and each of them cuts the rates further. In `stable`
//!   there are none while q* falls and is below 3 Q*ref (`falling`).
//! - If no flow is marked, none is notified once all have passed the threshold, and q* grows to gigabytes. In `stable` every
//!   flow is notified from 1.25 Q*ref on (`everyone`). Without CNPs of the receivers, all flows then have the rate of the
//!   smallest bottleneck, as in the paper's Fig. 9b.
//! - The CE of a port before this one is removed, and is answered only while q* is at Q*ref or above: four senders at 40 Gb/s
//!   through one port of 100 Gb/s were paused by PFC for a third of the time. In `stable` it is answered at once (`answer_ce`).
//!
//! T_reset is 2 ms in `stable`, four intervals of normal CNPs: with 0.5 ms marks expire between two of these, and the rates of
//! flows differ more.
//!
//! With both stages in `stable`, DCQCN's R_AI at 150 Mb/s and normal CNPs each 500 us, 2, 5 and 16 flows to one host of 40 Gb/s
//! have fair rates, and a queue near Q_ref from 30 ms on (LSCC IV-B, Fig. 8). The claim of Fig. 9b is met by neither preset: of
//! five flows to two hosts, three get 20 % less, and two up to 25 % less, than 13.3 and 20 Gb/s, because one R limits both
//! groups.
//!
//! Deviations:
//! - a direct CNP is made from the flow's next packet, and not from a list of addresses: records contain no addresses, no event
//!   iterates over the table, and a flow that sends nothing needs no CNP;
//! - the direct CNP identifies the flow by the receiver's queue pair (`remote_qpn`, `names_remote_qpn`), because data packets
//!   do not carry the sender's;
//! - a CNP from the far datacentre marks the flow that its body identifies. A standard CNP has only the sender's queue pair,
//!   which data packets do not carry; it marks all flows between its two addresses;
//! - the paper does not define how R changes without feedback, or what happens with feedback out of order: here R rises after 4
//!   T, and old feedback is dropped, see [`FeedbackCounters`].
//!
//! The settings t_dcnp, T_reset and the threshold are not in the paper: see [`PRESETS`].
//!
//! After an eviction a flow counts as new, and gets direct CNPs until it has sent the threshold again.

use super::pseudo_queue::{self, FeedbackCounters, PseudoQueue, PseudoQueueSnapshot, count};
use super::rate_calculation::Feedback;
use crate::{Cx, Emit, Event, Kind, Kinds, PeerMessage, QueueStage, Rewrite, Verdict};
use cc_core::math::{Divider, div_bitwise};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::table::{SetAssocTable, SetAssocTableSnapshot};
use cc_core::wire::{FlowKey, RateMessage, Roce};
use cc_core::{Bytes, CnpBody, CnpBodyKind, CnpKind, Ecn, Link, Nanos, Qpn, Rate, Stamp, State, Zeroed};
use core::num::NonZeroU32;

cc_core::settings! {
    /// Settings of rate limiting.
    pub struct RateLimitingSettings {
        /// Q*_ref: the pseudo queue from which direct CNPs are sent.
        reference: Bytes, 0..=0x7fff_ffff, ["Q*_ref"];
        /// t_dcnp: the notification period, in which a flow gets at most one direct CNP.
        notify_period: Nanos, 1_000..=100_000_000, ["t_dcnp"];
        /// T_reset: the time from one removal of all marks to the next.
        reset_period: Nanos, 1_000..=100_000_000, ["T_reset"];
        /// A flow that has sent less than this is new; 0: what the port sends in 1.25 round trips of the long link.
        threshold: Bytes, 0..=0xffff_ffff, [];
        /// D: the one-way delay of the long link, for `threshold`.
        delay: Nanos, 0..=100_000_000, ["D"];
        /// T: the period of the far end's rate calculation.
        period: Nanos, 1_000..=10_000_000, ["T"];
        /// dR: the amount by which R rises in each period without feedback.
        slew: Mbps, 1..=1_600_000, ["dR"];
        /// Delta_F: the far end sends rates as multiples of this.
        unit: Mbps, 1..=1_000, ["Delta_F"];
        /// While q* falls, direct CNPs are sent only from this share of Q*_ref on; 100 is the paper's law.
        falling: Percent, 100..=10_000, [];
        /// From this share of Q*_ref on every flow gets direct CNPs, marked or not; 0 is never, the paper's law.
        everyone: Percent, 0..=10_000, [];
        /// When a packet with CE is answered by a direct CNP: while q* is at Q*_ref or above (the paper), or always.
        answer_ce: Choice(&["limited", "always"]), 0..=1, [];
    }
}

/// The values of the preset `stable`.
pub const STABLE: RateLimitingSettings = RateLimitingSettings {
    reference: 2_000_000,
    notify_period: 50_000,
    reset_period: 2_000_000,
    threshold: 0,
    delay: 1_000_000,
    period: 200_000,
    slew: 700,
    unit: 1,
    falling: 300,
    everyone: 125,
    answer_ce: 1,
};
/// The values of the preset `paper`.
pub const PAPER: RateLimitingSettings =
    RateLimitingSettings { reset_period: 500_000, slew: 1_000, falling: 100, everyone: 0, answer_ce: 0, ..STABLE };
/// The values of the preset `testbed`.
pub const TESTBED: RateLimitingSettings =
    RateLimitingSettings { reference: 200_000, delay: 500_000, slew: 50, ..STABLE };

/// The presets, the default first.
pub const PRESETS: &[Preset<RateLimitingSettings>] = &[
    Preset {
        name: "stable",
        source: "`paper` without CNPs while q* falls below 3 Q*_ref, with CNPs for every flow from 1.25 Q*_ref on and for each \
                 CE, T_reset = 2 ms and dR = 0.7 Gb/s, ours: measured, see the documentation of the module",
        values: STABLE,
    },
    Preset {
        name: "paper",
        source: "LSCC IV-B: Q*_ref = 2 MB, T = 200 us, dR = 1 Gb/s, D = 1 ms; t_dcnp a tenth of the normal CNP interval of \
                 500 us, T_reset as that interval, ours",
        values: PAPER,
    },
    Preset {
        name: "testbed",
        source: "LSCC IV-A, the DPDK testbed: Q*_ref = 200 KB, dR = 50 Mb/s, D = 500 us; the rest as in `stable`",
        values: TESTBED,
    },
];

impl RateLimitingSettings {
    /// The shortest time between two CNPs that a receiver should send to a flow with these settings: ten times that of direct
    /// CNPs. With less, the late CNPs of the receiver disturb the control loop of the direct ones (LSCC III-B, and IV-B, Fig.
    /// 9b).
    pub const fn normal_period(&self) -> Nanos {
        Nanos::new(self.notify_period.saturating_mul(10))
    }
}

cc_core::zeroed! {
    /// Checked parameters.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        reference: u64,
        /// The least q* at which CNPs are sent while it falls, and at which every flow gets them.
        falling: u64,
        everyone: u64,
        answer_ce: bool,
        notify: Ticks,
        reset: Ticks,
        threshold: u32,
        unit: u32,
        queue: pseudo_queue::Params,
    }
}

cc_core::zeroed! {
    /// A periodic event, each `length` nanoseconds.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Ticks {
        length: u32,
        divider: Divider,
    }
}

impl Ticks {
    fn every(length: u32) -> Option<Self> {
        NonZeroU32::new(length).map(|length| Self { length: length.get(), divider: Divider::new(length) })
    }

    /// The last tick at or before `now`, of those at `due` and later; `None` if `now` is before `due`.
    fn last(self, due: Stamp, now: Stamp) -> Option<Stamp> {
        if !due.is_due(now) {
            return None;
        }
        let late = now.since(due).get();
        Some(due.after(Nanos::new(self.divider.quotient(late).wrapping_mul(self.length))))
    }
}

impl Params {
    /// Converts settings into parameters, for a long link of the port's speed.
    ///
    /// # Errors
    /// A setting out of range; a threshold below what the link carries in a round trip.
    pub fn new(settings: &RateLimitingSettings, link: &Link) -> Result<Self, ParamError> {
        settings.in_range()?;
        let none = ParamError::Conflict { field: "notify_period", expected: "must not be zero" };
        let (Some(notify), Some(reset)) = (Ticks::every(settings.notify_period), Ticks::every(settings.reset_period))
        else {
            return Err(none);
        };
        let one_way = link.line_rate.bytes_in(Nanos::new(settings.delay));
        let round_trip = one_way.saturating_add(one_way);
        let threshold = match settings.threshold {
            0 => round_trip.saturating_add(Bytes::new(round_trip.get() >> 2)),
            threshold => Bytes::new(threshold),
        };
        if threshold < round_trip {
            return Err(ParamError::Conflict {
                field: "threshold",
                expected: "must be at least what the link carries in a round trip",
            });
        }
        // A share of the reference, in bytes: per cent times bytes is below 2^45.
        let share = |percent: u32| div_bitwise(u64::from(settings.reference).wrapping_mul(percent.into()), 100);
        Ok(Self {
            reference: settings.reference.into(),
            falling: share(settings.falling),
            everyone: if settings.everyone == 0 { u64::MAX } else { share(settings.everyone) },
            answer_ce: settings.answer_ce == 1,
            notify,
            reset,
            threshold: threshold.get(),
            unit: settings.unit,
            queue: pseudo_queue::Params {
                period: Nanos::new(settings.period),
                slew: Rate::from_mbps(settings.slew),
                line: link.line_rate,
            },
        })
    }
}

/// The queue pair number in the key of the record for all flows between two addresses: that of multicast, which no flow has.
const ALL: Qpn = Qpn::new(0x00ff_ffff);
/// The record of a flow that has sent nothing for longer than this is removed.
const IDLE_TIMEOUT: Nanos = Nanos::new(2_000_000_000);

cc_core::zeroed! {
    /// The record of one flow. With the eight bytes of the table an entry has 20 bytes.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    struct Flow {
        /// A second hash of the flow's key, which distinguishes flows with the same table key.
        check: u32,
        /// Bytes that it has sent, at most the threshold.
        sent: u32,
        /// The reset period in which it was last marked.
        marked: u16,
        /// The notification period in which its sender last got a CNP.
        notified: u16,
    }
}

const _: () = assert!(
    size_of::<SetAssocTable<Flow, 2, 1>>() <= size_of::<SetAssocTable<Flow, 1, 1>>() + 28,
    "a flow has outgrown 28 bytes"
);

/// The state of one long link's port and priority, with records of at most `SETS * WAYS` flows.
pub struct RateLimiting<const SETS: usize = 16, const WAYS: usize = 4> {
    queue: PseudoQueue,
    notify_at: Stamp,
    reset_at: Stamp,
    /// Number of the current reset period, from 1; never zero.
    reset: u16,
    /// Number of the current notification period, from 1; never zero.
    notify: u16,
    /// The reset period in which all flows between two addresses were last marked.
    pairs: u16,
    /// Direct CNPs are sent in this period.
    notifying: bool,
    /// They are sent to every flow.
    everyone: bool,
    /// q* when this period began.
    at_tick: Bytes,
    /// Number of direct CNPs sent so far.
    notified: u32,
    flows: SetAssocTable<Flow, SETS, WAYS>,
}

/// Counters of a port and priority of a long link.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RateLimitingCounters {
    /// Counters of the feedback from the receiver's end.
    pub feedback: FeedbackCounters,
    /// Direct CNPs sent.
    pub notified: u32,
    /// Records evicted for another flow's within 2 s of their last packet; their flows count as new again.
    pub flows_evicted: u32,
}

impl<const SETS: usize, const WAYS: usize> Zeroed for RateLimiting<SETS, WAYS> {
    const ZEROED: Self = Self {
        queue: PseudoQueue::ZEROED,
        notify_at: Stamp::ZEROED,
        reset_at: Stamp::ZEROED,
        reset: 0,
        notify: 0,
        pairs: 0,
        notifying: false,
        everyone: false,
        at_tick: Bytes::ZERO,
        notified: 0,
        flows: SetAssocTable::new(),
    };
}

impl<const SETS: usize, const WAYS: usize> RateLimiting<SETS, WAYS> {
    /// A port before its first packet. R is the port's speed until the first feedback.
    pub const fn open(p: &Params, now: Stamp) -> Self {
        let mut machine = Self::ZEROED;
        machine.begin(p, now);
        machine
    }

    /// Initializes a zeroed state in place. The result is that of [`RateLimiting::open`].
    pub const fn begin(&mut self, p: &Params, now: Stamp) {
        self.queue = PseudoQueue::open(&p.queue, now);
        self.notify_at = now.after(Nanos::new(p.notify.length));
        self.reset_at = now.after(Nanos::new(p.reset.length));
        (self.reset, self.notify) = (1, 1);
    }

    /// q*.
    pub fn pseudo_queue(&self) -> Bytes {
        self.queue.len()
    }

    /// R as of the last event.
    pub const fn rate(&self) -> Rate {
        self.queue.rate()
    }

    /// The counters.
    pub fn counters(&self) -> RateLimitingCounters {
        let (feedback, notified) = (self.queue.counters(), self.notified);
        RateLimitingCounters { feedback, notified, flows_evicted: self.flows.evicted() }
    }

    /// Processes a feedback message of the receiver's end.
    pub fn on_message(&mut self, p: &Params, now: Stamp, message: &RateMessage) {
        self.on_rate(p, now, &Feedback::of(message, p.unit));
    }

    /// Processes the feedback of the receiver's end. Feedback that is not newer than the last is dropped.
    pub fn on_rate(&mut self, p: &Params, now: Stamp, feedback: &Feedback) {
        self.pass_time(p, now);
        self.queue.on_rate(&p.queue, now, feedback);
    }

    /// Processes a packet from the far datacentre: a CNP marks its flow, and any other packet is ignored.
    pub fn cnp(&mut self, p: &Params, now: Stamp, cnp: &Roce<'_>) {
        match cnp.cnp() {
            Some(CnpBodyKind::Extended(body)) if body.remote_qpn != Qpn::new(0) => {
                self.notified(p, now, FlowKey::of_reply(cnp, body.remote_qpn));
            }
            Some(_) => {
                self.notified(p, now, FlowKey::of_reply(cnp, ALL));
                self.pairs = self.reset;
            }
            None => {}
        }
    }

    /// Marks a flow of this datacentre, for which a CNP of the far datacentre has arrived.
    pub fn notified(&mut self, p: &Params, now: Stamp, flow: FlowKey) {
        self.pass_time(p, now);
        let reset = self.reset;
        if let Some(flow) = self.flow(now, flow) {
            flow.marked = reset;
        }
    }

    /// Processes the passing of time. To be called at least once a second.
    pub fn wake(&mut self, p: &Params, now: Stamp) {
        self.pass_time(p, now);
        self.flows.sweep(now, IDLE_TIMEOUT, SETS, |_| {});
    }

    /// The changes by time alone: the queue drains, R rises, periods begin.
    fn pass_time(&mut self, p: &Params, now: Stamp) {
        if let Some(tick) = p.notify.last(self.notify_at, now) {
            self.queue.pass_time(&p.queue, tick);
            let queue = self.queue.len();
            let least = if queue < self.at_tick { p.falling } else { p.reference };
            self.notifying = u64::from(queue.get()) >= least;
            self.everyone = u64::from(queue.get()) >= p.everyone;
            self.at_tick = queue;
            self.notify = self.notify.wrapping_add(1).max(1);
            self.notify_at = tick.after(Nanos::new(p.notify.length));
        }
        if let Some(tick) = p.reset.last(self.reset_at, now) {
            self.reset = self.reset.wrapping_add(1).max(1);
            self.reset_at = tick.after(Nanos::new(p.reset.length));
        }
        self.queue.pass_time(&p.queue, now);
    }

    /// Whether there is a record of this key that was marked since the last reset.
    fn is_marked(&self, key: FlowKey) -> bool {
        let entry = self.flows.get(key.set_hash());
        entry.is_some_and(|entry| entry.check == key.tag_hash() && entry.marked == self.reset)
    }

    /// The record of a flow, a new one if it has none.
    fn flow(&mut self, now: Stamp, key: FlowKey) -> Option<&mut Flow> {
        let new = Flow { check: key.tag_hash(), sent: 0, marked: 0, notified: 0 };
        let (flow, _) = self.flows.lookup_or_insert(key.set_hash(), now, IDLE_TIMEOUT, |_| new)?;
        if flow.check != new.check {
            *flow = new;
        }
        Some(flow)
    }
}

impl<const SETS: usize, const WAYS: usize> RateLimiting<SETS, WAYS> {
    /// Counts a packet that joins the queue towards the long link.
    pub fn enqueue(&mut self, p: &Params, now: Stamp, bytes: Bytes) {
        self.pass_time(p, now);
        self.queue.enqueue(bytes);
    }

    /// Processes a packet that leaves for the long link. Returns the ECN bits with which it is sent, and whether its sender is
    /// to get a direct CNP. `flow` is `None` for a packet without data.
    pub fn departure(&mut self, p: &Params, now: Stamp, flow: Option<FlowKey>, bytes: Bytes, ecn: Ecn) -> (Ecn, bool) {
        self.pass_time(p, now);
        let Some(key) = flow else { return (ecn, false) };
        let (reset, notify) = (self.reset, self.notify);
        let (notifying, everyone, answered) = (self.notifying, self.everyone, p.answer_ce && ecn == Ecn::Ce);
        let with_its_pair = self.pairs == reset && self.is_marked(FlowKey { data_qpn: ALL, ..key });
        let Some(flow) = self.flow(now, key) else { return (ecn, false) };
        if with_its_pair || ecn == Ecn::Ce {
            flow.marked = reset;
        } else if flow.marked != reset {
            // An old mark is cleared. Otherwise it would count again when the number of the period wraps.
            flow.marked = 0;
        }
        let is_new = flow.sent < p.threshold;
        flow.sent = flow.sent.saturating_add(bytes.get()).min(p.threshold);
        let limited = notifying && (everyone || is_new || flow.marked == reset);
        let due = (limited || answered) && flow.notified != notify;
        if due {
            flow.notified = notify;
            count(&mut self.notified);
        }
        (if ecn == Ecn::Ce { Ecn::Ect0 } else { ecn }, due)
    }
}

cc_core::snapshot! {
    /// A flow of LSCC's rate limiting.
    pub struct FlowSnapshot {
        /// A second hash of the flow's key, which distinguishes flows with the same table key.
        pub check: u32,
        /// Bytes that it has sent, at most the threshold.
        pub sent: Bytes,
        /// The reset period in which it was last marked.
        pub marked: u16,
        /// The notification period in which its sender last got a CNP.
        pub notified: u16,
    }
}

impl State for Flow {
    type Snapshot = FlowSnapshot;

    fn snapshot(&self) -> FlowSnapshot {
        let Self { check, sent, marked, notified } = *self;
        FlowSnapshot { check, sent: Bytes::new(sent), marked, notified }
    }

    fn from_snapshot(s: FlowSnapshot) -> Self {
        Self { check: s.check, sent: s.sent.get(), marked: s.marked, notified: s.notified }
    }
}

cc_core::snapshot! {
    /// A queue of LSCC's rate limiting.
    pub struct RateLimitingSnapshot<const SETS: usize, const WAYS: usize> {
        /// The pseudo queue.
        pub queue: PseudoQueueSnapshot,
        /// When the next notification period begins.
        pub notify_at: Stamp,
        /// When the marks of all flows are removed next.
        pub reset_at: Stamp,
        /// Number of the current reset period, from 1; zero is read as 1.
        pub reset: u16,
        /// Number of the current notification period, from 1; zero is read as 1.
        pub notify: u16,
        /// The reset period in which all flows between two addresses were last marked.
        pub pairs: u16,
        /// Direct CNPs are sent in this period.
        pub is_notifying: bool,
        /// They are sent to every flow.
        pub is_for_everyone: bool,
        /// q* when this period began.
        pub at_tick: Bytes,
        /// Number of direct CNPs sent so far.
        pub notified: u32,
        /// The flows.
        pub flows: SetAssocTableSnapshot<FlowSnapshot, SETS, WAYS>,
    }
}

impl<const SETS: usize, const WAYS: usize> State for RateLimiting<SETS, WAYS> {
    type Snapshot = RateLimitingSnapshot<SETS, WAYS>;

    fn snapshot(&self) -> RateLimitingSnapshot<SETS, WAYS> {
        RateLimitingSnapshot {
            queue: self.queue.snapshot(),
            notify_at: self.notify_at,
            reset_at: self.reset_at,
            reset: self.reset,
            notify: self.notify,
            pairs: self.pairs,
            is_notifying: self.notifying,
            is_for_everyone: self.everyone,
            at_tick: self.at_tick,
            notified: self.notified,
            flows: self.flows.snapshot(),
        }
    }

    fn from_snapshot(s: RateLimitingSnapshot<SETS, WAYS>) -> Self {
        Self {
            queue: PseudoQueue::from_snapshot(s.queue),
            notify_at: s.notify_at,
            reset_at: s.reset_at,
            reset: s.reset.max(1),
            notify: s.notify.max(1),
            pairs: s.pairs,
            notifying: s.is_notifying,
            everyone: s.is_for_everyone,
            at_tick: s.at_tick,
            notified: s.notified,
            flows: SetAssocTable::from_snapshot(s.flows),
        }
    }
}

impl<const SETS: usize, const WAYS: usize> QueueStage for RateLimiting<SETS, WAYS> {
    type Params = Params;
    type Settings = RateLimitingSettings;

    const NAME: &'static str = "lscc_rate_limiting";
    const PRESETS: &'static [Preset<RateLimitingSettings>] = PRESETS;
    const TAKES: Kinds = Kinds::of(&[Kind::Arrival, Kind::Enqueue, Kind::Departure, Kind::Peer]);
    const READS_HEADERS: bool = true;
    const REWRITES: bool = true;
    const FLOW_BYTES: usize = SetAssocTable::<Flow, 1, 1>::ENTRY_BYTES;
    const FLOWS: usize = SETS.wrapping_mul(WAYS);

    fn check(settings: &RateLimitingSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn begin(&mut self, cx: &Cx<'_, Params>, _seed: u64) {
        self.begin(cx.params, cx.now.stamp());
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>, out: &mut impl Emit) -> Verdict {
        let now = cx.now.stamp();
        match *event {
            Event::Arrival { packet, .. } => {
                if let Some(roce) = packet.roce {
                    self.cnp(cx.params, now, roce);
                }
                Verdict::PASS
            }
            Event::Enqueue { bytes } => {
                self.enqueue(cx.params, now, bytes);
                Verdict::PASS
            }
            Event::Departure { packet, ecn, .. } => {
                let flow = packet.data_flow();
                let (ecn, due) = self.departure(cx.params, now, flow, packet.bytes, ecn);
                if let (Some(flow), Some(roce), true) = (flow, packet.roce, due) {
                    out.cnp(roce, direct(flow.data_qpn), None);
                }
                Verdict { rewrite: Some(Rewrite { ecn, ..Rewrite::default() }), ..Verdict::PASS }
            }
            Event::Peer(PeerMessage::Rate(message)) => {
                self.on_message(cx.params, now, &message);
                Verdict::PASS
            }
            _ => Verdict::PASS,
        }
    }

    fn wake(&mut self, cx: &Cx<'_, Params>, _out: &mut impl Emit) {
        self.wake(cx.params, cx.now.stamp());
    }

    fn pseudo_queue(&self) -> Option<(Bytes, Rate)> {
        Some((self.queue.len(), self.queue.rate()))
    }
}

/// The body of a direct CNP.
fn direct(data_qpn: Qpn) -> CnpBody {
    CnpBody { kind: CnpKind::Direct, ce: true, names_remote_qpn: true, remote_qpn: data_qpn, ..CnpBody::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::wire::{Addresses, FRAMING, Mac, RateFrame, Tags};
    use core::net::Ipv6Addr;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec::Vec;

    const LINK: Link =
        Link { line_rate: Rate::from_gbps(200), mtu: Bytes::new(1_000), base_rtt: Nanos::new(2_000_000) };
    type Machine = RateLimiting<16, 4>;

    struct Bench {
        params: Params,
        machine: Machine,
    }

    impl Bench {
        fn new() -> Self {
            Self::with(&PAPER)
        }

        fn with(settings: &RateLimitingSettings) -> Self {
            let params = Params::new(settings, &LINK).unwrap();
            Self { machine: Machine::open(&params, Stamp::from_bits(0)), params }
        }

        fn on_rate(&mut self, now: u32, seq: u16, gbps: u32) {
            let rate = Rate::from_gbps(gbps);
            let feedback = Feedback { units: 0, rate, seq, unchanged: false, at_minimum: false, at_maximum: false };
            self.machine.on_rate(&self.params, Stamp::from_bits(now), &feedback);
        }

        /// A data packet of so many bytes on the line joins the queue and leaves. Returns its ECN bits, and whether its sender
        /// gets a direct CNP.
        fn sends(&mut self, now: u32, flow: u32, bytes: u32, ecn: Ecn) -> (Ecn, bool) {
            self.machine.enqueue(&self.params, Stamp::from_bits(now), Bytes::new(bytes - FRAMING));
            self.machine.departure(&self.params, Stamp::from_bits(now), Some(key(flow)), Bytes::new(bytes), ecn)
        }
    }

    fn key(flow: u32) -> FlowKey {
        FlowKey { peers: flow.wrapping_mul(77), data_qpn: Qpn::new(flow) }
    }

    #[test]
    fn the_pseudo_queue_grows_by_the_bytes_that_arrive_and_drains_at_the_rate_of_the_feedback() {
        let mut bench = Bench::new();
        bench.on_rate(0, 1, 40);
        for packet in 0..1_000 {
            bench.sends(packet * 100, 1, 1_000, Ecn::Ect0); // 80 Gb/s
        }
        // 1 MB arrived, and 40 Gb/s drained it for 99.9 us.
        assert_eq!(bench.machine.pseudo_queue().get(), 1_000_000 - 5 * 99_900);
        bench.machine.wake(&bench.params, Stamp::from_bits(199_900));
        assert_eq!(bench.machine.pseudo_queue().get(), 500);
        bench.machine.wake(&bench.params, Stamp::from_bits(200_900));
        assert_eq!(bench.machine.pseudo_queue().get(), 0);
    }

    #[test]
    fn above_the_reference_each_new_flow_gets_one_direct_cnp_in_each_period() {
        let mut bench = Bench::new();
        bench.on_rate(0, 1, 1);
        let mut notified = |now, flow, bytes| bench.sends(now, flow, bytes, Ecn::Ect0).1;
        assert!(!notified(10, 1, 2_100_000), "the period has not begun yet");
        assert!(notified(50_000, 7, 1_000));
        assert!(!notified(60_000, 7, 1_000));
        assert!(notified(60_000, 8, 1_000), "another flow");
        assert!(notified(100_000, 7, 1_000), "another period");
    }

    #[test]
    fn a_long_flow_gets_direct_cnps_only_while_it_is_marked() {
        let mut bench = Bench::new();
        bench.on_rate(0, 1, 1);
        // A round trip and a quarter: 62.5 MB.
        bench.sends(10, 1, 62_500_000, Ecn::Ect0);
        assert_eq!(bench.sends(100_000, 1, 1_000, Ecn::Ect0), (Ecn::Ect0, false));
        assert_eq!(bench.sends(110_000, 1, 1_000, Ecn::Ce), (Ecn::Ect0, true), "this switch sends the CNP");
        assert!(bench.sends(160_000, 1, 1_000, Ecn::Ect0).1, "still marked");
        assert!(!bench.sends(510_000, 1, 1_000, Ecn::Ect0).1, "reset at 500 us");
        bench.machine.notified(&bench.params, Stamp::from_bits(520_000), key(1));
        assert!(bench.sends(560_000, 1, 1_000, Ecn::Ect0).1, "marked by a CNP from the far datacentre");
    }

    /// A direct CNP for a flow at each of these ticks of t_dcnp, at each of which it sends a packet, after `arrives` bytes have
    /// arrived before the tick and `rate` Gb/s have drained the queue since the tick before.
    fn notified_at(bench: &mut Bench, steps: &[(u32, u32)]) -> Vec<bool> {
        let mut step = |(nth, &(arrives, rate)): (usize, &(u32, u32))| {
            let tick = (nth as u32 + 1) * 50_000;
            bench.on_rate(tick - 50_000, nth as u16 + 1, rate);
            bench.machine.enqueue(&bench.params, Stamp::from_bits(tick - 50_000), Bytes::new(arrives));
            bench.sends(tick, 1, 1_000, Ecn::Ect0).1
        };
        steps.iter().enumerate().map(&mut step).collect()
    }

    #[test]
    fn while_the_pseudo_queue_falls_no_flow_is_notified_below_three_times_the_reference() {
        // 40 Gb/s drain 250 kB in 50 us: q* is about 2.3, 2.1, 2.6, 6.4, 6.1, 5.9 and 5.9 MB.
        let steps = [(2_300_000, 0), (0, 40), (500_000, 0), (3_750_000, 0), (0, 40), (0, 40), (0, 0)];
        let stable = notified_at(&mut Bench::with(&STABLE), &steps);
        assert_eq!(stable, [true, false, true, true, true, false, true]);
        assert_eq!(notified_at(&mut Bench::new(), &steps), [true; 7], "the paper's law");
    }

    #[test]
    fn from_five_quarters_of_the_reference_every_flow_is_notified() {
        for (settings, above) in [(PAPER, false), (STABLE, true)] {
            let mut bench = Bench::with(&settings);
            // A flow that has passed the threshold and is not marked.
            bench.on_rate(0, 1, 200);
            bench.sends(10, 1, 62_500_000, Ecn::Ect0);
            bench.machine.wake(&bench.params, Stamp::from_bits(49_000_000));
            bench.on_rate(49_000_000, 2, 0);
            let mut tick = 50_000_000;
            for (arrives, due) in [(2_400_000, false), (90_000, false), (100_000, above)] {
                bench.machine.enqueue(&bench.params, Stamp::from_bits(tick - 10), Bytes::new(arrives));
                assert_eq!(bench.sends(tick, 1, 1_000, Ecn::Ect0).1, due, "{}", bench.machine.pseudo_queue().get());
                tick += 50_000;
            }
        }
    }

    #[test]
    fn a_packet_with_ce_is_answered_at_once_and_once_in_a_period() {
        let ce = |bench: &mut Bench, now, flow| bench.sends(now, flow, 1_000, Ecn::Ce);
        let mut stable = Bench::with(&STABLE);
        assert_eq!(ce(&mut stable, 1_000, 1), (Ecn::Ect0, true));
        assert_eq!(ce(&mut stable, 2_000, 1), (Ecn::Ect0, false));
        assert_eq!(ce(&mut stable, 2_000, 2), (Ecn::Ect0, true), "another flow");
        assert_eq!(stable.sends(50_000, 1, 1_000, Ecn::Ect0), (Ecn::Ect0, false), "marked, but q* is short");
        assert_eq!(ce(&mut stable, 50_000, 1), (Ecn::Ect0, true), "another period");
        assert_eq!(ce(&mut Bench::new(), 1_000, 1), (Ecn::Ect0, false), "the paper's law");
    }

    /// Packets that wait at a port that is paused are in the pseudo queue.
    #[test]
    fn the_pseudo_queue_has_the_packets_that_have_not_left() {
        let mut bench = Bench::new();
        bench.on_rate(0, 1, 200);
        for packet in 0..4_000 {
            bench.machine.enqueue(&bench.params, Stamp::from_bits(packet * 20), Bytes::new(1_000 - FRAMING));
        }
        // 50 bytes a nanosecond arrive, and 25 leave.
        assert_eq!(bench.machine.pseudo_queue().get(), 4_000_000 - 25 * 3_999 * 20);
    }

    #[test]
    fn old_feedback_is_dropped_and_without_feedback_the_rate_rises() {
        let mut bench = Bench::new();
        bench.on_rate(0, 5, 40);
        bench.on_rate(10, 4, 10);
        bench.on_rate(20, 5, 20);
        assert_eq!(bench.machine.rate(), Rate::from_gbps(40));
        bench.machine.wake(&bench.params, Stamp::from_bits(999_999));
        assert_eq!(bench.machine.rate(), Rate::from_gbps(40), "it does not change for four periods");
        bench.machine.wake(&bench.params, Stamp::from_bits(1_400_000));
        assert_eq!(bench.machine.rate(), Rate::from_gbps(43));
        bench.machine.wake(&bench.params, Stamp::from_bits(900_000_000));
        assert_eq!(bench.machine.rate(), LINK.line_rate);
        bench.on_rate(900_000_010, 6, 30);
        assert_eq!(bench.machine.rate(), Rate::from_gbps(30));
    }

    /// A message of the receiver's end, encoded to the bytes on the wire and decoded.
    fn decoded(seq: u16, units: u32, keepalive: bool) -> Option<RateMessage> {
        let message = RateMessage { seq, units, keepalive, ..RateMessage::default() };
        let addresses = Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::from_bits(2) };
        let (mac, tags) = (Mac::new([2; 6]), Tags::NONE);
        let mut frame = [0; RateFrame::LONGEST];
        let sent = RateFrame { destination: mac, source: mac, tags, addresses, dscp: 48, message };
        let length = sent.emit(&mut frame).unwrap();
        RateMessage::parse(&frame[..length], length).ok()
    }

    #[test]
    fn messages_may_be_lost_late_repeated_or_overtaken() {
        let mut bench = Bench::new();
        let mut rate_after = |now: u32, message: Option<RateMessage>| {
            let now = Stamp::from_bits(now);
            if let Some(message) = message {
                bench.machine.on_message(&bench.params, now, &message);
            }
            bench.machine.wake(&bench.params, now);
            (u64::from(bench.machine.rate().to_bits()) * 8_000 + (1 << 23)) >> 24 // Mb/s
        };
        assert_eq!(rate_after(0, decoded(65_534, 40_000, false)), 40_000);
        assert_eq!(
            rate_after(200_000, decoded(0, 41_000, false)),
            41_000,
            "one message was lost, and the number has wrapped"
        );
        assert_eq!(
            rate_after(210_000, decoded(65_535, 39_000, false)),
            41_000,
            "the lost message had only been overtaken"
        );
        assert_eq!(rate_after(220_000, decoded(0, 41_000, false)), 41_000, "a message sent twice");
        // Up to four periods without feedback R does not rise.
        assert_eq!(rate_after(1_190_000, decoded(1, 30_000, false)), 30_000);
        // A keepalive repeats the rate and restarts the four periods.
        for seq in 2..40_u16 {
            assert_eq!(rate_after(1_190_000 + u32::from(seq - 1) * 900_000, decoded(seq, 30_000, true)), 30_000);
        }
        let last = 1_190_000 + 38 * 900_000;
        // Without feedback, after four periods: R rises by 1 Gb/s at the end of each further period.
        assert_eq!(rate_after(last + 999_999, None), 30_000);
        assert_eq!(rate_after(last + 1_400_000, None), 33_000);
        assert_eq!(rate_after(last + 1_400_001, decoded(7, 20_000, false)), 20_000, "a restarted switch counts from 0");
        assert_eq!(rate_after(last + 1_400_002, decoded(6, 50_000, false)), 20_000);
        let counters = bench.machine.counters();
        assert_eq!(counters.feedback, FeedbackCounters { taken: 42, old: 3, lost: 1 });
    }

    #[test]
    fn missing_feedback_is_counted_once_until_the_next_message() {
        let mut bench = Bench::new();
        for round in 1..4_u32 {
            let start = round * 1_000_000_000;
            bench.on_rate(start, 1, 10);
            for wake in 1..900_u32 {
                bench.machine.wake(&bench.params, Stamp::from_bits(start + wake * 1_000_000));
            }
            assert_eq!(bench.machine.rate(), LINK.line_rate);
            assert_eq!(bench.machine.counters().feedback.lost, round);
        }
    }

    #[test]
    fn the_period_of_normal_cnps_is_ten_times_that_of_direct_ones() {
        for preset in PRESETS {
            assert_eq!((preset.values.notify_period, preset.values.normal_period().get()), (50_000, 500_000));
        }
    }

    #[test]
    fn an_old_mark_has_no_effect_after_the_number_of_the_period_wraps() {
        let mut bench = Bench::new();
        bench.on_rate(0, 1, 1);
        bench.sends(1, 1, 63_000_000, Ecn::Ce);
        let mut now = 0_u64;
        while bench.machine.reset != 1 || now == 0 {
            now += 500_000;
            assert!(!bench.sends(now as u32, 1, 200_000, Ecn::Ect0).1, "{now}");
            bench.on_rate(now as u32, (now / 500_000) as u16, 0);
        }
    }

    #[test]
    fn a_threshold_below_a_round_trip_is_refused() {
        let error =
            Params::new(&RateLimitingSettings { threshold: 49_000_000, ..PAPER }, &LINK).unwrap_err().to_string();
        assert_eq!(error, "threshold: must be at least what the link carries in a round trip");
    }

    #[test]
    fn flows_without_a_record_count_as_new() {
        let mut bench = Bench::new();
        bench.on_rate(0, 1, 1);
        bench.sends(10, 0, 10_000_000, Ecn::Ect0);
        for flow in 0..1_000 {
            assert!(bench.sends(100_000, flow, 1_000, Ecn::Ect0).1, "{flow}");
        }
    }

    #[test]
    fn other_ecn_bits_and_packets_without_data_stay_unchanged() {
        let mut bench = Bench::new();
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
            assert_eq!(bench.sends(1, 1, 100, ecn), (ecn, false));
        }
        let ack = bench.machine.departure(&bench.params, Stamp::from_bits(2), None, Bytes::new(60), Ecn::Ce);
        assert_eq!(ack, (Ecn::Ce, false));
    }

    proptest! {
        #[test]
        fn wakes_change_nothing(steps in prop::collection::vec((0..400_000_u32, 0..6_u32, 60..9_000_u32, 0..10_u8), 1..100)) {
            let (mut woken, mut left) = (Bench::new(), Bench::new());
            let mut now = 0_u32;
            for (step, (gap, flow, bytes, kind)) in steps.into_iter().enumerate() {
                for part in 1..8 {
                    woken.machine.wake(&woken.params, Stamp::from_bits(now + gap / 8 * part));
                }
                now += gap;
                let both = [&mut woken, &mut left];
                let outcomes: Vec<_> = both.into_iter().map(|bench| match kind {
                    0 => {
                        bench.on_rate(now, step as u16, bytes % 100);
                        None
                    }
                    1 => Some(bench.sends(now, flow, bytes * 200, Ecn::Ce)),
                    _ => Some(bench.sends(now, flow, bytes * 200, Ecn::Ect0)),
                }).collect();
                prop_assert_eq!(outcomes[0], outcomes[1]);
                prop_assert_eq!(woken.machine.rate(), left.machine.rate());
                // The queue is rounded at each wake, by less than 2^-8 bytes.
                let queues = [&left, &woken].map(|bench| bench.machine.pseudo_queue().get());
                prop_assert!(queues[0].abs_diff(queues[1]) <= step as u32 / 32 + 1, "{:?}", queues);
            }
        }
    }
}
