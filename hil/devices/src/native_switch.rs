//! The stages of a switch that run natively, with the same switch as the firmware.

use super::device::Decisions;
use super::reference::{Handled, Reference};
use anyhow::{Result, ensure};
use cc_core::table::Heap;
use cc_core::{Bytes, Instant, Link, Zeroed};
use cc_cp::list::StageList;
use cc_cp::{Kind, Queue, registry};
use hil_capture::crc::HostCrc;
use hil_cores::board::{Action, LogRecord};
use programs::TransmitRing;
use programs::descriptor::Descriptor;
use programs::layout::TX_FRAME_BYTES;
use programs::switch_ring::{LogKind, QUEUES, StageAction, SwitchHardware, SwitchProgram};
use std::cell::RefCell;

/// Images of several stages in one chain, by the names of both.
pub const CHAINS: &[(&str, &[&str])] = &[("lscc", &["lscc_rate_calculation", "lscc_rate_limiting"])];

/// The names of all images of stages: those with one, and those with a chain.
pub fn names() -> impl Iterator<Item = &'static str> {
    registry::NAMES.iter().copied().chain(CHAINS.iter().map(|&(name, _)| name))
}

/// The image that has exactly these stages, in this order.
pub fn image(stages: &[&str]) -> Option<&'static str> {
    let chain = CHAINS.iter().find(|(_, chain)| *chain == stages).map(|&(name, _)| name);
    chain.or_else(|| registry::NAMES.iter().copied().find(|name| stages == [*name]))
}

/// A switch with these stages and their settings, each of whose ports is connected by such a link.
///
/// # Errors
/// The stages cannot be combined, or a setting is wrong on the link.
pub fn switch(stages: &[&str], settings: &[Vec<u32>], link: &Link) -> Result<SwitchProgram<StageList, Heap>> {
    let mut switch = SwitchProgram::<StageList, Heap>::ZEROED;
    for (stage, settings) in stages.iter().zip(settings) {
        switch.switch_mut().stages_mut().add(stage, settings)?;
    }
    switch.begin(Instant::from_nanos(0), link, &())?;
    Ok(switch)
}

/// The words of an action, as the board sees them.
pub fn words_of(queue: Queue, action: &StageAction) -> Vec<u32> {
    let mut words = Vec::new();
    let command = action.encode(queue, |word| words.push(word));
    words.push(command);
    words
}

/// A switch pipeline that records the actions of the stages, and what they read.
#[derive(Debug)]
pub struct Recorder {
    /// The bytes in each queue.
    pub queued: [u32; QUEUES],
    actions: RefCell<Vec<Action>>,
    transmit: [u8; TX_FRAME_BYTES],
}

impl Recorder {
    /// One that has recorded nothing, with empty queues.
    pub const fn new() -> Self {
        Self { queued: [0; QUEUES], actions: RefCell::new(Vec::new()), transmit: [0; TX_FRAME_BYTES] }
    }

    /// The actions since the last call.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(self.actions.get_mut())
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl TransmitRing for Recorder {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        &mut self.transmit
    }

    fn transmit(&mut self, length: usize) {
        self.actions.get_mut().push(Action::Frame(self.transmit.get(..length).unwrap_or_default().to_vec()));
    }
}

impl SwitchHardware for Recorder {
    type Crc = HostCrc;

    fn queued(&self, queue: Queue) -> Bytes {
        let bytes = self.queued.get(queue.index()).copied().unwrap_or(0);
        self.actions.borrow_mut().push(Action::Read { queue: queue.index() as u32, bytes });
        Bytes::new(bytes)
    }

    fn act(&mut self, queue: Queue, action: &StageAction) {
        self.actions.get_mut().push(Action::Stage(words_of(queue, action)));
    }

    fn log(&mut self, kind: u8, now: Instant, index: u32) {
        self.actions.get_mut().push(Action::Log(LogRecord { kind: kind.into(), now: now.nanos(), index }));
    }
}

/// A switch that runs natively and records its actions.
#[expect(missing_debug_implementations, reason = "thousands of records")]
pub struct NativeSwitch {
    program: SwitchProgram<StageList, Heap>,
    recorder: Recorder,
}

impl NativeSwitch {
    /// As [`switch`].
    ///
    /// # Errors
    /// As for [`switch`].
    pub fn new(stages: &[&str], settings: &[Vec<u32>], link: &Link) -> Result<Self> {
        Ok(Self { program: switch(stages, settings, link)?, recorder: Recorder::new() })
    }

    /// Its program.
    pub const fn program(&self) -> &SwitchProgram<StageList, Heap> {
        &self.program
    }
}

impl Reference for NativeSwitch {
    const WAKE: u32 = LogKind::Wake as u32;

    /// Its stages read from the queues what the image has read: in an event, all reads of a queue must be equal.
    fn handle_again(&mut self, now: u64, handled: &Handled, _: &mut Decisions) -> Result<Vec<(u64, Action)>> {
        let mut read = [None; QUEUES];
        for (_, action) in &handled.actions {
            if let Action::Read { queue, bytes } = *action
                && let Some(read) = read.get_mut(queue as usize)
            {
                ensure!(
                    read.is_none_or(|before| before == bytes),
                    "an image has read queue {queue} twice in one event"
                );
                *read = Some(bytes);
            }
        }
        self.recorder.queued = read.map(Option::unwrap_or_default);
        let time = Instant::from_nanos(now);
        match &handled.descriptor {
            None => self.program.timer(time, &mut self.recorder),
            Some((descriptor, frame)) => self.program.handle(time, descriptor, frame, &mut self.recorder),
        }
        Ok(self.recorder.take_actions().into_iter().map(|action| (now, action)).collect())
    }

    fn kind(number: u32) -> &'static str {
        let kind = Kind::ALL.into_iter().find(|&kind| kind as u32 == number);
        kind.map_or(if number == Self::WAKE { "wake" } else { "nothing" }, Kind::name)
    }

    fn is_command(_: &Descriptor) -> bool {
        false
    }
}
