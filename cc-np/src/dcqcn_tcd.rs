//! DCQCN's notification point with ternary marks.
//!
//! Y. Zhang et al., "Congestion Detection in Lossless Networks" (TCD), SIGCOMM 2021. The source of this file is the authors'
//! simulator, Yi-ran/DCQCN-TCD, `qbb-net-device.cc`; the text of the paper was not available. Switches mark CE where there is
//! congestion, and UE where a queue may have built up only because its port was paused. Each CNP carries which of the two
//! arrived since the last CNP. CE dominates: a CNP is of kind [`Undetermined`](CnpKind::Undetermined) only where every mark was
//! UE.
//!
//! A CNP is due by [`dcqcn`](crate::dcqcn)'s rule, for either mark: at once, and then none for N. Marks that arrive during this
//! N are kept for the next CNP, if that one is due within 2 N of the last. A CNP then reports about the same window as in the
//! simulator, which checks a flow every N and reports the marks since the last check.
//!
//! Deviations: the first CNP of a congested period does not wait for the end of a window, as in DCQCN; every CNP carries a
//! sequence number, so that the sender can recognize a duplicate. A sender without support for UE takes any CNP for congestion:
//! this notification point is for networks where all senders support it.
//!
//! After an eviction: the next marked packet of the flow causes a CNP although N may not have passed, and the marks of the
//! current window are not reported.

use crate::{Arrival, CnpPolicy, Cx, Event, NotificationPoint, Reply};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::snapshot::flags;
use cc_core::table::{SetAssocTableIn, Storage};
use cc_core::wire::CnpMarking;
use cc_core::{CnpBody, CnpBodyKind, CnpKind, Ecn, Link, Mark, Nanos, Qpn, Stamp, State, Zeroed};

cc_core::settings! {
    /// Settings of DCQCN with ternary marks at the receiver.
    pub struct DcqcnTcdSettings {
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
    }
}

/// The values of the authors' simulator.
pub const TCD_SIM: Preset<DcqcnTcdSettings> = Preset {
    name: "tcd_sim",
    source: "Yi-ran/DCQCN-TCD, config/configburst.txt: N = 50 us; DSCP, priority: NVIDIA \"DCQCN CC Parameters\"; port \
             bound: as in `dcqcn`",
    values: DcqcnTcdSettings {
        min_time_between_cnps: 50,
        cnp_dscp: 48,
        cnp_802p_prio: 6,
        cnp_port_interval: 100,
        cnp_port_burst: 1_000,
    },
};

cc_core::zeroed! {
    /// The checked parameters, converted to the units of the computation.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        /// N.
        interval: Nanos,
        cnp_policy: CnpPolicy,
    }
}

/// See [`NotificationPoint::idle_timeout`]: 1 s, the longest allowed, for which a flow's count of CNPs is kept after its last
/// marked packet.
const IDLE_TIMEOUT: Nanos = Nanos::new(1_000_000_000);

/// The record of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DcqcnTcd {
    /// Start of the window, while [`OPEN`]: the time of the last CNP, or else of the first mark whose CNP was due and not sent.
    window: Stamp,
    /// CNPs sent, counted from a value taken from the clock.
    seq: u16,
    flags: u8,
}

/// There is a window. A separate flag, so that the 32-bit stamp `window` is not used after it has wrapped.
const OPEN: u8 = 1;
/// The window began with a CNP.
const NOTIFIED: u8 = 1 << 1;
/// CE was seen in it.
const CE: u8 = 1 << 2;
/// UE was seen in it.
const UE: u8 = 1 << 3;

impl Zeroed for DcqcnTcd {
    const ZEROED: Self = Self { window: Stamp::from_bits(0), seq: 0, flags: 0 };
}

cc_core::snapshot! {
    /// A flow of DCQCN with ternary marks at the receiver.
    pub struct DcqcnTcdSnapshot {
        /// When the window began, while `is_open`.
        pub window: Stamp,
        /// CNPs sent, counted from a value taken from the clock, modulo 2^16.
        pub seq: u16,
        /// There is a window.
        pub is_open: bool,
        /// A CNP was sent in it.
        pub is_notified: bool,
        /// A packet was marked CE in it.
        pub has_ce: bool,
        /// A packet was marked UE in it.
        pub has_ue: bool,
    }
}

impl State for DcqcnTcd {
    type Snapshot = DcqcnTcdSnapshot;

    fn snapshot(&self) -> DcqcnTcdSnapshot {
        DcqcnTcdSnapshot {
            window: self.window,
            seq: self.seq,
            is_open: self.flags & OPEN != 0,
            is_notified: self.flags & NOTIFIED != 0,
            has_ce: self.flags & CE != 0,
            has_ue: self.flags & UE != 0,
        }
    }

    fn from_snapshot(s: DcqcnTcdSnapshot) -> Self {
        let flags = flags([(s.is_open, OPEN), (s.is_notified, NOTIFIED), (s.has_ce, CE), (s.has_ue, UE)]);
        Self { window: s.window, seq: s.seq, flags }
    }
}

impl NotificationPoint for DcqcnTcd {
    type Settings = DcqcnTcdSettings;
    type Params = Params;
    type Shared = ();
    type Flows<SETS: Storage, const WAYS: usize> = SetAssocTableIn<Self, SETS, WAYS>;

    const NAME: &'static str = "dcqcn_tcd";
    const PRESETS: &'static [Preset<DcqcnTcdSettings>] = &[TCD_SIM];
    const SHARED: () = ();

    const TRANSITIONS: &'static [&'static str] = &[
        "no CNP for N, UE: a CNP for UE is due",
        "no CNP for N and CE in the window, UE: a CNP for both is due",
        "no CNP for N, CE: a CNP is due",
        "a CNP within N, marked: the mark is stored",
    ];

    #[expect(clippy::cast_possible_truncation, reason = "in range: below 64 and 8")]
    fn check(settings: &DcqcnTcdSettings, _link: &Link) -> Result<Params, ParamError> {
        settings.in_range()?;
        let marking =
            CnpMarking { dscp: settings.cnp_dscp as u8, priority: settings.cnp_802p_prio as u8, ecn: Ecn::Ect0 };
        Ok(Params {
            interval: Nanos::new(settings.min_time_between_cnps.saturating_mul(1_000)),
            cnp_policy: CnpPolicy::new(marking, Nanos::new(settings.cnp_port_interval), settings.cnp_port_burst),
        })
    }

    fn cnp_policy(params: &Params) -> &CnpPolicy {
        &params.cnp_policy
    }

    fn idle_timeout(_params: &Params) -> Nanos {
        IDLE_TIMEOUT
    }

    #[inline]
    fn is_ternary(_params: &Params) -> bool {
        true
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "any sixteen bits of the clock serve as the start")]
    fn open(cx: &Cx<'_, Params>, _shared: &mut (), _local: Option<Qpn>) -> Self {
        let clock = cx.now.stamp();
        Self { window: clock, seq: (clock.to_bits() >> 10) as u16, flags: 0 }
    }

    fn transition(&self, cx: &Cx<'_, Params>, _shared: &(), event: &Event<'_>) -> usize {
        let flags = self.in_window(cx);
        match event {
            _ if self.waits(cx) => 3,
            Event::Arrival(Arrival { mark: Mark::Congested, .. }) => 2,
            _ => usize::from(flags & CE != 0),
        }
    }

    #[inline]
    fn on(&mut self, cx: &Cx<'_, Params>, _shared: &mut (), arrival: &Arrival<'_>) -> Reply {
        let due = !self.waits(cx);
        let mark = match arrival.mark {
            Mark::None => return Reply::default(),
            Mark::Undetermined => UE,
            Mark::Congested => CE,
        };
        self.flags = self.in_window(cx);
        if self.flags & OPEN == 0 {
            self.window = cx.now.stamp();
        }
        self.flags |= OPEN | mark;
        Reply { cnp: due.then(|| self.body()), ..Reply::default() }
    }

    #[inline]
    fn on_cnp_sent(&mut self, cx: &Cx<'_, Params>, _shared: &mut ()) {
        *self = Self { window: cx.now.stamp(), seq: self.seq.wrapping_add(1), flags: OPEN | NOTIFIED };
    }
}

impl DcqcnTcd {
    /// Time since the last CNP, while it is less than 2 N.
    pub fn since_cnp(&self, cx: &Cx<'_, Params>) -> Option<Nanos> {
        (self.in_window(cx) & NOTIFIED != 0).then(|| cx.now.stamp().since(self.window))
    }

    /// Whether a packet with CE, and one with UE, arrived in the window.
    pub fn marks(&self, cx: &Cx<'_, Params>) -> (bool, bool) {
        let flags = self.in_window(cx);
        (flags & CE != 0, flags & UE != 0)
    }

    /// The flags; 0 from 2 N after the window began.
    #[inline]
    fn in_window(&self, cx: &Cx<'_, Params>) -> u8 {
        let age = cx.now.stamp().since(self.window).get();
        if age < cx.params.interval.get().saturating_mul(2) { self.flags } else { 0 }
    }

    /// Whether N has yet to pass since the last CNP.
    #[inline]
    fn waits(&self, cx: &Cx<'_, Params>) -> bool {
        self.in_window(cx) & NOTIFIED != 0 && cx.now.stamp().since(self.window) < cx.params.interval
    }

    /// The body of the next CNP.
    #[inline]
    fn body(&self) -> CnpBodyKind {
        let (ce, ue) = (self.flags & CE != 0, self.flags & UE != 0);
        let kind = if ce { CnpKind::Standard } else { CnpKind::Undetermined };
        CnpBodyKind::Extended(CnpBody { kind, ce, ue, seq: self.seq.wrapping_add(1), ..CnpBody::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::{Bytes, Instant, IntStack, Psn, Rate};
    use std::vec::Vec;

    const LINK: Link = Link { line_rate: Rate::from_gbps(40), mtu: Bytes::new(1_064), base_rtt: Nanos::new(10_000) };

    /// One flow, whose CNPs are sent while `ring` has room.
    struct Bench {
        params: Params,
        flow: DcqcnTcd,
        ring: bool,
        rows: [bool; DcqcnTcd::TRANSITIONS.len()],
        seqs: Vec<u16>,
    }

    impl Bench {
        fn new(micros: u32) -> Self {
            let settings = DcqcnTcdSettings { min_time_between_cnps: micros, ..TCD_SIM.values };
            let params = DcqcnTcd::check(&settings, &LINK).unwrap();
            let cx = Cx { now: Instant::from_nanos(7), link: &LINK, params: &params };
            let flow = DcqcnTcd::open(&cx, &mut (), Some(Qpn::new(1)));
            Self { params, flow, ring: true, rows: [false; _], seqs: Vec::new() }
        }

        /// The kind of the CNP that is due for this packet, and whether it carries CE and UE.
        fn arrive(&mut self, now: u64, mark: Mark) -> Option<(CnpKind, bool, bool)> {
            let cx = Cx { now: Instant::from_nanos(now), link: &LINK, params: &self.params };
            let arrival = Arrival {
                local: Qpn::new(1),
                psn: Psn::new(0),
                bytes: Bytes::new(1_064),
                payload: Bytes::new(1_000),
                ecn: Ecn::Ect0,
                mark,
                first: false,
                last: false,
                sent: None,
                arrived: cx.now.stamp(),
                int: IntStack::NONE,
                mlcc: None,
            };
            self.rows[self.flow.transition(&cx, &(), &Event::Arrival(arrival))] = true;
            match self.flow.on(&cx, &mut (), &arrival).cnp? {
                CnpBodyKind::Extended(body) => {
                    if self.ring {
                        self.flow.on_cnp_sent(&cx, &mut ());
                        self.seqs.push(body.seq);
                    }
                    Some((body.kind, body.ce, body.ue))
                }
                CnpBodyKind::Standard => panic!("a CNP that reports no marks"),
            }
        }
    }

    const BY_UE: Option<(CnpKind, bool, bool)> = Some((CnpKind::Undetermined, false, true));
    const BY_CE: Option<(CnpKind, bool, bool)> = Some((CnpKind::Standard, true, false));
    const BY_BOTH: Option<(CnpKind, bool, bool)> = Some((CnpKind::Standard, true, true));

    #[test]
    fn either_mark_causes_a_cnp_at_once_and_then_none_for_n() {
        let mut bench = Bench::new(50);
        assert_eq!(bench.arrive(1_000, Mark::Undetermined), BY_UE);
        assert_eq!(bench.arrive(50_999, Mark::Undetermined), None);
        assert_eq!(bench.arrive(51_000, Mark::Undetermined), BY_UE);
        assert_eq!(bench.arrive(200_000, Mark::Congested), BY_CE);
        assert_eq!(bench.arrive(249_999, Mark::Congested), None);
        assert_eq!(bench.arrive(250_000, Mark::Congested), BY_CE);
    }

    #[test]
    fn ce_dominates_ue_over_the_window_and_no_longer() {
        let mut bench = Bench::new(50);
        assert_eq!(bench.arrive(0, Mark::Undetermined), BY_UE);
        assert_eq!(bench.arrive(10_000, Mark::Congested), None);
        assert_eq!(bench.arrive(99_999, Mark::Undetermined), BY_BOTH);
        assert_eq!(bench.arrive(110_000, Mark::Congested), None);
        assert_eq!(bench.arrive(199_999, Mark::Undetermined), BY_UE, "two N after the last CNP");
        assert_eq!(bench.arrive(210_000, Mark::Undetermined), None);
        assert_eq!(bench.arrive(250_000, Mark::Congested), BY_BOTH);
        assert!(bench.rows.iter().all(|&reached| reached), "{:?}", bench.rows);
    }

    #[test]
    fn a_cnp_that_could_not_be_sent_stays_due_and_its_ce_is_kept() {
        let mut bench = Bench::new(50);
        bench.ring = false;
        assert_eq!(bench.arrive(0, Mark::Congested), BY_CE);
        assert_eq!(bench.arrive(1_000, Mark::Undetermined), BY_BOTH);
        bench.ring = true;
        assert_eq!(bench.arrive(2_000, Mark::Undetermined), BY_BOTH);
        assert_eq!(bench.arrive(3_000, Mark::Undetermined), None);
    }

    #[test]
    fn without_an_interval_each_cnp_reports_one_packet() {
        let mut bench = Bench::new(0);
        for now in 0..1_000 {
            assert_eq!(bench.arrive(now, Mark::Congested), BY_CE);
            assert_eq!(bench.arrive(now, Mark::Undetermined), BY_UE);
        }
        assert!(bench.seqs.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)));
    }

    #[test]
    fn an_unmarked_packet_has_no_effect() {
        let mut bench = Bench::new(50);
        let fresh = bench.flow;
        assert_eq!(bench.arrive(1_000, Mark::None), None);
        assert_eq!(bench.flow, fresh);
    }

    #[test]
    fn an_old_cnp_has_no_effect_after_stamps_wrap() {
        let mut bench = Bench::new(50);
        assert_eq!(bench.arrive(0, Mark::Congested), BY_CE);
        bench.ring = false;
        for second in 1..=4 {
            assert_eq!(bench.arrive(second * 1_000_000_000, Mark::Undetermined), BY_UE);
        }
        bench.ring = true;
        assert_eq!(bench.arrive((1 << 32) + 1, Mark::Undetermined), BY_UE);
    }
}
