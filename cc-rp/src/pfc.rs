//! No congestion control at the sender: only the link's priority-based flow control.
//!
//! IEEE 802.1Qbb; the baseline that papers call "PFC". A flow sends at line rate, except while its priority is paused. The
//! engine applies pauses for every algorithm: its decisions carry the remaining pause as a hold. So a flow has no state, and no
//! event changes anything.
//!
//! Late wakes change no decision.

use crate::{Cx, Decision, Event, EventSet, Limits, ReactionPoint, Signals};
use cc_core::params::{Field, ParamError, Preset, Settings};
use cc_core::{Bytes, Link, Nanos, State};

/// No settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PfcSettings;

impl Settings for PfcSettings {
    const FIELDS: &'static [Field] = &[];
    const RANGES: &'static [[u32; 2]] = &[];

    fn get(&self, _index: usize) -> u32 {
        0
    }

    fn put(&mut self, _index: usize, _value: u32) {}
}

/// One flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pfc;

/// A flow has no state.
impl State for Pfc {
    type Snapshot = ();

    fn snapshot(&self) {}

    fn from_snapshot((): ()) -> Self {
        Self
    }
}

impl ReactionPoint for Pfc {
    type Settings = PfcSettings;
    type Params = ();

    const NAME: &'static str = "pfc";
    const PRESETS: &'static [Preset<PfcSettings>] =
        &[Preset { name: "standard", source: "IEEE 802.1Qbb: it sets nothing at the sender", values: PfcSettings }];
    /// Wakes only: with them the engine sets and ends the hold of a paused flow.
    const EVENTS: EventSet = EventSet::WAKE;
    const SIGNALS: Signals = Signals::NONE;
    const RECEIVER: Option<&'static str> = None;
    const TRANSITIONS: &'static [&'static str] = &["always, wake: nothing"];

    fn check(_settings: &PfcSettings, _link: &Link) -> Result<(), ParamError> {
        Ok(())
    }

    fn transition(&self, _cx: &Cx<'_, ()>, _event: &Event<'_>) -> usize {
        0
    }

    fn limits(_params: &(), link: &Link) -> Limits {
        Limits { rate: link.line_rate, window: Bytes::MAX, hold: Nanos::ZERO }
    }

    fn open(_cx: &Cx<'_, ()>) -> Self {
        Self
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, ()>, _event: &Event<'_>) -> Decision {
        Decision { rate: cx.link.line_rate, window: Bytes::MAX, hold: Nanos::ZERO, wake_in: Nanos::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RateLimiter, RpEngine};
    use cc_core::{CnpBodyKind, Instant, Psn, Qpn, Rate};

    const LINK: Link = Link { line_rate: Rate::from_gbps(400), mtu: Bytes::new(4_096), base_rtt: Nanos::new(8_000) };

    /// The last decision that the rate limiter received.
    #[derive(Default)]
    struct LastCall(Option<(Rate, Bytes, Nanos)>);

    impl RateLimiter for LastCall {
        fn set(&mut self, _index: u16, rate: Rate, window: Bytes, hold: Nanos) {
            self.0 = Some((rate, window, hold));
        }
    }

    #[test]
    fn a_flow_sends_at_line_rate_except_while_its_priority_is_paused() {
        let at = Instant::from_nanos;
        let mut limiter = LastCall::default();
        let mut engine = RpEngine::<Pfc, 4, 8>::new(at(0), LINK, ());
        let flow = engine.open(at(0), 3, &mut limiter).unwrap();
        engine.bind(flow, Qpn::new(7)).unwrap();
        assert_eq!(limiter.0.take(), Some((LINK.line_rate, Bytes::MAX, Nanos::ZERO)));
        // This algorithm takes no events of data and notifications.
        assert_eq!(engine.sent(at(10), flow, Psn::new(1), Bytes::new(4_096), &mut limiter), None);
        assert_eq!(engine.step(at(20), flow, &Event::Cnp { body_kind: CnpBodyKind::Standard }, &mut limiter), None);
        assert!(limiter.0.take().is_none_or(|(rate, ..)| rate == LINK.line_rate));
        for (priority, hold) in [(2, 0), (3, 5_000)] {
            engine.pause(at(1_000), priority, Nanos::new(5_000));
            engine.step(at(1_000), flow, &Event::Wake, &mut limiter);
            assert_eq!(limiter.0.take(), Some((LINK.line_rate, Bytes::MAX, Nanos::new(hold))));
        }
    }

    #[test]
    fn every_event_changes_nothing() {
        let now = Instant::from_nanos(9);
        let cx = Cx { now, link: &LINK, params: &(), pause: Nanos::new(80), clock_without_pauses: now.stamp() };
        let mut flow = Pfc::open(&cx);
        for event in [Event::Wake, Event::Nack { psn: Psn::new(1) }, Event::Cnp { body_kind: CnpBodyKind::Standard }] {
            assert_eq!(Pfc::TRANSITIONS.get(flow.transition(&cx, &event)), Some(&"always, wake: nothing"));
            let decision = flow.on(&cx, &event);
            assert_eq!((decision.rate, decision.wake_in), (LINK.line_rate, Nanos::MAX));
        }
        assert_eq!(size_of::<Pfc>(), 0);
        assert_eq!(PfcSettings::index_of("rate"), None);
    }
}
