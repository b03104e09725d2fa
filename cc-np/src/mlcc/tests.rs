use super::*;
use cc_core::{Hop, Instant, IntLayout, IntStackBuilder, Psn};
use std::collections::VecDeque;
use std::string::ToString;
use std::vec::Vec;

/// The paper's links of 100 Gb/s. Its servers have 25 Gb/s; here one server receives the 100 Gb/s of a link.
const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_000), base_rtt: Nanos::new(24_000) };
/// RTT_C / RTT_D of the paper's evaluation.
const ROUNDS: usize = 250;

struct Bench<const BUCKETS: usize> {
    link: Link,
    params: Params,
    flow: Mlcc<BUCKETS>,
    now: u64,
    rows: [bool; 6],
}

impl<const BUCKETS: usize> Bench<BUCKETS> {
    fn new(settings: MlccSettings, link: Link) -> Self {
        let params = Mlcc::<BUCKETS>::check(&settings, &link).unwrap();
        let now = 1_000;
        let cx = Cx { now: Instant::from_nanos(now), link: &link, params: &params };
        Self { flow: Mlcc::open(&cx, &mut (), None), link, params, now, rows: [false; 6] }
    }

    fn data(&mut self, mlcc: Option<MlccData>, hops: &[Hop]) {
        let int = IntStackBuilder::new(IntLayout::Wide, 1).with(hops.iter().copied());
        let arrival = Arrival {
            local: Qpn::new(5),
            psn: Psn::new(1),
            bytes: Bytes::new(1_000),
            payload: Bytes::new(936),
            ecn: Ecn::Ect0,
            mark: Mark::None,
            first: false,
            last: false,
            sent: None,
            arrived: Stamp::from_bits(0),
            int: int.stack(),
            mlcc,
        };
        let cx = Cx { now: Instant::from_nanos(self.now), link: &self.link, params: &self.params };
        self.rows[self.flow.transition(&cx, &(), &Event::Arrival(arrival))] = true;
        self.flow.on(&cx, &mut (), &arrival);
    }

    /// A packet that ends a round, of a flow with this many bytes in its queue.
    fn round(&mut self, queue: u32) {
        self.now += 24_000;
        self.data(Some(MlccData { credit: self.flow.credit, queue: Bytes::new(queue) }), &[]);
    }

    /// A packet that ends no round.
    fn packet(&mut self) {
        self.data(Some(MlccData { credit: self.flow.credit.wrapping_sub(1), queue: Bytes::ZERO }), &[]);
    }
}

fn paper() -> Bench<16> {
    Bench::new(PAPER, LINK)
}

/// A flow with R_credit at half of the port's speed, so that dw can rise and fall.
fn at_half() -> Bench<16> {
    let mut bench = paper();
    bench.flow.releases = [Rate::from_gbps(50); LATEST];
    bench
}

/// By (6) to (8) the drift of dw per packet is 2 alpha R_raw / divisor - 1, within -1 and 1. The divisor is R_credit in the paper,
/// whatever R_DQM is.
#[test]
fn dw_drifts_in_proportion_to_the_difference_of_raw_rate_and_divisor() {
    let table = [
        (0, -10_000),
        (50, -5_000),
        (80, -2_000),
        (90, -1_000),
        (100, 0),
        (110, 1_000),
        (120, 2_000),
        (150, 5_000),
        (200, 10_000),
    ];
    let half = Rate::from_gbps(50);
    for (settings, advised) in
        [(PAPER, half), (PAPER, Rate::from_gbps(20)), (STABLE, half), (STABLE, Rate::from_gbps(25))]
    {
        let mut bench = at_half();
        bench.params = Mlcc16::check(&settings, &LINK).unwrap();
        let divisor = if settings == PAPER { half } else { advised };
        for (percent, drift) in table {
            // The D_pre for which (5) gives this R_raw, as a percentage of the divisor.
            let of_credit = f64::from(percent) * f64::from(divisor.to_bits()) / f64::from(half.to_bits());
            let delay = 1_000_000 + 18_000_000 - (180_000.0 * of_credit) as i64;
            bench.flow.gain = bench.params.gain(delay, half, advised);
            (bench.flow.dw, bench.flow.token) = (0, 0);
            for _ in 0..10_000 {
                bench.packet();
            }
            let dw = bench.flow.dw();
            assert!((dw - drift).abs() <= 2, "{settings:?}, {advised:?}, {percent} %: {dw}");
        }
    }
}

#[test]
fn a_packet_adds_at_most_one_token() {
    let rate = Rate::from_gbps;
    let paper = |delay| paper().params.gain(delay, rate(50), rate(1));
    assert_eq!(paper(-6_000_000), 11_650_844);
    assert_eq!(paper(-100_000_000), ONE, "from twice R_credit on");
    assert_eq!(paper(1_000_000), ONE / 2, "exactly, so that dw stays at R_raw = R_credit");
    assert_eq!(paper(19_000_000), 0);
    let stable =
        |settings, delay, release, advised| Mlcc16::check(&settings, &LINK).unwrap().gain(delay, release, advised);
    assert_eq!(stable(STABLE, 10_000_000, rate(50), rate(1)), ONE, "half of 50 R_DQM");
    assert_eq!(stable(STABLE, 19_000_000, rate(50), rate(1)), 0);
    // The largest product: R_raw is 201 R_credit, and R_credit / R_DQM is above 256.
    let widest = MlccSettings { theta: 1_000_000, target_delay: 100_000_000, ..STABLE };
    assert_eq!(stable(widest, -100_000_000, Rate::from_bits(u32::MAX), Rate::from_bits(1)), ONE);
}

#[test]
fn a_packet_of_dw_changes_the_rate_by_an_mtu_in_a_far_round_trip() {
    let bench = at_half();
    let credit = Rate::from_gbps(50);
    for dw in [-30_000, -1_000, 0, 1, 1_000, 30_000] {
        // 1 000 B in 6 ms are 4/3 Mb/s.
        let exact = 50_000.0 + f64::from(dw) * 4.0 / 3.0;
        let mbps = f64::from(bench.params.advised_rate(credit, dw).to_bits()) / f64::from(1 << 24) * 8e3;
        assert!((mbps - exact).abs() < 5.0, "{dw}: {mbps} Mb/s");
    }
}

#[test]
fn dw_stays_within_the_bounds_of_the_advised_rate() {
    let mut bench = at_half();
    for (gain, bound) in [(ONE, Rate::from_gbps(100)), (0, bench.params.least)] {
        bench.flow.gain = gain;
        for _ in 0..100_000 {
            bench.packet();
        }
        let advised_rate = bench.params.advised_rate(Rate::from_gbps(50), bench.flow.dw());
        assert!(advised_rate.to_bits().abs_diff(bound.to_bits()) < 8_000, "within a packet of the bound");
    }
    // When R_credit falls, dw is within the new bounds after one round.
    bench.flow.dw = -37_000;
    bench.flow.law = Law::ZEROED;
    bench.round(0);
    assert_eq!(bench.flow.release(), bench.params.least);
    assert!((-1..=0).contains(&bench.flow.dw()));
    assert_eq!(bench.flow.advised_rate(), bench.params.least);
}

/// (3) and (4), with one value in (2).
#[test]
fn the_predicted_delay_is_that_of_the_queue_after_a_far_round_trip() {
    let bench = |release: u32, advised: u32| {
        let mut bench = at_half();
        bench.flow.releases = [Rate::from_gbps(release); LATEST];
        bench.flow.history = History::EMPTY;
        bench.flow.history.push(bench.params.span, Rate::from_gbps(advised));
        bench
    };
    let delay = |release, advised, queue| {
        let bench = bench(release, advised);
        bench.flow.delay(&bench.params, Bytes::new(queue))
    };
    // Arrivals equal departures: the predicted delay is that of the queue.
    assert!((delay(10, 10, 1_250_000) - 1_000_000).abs() < 300);
    // A tenth more for 6 ms adds 0.6 ms.
    assert!((delay(10, 11, 1_250_000) - 1_600_000).abs() < 300);
    // Arrivals below departures: the queue empties within the round trip, and the delay is negative.
    assert!((delay(10, 5, 1_250_000) - -2_000_000).abs() < 300);
    assert_eq!(delay(10, 100, 1_000_000_000), 19_000_000, "theta and D_t");
    assert!(delay(100, 1, 0) > -6_000_000);
}

#[test]
fn the_mean_is_of_the_rates_sent_to_senders_and_not_of_the_raw_rate() {
    let mut bench: Bench<ROUNDS> = Bench::new(PAPER, LINK);
    let mut advised = std::vec![bench.flow.advised_rate()];
    for round in 0..600_u32 {
        let latest = &advised[advised.len().saturating_sub(ROUNDS)..];
        let mean = latest.iter().map(|rate| f64::from(rate.to_bits())).sum::<f64>() / latest.len() as f64;
        let found = f64::from(bench.flow.predicted().to_bits());
        assert!((found - mean).abs() < mean * 1e-5, "round {round}: {found}, expected {mean}");
        bench.round(round % 90 * 1_000_000);
        for _ in 0..round % 70 {
            bench.packet();
        }
        advised.push(bench.flow.advised_rate());
    }
    assert!(advised.iter().any(|rate| *rate < Rate::from_gbps(99)), "the rate moves");
}

#[test]
fn the_mean_of_sixteen_sums_misses_at_most_one_sum() {
    for (n, buckets, sums, each) in
        [(250, 16, 16, 16), (250, 250, 250, 1), (7, 16, 7, 1), (17, 16, 9, 2), (1, 16, 1, 1)]
    {
        assert_eq!(Span::new(n, buckets), Span { sums, each }, "{n} in {buckets}");
    }
    let (mut history, mut exact) = (History::<16>::EMPTY, History::<ROUNDS>::EMPTY);
    assert_eq!(history.mean(), Rate::from_bits(0));
    for value in 1..2_000_u32 {
        for (buckets, coarse) in [(16, true), (ROUNDS, false)] {
            let rate = Rate::from_bits(value * 1_000);
            if coarse { history.push(Span::new(250, buckets), rate) } else { exact.push(Span::new(250, buckets), rate) }
        }
        // The mean of the last `over` values of a ramp is that of the newest value, less half of `over - 1` steps.
        let behind = |over: u32| f64::from(value) * 1e3 - (f64::from(over.min(value)) - 1.0) * 500.0;
        let (coarse, exact) = (f64::from(history.mean().to_bits()), f64::from(exact.mean().to_bits()));
        assert!((exact - behind(250)).abs() <= exact * 1e-5 + 1.0);
        assert!((behind(256) * (1.0 - 1e-5) - 1.0..=behind(241) + 1.0).contains(&coarse), "{value}: {coarse}");
    }
}

/// The switch receives one acknowledgement in a hundred, one each 8 us.
#[test]
fn lost_acknowledgements_do_not_stop_the_loop() {
    let mut bench = paper();
    let (mut at_switch, mut rounds, mut credit) = (0, 0, bench.flow.credit);
    for packet in 0..100_000_u32 {
        bench.now += 80;
        bench.data(Some(MlccData { credit: at_switch, queue: Bytes::ZERO }), &[]);
        rounds += u32::from(bench.flow.credit != credit);
        credit = bench.flow.credit;
        // Of every hundred acknowledgements one arrives; in the first of ten milliseconds none does.
        if packet % 100 == 7 && packet % 125_000 > 12_500 {
            at_switch = credit;
        }
    }
    // 7 ms with a round each 8 us, and 1 ms with a round each eight local round trips.
    assert!((850..1_010).contains(&rounds), "{rounds}");
}

#[test]
fn a_credit_that_stays_different_is_taken_from_the_switch_and_is_never_zero() {
    let mut bench = paper();
    bench.flow.credit = 700;
    let packet = |bench: &mut Bench<16>, wait: u64, credit: u16| {
        bench.now += wait;
        bench.data(Some(MlccData { credit, queue: Bytes::ZERO }), &[]);
        bench.flow.credit
    };
    assert_eq!(packet(&mut bench, 192_000, 9_000), 700, "the credit of another flow, or an old one");
    assert_eq!(packet(&mut bench, 1, 9_000), 9_001, "C_D + 1 after eight local round trips");
    assert_eq!(packet(&mut bench, 10, 9_001), 9_002);
    assert_eq!(packet(&mut bench, 192_001, 0), 9_003, "a switch without a credit");
    assert_eq!(packet(&mut bench, 192_001, u16::MAX), 1, "zero means no credit, and is skipped");
    // A packet without the switch's shim is treated as one whose shim has credit 0.
    bench.now += 192_001;
    bench.data(None, &[]);
    assert_eq!(bench.flow.credit, 2);
    // A new flow of the same queue pair starts with another credit.
    let first = |now| first_credit(Stamp::from_bits(now));
    assert!(first(0) != 0 && first(5_000_000) != first(9_000_000));
}

/// R_credit follows HPCC's law: it falls when the link's utilisation is more than eta, and rises by W_AI when the link is idle.
#[test]
fn r_credit_changes_at_the_end_of_a_round_only() {
    let mut bench = paper();
    let (mut clock, mut sent) = (0_u32, 0_u32);
    let mut step = |bench: &mut Bench<16>, match_credit: bool, share: f64| {
        bench.now += 24_000;
        clock += 24_000;
        sent += (12.5 * 24_000.0 * share / 64.0) as u32;
        let credit = bench.flow.credit.wrapping_sub(u16::from(!match_credit));
        let hop = Hop { mbps: 100_000, flags: Hop::INTERCONNECT, clock, sent, queue: 0 };
        bench.data(Some(MlccData { credit, queue: Bytes::ZERO }), &[hop]);
        f64::from(bench.flow.release().to_bits()) / f64::from(1 << 24) * 8.0
    };
    assert_eq!(step(&mut bench, true, 0.0), 100.0, "the telemetry is stored");
    let cut = step(&mut bench, true, 1.0);
    assert!((cut - 95.05).abs() < 0.05, "{cut}");
    assert_eq!(step(&mut bench, false, 1.0), cut, "R_credit changes once a round");
    let raised = step(&mut bench, true, 0.1);
    assert!((raised - cut - 0.05).abs() < 0.01, "{raised}");
    bench.round(0);
    bench.now += 200_000;
    bench.packet();
    bench.flow.gain = ONE;
    bench.packet();
    bench.flow.gain = 0;
    bench.packet();
    bench.now += 1_000_000_001;
    bench.round(0);
    assert_eq!(bench.flow.release(), LINK.line_rate, "restarted at the port's speed");
    assert_eq!(bench.rows, [true; 6], "every transition is reached");
}

/// Without a credit a flow has no queue at a switch: it follows HPCC's law alone, with a round each RTT_D, or U RTT_D while bytes
/// wait.
#[test]
fn a_flow_without_a_queue_follows_the_law_of_its_path() {
    let mut bench: Bench<16> = Bench::new(STABLE, LINK);
    let (mut clock, mut sent) = (0_u32, 0_u32);
    // The time from one round to the next and R_DQM in Gb/s then, on a link with this share of its speed and bytes that wait.
    let mut round = |share: f64, queue: u32| {
        let (began, credit) = (bench.now, bench.flow.credit);
        while bench.flow.credit == credit {
            bench.now += 1_000;
            clock += 1_000;
            sent += (12_500.0 * share) as u32;
            let hop = Hop { mbps: 100_000, flags: 0, clock, sent: sent / 64, queue };
            bench.data(Some(MlccData::default()), &[hop]);
        }
        assert_eq!(bench.flow.advised_rate(), bench.flow.release());
        (bench.now - began, f64::from(bench.flow.advised_rate().to_bits()) / f64::from(1 << 24) * 8.0)
    };
    // U is eta at the beginning; the link is full, and half of 300 kB, which it carries in 24 us, wait: U goes to 1.5.
    let (first, _) = round(1.0, 150_000);
    assert!((24_000..=37_000).contains(&first), "{first} ns");
    let (second, cut) = round(1.0, 150_000);
    assert!((33_000..=38_000).contains(&second), "{second} ns");
    assert!(cut < 60.0, "{cut} Gb/s");
    let rates: Vec<_> = (0..6).map(|_| round(0.3, 0)).collect();
    let &(last, raised) = rates.last().unwrap();
    assert_eq!(last, 25_000, "the first packet after RTT_D");
    assert!(raised > cut, "{raised} Gb/s");
}

/// At the lowest rate a packet arrives each 80 us: too far apart for its telemetry to be compared with that of the last.
#[test]
fn r_credit_of_a_flow_too_slow_to_be_measured_rises() {
    let mut bench = paper();
    let (mut clock, mut sent) = (0, 0);
    let mut step = |bench: &mut Bench<16>, gap: u32, bytes: u32| {
        (clock, sent) = (clock + gap, sent + bytes);
        bench.now += u64::from(gap);
        let hop = Hop { mbps: 100_000, flags: 0, clock, sent: sent / 64, queue: 2_000_000 };
        bench.data(Some(MlccData { credit: bench.flow.credit, queue: Bytes::ZERO }), &[hop]);
        bench.flow.release()
    };
    for _ in 0..10 {
        step(&mut bench, 24_000, 300_000);
    }
    assert!(step(&mut bench, 24_000, 300_000) < Rate::from_mbps(200), "cut to the lowest rate");
    let slow = (0..10).map(|_| step(&mut bench, 80_000, 1_000)).last().unwrap();
    assert!(slow > Rate::from_mbps(500), "50 Mb/s in each round");
}

/// A flow with 40 MB in its queue at the interconnect switch; the receiver's datacentre carries 12.5 Gb/s of it: MLCC 4.3, Fig.
/// 9. Returns the length of the queue after each local round trip, and the number of round trips in which less than 90 % of the
/// 12.5 Gb/s left.
fn fluid<const BUCKETS: usize>(settings: MlccSettings) -> (Vec<f64>, u32) {
    let link = Link { line_rate: Rate::from_gbps(25), ..LINK };
    let mut bench = Bench::<BUCKETS>::new(settings, link);
    // A full link, until R_credit has fallen to the flow's share.
    let (line, credit, mut clock) = (3.125, 1.5625, 0);
    while f64::from(bench.flow.release().to_bits()) > credit * f64::from(1 << 24) {
        clock += 24_000;
        bench.now += 24_000;
        let hop = Hop { mbps: 25_000, flags: 0, clock, sent: clock / 64 * 25 / 8, queue: 0 };
        bench.data(Some(MlccData { credit: bench.flow.credit, queue: Bytes::ZERO }), &[hop]);
    }
    let law = bench.flow.law;
    bench = Bench {
        flow: Mlcc { law, releases: bench.flow.releases, ..Bench::<BUCKETS>::new(settings, link).flow },
        ..bench
    };
    // Data sent at an advised rate arrives one far round trip later.
    let mut advised: VecDeque<f64> = std::iter::repeat_n(line, ROUNDS).collect();
    let (mut queue, mut starved, mut series) = (40e6, 0, Vec::new());
    for round in 0..25_000 {
        let arriving = advised.pop_front().unwrap() * 24_000.0;
        let release = f64::from(bench.flow.release().to_bits()) / f64::from(1 << 24);
        let leaving = (release * 24_000.0).min(queue + arriving);
        queue += arriving - leaving;
        starved += u32::from(leaving < 0.9 * credit * 24_000.0 && round > 500);
        bench.now += 24_000;
        bench.data(Some(MlccData { credit: bench.flow.credit, queue: Bytes::new(queue as u32) }), &[]);
        for _ in 1..(leaving / 1_000.0).round() as u32 {
            bench.packet();
        }
        advised.push_back(f64::from(bench.flow.advised_rate().to_bits()) / f64::from(1 << 24));
        series.push(queue);
    }
    (series, starved)
}

#[test]
fn by_the_paper_a_long_queue_oscillates_around_the_target_delay() {
    for (series, starved) in [fluid::<ROUNDS>(PAPER), fluid::<16>(PAPER)] {
        assert!(series[1_250] < 25e6, "less than 25 MB of 40 after 30 ms");
        // 12.5 Gb/s for 1 ms are 1.56 MB; the paper has 1.5 MB.
        let tail = &series[10_000..];
        let mean = tail.iter().sum::<f64>() / tail.len() as f64;
        assert!((1.4e6..1.65e6).contains(&mean), "{mean}");
        assert!(tail.iter().all(|queue| *queue < 3.2e6));
        assert!(starved < 2_500, "60 ms of 600 in all: {starved}");
        // Without damping the swing is as large after 600 ms as after 240 ms.
        let swing = |part: &[f64]| part.iter().copied().fold(0.0, f64::max) - part.iter().copied().fold(1e9, f64::min);
        let (early, late) = (swing(&series[10_000..12_500]), swing(&series[22_500..]));
        assert!(late > 0.8 * early && late > 2e6, "{early}, {late}");
    }
}

/// The same queue with (7) divided by R_DQM settles: it stays within a tenth of the target from 200 ms on, and never starves the
/// receiver's link.
#[test]
fn with_the_advised_rate_as_divisor_a_long_queue_settles_at_the_target_delay() {
    for (series, starved) in [fluid::<ROUNDS>(STABLE), fluid::<16>(STABLE)] {
        assert!(series[1_250] < 25e6, "less than 25 MB of 40 after 30 ms");
        // R_credit D_t, with R_credit just below the flow's 12.5 Gb/s.
        let tail = &series[8_333..];
        let (least, most) = (tail.iter().copied().fold(1e9, f64::min), tail.iter().copied().fold(0.0, f64::max));
        assert!(least > 1.4e6 && most < 1.7e6, "{least} to {most}");
        assert_eq!(starved, 0);
    }
}

#[test]
fn conflicting_settings_are_named() {
    let message = |settings, link| match Mlcc16::check(&settings, &link) {
        Err(error) => error.to_string(),
        Ok(_) => std::string::String::new(),
    };
    let refused = |settings| message(settings, LINK);
    assert_eq!(refused(PAPER), "");
    assert_eq!(refused(MlccSettings { int_multi: 3, ..PAPER }), "int_multi: must be a power of two");
    assert_eq!(refused(MlccSettings { min_rate: 100_001, ..PAPER }), "min_rate: must be at most the speed of the port");
    let rounds = "far_rtt: must be from one local round-trip time to 65 535 of them";
    assert_eq!(refused(MlccSettings { local_rtt: 6_000_001, ..PAPER }), rounds);
    assert_eq!(refused(MlccSettings { local_rtt: 1_000, far_rtt: 65_536_000, ..PAPER }), rounds);
    assert!(refused(MlccSettings { local_rtt: 999, ..PAPER }).starts_with("local_rtt: must be from 1 us to 16 ms"));
    assert!(refused(MlccSettings { theta: 0, ..PAPER }).starts_with("theta"));
    let jumbo = Link { mtu: Bytes::new(10_001), ..LINK };
    let short = MlccSettings { local_rtt: 10_000, far_rtt: 10_000, ..PAPER };
    assert!(message(short, jumbo).starts_with("far_rtt: must be a nanosecond or more for each byte"));
}

/// RTT_C is set to a third of the real value, so that the prediction covers a third of the data in flight.
#[test]
fn with_a_far_round_trip_set_too_short_the_queue_oscillates_more_but_stays_bounded() {
    let (series, _) = fluid::<16>(MlccSettings { far_rtt: 2_000_000, ..PAPER });
    let most = series[10_000..].iter().copied().fold(0.0, f64::max);
    assert!(most < 6e6, "{most}");
}
