//! The notification point of RCC's sender variant: it counts and measures, and leaves the law to the sender.
//!
//! Jiao Zhang et al., "RCC: Enabling Receiver-Driven RDMA Congestion Control With Congestion Divide-and-Conquer in Datacenter
//! Networks", ToN 2023, section III-G. Every acknowledgement takes N and B_R along, and the time stamp of its packet; what the
//! sender makes of them is at its reaction point of this name. The census is [`rcc`](crate::rcc)'s.
//!
//! A flow's record is one word and a half beside its key: 8 bytes together. Messages that are given up are found by turns: one
//! record is looked at each [`slot`](NotificationPoint::slot), and goes when nothing has come for 16 base round-trip times.
//!
//! If there is no room: a flow shares one record with all others of its kind, and is counted with them as one.

use crate::rcc::{Census, PRESETS, Params, RccSettings};
use crate::{Arrival, CnpOutlet, Cx, Event, NotificationPoint, Reply, Turn};
use cc_core::params::{ParamError, Preset};
use cc_core::table::{Keyed, RingTable};
use cc_core::{Bytes, Grant, Mark, Nanos, Port, Qpn, Stamp};

/// The record of one flow, key included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RccSender {
    /// Local queue pair (24 bits), and [`ACTIVE`].
    flow: u32,
    /// When a packet came last.
    seen: Stamp,
}

/// A message is under way.
const ACTIVE: u32 = 1 << 31;

impl Keyed for RccSender {
    #[inline]
    fn qpn(&self) -> Qpn {
        Qpn::new(self.flow)
    }
}

impl NotificationPoint for RccSender {
    type Settings = RccSettings;
    type Params = Params;
    type Shared = Census;
    type Flows<const SETS: usize, const WAYS: usize> = RingTable<Self, SETS, WAYS>;

    const NAME: &'static str = "rcc_sender";
    const PRESETS: &'static [Preset<RccSettings>] = PRESETS;
    const BLANK: Self = Self { flow: 0, seen: Stamp::from_bits(0) };
    const SHARED: Census = Census::NONE;
    const REPLIES: bool = true;

    const TABLE: &'static [&'static str] = &[
        "no message under way, data: the flow counts in N",
        "a message under way, data: N and B_R are told",
        "a packet not long ago, turn: nothing",
        "no packet for 16 round trips, turn: it is given up",
    ];

    fn check(settings: &RccSettings, port: &Port) -> Result<Params, ParamError> {
        Params::new(settings, port)
    }

    fn outlet(params: &Params) -> &CnpOutlet {
        params.outlet()
    }

    fn memory(params: &Params) -> Nanos {
        params.patience
    }

    #[inline]
    fn wants(_mark: Mark) -> bool {
        true
    }

    #[inline]
    fn open(cx: &Cx<'_, Params>, _shared: &mut Census, local: Option<Qpn>) -> Self {
        Self { flow: local.map_or(0, Qpn::get), seen: cx.now.stamp() }
    }

    fn row(&self, cx: &Cx<'_, Params>, _shared: &Census, event: &Event<'_>) -> usize {
        match event {
            Event::Arrival(_) => usize::from(self.is_active()),
            Event::Turn if self.is_idle(cx) => 3,
            Event::Turn => 2,
        }
    }

    #[inline]
    fn on(&mut self, cx: &Cx<'_, Params>, shared: &mut Census, arrival: &Arrival<'_>) -> Reply {
        shared.receive(cx.params, cx.now, arrival.bytes);
        self.seen = cx.now.stamp();
        if !self.is_active() {
            self.flow |= ACTIVE;
            shared.join(cx.params);
        }
        let grant = Grant::Rcc { window: Bytes::ZERO, flows: shared.flows(), utilisation: shared.in_use() };
        if arrival.last {
            self.flow &= !ACTIVE;
            shared.leave(cx.params);
        }
        Reply { grant, ..Reply::default() }
    }

    #[inline]
    fn notified(&mut self, _cx: &Cx<'_, Params>, _shared: &mut Census) {}

    fn forgotten(&self, cx: &Cx<'_, Params>, shared: &mut Census) {
        if self.is_active() {
            shared.leave(cx.params);
        }
    }

    /// A record is looked at each quarter of a base round-trip time, so that a few dozen are by the time that one is old.
    fn slot(params: &Params) -> Option<Nanos> {
        Some(Nanos::new((params.law.round.get() >> 2).max(1)))
    }

    #[inline]
    fn turn(&mut self, cx: &Cx<'_, Params>, _shared: &mut Census) -> Turn {
        if self.is_idle(cx) { Turn::Leave } else { Turn::Pass }
    }
}

impl RccSender {
    /// Whether a message is under way.
    pub const fn is_active(&self) -> bool {
        self.flow & ACTIVE != 0
    }

    #[inline]
    fn is_idle(&self, cx: &Cx<'_, Params>) -> bool {
        cx.now.stamp().since(self.seen) > cx.params.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rcc::RCC_IV;
    use cc_core::{Ecn, Instant, IntStack, Psn, Rate};

    const PORT: Port = Port { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(12_000) };

    fn arrival(first: bool, last: bool) -> Arrival<'static> {
        Arrival {
            local: Qpn::new(7),
            psn: Psn::new(0),
            bytes: Bytes::new(1_064),
            payload: Bytes::new(1_000),
            ecn: Ecn::Ect0,
            mark: Mark::None,
            first,
            last,
            sent: None,
            arrived: Stamp::from_bits(0),
            int: IntStack::NONE,
            mlcc: None,
        }
    }

    #[test]
    fn n_and_b_r_are_told_and_given_up_messages_leave() {
        assert_eq!(size_of::<RccSender>(), 8);
        let params = RccSender::check(&RCC_IV, &PORT).unwrap();
        let cx = |now| Cx { now: Instant::from_nanos(now), port: &PORT, params: &params };
        let mut census = RccSender::SHARED;
        let mut flows = [5, 6].map(|qpn| RccSender::open(&cx(0), &mut census, Some(Qpn::new(qpn))));
        let told = |reply: Reply| match reply.grant {
            Grant::Rcc { flows, utilisation, .. } => (flows, utilisation),
            _ => (0, 0),
        };
        assert_eq!(told(flows[0].on(&cx(0), &mut census, &arrival(true, false))), (1, 0));
        assert_eq!(told(flows[1].on(&cx(10), &mut census, &arrival(true, false))), (2, 0));
        for packet in 0..300 {
            flows[0].on(&cx(100 + packet * 100), &mut census, &arrival(false, false));
        }
        let (n, in_use) = told(flows[0].on(&cx(30_100), &mut census, &arrival(false, true)));
        assert_eq!(n, 2);
        assert!((f64::from(in_use) / 65_536.0 - 0.870).abs() < 0.02, "{in_use}");
        assert_eq!(flows[1].turn(&cx(192_010), &mut census), Turn::Pass);
        assert_eq!(flows[1].turn(&cx(192_011), &mut census), Turn::Leave);
        flows[1].forgotten(&cx(192_011), &mut census);
        assert_eq!(census.flows(), 1);
        assert_eq!(flows[1].qpn(), Qpn::new(6));
    }
}
