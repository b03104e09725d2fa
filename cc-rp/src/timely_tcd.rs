//! TIMELY with ternary congestion detection at the sender.
//!
//! A reconstruction: Yiran Zhang et al., "Congestion Detection in Lossless Networks" (TCD), SIGCOMM 2021, combines its
//! marks with TIMELY, but neither the text nor the code of that combination was available. It follows from what the marks
//! mean. The control law is [`Timely`]'s; the marks decide which samples it may act on:
//!
//! - CE: a queue has grown by congestion. TIMELY's law applies in full.
//! - UE, and no CE: a pause held the packet up, so its round-trip time does not show whether this flow sends too much. The rate
//!   stays, and the next gradient is computed from this sample, so that the time that PFC added is not taken for a fall of the
//!   delay later.
//! - Unmarked: TIMELY's law, but it may only raise the rate.
//!
//! Choices:
//! - the strongest mark of all acknowledgements of a segment counts for its sample; the mark of an acknowledgement of nothing
//!   new counts as well;
//! - a sample taken while PFC pauses the flow's own priority counts as UE unless it is CE;
//! - until the first mark of a flow it is unknown whether its receiver echoes marks: an unmarked sample above T_high then
//!   cuts too.
//!
//! Settings and presets are TIMELY's. Late wakes change no decision, as in TIMELY.

#[cfg(test)]
mod tests;

use crate::timely::{PRESETS, Params, Timely, TimelySettings, TimelySnapshot};
use crate::{Ack, Cx, Decision, Event, EventSet, Limits, ReactionPoint, Signals};
use cc_core::params::{ParamError, Preset};
use cc_core::{Link, Mark, Nanos, State};

/// One flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TimelyTcd {
    timely: Timely,
    /// The strongest mark since the last sample.
    mark: Mark,
    /// The receiver echoes marks: one was received.
    echoed: bool,
}

/// What the marks of a segment allow its sample to do to the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leave {
    /// Raise the rate and cut it.
    Both,
    /// Raise it.
    Raise,
    /// Neither.
    Hold,
}

cc_core::snapshot! {
    /// A flow of TIMELY with ternary marks.
    pub struct TimelyTcdSnapshot {
        /// The state of TIMELY.
        pub timely: TimelySnapshot,
        /// The strongest mark since the last sample.
        pub mark: Mark,
        /// The receiver echoes marks: one was received.
        pub is_echoed: bool,
    }
}

impl State for TimelyTcd {
    type Snapshot = TimelyTcdSnapshot;

    fn snapshot(&self) -> TimelyTcdSnapshot {
        TimelyTcdSnapshot { timely: self.timely.snapshot(), mark: self.mark, is_echoed: self.echoed }
    }

    fn from_snapshot(s: TimelyTcdSnapshot) -> Self {
        Self { timely: Timely::from_snapshot(s.timely), mark: s.mark, echoed: s.is_echoed }
    }
}

impl ReactionPoint for TimelyTcd {
    type Settings = TimelySettings;
    type Params = Params;

    const NAME: &'static str = "timely_tcd";
    const PRESETS: &'static [Preset<TimelySettings>] = PRESETS;
    const EVENTS: EventSet = Timely::EVENTS;
    const SIGNALS: Signals = Signals::DELAY.with(Signals::MARK).with(Signals::UNDETERMINED);
    const RECEIVER: Option<&'static str> = Some("echo");
    #[rustfmt::skip]
    const TRANSITIONS: &'static [&'static str] = &[
        "any, ACK within a segment: its bytes and its mark count",
        "any, sample marked UE or taken in a pause: the rate holds, the next gradient is taken from this sample",
        "any, sample marked CE: TIMELY",
        "no mark yet, unmarked sample above T_high: TIMELY",
        "any, other unmarked sample that lets TIMELY raise the rate or leave it: TIMELY",
        "any, other unmarked sample that lets TIMELY cut: the rate holds, the gradient goes on",
        "any, wake: the rate stays",
    ];

    fn check(settings: &TimelySettings, link: &Link) -> Result<Params, ParamError> {
        Timely::check(settings, link)
    }

    fn limits(params: &Params, link: &Link) -> Limits {
        Timely::limits(params, link)
    }

    fn open(cx: &Cx<'_, Params>) -> Self {
        Self { timely: Timely::open(cx), mark: Mark::None, echoed: false }
    }

    fn transition(&self, cx: &Cx<'_, Params>, event: &Event<'_>) -> usize {
        let Event::Ack(ack) = event else { return 6 };
        let mut flow = *self;
        let Some(rtt) = flow.sample(cx.params, ack) else { return 0 };
        match flow.leave(cx, rtt) {
            Leave::Hold => 1,
            Leave::Both if flow.mark == Mark::Congested => 2,
            Leave::Both => 3,
            Leave::Raise => {
                flow.timely.update(cx.params, cx.now.stamp(), rtt, true);
                if flow.timely.rate() >= self.timely.rate() { 4 } else { 5 }
            }
        }
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>) -> Decision {
        match event {
            Event::Ack(ack) => {
                if let Some(rtt) = self.sample(cx.params, ack) {
                    self.react(cx, rtt);
                }
            }
            Event::Wake => self.timely.refresh(cx.params, cx.now.stamp()),
            _ => {}
        }
        self.timely.decision()
    }
}

impl TimelyTcd {
    /// The part of the state that is TIMELY's.
    #[inline]
    pub const fn timely(&self) -> &Timely {
        &self.timely
    }

    /// The strongest mark since the last sample.
    #[inline]
    pub const fn mark(&self) -> Mark {
        self.mark
    }

    /// Whether a mark was ever received.
    #[inline]
    pub const fn echoed(&self) -> bool {
        self.echoed
    }

    #[inline(always)]
    fn sample(&mut self, p: &Params, ack: &Ack<'_>) -> Option<Nanos> {
        self.mark = self.mark.max(ack.mark);
        self.echoed |= ack.mark != Mark::None;
        self.timely.sample(p, ack)
    }

    #[inline(always)]
    fn leave(&self, cx: &Cx<'_, Params>, rtt: Nanos) -> Leave {
        match self.mark {
            Mark::Congested => Leave::Both,
            Mark::Undetermined => Leave::Hold,
            Mark::None if cx.pause > Nanos::ZERO => Leave::Hold,
            Mark::None if !self.echoed && cx.params.is_high(rtt) => Leave::Both,
            Mark::None => Leave::Raise,
        }
    }

    #[inline(always)]
    fn react(&mut self, cx: &Cx<'_, Params>, rtt: Nanos) {
        let now = cx.now.stamp();
        match self.leave(cx, rtt) {
            Leave::Hold => self.timely.forget(now, rtt),
            leave => self.timely.update(cx.params, now, rtt, leave == Leave::Both),
        }
        self.mark = Mark::None;
    }
}
