//! DCQCN's notification point.
//!
//! Y. Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 3 (NP algorithm),
//! as restated by Y. Gao et al., "DCQCN+", ICNP 2018, section II-B.2; NIC behaviour by section III-B of the latter.
//!
//! A packet marked CE causes a CNP if none was sent for its flow within the interval N, and is ignored otherwise. The CNP is
//! sent at once, not at the end of an interval. With N = 0 every marked packet causes a CNP, as on a ConnectX-4.
//!
//! Deviations: a bound on the CNPs of the whole port, where the paper assumes a NIC that sends the CNPs of all flows at any
//! rate; `cnp_sequence`, a sequence number in each CNP, off by default.
//!
//! After an eviction: the next marked packet of the flow causes a CNP although N may not have passed. The CNP is then early; no
//! CNP is lost. The count of `cnp_sequence` restarts at a value taken from the clock (bits 10 to 25 of the time in
//! nanoseconds), which is seldom the number of a recent CNP.

use crate::{Arrival, CnpPolicy, Cx, Event, NotificationPoint, Reply};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::table::{SetAssocTable, SetAssocTableIn, Storage};
use cc_core::wire::CnpMarking;
use cc_core::{CnpBody, CnpBodyKind, CnpKind, Ecn, Link, Mark, Nanos, Qpn, Stamp, State, Zeroed};

cc_core::settings! {
    /// Settings of DCQCN at the receiver.
    pub struct DcqcnSettings {
        /// N: the CNPs of one flow are at least this far apart; 0 = one CNP per marked packet.
        min_time_between_cnps: Micros, 0..=131_071, ["np_min_time_between_cnps", "MIN_TIME_BETWEEN_CNPS"];
        /// DSCP of a CNP; the whole TOS byte is four times this.
        cnp_dscp: Count, 0..=63, ["np_cnp_dscp", "CNP_DSCP"];
        /// 802.1p priority of a CNP, used where the marked packet had a VLAN tag.
        cnp_802p_prio: Count, 0..=7, ["np_cnp_prio", "CNP_802P_PRIO"];
        /// The port sends at most one CNP in this time on average, whatever the number of flows; 0 = no bound.
        cnp_port_interval: Nanos, 0..=100_000, [];
        /// CNPs that the port may send back to back after an idle time.
        cnp_port_burst: Count, 1..=10_000, [];
        /// 1: the reserved bytes of a CNP carry a count of the flow's CNPs; 0: they are zero, as in the standard.
        cnp_sequence: Count, 0..=1, [];
    }
}

/// As published.
pub const PAPER: Preset<DcqcnSettings> = Preset {
    name: "paper",
    source: "DCQCN+ (ICNP'18) II-B.2 and Table I: N = 50 us; DSCP, priority: NVIDIA \"DCQCN CC Parameters\"; \
             port bound: ours, above the packet rate of 1,000-byte packets at 80 Gb/s",
    values: DcqcnSettings {
        min_time_between_cnps: 50,
        cnp_dscp: 48,
        cnp_802p_prio: 6,
        cnp_port_interval: 100,
        cnp_port_burst: 1_000,
        cnp_sequence: 0,
    },
};

/// The values of current firmware.
pub const VENDOR: Preset<DcqcnSettings> = Preset {
    name: "vendor",
    source: "NVIDIA \"DCQCN CC Parameters\" and public mlxconfig dumps (0, 2 or 4 us by firmware: the newest); \
             port bound: ours, as in `paper`",
    values: DcqcnSettings { min_time_between_cnps: 4, ..PAPER.values },
};

/// The measured behaviour of a ConnectX-4.
pub const CX4: Preset<DcqcnSettings> = Preset {
    name: "cx4",
    source: "DCQCN+ (ICNP'18) Table I: N = 0; section III-D: a ConnectX-4 makes about one CNP per us",
    values: DcqcnSettings { min_time_between_cnps: 0, cnp_port_interval: 1_000, cnp_port_burst: 1, ..PAPER.values },
};

cc_core::zeroed! {
    /// The checked parameters, converted to the units of the computation.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        /// N.
        interval: Nanos,
        /// See [`NotificationPoint::idle_timeout`].
        idle_timeout: Nanos,
        sequence: bool,
        cnp_policy: CnpPolicy,
    }
}

impl Params {
    /// The parameters of settings that are in range, such as those of a preset. For other settings call
    /// [`NotificationPoint::check`].
    #[expect(clippy::cast_possible_truncation, reason = "in range: below 64 and 8")]
    pub const fn new(settings: &DcqcnSettings) -> Self {
        let marking =
            CnpMarking { dscp: settings.cnp_dscp as u8, priority: settings.cnp_802p_prio as u8, ecn: Ecn::Ect0 };
        let interval = Nanos::new(settings.min_time_between_cnps.wrapping_mul(1_000));
        let sequence = settings.cnp_sequence == 1;
        Self {
            interval,
            idle_timeout: if sequence { SEQUENCE_TIMEOUT } else { interval },
            sequence,
            cnp_policy: CnpPolicy::new(marking, Nanos::new(settings.cnp_port_interval), settings.cnp_port_burst),
        }
    }
}

/// Idle timeout of a record with a count of CNPs: 1 s, the longest that [`NotificationPoint::idle_timeout`] allows, and longer
/// than any interval N.
const SEQUENCE_TIMEOUT: Nanos = Nanos::new(1_000_000_000);

/// The record of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Dcqcn {
    /// When the last CNP was sent; valid while `silent`.
    last_cnp: Stamp,
    /// CNPs sent, counted from a value taken from the clock.
    seq: u16,
    /// N has not yet passed since the last CNP. A separate flag, so that `last_cnp` is not used after the 32-bit stamp has
    /// wrapped.
    silent: bool,
}

// The entry is the record, its key, and the time of its last packet.
const _: () = assert!(SetAssocTable::<Dcqcn, 1, 1>::ENTRY_BYTES == 16, "a flow's record and key fill 16 bytes");

impl Zeroed for Dcqcn {
    const ZEROED: Self = Self { last_cnp: Stamp::from_bits(0), seq: 0, silent: false };
}

cc_core::snapshot! {
    /// A flow of DCQCN at the receiver.
    pub struct DcqcnSnapshot {
        /// When the last CNP was sent, while `is_silent`.
        pub last_cnp: Stamp,
        /// CNPs sent, counted from a value taken from the clock, modulo 2^16.
        pub seq: u16,
        /// N has not yet passed since the last CNP.
        pub is_silent: bool,
    }
}

impl State for Dcqcn {
    type Snapshot = DcqcnSnapshot;

    fn snapshot(&self) -> DcqcnSnapshot {
        DcqcnSnapshot { last_cnp: self.last_cnp, seq: self.seq, is_silent: self.silent }
    }

    fn from_snapshot(s: DcqcnSnapshot) -> Self {
        Self { last_cnp: s.last_cnp, seq: s.seq, silent: s.is_silent }
    }
}

impl NotificationPoint for Dcqcn {
    type Settings = DcqcnSettings;
    type Params = Params;
    type Shared = ();
    type Flows<SETS: Storage, const WAYS: usize> = SetAssocTableIn<Self, SETS, WAYS>;

    const NAME: &'static str = "dcqcn";
    const PRESETS: &'static [Preset<DcqcnSettings>] = &[PAPER, VENDOR, CX4];
    const SHARED: () = ();

    const TRANSITIONS: &'static [&'static str] =
        &["no CNP for N, marked CE: a CNP is due", "a CNP within N, marked CE: nothing"];

    fn check(settings: &DcqcnSettings, _link: &Link) -> Result<Params, ParamError> {
        settings.in_range()?;
        Ok(Params::new(settings))
    }

    fn cnp_policy(params: &Params) -> &CnpPolicy {
        &params.cnp_policy
    }

    fn idle_timeout(params: &Params) -> Nanos {
        params.idle_timeout
    }

    #[inline]
    fn reacts_to(mark: Mark) -> bool {
        mark == Mark::Congested
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "any sixteen bits of the clock serve as the start")]
    fn open(cx: &Cx<'_, Params>, _shared: &mut (), _local: Option<Qpn>) -> Self {
        let clock = cx.now.stamp();
        Self { last_cnp: clock, seq: (clock.to_bits() >> 10) as u16, silent: false }
    }

    fn transition(&self, cx: &Cx<'_, Params>, _shared: &(), _event: &Event<'_>) -> usize {
        usize::from(self.waits(cx))
    }

    #[inline]
    fn on(&mut self, cx: &Cx<'_, Params>, _shared: &mut (), arrival: &Arrival<'_>) -> Reply {
        self.silent = self.waits(cx);
        let due = arrival.mark == Mark::Congested && !self.silent;
        Reply { cnp: due.then(|| self.body(cx.params)), ..Reply::default() }
    }

    #[inline]
    fn on_cnp_sent(&mut self, cx: &Cx<'_, Params>, _shared: &mut ()) {
        *self = Self { last_cnp: cx.now.stamp(), seq: self.seq.wrapping_add(1), silent: true };
    }
}

impl Dcqcn {
    /// Time since the last CNP, while that is less than N.
    pub fn since_cnp(&self, cx: &Cx<'_, Params>) -> Option<Nanos> {
        self.waits(cx).then(|| cx.now.stamp().since(self.last_cnp))
    }

    /// Whether N has yet to pass since the last CNP.
    #[inline]
    fn waits(&self, cx: &Cx<'_, Params>) -> bool {
        self.silent && cx.now.stamp().since(self.last_cnp) < cx.params.interval
    }

    /// The body of the next CNP.
    #[inline]
    fn body(&self, params: &Params) -> CnpBodyKind {
        if !params.sequence {
            return CnpBodyKind::Standard;
        }
        let seq = self.seq.wrapping_add(1);
        CnpBodyKind::Extended(CnpBody { kind: CnpKind::Standard, ce: true, seq, ..CnpBody::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::{Bytes, Instant, IntStack, Psn, Rate};
    use proptest::prelude::*;
    use std::vec::Vec;

    const LINK: Link = Link { line_rate: Rate::from_gbps(40), mtu: Bytes::new(1_064), base_rtt: Nanos::new(10_000) };

    const ARRIVAL: Arrival<'static> = Arrival {
        local: Qpn::new(1),
        psn: Psn::new(0),
        bytes: Bytes::new(1_064),
        payload: Bytes::new(1_000),
        ecn: Ecn::Ect0,
        mark: Mark::None,
        first: false,
        last: false,
        sent: None,
        arrived: Stamp::from_bits(0),
        int: IntStack::NONE,
        mlcc: None,
    };

    fn preset(name: &str) -> DcqcnSettings {
        Dcqcn::PRESETS.iter().find(|preset| preset.name == name).unwrap().values
    }

    /// One flow, whose CNPs are all sent.
    struct Bench {
        params: Params,
        flow: Dcqcn,
        hints: Vec<CnpBodyKind>,
    }

    impl Bench {
        fn new(settings: &DcqcnSettings, start: u64) -> Self {
            let params = Dcqcn::check(settings, &LINK).unwrap();
            let cx = Cx { now: Instant::from_nanos(start), link: &LINK, params: &params };
            let flow = Dcqcn::open(&cx, &mut (), Some(Qpn::new(1)));
            Self { params, flow, hints: Vec::new() }
        }

        fn due(&mut self, now: u64, ecn: Ecn) -> Option<CnpBodyKind> {
            let cx = Cx { now: Instant::from_nanos(now), link: &LINK, params: &self.params };
            let mark = if ecn == Ecn::Ce { Mark::Congested } else { Mark::None };
            self.flow.on(&cx, &mut (), &Arrival { ecn, mark, ..ARRIVAL }).cnp
        }

        fn arrive(&mut self, now: u64, ecn: Ecn) -> bool {
            let Some(body_kind) = self.due(now, ecn) else { return false };
            self.flow.on_cnp_sent(&Cx { now: Instant::from_nanos(now), link: &LINK, params: &self.params }, &mut ());
            self.hints.push(body_kind);
            true
        }
    }

    #[test]
    fn presets_are_those_of_the_paper_the_vendor_and_the_connectx_4() {
        let intervals: Vec<_> =
            Dcqcn::PRESETS.iter().map(|preset| (preset.name, preset.values.min_time_between_cnps)).collect();
        assert_eq!(intervals, [("paper", 50), ("vendor", 4), ("cx4", 0)]);
        for preset in Dcqcn::PRESETS {
            assert_eq!((preset.values.cnp_dscp, preset.values.cnp_802p_prio), (48, 6));
            assert!(Dcqcn::check(&preset.values, &LINK).is_ok(), "{}", preset.name);
        }
    }

    #[test]
    fn settings_are_found_by_the_names_that_operators_type() {
        for name in ["min_time_between_cnps", "np_min_time_between_cnps", "MIN_TIME_BETWEEN_CNPS"] {
            assert_eq!(DcqcnSettings::index_of(name), Some(0));
        }
        for name in ["cnp_dscp", "np_cnp_dscp", "CNP_DSCP"] {
            assert_eq!(DcqcnSettings::index_of(name), Some(1));
        }
        for name in ["cnp_802p_prio", "np_cnp_prio", "CNP_802P_PRIO"] {
            assert_eq!(DcqcnSettings::index_of(name), Some(2));
        }
    }

    #[test]
    fn a_tos_byte_is_refused_as_dscp_a19() {
        let mut settings = preset("paper");
        assert!(settings.set(1, 106).is_err());
        assert_eq!(settings, preset("paper"));
        settings.cnp_dscp = 106;
        assert!(
            matches!(Dcqcn::check(&settings, &LINK), Err(ParamError::OutOfRange(field)) if field.name == "cnp_dscp")
        );
    }

    #[test]
    fn the_first_marked_packet_causes_a_cnp_at_once_and_the_next_cnp_is_50_us_later() {
        let mut bench = Bench::new(&preset("paper"), 7);
        assert!(bench.arrive(7, Ecn::Ce));
        assert!(!bench.arrive(8, Ecn::Ce));
        assert!(!bench.arrive(50_006, Ecn::Ce));
        assert!(bench.arrive(50_007, Ecn::Ce));
        assert!(!bench.arrive(100_006, Ecn::Ce));
    }

    #[test]
    fn a_connectx_4_sends_a_cnp_for_every_marked_packet() {
        let mut bench = Bench::new(&preset("cx4"), 0);
        assert!((0..1_000).all(|packet| bench.arrive(packet / 2, Ecn::Ce)));
    }

    #[test]
    fn only_ce_is_congestion_a8() {
        assert!(
            Dcqcn::reacts_to(Mark::Congested) && !Dcqcn::reacts_to(Mark::Undetermined) && !Dcqcn::reacts_to(Mark::None)
        );
        for preset in Dcqcn::PRESETS {
            let mut bench = Bench::new(&preset.values, 0);
            assert!(!Dcqcn::is_ternary(&bench.params));
            for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
                assert!((0..1_000).all(|packet| !bench.arrive(packet * 1_000, ecn)));
            }
        }
    }

    #[test]
    fn a_cnp_that_could_not_be_sent_stays_due() {
        let mut bench = Bench::new(&preset("paper"), 0);
        assert!((0..100).all(|now| bench.due(now, Ecn::Ce).is_some()));
        assert!(bench.arrive(100, Ecn::Ce));
        assert!(bench.due(101, Ecn::Ce).is_none());
    }

    #[test]
    fn an_old_cnp_has_no_effect_after_stamps_wrap() {
        let mut bench = Bench::new(&preset("paper"), 0);
        assert!(bench.arrive(0, Ecn::Ce));
        // One packet each second, since the table keeps a record for at most 1 s without one. No CNP is sent: the ring is full.
        for second in 1..=4 {
            assert!(bench.due(second * 1_000_000_000, Ecn::Ce).is_some());
        }
        assert!(bench.due((1 << 32) + 1, Ecn::Ce).is_some());
    }

    #[test]
    fn reserved_bytes_are_zero_unless_a_count_is_requested() {
        let mut plain = Bench::new(&preset("vendor"), 0);
        let mut counted = Bench::new(&DcqcnSettings { cnp_sequence: 1, ..preset("vendor") }, u64::MAX / 2);
        for packet in 0..100_000_u64 {
            plain.arrive(packet * 4_000, Ecn::Ce);
            counted.arrive(u64::MAX / 2 + packet * 4_000, Ecn::Ce);
        }
        assert!(plain.hints.iter().all(|&body_kind| body_kind == CnpBodyKind::Standard));
        let seqs: Vec<u16> = counted
            .hints
            .iter()
            .map(|body_kind| match body_kind {
                CnpBodyKind::Extended(CnpBody { kind: CnpKind::Standard, ce: true, seq, .. }) => *seq,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(seqs.len(), 100_000);
        assert!(seqs.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)));
    }

    proptest! {
        /// No two CNPs of a flow within N. While marked packets arrive, the first one after N causes a CNP.
        #[test]
        fn cnps_are_n_apart_and_never_later(
            n in 0..=200_u32,
            start in prop::sample::select(&[0_u64, 0xffff_fff0, 0xffff_ffff_ffff_0000][..]),
            packets in prop::collection::vec((0..60_000_u64, 0..4_u8), 1..300),
        ) {
            let settings = DcqcnSettings { min_time_between_cnps: n, ..preset("paper") };
            let interval = u64::from(n) * 1_000;
            let mut bench = Bench::new(&settings, start);
            let mut now = start;
            let mut last: Option<u64> = None;
            for (gap, bits) in packets {
                now = now.saturating_add(gap);
                let ecn = Ecn::from_bits(bits);
                let expected = ecn == Ecn::Ce && last.is_none_or(|last| now - last >= interval);
                prop_assert_eq!(bench.arrive(now, ecn), expected);
                if expected {
                    last = Some(now);
                }
            }
        }
    }
}
