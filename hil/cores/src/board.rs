//! The board around a core: clock, timer, pacer, and rings, with the same registers as a NIC, so that firmware runs on it
//! unchanged.
//!
//! In lockstep the clock stands still while the firmware works, and jumps to the time of the next event when the firmware
//! idles. In real time it runs with the core's cycles.

use crate::core::{Core, Ibex, Ram, Stop, Timing};
use crate::elf::Image;
use crate::probe::{Cycles, Probes};
use anyhow::{Context, Result, bail, ensure};
use hil_sorted::SortedMap;
use programs::descriptor::Descriptor;
use programs::layout::{
    DEVICE_BASE, DEVICE_SIZE, ImageInfo, RAM_BASE, RAM_SIZE, RX_FRAME_BYTES, RX_SLOTS, RxSlot, SETTINGS, Shared,
    TX_FRAME_BYTES, TX_SLOTS, TxSlot, register,
};
use std::mem::{offset_of, size_of};
use std::ops::Range;

/// Most cycles for one event; an image that takes more counts as hung.
const CYCLE_LIMIT: u64 = 50_000_000;

/// Byte with which the stack is filled before the image starts, to measure its depth.
const STACK_FILL: u8 = 0xa5;
/// Bytes above an image's data that must still hold [`STACK_FILL`]; otherwise the stack has overflowed into the data.
const GUARD: usize = 256;

/// A store to the pacer's index register, with the values of its other three registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacerStore {
    /// The slot.
    pub index: u32,
    /// The rate in 2^-24 bytes per nanosecond.
    pub rate: u32,
    /// The window in bytes.
    pub window: u32,
    /// How long to send nothing, in nanoseconds.
    pub hold: u32,
}

/// A record of the firmware's event log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogRecord {
    /// The kind of event that was handled, as a number.
    pub kind: u32,
    /// The time that was passed to the engines, in nanoseconds.
    pub now: u64,
    /// The slot.
    pub index: u32,
}

/// An action of the firmware.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// A store to the pacer.
    Pace(PacerStore),
    /// A record in its event log.
    Log(LogRecord),
    /// A frame that it sent.
    Frame(Vec<u8>),
    /// An action of a switch program at a queue: the operands, then the command.
    Stage(Vec<u32>),
    /// A switch program has read the number of bytes in a queue.
    Read {
        /// The queue.
        queue: u32,
        /// What it read.
        bytes: u32,
    },
}

/// Addresses in an image of the memory that board and firmware share.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    shared: u32,
}

impl Addresses {
    fn field(self, offset: usize) -> u32 {
        self.shared + offset as u32
    }

    fn rx_slot(self, number: u32) -> u32 {
        let slot = number as usize % RX_SLOTS;
        self.field(offset_of!(Shared, rx) + slot * size_of::<RxSlot>())
    }

    fn tx_slot(self, number: u32) -> u32 {
        let slot = number as usize % TX_SLOTS;
        self.field(offset_of!(Shared, tx) + slot * size_of::<TxSlot>())
    }
}

/// The settings that the board writes into the image before it starts.
#[derive(Clone, Debug)]
pub struct BootSettings {
    /// Settings of the reaction point, or of a switch's stage, in the order of its fields.
    pub rp_settings: Vec<u32>,
    /// Settings of the notification point; of a switch, the seed of its random numbers in two words, the low one first.
    pub np_settings: Vec<u32>,
    /// The link.
    pub link: cc_core::Link,
}

/// The clock of a board.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Stopped while the firmware works.
    Lockstep,
    /// Running with the core's cycles.
    Real {
        /// Cycles per second.
        hz: u64,
    },
}

/// A core with its devices.
#[derive(Debug)]
pub struct Board<C> {
    core: C,
    at: Addresses,
    /// Bytes of RAM up to the end of the image's data; the rest is stack.
    static_ram: usize,
    /// Cycle in which the timer interrupt's handler first began since [`Board::begin`].
    timer_entered: Option<u64>,
    /// The pins: whether the main loop works on a descriptor, and whether the timer interrupt runs. And the cycles in which
    /// the two rose last.
    is_busy: bool,
    in_timer: bool,
    began: [u64; 2],
    /// Cycles for which the core has slept, in real time.
    slept: u64,
    pace: Pace,
    /// The clock in nanoseconds at cycle `anchor_cycle`; in lockstep, the present time.
    anchor_ns: u64,
    anchor_cycle: u64,
    mtimecmp: u64,
    pacer: [u32; 3],
    log: [u32; 3],
    /// For a switch: bytes in each queue or that arrived by it, the number that the firmware has selected, and the operands of the next
    /// action.
    queued: SortedMap<u32, u32>,
    selected: u32,
    operands: Vec<u32>,
    /// Real time: the core waits for the value of such a read.
    reads: bool,
    rx_head: u32,
    rx_tail: u32,
    tx_head: u32,
    image_info_words: Vec<u32>,
    probes: Probes,
    actions: Vec<(u64, Action)>,
}

/// A board with an Ibex, whose image has been started and waits for its first event.
///
/// # Errors
/// The image does not fit the board, or does not start.
pub fn board(image: &Image, boot: &BootSettings, pace: Pace) -> Result<Board<Ibex>> {
    board_with(Ibex::new(&RAM, DEVICES, Timing::IBEX_SMALL, image.entry), image, boot, pace)
}

/// The RAM of the board's core.
pub const RAM: [Ram; 1] = [Ram { base: RAM_BASE, size: RAM_SIZE }];
/// Addresses of the board's devices.
pub const DEVICES: Range<u32> = DEVICE_BASE..DEVICE_BASE + DEVICE_SIZE;

/// As [`board`], with a core that has [`RAM`] and [`DEVICES`] and has not yet started.
///
/// # Errors
/// As for [`board`].
pub fn board_with<C: Core>(mut core: C, image: &Image, boot: &BootSettings, pace: Pace) -> Result<Board<C>> {
    image.load(&mut core, &RAM)?;
    Board::boot(core, image, boot, pace)
}

impl<C: Core> Board<C> {
    /// Writes the settings into the image's memory and runs it until it waits for the first event.
    ///
    /// `core` has been loaded with `image` and has not yet started.
    pub fn boot(mut core: C, image: &Image, boot: &BootSettings, pace: Pace) -> Result<Self> {
        let shared = *image
            .symbols
            .get("SHARED")
            .context("the image has no symbol SHARED: expected a firmware image of this project")?;
        let at = Addresses { shared };
        let end = image.symbols.get("__bss_end").context("the image has no symbol __bss_end")?;
        let static_ram = end.saturating_sub(RAM_BASE) as usize;
        ensure!(static_ram <= RAM_SIZE as usize, "the image holds more than its RAM: __bss_end is {end:#x}");
        for (offset, settings) in
            [(offset_of!(Shared, rp_settings), &boot.rp_settings), (offset_of!(Shared, np_settings), &boot.np_settings)]
        {
            ensure!(settings.len() <= SETTINGS, "{} settings, but the image takes at most {SETTINGS}", settings.len());
            for (index, value) in settings.iter().enumerate() {
                core.poke(at.field(offset + 4 * index), &value.to_le_bytes());
            }
        }
        let port = [boot.link.line_rate.to_bits(), boot.link.mtu.get(), boot.link.base_rtt.get()];
        for (index, value) in port.iter().enumerate() {
            core.poke(at.field(offset_of!(Shared, link) + 4 * index), &value.to_le_bytes());
        }
        let paint = vec![STACK_FILL; RAM_SIZE as usize - static_ram];
        core.poke(RAM_BASE + static_ram as u32, &paint);
        // Empties both rings; RAM may hold other values than zero.
        for offset in [offset_of!(Shared, rx_head), offset_of!(Shared, tx_head)] {
            core.poke(at.field(offset), &[0; 4]);
        }
        let probes = Probes::new(image);
        let mut board = Self {
            core,
            at,
            static_ram,
            timer_entered: None,
            is_busy: false,
            in_timer: false,
            began: [0; 2],
            slept: 0,
            pace,
            anchor_ns: 0,
            // In real time the clock stands still until [`Board::start_clock`] is called.
            anchor_cycle: u64::MAX,
            mtimecmp: u64::MAX,
            pacer: [0; 3],
            log: [0; 3],
            queued: SortedMap::new(),
            selected: 0,
            operands: Vec::new(),
            reads: false,
            rx_head: 0,
            rx_tail: 0,
            tx_head: 0,
            image_info_words: Vec::new(),
            probes,
            actions: Vec::new(),
        };
        board.run_to_idle().context("while the image started")?;
        board.report().context("while the image started")?;
        let mut guard = [0; GUARD];
        board.core.peek(RAM_BASE + static_ram as u32, &mut guard);
        ensure!(guard == [STACK_FILL; GUARD], "the image's stack has grown into its data while it started");
        board.probes.arm(&mut board.core);
        Ok(board)
    }

    /// The start-up report of the image: the sizes of its tables.
    pub fn report(&self) -> Result<ImageInfo> {
        let words: [u32; size_of::<ImageInfo>() / 4] =
            self.image_info_words.as_slice().try_into().map_err(|_| {
                anyhow::anyhow!("the image reported {} words about itself", self.image_info_words.len())
            })?;
        let [qps, state_bytes, qp_bytes, peers, peer_bytes] = words;
        Ok(ImageInfo { qps, state_bytes, qp_bytes, peers, peer_bytes })
    }

    /// The core.
    pub fn core(&self) -> &C {
        &self.core
    }

    /// The core, for inspection and fault injection.
    pub fn core_mut(&mut self) -> &mut C {
        &mut self.core
    }

    /// Measures no cycles per event from now on. The core then stops at fewer instructions, and nothing is kept for each event.
    pub fn stop_measuring(&mut self) {
        self.probes.disarm(&mut self.core);
    }

    /// Cycles measured so far.
    pub fn cycles(&self) -> &Cycles {
        self.probes.cycles()
    }

    /// The time to which the firmware has set its timer, in nanoseconds of the clock; `u64::MAX` for never.
    pub fn next_wake(&self) -> u64 {
        self.mtimecmp
    }

    /// For switch programs: sets the number of bytes in a queue, by its index, or of those that arrived by it: see
    /// [`programs::switch_ring::ARRIVED`].
    pub fn set_queued(&mut self, queue: u32, bytes: u32) {
        self.queued.insert(queue, bytes);
    }

    /// Receive descriptors that the firmware has not finished with.
    pub fn backlog(&self) -> u32 {
        self.rx_head.wrapping_sub(self.rx_tail)
    }

    /// A copy of the board in the same state.
    ///
    /// # Errors
    /// The core cannot be copied.
    pub fn fork(&self) -> Result<Self> {
        Ok(Self {
            core: self.core.fork().context("this core cannot be copied: expected a model, not RTL")?,
            probes: self.probes.clone(),
            actions: self.actions.clone(),
            image_info_words: self.image_info_words.clone(),
            queued: self.queued.clone(),
            operands: self.operands.clone(),
            ..*self
        })
    }

    /// The contents of the RAM without the stack: code, data, and rings.
    pub fn memory(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.static_ram];
        self.core.peek(RAM_BASE, &mut bytes);
        bytes
    }

    /// Bytes of RAM for code, data, and rings.
    pub fn static_ram(&self) -> u32 {
        self.static_ram as u32
    }

    /// Most bytes of stack that the image has used so far, start-up code included: those above the lowest byte that has
    /// changed.
    pub fn stack(&self) -> u32 {
        let mut bytes = vec![0; RAM_SIZE as usize - self.static_ram];
        self.core.peek(RAM_BASE + self.static_ram as u32, &mut bytes);
        bytes.iter().skip_while(|&&byte| byte == STACK_FILL).count() as u32
    }

    /// The cycle in which the timer interrupt's handler first began since [`Board::begin`].
    pub fn timer_entered(&self) -> Option<u64> {
        self.timer_entered
    }

    /// Whether the main loop works on the oldest descriptor and the timer interrupt does not run.
    pub fn handles_descriptor(&self) -> bool {
        self.is_busy && !self.in_timer
    }

    /// The cycle in which the firmware began to work on its present or last descriptor, or timer interrupt. The timer may interrupt
    /// the work on a descriptor.
    pub fn began(&self, timer: bool) -> u64 {
        self.began[usize::from(timer)]
    }

    /// Cycles in which the core was not asleep, of a board in real time.
    pub fn active_cycles(&self) -> u64 {
        self.core.cycles() - self.slept
    }

    /// The image's actions since the last call, each with its cycle.
    pub fn take_actions(&mut self) -> Vec<(u64, Action)> {
        std::mem::take(&mut self.actions)
    }

    /// Lockstep: puts one descriptor and its frame into the ring and sets the clock, without letting the firmware work.
    pub fn begin(&mut self, descriptor: &Descriptor, frame: &[u8], now: u64) {
        self.anchor_ns = now;
        self.timer_entered = None;
        self.push(descriptor, frame);
    }

    /// Lockstep: executes one instruction with the timer line low. Returns `false` if the firmware idles.
    ///
    /// # Errors
    /// The image misbehaved, or idles with descriptors left.
    pub fn step_instruction(&mut self) -> Result<bool> {
        self.core.set_timer_line(false);
        let before = self.core.instructions();
        while self.core.instructions() == before {
            match self.core.run(self.core.cycles() + 1) {
                Stop::Idle if self.backlog() == 0 => return Ok(false),
                Stop::Idle => bail!("the image idles with {} descriptors left", self.backlog()),
                stop => self.serve(stop)?,
            }
        }
        Ok(true)
    }

    /// Lockstep: sets the clock and lets the firmware work until it idles.
    ///
    /// # Errors
    /// The image misbehaved.
    pub fn advance_to(&mut self, now: u64) -> Result<()> {
        self.anchor_ns = now;
        self.work(true)
    }

    /// Lockstep: as [`Board::deliver`], but the timer line stays low: what is due is left to [`Board::advance_to`].
    ///
    /// # Errors
    /// The image misbehaved.
    pub fn handle(&mut self, descriptor: &Descriptor, frame: &[u8]) -> Result<Vec<(u64, Action)>> {
        self.begin(descriptor, frame, descriptor.now());
        self.work(false)?;
        Ok(self.take_actions())
    }

    /// Lockstep: passes one descriptor and its frame to the firmware at the descriptor's time, and lets it work until it idles.
    /// Returns its actions, each with its cycle.
    pub fn deliver(&mut self, descriptor: &Descriptor, frame: &[u8]) -> Result<Vec<(u64, Action)>> {
        self.begin(descriptor, frame, descriptor.now());
        self.run_to_idle()
    }

    /// Lockstep: sets the clock to the time to which the firmware has set its timer, and lets it work until it idles. Returns
    /// its actions.
    pub fn wake(&mut self) -> Result<Vec<(u64, Action)>> {
        self.anchor_ns = self.mtimecmp;
        self.run_to_idle()
    }

    /// Real time: the clock's present value.
    pub fn now(&self) -> u64 {
        match self.pace {
            Pace::Lockstep => self.anchor_ns,
            Pace::Real { hz } => {
                let cycles = self.core.cycles().saturating_sub(self.anchor_cycle);
                self.anchor_ns.saturating_add((u128::from(cycles) * 1_000_000_000 / u128::from(hz)) as u64)
            }
        }
    }

    /// Real time: starts the clock at `now`, in nanoseconds, in the present cycle.
    pub fn start_clock(&mut self, now: u64) {
        self.anchor_ns = now;
        self.anchor_cycle = self.core.cycles();
    }

    /// Real time: the first cycle at which the clock shows `time` or more.
    fn cycle_of(&self, time: u64, hz: u64) -> u64 {
        let wait = u128::from(time.saturating_sub(self.anchor_ns)) * u128::from(hz);
        self.anchor_cycle.saturating_add(wait.div_ceil(1_000_000_000).try_into().unwrap_or(u64::MAX))
    }

    /// Real time: lets the firmware work until the clock shows `time`. Returns its actions.
    pub fn run_until(&mut self, time: u64) -> Result<Vec<(u64, Action)>> {
        let hz = self.hz()?;
        let end = self.cycle_of(time, hz);
        while self.core.cycles() < end {
            self.run_to_stop(end, hz)?;
            self.answer_read();
        }
        Ok(self.take_actions())
    }

    /// Real time: lets the firmware work until the clock shows `time`, and beyond that as long as what it does cannot depend on
    /// descriptors that come later: while it handles a descriptor or its timer, and while it has descriptors left. It stops after
    /// its next action, and when it has finished with a descriptor. It also stops before it reads the bytes in a queue after `time`:
    /// the next call at the time of the read, or later, continues with what the queue then holds. Returns the time of that, rounded
    /// up to a nanosecond; `None` if `time` came first.
    ///
    /// # Errors
    /// The image misbehaved.
    pub fn run_ahead(&mut self, time: u64) -> Result<Option<u64>> {
        let hz = self.hz()?;
        let (actions, tail) = (self.actions.len(), self.rx_tail);
        let (end, limit) = (self.cycle_of(time, hz), self.core.cycles().saturating_add(CYCLE_LIMIT));
        while self.actions.len() == actions && self.rx_tail == tail {
            if self.reads {
                let at = self.time_of(self.core.cycles(), hz);
                if at > time {
                    return Ok(Some(at));
                }
                self.answer_read();
                continue;
            }
            let is_certain = self.is_busy || self.in_timer || self.backlog() > 0;
            let end = if is_certain { limit } else { end };
            if self.core.cycles() >= end {
                ensure!(!is_certain, "the image did not finish with a descriptor within {CYCLE_LIMIT} cycles");
                return Ok(None);
            }
            self.run_to_stop(end, hz)?;
        }
        Ok(Some(self.time_of(self.core.cycles(), hz)))
    }

    /// Real time: passes the bytes in the selected queue to the core, if it waits for them.
    fn answer_read(&mut self) {
        if std::mem::take(&mut self.reads) {
            let bytes = self.read_queue();
            self.core.answer(bytes);
        }
    }

    /// The bytes in the selected queue, which the firmware reads.
    fn read_queue(&mut self) -> u32 {
        let (queue, bytes) = (self.selected, self.queued.get(&self.selected).copied().unwrap_or(0));
        self.actions.push((self.core.cycles(), Action::Read { queue, bytes }));
        bytes
    }

    /// Real time: the next time at which [`Board::run_ahead`] has something to do if no descriptor comes.
    ///
    /// # Errors
    /// The board is in lockstep.
    pub fn next_step(&self) -> Result<u64> {
        let hz = self.hz()?;
        // A timer that is due interrupts a cycle later, or the core is not yet asleep.
        Ok(if self.mtimecmp <= self.now() { self.time_of(self.core.cycles() + 1, hz) } else { self.mtimecmp })
    }

    fn hz(&self) -> Result<u64> {
        let Pace::Real { hz } = self.pace else { bail!("only a board in real time runs by the clock") };
        Ok(hz)
    }

    /// Real time: the clock at this cycle, rounded up to a nanosecond.
    fn time_of(&self, cycle: u64, hz: u64) -> u64 {
        let cycles = cycle.saturating_sub(self.anchor_cycle);
        self.anchor_ns.saturating_add((u128::from(cycles) * 1_000_000_000).div_ceil(hz.into()) as u64)
    }

    /// Real time: lets the firmware work up to the cycle `end` or an earlier stop.
    fn run_to_stop(&mut self, end: u64, hz: u64) -> Result<()> {
        let due = self.cycle_of(self.mtimecmp, hz);
        let reached = self.core.cycles() >= due;
        self.core.set_timer_line(reached);
        let until = if reached { end } else { end.min(due) };
        match self.core.run(until) {
            Stop::Idle => {
                self.slept += until.saturating_sub(self.core.cycles());
                self.core.sleep_until(until);
                Ok(())
            }
            stop => self.serve(stop),
        }
    }

    /// Puts a descriptor and its frame into the receive ring from the present cycle on. Returns `false` if the ring is full.
    pub fn push(&mut self, descriptor: &Descriptor, frame: &[u8]) -> bool {
        if self.backlog() as usize >= RX_SLOTS {
            return false;
        }
        self.fill(self.rx_head, descriptor, frame);
        self.rx_head = self.rx_head.wrapping_add(1);
        self.core.poke(self.at.field(offset_of!(Shared, rx_head)), &self.rx_head.to_le_bytes());
        self.core.set_external_line(true);
        true
    }

    /// Writes a slot of the receive ring.
    fn fill(&mut self, number: u32, descriptor: &Descriptor, frame: &[u8]) {
        let slot = self.at.rx_slot(number);
        let frame = &frame[..frame.len().min(RX_FRAME_BYTES)];
        let descriptor = Descriptor { captured: frame.len() as u16, ..*descriptor };
        for (index, word) in descriptor.to_words().iter().enumerate() {
            self.core.poke(slot + 4 * index as u32, &word.to_le_bytes());
        }
        self.core.poke(slot + offset_of!(RxSlot, frame) as u32, frame);
    }

    /// Puts another descriptor and frame in the place of one that waits in the ring, as the front end of a NIC does when it merges
    /// two events of a flow. `position` counts descriptors from the oldest one.
    pub fn replace(&mut self, position: u32, descriptor: &Descriptor, frame: &[u8]) {
        self.fill(self.rx_tail.wrapping_add(position), descriptor, frame);
    }

    /// Lockstep: runs until the firmware idles with an empty ring and no timer due. Returns its actions.
    fn run_to_idle(&mut self) -> Result<Vec<(u64, Action)>> {
        self.work(true)?;
        Ok(self.take_actions())
    }

    /// Works until the firmware idles, with the timer line low all the time if `timer` is false.
    fn work(&mut self, timer: bool) -> Result<()> {
        let limit = self.core.cycles().saturating_add(CYCLE_LIMIT);
        loop {
            let due = timer && self.mtimecmp <= self.anchor_ns;
            self.core.set_timer_line(due);
            match self.core.run(limit) {
                Stop::Idle if !due && self.backlog() == 0 => return Ok(()),
                Stop::Idle => bail!("the image idles with work left: {} descriptors, timer {due}", self.backlog()),
                Stop::Cycle => bail!("the image did not idle within {CYCLE_LIMIT} cycles"),
                stop => self.serve(stop)?,
            }
        }
    }

    /// Handles one stop of the core: an access to the device page, or a watched instruction.
    fn serve(&mut self, stop: Stop) -> Result<()> {
        match stop {
            Stop::Load { address, .. } => {
                let now = self.now();
                let value = match address.wrapping_sub(DEVICE_BASE) {
                    register::MTIME_LO => now as u32,
                    register::MTIME_HI => (now >> 32) as u32,
                    register::QUEUE_BYTES if self.pace == Pace::Lockstep => self.read_queue(),
                    register::QUEUE_BYTES => {
                        self.reads = true;
                        return Ok(());
                    }
                    _ => bail!("the image read {address:#x}, where the board has no register"),
                };
                self.core.answer(value);
            }
            Stop::Store { address, value, .. } => self.store(address, value)?,
            Stop::Watch { pc } => self.probes.reached(pc, &mut self.core),
            Stop::Fault { pc, address, reason } => {
                bail!("the core stopped at pc {pc:#x}, address {address:#x}: {reason}")
            }
            Stop::Cycle | Stop::Idle => {}
        }
        Ok(())
    }

    fn store(&mut self, address: u32, value: u32) -> Result<()> {
        let cycle = self.core.cycles();
        match address.wrapping_sub(DEVICE_BASE) {
            register::MTIMECMP_LO => self.mtimecmp = self.mtimecmp & !0xffff_ffff | u64::from(value),
            register::MTIMECMP_HI => self.mtimecmp = self.mtimecmp & 0xffff_ffff | u64::from(value) << 32,
            register::PACER_RATE => self.pacer[0] = value,
            register::PACER_WINDOW => self.pacer[1] = value,
            register::PACER_HOLD => self.pacer[2] = value,
            register::PACER_INDEX => {
                let [rate, window, hold] = self.pacer;
                self.probes.paced(cycle);
                self.actions.push((cycle, Action::Pace(PacerStore { index: value, rate, window, hold })));
            }
            pin @ (register::BUSY_PIN | register::TIMER_PIN) => {
                let is_high = value != 0;
                if is_high {
                    self.began[usize::from(pin == register::TIMER_PIN)] = cycle;
                }
                if pin == register::BUSY_PIN {
                    self.is_busy = is_high;
                } else {
                    self.in_timer = is_high;
                    if is_high {
                        self.timer_entered.get_or_insert(cycle);
                    }
                }
            }
            register::EXIT => bail!("the image ended with code {value}"),
            register::RX_TAIL => {
                self.rx_tail = value;
                self.core.set_external_line(self.backlog() != 0);
            }
            register::TX_TAIL => {
                while self.tx_head != value {
                    let frame = self.transmitted(self.tx_head)?;
                    self.actions.push((cycle, Action::Frame(frame)));
                    self.tx_head = self.tx_head.wrapping_add(1);
                }
                self.core.poke(self.at.field(offset_of!(Shared, tx_head)), &value.to_le_bytes());
            }
            register::QUEUE_SELECT => self.selected = value,
            register::ACTION_OPERAND => self.operands.push(value),
            register::ACTION => {
                let mut words = std::mem::take(&mut self.operands);
                words.push(value);
                self.actions.push((cycle, Action::Stage(words)));
            }
            register::IMAGE_INFO => self.image_info_words.push(value),
            register::LOG_KIND => self.log[0] = value,
            register::LOG_NOW_LO => self.log[1] = value,
            register::LOG_NOW_HI => self.log[2] = value,
            register::LOG_INDEX => {
                let [kind, lo, hi] = self.log;
                let record = LogRecord { kind, now: u64::from(hi) << 32 | u64::from(lo), index: value };
                self.actions.push((cycle, Action::Log(record)));
            }
            _ => bail!("the image wrote {address:#x}, where the board has no register"),
        }
        if address.wrapping_sub(DEVICE_BASE) & !4 == register::MTIMECMP_LO && self.now() < self.mtimecmp {
            self.core.set_timer_line(false);
        }
        Ok(())
    }

    fn transmitted(&self, number: u32) -> Result<Vec<u8>> {
        let slot = self.at.tx_slot(number);
        let mut length = [0; 4];
        self.core.peek(slot, &mut length);
        let length = u32::from_le_bytes(length) as usize;
        ensure!(length <= TX_FRAME_BYTES, "the image sent a frame of {length} bytes; a slot holds {TX_FRAME_BYTES}");
        let mut frame = vec![0; length];
        self.core.peek(slot + offset_of!(TxSlot, frame) as u32, &mut frame);
        Ok(frame)
    }
}
