//! A machine whose `on` is not inlined, so that a harness can measure the cycles from its call to its return.

use cc_core::params::{ParamError, Preset};
use cc_core::{CnpBodyKind, Link, State};
use cc_rp::{CnpIgnored, Cx, Decision, Event, EventSet, Limits, ReactionPoint, Signals};

/// The machine `A` with an `on` that is not inlined. It decides as `A` does, and takes a few cycles more for the call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OutlinedOn<A>(A);

impl<A: State> State for OutlinedOn<A> {
    type Snapshot = A::Snapshot;

    fn snapshot(&self) -> A::Snapshot {
        self.0.snapshot()
    }

    fn from_snapshot(snapshot: A::Snapshot) -> Self {
        Self(A::from_snapshot(snapshot))
    }
}

impl<A: ReactionPoint> ReactionPoint for OutlinedOn<A> {
    type Settings = A::Settings;
    type Params = A::Params;

    const NAME: &'static str = A::NAME;
    const PRESETS: &'static [Preset<A::Settings>] = A::PRESETS;
    const EVENTS: EventSet = A::EVENTS;
    const SIGNALS: Signals = A::SIGNALS;
    const RECEIVER: Option<&'static str> = A::RECEIVER;
    const TRANSITIONS: &'static [&'static str] = A::TRANSITIONS;

    fn check(settings: &A::Settings, link: &Link) -> Result<A::Params, ParamError> {
        A::check(settings, link)
    }

    #[inline(always)]
    fn check_into(params: &mut A::Params, settings: &A::Settings, link: &Link) -> Result<(), ParamError> {
        A::check_into(params, settings, link)
    }

    fn limits(params: &A::Params, link: &Link) -> Limits {
        A::limits(params, link)
    }

    fn open(cx: &Cx<'_, A::Params>) -> Self {
        Self(A::open(cx))
    }

    #[inline]
    fn cnp_filter(&self, body_kind: &CnpBodyKind) -> Option<CnpIgnored> {
        self.0.cnp_filter(body_kind)
    }

    fn transition(&self, cx: &Cx<'_, A::Params>, event: &Event<'_>) -> usize {
        self.0.transition(cx, event)
    }

    #[inline(never)]
    fn on(&mut self, cx: &Cx<'_, A::Params>, event: &Event<'_>) -> Decision {
        self.0.on(cx, event)
    }
}
