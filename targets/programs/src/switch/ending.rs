//! Ends of control segments: what interconnect switches do to the packets that pass a long link's end.

use crate::switch::event::{Event, Kind, Queue};
use crate::switch::grid::{Grid, REST};
use crate::switch::{Hardware, Program, StageAction};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::wire::opcode::Class;
use cc_core::wire::{self, CnpMarking, FlowKey, Parsed, RateMessage, Roce, shim};
use cc_core::{Bytes, Instant, Link, Nanos, Qpn, Stamp, Zeroed};
use cc_cp::Endpoint;
use cc_cp::segment::{Room, Transit};

/// The end of a segment, as the program of a switch runs it.
pub trait End: Endpoint<Params: Zeroed> + Zeroed {
    /// What the user sets.
    type Settings: Settings;

    /// See [`Program::NAME`].
    const NAME: &'static str;
    /// See [`Program::PRESETS`].
    const PRESETS: &'static [Preset<Self::Settings>];
    /// See [`Program::FLOW_BYTES`].
    const FLOW_BYTES: usize;
    /// See [`Program::FLOWS`].
    const FLOWS: usize;

    /// What the end computes with.
    ///
    /// # Errors
    /// A setting out of range, or wrong on this port.
    fn params(settings: &Self::Settings, link: &Link) -> Result<Self::Params, ParamError>;

    /// Becomes the end of a link by which nothing has gone, of what is blank.
    fn begin(&mut self, p: &Self::Params, now: Stamp);

    /// A RoCE packet comes in by the port.
    fn arrived(&mut self, p: &Self::Params, now: Stamp, roce: &Roce<'_>, packet: &Transit);

    /// A rate of the far end comes in by the port.
    fn told(&mut self, p: &Self::Params, now: Stamp, message: &RateMessage) {
        let _ = (p, now, message);
    }

    /// How long the next packet of a flow has to wait, where it has a queue of its own.
    fn wait(&self, now: Stamp, flow: FlowKey) -> Option<Nanos> {
        let _ = (now, flow);
        None
    }

    /// Lets time pass.
    fn wake(&mut self, p: &Self::Params, now: Stamp);
}

/// The end of a segment at every port and priority.
pub struct Ending<E: End> {
    params: E::Params,
    links: Grid<E>,
    due: Instant,
}

/// What an end is told of a packet.
fn transit(roce: &Roce<'_>, bytes: Bytes, ecn: cc_core::Ecn) -> Transit {
    let data = !matches!(roce.info.class(), Class::Ack | Class::Cnp);
    Transit { flow: FlowKey::of_data(roce), data, bytes, ecn }
}

/// What counts as bytes alone.
fn no_roce(bytes: Bytes, ecn: cc_core::Ecn) -> Transit {
    Transit { flow: FlowKey { peers: 0, data_qpn: Qpn::new(0) }, data: false, bytes, ecn }
}

impl<E: End> Ending<E> {
    /// A packet leaves: it is rewritten, and its sender perhaps notified.
    #[inline]
    fn left<H: Hardware>(&mut self, now: Instant, queue: Queue, packet: &cc_cp::Packet, frame: &[u8], hw: &mut H) {
        let p = &self.params;
        let Some(link) = self.links.of(queue, |link| link.begin(p, now.stamp())) else { return };
        let Ok(Parsed::Roce(roce)) = wire::parse(frame, packet.bytes.get() as usize) else {
            let rewrite = link.forward(p, now, &no_roce(packet.bytes, packet.ecn));
            hw.act(queue, &StageAction::rewrite(&rewrite));
            return;
        };
        let transit = transit(&roce, packet.bytes, packet.ecn);
        let rewrite = link.forward(p, now, &transit);
        hw.act(queue, &StageAction::rewrite(&rewrite));
        if let Some(wait) = link.wait(now.stamp(), transit.flow) {
            hw.act(queue, &StageAction::Hold(transit.flow, wait));
        }
        if rewrite.notify.is_some() {
            let mut room: Room = [0; shim::IntShim::LONGEST];
            let cnp = rewrite.cnp(&roce, CnpMarking::default(), &mut room);
            if let Some(Ok(length)) = cnp.map(|cnp| cnp.emit::<H::Crc>(hw.transmit_buffer())) {
                hw.transmit(length);
            }
        }
    }

    /// A packet comes in.
    #[inline]
    fn arrived(&mut self, now: Instant, queue: Queue, bytes: Bytes, frame: &[u8]) {
        let (p, now, wire_bytes) = (&self.params, now.stamp(), bytes.get() as usize);
        let Some(link) = self.links.of(queue, |link| link.begin(p, now)) else { return };
        match wire::parse(frame, wire_bytes) {
            Ok(Parsed::Roce(roce)) => {
                let transit = transit(&roce, bytes, roce.ecn);
                link.arrived(p, now, &roce, &transit);
            }
            Ok(Parsed::NotRoce(_)) => {
                if let Ok(message) = RateMessage::parse(frame, wire_bytes) {
                    link.told(p, now, &message);
                }
            }
            _ => {}
        }
    }
}

impl<E: End> Zeroed for Ending<E> {
    const ZEROED: Self = Self { params: Zeroed::ZEROED, links: Grid::ZEROED, due: Instant::ZEROED };
}

impl<E: End> Program for Ending<E> {
    type Settings = E::Settings;

    const NAME: &'static str = E::NAME;
    const PRESETS: &'static [Preset<E::Settings>] = E::PRESETS;
    const TAKES: &'static [Kind] = &[Kind::Arrived, Kind::Left];
    const STATE_BYTES: usize = size_of::<E>() - Self::FLOWS * Self::FLOW_BYTES;
    const QUEUE_BYTES: usize = Grid::<E>::PLACE_BYTES - Self::FLOWS * Self::FLOW_BYTES;
    const FLOW_BYTES: usize = E::FLOW_BYTES;
    const FLOWS: usize = E::FLOWS;

    fn begin(&mut self, start: Instant, link: &Link, settings: &E::Settings) -> Result<(), ParamError> {
        self.params = E::params(settings, link)?;
        self.due = start.after(REST);
        Ok(())
    }

    #[inline(always)]
    fn on<H: Hardware>(&mut self, now: Instant, queue: Queue, event: &Event, frame: &[u8], hw: &mut H) {
        match *event {
            Event::Arrived { bytes, .. } => self.arrived(now, queue, bytes, frame),
            Event::Left(packet) => self.left(now, queue, &packet, frame, hw),
            Event::Paused { .. } | Event::Told(_) => {}
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
