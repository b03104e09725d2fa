//! The one place that decides which flow a congestion notification is for, whether it counts, and as what event.

use crate::{CnpIgnored, Event, EventSet, ReactionPoint};
use cc_core::table::Handle;
use cc_core::wire::{FlowKey, Roce};
use cc_core::{CnpBodyKind, IntStack, Qpn};
use core::hint::cold_path;

/// The flow that a CNP is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CnpFlow {
    /// The one bound to this local queue pair number, the destination of the CNP.
    Local(Qpn),
    /// A switch's CNP names the flow by its remote queue pair number; this one has that number. `None` if no flow has it.
    Remote(Option<Handle>),
}

impl CnpFlow {
    /// The flow of a received CNP whose reserved bytes mean `body_kind`. A flow that is named by its remote queue pair number
    /// is looked up by `find_remote`. `body_kind` becomes the body as the flow's machine sees it, without that name.
    #[inline(always)]
    pub fn of(
        packet: &Roce<'_>,
        body_kind: &mut CnpBodyKind,
        find_remote: impl FnOnce(FlowKey) -> Option<Handle>,
    ) -> Self {
        match *body_kind {
            CnpBodyKind::Extended(body) if body.is_from_switch() => {
                cold_path();
                *body_kind = body.with_local_name();
                if body.names_remote_qpn {
                    return Self::Remote(find_remote(FlowKey::of_reply(packet, body.remote_qpn)));
                }
            }
            _ => {}
        }
        Self::Local(packet.bth.dest_qp)
    }
}

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

/// The event for a machine that is tested without an engine: [`gate_event`]'s, or a wake in place of a notification to be
/// ignored.
#[cfg(test)]
pub(crate) fn gated<'a, A: ReactionPoint>(state: &A, event: Event<'a>) -> Event<'a> {
    gate_event(state, event).unwrap_or(Event::Wake)
}
