//! Runs short pieces of code with an interrupt in each of their cycles, to record when the interrupt is taken.

use std::fmt;

use anyhow::Result;

use super::Reset;
use super::program::{DEVICE, RAM};
use crate::core::assemble::{self as asm, Encoded, csr};
use crate::core::{Dialect, Stop};

/// A piece of code between two marker stores, during which the timer line rises.
#[derive(Clone, Copy, Debug)]
pub struct Fragment {
    /// Its name in the record.
    pub name: &'static str,
    /// Halfwords by which it is shifted from an address at a multiple of four.
    shift: u32,
    dialect: Dialect,
    /// Whether interrupts are enabled before.
    enabled: bool,
    body: fn(&mut asm::Program),
}

/// The trap vectors of programs here. The handler of exceptions returns to the word after the one that raised it.
const VECTORS: u32 = RAM.base + 0x400;
const TIMER_VECTOR: u32 = VECTORS + 4 * 7;
const DATA: u32 = RAM.base + 0x800;
/// The device address of the store at the beginning of the piece.
const BEGINNING: u32 = DEVICE.start;
/// The device address of the interrupt handler's store.
const HANDLER: u32 = DEVICE.start + 4;
/// The device address of the store at the end of the piece.
const END: u32 = DEVICE.start + 8;
/// Entry of PicoRV32, and the address to which its programs jump from there.
const START: u32 = RAM.base + 0x100;
/// Cycles after which a piece counts as hung, or as asleep without an end.
const TIMEOUT: u64 = 1_000;
/// Number of phases for a piece that does not reach its end.
const PHASES: u64 = 12;

const fn fragment(name: &'static str, shift: u32, body: fn(&mut asm::Program)) -> Fragment {
    Fragment { name, shift, dialect: Dialect::Machine, enabled: true, body }
}

const fn pico(name: &'static str, shift: u32, body: fn(&mut asm::Program)) -> Fragment {
    Fragment { name, shift, dialect: Dialect::Picorv32, enabled: true, body }
}

const fn masked(name: &'static str, shift: u32, body: fn(&mut asm::Program)) -> Fragment {
    Fragment { name, shift, dialect: Dialect::Machine, enabled: false, body }
}

/// The pieces for a dialect: none for VexRiscv's, which has no cycle model.
#[must_use]
pub const fn fragments(dialect: Dialect) -> &'static [Fragment] {
    match dialect {
        Dialect::Machine => MACHINE_FRAGMENTS,
        Dialect::Picorv32 => PICO_FRAGMENTS,
        Dialect::Vexriscv => &[],
    }
}

/// x5 is 7, x6 is 3, x7 is a mask of all interrupts but the core's own, x28 is a mask that also admits the timer line's, x30
/// points to data.
const PICO_FRAGMENTS: &[Fragment] = &[
    pico("nothing", 0, |_| {}),
    pico("add", 0, |p| put(p, &[asm::add(8, 5, 6)])),
    pico("add, split", 1, |p| put(p, &[asm::add(8, 5, 6)])),
    pico("eight add, split", 1, |p| put(p, &[asm::add(8, 5, 6); 8])),
    pico("eight c.add", 0, |p| put(p, &[asm::c_add(8, 5); 8])),
    pico("lui and auipc", 0, |p| put(p, &[asm::lui(8, 0x1000), asm::auipc(8, 0)])),
    pico("slli by 0", 0, |p| put(p, &[asm::slli(8, 5, 0)])),
    pico("slli by 1", 0, |p| put(p, &[asm::slli(8, 5, 1)])),
    pico("srai by 31", 0, |p| put(p, &[asm::srai(8, 5, 31)])),
    pico("srl by 7", 0, |p| put(p, &[asm::srl(8, 6, 5)])),
    pico("c.slli, then a split word", 1, |p| (p.put(asm::c_slli(8, 2)), p.put(asm::c_nop()), split(p)).2),
    pico("slli before a split word", 1, |p| (p.put(asm::slli(8, 5, 6)), split(p)).1),
    pico("lw", 0, |p| put(p, &[asm::lw(8, 30, 0)])),
    pico("lw before a split word", 1, |p| (p.put(asm::lw(8, 30, 0)), split(p)).1),
    pico("sw", 0, |p| put(p, &[asm::sw(5, 30, 0)])),
    pico("c.sw, short ones around", 0, |p| put(p, &[asm::c_nop(), asm::c_swsp(8, 0), asm::c_nop()])),
    pico("mul", 0, |p| put(p, &[asm::mul(8, 5, 6)])),
    pico("mulhsu", 0, |p| put(p, &[asm::mulhsu(8, 5, 6)])),
    pico("mul before a split word", 1, |p| (p.put(asm::mul(8, 5, 6)), split(p)).1),
    pico("div", 0, |p| put(p, &[asm::div(8, 5, 6)])),
    pico("remu by zero", 0, |p| put(p, &[asm::remu(8, 5, 0)])),
    pico("beq, taken", 0, |p| put(p, &[asm::beq(0, 0, 4)])),
    pico("beq, taken, before a short one", 0, |p| (put(p, &[asm::beq(0, 0, 4)]), put(p, &[asm::c_nop(); 2])).1),
    pico("beq, not taken", 0, |p| put(p, &[asm::beq(5, 0, 4)])),
    pico("beq, taken, to a split word", 0, |p| (p.put(asm::beq(0, 0, 6)), p.put(asm::c_nop()), split(p)).2),
    pico("beq, taken, over words to a split word", 0, |p| {
        put(p, &[asm::beq(0, 0, 10), asm::addi(8, 8, 1)]);
        p.put(asm::c_nop());
        split(p);
    }),
    pico("beq, taken, over half words to a split word", 0, |p| {
        put(p, &[asm::beq(0, 0, 10)]);
        put(p, &[asm::c_nop(); 3]);
        split(p);
    }),
    pico("beq, taken, over a beginning to a short one", 0, |p| {
        put(p, &[asm::beq(0, 0, 10)]);
        p.put(asm::c_nop());
        p.put(asm::addi(8, 8, 1));
        put(p, &[asm::c_nop(); 2]);
    }),
    pico("c.beqz, taken, before a split word", 1, |p| (p.put(asm::c_beqz(9, 6)), split(p)).1),
    pico("beq, split, taken, before a split word", 1, |p| (p.put(asm::beq(0, 0, 10)), split(p), split(p)).1),
    pico("jal", 0, |p| put(p, &[asm::jal(8, 4)])),
    pico("jal to a split word", 0, |p| (p.put(asm::jal(0, 6)), p.put(asm::c_nop()), split(p)).2),
    pico("jalr", 0, |p| put(p, &[asm::auipc(8, 0), asm::jalr(8, 8, 8)])),
    pico("jalr to a split word", 0, |p| {
        put(p, &[asm::auipc(8, 0), asm::jalr(8, 8, 10)]);
        p.put(asm::c_nop());
        split(p);
    }),
    pico("fence", 0, |p| put(p, &[asm::fence()])),
    pico("rdcycle", 0, |p| put(p, &[asm::csrrs(8, csr::CYCLE, 0)])),
    pico("rdcycle before a split word", 1, |p| (p.put(asm::csrrs(8, csr::CYCLE, 0)), split(p)).1),
    pico("getq and setq", 0, |p| put(p, &[asm::getq(8, 2), asm::setq(3, 5)])),
    pico("interrupts off and on", 0, |p| put(p, &[asm::maskirq(8, 7), asm::add(8, 5, 6), asm::maskirq(8, 28)])),
    pico("ebreak", 0, |p| put(p, &[asm::ebreak()])),
    pico("ecall before a split word", 1, |p| (p.put(asm::ecall()), split(p)).1),
    pico("illegal instruction", 0, |p| put(p, &[asm::wfi()])),
    pico("timer", 0, |p| put(p, &[asm::timer(8, 6), asm::add(8, 5, 6), asm::add(8, 5, 6), asm::timer(8, 0)])),
    pico("waitirq", 0, |p| put(p, &[asm::waitirq(8)])),
    pico("waitirq before a split word", 1, |p| (p.put(asm::waitirq(8)), split(p)).1),
    pico("waitirq, interrupts off", 0, |p| put(p, &[asm::maskirq(8, 7), asm::waitirq(8), asm::maskirq(8, 28)])),
];

/// x5 is 7, x6 is 3, x7 is `mie.MTIE`, x30 points to data.
const MACHINE_FRAGMENTS: &[Fragment] = &[
    fragment("nothing", 0, |_| {}),
    fragment("add", 0, |p| put(p, &[asm::add(8, 5, 6)])),
    fragment("add, split", 1, |p| put(p, &[asm::add(8, 5, 6)])),
    fragment("eight add", 0, |p| put(p, &[asm::add(8, 5, 6); 8])),
    fragment("c.add", 0, |p| put(p, &[asm::c_add(8, 5)])),
    fragment("lw", 0, |p| put(p, &[asm::lw(8, 30, 0)])),
    fragment("lw across words", 0, |p| put(p, &[asm::lw(8, 30, 1)])),
    fragment("lh across words", 0, |p| put(p, &[asm::lh(8, 30, 3)])),
    fragment("sw", 0, |p| put(p, &[asm::sw(5, 30, 0)])),
    fragment("sw across words", 0, |p| put(p, &[asm::sw(5, 30, 2)])),
    fragment("mul", 0, |p| put(p, &[asm::mul(8, 5, 6)])),
    fragment("mulh", 0, |p| put(p, &[asm::mulh(8, 5, 6)])),
    fragment("div", 0, |p| put(p, &[asm::div(8, 5, 6)])),
    fragment("remu by zero", 0, |p| put(p, &[asm::remu(8, 5, 0)])),
    fragment("beq, taken", 0, |p| put(p, &[asm::beq(0, 0, 4)])),
    fragment("beq, not taken", 0, |p| put(p, &[asm::beq(5, 0, 4)])),
    fragment("beq, taken, to a split word", 0, |p| (p.put(asm::beq(0, 0, 6)), p.put(asm::c_nop()), split(p)).2),
    fragment("jal", 0, |p| put(p, &[asm::jal(8, 4)])),
    fragment("jal to a split word", 0, |p| (p.put(asm::jal(0, 6)), p.put(asm::c_nop()), split(p)).2),
    fragment("jalr", 0, |p| put(p, &[asm::auipc(8, 0), asm::jalr(8, 8, 8)])),
    fragment("fence.i", 0, |p| put(p, &[asm::fence_i()])),
    fragment("write of mscratch", 0, |p| put(p, &[asm::csrrw(0, csr::MSCRATCH, 5)])),
    fragment("set of mstatus", 0, |p| put(p, &[asm::csrrsi(0, csr::MSTATUS, 8)])),
    fragment("set of mstatus, then a split word", 1, |p| {
        p.put(asm::c_nop());
        put(p, &[asm::csrrsi(0, csr::MSTATUS, 8)]);
        split(p);
    }),
    fragment("interrupts off and on", 0, |p| {
        let [off, on] = [asm::csrrci(0, csr::MSTATUS, 8), asm::csrrsi(0, csr::MSTATUS, 8)];
        put(p, &[off, asm::add(8, 5, 6), on]);
    }),
    fragment("timer off and on", 0, |p| {
        put(p, &[asm::csrrc(0, csr::MIE, 7), asm::add(8, 5, 6), asm::csrrs(0, csr::MIE, 7)]);
    }),
    masked("interrupts on", 0, |p| put(p, &[asm::add(8, 5, 6), asm::csrrsi(0, csr::MSTATUS, 8)])),
    fragment("ecall", 0, |p| put(p, &[asm::ecall()])),
    fragment("ecall before a split word", 1, |p| (put(p, &[asm::ecall()]), split(p)).1),
    fragment("wfi", 0, |p| put(p, &[asm::wfi()])),
    fragment("wfi before a split word", 1, |p| (put(p, &[asm::wfi()]), split(p)).1),
    masked("wfi, interrupts off", 0, |p| put(p, &[asm::wfi()])),
];

fn put(program: &mut asm::Program, instructions: &[impl Encoded + Copy]) {
    for &instruction in instructions {
        program.put(instruction);
    }
}

/// A 32-bit instruction that straddles a word, because of the 16-bit parcel before it; and a parcel after it.
fn split(program: &mut asm::Program) {
    program.put(asm::addi(8, 8, 1));
    program.put(asm::c_nop());
}

impl Fragment {
    fn program(&self) -> asm::Program {
        match self.dialect {
            Dialect::Machine | Dialect::Vexriscv => self.machine_program(),
            Dialect::Picorv32 => self.pico_program(),
        }
    }

    fn pico_program(&self) -> asm::Program {
        let mut program = asm::Program::at(RAM.base);
        program.put(asm::jal(0, START.wrapping_sub(RAM.base) as i32));
        program.pad_to(RAM.base + 0x10);
        put(&mut program, &[asm::sw(0, 31, 4), asm::retirq()]);
        program.pad_to(START);
        program.load_immediate(2, DATA);
        program.load_immediate(30, DATA);
        program.load_immediate(31, DEVICE.start);
        program.load_immediate(28, !(1 << 7 | 0b11));
        put(&mut program, &[asm::addi(5, 0, 7), asm::addi(6, 0, 3), asm::addi(7, 0, !0b11), asm::maskirq(0, 28)]);
        put(&mut program, &[asm::c_nop()].repeat((self.shift & 1) as usize));
        program.put(asm::sw(0, 31, 0));
        (self.body)(&mut program);
        put(&mut program, &[asm::add(8, 5, 6), asm::sw(0, 31, 8), asm::jal(0, 0)]);
        program
    }

    fn machine_program(&self) -> asm::Program {
        let mut program = asm::Program::at(RAM.base);
        program.load_immediate(29, VECTORS);
        program.load_immediate(30, DATA);
        program.load_immediate(31, DEVICE.start);
        put(&mut program, &[asm::addi(5, 0, 7), asm::addi(6, 0, 3), asm::addi(7, 0, 1 << 7)]);
        put(&mut program, &[asm::csrrw(0, csr::MTVEC, 29), asm::csrrw(0, csr::MIE, 7)]);
        if self.enabled {
            program.put(asm::csrrsi(0, csr::MSTATUS, 8));
        }
        put(&mut program, &[asm::c_nop()].repeat((self.shift & 1) as usize));
        program.put(asm::sw(0, 31, 0));
        (self.body)(&mut program);
        put(&mut program, &[asm::add(8, 5, 6), asm::sw(0, 31, 8), asm::jal(0, 0)]);
        program.pad_to(VECTORS);
        put(&mut program, &[asm::csrrs(9, csr::MEPC, 0), asm::addi(9, 9, 4), asm::csrrw(0, csr::MEPC, 9), asm::mret()]);
        program.pad_to(TIMER_VECTOR);
        put(&mut program, &[asm::sw(0, 31, 4), asm::mret()]);
        program
    }

    /// Runs the piece without an interrupt, and then once for each cycle from the first marker to the last, with the timer line
    /// rising in that cycle.
    ///
    /// # Errors
    /// The core cannot be restarted.
    pub fn program_run<C: Reset>(&self, core: &mut C, timing: C::Timing) -> Result<ProgramRun> {
        let program = self.program();
        let (begin, undisturbed) = observe(core, timing, &program, TIMEOUT)?;
        let mut outcomes = vec![undisturbed];
        for phase in 0..=undisturbed.end.unwrap_or(PHASES) {
            outcomes.push(observe(core, timing, &program, begin + phase)?.1);
        }
        Ok(ProgramRun(outcomes))
    }
}

/// Cycles from the beginning of the piece to the handler's store, and to its end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Outcome {
    handler: Option<u64>,
    end: Option<u64>,
}

/// The outcome without an interrupt, then the outcome for each cycle of the interrupt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramRun(Vec<Outcome>);

impl fmt::Display for ProgramRun {
    /// Pairs of the cycles of handler and end, `-` if there is none; repeated pairs are written once with a factor.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |cycle: Option<u64>| cycle.map_or("-".to_owned(), |cycle| cycle.to_string());
        for (index, equal) in self.0.chunk_by(|a, b| a == b).enumerate() {
            let outcome = equal.first().copied().unwrap_or_default();
            let separator = if index == 0 { "" } else { " " };
            write!(f, "{separator}{}/{}", text(outcome.handler), text(outcome.end))?;
            if equal.len() > 1 {
                write!(f, "*{}", equal.len())?;
            }
        }
        Ok(())
    }
}

/// Runs `program` with the timer line rising in the cycle `rise`. Returns the cycle of its beginning, and the outcome.
fn observe<C: Reset>(core: &mut C, timing: C::Timing, program: &asm::Program, rise: u64) -> Result<(u64, Outcome)> {
    core.reset(&[RAM], DEVICE, timing, program.base())?;
    core.poke(program.base(), program.bytes());
    let (mut begin, mut outcome, mut risen) = (0, Outcome::default(), false);
    while core.cycles() < TIMEOUT && outcome.end.is_none() {
        let stop = core.run(if risen { TIMEOUT } else { rise });
        match stop {
            Stop::Cycle => {}
            Stop::Idle if !risen => core.sleep_until(rise),
            Stop::Store { address: BEGINNING, .. } => begin = core.cycles(),
            Stop::Store { address: HANDLER, .. } => {
                outcome.handler = Some(core.cycles() - begin);
                core.set_timer_line(false);
            }
            Stop::Store { address: END, .. } => outcome.end = Some(core.cycles() - begin),
            _ => break,
        }
        if !risen && core.cycles() >= rise {
            risen = true;
            core.set_timer_line(true);
        }
    }
    Ok((begin, outcome))
}
