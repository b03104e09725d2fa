//! The cycle rules of a core as data: the costs that a cycle-accurate model needs in addition to the instruction set.

/// The cycle rules of an in-order core of two stages, or of three with a writeback stage. All are whole cycles.
///
/// An instruction is *in decode* from its first cycle, `c`, on; the next one enters decode at `c` plus the instruction's
/// cost. After a redirect decode is empty for a while: an interrupt that comes then need not wait for an instruction.
///
/// Every number of [`Timing::IBEX_SMALL`] and [`Timing::IBEX_MAXPERF`] was measured on the RTL (Ibex of January 2025, no
/// instruction cache) with memory that grants at once and responds in the next cycle; the comments name the place in the RTL
/// that explains it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Arithmetic, shifts, `lui`, `auipc`, `fence`, branches not taken, CSR accesses without flush.
    pub alu: u64,
    /// A load within one word: request, then response (load-store unit); with a writeback stage the request alone.
    pub load: u64,
    /// A store within one word; accepted by the bus in its first cycle.
    pub store: u64,
    /// Added to a load or store that crosses a word: a second request.
    pub crossing: u64,
    /// `mul` (ibex_multdiv_fast: three 17-bit partial products, or one cycle with the single-cycle multiplier).
    pub mul: u64,
    /// `mulh`, `mulhsu`, `mulhu`: one more.
    pub mulh: u64,
    /// Division and remainder: one bit a cycle, no early out.
    pub div: u64,
    /// Division and remainder by zero.
    pub div_by_zero: u64,
    /// `jal`, `jalr`, `fence.i`: the target is requested in the first cycle.
    pub jump: u64,
    /// Of the cost of a jump: cycles at its end in which decode is empty.
    pub jump_empty: u64,
    /// A branch that is taken: condition, target, fetch; with a branch target ALU the first two are one.
    pub branch_taken: u64,
    /// Added to a redirect whose target is a 32-bit instruction that straddles a word: its second half comes later.
    pub split_target: u64,
    /// `mret`: decode, flush, fetch (controller states DECODE, FLUSH).
    pub mret: u64,
    /// `ecall`, `ebreak`, illegal instruction, up to the first instruction of the handler.
    pub trap: u64,
    /// A write or set of mstatus or mie, which flushes without fetching again. Clearing bits does not.
    pub csr_flush: u64,
    /// Of the cost of a taken branch, `mret`, a trap or a CSR flush: cycles at its end in which decode is empty.
    pub empty: u64,
    /// From the cycle that takes an interrupt (the one after that in which it finds decode empty) to its vector's
    /// instruction in decode.
    pub interrupt: u64,
    /// `wfi`, from decode to the first cycle asleep.
    pub sleep: u64,
    /// From the cycle that sees a pending interrupt to the one in which the instruction after `wfi` is in decode, if interrupts
    /// are disabled.
    pub wake: u64,
    /// Whether a writeback stage after decode waits for the responses to loads and stores: the next instruction enters decode
    /// meanwhile, but does not execute before the response.
    pub writeback: bool,
    /// With a writeback stage: from a load's response to the first cycle in which the next instruction executes, if that reads
    /// the result.
    pub load_use: u64,
    /// Extra cycles of every instruction fetch: granted at once, response delayed.
    pub fetch_wait: u64,
    /// Extra cycles of every load and store: granted at once, response delayed.
    pub data_wait: u64,
}

impl Timing {
    /// Ibex in its small configuration, memory without wait states.
    pub const IBEX_SMALL: Self = Self {
        alu: 1,
        load: 2,
        store: 2,
        crossing: 1,
        mul: 3,
        mulh: 4,
        div: 37,
        div_by_zero: 2,
        jump: 2,
        jump_empty: 0,
        branch_taken: 3,
        split_target: 1,
        mret: 3,
        trap: 3,
        csr_flush: 3,
        empty: 1,
        interrupt: 2,
        sleep: 3,
        wake: 2,
        writeback: false,
        load_use: 0,
        fetch_wait: 0,
        data_wait: 0,
    };

    /// Ibex in its "maxperf" configuration (writeback stage, branch target ALU, single-cycle multiplier), memory without
    /// wait states.
    pub const IBEX_MAXPERF: Self = Self {
        load: 1,
        store: 1,
        mul: 1,
        mulh: 2,
        jump_empty: 1,
        branch_taken: 2,
        writeback: true,
        load_use: 1,
        ..Self::IBEX_SMALL
    };

    /// The same core with a memory that responds `cycles` later, for instructions and data.
    #[must_use]
    pub const fn with_wait(self, cycles: u64) -> Self {
        Self { fetch_wait: cycles, data_wait: cycles, ..self }
    }
}

/// A value that changes at a cycle, with the value before.
///
/// Interrupts are decided in cycles that are earlier than the present one by less than an instruction, so one previous value is
/// enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    now: u32,
    before: u32,
    since: u64,
}

impl Timed {
    /// Zero in every cycle.
    pub(super) const ZERO: Self = Self { now: 0, before: 0, since: 0 };

    /// The value from `cycle` on.
    pub(super) fn set(&mut self, cycle: u64, value: u32) {
        if cycle > self.since {
            self.before = self.now;
            self.since = cycle;
        }
        self.now = value;
    }

    /// The value in a cycle.
    pub(super) fn at(&self, cycle: u64) -> u32 {
        if cycle >= self.since { self.now } else { self.before }
    }

    /// The value after the last change.
    pub(super) fn latest(&self) -> u32 {
        self.now
    }

    /// The cycle of the last change.
    pub(super) fn since(&self) -> u64 {
        self.since
    }

    /// Every bit that is set in some cycle from `cycle` on.
    pub(super) fn any_from(&self, cycle: u64) -> u32 {
        self.now | self.at(cycle)
    }
}
