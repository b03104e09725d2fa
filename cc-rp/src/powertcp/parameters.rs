//! PowerTCP's settings, and the parameters computed from them.

use crate::hpcc::NO_INT_RTTS;
use cc_core::hops::BaseRtt;
use cc_core::math::div_bitwise;
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Link, Nanos, Rate};

cc_core::settings! {
    /// PowerTCP, by the names of its paper; the aliases are those of its Linux module.
    pub struct PowerTcpSettings {
        /// Weight of the window computed from the power, against the present window (gamma).
        gamma: Ppm, 1_000..=1_000_000, [];
        /// Flows expected to share the port; beta is what the port carries in a round trip, divided by them.
        expected_flows: Count, 1..=1_000_000, ["expected_flows"];
        /// The base round-trip time (tau); 0 is the port's.
        base_rtt: Nanos, 0..=16_000_000, ["base_rtt"];
        /// Lowest rate.
        min_rate: Mbps, 1..=1_600_000, [];
        /// Multiplier of the units of compact telemetry, as set in the switches.
        int_multi: Count, 1..=64, ["INT_MULTI"];
        /// Round trips without telemetry that can be measured, after which cwnd is halved; 0: never, as in theta-PowerTCP.
        no_int_rtts: Count, 0..=255, [];
    }
}

/// The paper's evaluation.
pub const PAPER: PowerTcpSettings = PowerTcpSettings {
    gamma: 900_000,
    expected_flows: 10,
    base_rtt: 0,
    min_rate: 100,
    int_multi: 1,
    no_int_rtts: NO_INT_RTTS,
};

/// The authors' Linux module.
pub const LINUX: PowerTcpSettings = PowerTcpSettings { gamma: 899_414, ..PAPER };

pub(crate) const PRESETS: &[Preset<PowerTcpSettings>] = &[
    Preset {
        name: "paper",
        source: "PowerTCP (NSDI'22) 3.3 and 4.1: gamma 0.9, beta for ten flows; floor as in its simulator; \
                 no_int_rtts: the four round trips of RFC 5348 4.3, ours for PowerTCP",
        values: PAPER,
    },
    Preset {
        name: "linux",
        source: "inet-tub/powertcp-linux: gamma 921/1024, ten flows; floor as in the authors' simulator; \
                 no_int_rtts as paper",
        values: LINUX,
    },
];

cc_core::zeroed! {
    /// Checked parameters, computed once for a port and shared by its flows.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        pub(crate) base: BaseRtt,
        /// Gamma in 2^-16.
        pub(crate) gamma: u32,
        /// Beta in bytes.
        pub(crate) beta: u32,
        /// What the port carries in a base round trip, in bytes, at most 2^30.
        pub(crate) most_window: u32,
        pub(crate) least_window: u32,
        pub(crate) floor: Rate,
        pub(crate) line: Rate,
        pub(crate) no_int_rtts: u8,
        pub(crate) mtu: u32,
    }
}

impl Params {
    pub(crate) fn new(settings: &PowerTcpSettings, link: &Link) -> Result<Self, ParamError> {
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
        let most_window = line.bytes_in(time).get();
        if most_window > 1 << 30 {
            return conflict("base_rtt", "the port must carry at most 1 GiB in it");
        }
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Ok(Self {
            base: base.with_gap(floor.time_for(link.mtu)),
            gamma: small(div_bitwise(u64::from(settings.gamma) << 16, 1_000_000)),
            beta: small(div_bitwise(most_window.into(), settings.expected_flows)).max(1),
            most_window,
            least_window: floor.bytes_in(time).get().saturating_add(1).min(most_window),
            floor,
            line,
            no_int_rtts: u8::try_from(settings.no_int_rtts).unwrap_or(u8::MAX),
            mtu: link.mtu.get(),
        })
    }

    /// The rate that sends a window in a base round trip, within the port's rates.
    #[inline(always)]
    pub(crate) fn rate(&self, window: u32) -> Rate {
        Rate::from_bits(self.base.rate_of(window)).max(self.floor).min(self.line)
    }
}
