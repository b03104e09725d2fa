//! In-band telemetry (INT): the record that a switch port adds to each packet that leaves it.
//!
//! Y. Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, section 4.2 and Fig. 7: the port's speed, its clock,
//! the bytes that it has sent before this packet, and the bytes queued behind it. PowerTCP uses the same record.
//!
//! A record has one of two layouts, see [`IntLayout`](cc_core::IntLayout). The units of the compact layout are multiplied by
//! `int_multi`, for speeds at which its fields would wrap too soon. It is a power of two, so that a division is a shift.
//!
//! If the state is lost, the byte counter restarts at 0, and a sender discards one INT record because of that.

use crate::{Cx, Emit, Event, Kind, Kinds, QueueStage, Verdict};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Hop, Link, State};

cc_core::settings! {
    /// Settings of telemetry.
    pub struct IntSettings {
        /// Layout of the records: 0 is the wide layout of 16 bytes, 1 the compact layout of 8 bytes.
        int_layout: Count, 0..=1, [];
        /// Multiplier of the units of the compact layout: a power of two.
        int_multi: Count, 1..=64, ["INT_MULTI"];
    }
}

cc_core::zeroed! {
    /// Checked parameters.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        mbps: u32,
        /// Records are in the compact layout.
        compact: bool,
        /// Binary logarithm of the multiplier.
        multi: u32,
    }
}

cc_core::zeroed! {
    /// The state of one egress queue.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct IntPush {
        /// Bytes sent so far.
        sent: u64,
    }
}

/// The record of a packet that leaves at `clock` behind `sent` bytes and before `queue` bytes.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the counter's low bits, modulo the field's width")]
fn record(p: &Params, clock: u32, sent: u64, queue: u32) -> Hop {
    let (sent, queue) = if p.compact {
        // Division by 80: the factor is 2^38 / 80 rounded up. The result is rounded down, exactly, for every 32-bit value.
        let units = (u64::from(queue).wrapping_mul(3_435_973_837) >> 38) as u32;
        ((sent >> 7 >> p.multi) as u32, units >> p.multi)
    } else {
        ((sent >> 6) as u32, queue)
    };
    Hop { mbps: p.mbps, flags: 0, clock, sent, queue }
}

cc_core::snapshot! {
    /// A queue of the telemetry stage.
    pub struct IntPushSnapshot {
        /// Bytes sent so far.
        pub sent: u64,
    }
}

impl State for IntPush {
    type Snapshot = IntPushSnapshot;

    fn snapshot(&self) -> IntPushSnapshot {
        IntPushSnapshot { sent: self.sent }
    }

    fn from_snapshot(s: IntPushSnapshot) -> Self {
        Self { sent: s.sent }
    }
}

impl QueueStage for IntPush {
    type Params = Params;
    type Settings = IntSettings;

    const NAME: &'static str = "int";
    const PRESETS: &'static [Preset<IntSettings>] = &[
        Preset {
            name: "wide",
            source: "this library's own layout: no field wraps within a round trip between datacentres",
            values: IntSettings { int_layout: 0, int_multi: 1 },
        },
        Preset {
            name: "compact",
            source: "HPCC (SIGCOMM'19), Fig. 7 and the public simulator's int-header.h, units as for 25 Gb/s",
            values: IntSettings { int_layout: 1, int_multi: 1 },
        },
    ];

    const TAKES: Kinds = Kinds::of(&[Kind::Departure, Kind::Pause]);

    fn check(settings: &IntSettings, link: &Link) -> Result<Params, ParamError> {
        settings.in_range()?;
        if !settings.int_multi.is_power_of_two() {
            return Err(ParamError::Conflict { field: "int_multi", expected: "must be a power of two" });
        }
        let compact = settings.int_layout != 0;
        let params = Params { mbps: mbps(link), compact, multi: settings.int_multi.trailing_zeros() };
        if compact && record(&params, 0, 0, 0).to_compact().is_none() {
            return Err(ParamError::Conflict {
                field: "int_layout",
                expected: "the compact layout knows 25, 40, 50, 100, 200 and 400 Gb/s only",
            });
        }
        Ok(params)
    }

    fn begin(&mut self, _cx: &Cx<'_, Params>, _seed: u64) {}

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>, _out: &mut impl Emit) -> Verdict {
        let Event::Departure { packet, port_queued, .. } = *event else { return Verdict::PASS };
        let queue = port_queued.saturating_sub(packet.bytes).get();
        let hop = record(cx.params, cx.now.stamp().to_bits(), self.sent, queue);
        self.sent = self.sent.wrapping_add(u64::from(packet.bytes.get()));
        Verdict { hop: Some(hop), ..Verdict::PASS }
    }
}

/// The port's speed in Mb/s, rounded to the nearest.
#[expect(clippy::cast_possible_truncation, reason = "at most 2^32 / 2^24 * 8 000")]
fn mbps(link: &Link) -> u32 {
    (u64::from(link.line_rate.to_bits()).wrapping_mul(8_000).wrapping_add(1 << 23) >> 24) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Recorder;
    use crate::{Packet, Queue};
    use cc_core::{Bytes, Ecn, Instant, Nanos, Rate, Zeroed};
    use proptest::prelude::*;
    use std::string::ToString;

    fn link(gbps: u32) -> Link {
        Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(1_064), base_rtt: Nanos::new(12_000) }
    }

    #[test]
    fn a_record_has_the_bytes_sent_before_the_packet_and_the_bytes_queued_behind_it() {
        let params = IntPush::check(&IntPush::PRESETS[0].values, &link(800)).unwrap();
        let mut queue = IntPush::ZEROED;
        let mut on = |now, event| {
            let cx = Cx { now: Instant::from_nanos(now), at: Queue::of(0), params: &params };
            queue.on(&cx, &event, &mut Recorder::default())
        };
        let leaving = |bytes, port_queued| {
            let (packet, port_queued) = (Packet::of(Bytes::new(bytes)), Bytes::new(port_queued));
            Event::Departure { packet, ecn: Ecn::Ect0, queued: packet.bytes, port_queued }
        };
        let first = on(100, leaving(1_000, 5_000)).hop.unwrap();
        assert_eq!(first, Hop { mbps: 800_000, flags: 0, clock: 100, sent: 0, queue: 4_000 });
        let second = on(110, leaving(1_000, 4_000)).hop.unwrap();
        assert_eq!((second.sent, second.queue), (15, 3_000), "in units of 64 bytes, rounded down");
        let pause = Event::Pause { time: Nanos::new(5), queued: Bytes::new(9) };
        assert_eq!(on(120, pause), Verdict::PASS);
    }

    #[test]
    fn the_compact_layout_has_no_800_gbps() {
        let compact = IntPush::PRESETS[1].values;
        assert!(IntPush::check(&compact, &link(100)).is_ok());
        assert!(IntPush::check(&compact, &link(800)).unwrap_err().to_string().starts_with("int_layout: "));
        let odd = IntSettings { int_multi: 3, ..compact };
        assert_eq!(IntPush::check(&odd, &link(100)).unwrap_err().to_string(), "int_multi: must be a power of two");
    }

    proptest! {
        #[test]
        fn compact_units_are_those_of_the_papers_simulator(sent: u64, queue: u32, multi in 0..7_u32) {
            let params = Params { mbps: 100_000, compact: true, multi };
            let hop = record(&params, 0, sent, queue);
            prop_assert_eq!(hop.queue, (queue / 80) >> multi);
            prop_assert_eq!(u64::from(hop.sent), ((sent / 128) >> multi) & 0xffff_ffff);
        }
    }
}
