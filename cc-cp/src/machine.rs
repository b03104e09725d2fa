//! The traits of a congestion point.

use crate::{Event, Verdict};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Instant, Link};

/// What a machine sees beside the event.
#[derive(Clone, Copy, Debug)]
pub struct Cx<'a, P> {
    /// The time of the event. Never runs backwards.
    pub now: Instant,
    /// The egress port.
    pub link: &'a Link,
    /// Checked parameters of the (port, priority).
    pub params: &'a P,
}

/// A stage of one egress queue. The value is the state of that queue.
///
/// Stages of a [`Chain`](crate::Chain) see the same events and not each other, and what they say is joined, so that
/// their order makes no difference.
pub trait Stage: Copy {
    /// What the machine computes with.
    type Params;

    /// The state of a queue that has carried nothing. Equal seeds make equal verdicts.
    fn open(cx: &Cx<'_, Self::Params>, seed: u64) -> Self;

    /// Takes one event of the queue.
    fn on(&mut self, cx: &Cx<'_, Self::Params>, event: &Event) -> Verdict;
}

/// A stage that can be chosen by name and set by a user.
pub trait CongestionPoint: Stage {
    /// What the user sets.
    type Settings: Settings;

    /// The name on the command line.
    const NAME: &'static str;
    /// The named sets of settings, the default first.
    const PRESETS: &'static [Preset<Self::Settings>];

    /// Turns settings into parameters, or says which setting is wrong on this port.
    fn check(settings: &Self::Settings, link: &Link) -> Result<Self::Params, ParamError>;
}
