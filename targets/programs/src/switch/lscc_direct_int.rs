//! HPCC* where the long link goes out: direct INT to the sources of this datacentre.

use crate::switch::ending::{End, Ending};
use cc_core::params::{ParamError, Preset};
use cc_core::wire::{RateMessage, Roce};
use cc_core::{Link, Stamp};
use cc_cp::lscc::direct_int::{self, DirectIntSettings, PRESETS, Params};
use cc_cp::segment::Transit;

/// Places for which flows take turns.
const SLOTS: usize = 64;

/// The direct INT of every port and priority.
pub type DirectInt = Ending<direct_int::DirectInt<SLOTS>>;

impl End for direct_int::DirectInt<SLOTS> {
    type Settings = DirectIntSettings;

    const NAME: &'static str = "lscc_direct_int";
    const PRESETS: &'static [Preset<DirectIntSettings>] = PRESETS;
    const FLOW_BYTES: usize = size_of::<Stamp>();
    const FLOWS: usize = SLOTS;

    fn params(settings: &DirectIntSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn begin(&mut self, p: &Params, now: Stamp) {
        self.begin(p, now);
    }

    fn arrived(&mut self, _p: &Params, _now: Stamp, _roce: &Roce<'_>, _packet: &Transit) {}

    fn told(&mut self, p: &Params, now: Stamp, message: &RateMessage) {
        self.on_message(p, now, message);
    }

    fn wake(&mut self, p: &Params, now: Stamp) {
        self.wake(p, now);
    }
}
