//! Where a control segment ends: the one place that may rewrite packets and send its own.
//!
//! Stages only ever raise marks, so that any number of them may follow each other in any order. An interconnect switch that
//! answers its own datacentre does more: it takes marks off, because it has dealt with them, and notifies senders itself.
//! Two such ends on one queue would undo each other, so a [`Segment`] is no [`Stage`], and nothing can be chained to it:
//!
//! ```compile_fail,E0277
//! use cc_cp::lscc::rate_limiting::RateLimiting;
//! use cc_cp::{red::Red, Chain, Segment, Stage};
//! fn a_queue<S: Stage>() {}
//! a_queue::<Chain<Red, Segment<Red, RateLimiting<64, 4>>>>();
//! ```

use crate::{Cx, Event, Stage, Verdict};
pub use cc_core::wire::FlowKey;
use cc_core::wire::shim::MlccData;

use cc_core::{Bytes, CnpBody, Ecn, Instant, Port};

/// A packet of the local datacentre that passes the end of its segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Transit {
    /// Its flow.
    pub flow: FlowKey,
    /// It carries data.
    pub data: bool,
    /// Bytes on the wire.
    pub bytes: Bytes,
    /// Its ECN bits.
    pub ecn: Ecn,
}

/// What is to be done to a packet, beside what the verdict says.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rewrite {
    /// Send it on with these ECN bits.
    pub ecn: Ecn,
    /// Send its sender a CNP that says this, and brings the packet's telemetry where its kind calls for that.
    pub notify: Option<CnpBody>,
    /// Take the records out of its telemetry, by [`clear_int`](cc_core::wire::shim::clear_int), before this port adds its own.
    pub clear_int: bool,
    /// Write this into the room that it has for it, by [`write_mlcc`](cc_core::wire::shim::write_mlcc).
    pub mlcc: Option<MlccData>,
}

/// The end of a control segment.
pub trait Endpoint {
    /// What the machine computes with.
    type Params;

    /// A packet passes, with these ECN bits once the verdict is applied.
    fn forward(&mut self, params: &Self::Params, now: Instant, packet: &Transit) -> Rewrite;
}

/// Stages, and behind them the end of their segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<C, E> {
    /// The stages.
    pub stages: C,
    /// The end.
    pub end: E,
}

impl<C: Stage, E: Endpoint> Segment<C, E> {
    /// A packet leaves the queue: what the stages say of it, and what the end does to it.
    #[inline]
    pub fn dequeue(
        &mut self,
        now: Instant,
        port: &Port,
        params: (&C::Params, &E::Params),
        queued: &crate::Packet,
        mut packet: Transit,
    ) -> (Verdict, Rewrite) {
        let verdict = self.stages.on(&Cx { now, port, params: params.0 }, &Event::Dequeue(*queued));
        packet.ecn = verdict.apply(packet.ecn);
        (verdict, self.end.forward(params.1, now, &packet))
    }
}
