//! A machine whose `on` is called, for a harness to see when it begins and returns.

use cc_core::params::{ParamError, Preset};
use cc_core::{CnpHint, Port, State};
use cc_rp::{Cx, Decision, Event, EventMask, Ignored, Limits, ReactionPoint, Signals};

/// The machine `A` behind a function call. It decides as `A` does, and takes a little longer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Calling<A>(A);

impl<A: State> State for Calling<A> {
    type Snapshot = A::Snapshot;

    fn snapshot(&self) -> A::Snapshot {
        self.0.snapshot()
    }

    fn from_snapshot(snapshot: A::Snapshot) -> Self {
        Self(A::from_snapshot(snapshot))
    }
}

impl<A: ReactionPoint> ReactionPoint for Calling<A> {
    type Settings = A::Settings;
    type Params = A::Params;

    const NAME: &'static str = A::NAME;
    const PRESETS: &'static [Preset<A::Settings>] = A::PRESETS;
    const WANTS: EventMask = A::WANTS;
    const SIGNALS: Signals = A::SIGNALS;
    const ANSWERED_BY: Option<&'static str> = A::ANSWERED_BY;
    const TABLE: &'static [&'static str] = A::TABLE;

    fn check(settings: &A::Settings, port: &Port) -> Result<A::Params, ParamError> {
        A::check(settings, port)
    }

    #[inline(always)]
    fn check_into(params: &mut A::Params, settings: &A::Settings, port: &Port) -> Result<(), ParamError> {
        A::check_into(params, settings, port)
    }

    fn limits(params: &A::Params, port: &Port) -> Limits {
        A::limits(params, port)
    }

    fn open(cx: &Cx<'_, A::Params>) -> Self {
        Self(A::open(cx))
    }

    #[inline]
    fn ignores(&self, hint: &CnpHint) -> Option<Ignored> {
        self.0.ignores(hint)
    }

    fn row(&self, cx: &Cx<'_, A::Params>, event: &Event<'_>) -> usize {
        self.0.row(cx, event)
    }

    #[inline(never)]
    fn on(&mut self, cx: &Cx<'_, A::Params>, event: &Event<'_>) -> Decision {
        self.0.on(cx, event)
    }
}
