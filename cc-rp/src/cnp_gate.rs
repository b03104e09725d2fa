//! The one place that decides whether a congestion notification counts for a flow, and as what event.

use crate::{CnpIgnored, Event, EventSet, ReactionPoint};
use cc_core::{CnpBodyKind, IntStack};

/// Returns the event to pass to the machine for a notification, or why the notification is ignored.
///
/// `body_kind` is read from the reserved bytes of the CNP; `int` reads the telemetry that a switch has sent with it, and is
/// called only for algorithms that use it. For these, a CNP with telemetry becomes [`Event::SwitchInt`]; any other CNP, and
/// any CNP for other algorithms, becomes [`Event::Cnp`].
///
/// # Errors
/// The notification changes nothing: [`CnpIgnored::Stale`] or [`CnpIgnored::Unsupported`].
#[inline(always)]
pub fn gate<'a, A: ReactionPoint>(
    state: &A,
    body_kind: &CnpBodyKind,
    int: impl FnOnce() -> Option<IntStack<'a>>,
) -> Result<Event<'a>, CnpIgnored> {
    if A::EVENTS.contains(EventSet::SWITCH_INT)
        && let Some(int) = int()
    {
        return Ok(Event::SwitchInt { int });
    }
    if !A::EVENTS.contains(EventSet::CNP) {
        return Err(CnpIgnored::Unsupported);
    }
    match state.cnp_filter(body_kind) {
        Some(ignored) => Err(ignored),
        None => Ok(Event::Cnp { body_kind: *body_kind }),
    }
}

/// As [`gate`], for a notification that is an event already; any other event passes.
///
/// # Errors
/// As for [`gate`].
#[inline(always)]
pub fn gate_event<'a, A: ReactionPoint>(state: &A, event: Event<'a>) -> Result<Event<'a>, CnpIgnored> {
    match event {
        Event::Cnp { body_kind } => gate(state, &body_kind, || None),
        Event::SwitchInt { .. } if !A::EVENTS.contains(EventSet::SWITCH_INT) => Err(CnpIgnored::Unsupported),
        other => Ok(other),
    }
}
