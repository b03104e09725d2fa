//! What the fabric's switches do to the data that leaves them.

use cc_core::params::ParamError;
use cc_core::{Link, Nanos};
use cc_cp::int::IntPush;
use cc_cp::red::{Red, RedSettings};
use cc_cp::tcd::{Tcd, TcdSettings};
use cc_cp::{Chain, CongestionPoint, Cx, Event, Stage, Verdict};
use cc_rp::Signals;

/// The stages of a port's data queue: marks of one kind or the other, and telemetry.
pub(super) type Stages = Chain<Marking, IntPush>;

/// How switches mark.
#[derive(Clone, Copy, Debug)]
pub enum MarkingPolicy {
    /// By the length of the queue.
    Red(RedSettings),
    /// In three states.
    Tcd(TcdSettings),
}

impl MarkingPolicy {
    /// The parameters of [`Stages`] on ports like this one.
    pub(super) fn check(&self, link: &Link) -> Result<<Stages as Stage>::Params, ParamError> {
        let marking = match self {
            Self::Red(settings) => Params::Red(Red::check(settings, link)?),
            Self::Tcd(settings) => Params::Tcd(Tcd::check(settings, link)?),
        };
        Ok((marking, IntPush::check(&IntPush::PRESETS[0].values, link)?))
    }
}

/// A receiver that cannot keep up: it pauses its port again and again.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    /// From the start of one pause to that of the next.
    pub every: Nanos,
    /// How long a pause lasts, shorter than that.
    pub length: Nanos,
}

/// What brings out the signals that an algorithm lives on: how the switches mark, by RED with these settings unless it is
/// TCD's marks that are wanted, and then pauses of the receiver's port as well.
pub fn stress_scenario(signals: Signals, red: RedSettings) -> (Option<Pauses>, MarkingPolicy) {
    if signals.contains(Signals::UNDETERMINED) {
        let pauses = Pauses { every: Nanos::new(150_000), length: Nanos::new(30_000) };
        (Some(pauses), MarkingPolicy::Tcd(Tcd::PRESETS[0].values))
    } else {
        (None, MarkingPolicy::Red(red))
    }
}

/// Parameters of either kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Params {
    Red(cc_cp::red::Params),
    Tcd(cc_cp::tcd::Params),
}

/// One stage or the other, chosen at run time: firmware chooses by type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Marking {
    Red(Red),
    Tcd(Tcd),
}

impl Stage for Marking {
    type Params = Params;

    fn open(cx: &Cx<'_, Params>, seed: u64) -> Self {
        let Cx { now, link, .. } = *cx;
        match cx.params {
            Params::Red(params) => Self::Red(Red::open(&Cx { now, link, params }, seed)),
            Params::Tcd(params) => Self::Tcd(Tcd::open(&Cx { now, link, params }, seed)),
        }
    }

    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event) -> Verdict {
        let Cx { now, link, .. } = *cx;
        match (self, cx.params) {
            (Self::Red(red), Params::Red(params)) => red.on(&Cx { now, link, params }, event),
            (Self::Tcd(tcd), Params::Tcd(params)) => tcd.on(&Cx { now, link, params }, event),
            _ => Verdict::PASS,
        }
    }
}
