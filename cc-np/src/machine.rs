//! The trait that every notification point implements, and the trait of the table that holds the records of its flows.

use crate::{Arrival, CnpPolicy, Event, Reply, Slot};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::table::Storage;
use cc_core::{Instant, Link, Mark, Nanos, Qpn, State, Zeroed};
use core::fmt::Debug;

/// The context of a call: time, port and parameters.
#[derive(Clone, Copy, Debug)]
pub struct Cx<'a, P> {
    /// The time of the event. It never runs backwards, and never advances by more than 1 s from one call to the next.
    pub now: Instant,
    /// The port that received the packet.
    pub link: &'a Link,
    /// Checked parameters, shared by all flows of the port.
    pub params: &'a P,
}

/// A congestion-control algorithm at the receiver. The value is the record of one flow.
pub trait NotificationPoint: State + Zeroed + Copy + PartialEq + Debug + 'static {
    /// The settings of the user.
    type Settings: Settings;
    /// The checked parameters, in the units of the computation; made by [`NotificationPoint::check`] only.
    type Params: Zeroed;
    /// The state that all flows of a port share, passed to the machine with every record; `()` where there is none.
    type Shared: State + Copy + PartialEq + Debug;
    /// The table of `SETS` times `WAYS` records, or fewer where they are large: a
    /// [`SetAssocTableIn`](cc_core::table::SetAssocTableIn), or a [`RoundRobinTableIn`](cc_core::table::RoundRobinTableIn) for
    /// machines with slots.
    type Flows<SETS: Storage, const WAYS: usize>: Flows<Self>;

    /// The name on the command line.
    const NAME: &'static str;
    /// Its presets, the default first.
    const PRESETS: &'static [Preset<Self::Settings>];

    /// The shared state of a port before its first packet.
    const SHARED: Self::Shared;
    /// Whether acknowledgements carry fields of the machine's [`Reply`], so that the engine has to send them.
    const REPLIES: bool = false;

    /// Whether the machine reads the in-band telemetry of data packets, and the fields that MLCC's interconnect switch adds.
    const TELEMETRY: bool = false;

    /// The rows of the machine's table of states and events, each as "state, event: what happens". A harness reports which of
    /// them a run has exercised.
    const TRANSITIONS: &'static [&'static str];

    /// Converts settings into parameters, or returns an error that names the setting that is wrong on this port.
    fn check(settings: &Self::Settings, link: &Link) -> Result<Self::Params, ParamError>;

    /// Class of service of its CNPs and acknowledgements, and the bound on the port's CNPs.
    fn cnp_policy(params: &Self::Params) -> &CnpPolicy;

    /// Idle timeout, at most 1 s: a record without a packet for longer counts as removed, whether or not a sweep has removed
    /// it.
    fn idle_timeout(params: &Self::Params) -> Nanos;

    /// Whether ECT(1) is TCD's "undetermined" in this network. Otherwise it is no mark at all.
    #[inline]
    fn is_ternary(params: &Self::Params) -> bool {
        let _ = params;
        false
    }

    /// Whether packets with this mark are passed to the machine. Others are not, and do not touch a record, except those that
    /// the engine acknowledges because the machine [replies](NotificationPoint::REPLIES).
    #[inline]
    fn reacts_to(mark: Mark) -> bool {
        mark != Mark::None
    }

    /// The record of a new flow. With `local` = `None` it is the shared record: that of all datagrams, and of all flows that
    /// the table has no room for.
    fn open(cx: &Cx<'_, Self::Params>, shared: &mut Self::Shared, local: Option<Qpn>) -> Self;

    /// The index of this event in this state in [`NotificationPoint::TRANSITIONS`].
    fn transition(&self, cx: &Cx<'_, Self::Params>, shared: &Self::Shared, event: &Event<'_>) -> usize;

    /// Processes one data packet and returns what to send. A CNP that is due stays due until [`Self::on_cnp_sent`]; the fields
    /// for the next acknowledgement are kept until [`Self::on_ack_sent`].
    fn on(&mut self, cx: &Cx<'_, Self::Params>, shared: &mut Self::Shared, arrival: &Arrival<'_>) -> Reply;

    /// The CNP of the last reply, or of this slot, is in the transmit ring.
    fn on_cnp_sent(&mut self, cx: &Cx<'_, Self::Params>, shared: &mut Self::Shared);

    /// An acknowledgement with the last reply is in the transmit ring.
    #[inline]
    fn on_ack_sent(&mut self, cx: &Cx<'_, Self::Params>, shared: &mut Self::Shared) {
        let _ = (cx, shared);
    }

    /// The record is being removed: evicted for another flow's, because its idle timeout has passed, because its slot returned
    /// [`Slot::Remove`], or because its queue pair is destroyed.
    #[inline]
    fn on_evicted(&self, cx: &Cx<'_, Self::Params>, shared: &mut Self::Shared) {
        let _ = (cx, shared);
    }

    /// The time from one slot to the next; `None` in machines without slots. Each [`slot`](NotificationPoint::slot) is given to
    /// the next flow in round-robin order. A CNP of a slot is not caused by a received packet.
    #[inline]
    fn slot_interval(params: &Self::Params) -> Option<Nanos> {
        let _ = params;
        None
    }

    /// Processes the flow's slot and returns what to do. A CNP that is due stays due until [`Self::on_cnp_sent`].
    #[inline]
    fn slot(&mut self, cx: &Cx<'_, Self::Params>, shared: &mut Self::Shared) -> Slot {
        let _ = (cx, shared);
        Slot::Skip
    }
}

/// A bounded table of flow records. It calls [`NotificationPoint::on_evicted`] for every record that is removed.
pub trait Flows<A: NotificationPoint>: Zeroed {
    /// Sets of the header cache, from which the engine's caller builds the CNPs of slots, for which there is no received
    /// packet: none, or as many as there are sets of records.
    type HeaderSets: Storage;

    /// Bytes of a record, key included.
    const RECORD_BYTES: usize;
    /// Capacity in flows; zero where it is not fixed at compile time.
    const ROOM: usize;

    /// Grows the table to `sets` sets of records, a power of two, where the memory is on the heap.
    fn grow(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared, sets: usize);

    /// Number of sets.
    fn sets(&self) -> usize;

    /// The record of a flow, opened if it has none; `None` where there is no room for it. Called when a packet of it arrives.
    fn lookup_or_insert(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared, local: Qpn) -> Option<&mut A>;

    /// The record of a flow, if it has one.
    fn get(&self, local: Qpn) -> Option<&A>;

    /// Replaces the record of a flow. Returns `false`, and changes nothing, if it has none or `record` is of another flow.
    fn put(&mut self, local: Qpn, record: A) -> bool;

    /// Removes the record of a flow whose queue pair is destroyed.
    fn remove(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared, local: Qpn);

    /// Removes the records of the next set whose idle timeout has passed.
    fn sweep(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared);

    /// The next record in round-robin order; `None` in tables without slots.
    fn advance(&mut self) -> Option<&mut A>;

    /// Removes the record that [`Flows::advance`] returned last.
    fn remove_current(&mut self, cx: &Cx<'_, A::Params>, shared: &mut A::Shared);

    /// Number of flows that have a record.
    fn occupied(&self) -> u32;

    /// Records evicted for another flow's before their idle timeout.
    fn evicted(&self) -> u32;
}
