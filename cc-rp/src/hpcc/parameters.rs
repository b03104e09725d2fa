//! HPCC's settings, and the parameters computed from them.

use cc_core::hops::BaseRtt;
use cc_core::hpcc::additive_step;
use cc_core::math::div_bitwise;
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Link, Nanos, Rate};

cc_core::settings! {
    /// HPCC, by the names of its paper; the aliases are those of the public simulator's configuration.
    pub struct HpccSettings {
        /// Target utilisation (eta).
        eta: Ppm, 500_000..=1_000_000, ["U_TARGET"];
        /// Additive steps before a multiplicative one must follow (maxStage).
        max_stage: Count, 0..=255, ["MI_THRESH"];
        /// T, the base round-trip time of the network; 0 is the port's.
        base_rtt: Nanos, 0..=16_000_000, ["T"];
        /// Additive increase of a round trip as a rate: W_AI / T.
        rate_ai: Mbps, 1..=1_600_000, ["RATE_AI"];
        /// Lowest rate.
        min_rate: Mbps, 1..=1_600_000, ["MIN_RATE"];
        /// Multiplier of the units of compact telemetry, as set in the switches.
        int_multi: Count, 1..=64, ["INT_MULTI"];
        /// Round trips of acknowledgements without telemetry that can be measured, after which W and Wc are halved; 0: never.
        no_int_rtts: Count, 0..=255, [];
        /// U of a new flow, which the first measurements are averaged with; 0 is eta.
        initial_u: Ppm, 0..=1_000_000, [];
    }
}

/// Four round trips without feedback (RFC 5348, section 4.3, step 3), after which TFRC's sender halves its rate (section 4.4).
/// HPCC's paper and PowerTCP's name nothing for paths without telemetry.
pub(crate) const NO_INT_RTTS: u32 = 4;

/// The public simulator's defaults and those of the algorithm's draft.
pub const DRAFT: HpccSettings = HpccSettings {
    eta: 950_000,
    max_stage: 5,
    base_rtt: 0,
    rate_ai: 50,
    min_rate: 100,
    int_multi: 1,
    no_int_rtts: NO_INT_RTTS,
    initial_u: 0,
};

/// HPCC's evaluation, by its simulator's run.py.
pub const HPCC_SIM: HpccSettings =
    HpccSettings { max_stage: 0, base_rtt: 13_000, min_rate: 1_000, initial_u: 1_000_000, ..DRAFT };

/// The comparison in LSCC.
pub const LSCC: HpccSettings = HpccSettings { rate_ai: 500, ..DRAFT };

pub(super) const PRESETS: &[Preset<HpccSettings>] = &[
    Preset {
        name: "draft",
        source: "draft-miao-ccwg-hpcc, and the configuration of inet-tub/ns3-datacenter: eta 95 %, maxStage 5, 50 Mb/s \
                 up, floor 100 Mb/s; no_int_rtts: the four round trips of RFC 5348 4.3, ours for HPCC",
        values: DRAFT,
    },
    Preset {
        name: "hpcc_sim",
        source: "HPCC's public simulator, simulation/run.py for 100 Gb/s: T 13 us, no additive stages, floor 1 Gb/s, and U \
                 begins at 1; no_int_rtts as draft",
        values: HPCC_SIM,
    },
    Preset {
        name: "lscc",
        source: "LSCC IV-C: eta 95 %, W_AI = 500 MBps, read as 500 Mb/s: by HPCC's rule W_AI = W_init (1 - eta) / N those \
                 are four flows at 40 Gb/s, where 4 Gb/s (500 MB/s) are more than one flow may add; the rest as draft",
        values: LSCC,
    },
];

cc_core::zeroed! {
    /// Checked parameters, computed once for a port and shared by its flows.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        pub(crate) base: BaseRtt,
        /// eta with 24 fraction bits, the lowest eight of them zero.
        pub(crate) eta: u32,
        /// U of a new flow, with 24 fraction bits.
        pub(crate) initial_u: u32,
        pub(crate) max_stage: u8,
        pub(crate) no_int_rtts: u8,
        /// W_init: what the port carries in T.
        pub(crate) first_window: u32,
        /// W_AI.
        pub(crate) step: u32,
        pub(crate) least_window: u32,
        pub(crate) floor: Rate,
        pub(crate) line: Rate,
        pub(crate) mtu: u32,
    }
}

impl Params {
    pub(crate) fn new(settings: &HpccSettings, link: &Link) -> Result<Self, ParamError> {
        settings.in_range()?;
        let conflict = |field, expected| Err(ParamError::Conflict { field, expected });
        let time = if settings.base_rtt == 0 { link.base_rtt } else { Nanos::new(settings.base_rtt) };
        let Some(base) = BaseRtt::new(time, settings.int_multi) else {
            return conflict("base_rtt", "must be from 1 us to 16 ms; 0 takes the port's");
        };
        if !settings.int_multi.is_power_of_two() {
            return conflict("int_multi", "must be a power of two");
        }
        let (line, floor) = (link.line_rate, Rate::from_mbps(settings.min_rate));
        if floor > line {
            return conflict("min_rate", "must be at most the speed of the port");
        }
        let Some(step) = additive_step(Rate::from_mbps(settings.rate_ai), time) else {
            return conflict("rate_ai", "must add at least a byte in base_rtt");
        };
        let first_window = line.bytes_in(time).get();
        if first_window > 1 << 30 {
            return conflict("base_rtt", "the port must carry at most 1 GiB in it");
        }
        // 24 fraction bits, of a value of at most 1; a multiple of 2^-16.
        let coarse = |millionths: u32| {
            let fine = div_bitwise(u64::from(millionths) << 24, 1_000_000);
            u32::try_from(fine).unwrap_or(1 << 24).wrapping_add(128) & !0xff
        };
        Ok(Self {
            base: base.with_gap(floor.time_for(link.mtu)),
            eta: coarse(settings.eta),
            initial_u: coarse(if settings.initial_u == 0 { settings.eta } else { settings.initial_u }),
            max_stage: u8::try_from(settings.max_stage).unwrap_or(u8::MAX),
            no_int_rtts: u8::try_from(settings.no_int_rtts).unwrap_or(u8::MAX),
            first_window,
            step,
            least_window: floor.bytes_in(time).get().saturating_add(1).min(first_window),
            floor,
            line,
            mtu: link.mtu.get(),
        })
    }

    /// R = W / T, within the port's rates.
    #[inline(always)]
    pub(crate) fn rate(&self, window: u32) -> Rate {
        Rate::from_bits(self.base.rate_of(window)).max(self.floor).min(self.line)
    }
}
