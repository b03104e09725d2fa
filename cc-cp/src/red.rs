//! RED: marks packets by the length of the egress queue. It is DCQCN's congestion point.
//!
//! Y. Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 3 (CP algorithm), as
//! restated by Y. Gao et al., "DCQCN+", ICNP 2018, section II-B.1 and Fig. 1; ECN by RFC 3168.
//!
//! With q bytes in the queue when a packet leaves it:
//!
//! ```text
//! q <= Kmin          never
//! Kmin < q <= Kmax   with probability Pmax (q - Kmin) / (Kmax - Kmin)
//! q > Kmax           always
//! ```
//!
//! At Kmax the probability jumps from Pmax to 1. Kmin = Kmax is a step, as in DCTCP. q is the length at that moment, where the
//! original RED uses an average.
//!
//! A packet without ECT cannot be marked: above Kmax the verdict reports this (`not_ect`), and a lossy class drops the packet.
//! ECT(1) is marked like ECT(0). CE stays CE, and draws no random number.
//!
//! If the state is lost, the sequence of random numbers restarts; nothing else changes.

use crate::pcg::Pcg32;
use crate::{Cx, Emit, Event, Kind, Kinds, QueueStage, Verdict};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Bytes, Ecn, Link, Mark, Rate, State, Zeroed};

cc_core::settings! {
    /// Settings of RED.
    pub struct RedSettings {
        /// Kmin: no packet is marked up to this length of the queue, at the reference speed.
        kmin: Bytes, 0..=0xffff_ffff, ["KMIN"];
        /// Kmax: every packet is marked above this length of the queue, at the reference speed.
        kmax: Bytes, 0..=0xffff_ffff, ["KMAX"];
        /// Pmax: the probability of a mark at `kmax`.
        pmax: Ppm, 0..=1_000_000, ["PMAX"];
        /// Port speed for which `kmin` and `kmax` are given; at other speeds they are scaled in proportion. 0: not scaled.
        reference_rate: Mbps, 0..=1_600_000, [];
    }
}

cc_core::zeroed! {
    /// Checked parameters.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        kmin: Bytes,
        kmax: Bytes,
        /// Pmax / (Kmax - Kmin) per byte, in units of 2^-63, rounded down; zero for a step. Its product with any length from 0
        /// to Kmax - Kmin is at most Pmax, and so within 64 bits.
        slope: u64,
    }
}

/// The state of one queue: its random number generator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Red {
    random: Pcg32,
}

impl Zeroed for Red {
    const ZEROED: Self = Self { random: Pcg32::ZEROED };
}

cc_core::snapshot! {
    /// A queue of RED.
    pub struct RedSnapshot {
        /// The state of its random number generator.
        pub random: u64,
    }
}

impl State for Red {
    type Snapshot = RedSnapshot;

    fn snapshot(&self) -> RedSnapshot {
        RedSnapshot { random: self.random.snapshot() }
    }

    fn from_snapshot(s: RedSnapshot) -> Self {
        Self { random: Pcg32::from_snapshot(s.random) }
    }
}

impl QueueStage for Red {
    type Params = Params;
    type Settings = RedSettings;

    const NAME: &'static str = "red";
    const PRESETS: &'static [Preset<RedSettings>] = &[
        Preset {
            name: "paper",
            source: "DCQCN at 40 Gb/s: Kmin by DCQCN+ (ICNP'18) IV-B.1, Kmax and Pmax by II-B and by the public \
                     DCQCN-TCD code, config/configburst.txt",
            values: RedSettings { kmin: 5_000, kmax: 200_000, pmax: 10_000, reference_rate: 0 },
        },
        Preset {
            name: "dcqcn_plus",
            source: "DCQCN+ (ICNP'18) IV-B.1, which does not give Pmax: as in `paper`",
            values: RedSettings { kmin: 20_000, kmax: 200_000, pmax: 10_000, reference_rate: 0 },
        },
        Preset {
            name: "hpcc",
            source: "DCQCN in HPCC's evaluation, simulation/run.py of the public code: 100 and 400 KB at 25 Gb/s, scaled",
            values: RedSettings { kmin: 100_000, kmax: 400_000, pmax: 200_000, reference_rate: 25_000 },
        },
        Preset {
            name: "dctcp",
            source: "DCTCP in HPCC's evaluation, simulation/run.py of the public code: a step at 30 KB at 10 Gb/s, scaled",
            values: RedSettings { kmin: 30_000, kmax: 30_000, pmax: 1_000_000, reference_rate: 10_000 },
        },
        Preset {
            name: "ns3_rdma",
            source: "the sample config.txt of the public ns3-rdma code",
            values: RedSettings { kmin: 40_000, kmax: 1_000_000, pmax: 1_000_000, reference_rate: 0 },
        },
    ];

    const TAKES: Kinds = Kinds::of(&[Kind::Departure, Kind::Pause]);

    #[expect(clippy::integer_division, reason = "configuration, not the event path")]
    #[expect(clippy::arithmetic_side_effects, reason = "constant or non-zero divisors")]
    fn check(settings: &RedSettings, link: &Link) -> Result<Params, ParamError> {
        settings.in_range()?;
        if settings.kmin > settings.kmax {
            return Err(ParamError::Conflict { field: "kmin", expected: "must be at most kmax" });
        }
        let kmin = scaled(settings.kmin, settings.reference_rate, link.line_rate)?;
        let kmax = scaled(settings.kmax, settings.reference_rate, link.line_rate)?;
        // Pmax in units of 2^-32, at most 2^32.
        let pmax = (u64::from(settings.pmax) << 32) / 1_000_000;
        let slope = match u64::from(kmax.saturating_sub(kmin).get()) {
            0 => 0,
            span => (pmax << 31) / span,
        };
        Ok(Params { kmin, kmax, slope })
    }

    fn begin(&mut self, _cx: &Cx<'_, Params>, seed: u64) {
        self.random = Pcg32::new(seed);
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>, _out: &mut impl Emit) -> Verdict {
        match *event {
            Event::Departure { queued, ecn, .. } => self.mark(cx.params, queued, ecn),
            _ => Verdict::PASS,
        }
    }
}

impl Red {
    /// The verdict on a packet with these ECN bits that leaves a queue of this length.
    #[inline]
    pub(crate) fn mark(&mut self, params: &Params, queued: Bytes, ecn: Ecn) -> Verdict {
        let full = queued > params.kmax;
        let congested = match ecn {
            Ecn::NotEct => return Verdict { not_ect: full, ..Verdict::PASS },
            Ecn::Ce => false,
            Ecn::Ect0 | Ecn::Ect1 => full || self.strikes(params, queued),
        };
        Verdict { mark: if congested { Mark::Congested } else { Mark::None }, ..Verdict::PASS }
    }

    /// Draws whether a packet of a queue of at most Kmax is marked. Up to Kmin no number is drawn.
    #[inline]
    fn strikes(&mut self, params: &Params, queued: Bytes) -> bool {
        if queued <= params.kmin {
            return false;
        }
        let over = queued.saturating_sub(params.kmin);
        let probability = u64::from(over.get()).wrapping_mul(params.slope) >> 31;
        u64::from(self.random.draw()) < probability
    }
}

/// A threshold, given for a port of `reference` Mb/s, scaled to this line rate; not scaled if `reference` is zero.
#[expect(clippy::integer_division, reason = "configuration, not the event path")]
#[expect(clippy::arithmetic_side_effects, reason = "a product of two 32-bit values by a divisor that is not zero")]
fn scaled(threshold: u32, reference: u32, line_rate: Rate) -> Result<Bytes, ParamError> {
    let bytes = match u64::from(Rate::from_mbps(reference).to_bits()) {
        0 => u64::from(threshold),
        reference => u64::from(threshold) * u64::from(line_rate.to_bits()) / reference,
    };
    u32::try_from(bytes).map(Bytes::new).map_err(|_| ParamError::Conflict {
        field: "reference_rate",
        expected: "kmin and kmax must stay below 4 GiB when scaled to this port",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::Nanos;
    use proptest::prelude::*;

    const PACKETS: u32 = 1_000_000;

    fn link(gbps: u32) -> Link {
        Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(1_064), base_rtt: Nanos::new(10_000) }
    }

    fn preset(name: &str) -> RedSettings {
        Red::PRESETS.iter().find(|preset| preset.name == name).unwrap().values
    }

    /// A queue with these settings on a 40 Gb/s port.
    struct Bench {
        params: Params,
        red: Red,
    }

    impl Bench {
        fn new(settings: &RedSettings, seed: u64) -> Self {
            let params = Red::check(settings, &link(40)).unwrap();
            Self { params, red: Red { random: Pcg32::new(seed) } }
        }

        fn verdict(&mut self, queued: u32, ecn: Ecn) -> Verdict {
            self.red.mark(&self.params, Bytes::new(queued), ecn)
        }

        fn marks(&mut self, queued: u32, ecn: Ecn) -> bool {
            self.verdict(queued, ecn).mark == Mark::Congested
        }

        fn share(&mut self, queued: u32) -> u32 {
            (0..PACKETS).map(|_| u32::from(self.marks(queued, Ecn::Ect0))).sum()
        }
    }

    #[test]
    fn marks_follow_the_line_of_figure_1() {
        for name in ["paper", "ns3_rdma"] {
            let settings = preset(name);
            let RedSettings { kmin, kmax, pmax, .. } = settings;
            let mut bench = Bench::new(&settings, 1);
            for queued in [kmin + 1, kmin + 15_000, (kmin + kmax) / 2, kmax - 50_000, kmax - 1, kmax] {
                let p = f64::from(pmax) / 1e6 * f64::from(queued - kmin) / f64::from(kmax - kmin);
                let expected = p * f64::from(PACKETS);
                let sigma = (expected * (1.0 - p)).sqrt();
                let marked = f64::from(bench.share(queued));
                assert!((marked - expected).abs() <= 3.0 * sigma.max(1.0), "{queued} B: {marked} marks for {expected}");
            }
        }
    }

    #[test]
    fn never_up_to_kmin_and_always_above_kmax_a3() {
        let mut bench = Bench::new(&preset("paper"), 2);
        for queued in [0, 1, 4_999, 5_000] {
            assert_eq!(bench.share(queued), 0, "{queued} B");
        }
        for queued in [200_001, 1_000_000, u32::MAX] {
            assert_eq!(bench.share(queued), PACKETS, "{queued} B");
        }
    }

    #[test]
    fn a_step_has_no_slope() {
        let mut bench = Bench::new(&RedSettings { kmin: 30_000, kmax: 30_000, pmax: 1_000_000, reference_rate: 0 }, 3);
        assert!(!bench.marks(30_000, Ecn::Ect0));
        assert!(bench.marks(30_001, Ecn::Ect0));
    }

    #[test]
    fn with_a_pmax_of_1_every_packet_at_kmax_is_marked() {
        let mut bench = Bench::new(&RedSettings { kmin: 0, kmax: 1 << 16, pmax: 1_000_000, reference_rate: 0 }, 4);
        assert_eq!(bench.share(1 << 16), PACKETS);
    }

    #[test]
    fn the_smallest_slope_is_not_rounded_to_zero() {
        let mut bench = Bench::new(&RedSettings { kmin: 0, kmax: u32::MAX, pmax: 10, reference_rate: 0 }, 5);
        let marked = bench.share(u32::MAX);
        assert!((1..=20).contains(&marked), "{marked} marks for 10");
    }

    #[test]
    fn a_packet_without_ect_is_never_marked_and_above_kmax_is_reported_a3() {
        let mut bench = Bench::new(&preset("paper"), 6);
        for (queued, not_ect) in [(0, false), (100_000, false), (200_000, false), (200_001, true), (u32::MAX, true)] {
            let verdict = bench.verdict(queued, Ecn::NotEct);
            assert_eq!(verdict, Verdict { not_ect, ..Verdict::PASS });
            assert_eq!(verdict.apply(Ecn::NotEct), Ecn::NotEct);
        }
    }

    #[test]
    fn ect1_is_marked_like_ect0_and_ce_stays() {
        let (mut zero, mut one) = (Bench::new(&preset("hpcc"), 7), Bench::new(&preset("hpcc"), 7));
        for queued in (0..1_000_000).step_by(500) {
            let (zero, one) = (zero.verdict(queued, Ecn::Ect0), one.verdict(queued, Ecn::Ect1));
            assert_eq!(zero, one);
            assert_eq!(one.apply(Ecn::Ce), Ecn::Ce);
        }
        assert_eq!(zero.verdict(u32::MAX, Ecn::Ce).apply(Ecn::Ce), Ecn::Ce);
    }

    #[test]
    fn presets_equal_their_sources_at_their_speeds() {
        for (name, gbps, kmin, kmax) in [
            ("paper", 40, 5_000, 200_000),
            ("paper", 100, 5_000, 200_000),
            ("dcqcn_plus", 10, 20_000, 200_000),
            ("hpcc", 25, 100_000, 400_000),
            ("hpcc", 100, 400_000, 1_600_000),
            ("hpcc", 400, 1_600_000, 6_400_000),
            ("dctcp", 10, 30_000, 30_000),
            ("dctcp", 100, 300_000, 300_000),
            ("ns3_rdma", 40, 40_000, 1_000_000),
        ] {
            let params = Red::check(&preset(name), &link(gbps)).unwrap();
            assert_eq!((params.kmin.get(), params.kmax.get()), (kmin, kmax), "{name} at {gbps} Gb/s");
        }
    }

    #[test]
    fn thresholds_out_of_order_or_out_of_range_are_refused() {
        let crossed = RedSettings { kmin: 2, kmax: 1, pmax: 0, reference_rate: 0 };
        assert!(matches!(Red::check(&crossed, &link(40)), Err(ParamError::Conflict { field: "kmin", .. })));
        let huge = RedSettings { kmin: 0, kmax: u32::MAX, pmax: 0, reference_rate: 1_000 };
        assert!(matches!(Red::check(&huge, &link(40)), Err(ParamError::Conflict { field: "reference_rate", .. })));
        let certain = RedSettings { pmax: 1_000_001, ..preset("paper") };
        assert!(matches!(Red::check(&certain, &link(40)), Err(ParamError::OutOfRange(field)) if field.name == "pmax"));
    }

    proptest! {
        #[test]
        fn equal_seeds_give_equal_marks_within_the_thresholds(
            seed: u64,
            kmin: u32,
            span: u32,
            pmax in 0..=1_000_000_u32,
            packets in prop::collection::vec((any::<u32>(), 0..4_u8), 1..100),
        ) {
            let kmax = kmin.saturating_add(span);
            let settings = RedSettings { kmin, kmax, pmax, reference_rate: 0 };
            let (mut a, mut b) = (Bench::new(&settings, seed), Bench::new(&settings, seed));
            for (queued, bits) in packets {
                let ecn = Ecn::from_bits(bits);
                let verdict = a.verdict(queued, ecn);
                prop_assert_eq!(verdict, b.verdict(queued, ecn));
                let ect = matches!(ecn, Ecn::Ect0 | Ecn::Ect1);
                if queued <= kmin || !ect {
                    prop_assert_eq!(verdict.mark, Mark::None);
                }
                if queued > kmax {
                    prop_assert_eq!(verdict.mark == Mark::Congested, ect);
                    prop_assert_eq!(verdict.not_ect, ecn == Ecn::NotEct);
                }
            }
        }
    }
}
