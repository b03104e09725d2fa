//! Swing's relays: each port and priority has one for the packets that come by the long link, and one for those that go.

use crate::switch::event::{Event, Kind, Queue};
use crate::switch::grid::{Grid, REST, sooner};
use crate::switch::{Answer, Hardware, Program};
use cc_core::params::{ParamError, Preset};
use cc_core::{Blank, Instant, Nanos, Port, Stamp};
use cc_cp::swing::{FarRelay, NearRelay, PRESETS, Params, Relayed, SwingSettings};

cc_core::blank! {
    /// The relays of one end of a long link.
    struct Pair {
        /// For what comes.
        far: FarRelay,
        /// For what goes.
        near: NearRelay,
        /// When the pause of the far relay runs out, while there is one.
        until: Stamp,
    }
}

impl Pair {
    fn open(p: &Params, now: Stamp) -> Self {
        Self { far: FarRelay::open(p, now), near: NearRelay::open(p, now), until: now }
    }

    /// What has fallen due, as answers.
    fn wake<H: Hardware>(&mut self, p: &Params, now: Instant, queue: Queue, hw: &mut H) {
        let stamp = now.stamp();
        let over = !self.far.may_drain() && self.until.is_due(stamp);
        let relayed = if over { self.far.paused(p, stamp, false) } else { self.far.wake(p, stamp) };
        relay(queue, relayed, hw);
        pause(queue, self.near.wake(p, stamp), hw);
    }

    fn next_wake(&self, now: Instant, due: Instant) -> Instant {
        let stamp = now.stamp();
        let due = sooner(due, now, self.far.next_wake(stamp).min(self.near.next_wake(stamp)));
        let left = if self.until.is_due(stamp) { Nanos::ZERO } else { self.until.since(stamp) };
        if self.far.may_drain() { due } else { sooner(due, now, left) }
    }
}

fn relay<H: Hardware>(queue: Queue, relayed: Option<Relayed>, hw: &mut H) {
    if let Some(relayed) = relayed {
        hw.answer(queue, &Answer::Relay(relayed));
    }
}

fn pause<H: Hardware>(queue: Queue, quanta: Option<u16>, hw: &mut H) {
    if let Some(quanta) = quanta {
        hw.answer(queue, &Answer::Pause(quanta));
    }
}

/// The relays of every port and priority.
pub struct Relays {
    params: Params,
    links: Grid<Pair>,
    due: Instant,
}

impl Blank for Relays {
    const BLANK: Self = Self { params: Params::BLANK, links: Grid::BLANK, due: Instant::BLANK };
}

impl Program for Relays {
    type Settings = SwingSettings;

    const NAME: &'static str = "swing";
    const PRESETS: &'static [Preset<SwingSettings>] = PRESETS;
    const TAKES: &'static [Kind] = &[Kind::Arrived, Kind::Left, Kind::Paused, Kind::Told];
    const STATE_BYTES: usize = size_of::<FarRelay>() + size_of::<NearRelay>();
    const QUEUE_BYTES: usize = Grid::<Pair>::PLACE_BYTES;

    fn begin(&mut self, start: Instant, port: &Port, settings: &SwingSettings) -> Result<(), ParamError> {
        self.params = Params::new(settings, port)?;
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
            Event::Told(message) => pause(queue, link.near.heard(p, stamp, message), hw),
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
