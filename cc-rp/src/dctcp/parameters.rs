//! DCTCP's settings, and the parameters computed from them.

use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Bytes, Frac, Link, Nanos, Rate};

cc_core::settings! {
    /// DCTCP as a law of rates; the aliases are those of the public simulator of HPCC's authors.
    pub struct DctcpSettings {
        /// Weight of a round's marked share in alpha (g), below 1; 1/16 is 62 500 ppm.
        g: Ppm, 1_000..=999_999, ["EWMA_GAIN"];
        /// Additive increase of a round (R_AI); 0 is one packet of the largest size in base_rtt.
        rate_ai: Mbps, 0..=1_600_000, ["DCTCP_RATE_AI", "DctcpRateAI"];
        /// Lowest rate.
        min_rate: Mbps, 1..=1_600_000, ["MIN_RATE"];
        /// T, the base round-trip time of the network; 0 is the port's.
        base_rtt: Nanos, 0..=1_000_000_000, ["T"];
        /// Bytes in flight: what the rate carries in base_rtt, what line rate carries in it, or without a bound.
        window: Choice(&["rate", "line", "none"]), 0..=2, [];
    }
}

/// For any port: a packet more in each round of the port's base round-trip time.
pub const SCALED: DctcpSettings = DctcpSettings { g: 62_500, rate_ai: 0, min_rate: 100, base_rtt: 0, window: 0 };

/// DCTCP in HPCC's evaluation at 100 Gb/s.
pub const HPCC_SIM: DctcpSettings = DctcpSettings { rate_ai: 615, min_rate: 1_000, base_rtt: 13_000, ..SCALED };

pub(super) const PRESETS: &[Preset<DctcpSettings>] = &[
    Preset {
        name: "scaled",
        source: "as hpcc_sim, for any port: one packet more in each round (DCTCP, SIGCOMM 2010, 3.1), of the port's base \
                 round-trip time; g 1/16 of the paper's section 4 and of rdma-hw.cc, floor 100 Mb/s of rdma-hw.cc",
        values: SCALED,
    },
    Preset {
        name: "hpcc_sim",
        source: "alibaba-edu/High-Precision-Congestion-Control, simulation/run.py \"dctcp\" and rdma-hw.cc, mode 8: g 1/16, \
                 615 Mb/s, which is 1 KB in T of 13 us, floor 1 Gb/s, a window in proportion to the rate; with RED's preset \
                 dctcp at 100 Gb/s",
        values: HPCC_SIM,
    },
];

cc_core::zeroed! {
    /// Checked parameters, computed once for a port and shared by its flows.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        pub(super) line: Rate,
        pub(super) floor: Rate,
        /// R_AI, at least a raw step of 477 b/s.
        pub(super) step: Rate,
        /// g and 1 - g in units of 2^-32, both even, so that an alpha of 1 stays 1 while all packets are marked.
        pub(super) gain: u32,
        pub(super) kept: u32,
        /// T.
        pub(super) base_rtt: Nanos,
        /// The lower bound of the window: one packet, or what makes the window as large at all rates.
        pub(super) least_window: Bytes,
    }
}

impl Params {
    /// Checks settings against the ranges of their fields, a port and each other.
    ///
    /// # Errors
    ///
    /// Names the setting that conflicts with the port or with another setting.
    pub(super) fn new(settings: &DctcpSettings, link: &Link) -> Result<Self, ParamError> {
        settings.in_range()?;
        let conflict = |field, expected| Err(ParamError::Conflict { field, expected });
        let (line, floor) = (link.line_rate, Rate::from_mbps(settings.min_rate));
        if floor > line {
            return conflict("min_rate", "must be at most the speed of the port");
        }
        let base_rtt = if settings.base_rtt == 0 { link.base_rtt } else { Nanos::new(settings.base_rtt) };
        if base_rtt < Nanos::new(1_000) {
            return conflict("base_rtt", "must be at least 1 us; 0 takes the port's");
        }
        let step = if settings.rate_ai == 0 { link.mtu.per(base_rtt) } else { Rate::from_mbps(settings.rate_ai) };
        let least_window = match settings.window {
            0 => link.mtu,
            1 => line.bytes_in(base_rtt).max(link.mtu),
            _ => Bytes::MAX,
        };
        let gain = Frac::from_ratio(settings.g, 1_000_000).to_bits() << 1;
        let kept = gain.wrapping_neg();
        Ok(Self { line, floor, step: step.max(Rate::from_bits(1)), gain, kept, base_rtt, least_window })
    }
}
