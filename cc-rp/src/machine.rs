//! The trait of a reaction point: it processes an event and returns a decision.

use crate::{Decision, Event, EventSet, Signals};
use cc_core::hops::Unmeasured;
use cc_core::params::{ParamError, Settings};
use cc_core::{Bytes, CnpBodyKind, Instant, Link, Nanos, Rate, Stamp, State, Zeroed};
use core::fmt::Debug;

/// Why a congestion notification was not acted on. Each is a counter of [`RpCounters`](crate::RpCounters).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum CnpIgnored {
    /// No flow is bound to its destination queue pair number.
    UnknownQp,
    /// It names a flow by its remote queue pair number, and no open flow has that.
    RemoteQpUnknown,
    /// By its number, it is repeated or older than one that was acted on.
    Stale,
    /// It is of a kind that this algorithm does not use.
    Unsupported,
}

/// The context of an event, which a machine gets with it.
#[derive(Clone, Copy, Debug)]
pub struct Cx<'a, P> {
    /// The time of the event. The engine ensures that it never runs backwards and never advances by more than 1 s at once.
    pub now: Instant,
    /// The port that the flow leaves by.
    pub link: &'a Link,
    /// Checked parameters, shared by all flows of the port.
    pub params: &'a P,
    /// How much longer PFC pauses the flow's priority; zero when it does not.
    pub pause: Nanos,
    /// A clock that stands still while PFC pauses the flow's priority: `now` less all the time of pauses so far. A deadline on
    /// it does not expire during a pause, and is the same for a late wake as for a punctual one.
    pub clock_without_pauses: Stamp,
}

/// Bounds that every decision of a machine keeps. No rate exceeds the port's line rate either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Lower bound of the rate.
    pub rate: Rate,
    /// Lower bound of the window.
    pub window: Bytes,
    /// Upper bound of the holds that the machine itself sets. A PFC pause can hold a flow for longer.
    pub hold: Nanos,
}

/// A number that explains decisions, for plots over time.
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
    /// The settings, in the user's units.
    type Settings: Settings;
    /// The parameters that the machine computes with; only [`ReactionPoint::check`] makes them.
    type Params: Zeroed;

    /// The name on the command line.
    const NAME: &'static str;
    /// The named sets of settings, the default first.
    const PRESETS: &'static [cc_core::params::Preset<Self::Settings>];
    /// The events that the machine reacts to; any other changes nothing.
    const EVENTS: EventSet;
    /// The signals that its decisions depend on.
    const SIGNALS: Signals;
    /// Name of the notification point that must run at the receiver; `None` when none is needed.
    const RECEIVER: Option<&'static str>;

    /// Computes parameters from settings, or returns which setting is invalid on this port.
    fn check(settings: &Self::Settings, link: &Link) -> Result<Self::Params, ParamError>;

    /// [`Self::check`], with the parameters written in place. After an error their contents are unspecified.
    fn check_into(params: &mut Self::Params, settings: &Self::Settings, link: &Link) -> Result<(), ParamError> {
        *params = Self::check(settings, link)?;
        Ok(())
    }

    /// The bounds of all decisions with these parameters.
    fn limits(params: &Self::Params, link: &Link) -> Limits;

    /// The state of a flow that has sent nothing yet.
    fn open(cx: &Cx<'_, Self::Params>) -> Self;

    /// The reason why a notification with this body is to be ignored; `None` if it counts. [`gate_event`](crate::gate_event)
    /// asks before each [`ReactionPoint::on`], which takes every CNP that it gets for one that counts.
    /// [`CnpBodyKind::Standard`] always counts.
    #[inline]
    fn cnp_filter(&self, body_kind: &CnpBodyKind) -> Option<CnpIgnored> {
        let _ = body_kind;
        None
    }

    /// The rows of the machine's table of states and events, each as "state, event: what happens". A harness counts which of
    /// them a run has reached.
    const TRANSITIONS: &'static [&'static str];

    /// The row for this state and event: an index into [`ReactionPoint::TRANSITIONS`].
    fn transition(&self, cx: &Cx<'_, Self::Params>, event: &Event<'_>) -> usize;

    /// Passes to `show` each number that explains the decisions and is not part of them. For harnesses: no image calls it.
    fn trace_values(&self, params: &Self::Params, show: &mut dyn FnMut(TraceValue)) {
        let _ = (params, show);
    }

    /// Why the last event of this kind, an acknowledgement or Switch-INT, had telemetry that was not measured. The engine
    /// reads it after each such event, and counts the reasons.
    #[inline(always)]
    fn unmeasured(&self, kind: EventSet) -> Unmeasured {
        let _ = kind;
        Unmeasured::NONE
    }

    /// Takes one event and returns how the flow is to be paced from now on.
    fn on(&mut self, cx: &Cx<'_, Self::Params>, event: &Event<'_>) -> Decision;
}
