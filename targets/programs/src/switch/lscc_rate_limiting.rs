//! LSCC where the long link goes out: direct CNPs to the sources of this datacentre.

use crate::switch::ending::{End, Ending};
use cc_core::params::{ParamError, Preset};
use cc_core::wire::{RateMessage, Roce};
use cc_core::{Port, Stamp};
use cc_cp::lscc::rate_limiting::{LimitingSettings, PRESETS, Params, RateLimiting};
use cc_cp::segment::Transit;

/// Sets of the table of flows.
const SETS: usize = 16;
/// Flows in each set.
const WAYS: usize = 4;

/// The limiting of every port and priority.
pub type Limiting = Ending<RateLimiting<SETS, WAYS>>;

impl End for RateLimiting<SETS, WAYS> {
    type Settings = LimitingSettings;

    const NAME: &'static str = "lscc_rate_limiting";
    const PRESETS: &'static [Preset<LimitingSettings>] = PRESETS;
    const FLOW_BYTES: usize = (size_of::<RateLimiting<4, 1>>() - size_of::<RateLimiting<2, 1>>()) / 2;
    const FLOWS: usize = SETS * WAYS;

    fn params(settings: &LimitingSettings, port: &Port) -> Result<Params, ParamError> {
        Params::new(settings, port)
    }

    fn begin(&mut self, p: &Params, now: Stamp) {
        self.begin(p, now);
    }

    fn arrived(&mut self, p: &Params, now: Stamp, roce: &Roce<'_>, _packet: &Transit) {
        self.cnp(p, now, roce);
    }

    fn told(&mut self, p: &Params, now: Stamp, message: &RateMessage) {
        self.heard(p, now, message);
    }

    fn wake(&mut self, p: &Params, now: Stamp) {
        self.wake(p, now);
    }
}
