//! MLCC where the long link goes out: the telemetry of this datacentre goes back to its sources.

use crate::switch::ending::{End, Ending};
use cc_core::params::{ParamError, Preset};
use cc_core::wire::Roce;
use cc_core::{Link, Stamp};
use cc_cp::mlcc::near_source::{self, NearSourceSettings, PRESETS, Params};
use cc_cp::segment::Transit;

/// Sets of the table of flows.
const SETS: usize = 16;
/// Flows in each set.
const WAYS: usize = 4;

/// The near-source loop of every port and priority.
pub type NearSource = Ending<near_source::NearSource<SETS, WAYS>>;

impl End for near_source::NearSource<SETS, WAYS> {
    type Settings = NearSourceSettings;

    const NAME: &'static str = "mlcc_near_source";
    const PRESETS: &'static [Preset<NearSourceSettings>] = PRESETS;
    const FLOW_BYTES: usize =
        (size_of::<near_source::NearSource<4, 1>>() - size_of::<near_source::NearSource<2, 1>>()) / 2;
    const FLOWS: usize = SETS * WAYS;

    fn params(settings: &NearSourceSettings, _port: &Link) -> Result<Params, ParamError> {
        Params::new(settings)
    }

    fn begin(&mut self, _p: &Params, now: Stamp) {
        self.begin(now);
    }

    fn arrived(&mut self, _p: &Params, _now: Stamp, _roce: &Roce<'_>, _packet: &Transit) {}

    fn wake(&mut self, _p: &Params, now: Stamp) {
        self.wake(now);
    }
}
