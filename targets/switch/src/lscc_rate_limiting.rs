//! LSCC where the long link goes out: direct CNPs to the sources of this datacentre.

use crate::event::{Event, Kind, Queue};
use crate::grid::{Grid, REST};
use crate::{Answer, Hardware, Program};
use cc_core::params::{ParamError, Preset};
use cc_core::wire::opcode::Class;
use cc_core::wire::{self, CnpMarking, FlowKey, Packet, RateMessage, Roce};
use cc_core::{Instant, Port, Qpn};
use cc_cp::Endpoint;
use cc_cp::lscc::rate_limiting::{LimitingSettings, PRESETS, Params, RateLimiting};
use cc_cp::segment::Transit;

/// Sets of the table of flows.
const SETS: usize = 16;
/// Flows in each set.
const WAYS: usize = 4;

type Machine = RateLimiting<SETS, WAYS>;

/// The limiting of every port and priority. A packet arrives by the long link, and leaves by it.
pub struct Limiting {
    params: Params,
    links: Grid<Machine>,
    due: Instant,
}

/// What the stage is told of a packet; what is no RoCE counts as bytes alone.
fn transit(packet: &cc_cp::Packet, roce: Option<&Roce<'_>>) -> Transit {
    let nobody = FlowKey { peers: 0, data_qpn: Qpn::new(0) };
    let data = roce.is_some_and(|roce| !matches!(roce.info.class(), Class::Ack | Class::Cnp));
    Transit { flow: roce.map_or(nobody, FlowKey::of), data, bytes: packet.bytes, ecn: packet.ecn }
}

impl Program for Limiting {
    type Settings = LimitingSettings;

    const NAME: &'static str = "lscc_rate_limiting";
    const PRESETS: &'static [Preset<LimitingSettings>] = PRESETS;
    const TAKES: &'static [Kind] = &[Kind::Arrived, Kind::Left];
    const STATE_BYTES: usize = size_of::<RateLimiting<2, 1>>() - 2 * Self::FLOW_BYTES;
    const QUEUE_BYTES: usize = size_of::<Option<Machine>>() - Self::FLOWS * Self::FLOW_BYTES;
    const FLOW_BYTES: usize = (size_of::<RateLimiting<4, 1>>() - size_of::<RateLimiting<2, 1>>()) / 2;
    const FLOWS: usize = SETS * WAYS;

    fn new(start: Instant, port: &Port, settings: &LimitingSettings) -> Result<Self, ParamError> {
        Ok(Self { params: Params::new(settings, port)?, links: Grid::new(), due: start.after(REST) })
    }

    #[inline(always)]
    fn on<H: Hardware>(&mut self, now: Instant, queue: Queue, event: &Event, frame: &[u8], hw: &mut H) {
        let p = &self.params;
        let (Event::Arrived { bytes, .. } | Event::Left(cc_cp::Packet { bytes, .. })) = *event else { return };
        let Some(link) = self.links.of(queue, || Machine::open(p, now.stamp())) else { return };
        let wire_bytes = bytes.get() as usize;
        let roce = match wire::parse(frame, wire_bytes) {
            Ok(Packet::Roce(roce)) => Some(roce),
            _ => None,
        };
        match (event, roce) {
            (Event::Left(packet), roce) => {
                let rewrite = link.forward(p, now, &transit(packet, roce.as_ref()));
                hw.answer(queue, &Answer::Rewrite(rewrite.ecn));
                let cnp = roce.and_then(|roce| rewrite.cnp(&roce, CnpMarking::default()));
                if let Some(Ok(length)) = cnp.map(|cnp| cnp.emit::<H::Crc>(hw.transmit_buffer())) {
                    hw.transmit(length);
                }
            }
            (_, Some(cnp)) => link.cnp(p, now.stamp(), &cnp),
            (_, None) => {
                if let Ok(message) = RateMessage::parse(frame, wire_bytes) {
                    link.heard(p, now.stamp(), &message);
                }
            }
        }
    }

    fn wake<H: Hardware>(&mut self, now: Instant, _hw: &mut H) {
        for (_, link) in self.links.open() {
            link.wake(&self.params, now.stamp());
        }
        self.due = now.after(REST);
    }

    fn next_wake(&self) -> Instant {
        self.due
    }
}
