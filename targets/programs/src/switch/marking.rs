//! The stages that say something of each packet that leaves: marks, and telemetry.

use crate::switch::event::{Event, Kind, Queue};
use crate::switch::grid::REST;
use crate::switch::{Hardware, PORTS, PRIORITIES, Program, StageAction};
use cc_core::params::{ParamError, Preset};
use cc_core::{Instant, Link, Zeroed};
use cc_cp::{CongestionPoint, CpEngine};

/// Where the random numbers of a switch begin.
const SEED: u64 = 1;

/// A congestion point on every queue.
pub struct Marking<S: CongestionPoint> {
    engine: CpEngine<S, PORTS, PRIORITIES>,
    due: Instant,
}

/// Marks by RED.
pub type Red = Marking<cc_cp::red::Red>;
/// Marks by TCD.
pub type Tcd = Marking<cc_cp::tcd::Tcd>;
/// Telemetry.
pub type Int = Marking<cc_cp::int::IntPush>;

impl<S: CongestionPoint> Zeroed for Marking<S> {
    const ZEROED: Self = Self { engine: CpEngine::new(0), due: Instant::ZEROED };
}

impl<S: CongestionPoint> Program for Marking<S> {
    type Settings = S::Settings;

    const NAME: &'static str = S::NAME;
    const PRESETS: &'static [Preset<S::Settings>] = S::PRESETS;
    const TAKES: &'static [Kind] = &[Kind::Left, Kind::Paused];
    const STATE_BYTES: usize = size_of::<S>();
    const QUEUE_BYTES: usize = size_of::<CpEngine<S, 2, 1>>() - size_of::<CpEngine<S, 1, 1>>();

    fn begin(&mut self, start: Instant, link: &Link, settings: &S::Settings) -> Result<(), ParamError> {
        self.engine.seed(SEED);
        for number in 0..PORTS {
            for priority in 0..PRIORITIES {
                // All of them exist.
                let _ = self.engine.configure(start, number, priority, link, S::check(settings, link)?);
            }
        }
        self.due = start.after(REST);
        Ok(())
    }

    #[inline(always)]
    fn on<H: Hardware>(&mut self, now: Instant, queue: Queue, event: &Event, _frame: &[u8], hw: &mut H) {
        let (port, priority) = (usize::from(queue.port), usize::from(queue.priority));
        match *event {
            Event::Left(packet) => {
                let verdict = self.engine.dequeue(now, port, priority, &packet);
                hw.act(queue, &StageAction::Verdict(verdict));
            }
            Event::Paused { time, queued } => self.engine.pause(now, port, priority, time, queued),
            Event::Arrived { .. } | Event::Told(_) => {}
        }
    }

    fn wake<H: Hardware>(&mut self, now: Instant, hw: &mut H) {
        self.engine.wake(now, |port, priority| hw.queued(Queue { port: port as u8, priority: priority as u8 }));
        self.due = now.after(REST);
    }

    fn next_wake(&self) -> Instant {
        self.due
    }
}
