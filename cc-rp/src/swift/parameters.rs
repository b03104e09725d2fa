//! Swift's settings, and the parameters computed from them.

use super::{per_root, root};
use cc_core::math::div_bitwise;
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Link, Nanos, Rate};

cc_core::settings! {
    /// Swift, by the names of its paper; the aliases are those of Falcon's configuration.
    pub struct SwiftSettings {
        /// Increase of the fabric window in a round-trip time, in packets (ai).
        additive_increment: Ppm, 1_000..=16_000_000, ["fabric_additive_increment_factor", "ai"];
        /// Factor of a cut (beta).
        beta: Ppm, 1_000..=1_000_000, ["fabric_multiplicative_decrease_factor"];
        /// Largest cut, as a fraction of the fabric window (max_mdf).
        max_mdf: Ppm, 1_000..=999_000, ["max_fabric_multiplicative_decrease"];
        /// Target delay of a large window without hops.
        base_target: Micros, 1..=100_000, ["fabric_base_delay"];
        /// What each hop adds to the target.
        hop_scaling: Nanos, 0..=1_000_000, ["topo_scaling_per_hop"];
        /// The most that a small window adds to the target; 0 is no flow scaling.
        fs_range: Micros, 0..=10_000, ["max_flow_scaling"];
        /// Window, in packets, up to which fs_range is added in full.
        fs_min_window: Ppm, 1_000..=1_000_000, ["min_flow_scaling_window"];
        /// Window, in packets, from which on flow scaling adds nothing.
        fs_max_window: Count, 1..=4_095, ["max_flow_scaling_window"];
        /// The smallest fabric window, in packets.
        min_window: Ppm, 1_000..=1_000_000, ["min_fabric_congestion_window", "min_cwnd"];
        /// The largest window, in packets.
        max_window: Count, 1..=4_095, ["max_fabric_congestion_window", "max_cwnd"];
        /// Weight of the old value in the smoothed round-trip time.
        rtt_smoothing: Ppm, 0..=999_000, ["rtt_smoothing_alpha"];
        /// Timeouts in a row from which the fabric window is the smallest.
        retransmit_limit: Count, 1..=15, [];
        /// The longest gap between two packets.
        longest_gap: Micros, 1..=1_000_000, [];
        /// Level of the receiver's buffer, of 31, from which on the endpoint window is cut; 0 is no endpoint window.
        endpoint_target: Count, 0..=31, ["target_rx_buffer_level"];
        /// Increase of the endpoint window in a round-trip time, in packets.
        endpoint_increment: Ppm, 1_000..=16_000_000, ["nic_additive_increment_factor"];
        /// Factor of a cut of the endpoint window.
        endpoint_beta: Ppm, 1_000..=1_000_000, ["nic_multiplicative_decrease_factor"];
        /// Largest cut of the endpoint window, as a fraction of it.
        endpoint_max_mdf: Ppm, 1_000..=999_000, ["max_nic_multiplicative_decrease"];
    }
}

/// Falcon.
pub const FALCON: SwiftSettings = SwiftSettings {
    additive_increment: 1_000_000,
    beta: 800_000,
    max_mdf: 500_000,
    base_target: 25,
    hop_scaling: 1_000,
    fs_range: 100,
    fs_min_window: 100_000,
    fs_max_window: 256,
    min_window: 10_000,
    max_window: 256,
    rtt_smoothing: 750_000,
    retransmit_limit: 3,
    longest_gap: 33_554,
    endpoint_target: 15,
    endpoint_increment: 1_000_000,
    endpoint_beta: 800_000,
    endpoint_max_mdf: 500_000,
};

/// The packet simulator htsim.
pub const HTSIM: SwiftSettings = SwiftSettings {
    base_target: 20,
    hop_scaling: 3_053,
    fs_max_window: 100,
    min_window: 6_667,
    max_window: 1_000,
    rtt_smoothing: 875_000,
    retransmit_limit: 5,
    longest_gap: 1_000_000,
    endpoint_target: 0,
    ..FALCON
};

pub(super) const PRESETS: &[Preset<SwiftSettings>] = &[
    Preset {
        name: "falcon",
        source: "Falcon's simulator Isekai, isekai/host/falcon/rue/algorithm/swift.cc: its default configuration; the \
                 longest gap is 2^16 of 512 ns",
        values: FALCON,
    },
    Preset {
        name: "htsim",
        source: "Broadcom/csg-htsim, sim/swift.cpp: guesses, as it says, at the paper's values; its smallest window is \
                 10 B, here of 1,500; no bound on the gap, here 1 s, and no endpoint window",
        values: HTSIM,
    },
];

cc_core::zeroed! {
    /// Checked parameters, computed once for a port and shared by its flows.
    #[derive(Clone, Copy, Debug)]
    pub struct Params {
        pub(super) line: Rate,
        pub(super) floor: Rate,
        /// Bytes of a packet.
        pub(super) mtu: u32,
        /// Windows in 2^-20 packets.
        pub(super) first_window: u32,
        pub(super) min_window: u32,
        pub(super) max_window: u32,
        /// The largest window in whole packets.
        pub(super) max_packets: u32,
        /// The round-trip time before the first sample.
        pub(super) first_rtt: Nanos,
        /// ai over the size of a packet, in units of 2^-34 packets per byte.
        pub(super) gain: u32,
        /// beta in units of 2^-32, as all fractions here.
        pub(super) beta: u32,
        pub(super) max_mdf: u32,
        /// In nanoseconds, as the two after it.
        pub(super) base_target: u32,
        pub(super) hop_scaling: u32,
        pub(super) fs_range: u32,
        /// fs_a in units of 2^-6 ns.
        pub(super) fs_slope: u32,
        /// 1 / sqrt(fs_max) in units of 2^-26.
        pub(super) fs_least: u32,
        /// The weight of the newest sample in the smoothed round-trip time.
        pub(super) weight: u32,
        pub(super) retransmit_limit: u32,
        pub(super) endpoint_target: u32,
        pub(super) endpoint_increment: u32,
        pub(super) endpoint_beta: u32,
        pub(super) endpoint_max_mdf: u32,
    }
}

/// Nanoseconds of a setting in microseconds, all of which are at most 1 000 000.
const fn nanos(micros: u32) -> u32 {
    match Nanos::from_micros(micros) {
        Some(nanos) => nanos.get(),
        None => u32::MAX,
    }
}

/// A window in millionths of a packet, converted to 2^-20 packets and rounded to nearest.
#[expect(clippy::cast_possible_truncation, reason = "such settings are at most 16 packets")]
const fn window(ppm: u32) -> u32 {
    div_bitwise(((ppm as u64) << 20).wrapping_add(500_000), 1_000_000) as u32
}

/// A setting in millionths, converted to units of 2^-32; 1 becomes 2^32 - 1.
const fn share(ppm: u32) -> u32 {
    saturate(div_bitwise((ppm as u64) << 32, 1_000_000))
}

#[expect(clippy::cast_possible_truncation, reason = "tested just before")]
const fn saturate(value: u64) -> u32 {
    if value > u32::MAX as u64 { u32::MAX } else { value as u32 }
}

impl Params {
    /// Checks settings against their ranges, the port and each other.
    ///
    /// # Errors
    ///
    /// Names the setting that conflicts with the port or with another setting.
    pub fn new(settings: &SwiftSettings, link: &Link) -> Result<Self, ParamError> {
        settings.in_range()?;
        let conflict = |field, expected| Err(ParamError::Conflict { field, expected });
        let mtu = link.mtu.get();
        if !(256..1 << 14).contains(&mtu) {
            return conflict("max_window", "counts packets, which must be from 256 to 16383 bytes on this port");
        }
        let floor = Rate::from_bits(saturate(div_bitwise((mtu as u64) << 24, nanos(settings.longest_gap))).max(1));
        if floor > link.line_rate {
            return conflict("longest_gap", "must be at least the time of a packet at the speed of the port");
        }
        let (fs_most, fs_least) =
            (per_root(root(window(settings.fs_min_window))), per_root(root(settings.fs_max_window << 20)));
        if fs_most <= fs_least {
            return conflict("fs_min_window", "must be below fs_max_window");
        }
        let fs_range = nanos(settings.fs_range);
        let fs_slope = div_bitwise((fs_range as u64) << 32, fs_most.wrapping_sub(fs_least));
        if fs_slope > u64::from(u32::MAX) {
            return conflict("fs_min_window", "must be farther below fs_max_window, or fs_range smaller");
        }
        let (min_window, max_window) = (window(settings.min_window), settings.max_window << 20);
        let line = link.line_rate;
        let one_bdp = div_bitwise((line.bytes_in(link.base_rtt).get() as u64) << 20, mtu);
        Ok(Self {
            line,
            floor,
            mtu,
            first_window: saturate(one_bdp).max(min_window).min(max_window),
            min_window,
            max_window,
            max_packets: settings.max_window,
            first_rtt: Nanos::new(link.base_rtt.get().max(1)),
            gain: saturate(div_bitwise((window(settings.additive_increment) as u64) << 14, mtu)),
            beta: share(settings.beta),
            max_mdf: share(settings.max_mdf),
            base_target: nanos(settings.base_target),
            hop_scaling: settings.hop_scaling,
            fs_range,
            fs_slope: saturate(fs_slope),
            fs_least,
            weight: !share(settings.rtt_smoothing),
            retransmit_limit: settings.retransmit_limit,
            endpoint_target: settings.endpoint_target,
            endpoint_increment: window(settings.endpoint_increment),
            endpoint_beta: share(settings.endpoint_beta),
            endpoint_max_mdf: share(settings.endpoint_max_mdf),
        })
    }
}
