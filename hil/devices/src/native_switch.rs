//! The stages of a switch that run natively, with the same switch as the firmware.

use super::device::Decisions;
use super::reference::{Handled, Reference};
use anyhow::{Result, ensure};
use cc_core::table::Heap;
use cc_core::{Bytes, Instant, Link, Zeroed};
use cc_cp::list::StageList;
use cc_cp::{Kind, Queue, registry};
use hil_capture::crc::HostCrc;
use hil_cores::board::{Action, BootSettings, LogRecord};
use programs::TransmitRing;
use programs::descriptor::Descriptor;
use programs::layout::TX_FRAME_BYTES;
use programs::switch_ring::{ARRIVED, LogKind, QUEUES, StageAction, SwitchHardware, SwitchProgram};
use std::cell::RefCell;

/// Images of several stages in one chain that are among those of the tree, by the names of both. Other chains are built when they are
/// needed: see [`image`].
pub const CHAINS: &[(&str, &[&str])] = &[("lscc", &["lscc_rate_calculation", "lscc_rate_limiting"])];

/// The names of all images of stages: those with one, and those with a chain.
pub fn names() -> impl Iterator<Item = &'static str> {
    registry::NAMES.iter().copied().chain(CHAINS.iter().map(|&(name, _)| name))
}

/// The name of the image that has exactly these stages, in the order of the registry.
pub fn image(stages: &[&str]) -> String {
    let chain = CHAINS.iter().find(|(_, chain)| *chain == stages);
    chain.map_or_else(|| stages.join("+"), |&(name, _)| name.to_owned())
}

/// A switch with these stages and their settings, each of whose ports is connected by such a link, and with this seed of its random
/// numbers.
///
/// # Errors
/// The stages cannot be combined, or a setting is wrong on the link.
pub fn switch(
    stages: &[&str],
    settings: &[Vec<u32>],
    link: &Link,
    seed: u64,
) -> Result<SwitchProgram<StageList, Heap>> {
    let mut switch = SwitchProgram::<StageList, Heap>::ZEROED;
    for (stage, settings) in stages.iter().zip(settings) {
        switch.switch_mut().stages_mut().add(stage, settings)?;
    }
    switch.begin(Instant::from_nanos(0), link, &(), seed)?;
    Ok(switch)
}

/// What the driver writes into the image of such a switch before it starts.
pub fn boot(settings: &[Vec<u32>], link: &Link, seed: u64) -> BootSettings {
    BootSettings { rp_settings: settings.concat(), np_settings: vec![seed as u32, (seed >> 32) as u32], link: *link }
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
    /// The bytes in each queue, and then those that arrived by each.
    pub queued: [u32; ARRIVED + QUEUES],
    actions: RefCell<Vec<Action>>,
    transmit: [u8; TX_FRAME_BYTES],
}

impl Recorder {
    /// One that has recorded nothing, with empty queues.
    pub const fn new() -> Self {
        Self { queued: [0; ARRIVED + QUEUES], actions: RefCell::new(Vec::new()), transmit: [0; TX_FRAME_BYTES] }
    }

    fn read(&self, number: usize) -> Bytes {
        let bytes = self.queued.get(number).copied().unwrap_or(0);
        self.actions.borrow_mut().push(Action::Read { queue: number as u32, bytes });
        Bytes::new(bytes)
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
        self.read(queue.index())
    }

    fn arrived(&self, queue: Queue) -> Bytes {
        self.read(ARRIVED + queue.index())
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
    pub fn new(stages: &[&str], settings: &[Vec<u32>], link: &Link, seed: u64) -> Result<Self> {
        Ok(Self { program: switch(stages, settings, link, seed)?, recorder: Recorder::new() })
    }

    /// Its program.
    pub const fn program(&self) -> &SwitchProgram<StageList, Heap> {
        &self.program
    }
}

impl Reference for NativeSwitch {
    const WAKE: u32 = LogKind::Wake as u32;
    const REPORTS_ENDS: bool = true;

    /// Its stages read from the queues what the image has read: in an event, all reads of a queue must be equal.
    fn handle_again(&mut self, now: u64, handled: &Handled, _: &mut Decisions) -> Result<Vec<(u64, Action)>> {
        let mut read = [None; ARRIVED + QUEUES];
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

    /// A port with a packet that leaves.
    fn sender_waits(descriptor: &Descriptor) -> bool {
        descriptor.kind == Kind::Departure as u8
    }
}
