//! The one trait of a notification point.

use crate::{Arrival, CnpOutlet, Reply};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Ecn, Instant, Nanos, Port};

/// What a machine sees beside the arrival.
#[derive(Clone, Copy, Debug)]
pub struct Cx<'a, P> {
    /// The time of the arrival. Never runs backwards and never leaps by more than a second.
    pub now: Instant,
    /// The port that the packet came in by.
    pub port: &'a Port,
    /// Checked parameters, shared by all flows of the port.
    pub params: &'a P,
}

/// A congestion-control algorithm at the receiver. The value is the record of one flow.
pub trait NotificationPoint: Copy + 'static {
    /// What the user sets.
    type Settings: Settings;
    /// What the machine computes with; made by [`NotificationPoint::check`] only.
    type Params;

    /// The name on the command line.
    const NAME: &'static str;
    /// The named sets of settings, the default first.
    const PRESETS: &'static [Preset<Self::Settings>];

    /// Fills records that belong to no flow; it is never read.
    const BLANK: Self;

    /// Turns settings into parameters, or says which setting is wrong on this port.
    fn check(settings: &Self::Settings, port: &Port) -> Result<Self::Params, ParamError>;

    /// How CNPs leave the port.
    fn outlet(params: &Self::Params) -> &CnpOutlet;

    /// A record untouched for longer than this says nothing more: forgetting it changes no reply. At most a second.
    fn memory(params: &Self::Params) -> Nanos;

    /// Whether packets with these ECN bits matter to the machine. Others it never sees, and they touch no record.
    fn wants(ecn: Ecn) -> bool;

    /// The record of a flow of which nothing has been seen.
    fn open(cx: &Cx<'_, Self::Params>) -> Self;

    /// Takes one data packet and says what to answer. A CNP that is due stays due until [`Self::notified`].
    fn on(&mut self, cx: &Cx<'_, Self::Params>, arrival: &Arrival) -> Reply;

    /// The CNP of the last reply went out.
    fn notified(&mut self, cx: &Cx<'_, Self::Params>);
}
