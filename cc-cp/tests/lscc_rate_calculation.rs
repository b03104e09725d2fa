//! LSCC's rate calculation compared with Algorithm 1 in double precision: each period from the machine's own rates, and free
//! runs.

#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/tolerance/mod.rs"]
mod tolerance;

use cc_core::{Bytes, Link, Nanos, Rate, Stamp};
use cc_cp::lscc::rate_calculation::{Feedback, PRESETS, Params, RateCalculation, RateCalculationSettings};
use std::collections::VecDeque;
use tolerance::{SplitMix, Tolerance};

/// LSCC, III-B, Eq. 2 and Algorithm 1, in bytes, nanoseconds and bits per second.
mod oracle {
    use std::collections::VecDeque;

    pub(super) struct Egress {
        pub(super) t: f64,
        pub(super) q_ref: f64,
        pub(super) up: f64,
        pub(super) down: f64,
        pub(super) r_min: f64,
        pub(super) r_max: f64,
        pub(super) delta_f: f64,
        /// The gain of Ra: 1 in the paper.
        pub(super) gain: f64,
        /// R of the last period.
        pub(super) last: f64,
        /// Ra of the last N periods, the newest first.
        pub(super) ra: VecDeque<f64>,
    }

    impl Egress {
        pub(super) fn per_second(&self, bytes: f64) -> f64 {
            bytes * 8e9 / self.t
        }

        /// Lines 1 to 12. Returns R as it is sent, and whether it is at Rmin and at Rmax. `off` bit/s are added to the exact
        /// value before it is limited.
        pub(super) fn rate(&self, left: f64, queued: f64, off: f64) -> (f64, bool, bool) {
            let br = self.per_second(left);
            let ra = self.gain * (self.per_second(queued - self.q_ref) - self.ra.iter().sum::<f64>());
            let slewed = (br - ra + off).max(self.last - self.down).min(self.last + self.up);
            let r = slewed.max(self.r_min).min(self.r_max);
            ((r / self.delta_f).floor() * self.delta_f, r == self.r_min, r == self.r_max)
        }

        /// Lines 13 to 16: R was sent, and BR - R becomes the newest adjustment.
        pub(super) fn sent(&mut self, left: f64, r: f64) {
            self.last = r;
            self.ra.push_front(self.per_second(left) - r);
            self.ra.pop_back();
        }
    }
}

const LINE: u32 = 200;

/// Random settings, whose rates are or are not multiples of Delta_F, and the oracle for them.
fn settings(random: &mut SplitMix, units: std::ops::RangeInclusive<u32>) -> (RateCalculationSettings, oracle::Egress) {
    let period = random.within(20_000..=1_000_000);
    let n = random.within(1..=14);
    let (gain_shift, extra) = (random.within(0..=4), random.within(0..=2));
    let unit = random.within(units);
    let rate_min = if random.within(0..=1) == 0 { 0 } else { random.within(unit..=5_000) };
    let rate_max = if random.within(0..=1) == 0 { 0 } else { random.within(20_000..=LINE * 1_200) };
    let slew_down = if random.within(0..=1) == 0 { 0 } else { random.within(unit..=200_000) };
    let set = RateCalculationSettings {
        period,
        // 2 D / T, less or more than a whole number by less than a half.
        delay: n * (period / 2) + random.within(0..=period / 8) - random.within(0..=period / 8),
        reference: random.within(1..=5_000_000),
        slew: random.within(unit..=200_000),
        slew_down,
        rate_min,
        rate_max,
        unit,
        gain_shift,
        extra,
    };
    let mega = |mbps: u32| f64::from(mbps) * 1e6;
    let line = mega(LINE * 1_000);
    let r_min = if rate_min == 0 { (line / 200.0).max(mega(unit)) } else { mega(rate_min) };
    let oracle = oracle::Egress {
        t: period.into(),
        q_ref: set.reference.into(),
        up: mega(set.slew),
        down: mega(if slew_down == 0 { set.slew } else { slew_down }),
        r_min,
        r_max: if rate_max == 0 { line } else { mega(rate_max).min(line) },
        delta_f: mega(unit),
        gain: 0.5_f64.powi(gain_shift as i32),
        last: r_min,
        ra: std::iter::repeat_n(0.0, (n + extra) as usize).collect(),
    };
    (set, oracle)
}

const LINK: Link = Link { line_rate: Rate::from_gbps(LINE), mtu: Bytes::new(1_000), base_rtt: Nanos::new(2_000_000) };

/// Preambles, check sequences and gaps of three frames, in bytes.
const FRAMING: u32 = 3 * 24;

/// One period of a port, in which three packets leave that take `left` bytes on the line, or none if it is too few for three. Its end is processed to the nanosecond, or one nanosecond late.
fn period(
    (p, machine): (&Params, &mut RateCalculation<16>),
    now: &mut u64,
    random: &mut SplitMix,
    (left, queued): (u32, u32),
) -> Option<Feedback> {
    let start = *now;
    let mut sent = 0;
    let packets = if left < FRAMING { 0 } else { 3 };
    let left = left.saturating_sub(FRAMING);
    for packet in 1..=packets {
        let length = u64::from(machine.next_wake(Stamp::from_bits(*now as u32)).get());
        *now += (length.saturating_sub(1)).min(u64::from(random.within(0..=10_000)));
        let bytes = if packet == 3 { left - sent } else { random.within(0..=left - sent) };
        sent += bytes;
        let stamp = Stamp::from_bits(*now as u32);
        assert_eq!(machine.pass_time(p, stamp, Bytes::new(queued)), None, "{start}: the period is not over");
        machine.release(Bytes::new(bytes));
    }
    // Exactly at the end, or one nanosecond late.
    *now += u64::from(machine.next_wake(Stamp::from_bits(*now as u32)).get()) + u64::from(random.within(0..=1));
    machine.pass_time(p, Stamp::from_bits(*now as u32), Bytes::new(queued))
}

#[test]
fn each_period_is_calculated_by_algorithm_1() {
    let (mut tolerance, mut random) = (Tolerance::default(), SplitMix::new(8));
    for _ in 0..200 {
        let (set, mut oracle) = settings(&mut random, 300..=1_000);
        if oracle.r_min > oracle.r_max {
            continue;
        }
        let p = Params::new(&set, &LINK, 16).unwrap();
        let mut now = random.draw() >> 2;
        let mut machine = RateCalculation::<16>::open(&p, Stamp::from_bits(now as u32));
        // The bytes that the line carries in a period.
        let carries = set.period * (LINE / 8);
        let mut queued = 0;
        // Bytes of the periods of the list, and their sum.
        let mut recent: VecDeque<f64> = std::iter::repeat_n(0.0, oracle.ra.len()).collect();
        let mut bytes = 0.0;
        for number in 1..=700_u16 {
            let left = [0, carries, random.within(FRAMING..=carries)][random.within(0..=2) as usize];
            queued = match random.within(0..=9) {
                0 => 0,
                1 => set.reference,
                2 => random.within(0..=50_000_000),
                _ => (queued + random.within(0..=carries / 4)).saturating_sub(carries / 8),
            };
            let feedback = period((&p, &mut machine), &mut now, &mut random, (left, queued)).unwrap();
            // In the machine all rates are rounded to kb/s, those of the list too, and the rate of a byte is rounded to 2^-17
            // kb/s.
            bytes += f64::from(left) - recent.pop_front().unwrap_or(0.0);
            let scale = set.period as f64 / (8e6 * 2_f64.powi(17));
            let off = 1_000.0 * (oracle.ra.len() as f64 + 2.0) + scale * oracle.per_second(bytes + f64::from(queued));
            recent.push_back(left.into());
            let allowed: Vec<_> = [-off, off]
                .map(|off| oracle.rate(left.into(), queued.into(), off))
                .map(|(r, low, high)| vec![r, f64::from(u8::from(low)), f64::from(u8::from(high))])
                .into();
            let allowed = if allowed[0] == allowed[1] { &allowed[..1] } else { &allowed[..] };
            let rate = f64::from(feedback.units) * oracle.delta_f;
            let outcome = [
                ("R", rate, 0.0),
                ("at the least", f64::from(u8::from(feedback.at_minimum)), 0.0),
                ("at the most", f64::from(u8::from(feedback.at_maximum)), 0.0),
            ];
            tolerance.assert(&(set, left, queued), &outcome, allowed);
            // R is exact to the unit; the tolerance above allows a thousandth.
            assert!(allowed.iter().any(|values| values[0] == rate), "{set:?}: {rate} for {allowed:?}");
            assert_eq!(feedback.seq, number);
            let bytes_a_nano = f64::from(feedback.rate.to_bits()) / 2_f64.powi(24);
            assert!((bytes_a_nano * 8e9 - rate).abs() <= 1e3 + rate * 1e-6, "{feedback:?}");
            assert_eq!(machine.rate(), feedback.rate);
            oracle.sent(left.into(), rate);
        }
    }
    tolerance.finish(100_000);
}

/// A source whose rate is that of the feedback 2 D later, for each preset: the queues of the machine and of the equations,
/// which run independently, stay equal.
#[test]
fn a_free_run_has_the_queue_of_the_equations() {
    for preset in PRESETS {
        let set = preset.values;
        let p = Params::new(&set, &LINK, 16).unwrap();
        let mega = |mbps: u32| f64::from(mbps) * 1e6;
        let n = (2 * set.delay / set.period) as usize;
        // A tenth of what 200 Gb/s carry in 2 ms.
        let reference = if set.reference == 0 { 5_000_000 } else { set.reference };
        let mut oracle = oracle::Egress {
            t: set.period.into(),
            q_ref: reference.into(),
            up: mega(set.slew),
            down: mega(set.slew),
            r_min: 1e9,
            r_max: 2e11,
            delta_f: 1e6,
            gain: 0.5_f64.powi(set.gain_shift as i32),
            last: 1e9,
            ra: std::iter::repeat_n(0.0, n + set.extra as usize).collect(),
        };
        let (mut now, mut random) = (0, SplitMix::new(9));
        let mut machine = RateCalculation::<16>::open(&p, Stamp::from_bits(0));
        // Bytes in flight and bytes queued, of the machine and of the equations; at most 40 Gb/s leave.
        let bottleneck = set.period as f64 * 5.0;
        let mut under_way = [vec![0.0; n + 1], vec![0.0; n + 1]];
        let mut queues = [0.0_f64; 2];
        for period_number in 0..2_000 {
            let mut left = [0.0; 2];
            for side in 0..2 {
                queues[side] += under_way[side].remove(0);
                left[side] = queues[side].min(bottleneck).round();
                queues[side] -= left[side];
            }
            let feedback =
                period((&p, &mut machine), &mut now, &mut random, (left[0] as u32, queues[0] as u32)).unwrap();
            let (r, ..) = oracle.rate(left[1], queues[1], 0.0);
            oracle.sent(left[1], r);
            for (under_way, r) in under_way.iter_mut().zip([f64::from(feedback.units) * 1e6, r]) {
                under_way.push(r / 8e9 * oracle.t);
            }
            // The allowance is a unit of 1 Mb/s in each of the N periods, and a thousandth.
            let band = 0.001 * queues[1] + 1e6 / 8e9 * oracle.t * (n as f64 + 2.0);
            assert!((queues[0] - queues[1]).abs() <= band, "{}, period {period_number}: {queues:?}", preset.name);
        }
        let off = (queues[0] - oracle.q_ref).abs() / oracle.q_ref;
        assert!(off < 0.01, "{}: {} bytes at the end", preset.name, queues[0]);
    }
}
