//! The one trait of a notification point.

use crate::{Arrival, CnpPolicy, Event, Flows, Reply, Slot};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::table::Storage;
use cc_core::{Instant, Link, Mark, Nanos, Qpn, State, Zeroed};
use core::fmt::Debug;

/// What a machine sees beside the arrival.
#[derive(Clone, Copy, Debug)]
pub struct Cx<'a, P> {
    /// The time of the arrival. Never runs backwards and never leaps by more than a second.
    pub now: Instant,
    /// The port that the packet came in by.
    pub link: &'a Link,
    /// Checked parameters, shared by all flows of the port.
    pub params: &'a P,
}

/// A congestion-control algorithm at the receiver. The value is the record of one flow.
pub trait NotificationPoint: State + Zeroed + Copy + PartialEq + Debug + 'static {
    /// What the user sets.
    type Settings: Settings;
    /// What the machine computes with; made by [`NotificationPoint::check`] only.
    type Params: Zeroed;
    /// What the flows of a port have in common: handed to the machine with every record, `()` where there is nothing.
    type Shared: State + Copy + PartialEq + Debug;
    /// Where `SETS` times `WAYS` records are kept, or fewer where they are large: a [`SetAssocTableIn`](cc_core::table::SetAssocTableIn), or a
    /// [`RoundRobinTableIn`](cc_core::table::RoundRobinTableIn) for machines with turns.
    type Flows<SETS: Storage, const WAYS: usize>: Flows<Self>;

    /// The name on the command line.
    const NAME: &'static str;
    /// The named sets of settings, the default first.
    const PRESETS: &'static [Preset<Self::Settings>];

    /// A port of which nothing has been seen.
    const SHARED: Self::Shared;
    /// Whether acknowledgements carry what the machine says, so that the engine has to write them.
    const REPLIES: bool = false;

    /// Whether the machine reads in-band telemetry of data packets, and what MLCC's interconnect switch adds.
    const TELEMETRY: bool = false;

    /// The rows of the machine's table of states and events, each as "state, event: what happens". A harness tells by
    /// them what a run has exercised.
    const TRANSITIONS: &'static [&'static str];

    /// Turns settings into parameters, or says which setting is wrong on this port.
    fn check(settings: &Self::Settings, link: &Link) -> Result<Self::Params, ParamError>;

    /// How frames leave the port.
    fn cnp_policy(params: &Self::Params) -> &CnpPolicy;

    /// A record untouched for longer than this is forgotten, whether or not a visit has found it. At most a second.
    fn idle_timeout(params: &Self::Params) -> Nanos;

    /// Whether ECT(1) is TCD's "undetermined" in this network. Otherwise it is no mark at all.
    #[inline]
    fn is_ternary(params: &Self::Params) -> bool {
        let _ = params;
        false
    }

    /// Whether packets with this mark matter to the machine. Others it never sees, and they touch no record, but where
    /// they are acknowledged and the machine [replies](NotificationPoint::REPLIES).
    #[inline]
    fn reacts_to(mark: Mark) -> bool {
        mark != Mark::None
    }

    /// The record of a flow of which nothing has been seen. Without the flow's local queue pair it is the one record of
    /// all that are not told apart: datagrams, and flows that the table has no room for.
    fn open(cx: &Cx<'_, Self::Params>, shared: &mut Self::Shared, local: Option<Qpn>) -> Self;

    /// The row that this event meets in this state: an index into [`NotificationPoint::TRANSITIONS`].
    fn transition(&self, cx: &Cx<'_, Self::Params>, shared: &Self::Shared, event: &Event<'_>) -> usize;

    /// Takes one data packet and says what to answer. A CNP that is due stays due until [`Self::on_cnp_sent`], and what an
    /// acknowledgement is to say until [`Self::on_ack_sent`].
    fn on(&mut self, cx: &Cx<'_, Self::Params>, shared: &mut Self::Shared, arrival: &Arrival<'_>) -> Reply;

    /// The CNP of the last reply, or of this turn, went out.
    fn on_cnp_sent(&mut self, cx: &Cx<'_, Self::Params>, shared: &mut Self::Shared);

    /// An acknowledgement with what the last reply said went out.
    #[inline]
    fn on_ack_sent(&mut self, cx: &Cx<'_, Self::Params>, shared: &mut Self::Shared) {
        let _ = (cx, shared);
    }

    /// The record is going: for another flow's, because it says nothing more, or because its queue pair is destroyed.
    #[inline]
    fn on_evicted(&self, cx: &Cx<'_, Self::Params>, shared: &mut Self::Shared) {
        let _ = (cx, shared);
    }

    /// How far the turns of flows are apart, in machines that send CNPs with no frame in hand: one flow after the other
    /// is given a [`slot`](NotificationPoint::slot).
    #[inline]
    fn slot_interval(params: &Self::Params) -> Option<Nanos> {
        let _ = params;
        None
    }

    /// What the flow does in its turn. A CNP that is due stays due until [`Self::on_cnp_sent`].
    #[inline]
    fn slot(&mut self, cx: &Cx<'_, Self::Params>, shared: &mut Self::Shared) -> Slot {
        let _ = (cx, shared);
        Slot::Skip
    }
}
