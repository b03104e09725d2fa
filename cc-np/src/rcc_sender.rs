//! The notification point of RCC's sender variant: it counts flows and measures throughput; the sender computes the window.
//!
//! Jiao Zhang et al., "RCC: Enabling Receiver-Driven RDMA Congestion Control With Congestion Divide-and-Conquer in Datacenter
//! Networks", ToN 2023, section III-G. Every acknowledgement carries N, B_R and the time stamp of its packet; the reaction
//! point of the same name computes the window from them. N and B_R are those of [`rcc`](crate::rcc).
//!
//! A flow's record has 8 bytes, key included. It is needed only while a message is under way: slots, one each 250 us, remove
//! records whose message is over or abandoned, to make room for others. This does not change N, which is counted in the shared
//! state.
//!
//! When the table is full, all flows without a record share one, and count as one flow in N.

use crate::rcc::{ActiveFlowCounter, PRESETS, Params, RccSettings};
use crate::{Arrival, CnpPolicy, Cx, Event, NotificationPoint, Reply, Slot};
use cc_core::params::{ParamError, Preset};
use cc_core::snapshot::flags;
use cc_core::table::{Keyed, RoundRobinTableIn, Storage};
use cc_core::{Bytes, Grant, Link, Mark, Nanos, Qpn, State, Zeroed};

/// The record of one flow, key included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RccSender {
    /// Local queue pair (24 bits), and [`ACTIVE`].
    flow: u32,
    /// The epoch of its last packet.
    epoch: u32,
}

/// A message is under way.
const ACTIVE: u32 = 1 << 31;

impl Keyed for RccSender {
    #[inline]
    fn qpn(&self) -> Qpn {
        Qpn::new(self.flow)
    }
}

impl Zeroed for RccSender {
    const ZEROED: Self = Self { flow: 0, epoch: 0 };
}

cc_core::snapshot! {
    /// A flow of RCC's sender variant at the receiver.
    pub struct RccSenderSnapshot {
        /// The local queue pair.
        pub local: Qpn,
        /// A message is under way.
        pub is_active: bool,
        /// The epoch of its last packet, modulo 2^32.
        pub epoch: u32,
    }
}

impl State for RccSender {
    type Snapshot = RccSenderSnapshot;

    fn snapshot(&self) -> RccSenderSnapshot {
        RccSenderSnapshot { local: self.qpn(), is_active: self.flow & ACTIVE != 0, epoch: self.epoch }
    }

    fn from_snapshot(s: RccSenderSnapshot) -> Self {
        Self { flow: s.local.get() | flags([(s.is_active, ACTIVE)]), epoch: s.epoch }
    }
}

impl NotificationPoint for RccSender {
    type Settings = RccSettings;
    type Params = Params;
    type Shared = ActiveFlowCounter;
    type Flows<SETS: Storage, const WAYS: usize> = RoundRobinTableIn<Self, SETS, WAYS>;

    const NAME: &'static str = "rcc_sender";
    const PRESETS: &'static [Preset<RccSettings>] = PRESETS;
    const SHARED: ActiveFlowCounter = ActiveFlowCounter::NONE;
    const REPLIES: bool = true;

    const TRANSITIONS: &'static [&'static str] = &[
        "no message under way, data: the flow counts in N",
        "a message under way, data: N and B_R are sent",
        "a message under way, slot: nothing",
        "no message under way, or an abandoned one, slot: the record is removed",
    ];

    fn check(settings: &RccSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn cnp_policy(params: &Params) -> &CnpPolicy {
        params.cnp_policy()
    }

    /// Idle timeout of the shared record, 1 s; records of the table have none.
    fn idle_timeout(_params: &Params) -> Nanos {
        Nanos::new(1_000_000_000)
    }

    #[inline]
    fn reacts_to(_mark: Mark) -> bool {
        true
    }

    #[inline]
    fn open(_cx: &Cx<'_, Params>, _shared: &mut ActiveFlowCounter, local: Option<Qpn>) -> Self {
        Self { flow: local.map_or(0, Qpn::get), epoch: 0 }
    }

    fn transition(&self, cx: &Cx<'_, Params>, shared: &ActiveFlowCounter, event: &Event<'_>) -> usize {
        let mut active_flows = *shared;
        match event {
            Event::Arrival(arrival) => {
                active_flows.receive(cx.params, cx.now, arrival.bytes);
                usize::from(self.is_counted(&active_flows))
            }
            Event::Slot => 3_usize.wrapping_sub(self.is_counted(shared).into()),
        }
    }

    #[inline]
    fn on(&mut self, cx: &Cx<'_, Params>, shared: &mut ActiveFlowCounter, arrival: &Arrival<'_>) -> Reply {
        let p = cx.params;
        shared.receive(p, cx.now, arrival.bytes);
        if self.is_counted(shared) {
            shared.renew_flow(self.epoch);
        } else {
            self.flow |= ACTIVE;
            shared.add_flow(p);
        }
        self.epoch = shared.epoch();
        let grant = Grant::Rcc { window: Bytes::ZERO, flows: shared.flows(), utilisation: shared.in_use() };
        if arrival.last {
            self.flow &= !ACTIVE;
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

    /// 250 us: 4,000 slots in a second. A record that is removed late occupies its place in the table, and has no other effect.
    fn slot_interval(_params: &Params) -> Option<Nanos> {
        Some(Nanos::new(250_000))
    }

    #[inline]
    fn slot(&mut self, _cx: &Cx<'_, Params>, shared: &mut ActiveFlowCounter) -> Slot {
        if self.is_counted(shared) { Slot::Skip } else { Slot::Remove }
    }
}

impl RccSender {
    /// Whether a message is under way.
    pub const fn is_active(&self) -> bool {
        self.flow & ACTIVE != 0
    }

    /// Whether the flow is counted in N.
    #[inline]
    const fn is_counted(&self, active_flows: &ActiveFlowCounter) -> bool {
        self.is_active() && active_flows.counts(self.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::Ring;
    use crate::rcc::STABLE;
    use crate::{NpEngine, RxMeta};
    use cc_core::wire::{Addresses, Bth, Extensions, Frame, Mac, Parsed, Shims, TableCrc, Tags, opcode, parse};
    use cc_core::{Ecn, Instant, IntStack, Psn, Rate, Stamp};

    const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(12_000) };

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
    fn n_and_b_r_are_sent_and_abandoned_messages_are_removed() {
        assert_eq!(size_of::<RccSender>(), 8);
        let params = RccSender::check(&STABLE, &LINK).unwrap();
        let cx = |now| Cx { now: Instant::from_nanos(now), link: &LINK, params: &params };
        let mut active_flows = RccSender::SHARED;
        let mut flows = [5, 6].map(|qpn| RccSender::open(&cx(0), &mut active_flows, Some(Qpn::new(qpn))));
        let granted = |reply: Reply| match reply.grant {
            Grant::Rcc { flows, utilisation, .. } => (flows, utilisation),
            _ => (0, 0),
        };
        assert_eq!(granted(flows[0].on(&cx(0), &mut active_flows, &arrival(true, false))), (1, 0));
        assert_eq!(granted(flows[1].on(&cx(10), &mut active_flows, &arrival(true, false))), (2, 0));
        for packet in 0..300 {
            flows[0].on(&cx(100 + packet * 100), &mut active_flows, &arrival(false, false));
        }
        let (n, in_use) = granted(flows[0].on(&cx(30_100), &mut active_flows, &arrival(false, true)));
        assert_eq!(n, 2);
        assert!((f64::from(in_use) / 65_536.0 - 0.870).abs() < 0.02, "{in_use}");
        assert_eq!(flows[0].slot(&cx(30_200), &mut active_flows), Slot::Remove);
        // The last packet of flow 1 came in the first epoch, of 16 384 ns; packets of flow 0 advance the epoch.
        for (now, slot) in [(16 * 16_384 - 1, Slot::Skip), (16 * 16_384 + 12_000, Slot::Remove)] {
            flows[0].on(&cx(now), &mut active_flows, &arrival(true, false));
            assert_eq!(flows[1].slot(&cx(now), &mut active_flows), slot);
        }
        flows[1].on_evicted(&cx(16 * 16_384 + 12_001), &mut active_flows);
        assert_eq!(active_flows.flows(), 1);
        assert_eq!(flows[1].qpn(), Qpn::new(6));
    }

    /// Slots only make room in the table: an engine with room for all flows grants the same with punctual wakes and with none.
    #[test]
    fn slots_change_no_grant() {
        type Engine = NpEngine<RccSender, 8, 4>;
        let engine = || Engine::new(Instant::from_nanos(0), LINK, RccSender::check(&STABLE, &LINK).unwrap());
        let (mut punctual, mut never_woken) = (engine(), engine());
        let (mut now, mut random, mut ring) = (0_u64, 1_u64, Ring::new(512));
        let (mut granted, mut room) = ([0; 12], false);
        for _ in 0..20_000 {
            // Knuth's generator of 64 bits.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let draw = random >> 33;
            let wait = [100, 100, 20_000, 300_000][draw as usize % 4];
            for part in 1..=4 {
                punctual.wake(Instant::from_nanos(now + wait * part / 4), &mut ring);
            }
            now += wait;
            let opcode = [opcode::SEND_FIRST, opcode::SEND_MIDDLE, opcode::SEND_MIDDLE, opcode::SEND_LAST]
                [(draw >> 3) as usize % 4];
            let (frame, length) = data(opcode, Qpn::new(5 * ((draw >> 6) as u32 % 11)));
            let Ok(Parsed::Roce(roce)) = parse(&frame[..length], length) else { panic!("a data packet") };
            let at = Instant::from_nanos(now);
            let rx = RxMeta { msn: Some(1), ..RxMeta::new(at.stamp(), Some(Qpn::new(9))) };
            let outcome = punctual.arrival(at, &roce, rx, &mut ring);
            assert_eq!(outcome, never_woken.arrival(at, &roce, rx, &mut ring));
            room |= punctual.live_flows() < never_woken.live_flows();
            if let Grant::Rcc { flows, .. } = outcome.reply.grant {
                granted[usize::from(flows)] += 1;
            }
        }
        assert!(room, "slots make room");
        assert!(granted[1] > 100 && granted[5] > 100, "{granted:?}");
        assert_eq!(never_woken.counters().np_flows_untracked, 0);
    }

    fn data(opcode: u8, dest_qp: Qpn) -> ([u8; 256], usize) {
        let mut buffer = [0; 256];
        let frame = Frame {
            destination: Mac::new([2; 6]),
            source: Mac::new([4; 6]),
            tags: Tags::NONE,
            addresses: Addresses::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() },
            dscp: 26,
            ecn: Ecn::Ect0,
            hop_limit: 64,
            udp_source: 0xc000,
            shims: Shims::NONE,
            bth: Bth { opcode, dest_qp, ..Bth::default() },
            extensions: Extensions::default(),
            payload: &[0; 64],
        };
        let length = frame.emit::<TableCrc>(&mut buffer).unwrap();
        (buffer, length)
    }
}
