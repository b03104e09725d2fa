//! DCQCN+'s settings, and the parameters computed from them.

use cc_core::math::div_bitwise;
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Bytes, Frac, Link, Nanos, Rate};

cc_core::settings! {
    /// DCQCN+ at the sender. Settings that DCQCN has as well have the same names.
    ///
    /// The constants of equation 19 cannot be set. The switches `timers` and `alpha_in_pause` are this project's.
    pub struct DcqcnPlusSettings {
        /// Time between two increases (K) while the CNP period is not above adapts_above.
        rpg_time_reset: Micros, 1..=131_071, ["rp_time_reset"];
        /// Period of alpha (K_alpha) while the CNP period is not above adapts_above.
        dce_tcp_rtt: Micros, 1..=131_071, ["rp_dce_tcp_rtt"];
        /// CNP period above which both timers follow it (section IV-B3).
        adapts_above: Micros, 0..=131_071, [];
        /// How many CNP periods or packet times, whichever are longer, lie between two increases (lambda, equation 17).
        lambda: Per1024, 1024..=16_384, [];
        /// The same for two steps of alpha (lambda_alpha, equation 16).
        lambda_alpha: Per1024, 1024..=16_384, [];
        /// Largest packet on the wire (M).
        packet: Bytes, 64..=16_384, ["mtu"];
        /// Increases below this one are fast recovery; those above four times as many are hyper increase (F).
        rpg_threshold: Count, 1..=10, ["rp_threshold"];
        /// Hyper step (equation 21), as a share of the line rate.
        hyper_step: Ppm, 1..=1_000_000, [];
        /// The largest cut, that with alpha at one (equation 13).
        largest_cut: Percent, 1..=100, [];
        /// Floor (R_min); 0 is 1/10000 of the line rate, but not below 1 Mb/s.
        rpg_min_rate: Mbps, 0..=2_000_000, ["rp_min_rate"];
        /// The share of the old alpha that is RETAINED, 1 - g.
        dce_tcp_g: Per1024, 0..=1023, ["rp_dce_tcp_g"];
        /// Alpha at the first notification.
        initial_alpha_value: Per1024, 1..=1024, ["rp_initial_alpha_value"];
        /// When both periods are computed. recomputed: whenever they begin; cut_only: at notifications (paper's text).
        timers: Choice(&["recomputed", "cut_only"]), 0..=1, [];
        /// Whether alpha decays while PFC pauses the flow's priority.
        alpha_in_pause: Choice(&["fades", "stands"]), 0..=1, [];
    }
}

/// The values of the paper.
pub const PAPER: DcqcnPlusSettings = DcqcnPlusSettings { rpg_time_reset: 55, dce_tcp_rtt: 55, timers: 1, ..STABLE };

/// The paper's law with the periods that 8 to 40 flows need.
pub const STABLE: DcqcnPlusSettings = DcqcnPlusSettings {
    rpg_time_reset: 110,
    dce_tcp_rtt: 110,
    adapts_above: 50,
    lambda: 2048,
    lambda_alpha: 1024,
    packet: 1000,
    rpg_threshold: 5,
    hyper_step: 10_000,
    largest_cut: 50,
    rpg_min_rate: 0,
    dce_tcp_g: 1020,
    initial_alpha_value: 1024,
    timers: 0,
    alpha_in_pause: 0,
};

pub(super) const PRESETS: &[Preset<DcqcnPlusSettings>] = &[
    Preset {
        name: "stable",
        source: "as paper, with both periods recomputed as they begin, and of 110 us, twice DCQCN's, while the CNP period \
                 is not above 50 us: with 55 us few flows (8 to 40) do not get equal rates",
        values: STABLE,
    },
    Preset {
        name: "paper",
        source: "DCQCN+ (ICNP 2018) IV-B3: lambda 2 and 1, F = 5, 50 us, half of alpha cut (13), hyper step of 1 % (21); M \
                 = 1000 B as V-D uses it (IV-B3 prints 1000KB); (16) and (17) at notifications only, and only where the CNP \
                 period is above 50 us; R_min a 10000th of the line rate, since 10000 flows are its bound; g = 1/256, alpha \
                 from 1 and 55 us as in DCQCN, and alpha fading in pauses: ours, since the paper is silent",
        values: PAPER,
    },
];

/// The longest period of a timer.
pub(super) const LONGEST: Nanos = Nanos::new(1_000_000_000);

cc_core::zeroed! {
    /// Checked parameters, computed once for a port and shared by its flows.
    #[derive(Clone, Debug)]
    pub struct Params {
        pub(super) line: Rate,
        pub(super) floor: Rate,
        /// R_l / 100 and R_l / 50, the bounds of (19).
        pub(super) hundredth: Rate,
        pub(super) fiftieth: Rate,
        pub(super) hyper: Rate,
        pub(super) largest_cut: Frac,
        pub(super) kept: Frac,
        pub(super) gain: Frac,
        pub(super) initial_alpha: Frac,
        pub(super) increase: Timer,
        pub(super) alpha_decay: Timer,
        pub(super) adapts_above: Nanos,
        /// M.
        pub(super) packet: Bytes,
        /// F and 4F.
        pub(super) threshold: u8,
        pub(super) last_additive: u8,
        pub(super) is_literal: bool,
        pub(super) fades_in_pauses: bool,
    }
}

cc_core::zeroed! {
    /// The period of a timer.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Timer {
        /// The period while the CNP period is at most `adapts_above`.
        pub(super) fixed: Nanos,
        /// lambda in 1/1024: the period in CNP periods or packet times.
        lambda: u32,
    }
}

impl Timer {
    /// Lambda times the period, up to [`LONGEST`].
    #[inline]
    pub(super) fn stretch(&self, period: Nanos) -> Nanos {
        let stretched = u64::from(period.get()).wrapping_mul(u64::from(self.lambda)) >> 10;
        u32::try_from(stretched).map_or(LONGEST, |nanos| Nanos::new(nanos).min(LONGEST))
    }
}

/// `ppm` millionths of a rate; `ppm` is at most 1 000 000.
#[expect(clippy::cast_possible_truncation, reason = "at most the rate")]
const fn millionths(rate: Rate, ppm: u32) -> Rate {
    Rate::from_bits(div_bitwise((rate.to_bits() as u64).wrapping_mul(ppm as u64), 1_000_000) as u32)
}

/// Microseconds of a setting, all of which are at most 131 071.
const fn nanos(micros: u32) -> Nanos {
    match Nanos::from_micros(micros) {
        Some(nanos) => nanos,
        None => Nanos::MAX,
    }
}

impl Params {
    /// Checks settings against the ranges of their fields, a port and each other.
    ///
    /// # Errors
    ///
    /// Names the setting that conflicts with the port or with another setting.
    #[expect(clippy::cast_possible_truncation, reason = "a threshold is at most 10")]
    pub(super) fn new(settings: &DcqcnPlusSettings, link: &Link) -> Result<Self, ParamError> {
        settings.in_range()?;
        let line = link.line_rate;
        let floor = match settings.rpg_min_rate {
            0 => millionths(line, 100).max(Rate::from_mbps(1)),
            mbps => Rate::from_mbps(mbps),
        };
        if floor > line {
            let expected = "must be at most the speed of the port";
            return Err(ParamError::Conflict { field: "rpg_min_rate", expected });
        }
        if settings.rpg_time_reset > settings.dce_tcp_rtt << 4 {
            let expected = "must be at most 16 times dce_tcp_rtt";
            return Err(ParamError::Conflict { field: "rpg_time_reset", expected });
        }
        let increase = Timer { fixed: nanos(settings.rpg_time_reset), lambda: settings.lambda };
        let alpha_decay = Timer { fixed: nanos(settings.dce_tcp_rtt), lambda: settings.lambda_alpha };
        Ok(Self {
            line,
            floor,
            hundredth: millionths(line, 10_000),
            fiftieth: millionths(line, 20_000),
            hyper: millionths(line, settings.hyper_step),
            largest_cut: Frac::from_ratio(settings.largest_cut, 100),
            kept: Frac::from_ratio(settings.dce_tcp_g, 1024),
            gain: Frac::from_ratio(settings.dce_tcp_g, 1024).complement(),
            initial_alpha: Frac::from_ratio(settings.initial_alpha_value, 1024),
            increase,
            alpha_decay,
            adapts_above: nanos(settings.adapts_above),
            packet: Bytes::new(settings.packet),
            threshold: settings.rpg_threshold as u8,
            last_additive: (settings.rpg_threshold as u8) << 2,
            is_literal: settings.timers == 1,
            fades_in_pauses: settings.alpha_in_pause == 0,
        })
    }
}
