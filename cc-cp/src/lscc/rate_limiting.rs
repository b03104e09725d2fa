//! LSCC's rate limiting: the sources of this datacentre are held to what the far end of the long link can take.
//!
//! M. Long et al., section III-C, Eq. 10 and Algorithm 2, at the queue towards the long link:
//!
//! ```text
//! q* = max(0, q* + bytes in - R dt)                                             (10), R by the far end's feedback
//! each t_dcnp, while q* >= Q*ref: a direct CNP to each flow that is marked, or that has sent less than a threshold
//! each T_reset: no flow is marked any more
//! a packet with CE: its flow is marked, and the packet goes on with ECT(0), for its congestion is answered here
//! a CNP from the far datacentre: its flow is marked, and the CNP goes on
//! ```
//!
//! The pseudo queue q* lets the sources settle at R without a real queue. A flow that has sent more than a round trip
//! carries, and is not marked, has its bottleneck elsewhere, and is left alone.
//!
//! Deviations:
//! - a direct CNP is made of a flow's next packet, not of a list of addresses: it is as current, a flow that sends nothing
//!   needs none, entries hold no addresses, and no event walks the table;
//! - the direct CNP names the sender's flow by the receiver's queue pair (`remote_qpn`, `by_remote`), since no data packet
//!   carries the sender's;
//! - a CNP from afar marks the flow that its body names; where it names none it marks all flows between the two addresses;
//! - no feedback for 4 T: R holds that long, and then rises by dR each T to its maximum.
//!
//! The settings t_dcnp, T_reset and the threshold are not in the paper: see [`PRESETS`].
//!
//! If forgotten: a flow counts as new, and gets direct CNPs until it has sent the threshold again.

use super::rate_calculation::{Feedback, rate};
use crate::segment::{Endpoint, FlowKey, Rewrite, Transit};
use cc_core::math::Divider;
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::table::PeerTable;
use cc_core::{Bytes, CnpBody, CnpKind, Ecn, Instant, Nanos, Port, Qpn, Rate, Stamp};
use core::num::NonZeroU32;

cc_core::settings! {
    /// What the user sets.
    pub struct LimitingSettings {
        /// Q*_ref: the pseudo queue from which direct CNPs are sent.
        reference: Bytes, 0..=0x7fff_ffff, ["Q*_ref"];
        /// t_dcnp: how often a flow gets a direct CNP at most.
        notify_period: Nanos, 1_000..=100_000_000, ["t_dcnp"];
        /// T_reset: how often marks are taken off.
        reset_period: Nanos, 1_000..=100_000_000, ["T_reset"];
        /// A flow that has sent less is new; 0 is a round trip and a quarter at the port's speed.
        threshold: Bytes, 0..=0xffff_ffff, [];
        /// D: how long the long link takes one way, for that.
        delay: Nanos, 0..=100_000_000, ["D"];
        /// T: the far end's period.
        period: Nanos, 1_000..=10_000_000, ["T"];
        /// dR: by so much R rises in each period without feedback.
        slew: Mbps, 1..=1_600_000, ["dR"];
    }
}

/// The presets, the default first.
pub const PRESETS: &[Preset<LimitingSettings>] = &[
    Preset {
        name: "paper",
        source: "LSCC IV-B: Q*_ref = 2 MB, T = 200 us, dR = 1 Gb/s, D = 1 ms; t_dcnp a tenth of the normal CNP interval of \
                 500 us, T_reset as that interval, ours",
        values: LimitingSettings {
            reference: 2_000_000,
            notify_period: 50_000,
            reset_period: 500_000,
            threshold: 0,
            delay: 1_000_000,
            period: 200_000,
            slew: 1_000,
        },
    },
    Preset {
        name: "testbed",
        source: "LSCC IV-A, the DPDK testbed: Q*_ref = 200 KB, dR = 50 Mb/s, D = 500 us; the rest as in `paper`",
        values: LimitingSettings {
            reference: 200_000,
            notify_period: 50_000,
            reset_period: 500_000,
            threshold: 0,
            delay: 500_000,
            period: 200_000,
            slew: 50,
        },
    },
];

/// What the machine computes with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// In 1/256 of a byte, as the queue.
    reference: u64,
    notify: Ticks,
    reset: Ticks,
    threshold: u32,
    period: Nanos,
    slew: Rate,
    line: Rate,
}

/// Something that happens again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ticks {
    length: u32,
    divider: Divider,
}

impl Ticks {
    fn every(length: u32) -> Option<Self> {
        NonZeroU32::new(length).map(|length| Self { length: length.get(), divider: Divider::new(length) })
    }

    /// The last tick at or before `now`, of those at `due` and later; `None` when there is none.
    fn last(self, due: Stamp, now: Stamp) -> Option<Stamp> {
        if !due.is_due(now) {
            return None;
        }
        let late = now.since(due).get();
        Some(due.after(Nanos::new(self.divider.quotient(late).wrapping_mul(self.length))))
    }
}

impl Params {
    /// Turns settings into parameters for a long link of the port's speed.
    ///
    /// # Errors
    /// A setting out of range; a threshold below what the link carries in a round trip.
    pub fn new(settings: &LimitingSettings, port: &Port) -> Result<Self, ParamError> {
        settings.in_range()?;
        let none = ParamError::Conflict { field: "notify_period", expected: "must not be zero" };
        let (Some(notify), Some(reset)) = (Ticks::every(settings.notify_period), Ticks::every(settings.reset_period))
        else {
            return Err(none);
        };
        let one_way = port.line_rate.bytes_in(Nanos::new(settings.delay));
        let round_trip = one_way.saturating_add(one_way);
        let threshold = match settings.threshold {
            0 => round_trip.saturating_add(Bytes::new(round_trip.get() >> 2)),
            threshold => Bytes::new(threshold),
        };
        if threshold < round_trip {
            return Err(ParamError::Conflict {
                field: "threshold",
                expected: "must be at least what the link carries in a round trip",
            });
        }
        Ok(Self {
            reference: u64::from(settings.reference) << FINE,
            notify,
            reset,
            threshold: threshold.get(),
            period: Nanos::new(settings.period),
            slew: Rate::from_mbps(settings.slew),
            line: port.line_rate,
        })
    }
}

/// Fraction bits of the pseudo queue, so that no rate is lost to rounding over short times.
const FINE: u32 = 8;
/// Periods without feedback in which R holds.
const PATIENCE: u32 = 4;
/// A flow that sends nothing for longer is forgotten.
const MEMORY: Nanos = Nanos::new(2_000_000_000);

/// One flow. With the table's own eight bytes an entry is 20.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
struct Flow {
    /// Tells it from others that share its place.
    check: u32,
    /// Bytes that it has sent, at most the threshold.
    sent: u32,
    /// The reset period in which it was marked last.
    marked: u16,
    /// The notification period in which it was notified last.
    notified: u16,
}

const _: () = assert!(
    size_of::<PeerTable<Flow, 2, 1>>() <= size_of::<PeerTable<Flow, 1, 1>>() + 28,
    "a flow has outgrown 28 bytes"
);

/// The state of one long link's port and priority, with entries of at most `SETS * WAYS` flows.
pub struct RateLimiting<const SETS: usize, const WAYS: usize> {
    /// q*, in 1/256 of a byte.
    queue: u64,
    /// R.
    rate: Rate,
    /// What q* is of.
    as_of: Stamp,
    /// When R rises without feedback.
    rises_at: Stamp,
    notify_at: Stamp,
    reset_at: Stamp,
    /// Number of the last feedback.
    seq: u16,
    /// The period between resets, never zero.
    reset: u16,
    /// The period between notifications, never zero.
    notify: u16,
    heard: bool,
    /// Direct CNPs are sent in this period.
    notifying: bool,
    flows: PeerTable<Flow, SETS, WAYS>,
}

impl<const SETS: usize, const WAYS: usize> RateLimiting<SETS, WAYS> {
    /// A port by which nothing has gone. Until the far end says otherwise, R is the port's speed.
    pub const fn open(p: &Params, now: Stamp) -> Self {
        Self {
            queue: 0,
            rate: p.line,
            as_of: now,
            rises_at: now,
            notify_at: now.after(Nanos::new(p.notify.length)),
            reset_at: now.after(Nanos::new(p.reset.length)),
            seq: 0,
            reset: 1,
            notify: 1,
            heard: false,
            notifying: false,
            flows: PeerTable::new(Flow { check: 0, sent: 0, marked: 0, notified: 0 }),
        }
    }

    /// q*.
    #[expect(clippy::cast_possible_truncation, reason = "saturated")]
    pub fn pseudo_queue(&self) -> Bytes {
        Bytes::new((self.queue >> FINE).min(u64::from(u32::MAX)) as u32)
    }

    /// R as of the last event.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// The far end has sent a rate. One that is older than the last is dropped.
    pub fn told(&mut self, p: &Params, now: Stamp, feedback: &Feedback) {
        self.pass_time(p, now);
        let ahead = feedback.seq.wrapping_sub(self.seq);
        if self.heard && (ahead == 0 || ahead >= 1 << 15) {
            return;
        }
        (self.seq, self.heard, self.rate) = (feedback.seq, true, feedback.rate.min(p.line));
        self.rises_at = now.after(Nanos::new(p.period.get().saturating_mul(PATIENCE.saturating_add(1))));
    }

    /// A CNP of the far datacentre passes, for this flow of ours.
    pub fn notified(&mut self, p: &Params, now: Stamp, flow: FlowKey) {
        self.pass_time(p, now);
        let reset = self.reset;
        if let Some(flow) = self.flow(now, flow) {
            flow.marked = reset;
        }
    }

    /// Lets time pass. To be called at least once a second.
    pub fn wake(&mut self, p: &Params, now: Stamp) {
        self.pass_time(p, now);
        self.flows.sweep(now, MEMORY, SETS, |_| {});
    }

    /// Everything that takes time and no packet: the queue drains, R rises, periods begin.
    fn pass_time(&mut self, p: &Params, now: Stamp) {
        if let Some(tick) = p.notify.last(self.notify_at, now) {
            self.drain_until(p, tick);
            self.notifying = self.queue >= p.reference;
            self.notify = self.notify.wrapping_add(1).max(1);
            self.notify_at = tick.after(Nanos::new(p.notify.length));
        }
        if let Some(tick) = p.reset.last(self.reset_at, now) {
            self.reset = self.reset.wrapping_add(1).max(1);
            self.reset_at = tick.after(Nanos::new(p.reset.length));
        }
        self.drain_until(p, now);
    }

    /// (10) without arrivals, with R as it rises on the way: at most as many steps as there are from nothing to the port's
    /// speed.
    fn drain_until(&mut self, p: &Params, until: Stamp) {
        while self.heard && self.rate < p.line && self.rises_at.is_due(until) {
            self.drain(self.rises_at);
            self.rate = self.rate.saturating_add(p.slew).min(p.line);
            self.rises_at = self.rises_at.after(p.period);
        }
        if self.rises_at.is_due(until) {
            // R has nothing left to rise to; the stamp must not go stale.
            self.rises_at = until;
        }
        self.drain(until);
    }

    fn drain(&mut self, until: Stamp) {
        if self.as_of.is_due(until) {
            let drained = u64::from(self.rate.to_bits()).wrapping_mul(u64::from(until.since(self.as_of).get()));
            self.queue = self.queue.saturating_sub(drained >> 24u32.wrapping_sub(FINE));
            self.as_of = until;
        }
    }

    /// A flow's entry, a new one where there is none.
    fn flow(&mut self, now: Stamp, key: FlowKey) -> Option<&mut Flow> {
        let new = Flow { check: key.check(), sent: 0, marked: 0, notified: 0 };
        let (flow, _) = self.flows.touch(key.place(), now, MEMORY, |_| new)?;
        if flow.check != new.check {
            *flow = new;
        }
        Some(flow)
    }
}

impl<const SETS: usize, const WAYS: usize> Endpoint for RateLimiting<SETS, WAYS> {
    type Params = Params;

    fn forward(&mut self, p: &Params, now: Instant, packet: &Transit) -> Rewrite {
        let now = now.stamp();
        self.pass_time(p, now);
        self.queue = self.queue.saturating_add(u64::from(packet.bytes.get()) << FINE); // (10)
        let asis = Rewrite { ecn: packet.ecn, ..Rewrite::default() };
        if !packet.data {
            return asis;
        }
        let (reset, notify, notifying, threshold) = (self.reset, self.notify, self.notifying, p.threshold);
        let data_qpn = packet.flow.data_qpn;
        let Some(flow) = self.flow(now, packet.flow) else { return asis };
        let mut ecn = packet.ecn;
        if ecn == Ecn::Ce {
            flow.marked = reset;
            ecn = Ecn::Ect0;
        }
        let is_new = flow.sent < threshold;
        flow.sent = flow.sent.saturating_add(packet.bytes.get()).min(threshold);
        let due = notifying && flow.notified != notify && (is_new || flow.marked == reset);
        if due {
            flow.notified = notify;
        }
        Rewrite { ecn, notify: due.then(|| direct(data_qpn)), ..Rewrite::default() }
    }
}

/// What a direct CNP says.
fn direct(data_qpn: Qpn) -> CnpBody {
    CnpBody { kind: CnpKind::Direct, ce: true, by_remote: true, remote_qpn: data_qpn, ..CnpBody::default() }
}

/// R as it was sent: so many units of so many Mb/s.
pub fn feedback_rate(units: u32, unit_mbps: u32) -> Rate {
    rate(units.saturating_mul(unit_mbps).saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec::Vec;

    const PORT: Port =
        Port { line_rate: Rate::from_gbps(200), mtu: Bytes::new(1_000), base_rtt: Nanos::new(2_000_000) };
    const PAPER: LimitingSettings = PRESETS[0].values;
    type Machine = RateLimiting<16, 4>;

    struct Bench {
        params: Params,
        machine: Machine,
    }

    impl Bench {
        fn new() -> Self {
            let params = Params::new(&PAPER, &PORT).unwrap();
            Self { machine: Machine::open(&params, Stamp::from_bits(0)), params }
        }

        fn told(&mut self, now: u32, seq: u16, gbps: u32) {
            let rate = Rate::from_gbps(gbps);
            let feedback = Feedback { units: 0, rate, seq, at_minimum: false, at_maximum: false };
            self.machine.told(&self.params, Stamp::from_bits(now), &feedback);
        }

        fn sends(&mut self, now: u32, flow: u32, bytes: u32, ecn: Ecn) -> Rewrite {
            let packet = Transit { flow: key(flow), data: true, bytes: Bytes::new(bytes), ecn };
            self.machine.forward(&self.params, Instant::from_nanos(now.into()), &packet)
        }
    }

    fn key(flow: u32) -> FlowKey {
        FlowKey { peers: flow.wrapping_mul(77), data_qpn: Qpn::new(flow) }
    }

    #[test]
    fn the_pseudo_queue_grows_by_what_comes_and_drains_at_the_rate_that_was_fed_back() {
        let mut bench = Bench::new();
        bench.told(0, 1, 40);
        for packet in 0..1_000 {
            bench.sends(packet * 100, 1, 1_000, Ecn::Ect0); // 80 Gb/s
        }
        // 1 MB came, and 40 Gb/s drained it over 99.9 us.
        assert_eq!(bench.machine.pseudo_queue().get(), 1_000_000 - 5 * 99_900);
        bench.machine.wake(&bench.params, Stamp::from_bits(199_900));
        assert_eq!(bench.machine.pseudo_queue().get(), 500);
        bench.machine.wake(&bench.params, Stamp::from_bits(200_900));
        assert_eq!(bench.machine.pseudo_queue().get(), 0);
    }

    #[test]
    fn above_the_reference_each_new_flow_gets_one_direct_cnp_a_period() {
        let mut bench = Bench::new();
        bench.told(0, 1, 1);
        assert_eq!(bench.sends(10, 1, 2_100_000, Ecn::Ect0).notify, None, "the period has not begun yet");
        let first = bench.sends(50_000, 7, 1_000, Ecn::Ect0).notify.unwrap();
        assert_eq!((first.kind, first.by_remote, first.remote_qpn), (CnpKind::Direct, true, Qpn::new(7)));
        assert_eq!(bench.sends(60_000, 7, 1_000, Ecn::Ect0).notify, None);
        assert!(bench.sends(60_000, 8, 1_000, Ecn::Ect0).notify.is_some(), "another flow");
        assert!(bench.sends(100_000, 7, 1_000, Ecn::Ect0).notify.is_some(), "another period");
    }

    #[test]
    fn a_long_flow_is_left_alone_until_it_is_marked_and_again_after_the_reset() {
        let mut bench = Bench::new();
        bench.told(0, 1, 1);
        // A round trip and a quarter: 62.5 MB.
        bench.sends(10, 1, 62_500_000, Ecn::Ect0);
        assert_eq!(bench.sends(100_000, 1, 1_000, Ecn::Ect0).notify, None);
        let marked = bench.sends(110_000, 1, 1_000, Ecn::Ce);
        assert!(marked.notify.is_some());
        assert_eq!(marked.ecn, Ecn::Ect0, "answered here");
        assert!(bench.sends(160_000, 1, 1_000, Ecn::Ect0).notify.is_some(), "marked still");
        assert_eq!(bench.sends(510_000, 1, 1_000, Ecn::Ect0).notify, None, "reset at 500 us");
        bench.machine.notified(&bench.params, Stamp::from_bits(520_000), key(1));
        assert!(bench.sends(560_000, 1, 1_000, Ecn::Ect0).notify.is_some(), "marked by a CNP from afar");
    }

    #[test]
    fn feedback_that_is_old_is_dropped_and_silence_lets_the_rate_rise() {
        let mut bench = Bench::new();
        bench.told(0, 5, 40);
        bench.told(10, 4, 10);
        bench.told(20, 5, 20);
        assert_eq!(bench.machine.rate(), Rate::from_gbps(40));
        bench.machine.wake(&bench.params, Stamp::from_bits(999_999));
        assert_eq!(bench.machine.rate(), Rate::from_gbps(40), "it holds for four periods");
        bench.machine.wake(&bench.params, Stamp::from_bits(1_400_000));
        assert_eq!(bench.machine.rate(), Rate::from_gbps(43));
        bench.machine.wake(&bench.params, Stamp::from_bits(900_000_000));
        assert_eq!(bench.machine.rate(), PORT.line_rate);
        bench.told(900_000_010, 6, 30);
        assert_eq!(bench.machine.rate(), Rate::from_gbps(30));
    }

    #[test]
    fn a_threshold_below_a_round_trip_is_refused() {
        let error = Params::new(&LimitingSettings { threshold: 49_000_000, ..PAPER }, &PORT).unwrap_err().to_string();
        assert_eq!(error, "threshold: must be at least what the link carries in a round trip");
    }

    #[test]
    fn more_flows_than_entries_count_as_new() {
        let mut bench = Bench::new();
        bench.told(0, 1, 1);
        bench.sends(10, 0, 10_000_000, Ecn::Ect0);
        for flow in 0..1_000 {
            assert!(bench.sends(100_000, flow, 1_000, Ecn::Ect0).notify.is_some(), "{flow}");
        }
    }

    #[test]
    fn marks_of_other_kinds_and_packets_that_carry_no_data_pass() {
        let mut bench = Bench::new();
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
            assert_eq!(bench.sends(1, 1, 100, ecn), Rewrite { ecn, ..Rewrite::default() });
        }
        let ack = Transit { flow: key(1), data: false, bytes: Bytes::new(60), ecn: Ecn::Ce };
        let now = Instant::from_nanos(2);
        assert_eq!(bench.machine.forward(&bench.params, now, &ack), Rewrite { ecn: Ecn::Ce, ..Rewrite::default() });
    }

    proptest! {
        #[test]
        fn wakes_change_nothing(steps in prop::collection::vec((0..400_000_u32, 0..6_u32, 60..9_000_u32, 0..10_u8), 1..100)) {
            let (mut woken, mut left) = (Bench::new(), Bench::new());
            let mut now = 0_u32;
            for (step, (gap, flow, bytes, kind)) in steps.into_iter().enumerate() {
                for part in 1..8 {
                    woken.machine.wake(&woken.params, Stamp::from_bits(now + gap / 8 * part));
                }
                now += gap;
                let both = [&mut woken, &mut left];
                let said: Vec<_> = both.into_iter().map(|bench| match kind {
                    0 => {
                        bench.told(now, step as u16, bytes % 100);
                        None
                    }
                    1 => Some(bench.sends(now, flow, bytes * 200, Ecn::Ce)),
                    _ => Some(bench.sends(now, flow, bytes * 200, Ecn::Ect0)),
                }).collect();
                prop_assert_eq!(said[0], said[1]);
                prop_assert_eq!(woken.machine.rate(), left.machine.rate());
                // Rounded down at each wake, by less than a 256th of a byte.
                let gap = left.machine.queue.abs_diff(woken.machine.queue);
                prop_assert!(gap <= 8 * (step as u64 + 1), "{}", gap);
            }
        }
    }
}
