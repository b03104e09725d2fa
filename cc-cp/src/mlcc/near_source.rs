//! MLCC at the sender's interconnect switch: the near-source loop (section 3.2.1).
//!
//! A data packet that leaves for the long link has collected the telemetry of its own datacentre. The switch sends it back to
//! the sender at once, in a CNP of kind 4 (Switch-INT), and clears it in the packet. By way of the receiver it would reach the
//! sender a round trip of the long link later.
//!
//! Deviation: the paper returns the telemetry of every packet. Here a setting can space the CNPs of a flow, because HPCC's law
//! needs several in a round trip, and not one for each packet.
//!
//! The CNP identifies the flow by the receiver's queue pair, because data packets do not carry the sender's.
//!
//! A flow's record has 16 bytes, of which eight are the table's. Flows that the table has no room for are counted, and are
//! spaced as if they were one flow. After an eviction the telemetry of the flow's next packet is returned at once.

use crate::{Cx, Emit, Event, Kind, Kinds, QueueStage, Rewrite, Verdict};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::table::{SetAssocTable, SetAssocTableSnapshot};
use cc_core::wire::FlowKey;
use cc_core::{CnpBody, CnpKind, Link, Nanos, Stamp, State, Zeroed};

cc_core::settings! {
    /// Settings of near-source feedback.
    pub struct NearSourceSettings {
        /// Shortest time between two Switch-INT of a flow; 0: the telemetry of every packet is returned.
        interval: Nanos, 0..=10_000_000, [];
    }
}

/// The presets, the default first.
pub const PRESETS: &[Preset<NearSourceSettings>] = &[
    Preset {
        name: "paper",
        source: "MLCC 3.2.1: the telemetry of every data packet is returned",
        values: NearSourceSettings { interval: 0 },
    },
    Preset {
        name: "spaced",
        source: "ours: a dozen in a local round trip of 24 us",
        values: NearSourceSettings { interval: 2_000 },
    },
];

cc_core::zeroed! {
    /// Checked parameters.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        interval: Nanos,
    }
}

impl Params {
    /// Converts settings into parameters.
    ///
    /// # Errors
    /// A setting out of range.
    pub fn new(settings: &NearSourceSettings) -> Result<Self, ParamError> {
        settings.in_range()?;
        Ok(Self { interval: Nanos::new(settings.interval) })
    }
}

/// Idle timeout, 20 ms: a flow whose last packet is longer ago needs no record, because the longest `interval` is 10 ms.
const IDLE_TIMEOUT: Nanos = Nanos::new(20_000_000);

cc_core::zeroed! {
    /// The record of one flow.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    struct Flow {
        /// A second hash of the flow's key, which distinguishes flows with the same table key.
        check: u32,
        /// When its last Switch-INT was sent.
        returned: Stamp,
    }
}

const _: () = assert!(SetAssocTable::<Flow, 1, 1>::ENTRY_BYTES == 16, "a flow has outgrown 16 bytes");

cc_core::zeroed! {
    /// Counters of a queue.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct NearSourceCounters {
        /// Switch-INT sent.
        pub returned: u64,
        /// Data packets of flows that the table had no room for.
        pub untracked: u64,
    }
}

/// The state of one queue towards the long link, with records of at most `SETS * WAYS` flows.
pub struct NearSource<const SETS: usize = 16, const WAYS: usize = 4> {
    flows: SetAssocTable<Flow, SETS, WAYS>,
    /// When the next Switch-INT of flows without a record may be sent.
    shared: Stamp,
    counters: NearSourceCounters,
}

impl<const SETS: usize, const WAYS: usize> Zeroed for NearSource<SETS, WAYS> {
    const ZEROED: Self =
        Self { flows: SetAssocTable::new(), shared: Stamp::ZEROED, counters: NearSourceCounters::ZEROED };
}

impl<const SETS: usize, const WAYS: usize> NearSource<SETS, WAYS> {
    /// A queue before its first packet.
    pub const fn open(now: Stamp) -> Self {
        let mut machine = Self::ZEROED;
        machine.begin(now);
        machine
    }

    /// Initializes a zeroed state in place. The result is that of [`NearSource::open`].
    pub const fn begin(&mut self, now: Stamp) {
        self.shared = now;
    }

    /// The counters.
    pub const fn counters(&self) -> NearSourceCounters {
        self.counters
    }

    /// Removes the records of flows without a packet for 20 ms. To be called at least once a second.
    pub fn wake(&mut self, now: Stamp) {
        self.flows.sweep(now, IDLE_TIMEOUT, SETS, |_| {});
        if self.shared.is_due(now) {
            self.shared = now;
        }
    }

    /// Processes a data packet that leaves for the long link. Returns whether its telemetry is to be returned to its sender
    /// now.
    pub fn departure(&mut self, p: &Params, now: Stamp, flow: FlowKey) -> bool {
        let due = self.is_due(p, now, flow);
        self.counters.returned = self.counters.returned.wrapping_add(u64::from(due));
        due
    }

    fn is_due(&mut self, p: &Params, now: Stamp, key: FlowKey) -> bool {
        let long_ago = Stamp::from_bits(now.to_bits().wrapping_sub(p.interval.get()));
        let new = Flow { check: key.tag_hash(), returned: long_ago };
        match self.flows.admit(key.set_hash(), now, IDLE_TIMEOUT, |_| new) {
            Some(flow) if flow.check == new.check => {
                let due = now.since(flow.returned) >= p.interval;
                if due {
                    flow.returned = now;
                }
                due
            }
            _ => {
                self.counters.untracked = self.counters.untracked.wrapping_add(1);
                let due = self.shared.is_due(now);
                if due {
                    self.shared = now.after(p.interval);
                }
                due
            }
        }
    }
}

cc_core::snapshot! {
    /// A flow of near-source feedback.
    pub struct FlowSnapshot {
        /// A second hash of the flow's key, which distinguishes flows with the same table key.
        pub check: u32,
        /// When its last Switch-INT was sent.
        pub returned: Stamp,
    }
}

impl State for Flow {
    type Snapshot = FlowSnapshot;

    fn snapshot(&self) -> FlowSnapshot {
        FlowSnapshot { check: self.check, returned: self.returned }
    }

    fn from_snapshot(s: FlowSnapshot) -> Self {
        Self { check: s.check, returned: s.returned }
    }
}

cc_core::snapshot! {
    /// A queue of near-source feedback.
    pub struct NearSourceSnapshot<const SETS: usize, const WAYS: usize> {
        /// The flows.
        pub flows: SetAssocTableSnapshot<FlowSnapshot, SETS, WAYS>,
        /// When the next Switch-INT of flows without a record may be sent.
        pub shared: Stamp,
        /// Switch-INT sent.
        pub returned: u64,
        /// Data packets of flows that the table had no room for.
        pub untracked: u64,
    }
}

impl<const SETS: usize, const WAYS: usize> State for NearSource<SETS, WAYS> {
    type Snapshot = NearSourceSnapshot<SETS, WAYS>;

    fn snapshot(&self) -> NearSourceSnapshot<SETS, WAYS> {
        let NearSourceCounters { returned, untracked } = self.counters;
        NearSourceSnapshot { flows: self.flows.snapshot(), shared: self.shared, returned, untracked }
    }

    fn from_snapshot(s: NearSourceSnapshot<SETS, WAYS>) -> Self {
        let NearSourceSnapshot { flows, shared, returned, untracked } = s;
        let counters = NearSourceCounters { returned, untracked };
        Self { flows: SetAssocTable::from_snapshot(flows), shared, counters }
    }
}

impl<const SETS: usize, const WAYS: usize> QueueStage for NearSource<SETS, WAYS> {
    type Params = Params;
    type Settings = NearSourceSettings;

    const NAME: &'static str = "mlcc_near_source";
    const PRESETS: &'static [Preset<NearSourceSettings>] = PRESETS;
    const TAKES: Kinds = Kinds::of(&[Kind::Departure]);
    const READS_HEADERS: bool = true;
    const REWRITES: bool = true;
    const FLOW_BYTES: usize = SetAssocTable::<Flow, 1, 1>::ENTRY_BYTES;
    const FLOWS: usize = SETS.wrapping_mul(WAYS);

    fn check(settings: &NearSourceSettings, _port: &Link) -> Result<Params, ParamError> {
        Params::new(settings)
    }

    fn begin(&mut self, cx: &Cx<'_, Params>, _seed: u64) {
        self.begin(cx.now.stamp());
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>, out: &mut impl Emit) -> Verdict {
        let Event::Departure { packet, ecn, .. } = *event else { return Verdict::PASS };
        let flow = packet.data_flow();
        if let (Some(flow), Some(roce)) = (flow, packet.roce)
            && self.departure(cx.params, cx.now.stamp(), flow)
        {
            let (kind, remote_qpn) = (CnpKind::SwitchInt, flow.data_qpn);
            out.cnp(roce, CnpBody { kind, names_remote_qpn: true, remote_qpn, ..CnpBody::default() }, None);
        }
        let rewrite = Rewrite { ecn, clear_int: flow.is_some(), mlcc: None };
        Verdict { rewrite: Some(rewrite), ..Verdict::PASS }
    }

    fn wake(&mut self, cx: &Cx<'_, Params>, _out: &mut impl Emit) {
        self.wake(cx.now.stamp());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::Qpn;

    fn key(peers: u32, qpn: u32) -> FlowKey {
        FlowKey { peers, data_qpn: Qpn::new(qpn) }
    }

    fn params(interval: u32) -> Params {
        Params::new(&NearSourceSettings { interval }).unwrap()
    }

    #[test]
    fn the_telemetry_of_each_data_packet_is_returned() {
        let mut queue = NearSource::<4, 2>::open(Stamp::from_bits(0));
        for now in 0..100 {
            assert!(queue.departure(&params(0), Stamp::from_bits(now), key(7, 0x00ab_cdef)));
        }
        assert_eq!(queue.counters(), NearSourceCounters { returned: 100, untracked: 0 });
    }

    #[test]
    fn the_switch_int_of_each_flow_are_spaced_independently() {
        let (mut queue, p) = (NearSource::<64, 4>::open(Stamp::from_bits(0)), params(2_000));
        let mut returned = [0; 3];
        for now in 0..40_000_u64 {
            let flow = now as u32 % 3;
            // Three flows: two with the same queue pair number at two addresses, and two with different numbers at one address.
            let at = Stamp::from_bits((4_294_960_000 + now * 20) as u32);
            returned[flow as usize] += u32::from(queue.departure(&p, at, key(flow / 2, 17 + flow % 2)));
            if now % 1_000 == 0 {
                queue.wake(at);
            }
        }
        // 800 us, with one Switch-INT in 2.04 us, because a flow has a packet each 60 ns.
        assert!(returned.iter().all(|&count| (392..=401).contains(&count)), "{returned:?}");
    }

    #[test]
    fn flows_without_a_record_are_spaced_as_one_and_counted() {
        let (mut queue, p) = (NearSource::<1, 2>::open(Stamp::from_bits(0)), params(2_000));
        let mut returned = std::collections::BTreeMap::<u32, u32>::new();
        for now in 0..50_000_u32 {
            let flow = now % 10;
            let due = queue.departure(&p, Stamp::from_bits(now * 10), key(1, 100 + flow));
            *returned.entry(flow.min(2)).or_default() += u32::from(due);
        }
        // 500 us, with one Switch-INT in 2 us for each of the two flows with a record, and for all others together.
        assert!(returned.values().all(|count| (240..=251).contains(count)), "{returned:?}");
        assert_eq!(queue.counters().untracked, 40_000);
        // Records of flows that have ended are removed, and make room.
        queue.wake(Stamp::from_bits(600_000_000));
        assert!(queue.departure(&p, Stamp::from_bits(600_000_001), key(1, 109)));
        assert_eq!(queue.counters().untracked, 40_000);
    }
}
