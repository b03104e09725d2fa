//! RCC's sender compared, in double precision, with the windows that its receiver assigns.

#[allow(unreachable_pub, reason = "a module that several tests share")]
mod tolerance;

use cc_core::{Bytes, Grant, Instant, Link, Nanos, Psn, Rate};
use cc_rp::rcc::{PAPER, Rcc};
use cc_rp::{Ack, Cx, Event, ReactionPoint};
use tolerance::{SplitMix, Tolerance};

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(12_000) };

/// Section III-B: the window of the newest acknowledgement, paced over a round trip. Before the first acknowledgement, the line
/// rate and what it carries in a round trip.
mod oracle {
    /// Packet numbers do not wrap.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct Flow {
        pub(super) sent: Option<u64>,
        pub(super) newest: Option<u64>,
        pub(super) assigned: Option<f64>,
    }

    impl Flow {
        pub(super) fn acknowledged(&mut self, packet: u64, window: f64) {
            if self.sent.is_some_and(|sent| packet <= sent) && self.newest.is_none_or(|newest| packet >= newest) {
                *self = Self { newest: Some(packet), assigned: Some(window), ..*self };
            }
        }

        /// Window and rate: no less than a packet and 10 Mb/s, no more than the line carries.
        pub(super) fn allowed(&self) -> Vec<f64> {
            let window = self.assigned.unwrap_or(150_000.0).min(150_000.0);
            vec![window.max(1_064.0), (window / 12_000.0).clamp(0.00125, 12.5)]
        }
    }
}

#[test]
fn the_window_is_that_of_the_newest_acknowledgement() {
    let params = Rcc::check(&PAPER, &LINK).unwrap();
    let (mut random, mut tolerance) = (SplitMix::new(8), Tolerance::default());
    let cx = Cx {
        now: Instant::from_nanos(0),
        link: &LINK,
        params: &params,
        pause: Nanos::ZERO,
        clock_without_pauses: Instant::from_nanos(0).stamp(),
    };
    for flow in 0..4 {
        let (mut machine, mut oracle) = (Rcc::open(&cx), oracle::Flow::default());
        // Sequence numbers wrap within the run, except those of the first flow.
        let mut next = flow * 0xff_f000_u64;
        for _ in 0..50_000 {
            let psn = |number: u64| Psn::new((number & 0xff_ffff) as u32);
            let event = match random.within(0..=9) {
                0..=3 => {
                    oracle.sent = Some(next);
                    next += 1;
                    Event::Sent { psn: psn(next - 1), bytes: LINK.mtu }
                }
                4 => Event::Wake,
                5 if random.within(0..=9) == 0 && oracle.sent.is_some() => {
                    next -= u64::from(random.within(0..=2)).min(next - oracle.newest.map_or(next, |newest| newest + 1));
                    oracle.sent = next.checked_sub(1);
                    Event::Nack { psn: psn(next) }
                }
                _ => {
                    let packet = match random.within(0..=9) {
                        0 => oracle.newest.unwrap_or(next).saturating_sub(random.within(1..=70_000).into()),
                        1 => next + u64::from(random.within(0..=70_000)),
                        2..=4 => next.saturating_sub(1),
                        _ => oracle.newest.map_or(next, |newest| newest + 1),
                    };
                    let window = match random.within(0..=3) {
                        0 => random.within(0..=2_000),
                        1 => random.draw() as u32,
                        _ => random.within(0..=150_000),
                    };
                    let has_window = random.within(0..=9) != 0;
                    if has_window {
                        oracle.acknowledged(packet, window.into());
                    }
                    let grant = Grant::Rcc { window: Bytes::new(window), flows: 1, utilisation: 0 };
                    let grant = if has_window { grant } else { Grant::None };
                    Event::Ack(Ack { psn: psn(packet), grant, ..Ack::default() })
                }
            };
            let decision = machine.on(&cx, &event);
            let rate = f64::from(decision.rate.to_bits()) / f64::from(1 << 24);
            let outcome = [("W", f64::from(decision.window.get()), 0.25), ("rate", rate, 0.25 / 12_000.0)];
            tolerance.assert(&event, &outcome, &[oracle.allowed()]);
            assert!(decision.rate <= LINK.line_rate && decision.window >= LINK.mtu);
        }
    }
    tolerance.finish(200_000);
}
