//! Observers of a core: a wave recorder and a log reader. They do not change what the core does.

use crate::any_core::AnyCore;
use crate::board::Action;
use crate::core::{Core, Ibex, Picorv32, Stop};
use crate::log::Reader;
use crate::wave::{Explain, Recorder};

/// Callbacks by which the board's user reports events and decisions to observers. A core without observers ignores them.
pub trait CoreObserver: Core {
    /// Called before each event. The clock shows `now`, in nanoseconds, in the present cycle.
    fn event(&mut self, now: u64) {
        let _ = now;
    }

    /// Called after one or more events with the image's actions, each with its cycle; `explain` returns the variables behind
    /// the decisions for a slot.
    fn decided(&mut self, actions: &[(u64, Action)], explain: Explain<'_>) {
        let _ = (actions, explain);
    }
}

impl CoreObserver for Ibex {}
impl CoreObserver for Picorv32 {}
impl CoreObserver for AnyCore {}

/// A core to which observers can be attached.
#[derive(Debug)]
pub struct ObservedCore {
    core: AnyCore,
    recorder: Option<Box<Recorder>>,
    log: Option<Box<Reader>>,
}

impl From<AnyCore> for ObservedCore {
    /// A core without observers.
    fn from(core: AnyCore) -> Self {
        Self { core, recorder: None, log: None }
    }
}

impl ObservedCore {
    /// Records a wave from now on.
    pub fn record(&mut self, recorder: Recorder) {
        self.recorder = Some(Box::new(recorder));
    }

    /// Reads the image's log from now on.
    pub fn read_log(&mut self, reader: Reader) {
        self.log = Some(Box::new(reader));
    }

    /// Stops recording and returns the recorder, if there is one.
    pub fn take_recorder(&mut self) -> Option<Recorder> {
        self.recorder.take().map(|recorder| *recorder)
    }
}

impl CoreObserver for ObservedCore {
    fn event(&mut self, now: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.event(now, self.core.cycles());
        }
        if let Some(log) = &mut self.log {
            log.event(now, self.core.cycles());
        }
    }

    fn decided(&mut self, actions: &[(u64, Action)], explain: Explain<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.decided(actions, explain);
        }
    }
}

impl Core for ObservedCore {
    fn cycles(&self) -> u64 {
        self.core.cycles()
    }

    fn instructions(&self) -> u64 {
        self.core.instructions()
    }

    fn run(&mut self, until: u64) -> Stop {
        let stop = match &mut self.recorder {
            None => self.core.run(until),
            Some(recorder) => recorder.run(&mut self.core, until),
        };
        if let (Some(log), Stop::Store { address, value, .. }) = (&mut self.log, stop) {
            log.stored(&mut self.core, address, value);
        }
        stop
    }

    fn answer(&mut self, value: u32) {
        self.core.answer(value);
    }

    fn set_timer_line(&mut self, high: bool) {
        self.core.set_timer_line(high);
        if let Some(recorder) = &mut self.recorder {
            recorder.timer_line(self.core.cycles(), high);
        }
    }

    fn set_external_line(&mut self, high: bool) {
        self.core.set_external_line(high);
        if let Some(recorder) = &mut self.recorder {
            recorder.external_line(self.core.cycles(), high);
        }
    }

    fn sleep_until(&mut self, cycle: u64) {
        self.core.sleep_until(cycle);
    }

    fn peek(&self, address: u32, bytes: &mut [u8]) {
        self.core.peek(address, bytes);
    }

    fn poke(&mut self, address: u32, bytes: &[u8]) {
        self.core.poke(address, bytes);
    }

    fn register(&self, index: usize) -> u32 {
        self.core.register(index)
    }

    fn watch(&mut self, pc: u32) {
        self.core.watch(pc);
    }

    fn unwatch(&mut self, pc: u32) {
        self.core.unwatch(pc);
    }

    fn upcoming(&self) -> Option<(u64, u32)> {
        self.core.upcoming()
    }

    /// The copy has no observers.
    fn fork(&self) -> Option<Self> {
        self.core.fork().map(Self::from)
    }
}
