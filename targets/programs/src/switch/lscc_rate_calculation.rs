//! LSCC where the long link comes in: how fast the other datacentre may send.

use crate::switch::event::{Event, Kind, Queue};
use crate::switch::grid::{Grid, REST, earlier};
use crate::switch::{Hardware, Program};
use cc_core::params::{ParamError, Preset};
use cc_core::wire::{Addresses, Mac, RateFrame, Tags};
use cc_core::{Instant, Link, Zeroed};
use cc_cp::lscc::rate_calculation::{Crossing, Feedback, PRESETS, Params, RateCalculation, RateCalculationSettings};
use core::net::Ipv4Addr;

/// Periods in a round trip, at most.
const ROOM: usize = 10;

type Machine = RateCalculation<ROOM>;

/// The calculation of every port and priority.
pub struct Calculation {
    params: Params,
    links: Grid<Machine>,
    due: Instant,
}

/// Sends the rate to the other end of the long link: the two ends have addresses of that link alone (RFC 3927).
fn send<H: Hardware>(now: Instant, queue: Queue, feedback: &Feedback, hw: &mut H) {
    let end = |end| Ipv4Addr::new(169, 254, queue.port, end);
    let frame = RateFrame {
        destination: Mac::new([2, 0, 0, 0, queue.port, 2]),
        source: Mac::new([2, 0, 0, 0, queue.port, 1]),
        tags: Tags::NONE,
        addresses: Addresses::V4 { source: end(1), destination: end(2) },
        dscp: 48,
        message: feedback.message(now.stamp(), u16::from(queue.port), queue.priority),
    };
    if let Ok(length) = frame.emit(hw.transmit_buffer()) {
        hw.transmit(length);
    }
}

impl Zeroed for Calculation {
    const ZEROED: Self = Self { params: Params::ZEROED, links: Grid::ZEROED, due: Instant::ZEROED };
}

impl Program for Calculation {
    type Settings = RateCalculationSettings;

    const NAME: &'static str = "lscc_rate_calculation";
    const PRESETS: &'static [Preset<RateCalculationSettings>] = PRESETS;
    const TAKES: &'static [Kind] = &[Kind::Arrived, Kind::Left];
    const STATE_BYTES: usize = size_of::<Machine>();
    const QUEUE_BYTES: usize = Grid::<Machine>::PLACE_BYTES;

    fn begin(&mut self, start: Instant, link: &Link, settings: &RateCalculationSettings) -> Result<(), ParamError> {
        self.params = Params::new(settings, link, ROOM)?;
        self.due = start.after(REST);
        Ok(())
    }

    #[inline(always)]
    fn on<H: Hardware>(&mut self, now: Instant, queue: Queue, event: &Event, _frame: &[u8], hw: &mut H) {
        let crossing = match *event {
            Event::Arrived { queued, .. } => Crossing::Arrived { queued },
            Event::Left(packet) => Crossing::Left { bytes: packet.bytes, queued: packet.queued },
            Event::Paused { .. } | Event::Told(_) => return,
        };
        let params = &self.params;
        let Some(link) = self.links.of(queue, |link| *link = Machine::open(params, now.stamp())) else { return };
        let feedback = link.on(params, now.stamp(), &crossing);
        self.due = earlier(self.due, now, link.next_wake(now.stamp()));
        if let Some(feedback) = feedback {
            send(now, queue, &feedback, hw);
        }
    }

    fn wake<H: Hardware>(&mut self, now: Instant, hw: &mut H) {
        self.due = now.after(REST);
        for (queue, link) in self.links.open() {
            let crossing = Crossing::Wake { queued: hw.queued(queue) };
            if let Some(feedback) = link.on(&self.params, now.stamp(), &crossing) {
                send(now, queue, &feedback, hw);
            }
            self.due = earlier(self.due, now, link.next_wake(now.stamp()));
        }
    }

    fn next_wake(&self) -> Instant {
        self.due
    }
}
