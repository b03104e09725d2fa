//! HPCC*'s rate limiting: this switch sends the telemetry of the ports on the path to the long link directly to the sources in
//! its datacentre, without a round trip over that link. The pseudo queue is one more port in this telemetry.
//!
//! M. Long et al., section III-D, at the queue towards the long link. The telemetry of a data packet that leaves is copied into
//! a direct INT to its sender, and the pseudo queue's record is appended: q*, R and the bytes that have left it. The telemetry
//! in the packet is cleared, so that its acknowledgement carries the telemetry of the far datacentre alone. There is no flow
//! table.
//!
//! Deviations:
//! - a flow gets at most one direct INT each `spacing`, and flows with the same one of `SLOTS` places get one in turn; the
//!   paper sends one for each packet;
//! - the direct INT is a CNP that identifies the flow by the receiver's queue pair, because data packets do not carry the
//!   sender's;
//! - telemetry in the compact layout has no room for R, so that no direct INT is sent for it.

use super::pseudo_queue::{self, FeedbackCounters, PseudoQueue, PseudoQueueSnapshot, count};
use super::rate_calculation::Feedback;
use crate::{Cx, Emit, Event, Kind, Kinds, PeerMessage, QueueStage, Rewrite, Verdict};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::wire::{FlowKey, RateMessage};
use cc_core::{Bytes, CnpBody, CnpKind, Hop, Link, Nanos, Rate, Stamp, State, Zeroed};

cc_core::settings! {
    /// Settings of direct telemetry.
    pub struct DirectIntSettings {
        /// Shortest time between two direct INTs of a flow; 0: one for each packet.
        spacing: Nanos, 0..=1_000_000, [];
        /// T: the period of the far end's rate calculation.
        period: Nanos, 1_000..=10_000_000, ["T"];
        /// dR: the amount by which R rises in each period without feedback.
        slew: Mbps, 1..=1_600_000, ["dR"];
        /// Delta_F: the far end sends rates as multiples of this.
        unit: Mbps, 1..=1_000, ["Delta_F"];
    }
}

/// The presets, the default first.
pub const PRESETS: &[Preset<DirectIntSettings>] = &[
    Preset {
        name: "spaced",
        source: "LSCC IV-B: T = 200 us, dR = 1 Gb/s; one direct INT in 2 us, ours",
        values: DirectIntSettings { spacing: 2_000, period: 200_000, slew: 1_000, unit: 1 },
    },
    Preset {
        name: "paper",
        source: "LSCC III-D, IV-B: a direct INT for each packet, T = 200 us, dR = 1 Gb/s",
        values: DirectIntSettings { spacing: 0, period: 200_000, slew: 1_000, unit: 1 },
    },
];

cc_core::zeroed! {
    /// Checked parameters.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        spacing: Nanos,
        unit: u32,
        queue: pseudo_queue::Params,
    }
}

impl Params {
    /// Converts settings into parameters, for a long link of the port's speed.
    ///
    /// # Errors
    /// A setting out of range.
    pub fn new(settings: &DirectIntSettings, link: &Link) -> Result<Self, ParamError> {
        settings.in_range()?;
        Ok(Self {
            spacing: Nanos::new(settings.spacing),
            unit: settings.unit,
            queue: pseudo_queue::Params {
                period: Nanos::new(settings.period),
                slew: Rate::from_mbps(settings.slew),
                line: link.line_rate,
            },
        })
    }
}

/// The state of one long link's port and priority; `SLOTS` is a power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DirectInt<const SLOTS: usize = 64> {
    queue: PseudoQueue,
    /// Number of direct INTs sent so far.
    notified: u32,
    /// When the flows of each place may get their next direct INT.
    next: [Stamp; SLOTS],
}

impl<const SLOTS: usize> Zeroed for DirectInt<SLOTS> {
    const ZEROED: Self = Self { queue: PseudoQueue::ZEROED, notified: 0, next: [Stamp::ZEROED; SLOTS] };
}

impl<const SLOTS: usize> DirectInt<SLOTS> {
    const SIZES: () = assert!(SLOTS.is_power_of_two(), "the number of places is a power of two");

    /// A port before its first packet. R is the port's speed until the first feedback.
    pub fn open(p: &Params, now: Stamp) -> Self {
        let mut machine = Self::ZEROED;
        machine.begin(p, now);
        machine
    }

    /// Initializes a zeroed state in place. The result is that of [`DirectInt::open`].
    pub fn begin(&mut self, p: &Params, now: Stamp) {
        const { Self::SIZES };
        self.queue = PseudoQueue::open(&p.queue, now);
        self.next.fill(now);
    }

    /// q*.
    pub fn pseudo_queue(&self) -> Bytes {
        self.queue.len()
    }

    /// R as of the last event.
    pub const fn rate(&self) -> Rate {
        self.queue.rate()
    }

    /// Number of direct INTs sent so far.
    pub const fn notified(&self) -> u32 {
        self.notified
    }

    /// Counters of the feedback from the receiver's end.
    pub const fn feedback(&self) -> FeedbackCounters {
        self.queue.counters()
    }

    /// Processes a feedback message of the receiver's end.
    pub fn on_message(&mut self, p: &Params, now: Stamp, message: &RateMessage) {
        self.queue.pass_time(&p.queue, now);
        self.queue.on_rate(&p.queue, now, &Feedback::of(message, p.unit));
    }

    /// Processes the passing of time. To be called at least once a second.
    pub fn wake(&mut self, p: &Params, now: Stamp) {
        self.queue.pass_time(&p.queue, now);
        for next in &mut self.next {
            if next.is_due(now) {
                *next = now;
            }
        }
    }

    /// Whether a flow in this place gets a direct INT now. If so, the time of the next one is set.
    fn is_due(&mut self, p: &Params, now: Stamp, place: u32) -> bool {
        let Some(next) = self.next.get_mut(place as usize & SLOTS.wrapping_sub(1)) else { return false };
        let due = next.is_due(now);
        if due {
            *next = now.after(p.spacing);
        }
        due
    }

    /// The telemetry record of the pseudo queue, in the form of a port's record.
    #[expect(clippy::cast_possible_truncation, reason = "a rate is below 2^32 / 2^24 x 8 000 Mb/s")]
    fn record(&self, now: Stamp) -> Hop {
        let mbps = (u64::from(self.queue.rate().to_bits()).wrapping_mul(8_000).wrapping_add(1 << 23) >> 24) as u32;
        Hop {
            mbps,
            flags: Hop::VIRTUAL | Hop::INTERCONNECT,
            clock: now.to_bits(),
            sent: self.queue.left(),
            queue: self.queue.len().get(),
        }
    }
}

impl<const SLOTS: usize> DirectInt<SLOTS> {
    /// Counts a packet that joins the queue towards the long link.
    pub fn enqueue(&mut self, p: &Params, now: Stamp, bytes: Bytes) {
        self.queue.pass_time(&p.queue, now);
        self.queue.enqueue(bytes);
    }

    /// Processes a packet that leaves for the long link. Returns the record to be added to the direct INT to its sender, if one
    /// is to be sent. `flow` is `None` for a packet without data.
    pub fn departure(&mut self, p: &Params, now: Stamp, flow: Option<FlowKey>) -> Option<Hop> {
        self.queue.pass_time(&p.queue, now);
        if !self.is_due(p, now, flow?.set_hash().get()) {
            return None;
        }
        count(&mut self.notified);
        Some(self.record(now))
    }
}

cc_core::snapshot! {
    /// A queue of direct telemetry.
    pub struct DirectIntSnapshot<const SLOTS: usize> {
        /// The pseudo queue.
        pub queue: PseudoQueueSnapshot,
        /// Number of direct INTs sent so far.
        pub notified: u32,
        /// When the flows of each place may get their next direct INT.
        pub next: [Stamp; SLOTS],
    }
}

impl<const SLOTS: usize> State for DirectInt<SLOTS> {
    type Snapshot = DirectIntSnapshot<SLOTS>;

    fn snapshot(&self) -> DirectIntSnapshot<SLOTS> {
        DirectIntSnapshot { queue: self.queue.snapshot(), notified: self.notified, next: self.next }
    }

    fn from_snapshot(s: DirectIntSnapshot<SLOTS>) -> Self {
        Self { queue: PseudoQueue::from_snapshot(s.queue), notified: s.notified, next: s.next }
    }
}

impl<const SLOTS: usize> QueueStage for DirectInt<SLOTS> {
    type Params = Params;
    type Settings = DirectIntSettings;

    const NAME: &'static str = "lscc_direct_int";
    const PRESETS: &'static [Preset<DirectIntSettings>] = PRESETS;
    const TAKES: Kinds = Kinds::of(&[Kind::Enqueue, Kind::Departure, Kind::Peer]);
    const READS_HEADERS: bool = true;
    const REWRITES: bool = true;
    const FLOW_BYTES: usize = size_of::<Stamp>();
    const FLOWS: usize = SLOTS;

    fn check(settings: &DirectIntSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn begin(&mut self, cx: &Cx<'_, Params>, _seed: u64) {
        self.begin(cx.params, cx.now.stamp());
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>, out: &mut impl Emit) -> Verdict {
        let now = cx.now.stamp();
        match *event {
            Event::Enqueue { bytes } => {
                self.enqueue(cx.params, now, bytes);
                Verdict::PASS
            }
            Event::Departure { packet, ecn, .. } => {
                let flow = packet.data_flow();
                let record = self.departure(cx.params, now, flow);
                if let (Some(FlowKey { data_qpn, .. }), Some(roce), Some(_)) = (flow, packet.roce, record) {
                    let kind = CnpKind::DirectInt;
                    let body = CnpBody {
                        kind,
                        names_remote_qpn: true,
                        remote_qpn: data_qpn,
                        stamp: now,
                        ..CnpBody::default()
                    };
                    out.cnp(roce, body, record);
                }
                let rewrite = Rewrite { ecn, clear_int: flow.is_some(), mlcc: None };
                Verdict { rewrite: Some(rewrite), ..Verdict::PASS }
            }
            Event::Peer(PeerMessage::Rate(message)) => {
                self.on_message(cx.params, now, &message);
                Verdict::PASS
            }
            _ => Verdict::PASS,
        }
    }

    fn wake(&mut self, cx: &Cx<'_, Params>, _out: &mut impl Emit) {
        self.wake(cx.params, cx.now.stamp());
    }

    fn pseudo_queue(&self) -> Option<(Bytes, Rate)> {
        Some((self.queue.len(), self.queue.rate()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::Qpn;
    use cc_core::wire::FRAMING;
    use proptest::prelude::*;

    const LINK: Link =
        Link { line_rate: Rate::from_gbps(200), mtu: Bytes::new(1_000), base_rtt: Nanos::new(2_000_000) };

    struct Bench {
        params: Params,
        machine: DirectInt<8>,
    }

    impl Bench {
        fn new(settings: &DirectIntSettings) -> Self {
            let params = Params::new(settings, &LINK).unwrap();
            Self { machine: DirectInt::open(&params, Stamp::from_bits(0)), params }
        }

        fn on_message(&mut self, now: u32, seq: u16, mbps: u32) {
            let message = RateMessage { seq, units: mbps, ..RateMessage::default() };
            self.machine.on_message(&self.params, Stamp::from_bits(now), &message);
        }

        /// A data packet of so many bytes on the line joins the queue and leaves. Returns the record of its direct INT.
        fn sends(&mut self, now: u32, qpn: u32, bytes: u32) -> Option<Hop> {
            let (now, flow) = (Stamp::from_bits(now), FlowKey { peers: 77, data_qpn: Qpn::new(qpn) });
            self.machine.enqueue(&self.params, now, Bytes::new(bytes - FRAMING));
            self.machine.departure(&self.params, now, Some(flow))
        }
    }

    #[test]
    fn the_pseudo_queue_is_one_more_hop() {
        let mut bench = Bench::new(&PRESETS[0].values);
        bench.on_message(0, 1, 40_000);
        // 40 Gb/s are 5 bytes a nanosecond: of 64 000 bytes at once, 14 000 are left after 10 us.
        bench.sends(0, 1, 64_000);
        let record = bench.sends(10_000, 1, 1_000).unwrap();
        let flags = Hop::VIRTUAL | Hop::INTERCONNECT;
        assert_eq!(record, Hop { mbps: 40_000, flags, clock: 10_000, sent: 50_000 / 64, queue: 15_000 });
        // No more than the 65 000 bytes that arrived have left, although R allows more.
        let flow = FlowKey { peers: 77, data_qpn: Qpn::new(1) };
        let record = bench.machine.departure(&bench.params, Stamp::from_bits(100_000), Some(flow)).unwrap();
        assert_eq!((record.sent, record.queue), (65_000 / 64, 0));
    }

    #[test]
    fn a_flow_gets_one_in_two_microseconds() {
        let mut bench = Bench::new(&PRESETS[0].values);
        let got = (0..1_000).filter(|packet| bench.sends(packet * 100, 17, 1_000).is_some()).count();
        assert_eq!((got, bench.machine.notified()), (50, 50));
        let now = Stamp::from_bits(1_000_000);
        assert_eq!(bench.machine.departure(&bench.params, now, None), None, "no data");
        let mut each = Bench::new(&PRESETS[1].values);
        assert!((0..100).all(|packet| each.sends(packet * 10, 17, 1_000).is_some()));
    }

    #[test]
    fn places_are_due_again_after_seconds_without_packets() {
        let mut bench = Bench::new(&PRESETS[0].values);
        bench.sends(0, 17, 1_000);
        let at = |second: u32| second.wrapping_mul(900_000_000);
        for second in 1..30 {
            bench.machine.wake(&bench.params, Stamp::from_bits(at(second)));
            if second == 3 {
                assert!(bench.sends(at(second), 17, 100).is_some());
            }
        }
        assert!(bench.sends(at(29) + 1, 17, 100).is_some());
    }

    proptest! {
        /// The bytes that arrived are those that left and those that are queued, and no more leave than R allows.
        #[test]
        fn bytes_are_conserved(steps in prop::collection::vec((0..30_000_u64, FRAMING..9_000_u32, 1..200_000_u32), 1..200)) {
            let mut bench = Bench::new(&PRESETS[1].values);
            let (mut now, mut arrived, mut allowed) = (0, 0_u64, 0_u64);
            let (mut rate, mut last) = (LINK.line_rate, None::<Hop>);
            for (step, (gap, bytes, mbps)) in steps.into_iter().enumerate() {
                now += gap;
                allowed += u64::from(rate.to_bits()) * gap;
                bench.on_message(now as u32, step as u16, mbps);
                rate = Rate::from_mbps(mbps);
                arrived += u64::from(bytes);
                let record = bench.sends(now as u32, 17, bytes).unwrap();
                prop_assert!((u64::from(record.sent) * 64 + u64::from(record.queue)).abs_diff(arrived) <= 65);
                prop_assert!(u64::from(record.sent) * 64 <= (allowed >> 24) + 1);
                prop_assert!(record.mbps == mbps && last.is_none_or(|last| last.sent <= record.sent));
                last = Some(record);
            }
        }
    }
}
