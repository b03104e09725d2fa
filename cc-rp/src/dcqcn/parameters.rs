//! DCQCN's settings, and the parameters computed from them.

use super::alpha_decay::{AlphaDecay, TEN_BITS};
use cc_core::decay::Decay;
use cc_core::math::Divider;
use cc_core::params::{ParamError, Preset};
use cc_core::{Frac, Link, Rate, Zeroed};
use core::num::NonZeroU32;

cc_core::settings! {
    /// DCQCN at the sender, by the names of `mlxconfig`, MLNX_OFED's sysfs and the mlx5 driver's debugfs.
    ///
    /// The switches at the end, from `alpha_update` on, are this project's: each is one difference in
    /// behaviour between the paper, the firmware and the published simulators.
    pub struct DcqcnSettings {
        /// 1: every cut takes the current rate for the target; 0: only a cut after a byte-counter increase does.
        clamp_tgt_rate: Count, 0..=1, ["rp_clamp_tgt_rate", "CLAMP_TARGET_RATE", "DcQcnClampTgtRate"];
        /// 1: so does a cut after a timer increase.
        clamp_tgt_rate_after_time_inc: Count, 0..=1,
            ["rp_clamp_tgt_rate_ati", "CLAMP_TARGET_RATE_AFTER_TIMER", "DcQcnClampTgtRateAfterTimeInc"];
        /// Time between two increases by the timer (K).
        rpg_time_reset: Micros, 1..=131_071, ["rp_time_reset", "RP_TIMER", "DcQcnTimeReset"];
        /// Data between two increases by the byte counter (B); 0 switches the counter off.
        rpg_byte_reset: Blocks64, 0..=262_143, ["rp_byte_reset", "DcQcnByteReset"];
        /// Increases of one clock that are fast recovery (F).
        rpg_threshold: Count, 1..=31, ["rp_threshold", "FAST_RECOVERY_TIMES", "DcQcnThreshold"];
        /// Additive step (R_AI).
        rpg_ai_rate: Mbps, 1..=131_071, ["rp_ai_rate", "RATE_AI", "DcQcnAIRate"];
        /// Hyper step (R_HAI); 63 of the largest are just below the largest rate.
        rpg_hai_rate: Mbps, 1..=32_000, ["rp_hai_rate", "RATE_HAI", "DcQcnHaiRate"];
        /// Ceiling of a limited flow, where it is released to line rate; 0 is line rate.
        rpg_max_rate: Mbps, 0..=2_000_000, ["rp_max_rate", "DcQcnMaxRate"];
        /// Floor (R_min).
        rpg_min_rate: Mbps, 1..=2_000_000, ["rp_min_rate", "MIN_RATE", "DcQcnMinRate"];
        /// A cut is by alpha / 2^(rpg_gd - 10): 11, with alpha having ten fraction bits, is alpha / 2.
        rpg_gd: Log2, 10..=11, ["rp_gd", "DcQcnAlphaToRateShift"];
        /// One cut leaves at least this share of the rate: 100 never cuts, 0 sets no bound.
        rpg_min_dec_fac: Percent, 0..=100, ["rp_min_dec_fac", "DcQcnMinDecFac"];
        /// Both rates at the first notification; 0 keeps them.
        rate_to_set_on_first_cnp: Mbps, 0..=2_000_000, ["rp_rate_to_set_on_first_cnp", "DcQcnRateToSetOnFirstCnp"];
        /// Share of the old alpha that is RETAINED: g = 1/256 is 1020, not 4 as on vendor pages before 2016.
        dce_tcp_g: Per1024, 0..=1023, ["rp_dce_tcp_g", "DcQcnDceAlphaG"];
        /// Period of alpha.
        dce_tcp_rtt: Micros, 1..=131_071, ["rp_dce_tcp_rtt", "ALPHA_RESUME_INTERVAL", "DcQcnDceAlphaUpdatePeriod"];
        /// Alpha at the first notification; 1024 is one, which a sampled alpha cannot hold.
        initial_alpha_value: Per1024, 1..=1024, ["rp_initial_alpha_value", "DcQcnInitialAlphaValue"];
        /// At most one cut in this time; 0, for restarted alpha only, cuts at every notification.
        rate_reduce_monitor_period: Micros, 0..=131_071,
            ["rp_rate_reduce_monitor_period", "RATE_DECREASE_INTERVAL", "DcQcnRateReduceMonitorPeriod"];
        /// restarted: a notification cuts at once and restarts alpha's period; sampled: alpha and cuts act on their own ticks.
        alpha_update: Choice(&["restarted", "sampled"]), 0..=1, [];
        /// With restarted alpha, whether a cut uses alpha as it was (equation 2 before 4) or as raised by the notification.
        cut_order: Choice(&["cut_first", "alpha_first"]), 0..=1, [];
        /// Whether fast recovery includes the increase whose stage equals rpg_threshold (F rounds) or not (F - 1).
        fast_recovery: Choice(&["through_threshold", "below_threshold"]), 0..=1, [];
        /// Hyper increase begins when both clocks have passed fast recovery, after one additive step, or when both have passed F.
        hyper_start: Choice(&["both_clocks", "second_step", "both_past_f"]), 0..=2, [];
        /// Whether the hyper step grows with the stage (equation 8) or is rpg_hai_rate each time.
        hyper_step: Choice(&["growing", "constant"]), 0..=1, [];
        /// Whether a target of more than ten times the rate is kept, or cut to an eighth, at a clock's first increase.
        far_target: Choice(&["kept", "eighth"]), 0..=1, [];
        /// Whether a flow back at the ceiling is released, its next notification being a first one, or stays limited.
        limiter: Choice(&["released", "kept"]), 0..=1, [];
        /// With sampled alpha, whether the first notification also raises alpha at the next tick.
        first_cnp: Choice(&["raises_alpha", "sets_alpha"]), 0..=1, [];
        /// Bits of a sampled alpha. 10: rounded down in each period, as in the firmware; 20: close to a simulator's float.
        alpha_bits: Count, 10..=20, [];
    }
}

/// Section II-B and Table I of the DCQCN+ paper, which are the SIGCOMM 2015 paper's.
pub const PAPER: DcqcnSettings = DcqcnSettings {
    clamp_tgt_rate: 1,
    clamp_tgt_rate_after_time_inc: 0,
    rpg_time_reset: 55,
    rpg_byte_reset: 156_250,
    rpg_threshold: 5,
    rpg_ai_rate: 40,
    rpg_hai_rate: 100,
    rpg_max_rate: 0,
    rpg_min_rate: 100,
    rpg_gd: 11,
    rpg_min_dec_fac: 0,
    rate_to_set_on_first_cnp: 0,
    dce_tcp_g: 1020,
    dce_tcp_rtt: 55,
    initial_alpha_value: 1024,
    rate_reduce_monitor_period: 0,
    alpha_update: 0,
    cut_order: 0,
    fast_recovery: 0,
    hyper_start: 0,
    hyper_step: 0,
    far_target: 0,
    limiter: 0,
    first_cnp: 0,
    alpha_bits: 10,
};

/// The defaults of current ConnectX firmware.
pub const VENDOR: DcqcnSettings = DcqcnSettings {
    clamp_tgt_rate: 0,
    clamp_tgt_rate_after_time_inc: 1,
    rpg_time_reset: 300,
    rpg_byte_reset: 32_767,
    rpg_threshold: 1,
    rpg_ai_rate: 5,
    rpg_hai_rate: 50,
    rpg_min_rate: 1,
    rpg_min_dec_fac: 50,
    dce_tcp_g: 1019,
    dce_tcp_rtt: 1,
    initial_alpha_value: 1023,
    rate_reduce_monitor_period: 4,
    alpha_update: 1,
    ..PAPER
};

/// ConnectX-4 as the DCQCN+ paper measured it.
pub const CX4: DcqcnSettings = DcqcnSettings { rpg_hai_rate: 40, ..VENDOR };

/// The HPCC authors' simulator, with the rates that its run script gives to ports of 100 Gb/s.
pub const HPCC_SIM: DcqcnSettings = DcqcnSettings {
    rpg_byte_reset: 0,
    rpg_ai_rate: 20,
    rpg_hai_rate: 200,
    rpg_min_rate: 1000,
    rpg_min_dec_fac: 0,
    dce_tcp_g: 1020,
    hyper_start: 1,
    hyper_step: 1,
    limiter: 1,
    first_cnp: 1,
    alpha_bits: 20,
    ..VENDOR
};

/// The DCQCN authors' simulator, with the configuration file that comes with it.
pub const NS3_RDMA: DcqcnSettings = DcqcnSettings {
    rpg_time_reset: 60,
    rpg_byte_reset: 4_688,
    rpg_hai_rate: 200,
    initial_alpha_value: 512,
    cut_order: 1,
    fast_recovery: 1,
    far_target: 1,
    limiter: 1,
    ..PAPER
};

/// The comparisons with F in the SIGCOMM 2015 paper's pseudocode: fast recovery while max(T, BC) < F, which is F - 1 rounds, and
/// hyper increase while min(T, BC) > F.
pub const SIGCOMM15: DcqcnSettings = DcqcnSettings { fast_recovery: 1, hyper_start: 2, ..PAPER };

pub(super) const PRESETS: &[Preset<DcqcnSettings>] = &[
    Preset {
        name: "paper",
        source: "DCQCN+ (ICNP 2018) II-B and Table I: timer 55 us, 10 MB, 40 and 100 Mb/s, F = 5, equations 1 to 10; \
                 g = 1/256, alpha period 55 us and floor 100 Mb/s from the DCQCN authors' simulator; alpha starts at 1 \
                 (SIGCOMM 2015); no bound on a cut, no interval between cuts, no ceiling below line rate",
        values: PAPER,
    },
    Preset {
        name: "vendor",
        source: "NVIDIA \"DCQCN CC Parameters\" (DOCA 3.4) for dce_tcp_*, initial_alpha_value, rpg_gd, rpg_min_*, \
                 rate_*, and mlxconfig dumps of ConnectX-5 to 7 for the rest; phases as in the paper, release at the \
                 ceiling as mlxconfig describes RPG_MAX_RATE",
        values: VENDOR,
    },
    Preset {
        name: "cx4",
        source: "as vendor, with the hyper step of 40 Mb/s in DCQCN+ (ICNP 2018) Table I; its 2 MB are the firmware's \
                 32767 blocks",
        values: CX4,
    },
    Preset {
        name: "hpcc_sim",
        source: "alibaba-edu/High-Precision-Congestion-Control, simulation/run.py \"dcqcn\" at 100 Gb/s and rdma-hw.cc: \
                 no byte counter, one additive step and then a constant hyper step, a limiter that stays, a first CNP \
                 that does not raise alpha; alpha is a float from 1 there, and twenty bits from \
                 1023/1024 here",
        values: HPCC_SIM,
    },
    Preset {
        name: "ns3_rdma",
        source: "bobzhuyb/ns3-rdma, windows/ns-3-dev/mix/config.txt and qbb-net-device.cc: 60 us, 300 kB, alpha from 1/2 \
                 and raised before the cut, four rounds of fast recovery, hyper index from 1, a far target cut to an \
                 eighth, a limiter that stays; its halved periods in hyper increase are left out",
        values: NS3_RDMA,
    },
    Preset {
        name: "sigcomm15",
        source: "SIGCOMM 2015, the reaction point's pseudocode: fast recovery while max(T, BC) < F, hyper increase while \
                 min(T, BC) > F; the rest as paper, whose F rounds of fast recovery are those of both papers' text",
        values: SIGCOMM15,
    },
];

cc_core::zeroed! {
    /// Checked parameters, computed once for a port and shared by its flows.
    #[derive(Clone, Debug)]
    pub struct Params {
        pub(super) line: Rate,
        pub(super) ceiling: Rate,
        pub(super) floor: Rate,
        pub(super) first_rate: Rate,
        pub(super) additive: Rate,
        pub(super) hyper: Rate,
        pub(super) least_share: Frac,
        pub(super) rate_period: Period,
        pub(super) byte_period: Period,
        pub(super) alpha_period: Period,
        pub(super) cut_period: Period,
        pub(super) initial_alpha: u32,
        pub(super) refresh_after: u32,
        pub(super) alpha_shift: u32,
        pub(super) switches: u32,
        /// The last stage of fast recovery.
        pub(super) threshold: u32,
        /// The last stage of additive increase.
        pub(super) hyper_threshold: u32,
        pub(super) alpha: Alpha,
        /// The decay of a restarted alpha.
        pub(super) decay: Decay,
    }
}

/// Every cut takes the current rate for the target.
pub(super) const CLAMPS: u32 = 1;
/// A cut after an increase by the timer takes the current rate for the target.
pub(super) const CLAMPS_AFTER_TIME: u32 = 1 << 1;
/// `least_share` can bind.
pub(super) const BOUNDS_CUTS: u32 = 1 << 2;
/// A cut is by alpha, not by half of it.
pub(super) const CUTS_BY_ALPHA: u32 = 1 << 3;
/// A restarted alpha is raised before the cut that it decides.
pub(super) const ALPHA_FIRST: u32 = 1 << 4;
/// Restarted: two cuts are at least `cut_period` apart.
pub(super) const SPACES_CUTS: u32 = 1 << 5;
/// There is a byte counter.
pub(super) const COUNTS_BYTES: u32 = 1 << 6;
/// Hyper increase follows one additive step.
pub(super) const HYPER_FOLLOWS: u32 = 1 << 7;
/// The hyper step does not grow.
pub(super) const HYPER_IS_CONSTANT: u32 = 1 << 8;
/// A far target drops to an eighth.
pub(super) const FAR_TARGET_DROPS: u32 = 1 << 9;
/// A flow at the ceiling stays limited.
pub(super) const KEEPS_LIMITER: u32 = 1 << 10;
/// Sampled: the first notification raises alpha.
pub(super) const FIRST_COUNTS: u32 = 1 << 11;

const fn switch(flag: u32, on: bool) -> u32 {
    if on { flag } else { 0 }
}

/// The two kinds of alpha, with their constants.
#[derive(Clone, Debug)]
pub(super) enum Alpha {
    /// `kept` is 1 - g with 2^32 being one, `gain` is g with 2^31 being one.
    Restarted { kept: u32, gain: u32 },
    /// An alpha of 10 to 20 bits, the setting `alpha_bits`.
    Sampled(AlphaDecay),
}

impl Zeroed for Alpha {
    const ZEROED: Self = Self::Restarted { kept: 0, gain: 0 };
}

cc_core::zeroed! {
    /// A period, with a divider that counts periods.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Period {
        /// In nanoseconds or bytes.
        pub(super) length: u32,
        divider: Divider,
    }
}

impl Period {
    /// Sets the length. A period of length 0 is never used: the setting that makes it 0 switches its clock off.
    #[inline(never)]
    fn set(&mut self, length: u32) {
        *self = Self { length, divider: Divider::new(NonZeroU32::new(length).unwrap_or(NonZeroU32::MAX)) };
    }

    /// How many whole periods fit into `extent`.
    #[inline]
    pub(super) const fn count_in(&self, extent: u32) -> u32 {
        self.divider.quotient(extent)
    }
}

/// The longest time in which a restarted alpha may decay to 0, in nanoseconds. Between this and the wrap of a stamp, at 4.29 s,
/// every slot is visited at least once.
const LONGEST_FADE: u32 = 2_000_000_000;
const FADES: &str = "alpha must decay to 0 within 2 s, or, sampled and of more than ten bits, within 0.26 s: shorten \
                     dce_tcp_rtt, lower dce_tcp_g or alpha_bits";

const fn conflict(field: &'static str, expected: &'static str) -> Result<(), ParamError> {
    Err(ParamError::Conflict { field, expected })
}

impl Params {
    /// Checks settings, each of which is in its field's range, against the port and each other, and computes the parameters
    /// from them. In place, because the tables of alpha's decay, 1 280 bytes, are too large for a small stack.
    ///
    /// # Errors
    ///
    /// Names the setting that conflicts with the port or with another setting.
    pub(crate) fn set(&mut self, settings: &DcqcnSettings, link: &Link) -> Result<(), ParamError> {
        let line = link.line_rate;
        let floor = Rate::from_mbps(settings.rpg_min_rate);
        let ceiling = or_else(settings.rpg_max_rate, line);
        if ceiling > line {
            return conflict("rpg_max_rate", "must be at most the speed of the port, or 0");
        }
        if floor > ceiling {
            return conflict("rpg_min_rate", "must be at most the speed of the port and rpg_max_rate");
        }
        let first_rate = or_else(settings.rate_to_set_on_first_cnp, ceiling);
        if first_rate < floor || first_rate > ceiling {
            return conflict("rate_to_set_on_first_cnp", "must be from rpg_min_rate to rpg_max_rate, or 0");
        }
        let gain = 1024u32.wrapping_sub(settings.dce_tcp_g);
        let alpha_nanos = nanos(settings.dce_tcp_rtt);
        let Some(horizon) = self.decay.set(Frac::from_bits(settings.dce_tcp_g << 21)) else {
            return conflict("dce_tcp_g", FADES);
        };
        if settings.alpha_update == 1 {
            if settings.rate_reduce_monitor_period == 0 {
                return conflict("rate_reduce_monitor_period", "must be at least 1 us when alpha is sampled");
            }
            if settings.initial_alpha_value > 1023 {
                return conflict("initial_alpha_value", "must be at most 1023 when alpha is sampled");
            }
            // A refresh, which may come at any time, must not round an alpha that is yet to decay.
            let horizon = AlphaDecay::horizon(gain, settings.alpha_bits);
            let faded = u64::from(horizon).wrapping_mul(alpha_nanos.into());
            if settings.alpha_bits > 10 && faded > u64::from(super::STALE >> 1) {
                return conflict("dce_tcp_rtt", FADES);
            }
            self.initial_alpha = settings.initial_alpha_value << TEN_BITS;
            self.alpha = Alpha::Sampled(AlphaDecay::new(gain, settings.alpha_bits, horizon));
            self.refresh_after = super::STALE;
        } else {
            match horizon.checked_mul(alpha_nanos) {
                Some(faded) if faded <= LONGEST_FADE => self.refresh_after = faded,
                _ => return conflict("dce_tcp_rtt", FADES),
            }
            self.alpha = Alpha::Restarted { kept: settings.dce_tcp_g << 22, gain: gain << 21 };
            self.initial_alpha = settings.initial_alpha_value << 21;
        }
        // A cut by half of alpha leaves at least half: the bound has an effect only above 50 %, or if cuts are by alpha itself.
        let cuts_by_alpha = settings.rpg_gd == 10;
        let least = if settings.rpg_min_dec_fac > 50 || cuts_by_alpha { settings.rpg_min_dec_fac } else { 0 };
        (self.line, self.ceiling, self.floor, self.first_rate) = (line, ceiling, floor, first_rate);
        self.additive = Rate::from_mbps(settings.rpg_ai_rate);
        self.hyper = Rate::from_mbps(settings.rpg_hai_rate);
        self.least_share = Frac::from_ratio(least, 100);
        self.rate_period.set(nanos(settings.rpg_time_reset));
        self.byte_period.set(settings.rpg_byte_reset << 6);
        self.alpha_period.set(alpha_nanos);
        self.cut_period.set(nanos(settings.rate_reduce_monitor_period));
        // The shift that makes a sampled alpha, in units of 2^-32, the fraction of a cut.
        self.alpha_shift = settings.rpg_gd.wrapping_sub(10);
        self.threshold = settings.rpg_threshold.wrapping_sub(settings.fast_recovery);
        self.hyper_threshold = match settings.hyper_start {
            2 => settings.rpg_threshold,
            start => self.threshold.wrapping_add(start),
        };
        self.switches = CLAMPS.wrapping_mul(settings.clamp_tgt_rate)
            | CLAMPS_AFTER_TIME.wrapping_mul(settings.clamp_tgt_rate_after_time_inc)
            | switch(BOUNDS_CUTS, least != 0)
            | switch(CUTS_BY_ALPHA, cuts_by_alpha)
            | ALPHA_FIRST.wrapping_mul(settings.cut_order)
            | switch(SPACES_CUTS, settings.rate_reduce_monitor_period != 0)
            | switch(COUNTS_BYTES, settings.rpg_byte_reset != 0)
            | switch(HYPER_FOLLOWS, settings.hyper_start == 1)
            | HYPER_IS_CONSTANT.wrapping_mul(settings.hyper_step)
            | FAR_TARGET_DROPS.wrapping_mul(settings.far_target)
            | KEEPS_LIMITER.wrapping_mul(settings.limiter)
            | switch(FIRST_COUNTS, settings.first_cnp == 0);
        Ok(())
    }

    #[inline]
    pub(super) const fn has(&self, switch: u32) -> bool {
        self.switches & switch != 0
    }

    #[inline]
    pub(super) const fn is_sampled(&self) -> bool {
        matches!(self.alpha, Alpha::Sampled(_))
    }
}

/// The rate of a setting in Mb/s, or `other` if the setting is 0.
fn or_else(mbps: u32, other: Rate) -> Rate {
    if mbps == 0 { other } else { Rate::from_mbps(mbps) }
}

/// Microseconds of a setting, all of which are at most 131 071.
const fn nanos(micros: u32) -> u32 {
    micros.wrapping_mul(1_000)
}
