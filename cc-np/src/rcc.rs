//! RCC's notification point: it counts the flows that send to the port, measures delays and throughput, and assigns windows.
//!
//! Jiao Zhang et al., "RCC: Enabling Receiver-Driven RDMA Congestion Control With Congestion Divide-and-Conquer in Datacenter
//! Networks", ToN 2023, section III and Table I. First and last packets of messages give N, the number of active flows; a
//! packet's time stamp gives its one-way delay; the bytes of all packets of the port give B_R. The law of [`cc_core::rcc`]
//! computes a window from these three, and every acknowledgement carries the newest window.
//!
//! Choices where the paper is silent:
//! - N counts queue pairs with a message under way. Any packet of a flow without a message begins one, whatever its position,
//!   so that a message counts once when its first packet is lost or is sent twice; its last packet ends it. A message counts as
//!   abandoned when none of its packets has arrived for 16 to 38 base round-trip times: time is divided into epochs, flows are
//!   counted by the epoch of their last packet, and at the end of a round all but those of the latest 16 epochs are dropped. So
//!   N depends on received packets only, not on sweeps or wakes. Several messages of one queue pair count as one;
//! - B_R is measured over the last whole base round-trip time, in bytes on the line: preambles, check sequences and gaps
//!   included, so that a line full of small packets is measured as full. It is zero where no packet arrived in that time;
//! - the base round-trip time is the port's, or a setting; the least delay of each flow is measured, and kept until the flow
//!   has had no packet for 1 s;
//! - a packet without a time stamp is not a sample: its flow gets its fair share;
//! - the least window is one byte: a larger one, such as an eighth of a packet, would give more than C RTT / N to each of very
//!   many flows, and their rates together would exceed C. The sender paces a window below one packet as a rate.
//!
//! After an eviction: the flow restarts with its fair share, without PID control.

use crate::{Arrival, CnpPolicy, Cx, Event, NotificationPoint, Reply};
use cc_core::fixed::types::U0F16;
use cc_core::math::div_bitwise;
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::rcc::{CONTROLS, Gains, Law, LawParams, LawSnapshot, PRESET_SOURCES, RESPONSES};
use cc_core::table::{SetAssocTable, SetAssocTableIn, Storage};
use cc_core::wire::{CnpMarking, FRAMING};
use cc_core::{Bytes, Ecn, Grant, Instant, Link, Mark, Nanos, Qpn, State, Zeroed};

cc_core::settings! {
    /// Settings of RCC at the receiver.
    pub struct RccSettings {
        /// K_p, in 1/s.
        k_p: Count, 0..=1_000_000, ["Kp"];
        /// K_d, in 1/s.
        k_d: Count, 0..=1_000_000, ["Kd"];
        /// delta of (1) and (2).
        delta: Ppm, 1_000..=10_000_000, [];
        /// eta: utilisation of the last hop from which it counts as the bottleneck.
        eta: Ppm, 1_000..=1_000_000, [];
        /// n: samples in a row that begin PID control.
        samples: Count, 1..=15, ["n"];
        /// Part of C RTT that is divided among the flows.
        share: Ppm, 10_000..=1_000_000, [];
        /// RTT_base; 0 is the port's.
        base_rtt: Nanos, 0..=10_000_000, [];
        /// Lowest window.
        min_window: Bytes, 1..=1_000_000, [];
        /// 1: anti-windup, U does not fall below 0 while the fair share limits the window; 0: as in the paper.
        unwind: Count, 0..=1, [];
        /// DSCP of an acknowledgement; the whole TOS byte is four times this.
        ack_dscp: Count, 0..=63, [];
        /// 802.1p priority of an acknowledgement, used where the data packet had a VLAN tag.
        ack_802p_prio: Count, 0..=7, [];
        /// Function of U in (5): 1 - tanh U, 1 - sigmoid U (S1), or 2 - 2 sigmoid U (S2).
        response: Choice(RESPONSES), 0..=2, [];
        /// Parts of the law: fair share and PID control, PID control alone, or the fair share alone (EWA).
        control: Choice(CONTROLS), 0..=2, [];
    }
}

/// The gains that the paper found in use (section IV-D), with anti-windup.
pub const STABLE: RccSettings = RccSettings {
    k_p: 16,
    k_d: 7_000,
    delta: 200_000,
    eta: 950_000,
    samples: 3,
    share: 1_000_000,
    base_rtt: 0,
    min_window: 1,
    unwind: 1,
    ack_dscp: 48,
    ack_802p_prio: 6,
    response: 0,
    control: 0,
};

/// The paper's equations, with the gains of its evaluation.
pub const PAPER: RccSettings = RccSettings { k_p: 10_000, k_d: 100_000, unwind: 0, ..STABLE };

/// The presets, the default first.
pub(crate) const PRESETS: &[Preset<RccSettings>] = &[
    Preset { name: "stable", source: PRESET_SOURCES[0], values: STABLE },
    Preset { name: "paper", source: PRESET_SOURCES[1], values: PAPER },
];

cc_core::zeroed! {
    /// The checked parameters, converted to the units of the computation.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        pub(crate) law: LawParams,
        /// The part of C RTT that is divided among the flows, in bytes.
        shared: u32,
        /// 1 / (C RTT): a mantissa of 31 bits. A number of bytes times this, shifted right by `below`, is a fraction of C RTT
        /// in units of 2^-16.
        per_round: u32,
        below: u8,
        /// The binary logarithm of an epoch's nanoseconds: the least for which 14 epochs are at least 16 rounds.
        epoch: u8,
        cnp_policy: CnpPolicy,
    }
}

impl Params {
    #[expect(clippy::cast_possible_truncation, reason = "in range: below 64 and 8 and 16; quotients of 31 bits")]
    pub(crate) fn new(settings: &RccSettings, link: &Link) -> Result<Self, ParamError> {
        settings.in_range()?;
        let round = if settings.base_rtt == 0 { link.base_rtt } else { Nanos::new(settings.base_rtt) };
        let carried = link.line_rate.bytes_in(round).get();
        if !(1 << 10..=1 << 30).contains(&carried) || !(1_000..=10_000_000).contains(&round.get()) {
            return Err(ParamError::Conflict {
                field: "base_rtt",
                expected: "must be from 1 us to 10 ms, and the port must carry 1 KiB to 1 GiB in it",
            });
        }
        let gains = Gains::per_second(settings.k_p, settings.k_d);
        let (samples, unwinds) = (settings.samples as u8, settings.unwind == 1);
        let marking =
            CnpMarking { dscp: settings.ack_dscp as u8, priority: settings.ack_802p_prio as u8, ecn: Ecn::Ect0 };
        let shared = div_bitwise(u64::from(carried).wrapping_mul(settings.share.into()), 1_000_000) as u32;
        let least = Bytes::new(settings.min_window);
        let law = LawParams::new(round, gains, settings.delta, settings.eta, samples, least, unwinds);
        // From 2^30 to 2^31.
        let bits = 31_u32.wrapping_add(carried.ilog2());
        Ok(Self {
            law: law.compared(settings.response, settings.control, Bytes::new(shared)),
            shared,
            per_round: div_bitwise(1_u64.wrapping_shl(bits), carried) as u32,
            below: bits.wrapping_sub(16) as u8,
            epoch: (10..25).find(|&bits| (14 << bits) >= round.get().saturating_mul(16)).unwrap_or(25),
            cnp_policy: CnpPolicy::new(marking, Nanos::ZERO, 1),
        })
    }

    /// Class of service of acknowledgements.
    pub(crate) const fn cnp_policy(&self) -> &CnpPolicy {
        &self.cnp_policy
    }
}

/// The state that the flows of a port share: N and B_R. A round is one base round-trip time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ActiveFlowCounter {
    /// When this round began.
    began: Instant,
    /// Bytes received in this round.
    bytes: u32,
    /// C RTT / N; zero before the first flow.
    fair: Bytes,
    /// N: the sum of `epochs`.
    flows: u16,
    /// B_R of the last whole round as a fraction of C RTT, in units of 2^-16.
    in_use: u16,
    /// The number of the current epoch, modulo 2^32.
    epoch: u32,
    /// Flows with a message under way, by the epoch of their last packet, modulo [`EPOCHS`].
    epochs: [u16; EPOCHS as usize],
}

/// Number of epochs in which flows are counted.
const EPOCHS: u32 = 16;

impl ActiveFlowCounter {
    /// The state of a port before its first packet.
    pub(crate) const NONE: Self = Self {
        began: Instant::from_nanos(0),
        bytes: 0,
        fair: Bytes::ZERO,
        flows: 0,
        in_use: 0,
        epoch: 0,
        epochs: [0; 16],
    };

    /// N, at least one.
    pub fn flows(&self) -> u16 {
        self.flows.max(1)
    }

    /// B_R of the last whole round as a fraction of C RTT, in units of 2^-16.
    pub const fn in_use(&self) -> u16 {
        self.in_use
    }

    /// C RTT / N.
    pub const fn fair(&self) -> Bytes {
        self.fair
    }

    /// Counts the bytes of a packet. Begins a new round first if the last one is over. Called for each packet before the other
    /// methods.
    #[inline]
    pub(crate) fn receive(&mut self, p: &Params, now: Instant, bytes: Bytes) {
        let round = u64::from(p.law.round.get());
        let elapsed = now.nanos().wrapping_sub(self.began.nanos());
        if elapsed >= round {
            let whole = elapsed < round.wrapping_mul(2);
            self.in_use = if whole { share(self.bytes, p) } else { 0 };
            self.began = if whole { self.began.after(p.law.round) } else { now };
            self.bytes = 0;
            self.expire_epochs(p, now);
        }
        self.bytes = self.bytes.saturating_add(bytes.get().saturating_add(FRAMING));
    }

    /// Advances to the current epoch, and drops the flows whose last packet is 16 epochs old from N. Called at the end of a
    /// round.
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
    fn expire_epochs(&mut self, p: &Params, now: Instant) {
        let epoch = now.nanos().wrapping_shr(p.epoch.into()) as u32;
        let passed = epoch.wrapping_sub(self.epoch).min(EPOCHS);
        self.epoch = epoch;
        let mut gone = 0;
        for ago in 0..passed {
            gone = self.epoch_count(ago).map_or(0, core::mem::take).saturating_add(gone);
        }
        if gone > 0 {
            self.flows = self.flows.saturating_sub(gone);
            self.divide(p);
        }
    }

    /// The number of flows whose last packet came `ago` epochs ago, less than [`EPOCHS`].
    #[inline]
    fn epoch_count(&mut self, ago: u32) -> Option<&mut u16> {
        self.epochs.get_mut((self.epoch.wrapping_sub(ago) & (EPOCHS - 1)) as usize)
    }

    /// The number of the current epoch.
    #[inline]
    pub(crate) const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Whether a flow with a message under way, whose last packet came in `epoch`, is still counted in N.
    #[inline]
    pub(crate) const fn counts(&self, epoch: u32) -> bool {
        self.epoch.wrapping_sub(epoch) < EPOCHS
    }

    /// Adds a flow that begins a message.
    #[inline]
    pub(crate) fn add_flow(&mut self, p: &Params) {
        if let Some(flows) = self.epoch_count(0) {
            *flows = flows.saturating_add(1);
        }
        self.flows = self.flows.saturating_add(1);
        self.divide(p);
    }

    /// Moves a flow that [counts](Self::counts), whose last packet came in `epoch`, to the current epoch.
    #[inline]
    pub(crate) fn renew_flow(&mut self, epoch: u32) {
        if epoch != self.epoch {
            self.uncount(epoch);
            if let Some(flows) = self.epoch_count(0) {
                *flows = flows.saturating_add(1);
            }
        }
    }

    /// Removes a flow that [counts](Self::counts), whose last packet came in `epoch`: its message is over.
    #[inline]
    pub(crate) fn remove_flow(&mut self, p: &Params, epoch: u32) {
        self.uncount(epoch);
        self.flows = self.flows.saturating_sub(1);
        self.divide(p);
    }

    #[inline]
    fn uncount(&mut self, epoch: u32) {
        if let Some(flows) = self.epoch_count(self.epoch.wrapping_sub(epoch)) {
            *flows = flows.saturating_sub(1);
        }
    }

    #[inline]
    fn divide(&mut self, p: &Params) {
        self.fair = Bytes::new(p.shared.checked_div(self.flows().into()).unwrap_or(p.shared));
    }
}

cc_core::snapshot! {
    /// The state that the flows of a port share: [`ActiveFlowCounter`].
    pub struct CensusSnapshot {
        /// When this round began.
        pub began: Instant,
        /// Bytes received in this round.
        pub bytes: Bytes,
        /// C RTT / N; zero before the first flow.
        pub fair: Bytes,
        /// N: the sum of `epochs`.
        pub flows: u16,
        /// B_R of the last whole round as a fraction of C RTT.
        pub in_use: U0F16,
        /// The number of the current epoch, modulo 2^32.
        pub epoch: u32,
        /// Flows with a message under way, by the epoch of their last packet, modulo 16.
        pub epochs: [u16; EPOCHS as usize],
    }
}

impl State for ActiveFlowCounter {
    type Snapshot = CensusSnapshot;

    fn snapshot(&self) -> CensusSnapshot {
        CensusSnapshot {
            began: self.began,
            bytes: Bytes::new(self.bytes),
            fair: self.fair,
            flows: self.flows,
            in_use: U0F16::from_bits(self.in_use),
            epoch: self.epoch,
            epochs: self.epochs,
        }
    }

    fn from_snapshot(s: CensusSnapshot) -> Self {
        Self {
            began: s.began,
            bytes: s.bytes.get(),
            fair: s.fair,
            flows: s.flows,
            in_use: s.in_use.to_bits(),
            epoch: s.epoch,
            epochs: s.epochs,
        }
    }
}

/// `bytes` as a fraction of C RTT, in units of 2^-16; saturates.
#[inline]
fn share(bytes: u32, p: &Params) -> u16 {
    u16::try_from(u64::from(bytes).wrapping_mul(p.per_round.into()).wrapping_shr(p.below.into())).unwrap_or(u16::MAX)
}

/// The record of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rcc {
    law: Law,
    /// The epoch of its last packet.
    epoch: u32,
}

/// See [`NotificationPoint::idle_timeout`]: 1 s, for which a flow's least delay is kept.
const IDLE_TIMEOUT: Nanos = Nanos::new(1_000_000_000);

// The entry is the record, its key, and the time of its last packet. The paper's record has 52 bytes (Table I); they include N,
// which the flows of a port share here.
const _: () = assert!(SetAssocTable::<Rcc, 1, 1>::ENTRY_BYTES == 36, "a flow's record and key fill 36 bytes");

impl Zeroed for Rcc {
    const ZEROED: Self = Self { law: Law::ZEROED, epoch: 0 };
}

cc_core::snapshot! {
    /// A flow of RCC at the receiver.
    pub struct RccSnapshot {
        /// RCC's law.
        pub law: LawSnapshot,
        /// The epoch of its last packet, modulo 2^32.
        pub epoch: u32,
    }
}

impl State for Rcc {
    type Snapshot = RccSnapshot;

    fn snapshot(&self) -> RccSnapshot {
        RccSnapshot { law: self.law.snapshot(), epoch: self.epoch }
    }

    fn from_snapshot(s: RccSnapshot) -> Self {
        Self { law: Law::from_snapshot(s.law), epoch: s.epoch }
    }
}

impl NotificationPoint for Rcc {
    type Settings = RccSettings;
    type Params = Params;
    type Shared = ActiveFlowCounter;
    type Flows<SETS: Storage, const WAYS: usize> = SetAssocTableIn<Self, SETS, WAYS>;

    const NAME: &'static str = "rcc";
    const PRESETS: &'static [Preset<RccSettings>] = PRESETS;
    const SHARED: ActiveFlowCounter = ActiveFlowCounter::NONE;
    const REPLIES: bool = true;

    #[rustfmt::skip]
    const TRANSITIONS: &'static [&'static str] = &[
        "no message under way, data: the flow counts in N, W is the fair share",
        "a message in its first round trips or a busy port, data: W is the fair share",
        "a message on a port that is not busy, data that is not late or has no time stamp: W is the fair share",
        "a message on a port that is not busy, late data, fewer than n in a row: W is the fair share",
        "a message on a port that is not busy, late data, the n-th in a row: PID control begins",
        "PID control within a round trip, data: W stays, at most the fair share",
        "PID control a round trip later, data: W by (4) and (5)",
    ];

    fn check(settings: &RccSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn cnp_policy(params: &Params) -> &CnpPolicy {
        params.cnp_policy()
    }

    fn idle_timeout(_params: &Params) -> Nanos {
        IDLE_TIMEOUT
    }

    #[inline]
    fn reacts_to(_mark: Mark) -> bool {
        true
    }

    #[inline]
    fn open(_cx: &Cx<'_, Params>, _shared: &mut ActiveFlowCounter, _local: Option<Qpn>) -> Self {
        Self { law: Law::new(Bytes::ZERO), epoch: 0 }
    }

    fn transition(&self, cx: &Cx<'_, Params>, shared: &ActiveFlowCounter, event: &Event<'_>) -> usize {
        let Event::Arrival(arrival) = event else { return 0 };
        let (p, mut active_flows, mut law) = (&cx.params.law, *shared, self.law);
        active_flows.receive(cx.params, cx.now, arrival.bytes);
        if !self.is_counted(&active_flows) {
            return 0;
        }
        if law.is_controlled() {
            law.assign(p, cx.now, arrival.one_way(), active_flows.in_use, active_flows.fair);
            return if law.has_moved(&self.law, cx.now) { 6 } else { 5 };
        }
        law.assign(p, cx.now, arrival.one_way(), active_flows.in_use, active_flows.fair);
        if law.is_controlled() {
            4
        } else if law.is_young() || active_flows.in_use >= p.busy {
            1
        } else if law.samples() == 0 || arrival.sent.is_none() {
            2
        } else {
            3
        }
    }

    #[inline]
    fn on(&mut self, cx: &Cx<'_, Params>, shared: &mut ActiveFlowCounter, arrival: &Arrival<'_>) -> Reply {
        let (p, now) = (cx.params, cx.now);
        shared.receive(p, now, arrival.bytes);
        if self.is_counted(shared) {
            shared.renew_flow(self.epoch);
        } else {
            // If the flow has a message that was abandoned, it ends here.
            self.law.end();
            self.law.begin(&p.law, now);
            shared.add_flow(p);
        }
        self.epoch = shared.epoch();
        let window = self.law.assign(&p.law, now, arrival.one_way(), shared.in_use, shared.fair);
        let grant = Grant::Rcc { window, flows: shared.flows(), utilisation: shared.in_use };
        if arrival.last {
            self.law.end();
            shared.remove_flow(p, self.epoch);
        }
        Reply { grant, ..Reply::default() }
    }

    #[inline]
    fn on_cnp_sent(&mut self, _cx: &Cx<'_, Params>, _shared: &mut ActiveFlowCounter) {}

    fn on_evicted(&self, cx: &Cx<'_, Params>, shared: &mut ActiveFlowCounter) {
        if self.is_counted(shared) {
            shared.remove_flow(cx.params, self.epoch);
        }
    }
}

impl Rcc {
    /// The state of the law.
    pub const fn law(&self) -> &Law {
        &self.law
    }

    /// Whether the flow is counted in N.
    #[inline]
    const fn is_counted(&self, active_flows: &ActiveFlowCounter) -> bool {
        self.law.is_active() && active_flows.counts(self.epoch)
    }
}

#[cfg(test)]
mod tests;
