//! The one trait of a congestion point.

use crate::{Packet, Verdict};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Instant, Port};

/// What a machine sees beside the packet.
#[derive(Clone, Copy, Debug)]
pub struct Cx<'a, P> {
    /// The time of the event.
    pub now: Instant,
    /// The egress port.
    pub port: &'a Port,
    /// Checked parameters of the (port, priority).
    pub params: &'a P,
}

/// A congestion-control stage of one egress queue. The value is the state of that queue.
pub trait CongestionPoint: Copy {
    /// What the user sets.
    type Settings: Settings;
    /// What the machine computes with; made by [`CongestionPoint::check`] only.
    type Params;

    /// The name on the command line.
    const NAME: &'static str;
    /// The named sets of settings, the default first.
    const PRESETS: &'static [Preset<Self::Settings>];

    /// Turns settings into parameters, or says which setting is wrong on this port.
    fn check(settings: &Self::Settings, port: &Port) -> Result<Self::Params, ParamError>;

    /// The state of a queue that has carried nothing. Equal seeds make equal verdicts.
    fn open(cx: &Cx<'_, Self::Params>, seed: u64) -> Self;

    /// A packet leaves the queue.
    fn dequeue(&mut self, cx: &Cx<'_, Self::Params>, packet: &Packet) -> Verdict;
}
