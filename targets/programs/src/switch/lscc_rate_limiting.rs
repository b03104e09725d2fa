//! LSCC where the long link goes out: direct CNPs to the sources of this datacentre.

use crate::switch::ending::{End, Ending};
use cc_core::params::{ParamError, Preset};
use cc_core::wire::{RateMessage, Roce};
use cc_core::{Link, Stamp};
use cc_cp::lscc::rate_limiting::{PRESETS, Params, RateLimiting, RateLimitingSettings};
use cc_cp::segment::Transit;

/// Sets of the table of flows.
const SETS: usize = 16;
/// Flows in each set.
const WAYS: usize = 4;

/// The limiting of every port and priority.
pub type Limiting = Ending<RateLimiting<SETS, WAYS>>;

impl End for RateLimiting<SETS, WAYS> {
    type Settings = RateLimitingSettings;

    const NAME: &'static str = "lscc_rate_limiting";
    const PRESETS: &'static [Preset<RateLimitingSettings>] = PRESETS;
    const FLOW_BYTES: usize = (size_of::<RateLimiting<4, 1>>() - size_of::<RateLimiting<2, 1>>()) / 2;
    const FLOWS: usize = SETS * WAYS;

    fn params(settings: &RateLimitingSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn begin(&mut self, p: &Params, now: Stamp) {
        self.begin(p, now);
    }

    fn arrived(&mut self, p: &Params, now: Stamp, roce: &Roce<'_>, _packet: &Transit) {
        self.cnp(p, now, roce);
    }

    fn told(&mut self, p: &Params, now: Stamp, message: &RateMessage) {
        self.on_message(p, now, message);
    }

    fn wake(&mut self, p: &Params, now: Stamp) {
        self.wake(p, now);
    }
}
