//! Facts about Ibex small that the model must reproduce.
//!
//! Every number here was measured on the RTL (Ibex of January 2025 as packaged on PyPI, simulated with Verilator 5.006)
//! on memory that grants at once: instruction costs by stores to a device around the instruction, interrupts by
//! raising the timer line in each cycle of a short program.

use super::assemble::*;
use super::{Core, Ibex, Ram, Stop, Timing};

const RAM: Ram = Ram { base: 0x1000, size: 0x2000 };
const DEVICE: u32 = 0x8000_0000;
/// Data in RAM for loads and stores, word-aligned.
const DATA: u32 = 0x2000;
/// The trap vector of programs here.
const VECTOR: u32 = 0x1800;

fn core_with(program: &Program, timing: Timing) -> Ibex {
    let mut core = Ibex::new(&[RAM], DEVICE..DEVICE + 0x100, timing, program.base());
    core.poke(program.base(), program.bytes());
    core
}

/// A program around `body` with x28 = device, x29 = data, x30 = 77 and x31 = 5; the first store stamps its beginning,
/// the second its end. `offset` halfwords come before it, so that `body` begins at an odd halfword when it is 1.
fn measured(offset: usize, body: impl Fn(&mut Program)) -> Program {
    let mut program = Program::at(RAM.base);
    program.load_immediate(28, DEVICE);
    program.load_immediate(29, DATA);
    program.put(addi(30, 0, 77));
    program.put(addi(31, 0, 5));
    program.load_immediate(5, VECTOR);
    program.put(csrrw(0, csr::MTVEC, 5));
    for _ in 0..offset {
        program.put(c_nop());
    }
    program.put(sw(0, 28, 0));
    body(&mut program);
    program.put(sw(0, 28, 4));
    program.put(jal(0, 0));
    program.pad_to(VECTOR);
    // The handler of exceptions returns behind the word that caused it: seven words, eleven cycles.
    program.put(csrrs(6, csr::MEPC, 0));
    program.put(addi(6, 6, 4));
    program.put(csrrw(0, csr::MEPC, 6));
    program.put(mret());
    program
}

/// Cycles of `body`, less those of the first of the two stores.
fn cost(timing: Timing, program: &Program) -> u64 {
    let mut core = core_with(program, timing);
    let mut stamps = Vec::new();
    while stamps.len() < 2 {
        match core.run(10_000) {
            Stop::Store { .. } => stamps.push(core.cycles()),
            Stop::Load { .. } => core.answer(0),
            stop => panic!("{stop:?}"),
        }
    }
    stamps[1] - stamps[0] - timing.store - timing.data_wait
}

/// A named piece of code, its place (halfwords it is shifted by), and its cycles.
type Fact = (&'static str, usize, fn(&mut Program), u64);

/// Instruction costs with memory that answers in the next cycle.
const FACTS: &[Fact] = &[
    ("nothing", 0, |_| {}, 0),
    ("addi", 0, |p| put(p, addi(1, 2, 3)), 1),
    ("slli", 0, |p| put(p, slli(1, 2, 31)), 1),
    ("lui", 0, |p| put(p, lui(1, 0x1000)), 1),
    ("auipc", 0, |p| put(p, auipc(1, 0)), 1),
    ("fence", 0, |p| put(p, fence()), 1),
    ("fence.i", 0, |p| put(p, fence_i()), 2),
    ("c.add", 0, |p| put(p, c_add(1, 2)), 1),
    ("read of mcycle", 0, |p| put(p, csrrs(1, csr::MCYCLE, 0)), 1),
    ("write of mscratch", 0, |p| put(p, csrrw(0, csr::MSCRATCH, 1)), 1),
    ("write of mstatus", 0, |p| put(p, csrrw(0, csr::MSTATUS, 0)), 3),
    ("write of mie", 0, |p| put(p, csrrwi(0, csr::MIE, 0)), 3),
    ("set of a bit of mstatus", 0, |p| put(p, csrrsi(0, csr::MSTATUS, 8)), 3),
    ("set of no bit of mstatus", 0, |p| put(p, csrrs(1, csr::MSTATUS, 0)), 1),
    ("clear of a bit of mstatus", 0, |p| put(p, csrrci(0, csr::MSTATUS, 8)), 1),
    (
        "mtvec, mepc and mip flush nothing",
        0,
        |p| [csr::MTVEC, csr::MEPC, csr::MIP].map(|n| p.put(csrrs(0, n, 0))).fill(0),
        3,
    ),
    (
        "a flush fetches nothing again",
        0,
        |p| (put(p, c_nop()), put(p, csrrwi(0, csr::MIE, 0)), put(p, addi(1, 1, 1))).2,
        5,
    ),
    ("lw", 0, |p| put(p, lw(1, 29, 0)), 2),
    ("lw and its use", 0, |p| (put(p, lw(1, 29, 0)), put(p, addi(1, 1, 1))).1, 3),
    ("lb at offset 3", 0, |p| put(p, lb(1, 29, 3)), 2),
    ("lh at offset 1", 0, |p| put(p, lh(1, 29, 1)), 2),
    ("lh at offset 3", 0, |p| put(p, lh(1, 29, 3)), 3),
    ("lw at offset 1", 0, |p| put(p, lw(1, 29, 1)), 3),
    ("lw at offset 2", 0, |p| put(p, lw(1, 29, 2)), 3),
    ("sw", 0, |p| put(p, sw(1, 29, 0)), 2),
    ("sb at offset 3", 0, |p| put(p, sb(1, 29, 3)), 2),
    ("sh at offset 2", 0, |p| put(p, sh(1, 29, 2)), 2),
    ("sh at offset 3", 0, |p| put(p, sh(1, 29, 3)), 3),
    ("sw at offset 3", 0, |p| put(p, sw(1, 29, 3)), 3),
    ("lw from a device", 0, |p| put(p, lw(1, 28, 8)), 2),
    ("mul", 0, |p| put(p, mul(1, 30, 31)), 3),
    ("mulh", 0, |p| put(p, mulh(1, 30, 31)), 4),
    ("mulhsu", 0, |p| put(p, mulhsu(1, 30, 31)), 4),
    ("mulhu", 0, |p| put(p, mulhu(1, 30, 31)), 4),
    ("div", 0, |p| put(p, div(1, 30, 31)), 37),
    ("divu", 0, |p| put(p, divu(1, 30, 31)), 37),
    ("rem", 0, |p| put(p, rem(1, 30, 31)), 37),
    ("remu", 0, |p| put(p, remu(1, 31, 30)), 37),
    ("div by zero", 0, |p| put(p, div(1, 30, 0)), 2),
    ("remu by zero", 0, |p| put(p, remu(1, 30, 0)), 2),
    ("jal", 0, |p| put(p, jal(1, 4)), 2),
    ("c.j to a word", 1, |p| put(p, c_j(2)), 2),
    ("jal to a split word", 0, |p| (put(p, jal(0, 6)), put(p, c_nop())).1, 3),
    ("jal to a parcel in the upper half", 0, |p| (put(p, jal(0, 6)), put(p, c_nop()), put(p, c_nop())).2, 3),
    ("jalr", 0, |p| (put(p, auipc(1, 0)), put(p, jalr(1, 1, 8))).1, 3),
    ("beq, taken", 0, |p| put(p, beq(0, 0, 4)), 3),
    ("beq, not taken", 0, |p| put(p, beq(30, 0, 4)), 1),
    ("c.beqz, taken, to a word", 1, |p| (put(p, addi(8, 0, 0)), put(p, c_beqz(8, 2))).1, 4),
    ("bne, taken, to a split word", 0, |p| (put(p, bne(30, 0, 6)), put(p, c_nop())).1, 4),
    ("split words in a straight line", 1, |p| (0..8).for_each(|_| put(p, addi(1, 1, 1))), 8),
    // The handler executes three instructions and returns.
    ("ecall and mret", 0, |p| put(p, ecall()), 3 + 3 + 3),
    ("ebreak and mret", 0, |p| put(p, ebreak()), 3 + 3 + 3),
    ("illegal instruction and mret", 0, |p| put(p, 0xffff_ffff_u32), 3 + 3 + 3),
    ("mret to a split word", 1, |p| put(p, ecall()), 3 + 3 + 4),
];

fn put(program: &mut Program, instruction: impl Encoded) {
    program.put(instruction);
}

/// The facts that a timing contradicts.
fn contradicted(timing: Timing) -> Vec<String> {
    let check = |&(name, offset, body, expected): &Fact| {
        let cycles = cost(timing, &measured(offset, body));
        (cycles != expected).then(|| format!("{name}: {cycles} cycles, measured were {expected}"))
    };
    FACTS.iter().filter_map(check).collect()
}

#[test]
fn instructions_cost_what_the_rtl_takes() {
    assert_eq!(contradicted(Timing::IBEX_SMALL), [""; 0]);
}
