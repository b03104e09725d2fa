//! Ternary congestion detection (TCD): distinguishes a queue that is congested from one that has grown only because its port
//! was paused.
//!
//! Y. Zhang et al., "Congestion Detection in Lossless Networks", SIGCOMM 2021, whose text was not available. The rules are
//! those of its authors' public simulator (DCQCN-TCD, qbb-net-device.cc), written as a state machine. q is the length of the
//! queue when a packet leaves it:
//!
//! ```text
//! on-off        for maxTon after a RESUME: the state cannot be determined, packets are marked UE (undetermined)
//! undetermined  after that: if q is less than at the RESUME, an observation begins; otherwise RED decides
//! observing     for maxTon: no marks; free if q is at most two packets. After maxTon: if q has grown by less than a packet,
//!               free if q is at most two packets, otherwise a new observation; if q has grown by more, RED decides
//! free          RED decides; the state is congested while RED marks
//! ```
//!
//! So the packets of a queue that shrinks, which pauses have left behind, are not marked; only a queue that does not shrink is
//! congested. UE is ECT(1), within one domain only, because RFC 9331 gives that codepoint another meaning.
//!
//! Deviations: a queue that has not shrunk after maxTon becomes congested with the first packet that RED marks, and until then
//! stays undetermined, or observed, so that it is observed once it shrinks; the simulator calls it congested (its state 3) at
//! once, whether RED marks or not, and leaves that state with the next packet that RED does not mark. No queue is on-off before
//! its first RESUME, where the simulator begins as if after a RESUME; and a RESUME after
//! which no packet leaves within maxTon is treated like any other, which saves a flag and a stamp.
//!
//! maxTon is the longest on-period of a port that is paused on and off. It is a setting, or is computed from the thresholds of
//! the node downstream and the smallest overload eps:
//!
//! ```text
//! tau    = link delay + 2 MTU / C
//! maxTon = (Xoff - Xon + tau (1 - eps) C) / (eps C) + tau
//! ```
//!
//! If the state is lost, RED alone decides until the next RESUME, as without TCD.

use crate::red::{self, Red, RedSettings, RedSnapshot};
use crate::{Cx, Emit, Event, Kind, Kinds, QueueStage, Verdict};
use cc_core::math::div_bitwise;
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::snapshot::Words;
use cc_core::{Bytes, Ecn, Link, Mark, Nanos, Stamp, State, Zeroed};

cc_core::settings! {
    /// Settings of TCD.
    pub struct TcdSettings {
        /// RED's Kmin: no packet is marked up to this length of the queue.
        kmin: Bytes, 0..=0xffff_ffff, ["KMIN"];
        /// RED's Kmax: every packet is marked above this length of the queue.
        kmax: Bytes, 0..=0xffff_ffff, ["KMAX"];
        /// RED's Pmax: the probability of a mark at `kmax`.
        pmax: Ppm, 0..=1_000_000, ["PMAX"];
        /// maxTon, the longest on-period; 0: it is computed from the next three settings.
        max_ton: Nanos, 0..=100_000_000, [];
        /// Xoff - Xon of the node downstream.
        hysteresis: Bytes, 0..=100_000_000, [];
        /// Propagation delay of the link.
        link_delay: Nanos, 0..=10_000_000, [];
        /// eps: the smallest overload that counts as congestion.
        overload: Ppm, 1_000..=1_000_000, [];
    }
}

cc_core::zeroed! {
    /// Checked parameters.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        red: red::Params,
        max_ton: Nanos,
        /// Two packets, the length up to which an observed queue becomes free.
        short: Bytes,
    }
}

/// A queue has grown if it is at least this much longer: 900 bytes, one packet of the simulator.
const GROWN: u32 = 900;

/// State of a queue in the detection, see the state machine above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Phase {
    /// Not congested: RED decides about each packet, and the last one was not marked.
    Free,
    /// Resumed at `Tcd::at`, at most maxTon ago.
    OnOff,
    /// Resumed more than maxTon ago, with `Tcd::queue` bytes.
    Undetermined,
    /// Shrinking: observed since `Tcd::at`, when it had `Tcd::queue` bytes.
    Observing,
    /// Observed for at least maxTon, since when it had `Tcd::queue` bytes.
    Observed,
    /// Congested: RED decides about each packet, and marked the last one.
    Congested,
}

/// The state of one egress queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Tcd {
    red: Red,
    /// When the queue was resumed, or its observation began.
    at: Stamp,
    /// Bytes in the queue at that time.
    queue: Bytes,
    phase: Phase,
    /// The queue is paused by the neighbour.
    paused: bool,
}

impl Zeroed for Tcd {
    const ZEROED: Self =
        Self { red: Red::ZEROED, at: Stamp::ZEROED, queue: Bytes::ZERO, phase: Phase::Free, paused: false };
}

impl Tcd {
    /// The state of the queue as of its last event.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// The transitions by time alone. After them `at` is not read, so that it has no effect when its 32 bits wrap.
    #[inline]
    fn pass_time(&mut self, p: &Params, now: Stamp) {
        match self.phase {
            Phase::OnOff if now.since(self.at) > p.max_ton => self.phase = Phase::Undetermined,
            Phase::Observing if now.since(self.at) >= p.max_ton => self.phase = Phase::Observed,
            _ => {}
        }
    }

    #[inline]
    fn departure(&mut self, p: &Params, now: Stamp, queued: Bytes, ecn: Ecn) -> Verdict {
        match self.phase {
            Phase::OnOff => return Verdict { mark: Mark::Undetermined, ..Verdict::PASS },
            Phase::Undetermined if queued < self.queue => self.observe(now, queued),
            Phase::Observed if queued < self.queue.saturating_add(Bytes::new(GROWN)) => {
                self.observe(now, queued);
                if queued <= p.short {
                    self.phase = Phase::Free;
                }
            }
            Phase::Observing if queued <= p.short => self.phase = Phase::Free,
            Phase::Observing => {}
            Phase::Undetermined | Phase::Observed => {
                // More than maxTon after the RESUME, and the queue is not shorter than then; or observed for maxTon, and it has
                // grown by a packet. What queues is no residue of a pause: it is congested if RED marks.
                let verdict = self.red.mark(&p.red, queued, ecn);
                if verdict.mark == Mark::Congested {
                    self.phase = Phase::Congested;
                }
                return verdict;
            }
            Phase::Free | Phase::Congested => {
                let verdict = self.red.mark(&p.red, queued, ecn);
                self.phase = if verdict.mark == Mark::Congested { Phase::Congested } else { Phase::Free };
                return verdict;
            }
        }
        Verdict::PASS
    }

    #[inline]
    fn observe(&mut self, now: Stamp, queued: Bytes) {
        (self.phase, self.at, self.queue) = (Phase::Observing, now, queued);
    }
}

cc_core::snapshot! {
    /// A queue of TCD.
    pub struct TcdSnapshot {
        /// The state of RED.
        pub red: RedSnapshot,
        /// When the queue was resumed, or its observation began.
        pub at: Stamp,
        /// Bytes in the queue at that time.
        pub queue: Bytes,
        /// The phase.
        pub phase: Phase,
        /// The queue is paused by the neighbour.
        pub is_paused: bool,
    }
}

impl State for Tcd {
    type Snapshot = TcdSnapshot;

    fn snapshot(&self) -> TcdSnapshot {
        TcdSnapshot {
            red: self.red.snapshot(),
            at: self.at,
            queue: self.queue,
            phase: self.phase,
            is_paused: self.paused,
        }
    }

    fn from_snapshot(s: TcdSnapshot) -> Self {
        Self { red: Red::from_snapshot(s.red), at: s.at, queue: s.queue, phase: s.phase, paused: s.is_paused }
    }
}

/// Three bits, of which 6 and 7 are read as congested.
impl Words for Phase {
    const COUNT: usize = 1;

    fn write(&self, write: &mut dyn FnMut(u32)) {
        write(*self as u32);
    }

    fn read(read: &mut dyn FnMut() -> u32) -> Self {
        match read() & 7 {
            0 => Self::Free,
            1 => Self::OnOff,
            2 => Self::Undetermined,
            3 => Self::Observing,
            4 => Self::Observed,
            _ => Self::Congested,
        }
    }
}

impl QueueStage for Tcd {
    type Params = Params;
    type Settings = TcdSettings;

    const NAME: &'static str = "tcd";
    const PRESETS: &'static [Preset<TcdSettings>] = &[
        Preset {
            name: "burst",
            source: "public DCQCN-TCD code, config/configburst.txt: 40 Gb/s, links of 4 us, maxTon 97 us",
            values: TcdSettings {
                kmin: 5_000,
                kmax: 200_000,
                pmax: 10_000,
                max_ton: 97_000,
                hysteresis: 2_060,
                link_delay: 4_000,
                overload: 50_000,
            },
        },
        Preset {
            name: "formula",
            source: "the same, with maxTon computed for the port's speed",
            values: TcdSettings {
                kmin: 5_000,
                kmax: 200_000,
                pmax: 10_000,
                max_ton: 0,
                hysteresis: 2_060,
                link_delay: 4_000,
                overload: 50_000,
            },
        },
    ];

    const TAKES: Kinds = Kinds::of(&[Kind::Departure, Kind::Pause]);

    fn check(settings: &TcdSettings, link: &Link) -> Result<Params, ParamError> {
        settings.in_range()?;
        let TcdSettings { kmin, kmax, pmax, .. } = *settings;
        let red = Red::check(&RedSettings { kmin, kmax, pmax, reference_rate: 0 }, link)?;
        let max_ton = if settings.max_ton == 0 { formula(settings, link)? } else { Nanos::new(settings.max_ton) };
        Ok(Params { red, max_ton, short: link.mtu.saturating_add(link.mtu) })
    }

    fn begin(&mut self, cx: &Cx<'_, Params>, seed: u64) {
        self.red.begin(&Cx { now: cx.now, at: cx.at, params: &cx.params.red }, seed);
        self.at = cx.now.stamp();
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>, _out: &mut impl Emit) -> Verdict {
        let now = cx.now.stamp();
        self.pass_time(cx.params, now);
        match *event {
            Event::Departure { queued, ecn, .. } => return self.departure(cx.params, now, queued, ecn),
            // A RESUME of a queue that is not paused is ignored.
            Event::Pause { time, queued } => {
                let resumed = core::mem::replace(&mut self.paused, time > Nanos::ZERO) && time == Nanos::ZERO;
                if resumed {
                    (self.phase, self.at, self.queue) = (Phase::OnOff, now, queued);
                }
            }
            _ => {}
        }
        Verdict::PASS
    }

    #[inline]
    fn wake(&mut self, cx: &Cx<'_, Params>, _out: &mut impl Emit) {
        self.pass_time(cx.params, cx.now.stamp());
    }
}

/// maxTon from thresholds and delay.
fn formula(settings: &TcdSettings, link: &Link) -> Result<Nanos, ParamError> {
    // The time of `bytes` at the port's rate, in nanoseconds. A rate of zero is replaced by the smallest rate, so that the
    // result is out of range.
    let time = |bytes: u32| div_bitwise(u64::from(bytes) << 24, link.line_rate.to_bits().max(1));
    let tau = u64::from(settings.link_delay).saturating_add(time(link.mtu.get()).saturating_mul(2));
    let rest = tau.saturating_mul(u64::from(1_000_000_u32.wrapping_sub(settings.overload)));
    let on = div_bitwise(time(settings.hysteresis).saturating_mul(1_000_000).saturating_add(rest), settings.overload);
    match u32::try_from(on.saturating_add(tau)) {
        Ok(max_ton @ 0..=500_000_000) => Ok(Nanos::new(max_ton)),
        _ => Err(ParamError::Conflict { field: "max_ton", expected: "must be set where the formula exceeds 0.5 s" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Recorder;
    use crate::{Packet, Queue};
    use cc_core::{Instant, Rate};
    use proptest::prelude::*;
    use std::vec::Vec;

    const LINK: Link = Link { line_rate: Rate::from_gbps(40), mtu: Bytes::new(1_030), base_rtt: Nanos::new(20_000) };
    const STEP: TcdSettings = TcdSettings { kmin: 50_000, kmax: 50_000, ..Tcd::PRESETS[0].values };
    const TON: u64 = 97_000;

    struct Bench {
        params: Params,
        queue: Tcd,
    }

    impl Bench {
        fn new(settings: &TcdSettings) -> Self {
            let params = Tcd::check(settings, &LINK).unwrap();
            let mut queue = Tcd::ZEROED;
            queue.begin(&Cx { now: Instant::from_nanos(0), at: Queue::of(0), params: &params }, 1);
            Self { params, queue }
        }

        fn on(&mut self, now: u64, event: Event<'_>) -> Mark {
            let cx = Cx { now: Instant::from_nanos(now), at: Queue::of(0), params: &self.params };
            self.queue.on(&cx, &event, &mut Recorder::default()).mark
        }

        fn wake(&mut self, now: u64) {
            let cx = Cx { now: Instant::from_nanos(now), at: Queue::of(0), params: &self.params };
            self.queue.wake(&cx, &mut Recorder::default());
        }

        fn leaves(&mut self, now: u64, queued: u32) -> (Mark, Phase) {
            let mark = self.on(now, leaving(queued));
            (mark, self.queue.phase())
        }

        fn resumed(&mut self, now: u64, queued: u32) {
            assert_eq!(self.on(now, pause(1_000, queued)), Mark::None);
            assert_eq!(self.on(now, pause(0, queued)), Mark::None);
        }
    }

    fn leaving(queued: u32) -> Event<'static> {
        let queued = Bytes::new(queued);
        Event::Departure { packet: Packet::of(Bytes::new(1_030)), ecn: Ecn::Ect0, queued, port_queued: queued }
    }

    fn pause(time: u32, queued: u32) -> Event<'static> {
        Event::Pause { time: Nanos::new(time), queued: Bytes::new(queued) }
    }

    #[test]
    fn before_the_first_resume_red_decides() {
        let mut bench = Bench::new(&STEP);
        assert_eq!(bench.leaves(10, 50_000), (Mark::None, Phase::Free));
        assert_eq!(bench.leaves(20, 50_001), (Mark::Congested, Phase::Congested));
        assert_eq!(bench.leaves(30, 40_000), (Mark::None, Phase::Free));
    }

    #[test]
    fn for_max_ton_after_a_resume_packets_are_undetermined() {
        let mut bench = Bench::new(&STEP);
        bench.resumed(1_000, 90_000);
        assert_eq!(bench.leaves(1_000, 90_000), (Mark::Undetermined, Phase::OnOff));
        assert_eq!(bench.leaves(1_000 + TON, 1_000), (Mark::Undetermined, Phase::OnOff));
        assert_eq!(bench.leaves(1_001 + TON, 90_000), (Mark::Congested, Phase::Congested), "it did not shrink");
        // A renewed pause is no resume.
        assert_eq!(bench.on(200_000, pause(1_000, 90_000)), Mark::None);
        assert_eq!(bench.leaves(200_001, 90_000), (Mark::Congested, Phase::Congested));
    }

    /// Below Kmin nothing is congested, however long the RESUME is over: the queue stays undetermined until it grows or shrinks.
    #[test]
    fn a_queue_that_does_not_shrink_is_congested_only_when_red_marks() {
        let mut bench = Bench::new(&STEP);
        bench.resumed(1_000, 30_000);
        assert_eq!(bench.leaves(1_001 + TON, 30_000), (Mark::None, Phase::Undetermined));
        assert_eq!(bench.leaves(1_002 + TON, 50_000), (Mark::None, Phase::Undetermined));
        assert_eq!(bench.leaves(1_003 + TON, 29_999), (Mark::None, Phase::Observing), "it shrinks after all");
        let mut bench = Bench::new(&STEP);
        bench.resumed(1_000, 30_000);
        assert_eq!(bench.leaves(1_001 + TON, 30_000), (Mark::None, Phase::Undetermined));
        assert_eq!(bench.leaves(1_002 + TON, 50_001), (Mark::Congested, Phase::Congested));
    }

    #[test]
    fn a_queue_that_shrinks_is_observed_until_it_is_short() {
        let mut bench = Bench::new(&STEP);
        bench.resumed(0, 90_000);
        bench.leaves(0, 90_000);
        assert_eq!(bench.leaves(TON + 1, 89_999), (Mark::None, Phase::Observing));
        assert_eq!(
            bench.leaves(TON + 2, 95_000),
            (Mark::None, Phase::Observing),
            "whatever its length is within maxTon"
        );
        // It has grown by less than a packet since then: it is observed again.
        assert_eq!(bench.leaves(2 * TON + 1, 89_999 + 899), (Mark::None, Phase::Observing));
        assert_eq!(bench.leaves(2 * TON + 2, 2_060), (Mark::None, Phase::Free));
        assert_eq!(bench.leaves(2 * TON + 3, 60_000), (Mark::Congested, Phase::Congested));
    }

    #[test]
    fn an_observed_queue_that_grew_is_congested_and_one_that_became_short_is_free() {
        for (queued, expected) in [(60_000 + 900, Phase::Congested), (2_060, Phase::Free), (60_000, Phase::Observing)] {
            let mut bench = Bench::new(&STEP);
            bench.resumed(0, 90_000);
            bench.leaves(0, 90_000);
            bench.leaves(TON + 1, 60_000);
            let (mark, phase) = bench.leaves(2 * TON + 1, queued);
            assert_eq!((mark == Mark::Congested, phase), (expected == Phase::Congested, expected));
        }
    }

    #[test]
    fn upstream_marks_stay_and_packets_without_ect_are_not_marked() {
        let verdict = Verdict { mark: Mark::Undetermined, ..Verdict::PASS };
        assert_eq!(
            [Ecn::Ce, Ecn::Ect1, Ecn::Ect0, Ecn::NotEct].map(|ecn| verdict.apply(ecn)),
            [Ecn::Ce, Ecn::Ect1, Ecn::Ect1, Ecn::NotEct]
        );
    }

    #[test]
    fn the_formula_gives_the_experiments_max_ton() {
        // (2 060 + 4 412 * 0.95 * 5) / 0.25 + 4 412 = 96.5 us; the experiment has 97 us.
        assert_eq!(formula(&Tcd::PRESETS[1].values, &LINK).unwrap(), Nanos::new(96_480));
    }

    proptest! {
        #[test]
        fn wakes_change_no_verdict(
            steps in prop::collection::vec((0..200_000_u64, 0..8_u8, 0..120_000_u32), 1..200),
            gaps in prop::collection::vec(1..600_000_000_u64, 0..6),
        ) {
            let (mut woken, mut left) = (Bench::new(&Tcd::PRESETS[0].values), Bench::new(&Tcd::PRESETS[0].values));
            let mut now = 0;
            let mut long: Vec<u64> = gaps;
            for (gap, kind, queued) in steps {
                let gap = if kind == 7 { long.pop().unwrap_or(gap) } else { gap };
                for part in 1..4 {
                    woken.wake(now + gap * part / 4);
                }
                now += gap;
                let event = match kind {
                    0 => pause(0, queued),
                    1 => pause(1_000, queued),
                    _ => leaving(queued),
                };
                prop_assert_eq!(woken.on(now, event), left.on(now, event));
            }
        }
    }
}
