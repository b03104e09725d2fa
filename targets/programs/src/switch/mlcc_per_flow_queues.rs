//! MLCC where the long link comes in: a queue for each flow, which its receiver lets go.

use crate::switch::ending::{End, Ending};
use cc_core::params::{ParamError, Preset};
use cc_core::wire::{FlowKey, Roce};
use cc_core::{Link, Nanos, Stamp};
use cc_cp::mlcc::per_flow_queues::{self, PRESETS, Params, PerFlowQueuesSettings};
use cc_cp::segment::Transit;

/// Sets of the table of flows.
const SETS: usize = 16;
/// Flows in each set.
const WAYS: usize = 4;

/// The queues of every port and priority. Data and acknowledgements arrive, and data leaves.
pub type PerFlowQueues = Ending<per_flow_queues::PerFlowQueues<SETS, WAYS>>;

impl End for per_flow_queues::PerFlowQueues<SETS, WAYS> {
    type Settings = PerFlowQueuesSettings;

    const NAME: &'static str = "mlcc_per_flow_queues";
    const PRESETS: &'static [Preset<PerFlowQueuesSettings>] = PRESETS;
    const FLOW_BYTES: usize =
        (size_of::<per_flow_queues::PerFlowQueues<4, 1>>() - size_of::<per_flow_queues::PerFlowQueues<2, 1>>()) / 2;
    const FLOWS: usize = SETS * WAYS;

    fn params(settings: &PerFlowQueuesSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn begin(&mut self, _p: &Params, _now: Stamp) {}

    fn arrived(&mut self, p: &Params, now: Stamp, roce: &Roce<'_>, packet: &Transit) {
        if packet.data {
            self.arrive(p, now, packet);
        } else {
            self.acknowledgement(p, roce);
        }
    }

    fn wait(&self, now: Stamp, flow: FlowKey) -> Option<Nanos> {
        self.release(flow).map(|_| self.wait(now, flow))
    }

    fn wake(&mut self, _p: &Params, now: Stamp) {
        self.wake(now);
    }
}
