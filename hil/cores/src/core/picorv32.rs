//! The model of PicoRV32: instructions execute one at a time, each while the next is fetched.
//!
//! The cycles of an instruction count from its *launch* (picorv32.v: `launch_next_insn`), the only time at which an interrupt
//! can be taken. The next word is fetched meanwhile; if that takes longer than the instruction, the next launch waits. The
//! upper half of a word is kept when its lower half is executed, so an instruction that begins there needs one fetch less.

use std::ops::Range;

use super::arithmetic::by_kind;
use super::assemble::csr::{CYCLE, CYCLEH, INSTRET, INSTRETH};
use super::decode::{Kind, NOWHERE, Next, Op, extended, is_compressed};
use super::memory::{Code, Memory, Stored};
use super::timing::Timed;
use super::watch::{Met, Watches};
use super::{Core, Ram, Stop};

/// The bits of the interrupt inputs: the two lines of [`Core`], where RISC-V's mip has them, and the core's own.
const TIMER_LINE: u32 = 7;
const EXTERNAL_LINE: u32 = 11;
/// The interrupt of the core's timer, which has counted down.
const COUNTED_DOWN: u32 = 1 << 0;
/// The interrupt of `ebreak`, `ecall` or an illegal instruction.
const BREAK: u32 = 1 << 1;
/// The interrupt vector, as an offset from the beginning of the 256 bytes in which the program begins.
const VECTOR: u32 = 0x10;

/// The cycle rules of PicoRV32, in whole cycles from launch to launch, with memory that is ready at once.
///
/// They were measured on the RTL (the version of PyPI's wheel of 2024: dual-port registers, compressed instructions,
/// interrupts with their registers and timer).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PicoTiming {
    /// Arithmetic, `lui`, `auipc`, `fence`, branches not taken.
    pub alu: u64,
    /// A shift, without its steps.
    pub shift: u64,
    /// Shifts take a step for every four bits and one for each of the rest; a barrel shifter takes none.
    pub stepwise: bool,
    /// A load or store; the bus request is made in the cycle before the last.
    pub memory: u64,
    /// A branch that is taken: the instruction after it has already been fetched.
    pub branch_taken: u64,
    /// `jal`.
    pub jump: u64,
    /// `jalr`.
    pub jump_register: u64,
    /// A counter, an interrupt register, the mask, or the timer, read or written; `ebreak` and `ecall`.
    pub special: u64,
    /// `retirq`.
    pub return_: u64,
    /// `waitirq`, from the cycle that sees an interrupt.
    pub wait: u64,
    /// From the launch that an interrupt replaces to the launch of the vector's instruction.
    pub interrupt: u64,
    /// An instruction that neither the core nor a coprocessor implements, until the core's timeout (picorv32.v:
    /// `pcpi_timeout_counter`).
    pub illegal: u64,
    /// `mul`.
    pub mul: u64,
    /// `mulh`, `mulhsu`, `mulhu`.
    pub mulh: u64,
    /// Division and remainder.
    pub div: u64,
    /// The second fetch of an instruction that straddles a word.
    pub split: u64,
    /// Extra cycles of every instruction fetch.
    pub fetch_wait: u64,
    /// Extra cycles of every load and store.
    pub data_wait: u64,
}

impl PicoTiming {
    /// Barrel shifter, multiplier in one piece (`ENABLE_FAST_MUL`), serial divider.
    pub const FAST: Self = Self {
        alu: 3,
        shift: 3,
        stepwise: false,
        memory: 5,
        branch_taken: 5,
        jump: 3,
        jump_register: 6,
        special: 4,
        return_: 5,
        wait: 3,
        interrupt: 4,
        illegal: 21,
        mul: 6,
        mulh: 6,
        div: 40,
        split: 1,
        fetch_wait: 0,
        data_wait: 0,
    };

    /// Two-stage shifts, serial multiplier and divider.
    pub const MIN: Self = Self { shift: 4, stepwise: true, mul: 40, mulh: 72, ..Self::FAST };

    /// The same core with a memory that is ready `cycles` later.
    #[must_use]
    pub const fn with_wait(self, cycles: u64) -> Self {
        Self { fetch_wait: cycles, data_wait: cycles, ..self }
    }

    /// Cycles by which the fetch of the next instruction takes longer than the present instruction of `cost` cycles, if both
    /// begin at the same time.
    #[inline]
    const fn late(&self, next: Next, cost: u64) -> u64 {
        match next {
            Next::Word => (self.alu + self.fetch_wait).saturating_sub(cost),
            Next::Half => 0,
            // The second word is requested only when the decoder needs the instruction.
            Next::Split => self.split + self.fetch_wait,
        }
    }

    /// Cycles of fetching the target of a jump beyond those without wait states.
    const fn target(&self, split: bool) -> u64 {
        self.fetch_wait + if split { self.split + self.fetch_wait } else { 0 }
    }
}

/// An instruction-set model of PicoRV32 with exact timing.
///
/// Two of its interrupt inputs are connected: bit 7 to the timer line and bit 11 to the external line. These two are levels;
/// the core's own interrupts are latched. The interrupt vector is 16 bytes after the beginning of the 256 bytes in which the
/// program begins. Interrupt 2 (misaligned access) is not modelled: such an access ends the run, as it stops a core that masks
/// it.
#[derive(Clone, Debug)]
pub struct Picorv32 {
    timing: PicoTiming,
    memory: Memory,
    devices: Range<u32>,
    /// x0 to x31; index 32 takes writes to x0, which are discarded. The length spares bounds checks.
    registers: [u32; 64],
    /// q0 to q3.
    interrupt_registers: [u32; 4],
    vector: u32,
    /// Address of the next instruction.
    pc: u32,
    /// Instructions launched.
    retired: u64,
    /// Of these, the instructions that the core does not count: every `waitirq`.
    uncounted: u64,
    /// The cycle in which the next instruction is launched.
    start: u64,
    /// Whether it has been launched and its access to memory is still to come.
    launched: bool,
    /// Whether an instruction that stopped at a device has not retired yet.
    unretired: bool,
    /// A load that waits for its device.
    awaited: Option<Op>,
    /// A `waitirq`, and the first cycle in which it may see an interrupt.
    waiting: Option<(u64, Op)>,
    /// The cycle that [`Core::cycles`] returns.
    now: u64,
    lines: Timed,
    /// Interrupts that are latched.
    latched: u32,
    /// Interrupts that are masked.
    mask: u32,
    /// Whether an interrupt is being handled.
    active: bool,
    /// Whether the last instruction was launched while an interrupt was being handled.
    delay: bool,
    /// The cycle of the launch that an interrupt replaced, until the pending interrupts are read.
    entering: Option<u64>,
    /// The cycle from which on the timer's interrupt is pending.
    due: Option<u64>,
    /// The address of the last instruction launched, and its target if it was a taken branch.
    last: u32,
    branched: u64,
    watches: Watches,
}

impl Picorv32 {
    /// A core with zeroed RAM about to execute at `entry`. Loads and stores in `devices` that do not lie in RAM return as
    /// stops.
    #[must_use]
    pub fn new(ram: &[Ram], devices: Range<u32>, timing: PicoTiming, entry: u32) -> Self {
        Self {
            timing,
            memory: Memory::new(ram),
            devices,
            registers: [0; 64],
            interrupt_registers: [0; 4],
            vector: entry & !0xff | VECTOR,
            pc: entry,
            retired: 0,
            uncounted: 0,
            start: 0,
            launched: false,
            unretired: false,
            awaited: None,
            waiting: None,
            now: 0,
            lines: Timed::ZERO,
            latched: 0,
            mask: u32::MAX,
            active: false,
            delay: false,
            entering: None,
            due: None,
            last: entry,
            branched: u64::MAX,
            watches: Watches::default(),
        }
    }

    /// The cycle rules of this core.
    #[must_use]
    pub fn timing(&self) -> PicoTiming {
        self.timing
    }

    /// Interrupts pending in a cycle. The core registers its inputs, so the lines of the cycle before count.
    fn pending(&mut self, cycle: u64) -> u32 {
        if self.due.is_some_and(|due| due <= cycle) {
            self.due = None;
            self.latched |= COUNTED_DOWN;
        }
        self.latched | cycle.checked_sub(1).map_or(0, |before| self.lines.at(before))
    }

    /// Whether an interrupt may be taken from now on, so that every launch must be checked.
    fn interrupts_possible(&self) -> bool {
        let timer = if self.due.is_some() { COUNTED_DOWN } else { 0 };
        let lines = self.lines.any_from(self.start.saturating_sub(1));
        !self.active && (lines | self.latched | timer) & !self.mask != 0
    }

    /// Lets cycles pass until an instruction is launched, or until the cycle `until`.
    fn boundary(&mut self, until: u64) -> Option<Stop> {
        if let Some((from, op)) = self.waiting {
            match self.seen(from) {
                Some(cycle) if cycle < until => self.resume(cycle, op),
                None if until > from => {
                    self.now = self.now.max(from);
                    return Some(if self.now < until { Stop::Idle } else { Stop::Cycle });
                }
                _ => {
                    self.wait_until(until);
                    return Some(self.reached(until));
                }
            }
        }
        while self.start < until {
            let pending = self.pending(self.start) & !self.mask;
            if pending == 0 || self.active || self.delay {
                return None;
            }
            self.interrupt(until);
        }
        Some(self.reached(until))
    }

    fn reached(&mut self, cycle: u64) -> Stop {
        self.now = self.now.max(cycle);
        Stop::Cycle
    }

    /// Replaces the next launch by an interrupt.
    fn interrupt(&mut self, until: u64) {
        self.interrupt_registers[0] = self.pc | u32::from(self.fetched_compressed());
        self.entering = Some(self.start);
        self.active = true;
        self.pc = self.vector;
        self.start += self.timing.interrupt + self.timing.target(self.memory.is_split(self.vector));
        self.enter(until);
    }

    /// Two cycles after the launch of an interrupt: stores the pending interrupts in q1, and clears their latches.
    fn enter(&mut self, until: u64) {
        let Some(cycle) = self.entering.map(|launch| launch + 2).filter(|&cycle| cycle <= until) else { return };
        self.entering = None;
        self.interrupt_registers[1] = self.pending(cycle) & !self.mask;
        self.latched &= self.mask;
    }

    /// Whether the last instruction that was fetched was a 16-bit one, which bit 0 of q0 shows. It is the instruction launched
    /// last, or, after a taken branch, the one after the branch.
    fn fetched_compressed(&self) -> bool {
        let short = |pc| self.memory.instruction(pc).is_some_and(is_compressed);
        if self.branched != self.start {
            return short(self.last);
        }
        let behind = self.last.wrapping_add(if short(self.last) { 2 } else { 4 });
        if behind & 2 == 0 && self.pc & 2 != 0 && self.timing.fetch_wait > 0 {
            // The decoder already has the upper half, see `detour`.
            self.detour(behind, Next::Word, self.pc) == 0 || short(self.pc)
        } else {
            short(behind)
        }
    }

    /// Extra cycles of a taken branch to a target in the upper half of a word, if the word after the branch is still being
    /// fetched when the target is known. The decoder then takes the upper half of that word; if it looks like the beginning of
    /// a 32-bit instruction, the target is fetched as its second half, and then once more as itself.
    #[cold]
    fn detour(&self, behind: u32, next: Next, target: u32) -> u64 {
        let wait = self.timing.fetch_wait;
        let upper = || self.memory.load(behind & !3 | 2).map_or(0, u16::from_le_bytes);
        if wait == 0 || next != Next::Word || target & 2 == 0 || is_compressed(u32::from(upper())) {
            return 0;
        }
        2 + self.timing.target(self.memory.is_split(target))
    }

    /// The first cycle from `from` on in which some interrupt is pending, masked or not.
    fn seen(&mut self, from: u64) -> Option<u64> {
        if self.pending(from) != 0 {
            return Some(from);
        }
        let line = (self.lines.latest() != 0).then(|| from.max(self.lines.since() + 1));
        line.into_iter().chain(self.due).min()
    }

    /// Called when a `waitirq` has seen no interrupt up to a cycle.
    fn wait_until(&mut self, cycle: u64) {
        self.waiting = self.waiting.map(|(from, op)| (from.max(cycle), op));
    }

    /// Called when a `waitirq` sees an interrupt in `cycle`: continues with the next instruction.
    fn resume(&mut self, cycle: u64, op: Op) {
        self.waiting = None;
        self.registers[usize::from(op.rd & 63)] = self.pending(cycle);
        self.start = cycle + self.timing.wait + self.timing.late(op.next, self.timing.alu);
    }

    /// Executes instructions, from the one launched at `self.start` on, as long as their accesses end before `until`; only one
    /// instruction if `single`.
    fn execute(&mut self, until: u64, single: bool) -> Option<Stop> {
        let pc = self.pc;
        let Some(mut code) = self.memory.lend(pc) else {
            self.now = self.start;
            return Some(Stop::Fault { pc, address: pc, reason: "fetch outside RAM" });
        };
        let stop = self.execute_in(&mut code, until, single);
        self.memory.give_back(code);
        self.watches.forget(&mut self.memory);
        stop
    }

    fn execute_in(&mut self, code: &mut Code, until: u64, single: bool) -> Option<Stop> {
        let timing = self.timing;
        let begun = self.start;
        let mut limit = if single { begun + 1 } else { until };
        let (mut pc, mut start, mut retired) = (self.pc, begun, self.retired);
        let (mut last, mut branched) = (self.last, self.branched);

        // Launches the instruction after the present one next.
        macro_rules! on {
            ($next:ident, $cost:expr) => {{
                last = pc;
                pc = $next;
                start += $cost;
                retired += 1;
                continue;
            }};
        }
        macro_rules! go {
            ($target:expr, $cost:expr) => {{
                last = pc;
                pc = $target;
                start += $cost + timing.target(self.memory.is_split(pc));
                retired += 1;
                continue;
            }};
        }
        macro_rules! branch {
            ($taken:expr, $op:ident, $next:ident) => {{
                let late = timing.late($op.next, timing.alu);
                if !$taken {
                    on!($next, timing.alu + late);
                }
                last = pc;
                pc = $op.immediate;
                start += timing.branch_taken + late + timing.target(self.memory.is_split(pc));
                if timing.fetch_wait > 0 {
                    start += self.detour($next, $op.next, pc);
                }
                branched = start;
                retired += 1;
                continue;
            }};
        }
        // The cycle of an access, which must lie before the end of the run.
        macro_rules! access {
            ($address:ident, $width:literal, $op:ident) => {{
                if !$address.is_multiple_of($width) {
                    self.now = start;
                    break Some(Stop::Fault { pc, address: $address, reason: "misaligned access" });
                }
                let access = start + timing.memory - 1 + timing.late($op.next, timing.alu) + timing.data_wait;
                if access >= until {
                    self.launched = true;
                    break None;
                }
                access
            }};
        }
        macro_rules! device {
            ($address:ident, $access:ident, $next:ident, $stop:expr) => {{
                if !self.devices.contains(&$address) {
                    self.now = start;
                    break Some(Stop::Fault { pc, address: $address, reason: "access outside RAM and devices" });
                }
                self.unretired = true;
                self.now = $access;
                last = pc;
                pc = $next;
                start = $access + 1;
                break Some($stop);
            }};
        }
        macro_rules! load {
            ($type:ty, $width:literal, $base:ident, $op:ident, $next:ident) => {{
                let address = $base.wrapping_add($op.immediate);
                let access = access!(address, $width, $op);
                let Some(bytes) = self.memory.load::<$width>(address) else {
                    self.awaited = Some(*$op);
                    device!(address, access, $next, Stop::Load { address, width: $width });
                };
                (<$type>::from_le_bytes(bytes) as u32, access + 1 - start)
            }};
        }
        macro_rules! store {
            ($type:ty, $width:literal, $base:ident, $value:ident, $op:ident, $next:ident) => {{
                let address = $base.wrapping_add($op.immediate);
                let access = access!(address, $width, $op);
                match self.memory.store::<$width>(address, ($value as $type).to_le_bytes()) {
                    Some(Stored::Data) => {}
                    Some(Stored::Code) => self.memory.forget(code, address, $width),
                    None => {
                        let value = u32::from($value as $type);
                        device!(address, access, $next, Stop::Store { address, width: $width, value });
                    }
                }
                on!($next, access + 1 - start);
            }};
        }

        let stop = loop {
            if start >= limit {
                break None;
            }
            let Some(op) = code.ops.get(pc.wrapping_sub(code.base) as usize / 2) else { break None };
            let next = pc.wrapping_add(u32::from(op.size));
            let a = self.registers[usize::from(op.rs1 & 63)];
            let b = self.registers[usize::from(op.rs2 & 63)];
            let (value, cost) = by_kind!(
                op, next, a, b,
                arithmetic: timing.alu + timing.late(op.next, timing.alu),
                shift by amount: {
                    let steps = if timing.stepwise { u64::from(amount / 4 + amount % 4) } else { 0 };
                    timing.shift + steps + timing.late(op.next, timing.shift + steps)
                },
                mul: timing.mul + timing.late(op.next, timing.mul),
                mulh: timing.mulh + timing.late(op.next, timing.mulh),
                div: timing.div + timing.late(op.next, timing.div),
                Kind::Jal => {
                    self.registers[usize::from(op.rd & 63)] = next;
                    go!(op.immediate, timing.jump)
                },
                Kind::Jalr => {
                    self.registers[usize::from(op.rd & 63)] = next;
                    go!(a.wrapping_add(op.immediate) & !1, timing.jump_register)
                },
                Kind::Fence => on!(next, timing.alu + timing.late(op.next, timing.alu)),
                Kind::Unknown => match self.watches.meet(&mut self.memory, code, pc, start) {
                    Ok(Met::Ordinary) => continue,
                    Ok(Met::Watched) => {
                        limit = start + 1;
                        continue;
                    }
                    Err(stop) => {
                        self.now = start;
                        break Some(stop);
                    }
                },
                Kind::Getq
                | Kind::Setq
                | Kind::Retirq
                | Kind::Maskirq
                | Kind::Waitirq
                | Kind::Timer
                | Kind::Csrrw
                | Kind::Csrrs
                | Kind::Csrrc
                | Kind::Csrrwi
                | Kind::Csrrsi
                | Kind::Csrrci
                | Kind::Ecall
                | Kind::Ebreak
                | Kind::Illegal
                | Kind::FenceI
                | Kind::Mret
                | Kind::Wfi => {
                    self.delay = if start == begun { self.delay } else { self.active };
                    (self.pc, self.start, self.retired) = (pc, start, retired);
                    (self.last, self.branched) = (last, branched);
                    return self.machine(*op, a);
                }
            );
            self.registers[usize::from(op.rd & 63)] = value;
            on!(next, cost);
        };
        self.delay = if start == begun { self.delay } else { self.active };
        (self.pc, self.start, self.retired) = (pc, start, retired);
        (self.last, self.branched) = (last, branched);
        stop
    }

    /// Executes an instruction on counters or interrupts. `a` is its source.
    fn machine(&mut self, op: Op, a: u32) -> Option<Stop> {
        // Registers are read and written in the cycle after the launch.
        let cycle = self.start + 1;
        let counted = self.retired + 1 - self.uncounted;
        let delayed = self.active;
        let (mut cost, mut rd) = (self.timing.special, op.rd);
        let value = match (op.kind, op.immediate) {
            (Kind::Csrrs, CYCLE | 0xc01) if op.rs1 == 0 => cycle as u32,
            (Kind::Csrrs, CYCLEH | 0xc81) if op.rs1 == 0 => (cycle >> 32) as u32,
            (Kind::Csrrs, INSTRET) if op.rs1 == 0 => counted as u32,
            (Kind::Csrrs, INSTRETH) if op.rs1 == 0 => (counted >> 32) as u32,
            (Kind::Getq, _) => self.interrupt_registers[usize::from(op.rs1 & 3)],
            (Kind::Setq, _) => {
                self.interrupt_registers[usize::from(op.rd & 3)] = a;
                rd = NOWHERE;
                a
            }
            (Kind::Maskirq, _) => std::mem::replace(&mut self.mask, a),
            (Kind::Timer, _) => self.set_timer(cycle, a),
            (Kind::Retirq, _) => {
                self.active = false;
                self.last = self.pc;
                self.pc = self.interrupt_registers[0] & !1;
                self.start += self.timing.return_ + self.timing.target(self.memory.is_split(self.pc));
                self.retired += 1;
                self.delay = delayed;
                return None;
            }
            (Kind::Waitirq, _) => {
                self.retired += 1;
                self.uncounted += 1;
                self.last = self.pc;
                self.pc = self.pc.wrapping_add(u32::from(op.size));
                if self.pending(self.start) == 0 {
                    self.waiting = Some((cycle, op));
                } else {
                    self.resume(self.start, op);
                }
                return None;
            }
            (kind, _) => {
                let reason = match kind {
                    Kind::Ecall => "ecall with its interrupt masked",
                    Kind::Ebreak => "ebreak with its interrupt masked",
                    _ => "illegal instruction with its interrupt masked",
                };
                if self.active || self.mask & BREAK != 0 {
                    self.now = self.start;
                    return Some(Stop::Fault { pc: self.pc, address: self.pc, reason });
                }
                if !matches!(kind, Kind::Ecall | Kind::Ebreak) {
                    cost = self.timing.illegal;
                }
                self.latched |= BREAK;
                rd = NOWHERE;
                0
            }
        };
        self.registers[usize::from(rd & 63)] = value;
        self.last = self.pc;
        self.pc = self.pc.wrapping_add(u32::from(op.size));
        self.start += cost + self.timing.late(op.next, cost);
        self.retired += 1;
        self.delay = delayed;
        None
    }

    /// Makes the timer count down from `value`; 0 stops it. Returns its value in that cycle.
    fn set_timer(&mut self, cycle: u64, value: u32) -> u32 {
        // In its last cycle the interrupt becomes pending, whatever value is written.
        let pending = self.due.is_some_and(|due| due <= cycle + 1);
        let left = self.due.map_or(0, |due| due.saturating_sub(cycle) as u32);
        self.latched |= if pending { COUNTED_DOWN } else { 0 };
        self.due = (value != 0).then(|| cycle + 1 + u64::from(value));
        left
    }

    fn set_line(&mut self, number: u32, high: bool) {
        let others = self.lines.latest() & !(1 << number);
        self.lines.set(self.now, others | u32::from(high) << number);
    }
}

impl Core for Picorv32 {
    fn cycles(&self) -> u64 {
        self.now
    }

    fn instructions(&self) -> u64 {
        self.retired
    }

    fn run(&mut self, until: u64) -> Stop {
        self.retired += u64::from(std::mem::take(&mut self.unretired));
        self.enter(until);
        loop {
            if !self.launched
                && let Some(stop) = self.boundary(until)
            {
                return stop;
            }
            self.launched = false;
            if let Some(stop) = self.execute(until, self.interrupts_possible()) {
                return stop;
            }
            if self.launched {
                return self.reached(until);
            }
        }
    }

    fn answer(&mut self, value: u32) {
        let Some(op) = self.awaited.take() else { return };
        self.registers[usize::from(op.rd & 63)] = extended(op.kind, value);
    }

    fn set_timer_line(&mut self, high: bool) {
        self.set_line(TIMER_LINE, high);
    }

    fn set_external_line(&mut self, high: bool) {
        self.set_line(EXTERNAL_LINE, high);
    }

    fn sleep_until(&mut self, cycle: u64) {
        if self.waiting.is_some() {
            self.wait_until(cycle);
            self.now = self.now.max(cycle);
        }
    }

    fn peek(&self, address: u32, bytes: &mut [u8]) {
        if let Some(found) = self.memory.get(address, bytes.len()) {
            bytes.copy_from_slice(found);
        }
    }

    fn poke(&mut self, address: u32, bytes: &[u8]) {
        self.memory.put(address, bytes);
    }

    fn register(&self, index: usize) -> u32 {
        self.registers[index & 31]
    }

    fn watch(&mut self, pc: u32) {
        self.watches.add(&mut self.memory, pc);
    }

    fn unwatch(&mut self, pc: u32) {
        self.watches.remove(pc);
    }

    fn upcoming(&self) -> Option<(u64, u32)> {
        Some((if self.waiting.is_some() { u64::MAX } else { self.start }, self.pc))
    }

    fn fork(&self) -> Option<Self> {
        Some(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::assemble::*;
    use super::*;

    const RAM: Ram = Ram { base: 0x0010_0000, size: 0x1000 };
    const DEVICE: u32 = 0x8000_0000;
    const DATA: u32 = 0x0010_0800;
    /// Where the code between two stores to the device begins.
    const CODE: u32 = 0x0010_0200;

    /// A program around `body`: the first store to the device marks its beginning, the second its end. x28 is the address of
    /// the device, x29 that of the data, x30 is 77 and x31 is 5. All interrupts are masked except the core's own, whose handler
    /// returns at once.
    fn measured(body: fn(&mut Program)) -> Program {
        let mut program = Program::at(RAM.base);
        program.put(jal(0, 0x40));
        program.pad_to(RAM.base + 0x10);
        program.put(retirq());
        program.pad_to(RAM.base + 0x40);
        program.load_immediate(28, DEVICE);
        program.load_immediate(29, DATA);
        program.put(addi(30, 0, 77));
        program.put(addi(31, 0, 5));
        program.put(addi(5, 0, -4));
        program.put(maskirq(0, 5));
        program.pad_to(CODE - 4);
        program.put(sw(0, 28, 0));
        body(&mut program);
        program.put(sw(0, 28, 4));
        program.put(jal(0, 0));
        program
    }

    fn core_with(program: &Program, timing: PicoTiming) -> Picorv32 {
        let mut core = Picorv32::new(&[RAM], DEVICE..DEVICE + 8, timing, program.base());
        core.poke(program.base(), program.bytes());
        core
    }

    /// Cycles from one store to the other, less those of a store.
    fn cost(timing: PicoTiming, program: &Program) -> u64 {
        let mut core = core_with(program, timing);
        let mut stamp = || {
            assert!(matches!(core.run(10_000), Stop::Store { .. }));
            core.cycles()
        };
        let begun = stamp();
        stamp() - begun - timing.memory
    }

    fn put(program: &mut Program, instructions: &[u32]) {
        for &instruction in instructions {
            program.put(instruction);
        }
    }

    /// A named piece of code, and its cycles: fast, minimal.
    type Fact = (&'static str, fn(&mut Program), u64, u64);

    /// Measured on the RTL by stores to a device around the instruction.
    const FACTS: &[Fact] = &[
        ("nothing", |_| {}, 0, 0),
        ("addi", |p| put(p, &[addi(1, 2, 3)]), 3, 3),
        ("lui", |p| put(p, &[lui(1, 0x1000)]), 3, 3),
        ("slli by 1", |p| put(p, &[slli(1, 2, 1)]), 3, 5),
        ("srai by 5", |p| put(p, &[srai(1, 2, 5)]), 3, 6),
        ("sll by 13", |p| put(p, &[addi(1, 0, 13), sll(1, 2, 1)]), 6, 11),
        ("srli by 31", |p| put(p, &[srli(1, 2, 31)]), 3, 14),
        ("lw", |p| put(p, &[lw(1, 29, 0)]), 5, 5),
        ("sb", |p| put(p, &[sb(1, 29, 3)]), 5, 5),
        ("mul", |p| put(p, &[mul(1, 30, 31)]), 6, 40),
        ("mulhu", |p| put(p, &[mulhu(1, 30, 31)]), 6, 72),
        ("div", |p| put(p, &[div(1, 30, 31)]), 40, 40),
        ("remu by zero", |p| put(p, &[remu(1, 30, 0)]), 40, 40),
        ("jal", |p| put(p, &[jal(1, 4)]), 3, 3),
        ("jalr", |p| put(p, &[auipc(1, 0), jalr(1, 1, 8)]), 9, 9),
        ("beq, taken", |p| put(p, &[beq(0, 0, 4)]), 5, 5),
        ("beq, not taken", |p| put(p, &[beq(30, 0, 4)]), 3, 3),
        ("rdcycle", |p| put(p, &[csrrs(1, CYCLE, 0)]), 4, 4),
        ("getq", |p| put(p, &[getq(1, 0)]), 4, 4),
        // The handler's one instruction is launched 4 cycles after the cycle in which the one after ebreak would be.
        ("ebreak and retirq", |p| put(p, &[ebreak()]), 4 + 4 + 5, 4 + 4 + 5),
    ];

    #[test]
    fn instructions_take_the_cycles_of_the_rtl() {
        for &(name, body, fast, min) in FACTS {
            let program = measured(body);
            assert_eq!(cost(PicoTiming::FAST, &program), fast, "{name}");
            assert_eq!(cost(PicoTiming::MIN, &program), min, "{name}, minimal");
        }
    }

    /// A run may be cut anywhere: the sum is the same, and time never goes back.
    #[test]
    fn runs_can_be_cut_in_any_cycle() {
        for wait in [0, 1, 3] {
            let timing = PicoTiming::MIN.with_wait(wait);
            let program = measured(|p| {
                put(p, &[div(7, 30, 31), lw(1, 29, 4), beq(1, 0, 4), ebreak(), timer(1, 30), beq(0, 0, 6)]);
                p.put(c_nop());
                put(p, &[slli(1, 7, 9), waitirq(1), sw(1, 29, 0)]);
            });
            let whole = cost(timing, &program);
            let mut core = core_with(&program, timing);
            let mut stamps = Vec::new();
            for cycle in 1.. {
                let stop = core.run(cycle);
                if matches!(stop, Stop::Store { .. }) {
                    stamps.push(core.cycles());
                    if stamps.len() == 2 {
                        break;
                    }
                } else {
                    assert_eq!((stop, core.cycles()), (Stop::Cycle, cycle));
                }
            }
            assert_eq!(stamps[1] - stamps[0], whole + timing.memory);
        }
    }

    /// Misaligned accesses, accesses outside memory and devices, and instructions that this core lacks or masks end the run
    /// with a fault, in the cycle and at the address of the fault.
    #[test]
    fn accesses_and_instructions_that_do_not_exist_are_faults() {
        let cases = [
            (lw(1, 29, 1), DATA + 1),
            (sh(1, 29, 3), DATA + 3),
            (lw(1, 0, 0), 0),
            (sw(1, 28, 8), DEVICE + 8),
            (jalr(0, 0, 0x20), 0x20),
        ];
        for (instruction, address) in cases {
            let mut program = Program::at(RAM.base);
            program.load_immediate(28, DEVICE);
            program.load_immediate(29, DATA);
            let pc = program.put(instruction);
            let mut core = core_with(&program, PicoTiming::FAST);
            for _ in 0..2 {
                let Stop::Fault { pc: at, address: found, .. } = core.run(100) else { panic!("no fault") };
                assert_eq!(found, address);
                assert_eq!(at, if address == 0x20 { 0x20 } else { pc });
            }
        }
        for instruction in [ebreak(), ecall(), mret(), wfi(), csrrw(0, csr::MTVEC, 1), 0xffff_ffff] {
            let mut program = Program::at(RAM.base);
            program.put(instruction);
            let mut core = core_with(&program, PicoTiming::FAST);
            assert!(matches!(core.run(100), Stop::Fault { pc: 0x0010_0000, .. }), "{instruction:08x}");
        }
    }
}
