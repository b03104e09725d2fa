//! The model of Ibex: its state, and what happens between instructions.

use std::ops::Range;

use super::csr::{Csr, EXTERNAL, Moment, TIMER};
use super::decode::{Op, extended, is_compressed};
use super::memory::Memory;
use super::prefetch::{Head, Prefetch};
use super::timing::{Timed, Timing};
use super::watch::Watches;
use super::{Core, Ram, Stop};

/// An instruction-set model of Ibex with exact timing, in one of the configurations that [`Timing`] knows.
///
/// An instruction executes as a whole when it enters decode; time then jumps to its end. Interrupts and other events in the
/// cycles until the next instruction enters decode are handled before that one executes, so that [`Core::run`] can stop in any
/// cycle and continue.
#[derive(Clone, Debug)]
pub struct Ibex {
    pub(super) timing: Timing,
    pub(super) memory: Memory,
    pub(super) devices: Range<u32>,
    /// x0 to x31; index 32 takes writes to x0, which are discarded. The length spares bounds checks.
    pub(super) registers: [u32; 64],
    pub(super) csr: Csr,
    /// Address of the next instruction.
    pub(super) pc: u32,
    /// Instructions retired.
    pub(super) retired: u64,
    /// The cycle in which the next instruction enters decode, unless an interrupt comes before it.
    pub(super) start: u64,
    /// The cycle from which on decode is empty and waits for the next instruction.
    pub(super) free: u64,
    /// Whether the next instruction has left the fetch stage: then an interrupt can no longer come before it.
    handed_over: bool,
    /// Whether an interrupt is to be taken in the cycle `free`.
    interrupted: bool,
    /// Whether an instruction that stopped at a device has not retired yet.
    pub(super) unretired: bool,
    /// The last load or store, which a writeback stage may still hold.
    pub(super) access: Access,
    /// A load that waits for its device.
    pub(super) awaited: Option<Op>,
    /// The target of the last redirect, and the cycle in which it could enter decode.
    pub(super) target: u32,
    pub(super) arrived: u64,
    /// The first cycle asleep, after `wfi`.
    pub(super) asleep: Option<u64>,
    /// The cycle that [`Core::cycles`] returns.
    pub(super) now: u64,
    /// Interrupt lines, at their places in mip.
    lines: Timed,
    /// Interrupts that may be taken.
    enabled: Timed,
    /// The prefetch buffer, if the instruction memory has wait states.
    pub(super) prefetch: Option<Prefetch>,
    pub(super) watches: Watches,
}

impl Ibex {
    /// A core with zeroed RAM about to execute at `entry`. Loads and stores in `devices` that do not lie in RAM return as
    /// stops.
    #[must_use]
    pub fn new(ram: &[Ram], devices: Range<u32>, timing: Timing, entry: u32) -> Self {
        Self {
            timing,
            memory: Memory::new(ram),
            devices,
            registers: [0; 64],
            csr: Csr::RESET,
            pc: entry,
            retired: 0,
            start: 0,
            free: 0,
            handed_over: true,
            interrupted: false,
            unretired: false,
            access: Access::default(),
            awaited: None,
            target: entry,
            arrived: 0,
            asleep: None,
            now: 0,
            lines: Timed::ZERO,
            enabled: Timed::ZERO,
            prefetch: None,
            watches: Watches::default(),
        }
    }

    /// The cycle rules of this core.
    #[must_use]
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Interrupts that are pending and enabled in a cycle.
    fn interrupts(&self, cycle: u64) -> u32 {
        self.lines.at(cycle) & self.enabled.at(cycle)
    }

    /// Whether an interrupt may be taken from now on, so that every boundary between instructions must be checked.
    fn interrupts_possible(&self) -> bool {
        self.lines.any_from(self.start) & self.enabled.any_from(self.start) != 0
    }

    /// Called when the interrupt enables have changed, with effect from `cycle` on.
    pub(super) fn interrupts_changed(&mut self, cycle: u64) {
        self.enabled.set(cycle, self.csr.enabled());
    }

    /// The present moment, for accesses to CSRs.
    ///
    /// With a writeback stage, minstret does not include the instruction in that stage, so a read returns one more. It does so
    /// even if the stage is empty (ibex_wb_stage: `perf_instr_ret_wb_spec_o` does not check).
    pub(super) fn moment(&self) -> Moment {
        let behind = self.timing.writeback && self.free < self.start;
        let retired = self.retired + u64::from(behind);
        Moment {
            cycle: self.start,
            retired,
            held: retired.wrapping_sub(u64::from(self.timing.writeback)),
            counted: self.retired + u64::from(!self.timing.writeback),
            pending: self.lines.at(self.start),
        }
    }

    /// Continues at `target`, `cost` cycles after the present instruction; in the last of these cycles decode is empty.
    pub(super) fn redirect(&mut self, target: u32, cost: u64) {
        self.pc = target;
        self.redirected(cost);
        self.start += cost;
        self.free = self.start - self.timing.empty;
        if self.memory.is_split(target) {
            self.start += self.timing.split_target;
        }
        (self.target, self.arrived) = (target, self.start);
    }

    /// Passes a new target to the fetch stage, two cycles before its instruction can be in decode.
    pub(super) fn redirected(&mut self, cost: u64) {
        if let Some(prefetch) = &mut self.prefetch {
            prefetch.redirect(self.start + cost - 2);
        }
    }

    /// Lets cycles pass until the next instruction, or the first one of an interrupt, enters decode, or until the cycle
    /// `until`.
    fn boundary(&mut self, until: u64) -> Option<Stop> {
        if let Some(from) = self.asleep {
            match self.waking(from) {
                Some(cycle) if cycle < until => self.wake(from, cycle),
                None if until > from => {
                    self.now = self.now.max(from);
                    return Some(if self.now < until { Stop::Idle } else { Stop::Cycle });
                }
                _ => return Some(self.reached(until)),
            }
        }
        let arrives = !self.handed_over;
        let mut cycle = if self.interrupted { self.free } else { self.free.min(self.start.saturating_sub(1)) };
        while !self.handed_over {
            if cycle >= until {
                return Some(self.reached(until));
            }
            let interrupts = self.interrupts(cycle);
            if std::mem::take(&mut self.interrupted) && interrupts != 0 {
                self.interrupt(cycle, interrupts);
                cycle = self.free;
                continue;
            }
            self.interrupted = interrupts != 0 && cycle >= self.free;
            // A pending interrupt keeps the next instruction out of decode, even if it is disabled a cycle later.
            let requested = interrupts == 0 && cycle + 1 >= self.start;
            self.handed_over = requested && self.fetched(cycle);
            cycle += 1;
            self.start = self.start.max(if requested { cycle } else { 0 });
            self.free = if self.interrupted { cycle } else { self.free };
        }
        if arrives {
            self.access.next = self.start;
            self.start = self.start.max(self.access.ready);
        }
        (self.start >= until).then(|| self.reached(until))
    }

    fn reached(&mut self, cycle: u64) -> Stop {
        self.now = self.now.max(cycle);
        Stop::Cycle
    }

    /// Whether the fetch stage can hand over the next instruction in a cycle.
    fn fetched(&mut self, cycle: u64) -> bool {
        let Some(prefetch) = &mut self.prefetch else { return true };
        prefetch.hand_over(cycle, head(&self.memory, self.pc))
    }

    /// Takes an interrupt in `cycle`: the cycle after the one in which decode was empty and the interrupt pending.
    fn interrupt(&mut self, cycle: u64, pending: u32) {
        self.start = cycle;
        let vector = self.csr.interrupt(self.pc, pending);
        self.redirect(vector, self.timing.interrupt);
        self.interrupts_changed(self.free);
    }

    /// The cycle in which a core that is asleep since `from` sees an interrupt.
    fn waking(&self, from: u64) -> Option<u64> {
        let wakes = self.csr.wakes();
        if self.lines.at(from) & wakes != 0 {
            Some(from)
        } else {
            (self.lines.latest() & wakes != 0).then(|| self.lines.since().max(from))
        }
    }

    /// Wakes up in `cycle` from the sleep that began in `from`.
    fn wake(&mut self, from: u64, cycle: u64) {
        self.asleep = None;
        let still = self.clock_stops(from, cycle);
        self.csr.cycles.miss(cycle.saturating_sub(still));
        self.start = cycle + self.timing.wake;
        self.free = self.start - self.timing.empty;
    }

    /// The cycle from which on the core's clock stands still, for a sleep from `from` to `cycle`: the first one asleep, but
    /// not before the fetch stage has been idle for a cycle.
    fn clock_stops(&mut self, from: u64, cycle: u64) -> u64 {
        if let Some(prefetch) = &mut self.prefetch {
            prefetch.pause(from - 1..cycle + 1);
            return from.max(prefetch.last_response(from - 1).map_or(0, |response| response + 2));
        }
        // If memory responds in the next cycle, no request is under way. The exception: if every cycle since the last redirect
        // has taken a whole word out of the queue, it is not yet full two cycles before `from`.
        let upper = self.target & 2;
        let taken = self.pc.wrapping_sub(self.target).wrapping_add(upper).wrapping_sub(4);
        let wfi = from - self.timing.sleep;
        let starving = u64::from(taken) == 4 * (wfi - self.arrived) && !self.memory.is_split(self.target);
        from + u64::from(starving)
    }
}

/// A load or store in a writeback stage, and the cycles for which the next instruction waits because of it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Access {
    /// The cycle in which the next instruction enters decode.
    pub(super) next: u64,
    /// The cycle in which the memory responds.
    pub(super) response_cycle: u64,
    /// The cycle from which on the next instruction executes: `response_cycle`, or later if it reads the loaded value.
    pub(super) ready: u64,
}

impl Access {
    /// For an instruction that executes in the cycle `start`: the cycles for which it has waited for the response. The fetch of
    /// its branch target began that much earlier (ibex_id_stage: `instr_executing_spec`).
    pub(super) fn ahead(&self, start: u64) -> u64 {
        if start == self.ready && self.ready == self.response_cycle { start - self.next } else { 0 }
    }
}

/// What the instruction at `pc` needs from the prefetch buffer; an arbitrary value if there is no instruction.
fn head(memory: &Memory, pc: u32) -> Head {
    Head { upper: pc & 2 != 0, compressed: memory.instruction(pc).is_some_and(is_compressed) }
}

impl Core for Ibex {
    fn cycles(&self) -> u64 {
        self.now
    }

    fn instructions(&self) -> u64 {
        self.retired
    }

    fn run(&mut self, until: u64) -> Stop {
        if self.prefetch.is_none() && self.timing.fetch_wait > 0 {
            self.prefetch = Some(Prefetch::new(self.timing.fetch_wait, head(&self.memory, self.pc)));
        }
        self.retired += u64::from(std::mem::take(&mut self.unretired));
        loop {
            if let Some(stop) = self.boundary(until) {
                return stop;
            }
            let one_by_one = self.prefetch.is_some() || self.interrupts_possible();
            let begun = self.start;
            let stop = self.execute(if one_by_one { begun + 1 } else { until });
            self.handed_over &= self.start == begun;
            if let Some(stop) = stop {
                return stop;
            }
        }
    }

    fn answer(&mut self, value: u32) {
        let Some(op) = self.awaited.take() else { return };
        let value = extended(op.kind, value);
        self.registers[usize::from(op.rd & 63)] = value;
    }

    fn set_timer_line(&mut self, high: bool) {
        self.set_line(TIMER, high);
    }

    fn set_external_line(&mut self, high: bool) {
        self.set_line(EXTERNAL, high);
    }

    fn sleep_until(&mut self, cycle: u64) {
        if self.asleep.is_some() {
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
        Some((if self.asleep.is_some() { u64::MAX } else { self.start }, self.pc))
    }

    fn fork(&self) -> Option<Self> {
        Some(self.clone())
    }
}

impl Ibex {
    fn set_line(&mut self, number: u32, high: bool) {
        let others = self.lines.latest() & !(1 << number);
        self.lines.set(self.now, others | u32::from(high) << number);
    }
}
