//! Where a control segment ends: the one place that may rewrite packets and send its own.
//!
//! Stages only ever raise marks, so that any number of them may follow each other in any order. An interconnect switch that
//! answers its own datacentre does more: it takes marks off, because it has dealt with them, and notifies senders itself.
//! Two such ends on one queue would undo each other, so a [`Segment`] is no [`Stage`], and nothing can be chained to it as
//! other stages can:
//!
//! ```
//! use cc_cp::{red::Red, Chain, Stage};
//! fn a_queue<S: Stage>() {}
//! a_queue::<Chain<Red, Red>>();
//! ```
//!
//! ```compile_fail,E0277
//! use cc_cp::lscc::rate_limiting::RateLimiting;
//! use cc_cp::{red::Red, Chain, Segment, Stage};
//! fn a_queue<S: Stage>() {}
//! a_queue::<Chain<Red, Segment<Red, RateLimiting<64, 4>>>>();
//! ```

use crate::{Cx, Event, Stage, Verdict};
pub use cc_core::wire::FlowKey;
use cc_core::wire::shim::{self, IntShim, MlccData};
use cc_core::wire::{CnpMarking, Response, Roce};
use cc_core::{Bytes, CnpBody, CnpKind, Ecn, Hop, Instant, IntLayout, Link};

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
    /// To the telemetry that goes back with that CNP, add this record.
    pub record: Option<Hop>,
    /// Send it on with its telemetry taken off: with no record in the room that it has for them.
    pub clear_int: bool,
    /// Send it on with this in the room that it has for it.
    pub mlcc: Option<MlccData>,
}

impl Rewrite {
    /// The CNP to the packet's sender, if one is to be sent.
    ///
    /// `packet` is the one that the answer is about, as it came in, and `room` is where telemetry is put. There is no CNP
    /// that was to bring telemetry where the packet carries none, or has met more hops than it had room for, or where the
    /// record is to go into the compact layout.
    pub fn cnp<'a>(&self, packet: &Roce<'a>, marking: CnpMarking, room: &'a mut Room) -> Option<Response<'a>> {
        let body = self.notify?;
        let int = match body.kind {
            CnpKind::SwitchInt | CnpKind::DirectInt => self.telemetry(packet, room)?,
            _ => &[],
        };
        Some(Response::from_switch(packet, body, int, marking))
    }

    /// The packet's records, and the one to be added.
    fn telemetry<'a>(&self, packet: &Roce<'_>, room: &'a mut Room) -> Option<&'a [u8]> {
        let carried = packet.int_shim()?;
        let (layout, mut hops) = (carried.layout(), carried.hops());
        let mut area = [0; IntShim::LONGEST];
        // One that has overflowed is said to have more than it has room for.
        let records = carried.area().get(..usize::from(hops).wrapping_mul(layout.record_len()))?;
        area.iter_mut().zip(records).for_each(|(to, from)| *to = *from);
        if let Some(record) = &self.record {
            // The compact layout has codes for the speeds of links, and no flags.
            if layout == IntLayout::Compact {
                return None;
            }
            hops = layout.push(hops, &mut area, record);
        }
        let area = area.get(..usize::from(hops).wrapping_mul(layout.record_len()))?;
        IntShim::new(layout, carried.path(), hops, area)?.write(room).ok()
    }

    /// Does to the frame what is to be done to its bytes, beside the ECN bits. Neither length nor ICRC changes.
    ///
    /// `wire_len` and `shim_port` are those of [`parse_on`](cc_core::wire::parse_on).
    pub fn apply(&self, frame: &mut [u8], wire_len: usize, shim_port: u16) {
        if self.clear_int {
            shim::clear_int(frame, wire_len, shim_port);
        }
        if let Some(data) = &self.mlcc {
            shim::write_mlcc(frame, wire_len, shim_port, data);
        }
    }
}

/// Room for the telemetry of a CNP.
pub type Room = [u8; IntShim::LONGEST];

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
        link: &Link,
        params: (&C::Params, &E::Params),
        queued: &crate::Packet,
        mut packet: Transit,
    ) -> (Verdict, Rewrite) {
        let verdict = self.stages.on(&Cx { now, link, params: params.0 }, &Event::Dequeue(*queued));
        packet.ecn = verdict.apply(packet.ecn);
        (verdict, self.end.forward(params.1, now, &packet))
    }
}
