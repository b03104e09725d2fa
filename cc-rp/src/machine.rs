//! The one trait of a reaction point: a value goes in, a value comes out.

use crate::{Decision, Event, EventSet, Signals};
use cc_core::params::{ParamError, Settings};
use cc_core::{Bytes, CnpBodyKind, Instant, Link, Nanos, Rate, Stamp, State, Zeroed};
use core::fmt::Debug;

/// Why a congestion notification was not acted on. Each is a counter of [`RpCounters`](crate::RpCounters).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum CnpIgnored {
    /// No flow is bound to its destination queue pair number.
    UnknownQp,
    /// It names a flow by its remote queue pair number, and no open flow is known by that.
    RemoteQpUnknown,
    /// Its number says that it, or a later one, was acted on before.
    Stale,
    /// It is of a kind that this algorithm does not use.
    Unsupported,
}

/// What a machine sees beside the event.
#[derive(Clone, Copy, Debug)]
pub struct Cx<'a, P> {
    /// The time of the event. Never runs backwards and never leaps by more than a second: the engine sees to it.
    pub now: Instant,
    /// The port that the flow leaves by.
    pub link: &'a Link,
    /// Checked parameters, shared by all flows of the port.
    pub params: &'a P,
    /// How much longer PFC pauses the flow's priority; zero when it does not.
    pub pause: Nanos,
    /// A clock that stands still while PFC pauses the flow's priority: `now` less all the time of pauses so far. A
    /// deadline on it is frozen by pauses, and a late wake finds it where a punctual one would have.
    pub clock_without_pauses: Stamp,
}

/// What no decision of a machine goes beyond. No rate exceeds the port's either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The least rate.
    pub rate: Rate,
    /// The least window.
    pub window: Bytes,
    /// The longest hold of the machine's own; PFC's pauses come on top.
    pub hold: Nanos,
}

/// A number that explains decisions, to be drawn over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceValue {
    /// What it is: letters, digits and underscores.
    pub name: &'static str,
    /// The number, in steps of two to the power of minus `fraction_bits`.
    pub bits: u32,
    /// 0 to 32.
    pub fraction_bits: u32,
}

/// A congestion-control algorithm at the sender. The value is the state of one flow.
pub trait ReactionPoint: State + Copy + PartialEq + Debug + 'static {
    /// What the user sets.
    type Settings: Settings;
    /// What the machine computes with; made by [`ReactionPoint::check`] only.
    type Params: Zeroed;

    /// The name on the command line.
    const NAME: &'static str;
    /// The named sets of settings, the default first.
    const PRESETS: &'static [cc_core::params::Preset<Self::Settings>];
    /// The events that the machine reacts to; any other changes nothing.
    const EVENTS: EventSet;
    /// The signals that its decisions come from.
    const SIGNALS: Signals;
    /// The notification point that answers it, by its name; `None` when it needs none.
    const RECEIVER: Option<&'static str>;

    /// Turns settings into parameters, or says which setting is wrong on this port.
    fn check(settings: &Self::Settings, link: &Link) -> Result<Self::Params, ParamError>;

    /// [`Self::check`] where the parameters are to be. On an error there is no telling what they are.
    fn check_into(params: &mut Self::Params, settings: &Self::Settings, link: &Link) -> Result<(), ParamError> {
        *params = Self::check(settings, link)?;
        Ok(())
    }

    /// What no decision goes beyond, with these parameters.
    fn limits(params: &Self::Params, link: &Link) -> Limits;

    /// The state of a flow that has sent nothing yet.
    fn open(cx: &Cx<'_, Self::Params>) -> Self;

    /// Why a notification that says this would not be acted on, if it would not; [`ReactionPoint::on`] then
    /// treats it as a wake. Plain notifications always count.
    #[inline]
    fn cnp_filter(&self, body_kind: &CnpBodyKind) -> Option<CnpIgnored> {
        let _ = body_kind;
        None
    }

    /// The rows of the machine's table of states and events, each as "state, event: what happens". A harness tells by
    /// them what a run has exercised.
    const TRANSITIONS: &'static [&'static str];

    /// The row that this event meets in this state: an index into [`ReactionPoint::TRANSITIONS`].
    fn transition(&self, cx: &Cx<'_, Self::Params>, event: &Event<'_>) -> usize;

    /// Shows what explains the decisions and is not among them, number by number. For harnesses: no image calls it.
    fn trace_values(&self, params: &Self::Params, show: &mut dyn FnMut(TraceValue)) {
        let _ = (params, show);
    }

    /// Takes one event and says how the flow is to be paced from now on.
    fn on(&mut self, cx: &Cx<'_, Self::Params>, event: &Event<'_>) -> Decision;
}
