//! HPCC*'s rate limiting: the sources of this datacentre are told at once what the ports on the way to the long link say,
//! and as one more port the pseudo queue.
//!
//! M. Long et al., section III-D, at the queue towards the long link. The telemetry of a passing data packet is copied into a
//! direct INT to its sender, the pseudo queue's record is appended - q*, R and what has left it - and the packet goes on
//! without any, so that its acknowledgement brings that of the far datacentre alone. There is no flow table.
//!
//! Deviations:
//! - a flow gets a direct INT each `spacing` at most, for which flows that share one of `SLOTS` places take turns; the paper has
//!   one for each packet;
//! - bytes count as they leave the real queue, which R below the port's speed keeps short;
//! - the direct INT is a CNP that names the sender's flow by the receiver's queue pair, since no data packet carries the
//!   sender's;
//! - telemetry in the compact layout has no room for R, and gets no direct INT.

use super::pseudo_queue::{self, FeedbackCounters, PseudoQueue, count};
use super::rate_calculation::Feedback;
use crate::segment::{Endpoint, Rewrite, Transit};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::wire::RateMessage;
use cc_core::{Bytes, CnpBody, CnpKind, Hop, Instant, Link, Nanos, Rate, Stamp, Zeroed};

cc_core::settings! {
    /// What the user sets.
    pub struct DirectIntSettings {
        /// How often a flow gets a direct INT at most; 0 is with each packet.
        spacing: Nanos, 0..=1_000_000, [];
        /// T: the far end's period.
        period: Nanos, 1_000..=10_000_000, ["T"];
        /// dR: by so much R rises in each period without feedback.
        slew: Mbps, 1..=1_600_000, ["dR"];
        /// Delta_F: what the far end sends rates in multiples of.
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
    /// What the machine computes with.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        spacing: Nanos,
        unit: u32,
        queue: pseudo_queue::Params,
    }
}

impl Params {
    /// Turns settings into parameters for a long link of the port's speed.
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
pub struct DirectInt<const SLOTS: usize> {
    queue: PseudoQueue,
    /// Direct INTs so far.
    notified: u32,
    /// When the flows of each place get their next.
    next: [Stamp; SLOTS],
}

impl<const SLOTS: usize> Zeroed for DirectInt<SLOTS> {
    const ZEROED: Self = Self { queue: PseudoQueue::ZEROED, notified: 0, next: [Stamp::ZEROED; SLOTS] };
}

impl<const SLOTS: usize> DirectInt<SLOTS> {
    const SIZES: () = assert!(SLOTS.is_power_of_two(), "the number of places is a power of two");

    /// A port by which nothing has gone. Until the far end says otherwise, R is the port's speed.
    pub fn open(p: &Params, now: Stamp) -> Self {
        let mut machine = Self::ZEROED;
        machine.begin(p, now);
        machine
    }

    /// Becomes what [`DirectInt::open`] makes, of what is blank.
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

    /// Direct INTs so far.
    pub const fn notified(&self) -> u32 {
        self.notified
    }

    /// What came of the far end's feedback.
    pub const fn feedback(&self) -> FeedbackCounters {
        self.queue.counters()
    }

    /// A message of the far end has come.
    pub fn on_message(&mut self, p: &Params, now: Stamp, message: &RateMessage) {
        self.queue.pass_time(&p.queue, now);
        self.queue.on_rate(&p.queue, now, &Feedback::of(message, p.unit));
    }

    /// Lets time pass. To be called at least once a second.
    pub fn wake(&mut self, p: &Params, now: Stamp) {
        self.queue.pass_time(&p.queue, now);
        for next in &mut self.next {
            if next.is_due(now) {
                *next = now;
            }
        }
    }

    /// Whether a flow in this place gets a direct INT now.
    fn is_due(&mut self, p: &Params, now: Stamp, place: u32) -> bool {
        let Some(next) = self.next.get_mut(place as usize & SLOTS.wrapping_sub(1)) else { return false };
        let due = next.is_due(now);
        if due {
            *next = now.after(p.spacing);
        }
        due
    }

    /// What the pseudo queue says, as a port would.
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

impl<const SLOTS: usize> Endpoint for DirectInt<SLOTS> {
    type Params = Params;

    fn forward(&mut self, p: &Params, now: Instant, packet: &Transit) -> Rewrite {
        let now = now.stamp();
        self.queue.pass_time(&p.queue, now);
        self.queue.arrive(packet.bytes);
        let asis = Rewrite { ecn: packet.ecn, ..Rewrite::default() };
        if !packet.data {
            return asis;
        }
        if !self.is_due(p, now, packet.flow.set_hash().get()) {
            return Rewrite { clear_int: true, ..asis };
        }
        count(&mut self.notified);
        let body = CnpBody {
            kind: CnpKind::DirectInt,
            names_remote_qpn: true,
            remote_qpn: packet.flow.data_qpn,
            stamp: now,
            ..CnpBody::default()
        };
        Rewrite { notify: Some(body), record: Some(self.record(now)), clear_int: true, ..asis }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Room;
    use cc_core::wire::shim::{self, IntShim};
    use cc_core::wire::{
        self, Addresses, Bth, CnpMarking, EmitError, Extensions, FlowKey, Frame, Icrc, Mac, Parsed, Response, Roce,
        Shims, TableCrc, Tags, opcode,
    };
    use cc_core::{CnpBodyKind, Ecn, IntLayout, Qpn};
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

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

        fn sends(&mut self, now: u64, qpn: u32, bytes: u32) -> Rewrite {
            let flow = FlowKey { peers: 77, data_qpn: Qpn::new(qpn) };
            let packet = Transit { flow, data: true, bytes: Bytes::new(bytes), ecn: Ecn::Ect0 };
            self.machine.forward(&self.params, Instant::from_nanos(now), &packet)
        }
    }

    /// A data packet with room for `room` records, of which these are written.
    fn data(six: bool, layout: IntLayout, records: &[Hop], room: u8) -> Vec<u8> {
        let addresses = if six {
            Addresses::V6 { source: Ipv6Addr::from_bits(1), destination: Ipv6Addr::from_bits(2) }
        } else {
            Addresses::V4 { source: Ipv4Addr::from_bits(1), destination: Ipv4Addr::from_bits(2) }
        };
        let frame = Frame {
            destination: Mac::new([2; 6]),
            source: Mac::new([4; 6]),
            tags: Tags::NONE,
            addresses,
            dscp: 26,
            ecn: Ecn::Ect0,
            hop_limit: 61,
            udp_source: 0xc123,
            shims: Shims { int: Some(IntShim::empty(layout, 5, room)), ..Shims::NONE },
            bth: Bth { opcode: opcode::SEND_MIDDLE, dest_qp: Qpn::new(17), ..Bth::default() },
            extensions: Extensions::default(),
            payload: &[0; 8],
        };
        let mut bytes = emit(&frame);
        for record in records {
            let len = bytes.len();
            shim::push_into(&mut bytes, len, shim::PORT, record).unwrap();
        }
        bytes
    }

    fn emit(frame: &Frame<'_>) -> Vec<u8> {
        written(|buffer| frame.emit::<TableCrc>(buffer))
    }

    fn respond(response: &Response<'_>) -> Vec<u8> {
        written(|buffer| response.emit::<TableCrc>(buffer))
    }

    fn written(emit: impl FnOnce(&mut [u8]) -> Result<usize, EmitError>) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        let length = emit(&mut bytes).unwrap();
        bytes.truncate(length);
        bytes
    }

    fn roce(frame: &[u8]) -> Roce<'_> {
        match wire::parse(frame, frame.len()) {
            Ok(Parsed::Roce(roce)) => roce,
            other => panic!("{other:?}"),
        }
    }

    fn hop(queue: u32) -> Hop {
        Hop { mbps: 100_000, flags: 0, clock: 9, sent: 3, queue }
    }

    #[test]
    fn the_pseudo_queue_is_one_more_hop() {
        let mut bench = Bench::new(&PRESETS[0].values);
        bench.on_message(0, 1, 40_000);
        // 5 bytes a nanosecond: of 64 000 at once, 14 000 wait after 10 us.
        bench.sends(0, 1, 64_000);
        let record = bench.sends(10_000, 1, 1_000).record.unwrap();
        let flags = Hop::VIRTUAL | Hop::INTERCONNECT;
        assert_eq!(record, Hop { mbps: 40_000, flags, clock: 10_000, sent: 50_000 / 64, queue: 15_000 });
        // And 65 000 are all that came, whatever R would allow.
        let record = bench.sends(100_000, 1, 0).record.unwrap();
        assert_eq!((record.sent, record.queue), (65_000 / 64, 0));
    }

    #[test]
    fn a_direct_int_brings_the_packets_records_and_one_more_and_the_packet_goes_on_with_none() {
        let records = [hop(1), hop(2), hop(3)];
        for six in [false, true] {
            let mut bench = Bench::new(&PRESETS[0].values);
            let mut frame = data(six, IntLayout::Wide, &records, 6);
            let cnp = {
                let packet = roce(&frame);
                let flow = FlowKey::of_data(&packet);
                let transit = Transit { flow, data: true, bytes: packet.wire_len, ecn: packet.ecn };
                let rewrite = bench.machine.forward(&bench.params, Instant::from_nanos(5), &transit);
                let mut room: Room = [0; _];
                let cnp = respond(&rewrite.cnp(&packet, CnpMarking::default(), &mut room).unwrap());
                let len = frame.len();
                rewrite.apply(&mut frame, len, shim::PORT);
                cnp
            };
            let cnp = roce(&cnp);
            assert_eq!((cnp.bth.opcode, cnp.icrc::<TableCrc>()), (opcode::CNP, Icrc::Valid));
            let int = cnp.switch_int().unwrap();
            let queues: Vec<u32> = int.stack().iter().map(|hop| hop.queue).collect();
            assert_eq!((int.path(), queues), (5, vec![1, 2, 3, roce(&frame).wire_len.get()]));
            let Some(CnpBodyKind::Extended(body)) = cnp.cnp() else { panic!("a body") };
            assert_eq!((body.kind, body.names_remote_qpn, body.remote_qpn.get()), (CnpKind::DirectInt, true, 17));
            let forwarded = roce(&frame);
            assert_eq!((forwarded.int_shim().unwrap().hops(), forwarded.int_shim().unwrap().area().len()), (0, 96));
            assert_eq!(forwarded.icrc::<TableCrc>(), Icrc::Valid);
        }
    }

    #[test]
    fn telemetry_that_cannot_be_added_to_goes_back_nowhere() {
        let mut bench = Bench::new(&PRESETS[1].values);
        let rewrite = bench.sends(0, 17, 1_000);
        let told = |frame: Vec<u8>| {
            let mut room: Room = [0; _];
            rewrite.cnp(&roce(&frame), CnpMarking::default(), &mut room).is_some()
        };
        assert!(told(data(false, IntLayout::Wide, &[], 0)), "the pseudo queue alone");
        assert!(told(data(false, IntLayout::Wide, &[hop(1); 13], 13)));
        assert!(!told(data(false, IntLayout::Wide, &[hop(1); 14], 14)), "more than a shim holds");
        assert!(!told(data(false, IntLayout::Wide, &[hop(1); 3], 2)), "overflowed");
        assert!(!told(data(false, IntLayout::Compact, &[hop(1); 2], 6)), "no code for R");
    }

    #[test]
    fn a_flow_gets_one_in_two_microseconds_and_each_packet_goes_on_without_telemetry() {
        let mut bench = Bench::new(&PRESETS[0].values);
        let mut got = 0;
        for packet in 0..1_000_u64 {
            let rewrite = bench.sends(packet * 100, 17, 1_000);
            assert!(rewrite.clear_int);
            got += u32::from(rewrite.notify.is_some());
        }
        assert_eq!((got, bench.machine.notified()), (50, 50));
        let ack = Transit {
            flow: FlowKey { peers: 1, data_qpn: Qpn::new(1) },
            data: false,
            bytes: Bytes::new(60),
            ecn: Ecn::Ect0,
        };
        let rewrite = bench.machine.forward(&bench.params, Instant::from_nanos(1_000_000), &ack);
        assert_eq!(rewrite, Rewrite { ecn: Ecn::Ect0, ..Rewrite::default() });
        let mut each = Bench::new(&PRESETS[1].values);
        assert!((0..100).all(|packet| each.sends(packet * 10, 17, 1_000).notify.is_some()));
    }

    #[test]
    fn places_are_due_again_after_seconds_without_packets() {
        let mut bench = Bench::new(&PRESETS[0].values);
        bench.sends(0, 17, 1_000);
        for second in 1..30_u64 {
            bench.machine.wake(&bench.params, Instant::from_nanos(second * 900_000_000).stamp());
            if second == 3 {
                assert!(bench.sends(second * 900_000_000, 17, 1).notify.is_some());
            }
        }
        assert!(bench.sends(29 * 900_000_000 + 1, 17, 1).notify.is_some());
    }

    proptest! {
        /// What came is what left and what waits, and no more leaves than R allows.
        #[test]
        fn bytes_are_kept(steps in prop::collection::vec((0..30_000_u64, 0..9_000_u32, 1..200_000_u32), 1..200)) {
            let mut bench = Bench::new(&PRESETS[1].values);
            let (mut now, mut came, mut allowed) = (0, 0_u64, 0_u64);
            let (mut rate, mut last) = (LINK.line_rate, None::<Hop>);
            for (step, (gap, bytes, mbps)) in steps.into_iter().enumerate() {
                now += gap;
                allowed += u64::from(rate.to_bits()) * gap;
                bench.on_message(now as u32, step as u16, mbps);
                rate = Rate::from_mbps(mbps);
                came += u64::from(bytes);
                let record = bench.sends(now, 17, bytes).record.unwrap();
                prop_assert!((u64::from(record.sent) * 64 + u64::from(record.queue)).abs_diff(came) <= 65);
                prop_assert!(u64::from(record.sent) * 64 <= (allowed >> 24) + 1);
                prop_assert!(record.mbps == mbps && last.is_none_or(|last| last.sent <= record.sent));
                last = Some(record);
            }
        }
    }
}
