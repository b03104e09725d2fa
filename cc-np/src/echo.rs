//! The notification point that echoes marks in acknowledgements, for reaction points that take their signals from
//! acknowledgements.
//!
//! TIMELY (R. Mittal et al., SIGCOMM 2015), Swift (G. Kumar et al., SIGCOMM 2020) and theta-PowerTCP (V. Addanki et al., NSDI
//! 2022) measure delays; HPCC (Y. Li et al., SIGCOMM 2019) and PowerTCP read telemetry; TIMELY with TCD's marks (Y. Zhang et
//! al., SIGCOMM 2021), ACC (NSDI 2024) and DCTCP (M. Alizadeh et al., SIGCOMM 2010) use the marks of packets. The receiver is the
//! same for all of them: every acknowledgement carries the strongest mark of the packets that it covers, and the time stamp and
//! telemetry of the packet that it acknowledges. Time stamp and telemetry need no state: they are copied from that packet.
//!
//! A mark is kept until an acknowledgement that carries it is in the transmit ring, so that no mark is lost when the ring is
//! full.
//!
//! After an eviction: the marks of packets that no acknowledgement has covered yet are not echoed. Time stamps and telemetry
//! are still copied.

use crate::{Arrival, CnpPolicy, Cx, Event, NotificationPoint, Reply};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::table::{SetAssocTableIn, Storage};
use cc_core::wire::CnpMarking;
use cc_core::{Ecn, Link, Mark, Nanos, Qpn, State, Zeroed};

cc_core::settings! {
    /// Settings of the echo.
    pub struct EchoSettings {
        /// 1: ECT(1) is TCD's mark of a queue whose state is undetermined; 0: ECT(1) is no mark.
        ternary_marks: Count, 0..=1, [];
        /// DSCP of an acknowledgement; the whole TOS byte is four times this.
        ack_dscp: Count, 0..=63, [];
        /// 802.1p priority of an acknowledgement, used where the data packet had a VLAN tag.
        ack_802p_prio: Count, 0..=7, [];
    }
}

/// For networks with the marks of RFC 3168.
pub const BINARY: Preset<EchoSettings> = Preset {
    name: "binary",
    source: "RFC 3168: CE is the only mark; class of acknowledgements: ours, that of CNPs (NVIDIA \"DCQCN CC \
             Parameters\"), so that no queue of data delays them",
    values: EchoSettings { ternary_marks: 0, ack_dscp: 48, ack_802p_prio: 6 },
};

/// For networks whose switches have TCD.
pub const TERNARY: Preset<EchoSettings> = Preset {
    name: "ternary",
    source: "TCD (SIGCOMM 2021): a third state; that ECT(1) stands for it is ours, and valid in one domain only (RFC 9331 \
             gives it another meaning)",
    values: EchoSettings { ternary_marks: 1, ..BINARY.values },
};

cc_core::zeroed! {
    /// The checked parameters, converted to the units of the computation.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        ternary: bool,
        cnp_policy: CnpPolicy,
    }
}

/// See [`NotificationPoint::idle_timeout`]: 1 s, the longest allowed, for which a mark is kept for the next acknowledgement.
const IDLE_TIMEOUT: Nanos = Nanos::new(1_000_000_000);

/// The record of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Echo {
    /// The strongest mark that no acknowledgement has carried yet.
    mark: Mark,
}

impl Zeroed for Echo {
    const ZEROED: Self = Self { mark: Mark::None };
}

cc_core::snapshot! {
    /// A flow whose marks are echoed.
    pub struct EchoSnapshot {
        /// The strongest mark that no acknowledgement has carried yet.
        pub mark: Mark,
    }
}

impl State for Echo {
    type Snapshot = EchoSnapshot;

    fn snapshot(&self) -> EchoSnapshot {
        EchoSnapshot { mark: self.mark }
    }

    fn from_snapshot(s: EchoSnapshot) -> Self {
        Self { mark: s.mark }
    }
}

impl NotificationPoint for Echo {
    type Settings = EchoSettings;
    type Params = Params;
    type Shared = ();
    type Flows<SETS: Storage, const WAYS: usize> = SetAssocTableIn<Self, SETS, WAYS>;

    const NAME: &'static str = "echo";
    const PRESETS: &'static [Preset<EchoSettings>] = &[BINARY, TERNARY];
    const SHARED: () = ();
    const REPLIES: bool = true;

    const TRANSITIONS: &'static [&'static str] = &[
        "no mark stored, unmarked: no mark is echoed",
        "no mark stored, marked: the mark is echoed until an acknowledgement has carried it",
        "a mark stored, no stronger one: it stays",
        "UE stored, CE: CE is echoed in its place",
    ];

    #[expect(clippy::cast_possible_truncation, reason = "in range: below 64 and 8")]
    fn check(settings: &EchoSettings, _link: &Link) -> Result<Params, ParamError> {
        settings.in_range()?;
        let marking =
            CnpMarking { dscp: settings.ack_dscp as u8, priority: settings.ack_802p_prio as u8, ecn: Ecn::Ect0 };
        Ok(Params { ternary: settings.ternary_marks == 1, cnp_policy: CnpPolicy::new(marking, Nanos::ZERO, 1) })
    }

    fn cnp_policy(params: &Params) -> &CnpPolicy {
        &params.cnp_policy
    }

    fn idle_timeout(_params: &Params) -> Nanos {
        IDLE_TIMEOUT
    }

    #[inline]
    fn is_ternary(params: &Params) -> bool {
        params.ternary
    }

    #[inline]
    fn open(_cx: &Cx<'_, Params>, _shared: &mut (), _local: Option<Qpn>) -> Self {
        Self::ZEROED
    }

    fn transition(&self, _cx: &Cx<'_, Params>, _shared: &(), event: &Event<'_>) -> usize {
        let mark = if let Event::Arrival(arrival) = event { arrival.mark } else { Mark::None };
        match (self.mark, mark) {
            (Mark::None, Mark::None) => 0,
            (Mark::None, _) => 1,
            (stored, new) if new <= stored => 2,
            _ => 3,
        }
    }

    #[inline]
    fn on(&mut self, _cx: &Cx<'_, Params>, _shared: &mut (), arrival: &Arrival<'_>) -> Reply {
        self.mark = self.mark.max(arrival.mark);
        Reply { echo: self.mark, ..Reply::default() }
    }

    #[inline]
    fn on_cnp_sent(&mut self, _cx: &Cx<'_, Params>, _shared: &mut ()) {}

    #[inline]
    fn on_ack_sent(&mut self, _cx: &Cx<'_, Params>, _shared: &mut ()) {
        self.mark = Mark::None;
    }
}

impl Echo {
    /// The strongest mark that no acknowledgement has carried yet.
    pub const fn mark(&self) -> Mark {
        self.mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::{Bytes, Instant, IntStack, Psn, Rate, Stamp};

    const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(10_000) };

    fn arrival(mark: Mark) -> Arrival<'static> {
        Arrival {
            local: Qpn::new(1),
            psn: Psn::new(0),
            bytes: Bytes::new(1_064),
            payload: Bytes::new(1_000),
            ecn: Ecn::Ect0,
            mark,
            first: false,
            last: false,
            sent: None,
            arrived: Stamp::from_bits(0),
            int: IntStack::NONE,
            mlcc: None,
        }
    }

    #[test]
    fn the_strongest_mark_is_echoed_until_an_acknowledgement_has_carried_it() {
        let params = Echo::check(&TERNARY.values, &LINK).unwrap();
        let cx = Cx { now: Instant::from_nanos(0), link: &LINK, params: &params };
        let mut flow = Echo::open(&cx, &mut (), Some(Qpn::new(1)));
        let mut rows = [false; Echo::TRANSITIONS.len()];
        let mut echoes = |flow: &mut Echo, mark| {
            rows[flow.transition(&cx, &(), &Event::Arrival(arrival(mark)))] = true;
            flow.on(&cx, &mut (), &arrival(mark)).echo
        };
        assert_eq!(echoes(&mut flow, Mark::None), Mark::None);
        assert_eq!(echoes(&mut flow, Mark::Undetermined), Mark::Undetermined);
        assert_eq!(echoes(&mut flow, Mark::None), Mark::Undetermined);
        assert_eq!(echoes(&mut flow, Mark::Congested), Mark::Congested);
        assert_eq!(echoes(&mut flow, Mark::Undetermined), Mark::Congested);
        // The transmit ring did not take the acknowledgement: the next one carries the mark.
        assert_eq!(echoes(&mut flow, Mark::None), Mark::Congested);
        flow.on_ack_sent(&cx, &mut ());
        assert_eq!(echoes(&mut flow, Mark::None), Mark::None);
        assert!(rows.iter().all(|&reached| reached));
    }

    #[test]
    fn no_mark_causes_a_cnp() {
        let params = Echo::check(&TERNARY.values, &LINK).unwrap();
        let cx = Cx { now: Instant::from_nanos(0), link: &LINK, params: &params };
        let mut flow = Echo::open(&cx, &mut (), Some(Qpn::new(1)));
        for mark in [Mark::None, Mark::Undetermined, Mark::Congested] {
            assert_eq!(flow.on(&cx, &mut (), &arrival(mark)).cnp, None);
        }
    }

    #[test]
    fn a_tos_byte_is_refused_as_dscp_a19() {
        let settings = EchoSettings { ack_dscp: 106, ..BINARY.values };
        assert!(
            matches!(Echo::check(&settings, &LINK), Err(ParamError::OutOfRange(field)) if field.name == "ack_dscp")
        );
    }
}
