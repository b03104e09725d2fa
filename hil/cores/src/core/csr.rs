//! The control and status registers of Ibex small: no physical memory protection, no triggers, no event counters.
//!
//! Numbers and fields: the RISC-V Instruction Set Manual, volume II; what Ibex adds or leaves out: its documentation,
//! chapter "Control and Status Registers".

/// mstatus.MIE: interrupts enabled.
const MIE: u32 = 1 << 3;
/// mstatus.MPIE: the value of MIE before the trap.
const MPIE: u32 = 1 << 7;
/// mstatus.MPP: the mode before the trap, all ones for machine mode, zero for user mode.
const MPP: u32 = 3 << 11;
/// mstatus.MPRV: loads and stores with the rights of MPP.
const MPRV: u32 = 1 << 17;
/// mstatus.TW: `wfi` in user mode is an illegal instruction.
const TW: u32 = 1 << 21;

/// The machine timer interrupt in mie and mip, and its cause number.
pub(super) const TIMER: u32 = 7;
/// The machine external interrupt.
pub(super) const EXTERNAL: u32 = 11;
/// Software (3), timer (7), external (11) and the fifteen fast interrupts (16 to 30).
const INTERRUPTS: u32 = 1 << 3 | 1 << TIMER | 1 << EXTERNAL | 0x7fff_0000;

/// RV32 with C, I, M and U.
const MISA: u32 = 1 << 30 | 1 << 20 | 1 << 12 | 1 << 8 | 1 << 2;
/// The architecture number that RISC-V International gave to Ibex.
const MARCHID: u32 = 22;

/// cpuctrlsts: an exception was taken and its handler has not returned.
const SYNC_EXCEPTION_SEEN: u32 = 1 << 6;
/// cpuctrlsts: another exception was taken meanwhile.
const DOUBLE_FAULT_SEEN: u32 = 1 << 7;

/// The registers' state.
#[derive(Clone, Debug)]
pub(super) struct Csr {
    mstatus: u32,
    mie: u32,
    mtvec: u32,
    mscratch: u32,
    mepc: u32,
    mcause: u32,
    mtval: u32,
    mcountinhibit: u32,
    cpuctrlsts: u32,
    /// The program has written mtvec, so traps can be taken.
    vector_set: bool,
    /// The program runs in user mode.
    user: bool,
    pub(super) cycles: Counter,
    instructions: Counter,
}

/// The counter values at one moment: an access reads these, and a write takes effect right after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// The cycle.
    pub(super) cycle: u64,
    /// Instructions retired before, as an instruction reads them from minstret.
    pub(super) retired: u64,
    /// Instructions retired before, as the register holds them: one in the writeback stage is not counted yet.
    pub(super) held: u64,
    /// Instructions retired before a written value takes effect: with or without the writing instruction itself.
    pub(super) counted: u64,
    /// Interrupt lines, at their places in mip.
    pub(super) pending: u32,
}

impl Csr {
    /// The state after reset.
    pub(super) const RESET: Self = Self {
        mstatus: MPIE,
        mie: 0,
        mtvec: 1,
        mscratch: 0,
        mepc: 0,
        mcause: 0,
        mtval: 0,
        mcountinhibit: 0,
        cpuctrlsts: 0,
        vector_set: false,
        user: false,
        cycles: Counter::ZERO,
        instructions: Counter::ZERO,
    };

    /// Interrupts that may be taken, at their places in mip.
    pub(super) fn enabled(&self) -> u32 {
        if self.mstatus & MIE != 0 || self.user { self.mie } else { 0 }
    }

    /// Interrupts that end a wait, whether they may be taken or not.
    pub(super) fn wakes(&self) -> u32 {
        self.mie
    }

    /// Whether the program has set the trap vector.
    pub(super) fn vector_set(&self) -> bool {
        self.vector_set
    }

    /// Whether `wfi` is refused.
    pub(super) fn may_not_wait(&self) -> bool {
        self.user && self.mstatus & TW != 0
    }

    /// Reads a register; `None` if it does not exist, or the present mode may not read it.
    pub(super) fn read(&self, number: u32, moment: Moment) -> Option<u32> {
        if self.user && number & 0x300 != 0 {
            return None;
        }
        Some(match number {
            0x300 => self.mstatus,
            0x301 => MISA,
            0x304 => self.mie,
            0x305 => self.mtvec,
            0x320 => self.mcountinhibit,
            0x340 => self.mscratch,
            0x341 => self.mepc,
            0x342 => self.mcause,
            0x343 => self.mtval,
            0x344 => moment.pending,
            0x7c0 => self.cpuctrlsts,
            0xb00 => self.cycles.at(moment.cycle) as u32,
            0xb02 => self.instructions.at(moment.retired) as u32,
            0xb80 => (self.cycles.at(moment.cycle) >> 32) as u32,
            0xb82 => (self.instructions.at(moment.retired) >> 32) as u32,
            0xf12 => MARCHID,
            // Implemented, read as zero: mcounteren, menvcfg(h), mstatush, the events and their counters, secureseed,
            // mvendorid, mimpid, mhartid, mconfigptr.
            0x306 | 0x30a | 0x310 | 0x31a | 0x323..=0x33f | 0x7c1 | 0xb03..=0xb1f | 0xb83..=0xb9f => 0,
            0xf11 | 0xf13..=0xf15 => 0,
            _ => return None,
        })
    }

    /// Writes a register that [`Self::read`] can read. Returns `false` if it may not be written.
    pub(super) fn write(&mut self, number: u32, value: u32, moment: Moment) -> bool {
        let (cycle, retired) = (moment.cycle + 1, moment.counted);
        match number {
            0x300 => {
                self.mstatus = value & (MIE | MPIE | MPRV | TW | if value & MPP == MPP { MPP } else { 0 });
            }
            0x304 => self.mie = value & INTERRUPTS,
            0x305 => {
                self.mtvec = value & !0xff | 1;
                self.vector_set = true;
            }
            0x320 => {
                self.mcountinhibit = value & 0b101;
                self.cycles.inhibit(value & 1 != 0, cycle);
                self.instructions.inhibit(value & 4 != 0, retired);
            }
            0x340 => self.mscratch = value,
            0x341 => self.mepc = value & !1,
            0x342 => self.mcause = cause_field(value),
            0x343 => self.mtval = value,
            0x7c0 => self.cpuctrlsts = value & (SYNC_EXCEPTION_SEEN | DOUBLE_FAULT_SEEN),
            0xb00 => self.cycles.set(self.cycles.at(moment.cycle) & !0xffff_ffff | u64::from(value), cycle),
            0xb80 => {
                self.cycles.set(self.cycles.at(moment.cycle) & 0xffff_ffff | u64::from(value) << 32, cycle);
            }
            0xb02 => {
                let kept = self.instructions.at(moment.held) & !0xffff_ffff;
                self.instructions.set(kept | u64::from(value), retired);
            }
            0xb82 => {
                let kept = self.instructions.at(moment.held) & 0xffff_ffff;
                self.instructions.set(kept | u64::from(value) << 32, retired);
            }
            _ => return number & 0xc00 != 0xc00,
        }
        true
    }

    /// Takes an exception at `pc` and returns the address of its handler.
    pub(super) fn exception(&mut self, pc: u32, cause: u32, value: u32) -> u32 {
        self.enter(pc, cause, value);
        if self.cpuctrlsts & SYNC_EXCEPTION_SEEN != 0 {
            self.cpuctrlsts |= DOUBLE_FAULT_SEEN;
        }
        self.cpuctrlsts |= SYNC_EXCEPTION_SEEN;
        self.mtvec & !0xff
    }

    /// The cause number of an environment call from the present mode.
    pub(super) fn environment_call(&self) -> u32 {
        if self.user { 8 } else { 11 }
    }

    /// Takes the interrupt of highest priority of `pending` before the instruction at `pc`; returns the address of its vector.
    pub(super) fn interrupt(&mut self, pc: u32, pending: u32) -> u32 {
        let cause = if pending & 1 << EXTERNAL != 0 { EXTERNAL } else { TIMER };
        self.enter(pc, 1 << 31 | cause, 0);
        (self.mtvec & !0xff) + 4 * cause
    }

    fn enter(&mut self, pc: u32, cause: u32, value: u32) {
        let previous = if self.mstatus & MIE != 0 { MPIE } else { 0 } | if self.user { 0 } else { MPP };
        self.mstatus = self.mstatus & (MPRV | TW) | previous;
        self.user = false;
        self.mepc = pc;
        self.mcause = cause;
        self.mtval = value;
    }

    /// Returns from a trap. The result is the address of the next instruction; `None` in user mode, where `mret` is illegal.
    pub(super) fn leave(&mut self) -> Option<u32> {
        if self.user {
            return None;
        }
        self.user = self.mstatus & MPP == 0;
        let kept = self.mstatus & if self.user { TW } else { TW | MPRV };
        self.mstatus = kept | MPIE | if self.mstatus & MPIE != 0 { MIE } else { 0 };
        self.cpuctrlsts &= !SYNC_EXCEPTION_SEEN;
        Some(self.mepc)
    }
}

/// mcause as Ibex keeps it: the interrupt bit (bit 30 marks an internal one) and five bits of number.
fn cause_field(value: u32) -> u32 {
    let internal = if value >> 30 == 3 { 0x7fff_ffe0 } else { 0 };
    value & 1 << 31 | internal | value & 31
}

/// A 64-bit counter of something that is counted elsewhere (cycles, instructions): only the difference is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    offset: u64,
    stopped: Option<u64>,
}

impl Counter {
    const ZERO: Self = Self { offset: 0, stopped: None };

    fn at(&self, count: u64) -> u64 {
        self.stopped.unwrap_or_else(|| count.wrapping_add(self.offset))
    }

    /// From `count` on it shows `value`.
    fn set(&mut self, value: u64, count: u64) {
        self.offset = value.wrapping_sub(count);
        self.stopped = self.stopped.map(|_| value);
    }

    /// Stops the counter from `count` on, or lets it run again.
    fn inhibit(&mut self, inhibited: bool, count: u64) {
        let value = self.at(count);
        self.stopped = None;
        self.set(value, count);
        self.stopped = inhibited.then_some(value);
    }

    /// Subtracts `count` cycles or instructions during which it stood still.
    pub(super) fn miss(&mut self, count: u64) {
        self.offset = self.offset.wrapping_sub(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Moment = Moment { cycle: 100, retired: 40, held: 40, counted: 41, pending: 0 };

    fn written(csr: &mut Csr, number: u32, value: u32) -> Option<u32> {
        assert!(csr.write(number, value, START));
        csr.read(number, START)
    }

    /// WARL fields keep what Ibex implements.
    #[test]
    fn registers_keep_their_fields() {
        let mut csr = Csr::RESET;
        assert_eq!(written(&mut csr, 0x300, u32::MAX), Some(MIE | MPIE | MPP | MPRV | TW));
        assert_eq!(written(&mut csr, 0x300, 1 << 11), Some(0), "modes other than machine read as user");
        assert_eq!(written(&mut csr, 0x304, u32::MAX), Some(0x7fff_0888));
        assert_eq!(written(&mut csr, 0x305, 0x1234_5678), Some(0x1234_5601), "vectored, 256-byte aligned");
        assert_eq!(written(&mut csr, 0x341, 0x1235), Some(0x1234));
        assert_eq!(written(&mut csr, 0x342, u32::MAX), Some(u32::MAX));
        assert_eq!(written(&mut csr, 0x342, 0x8000_0007), Some(0x8000_0007));
        assert_eq!(written(&mut csr, 0x301, 0), Some(MISA), "writes are ignored");
    }

    #[test]
    fn registers_that_do_not_exist_or_are_read_only_are_refused() {
        let mut csr = Csr::RESET;
        for number in [0xc00, 0x3a0, 0x7a0, 0x7b0, 0x180, 0xfff] {
            assert_eq!(csr.read(number, START), None, "{number:x}");
        }
        assert!(!csr.write(0xf14, 0, START), "mhartid is read-only");
    }

    /// A trap pushes the enable bit and the mode; `mret` pops them (volume II, section 3.1.6.1).
    #[test]
    fn traps_push_and_returns_pop() {
        let mut csr = Csr::RESET;
        csr.write(0x305, 0x8000, START);
        csr.write(0x304, 1 << TIMER | 1 << EXTERNAL, START);
        csr.write(0x300, MIE | MPP, START);
        assert_eq!(csr.enabled(), 1 << TIMER | 1 << EXTERNAL);
        assert_eq!(csr.interrupt(0x4002, 1 << TIMER), 0x801c);
        assert_eq!(csr.enabled(), 0);
        assert_eq!(csr.read(0x300, START), Some(MPIE | MPP));
        assert_eq!(csr.read(0x342, START), Some(0x8000_0007));
        assert_eq!(csr.leave(), Some(0x4002));
        assert_eq!(csr.read(0x300, START), Some(MIE | MPIE));
        assert_eq!(csr.interrupt(0x4002, 1 << TIMER | 1 << EXTERNAL), 0x802c, "external goes first");
        assert_eq!(csr.exception(0x8100, 2, 0xffff), 0x8000);
        assert_eq!(csr.read(0x343, START), Some(0xffff));
    }

    /// Reset leaves MPP at user mode, in which machine registers cannot be accessed.
    #[test]
    fn user_mode_cannot_access_machine_registers() {
        let mut csr = Csr::RESET;
        assert_eq!(csr.leave(), Some(0));
        assert_eq!(csr.read(0x300, START), None);
        assert_eq!(csr.leave(), None);
        assert_eq!(csr.environment_call(), 8);
    }

    #[test]
    fn counters_count_from_the_value_written() {
        let mut csr = Csr::RESET;
        assert_eq!(csr.read(0xb00, START), Some(100));
        csr.write(0xb00, 7, START);
        csr.write(0xb80, 1, START);
        let later = Moment { cycle: 111, retired: 45, held: 45, counted: 46, pending: 0 };
        assert_eq!(csr.read(0xb80, later), Some(1));
        assert_eq!(csr.read(0xb02, later), Some(45));
        csr.write(0x320, 1, START);
        let (stopped, much_later) = (csr.read(0xb00, later), Moment { cycle: 500, ..later });
        assert_eq!(csr.read(0xb00, much_later), stopped);
        csr.write(0x320, 0, much_later);
        assert_eq!(csr.read(0xb00, Moment { cycle: 511, ..later }), stopped.map(|value| value + 10));
    }
}
