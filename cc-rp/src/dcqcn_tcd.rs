//! DCQCN with ternary marks at the sender.
//!
//! Yiran Zhang et al., "Congestion Detection in Lossless Networks" (TCD), SIGCOMM 2021. The source of this file is the authors'
//! simulator, Yi-ran/DCQCN-TCD, `qbb-net-device.cc`, `rpr_cnm_received`; the text of the paper was not available. Switches mark
//! packets that passed a congested port differently from those that passed an undetermined port, whose queue may have grown
//! only because it was paused. A CNP of kind [`Undetermined`](CnpKind::Undetermined) means that the receiver got marks of the
//! latter kind only.
//!
//! - A CNP for congestion, and everything else that is not listed here, is handled exactly as by [`dcqcn`].
//! - An undetermined one does not cut, but restarts rate increase: R_T is set to R_C, the stages to 0, and rate timer, byte
//!   counter and alpha's period restart.
//!
//! Choices where the sources are silent:
//! - alpha stays as it is, since a later cut of a victim should not be larger because of congestion that it did not cause;
//!   `ue_raises_alpha` raises it as for congestion;
//! - R_T is set to R_C whatever the `clamp_tgt_rate` settings are, which apply to cuts;
//! - an unlimited flow is at line rate and cannot increase: it stays unlimited;
//! - with sampled alpha, a cut that is due at the next tick still happens.
//!
//! Late wakes change no decision, as in `dcqcn`.

use crate::CnpIgnored;
use crate::dcqcn::{self, Dcqcn, DcqcnSettings, DcqcnSnapshot};
use crate::{Cx, Decision, Event, EventSet, Limits, ReactionPoint, Signals, TraceValue};
use cc_core::params::{Field, ParamError, Preset, Settings, Unit, ranges};
use cc_core::{CnpBody, CnpBodyKind, CnpKind, Link, State, Zeroed};

/// The settings of [`DcqcnSettings`], and one more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DcqcnTcdSettings {
    /// The settings of DCQCN.
    pub dcqcn: DcqcnSettings,
    /// 1: an undetermined notification raises alpha.
    pub ue_raises_alpha: u32,
}

const UE_RAISES_ALPHA: Field = Field {
    name: "ue_raises_alpha",
    unit: Unit::Count,
    min: 0,
    max: 1,
    aliases: &[],
    doc: " 1: an undetermined notification raises alpha.",
};

/// How many settings DCQCN has.
const INHERITED: usize = DcqcnSettings::FIELDS.len();

impl Settings for DcqcnTcdSettings {
    const FIELDS: &'static [Field] = &joined::<_, { INHERITED + 1 }>(DcqcnSettings::FIELDS, &[UE_RAISES_ALPHA]);
    const RANGES: &'static [[u32; 2]] = &ranges::<{ INHERITED + 1 }>(Self::FIELDS);

    fn get(&self, index: usize) -> u32 {
        if index == INHERITED { self.ue_raises_alpha } else { self.dcqcn.get(index) }
    }

    fn put(&mut self, index: usize, value: u32) {
        if index == INHERITED {
            self.ue_raises_alpha = value;
        } else {
            self.dcqcn.put(index, value);
        }
    }
}

/// One list behind the other; `N` is the sum of their lengths.
#[expect(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "evaluated by the compiler only")]
const fn joined<T: Copy, const N: usize>(first: &[T], second: &[T]) -> [T; N] {
    let mut all = [first[0]; N];
    let mut index = 0;
    while index < N {
        all[index] = if index < first.len() { first[index] } else { second[index - first.len()] };
        index += 1;
    }
    all
}

/// DCQCN's paper, with undetermined notifications.
pub const PAPER: DcqcnTcdSettings = DcqcnTcdSettings { dcqcn: dcqcn::PAPER, ue_raises_alpha: 0 };

/// The TCD authors' simulator.
pub const TCD_SIM: DcqcnTcdSettings = DcqcnTcdSettings {
    dcqcn: DcqcnSettings { rpg_time_reset: 55, rpg_byte_reset: 156_250, ..dcqcn::NS3_RDMA },
    ue_raises_alpha: 0,
};

cc_core::zeroed! {
    /// Checked parameters, computed once for a port and shared by its flows.
    #[derive(Clone, Debug)]
    pub struct Params {
        dcqcn: dcqcn::Params,
        ue_raises_alpha: bool,
    }
}

/// One flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DcqcnTcd(Dcqcn);

/// The first transition for an undetermined notification, behind those of DCQCN.
const UNDETERMINED: usize = Dcqcn::TRANSITIONS.len();

impl State for DcqcnTcd {
    type Snapshot = DcqcnSnapshot;

    fn snapshot(&self) -> DcqcnSnapshot {
        self.0.snapshot()
    }

    fn from_snapshot(snapshot: DcqcnSnapshot) -> Self {
        Self(Dcqcn::from_snapshot(snapshot))
    }
}

impl ReactionPoint for DcqcnTcd {
    type Settings = DcqcnTcdSettings;
    type Params = Params;

    const NAME: &'static str = "dcqcn_tcd";
    const PRESETS: &'static [Preset<DcqcnTcdSettings>] = &[
        Preset {
            name: "paper",
            source: "dcqcn's paper; undetermined notifications as in Yi-ran/DCQCN-TCD",
            values: PAPER,
        },
        Preset {
            name: "tcd_sim",
            source: "Yi-ran/DCQCN-TCD, config/configburst.txt and qbb-net-device.cc: 55 us, 10 MB, F = 5, 40 and 200 \
                     Mb/s, g = 1/256, the rest as in the simulator that it grew from (dcqcn's ns3_rdma); its halved \
                     periods in hyper increase are left out",
            values: TCD_SIM,
        },
    ];
    const EVENTS: EventSet = Dcqcn::EVENTS;
    const SIGNALS: Signals = Dcqcn::SIGNALS.with(Signals::UNDETERMINED);
    const RECEIVER: Option<&'static str> = Some("dcqcn_tcd");
    const TRANSITIONS: &'static [&'static str] = &joined::<_, { UNDETERMINED + 4 }>(
        Dcqcn::TRANSITIONS,
        &[
            "unlimited, undetermined CNP: nothing",
            "fast recovery, undetermined CNP: R_T comes down to R_C, recovery restarts",
            "additive increase, undetermined CNP: R_T comes down to R_C, recovery restarts",
            "hyper increase, undetermined CNP: R_T comes down to R_C, recovery restarts",
        ],
    );

    fn check(settings: &DcqcnTcdSettings, link: &Link) -> Result<Params, ParamError> {
        let mut params = Params::ZEROED;
        Self::check_into(&mut params, settings, link)?;
        Ok(params)
    }

    fn check_into(params: &mut Params, settings: &DcqcnTcdSettings, link: &Link) -> Result<(), ParamError> {
        settings.in_range()?;
        params.ue_raises_alpha = settings.ue_raises_alpha == 1;
        params.dcqcn.set(&settings.dcqcn, link)
    }

    fn transition(&self, cx: &Cx<'_, Params>, event: &Event<'_>) -> usize {
        let row = self.0.transition(&inner(cx), event);
        match undetermined(event) {
            // DCQCN has three transitions for each phase: the phase is a third of the number, here by multiplication, exact
            // below 16.
            Some(_) => UNDETERMINED.wrapping_add(row.wrapping_mul(11) >> 5),
            None => row,
        }
    }

    fn limits(params: &Params, link: &Link) -> Limits {
        Dcqcn::limits(&params.dcqcn, link)
    }

    fn open(cx: &Cx<'_, Params>) -> Self {
        Self(Dcqcn::open(&inner(cx)))
    }

    fn trace_values(&self, params: &Params, show: &mut dyn FnMut(TraceValue)) {
        self.0.trace_values(&params.dcqcn, show);
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>) -> Decision {
        let inner = inner(cx);
        match undetermined(event) {
            Some(body) => self.0.undetermined(&inner, body.seq, cx.params.ue_raises_alpha),
            None => self.0.on(&inner, event),
        }
    }

    #[inline]
    fn cnp_filter(&self, body_kind: &CnpBodyKind) -> Option<CnpIgnored> {
        match body_kind {
            CnpBodyKind::Extended(body) if body.kind == CnpKind::Undetermined => {
                self.0.cnp_filter(&as_congestion(body))
            }
            _ => self.0.cnp_filter(body_kind),
        }
    }
}

impl DcqcnTcd {
    /// The DCQCN machine, which takes every event except undetermined notifications.
    pub const fn dcqcn(&self) -> &Dcqcn {
        &self.0
    }
}

#[inline]
const fn inner<'a>(cx: &Cx<'a, Params>) -> Cx<'a, dcqcn::Params> {
    Cx {
        now: cx.now,
        link: cx.link,
        params: &cx.params.dcqcn,
        pause: cx.pause,
        clock_without_pauses: cx.clock_without_pauses,
    }
}

/// The body of the notification, if the event is an undetermined one.
#[inline]
const fn undetermined<'a>(event: &'a Event<'_>) -> Option<&'a CnpBody> {
    match event {
        Event::Cnp { body_kind: CnpBodyKind::Extended(body) } if matches!(body.kind, CnpKind::Undetermined) => {
            Some(body)
        }
        _ => None,
    }
}

/// The same notification as one of DCQCN's kind, so that DCQCN checks its number.
#[inline]
const fn as_congestion(body: &CnpBody) -> CnpBodyKind {
    CnpBodyKind::Extended(CnpBody { kind: CnpKind::Standard, ..*body })
}

#[cfg(test)]
mod tests;
