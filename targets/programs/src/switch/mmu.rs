//! The shared buffer: what it admits, and whom it pauses.

use crate::switch::event::{Event, Kind, Queue};
use crate::switch::{Hardware, PORTS, PRIORITIES, Program, StageAction};
use cc_core::params::{ParamError, Preset};
use cc_core::{Instant, Link, Zeroed};
use cc_cp::mmu::{Mmu, MmuSettings, Params, PauseFrame};

/// The buffer of a switch.
pub struct Buffer {
    mmu: Mmu<PORTS, PRIORITIES>,
    due: Instant,
}

/// Until something pauses, nothing is due.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

impl Buffer {
    fn upstream<H: Hardware>(&mut self, now: Instant, pause: Option<PauseFrame>, hw: &mut H) {
        if let Some(pause) = pause {
            tell(pause, hw);
            self.due = self.mmu.next_wake(now).map_or(NEVER, |wait| now.after(wait));
        }
    }
}

fn tell<H: Hardware>((port, priority, quanta): PauseFrame, hw: &mut H) {
    hw.act(Queue { port: port as u8, priority: priority as u8 }, &StageAction::Pause(quanta));
}

impl Zeroed for Buffer {
    const ZEROED: Self = Self { mmu: Mmu::ZEROED, due: Instant::ZEROED };
}

impl Program for Buffer {
    type Settings = MmuSettings;

    const NAME: &'static str = "mmu";
    const PRESETS: &'static [Preset<MmuSettings>] = &[
        Preset {
            name: "hpcc",
            source: "HPCC's public simulator, switch-mmu.cc: dynamic thresholds in 32 MB",
            values: MmuSettings::HPCC,
        },
        Preset { name: "lscc", source: "LSCC IV-B: fixed thresholds, 300 and 100 KB", values: MmuSettings::LSCC },
    ];
    const TAKES: &'static [Kind] = &[Kind::Arrived, Kind::Left];
    const STATE_BYTES: usize = Self::QUEUE_BYTES;
    const QUEUE_BYTES: usize = size_of::<Mmu<2, 1>>() - size_of::<Mmu<1, 1>>();

    fn begin(&mut self, _start: Instant, link: &Link, settings: &MmuSettings) -> Result<(), ParamError> {
        self.mmu.set_params(Params::new(settings, link)?);
        self.due = NEVER;
        Ok(())
    }

    #[inline(always)]
    fn on<H: Hardware>(&mut self, now: Instant, queue: Queue, event: &Event, _frame: &[u8], hw: &mut H) {
        let (port, priority) = (usize::from(queue.port), usize::from(queue.priority));
        match *event {
            Event::Arrived { bytes, .. } => {
                let (admission, pause) = self.mmu.admit(now, port, priority, bytes);
                hw.act(queue, &StageAction::Admission(admission));
                self.upstream(now, pause, hw);
            }
            Event::Left(packet) => {
                let pause = self.mmu.release(now, port, priority, packet.bytes);
                self.upstream(now, pause, hw);
            }
            Event::Paused { .. } | Event::Told(_) => {}
        }
    }

    fn wake<H: Hardware>(&mut self, now: Instant, hw: &mut H) {
        self.mmu.wake(now, |pause| tell(pause, hw));
        self.due = self.mmu.next_wake(now).map_or(NEVER, |wait| now.after(wait));
    }

    fn next_wake(&self) -> Instant {
        self.due
    }
}
