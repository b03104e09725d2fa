//! DCQCN+'s notification point.
//!
//! Yixiao Gao et al., "DCQCN+: Taming Large-scale Incast Congestion in RDMA over Ethernet Networks", ICNP 2018, section
//! IV-B2 (NP algorithm) and VI-D (8 bytes for a flow).
//!
//! A NIC cannot send CNPs as fast as the flows of a large incast need them. So marked flows are put on a list, which is served
//! in round-robin order: one record in each slot, and one slot each delta, the CNP generation interval. If the record's flow
//! was marked since its last CNP, and that CNP is at least 45 us old, a CNP is sent. Every CNP carries tau, the time of a round
//! over all l flows, from which senders set their timers:
//!
//! ```text
//! tau = l * delta                                                                                              (11)
//! ```
//!
//! Choices where the paper is silent:
//! - delta is 1 us: III-D measures a ConnectX-4 at about one CNP in 1 us, and V-D calculates 540 x 1 us for 540 flows;
//! - a flow is removed from the list in its slot, when it was unmarked in three of its slots in a row and its last CNP is older
//!   than `idle_time`: 100 ms in the preset `stable`, 100 us in `paper`. A flow of a large incast has a packet marked so rarely
//!   that 100 us remove it between two of its CNPs, l is then too small, and all senders raise their rates too early: the
//!   queue of 2,000 flows at 40 Gb/s is 1.7 MB, in place of 0.02 MB. A flow needs about 60 packet times of its fair rate: 300
//!   ms with 2,000 flows at 10 Gb/s;
//! - the time of the last CNP is kept in 20 bits, in units of 1,024 ns, or with an `idle_time` above 536 ms in the least power
//!   of two nanoseconds of which 2^19 are longer (32.8 us at 10 s). Before it could wrap, a slot of the flow sets it to 2^19
//!   units ago. An interval between CNPs is therefore never shorter than set, and at most two units longer;
//! - flows that find the list full share one record with datagrams, which have no connection from which a slot could take the
//!   sender's address. A marked packet of these flows causes a CNP at once, at most one each 50 us. l counts these flows too:
//!   as the number of distinct values of a 6-bit hash of their local queue pairs in this round or in the round before,
//!   whichever is larger;
//! - slots that a late wake misses are skipped, not made up for.
//!
//! A record has no address: in the flow's slot, the implementation of [`Transmit`](crate::Transmit) takes the address of the
//! CNP from the queue pair's context.
//!
//! No record is evicted: records are removed from the list as above. A new record may cause a CNP in its first slot.

use crate::{Arrival, CnpPolicy, Cx, Event, NotificationPoint, Reply, Slot};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::snapshot::flags;
use cc_core::table::{Keyed, RoundRobinTableIn, Storage};
use cc_core::wire::CnpMarking;
use cc_core::{CnpBody, CnpBodyKind, CnpKind, Ecn, Link, Mark, Nanos, Qpn, State, Zeroed};

cc_core::settings! {
    /// Settings of DCQCN+ at the receiver.
    pub struct DcqcnPlusSettings {
        /// Delta: the time from one slot to the next; one flow of the list is checked in each slot.
        cnp_generation_interval: Nanos, 100..=100_000, [];
        /// The CNPs of one flow of the list are at least this far apart.
        min_time_between_cnps: Micros, 0..=100_000, ["np_min_time_between_cnps", "MIN_TIME_BETWEEN_CNPS"];
        /// The CNPs of all flows that are not on the list are at least this far apart.
        unlisted_interval: Micros, 1..=100_000, [];
        /// A flow is removed from the list after this many of its slots in a row without a mark.
        idle_slots: Count, 1..=3, [];
        /// A flow is not removed from the list before its last CNP is this old.
        idle_time: Micros, 0..=10_000_000, [];
        /// DSCP of a CNP; the whole TOS byte is four times this.
        cnp_dscp: Count, 0..=63, ["np_cnp_dscp", "CNP_DSCP"];
        /// 802.1p priority of a CNP, used where the marked packet had a VLAN tag.
        cnp_802p_prio: Count, 0..=7, ["np_cnp_prio", "CNP_802P_PRIO"];
    }
}

/// As published, with flows that stay on the list for as long as those of large incasts need.
pub const STABLE: Preset<DcqcnPlusSettings> = Preset {
    name: "stable",
    source: "as paper, with flows that stay on the list for 100 ms after their last CNP: ours",
    values: DcqcnPlusSettings { idle_time: 100_000, ..PAPER.values },
};

/// As published.
pub const PAPER: Preset<DcqcnPlusSettings> = Preset {
    name: "paper",
    source: "DCQCN+ (ICNP 2018) IV-B2: 45 us; delta: III-D and V-D; removal and flows beyond the list: ours; DSCP, \
             priority: NVIDIA \"DCQCN CC Parameters\"",
    values: DcqcnPlusSettings {
        cnp_generation_interval: 1_000,
        min_time_between_cnps: 45,
        unlisted_interval: 50,
        idle_slots: 3,
        idle_time: 100,
        cnp_dscp: 48,
        cnp_802p_prio: 6,
    },
};

cc_core::zeroed! {
    /// The checked parameters, converted to the units of the computation.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        /// Delta.
        slot: Nanos,
        listed: Units,
        unlisted: Units,
        idle_slots: u32,
        idle: Units,
        /// The binary logarithm of a unit's nanoseconds, 10 to 15.
        unit: u8,
        cnp_policy: CnpPolicy,
    }
}

/// A time in units of the parameters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Units(u32);

impl Zeroed for Units {
    const ZEROED: Self = Self(0);
}

impl Units {
    /// The smallest difference of two times in whole units of 2^`unit` ns, both rounded down, that guarantees `micros`
    /// microseconds, at most 10 s, between them.
    #[expect(clippy::cast_possible_truncation, reason = "at most 10^10 / 2^10 + 2")]
    const fn covering(micros: u32, unit: u8) -> Self {
        match micros {
            0 => Self(0),
            _ => {
                let nanos = (micros as u64).wrapping_mul(1_000).wrapping_sub(1);
                Self((nanos.wrapping_shr(unit as u32) as u32).wrapping_add(2))
            }
        }
    }
}

/// The largest age of a CNP in a record: 2^19 units. Every interval of the settings is shorter, so that no larger age is
/// needed.
const LONG_AGO: u32 = 1 << 19;
const _: () = assert!(Units::covering(100_000, 10).0 < LONG_AGO && Units::covering(10_000_000, 15).0 < LONG_AGO);

/// The record of one flow: 64 bits, the key included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DcqcnPlus {
    /// Local queue pair (24 bits), slots in a row without a mark (2), marked (1), listed (1), lowest bits of the count of CNPs
    /// (4).
    flow: u32,
    /// When the last CNP was sent, in units of the parameters (20), highest bits of the count of CNPs (12).
    cnp: u32,
}

const MARKED: u32 = 1 << 5;
const LISTED: u32 = 1 << 4;
const IDLE: u32 = 3 << 6;
const LOW: u32 = 0xf;
const HIGH: u32 = 0xfff;

/// The state that the flows of a port share: their number, see (11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ListState {
    /// Flows on the list.
    listed: u32,
    /// Slots since the residues were last cleared.
    slots: u32,
    /// One bit for each 6-bit hash (residue) of the marked flows that are not on the list, set since `residues` was last
    /// cleared.
    residues: u64,
    /// Number of bits set in this round.
    unlisted: u8,
    /// Number of bits that were set in the round before.
    unlisted_before: u8,
}

impl ListState {
    /// Flows on the list.
    pub const fn listed(&self) -> u32 {
        self.listed
    }

    /// l of (11): the flows on the list, and the estimate of those that are not.
    pub const fn l(&self) -> u32 {
        let unlisted = if self.unlisted > self.unlisted_before { self.unlisted } else { self.unlisted_before };
        self.listed.saturating_add(unlisted as u32)
    }

    /// Called for a marked packet of a flow that is not on the list.
    #[inline]
    const fn meet(&mut self, local: Qpn) {
        // A golden-ratio (Fibonacci) hash, so that consecutive queue pair numbers have different residues.
        let residue = 1_u64 << (local.get().wrapping_mul(0x9e37_79b1) >> 26);
        if self.residues & residue == 0 {
            self.residues |= residue;
            self.unlisted = self.unlisted.saturating_add(1);
        }
    }

    /// Called in every slot. A round ends after one slot for each listed flow: the number of unlisted flows is kept as that of
    /// the round before, and counting restarts at 0.
    #[inline]
    const fn pass(&mut self) {
        self.slots = self.slots.wrapping_add(1);
        if self.slots >= self.listed {
            (self.unlisted_before, self.unlisted) = (self.unlisted, 0);
            (self.slots, self.residues) = (0, 0);
        }
    }
}

impl Zeroed for DcqcnPlus {
    const ZEROED: Self = Self { flow: 0, cnp: 0 };
}

cc_core::snapshot! {
    /// A flow of DCQCN+ at the receiver.
    pub struct DcqcnPlusSnapshot {
        /// The local queue pair.
        pub local: Qpn,
        /// When the last CNP was sent, in units of the parameters, modulo 2^20: higher bits are ignored.
        pub last_cnp: u32,
        /// CNPs sent, counted from a value taken from the clock, modulo 2^16.
        pub seq: u16,
        /// The flow was marked since the last CNP.
        pub is_marked: bool,
        /// It is on the list.
        pub is_listed: bool,
        /// Slots in a row in which it was unmarked, at most 3.
        pub idle_slots: u8,
    }
}

impl State for DcqcnPlus {
    type Snapshot = DcqcnPlusSnapshot;

    #[expect(clippy::cast_possible_truncation, reason = "two bits")]
    fn snapshot(&self) -> DcqcnPlusSnapshot {
        DcqcnPlusSnapshot {
            local: self.qpn(),
            last_cnp: self.cnp >> 12,
            seq: self.seq(),
            is_marked: self.is_marked(),
            is_listed: self.is_listed(),
            idle_slots: self.idle_slots() as u8,
        }
    }

    fn from_snapshot(s: DcqcnPlusSnapshot) -> Self {
        let idle = u32::from(s.idle_slots.min(3)) << 6;
        let flow = s.local.get() << 8 | idle | flags([(s.is_marked, MARKED), (s.is_listed, LISTED)]);
        Self { flow, cnp: s.last_cnp << 12 }.counted(s.seq.into())
    }
}

cc_core::snapshot! {
    /// The state that the flows of a port share: [`ListState`].
    pub struct ListSnapshot {
        /// Flows on the list.
        pub listed: u32,
        /// Slots since the residues were last cleared.
        pub slots: u32,
        /// One bit for each residue of the marked flows that are not on the list, set since the residues were last cleared.
        pub residues: u64,
        /// The number of these residues.
        pub unlisted: u8,
        /// Their number in the round before.
        pub unlisted_before: u8,
    }
}

impl State for ListState {
    type Snapshot = ListSnapshot;

    fn snapshot(&self) -> ListSnapshot {
        ListSnapshot {
            listed: self.listed,
            slots: self.slots,
            residues: self.residues,
            unlisted: self.unlisted,
            unlisted_before: self.unlisted_before,
        }
    }

    fn from_snapshot(s: ListSnapshot) -> Self {
        Self {
            listed: s.listed,
            slots: s.slots,
            residues: s.residues,
            unlisted: s.unlisted,
            unlisted_before: s.unlisted_before,
        }
    }
}

impl NotificationPoint for DcqcnPlus {
    type Settings = DcqcnPlusSettings;
    type Params = Params;
    type Shared = ListState;
    type Flows<SETS: Storage, const WAYS: usize> = RoundRobinTableIn<Self, SETS, WAYS>;

    const NAME: &'static str = "dcqcn_plus";
    const PRESETS: &'static [Preset<DcqcnPlusSettings>] = &[STABLE, PAPER];
    const SHARED: ListState = ListState { listed: 0, slots: 0, residues: 0, unlisted: 0, unlisted_before: 0 };

    const TRANSITIONS: &'static [&'static str] = &[
        "listed and unmarked, CE: it becomes marked",
        "listed and marked, CE: nothing",
        "not on the list and no CNP for the interval, CE: a CNP is due",
        "not on the list and a CNP within the interval, CE: it is counted in l",
        "marked and no CNP for the interval, slot: a CNP is due",
        "marked and a CNP within the interval, slot: nothing",
        "unmarked, slot: nothing",
        "unmarked for `idle_slots` and no CNP for `idle_time`, slot: it is removed from the list",
    ];

    #[expect(clippy::cast_possible_truncation, reason = "in range: below 64 and 8")]
    fn check(settings: &DcqcnPlusSettings, _link: &Link) -> Result<Params, ParamError> {
        settings.in_range()?;
        let unit = (10..15).find(|&unit| Units::covering(settings.idle_time, unit).0 < LONG_AGO).unwrap_or(15);
        let marking =
            CnpMarking { dscp: settings.cnp_dscp as u8, priority: settings.cnp_802p_prio as u8, ecn: Ecn::Ect0 };
        Ok(Params {
            slot: Nanos::new(settings.cnp_generation_interval),
            listed: Units::covering(settings.min_time_between_cnps, unit),
            unlisted: Units::covering(settings.unlisted_interval, unit),
            idle_slots: settings.idle_slots,
            idle: Units::covering(settings.idle_time, unit),
            unit,
            // No token bucket: at most one CNP is sent in a slot, which bounds the CNPs of the port.
            cnp_policy: CnpPolicy::new(marking, Nanos::ZERO, 1),
        })
    }

    fn cnp_policy(params: &Params) -> &CnpPolicy {
        &params.cnp_policy
    }

    /// Idle timeout of the shared record, 200 ms; records of the list have none.
    fn idle_timeout(_params: &Params) -> Nanos {
        Nanos::new(200_000_000)
    }

    #[inline]
    fn reacts_to(mark: Mark) -> bool {
        mark == Mark::Congested
    }

    #[inline]
    fn open(cx: &Cx<'_, Params>, shared: &mut ListState, local: Option<Qpn>) -> Self {
        // The count of CNPs starts at sixteen bits of the clock.
        let clock = cx.now.stamp().to_bits() >> 10;
        let (qpn, listed) = match local {
            Some(local) => {
                shared.listed = shared.listed.saturating_add(1);
                (local.get(), LISTED)
            }
            None => (0, 0),
        };
        let cnp = now_in_units(cx).wrapping_sub(LONG_AGO) << 12;
        Self { flow: qpn << 8 | listed, cnp }.counted(clock)
    }

    fn transition(&self, cx: &Cx<'_, Params>, _shared: &ListState, event: &Event<'_>) -> usize {
        let age = self.age(cx);
        match event {
            Event::Arrival(_) if self.is_listed() => usize::from(self.is_marked()),
            Event::Arrival(_) if age >= cx.params.unlisted => 2,
            Event::Arrival(_) => 3,
            Event::Slot if self.is_marked() && age >= cx.params.listed => 4,
            Event::Slot if self.is_marked() => 5,
            Event::Slot if self.idle_slots() < cx.params.idle_slots.wrapping_sub(1) || age < cx.params.idle => 6,
            Event::Slot => 7,
        }
    }

    #[inline]
    fn on(&mut self, cx: &Cx<'_, Params>, shared: &mut ListState, arrival: &Arrival<'_>) -> Reply {
        if self.is_listed() {
            self.flow = (self.flow | MARKED) & !IDLE;
            return Reply::default();
        }
        shared.meet(arrival.local);
        let age = self.age(cx);
        let due = age >= cx.params.unlisted;
        Reply { cnp: due.then(|| self.body(cx.params, shared)), ..Reply::default() }
    }

    #[inline]
    fn on_cnp_sent(&mut self, cx: &Cx<'_, Params>, _shared: &mut ListState) {
        let cnp = now_in_units(cx) << 12;
        *self = Self { flow: self.flow & !MARKED, cnp }.counted(u32::from(self.seq()).wrapping_add(1));
    }

    #[inline]
    fn on_evicted(&self, _cx: &Cx<'_, Params>, shared: &mut ListState) {
        if self.is_listed() {
            shared.listed = shared.listed.saturating_sub(1);
        }
    }

    #[inline]
    fn slot_interval(params: &Params) -> Option<Nanos> {
        Some(params.slot)
    }

    #[inline]
    fn slot(&mut self, cx: &Cx<'_, Params>, shared: &mut ListState) -> Slot {
        shared.pass();
        let age = self.age(cx);
        // Limits the age of the last CNP to 2^19 units, before the 20-bit time of that CNP could wrap.
        if age.0 >= LONG_AGO {
            self.cnp = now_in_units(cx).wrapping_sub(LONG_AGO) << 12 | self.cnp & HIGH;
        }
        if self.is_marked() {
            return if age >= cx.params.listed {
                Slot::Notify { local: self.qpn(), body_kind: self.body(cx.params, shared) }
            } else {
                Slot::Skip
            };
        }
        let idle_slots = self.idle_slots().saturating_add(1).min(3);
        self.flow = self.flow & !IDLE | idle_slots << 6;
        if idle_slots >= cx.params.idle_slots && age >= cx.params.idle { Slot::Remove } else { Slot::Skip }
    }
}

impl Keyed for DcqcnPlus {
    #[inline]
    fn qpn(&self) -> Qpn {
        Qpn::new(self.flow >> 8)
    }
}

/// The time in units of the parameters; records keep the lowest 20 bits.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
const fn now_in_units(cx: &Cx<'_, Params>) -> u32 {
    cx.now.nanos().wrapping_shr(cx.params.unit as u32) as u32
}

impl DcqcnPlus {
    /// Whether the flow was marked since its last CNP.
    #[inline]
    pub const fn is_marked(&self) -> bool {
        self.flow & MARKED != 0
    }

    /// Slots in a row, at most three, in which it was unmarked.
    #[inline]
    pub const fn idle_slots(&self) -> u32 {
        (self.flow & IDLE) >> 6
    }

    /// CNPs sent, counted from a value taken from the clock.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "sixteen bits, of two parts")]
    pub const fn seq(&self) -> u16 {
        ((self.cnp & HIGH) << 4 | self.flow & LOW) as u16
    }

    #[inline]
    const fn is_listed(&self) -> bool {
        self.flow & LISTED != 0
    }

    /// Time since the last CNP, modulo 2^20 units.
    #[inline]
    const fn age(&self, cx: &Cx<'_, Params>) -> Units {
        Units(now_in_units(cx).wrapping_sub(self.cnp >> 12) & 0x000f_ffff)
    }

    /// The record with its count of CNPs set to the lowest sixteen bits of `seq`.
    #[inline]
    const fn counted(self, seq: u32) -> Self {
        Self { flow: self.flow & !LOW | seq & LOW, cnp: self.cnp & !HIGH | (seq >> 4) & HIGH }
    }

    /// The body of the next CNP.
    #[inline]
    fn body(&self, params: &Params, shared: &ListState) -> CnpBodyKind {
        let period = Nanos::new(shared.l().saturating_mul(params.slot.get()));
        let seq = self.seq().wrapping_add(1);
        CnpBodyKind::Extended(CnpBody { kind: CnpKind::Period, ce: true, seq, period, ..CnpBody::default() })
    }
}

#[cfg(test)]
mod tests;
