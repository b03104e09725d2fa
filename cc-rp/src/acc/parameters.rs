//! ACC's settings, and the parameters computed from them.

use cc_core::math::div_bitwise;
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Bytes, Link, Nanos, Rate};

cc_core::settings! {
    /// ACC at the sender. The slides name no parameter but the threshold on periods with UE marks; names, ranges and
    /// values are this project's.
    pub struct AccSettings {
        /// Length of a period, in per cent of the base round-trip time.
        period: Percent, 100..=400, [];
        /// Packets of the largest size for which a period is long enough at the flow's rate.
        period_packets: Count, 0..=64, [];
        /// Longest period, in base round-trip times.
        longest_period: Count, 4..=16, [];
        /// Periods in a row with UE marks before a victim is throttled.
        ue_periods: Count, 1..=15, [];
        /// Uncongested periods in a row with the gradual step, before the aggressive one.
        gradual_periods: Count, 0..=15, [];
        /// Gradual step, as a share of the line rate.
        gradual_step: Per1024, 1..=1024, [];
        /// Bound of the aggressive step, which otherwise doubles the rate, as a share of the line rate.
        aggressive_bound: Per1024, 1..=1024, [];
        /// Longest halt, in periods.
        longest_halt: Count, 1..=255, [];
        /// Floor, as a share of the line rate, but not below 1 Mb/s.
        min_rate: Ppm, 1..=1_000_000, [];
        /// Excess. 1: sent in the last period, not acknowledged in this (slides); 0: also what the path does not hold.
        acc_literal: Count, 0..=1, [];
    }
}

/// This project's reconstruction: all flows of a port have periods of the same length, two base round trips, and double their rates
/// only after 15 periods in a row without a mark, the most that can be set.
///
/// One mark stops several flows. With five gradual steps they then doubled their rates in the same period, to 1.7 times the link, so
/// that shares within a millisecond were unequal: Jain's index was 0.87 to 0.89 with 4 flows at 10 Gb/s, and 0.89 to 0.91 with 8 flows
/// at 400 Gb/s and a round trip of 4 us. With 15 steps and periods of 1.5 round trips 4 flows at 10 Gb/s still have 0.84 to 0.89. With these
/// values the least index is 0.96 in the 24 cases of `hil paper AC-2` (2 to 32 flows at 100 and 400 Gb/s, 2 and 4 at 10 Gb/s), and
/// 0.94 with 64 flows (`hil paper AC-2-64`). At 10 Gb/s 8 to 32 flows have 0.87 to 0.95.
pub const STABLE: AccSettings = AccSettings {
    period: 200,
    period_packets: 0,
    longest_period: 8,
    ue_periods: 3,
    gradual_periods: 15,
    gradual_step: 4,
    aggressive_bound: 128,
    longest_halt: 64,
    min_rate: 1_000,
    acc_literal: 0,
};

pub(super) const PRESETS: &[Preset<AccSettings>] = &[
    Preset {
        name: "stable",
        source: "none published: this project's values for the rules on the slides of ACC (NSDI 2024); not the paper's",
        values: STABLE,
    },
    Preset {
        name: "sixteen_packets",
        source: "as stable, but with periods of 1.5 base round trips in which also a slow flow can send 16 packets, and five \
                 gradual steps: flows do not get equal rates, since slow ones add less often and find a mark in nearly \
                 every period",
        values: AccSettings { period: 150, period_packets: 16, gradual_periods: 5, ..STABLE },
    },
    Preset {
        name: "slides",
        source: "as stable, with the halt that the slides print: (Sent(i-1) - Ack(i)) / R(i)",
        values: AccSettings { acc_literal: 1, ..STABLE },
    },
];

/// The longest base round-trip time, in nanoseconds: with it, sixteen of the longest periods fit into a stamp.
const LONGEST_RTT: u32 = 8_000_000;
/// The longest halt.
pub(super) const LONGEST_HALT: Nanos = Nanos::new(1_000_000_000);

cc_core::zeroed! {
    /// Checked parameters, computed once for a port and shared by its flows.
    #[derive(Clone, Debug)]
    pub struct Params {
        pub(super) line: Rate,
        pub(super) floor: Rate,
        pub(super) gradual_step: Rate,
        pub(super) aggressive_bound: Rate,
        pub(super) base_rtt: Nanos,
        period: Nanos,
        longest_period: Nanos,
        /// Bytes for which a period is long enough at the flow's rate.
        period_bytes: Bytes,
        /// The rate from which on `period` is long enough for them.
        fast: Rate,
        longest_halt: u32,
        pub(super) ue_periods: u8,
        pub(super) gradual_periods: u8,
        pub(super) is_literal: bool,
    }
}

/// `per1024` 1024ths of a rate, at least one raw step; `per1024` is at most 1024.
#[expect(clippy::cast_possible_truncation, reason = "at most the rate")]
const fn share(rate: Rate, per1024: u32) -> Rate {
    let bits = (rate.to_bits() as u64).wrapping_mul(per1024 as u64) >> 10;
    Rate::from_bits(if bits == 0 { 1 } else { bits as u32 })
}

impl Params {
    /// Checks settings against the ranges of their fields, a port and each other.
    ///
    /// # Errors
    ///
    /// Names the setting that conflicts with the port or with another setting.
    #[expect(clippy::cast_possible_truncation, reason = "bounded by the ranges of the settings and of the port")]
    pub(super) fn new(settings: &AccSettings, link: &Link) -> Result<Self, ParamError> {
        settings.in_range()?;
        let (line, rtt) = (link.line_rate, link.base_rtt.get());
        if !(1_000..=LONGEST_RTT).contains(&rtt) {
            let expected = "needs a base round-trip time of the port from 1 us to 8 ms";
            return Err(ParamError::Conflict { field: "period", expected });
        }
        let floor = div_bitwise(u64::from(line.to_bits()).wrapping_mul(settings.min_rate.into()), 1_000_000) as u32;
        let floor = Rate::from_bits(floor).max(Rate::from_mbps(1));
        if floor > line {
            let expected = "needs a port of at least 1 Mb/s";
            return Err(ParamError::Conflict { field: "min_rate", expected });
        }
        let period = Nanos::new(div_bitwise(u64::from(rtt).wrapping_mul(settings.period.into()), 100) as u32);
        let period_bytes = Bytes::new(link.mtu.get().saturating_mul(settings.period_packets));
        Ok(Self {
            line,
            floor,
            gradual_step: share(line, settings.gradual_step),
            aggressive_bound: share(line, settings.aggressive_bound),
            base_rtt: link.base_rtt,
            period,
            longest_period: Nanos::new(rtt.wrapping_mul(settings.longest_period)),
            period_bytes,
            fast: period_bytes.per(period),
            longest_halt: settings.longest_halt,
            ue_periods: settings.ue_periods as u8,
            gradual_periods: settings.gradual_periods as u8,
            is_literal: settings.acc_literal == 1,
        })
    }

    /// T_p, the length of a period in which a flow sends at this rate.
    #[inline]
    pub(super) fn period(&self, rate: Rate) -> Nanos {
        if rate >= self.fast {
            return self.period;
        }
        rate.time_for(self.period_bytes).max(self.period).min(self.longest_period)
    }

    /// H_max, the longest halt at this rate.
    #[inline]
    pub(super) fn longest_halt(&self, rate: Rate) -> Nanos {
        Nanos::new(self.period(rate).get().saturating_mul(self.longest_halt)).min(LONGEST_HALT)
    }
}
