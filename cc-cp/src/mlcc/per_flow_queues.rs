//! MLCC at the receiver's interconnect switch: a queue for each flow (PFQ), drained at the rate that the receiver grants
//! (section 3.2.2).
//!
//! ```text
//! a packet arrives by the long link: it joins its flow's queue, which is opened if there is none
//! a packet leaves that queue:         at R_credit; it carries C_D, the bytes queued behind it, and new telemetry
//! an acknowledgement passes:          if its C_R is newer, C_D = C_R, and R_credit is that of the acknowledgement
//! ```
//!
//! The packets themselves are stored by the switch. The stage returns when the next packet of a queue may leave, and is called
//! when it has left. If a packet leaves late, at most the gap of one packet is made up for, so that a burst is at most two
//! packets.
//!
//! Choices where the paper is silent:
//! - the rate of a new queue, the paper's "initial rate", is a setting: the speed of the receiver's server;
//! - flows that the table has no room for are counted, and share one queue without a rate. It is served whenever no other queue
//!   may send, and so uses what is left of the link. Its packets carry no credit, so that the receiver sees that their flow has
//!   no queue of its own;
//! - a credit is newer if it is ahead by less than half of the range of credits; the first credit of a queue is always
//!   accepted;
//! - acknowledgements identify their flow by the receiver's queue pair, which is in the shim, because that in their header is
//!   the sender's;
//! - a queue that no packet has joined or left for 1 s is removed; packets that are still in it join the shared queue.
//!
//! A flow's record has 28 bytes, of which eight are the table's. Each packet takes one reciprocal from a table. After a removal
//! the flow gets a new queue with the initial rate, and the receiver sets its credit to that of the queue.

use crate::{Cx, Emit, Event, Kind, Kinds, QueueStage, Rewrite, Verdict};
use cc_core::fixed::types::U0F8;
use cc_core::math::Reciprocal;
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::table::{SetAssocTable, SetAssocTableSnapshot};
use cc_core::wire::shim::{MlccAck, MlccData};
use cc_core::wire::{FlowKey, Roce};
use cc_core::{Bytes, Link, Nanos, Rate, Stamp, State, Zeroed};
use core::num::NonZeroU32;

cc_core::settings! {
    /// Settings of the queues.
    pub struct PerFlowQueuesSettings {
        /// The rate of a new queue; 0 is the port's speed.
        initial_rate: Mbps, 0..=1_600_000, [];
        /// The lowest rate of a queue, whatever the receiver grants.
        min_rate: Mbps, 1..=1_600_000, [];
    }
}

/// The presets, the default first.
pub const PRESETS: &[Preset<PerFlowQueuesSettings>] = &[Preset {
    name: "paper",
    source: "MLCC 4.1: servers of 25 Gb/s; the lowest rate is a thousandth of that, ours",
    values: PerFlowQueuesSettings { initial_rate: 25_000, min_rate: 25 },
}];

cc_core::zeroed! {
    /// Checked parameters.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        initial: Rate,
        least: Rate,
        line: Rate,
    }
}

impl Params {
    /// Converts settings into parameters, for the port towards the receivers.
    ///
    /// # Errors
    /// A setting out of range, or a rate above the port's.
    pub fn new(settings: &PerFlowQueuesSettings, link: &Link) -> Result<Self, ParamError> {
        settings.in_range()?;
        let line = link.line_rate;
        let initial = if settings.initial_rate == 0 { line } else { Rate::from_mbps(settings.initial_rate) };
        let least = Rate::from_mbps(settings.min_rate);
        if initial > line {
            let expected = "must be at most the speed of the port; 0 takes that";
            return Err(ParamError::Conflict { field: "initial_rate", expected });
        }
        if least > initial {
            return Err(ParamError::Conflict { field: "min_rate", expected: "must be at most the initial rate" });
        }
        Ok(Self { initial, least, line })
    }
}

/// Idle timeout: a queue without a packet for longer than this is removed.
const IDLE_TIMEOUT: Nanos = Nanos::new(1_000_000_000);
/// The longest gap after a packet: a quarter of the range of a 32-bit stamp, 1.07 s.
const LONGEST: Nanos = Nanos::new(1 << 30);

cc_core::zeroed! {
    /// A flow's queue.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    struct Queue {
        /// A second hash of the flow's key, which distinguishes flows with the same table key.
        check: u32,
        /// Bytes in the queue.
        queued: u32,
        /// R_credit.
        release: Rate,
        /// When its next packet may leave, in whole nanoseconds.
        next: Stamp,
        /// The fraction of a nanosecond to be added to `next`, in 2^-8 ns.
        next_fraction: u8,
        /// C_D; zero for none.
        credit: u16,
    }
}

const _: () = assert!(SetAssocTable::<Queue, 1, 1>::ENTRY_BYTES <= 36, "a queue has outgrown 36 bytes");

impl Queue {
    /// A packet leaves: computes when the next one may leave.
    #[expect(clippy::cast_possible_truncation, reason = "tested against LONGEST; a carry of one; eight bits")]
    fn depart(&mut self, now: Stamp, bytes: Bytes) {
        self.queued = self.queued.saturating_sub(bytes.get());
        // The bytes divided by the rate, in 2^-8 ns. The reciprocal is too low by less than 4e-6, so that the gap is increased
        // by 2^-18 of itself.
        let by = Reciprocal::of(NonZeroU32::new(self.release.to_bits()).unwrap_or(NonZeroU32::MIN));
        let gap = u64::from(bytes.get()).wrapping_mul(by.mantissa().into()) >> by.exponent();
        let gap = gap.wrapping_add(gap >> 18).wrapping_add(1).min(u64::from(LONGEST.get()) << 8);

        let whole = Nanos::new((gap >> 8) as u32);
        let start = if self.next.is_due(now) {
            let late = now.since(self.next).min(whole);
            Stamp::from_bits(now.to_bits().wrapping_sub(late.get()))
        } else {
            // A packet that leaves before its time moves `next` to at most the longest gap from now.
            now.after(self.next.since(now).min(LONGEST.saturating_sub(whole)))
        };
        let fraction = u32::from(self.next_fraction).wrapping_add((gap & 0xff) as u32);
        self.next = start.after(whole).after(Nanos::new(fraction >> 8));
        self.next_fraction = fraction as u8;
    }
}

cc_core::zeroed! {
    /// Counters of the queues.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct PerFlowQueuesCounters {
        /// Packets that joined the shared queue because there was no room for a queue of their flow.
        pub untracked: u64,
        /// Acknowledgements with a newer credit.
        pub credits_taken: u64,
        /// Acknowledgements with an older credit.
        pub credits_old: u64,
        /// Acknowledgements for flows without a queue.
        pub credits_unknown: u64,
    }
}

/// The queues of one port towards the receivers, for at most `SETS * WAYS` flows.
pub struct PerFlowQueues<const SETS: usize = 16, const WAYS: usize = 4> {
    flows: SetAssocTable<Queue, SETS, WAYS>,
    /// Bytes in the shared queue.
    shared: u32,
    counters: PerFlowQueuesCounters,
}

/// No flow has a queue.
impl<const SETS: usize, const WAYS: usize> Zeroed for PerFlowQueues<SETS, WAYS> {
    const ZEROED: Self = Self { flows: SetAssocTable::new(), shared: 0, counters: PerFlowQueuesCounters::ZEROED };
}

impl<const SETS: usize, const WAYS: usize> PerFlowQueues<SETS, WAYS> {
    /// No flow has a queue.
    pub const fn open() -> Self {
        Self::ZEROED
    }

    /// The counters.
    pub const fn counters(&self) -> PerFlowQueuesCounters {
        self.counters
    }

    /// Number of flows that have a queue.
    pub const fn occupied(&self) -> u32 {
        self.flows.occupied()
    }

    /// Processes a data packet that has arrived by the long link. Returns whether it joins its flow's own queue, and not the
    /// shared one. If a flow gets its own queue while packets of it are still in the shared one, later packets may overtake
    /// those; the transport's go-back-N then sends packets again.
    pub fn arrive(&mut self, p: &Params, now: Stamp, flow: FlowKey, bytes: Bytes) -> bool {
        let check = flow.tag_hash();
        let shared = &mut self.shared;
        let queue = self.flows.admit(flow.set_hash(), now, IDLE_TIMEOUT, |gone| {
            if let Some(gone) = gone {
                *shared = shared.saturating_add(gone.queued);
            }
            Queue { check, queued: 0, release: p.initial, next: now, next_fraction: 0, credit: 0 }
        });
        match queue {
            Some(queue) if queue.check == check => {
                queue.queued = queue.queued.saturating_add(bytes.get());
                true
            }
            _ => {
                self.shared = self.shared.saturating_add(bytes.get());
                self.counters.untracked = self.counters.untracked.wrapping_add(1);
                false
            }
        }
    }

    /// The time until the next packet of this flow may leave. Zero: at once, or if the flow has no queue of its own, when no
    /// other queue may send.
    pub fn wait(&self, now: Stamp, flow: FlowKey) -> Nanos {
        match self.queue(flow) {
            Some(queue) if !queue.next.is_due(now) => queue.next.since(now),
            _ => Nanos::ZERO,
        }
    }

    /// Bytes in the flow's own queue, or in the shared one if it has none.
    pub fn queued(&self, flow: FlowKey) -> Bytes {
        Bytes::new(self.queue(flow).map_or(self.shared, |queue| queue.queued))
    }

    /// R_credit of the flow's own queue.
    pub fn release(&self, flow: FlowKey) -> Option<Rate> {
        self.queue(flow).map(|queue| queue.release)
    }

    /// Processes a packet of the return path. Only acknowledgements have an effect.
    pub fn acknowledgement(&mut self, p: &Params, roce: &Roce<'_>) {
        if let Some(ack) = roce.mlcc_ack_shim() {
            self.acknowledged(p, FlowKey::of_reply(roce, ack.data_qpn), &ack);
        }
    }

    /// Processes an acknowledgement of this flow: accepts its credit and R_credit if the credit is newer.
    pub fn acknowledged(&mut self, p: &Params, flow: FlowKey, ack: &MlccAck) {
        let check = flow.tag_hash();
        let queue = self.flows.get_mut(flow.set_hash()).filter(|queue| queue.check == check);
        let counter = match queue {
            None => &mut self.counters.credits_unknown,
            // Zero means that there is no credit.
            Some(queue) if ack.credit == 0 || (queue.credit != 0 && !is_newer(queue.credit, ack.credit)) => {
                if queue.credit == ack.credit {
                    return;
                }
                &mut self.counters.credits_old
            }
            Some(queue) => {
                (queue.credit, queue.release) = (ack.credit, ack.release.max(p.least).min(p.line));
                &mut self.counters.credits_taken
            }
        };
        *counter = counter.wrapping_add(1);
    }

    /// Removes queues without a packet for 1 s. To be called at least once a second.
    pub fn wake(&mut self, now: Stamp) {
        let shared = &mut self.shared;
        self.flows.sweep(now, IDLE_TIMEOUT, SETS, |gone| *shared = shared.saturating_add(gone.queued));
    }

    fn queue(&self, flow: FlowKey) -> Option<&Queue> {
        self.flows.get(flow.set_hash()).filter(|queue| queue.check == flow.tag_hash())
    }
}

/// Whether credit `new` is newer than `old`: ahead of it by less than half of the 16-bit range.
const fn is_newer(old: u16, new: u16) -> bool {
    let ahead = new.wrapping_sub(old);
    ahead != 0 && ahead < 1 << 15
}

impl<const SETS: usize, const WAYS: usize> PerFlowQueues<SETS, WAYS> {
    /// Processes a data packet that leaves its queue. Returns the values to be written into its MLCC shim.
    pub fn departure(&mut self, now: Stamp, flow: FlowKey, bytes: Bytes) -> MlccData {
        let check = flow.tag_hash();
        match self.flows.get_mut(flow.set_hash()).filter(|queue| queue.check == check) {
            Some(queue) => {
                // If the packet has more bytes than its own queue, it was in the shared queue when its own queue was opened.
                let more = bytes.get().saturating_sub(queue.queued);
                self.shared = self.shared.saturating_sub(more);
                queue.depart(now, bytes);
                MlccData { credit: queue.credit, queue: Bytes::new(queue.queued) }
            }
            None => {
                self.shared = self.shared.saturating_sub(bytes.get());
                MlccData::default()
            }
        }
    }
}

cc_core::snapshot! {
    /// The queue of one flow.
    pub struct QueueSnapshot {
        /// A second hash of the flow's key, which distinguishes flows with the same table key.
        pub check: u32,
        /// Bytes in the queue.
        pub queued: Bytes,
        /// R_credit, the rate at which its packets leave.
        pub release: Rate,
        /// When its next packet may leave.
        pub next: Stamp,
        /// A fraction of a nanosecond to be added to `next`.
        pub next_fraction: U0F8,
        /// C_D; zero for none.
        pub credit: u16,
    }
}

impl State for Queue {
    type Snapshot = QueueSnapshot;

    fn snapshot(&self) -> QueueSnapshot {
        let Self { check, queued, release, next, next_fraction, credit } = *self;
        let (queued, next_fraction) = (Bytes::new(queued), U0F8::from_bits(next_fraction));
        QueueSnapshot { check, queued, release, next, next_fraction, credit }
    }

    fn from_snapshot(s: QueueSnapshot) -> Self {
        let QueueSnapshot { check, queued, release, next, next_fraction, credit } = s;
        let (queued, next_fraction) = (queued.get(), next_fraction.to_bits());
        Self { check, queued, release, next, next_fraction, credit }
    }
}

cc_core::snapshot! {
    /// The queues of one port towards the receivers.
    pub struct PerFlowQueuesSnapshot<const SETS: usize, const WAYS: usize> {
        /// The queues of flows.
        pub flows: SetAssocTableSnapshot<QueueSnapshot, SETS, WAYS>,
        /// Bytes in the shared queue.
        pub shared: Bytes,
        /// Packets that joined the shared queue because there was no room for a queue of their flow.
        pub untracked: u64,
        /// Acknowledgements with a newer credit.
        pub credits_taken: u64,
        /// Acknowledgements with an older credit.
        pub credits_old: u64,
        /// Acknowledgements for flows without a queue.
        pub credits_unknown: u64,
    }
}

impl<const SETS: usize, const WAYS: usize> State for PerFlowQueues<SETS, WAYS> {
    type Snapshot = PerFlowQueuesSnapshot<SETS, WAYS>;

    fn snapshot(&self) -> PerFlowQueuesSnapshot<SETS, WAYS> {
        let PerFlowQueuesCounters { untracked, credits_taken, credits_old, credits_unknown } = self.counters;
        let (flows, shared) = (self.flows.snapshot(), Bytes::new(self.shared));
        PerFlowQueuesSnapshot { flows, shared, untracked, credits_taken, credits_old, credits_unknown }
    }

    fn from_snapshot(s: PerFlowQueuesSnapshot<SETS, WAYS>) -> Self {
        let PerFlowQueuesSnapshot { flows, shared, untracked, credits_taken, credits_old, credits_unknown } = s;
        let counters = PerFlowQueuesCounters { untracked, credits_taken, credits_old, credits_unknown };
        Self { flows: SetAssocTable::from_snapshot(flows), shared: shared.get(), counters }
    }
}

impl<const SETS: usize, const WAYS: usize> QueueStage for PerFlowQueues<SETS, WAYS> {
    type Params = Params;
    type Settings = PerFlowQueuesSettings;

    const NAME: &'static str = "mlcc_per_flow_queues";
    const PRESETS: &'static [Preset<PerFlowQueuesSettings>] = PRESETS;
    const TAKES: Kinds = Kinds::of(&[Kind::Arrival, Kind::Departure]);
    const READS_HEADERS: bool = true;
    const REWRITES: bool = true;
    const FLOW_BYTES: usize = SetAssocTable::<Queue, 1, 1>::ENTRY_BYTES;
    const FLOWS: usize = SETS.wrapping_mul(WAYS);

    fn check(settings: &PerFlowQueuesSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn begin(&mut self, _cx: &Cx<'_, Params>, _seed: u64) {}

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>, _out: &mut impl Emit) -> Verdict {
        let (p, now) = (cx.params, cx.now.stamp());
        match *event {
            Event::Arrival { packet, .. } => {
                match (packet.data_flow(), packet.roce) {
                    (Some(flow), _) => _ = self.arrive(p, now, flow, packet.bytes),
                    (None, Some(roce)) => self.acknowledgement(p, roce),
                    (None, None) => {}
                }
                Verdict::PASS
            }
            Event::Departure { packet, ecn, .. } => {
                let (flow, data) = (packet.flow(), packet.is_data());
                let mlcc = flow.filter(|_| data).map(|flow| self.departure(now, flow, packet.bytes));
                let hold = flow.map_or(Nanos::ZERO, |flow| self.wait(now, flow));
                Verdict { hold, rewrite: Some(Rewrite { ecn, clear_int: data, mlcc }), ..Verdict::PASS }
            }
            _ => Verdict::PASS,
        }
    }

    fn wake(&mut self, cx: &Cx<'_, Params>, _out: &mut impl Emit) {
        self.wake(cx.now.stamp());
    }
}

#[cfg(test)]
mod tests;
