//! Plain PFC compared with the standard's pause timers: a flow sends at line rate, and not at all while the timer of its
//! priority runs.

#[allow(unreachable_pub, reason = "a module that several tests share")]
mod tolerance;

use cc_core::{Bytes, Instant, Link, Nanos, Psn, Rate};
use cc_rp::pfc::Pfc;
use cc_rp::{Event, RateLimiter, RpEngine};
use tolerance::{SplitMix, Tolerance};

const LINK: Link = Link { line_rate: Rate::from_gbps(400), mtu: Bytes::new(4_096), base_rtt: Nanos::new(8_000) };

/// IEEE 802.1Qbb, clause 36: a timer for each priority. Every frame that names a priority sets its timer; zero ends
/// the pause. Times in nanoseconds.
mod oracle {
    #[derive(Default)]
    pub(super) struct Timers([f64; 8]);

    impl Timers {
        pub(super) fn pause(&mut self, now: f64, priority: usize, time: f64) {
            self.0[priority] = now + time;
        }

        pub(super) fn left(&self, now: f64, priority: usize) -> f64 {
            (self.0[priority] - now).max(0.0)
        }
    }
}

/// The last decision that the rate limiter got for each flow.
#[derive(Default)]
struct LastCalls([(Rate, Nanos); 8]);

impl RateLimiter for LastCalls {
    fn set(&mut self, index: u16, rate: Rate, _window: Bytes, hold: Nanos) {
        self.0[usize::from(index)] = (rate, hold);
    }
}

#[test]
fn every_step_agrees_with_the_standard() {
    let mut tolerance = Tolerance::default();
    let mut random = SplitMix::new(1);
    let mut now = 1_u64 << 40;
    let at = Instant::from_nanos;
    let mut limiter = LastCalls::default();
    let mut engine = RpEngine::<Pfc, 8, 16>::new(at(now), LINK, ());
    let flows: [_; 8] = std::array::from_fn(|priority| engine.open(at(now), priority as u8, &mut limiter).unwrap());
    let mut timers = oracle::Timers::default();
    for nth in 0..100_000_u32 {
        now += u64::from(random.within(0..=1 << 14));
        let (priority, flow) = (random.within(0..=7), random.within(0..=7) as usize);
        if random.within(0..=2) == 0 {
            // A quantum is 512 bits: at 400 Gb/s, 1.28 ns.
            let time = if random.within(0..=2) == 0 { 0 } else { random.within(0..=65_535) * 128 / 100 };
            engine.pause(at(now), priority as u8, Nanos::new(time));
            timers.pause(now as f64, priority as usize, time.into());
        }
        // Data cause no decision; a wake shows the present one.
        engine.sent(at(now), flows[flow], Psn::new(nth), Bytes::new(4_096), &mut limiter);
        let decision = engine.step(at(now), flows[flow], &Event::Wake, &mut limiter).unwrap().decision;
        assert_eq!(limiter.0[usize::from(flows[flow].index())], (decision.rate, decision.hold));
        let gbps = f64::from(decision.rate.to_bits()) / f64::from(1 << 21);
        let outcome = [("rate", gbps, 0.0), ("hold", decision.hold.get().into(), 1.0)];
        tolerance.assert(&(nth, now, flow), &outcome, &[vec![400.0, timers.left(now as f64, flow)]]);
    }
    tolerance.finish(100_000);
}
