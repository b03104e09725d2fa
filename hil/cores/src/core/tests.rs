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

/// A program around `body`: the first store to the device marks its beginning, the second its end. x28 is the address of the
/// device, x29 that of the data, x30 is 77 and x31 is 5. `offset` halfwords come before the first store, so that with 1 `body`
/// begins in the upper half of a word.
///
/// The handler of exceptions returns to the word after the one that raised it. The vectors of the timer and the external
/// interrupt store to the device, and the timer's then stores mepc.
fn measured(offset: usize, interrupts: bool, body: fn(&mut Program)) -> Program {
    let mut program = Program::at(RAM.base);
    program.load_immediate(28, DEVICE);
    program.load_immediate(29, DATA);
    program.put(addi(30, 0, 77));
    program.put(addi(31, 0, 5));
    program.load_immediate(5, VECTOR);
    program.put(csrrw(0, csr::MTVEC, 5));
    if interrupts {
        program.load_immediate(5, 1 << 7 | 1 << 11);
        program.put(csrrw(0, csr::MIE, 5));
        program.put(csrrsi(0, csr::MSTATUS, 8));
    }
    for _ in 0..offset {
        program.put(c_nop());
    }
    program.put(sw(0, 28, 0));
    body(&mut program);
    program.put(sw(0, 28, 4));
    program.put(jal(0, 0));

    program.pad_to(VECTOR);
    program.put(csrrs(6, csr::MEPC, 0));
    program.put(addi(6, 6, 4));
    program.put(csrrw(0, csr::MEPC, 6));
    program.put(mret());
    program.pad_to(VECTOR + 4 * 7);
    program.put(sw(0, 28, 8));
    program.put(csrrs(6, csr::MEPC, 0));
    program.put(sw(6, 28, 12));
    program.put(jal(0, 0));
    program.pad_to(VECTOR + 4 * 11);
    program.put(sw(0, 28, 16));
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

/// Instruction costs with memory that responds in the next cycle.
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

/// The same with responses one cycle later, for instructions and data.
const WAIT_FACTS: &[Fact] = &[
    ("4 words", 0, |p| (0..4).for_each(|_| put(p, addi(1, 1, 1))), 5),
    ("16 words", 0, |p| (0..16).for_each(|_| put(p, addi(1, 1, 1))), 23),
    ("16 parcels", 0, |p| (0..16).for_each(|_| put(p, c_nop())), 16),
    ("lw", 0, |p| put(p, lw(1, 29, 0)), 3),
    ("lw at offset 1", 0, |p| put(p, lw(1, 29, 1)), 4),
    ("sw", 0, |p| put(p, sw(1, 29, 0)), 3),
    ("div", 0, |p| put(p, div(1, 30, 31)), 37),
    ("beq, taken", 0, |p| put(p, beq(0, 0, 4)), 5),
    ("jal", 0, |p| put(p, jal(0, 4)), 3),
    ("jal, two fetches under way", 1, |p| put(p, jal(0, 4)), 4),
];

/// A named piece of code, and for each rise of the timer line, in cycles after the first store: the cycle in which the vector's
/// instruction enters decode, after the same store, and the place in the code that it would return to.
type Sweep = (&'static str, fn(&mut Program), &'static [(u64, u64, u32)]);

/// Interrupts, with memory that responds in the next cycle. The code begins in cycle 2.
const SWEEPS: &[Sweep] = &[
    (
        "straight line",
        |p| (0..3).for_each(|_| put(p, addi(0, 0, 0))),
        &[(0, 5, 0), (1, 5, 0), (2, 6, 4), (3, 7, 8), (4, 8, 12)],
    ),
    ("lw", |p| put_all(p, &[lw(7, 29, 0), addi(0, 0, 0)]), &[(1, 5, 0), (2, 7, 4), (3, 7, 4), (4, 8, 8)]),
    ("sw", |p| put_all(p, &[sw(7, 29, 0), addi(0, 0, 0)]), &[(1, 5, 0), (2, 7, 4), (3, 7, 4), (4, 8, 8)]),
    ("lw, crossing", |p| put_all(p, &[lw(7, 29, 1), addi(0, 0, 0)]), &[(2, 8, 4), (4, 8, 4), (5, 9, 8)]),
    ("mul", |p| put_all(p, &[mul(7, 30, 31), addi(0, 0, 0)]), &[(2, 8, 4), (4, 8, 4), (5, 9, 8)]),
    ("div", |p| put_all(p, &[div(7, 30, 31), addi(0, 0, 0)]), &[(2, 42, 4), (20, 42, 4), (38, 42, 4), (39, 43, 8)]),
    (
        "branch taken",
        |p| put_all(p, &[beq(0, 0, 8), addi(0, 0, 0), addi(0, 0, 0)]),
        &[(2, 7, 8), (3, 7, 8), (4, 7, 8), (5, 9, 12)],
    ),
    ("branch not taken", |p| put_all(p, &[bne(0, 0, 8), addi(0, 0, 0), addi(0, 0, 0)]), &[(2, 6, 4), (3, 7, 8)]),
    (
        "branch to a split word",
        |p| (put(p, beq(0, 0, 6)), put(p, c_nop()), put(p, addi(0, 0, 0)), put(p, c_nop())).0,
        &[(2, 7, 6), (3, 7, 6), (4, 7, 6), (5, 8, 6), (6, 10, 10)],
    ),
    ("jal", |p| put_all(p, &[jal(0, 4), addi(0, 0, 0)]), &[(2, 7, 4), (3, 7, 4), (4, 8, 8)]),
    (
        "jal to a split word",
        |p| (put(p, jal(0, 6)), put(p, c_nop()), put(p, addi(0, 0, 0)), put(p, c_nop())).0,
        &[(2, 7, 6), (3, 7, 6), (4, 7, 6), (5, 9, 10)],
    ),
    (
        "CSR flush",
        |p| put_all(p, &[csrrsi(0, csr::MSTATUS, 8), addi(0, 0, 0)]),
        &[(2, 7, 4), (3, 7, 4), (4, 7, 4), (5, 9, 8)],
    ),
    (
        // A rise in the very cycle that disables interrupts costs a cycle, and is handled when they are enabled again.
        "critical section",
        |p| put_all(p, &[csrrci(0, csr::MSTATUS, 8), addi(0, 0, 0), csrrsi(0, csr::MSTATUS, 8), addi(0, 0, 0)]),
        &[(1, 5, 0), (2, 10, 12), (3, 9, 12), (6, 9, 12), (7, 11, 16)],
    ),
    ("ecall and mret", |p| put_all(p, &[ecall(), addi(0, 0, 0)]), &[(2, 13, 4), (6, 13, 4), (10, 13, 4), (11, 15, 8)]),
    ("wfi", |p| put_all(p, &[wfi(), addi(0, 0, 0)]), &[(1, 5, 0), (2, 9, 4), (5, 9, 4), (6, 10, 4), (11, 15, 4)]),
];

fn put_all(program: &mut Program, instructions: &[u32]) {
    for instruction in instructions {
        program.put(*instruction);
    }
}

/// Runs up to a cycle, asleep or not.
fn pass(core: &mut Ibex, cycle: u64) {
    while core.cycles() < cycle {
        if core.run(cycle) == Stop::Idle {
            core.sleep_until(cycle);
        }
    }
}

/// Raises the timer line `rise` cycles after the first store. Returns the cycle in which the vector's instruction enters
/// decode, and the offset of mepc in the code; `None` if there was no interrupt.
fn interrupted(timing: Timing, program: &Program, rise: u64) -> Option<(u64, u32)> {
    let mut core = core_with(program, timing);
    assert!(matches!(core.run(10_000), Stop::Store { address: DEVICE, .. }));
    // Every instruction up to the code is a word.
    let (begun, code) = (core.cycles(), RAM.base + 4 * (core.instructions() as u32 + 1));
    pass(&mut core, begun + rise);
    core.set_timer_line(true);
    let mut vector = None;
    loop {
        match core.run(begun + 1_000) {
            Stop::Store { address, .. } if address == DEVICE + 8 => vector = Some(core.cycles() - begun),
            Stop::Store { address, value, .. } if address == DEVICE + 12 => {
                return vector.map(|vector| (vector, value.wrapping_sub(code)));
            }
            Stop::Store { .. } => {}
            _ => return None,
        }
    }
}

/// The facts that a timing contradicts, and the facts with a wait state that `waiting` contradicts.
fn contradicted(timing: Timing, waiting: Timing) -> Vec<String> {
    let mut contradicted = Vec::new();
    for (facts, timing) in [(FACTS, timing), (WAIT_FACTS, waiting)] {
        for &(name, offset, body, expected) in facts {
            let cycles = cost(timing, &measured(offset, false, body));
            if cycles != expected {
                contradicted.push(format!("{name}: {cycles} cycles, measured were {expected}"));
            }
        }
    }
    for &(name, body, rises) in SWEEPS {
        for &(rise, vector, place) in rises {
            let found = interrupted(timing, &measured(0, true, body), rise);
            if found != Some((vector, place)) {
                contradicted.push(format!("{name}, rise at {rise}: {found:?}, measured were {vector}, {place}"));
            }
        }
    }
    for (rise, expected) in [(2, 7), (5, 7), (6, 8), (12, 14)] {
        let resumed = resumed(timing, rise);
        if resumed != expected {
            contradicted.push(format!("masked wfi, rise at {rise}: resumed at {resumed}, measured were {expected}"));
        }
    }
    contradicted
}

/// Raises the timer line `rise` cycles after the first store, with interrupts disabled. Returns the cycle of the store after a
/// `wfi`.
fn resumed(timing: Timing, rise: u64) -> u64 {
    let program = measured(0, true, |p| put_all(p, &[wfi()]));
    let mut core = core_with(&program, timing);
    assert!(matches!(core.run(10_000), Stop::Store { .. }));
    let begun = core.cycles();
    // Disables interrupts as a program would, but without instructions that would move its code.
    core.csr.write(csr::MSTATUS, 0, core.moment());
    core.interrupts_changed(begun);
    pass(&mut core, begun + rise);
    core.set_timer_line(true);
    assert!(matches!(core.run(10_000), Stop::Store { .. }));
    core.cycles() - begun
}

#[test]
fn instructions_and_interrupts_take_the_cycles_of_the_rtl() {
    assert_eq!(contradicted(Timing::IBEX_SMALL, Timing::IBEX_SMALL.with_wait(1)), [""; 0]);
}

/// Instruction costs that differ in the configuration for speed: responses to loads and stores come while the next instruction
/// is in decode, and branches know their target at once.
const MAXPERF_FACTS: &[Fact] = &[
    ("lw", 0, |p| put(p, lw(1, 29, 0)), 1),
    ("sw", 0, |p| put(p, sw(1, 29, 0)), 1),
    ("lw across words", 0, |p| put(p, lw(1, 29, 1)), 2),
    ("lw and its use", 0, |p| put_all(p, &[lw(1, 29, 0), addi(1, 1, 1)]), 3),
    ("lw and another use", 0, |p| put_all(p, &[lw(1, 29, 0), addi(2, 3, 1)]), 2),
    ("lw and a later use", 0, |p| put_all(p, &[lw(1, 29, 0), addi(2, 3, 1), addi(1, 1, 1)]), 3),
    ("lw and its store", 0, |p| put_all(p, &[lw(1, 29, 0), sw(1, 29, 4)]), 3),
    (
        "lw, and a constant with its number in the bits of a source",
        0,
        |p| put_all(p, &[lw(1, 29, 0), lui(2, 1 << 15)]),
        2,
    ),
    ("lw to x0 and a use of that", 0, |p| put_all(p, &[lw(0, 29, 0), addi(1, 0, 1)]), 2),
    ("mul", 0, |p| put(p, mul(1, 30, 31)), 1),
    ("mulh", 0, |p| put(p, mulh(1, 30, 31)), 2),
    ("div", 0, |p| put(p, div(1, 30, 31)), 37),
    ("jal", 0, |p| put(p, jal(1, 4)), 2),
    ("beq, taken", 0, |p| put(p, beq(0, 0, 4)), 2),
    ("bne, taken, to a split word", 0, |p| (put(p, bne(30, 0, 6)), put(p, c_nop())).1, 3),
];

#[test]
fn the_writeback_stage_hides_the_wait_for_responses() {
    for &(name, offset, body, expected) in MAXPERF_FACTS {
        assert_eq!(cost(Timing::IBEX_MAXPERF, &measured(offset, false, body)), expected, "{name}");
    }
}

/// Every timing rule is needed: without it, at least one of the facts above fails.
#[test]
fn no_timing_rule_can_be_removed() {
    macro_rules! without {
        ($($rule:ident = $value:expr),* $(,)?) => {{
            // A rule that is added to the model must be added here.
            let Timing { writeback: _, jump_empty: _, load_use: _, $($rule: _),* } = Timing::IBEX_SMALL;
            [$((stringify!($rule), (|timing| Timing { $rule: $value, ..timing }) as fn(Timing) -> Timing)),*]
        }};
    }
    let removals = without! {
        alu = 2,
        load = 1,
        store = 1,
        crossing = 0,
        mul = 1,
        mulh = 3,
        div = 1,
        div_by_zero = 1,
        jump = 1,
        branch_taken = 1,
        split_target = 0,
        mret = 2,
        trap = 2,
        csr_flush = 1,
        empty = 0,
        interrupt = 1,
        sleep = 1,
        wake = 1,
        fetch_wait = 0,
        data_wait = 0,
    };
    for (rule, remove) in removals {
        let (timing, waiting) = (remove(Timing::IBEX_SMALL), remove(Timing::IBEX_SMALL.with_wait(1)));
        assert!(!contradicted(timing, waiting).is_empty(), "nothing fails without the rule `{rule}`");
    }
}

/// The external interrupt has priority over the timer's, and its own vector.
#[test]
fn the_external_interrupt_has_priority_over_the_timer() {
    let program = measured(0, true, |p| put_all(p, &[addi(0, 0, 0); 3]));
    let mut core = core_with(&program, Timing::IBEX_SMALL);
    assert!(matches!(core.run(10_000), Stop::Store { .. }));
    let begun = core.cycles();
    core.set_timer_line(true);
    core.set_external_line(true);
    assert_eq!(core.run(10_000), Stop::Store { address: DEVICE + 16, width: 4, value: 0 });
    assert_eq!(core.cycles(), begun + 5);
}

/// A run may be cut in pieces in any cycle: the sum of the cycles is the same, and time never goes back.
#[test]
fn runs_can_be_cut_in_any_cycle() {
    let timings = [Timing::IBEX_SMALL, Timing::IBEX_MAXPERF].map(|timing| [0, 1, 3].map(|wait| timing.with_wait(wait)));
    for timing in timings.into_iter().flatten() {
        let program = measured(1, true, |p| {
            put_all(p, &[div(7, 30, 31), lw(1, 29, 1), beq(1, 0, 4), lw(1, 29, 4), beq(0, 0, 4), mul(1, 7, 7)]);
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
        assert_eq!(stamps[1] - stamps[0], whole + timing.store + timing.data_wait);
    }
}

/// A watched instruction stops the run before it executes, once each time that it is reached.
#[test]
fn watched_instructions_stop_the_run() {
    let mut program = Program::at(RAM.base);
    program.put(addi(1, 0, 3));
    let again = program.put(addi(1, 1, -1));
    program.put(bne(1, 0, -4));
    program.put(jal(0, 0));
    let mut core = core_with(&program, Timing::IBEX_SMALL);
    core.watch(again);
    for (left, cycle) in [(3, 1), (2, 5), (1, 9)] {
        assert_eq!(core.run(100), Stop::Watch { pc: again });
        assert_eq!((core.register(1), core.cycles()), (left, cycle));
    }
    core.unwatch(again);
    assert_eq!(core.run(100), Stop::Cycle);
    assert_eq!(core.register(1), 0);
}

/// Code that is overwritten, by the program itself or by the harness, executes as written.
#[test]
fn written_code_is_decoded_again() {
    let mut program = Program::at(RAM.base);
    program.load_immediate(28, DEVICE);
    program.load_immediate(2, addi(1, 0, 2));
    program.put(auipc(3, 0));
    let place = program.put(addi(1, 0, 1));
    program.put(sw(1, 28, 0));
    program.put(sw(2, 3, 4));
    program.put(fence_i());
    program.put(jal(0, place.wrapping_sub(program.here()) as i32));
    let mut core = core_with(&program, Timing::IBEX_SMALL);
    for value in [1, 2] {
        assert_eq!(core.run(10_000), Stop::Store { address: DEVICE, width: 4, value });
    }
    core.poke(program.base() + 8, &lui(2, addi(1, 0, 3)).to_le_bytes());
    core.poke(place, &addi(1, 0, 9).to_le_bytes());
    core.poke(place + 8, &addi(0, 0, 0).to_le_bytes());
    assert_eq!(core.run(10_000), Stop::Store { address: DEVICE, width: 4, value: 9 });
}

/// Loads from devices are extended as the instruction says.
#[test]
fn device_loads_are_extended() {
    let loads =
        [(lb(1, 28, 1), 0xffff_ffff), (lbu(1, 28, 1), 0xff), (lh(1, 28, 2), 0xffff_f0ff), (lhu(1, 28, 2), 0xf0ff)];
    for (load, expected) in loads {
        let mut program = Program::at(RAM.base);
        program.load_immediate(28, DEVICE);
        program.put(load);
        program.put(jal(0, 0));
        let mut core = core_with(&program, Timing::IBEX_SMALL);
        assert!(matches!(core.run(100), Stop::Load { .. }));
        assert_eq!((core.cycles(), core.instructions()), (2, 2));
        core.answer(0x1234_f0ff);
        assert_eq!(core.run(100), Stop::Cycle);
        assert_eq!(core.register(1), expected);
    }
}

/// An access to neither RAM nor device ends the run with a fault, in the cycle and at the address of the access.
#[test]
fn accesses_outside_ram_and_devices_are_faults() {
    let cases = [
        (lw(1, 0, 0), 0),
        (sw(1, 0, 4), 4),
        (lw(1, 28, 2), DEVICE + 2),
        (lw(1, 28, 0x100), DEVICE + 0x100),
        (jalr(0, 0, 0x20), 0x20),
    ];
    for (instruction, address) in cases {
        let mut program = Program::at(RAM.base);
        program.load_immediate(28, DEVICE);
        let pc = program.put(instruction);
        let mut core = core_with(&program, Timing::IBEX_SMALL);
        for _ in 0..2 {
            let Stop::Fault { pc: at, address: found, .. } = core.run(100) else { panic!("no fault") };
            assert_eq!(found, address);
            assert_eq!(at, if address == 0x20 { 0x20 } else { pc });
        }
    }
}

/// Division's corner cases: volume I, chapter "M", table of results by zero and on overflow.
#[test]
fn division_follows_the_manual() {
    let minimum = 1_u32 << 31;
    let minus = |value: i32| -value as u32;
    let cases = [
        (div(3, 1, 2), 7, 0, u32::MAX),
        (divu(3, 1, 2), 7, 0, u32::MAX),
        (rem(3, 1, 2), 7, 0, 7),
        (remu(3, 1, 2), 7, 0, 7),
        (div(3, 1, 2), minimum, u32::MAX, minimum),
        (rem(3, 1, 2), minimum, u32::MAX, 0),
        (div(3, 1, 2), minus(7), 2, minus(3)),
        (rem(3, 1, 2), minus(7), 2, minus(1)),
        (divu(3, 1, 2), minus(7), 2, 0x7fff_fffc),
        (mulh(3, 1, 2), minimum, minimum, 0x4000_0000),
        (mulhsu(3, 1, 2), u32::MAX, u32::MAX, u32::MAX),
        (mulhu(3, 1, 2), u32::MAX, u32::MAX, u32::MAX - 1),
    ];
    for (instruction, a, b, expected) in cases {
        let mut program = Program::at(RAM.base);
        program.load_immediate(1, a);
        program.load_immediate(2, b);
        program.put(instruction);
        program.put(jal(0, 0));
        let mut core = core_with(&program, Timing::IBEX_SMALL);
        assert_eq!(core.run(100), Stop::Cycle);
        assert_eq!(core.register(3), expected, "{instruction:08x} of {a:x} and {b:x}");
    }
}
