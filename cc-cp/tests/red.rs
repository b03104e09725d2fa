//! RED compared with its rule in double precision, packet by packet, and over a million packets.

#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
mod one_queue;
#[allow(unreachable_pub, reason = "a module that several tests share")]
#[path = "red_rule/mod.rs"]
mod oracle;
#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/tolerance/mod.rs"]
mod tolerance;

use cc_core::{Bytes, Ecn, Link, Mark, Nanos, Rate};
use cc_cp::red::{Red, RedSettings};
use cc_cp::{QueueStage, Verdict};
use one_queue::OneQueue;
use oracle::{Fate, Rule};
use tolerance::{SplitMix, Tolerance};

/// A random profile: Kmin and Kmax of any magnitude, and a Pmax of the literature or any other.
fn profile(random: &mut SplitMix) -> RedSettings {
    let kmin = random.within(0..=u32::MAX) >> random.within(0..=31);
    let span = random.within(0..=u32::MAX) >> random.within(0..=31);
    let pmax = [0, 1, 10_000, 200_000, 1_000_000, random.within(0..=1_000_000)][random.within(0..=5) as usize];
    RedSettings { kmin, kmax: kmin.saturating_add(span), pmax, reference_rate: 0 }
}

/// A random length of the queue: mostly from Kmin to Kmax, but also at these two and anywhere.
fn length(random: &mut SplitMix, rule: &Rule) -> u32 {
    match random.within(0..=7) {
        0 => random.within(0..=u32::MAX),
        1 => rule.kmin.saturating_add(random.within(0..=1)),
        2 => rule.kmax.saturating_add(random.within(0..=1)),
        _ => random.within(rule.kmin..=rule.kmax),
    }
}

#[test]
fn each_packet_is_marked_by_the_rule() {
    let mut tolerance = Tolerance::default();
    let mut random = SplitMix::new(1);
    for _ in 0..100 {
        // Kmin and Kmax are given for the reference speed, and are scaled to the port's speed in whole bytes.
        let mut settings = profile(&mut random);
        let (gbps, reference) = (random.within(1..=800), random.within(0..=400));
        let scaled = |bytes: u32| u32::try_from(u64::from(bytes) * u64::from(gbps) / u64::from(reference.max(1)));
        let (mut kmin, mut kmax) = (settings.kmin, settings.kmax);
        if let (true, Ok(low), Ok(high)) = (reference > 0, scaled(kmin), scaled(kmax)) {
            (kmin, kmax, settings.reference_rate) = (low, high, reference * 1_000);
        }
        let link = Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(1_064), base_rtt: Nanos::new(10_000) };
        let params = Red::check(&settings, &link).unwrap();
        let seed = random.draw();
        let now = random.draw() >> 1;
        let mut machine = OneQueue::<Red>::new(params, now, seed);
        let mut rule = Rule::new(kmin, kmax, settings.pmax, seed);
        for _ in 0..2_000 {
            match random.within(0..=30) {
                0 => machine.wakes(now),
                kind @ 1..=2 => machine.pauses(now, kind - 1, kmax),
                _ => {}
            }
            let (queued, ecn) = (length(&mut random, &rule), random.within(0..=3) as u8);
            let verdict = machine.departs(now, 64, [queued; 2], Ecn::from_bits(ecn));
            let outcome = [
                ("marked", f64::from(u8::from(verdict.mark == Mark::Congested)), 0.0),
                ("unmarkable", f64::from(u8::from(verdict.not_ect)), 0.0),
            ];
            let allowed = match rule.judge(queued, ecn) {
                Fate::Unmarked => vec![vec![0.0, 0.0]],
                Fate::Marked => vec![vec![1.0, 0.0]],
                Fate::Unmarkable => vec![vec![0.0, 1.0]],
                Fate::NearTheLine => vec![vec![0.0, 0.0], vec![1.0, 0.0]],
            };
            tolerance.assert(&(settings, gbps, queued, ecn), &outcome, &allowed);
            assert_eq!(Verdict { mark: Mark::None, not_ect: false, ..verdict }, Verdict::PASS);
        }
    }
    tolerance.finish(200_000);
}

/// A queue whose length changes with every packet, as in a switch: of a million packets, with the published profile for 40 Gb/s
/// and that of HPCC's evaluation, as many are marked as the sum of their probabilities, with each of three seeds.
#[test]
fn a_million_packets_of_a_moving_queue_are_marked_within_three_sigma_of_the_line() {
    let link = Link { line_rate: Rate::from_gbps(25), mtu: Bytes::new(1_064), base_rtt: Nanos::new(10_000) };
    for (name, kmin, kmax, pmax) in [("paper", 5_000.0, 200_000.0, 0.01), ("hpcc", 100_000.0, 400_000.0, 0.2)] {
        let settings = Red::PRESETS.iter().find(|preset| preset.name == name).unwrap().values;
        let params = Red::check(&settings, &link).unwrap();
        for seed in 0..3 {
            let (mut first, mut second, mut random) =
                (OneQueue::<Red>::new(params, 0, seed), OneQueue::<Red>::new(params, 0, seed), SplitMix::new(seed));
            let (mut expected, mut variance, mut marked) = (0.0, 0.0, 0.0);
            let mut queued = 50_000;
            for _ in 0..1_000_000 {
                queued = (queued + random.within(0..=4_000)).saturating_sub(2_000).min(kmax as u32);
                let verdict = first.departs(0, 1_064, [queued; 2], Ecn::Ect0);
                assert_eq!(verdict, second.departs(0, 1_064, [queued; 2], Ecn::Ect0), "equal seeds");
                marked += f64::from(u8::from(verdict.mark == Mark::Congested));
                let p: f64 = pmax * ((f64::from(queued) - kmin) / (kmax - kmin)).max(0.0);
                (expected, variance) = (expected + p, variance + p * (1.0 - p));
            }
            let off = (marked - expected) / variance.sqrt();
            assert!(off.abs() <= 3.0, "{name}, seed {seed}: {marked} marks for {expected}, {off} sigma");
        }
    }
}
