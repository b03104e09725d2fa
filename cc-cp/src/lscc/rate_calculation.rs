//! LSCC's rate calculation: computes the rate at which the datacentre at the other end of a long link may send to this one.
//!
//! M. Long et al., "LSCC: Link-Segmented Congestion Control for RDMA in Cross-Datacenter Networks", section III-B, Eq. 2 and
//! Algorithm 1. It runs at the switch where the long link enters the receiver's datacentre, once each T. Its inputs are about
//! the bytes that arrived by the long link: BR is the rate at which they leave this switch, and Q the number of them that are
//! queued in it.
//!
//! ```text
//! Ra = k ((Q - Qref) / T - (the adjustments of the last N = 2D / T periods))   (2), lines 1 and 2; k = 1
//! R  = BR - Ra                                                                line 3
//! R  within dR of the last R, and within Rmin and Rmax                          lines 4 to 12
//! BR - R becomes the newest of the adjustments                                  lines 13 to 16
//! ```
//!
//! An adjustment takes effect on the queue after a round trip of 2 D. The adjustments that have not taken effect yet are
//! subtracted, so that none is made twice.
//!
//! The paper's law, the preset `paper`, has a gain k of 1. With it the queue oscillates between nothing and twice Q_ref, even
//! if the sources obey R at once: PFC interrupts the ports towards the hosts, so that BR jumps by a third from one T to the
//! next, and the limit dR turns these jumps into a cycle. The preset `stable` has k = 1/8 and a list of N = 2D / T + 2, because
//! an adjustment also takes up to two periods to be measured and to be obeyed; with five flows to one host the queue is within
//! half of Q_ref for 99 % of the time instead of 12 %, and their link is busy all the time instead of 70 %. Its dR is 0.7 Gb/s:
//! the sources must be able to follow (Eq. 12, dR < M T R_AI / T_i), and two DCQCN flows with an R_AI of 150 Mb/s follow 1.1
//! Gb/s at most. HPCC* needs a gain of 1 (`hpcc_star`).
//!
//! Deviations: bytes are those on the line, with preamble, check sequence and gap, because R is the rate of a line. R is
//! rounded down to a multiple of Delta_F before it is stored, and not only when it is sent, so that the sum is of the rates
//! that were sent. The limit dR can be larger for a fall than for a rise (`slew_down`); by default they are equal, as in the
//! paper. R begins at Rmin and not at the line rate, from which it could fall only by dR in each T.
//!
//! Rates are whole kb/s here, so that the running sum is exact: it equals the sum of the list after any number of periods.
//!
//! Periods end at fixed times, whenever the machine is called. A late call calculates the rates of all periods that have ended
//! since the last.

use crate::{Cx, Emit, Event, Kind, Kinds, PeerMessage, QueueStage, Verdict};
use cc_core::math::{Divider, div_bitwise};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::wire::{FRAMING, RateMessage};
use cc_core::{Bytes, Link, Nanos, Rate, Stamp, State, Zeroed};
use core::num::NonZeroU32;

cc_core::settings! {
    /// Settings of rate calculation.
    pub struct RateCalculationSettings {
        /// T: the period, from one calculation to the next.
        period: Nanos, 1_000..=10_000_000, ["T"];
        /// D: the one-way delay of the long link. N = 2 D / T, rounded, plus `extra`, is limited by the room of the type.
        delay: Nanos, 0..=100_000_000, ["D"];
        /// Q_ref: the target length of the queue; 0 is a tenth of what the port's line carries in 2 D.
        reference: Bytes, 0..=0x7fff_ffff, ["Q_ref"];
        /// dR: the largest change of R in a period.
        slew: Mbps, 1..=1_600_000, ["dR"];
        /// The largest fall of R in a period; 0 is the same as `slew`.
        slew_down: Mbps, 0..=1_600_000, [];
        /// R_min; 0 is a 200th of the port's speed.
        rate_min: Mbps, 0..=1_600_000, ["R_min"];
        /// R_max; 0 is the port's speed.
        rate_max: Mbps, 0..=1_600_000, ["R_max"];
        /// Delta_F: rates are sent as multiples of this; at most `slew` and `slew_down`.
        unit: Mbps, 1..=1_000, ["Delta_F"];
        /// The gain k of Ra is 2 to the power of minus this; 0 is the paper's law.
        gain_shift: Log2, 0..=8, [];
        /// Adjustments in the list beyond 2 D / T; 0 is the paper's law.
        extra: Count, 0..=64, [];
    }
}

/// The values of the preset `stable`.
pub const STABLE: RateCalculationSettings = RateCalculationSettings {
    period: 200_000,
    delay: 1_000_000,
    reference: 2_000_000,
    slew: 700,
    slew_down: 0,
    rate_min: 0,
    rate_max: 0,
    unit: 1,
    gain_shift: 3,
    extra: 2,
};
/// The values of the preset `paper`.
pub const PAPER: RateCalculationSettings = RateCalculationSettings { slew: 1_000, gain_shift: 0, extra: 0, ..STABLE };
/// The values of the preset `testbed`.
pub const TESTBED: RateCalculationSettings =
    RateCalculationSettings { delay: 500_000, reference: 500_000, slew: 50, ..STABLE };
/// The values of the preset `hpcc_star`.
pub const HPCC_STAR: RateCalculationSettings = RateCalculationSettings { reference: 0, ..PAPER };

/// The presets, the default first.
pub const PRESETS: &[Preset<RateCalculationSettings>] = &[
    Preset {
        name: "stable",
        source: "`paper` with a gain of 1/8, two more adjustments in the list, and dR = 0.7 Gb/s, ours: measured, see the \
                 documentation of the module",
        values: STABLE,
    },
    Preset {
        name: "paper",
        source: "LSCC III-C and IV-B: T = 200 us, D = 1 ms, Q_ref = 2 MB, dR = 1 Gb/s at 200 Gb/s; it is silent on \
                 R_min and Delta_F: a 200th of the port's speed and 1 Mb/s, ours",
        values: PAPER,
    },
    Preset {
        name: "testbed",
        source: "LSCC IV-A, the DPDK testbed: D = 500 us, Q_ref = 500 KB, dR = 50 Mb/s; the rest as in `stable`",
        values: TESTBED,
    },
    Preset {
        name: "hpcc_star",
        source: "LSCC III-C and III-D: the law of `paper`, and Q_ref a tenth of the long link's bandwidth-delay product",
        values: HPCC_STAR,
    },
];

cc_core::zeroed! {
    /// Checked parameters. Rates are in kb/s.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        period: Nanos,
        reference: u32,
        /// The rate of one byte in a period, in kb/s, with [`SHIFT`] fraction bits.
        per_byte: u32,
        slew_up: i64,
        slew_down: i64,
        rate_min: i64,
        rate_max: i64,
        unit: Divider,
        unit_kbps: u32,
        gain_shift: u32,
        depth: u8,
    }
}

/// Fraction bits of `per_byte`. One byte in a nanosecond is 8 000 000 kb/s; in the shortest period, 1 000 ns, it is 8 000 kb/s,
/// which with 17 fraction bits is below 2^31.
const SHIFT: u32 = 17;

impl Params {
    /// Converts settings into parameters, for a list of at most `room` adjustments.
    ///
    /// # Errors
    /// A setting out of range; more adjustments in the list than `room`; R_min above R_max; dR below Delta_F.
    pub fn new(settings: &RateCalculationSettings, link: &Link, room: usize) -> Result<Self, ParamError> {
        settings.in_range()?;
        let kbps = |mbps: u32| i64::from(mbps).wrapping_mul(1_000);
        // The line rate has 24 fraction bits; one byte per nanosecond is 8 000 000 kb/s.
        let line = i64::from(link.line_rate.to_bits()).wrapping_mul(8_000_000) >> 24;
        let rate_max = if settings.rate_max == 0 { line } else { kbps(settings.rate_max).min(line) };
        let share = div_bitwise(line.unsigned_abs(), 200).cast_signed();
        let rate_min = if settings.rate_min == 0 { share.max(kbps(settings.unit)) } else { kbps(settings.rate_min) };
        if rate_min > rate_max {
            return Err(ParamError::Conflict {
                field: "rate_min",
                expected: "must be at most rate_max and the port's speed",
            });
        }
        if rate_min < kbps(settings.unit) {
            return Err(ParamError::Conflict { field: "rate_min", expected: "must be at least one unit" });
        }
        // R is rounded down to a multiple of the unit: with a smaller dR it would never rise.
        let slew_down = if settings.slew_down == 0 { settings.slew } else { settings.slew_down };
        for (field, slew) in [("slew", settings.slew), ("slew_down", slew_down)] {
            if slew < settings.unit {
                return Err(ParamError::Conflict { field, expected: "must be at least one unit" });
            }
        }
        let round_trip = u64::from(settings.delay).wrapping_mul(2).wrapping_add(u64::from(settings.period >> 1));
        let depth = div_bitwise(round_trip, settings.period).saturating_add(settings.extra.into());
        let depth = u8::try_from(depth).ok().filter(|&depth| usize::from(depth) <= room && depth > 0);
        let depth = depth.ok_or(ParamError::Conflict {
            field: "delay",
            expected: "2 delay / period + extra must be 1 or more and at most the length of the list",
        })?;
        let one_way = u64::from(link.line_rate.bytes_in(Nanos::new(settings.delay)).get());
        let tenth = u32::try_from(div_bitwise(one_way, 5)).unwrap_or(u32::MAX);
        let per_byte = div_bitwise(8_000_000_u64 << SHIFT, settings.period);
        let unit_kbps = settings.unit.saturating_mul(1_000);
        let unit = NonZeroU32::new(unit_kbps)
            .map(Divider::new)
            .ok_or(ParamError::Conflict { field: "unit", expected: "must not be zero" })?;
        Ok(Self {
            period: Nanos::new(settings.period),
            reference: if settings.reference == 0 { tenth } else { settings.reference },
            per_byte: u32::try_from(per_byte).unwrap_or(u32::MAX),
            slew_up: kbps(settings.slew),
            slew_down: kbps(slew_down),
            rate_min,
            rate_max,
            unit,
            unit_kbps,
            gain_shift: settings.gain_shift,
            depth,
        })
    }

    /// Bytes in a period as kb/s, rounded to the nearest.
    fn rate_of(&self, bytes: i64) -> i64 {
        bytes.wrapping_mul(i64::from(self.per_byte)).wrapping_add(1 << (SHIFT - 1)) >> SHIFT
    }
}

/// The feedback message to the sender's end of the long link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Feedback {
    /// R in multiples of Delta_F.
    pub units: u32,
    /// R.
    pub rate: Rate,
    /// Sequence number of the message.
    pub seq: u16,
    /// R is the same as in the last message.
    pub unchanged: bool,
    /// R is at its lower limit, Rmin.
    pub at_minimum: bool,
    /// R is at its upper limit, Rmax.
    pub at_maximum: bool,
}

impl Feedback {
    /// The message with this feedback, for this port and priority, with the time stamp `now` of the switch.
    pub const fn message(&self, now: Stamp, port: u16, priority: u8) -> RateMessage {
        let Self { units, seq, unchanged, at_minimum, at_maximum, .. } = *self;
        RateMessage { seq, units, keepalive: unchanged, at_minimum, at_maximum, stamp: now, port, priority }
    }

    /// The feedback of a message, whose rate is in units of `unit_mbps`.
    pub fn of(message: &RateMessage, unit_mbps: u32) -> Self {
        let RateMessage { seq, units, keepalive, at_minimum, at_maximum, .. } = *message;
        let rate = rate(units.saturating_mul(unit_mbps).saturating_mul(1_000));
        Self { units, rate, seq, unchanged: keepalive, at_minimum, at_maximum }
    }
}

/// The state of one long link's port and priority, with at most `N` adjustments in the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RateCalculation<const N: usize = 12> {
    /// The sum of `adjustments`, in kb/s.
    sum: i64,
    /// BR - R of the last periods in kb/s, as a ring; `head` is the index of the oldest.
    adjustments: [i32; N],
    /// R of the last period, in kb/s.
    last: u32,
    /// Bytes on the line that left in this period.
    left: u32,
    /// When this period ends.
    ends: Stamp,
    seq: u16,
    head: u8,
}

const _: () = assert!(size_of::<RateCalculation<12>>() <= 120, "a port has outgrown 120 bytes");

impl<const N: usize> Zeroed for RateCalculation<N> {
    const ZEROED: Self = Self { sum: 0, adjustments: [0; N], last: 0, left: 0, ends: Stamp::ZEROED, seq: 0, head: 0 };
}

impl<const N: usize> RateCalculation<N> {
    /// A port before its first packet.
    pub fn open(p: &Params, now: Stamp) -> Self {
        Self {
            sum: 0,
            adjustments: [0; N],
            last: u32::try_from(p.rate_min).unwrap_or(u32::MAX),
            left: 0,
            ends: now.after(p.period),
            seq: 0,
            head: 0,
        }
    }

    /// R of the last period.
    pub fn rate(&self) -> Rate {
        rate(self.last)
    }

    /// Calculates the rates of all periods that have ended, with `queued` bytes in the switch. Returns the feedback of the last
    /// of these periods, or `None` if no period has ended.
    #[inline]
    pub fn pass_time(&mut self, p: &Params, now: Stamp, queued: Bytes) -> Option<Feedback> {
        let mut feedback = None;
        // Local time never advances by more than 1 s from one call to the next, so that these are at most a million periods.
        while self.ends.is_due(now) {
            feedback = Some(self.calculate(p, queued.get()));
            self.ends = self.ends.after(p.period);
        }
        feedback
    }

    /// Counts a packet that leaves the switch. Call [`RateCalculation::pass_time`] with the same time first.
    #[inline]
    pub fn release(&mut self, bytes: Bytes) {
        self.left = self.left.saturating_add(bytes.get()).saturating_add(FRAMING);
    }

    /// The time from `now` to the end of the period.
    pub fn next_wake(&self, now: Stamp) -> Nanos {
        if self.ends.is_due(now) { Nanos::ZERO } else { self.ends.since(now) }
    }

    /// Algorithm 1.
    fn calculate(&mut self, p: &Params, queued: u32) -> Feedback {
        let leaving = p.rate_of(i64::from(self.left));
        let excess = p.rate_of(i64::from(queued).wrapping_sub(i64::from(p.reference)));
        let adjustment = excess.wrapping_sub(self.sum) >> p.gain_shift; // (2)
        let last = i64::from(self.last);
        let rate = leaving
            .wrapping_sub(adjustment)
            .max(last.wrapping_sub(p.slew_down))
            .min(last.wrapping_add(p.slew_up))
            .max(p.rate_min)
            .min(p.rate_max);
        let units = p.unit.quotient(u32::try_from(rate).unwrap_or(u32::MAX));
        let before = self.last;
        self.last = units.wrapping_mul(p.unit_kbps);
        self.push(p, leaving.wrapping_sub(i64::from(self.last)));
        self.left = 0;
        self.seq = self.seq.wrapping_add(1);
        Feedback {
            units,
            rate: self.rate(),
            seq: self.seq,
            unchanged: self.last == before,
            at_minimum: rate == p.rate_min,
            at_maximum: rate == p.rate_max,
        }
    }

    /// Replaces the oldest adjustment of the list by the newest, and updates the sum.
    fn push(&mut self, p: &Params, adjustment: i64) {
        let adjustment = i32::try_from(adjustment).unwrap_or(if adjustment < 0 { i32::MIN } else { i32::MAX });
        let Some(oldest) = self.adjustments.get_mut(usize::from(self.head)) else { return };
        self.sum = self.sum.wrapping_add(i64::from(adjustment)).wrapping_sub(i64::from(*oldest));
        *oldest = adjustment;
        self.head = self.head.wrapping_add(1);
        if self.head >= p.depth {
            self.head = 0;
        }
    }
}

cc_core::snapshot! {
    /// A queue of LSCC's rate calculation.
    pub struct RateCalculationSnapshot<const N: usize> {
        /// The sum of `adjustments`, in kb/s.
        pub sum: i64,
        /// BR - R of the last periods in kb/s, as a ring.
        pub adjustments: [i32; N],
        /// Index of the oldest of them; `N` or more is read as 0.
        pub head: u8,
        /// R of the last period, in kb/s.
        pub last: u32,
        /// Bytes on the line that left in this period.
        pub left: Bytes,
        /// When this period ends.
        pub ends: Stamp,
        /// Number of the last message.
        pub seq: u16,
    }
}

impl<const N: usize> State for RateCalculation<N> {
    type Snapshot = RateCalculationSnapshot<N>;

    fn snapshot(&self) -> RateCalculationSnapshot<N> {
        let Self { sum, adjustments, last, left, ends, seq, head } = *self;
        RateCalculationSnapshot { sum, adjustments, head, last, left: Bytes::new(left), ends, seq }
    }

    fn from_snapshot(s: RateCalculationSnapshot<N>) -> Self {
        let RateCalculationSnapshot { sum, adjustments, head, last, left, ends, seq } = s;
        let head = if usize::from(head) < N { head } else { 0 };
        Self { sum, adjustments, last, left: left.get(), ends, seq, head }
    }
}

impl<const N: usize> QueueStage for RateCalculation<N> {
    type Params = Params;
    type Settings = RateCalculationSettings;

    const NAME: &'static str = "lscc_rate_calculation";
    const PRESETS: &'static [Preset<RateCalculationSettings>] = PRESETS;
    const TAKES: Kinds = Kinds::of(&[Kind::Arrival, Kind::Release]);
    const TIMED: bool = true;

    fn check(settings: &RateCalculationSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link, N)
    }

    fn begin(&mut self, cx: &Cx<'_, Params>, _seed: u64) {
        *self = Self::open(cx.params, cx.now.stamp());
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>, out: &mut impl Emit) -> Verdict {
        if let Event::Arrival { queued, .. } | Event::Release { queued, .. } = *event {
            self.send_rate(cx, queued, out);
        }
        if let Event::Release { bytes, .. } = *event {
            self.release(bytes);
        }
        Verdict::PASS
    }

    #[inline]
    fn wake(&mut self, cx: &Cx<'_, Params>, out: &mut impl Emit) {
        let queued = out.arrived(cx.at);
        self.send_rate(cx, queued, out);
    }

    #[inline]
    fn next_wake(&self, cx: &Cx<'_, Params>) -> Option<Nanos> {
        Some(self.next_wake(cx.now.stamp()))
    }
}

impl<const N: usize> RateCalculation<N> {
    /// Sends the rate to the sender's end of the long link if a period has ended.
    #[inline]
    fn send_rate(&mut self, cx: &Cx<'_, Params>, queued: Bytes, out: &mut impl Emit) {
        let now = cx.now.stamp();
        if let Some(feedback) = self.pass_time(cx.params, now, queued) {
            out.peer(cx.at, PeerMessage::Rate(feedback.message(now, cx.at.port, cx.at.class)));
        }
    }
}

/// Rate bits of 1 kb/s, with 24 more fraction bits: 2^48 / 8 000 000.
const PER_KBPS: u64 = 35_184_372;

/// The rate of `kbps` kilobits per second; saturates.
fn rate(kbps: u32) -> Rate {
    Rate::from_bits(u32::try_from(u64::from(kbps).wrapping_mul(PER_KBPS) >> 24).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::string::ToString;
    use std::vec::Vec;

    const LINK: Link =
        Link { line_rate: Rate::from_gbps(200), mtu: Bytes::new(1_000), base_rtt: Nanos::new(2_000_000) };
    /// Settings with a dR that never limits R.
    const FREE: RateCalculationSettings = RateCalculationSettings { slew: 1_600_000, ..PAPER };

    struct Bench {
        params: Params,
        machine: RateCalculation,
        now: Stamp,
    }

    impl Bench {
        fn new(settings: &RateCalculationSettings) -> Self {
            let params = Params::new(settings, &LINK, 12).unwrap();
            let now = Stamp::from_bits(0);
            Self { params, machine: RateCalculation::open(&params, now), now }
        }

        /// One period in which `left` bytes leave, and at the end of which `queued` bytes are queued.
        fn period(&mut self, left: u32, queued: u32) -> Feedback {
            let queued = Bytes::new(queued);
            assert_eq!(self.machine.pass_time(&self.params, self.now, queued), None);
            self.machine.release(Bytes::new(left.saturating_sub(FRAMING)));
            self.now = self.now.after(self.params.period);
            self.machine.pass_time(&self.params, self.now, queued).unwrap()
        }
    }

    fn kbps(feedback: Feedback) -> i64 {
        i64::from(feedback.units) * 1_000
    }

    /// Section III-B: a source whose rate is that of the feedback, 2 D later. When all adjustments have taken effect, Eq. 3
    /// gives Q(t) = Q_ref + T (Ra(t) + ... + Ra(t - N T)), and the queue settles at Q_ref.
    #[test]
    fn with_an_ideal_source_the_queue_settles_at_the_reference_by_equations_3_and_8() {
        let mut bench = Bench::new(&PAPER);
        // At most 40 Gb/s leave; data at the rate that is sent at the end of a period arrives ten whole periods later.
        let (bottleneck, mut queued) = (1_000_000_i64, 0_i64);
        let mut sent_rates: VecDeque<i64> = VecDeque::from([0; 11]);
        let mut rates = VecDeque::new();
        for period in 0..400 {
            let arriving = sent_rates.pop_front().unwrap() / 40; // kb/s in 200 us
            let left = bottleneck.min(queued + arriving);
            let before = queued;
            queued += arriving - left;
            let feedback = bench.period(left as u32, queued as u32);
            sent_rates.push_back(kbps(feedback));
            rates.push_back((left * 40, kbps(feedback), before, queued));
            if period > 300 {
                // Settled: R = BR = 40 Gb/s, Q = Q_ref.
                assert!((queued - 2_000_000).abs() < 20_000, "period {period}: {queued}");
                assert!((kbps(feedback) - 40_000_000).abs() <= 1_000_000, "period {period}: {feedback:?}");
            }
            if period > 250 {
                // (3), with Ra = BR - R of the clamped rates.
                let sum: i64 = rates.iter().rev().take(11).map(|&(leaving, rate, ..)| leaving - rate).sum();
                let expected = 2_000_000 + sum / 40;
                assert!((queued - expected).abs() < 3_000, "period {period}: {queued}, expected {expected}");
            }
        }
        // (8): Ra(t) = BR(t - 2D - T) - BR(t), as rates settle.
        let (newest, oldest) = (rates[399], rates[399 - 11]);
        assert!(((newest.0 - newest.1) - (oldest.0 - newest.0)).abs() <= 2_000);
    }

    #[test]
    fn an_idle_port_allows_a_pulse_of_the_reference_once_in_a_round_trip_and_a_period() {
        // Q_ref / T = 80 Gb/s once, and then R_min until this adjustment leaves the list: 7.27 Gb/s on average.
        let mut bench = Bench::new(&RateCalculationSettings { rate_min: 1, ..FREE });
        let rates: Vec<i64> = (0..1_100).map(|_| kbps(bench.period(0, 0))).collect();
        // A pulse is smaller by what R_min allows in the meantime.
        let is_pulse = |rate: i64| (79_980_000..=80_000_000).contains(&rate);
        assert_eq!(rates.iter().filter(|&&rate| is_pulse(rate)).count(), 100);
        assert!(rates.iter().all(|&rate| is_pulse(rate) || rate <= 11_000), "{rates:?}");
        // Q_ref / (2 D + T): 2 MB in 2.2 ms, the fixed point of Eq. 2.
        let mean = rates.iter().sum::<i64>() / 1_100;
        assert!((mean - 2_000_000 * 8_000 / 2_200).abs() < 10_000, "{mean} kb/s");
    }

    #[test]
    fn limits_are_kept_and_reported() {
        let mut bench = Bench::new(&PAPER);
        let first = bench.period(0, 0);
        assert_eq!(kbps(first), 2_000_000, "from 200 Gb/s / 200 by 1 Gb/s");
        let mut last = kbps(first);
        for _ in 0..300 {
            let next = bench.period(5_000_000, 0);
            assert!((kbps(next) - last).abs() <= 1_000_000);
            last = kbps(next);
        }
        assert_eq!(last, 200_000_000);
        let mut falling = Bench::new(&RateCalculationSettings { slew: 200_000, slew_down: 100, ..PAPER });
        assert!(falling.period(5_000_000, 0).at_maximum);
        assert_eq!(kbps(falling.period(0, 50_000_000)), 199_900_000);
        assert!(Bench::new(&FREE).period(0, 50_000_000).at_minimum);
    }

    #[test]
    fn the_sum_does_not_drift_in_ten_million_periods() {
        let mut bench = Bench::new(&FREE);
        let mut random = crate::pcg::Pcg32::new(1);
        for period in 0..10_000_000_u32 {
            let (left, queued) = (random.draw() >> 9, random.draw() >> 8);
            bench.machine.left = left;
            bench.machine.calculate(&bench.params, queued);
            if period % 100_003 == 0 {
                let sum: i64 = bench.machine.adjustments.iter().map(|&adjustment| i64::from(adjustment)).sum();
                assert_eq!(bench.machine.sum, sum);
            }
        }
    }

    /// Of the corrected law Ra is an eighth: with an ideal source the queue settles where R = BR, and so Ra = 0 and Q = Q_ref.
    #[test]
    fn with_a_gain_of_an_eighth_the_queue_of_an_ideal_source_settles_at_the_reference() {
        let mut bench = Bench::new(&STABLE);
        let (mut queued, mut sent_rates) = (0_i64, VecDeque::from([0; 11]));
        for period in 0..600 {
            let arriving = sent_rates.pop_front().unwrap() / 40;
            let left = 1_000_000.min(queued + arriving);
            queued += arriving - left;
            let feedback = bench.period(left as u32, queued as u32);
            sent_rates.push_back(kbps(feedback));
            if period > 400 {
                assert!((queued - 2_000_000).abs() < 100_000, "period {period}: {queued}");
                assert!((kbps(feedback) - 40_000_000).abs() <= 100_000, "period {period}: {feedback:?}");
            }
        }
    }

    #[test]
    fn an_adjustment_of_the_corrected_law_is_an_eighth_of_that_of_equation_2() {
        let free = RateCalculationSettings { slew: 1_600_000, rate_min: 1, ..STABLE };
        let mut bench = Bench::new(&free);
        // Q - Q_ref = 1 MB is 40 Gb/s in 200 us; 5 MB that leave in it are 200 Gb/s.
        let mut sum = 0;
        for _ in 0..200 {
            let rate = kbps(bench.period(5_000_000, 3_000_000));
            let adjustment = (40_000_000 - sum) / 8;
            assert!((rate - (200_000_000 - adjustment)).abs() <= 1_000, "{rate} kb/s, the sum is {sum}");
            sum = bench.machine.sum;
        }
        // Twelve equal adjustments: Ra = (40 Gb/s - 12 Ra) / 8.
        assert!((sum / 12 - 2_000_000).abs() <= 2_000, "{sum} kb/s");
    }

    #[test]
    fn without_a_reference_it_is_a_tenth_of_the_bandwidth_delay_product() {
        let reference = |settings| Params::new(&settings, &LINK, 12).unwrap().reference;
        // 200 Gb/s for 2 ms are 50 MB.
        assert_eq!((reference(HPCC_STAR), reference(PAPER)), (5_000_000, 2_000_000));
    }

    #[test]
    fn conflicting_settings_are_refused() {
        let message = |settings| Params::new(&settings, &LINK, 10).unwrap_err().to_string();
        assert!(message(RateCalculationSettings { delay: 1_100_001, ..PAPER }).starts_with("delay: 2 delay / period"));
        assert!(
            message(RateCalculationSettings { rate_min: 200_001, ..PAPER }).starts_with("rate_min: must be at most")
        );
        assert!(Params::new(&RateCalculationSettings { delay: 1_049_999, ..PAPER }, &LINK, 10).is_ok());
        assert!(Params::new(&STABLE, &LINK, 11).is_err(), "2 D / T is 10, and there are two more");
        // R is rounded down to whole units: a change below one would never take place.
        assert_eq!(message(RateCalculationSettings { slew: 9, unit: 10, ..PAPER }), "slew: must be at least one unit");
        let down = RateCalculationSettings { slew_down: 9, unit: 10, ..PAPER };
        assert_eq!(message(down), "slew_down: must be at least one unit");
        assert!(Params::new(&RateCalculationSettings { slew_down: 10, ..down }, &LINK, 10).is_ok());
    }

    proptest! {
        #[test]
        fn a_late_call_calculates_all_periods_that_have_ended(
            steps in prop::collection::vec((0..3_000_000_u32, 0..9_000_u32), 1..60),
        ) {
            let (mut woken, mut left) = (Bench::new(&PAPER), Bench::new(&PAPER));
            let (mut now, mut queued) = (0_u32, 0_u32);
            for (gap, bytes) in steps {
                for part in 1..20 {
                    let then = Stamp::from_bits(now + gap / 20 * part);
                    woken.machine.pass_time(&woken.params, then, Bytes::new(queued));
                }
                now += gap;
                let leaves = bytes % 2 == 1 && queued >= bytes;
                for bench in [&mut woken, &mut left] {
                    bench.machine.pass_time(&bench.params, Stamp::from_bits(now), Bytes::new(queued));
                    if leaves {
                        bench.machine.release(Bytes::new(bytes));
                    }
                }
                queued = if leaves { queued - bytes } else { queued + bytes };
                prop_assert_eq!(woken.machine, left.machine);
            }
        }
    }
}
