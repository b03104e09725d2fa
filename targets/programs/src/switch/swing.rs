//! Swing's relays: each port and priority has one for the packets that come by the long link, and one for those that go.

use crate::switch::event::{Event, Kind, Queue};
use crate::switch::grid::{Grid, REST, earlier};
use crate::switch::{Hardware, Program, StageAction};
use cc_core::params::{ParamError, Preset};
use cc_core::{Instant, Link, Nanos, Stamp, Zeroed};
use cc_cp::swing::{PRESETS, Params, ReceiverRelay, RelayMessage, SenderRelay, SwingSettings};

cc_core::zeroed! {
    /// The relays of one end of a long link.
    struct Pair {
        /// For what comes.
        far: ReceiverRelay,
        /// For what goes.
        near: SenderRelay,
        /// When the pause of the far relay runs out, while there is one.
        until: Stamp,
    }
}

impl Pair {
    fn open(p: &Params, now: Stamp) -> Self {
        Self { far: ReceiverRelay::open(p, now), near: SenderRelay::open(p, now), until: now }
    }

    /// What has fallen due, as answers.
    fn wake<H: Hardware>(&mut self, p: &Params, now: Instant, queue: Queue, hw: &mut H) {
        let stamp = now.stamp();
        let over = !self.far.is_draining() && self.until.is_due(stamp);
        let relayed = if over { self.far.paused(p, stamp, false) } else { self.far.wake(p, stamp) };
        relay(queue, relayed, hw);
        pause(queue, self.near.wake(p, stamp), hw);
    }

    fn next_wake(&self, now: Instant, due: Instant) -> Instant {
        let stamp = now.stamp();
        let due = earlier(due, now, self.far.next_wake(stamp).min(self.near.next_wake(stamp)));
        let left = if self.until.is_due(stamp) { Nanos::ZERO } else { self.until.since(stamp) };
        if self.far.is_draining() { due } else { earlier(due, now, left) }
    }
}

fn relay<H: Hardware>(queue: Queue, relayed: Option<RelayMessage>, hw: &mut H) {
    if let Some(relayed) = relayed {
        hw.act(queue, &StageAction::Relay(relayed));
    }
}

fn pause<H: Hardware>(queue: Queue, quanta: Option<u16>, hw: &mut H) {
    if let Some(quanta) = quanta {
        hw.act(queue, &StageAction::Pause(quanta));
    }
}

/// The relays of every port and priority.
pub struct Relays {
    params: Params,
    links: Grid<Pair>,
    due: Instant,
}

impl Zeroed for Relays {
    const ZEROED: Self = Self { params: Params::ZEROED, links: Grid::ZEROED, due: Instant::ZEROED };
}

impl Program for Relays {
    type Settings = SwingSettings;

    const NAME: &'static str = "swing";
    const PRESETS: &'static [Preset<SwingSettings>] = PRESETS;
    const TAKES: &'static [Kind] = &[Kind::Arrived, Kind::Left, Kind::Paused, Kind::Told];
    const STATE_BYTES: usize = size_of::<ReceiverRelay>() + size_of::<SenderRelay>();
    const QUEUE_BYTES: usize = Grid::<Pair>::PLACE_BYTES;

    fn begin(&mut self, start: Instant, link: &Link, settings: &SwingSettings) -> Result<(), ParamError> {
        self.params = Params::new(settings, link)?;
        self.due = start.after(REST);
        Ok(())
    }

    #[inline(always)]
    fn on<H: Hardware>(&mut self, now: Instant, queue: Queue, event: &Event, _frame: &[u8], hw: &mut H) {
        let (p, stamp) = (&self.params, now.stamp());
        let Some(link) = self.links.of(queue, |link| *link = Pair::open(p, stamp)) else { return };
        match *event {
            Event::Arrived { bytes, .. } => relay(queue, link.far.arrived(p, stamp, bytes), hw),
            Event::Left(packet) => relay(queue, link.far.left(p, stamp, packet.bytes), hw),
            Event::Paused { time, .. } => {
                link.until = stamp.after(time);
                relay(queue, link.far.paused(p, stamp, time.get() > 0), hw);
            }
            Event::Told(message) => pause(queue, link.near.on_message(p, stamp, message), hw),
        }
        self.due = link.next_wake(now, self.due);
    }

    fn wake<H: Hardware>(&mut self, now: Instant, hw: &mut H) {
        self.due = now.after(REST);
        for (queue, link) in self.links.open() {
            link.wake(&self.params, now, queue, hw);
            self.due = link.next_wake(now, self.due);
        }
    }

    fn next_wake(&self) -> Instant {
        self.due
    }
}
