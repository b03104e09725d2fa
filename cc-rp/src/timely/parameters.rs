//! TIMELY's settings, and the parameters computed from them.

use cc_core::math::{Reciprocal, div_bitwise, mul_high};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Frac, Link, Nanos, Rate};
use core::num::NonZeroU32;

cc_core::settings! {
    /// TIMELY, by the names of its paper; the aliases are those of the published simulators.
    ///
    /// The switches at the end, from `elapsed` on, are this project's: each is one difference between the paper and
    /// the published code.
    pub struct TimelySettings {
        /// Weight of the newest difference of two round-trip times in the smoothed one.
        alpha: Ppm, 1_000..=1_000_000, ["TimelyAlpha", "ewma_alpha"];
        /// Factor of a cut (beta).
        beta: Ppm, 1_000..=1_000_000, ["TimelyBeta"];
        /// Round-trip times below this raise the rate, whatever the gradient.
        t_low: Nanos, 1_000..=10_000_000, ["TimelyTLow"];
        /// Round-trip times above this cut the rate, whatever the gradient.
        t_high: Nanos, 1_000..=60_000_000, ["TimelyTHigh"];
        /// The round-trip time that gradients are divided by, and in which a full step is made (minRTT).
        min_rtt: Nanos, 1_000..=1_000_000, ["TimelyMinRtt"];
        /// Additive step.
        delta: Mbps, 1..=100_000, ["rate_ai", "RATE_AI"];
        /// Updates in a row, falling in the sense of hai_counts, from which the additive step is hai_steps times as large.
        hai_threshold: Count, 1..=15, [];
        /// Additive steps of one hyperactive increase (N); 1 is no hyperactive increase.
        hai_steps: Count, 1..=16, [];
        /// Data acknowledged from one update to the next; 0: an update at every acknowledgement with a round-trip time.
        segment: Bytes, 0..=16_777_215, ["BurstSize"];
        /// Floor; the larger of this and min_rate_share counts.
        min_rate: Mbps, 0..=2_000_000, ["MIN_RATE"];
        /// Floor, as a share of line rate.
        min_rate_share: Ppm, 0..=1_000_000, ["MinRateMultiple"];
        /// Ceiling, as a share of line rate.
        max_rate_share: Ppm, 1..=1_000_000, ["MaxRateMultiple"];
        /// unscaled: every update makes full steps and cuts; scaled: in proportion to the time since the last, up to min_rtt.
        elapsed: Choice(&["unscaled", "scaled"]), 0..=1, [];
        /// Whether an update may cut the rate by any amount, or by at most half.
        largest_cut: Choice(&["unbounded", "half"]), 0..=1, [];
        /// What hai_threshold counts: round-trip times shorter than the one before, or smoothed gradients below zero.
        hai_counts: Choice(&["shorter_rtts", "gradients"]), 0..=1, [];
        /// Between t_low and t_high: the paper's rule by the sign of the gradient, or patched TIMELY's blend of both.
        gradient_rule: Choice(&["sign", "blend"]), 0..=1, [];
        /// Data whose time on the sender's link is subtracted from a round-trip time: largest packet, segment, or none.
        serialisation: Choice(&["packet", "segment", "none"]), 0..=2, [];
    }
}

/// The values of the simulator by DCQCN's authors, by the rule of TIMELY's authors' own code.
pub const NS3_RDMA: TimelySettings = TimelySettings {
    alpha: 875_000,
    beta: 800_000,
    t_low: 50_000,
    t_high: 500_000,
    min_rtt: 20_000,
    delta: 10,
    hai_threshold: 5,
    hai_steps: 5,
    segment: 16_000,
    min_rate: 0,
    min_rate_share: 10_000,
    max_rate_share: 960_000,
    elapsed: 1,
    largest_cut: 1,
    hai_counts: 0,
    gradient_rule: 0,
    serialisation: 0,
};

/// Algorithm 1 of the paper to the letter.
pub const PAPER: TimelySettings = TimelySettings {
    max_rate_share: 1_000_000,
    elapsed: 0,
    largest_cut: 0,
    hai_counts: 1,
    serialisation: 1,
    ..NS3_RDMA
};

/// eRPC.
pub const ERPC: TimelySettings = TimelySettings {
    alpha: 460_000,
    beta: 260_000,
    t_high: 1_000_000,
    min_rtt: 2_000,
    delta: 40,
    segment: 0,
    min_rate: 120,
    min_rate_share: 0,
    max_rate_share: 1_000_000,
    serialisation: 2,
    ..NS3_RDMA
};

/// Patched TIMELY.
pub const PATCHED: TimelySettings = TimelySettings { beta: 8_000, gradient_rule: 1, ..NS3_RDMA };

pub(crate) const PRESETS: &[Preset<TimelySettings>] = &[
    Preset {
        name: "ns3_rdma",
        source: "bobzhuyb/ns3-rdma, branch timely, timely-sender.cc: all values, one packet's time on the link taken off; \
                 hyperactive increase from the paper, scaling by elapsed time and the bound of one half from \
                 erpc-io/eRPC, src/cc/timely.h, which goes back to code by TIMELY's authors",
        values: NS3_RDMA,
    },
    Preset {
        name: "paper",
        source: "TIMELY (SIGCOMM 2015) 4.1 to 4.3, algorithm 1: full steps at every segment, no bound on a cut, \
                 hyperactive increase after five negative gradients, a segment's time on the link taken off; values of \
                 bobzhuyb/ns3-rdma, branch timely",
        values: PAPER,
    },
    Preset {
        name: "erpc",
        source: "erpc-io/eRPC, src/cc/timely.h and timely_sweep_params.h: alpha 0.46, beta 0.26, 50 us and 1 ms, minRTT \
                 2 us, 5 MB/s up, floor 15 MB/s, every packet a segment",
        values: ERPC,
    },
    Preset {
        name: "patched",
        source: "Zhu, Ghobadi, Misra, Padhye, \"ECN or Delay\" (CoNEXT 2016): the blend in place of the sign, beta 0.008; \
                 the rest as ns3_rdma",
        values: PATCHED,
    },
];

cc_core::zeroed! {
    /// Checked parameters, computed once for a port and shared by its flows.
    #[derive(Clone, Copy, Debug)]
    pub struct Params {
        pub(super) ceiling: Rate,
        pub(super) floor: Rate,
        pub(super) additive: Rate,
        pub(super) hyper: Rate,
        /// beta in units of 2^-32.
        pub(super) beta: u32,
        /// alpha in units of 2^-32.
        pub(super) weight: u32,
        /// T_low, T_high and minRTT in nanoseconds.
        pub(super) low: u32,
        pub(super) high: u32,
        pub(super) min_rtt: u32,
        /// Shift and factor that turn a time below minRTT into a fraction of minRTT.
        pub(super) elapsed_shift: u32,
        pub(super) per_min_rtt: u32,
        /// Factor from a difference of round-trip times, in 1/16 ns, to the gradient.
        pub(super) gradient: Slope,
        /// Factor from such a difference to a cut; for the blend, from the nanoseconds above T_low.
        pub(super) cut: Slope,
        /// The shortest sample that is used, in nanoseconds.
        pub(super) least: u32,
        /// Subtracted from each sample, in nanoseconds.
        pub(super) serialisation: u32,
        /// Bytes between updates.
        pub(super) segment: u32,
        pub(super) hai_threshold: u8,
        pub(super) switches: u8,
    }
}

/// Steps and cuts are in proportion to the time since the last update.
pub(super) const SCALED: u8 = 1;
/// An update takes half of the rate at most.
pub(super) const HALF_AT_MOST: u8 = 1 << 1;
/// Hyperactive increase counts gradients.
pub(super) const COUNTS_GRADIENTS: u8 = 1 << 2;
/// Patched TIMELY.
pub(super) const BLENDS: u8 = 1 << 3;

cc_core::zeroed! {
    /// A factor that turns a number into a fraction of 1, in units of 2^-32.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Slope {
        digits: u32,
        shift: u32,
    }
}

impl Slope {
    /// The factor `numerator / denominator`, where the numerator has 32 fraction bits.
    #[expect(clippy::cast_possible_truncation, reason = "shifted until it has 32 bits")]
    const fn new(numerator: u64, denominator: u32) -> Self {
        let factor = div_bitwise(numerator, denominator);
        let shift = 32u32.saturating_sub(factor.leading_zeros());
        Self { digits: (factor >> shift) as u32, shift }
    }

    /// `share` of the fraction that `number` becomes, at most 1.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the halves of 64 bits")]
    pub(super) const fn of(self, number: u32, share: u32) -> u32 {
        let product = (number as u64).wrapping_mul(mul_high(self.digits, share) as u64);
        let (above, below) = ((product >> 32) as u32, product as u32);
        let rest = 31u32.wrapping_sub(self.shift);
        // A shift by 1 and one by at most 31, because a shift by 32 is not defined.
        if above >> 1 >> rest == 0 { above << self.shift | below >> 1 >> rest } else { u32::MAX }
    }
}

/// A setting in millionths, converted to units of 2^-32; 1 becomes 2^32 - 1.
#[expect(clippy::cast_possible_truncation, reason = "tested just before")]
const fn share(ppm: u32) -> u32 {
    let share = div_bitwise((ppm as u64) << 32, 1_000_000);
    if share > u32::MAX as u64 { u32::MAX } else { share as u32 }
}

const fn switch(flag: u8, on: bool) -> u8 {
    if on { flag } else { 0 }
}

/// The time that `bytes` bytes take on the port's link, in nanoseconds, saturating.
#[expect(clippy::cast_possible_truncation, reason = "tested just before")]
const fn time_on_link(bytes: u32, link: &Link) -> u32 {
    let nanos = div_bitwise((bytes as u64) << 24, link.line_rate.to_bits());
    if nanos > u32::MAX as u64 { u32::MAX } else { nanos as u32 }
}

impl Params {
    /// Checks settings against their ranges, the port and each other.
    ///
    /// # Errors
    ///
    /// Names the setting that conflicts with the port or with another setting.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "2^41 over 1 000 or more has 32 bits; a threshold is at most 15"
    )]
    pub fn new(settings: &TimelySettings, link: &Link) -> Result<Self, ParamError> {
        settings.in_range()?;
        let conflict = |field, expected| Err(ParamError::Conflict { field, expected });
        let (low, high, min_rtt) = (settings.t_low, settings.t_high, settings.min_rtt);
        if low > high {
            return conflict("t_low", "must be at most t_high");
        }
        let ceiling = link.line_rate.scale(Frac::from_ratio(settings.max_rate_share, 1_000_000));
        let least = link.line_rate.scale(Frac::from_ratio(settings.min_rate_share, 1_000_000));
        let floor = Rate::from_mbps(settings.min_rate).max(least);
        if floor == Rate::ZERO {
            return conflict("min_rate", "must be above zero when min_rate_share is zero");
        }
        if floor > ceiling {
            return conflict("min_rate", "must, as min_rate_share, be at most max_rate_share of the speed of the port");
        }
        let serialisation = match settings.serialisation {
            0 => time_on_link(link.mtu.get(), link),
            1 => time_on_link(settings.segment, link),
            _ => 0,
        };
        let beta = share(settings.beta);
        let unit = Reciprocal::of(NonZeroU32::new(min_rtt).unwrap_or(NonZeroU32::MIN));
        // Differences of round-trip times are in 1/16 ns.
        let cut = if settings.gradient_rule == 1 {
            Slope::new(u64::from(beta) << 32, low)
        } else {
            Slope::new(u64::from(beta) << 28, min_rtt)
        };
        Ok(Self {
            ceiling,
            floor,
            additive: Rate::from_mbps(settings.delta),
            hyper: Rate::from_mbps(settings.delta.saturating_mul(settings.hai_steps)),
            beta,
            weight: share(settings.alpha),
            low,
            high,
            min_rtt,
            elapsed_shift: 31u32.wrapping_sub(unit.exponent().into()),
            per_min_rtt: unit.mantissa(),
            gradient: Slope::new(1 << 60, min_rtt),
            cut,
            least: min_rtt.min(link.base_rtt.get().saturating_sub(serialisation)).max(1),
            serialisation,
            segment: settings.segment,
            hai_threshold: settings.hai_threshold as u8,
            switches: switch(SCALED, settings.elapsed == 1)
                | switch(HALF_AT_MOST, settings.largest_cut == 1)
                | switch(COUNTS_GRADIENTS, settings.hai_counts == 1)
                | switch(BLENDS, settings.gradient_rule == 1),
        })
    }

    /// Whether a sample is above T_high.
    #[inline(always)]
    pub(crate) const fn is_high(&self, rtt: Nanos) -> bool {
        rtt.get() > self.high
    }

    #[inline(always)]
    pub(super) const fn has(&self, switch: u8) -> bool {
        self.switches & switch != 0
    }
}
