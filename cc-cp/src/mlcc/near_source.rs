//! MLCC at the sender's interconnect switch: the near-source loop (section 3.2.1).
//!
//! A data packet that leaves for the long link has collected the telemetry of its own datacentre. The switch sends that back to
//! the sender at once, in a CNP of kind 4 (Switch-INT), and clears it in the packet, for it would be a whole round trip of the
//! long link old on its return.
//!
//! Where the paper returns every packet's, a setting can space the CNPs of a flow: HPCC's law needs several a round trip, not one a
//! packet.
//!
//! The CNP names the sender's flow by the receiver's queue pair, since no data packet carries the sender's.
//!
//! Per flow: 16 bytes, of which eight are the table's. Flows that the table has no room for, counted, are spaced as if they
//! were one. If forgotten: the next packet's telemetry is returned at once.

use crate::segment::{Endpoint, FlowKey, Rewrite, Transit};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::table::SetAssocTable;
use cc_core::{CnpBody, CnpKind, Instant, Nanos, Stamp, Zeroed};

cc_core::settings! {
    /// What the user sets.
    pub struct NearSourceSettings {
        /// How far apart the Switch-INT of a flow are at least; 0 returns that of every packet.
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
    /// What the machine computes with.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        interval: Nanos,
    }
}

impl Params {
    /// Turns settings into parameters.
    ///
    /// # Errors
    /// A setting out of range.
    pub fn new(settings: &NearSourceSettings) -> Result<Self, ParamError> {
        settings.in_range()?;
        Ok(Self { interval: Nanos::new(settings.interval) })
    }
}

/// A flow whose last Switch-INT is longer ago is as one that was never seen: the longest interval is shorter.
const IDLE_TIMEOUT: Nanos = Nanos::new(20_000_000);

cc_core::zeroed! {
    /// One flow, or all that share.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    struct Flow {
        /// Tells it from others that share its place.
        check: u32,
        /// Its last Switch-INT.
        returned: Stamp,
    }
}

const _: () = assert!(SetAssocTable::<Flow, 1, 1>::ENTRY_BYTES == 16, "a flow has outgrown 16 bytes");

cc_core::zeroed! {
    /// What a queue has counted.
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
pub struct NearSource<const SETS: usize, const WAYS: usize> {
    flows: SetAssocTable<Flow, SETS, WAYS>,
    /// When a flow without a record may have the next Switch-INT.
    shared: Stamp,
    counters: NearSourceCounters,
}

impl<const SETS: usize, const WAYS: usize> Zeroed for NearSource<SETS, WAYS> {
    const ZEROED: Self =
        Self { flows: SetAssocTable::new(), shared: Stamp::ZEROED, counters: NearSourceCounters::ZEROED };
}

impl<const SETS: usize, const WAYS: usize> NearSource<SETS, WAYS> {
    /// A queue by which nothing has gone.
    pub const fn open(now: Stamp) -> Self {
        let mut machine = Self::ZEROED;
        machine.begin(now);
        machine
    }

    /// Becomes what [`NearSource::open`] makes, of what is blank.
    pub const fn begin(&mut self, now: Stamp) {
        self.shared = now;
    }

    /// What was counted so far.
    pub const fn counters(&self) -> NearSourceCounters {
        self.counters
    }

    /// Forgets flows that have nothing to remember. To be called at least once a second.
    pub fn wake(&mut self, now: Stamp) {
        self.flows.sweep(now, IDLE_TIMEOUT, SETS, |_| {});
        if self.shared.is_due(now) {
            self.shared = now;
        }
    }

    /// Whether this flow's telemetry is to be returned now.
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

impl<const SETS: usize, const WAYS: usize> Endpoint for NearSource<SETS, WAYS> {
    type Params = Params;

    fn forward(&mut self, p: &Params, now: Instant, packet: &Transit) -> Rewrite {
        let asis = Rewrite { ecn: packet.ecn, ..Rewrite::default() };
        if !packet.data {
            return asis;
        }
        let due = self.is_due(p, now.stamp(), packet.flow);
        self.counters.returned = self.counters.returned.wrapping_add(u64::from(due));
        let notify = due.then(|| CnpBody {
            kind: CnpKind::SwitchInt,
            names_remote_qpn: true,
            remote_qpn: packet.flow.data_qpn,
            ..CnpBody::default()
        });
        Rewrite { notify, clear_int: true, ..asis }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::{Bytes, Ecn, Qpn};

    fn packet(peers: u32, qpn: u32) -> Transit {
        let flow = FlowKey { peers, data_qpn: Qpn::new(qpn) };
        Transit { flow, data: true, bytes: Bytes::new(1_064), ecn: Ecn::Ce }
    }

    fn params(interval: u32) -> Params {
        Params::new(&NearSourceSettings { interval }).unwrap()
    }

    #[test]
    fn each_data_packet_goes_on_without_telemetry_and_the_sender_has_it_back() {
        let mut queue = NearSource::<4, 2>::open(Stamp::from_bits(0));
        for now in 0..100 {
            let rewrite = queue.forward(&params(0), Instant::from_nanos(now), &packet(7, 0x00ab_cdef));
            let body = rewrite.notify.unwrap();
            assert_eq!(
                (body.kind, body.names_remote_qpn, body.remote_qpn),
                (CnpKind::SwitchInt, true, Qpn::new(0x00ab_cdef))
            );
            assert!(rewrite.clear_int && rewrite.mlcc.is_none());
            assert_eq!(rewrite.ecn, Ecn::Ce, "marks are for others");
        }
        let other = Transit { data: false, ..packet(7, 1) };
        assert_eq!(
            queue.forward(&params(0), Instant::from_nanos(0), &other),
            Rewrite { ecn: Ecn::Ce, ..Rewrite::default() }
        );
        assert_eq!(queue.counters(), NearSourceCounters { returned: 100, untracked: 0 });
    }

    #[test]
    fn a_flow_s_switch_int_can_be_spaced_and_flows_do_not_share_the_space() {
        let (mut queue, p) = (NearSource::<64, 4>::open(Stamp::from_bits(0)), params(2_000));
        let mut returned = [0; 3];
        for now in 0..40_000_u64 {
            let flow = now as u32 % 3;
            // One number at two addresses, and two numbers at one.
            let packet = packet(flow / 2, 17 + flow % 2);
            let at = Instant::from_nanos(4_294_960_000 + now * 20);
            returned[flow as usize] += u32::from(queue.forward(&p, at, &packet).notify.is_some());
            if now % 1_000 == 0 {
                queue.wake(at.stamp());
            }
        }
        // 800 us, by the packets' own times: one in 2.04 us.
        assert!(returned.iter().all(|&count| (392..=401).contains(&count)), "{returned:?}");
    }

    #[test]
    fn flows_without_a_record_are_spaced_as_one_and_counted() {
        let (mut queue, p) = (NearSource::<1, 2>::open(Stamp::from_bits(0)), params(2_000));
        let mut returned = std::collections::BTreeMap::<u32, u32>::new();
        for now in 0..50_000_u64 {
            let flow = now as u32 % 10;
            let rewrite = queue.forward(&p, Instant::from_nanos(now * 10), &packet(1, 100 + flow));
            assert!(rewrite.clear_int);
            *returned.entry(flow.min(2)).or_default() += u32::from(rewrite.notify.is_some());
        }
        // 500 us.
        assert!(returned.values().all(|count| (240..=251).contains(count)), "{returned:?}");
        assert_eq!(queue.counters().untracked, 40_000);
        // Those that have gone give way.
        queue.wake(Stamp::from_bits(600_000_000));
        let later = Instant::from_nanos(600_000_001);
        assert!(queue.forward(&p, later, &packet(1, 109)).notify.is_some());
        assert_eq!(queue.counters().untracked, 40_000);
    }
}
